"""A release made from objects is the release made from files; its copy in a store is whole, or is known not to be."""

import json
import re
import shutil
from pathlib import Path

import pytest
from tests.object_store import ObjectStore
from tests.samples import nightly

import tallyveil
from tallyveil.errors import StoreError, TallyveilError
from tallyveil.files.manifest import ReleaseKind
from tallyveil.files.manifest_files import read_manifest
from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.exchange.copying import copy_release
from tallyveil.products.topdown.run.run import measure_release, run_release
from tallyveil.storage.addresses import addressed

KEY = insecure_key("object store")
SECRET = b"the-secret-that-nobody-may-see"
COPY = addressed("s3://bucket/published/2030 a")
TOP = "bucket/published/2030 a/"


@pytest.fixture
def store(monkeypatch):
    with ObjectStore("bucket") as found:
        for name, value in found.environment().items():
            monkeypatch.setenv(name, value)
        yield found


@pytest.fixture(scope="module")
def whole(tmp_path_factory, make_small_inputs):
    folder = tmp_path_factory.mktemp("whole")
    return run_release(load_plan(make_small_inputs(folder)), folder / "out", test_key=KEY).path


@pytest.fixture
def out(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "out")


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def copied(store) -> dict[str, bytes]:
    return {name.removeprefix(TOP): data for name, data in store.objects.items() if name.startswith(TOP)}


def test_a_copy_is_verified_in_the_store(out, store):
    copy_release(out, COPY)
    address = "s3://bucket/published/2030 a"
    verdict, of_folder = tallyveil.verify(address), tallyveil.verify(out)
    assert verdict.holds, verdict.wrong
    assert address in verdict.subject
    assert (verdict.proved, verdict.compared) == (of_folder.proved, of_folder.compared)
    store.objects[f"{TOP}tables/epsilon is 0.1.csv"] = b"1"
    (wrong,) = tallyveil.verify(address).wrong
    assert "lies beside the release" in wrong
    store.objects.pop(f"{TOP}tables/epsilon is 0.1.csv")
    store.objects[f"{TOP}datapackage.json"] += b" "
    with pytest.raises(StoreError, match="datapackage"):
        tallyveil.verify(address)


def test_a_release_made_from_objects_is_the_one_made_from_files(small_release, store, whole, tmp_path):
    text = small_release.read_text()
    for path in small_release.parent.iterdir():
        if path.suffix in (".parquet", ".csv"):
            store.objects[f"bucket/inputs 1/{path.name}"] = path.read_bytes()
            text = text.replace(f'"{path.name}"', f'"s3://bucket/inputs 1/{path.name}"')
    assert text.count("s3://") >= 2
    small_release.write_text(text)
    made = contents(run_release(load_plan(small_release), tmp_path / "objects", test_key=KEY).path)
    expected = contents(whole)
    assert made.keys() == expected.keys()
    assert made == expected
    assert not any(SECRET in data or b"bucket" in data for data in made.values())


@pytest.mark.nightly
def test_measurements_are_imported_from_a_store(small_release, store, tmp_path):
    """As from the folder: the same files in a store give the same measurements and the same digests."""
    plan = load_plan(small_release)
    measure_release(plan, tmp_path / "measured", test_key=KEY)
    tidy = tmp_path / "tidy"
    tallyveil.export_measurements(tmp_path / "measured", tidy, layout="tidy")
    (tidy / "measurements" / "_SUCCESS").touch()
    for name, data in contents(tidy).items():
        store.objects[f"bucket/noisy 1/{name}"] = data
    wanted = {"description": tidy / "description.json"}
    here = tallyveil.import_measurements(tidy, tmp_path / "here", **wanted)
    address = addressed("s3://bucket/noisy 1")
    there = tallyveil.import_measurements(address, tmp_path / "there", **wanted)
    assert there.manifest.body["imported"] == here.manifest.body["imported"]
    assert there.measurements("Town", "age*home").equals(here.measurements("Town", "age*home"))
    assert not there.protected
    # What has changed since the import began is not the same import.
    name = next(name for name in store.objects if "noisy 1/measurements" in name and name.endswith("parquet"))
    store.objects[name] = store.objects[name][:-20]
    with pytest.raises(StoreError, match="s3://bucket/noisy 1/measurements"):
        tallyveil.import_measurements(address, tmp_path / "again", **wanted)


def test_an_object_that_changed_since_the_run_began_is_noticed(small_release, store, tmp_path, killed_at):
    records = small_release.parent / "people.parquet"
    store.objects["bucket/records.parquet"] = records.read_bytes()
    small_release.write_text(
        small_release.read_text().replace("people.parquet", "s3://bucket/records.parquet")
    )
    plan, out = load_plan(small_release), tmp_path / "changed"
    assert killed_at(9, lambda: run_release(plan, out, test_key=KEY))
    import io

    import polars as pl

    changed = io.BytesIO()
    pl.read_parquet(records)[:-1].write_parquet(changed)
    store.objects["bucket/records.parquet"] = changed.getvalue()
    with pytest.raises(StoreError) as caught:
        run_release(plan, out, test_key=KEY)
    assert caught.value.code == "resume-changed"
    store.objects["bucket/records.parquet"] = records.read_bytes()
    assert not run_release(plan, out, test_key=KEY).already_finished


def test_nothing_is_spent_where_a_store_refuses(small_release, store, tmp_path):
    small_release.write_text(
        small_release.read_text().replace("people.parquet", "s3://bucket/records.parquet")
    )
    store.denied = {"GET", "HEAD"}
    with pytest.raises(StoreError) as caught:
        run_release(load_plan(small_release), tmp_path / "refused", test_key=KEY)
    assert caught.value.code == "object-denied"
    assert not (tmp_path / "refused").exists()


def test_a_copy_goes_there_and_back(out, store, tmp_path):
    (out / "evaluation").mkdir()
    (out / "evaluation" / "errors.json").write_text("true counts")
    (out / "notes.txt").write_text("mine")
    (out / "link").symlink_to(out / "notes.txt")
    made = copy_release(out, COPY)
    assert made.left_out == ("evaluation/errors.json", "notes.txt")
    expected = contents(out)
    for name in ("evaluation/errors.json", "notes.txt", "link"):
        del expected[name]
    assert copied(store) == expected
    assert (made.files, made.bytes, made.already_there) == (
        len(expected),
        sum(map(len, expected.values())),
        0,
    )
    written = [name for method, name in store.requests if method in {"POST", "PUT"}]
    assert written[-1] == TOP + "manifest.json"
    assert copy_release(out, COPY).already_there == len(expected)
    back = tmp_path / "back"
    assert copy_release(COPY, back).files == len(expected)
    assert contents(back) == expected
    assert read_manifest(back, *ReleaseKind).run == made.manifest.run


@pytest.mark.parametrize("number", [nightly(1), 8, nightly(28)])
def test_an_interrupted_copy_is_known_and_goes_on(out, store, tmp_path, number):
    written = []

    def refuse(method, name):
        written.extend([name] if method in ("PUT", "POST") and name not in written else [])
        store.denied = {"PUT", "POST"} if len(written) > number else set()

    store.before = refuse
    with pytest.raises(StoreError) as caught:
        copy_release(out, COPY)
    assert caught.value.code == "object-denied"
    assert "manifest.json" not in copied(store)
    with pytest.raises(StoreError, match="it has no manifest"):
        copy_release(COPY, tmp_path / "back")
    store.before, store.denied = lambda method, name: None, set()
    made = copy_release(out, COPY)
    assert 0 < made.already_there < made.files or number < 28
    assert copy_release(COPY, tmp_path / "back").files == made.files


def test_what_is_changed_on_its_way_is_noticed_and_mended(out, store, tmp_path):
    damaged = TOP + "geography.parquet"

    def damage(method, name):
        if name == damaged and method in ("GET", "HEAD") and name in store.objects:
            store.objects[name] = b"?" + store.objects[name][1:]

    store.before = damage
    with pytest.raises(StoreError, match="does not have the SHA-256") as caught:
        copy_release(out, COPY)
    assert caught.value.code == "release-damaged"
    assert "manifest.json" not in copied(store)
    store.before = lambda method, name: None
    copy_release(out, COPY)

    store.before = damage
    back = tmp_path / "back"
    with pytest.raises(StoreError, match="does not have the SHA-256"):
        copy_release(COPY, back)
    with pytest.raises(StoreError) as caught:
        read_manifest(back, *ReleaseKind)
    assert caught.value.code == "folder-unfinished"
    store.before = lambda method, name: None
    store.objects[damaged] = (out / "geography.parquet").read_bytes()
    assert copy_release(COPY, back).already_there > 0
    assert contents(back) == contents(out)


def test_a_file_that_was_changed_in_the_folder_is_not_published(out, store):
    (out / "geography.parquet").write_bytes((out / "geography.parquet").read_bytes()[:-1] + b"?")
    with pytest.raises(TallyveilError):
        copy_release(out, COPY)
    assert "manifest.json" not in copied(store)


def test_the_key_of_a_run_is_never_copied(out, store):
    (out / "private").mkdir(mode=0o700)
    (out / "private" / "run.json").write_text("the key")
    with pytest.raises(StoreError) as caught:
        copy_release(out, COPY)
    assert caught.value.code == "release-unfinished"
    assert not store.requests


@pytest.mark.parametrize("what", ["foreign", "another release"])
def test_a_target_that_holds_something_else(out, store, what):
    store.objects[TOP + {"foreign": "mine.txt", "another release": "manifest.json"}[what]] = b"x"
    before = dict(store.objects)
    with pytest.raises(StoreError) as caught:
        copy_release(out, COPY)
    assert caught.value.code == "folder-taken"
    assert store.objects == before


@pytest.mark.parametrize("name", ["private/run.json", "../outside", "/outside", "a/../../outside"])
def test_a_hostile_manifest_writes_nothing_outside_its_folder(out, store, tmp_path, name):
    from tallyveil.files.manifest_files import parsed_manifest
    from tallyveil.storage.json_files import digest_of

    copy_release(out, COPY)
    content = json.loads(store.objects[TOP + "manifest.json"])
    content["files"][0]["path"] = name
    rest = {key: value for key, value in content.items() if key != "digest"}
    content = {**rest, "digest": digest_of(rest).hex()}
    assert parsed_manifest(out, dict(content))
    store.objects[TOP + "manifest.json"] = json.dumps(content).encode()
    store.objects[TOP + name] = b"planted"
    with pytest.raises(StoreError) as caught:
        copy_release(COPY, tmp_path / "deep" / "back")
    assert caught.value.code == "release-damaged"
    assert b"planted" not in contents(tmp_path).values()


@pytest.mark.parametrize("data", [b"", b"[", b"[]", b"{}", b"[" * 100_000, b"\xff"])
def test_a_damaged_manifest_in_the_store(store, tmp_path, data):
    store.objects[TOP + "manifest.json"] = data
    with pytest.raises(StoreError):
        copy_release(COPY, tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_one_side_is_a_folder(out, store, tmp_path):
    for source, target in ((out, tmp_path / "b"), (COPY, addressed("s3://bucket/b"))):
        with pytest.raises(TallyveilError, match="takes one folder and one address"):
            copy_release(source, target)


def test_the_command(out, small_release, store, command, tmp_path):
    said = command("copy", str(out), "s3://bucket/published/2030 a")
    assert "NOT PRIVATE" in said
    assert "s3://bucket/published/2030 a holds the release of run" in said
    back = command("copy", "s3://bucket/published/2030 a", f"file://{tmp_path}/back", "--json")
    record = json.loads(back.splitlines()[-1])
    assert record["copy"] == str(tmp_path / "back")
    assert record["files"] == len(copied(store))
    assert "[bad-address]" in command("run", str(small_release), "--out", "s3://bucket/x", code=2)
    assert "tallyveil copy" in command("report", "s3://bucket/published/2030 a", code=8)
    assert SECRET.decode() not in command("copy", f"s3://me:{SECRET.decode()}@bucket/a", "b", code=2)


def test_from_python(small_release, store, out):
    import tallyveil

    programme = small_release.with_name("programme.toml")
    programme.write_text('[programme]\nname = "p"\n[[releases]]\nname = "a"\nfile = "release.toml"\n')
    with pytest.raises(TallyveilError, match="tallyveil copy"):
        tallyveil.run(small_release, "s3://bucket/x")
    with pytest.raises(TallyveilError, match="tallyveil copy"):
        tallyveil.run_programme(programme, "s3://bucket/x")
    with pytest.raises(TallyveilError, match="Copy the release first"):
        tallyveil.open("s3://bucket/x")
    with pytest.raises(TallyveilError, match="where only tables are read"):
        tallyveil.plan("s3://bucket/release.toml")
    assert tallyveil.open(f"file://{out}").path == out
    assert not store.requests
    assert not Path("s3:").exists()


@pytest.mark.nightly
def test_the_page_of_the_documentation(small_release, store, command, tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "object-stores.md").read_text()
    (toml,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (lines,) = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    store.buckets |= {"office", "published"}
    for name in ("people", "geography"):
        path = small_release.parent / f"{name}.parquet"
        store.objects[f"office/2030/{path.name}"] = path.read_bytes()
        path.unlink()
    text = small_release.read_text()
    own = re.sub(r"\[records\].*?(?=geolevels)", lambda _: toml, text, count=1, flags=re.DOTALL)
    small_release.write_text(own)
    monkeypatch.chdir(small_release.parent)
    for line in lines.splitlines():
        command(*line.split()[1:])
    assert Path("elsewhere/report.html").is_file()
    assert "published/census/2030/manifest.json" in store.objects
