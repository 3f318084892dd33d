"""The steps from inside: Newton's method ends at the minimum of the barrier function."""

import numpy as np
import pytest

from tallyveil.budget.optimal.solve import (
    BARRIER_DECREMENT,
    Evaluated,
    ShareProgram,
    _Barrier,
    _centred_barrier,
    from_inside,
)

FACTORS = np.array([1.0, 4.0, 9.0])


def variances(shares):
    """Each share buys one count."""
    return Evaluated(FACTORS / shares, np.diag(-FACTORS / shares**2))


@pytest.mark.parametrize("of_maximum", [False, True])
def test_centring_ends_where_no_move_improves(of_maximum):
    program = ShareProgram(np.ones(3), of_maximum, np.array([20.0, np.inf, np.inf]), np.full(3, 1e-3))
    start = np.full(3, 1 / 3)
    first = variances(start)
    barrier = _Barrier(program, variances, first, whole=10.0)
    point, found = _centred_barrier(barrier, variances, np.append(start, 1.1 * first.values.max()), first)
    assert found.values == pytest.approx(FACTORS / point[:-1])
    least = barrier.at(point, found)
    assert least < barrier.at(np.append(start, 1.1 * first.values.max()), first)
    for move in np.random.default_rng(1).normal(size=(500, 4)) * np.array([0.1, 0.1, 0.1, 5.0]):
        move[:3] -= move[:3].mean()  # shares keep their sum
        there = point + move
        if there[:-1].min() > 1e-3:
            assert barrier.at(there, variances(there[:-1])) > least - BARRIER_DECREMENT


@pytest.mark.parametrize("of_maximum", [False, True])
def test_newtons_direction_has_the_slope_and_the_curvature_of_its_decrement(of_maximum):
    """At the minimum of a quadratic function along it, both are the decrement: the slope with the other sign."""
    weights = np.array([1.0, 2.0, 0.0])
    program = ShareProgram(weights, of_maximum, np.array([20.0, np.inf, 50.0]), np.full(3, 1e-3))
    start = np.array([0.2, 0.3, 0.5])
    found = variances(start)
    barrier = _Barrier(program, variances, found, whole=10.0)
    point = np.append(start, 1.3 * program.objective(found.values))
    direction, decrement = barrier.newton(point, found)
    assert barrier.count == (2 if of_maximum else 0) + 2 + 3
    assert direction[:-1].sum() == pytest.approx(0, abs=1e-12)
    assert (direction[-1] != 0) == of_maximum
    move = 1e-4

    def at(step):
        there = point + step * direction
        return barrier.at(there, variances(there[:-1]))

    assert (at(move) - at(-move)) / (2 * move) == pytest.approx(-decrement, rel=1e-4)
    assert (at(move) - 2 * at(0.0) + at(-move)) / move**2 == pytest.approx(decrement, rel=1e-3)


def test_a_limit_that_is_used_up_leaves_a_little_room():
    """The first variance is 3, above its limit of 2: it may grow by a millionth."""
    program = ShareProgram(np.ones(3), False, np.array([2.0, np.inf, np.inf]), np.full(3, 1e-3))
    barrier = _Barrier(program, variances, variances(np.full(3, 1 / 3)), whole=1.0)
    for move, inside in ((0.0, True), (5e-7, True), (2e-6, False), (0.5, False)):
        first = 1 / (3 * (1 + move))
        shares = np.array([first, 0.3, 0.7 - first])
        assert bool(np.isfinite(barrier.at(np.append(shares, 1.0), variances(shares)))) == inside


def test_outside_its_constraints_the_barrier_is_infinite():
    program = ShareProgram(np.ones(3), True, np.array([np.inf, 13.0, np.inf]), np.full(3, 1e-2))
    start = np.full(3, 1 / 3)
    barrier = _Barrier(program, variances, variances(start), whole=1.0)
    for shares, top, inside in (
        ([1 / 3, 1 / 3, 1 / 3], 28.0, True),
        ([1 / 3, 1 / 3, 1 / 3], 26.9, False),  # below the third variance
        ([0.3, 0.3, 0.4], 28.0, False),  # beyond the limit
        ([0.005, 0.4, 0.595], 300.0, False),  # below the least share
    ):
        value = barrier.at(np.array([*shares, top]), variances(np.array(shares)))
        assert bool(np.isfinite(value)) == inside


@pytest.mark.parametrize("of_maximum", [False, True])
def test_the_shares_come_nearer_to_the_best_ones_and_keep_their_sum(of_maximum):
    """Two shares buy one count together, as two tables of the same people do."""

    def alike(shares):
        sums = np.array([shares[0] + shares[1], shares[2]])
        slopes = -np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 4.0]]) / np.array([[sums[0] ** 2], [sums[1] ** 2]])
        return Evaluated(np.array([1.0, 4.0]) / sums, slopes)

    program = ShareProgram(np.ones(2), of_maximum, np.full(2, np.inf), np.full(3, 1e-6))
    start = np.array([0.1, 0.3, 0.6])
    best = 5.0 if of_maximum else 9.0
    reached = []
    for shares, found in from_inside(program, alike, start, alike(start)):
        assert shares.sum() == pytest.approx(1)
        assert found.values == pytest.approx(alike(shares).values, rel=1e-9)
        reached.append(program.objective(found.values))
    assert len(reached) == 7  # m falls from 10 to 1e-5, by a tenth each time
    assert reached[-1] == pytest.approx(best, rel=2e-5)
    assert reached[0] > best * 1.001
