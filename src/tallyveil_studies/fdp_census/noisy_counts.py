"""Figures 6 and 8: error of noisy counts of a place, with the Bureau's noise and with less.

Without a user's own counts, those of Rhode Island 2010 are used. The paper uses Pennsylvania. The nine counts
are the same: the total, Hispanics, and non-Hispanics in seven race groups. The noise of the simulations is
exact and the same every time, and so is the expectation of its errors.
"""

import math
from fractions import Fraction
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from tallyveil.arrays import Floats, Integers
from tallyveil.noise import DiscreteGaussian, NoiseSource, insecure_key
from tallyveil.report.drawing import DotPanel, DotPlot, Dots, Role
from tallyveil.storage.read import read_parquet
from tallyveil_studies.exhibit import CensusCounts, Comparison, CountedLevel, Findings, StudyInputs
from tallyveil_studies.fdp_census.allocation import BUREAU, REDUCED, both_noises, compared, noise_parameters

FILES: Final = ("ri_2010_counts.parquet", "ri_2010_blocks.parquet")
QUERIES: Final = {
    "total": "Total",
    "white": "White",
    "black": "Black",
    "hisp": "Hispanic",
    "asian": "Asian",
    "two": "Two or more",
    "other": "Other",
    "aian": "AI/AN",
    "nhpi": "NH/PI",
}
# Column of the blocks file, and the geolevel of Table 1 whose noise is added. The paper's numbers for tracts
# are those of the Tract Subset (15.45 = 1 - 4.87 / 5.76).
LEVELS: Final = {
    "State": ("state", "State"),
    "County": ("county", "County"),
    "Tract": ("tract", "Tract Subset"),
    "Block": ("geocode", "Block"),
}


def census_counts(inputs: StudyInputs, exhibit: str) -> CensusCounts:
    """The user's own counts, or without a file of the user's own those of Rhode Island.

    Raises:
        MissingDataError: the user's file has no counts, or the counts of Rhode Island are not there.
    """
    if inputs.own_data is not None:
        return inputs.own_data.require_counts(exhibit)
    paths = inputs.files(exhibit, FILES)
    levels = (CountedLevel(name, noise, counts_by(paths, column)) for name, (column, noise) in LEVELS.items())
    return CensusCounts("Rhode Island", tuple(QUERIES.values()), tuple(levels))


def counts_by(paths: tuple[Path, ...], column: str) -> Integers:
    """The nine counts of every geounit of a level, empty ones included: int64 [n_geounits, 9].

    Args:
        paths: Counts by block, and all blocks with the geounits they are in.
        column: The level's column in the blocks file.
    """
    counts, blocks = (read_parquet(path) for path in paths)
    return nine_counts(counts, blocks.select("geocode", pl.col(column).alias("geounit")))


def nine_counts(counts: pl.DataFrame, geounits: pl.DataFrame) -> Integers:
    """The nine counts of every geounit, empty ones included: int64 [n_geounits, 9], geounits in order.

    Args:
        counts: Persons in column `count`, by `geocode`, `race_ethnicity` and perhaps more.
        geounits: Every `geocode`, and the `geounit` that its persons are counted in.
    """
    races = [race for race in QUERIES if race != "total"]
    wide = (
        counts.group_by("geocode", pl.col("race_ethnicity").cast(pl.String))
        .agg(pl.col("count").sum())
        .pivot(on="race_ethnicity", index="geocode", on_columns=races, values="count")
    )
    # Left, so that empty blocks stay.
    joined = geounits.join(wide, on="geocode", how="left").with_columns(pl.col(*races).fill_null(0))
    summed = joined.group_by("geounit").agg(pl.col(*races).sum()).sort("geounit")
    # The total is the sum of the eight groups, which are disjoint.
    summed = summed.with_columns(pl.sum_horizontal(*races).alias("total"))
    return np.ascontiguousarray(summed.select(*QUERIES).to_numpy().astype(np.int64))


KEY_TEXT: Final = "tallyveil study fdp-census"
"""The key is made from this text. The counts are public, so the key need not be secret."""


def study_noise() -> NoiseSource:
    """The source of all noise in this study."""
    return NoiseSource(insecure_key(KEY_TEXT))


def expected_errors(counts: Integers, variance: Fraction, *, nonnegative: bool) -> tuple[float, float]:
    """Expected squared and absolute error of noisy counts, averaged over the counts and computed without draws.

    Args:
        counts: Counts of 0 or more, in an array of any shape.
        variance: Variance parameter of the discrete Gaussian.
        nonnegative: Whether negative noisy counts are set to zero.
    Returns:
        Mean squared error (counts squared), mean absolute error (counts).
    """
    law = DiscreteGaussian(variance)
    reach = math.ceil(14 * math.sqrt(float(variance)))  # the probability of larger noise is about 1e-42
    noise = np.arange(-reach, reach + 1)
    probability = np.array([law.probability(x) for x in range(reach + 1)])
    probability = np.concatenate([probability[:0:-1], probability])
    # Counts beyond the reach of the noise are all alike: none of them becomes negative. So the sum is over
    # few values.
    values, numbers = np.unique(np.minimum(counts, reach), return_counts=True)
    squared = absolute = 0.0
    for value, number in zip(values.tolist(), numbers.tolist(), strict=True):
        # A count that would fall below zero is set to zero, so the error is never below -value.
        error = np.maximum(noise, -value) if nonnegative else noise
        squared += number * float(probability @ error.astype(np.float64) ** 2)
        absolute += number * float(probability @ np.abs(error))
    return squared / counts.size, absolute / counts.size


LEAST_DRAWS: Final = 200_000
"""Draws of each geolevel and noise. Measured errors are then within some 0.5 % of the expected ones, which are
exact."""

_FIRST_RACE_GEOLEVEL: Final = 8  # so the noise addresses differ from those of Figure 6


def errors_by_geolevel(inputs: StudyInputs) -> Findings:
    """Figure 6: squared and absolute error by geolevel, with and without non-negativity."""
    counts = census_counts(inputs, "Figure 6")
    noise = study_noise()
    rows = []
    for number, level in enumerate(counts.levels):
        for query, (method, variance) in enumerate(both_noises(level.noise).items()):
            true, noisy = _drawn(noise, (number, query), level.counts, variance)
            # The same draws with and without the step, so that only the step differs.
            for nonnegative in (False, True):
                rows.append(
                    {
                        "geolevel": level.name,
                        "geolevel_of_noise": level.noise,
                        "method": method,
                        "variance": float(variance),
                        "nonnegative": nonnegative,
                        "geounits": len(level.counts),
                        "draws": true.size,
                        **_errors(true, noisy, level.counts, variance, nonnegative=nonnegative),
                        **noise_parameters(variance),
                    }
                )
    table = pl.DataFrame(rows)
    return Findings(
        tables={"figure-6": table},
        comparisons=_beside_the_papers(table, counts),
        drawings={"figure-6": _geolevel_plot(table, counts)},
        notes=(
            "Expected errors are exact, from the law of the noise; measured ones are draws, at least "
            f"{LEAST_DRAWS:,} a geolevel.",
            "The paper's percentages are for Pennsylvania and random draws, whose number it does not state. So they "
            "are shown, not judged.",
        ),
        subject=counts.name,
    )


def errors_by_race(inputs: StudyInputs) -> Findings:
    """Figure 8: squared error of every count at every geolevel, negative counts set to zero."""
    counts = census_counts(inputs, "Figure 8")
    noise = study_noise()
    rows = []
    for number, level in enumerate(counts.levels):
        for place, label in enumerate(counts.labels):
            # One count at a time: groups differ in size, and with it in what clipping does.
            column = np.ascontiguousarray(level.counts[:, place : place + 1])
            # A query number for each geolevel and label, so that no two share noise.
            query = number * len(counts.labels) + place
            for method_number, (method, variance) in enumerate(both_noises(level.noise).items()):
                address = (_FIRST_RACE_GEOLEVEL + method_number, query)
                true, noisy = _drawn(noise, address, column, variance)
                rows.append(
                    {
                        "geolevel": level.name,
                        "geolevel_of_noise": level.noise,
                        "query": label,
                        "method": method,
                        "variance": float(variance),
                        "geounits": len(column),
                        "draws": true.size,
                        "mean_count": float(column.mean()),
                        **_errors(true, noisy, column, variance, nonnegative=True),
                        **noise_parameters(variance),
                    }
                )
    table = pl.DataFrame(rows)
    return Findings(
        tables={"figure-8": table},
        drawings={"figure-8": _race_plot(table, counts)},
        notes=tuple(_range_of_reductions(table, level) for level in counts.levels),
        subject=counts.name,
    )


def _drawn(
    noise: NoiseSource, address: tuple[int, int], counts: Integers, variance: Fraction
) -> tuple[Integers, Integers]:
    """True and noisy counts, repeated until there are LEAST_DRAWS. The address is a geolevel and a query."""
    # Counts are repeated as a whole, so that each weighs the same.
    true = np.tile(counts, (-(-LEAST_DRAWS // counts.size), 1))
    return true, true + noise.dense(DiscreteGaussian(variance), *address, range(len(true)), true.shape[1])


def _errors(
    true: Integers, noisy: Integers, counts: Integers, variance: Fraction, *, nonnegative: bool
) -> dict[str, float]:
    """Mean squared and mean absolute error, of the draws and expected."""
    error = ((np.maximum(noisy, 0) if nonnegative else noisy) - true).astype(np.float64)
    # Exact expectations beside measured ones: a check of both.
    squared, absolute = expected_errors(counts, variance, nonnegative=nonnegative)
    return {
        "mse": float(np.mean(error**2)),
        "mse_expected": squared,
        "mae": float(np.mean(np.abs(error))),
        "mae_expected": absolute,
    }


def _beside_the_papers(table: pl.DataFrame, counts: CensusCounts) -> tuple[Comparison, ...]:
    """The paper's reductions of Pennsylvania beside ours, for geolevels with the paper's names."""
    comparisons: list[Comparison] = []
    for nonnegative, section in ((False, "figure-6-without"), (True, "figure-6-nonnegative")):
        # The paper's percentages are of other counts, so they are shown and not judged.
        part = table.filter(nonnegative=nonnegative)
        reductions = {
            f"{name}, {level.name}": float(_reductions(part.filter(geolevel=level.name), column)[0])
            for level in counts.levels
            for name, column in (("MSE", "mse_expected"), ("MAE", "mae_expected"))
        }
        done = ", negatives to zero" if nonnegative else ""
        comparisons += compared(
            section, reductions, f"error lower by percent ({counts.name}, expected{done})"
        )
    return tuple(comparisons)


def _reductions(table: pl.DataFrame, column: str) -> Floats:
    """How much smaller an error is with the reduced noise, in percent, for each pair of rows."""
    # Rows are in the same order for both methods.
    bureau, ours = (table.filter(method=method)[column].to_numpy() for method in (BUREAU, REDUCED))
    return np.asarray(100 * (1 - ours / bureau), dtype=np.float64)


def _panel(table: pl.DataFrame, column: str, title: str, unit: str) -> DotPanel:
    """One error, with both kinds of noise and the reduction."""
    return DotPanel(
        title,
        (
            Dots(BUREAU, Role.PUBLISHED, tuple(table.filter(method=BUREAU)[column])),
            Dots(REDUCED, Role.OURS, tuple(table.filter(method=REDUCED)[column])),
        ),
        x_label=unit,
        notes=tuple(f"−{reduction:.2f} %" for reduction in _reductions(table, column)),
    )


def _geolevel_plot(table: pl.DataFrame, counts: CensusCounts) -> DotPlot:
    panels = tuple(
        _panel(table.filter(nonnegative=nonnegative), column, f"{error}, {done}", unit)
        for column, error, unit in (
            ("mse_expected", "Squared error", "persons squared"),
            ("mae_expected", "Absolute error", "persons"),
        )
        for nonnegative, done in ((False, "as drawn"), (True, "negatives to zero"))
    )
    return DotPlot(tuple(level.name for level in counts.levels), panels, 2, log_x=True)


def _race_plot(table: pl.DataFrame, counts: CensusCounts) -> DotPlot:
    panels = tuple(
        _panel(
            table.filter(geolevel=level.name),
            "mse_expected",
            f"{level.name}, negatives to zero",
            "expected squared error, persons squared",
        )
        for level in counts.levels
    )
    return DotPlot(counts.labels, panels, min(2, len(panels)))


def _range_of_reductions(table: pl.DataFrame, level: CountedLevel) -> str:
    reductions = _reductions(table.filter(geolevel=level.name), "mse_expected")
    before, after = (
        expected_errors(level.counts, variance, nonnegative=False)[0]
        for variance in both_noises(level.noise).values()
    )
    # Without clipping the reduction is that of the variance, whatever the counts.
    free = 100 * (1 - after / before)
    return (
        f"{level.name} (number of geounits: {len(level.counts):,}): the reduction lies between "
        f"{reductions.min():.2f} and {reductions.max():.2f} percent, of {free:.2f} without post-processing."
    )
