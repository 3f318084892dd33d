"""How many independent draws the states of a chain are worth."""

import numpy as np
import numpy.typing as npt


def effective_size(states: npt.ArrayLike) -> float:
    """Number of independent draws that would estimate the mean of a quantity as well as these correlated ones.

    Args:
        states: [n], the values of one quantity along a chain.
    Source: Geyer 1992, the initial positive sequence.
    """
    x = np.asarray(states, dtype=np.float64)
    x = x - x.mean()
    n = x.size
    if n < 4 or not x.any():
        return float(n)
    spectrum = np.fft.rfft(x, 2 * n)
    correlation = np.fft.irfft(spectrum * np.conj(spectrum))[:n] / n
    pairs = correlation[0 : n - 1 : 2] + correlation[1:n:2]
    negative = np.flatnonzero(pairs <= 0)
    kept = pairs[: negative[0]] if negative.size else pairs
    return float(n * correlation[0] / max(2 * kept.sum() - correlation[0], correlation[0] / n))
