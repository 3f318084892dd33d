"""The schema of the housing units and group quarters of the Demographic and Housing Characteristics, from rules."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tools.dhc_group_quarters import GROUP_QUARTERS

from tallyveil.schema.household_types import (
    AGES_IN_LABELS,
    Couple,
    HouseholdType,
    MinorAges,
    household_types,
    size_label,
)

COMMENT = (
    "The housing units and group quarters of the 2020 Demographic and Housing Characteristics. The first attribute "
    "says whether a unit is occupied (with its tenure), vacant, or group quarters. The others describe the household "
    "of an occupied unit, and are 'none' for every other unit. The names of recodes and the order of their levels are "
    "those of the Census Bureau's production system. The labels are Tallyveil's. The 522 household types come from "
    "the rules in tallyveil/schema/household_types.py. tools/dhc_presets.py writes this file."
)

NONE = "none"
TENURES = ("owned_with_mortgage", "owned_clear", "rented", "no_payment")
VACANCIES = (
    "for_rent",
    "rented_not_occupied",
    "for_sale",
    "sold_not_occupied",
    "seasonal",
    "migrant_workers",
    "other_vacant",
)
TENVACGQ = (*TENURES, *VACANCIES, *GROUP_QUARTERS)
AGES = ("15_24", "25_34", "35_44", "45_54", "55_59", "60_64", "65_74", "75_84", "85_plus")
OLDEST = ("under_60", "60_64", "65_74", "75_plus")
RACES = ("white", "black", "aian", "asian", "nhopi", "sor", "two_or_more")
TYPES = household_types()

# Each attribute of a household with its levels, and the recode that leaves out "none".
HOUSEHOLD: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("householder_sex", "sex", ("male", "female")),
    ("householder_age", "hhage", AGES),
    ("householder_hispanic", "hisp", ("not_hispanic", "hispanic")),
    ("householder_race", "race", RACES),
    ("oldest", "elderly", OLDEST),
    ("household", "hhtype", tuple(one.label for one in TYPES)),
)

TITLES = {
    "tenvacgq": "tenure, kind of vacancy or type of group quarters",
    "householder_sex": "sex of householder, or none",
    "householder_age": "age of householder, or none",
    "householder_hispanic": "Hispanic origin of householder, or none",
    "householder_race": "race of householder, or none",
    "oldest": "age of the oldest person, or none",
    "household": "household type, or none",
    "ten2": "owned or not owned",
    "ten3": "owned with mortgage, owned clear or not owned",
    "occupancy": "occupied or vacant",
    "housing_units": "housing units",
    "gqtypes": "type of group quarters",
    "occupancy_and_gqtypes": "occupied, vacant or type of group quarters",
    "ten3_and_gqtypes": "owned with mortgage, owned clear, not owned, vacant or type of group quarters",
    "sex": "sex of householder",
    "hhage": "age of householder",
    "hisp": "Hispanic origin of householder",
    "race": "race of householder",
    "elderly": "age of the oldest person",
    "hhtype": "household type",
    "multig": "multigenerational or not",
    "coupled_hh_type": "couple",
    "partner_type_own_child_status": "partner and own children",
    "partner_type_detailed_own_child_status": "partner and ages of own children",
    "DetailedCoupleTypeMultGenDetOwnChildSize": "couple, generations, ages of own children and size",
    "DetailedCoupleTypeMultGenOwnChildSize": "couple, generations, own children and size",
    "DetailedCoupleTypeDetOwnChildSize": "couple, ages of own children and size",
    "family_nonfamily_size": "family or not, and size",
    "hhsize_all": "household size",
    "living": "householder living alone or with others",
    "coupled": "households with a spouse or an unmarried partner",
    "living_and_couple": "householder living alone, with a partner or with others, or none",
    "DetailedCoupleTypeMultGenDetOwnChildSize_or_none": (
        "couple, generations, ages of own children and size, or none"
    ),
}


def units_preset() -> dict[str, Any]:
    """The keys of a preset."""
    types = _recodes_of_types()
    return {
        "name": "dhc-units",
        "unit": "housing unit or facility",
        "units": "housing units and facilities",
        "attributes": [
            {"name": "tenvacgq", "levels": TENVACGQ},
            *({"name": name, "levels": (*levels, NONE)} for name, _, levels in HOUSEHOLD),
        ],
        "recodes": [*_recodes_of_units(), *_recodes_without_none(), *types, *_agreeing_recodes(types)],
        "structural_zeros": [*_zeros_of_none(), *_zeros_of_households()],
        "titles": TITLES,
    }


def _recodes_of_units() -> list[dict[str, Any]]:
    groups: dict[str, dict[str, Sequence[str]]] = {
        "ten2": {"owned": TENURES[:2], "not_owned": TENURES[2:]},
        "ten3": {**{one: (one,) for one in TENURES[:2]}, "not_owned": TENURES[2:]},
        "occupancy": {"vacant": VACANCIES, "occupied": TENURES},  # the order of the redistricting data
        "housing_units": {"housing_unit": (*TENURES, *VACANCIES)},
        "gqtypes": {one: (one,) for one in GROUP_QUARTERS},
    }
    types, vacant = groups["gqtypes"], {"vacant": VACANCIES}
    groups["occupancy_and_gqtypes"] = {**vacant, "occupied": TENURES, **types}
    groups["ten3_and_gqtypes"] = {**groups["ten3"], **vacant, **types}
    return [{"name": name, "attribute": "tenvacgq", "groups": parts} for name, parts in groups.items()]


def _recodes_without_none() -> list[dict[str, Any]]:
    return [
        {"name": recode, "attribute": attribute, "groups": {one: (one,) for one in levels}}
        for attribute, recode, levels in HOUSEHOLD
    ]


# The order of couples in the recodes of household types, which is not the one of the codes.
_COUPLED = (
    Couple.MARRIED_SAME_SEX,
    Couple.MARRIED_OPPOSITE_SEX,
    Couple.COHABITING_SAME_SEX,
    Couple.COHABITING_OPPOSITE_SEX,
    Couple.NO_PARTNER,
)
_DETAILED_COUPLE = (_COUPLED[-1], *_COUPLED[:-1])
_OWN_IN_PARTNER = (MinorAges.UNDER_6, MinorAges.NONE, MinorAges.FROM_6_TO_17, MinorAges.BOTH)
_GENERATIONS = ("not_multigenerational", "multigenerational")
_OWN = ("no_own_children", "own_children")


def _partner(one: HouseholdType) -> int:
    """0 no partner, 1 married, 2 cohabiting."""
    return 1 if one.couple.married else 2 if one.couple.cohabiting else 0


_PARTNERS = ("no_partner", "married", "cohabiting")


def _ages(one: HouseholdType) -> str:
    return f"own_{AGES_IN_LABELS[one.own_children]}"


def _recodes_of_types() -> list[dict[str, Any]]:
    """The recodes of household types. Each has a key that sorts its groups, and a label."""
    couple = _DETAILED_COUPLE.index
    recodes: dict[str, tuple[Callable[[HouseholdType], Any], Callable[[HouseholdType], str]]] = {
        "multig": (
            lambda one: one.multigenerational,
            lambda one: _GENERATIONS[one.multigenerational],
        ),
        "coupled_hh_type": (
            lambda one: _COUPLED.index(one.couple),
            lambda one: one.couple.name.lower(),
        ),
        "partner_type_own_child_status": (
            lambda one: (_partner(one) or 3, not one.own_children),
            lambda one: f"{_PARTNERS[_partner(one)]} {_OWN[one.own_children > 0]}",
        ),
        "partner_type_detailed_own_child_status": (
            lambda one: (_partner(one), _OWN_IN_PARTNER.index(one.own_children)),
            lambda one: f"{_PARTNERS[_partner(one)]} {_ages(one)}",
        ),
        "DetailedCoupleTypeMultGenDetOwnChildSize": (
            lambda one: (couple(one.couple), one.multigenerational, one.own_children, one.size),
            lambda one: _words(one, _GENERATIONS[one.multigenerational], _ages(one)),
        ),
        "DetailedCoupleTypeMultGenOwnChildSize": (
            lambda one: (couple(one.couple), one.multigenerational, one.own_children > 0, one.size),
            lambda one: _words(one, _GENERATIONS[one.multigenerational], _OWN[one.own_children > 0]),
        ),
        "DetailedCoupleTypeDetOwnChildSize": (
            lambda one: (couple(one.couple), one.own_children, one.size),
            lambda one: _words(one, _ages(one)),
        ),
        "family_nonfamily_size": (
            lambda one: (not one.relatives, one.size),
            lambda one: f"{'family' if one.relatives else 'nonfamily'} {size_label(one.size)}",
        ),
        "hhsize_all": (lambda one: one.size, lambda one: size_label(one.size)),
    }
    return [
        {"name": name, "attribute": "household", "groups": _grouped(key, label)}
        for name, (key, label) in recodes.items()
    ]


def _agreeing_recodes(types: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Recodes for files of persons and of units that agree. The labels of `living` and `coupled` are those of persons.

    Args:
        types: The other recodes of household types.
    """
    detailed = next(one for one in types if one["name"] == "DetailedCoupleTypeMultGenDetOwnChildSize")
    alone = _types(lambda one: one.size == 1)
    coupled = _types(lambda one: one.couple is not Couple.NO_PARTNER)
    others = _types(lambda one: one.size > 1 and one.couple is Couple.NO_PARTNER)
    recodes: dict[str, dict[str, list[str]]] = {
        "living": {"alone": alone, "with_others": _types(lambda one: one.size > 1)},
        "coupled": {"partner": coupled},
        "living_and_couple": {
            "alone": alone,
            "with_partner": coupled,
            "without_partner": others,
            NONE: [NONE],
        },
        f"{detailed['name']}_or_none": {**detailed["groups"], NONE: [NONE]},
    }
    return [{"name": name, "attribute": "household", "groups": groups} for name, groups in recodes.items()]


def _words(one: HouseholdType, *words: str) -> str:
    return " ".join((one.couple.name.lower(), *words, size_label(one.size)))


def _grouped(
    key: Callable[[HouseholdType], Any], label: Callable[[HouseholdType], str]
) -> dict[str, list[str]]:
    """The groups of household types with the same key, in the order of the keys."""
    groups: dict[str, list[str]] = {}
    for one in sorted(TYPES, key=key):
        groups.setdefault(label(one), []).append(one.label)
    return groups


def _zeros_of_none() -> list[dict[str, Any]]:
    """Occupied units have a household; vacant units and group quarters have none."""
    zeros = []
    for attribute, _, levels in HOUSEHOLD:
        zeros += [
            _zero(f"occupied_has_{attribute}", tenvacgq=TENURES, **{attribute: [NONE]}),
            _zero(f"unoccupied_has_no_{attribute}", tenvacgq=TENVACGQ[len(TENURES) :], **{attribute: levels}),
        ]
    return zeros


# For each age of the householder from 60: the same age as a level of `oldest`.
_OWN_OLDEST = ((AGES[5:6], 1), (AGES[6:7], 2), (AGES[7:], 3))


def _zeros_of_households() -> list[dict[str, Any]]:
    """The impossible combinations of householder's sex and age, the oldest person's age and the household type."""
    only_children = _types(
        lambda one: (
            one.size == 1
            or (one.size == 2 and one.minors > 0)
            or (one.size == 3 and one.own_children == MinorAges.BOTH)
        )
    )
    minor_of_two = _types(lambda one: one.size == 2 and one.under_18)
    own_under_6 = _types(lambda one: one.own_children in {MinorAges.UNDER_6, MinorAges.BOTH})
    couples = _types(_couple_and_own_children)
    zeros = [
        _zero(f"oldest_is_not_below_householder_of_{ages[0]}", householder_age=ages, oldest=OLDEST[:own])
        for ages, own in _OWN_OLDEST
    ]
    zeros += [
        _zero(
            f"householder_of_{label}_is_only_adult",
            householder_age=ages,
            oldest=OLDEST[own + 1 :],
            household=only_children,
        )
        for label, ages, own in (("under_60", AGES[:5], 0), ("60_64", AGES[5:6], 1), ("65_74", AGES[6:7], 2))
    ]
    zeros += [
        _zero(
            f"householder_of_{ages[0]}_is_with_a_minor",
            householder_age=ages,
            oldest=OLDEST[own + 1 :],
            household=minor_of_two,
        )
        for ages, own in _OWN_OLDEST[:2]
    ]
    return [
        *zeros,
        _zero(
            "minors_alone_are_under_25",
            householder_age=AGES[1:],
            household=_types(lambda one: one.size == 1 and one.under_18),
        ),
        _zero(
            "partners_of_householders_under_25_are_under_75",
            householder_age=AGES[:1],
            oldest=OLDEST[3:],
            household=couples,
        ),
        _zero(
            "men_of_75_plus_have_no_own_children_under_6",
            householder_sex=["male"],
            householder_age=AGES[7:],
            household=own_under_6,
        ),
        _zero(
            "women_of_75_plus_have_no_own_children_under_18",
            householder_sex=["female"],
            householder_age=AGES[7:],
            household=_types(lambda one: one.own_children > 0),
        ),
        _zero(
            "women_of_60_plus_have_no_own_children_under_6",
            householder_sex=["female"],
            householder_age=AGES[5:],
            household=own_under_6,
        ),
    ]


def _couple_and_own_children(one: HouseholdType) -> bool:
    """Whether nobody lives there except a couple and as few own children as their ages need."""
    smallest = 2 + (one.own_children > 0) + (one.own_children == MinorAges.BOTH)
    return one.couple is not Couple.NO_PARTNER and one.size == smallest


def _types(wanted: Callable[[HouseholdType], Any]) -> list[str]:
    return [one.label for one in TYPES if wanted(one)]


def _zero(name: str, **cells: Iterable[str] | Sequence[str]) -> dict[str, Any]:
    return {"name": name, "cells": {attribute: list(levels) for attribute, levels in cells.items()}}
