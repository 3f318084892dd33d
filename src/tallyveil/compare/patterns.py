"""Secondary suppression of one table by integer programming, and the audit of what is hidden.

*Problem.* Counts stand on lines: one of them is the sum of the others. Some are hidden already. Which others must be
hidden, at the least cost, so that no hidden count follows from what is shown?

*Program.* A variable of 0 or 1 for each count says whether it is hidden. On every line, a hidden count needs another
hidden one beside it. This is necessary and not enough: two hidden counts that must be 1 or more and add up to 2 are
both 1. So the pattern is audited, and where a hidden count follows, the program is solved again with one more row: some
further count of the lines of that count must be hidden. It ends when the audit finds nothing or nothing more can be
hidden.

*Audit.* A hidden count is safe if the shown counts allow another whole number in its place. One integer program gives
a whole table; every hidden count that differs there from the truth is safe. Counts that never differed are asked for
one by one: the least and the greatest value that they can have.

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
    counts: Integers, lines: Lines, primary: Bools, cost: Floats, *, least: int, seconds: float
) -> Pattern:
    """Hide further counts until none of the hidden ones follows from the others.

    Args:
        counts: True counts of one table, with their sums.
        lines: The lines among them.
        primary: Counts that are hidden anyway.
        cost: Of hiding each count; positive.
        least: The least count that is ever hidden: zeros stay where it is 1.
        seconds: Time limit of each program; 0 hides all that may be hidden.
    """
    candidates = counts >= least
    rows = _pairs(lines, candidates)
    cuts: list[Integers] = []
    hidden, bound, limited = primary.copy(), 0.0, False
    for _ in range(MOST_CUTS):
        hidden, bound, in_time = _solved(primary, candidates, cost, rows, cuts, seconds)
        limited = limited or not in_time
        followed = _followed(counts, lines, hidden, least)
        if not followed.any():
            return Pattern(hidden, float(cost[hidden & ~primary].sum()), bound, True, limited)
        fresh = [_beside(lines, int(number), candidates & ~hidden) for number in np.flatnonzero(followed)]
        fresh = [cut for cut in fresh if cut.size]
        if not fresh:
            break
        cuts += fresh
    # Everything on the lines of the counts that follow, again and again: it ends because the set only grows.
    while (followed := _followed(counts, lines, hidden, least)).any():
        beside = [_beside(lines, int(number), candidates & ~hidden) for number in np.flatnonzero(followed)]
        more = np.concatenate([*beside, np.zeros(0, dtype=np.int64)])
        if not more.size:
            return Pattern(hidden, float(cost[hidden & ~primary].sum()), bound, False, limited)
        hidden[more] = True
    return Pattern(hidden, float(cost[hidden & ~primary].sum()), bound, True, limited)


def _followed(counts: Integers, lines: Lines, hidden: Bools, least: int) -> Bools:
    """Hidden counts that follow: those that interval arithmetic finds, and only where it finds none, all."""
    low, high = lines.narrowed(np.where(hidden, float(least), counts), np.where(hidden, NO_LIMIT, counts))
    known = hidden & (low == high)
    # Interval arithmetic takes a thousandth of the time, and most patterns that are not safe fail it.
    return np.asarray(known) if known.any() else follows(counts, lines, hidden, least)


def _members(lines: Lines) -> sparse.csr_matrix:
    """1 where a count stands on a line, as whole or part; shape (n_lines, n_counts)."""
    n_counts = int(max(lines.wholes.max(initial=-1), lines.parts.max(initial=-1))) + 1
    rows = np.concatenate([lines.line, np.arange(lines.n_lines)])
    columns = np.concatenate([lines.parts, lines.wholes])
    return sparse.csr_matrix((np.ones(rows.size), (rows, columns)), shape=(lines.n_lines, n_counts))


def _pairs(lines: Lines, candidates: Bools) -> sparse.csr_matrix:
    """Rows of the program: on each line, the sum of the others minus each count that could be hidden is 0 or more."""
    members = _members(lines)
    members = sparse.csr_matrix(members.multiply(candidates[: members.shape[1]].astype(np.float64)[None, :]))
    members.eliminate_zeros()
    on_line = np.repeat(np.arange(members.shape[0]), np.diff(members.indptr))
    each = sparse.csr_matrix(
        (np.full(on_line.size, 2.0), (np.arange(on_line.size), members.indices)),
        shape=(on_line.size, members.shape[1]),
    )
    # The line with a 1 for every count, minus 2 for this one: others minus itself.
    return sparse.csr_matrix(members[on_line] - each)


def _beside(lines: Lines, number: int, candidates: Bools) -> Integers:
    """Candidates that stand on a line with a count."""
    members = _members(lines)
    touching = members[:, number].nonzero()[0]
    return np.asarray(
        [n for n in np.unique(members[touching].indices).tolist() if candidates[n]], dtype=np.int64
    )


def _solved(
    primary: Bools,
    candidates: Bools,
    cost: Floats,
    rows: sparse.csr_matrix,
    cuts: list[Integers],
    seconds: float,
) -> tuple[Bools, float, bool]:
    """The cheapest pattern that meets all rows, the proved bound of its cost, and whether it was found in time."""
    n_counts = primary.size
    if cuts:
        at = np.repeat(np.arange(len(cuts)), [cut.size for cut in cuts])
        cut_rows = sparse.csr_matrix(
            (np.ones(at.size), (at, np.concatenate(cuts))), shape=(len(cuts), n_counts)
        )
    else:
        cut_rows = sparse.csr_matrix((0, n_counts))
    padded = sparse.csr_matrix((rows.data, rows.indices, rows.indptr), shape=(rows.shape[0], n_counts))
    matrix = sparse.csc_matrix(sparse.vstack([padded, cut_rows]))
    lower = np.concatenate([np.zeros(rows.shape[0]), np.ones(len(cuts))])
    upper = np.full(lower.size, highspy.kHighsInf)
    program = linear_program(
        np.where(primary, 0.0, cost),
        (primary.astype(np.float64), (primary | candidates).astype(np.float64)),
        (lower, upper),
        matrix,
    )
    program.integrality_ = [highspy.HighsVarType.kInteger] * n_counts
    solver = quiet_solver()
    solver.setOptionValue("time_limit", seconds)
    # A pattern within a hundredth of the cheapest is good enough; the page states the gap that was reached.
    solver.setOptionValue("mip_rel_gap", 0.01)
    solver.passModel(program)
    solver.run()
    if not np.isfinite(solver.getInfo().objective_function_value) or not solver.getSolution().col_value:
        # No pattern in time, or none that meets the cuts: hide all that may be hidden, which the audit then looks at.
        return primary | candidates, 0.0, False
    values = np.asarray(solver.getSolution().col_value)
    in_time = solver.getModelStatus() != highspy.HighsModelStatus.kTimeLimit
    return values > 0.5, float(solver.getInfo().mip_dual_bound), in_time


def follows(counts: Integers, lines: Lines, hidden: Bools, least: int) -> Bools:
    """Which hidden counts follow from the shown ones: whole numbers of at least `least` allow no other value.

    Raises:
        SolverError: a program ended without an answer.
    """
    unsure = hidden.copy()
    if not hidden.any():
        return unsure
    program = _Tables(counts, lines, hidden, least)
    # Objectives that pull all unsure counts away from the truth at once, then the rest one by one.
    for sign in (1.0, -1.0):
        for weights in (np.ones(counts.size), np.where(np.arange(counts.size) % 2, 1.0, -1.0)):
            if not unsure.any():
                return unsure
            unsure &= program.extreme(sign * weights * unsure) == counts
    for number in np.flatnonzero(unsure):
        for sign in (1.0, -1.0):
            if unsure[number]:
                weights = np.zeros(counts.size)
                weights[number] = sign
                unsure &= program.extreme(weights) == counts
    return unsure


class _Tables:
    """Whole tables that agree with everything that is shown."""

    def __init__(self, counts: Integers, lines: Lines, hidden: Bools, least: int) -> None:
        signs = np.concatenate([np.ones(lines.parts.size), -np.ones(lines.n_lines)])
        rows = np.concatenate([lines.line, np.arange(lines.n_lines)])
        columns = np.concatenate([lines.parts, lines.wholes])
        matrix = sparse.csc_matrix((signs, (rows, columns)), shape=(lines.n_lines, counts.size))
        known = counts.astype(np.float64)
        lower = np.where(hidden, float(least), known)
        # A hidden count that is part of nothing shown has no limit; the largest count stands for it, which is enough
        # for another value to exist.
        upper = np.where(hidden, min(NO_LIMIT, 2 * known.max() + 10), known)
        zeros = np.zeros(lines.n_lines)
        self._program = linear_program(np.zeros(counts.size), (lower, upper), (zeros, zeros), matrix)
        self._program.integrality_ = [highspy.HighsVarType.kInteger] * counts.size
        self._solver = quiet_solver()
        self._solver.passModel(self._program)
        self._n = counts.size

    def extreme(self, weights: Floats) -> Integers:
        """The table with the largest weighted sum."""
        self._solver.changeColsCost(self._n, np.arange(self._n, dtype=np.int32), -weights)
        self._solver.run()
        if self._solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            raise SolverError(
                "the audit of hidden counts ended without an answer: "
                f"{self._solver.modelStatusToString(self._solver.getModelStatus())}. Compare fewer areas at once.",
            )
        return np.asarray(np.rint(np.asarray(self._solver.getSolution().col_value)), dtype=np.int64)
