"""Secondary suppression: by an audit of its own, no hidden count follows where the method says so."""

import time
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp
from tests.comparisons import found, publications, small_input, targets_of

from tallyveil.compare.attacks.hidden_counts import HiddenCounts
from tallyveil.compare.methods.suppression import Suppression
from tallyveil.compare.patterns import follows, least_pattern
from tallyveil.compare.relations import NO_LIMIT, Families, Lines, TableCells, _narrowed


def two_ways(table):
    """A table with its sums, as one vector, and the lines among them."""
    whole = np.pad(table, ((0, 1), (0, 1)))
    whole[-1, :-1], whole[:-1, -1], whole[-1, -1] = table.sum(axis=0), table.sum(axis=1), table.sum()
    numbers = np.arange(whole.size).reshape(whole.shape)
    wholes = np.concatenate([numbers[-1], numbers[:, -1]])
    columns, rows = numbers[:-1].T, numbers[:, :-1]
    parts = np.concatenate([columns.ravel(), rows.ravel()])
    by_column = np.repeat(np.arange(columns.shape[0]), columns.shape[1])
    by_row = np.repeat(np.arange(rows.shape[0]), rows.shape[1])
    line = np.concatenate([by_column, columns.shape[0] + by_row])
    return whole.ravel(), Lines(wholes, parts, line)


def limits(counts, lines, hidden, least, number):
    """The least and the greatest value of a hidden count: by another solver interface, one program for each."""
    matrix = np.zeros((lines.n_lines, counts.size))
    np.add.at(matrix, (lines.line, lines.parts), 1)
    np.add.at(matrix, (np.arange(lines.n_lines), lines.wholes), -1)
    bounds = Bounds(np.where(hidden, least, counts), np.where(hidden, 1000, counts))
    ends = []
    for sign in (1, -1):
        cost = np.zeros(counts.size)
        cost[number] = sign
        answer = milp(
            cost, constraints=LinearConstraint(matrix, 0, 0), bounds=bounds, integrality=np.ones(counts.size)
        )
        ends.append(sign * round(answer.fun))
    return ends


@pytest.mark.parametrize(
    "seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(8, 100))]
)
def test_the_audit_agrees_with_one_program_for_each_hidden_count(seed):
    generator = np.random.default_rng(seed)
    counts, lines = two_ways(
        generator.poisson(generator.choice([0.7, 2, 6]), size=generator.integers(2, 5, size=2))
    )
    primary = (counts > 0) & (counts < 3)
    nothing = np.zeros_like(primary)
    pattern = least_pattern(counts, lines, primary, 1.0 + np.log1p(counts), safe=nothing, least=1, seconds=5)
    assert (pattern.hidden >= primary).all()
    assert (counts[pattern.hidden] > 0).all()
    assert pattern.bound <= pattern.cost + 1e-6 or not pattern.proved
    for hidden in (primary, pattern.hidden):
        alone = [
            number
            for number in np.flatnonzero(hidden)
            if len(set(limits(counts, lines, hidden, 1, number))) == 1
        ]
        followed, in_time = follows(counts, lines, hidden, nothing, 1, 5)
        assert np.flatnonzero(followed).tolist() == alone
        assert in_time
    if pattern.proved:
        assert not alone
        # More hidden counts leave more tables, so that what was safe need not be asked for again.
        grown = pattern.hidden | ((counts > 0) & (generator.random(counts.size) < 0.3))
        asked, spared = (follows(counts, lines, grown, safe, 1, 5)[0] for safe in (nothing, pattern.hidden))
        assert np.array_equal(asked, spared)


def test_limits_narrow_beside_many_counts_of_which_nothing_is_known():
    """One round passes a limit one line further, and sums of limits of 1e15 do not show it."""
    n = 20
    high = np.full(2 * n + 2 + 5000, NO_LIMIT)
    low, high[: 2 * n + 2] = np.zeros(high.size), 15.0
    high[0] = low[0] = 10.0
    # Whole 2 i is the sum of the numbers after it; each line comes before the one that narrows it.
    lines = [
        Lines(np.array([2 * i]), np.array([2 * i + 2, 2 * i + 1]), np.array([0, 0]))
        for i in reversed(range(n))
    ]
    assert (_narrowed(lines, low, high)[1][: 2 * n + 1] == 10).all()


def test_the_worked_case():
    """1 + 1 + 5 = 7 with the ones hidden: the 5 or the sum has to go as well, and the cheaper one does."""
    counts, lines = (
        np.array([1, 1, 5, 7]),
        Lines(np.array([3]), np.array([0, 1, 2]), np.zeros(3, dtype=np.int64)),
    )
    primary = np.array([True, True, False, False])
    nothing = np.zeros_like(primary)
    assert follows(counts, lines, primary, nothing, 1, 5)[0].tolist() == primary.tolist()
    cost = np.array([1.0, 1.0, 2.0, 3.0])
    pattern = least_pattern(counts, lines, primary, cost, safe=nothing, least=1, seconds=5)
    assert pattern.hidden.tolist() == [True, True, True, False]
    assert pattern.proved


def test_limits_hold_the_truth_and_meet_only_at_it():
    shared = small_input(60)
    cells = TableCells(shared)
    true = np.concatenate([shared.truth[name].ravel() for name in cells.names]).astype(float)
    for lines in cells.blocks():
        assert np.array_equal(np.bincount(lines.line, true[lines.parts], lines.n_lines), true[lines.wholes])
    hidden = np.random.default_rng(1).random(true.size) < 0.3
    low, high = cells.narrowed(np.where(hidden, 0, true), np.where(hidden, 1e15, true))
    assert (low <= true).all()
    assert (high >= true).all()


def test_the_lines_of_a_family_hold():
    shared = small_input(60)
    family = Families(shared, 2)
    for parent in range(5):
        counts, lines = family.gathered(shared.truth, parent), family.lines(parent)
        assert np.array_equal(
            np.bincount(lines.line, counts[lines.parts], lines.n_lines), counts[lines.wholes]
        )


@pytest.mark.nightly
def test_secondary_suppression_leaves_little_and_areas_that_cut_across_tell_more():
    whole = small_input(36)
    exactly = {
        (secondary, entities): found(
            HiddenCounts(),
            Suppression(name="x", threshold=3, secondary=secondary),
            targets_of(whole if entities else replace(whole, areas=whole.geolevels)),
        )[HiddenCounts.headline].value
        for secondary, entities in ((False, False), (True, False), (True, True))
    }
    assert exactly[False, False] > 0.5
    assert exactly[True, False] < 0.02
    assert exactly[True, True] > 0.1


def test_the_method_says_how_much_it_proved():
    note = publications(Suppression(name="x", threshold=3), targets_of(small_input(24)))[0].notes[-1]
    assert "integer programs" in note
    assert "proves" in note


def test_families_without_time_hide_all_that_they_may_and_the_method_says_so(monkeypatch):
    # A minute passes whenever somebody looks at the clock.
    monkeypatch.setattr(time, "monotonic", count(step=60).__next__)
    shared = small_input(24)
    published = publications(Suppression(name="x", threshold=3, minutes=1), targets_of(shared))[0]
    assert "had no time left" in published.notes[-1]
    assert "In 0 of " in published.notes[-1]
    hidden = published.tables["Town", "age*group"].hidden
    assert np.array_equal(hidden, shared.truth["Town", "age*group"] > 0)


def test_without_time_everything_is_hidden_that_may_be_and_the_pattern_says_so():
    counts, lines = two_ways(np.array([[1, 6, 7], [8, 9, 5], [4, 4, 0]]))
    primary = (counts > 0) & (counts < 3)
    hurried, unhurried = (
        least_pattern(
            counts, lines, primary, np.ones(counts.size), safe=~primary & primary, least=1, seconds=seconds
        )
        for seconds in (0.0, 60.0)
    )
    assert hurried.limited
    assert not hurried.proved
    assert np.array_equal(hurried.hidden, counts >= 1)
    assert not unhurried.limited
    assert unhurried.hidden.sum() < hurried.hidden.sum()
