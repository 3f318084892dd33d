"""The integer program of one rounding stage.

Columns are y = rounded count - floor of the estimate, for every allowed (child, cell), and for every answer
that sums two or more of them up to three arcs: answer = whole part of the target + e + p - m, with e in {0, 1}
at cost 1 - 2 * fraction and p, m >= 0 at cost 1. That is |answer - target|, up to a constant, at every whole number.
A stage that aims at the nearest whole numbers has targets without a fraction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import sparse

from tallyveil.arrays import Bools, Int32s, Integers
from tallyveil.estimation.integer_program import IntegerProgram
from tallyveil.estimation.problem import UNBOUNDED, FamilyProblem, RoundingStage
from tallyveil.kernels.rounding.arrays import ONE


@dataclass(frozen=True, slots=True)
class Snapped:
    """Estimates of the n allowed (child, cell) pairs: floor in persons, fractional part in units of 2^-20."""

    child: Integers
    cell: Integers
    floor: Integers
    part: Integers


@dataclass(frozen=True, slots=True)
class Fixing:
    """Answers that must stay as they are: labels of shape (s,), answers of shape (C, k)."""

    labels: Int32s
    answers: Integers


@dataclass(frozen=True, slots=True)
class _Sums:
    """Sums of y that are bounded or priced: which sum each y is in, or -1; by sum, its size and floor."""

    member: Integers
    count: Integers
    floor: Integers
    child: Integers
    label: Integers


@dataclass(slots=True)
class _ProgramRows:
    """Rows under construction."""

    row: list[Integers] = field(default_factory=list)
    column: list[Integers] = field(default_factory=list)
    value: list[Integers] = field(default_factory=list)
    lower: list[Integers] = field(default_factory=list)
    upper: list[Integers] = field(default_factory=list)
    n_rows: int = 0

    def add(self, member: Integers, lower: Integers, upper: Integers) -> int:
        """Add rows of y and return the first one's number; `member` is each y's new row, or -1."""
        used = np.flatnonzero(member >= 0)
        self.add_entries(self.n_rows + member[used], used, np.ones(used.size, np.int64))
        self.lower.append(lower)
        self.upper.append(upper)
        self.n_rows += lower.size
        return self.n_rows - lower.size

    def add_entries(self, row: Integers, column: Integers, value: Integers) -> None:
        """Add entries to rows."""
        self.row.append(row)
        self.column.append(column)
        self.value.append(value)


def stage_program(
    problem: FamilyProblem, snapped: Snapped, stage: RoundingStage, fixings: Sequence[Fixing], widened: bool
) -> tuple[IntegerProgram | None, Integers, Integers]:
    """The program of one stage without the y that are settled beforehand.

    Returns:
        The program (None when the settled y contradict one another), the y that are its first columns, and
        all y with the settled ones in place, shape (n,).
    """
    n = snapped.floor.size
    lower = -snapped.floor if widened else np.zeros(n, np.int64)
    upper = np.full(n, UNBOUNDED if widened else 1, dtype=np.int64)
    bounded = _bounded_sums(problem, snapped, fixings)
    # A widened y has no upper bound, so that no sum could settle it.
    if not widened:
        lower, upper = _settle(bounded, lower, upper)
    if (lower > upper).any():
        return None, np.zeros(0, np.int64), lower
    open_ = np.flatnonzero(lower < upper)
    # Only the open y become columns; the settled ones are subtracted from the bounds, which keeps programs small.
    rows = _ProgramRows()
    for sums, low, high in bounded:
        settled = _total(sums, lower * (lower == upper))
        member = np.where(lower < upper, sums.member, -1)
        _add_bounds(
            rows, member, low - sums.floor - settled, high - sums.floor - settled, sums.count, widened
        )
    cost = np.zeros(n, np.int64)
    arcs: list[tuple[Integers, Integers, Integers]] = []
    for _, labels in stage.labels:
        cost += _add_deviation(rows, arcs, snapped, (labels, stage.target), lower, upper, widened)
    return _assemble(rows, arcs, cost, lower, upper, open_, snapped.part > 0), open_, lower * (lower == upper)


def aimed(parts: Integers, target: str) -> Integers:
    """What answers should be near, above their floors and in units of 2^-20, from their fractional parts.

    Args:
        parts: Sums of fractional parts, in units.
        target: "fraction": these; "nearest": the nearest whole numbers, halves to even.
    """
    if target == "fraction":
        return parts
    # Floor division: the remainder is never negative, so a half is a half on both sides of zero.
    whole, part = parts // ONE, parts % ONE
    up = (part > ONE // 2) | ((part == ONE // 2) & (whole % 2 == 1))
    nearest: Integers = (whole + up) * ONE
    return nearest


def _bounded_sums(
    problem: FamilyProblem, snapped: Snapped, fixings: Sequence[Fixing]
) -> list[tuple[_Sums, Integers, Integers]]:
    """Every sum with bounds: cells to the parent, constraints, answers of earlier stages."""
    bounded = []
    if problem.parent_counts is not None:
        sums = _group(snapped, np.zeros_like(snapped.cell), snapped.cell)
        total = problem.parent_counts[sums.label]
        bounded.append((sums, total, total))
    for rows in problem.constraints:
        group = rows.group_of[snapped.child]
        sums = _group(snapped, group, rows.labels[snapped.cell].astype(np.int64))
        bounded.append((sums, rows.lower[sums.child, sums.label], rows.upper[sums.child, sums.label]))
    for fixing in fixings:
        sums = _group(snapped, snapped.child, fixing.labels[snapped.cell].astype(np.int64))
        answers = fixing.answers[sums.child, sums.label]
        bounded.append((sums, answers, answers))
    return bounded


def _group(snapped: Snapped, child: Integers, label: Integers) -> _Sums:
    """Sums of y by (child, label); a group of children may stand for the child."""
    width = int(label.max(initial=-1)) + 1
    used = label >= 0
    member = np.full(label.size, -1, dtype=np.int64)
    # Only sums that have a member get a number, so that empty answers make no rows.
    keys, member[used] = np.unique(child[used] * width + label[used], return_inverse=True)
    count = np.bincount(member[used], minlength=keys.size)
    floor = np.zeros(keys.size, np.int64)
    np.add.at(floor, member[used], snapped.floor[used])
    return _Sums(member, count, floor, keys // max(width, 1), keys % max(width, 1))


def _total(sums: _Sums, values: Integers) -> Integers:
    used = sums.member >= 0
    total = np.zeros(sums.count.size, np.int64)
    np.add.at(total, sums.member[used], values[used])
    return total


def _settle(
    bounded: Sequence[tuple[_Sums, Integers, Integers]], lower: Integers, upper: Integers
) -> tuple[Integers, Integers]:
    """Settle the y of sums that leave no room: all down, or all up."""
    lower, upper = lower.copy(), upper.copy()
    for sums, low, high in bounded:
        used = np.flatnonzero(sums.member >= 0)
        member = sums.member[used]
        # At most the floors: every y of the sum is 0. At least the floors plus all y: every y is 1.
        upper[used[(high - sums.floor <= 0)[member]]] = 0
        lower[used[(low - sums.floor >= sums.count)[member]]] = 1
    return lower, upper


def _add_bounds(
    rows: _ProgramRows, member: Integers, low: Integers, high: Integers, count: Integers, widened: bool
) -> None:
    """Add the rows that can still bind."""
    remaining = np.bincount(member[member >= 0], minlength=count.size)
    # Between 0 and the number of open y a row says nothing.
    keep = (low > 0) | (high < remaining) if not widened else np.ones(count.size, np.bool_)
    rows.add(
        _renumber(member, keep), low[keep], np.where(high[keep] >= UNBOUNDED // 2, UNBOUNDED, high[keep])
    )


def _renumber(member: Integers, keep: Bools) -> Integers:
    """Members of the kept sums, numbered without gaps; -1 for the others."""
    # One more entry of -1 at the end, which is where a member of -1 is looked up.
    number = np.append(np.where(keep, np.cumsum(keep) - 1, -1), -1)
    return np.asarray(number[member])


def _add_deviation(
    rows: _ProgramRows,
    arcs: list[tuple[Integers, Integers, Integers]],
    snapped: Snapped,
    query: tuple[Int32s, str],
    lower: Integers,
    upper: Integers,
    widened: bool,
) -> Integers:
    """Price |answer - target| of one query. Returns the cost put on y directly, shape (n,)."""
    labels, aim = query
    sums = _group(snapped, snapped.child, labels[snapped.cell].astype(np.int64))
    target = aimed(_total(sums, snapped.part), aim) - ONE * _total(sums, lower * (lower == upper))
    member = np.where(lower < upper, sums.member, -1)
    remaining = np.bincount(member[member >= 0], minlength=sums.count.size)
    # one y in {0, 1}, or several above a target of zero or less: the deviation is linear in y
    # Such a sum needs no arcs and no row: its cost is put on the y themselves.
    direct = np.zeros(sums.count.size, np.bool_) if widened else (remaining <= 1) | (target <= 0)
    cost = np.zeros(snapped.part.size, np.int64)
    priced = _renumber(member, direct)
    straight = np.flatnonzero(priced >= 0)
    cost[straight] = (np.abs(ONE - target) - np.abs(target))[direct][priced[straight]]
    whole, part = target[~direct] // ONE, target[~direct] % ONE
    first = rows.add(_renumber(member, ~direct), whole, whole)
    # The third part is the capacity of m: an answer cannot fall further below its target than to zero.
    arcs.append((first + np.arange(whole.size), part, np.where(widened, UNBOUNDED, whole)))
    return cost


def _assemble(
    rows: _ProgramRows,
    arcs: Sequence[tuple[Integers, Integers, Integers]],
    cost: Integers,
    lower: Integers,
    upper: Integers,
    open_: Integers,
    fractional: Bools,
) -> IntegerProgram:
    """Put y columns and arcs e, p, m together."""
    row = np.concatenate([np.zeros(0, np.int64), *(arc[0] for arc in arcs)])
    part = np.concatenate([np.zeros(0, np.int64), *(arc[1] for arc in arcs)])
    whole = np.concatenate([np.zeros(0, np.int64), *(arc[2] for arc in arcs)])
    arc_row = np.concatenate([row[part > 0], row, row[whole > 0]])
    # answer - e - p + m = whole part of the target.
    sign = np.repeat([-1, -1, 1], [int((part > 0).sum()), row.size, int((whole > 0).sum())])
    # In units of 2^-20 persons, so that costs are whole.
    arc_cost = np.concatenate([ONE - 2 * part[part > 0], np.full(arc_row.size - int((part > 0).sum()), ONE)])
    arc_upper = np.concatenate(
        [np.ones(int((part > 0).sum()), np.int64), np.full(row.size, UNBOUNDED), whole[whole > 0]]
    )
    column = np.full(cost.size, -1, dtype=np.int64)
    column[open_] = np.arange(open_.size)
    rows.add_entries(arc_row, cost.size + np.arange(arc_row.size), sign)
    column = np.concatenate([column, open_.size + np.arange(arc_row.size)])
    entries = (
        np.concatenate(rows.value).astype(np.float64),
        (np.concatenate(rows.row), column[np.concatenate(rows.column)]),
    )
    n_columns = open_.size + arc_row.size
    return IntegerProgram(
        cost=np.concatenate([cost[open_], arc_cost]),
        lower=np.concatenate([lower[open_], np.zeros(arc_row.size, np.int64)]),
        upper=np.concatenate([upper[open_], arc_upper]),
        row_lower=np.concatenate([np.zeros(0, np.int64), *rows.lower]),
        row_upper=np.concatenate([np.zeros(0, np.int64), *rows.upper]),
        matrix=sparse.csc_matrix(entries, shape=(rows.n_rows, n_columns)),
        # A y whose estimate is a whole number is expected to stay at 0, so it starts outside the program.
        useful=np.concatenate([(fractional | (lower != 0))[open_], np.ones(arc_row.size, np.bool_)]),
    )
