"""A composition of discrete Gaussians, replaced by one Gaussian on the lattice with a proved relative error.

The problem: the tails of L = W + h Z, where Z = sum of a_i X_i over all answers and X_i ~ N_Z(0, v_i).

The variables: V = sum of a_i^2 v_i, the variance of Z; m = 2 W / h, a whole number; the density
g(z) = exp(-z^2 / (2 V)) / sqrt(2 pi V); c_i = sum over integers k of exp(-2 pi^2 v_i k^2); C the product of all c_i.

The steps:

1. Once: compute eta = C P(Z = 0) / g(0) - 1. For every z, however far out, |C P(Z = z) / g(z) - 1| <= eta
   (docs/proofs/closed-form.md). The engine refuses compositions with an eta above 1e-10.
2. For each epsilon: find the first lattice point above epsilon in exact integers, sum g from there on through the
   error function, and widen the result by eta and by the rounding.

Example: for one answer of sensitivity 1, Z = X, V = v and C P(Z = z) = g(z) exactly, so eta = 0.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from tallyveil.accounting.bounds import Bounds
from tallyveil.accounting.engines.tails import Tails
from tallyveil.accounting.losses.factors import GaussianLoss, LaplaceLoss, LossFactor, lattice_of, merged
from tallyveil.accounting.losses.log_bounds import log_reflected, log_rest, log_sum
from tallyveil.accounting.losses.points import LossPoints
from tallyveil.kernels.lattice_gaussian import UNIT, coset_excess, log_excess, log_tail

LARGEST_ETA: Final = 1e-10
"""Relative distance from one Gaussian above which another engine is the better choice."""

LARGEST_SCAN: Final = 1 << 27
"""Points of the scan that finds eta, times the number of factors; this many take about a second."""

LEAST_SPREAD: Final = Fraction(1, 10**8)
"""Variance of the loss below which rounding would leave less than nine digits of delta."""

_FARTHEST: Final = 1 << 52  # whole numbers are exact floats up to here


@dataclass(frozen=True, slots=True)
class ClosedForm:
    """Composition of discrete Gaussians on a common lattice; each value costs two error functions.

    Attributes:
        points: Values that the total loss can take.
        variance: V, rounded to nearest.
        eta: Upper bound on the relative distance of the law from one Gaussian, at every point.
        log_norm: ln C.
        name: Name of the engine.
    """

    points: LossPoints
    variance: float
    eta: float
    log_norm: float
    name: str = "closed_form"

    @classmethod
    def build(cls, factors: tuple[LossFactor, ...]) -> "ClosedForm | None":
        """The engine, or None where its conditions do not hold; `why_not` says which.

        Raises:
            BudgetError: a factor is out of range.
        """
        made = _made(factors)
        return None if isinstance(made, str) else made

    @staticmethod
    def why_not(factors: tuple[LossFactor, ...]) -> str | None:
        """The condition that fails, in words, or None."""
        made = _made(factors)
        return made if isinstance(made, str) else None

    def log_tails(self, epsilon: float | Fraction) -> Tails:
        """Tails of the loss beyond epsilon, any real number."""
        first, gap = self.points.above(epsilon)
        return Tails(
            log_first=self._log_tail(first),
            log_second=self._log_tail(first + self.points.mirror),
            log_delta=self._log_delta(epsilon, first, gap),
        )

    def log_delta(self, epsilon: float | Fraction) -> Bounds:
        """ln delta at epsilon, any real number."""
        return self._log_delta(epsilon, *self.points.above(epsilon))

    def _log_tail(self, first: int) -> Bounds:
        """ln P(Z >= first); Q(Z >= z) is P(Z >= z + m)."""
        if first < 1:
            return log_rest(self._log_tail(1 - first))
        value, error = log_tail(float(min(first, _FARTHEST)), self.variance)
        known = self._scaled(value, error)
        return Bounds(-math.inf, known.upper) if first > _FARTHEST else known

    def _log_delta(self, epsilon: float | Fraction, first: int, gap: float) -> Bounds:
        if epsilon < 0:
            return log_reflected(epsilon, self._log_delta(-epsilon, *self.points.above(-epsilon)))
        if first > _FARTHEST:
            return Bounds(-math.inf, self._log_tail(first).upper)
        if first >= -math.sqrt(self.variance):
            value, error = log_excess(float(first), float(self.points.mirror), self.variance, gap)
            if error < math.inf:
                return self._scaled(value, error)
        # delta = 1 - P(L <= epsilon) - exp(epsilon) Q(L > epsilon).
        below, second = self._log_tail(1 - first), self._log_tail(first + self.points.mirror)
        return log_rest(log_sum(below, second, float(epsilon)))

    def _scaled(self, value: float, error: float) -> Bounds:
        """Bounds, under P, of a positive sum that is known under g."""
        value -= self.log_norm
        error += 1.01 * self.eta + UNIT * (4 * abs(value) + 8 * self.log_norm + 8)
        upper = min(0.0, value + error)
        return Bounds(min(value - error, upper), upper)


def _made(factors: tuple[LossFactor, ...]) -> ClosedForm | str:
    gaussians = tuple(factor for factor in merged(factors) if isinstance(factor, GaussianLoss))
    if not gaussians or any(isinstance(factor, LaplaceLoss) for factor in factors):
        return "the closed form is for discrete Gaussian noise only"
    if any(f.variance < Fraction(1, 4) or f.sensitivity >= 1 << 31 for f in gaussians):
        return "the closed form needs variances of 1/4 or more, and sensitivities below 2^31"
    lattice = lattice_of(gaussians)
    points = LossPoints.of(lattice)
    exact = points.mirror / lattice.step
    scan = 10 * math.isqrt(math.ceil(exact)) + 21  # odd, and above 9.9 standard deviations
    if scan * len(gaussians) > LARGEST_SCAN or max(lattice.weights) >= 1 << 31:
        return f"the common lattice of the losses is too fine: {scan} points to scan"
    variance = float(exact)
    if points.mirror * lattice.step < LEAST_SPREAD:
        return "the losses are so small that the closed form would lose digits"
    log_norm = sum(
        factor.multiplicity
        * math.log1p(2 * sum(math.exp(-2 * math.pi**2 * float(factor.variance) * k * k) for k in range(1, 6)))
        for factor in gaussians
    )
    weights = np.array(lattice.weights, dtype=np.int64)
    variances = np.array([float(factor.variance) for factor in gaussians])
    powers = np.array([float(factor.multiplicity) for factor in gaussians])
    order = np.argsort(-variances * powers)  # what makes most points negligible comes first
    eta = math.inf
    if log_norm < 100:
        eta = coset_excess(weights[order], variances[order], powers[order], variance, scan | 1)
    if not eta <= LARGEST_ETA:
        return f"the composed law differs from one Gaussian by up to {eta:.3g}, wanted {LARGEST_ETA:.3g}"
    return ClosedForm(points, variance, eta, log_norm)
