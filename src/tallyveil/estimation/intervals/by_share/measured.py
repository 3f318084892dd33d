"""What shares of a budget tell about geounits, and mean variances of answers, with their derivatives.

Mean variances are over geolevels and families of entities. Matrices carry their derivatives along several
directions (`Dual`).

The information of a geounit's own measurements is a sum of one matrix for each query, times the query's
share. In the basis of the covariance algebra, these matrices are block diagonal with classes of equal blocks.
Classes in which all queries have the same blocks are treated as one. Within a class, the blocks of all
queries span few directions: derivatives are needed along these directions only, however many shares there
are.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import NamedTuple, Protocol

import numpy as np
from scipy import sparse

from tallyveil.arrays import Floats, Integers
from tallyveil.budget.optimal.solve import Evaluated
from tallyveil.budget.strategy import Strategy
from tallyveil.estimation.intervals.algebra import (
    BlockAlgebra,
    derive_algebra,
    information,
    null_projector,
    times,
)
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema


@dataclass(frozen=True, slots=True, eq=False)
class Dual:
    """Square matrices, and how each changes along some directions.

    Every operation below applies the rule of its derivative, so that a formula written once gives both.

    Attributes:
        value: Shape (n, classes, dim, dim).
        slope: Derivatives; shape (n, directions, classes, dim, dim).
    """

    value: Floats
    slope: Floats

    def __add__(self, other: "Dual") -> "Dual":
        return Dual(self.value + other.value, self.slope + other.slope)

    def __sub__(self, other: "Dual") -> "Dual":
        return Dual(self.value - other.value, self.slope - other.slope)

    def __matmul__(self, other: "Dual") -> "Dual":
        # (X Y)' = X' Y + X Y'.
        slope = _product(self.slope, other.value[:, None]) + _product(self.value[:, None], other.slope)
        return Dual(_product(self.value, other.value), slope)

    @property
    def transposed(self) -> "Dual":
        """Every matrix transposed."""
        return Dual(np.swapaxes(self.value, -1, -2), np.swapaxes(self.slope, -1, -2))

    def around(self, inner: "Dual") -> "Dual":
        """The products X Y X' of these matrices X and symmetric inner ones Y."""
        half = _product(self.value, inner.value)
        outer = np.swapaxes(self.value, -1, -2)
        # (X Y X')' has two mirrored terms, since Y is symmetric; only one of them is computed.
        one_side = _product(half[:, None], np.swapaxes(self.slope, -1, -2))
        slope = one_side + np.swapaxes(one_side, -1, -2)
        slope += _product(_product(self.value[:, None], inner.slope), outer[:, None])
        return Dual(_product(half, outer), slope)

    def inverse(self) -> "Dual":
        """The inverses of symmetric matrices."""
        # For single numbers, the inverse of numpy is slower than a division.
        raw = 1.0 / self.value if self.value.shape[-1] == 1 else np.linalg.inv(self.value)
        inverse: Floats = np.asarray(0.5 * (raw + np.swapaxes(raw, -1, -2)), np.float64)
        # (X^-1)' = -X^-1 X' X^-1.
        slope = _product(_product(inverse[:, None], self.slope), inverse[:, None])
        return Dual(inverse, -slope)

    def rows(self, chosen: Integers) -> "Dual":
        """Some of the matrices, in the given order."""
        return Dual(self.value[chosen], self.slope[chosen])

    def scaled(self, factors: Floats) -> "Dual":
        """Every matrix times its factor. A single matrix is taken for every factor."""
        return Dual(
            self.value * factors[:, None, None, None], self.slope * factors[:, None, None, None, None]
        )

    def combined(self, weights: sparse.csr_matrix) -> "Dual":
        """Weighted sums of the matrices, one for each row of weights."""

        def sums(array: Floats) -> Floats:
            weighted: Floats = (weights @ array.reshape(len(array), -1)).reshape(-1, *array.shape[1:])
            return weighted

        return Dual(sums(self.value), sums(self.slope))

    def total(self) -> "Dual":
        """The sum of all matrices, as one."""
        return Dual(self.value.sum(axis=0, keepdims=True), self.slope.sum(axis=0, keepdims=True))


def _product(left: Floats, right: Floats) -> Floats:
    # For single numbers, the matrix product of numpy is many times slower than multiplication.
    product: Floats = left * right if left.shape[-1] == 1 else left @ right
    return product


KNOWN = 1e7
"""An exact answer counts as a measurement with this many times the precision that the whole budget buys."""
UNKNOWN = 1e-7
"""Where nothing may inform about a direction, all directions get this many times the precision that the whole budget
buys. So precision matrices can be inverted."""
FLAT = 1e-9
"""Directions that are smaller than this, relative to the largest one, are rounding errors."""

Passes = Mapping[str, Sequence[Sequence[str]]]


@dataclass(frozen=True, slots=True, eq=False)
class BlockPart:
    """The blocks of one size.

    Attributes:
        directions: A basis of the blocks of all queries, for each class; shape (classes, directions, dim, dim).
        weights: The block of each share in that basis; shape (shares, classes, directions).
        fixed: For each geolevel, precision that no share pays for; shape (geolevels, classes, dim, dim).
        exact: For each geolevel, precision of what is published exactly; shape (geolevels, classes, dim, dim).
        faint: For each geolevel, the least precision; shape (geolevels, 1, dim, dim).
    """

    directions: Floats
    weights: Floats
    fixed: Floats
    exact: Floats
    faint: Floats


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredQueries:
    """All shares of a strategy, as blocks.

    Attributes:
        names: Geolevel and query of each share.
        level: Position of the geolevel of each share; shape (shares,).
        n_levels: Number of geolevels of the spine.
        parts: The blocks by size.
    """

    algebra: BlockAlgebra
    names: tuple[tuple[str, str], ...]
    level: Integers
    n_levels: int
    parts: tuple[BlockPart, ...]
    _merged: tuple[tuple[int, Integers], ...]

    def information(self, part: int, run: slice, shares: Floats, known: float, unknown: float) -> list[Dual]:
        """The information of one geounit of each geolevel, in some of the blocks of one part.

        It carries derivatives along the directions of every geolevel, those of the root first.

        Args:
            part: Number of the part.
            run: Classes.
            shares: Shape (shares,).
            known: Factor on the precision of exact answers.
            unknown: Factor on the least precision.
        """
        blocks = self.parts[part]
        directions = blocks.directions[run]
        classes, rank, dim, _ = directions.shape
        geolevels = []
        for level in range(self.n_levels):
            here = self.level == level
            inside = np.tensordot(shares[here], blocks.weights[here][:, run], 1)
            value = np.einsum("cr,crij->cij", inside, directions)
            value = (
                value
                + blocks.fixed[level][run]
                + known * blocks.exact[level][run]
                + unknown * blocks.faint[level]
            )
            slope = np.zeros((self.n_levels, rank, classes, dim, dim))
            # The information of a geolevel moves along its own directions only.
            slope[level] = np.swapaxes(directions, 0, 1)
            geolevels.append(Dual(value[None], slope.reshape(1, -1, classes, dim, dim)))
        return geolevels

    def grams(self, query: QueryGroup) -> list[Floats]:
        """For each part, blocks whose product with those of a covariance sums to the mean variance of the answers."""
        basis = self.algebra.basis
        copies = np.repeat(basis.mults, basis.dims**2)  # the answers of a query see every copy of a block
        mean = copies * _information(self.algebra, query) / query.size
        return [
            _merge(view[0], number, count)
            for view, (count, number) in zip(self.algebra.views(mean[None]), self._merged, strict=True)
        ]


def measured_queries(
    schema: Schema,
    strategy: Strategy,
    geolevels: Sequence[str],
    *,
    exact: Mapping[str, Sequence[str]],
    drawn: Mapping[str, Sequence[tuple[QueryGroup, float]]],
    asked: Sequence[str],
    passes: Passes | None = None,
) -> MeasuredQueries:
    """The blocks of everything that a strategy measures.

    Args:
        schema: The universe. Its structural zeros are not used.
        strategy: Gaussian. Its total is kept and its shares are to be varied.
        geolevels: Geolevels of the spine, root first.
        exact: For each geolevel, queries published exactly.
        drawn: For each geolevel, measurements whose cost is not part of the strategy, with their variance.
        asked: Queries whose variances will be asked for.
        passes: For each geolevel, the queries of each pass, if a geolevel is estimated by itself. A query then tells
            nothing about what an earlier pass determines. None if all queries are used at once.
    Raises:
        SchemaError: the blocks would be too large.
    """
    names = tuple((level, query) for level in strategy.geolevels for query in strategy.queries(level))
    wanted = {
        *(query for _, query in names),
        *(name for queries in exact.values() for name in queries),
        *asked,
    }
    groups = {name: schema.query(name) for name in sorted(wanted)}
    algebra = derive_algebra(
        schema, [*groups.values(), *(group for measurements in drawn.values() for group, _ in measurements)]
    )
    # Blocks do not depend on shares: they are made once, and evaluations only weight them.
    blocks = _Blocks(algebra, groups)
    # Precision that the whole budget would buy for each query: 1 / variance.
    unit = [2.0 * float(strategy.total) / strategy.squared_distance(query) for _, query in names]
    packed = np.array(
        [precision * blocks.of(*name, passes) for precision, name in zip(unit, names, strict=True)]
    )
    zero = np.zeros(algebra.n_block_entries)
    fixed = [
        sum((_information(algebra, group) / v for group, v in drawn.get(name, ())), zero)
        for name in geolevels
    ]
    known = [sum((blocks.projector([query]) for query in exact.get(name, ())), zero) for name in geolevels]
    faint = np.full(len(geolevels), UNKNOWN * max(unit))
    if passes is None:
        faint[:-1] = 0.0  # what lies below informs about these geolevels
    views = [algebra.views(array) for array in (packed, np.array(fixed), np.array(known) * KNOWN * max(unit))]
    parts = [_part(paid, still, sure, faint) for paid, still, sure in zip(*views, strict=True)]
    level = np.array([list(geolevels).index(name) for name, _ in names], np.int64)
    merged = tuple((len(part.directions), number) for part, number in parts)
    return MeasuredQueries(algebra, names, level, len(geolevels), tuple(part for part, _ in parts), merged)


@dataclass(frozen=True, slots=True, eq=False)
class _Blocks:
    """The blocks of queries by name."""

    algebra: BlockAlgebra
    groups: Mapping[str, QueryGroup]

    def of(self, geolevel: str, query: str, passes: Passes | None) -> Floats:
        """Information of a query, without what earlier passes determine."""
        blocks = _information(self.algebra, self.groups[query])
        earlier: list[str] = []
        for names in (passes or {}).get(geolevel, ()):
            if query in names:
                break
            earlier += names
        if not earlier:
            return blocks
        # Projected from both sides, so that the information stays symmetric and has no part in what is fixed.
        rest = self.algebra.identity(1) - self.projector(earlier)[None]
        remaining: Floats = times(self.algebra, rest, blocks[None], rest)[0]
        return remaining

    def projector(self, queries: Sequence[str]) -> Floats:
        """The projector on everything that some queries determine together."""
        summed = np.zeros(self.algebra.n_block_entries)
        for layer in chain(*(self.groups[query].layers for query in queries)):
            summed += information(self.algebra, layer, normalised=True)
        projector: Floats = self.algebra.identity(1)[0] - null_projector(self.algebra, summed[None])[0]
        return projector


def _information(algebra: BlockAlgebra, group: QueryGroup) -> Floats:
    """Blocks of the information of all layers of a query group, whose groups may overlap."""
    blocks = np.zeros(algebra.n_block_entries)
    for layer in group.layers:
        blocks += information(algebra, layer)
    return blocks


def _part(paid: Floats, fixed: Floats, known: Floats, faint: Floats) -> tuple[BlockPart, Integers]:
    """The part of blocks of one size, and for each class the number of the class that it is merged into."""
    count, dim = paid.shape[1], paid.shape[2]
    together = np.concatenate([paid, fixed, known])
    # A row for each class, with everything that could tell it from another.
    flat = np.swapaxes(together, 0, 1).reshape(count, -1)
    # Entry by entry, because precisions and exact answers differ by many powers of ten. 1e-300 guards columns of zeros.
    scale = np.maximum(np.abs(flat).max(axis=0), 1e-300)
    # Nine digits: classes that differ by rounding errors are one.
    _, first, number = np.unique(np.round(flat / scale, 9), axis=0, return_index=True, return_inverse=True)
    paid, fixed, known = paid[:, first], fixed[:, first], known[:, first]
    directions, weights = _basis_of(paid)
    least = faint[:, None, None, None] * np.eye(dim)
    return BlockPart(directions, weights, fixed, known, least), number.reshape(-1).astype(np.int64)


def _basis_of(blocks: Floats) -> tuple[Floats, Floats]:
    """For each class, an orthonormal basis of the blocks of all shares, and the blocks in this basis."""
    n, classes, dim, _ = blocks.shape
    rows = np.swapaxes(blocks, 0, 1).reshape(classes, n, dim * dim)
    left, sizes, right = np.linalg.svd(rows, full_matrices=False)
    # One rank for all classes of the part, the largest, so that arrays are rectangular.
    rank = max(1, int((sizes > FLAT * sizes.max()).sum(axis=1).max()))
    weights = left[:, :, :rank] * sizes[:, None, :rank]
    return right[:, :rank].reshape(classes, rank, dim, dim), np.swapaxes(weights, 0, 1)


def _merge(blocks: Floats, number: Integers, count: int) -> Floats:
    summed = np.zeros((count, *blocks.shape[1:]))
    # Gram blocks of merged classes add up, since their covariances are equal.
    np.add.at(summed, number, blocks)
    return summed


class AskedVariance(NamedTuple):
    """One mean variance: of a query's answers, over a geolevel (its position) or a family of entities (its name)."""

    area: int | str
    query: str


class ByShare(Protocol):
    """Mean variances of what is asked, as functions of the shares."""

    def at(self, shares: Floats, *, known: float = 1.0, unknown: float = 1.0) -> Evaluated:
        """The variances at some shares; see `VariancesByShare.at`."""
        ...


@dataclass(frozen=True, eq=False)
class Added:
    """Variances that are sums of independent terms.

    Attributes:
        terms: The terms, for the same shares and what is asked.
    """

    terms: Sequence[ByShare]

    def at(self, shares: Floats, *, known: float = 1.0, unknown: float = 1.0) -> Evaluated:
        """The variances at some shares; see `VariancesByShare.at`."""
        evaluated = [term.at(shares, known=known, unknown=unknown) for term in self.terms]
        return Evaluated(
            np.sum([term.values for term in evaluated], axis=0),
            np.sum([term.slopes for term in evaluated], axis=0),
        )


AT_ONCE = 1 << 21
"""Numbers in the derivatives of the covariances of one geolevel, about. Classes of blocks are worked on one run after
the other, so that a nation with tens of thousands of kinds of tracts needs no more memory than one class does."""


class Estimator(Protocol):
    """How estimates are made from measurements.

    Attributes:
        n_matrices: Largest number of covariance matrices of one geolevel.
    """

    @property
    def n_matrices(self) -> int: ...

    def means(self, information: list[Dual], areas: Iterable[int | str]) -> dict[int | str, Dual]:
        """The mean covariance of every area, from the precision of one geounit of each geolevel."""


@dataclass(frozen=True, eq=False)
class VariancesByShare:
    """Mean variances of what is asked, for any shares.

    Attributes:
        queries: What is measured.
        estimator: How estimates are made.
        asked: What is asked.
    """

    queries: MeasuredQueries
    estimator: Estimator
    asked: Sequence[AskedVariance]

    def at(self, shares: Floats, *, known: float = 1.0, unknown: float = 1.0) -> Evaluated:
        """The variances at some shares.

        Args:
            shares: Above 0; shape (shares,).
            known: Factor on the precision of exact answers.
            unknown: Factor on the least precision of directions that nothing may inform about.
        """
        # Areas once each, in the order asked: several queries share their covariances.
        n_levels, areas = self.queries.n_levels, dict.fromkeys(area for area, _ in self.asked)
        values = np.zeros(len(self.asked))
        slopes = np.zeros((len(self.asked), len(shares)))
        # Parts and runs of classes are independent: variances and slopes add up.
        for number, (part, grams) in enumerate(zip(self.queries.parts, self._grams, strict=True)):
            for run in self._runs(part):
                information = self.queries.information(number, run, shares, known, unknown)
                means = self.estimator.means(information, areas)
                weights, rank = part.weights[:, run], part.directions.shape[1]
                for place, (area, _) in enumerate(self.asked):
                    mean, gram = means[area], grams[place][run]
                    values[place] += float(np.sum(mean.value[0] * gram))
                    slope = np.einsum("tcij,cij->tc", mean.slope[0], gram)
                    # Derivatives along directions; the chain rule turns them into derivatives by shares.
                    along = slope.reshape(n_levels, rank, len(gram))[self.queries.level]
                    slopes[place] += np.einsum("scr,src->s", weights, along)
        return Evaluated(values, slopes)

    def _runs(self, part: BlockPart) -> list[slice]:
        """Runs of classes whose matrices need little memory together."""
        classes, rank, dim, _ = part.directions.shape
        each = self.estimator.n_matrices * self.queries.n_levels * rank * dim * dim
        # At least one class, even if it alone needs more.
        length = max(1, AT_ONCE // each)
        return [slice(start, start + length) for start in range(0, classes, length)]

    @cached_property
    def _grams(self) -> list[list[Floats]]:
        """For each part, the Gram blocks of everything asked."""
        schema = self.queries.algebra.schema
        by_query = {query: self.queries.grams(schema.query(query)) for _, query in self.asked}
        return [[by_query[query][part] for _, query in self.asked] for part in range(len(self.queries.parts))]
