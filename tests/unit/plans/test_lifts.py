"""Lift passes of a plan: what fits, and what is refused when the file is read."""

from pathlib import Path

import pytest
from tests.lift_worlds import LIFTED

from tallyveil.config.load import load_plan
from tallyveil.errors import TallyveilError


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
    assert stated[0] == {"cells": "role*grown", "rounding": [], "part": "heads", "total": "homes"}
    assert stated[2] == {"cells": "detailed", "rounding": ["sex"]}


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('part = "heads"\n', "", "has 'total' or 'company' and no 'part'"),
        ('total = "homes"\n', "", "has either the 'total' of the part or the 'company'"),
        ('total = "homes"\n', 'company = "others"\n', "The part of the first pass has a 'total'"),
        ('company = "others"\n', 'total = "homes"\n', "Parts of later passes have 'company'"),
        ('total = "homes"\n', 'total = "coarse"\n', "from the agreement 'coarse'"),
        ('part = "heads"\n', 'part = "home"\n', "names 'home', which is not a query of one answer"),
        ('part = "lone"\n', 'part = "heads"\n', "one cell of the rest and at most one of the part"),
        ('company = "others"\n', 'company = "heads"\n', "must be other records"),
        ('company = "others"\n', 'company = "others"\nrounding = ["role"]\n', "and no 'rounding'"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, old, new, told):
    with pytest.raises(TallyveilError, match=told) as caught:
        plan_of(tmp_path, old, new)
    assert caught.value.code == "outer-pass"
