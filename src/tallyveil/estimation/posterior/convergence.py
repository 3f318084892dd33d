"""Whether chains have forgotten where they began, and how many independent draws they are worth.

Nothing is published from chains that do not pass (`tallyveil.postprocess.draws`). R-hat is split R-hat, without the
rank normalisation of Vehtari et al. 2021, since all quantities here have finite variances. The effective sample size
uses whole chains and Geyer's initial positive sequence, where they use split chains and the monotone sequence.
"""

from typing import Final

import numpy as np

from tallyveil.arrays import Floats
from tallyveil.subspace.diagnostics import potential_scale_reduction

MOST_REDUCTION: Final = 1.01
"""Largest split R-hat of a parameter and of every count that is watched by itself: the limit of Vehtari et al."""
MOST_AT_SMALL: Final = 1.05
"""Largest 99th percentile of the split R-hat of the many counts of small geounits."""
LEAST_SIZE: Final = 400.0
"""Smallest effective sample size, over all chains together: the limit of Vehtari et al., with which an estimated R-hat
is itself exact enough to be compared with 1.01."""


def split_reduction(series: Floats) -> Floats:
    """Split R-hat of each quantity: every chain counts as two, its halves, so that a chain that drifts is noticed.

    Args:
        series: Values along the chains; shape (chains, states, quantities).
    """
    half = series.shape[1] // 2
    return potential_scale_reduction(np.concatenate([series[:, :half], series[:, -half:]]))


def effective_sizes(series: Floats) -> Floats:
    """Number of independent draws that would give the mean of each quantity as exactly as the chains do.

    Autocorrelations are averaged over the chains, with the variance between chains in them, and summed in pairs as long
    as a pair is positive (Geyer 1992).

    Args:
        series: Values along the chains; shape (chains, states, quantities).
    """
    chains, n, quantities = series.shape
    centred = series - series.mean(axis=1, keepdims=True)
    spectrum = np.fft.rfft(centred, 2 * n, axis=1)
    covariance = np.fft.irfft(spectrum * np.conj(spectrum), axis=1)[:, :n].mean(axis=0) / n
    within = covariance[0] * n / (n - 1)
    between = series.mean(axis=1).var(axis=0, ddof=1)
    total = (n - 1) / n * within + between
    sizes = np.full(quantities, float(chains * n))
    for q in np.flatnonzero(total > 0):
        correlation = 1.0 - (within[q] - covariance[:, q] * n / (n - 1)) / total[q]
        pairs = correlation[0 : n - 1 : 2] + correlation[1:n:2]
        negative = np.flatnonzero(pairs <= 0)
        until = int(negative[0]) if negative.size else len(pairs)
        sizes[q] = chains * n / max(1.0, 2.0 * pairs[:until].sum() - 1.0)
    return sizes
