"""Published files say what the counts say, and the final check sees when they do not."""

import numpy as np
import polars as pl
import pytest

from tallyveil.errors import SolverError, StoreError
from tallyveil.files import histograms, tables
from tallyveil.files.checks import Bounded, Promises, check_release
from tallyveil.files.geography import read_geography, write_geography
from tallyveil.geography.areas import plain_hierarchies
from tallyveil.geography.build import spine_from_prefixes
from tallyveil.schema.counts import NO_LIMIT, PublicCounts, compress_rows, narrow_limits, row_ranges
from tallyveil.schema.presets import load_preset

SCHEMA = load_preset("race-age")
SPINE = spine_from_prefixes(["A1", "A2", "A3", "B1"], ("Region", "Block"), (1, 2))
TOTAL = SCHEMA.query("total")


def counts_of(level, rows, cells, counts):
    arrays = [np.array(values, dtype=np.int64) for values in (rows, cells, counts)]
    return PublicCounts(SPINE.geolevels[level], *compress_rows(SPINE.n_geounits(level), *arrays))


BLOCKS = counts_of(1, [0, 0, 2, 3], [3, 9, 3, 15], [2, 5, 1, 4])
REGIONS = counts_of(0, [0, 0, 1], [3, 9, 15], [3, 5, 4])
INVARIANT = [Bounded("invariant total", TOTAL, [np.array([[8], [4]])], [np.array([[8], [4]])])]


@pytest.fixture
def release(tmp_path, monkeypatch):
    monkeypatch.setattr(histograms, "PERSONS_PER_PART", 5)
    monkeypatch.setattr(tables, "ROWS_PER_PART", 20)
    for level in (REGIONS, BLOCKS):
        histograms.write_histogram(tmp_path, level, SCHEMA, SPINE, {})
        for name in ("total", "voting_age"):
            assert sum(tables.write_table(tmp_path, level, SCHEMA.query(name), SPINE, {})) > 0
    assert list(histograms.write_microdata(tmp_path, BLOCKS, SCHEMA, SPINE, {})) == [5, 5, 2]
    return tmp_path


def promises(tables, bounded, *, microdata=True):
    return Promises(SCHEMA, SPINE, [SCHEMA.query(name) for name in tables], bounded, microdata=microdata)


def check(root):
    return check_release(root, promises(["total", "voting_age"], INVARIANT))


def test_a_sound_release_passes(release):
    done = check(release)
    assert len(done) == 7
    assert len(set(done)) == 7


def test_a_histogram_reads_back(release):
    read = histograms.read_histogram(release, "Block", SCHEMA, SPINE)
    for name in ("offsets", "cells", "counts"):
        assert np.array_equal(getattr(read, name), getattr(BLOCKS, name))


def test_microdata_have_one_row_a_person(release):
    people = pl.read_parquet(release / "microdata" / "*.parquet")
    assert people.columns == ["geocode", "voting_age", "race_ethnicity"]
    assert people.height == 12
    assert people.filter(geocode="A1")["voting_age"].cast(pl.String).to_list().count("18_plus") == 5


def test_an_empty_population_still_has_its_files(tmp_path):
    nobody = counts_of(1, [], [], [])
    assert list(histograms.write_microdata(tmp_path, nobody, SCHEMA, SPINE, {})) == [0]
    assert pl.read_parquet(tmp_path / "microdata" / "part-00000.parquet").height == 0


def test_geography_reads_back(tmp_path):
    write_geography(tmp_path, plain_hierarchies(SPINE), {})
    assert read_geography(tmp_path).digest() == SPINE.digest()


def rewrite(path, change):
    frame = pl.read_parquet(path)
    frame.with_columns(change).write_parquet(path)


@pytest.mark.parametrize(
    ("path", "change", "said"),
    [
        ("histogram/Block.parquet", -pl.col("count"), "negative"),
        ("histogram/Block.parquet", pl.col("count") + 1, "sum of its"),
        ("microdata/part-00001.parquet", pl.col("geocode").reverse(), "microdata"),
        ("tables/geolevel=Block/query=total/part-00000.parquet", pl.col("count") + 1, "table total"),
        (
            "tables/geolevel=Region/query=voting_age/part-00000.parquet",
            pl.col("geocode").reverse(),
            "table voting_age",
        ),
    ],
)
def test_every_broken_promise_is_seen(release, path, change, said):
    rewrite(release / path, change)
    with pytest.raises(SolverError, match=said):
        check(release)


def test_a_sum_of_geounits_is_held_to_its_bounds(release):
    both, name = np.array([0, 0]), "bounds holds at every sum of Region geounits that makes one Nation"
    twelve, eleven = [np.array([[12]])], [np.array([[11]])]
    assert name in check_release(
        release, promises([], [Bounded("bounds", TOTAL, twelve, twelve, both, "Nation")])
    )
    with pytest.raises(SolverError, match=name):
        check_release(release, promises([], [Bounded("bounds", TOTAL, eleven, eleven, both, "Nation")]))


def test_a_broken_invariant_is_seen(release):
    wrong = [Bounded("invariant total", TOTAL, [np.array([[9], [4]])], [np.array([[9], [4]])])]
    with pytest.raises(SolverError, match="invariant total"):
        check_release(release, promises(["total"], wrong))


@pytest.fixture
def sparse(tmp_path, monkeypatch):
    """A release whose table by voting age leaves out its zeros, two counts a part."""
    monkeypatch.setattr(tables, "ANSWERS_WITH_ZEROS", 1)
    monkeypatch.setattr(tables, "ROWS_PER_PART", 2)
    for level in (REGIONS, BLOCKS):
        histograms.write_histogram(tmp_path, level, SCHEMA, SPINE, {})
        for name in ("total", "voting_age"):
            group = SCHEMA.query(name)
            done = sum(tables.write_table(tmp_path, level, group, SPINE, {}))
            assert done == tables.table_size(level, group)
    return tmp_path


def test_a_table_of_many_answers_leaves_out_zeros_and_says_so(sparse):
    parts = sorted((sparse / "tables" / "geolevel=Block" / "query=voting_age").glob("*.parquet"))
    table = pl.concat([pl.read_parquet(part) for part in parts])
    assert len(parts) == 2
    assert table["geocode"].to_list() == ["A1", "A1", "A3", "B1"]
    assert table["count"].to_list() == [2, 5, 1, 4]
    assert pl.read_parquet_metadata(parts[0])["tallyveil.zeros"] == "left out"
    total = sparse / "tables" / "geolevel=Block" / "query=total" / "part-00000.parquet"
    assert pl.read_parquet_metadata(total)["tallyveil.zeros"] == "included"
    assert pl.read_parquet(sparse / "tables" / "geolevel=Block" / "query=total" / "*.parquet")[
        "count"
    ].to_list() == [
        7,
        0,
        1,
        4,
    ]


def test_without_microdata_they_are_not_checked(sparse):
    done = check_release(sparse, promises(["total", "voting_age"], INVARIANT, microdata=False))
    assert [name for name in done if "microdata" in name] == []
    with pytest.raises(StoreError):
        check_release(sparse, promises([], INVARIANT))


@pytest.mark.parametrize("rows", [slice(0, 0), slice(0, 1), slice(1, None)])
def test_a_row_missing_from_a_table_without_zeros_is_seen(sparse, rows):
    path = sparse / "tables" / "geolevel=Block" / "query=voting_age" / "part-00001.parquet"
    pl.read_parquet(path)[rows].write_parquet(path)
    with pytest.raises(SolverError, match="table voting_age"):
        check_release(sparse, promises(["voting_age"], INVARIANT, microdata=False))


def test_bounds_may_be_narrow_and_open(release):
    lower = [narrow_limits(np.array([[0], [4]]))]
    upper = [narrow_limits(np.array([[NO_LIMIT], [4]]))]
    assert lower[0].dtype == upper[0].dtype == np.int32
    assert check_release(release, promises([], [Bounded("bounds", TOTAL, lower, upper)]))
    with pytest.raises(SolverError, match="bounds holds at Region"):
        check_release(release, promises([], [Bounded("bounds", TOTAL, upper, upper)]))


@pytest.mark.parametrize("change", [pl.lit("Z9").alias("geocode"), pl.lit("child").alias("voting_age")])
def test_a_word_that_nobody_knows_is_damage(release, change):
    rewrite(release / "histogram" / "Block.parquet", change)
    with pytest.raises(StoreError) as caught:
        check(release)
    assert caught.value.code == "release-damaged"


def test_histograms_are_written_and_read_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(histograms, "row_ranges", lambda offsets: row_ranges(offsets, 1))
    histograms.write_histogram(tmp_path, BLOCKS, SCHEMA, SPINE, {})
    read = histograms.read_histogram(tmp_path, "Block", SCHEMA, SPINE)
    assert np.array_equal(read.cells, BLOCKS.cells)
    assert np.array_equal(read.offsets, BLOCKS.offsets)
