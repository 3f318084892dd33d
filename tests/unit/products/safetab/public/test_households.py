"""SafeTab-H's plan with the production budgets and thresholds: its known totals, noise and margins."""

import json
import shutil
from fractions import Fraction
from typing import Any

import pytest
from tests import toy_country as toy

from tallyveil.accounting import rho_of, zcdp_to_epsilon
from tallyveil.products.safetab.public.expected import expected_household_errors
from tallyveil.products.safetab.public.households import TABLES, read_household_plan

SUB_STATE_TOP = 149970
"""Production's largest threshold of level 1 below the state is one less than SafeTab's."""


def production_values():
    values: dict[str, Any] = {
        "max_race_codes": 8,
        "thresholds_h_t3": {},
        "thresholds_h_t4": {},
        "allow_negative_counts": True,
        "run_us": True,
        "run_pr": True,
        "reader": "cef",
        "state_filter_us": ["01", "11"],
        "privacy_defn": "zcdp",
    }
    for geography in toy.US + toy.PR:
        nationwide = geography in ("USA", "STATE", "PR-STATE")
        budgets = 0.006915 if geography != "AIANNH" else 0.0, 1.9208 if nationwide else 0.142869
        fine = [471, 971, 6971] if nationwide else [971, 4971, 19971]
        coarse = [4971, 19971, 149971 if nationwide else SUB_STATE_TOP]
        for level, budget, usual in ((1, budgets[0], coarse), (2, budgets[1], fine)):
            thresholds = fine if geography == "AIANNH" else usual
            values["thresholds_h_t3"][f"({geography}, {level})"] = thresholds
            values["thresholds_h_t4"][f"({geography}, {level})"] = thresholds[:1]
            for table in ("t3", "t4"):
                name = geography.lower().replace("-", "_")
                values[f"privacy_budget_h_{table}_level_{level}_{name}"] = budget
    return values


def test_the_production_plan(production, tmp_path):
    folder = tmp_path / "params"
    folder.mkdir()
    for path in production.glob("*.txt"):
        shutil.copyfile(path, folder / path.name)
    (folder / "config.json").write_text(json.dumps(production_values()))
    plan = read_household_plan(folder)
    assert {run.run: run.budget for run in plan.runs} == {
        "US": Fraction("8.895302"),
        "PR": Fraction("4.754134"),
    }
    assert {one.stability for run in plan.runs for one in run.sets} == {9}
    us = plan.runs[0]
    assert rho_of(us.event()) == us.budget
    assert zcdp_to_epsilon(us.budget, Fraction(1, 10**10)) == pytest.approx(36.433, abs=5e-4)
    noise = {
        (one.geography, one.level): (one.law.standard_deviation(), one.law.margin(Fraction(19, 20)))
        for one in us.sets
        if one.table == "t3"
    }
    assert ("AIANNH", 1) not in noise
    assert noise["USA", 1] == (pytest.approx(25.5, abs=0.05), 50)
    assert noise["STATE", 2] == (pytest.approx(1.531, abs=5e-4), 3)
    assert noise["TRACT", 2] == (pytest.approx(5.612, abs=5e-4), 11)
    errors = expected_household_errors((run.run, run.sets) for run in plan.runs)
    assert len(errors) == sum(len(one.layout.details) for run in plan.runs for one in run.sets)
    assert {(e.table, e.detail, e.from_count) for e in errors if (e.geography, e.level) == ("COUNTY", 1)} == {
        ("t3", "T03001", None),
        ("t3", "T03002", 4971),
        ("t3", "T03003", 19971),
        ("t3", "T03004", SUB_STATE_TOP),
        ("t4", "T04001", None),
        ("t4", "T04002", 4971),
    }


def test_cells_of_every_detail():
    """Cells and marginals as the released code has them: the total is among them in every detail."""
    shown = {detail.folder: [cell for cell, _ in detail.sums] for table in TABLES for detail in table.details}
    assert shown == {
        "T03001": [0],
        "T03002": [0, 1, 6],
        "T03003": [0, 1, 2, 3, 6, 7, 8],
        "T03004": [0, 1, 2, 3, 4, 5, 6, 7, 8],
        "T04001": [0],
        "T04002": [0, 1, 2, 3],
    }
    for table in TABLES:
        for detail in table.details:
            assert dict(detail.sums)[0] == tuple(range(detail.n_cells))
