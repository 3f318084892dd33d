"""The smallest distance between different tables with the same invariants, and whom a distance therefore protects.

A guarantee at a distance is about pairs of tables that agree on the invariants and are at most that far apart. It can
promise less than it seems to, for two reasons. First, the declared distance can be below what one record moves under
the neighbour relation. The guarantee then leaves out the change of one record, and understates its cost. Second, the
invariants can forbid every change of one record. Then the nearest pairs differ by several records, and there is no pair
below their distance. This module finds the distance of the nearest pairs, refuses distances that protect nobody, and
says what the other distances protect.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tallyveil.accounting.neighbours import Neighbours
from tallyveil.errors import BudgetError
from tallyveil.subspace.lattice import Lattice
from tallyveil.subspace.mechanisms import GeneralisedGaussian, LatticeLaw, Norm, size_at
from tallyveil.subspace.structure import StructureKind

CODE = "subspace-distance"


@dataclass(frozen=True, slots=True)
class NearestTables:
    """The nearest two different tables with the same invariants, by the size that a law measures.

    Attributes:
        at_least: Lower bound on the l1 norm, and on the squared l2 norm, of every nonzero lattice vector.
        smallest: Size of the smallest known lattice vector: its l1 norm or squared l2 norm, whichever the law measures.
        one_record: Whether some change of one record leaves the invariants unchanged.
    """

    at_least: int
    smallest: int
    one_record: bool


def nearest_tables(lattice: Lattice, law: LatticeLaw, neighbours: Neighbours) -> NearestTables:
    """How near two different tables can be, and whether such a pair can be neighbours.

    Adding or removing a record changes one cell, which must be free of constraints. A record that changes its cell
    takes one from a cell and adds one to another. The columns of these two cells in the constraints must be equal.
    """
    structure, columns = lattice.structure, abs(lattice.sparse_basis)
    alike = structure.free.size > 1 or any(block.size > 1 for block in structure.blocks)
    sizes = columns.multiply(columns) if law.squares else columns
    return NearestTables(
        least_size(lattice),
        int(np.asarray(sizes.sum(axis=0)).min()),
        alike if neighbours is Neighbours.BOUNDED else bool(structure.free.size),
    )


def least_size(lattice: Lattice) -> int:
    """A lower bound on the l1 norm, and therefore on the squared l2 norm, of every lattice vector except zero.

    A vector of norm 1 changes one cell by one. It keeps the invariants only if none of them names the cell. If there is
    no such cell, a vector of norm 2 changes two cells by one each, and their columns in the constraints are equal or
    opposite. If every vector of the basis has an even sum, every lattice vector has an even sum, and so an even norm.
    The squared l2 norm of an integer vector is never below its l1 norm.
    """
    structure = lattice.structure
    if structure.free.size:
        return 1
    # A change of one cell needs another in its row, and both need another in their columns: four cells.
    if structure.kind is StructureKind.TWO_WAY:
        return 4
    seen = {column.tobytes() for column in structure.columns.T}
    opposite = any((-column).tobytes() in seen for column in structure.columns.T)
    if opposite or any(block.size > 1 for block in structure.blocks):
        return 2
    # The l1 norm has the parity of the sum, so without odd sums there is no vector of norm 3.
    odd = (np.asarray(lattice.sparse_basis.sum(axis=0)) % 2).any()
    return 3 if odd else 4


def least_distance(lattice: Lattice, norm: Norm) -> float:
    """A lower bound on the distance of two different tables that agree on the invariants."""
    size = least_size(lattice)
    # It is a lower bound, so the root is rounded down by more than its error.
    return float(size) if norm is Norm.L1 or size == 1 else math.sqrt(size) * (1 - 1e-15)


def require_record(law: LatticeLaw, distance: Fraction, neighbours: Neighbours) -> None:
    """Refuse a distance smaller than the distance of two neighbours.

    Args:
        law: Law of the noise.
        distance: Distance of the protected pairs, in the law's norm; squared for the Gaussian.
        neighbours: The relation under which the budget is declared.
    Raises:
        BudgetError: two neighbours are farther apart.
    """
    moved = neighbours.answers_moved
    if size_at(law, distance) < moved:
        act = "changes its cell" if neighbours is Neighbours.BOUNDED else "is added or removed"
        raise BudgetError(
            f"the distance is {distance}, but under {neighbours.value} neighbours a record that {act} moves the "
            f"table by {_in_words(law, moved)}. At a smaller distance the declared budget would be lower than the "
            f"privacy loss of one record. Wanted {_in_words(law, moved)} or more; nothing was read.",
            code=CODE,
        )


def require_pairs(lattice: Lattice, law: LatticeLaw, distance: Fraction) -> None:
    """Refuse a distance at which no two tables agree on the invariants, so that nobody would be protected.

    Raises:
        BudgetError: every two tables that agree are farther apart.
    """
    least = least_size(lattice)
    if size_at(law, distance) < least:
        raise BudgetError(
            f"the distance is {distance}, but two different tables that agree on the invariants are at least "
            f"{_in_words(law, least)} apart: the guarantee would protect nobody. Wanted {_in_words(law, least)} or "
            "more, or fewer invariants; nothing was read.",
            code=CODE,
        )


def protected(nearest: NearestTables, law: LatticeLaw, distance: Fraction, neighbours: Neighbours) -> str:
    """Whom the guarantee protects, in sentences.

    Args:
        nearest: The nearest tables for the lattice and the law.
        law: Law of the noise.
        distance: Distance of the protected pairs, in the law's norm; squared for the Gaussian.
        neighbours: The relation under which the budget is declared.
    """
    if nearest.one_record:
        return (
            "The guarantee covers the change of one record wherever that leaves the invariants as they are."
        )
    # Rounded up, and never one: that case has returned above.
    records = max(2, -(-nearest.at_least // neighbours.answers_moved))
    said = (
        "The guarantee is not about one record: no change of one record moves these counts and leaves the invariants "
        f"as they are. The nearest tables that agree on them are at least {_in_words(law, nearest.at_least)} apart, "
        f"which takes {records} records or more together."
    )
    if nearest.at_least > size_at(law, distance):
        said += " None are within the distance stated, so by itself this noise protects nobody."
    elif nearest.smallest > size_at(law, distance):
        said += (
            f" The nearest known are {_in_words(law, nearest.smallest)} apart, beyond the distance stated; whether any "
            "lie within it is not known."
        )
    return said


def _in_words(law: LatticeLaw, size: int) -> str:
    if isinstance(law, GeneralisedGaussian):
        return f"squared l2 distance {size}"
    return f"l2 distance sqrt({size})" if law.takes_root and size > 1 else f"{law.norm.value} distance {size}"
