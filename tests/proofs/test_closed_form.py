"""The steps of docs/proofs/closed-form.md about the law and delta, in fractions and in balls.

The laws are summed term by term, to 17 standard deviations or more. What is left out is below 10^-60; the comparisons
allow for more.
"""

import math
from fractions import Fraction
from itertools import product
from random import Random

import pytest
from flint import acb, arb
from tests.proofs.gaussian_balls import ball, density, near, random_losses, theta, weights_of
from tests.samples import every

from tallyveil.accounting.engines.closed_form import ClosedForm, coset_excess
from tallyveil.accounting.engines.lattice_points import log_theta_constant
from tallyveil.accounting.losses import GaussianLoss, LossLattice, lattice_of
from tallyveil.noise.balls import precision

SEEDS = every(10, range(100))
BITS = 260


@pytest.fixture(autouse=True)
def many_digits():
    with precision(BITS):
        yield


def random_factors(seed, large=True):
    """One to three answers with whole weights that have no common divisor; variances from 1/4 on."""
    random = Random(f"closed form {seed}")
    weights = [1, *(random.randint(1, 3) for _ in range(random.randint(0, 2)))]
    return random, [
        (a, Fraction(random.randint(2, 24 if large else 6), random.choice([2, 4, 8]))) for a in weights
    ]


def law_of(factors, weight=weights_of):
    """The law of Z, and the variance V."""
    total = {0: arb(1)}
    for a, v in factors:
        one = weight(v, 14 * math.isqrt(math.ceil(v)) + 22)
        rho, before, total = sum(one.values()), total, {}
        for z, p in before.items():
            for x, w in one.items():
                total[z + a * x] = total.get(z + a * x, arb(0)) + p * w / rho
    return total, sum(a * a * v for a, v in factors)


@pytest.mark.parametrize("seed", SEEDS)
def test_c1_the_constant_of_a_law_is_a_theta_function(seed):
    _, factors = random_factors(seed)
    for _, v in factors:
        rho = sum(weights_of(v, 14 * math.isqrt(math.ceil(v)) + 22).values())
        assert near(rho / (2 * arb.pi() * ball(v)).sqrt(), theta(v))
        assert abs(arb(log_theta_constant(float(v))) - theta(v).log()) < 1e-14


def test_c1_fails_for_another_variance():
    assert not near(theta(Fraction(1, 2)), theta(Fraction(11, 20)))


def by_images(factors, tau, at):
    """The product of sums over images, over C."""
    whole = acb(1)
    for a, v in factors:
        whole *= sum(
            (ball(v) * (a * acb(tau, at) + 2 * arb.pi() * acb(0, k)) ** 2 / 2).exp() for k in range(-40, 41)
        )
        whole /= theta(v)
    return whole


@pytest.mark.parametrize("seed", SEEDS)
def test_c2_the_transform_is_a_product_of_sums_over_images(seed):
    random, factors = random_factors(seed, large=False)
    tau, at = ball(Fraction(random.randint(-9, 9), 10)), ball(Fraction(random.randint(-31, 31), 10))
    law, _ = law_of(factors)
    direct = sum((p * (acb(tau, at) * z).exp() for z, p in law.items()), acb(0))
    assert near(direct, by_images(factors, tau, at), 30)


def test_c2_fails_without_the_images():
    factors, (tau, at) = [(1, Fraction(1, 2))], (arb(0), arb(3))
    law, _ = law_of(factors)
    direct = sum((p * (acb(tau, at) * z).exp() for z, p in law.items()), acb(0))
    only = (ball(Fraction(1, 2)) * acb(tau, at) ** 2 / 2).exp() / theta(Fraction(1, 2))
    assert not near(direct, only, 30)


GRID = list(product(range(3), repeat=6))
"""Both sides of each identity are polynomials of degree two or less in each of six variables. If they are equal for
three values of each variable, they are the same polynomial."""


def test_c3_equal_images_make_up_the_gaussian_and_moduli_do_not_depend_on_tau():
    """A proof: v (a u + c a k)^2 = v a^2 (u + c k)^2, and Re v (a (t + iu) + ick)^2 = v a^2 t^2 - v (a u + c k)^2."""
    for v, a, t, u, c, k in GRID:
        assert v * (a * u + c * a * k) ** 2 == v * a * a * (u + c * k) ** 2
        real, imaginary = a * t, a * u + c * k
        assert v * (real * real - imaginary * imaginary) == v * a * a * t * t - v * (a * u + c * k) ** 2


def test_c3_fails_for_unequal_images():
    """With k_i = 1 in one factor alone, the exponents are not those of an image of the Gaussian."""
    factors, u, c = [(1, 2), (1, 3)], 5, 7
    exponent = sum(v * (a * u + c * k) ** 2 for (a, v), k in zip(factors, (1, 0), strict=True))
    variance = sum(v * a * a for a, v in factors)
    assert all(exponent != variance * (u + c * k) ** 2 for k in range(-9, 10))


def relative_errors(factors, weight=weights_of):
    """C p(z) / g(z) - 1 at whole z out to nine standard deviations."""
    law, variance = law_of(factors, weight)
    constant = arb(1)
    for _, v in factors:
        constant *= theta(v)
    reach = 9 * math.isqrt(math.ceil(variance))
    return {z: constant * law[z] / density(z, variance) - 1 for z in range(-reach, reach + 1)}


@pytest.mark.parametrize("seed", SEEDS)
def test_c4_the_relative_error_is_largest_at_zero(seed):
    _, factors = random_factors(seed, large=False)
    errors = relative_errors(factors)
    eta = errors[0] + arb(10) ** -60
    assert eta > 0
    assert all(abs(error) <= eta for error in errors.values())


def test_c4_fails_for_noise_that_is_not_gaussian():
    def laplace(v, reach):
        return {x: (-ball(abs(x)) / ball(v).sqrt()).exp() for x in range(-reach, reach + 1)}

    errors = relative_errors([(1, Fraction(1)), (1, Fraction(2))], laplace)
    assert any(abs(error) > abs(errors[0]) for error in errors.values())


def trapezoid(masses, n):
    """The mean of the transform of a law over n points."""
    angles = [2 * arb.pi() * j / n for j in range(n)]
    return (
        sum(
            sum((ball(p) * acb(0, z * angle).exp() for z, p in masses.items()), acb(0)) for angle in angles
        ).real
        / n
    )


def random_masses(random, signed):
    values = [Fraction(random.randint(-9 if signed else 1, 9), 7) for _ in range(random.randint(3, 9))]
    return {z - len(values) // 2: value for z, value in enumerate(values)}


@pytest.mark.parametrize("seed", SEEDS)
def test_c5_the_trapezoid_rule_counts_too_much(seed):
    """It is the sum of the masses at multiples of n, and so at least the mass at zero."""
    random = Random(f"trapezoid {seed}")
    masses, n = random_masses(random, signed=False), random.randint(1, 7)
    mean = trapezoid(masses, n)
    assert near(mean, ball(sum(p for z, p in masses.items() if z % n == 0)))
    assert mean > ball(masses[0]) - arb(10) ** -60


def test_c5_fails_without_masses_above_zero():
    masses = {-1: Fraction(1, 4), 0: Fraction(1), 1: Fraction(-1, 2)}
    assert trapezoid(masses, 1) < ball(masses[0])


@pytest.mark.parametrize("seed", SEEDS)
def test_c5_the_engines_eta_is_an_upper_bound(seed):
    _, factors = random_factors(seed, large=False)
    eta = relative_errors(factors)[0]
    losses = tuple(GaussianLoss(v, 1, 1) for _, v in factors)
    lattice = LossLattice(Fraction(1), Fraction(0), tuple(a for a, _ in factors))
    points = 10 * math.isqrt(math.ceil(sum(a * a * v for a, v in factors))) + 21 | 1
    found = coset_excess(losses, lattice, points)
    assert not isinstance(found, str)
    assert eta <= found
    spread = sum(a * a * float(v) for a, v in factors)
    assert found <= float(eta) * 1.001 + 1e-12 + 4 * math.exp(-(math.pi**2) * spread / 2)


def delta_by_definition(losses, epsilon):
    """The sum of P - exp(epsilon) Q where it is positive. Both laws are of Z; Q is made of laws moved by -k."""
    lattice = lattice_of(tuple(losses))
    laws = []
    for moved in (0, 1):
        total = {0: arb(1)}
        for loss, a in zip(losses, lattice.weights, strict=True):
            one = weights_of(loss.variance, 14 * math.isqrt(math.ceil(loss.variance)) + 22)
            rho, before, total = sum(one.values()), total, {}
            for z, p in before.items():
                for x, w in one.items():
                    place = z + a * (x - moved * loss.sensitivity)
                    total[place] = total.get(place, arb(0)) + p * w / rho
        laws.append(total)
    factor = ball(epsilon).exp()
    return sum(
        (
            p - factor * laws[1].get(z, arb(0))
            for z, p in laws[0].items()
            if lattice.offset + lattice.step * z > Fraction(epsilon)
        ),
        arb(0),
    ), laws


@pytest.mark.parametrize("seed", SEEDS)
def test_c6_the_second_law_is_the_first_one_moved_by_m(seed):
    _, losses = random_losses(seed)
    lattice = lattice_of(tuple(losses))
    m = 2 * lattice.offset / lattice.step
    assert m.denominator == 1
    assert m == sum(a * loss.sensitivity for a, loss in zip(lattice.weights, losses, strict=True))
    _, (first, second) = delta_by_definition(losses, 1.0)
    for z in range(-20, 20):
        assert near(second[z], first[z + int(m)])


@pytest.mark.parametrize("seed", SEEDS)
def test_c7_the_engines_delta_is_the_definition(seed):
    """At epsilons of either sign, and far on either side of the mean of the loss."""
    random, losses = random_losses(seed)
    engine = ClosedForm.build(tuple(losses))
    if engine is None:
        assert "differs from one Gaussian" in ClosedForm.why_not(tuple(losses))
        return
    spread = math.sqrt(engine.points.mirror * engine.points.step / engine.points.unit)
    for deviations in (-6, -1.01, -0.5, 0.5, 3):
        epsilon = float(spread**2 / 2 + deviations * spread + random.random() / 50)
        exact, _ = delta_by_definition(losses, epsilon)
        found = engine.log_deltas([epsilon])[0]
        assert arb(found.lower).exp() <= exact + arb(10) ** -50
        assert arb(found.upper).exp() >= exact - arb(10) ** -50


def gaussian_sum(y, variance, mirror, f):
    """(the sum over z >= y of g(z) (1 - exp(epsilon - W - h z)), and g(y) times the form with R), h = m / V."""
    v, terms = ball(variance), range(y, y + 40 * math.isqrt(math.ceil(variance)) + 80)
    h = ball(mirror) / v
    direct = sum(density(z, variance) * (1 - (-f - h * (z - y)).exp()) for z in terms)

    def r(first):
        return sum((-ball(2 * first * k + k * k) / (2 * v)).exp() for k in range(len(terms)))

    here, there = r(y), r(y + mirror)
    return direct, density(y, variance) * ((here - there) + (1 - (-f).exp()) * there)


@pytest.mark.parametrize("seed", SEEDS)
def test_c6_the_excess_is_a_difference_of_two_tails(seed):
    random = Random(f"excess {seed}")
    variance, mirror = Fraction(random.randint(2, 40), 2), random.randint(1, 12)
    y, f = random.randint(-3, 9), ball(Fraction(random.randint(1, 99), 100))
    direct, short = gaussian_sum(y, variance, mirror, f)
    assert near(direct, short)


def test_c6_fails_with_another_mirror():
    """The law under Q, compared with the law under P moved by one step too many."""
    _, losses = random_losses(0)
    lattice = lattice_of(tuple(losses))
    _, (first, second) = delta_by_definition(losses, 1.0)
    assert not near(second[0], first[int(2 * lattice.offset / lattice.step) + 1])


@pytest.mark.parametrize("seed", SEEDS)
def test_c7_delta_at_minus_epsilon_follows_from_delta_at_epsilon(seed):
    random, losses = random_losses(seed)
    epsilon = Fraction(random.randint(1, 300), 100)
    here, there = delta_by_definition(losses, epsilon)[0], delta_by_definition(losses, -epsilon)[0]
    assert near(there, 1 - ball(-epsilon).exp() * (1 - here))


def test_c7_fails_for_laws_that_are_no_mirror_images():
    """P = (1/2, 1/2), Q = (1/8, 7/8), e^epsilon = 2: the formula gives 5/8, and delta(-epsilon) is 7/16."""
    p, q = (Fraction(1, 2), Fraction(1, 2)), (Fraction(1, 8), Fraction(7, 8))

    def delta(factor):
        return sum(max(a - factor * b, 0) for a, b in zip(p, q, strict=True))

    assert delta(Fraction(1, 2)) != 1 - Fraction(1, 2) * (1 - delta(2))
