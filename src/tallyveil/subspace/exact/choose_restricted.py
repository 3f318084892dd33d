"""Chooses how a table is drawn from the restricted law where its sums cross or its counts have a largest value.

Problem. Two exact methods exist. Dynamic programming over partial sums takes as long as there are sums, whatever the
counts are. Redraws take as long as free noise has counts out of bounds, however many tables there are.

Steps. Partial sums are used if their states and steps can be listed. If not, redraws are used, if free noise has an
exact sampler and stays within the bounds often enough around a typical table with the same sums. Otherwise the table
is refused.

Stopping rule. Both decisions are taken from the sums and the bounds, before anything is spent.

Worked case. A table of 6 x 6 x 6 cells with all two-way margins has too many tables with its sums if its counts are
about 100. At epsilon 1/2 in the l2 norm the noise of a cell has a standard deviation of 17, so that almost every free
table is within the bounds.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from tallyveil.arrays import Integers
from tallyveil.errors import ConfigError
from tallyveil.subspace.exact.choose_sampler import cells_of, choose_sampler
from tallyveil.subspace.exact.mixture import CUT_BITS
from tallyveil.subspace.exact.partial_sums import LARGEST_MIXED, LARGEST_STEPS, partial_sums, sampler_by_sums
from tallyveil.subspace.exact.redraws import (
    PILOT_ROUNDS,
    STOP_BITS,
    RedrawingSampler,
    share_within,
    typical_table,
)
from tallyveil.subspace.exact.sampler import VectorSampler
from tallyveil.subspace.lattice import Lattice
from tallyveil.subspace.mechanisms import GeneralisedLaplace

LEAST_SHARE: Final = Fraction(1, 16)
"""Redraws are used if such a share of free tables is within the bounds, around a typical table with the same sums. The
true table has counts nearer to the bounds. In the study its share is a quarter to a half of that of the typical one."""


MOST_TRIALS_A_ROUND: Final = 1 << 12
"""Largest expected number of trials of one draw of free noise: a release may need some hundred draws."""


@dataclass(frozen=True, slots=True)
class RestrictedChoice:
    """How a table is drawn. The sampler holds the true table: confidential.

    Attributes:
        sampler: Draws what the table differs by from the true one.
        name: Name of the method.
        n_steps: Number of steps of all partial sums; None for redraws.
        share: Share of free tables that are within the bounds, around a typical table; None for partial sums.
    """

    sampler: VectorSampler
    name: str
    n_steps: int | None = None
    share: Fraction | None = None


def choose_restricted(
    lattice: Lattice, law: GeneralisedLaplace, counts: Integers, largest: int | None
) -> RestrictedChoice:
    """Choose how the restricted law around a table is drawn.

    Args:
        lattice: The lattice of the invariants.
        law: The law.
        counts: int64 [n_cells], within the bounds. Confidential.
        largest: Largest count of a cell; None for no bound.
    Raises:
        ConfigError: neither method can draw it.
        BudgetError, SolverError: epsilon is too small or too large for the sampler.
    Privacy: the choice and a refusal depend on the sums, the bounds and the law alone.
    """
    structure, totals = lattice.structure, lattice.system.totals(counts)
    most = LARGEST_MIXED if law.takes_root else LARGEST_STEPS
    steps = partial_sums(structure, totals, largest, most)
    if steps is not None:
        with cells_of(law):
            sampler = sampler_by_sums(counts, law, steps)
        return RestrictedChoice(sampler, "partial sums", n_steps=steps.n_steps)
    # Up to 2**16 rounds are within 2**-62 of the law together.
    free = choose_sampler(lattice, law, MOST_TRIALS_A_ROUND, cut_bits=CUT_BITS + STOP_BITS)
    if free.sampler is None:
        raise _refused(
            lattice,
            most,
            "free noise of this law has no exact sampler here that is expected to need "
            f"{MOST_TRIALS_A_ROUND:,} trials or fewer",
            "another epsilon" if law.takes_root else 'more epsilon, norm = "l2"',
        )
    bounded = np.ones(lattice.n_cells, dtype=np.bool_)
    if largest is None:
        # They are drawn alone.
        bounded[structure.free] = False
    typical = typical_table(lattice.system, totals, largest)
    share = share_within(free.sampler, typical, bounded, largest)
    if share < LEAST_SHARE:
        raise _refused(
            lattice,
            most,
            f"free noise leaves all counts within the bounds in {share * PILOT_ROUNDS} of {PILOT_ROUNDS} trials around "
            f"a typical table with these sums, and at least {LEAST_SHARE * PILOT_ROUNDS} are wanted",
            "more epsilon",
        )
    return RestrictedChoice(RedrawingSampler(free.sampler, counts, bounded, largest), "redraws", share=share)


def _refused(lattice: Lattice, most_steps: int, why: str, budget: str) -> ConfigError:
    n_blocks = len(lattice.structure.blocks)
    return ConfigError(
        '[mechanism] outputs is "restricted", but there are too many tables with the sums of this one. They have '
        f"{n_blocks:,} groups of cells that the constraints treat alike, and dynamic programming over what these leave "
        f"to each other would list more than {most_steps:,} numbers. Drawing free noise again and again does not take "
        f'its place: {why}. Use outputs = "nonnegative" or "free", {budget}, fewer constraints that '
        "cross, or attributes with fewer levels. Nothing was spent.",
        code="subspace-outputs",
    )
