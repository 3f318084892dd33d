"""The certificate: the lower bound by its definition, and the weights that make it large."""

import numpy as np
import pytest

from tallyveil.budget.optimal.solve import NOISE, SLACK, Evaluated, ShareProgram, solve

N_AIMS, N_SHARES = 4, 5
SUM, MAXIMUM = False, True


def problem(seed, of_maximum):
    """Any values and slopes that variances may have: part of each is due to precision that no share pays for."""
    rng = np.random.default_rng([81, seed])
    shares = rng.dirichlet(np.ones(N_SHARES))
    slopes = -rng.exponential(size=(N_AIMS, N_SHARES))
    found = Evaluated(-slopes @ shares + rng.exponential(size=N_AIMS) * (seed % 2), slopes)
    limits = np.where(np.arange(N_AIMS) < seed % 3, 1.1 * found.values, np.inf)
    weights = np.array([1.0, 2.0, 0.0, 0.5])
    return ShareProgram(weights, of_maximum, limits, rng.uniform(0, 0.1, N_SHARES)), found, shares


def parts_by_definition(program, found, shares, weights):
    """F and the maximum of q over all shares: q is linear, so the maximum is at a corner."""
    free = 1 - program.least.sum()
    corners = program.least + free * np.eye(N_SHARES)
    unpaid = found.values + found.slopes @ shares  # h of the head of the module
    q = [
        -sum(b * (g - h) @ corner for b, g, h in zip(weights, found.slopes, unpaid, strict=True))
        for corner in corners
    ]
    return float(weights @ found.values), max(q)


@pytest.mark.parametrize("of_maximum", [SUM, MAXIMUM])
@pytest.mark.parametrize("seed", range(6))
def test_the_bound_is_that_of_its_definition(seed, of_maximum):
    program, found, shares = problem(seed, of_maximum)
    rng = np.random.default_rng(seed)
    multipliers, prices = rng.random(N_AIMS), rng.random(N_AIMS)
    limited = np.isfinite(program.limits)
    weights = program.weights * (multipliers / multipliers.sum() if of_maximum else 1) + np.where(
        limited, prices, 0
    )
    value, greatest = parts_by_definition(program, found, shares, weights)
    paid = sum(prices[limited] * program.limits[limited] * (1 + SLACK))
    assert program.together(multipliers, prices) == pytest.approx(weights)
    assert program.lower_bound(found, shares, multipliers, prices) == pytest.approx(
        value**2 / greatest - paid
    )


@pytest.mark.parametrize("of_maximum", [SUM, MAXIMUM])
@pytest.mark.parametrize("seed", range(6))
def test_no_other_weights_give_a_better_bound_without_scaling(seed, of_maximum):
    """The bound with s = 1 is 2 F - max q - m'r. The linear program finds its maximum."""
    program, found, shares = problem(seed, of_maximum)
    best = program.best_bound(found, shares)
    limited = np.isfinite(program.limits)
    rng = np.random.default_rng(seed)
    for _ in range(200):
        multipliers = rng.dirichlet(np.full(N_AIMS, 0.5)) * (program.weights > 0)
        prices = np.where(limited, 10.0 ** rng.uniform(-3, 1, N_AIMS), 0)
        weights = program.together(multipliers, prices)
        value, greatest = parts_by_definition(program, found, shares, weights)
        paid = sum(prices[limited] * program.limits[limited] * (1 + SLACK))
        assert best >= 2 * value - greatest - paid - 1e-9 * value


def test_a_limit_may_be_exceeded_by_the_slack_and_no_more():
    limits = np.array([4.0, np.inf])
    program = ShareProgram(np.ones(2), SUM, limits, np.zeros(2))
    assert program.within_limits(np.array([4 * (1 + 0.99 * SLACK), 1e9]))
    assert program.within_limits(np.array([4 * (1 + SLACK), 1.0]))  # rounding errors break no limit
    assert not program.within_limits(np.array([4 * (1 + SLACK) * (1 + 2 * NOISE), 1.0]))


def test_the_objective_is_the_sum_or_the_maximum():
    values = np.array([1.0, 5.0, 2.0])
    for of_maximum, wanted in ((SUM, 3 + 5 + 8), (MAXIMUM, 8)):
        program = ShareProgram(np.array([3.0, 1.0, 4.0]), of_maximum, np.full(3, np.inf), np.zeros(3))
        assert program.objective(values) == wanted


@pytest.mark.parametrize("limit", [np.inf, 12.0])
def test_precision_that_nobody_pays_for(limit):
    """f_k = c_k / (w_k + a_k). At the minimum of the sum, w_k + a_k is as the root of c_k, unless a limit binds."""
    sizes, known = np.array([1.0, 4.0, 9.0]), np.array([0.5, 0.1, 0.0])

    def variances(shares):
        return Evaluated(sizes / (shares + known), np.diag(-sizes / (shares + known) ** 2))

    program = ShareProgram(np.ones(3), SUM, np.array([np.inf, np.inf, limit]), np.full(3, 1e-6))
    found = solve(program, variances, np.array([0.1, 0.1, 0.8]), gap=1e-6)
    assert found.evaluated.unpaid(found.shares) == pytest.approx(sizes * known / (found.shares + known) ** 2)
    third = max(0.6 * 1.1, 9 / (limit))  # the first gets nothing; the others share 1 + 0.1 as 2 to 3
    left = 1.1 - third
    best = 2.0 + 4 / left + 9 / third
    assert found.objective == pytest.approx(best, rel=3e-4)  # a limit may be exceeded by 1e-4
    assert best * (1 - 3e-4) <= found.bound <= best * (1 + 1e-6)  # the first keeps its least share
    assert found.shares == pytest.approx([0, left - 0.1, third], abs=2e-3)


def test_settled_shares_stay_above_their_least_values():
    """Divided by their sum, the second share would fall below its least value."""
    program = ShareProgram(np.ones(1), False, np.full(1, np.inf), np.array([0.0, 0.4, 0.1]))
    shares = program.settled(np.array([0.3, 0.4 + 1e-12, 0.3]) * (1 + 1e-9))
    assert shares.sum() == pytest.approx(1, abs=1e-15)
    assert (shares >= program.least).all()
    assert shares == pytest.approx([0.3, 0.4, 0.3], abs=1e-8)
