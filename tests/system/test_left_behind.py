"""What a killed run leaves on disk: its key, in the private folder alone, and no true count anywhere."""

import json
import tempfile

import polars as pl
import pytest

from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.products.topdown.run.run import run_release

CANARY = 7_654_321
KEY = insecure_key("left behind")


@pytest.fixture
def plan(small_release):
    """A release in whose records one count is the canary, and none of whose totals is exact."""
    path = small_release.parent / "people.parquet"
    counts = pl.read_parquet(path)["count"].to_list()
    counts[2] = CANARY
    frame = pl.read_parquet(path).with_columns(pl.Series("count", counts))
    frame.write_parquet(path)
    text = small_release.read_text()
    start, stop = text.index("[[invariants]]"), text.index("[[bounds]]")
    small_release.write_text(text[:start] + text[stop:])
    return load_plan(small_release)


def holds_canary(path):
    """Whether a file holds the canary, as text or as a number; looked for in every column of a table."""
    if path.suffix == ".parquet":
        return str(CANARY) in repr(pl.read_parquet(path).rows())
    data = path.read_bytes()
    forms = (str(CANARY).encode(), f"{CANARY:,}".encode(), CANARY.to_bytes(8, "little"))
    return any(form in data for form in forms)


@pytest.mark.parametrize(
    "number", [6, 14, *(pytest.param(number, marks=pytest.mark.nightly) for number in (3, 10, 19))]
)
def test_a_killed_run(plan, tmp_path, monkeypatch, killed_at, number):
    scratch, out = tmp_path / "scratch", tmp_path / "out"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    assert killed_at(number, lambda: run_release(plan, out, test_key=KEY))
    files = [path for path in out.rglob("*") if path.is_file()]
    assert [path.name for path in files if holds_canary(path)] == []
    assert not list(scratch.iterdir())
    with_key = [path for path in files if KEY.hex().encode() in path.read_bytes() or KEY in path.read_bytes()]
    assert with_key == [out / "private" / "run.json"]


def test_the_canary_is_found_where_it_is(plan, tmp_path):
    """The search itself: in a table, in a list of a table, as text and as bytes."""
    assert holds_canary(plan.records.path)
    pl.DataFrame({"values": [[1, CANARY]]}).write_parquet(tmp_path / "list.parquet")
    (tmp_path / "text.json").write_text(json.dumps({"count": CANARY}))
    (tmp_path / "bytes").write_bytes(b"x" + CANARY.to_bytes(8, "little"))
    assert all(
        holds_canary(path) for path in (tmp_path / name for name in ("list.parquet", "text.json", "bytes"))
    )
