"""Files of records of one geounit: those that fit its tables, and the likeliest for its noisy counts.

*From tables.* A file is a count x_c of each kind of record c, a cell of the schema: whole numbers, none below zero. Its
tables are A x, where A adds up the cells of each answer. Of each answer a count is wanted, the most likely one, and its
limits are known; of a hidden count only the limits. Of all files with the wanted counts the likeliest is taken: the
least sum of costs, where the cost of a record is minus the logarithm of how common its kind is. If no file has them,
because counts were changed one by one, the file within the limits that misses them least is taken; each record that an
answer misses costs as much as many likely records. If no file is within the limits, they are left out.

A record is *certain* if every file that fits has it: for each kind, the least x_c that fits is a further program.

*From noisy counts.* Every cell was measured: y_c = x_c + noise of variance v. Before this the attacker expects m_c
records of the kind, and takes x_c for Poisson. Wanted are whole numbers that add up to a known number of people and are
likeliest: the least sum over cells of (x_c - y_c)^2 / (2 v) + log x_c! - x_c log m_c. Each term is convex, so the k-th
record of a cell costs more than the one before it: (2 (k - y_c) - 1) / (2 v) + log k - log m_c. The cheapest records
are the likeliest file.

*Worked case.* y = (0.9, 0.1), v = 1, m = (1, 1), one person: the records cost -0.4 and 0.4, and the file is (1, 0).
"""

from typing import Final, NamedTuple, Self

import highspy
import numpy as np
from scipy import sparse

from tallyveil.arrays import Bools, Floats, Integers
from tallyveil.errors import SolverError
from tallyveil.estimation.highs import linear_program, quiet_solver

MISSED: Final = 100.0
"""Cost of a record that an answer misses, in units of the logarithm of a likelihood. 100 of them say that a count is
missed only if the other file is likelier by e^100; a much smaller cost would put the background before the tables."""


class KnownAnswers(NamedTuple):
    """What is known of the answers of one geounit, those of all tables one after the other; shape (n_answers,) each.

    Attributes:
        wanted: The most likely count; of no meaning where it is hidden.
        hidden: Where no count is shown.
        low, high: Limits of the true count; infinite where there is none.
    """

    wanted: Integers
    hidden: Bools
    low: Floats
    high: Floats

    @classmethod
    def without_limits(cls, wanted: Integers, hidden: Bools) -> Self:
        """The same where nothing limits a count."""
        infinite = np.full(wanted.size, np.inf)
        return cls(wanted, hidden, -infinite, infinite)


class FittingFiles:
    """The files of records that fit the tables of a geounit."""

    def __init__(self, matrix: sparse.csr_matrix, known: KnownAnswers, cost: Floats) -> None:
        """Set up the program.

        Args:
            matrix: 1 where a cell counts in an answer of any table; shape (n_answers, n_cells).
            known: Of all answers.
            cost: Minus the logarithm of how common each kind of record is.
        """
        self._matrix, self._known, self._cost = matrix, known, cost
        limits = self._limits()
        # A kind of record that an answer of 0 would count does not exist.
        empty = (limits[1] <= 0).astype(np.int64)
        self._cells = np.flatnonzero(np.asarray(matrix.T @ empty) == 0)
        self._solver = _solver(cost[self._cells], sparse.csc_matrix(matrix[:, self._cells]), limits)

    def likeliest(self) -> tuple[Integers, bool]:
        """Counts of all kinds in the likeliest file, and whether it fits; else it is the one that misses least.

        Raises:
            SolverError: a program ended without an answer.
        """
        file = np.zeros(self._matrix.shape[1], dtype=np.int64)
        # An answer of no kind that is left fits only if it is 0, which a program without columns cannot say.
        lower, upper = self._limits()
        lonely = np.asarray(self._matrix[:, self._cells].sum(axis=1)).ravel() == 0
        fits = not ((lower > 0) | (upper < 0))[lonely].any()
        if fits and self._cells.size:
            solution = _solved(self._solver)
            fits = solution is not None
            if solution is not None:
                file[self._cells] = solution
        return (file, True) if fits else (self._nearest(), False)

    def certain(self, file: Integers) -> Integers:
        """The counts of all kinds that every fitting file has at least, given one file that fits."""
        least = np.zeros_like(file)
        n = self._cells.size
        for column in np.flatnonzero(file[self._cells]):
            costs = np.zeros(n)
            costs[column] = 1
            self._solver.changeColsCost(n, np.arange(n, dtype=np.int32), costs)
            solution = _solved(self._solver)
            if solution is not None:  # there is one: `file`
                least[self._cells[column]] = solution[column]
        return least

    def _limits(self) -> tuple[Floats, Floats]:
        known = self._known
        lower, upper = (np.where(known.hidden, end, known.wanted) for end in (known.low, known.high))
        return lower, upper

    def _nearest(self) -> Integers:
        n_answers, n_cells = self._matrix.shape
        # Two columns for what an answer misses, above and below; a hidden one has nothing to miss.
        columns = sparse.csc_matrix(
            sparse.hstack([self._matrix, -sparse.eye(n_answers), sparse.eye(n_answers)])
        )
        cost = np.concatenate([self._cost, np.full(2 * n_answers, MISSED)])
        known = self._known
        room = [
            np.where(known.hidden, 0.0, part)
            for part in (known.high - known.wanted, known.wanted - known.low)
        ]
        unlimited = np.full(n_cells + 2 * n_answers, highspy.kHighsInf)
        # Without the limits where no file is within them: then they are not those of these tables.
        for most in (np.concatenate([unlimited[:n_cells], *room]), unlimited):
            solution = _solved(_solver(cost, columns, self._limits(), n_whole=n_cells, most=most))
            if solution is not None:
                return solution[:n_cells]
        raise SolverError(
            "a reconstruction ended without an answer, although every file is allowed. Attack tables with fewer cells."
        )


def _solver(
    cost: Floats,
    matrix: sparse.csc_matrix,
    limits: tuple[Floats, Floats],
    n_whole: int | None = None,
    most: Floats | None = None,
) -> highspy.Highs:
    """A program of columns from 0 to `most` (None: no limit), of which the first `n_whole` (None: all) are whole."""
    n_columns = matrix.shape[1]
    upper = np.full(n_columns, highspy.kHighsInf) if most is None else most
    program = linear_program(cost, (np.zeros(n_columns), upper), limits, matrix)
    whole, real = highspy.HighsVarType.kInteger, highspy.HighsVarType.kContinuous
    number = n_columns if n_whole is None else n_whole
    program.integrality_ = [whole] * number + [real] * (n_columns - number)
    solver = quiet_solver()
    # The likeliest file itself, not one that is nearly as likely.
    solver.setOptionValue("mip_rel_gap", 0.0)
    solver.setOptionValue("mip_abs_gap", 1e-9)
    solver.passModel(program)
    return solver


def _solved(solver: highspy.Highs) -> Integers | None:
    """The solution in whole numbers; None if there is none.

    Raises:
        SolverError: the program ended in another way.
    """
    solver.run()
    status = solver.getModelStatus()
    if status in (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible):
        return None
    if status != highspy.HighsModelStatus.kOptimal:
        raise SolverError(
            f"a reconstruction ended without an answer: {solver.modelStatusToString(status)}. Attack tables with fewer "
            "cells."
        )
    return np.asarray(np.rint(np.asarray(solver.getSolution().col_value)), dtype=np.int64)


def likeliest_file(noisy: Floats, variance: float, expected: Floats, people: int) -> Integers:
    """Counts of all kinds of records in the likeliest file for noisy counts.

    Args:
        noisy: Noisy count of each cell.
        variance: Variance of its noise.
        expected: Records that are expected in each cell beforehand, above zero.
        people: Number of records in the file.
    """
    # A cell with more than `people` records, or far above its noisy count, is never among the cheapest.
    most = min(people, int(max(noisy.max(initial=0), 0) + 12 * variance**0.5) + 2)
    k = np.arange(1, most + 1)
    costs = (2 * (k[None, :] - noisy[:, None]) - 1) / (2 * variance) + np.log(k) - np.log(expected)[:, None]
    cheapest = np.argsort(costs, axis=None, kind="stable")[:people]
    return np.bincount(cheapest // max(most, 1), minlength=noisy.size)
