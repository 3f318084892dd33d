"""Constraints of a release as lower and upper bounds on answers, at every geolevel that they reach.

No record is read here: bounds come from public files, and callers pass the values of invariants.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Integers, NarrowArray
from tallyveil.errors import ConstraintError
from tallyveil.estimation.problem import UNBOUNDED, LinearConstraint
from tallyveil.geography.spine import Spine
from tallyveil.intervals.model import Zeros
from tallyveil.plan.constraints import Bounds
from tallyveil.plan.release import ReleasePlan
from tallyveil.storage.read import read_table
from tallyveil.universe.counts import row_ranges
from tallyveil.universe.limits import LARGEST_COUNT, narrow_limits, widen_limits
from tallyveil.universe.query_group import QueryGroup
from tallyveil.universe.schema import Schema

GEOUNITS_AT_ONCE = 1 << 17


@dataclass(frozen=True, slots=True, eq=False)
class ConstraintTable:
    """Bounds on a query's answers, from the root down to the geolevel for which they are stated.

    Attributes:
        name: Name in errors and checks.
        query: The bounded query.
        lower: One array for each geolevel from the root down, shape (n_geounits, query.size). Its type is int32 if all
            bounds of the geolevel fit, else int64 (`narrow_limits`). Read it with `bounds_of`.
        upper: Arrays like those of `lower`. Where there is no bound, the value is the largest int32, or `UNBOUNDED` in
            int64. For an invariant it equals `lower`.
    """

    name: str
    query: QueryGroup
    lower: tuple[NarrowArray, ...]
    upper: tuple[NarrowArray, ...]

    def __post_init__(self) -> None:
        # The two bounds of an invariant are the same array, which is stored once.
        narrowed = {id(array): narrow_limits(array) for array in (*self.lower, *self.upper)}
        for side in ("lower", "upper"):
            object.__setattr__(self, side, tuple(narrowed[id(array)] for array in getattr(self, side)))

    def bounds_of(self, level: int, start: int, stop: int) -> tuple[Integers, Integers]:
        """Lower and upper bounds of geounits start..stop as int64, with `UNBOUNDED` where there is none."""
        return widen_limits(self.lower[level][start:stop]), widen_limits(self.upper[level][start:stop])

    def digest(self) -> bytes:
        """SHA-256 of the bounds, so that a resumed run can tell that they have changed."""
        digest = hashlib.sha256(f"{self.name}\0{self.query.name}".encode())
        for array in (*self.lower, *self.upper):
            for start in range(0, len(array), GEOUNITS_AT_ONCE):
                digest.update(widen_limits(array[start : start + GEOUNITS_AT_ONCE]).astype("<i8").tobytes())
        return digest.digest()

    def reaches(self, level: int) -> bool:
        """Whether the constraint holds at geolevel number `level`."""
        return level < len(self.lower)

    def on_support(self, level: int, start: int, stop: int, support: Integers) -> LinearConstraint:
        """The constraint for geounits start..stop, with only the answers that matter on a support."""
        found = self.query.answers_of(support)
        lower, upper = self.bounds_of(level, start, stop)
        present = np.zeros(self.query.size, dtype=bool)
        present[found[found >= 0]] = True
        # An answer without a cell on the support is zero. It matters only if its lower bound is above zero.
        present |= (lower > 0).any(axis=0)
        kept = np.flatnonzero(present)
        column = np.full(self.query.size + 1, -1, dtype=np.int32)
        column[kept] = np.arange(len(kept), dtype=np.int32)
        return LinearConstraint(self.name, column[found], lower[:, kept], upper[:, kept])


def public_zeros(plan: ReleasePlan, spine: Spine) -> tuple[Zeros, ...]:
    """Answers that a plan's public bounds keep at zero, for exact variances before any data is opened.

    Raises:
        ConstraintError: a bounds table does not fit the geography or the query.
    """
    tables = [bounds_table(plan, item, spine) for item in plan.bounds]
    return tuple(
        Zeros(table.query, item.geolevel, table.upper[-1] == 0)
        for item, table in zip(plan.bounds, tables, strict=True)
    )


def refuse_conflicts(tables: Sequence[ConstraintTable], spine: Spine, schema: Schema) -> None:
    """Refuse constraints that contradict each other at some geounit, before anything is spent.

    Two kinds of contradictions are found: answers that must have people although all their cells must be empty, and
    pairs of constraints of which one requires more people than the other allows, in one answer or in total. The
    estimator finds other contradictions, family by family.

    Raises:
        ConstraintError: names the geounit and both constraints.
    """
    cells = np.arange(schema.size, dtype=np.int64)
    cells = cells[schema.possible(cells)]
    for table in tables:
        reachable = np.zeros(table.query.size, dtype=bool)
        answers = table.query.answers_of(cells)
        reachable[answers[answers >= 0]] = True
        if reachable.all():
            continue
        for level, lower in enumerate(table.lower):
            conflict = np.any(lower[:, ~reachable] > 0, axis=1)
            _refuse(conflict, spine, level, table.name, "the structural zeros")
    for one, other in permutations(tables, 2):
        covers = bool((other.query.answers_of(cells) >= 0).all())
        if not covers and one.query != other.query:
            continue
        for level in range(min(len(one.lower), len(other.lower))):
            starts = range(0, spine.n_geounits(level), GEOUNITS_AT_ONCE)
            found = [_conflicts(one, other, level, start, covers) for start in starts]
            _refuse(np.concatenate(found), spine, level, one.name, other.name)


def _conflicts(
    one: ConstraintTable, other: ConstraintTable, level: int, start: int, covers: bool
) -> NDArray[np.bool_]:
    """Whether `one` requires more people than `other` allows, in each of some geounits from `start` on."""
    stop = start + GEOUNITS_AT_ONCE
    lower, upper = one.bounds_of(level, start, stop)[0], other.bounds_of(level, start, stop)[1]
    conflict = np.zeros(len(lower), dtype=np.bool_)
    if one.query == other.query:
        conflict |= np.any(lower > upper, axis=1)
    if covers:
        bounded = np.all(upper < UNBOUNDED, axis=1)
        most = np.where(upper < UNBOUNDED, upper, 0).sum(axis=1)
        conflict |= bounded & (lower.sum(axis=1) > most)
    return conflict


def _refuse(conflict: NDArray[np.bool_], spine: Spine, level: int, one: str, other: str) -> None:
    if conflict.any():
        geocode = spine.geocodes[level][int(np.argmax(conflict))]
        raise ConstraintError(
            f"{spine.geolevels[level]} '{geocode}': {one} and {other} contradict each other: the first asks for "
            f"more than the second allows ({int(conflict.sum())} such geounit(s) at this geolevel). "
            "Correct one of them. Nothing was spent.",
            code="constraints-conflict",
        )


def bounds_table(plan: ReleasePlan, bounds: Bounds, spine: Spine) -> ConstraintTable:
    """Public bounds read from their file, summed upward to every coarser geolevel.

    Raises:
        ConstraintError: the table does not fit the geography or the query.
    """
    query = plan.query(bounds.query)
    level = spine.level_index(bounds.geolevel)
    rows, answers, lower_values, upper_values = _read_bounds(bounds, query, spine, level)
    if bool((lower_values > upper_values).any()):
        raise ConstraintError(
            f"the bounds '{bounds.name}' in {bounds.path} have a lower bound above its upper bound; "
            "correct those rows.",
            code="bounds-crossed",
        )
    missing = UNBOUNDED if bounds.missing_upper is None else bounds.missing_upper
    lower = filled(spine.n_geounits(level), query, rows, answers, lower_values, 0)
    upper = filled(spine.n_geounits(level), query, rows, answers, upper_values, missing)
    return ConstraintTable(
        bounds.name, query, summed_upward(lower, level, spine), summed_upward(upper, level, spine)
    )


def filled(
    n_geounits: int,
    query: QueryGroup,
    rows: Integers,
    answers: Integers,
    values: Integers,
    missing: int,
) -> NarrowArray:
    """Bounds of every geounit and answer, in int32 where possible, because an int64 array would be very large."""
    given = narrow_limits(np.append(values, missing))
    table = np.full((n_geounits, query.size), given[-1], dtype=given.dtype)
    table[rows, answers] = given[:-1]
    return table


def _read_bounds(
    bounds: Bounds, query: QueryGroup, spine: Spine, level: int
) -> tuple[Integers, Integers, Integers, Integers]:
    names = query.factor_names
    table = read_table(bounds.path, ["geocode", *names, "lower", "upper"], f"bounds '{bounds.name}'")
    rows = spine.locate(level, table["geocode"].cast(pl.String))
    if bool((rows < 0).any()):
        unknown = table["geocode"].filter(rows < 0)
        raise ConstraintError(
            f"the bounds table {bounds.path} has {len(unknown)} row(s) whose geocode is not that of a "
            f"{bounds.geolevel} of the geography table, such as '{unknown[0]}'. Correct these rows, or add the "
            "geounits to the geography table.",
            code="bounds-geocode",
        )
    answers = _answers(table, query)
    if bool((answers < 0).any()):
        raise ConstraintError(
            f"the bounds table {bounds.path} has {int((answers < 0).sum())} row(s) whose {', '.join(names)} is not "
            f"an answer of query '{query.name}'. Correct these rows. The answers of the query are: "
            f"{'; '.join(query.labels()[:12])}.",
            code="bounds-answer",
        )
    places = np.sort(rows * query.size + answers)
    if bool((places[1:] == places[:-1]).any()):
        raise ConstraintError(
            f"the bounds table {bounds.path} bounds the same answer of the same geounit twice. Keep one row for each.",
            code="bounds-twice",
        )
    return rows, answers, _limits(bounds, table["lower"], 0), _limits(bounds, table["upper"], UNBOUNDED)


def _limits(bounds: Bounds, column: pl.Series, missing: int) -> Integers:
    """A column of bounds; a null is `missing`.

    Sums of bounds over geounits fit int64: a bound is at most 2**32, and a geography has fewer than 2**30 geounits.
    """
    # Text that is not an integer becomes null, which would look like a missing bound; a fraction would be truncated.
    whole = column.cast(pl.Int64, strict=False)
    if column.dtype.is_float():
        whole = whole.set((whole.cast(pl.Float64) != column).fill_null(value=False), None)
    if whole.null_count() != column.null_count() or not bool(
        whole.is_between(0, LARGEST_COUNT).fill_null(value=True).all()
    ):
        raise ConstraintError(
            f"the bounds table {bounds.path}: column '{column.name}' holds a value that is not an integer from 0 to "
            f"{LARGEST_COUNT:,}. Correct it. Leave the upper bound empty (null) where a count has none.",
            code="bounds-value",
        )
    return whole.fill_null(missing).to_numpy()


def _answers(table: pl.DataFrame, query: QueryGroup) -> Integers:
    """Answer of each row of labels; -1 if a label does not belong to its factor. Each combination is looked up once."""
    names = list(query.factor_names)
    if not names:
        return np.zeros(table.height, dtype=np.int64)
    labels = table.select(pl.col(names).cast(pl.String))
    different = labels.unique()
    numbers = query.answers_from_labels({name: different[name].to_list() for name in names}, different.height)
    found = labels.join(
        different.with_columns(pl.Series("__answer", numbers)),
        on=names,
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )
    return found["__answer"].to_numpy()


def summed_upward(values: NarrowArray, level: int, spine: Spine) -> tuple[NarrowArray, ...]:
    """Sums over children at every geolevel from the root to `level`. A sum with an unbounded term is unbounded.

    Args:
        values: Array of shape (n_geounits, n_answers) at `level`.
        level: Number of the geolevel.
        spine: The hierarchy.
    Returns:
        One array for each geolevel, root first.
    """
    sums = [narrow_limits(values)]
    for finer in range(level, 0, -1):
        sums.append(_sum_children(sums[-1], spine.child_offsets[finer - 1]))
    return tuple(reversed(sums))


def _sum_children(values: NarrowArray, child_offsets: Integers) -> NarrowArray:
    summed = np.zeros((len(child_offsets) - 1, values.shape[1]), dtype=np.int64)
    for start, stop in row_ranges(child_offsets, GEOUNITS_AT_ONCE):
        begin, end = int(child_offsets[start]), int(child_offsets[stop])
        children = widen_limits(values[begin:end])
        starts = child_offsets[start:stop] - begin
        open_ended = np.logical_or.reduceat(children >= UNBOUNDED, starts, axis=0)
        finite = np.add.reduceat(np.where(children >= UNBOUNDED, 0, children), starts, axis=0)
        summed[start:stop] = np.where(open_ended, UNBOUNDED, finite)
    return narrow_limits(summed)
