"""Every statement of SafeTab's tables that contradicts another one, by plain Python, from the rows alone."""

from collections import defaultdict
from itertools import product
from typing import Any

import polars as pl
from tests import toy_country as toy

STARTS = {0: (), **toy.STARTS}
NAMES = ("total", "sex by 4 ages", "sex by 9 ages", "sex by 23 ages", "total only")


def kinds() -> dict[str, tuple[str, set[str]]]:
    """Kind and codes of every iteration, those of level 0 among them."""
    races = {code: (f"alone {alone}", set(toy.MAPPING[code])) for code, _, _, alone, _, _ in toy.RACE}
    return races | {code: ("ethnicity", set(toy.MAPPING[code])) for code, *_ in toy.ETHNICITY}


def is_inside(inner: str, outer: str) -> bool:
    """Whether everybody in one iteration is in the other."""
    (kind, codes), (other, others) = kinds()[inner], kinds()[outer]
    return codes <= others and (kind == other or (kind, other) == ("alone True", "alone False"))


def tables(t1: pl.DataFrame, t2: pl.DataFrame, column: str) -> dict[tuple[str, str, str], tuple[int, dict]]:
    """For every group its detail, and its numbers by sex and first year of age; the total has the key None."""
    groups: dict[tuple[str, str, str], tuple[int, dict[Any, float]]] = {}
    for row in t1.iter_rows(named=True):
        key = row["REGION_TYPE"], row["REGION_ID"], row["ITERATION_CODE"]
        groups[key] = NAMES.index(row["DETAIL"]) % 4, {None: row[column]}
    for row in t2.iter_rows(named=True):
        key = row["REGION_TYPE"], row["REGION_ID"], row["ITERATION_CODE"]
        age = row["AGESTART"]
        groups[key][1][row["SEX"], age if age == "*" else int(age)] = row[column]
    return groups


def coarse(table: tuple[int, dict], detail: int) -> dict:
    """A table in a coarser detail."""
    numbers: dict[Any, float] = defaultdict(float)
    for key, value in table[1].items():
        if key is None or key[1] == "*":
            continue
        numbers[key[0], max(start for start in STARTS[detail] if start <= key[1])] += value
    return dict(numbers)


def contradictions(t1: pl.DataFrame, t2: pl.DataFrame, column: str, slack: float) -> list[tuple]:
    """The rules that the numbers of a column break by more than `slack`."""
    broken: list[tuple] = []
    groups = tables(t1, t2, column)
    for key, (detail, numbers) in groups.items():
        if not detail:
            continue
        cells = {at: value for at, value in numbers.items() if at is not None and at[1] != "*"}
        if abs(sum(cells.values()) - numbers[None]) > slack:
            broken.append(("total", key))
        for sex in "12":
            if abs(sum(v for at, v in cells.items() if at[0] == sex) - numbers[sex, "*"]) > slack:
                broken.append(("sex", key, sex))
    for inner, outer in product(groups, groups):
        if inner[:2] == outer[:2] and inner != outer and is_inside(inner[2], outer[2]):
            for detail in range(min(groups[inner][0], groups[outer][0]) + 1):
                small, large = at_detail(groups[inner], detail), at_detail(groups[outer], detail)
                broken += [("inside", inner, outer, at) for at in small if small[at] > large[at] + slack]
    broken += _nation(groups, slack)
    return broken


def at_detail(table: tuple[int, dict], detail: int) -> dict:
    """The cells of a detail; the total for 0."""
    return coarse(table, detail) if detail else {None: table[1][None]}


def _nation(groups: dict, slack: float) -> list[tuple]:
    broken = []
    ids = {key[1] for key in groups if key[0] == "STATE"}
    for key in [key for key in groups if key[0] == "USA"]:
        states = [groups["STATE", name, key[2]] for name in ids if ("STATE", name, key[2]) in groups]
        if len(states) < len(ids):
            continue
        for detail in range(groups[key][0] + 1):
            some = [state for state in states if state[0] >= detail]
            nation = at_detail(groups[key], detail)
            for at, value in nation.items():
                total = sum(at_detail(state, detail)[at] for state in some)
                if some and (total > value + slack or (len(some) == len(ids) and total < value - slack)):
                    broken.append(("nation", key, detail, at))
    return broken
