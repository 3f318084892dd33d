"""How exact the tables that a plan publishes are as measured, before anything but the release file is opened."""

import math
from collections.abc import Iterator
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
        margin: With the confidence asked for, the noise of every answer is within this many records; None if it is
            exact, or if no single measurement at this geolevel determines it.
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
    """The margin of each table of a plan at each geolevel, from its best single measurement there.

    Estimation uses all measurements together, and usually makes the error smaller.

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

        for number, level in enumerate(levels):
            # What is exact at a finer geolevel is exact here, as a sum.
            below = set(levels[number:])
            if is_exact(frozenset(item.query for item in plan.invariants if below & set(item.geolevels))):
                yield TableError(name, level, True, None)
                continue
            margins = [
                _of_sum(margin_of(plan.strategy.law(level, query)), parts)
                for query, parts in _measured(plan, level, table)
            ]
            yield TableError(name, level, False, min(margins, default=None))


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


def _of_sum(margin: int, parts: int) -> int:
    """The margin of a sum of independent noises, from the margin of each of them.

    It grows with the root of their number: exactly so for normal noise. Sums of Laplace noise have lighter tails than
    Laplace noise of their variance, so that it holds for them as well. Half a record is added before, because the
    noise of whole numbers goes on to the middle between two.
    """
    return margin if parts == 1 else math.ceil(math.sqrt(parts) * (margin + 0.5))
