"""Epsilon of discrete Laplace noise at tiny deltas, against the law of the loss written out in ball arithmetic."""

import math
import random
from fractions import Fraction

import pytest
from flint import arb, ctx
from tests.samples import every

from tallyveil.accounting import DiscreteLaplace, Neighbours, compose

CASES = 300
SCALES = [Fraction(a, b) for a in (1, 2, 3, 5, 7, 10, 17, 50, 100, 1000, 12345) for b in (1, 2, 3, 7, 10, 30)]


def ball(value: Fraction) -> arb:
    return arb(value.numerator) / arb(value.denominator)


def losses_of(scale: Fraction, sensitivity: int, count: int) -> dict[int, arb]:
    """Probability of each loss, in units of 1 / scale, of so many answers together."""
    rate = 1 / ball(scale)
    tail = 1 / (1 + (-rate).exp())  # of all x <= 0, where the loss is the sensitivity
    one = {sensitivity: tail, -sensitivity: tail * (-rate * sensitivity).exp()}
    for x in range(1, sensitivity):
        one[sensitivity - 2 * x] = tail * (1 - (-rate).exp()) * (-rate * x).exp()
    found = {0: arb(1)}
    for _ in range(count):
        added: dict[int, arb] = {}
        for a, p in found.items():
            for b, q in one.items():
                added[a + b] = added.get(a + b, arb(0)) + p * q
        found = added
    return found


def delta_of(losses: dict[int, arb], scale: Fraction, epsilon: float) -> arb:
    """Delta at an epsilon from the definition: the expectation of 1 - exp(epsilon - loss) where it is above 0."""
    start = Fraction(epsilon)
    parts = [p * (1 - ball(start - loss / scale).exp()) for loss, p in losses.items() if loss / scale > start]
    return sum(parts, arb(0))


@pytest.mark.parametrize("seed", every(12, range(12)))
def test_both_ends_hold_at_any_delta(seed):
    rng = random.Random(seed)
    ctx.prec = 1200
    try:
        for _ in range(CASES // 12):
            scale, sensitivity = rng.choice(SCALES), rng.choice([1, 1, 2, 3])
            count = rng.choice([1, 1, 1, 2, 2, 3, 4, 6, 10])
            delta = Fraction(1, 10 ** rng.choice([1, 3, 8, 10, 15, 20, 30, 50, 100, 200]))
            noise = DiscreteLaplace(scale, sensitivity, count)
            found = compose(noise, neighbours=Neighbours.UNBOUNDED).epsilon(delta)
            losses, case = losses_of(scale, sensitivity, count), (scale, sensitivity, count, delta)
            assert 0 <= found.lower <= found.upper < math.inf, case
            assert delta_of(losses, scale, found.upper) <= ball(delta), case
            if found.lower > 0:
                assert delta_of(losses, scale, found.lower) >= ball(delta), case
            assert found.upper - found.lower <= 1e-6 * max(1.0, found.upper), case
    finally:
        ctx.prec = 53


def test_a_delta_that_only_the_greatest_loss_reaches():
    """Its epsilon lies nearer to the greatest loss than floats are apart; the search once ended in a nan."""
    noise = DiscreteLaplace(Fraction(7, 10), 3, 1)
    found = compose(noise, neighbours=Neighbours.UNBOUNDED).epsilon(Fraction(1, 10**30))
    assert found.lower <= found.upper
    assert math.isclose(found.upper, 30 / 7, rel_tol=1e-12)
