"""The small matrix algebra that represents every covariance of a release.

Problem. Covariance matrices of all cells of a geounit (2,016 cells, for example) are too large to compute with. But the
information matrix of a set of product queries is a sum of Kronecker products with one factor for each attribute.

Steps. In the basis of `Axis`, each factor is block diagonal: a *dense* block, and multiples of identities for each kind
of contrast. So the Kronecker product is block diagonal too. There is one class of blocks for each choice of *dense* or
a kind of contrast for every attribute, and all blocks of a class are equal. Sums, products and inverses keep this form.
So the covariance of a geounit needs only a few hundred numbers.

Layout. Blocks are packed into a row of `n_block_entries` numbers, class after class, each a (dim, dim) matrix by rows.

Worked case. One attribute has the levels male and female. The total has precision p, and each level has precision q.
The basis is the normalised sum and the normalised difference. In it, the information is diagonal: 2 p + q for the sum
and q for the difference. The variances are 1 / (2 p + q) and 1 / q.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Floats, Integers
from tallyveil.errors import ConstraintError, SchemaError
from tallyveil.estimation.intervals.axis import DENSE, Axis, derive_axis, factor_blocks
from tallyveil.kernels.tree.transform import Basis, reflect
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema

LARGEST_BLOCK = 64
"""Largest block by default. A block of size 64 has 4,096 numbers for each class and geounit."""


@dataclass(frozen=True, slots=True, eq=False)
class BlockAlgebra:
    """The form of blocks for a schema with given queries and zeros.

    Attributes:
        schema: The universe.
        axes: One for each attribute.
        classes: For every class of blocks, the kind of each attribute. Classes with smaller blocks come first.
        basis: The same information as arrays, for kernels.
    """

    schema: Schema
    axes: tuple[Axis, ...]
    classes: tuple[tuple[int, ...], ...]
    basis: Basis

    @property
    def n_cells(self) -> int:
        """Number of cells of a geounit, which is also the number of coefficients."""
        return len(self.basis.order)

    @property
    def n_block_entries(self) -> int:
        """Number of entries in the packed blocks of one geounit."""
        return int(self.basis.blocks[-1])

    @property
    def parts(self) -> tuple[tuple[int, int, int], ...]:
        """Runs of classes with blocks of the same size: first entry, number of classes, size."""
        runs: list[tuple[int, int, int]] = []
        for dim in sorted(set(self.basis.dims.tolist())):
            members = np.flatnonzero(self.basis.dims == dim)
            runs.append((int(self.basis.blocks[members[0]]), len(members), dim))
        return tuple(runs)

    def views(self, blocks: Floats) -> list[Floats]:
        """Packed blocks (n, n_block_entries) as arrays (n, classes, dim, dim), one for each part; memory is shared."""
        n = len(blocks)
        return [
            blocks[:, start : start + count * dim * dim].reshape(n, count, dim, dim)
            for start, count, dim in self.parts
        ]

    def identity(self, n: int) -> Floats:
        """Packed identities, shape (n, n_block_entries)."""
        # In the order of packing: parts by size, and within a part class after class.
        identity = np.concatenate([np.tile(np.eye(dim).ravel(), count) for _, count, dim in self.parts])
        return np.tile(identity, (n, 1))


def derive_algebra(
    schema: Schema,
    groups: Sequence[QueryGroup],
    zeros: NDArray[np.bool_] | None = None,
    *,
    largest_block: int = LARGEST_BLOCK,
) -> BlockAlgebra:
    """The algebra for some queries and patterns of zeros.

    Args:
        schema: The universe.
        groups: Every query that is measured or published exactly at any geolevel.
        zeros: Cells that are zero, one pattern in each row; shape (n_patterns, n_cells); None for no zeros.
        largest_block: Largest block that is allowed.
    Raises:
        SchemaError: the queries alone need larger blocks.
        ConstraintError: the zeros need larger blocks.
    """
    axes = _axes(schema, groups, _zero_labels(schema, zeros))
    # The largest class has every attribute dense. It is refused before any array of its size is made.
    if math.prod(axis.sizes[DENSE] for axis in axes) > largest_block:
        _refuse(schema, groups, axes, largest_block)
    classes = sorted(
        # Sorted by size, so that blocks of one size are one stretch of memory and one call of numpy.
        product(*(range(len(axis.sizes)) for axis in axes)),
        key=lambda kinds: (_dim(axes, kinds), kinds),
    )
    return BlockAlgebra(schema, axes, tuple(classes), _basis(schema.shape, axes, classes))


def _axes(schema: Schema, groups: Sequence[QueryGroup], labels: Sequence[Integers]) -> tuple[Axis, ...]:
    return tuple(
        derive_axis(size, [group.factors[axis] for group in groups], labels[axis])
        for axis, size in enumerate(schema.shape)
    )


def _zero_labels(schema: Schema, zeros: NDArray[np.bool_] | None) -> list[Integers]:
    """For each attribute, a label for every level. Levels that every pattern treats alike have the same label."""
    if zeros is None or not len(zeros):
        return [np.zeros(size, np.int64) for size in schema.shape]
    table = zeros.reshape(len(zeros), *schema.shape)
    labels = []
    for axis, size in enumerate(schema.shape, start=1):
        # Levels are alike for zeros if all patterns agree on them; packed rows compare eight cells at a time.
        rows = np.packbits(np.moveaxis(table, axis, 0).reshape(size, -1), axis=1)
        labels.append(np.unique(rows, axis=0, return_inverse=True)[1].reshape(size).astype(np.int64))
    return labels


def _refuse(schema: Schema, groups: Sequence[QueryGroup], axes: Sequence[Axis], largest: int) -> None:
    needed = _dense_sizes(schema, axes)
    # The axes without zeros tell whether the queries or the zeros are to blame, which have different remedies.
    bare = _axes(schema, groups, _zero_labels(schema, None)) if groups else ()
    alone = math.prod(axis.sizes[DENSE] for axis in bare)
    if alone > largest:
        raise SchemaError(
            f"schema '{schema.name}': the queries divide the levels into {needed}, so that covariances have blocks "
            f"of size {alone}; the limit is {largest}. Sum over or coarsen an attribute first, or raise "
            "largest_block.",
            code="blocks-too-large",
        )
    raise ConstraintError(
        f"schema '{schema.name}': the zeros divide the levels into {needed}, so that covariances would have blocks "
        f"of size {math.prod(axis.sizes[DENSE] for axis in axes)}; the limit is {largest} (the blocks have size "
        f"{alone} without zeros). State zeros over fewer attributes, leave some out (intervals stay valid, and are "
        "wider), or raise largest_block.",
        code="zeros-not-kept",
    )


def _dense_sizes(schema: Schema, axes: Sequence[Axis]) -> str:
    pairs = zip(schema.attribute_names, axes, strict=True)
    return ", ".join(f"{axis.sizes[DENSE]} sets of '{name}'" for name, axis in pairs)


def _dim(axes: Sequence[Axis], kinds: Sequence[int]) -> int:
    return math.prod(axis.sizes[DENSE] for axis, kind in zip(axes, kinds, strict=True) if kind == DENSE)


def _basis(shape: tuple[int, ...], axes: Sequence[Axis], classes: Sequence[tuple[int, ...]]) -> Basis:
    dims = np.array([_dim(axes, kinds) for kinds in classes], np.int64)
    mults = np.array(
        [math.prod(a.sizes[k] for a, k in zip(axes, kinds, strict=True) if k != DENSE) for kinds in classes],
        np.int64,
    )
    order = [_cells_of_class(shape, axes, kinds) for kinds in classes]
    # Householder reflections: each turns the levels of an atom into their normalised sum and contrasts, in place.
    reflections = [
        (size, math.prod(shape[axis + 1 :]), levels)
        for axis, size in enumerate(shape)
        for levels in axes[axis].atoms
        if len(levels) > 1
    ]
    return Basis(
        axis_size=np.array([size for size, _, _ in reflections], np.int64),
        inner=np.array([inner for _, inner, _ in reflections], np.int64),
        begin=np.cumsum([0, *(len(levels) for _, _, levels in reflections)]).astype(np.int64),
        levels=np.array([level for _, _, levels in reflections for level in levels], np.int64),
        order=np.concatenate(order),
        dims=dims,
        mults=mults,
        coefficients=np.concatenate([[0], np.cumsum(dims * mults)]).astype(np.int64),
        blocks=np.concatenate([[0], np.cumsum(dims * dims)]).astype(np.int64),
    )


def _cells_of_class(shape: tuple[int, ...], axes: Sequence[Axis], kinds: Sequence[int]) -> Integers:
    """Positions of a class's coefficients. The row of the block varies slowest, then the copy of the block."""
    places = []
    for axis, kind in zip(axes, kinds, strict=True):
        # Coefficients are stored at the positions of levels; ranks say in which order a kind has them.
        levels = np.flatnonzero(axis.kinds == kind)
        places.append(levels[np.argsort(axis.ranks[levels])])
    cells = np.ravel_multi_index(np.ix_(*places), shape)
    dense = [axis for axis, kind in enumerate(kinds) if kind == DENSE]
    others = [axis for axis, kind in enumerate(kinds) if kind != DENSE]
    # Dense attributes first, so that a class is a matrix (row of the block, copy of the block).
    return cells.transpose(dense + others).ravel().astype(np.int64)


def information(algebra: BlockAlgebra, group: QueryGroup, *, normalised: bool = False) -> Floats:
    """Packed blocks, in one row, of Q'Q or of the projector Q'(QQ')^-1 Q on what the query determines."""
    factors = [
        factor_blocks(axis, factor, normalised=normalised)
        for axis, factor in zip(algebra.axes, group.factors, strict=True)
    ]
    packed = []
    for kinds in algebra.classes:
        block: Floats = np.ones((1, 1))
        for blocks, kind in zip(factors, kinds, strict=True):
            # Products in the order of attributes, which is that of `_cells_of_class`.
            block = np.asarray(np.kron(block, blocks[kind]), np.float64)
        packed.append(block.ravel())
    return np.concatenate(packed)


def zero_blocks(algebra: BlockAlgebra, zeros: NDArray[np.bool_]) -> Floats:
    """Packed diagonal projectors on the coefficients that zeros determine; shape (n_patterns, n_block_entries).

    Args:
        algebra: An algebra that was derived with these patterns, and possibly others.
        zeros: Shape (n_patterns, n_cells).
    """
    out = np.zeros((len(zeros), algebra.n_block_entries))
    for k, kinds in enumerate(algebra.classes):
        # Levels of one kind have the same zeros, because `derive_axis` has separated those that differ.
        levels = [axis.representative(kind) for axis, kind in zip(algebra.axes, kinds, strict=True)]
        cells = np.ravel_multi_index(np.ix_(*levels), algebra.schema.shape).ravel()
        dim = int(algebra.basis.dims[k])
        out[:, int(algebra.basis.blocks[k]) + np.arange(dim) * (dim + 1)] = zeros[:, cells]
    return out


def coefficients(algebra: BlockAlgebra, cells: Floats) -> Floats:
    """Rows of cells, shape (n, n_cells), transformed into the basis."""
    out = np.empty((len(cells), algebra.n_cells))
    for row, values in enumerate(np.array(cells, np.float64)):
        # In place, on the copy that np.array has made: the caller's cells stay.
        reflect(algebra.basis, values)
        out[row] = values[algebra.basis.order]
    return out


def gram(algebra: BlockAlgebra, rows: Floats, other: Floats) -> Floats:
    """Packed blocks g for which covariance(rows'x, other'y) is the sum of g times the blocks of Cov(x, y).

    Args:
        algebra: The algebra.
        rows: Coefficients of queries; shape (n, n_cells).
        other: Coefficients of the other queries, row by row.
    """
    basis = algebra.basis
    packed = []
    for k, dim in enumerate(basis.dims.tolist()):
        run = slice(int(basis.coefficients[k]), int(basis.coefficients[k + 1]))
        left, right = (array[:, run].reshape(len(array), dim, -1) for array in (rows, other))
        # Summed over the copies m of the block, since the covariance has the same block in all of them.
        packed.append(np.einsum("nim,njm->nij", left, right).reshape(len(rows), -1))
    return np.concatenate(packed, axis=1)
