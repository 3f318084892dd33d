"""The groups of records of any kind, compared with sets; and the Census layout counted from such a file."""

import logging
from collections import Counter
from fractions import Fraction
from itertools import product
from random import Random

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.accounting.ledger.file import read_ledger
from tallyveil.budget.strategy import Mechanism
from tallyveil.errors import ConfigError, SchemaError, StoreError
from tallyveil.noise.key import insecure_key
from tallyveil.noise.source import NoiseSource
from tallyveil.products.safetab.confidential import measure as safetab_measure
from tallyveil.products.safetab.confidential.declassify import declassify_levels
from tallyveil.products.safetab.confidential.group_records import (
    ConfidentialGroups,
    RecordGroups,
    read_group_records,
)
from tallyveil.products.safetab.confidential.measure import GroupMeasurer
from tallyveil.products.safetab.public.addresses import FIRST_TABLE
from tallyveil.products.safetab.public.group_plan import GroupPlan, LevelNoise, ladder_of, mapped_level
from tallyveil.products.safetab.public.groupings import grouping_from_rows, list_groups
from tallyveil.products.safetab.public.levels import level_laws
from tallyveil.schema.attribute import Attribute
from tallyveil.schema.schema import Schema

SCHEMA = Schema("stays", (Attribute("sex", ("F", "M")), Attribute("age", ("young", "old"))))
CODES = [("i1", "I"), ("j1", "J"), ("none", None), ("i2", "I"), ("both", "I"), ("both", "J")]
GROUPS_OF = {"i1": {"I"}, "i2": {"I"}, "j1": {"J"}, "none": set(), "both": {"I", "J"}, "": None}
ROW = st.tuples(st.sampled_from("NS "), st.sampled_from("FM"), st.sampled_from(["young", "old"]))
RECORDS = st.lists(
    st.tuples(ROW, st.lists(st.sampled_from(sorted(GROUPS_OF)), min_size=3, max_size=3)), max_size=12
)


def level(number, name, groupings, stability, thresholds=(1, 2), total_only=False, rows=None):
    groups = list_groups(name, groupings, total_only, rows)
    laws = level_laws(Mechanism.DISCRETE_GAUSSIAN, Fraction(1), stability, Fraction(1, 10), name)
    ladder = ladder_of(SCHEMA, ("sex", "sex * age"))
    address = LevelNoise(number, 0, None if rows is None else rows.name)
    numbers = {"budget": Fraction(1), "thresholds": thresholds, "stability": stability}
    return mapped_level(name, number, address, groups, ladder, laws, **numbers)


def plan_of(*levels_and_groupings, schema=SCHEMA):
    groupings, levels = levels_and_groupings
    columns = tuple((name, name) for name in schema.attribute_names)
    total, gaussian = sum((one.budget for one in levels), Fraction(0)), Mechanism.DISCRETE_GAUSSIAN
    return GroupPlan(
        name="stays",
        mechanism=gaussian,
        declared=total,
        spent=total,
        delta=Fraction(1, 10**10),
        stage_1_fraction=Fraction(1, 10),
        schema=schema,
        columns=columns,
        groupings=tuple(groupings),
        levels=tuple(levels),
    )


@pytest.fixture(scope="module")
def plan():
    """Chapters of any code, chapters that all codes share, both by region, and all records."""
    region = grouping_from_rows("region", ["region"], "any", [("N", "N"), ("S", "S")])
    any_of = grouping_from_rows("chapter", ["c1", "c2", "c3"], "any", CODES)
    all_of = grouping_from_rows("shared", ["c1", "c2", "c3"], "all", CODES)
    levels = (
        level(0, "all", [], 1),
        level(1, "any", [any_of], 2, total_only={"chapter": ["J"]}),
        level(2, "shared", [region, all_of], 2),
        level(3, "both", [any_of, region], 2, total_only=True),
    )
    return plan_of((region, any_of, all_of), levels)


def groups_by_sets(row, codes):
    """The groups of one record at every level of the plan, by definition."""
    region = {row[0]} - {" "}
    own = [GROUPS_OF[code] for code in dict.fromkeys(codes) if code]
    any_of, all_of = set().union(*own), set.intersection(*own) if own else set()
    return [{()}, set(product(any_of)), set(product(region, all_of)), set(product(any_of, region))]


def written(path, rows):
    columns = [(row[0].strip(), row[1], row[2], *codes) for row, codes in rows]
    names = ["region", "sex", "age", "c1", "c2", "c3"]
    pl.DataFrame(columns, schema=dict.fromkeys(names, pl.String), orient="row").write_parquet(path)
    return path


@given(rows=RECORDS)
def test_every_record_is_counted_in_its_groups_and_cells(plan, silent, tmp_path_factory, rows):
    path = written(tmp_path_factory.mktemp("records") / "r.parquet", rows)
    measurer = GroupMeasurer(read_group_records(path, plan), silent)
    for number, one in enumerate(plan.levels):
        totals, cells = Counter(), Counter()
        for row, codes in rows:
            for group in groups_by_sets(row, codes)[number]:
                totals[group] += 1
                cells[group, row[1:]] += 1
        (part,) = measurer.measure(one, np.zeros(1, np.int64))
        labels = one.listed.labels(np.arange(one.width))
        names = list(zip(*labels.values(), strict=True)) or [()]
        counted = np.concatenate([part.stage_1, part.total_only], axis=1)[0]
        assert counted.tolist() == [totals[name] for name in names]
        for table, by_age in zip(part.tables, (False, True), strict=True):
            for place, values in zip(table.places, table.values, strict=True):
                own = [cells[names[place], cell] for cell in product("FM", ("young", "old"))]
                assert values.tolist() == (own if by_age else [own[0] + own[1], own[2] + own[3]])


LISTED = [("b", "J"), ("a", "I"), ("c", "K"), ("b", "K"), ("none", None), ("c", "I"), ("b", "I"), ("d", "J")]
"""Values of one, two, three and no groups, with the rows of a value apart from each other."""
CELLS = list(product("FM", ("young", "old")))


@pytest.fixture(scope="module")
def by_region():
    """Chapters in rows of regions, of which one has no record, and the regions themselves."""
    region = grouping_from_rows("region", ["region"], "any", [(name, name) for name in "NESW"])
    chapter = grouping_from_rows("chapter", ["c1", "c2", "c3"], "any", LISTED)
    shared = grouping_from_rows("shared", ["c1", "c2", "c3"], "all", LISTED)
    levels = (
        level(0, "any", [chapter], 3, total_only={"chapter": ["I"]}, rows=region),
        level(1, "all", [shared], 3, rows=region),
        level(2, "region", [], 1, rows=region),
    )
    return plan_of((region, chapter, shared), levels)


def counted_by_region(records):
    """Records of each level by group and cell, counted by sets."""
    found = [Counter(), Counter(), Counter()]
    for row, codes in records:
        own = [{group for code, group in LISTED if code == value and group} for value in codes if value]
        groups = [set().union(*own), set.intersection(*own) if own else set()]
        for number, names in enumerate([[(row[0], one) for one in each] for each in groups] + [[row[:1]]]):
            found[number].update((name, row[1:]) for name in names)
    return found


@pytest.mark.parametrize("at_once", [1, 7, 1 << 18])
@pytest.mark.parametrize("rows", [(0, 1, 2, 3), (0, 2), (1,), (1, 3), (3,)])
def test_any_rows_are_counted_in_parts_of_any_size(by_region, silent, tmp_path, monkeypatch, rows, at_once):
    monkeypatch.setattr(safetab_measure, "GROUPS_AT_ONCE", at_once)
    random = Random(7)
    records = [
        (
            tuple(map(random.choice, ("N SW", "FM", ("young", "old")))),
            random.choices(["", *"abcd", "none"], k=3),
        )
        for _ in range(80)
    ]
    wanted = counted_by_region(records)
    measurer = GroupMeasurer(read_group_records(written(tmp_path / "r.parquet", records), by_region), silent)
    for number, one in enumerate(by_region.levels):
        parts = list(measurer.measure(one, np.array(rows)))
        assert np.concatenate([part.rows for part in parts]).tolist() == list(rows)
        assert len(parts) == -(-len(rows) // max(1, at_once // one.width))
        for part in parts:
            places = (part.rows[:, None] * one.width + np.arange(one.width)).reshape(-1)
            names = list(zip(*one.listed.labels(places).values(), strict=True))
            totals = np.concatenate([part.stage_1, part.total_only], axis=1).reshape(-1).tolist()
            assert part.listed.tolist() == np.flatnonzero(part.detail == 0).tolist()
            assert totals == [sum(wanted[number][name, cell] for cell in CELLS) for name in names]
            for place, values in zip(part.tables[1].places, part.tables[1].values, strict=True):
                row, column = divmod(int(place), one.n_adaptive)
                name = names[row * one.width + column]
                assert values.tolist() == [wanted[number][name, cell] for cell in CELLS]


@pytest.mark.parametrize("at_once", [1, 1 << 18])
def test_tables_in_rows_of_any_width_get_the_noise_of_their_addresses(
    by_region, silent, tmp_path, monkeypatch, at_once
):
    """Also where a row has one group, which is its region."""
    monkeypatch.setattr(safetab_measure, "GROUPS_AT_ONCE", at_once)
    rows = [((region, "F", "old"), ["b", "", ""]) for region in "NSW" for _ in range(3)]
    records = read_group_records(written(tmp_path / "r.parquet", rows), by_region)
    source, wanted = NoiseSource(insecure_key("rows")), np.array([0, 2, 3])
    for one in by_region.levels:
        for part in GroupMeasurer(records, source).measure(one, wanted):
            for number, table in enumerate(part.tables, start=1):
                row, group = np.divmod(table.places, one.n_adaptive)
                slots = np.full(part.detail.shape, -1, np.int32)
                slots.reshape(-1)[table.places] = np.arange(len(row))
                finest = records.of(one).tables(part.rows, slots, len(row))
                exact = one.ladder.tables[number - 1].collapse(finest)
                for place, values in enumerate(table.values):
                    answers = one.ladder.cells_apart * group[place] + np.arange(len(values))
                    regions = np.full(len(values), part.rows[row[place]])
                    query = one.query + FIRST_TABLE + number - 1
                    noise = source.at(one.stage_2, one.geolevel, query, regions, answers)
                    assert np.array_equal(values, exact[place] + noise)


def test_declassified_levels_are_those_counted_by_hand_after_the_entry(plan, ledger, tmp_path):
    rows = [(("N", "F", "old"), ["i1", "j1", ""]), (("S", "M", "young"), ["both", "", ""])]
    rows += [(("N", "F", "young"), ["i2", "i1", ""]), ((" ", "M", "old"), ["none", "", ""])]
    records = read_group_records(written(tmp_path / "r.parquet", rows), plan)
    levels = declassify_levels(records, plan.levels, ledger=ledger, reason="evaluation")
    (entry,) = read_ledger(tmp_path / "ledger.jsonl")[1]
    assert (entry.kind, entry.event.reason) == ("declassify", "evaluation")
    for number, found in enumerate(levels):
        one = plan.levels[number]
        names = list(zip(*one.listed.labels(np.arange(one.width)).values(), strict=True)) or [()]
        wanted = [
            [row for row, codes in rows if name in groups_by_sets(row, codes)[number]] for name in names
        ]
        assert found.level is one
        assert found.totals.tolist() == [len(own) for own in wanted]
        assert (found.totals.dtype, found.slots.dtype, found.finest.dtype) == (np.int64, np.int32, np.int64)
        for place, own in enumerate(wanted):
            held = place < one.n_adaptive and bool(own)
            assert (found.slots[place] >= 0) == held
            assert held or found.slots[place] == -1
            if held:
                cells = Counter(row[1:] for row in own)
                table = [cells[cell] for cell in product("FM", ("young", "old"))]
                assert found.finest[found.slots[place]].tolist() == table
        assert len(found.finest) == (found.slots >= 0).sum() == found.slots.max(initial=-1) + 1


def test_the_log_says_that_records_were_read_and_no_number_of_them(plan, tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="tallyveil")
    read_group_records(written(tmp_path / "r.parquet", [(("N", "F", "old"), ["i1", "", ""])]), plan)
    assert "valid" in caplog.text
    assert not any(character.isdigit() for record in caplog.records for character in record.getMessage())


def test_the_order_of_records_does_not_change_the_digest(plan, tmp_path):
    rows = [(("N", "F", "old"), ["i1", "j1", ""]), (("S", "M", "young"), ["both", "", ""])]
    found = [read_group_records(written(tmp_path / "r.parquet", own), plan) for own in (rows, rows[::-1])]
    assert found[0].digest() == found[1].digest()
    assert found[0].digest() != read_group_records(written(tmp_path / "s.parquet", rows[:1]), plan).digest()
    assert all(one.places.dtype == one.cells.dtype == np.int64 for one in found[0].levels)
    assert "redacted" in repr(found[0])
    assert "redacted" in repr(found[0].levels[0])


def groups_made(plan, *levels):
    """Places and cells of the records at the first levels."""
    arrays = [[np.array(own, np.int64) for own in pair] for pair in levels]
    pairs = zip(plan.levels, arrays, strict=False)
    return RecordGroups(tuple(ConfidentialGroups(level, *pair) for level, pair in pairs))


def test_groups_that_differ_have_digests_that_differ(plan):
    """Also where all numbers one after the other are the same, so that only lengths tell levels apart."""
    one = groups_made(plan, ([1], [2]), ([3, 4], [5, 6]))
    others = [
        groups_made(plan, ([1, 2], [3, 4]), ([5], [6])),
        groups_made(plan, ([0], [2]), ([3, 4], [5, 6])),
        groups_made(plan, ([1], [2]), ([3, 4], [6, 5])),
        groups_made(plan, ([1], [2])),
    ]
    assert len({each.digest() for each in (one, *others)}) == 5


def test_the_digest_of_groups_is_pinned(plan):
    """A later version goes on with a run that this one began only if it finds the same digest."""
    assert (
        groups_made(plan, ([1], [2]), ([3, 4], [5, 6])).digest().hex()
        == "c1cd20e1196e248bdaa82e68fa40a1860e89520b4adffbf8f3de8d99226fc30f"
    )


@pytest.mark.parametrize("broken", [("X", "F", "old"), ("N", "F", "ancient")])
def test_an_unknown_value_is_refused_without_being_shown(plan, tmp_path, broken):
    path = written(tmp_path / "r.parquet", [(("N", "F", "old"), ["i1", "", ""]), (broken, ["zz", "", ""])])
    with pytest.raises(SchemaError) as caught:
        read_group_records(path, plan)
    assert caught.value.code == "unknown-level"
    assert "'c1'" in str(caught.value)
    assert not {"zz", "ancient", "'X'"} & set(str(caught.value).split())


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize(
    ("bad", "code"),
    [
        ((("X", "F", "old"), ["i1", "", ""]), "unknown-level"),
        ((("N", "F", "old"), ["zz", "", ""]), "unknown-level"),
        ((("N", "Q", "old"), ["i1", "", ""]), "unknown-level"),
        ((("N", "F", None), ["i1", "", ""]), "unknown-level"),
        ((("N", "F", "old"), ["i1", "j1", ""]), "groups-too-many"),
    ],
)
def test_a_fault_in_any_batch_is_found(tmp_path, monkeypatch, place, bad, code):
    monkeypatch.setattr("tallyveil.storage.read.ROWS_AT_ONCE", 1)
    region = grouping_from_rows("region", ["region"], "any", [("N", "N"), ("S", "S")])
    codes = grouping_from_rows("chapter", ["c1", "c2", "c3"], "any", CODES)
    plan = plan_of((region, codes), (level(0, "chapters", [region, codes], 1),))
    sound = [(("N", "F", "old"), ["i1", "", ""]), (("S", "M", "young"), ["j1", "", ""])]
    assert read_group_records(written(tmp_path / "r.parquet", sound), plan).levels[0].cells.tolist() == [1, 2]
    path = written(tmp_path / "s.parquet", [*sound[:place], bad, *sound[place:]])
    with pytest.raises(SchemaError) as caught:
        read_group_records(path, plan)
    assert caught.value.code == code


@pytest.mark.parametrize("column", ["region", "sex", "c2"])
def test_columns_of_a_kind_that_holds_no_values_are_refused(plan, tmp_path, column):
    path = written(tmp_path / "r.parquet", [(("N", "F", "old"), ["i1", "", ""])])
    pl.read_parquet(path).with_columns(pl.concat_list(column)).write_parquet(path)
    with pytest.raises(SchemaError, match=rf"'?{column}'? of the records file .* hold lists") as caught:
        read_group_records(path, plan)
    assert caught.value.code == "unknown-level"


def test_files_that_are_missing_or_damaged_are_refused(plan, tmp_path):
    with pytest.raises(StoreError, match=r"the records file .* does not exist"):
        read_group_records(tmp_path / "r.parquet", plan)
    path = written(tmp_path / "r.parquet", [(("N", "F", "old"), ["i1", "", ""])])
    pl.read_parquet(path).write_csv(tmp_path / "r.csv")
    assert len(read_group_records(tmp_path / "r.csv", plan).levels[0].cells) == 1
    (tmp_path / "r.csv").write_text((tmp_path / "r.csv").read_text() + "N,F,old,i1,,,secret\n")
    with pytest.raises(StoreError, match="reading the records file") as caught:
        read_group_records(tmp_path / "r.csv", plan)
    assert "secret" not in str(caught.value)
    pl.read_parquet(path).drop("c2").write_parquet(path)
    with pytest.raises(ConfigError, match=r"the records file (.|\n)*'c2'") as caught:
        read_group_records(path, plan)
    assert "region" not in str(caught.value)  # what stands in the file is not shown


def test_broken_rules_of_both_kinds_are_told_at_once(plan, tmp_path):
    codes = grouping_from_rows("chapter", ["c1", "c2", "c3"], "any", CODES)
    levels = [level(number, name, [codes], 1) for number, name in enumerate(("chapters", "sections"))]
    strict = plan_of((codes,), (*levels, level(2, "all", [], 1)))
    rows = [(("N", "F", "old"), ["zz", "", "zz"]), (("N", "F", "old"), ["i1", "j1", ""])]
    with pytest.raises(
        SchemaError,
        match=r"2 problems with the records(.|\n)*\(s\) 'c1', 'c3' of(.|\n)*\(s\) 'chapters', 'sections' than",
    ) as caught:
        read_group_records(written(tmp_path / "r.parquet", rows), strict)
    assert "zz" not in str(caught.value)


@pytest.mark.parametrize("order", ["c", "cr", "rc"])
def test_a_record_in_too_many_groups_is_refused(tmp_path, order):
    """Wherever the grouping stands among those of the level."""
    region = grouping_from_rows("region", ["region"], "any", [("N", "N"), ("S", "S")])
    codes = grouping_from_rows("chapter", ["c1", "c2", "c3"], "any", CODES)
    own = [{"c": codes, "r": region}[letter] for letter in order]
    strict = plan_of((region, codes), (level(0, "all", [], 1), level(1, "chapters", own, 1)))
    sound = [(("N", "F", "old"), ["i1", "i2", "none"])]  # two codes of one chapter: one group
    read_group_records(written(tmp_path / "r.parquet", sound), strict)
    path = written(tmp_path / "s.parquet", [*sound, (("N", "F", "old"), ["i1", "j1", ""])])
    with pytest.raises(SchemaError, match="more groups of the level") as caught:
        read_group_records(path, strict)
    assert caught.value.code == "groups-too-many"


def test_the_census_layout_as_a_file_of_groups_gives_the_same_counts(safetab, silent, tmp_path):
    """One level set of the Census layout, from the same people written as plain records, by kind of iteration."""
    run, one = next(
        (run.run, one) for run in safetab.plan.runs for one in run.sets if one.name == "STATE level 2"
    )
    names, codes = safetab.regions[run].names("STATE").to_list(), safetab.plan.files.codes
    people = safetab.people[run]
    of_block = safetab.regions[run].region_of["STATE"]
    blocks = np.repeat(np.arange(len(people.start) - 1), np.diff(people.start))
    rows = []
    for person, race in enumerate(people.races.tolist()):
        own = [race] if race >= 0 else people.lists[~race : ~race + people.lists[~race:].tolist().index(-1)]
        own = [codes[code] for code in own]
        region = names[of_block[blocks[person]]]
        rows.append(
            [region, str(people.cells[person]), codes[people.ethnicity[person]], *own, *[""] * (3 - len(own))]
        )
    path = tmp_path / "people.parquet"
    columns = ["state", "cell", "ethnicity", "race_1", "race_2", "race_3"]
    pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.String), orient="row").write_parquet(path)
    schema = Schema("people", (Attribute("cell", tuple(str(n) for n in range(46))),))
    state = grouping_from_rows("state", ["state"], "any", [(name, name) for name in names])
    races = columns[3:]
    kinds = {
        "alone": (races, "all", one.view.alone_of),
        "combination": (races, "any", one.view.combination_of),
        "ethnicity": (["ethnicity"], "any", one.view.ethnicity_of),
    }
    groupings, levels = [state], []
    for kind, (held, match, map_of) in kinds.items():
        pairs = [(code, one.view.codes[m] if m >= 0 else None) for code, m in zip(codes, map_of, strict=True)]
        groupings.append(grouping_from_rows(kind, held, match, pairs))
        levels.append(level(len(levels), kind, [state, groupings[-1]], 3, total_only=True))
    plan = plan_of(groupings, levels, schema=schema)
    measurer = GroupMeasurer(read_group_records(path, plan), silent)
    found = {}
    for each in plan.levels:
        (part,) = measurer.measure(each, np.zeros(1, np.int64))
        labels = each.listed.labels(np.arange(each.width)).values()
        found |= dict(zip(zip(*labels, strict=True), part.total_only[0].tolist(), strict=True))
    wanted = {
        (name, code): safetab.truth.t1[name, "STATE", code] for name in names for code in one.view.codes
    }
    assert found == wanted
    assert sum(found.values()) > len(rows)


def test_values_are_joined_and_missing_ones_are_passed_over(silent, tmp_path):
    place = grouping_from_rows(
        "place", ["region", "c1"], "joined", [("Ni1", "X"), ("Sj1", "Y"), ("Nj1", None)]
    )
    shared = grouping_from_rows("shared", ["c1", "c2"], "all", CODES, missing=["Null"])
    levels = (
        level(0, "place", [place], 1, total_only=True),
        level(1, "shared", [shared], 2, total_only=True),
    )
    rows = [(("N", "F", "old"), ["i1", "Null", ""]), (("S", "F", "old"), ["j1", "Null", ""])]
    rows += [(("N", "F", "old"), ["j1", "Null", ""]), ((" ", "F", "old"), ["i1", "i2", ""])]
    plan = plan_of((place, shared), levels)
    measurer = GroupMeasurer(read_group_records(written(tmp_path / "r.parquet", rows), plan), silent)
    counted = [next(measurer.measure(one, np.zeros(1, np.int64))).total_only.tolist() for one in levels]
    assert counted == [[[1, 1]], [[2, 2]]]
    with pytest.raises(SchemaError, match="'c1', 'region'"):
        read_group_records(written(tmp_path / "s.parquet", [(("S", "F", "old"), ["i1", "", ""])]), plan)
