"""Plain enumeration against formulas that fit on a line, and against the oracle."""

import math
from fractions import Fraction

import pytest
from flint import arb, ctx

from tallyveil.accounting.engines.ball_tails import Enumeration, Proved, _table
from tallyveil.accounting.losses import GaussianLoss, LaplaceLoss
from tallyveil.noise.balls import precision, rational


def test_one_laplace_answer_is_randomised_response() -> None:
    direct = Enumeration.build((LaplaceLoss(Fraction(2), 1, 1),))
    assert direct is not None
    high = 1 / (1 + math.exp(-0.5))
    first, second, delta = (float(ball) for ball in direct.balls(Fraction(0)))
    assert first == pytest.approx(high, rel=1e-15)
    assert second == pytest.approx(1 - high, rel=1e-15)
    assert delta == pytest.approx(2 * high - 1, rel=1e-15)
    assert float(direct.balls(Fraction(1, 4))[2]) == pytest.approx(
        high - math.exp(0.25) * (1 - high), rel=1e-15
    )


@pytest.mark.parametrize("bits", [1, 4, 12])
@pytest.mark.parametrize("variance", [Fraction(1, 2), Fraction(7, 3), Fraction(40)])
def test_probabilities_are_enclosed_however_early_the_noise_is_cut_off(variance: Fraction, bits: int) -> None:
    factor = GaussianLoss(variance, 1, 1)
    with precision(400):
        weights = {x: rational(-Fraction(x * x) / (2 * variance)).exp() for x in range(-200, 201)}
        total = sum(weights.values(), arb(0))
        for loss, mass in _table(factor, bits).items():
            exact = weights[int((loss - factor.offset) / factor.step)] / total
            assert mass.lower() <= exact.upper()
            assert mass.upper() >= exact.lower()


def test_beyond_the_largest_loss_nothing_is_left() -> None:
    direct = Enumeration.build((LaplaceLoss(Fraction(2), 1, 3),))
    assert direct is not None
    tails = direct.log_tails(1.5)
    assert tails.log_first.upper < -100
    assert tails.log_delta.lower == -math.inf


def test_losses_without_a_common_step_need_no_lattice() -> None:
    factors = (GaussianLoss(Fraction(7, 5), 2, 1), LaplaceLoss(Fraction(13, 11), 2, 1))
    direct, proved = Enumeration.build(factors), Proved.build(factors)
    assert direct is not None
    with ctx.workprec(600):
        for epsilon in (-3, 0, Fraction(5, 7), 4, 11, 20):
            for one, other in zip(
                direct.balls(Fraction(epsilon)), proved.balls(Fraction(epsilon)), strict=True
            ):
                assert one.overlaps(other)
                assert one.rel_accuracy_bits() > 66
                assert other.rel_accuracy_bits() > 66


def test_what_takes_too_long_is_left_to_others() -> None:
    assert Enumeration.build((GaussianLoss(Fraction(10**9), 1, 1),)) is None
    assert Enumeration.build((GaussianLoss(Fraction(5), 1, 650),)) is None
    assert Enumeration.build((GaussianLoss(Fraction(10**400), 1, 1),)) is None
