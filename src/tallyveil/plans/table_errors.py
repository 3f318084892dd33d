"""How exact the tables that a plan publishes are as measured, before anything but the release file is opened."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from tallyveil.budget.queries import is_fixed
from tallyveil.plans.release import StatedPlan
from tallyveil.schema.query_group import Factor, QueryGroup


@dataclass(frozen=True, slots=True)
class TableError:
    """How exact a table is at a geolevel.

    Attributes:
        table: The query.
        geolevel: The geolevel.
        is_exact: Whether it is published exactly.
        margin: With the confidence asked for, every answer is within this many records of the count before noise, by
            the measurements at this geolevel; None if it is exact, or if none of them determines it by itself.
    """

    table: str
    geolevel: str
    is_exact: bool
    margin: int | None

    def to_mapping(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "table": self.table,
            "geolevel": self.geolevel,
            "exact": self.is_exact,
            "margin": self.margin,
        }


def table_errors(plan: StatedPlan, confidence: Fraction) -> tuple[TableError, ...]:
    """The margin of each table of a plan at each geolevel, from the measurements there that determine it.

    Estimation also uses what is measured above and below, and usually makes the error smaller.

    Args:
        plan: The plan.
        confidence: Coverage of the margins.
    """
    return tuple(_errors(plan, confidence))


def _errors(plan: StatedPlan, confidence: Fraction) -> Iterator[TableError]:
    levels = plan.geolevels
    margin_of = cache(lambda law: law.margin(confidence))
    for name in plan.tables:
        table = plan.query(name)

        @cache
        def is_exact(known: frozenset[str], table: QueryGroup = table) -> bool:
            return bool(known) and is_fixed(
                table, [plan.query(query) for query in sorted(known)], plan.schema
            )

        for place, level in enumerate(levels):
            # What is exact at a finer geolevel is exact here, as a sum.
            below = set(levels[place:])
            if is_exact(frozenset(item.query for item in plan.invariants if below & set(item.geolevels))):
                yield TableError(name, level, True, None)
                continue
            parts = [
                (margin_of(plan.strategy.law(level, query)), number)
                for query, number in _measured(plan, level, table)
            ]
            yield TableError(name, level, False, _together(parts) if parts else None)


def _measured(plan: StatedPlan, level: str, table: QueryGroup) -> Iterator[tuple[str, int]]:
    """Queries measured at a geolevel that determine a table, each with how many of its answers add up to one answer."""
    for name in plan.strategy.queries(level):
        measured = plan.query(name)
        if name == table.name:
            yield name, 1
        elif not measured.overlaps and not table.overlaps:
            parts = [
                _parts(wide, narrow) for wide, narrow in zip(table.factors, measured.factors, strict=True)
            ]
            if all(parts):
                yield name, math.prod(parts)


def _parts(wide: Factor, narrow: Factor) -> int:
    """The most groups of a factor that add up to a group of another one; 0 if some group does not lie in one group."""
    pairs = np.unique(np.stack([wide.codes, narrow.codes]), axis=1)
    if (wide.codes[narrow.codes < 0] >= 0).any():
        return 0
    # Levels in no group are the group -1 of the wide factor: a narrow group may not lie on both sides of it either.
    inside = pairs[:, pairs[1] >= 0]
    if len(np.unique(inside[1])) < inside.shape[1]:
        return 0
    return int(np.bincount(inside[0][inside[0] >= 0]).max())


def _together(parts: Sequence[tuple[int, int]]) -> int:
    """The margin of the best mean of independent answers, each a sum of measured ones.

    Half a record is added to a margin before it is multiplied: the noise of whole numbers reaches to the middle between
    two. A margin grows with the root of the number of noises, and squares of margins are weighed as variances are. For
    normal noise both are exact. Sums and means of Laplace noise have lighter tails than Laplace noise of their
    variance, so that their margins are smaller than this.

    Args:
        parts: Margin of one measured answer, and how many of them add up.
    """
    squares = [number * (margin + 0.5) ** 2 for margin, number in parts]
    mean = math.ceil(1 / math.sqrt(math.fsum(1 / square for square in squares)))
    # A single answer has its exact margin.
    return min([mean, *(margin for margin, number in parts if number == 1)])
