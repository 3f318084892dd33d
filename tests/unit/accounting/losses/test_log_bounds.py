"""Bounds of logarithms of probabilities, with a rounding so large that widths show what is added, and for what."""

import math

import numpy as np
import pytest

from tallyveil.accounting.engines import tails
from tallyveil.accounting.engines.tails import ManyBounds, exponential, log_reflected, log_rest, log_sum
from tallyveil.accounting.numbers import Bounds

SLACK, PLACES, LEAST = 2.0**-16, 2.0**-18, 2.0**-40


@pytest.fixture(autouse=True)
def large_roundings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tails, "_SLACK", SLACK)
    monkeypatch.setattr(tails, "_LAST_PLACES", PLACES)
    monkeypatch.setattr(tails, "_LEAST", LEAST)


def close(found: Bounds, lower: float, upper: float) -> None:
    assert (found.lower, found.upper) == pytest.approx((lower, upper), rel=1e-12)


def rest(part: Bounds) -> tuple[float, float]:
    lower = math.log1p(-math.exp(part.upper) * (1 + SLACK)) * (1 + SLACK)
    return lower, math.log1p(-math.exp(part.lower) * (1 - SLACK)) * (1 - SLACK)


PARTS = [Bounds(-3.0, -2.9), Bounds(-0.02, -0.01), Bounds(-50.0, -40.0), Bounds(-1.0, -0.5)]


@pytest.mark.parametrize("part", PARTS)
def test_a_probability_and_its_rest(part: Bounds) -> None:
    upper = math.exp(part.upper) * (1 + PLACES) + LEAST
    close(exponential(part), max(math.exp(part.lower) * (1 - PLACES) - LEAST, 0.0), min(upper, 1.0))
    close(log_rest(part), *rest(part))


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("log_factor", [0.0, 0.3, 2.0])
def test_a_sum_of_two_probabilities(part: Bounds, log_factor: float) -> None:
    other, slack = Bounds(-4.5, -4.4), SLACK * (1 + log_factor)
    lower = math.exp(part.lower) + math.exp(log_factor + other.lower - slack)
    upper = (math.exp(part.upper) + math.exp(log_factor + other.upper + slack)) * (1 + SLACK)
    lower, upper = math.log(lower * (1 - SLACK)), math.log(upper * (1 + SLACK)) + SLACK
    close(log_sum(part, other, log_factor), min(lower, 0.0), min(upper, 0.0))


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("epsilon", [-1e-3, -0.2, -0.9, -6.0])
def test_delta_on_the_other_side_of_zero(part: Bounds, epsilon: float) -> None:
    """By 1 - exp(e) + exp(e) delta(-e) where that is small, else by 1 - exp(e) (1 - delta(-e))."""
    slack = SLACK * (1 - epsilon)
    share = 1 - math.exp(epsilon)
    lower = share + math.exp(epsilon + part.lower - slack)
    upper = share + math.exp(epsilon + part.upper + slack) * (1 + SLACK)
    if upper < 0.5:
        wanted = math.log(lower * (1 - SLACK)) - 40 * SLACK, math.log(upper * (1 + SLACK)) + 40 * SLACK
    else:
        gone = rest(part)
        wanted = rest(Bounds(epsilon + gone[0] - slack, min(0.0, epsilon + gone[1] + slack)))
    close(log_reflected(epsilon, part), *wanted)


def test_many_are_as_one() -> None:
    many = ManyBounds.of(PARTS)
    others = ManyBounds.of([Bounds(-4.5, -4.4)] * len(PARTS))
    epsilons = np.full(len(PARTS), -0.2)
    for i, part in enumerate(PARTS):
        assert exponential(many)[i] == exponential(part)
        assert log_rest(many)[i] == log_rest(part)
        assert log_sum(many, others, np.full(len(PARTS), 0.3))[i] == log_sum(part, others[i], 0.3)
        assert log_reflected(epsilons, many)[i] == log_reflected(-0.2, part)


def test_what_is_too_small_for_a_float_is_rounded_up() -> None:
    """But nothing is added to 0 itself."""
    tiny, nothing = Bounds(-900.0, -800.0), Bounds(-math.inf, -math.inf)
    assert (exponential(tiny).lower, exponential(tiny).upper) == (0.0, LEAST)
    assert (exponential(nothing).lower, exponential(nothing).upper) == (0.0, 0.0)
    assert log_rest(tiny).lower == pytest.approx(-1e-300, rel=1e-4)
    assert log_rest(nothing).lower == log_rest(nothing).upper == 0
    assert log_sum(tiny, nothing, 0.0).upper == pytest.approx(math.log(1e-300) + 2 * SLACK, rel=1e-9)
