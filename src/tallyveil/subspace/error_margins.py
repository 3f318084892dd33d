"""Margins of error of counts with lattice noise, and of their sums, from simulated noise.

Problem. For each cell, and for each sum of cells, wanted is a margin m such that the noise is at most m in absolute
value with probability 95 % or more. The noise of a cell has no simple law on most lattices.

Steps. Noise is drawn many times with a public key, and its absolute values are sorted. The margin is the k-th smallest.
The share of the law below it is at least 95 % with 99.9 % confidence for every single margin, if k - 1 is the 99.9 %
quantile of the binomial law of n trials with probability 95 % (a distribution-free tolerance limit; Wilks 1941).

Worked case. Of n = 1,000 draws, k = 971: the margin is the 30th largest absolute value.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from tallyveil.arrays import Integers
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.noise_plan import PUBLIC_KEY, NoisePlan

LEVEL: Final = Fraction(19, 20)
"""Probability with which noise stays within a margin."""
CONFIDENCE: Final = Fraction(999, 1000)
"""Probability that one margin, an order statistic of draws, is large enough for `LEVEL`. It holds for each alone."""
MOST_DRAWS: Final = 1000
"""Draws with the public key. Fewer draws make margins wider, as their confidence stays the same."""
_CELLS_AT_ONCE: Final = 1 << 24
"""Most cells of all draws together: tables above 16,777 cells get fewer than 1,000 draws."""
_DRAWS_AT_ONCE: Final = 100
"""Draws that one call of the sampler makes."""


@dataclass(frozen=True, slots=True, eq=False)
class ErrorMargins:
    """Margins of error at `LEVEL`, each with confidence `CONFIDENCE`.

    Attributes:
        draws: Number of simulated noise vectors.
        cells: int64 [n_cells].
        sums: int64 [n_sums]; 0 for a sum that noise does not change.
    """

    draws: int
    cells: Integers
    sums: Integers


def margin_draws(noise: NoisePlan) -> int:
    """Number of noise vectors that `error_margins` simulates."""
    return min(MOST_DRAWS, _CELLS_AT_ONCE // noise.lattice.n_cells)


def error_margins(
    noise: NoisePlan, sums: ConstraintSystem, advanced: Callable[[int], None] | None = None
) -> ErrorMargins | None:
    """Margins of the cells and of some sums of them, without data.

    Args:
        noise: How the noise is drawn.
        sums: The sums.
        advanced: Receives the number of draws that are finished, part by part.
    Returns:
        The margins, or None: under a restricted law errors depend on the table, and a very large table has too many
        cells to simulate.
    """
    draws = margin_draws(noise)
    place = rank(draws)
    if noise.restricted or place is None:
        return None
    vectors = np.empty((draws, noise.lattice.n_cells), dtype=np.int64)
    for first in range(0, draws, _DRAWS_AT_ONCE):
        part = range(first, min(first + _DRAWS_AT_ONCE, draws))
        vectors[part.start : part.stop] = noise.draw(PUBLIC_KEY, part)
        if advanced is not None:
            advanced(len(part))
    return ErrorMargins(draws, _ranked(vectors, place), _ranked(sums.totals(vectors.T).T, place))


def rank(draws: int) -> int | None:
    """The number k of the order statistic of some draws that is the margin; None if the draws are too few."""
    from scipy.stats import binom

    k = int(binom.ppf(float(CONFIDENCE), draws, float(LEVEL))) + 1 if draws else 1
    return k if k <= draws else None


def _ranked(vectors: Integers, place: int) -> Integers:
    return np.asarray(np.partition(np.abs(vectors), place - 1, axis=0)[place - 1], dtype=np.int64)
