"""Recodes of the housing units of the DHC with which household sizes are found one by one."""

from typing import Any

from tools.dhc_units import NONE, TYPES

from tallyveil.schema.household_types import LARGEST_SIZE, Couple, HouseholdType, size_label

COMMENT = (
    "Preset dhc-units with the recodes that it takes to find household sizes one by one, the largest first, so that "
    "they add up to the people who live in households. tools/dhc_presets.py writes this file."
)
SMALLEST = 2
"""The size of households that live with others and have no larger size."""


def sizes_preset() -> dict[str, Any]:
    """The keys of a preset that extends another one."""
    recodes, titles = [], {}
    for size in range(LARGEST_SIZE, SMALLEST, -1):
        label = size_label(size)
        recodes += [
            _recode(label, {label: [one.label for one in TYPES if one.size == size]}),
            _recode(f"couple_and_sizes_from_{size}", _groups(size)),
        ]
        titles[label] = f"households of {size} {'or more ' if size == LARGEST_SIZE else ''}people"
        titles[f"couple_and_sizes_from_{size}"] = f"couple or not, and sizes from {size} up, alone or none"
    return {"name": "dhc-units-sizes", "extends": "dhc-units", "recodes": recodes, "titles": titles}


def _recode(name: str, groups: dict[str, list[str]]) -> dict[str, Any]:
    return {"name": name, "attribute": "household", "groups": groups}


def _groups(smallest: int) -> dict[str, list[str]]:
    """Household types by living alone, couple, and size where it is at least the smallest one."""
    groups: dict[str, list[str]] = {}
    for one in sorted(TYPES, key=lambda one: (one.couple is Couple.NO_PARTNER, -one.size)):
        groups.setdefault(_label(one, smallest), []).append(one.label)
    return {**groups, NONE: [NONE]}


def _label(one: HouseholdType, smallest: int) -> str:
    if one.size == 1:
        return "alone"
    couple = "without_partner" if one.couple is Couple.NO_PARTNER else "with_partner"
    return f"{couple} {size_label(one.size) if one.size >= smallest else 'smaller'}"
