"""The schema of the persons of the Demographic and Housing Characteristics (DHC), from rules."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tools.dhc_group_quarters import GROUP_QUARTERS, MAJOR_TYPES

from tallyveil.schema.presets import load_preset

COMMENT = (
    "The persons of the 2020 Demographic and Housing Characteristics: 42 x 2 x 116 x 2 x 63 = 1,227,744 cells. The "
    "order of levels and the names of attributes and recodes are those of the Census Bureau's production system, so "
    "that its published strategies can be written unchanged. The labels are Tallyveil's. tools/dhc_presets.py writes "
    "this file."
)

RELATIONSHIPS = (
    "householder_living_alone",
    "householder_with_others",
    "opposite_sex_spouse",
    "opposite_sex_unmarried_partner",
    "same_sex_spouse",
    "same_sex_unmarried_partner",
    "biological_child",
    "adopted_child",
    "stepchild",
    "sibling",
    "parent",
    "grandchild",
    "parent_in_law",
    "child_in_law",
    "other_relative",
    "roommate",
    "foster_child",
    "other_nonrelative",
)
"""Levels of `relgq` of people in households: RELSHIP 20 (alone or with others), 21 to 36."""

RELGQ = (*RELATIONSHIPS, *GROUP_QUARTERS)
N_AGES = 116

OLDER = (18, 20, 25, 30, 35, 40, 45, 50, 55, 60, 62, 65, 67, 70, 75, 80, 85, 90, 95, 100, 105, 110)
AGES: Mapping[str, tuple[int, ...]] = {
    "votingage": (0, 18),
    "age_18_64_116": (0, 18, 65),
    "age_10_groups": (0, 3, 15, 16, 17, 18, 20, 25, 30, 35),
    "agePyramid23groups": (0, 5, 10, 15, 18, 20, 21, 22, *OLDER[2:17]),
    "age_38_groups": (*range(16), *OLDER),
    "age_40_groups": (*range(18), *OLDER),
}
"""First age of each group."""

HOUSEHOLDER_AGES = (15, 25, 35, 45, 55, 60, 65, 75, 85)
"""First age of each group of householders, as in the file of the units. Younger people are in none."""

Levels = Iterable[int]
ZEROS: Mapping[str, tuple[Levels, Levels]] = {
    "householders_spouses_partners_15_plus": (range(6), range(15, N_AGES)),
    "children_0_to_89": (range(6, 9), range(90)),
    "parents_30_plus": ((10, 12), range(30, N_AGES)),
    "grandchildren_0_to_74": ((11,), range(75)),
    "children_in_law_15_to_89": ((13,), range(15, 90)),
    "foster_children_0_to_20": ((16,), range(21)),
    "civilian_correctional_15_plus": (range(18, 23), range(15, N_AGES)),
    "military_17_to_65": ((23, 31, 34, 35), range(17, 66)),
    "juvenile_0_to_25": (range(24, 27), range(26)),
    "nursing_20_plus": ((27,), range(20, N_AGES)),
    "residential_schools_3_to_30": ((32,), range(3, 31)),
    "college_16_to_65": ((33,), range(16, 66)),
    "adult_homes_16_plus": ((37, 38), range(16, N_AGES)),
    "maritime_16_to_75": ((39,), range(16, 76)),
}
"""Levels of `relgq`, and the ages that people in them may have. The name says who has which age."""

TITLES = {
    "relgq": "relationship to householder or type of group quarters",
    "sex": "sex",
    "age": "age in years",
    "hispanic": "Hispanic origin",
    "cenrace": "race",
    "votingage": "voting age",
    "age_18_64_116": "age in three groups",
    "age_10_groups": "age in ten groups",
    "agePyramid23groups": "age in 23 groups",
    "age_38_groups": "age in 38 groups",
    "age_40_groups": "age in 40 groups",
    "relgq_4_groups": "householder, other household member or kind of institution",
    "gq_constr_groups": "household or class of group quarters by lowest age",
    "popSehsdTargetsRelship": "relationship to householder",
    "hhgq8lev": "household or major type of group quarters",
    "relship_and_eight_level_GQ": "relationship to householder or major type of group quarters",
    "gqlevels": "household or type of group quarters",
    "cenrace_7lev": "race in seven published groups",
    "hhage": "age of householders in nine groups",
    "householders": "householders",
    "living": "householders by whether they live alone",
    "living_alone": "householders who live alone",
    "householders_with_others": "householders who live with others",
    "other_members": "household members except the householder",
    "partners": "spouses and unmarried partners of householders",
    "roles": "householder, other household member or type of group quarters",
    "living_roles": "the same, with householders by whether they live alone",
    "partner_roles": "the same, with partners by themselves",
}


def persons_preset() -> dict[str, Any]:
    """The keys of a preset."""
    redistricting = load_preset("pl94-persons")
    hispanic, cenrace = (list(redistricting.attribute(name).levels) for name in ("hispanic", "cenrace"))
    (races,) = (one for one in redistricting.recodes if one.name == "cenrace_7lev")
    return {
        "name": "dhc-persons",
        "attributes": [
            {"name": "relgq", "levels": RELGQ},
            {"name": "sex", "levels": ["male", "female"]},
            {"name": "age", "levels": [str(age) for age in range(N_AGES)]},
            {"name": "hispanic", "levels": hispanic},
            {"name": "cenrace", "levels": cenrace},
        ],
        "recodes": [
            *(_recode(name, "age", _age_groups(starts)) for name, starts in AGES.items()),
            _recode("hhage", "age", _age_groups(HOUSEHOLDER_AGES)),
            *(_recode(name, "relgq", groups) for name, groups in _relgq_groups().items()),
            _recode(races.name, "cenrace", dict(races.groups)),
        ],
        "structural_zeros": [
            {"name": name, "cells": {"relgq": [RELGQ[code] for code in codes], "age": _other_ages(ages)}}
            for name, (codes, ages) in ZEROS.items()
        ],
        "titles": TITLES,
    }


def _recode(name: str, attribute: str, groups: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    return {"name": name, "attribute": attribute, "groups": groups}


def _other_ages(allowed: Levels) -> list[str]:
    return [str(age) for age in range(N_AGES) if age not in set(allowed)]


def _age_groups(starts: tuple[int, ...]) -> dict[str, list[str]]:
    stops = (*starts[1:], N_AGES)
    return {
        _age_label(start, stop): [str(age) for age in range(start, stop)]
        for start, stop in zip(starts, stops, strict=True)
    }


def _age_label(start: int, stop: int) -> str:
    if stop == N_AGES:
        return f"{start}_plus"
    if (start, stop) == (0, 18):
        return "under_18"
    return str(start) if stop == start + 1 else f"{start}_{stop - 1}"


def _relgq_groups() -> dict[str, dict[str, list[str]]]:
    household = {"household": range(18)}
    one_each = {label: (code,) for code, label in enumerate(RELATIONSHIPS)}
    first, last = len(RELATIONSHIPS), len(RELGQ)
    types = {RELGQ[code]: (code,) for code in range(first, last)}
    classes = {label: tuple(first + place for place in places) for label, places in MAJOR_TYPES.items()}
    groups: dict[str, Mapping[str, Levels]] = {
        "relgq_4_groups": {
            "householder": range(2),
            "other_household_member": range(2, 18),
            "institutional": range(18, 33),
            "noninstitutional": range(33, 42),
        },
        "gq_constr_groups": {
            **household,
            "residential_schools": (32,),
            "civilian_correctional": range(18, 23),
            "college_and_adult_noninstitutional": (33, *range(37, 42)),
            "military": (23, 31, 34, 35),
            "juvenile_nursing_hospitals_shelters": (*range(24, 31), 36),
        },
        "popSehsdTargetsRelship": {**one_each, "group_quarters": range(first, last)},
        "hhgq8lev": {**household, **classes},
        "relship_and_eight_level_GQ": {**one_each, **classes},
        "gqlevels": {**household, **types},
        **_agreeing_groups(types),
    }
    return {
        name: {label: [RELGQ[code] for code in codes] for label, codes in parts.items()}
        for name, parts in groups.items()
    }


def _agreeing_groups(types: Mapping[str, Levels]) -> dict[str, Mapping[str, Levels]]:
    """Groups of relationships that files of persons and of units can agree about."""
    living: Mapping[str, Levels] = {"alone": (0,), "with_others": (1,)}
    return {
        "householders": {"householder": range(2)},
        "living": living,
        "living_alone": {"alone": (0,)},
        "householders_with_others": {"with_others": (1,)},
        "other_members": {"other_member": range(2, 18)},
        "partners": {"partner": range(2, 6)},
        "roles": {"householder": range(2), "other_member": range(2, 18), **types},
        "living_roles": {**living, "other_member": range(2, 18), **types},
        "partner_roles": {**living, "partner": range(2, 6), "other_member": range(6, 18), **types},
    }
