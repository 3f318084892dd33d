"""Transforms of losses, and their error bounds, against ball arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import acb, arb

from tallyveil.accounting.engines.dithered_contour import _listed_part
from tallyveil.accounting.engines.loss_transform import (
    UNIT,
    atoms,
    centred,
    listed_power,
    power_of,
    power_with_error,
    wide_exponents,
    wide_power,
)
from tallyveil.accounting.losses.factors import GaussianLoss, LaplaceLoss
from tallyveil.noise.balls import precision, rational

BITS = 300
LENGTH = 48
FREQUENCIES = np.arange(LENGTH // 2 + 1)


def ball(value: complex) -> acb:
    return acb(arb(value.real), arb(value.imag))


def exact_transform(factor: GaussianLoss | LaplaceLoss, tilt: Fraction, angle: arb, start: int) -> acb:
    """E exp(i angle (x - start)) of the tilted integer, from its definition."""
    if isinstance(factor, GaussianLoss):
        centre = round(tilt * factor.sensitivity)
        reach = math.ceil(math.sqrt(1400 * float(factor.variance))) + 3
        values = range(centre - reach, centre + reach + 1)
        slope = rational(-1 / (2 * factor.variance))
        masses = [(slope * rational((x - tilt * factor.sensitivity) ** 2)).exp() for x in values]
    else:
        k, a = factor.sensitivity, rational(-1 / factor.scale).exp()
        values = range(k + 1)
        growth = rational(2 * tilt / factor.scale).exp()
        weights = [a**k, *((1 - a) * a ** (k - i) for i in range(1, k)), arb(1)]
        masses = [weight * growth**i for i, weight in enumerate(weights)]
    total = sum(masses, arb(0))
    terms = [acb(0, angle * (x - start)).exp() * mass for x, mass in zip(values, masses, strict=True)]
    return sum(terms, acb(0)) / total


@pytest.mark.parametrize("multiplicity", [1, 6])
@pytest.mark.parametrize("tilt", [Fraction(0), Fraction(3, 7), Fraction(-1, 2), Fraction(5, 2)])
@pytest.mark.parametrize("variance", [Fraction(2), Fraction(7, 3), Fraction(30)])
def test_the_closed_form_of_wide_noise_errs_by_less_than_it_says(
    variance: Fraction, tilt: Fraction, multiplicity: int
) -> None:
    factor = GaussianLoss(variance, 3, multiplicity)
    phases = 2 * math.pi / LENGTH * centred(5 * FREQUENCIES, LENGTH)
    values, errors = wide_power(factor, tilt, phases)
    start = round(3 * tilt)
    with precision(BITS):
        for frequency, value, error in zip(
            FREQUENCIES.tolist(), values.tolist(), errors.tolist(), strict=True
        ):
            angle = 2 * arb.pi() * (5 * frequency) / LENGTH
            exact = exact_transform(factor, tilt, angle, start) ** multiplicity
            assert abs(ball(value) - exact).upper() <= error + 1e-300  # or below the smallest float
    assert errors.max() < 1e-12 * multiplicity * float(variance)
    sizes = np.exp(-wide_exponents(factor, phases))
    far = np.abs(phases) < math.pi / 2
    assert np.all(
        errors[far] < 1e-13 * multiplicity * (1 + 30 * np.log(1 / sizes[far] + 1)) * sizes[far] + 1e-290
    )


@pytest.mark.parametrize("multiplicity", [1, 6])
@pytest.mark.parametrize("tilt", [Fraction(0), Fraction(3, 7), Fraction(-1)])
@pytest.mark.parametrize(
    "factor",
    [GaussianLoss(Fraction(1, 5), 1, 1), GaussianLoss(Fraction(3, 2), 2, 1), LaplaceLoss(Fraction(2), 6, 1)],
)
def test_sums_over_atoms_err_by_less_than_they_say(
    factor: GaussianLoss | LaplaceLoss, tilt: Fraction, multiplicity: int
) -> None:
    law = atoms(factor, tilt)
    values, errors = listed_power(law, multiplicity, 7, LENGTH, FREQUENCIES)
    with precision(BITS):
        for frequency, value, error in zip(
            FREQUENCIES.tolist(), values.tolist(), errors.tolist(), strict=True
        ):
            angle = 2 * arb.pi() * (7 * frequency) / LENGTH
            exact = exact_transform(factor, tilt, angle, law.start) ** multiplicity
            assert abs(ball(value) - exact).upper() <= error
    assert errors.max() < 1e-12


@pytest.mark.parametrize("step", [0.01, 1.0, 37.0])
def test_sums_over_atoms_at_huge_frequencies_err_by_less_than_they_say(step: float) -> None:
    """There the phase is rounded by much more than the smallest float, in proportion to step and frequency."""
    law = atoms(LaplaceLoss(Fraction(3), 5, 1), Fraction(0))
    u = np.random.default_rng(1).uniform(1e5, 1e7, 60) / step
    middle = law.weights.size // 2
    for power in (1, 3):
        values, errors = _listed_part(law, step, power, u)
        off = []
        with precision(BITS):
            for at, value in zip(u.tolist(), values.tolist(), strict=True):
                exact = exact_transform(
                    LaplaceLoss(Fraction(3), 5, 1), Fraction(0), arb(at) * arb(step), middle
                )
                off.append(float(abs(ball(value) - exact**power).upper()))
        assert np.all(np.array(off) <= UNIT * errors)
        assert max(off / (UNIT * errors)) > 0.01


def test_powers_and_their_errors_cover_every_value_within_the_error() -> None:
    random = np.random.default_rng(2)
    values = random.uniform(0, 1, 40) * np.exp(2j * math.pi * random.uniform(0, 1, 40))
    off = 10.0 ** random.uniform(-12, -1, 40)
    for n in (1, 2, 7, 1000):
        powered, errors = power_with_error(values, np.abs(values), off, n)
        with precision(BITS):
            for value, power in zip(values.tolist(), powered.tolist(), strict=True):
                assert abs(ball(power) - ball(value) ** n).upper() <= 8 * n * UNIT * abs(value) ** n + 1e-300
        worst = (np.abs(values) + off) ** n - np.abs(values) ** n  # attained by a value of the same direction
        assert np.all(errors >= worst * (1 - 1e-9))
        assert np.all(
            errors <= worst * (1 + 1e-9) + 30 * (n + 2) * UNIT * (np.abs(values) + off) ** n + 2e-300
        )
    np.testing.assert_allclose(power_of(values, 11), values**11, rtol=1e-13)
