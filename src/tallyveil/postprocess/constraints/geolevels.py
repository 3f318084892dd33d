"""Constraints of a release as lower and upper bounds on answers, at every geolevel that they reach.

No record is read here: bounds come from public files, and callers pass the values of invariants.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
import polars as pl

from tallyveil.arrays import Integers, NarrowArray
from tallyveil.errors import ConstraintError
from tallyveil.estimation.intervals.model import Zeros
from tallyveil.estimation.problem import UNBOUNDED, LinearConstraint
from tallyveil.geography.areas import Hierarchies, StatedGeounits, stated_geounits
from tallyveil.geography.spine import Spine
from tallyveil.plans.constraints import BoundsInput
from tallyveil.plans.release import ReleasePlan
from tallyveil.printable import short_name
from tallyveil.schema.counts import LARGEST_COUNT, narrow_limits, row_ranges, widen_limits
from tallyveil.schema.query_group import QueryGroup
from tallyveil.storage.read import read_table, require_counts, require_levels, whole_number

GEOUNITS_AT_ONCE = 1 << 17
"""Geounits whose bounds are widened to 64 bits at once: 8 MiB for each array of bounds on 8 answers."""


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
        groups: If the bounds of the last geolevel are on sums of siblings, as for States that the spine divides: the
            row of bounds that each of its geounits belongs to. Rows are numbered as they first appear. None if each
            geounit has a row of its own.
        stated: The geolevel of the geography whose geounits the groups are; None if there are no groups.
    """

    name: str
    query: QueryGroup
    lower: tuple[NarrowArray, ...]
    upper: tuple[NarrowArray, ...]
    groups: Integers | None = None
    stated: str | None = None

    def __post_init__(self) -> None:
        # The two bounds of an invariant are the same array, which is stored once.
        narrowed = {id(array): narrow_limits(array) for array in (*self.lower, *self.upper)}
        for side in ("lower", "upper"):
            object.__setattr__(self, side, tuple(narrowed[id(array)] for array in getattr(self, side)))

    @property
    def is_exact(self) -> bool:
        """Whether the two bounds are one array, as those of an invariant are."""
        return self.lower[-1] is self.upper[-1]

    @property
    def of_geounits(self) -> int:
        """The finest geolevel at which every geounit has bounds of its own; -1 if there is none."""
        return len(self.lower) - 1 - (self.groups is not None)

    def bounds_of(self, level: int, start: int, stop: int) -> tuple[Integers, Integers]:
        """Rows start..stop of lower and upper bounds as int64, with `UNBOUNDED` where there is none.

        A row is that of a geounit or, at the last geolevel of a table with groups, that of a group.
        """
        return widen_limits(self.lower[level][start:stop]), widen_limits(self.upper[level][start:stop])

    def digest(self) -> bytes:
        """SHA-256 of the bounds, so that a resumed run can tell that they have changed."""
        # Hashed as int64, so that the digest does not depend on the compact type.
        digest = hashlib.sha256(f"{self.name}\0{self.query.name}".encode())
        for array in (*self.lower, *self.upper):
            for start in range(0, len(array), GEOUNITS_AT_ONCE):
                digest.update(widen_limits(array[start : start + GEOUNITS_AT_ONCE]).astype("<i8").tobytes())
        if self.groups is not None:
            digest.update(b"groups" + self.groups.astype("<i8").tobytes())
        return digest.digest()

    def reaches(self, level: int) -> bool:
        """Whether the constraint holds at geolevel number `level`."""
        return level < len(self.lower)

    def groups_at(self, level: int) -> Integers | None:
        """The row of bounds of each geounit of a geolevel; None where each has its own."""
        return self.groups if level == len(self.lower) - 1 else None

    def on_support(self, level: int, start: int, stop: int, support: Integers) -> LinearConstraint:
        """The constraint for geounits start..stop, with only the answers that matter on a support.

        A group that has one of the geounits has no others.
        """
        answer_of_cell = self.query.answers_of(support)
        groups = self.groups_at(level)
        if groups is None:
            lower, upper = self.bounds_of(level, start, stop)
        else:
            # Renumbered from 0 within the family; siblings stand together, and so do their groups.
            groups = groups[start:stop] - groups[start]
            first = int(self.groups[start]) if self.groups is not None else start
            lower, upper = self.bounds_of(level, first, first + int(groups.max()) + 1)
        present = np.zeros(self.query.size, dtype=bool)
        present[answer_of_cell[answer_of_cell >= 0]] = True
        # An answer without a cell on the support is zero. It matters only if its lower bound is above zero.
        present |= (lower > 0).any(axis=0)
        answers = np.flatnonzero(present)
        # One column more than there are answers: -1, for cells in no answer, indexes this last one and gives -1.
        column = np.full(self.query.size + 1, -1, dtype=np.int32)
        column[answers] = np.arange(len(answers), dtype=np.int32)
        return LinearConstraint(
            self.name, column[answer_of_cell], lower[:, answers], upper[:, answers], groups
        )


def public_zeros(plan: ReleasePlan, hierarchies: Hierarchies) -> tuple[Zeros, ...]:
    """Answers that a plan's public bounds keep at zero, for exact variances before any data is opened.

    Raises:
        ConstraintError: a bounds table does not fit the geography or the query.
    """
    return tuple(zeros_of(bounds_table(plan, item, hierarchies), hierarchies.spine) for item in plan.bounds)


def zeros_of(table: ConstraintTable, spine: Spine) -> Zeros:
    """Answers that bounds keep at zero; where a sum is zero, all its parts are."""
    level = len(table.upper) - 1
    # A zero sum of counts that are not negative leaves every term zero.
    zero = table.upper[-1] == 0
    return Zeros(table.query, spine.geolevels[level], zero if table.groups is None else zero[table.groups])


def bounds_table(plan: ReleasePlan, bounds: BoundsInput, hierarchies: Hierarchies) -> ConstraintTable:
    """Public bounds read from their file, summed upward to every coarser geolevel.

    Raises:
        ConstraintError: the table does not fit the geography or the query.
    """
    query = plan.query(bounds.query)
    stated = stated_geounits(hierarchies, bounds.geolevel, f"'{bounds.name}', bounds on '{bounds.query}',")
    rows, answers, lower_values, upper_values = _read_bounds(bounds, query, stated)
    if bool((lower_values > upper_values).any()):
        raise ConstraintError(
            f"the bounds '{bounds.name}' in {bounds.path} have a lower bound above its upper bound; "
            "correct those rows.",
            code="bounds-crossed",
        )
    missing = UNBOUNDED if bounds.missing_upper is None else bounds.missing_upper
    lower = filled(stated.n_geounits, query, rows, answers, lower_values, 0)
    upper = filled(stated.n_geounits, query, rows, answers, upper_values, missing)
    return constraint_table(bounds.name, query, (lower, upper), stated, hierarchies.spine)


def constraint_table(
    name: str,
    query: QueryGroup,
    bounds: tuple[NarrowArray, NarrowArray],
    stated: StatedGeounits,
    spine: Spine,
) -> ConstraintTable:
    """Bounds of the geounits that a constraint is stated for, summed upward to every coarser geolevel.

    Args:
        name: Of the constraint.
        query: The bounded query.
        bounds: Lower and upper bounds of the stated geounits; the same array twice for an invariant.
        stated: Where the geounits are on the spine.
        spine: The spine that is measured.
    """
    # Summed once where both bounds are one array, so that `is_exact` still finds one array.
    lower = summed_upward(bounds[0], stated.level, spine, stated.groups)
    upper = lower if bounds[1] is bounds[0] else summed_upward(bounds[1], stated.level, spine, stated.groups)
    name_of_groups = None if stated.groups is None else stated.geolevel
    return ConstraintTable(name, query, lower, upper, stated.groups, name_of_groups)


def filled(
    n_geounits: int,
    query: QueryGroup,
    rows: Integers,
    answers: Integers,
    values: Integers,
    missing: int,
) -> NarrowArray:
    """Bounds of every geounit and answer, in int32 where possible, because an int64 array would be very large."""
    limits = narrow_limits(np.append(values, missing))
    table = np.full((n_geounits, query.size), limits[-1], dtype=limits.dtype)
    table[rows, answers] = limits[:-1]
    return table


def _read_bounds(
    bounds: BoundsInput, query: QueryGroup, stated: StatedGeounits
) -> tuple[Integers, Integers, Integers, Integers]:
    names = query.factor_names
    table = read_table(bounds.path, ["geocode", *names, "lower", "upper"], f"bounds '{bounds.name}'")
    require_levels(table.lazy(), ["geocode", *names], bounds.path, "bounds")
    for column in ("lower", "upper"):
        # A type that is not a count would be cut to one without a word.
        if table[column].dtype != pl.Null:  # a column without any bound may have no type
            require_counts(table.lazy(), column, bounds.path, "bounds")
    rows = stated.areas.locate(stated.place, table["geocode"].cast(pl.String))
    if bool((rows < 0).any()):
        unknown = table["geocode"].filter(rows < 0)
        raise ConstraintError(
            f"the bounds table {bounds.path} has {len(unknown)} row(s) whose geocode is not that of a "
            f"{bounds.geolevel} of the geography table, such as '{short_name(str(unknown[0]))}'. Correct these "
            "rows, or add the geounits to the geography table.",
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
    # One number for each pair of geounit and answer; equal neighbours after sorting are duplicates.
    places = np.sort(rows * query.size + answers)
    if bool((places[1:] == places[:-1]).any()):
        raise ConstraintError(
            f"the bounds table {bounds.path} bounds the same answer of the same geounit twice. Keep one row for each.",
            code="bounds-twice",
        )
    return rows, answers, _limits(bounds, table["lower"], 0), _limits(bounds, table["upper"], UNBOUNDED)


def _limits(bounds: BoundsInput, column: pl.Series, missing: int) -> Integers:
    """A column of bounds; a null is `missing`.

    Sums of bounds over geounits fit int64: a bound is at most 2**32, and a geography has fewer than 2**30 geounits.
    """
    # What is not an integer becomes null, which would look like a missing bound.
    whole = column.to_frame().select(whole_number(column.name)).to_series()
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
    # Few combinations, many rows: labels are looked up once for each combination.
    names = list(query.factor_names)
    if not names:
        return np.zeros(table.height, dtype=np.int64)
    labels = table.select(pl.col(names).cast(pl.String))
    different = labels.unique()
    numbers = query.answers_from_labels({name: different[name].to_list() for name in names}, different.height)
    answered = labels.join(
        different.with_columns(pl.Series("__answer", numbers)),
        on=names,
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )
    return answered["__answer"].to_numpy()


def summed_upward(
    values: NarrowArray, level: int, spine: Spine, groups: Integers | None = None
) -> tuple[NarrowArray, ...]:
    """Sums over children at every geolevel from the root to `level`. A sum with an unbounded term is unbounded.

    Args:
        values: Array of shape (n_geounits, n_answers) at `level`, or of one row for each group of siblings.
        level: Number of the geolevel.
        spine: The hierarchy.
        groups: Group of each geounit of `level`, see `ConstraintTable`.
    Returns:
        One array for each geolevel, root first.
    """
    sums = [narrow_limits(values)]
    for finer in range(level, 0, -1):
        offsets = spine.child_offsets[finer - 1]
        # Groups are numbered by first appearance, so those of a parent's children are consecutive.
        if finer == level and groups is not None:  # siblings stand together, and so do their groups
            offsets = np.append(groups[offsets[:-1]], len(values))
        sums.append(_sum_children(sums[-1], offsets))
    return tuple(reversed(sums))


def _sum_children(values: NarrowArray, child_offsets: Integers) -> NarrowArray:
    summed = np.zeros((len(child_offsets) - 1, values.shape[1]), dtype=np.int64)
    for start, stop in row_ranges(child_offsets, GEOUNITS_AT_ONCE):
        begin, end = int(child_offsets[start]), int(child_offsets[stop])
        # Widened only for some rows at a time; the compact arrays stay compact.
        children = widen_limits(values[begin:end])
        starts = child_offsets[start:stop] - begin
        open_ended = np.logical_or.reduceat(children >= UNBOUNDED, starts, axis=0)
        finite = np.add.reduceat(np.where(children >= UNBOUNDED, 0, children), starts, axis=0)
        summed[start:stop] = np.where(open_ended, UNBOUNDED, finite)
    return narrow_limits(summed)
