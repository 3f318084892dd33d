"""What a plan states of several records: households, and the number of records that constraints tie together."""

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from tests.unit.plans.test_secrets import QUERIES, SPINE, plan_of

from tallyveil.accounting import DiscreteGaussian, ParallelEvent, compose, for_group
from tallyveil.accounting.renyi import zcdp_to_epsilon
from tallyveil.budget.allocation import allocation_of
from tallyveil.geography.bypass import BypassRule, bypass
from tallyveil.geography.spine import uniform_shares
from tallyveil.plans.groups import SIZES, groups_of, tied_of
from tallyveil.plans.record import groups_record


def counts_that_satisfy(constraints, n_leaves, n_records):
    """All counts of the leaves, of so many records, that satisfy (leaves, lower, upper) constraints."""
    for counts in itertools.product(range(n_records + 1), repeat=n_leaves):
        if sum(counts) == n_records and all(
            lower <= sum(counts[leaf] for leaf in leaves) <= upper for leaves, lower, upper in constraints
        ):
            yield counts


def records_needed(constraints, n_leaves, n_records):
    """The most records that must change for one of them to get a value that it can have."""
    feasible = list(counts_that_satisfy(constraints, n_leaves, n_records))
    possible = {leaf for counts in feasible for leaf in range(n_leaves) if counts[leaf]}
    most = 0
    for counts in feasible:
        for source, target in itertools.product(range(n_leaves), possible):
            if not counts[source] or source == target:
                continue
            # The other records: one less in the source. In D' one less in the target.
            here = np.array(counts) - np.eye(n_leaves, dtype=int)[source]
            least = min(
                int(np.abs(np.array(other) - np.eye(n_leaves, dtype=int)[target] - here).sum()) // 2
                for other in feasible
                if other[target]
            )
            most = max(most, 1 + least)
    return most


def nested(rng, leaves):
    """Random nested classes: the leaves are divided again and again."""
    yield leaves
    if len(leaves) > 1:
        cut = int(rng.integers(1, len(leaves)))
        for part in (leaves[:cut], leaves[cut:]):
            if rng.random() < 0.9:
                yield from nested(rng, part)


@pytest.mark.nightly
def test_with_nested_constraints_two_records_are_enough():
    rng, seen = np.random.default_rng(0), Counter()
    for _ in range(600):
        n_leaves, n_records = int(rng.integers(2, 6)), int(rng.integers(1, 6))
        # Around the counts of some population, so that there is one.
        counts = np.bincount(rng.integers(0, n_leaves, n_records), minlength=n_leaves)
        constraints = []
        for part in nested(rng, tuple(range(n_leaves))):
            if rng.random() < 0.8:
                count = int(counts[list(part)].sum())
                below, above = rng.integers(0, 3, 2).tolist() if rng.random() < 0.7 else (0, 0)
                constraints.append((part, count - below, count + above))
        seen[records_needed(constraints, n_leaves, n_records)] += 1
    assert set(seen) <= {0, 1, 2}
    assert seen[1] > 100
    assert seen[2] > 200


def test_a_record_can_be_added_if_one_other_may_leave():
    """Unbounded neighbours: the number of records is free but for the constraints."""
    rng, needed = np.random.default_rng(1), Counter()
    for _ in range(300):
        n_leaves, most = int(rng.integers(2, 5)), 4
        counts = np.bincount(rng.integers(0, n_leaves, 2), minlength=n_leaves)
        constraints = []
        for part in nested(rng, tuple(range(n_leaves))):
            if rng.random() < 0.8:
                count = int(counts[list(part)].sum())
                constraints.append((part, count - int(rng.integers(0, 2)), count + int(rng.integers(0, 2))))
        feasible = {
            counts
            for number in range(most + 1)
            for counts in counts_that_satisfy(constraints, n_leaves, number)
        }
        units = np.eye(n_leaves, dtype=int)
        possible = {leaf for counts in feasible for leaf in range(n_leaves) if counts[leaf]}
        for counts, leaf in itertools.product(feasible, possible):
            if sum(counts) == most:  # larger populations are not listed
                continue
            with_it = np.array(counts) + units[leaf]
            if tuple(with_it.tolist()) in feasible:
                needed[1] += 1
                continue
            leaving = [tuple((with_it - units[other]).tolist()) for other in range(n_leaves) if counts[other]]
            assert any(left in feasible for left in leaving)
            needed[2] += 1
    assert min(needed[1], needed[2]) > 100


def test_with_constraints_that_cross_two_records_may_not_be_enough():
    """Exact sums of the rows and columns of a table of three by three."""
    rows = [((0, 1, 2), 1, 1), ((3, 4, 5), 1, 1), ((6, 7, 8), 1, 1)]
    columns = [((0, 3, 6), 1, 1), ((1, 4, 7), 1, 1), ((2, 5, 8), 1, 1)]
    assert records_needed(rows + columns, 9, 3) == 3
    assert records_needed(rows, 9, 3) == 2


def test_a_household_has_the_sensitivity_of_all_its_members():
    plan = plan_of(QUERIES)
    event = plan.event()
    for item in groups_of(plan, event):
        exact = compose(for_group(event, item["size"]), neighbours="bounded").epsilon(plan.delta)
        assert item["epsilon"] == exact.upper
    assert [item["size"] for item in groups_of(plan, event)] == list(SIZES)


def test_people_of_one_block_may_be_on_paths_with_different_noise():
    plan = plan_of(["total", "sex"])
    made, shares = bypass(
        SPINE, uniform_shares(SPINE, dict(plan.strategy.geolevel_shares)), BypassRule.SINGLE_CHILD
    )
    allocation = allocation_of(plan.strategy, made.spine, shares)
    event = allocation.event()
    assert isinstance(event, ParallelEvent)
    couple = for_group(event, 2, together=True)
    # The halves of every two parts, with all answers moved by two.
    halves = [
        [DiscreteGaussian(item.variance, 2, item.multiplicity // 2) for item in part.events]
        for part in event.events
    ]
    wanted = max(
        compose(*one, *other, neighbours="unbounded").epsilon(plan.delta).upper
        for one, other in itertools.combinations_with_replacement(halves, 2)
    )
    stated = compose(couple, neighbours="bounded").epsilon(plan.delta).upper
    assert stated == pytest.approx(wanted, rel=1e-8)
    record = groups_record(plan, allocation)
    assert record["groups"][0]["epsilon"] == pytest.approx(wanted, rel=1e-8)
    assert record["groups"][0]["epsilon"] < zcdp_to_epsilon(4 * plan.spent, plan.delta)


def test_before_the_geography_is_opened_a_group_is_stated_by_the_budget():
    plan = plan_of(["total"])
    assert groups_of(plan, None)[0]["epsilon"] == zcdp_to_epsilon(4 * plan.spent, plan.delta)
    laplace = plan_of(["total"], mechanism="discrete_laplace", total="3/2")
    assert groups_of(laplace, None)[1]["epsilon"] == float(Fraction(15, 2))


def bounds(name, query, geolevel):
    return {"name": name, "query": query, "geolevel": geolevel, "path": "bounds.parquet", "missing": "zero"}


@pytest.mark.parametrize(
    ("invariants", "bounded", "records"),
    [
        ([("total", ["Region"])], [], 2),
        ([("home", ["Block"])], [], 2),
        ([("total", ["Region"])], [bounds("homes", "home", "Block")], 2),
        ([("total", ["Block"]), ("home", ["Region"])], [], None),
        ([("home", ["Block"]), ("place_of", ["Region", "Town"]), ("total", ["Block"])], [], 2),
        ([("sex", ["Region"])], [bounds("homes", "home", "Region")], None),
        ([("place_of", ["Block"])], [bounds("homes", "home", "Block")], 2),
    ],
)
def test_how_many_records_constraints_tie_together(invariants, bounded, records):
    plan = plan_of(["total", "sex"], invariants, bounds=bounded)
    tied = tied_of(plan, plan.event())
    assert tied["records"] == records
    assert len(tied["constraints"]) == len(invariants) + len(bounded)
    if records is None:
        assert tied["epsilon"] is None
        assert "not known" in tied["sentence"]
    else:
        exact = compose(for_group(plan.event(), 2), neighbours="bounded").epsilon(plan.delta).upper
        assert tied["epsilon"] == exact


def test_nothing_is_tied_without_constraints_or_by_the_number_of_all_records():
    assert tied_of(plan_of(["total"]), None) is None
    plan = plan_of(["total"], [("total", ["Region"])])
    assert tied_of(plan, plan.event(), one_root=True) is None
    # A record that is added or removed does change that number.
    unbounded = plan_of(["total"], [("total", ["Region"])], neighbours="unbounded")
    assert tied_of(unbounded, unbounded.event(), one_root=True)["records"] == 2
