"""Controlled rounding of a family whose sets are nested, handed to the compiled network flow."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from tallyveil.arrays import Bools, Integers
from tallyveil.errors import SolverError
from tallyveil.estimation.problem import FamilyProblem
from tallyveil.estimation.rounding_program import Snapped
from tallyveil.estimation.solution import RoundingMethod
from tallyveil.kernels.rounding.arrays import ONE, Bounds, Entries
from tallyveil.kernels.rounding.flow import CROSSED, SETTLED, UNPROVED, attained, round_by_flow
from tallyveil.kernels.rounding.network_simplex import INFEASIBLE, STOPPED, TOO_LARGE


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
