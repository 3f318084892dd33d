"""Bypassing: moves a geounit's share of the budget to its children where a rule of the paper allows it.

Problem. Each geounit has a share of the budget, and the shares along every path from a root to a finest geounit have
the same sum. A geounit's share may be moved to its children without a change of any path's sum.

Steps. From the level above the finest up to the roots, each geounit is tested by the rule.
- SINGLE_CHILD: the geounit has exactly one child.
- PURE_DP, with k children, own share a and smallest share b of a child: 2 b >= (k - 1) a, and a is above 0 or k = 1.
- EVERY_QUERY: for each query group, the precision that each child gains is large enough for the parent's lost one.
A bypassed geounit is replaced at its level by its children. Each gets the sum of its own share and the parent's. Below
each of them the child itself remains, with share 0.

Stopping rule. Every level is treated once.

Worked case. A county with share 1/4 has one tract with share 3/4. After bypassing, the geounit at the county level has
share 1, and the tract has share 0. The path's sum remains 1.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cache

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.errors import GeographyError
from tallyveil.geography.build import DraftLevel, Reshaped, geocode_series, respine
from tallyveil.geography.spine import GeounitShares, Spine, path_total


class BypassRule(StrEnum):
    """When a geounit is bypassed."""

    PURE_DP = "pure_dp"
    """If the smallest share of its children is >= (children - 1) x its own share / 2; for Laplace noise (Theorem 2).

    The theorem supposes that all geolevels measure the same queries with the same query shares.
    """
    SINGLE_CHILD = "single_child"
    """If it has exactly one child; for Gaussian noise under zCDP. With more children, some variance would increase.

    Where the child's queries differ from its parent's, some variance increases, too.
    """
    EVERY_QUERY = "every_query"
    """If no linear query has a greater variance afterwards, whatever queries the geolevels measure (`QueryShares`)."""


@dataclass(frozen=True, slots=True)
class QueryShares:
    """What geounits of each geolevel measure, for the rule EVERY_QUERY.

    Attributes:
        by_geolevel: For each geolevel, root first, the share of every query group that it measures.
        squared: Whether the precision of a measurement grows with the square of its share, as for Laplace noise; for
            Gaussian noise it is proportional to the share.
    """

    by_geolevel: tuple[Mapping[str, Fraction], ...]
    squared: bool

    def precision(self, level: int, query: str, share: Fraction) -> Fraction:
        """Precision of a query group of a geounit, up to a factor that depends on the query group alone."""
        part = share * self.by_geolevel[level].get(query, Fraction(0))
        return part * part if self.squared else part


@dataclass(frozen=True, slots=True)
class _Level:
    """A geolevel during bypassing: geocodes and shares of its geounits, and where the children of each start."""

    codes: pl.Series
    positions: Integers  # of each share in the growing list of fractions
    child_offsets: Integers  # into the geolevel below; for the finest geolevel, into itself


def bypass(
    spine: Spine,
    shares: GeounitShares,
    rule: BypassRule,
    *,
    most_children: int | None = None,
    queries: QueryShares | None = None,
) -> tuple[Reshaped, GeounitShares]:
    """Move the budget of geounits to their children wherever the rule allows it, from the finest geolevel up.

    The head of this module describes the steps. The number of geolevels does not change, and every path keeps its sum.
    A geounit with one child keeps its geocode when it is bypassed. If there are several children, the geounits that
    replace it take the children's geocodes.

    Args:
        spine: The spine.
        shares: Shares of its geounits. Every path must have the same sum.
        rule: When to bypass.
        most_children: Never bypass a geounit with more children. Production used 150 for pure DP.
        queries: What each geolevel measures; only EVERY_QUERY needs it.

    Returns:
        The new spine and its shares.

    Raises:
        BudgetError: the shares belong to another spine, or paths have different sums.
        GeographyError: a new geocode exists already at a geolevel, the limit is below 1, or the rule lacks its queries.

    Privacy: the sum along each path does not change, and so the cost of a strategy with these shares does not either.
    Source: Cumings-Menon et al. 2023, Theorem 2 and Algorithm 3; docs/proofs/bypassing.md for EVERY_QUERY.
    """
    if rule is BypassRule.EVERY_QUERY and (queries is None or len(queries.by_geolevel) != spine.n_levels):
        raise GeographyError(
            f"bypassing by the rule {rule} compares the queries of neighbouring geolevels, and they are not given for "
            "each geolevel of the spine. Give the query shares of every geolevel.",
            code="spine-step",
        )
    if most_children is not None and most_children < 1:
        raise GeographyError(
            f"the most children that bypassing may give to a geounit is {most_children}; wanted 1 or more. Give a "
            "larger number.",
            code="fan-out-limit",
        )
    total = path_total(spine, shares)
    # The fractions themselves stand in this list, which grows; arrays hold positions in it. Sums stay exact this way.
    values = list(shares.values)
    levels = _levels_of(spine, shares)
    # From below: a child's share must be final before its parent's rule compares with it.
    for level in range(spine.finest - 1, -1, -1):
        bypassed = (
            _decide(levels, level, values, rule)
            if queries is None or rule is not BypassRule.EVERY_QUERY
            else _decide_by_query(levels, level, values, queries)
        )
        if most_children is not None:
            bypassed &= np.diff(levels[level].child_offsets) <= most_children
        if bool(bypassed.any()):
            _bypass_level(levels, level, values, bypassed)
    reshaped, ordered = _finished(spine, levels, values)
    # Privacy rests on this sum: a path that costs more than the others would cost more than the ledger's entry.
    if path_total(reshaped.spine, ordered) != total:
        raise GeographyError(
            "bypassing changed the sum of the shares on a path, which is a defect of Tallyveil. Please report this "
            "spine."
        )
    return reshaped, ordered


def _levels_of(spine: Spine, shares: GeounitShares) -> list[_Level]:
    n_finest = spine.n_geounits(spine.finest)
    # The finest geounits count as their own only child, so that a rule at any geolevel can index below itself.
    offsets = [*spine.child_offsets, np.arange(n_finest + 1, dtype=np.int64)]
    return [
        _Level(geocode_series(spine, level), shares.positions[level].astype(np.int64), offsets[level])
        for level in range(spine.n_levels)
    ]


def _bypass_level(
    levels: list[_Level], level: int, values: list[Fraction], bypassed: NDArray[np.bool_]
) -> None:
    here, below = levels[level], levels[level + 1]
    n_children = np.diff(here.child_offsets)
    # A bypassed geounit is repeated once for each child; all others stay single.
    copies = np.where(bypassed, n_children, 1)
    source = np.repeat(np.arange(len(copies), dtype=np.int64), copies)
    first_copy = np.concatenate([[0], np.cumsum(copies)]).astype(np.int64)
    is_new = bypassed[source]
    # The first child of every geounit. An inserted geounit has only this child.
    child = here.child_offsets[source] + np.where(is_new, np.arange(len(source)) - first_copy[source], 0)
    offsets = np.append(child, here.child_offsets[-1]).astype(np.int64)
    positions = here.positions[source]
    # The sum is taken before the child's share is set to 0 below, from the child's position as it still is.
    positions[is_new] = _sums(values, positions[is_new], below.positions[child[is_new]])
    codes = _new_codes(here.codes, below.codes, source, child, is_new & (n_children[source] > 1))
    positions_below = below.positions.copy()
    positions_below[child[is_new]] = _position(values, Fraction(0))
    levels[level] = _Level(codes, positions, offsets)
    levels[level + 1] = _Level(below.codes, positions_below, below.child_offsets)
    # Offsets of the geolevel above point to rows here, and these have moved: each now starts at its first copy.
    if level > 0:
        above = levels[level - 1]
        levels[level - 1] = _Level(above.codes, above.positions, first_copy[above.child_offsets])


def _decide(levels: list[_Level], level: int, values: list[Fraction], rule: BypassRule) -> NDArray[np.bool_]:
    here, below = levels[level], levels[level + 1]
    n_children = np.diff(here.child_offsets)
    only_child: NDArray[np.bool_] = n_children == 1
    if rule is BypassRule.SINGLE_CHILD:
        return only_child
    # Positions in `values` are in order of creation. Ranks order them by size, so that reduceat finds the least share.
    rank_of = np.argsort(np.argsort(np.array(values, dtype=object), kind="stable"), kind="stable")
    ranked = sorted(values)
    least = np.minimum.reduceat(rank_of[below.positions], here.child_offsets[:-1])
    # Fractions are compared once for each different case, of which there are few, and never once for each geounit.
    cases, inverse = np.unique(np.stack([least, here.positions, n_children]), axis=1, return_inverse=True)
    verdicts = np.array(
        [2 * ranked[a] >= (c - 1) * values[b] for a, b, c in cases.T.tolist()], dtype=np.bool_
    )
    # A share of 0 was already moved up, so there is nothing to move to the children.
    has_share = np.array([value > 0 for value in values], dtype=np.bool_)
    decided: NDArray[np.bool_] = verdicts[inverse.reshape(-1)] & (has_share[here.positions] | only_child)
    return decided


def _decide_by_query(
    levels: list[_Level], level: int, values: list[Fraction], queries: QueryShares
) -> NDArray[np.bool_]:
    """Whether each geounit of a geolevel may be bypassed without loss for any linear query (docs/proofs/bypassing.md).

    A parent's query group has precision t. The precision that it gives to a child, less what the child measured itself,
    is d. The parent is bypassed if, in every query group, t / d summed over the children is at most 1.
    """
    here, below = levels[level], levels[level + 1]
    names = sorted({*queries.by_geolevel[level], *queries.by_geolevel[level + 1]})

    @cache
    def losses(parent: int, child: int) -> tuple[Fraction | None, ...]:
        """For each query group the child's t / d; None if it is worse off with any parent."""
        return tuple(_loss(queries, level, name, values[parent], values[child]) for name in names)

    @cache
    def allowed(parent: int, children: tuple[tuple[int, int], ...]) -> bool:
        """Whether a geounit may be bypassed, from the position of its share and those of its children's, counted."""
        of_children = [(losses(parent, child), count) for child, count in children]
        # A share of 0 was already moved up, so there is nothing to move to the children.
        return values[parent] > 0 and all(
            all(loss[place] is not None for loss, _ in of_children)
            and sum(count * (loss[place] or 0) for loss, count in of_children) <= 1
            for place in range(len(names))
        )

    return np.array(
        [
            allowed(position, tuple(sorted(Counter(children.tolist()).items())))
            for position, children in zip(
                here.positions.tolist(),
                np.split(below.positions, here.child_offsets[1:-1]),
                strict=True,
            )
        ],
        dtype=np.bool_,
    )


def _loss(queries: QueryShares, level: int, name: str, parent: Fraction, child: Fraction) -> Fraction | None:
    lost = queries.precision(level, name, parent)
    gained = queries.precision(level, name, parent + child) - queries.precision(level + 1, name, child)
    if gained < 0 or (gained == 0 and lost > 0):
        return None
    return lost / gained if lost > 0 else Fraction(0)


def _sums(values: list[Fraction], first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    # Two positions in one number, so that each different pair is added once.
    width = len(values)
    pairs, inverse = np.unique(first * width + second, return_inverse=True)
    positions = [_position(values, values[pair // width] + values[pair % width]) for pair in pairs.tolist()]
    summed: NDArray[np.int64] = np.array(positions, dtype=np.int64)[inverse.reshape(-1)]
    return summed


def _position(values: list[Fraction], value: Fraction) -> int:
    # A linear search: a release has some tens of different fractions, whatever the number of geounits.
    if value not in values:
        values.append(value)
    return values.index(value)


def _new_codes(
    here: pl.Series, below: pl.Series, source: Integers, child: Integers, from_child: NDArray[np.bool_]
) -> pl.Series:
    if not bool(from_child.any()):
        return here.gather(source)
    frame = pl.DataFrame({"own": here.gather(source), "child": below.gather(child), "new": from_child})
    brought = frame.select(pl.when("new").then("child").otherwise("own").alias("code"), "own", "new")
    # Geocodes must be unique within a geolevel. If a child's geocode is not, the parent's is put in front.
    clash = pl.col("new") & pl.col("code").is_duplicated()
    return brought.select(
        pl.when(clash).then(pl.col("own") + "/" + pl.col("code")).otherwise("code").alias("code")
    )["code"]


def _finished(spine: Spine, levels: list[_Level], values: list[Fraction]) -> tuple[Reshaped, GeounitShares]:
    drafts = []
    for level in range(spine.finest):
        offsets = np.arange(len(levels[level].codes) + 1, dtype=np.int64)
        # Bypassing chains through geolevels, so that a geounit's finest geounits are found by following all offsets
        # below.
        for lower in levels[level : spine.finest]:
            offsets = lower.child_offsets[offsets]
        geounit_of = np.repeat(np.arange(len(offsets) - 1, dtype=np.int64), np.diff(offsets))
        drafts.append(DraftLevel(spine.geolevels[level], levels[level].codes, geounit_of))
    reshaped, numbers = respine(spine, drafts)
    # Values that no geounit has any more are dropped, and the others sorted, as `GeounitShares` wants them.
    used = sorted({values[p] for level in levels for p in np.unique(level.positions).tolist()})
    place = np.array([used.index(value) if value in used else -1 for value in values], dtype=np.int32)
    # `respine` may have reordered siblings; `numbers` and `rows` say where each geounit was.
    order = [*numbers, reshaped.rows]
    positions = tuple(place[level.positions[number]] for level, number in zip(levels, order, strict=True))
    return reshaped, GeounitShares(tuple(used), positions)
