"""The tables of persons and units: which records each column counts."""

from functools import cache
from itertools import chain

import numpy as np
import polars as pl
import pytest

from tallyveil.errors import SchemaError
from tallyveil.products.dhc.tables.definitions import (
    PRESETS,
    DhcTable,
    both,
    level_sets,
    line_tree,
    load_table,
    preset_of,
    table_names,
)
from tallyveil.products.dhc.tables.publication import records_counted
from tallyveil.products.topdown.pl94.layouts import label_rows, table_frames
from tallyveil.schema.counts import PublicCounts, compress_rows
from tallyveil.schema.household_types import household_types

AREAS = pl.Series("geocode", ["a", "b", "c"])
ALL = [name for records in PRESETS for name in table_names(records)]


@cache
def made_up(records: str, n_records: int = 4_000) -> tuple[PublicCounts, pl.DataFrame]:
    """Random records of possible cells, as counts and one row for each with labels and variables of the household."""
    schema = preset_of(records)
    random = np.random.default_rng(7)
    possible = schema.possible_answers(schema.query("detailed"))
    cell = random.choice(possible, n_records)
    if records == "units":  # nearly all possible cells are households
        rare = possible[schema.decode(possible)[:, 0] >= 4]
        cell[::4] = random.choice(rare, len(cell[::4]))
    area = random.integers(0, 2, n_records)
    counts = compress_rows(len(AREAS), area, cell, np.ones(n_records, dtype=np.int64))
    codes = schema.decode(cell)
    frame = pl.DataFrame({"area": area}).with_columns(
        pl.Series(item.name, np.array(item.levels)[codes[:, place]])
        for place, item in enumerate(schema.attributes)
    )
    if records == "persons":
        return PublicCounts("Town", *counts), frame.with_columns(pl.col("age").cast(pl.Int64))
    types = [*household_types(), None]
    return PublicCounts("Town", *counts), frame.with_columns(
        pl.Series(
            "couple", [one and one.couple.name.lower() for one in (types[code] for code in codes[:, 6])]
        ),
        *(
            pl.Series(
                name,
                [None if one is None else int(getattr(one, name)) for one in (types[c] for c in codes[:, 6])],
            )
            for name in ("relatives", "own_children", "minors", "under_18", "multigenerational", "size")
        ),
    )


def rows_of(table: DhcTable) -> pl.DataFrame:
    counts, _ = made_up(table.records)
    return pl.concat(table_frames(counts, AREAS, table.layout, table.schema(preset_of(table.records))))


@pytest.mark.parametrize("name", ALL)
def test_totals_count_each_record_of_the_universe_once(name: str):
    table = load_table(name)
    rows, counts = rows_of(table), made_up(table.records)[0]
    total = table.layout.columns[0]
    if table.tallies:
        assert len(total.counts) > len(set(total.counts))
        least = records_counted(counts, table, preset_of(table.records))
        assert (rows[total.identifier].to_numpy() >= least).all()
        return
    assert len(total.counts) == len(set(total.counts))
    assert (
        rows[total.identifier].to_list() == records_counted(counts, table, preset_of(table.records)).tolist()
    )
    paths = label_rows((table.layout,))["path"]
    assert paths.n_unique() == len(paths)


couple, size, own, oldest = (pl.col(name) for name in ("couple", "size", "own_children", "oldest"))
married = couple.str.starts_with("married")
cohabiting = couple.str.starts_with("cohabiting")
female, hispanic = pl.col("householder_sex") == "female", pl.col("householder_hispanic") == "hispanic"
relatives, owned = pl.col("relatives") == 1, pl.col("tenvacgq").str.starts_with("owned")
age = pl.col("age")
INSTITUTIONS = "Institutionalized population:"
WITH_65 = "Households with one or more people 65 years and over:"
WITH_OWN = "With own children under 18 years:"
MEN_ALONE = "Male householder, no spouse or partner present:"
COUNTED = {
    ("P3", "Total: > Two or More Races"): pl.col("cenrace").str.contains("_"),
    ("P5", "Total: > Hispanic or Latino: > Asian alone"): (pl.col("hispanic") == "hispanic")
    & (pl.col("cenrace") == "asian"),
    ("P6", "Total races tallied: > Asian alone or in combination with one or more other races"): pl.col(
        "cenrace"
    ).str.contains("asian"),
    ("P8", "Total: > Population of two or more races: > Population of two races: > White; Asian"): pl.col("cenrace")
    == "white_asian",
    ("P12", "Total: > Male: > 22 to 24 years"): (pl.col("sex") == "male") & age.is_between(22, 24),
    ("P12H", "Total: > Female: > 85 years and over"): (pl.col("sex") == "female")
    & (pl.col("hispanic") == "hispanic")
    & (age >= 85),
    ("P12I", "Total:"): (pl.col("hispanic") == "not_hispanic") & (pl.col("cenrace") == "white"),
    ("P14", "Total: > Female: > Under 1 year"): (pl.col("sex") == "female") & (age == 0),
    ("P17", "Total: > In households: > Householder: > Female: > Living alone"): (pl.col("sex") == "female")
    & (pl.col("relgq") == "householder_living_alone"),
    ("P17", "Total: > In households: > Nonrelatives:"): pl.col("relgq").is_in(
        ["roommate", "foster_child", "other_nonrelative"]
    ),
    ("P18", f"Total: > Male: > 65 years and over: > {INSTITUTIONS} > Nursing facilities/Skilled-nursing facilities"): (
        pl.col("sex") == "male"
    )
    & (age >= 65)
    & (pl.col("relgq") == "nursing_facilities"),
    ("PCT8", "Total: > In households: > Grandchild"): (age < 18) & (pl.col("relgq") == "grandchild"),
    ("PCT12", "Total: > Male: > 105 to 109 years"): (pl.col("sex") == "male") & age.is_between(105, 109),
    ("P16", "Total: > Family households: > Other family: > Male householder, no spouse present"): relatives
    & ~married
    & ~female,
    ("P16", "Total: > Nonfamily households: > Householder living alone"): size == 1,
    ("P19", f"Total: > {WITH_65} > 2-or-more-person household: > Family households"): (
        oldest.is_in(["65_74", "75_plus"]) & (size > 1) & relatives
    ),
    ("P20", f"Total: > Cohabiting couple household: > {WITH_OWN} > Under 6 years only"): cohabiting
    & (own == 1),
    ("P20", "Total: > Female householder, no spouse or partner present: > Only nonrelatives present"): female
    & (couple == "no_partner")
    & ~relatives
    & (size > 1),
    ("P20", f"Total: > {MEN_ALONE} > With relatives, no own children under 18 years"): ~female
    & (couple == "no_partner")
    & relatives
    & (own == 0),
    ("P21", "Total: > Households with no people under 18 years: > Family households:"): (pl.col("under_18") == 0)
    & relatives,
    ("P22", "Total: > Nonfamily households: > Householder 85 years and over"): ~relatives
    & (pl.col("householder_age") == "85_plus"),
    ("PCT7", "Total: > Nonfamily households: > 7-or-more-person household"): ~relatives & (size == 7),
    ("PCT14", "Total: > Household has three or more generations"): pl.col("multigenerational") == 1,
    ("PCT15", "Total: > Married couple household: > Same-sex married couple household: > Female householder"): female
    & (couple == "married_same_sex"),
    ("PCT16", "Total: > Male householder: > Living alone: > Householder 65 years and over"): ~female
    & (size == 1)
    & pl.col("householder_age").is_in(["65_74", "75_84", "85_plus"]),
    ("H1", "Total"): pl.col("householder_sex").ne("none")
    | pl.col("tenvacgq").is_in(preset_of("units").attributes[0].levels[4:11]),
    ("H4", "Total: > Renter occupied"): pl.col("tenvacgq").is_in(["rented", "no_payment"]),
    ("H5", "Total: > Sold, not occupied"): pl.col("tenvacgq") == "sold_not_occupied",
    ("H10", "Total: > Owner occupied: > Householder who is Two or More Races"): owned
    & (pl.col("householder_race") == "two_or_more"),
    ("HCT1", "Total: > Owned free and clear: > Householder who is Hispanic or Latino:"): hispanic
    & (pl.col("tenvacgq") == "owned_clear"),
    ("H12B", "Total: > Owner occupied: > 3-person household"): owned
    & (pl.col("householder_race") == "black")
    & (size == 3),
    ("HCT3", "Total: > Renter occupied: > With children under 18 years: > 6 to 17 years only"): ~owned
    & (pl.col("minors") == 2),
}  # fmt: skip


@pytest.mark.parametrize(("name", "path"), COUNTED)
def test_columns_count_the_records_that_their_labels_speak_of(name: str, path: str):
    table = load_table(name)
    _, records = made_up(table.records)
    (column,) = label_rows((table.layout,)).filter(path=path)["column"]
    wanted = [records.filter(COUNTED[name, path], area=area).height for area in range(3)]
    assert rows_of(table)[column].to_list() == wanted
    assert sum(wanted) > 0


def test_table_names_and_the_letters_of_races():
    assert table_names("persons")[:4] == ("P1", "P3", "P4", "P5")
    assert {"P12A", "P12I", "PCT12G"} < set(table_names("persons"))
    assert "P12J" not in ALL
    assert len(ALL) == len(set(ALL)) == 94
    assert load_table("P16D").layout.title == "Household type (Asian alone)"
    assert load_table("P12").layout.identifiers[:2] == ["P12_0001", "P12_0002"]


@pytest.mark.parametrize("name", ["P2", "P12J", "P3A", "", "H"])
def test_unknown_tables_are_refused(name: str):
    with pytest.raises(SchemaError, match=f"no table '{name}' of persons or units"):
        load_table(name)


def test_leaves_of_a_list_get_the_parts_below_its_name():
    lists = {"pairs": ["one:", "  a | sex = male", "two | sex = female"]}
    (root,) = line_tree(["all", "  {pairs}", "    x", "    y"], lists)
    assert [line.label for line in root.parts] == ["one", "two"]
    assert [line.label for line in chain(root.parts[0].parts[0].parts, root.parts[1].parts)] == ["x", "y"] * 2


def test_conditions_of_one_attribute_are_met_together():
    schema = preset_of("persons")
    assert level_sets(schema, "age = 0-17, age = 15-64") == {"age": frozenset(range(15, 18))}
    assert both({"age": frozenset({1, 2})}, {"sex": frozenset({0})}) == {
        "age": frozenset({1, 2}),
        "sex": frozenset({0}),
    }
    for wrong in ("sex = neither", "shoe = 42"):
        with pytest.raises(SchemaError):
            level_sets(schema, wrong)
