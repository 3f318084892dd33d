"""One parent whose fixed counts split it into complete tables: the tile problem.

The parent's columns are divided into *groups*, and the counts of each child in each group are known exactly: from a
published release, from invariants, or from an earlier pass over the tree. What is left to estimate is one table for
each group, whose rows are the children and whose columns are the group's columns. All sums of a table are known. Only
measured queries whose answers take columns of several groups connect the tables.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tallyveil.arrays import Floats, Int32s, Integers
from tallyveil.errors import ConstraintError, SchemaError
from tallyveil.estimation.problem import MeasuredQuery, readonly_whole, store_whole

WEIGHT_STEPS = 16
"""Weights of the rounding chain are multiples of one over this."""

LARGEST_WEIGHT = 1024.0
"""Largest weight of a level of the chain, 2^14 sixteenths. Weights beyond it would make the coarse levels all that
counts, and the costs of the flow less far from overflow; plans use weights of one. Twice or half of it changes no
release."""


@dataclass(frozen=True, slots=True)
class TileProblem:
    """A parent and its C children on s columns in G groups.

    Attributes:
        geocode: Geocode of the parent (of the root itself, at a root).
        geolevel: Geolevel of that geounit.
        children: Geocodes of the children, C of them; at a root the root itself alone.
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

    geocode: str
    geolevel: str
    children: tuple[str, ...]
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
    def where(self) -> str:
        """The family in words, for messages."""
        return f"geolevel '{self.geolevel}', geounit '{self.geocode}'"

    @property
    def n_children(self) -> int:
        """C."""
        return len(self.children)

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
