"""Published files say what the counts say, and the final check sees when they do not."""

import numpy as np
import polars as pl
import pytest

from tallyveil.errors import SolverError
from tallyveil.geography.build import spine_from_prefixes
from tallyveil.release import histograms, tables
from tallyveil.release.checks import check_release
from tallyveil.release.geography import read_geography, write_geography
from tallyveil.universe.counts import PublicCounts, compress_rows
from tallyveil.universe.presets import load_preset

SCHEMA = load_preset("race-age")
SPINE = spine_from_prefixes(["A1", "A2", "A3", "B1"], ("Region", "Block"), (1, 2))
TOTAL = SCHEMA.query("total")


def counts_of(level, rows, cells, counts):
    arrays = [np.array(values, dtype=np.int64) for values in (rows, cells, counts)]
    return PublicCounts(SPINE.geolevels[level], *compress_rows(SPINE.n_geounits(level), *arrays))


BLOCKS = counts_of(1, [0, 0, 2, 3], [3, 9, 3, 15], [2, 5, 1, 4])
REGIONS = counts_of(0, [0, 0, 1], [3, 9, 15], [3, 5, 4])
INVARIANT = [("invariant total", TOTAL, [np.array([[8], [4]])], [np.array([[8], [4]])])]


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


def check(root):
    return check_release(root, SCHEMA, SPINE, ["total", "voting_age"], INVARIANT, microdata=True)


def test_a_sound_release_passes(release):
    done = check(release)
    assert len(done) == 7
    assert all(item["passed"] for item in done)


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
    write_geography(tmp_path, SPINE, {})
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
        ("tables/Block/total/part-00000.parquet", pl.col("count") + 1, "table total"),
        ("tables/Region/voting_age/part-00000.parquet", pl.col("geocode").reverse(), "table voting_age"),
    ],
)
def test_every_broken_promise_is_seen(release, path, change, said):
    rewrite(release / path, change)
    with pytest.raises(SolverError, match=said):
        check(release)


def test_a_broken_invariant_is_seen(release):
    wrong = [("invariant total", TOTAL, [np.array([[9], [4]])], [np.array([[9], [4]])])]
    with pytest.raises(SolverError, match="invariant total"):
        check_release(release, SCHEMA, SPINE, ["total"], wrong, microdata=True)
