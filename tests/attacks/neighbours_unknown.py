"""Was this person in the data? The attacker knows the person, and of the others no more than the county's table.

Problem. The person would count in one cell of one block, whose noisy count is y, with noise of variance v. The others
in the cell are Poisson with mean m, from the published counts of the county and of the block's people. The score is
the logarithm of P(y | one more) / P(y | others alone).

Without noise y = 0 says that the person was not there.
"""

import numpy as np
from scipy.special import logsumexp
from scipy.stats import poisson

MOST_OTHERS = 40


def membership_scores(noisy: np.ndarray, variance: float, expected: np.ndarray) -> np.ndarray:
    """The score of each target, from the noisy count of its cell and the expected number of others there."""
    others = np.arange(MOST_OTHERS + 1)
    weights = poisson.logpmf(others, expected[:, None])
    without = weights - (noisy[:, None] - others) ** 2 / (2 * variance)
    having = weights - (noisy[:, None] - others - 1) ** 2 / (2 * variance)
    return logsumexp(having, axis=1) - logsumexp(without, axis=1)
