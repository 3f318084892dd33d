"""Secondary suppression of one table by integer programming, and the audit of what is hidden.

*Problem.* Counts stand on lines: one of them is the sum of the others. Some are hidden already. Which others must be
hidden, at the least cost, so that no hidden count follows from what is shown?

*Program.* A variable of 0 or 1 for each count says whether it is hidden. On every line, a hidden count needs another
hidden one beside it. This is necessary and not enough: two hidden counts that must be 1 or more and add up to 2 are
both 1. So the pattern is audited, and where a hidden count follows, the program is solved again with one more row: some
further count of the lines of that count must be hidden. It ends when the audit finds nothing or nothing more can be
hidden. Lines on which two counts are hidden anyway ask for nothing and have no rows.

*Audit.* A hidden count is safe if the shown counts allow another whole number in its place. One program gives a whole
table; every hidden count that differs there from the truth is safe. Counts that never differed are asked for one by
one: the least and the greatest value that they can have. A program is solved without asking for whole numbers first:
most answers are whole all the same. It is an integer program only where they are not.

*Worked case.* Counts 1, 1 and 5 with their sum 7; the ones are hidden. They add up to 2, so both follow. The program
hides the 5 as well, and the hidden counts can then be 1, 2 and 4.

Source: Fischetti and Salazar 2001, whose cuts are stronger; the audit is that of Giessing 2001.
"""

from dataclasses import dataclass
from typing import Final

import highspy
import numpy as np
from scipy import sparse

from tallyveil.arrays import Bools, Floats, Integers
from tallyveil.compare.relations import NO_LIMIT, Lines
from tallyveil.errors import SolverError
from tallyveil.estimation.highs import linear_program, quiet_solver

MOST_CUTS: Final = 40
"""Times that a pattern is mended after an audit. Most tables need two or three; at half of it some large families would
end with everything hidden."""


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """What is hidden of one table.

    Attributes:
        hidden: The counts.
        cost: Sum of the costs of what is hidden beyond the primary counts.
        bound: The program's proved lower bound of that cost for the rows that it had.
        proved: Whether no hidden count follows from what is shown, by the audit.
        limited: Whether a program ended at its time limit: another machine may then find another pattern.
    """

    hidden: Bools
    cost: float
    bound: float
    proved: bool
    limited: bool


def least_pattern(
    counts: Integers, lines: Lines, primary: Bools, cost: Floats, *, safe: Bools, least: int, seconds: float
) -> Pattern:
    """Hide further counts until none of the hidden ones follows from the others.

    Args:
        counts: True counts of one table, with their sums.
        lines: The lines among them.
        primary: Counts that are hidden anyway.
        cost: Of hiding each count; positive.
        safe: Primary counts of which it is known that they do not follow, because they did not where fewer were hidden.
        least: The least count that is ever hidden: zeros stay where it is 1.
        seconds: Time limit of each program; at 0 all that may be hidden is hidden, without an audit.
    """
    candidates = counts >= least
    hidden, bound, limited = candidates, 0.0, True

    def pattern(proved: bool) -> Pattern:
        return Pattern(hidden, float(cost[hidden & ~primary].sum()), bound, proved, limited)

    if seconds <= 0:
        return pattern(proved=False)
    limited = False
    members = lines.matrix(counts.size, whole=1.0)
    touching = sparse.csr_matrix(members.T)
    rows = _rows(members, primary, candidates)
    cuts: list[Integers] = []
    for _ in range(MOST_CUTS):
        hidden, bound, in_time = _solved(primary, candidates, cost, rows, cuts, seconds)
        followed, audited = _followed(counts, lines, hidden, safe, least, seconds)
        limited = limited or not (in_time and audited)
        if not followed.any():
            return pattern(proved=True)
        beside = touching[np.flatnonzero(followed)] @ members
        able = candidates & ~hidden
        fresh = [cut[able[cut]] for cut in np.split(beside.indices, beside.indptr[1:-1])]
        fresh = [cut for cut in fresh if cut.size]
        if not fresh:
            return pattern(proved=False)
        cuts += fresh
    # Everything on the lines of the counts that follow, again and again: it ends because the set only grows.
    while True:
        followed, audited = _followed(counts, lines, hidden, safe, least, seconds)
        limited = limited or not audited
        if not followed.any():
            return pattern(proved=True)
        more = (members.T @ (members @ followed) > 0) & candidates & ~hidden
        if not more.any():
            return pattern(proved=False)
        hidden = hidden | more


def _followed(
    counts: Integers, lines: Lines, hidden: Bools, safe: Bools, least: int, seconds: float
) -> tuple[Bools, bool]:
    """Hidden counts that follow: those that interval arithmetic finds, and only where it finds none, all.

    As `follows` otherwise.
    """
    low, high = lines.narrowed(np.where(hidden, float(least), counts), np.where(hidden, NO_LIMIT, counts))
    known = hidden & (low == high)
    # Interval arithmetic takes a fraction of the time, and most patterns that are not safe fail it.
    return (known, True) if known.any() else follows(counts, lines, hidden, safe, least, seconds)


def _rows(members: sparse.csr_matrix, primary: Bools, candidates: Bools) -> tuple[sparse.csr_matrix, Floats]:
    """Rows of the program, over the counts that may be hidden further, and the least value of each.

    Args:
        members: 1 where a count stands on a line; shape (n_lines, n_counts).
        primary, candidates: Counts that are hidden anyway, and those that may be hidden.
    """
    free = sparse.csr_matrix(members @ sparse.diags_array((candidates & ~primary).astype(np.float64)))
    free.eliminate_zeros()
    n_hidden = members @ primary
    # Beside the only hidden count of a line another one is hidden.
    alone = free[n_hidden == 1]
    # Where none is, the others minus each count are 0 or more: all with a 1, minus 2 for this one.
    open_lines = free[n_hidden == 0]
    on_line = np.repeat(np.arange(open_lines.shape[0]), np.diff(open_lines.indptr))
    itself = sparse.csr_matrix(
        (np.full(on_line.size, 2.0), (np.arange(on_line.size), open_lines.indices)),
        shape=(on_line.size, members.shape[1]),
    )
    matrix = sparse.csr_matrix(sparse.vstack([alone, open_lines[on_line] - itself]))
    return matrix, np.append(np.ones(alone.shape[0]), np.zeros(on_line.size))


def _solved(
    primary: Bools,
    candidates: Bools,
    cost: Floats,
    rows: tuple[sparse.csr_matrix, Floats],
    cuts: list[Integers],
    seconds: float,
) -> tuple[Bools, float, bool]:
    """The cheapest pattern that meets all rows, the proved bound of its cost, and whether it was found in time."""
    at = np.repeat(np.arange(len(cuts)), [cut.size for cut in cuts])
    columns = np.concatenate([np.zeros(0, dtype=np.int64), *cuts])
    cut_rows = sparse.csr_matrix((np.ones(at.size), (at, columns)), shape=(len(cuts), primary.size))
    matrix = sparse.csc_matrix(sparse.vstack([rows[0], cut_rows]))
    lower = np.append(rows[1], np.ones(len(cuts)))
    if not lower.any():
        return primary, 0.0, True
    used = np.flatnonzero(np.diff(matrix.indptr))
    program = linear_program(
        cost[used],
        (np.zeros(used.size), np.ones(used.size)),
        (lower, np.full(lower.size, highspy.kHighsInf)),
        matrix[:, used],
    )
    program.integrality_ = [highspy.HighsVarType.kInteger] * used.size
    solver = quiet_solver()
    solver.setOptionValue("time_limit", seconds)
    # A pattern within a hundredth of the cheapest is good enough; the page states the gap that was reached.
    solver.setOptionValue("mip_rel_gap", 0.01)
    # Of these small programs this heuristic takes more time than all the rest.
    solver.setOptionValue("mip_heuristic_run_feasibility_jump", False)
    solver.passModel(program)
    solver.run()
    if not np.isfinite(solver.getInfo().objective_function_value) or not solver.getSolution().col_value:
        # No pattern in time: hide all that may be hidden, which the audit then looks at.
        return candidates, 0.0, False
    hidden = primary.copy()
    hidden[used] = np.asarray(solver.getSolution().col_value) > 0.5
    in_time = solver.getModelStatus() != highspy.HighsModelStatus.kTimeLimit
    return hidden, float(solver.getInfo().mip_dual_bound), in_time


def follows(
    counts: Integers, lines: Lines, hidden: Bools, safe: Bools, least: int, seconds: float
) -> tuple[Bools, bool]:
    """Which hidden counts follow from the shown ones: whole numbers of at least `least` allow no other value.

    Args:
        counts, lines, safe, least: As in `least_pattern`.
        hidden: The pattern.
        seconds: Time limit of each program.
    Returns:
        The counts, and whether all programs ended in time; otherwise counts of which nothing is known are among them.
    Raises:
        SolverError: a program ended without an answer.
    """
    unsure = hidden & ~safe
    if not unsure.any():
        return unsure, True
    program = _Tables(counts, lines, hidden, least, seconds)
    # Objectives that pull all unsure counts away from the truth at once, by 1 this way or that, as long as it helps.
    # Then the rest one by one.
    generator, before = np.random.Generator(np.random.Philox(key=0)), counts.size
    while 0 < unsure.sum() < before:
        before = int(unsure.sum())
        signs = np.where(counts > least, generator.choice([-1.0, 1.0], size=counts.size), 1.0)
        unsure &= ~program.moved(signs * unsure, reach=1.0)
    for number in np.flatnonzero(unsure):
        for sign in (1.0, -1.0) if counts[number] > least else (1.0,):
            if unsure[number]:
                weights = np.zeros(counts.size)
                weights[number] = sign
                unsure &= ~program.moved(weights, reach=NO_LIMIT)
    return unsure, program.in_time


class _Tables:
    """Whole tables that agree with everything that is shown, as differences from the true one."""

    def __init__(self, counts: Integers, lines: Lines, hidden: Bools, least: int, seconds: float) -> None:
        matrix = lines.matrix(counts.size, whole=-1.0)[:, hidden]
        self._matrix = sparse.csc_matrix(matrix[np.diff(matrix.indptr) > 0])
        self._hidden, self._seconds = hidden, seconds
        true = counts[hidden].astype(np.float64)
        # A hidden count that is part of nothing shown has no limit; twice the largest count stands for it, which is
        # enough for another value to exist.
        self._lower, self._upper = least - true, min(NO_LIMIT, 2.0 * counts.max() + 10) - true
        self._columns = np.arange(true.size, dtype=np.int32)
        self._solvers: dict[bool, highspy.Highs] = {}
        self.in_time = True

    def moved(self, weights: Floats, reach: float) -> Bools:
        """Which counts are not the true ones in the table with the largest weighted sum; none without one in time.

        No count is further from the true one than `reach`. Where it is 1, many counts move; otherwise few move far.
        """
        moved = np.zeros(weights.size, dtype=np.bool_)
        change = self._extreme(weights[self._hidden], reach, whole=False)
        if change is None:
            change = self._extreme(weights[self._hidden], reach, whole=True)
        if change is not None:
            moved[self._hidden] = change != 0
        return moved

    def _extreme(self, weights: Floats, reach: float, *, whole: bool) -> Integers | None:
        """The largest weighted sum; None where the answer is not whole, or comes too late."""
        solver = self._solver(whole)
        columns, lower, upper = self._columns, np.maximum(self._lower, -reach), np.minimum(self._upper, reach)
        solver.changeColsCost(columns.size, columns, -weights)
        solver.changeColsBounds(columns.size, columns, lower, upper)
        # The limit is of all runs of a solver together.
        solver.setOptionValue("time_limit", solver.getRunTime() + self._seconds)
        solver.run()
        status = solver.getModelStatus()
        if status == highspy.HighsModelStatus.kTimeLimit:
            self.in_time = False
            return None
        if status != highspy.HighsModelStatus.kOptimal:
            raise SolverError(
                "the audit of hidden counts ended without an answer: "
                f"{solver.modelStatusToString(status)}. Compare fewer areas at once.",
            )
        values = np.asarray(solver.getSolution().col_value)
        change = np.rint(values)
        # The solver's answers are right to 1e-6, and a table that does not add up in whole numbers proves nothing.
        if (
            np.abs(values - change).max() > 1e-6
            or (self._matrix @ change).any()
            or (change < self._lower).any()
            or (change > self._upper).any()
        ):
            return None
        return np.asarray(change, dtype=np.int64)

    def _solver(self, whole: bool) -> highspy.Highs:
        if whole not in self._solvers:
            zeros = np.zeros(self._matrix.shape[0])
            program = linear_program(
                np.zeros(self._lower.size), (self._lower, self._upper), (zeros, zeros), self._matrix
            )
            if whole:
                program.integrality_ = [highspy.HighsVarType.kInteger] * self._lower.size
            self._solvers[whole] = quiet_solver()
            self._solvers[whole].passModel(program)
        return self._solvers[whole]
