"""Kernels of the closed form: sums of a Gaussian over the integers from one on, with error bounds.

Key: V variance, y first integer, u = y / sqrt(V), R(y) = sum over k >= 0 of exp(-(2 y k + k^2) / (2 V)), so that the
sum over z >= y of exp(-z^2 / (2 V)) is exp(-y^2 / (2 V)) R(y).

Step: R is summed term by term where that takes few terms. Elsewhere it is the integral, which is a scaled
complementary error function, with the corrections of Euler and Maclaurin.

Error bounds hold where exp, expm1, log, log1p and erfc of the platform are right to 16 units in the last place.
Every formula and bound is derived in docs/proofs/closed-form.md. Oracles: `..._reference` below, which sum plainly.
"""

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from tallyveil.kernels.compiled import njit

UNIT: Final = 2.3e-16  # a little more than twice the rounding error of one operation
_DIRECT_VARIANCE: Final = 1000.0  # below, the sum is short; above, the integral is close
_DIRECT_TILT: Final = 0.1  # y / V above which the sum is short
_BERNOULLI: Final = (
    1 / 12,
    -1 / 720,
    1 / 30240,
    -1 / 1209600,
    5.284190138687493e-08,
)  # B_2j / (2j)!, j = 1..5
_ORDER: Final = 12  # derivative in the remainder, bounded by 2 zeta(12) / (2 pi)^12 = |B_12| / 12!
_LOG_REMAINDER: Final = math.log(5.30e-10 * math.factorial(12) * math.sqrt(2 * math.pi))


@njit(nogil=True, cache=True)
def _scaled_erfc(t: float) -> float:
    """exp(t^2) erfc(t) for t >= -1, relative error at most (t^2 + 40) UNIT below 8 and 40 UNIT above."""
    if t < 8.0:
        return math.exp(t * t) * math.erfc(t)
    # The alternating asymptotic series; the first term left out, below 1e-18 here, bounds the rest.
    ratio = 0.5 / (t * t)
    term = total = 1.0
    for k in range(1, 20):
        term *= -(2 * k - 1) * ratio
        total += term
        if abs(term) < 1e-19:
            break
    return total / (t * math.sqrt(math.pi))


@njit(nogil=True, cache=True)
def scaled_tail(first: float, variance: float) -> tuple[float, float]:
    """R(first) and a bound on its absolute error.

    Args:
        first: y, a whole number, at least -sqrt(V).
        variance: V, relative error at most UNIT.
    """
    if variance < _DIRECT_VARIANCE or first > _DIRECT_TILT * variance:
        return _summed_tail(first, variance)
    root = math.sqrt(variance)
    u = first / root
    t = u / math.sqrt(2.0)
    integral = root * math.sqrt(math.pi / 2) * _scaled_erfc(t)
    value = integral + 0.5
    error = (min(t * t, 64.0) + 80.0) * UNIT * integral
    # Euler-Maclaurin: B_2j / (2j)! V^-(j - 1/2) He_(2j-1)(u); `size` bounds |He| and carries its rounding.
    hermite, before = u, 1.0
    size, size_before = abs(u), 1.0
    scale = 1.0 / root
    for j in range(1, 6):
        value += _BERNOULLI[j - 1] * scale * hermite
        error += abs(_BERNOULLI[j - 1]) * scale * size * 64.0 * UNIT
        for n in range(2 * j - 1, 2 * j + 1):
            hermite, before = u * hermite - n * before, hermite
            size, size_before = abs(u) * size + n * size_before, size
        scale /= variance
    a = abs(u)
    rho = (math.sqrt(a * a + 8.0 * _ORDER) - a) / 4.0
    log_rest = _LOG_REMAINDER + a * rho + rho * rho - _ORDER * math.log(rho) - (_ORDER - 1) * math.log(root)
    error += 7.0 * math.exp(log_rest) + 8.0 * UNIT * value
    return value, error


@njit(nogil=True, cache=True)
def _summed_tail(first: float, variance: float) -> tuple[float, float]:
    """`scaled_tail` term by term; ratios of neighbouring terms fall, so a geometric series bounds the rest."""
    total = weighted = 0.0
    term = ratio = 1.0
    k = 0.0
    while True:
        exponent = (2.0 * first + k) * k / (2.0 * variance)
        new = math.exp(-exponent)
        if k > 0.0:
            ratio = new / term
        term = new
        if ratio < 0.9999 and term < 1e-17 * total * (1.0 - ratio):
            break
        total += term
        weighted += term * (4.0 * abs(exponent) + 20.0)
        k += 1.0
    return total, UNIT * (weighted + k * total) + 1.001 * term / (1.0 - ratio)


def scaled_tail_reference(first: float, variance: float) -> tuple[float, float]:
    """Oracle of `scaled_tail`: the sum term by term, with the error of adding floats."""
    k = np.arange(math.ceil(10 * math.sqrt(variance)) + 50, dtype=np.float64)
    terms = np.exp(-(2 * first + k) * k / (2 * variance))
    return math.fsum(terms), float(np.sum(terms) * 1e-14)


@njit(nogil=True, cache=True)
def log_tail(first: float, variance: float) -> tuple[float, float]:
    """Logarithm of the sum over z >= first >= 0 of the Gaussian density, and a bound on its absolute error."""
    value, error = scaled_tail(first, variance)
    exponent = first / variance * first / 2.0
    norm = 0.5 * math.log(2.0 * math.pi * variance) - math.log(value)
    return -exponent - norm, (8.0 * exponent + 2.0 * abs(norm) + 80.0) * UNIT + 1.01 * error / value


@njit(nogil=True, cache=True)
def log_excess(first: float, mirror: float, variance: float, gap: float) -> tuple[float, float]:
    """Logarithm of the sum over z >= first of density times (1 - exp(epsilon - loss)), and its error bound.

    Args:
        first: y, at least -sqrt(V).
        mirror: m = V h; the second term is a Gaussian sum from y + m on.
        variance: V.
        gap: By how much the loss at y exceeds epsilon, above 0 and at most h.
    """
    here, here_error = scaled_tail(first, variance)
    there, there_error = scaled_tail(first + mirror, variance)
    # R falls with y: both terms are positive.
    part = -math.expm1(-gap)
    value = max(here - there, 0.0) + part * there
    error = here_error + there_error + 40.0 * UNIT * value
    if error >= value:
        return -math.inf, math.inf
    exponent = first / variance * first / 2.0
    norm = 0.5 * math.log(2.0 * math.pi * variance) - math.log(value)
    rounding = (8.0 * exponent + 2.0 * abs(norm) + 80.0) * UNIT
    return -exponent - norm, rounding - math.log1p(-error / value)


@njit(nogil=True, cache=True)
def coset_excess(
    weights: npt.NDArray[np.int64],
    variances: npt.NDArray[np.float64],
    multiplicities: npt.NDArray[np.float64],
    variance: float,
    n_points: int,
) -> float:
    """Upper bound on C p(0) / g(0) - 1: how far the composed law is from one Gaussian on the lattice.

    The trapezoid rule for p(0) errs upwards only, so there is no peak of the transform that could be missed.

    Args:
        weights: a, [factors]. Below 2^31.
        variances: v, [factors], at least 1/4.
        multiplicities: n, [factors].
        variance: V = sum of a^2 n v.
        n_points: Points of the rule, odd, about 10 sqrt(V) or more. Below 2^31.
    """
    total = 0.0
    turn = 2.0 * math.pi / n_points
    for j in range((n_points + 1) // 2):
        central = True
        log_all = gain = 0.0
        for i in range(weights.size):
            place = weights[i] % n_points * j % n_points
            central = central and weights[i] * j <= n_points // 2
            x = turn * min(place, n_points - place)
            if log_all + multiplicities[i] * (0.7 - variances[i] * x * x / 2.0) < -900.0:
                log_all = -1000.0  # the images add at most ln 2.0002, where x = pi and v = 1/4
                break
            extra = _other_images(x, variances[i])
            log_all += multiplicities[i] * (math.log1p(extra) - variances[i] * x * x / 2.0)
            gain += multiplicities[i] * math.log1p(extra)
            if log_all < -900.0:
                break
        if log_all < -900.0:
            continue
        log_main = -variance * (turn * j) ** 2 / 2.0
        if central:
            part = math.exp(log_main) * math.expm1(gain)
        else:
            part = math.exp(log_all) * (1e-11 - math.expm1(min(log_main - log_all, 0.0)))
        total += part if j == 0 else 2.0 * part
    aliases = 2.1 * math.exp(-(float(n_points) ** 2) / (2.0 * variance))
    return (math.sqrt(2.0 * math.pi * variance) / n_points * total + aliases) * (1.0 + 1e-6) + 1e-300


@njit(nogil=True, cache=True)
def _other_images(x: float, variance: float) -> float:
    """Sum over k != 0 of exp(-v ((x + 2 pi k)^2 - x^2) / 2), at least; for v >= 1/4 and 0 <= x <= pi."""
    total = 0.0
    for k in range(1, 6):  # the terms left out are below exp(-59), and below 1e-9 of the first
        near = math.exp(-2.0 * math.pi * variance * k * (math.pi * k - x))
        total += near + math.exp(-2.0 * math.pi * variance * k * (math.pi * k + x))
        if near < 1e-18 * total:
            break
    return total * (1.0 + 1e-9)


def coset_excess_reference(
    weights: npt.NDArray[np.int64],
    variances: npt.NDArray[np.float64],
    multiplicities: npt.NDArray[np.float64],
    variance: float,
    n_points: int,
) -> float:
    """Oracle of `coset_excess`, by plain subtraction: good to about 1e-13 only."""
    theta = 2 * np.pi * np.arange(n_points) / n_points
    images = 2 * np.pi * np.arange(-8, 9)
    product = np.ones(n_points)
    for a, v, n in zip(weights, variances, multiplicities, strict=True):
        x = np.remainder(a * theta + np.pi, 2 * np.pi) - np.pi
        product *= np.exp(-v * (x[:, None] + images) ** 2 / 2).sum(axis=1) ** n
    return float(np.sqrt(2 * np.pi * variance) * product.mean() - 1)
