"""Lift passes of a plan: what fits, and what is refused when the file is read."""

from pathlib import Path

import pytest
from tests.lift_worlds import LIFTED

from tallyveil.errors import TallyveilError
from tallyveil.plans.from_toml.load import load_plan

RESIDENTS = """
[[residents]]
name = "coarse"
people = { home = ["house"] }
adults = { grown = ["adult"] }
"""


def plan_of(folder: Path, old: str = "", new: str = ""):
    path = folder / "persons.toml"
    assert old in LIFTED
    path.write_text(LIFTED.replace(old, new, 1) if old else LIFTED)
    return load_plan(path)


def test_a_lift_pass_has_no_measured_queries_and_is_stated_in_the_plan(tmp_path):
    plan = plan_of(tmp_path)
    assert [one.part for one in plan.outer] == ["heads", "lone", None]
    passes = dict(plan.estimation)["Block"].passes
    assert passes == (("sex", "relation*sex", "detailed"),)
    stated = plan.to_mapping()["outer"]
    assert stated[0] == {
        "cells": "role*grown",
        "rounding": [],
        "part": "heads",
        "total": "homes",
        "prior": "shares",
    }
    assert stated[2] == {"cells": "detailed", "rounding": ["sex"]}


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('part = "heads"\n', "", "has 'total' and no 'part'"),
        ('total = "homes"\n', "", "has one of 'total' and 'residents', if it is the first"),
        (
            'total = "homes"\n',
            'company = "others"\n',
            "The part of the first pass has a 'total' or 'residents'",
        ),
        (
            'company = "others"\n',
            'total = "homes"\n',
            "Parts of later passes have 'company', 'at_most' or 'sizes'",
        ),
        ('total = "homes"\n', 'total = "coarse"\n', "from the agreement 'coarse'"),
        ('part = "heads"\n', 'part = "home"\n', "names 'home', which is not a query of one answer"),
        ('part = "lone"\n', 'part = "heads"\n', "one cell of the rest and at most one of the part"),
        ('company = "others"\n', 'company = "heads"\n', "must be other records"),
        ('company = "others"\n', 'company = "others"\nrounding = ["role"]\n', "It has no 'rounding'"),
        (
            'company = "others"\n',
            'company = "others"\nat_most = "heads"\n',
            "one of 'company', 'at_most' and 'sizes'",
        ),
        ('company = "others"\n', 'at_most = "grown"\n', "names 'grown', which is not a query of one answer"),
        (
            'total = "homes"\n',
            'residents = "homes"\n',
            "There must be a \\[\\[residents\\]\\] of this name; there are: none",
        ),
        ('cells = "detailed"\n', 'cells = "detailed"\nprior = "none"\n', "has 'prior' and no 'part'"),
        ('total = "homes"\n', 'total = "homes"\nprior = "company"\n', "has the prior 'company', which only"),
        ("[outputs]\n", RESIDENTS + "[outputs]\n", "has no effect: no pass"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, old, new, told):
    with pytest.raises(TallyveilError, match=told) as caught:
        plan_of(tmp_path, old, new)
    assert caught.value.code == "outer-pass"
