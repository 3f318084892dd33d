"""Sums of a Gaussian over the integers from one on, at many places at once, with error bounds.

Key: V variance, y first integer, u = y / sqrt(V), R(y) = sum over k >= 0 of exp(-(2 y k + k^2) / (2 V)), so that the
sum over z >= y of exp(-z^2 / (2 V)) is exp(-y^2 / (2 V)) R(y).

Step: R is summed term by term where that takes few terms. Elsewhere it is the integral, which is a scaled
complementary error function, with the corrections of Euler and Maclaurin.

Error bounds hold where exp, expm1, log, log1p and erfc of the platform are right to 16 units in the last place.
Every formula and bound is derived in docs/proofs/closed-form.md.
"""

import math
from typing import Final

import numpy as np

from tallyveil.arrays import Floats

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
_FEW: Final = 16


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
    if first.size > _FEW:  # many epsilons lie between the same two points of a lattice
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
