"""Bypassing: a geounit's budget given to its children where that makes no estimate worse."""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.errors import GeographyError
from tallyveil.geography.respine import DraftLevel, Reshaped, geocode_series, respine
from tallyveil.geography.shares import GeounitShares, path_total
from tallyveil.geography.spine import Spine


class BypassRule(StrEnum):
    """When a geounit is bypassed."""

    PURE_DP = "pure_dp"
    """Least share of its children >= (children - 1) * its own share / 2, for Laplace noise (Theorem 2)."""
    SINGLE_CHILD = "single_child"
    """It has one child, for Gaussian noise under zCDP: with more, some variance would rise."""


@dataclass(frozen=True, slots=True)
class _Level:
    """A geolevel while geounits are bypassed: what each geounit is, and where its children start."""

    codes: pl.Series
    positions: NDArray[np.int64]  # of shares, in the growing list of fractions
    child_offsets: Integers  # into the geolevel below; rows of the finest geolevel for the finest itself


def bypass(
    spine: Spine, shares: GeounitShares, rule: BypassRule, *, most_children: int | None = None
) -> tuple[Reshaped, GeounitShares]:
    """Give the budget of geounits to their children wherever the rule says so, from the finest geolevel up.

    A bypassed geounit is replaced, at its geolevel, by its children, each with its own share and its parent's
    together; below each of them stands the child itself, with share 0, so that there are as many geolevels as
    before. Where there is one child, the geounit keeps its geocode; other children bring theirs.
    Every path keeps its sum.

    Args:
        spine: The spine.
        shares: Shares of its geounits; every path must sum to the same.
        rule: When to bypass.
        most_children: Never bypass a geounit with more children; production used 150 for pure DP.

    Returns:
        The new spine and its shares.

    Raises:
        BudgetError: shares of another spine, or paths with different sums.
        GeographyError: a geocode that is taken at a geolevel, or a limit below 1.

    Privacy: the sum along each path, and so the cost of a strategy with these shares, does not change.
    Source: Cumings-Menon et al. 2023, Theorem 2 and Algorithm 3.
    """
    if most_children is not None and most_children < 1:
        raise GeographyError(
            f"most children of a bypassed geounit is {most_children}; wanted 1 or more.", code="fan-out-limit"
        )
    total = path_total(spine, shares)
    values = list(shares.values)
    levels = _levels_of(spine, shares)
    for level in range(spine.finest - 1, -1, -1):
        _bypass_level(levels, level, values, rule, most_children)
    made, ordered = _finished(spine, levels, values)
    if path_total(made.spine, ordered) != total:
        raise GeographyError("bypassing changed what a path sums to. Please report this spine.")
    return made, ordered


def _levels_of(spine: Spine, shares: GeounitShares) -> list[_Level]:
    n_finest = spine.n_geounits(spine.finest)
    offsets = [*spine.child_offsets, np.arange(n_finest + 1, dtype=np.int64)]
    return [
        _Level(geocode_series(spine, level), shares.positions[level].astype(np.int64), offsets[level])
        for level in range(spine.n_levels)
    ]


def _bypass_level(
    levels: list[_Level], level: int, values: list[Fraction], rule: BypassRule, most_children: int | None
) -> None:
    here, below = levels[level], levels[level + 1]
    n_children = np.diff(here.child_offsets)
    bypassed = _decide(here, below, values, rule)
    if most_children is not None:
        bypassed &= n_children <= most_children
    if not bool(bypassed.any()):
        return
    copies = np.where(bypassed, n_children, 1)
    source = np.repeat(np.arange(len(copies), dtype=np.int64), copies)
    first_copy = np.concatenate([[0], np.cumsum(copies)]).astype(np.int64)
    is_new = bypassed[source]
    # The only child of each geounit that is put in; the first child of every other.
    child = here.child_offsets[source] + np.where(is_new, np.arange(len(source)) - first_copy[source], 0)
    offsets = np.append(child, here.child_offsets[-1]).astype(np.int64)
    positions = here.positions[source]
    positions[is_new] = _sums(values, positions[is_new], below.positions[child[is_new]])
    codes = _new_codes(here.codes, below.codes, source, child, is_new & (n_children[source] > 1))
    positions_below = below.positions.copy()
    positions_below[child[is_new]] = _position(values, Fraction(0))
    levels[level] = _Level(codes, positions, offsets)
    levels[level + 1] = _Level(below.codes, positions_below, below.child_offsets)
    if level > 0:
        above = levels[level - 1]
        levels[level - 1] = _Level(above.codes, above.positions, first_copy[above.child_offsets])


def _decide(here: _Level, below: _Level, values: list[Fraction], rule: BypassRule) -> NDArray[np.bool_]:
    n_children = np.diff(here.child_offsets)
    only_child: NDArray[np.bool_] = n_children == 1
    if rule is BypassRule.SINGLE_CHILD:
        return only_child
    rank_of = np.argsort(np.argsort(np.array(values, dtype=object), kind="stable"), kind="stable")
    ranked = sorted(values)
    least = np.minimum.reduceat(rank_of[below.positions], here.child_offsets[:-1])
    cases, inverse = np.unique(np.stack([least, here.positions, n_children]), axis=1, return_inverse=True)
    verdicts = np.array(
        [2 * ranked[a] >= (c - 1) * values[b] for a, b, c in cases.T.tolist()], dtype=np.bool_
    )
    # A share of 0 is one that went up already; there is nothing to give to the children.
    has_share = np.array([value > 0 for value in values], dtype=np.bool_)
    decided: NDArray[np.bool_] = verdicts[inverse.reshape(-1)] & (has_share[here.positions] | only_child)
    return decided


def _sums(values: list[Fraction], first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    width = len(values)
    pairs, inverse = np.unique(first * width + second, return_inverse=True)
    found = [_position(values, values[pair // width] + values[pair % width]) for pair in pairs.tolist()]
    summed: NDArray[np.int64] = np.array(found, dtype=np.int64)[inverse.reshape(-1)]
    return summed


def _position(values: list[Fraction], value: Fraction) -> int:
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
    # A geocode may serve at two geolevels; where it would now serve twice at one, the parent's goes in front.
    clash = pl.col("new") & pl.col("code").is_duplicated()
    return brought.select(
        pl.when(clash).then(pl.col("own") + "/" + pl.col("code")).otherwise("code").alias("code")
    )["code"]


def _finished(spine: Spine, levels: list[_Level], values: list[Fraction]) -> tuple[Reshaped, GeounitShares]:
    drafts = []
    for level in range(spine.finest):
        offsets = np.arange(len(levels[level].codes) + 1, dtype=np.int64)
        for lower in levels[level : spine.finest]:
            offsets = lower.child_offsets[offsets]
        geounit_of = np.repeat(np.arange(len(offsets) - 1, dtype=np.int64), np.diff(offsets))
        drafts.append(DraftLevel(spine.geolevels[level], levels[level].codes, geounit_of))
    made, numbers = respine(spine, drafts)
    used = sorted({values[p] for level in levels for p in np.unique(level.positions).tolist()})
    place = np.array([used.index(value) if value in used else -1 for value in values], dtype=np.int32)
    order = [*numbers, made.rows]
    positions = tuple(place[level.positions[number]] for level, number in zip(levels, order, strict=True))
    return made, GeounitShares(tuple(used), positions)
