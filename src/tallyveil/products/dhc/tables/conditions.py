"""What the conditions of the table definitions mean: which levels of which attribute a record must have.

A condition is "factor = values". The factor is an attribute, a recode, or a variable of household types; values are
labels, or ranges of ages such as "0-17" and "65+". "*white*" stands for all sets of races with White.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from tallyveil.errors import SchemaError
from tallyveil.schema.household_types import AGES_IN_LABELS, HouseholdType, household_types
from tallyveil.schema.schema import Schema

LevelSets = Mapping[str, frozenset[int]]
"""Level codes by attribute. Attributes that are not named may have any level."""

_YES: Final = ("no", "yes")
VARIABLES: Final[Mapping[str, Callable[[HouseholdType], str]]] = MappingProxyType(
    {
        "couple": lambda one: one.couple.name.lower(),
        "relatives": lambda one: _YES[one.relatives],
        "own": lambda one: AGES_IN_LABELS[one.own],
        "minors": lambda one: AGES_IN_LABELS[one.minors],
        "under_18": lambda one: _YES[one.under_18],
        "multigenerational": lambda one: _YES[one.multigenerational],
        "size": lambda one: str(one.size),
    }
)
"""The word that each variable of household types has for a type."""


def level_sets(schema: Schema, conditions: str) -> LevelSets:
    """The levels that records with some conditions have.

    Args:
        schema: The schema of the records.
        conditions: Conditions that commas separate; may be empty.
    Raises:
        SchemaError: a factor or a value is unknown.
    """
    found: dict[str, frozenset[int]] = {}
    for condition in filter(None, (one.strip() for one in conditions.split(","))):
        name, _, values = (part.strip() for part in condition.partition("="))
        attribute, levels_of = _factor(schema, name)
        codes = frozenset(code for value in values.split() for code in _codes(name, value, levels_of))
        found = dict(both({attribute: codes}, found))
    return found


def both(one: LevelSets, other: LevelSets) -> LevelSets:
    """The levels of records that have both."""
    return {
        name: one.get(name, other.get(name, frozenset())) & other.get(name, one.get(name, frozenset()))
        for name in dict.fromkeys((*one, *other))
    }


def _factor(schema: Schema, name: str) -> tuple[str, dict[str, list[int]]]:
    """The attribute of a factor, and the level codes of each of its labels."""
    labels: dict[str, list[int]] = {}
    if name in VARIABLES and "household" in schema.attribute_names:
        for code, one in enumerate(household_types()):
            labels.setdefault(VARIABLES[name](one), []).append(code)
        return "household", labels
    factor = next(one for one in schema.query(name).factors if one.name is not None)
    for code, group in enumerate(factor.codes):
        if group >= 0:
            labels.setdefault(factor.labels[group], []).append(code)
    return factor.attribute, labels


def _codes(name: str, value: str, levels_of: Mapping[str, list[int]]) -> Iterator[int]:
    """The level codes of one value."""
    if name == "age":
        first, _, last = value.removesuffix("+").partition("-")
        top = len(levels_of) - 1 if value.endswith("+") else int(last or first)
        yield from range(int(first), top + 1)
        return
    if value.startswith("*"):
        word = value.strip("*")
        yield from (code for label, codes in levels_of.items() if word in label.split("_") for code in codes)
        return
    if value not in levels_of:
        raise SchemaError(
            f"{name!r} has no value {value!r}; it has {', '.join(levels_of)}. Use one of these."
        )
    yield from levels_of[value]
