"""Tails of a loss on a lattice by the trapezoid rule on a shifted contour.

The problem: for L = W + h Z with Z on the integers, compute P(Z >= z), Q(Z >= z) and delta. The transform
M(s) = E exp(s Z) is known in closed form, the law of Z is not.

The variables: s = tau + i theta, where tau > 0 is the shift of the contour and theta the angle; V the variance of the
Gaussian part of Z; M_L the transform of the Laplace part; C the product of the theta constants; N the odd number of
points of the rule.

The steps:

1. Once (`quadrature_nodes`): find the nodes theta = 2 pi k / N at which |M| is not negligible, side peaks included, and
   compute there everything that does not depend on epsilon. Bound the sum over the other nodes.
2. For each epsilon: find tau near the saddle of M(s) exp(-s z), where the terms cancel least.
3. Sum over the nodes M(s) exp(-s z) / (1 - exp(-s)), which is the transform of a tail; for Q and delta the last factor
   is another one.
4. Widen the result by the nodes left out, by the wrap-around of the rule and by the rounding
   (docs/proofs/quadrature.md).

There is no iteration to stop: N follows from V, and the bounds hold for any tau.

Example: with one Laplace answer of sensitivity 1, Z is 0 or 1 and M(s) = (a + exp(s)) / (1 + a), a = exp(-1 / t). The
rule then gives P(Z >= 1) = 1 / (1 + a), up to the wrap-around, which is of order exp(-tau N).
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

import numpy as np

from tallyveil.accounting.bounds import Bounds
from tallyveil.accounting.engines.quadrature_nodes import (
    ContourNodes,
    LaplacePart,
    contour_nodes,
    laplace_part,
)
from tallyveil.accounting.engines.tails import Tails
from tallyveil.accounting.losses.factors import (
    GaussianLoss,
    LaplaceLoss,
    Lattice,
    LossFactor,
    lattice_of,
    merged,
)
from tallyveil.accounting.losses.log_bounds import log_reflected, log_rest, log_sum
from tallyveil.accounting.losses.points import LossPoints
from tallyveil.arrays import Floats
from tallyveil.kernels.contour import (
    DELTA,
    FIRST,
    SECOND,
    UNIT,
    FirstLoss,
    LaplaceFactors,
    contour_sum,
    saddle,
    tilted_laplace,
)

MAX_SCAN: Final = 1 << 27
"""Points of the rule times the number of factors; to look at this many once takes about two seconds."""

_POINTS_PER_DEVIATION: Final = 24  # the wrap-around stays negligible down to delta = exp(-1100)
_ASIDE: Final = 1.6  # standard deviations by which the contour passes the saddle
_LARGEST_LOG_NORM: Final = 5.0
_LEAST: Final = Fraction(1, 10**6)
_MOST: Final = Fraction(10**15)
_FARTHEST: Final = 1 << 52  # whole numbers are exact floats up to here


@dataclass(frozen=True, slots=True)
class Quadrature:
    """Composition of discrete Gaussian (variance at least 1/4) and Laplace losses on a common lattice.

    Attributes:
        points: Values that the total loss can take.
        step: h, rounded to nearest.
        variance: V, rounded to nearest; 0 without Gaussian noise.
        log_norm: ln C.
        mean: Mean under P of the Laplace part of Z; the mean of the Gaussian part is 0.
        largest: Largest value of Z, or None where Gaussian noise leaves Z unbounded.
        nodes: Where the transform is evaluated.
        laplace: The Laplace factors.
        name: Name of the engine.
    """

    points: LossPoints
    step: float
    variance: float
    log_norm: float
    mean: float
    largest: int | None
    nodes: ContourNodes = field(repr=False)
    laplace: LaplacePart = field(repr=False)
    name: str = "quadrature"

    @classmethod
    def build(cls, factors: tuple[LossFactor, ...]) -> "Quadrature | None":
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
        z, gap = self.points.above(epsilon)
        return Tails(
            log_first=self._log_first(z),
            log_second=self._log_second(z),
            log_delta=self._log_delta(epsilon, z, gap),
        )

    def log_delta(self, epsilon: float | Fraction) -> Bounds:
        """ln delta at epsilon, any real number."""
        return self._log_delta(epsilon, *self.points.above(epsilon))

    def _log_first(self, z: int) -> Bounds:
        """ln P(Z >= z)."""
        if z > self.mean:
            return self._log_sum(FIRST, z, 0.0)
        return log_rest(self._log_sum(SECOND, 1 - z - self.points.mirror, 0.0))

    def _log_second(self, z: int) -> Bounds:
        """ln Q(Z >= z); under Q, Z has the law of -m - Z under P."""
        if z > -self.points.mirror - self.mean:
            return self._log_sum(SECOND, z, 0.0)
        return log_rest(self._log_sum(FIRST, 1 - z - self.points.mirror, 0.0))

    def _log_delta(self, epsilon: float | Fraction, z: int, gap: float) -> Bounds:
        if epsilon < 0:
            return log_reflected(epsilon, self._log_delta(-epsilon, *self.points.above(-epsilon)))
        if z == self.largest:
            # One loss is left; its part 1 - exp(-gap) may be far below the rounding of any sum.
            first, part = self._log_sum(FIRST, z, 0.0), math.log(-math.expm1(-gap))
            slack = UNIT * (40 + 4 * abs(part))
            upper = first.upper + part + slack
            return Bounds(min(first.lower + part - slack, upper), min(0.0, upper))
        if z > self.mean - 1.5 * math.sqrt(self.variance + self.laplace.spread):
            return self._log_sum(DELTA, z, gap)
        # Nearly one: delta = 1 - P(L <= epsilon) - exp(epsilon) Q(L > epsilon).
        below = self._log_sum(SECOND, 1 - z - self.points.mirror, 0.0)
        return log_rest(log_sum(below, self._log_second(z), float(epsilon)))

    def _log_sum(self, kind: int, z: int, gap: float) -> Bounds:
        """One of the sums over Z >= z, on a contour right of the pole."""
        if self.largest is not None and z > self.largest:
            return Bounds(-math.inf, -math.inf)
        if z > _FARTHEST:
            return Bounds(-math.inf, self._log_sum(FIRST, _FARTHEST, 0.0).upper)
        weights, masses = self.laplace.weights.copy(), np.empty_like(self.laplace.log_masses)
        tau = self._tilt(kind, z, weights, masses)
        log_scale, roundings = self._log_scale(kind, tau, z, weights)
        rule, images = self.nodes.rule, self.nodes.images
        laplace = LaplaceFactors(self.laplace.angles, self.laplace.powers, masses)
        first = FirstLoss(z % rule.n_points, gap)
        value, error, largest = contour_sum(kind, tau, first, self.step, rule, images, laplace)
        error += largest * self.nodes.left_out
        upper = min(0.0, math.log(value + error) + log_scale + roundings) if value + error > 0 else -math.inf
        # The wrap-around only adds: it widens the lower side alone.
        value -= error + self._wrap_around(kind, tau, z, log_scale, roundings, weights)
        lower = math.log(value) + log_scale - roundings if value > 0 else -math.inf
        return Bounds(min(lower, upper), upper)

    def _tilt(self, kind: int, z: int, weights: Floats, masses: Floats) -> float:
        """A contour just right of the saddle. `weights` and `masses` are left tilted by it."""
        target = float(z) if self.largest is None else min(float(z), self.largest - 0.5)
        tau = saddle(target, self.variance, weights, self.laplace.log_masses, masses)
        tau = max(tau, -self.step if kind == SECOND else 0.0)
        # Far enough from the pole for the wrap-around, and no further: where the law has several scales,
        # more than a whole deviation of the widest could lead to another part of it.
        tau += _ASIDE * _POINTS_PER_DEVIATION / self.nodes.n_points
        if weights.size:
            tilted_laplace(tau, weights, self.laplace.log_masses, masses)
        return tau

    def _log_scale(self, kind: int, tau: float, z: int, weights: Floats) -> tuple[float, float]:
        """Logarithm of the factor that the kernel's sums are to be multiplied by, and its rounding error."""
        parts = [self.variance * tau * tau / 2, -tau * z, -self.log_norm]
        parts.extend((weights[:, 1] * weights[:, 2]).tolist())
        roundings = 8 * sum(abs(part) for part in parts) + 16
        if weights.size:
            roundings += 8 * self.laplace.largest_log + 8 * abs(tau) * self.laplace.reach
        if kind == SECOND:
            parts.append(-(self.points.offset + self.points.step * z) / self.points.unit)
            roundings += 8 * abs(parts[-1])
        return math.fsum(parts), UNIT * roundings

    def _wrap_around(
        self, kind: int, tau: float, z: int, log_scale: float, roundings: float, weights: Floats
    ) -> float:
        """Bound on the mass at whole periods from the tail, which the rule counts too, in units of the scale."""
        period = self.nodes.n_points
        decay = (tau + self.step if kind == SECOND else tau) * period
        below = math.exp(min(700.0, roundings - decay - log_scale)) / -math.expm1(-decay)
        if self.largest is not None and z + period > self.largest:
            return below * 1.001
        # Chernoff's bound half a period further out.
        further = tau + _POINTS_PER_DEVIATION**2 / (2.0 * period)
        exponent = 2 * roundings + self.log_norm + self.variance * (further**2 - tau**2) / 2
        if weights.size:
            there = weights.copy()
            tilted_laplace(further, there, self.laplace.log_masses, np.empty_like(self.laplace.log_masses))
            exponent += float((there[:, 1] * (there[:, 2] - weights[:, 2])).sum())
        exponent -= (further - tau) * (z + period)
        above = math.exp(min(700.0, exponent)) / -math.expm1(-(further - tau) * period)
        return (below + above) * 1.001


def _made(factors: tuple[LossFactor, ...]) -> Quadrature | str:
    factors = merged(factors)
    if not factors:
        return "there is no loss"
    lattice = lattice_of(factors)
    pairs = tuple(zip(factors, lattice.weights, strict=True))
    gaussians = [(factor, weight) for factor, weight in pairs if isinstance(factor, GaussianLoss)]
    laplaces = [(factor, weight) for factor, weight in pairs if isinstance(factor, LaplaceLoss)]
    refused = _out_of_range(factors, lattice)
    if refused is not None:
        return refused
    exact = sum((f.multiplicity * a**2 * f.variance for f, a in gaussians), Fraction(0))
    widest = sum(f.multiplicity * (a * f.sensitivity) ** 2 for f, a in laplaces)
    n_points = _POINTS_PER_DEVIATION * (math.isqrt(math.ceil(exact + Fraction(widest, 4))) + 1) | 1
    if n_points * len(factors) > MAX_SCAN:
        return f"the common lattice of the losses is too fine: {n_points} points"
    log_norm = sum(f.multiplicity * _log_theta_constant(float(f.variance)) for f, _ in gaussians)
    nodes = contour_nodes(gaussians, laplaces, n_points)
    if isinstance(nodes, str) or log_norm > _LARGEST_LOG_NORM:
        return nodes if isinstance(nodes, str) else "the variances are too small for so many answers"
    laplace = laplace_part(laplaces, nodes.rule.nodes, n_points)
    return Quadrature(
        LossPoints.of(lattice),
        float(lattice.step),
        float(exact),
        log_norm,
        laplace.mean,
        None if gaussians else sum(f.multiplicity * a * f.sensitivity for f, a in laplaces),
        nodes,
        laplace,
    )


def _out_of_range(factors: tuple[LossFactor, ...], lattice: Lattice) -> str | None:
    for factor in factors:
        if isinstance(factor, GaussianLoss) and not Fraction(1, 4) <= factor.variance <= _MOST:
            return f"the quadrature needs variances from 1/4 to {_MOST}"
        if isinstance(factor, LaplaceLoss) and not (
            _LEAST <= factor.scale <= _MOST and factor.sensitivity <= 64
        ):
            return (
                f"the quadrature needs Laplace scales from {_LEAST} to {_MOST}, sensitivities of at most 64"
            )
    if max(*lattice.weights, *(max(f.multiplicity, f.sensitivity) for f in factors)) >= 1 << 31:
        return "the common lattice of the losses is too fine, or an answer is repeated too often"
    return None


def _log_theta_constant(variance: float) -> float:
    return math.log1p(2 * sum(math.exp(-2 * math.pi**2 * variance * k * k) for k in range(1, 6)))
