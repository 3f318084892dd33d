"""Constraints of a release as lower and upper bounds on answers, at every geolevel that they reach.

No record is read here: bounds come from public files, and callers pass the values of invariants. Constraints
that contradict each other are refused before anything is spent. Bounds that follow from two constraints
together are added, so that what a parent may have can be divided among its children:

Problem. A constraint on a coarse query, such as the invariant total of every State, and one on a finer query,
such as bounds on the residents of group quarters, hold together in every State. The bounds of the US are sums
of those of the States. If they are sums of the bounds as stated, the US may get more nursing residents than
the States with nursing homes have people. Then no counts of the States agree with the published ones of the
US, and the run cannot go on.

Variables. In one child, l_i <= x_i <= u_i are the bounds of the answers that make one coarse answer, and L <=
sum x_i <= U are its own bounds.

Step. In a child, x_i is at most U - sum of l_j and at least L - sum of u_j, each over the other answers j.
The coarse answer is at least sum l_i and at most sum u_i. These bounds are the best possible for one answer.
Parents get the sums of these bounds in the place of the sums of the stated ones. The bounds of the children
stay as they are, because their family has both constraints.

Worked case. Children with 100 and 10 people; only the second has a nursing home, without an upper bound. Then
it has at most 10 nursing residents, and so has the parent.

The bounds of a parent are on one answer at a time. They do not say everything about several answers together:
where some children have two kinds of facilities and others have neither, a parent may still get more people
in the two kinds together than the first children have.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Bools, Integers, NarrowArray
from tallyveil.errors import ConstraintError
from tallyveil.estimation.intervals.model import Zeros
from tallyveil.estimation.problem import UNBOUNDED, LinearConstraint
from tallyveil.files.checks import Bounded
from tallyveil.geography.areas import Hierarchies, StatedGeounits, stated_geounits
from tallyveil.geography.spine import Spine
from tallyveil.plans.constraints import BoundsInput
from tallyveil.plans.release import ReleasePlan
from tallyveil.printable import short_name
from tallyveil.schema.counts import LARGEST_COUNT, narrow_limits, row_ranges, widen_limits
from tallyveil.schema.nested_queries import adding_up
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema
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

    @property
    def promise(self) -> Bounded:
        """What published counts are held to."""
        return Bounded(self.name, self.query, self.lower, self.upper, self.groups, self.stated)

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
            first_geounits = _starts_of(table.groups_at(level), len(lower))
            _refuse(conflict, first_geounits, spine, level, (table.name, "the structural zeros"))
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
