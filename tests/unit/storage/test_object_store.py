"""Objects are read as files are: whole, unchanged, and with errors that say what to do and show no secret."""

import io
import os
import subprocess
import sys

import polars as pl
import pytest
from tests.object_store import ObjectStore
from tests.samples import few

from tallyveil.errors import ConfigError, StoreError
from tallyveil.storage import addresses
from tallyveil.storage.addresses import addressed, located
from tallyveil.storage.object_store import identity, polars_settings
from tallyveil.storage.read import (
    collect,
    collect_batches,
    input_size,
    is_input,
    open_input,
    read_table,
    scan_table,
)

SECRET = "the-secret-that-nobody-may-see"
ROWS = pl.DataFrame({"geocode": ["01", "02", "03"], "count": [1, 2, 3]})


@pytest.fixture
def store(monkeypatch, tmp_path):
    with ObjectStore("bucket") as found:
        for name, value in found.environment().items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("AWS_ENDPOINT_URL_S3", raising=False)
        yield found


def put(store, key, frame=ROWS):

    stream = io.BytesIO()
    frame.write_csv(stream) if key.endswith(".csv") else frame.write_parquet(stream)
    store.objects[f"bucket/{key}"] = stream.getvalue()
    return addressed(f"s3://bucket/{key}")


KEYS = (
    "plain",
    "a b",
    "a%20b",
    "*?[1]{2}",
    "~",
    "é日",
    "a#b&c=d;e+f",
    "a'b\"c",
    "a\\b",
    "...",
    "$HOME",
    "a:b@c",
)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.parametrize("key", few(6, KEYS))
def test_a_table_is_read_whatever_its_key(store, key, ending):
    path = put(store, f"{key}/rows.{ending}")
    frame = read_table(path, ["geocode", "count"], "geography")
    assert frame["geocode"].to_list() == ["01", "02", "03"]
    assert [int(count) for count in frame["count"]] == [1, 2, 3]
    batches = collect_batches(scan_table(path, ["count"], "records"), path, "records")
    assert sum(batch.height for batch in batches) == 3
    with open_input(path, "records") as opened:
        assert opened.read() == store.objects[f"bucket/{key}/rows.{ending}"]
    assert input_size(path, "records") == len(store.objects[f"bucket/{key}/rows.{ending}"])
    assert is_input(path, "records")


def test_lines_are_read_one_after_the_other(store):
    store.objects["bucket/lines.txt"] = b"header\n" + b"x" * (1 << 20) + b"\nlast"
    with open_input(addressed("s3://bucket/lines.txt"), "records") as opened:
        assert [len(line) for line in opened] == [7, (1 << 20) + 1, 4]


def test_what_is_not_there(store):
    for address in ("s3://bucket/none.parquet", "s3://nobucket/none.parquet", "s3://bucket/none.csv"):
        with pytest.raises(StoreError, match=f"the records file {address} does not exist") as caught:
            scan_table(addressed(address), ["a"], "records")
        assert caught.value.code == "input-missing"


def test_a_twice_named_column_and_a_missing_one(store):
    store.objects["bucket/twice.csv"] = b"a,a,b\n1,2,3\n"
    with pytest.raises(ConfigError, match="more than once"):
        scan_table(addressed("s3://bucket/twice.csv"), ["a"], "records")
    with pytest.raises(ConfigError, match="lacks the wanted column"):
        scan_table(put(store, "rows.parquet"), ["block"], "geography")


@pytest.mark.parametrize("length", [0, 3, 100])
def test_an_object_that_was_cut_off(store, length):
    path = put(store, "rows.parquet")
    store.objects["bucket/rows.parquet"] = store.objects["bucket/rows.parquet"][:length]
    with pytest.raises(StoreError) as caught:
        read_table(path, ["count"], "geography")
    assert caught.value.code == "input-unreadable"


def test_an_object_that_is_replaced_while_it_is_read(store):
    path = put(store, "rows.parquet")
    frame = scan_table(path, ["count"], "records")
    seen = iter(range(100))

    def replaced(method, name):
        if method == "GET" and next(seen) == 0:
            put(store, "rows.parquet", ROWS.with_columns(pl.col("count") + 1))

    store.before = replaced
    with pytest.raises(StoreError) as caught:
        collect(frame, path, "records")
    assert caught.value.code in ("input-changed", "input-unreadable")
    assert "records" in str(caught.value)


def test_an_object_that_is_replaced_right_after_it_was_read(store):
    path = put(store, "rows.parquet")
    batches = collect_batches(scan_table(path, ["count"], "records"), path, "records")
    assert next(batches).height == 3
    put(store, "rows.parquet", ROWS.reverse())
    with pytest.raises(StoreError, match="was replaced while it was read") as caught:
        next(batches)
    assert caught.value.code == "input-changed"


def test_access_that_is_denied(store):
    path = put(store, "rows.parquet")
    store.denied = {"GET", "HEAD"}
    with pytest.raises(StoreError) as caught:
        scan_table(path, ["count"], "records")
    assert caught.value.code == "object-denied"
    assert "AWS_SECRET_ACCESS_KEY" in str(caught.value)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("missing", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
def test_credentials_come_from_the_environment_alone(store, monkeypatch, tmp_path, missing):
    path = put(store, "rows.parquet")
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(
        "[default]\naws_access_key_id = a\naws_secret_access_key = b\n"
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv(missing)
    with pytest.raises(StoreError, match=f"the environment has no {missing}"):
        scan_table(path, ["count"], "records")
    assert not store.requests


@pytest.mark.parametrize(
    "endpoint",
    [
        f"https://u:{SECRET}@host",
        "host:9000",
        "ftp://host",
        f"https://host/{SECRET}",
        "https://h?a=b",
        "http://[",
        "https://h:x",
        "https:///",
    ],
)
def test_an_endpoint_that_may_hold_a_secret_is_refused_and_not_shown(store, monkeypatch, endpoint):
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    with pytest.raises(StoreError) as caught:
        is_input(addressed("s3://bucket/rows.parquet"), "records")
    assert caught.value.code == "bad-address"
    assert endpoint not in str(caught.value)


def test_an_endpoint_without_tls_is_on_this_machine_unless_told(store, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://store.example")
    with pytest.raises(StoreError, match="could read what is confidential"):
        polars_settings()
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    assert polars_settings()["storage_options"]["aws_endpoint_url"] == "http://store.example"
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://store.example/")
    assert polars_settings()["storage_options"]["aws_endpoint_url"] == "https://store.example"


@pytest.mark.nightly
def test_the_certificate_of_an_authority_of_its_own(store, tmp_path):
    """Both libraries take it from the same variable, and refuse the store without it."""
    put(store, "rows.parquet")
    authority = store.encrypt(tmp_path)
    program = (
        "from tallyveil.storage.addresses import addressed\nfrom tallyveil.storage.read import read_table\n"
        "from tallyveil.errors import StoreError\n"
        "try:\n    print(read_table(addressed('s3://bucket/rows.parquet'), ['count'], 'records').height)\n"
        "except StoreError as error:\n    print(error.code)"
    )
    for certificate, said in (({"SSL_CERT_FILE": str(authority)}, "3\n"), ({}, "object-store\n")):
        here = os.environ | store.environment() | certificate
        made = subprocess.run(
            [sys.executable, "-c", program], env=here, capture_output=True, text=True, check=True
        )
        assert made.stdout == said


def test_a_store_that_does_not_answer(store, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(StoreError) as caught:
        identity(addressed("s3://bucket/rows.parquet"), "records")
    assert caught.value.code == "object-store"


def test_a_text_that_is_too_large_to_hold(store, monkeypatch):
    path = put(store, "rows.csv")
    monkeypatch.setattr("tallyveil.storage.object_store.MOST_TEXT", 5)
    with pytest.raises(StoreError, match="Store it as Parquet") as caught:
        scan_table(path, ["count"], "records")
    assert caught.value.code == "object-store"
    assert not [name for method, name in store.requests if method == "GET" and name.endswith(".csv")]


def test_without_the_package_that_asks_for_objects(store, monkeypatch):

    monkeypatch.setitem(sys.modules, "pyarrow.fs", None)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "another")  # no store is open for it
    with pytest.raises(StoreError, match=r"pip install 'tallyveil\[object-stores\]'"):
        scan_table(addressed("s3://bucket/rows.parquet"), ["count"], "records")


def test_nothing_of_an_object_is_left_on_the_disk(store, monkeypatch, tmp_path):
    """Polars has a folder for copies of objects. Records must not be in it."""
    import subprocess

    put(store, "rows.csv")
    put(store, "rows.parquet")
    program = (
        "from tallyveil.storage.addresses import addressed\nfrom tallyveil.storage.read import *\n"
        "for key in ('rows.csv', 'rows.parquet'):\n"
        "    path = addressed('s3://bucket/' + key)\n"
        "    frame = scan_table(path, ['geocode', 'count'], 'records')\n"
        "    print(sum(b.height for b in collect_batches(frame, path, 'records')))"
    )
    (tmp_path / "temporary").mkdir()
    here = os.environ | {
        "TMPDIR": str(tmp_path / "temporary"),
        "POLARS_TEMP_DIR": str(tmp_path / "temporary"),
    }
    made = subprocess.run(
        [sys.executable, "-c", program], env=here, capture_output=True, text=True, check=True
    )
    assert made.stdout.split() == ["3", "3"]
    left = [path.read_bytes() for path in (tmp_path / "temporary").rglob("*") if path.is_file()]
    assert not any(b"geocode" in data or b"PAR1" in data for data in left)


def test_addresses_and_paths(tmp_path):
    assert located(tmp_path, "rows.parquet") == tmp_path / "rows.parquet"
    assert located(tmp_path, "/rows.parquet").as_posix() == "/rows.parquet"
    assert addresses.address_of(located(tmp_path, "S3://bucket/a b/%20")) == "s3://bucket/a b/%20"
    assert located(tmp_path, "file:///data/a%20b%23.csv").as_posix() == "/data/a b#.csv"
    assert located(tmp_path, "file://localhost/data").as_posix() == "/data"
    assert not addresses.is_object(tmp_path / "s3:")


WRONG = (
    f"s3://user:{SECRET}@bucket/key",
    f"s3://AKIA:{SECRET}/more@bucket/key",
    f"s3://{SECRET}@bucket/key",
    f"file://user:{SECRET}@host/path",
    "s3://bucket/a//b",
    "s3://bucket/a/../b",
    "s3://bucket/./b",
    "s3://bucket/a\x1b[31m",
    "s3://bucket/a\nb",
    "s3:///key",
    "s3://b*/key",
    f"s3://bucket/{'a' * 1025}",
    "file://host/path",
    "file://[/path",
    "file:relative",
    "file:///a%00b",
    "file:///a?b",
    f"https://user:{SECRET}@host/x",
    "gs://bucket/key",
)


@pytest.mark.parametrize("text", WRONG)
def test_addresses_that_are_refused(tmp_path, text):
    if text == "file:relative":  # no slashes, so it is a path
        assert located(tmp_path, text) == tmp_path / text
        return
    with pytest.raises(ConfigError) as caught:
        located(tmp_path, text)
    assert caught.value.code == "bad-address"
    assert SECRET not in str(caught.value)
    assert "\x1b" not in str(caught.value)
