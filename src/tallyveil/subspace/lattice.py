"""The lattice of all changes to a table that leave its invariants unchanged, and its bases.

All bases here are bases over the integers, in closed form or from the Hermite normal form: every integer solution of A
z = 0 is an integer combination of the columns. They are sparse if the structure allows it. Small lattices also have
short bases (LLL) and shortest vectors. Source: Dharangutte, Gao, Gong, Yu 2022, Proposition 8.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from flint import fmpq_mat, fmpz, fmpz_mat

from tallyveil.arrays import Integers
from tallyveil.errors import ConstraintError
from tallyveil.subspace.constraints import (
    ConstraintSystem,
    Structure,
    StructureKind,
    checked_cells,
    elementary_divisors,
    hermite_columns,
    independent_columns,
    recognise,
    smith_form,
)

Entries: TypeAlias = list[tuple[int, int]]
"""The nonzero entries of one basis vector, as (cell, value)."""


def structured_basis(structure: Structure, n_cells: int) -> Any | None:
    """The closed-form basis of a recognised structure, sparse [n_cells, dimension]; None for a general structure.

    Free cells give unit vectors. A block gives the differences of neighbouring cells, which span all vectors that sum
    to zero. A two-way table gives the moves +1 -1 / -1 +1 on neighbouring rows and columns. These moves are the tensor
    product of two bases of differences, hence a basis of the tensor product of their lattices.

    Source: Conway and Sloane 1999, chapter 4, section 6.1 (the root lattice); Diaconis and Sturmfels 1998 (moves).
    """
    if structure.kind is StructureKind.GENERAL:
        return None
    vectors = _unit_vectors(structure)
    if structure.kind is StructureKind.TWO_WAY:
        grid = structure.grid
        for i in range(grid.shape[0] - 1):
            for j in range(grid.shape[1] - 1):
                a, b, c, d = (int(cell) for cell in grid[i : i + 2, j : j + 2].ravel())
                vectors.append([(a, 1), (b, -1), (c, -1), (d, 1)])
    else:
        vectors.extend(_differences(structure))
    return sparse_columns(vectors, n_cells)


def general_basis(structure: Structure, n_cells: int) -> Any:
    """A basis for any structure: differences within blocks, and a kernel between blocks from the Hermite form."""
    vectors = _unit_vectors(structure) + _differences(structure)
    if structure.blocks:
        heads = [int(block[0]) for block in structure.blocks]
        pivots = pivot_columns(structure.columns)
        for vector in _kernel_between(structure.columns, pivots):
            vectors.append([(heads[b], value) for b, value in vector])
    return sparse_columns(vectors, n_cells)


def smith_basis(system: ConstraintSystem) -> Any:
    """The last columns of V in the Smith form U A V = D, the basis in the paper. For small systems.

    Source: Dharangutte et al. 2022, proof of Proposition 8 (which says "rows" instead of "columns").
    """
    form = smith_form(flint_matrix(system.dense()))
    right = form.right.tolist()
    vectors = [
        [(cell, int(row[column])) for cell, row in enumerate(right) if row[column] != 0]
        for column in range(form.rank, system.n_cells)
    ]
    return sparse_columns(vectors, system.n_cells)


@dataclass(frozen=True, slots=True, eq=False)
class PivotColumns:
    """Columns of A that generate all columns of A over the integers.

    Attributes:
        chosen: Their numbers.
        rows: Independent rows of A; their number is the rank.
        transform: fmpz_mat, unimodular: the chosen columns times this matrix are the Hermite form followed by zeros.
        inverse: fmpq_mat [rank, rank], the inverse of the Hermite form of the chosen columns in those rows.
    """

    chosen: tuple[int, ...]
    rows: tuple[int, ...]
    transform: Any
    inverse: Any

    @property
    def rank(self) -> int:
        """Rank of A."""
        return len(self.rows)

    def coordinates(self, targets: Any) -> Any:
        """fmpq_mat [rank, n]: coordinates, in the Hermite basis, of columns that are already restricted to `rows`."""
        return self.inverse * targets


def pivot_columns(columns: Integers) -> PivotColumns:
    """Choose columns of A that generate all of them: first independent ones, then those that are still missing.

    Args:
        columns: int64 [k, n].
    """
    whole = flint_matrix(columns)
    rows = independent_columns(whole.transpose())
    # Sparse columns with small entries come first, because a single 1 or -1 generates its whole row.
    order = np.lexsort((np.abs(columns).max(axis=0, initial=0), np.count_nonzero(columns, axis=0)))
    pivots = columns[rows][:, order]
    chosen = independent_columns(flint_matrix(pivots))
    everything = flint_matrix(pivots)
    while True:
        hermite, transform, rank = hermite_columns(flint_matrix(pivots[:, chosen]))
        square = (
            fmpz_mat([[hermite[i, j] for j in range(rank)] for i in range(rank)]) if rank else fmpz_mat(0, 0)
        )
        inverse = square.inv() if rank else fmpz_mat(0, 0)
        missing = _first_fractional(inverse * everything) if rank else []
        if not missing:
            break
        chosen = [*chosen, *missing]
    return PivotColumns(tuple(int(order[j]) for j in chosen), tuple(rows), transform, inverse)


def _kernel_between(columns: Integers, pivots: PivotColumns) -> list[Entries]:
    """Kernel vectors of the distinct columns, as (block, value).

    A column f that is not chosen is an integer combination x of the chosen ones, which gives the kernel vector f - x.
    Any kernel vector minus a combination of these has entries only at the chosen columns. The transform contains a
    basis of the chosen columns' own kernel.
    """
    rank, chosen = pivots.rank, pivots.chosen
    transform = pivots.transform.tolist()
    vectors: list[Entries] = [
        [(chosen[i], int(row[column])) for i, row in enumerate(transform) if row[column] != 0]
        for column in range(rank, len(chosen))
    ]
    others = [f for f in range(columns.shape[1]) if f not in set(chosen)]
    if not others:
        return vectors
    targets = flint_matrix(columns[list(pivots.rows)][:, others])
    coordinates, denominator = pivots.coordinates(targets).numer_denom()
    if denominator != 1:
        raise ConstraintError(
            "Constraint matrix: a column is not an integer combination of the pivot columns. This is a defect of "
            "the elimination: please report the matrix.",
            code="subspace-constraints",
        )
    first = fmpz_mat([row[:rank] for row in transform]) if rank else fmpz_mat(len(chosen), 0)
    combined = (first * coordinates).tolist()
    for place, f in enumerate(others):
        inner = [(chosen[i], -int(row[place])) for i, row in enumerate(combined) if row[place] != 0]
        vectors.append([(f, 1), *inner])
    return vectors


def flint_matrix(values: Integers) -> Any:
    """An integer array as fmpz_mat."""
    return fmpz_mat(values.shape[0], values.shape[1], [int(v) for v in values.ravel()])


def sparse_columns(vectors: list[Entries], n_cells: int) -> Any:
    """A sparse int64 matrix in compressed columns, from vectors given by their entries.

    Raises:
        ConstraintError: an entry does not fit into 62 bits.
    """
    values = [value for vector in vectors for _, value in vector]
    if values and max(abs(v) for v in values) >= 1 << 62:
        raise ConstraintError(
            "Lattice basis: an entry does not fit 64 bits. Divide each row by the common divisor of its "
            "coefficients, or use fewer constraints, or constraints that share fewer cells. Disjoint sums, nested "
            "sums and two-way margins always have short bases.",
            code="subspace-constraints",
        )
    cells = np.array([cell for vector in vectors for cell, _ in vector], dtype=np.int64)
    starts = np.cumsum([0, *(len(vector) for vector in vectors)])
    matrix = sp.csc_matrix((np.array(values, dtype=np.int64), cells, starts), shape=(n_cells, len(vectors)))
    matrix.sort_indices()
    for array in (matrix.data, matrix.indices, matrix.indptr):
        array.setflags(write=False)
    return matrix


def _unit_vectors(structure: Structure) -> list[Entries]:
    return [[(int(cell), 1)] for cell in structure.free]


def _differences(structure: Structure) -> list[Entries]:
    return [[(int(a), 1), (int(b), -1)] for block in structure.blocks for a, b in pairwise(block)]


def _first_fractional(coordinates: Any) -> list[int]:
    """For each coordinate, the first column where it is not an integer; each column once."""
    numerators, denominator = coordinates.numer_denom()
    if denominator == 1:
        return []
    places: dict[int, None] = {}
    for row in numerators.tolist():
        column = next((j for j, value in enumerate(row) if fmpz(value) % denominator != 0), None)
        if column is not None:
            places[column] = None
    return list(places)


LARGEST_REDUCED: Final = 200
"""LLL is not used for more basis vectors than this."""

LARGEST_SEARCHED: Final = 24
"""Shortest vectors are not searched for if there are more basis vectors than this."""


def lll_reduced(columns: Any) -> Any | None:
    """A sparse LLL-reduced basis of the lattice of the columns; None for more than 200 vectors.

    Args:
        columns: Sparse int64 [n_cells, dimension].
    Source: Lenstra, Lenstra, Lovász 1982, with delta = 0.99.
    """
    return None if columns.shape[1] > LARGEST_REDUCED else _lll(columns)


def _lll(columns: Any) -> Any:

    n_cells, dimension = columns.shape
    dense = columns.T.toarray()
    reduced = fmpz_mat(dimension, n_cells, [int(v) for v in dense.ravel()]).lll().tolist()
    vectors = [[(cell, int(v)) for cell, v in enumerate(row) if v != 0] for row in reduced]
    return sparse_columns(vectors, n_cells)


def shortest_vectors(columns: Any) -> npt.NDArray[np.int64]:
    """All vectors of least Euclidean length in the lattice of the columns, one of each pair z, -z.

    The search enumerates the tree of coefficients over an LLL-reduced basis, exactly, in fractions.

    Args:
        columns: Sparse int64 [n_cells, dimension].
    Returns:
        int64 [n, n_cells], sorted; n is half the kissing number.
    Raises:
        ConstraintError: there are more than 24 basis vectors.
    Source: Fincke and Pohst 1985, algorithm 2.12.
    """
    if columns.shape[1] > LARGEST_SEARCHED:
        raise ConstraintError(
            f"Shortest vectors: the lattice has dimension {columns.shape[1]}, wanted at most {LARGEST_SEARCHED}. The "
            "time of the search grows exponentially with the dimension. Use a smaller table.",
            code="subspace-too-large",
        )
    basis = _lll(columns).toarray()
    dimension = basis.shape[1]
    factors, squares = gram_schmidt(basis)
    least = min(int(basis[:, j] @ basis[:, j]) for j in range(dimension))
    shortest: list[tuple[int, ...]] = []

    def descend(level: int, coefficients: list[int], used: Fraction) -> None:
        nonlocal least
        if level < 0:
            if any(coefficients):
                if used < least:
                    shortest.clear()
                    least = int(used)
                shortest.append(tuple(coefficients))
            return
        centre = -sum((coefficients[j] * factors[j][level] for j in range(level + 1, dimension)), Fraction(0))
        for value in _outward(centre):
            cost = used + (value - centre) ** 2 * squares[level]
            if cost > least:
                break
            coefficients[level] = value
            descend(level - 1, coefficients, cost)
        coefficients[level] = 0

    descend(dimension - 1, [0] * dimension, Fraction(0))
    vectors = {tuple(int(v) for v in basis @ np.array(c, dtype=np.int64)) for c in shortest}
    halves = {max(v, tuple(-x for x in v)) for v in vectors}
    return np.array(sorted(halves), dtype=np.int64).reshape(len(halves), basis.shape[0])


def gram_schmidt(basis: npt.NDArray[np.int64]) -> tuple[list[list[Fraction]], list[Fraction]]:
    """(mu, squares): exact Gram-Schmidt factors mu[j][i], i < j, and squared lengths of the orthogonal vectors.

    Args:
        basis: int64 [n_cells, dimension], one vector in each column.
    """
    gram = (basis.astype(object).T @ basis.astype(object)).tolist()
    n = len(gram)
    inner = [[Fraction(0)] * n for _ in range(n)]  # <b_j, b*_i>
    factors = [[Fraction(0)] * n for _ in range(n)]
    for j in range(n):
        for i in range(j + 1):
            inner[j][i] = Fraction(gram[j][i]) - sum(
                (factors[i][k] * inner[j][k] for k in range(i)), Fraction(0)
            )
            if i < j:
                factors[j][i] = inner[j][i] / inner[i][i]
    return factors, [inner[i][i] for i in range(n)]


def _outward(centre: Fraction) -> Any:
    """Integers by increasing distance from the centre."""
    nearest = round(centre)
    step = 1 if centre >= nearest else -1
    yield nearest
    k = 1
    while True:
        yield nearest + step * k
        yield nearest - step * k
        k += 1


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
