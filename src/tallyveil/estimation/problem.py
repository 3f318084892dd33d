"""One family: a parent, its children, everything known about the children's counts, and the estimate of them.

A family is the unit of estimation. It holds noisy measurements, public constraints and the parent's published
counts, all as plain arrays restricted to the parent's support. It has no place for a record or a true count.
The same is true of its form as plain JSON data, in which a family that could not be solved can be studied
elsewhere.

*The tile problem* is that of a parent whose fixed counts split it into complete tables. The parent's columns
are divided into *groups*, and the counts of each child in each group are known exactly: from a published
release, from invariants, or from an earlier pass over the tree. What is left to estimate is one table for
each group, whose rows are the children and whose columns are the group's columns. All sums of a table are
known. Only measured queries whose answers take columns of several groups connect the tables.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tallyveil.arrays import Bools, Floats, Int32s, Integers, Numbers
from tallyveil.errors import ConstraintError, SchemaError
from tallyveil.words.language import phrase

RoundingTarget = Literal["fraction", "nearest"]

UNBOUNDED = 2**62
"""An upper bound at or above this means: no upper bound."""


@dataclass(frozen=True, slots=True)
class MeasuredQuery:
    """One query group measured in every child, or one layer of a query group whose groups overlap.

    Attributes:
        name: Query spec; the same for all layers of a query group.
        labels: Answer column of each support cell, int32 of shape (s,); -1: the cell is in no answer.
        values: Noisy answers in persons, or what replaces them, float64 of shape (C, k).
        variances: Variance of the noise of one answer in each child, persons squared, float64 of shape (C,);
            inf: the child is not measured, and its values mean nothing. One number applies to all children.
        layer: Number of the layer; 0 for a query group whose groups do not overlap.
    """

    name: str
    labels: Int32s
    values: Floats
    variances: Floats
    layer: int = 0

    def __post_init__(self) -> None:
        where = f"measured query '{self.name}'"
        # Labels index arrays in kernels that check no bounds: they must be whole and in range before that.
        store_whole(self, "labels", self.labels, np.int32, 1, where)
        object.__setattr__(self, "values", _numbers(self.values, f"{where}: values"))
        _check_labels(self.labels, self.values.shape[1], where)
        object.__setattr__(self, "variances", _variances(self.variances, self.values.shape[0], where))

    @property
    def weights(self) -> Floats:
        """1 / variance, shape (C,); 0 where a child is not measured."""
        # 1 / inf is 0, which is how an unmeasured child has no say.
        return np.asarray(1.0 / self.variances)


@dataclass(frozen=True, slots=True)
class LinearConstraint:
    """Exact bounds on sums of cells, by group of children; an equality where both bounds agree.

    Most constraints are on single children: then every child is a group. A constraint on the two parts of a State has
    both in one group, and bounds what they hold together.

    Attributes:
        name: Name of the constraint, as declared.
        labels: Row of each support cell, int32 of shape (s,); -1: the cell is in no row.
        lower: Smallest allowed sum in persons, int64 of shape (groups, k).
        upper: Largest allowed sum, of the same shape. UNBOUNDED: no upper bound; 0: the group cannot have the cells.
        groups: Group of each child, int64 of shape (C,), numbered from 0 as they first appear; None makes every child
            a group.
    """

    name: str
    labels: Int32s
    lower: Integers
    upper: Integers
    groups: Integers | None = None

    def __post_init__(self) -> None:
        where = f"constraint '{self.name}'"
        store_whole(self, "labels", self.labels, np.int32, 1, where)
        store_whole(self, "lower", self.lower, np.int64, 2, where)
        store_whole(self, "upper", self.upper, np.int64, 2, where)
        if self.lower.shape != self.upper.shape:
            raise SchemaError(
                f"{where}: lower has shape {self.lower.shape}, upper {self.upper.shape}; want one shape"
            )
        _check_labels(self.labels, self.lower.shape[1], where)
        if self.groups is not None:
            store_whole(self, "groups", self.groups, np.int64, 1, where)
            _check_groups(self.groups, self.lower.shape[0], where)

    @property
    def shared(self) -> bool:
        """Whether some bound is on the sum of several children."""
        return self.groups is not None and self.groups.size != self.lower.shape[0]

    @property
    def group_of(self) -> Integers:
        """Group of each child, shape (C,)."""
        return np.arange(self.lower.shape[0]) if self.groups is None else self.groups


@dataclass(frozen=True, slots=True)
class EstimationPass:
    """One least-squares solve over some of the measured queries.

    Attributes:
        queries: Names of the measured queries in this pass's objective.
        slack: How far, in persons, later passes may move these queries' answers; 0 keeps them exactly.
    """

    queries: tuple[str, ...]
    slack: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.slack) and self.slack >= 0):
            raise SchemaError(f"estimation pass: slack must be zero or positive, got {self.slack!r}")


@dataclass(frozen=True, slots=True)
class RoundingStage:
    """One stage of the lexicographic rounding.

    Attributes:
        labels: (query name, int32 labels of shape (s,)) whose summed L1 deviation this stage minimises.
        target: What the answers should be near: "fraction", the estimate's answer; or "nearest", the whole
            number nearest to it (floors + round(answer of the fractional parts), halves to even).
    """

    labels: tuple[tuple[str, Int32s], ...]
    target: RoundingTarget = "fraction"

    def __post_init__(self) -> None:
        if self.target not in {"fraction", "nearest"}:
            raise SchemaError(f"rounding stage: target must be 'fraction' or 'nearest', got {self.target!r}")
        # The dataclass is frozen, but its arrays would not be.
        frozen = tuple(
            (name, readonly_whole(labels, np.int32, 1, f"rounding query '{name}'"))
            for name, labels in self.labels
        )
        object.__setattr__(self, "labels", frozen)


@dataclass(frozen=True, slots=True)
class FamilyOfGeounits:
    """A parent and its C children, by name.

    Attributes:
        geocode: Geocode of the parent (of the root itself, at a root).
        geolevel: Geolevel of that geounit.
        children: Geocodes of the children, C of them. At a root they are the root itself, or several roots that
            constraints bind together.
    """

    geocode: str
    geolevel: str
    children: tuple[str, ...]

    @property
    def where(self) -> str:
        """The family in words, for messages."""
        return f"geolevel '{self.geolevel}', geounit '{self.geocode}'"

    @property
    def n_children(self) -> int:
        """C."""
        return len(self.children)


@dataclass(frozen=True, slots=True)
class FamilyProblem(FamilyOfGeounits):
    """A parent and its C children on the parent's support of s cells.

    Attributes:
        support: Cell numbers where the parent may be above zero, int64 of shape (s,).
        parent_counts: The parent's counts, int64 of shape (s,); None at a root.
        measured: Noisy measurements of the children.
        constraints: Exact bounds the children must keep.
        passes: Least-squares solves, in order; every measured query belongs to at least one.
        rounding: Stages of the rounding, in order of importance; at least one.
    """

    support: Integers
    parent_counts: Integers | None
    measured: tuple[MeasuredQuery, ...]
    constraints: tuple[LinearConstraint, ...]
    passes: tuple[EstimationPass, ...]
    rounding: tuple[RoundingStage, ...]

    def __post_init__(self) -> None:
        store_whole(self, "support", self.support, np.int64, 1, self.where)
        if self.parent_counts is not None:
            store_whole(self, "parent_counts", self.parent_counts, np.int64, 1, self.where)
        # In this order: the later checks index by labels and groups, whose shapes the first one has checked.
        self._check_shapes()
        self._check_names()
        self._check_bounds()

    @property
    def n_cells(self) -> int:
        """s."""
        return int(self.support.size)

    def queries(self, current: EstimationPass) -> list[MeasuredQuery]:
        """The measured queries of a pass, in its order; the layers of a query follow one another."""
        return [query for name in current.queries for query in self.measured if query.name == name]

    def allowed(self) -> Bools:
        """Where a child may have a count above zero, shape (C, s).

        False where an upper bound is 0 or the parent has nobody.
        """
        allowed = np.ones((self.n_children, self.n_cells), dtype=np.bool_)
        if self.parent_counts is not None:
            allowed &= self.parent_counts > 0
        for constraint in self.constraints:
            if constraint.upper.size and (constraint.upper <= 0).any():
                used = constraint.labels >= 0
                possible = constraint.upper[:, constraint.labels[used]] > 0
                # An upper bound of 0 on a group forbids the cells to each of its children, since counts are not
                # negative.
                allowed[:, used] &= possible[constraint.group_of]
        return allowed

    def _check_shapes(self) -> None:
        n_children, n_cells = self.n_children, self.n_cells
        if n_children == 0:
            raise SchemaError(f"{self.where}: a family needs at least one child, got none")
        # Several roots in one family exist only where a constraint needs them together.
        bound_together = any(rows.groups is not None for rows in self.constraints)
        if self.parent_counts is None and n_children != 1 and not bound_together:
            raise SchemaError(f"{self.where}: a root is its own only child, got {n_children} children")
        if self.parent_counts is not None and self.parent_counts.shape != (n_cells,):
            raise SchemaError(f"{self.where}: parent_counts and support differ in length")
        if self.parent_counts is not None and (self.parent_counts < 0).any():
            raise SchemaError(f"{self.where}: a published count of the parent is negative")
        for query in self.measured:
            _check_family(
                query.labels, query.values, n_children, n_cells, f"{self.where}: query '{query.name}'"
            )
        for rows in self.constraints:
            _check_family(
                rows.labels, rows.group_of, n_children, n_cells, f"{self.where}: constraint '{rows.name}'"
            )
        for stage in self.rounding:
            for name, labels in stage.labels:
                if labels.shape != (n_cells,):
                    raise SchemaError(f"{self.where}: rounding query '{name}': want one label a support cell")

    def _check_names(self) -> None:
        names = [query.name for query in self.measured]
        used = {name for current in self.passes for name in current.queries}
        if len({(query.name, query.layer) for query in self.measured}) != len(names):
            raise SchemaError(f"{self.where}: a query is measured twice: {sorted(names)}")
        if not self.passes or not self.rounding:
            raise SchemaError(f"{self.where}: want at least one estimation pass and one rounding stage")
        if used != set(names):
            raise SchemaError(
                f"{self.where}: passes must use exactly the measured queries; "
                f"not measured: {sorted(used - set(names))}, in no pass: {sorted(set(names) - used)}"
            )

    def _check_bounds(self) -> None:
        for rows in self.constraints:
            # Found here, by name, since every solver would only say that nothing is feasible.
            crossed = np.flatnonzero(((rows.lower > rows.upper) | (rows.upper < 0)).any(axis=1))
            if crossed.size:
                first = int(np.argmax(rows.group_of == crossed[0]))
                raise ConstraintError(
                    f"{self.where}: constraint '{rows.name}' bounds '{self.children[first]}' by an empty "
                    "interval of counts; want a lower bound at or below the upper one, and that not negative"
                )


def _check_family(labels: Int32s, values: Numbers, n_children: int, n_cells: int, where: str) -> None:
    if labels.shape != (n_cells,):
        raise SchemaError(f"{where}: got {labels.size} labels, want one for each of {n_cells} support cells")
    if values.shape[0] != n_children:
        raise SchemaError(f"{where}: got {values.shape[0]} rows, want one for each of {n_children} children")


def _check_labels(labels: Int32s, n_answers: int, where: str) -> None:
    if labels.size and (labels.min() < -1 or labels.max() >= n_answers):
        raise SchemaError(
            f"{where}: labels must lie in -1..{n_answers - 1}, got {labels.min()}..{labels.max()}"
        )


def _check_groups(groups: Integers, n_groups: int, where: str) -> None:
    # In order of first appearance without gaps: the same groups are always written in one way.
    first = np.unique(groups, return_index=True)[1]
    if first.size != n_groups or not np.array_equal(groups[np.sort(first)], np.arange(n_groups)):
        raise SchemaError(
            f"{where}: want every one of the {n_groups} groups that have bounds, numbered from 0 as they first appear "
            "among the children"
        )


def _variances(given: object, n_children: int, where: str) -> Floats:
    """One variance a child, read-only."""
    each = np.array(given, dtype=np.float64)
    if each.ndim == 0:
        each = np.full(n_children, float(each))
    if each.shape != (n_children,):
        raise SchemaError(
            f"{where}: got variances of shape {each.shape}, want one for each of {n_children} children"
        )
    # Written so that NaN is wrong, too.
    wrong = each[~(each > 0)]
    if wrong.size:
        raise SchemaError(
            f"{where}: variance must be a positive number, or infinite, got {float(wrong[0])!r}"
        )
    each.setflags(write=False)
    return each


def _numbers(given: object, where: str) -> Floats:
    """A matrix of finite numbers, read-only."""
    matrix = np.array(given, dtype=np.float64)
    if matrix.ndim != 2 or not np.isfinite(matrix).all():
        raise SchemaError(f"{where}: want an array of 2 dimensions that holds finite numbers alone")
    matrix.setflags(write=False)
    return matrix


def store_whole(owner: object, field: str, array: object, dtype: type, ndim: int, where: str) -> None:
    """Set a field of a frozen dataclass to `readonly_whole` of an array; raises SchemaError as that does."""
    object.__setattr__(owner, field, readonly_whole(array, dtype, ndim, f"{where}: {field}"))


def readonly_whole(array: object, dtype: type, ndim: int, where: str) -> npt.NDArray[np.generic]:
    """The array as read-only, in C order, of this dtype. Only integers are accepted, so nothing is truncated.

    Raises:
        SchemaError: the array has another number of dimensions or other numbers, or a number does not fit the dtype.
    """
    given = np.asarray(array)
    if given.ndim != ndim or (given.size and given.dtype.kind not in "iu"):
        raise SchemaError(
            f"{where}: want a whole-number array of {ndim} dimensions, got {given.dtype} of {given.ndim}"
        )
    # A cast of integers wraps silently, so extremes are compared afterwards.
    cast: npt.NDArray[np.generic] = np.ascontiguousarray(given, dtype=dtype)
    if cast.size and (cast.min() != given.min() or cast.max() != given.max()):
        raise SchemaError(f"{where}: a value does not fit {np.dtype(dtype).name}")
    if cast.flags.writeable:
        # The caller's own array must stay writeable, so only a copy is locked.
        cast = cast.copy() if cast is given else cast
        cast.setflags(write=False)
    return cast


WEIGHT_STEPS = 16
"""Weights of the rounding chain are multiples of one over this."""

LARGEST_WEIGHT = 1024.0
"""Largest weight of a level of the chain, 2^14 sixteenths. Weights beyond it would make the coarse levels all that
counts, and the costs of the flow less far from overflow; plans use weights of one. Twice or half of it changes no
release."""


@dataclass(frozen=True, slots=True)
class TileProblem(FamilyOfGeounits):
    """A parent and its C children on s columns in G groups.

    Attributes:
        columns: A cell that stands for each column, int64 of shape (s,).
        parent_counts: The parent's counts of the columns, int64 of shape (s,); None at a root. Then the columns are
            free, and only the groups' totals are fixed.
        group: Group of each column, int32 of shape (s,), from 0 on.
        fixed: Counts of each child in each group, int64 of shape (C, G). Their sum over the children is the parent's.
        measured: Noisy measurements of the children. The query whose answers are the columns themselves gives the
            uniform weight of the objective. Where it is not measured, a small ridge keeps the parent's share.
        chain: Sets of columns whose sums the rounding keeps near the estimate, coarse to fine. Each is int32 of shape
            (s,), numbered from 0; each set lies in one group and in one set of the labels before.
        chain_weights: What a person of deviation in a set of each level costs, float64 of shape (levels,); rounded to
            multiples of 1/16.
    """

    columns: Integers
    parent_counts: Integers | None
    group: Int32s
    fixed: Integers
    measured: tuple[MeasuredQuery, ...]
    chain: tuple[Int32s, ...]
    chain_weights: Floats

    def __post_init__(self) -> None:
        store_whole(self, "columns", self.columns, np.int64, 1, self.where)
        store_whole(self, "group", self.group, np.int32, 1, self.where)
        store_whole(self, "fixed", self.fixed, np.int64, 2, self.where)
        if self.parent_counts is not None:
            store_whole(self, "parent_counts", self.parent_counts, np.int64, 1, self.where)
        # Labels index arrays in kernels, so they are checked and locked before anything uses them.
        chain = tuple(readonly_whole(labels, np.int32, 1, f"{self.where}: chain") for labels in self.chain)
        object.__setattr__(self, "chain", chain)
        weights = np.array(self.chain_weights, dtype=np.float64)
        weights.setflags(write=False)
        object.__setattr__(self, "chain_weights", weights)
        self._check_shapes()
        self._check_measured()
        self._check_chain()
        self._check_sums()

    @property
    def n_columns(self) -> int:
        """s."""
        return int(self.columns.size)

    @property
    def n_groups(self) -> int:
        """G."""
        return int(self.fixed.shape[1])

    @property
    def whole_weights(self) -> Integers:
        """Weights of the chain in sixteenths, at least 1."""
        # At least one sixteenth: a level of weight zero would not be rounded at all.
        return np.maximum(np.rint(self.chain_weights * WEIGHT_STEPS), 1).astype(np.int64)

    def _check_shapes(self) -> None:
        if self.n_children == 0 or (self.parent_counts is None and self.n_children != 1):
            raise SchemaError(
                f"{self.where}: want at least one child, and at a root the root itself alone; "
                f"got {self.n_children} children"
            )
        if self.fixed.shape[0] != self.n_children:
            raise SchemaError(
                f"{self.where}: fixed has {self.fixed.shape[0]} rows, want one for each of {self.n_children} children"
            )
        per_column = {"group": self.group, "parent_counts": self.parent_counts}
        for field, array in per_column.items():
            if array is not None and array.size != self.n_columns:
                raise SchemaError(
                    f"{self.where}: {field} has {array.size} numbers, want one for each of {self.n_columns} columns"
                )
        if self.group.size and not 0 <= self.group.min() <= self.group.max() < self.n_groups:
            raise SchemaError(f"{self.where}: groups of columns must lie in 0..{self.n_groups - 1}")

    def _check_measured(self) -> None:
        seen = {(query.name, query.layer) for query in self.measured}
        if len(seen) != len(self.measured):
            raise SchemaError(f"{self.where}: a query is measured twice")
        for query in self.measured:
            if query.labels.size != self.n_columns or query.values.shape[0] != self.n_children:
                raise SchemaError(
                    f"{self.where}: query '{query.name}' has {query.labels.size} labels and values of "
                    f"{query.values.shape[0]} children; want {self.n_columns} and {self.n_children}"
                )

    def _check_chain(self) -> None:
        weights = self.chain_weights
        right = weights.shape == (len(self.chain),) and bool((weights > 0).all())
        if not right or not (weights <= LARGEST_WEIGHT).all():
            raise SchemaError(
                f"{self.where}: want one weight above 0 and at most {LARGEST_WEIGHT:g} for each of the "
                f"{len(self.chain)} levels of the rounding chain"
            )
        above, name = self.group, "the groups"
        for level, labels in enumerate(self.chain):
            if labels.size != self.n_columns or (labels.size and labels.min() < 0):
                raise SchemaError(
                    f"{self.where}: level {level} of the rounding chain must give every one of {self.n_columns} "
                    "columns a set, numbered from 0"
                )
            # Nested if and only if every label occurs with one label above it.
            pairs = np.unique(np.stack([labels, above]), axis=1)
            if pairs.shape[1] != np.unique(labels).size:
                raise SchemaError(
                    f"{self.where}: level {level} of the rounding chain must be nested: every set in one of {name}"
                )
            above, name = labels, f"the sets of level {level}"

    def _check_sums(self) -> None:
        if (self.fixed < 0).any() or (self.parent_counts is not None and (self.parent_counts < 0).any()):
            raise ConstraintError(f"{self.where}: a fixed count or a count of the parent is negative")
        total = self.fixed.sum(axis=0)
        if self.parent_counts is None:
            # At a root only a group with people and without a column is wrong.
            wrong = np.setdiff1d(np.flatnonzero(total), self.group)
        else:
            sums = np.zeros(self.n_groups, np.int64)
            np.add.at(sums, self.group, self.parent_counts)
            wrong = np.flatnonzero(sums != total)
        if wrong.size:
            raise ConstraintError(
                f"{self.where}: the children's fixed counts do not sum to the parent's columns in {wrong.size} of "
                f"{self.n_groups} groups, the first of which is group {wrong[0]}; the earlier pass or the agreed "
                "release must give every parent the sum of its children"
            )


class EstimateStatus(Enum):
    """How the least-squares answer was obtained, from the surest. The value is its name in the manifest."""

    CERTIFIED = "certified"
    CERTIFIED_BY_MORE_SWEEPS = "certified_by_more_sweeps"
    CERTIFIED_FROM_INTERIOR_POINT = "certified_from_interior_point"
    # The order of the members matters: `least_certain` takes the later one of two.
    INTERIOR_POINT = "interior_point"
    # By a model of blocks, without least squares.
    ALLOCATED = "allocated"
    COPIED = "copied"
    EMPTY = "empty"

    @property
    def certified(self) -> bool:
        """Whether the optimality conditions were checked on an exact face."""
        return self.value.startswith("certified")

    @property
    def remedy(self) -> str:
        """What the reader of a manifest should do about it."""
        return _ESTIMATE_REMEDIES[self]


def least_certain(status: EstimateStatus, other: EstimateStatus) -> EstimateStatus:
    """The status of two passes taken together."""
    return max(status, other, key=list(EstimateStatus).index)


class TileStatus(Enum):
    """How the least-squares answer was obtained, from the surest. The value is its name in the manifest."""

    # From the surest to the least certain; the report counts families by these names.
    SETTLED = "settled"
    LIFTED = "lifted"
    CERTIFIED = "tables_certified"
    CERTIFIED_BY_RESTART = "tables_certified_by_restart"
    CERTIFIED_BY_MORE_STEPS = "tables_certified_by_more_steps"
    APPROXIMATE = "tables_approximate"

    @property
    def certified(self) -> bool:
        """Whether the answer is the exact optimum for measurements within the backward error."""
        return self is not TileStatus.APPROXIMATE

    @property
    def remedy(self) -> str:
        """What the reader of a manifest should do about it."""
        return _TILE_REMEDIES[self]


class RoundingMethod(Enum):
    """How one rounding stage was solved. The value is its name in the manifest."""

    FIXED = "fixed"
    NETWORK_FLOW = "network_flow"
    LINEAR_PROGRAM = "linear_program"
    INTEGER_PROGRAM = "integer_program"

    @property
    def remedy(self) -> str:
        """What the reader of a manifest should do about it."""
        return _ROUNDING_REMEDIES[self]


_ESTIMATE_REMEDIES = {
    EstimateStatus.CERTIFIED: phrase(
        "nothing to do: it was checked that no other estimate is better, but for rounding errors"
    ),
    EstimateStatus.CERTIFIED_BY_MORE_SWEEPS: phrase(
        "nothing to do: certified as well, after a longer descent; where most families end here, constraints "
        "repeat one another or the queries' shares of the budget are very unequal"
    ),
    EstimateStatus.CERTIFIED_FROM_INTERIOR_POINT: phrase(
        "nothing to do for the answer, which is certified; the interior-point method is slow, so where many "
        "families end here, look for constraints that repeat one another, or give every query a larger share"
    ),
    EstimateStatus.INTERIOR_POINT: phrase(
        "within the declared residual but not certified on its face; if many families end here, look for "
        "constraints that repeat one another, or give every query a larger share of the budget"
    ),
    EstimateStatus.COPIED: phrase("nothing to do: an only child has its parent's counts"),
    EstimateStatus.ALLOCATED: phrase(
        "nothing to do: the counts were divided among the blocks by a model, as the plan asks"
    ),
    EstimateStatus.EMPTY: phrase("nothing to do: nobody lives in the parent"),
}

_TILE_REMEDIES = {
    TileStatus.SETTLED: phrase("nothing to do: the fixed counts left nothing to estimate"),
    TileStatus.LIFTED: phrase(
        "nothing to do: the split costs least, and it can be continued to every finest geounit"
    ),
    TileStatus.CERTIFIED: phrase(
        "nothing to do: the counts are the optimum for measurements that differ from the given ones by at most the "
        "backward error that was asked for"
    ),
    TileStatus.CERTIFIED_BY_RESTART: phrase("nothing to do: as before, after Newton's method started again"),
    TileStatus.CERTIFIED_BY_MORE_STEPS: phrase(
        "nothing to do: as before, after many steps of accelerated gradients"
    ),
    TileStatus.APPROXIMATE: phrase(
        "the counts have all sums, but they are the optimum only for measurements that differ from the given ones by "
        "more than was asked for, which the report has in persons, or the estimate before rounding misses a sum by "
        "more than 1e-9 and more than its rounding errors"
    ),
}

_ROUNDING_REMEDIES = {
    RoundingMethod.FIXED: phrase("nothing to do: there was nothing to choose"),
    RoundingMethod.NETWORK_FLOW: phrase(
        "nothing to do: it was proved in whole numbers that no other rounding is better"
    ),
    RoundingMethod.LINEAR_PROGRAM: phrase(
        "nothing to do: optimal, proved in whole numbers by the dual solution"
    ),
    RoundingMethod.INTEGER_PROGRAM: phrase(
        "optimal by branch and bound, which is slow on large families; make the rounding queries and the "
        "constraints nested (each answer inside one answer of the one before) to get a linear program"
    ),
}


@dataclass(frozen=True, slots=True)
class StageOutcome:
    """One rounding stage.

    Attributes:
        queries: Names of the stage's queries.
        method: How it was solved.
        deviation: Attained sum of |rounded answer - target of the stage|, persons.
    """

    queries: tuple[str, ...]
    method: RoundingMethod
    deviation: float


@dataclass(frozen=True, slots=True)
class RoundingOutcome:
    """The rounding of one family.

    Attributes:
        stages: One outcome a stage, in order.
        widened: True when rounding each cell up or down could not meet the constraints, and any whole number
            at or above zero was allowed instead.
    """

    stages: tuple[StageOutcome, ...]
    widened: bool

    @property
    def method(self) -> RoundingMethod:
        """The most laborious method any stage needed."""
        order = list(RoundingMethod)
        return max((stage.method for stage in self.stages), key=order.index, default=RoundingMethod.FIXED)


@dataclass(frozen=True, slots=True)
class FamilySolution:
    """Non-negative integer counts of the children.

    Attributes:
        counts: Persons, int64 of shape (C, s), on the problem's support.
        estimate: The real-valued least-squares answer before rounding, persons, shape (C, s).
        status: How the estimate was obtained (the least certain pass decides).
        residual_persons: Largest violation of the optimality conditions in any pass, converted to persons.
        objective: Sum over the last pass's queries of squared deviation over variance, at the estimate.
        rounding: How the rounding went.
    """

    counts: Integers
    estimate: Floats
    status: EstimateStatus
    residual_persons: float
    objective: float
    rounding: RoundingOutcome


def problem_to_mapping(problem: FamilyProblem) -> dict[str, Any]:
    """Plain data of a family; `problem_from_mapping` takes it back."""
    return {
        "geocode": problem.geocode,
        "geolevel": problem.geolevel,
        "children": list(problem.children),
        "support": problem.support.tolist(),
        "parent_counts": None if problem.parent_counts is None else problem.parent_counts.tolist(),
        "measured": [
            {
                "name": query.name,
                "labels": query.labels.tolist(),
                "values": query.values.tolist(),
                # JSON has no infinity, so null stands for a child that is not measured.
                "variances": [
                    None if np.isinf(variance) else float(variance) for variance in query.variances
                ],
                # Written only where it is not the default, so that files from before layers stay the same.
                **({"layer": query.layer} if query.layer else {}),
            }
            for query in problem.measured
        ],
        "constraints": [
            {
                "name": constraint.name,
                "labels": constraint.labels.tolist(),
                "lower": constraint.lower.tolist(),
                "upper": constraint.upper.tolist(),
                **({} if constraint.groups is None else {"groups": constraint.groups.tolist()}),
            }
            for constraint in problem.constraints
        ],
        "passes": [
            {"queries": list(estimation_pass.queries), "slack": estimation_pass.slack}
            for estimation_pass in problem.passes
        ],
        "rounding": [
            {"target": stage.target, "labels": {name: labels.tolist() for name, labels in stage.labels}}
            for stage in problem.rounding
        ],
    }


def problem_from_mapping(mapping: Mapping[str, Any]) -> FamilyProblem:
    """The family of `problem_to_mapping`.

    Raises:
        SchemaError, ConstraintError: the parts do not fit each other.
        KeyError: an entry is missing.
    """
    n_children = len(mapping["children"])
    parent = mapping["parent_counts"]
    return FamilyProblem(
        geocode=mapping["geocode"],
        geolevel=mapping["geolevel"],
        children=tuple(mapping["children"]),
        support=np.array(mapping["support"], dtype=np.int64),
        parent_counts=None if parent is None else np.array(parent, dtype=np.int64),
        measured=tuple(
            MeasuredQuery(
                query["name"],
                _labels(query["labels"]),
                # An empty list has lost its number of columns; the number of rows restores the shape.
                np.array(query["values"], dtype=np.float64).reshape(n_children, -1),
                np.array([np.inf if variance is None else variance for variance in query["variances"]]),
                query.get("layer", 0),
            )
            for query in mapping["measured"]
        ),
        constraints=tuple(
            LinearConstraint(
                constraint["name"],
                _labels(constraint["labels"]),
                _rows(constraint["lower"], len(constraint["lower"])),
                _rows(constraint["upper"], len(constraint["upper"])),
                np.array(constraint["groups"], dtype=np.int64) if "groups" in constraint else None,
            )
            for constraint in mapping["constraints"]
        ),
        passes=tuple(
            EstimationPass(tuple(estimation_pass["queries"]), estimation_pass["slack"])
            for estimation_pass in mapping["passes"]
        ),
        rounding=tuple(
            RoundingStage(
                tuple((name, _labels(labels)) for name, labels in stage["labels"].items()), stage["target"]
            )
            for stage in mapping["rounding"]
        ),
    )


def _labels(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.int32)


def _rows(values: list[list[int]], n_children: int) -> np.ndarray:
    return np.array(values, dtype=np.int64).reshape(n_children, -1)
