"""What the counts of an earlier census do to draws, where they are of the same blocks and where they mean nothing.

python benchmarks/draws_earlier.py [KIND:SEED ...]

A state of `draws_states.py` is measured with noise of about production's size. Its earlier census is made up: half of
the people of every block lived there; as many others, for whom the people who came since have taken the place, have
shares of the block group; one block in ten was empty, and one in ten of today's empty blocks had a few people. Chains
are run as in `draws_covariates.py`: without an earlier census; with the earlier totals of blocks as a covariate alone;
with its counts of blocks, as `tallyveil draws --earlier-census` takes them; with those counts, but of other blocks
drawn at random; and with its counts of block groups. Printed are the errors of the means of the draws, also of the
groups of race and ethnicity with less than 2 % of the people, and how often intervals of 95 % hold.
"""

import sys

import numpy as np
from draws_covariates import described, sampled
from draws_facilities import QUERIES, SCHEMA, measured, state_of
from draws_states import KINDS
from scipy.sparse import csr_array

from tallyveil.estimation.posterior.covariates import Covariates
from tallyveil.estimation.posterior.earlier import EarlierCensus
from tallyveil.estimation.posterior.problem import LimitRows, posterior_problem
from tallyveil.synthetic.people import RACES


def earlier_counts(truth: np.ndarray, offsets: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A made-up earlier census of blocks with these people; `offsets` are those of their block groups."""
    of_group = np.add.reduceat(truth, offsets[:-1], axis=0) + 1e-6
    shares = np.repeat(of_group / of_group.sum(axis=1, keepdims=True), np.diff(offsets), axis=0)
    stayed = rng.binomial(truth, 0.5)
    gone = rng.poisson(0.5 * truth.sum(axis=1))
    was_empty = rng.random(len(truth)) < 0.1
    few = (truth.sum(axis=1) == 0) & was_empty
    gone[few] = 1 + rng.poisson(5.0, int(few.sum()))
    counts = stayed + rng.multinomial(gone, shares)
    counts[was_empty & ~few] = 0
    return counts


def main(name: str, seed: int) -> None:
    """Print the comparison of one state."""
    spine, truth, facility = state_of(KINDS[name], seed)
    rng = np.random.default_rng([9, seed])
    levels, rows = measured(truth, spine, rng)
    offsets = spine.finest_offsets(3)
    earlier = earlier_counts(truth, offsets, rng)
    permuted = rng.permutation(earlier, axis=0)
    of_groups = np.add.reduceat(earlier, offsets[:-1], axis=0)
    total = np.full((1, 1), truth.sum(), np.int32)
    race = truth.reshape(len(truth), 2, -1).sum(axis=1)
    rare = race.sum(axis=0) < 0.02 * race.sum()
    print(
        f"{name} {seed}, rare: {', '.join(np.array(RACES)[rare])}, {race[:, rare].sum()} people", flush=True
    )
    for label, totals, level, counts in (
        ("none", None, 0, None),
        ("totals alone", earlier, 0, None),
        ("blocks", earlier, 4, earlier),
        ("blocks at random", permuted, 4, permuted),
        ("block groups", None, 3, of_groups),
    ):
        known = (
            None
            if totals is None
            else Covariates.of(("earlier",), totals.sum(axis=1, dtype=np.float64)[:, None])
        )
        census = (
            None if counts is None else EarlierCensus(level, QUERIES[2], csr_array(counts.astype(np.int32)))
        )
        limits = [LimitRows(0, QUERIES[0], total, total)]
        problem = posterior_problem(
            SCHEMA, spine, levels, rows, limits, covariates=known, earlier=census, gaussian=True
        )
        states, common, seconds = sampled(problem, truth)
        races = states.reshape(len(states), len(truth), 2, -1).sum(axis=2)[:, :, rare]
        low, high = np.quantile(races, [0.025, 0.975], axis=0)
        few = race[:, rare]
        held = (few >= low) & (few <= high)
        of_groups_drawn = np.add.reduceat(races.mean(axis=0) - few, offsets[:-1], axis=0)
        print(
            f"{name} {seed}, {label}: {described(states, truth, facility, spine)}; of rare groups "
            f"{np.abs(races.mean(axis=0) - few).sum(axis=1).mean():.3f}, in block groups "
            f"{np.abs(of_groups_drawn).sum(axis=1).mean():.3f}, intervals held {held.mean():.3f}, of 1 to 4 people "
            f"{held[(few > 0) & (few < 5)].mean():.3f}, of more {held[few > 4].mean():.3f}; discounts "
            f"{np.round(common.discount, 2)}, renewals {np.round(common.renewal, 3)}, "
            f"effects {np.round(common.size_effects, 2)}; {seconds:.3f} s a sweep",
            flush=True,
        )


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        kind, _, number = argument.partition(":")
        main(kind, int(number))
