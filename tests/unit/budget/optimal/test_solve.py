"""The program of the best shares: against closed forms, and its bound against any other shares."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.samples import few

from tallyveil.budget.optimal.choose import LOSS, rounded_shares
from tallyveil.budget.optimal.solve import Evaluated, InteriorStep, ShareProgram, _seen, solve
from tallyveil.errors import SolverError


def separate(*factors):
    """Each share buys one unrelated count: f_k = factor_k / w_k."""
    sizes = np.array(factors, float)

    def variances(w):
        return Evaluated(sizes / w, np.diag(-sizes / w**2))

    return variances


def shared(seed, aims=6, shares=9, dim=4):
    """Variances of random answers, from random queries of a few cells."""
    rng = np.random.default_rng(seed)
    queries = rng.normal(size=(shares, dim)) * 10.0 ** rng.uniform(-2, 2, (shares, 1))
    answers = rng.normal(size=(aims, dim))

    def variances(w):
        information = np.einsum("s,si,sj->ij", w, queries, queries)
        solved = np.linalg.solve(information, answers.T)  # dim x aims
        values = np.einsum("ki,ik->k", answers, solved)
        return Evaluated(values, -((queries @ solved) ** 2).T)

    return variances


def free(n):
    return np.full(n, np.inf)


def test_the_smallest_sum_is_that_of_square_roots():
    found = solve(
        ShareProgram(np.ones(3), False, free(3), np.full(3, 1e-9)),
        separate(1, 4, 9),
        np.full(3, 1 / 3),
        gap=1e-6,
    )
    assert found.objective == pytest.approx(36, rel=1e-6)
    assert found.shares == pytest.approx(np.array([1, 2, 3]) / 6, rel=1e-4)
    assert 36 * (1 - 1e-6) <= found.bound <= 36


def test_the_smallest_maximum_makes_all_equal():
    found = solve(
        ShareProgram(np.ones(3), True, free(3), np.full(3, 1e-9)),
        separate(1, 4, 9),
        np.full(3, 1 / 3),
        gap=1e-7,
    )
    assert found.objective == pytest.approx(14, rel=1e-6)
    assert found.evaluated.values == pytest.approx(np.full(3, 14.0), rel=1e-5)


def test_limits_hold():
    limits = np.array([4.0, np.inf, np.inf])
    program = ShareProgram(np.ones(3), False, limits, np.full(3, 1e-9))
    found = solve(program, separate(1, 4, 9), np.array([0.3, 0.3, 0.4]), gap=1e-6)
    # A quarter is needed for the limit; the rest is divided as 2 to 3.
    assert found.shares == pytest.approx([0.25, 0.3, 0.45], rel=1e-3)
    assert program.within_limits(found.evaluated.values)


def test_what_is_kept_is_kept_and_the_gap_still_closes():
    least = np.array([0.5, 1e-6, 1e-6])
    found = solve(
        ShareProgram(np.ones(3), False, free(3), least), separate(1, 4, 9), np.array([0.6, 0.2, 0.2])
    )
    assert found.shares[0] >= 0.5
    assert found.shares == pytest.approx([0.5, 0.2, 0.3], rel=2e-2)
    assert found.gap <= 5e-4


def test_shares_of_very_different_sizes():
    factors = 10.0 ** np.arange(-8, 9, 2)
    program = ShareProgram(np.ones(9), False, free(9), np.full(9, 1e-12))
    found = solve(program, separate(*factors), np.full(9, 1 / 9), gap=1e-6)
    assert found.objective == pytest.approx(np.sqrt(factors).sum() ** 2, rel=1e-6)


@pytest.mark.parametrize("of_maximum", [False, True])
@pytest.mark.parametrize("limited", [False, True])
def test_steps_from_inside_reach_what_the_cheap_steps_reach(monkeypatch, of_maximum, limited):
    variances, start = shared(0 if limited else 3), np.full(9, 1 / 9)
    reference = variances(start).values
    program = ShareProgram(1 / reference, of_maximum, reference if limited else free(6), np.full(9, 1e-7))
    cheap = solve(program, variances, start)
    monkeypatch.setattr("tallyveil.budget.optimal.solve.MOST_ROUNDS", 2)
    found = solve(program, variances, start, gap=1e-5)
    assert program.within_limits(found.evaluated.values)
    assert found.gap <= 1e-5
    assert found.bound <= cheap.objective
    assert cheap.bound <= found.objective <= cheap.objective * (1 + 1e-5)


@pytest.mark.parametrize("of_maximum", [False, True])
@pytest.mark.parametrize("seed", few(1, range(4)))
def test_no_other_shares_are_below_the_bound(seed, of_maximum):
    variances, rng = shared(seed), np.random.default_rng(seed + 100)
    start = np.full(9, 1 / 9)
    reference = variances(start).values
    limits = np.where(rng.random(6) < 0.5, reference, np.inf)
    program = ShareProgram(1 / reference, of_maximum, limits, np.full(9, 1e-7))
    found = solve(program, variances, start)
    assert program.within_limits(found.evaluated.values)
    assert found.gap <= 5e-4
    for _ in range(200):
        other = rng.dirichlet(np.full(9, 0.5)) * 0.999 + 0.001 / 9
        other = 0.9 * found.shares + 0.1 * other if rng.random() < 0.5 else other
        values = variances(other).values
        assert not program.within_limits(values) or program.objective(values) >= found.bound


def test_a_bound_holds_for_any_weights_of_the_limits():
    variances = shared(1)
    start = np.full(9, 1 / 9)
    at_start = variances(start)
    program = ShareProgram(np.ones(6), False, at_start.values, np.full(9, 1e-7))
    best = solve(program, variances, start, gap=1e-3)
    for seed in range(20):
        prices = np.random.default_rng(seed).exponential(size=6)
        bound = program.lower_bound(at_start, start, np.ones(6), prices)
        assert bound <= best.objective


def test_the_search_ends_at_what_is_enough():
    program, start = ShareProgram(np.ones(3), False, free(3), np.full(3, 1e-9)), np.full(3, 1 / 3)
    at_once = solve(program, separate(1, 4, 9), start, enough=42.0)
    assert at_once.shares is start
    assert at_once.objective == 42
    assert 0 < at_once.bound <= 36
    assert at_once.gap == 1 - at_once.bound / 42
    found = solve(program, separate(1, 4, 9), start, enough=37.0)
    assert 36 < found.objective <= 37


def test_what_is_enough_ends_the_steps_from_inside_as_well(monkeypatch):
    monkeypatch.setattr("tallyveil.budget.optimal.solve.MOST_ROUNDS", 0)
    program = ShareProgram(np.ones(3), False, free(3), np.full(3, 1e-9))
    found = solve(program, separate(1, 4, 9), np.full(3, 1 / 3), gap=0.0, enough=37.0)
    assert 36 < found.objective <= 37
    assert found.objective == program.objective(found.evaluated.values)
    assert found.evaluated.values == pytest.approx(separate(1, 4, 9)(found.shares).values)
    assert 20 < found.bound <= 36


def test_exponents_move_halfway_to_those_that_would_have_foreseen_the_slopes():
    """Every share buys one count, whose variance falls with the power 0.6 of the share."""

    def variances(shares):
        return Evaluated(shares**-0.6, np.diag(-0.6 * shares**-1.6))

    before, after = np.array([0.2, 0.3, 0.5]), np.array([0.1, 0.4, 0.5])
    seen = _seen(
        np.ones(3), (before, variances(before)), (after, variances(after)), np.array([0.2, 1.0, 0.3])
    )
    assert seen == pytest.approx([0.4, 0.8, 0.3])  # the last share did not move
    far = [np.full(3, one) for one in (-3.0, 3.0, -0.6)]
    assert [
        _seen(np.ones(3), (before, variances(before)), (after, variances(after)), one)[0] for one in far
    ] == pytest.approx([-0.5, 1.0, 0.01])  # within bounds, and never 0


def test_steps_that_fail_become_more_cautious_until_none_can_fail(monkeypatch):
    """Then the search goes on from inside."""
    program, start, asked = ShareProgram(np.ones(3), False, free(3), np.full(3, 1e-9)), np.full(3, 1 / 3), []

    def astray(program, shares, found, exponents):
        asked.append(exponents.tolist())
        return InteriorStep(np.array([0.8, 0.1, 0.1]), np.zeros(3), np.zeros(3))

    monkeypatch.setattr("tallyveil.budget.optimal.solve.step_from", astray)
    found = solve(program, separate(1, 4, 9), start)
    assert asked == [[one] * 3 for one in (0.5, 0.75, 0.875, 0.9375, 1.0)]
    assert found.objective == pytest.approx(36, rel=1e-3)
    assert found.gap <= 5e-4


def test_a_step_that_breaks_a_limit_is_not_taken(monkeypatch):
    limits = np.array([np.inf, np.inf, 27.0])
    program, asked = ShareProgram(np.ones(3), False, limits, np.full(3, 1e-9)), []

    def beyond(program, shares, found, exponents):
        asked.append(shares.tolist())
        return InteriorStep(
            np.array([0.25, 0.42, 0.33]), np.zeros(3), np.zeros(3)
        )  # better, but beyond the limit

    monkeypatch.setattr("tallyveil.budget.optimal.solve.step_from", beyond)
    found = solve(program, separate(1, 4, 9), np.full(3, 1 / 3))
    assert asked == [[1 / 3] * 3] * 5
    assert program.within_limits(found.evaluated.values)


def test_a_gap_that_is_not_reached_is_an_error(monkeypatch):
    monkeypatch.setattr("tallyveil.budget.optimal.solve.MOST_ROUNDS", 1)
    monkeypatch.setattr("tallyveil.budget.optimal.solve.from_inside", lambda *_: iter(()))
    program = ShareProgram(np.ones(3), False, free(3), np.full(3, 1e-9))
    with pytest.raises(SolverError, match="to within a relative gap of 1e-06") as error:
        solve(program, separate(1, 4, 9), np.full(3, 1 / 3), gap=1e-6)
    # What cannot be undercut, and what was found.
    said = [float(one) for one in re.findall(r"(?:less than|have) (\d+\.?\d*)", str(error.value))]
    assert 20 < said[0] <= 36 < said[1] < 42


@settings(max_examples=100)
@given(st.lists(st.floats(1e-12, 1.0), min_size=1, max_size=60))
def test_rounding_loses_little_of_any_share(sizes):
    shares = np.array(sizes) / sum(sizes)
    found = rounded_shares(shares)
    assert sum(found) == 1
    assert all(float(new) * (1 + LOSS) >= old * (1 - 1e-12) for new, old in zip(found, shares, strict=True))
    parts = 2500 * len(shares)
    assert all((parts + len(shares)) >= one.denominator for one in found)
