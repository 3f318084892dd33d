"""The cheap steps: the model of the variances, Newton's method on it, and what the steps promise."""

import numpy as np
import pytest

from tallyveil.budget.optimal.solve import SLACK, Evaluated, ShareProgram, _model_of, step_from

N_AIMS, N_SHARES, N_CELLS = 5, 7, 4
LEAST = np.full(N_SHARES, 1e-3)
SUM, MAXIMUM = False, True


def variances_of(seed):
    """Variances of random answers from random queries. No share pays for a small part of the precision."""
    rng = np.random.default_rng([55, seed])
    queries = rng.normal(size=(N_SHARES, N_CELLS))
    answers = rng.normal(size=(N_AIMS, N_CELLS))

    def variances(shares):
        information = np.einsum("s,si,sj->ij", shares, queries, queries) + 0.01 * np.eye(N_CELLS)
        solved = np.linalg.solve(information, answers.T)
        return Evaluated(np.einsum("ki,ik->k", answers, solved), -((queries @ solved) ** 2).T)

    return variances


def program_of(found, of_maximum, limited):
    limits = np.where(np.arange(N_AIMS) < (2 if limited else 0), 1.2 * found.values, np.inf)
    weights = np.array([1.0, 2.0, 0.0, 0.5, 1.0]) / found.values
    return ShareProgram(weights, of_maximum, limits, LEAST)


def start_of(seed):
    return 0.9 * np.random.default_rng(seed).dirichlet(np.full(N_SHARES, 3.0)) + 0.1 / N_SHARES


@pytest.mark.parametrize("seed", range(3))
def test_at_the_present_shares_the_model_has_the_variances_and_their_slopes(seed):
    variances, shares = variances_of(seed), start_of(seed)
    found = variances(shares)
    exponents = np.array([1.0, 0.5, -0.5, 0.01, 0.3, -0.2, 1.0])
    model = _model_of(program_of(found, SUM, False), shares, found, exponents)
    assert model.values(shares) == pytest.approx(found.values, rel=1e-12)
    for place in range(N_SHARES):
        moved = shares.copy()
        moved[place] *= 1 + 1e-6
        slope = (model.values(moved) - found.values) / (1e-6 * shares[place])
        assert slope == pytest.approx(found.slopes[:, place], rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_the_cautious_model_is_never_below_the_variances(seed):
    variances, shares = variances_of(seed), start_of(seed)
    found = variances(shares)
    model = _model_of(program_of(found, SUM, False), shares, found, np.ones(N_SHARES))
    for other in np.random.default_rng(seed).dirichlet(np.ones(N_SHARES), 100):
        assert np.all(model.values(other) >= variances(other).values * (1 - 1e-9))


@pytest.mark.parametrize("of_maximum", [SUM, MAXIMUM])
@pytest.mark.parametrize("limited", [False, True])
def test_newtons_direction_has_the_slope_and_the_curvature_of_its_decrement(of_maximum, limited):
    """At the minimum of a quadratic function along it, both are the decrement: the slope with the other sign."""
    shares = start_of(4)
    found = variances_of(4)(shares)
    program = program_of(found, of_maximum, limited)
    model = _model_of(program, shares, found, np.full(N_SHARES, 0.5))
    point, size = np.append(shares, 1.3 * program.objective(found.values)), 0.2
    direction, decrement = model.newton(point, size)
    assert direction[:-1].sum() == pytest.approx(0, abs=1e-12)
    assert (direction[-1] != 0) == of_maximum
    move = 1e-4
    before, here, after = (model.barrier(point + step * direction, size) for step in (-move, 0.0, move))
    assert (after - before) / (2 * move) == pytest.approx(-decrement, rel=1e-4)
    assert (after - 2 * here + before) / move**2 == pytest.approx(decrement, rel=1e-3)


@pytest.mark.parametrize("of_maximum", [SUM, MAXIMUM])
@pytest.mark.parametrize("limited", [False, True])
def test_a_step_ends_where_no_move_of_the_model_improves(of_maximum, limited):
    shares = start_of(5)
    found = variances_of(5)(shares)
    program = program_of(found, of_maximum, limited)
    exponents = np.full(N_SHARES, 0.5)
    step = step_from(program, shares, found, exponents)
    model = _model_of(program, shares, found, exponents)
    reached = program.objective(model.values(step.shares))
    assert step.shares.sum() == pytest.approx(1)
    assert np.all(step.shares > LEAST * (1 - 1e-9))
    assert np.all(model.values(step.shares) <= program.limits * (1 + SLACK) * (1 + 1e-9))
    for move in np.random.default_rng(1).normal(size=(500, N_SHARES)) * 0.02:
        there = step.shares + move - move.mean()
        if there.min() > LEAST[0] and np.all(model.values(there) <= program.limits * (1 + SLACK)):
            assert program.objective(model.values(there)) >= reached * (1 - 1e-6)


@pytest.mark.parametrize("of_maximum", [SUM, MAXIMUM])
@pytest.mark.parametrize("limited", [False, True])
def test_multipliers_and_prices_balance_the_shares(of_maximum, limited):
    """At the minimum, moving budget between two shares neither raises nor lowers the variances with these weights."""
    shares = start_of(6)
    found = variances_of(6)(shares)
    program = program_of(found, of_maximum, limited)
    step = step_from(program, shares, found, np.ones(N_SHARES))
    model = _model_of(program, shares, found, np.ones(N_SHARES))
    if of_maximum:
        assert step.multipliers.sum() == pytest.approx(
            1, rel=0.05
        )  # Newton's method ends at a decrement of 1e-3
    assert not np.any(step.multipliers[program.weights == 0])
    assert not np.any(step.prices[np.isinf(program.limits)])
    assert np.any(step.prices > 0) == limited
    together = program.together(step.multipliers, step.prices)
    slopes = (together @ model.contributions) * shares / step.shares**2
    free = step.shares > 10 * LEAST[0]
    assert free.sum() > 2
    assert slopes[free] == pytest.approx(np.full(free.sum(), slopes[free].mean()), rel=0.05)


@pytest.mark.parametrize("of_maximum", [SUM, MAXIMUM])
@pytest.mark.parametrize("seed", range(4))
def test_a_cautious_step_neither_worsens_the_objective_nor_breaks_a_limit(seed, of_maximum):
    variances, shares = variances_of(seed), start_of(seed)
    found = variances(shares)
    program = program_of(found, of_maximum, True)
    after = variances(step_from(program, shares, found, np.ones(N_SHARES)).shares)
    assert program.objective(after.values) < program.objective(found.values)
    assert program.within_limits(after.values)


def test_a_limit_that_is_used_up_leaves_room_for_a_step():
    """The present shares are above the limit by more than the slack; a step keeps the variance where it is."""
    variances, shares = variances_of(7), start_of(7)
    found = variances(shares)
    limits = np.where(np.arange(N_AIMS) == 0, 0.9 * found.values, np.inf)
    program = ShareProgram(1 / found.values, SUM, limits, LEAST)
    after = variances(step_from(program, shares, found, np.ones(N_SHARES)).shares)
    assert after.values[0] <= found.values[0] * (1 + 1e-6)
    assert program.objective(after.values) < program.objective(found.values)


def test_the_worked_case_of_the_docstring():
    shares = np.array([0.5, 0.5])
    found = Evaluated(np.array([10.0]), -np.array([[2.0, 8.0]]))  # 1/2 / w_1 + 2 / w_2, and 5 from elsewhere
    program = ShareProgram(np.ones(1), SUM, np.full(1, np.inf), np.full(2, 1e-9))
    step = step_from(program, shares, found, np.ones(2))
    assert found.unpaid(shares).tolist() == [5.0]
    assert step.shares == pytest.approx([1 / 3, 2 / 3], rel=1e-5)
