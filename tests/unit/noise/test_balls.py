"""Ball arithmetic refuses what it cannot prove."""

from fractions import Fraction

import pytest
from flint import arb, ctx

from tallyveil.errors import SolverError
from tallyveil.noise.balls import (
    between_zero_and,
    certified_float,
    certified_floor,
    power_of_two,
    precision,
    rational,
)


def test_precision_is_restored_even_after_an_error() -> None:
    before = ctx.prec
    with precision(777):
        assert ctx.prec == 777
    assert ctx.prec == before
    with pytest.raises(ZeroDivisionError), precision(777):
        raise ZeroDivisionError
    assert ctx.prec == before


@pytest.mark.parametrize(
    ("ball", "floor"),
    [
        (arb("2.5"), 2),
        (arb("-2.5"), -3),
        (arb(3), None),  # an integer: its mirror image would round the other way
        (arb(2.99, 0.02), None),
        (arb(2.5, 0.4), 2),
    ],
)
def test_floor_is_given_only_when_certain(ball: arb, floor: int | None) -> None:
    assert certified_floor(ball) == floor


def test_float_is_given_only_when_certain() -> None:
    with precision(200):
        assert certified_float(rational(Fraction(1, 3))) == 1 / 3
        assert certified_float(power_of_two(-5000)) == 0.0
    with pytest.raises(SolverError, match="proved bits"):
        certified_float(arb(1, 1e-6))


def test_a_float_needs_48_proved_bits_and_no_more() -> None:
    balls = [arb(1, 2.0**-exponent) for exponent in range(40, 60)]
    with precision(200):
        for ball in balls:
            if ball.rel_accuracy_bits() >= 48:
                assert certified_float(ball) == 1
            else:
                with pytest.raises(
                    SolverError, match=f"only {ball.rel_accuracy_bits()} proved bits, wanted 48"
                ):
                    certified_float(ball)
    assert {47, 48} <= {ball.rel_accuracy_bits() for ball in balls}


def test_between_zero_and_contains_both_ends() -> None:
    ball = between_zero_and(arb(3))
    assert ball.contains(arb(0))
    assert ball.contains(arb(3))
    assert not ball.contains(arb(-0.01))
    assert not ball.contains(arb(3.01))
