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
from tallyveil.accounting.engines.quadrature_contour import DELTA, FIRST, SECOND, LatticeContour, contour_at
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
    LossFactor,
    LossLattice,
    lattice_of,
    merged,
)
from tallyveil.accounting.losses.log_bounds import log_rest, log_sum
from tallyveil.accounting.losses.points import FARTHEST, LARGEST_MIRROR, EpsilonPlaces, LossPoints
from tallyveil.accounting.many_bounds import ManyBounds
from tallyveil.arrays import Floats, Integers

_POINTS_PER_DEVIATION: Final = 24  # the wrap-around stays negligible down to delta = exp(-1100)
_ASIDE: Final = 1.6  # standard deviations by which the contour passes the saddle, at least
_TILTS: Final = 2  # contours for each standard deviation of the saddle
_MOST_AT_ONCE: Final = 1 << 20  # nodes times epsilons
# Contours kept at least, even where a contour has many nodes.
_CACHED: Final = 16
# Contours kept at most, where each has few nodes.
_MOST_CACHED: Final = 128
# ln C from which a composition is refused: C multiplies the bounds on the nodes left out.
_LARGEST_LOG_NORM: Final = 5.0
# Least scale of Laplace noise that is taken; another engine takes what is outside of this and of `_MOST`.
_LEAST: Final = Fraction(1, 10**6)
# Largest scale and variance that are taken.
_MOST: Final = Fraction(10**15)


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
        engine = _made(factors)
        return None if isinstance(engine, str) else engine

    @staticmethod
    def why_not(factors: tuple[LossFactor, ...]) -> str | None:
        """The condition that fails, in words, or None."""
        engine = _made(factors)
        return engine if isinstance(engine, str) else None

    def log_tails(self, epsilon: float | Fraction) -> Tails:
        """Tails of the loss beyond epsilon, any real number."""
        z, _ = self.points.above(epsilon)
        return Tails(
            log_first=self._log_first(z),
            log_second=self._log_second(z),
            log_delta=self.log_deltas([epsilon])[0],
        )

    def log_deltas(self, epsilons: Sequence[float | Fraction]) -> ManyBounds:
        """ln delta at many epsilons at once."""
        places = self.points.places(epsilons)
        z = places.firsts
        # Left of this delta is nearly 1, and only its distance from 1 is a sum that keeps its digits.
        nearly_one = z <= self.mean - 1.5 * math.sqrt(self.variance + self.laplace.spread)
        last = np.zeros_like(nearly_one) if self.largest is None else z == self.largest
        usual = ~(nearly_one | last)
        if usual.all():
            return places.with_signs(self._log_excess(places))
        lower, upper = np.full(z.size, -np.inf), np.zeros(z.size)
        cases = (usual, self._log_excess), (nearly_one & ~last, self._from_tails), (last, self._of_last)
        for chosen, by in cases:
            if chosen.any():
                logs = by(places.at(chosen))
                lower[chosen], upper[chosen] = logs.lower, logs.upper
        return places.with_signs(ManyBounds(lower, upper))

    def _log_excess(self, places: EpsilonPlaces) -> ManyBounds:
        """ln delta(|epsilon|) as one sum of positive terms."""
        return self._log_sums(DELTA, places.firsts, (places.gaps, places.slips))

    def _from_tails(self, places: EpsilonPlaces) -> ManyBounds:
        """The same where it is nearly 1, as 1 - P(L <= epsilon) - exp(epsilon) Q(L > epsilon)."""
        below = self._log_sums(SECOND, 1 - places.firsts - self.points.mirror)
        second = self._log_sums(
            SECOND, places.firsts
        )  # right of the mean under Q, as |epsilon| is not negative
        return log_rest(log_sum(below, second, places.sizes))

    def _of_last(self, places: EpsilonPlaces) -> ManyBounds:
        """The same where one loss is left: its part 1 - exp(-gap) may be far below the rounding of any sum."""
        first, parts = self._log_sums(FIRST, places.firsts), np.log(-np.expm1(-places.gaps))
        slack = UNIT * (40 + 4 * np.abs(parts)) - 1.01 * np.log1p(-places.slips / places.gaps)
        uppers = np.minimum(first.upper + parts + slack, 0.0)
        return ManyBounds(np.minimum(first.lower + parts - slack, uppers), uppers)

    def _log_first(self, z: int) -> Bounds:
        """ln P(Z >= z)."""
        if z > self.mean:
            return self._log_sum(FIRST, z)
        return log_rest(self._log_sum(SECOND, 1 - z - self.points.mirror))

    def _log_second(self, z: int) -> Bounds:
        """ln Q(Z >= z); under Q, Z has the law of -m - Z under P."""
        if z > -self.points.mirror - self.mean:
            return self._log_sum(SECOND, z)
        return log_rest(self._log_sum(FIRST, 1 - z - self.points.mirror))

    def _log_sum(self, kind: int, z: int) -> Bounds:
        return self._log_sums(kind, np.array([min(z, FARTHEST + 1)]))[0]

    def _log_sums(self, kind: int, first: Integers, gaps: tuple[Floats, Floats] | None = None) -> ManyBounds:
        """Logarithms of sums over Z >= z for many z, each on a contour right of the pole and near its saddle.

        Args:
            kind: FIRST, SECOND or DELTA.
            first: z.
            gaps: For DELTA, by how much the loss at z exceeds epsilon, and bounds on the errors of this.
        """
        # Where a point is further out, the sum is smaller than from there, or there is nothing to add up.
        z = np.minimum(first, FARTHEST if self.largest is None else min(self.largest, FARTHEST))
        sums, errors, contours = self._on_contours(kind, z)
        if gaps is None:
            values, off = sums[0], errors[0]
        else:
            gap, slip = gaps
            parts = np.array([-np.expm1(-gap), -np.exp(-gap) * np.expm1(np.minimum(gap - self.step, 0.0))])
            values, off = (parts * sums).sum(axis=0), (parts * errors).sum(axis=0)
            off += 1.01 * slip * (np.abs(sums[0] - sums[1]) + errors[0] + errors[1])
        log_scales, roundings = self._log_scales(kind, contours, z)
        # The wrap-around only adds: it widens the lower side alone.
        less = off + self._wrap_around(kind, contours, z, log_scales, roundings)
        with np.errstate(divide="ignore"):
            uppers = np.log(np.maximum(values + off, 0.0)) + log_scales + roundings
            lowers = np.log(np.maximum(values - less, 0.0)) + log_scales - roundings
        if self.largest is not None:
            uppers = np.where(first > self.largest, -np.inf, uppers)
        uppers = np.minimum(uppers, 0.0)
        return ManyBounds(np.minimum(np.where(first > FARTHEST, -np.inf, lowers), uppers), uppers)

    def _on_contours(self, kind: int, z: Integers) -> tuple[Floats, Floats, "LatticeContour | _Used"]:
        """The sums for many z and bounds on their errors, both [sums, z], and the contour of each."""
        if z.size == 1:
            at_tilt = self._contour(kind, self._tilt(kind, int(z[0])))
            return at_tilt.sums_at(z % self.nodes.n_points), at_tilt.errors[:, None], at_tilt
        # In order, so that neighbouring points share a contour.
        places, back = np.unique(z, return_inverse=True)
        begin, used, counts, sums = 0, [], [], []
        # So many points at once that nodes times points is a matrix of bounded size.
        most = max(1, _MOST_AT_ONCE // self.nodes.places.size)
        while begin < places.size:
            index = self._tilt(kind, int(places[begin]))
            end = int(np.searchsorted(places, self._reach(index), side="right"))
            end = min(max(end, begin + 1), begin + most)
            used.append(self._contour(kind, index))
            counts.append(end - begin)
            sums.append(used[-1].sums_at(places[begin:end] % self.nodes.n_points))
            begin = end
        contour_of = np.repeat(np.arange(len(used)), counts)[back]
        errors = np.array([contour.errors for contour in used])[contour_of].T
        taus, moments, further = np.array(
            [[at_tilt.tau, at_tilt.log_moment, at_tilt.log_further] for at_tilt in used]
        )[contour_of].T
        return np.concatenate(sums, axis=1)[:, back], errors, _Used(taus, moments, further)

    @property
    def _spacing(self) -> float:
        """Distance of the tilts of neighbouring contours."""
        return _POINTS_PER_DEVIATION / (_TILTS * self.nodes.n_points)

    def _contour(self, kind: int, index: int) -> LatticeContour:
        """The contour of a tilt; kept for the next epsilon."""
        contour = self._contours.get((kind, index))
        if contour is None:
            while len(self._contours) >= max(
                _CACHED, min(_MOST_CACHED, _MOST_AT_ONCE // self.nodes.places.size)
            ):
                self._contours.pop(next(iter(self._contours)))
            # Far enough from the pole for the wrap-around, and no further: where the law has several scales,
            # more than a whole deviation of the widest could lead to another part of it.
            tau = index * self._spacing + _ASIDE * _POINTS_PER_DEVIATION / self.nodes.n_points
            further = float(tau + self._beyond)
            contour = contour_at(kind, (tau, further), self.step, self.nodes, self.laplace)
            self._contours[kind, index] = contour
        return contour

    @property
    def _beyond(self) -> float:
        """By how much Chernoff's bound is taken further out: half a period's worth of standard deviations."""
        return _POINTS_PER_DEVIATION**2 / (2.0 * self.nodes.n_points)

    def _tilt(self, kind: int, z: int) -> int:
        """The first place on the grid of tilts that is right of the saddle and of the pole."""
        # At the largest value itself the saddle is at infinity, so half a point before it is taken.
        target = float(z) if self.largest is None else min(float(z), self.largest - 0.5)
        # The pole of the last factor is at 0, and at -h for the tail under Q: the contour passes right of it.
        least = math.ceil((-self.step if kind == SECOND else 0.0) / self._spacing)
        if not self.laplace.powers.size:
            return max(math.ceil(target / self.variance / self._spacing), least)
        return max(self._saddle(target), least)

    def _reach(self, index: int) -> float:
        """The last z that has its saddle left of a place on the grid of tilts, about."""
        reach = self._mean_at(index)
        return math.inf if self.largest is not None and reach >= self.largest - 0.5 else reach

    def _saddle(self, target: float) -> int:
        """The first place on the grid of tilts at which the tilted Z has a mean of at least the target."""
        # The mean rises with the tilt, so doubling and halving find the place.
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

    def _log_scales(
        self, kind: int, contours: "LatticeContour | _Used", z: Integers
    ) -> tuple[Floats, Floats]:
        """Logarithms of the factors that the sums are to be multiplied by, and their rounding errors."""
        tau, moments = contours.tau, contours.log_moment
        gaussian, moved = self.variance * tau * tau / 2, tau * z.astype(np.float64)
        # Kept as a logarithm: the factor itself may be far below the smallest float.
        scales = gaussian - self.log_norm + moments - moved
        sizes = gaussian + self.log_norm + np.abs(moments) + np.abs(moved) + np.abs(scales)
        roundings = 16 + 8 * sizes
        if self.laplace.powers.size:
            # The logarithm of each transform is at most the largest mass's and |tau| a k.
            roundings += 16 * (self.laplace.largest_log + np.abs(tau) * self.laplace.reach)
        if kind == SECOND:
            losses = np.array(
                [(self.points.offset + self.points.step * index) / self.points.unit for index in z.tolist()]
            )
            scales = scales - losses
            roundings += 8 * np.abs(losses) + 8 * np.abs(scales)
        return scales, UNIT * roundings

    def _wrap_around(
        self,
        kind: int,
        contours: "LatticeContour | _Used",
        z: Integers,
        log_scales: Floats,
        roundings: Floats,
    ) -> Floats:
        """Bounds on the mass at whole periods from the tail, which the rule counts too, in units of the scale."""
        tau, period, beyond = contours.tau, float(self.nodes.n_points), self._beyond
        # Far from the pole one period weighs next to nothing; the cap of exp leaves no lower end anyway.
        decay = (tau + self.step if kind == SECOND else tau) * period
        below = np.exp(np.minimum(700.0, roundings - decay - log_scales)) / -np.expm1(-decay)
        # Chernoff's bound half a period further out.
        exponents = 2 * roundings + self.log_norm + self.variance * beyond * (2 * tau + beyond) / 2
        exponents += contours.log_further - contours.log_moment - beyond * (z + period)
        above = np.exp(np.minimum(700.0, exponents)) / -math.expm1(-beyond * period)
        if self.largest is not None:
            above = np.where(z + self.nodes.n_points > self.largest, 0.0, above)
        return (below + above) * 1.001


@dataclass(frozen=True, slots=True)
class _Used:
    """What is known of the contour that each of many sums is taken on, [sums].

    Attributes:
        tau: Shift of the contour.
        log_moment: Logarithm of the transform of the Laplace part at tau.
        log_further: The same further out.
    """

    tau: Floats
    log_moment: Floats
    log_further: Floats


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
    points = LossPoints.of(lattice)
    exact = sum((f.multiplicity * a**2 * f.variance for f, a in gaussians), Fraction(0))
    widest = sum(f.multiplicity * (a * f.sensitivity) ** 2 for f, a in laplaces)
    # Odd, so that all nodes but 0 come in conjugate pairs and none lies at pi.
    # A Laplace answer counts with k^2 / 4, the largest variance that a tilt can give it.
    n_points = _POINTS_PER_DEVIATION * (math.isqrt(math.ceil(exact + Fraction(widest, 4))) + 1) | 1
    if n_points >= MOST_POINTS or points.mirror >= LARGEST_MIRROR:
        return f"the common lattice of the losses is too fine: more than {MOST_POINTS} points"
    log_norm = sum(f.multiplicity * log_theta_constant(float(f.variance)) for f, _ in gaussians)
    # ln C is about 2 exp(-2 pi^2 v) an answer: at variance 1/4 some 350 answers reach the limit.
    if log_norm > _LARGEST_LOG_NORM:
        return "the variances are too small for so many answers"
    nodes = contour_nodes(gaussians, laplaces, lattice.step, n_points)
    if isinstance(nodes, str):
        return nodes
    laplace = laplace_part(laplaces, nodes.places, n_points)
    return Quadrature(
        points,
        float(lattice.step),
        float(exact),
        log_norm,
        laplace.mean,
        None if gaussians else sum(f.multiplicity * a * f.sensitivity for f, a in laplaces),
        nodes,
        laplace,
    )


def _out_of_range(factors: tuple[LossFactor, ...], lattice: LossLattice) -> str | None:
    for factor in factors:
        # Below 1/4 the bounds on images widen (docs/proofs/quadrature.md, conditions).
        if isinstance(factor, GaussianLoss) and not Fraction(1, 4) <= factor.variance <= _MOST:
            return f"the quadrature needs variances from 1/4 to {_MOST}"
        if isinstance(factor, LaplaceLoss) and not (
            _LEAST <= factor.scale <= _MOST and factor.sensitivity <= 64
        ):
            return (
                f"the quadrature needs Laplace scales from {_LEAST} to {_MOST}, sensitivities of at most 64"
            )
    # Products of two such numbers fit into 64 bits, in which angles are reduced exactly.
    if max(*lattice.weights, *(max(f.multiplicity, f.sensitivity) for f in factors)) >= 1 << 31:
        return "the common lattice of the losses is too fine, or an answer is repeated too often"
    return None
