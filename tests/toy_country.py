"""A small country with every kind of iteration and region, and a slow tabulation of it in plain Python."""

import json
import random
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

CODES = {
    "1000": "Alpha (checkbox)",
    "1010": "Alpha north",
    "1020": "Alpha south",
    "2000": "Beta",
    "2010": "Beta east",
    "3000": "Gamma",
    "4000": "Nobody's",
    "5010": "Eth one",
    "5020": "Eth two",
    "9950": "Not Hispanic",
}
# code, name, level, alone, detailed only, coarse only
RACE = [
    ("0001", "Alpha major alone", "0", "True", "Null", "Null"),
    ("1101", "Alpha alone", "1", "True", "False", "False"),
    ("1102", "Alpha", "1", "False", "False", "False"),
    ("1201", "Beta alone", "1", "True", "False", "False"),
    ("1202", "Beta", "1", "False", "False", "False"),
    ("1301", "Gamma alone", "1", "True", "True", "False"),
    ("1302", "Gamma", "1", "False", "True", "False"),
    ("2101", "Alpha north alone", "2", "True", "False", "False"),
    ("2102", "Alpha north", "2", "False", "False", "False"),
    ("2201", "Alpha south alone", "2", "True", "True", "False"),
    ("2202", "Alpha south", "2", "False", "True", "False"),
    ("2301", "Beta east alone", "2", "True", "False", "True"),
    ("2302", "Beta east", "2", "False", "False", "True"),
    ("2401", "Gamma alone (detailed)", "2", "True", "False", "False"),
    ("2402", "Gamma (detailed)", "2", "False", "False", "False"),
]
ETHNICITY = [
    ("0900", "Not Hispanic", "0", "Null", "Null"),
    ("1901", "Eth", "1", "False", "False"),
    ("2901", "Eth one", "2", "False", "False"),
    ("2902", "Eth two", "2", "True", "False"),
]
MAPPING = {
    "0001": ["1000", "1010", "1020"],
    "1101": ["1000", "1010", "1020"],
    "1102": ["1000", "1010", "1020"],
    "1201": ["2000", "2010"],
    "1202": ["2000", "2010"],
    "1301": ["3000"],
    "1302": ["3000"],
    "2101": ["1010"],
    "2102": ["1010"],
    "2201": ["1020"],
    "2202": ["1020"],
    "2301": ["2010"],
    "2302": ["2010"],
    "2401": ["3000"],
    "2402": ["3000"],
    "0900": ["9950"],
    "1901": ["5010", "5020"],
    "2901": ["5010"],
    "2902": ["5020"],
}
US = ("USA", "STATE", "COUNTY", "TRACT", "PLACE", "AIANNH")
PR = ("PR-STATE", "PR-COUNTY", "PR-TRACT", "PR-PLACE")
RACES = ("1000", "1010", "1020", "2000", "2010", "3000", "4000")

STARTS = {
    1: (0, 18, 45, 65),
    2: (0, 5, 18, 25, 35, 45, 55, 65, 75),
    3: (0, 5, 10, 15, 18, 20, 21, 22, 25, 30, 35, 40, 45, 50, 55, 60, 62, 65, 67, 70, 75, 80, 85),
}


def config_values(**changes: Any) -> dict[str, Any]:
    """A valid config.json, with changes; a change of None leaves the key out."""
    values: dict[str, Any] = {
        "max_race_codes": 3,
        "privacy_budget_p_stage_1_fraction": 0.1,
        "thresholds_p": {f"({g}, {level})": [60, 200, 600] for g in US + PR for level in (1, 2)},
        "zero_suppression_chance": 0.9999,
        "allow_negative_counts": True,
        "run_us": True,
        "run_pr": True,
        "reader": "csv",
        "state_filter_us": ["01", "11"],
        "privacy_defn": "zcdp",
    }
    for geography in US + PR:
        for level in (1, 2):
            key = f"privacy_budget_p_level_{level}_{geography.lower().replace('-', '_')}"
            values[key] = 2.134 if geography in ("USA", "STATE", "PR-STATE") else 0.159
    values |= changes
    return {key: value for key, value in values.items() if value is not None}


def pipe(path: Path, header: str, rows: list[tuple[str, ...]]) -> None:
    """Write a text table."""
    path.write_text("\n".join([header, *("|".join(row) for row in rows), ""]))


def write_params(folder: Path, **changes: Any) -> Path:
    """Write a parameter folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config_values(**changes)))
    pipe(folder / "race-and-ethnicity-codes.txt", "RACE_ETH_CODE|RACE_ETH_NAME", list(CODES.items()))
    pipe(
        folder / "race-characteristic-iterations.txt",
        "ITERATION_CODE|ITERATION_NAME|LEVEL|ALONE|DETAILED_ONLY|COARSE_ONLY",
        RACE,
    )
    pipe(
        folder / "ethnicity-characteristic-iterations.txt",
        "ITERATION_CODE|ITERATION_NAME|LEVEL|DETAILED_ONLY|COARSE_ONLY",
        ETHNICITY,
    )
    pipe(
        folder / "race-and-ethnicity-code-to-iteration.txt",
        "ITERATION_CODE|RACE_ETH_CODE",
        [(iteration, code) for iteration, codes in MAPPING.items() for code in codes],
    )
    return folder


def block_rows() -> list[tuple[str, ...]]:
    """Blocks: state 01 with two counties, DC (one county, one place), Puerto Rico; an area across 01 and 11."""
    rows: list[tuple[str, ...]] = []
    for state, county in (("01", "001"), ("01", "003"), ("11", "001"), ("72", "001"), ("72", "003")):
        for tract in ("000100", "000200"):
            for block in ("1000", "1001", "1002"):
                place = (
                    "50000"
                    if state == "11"
                    else ("00124" if tract == "000100" and block != "1002" else "99999")
                )
                area = "0020" if block == "1001" and tract == "000200" and state != "72" else "9999"
                rows.append((state, county, tract, block, place, area))
    return rows


def person_rows(n: int, seed: int = 5, most: int = 3) -> list[tuple[str, ...]]:
    """People with up to `most` race codes, unevenly spread over codes and blocks."""
    return list(_person_rows(n, seed, most))


@cache
def _person_rows(n: int, seed: int, most: int) -> tuple[tuple[str, ...], ...]:
    rng = random.Random(seed)
    blocks = block_rows()
    rows = []
    for _ in range(n):
        codes = rng.choices(RACES, weights=(8, 6, 3, 4, 2, 2, 1), k=rng.choice((1, 1, 1, 2, 2, most)))
        races = [*codes, *["Null"] * (8 - len(codes))]
        where = blocks[min(int(rng.expovariate(0.12)), len(blocks) - 1)]
        age = rng.randrange(116)
        span = rng.choice(("9950", "9950", "5010", "5020"))
        head = (f"{age:03d}" if age % 2 else str(age), rng.choice("12"), rng.choice(("True", "False")))
        rows.append((*head, *where[:4], "01", *races, span))
    return tuple(rows)


PERSON_HEADER = "QAGE|QSEX|HOUSEHOLDER|TABBLKST|TABBLKCOU|TABTRACTCE|TABBLK|CENRACE|" + (
    "|".join(f"QRACE{i}" for i in range(1, 9)) + "|QSPAN"
)
GEOGRAPHY_HEADER = "TABBLKST|TABBLKCOU|TABTRACTCE|TABBLK|PLACEFP|AIANNHCE"


def write_data(folder: Path, persons: list[tuple[str, ...]]) -> Path:
    """Write a data folder."""
    folder.mkdir(parents=True, exist_ok=True)
    pipe(folder / "person-records.txt", PERSON_HEADER, persons)
    pipe(folder / "GRF-C.txt", GEOGRAPHY_HEADER, block_rows())
    return folder


def regions_of(row: tuple[str, ...]) -> dict[str, str]:
    """Region of a block in every geography."""
    state, county, tract, _, place, area = row
    if state == "72":
        found = {"PR-STATE": state, "PR-COUNTY": state + county, "PR-TRACT": state + county + tract}
        return found | ({"PR-PLACE": state + place} if place != "99999" else {})
    found = {"USA": "1", "STATE": state, "COUNTY": state + county, "TRACT": state + county + tract}
    found |= {"PLACE": state + place} if place != "99999" else {}
    return found | ({"AIANNH": area} if area != "9999" else {})


def iterations_of(races: list[str], span: str, level: str, nationwide: bool) -> frozenset[str]:
    """Iterations of a person, from the definition."""
    return _iterations_of(tuple(races), span, level, nationwide)


@cache
def _iterations_of(races: tuple[str, ...], span: str, level: str, nationwide: bool) -> frozenset[str]:
    found = set()
    for code, _, own, alone, detailed, coarse in RACE:
        if own != level or (coarse if nationwide else detailed) == "True":
            continue
        inside = [race in MAPPING[code] for race in races]
        if all(inside) if alone == "True" else any(inside):
            found.add(code)
    for code, _, own, detailed, coarse in ETHNICITY:
        if own == level and (coarse if nationwide else detailed) != "True" and span in MAPPING[code]:
            found.add(code)
    return frozenset(found)


@dataclass(frozen=True)
class Truth:
    """Slow tabulation: T1 by (region, type, iteration); cells by the same and (sex, age)."""

    t1: Counter
    people: dict[tuple[str, str, str], Counter]
    groups: set[tuple[str, str, str]]


def slow_tabulation(persons: list[tuple[str, ...]], geographies: tuple[str, ...] = US + PR) -> Truth:
    """Tabulate people group by group, in plain Python."""
    where = {row[:4]: regions_of(row) for row in block_rows()}
    t1: Counter = Counter()
    people: dict[tuple[str, str, str], Counter] = {}
    for row in persons:
        races = [race for race in row[8:16] if race != "Null"]
        for geography, region in where[row[3:7]].items():
            if geography not in geographies:
                continue
            nationwide = geography in ("USA", "STATE", "PR-STATE")
            for level in "12":
                for iteration in iterations_of(races, row[16], level, nationwide):
                    group = region, geography, iteration
                    t1[group] += 1
                    people.setdefault(group, Counter())[row[1], int(row[0])] += 1
    groups = set()
    every = {pair for regions in where.values() for pair in regions.items() if pair[0] in geographies}
    for geography, region in every:
        nationwide = geography in ("USA", "STATE", "PR-STATE")
        for code, *_, detailed, coarse in (*RACE, *ETHNICITY):
            if detailed != "Null" and (coarse if nationwide else detailed) != "True":
                groups.add((region, geography, code))
    return Truth(t1, people, groups)


def total_only(iteration: str) -> bool:
    """Whether an iteration never gets a table."""
    return any(row[0] == iteration and row[-2] == "True" for row in (*RACE, *ETHNICITY))


class SilentNoise:
    """A noise source whose noise is zero: an infinite budget, for tests alone."""

    def add_dense(self, law, geolevel, query, geounits, counts) -> None:
        """Add nothing."""

    def at(self, law, geolevel, query, geounits, answers):
        """Zeros."""
        return 0 * answers
