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
_ORDER: Final = 12  # derivative in the remainder, bounded by 2 zeta(12) / (2 pi)^12 = |B_12| / 12!
_LOG_REMAINDER: Final = math.log(5.30e-10 * math.factorial(12) * math.sqrt(2 * math.pi))
_FAR: Final = 8.0  # from here on the error function is an asymptotic series
_SERIES: Final = 20
_FEW: Final = 16


def scaled_tail(first: Floats, variance: float) -> tuple[Floats, Floats]:
    """R(first) and bounds on its absolute error.

    Args:
        first: y, whole numbers, at least -sqrt(V).
        variance: V, relative error at most UNIT.
    """
    if variance < _DIRECT_VARIANCE:
        return _summed_tail(first, variance)
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
    return -exponent - norm, (8 * exponent + 2 * np.abs(norm) + 80) * UNIT + 1.01 * error / value


def log_excess(first: Floats, mirror: float, variance: float, gap: Floats) -> tuple[Floats, Floats]:
    """Logarithms of the sum over z >= first of density times (1 - exp(epsilon - loss)), and their error bounds.

    Args:
        first: y, at least -sqrt(V).
        mirror: m = V h; the second term is a Gaussian sum from y + m on.
        variance: V.
        gap: By how much the loss at y exceeds epsilon, above 0 and at most h.

    Returns:
        The logarithms, and their error bounds: infinite where rounding hides the value.
    """
    both, errors = scaled_tail(np.concatenate([first, first + mirror]), variance)
    here, there = both[: first.size], both[first.size :]
    # R falls with y: both terms are positive.
    value = np.maximum(here - there, 0.0) - np.expm1(-gap) * there
    error = errors[: first.size] + errors[first.size :] + 40 * UNIT * value
    with np.errstate(divide="ignore", invalid="ignore"):
        exponent = first / variance * first / 2
        norm = 0.5 * math.log(2 * math.pi * variance) - np.log(value)
        rounding = (8 * exponent + 2 * np.abs(norm) + 80) * UNIT - np.log1p(-error / value)
    known = error < value
    return np.where(known, -exponent - norm, -math.inf), np.where(known, rounding, math.inf)


def _summed_tail(first: Floats, variance: float) -> tuple[Floats, Floats]:
    """`scaled_tail` term by term; ratios of neighbouring terms fall, so a geometric series bounds the rest."""
    if first.size > _FEW:  # many epsilons lie between the same two points of a lattice
        distinct, back = np.unique(first, return_inverse=True)
        if distinct.size < first.size:
            value, error = _summed_tail(distinct, variance)
            return value[back], error[back]
    least = float(first.min())
    count = math.ceil(math.sqrt(least * least + 2 * _NEGLIGIBLE * variance) - least) + 1
    k = np.arange(count + 1, dtype=np.float64)
    exponents = (2 * first[:, None] + k) * k / (-2 * variance)
    terms = np.exp(exponents)
    last = terms[:, -1].copy()
    terms[:, -1] = 0.0
    total = terms.sum(axis=1)
    weighted = np.einsum("ij,ij->i", terms, np.abs(exponents))
    rest = last / -np.expm1(-(2 * first + 2 * count - 1) / (2 * variance))
    return total, UNIT * (4 * weighted + (20 + count) * total) + 1.001 * rest


def _expanded_tail(first: Floats, variance: float) -> tuple[Floats, Floats]:
    """`scaled_tail` by Euler and Maclaurin's expansion."""
    root = math.sqrt(variance)
    u = first / root
    t = u / math.sqrt(2)
    integral = root * math.sqrt(math.pi / 2) * _scaled_erfc(t)
    value = integral + 0.5
    error = (np.minimum(t * t, 64.0) + 80) * UNIT * integral
    # Euler-Maclaurin: B_2j / (2j)! V^-(j - 1/2) He_(2j-1)(u); `size` bounds |He| and carries its rounding.
    a = np.abs(u)
    hermite, before, size, size_before = u, np.ones_like(u), a, np.ones_like(u)
    scale = 1 / root
    for j, bernoulli in enumerate(_BERNOULLI, start=1):
        value = value + bernoulli * scale * hermite
        error = error + abs(bernoulli) * scale * 64 * UNIT * size
        for n in (2 * j - 1, 2 * j):
            hermite, before = u * hermite - n * before, hermite
            size, size_before = a * size + n * size_before, size
        scale /= variance
    rho = (np.sqrt(a * a + 8 * _ORDER) - a) / 4
    log_rest = _LOG_REMAINDER + a * rho + rho * rho - _ORDER * np.log(rho) - (_ORDER - 1) * math.log(root)
    return value, error + 7 * np.exp(log_rest) + 8 * UNIT * value


def _scaled_erfc(t: Floats) -> Floats:
    """exp(t^2) erfc(t) for t >= -1, relative error at most (t^2 + 40) UNIT below 8 and 40 UNIT above."""
    near = np.minimum(t, _FAR)
    value: Floats = np.exp(near * near) * np.array([math.erfc(x) for x in near.tolist()])
    if (t < _FAR).all():
        return value
    # The alternating asymptotic series; the first term left out, below 1e-18 here, bounds the rest.
    far = np.maximum(t, _FAR)
    ratio = 0.5 / (far * far)
    term = total = np.ones_like(far)
    for k in range(1, _SERIES):
        term = term * (-(2 * k - 1) * ratio)
        total = total + term
    return np.where(t < _FAR, value, total / (far * math.sqrt(math.pi)))
