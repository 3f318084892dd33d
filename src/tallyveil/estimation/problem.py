"""One family: a parent, its children, and everything known about the children's counts.

A family is the unit of estimation. It holds noisy measurements, public constraints and the parent's published
counts, all as plain arrays restricted to the parent's support. It has no place for a record or a true count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from tallyveil.arrays import Bools, Floats, Int32s, Integers, Numbers
from tallyveil.errors import ConstraintError, SchemaError

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
class FamilyProblem:
    """A parent and its C children on the parent's support of s cells.

    Attributes:
        geocode: Geocode of the parent (of the root itself, at a root).
        geolevel: Geolevel of that geounit.
        children: Geocodes of the children, C of them. At a root they are the root itself, or several roots that
            constraints bind together.
        support: Cell numbers where the parent may be above zero, int64 of shape (s,).
        parent_counts: The parent's counts, int64 of shape (s,); None at a root.
        measured: Noisy measurements of the children.
        constraints: Exact bounds the children must keep.
        passes: Least-squares solves, in order; every measured query belongs to at least one.
        rounding: Stages of the rounding, in order of importance; at least one.
    """

    geocode: str
    geolevel: str
    children: tuple[str, ...]
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
    def where(self) -> str:
        """The family in words, for messages."""
        return f"geolevel '{self.geolevel}', geounit '{self.geocode}'"

    @property
    def n_children(self) -> int:
        """C."""
        return len(self.children)

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
