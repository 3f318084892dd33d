"""Every column of every table, counted again from single records."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from tests.samples import few

from tallyveil.errors import SolverError
from tallyveil.products.topdown.pl94.layouts import (
    PERSON_TABLES,
    RACES,
    UNIT_TABLES,
    TableLayout,
    label_rows,
    table_frames,
    write_rows,
)
from tallyveil.products.topdown.pl94.publication import CHECKS, cell_totals, check_sums, check_table
from tallyveil.schema.counts import PublicCounts, compress_rows
from tallyveil.schema.presets import load_preset

AREAS = pl.Series("geocode", [f"0{area}" for area in range(7)])
LABEL_OF = {label: race for race, label in RACES.items()}
QUARTERS = {
    "Correctional facilities for adults": "adult_correctional",
    "Juvenile facilities": "juvenile",
    "Nursing facilities/Skilled-nursing facilities": "nursing",
    "Other institutional facilities": "other_institutional",
    "College/University student housing": "college",
    "Military quarters": "military",
    "Other noninstitutional facilities": "other_noninstitutional",
}
SIZES = {"one race": 1, "two races": 2, "three races": 3, "four races": 4, "five races": 5, "six races": 6}


def is_counted(record: dict[str, str], table: str, path: str) -> bool:
    """Whether a column counts a record, read off the labels of the column and of those above it."""
    if table == "H1":
        return path == "Total:" or path.endswith(record["h1"].capitalize())
    if table in ("P3", "P4") and record["votingage"] != "18_plus":
        return False
    if table == "P5" and record["hhgq"] == "household":
        return False
    return all(holds(record, label) for label in path.split(" > "))


def holds(record: dict[str, str], label: str) -> bool:
    """Whether a record is one of those that a label speaks of."""
    races = set(record["cenrace"].split("_"))
    institutional = (
        list(QUARTERS.values()).index(record["hhgq"]) < 4 if record["hhgq"] != "household" else None
    )
    known = {
        "Total:": True,
        "Hispanic or Latino": record["hispanic"] == "hispanic",
        "Not Hispanic or Latino:": record["hispanic"] == "not_hispanic",
        "Population of two or more races:": len(races) > 1,
        "Institutionalized population:": institutional is True,
        "Noninstitutionalized population:": institutional is False,
    }
    if label in known:
        return known[label]
    if label in QUARTERS:
        return record["hhgq"] == QUARTERS[label]
    if label.startswith("Population of "):
        return len(races) == SIZES[label.removeprefix("Population of ").removesuffix(":")]
    return races == {LABEL_OF[name] for name in label.removesuffix(" alone").split("; ")}


def made_up(preset: str, n_records: int) -> tuple[PublicCounts, list[tuple[int, dict[str, str]]]]:
    """Random records of any cell, in all areas but the last, and the counts of them."""
    schema = load_preset(preset)
    random = np.random.default_rng(11)
    area, cell = random.integers(0, len(AREAS) - 1, n_records), random.integers(0, schema.size, n_records)
    words = [
        {item.name: item.levels[code] for item, code in zip(schema.attributes, codes, strict=True)}
        for codes in schema.decode(cell)
    ]
    counts = compress_rows(len(AREAS), area, cell, np.ones(n_records, dtype=np.int64))
    return PublicCounts("Town", *counts), list(zip(area.tolist(), words, strict=True))


def counted_again(records: list[tuple[int, dict[str, str]]], layout: TableLayout) -> pl.DataFrame:
    paths = label_rows((layout,))["path"].to_list()
    table = np.zeros((len(AREAS), len(paths)), dtype=np.int64)
    for area, record in records:
        table[area] += [is_counted(record, layout.name, path) for path in paths]
    return pl.DataFrame(table, schema=layout.identifiers)


@pytest.mark.parametrize("layout", few(2, [*PERSON_TABLES, *UNIT_TABLES]), ids=lambda layout: layout.name)
def test_columns_count_the_records_that_their_labels_speak_of(layout, monkeypatch):
    preset = "pl94-units" if layout.name == "H1" else "pl94-persons"
    counts, records = made_up(preset, 1_500)
    # Pieces of one or two areas.
    monkeypatch.setattr("tallyveil.products.topdown.pl94.layouts.ANSWERS_AT_ONCE", 300)
    made = pl.concat(table_frames(counts, AREAS, layout, load_preset(preset)))
    assert made["geocode"].equals(AREAS)
    assert made["geolevel"].unique().to_list() == ["Town"]
    assert made.drop("geolevel", "geocode").equals(counted_again(records, layout))


def test_levels_may_stand_in_another_order():
    schema = load_preset("pl94-persons")
    turned = replace(
        schema,
        attributes=tuple(replace(item, levels=item.levels[::-1]) for item in schema.attributes[::-1]),
        recodes=(),
        structural_zeros=(),
    )
    counts, records = made_up("pl94-persons", 200)
    cells = [
        turned.encode(np.array([[item.levels.index(record[item.name]) for item in turned.attributes]]))[0]
        for _, record in records
    ]
    rows = np.array([area for area, _ in records])
    again = PublicCounts(
        "Town", *compress_rows(len(AREAS), rows, np.array(cells), np.ones(len(rows), dtype=np.int64))
    )
    for layout in PERSON_TABLES:
        there = pl.concat(table_frames(again, AREAS, layout, turned))
        assert there.equals(pl.concat(table_frames(counts, AREAS, layout, schema)))


def test_no_areas_make_an_empty_table():
    nothing = PublicCounts("Town", *compress_rows(0, *[np.empty(0, dtype=np.int64)] * 3))
    (frame,) = table_frames(nothing, AREAS[:0], UNIT_TABLES[0], load_preset("pl94-units"))
    assert frame.columns == ["geolevel", "geocode", "H0010001", "H0010002", "H0010003"]
    assert frame.is_empty()


@pytest.mark.parametrize("layout", [*PERSON_TABLES, *UNIT_TABLES], ids=lambda layout: layout.name)
def test_checks_pass_on_what_was_written(layout, tmp_path):
    preset = "pl94-units" if layout.name == "H1" else "pl94-persons"
    counts, _ = made_up(preset, 400)
    path = tmp_path / "table.parquet"
    write_rows(path, table_frames(counts, AREAS, layout, load_preset(preset)), {}, csv=True)
    check_table(path, layout, counts, AREAS, load_preset(preset))
    text = pl.read_csv(path.with_suffix(".csv"), schema_overrides={"geocode": pl.String})
    assert text.equals(pl.read_parquet(path))


FIRST, SECOND = ((pl.int_range(pl.len()) == place).cast(pl.Int64) for place in (0, 1))
CHANGES = {
    "a subtotal": (CHECKS[1], pl.col("P0010010") + 1),
    "a leaf and all above": (CHECKS[2], pl.col("P0010001", "P0010002", "P0010003") + 1),
    "two leaves": (CHECKS[2], [pl.col("P0010003") + FIRST, pl.col("P0010004") - FIRST]),
    "two leaves of two areas": (
        CHECKS[2],
        [pl.col("P0010003") + FIRST - SECOND, pl.col("P0010004") - FIRST + SECOND],
    ),
    # Four columns whose weights in the check of rows cancel.
    "four leaves": (
        CHECKS[3],
        [
            pl.col(name) + change * FIRST
            for name, change in {"P0010003": 1, "P0010004": -3, "P0010005": 3, "P0010006": -1}.items()
        ],
    ),
    "a negative leaf": (CHECKS[0], pl.col("P0010071") - 1_000),
    "a missing number": (CHECKS[0], pl.lit(None, dtype=pl.Int64).alias("P0010003")),
    "two areas exchanged": (CHECKS[2], pl.col("geocode").reverse()),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_table_is_refused(change, tmp_path):
    schema, layout = load_preset("pl94-persons"), PERSON_TABLES[0]
    counts, _ = made_up("pl94-persons", 5_000)
    path = tmp_path / "table.parquet"
    name, act = CHANGES[change]
    pl.concat(table_frames(counts, AREAS, layout, schema)).with_columns(act).write_parquet(path)
    with pytest.raises(SolverError, match=name) as raised:
        check_table(path, layout, counts, AREAS, schema)
    assert raised.value.code == "check-failed"


def test_geolevels_must_add_up_to_the_same_counts(tmp_path):
    counts, _ = made_up("pl94-units", 50)
    totals = cell_totals(counts, load_preset("pl94-units"))
    assert totals.sum() == 50
    check_sums(tmp_path, "Town", totals, totals)
    with pytest.raises(SolverError, match=CHECKS[4]):
        check_sums(tmp_path, "Town", totals, totals + 1)
