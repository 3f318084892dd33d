"""How far noisy answers lie outside of exact counts and public bounds, in standard deviations of their noise.

A constraint is compared with a measured query of its geolevel whose answers add up to the constraint's query; of
several, with the one that has the fewest such answers. A sum of m noisy answers of variance v has the variance m v.
With normal noise, one of n sums lies z standard deviations or more from an exact count, or beyond a bound that holds,
with a probability of at most n exp(-z^2 / 2). So z is at most sqrt(2 (t + log n)) but for a probability of exp(-t).

A constraint that is farther away is almost certainly wrong, for example in its sign, geocode or cell. A bound that is
too wide, such as a lower bound that is too small, cannot be found in this way.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from tallyveil.arrays import Floats
from tallyveil.estimation.intervals.fit import StoredRows
from tallyveil.estimation.intervals.merged import ANSWERS_AT_ONCE, UnmergedModel
from tallyveil.estimation.problem import UNBOUNDED
from tallyveil.postprocess.constraints import ConstraintTable
from tallyveil.postprocess.intervals.residuals import LIMIT, label_of_answer
from tallyveil.postprocess.measured import Measured
from tallyveil.schema.nested_queries import determines, representative_cells
from tallyveil.schema.query_group import QueryGroup


@dataclass(frozen=True, slots=True)
class ConstraintDistance:
    """A constraint at one geolevel, and the noisy answers that it was held to.

    Attributes:
        geolevel, constraint: What was held, by the name of the constraint.
        is_exact: Whether the constraint gives exact counts, and not bounds.
        query: The measured query.
        n_sums: Number of sums of its answers that have a bound.
        place: The geounit and the cell whose sum is farthest outside.
        distance: How far it is outside, in standard deviations of its noise; 0 if no sum is.
        highest: Limit of this distance, which is the largest of many.
    """

    geolevel: str
    constraint: str
    is_exact: bool
    query: str
    n_sums: int
    place: str
    distance: float
    highest: float

    @property
    def is_as_stated(self) -> bool:
        """Whether chance explains the largest distance."""
        return self.distance <= self.highest

    def to_mapping(self) -> dict[str, Any]:
        """Plain data."""
        return {**asdict(self), "as_stated": self.is_as_stated}

    def __str__(self) -> str:
        return (
            f"{self.constraint} at {self.geolevel}: {self.place} is {self.distance:.3g} standard deviations of the "
            f"noise in {self.query} away (at most {self.highest:.3g} by chance)"
        )


def distances_of(measured: Measured, model: UnmergedModel) -> tuple[list[ConstraintDistance], list[str]]:
    """The distances of every constraint, at each geolevel where noisy answers add up to it.

    Args:
        measured: Noisy measurements with Gaussian noise, opened.
        model: Their model (`residuals.checked_model`).
    Returns:
        The distances, by constraint, root first. And the constraints that no noisy answers add up to, in words.
    Raises:
        StoreError: measurements are missing or damaged.
    """
    distances, unchecked = [], []
    stored = StoredRows(measured.root, model)
    for table in measured.constraints:
        items = list(_of_table(model, stored, table))
        distances += items
        if not items:
            unchecked.append(f"the constraint {table.name}")
    return distances, unchecked


class _Farthest(NamedTuple):
    """The sum that is farthest outside: its distance, geounit and answer."""

    distance: float
    geounit: int
    answer: int


def _of_table(
    model: UnmergedModel, stored: StoredRows, table: ConstraintTable
) -> Iterator[ConstraintDistance]:
    if table.query.overlaps:  # its answers are not those of one sum each
        return
    zeros = model.schema.barred_levels()
    for number in range(table.of_geounits + 1):
        level = model.levels[number]
        fits = [query for query in level.measured if determines(query, table.query, zeros)]
        if not fits:
            continue
        query = min(fits, key=lambda item: item.size)
        sums = _sums(model, query, table.query)
        terms = np.asarray(sums.sum(axis=0)).ravel()
        place, n = level.measured.index(query), model.spine.n_geounits(number)
        farthest, n_sums = _Farthest(0.0, 0, 0), 0
        at_once = max(1, ANSWERS_AT_ONCE // query.size)
        for start in range(0, n, at_once):
            stop = min(start + at_once, n)
            noisy = stored.rows(number, [query], start, stop).astype(np.int64) @ sums
            precision = level.precisions_of(np.arange(start, stop))[:, place, None]
            lower, upper = table.bounds_of(number, start, stop)
            # Nobody is in an answer without terms. Bounds from nothing to anything say nothing.
            says = (precision > 0) & (terms > 0) & ((lower > 0) | (upper < UNBOUNDED))
            n_sums += int(says.sum())
            outside = np.maximum(np.maximum(lower - noisy, noisy - upper), 0)
            distance: Floats = np.where(says, outside * np.sqrt(precision / np.maximum(terms, 1)), 0.0)
            geounit, answer = np.unravel_index(int(np.argmax(distance)), distance.shape)
            if distance[geounit, answer] > farthest.distance:
                farthest = _Farthest(float(distance[geounit, answer]), start + int(geounit), int(answer))
        if n_sums:
            code, label = model.spine.geocodes[number].text[farthest.geounit], label_of_answer(table.query)
            yield ConstraintDistance(
                level.geolevel,
                table.name,
                table.is_exact,
                query.name,
                n_sums,
                f"geounit {code}, {label(farthest.answer)}",
                farthest.distance,
                math.sqrt(2 * (LIMIT + math.log(n_sums))),
            )


def _sums(model: UnmergedModel, fine: QueryGroup, coarse: QueryGroup) -> sparse.csr_matrix:
    """Which answers of a query add up to each answer of another one; shape (fine.size, coarse.size)."""
    # Answers in which nobody can be counted would add noise alone.
    answers = model.schema.possible_answers(fine)
    sums = coarse.answers_of(representative_cells(fine, answers))
    counted = sums >= 0
    entries = np.ones(int(counted.sum()), np.int64), (answers[counted], sums[counted])
    return sparse.csr_matrix(entries, shape=(fine.size, coarse.size))
