"""The lattice of all changes to a table that leave its invariants unchanged.

Source: Dharangutte, Gao, Gong, Yu 2022, Proposition 8.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
from flint import fmpq_mat, fmpz_mat

from tallyveil.errors import ConstraintError
from tallyveil.subspace.constraints import ConstraintSystem, checked_cells
from tallyveil.subspace.kernel import (
    PivotColumns,
    flint_matrix,
    general_basis,
    pivot_columns,
    smith_basis,
    structured_basis,
)
from tallyveil.subspace.reduction import lll_reduced
from tallyveil.subspace.smith import elementary_divisors, independent_columns
from tallyveil.subspace.structure import Structure, recognise

BasisKind = Literal["auto", "general", "smith", "reduced"]

LARGEST_CHECKED: Final = 400
"""Largest number of cells for which `check_lattice` tests by the Smith form that the basis spans all solutions."""


@dataclass(frozen=True, slots=True, eq=False)
class Lattice:
    """The integer vectors z with A z = 0. Made by `lattice_of`.

    Attributes:
        system: The constraints as given.
        independent: Independent rows of them, with the same lattice.
        structure: The recognised structure.
        sparse_basis: int64 [n_cells, dimension], in compressed columns: a basis over the integers.
        basis_kind: How the basis was made.
        notes: Remarks for a reader, such as rows that follow from the others.
    """

    system: ConstraintSystem
    independent: ConstraintSystem
    structure: Structure
    sparse_basis: Any
    basis_kind: str
    notes: tuple[str, ...]

    @property
    def n_cells(self) -> int:
        """Number of cells of the table, d."""
        return self.system.n_cells

    @property
    def dimension(self) -> int:
        """Number of vectors in a basis: d - k for k independent constraints."""
        return int(self.sparse_basis.shape[1])

    @property
    def basis(self) -> npt.NDArray[np.int64]:
        """int64 [n_cells, dimension], the basis as a dense read-only array with one vector in each column."""
        dense = np.asarray(self.sparse_basis.toarray(), dtype=np.int64)
        dense.setflags(write=False)
        return dense

    def contains(self, vector: npt.ArrayLike) -> bool:
        """Whether a vector of integers lies in the lattice.

        Raises:
            ConstraintError: the vector has another number of cells, or is not of integers.
        """
        return not self.system.totals(vector).any()

    def determinant_squared(self) -> int:
        """The squared volume of a fundamental cell of the lattice: det(C^T C) for any basis C.

        It is computed from the constraints, which are few: det(A A^T) divided by the square of the greatest common
        divisor of the maximal minors of A (independent rows).

        Source: McMullen 1984, "Determinants of lattices induced by rational subspaces".
        """
        if self.independent.n_constraints == 0:
            return 1
        heads = [int(block[0]) for block in self.structure.blocks]
        columns = np.asarray(self.independent.matrix[:, heads].toarray(), dtype=np.int64)
        matrix = flint_matrix(columns)
        index = math.prod(elementary_divisors(matrix))
        sizes = [int(block.size) for block in self.structure.blocks]
        weighted = [[int(value) * n for value, n in zip(row, sizes, strict=True)] for row in columns.tolist()]
        gram = fmpz_mat(weighted) * matrix.transpose()
        return int(gram.det()) // index**2


@dataclass(frozen=True, slots=True)
class NoIntegerSolution:
    """A proof that no integers satisfy A x = b.

    Attributes:
        multipliers: One for each constraint. The combination of the rows with these multipliers has integer
            coefficients at every cell, but its total is not an integer. Or it has only zero coefficients, but its total
            is not zero.
        total: That total.

    Source: Schrijver 1998, Corollary 4.1a.
    """

    multipliers: tuple[Fraction, ...]
    total: Fraction


def lattice_of(system: ConstraintSystem, basis: BasisKind = "auto") -> Lattice:
    """The lattice of a constraint system.

    Args:
        system: The constraints. Rows that follow from others are left out, with a note.
        basis: "auto" uses the closed form if the structure has one, and otherwise the general basis, shortened by LLL
            if it is small enough. "general" uses the Hermite form for any structure. "smith" gives the paper's basis
            (small systems only). "reduced" applies LLL to any basis that is small enough.
    Raises:
        ConstraintError: the constraints determine every cell, so no noise is possible.
    """
    structure = recognise(system)
    independent, notes = _independent(system, structure)
    if system.n_cells == independent.n_constraints:
        raise ConstraintError(
            f"Constraints: there are {independent.n_constraints} independent constraints on {system.n_cells} cells, "
            "so the invariants determine the table and nothing is left to protect. Leave invariants out, or publish "
            "the table as it is, knowing that it is exact.",
            code="subspace-nothing-left",
        )
    columns, kind = _basis(system, structure, basis)
    return Lattice(system, independent, structure, columns, kind, notes)


def particular_solution(
    system: ConstraintSystem, totals: npt.ArrayLike
) -> npt.NDArray[np.int64] | NoIntegerSolution:
    """Some integers x with A x = b, a representative of the coset; or a proof that there are none.

    Args:
        system: A.
        totals: b, [n_constraints] integers.
    Returns:
        int64 [n_cells], possibly negative; or the proof.
    Raises:
        ConstraintError: b has another length, or a solution does not fit into 64 bits.
    """
    wanted = checked_cells(totals, system.n_constraints, "totals").reshape(-1, 1)
    structure = recognise(system)
    pivots = pivot_columns(structure.columns)
    rows = list(pivots.rows)
    coordinates = pivots.coordinates(flint_matrix(wanted[rows])) if rows else fmpq_mat(0, 1)
    for i in range(len(rows)):
        if coordinates[i, 0].q != 1:
            return _fractional_proof(system, pivots, i, wanted)
    solution = _on_cells(system, structure, pivots, coordinates)
    gap = np.flatnonzero(_exact_totals(system, solution) != wanted[:, 0].astype(object))
    if gap.size:
        return _dependence_proof(system, pivots, int(gap[0]), wanted)
    if any(abs(int(v)) >= 1 << 62 for v in solution):
        raise ConstraintError(
            "Particular solution: an entry does not fit 64 bits. Use smaller totals or smaller coefficients.",
            code="subspace-constraints",
        )
    return solution.astype(np.int64)


def require_totals(system: ConstraintSystem, totals: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """`particular_solution`, but the absence of a solution is an error.

    Raises:
        ConstraintError: no table of integers has these totals. The message names the rows that contradict each other.
    """
    solution = particular_solution(system, totals)
    if isinstance(solution, NoIntegerSolution):
        involved = [name for name, m in zip(system.names, solution.multipliers, strict=True) if m != 0]
        raise ConstraintError(
            f"Constraints {', '.join(repr(name) for name in involved[:8])}: no table of integers has these totals. "
            "The combination of the constraints with multipliers "
            f"{', '.join(str(m) for m in solution.multipliers if m)[:200]} has integer coefficients, but the same "
            "combination of the totals is not an integer. Check the totals of these constraints.",
            code="subspace-inconsistent",
        )
    return solution


def check_lattice(lattice: Lattice) -> tuple[str, ...]:
    """Proposition 8 as a test: what is wrong with a lattice's basis; empty if it is correct.

    The checks are exact: A C = 0; the dimension is the number of cells minus the rank of A; and C spans all integer
    solutions, that is, all elementary divisors of C are 1 (only for up to 400 cells).
    """
    wrong = []
    if (lattice.system.matrix @ lattice.sparse_basis).count_nonzero():
        wrong.append("A C is not zero")
    rank = len(independent_columns(flint_matrix(lattice.structure.columns)))
    if lattice.dimension != lattice.n_cells - rank:
        wrong.append(f"dimension {lattice.dimension}, wanted {lattice.n_cells - rank}")
    if lattice.n_cells <= LARGEST_CHECKED and not wrong:
        divisors = elementary_divisors(flint_matrix(lattice.basis))
        if len(divisors) != lattice.dimension or any(divisor != 1 for divisor in divisors):
            wrong.append(f"C does not span the kernel over the integers: elementary divisors {divisors[-3:]}")
    return tuple(wrong)


def _basis(system: ConstraintSystem, structure: Structure, wanted: BasisKind) -> tuple[Any, str]:
    if wanted == "smith":
        return smith_basis(system), "Smith form"
    if wanted == "general":
        return general_basis(structure, system.n_cells), "Hermite form"
    closed = structured_basis(structure, system.n_cells)
    if closed is not None and wanted == "auto":
        return closed, f"closed form ({structure.kind.value})"
    start = closed if closed is not None else general_basis(structure, system.n_cells)
    shorter = lll_reduced(start)
    return (start, "Hermite form, too large to reduce") if shorter is None else (shorter, "LLL")


def _independent(system: ConstraintSystem, structure: Structure) -> tuple[ConstraintSystem, tuple[str, ...]]:
    places = independent_columns(flint_matrix(structure.columns).transpose())
    if len(places) == system.n_constraints:
        return system, ()
    implied = [name for i, name in enumerate(system.names) if i not in set(places)]
    shown = ", ".join(repr(name) for name in implied[:5]) + (" and others" if len(implied) > 5 else "")
    note = f"left out of {system.n_constraints} constraints, because the others imply them: {len(implied)} ({shown})."
    return system.rows(places), (note,)


def _on_cells(
    system: ConstraintSystem, structure: Structure, pivots: PivotColumns, coordinates: Any
) -> npt.NDArray[Any]:
    solution = np.zeros(system.n_cells, dtype=object)
    transform = pivots.transform
    for i, block in enumerate(pivots.chosen):
        value = sum(int(transform[i, j]) * int(coordinates[j, 0].p) for j in range(pivots.rank))
        solution[int(structure.blocks[block][0])] = value
    return solution


def _exact_totals(system: ConstraintSystem, solution: npt.NDArray[Any]) -> npt.NDArray[Any]:
    matrix = system.matrix
    totals = [
        sum(int(matrix.data[p]) * int(solution[matrix.indices[p]]) for p in range(start, stop))
        for start, stop in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)
    ]
    return np.array(totals, dtype=object)


def _fractional_proof(
    system: ConstraintSystem, pivots: PivotColumns, place: int, wanted: npt.NDArray[np.int64]
) -> NoIntegerSolution:
    # Row `place` of the inverse Hermite form, times A, is a row of a unimodular matrix, so its entries are integers.
    multipliers = [Fraction(0)] * system.n_constraints
    for j, row in enumerate(pivots.rows):
        entry = pivots.inverse[place, j]
        multipliers[row] = Fraction(int(entry.p), int(entry.q))
    return _proof(multipliers, wanted)


def _dependence_proof(
    system: ConstraintSystem, pivots: PivotColumns, row: int, wanted: npt.NDArray[np.int64]
) -> NoIntegerSolution:
    # A dependent row is a combination of the independent ones, but its total is not the same combination of totals.
    structure = recognise(system)
    chosen = list(pivots.chosen)
    independent = flint_matrix(structure.columns[list(pivots.rows)][:, chosen])
    places = independent_columns(independent)
    square = flint_matrix(structure.columns[list(pivots.rows)][:, [chosen[j] for j in places]]).transpose()
    aim = flint_matrix(structure.columns[[row]][:, [chosen[j] for j in places]]).transpose()
    weights = square.inv() * aim
    multipliers = [Fraction(0)] * system.n_constraints
    multipliers[row] = Fraction(-1)
    for j, other in enumerate(pivots.rows):
        multipliers[other] = Fraction(int(weights[j, 0].p), int(weights[j, 0].q))
    return _proof(multipliers, wanted)


def _proof(multipliers: list[Fraction], wanted: npt.NDArray[np.int64]) -> NoIntegerSolution:
    total = sum((m * int(b) for m, b in zip(multipliers, wanted[:, 0], strict=True)), Fraction(0))
    return NoIntegerSolution(tuple(multipliers), total)
