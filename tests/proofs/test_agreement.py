"""The steps of docs/proofs/agreement.md, in whole numbers, on leaves and blocks small enough to try everything."""

from functools import reduce
from itertools import combinations, combinations_with_replacement, product
from random import Random

import numpy as np
import pytest
from tests.samples import every

from tallyveil.errors import ConstraintError
from tallyveil.estimation.leaf_lift import (
    Leaves,
    LiftedSplit,
    SizedHouseholds,
    alone_limits,
    merged_leaves,
    occupied_limits,
    size_limits,
    split_with_lift,
)

SEEDS = every(10, range(150))
Leaf = tuple[tuple[int, ...], int, int]
"""What a leaf has of each cell, and the limits of its total."""


def allowed(leaf):
    """B_b: all allowed counts of a leaf."""
    parts, lower, upper = leaf
    return {y for y in product(*(range(n + 1) for n in parts)) if lower <= sum(y) <= upper}


def sums(sets):
    """All sums of one element of each set."""
    return reduce(
        lambda one, other: {tuple(a + b for a, b in zip(x, y, strict=True)) for x in one for y in other}, sets
    )


def random_leaf(random, n_cells, most=2, feasible=True) -> Leaf:
    parts = tuple(random.randint(0, most) for _ in range(n_cells))
    lower = random.randint(0, sum(parts) if feasible else sum(parts) + 1)
    return parts, lower, random.randint(lower, lower + 2)


def random_children(seed, most_children=3):
    """Children as lists of leaves, each of which is feasible alone."""
    random = Random(f"leaves {seed}")
    n_cells = random.randint(1, 3)
    children = [
        [random_leaf(random, n_cells) for _ in range(random.randint(1, 2))]
        for _ in range(random.randint(1, most_children))
    ]
    return random, n_cells, children


def has_flow(leaves, y):
    """The condition of the minimum cut over every set T of cells."""
    cells = range(len(y))
    for chosen in (set(one) for size in range(len(y) + 1) for one in combinations(cells, size)):
        inside = [sum(parts[c] for c in chosen) for parts, _, _ in leaves]
        if sum(y[c] for c in chosen) > sum(min(leaf[2], n) for leaf, n in zip(leaves, inside, strict=True)):
            return False
        needed = sum(max(0, leaf[1] - n) for leaf, n in zip(leaves, inside, strict=True))
        if sum(y[c] for c in cells if c not in chosen) < needed:
            return False
    return True


def as_leaves(children):
    leaves = [(c, leaf) for c, own in enumerate(children) for leaf in own]
    entries = [(b, i, n) for b, (_, (parts, _, _)) in enumerate(leaves) for i, n in enumerate(parts) if n]
    columns = [np.array([one[k] for one in entries], dtype=np.int64) for k in range(3)]
    return Leaves(
        np.array([c for c, _ in leaves]),
        np.array([leaf[1] for _, leaf in leaves]),
        np.array([leaf[2] for _, leaf in leaves]),
        *columns,
    )


def split(children, y, target):
    """The children's counts by the code; costs are squares of whole numbers."""
    parent = None if y is None else np.array(y)
    return split_with_lift(
        LiftedSplit("here", parent, np.array(target, float), np.ones(np.shape(target)), as_leaves(children))
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_a1_counts_are_possible_if_and_only_if_there_is_a_flow(seed):
    random, n_cells, children = random_children(seed, 1)
    leaves = [*children[0], random_leaf(random, n_cells, feasible=False)]
    possible = sums([allowed(leaf) for leaf in leaves])
    most = [sum(parts[c] for parts, _, _ in leaves) for c in range(n_cells)]
    for y in product(*(range(n + 2) for n in most)):
        assert has_flow(leaves, y) == (y in possible)


def test_a1_fails_with_bounds_on_a_childs_counts_alone():
    """The example of the page: the sum and every count are within the leaves' sums, and no flow exists."""
    leaves = [((1, 1, 0, 0), 1, 1), ((0, 0, 1, 1), 1, 1)]
    y = (1, 1, 0, 0)
    assert all(0 <= x <= sum(parts[c] for parts, _, _ in leaves) for c, x in enumerate(y))
    assert sum(y) == 2
    assert y not in sums([allowed(leaf) for leaf in leaves])
    assert not has_flow(leaves, y)


@pytest.mark.parametrize("seed", SEEDS)
def test_a2_every_possible_count_can_be_split_and_no_other(seed):
    """Each element of Q_p in turn: the code's parts lie in the Q_g of the children. Others are refused."""
    random, n_cells, children = random_children(seed)
    possible = [sums([allowed(leaf) for leaf in own]) for own in children]
    whole = sums(possible)
    assert whole
    target = [[random.randint(-1, 3) for _ in range(n_cells)] for _ in children]
    most = [max(y[c] for y in whole) for c in range(n_cells)]
    every_count = list(product(*(range(n + 2) for n in most)))
    for y in random.sample(every_count, min(len(every_count), 25)):
        if y in whole:
            parts = split(children, y, target)
            assert parts.sum(axis=0).tolist() == list(y)
            assert all(tuple(part) in own for part, own in zip(parts.tolist(), possible, strict=True))
        else:
            with pytest.raises(ConstraintError):
                split(children, y, target)


def test_a2_fails_where_a_leaf_alone_is_not_feasible():
    assert not allowed(((1, 1), 3, 4))
    with pytest.raises(ConstraintError):
        split([[((1, 1), 3, 4)], [((1, 1), 0, 2)]], (1, 1), [[0, 0], [0, 0]])


def best_splits(children, y, target):
    """The least sum of squares over all splits, by trying all."""
    possible = [sums([allowed(leaf) for leaf in own]) for own in children]
    costs = [
        sum(
            (a - b) ** 2
            for part, goal in zip(parts, target, strict=True)
            for a, b in zip(part, goal, strict=True)
        )
        for parts in product(*possible)
        if y is None or tuple(map(sum, zip(*parts, strict=True))) == y
    ]
    return min(costs)


def cost(parts, target):
    return sum(
        (a - b) ** 2
        for part, goal in zip(parts, target, strict=True)
        for a, b in zip(part, goal, strict=True)
    )


def with_targets(seed):
    """Children of at most two leaves, counts that they allow, and whole targets at most two away from every count."""
    random, n_cells, children = random_children(seed, 2)
    whole = sums([sums([allowed(leaf) for leaf in own]) for own in children])
    most = [[sum(parts[c] for parts, _, _ in own) for c in range(n_cells)] for own in children]
    target = [[random.randint(max(0, x - 2), min(2, x)) for x in row] for row in most]
    return children, random.choice(sorted(whole)), target


@pytest.mark.parametrize("seed", SEEDS)
def test_a3_the_flow_costs_least(seed):
    """Squared distances from whole targets. They are exact at distances 0, 1 and 2, and no count is further away."""
    children, y, target = with_targets(seed)
    for parent in (y, None):
        assert cost(split(children, parent, target).tolist(), target) == best_splits(children, parent, target)


def test_a3_fails_for_another_target():
    worse = 0
    for seed in range(30):
        children, y, target = with_targets(seed)
        other = [[2 - x for x in row] for row in target]
        worse += cost(split(children, y, other).tolist(), target) > best_splits(children, y, target)
    assert worse


@pytest.mark.parametrize("seeds", every(10, [range(40 * i, 40 * (i + 1)) for i in range(20)]))
def test_a4_merged_leaves_allow_the_same_sums(seeds):
    merged = 0
    for seed in seeds:
        random, n_cells, _ = random_children(seed)
        leaves = [random_leaf(random, n_cells, 3, feasible=True) for _ in range(3)]
        one = merged_leaves(as_leaves([leaves]), n_cells)
        after = []
        for b in range(one.child.size):
            parts = [0] * n_cells
            for leaf, column, capacity in zip(one.leaf, one.column, one.capacity, strict=True):
                parts[column] += int(capacity) * int(leaf == b)
            after.append((tuple(parts), int(one.lower[b]), int(one.upper[b])))
        assert sums([allowed(leaf) for leaf in after]) == sums([allowed(leaf) for leaf in leaves])
        merged += len(after) < len(leaves)
    assert merged > 3


def test_a4_fails_where_leaves_differ_in_which_number_is_smaller():
    leaves = [((1, 0), 0, 1), ((3, 3), 0, 1)]
    together = (tuple(map(sum, zip(leaves[0][0], leaves[1][0], strict=True))), 0, 2)
    assert allowed(together) != sums([allowed(leaf) for leaf in leaves])
    assert merged_leaves(as_leaves([leaves]), 2).child.size == 2


@pytest.mark.parametrize("seed", SEEDS)
def test_a5_limits_of_a_coarser_geolevel_leave_room_below(seed):
    """Below the geounits with limits, the leaves are the children, whose totals may be anything."""
    random = Random(f"coarser {seed}")
    n_cells, finest = random.randint(1, 3), []
    for _ in range(random.randint(1, 3)):
        parts = tuple(random.randint(0, 2) for _ in range(n_cells))
        finest.append([(parts, 0, sum(parts))])
    whole = tuple(map(sum, zip(*(own[0][0] for own in finest), strict=True)))
    assert sums([allowed(own[0]) for own in finest]) == allowed((whole, 0, sum(whole)))
    y = random.choice(sorted(allowed((whole, 0, sum(whole)))))
    parts = split(finest, y, [[0] * n_cells for _ in finest])
    assert parts.sum(axis=0).tolist() == list(y)


def test_a5_fails_with_limits_of_totals_below():
    """With limits of the finest totals, some counts within the sums cannot be split."""
    finest = [((2, 0), 1, 1), ((0, 2), 1, 1)]
    assert allowed(((2, 2), 2, 2)) != sums([allowed(leaf) for leaf in finest])


def limits(people, adults, units):
    lower, upper = occupied_limits(*(np.array([x]) for x in (people, adults, units)))
    return int(lower[0]), int(upper[0])


MOST_PEOPLE = 40
BLOCKS = [
    (h, a, u) for h in range(MOST_PEOPLE) for a in {0, 1, h // 2, h} for u in (1, 2, 3, 7, 60) if a <= h
]


def test_a6_occupied_units_are_possible_in_every_block():
    """All blocks with fewer than forty people: the statements that the page makes of L, U and Z."""
    for people, adults, units in BLOCKS:
        lower, upper = limits(people, adults, units)
        if people == 0:
            assert (lower, upper) == (0, 0)
            continue
        assert upper == min(units, max(adults, 1))
        size = max(15, -(-people // upper))
        assert lower == -(-people // size)
        assert 1 <= lower <= upper <= people
        for occupied in range(lower, upper + 1):
            assert occupied <= people <= occupied * size


def test_a6_fails_without_housing_units():
    with pytest.raises(ConstraintError):
        limits(3, 2, 0)


def test_a7_people_who_live_alone_leave_room_for_all_others():
    """All blocks with fewer than forty people and all O: the limits of S are exactly the possible numbers."""
    for people, adults, units in BLOCKS:
        low, high = limits(people, adults, units)
        for occupied in range(low, high + 1):
            lower, upper = (int(x[0]) for x in alone_limits(np.array([people]), np.array([occupied])))
            others, size = people - occupied, max(15, -(-people // max(occupied, 1)))
            possible = [
                s for s in range(occupied + 1) if occupied - s <= others <= (occupied - s) * (size - 1)
            ]
            assert possible == list(range(lower, upper + 1))
            assert possible


def test_a7_fails_with_a_smaller_largest_household():
    """With Z = 2 and five people in two units, nobody has a place for the third other one."""
    assert not [s for s in range(3) if 2 - s <= 3 <= (2 - s) * (2 - 1)]


@pytest.mark.parametrize("seed", SEEDS)
def test_a8_householders_and_partners_are_feasible_in_every_leaf(seed):
    random = Random(f"partners {seed}")
    people, adults, units = random.choice([block for block in BLOCKS if block[0]])
    occupied = random.randint(*limits(people, adults, units))
    lower, upper = (int(x[0]) for x in alone_limits(np.array([people]), np.array([occupied])))
    others, together = people - occupied, occupied - random.randint(lower, upper)
    assert occupied <= people
    assert 0 <= min(together, others) <= together


def every_filling(people, unknown, smallest, n):
    """All ways to give sizes to the households, from the open size down."""
    largest = max(n + 2, -(-people // unknown)) if unknown else 0
    for sizes in combinations_with_replacement(range(smallest, n + 1), unknown):
        if 0 <= people - sum(sizes) <= sizes.count(n) * (largest - n):
            yield tuple(sizes.count(size) for size in range(n, smallest, -1))


@pytest.mark.parametrize(("smallest", "n"), [(2, 5), (1, 4), (2, 3)])
def test_a9_limits_of_sizes_are_the_numbers_that_can_be_completed(smallest, n):
    """All areas with at most four households, and every order of choices."""
    for unknown in range(1, 5):
        for people in range(smallest * unknown, 12 * unknown):
            ways = set(every_filling(people, unknown, smallest, n))
            assert ways  # R >= 0 and N > 0
            for step, size in enumerate(range(n, smallest, -1)):
                for before in {one[:step] for one in ways}:
                    known = [0] * n
                    for k, found in enumerate(before):
                        known[n - 1 - k] = found
                    homes = SizedHouseholds(
                        np.array([people]), np.array([known]), np.array([unknown - sum(before)]), smallest
                    )
                    lower, upper = (int(x[0]) for x in size_limits(homes, size))
                    assert {one[step] for one in ways if one[:step] == before} == set(range(lower, upper + 1))


def test_a9_fails_with_too_few_people():
    """R below 0: two households of two or more, and three people. No way exists, and `possible` says so."""
    assert not set(every_filling(3, 2, 2, 4))
    assert not SizedHouseholds(np.array([3]), np.array([[0] * 4]), np.array([2]), 2).possible()[0]


def agree(people, occupied, alone, partners):
    """The numbered statements of the page that are about counts of one block."""
    others, together = people - occupied, occupied - alone
    return (
        (occupied > 0) == (people > 0)
        and (together > 0) <= (others >= together)
        and (others > 0) <= (together > 0)
        and 0 <= partners <= together
    )


def test_a10_the_files_agree_for_every_choice_within_the_limits():
    for people, adults, units in BLOCKS:
        low, high = limits(people, adults, units)
        for occupied in range(low, high + 1):
            lower, upper = (int(x[0]) for x in alone_limits(np.array([people]), np.array([occupied])))
            for alone in range(lower, upper + 1):
                most = min(occupied - alone, people - occupied)
                assert agree(people, occupied, alone, 0)
                assert agree(people, occupied, alone, most)


def test_a10_fails_outside_the_limits():
    """Somebody lives with others in a block in which all householders live alone; or units are occupied by nobody."""
    assert not agree(3, 2, 2, 0)
    assert not agree(0, 1, 1, 0)
