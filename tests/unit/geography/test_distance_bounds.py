"""Bounds on off-spine distances against all groups of small spines, and groups by the sum of the distances."""

from itertools import product

import numpy as np
import pytest
from tests.samples import few

from tallyveil.errors import GeographyError
from tallyveil.geography.build import spine_from_columns
from tallyveil.geography.distance_bounds import distance_bounds, joint_distance_bound
from tallyveil.geography.entities import EntityFamily, off_spine_distances
from tallyveil.geography.steps import FanOutLimit, group_by_distance

LEVELS = ("State", "Tract", "Block_Group", "Block")
LIMIT = FanOutLimit(at_most=2)


def partitions(items, largest):
    """All ways to divide a list into groups of limited size."""
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for mask in range(1 << len(rest)):
        group = [first, *(item for bit, item in enumerate(rest) if mask >> bit & 1)]
        if len(group) <= largest:
            others = [item for bit, item in enumerate(rest) if not mask >> bit & 1]
            yield from ([group, *more] for more in partitions(others, largest))


def spine_of(tracts, names=LEVELS):
    """A spine of one state from its tracts, each a list of groups of blocks."""
    rows = [
        ("s", f"t{t}", f"t{t}g{g}", block)
        for t, groups in enumerate(tracts)
        for g, group in enumerate(groups)
        for block in group
    ]
    return spine_from_columns(dict(zip(names, zip(*rows, strict=True), strict=True)), names)


def family_on(spine, masks):
    """Entities by their blocks' names, on a spine that may have them in any order."""
    rows = [np.sort(spine.locate(spine.finest, sorted(mask))) for mask in masks]
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    codes = tuple(f"{number:03}" for number in range(len(rows)))
    return EntityFamily("places", codes, offsets, np.concatenate(rows), spine.n_geounits(spine.finest))


@pytest.mark.parametrize("seed", few(1, range(4)))
def test_the_bound_is_the_least_distance_over_all_groups(seed):
    rng = np.random.default_rng([91, seed])
    blocks = [[f"b{t}{k}" for k in range(int(n))] for t, n in enumerate(rng.integers(2, 5, 2))]
    every = [block for tract in blocks for block in tract]
    masks = [set(rng.permutation(every)[: int(rng.integers(1, len(every) + 1))].tolist()) for _ in range(8)]
    spines = [spine_of(made) for made in product(*(list(partitions(tract, 2)) for tract in blocks))]
    reached = [off_spine_distances(spine, family_on(spine, masks)).distance for spine in spines]
    for spine in (spines[0], spines[-1]):
        bounds = distance_bounds(spine, family_on(spine, masks), ("Block_Group",), LIMIT)
        assert bounds.tolist() == np.min(reached, axis=0).tolist()


@pytest.mark.parametrize("seed", range(4))
def test_groups_of_two_geolevels_do_not_fall_below_the_bound(seed, random_spine, random_family):
    rng = np.random.default_rng([92, seed])
    spine = random_spine(rng, 25, 6, one_root=True)
    family = random_family(rng, spine, 12)
    limit = FanOutLimit(cutoff=25)
    grouped = (spine.geolevels[4], spine.geolevels[2])
    bounds = distance_bounds(spine, family, grouped, limit)
    distance = off_spine_distances(spine, family).distance
    assert np.all(bounds <= distance)
    assert np.array_equal(distance_bounds(spine, family, (), limit), distance)
    # Fewer free geolevels leave less to be gained.
    assert np.all(bounds <= distance_bounds(spine, family, grouped[:1], limit))


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(4))
def test_the_joint_bound_is_below_the_sum_of_any_groups(seed):
    """Three tracts: entities in two of them add up, and an entity in all three is bounded alone."""
    rng = np.random.default_rng([95, seed])
    blocks = [[f"b{t}{k}" for k in range(4)] for t in range(2)] + [["b20"]]
    two = [block for tract in blocks[:2] for block in tract]
    masks = [set(rng.permutation(two)[: int(rng.integers(2, 7))].tolist()) for _ in range(3)]
    masks.append({"b00", "b10", "b20"})
    spines = [spine_of(made) for made in product(*(list(partitions(tract, 2)) for tract in blocks))]
    least = min(int(off_spine_distances(spine, family_on(spine, masks)).distance.sum()) for spine in spines)
    family = family_on(spines[0], masks)
    joint = joint_distance_bound(spines[0], (family,), ("Block_Group",), LIMIT)
    assert distance_bounds(spines[0], family, ("Block_Group",), LIMIT).sum() <= joint <= least


def test_entities_that_cross_share_their_groups():
    """Four parts of two blocks need four groups of two; a place and a district that cross have two each, not one."""
    parts = [[f"b{part}{k}" for k in range(4)] for part in range(4)]
    spine = spine_of([parts, [["c"]], [["d"]]])
    masks = [{*parts[0], *parts[1]}, {*parts[0], *parts[2]}]
    limit = FanOutLimit(at_most=8)
    family = family_on(spine, masks)
    assert off_spine_distances(spine, family).distance.tolist() == [2, 2]
    assert distance_bounds(spine, family, ("Block_Group",), limit).tolist() == [1, 1]
    assert joint_distance_bound(spine, (family,), ("Block_Group",), limit) == 4


HIGHER = ("State", "County", "Tract_Group", "Tract", "Block_Group", "Block")


def counties_of(tracts, tract_groups, others=3):
    """A state of a county of tracts, each a list of groups of blocks, and other counties of one block each."""
    group_of = {tract: number for number, group in enumerate(tract_groups) for tract in group}
    rows: list[tuple[str, ...]] = [
        ("s", "a", f"a{group_of[t]}", f"at{t}", f"at{t}g{g}", block)
        for t, groups in enumerate(tracts)
        for g, group in enumerate(groups)
        for block in group
    ]
    rows += [
        ("s", *(f"{other}{mark}" for mark in ("c", "g", "t", "b")), f"c{other}") for other in range(others)
    ]
    return spine_from_columns(dict(zip(HIGHER, zip(*rows, strict=True), strict=True)), HIGHER)


def areas_of(rng, blocks, number, part=0.3):
    """Areas of whole tracts, of which some also have a part of the blocks of others."""
    masks = []
    while len(masks) < number:
        whole = rng.random(len(blocks)) < 0.5
        mask = {
            block
            for tract, is_whole in zip(blocks, whole, strict=True)
            for block in tract
            if is_whole or rng.random() < part / 2
        }
        if mask:
            masks.append(mask)
    return masks


@pytest.mark.parametrize("seed", few(2, range(8)))
def test_entities_that_share_tract_groups_have_no_smaller_sum(seed):
    """All tract groups, over block groups that are given; the bound is reached in most of these counties."""
    rng = np.random.default_rng([99, seed])
    blocks = [[f"b{t}{k}" for k in range(int(n))] for t, n in enumerate(rng.integers(1, 3, 5))]
    tracts = [rng.choice(np.array(list(partitions(tract, 3)), dtype=object)) for tract in blocks]
    limit = FanOutLimit(at_most=int(rng.integers(2, 4)))
    masks = areas_of(rng, blocks, 4)
    spines = [counties_of(tracts, groups) for groups in partitions(list(range(5)), limit.at_most)]
    sums = [int(off_spine_distances(spine, family_on(spine, masks)).distance.sum()) for spine in spines]
    family = family_on(spines[0], masks)
    joint = joint_distance_bound(spines[0], (family,), ("Tract_Group",), limit)
    assert distance_bounds(spines[0], family, ("Tract_Group",), limit).sum() <= joint <= min(sums)
    assert joint >= min(sums) - 1


@pytest.mark.parametrize("seed", few(1, range(4)))
def test_no_groups_of_two_geolevels_have_a_sum_below_their_joint_bound(seed):
    rng = np.random.default_rng([100, seed])
    blocks = [[f"b{t}{k}" for k in range(int(n))] for t, n in enumerate(rng.integers(1, 4, 3))]
    masks = areas_of(rng, blocks, 3)
    least = min(
        int(off_spine_distances(spine, family_on(spine, masks)).distance.sum())
        for groups in partitions(list(range(3)), 2)
        for tracts in product(*(list(partitions(tract, 2)) for tract in blocks))
        for spine in [counties_of(tracts, groups)]
    )
    spine = counties_of([[[block] for block in tract] for tract in blocks], [[t] for t in range(3)])
    family = family_on(spine, masks)
    both = ("Tract_Group", "Block_Group")
    joint = joint_distance_bound(spine, (family,), both, LIMIT)
    assert distance_bounds(spine, family, both, LIMIT).sum() <= joint <= least


def test_areas_that_cross_share_tract_groups():
    """Three parts of two tracts each: the district and the place need two groups each, and not one as alone."""
    tracts = [[[f"b{t}"]] for t in range(16)]
    spine = counties_of(tracts, [[0, 1], [2, 3], [4, 5], *([t] for t in range(6, 16))])
    masks = [{"b0", "b1", "b2", "b3"}, {"b0", "b1", "b4", "b5"}]
    limit = FanOutLimit(at_most=4)
    family = family_on(spine, masks)
    assert off_spine_distances(spine, family).distance.tolist() == [2, 2]
    assert distance_bounds(spine, family, ("Tract_Group",), limit).tolist() == [1, 1]
    assert joint_distance_bound(spine, (family,), ("Tract_Group",), limit) == 4


@pytest.mark.parametrize("seed", few(1, range(4)))
def test_groups_by_the_sum_cannot_be_improved_by_one_move(seed):
    rng = np.random.default_rng([93, seed])
    tracts = [[f"b{t}{k}" for k in range(3)] for t in range(6)]
    every = [block for tract in tracts for block in tract]
    masks = [set(rng.permutation(every)[: int(rng.integers(3, 12))].tolist()) for _ in range(4)]
    names = ("County", "Tract", "Block")
    rows = [("c", f"t{t}", block) for t, tract in enumerate(tracts) for block in tract]
    plain = spine_from_columns(dict(zip(names, zip(*rows, strict=True), strict=True)), names)
    families = [family_on(plain, masks)]
    made = group_by_distance(
        plain, families, geolevel="Tract_Group", children="Tract", limit=FanOutLimit(at_most=3), measure="sum"
    ).spine
    group = made.parents(made.level_index("Tract")).tolist()

    def total(groups):
        with_groups = [
            ("c", f"g{groups[t]}", f"t{t}", block) for t, tract in enumerate(tracts) for block in tract
        ]
        four = ("County", "Tract_Group", "Tract", "Block")
        spine = spine_from_columns(dict(zip(four, zip(*with_groups, strict=True), strict=True)), four)
        return int(off_spine_distances(spine, family_on(spine, masks)).distance.sum())

    order = [made.geocodes[2].tolist().index(f"t{t}") for t in range(6)]
    group = [group[place] for place in order]
    reached = total(group)
    bounds = distance_bounds(made, family_on(made, masks), ("Tract_Group",), FanOutLimit(at_most=3))
    assert bounds.sum() <= reached <= total(range(6))
    for tract, target in product(range(6), range(7)):
        moved = [*group[:tract], target, *group[tract + 1 :]]
        if max(moved.count(number) for number in moved) <= 3:
            assert total(moved) >= reached


def test_what_cannot_be_groups_is_refused():
    spine = spine_of([[["a", "b", "c"], ["d"]]])
    family = family_on(spine, [{"a"}])
    for grouped, words in (
        (("State",), "no groups"),
        (("Block",), "no groups"),
        (("Tract", "Block_Group"), "above"),
    ):
        with pytest.raises(GeographyError, match=words) as caught:
            distance_bounds(spine, family, grouped, FanOutLimit())
        assert caught.value.code == "spine-step"
    with pytest.raises(GeographyError, match="children more") as caught:
        distance_bounds(spine, family, ("Block_Group",), LIMIT)
    assert caught.value.code == "fan-out-limit"
    with pytest.raises(GeographyError, match="gains_first") as caught:
        group_by_distance(
            spine,
            [family],
            geolevel="Tract",
            children="Block_Group",
            limit=LIMIT,
            gains_first=True,
            measure="sum",
        )
    assert caught.value.code == "spine-step"
