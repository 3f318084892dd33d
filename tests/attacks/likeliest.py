"""The likeliest records of a block, given noisy counts of every kind of record in it.

Problem. Every cell c of a block was measured: y_c = x_c + noise of variance v. Before seeing this, the attacker
expects m_c records in the cell, from the published counts of the county, and takes x_c for Poisson. The number of
people N is that of the published tables. Wanted are whole numbers x >= 0 that add up to N and are likeliest: the
least sum over cells of (x_c - y_c)^2 / (2 v) + log x_c! - x_c log m_c.

Step. Each term is convex, so the k-th record of a cell costs more than the one before it: (2 (k - y_c) - 1) / (2 v) +
log k - log m_c. The N cheapest records are the likeliest file.

Worked case. y = (0.9, 0.1), v = 1, m = (1, 1), N = 1: the records cost -0.4 and 0.4, and the file is (1, 0).
"""

import numpy as np


def likeliest_file(noisy: np.ndarray, variance: float, expected: np.ndarray, people: int) -> np.ndarray:
    """Counts of all cells in the likeliest file.

    Args:
        noisy: Noisy count of each cell.
        variance: Variance of its noise.
        expected: Records that are expected in each cell beforehand, above zero.
        people: Number of records in the file.
    """
    k = np.arange(1, people + 1)
    # A cell with more than `people` records, or far above its noisy count, is never among the cheapest.
    most = min(people, int(max(noisy.max(initial=0), 0) + 12 * variance**0.5) + 2)
    k = k[:most]
    costs = (2 * (k[None, :] - noisy[:, None]) - 1) / (2 * variance) + np.log(k) - np.log(expected)[:, None]
    cheapest = np.argsort(costs, axis=None, kind="stable")[:people]
    return np.bincount(cheapest // max(most, 1), minlength=noisy.size)
