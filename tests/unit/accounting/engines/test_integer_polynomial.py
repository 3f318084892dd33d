"""The oracle against trusted values, and what it refuses."""

import math
from fractions import Fraction

import pytest
from flint import arb, ctx
from tests.oracles.exact_epsilon import epsilon_ball

from tallyveil.accounting.engines import ball_tails
from tallyveil.accounting.engines.ball_tails import Proved
from tallyveil.accounting.losses import GaussianLoss, LaplaceLoss
from tallyveil.errors import BudgetError

CENSUS = tuple(
    GaussianLoss(10 / (2 * Fraction(a, 1000) * Fraction(365, 100)), 1, n)
    for a, n in zip((20, 274, 85, 131, 238, 118, 3), (10, 10, 10, 20, 10, 10, 10), strict=True)
)
LEVELS = [  # variance, epsilon at 1e-11, epsilon at 1e-5
    ("68.49", 2.468210254142, 1.478135886784),
    ("5", 10.124830934481, 6.571195284952),
    ("16.12", 5.326792891088, 3.328005572559),
    ("10.46", 6.737262012840, 4.266526600607),
    ("5.76", 9.348887172958, 6.044121308363),
    ("11.61", 6.362078616174, 4.017102534069),
    ("456.62", 0.917830869218, 0.522190555676),
]


@pytest.fixture(scope="module")
def census() -> Proved:
    return Proved.build(CENSUS)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        (5, 0.207210363764),
        (10, 4.567884368769e-3),
        (15, 4.956003122094e-6),
        (20, 2.151064104538e-10),
        (25, 3.428036821068e-16),
    ],
)
def test_delta_of_eight_levels(census: Proved, epsilon: int, delta: float) -> None:
    ball = census.balls(Fraction(epsilon))[2]
    assert ball.rel_accuracy_bits() > 66
    assert float(ball) == pytest.approx(delta, rel=3e-12)
    bounds = census.log_tails(epsilon).log_delta
    assert bounds.lower <= math.log(delta) + 4e-12
    assert bounds.upper >= math.log(delta) - 4e-12
    assert bounds.width < 1e-13


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("delta", "epsilon"),
    [
        ("1e-10", 20.324689750790),
        ("1e-5", 14.576026882760),
        ("1e-8", 18.273412805607),
        ("1e-12", 22.164818329670),
        ("1e-15", 24.640678667177),
    ],
)
def test_epsilon_of_eight_levels(census: Proved, delta: str, epsilon: float) -> None:
    ball = epsilon_ball(census, Fraction(delta))
    assert ball.rel_accuracy_bits() > 66
    assert float(ball) == pytest.approx(epsilon, abs=1e-12)


@pytest.mark.parametrize(("variance", "at_small", "at_large"), LEVELS)
def test_epsilon_of_single_levels(variance: str, at_small: float, at_large: float) -> None:
    proved = Proved.build((GaussianLoss(Fraction(variance), 1, 10),))
    assert float(epsilon_ball(proved, Fraction(1, 10**11))) == pytest.approx(at_small, abs=6e-13)
    assert float(epsilon_ball(proved, Fraction(1, 10**5))) == pytest.approx(at_large, abs=6e-13)


def test_twenty_digits_at_a_delta_of_1e_300() -> None:
    least = Fraction(1, 10**300)
    proved = Proved.build((GaussianLoss(Fraction(5), 1, 10),), least_delta=least)
    epsilon = epsilon_ball(proved, least)
    assert epsilon.rel_accuracy_bits() > 66
    with ctx.workprec(2000):  # and back
        middle = Fraction(float(epsilon))
        delta = proved.balls(middle)[2]
        slope = proved.balls(middle)[1] * arb(float(middle)).exp()
        assert abs(delta / arb(10) ** -300 - 1) < slope / delta * 1e-14
    assert all(ball.rel_accuracy_bits() > 66 for ball in proved.balls(middle))


def test_bounds_stay_valid_beyond_the_bits() -> None:
    shallow = Proved.build((GaussianLoss(Fraction(5), 1, 10),), least_delta=Fraction(1, 100))
    deep = Proved.build((GaussianLoss(Fraction(5), 1, 10),), least_delta=Fraction(1, 10**200))
    for epsilon in (40.0, 60.0, 500.0, 1e9, Fraction(10) ** 500):
        vague, sharp = shallow.log_tails(epsilon), deep.log_tails(epsilon)
        for name in ("log_first", "log_second", "log_delta"):
            assert getattr(vague, name).lower <= getattr(sharp, name).upper
            assert getattr(vague, name).upper >= getattr(sharp, name).lower
    with pytest.raises(AssertionError, match="bits kept"):
        epsilon_ball(shallow, Fraction(1, 10**200))


def test_negative_epsilons_have_a_delta_too() -> None:
    proved = Proved.build((LaplaceLoss(Fraction(3, 2), 1, 1), GaussianLoss(Fraction(3), 1, 1)))
    delta = Fraction(9, 10)
    epsilon = epsilon_ball(proved, delta)
    assert epsilon < 0
    with ctx.workprec(300):
        assert abs(proved.balls(Fraction(float(epsilon)))[2] - arb("0.9")) < 1e-15


def test_every_place_of_laplace_noise_is_a_point(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ball_tails, "MAX_POINTS", 50)
    with pytest.raises(BudgetError, match=r"has 6\d points"):
        Proved.build((LaplaceLoss(Fraction(30), 30, 2),))
