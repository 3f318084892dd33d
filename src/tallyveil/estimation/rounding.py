"""Exact controlled rounding of one family.

Each estimate goes down or up to a neighbouring whole number. The children still sum to the parent in every
cell, and every constraint holds exactly. Among such roundings, the answers of the rounding queries are as
near as possible to the estimates' answers. Nearness is the sum of |rounded answer - target|. The absolute
value is replaced by its chord between neighbouring whole numbers, which has the same value at whole numbers.

Stages are lexicographic: no later stage makes an earlier one worse. Where the answers of all queries and
constraints are nested, one network flow gives all stages, each the best among all optima of the earlier ones.
Otherwise a linear or integer program is solved for each stage, and its answers are held in the next ones.

Columns of that program are y = rounded count - floor of the estimate, for every allowed (child, cell), and
for every answer that sums two or more of them up to three arcs: answer = whole part of the target + e + p -
m, with e in {0, 1} at cost 1 - 2 * fraction and p, m >= 0 at cost 1. That is |answer - target|, up to a
constant, at every whole number. A stage that aims at the nearest whole numbers has targets without a
fraction.

Estimates are first rounded to multiples of 2^-20. Every number of the program is then whole, and the optimum
depends neither on the last bits of the estimates nor on a tolerance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tallyveil.arrays import Bools, Floats, Int32s, Integers
from tallyveil.errors import SolverError
from tallyveil.estimation.highs import IntegerAnswer, IntegerProgram, solve_integer
from tallyveil.estimation.problem import (
    UNBOUNDED,
    FamilyProblem,
    RoundingMethod,
    RoundingOutcome,
    RoundingStage,
    StageOutcome,
)
from tallyveil.kernels.rounding.flow import (
    CROSSED,
    SETTLED,
    UNPROVED,
    attained,
    round_by_flow,
)
from tallyveil.kernels.rounding.network_simplex import INFEASIBLE, ONE, STOPPED, TOO_LARGE, Bounds, Entries


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


@dataclass(frozen=True, slots=True)
class RoundedCounts:
    """Whole counts of shape (C, s), and how the rounding went."""

    counts: Integers
    outcome: RoundingOutcome


def round_counts(problem: FamilyProblem, allowed: Bools, estimate: Floats) -> RoundedCounts | None:
    """Round an estimate to counts that meet every constraint exactly.

    Args:
        problem: The family; its rounding stages say what must stay near.
        allowed: Where children may be above zero, shape (C, s).
        estimate: Persons, shape (C, s), not negative.
    Returns:
        The counts, checked in whole numbers; None when no whole numbers satisfy the constraints.
    Raises:
        SolverError: an optimum could not be proved or a check failed.
    Source: Cox 1987, A constructive procedure for unbiased controlled rounding (the network view); the
        convex piecewise-linear objective follows the TopDown rounder.
    """
    # From here on every number is whole: the same estimates give the same counts on every machine.
    snapped = snap(estimate, allowed)
    flow = solve_flow(problem, snapped)
    if isinstance(flow, FlowAnswer):
        return _finish_flow(problem, snapped, flow)
    # An infeasible flow has proved that no neighbouring numbers exist, so only the wider programs are left.
    if flow is FlowFailure.NOT_APPLICABLE:
        rounded = round_by_programs(problem, allowed, snapped, widened=False)
        if rounded is not None:
            return rounded
    return round_by_programs(problem, allowed, snapped, widened=True)


def snap(estimate: Floats, allowed: Bools) -> Snapped:
    """Snap to multiples of 2^-20; a value within one such step of a whole number is that number."""
    units = np.rint(np.maximum(estimate[allowed], 0.0) * ONE).astype(np.int64)
    floor, part = units // ONE, units % ONE
    # Within one step of a whole number an estimate is that number up to rounding errors, so that its fraction is none.
    floor += part >= ONE - 1
    part[(part <= 1) | (part >= ONE - 1)] = 0
    child, cell = np.nonzero(allowed)
    return Snapped(child, cell, floor, part)


def _finish_flow(problem: FamilyProblem, snapped: Snapped, flow: FlowAnswer) -> RoundedCounts:
    counts = np.zeros((problem.n_children, problem.n_cells), dtype=np.int64)
    counts[snapped.child, snapped.cell] = snapped.floor + flow.up
    outcomes = tuple(
        StageOutcome(tuple(name for name, _ in stage.labels), flow.method, deviation)
        for stage, deviation in zip(problem.rounding, flow.deviations, strict=True)
    )
    return RoundedCounts(counts, RoundingOutcome(outcomes, widened=False))


def round_by_programs(
    problem: FamilyProblem, allowed: Bools, snapped: Snapped, *, widened: bool
) -> RoundedCounts | None:
    """Round stage after stage by linear or integer programs; None when the constraints cannot be met.

    Args:
        problem: The family.
        allowed: Where children may be above zero, shape (C, s).
        snapped: The estimates there.
        widened: Allow any whole number at or above zero, not only the neighbours of the estimate.
    Raises:
        SolverError: an optimum could not be proved or a check failed.
    """
    fixings: list[Fixing] = []
    outcomes = []
    counts = np.zeros(allowed.shape, dtype=np.int64)
    for i, stage in enumerate(problem.rounding):
        answer = _solve_stage(problem, snapped, stage, fixings, widened)
        if answer is None and i == 0:
            return None
        if answer is None:
            raise SolverError(
                f"{problem.where}: rounding stage {i + 1} could not be solved although the stage before it was; "
                "round fewer queries a stage, or make them nested"
            )
        counts = np.zeros(allowed.shape, dtype=np.int64)
        counts[snapped.child, snapped.cell] = snapped.floor + answer.values[: snapped.floor.size]
        # What a stage attained is held exactly in the later ones, which makes the stages lexicographic.
        fixings += [Fixing(labels, _answers(labels, counts)) for _, labels in stage.labels]
        names = tuple(name for name, _ in stage.labels)
        outcomes.append(StageOutcome(names, answer.method, _deviation(stage, snapped, counts)))
    # The programs prove their optimum, and this checks that they were the right programs.
    _verify(problem, allowed, counts, fixings, None if widened else snapped)
    return RoundedCounts(counts, RoundingOutcome(tuple(outcomes), widened))


def _solve_stage(
    problem: FamilyProblem, snapped: Snapped, stage: RoundingStage, fixings: Sequence[Fixing], widened: bool
) -> IntegerAnswer | None:
    """Solve one stage and put the fixed variables back."""
    program, columns, start = stage_program(problem, snapped, stage, fixings, widened)
    if program is None:
        return None
    answer = solve_integer(program, problem.where)
    if answer is None:
        return None
    values = start.copy()
    # Columns after these are the arcs of deviations, which are no counts.
    values[columns] = answer.values[: columns.size]
    method = RoundingMethod.FIXED if columns.size == 0 else answer.method
    return IntegerAnswer(values, method)


def _deviation(stage: RoundingStage, snapped: Snapped, counts: Integers) -> float:
    """Attained sum of |answer of counts - target of the stage|, persons."""
    # Floors are subtracted first, so that what is multiplied by 2^20 stays small.
    above, part = counts.copy(), np.zeros(counts.shape, dtype=np.int64)
    above[snapped.child, snapped.cell] -= snapped.floor
    part[snapped.child, snapped.cell] = snapped.part
    total = 0
    for _, labels in stage.labels:
        gaps = _answers(labels, above) * ONE - aimed(_answers(labels, part), stage.target)
        total += int(np.abs(gaps).sum())
    return total / ONE


def _answers(labels: Int32s, counts: Integers) -> Integers:
    """Exact sums of cells by label, shape (C, k)."""
    answers = np.zeros((counts.shape[0], int(labels.max(initial=-1)) + 1), dtype=np.int64)
    used = np.flatnonzero(labels >= 0)
    if used.size:
        # Sorting and reduceat instead of add.at, which is slow on families with many cells.
        order = used[np.argsort(labels[used], kind="stable")]
        present, start = np.unique(labels[order], return_index=True)
        answers[:, present] = np.add.reduceat(counts[:, order], start, axis=1)
    return answers


def _verify(
    problem: FamilyProblem,
    allowed: Bools,
    counts: Integers,
    fixings: Sequence[Fixing],
    near: Snapped | None,
) -> None:
    """Check every promise in whole numbers, independently of the solver."""
    broken = []
    if (counts < 0).any() or counts[~allowed].any():
        broken.append("counts that may not be")
    if problem.parent_counts is not None and (counts.sum(axis=0) != problem.parent_counts).any():
        broken.append("sums to the parent")
    # Not asked where the rounding was widened, because there any whole number is allowed.
    if near is not None and not np.isin(counts[near.child, near.cell] - near.floor, (0, 1)).all():
        broken.append("neighbouring whole numbers")
    broken += [f"constraint '{name}'" for name in unmet_constraints(problem, counts)]
    if any((_answers(fixing.labels, counts) != fixing.answers).any() for fixing in fixings):
        broken.append("answers of earlier stages")
    if broken:
        raise SolverError(
            f"{problem.where}: the rounded counts fail their check of {', '.join(broken)}; "
            "this is a defect of the rounding, please report it with the plan"
        )


def unmet_constraints(problem: FamilyProblem, counts: Integers) -> list[str]:
    """Names of the constraints that counts of shape (C, s) do not meet."""
    unmet = []
    for rows in problem.constraints:
        answers = np.zeros(rows.lower.shape, dtype=np.int64)
        sums = _answers(rows.labels, counts)
        # Rows of children of one group add up; a label that no cell has leaves its column at zero.
        np.add.at(answers[:, : sums.shape[1]], rows.group_of, sums)
        if (answers < rows.lower).any() or (answers > rows.upper).any():
            unmet.append(rows.name)
    return unmet


@dataclass(frozen=True, slots=True)
class FlowAnswer:
    """What the flow found.

    Attributes:
        up: Persons above the floor of each allowed (child, cell), 0 or 1, shape (n,).
        deviations: Attained sum of |answer - target| of each stage, persons.
        method: How it was found.
    """

    up: Integers
    deviations: tuple[float, ...]
    method: RoundingMethod


class FlowFailure(Enum):
    """Why there is no answer."""

    INFEASIBLE = "no neighbouring whole numbers satisfy the constraints"
    NOT_APPLICABLE = (
        "the sets are not nested, groups of children differ or have a set of a child around theirs, or the numbers are "
        "too large for the flow's whole numbers"
    )


def solve_flow(problem: FamilyProblem, snapped: Snapped) -> FlowAnswer | FlowFailure:
    """Round all stages by one flow.

    Args:
        problem: The family.
        snapped: Estimates of the allowed (child, cell) pairs, ordered by child.
    Returns:
        An optimum of each stage among all optima of the stages before it, checked and proved in whole numbers.
    Raises:
        SolverError: the proof or the check failed.
    """
    groupings = {rows.group_of.tobytes() for rows in problem.constraints if rows.shared}
    # The flow needs nested sets, and two different groupings of children need not be nested.
    if len(groupings) > 1:
        return FlowFailure.NOT_APPLICABLE
    family = _arrays(problem, snapped)
    status, up = round_by_flow(*family)
    if status == INFEASIBLE:
        return FlowFailure.INFEASIBLE
    if status in {CROSSED, TOO_LARGE, STOPPED}:
        return FlowFailure.NOT_APPLICABLE
    # The sums are computed from the counts, not read off the flow, so that a mistake in the network shows.
    good, deviation = attained(*family, up)
    if status == UNPROVED or not good:
        raise SolverError(
            f"{problem.where}: the rounding's flow fails {'its proof' if good else 'the check of its sums'}; "
            "this is a defect of the rounding, please report it with the plan"
        )
    method = RoundingMethod.FIXED if status == SETTLED else RoundingMethod.NETWORK_FLOW
    return FlowAnswer(up, tuple(int(units) / ONE for units in deviation), method)


def _arrays(
    problem: FamilyProblem, snapped: Snapped
) -> tuple[npt.NDArray[np.int32], Integers, Bools, Bounds, Entries, Integers]:
    """The family as the kernels take it: writeable arrays, because read-only ones would be compiled for separately."""
    queries = [labels for stage in problem.rounding for _, labels in stage.labels]
    stage_of_query = [number for number, stage in enumerate(problem.rounding) for _ in stage.labels]
    widths = [rows.lower.shape[1] for rows in problem.constraints]
    # Concatenating needs one array even where there is no constraint, and this one has no column.
    none = np.zeros((problem.n_children, 0), dtype=np.int64)
    shared = [rows for rows in problem.constraints if rows.shared]
    parent = problem.parent_counts
    return (
        np.stack([*queries, *(rows.labels for rows in problem.constraints)]),
        np.array(stage_of_query + [-1] * len(widths), dtype=np.int64),
        np.array([stage.target == "nearest" for stage in problem.rounding]),
        Bounds(
            # Rounding queries have no bounds, so their stretches of columns are empty.
            np.cumsum([0] * (len(queries) + 1) + widths),
            np.concatenate(
                [none, *(_a_row_a_child(problem, rows.lower) for rows in problem.constraints)], axis=1
            ),
            np.concatenate(
                [none, *(_a_row_a_child(problem, rows.upper) for rows in problem.constraints)], axis=1
            ),
            np.array([False] * len(queries) + [rows.shared for rows in problem.constraints]),
            (shared[0].group_of if shared else np.arange(problem.n_children)).copy(),
        ),
        Entries(
            np.searchsorted(snapped.child, np.arange(problem.n_children + 1)),
            np.ascontiguousarray(snapped.cell),
            snapped.floor,
            snapped.part,
        ),
        np.zeros(0, dtype=np.int64) if parent is None else parent.copy(),
    )


def _a_row_a_child(problem: FamilyProblem, bounds: Integers) -> Integers:
    """Bounds of groups, with rows of zeros after them to as many rows as there are children."""
    missing = problem.n_children - bounds.shape[0]
    return bounds if missing == 0 else np.pad(bounds, ((0, missing), (0, 0)))
