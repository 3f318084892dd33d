"""The small matrix algebra that represents every covariance of a release.

Problem. Covariance matrices of all cells of a geounit (2,016 cells, for example) are too large to compute
with. But the information matrix of a set of product queries is a sum of Kronecker products with one factor
for each attribute.

*One attribute* (`Axis`). A query puts some levels into groups, asks for others one by one, and leaves others
out. An atom is a largest set of levels that every query either treats as a whole or asks for one by one. The
normalised sums over atoms are the *dense* part of the attribute. A contrast within an atom is a combination
of its levels with sum zero. Every query maps contrasts either to zero or to themselves. Worked case: an
attribute has four levels, and one query groups them as {1, 2} and {3, 4}. These two groups are the atoms.
Each has one contrast, and no query distinguishes the two contrasts, so they are of one kind.

*Blocks.* In the basis of `Axis`, each factor is block diagonal: a *dense* block, and multiples of identities
for each kind of contrast. So the Kronecker product is block diagonal too. There is one class of blocks for
each choice of *dense* or a kind of contrast for every attribute, and all blocks of a class are equal. Sums,
products and inverses keep this form. So the covariance of a geounit needs only a few hundred numbers. Blocks
are packed into a row of `n_block_entries` numbers, class after class, each a (dim, dim) matrix by rows.
Worked case: one attribute has the levels male and female. The total has precision p, and each level has
precision q. The basis is the normalised sum and the normalised difference. In it, the information is
diagonal: 2 p + q for the sum and q for the difference. The variances are 1 / (2 p + q) and 1 / q.

*Many geounits at once.* Two kinds of directions need care when blocks are inverted: those that are known
exactly, and those that nothing informs about. Both are represented by projectors. So decisions about ranks
never depend on the sizes of variances. Worked case: the block diag(4, 0) with the space diag(1, 0) has the
inverse diag(1/4, 0) on that space.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Floats, Integers
from tallyveil.errors import ConstraintError, SchemaError
from tallyveil.kernels.tree.sweep import Basis, reflect
from tallyveil.schema.query_group import Factor, QueryGroup
from tallyveil.schema.schema import Schema

# Marks of a level in a query, where it is in no group or a group by itself. Both are below 0, the least number of a
# group.
LEFT_OUT = -1  # in no group
ALONE = -2  # asked for by itself
# Number of the dense part among the kinds of an axis; contrasts are numbered from 1.
DENSE = 0


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """Atoms and contrasts of one attribute.

    Attributes:
        atoms: Levels of each atom, increasing. Atoms are sorted by their first level.
        contrasts: For each kind of contrast, its atoms. No query distinguishes contrasts of the same kind. The number
            of a kind is its position here plus one, because 0 denotes the dense part.
        kinds: Kind of the coefficient that is stored at each level's position; 0 at an atom's first level; shape
            (n_levels,).
        ranks: Number of that coefficient within its kind; shape (n_levels,).
    """

    atoms: tuple[tuple[int, ...], ...]
    contrasts: tuple[tuple[int, ...], ...]
    kinds: Integers
    ranks: Integers

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of coefficients of each kind: atoms first, then each kind of contrast."""
        within = (sum(len(self.atoms[atom]) - 1 for atom in kind) for kind in self.contrasts)
        return (len(self.atoms), *within)

    def representative(self, kind: int) -> Integers:
        """For each row of a kind's block, a level: the atoms' first levels, or a level of one atom of the kind."""
        if kind == DENSE:
            return np.array([levels[0] for levels in self.atoms], np.int64)
        return np.array([self.atoms[self.contrasts[kind - 1][0]][0]], np.int64)


def derive_axis(n_levels: int, factors: Sequence[Factor], labels: Integers) -> Axis:
    """Atoms of an attribute, by common refinement.

    Args:
        n_levels: Number of levels of the attribute.
        factors: The effect of each query on the attribute.
        labels: Levels with different labels are separated, because zeros distinguish them; shape (n_levels,).
    """
    # Two levels are in one atom exactly if every query and the zeros mark them alike.
    marks = [labels.astype(np.int64), *(_marks(factor) for factor in factors)]
    members: dict[tuple[int, ...], list[int]] = {}
    for level, key in enumerate(zip(*(mark.tolist() for mark in marks), strict=True)):
        members.setdefault(key, []).append(level)
    atoms = tuple(tuple(levels) for levels in members.values())
    alike: dict[tuple[int, ...], list[int]] = {}
    for atom, (key, levels) in enumerate(members.items()):
        if len(levels) > 1:
            # A query sees contrasts only where it asks level by level; into which group it sums them does not matter.
            met = (key[0], *(int(mark == ALONE) for mark in key[1:]))
            alike.setdefault(met, []).append(atom)
    contrasts = tuple(tuple(numbers) for numbers in alike.values())
    kinds, ranks = np.zeros(n_levels, np.int64), np.zeros(n_levels, np.int64)
    for atom, atom_levels in enumerate(atoms):
        ranks[atom_levels[0]] = atom
    for kind, numbers in enumerate(contrasts, start=1):
        places = [level for atom in numbers for level in atoms[atom][1:]]
        kinds[places] = kind
        ranks[places] = np.arange(len(places))
    return Axis(atoms, contrasts, kinds, ranks)


def _marks(factor: Factor) -> Integers:
    """The effect of a query on each level: its group, or that it is asked for alone, or that it is left out."""
    codes = factor.codes.astype(np.int64)
    sizes = _group_sizes(factor)
    # A group of one level is the level itself, so it does not hold the level together with others.
    return np.where(codes < 0, LEFT_OUT, np.where(sizes[codes] == 1, ALONE, codes))


def _group_sizes(factor: Factor) -> Integers:
    return np.bincount(factor.codes[factor.codes >= 0], minlength=factor.size)


def factor_blocks(axis: Axis, factor: Factor, *, normalised: bool = False) -> tuple[Floats, ...]:
    """F'F for each kind of the axis: a matrix over atoms, then 1 by 1 matrices.

    Args:
        axis: An axis that was derived from this factor, and possibly others.
        factor: The effect of a query on the attribute.
        normalised: Whether to give F'(FF')^-1 F instead, the projector on what the factor determines.
    """
    sizes = _group_sizes(factor)
    codes = np.array([factor.codes[levels[0]] for levels in axis.atoms], np.int64)
    # A sum over an atom is the root of its size times the normalised sum.
    roots = np.sqrt([len(levels) for levels in axis.atoms])
    alone = (codes >= 0) & (sizes[codes] == 1)
    grouped = (codes >= 0) & ~alone
    same = (codes[:, None] == codes[None, :]) & grouped[:, None] & grouped[None, :]
    dense = np.where(same, np.outer(roots, roots), 0.0)
    if normalised:
        # FF' is diagonal with the sizes of groups, so that its inverse divides each group by its own.
        dense = dense / np.where(grouped, sizes[codes], 1)[:, None]
    dense[alone, alone] = 1.0
    return (dense, *(np.array([[float(alone[kind[0]])]]) for kind in axis.contrasts))


def factor_rows(axis: Axis, factor: Factor) -> tuple[Floats, ...]:
    """The rows F for each kind of the axis, so that `factor_blocks` holds their F'F. A row of zeros is left out."""
    sizes = _group_sizes(factor)
    codes = np.array([factor.codes[levels[0]] for levels in axis.atoms], np.int64)
    roots = np.sqrt([len(levels) for levels in axis.atoms])
    alone = (codes >= 0) & (sizes[codes] == 1)
    groups = np.unique(codes[(codes >= 0) & ~alone])
    rows = np.where(codes[None, :] == groups[:, None], roots, 0.0)
    dense = np.concatenate([rows, np.eye(len(codes))[alone]])
    return (dense, *(np.ones((int(alone[kind[0]]), 1)) for kind in axis.contrasts))


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


def gram(algebra: BlockAlgebra, rows: Floats) -> Floats:
    """Packed blocks g for which the variance of rows'x is the sum of g times the blocks of Var(x).

    Args:
        algebra: The algebra.
        rows: Coefficients of weighted sums of cells; shape (n, n_cells).
    """
    basis = algebra.basis
    packed = []
    for k, dim in enumerate(basis.dims.tolist()):
        part = rows[:, int(basis.coefficients[k]) : int(basis.coefficients[k + 1])].reshape(
            len(rows), dim, -1
        )
        # Summed over the copies m of the block, since the covariance has the same block in all of them.
        packed.append(np.einsum("nim,njm->nij", part, part).reshape(len(rows), -1))
    return np.concatenate(packed, axis=1)


RANK_TOLERANCE = 1e-8
"""An eigenvalue of a sum of projectors below this is zero. Such sums depend on sizes of groups, not on variances."""

SPECK = 1e-12
"""Entries of projectors below this are rounding errors of zero."""


def times(algebra: BlockAlgebra, first: Floats, *others: Floats) -> Floats:
    """Products of packed blocks from left to right. A factor with one row is used for all geounits."""
    n = max(len(blocks) for blocks in (first, *others))
    out = np.empty((n, algebra.n_block_entries))
    # Part by part: all blocks of one size are multiplied in one call.
    for target, *factors in zip(
        algebra.views(out), *(algebra.views(blocks) for blocks in (first, *others)), strict=True
    ):
        product = factors[0]
        for factor in factors[1:]:
            product = product @ factor
        target[:] = product
    return out


def transposed(algebra: BlockAlgebra, blocks: Floats) -> Floats:
    """Each block transposed."""
    return _each(algebra, blocks, lambda view: np.swapaxes(view, -1, -2))


def symmetric(algebra: BlockAlgebra, blocks: Floats) -> Floats:
    """The symmetric part of each block, which removes asymmetry due to rounding."""
    return 0.5 * (blocks + transposed(algebra, blocks))


def inverse_within(algebra: BlockAlgebra, blocks: Floats, space: Floats) -> Floats:
    """The inverse of symmetric blocks on a space, and zero outside it.

    Args:
        algebra: The algebra.
        blocks: Packed blocks that are positive definite on the space and zero outside.
        space: Packed projectors on the space.
    """
    out = np.empty(np.broadcast_shapes(blocks.shape, space.shape))
    for target, view, inside in zip(
        algebra.views(out), algebra.views(blocks), algebra.views(space), strict=True
    ):
        eye = np.eye(view.shape[-1])
        rank = np.trace(inside, axis1=-2, axis2=-1)
        size = np.trace(view, axis1=-2, axis2=-1)
        # Traces of projectors are whole numbers: what is above a half is at least one direction.
        some = (rank > 0.5) & (size > 0)  # ranks are integers
        scale = np.where(some, size / np.maximum(rank, 1.0), 1.0)[..., None, None]
        # Directions outside the space get the mean size of those inside: these do not worsen the condition number, and
        # the inverse along them is known.
        filled = np.where(some[..., None, None], view + scale * (eye - inside), eye)
        inverse = np.linalg.inv(filled) - (eye - inside) / scale
        diagonal = np.einsum("...ii->...i", inside)
        outside = np.broadcast_to((diagonal == 0.0) | ~some[..., None], inverse.shape[:-1])
        # If a zero determines a coefficient outright, its row must be exactly zero and not merely small.
        inverse[outside] = 0.0
        np.swapaxes(inverse, -1, -2)[outside] = 0.0
        # An inverse of floats is symmetric up to rounding only, and errors would grow from geolevel to geolevel.
        target[:] = 0.5 * (inverse + np.swapaxes(inverse, -1, -2))
    return out


def null_projector(algebra: BlockAlgebra, blocks: Floats) -> Floats:
    """Projectors on the null spaces of positive semi-definite blocks that are built from projectors."""

    def project(view: Floats) -> Floats:
        values, vectors = np.linalg.eigh(view)
        # Sums of many projectors have large eigenvalues, whose rounding errors grow with them.
        top = np.maximum(values[..., -1:], 1.0)
        null = np.where(values <= RANK_TOLERANCE * top, 1.0, 0.0)
        projectors: Floats = (vectors * null[..., None, :]) @ np.swapaxes(vectors, -1, -2)
        return projectors

    return _each(algebra, blocks, project)


def pseudo_inverse(algebra: BlockAlgebra, blocks: Floats) -> Floats:
    """Moore-Penrose inverses of blocks built from projectors. Their scale is known, so the cutoff is absolute."""

    def invert(view: Floats) -> Floats:
        left, sizes, right = np.linalg.svd(view)
        nonzero = sizes > RANK_TOLERANCE
        inverse = np.where(nonzero, 1.0 / np.where(nonzero, sizes, 1.0), 0.0)
        inverses: Floats = (np.swapaxes(right, -1, -2) * inverse[..., None, :]) @ np.swapaxes(left, -1, -2)
        return inverses

    return _each(algebra, blocks, invert)


def snapped(blocks: Floats) -> Floats:
    """Projectors without the small rounding errors where they should be zero."""
    return np.where(np.abs(blocks) < SPECK, 0.0, blocks)


def is_diagonal(algebra: BlockAlgebra, blocks: Floats) -> bool:
    """Whether all blocks are diagonal."""
    return all(not np.any(view * (1.0 - np.eye(view.shape[-1]))) for view in algebra.views(blocks))


def _each(algebra: BlockAlgebra, blocks: Floats, work: Callable[[Floats], Floats]) -> Floats:
    out = np.empty(blocks.shape)
    for target, view in zip(algebra.views(out), algebra.views(blocks), strict=True):
        target[:] = work(view)
    return out
