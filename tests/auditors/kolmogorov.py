"""The Kolmogorov check of the samplers, after the tests of SampCert: empirical against exact distribution function.

Our own code. SampCert compares the distance with a fixed number. Here it is compared with the largest distance that
chance explains at the level of the suite (`bounds.farthest_distribution`), which holds for laws on integers as well.

The exact distribution function is computed here from the definition of the law, in floats, without code of the audited
package. Its error, about 1e-13, is far below the distances that can be seen.
"""

import numpy as np
from numpy.typing import NDArray
from tests.auditors.bounds import farthest_distribution
from tests.auditors.findings import LEVEL, Finding
from tests.auditors.outputs import Draws


def audit(draws: Draws) -> Finding:
    """The distance of the draws from their law, less what chance explains."""
    values, counts = np.unique(draws.values, return_counts=True)
    points = np.arange(values[0] - 1, values[-1] + 1)
    seen = np.zeros(points.size)
    seen[values - points[0]] = counts
    empirical = np.cumsum(seen) / draws.values.size
    distance = float(np.abs(empirical - distribution(draws.kind, draws.parameter, points)).max())
    allowed = farthest_distribution(draws.values.size, LEVEL)
    return Finding(
        "Kolmogorov", draws.name, "distance of distributions", allowed, distance, draws.values.size
    )


def distribution(kind: str, parameter: float, points: NDArray[np.int64]) -> NDArray[np.float64]:
    """The exact distribution function at ascending integers without gaps."""
    reach = int(max(np.abs(points).max(), 45 * parameter if kind == "laplace" else 12 * parameter**0.5)) + 2
    support = np.arange(-reach, reach + 1, dtype=np.float64)
    exponent = support**2 / (2 * parameter) if kind == "gaussian" else np.abs(support) / parameter
    weights = np.exp(-exponent)
    cumulated = np.cumsum(weights) / weights.sum()
    found: NDArray[np.float64] = cumulated[points + reach]
    return found
