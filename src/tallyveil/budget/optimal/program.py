"""The convex program that the best shares solve, and how far some shares are from its optimum.

Problem. Let w be the shares: they sum to 1, and share i is at least its least value. Let f_k(w) be the variances of the
aims. Wanted is the minimum of sum_k a_k f_k, or of max_k a_k f_k, over all w with f_k <= r_k for the aims with a limit.

Convexity. A precision matrix is linear in w, and the variance of a best linear unbiased estimate is a convex function
of precisions. Where only shares give information, f_k(w) is also homogeneous of degree -1. No share pays for some
precision, such as that of answers published exactly. Such precision is multiplied by the sum of the shares, which is 1.
This extends f_k to all w > 0, and makes it homogeneous. Let g_k be the gradient of f_k before it is extended, and
h_k = f_k + g_k'w the part of f_k that is due to such precision. The extended f_k has the gradient g_k - h_k, where h_k
is taken off every component.

Lower bound. Take any weights b >= 0, F = sum b_k f_k at some point, and q(v) = -sum b_k (g_k - h_k)'v. By
convexity, F(v) >= 2 F / s - q(v) / s^2 for every s > 0, so F(v) >= F^2 / q(v). So F^2 / max q is a lower bound of F
over all shares v. With b = a + m, where m >= 0 are weights of the limits, F^2 / max q - m'r is a lower bound of the
minimum.

Worked case. Two queries measure two unrelated counts, f_1 = 1 / w_1 and f_2 = 1 / w_2, and a = (1, 1). At
w = (1/2, 1/2), F = 4 and q(v) = 4 v_1 + 4 v_2 = 4, so that the bound is 16 / 4 = 4: these shares are the best ones.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Floats

SLACK = 1e-4
"""Fraction by which a limit may be exceeded while shares are searched, so that there is room to move."""
NOISE = 1e-6
"""Relative rounding errors of variances, at most: they cannot make shares break a limit."""


class Evaluated(NamedTuple):
    """Variances at some shares.

    Attributes:
        values: Shape (aims,), in squared counts.
        slopes: Derivatives by each share; shape (aims, shares).
    """

    values: Floats
    slopes: Floats

    def unpaid(self, shares: Floats) -> Floats:
        """The part of each variance that is due to precision that no share pays for; shape (aims,)."""
        excess: Floats = np.maximum(self.values + self.slopes @ shares, 0.0)
        return excess


Variances = Callable[[Floats], Evaluated]


@dataclass(frozen=True, slots=True, eq=False)
class ShareProgram:
    """What is to be minimised over the shares.

    Attributes:
        weights: The a_k, 0 or more; shape (aims,).
        of_maximum: Whether the largest weighted variance is minimised, and not the sum.
        limits: The r_k; infinite where there is no limit; shape (aims,).
        least: Smallest value of every share; shape (shares,).
    """

    weights: Floats
    of_maximum: bool
    limits: Floats
    least: Floats

    def objective(self, values: Floats) -> float:
        """The sum, or the maximum, of the weighted variances."""
        weighted = self.weights * values
        return float(weighted.max() if self.of_maximum else weighted.sum())

    def within_limits(self, values: Floats) -> bool:
        """Whether no variance exceeds its limit by more than the slack."""
        return bool(np.all(values < self.limits * (1 + SLACK) * (1 + NOISE)))

    def settled(self, shares: Floats) -> Floats:
        """Shares that sum to 1 up to rounding errors, moved so that they do and that none is below its least value.

        Divided by their sum, shares that are next to their least values would fall below them.
        """
        room = np.maximum(shares - self.least, 0.0)
        settled: Floats = self.least + room * ((1.0 - self.least.sum()) / room.sum())
        return settled

    def together(self, multipliers: Floats, prices: Floats) -> Floats:
        """The weight b of every aim in the lower bound: a, for the maximum split by multipliers, plus the prices."""
        weights = self.weights * multipliers / multipliers.sum() if self.of_maximum else self.weights
        prices_of_all: Floats = weights + np.where(np.isfinite(self.limits), prices, 0.0)
        return prices_of_all

    def lower_bound(self, evaluated: Evaluated, shares: Floats, multipliers: Floats, prices: Floats) -> float:
        """A lower bound of the minimum, from the variances at some shares.

        Args:
            evaluated: The variances and their derivatives there.
            shares: These shares.
            multipliers: For the maximum, 0 or more: relative weights of the aims, which are scaled to sum to 1.
            prices: The m_k of the limits, 0 or more; 0 where there is no limit.
        """
        limited = np.isfinite(self.limits)
        together = self.together(multipliers, prices)
        value = float(together @ evaluated.values)
        slope = -(together @ evaluated.slopes) + float(together @ evaluated.unpaid(shares))
        free = 1.0 - float(self.least.sum())
        greatest = float(self.least @ slope) + free * float(slope.max())
        limit = np.where(limited, self.limits * (1 + SLACK), 0.0)
        return value * value / greatest - float(np.where(limited, prices, 0.0) @ limit)

    def best_bound(self, evaluated: Evaluated, shares: Floats) -> float:
        """The lower bound from the variances at some shares, with weights that make it nearly as large as possible.

        With s = 1 in the head of this module, the bound is 2 F - max q - m'r. Its maximum is a linear program. The
        bound returned is that of the program's weights, whatever the program's own accuracy.
        """
        from scipy.optimize import linprog

        chosen = np.flatnonzero(self.weights > 0) if self.of_maximum else np.zeros(0, np.int64)
        limited = np.flatnonzero(np.isfinite(self.limits))
        scale = self.objective(evaluated.values)
        aims = np.concatenate([chosen, limited]).astype(np.int64)
        # In units in which every multiplier and price is of the order of 1.
        unit = np.concatenate([self.weights[chosen], scale / self.limits[limited]]) / scale
        slope = (evaluated.unpaid(shares)[:, None] - evaluated.slopes)[aims] * unit[:, None]
        gain = 2.0 * evaluated.values[aims] * unit - slope @ self.least
        gain[len(chosen) :] -= 1 + SLACK
        fixed = np.zeros(len(shares))
        if not self.of_maximum:
            fixed = self.weights @ (evaluated.unpaid(shares)[:, None] - evaluated.slopes) / scale
        free = 1.0 - float(self.least.sum())
        solved = linprog(
            np.append(-gain, free),
            A_ub=np.column_stack([slope.T, -np.ones(len(shares))]),
            b_ub=-fixed,
            A_eq=np.append(np.ones(len(chosen)), np.zeros(len(limited) + 1))[None, :]
            if len(chosen)
            else None,
            b_eq=[1.0] if len(chosen) else None,
            bounds=[(0, None)] * len(aims) + [(None, None)],
            method="highs",
        )
        multipliers, prices = np.zeros(len(evaluated.values)), np.zeros(len(evaluated.values))
        if solved.status != 0:
            return 0.0
        multipliers[chosen] = np.maximum(solved.x[: len(chosen)], 0.0)
        prices[limited] = np.maximum(solved.x[len(chosen) : -1], 0.0) * unit[len(chosen) :] * scale
        return self.lower_bound(evaluated, shares, multipliers, prices)
