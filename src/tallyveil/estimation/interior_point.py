"""The fallback of the least squares: PIQP's interior-point method, then the compiled walk to the exact face.

The compiled solver begins its walk at the point of a descent. Where that certifies nothing, this module begins the same
walk at the answer of an interior-point method, which needs no face to begin with and does not mind rows that repeat one
another. Only the start is new: the reduction and the certificate are the kernels'. The walk tries every way to solve a
face, with rows of several softnesses. PIQP's own verdict is never used, and its answer is measured in persons as any
other.

Steps, for a pass:

1. Solve the reduced program (`tallyveil.kernels.family.program`) by PIQP. The program is given in lifted form, with a
   variable r = Q x - y for each answer of several cells. The objective is then diagonal and the rows are sparse. On
   redistricting families the form with blocks of H took 3 to 800 times longer.
2. Walk from face to face until one is certified.
3. If none is, take the differences from a close point and do both again: floats hold 53 bits, and a count of billions
   leaves too few of them for the differences that decide where the optimum is.

Worked case: a count of 2^32 with a measurement of 2^32 + 0.25 is known to 2^-20 only. In the difference from the whole
number 2^32 - 2^14 the same measurement is 2^14 + 0.25, which is known to 2^-39.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import piqp
from scipy import sparse

from tallyveil.arrays import Bools, Floats, Integers
from tallyveil.kernels.family.certificate import CERTIFIED_PERSONS
from tallyveil.kernels.family.program import PassArrays, Point, Program
from tallyveil.kernels.family.solver import polish_point, reduce_pass

TOLERANCE: Final = 1e-9
"""At which PIQP stops, in its own units: persons over a power of two, and H's largest diagonal as 1. The walk only
needs a point that shows which counts are above zero, so that twice or half of it changes no certified answer."""

LARGEST_NUMBER: Final = 2.0**20
"""Persons that PIQP is handed as they are. Larger numbers are divided by a power of two, which is exact, and which
keeps TOLERANCE above the rounding errors of a float (2^-53 of 2^20 is 1e-10). Twice or half of it is as good."""

MAX_ITERATIONS: Final = 200
"""Steps of PIQP, which usually needs a few dozen. One that is not solved by then goes on with the point reached."""

MOST_CENTRES: Final = 3
"""Close points that are tried in turn, each the answer around the one before. The second is right where the first was
so; a third is for a first one that was thousands of persons away."""

ROOM: Final = 2.0**14
"""Persons by which a count may fall below a close point. It must be above the distance of that point from the
optimum. Twice as much costs the differences one bit of their 53, half as much needs a point twice as close."""


def solve_interior(arrays: PassArrays, near: Floats) -> tuple[Floats, float]:
    """Solve a pass by the interior-point method and the walk.

    Args:
        arrays: The pass.
        near: A close point to take differences from if PIQP finds none, shape (C, s).
    Returns:
        The estimate, shape (C, s), and its residual in persons; inf where no point was found.
    """
    # Cells that no query or bound tells apart are one variable of the program; `share` divides it among them again.
    program, group, share = reduce_pass(arrays)
    first = np.unique(group, return_index=True)[1].astype(np.int64)
    # First the counts as they are. Differences from a centre are only needed where counts are so large that floats
    # blur.
    best, residual = _solved(program, np.zeros(program.allowed.shape))
    close = best if np.isfinite(residual) else _merged(near, group, first.size)
    for _ in range(MOST_CENTRES):
        if residual <= CERTIFIED_PERSONS:
            break
        # Whole, so that subtracting it from whole sums and bounds is exact; below the point, so that counts can still
        # fall.
        centre = np.floor(np.maximum(close - ROOM, 0.0))
        difference, error = _solved(*_around(arrays, centre, first))
        if not np.isfinite(error):
            break
        close = centre + difference
        # At such a bound the difference could fall no further, though the count could.
        held = ((difference <= 0.0) & (centre > 0.0)).any()
        if error < residual and not held:
            best, residual = close, error
    if not np.isfinite(residual):
        return np.zeros(arrays.allowed.shape), np.inf
    return np.asarray(best[:, group] * share), residual


def _solved(program: Program, pull: Floats) -> tuple[Floats, float]:
    """Counts of shape (C, g) after PIQP and the walk, and their residual in persons."""
    start = _interior_point(program, pull)
    finite = all(np.isfinite(numbers).all() for numbers in start)
    return (start.x, np.inf) if not finite else polish_point(program, start)


def _merged(counts: Floats, group: Integers, n_cells: int) -> Floats:
    """Counts on the support, shape (C, s), summed to those of the program's cells, shape (C, g)."""
    merged = np.zeros((n_cells, counts.shape[0]))
    # Unbuffered, since several cells go to one group; it adds by rows, hence the transposes.
    np.add.at(merged, group, counts.T)
    return np.ascontiguousarray(merged.T)


def _around(arrays: PassArrays, centre: Floats, first: Integers) -> tuple[Program, Floats]:
    """The program of a pass in the differences from whole numbers, and the ridge's pull of what was taken away.

    All that is taken away is whole and is subtracted from whole numbers first, which is exact; what is left is of the
    size of the noise. The ridge still pulls the whole count: its pull of what was taken away is a linear term.

    Args:
        arrays: The pass.
        centre: What is taken away from the counts of the program's cells, shape (C, g).
        first: One support cell of each of the program's cells, shape (g,).
    """
    n_children = centre.shape[0]
    values, place = arrays.values.copy(), 0
    for labels, width in zip(arrays.labels, arrays.widths.tolist(), strict=True):
        sums = _sums(labels[first], width, centre, np.arange(n_children), n_children)
        values[place : place + sums.size] -= sums.reshape(-1)
        # Values lie query after query, and each of these is a table (child, answer).
        place += sums.size
    lower, upper, place = arrays.lower.copy(), arrays.upper.copy(), 0
    for labels, width, groups in zip(
        arrays.bound_labels, arrays.bound_widths.tolist(), arrays.bound_groups, strict=True
    ):
        sums = _sums(labels[first], width, centre, groups, int(groups.max(initial=-1)) + 1).reshape(-1)
        lower[place : place + sums.size] -= sums
        upper[place : place + sums.size] -= sums
        place += sums.size
    # The parent's own counts make the ridge and the shares, so that the sums are moved in the program.
    program, _, _ = reduce_pass(arrays._replace(values=values, lower=lower, upper=upper))
    sums = program.sums - centre.sum(axis=0) if program.has_sums else program.sums
    # A program minimises 1/2 x'Hx - b'x, b being `linear`. In differences from the centre, the ridge leaves H alone and
    # takes its pull off b. Without a held H the kernels make b again from the answers, and the pull would have no
    # place.
    pull = program.ridge[program.kind] * centre
    if program.hessian.size == 0 and pull.any():
        program = _with_hessian(program)
    linear = program.linear - pull if program.hessian.size else program.linear
    return program._replace(sums=sums, linear=linear), pull


def _sums(labels: Integers, width: int, counts: Floats, groups: Integers, n_groups: int) -> Floats:
    """Sums of cells by group of children and label, shape (groups, width)."""
    sums = np.zeros((n_groups, width))
    for cell in np.flatnonzero(labels >= 0):
        np.add.at(sums[:, labels[cell]], groups, counts[:, cell])
    return sums


def _with_hessian(program: Program) -> Program:
    """The program with H and b as matrices, where it has too many cells for the kernels to hold them unasked."""
    hessian = np.zeros((program.weights.shape[0], *program.allowed.shape[1:], program.allowed.shape[1]))
    linear = np.zeros(program.allowed.shape)
    for answers in program.answers.T:
        used = answers >= 0
        same = (answers[:, None] == answers) & used
        hessian += program.weights[:, np.where(used, answers, 0), None] * same
        linear[:, used] += program.targets[:, answers[used]]
    every = np.arange(program.allowed.shape[1])
    hessian[:, every, every] += program.ridge
    return program._replace(hessian=hessian, linear=linear)


def _interior_point(program: Program, pull: Floats) -> Point:
    """PIQP's answer to a program, with prices in the sign of the house.

    Variables are the allowed pairs of a child and a cell, then a residual r for each answer of several of them.

    Args:
        program: The program.
        pull: The part of its linear term that no answer makes, shape (C, g).
    """
    # Forbidden pairs are no variables: a variable fixed at zero has no interior, which the method needs.
    child, cell = np.nonzero(program.allowed)
    n, n_answers = child.size, program.weights.shape[1]
    weights = program.weights[program.kind].reshape(-1)  # of answer a of child c at c * n_answers + a
    targets = program.targets.reshape(-1)
    variable, partition = np.nonzero(program.answers[cell] >= 0)
    answer = child[variable] * n_answers + program.answers[cell[variable], partition]
    # Answers of children that are not measured have weight 0 and would only add free residuals.
    variable, answer = variable[weights[answer] > 0], answer[weights[answer] > 0]
    # How many variables each answer sums decides whether it can stay on the diagonal.
    alone = np.bincount(answer, minlength=weights.size)[answer] == 1
    # An answer of one variable stays on the diagonal; the others get residuals.
    diagonal = program.ridge[program.kind[child], cell] + np.bincount(
        variable[alone], weights[answer[alone]], n
    )
    linear = pull[child, cell] - np.bincount(variable[alone], targets[answer[alone]], n)
    lifted, number = np.unique(answer[~alone], return_inverse=True)
    n_lifted = lifted.size
    # Rows Q x - r = y, one for each answer of several variables.
    lift = _matrix(
        np.concatenate([number.reshape(-1), np.arange(n_lifted)]),
        np.concatenate([variable[~alone], n + np.arange(n_lifted)]),
        (n_lifted, n + n_lifted),
        np.concatenate([np.ones(number.size), np.full(n_lifted, -1.0)]),
    )
    n_sums = program.sums.size if program.has_sums else 0
    sums = _matrix(cell[:n] if n_sums else cell[:0], np.arange(n if n_sums else 0), (n_sums, n + n_lifted))
    rows = _rows(program, child, cell, n + n_lifted)
    # Equalities go to their own block: as two inequalities they would leave no interior.
    equal = program.row_lower == program.row_upper
    right = np.concatenate(
        [program.sums[:n_sums], program.row_lower[equal], targets[lifted] / weights[lifted]]
    )
    # The objective's scale is arbitrary, and PIQP's tolerance is absolute: H's largest diagonal becomes 1.
    scale = 1.0 / float(program.curvature.max())
    unit = power_of_two_for(np.concatenate([right, program.row_lower[~equal], program.row_upper[~equal]]))
    solver = piqp.SparseSolver()
    solver.settings.eps_abs = TOLERANCE
    # A relative tolerance would loosen with the counts, and what decides are persons.
    solver.settings.eps_rel = 0.0
    # The walk certifies in persons, whatever PIQP's gap is.
    solver.settings.check_duality_gap = False
    solver.settings.max_iter = MAX_ITERATIONS
    solver.setup(
        sparse.diags(np.concatenate([diagonal, weights[lifted]]) * scale, format="csc"),
        np.concatenate([linear, np.zeros(n_lifted)]) * scale / unit,
        sparse.vstack([sums, rows[equal], lift]).tocsc(),
        right / unit,
        rows[~equal].tocsc(),
        program.row_lower[~equal] / unit,
        program.row_upper[~equal] / unit,
        # Counts are not negative; residuals may be.
        np.concatenate([np.zeros(n), np.full(n_lifted, -np.inf)]),
        np.full(n + n_lifted, np.inf),
    )
    solver.solve()
    return _point(program, solver.result, equal, unit, scale)


def _point(program: Program, result: piqp.Result, equal: Bools, unit: float, scale: float) -> Point:
    """Undo both scales and PIQP's sign of prices: it adds multipliers, the house subtracts."""
    n_sums, n_equal = program.sums.size if program.has_sums else 0, int(equal.sum())
    x = np.zeros(program.allowed.shape)
    # An interior method may end a rounding error below zero; the walk expects counts.
    x[program.allowed] = np.maximum(np.asarray(result.x[: int(program.allowed.sum())]), 0.0) * unit
    # Prices are derivatives of the objective by persons: they scale with both units.
    price = -np.asarray(result.y) * (unit / scale)
    row_price = np.zeros(equal.size)
    row_price[equal] = price[n_sums : n_sums + n_equal]
    row_price[~equal] = (np.asarray(result.z_l) - np.asarray(result.z_u)) * (unit / scale)
    cell_price = np.zeros(program.sums.size)
    cell_price[:n_sums] = price[:n_sums]
    return Point(x, cell_price, row_price)


def _rows(program: Program, child: Integers, cell: Integers, width: int) -> sparse.csr_matrix:
    """Which variables each row sums."""
    rows, columns = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for bound in range(program.bound_label.shape[0]):
        label = program.bound_label[bound, cell]
        place = program.bound_start[bound] + program.bound_group[bound, child] * program.bound_width[bound]
        used = np.flatnonzero(label >= 0)
        # -1 for a row that can never bind, which the program has left out.
        row = program.row_number[place[used] + label[used]]
        rows.append(row[row >= 0])
        columns.append(used[row >= 0])
    return _matrix(np.concatenate(rows), np.concatenate(columns), (program.row_lower.size, width))


def _matrix(
    row: Integers, column: Integers, shape: tuple[int, int], entries: Floats | None = None
) -> sparse.csr_matrix:
    """A sparse matrix, of ones unless entries are given."""
    return sparse.csr_matrix((np.ones(row.size) if entries is None else entries, (row, column)), shape=shape)


def power_of_two_for(numbers: Floats) -> float:
    """The power of two, 1 or more, in which no number is above `LARGEST_NUMBER`; without it, tolerances are lost.

    A bound that is not there is infinite, and counts for nothing.
    """
    largest = float(np.abs(numbers[np.isfinite(numbers)]).max(initial=0.0))
    return max(1.0, float(2.0 ** np.ceil(np.log2(max(largest, 1.0) / LARGEST_NUMBER))))
