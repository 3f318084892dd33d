"""The sum of the estimates of any table is the estimate of the sum, whichever door a table is read through."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest
from tests.reserve_spine import ENTITIES, STEPS, entities_of, with_shares
from tests.samples import nightly

import tallyveil
from tallyveil.errors import ConfigError, StoreError
from tallyveil.explore.opened import open_for_explorer
from tallyveil.files import tables, whole_tables
from tallyveil.files.manifest import listed_file
from tallyveil.files.manifest_files import read_manifest, write_manifest
from tallyveil.files.tables import LEFT_OUT, ROWS
from tallyveil.files.whole_tables import publish_csv
from tallyveil.postprocess.intervals.job import make_intervals
from tallyveil.schema.schema import schema_from_mapping
from tallyveil.storage.read import parquet_metadata, read_parquet

KEY = "sums of estimates"
QUERIES = ("total", "age", "age*home", "detailed")
MOST_LISTED = 4
"""Most answers of a query whose tables hold zeros in these releases; those of `age*home` and `detailed` do not."""
LAPLACE = (
    'mechanism = "discrete_gaussian"\nrho = "2"',
    'mechanism = "discrete_laplace"\nepsilon = "2"',
    '[strategy]\nrho = "2"',
    '[strategy]\nepsilon = "2"',
)


def plain(path: Path) -> None:
    """The release as it is."""


def laplace(path: Path) -> None:
    """With Laplace noise, whose estimates have no intervals."""
    text = path.read_text()
    for old, new in zip(LAPLACE[::2], LAPLACE[1::2], strict=True):
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)


def small(path: Path) -> None:
    """With the measurements of small queries alone, so that each table is estimated by itself."""
    path.write_text(path.read_text().replace("[outputs]\n", '[outputs]\nmeasurements = "small"\n'))


def drawn(path: Path) -> None:
    """With counts of towns that are drawn on a lattice."""
    item = '[[subspace]]\nquery = "total"\ngeolevel = "Town"\nrho = "1/4"\n\n[[bounds]]'
    text = path.read_text().replace("[[bounds]]", item)
    path.write_text(text.replace('_gaussian"\nrho = "2"', '_gaussian"\nrho = "9/4"'))


def cut(path: Path) -> None:
    """On a spine that cuts towns, with tables of places."""
    entities_of(path.parent).write_parquet(path.parent / "entities.parquet")
    path.write_text(with_shares(path.read_text()) + 'entities = ["place"]\n' + ENTITIES + STEPS)


some = pytest.mark.parametrize(
    "released", [plain, nightly(cut)], ids=lambda change: change.__name__, indirect=True, scope="module"
)
"""For what does not depend on the measurements: a release on its geography, and one with areas off its spine."""


@pytest.fixture(
    scope="module",
    params=[plain, *map(nightly, (laplace, small, drawn, cut))],
    ids=lambda change: change.__name__,
)
def released(request, make_small_inputs, tmp_path_factory) -> Path:
    """A release without intervals, of each kind of measurements."""
    folder = tmp_path_factory.mktemp(request.param.__name__)
    path = make_small_inputs(folder / "inputs")
    path.write_text(
        path.read_text().replace('tables = ["total", "age", "home"]', f"tables = {json.dumps(QUERIES)}")
    )
    request.param(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "ANSWERS_WITH_ZEROS", MOST_LISTED)
        return tallyveil.run(path, folder / "out", insecure_test_key=KEY).path


@pytest.fixture
def bare(released, tmp_path, monkeypatch) -> "tallyveil.Release":
    """A copy of the release without intervals."""
    monkeypatch.setattr(tables, "ANSWERS_WITH_ZEROS", MOST_LISTED)
    return opened(shutil.copytree(released, tmp_path / "release"))


@pytest.fixture(scope="module")
def whole_once(released, tmp_path_factory) -> Path:
    """A copy of the release with intervals."""
    root = shutil.copytree(released, tmp_path_factory.mktemp("whole") / "release")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "ANSWERS_WITH_ZEROS", MOST_LISTED)
        opened(root).add_intervals(workers=1)
    return Path(root)


@pytest.fixture
def whole(whole_once, tmp_path, monkeypatch) -> "tallyveil.Release":
    """The same, which a test may change."""
    monkeypatch.setattr(tables, "ANSWERS_WITH_ZEROS", MOST_LISTED)
    return opened(shutil.copytree(whole_once, tmp_path / "release"))


def opened(root: Path) -> "tallyveil.Release":
    found = tallyveil.open(root)
    assert isinstance(found, tallyveil.Release)
    return found


def earlier(release: "tallyveil.Release") -> "tallyveil.Release":
    """The release as an earlier version left it, whose tables with intervals have no rows for counts of zero."""
    root = release.path
    for path in (root / "tables").rglob("*.parquet"):
        if path.parent.name not in ("query=total", "query=age"):
            tags = {
                name: text for name, text in parquet_metadata(path).items() if name.startswith("tallyveil.")
            }
            tags.pop("tallyveil.rows")
            listed = read_parquet(path).filter(pl.col("count") > 0)
            listed.write_parquet(path, metadata={**tags, "tallyveil.zeros": LEFT_OUT})
    relist(root)
    return opened(root)


def relist(root: Path) -> None:
    """Write the SHA-256 of the files of a release into its manifest."""
    manifest = read_manifest(root)
    files = tuple(listed_file(root, one.path) for one in manifest.files)
    write_manifest(root, replace(manifest, files=files))


def by_file(release: "tallyveil.Release", area: str, query: str) -> pl.DataFrame:
    dataset = release.path / "tables" / "**" / "*.parquet"
    return pl.scan_parquet(dataset, hive_partitioning=True).filter(geolevel=area, query=query).collect()


def by_duckdb(release: "tallyveil.Release", area: str, query: str) -> pl.DataFrame:
    source = f"read_parquet('{release.path}/tables/**/*.parquet', hive_partitioning = true)"
    asked = f"SELECT count, estimate FROM {source} WHERE geolevel = ? AND query = ?"
    rows = duckdb.execute(asked, [area, query]).fetchall()
    return pl.DataFrame(rows, schema={"count": pl.Int64, "estimate": pl.Float64}, orient="row")


def by_python(release: "tallyveil.Release", area: str, query: str) -> pl.DataFrame:
    return release.table(area, query)


def by_csv(release: "tallyveil.Release", area: str, query: str) -> pl.DataFrame:
    out = release.path.parent / "csv"
    if not out.exists():
        publish_csv(release.path, out)
    stated = json.loads((out / "publication.json").read_text())
    assert stated["zeros"] == "included"
    (path,) = [
        one["path"] for one in stated["files"] if (one.get("geolevel"), one.get("query")) == (area, query)
    ]
    return pl.read_csv(out / path, schema_overrides={"geocode": pl.String, "estimate": pl.Float64})


@cache
def explored(root: Path) -> Any:
    """The release as the explorer opens it, once for all of its tables. Each test has a folder of its own."""
    return open_for_explorer(root, QUERIES)


def by_explorer(release: "tallyveil.Release", area: str, query: str) -> pl.DataFrame:
    found = explored(release.path)
    (number,) = [number for number, kind in enumerate(found.areas.kinds) if kind.name == area]
    rows = found.rows(number, found.queries[QUERIES.index(query)])
    assert rows is not None
    columns = [block.columns for block in rows.blocks()]
    return pl.DataFrame(
        {name: np.concatenate([one[name] for one in columns]).ravel() for name in ("count", "estimate")}
    )


DOORS: dict[str, Callable[["tallyveil.Release", str, str], pl.DataFrame]] = {
    "files": by_file,
    "duckdb": by_duckdb,
    "python": by_python,
    "csv": by_csv,
    "explorer": by_explorer,
}


def totals_of(release: "tallyveil.Release") -> dict[str, tuple[int, float]]:
    """Published count and estimate of everybody, by query: those of the sum, and not sums of those of parts."""
    regions = release.table("Region", "total")
    found = {}
    for query in QUERIES:
        answers = release.district(release.table("Block", "total")["geocode"]).estimate([query]).answers
        found[query] = (sum(one.published for one in answers), sum(one.estimate for one in answers))
        assert found[query][0] == regions["count"].sum()
    return found


def require_sums(release: "tallyveil.Release", doors: dict[str, Callable[..., pl.DataFrame]]) -> None:
    totals = totals_of(release)
    for area in release.areas:
        for query in QUERIES:
            wanted = totals[query]
            if area == "place":  # not everybody lives in one
                answers = [
                    one
                    for place in ("elm", "oak")
                    for one in release.area(place, "place").estimate([query]).answers
                ]
                wanted = sum(one.published for one in answers), sum(one.estimate for one in answers)
            height = len(release.table(area, "total")) * schema_of(release).query(query).size
            for door, read in doors.items():
                rows = read(release, area, query)
                counts, estimates = rows["count"].sum(), rows["estimate"].sum()
                what = (door, area, query)
                assert rows.height == height, what
                assert counts == wanted[0], what
                assert estimates == pytest.approx(wanted[1], abs=1e-6 * max(rows.height, 300)), what


def schema_of(release: "tallyveil.Release"):
    return schema_from_mapping(release.manifest.body["plan"]["schema"])


def test_estimates_of_every_table_add_up_to_the_estimate_of_the_sum(whole):
    require_sums(whole, DOORS)


@pytest.mark.nightly
@some
def test_so_they_do_in_releases_of_earlier_versions(whole):
    """Their files leave zeros out beside intervals. Every door of ours takes the same rows from `intervals/`."""
    wanted = {(area, query): whole.table(area, query) for area in whole.areas for query in QUERIES}
    before = earlier(whole)
    assert by_file(before, "Block", "detailed").height < wanted["Block", "detailed"].height
    require_sums(before, {name: read for name, read in DOORS.items() if name not in ("files", "duckdb")})
    for (area, query), rows in wanted.items():
        assert before.table(area, query).equals(rows)
        assert before.table(area, query, zeros=False).equals(rows.filter(pl.col("count") > 0))
    before.add_intervals(workers=1)
    assert by_file(before, "Block", "detailed").height == wanted["Block", "detailed"].height


@some
def test_rows_of_no_area_of_the_release_are_refused(bare):
    """Also where somebody wrote their SHA-256 into the manifest."""
    (path,) = (bare.path / "tables" / "geolevel=Town" / "query=detailed").glob("*.parquet")
    tags = {name: text for name, text in parquet_metadata(path).items() if name.startswith("tallyveil.")}
    rows = read_parquet(path)
    for wrong in (rows.with_columns(geocode=pl.lit("Atlantis")), rows.with_columns(home=pl.lit("tent"))):
        wrong.write_parquet(path, metadata=tags)
        relist(bare.path)
        with pytest.raises(StoreError, match="no answer of its query") as refused:
            opened(bare.path).table("Town", "detailed")
        assert refused.value.code == "release-damaged"


@some
@pytest.mark.parametrize("lost", ["removed", "of another level"])
def test_an_earlier_release_without_the_other_rows_says_so(whole, lost, tmp_path):
    before = earlier(whole)
    if lost == "removed":
        shutil.rmtree(before.path / "intervals")
    else:
        make_intervals(before.path, level=0.5, in_tables=False, workers=1)
    release = opened(before.path)
    for read in (
        lambda: release.table("Block", "detailed"),
        lambda: publish_csv(release.path, tmp_path / "all"),
    ):
        with pytest.raises(StoreError, match="zeros=False") as refused:
            read()
        assert refused.value.code == "intervals-missing"
    assert release.table("Block", "detailed", zeros=False)["count"].min() > 0
    assert release.table("Block", "age").height == 3 * release.table("Block", "total").height
    publish_csv(release.path, tmp_path / "listed", zeros=False)


@some
@pytest.mark.parametrize("rows_at_once", [1, *map(nightly, (40, 1 << 21))])
def test_zeros_that_files_leave_out_are_put_back(bare, monkeypatch, tmp_path, rows_at_once):
    monkeypatch.setattr(whole_tables, "ROWS_PER_PART", rows_at_once)
    schema = schema_of(bare)
    for area in bare.areas:
        codes = bare.table(area, "total")["geocode"]
        for query in QUERIES:
            listed, rows = by_file(bare, area, query), bare.table(area, query)
            assert rows.height == len(codes) * schema.query(query).size
            assert rows["geocode"].rle().struct.field("value").to_list() == codes.to_list()
            keys = [name for name in rows.columns if name != "count"]
            assert rows.select(keys).is_unique().all()
            assert rows.filter(pl.col("count") > 0).equals(
                listed.select(rows.columns).filter(pl.col("count") > 0)
            )
            assert bare.table(area, query, zeros=False).equals(rows.filter(pl.col("count") > 0))
    if rows_at_once == 40:
        publish_csv(bare.path, tmp_path / "csv")
        for area in bare.areas:
            for query in QUERIES:
                rows = bare.table(area, query)
                written = by_csv(bare, area, query)
                assert written.height == rows.height
                assert written.select(rows.columns).equals(rows)


@some
def test_a_table_larger_than_memory_is_refused(bare, monkeypatch):
    monkeypatch.setattr("tallyveil.api.released.machine_memory", lambda: 1 << 10)
    with pytest.raises(ConfigError, match="zeros=False") as refused:
        bare.table("Block", "detailed")
    assert refused.value.code == "table-large"
    assert bare.table("Block", "detailed", zeros=False).height > 0


@some
def test_what_a_missing_row_means_is_said_wherever_rows_are_missing(bare, tmp_path, command):
    package = json.loads((bare.path / "datapackage.json").read_text())
    said = {one["path"]: one.get("description") for one in package["resources"]}
    for path in (bare.path / "tables").rglob("*.parquet"):
        tags = parquet_metadata(path)
        assert tags["tallyveil.rows"] == ROWS[tags["tallyveil.zeros"]]
        assert said[path.relative_to(bare.path).as_posix()] == tags["tallyveil.rows"]
    assert (
        said["histogram/Block.parquet"] == "A cell of a geounit that has no row has a published count of 0."
    )
    command("publish", "csv", bare.path, "--no-zeros", "--out", tmp_path / "listed")
    assert json.loads((tmp_path / "listed" / "publication.json").read_text())["zeros"] == LEFT_OUT
    text = " ".join((tmp_path / "listed" / "README.txt").read_text().split())
    assert ROWS[LEFT_OUT] in text
    assert "sums and means of their estimates are too high" in text
    frames = [pl.read_csv(path) for path in (tmp_path / "listed").rglob("*.csv")]
    assert all(frame["count"].min() > 0 for frame in frames)
