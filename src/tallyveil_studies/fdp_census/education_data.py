"""The regressions of Figure 9: a user's own, or education and earnings from the American Community Survey."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from tallyveil.errors import ConfigError
from tallyveil_studies.exhibit import StudyInputs
from tallyveil_studies.own_data import Places, Regression

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


def education_regressions(inputs: StudyInputs, exhibit: str) -> tuple[Regression, ...]:
    """The user's own regressions, or without a file of the user's own those of public tables.

    Raises:
        MissingDataError: the user's file has no regressions, or the public tables are not there.
    """
    if inputs.own_data is not None:
        return inputs.own_data.require_regressions(exhibit)
    tracts, education, income = inputs.files(exhibit, (TRACTS_FILE, EDUCATION_FILE, INCOME_FILE))
    counties, states = counties_and_states(education, income)
    return (
        Regression("States", states, "State"),
        Regression("Counties", counties, "County"),
        Regression("Tracts of Alameda", alameda_tracts(tracts), "Tract Subset"),
    )


def alameda_tracts(path: Path) -> Places:
    """Census tracts of Alameda County, median earnings, 2016-20; places without an estimate are left out."""
    rows = _rows(path, heading="GEO_ID")
    return _places(
        ([row[name] for name in _S1501_EDUCATION], row[_S1501_EARNINGS])
        for row in rows
        if row["GEO_ID"].startswith(_TRACT)
    )


def counties_and_states(education: Path, income: Path) -> tuple[Places, Places]:
    """Counties, then states, of the United States: adults by education 2014-18, median household income 2018."""
    incomes = {row["FIPS"]: row[_ERS_INCOME] for row in _rows(income, heading="FIPS")}
    counties: list[tuple[list[str], str]] = []
    states: list[tuple[list[str], str]] = []
    for row in _rows(education, heading="FIPS Code"):
        code = row["FIPS Code"]
        place = [row[name] for name in _ERS_EDUCATION], incomes.get(code, "")
        # 00000 is the United States, and a code that ends in 000 is a State.
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
    # The publisher's headings have spaces at their ends.
    names = [name.strip() for name in lines[starts[0]]]
    return [dict(zip(names, line, strict=False)) for line in lines[starts[0] + 1 :]]


def _places(rows: Iterator[tuple[list[str], str]]) -> Places:
    complete = []
    for counts, income in rows:
        numbers = [_number(text) for text in (*counts, income)]
        # A place without an estimate in some column is left out.
        if all(number is not None for number in numbers):
            complete.append([number for number in numbers if number is not None])
    table = np.array(complete, dtype=np.float64)
    return Places(table[:, :-1].astype(np.int64), np.ascontiguousarray(table[:, -1]))


def _number(text: str) -> float | None:
    """A number such as "$61,937 " or "1,234"; None for "-", "(X)" or nothing."""
    digits = text.strip().replace(",", "").removeprefix("$").removesuffix("+")
    return float(digits) if digits.replace(".", "", 1).isdigit() else None
