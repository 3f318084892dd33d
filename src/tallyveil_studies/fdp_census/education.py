"""Figure 9: the slope of earnings on education, from noisy counts.

The regressions are a user's own, or of education and earnings from the American Community Survey.
"""

import csv
import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from tallyveil.arrays import Floats
from tallyveil.errors import ConfigError
from tallyveil.noise import DiscreteGaussian, NoiseSource
from tallyveil.report.drawing import DotPanel, DotPlot, Dots, Role
from tallyveil_studies.exhibit import Findings, Places, Regression, StudyInputs
from tallyveil_studies.fdp_census.allocation import (
    BUREAU,
    REDUCED,
    before_and_after,
    both_noises,
    compared,
    noise_parameters,
)
from tallyveil_studies.fdp_census.noisy_counts import study_noise

TRIPLE: Final = 3
"""Number of repetitions in the paper."""

_MOST_AT_ONCE: Final = 333
"""Largest number of repetitions, and _MOST_DRAWS of noisy counts, that are in memory at a time."""
_MOST_DRAWS: Final = 10_000_000
"""Noisy counts in memory at a time: 80 MB as int64. The numbers do not depend on it, because noise is
addressed."""

_MOST_REPETITIONS: Final = 99_900
"""Repetitions of a regression with few places, a multiple of 3: standard errors of a mean error are then 0.3 %
of it."""

_FEWEST_REPETITIONS: Final = 999
"""Repetitions however many places there are, a multiple of 3; standard errors are then near 3 %."""

_MOST_SHARES: Final = 62_760_000
"""Number of noisy shares, places times repetitions, above which there are fewer repetitions."""
_FIRST_GEOLEVEL: Final = 16  # so the noise addresses differ from those of the other figures
_PAPERS_REDUCTION: Final = 60.57
"""Percent by which the slope's error fell in the paper's Figure 9, State, with three repetitions."""


def slope_distortion(inputs: StudyInputs) -> Findings:
    """Figure 9: mean absolute error of the slope, with the Bureau's noise and with less at the same epsilon."""
    regressions = education_regressions(inputs, "Figure 9")
    rows, gains = [], []
    for number, regression in enumerate(regressions):
        errors = {}
        for query, (method, variance) in enumerate(both_noises(regression.noise).items()):
            row, errors[method] = _measured(regression, method, variance, (_FIRST_GEOLEVEL + number, query))
            rows.append(row)
        gains.append(_gain(regression, errors[BUREAU], errors[REDUCED]))
    table, reductions = pl.DataFrame(rows), pl.DataFrame(gains)
    state = reductions.filter(geolevel_of_noise="State").head(1)
    compare = {"MAE, State": state["reduction_percent"].item()} if state.height else {}
    return Findings(
        tables={"figure-9": table, "figure-9-reductions": reductions},
        comparisons=compared("figure-9", compare, "slope error lower by percent (other data)"),
        drawings={"figure-9": _plot(table, reductions, _OWN_UNIT if inputs.own_data else _DOLLARS)},
        notes=(
            "Bars span what means of three repetitions, as in the paper, give in 95 of 100 cases.",
            *(_luck(gain) for gain in state.iter_rows(named=True)),
            "mae_noise_aware is of a slope that takes account of the noise (footnote 10).",
            *(() if inputs.own_data else _PUBLIC_TABLES),
        ),
    )


_DOLLARS: Final = "dollars a year, everybody against nobody with a bachelor's degree"
_OWN_UNIT: Final = "units of the outcome, between a share of 0 and one of 1"
_PUBLIC_TABLES: Final = (
    "A slope that takes account of the noise does not help here: the error is chance, not flattening. Where some "
    "places have few people, the correction makes it worse.",
    "Counties and states: median household income and four education groups, 2014-18, in the place of median earnings "
    "and six groups.",
)


def repetitions_of(places: int) -> int:
    """Number of repetitions for so many places, a multiple of 3: 99,900, or fewer where there are many places."""
    # Work grows with places times repetitions, which is what is bounded.
    fitting = TRIPLE * (_MOST_SHARES // (TRIPLE * places))
    return min(_MOST_REPETITIONS, max(_FEWEST_REPETITIONS, fitting))


def _measured(
    regression: Regression, method: str, variance: Fraction, address: tuple[int, int]
) -> tuple[dict[str, object], Floats]:
    """One row of the table, and the error of every repetition."""
    noise, places = study_noise(), regression.places
    repetitions = repetitions_of(len(places.outcome))
    error, aware = slope_errors(noise, places, variance, address, repetitions)
    # The spread that the paper's three repetitions would show.
    low, high = np.quantile(_triples(error), (0.025, 0.975))
    row: dict[str, object] = {
        "places": regression.name,
        "number_of_places": len(places.outcome),
        "geolevel_of_noise": regression.noise,
        "method": method,
        "variance": float(variance),
        "slope": slope(places.outcome, _proportions(places.counts)),
        "mae": float(error.mean()),
        "mae_noise_aware": float(aware.mean()),
        "mse": float(np.mean(error**2)),
        "mae_standard_error": float(error.std(ddof=1) / np.sqrt(error.size)),
        "mae_of_three_low": float(low),
        "mae_of_three_high": float(high),
        "repetitions": error.size,
        **noise_parameters(variance),
    }
    return row, error


def _luck(gain: Mapping[str, Any]) -> str:
    """What the paper's three repetitions at the State can show."""
    return (
        f"From three repetitions, a reduction of {_PAPERS_REDUCTION} percent or more for '{gain['places']}' comes out "
        f"by luck in {gain['chance_of_60_percent']:.1%} of cases, and an increase in "
        f"{gain['chance_of_increase']:.1%}. The mean error follows the noise's standard deviation: "
        f"{gain['standard_deviation_percent']:.2f} percent less."
    )


def slope(outcome: Floats, proportion: Floats) -> float | Floats:
    """Least-squares slope of outcome on proportion, over the last axis."""
    # Slope = sum of products of deviations over the sum of squares; centring one of the two is enough.
    centred = proportion - proportion.mean(axis=-1, keepdims=True)
    result = (centred * (outcome - outcome.mean())).sum(axis=-1) / (centred**2).sum(axis=-1)
    return float(result) if np.ndim(result) == 0 else result


def noise_aware_slope(outcome: Floats, noisy: npt.NDArray[np.int64], variance: float) -> Floats:
    """Least-squares slope on noisy proportions, where the analyst knows the noise (the paper's footnote 10).

    Noise in the proportions x spreads them, which flattens the slope. Its variance is known: a proportion p of a total
    t in c categories has about variance * ((1 - p)^2 + (c - 1) p^2) / t^2. So the spread is made smaller by its sum.

    Args:
        outcome: Of every place.
        noisy: Noisy counts, places and categories in the last two axes.
        variance: Of the noise on every count.
    """
    totals, x = noisy.sum(axis=-1), _proportions(noisy)
    categories = noisy.shape[-1]
    # By the delta method: of the share's own count with weight 1 - p, of each other one with weight p.
    added = variance * ((1 - x) ** 2 + (categories - 1) * x**2) / totals**2
    centred = x - x.mean(axis=-1, keepdims=True)
    # n - 1 of n: centring takes away the part of the mean.
    spread = (centred**2).sum(axis=-1) - (1 - 1 / x.shape[-1]) * added.sum(axis=-1)
    result: Floats = (centred * (outcome - outcome.mean())).sum(axis=-1) / spread
    return result


def slope_errors(
    noise: NoiseSource,
    places: Places,
    variance: Fraction,
    address: tuple[int, int],
    repetitions: int,
) -> tuple[Floats, Floats]:
    """|slope from noisy counts - slope|, one for each repetition, in dollars for all against none.

    Args:
        noise: Source of the study.
        places: Counts and outcomes.
        variance: Variance of the noise on every count.
        address: Geolevel and query in the address of the noise.
        repetitions: A multiple of 3.
    Returns:
        Errors of the slope by least squares, and of the slope that is corrected for the noise (`noise_aware_slope`).
    """
    law = DiscreteGaussian(variance)
    truth = slope(places.outcome, _proportions(places.counts))
    n, categories = places.counts.shape
    at_once = min(_MOST_AT_ONCE, max(1, _MOST_DRAWS // (n * categories)))
    errors, aware = [], []
    for first in range(0, repetitions, at_once):
        last = min(first + at_once, repetitions)
        # Geounits are numbered through all repetitions, so the draws are the same however they are cut.
        drawn = noise.dense(law, *address, range(first * n, last * n), categories)
        drawn = drawn.reshape(last - first, n, categories)
        # Negative counts to zero, as in the paper.
        noisy = np.maximum(places.counts + drawn, 0)
        errors.append(np.abs(slope(places.outcome, _proportions(noisy)) - truth))
        aware.append(np.abs(noise_aware_slope(places.outcome, noisy, float(variance)) - truth))
    return np.concatenate(errors), np.concatenate(aware)


def _proportions(counts: npt.NDArray[np.int64]) -> Floats:
    """Share of the last category, a bachelor's degree or higher."""
    proportions: Floats = counts[..., -1] / counts.sum(axis=-1)
    return proportions


def _triples(errors: Floats) -> Floats:
    means: Floats = errors.reshape(-1, TRIPLE).mean(axis=1)
    return means


def _gain(regression: Regression, bureau: Floats, ours: Floats) -> dict[str, object]:
    """Reduction of the mean error, its standard error, and how this reduction varies with only three repetitions."""
    before, after = both_noises(regression.noise).values()
    ratio = ours.mean() / bureau.mean()
    # Of a ratio of means: relative variances add, since the two noises are independent.
    spread = np.sqrt(ours.var(ddof=1) / ours.mean() ** 2 + bureau.var(ddof=1) / bureau.mean() ** 2) / np.sqrt(
        ours.size
    )
    of_three = 100 * (1 - _triples(ours) / _triples(bureau))
    return {
        "places": regression.name,
        "geolevel_of_noise": regression.noise,
        "standard_deviation_percent": 100 * (1 - math.sqrt(after / before)),
        "reduction_percent": float(100 * (1 - ratio)),
        "standard_error": float(100 * ratio * spread),
        "of_three_low": float(np.quantile(of_three, 0.025)),
        "of_three_high": float(np.quantile(of_three, 0.975)),
        "chance_of_60_percent": float((of_three >= _PAPERS_REDUCTION).mean()),
        "chance_of_increase": float((of_three < 0).mean()),
        **before_and_after(noise_parameters(before), noise_parameters(after)),
    }


def _plot(table: pl.DataFrame, reductions: pl.DataFrame, unit: str) -> DotPlot:
    series = []
    for method, role in ((BUREAU, Role.PUBLISHED), (REDUCED, Role.OURS)):
        part = table.filter(method=method)
        ranges = tuple(zip(part["mae_of_three_low"], part["mae_of_three_high"], strict=True))
        series.append(Dots(method, role, tuple(part["mae"]), ranges))
    notes = tuple(f"−{value:.1f} %" for value in reductions["reduction_percent"])
    panel = DotPanel("Mean absolute error of the slope", tuple(series), unit, notes)
    return DotPlot(rows=tuple(reductions["places"]), panels=(panel,), columns=1, log_x=True)


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
