"""Whether chains have forgotten where they began, and how many independent draws they are worth.

Nothing is published from chains that do not pass (`tallyveil.postprocess.draws`). R-hat is split R-hat, without the
rank normalisation of Vehtari et al. 2021, since all quantities here have finite variances. The effective sample size
is that of batch means: of independent states, means of parts of the chains vary as one over the length of the parts.
Both need no more of a part than sums and squares, so that no series is stored. A part is a tenth of a chain or less.
What changes more slowly than that is seen by R-hat: with four chains, 1.01 means that means of their halves vary like
those of 400 independent draws.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from tallyveil.arrays import Floats

MOST_REDUCTION: Final = 1.01
"""Largest split R-hat of a parameter and of every count that is watched by itself: the limit of Vehtari et al."""
MOST_AT_SMALL: Final = 1.05
"""Largest 99th percentile of the split R-hat of the many counts of small geounits."""
LEAST_SIZE: Final = 400.0
"""Smallest effective sample size, over all chains together: the limit of Vehtari et al., with which an estimated R-hat
is itself exact enough to be compared with 1.01."""


def moments(sums: Sequence[Floats], n: int) -> tuple[Floats, Floats]:
    """Means and variances, divided by n - 1, of each part; both of shape (parts, quantities).

    Args:
        sums: Of each part, the sum of each quantity and that of its square; shape (2, quantities).
        n: States of a part.
    """
    total, square = np.stack(sums, axis=1)
    means = total / n
    return means, np.maximum(square - n * means**2, 0.0) / (n - 1)


def effective_sizes(means: Floats, variances: Floats, n: int) -> Floats:
    """Number of independent draws that would give the mean of each quantity as exactly as the chains do.

    Args:
        means: Mean of each part of each chain; shape (parts, quantities).
        variances: Variance of each part, divided by n - 1.
        n: States of a part.
    Returns:
        Shape (quantities,); at most the number of states.
    Source: Flegal, Jones 2010.
    """
    parts = len(means)
    between = means.var(axis=0, ddof=1)
    total = (n - 1) / n * variances.mean(axis=0) + between
    sizes: Floats = np.full(len(between), float(n))
    np.divide(total, between, out=sizes, where=between > 0)
    return parts * np.minimum(sizes, float(n))
