"""Outer passes as plain data, as `plan.json` holds them."""

import pytest

from tallyveil.budget.outer_pass import OuterPass
from tallyveil.declared import mapping_of, read_written

PLAIN = OuterPass("hhgq", ("total", "gq"))
LIFT = OuterPass("relgq", (), part="householder", residents="people", prior="company")


@pytest.mark.parametrize(
    ("made", "stated"),
    [
        (PLAIN, {"cells": "hhgq", "rounding": ["total", "gq"]}),
        (
            OuterPass("hhgq", ("total",), also=("sex",)),
            {"cells": "hhgq", "rounding": ["total"], "also": ["sex"]},
        ),
        (
            LIFT,
            {
                "cells": "relgq",
                "rounding": [],
                "part": "householder",
                "residents": "people",
                "prior": "company",
            },
        ),
    ],
)
def test_the_plain_data_of_a_pass_say_all_of_it(made, stated):
    assert mapping_of(made) == stated
    assert read_written(OuterPass, stated) == made
