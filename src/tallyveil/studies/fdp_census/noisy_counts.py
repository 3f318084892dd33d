"""Figures 6 and 8: error of noisy counts of Rhode Island 2010, with the Bureau's noise and with less.

The paper uses Pennsylvania. Geolevels and noise are the same here. The nine counts are the total, Hispanics, and
non-Hispanics in seven race groups.
"""

from fractions import Fraction
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.noise import DiscreteGaussian, NoiseSource
from tallyveil.storage.read import read_parquet
from tallyveil.studies.comparison import Comparison
from tallyveil.studies.drawing import DotPanel, DotPlot, Dots, Role
from tallyveil.studies.exhibit import Findings, StudyInputs
from tallyveil.studies.fdp_census.allocation import noise_parameters, reduced_noise, variances
from tallyveil.studies.fdp_census.printed import compared
from tallyveil.studies.fdp_census.study_noise import expected_errors, study_noise

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
LEAST_DRAWS: Final = 200_000
BUREAU, OURS = "Bureau's noise", "reduced noise"


def errors_by_geolevel(inputs: StudyInputs) -> Findings:
    """Figure 6: squared and absolute error by geolevel, with and without non-negativity."""
    paths = inputs.files("Figure 6", FILES)
    noise = study_noise()
    rows = []
    for number, (level, (column, geolevel)) in enumerate(LEVELS.items()):
        counts = counts_by(paths, column)
        for method, variance in noises(geolevel).items():
            rows += _measured(noise, number, level, method, variance, counts)
    table = pl.DataFrame(rows)
    comparisons: list[Comparison] = []
    for nonnegative, section in ((False, "figure-6-without"), (True, "figure-6-nonnegative")):
        reductions = {
            f"{name}, {level}": _reduction(table, level, column, nonnegative=nonnegative)
            for level in LEVELS
            for name, column in (("MSE", "mse_expected"), ("MAE", "mae_expected"))
        }
        done = ", negatives to zero" if nonnegative else ""
        comparisons += compared(section, reductions, f"error lower by percent (Rhode Island, expected{done})")
    return Findings(
        tables={"figure-6": table},
        comparisons=tuple(comparisons),
        drawings={"figure-6": _geolevel_plot(table)},
        notes=(
            "Expected errors are exact, from the law of the noise; measured ones are draws, at least "
            f"{LEAST_DRAWS:,} a geolevel.",
            "The paper's percentages are for Pennsylvania and single draws, so they are shown, not judged.",
        ),
    )


def errors_by_race(inputs: StudyInputs) -> Findings:
    """Figure 8: squared error of the nine counts of every block, negative counts set to zero."""
    paths = inputs.files("Figure 8", FILES)
    counts = counts_by(paths, "geocode")
    noise = study_noise()
    rows = []
    for place, label in enumerate(QUERIES.values()):
        column = np.ascontiguousarray(counts[:, place : place + 1])
        for number, (method, variance) in enumerate(noises("Block").items()):
            drawn = noise.dense(DiscreteGaussian(variance), 8 + number, place, range(len(column)), 1)
            error = np.maximum(column + drawn, 0) - column
            squared, absolute = expected_errors(column, variance, nonnegative=True)
            rows.append(
                {
                    "query": label,
                    "method": method,
                    "mean_count": float(column.mean()),
                    "mse": float(np.mean(error.astype(np.float64) ** 2)),
                    "mse_expected": squared,
                    "mae_expected": absolute,
                    **noise_parameters(variance),
                }
            )
    table = pl.DataFrame(rows)
    bureau, ours = (table.filter(method=method) for method in (BUREAU, OURS))
    gains = 100 * (1 - ours["mse_expected"].to_numpy() / bureau["mse_expected"].to_numpy())
    panel = DotPanel(
        "Blocks, negative counts set to zero",
        (
            Dots(BUREAU, Role.PUBLISHED, tuple(bureau["mse_expected"])),
            Dots(OURS, Role.OURS, tuple(ours["mse_expected"])),
        ),
        x_label="expected squared error, persons squared",
        notes=tuple(f"−{gain:.2f} %" for gain in gains),
    )
    return Findings(
        tables={"figure-8": table},
        drawings={"figure-8": DotPlot(tuple(QUERIES.values()), (panel,), 1)},
        notes=(
            f"{len(counts):,} blocks; the reduction lies between {gains.min():.2f} and {gains.max():.2f} percent, "
            "of 24.82 without post-processing.",
        ),
    )


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
    joined = geounits.join(wide, on="geocode", how="left").with_columns(pl.col(*races).fill_null(0))
    summed = joined.group_by("geounit").agg(pl.col(*races).sum()).sort("geounit")
    summed = summed.with_columns(pl.sum_horizontal(*races).alias("total"))
    return np.ascontiguousarray(summed.select(*QUERIES).to_numpy().astype(np.int64))


def noises(geolevel: str) -> dict[str, Fraction]:
    """Variance of each query at a geolevel of Table 1, with the Bureau's noise and with the reduced noise."""
    variance = variances()[geolevel]
    return {BUREAU: variance, OURS: variance * reduced_noise(variance).factor}


def _measured(
    noise: NoiseSource, number: int, level: str, method: str, variance: Fraction, counts: Integers
) -> list[dict[str, object]]:
    """Errors of one geolevel with one noise, without and with non-negativity."""
    repetitions = -(-LEAST_DRAWS // counts.size)
    true = np.tile(counts, (repetitions, 1))
    query = [BUREAU, OURS].index(method)  # an address of its own, so that two distributions never share one
    noisy = true + noise.dense(DiscreteGaussian(variance), number, query, range(len(true)), true.shape[1])
    rows: list[dict[str, object]] = []
    for nonnegative in (False, True):
        error = ((np.maximum(noisy, 0) if nonnegative else noisy) - true).astype(np.float64)
        squared, absolute = expected_errors(counts, variance, nonnegative=nonnegative)
        rows.append(
            {
                "geolevel": level,
                "method": method,
                "variance": float(variance),
                "nonnegative": nonnegative,
                "geounits": len(counts),
                "draws": true.size,
                "mse": float(np.mean(error**2)),
                "mse_expected": squared,
                "mae": float(np.mean(np.abs(error))),
                "mae_expected": absolute,
                **noise_parameters(variance),
            }
        )
    return rows


def _reduction(table: pl.DataFrame, level: str, column: str, *, nonnegative: bool) -> float:
    part = table.filter(geolevel=level, nonnegative=nonnegative)
    bureau, ours = (float(part.filter(method=method)[column].item()) for method in (BUREAU, OURS))
    return 100 * (1 - ours / bureau)


def _geolevel_plot(table: pl.DataFrame) -> DotPlot:
    panels = []
    for column, error, unit in (
        ("mse_expected", "squared error", "persons squared"),
        ("mae_expected", "absolute error", "persons"),
    ):
        for nonnegative, done in ((False, "as drawn"), (True, "negatives to zero")):
            part = table.filter(nonnegative=nonnegative)
            notes = [_reduction(table, level, column, nonnegative=nonnegative) for level in LEVELS]
            panels.append(
                DotPanel(
                    f"{error}, {done}".capitalize(),
                    (
                        Dots(BUREAU, Role.PUBLISHED, tuple(part.filter(method=BUREAU)[column])),
                        Dots(OURS, Role.OURS, tuple(part.filter(method=OURS)[column])),
                    ),
                    x_label=unit,
                    notes=tuple(f"−{note:.2f} %" for note in notes),
                )
            )
    return DotPlot(tuple(LEVELS), tuple(panels), 2, log_x=True)
