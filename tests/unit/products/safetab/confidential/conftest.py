"""The toy country of the SafeTab tests, and the groups that its people and households are in."""

import json
import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tests import toy_country as toy

from tallyveil.products.safetab.confidential.measure import read_households
from tallyveil.products.safetab.confidential.records import read_persons
from tallyveil.products.safetab.public.household_tables import ListedGroups
from tallyveil.products.safetab.public.households import read_household_plan
from tallyveil.products.safetab.public.plan import read_plan
from tallyveil.products.safetab.public.regions import read_regions

HOUSEHOLD_HEADER = "TABBLKST|TABBLKCOU|TABTRACTCE|TABBLK|HHRACE|" + "|".join(f"QRACE{i}" for i in range(1, 9))
HOUSEHOLD_HEADER += "|QSPAN|HOUSEHOLD_TYPE|TEN"


@dataclass(frozen=True)
class Persons:
    """A SafeTab plan, its geography and its people, and the same counted by plain Python."""

    plan: Any
    regions: Any
    people: Any
    truth: Any


@pytest.fixture(scope="module")
def safetab(tmp_path_factory) -> Persons:
    """Six hundred people of the toy country; thresholds that send groups to every detail."""
    folder = tmp_path_factory.mktemp("safetab")
    thresholds = {f"({g}, {level})": [3, 12, 40] for g in toy.US + toy.PR for level in (1, 2)}
    rows = toy.person_rows(600)
    params = toy.write_params(folder / "p", thresholds_p=thresholds)
    data = toy.write_data(folder / "d", rows)
    plan = read_plan(params)
    regions = read_regions(data, plan.config)
    return Persons(
        plan, regions, read_persons(data, plan.config, plan.files, regions), toy.slow_tabulation(rows)
    )


@dataclass(frozen=True)
class Households:
    """A SafeTab-H plan, its geography and its households, and the same counted by plain Python."""

    plan: Any
    regions: Any
    homes: Any
    truth: dict[tuple[str, str, str], Counter[tuple[str, str]]]


@pytest.fixture(scope="module")
def safetab_h(tmp_path_factory) -> Households:
    """Four hundred households of the toy country, of every type and tenure."""
    folder = tmp_path_factory.mktemp("safetab-h")
    pairs = [f"({g}, {level})" for g in toy.US + toy.PR for level in (1, 2)]
    config: dict[str, Any] = {
        "max_race_codes": 3,
        "thresholds_h_t3": {pair: [60, 200, 600] for pair in pairs},
        "thresholds_h_t4": {pair: [100] for pair in pairs},
        "allow_negative_counts": True,
        "run_us": True,
        "run_pr": True,
        "reader": "csv",
        "state_filter_us": ["01", "11"],
        "privacy_defn": "zcdp",
    }
    for geography in toy.US + toy.PR:
        for level in (1, 2):
            for table in ("t3", "t4"):
                name = geography.lower().replace("-", "_")
                config[f"privacy_budget_h_{table}_level_{level}_{name}"] = 0.25
    params = toy.write_params(folder / "p")
    (params / "config.json").write_text(json.dumps(config))
    rng = random.Random(8)
    people = toy.person_rows(400)
    rows = [
        (*row[3:7], row[7], *row[8:16], row[16], str(rng.randint(1, 5)), str(rng.randint(1, 4)))
        for row in people
    ]
    data = toy.write_data(folder / "d", people)
    toy.pipe(data / "household-records.txt", HOUSEHOLD_HEADER, rows)
    plan = read_household_plan(params)
    regions = read_regions(data, plan.config)
    truth: dict[tuple[str, str, str], Counter[tuple[str, str]]] = {}
    where = {row[:4]: toy.regions_of(row) for row in toy.block_rows()}
    for row in rows:
        races = [race for race in row[5:13] if race != "Null"]
        for geography, region in where[row[:4]].items():
            nationwide = geography in ("USA", "STATE", "PR-STATE")
            for level in "12":
                for iteration in toy.iterations_of(races, row[13], level, nationwide):
                    truth.setdefault((region, geography, iteration), Counter())[row[14], row[15]] += 1
    return Households(plan, regions, read_households(data, plan, regions), truth)


@pytest.fixture
def every_group() -> Any:
    """Makes the list of all groups of a household set, with details in turn."""

    def listed(one: Any, regions: Any) -> ListedGroups:
        n, width = len(regions.ids[one.geography]), len(one.view.codes)
        place = np.arange(n * width, dtype=np.int64)
        return ListedGroups(place // width, place % width, place % len(one.layout.details))

    return listed
