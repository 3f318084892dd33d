"""Two-sided answers as arrays: each one is a pair of bounds, and arithmetic on many is that on each."""

import math
import random

import numpy as np

from tallyveil.accounting.engines.tails import ManyBounds, exponential, log_reflected, log_rest, log_sum
from tallyveil.accounting.numbers import Bounds


def test_each_one_is_a_pair_of_bounds() -> None:
    many = ManyBounds.of([Bounds(0.0, 1.0), Bounds(-math.inf, -math.inf), Bounds(2.0, 2.5)])
    assert len(many) == 3
    assert (
        list(many)
        == [many[0], many[1], many[2]]
        == [Bounds(0.0, 1.0), Bounds(-math.inf, -math.inf), many[-1]]
    )
    assert list(many[1:]) == [many[1], many[2]]
    assert many.width.tolist() == [1.0, 0.0, 0.5]
    assert list(many.where(np.array([True, False, False]), many[:1])) == [many[0]] * 3


def test_arithmetic_on_many_is_that_on_each() -> None:
    draw = random.Random(5)
    logs = [Bounds(-math.inf, -math.inf), Bounds(-math.inf, 0.0), Bounds(0.0, 0.0), Bounds(-800.0, -790.0)]
    logs += [Bounds(low - draw.random() * 1e-9, low) for low in (-1e-12, -0.3, -5.0, -40.0)]
    many = ManyBounds.of(logs)
    assert list(log_rest(many)) == [log_rest(one) for one in logs]
    assert list(exponential(many)) == [exponential(one) for one in logs]
    assert list(log_sum(many, many, 0.5)) == [log_sum(one, one, 0.5) for one in logs]
    for epsilon in (-1e-300, -0.2, -3.0, -1e300):
        assert list(log_reflected(epsilon, many)) == [log_reflected(epsilon, one) for one in logs]


def test_exponentials_enclose_numbers_below_every_float() -> None:
    assert exponential(Bounds(-1e4, -1e4)) == Bounds(0.0, 1e-322)
    assert exponential(Bounds(-math.inf, -math.inf)) == Bounds(0.0, 0.0)
    assert exponential(Bounds(0.0, 0.0)).upper == 1.0
