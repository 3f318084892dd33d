"""Transforms of losses, and their error bounds, against ball arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import acb, arb
from tests.samples import few

from tallyveil.accounting.engines import loss_transform
from tallyveil.accounting.engines.dithered import _List, _listed_part
from tallyveil.accounting.engines.loss_transform import (
    UNIT,
    _normalised,
    atoms,
    centred,
    fft_error,
    listed_power,
    power_of,
    power_with_error,
    wide_exponents,
    wide_power,
)
from tallyveil.accounting.losses import GaussianLoss, LaplaceLoss
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


@pytest.mark.parametrize("multiplicity", few(1, [1, 6]))
@pytest.mark.parametrize("tilt", few(2, [Fraction(0), Fraction(3, 7), Fraction(-1, 2), Fraction(5, 2)]))
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
    numbers, apart = np.random.default_rng(1).integers(10**8, 10**10, 60), 1e-3 / step
    u, middle = numbers * apart, law.weights.size // 2
    losses = step * (np.arange(law.weights.size) - float(middle))
    for power, count in ((1, 60), (3, 60), (3, 10**6)):
        listed = _List(losses, law.weights, law.error, Fraction(0), power)
        values, errors = _listed_part(listed, numbers, apart, count)
        off = []
        with precision(BITS):
            for at, value in zip(u.tolist(), values.tolist(), strict=True):
                exact = exact_transform(
                    LaplaceLoss(Fraction(3), 5, 1), Fraction(0), arb(at) * arb(step), middle
                )
                off.append(float(abs(ball(value) - exact**power).upper()))
        assert np.all(np.array(off) <= UNIT * errors)
        # A product of matrices claims six times as much.
        assert max(off / (UNIT * errors)) > (0.001 if count > 60 else 0.005)


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


LARGE = 2.0**-24
"""A unit of rounding beside which floats are exact: error bounds then show each of their terms."""


@pytest.fixture
def large_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_transform, "UNIT", LARGE)


@pytest.mark.usefixtures("large_unit")
def test_the_error_of_a_list_has_a_part_of_every_weight_and_what_was_left_out() -> None:
    exponents = np.array([-3.0, -0.5, 0.2, -90.0, -1000.0])
    law = _normalised(5, exponents, 1e-3)
    weights = [math.exp(one) for one in exponents.tolist()]
    assert law.start == 5
    np.testing.assert_allclose(law.weights[:4], np.array(weights[:4]) / sum(weights), rtol=1e-12)
    assert 0 <= law.weights[4] <= 1e-300
    # Exponents are relative to the largest one.
    errors = sum(
        weight * (8 * (0.2 - one) + 12) for weight, one in zip(weights, exponents.tolist(), strict=True)
    )
    wanted = 2.01 * (LARGE * errors / sum(weights) + 1e-3) + 64 * LARGE
    assert law.error == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("tilt", [Fraction(0), Fraction(3, 7), Fraction(-1, 2)])
@pytest.mark.parametrize("variance", [Fraction(1, 9), Fraction(4), Fraction(70)])
def test_what_a_list_leaves_out_is_bounded_and_hardly_more(
    variance: Fraction, tilt: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss_transform, "UNIT", 0.0)
    law, v = atoms(GaussianLoss(variance, 1, 1), tilt), float(variance)
    reach = law.weights.size // 2
    assert reach == math.ceil(math.sqrt(104 * v)) + 1
    x = np.arange(-9 * reach, 9 * reach + 1)
    masses = np.exp(-((x - float(tilt)) ** 2) / (2 * v))
    outside = masses[(x < law.start) | (x > law.start + 2 * reach)].sum() / masses.sum()
    assert outside <= law.error
    # The first value left out is at least half a place further than the reach, on both sides.
    part = float(tilt) - round(tilt)
    first = math.exp((part**2 - (reach + 0.5) ** 2) / (2 * v)) / (1 - math.exp(-reach / v))
    assert law.error == pytest.approx(2.01 * 2 * first, rel=1e-9, abs=0)


@pytest.mark.usefixtures("large_unit")
@pytest.mark.parametrize("multiplicity", [1, 5])
def test_the_error_of_the_closed_form_has_a_part_of_every_exponent(multiplicity: int) -> None:
    factor, tilt = GaussianLoss(Fraction(7, 3), 3, multiplicity), Fraction(3, 7)
    phases = np.array([0.0, 0.4, -1.9, 3.1, math.pi])
    _, errors = wide_power(factor, tilt, phases)
    v, n = 7 / 3, multiplicity
    c = float(tilt * 3 - round(tilt * 3))
    for phase, error in zip(phases.tolist(), errors.tolist(), strict=True):
        above, below = (math.exp(-2 * math.pi * v * (math.pi + side * phase)) for side in (1, -1))
        at_zero = math.exp(-2 * math.pi**2 * v)
        turned = above * np.exp(2j * math.pi * c) + below * np.exp(-2j * math.pi * c)
        bracket = (1 + turned) / (1 + 2 * at_zero * math.cos(2 * math.pi * c))
        neighbours = above + below + 2 * at_zero
        off = neighbours * LARGE * (60 + 130 * v) + (4 * LARGE if neighbours > 1e-20 else 1e-20)
        size, slack = abs(bracket), 8 * (n + 2) * LARGE
        power_error = (size + off) ** n * (1 + slack) - size**n * (1 - slack)
        exponent, turn = n * v * phase**2 / 2, n * c * phase
        relative = LARGE * (8 * exponent + 8 * abs(turn) + 20)
        wanted = math.exp(-exponent) * (power_error + relative * (size**n + power_error))
        assert error == pytest.approx(wanted, rel=1e-6, abs=0)


@pytest.mark.usefixtures("large_unit")
@pytest.mark.parametrize("direct", [True, False])
def test_the_error_of_a_sum_over_atoms_grows_with_their_number(
    direct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not direct:
        monkeypatch.setattr(loss_transform, "_MAX_DIRECT", 0)
    law, weight = atoms(LaplaceLoss(Fraction(5), 20, 1), Fraction(1, 3)), 7
    for n in (1, 4):
        values, errors = listed_power(law, n, weight, LENGTH, FREQUENCIES)
        counted = 20 + 4 * 21 if direct else 20 * math.log2(LENGTH) + 1 + 21 * 7 // LENGTH
        own, slack = law.error + LARGE * counted, 8 * (n + 2) * LARGE
        assert fft_error(LENGTH) == pytest.approx(20 * LARGE * math.log2(LENGTH))
        for value, error in zip(values.tolist(), errors.tolist(), strict=True):
            size = abs(value) ** (1 / n)
            wanted = (size + own) ** n * (1 + slack) - size**n * (1 - slack)
            assert error == pytest.approx(wanted, rel=1e-6, abs=0)
    assert fft_error(1) == 20 * LARGE
