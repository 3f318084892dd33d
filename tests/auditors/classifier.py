"""Logistic regression: the logarithm of how much likelier an output is on the second population, learnt from outputs.

Problem. Rows x with label 0 (first population) or 1 (second), equally many of each. Wanted are weights w that minimise
the sum of ln(1 + exp(-s w.x)), s = -1 or 1, plus a small multiple of |w|^2.

Steps. Columns are centred and scaled; then Newton's method. Stopping rule: no weight changes by more than 1e-6, or 50
steps. The result need not be the minimum: an audit is valid with any weights.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Floats = NDArray[np.float64]

_RIDGE: Final = 1e-3
_STEPS: Final = 50


@dataclass(frozen=True, eq=False)
class Classifier:
    """A linear function of the columns of an output.

    Attributes:
        weights: One for each column.
        constant: What is added.
    """

    weights: Floats
    constant: float

    def scores(self, outputs: NDArray[np.int64]) -> Floats:
        """The function of each row."""
        found: Floats = outputs @ self.weights + self.constant
        return found


def train(first: NDArray[np.int64], second: NDArray[np.int64], most: int = 30_000) -> Classifier:
    """A classifier of two samples, from at most so many rows of each."""
    rows = min(len(first), len(second), most)
    table = np.concatenate([first[:rows], second[:rows]]).astype(np.float64)
    sign = np.repeat([-1.0, 1.0], rows)
    centre, spread = table.mean(axis=0), table.std(axis=0)
    spread[spread == 0] = 1
    table = np.column_stack([(table - centre) / spread, np.ones(len(table))])
    weights = np.zeros(table.shape[1])
    penalty = np.full(weights.size, _RIDGE * rows)
    penalty[-1] = 0
    for _ in range(_STEPS):
        wrong = expit(-sign * (table @ weights))
        gradient = penalty * weights - table.T @ (sign * wrong)
        curvature = (table * (wrong * (1 - wrong))[:, None]).T @ table + np.diag(penalty + 1e-9)
        step = np.linalg.solve(curvature, gradient)
        weights = weights - step
        if np.abs(step).max() < 1e-6:
            break
    slopes = weights[:-1] / spread
    return Classifier(slopes, float(weights[-1] - slopes @ centre))
