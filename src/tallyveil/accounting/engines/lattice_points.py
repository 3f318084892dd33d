"""Points of a lattice: the place of an epsilon, Gaussian sums, and the nodes of a trapezoid rule.

The place of an epsilon among the values of a loss on a lattice is found in exact integers, or surely rounded.

*Sums of a Gaussian over the integers from one on*, with error bounds. Key: V variance, y first integer, u = y /
sqrt(V), R(y) = sum over k >= 0 of exp(-(2 y k + k^2) / (2 V)), so that the sum over z >= y of exp(-z^2 / (2 V)) is
exp(-y^2 / (2 V)) R(y). R is summed term by term where that takes few terms. Elsewhere it is the integral, which is a
scaled complementary error function, with the corrections of Euler and Maclaurin. The bounds hold where exp, expm1,
log, log1p and erfc of the platform are right to 16 units in the last place; docs/proofs/closed-form.md derives them.

*The trapezoid rule* has N points theta_j = 2 pi j / N. On a shifted contour, the transform of the Gaussian part of Z
is at most its value without a shift, and that is exp(-F(u)) C or less at the frequency u = theta / h
(`loss_transform`). So the scan for revivals finds all points that count without looking at every one of N.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from tallyveil.accounting.engines.loss_transform import (
    GaussianFactors,
    nodes_within,
    number_of_nodes,
    windows_up_to,
)
from tallyveil.accounting.engines.tails import ManyBounds, log_reflected
from tallyveil.accounting.losses import GaussianLoss, LossLattice
from tallyveil.arrays import Bools, Floats, Integers
from tallyveil.errors import BudgetError
from tallyveil.exact import as_given

FARTHEST: Final = 1 << 52
"""Whole numbers are exact floats up to here."""

LARGEST_MIRROR: Final = 1 << 60
"""Below it, all points that matter are whole numbers of 64 bits."""

_UNIT: Final = 2.3e-16  # a little more than twice the rounding error of one operation
_FEW: Final = 16  # epsilons placed one by one; it decides speed alone, as both ways are sure


def are_floats(numbers: Sequence[object]) -> bool:
    """Whether all numbers are floats, which arrays hold as they are."""
    return set(map(type, numbers)) <= {float, np.float64}


@dataclass(frozen=True, slots=True)
class EpsilonPlaces:
    """Many epsilons without their signs, and the lattice points above them.

    Attributes:
        sizes: |epsilon|, rounded to nearest, at most 1e300.
        negative: Where epsilon is below 0.
        firsts: The least z whose loss exceeds |epsilon|; `FARTHEST` + 1 if it lies further out.
        gaps: By how much this loss exceeds |epsilon|.
        slips: Bounds on the error of the gaps, but for one rounding; at most 3/4 of the gap.
    """

    sizes: Floats
    negative: Bools
    firsts: Integers
    gaps: Floats
    slips: Floats

    def at(self, chosen: Bools) -> "EpsilonPlaces":
        """The same for some of the epsilons."""
        return EpsilonPlaces(
            self.sizes[chosen],
            self.negative[chosen],
            self.firsts[chosen],
            self.gaps[chosen],
            self.slips[chosen],
        )

    def with_signs(self, log_deltas: ManyBounds) -> ManyBounds:
        """ln delta at the epsilons, from ln delta at |epsilon|."""
        if not self.negative.any():
            return log_deltas
        return log_reflected(-self.sizes, log_deltas).where(self.negative, log_deltas)


@dataclass(frozen=True, slots=True)
class LossPoints:
    """The values (offset + step z) / unit, z any integer, of a total loss.

    Attributes:
        step: Distance of neighbouring values, times the unit.
        offset: Value at z = 0, times the unit.
        unit: Common denominator of step and offset.
        mirror: m = 2 offset / step, a whole number: Q(Z >= z) = P(Z <= -m - z).
    """

    step: int
    offset: int
    unit: int
    mirror: int

    @classmethod
    def of(cls, lattice: LossLattice) -> "LossPoints":
        """The points of a lattice."""
        unit = math.lcm(lattice.step.denominator, lattice.offset.denominator)
        step, offset = int(lattice.step * unit), int(lattice.offset * unit)
        # Twice an offset is a whole number of steps for both kinds of noise, so this division is exact.
        return cls(step, offset, unit, 2 * offset // step)

    def above(self, epsilon: float | Fraction) -> tuple[int, float]:
        """The least z whose loss exceeds epsilon, and by how much it does, rounded to nearest.

        Raises:
            BudgetError: epsilon is no finite number.
        """
        # A fraction is always finite, and only floats need the question.
        if isinstance(epsilon, float) and not math.isfinite(epsilon):
            raise BudgetError(
                f"epsilon must be a finite number, got {as_given(epsilon)}. Give one such as 1.5."
            )
        numerator, denominator = epsilon.as_integer_ratio()
        width = self.step * denominator
        # In integers, so that an epsilon that is itself a loss is never put on the wrong side of it.
        whole, rest = divmod(numerator * self.unit - self.offset * denominator, width)
        return whole + 1, (width - rest) / (denominator * self.unit)

    def places(self, epsilons: Sequence[float | Fraction]) -> EpsilonPlaces:
        """The same for |epsilon|, for many epsilons at once.

        In floats where these are sure which points lie above; see docs/proofs/closed-form.md, "The place of epsilon".

        Raises:
            BudgetError: an epsilon is no finite number.
        """
        if len(epsilons) <= _FEW or not are_floats(epsilons):
            return self._exact_places(epsilons)
        floats = np.asarray(epsilons, dtype=np.float64)
        if not np.isfinite(floats).all():
            return self._exact_places(epsilons)  # it says which one
        sizes, step, offset = np.abs(floats), self.step / self.unit, self.offset / self.unit
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # too far out for floats: not sure, so placed exactly
            turns = (sizes - offset) / step
            whole = np.floor(turns)
            part = turns - whole
        slips = _UNIT * (abs(offset) / step + 2 * np.abs(turns) + 1)
        # Where the rounding could cross a lattice point, exact integers decide.
        sure = (part > slips) & (part + 4 * slips < 1) & (np.abs(turns) < FARTHEST / 2)
        firsts = np.where(sure, whole + 1, 0.0).astype(np.int64)
        places = EpsilonPlaces(sizes, floats < 0, firsts, (1 - part) * step, step * (slips + 2 * _UNIT))
        unsure = np.flatnonzero(~sure)
        if unsure.size:
            exact = self._exact_places(floats[unsure].tolist())
            places.firsts[unsure], places.gaps[unsure] = exact.firsts, exact.gaps
            places.sizes[unsure], places.slips[unsure] = exact.sizes, 0.0
        return places

    def _exact_places(self, epsilons: Sequence[float | Fraction]) -> EpsilonPlaces:
        sizes = [epsilon if epsilon >= 0 else -epsilon for epsilon in epsilons]
        indices = [self.above(size) for size in sizes]
        return EpsilonPlaces(
            sizes=np.array([float(min(size, 10**300)) for size in sizes]),
            negative=np.array([epsilon < 0 for epsilon in epsilons], dtype=np.bool_),
            firsts=np.array([min(first, FARTHEST + 1) for first, _ in indices], dtype=np.int64),
            gaps=np.array([gap for _, gap in indices]),
            slips=np.zeros(len(indices)),
        )


UNIT: Final = 2.3e-16  # a little more than twice the rounding error of one operation
_DIRECT_VARIANCE: Final = 1000.0  # below, the sum is short; above, the integral is close
_DIRECT_TILT: Final = 0.1  # y / V above which the sum is short
_NEGLIGIBLE: Final = 45.0  # minus the logarithm of the first term that is left out of a sum
_BERNOULLI: Final = (
    1 / 12,
    -1 / 720,
    1 / 30240,
    -1 / 1209600,
    5.284190138687493e-08,
)  # B_2j / (2j)!, j = 1..5
_HERMITE: Final = (
    (1, -3, 15, -105, 945),
    (0, 1, -10, 105, -1260),
    (0, 0, 1, -21, 378),
    (0, 0, 0, 1, -36),
    (0, 0, 0, 0, 1),
)  # the coefficients of u, u^3, ... u^9 in He_1(u), He_3(u), ... He_9(u)
_CORRECTIONS: Final = (
    np.array([_HERMITE, np.abs(_HERMITE)]) * np.array([_BERNOULLI, np.abs(_BERNOULLI)])[:, None]
)
_ORDER: Final = 12  # derivative in the remainder, bounded by 2 zeta(12) / (2 pi)^12 = |B_12| / 12!
# ln of |B_12| / 12!, rounded up, times 12! sqrt(2 pi): of step C10 in docs/proofs/closed-form.md.
_LOG_REMAINDER: Final = math.log(5.30e-10 * math.factorial(12) * math.sqrt(2 * math.pi))
_FAR: Final = 8.0  # from here on the error function is an asymptotic series
# Terms of the asymptotic series. From t = 8 on the first one left out is below 1e-18 of the sum. Half as many would
# leave 6e-13; twice as many are safe, since the terms fall up to k = 64, and add nothing.
_SERIES: Final = 20
# Places above which equal ones are looked for, since sorting takes time too. It decides speed alone.
_FEW_PLACES: Final = 16


def scaled_tail(first: Floats, variance: float) -> tuple[Floats, Floats]:
    """R(first) and bounds on its absolute error.

    Args:
        first: y, whole numbers, at least -sqrt(V).
        variance: V, relative error at most UNIT.
    """
    if variance < _DIRECT_VARIANCE:
        return _summed_tail(first, variance)
    # The boundary differs by place: near 0 a sum is long, in the tail it is short, whatever the variance.
    steep = first > _DIRECT_TILT * variance
    if not steep.any():
        return _expanded_tail(first, variance)
    value, error = np.empty_like(first), np.empty_like(first)
    for where, by in ((steep, _summed_tail), (~steep, _expanded_tail)):
        if where.any():
            value[where], error[where] = by(first[where], variance)
    return value, error


def log_tail(first: Floats, variance: float) -> tuple[Floats, Floats]:
    """Logarithms of the sum over z >= first >= 0 of the Gaussian density, and bounds on their absolute errors."""
    value, error = scaled_tail(first, variance)
    exponent = first / variance * first / 2
    norm = 0.5 * math.log(2 * math.pi * variance) - np.log(value)
    # ln value is off by error / value, with 1.01 for the second order; both logarithms add libm's units.
    return -exponent - norm, (8 * exponent + 2 * np.abs(norm) + 80) * UNIT + 1.01 * error / value


def log_excess(
    first: Floats, mirror: float, variance: float, gap: Floats, slip: Floats
) -> tuple[Floats, Floats]:
    """Logarithms of the sum over z >= first of density times (1 - exp(epsilon - loss)), and their error bounds.

    Args:
        first: y, at least -sqrt(V).
        mirror: m = V h; the second term is a Gaussian sum from y + m on.
        variance: V.
        gap: By how much the loss at y exceeds epsilon, above 0 and at most h.
        slip: Bound on the error of the gap, but for one rounding.

    Returns:
        The logarithms, and their error bounds: infinite where rounding hides the value.
    """
    # One call for both sums: the arrays of terms are the whole cost.
    both, errors = scaled_tail(np.concatenate([first, first + mirror]), variance)
    here, there = both[: first.size], both[first.size :]
    # R falls with y: both terms are positive.
    # The maximum with 0: R falls with y, so a negative difference is rounding alone, and its error is bounded next.
    value = np.maximum(here - there, 0.0) - np.expm1(-gap) * there
    error = errors[: first.size] + errors[first.size :] + 40 * UNIT * value + 1.01 * slip * there
    # Where the error is as large as the value no digit is known. The caller then takes delta from the tails.
    known = error < value
    safe = np.where(known, value, 1.0)
    exponent = first / variance * first / 2
    norm = 0.5 * math.log(2 * math.pi * variance) - np.log(safe)
    rounding = (8 * exponent + 2 * np.abs(norm) + 80) * UNIT - np.log1p(-np.where(known, error / safe, 0.0))
    return -exponent - norm, np.where(known, rounding, math.inf)


def _summed_tail(first: Floats, variance: float) -> tuple[Floats, Floats]:
    """`scaled_tail` term by term; ratios of neighbouring terms fall, so a geometric series bounds the rest."""
    if first.size > _FEW_PLACES:  # many epsilons lie between the same two points of a lattice
        distinct, back = np.unique(first, return_inverse=True)
        if distinct.size < first.size:
            value, error = _summed_tail(distinct, variance)
            return value[back], error[back]
    least = float(first.min())
    # First term below exp(-45) of the first one: 2 y k + k^2 = 90 V solved for k.
    count = math.ceil(math.sqrt(least * least + 2 * _NEGLIGIBLE * variance) - least) + 1
    k = np.arange(count + 1, dtype=np.float64)
    exponents = (2 * first[:, None] + k) * k / (-2 * variance)
    terms = np.exp(exponents)
    last = terms[:, -1].copy()
    # Left out of the sum and bounded as the head of a geometric series instead.
    terms[:, -1] = 0.0
    total = terms.sum(axis=1)
    # Sum of |exponent| term: each exp is off by its exponent's relative rounding times the exponent.
    weighted = np.einsum("ij,ij->i", terms, np.abs(exponents))
    rest = last / -np.expm1(-(2 * first + 2 * count - 1) / (2 * variance))
    return total, UNIT * (4 * weighted + (20 + count) * total) + 1.001 * rest


def _expanded_tail(first: Floats, variance: float) -> tuple[Floats, Floats]:
    """`scaled_tail` by Euler and Maclaurin's expansion."""
    root = math.sqrt(variance)
    u = first / root
    square = u * u
    integral = root * math.sqrt(math.pi / 2) * _scaled_erfc(u * math.sqrt(0.5))
    # The corrections are an odd polynomial of u; the one with the moduli of all terms carries its rounding.
    scales = np.cumprod([1 / root, *[1 / variance] * (len(_BERNOULLI) - 1)])  # V^-(j - 1/2)
    coefficients, moduli = (_CORRECTIONS @ scales).tolist()
    # Polynomials in u: all corrections share V^-(j - 1/2), so that the loop over j is one matrix product.
    correction, size = u * _polynomial(square, coefficients), np.abs(u) * _polynomial(square, moduli)
    value = integral + 0.5 + correction
    # erfc's argument loses u^2 / 2 units; above 8 the asymptotic series does not, hence the cap at 64.
    error = UNIT * ((np.minimum(0.5 * square, 64.0) + 80) * integral + 64 * size + 8 * value)
    return value, error + _rest(float(np.abs(u).max()), root)


def _polynomial(x: Floats, coefficients: list[float]) -> Floats:
    value = coefficients[-1] * x
    # Horner's rule: fewest roundings, and 'moduli' in the same form bounds them.
    for coefficient in coefficients[-2:0:-1]:
        value = (value + coefficient) * x
    return value + coefficients[0]


def _rest(largest: float, root: float) -> float:
    """Bound on the remainder of the expansion at all |u| up to the largest, with which it grows."""
    rho = (math.sqrt(largest * largest + 8 * _ORDER) - largest) / 4
    # Cauchy's estimate on a circle of radius rho around u; rho is where the bound is least.
    log_rest = _LOG_REMAINDER + largest * rho + rho * rho - _ORDER * math.log(rho)
    return 7 * math.exp(log_rest - (_ORDER - 1) * math.log(root))


def _scaled_erfc(t: Floats) -> Floats:
    """exp(t^2) erfc(t) for t >= -1, relative error at most (t^2 + 40) UNIT below 8 and 40 UNIT above."""
    near = np.minimum(t, _FAR)
    # The platform's erfc, which the assumption of the module is about; a list is faster here than numpy's vectorize.
    value: Floats = np.exp(near * near) * np.array(list(map(math.erfc, near.tolist())))
    if float(t.max()) < _FAR:
        return value
    # The alternating asymptotic series; the first term left out, below 1e-18 here, bounds the rest.
    far = np.maximum(t, _FAR)
    ratio = 0.5 / (far * far)
    term = total = np.ones_like(far)
    for k in range(1, _SERIES):
        term = term * (-(2 * k - 1) * ratio)
        total = total + term
    return np.where(t < _FAR, value, total / (far * math.sqrt(math.pi)))


MOST_POINTS: Final = 1 << 31
"""Points of a rule, and least weights of factors, with which angles are exact in whole numbers of 64 bits."""

MAX_NODES: Final = 1 << 15
"""Points that count above which an engine is refused. Side peaks or a slow decay cause many."""


@dataclass(frozen=True, slots=True)
class LatticeFactors:
    """Gaussian factors on a common lattice.

    Attributes:
        weights: a, [factors].
        variances: v, [factors].
        powers: m, [factors].
    """

    weights: Integers
    variances: Floats
    powers: Integers

    @classmethod
    def of(cls, pairs: list[tuple[GaussianLoss, int]]) -> "LatticeFactors":
        """Factors with their weights."""
        return cls(
            weights=np.array([weight for _, weight in pairs], dtype=np.int64),
            variances=np.array([float(factor.variance) for factor, _ in pairs]),
            powers=np.array([factor.multiplicity for factor, _ in pairs], dtype=np.int64),
        )

    def angles(self, places: Integers, n_points: int) -> Floats:
        """a theta brought to [-pi, pi], [factors, places]; the angles are reduced in whole numbers."""
        # Reduced in integers modulo N first. weight < 2^31 and place < 2^31 keep the product below 2^62, so that int64
        # cannot overflow, and the angle has one rounding instead of an error that grows with j.
        reduced = (self.weights % n_points)[:, None] * places % n_points
        # To [-pi, pi]: the Gaussian images are counted from the nearest whole turn.
        return (2 * np.pi / n_points) * np.where(2 * reduced > n_points, reduced - n_points, reduced)


def find_places(factors: list[GaussianLoss], step: Fraction, n_points: int, depth: float) -> Integers | str:
    """All j from 0 to N // 2 at which C times the transform may exceed C exp(-depth), or why there are too many.

    Args:
        factors: Gaussian factors of variance 1/4 or more, on a lattice.
        step: h.
        n_points: N, odd.
        depth: Minus the logarithm of what is negligible.
    """
    # The transform is real up to a phase and symmetric in j: half the points are enough.
    half = n_points // 2
    if not factors:
        # Without Gaussian noise nothing decays, so every point counts.
        return np.arange(half + 1) if half < MAX_NODES else _too_many(half + 1)
    turn = 2 * math.pi / n_points / float(step)
    # Half a step beyond the last node, so that a node on the very edge cannot be dropped by rounding.
    windows = windows_up_to(GaussianFactors.of(factors).decay, depth, turn * (half + 0.5))
    if windows is None:
        return "the transform of the loss returns to its full size too often"
    count = number_of_nodes(*windows, turn)
    # Refused before the nodes are made, at four times the limit: the windows overlap, and count some nodes twice.
    if count > 4 * MAX_NODES:
        return _too_many(round(count))
    places = nodes_within(*windows, turn)
    # The scan may reach a little beyond its end; j > N // 2 are the mirror images, counted by symmetry.
    places = places[: np.searchsorted(places, half, side="right")]
    return places if places.size <= MAX_NODES else _too_many(places.size)


def _too_many(count: int) -> str:
    return f"the transform counts at about {count} nodes, wanted at most {MAX_NODES}"


def log_theta_constant(variance: float) -> float:
    """ln of c_v, the sum over whole k of exp(-2 pi^2 v k^2), for v of 1/4 or more."""
    # Five terms: at v = 1/4, the least variance allowed, the sixth is exp(-178), far below a float's rounding of 1.
    return math.log1p(2 * sum(math.exp(-2 * math.pi**2 * variance * k * k) for k in range(1, 6)))
