"""Refusal of constraints that contradict each other, before anything is spent."""

from collections.abc import Sequence
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Bools, Integers, NarrowArray
from tallyveil.errors import ConstraintError
from tallyveil.estimation.problem import UNBOUNDED
from tallyveil.geography.spine import Spine
from tallyveil.postprocess.constraints.geolevels import GEOUNITS_AT_ONCE, ConstraintTable
from tallyveil.schema.counts import narrow_limits, widen_limits
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema


def refuse_conflicts(tables: Sequence[ConstraintTable], spine: Spine, schema: Schema) -> None:
    """Refuse constraints that contradict each other at some geounit, before anything is spent.

    Finds answers that must hold people in cells that cannot, and pairs of constraints of which one asks for
    more people than the other allows, answer by answer or in all. Other contradictions are found by the
    estimator, family by family.

    Raises:
        ConstraintError: names the geounit and both constraints.
    """
    for table in tables:
        # An answer without any possible cell is zero, so no lower bound above zero can hold.
        reachable = np.zeros(table.query.size, dtype=bool)
        reachable[schema.possible_answers(table.query)] = True
        if reachable.all():
            continue
        for level, lower in enumerate(table.lower):
            conflict = np.any(lower[:, ~reachable] > 0, axis=1)
            _refuse(
                conflict, _first_geounits(table, level), spine, level, (table.name, "the structural zeros")
            )
    # Both orders, because each table may be the one that asks for too much.
    for asking, allowing in permutations(tables, 2):
        covers = _counts_everybody(allowing.query, schema)
        # Other pairs of queries are left to the estimator, which sees all constraints of a family together.
        if not covers and asking.query != allowing.query:
            continue
        for level in range(min(len(asking.lower), len(allowing.lower))):
            first, second, groups = alike(asking, allowing, level)
            starts = range(0, len(first.lower[level]), GEOUNITS_AT_ONCE)
            conflicts = [_conflicts(first, second, level, start, covers) for start in starts]
            _refuse(
                np.concatenate(conflicts),
                _starts_of(groups, len(first.lower[level])),
                spine,
                level,
                (asking.name, allowing.name),
            )


def geounits_without_room(
    tables: Sequence[ConstraintTable], spine: Spine, schema: Schema
) -> tuple[Bools, ...]:
    """For each geolevel, whether the bounds leave no room for any record in each geounit.

    Raises:
        ConstraintError: there is no room anywhere.
    """
    empty = [np.zeros(spine.n_geounits(level), dtype=np.bool_) for level in range(len(spine.geolevels))]
    for table in tables:
        if not _counts_everybody(table.query, schema):
            continue
        possible = schema.possible_answers(table.query)
        for level, upper in enumerate(table.upper):
            full = ~np.any(upper[:, possible] > 0, axis=1)
            groups = table.groups_at(level)
            # Without room for a group there is room in none of its geounits.
            empty[level] |= full if groups is None else full[groups]
    if empty[0].all():
        names = ", ".join(repr(table.name) for table in tables)
        raise ConstraintError(
            f"the public bounds {names} leave no room for any record: in every {spine.geolevels[0]}, all their upper "
            'bounds are 0. With missing = "zero", an answer without a row has the upper bound 0. Correct the bounds. '
            "No record was read.",
            code="nobody-fits",
        )
    return tuple(empty)


def _counts_everybody(query: QueryGroup, schema: Schema) -> bool:
    """Whether every possible cell is in an answer: no factor leaves out a level in which records may lie."""
    return not any(
        bool((factor.codes[schema.possible_answers(schema.query(attribute.name))] < 0).any())
        for attribute, factor in zip(schema.attributes, query.factors, strict=True)
    )


def alike(
    table: ConstraintTable, other: ConstraintTable, level: int
) -> tuple[ConstraintTable, ConstraintTable, Integers | None]:
    """Both tables with the same rows at a geolevel, and the row of each geounit (None: its own).

    Where one table bounds sums of siblings and the other single geounits, the bounds of these are summed. Two tables
    with different groups of geounits are summed to those groups that hold groups of both.
    """
    groups = _common_groups(table.groups_at(level), other.groups_at(level))
    return _summed_to(table, level, groups), _summed_to(other, level, groups), groups


def _common_groups(groups: Integers | None, other: Integers | None) -> Integers | None:
    """The finest groups that are unions of the groups of both, numbered as they first appear."""
    # A table of single geounits is summed to the groups of the other.
    if groups is None or other is None:
        return other if groups is None else groups
    from scipy import sparse  # here, since few releases have two constraints on different groups
    from scipy.sparse.csgraph import connected_components

    # Both groupings as a bipartite graph: the connected components are the finest common unions.
    edges = sparse.coo_matrix((np.ones(len(groups), dtype=np.int8), (groups, other)))
    size = max(edges.shape)
    n = int(edges.shape[0])
    edges = sparse.coo_matrix((edges.data, (edges.row, edges.col + n)), shape=(n + size, n + size))
    joined = connected_components(edges, directed=False)[1][groups]
    first, number = np.unique(joined, return_index=True, return_inverse=True)[1:]
    # Numbered by first appearance, as `ConstraintTable.groups` wants it.
    return np.asarray(np.argsort(np.argsort(first))[number], dtype=np.int64)


def _summed_to(table: ConstraintTable, level: int, groups: Integers | None) -> ConstraintTable:
    """A table whose rows at a geolevel are summed to groups of geounits."""
    table_groups = table.groups_at(level)
    if groups is None or (table_groups is not None and np.array_equal(table_groups, groups)):
        return table
    rows = groups if table_groups is None else groups[_starts_of(table_groups, int(table_groups.max()) + 1)]
    lower = (*table.lower[:level], _sum_groups(table.lower[level], rows))
    upper = (*table.upper[:level], _sum_groups(table.upper[level], rows))
    return ConstraintTable(table.name, table.query, lower, upper, groups)


def _sum_groups(values: NarrowArray, groups: Integers) -> NarrowArray:
    """Sums of rows by group; what is unbounded stays so."""
    wide = widen_limits(values)
    # int64 holds all sums: a bound is at most 2**32, and there are fewer than 2**30 geounits.
    summed = np.zeros((int(groups.max()) + 1, values.shape[1]), dtype=np.int64)
    open_ended = np.zeros(summed.shape, dtype=np.bool_)
    # An unbounded term must not be added as a number; it makes the sum unbounded.
    np.add.at(summed, groups, np.where(wide >= UNBOUNDED, 0, wide))
    np.logical_or.at(open_ended, groups, wide >= UNBOUNDED)
    return narrow_limits(np.where(open_ended, UNBOUNDED, summed))


def _starts_of(groups: Integers | None, n_rows: int) -> Integers:
    """The first geounit of each row of bounds."""
    return np.arange(n_rows) if groups is None else np.unique(groups, return_index=True)[1].astype(np.int64)


def _first_geounits(table: ConstraintTable, level: int) -> Integers:
    return _starts_of(table.groups_at(level), len(table.lower[level]))


def _conflicts(
    table: ConstraintTable, other: ConstraintTable, level: int, start: int, covers: bool
) -> NDArray[np.bool_]:
    """Whether `one` asks for more than `other` allows, in some rows from `start` on."""
    stop = start + GEOUNITS_AT_ONCE
    lower, upper = table.bounds_of(level, start, stop)[0], other.bounds_of(level, start, stop)[1]
    conflict = np.zeros(len(lower), dtype=np.bool_)
    if table.query == other.query:
        conflict |= np.any(lower > upper, axis=1)
    if covers:
        # All upper bounds must be finite for their sum to bound everybody.
        bounded = np.all(upper < UNBOUNDED, axis=1)
        most = np.where(upper < UNBOUNDED, upper, 0).sum(axis=1)
        conflict |= bounded & (lower.sum(axis=1) > most)
    return conflict


def _refuse(
    conflict: NDArray[np.bool_], geounits: Integers, spine: Spine, level: int, names: tuple[str, str]
) -> None:
    if conflict.any():
        geocode = spine.geocodes[level][int(geounits[np.argmax(conflict)])]
        raise ConstraintError(
            f"{spine.geolevels[level]} '{geocode}': {names[0]} and {names[1]} contradict each other: the first asks "
            f"for more than the second allows ({int(conflict.sum())} such geounit(s) at this geolevel). "
            "Correct one of them. Nothing was spent.",
            code="constraints-conflict",
        )
