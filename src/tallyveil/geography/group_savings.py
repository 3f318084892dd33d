"""An upper bound on what entities save in off-spine distance if they share groups of the children of one geounit.

Problem. A group of tracts helps an entity that contains its tracts: the group is counted in once instead of each
tract. Groups cannot overlap, so what helps one entity can hinder another. Wanted is the most that any division into
groups of limited size saves for all entities together.

Steps. A child counts 1 for an entity if counting it in costs one more than counting in its group with all the group's
children, -1 if it costs one less, and 0 otherwise. A group that is counted in for some entities saves, for each of
them, the sum of its children's counts, less 1. Children with the same counts are of one kind. Each child gets a price
such that no group, for no set of entities, saves more than its children cost. Then no division saves more than all
children cost. A linear program finds low prices. They are rounded up to multiples of 1 / UNIT, and raised until whole
numbers show that every group is paid for (docs/proofs/groups.md, Proposition 11).

Worked case. A county has five tracts: a place holds the first two, and a district the first three. The group of the
first two saves 1 for each of them, and with the third tract it saves 2 for the district and nothing for the place. So
no groups save more than 2.
"""

from typing import Final

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, vstack

from tallyveil.arrays import Bools, Floats, Integers
from tallyveil.errors import SolverError

UNIT: Final = 1 << 20
"""Savings, weights and prices are whole multiples of 1 / UNIT."""

_MOST_SETS: Final = 4096
"""Sets of entities, for which one group can be counted in, that are looked at in one container."""


def most_saved(counts: Integers, weights: Integers, limit: int) -> int | None:
    """The most that entities save with any groups of the children of a container, in units of 1 / UNIT.

    Args:
        counts: Count of each child for each entity, -1, 0 or 1; shape (n_entities, n_children).
        weights: Weight of what each entity saves, in units of 1 / UNIT, above 0.
        limit: Largest number of children of a group.

    Returns:
        An upper bound; None if more sets of entities could share a group than are looked at.
    """
    if not len(counts):
        return 0
    kinds, number = np.unique(counts.T, axis=0, return_counts=True)
    together = _sets(kinds.T, number, limit)
    if together is None:
        return None
    if not len(together):
        return 0
    # What one child of each kind saves in a group that is counted in for each set, and what counting the group costs.
    values, costs = (together * weights) @ kinds.T, together @ weights
    prices = np.ceil(_prices(values / UNIT, costs / UNIT, number, limit) * UNIT).astype(np.int64)
    excess = max(0, int(np.max(_greatest(values - prices, number, limit) - costs)))
    return int(number @ (prices + excess))


def _greatest(values: Integers, number: Integers, limit: int) -> Integers:
    """Greatest sum of the values of at most so many children, for each row of values of the kinds."""
    order = np.argsort(-values, axis=1)
    before = np.cumsum(number[order], axis=1) - number[order]
    taken = np.clip(limit - before, 0, number[order])
    greatest: Integers = (taken * np.take_along_axis(values, order, axis=1).clip(min=0)).sum(axis=1)
    return greatest


def _sets(counts: Integers, number: Integers, limit: int) -> Bools | None:
    """Sets of entities that can all save by one group; shape (n_sets, n_entities).

    Each entity of such a set has counts that sum to 2 or more in the group. So the counts of any part of the set sum to
    at least twice the number of its entities, in the best group for this sum. Sets grow entity by entity.
    """
    sets: list[tuple[int, ...]] = []
    open_sets: list[tuple[int, ...]] = [()]
    while open_sets:
        known = open_sets.pop()
        first = known[-1] + 1 if known else 0
        # A row for each entity that the set can grow by.
        sums = counts[list(known)].sum(axis=0) + counts[first:]
        saves = _greatest(sums, number, limit) >= 2 * (len(known) + 1)
        grown = [(*known, first + entity) for entity in np.flatnonzero(saves).tolist()]
        sets += grown
        open_sets += grown
        if len(sets) > _MOST_SETS:
            return None
    chosen = np.zeros((len(sets), len(counts)), dtype=np.bool_)
    for place, each in enumerate(sets):
        chosen[place, list(each)] = True
    return chosen


def _prices(values: Floats, costs: Floats, number: Integers, limit: int) -> Floats:
    """A price for each kind, with which no group saves more than its children cost, to within rounding.

    The greatest value of a group, less prices, is at most the cost of counting it in if numbers u >= 0 and t >= 0 exist
    with limit x u + sum of number x t <= cost, and price + u + t >= value for each kind (duality).
    """
    sets, kinds = np.nonzero(values > 0)
    n_sets, n_kinds, n_pairs = len(values), len(number), len(sets)
    pairs = np.arange(n_pairs)
    # Columns: price of each kind, u of each set, t of each pair of a set and a kind.
    covers = csr_array(
        (
            np.full(3 * n_pairs, -1.0),
            (np.tile(pairs, 3), np.concatenate([kinds, n_kinds + sets, n_kinds + n_sets + pairs])),
        ),
        shape=(n_pairs, n_kinds + n_sets + n_pairs),
    )
    rows = np.concatenate([np.arange(n_sets), sets])
    columns = np.concatenate([n_kinds + np.arange(n_sets), n_kinds + n_sets + pairs])
    within = csr_array(
        (np.concatenate([np.full(n_sets, float(limit)), number[kinds]]), (rows, columns)),
        shape=(n_sets, n_kinds + n_sets + n_pairs),
    )
    solved = linprog(
        np.concatenate([number, np.zeros(n_sets + n_pairs)]),
        A_ub=vstack([covers, within]),
        b_ub=np.concatenate([-values[sets, kinds], costs]),
        method="highs",
    )
    if solved.status != 0:
        raise SolverError(
            f"the linear program that bounds distances over all groups was not solved: {solved.message}. Leave the "
            "bounds out, and report this."
        )
    prices: Floats = solved.x[:n_kinds]
    return prices
