"""Kernels of the quadrature: the trapezoid rule on a shifted contour, with its error bound.

Key: Z = sum of a S over the factors, s = tau + i theta, theta_j = 2 pi j / N; v variance, n multiplicity of a
Gaussian factor, x_j its a theta_j brought to [-pi, pi]; h lattice step; f gap between epsilon and the first loss.

Each sum is returned in units of exp(V tau^2 / 2 - tau z) M_L(tau) / C (and exp(-W - h z) for `SECOND`), V the
Gaussian part's variance, M_L the transform of the Laplace part, C the product of the theta constants.
Error bounds hold where exp, expm1, log, log1p, sin and cos of the platform are right to 16 units in the last place.
Every formula and bound is derived in docs/proofs/quadrature.md.
"""

import cmath
import math
from typing import Final, NamedTuple

import numpy as np

from tallyveil.arrays import Floats, Integers
from tallyveil.kernels.compiled import internal, njit

FIRST: Final = 0
SECOND: Final = 1
DELTA: Final = 2

UNIT: Final = 2.3e-16  # a little more than twice the rounding error of one operation


class FirstLoss(NamedTuple):
    """Where a sum begins.

    Attributes:
        place: z modulo N.
        gap: f.
    """

    place: int
    gap: float


class Rule(NamedTuple):
    """The trapezoid rule: the nodes kept, and the main term of the Gaussian transform there.

    Attributes:
        n_points: N, odd.
        nodes: j of the nodes kept, 0 first, [nodes]; each but 0 stands for -j too.
        versines: 1 - cos(theta), [nodes].
        sines: sin(theta), [nodes].
        decays: Sum of n v x^2 / 2, [nodes].
        phase_rates: Sum of n v a x, [nodes].
        sizes: Bound on C |Gaussian transform| in units of exp(V tau^2 / 2), [nodes].
        error_bases: Roundings of a node's term, in UNIT of its size, [nodes].
        error_rates: The same for each unit of |tau|, [nodes].
    """

    n_points: int
    nodes: Integers
    versines: Floats
    sines: Floats
    decays: Floats
    phase_rates: Floats
    sizes: Floats
    error_bases: Floats
    error_rates: Floats


class Images(NamedTuple):
    """The images of the Gaussian transform that count.

    Attributes:
        pair_starts: [nodes + 1], the pairs (node, factor) with images that count.
        pair_powers: n, [pairs].
        starts: [pairs + 1], the images of each pair.
        logs: Logarithm of the image's size relative to the main term, [images].
        rates: Its phase for each unit of tau, [images].
    """

    pair_starts: Integers
    pair_powers: Integers
    starts: Integers
    logs: Floats
    rates: Floats


class LaplaceFactors(NamedTuple):
    """The Laplace factors at the nodes kept.

    Attributes:
        angles: a theta brought to [-pi, pi], [nodes, factors].
        powers: n, [factors].
        masses: Tilted probabilities of i = 0..k, [factors, most k + 1].
    """

    angles: Floats
    powers: Integers
    masses: Floats


class GaussianFactors(NamedTuple):
    """The Gaussian factors.

    Attributes:
        weights: a, [factors].
        variances: v, [factors].
        multiplicities: n, [factors].
    """

    weights: Integers
    variances: Floats
    multiplicities: Integers


@njit(nogil=True, cache=True)
def log_magnitudes(
    weights: Integers, variances: Floats, multiplicities: Floats, n_points: int, negligible: float
) -> Floats:
    """ln of C |transform of the Gaussian part| on the imaginary axis, at theta_j for j = 0..N // 2.

    It bounds the transform on every shifted contour too, in units of exp(V tau^2 / 2).

    Args:
        weights: a, [factors]; the work is least where n v falls along the factors.
        variances: v, [factors], at least 1/4.
        multiplicities: n, [factors].
        n_points: N, odd.
        negligible: Logarithm below which a value may be replaced by any larger one that is also below.
    """
    out = np.zeros(n_points // 2 + 1)
    turn = 2.0 * math.pi / n_points
    # A factor adds at most n ln c: with c for v = 1/4 no later factor can lift a value by more than this.
    rise = multiplicities.sum() * 0.0144
    first_step, first_place = weights[0] % n_points if weights.size else 0, 0
    for j in range(out.size):
        # At nearly all points the first factor alone is negligible, and its place needs no division.
        bound, place = rise, first_place
        for i in range(weights.size):
            if i > 0:
                place = weights[i] % n_points * j % n_points
            x = turn * min(place, n_points - place)
            # the images add at most ln 2.0002, where x = pi and v = 1/4
            bound += multiplicities[i] * (0.7 - variances[i] * x * x / 2.0)
            if bound < negligible:
                break
        out[j] = bound
        if bound >= negligible:
            total = _log_magnitude(j, weights, variances, multiplicities, n_points)
            out[j] = total if total + rise >= negligible else total + rise
        first_place += first_step
        if first_place >= n_points:
            first_place -= n_points
    return out


@internal
def _log_magnitude(
    j: int, weights: Integers, variances: Floats, multiplicities: Floats, n_points: int
) -> float:
    """ln of C |transform of the Gaussian part| on the imaginary axis at theta_j."""
    total = 0.0
    for i in range(weights.size):
        place = weights[i] % n_points * j % n_points
        x, v = 2.0 * math.pi / n_points * min(place, n_points - place), variances[i]
        images = 1e-17
        for k in range(1, 4):
            near = math.exp(-2.0 * math.pi * v * k * (math.pi * k - x))
            images += near + math.exp(-2.0 * math.pi * v * k * (math.pi * k + x))
            if near < 1e-18:
                break
        total += multiplicities[i] * (math.log1p(images) - v * x * x / 2.0)
    return total


@njit(nogil=True, cache=True)
def _power(base: complex, exponent: int) -> complex:
    result = 1.0 + 0.0j
    while exponent > 0:
        if exponent & 1:
            result *= base
        exponent >>= 1
        base *= base
    return result


@njit(nogil=True, cache=True)
def _geometric(tau: float, versine: float, sine: float) -> complex:
    """1 - exp(-tau - i theta) without cancellation, from 1 - cos(theta) and sin(theta)."""
    decay = math.exp(-tau)
    return complex(-math.expm1(-tau) + decay * versine, decay * sine)


@njit(nogil=True, cache=True)
def contour_sum(
    kind: int,
    tau: float,
    first: FirstLoss,
    step: float,
    rule: Rule,
    images_of: Images,
    laplace: LaplaceFactors,
) -> tuple[float, float, float]:
    """The trapezoid sum over the nodes kept, its rounding error, and the largest factor of a node left out.

    Args:
        kind: FIRST (P(Z >= z)), SECOND (Q(Z >= z)) or DELTA.
        tau: Shift of the contour; above 0, or above -step for SECOND.
        first: The first loss of the sum.
        step: h.
        rule: The nodes kept.
        images_of: The images that count there.
        laplace: The Laplace factors there.
    """
    place, gap = first
    n_points, nodes, versines, sines, decays, phase_rates, sizes, error_bases, error_rates = rule
    pair_starts, pair_powers, image_starts, image_logs, image_rates = images_of
    laplace_angles, laplace_powers, laplace_masses = laplace
    turn = 2.0 * math.pi / n_points
    total = error = 0.0
    first_part = -math.expm1(-gap)
    second_part = -math.exp(-gap) * math.expm1(min(gap - step, 0.0))
    for j in range(nodes.size):
        angle = nodes[j] * place % n_points
        if 2 * angle > n_points:
            angle -= n_points
        term = cmath.exp(complex(-decays[j], tau * phase_rates[j] - turn * angle))
        for pair in range(pair_starts[j], pair_starts[j + 1]):
            images = 1.0 + 0.0j
            for image in range(image_starts[pair], image_starts[pair + 1]):
                images += cmath.exp(complex(image_logs[image], tau * image_rates[image]))
            term *= _power(images, pair_powers[pair])
        for i in range(laplace_powers.size):
            value = 0.0j
            for k in range(laplace_masses.shape[1]):
                value += laplace_masses[i, k] * cmath.exp(complex(0.0, k * laplace_angles[j, i]))
            term *= _power(value, laplace_powers[i])
        if kind == FIRST:
            factor = 1.0 / _geometric(tau, versines[j], sines[j])
            size = abs(factor)
        elif kind == SECOND:
            factor = 1.0 / _geometric(tau + step, versines[j], sines[j])
            size = abs(factor)
        else:
            shift = math.exp(-tau) * complex(1.0 - versines[j], -sines[j])
            below = _geometric(tau, versines[j], sines[j]) * _geometric(tau + step, versines[j], sines[j])
            factor = (first_part + shift * second_part) / below
            size = (first_part + math.exp(-tau) * second_part) / abs(below)
        count = 1.0 if nodes[j] == 0 else 2.0
        total += count * (term * factor).real
        error += count * sizes[j] * size * (error_bases[j] + abs(tau) * error_rates[j])
    if kind == FIRST:
        largest = -1.0 / math.expm1(-tau)
    elif kind == SECOND:
        largest = -1.0 / math.expm1(-tau - step)
    else:
        largest = (first_part + math.exp(-tau) * second_part) / (math.expm1(-tau) * math.expm1(-tau - step))
    return total / n_points, error * UNIT * 1.001 / n_points, largest


def contour_sum_reference(
    kind: int, tau: float, first: FirstLoss, step: float, n_points: int, gaussians: GaussianFactors
) -> float:
    """Oracle of `contour_sum` for Gaussian factors: all nodes of the rule, the transform from its definition."""
    s = tau + 2j * np.pi * (np.arange(n_points) - n_points // 2) / n_points
    transform = np.ones(n_points, dtype=complex)
    for a, v, n in zip(*gaussians, strict=True):
        reach = math.ceil(12 * math.sqrt(v) + abs(v * a * tau)) + 5
        x = np.arange(-reach, reach + 1)
        mass = np.exp(-((x - v * a * tau) ** 2) / (2 * v))
        theta_constant = 1 + 2 * sum(math.exp(-2 * math.pi**2 * v * k * k) for k in range(1, 8))
        images = mass @ np.exp(1j * np.outer(x, a * s.imag)) / math.sqrt(2 * math.pi * v)
        transform *= (images / theta_constant) ** n * theta_constant**n
    first_factor, second_factor = 1 / (1 - np.exp(-s)), 1 / (1 - np.exp(-s - step))
    factor = (first_factor, second_factor, first_factor - math.exp(-first.gap) * second_factor)[kind]
    return float(np.mean((transform * np.exp(-1j * s.imag * first.place) * factor).real))


@njit(nogil=True, cache=True)
def tilted_laplace(tau: float, weights: Floats, log_masses: Floats, masses: Floats) -> tuple[float, float]:
    """Tilt the Laplace factors; return the slope and curvature of the sum of their log transforms at tau.

    Args:
        tau: Tilt.
        weights: [factors, 3]: a, n, and room for the log transform of one answer, changed in place.
        log_masses: [factors, most k + 1], logarithms of the probabilities of i = 0..k, -inf beyond.
        masses: Tilted probabilities, changed in place.
    """
    slope = curvature = 0.0
    for i in range(weights.shape[0]):
        rate = tau * weights[i, 0]
        top = -math.inf
        for k in range(log_masses.shape[1]):
            top = max(top, log_masses[i, k] + rate * k)
        total = mean = square = 0.0
        for k in range(log_masses.shape[1]):
            masses[i, k] = math.exp(log_masses[i, k] + rate * k - top)
            total += masses[i, k]
            mean += k * masses[i, k]
        mean /= total
        for k in range(log_masses.shape[1]):
            masses[i, k] /= total
            square += (k - mean) ** 2 * masses[i, k]
        weights[i, 2] = top + math.log(total)
        slope += weights[i, 1] * weights[i, 0] * mean
        curvature += weights[i, 1] * weights[i, 0] ** 2 * square
    return slope, curvature


@njit(nogil=True, cache=True)
def saddle(target: float, variance: float, weights: Floats, log_masses: Floats, masses: Floats) -> float:
    """The tilt at which Z has mean `target`, to a twentieth of a standard deviation; any tilt is valid.

    Args:
        target: Inside the support.
        variance: V of the Gaussian part.
        weights: As in `tilted_laplace`, which also says what happens to it and to `masses`.
        log_masses: As there.
        masses: As there.
    """
    if weights.shape[0] == 0:
        return target / variance
    low, high = -math.inf, math.inf
    tau = 0.0
    for _ in range(200):
        slope, curvature = tilted_laplace(tau, weights, log_masses, masses)
        miss = target - slope - variance * tau
        spread = curvature + variance
        if abs(miss) <= 0.05 * math.sqrt(spread):
            break
        if miss > 0:
            low = tau
        else:
            high = tau
        # Newton far from the root may leap: hold it to eight standard deviations and inside the bracket.
        leap = 8.0 / math.sqrt(spread + 0.01)
        new = tau + min(max(miss / (spread + 1e-300), -leap), leap)
        if not low < new < high:
            new = 0.5 * (low + high)
        tau = new
    return tau
