"""A query group: a product of recodes, one for each attribute, applied to counts without building a matrix."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallyveil.errors import SchemaError
from tallyveil.schema.names import LABEL_JOINT

Number = TypeVar("Number", bound=np.number[Any])


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """The effect of a query group on one attribute.

    Attributes:
        attribute: Name of the attribute.
        name: Name of the attribute or recode in the query; None if the attribute is summed out.
        layers: One array for each layer, int32, read-only, shape (attribute.size,). It has the group of each level, or
            -1 for a level in no group of the layer. Each group is in one layer. Without overlaps there is one layer.
        labels: Labels of the groups. An attribute that is summed out has the single group "".
    """

    attribute: str
    name: str | None
    layers: tuple[NDArray[np.int32], ...]
    labels: tuple[str, ...]

    @property
    def codes(self) -> NDArray[np.int32]:
        """Group of each level, -1 for a level that the query leaves out, if no groups overlap.

        Raises:
            SchemaError: groups overlap, so a level can be in several. Use the layers one by one.
        """
        if len(self.layers) > 1:
            raise SchemaError(
                f"groups of {self.name!r} overlap, so a level has no single group. Use a query whose groups do not "
                "overlap here."
            )
        return self.layers[0]

    @property
    def n_levels(self) -> int:
        """Number of levels of the attribute."""
        return self.layers[0].size

    @property
    def most_groups(self) -> int:
        """Largest number of groups that one level is in."""
        return int(np.sum([layer >= 0 for layer in self.layers], axis=0).max())

    @property
    def size(self) -> int:
        """Number of groups."""
        return len(self.labels)

    @property
    def is_identity(self) -> bool:
        """Whether every level is its own group, in order."""
        if len(self.layers) > 1 or self.size != self.n_levels:
            return False
        return bool(np.array_equal(self.codes, np.arange(self.size)))

    @property
    def is_sum(self) -> bool:
        """Whether all levels are in one group."""
        return self.size == 1 and not self.codes.any()  # a single group overlaps no other

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Factor) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def _identity(self) -> tuple[str, str | None, bytes, tuple[str, ...]]:
        # Arrays are compared by their bytes: they have one type and are read-only, so that equal bytes are equal
        # groups.
        return self.attribute, self.name, b"".join(layer.tobytes() for layer in self.layers), self.labels


@dataclass(frozen=True, slots=True)
class QueryGroup:
    """Counts by groups of levels. A cell of the schema counts in one answer at most, unless groups overlap.

    A query group whose groups overlap consists of *layers*. A layer is a query group with the same name and the same
    numbering of answers. In a layer, each cell counts in at most one answer, and each answer belongs to exactly one
    layer. So the answers of the query group are the sum of the answers of its layers.

    Answers are numbered in C order over the schema's attributes (the first attribute is the most significant), whatever
    the order of names in the specification. Made by `Schema.query`.

    Attributes:
        name: The specification that it was made from.
        factors: One for each attribute of the schema, in the schema's order.
    Privacy: adding one record changes at most `sensitivity` answers, each by one.
    """

    name: str
    factors: tuple[Factor, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of groups of each attribute; 1 if it is summed out."""
        return tuple(factor.size for factor in self.factors)

    @property
    def size(self) -> int:
        """Number of answers, at least 1."""
        return math.prod(self.shape)

    @property
    def n_cells(self) -> int:
        """Number of cells of the schema."""
        return math.prod(factor.n_levels for factor in self.factors)

    @property
    def sensitivity(self) -> int:
        """Largest number of answers that change when one record is added; each changes by one.

        This is both the L1 sensitivity and the squared L2 sensitivity under unbounded neighbours. The number of answers
        of a cell is a product: for each attribute, the number of groups that the cell's level is in. The largest
        product has the largest factors. If no groups overlap, the sensitivity is 1.

        Under bounded neighbours a record may also move to another geounit. It then leaves the answers of the first
        geounit and enters those of the second. So both sensitivities are at most twice this number, and exactly twice
        if there are two geounits or more.
        """
        # 1 also where no cell is counted, so that no mechanism is given a sensitivity of 0.
        return max(1, math.prod(factor.most_groups for factor in self.factors))

    @property
    def overlaps(self) -> bool:
        """Whether a cell can count in several answers."""
        return self.n_layers > 1

    @property
    def n_layers(self) -> int:
        """Number of layers; 1 if no groups overlap."""
        return math.prod(len(factor.layers) for factor in self.factors)

    @property
    def layers(self) -> tuple["QueryGroup", ...]:
        """The layers; the query group itself if no groups overlap."""
        # Every combination of a layer for each attribute: groups of one combination cannot overlap.
        if not self.overlaps:
            return (self,)
        return tuple(
            QueryGroup(
                self.name,
                tuple(
                    replace(factor, layers=(layer,))
                    for factor, layer in zip(self.factors, chosen, strict=True)
                ),
            )
            for chosen in product(*(factor.layers for factor in self.factors))
        )

    @property
    def is_detailed(self) -> bool:
        """Whether the answers are the cells themselves."""
        return all(factor.is_identity for factor in self.factors)

    def answers_of(self, cells: ArrayLike) -> NDArray[np.int64]:
        """The answer in which each cell counts.

        Args:
            cells: Cell numbers, any shape.
        Returns:
            The same shape, int64: numbers in [0, size), or -1 for a cell in no answer.
        Raises:
            SchemaError: a cell lies outside the schema, or groups overlap (see `counted_in`).
        """
        wanted = np.asarray(cells, dtype=np.int64)
        n_cells = self.n_cells
        if wanted.size and (wanted.min() < 0 or wanted.max() >= n_cells):
            # The message does not show the cell, because it may come from a record.
            raise SchemaError(
                f"query {self.name!r}: a cell number lies outside the schema's range of 0 to {n_cells - 1}. Use the "
                "cell numbers of this schema."
            )
        if wanted.size > n_cells:
            # There are more requests than cells, so compute the answer of each cell once and look it up.
            return self._lookup(np.arange(n_cells, dtype=np.int64))[wanted]
        return self._lookup(wanted)

    def _lookup(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        answers = np.zeros(cells.shape, dtype=np.int64)
        left_out = np.zeros(cells.shape, dtype=np.bool_)
        stride_cells = stride_answers = 1
        # From the last attribute, the least significant digit of both numbers, so that the strides are products so far.
        for factor in reversed(self.factors):
            # A factor that is a sum adds 0 to every answer; skipping it saves a division for each cell.
            if not factor.is_sum:
                groups = factor.codes[cells // stride_cells % factor.codes.size]
                # Most factors count every level, and then the mask need not be touched.
                if factor.codes.min() < 0:
                    left_out |= groups < 0
                answers += stride_answers * groups.astype(np.int64)
            stride_cells *= factor.codes.size
            stride_answers *= factor.size
        answers[left_out] = -1
        return answers

    def counted_in(self, cells: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """All pairs of a cell and an answer in which it counts, layer by layer.

        Args:
            cells: Cell numbers, shape (n,).
        Returns:
            For each pair, the position of the cell in `cells`, and the number of the answer.
        Raises:
            SchemaError: a cell lies outside the schema.
        """
        answers = [layer.answers_of(cells) for layer in self.layers]
        places = [np.flatnonzero(layer_answers >= 0) for layer_answers in answers]
        return np.concatenate(places), np.concatenate(
            [layer_answers[place] for layer_answers, place in zip(answers, places, strict=True)]
        )

    def apply(
        self, rows: NDArray[np.int64], cells: NDArray[np.int64], counts: NDArray[np.int64], n_rows: int
    ) -> NDArray[np.int64]:
        """Answers of sparse counts.

        Args:
            rows: Row (geounit) of each count, in [0, n_rows).
            cells: Cell of each count.
            counts: The counts. Counts of the same (row, cell) pair are added up.
            n_rows: Number of rows.
        Returns:
            Shape (n_rows, size), int64.
        Raises:
            SchemaError: the lengths differ, or a row or cell is out of range.
        """
        if not len(rows) == len(cells) == len(counts):
            raise SchemaError(
                f"query {self.name!r}: rows, cells and counts differ in length. Give a row and a cell for each count."
            )
        if len(rows) and (np.min(rows) < 0 or np.max(rows) >= n_rows):
            raise SchemaError(
                f"query {self.name!r}: a row number lies outside 0 to {n_rows - 1}. Pass the number of geounits as "
                "the number of rows."
            )
        places, answers = self.counted_in(cells)
        flat = np.zeros(n_rows * self.size, dtype=np.int64)
        # This adds integers; bincount with weights would use floating point.
        np.add.at(
            flat, np.asarray(rows, dtype=np.int64)[places] * self.size + answers, np.asarray(counts)[places]
        )
        return flat.reshape(n_rows, self.size)

    def apply_dense(self, histogram: NDArray[Number]) -> NDArray[Number]:
        """Answers of a full histogram.

        Args:
            histogram: Shape (n_rows, n_cells).
        Returns:
            Shape (n_rows, size), with the same type of number.
        Raises:
            SchemaError: the shape does not fit.
        """
        if histogram.ndim != 2 or histogram.shape[1] != self.n_cells:
            raise SchemaError(
                f"query {self.name!r}: histogram has shape {histogram.shape}, wanted (rows, {self.n_cells})."
            )
        n_rows = histogram.shape[0]
        table = histogram.reshape(n_rows, *(factor.n_levels for factor in self.factors))
        summed = tuple(axis for axis, factor in enumerate(self.factors, start=1) if factor.is_sum)
        # Sums over whole axes first: they shrink the table before groups are gathered level by level.
        table = table.sum(axis=summed, keepdims=True, dtype=histogram.dtype)
        for axis, factor in enumerate(self.factors, start=1):
            if not (factor.is_sum or factor.is_identity):
                table = _sum_groups(table, axis, factor)
        return table.reshape(n_rows, self.size)

    def adjoint(self, answers: NDArray[Number], cells: NDArray[np.int64]) -> NDArray[Number]:
        """Spread answers back to cells: the transpose of applying the query.

        Args:
            answers: Shape (n_rows, size).
            cells: Wanted cells, shape (n,).
        Returns:
            Shape (n_rows, n): for each cell, the sum of the answers in which it counts; zero for a cell in no answer.
        Raises:
            SchemaError: the shape does not fit, or a cell is out of range.
        """
        if answers.ndim != 2 or answers.shape[1] != self.size:
            raise SchemaError(
                f"query {self.name!r}: answers have shape {answers.shape}, wanted (rows, {self.size})."
            )
        spread = np.zeros((len(answers), len(cells)), dtype=answers.dtype)
        # Within a layer each cell has one answer, so that no column is added to twice in one step.
        for layer in self.layers:
            columns = layer.answers_of(cells)
            spread[:, columns >= 0] += answers[:, columns[columns >= 0]]
        return spread

    def label(self, answer: int) -> dict[str, str]:
        """What an answer counts.

        Args:
            answer: Number of the answer.
        Returns:
            Group label by attribute or recode name, in the schema's order. Attributes that are summed out are absent.
        Raises:
            SchemaError: there is no such answer.
        """
        if not 0 <= answer < self.size:
            raise SchemaError(f"query {self.name!r} has no answer {answer}; wanted 0 to {self.size - 1}.")
        groups = np.unravel_index(answer, self.shape)
        return {
            factor.name: factor.labels[int(group)]
            for factor, group in zip(self.factors, groups, strict=True)
            if factor.name is not None
        }

    def labels(self) -> list[str]:
        """One line for each answer, such as "votingage=18_plus * hispanic=hispanic".

        A query that names no factor has one answer, with the label "total".
        """
        named = [[f"{factor.name}={label}" for label in factor.labels] for factor in self.named_factors]
        return [LABEL_JOINT.join(parts) or "total" for parts in product(*named)]

    @property
    def factor_names(self) -> tuple[str, ...]:
        """Names of the attributes and recodes in the query, in the schema's order; empty for the total."""
        return tuple(factor.name for factor in self.named_factors if factor.name is not None)

    def answers_from_labels(
        self, columns: Mapping[str, Sequence[str | None]], n_rows: int
    ) -> NDArray[np.int64]:
        """Answer number of each row of labels.

        Args:
            columns: Group labels by factor name, each with `n_rows` rows. The total needs none.
            n_rows: Number of rows.
        Returns:
            Answer numbers, shape (n_rows,); -1 if a label is not one of its factor's labels.
        """
        answers = np.zeros(n_rows, dtype=np.int64)
        unknown = np.zeros(n_rows, dtype=np.bool_)
        for factor in self.named_factors:
            number = {label: group for group, label in enumerate(factor.labels)}
            groups = np.array([number.get(label or "", -1) for label in columns[factor.name or ""]], np.int64)
            unknown |= groups < 0
            # C order over the named attributes alone: those that are summed out have one group and change no number.
            answers = answers * factor.size + groups
        answers[unknown] = -1
        return answers

    @property
    def named_factors(self) -> tuple[Factor, ...]:
        """The factors of the attributes and recodes in the query, without those that are summed out."""
        return tuple(factor for factor in self.factors if factor.name is not None)


def _sum_groups(table: NDArray[Number], axis: int, factor: Factor) -> NDArray[Number]:
    """Sum slices along one axis into the groups of a factor.

    Args:
        table: Counts, with one slice for each level along `axis`.
        axis: The axis of the factor's attribute.
        factor: Groups of the levels.
    Returns:
        The same counts, with one slice for each group along `axis`.
    """
    grouped = np.zeros((*table.shape[:axis], factor.size, *table.shape[axis + 1 :]), dtype=table.dtype)
    source, target = np.moveaxis(table, axis, 0), np.moveaxis(grouped, axis, 0)
    for layer in factor.layers:
        for level, group in enumerate(layer):
            if group >= 0:
                target[group] += source[level]
    return grouped
