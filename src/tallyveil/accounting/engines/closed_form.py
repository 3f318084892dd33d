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
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from tallyveil.accounting.engines.lattice_points import (
    FARTHEST,
    LARGEST_MIRROR,
    MOST_POINTS,
    UNIT,
    EpsilonPlaces,
    LatticeFactors,
    LossPoints,
    find_places,
    log_excess,
    log_tail,
    log_theta_constant,
)
from tallyveil.accounting.engines.tails import ManyBounds, Tails, log_rest, log_sum
from tallyveil.accounting.losses import GaussianLoss, LaplaceLoss, LossFactor, LossLattice, lattice_of, merged
from tallyveil.accounting.numbers import Bounds
from tallyveil.arrays import Floats, Integers

LARGEST_ETA: Final = 1e-10
"""Relative distance from one Gaussian above which another engine is the better choice."""

LEAST_SPREAD: Final = Fraction(1, 10**8)
"""Variance of the loss below which rounding would leave less than nine digits of delta."""

# ln C from which eta is not computed: what the scan leaves out, exp(ln C - 60), is above the largest eta from ln C = 38
# on. So half or twice refuses the same; the limit keeps exp from overflowing.
_LARGEST_LOG_NORM: Final = 100.0
# Half would still leave 1e-13, far below the largest eta; twice only adds nodes.
_NEGLIGIBLE: Final = (
    60.0  # minus the logarithm of what all points outside the scan's windows add to eta, about
)


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
        engine = _made(factors)
        return None if isinstance(engine, str) else engine

    @staticmethod
    def why_not(factors: tuple[LossFactor, ...]) -> str | None:
        """The condition that fails, in words, or None."""
        engine = _made(factors)
        return engine if isinstance(engine, str) else None

    def log_tails(self, epsilon: float | Fraction) -> Tails:
        """Tails of the loss beyond epsilon, any real number."""
        first, _ = self.points.above(epsilon)
        return Tails(
            log_first=self._log_tail(first),
            log_second=self._log_tail(first + self.points.mirror),
            log_delta=self.log_deltas([epsilon])[0],
        )

    def log_deltas(self, epsilons: Sequence[float | Fraction]) -> ManyBounds:
        """ln delta at many epsilons at once."""
        places = self.points.places(epsilons)
        # Left of -sqrt(V) the two tails nearly cancel, so delta is computed from 1 - delta there instead.
        usual = (places.firsts >= -math.sqrt(self.variance)) & (places.firsts <= FARTHEST)
        if usual.all():
            return places.with_signs(self._log_excess(places))
        deltas = self._from_tails(places)
        if usual.any():
            lower, upper = deltas.lower.copy(), deltas.upper.copy()
            summed = self._log_excess(places.at(usual))
            lower[usual], upper[usual] = summed.lower, summed.upper
            deltas = ManyBounds(lower, upper)
        return places.with_signs(deltas)

    def _log_excess(self, places: EpsilonPlaces) -> ManyBounds:
        """ln delta(|epsilon|) as one sum of positive terms, where the first point is at least -sqrt(V)."""
        firsts, mirror = places.firsts.astype(np.float64), float(self.points.mirror)
        sums = self._scaled(*log_excess(firsts, mirror, self.variance, places.gaps, places.slips))
        # Infinite errors mark places where rounding hides the difference of two tails.
        known = np.isfinite(sums.lower)
        return sums if known.all() else sums.where(known, self._from_tails(places))

    def _from_tails(self, places: EpsilonPlaces) -> ManyBounds:
        """The same from delta = 1 - P(L <= epsilon) - exp(epsilon) Q(L > epsilon), or only a bound far out."""
        far = places.firsts > FARTHEST
        below, second = (
            self._log_tails(1 - places.firsts),
            self._log_tails(places.firsts + self.points.mirror),
        )
        # delta = 1 - P(L <= epsilon) - exp(epsilon) Q(L > epsilon): accurate where delta is near 1.
        near = log_rest(log_sum(below, second, np.minimum(places.sizes, 1e300)))
        if not far.any():
            return near
        first = self._log_tails(places.firsts)
        return ManyBounds(np.full(far.size, -np.inf), first.upper).where(far, near)

    def _log_tail(self, first: int) -> Bounds:
        """ln P(Z >= first); Q(Z >= z) is P(Z >= z + m)."""
        # FARTHEST caps the place; beyond it the bounds below are only from above.
        return self._log_tails(np.array([max(min(first, FARTHEST + 1), -FARTHEST)]))[0]

    def _log_tails(self, firsts: Integers) -> ManyBounds:
        """ln P(Z >= first) for many first points."""
        # Mirror image: P(Z >= z) is 1 - P(Z >= 1 - z), and only one of the two is small.
        left = firsts < 1
        there = np.where(left, 1 - firsts, firsts)
        known = self._scaled(*log_tail(np.minimum(there, FARTHEST).astype(np.float64), self.variance))
        known = ManyBounds(np.where(there > FARTHEST, -np.inf, known.lower), known.upper)
        return log_rest(known).where(left, known) if left.any() else known

    def _scaled(self, values: Floats, errors: Floats) -> ManyBounds:
        """Bounds, under P, of positive sums that are known under g; -inf and 0 where an error is infinite."""
        values = values - self.log_norm
        # 1.01 covers the second order of ln(1 + eta). eta bounds the whole law, so one number widens every place.
        errors = errors + (1.01 * self.eta + UNIT * (4 * np.abs(values) + 8 * self.log_norm + 8))
        uppers = np.minimum(values + errors, 0.0)
        return ManyBounds(np.minimum(values - errors, uppers), uppers)


def _made(factors: tuple[LossFactor, ...]) -> ClosedForm | str:
    # A Laplace loss takes few values, which no Gaussian comes near.
    gaussians = tuple(factor for factor in merged(factors) if isinstance(factor, GaussianLoss))
    if not gaussians or any(isinstance(factor, LaplaceLoss) for factor in factors):
        return "the closed form is for discrete Gaussian noise only"
    if any(f.variance < Fraction(1, 4) or f.sensitivity >= 1 << 31 for f in gaussians):
        return "the closed form needs variances of 1/4 or more, and sensitivities below 2^31"
    lattice = lattice_of(gaussians)
    points = LossPoints.of(lattice)
    exact = points.mirror / lattice.step
    scan = 10 * math.isqrt(math.ceil(exact)) + 21  # odd, and above 9.9 standard deviations
    if max(scan, *lattice.weights) >= MOST_POINTS or points.mirror >= LARGEST_MIRROR:
        return f"the common lattice of the losses is too fine: more than {MOST_POINTS} points"
    # Below this spread, 1 - exp(epsilon - loss) would be known to fewer digits than asked for.
    if points.mirror * lattice.step < LEAST_SPREAD:
        return "the losses are so small that the closed form would lose digits"
    log_norm = sum(f.multiplicity * log_theta_constant(float(f.variance)) for f in gaussians)
    eta = coset_excess(gaussians, lattice, scan) if log_norm < _LARGEST_LOG_NORM else math.inf
    if not isinstance(eta, str) and eta <= LARGEST_ETA:
        return ClosedForm(points, float(exact), eta, log_norm)
    much = eta if isinstance(eta, str) else f"up to {eta:.3g}"
    return f"the composed law differs from one Gaussian by {much}, wanted {LARGEST_ETA:.3g}"


def coset_excess(gaussians: tuple[GaussianLoss, ...], lattice: LossLattice, n_points: int) -> float | str:
    """Upper bound on C p(0) / g(0) - 1: how far the composed law is from one Gaussian on the lattice.

    The trapezoid rule for p(0) errs upwards only, so there is no peak of the transform that could be missed.

    Args:
        gaussians: Factors of variance 1/4 or more.
        lattice: Their lattice.
        n_points: Points of the rule, odd, about 10 sqrt(V) or more. Below `MOST_POINTS`.

    Returns:
        The bound, or in words why it is not known.
    """
    depth = _NEGLIGIBLE + math.log(n_points)
    j = find_places(list(gaussians), lattice.step, n_points, depth)
    if isinstance(j, str):
        return f"an unknown amount, because {j}"
    parts = LatticeFactors.of(list(zip(gaussians, lattice.weights, strict=True)))
    variance = float(
        sum(f.multiplicity * a * a * f.variance for f, a in zip(gaussians, lattice.weights, strict=True))
    )
    x = np.abs(parts.angles(j, n_points))
    # log1p keeps the digits of images as small as exp(-60).
    gain = parts.powers @ np.log1p(_other_images(x, parts.variances[:, None]))
    log_all = gain - (parts.powers * parts.variances / 2) @ (x * x)
    log_main = -variance * (2 * math.pi / n_points * j) ** 2 / 2
    # Where every angle is below pi, the nearest images make up the Gaussian; elsewhere only its nearest image is known.
    central = (parts.weights[:, None] * j <= n_points // 2).all(axis=0)
    # expm1 keeps the digits of a small gain. Where the gain is large, exp would overflow before the product brings it
    # down, and the main term is negligible.
    near = np.where(gain > 40, np.exp(log_all), np.exp(log_main) * np.expm1(np.minimum(gain, 40.0)))
    far = np.exp(log_all) * (1e-11 - np.expm1(np.minimum(log_main - log_all, 0.0)))
    terms = np.where(central, near, far)
    log_norm = sum(f.multiplicity * log_theta_constant(float(f.variance)) for f in gaussians)
    total = (2 * float(terms.sum()) - float(terms[0])) / n_points + math.exp(log_norm - depth)
    # Aliases of the trapezoid rule: positive, so they only raise the bound.
    aliases = 2.1 * math.exp(-(float(n_points) ** 2) / (2 * variance))
    # (1 + 1e-6) and 1e-300: rounding of the whole sum, and a term that underflowed to 0.
    return (math.sqrt(2 * math.pi * variance) * total + aliases) * (1 + 1e-6) + 1e-300


def _other_images(x: Floats, v: Floats) -> Floats:
    """Sum over k != 0 of exp(-v ((x + 2 pi k)^2 - x^2) / 2), at least; for v >= 1/4 and 0 <= x <= pi."""
    images = [
        np.exp(-2 * np.pi * v * k * (np.pi * k - side * x)) for k in range(1, 6) for side in (1, -1)
    ]  # the terms left out are below exp(-59), and below 1e-9 of the first
    total: Floats = sum(images[1:], images[0]) * (1 + 1e-9)
    return total
