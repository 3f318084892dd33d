"""Exact controlled rounding of one family.

Each estimate goes down or up to a neighbouring whole number, so that the children still sum to the parent in
every cell and every constraint holds exactly, while the answers of the rounding queries stay as near to the
estimates' answers as they can. Nearness is the sum of |rounded answer - estimated answer|, in real numbers; the
absolute value is replaced by its chord between neighbouring whole numbers, which is the same at whole numbers
and lets a linear program find the optimum. Stages are lexicographic: a stage's answers are held in the next ones.

Estimates are first snapped to multiples of 2^-20, so that every number of the program is whole and the optimum
depends neither on the last bits of the estimates nor on a tolerance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tallyveil.errors import SolverError
from tallyveil.estimation.integer_program import IntegerAnswer, solve_integer
from tallyveil.estimation.problem import (
    BoolArray,
    FamilyProblem,
    FloatArray,
    Int32Array,
    Int64Array,
    RoundingStage,
)
from tallyveil.estimation.rounding_program import ONE, Fixing, Snapped, stage_program
from tallyveil.estimation.solution import RoundingMethod, RoundingOutcome, StageOutcome


@dataclass(frozen=True, slots=True)
class RoundedCounts:
    """Whole counts of shape (C, s), and how the rounding went."""

    counts: Int64Array
    outcome: RoundingOutcome


def round_counts(problem: FamilyProblem, allowed: BoolArray, estimate: FloatArray) -> RoundedCounts | None:
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
    snapped = snap(estimate, allowed)
    for widened in (False, True):
        found = _round_stages(problem, allowed, snapped, widened)
        if found is not None:
            return found
    return None


def snap(estimate: FloatArray, allowed: BoolArray) -> Snapped:
    """Snap to multiples of 2^-20; a value within one such step of a whole number is that number."""
    units = np.rint(np.maximum(estimate[allowed], 0.0) * ONE).astype(np.int64)
    floor, part = units // ONE, units % ONE
    floor += part >= ONE - 1
    part[(part <= 1) | (part >= ONE - 1)] = 0
    child, cell = np.nonzero(allowed)
    return Snapped(child, cell, floor, part)


def is_laminar(labels: Sequence[Int32Array]) -> bool:
    """Whether the answers of all queries are nested or disjoint, two by two.

    With nested answers (of rounding queries and constraints together) the rounding is a network flow, and its
    linear program has a whole-number optimum.

    Args:
        labels: Label arrays of one length; -1: in no answer.
    """
    for i, one in enumerate(labels):
        for other in labels[i + 1 :]:
            both = (one >= 0) & (other >= 0)
            size_one = np.bincount(one[one >= 0])[one[both]]
            size_other = np.bincount(other[other >= 0])[other[both]]
            width = int(other.max(initial=0)) + 1
            _, inverse, shared = np.unique(
                one[both].astype(np.int64) * width + other[both], return_inverse=True, return_counts=True
            )
            overlap = shared[inverse]
            if ((overlap != size_one) & (overlap != size_other)).any():
                return False
    return True


def _round_stages(
    problem: FamilyProblem, allowed: BoolArray, snapped: Snapped, widened: bool
) -> RoundedCounts | None:
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
        fixings += [Fixing(labels, _answers(labels, counts)) for _, labels in stage.labels]
        names = tuple(name for name, _ in stage.labels)
        outcomes.append(StageOutcome(names, answer.method, _deviation(stage, snapped, counts)))
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
    values[columns] = answer.values[: columns.size]
    method = RoundingMethod.FIXED if columns.size == 0 else answer.method
    return IntegerAnswer(values, method)


def _deviation(stage: RoundingStage, snapped: Snapped, counts: Int64Array) -> float:
    """Attained sum of |answer of counts - answer of estimate|, persons."""
    estimate = np.zeros(counts.shape, dtype=np.int64)
    estimate[snapped.child, snapped.cell] = snapped.floor * ONE + snapped.part
    gaps = (_answers(labels, counts * ONE - estimate) for _, labels in stage.labels)
    return sum(int(np.abs(gap).sum()) for gap in gaps) / ONE


def _answers(labels: Int32Array, counts: Int64Array) -> Int64Array:
    """Exact sums of cells by label, shape (C, k)."""
    answers = np.zeros((counts.shape[0], int(labels.max(initial=-1)) + 1), dtype=np.int64)
    used = np.flatnonzero(labels >= 0)
    if used.size:
        order = used[np.argsort(labels[used], kind="stable")]
        present, start = np.unique(labels[order], return_index=True)
        answers[:, present] = np.add.reduceat(counts[:, order], start, axis=1)
    return answers


def _verify(
    problem: FamilyProblem,
    allowed: BoolArray,
    counts: Int64Array,
    fixings: Sequence[Fixing],
    near: Snapped | None,
) -> None:
    """Check every promise in whole numbers, independently of the solver."""
    broken = []
    if (counts < 0).any() or counts[~allowed].any():
        broken.append("counts that may not be")
    if problem.parent_counts is not None and (counts.sum(axis=0) != problem.parent_counts).any():
        broken.append("sums to the parent")
    if near is not None and not np.isin(counts[near.child, near.cell] - near.floor, (0, 1)).all():
        broken.append("neighbouring whole numbers")
    broken += [f"constraint '{name}'" for name in unmet_constraints(problem, counts)]
    if any((_answers(one.labels, counts) != one.answers).any() for one in fixings):
        broken.append("answers of earlier stages")
    if broken:
        raise SolverError(
            f"{problem.where}: the rounded counts fail their check of {', '.join(broken)}; "
            "this is a defect of the rounding, please report it with the plan"
        )


def unmet_constraints(problem: FamilyProblem, counts: Int64Array) -> list[str]:
    """Names of the constraints that counts of shape (C, s) do not meet."""
    unmet = []
    for rows in problem.constraints:
        answers = np.zeros(rows.lower.shape, dtype=np.int64)
        sums = _answers(rows.labels, counts)
        answers[:, : sums.shape[1]] = sums
        if (answers < rows.lower).any() or (answers > rows.upper).any():
            unmet.append(rows.name)
    return unmet
