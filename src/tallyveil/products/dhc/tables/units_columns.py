"""Columns of the published microdata of units, from the level codes of schema preset "dhc-units".

Every column follows from the level of one attribute, except three that depend on the householder's sex and the
household type. Vacant units and group quarters have zeros in all columns of households.
"""

from collections.abc import Callable
from functools import cache
from typing import Final

import polars as pl

from tallyveil.arrays import Integers
from tallyveil.products.dhc.tables.persons_columns import GROUP_QUARTERS_CODES, NOT_GROUP_QUARTERS, worded
from tallyveil.schema.household_types import Couple, HouseholdType, MinorAges, household_types

N_TENURES: Final = 4
N_VACANCIES: Final = 7
N_AGES_OF_OLDEST: Final = 4
"""Levels of `oldest`, without "none"."""
_N_QUARTERS: Final = len(GROUP_QUARTERS_CODES)
_N_UNITS: Final = N_TENURES + N_VACANCIES

OF_TENVACGQ: Final[dict[str, tuple[str, ...]]] = {
    "RTYPE": ("2",) * _N_UNITS + ("4",) * _N_QUARTERS,
    "GQTYPE": (NOT_GROUP_QUARTERS,) * _N_UNITS + GROUP_QUARTERS_CODES,
    "TEN": ("1", "2", "3", "4") + ("0",) * (N_VACANCIES + _N_QUARTERS),
    "VACS": ("0",) * N_TENURES + tuple("1234567") + ("0",) * _N_QUARTERS,
}
"""The value of each column that follows from the level of `tenvacgq`."""

ORDER: Final = (
    *(
        "RTYPE",
        "GQTYPE",
        "TEN",
        "VACS",
        "HHSIZE",
        "HHT",
        "HHT2",
        "CPLT",
        "UPART",
        "MULTG",
        "THHLDRAGE",
        "THHSPAN",
    ),
    *("THHRACE", "PAOC", "TP18", "TP60", "TP65", "TP75", "PAC", "HHSEX"),
)
"""The columns after the geography, in the published order."""

_PRESENCE: Final = {
    MinorAges.NONE: "4",
    MinorAges.UNDER_6: "1",
    MinorAges.FROM_6_TO_17: "2",
    MinorAges.BOTH: "3",
}


def _hht(one: HouseholdType, female: bool) -> str:
    """Household type: married, other family, or nonfamily; by the householder's sex unless married."""
    if one.couple.married:
        return "1"
    if one.relatives:
        return "3" if female else "2"
    men_and_women = ("4", "6") if one.size == 1 else ("5", "7")
    return men_and_women[female]


def _hht2(one: HouseholdType, female: bool) -> str:
    """Household type with couples and own children, in two digits."""
    if one.couple is not Couple.NO_PARTNER:
        return f"{1 + 2 * one.couple.cohabiting + (not one.own):02d}"
    beside = 0 if one.size == 1 else 1 if one.own else 2 if one.relatives else 3
    return f"{(5 if female else 9) + beside:02d}"


def _upart(one: HouseholdType, female: bool) -> str:
    """Unmarried partners by the householder's sex."""
    if one.size == 1:
        return "0"
    if not one.couple.cohabiting:
        return "5"
    same = one.couple is Couple.COHABITING_SAME_SEX
    return str(1 + 2 * female + (not same))


OF_TYPE_AND_SEX: Final[dict[str, tuple[Callable[[HouseholdType, bool], str], str]]] = {
    "HHSIZE": (lambda one, _: str(one.size), "0"),
    "HHT": (_hht, "0"),
    "HHT2": (_hht2, "00"),
    "CPLT": (lambda one, _: "0" if one.size == 1 else str(one.couple + 1), "0"),
    "UPART": (_upart, "0"),
    "MULTG": (lambda one, _: "0" if one.size <= 2 else "2" if one.multigenerational else "1", "0"),
    "PAOC": (lambda one, _: _PRESENCE[one.own], "0"),
    "PAC": (lambda one, _: _PRESENCE[one.minors], "0"),
    "TP18": (lambda one, _: "1" if one.under_18 else "0", "0"),
}
"""For each column, its value for a household type and whether the householder is female, and for no household."""


@cache
def _words_of_types(name: str) -> tuple[str, ...]:
    """The value of a column for every pair of a householder's sex (male, female, none) and a household type or none."""
    value, nothing = OF_TYPE_AND_SEX[name]
    return tuple(
        value(one, female) if one is not None and female is not None else nothing
        for female in (False, True, None)
        for one in (*household_types(), None)
    )


def units_columns(codes: Integers) -> list[pl.Series]:
    """The columns of units after the geography, in the published order.

    Args:
        codes: Level codes of tenvacgq, householder_sex, householder_age, householder_hispanic, householder_race, oldest
            and household; shape (n, 7).
    """
    tenvacgq, sex, age, hispanic, race, oldest, household = codes.T
    types = sex * (len(household_types()) + 1) + household
    found = {name: worded(name, words, tenvacgq) for name, words in OF_TENVACGQ.items()}
    found |= {name: worded(name, _words_of_types(name), types) for name in OF_TYPE_AND_SEX}
    found |= {
        "THHLDRAGE": worded("THHLDRAGE", tuple("1234567890"), age),
        "THHSPAN": worded("THHSPAN", tuple("120"), hispanic),
        "THHRACE": worded("THHRACE", (*(f"{code:02d}" for code in range(1, 8)), "00"), race),
        "HHSEX": worded("HHSEX", tuple("120"), sex),
    }
    for least, name in enumerate(("TP60", "TP65", "TP75"), start=1):
        present = ["1" if least <= level < N_AGES_OF_OLDEST else "0" for level in range(N_AGES_OF_OLDEST + 1)]
        found[name] = worded(name, present, oldest)
    return [found[name] for name in ORDER]
