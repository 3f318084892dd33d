"""What public housing units of blocks do to draws, where they follow the people and where they mean nothing.

python benchmarks/draws_covariates.py [KIND:SEED ...]

A state of `draws_states.py` is measured with noise of about production's size. Its blocks have made-up housing units:
an occupied block has a household for 2.5 people or so, and a tenth more that are vacant; group quarters have none; and
one in seven empty blocks has some. Four chains of 360 sweeps begin from the true counts: without covariates, with the
housing units, with those of other blocks drawn at random, and with both. The parameters that all areas share are
learned from sweeps 41 to 160, and draws are the last 160. Chains are not compared. Printed are the errors of the means
of the draws, how often intervals of 95 % hold, and people and occupied blocks where nobody lives.
"""

import sys
import time

import numpy as np
from draws_facilities import QUERIES, SCHEMA, measured, state_of
from draws_states import KINDS

from tallyveil.estimation.posterior.chain import Chain
from tallyveil.estimation.posterior.covariates import Covariates
from tallyveil.estimation.posterior.prior import Common, averaged
from tallyveil.estimation.posterior.problem import LimitRows, PosteriorProblem, posterior_problem
from tallyveil.geography.spine import Spine


def housing_units(people: np.ndarray, facility: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Made-up housing units of blocks with these people."""
    per_household = rng.gamma(16.0, 2.5 / 16.0, len(people))
    households = np.where(people > 0, np.maximum(1, np.rint(people / per_household)), 0)
    vacant = rng.poisson(0.1 * households)
    empty = np.where(rng.random(len(people)) < 1 / 7, 1 + rng.poisson(0.7, len(people)), 0)
    return np.where(facility, 0, np.where(people > 0, households + vacant, empty)).astype(np.float64)


def sampled(problem: PosteriorProblem, truth: np.ndarray) -> tuple[np.ndarray, Common, float]:
    """Draws of a chain that begins from the true counts, what it has learned, and seconds a sweep."""
    chain, begun = Chain.begin(problem, 3, 0, truth.astype(np.int32)), time.process_time()
    commons = []
    for _ in range(160):
        chain.run(1)
        commons.append(chain.parameters.common)
    common = averaged(commons[40:])
    chain.hold(common)
    chain.run(40)
    drawn = []
    for _ in range(160):
        chain.run(1)
        drawn.append(chain.counts())
    return np.array(drawn), common, (time.process_time() - begun) / 360


def described(states: np.ndarray, truth: np.ndarray, facility: np.ndarray, spine: Spine) -> str:
    """Errors of draws, and how often their intervals hold."""
    size, sizes, mean = truth.sum(axis=1), states.sum(axis=2), states.mean(axis=0)
    groups = np.add.reduceat(mean, spine.finest_offsets(3)[:-1], axis=0)
    true_groups = np.add.reduceat(truth, spine.finest_offsets(3)[:-1], axis=0)
    low, high = np.quantile(sizes, [0.025, 0.975], axis=0)
    error, lived = np.abs(sizes.mean(axis=0) - size), (size > 0) & ~facility
    held = (size >= low) & (size <= high)
    small = lived & (size < 10)
    middle = lived & (size >= 10) & (size < 50)
    empty, n_empty = sizes[:, size == 0], int((size == 0).sum())
    return (
        f"errors of totals {error.mean():.2f}, of 1 to 9 people {error[small].mean():.2f}, "
        f"10 to 49 {error[middle].mean():.2f}, more {error[lived & (size >= 50)].mean():.2f}, of "
        f"{facility.sum()} group quarters {error[facility].mean():.1f}; of cells "
        f"{np.abs(mean - truth).sum(axis=1).mean():.2f}, of block groups' cells "
        f"{np.abs(groups - true_groups).sum(axis=1).mean():.2f}; intervals held {held.mean():.3f}, of occupied "
        f"{held[size > 0].mean():.3f}, width {(high - low).mean():.2f}; in {n_empty} empty blocks "
        f"{empty.sum(axis=1).mean():.0f} people, {(empty > 0).sum(axis=1).mean():.0f} occupied; "
        f"{(sizes[:, size > 0] == 0).sum(axis=1).mean():.0f} of {(size > 0).sum()} others empty"
    )


def main(name: str, seed: int) -> None:
    """Print the comparison of one state."""
    spine, truth, facility = state_of(KINDS[name], seed)
    size = truth.sum(axis=1)
    rng = np.random.default_rng([9, seed])
    levels, rows = measured(truth, spine, rng)
    homes = housing_units(size, facility, rng)
    total = np.full((1, 1), truth.sum(), np.int32)
    permuted = rng.permutation(homes)
    for label, columns in (
        ("none", []),
        ("housing units", [homes]),
        ("at random", [permuted]),
        ("both", [homes, permuted]),
    ):
        known = (
            Covariates.of(("first", "second")[: len(columns)], np.stack(columns, axis=1)) if columns else None
        )
        limits = [LimitRows(0, QUERIES[0], total, total)]
        problem = posterior_problem(SCHEMA, spine, levels, rows, limits, covariates=known, gaussian=True)
        states, common, seconds = sampled(problem, truth)
        print(
            f"{name} {seed}, {label}: {described(states, truth, facility, spine)}; effects "
            f"{np.round(common.size_effects, 2)}, shape {common.size_shape:.2f}, empty "
            f"{np.round(common.empty_mean, 3)}; {seconds:.3f} s a sweep",
            flush=True,
        )


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        kind, _, number = argument.partition(":")
        main(kind, int(number))
