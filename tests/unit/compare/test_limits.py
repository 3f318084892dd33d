"""Limits of true counts hold the truth, are as narrow as the law allows, and meet where sums tell a count."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.comparisons import SCHEMA, found, small_input, targets_of

from tallyveil.compare.attacks.hidden_counts import HiddenCounts
from tallyveil.compare.attacks.reconstruction import most_likely, rebuilt
from tallyveil.compare.draws import Draws
from tallyveil.compare.inputs import Areas, SharedInput
from tallyveil.compare.methods.cell_key import CellKey
from tallyveil.compare.methods.coarsening import Coarsening
from tallyveil.compare.methods.controlled_rounding import ControlledRounding
from tallyveil.compare.methods.exact import Exact
from tallyveil.compare.methods.method import Office
from tallyveil.compare.methods.rounding import RandomRounding, Rounding
from tallyveil.compare.methods.sampling import Sampling
from tallyveil.compare.methods.suppression import Suppression
from tallyveil.compare.published import IMPOSSIBLE, ExactLaw, Limits, PublishedTable
from tallyveil.compare.relations import NO_LIMIT

KEYED = (
    Rounding(name="x", base=3),
    Rounding(name="x", base=6),
    RandomRounding(name="x", base=3),
    RandomRounding(name="x", base=5, consistent=False),
    CellKey(name="x", largest=2, variance=Fraction(1)),
    CellKey(name="x", largest=3, variance=Fraction(2), never=1, threshold=3),
)
METHODS = (
    *KEYED,
    Exact(name="x"),
    ControlledRounding(name="x", base=5),
    Sampling(name="x", share=Fraction(2, 5)),
    Sampling(name="x", share=Fraction(1)),
    Suppression(name="x", threshold=4, secondary=False),
    Coarsening(name="x", down_to="Town", below=["total"]),
)
BLOCK = ("Block", "total")


def published_by(method, shared):
    return method.publish(Office(shared, None, "group", Draws("limits"), Draws("keys"), None))


def vector(shared, cells):
    return np.concatenate([shared.truth[name].ravel() for name in cells.names])


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(METHODS),
    st.integers(0, 1 << 30),
    st.sampled_from([12, 25]),
    st.sampled_from([("total", "group", "age*group"), ("age", "group"), ("total", "age")]),
    st.sampled_from([1.0, 5.0, 20.0]),
)
def test_the_truth_lies_within_all_limits(method, seed, n_blocks, queries, people):
    limits = published_by(method, small_input(n_blocks, seed, queries, people)).limits
    true = vector(limits.shared, limits.cells)
    for low, high in (limits.stated, limits.narrowed):
        assert (low <= true).all()
        assert (true <= high).all()
    assert not limits.contradict
    assert (limits.narrowed[0] >= limits.stated[0]).all()
    assert (limits.narrowed[1] <= limits.stated[1]).all()


@pytest.mark.parametrize("law", [method.stated_law() for method in (*KEYED, METHODS[8], METHODS[9])])
def test_limits_are_the_ends_of_what_the_law_calls_possible(law):
    """Every published count, shown or hidden, beside every true one."""
    true = np.arange(60)
    for hidden in (False, True) if getattr(law, "threshold", 0) else (False,):
        for count in range(40):
            table = PublishedTable(np.full(1, count), np.full(1, hidden))
            beside = PublishedTable(np.full(true.size, count), np.full(true.size, hidden))
            possible = true[law.log_likelihood(BLOCK, true, beside) > IMPOSSIBLE]
            low, high = law.limits(BLOCK, table)
            if possible.size:
                assert low[0] == possible.min()
                assert min(high[0], true[-1]) == possible.max()
            elif law is not METHODS[8].stated_law():
                assert low[0] > high[0] or not hasattr(law, "shifts")


def test_limits_by_hand():
    def limits(method, counts):
        low, high = method.stated_law().limits(BLOCK, PublishedTable(np.array(counts)))
        return list(zip(low.tolist(), high.tolist(), strict=True))

    # Halves go up: 3 is published as 6, and 9 as 12.
    assert limits(Rounding(name="x", base=5), [0, 5]) == [(0, 2), (3, 7)]
    assert limits(Rounding(name="x", base=6), [0, 6]) == [(0, 2), (3, 8)]
    assert limits(RandomRounding(name="x", base=3), [0, 3]) == [(0, 2), (1, 5)]
    # Empty cells stay empty, and 1 is never published.
    never = CellKey(name="x", largest=3, variance=Fraction(2), never=1)
    assert limits(never, [0, 2, 9]) == [(0, 3), (1, 5), (6, 12)]
    assert limits(never, [1])[0][0] > limits(never, [1])[0][1]


def test_limits_of_all_lines_again_and_again_are_no_narrower():
    shared = small_input(36)
    for method in (RandomRounding(name="x", base=3), Suppression(name="x", threshold=4, secondary=False)):
        limits = published_by(method, shared).limits
        low, high = (part.copy() for part in limits.stated)
        for _ in range(30):
            for lines in limits.cells.blocks():
                lines.narrow(low, high)
        assert np.array_equal(low, limits.narrowed[0])
        assert np.array_equal(np.where(high > NO_LIMIT / 2, NO_LIMIT, high), limits.narrowed[1])


def two_blocks(first, second):
    """A town of two blocks, with so many people in each."""
    counts = np.zeros((2, SCHEMA.size), dtype=np.int64)
    counts[:, 5] = first, second
    areas = (Areas("Town", ("T",), np.zeros(2, dtype=np.int64)), Areas("Block", ("A", "B"), np.arange(2)))
    return SharedInput(SCHEMA, (SCHEMA.query("total"), SCHEMA.query("age*group")), areas, 2, counts)


def test_the_worked_case_of_a_town_and_its_blocks():
    """A town that is published as 3 has two blocks that are published as 0: one person lives in each."""
    shared = two_blocks(1, 1)
    published = published_by(Rounding(name="x", base=3), shared)
    assert published.tables["Town", "total"].counts.tolist() == [[3]]
    assert not published.tables[BLOCK].counts.any()
    assert published.limits.narrowed_row(("Town", "total"), 0)[1] == 2
    for block in range(2):
        assert published.limits.narrowed_row(BLOCK, block) == (1, 1)
    # His files have these people, where a reader of the blocks' tables alone would take the blocks for empty.
    targets = targets_of(shared, 2)
    assert rebuilt(targets, published, published.law, np.arange(2)).sum(axis=1).tolist() == [1, 1]
    alone = replace(published, limits=None)
    assert not rebuilt(targets, alone, alone.law, np.arange(2)).any()


def test_random_rounding_is_known_where_differences_leave_nothing_else():
    """4 people rounded up to 6, and 2 rounded down to 0 twice: 6 less two zeros leaves 4, and 2 for each block."""
    shared = two_blocks(2, 2)
    law = RandomRounding(name="x", base=3).stated_law()
    tables = {
        name: PublishedTable(np.full_like(true, 6 * (name[0] == "Town")))
        for name, true in shared.truth.items()
    }
    tables["Town", "age*group"] = PublishedTable(6 * (shared.truth["Town", "age*group"] > 0))
    limits = Limits(shared, tables, law)
    assert (limits.stated[0] < limits.stated[1]).all()
    true = vector(shared, limits.cells)
    known = limits.narrowed[0] == limits.narrowed[1]
    assert np.array_equal(limits.narrowed[0][known], true[known])
    assert limits.narrowed_row(BLOCK, 0) == (2, 2)
    assert limits.narrowed_row(("Town", "total"), 0) == (4, 4)


def test_changed_counts_are_found_by_sums():
    findings = found(HiddenCounts(), Rounding(name="x", base=3), targets_of(small_input()))
    assert findings["hidden counts found exactly"].value > 0.05
    assert findings["hidden counts of 1 and 2 found exactly"].value > 0.05
    assert findings["hidden counts known to within 2"].value == 1


def test_limits_that_are_not_those_of_the_tables_find_nothing_false():
    shared = small_input(24)
    published = published_by(Rounding(name="x", base=5), shared)
    wrong = replace(published, limits=Limits(shared, published.tables, ExactLaw()))
    assert wrong.limits.contradict
    assert not HiddenCounts().run(targets_of(shared), wrong, None)


@pytest.mark.nightly
def test_who_uses_all_tables_rebuilds_no_less():
    targets = targets_of(small_input())
    rows = np.flatnonzero(targets.shared.counts.sum(axis=1))[:30]
    true = targets.shared.counts[rows]
    for method in (RandomRounding(name="x", base=3), Rounding(name="x", base=5), KEYED[4]):
        published = published_by(method, targets.shared)
        alone = replace(published, limits=None)
        every, single = (
            np.minimum(rebuilt(targets, item, item.law, rows), true).sum() for item in (published, alone)
        )
        assert every >= single


def test_the_most_likely_count_within_limits():
    law = RandomRounding(name="x", base=3).stated_law()
    table = PublishedTable(np.array([3, 3, 3, 0]))
    low, high = (np.array(values, dtype=float) for values in ([1, 4, 1, 0], [5, 5, 2, 2]))
    assert most_likely(law, BLOCK, table, low, high).tolist() == [3, 4, 2, 0]
