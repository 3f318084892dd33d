"""Sums of a Gaussian over the integers, and the distance from one Gaussian, against plain sums."""

import math
from fractions import Fraction

import numpy as np
import pytest

from tallyveil.accounting.engines import lattice_points
from tallyveil.accounting.engines.closed_form import coset_excess
from tallyveil.accounting.engines.lattice_points import log_excess, log_tail, scaled_tail
from tallyveil.accounting.losses import GaussianLoss, lattice_of

DEVIATIONS = (-1.0, -0.4, 0.0, 0.3, 2.0, 8.0, 12.0, 37.0)


def plain_tail(first: float, variance: float) -> float:
    """The sum term by term."""
    k = np.arange(math.ceil(10 * math.sqrt(variance)) + 50, dtype=np.float64)
    return math.fsum(np.exp(-(2 * first + k) * k / (2 * variance)))


@pytest.mark.parametrize("variance", [0.25, 3.0, 999.0, 1001.0, 5e4, 1e6])
def test_scaled_tail(variance: float) -> None:
    firsts = np.ceil(np.array(DEVIATIONS * 3) * math.sqrt(variance))
    values, errors = scaled_tail(firsts, variance)
    for first, value, error in zip(firsts.tolist(), values.tolist(), errors.tolist(), strict=True):
        plain = plain_tail(first, variance)
        assert abs(value - plain) <= error + 1e-14 * plain
        assert error < 2e-13 * value + 1e-15
        alone = scaled_tail(np.array([first]), variance)[0][0]
        assert alone == pytest.approx(value, rel=1e-13)


@pytest.mark.parametrize("variance", [0.25, 3.0, 999.0])
def test_what_a_short_sum_leaves_out_is_bounded(variance: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lattice_points, "_NEGLIGIBLE", 3.0)
    firsts = np.ceil(np.array(DEVIATIONS) * math.sqrt(variance))
    for first in firsts.tolist():
        value, error = (one[0] for one in lattice_points._summed_tail(np.array([first]), variance))
        left_out = plain_tail(first, variance) - value
        assert 0 <= left_out <= error <= 4 * left_out + 1e-13 * value


@pytest.mark.parametrize("variance", [8.0, 20.0, 60.0])
def test_the_remainder_of_the_expansion_is_bounded(variance: float) -> None:
    """At a variance so small that the remainder is far above all roundings."""
    for deviations in (-1.0, 0.0, 1.0, 2.5):
        first = np.array([round(deviations * math.sqrt(variance))], dtype=np.float64)
        value, error = (one[0] for one in lattice_points._expanded_tail(first, variance))
        assert abs(value - plain_tail(float(first[0]), variance)) <= error < 0.02
    roots = [lattice_points._rest(1.0, root) for root in (2.0, 4.0)]
    assert roots[0] == pytest.approx(2**11 * roots[1])
    assert lattice_points._rest(0.0, 2.0) < lattice_points._rest(1.0, 2.0) < lattice_points._rest(3.0, 2.0)
    # The derivative of order 12 at 0, times |B_12| / 12! and the integral of the Gaussian.
    hermite = 10395 * 5.3e-10 * math.sqrt(2 * math.pi) / 2.0**11
    assert hermite < lattice_points._rest(0.0, 2.0) < 4000 * hermite


@pytest.mark.parametrize("deviations", [1.5, 2.0, 3.0])
def test_points_too_few_for_the_rule_add_what_is_bounded(deviations: float) -> None:
    """With N points the rule also counts the probabilities at all multiples of N."""
    factors = (GaussianLoss(Fraction(9), 1, 4),)
    n_points = 2 * round(deviations * 6 / 2) + 1
    found = coset_excess(factors, lattice_of(factors), n_points)
    assert isinstance(found, float)
    added = 2 * sum(math.exp(-((k * n_points) ** 2) / (2 * 36)) for k in (1, 2, 3))
    assert added <= found <= 1.1 * added


def plain_excess(factors: tuple[GaussianLoss, ...], n_points: int) -> float:
    """C p(0) / g(0) - 1 by subtraction, at every point of the rule: good to about 1e-13 only."""
    theta = 2 * np.pi * np.arange(n_points) / n_points
    images = 2 * np.pi * np.arange(-8, 9)
    product, total = np.ones(n_points), 0.0
    for factor, a in zip(factors, lattice_of(factors).weights, strict=True):
        x = np.remainder(a * theta + np.pi, 2 * np.pi) - np.pi
        sums = np.exp(-float(factor.variance) * (x[:, None] + images) ** 2 / 2).sum(axis=1)
        product *= sums**factor.multiplicity
        total += factor.multiplicity * a * a * float(factor.variance)
    return float(np.sqrt(2 * np.pi * total) * product.mean() - 1)


@pytest.mark.parametrize(
    "factors",
    [
        (GaussianLoss(Fraction(3, 2), 1, 9),),
        (GaussianLoss(Fraction(3), 1, 2), GaussianLoss(Fraction(9, 2), 2, 3)),
        (GaussianLoss(Fraction(20), 1, 1), GaussianLoss(Fraction(2), 1, 2)),
        (
            GaussianLoss(Fraction(3, 10), 1, 3),
            GaussianLoss(Fraction(5), 1, 1),
            GaussianLoss(Fraction(1), 1, 2),
        ),
        (GaussianLoss(Fraction(1, 4), 1, 30), GaussianLoss(Fraction(3, 8), 1, 30)),
    ],
)
def test_coset_excess_is_that_of_all_points(factors: tuple[GaussianLoss, ...]) -> None:
    lattice = lattice_of(factors)
    variance = sum(f.multiplicity * a * a * f.variance for f, a in zip(factors, lattice.weights, strict=True))
    points = 2 * math.ceil(5 * math.sqrt(variance)) + 21
    found, plain = coset_excess(factors, lattice, points), plain_excess(factors, points)
    assert isinstance(found, float)
    assert found >= plain - 1e-12
    assert found == pytest.approx(plain, rel=1e-4, abs=1e-11)


def test_one_answer_is_a_gaussian_on_the_lattice() -> None:
    factors = (GaussianLoss(Fraction(9), 1, 1),)
    found = coset_excess(factors, lattice_of(factors), 51)
    assert isinstance(found, float)
    assert 0 < found < 1e-18


LARGE = 2.0**-20
"""A unit of rounding beside which floats are exact: error bounds then show each of their terms."""


@pytest.fixture
def large_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lattice_points, "UNIT", LARGE)


@pytest.mark.usefixtures("large_unit")
@pytest.mark.parametrize("variance", [0.25, 30.0, 999.0])
def test_the_roundings_of_a_sum_term_by_term(variance: float) -> None:
    """Of the exponents, each weighted by its term, and of the additions (docs/proofs/closed-form.md)."""
    firsts = np.ceil(np.array(DEVIATIONS) * math.sqrt(variance))
    _, errors = scaled_tail(firsts, variance)
    least = float(firsts.min())
    count = math.ceil(math.sqrt(least * least + 2 * 45 * variance) - least) + 1
    for first, error in zip(firsts.tolist(), errors.tolist(), strict=True):
        exponents = [(2 * first + k) * k / (2 * variance) for k in range(count)]
        terms = [math.exp(-one) for one in exponents]
        weighted = sum(term * abs(one) for term, one in zip(terms, exponents, strict=True))
        assert error == pytest.approx(LARGE * (4 * weighted + (20 + count) * sum(terms)), rel=1e-9)


@pytest.mark.usefixtures("large_unit")
@pytest.mark.parametrize("variance", [1001.0, 4e4])
def test_the_roundings_of_the_expansion(variance: float) -> None:
    """Of the error function, whose argument is squared; of the corrections, all taken as positive; of the sum."""
    hermite = {
        1: [1],
        3: [-3, 1],
        5: [15, -10, 1],
        7: [-105, 105, -21, 1],
        9: [945, -1260, 378, -36, 1],
    }
    bernoulli = {1: 1 / 12, 3: -1 / 720, 5: 1 / 30240, 7: -1 / 1209600, 9: 1 / 47900160}
    root = math.sqrt(variance)
    for deviations in (-1.0, -0.4, 0.0, 0.3, 2.0, 2.9):
        first = round(deviations * root)
        u = first / root
        if first > 0.1 * variance:
            continue
        integral = root * math.sqrt(math.pi / 2) * math.exp(u * u / 2) * math.erfc(u / math.sqrt(2))
        correction = size = 0.0
        for order, coefficients in hermite.items():
            for power, coefficient in enumerate(coefficients):
                term = bernoulli[order] * coefficient * u ** (2 * power + 1) / root**order
                correction, size = correction + term, size + abs(term)
        value = integral + 0.5 + correction
        (found,), (error,) = scaled_tail(np.array([float(first)]), variance)
        assert found == pytest.approx(value, rel=1e-13)
        wanted = LARGE * ((min(u * u / 2, 64.0) + 80) * integral + 64 * size + 8 * value)
        assert error == pytest.approx(wanted + lattice_points._rest(abs(u), root), rel=1e-9, abs=0)


@pytest.mark.usefixtures("large_unit")
def test_the_roundings_of_logarithms() -> None:
    variance, mirror = 50.0, 6.0
    firsts, gaps = np.array([0.0, 9.0, 33.0]), np.array([0.02, 0.1, 0.11])
    values, errors = scaled_tail(firsts, variance)
    logs, found = log_tail(firsts, variance)
    for i, first in enumerate(firsts.tolist()):
        exponent = first**2 / (2 * variance)
        norm = math.log(2 * math.pi * variance) / 2 - math.log(values[i])
        assert logs[i] == pytest.approx(-exponent - norm)
        wanted = (8 * exponent + 2 * abs(norm) + 80) * LARGE + 1.01 * errors[i] / values[i]
        assert found[i] == pytest.approx(wanted, rel=1e-9)
    for slip in (0.0, 1e-3):
        logs, found = log_excess(firsts, mirror, variance, gaps, np.full(3, slip))
        both, off = scaled_tail(np.concatenate([firsts, firsts + mirror]), variance)
        for i, first in enumerate(firsts.tolist()):
            value = both[i] - both[i + 3] + (1 - math.exp(-gaps[i])) * both[i + 3]
            error = off[i] + off[i + 3] + 40 * LARGE * value + 1.01 * slip * both[i + 3]
            exponent = first**2 / (2 * variance)
            norm = math.log(2 * math.pi * variance) / 2 - math.log(value)
            assert logs[i] == pytest.approx(-exponent - norm)
            wanted = (8 * exponent + 2 * abs(norm) + 80) * LARGE - math.log(1 - error / value)
            assert found[i] == pytest.approx(wanted, rel=1e-9)


def test_nothing_is_known_where_the_error_is_as_large_as_the_value() -> None:
    logs, errors = log_excess(np.array([3.0]), 6.0, 50.0, np.array([1e-3]), np.array([10.0]))
    assert errors[0] == math.inf
    assert math.isfinite(logs[0])
