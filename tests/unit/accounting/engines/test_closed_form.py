"""The closed form: its theorem, point by point; trusted values; its conditions; hostile numbers."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx, fmpq

from tallyveil.accounting.engines import closed_form
from tallyveil.accounting.engines.ball_tails import Proved
from tallyveil.accounting.engines.closed_form import ClosedForm
from tallyveil.accounting.losses import GaussianLoss, LaplaceLoss
from tallyveil.errors import BudgetError

CENSUS = tuple(
    GaussianLoss(10 / (2 * Fraction(a, 1000) * Fraction(365, 100)), 1, n)
    for a, n in zip((20, 274, 85, 131, 238, 118, 3), (10, 10, 10, 20, 10, 10, 10), strict=True)
)


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        (5.0, 0.207210363764),
        (10.0, 4.567884368769e-3),
        (15.0, 4.956003122094e-6),
        (20.0, 2.151064104538e-10),
        (25.0, 3.428036821068e-16),
        (20.324689750790, 1e-10),
        (14.576026882760, 1e-5),
        (18.273412805607, 1e-8),
        (22.164818329670, 1e-12),
        (24.640678667177, 1e-15),
    ],
)
def test_eight_levels(epsilon: float, delta: float) -> None:
    engine = ClosedForm.build(CENSUS)
    assert engine is not None
    bounds = engine.log_tails(epsilon).log_delta
    assert bounds.width < 2e-12
    assert bounds.lower == pytest.approx(math.log(delta), abs=5e-12)


def test_the_theorem_point_by_point() -> None:
    """|C p(z) / g(z) - 1| <= eta at every z, and eta is attained at 0: nothing smaller would do."""
    # Two weights that nearly share a larger step, and small variances: far from one Gaussian.
    factors = (GaussianLoss(Fraction(3, 2), 1, 2), GaussianLoss(Fraction(9, 4), 2, 2))
    assert ClosedForm.build(factors) is None
    reason = ClosedForm.why_not(factors)
    assert reason is not None
    assert "differs" in reason
    eta = float(reason.split("up to ")[1].split(",")[0])
    proved = Proved.build(factors, least_delta=Fraction(1, 10**60))
    with ctx.workprec(400):
        variance = sum(
            n * a**2 * f.variance for f, a, n in zip(factors, proved.lattice.weights, (2, 2), strict=True)
        )
        ratios = []
        for z in range(-300, 301):
            if abs(z) > 14 * math.sqrt(variance):
                continue
            i = z - proved.lowest
            mass = arb(proved.masses_from[i] - proved.masses_from[i + 1]) / arb(2) ** proved.bits
            gauss = (arb(fmpq(-z * z) / (2 * fmpq(variance.numerator, variance.denominator)))).exp()
            ratios.append(
                float(
                    mass / gauss * (2 * arb.pi() * arb(fmpq(variance.numerator, variance.denominator))).sqrt()
                )
            )
        constant = 1.0
        for f in factors:
            theta = 1 + 2 * sum(math.exp(-2 * math.pi**2 * float(f.variance) * k * k) for k in range(1, 9))
            constant *= theta**f.multiplicity
    assert len(ratios) > 100
    deviations = [abs(constant * ratio - 1) for ratio in ratios]
    assert max(deviations) <= eta * 1.005  # eta was printed to three digits
    assert max(deviations) == pytest.approx(eta, rel=5e-3)
    assert max(deviations) == pytest.approx(constant * ratios[len(ratios) // 2] - 1)


def test_every_variance_scale_from_small_to_huge() -> None:
    for variance in (
        Fraction(4),
        Fraction(999),
        Fraction(1001),
        Fraction(10**6),
    ):
        factors = (GaussianLoss(variance, 1, 3),)
        engine, proved = ClosedForm.build(factors), Proved.build(factors, least_delta=Fraction(1, 10**60))
        assert engine is not None
        rho = float(3 / (2 * variance))
        with ctx.workprec(800):
            for deviations in (-9, -3, -1.01, -0.99, -0.3, 0, 0.4, 1, 2, 5, 9, 14):
                epsilon = rho + deviations * math.sqrt(2 * rho)
                tails = engine.log_tails(epsilon)
                for name, ball in zip(
                    ("log_first", "log_second", "log_delta"), proved.balls(Fraction(epsilon)), strict=True
                ):
                    bounds = getattr(tails, name)
                    assert arb(bounds.lower).exp() <= ball.lower() + 1e-90, (variance, deviations, name)
                    assert arb(bounds.upper).exp() >= ball.upper() - 1e-90, (variance, deviations, name)
                    assert bounds.width < (1e-11 if name != "log_delta" else 1e-11 + 2e-12 / math.sqrt(rho))


@pytest.mark.parametrize(
    ("factors", "reason"),
    [
        ((), "Gaussian noise only"),
        ((LaplaceLoss(Fraction(1), 1, 1),), "Gaussian noise only"),
        ((GaussianLoss(Fraction(9), 1, 1), LaplaceLoss(Fraction(1), 1, 1)), "Gaussian noise only"),
        ((GaussianLoss(Fraction(1, 5), 1, 1),), "1/4"),
        ((GaussianLoss(Fraction(1, 4), 1, 10**6),), "differs"),
        ((GaussianLoss(Fraction(10**400), 1, 1),), "too fine"),
        ((GaussianLoss(Fraction(9), 10**400, 1),), "2^31"),
        ((GaussianLoss(Fraction(9), 1, 10**400),), "too fine"),
        (
            (GaussianLoss(Fraction(10**9 + 7, 10**6), 1, 1), GaussianLoss(Fraction(10**9 + 9, 10**6), 1, 1)),
            "too fine",
        ),
    ],
)
def test_conditions(factors: tuple[GaussianLoss, ...], reason: str) -> None:
    assert ClosedForm.build(factors) is None
    said = ClosedForm.why_not(factors)
    assert said is not None
    assert reason in said


def test_eta_and_every_rounding_widen_the_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a unit of rounding beside which floats are exact."""
    large = 2.0**-20
    monkeypatch.setattr(closed_form, "UNIT", large)
    engine = ClosedForm.build(CENSUS)
    assert engine is not None
    values, errors = np.array([-0.7, -300.0, -5.0]), np.array([0.01, 0.2, np.inf])
    found = replace(engine, eta=0.03, log_norm=2.5)._scaled(values, errors)
    for i in (0, 1):
        scaled = values[i] - 2.5
        slack = errors[i] + 1.01 * 0.03 + large * (4 * abs(scaled) + 8 * 2.5 + 8)
        assert found.lower[i] == pytest.approx(scaled - slack, rel=1e-12)
        assert found.upper[i] == pytest.approx(scaled + slack, rel=1e-12)
    assert (found.lower[2], found.upper[2]) == (-np.inf, 0)


def test_hostile_epsilons() -> None:
    engine = ClosedForm.build(CENSUS)
    assert engine is not None
    for epsilon in (1e300, Fraction(10) ** 500, 1e9):
        tails = engine.log_tails(epsilon)
        assert tails.log_delta.upper < -1e9
        assert tails.log_first.upper < -1e9
    for epsilon in (-1e300, -(Fraction(10) ** 500), -1e9, -5e-324):
        tails = engine.log_tails(epsilon)
        assert -1e-3 < tails.log_first.upper <= 0 or epsilon > -1
        assert tails.log_delta.upper <= 0
    for epsilon in (math.nan, math.inf, -math.inf):
        with pytest.raises(BudgetError, match="finite"):
            engine.log_tails(epsilon)
