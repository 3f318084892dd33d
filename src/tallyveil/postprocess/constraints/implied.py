"""Bounds that follow from two constraints together, so that what a parent may have can be divided among its children.

Problem. A constraint on a coarse query, such as the invariant total of every State, and one on a finer query, such as
bounds on the residents of group quarters, hold together in every State. The bounds of the US are sums of those of the
States. If they are sums of the bounds as stated, the US may get more nursing residents than the States with nursing
homes have people. Then no counts of the States agree with the published ones of the US, and the run cannot go on.

Variables. In one child, l_i <= x_i <= u_i are the bounds of the answers that make one coarse answer, and
L <= sum x_i <= U are its own bounds.

Step. In a child, x_i is at most U - sum of l_j and at least L - sum of u_j, each over the other answers j. The coarse
answer is at least sum l_i and at most sum u_i. These bounds are the best possible for one answer. Parents get the sums
of these bounds in the place of the sums of the stated ones. The bounds of the children stay as they are, because
their family has both constraints.

Worked case. Children with 100 and 10 people; only the second has a nursing home, without an upper bound. Then it has
at most 10 nursing residents, and so has the parent.

The bounds of a parent are on one answer at a time. They do not say everything about several answers together: where
some children have two kinds of facilities and others have neither, a parent may still get more people in the two kinds
together than the first children have.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from typing import TypeAlias

import numpy as np

from tallyveil.arrays import Integers, NarrowArray
from tallyveil.estimation.problem import UNBOUNDED
from tallyveil.geography.spine import Spine
from tallyveil.postprocess.constraints.conflicts import alike
from tallyveil.postprocess.constraints.geolevels import GEOUNITS_AT_ONCE, ConstraintTable, summed_upward
from tallyveil.schema.counts import narrow_limits, widen_limits
from tallyveil.schema.nested_queries import adding_up
from tallyveil.schema.schema import Schema

Limits: TypeAlias = tuple[NarrowArray, NarrowArray]
"""Lower and upper bounds, compact (`narrow_limits`); shape (rows, answers)."""


def with_implied_bounds(
    tables: Sequence[ConstraintTable], spine: Spine, schema: Schema
) -> tuple[ConstraintTable, ...]:
    """The constraints of a release, where the bounds of parents follow from pairs of constraints on their children.

    Args:
        tables: The constraints.
        spine: The spine that is measured.
        schema: The universe.
    """
    bounded = list(tables)
    # In this order and in place: later pairs start from bounds that earlier pairs have made narrower.
    for fine, coarse in permutations(range(len(bounded)), 2):
        # At the finest geolevel that both reach; above it, bounds follow by sums.
        level = min(len(bounded[fine].lower), len(bounded[coarse].lower)) - 1
        part_of = adding_up(schema, bounded[fine].query, bounded[coarse].query)
        # At the root nothing is above whose bounds could follow.
        if level == 0 or not (part_of >= 0).any():
            continue
        fine_table, coarse_table, groups = alike(bounded[fine], bounded[coarse], level)
        best = _best_of_rows(fine_table, coarse_table, level, part_of)
        for place, limits in zip((fine, coarse), best, strict=True):
            bounded[place] = _with_parents(bounded[place], limits, level, spine, groups)
    return tuple(bounded)


def _with_parents(
    table: ConstraintTable, limits: Limits, level: int, spine: Spine, groups: Integers | None
) -> ConstraintTable:
    """A table whose bounds above a geolevel are the sums of the given bounds of this geolevel."""
    lower, upper = (summed_upward(side, level, spine, groups)[:level] for side in limits)
    # Only above `level`: the families below have both constraints anyway.
    return replace(table, lower=(*lower, *table.lower[level:]), upper=(*upper, *table.upper[level:]))


def _best_of_rows(
    fine: ConstraintTable, coarse: ConstraintTable, level: int, part_of: Integers
) -> tuple[Limits, Limits]:
    """The best bounds of both tables at a geolevel where they have the same rows, some rows at a time."""
    pieces = []
    for start in range(0, len(fine.lower[level]), GEOUNITS_AT_ONCE):
        stop = start + GEOUNITS_AT_ONCE
        pieces.append(
            _best(fine.bounds_of(level, start, stop), coarse.bounds_of(level, start, stop), part_of)
        )
    lower, upper, least, most = (_joined(sides) for sides in zip(*pieces, strict=True))
    return (lower, upper), (least, most)


def _joined(pieces: Sequence[NarrowArray]) -> NarrowArray:
    """Bounds of all rows, in int32 where all pieces are."""
    # int32 has another number for "no bound", so mixed pieces are widened before they are joined.
    if any(piece.dtype != np.int32 for piece in pieces):
        return np.concatenate([widen_limits(piece) for piece in pieces])
    return np.concatenate([piece.astype(np.int32, copy=False) for piece in pieces])


def _best(
    fine: tuple[Integers, Integers], coarse: tuple[Integers, Integers], part_of: Integers
) -> tuple[NarrowArray, ...]:
    """The best lower and upper bounds of the fine query, then those of the coarse one."""
    lower, upper, least, most = (side.copy() for side in (*fine, *coarse))
    for whole in np.unique(part_of[part_of >= 0]).tolist():
        parts = np.flatnonzero(part_of == whole)
        of_parts, of_whole = (side[:, parts] for side in fine), (side[:, [whole]] for side in coarse)
        lower[:, parts], upper[:, parts], least[:, [whole]], most[:, [whole]] = _best_of_one(
            *of_parts, *of_whole
        )
    return tuple(narrow_limits(side) for side in (lower, upper, least, most))


def _best_of_one(
    lower: Integers, upper: Integers, least: Integers, most: Integers
) -> tuple[Integers, Integers, Integers, Integers]:
    """The same for one coarse answer and its parts. Rows that contradict each other stay as they are."""
    # Open terms are counted apart from finite ones: with one open term a sum is open, and its others still bound it.
    is_open = upper >= UNBOUNDED
    finite = np.where(is_open, 0, upper)
    low, high = lower.sum(axis=1, keepdims=True), finite.sum(axis=1, keepdims=True)
    n_open = is_open.sum(axis=1, keepdims=True)
    best = (
        # Another open part can take any rest, so the coarse lower bound forces this part to nothing.
        np.where(n_open > is_open, lower, np.maximum(lower, least - (high - finite))),
        # The others have at least their lower bounds; what is left of the coarse bound is for this part.
        np.where(most >= UNBOUNDED, upper, np.minimum(upper, most - (low - lower))),
        np.maximum(least, low),
        np.where(n_open > 0, most, np.minimum(most, high)),
    )
    # A contradiction is reported by the estimator with the family's name; here it must not produce other numbers.
    agree = (best[0] <= best[1]).all(axis=1, keepdims=True) & (best[2] <= best[3])
    limits = (np.where(agree, new, old) for new, old in zip(best, (lower, upper, least, most), strict=True))
    new_lower, new_upper, new_least, new_most = limits
    return new_lower, new_upper, new_least, new_most
