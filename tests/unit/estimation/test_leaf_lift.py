"""Splits that keep room for the leaves, against an independent linear program and against brute force."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from tallyveil.errors import ConstraintError
from tallyveil.estimation.leaf_lift import Leaves, LiftedSplit, Totals, merged_leaves, split_with_lift


def leaves_of(child, parts, lower, upper):
    """Leaves from a table of what each can take, shape (leaves, columns)."""
    leaf, column = np.nonzero(parts)
    return Leaves(child, lower, upper, leaf, column, parts[leaf, column])


def a_family(rng, *, loose):
    """A parent whose counts are known to fit: they are the sums of a made-up split."""
    n_children, n_columns = int(rng.integers(1, 5)), int(rng.integers(1, 6))
    child = np.sort(np.append(np.arange(n_children), rng.integers(0, n_children, int(rng.integers(0, 9)))))
    parts = rng.integers(0, 6, (child.size, n_columns)) * (rng.random((child.size, n_columns)) < 0.6)
    split = rng.binomial(parts, 0.5)
    demand = split.sum(axis=1)
    slack = rng.integers(0, 3, child.size) if loose else np.zeros(child.size, np.int64)
    lower, upper = np.maximum(demand - slack, 0), demand + slack
    true = np.zeros((n_children, n_columns))
    np.add.at(true, child, split)
    target = true + rng.normal(0, 3, true.shape)
    variance = rng.uniform(0.5, 20, true.shape)
    leaves = leaves_of(child, parts, lower, upper)
    return LiftedSplit("a family", true.sum(axis=0).astype(np.int64), target, variance, leaves), parts


def fits(counts, parts, lower, upper):
    """Whether counts can be split among leaves: the condition of Gale, over every set of columns."""
    total = counts.sum()
    if not lower.sum() <= total <= upper.sum():
        return False
    for chosen in itertools.product([False, True], repeat=counts.size):
        inside = np.array(chosen)
        # what is inside must fit into the leaves, and what is outside must leave no lower limit unmet
        if counts[inside].sum() > np.minimum(parts[:, inside].sum(axis=1), upper).sum():
            return False
        outside = np.maximum(lower - parts[:, inside].sum(axis=1), 0).sum()
        if counts[~inside].sum() < outside:
            return False
    return True


def cost_of(problem, counts):
    """The cost that the module states: squares, exact at distances 0, 1, 2, 4, ... and linear in between."""
    near = np.clip(np.floor(problem.target), 0, None).astype(int)
    steps = sorted({0} | {sign * 2**power for power in range(30) for sign in (-1, 1)})
    total = 0.0
    for place in np.ndindex(counts.shape):
        most = int(problem_most(problem)[place])
        near_here = min(int(near[place]), most)
        ends = sorted({min(max(near_here + step, 0), most) for step in steps} | {0, most})
        squares = [(end - problem.target[place]) ** 2 / problem.variance[place] for end in ends]
        total += float(np.interp(counts[place], ends, squares))
    for c in range(len(counts)) if problem.totals is not None else ():
        own = problem.leaves.child == c
        bottom, top = problem.leaves.lower[own].sum(), problem.leaves.upper[own].sum()
        target, variance = problem.totals.target[c], problem.totals.variance[c]
        middle = min(max(int(np.floor(target)), bottom), top)
        ends = sorted({min(max(middle + step, bottom), top) for step in steps} | {bottom, top})
        squares = [(end - target) ** 2 / variance for end in ends]
        total += float(np.interp(counts[c].sum(), ends, squares))
    return total


def problem_most(problem):
    """The largest count of each child and column."""
    leaves = problem.leaves
    most = np.zeros(problem.target.shape, np.int64)
    room = np.minimum(leaves.capacity, leaves.upper[leaves.leaf])
    np.add.at(most, (leaves.child[leaves.leaf], leaves.column), room)
    return most if problem.parent_counts is None else np.minimum(most, problem.parent_counts)


def every_split(problem, parts):
    """All tables that sum to the parent and fit every child, by brute force."""
    most, leaves = problem_most(problem), problem.leaves
    ranges = [range(int(top) + 1) for top in most.reshape(-1)]
    for values in itertools.product(*ranges):
        counts = np.array(values).reshape(most.shape)
        if not np.array_equal(counts.sum(axis=0), problem.parent_counts):
            continue
        if all(
            fits(
                counts[c],
                parts[leaves.child == c],
                leaves.lower[leaves.child == c],
                leaves.upper[leaves.child == c],
            )
            for c in range(len(counts))
        ):
            yield counts


@given(st.integers(0, 10**6), st.booleans())
@settings(max_examples=60)
def test_children_sum_to_the_parent_and_can_be_split_further(seed, loose):
    problem, parts = a_family(np.random.default_rng(seed), loose=loose)
    counts = split_with_lift(problem)
    leaves = problem.leaves
    assert np.array_equal(counts.sum(axis=0), problem.parent_counts)
    assert (counts >= 0).all()
    for c in range(len(counts)):
        own = leaves.child == c
        assert fits(counts[c], parts[own], leaves.lower[own], leaves.upper[own])


def test_a_split_costs_least_of_all_that_fit():
    compared = 0
    for seed in range(400):
        problem, parts = a_family(np.random.default_rng([7, seed]), loose=seed % 2 == 0)
        if np.prod(problem_most(problem) + 1.0) > 3000:
            continue
        if seed % 3 == 0:
            rng = np.random.default_rng([9, seed])
            totals = Totals(
                rng.uniform(-2, 12, len(problem.target)), rng.uniform(0.1, 5, len(problem.target))
            )
            problem = replace(problem, totals=totals)
        best = min(cost_of(problem, counts) for counts in every_split(problem, parts))
        assert cost_of(problem, split_with_lift(problem)) == pytest.approx(best, rel=1e-4, abs=1e-4)
        compared += 1
    assert compared > 60


def test_a_split_costs_as_much_as_a_linear_program_says():
    """Larger families: the same flow stated by leaves, without nodes for children, in HiGHS."""
    for seed in range(12):
        rng = np.random.default_rng([8, seed])
        child = np.sort(rng.integers(0, 4, 60))
        parts = rng.integers(0, 9, (60, 12)) * (rng.random((60, 12)) < 0.5)
        split = rng.binomial(parts, 0.4)
        demand = split.sum(axis=1)
        true = np.zeros((4, 12))
        np.add.at(true, child, split)
        problem = LiftedSplit(
            "a family",
            true.sum(axis=0).astype(np.int64),
            true + rng.normal(0, 6, true.shape),
            np.full(true.shape, 36.0),
            leaves_of(child, parts, demand, demand),
        )
        assert cost_of(problem, split_with_lift(problem)) == pytest.approx(least_cost(problem), rel=1e-5)


def least_cost(problem):
    """The least cost by HiGHS, over the leaves' own counts and one variable for each linear piece of each cost."""
    leaves, most = problem.leaves, problem_most(problem)
    n_children, n_columns = most.shape
    n_entries = leaves.leaf.size
    rows, right, objective, tops = [], [], [0.0] * n_entries, list(leaves.capacity.astype(float))
    for b in range(leaves.child.size):
        rows.append({int(e): 1.0 for e in np.flatnonzero(leaves.leaf == b)})
        right.append(float(leaves.lower[b]))
    for i in range(n_columns):
        rows.append({int(e): 1.0 for e in np.flatnonzero(leaves.column == i)})
        right.append(float(problem.parent_counts[i]))
    constant = 0.0
    for c, i in np.ndindex(n_children, n_columns):
        here = (leaves.child[leaves.leaf] == c) & (leaves.column == i)
        row = {int(e): 1.0 for e in np.flatnonzero(here)}
        near = min(max(int(np.floor(problem.target[c, i])), 0), int(most[c, i]))
        steps = {0} | {sign * 2**power for power in range(30) for sign in (-1, 1)}
        ends = sorted({min(max(near + step, 0), int(most[c, i])) for step in steps} | {0, int(most[c, i])})
        squares = [(end - problem.target[c, i]) ** 2 / problem.variance[c, i] for end in ends]
        constant += squares[0]
        for k in range(len(ends) - 1):
            row[len(objective)] = -1.0
            objective.append((squares[k + 1] - squares[k]) / (ends[k + 1] - ends[k]))
            tops.append(float(ends[k + 1] - ends[k]))
        rows.append(row)
        right.append(0.0)
    matrix = np.zeros((len(rows), len(objective)))
    for number, row in enumerate(rows):
        for column, value in row.items():
            matrix[number, column] = value
    found = linprog(objective, A_eq=matrix, b_eq=right, bounds=[(0, top) for top in tops], method="highs")
    assert found.status == 0
    return found.fun + constant


@given(st.integers(0, 10**6))
@settings(max_examples=25)
def test_merged_leaves_can_take_exactly_the_same_counts(seed):
    """One child: vectors of counts are held to Gale's condition, before and after."""
    rng = np.random.default_rng(seed)
    n_leaves, n_columns = int(rng.integers(2, 7)), int(rng.integers(1, 6))
    parts = rng.integers(0, 2 if n_columns > 3 else 3, (n_leaves, n_columns))
    parts[np.arange(n_leaves), rng.integers(0, n_columns, n_leaves)] += rng.integers(0, 3, n_leaves)
    upper = rng.integers(0, 5, n_leaves)
    upper = np.minimum(upper, parts.sum(axis=1))
    lower = np.where(rng.random(n_leaves) < 0.4, 0, rng.integers(0, upper + 1))
    merged = merged_leaves(leaves_of(np.zeros(n_leaves, int), parts, lower, upper), n_columns)
    own = np.zeros((merged.child.size, n_columns), np.int64)
    own[merged.leaf, merged.column] = merged.capacity
    tops = parts.sum(axis=0) + 1
    every = itertools.product(*(range(int(top) + 1) for top in tops))
    some = every if np.prod(tops + 1.0) < 500 else rng.integers(0, tops + 1, (300, n_columns))
    for counts in map(np.array, some):
        assert fits(counts, parts, lower, upper) == fits(counts, own, merged.lower, merged.upper)


def test_blocks_whose_people_can_all_be_of_one_cell_are_one_leaf():
    parts = np.array([[9, 1, 2], [8, 2, 0], [3, 3, 3]])
    limits = np.array([4, 3, 5])
    # In the third block, each set of two cells can take all and no cell can.
    merged = merged_leaves(leaves_of(np.zeros(3, int), parts, limits, limits), 3)
    assert merged.lower.tolist() == [7, 5]
    assert merged.capacity.tolist() == [17, 3, 2, 3, 3, 3]


def test_summed_bounds_would_not_be_enough():
    """Two leaves with (1, 1, 0, 0) and (0, 0, 1, 1): of the parent's (1, 1, 0, 0), neither can take both."""
    parts = np.array([[1, 1, 0, 0], [0, 0, 1, 1]])
    one = np.ones(2, np.int64)
    counts = np.array([1, 1, 0, 0])
    family = LiftedSplit(
        "a family", counts, np.zeros((2, 4)), np.ones((2, 4)), leaves_of(np.arange(2), parts, one, one)
    )
    with pytest.raises(ConstraintError) as raised:
        split_with_lift(family)
    assert raised.value.code == "lift-infeasible"
    assert "a family" in str(raised.value)


def test_a_root_finds_counts_that_its_leaves_can_take():
    parts = np.array([[1, 1, 0, 0], [0, 0, 1, 1]])
    one = np.ones(2, np.int64)
    target = np.array([[0.9, 0.8, 0.3, 0.1]])
    root = LiftedSplit("a root", None, target, np.ones((1, 4)), leaves_of(np.zeros(2, int), parts, one, one))
    assert split_with_lift(root).tolist() == [[1, 0, 1, 0]]


def test_a_root_between_two_totals_takes_what_its_targets_say():
    parts = np.array([[50, 40]])
    root = LiftedSplit(
        "a root",
        None,
        np.array([[12.2, 3.9]]),
        np.ones((1, 2)),
        leaves_of(np.zeros(1, int), parts, np.array([3]), np.array([60])),
    )
    assert split_with_lift(root).tolist() == [[12, 4]]


def test_a_root_is_drawn_to_its_measured_total():
    parts = np.array([[50, 40]])
    leaves = leaves_of(np.zeros(1, int), parts, np.array([3]), np.array([60]))
    totals = Totals(np.array([26.0]), np.array([0.01]))
    root = LiftedSplit("a root", None, np.array([[12.0, 4.0]]), np.ones((1, 2)), leaves, totals)
    assert split_with_lift(root).sum() == 26


def test_one_column_is_a_split_between_bounds():
    """With one column, each child a leaf: shares between bounds, near targets, that sum to the parent's count."""
    child = np.arange(3)
    bounds = np.array([2, 0, 1]), np.array([4, 9, 1])
    leaves = Leaves(child, *bounds, child, np.zeros(3, int), bounds[1])
    found = split_with_lift(
        LiftedSplit("x", np.array([9]), np.array([[9.0], [1.0], [5.0]]), np.ones((3, 1)), leaves)
    )
    assert found.tolist() == [[4], [4], [1]]


def test_huge_counts_and_small_variances_stay_exact():
    parts = np.array([[10**9, 10**9], [10**9, 10**9]])
    demand = np.array([10**9 + 7, 5])
    family = LiftedSplit(
        "x",
        np.array([10**9 - 3, 15]),
        np.array([[3.3, 1e9], [7.1, -1e9]]),
        np.array([[1e-6, 1e6], [1e-6, 1.0]]),
        leaves_of(np.arange(2), parts, demand, demand),
    )
    counts = split_with_lift(family)
    assert counts.sum(axis=0).tolist() == [10**9 - 3, 15]
    assert counts.sum(axis=1).tolist() == demand.tolist()
