"""Education and earnings of places, from public tables of the American Community Survey."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from tallyveil.errors import ConfigError

TRACTS_FILE: Final = "acs/alameda_tract_S1501_5y2020.csv"
EDUCATION_FILE: Final = "acs/ers_education_1970_2018.csv"
INCOME_FILE: Final = "acs/ers_unemployment_medianincome_2018.csv"

# S1501: less than 9th grade, 9th to 12th, high school, some college, associate's, bachelor's or higher.
_S1501_EDUCATION: Final = tuple(f"S1501_C01_{item:03d}E" for item in (7, 8, 9, 10, 11, 15))
_S1501_EARNINGS: Final = "S1501_C01_059E"
_TRACT: Final = "1400000US"
_ERS_EDUCATION: Final = (
    "Less than a high school diploma, 2014-18",
    "High school diploma only, 2014-18",
    "Some college or associate's degree, 2014-18",
    "Bachelor's degree or higher, 2014-18",
)
_ERS_INCOME: Final = "Median_Household_Income_2018"


@dataclass(frozen=True, slots=True)
class Places:
    """Places of one geolevel that have both education counts and an income.

    Attributes:
        counts: int64 [places, categories], adults; the last category is a bachelor's degree or higher.
        income: float64 [places], dollars a year.
    """

    counts: npt.NDArray[np.int64]
    income: npt.NDArray[np.float64]


def alameda_tracts(folder: Path) -> Places:
    """Census tracts of Alameda County, median earnings, 2016-20; places without an estimate are left out."""
    rows = _rows(folder / TRACTS_FILE, heading="GEO_ID")
    return _places(
        ([row[name] for name in _S1501_EDUCATION], row[_S1501_EARNINGS])
        for row in rows
        if row["GEO_ID"].startswith(_TRACT)
    )


def counties_and_states(folder: Path) -> tuple[Places, Places]:
    """Counties, then states, of the United States: adults by education 2014-18, median household income 2018."""
    incomes = {row["FIPS"]: row[_ERS_INCOME] for row in _rows(folder / INCOME_FILE, heading="FIPS")}
    counties: list[tuple[list[str], str]] = []
    states: list[tuple[list[str], str]] = []
    for row in _rows(folder / EDUCATION_FILE, heading="FIPS Code"):
        code = row["FIPS Code"]
        place = [row[name] for name in _ERS_EDUCATION], incomes.get(code, "")
        if code != "00000":
            (states if code.endswith("000") else counties).append(place)
    return _places(iter(counties)), _places(iter(states))


def _rows(path: Path, heading: str) -> list[dict[str, str]]:
    """Rows below the line that starts with `heading`; title lines above it are passed over."""
    with path.open(encoding="utf-8-sig", newline="") as stream:
        lines = list(csv.reader(stream))
    starts = [place for place, line in enumerate(lines) if line and line[0] == heading]
    if not starts:
        raise ConfigError(
            f"{path} has no line of column names that starts with '{heading}'. Give the file as its publisher "
            "distributes it."
        )
    names = [name.strip() for name in lines[starts[0]]]
    return [dict(zip(names, line, strict=False)) for line in lines[starts[0] + 1 :]]


def _places(rows: Iterator[tuple[list[str], str]]) -> Places:
    kept = []
    for counts, income in rows:
        numbers = [_number(text) for text in (*counts, income)]
        if all(number is not None for number in numbers):
            kept.append([number for number in numbers if number is not None])
    table = np.array(kept, dtype=np.float64)
    return Places(table[:, :-1].astype(np.int64), np.ascontiguousarray(table[:, -1]))


def _number(text: str) -> float | None:
    """A number such as "$61,937 " or "1,234"; None for "-", "(X)" or nothing."""
    digits = text.strip().replace(",", "").removeprefix("$").removesuffix("+")
    return float(digits) if digits.replace(".", "", 1).isdigit() else None
