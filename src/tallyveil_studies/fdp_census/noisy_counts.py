"""Figures 6 and 8: error of noisy counts, with the Bureau's noise and with less."""

from fractions import Fraction
from typing import Final

import numpy as np
import polars as pl

from tallyveil.arrays import Floats, Integers
from tallyveil.noise import DiscreteGaussian, NoiseSource
from tallyveil.report.drawing import DotPanel, DotPlot, Dots, Role
from tallyveil_studies.comparison import Comparison
from tallyveil_studies.exhibit import Findings, StudyInputs
from tallyveil_studies.fdp_census.allocation import BUREAU, REDUCED, both_noises, noise_parameters
from tallyveil_studies.fdp_census.census_counts import census_counts
from tallyveil_studies.fdp_census.printed import compared
from tallyveil_studies.fdp_census.study_noise import expected_errors, study_noise
from tallyveil_studies.own_data import CensusCounts, CountedLevel

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
