"""Rounding errors of the dithered contour, beside the table of docs/proofs/off-lattice.md, section 5, term by term.

The bounds are far above the errors that occur, so a comparison with true errors would not notice a missing term.
"""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tallyveil.accounting.engines.dithered import (
    DitheredContour,
    Scan,
    _dither,
    _gaussian_part,
    _List,
    _listed_part,
    _lists,
    contour_at,
    log_moment_bounds,
)
from tallyveil.accounting.engines.loss_transform import UNIT, Depth, GaussianFactors, Windows, atoms
from tallyveil.accounting.engines.moments import certified_log_moment
from tallyveil.accounting.losses import GaussianLoss, LaplaceLoss
from tallyveil.accounting.numbers import Bounds

WIDE = [
    GaussianLoss(Fraction(1, 4), 1, 6),
    GaussianLoss(Fraction(7, 2), 2, 3),
    GaussianLoss(Fraction(60), 1, 1),
]
OTHERS = (LaplaceLoss(Fraction(3, 2), 2, 2), GaussianLoss(Fraction(1, 5), 1, 1))
GAUSSIANS = GaussianFactors.of(WIDE)
FREQUENCIES = np.array([0.0, 0.3, 0.79, 1.57, 40.1, 1e7, 3e13])
"""Images count at some; the last two are so far out that places within a period are rounded visibly."""

TILTS = (-0.6, 0.4, 2.0)
SCAN = Scan(
    GAUSSIANS, OTHERS, Depth(20.0, 0.3, 12), Windows(np.zeros(1), np.full(1, 30.0), 5.0, 160.0, 6), 3.0
)


@pytest.mark.parametrize("s", TILTS)
def test_roundings_of_gaussian_transforms(s: float) -> None:
    part = _gaussian_part(GAUSSIANS, FREQUENCIES, s)
    kinds, variance = len(WIDE), sum(f.multiplicity * f.sensitivity**2 / float(f.variance) for f in WIDE)
    places = {}
    for factor in WIDE:
        period = 2 * math.pi * float(factor.variance) / factor.sensitivity
        places[factor] = FREQUENCIES - np.floor(FREQUENCIES / period + 0.5) * period
    for at, u in enumerate(FREQUENCIES.tolist()):
        decay = pull = 0.0
        for factor, d in places.items():
            weight = factor.multiplicity * factor.sensitivity**2 / float(factor.variance)
            decay += weight * d[at] ** 2 / 2
            pull += weight * abs(d[at])
        error = 12 * u * pull + 72 * UNIT * u * u * variance + 13 * abs(s) * u * variance
        error += (8 + 2 * kinds) * decay + (12 + kinds) * abs(s) * pull + 300 + kinds
        log_size = -decay
        for factor, d in places.items():
            v, k, m = float(factor.variance), factor.sensitivity, factor.multiplicity
            # At the node where the images are largest.
            if 2 * math.pi * (math.pi * v - k * abs(d).max()) >= 60 + math.log(m):
                continue
            total = 0.0
            for n in (-3, -2, -1, 1, 2, 3):
                size = math.exp(-2 * math.pi * n * (math.pi * v * n - k * d[at]))
                total += size
                terms = 80 * abs(n) * k * u + 50 * abs(n) * (math.pi * v * abs(n) + k * abs(d[at])) + 80
                error += m * size * terms
            error += m * (16 * (math.log2(m) + 3) * total + 1e-8) + 10
            log_size += m * math.log1p(total)
        assert part.errors[at] == pytest.approx(error, rel=1e-9)
        assert part.sizes[at] == pytest.approx(math.exp(log_size), rel=1e-9, abs=0)


def test_roundings_of_listed_transforms_and_of_products() -> None:
    factor, power = LaplaceLoss(Fraction(3, 2), 5, 1), 7
    tilted = atoms(factor, Fraction(1, 3))
    law = _List(0.7 * (np.arange(6) - 3.0), tilted.weights, 1e-12, Fraction(0), power)
    numbers, step = np.array([0, 3, 79, 157, 4_010, 10**9, 3 * 10**15]), 0.01
    distances = 0.7 * sum(abs(i - 3) * mass for i, mass in enumerate(tilted.weights.tolist()))
    for count, times in ((7, 1), (10**6, 8)):
        _, errors = _listed_part(law, numbers, step, count)
        for number, error in zip(numbers.tolist(), errors.tolist(), strict=True):
            phases = distances * step * number
            own = 2e-12 / UNIT + times * (12 * phases + (120 + 6) * min(2, phases)) + 8
            assert error == pytest.approx(power * own, rel=1e-9)
    errors = np.arange(7.0)
    part = _gaussian_part(GAUSSIANS, FREQUENCIES, 0.4)
    values = np.full(FREQUENCIES.size, 0.5 + 0.1j)
    both = part.times(values, errors)
    np.testing.assert_allclose(both.values, part.values * values)
    np.testing.assert_allclose(both.errors, part.errors + errors + 8)
    assert both.sizes is part.sizes


@pytest.mark.parametrize("s", TILTS)
def test_the_transform_of_the_dither_its_size_and_its_rounding(s: float) -> None:
    half_width, parts = 3.7, 12
    values, sizes, errors = _dither(s, FREQUENCIES[1:5], half_width, parts)
    for u, value, size, error in zip(FREQUENCIES[1:5], values, sizes, errors, strict=True):
        w = complex(s, u) * half_width / parts
        one = np.sinh(w) / w
        assert value == pytest.approx(one**parts, rel=1e-12)
        modulus = abs(one) + 0.01
        assert size == pytest.approx(modulus**parts, rel=1e-9, abs=0)
        assert error == pytest.approx(100 * parts * (modulus + 1) * modulus ** (parts - 1), rel=1e-9, abs=0)


@pytest.mark.parametrize("s", TILTS)
def test_the_rounding_of_a_sum_adds_up_over_its_nodes(s: float) -> None:
    contour = contour_at(SCAN, s, 9.0, s)
    u = contour.frequencies
    numbers = np.rint(u / (2 * math.pi / 9)).astype(np.int64)
    part = _gaussian_part(GAUSSIANS, u, s)
    for factor in OTHERS:
        law = _lists([factor], s, float(u.max()))[factor]
        part = part.times(*_listed_part(law, numbers, 2 * math.pi / 9, u.size))
    z = s + 1j * u
    flat = np.where(u == 0, 1.0, 2.0) / 9.0 / abs(z * (z + 1))
    for wide in (0, 1):
        _, kernel, error = _dither(s, u, 0.3 * (wide + 1), 12)
        rough = 1.001 * flat * part.sizes
        relative = np.expm1(1.01 * UNIT * part.errors)
        fixed, growth = contour.roundings[wide]
        wanted = (rough * (relative * kernel + 1.01 * UNIT * (error + u.size * kernel))).sum()
        assert fixed == pytest.approx(1.01 * wanted, rel=1e-9, abs=0)
        assert growth == pytest.approx(1.01 * UNIT * 8 * (rough * kernel * u).sum(), rel=1e-9, abs=0)


def with_rounding_only(s: float) -> DitheredContour:
    """A contour on which nothing is left out."""
    depth = replace(SCAN.depth, depth=700.0)
    windows = replace(SCAN.windows, end=1e40)
    return replace(contour_at(SCAN, s, 9.0, s), scan=replace(SCAN, depth=depth, windows=windows))


@pytest.mark.parametrize("s", TILTS)
def test_the_rounding_of_a_phase_grows_with_the_distance_from_the_centre(s: float) -> None:
    contour = with_rounding_only(s)
    for wide in (0, 1):
        fixed, growth = contour.roundings[wide]
        for away in (0.0, -3.0, 1e6):
            ((_, errors),) = contour.sums_at([contour.centre - Fraction(away)], [(wide, Fraction(0))])
            assert errors[0] == pytest.approx(fixed + growth * abs(away), rel=1e-9, abs=0)


@pytest.mark.parametrize("s", TILTS)
def test_units_of_sums_are_rounded_outwards_by_their_size(s: float) -> None:
    contour = replace(with_rounding_only(s), log_unit=Bounds(-5.0, -4.0))
    epsilons = np.array([0.0, 1.7, -3e5])
    lower, upper = contour.log_scales(epsilons)
    slack = 8 * UNIT * (np.abs(s * epsilons) + 4.0)
    np.testing.assert_allclose(-5.0 - s * epsilons - lower, slack, rtol=0.4, atol=1e-15)
    np.testing.assert_allclose(upper - (-4.0 - s * epsilons), slack, rtol=0.4, atol=1e-15)


@pytest.mark.parametrize("s", [-0.6, 2.0, 1e7])
def test_the_logarithm_of_the_moment_is_known_from_both_sides(s: float) -> None:
    """The Gaussian part is exact but for rounding, the rest is a ball, and the constant is taken off."""
    gaussian = float((Fraction(s) + Fraction(s) ** 2) * GAUSSIANS.variance / 2)
    for others in ((), OTHERS[:1]):
        rest = certified_log_moment(others, Fraction(s), Fraction(0)) if others else Bounds(0.0, 0.0)
        found = log_moment_bounds(replace(SCAN, others=others), s, 2.5)
        exact = gaussian - 2.5 + rest.upper
        slack = UNIT * (64 * (abs(gaussian) + 2.5) + 4 * (abs(gaussian - 2.5) + abs(rest.upper)))
        assert found.upper - exact == pytest.approx(slack, rel=0.1, abs=0)
        assert gaussian - 2.5 + rest.lower - found.lower == pytest.approx(slack, rel=0.1, abs=0)


@pytest.mark.parametrize("s", TILTS)
def test_the_bound_of_what_wraps_around_is_that_of_the_proof(s: float) -> None:
    """A geometric series on the side where little is known, and Chernoff's bound on the other one."""
    contour = replace(
        with_rounding_only(s), log_unit=Bounds(-1.5, -1.5), further=(s + 0.7 if s > 0 else -0.9, 2.25)
    )
    there, _ = contour.further
    for wide in (1, 2):
        for epsilon in (-4.0, 0.5, 6.0):
            unit, apart = -1.5 - s * epsilon, abs(there - s) * 9.0
            exponents = [-abs(s) * 9.0, 2.25 - there * epsilon + abs(there) * wide * 0.3 - apart]
            decays = [abs(s) * 9.0, apart]
            wanted = sum(
                math.exp(one - unit) / (1 - math.exp(-decay))
                for one, decay in zip(exponents, decays, strict=True)
            )
            (found,) = contour.wrap_around(np.array([epsilon]), wide).tolist()
            assert found == pytest.approx(wanted, rel=2e-9, abs=0)
            assert found > wanted
    # Where the roundings of exponents are much larger than anything else, and only Chernoff's bound counts.
    huge, unit, apart = 3e12, 2e12, abs(there - s) * 4e12
    far = replace(
        contour,
        period=4e12,
        log_unit=Bounds(unit + s * huge, math.inf),
        further=(there, unit + there * huge + apart),
    )
    (found,) = far.wrap_around(np.array([huge]), 1).tolist()
    sizes = unit + abs(unit + there * huge + apart) + abs(there * huge) + abs(s * huge) + apart
    wanted = math.exp(abs(there) * 0.3 + 1e-9 + 64 * UNIT * sizes)
    assert found == pytest.approx(wanted, rel=5e-3)
