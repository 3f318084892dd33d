"""The cells of an outer pass, and what queries do to them, attribute by attribute.

A pass counts the answers of one query, its cells. Every query that the pass determines is a product of factors on these
cells. So nothing here has a number for each cell: a schema may have many millions of them.
"""

from dataclasses import dataclass

import numpy as np

from tallyveil.arrays import Floats
from tallyveil.intervals.axis import DENSE, Axis, derive_axis, factor_rows
from tallyveil.universe.nested_queries import first_levels
from tallyveil.universe.query_group import Factor, QueryGroup

FLAT = 1e-12
"""An eigenvalue that is smaller than this, relative to the largest one, is a rounding error."""

Gram = tuple[Floats, ...]
"""For each attribute, F'F of some answers F on the groups of a pass's cells."""


def on_cells(group: QueryGroup, cells: QueryGroup) -> tuple[Factor, ...]:
    """A query that a pass determines as factors on the pass's cells, one for each attribute.

    Args:
        group: The query. Its groups do not overlap.
        cells: Query of the pass.
    """
    return tuple(
        Factor(factor.attribute, factor.name, (factor.codes[first_levels(own)],), factor.labels)
        for factor, own in zip(group.factors, cells.factors, strict=True)
    )


def axes_of(cells: QueryGroup, queries: list[tuple[Factor, ...]]) -> tuple[Axis, ...]:
    """The atoms of every attribute, which the given factors on a pass's cells treat alike."""
    return tuple(
        derive_axis(own.size, [query[place] for query in queries], np.zeros(own.size, np.int64))
        for place, own in enumerate(cells.factors)
    )


def gram_of(group: QueryGroup, cells: QueryGroup) -> Gram:
    """F'F of a query that a pass determines."""
    rows = (_incidence(factor) for factor in on_cells(group, cells))
    return tuple(row.T @ row for row in rows)


def spread_from(gram: Gram, groups: QueryGroup, cells: QueryGroup, above: QueryGroup) -> Gram:
    """F'F in the pass before: how answers move with its counts, if every count is spread evenly over its cells.

    Args:
        gram: F'F on the cells of a pass.
        groups: The groups of cells whose counts the pass before has fixed.
        cells: Query of the pass.
        above: Query of the pass before.
    """
    found = []
    for own, here, there in zip(gram, on_cells(groups, cells), on_cells(groups, above), strict=True):
        inside = _incidence(here)
        evenly = inside / inside.sum(axis=1)[:, None]
        outside = _incidence(there)
        found.append(outside.T @ (evenly @ own @ evenly.T) @ outside)
    return tuple(found)


@dataclass(frozen=True, slots=True, eq=False)
class BlockClass:
    """Blocks that are alike: for every attribute, the atoms or one kind of contrasts within them."""

    axes: tuple[Axis, ...]
    kinds: tuple[int, ...]

    @property
    def dim(self) -> int:
        """Size of the block."""
        sizes = (len(axis.atoms) for axis, kind in zip(self.axes, self.kinds, strict=True) if kind == DENSE)
        return int(np.prod([1, *sizes]))

    def rows(self, factors: tuple[Factor, ...]) -> Floats:
        """The rows F of a query in the block; shape (rows, dim). There are none where the query is blind."""
        found: Floats = np.ones((1, 1))
        for axis, kind, factor in zip(self.axes, self.kinds, factors, strict=True):
            found = np.kron(found, factor_rows(axis, factor)[kind]).astype(np.float64, copy=False)
        return found

    def roots(self, gram: Gram) -> Floats | None:
        """A matrix W, shape (dim, columns), so that W W' sums F'F over all blocks of the class; None if it is zero."""
        found: Floats = np.ones((1, 1))
        for axis, kind, own in zip(self.axes, self.kinds, gram, strict=True):
            part = _root(_on_atoms(axis, own)) if kind == DENSE else _within(axis, kind, own)
            if part.shape[1] == 0:
                return None
            found = np.kron(found, part).astype(np.float64, copy=False)
        return found


def _incidence(factor: Factor) -> Floats:
    """F: 1 where a level belongs to a group; shape (groups, levels)."""
    found: Floats = (np.arange(factor.size)[:, None] == factor.codes[None, :]).astype(np.float64)
    return found


def _on_atoms(axis: Axis, own: Floats) -> Floats:
    """F'F in the normalised sums over atoms."""
    sums = np.array([own[:, levels].sum(axis=1) for levels in axis.atoms])
    both = np.array([sums[:, levels].sum(axis=1) for levels in axis.atoms])
    roots = np.sqrt([len(levels) for levels in axis.atoms])
    found: Floats = both / np.outer(roots, roots)
    return found


def _within(axis: Axis, kind: int, own: Floats) -> Floats:
    """The root of F'F, summed over all contrasts of a kind; shape (1, 1), or (1, 0) for none."""
    summed = 0.0
    for atom in axis.contrasts[kind - 1]:
        levels = np.array(axis.atoms[atom])
        block = own[np.ix_(levels, levels)]
        summed += float(np.trace(block)) - float(block.sum()) / len(levels)
    return np.full(
        (1, 1 if summed > FLAT * max(float(np.trace(own)), 1e-300) else 0), np.sqrt(max(summed, 0.0))
    )


def _root(gram: Floats) -> Floats:
    """A matrix W with W W' equal to a positive semidefinite matrix, and as few columns as its rank."""
    sizes, vectors = np.linalg.eigh(gram)
    kept = sizes > FLAT * max(float(sizes[-1]), 1e-300)
    found: Floats = vectors[:, kept] * np.sqrt(sizes[kept])
    return found
