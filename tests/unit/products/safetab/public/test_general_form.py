"""The Census layout as a file of population groups: the same numbers, bit for bit, under the same key."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from tests import toy_country as toy

from tallyveil.accounting.ledger.file import Ledger
from tallyveil.noise import NoiseSource, insecure_key
from tallyveil.products.safetab.confidential.declassify import declassify_levels
from tallyveil.products.safetab.confidential.group_records import read_group_records
from tallyveil.products.safetab.confidential.measure import GroupMeasurer, PersonCounts
from tallyveil.products.safetab.confidential.records import read_persons
from tallyveil.products.safetab.public.ages import DETAILS
from tallyveil.products.safetab.public.from_toml import load_group_plan
from tallyveil.products.safetab.public.general_form import write_general_form
from tallyveil.products.safetab.public.group_numbers import CollectedGroups
from tallyveil.products.safetab.public.plan import read_plan
from tallyveil.products.safetab.public.regions import read_regions
from tallyveil.products.safetab.public.tables import SetTables, group_tables
from tallyveil.products.safetab.run.groups import groups_declaration

NUMBERS = ["COUNT", "VARIANCE", "MARGIN", "ESTIMATE", "ESTIMATE_VARIANCE", "ESTIMATE_MARGIN", "METHOD"]
NOISE = NoiseSource(insecure_key("general form"))


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """For each run: the Census plan, its regions and measurer; the general plan and its measurer."""
    folder = tmp_path_factory.mktemp("general")
    rows = toy.person_rows(3000)
    # Some groups have every detail, and no total is suppressed.
    thresholds = {f"({g}, {n})": [5, 60, 200] for g in toy.US + toy.PR for n in (1, 2)}
    params = toy.write_params(folder / "p", thresholds_p=thresholds, zero_suppression_chance=None)
    data = toy.write_data(folder / "d", rows)
    plan = read_plan(params)
    regions = read_regions(data, plan.config)
    persons = read_persons(data, plan.config, plan.files, regions)
    out = folder / "out"
    out.mkdir()
    paths = dict(zip(regions, write_general_form(plan, regions, out), strict=True))
    found = {}
    for run in plan.runs:
        own = [(str(int(row[0])), *row[1:]) for row in rows if (row[3] == "72") == (run.run == "PR")]
        records = folder / f"{run.run}.parquet"
        pl.DataFrame(own, schema=toy.PERSON_HEADER.split("|"), orient="row").write_parquet(records)
        general = load_group_plan(paths[run.run])
        census = GroupMeasurer(PersonCounts(persons[run.run], regions[run.run]), NOISE)
        found[run.run] = (
            (plan, run, regions[run.run], census),
            (general, GroupMeasurer(read_group_records(records, general), NOISE)),
        )
    return found


@pytest.mark.parametrize("run", ["US", "PR"])
def test_levels_laws_and_details_are_those_of_the_census(both, run):
    (plan, own, regions, _), (general, _) = both[run]
    assert general.spent == own.budget
    assert general.stage_1_fraction == plan.config.stage_1_fraction
    for one, level in zip(own.sets, general.levels, strict=True):
        assert level.name == one.name
        assert level.budget == one.budget
        assert level.stability == one.stability
        assert level.thresholds == one.thresholds
        assert (level.stage_1, level.stage_2, level.total_only) == (one.stage_1, one.stage_2, one.total_only)
        assert (level.width, level.n_adaptive) == (one.width, one.n_adaptive)
        assert (level.geolevel, level.query) == (one.geolevel, one.query)
        assert level.listed.n_rows == len(regions.ids[one.geography])
        labels = level.listed.labels(np.arange(level.width))
        assert labels[level.listed.within[0].name].to_list() == list(one.view.codes)
        assert level.ladder.cells_apart == one.ladder.cells_apart
        for table, detail in zip(level.ladder.tables, DETAILS, strict=True):
            finest = np.arange(2 * 116).reshape(1, -1)
            ages = DETAILS[-1].starts
            census = np.add.reduceat(finest.reshape(2, 116), ages, axis=1).reshape(1, -1)
            assert table.collapse(finest).tolist() == detail.collapse(census).tolist()


@pytest.mark.parametrize("run", ["US", "PR"])
def test_the_noisy_counts_are_the_same_numbers(both, run):
    (_, own, regions, census), (general, records) = both[run]
    n_tables = 0
    for one, level in zip(own.sets, general.levels, strict=True):
        rows = np.arange(len(regions.ids[one.geography]))
        (wanted,), (found,) = census.measure(one, rows), records.measure(level, rows)
        for name in ("rows", "stage_1", "detail", "totals", "listed", "total_only"):
            assert np.array_equal(getattr(found, name), getattr(wanted, name)), (one.name, name)
        for table, expected in zip(found.tables, wanted.tables, strict=True):
            assert np.array_equal(table.places, expected.places)
            assert np.array_equal(table.values, expected.values)
            n_tables += len(table.places)
    assert n_tables > 30


def test_the_published_numbers_are_the_same(both):
    (plan, own, regions, census), (general, records) = both["US"]
    one, level = own.sets[3], general.levels[3]
    rows = replace(level.listed.rows, name="place")  # a name that columns in between could have had
    level = replace(level, listed=replace(level.listed, rows=rows))
    rows = np.arange(len(regions.ids[one.geography]))
    tables, collected = SetTables(one, regions, plan.config), CollectedGroups(level)
    for part in census.measure(one, rows):
        tables.add(part)
    for part in records.measure(level, rows):
        collected.add(part)
    t1, t2 = tables.t1(), tables.t2().filter(pl.col("AGESTART") != "*")
    totals, cells = group_tables(level, collected)
    keys = ["place", "iteration 2"]
    shown = t1.sort("REGION_ID", "ITERATION_CODE").select("REGION_ID", "ITERATION_CODE", *NUMBERS)
    assert totals.sort(keys).select(*keys, *NUMBERS).rows() == shown.rows()
    assert set(t1["DETAIL"]) >= {"sex by 4 ages", "sex by 9 ages", "sex by 23 ages", "total only"}
    counted = cells.sort(keys, maintain_order=True).select(*keys, *NUMBERS)
    of_census = t2.sort("REGION_ID", "ITERATION_CODE", maintain_order=True)
    assert counted.rows() == of_census.select("REGION_ID", "ITERATION_CODE", *NUMBERS).rows()


def test_the_true_counts_are_those_of_a_slow_tabulation(both, tmp_path):
    """Levels whose groups stand in several rows are declassified like others."""
    (_, own, _, _), (general, records) = both["US"]
    with Ledger(tmp_path / "ledger.jsonl", groups_declaration(general), "run") as ledger:
        found = list(declassify_levels(records.counts, general.levels, ledger=ledger, reason="test"))
    truth = toy.slow_tabulation(toy.person_rows(3000), toy.US)
    for one, level in zip(own.sets[2:], found[2:], strict=True):
        table = level.table()
        counted = {(row[0], one.geography, row[1]): row[2] for row in table.iter_rows() if row[2]}
        wanted = {group: n for group, n in truth.t1.items() if group[1] == one.geography}
        assert counted == {group: n for group, n in wanted.items() if group[2] in one.view.codes}
        assert level.finest.sum() == table.filter(level.slots >= 0)["TRUE"].sum()
