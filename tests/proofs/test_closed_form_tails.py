"""The steps of docs/proofs/closed-form.md about the place of epsilon and about tails, in fractions and in balls."""

import math
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from flint import arb
from tests.proofs.gaussian_balls import ball, density, random_losses
from tests.samples import every

from tallyveil.accounting.engines.lattice_points import LossPoints, log_tail, scaled_tail
from tallyveil.accounting.losses import lattice_of
from tallyveil.noise.balls import precision

SEEDS = every(10, range(100))


@pytest.fixture(autouse=True)
def many_digits():
    with precision(200):
        yield


def near_points(random, points):
    """Epsilons at, just beside and between the points of a lattice, many enough for the arrays of floats."""
    found = []
    for _ in range(40):
        z = random.randint(0, 10**6)
        exact = Fraction(points.offset + points.step * z, points.unit)
        one = float(exact)
        found += [one, math.nextafter(one, 0), math.nextafter(one, math.inf), one * (1 + 1e-9)]
    return [one for one in found if one > 0]


def least_above(points, epsilon):
    z = (Fraction(epsilon) * points.unit - points.offset) // points.step + 1
    return int(z), (points.offset + points.step * z) / Fraction(points.unit) - Fraction(epsilon)


@pytest.mark.parametrize("seed", SEEDS)
def test_c8_the_place_of_epsilon_is_exact(seed):
    random, losses = random_losses(seed)
    points = LossPoints.of(lattice_of(tuple(losses)))
    epsilons = near_points(random, points)
    places = points.places(epsilons)
    for i, epsilon in enumerate(epsilons):
        z, gap = least_above(points, epsilon)
        assert places.firsts[i] == z
        error = abs(Fraction(float(places.gaps[i])) - gap)
        assert error <= Fraction(float(places.slips[i])) + gap / 2**52
        assert float(places.slips[i]) < 0.75 * float(places.gaps[i])


def test_c8_fails_without_the_margin():
    random, losses = random_losses(3)
    points = LossPoints.of(lattice_of(tuple(losses)))
    step, offset = points.step / points.unit, points.offset / points.unit
    epsilons = near_points(random, points)
    naive = [math.floor((one - offset) / step) + 1 for one in epsilons]
    assert any(z != least_above(points, one)[0] for z, one in zip(naive, epsilons, strict=True))


def tail_sum(y, variance):
    terms = math.ceil(math.sqrt(y * y + 500 * float(variance)) - y) + 2
    return sum((-ball(2 * y * k + k * k) / (2 * ball(variance))).exp() for k in range(terms))


@pytest.mark.parametrize("seed", SEEDS)
def test_c9_summed_tails_err_by_no_more_than_they_say(seed):
    random = Random(f"summed {seed}")
    variance = Fraction(random.randint(1, 4000), random.choice([4, 5, 7]))
    y = random.randint(-math.isqrt(math.ceil(variance)) + 1, 5 * math.isqrt(math.ceil(variance)))
    with precision(160):
        value, error = scaled_tail(np.array([float(y)]), float(variance))
        exact = tail_sum(y, variance)
        assert abs(arb(float(value[0])) - exact) <= arb(float(error[0]))
        assert float(error[0]) < 1e-11 * float(value[0])


def test_c9_fails_without_its_error():
    misses = 0
    for seed in range(8):
        random = Random(f"summed {seed}")
        variance, y = Fraction(random.randint(100, 4000), 7), random.randint(0, 20)
        value, _ = scaled_tail(np.array([float(y)]), float(variance))
        misses += abs(arb(float(value[0])) - tail_sum(y, variance)) > 1e-17
    assert misses


BERNOULLI = [Fraction(1, 6), Fraction(-1, 30), Fraction(1, 42), Fraction(-1, 30), Fraction(5, 66)]


def hermite(n, u):
    before, here = arb(1), u
    for k in range(1, n):
        before, here = here, u * here - k * before
    return here


def expansion(y, variance, corrections):
    """Euler and Maclaurin's expansion of R, with this number of corrections."""
    v = ball(variance)
    u = ball(y) / v.sqrt()
    value = (arb.pi() * v / 2).sqrt() * (u * u / 2).exp() * (u / arb(2).sqrt()).erfc() + arb(1) / 2
    for j in range(1, corrections + 1):
        scale = v.sqrt() / v**j
        value += ball(BERNOULLI[j - 1] / math.factorial(2 * j)) * scale * hermite(2 * j - 1, u)
    return value


def rest_of(y, variance):
    """The bound of the proof, for one u: 12! s^-12 V^(-11/2) sqrt(2 pi) exp(|u| s + s^2) times 7 |B_12| / 12!."""
    v = ball(variance)
    u = abs(ball(y)) / v.sqrt()
    s = ((u * u + 96).sqrt() - u) / 4
    cauchy = math.factorial(12) / s**12 * v.sqrt() / v**6 * (2 * arb.pi()).sqrt() * (u * s + s * s).exp()
    return 7 * ball(Fraction(691, 2730) / math.factorial(12)) * cauchy


def random_wide(seed):
    random = Random(f"expanded {seed}")
    variance = Fraction(random.randint(1000, 2000))
    return variance, random.randint(-math.isqrt(int(variance)), int(variance) // 10)


@pytest.mark.parametrize("seed", SEEDS)
def test_c10_the_rest_of_the_expansion_is_below_its_bound(seed):
    variance, y = random_wide(seed)
    with precision(200):
        exact = tail_sum(y, variance)
        assert abs(exact - expansion(y, variance, 5)) <= rest_of(y, variance)
        value, error = scaled_tail(np.array([float(y)]), float(variance))
        assert abs(arb(float(value[0])) - exact) <= arb(float(error[0]))


def test_c10_fails_with_fewer_corrections():
    with precision(200):
        assert abs(tail_sum(3, 1000) - expansion(3, 1000, 1)) > rest_of(3, 1000)


@pytest.mark.parametrize("seed", SEEDS)
def test_c11_tails_hold_where_the_error_function_is_a_series(seed):
    """From u / sqrt(2) = 8 on; the value of the tail is compared, whose logarithm contains the series."""
    random = Random(f"series {seed}")
    variance = Fraction(random.randint(40_000, 90_000))
    y = random.randint(12, 19) * math.isqrt(int(variance))
    with precision(200):
        value, error = log_tail(np.array([float(y)]), float(variance))
        exact = (density(y, variance) * tail_sum(y, variance)).log()
        assert abs(arb(float(value[0])) - exact) <= arb(float(error[0]))


def test_c11_fails_with_two_terms_of_the_series():
    t = arb(9)
    exact = (t * t).exp() * t.erfc()
    short = (1 - 1 / (2 * t * t)) / (t * arb.pi().sqrt())
    assert abs(short - exact) > arb(10) ** -17
