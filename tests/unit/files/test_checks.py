"""The parts of the last look hold together what the last look in one process holds, and see every broken file."""

import json
from threading import Event

import numpy as np
import polars as pl
import pytest
from tests.samples import few

from tallyveil.errors import SolverError, StoreError
from tallyveil.files import checks, histograms, tables
from tallyveil.files.checks import (
    Agreeing,
    Bounded,
    Promises,
    check_release,
    described,
    part_of,
    parts_of,
    require_no_other_files,
)
from tallyveil.files.histograms import area_counts
from tallyveil.geography.areas import area_spine
from tallyveil.geography.build import spine_from_prefixes
from tallyveil.geography.entities import EntityFamily
from tallyveil.schema.counts import PublicCounts, compress_rows
from tallyveil.schema.presets import load_preset

SCHEMA = load_preset("race-age")
SPINE = spine_from_prefixes(["A1", "A2", "A3", "B1", "B2", "C1"], ("Region", "Block"), (1, 2))
TOTAL, AGES = SCHEMA.query("total"), SCHEMA.query("voting_age")
PLACES = EntityFamily("place", ("p", "q"), np.array([0, 2, 4]), np.array([0, 3, 2, 5]), 6)


def counts_of(level, rows, cells, counts):
    arrays = [np.array(values, dtype=np.int64) for values in (rows, cells, counts)]
    return PublicCounts(SPINE.geolevels[level], *compress_rows(SPINE.n_geounits(level), *arrays))


BLOCKS = counts_of(1, [0, 0, 2, 3, 3, 5], [3, 9, 3, 10, 15, 3], [2, 5, 1, 1, 4, 7])
REGIONS = counts_of(0, [0, 0, 1, 1, 2], [3, 9, 10, 15, 3], [3, 5, 1, 4, 7])
EXACT = [np.array([[8], [5], [7]])]
SUMS = [np.array([[13], [7]])]
PROMISES = Promises(
    SCHEMA,
    SPINE,
    [TOTAL, AGES],
    [
        Bounded("invariant total", TOTAL, EXACT, EXACT),
        Bounded("bounds", TOTAL, SUMS, SUMS, np.array([0, 0, 1]), "State"),
    ],
    areas=[PLACES],
    agreed=[Agreeing("agreement", AGES, [REGIONS, BLOCKS])],
)


@pytest.fixture
def release(tmp_path, monkeypatch):
    """A release in which every stretch, table and file of microdata is cut into several."""
    monkeypatch.setattr(histograms, "PERSONS_PER_PART", 3)
    monkeypatch.setattr(tables, "ROWS_PER_PART", 4)
    monkeypatch.setattr(checks, "ENTRIES_IN_A_PART", 2)
    for level in (REGIONS, BLOCKS):
        histograms.write_histogram(tmp_path, level, SCHEMA, SPINE, {})
    places = area_counts(BLOCKS, PLACES, SCHEMA.size)
    for group in PROMISES.tables:
        for own, level in ((SPINE, REGIONS), (SPINE, BLOCKS), (area_spine(PLACES), places)):
            assert sum(tables.write_table(tmp_path, level, group, own, {})) > 0
    assert sum(histograms.write_microdata(tmp_path, BLOCKS, SCHEMA, SPINE, {})) == 20
    return tmp_path


def all_parts(promises=PROMISES):
    return [
        part_of(json.loads(json.dumps(described(part)))) for part in parts_of(promises, [REGIONS, BLOCKS])
    ]


def check(root, promises=PROMISES):
    """The names that all parts have passed."""
    made = all_parts(promises)
    require_no_other_files(root, promises, made)
    return {name for part in made for name in part.check(root, promises)}


def test_the_parts_pass_what_the_whole_passes(release):
    names = check_release(release, PROMISES)
    assert names == PROMISES.names()
    assert check(release) == set(names)


def test_every_kind_has_several_parts(release):
    kinds = [part.kind for part in all_parts()]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "area": 1,
        "grouped": 1,
        "records": 7,
        "counts": 6,
        "table": 8,
    }


def test_stretches_cover_every_geounit_and_every_row(release):
    for level, counts in enumerate((REGIONS, BLOCKS)):
        spans = [one.span for one in all_parts() if one.kind == "counts" and one.span.level == level]
        assert [one.start for one in spans] == [0, *(one.stop for one in spans[:-1])]
        assert [one.begin for one in spans] == [0, *(one.end for one in spans[:-1])]
        assert spans[-1].stop == counts.n_geounits
        assert spans[-1].end == len(counts.cells) == spans[-1].n_rows


def rewrite(path, change):
    pl.read_parquet(path).with_columns(change).write_parquet(path)


def last_only(value):
    """Changes the last row of a column of counts."""
    row = pl.int_range(pl.len())
    return pl.when(row == pl.len() - 1).then(value).otherwise(pl.col("count")).alias("count")


FILES = [
    "histogram/Region.parquet",
    "histogram/Block.parquet",
    *(f"microdata/part-0000{number}.parquet" for number in range(7)),
    "tables/geolevel=Block/query=total/part-00000.parquet",
    "tables/geolevel=Block/query=total/part-00001.parquet",
    *(f"tables/geolevel=Block/query=voting_age/part-0000{number}.parquet" for number in range(3)),
    "tables/geolevel=Region/query=voting_age/part-00001.parquet",
    "tables/geolevel=place/query=total/part-00000.parquet",
]


@pytest.mark.parametrize("path", few(6, FILES))
def test_a_changed_number_or_place_in_any_file_is_seen(release, path):
    column = "geocode" if path.startswith("microdata") else "count"
    frame = pl.read_parquet(release / path)
    others = {"geocode": pl.lit("B2"), "count": last_only(pl.col("count") + 1)}
    rewrite(release / path, others[column].alias(column))
    assert not pl.read_parquet(release / path).equals(frame)
    with pytest.raises(SolverError, match="final check failed"):
        check(release)
    with pytest.raises(SolverError, match="final check failed"):
        check_release(release, PROMISES)


@pytest.mark.parametrize("workers", [1, 4])
def test_a_count_without_end_is_seen_and_not_written_out(release, workers):
    """Microdata of so many people would be names of files without end."""
    rewrite(release / "histogram" / "Block.parquet", last_only(pl.lit(1 << 45)))
    with pytest.raises(SolverError, match="final check failed"):
        check_release(release, PROMISES, workers)


def test_files_for_a_count_without_end_are_not_counted_one_by_one(release):
    """The thread that looks at microdata may begin before another check has refused the count."""
    huge = counts_of(1, [0], [3], [1 << 45])
    assert not checks.record_files_agree(release, huge, SCHEMA, SPINE)


def test_a_check_that_fails_waits_for_none_that_has_not_begun(release, monkeypatch):
    begun = []

    def check_tables(*_, **__):
        begun.append(True)
        Event().wait(0.2)

    monkeypatch.setattr(checks, "check_tables", check_tables)
    monkeypatch.setattr(checks, "check_counts", lambda *_: checks.require("counts", passed=False))
    with pytest.raises(SolverError, match="counts"):
        check_release(release, PROMISES, 1)
    assert len(begun) <= 1
    assert len(PROMISES.tables) > 1


@pytest.mark.parametrize("path", few(6, FILES))
def test_a_row_more_or_less_in_any_file_is_seen(release, path):
    frame = pl.read_parquet(release / path)
    for other in (frame[:-1], frame[1:], pl.concat([frame, frame[-1:]])):
        other.write_parquet(release / path)
        with pytest.raises((SolverError, StoreError)):
            check(release)


@pytest.mark.parametrize("path", few(4, [path for path in FILES if path.count("part-00000") == 0]))
def test_a_missing_file_is_seen(release, path):
    (release / path).unlink()
    with pytest.raises((SolverError, StoreError)):
        check(release)


@pytest.mark.parametrize(
    "path", ["microdata/part-00007.parquet", "tables/geolevel=Block/query=total/part-00002.parquet"]
)
def test_a_file_that_no_part_reads_is_refused(release, path):
    first = (release / path).with_name("part-00000.parquet")
    pl.read_parquet(first)[:0].write_parquet(release / path)
    with pytest.raises(SolverError, match="final check failed"):
        check(release)


def test_two_errors_that_cancel_are_seen(release):
    """Geounits exchange a person: every sum stays, and only the microdata and tables can tell."""
    change = pl.col("count") + pl.int_range(pl.len()).replace_strict({0: 1, 2: -1}, default=0)
    rewrite(release / "histogram" / "Block.parquet", change.alias("count"))
    for kind in ("records", "table"):
        own = [part for part in all_parts() if part.kind == kind]
        with pytest.raises(SolverError):
            [part.check(release, PROMISES) for part in own]


def test_rows_of_other_geounits_are_refused(release):
    path = release / "histogram" / "Block.parquet"
    pl.read_parquet(path).reverse().write_parquet(path)
    with pytest.raises(StoreError) as caught:
        check(release)
    assert caught.value.code == "release-damaged"


@pytest.mark.parametrize(
    ("number", "bounds", "said"),
    [
        (0, [np.array([[8], [6], [7]])], "invariant total holds"),
        (1, [np.array([[13], [8]])], "makes one State"),
    ],
)
def test_broken_bounds_are_seen(release, number, bounds, said):
    bounded = list(PROMISES.bounded)
    bounded[number] = bounded[number]._replace(lower=bounds, upper=bounds)
    promises = Promises(SCHEMA, SPINE, [], bounded)
    with pytest.raises(SolverError, match=said):
        check(release, promises)


def test_a_broken_agreement_is_seen_in_the_stretch_that_breaks_it(release):
    other = counts_of(1, [0, 0, 2, 3, 3, 5], [3, 9, 3, 10, 15, 3], [2, 5, 1, 1, 4, 6])
    promises = Promises(SCHEMA, SPINE, [], [], agreed=[Agreeing("agreement", AGES, [REGIONS, other])])
    *sound, last = sorted(
        (one for one in all_parts(promises) if one.kind == "counts" and one.span.level == 1),
        key=lambda one: one.span.start,
    )
    for part in sound:
        part.check(release, promises)
    with pytest.raises(SolverError, match="agreement holds"):
        last.check(release, promises)


def test_nobody_has_one_empty_file(tmp_path):
    nobody, empty = counts_of(1, [], [], []), counts_of(0, [], [], [])
    for level in (empty, nobody):
        histograms.write_histogram(tmp_path, level, SCHEMA, SPINE, {})
    list(histograms.write_microdata(tmp_path, nobody, SCHEMA, SPINE, {}))
    promises = Promises(SCHEMA, SPINE, [], [])
    found = parts_of(promises, [empty, nobody])
    assert {name for part in found for name in part.check(tmp_path, promises)} == set(promises.names())
