from dataclasses import replace

import pytest

from tallyveil.schema.household_types import Couple, HouseholdType, MinorAges, household_types

ALONE = HouseholdType(Couple.NO_PARTNER, False, MinorAges.NONE, MinorAges.NONE, False, False, 1)


@pytest.mark.parametrize(
    ("code", "label"),
    [
        (0, "married_opposite_sex size_3 own_under_6 minors_under_6"),
        (172, "cohabiting_opposite_sex size_3 relatives own_under_6 minors_under_6"),
        (392, "no_partner size_1"),
        (393, "no_partner size_1 householder_or_partner_under_18"),
        (521, "no_partner size_7_plus householder_or_partner_under_18"),
    ],
)
def test_labels_say_what_is_there(code: int, label: str):
    assert household_types()[code].label == label


@pytest.mark.parametrize(
    "changes",
    [
        {"relatives": True},
        {"couple": Couple.MARRIED_SAME_SEX},
        {"couple": Couple.MARRIED_SAME_SEX, "size": 2},  # a spouse is a relative
        {"couple": Couple.COHABITING_SAME_SEX, "relatives": True, "size": 2},
        {"minors": MinorAges.UNDER_6, "size": 2},  # somebody is under 18
        {"minors": MinorAges.BOTH, "under_18": True, "size": 2},
        {
            "own_children": MinorAges.BOTH,
            "minors": MinorAges.UNDER_6,
            "under_18": True,
            "relatives": True,
            "size": 3,
        },
        {"multigenerational": True, "relatives": True, "size": 2},
        {
            "multigenerational": True,
            "relatives": True,
            "under_18": True,
            "size": 3,
        },  # the householder is the minor
    ],
)
def test_impossible_households(changes: dict):
    assert ALONE.possible
    assert not replace(ALONE, **changes).possible
    assert replace(ALONE, **changes) not in household_types()
