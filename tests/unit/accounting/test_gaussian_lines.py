"""Lines below the Gaussian delta, beside forty digits."""

import mpmath
import numpy as np
import pytest

from tallyveil.accounting.gaussian_lines import is_central, log_line, log_rest_of_line


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
