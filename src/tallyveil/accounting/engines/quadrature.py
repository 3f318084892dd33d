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
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

import numpy as np

from tallyveil.accounting.bounds import Bounds
from tallyveil.accounting.engines.gaussian_sums import UNIT
from tallyveil.accounting.engines.lattice_nodes import MOST_POINTS, log_theta_constant
from tallyveil.accounting.engines.quadrature_contour import (
    DELTA,
    FIRST,
    SECOND,
    LatticeContour,
    contour_at,
)
from tallyveil.accounting.engines.quadrature_nodes import (
    ContourNodes,
    LaplacePart,
    contour_nodes,
    laplace_part,
)
from tallyveil.accounting.engines.tails import NOTHING, Tails
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
from tallyveil.arrays import Floats, Integers

_POINTS_PER_DEVIATION: Final = 24  # the wrap-around stays negligible down to delta = exp(-1100)
_ASIDE: Final = 1.6  # standard deviations by which the contour passes the saddle, at least
_TILTS: Final = 2  # contours for each standard deviation of the saddle
_MOST_AT_ONCE: Final = 1 << 20  # nodes times epsilons
_CACHED: Final = 16
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
    _contours: dict[tuple[int, int], LatticeContour] = field(default_factory=dict, repr=False, compare=False)
    _means: dict[int, float] = field(default_factory=dict, repr=False, compare=False)

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

    def log_deltas(self, epsilons: Sequence[float | Fraction]) -> list[Bounds]:
        """ln delta at many epsilons at once."""
        least, places = self._least_excess, [self.points.above(epsilon) for epsilon in epsilons]
        usual = [
            i
            for i, epsilon in enumerate(epsilons)
            if epsilon >= 0 and least < places[i][0] <= _FARTHEST and places[i][0] != self.largest
        ]
        known = self._log_sums(DELTA, [places[i][0] for i in usual], [places[i][1] for i in usual])
        found = dict(zip(usual, known, strict=True))
        return [found.get(i) or self._log_delta(epsilon, *places[i]) for i, epsilon in enumerate(epsilons)]

    @property
    def _least_excess(self) -> float:
        """The z above which delta is summed itself, and not one minus it."""
        return self.mean - 1.5 * math.sqrt(self.variance + self.laplace.spread)

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
        if z > self._least_excess:
            return self._log_sum(DELTA, z, gap)
        # Nearly one: delta = 1 - P(L <= epsilon) - exp(epsilon) Q(L > epsilon).
        below = self._log_sum(SECOND, 1 - z - self.points.mirror, 0.0)
        return log_rest(log_sum(below, self._log_second(z), float(epsilon)))

    def _log_sum(self, kind: int, z: int, gap: float) -> Bounds:
        """One of the sums over Z >= z, on a contour right of the pole."""
        if z > _FARTHEST:
            return Bounds(-math.inf, self._log_sum(FIRST, _FARTHEST, 0.0).upper)
        return self._log_sums(kind, [z], [gap])[0]

    def _log_sums(self, kind: int, places: list[int], gaps: list[float]) -> list[Bounds]:
        """Sums over Z >= z for many z, each on a contour near its saddle."""
        found: list[Bounds] = [Bounds(-math.inf, 0.0)] * len(places)
        groups: dict[int, list[int]] = {}
        most = max(1, _MOST_AT_ONCE // self.nodes.places.size)
        for i, z in enumerate(places):
            if self.largest is not None and z > self.largest:
                found[i] = NOTHING
            else:
                groups.setdefault(self._tilt(kind, z), []).append(i)
        for index, members in groups.items():
            contour = self._contour(kind, index)
            for begin in range(0, len(members), most):
                chunk = members[begin : begin + most]
                firsts = np.array([places[i] for i in chunk], dtype=np.int64)
                bounds = self._on_contour(kind, contour, firsts, np.array([gaps[i] for i in chunk]))
                for i, one in zip(chunk, bounds, strict=True):
                    found[i] = one
        return found

    def _on_contour(self, kind: int, contour: LatticeContour, z: Integers, gaps: Floats) -> list[Bounds]:
        """The same on one contour."""
        coefficients = np.ones((1, z.size))
        if kind == DELTA:
            rest = -np.exp(-gaps) * np.expm1(np.minimum(gaps - self.step, 0.0))
            coefficients = np.array([-np.expm1(-gaps), rest])
        values, errors = contour.sums_at(z % contour.n_points, coefficients, self.nodes.left_out)
        log_scales, roundings = self._log_scales(kind, contour, z)
        # The wrap-around only adds: it widens the lower side alone.
        less = errors + self._wrap_around(kind, contour, z, log_scales, roundings)
        with np.errstate(divide="ignore"):
            uppers = np.log(np.maximum(values + errors, 0.0)) + log_scales + roundings
            lowers = np.log(np.maximum(values - less, 0.0)) + log_scales - roundings
        uppers = np.minimum(uppers, 0.0)
        return [
            Bounds(lower, upper)
            for lower, upper in zip(np.minimum(lowers, uppers).tolist(), uppers.tolist(), strict=True)
        ]

    @property
    def _spacing(self) -> float:
        """Distance of the tilts of neighbouring contours."""
        return _POINTS_PER_DEVIATION / (_TILTS * self.nodes.n_points)

    def _contour(self, kind: int, index: int) -> LatticeContour:
        """The contour of a tilt; kept for the next epsilon."""
        found = self._contours.get((kind, index))
        if found is None:
            while len(self._contours) >= _CACHED:
                self._contours.pop(next(iter(self._contours)))
            # Far enough from the pole for the wrap-around, and no further: where the law has several scales,
            # more than a whole deviation of the widest could lead to another part of it.
            tau = index * self._spacing + _ASIDE * _POINTS_PER_DEVIATION / self.nodes.n_points
            found = contour_at(kind, tau, self.step, self.nodes, self.laplace)
            self._contours[kind, index] = found
        return found

    def _tilt(self, kind: int, z: int) -> int:
        """The first place on the grid of tilts that is right of the saddle and of the pole."""
        target = float(z) if self.largest is None else min(float(z), self.largest - 0.5)
        least = math.ceil((-self.step if kind == SECOND else 0.0) / self._spacing)
        if not self.laplace.powers.size:
            return max(math.ceil(target / self.variance / self._spacing), least)
        return max(self._saddle(target), least)

    def _saddle(self, target: float) -> int:
        """The first place on the grid of tilts at which the tilted Z has a mean of at least the target."""
        low, high = -1, 1
        while self._mean_at(high) < target:
            low, high = high, 2 * high
        while self._mean_at(low) >= target:
            low, high = 2 * low, low
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._mean_at(middle) >= target else (middle, high)
        return high

    def _mean_at(self, index: int) -> float:
        if index not in self._means:
            tau = index * self._spacing
            self._means[index] = self.variance * tau + self.laplace.tilted(tau)[2]
        return self._means[index]

    def _log_scales(self, kind: int, contour: LatticeContour, z: Integers) -> tuple[Floats, Floats]:
        """Logarithms of the factors that the sums are to be multiplied by, and their rounding errors."""
        tau, moments = contour.tau, contour.log_moments
        fixed = self.variance * tau * tau / 2 - self.log_norm + moments
        scales = fixed - tau * z.astype(np.float64)
        roundings: Floats = 16 + 8 * (
            self.variance * tau * tau / 2 + self.log_norm + abs(moments) + np.abs(tau * z) + np.abs(scales)
        )
        if self.laplace.powers.size:
            # The logarithm of each transform is at most the largest mass's and |tau| a k.
            roundings += 16 * (self.laplace.largest_log + abs(tau) * self.laplace.reach)
        if kind == SECOND:
            losses = np.array(
                [(self.points.offset + self.points.step * one) / self.points.unit for one in z.tolist()]
            )
            scales = scales - losses
            roundings += 8 * np.abs(losses) + 8 * np.abs(scales)
        return scales, UNIT * roundings

    def _wrap_around(
        self, kind: int, contour: LatticeContour, z: Integers, log_scales: Floats, roundings: Floats
    ) -> Floats:
        """Bounds on the mass at whole periods from the tail, which the rule counts too, in units of the scale."""
        tau, period = contour.tau, self.nodes.n_points
        decay = (tau + self.step if kind == SECOND else tau) * period
        below = np.exp(np.minimum(700.0, roundings - decay - log_scales)) / -math.expm1(-decay)
        # Chernoff's bound half a period further out.
        further = tau + _POINTS_PER_DEVIATION**2 / (2.0 * period)
        exponents = 2 * roundings + self.log_norm + self.variance * (further**2 - tau**2) / 2
        if self.laplace.powers.size:
            there = float(self.laplace.powers @ self.laplace.tilted(further)[1])
            exponents += there - contour.log_moments
        exponents = exponents - (further - tau) * (z + float(period))
        above = np.exp(np.minimum(700.0, exponents)) / -math.expm1(-(further - tau) * period)
        if self.largest is not None:
            above = np.where(z + period > self.largest, 0.0, above)
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
    if n_points >= MOST_POINTS:
        return f"the common lattice of the losses is too fine: {n_points} points"
    log_norm = sum(f.multiplicity * log_theta_constant(float(f.variance)) for f, _ in gaussians)
    if log_norm > _LARGEST_LOG_NORM:
        return "the variances are too small for so many answers"
    nodes = contour_nodes(gaussians, laplaces, lattice.step, n_points)
    if isinstance(nodes, str):
        return nodes
    laplace = laplace_part(laplaces, nodes.places, n_points)
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
