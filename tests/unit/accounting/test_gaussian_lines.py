"""Lines below the Gaussian delta, beside forty digits."""

import math

import mpmath
import numpy as np
import pytest

from tallyveil.accounting import envelope
from tallyveil.accounting.envelope import is_central, log_line, log_rest_of_line


def exact(mu: float, best_at: float, epsilon: float) -> tuple[mpmath.mpf, mpmath.mpf]:
    """ln of the line of the test that is best at one epsilon, evaluated at another one, and of one minus it."""
    mu, best_at, epsilon = mpmath.mpf(mu), mpmath.mpf(best_at), mpmath.mpf(epsilon)
    a = mu / 2 - best_at / mu
    first, second = mpmath.ncdf(a), mpmath.exp(epsilon) * mpmath.ncdf(a - mu)
    line = first - second
    return (mpmath.log(line) if line > 0 else mpmath.mpf("-inf")), mpmath.log(mpmath.ncdf(-a) + second)


@pytest.mark.parametrize("mu", [1e-15, 1e-9, 5e-4, 2e-3, 0.3, 1.0, 7.0, 40.0, 300.0])
def test_lines_are_bounded_from_both_sides(mu) -> None:
    random = np.random.default_rng(5)
    best_at = np.concatenate([mu * random.uniform(0, 30, 40), mu * mu * random.uniform(0, 3, 40)])
    epsilons = best_at + min(0.04 * mu, 0.3) * random.uniform(-0.5, 0.5, best_at.size)
    central = is_central(mu, best_at)
    with mpmath.workdps(80):
        for at, epsilon, near_one in zip(best_at, epsilons, central, strict=True):
            line, rest = exact(mu, float(at), float(epsilon))
            one, other = np.array([at]), np.array([epsilon])
            if near_one:
                low, high = (float(log_rest_of_line(mu, one, other, side)[0]) for side in (-1, 1))
                assert low <= rest <= high
                assert high - low <= 1e-8 * (1 + abs(float(rest)))
            else:
                low, high = (float(log_line(mu, one, other, side)[0]) for side in (-1, 1))
                assert low <= line <= high
                assert line == mpmath.mpf("-inf") or high - low < 1e-5


def test_the_best_line_is_the_gaussian_delta() -> None:
    """At its own epsilon no other test does better."""
    epsilons = np.full(101, 0.7)
    best_at = 0.7 + np.linspace(-0.3, 0.3, 101)
    lines = log_line(0.5, best_at, epsilons, 1)
    assert lines.argmax() == 50


LARGE = 2.0**-20
"""An error of the functions beside which floats are exact: widths then show what each term adds."""


@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.parametrize(
    ("mu", "best_at", "epsilon"),
    [
        (1e-4, 3e-4, 3.01e-4),
        (1e-4, 0.0, 2e-6),
        (0.3, 0.5, 0.49),
        (0.3, -0.1, 0.0),
        (7.0, 60.0, 60.3),
    ],
)
def test_a_line_is_rounded_by_its_terms(
    mu: float, best_at: float, epsilon: float, side: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of both Mills' ratios, of a difference of exponentials, and of a point that is the best one elsewhere."""
    monkeypatch.setattr(envelope, "ERROR", LARGE)
    y = best_at / mu - mu / 2

    def mills(t: float) -> float:
        with mpmath.workdps(40):
            return float((1 - mpmath.ncdf(t)) / mpmath.npdf(t))

    here, there = mills(y), mills(y + mu)
    if mu < 1e-3:
        points = (y + mu / 2,) if side < 0 else (y, y + mu)
        gap = mu * sum(1 - t * mills(t) for t in points) / len(points)
        error = mu * (2 + (abs(y) + mu) * here)
    else:
        gap, error = here - there, here + there
    moved = math.expm1(epsilon - best_at)
    error += there * abs(moved)
    error += 0.01 * there * math.exp(epsilon - best_at) * (abs(best_at) + abs(epsilon) + mu * mu)
    inner = gap - moved * there + side * LARGE * error
    assert inner > 0
    log = math.log(inner) - y * y / 2 - math.log(2 * math.pi) / 2
    wanted = log + side * LARGE * (2 + y * y + abs(log))
    (found,) = log_line(mu, np.array([best_at]), np.array([epsilon]), side)
    assert found == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.parametrize(
    ("mu", "best_at", "epsilon"), [(0.3, -0.9, -0.88), (7.0, 3.0, 3.2), (40.0, 700.0, 699.0)]
)
def test_one_minus_a_line_is_rounded_by_its_terms(
    mu: float, best_at: float, epsilon: float, side: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(envelope, "ERROR", LARGE)
    a = mu / 2 - best_at / mu
    with mpmath.workdps(40):
        first = float(mpmath.log(mpmath.ncdf(-a)))
        second = epsilon + float(mpmath.log(mpmath.ncdf(a - mu)))
    size = 2 + abs(first) + abs(second) + abs(epsilon) + (abs(a) + mu + 1) * (mu + abs(best_at) / mu)
    wanted = np.logaddexp(first, second) + side * LARGE * size
    (found,) = log_rest_of_line(mu, np.array([best_at]), np.array([epsilon]), side)
    assert found == pytest.approx(wanted, rel=1e-9)


def test_a_line_that_rounding_may_have_made_is_nothing_from_below() -> None:
    found = log_line(1.0, np.array([2.0]), np.array([9.0]), -1)
    assert found.tolist() == [-math.inf]
    assert is_central(1.0, np.array([-0.51, -0.49])).tolist() == [True, False]
