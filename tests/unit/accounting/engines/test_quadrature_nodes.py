"""What the quadrature knows about its nodes: transforms beside plain sums, and roundings beside the proof's table.

Bounds on roundings are far above the errors that occur, so no comparison with true errors would notice a term that is
missing. They are computed here a second time, number by number, from docs/proofs/quadrature.md ("Rounding").
"""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from tallyveil.accounting.engines.lattice_points import UNIT, log_theta_constant
from tallyveil.accounting.engines.quadrature import ContourNodes, contour_nodes, laplace_part
from tallyveil.accounting.losses import GaussianLoss, LaplaceLoss, LossFactor, lattice_of

COMPOSITIONS: dict[str, tuple[LossFactor, ...]] = {
    "images that count": (GaussianLoss(Fraction(1, 4), 1, 3), GaussianLoss(Fraction(5, 8), 1, 2)),
    "side peaks": (GaussianLoss(Fraction(3), 1, 2), GaussianLoss(Fraction(9, 2), 2, 3)),
    "Laplace noise too": (
        GaussianLoss(Fraction(5, 2), 2, 2),
        LaplaceLoss(Fraction(5, 3), 3, 2),
        LaplaceLoss(Fraction(1, 4), 1, 1),
    ),
}
KEPT_IMAGE = 42.0
"""Minus the logarithm of an image that is left out, for one answer."""

Pairs = tuple[list[tuple[GaussianLoss, int]], list[tuple[LaplaceLoss, int]]]


def made(name: str) -> tuple[ContourNodes, Pairs]:
    factors = COMPOSITIONS[name]
    lattice = lattice_of(factors)
    gaussians, laplaces = [], []
    for factor, weight in zip(factors, lattice.weights, strict=True):
        if isinstance(factor, GaussianLoss):
            gaussians.append((factor, weight))
        else:
            laplaces.append((factor, weight))
    nodes = contour_nodes(gaussians, laplaces, lattice.step, 401)
    assert not isinstance(nodes, str)
    return nodes, (gaussians, laplaces)


def angle(weight: int, place: int, n_points: int) -> float:
    """The angle a theta of one factor at a node, brought to [-pi, pi]."""
    turns = Fraction(weight * place, n_points)
    return 2 * math.pi * float(turns - round(turns))


def masses_of(factor: LaplaceLoss) -> list[float]:
    k, low = factor.sensitivity, math.exp(-1 / float(factor.scale))
    return [mass / (1 + low) for mass in (low**k, *((1 - low) * low ** (k - i) for i in range(1, k)), 1.0)]


def largest_log(factor: LaplaceLoss) -> float:
    """The largest |ln mass|, and the largest exponent k / t."""
    return -math.log(min(masses_of(factor))) + factor.sensitivity / float(factor.scale)


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_roundings_of_a_node_are_those_of_the_proof(name: str) -> None:
    nodes, (gaussians, laplaces) = made(name)
    kinds = len(gaussians)
    assert nodes.places[0] == 0
    for at, place in enumerate(nodes.places.tolist()):
        base, slope = 200.0 + nodes.places.size, 0.0
        for factor, a in gaussians:
            v, n, x = float(factor.variance), factor.multiplicity, angle(a, place, nodes.n_points)
            base += (8 + kinds) * n * v * x * x / 2
            slope += (8 + kinds) * abs(n * v * a * x)
            base += n * (0.01 if v > 0.5 else 1.0)  # the images from the fourth on
            counts = False
            for k in (-3, -2, -1, 1, 2, 3):
                log_size = -2 * math.pi * v * k * (math.pi * k + x)
                if log_size >= -KEPT_IMAGE - math.log(n):
                    counts = True
                    slope += n * 8 * 2 * math.pi * v * a * abs(k) * math.exp(log_size)
                else:
                    base += n * 1.1 * math.exp(log_size) / UNIT
            base += 60 * n if counts else 0
        for laplace, a in laplaces:
            n, k = laplace.multiplicity, laplace.sensitivity
            base += n * (60 + 8 * k + 8 * largest_log(laplace))
            slope += 8 * n * a * k
        assert nodes.error_bases[at] == pytest.approx(base, rel=1e-6)
        assert nodes.error_rates[at] == pytest.approx(slope, rel=1e-6, abs=1e-9)


def size_of(gaussians: list[tuple[GaussianLoss, int]], place: int, n_points: int) -> mpmath.mpf:
    """C times the modulus of the Gaussian transform at theta, by Poisson's formula."""
    found = mpmath.mpf(1)
    for factor, a in gaussians:
        v = mpmath.mpf(factor.variance.numerator) / factor.variance.denominator
        turns = mpmath.mpf(a * place) / n_points
        found *= (
            sum(mpmath.exp(-2 * mpmath.pi**2 * v * (turns - k) ** 2) for k in range(-a - 9, a + 10))
            ** factor.multiplicity
        )
    return found


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_every_node_is_kept_with_its_size_or_its_size_is_added_to_what_is_left_out(name: str) -> None:
    nodes, (gaussians, _) = made(name)
    sizes = [size_of(gaussians, place, nodes.n_points) for place in range(nodes.n_points // 2 + 1)]
    left_out = mpmath.mpf(0)
    kept = dict(zip(nodes.places.tolist(), nodes.sizes.tolist(), strict=True))
    depth = 46 + math.log(nodes.n_points)
    for place, size in enumerate(sizes):
        if place in kept:
            assert size <= kept[place] <= size * (1 + 1e-8)
            assert size >= mpmath.exp(-depth) * (1 - 1e-9)
        else:
            assert size < mpmath.exp(-depth)
            left_out += 2 * size / nodes.n_points
    constant = math.exp(sum(f.multiplicity * log_theta_constant(float(f.variance)) for f, _ in gaussians))
    assert left_out <= nodes.left_out <= (1.001 * left_out + constant * math.exp(-depth)) * (1 + 1e-9)


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_main_terms_and_images_make_up_the_transform_on_a_shifted_contour(name: str) -> None:
    nodes, (gaussians, _) = made(name)
    tau = 0.37
    total = float(sum(f.multiplicity * a * a * f.variance for f, a in gaussians))
    values = np.exp(-nodes.decays + 1j * tau * nodes.phase_rates)
    for one in nodes.images:
        values[one.nodes] *= (1 + np.exp(1j * tau * one.rates) @ one.sizes) ** one.power
    x = np.arange(-60, 61)
    for at, place in enumerate(nodes.places.tolist()):
        exact = complex(1)
        for factor, a in gaussians:
            mass = np.exp(-(x**2) / (2 * float(factor.variance)) + tau * a * x)
            one = (mass @ np.exp(2j * np.pi * ((a * place * x) % nodes.n_points) / nodes.n_points)).item()
            exact *= (one / math.sqrt(2 * math.pi * float(factor.variance))) ** factor.multiplicity
        wanted = exact * math.exp(-total * tau * tau / 2)
        assert abs(values[at] - wanted) <= 1e-12 * (1 + nodes.sizes[at])
        theta = 2 * math.pi * place / nodes.n_points
        assert nodes.versines[at] == pytest.approx(1 - math.cos(theta), rel=1e-9, abs=1e-15)
        assert nodes.sines[at] == pytest.approx(math.sin(theta), abs=1e-15)


def test_masses_moments_and_phases_of_laplace_noise() -> None:
    laplaces = [(LaplaceLoss(Fraction(5, 3), 3, 2), 4), (LaplaceLoss(Fraction(1, 4), 1, 5), 7)]
    n_points, places = 31, np.array([0, 1, 5, 14, 15])
    part = laplace_part(laplaces, places, n_points)
    mean = spread = largest = reach = 0.0
    for row, (factor, a) in enumerate(laplaces):
        k, n, masses = factor.sensitivity, factor.multiplicity, masses_of(factor)
        assert np.exp(part.log_masses[row, : k + 1]).tolist() == pytest.approx(masses)
        assert np.all(np.isneginf(part.log_masses[row, k + 1 :]))
        centre = sum(a * i * mass for i, mass in enumerate(masses))
        mean += n * centre
        spread += n * sum((a * i - centre) ** 2 * mass for i, mass in enumerate(masses))
        largest += n * largest_log(factor)
        reach += n * a * k
        turned = np.exp(2j * np.pi * np.outer(np.arange(k + 1) * a, places) / n_points)
        np.testing.assert_allclose(part.phases[row], turned, atol=1e-13)
    assert (part.mean, part.spread) == pytest.approx((mean, spread))
    assert (part.largest_log, part.reach) == pytest.approx((largest, reach))
    assert part.weights.tolist() == [4.0, 7.0]
    assert part.powers.tolist() == [2, 5]
