"""Bounds on variances against all groups of small spines."""

from itertools import product

import numpy as np
import pytest
from tests.samples import few
from tests.unit.geography.test_distance_bounds import (
    LIMIT,
    areas_of,
    counties_of,
    family_on,
    partitions,
    spine_of,
)

from tallyveil.budget.presets import load_strategy_preset
from tallyveil.budget.spine.bounds import shared_bounds, variance_bounds
from tallyveil.budget.spine.higher_groups import with_shared_groups
from tallyveil.budget.spine.single_children import greatest_precisions
from tallyveil.budget.spine.variance import TotalMeasures, entity_variances, spine_variances, totals_summed
from tallyveil.errors import BudgetError, GeographyError
from tallyveil.geography.build import spine_from_columns
from tallyveil.geography.bypass import BypassRule, bypass
from tallyveil.geography.distance_bounds import FreeGroups, undivided
from tallyveil.geography.entities import off_spine_distances
from tallyveil.geography.spine import uniform_shares
from tallyveil.geography.steps import FanOutLimit
from tallyveil.schema.presets import load_preset

LOWEST = FreeGroups(("Block_Group",), LIMIT)


def variances_on(spine, precisions):
    return spine_variances(
        spine, [np.full(spine.n_geounits(level), value) for level, value in enumerate(precisions)]
    )


@pytest.mark.parametrize("seed", few(2, range(4)))
def test_the_bound_is_the_least_variance_over_all_groups(seed):
    rng = np.random.default_rng([94, seed])
    blocks = [[f"b{t}{k}" for k in range(int(n))] for t, n in enumerate(rng.integers(2, 5, 2))]
    every = [block for tract in blocks for block in tract]
    masks = [set(rng.permutation(every)[: int(rng.integers(1, len(every) + 1))].tolist()) for _ in range(8)]
    # Every second state's total is exact, and some geolevels say nothing.
    precisions = [
        np.inf if seed % 2 else 0.3,
        rng.choice([0, 1.0]),
        rng.uniform(0.1, 3),
        rng.choice([0.01, 1.0]),
    ]
    reached, bounds = [], []
    for made in product(*(list(partitions(tract, 2)) for tract in blocks)):
        variances = variances_on(spine_of(made), precisions)
        family = family_on(variances.spine, masks)
        reached.append(entity_variances(variances, family))
        bounds.append(variance_bounds(variances, family, LOWEST))
    least = np.min(reached, axis=0)
    # Which groups the spine has does not matter to the bound.
    for bound in bounds:
        np.testing.assert_allclose(bound, least, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("seed", few(2, range(6)))
def test_entities_that_share_groups_are_not_below_their_bound(seed):
    """Weighted sums, and means of some entities, over all groups of two tracts; blocks tell little or more."""
    rng = np.random.default_rng([96, seed])
    blocks = [[f"b{t}{k}" for k in range(int(n))] for t, n in enumerate(rng.integers(3, 5, 2))]
    every = [block for tract in blocks for block in tract]
    masks = [set(rng.permutation(every)[: int(rng.integers(1, len(every) + 1))].tolist()) for _ in range(4)]
    few_told = 10.0 ** -(seed % 3 * 2)
    precisions = [np.inf if seed % 2 else 0.3, rng.choice([0, 1.0]), rng.uniform(0.5, 3), 0.3 * few_told]
    weights = [np.ones(4), rng.uniform(0, 1, 4), np.array([1.0, 0, 0, 1])]
    part = np.array([True, False, True, False])
    reached = []
    for groups in product(*(list(partitions(tract, 2)) for tract in blocks)):
        variances = variances_on(spine_of(groups), precisions)
        reached.append(np.sqrt(entity_variances(variances, family_on(variances.spine, masks))))
    shared = shared_bounds(variances, [family_on(variances.spine, masks)], LOWEST)
    for weight in weights:
        assert shared.least_sum(weight) <= min(float(weight @ values) for values in reached) * (1 + 1e-12)
    for values in reached:
        rivals = [other[part].mean() for other in reached if other.sum() <= values.sum()]
        assert shared.least_mean(part, values) <= min(rivals) * (1 + 1e-12)


def test_the_shared_bound_is_the_least_sum_where_blocks_tell_little():
    """Two areas cross in a tract. Each alone would have one group of two, and together they need four groups of one."""
    parts = [[f"b{part}"] for part in range(4)]
    masks = [{"b0", "b1"}, {"b0", "b2"}]
    precisions, limit = (0.1, 0.1, 1.0, 1e-3), FanOutLimit(at_most=2)
    whole = [f"b{part}" for part in range(4)]
    sums = [
        float(np.sqrt(entity_variances(variances, family_on(variances.spine, masks))).sum())
        for groups in partitions(whole, 2)
        for variances in [variances_on(spine_of([groups, [["c"]]]), precisions)]
    ]
    variances = variances_on(spine_of([parts, [["c"]]]), precisions)
    shared = shared_bounds(
        variances, [family_on(variances.spine, masks)], FreeGroups(("Block_Group",), limit)
    )
    assert shared.least_sum(np.ones(2)) == pytest.approx(min(sums), rel=1e-12)
    assert shared.alone.sum() < 0.8 * min(sums)
    assert shared.undivided.sum() == pytest.approx(min(sums), rel=1e-12)
    # No groups make one of the two more exact without making both together less exact.
    assert shared.least_mean(np.array([True, False]), shared.undivided) == pytest.approx(
        shared.undivided[0], rel=1e-12
    )


def test_what_has_no_bound_is_refused():
    spine = spine_of([[["a", "b"], ["c"]]])
    family = family_on(spine, [{"a"}])
    with pytest.raises(GeographyError, match="are no groups"):
        variance_bounds(variances_on(spine, (1, 1, 1, 1)), family, FreeGroups(("Block",), LIMIT))
    with pytest.raises(BudgetError, match="do not determine all totals"):
        variance_bounds(variances_on(spine, (1, 1, 0, 0)), family, FreeGroups(("Tract",), LIMIT))
    with pytest.raises(BudgetError, match="no groups determine"):
        variance_bounds(variances_on(spine, (1, 1, 0, 0)), family, LOWEST)
    moved = spine_variances(spine, [np.ones(1), np.ones(1), np.array([1.0, 2.0]), np.ones(3)])
    with pytest.raises(BudgetError, match="--no-bypass"):
        variance_bounds(moved, family, LOWEST)


@pytest.mark.parametrize("seed", few(1, range(4)))
def test_groups_that_are_as_exact_have_no_smaller_distances(seed):
    """If dividing a group costs too much, no choice that is as exact has smaller distances."""
    rng = np.random.default_rng([97, seed])
    tracts = [[f"b{t}{k}" for k in range(4)] for t in range(2)]
    every = [block for tract in tracts for block in tract]
    masks = [set(rng.permutation(every)[: int(rng.integers(2, 5))].tolist()) for _ in range(3)]
    reached, distances = [], []
    for groups in product(*(list(partitions(tract, 2)) for tract in tracts)):
        variances = variances_on(spine_of(groups), (0.1, 0.1, 1.0, 1e-4))
        family = family_on(variances.spine, masks)
        reached.append(np.sqrt(entity_variances(variances, family)))
        distances.append(off_spine_distances(variances.spine, family).distance)
    shared = shared_bounds(variances, [family], LOWEST)
    fewest, (moved,) = undivided(variances.spine, [family], LIMIT)
    least = off_spine_distances(fewest, moved).distance
    sums = np.array([values.sum() for values in reached])
    assert shared.keeps_groups_whole(reached[int(sums.argmin())])
    assert not shared.keeps_groups_whole(reached[int(sums.argmax())])
    best = [values for values, total in zip(distances, sums, strict=True) if total <= sums.min() * (1 + 1e-9)]
    assert np.array_equal(np.min(best, axis=0), least)


@pytest.mark.parametrize("seed", few(1, range(4)))
def test_bounds_hold_where_geounits_with_one_child_are_bypassed(seed):
    """Three tracts, one of them alone in its county and one of a single block, with production's shares and queries."""
    rng = np.random.default_rng([98, seed])
    strategy = load_strategy_preset("redistricting-us").strategy
    measures = TotalMeasures(strategy, totals_summed(load_preset("pl94-persons"), strategy), ("US",))
    blocks = [["b00", "b01", "b02", "b03"], ["b10", "b11", "b12"], ["b20"]]
    every = [block for tract in blocks for block in tract]
    masks = [set(rng.permutation(every)[: int(rng.integers(1, 8))].tolist()) for _ in range(4)]
    reached, bounds = [], []
    limit = FanOutLimit(at_most=3)
    for tracts in product(*(list(partitions(tract, 3)) for tract in blocks)):
        rows = [
            ("u", "s", f"c{t // 2}", f"t{t}", f"t{t}g{g}", block)
            for t, groups in enumerate(tracts)
            for g, group in enumerate(groups)
            for block in group
        ]
        names = strategy.geolevels
        spine = spine_from_columns(dict(zip(names, zip(*rows, strict=True), strict=True)), names)
        made, shares = bypass(
            spine, uniform_shares(spine, dict(strategy.geolevel_shares)), BypassRule.SINGLE_CHILD
        )
        family = family_on(made.spine, masks)
        reached.append(np.sqrt(entity_variances(measures.on(made.spine, shares), family)))
        variances, single = greatest_precisions(measures, made.spine, limit)
        shared = shared_bounds(variances, [family], FreeGroups(("Block_Group",), limit), single=single)
        bounds.append((*shared.alone, shared.least_sum(np.ones(4))))
    np.testing.assert_allclose(bounds, np.tile(bounds[0], (len(bounds), 1)), rtol=1e-12)
    least = [*np.min(reached, axis=0), min(values.sum() for values in reached)]
    assert np.all(np.array(bounds[0]) <= np.array(least) * (1 + 1e-12))
    assert np.all(np.array(bounds[0][:4]) >= 0.9 * np.array(least[:4]))


@pytest.mark.parametrize("seed", few(2, range(8)))
def test_no_tract_groups_are_below_the_bounds_of_areas_that_share_them(seed):
    """All groups of the tracts of a county, and with every second seed of the blocks as well."""
    rng = np.random.default_rng([101, seed])
    blocks = [[f"b{t}{k}" for k in range(int(n))] for t, n in enumerate(rng.integers(1, 3, 4))]
    masks = areas_of(rng, blocks, 4)
    few_told = 10.0 ** -(seed % 3 * 2)
    precisions = [
        np.inf if seed % 4 < 2 else 0.3,
        0.2,
        rng.uniform(0.2, 2),
        0.3,
        rng.uniform(0.5, 3),
        0.3 * few_told,
    ]
    weights = [np.ones(4), rng.uniform(0, 1, 4), np.array([1.0, 0, 0, 1])]
    part = np.array([True, False, True, False])
    chosen = [list(partitions(tract, 2)) for tract in blocks]
    if seed % 2 == 0:
        chosen = [[groups[int(rng.integers(len(groups)))]] for groups in chosen]
    free = FreeGroups(("Tract_Group", "Block_Group") if seed % 2 else ("Tract_Group",), LIMIT)
    reached = []
    for groups in partitions(list(range(4)), 2):
        for tracts in product(*chosen):
            variances = variances_on(counties_of(tracts, groups, 1), precisions)
            reached.append(np.sqrt(entity_variances(variances, family_on(variances.spine, masks))))
    shared, rows = with_shared_groups(variances, [family_on(variances.spine, masks)], "Tract_Group", LIMIT)
    assert rows is None or np.array_equal(np.sort(rows), np.arange(len(rows)))
    family = family_on(shared.spine, masks)
    bounds = shared_bounds(shared, [family], free)
    assert np.all(bounds.alone <= np.min(reached, axis=0) * (1 + 1e-12))
    assert np.all(bounds.alone >= 0.8 * np.min(reached, axis=0))
    for weight in weights:
        assert bounds.least_sum(weight) <= min(float(weight @ values) for values in reached) * (1 + 1e-12)
    for values in reached:
        rivals = [other[part].mean() for other in reached if other.sum() <= values.sum()]
        assert bounds.least_mean(part, values) <= min(rivals) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("masks", "gap"), [([{"b0", "b1"}, {"b2", "b3"}], 1e-9), ([{"b0", "b1"}, {"b0", "b2"}], 0.1)]
)
def test_the_bound_is_near_the_best_tract_groups(masks, gap):
    """Two areas of two tracts: if they are apart, each has the group that is best for it; if not, they share groups."""
    precisions = (0.1, 0.1, 0.3, 0.3, 0.1, 0.1)
    tracts = [[[f"b{t}"]] for t in range(4)]
    reached = {}
    for groups in partitions(list(range(4)), 2):
        variances = variances_on(counties_of(tracts, groups, 1), precisions)
        deviations = np.sqrt(entity_variances(variances, family_on(variances.spine, masks)))
        reached[float(deviations.sum())] = variances
    best = reached[min(reached)]
    bounds = shared_bounds(best, [family_on(best.spine, masks)], FreeGroups(("Tract_Group",), LIMIT))
    assert bounds.least_sum(np.ones(2)) <= min(reached) * (1 + 1e-12)
    assert min(reached) <= bounds.least_sum(np.ones(2)) * (1 + gap)
