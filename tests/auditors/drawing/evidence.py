"""The score of an adversary who knows all records but one, the plan and the law of the noise.

The score of an output is the logarithm of how much likelier it is on the second population than on the first. The
adversary believes that the noise is as documented, with a small doubt: with probability `DOUBT`, the answers of a query
in a geolevel that are truly zero have no noise. A fault of this kind gives a person away, and documented noise alone
would not show it. Where many zeros have noise, as they should, the doubt changes the score very little.

An audit is valid with any score. A poor one only finds less.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tallyveil.noise import DiscreteGaussian, Law

Floats = NDArray[np.float64]

DOUBT: Final = 0.01
"""Probability, in the adversary's eyes, that the true zeros of a query in a geolevel have no noise."""

_REACH: Final = 50
"""Standard deviations or scales to which the masses of a law are summed."""


@dataclass(frozen=True)
class Measured:
    """The answers of one query in one geolevel.

    Attributes:
        law: The documented law of the noise of each.
        first: The true answers on the first population.
        second: The true answers on the second.
    """

    law: Law
    first: Sequence[int]
    second: Sequence[int]


def scores(rows: NDArray[np.integer], measured: Sequence[Measured]) -> Floats:
    """The score of each row, whose first columns are the answers of `measured` in order."""
    found, column = np.zeros(len(rows)), 0
    for one in measured:
        values = rows[:, column : column + len(one.first)]
        column += len(one.first)
        if list(one.first) != list(one.second):
            found += _log_likelihood(one.law, values, np.array(one.second))
            found -= _log_likelihood(one.law, values, np.array(one.first))
    return found


def _log_likelihood(law: Law, values: NDArray[np.integer], truth: NDArray[np.integer]) -> Floats:
    masses = _log_masses(law, values - truth)
    documented: Floats = masses.sum(axis=1)
    zero = truth == 0
    if not zero.any():
        return documented
    without_noise = np.log(DOUBT) + masses[:, ~zero].sum(axis=1)
    documented = np.log1p(-DOUBT) + documented
    seen = (values[:, zero] == 0).all(axis=1)
    return np.where(seen, np.logaddexp(documented, without_noise), documented)


def _log_masses(law: Law, noise: NDArray[np.integer]) -> Floats:
    """The logarithm of the probability of each value of the noise."""
    spread = float(law.variance) ** 0.5 if isinstance(law, DiscreteGaussian) else float(law.scale)
    support = np.arange(-int(_REACH * spread) - 1, int(_REACH * spread) + 2)
    found: Floats = _exponents(law, noise) - np.log(np.exp(_exponents(law, support)).sum())
    return found


def _exponents(law: Law, noise: NDArray[np.integer]) -> Floats:
    values = noise.astype(np.float64)
    if isinstance(law, DiscreteGaussian):
        found: Floats = -(values**2) / (2 * float(law.variance))
    else:
        found = -np.abs(values) / float(law.scale)
    return found
