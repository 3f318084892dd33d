"""Noise that is added freely and then projected to the constrained sum, beside noise that keeps it: the appendix.

The paper adds double-geometric noise, takes the nearest point with the exact sum in l2, then the nearest whole point
with that sum in l1. For one sum both have closed forms: subtract the mean, then round some cells up and the others
down. All cells have the same remainder then, so that any choice of as many cells is as near. They are chosen at random
here: a fixed choice, such as a solver's first answer, favours the same cells in every draw and is biased by up to half
a count.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.noise import DiscreteLaplace, NoiseSource
from tallyveil.subspace.mechanisms import Norm
from tallyveil_studies.exhibit import Findings, StudyInputs
from tallyveil_studies.integer_subspace.examples import (
    BOXED_DRAWS,
    KEY,
    box_plot,
    draws_of,
    illinois_populations,
    summary,
)
from tallyveil_studies.integer_subspace.privacy import NOTE, example_with_parameters
from tallyveil_studies.integer_subspace.published_tables import ILLINOIS_COUNTIES, ILLINOIS_EPSILON

COMPARED_DRAWS: Final = 50_000
"""Draws of each kind of noise: enough to tell spreads apart to 0.1 %."""

_ADDRESS: Final = 255
"""Field geolevel of this exhibit's addresses."""


def projected(inputs: StudyInputs) -> Findings:
    """Both kinds of noise on the counties of Illinois, at the same epsilon for tables at l1 distance 1."""
    names = tuple(illinois_populations(inputs)["name"].to_list())
    ours = draws_of("Illinois", Norm.L1, COMPARED_DRAWS)
    order = NoiseSource(KEY).numbers(_ADDRESS, 1, range(COMPARED_DRAWS), 0, ILLINOIS_COUNTIES)
    # Query 0 is the noise, query 1 the order in which cells are rounded up.
    theirs = project(_free_noise(COMPARED_DRAWS), order)
    kinds = {"integer subspace": ours, "noise, then projected": theirs}
    spread = pl.DataFrame(
        [
            {
                "kind": kind,
                "draws": len(draws),
                "standard_deviation": float(draws.std()),
                "mean_absolute": float(np.abs(draws).mean()),
                "interquartile_range": float(np.subtract(*np.quantile(draws, [0.75, 0.25]))),
                "largest_mean_in_standard_errors": float(
                    np.abs(draws.mean(axis=0) / (draws.std(axis=0) / np.sqrt(len(draws)))).max()
                ),
                "draws_off_the_sum": int(np.count_nonzero(draws.sum(axis=1))),
            }
            for kind, draws in kinds.items()
        ]
    )
    boxes = {kind: draws[:BOXED_DRAWS] for kind, draws in kinds.items()}
    by_county = pl.concat([summary(d, names, kind=kind) for kind, d in boxes.items()])
    ratio = float(ours.std() / theirs.std())
    return Findings(
        tables={
            "projection": example_with_parameters(spread, "Illinois", Norm.L1),
            "projection-by-county": example_with_parameters(by_county, "Illinois", Norm.L1),
        },
        drawings={"projection": box_plot({"l1 norm": boxes}, names, "county, by population")},
        notes=(
            f"The standard deviation of noise that keeps the sum is {ratio:.4f} times that of projected noise (the "
            "paper: the magnitude is comparable).",
            "Projected noise is post-processed: its epsilon is that of the noise before, for tables of any sum; its "
            "law has no closed form. Noise on the lattice protects tables with the same sum, and its law is stated.",
            f"{NOTE} For projected noise they are upper bounds: before the projection its loss is at most epsilon for "
            "each unit of distance.",
        ),
    )


def project(noise: Integers, order: npt.NDArray[Any]) -> Integers:
    """A nearest whole vector that sums to zero, as the paper takes it.

    Args:
        noise: int64 [draws, cells].
        order: [draws, cells]; cells with the smallest numbers are rounded up.
    Returns:
        int64 [draws, cells]; every row sums to zero.
    """
    n = noise.shape[1]
    # n z - sum(z) is the centred noise in units of 1 / n, and its remainder by n is the same in every cell.
    floors = (n * noise - noise.sum(axis=1, keepdims=True)) // n
    # Rank of each cell in the random order of its draw.
    rank = np.argsort(np.argsort(order, axis=1), axis=1)
    return np.asarray(floors + (rank < -floors.sum(axis=1, keepdims=True)), dtype=np.int64)


def _free_noise(draws: int) -> Integers:
    source = NoiseSource(KEY)
    law = DiscreteLaplace(1 / ILLINOIS_EPSILON)
    return np.asarray(source.dense(law, _ADDRESS, 0, range(draws), ILLINOIS_COUNTIES), dtype=np.int64)
