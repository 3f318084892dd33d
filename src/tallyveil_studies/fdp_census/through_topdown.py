"""Not in the paper: the errors of Figures 6 and 8 if the real TopDown follows the noise, instead of clipping.

The paper sets negative noisy counts to zero, one by one. A release estimates all counts from all measurements, as
non-negative whole numbers that add up. Here both noises go through the same code as every release: ten equal queries at
five geolevels of Rhode Island, each with the variance of Table 1, and no invariants, as in the paper.
"""

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from tallyveil.accounting import (
    DiscreteGaussian,
    SequentialEvent,
    ZcdpConversion,
    calibrate,
    compose,
    rho_of,
    zcdp_to_epsilon_textbook,
)
from tallyveil.accounting.guarantee import DELTAS, exact_parameters
from tallyveil.arrays import Integers
from tallyveil.report.drawing import DotPanel, DotPlot, Dots, Role
from tallyveil.storage.read import read_parquet
from tallyveil_studies.exhibit import Findings, StudyInputs
from tallyveil_studies.fdp_census.allocation import (
    BUREAU,
    FOLDS,
    NEIGHBOURS,
    OVERALL_DELTA,
    REDUCED,
    both_noises,
    geolevel_rho,
    noise_parameters,
)
from tallyveil_studies.fdp_census.noisy_counts import FILES, KEY_TEXT, QUERIES, expected_errors, nine_counts
from tallyveil_studies.releases import published_counts, release_text

KEYS: Final = 40
"""Number of releases with each noise."""

# Geolevel of the release, its column in the blocks file, and the geolevel of Table 1 whose noise it has.
GEOLEVELS: Final = {
    "State": ("state", "State"),
    "County": ("county", "County"),
    "Tract": ("tract", "Tract Subset"),
    "Block_Group": ("block_group", "Optimized Block Group"),
    "Block": ("geocode", "Block"),
}
_DIGITS: Final = (2, 5, 11, 12, 15)
"""Digits of a geocode at each geolevel: State, county, tract, block group and block of the Census."""

TEN_QUERIES: Final = (
    "total",
    "voting_age",
    "hispanic",
    "minority",
    "race5",
    "race_ethnicity",
    "voting_age*hispanic",
    "voting_age*minority",
    "voting_age*race5",
    "detailed",
)
"""Ten queries at each geolevel, as many as in the paper."""

ALL: Final = "All nine"
"""The mean over the nine counts."""

TOGETHER: Final = "reduced together"
"""The noise that keeps the published epsilon of all five geolevels together. `REDUCED` keeps that of each of them."""

NOISES: Final = {BUREAU: Role.PUBLISHED, REDUCED: Role.REDUCED, TOGETHER: Role.REDUCED}
"""What is compared, and how a plot shows it."""

_PRECISION: Final = 10**5
"""Reciprocals of variances are whole multiples of one part in this. Ten times as fine would make the lattice of
losses ten times as long and the accounting as slow; a tenth
would enlarge the largest noise by several percent."""

Errors = dict[tuple[str, str], list[Integers]]
"""By noise and geolevel: for each key, the errors of the nine counts of every geounit, int64 [n_geounits, 9]."""


def through_topdown(inputs: StudyInputs, keys: int = KEYS) -> Findings:
    """Errors by geolevel and race of releases with the Bureau's noise and with less noise, and their ratios.

    Args:
        inputs: Public counts by block, and what makes a release.
        keys: Number of releases with each noise; at least 2.
    """
    paths = inputs.files("The TopDown exhibit", FILES)
    counts, blocks = (read_parquet(path) for path in paths)
    truth = {level: _nine(counts, blocks, column) for level, (column, _) in GEOLEVELS.items()}
    table = _errors_table(truth, _released(inputs, counts, blocks, truth, keys))
    ratios = _ratios(table)
    return Findings(
        tables={"topdown": table, "topdown-ratios": ratios, "topdown-parameters": _parameters()},
        drawings={"topdown": _plot(table)},
        notes=(
            f"{keys} releases with each noise; standard errors are those over releases. The counts are public, the "
            "keys are known, and no release is kept: these are test keys, and nothing here is protected by them.",
            f"Epsilon beside each noise is exact. '{REDUCED}' keeps the epsilon that was published for each geolevel "
            f"at delta 1e-11 (Table 1), and '{TOGETHER}' that of the five geolevels together at delta 1e-10. Both are "
            "less private than the Bureau's noise really was.",
            *_sentences(ratios),
        ),
    )


def variances_of(noise: str) -> dict[str, Fraction]:
    """Variance of every query at each geolevel of a release with this noise.

    Reciprocals are rounded down to a hundred-thousandth; those of the Bureau's variances are multiples of it. So all
    losses lie on one lattice, on which the exact epsilon of the whole release is quick to compute. No noise is smaller
    than its epsilon allows, and none is larger than that by more than a part in 500.
    """
    bureau = {level: both_noises(geolevel)[BUREAU] for level, (_, geolevel) in GEOLEVELS.items()}
    chosen = bureau
    if noise == REDUCED:
        chosen = {level: both_noises(geolevel)[REDUCED] for level, (_, geolevel) in GEOLEVELS.items()}
    elif noise == TOGETHER:
        chosen = {level: variance * _factor() for level, variance in bureau.items()}
    return {
        # Floor of the reciprocal: the variance is rounded up, so that no epsilon is exceeded.
        level: Fraction(_PRECISION, math.floor(_PRECISION / variance))
        for level, variance in chosen.items()
    }


def event_of(noise: str) -> SequentialEvent:
    """All that a release with this noise measures."""
    return _event(variances_of(noise))


def _event(variances: Mapping[str, Fraction]) -> SequentialEvent:
    return SequentialEvent(
        tuple(DiscreteGaussian(variance, multiplicity=FOLDS) for variance in variances.values())
    )


@cache
def _factor() -> Fraction:
    """The least multiple of the Bureau's variances that keeps the epsilon published for the five geolevels."""
    event = event_of(BUREAU)
    published = zcdp_to_epsilon_textbook(rho_of(event), OVERALL_DELTA)
    return calibrate(event, epsilon=published, delta=OVERALL_DELTA, neighbours=NEIGHBOURS).factor


def release_file(noise: str) -> str:
    """The release file: ten equal queries at each geolevel, whose variances are those of `variances_of`."""
    rhos = {level: geolevel_rho(variance) for level, variance in variances_of(noise).items()}
    # Exact: the shares of the geolevels must sum to one.
    total = sum(rhos.values(), Fraction(0))
    shares = "\n".join(f'{level} = "{rho / total}"' for level, rho in rhos.items())
    queries = "\n".join(f'"{query}" = "1/{FOLDS}"' for query in TEN_QUERIES)
    tables = f"""
[privacy]
neighbours = "{NEIGHBOURS.value}"
mechanism = "discrete_gaussian"
rho = "{total}"
[strategy]
rho = "{total}"
[strategy.geolevels]
{shares}
[strategy.queries."*"]
{queries}
[estimation]
slack = "1/10"
values = "own"
[estimation.passes]
"*" = [["total"], ["*"]]
State = [["*"]]
Block = [["*"]]
[estimation.rounding]
"*" = [["total"], ["race_ethnicity", "detailed"]]
State = [["total", "race_ethnicity", "detailed"]]
Block = [["total", "race_ethnicity", "detailed"]]
"""
    return release_text(f"Rhode Island, {noise}", dict(zip(GEOLEVELS, _DIGITS, strict=True)), tables)


def _nine(counts: pl.DataFrame, blocks: pl.DataFrame, column: str) -> Integers:
    return nine_counts(counts, blocks.select("geocode", pl.col(column).alias("geounit")))


def _released(
    inputs: StudyInputs,
    counts: pl.DataFrame,
    blocks: pl.DataFrame,
    truth: Mapping[str, Integers],
    keys: int,
) -> Errors:
    errors: Errors = {(noise, level): [] for noise in NOISES for level in GEOLEVELS}
    for noise in NOISES:
        for number in range(keys):
            key = f"{KEY_TEXT}, TopDown, {number}"
            published = published_counts(inputs, release_file(noise), counts, blocks, tuple(GEOLEVELS), key)
            for level, (column, _) in GEOLEVELS.items():
                codes = pl.col(column).unique()  # a published geocode is the geounit's own
                # All geounits, so that empty ones count 0.
                geounits = blocks.select(codes.alias("geocode")).with_columns(geounit=pl.col("geocode"))
                errors[noise, level].append(nine_counts(published[level], geounits) - truth[level])
    return errors


def _errors_table(truth: Mapping[str, Integers], errors: Errors) -> pl.DataFrame:
    rows = []
    for (noise, level), by_key in errors.items():
        variance = variances_of(noise)[level]
        # [keys, geounits, 9]; means over geounits are taken first, so that standard errors are those between
        # releases.
        drawn = np.stack(by_key).astype(np.float64)
        absolute, squared = (_with_all(part.mean(axis=1)) for part in (np.abs(drawn), drawn**2))
        # What the paper does to the same counts, without draws.
        clipped = [
            expected_errors(truth[level][:, place], variance, nonnegative=True)
            for place in range(len(QUERIES))
        ]
        alone = _with_all(np.array(clipped).T)  # squared, absolute
        for place, count in enumerate([*QUERIES.values(), ALL]):
            rows.append(
                {
                    "geolevel": level,
                    "count": count,
                    "noise": noise,
                    "variance": float(variance),
                    "geounits": len(truth[level]),
                    "keys": len(by_key),
                    **_mean("absolute", absolute[:, place]),
                    **_mean("squared", squared[:, place]),
                    "absolute_clipped": float(alone[1, place]),
                    "squared_clipped": float(alone[0, place]),
                    **noise_parameters(variance),
                }
            )
    return pl.DataFrame(rows)


def _with_all(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """A column for each of the nine counts, and one for their mean."""
    return np.column_stack([values, values.mean(axis=1)])


def _mean(name: str, by_key: npt.NDArray[np.float64]) -> dict[str, float]:
    error = float(by_key.std(ddof=1) / math.sqrt(len(by_key)))
    return {f"mean_{name}_error": float(by_key.mean()), f"mean_{name}_standard_error": error}


def _ratios(table: pl.DataFrame) -> pl.DataFrame:
    """Errors with each smaller noise, divided by those with the Bureau's noise."""
    bureau = table.filter(noise=BUREAU)
    return pl.concat([_ratio(table.filter(noise=noise), bureau) for noise in NOISES if noise != BUREAU])


def _ratio(less: pl.DataFrame, bureau: pl.DataFrame) -> pl.DataFrame:
    columns: dict[str, Any] = {
        **{name: less[name] for name in ("geolevel", "count", "noise")},
        "variance_ratio": less["variance"] / bureau["variance"],
    }
    for kind in ("absolute", "squared"):
        mean, error = f"mean_{kind}_error", f"mean_{kind}_standard_error"
        ratio = less[mean] / bureau[mean]
        # Relative variances of a ratio add, as for independent means.
        spread = ((less[error] / less[mean]) ** 2 + (bureau[error] / bureau[mean]) ** 2).sqrt()
        columns |= {
            f"{kind}_ratio": ratio,
            f"{kind}_ratio_standard_error": ratio * spread,
            f"{kind}_ratio_clipped": less[f"{kind}_clipped"] / bureau[f"{kind}_clipped"],
        }
    return pl.DataFrame(columns)


def _parameters() -> pl.DataFrame:
    """What the five geolevels cost together, with either noise."""
    rows = []
    for noise in NOISES:
        event = event_of(noise)
        rho = rho_of(event)
        # mu of so many different queries takes long, and says no more than the epsilons.
        exact = exact_parameters(compose(event, neighbours=NEIGHBOURS), with_mu=False).to_mapping()
        textbook = {
            f"textbook_epsilon_at_{delta}": ZcdpConversion.TEXTBOOK.epsilon(rho, Fraction(delta))
            for delta in DELTAS
        }
        rows.append({"noise": noise, "rho": float(rho), **exact, **textbook})
    return pl.DataFrame(rows, infer_schema_length=None)


def _sentences(ratios: pl.DataFrame) -> tuple[str, ...]:
    """One sentence for each noise and geolevel, over all nine counts."""
    return tuple(
        f"{row['noise']}, {row['geolevel']}: the squared error of the release changes by "
        f"{100 * (row['squared_ratio'] - 1):+.1f} percent (standard error "
        f"{100 * row['squared_ratio_standard_error']:.1f}), that of clipped counts by "
        f"{100 * (row['squared_ratio_clipped'] - 1):+.1f}, and the variance of the noise by "
        f"{100 * (row['variance_ratio'] - 1):+.1f}."
        for row in ratios.filter(count=ALL).iter_rows(named=True)
    )


def _plot(table: pl.DataFrame) -> DotPlot:
    panels = []
    for level in GEOLEVELS:
        series = []
        for noise, role in NOISES.items():
            part = table.filter(geolevel=level, noise=noise)
            means, errors = part["mean_absolute_error"], part["mean_absolute_standard_error"]
            ranges = tuple(zip(means - 2 * errors, means + 2 * errors, strict=True))
            series.append(Dots(noise, role, tuple(means), ranges))
        panels.append(DotPanel(level.replace("_", " "), tuple(series), "mean absolute error, persons"))
    return DotPlot((*QUERIES.values(), ALL), tuple(panels), 2)
