"""Estimate one family: least squares, then rounding."""

from __future__ import annotations

import numpy as np

from tallyveil.arrays import Integers
from tallyveil.errors import ConstraintError, SolverError
from tallyveil.estimation.highs import explain_conflict
from tallyveil.estimation.least_squares import LIMIT_PERSONS, solve_passes, weighted_deviation
from tallyveil.estimation.problem import (
    EstimateStatus,
    FamilyProblem,
    FamilySolution,
    RoundingMethod,
    RoundingOutcome,
    StageOutcome,
)
from tallyveil.estimation.rounding import round_counts, unmet_constraints


def estimate_family(problem: FamilyProblem, *, limit_persons: float = LIMIT_PERSONS) -> FamilySolution:
    """Turn noisy measurements of a parent's children into non-negative whole counts.

    Args:
        problem: The family.
        limit_persons: Largest acceptable violation of the optimality conditions, converted to persons.
    Returns:
        Counts that sum to the parent in every cell and meet every constraint, checked in whole numbers.
    Raises:
        ConstraintError: no counts satisfy the constraints; names the geounit, constraints and children.
        SolverError: the least squares or the rounding could not be certified.
    Privacy: post-processing; reads only noisy measurements and published statements.
    Source: Abowd et al. 2022, The 2020 Census Disclosure Avoidance System TopDown Algorithm, section 5.
    """
    parent = problem.parent_counts
    # Both shortcuts are exact: the parent's counts alone determine the children.
    if problem.n_cells == 0 or (parent is not None and not parent.any()):
        counts = np.zeros((problem.n_children, problem.n_cells), dtype=np.int64)
        return _settled(problem, counts, EstimateStatus.EMPTY)
    if parent is not None and problem.n_children == 1:
        return _settled(problem, parent[None, :].copy(), EstimateStatus.COPIED)
    return _solved(problem, limit_persons)


def _settled(problem: FamilyProblem, counts: Integers, status: EstimateStatus) -> FamilySolution:
    """A family with only one possible answer."""
    # The only possible counts may still break a bound; no solver could tell more than this check does.
    unmet = unmet_constraints(problem, counts)
    if unmet:
        raise ConstraintError(
            f"{problem.where}: the children's only possible counts break {_quoted(unmet)}; "
            "make the bounds of the parent's geolevel imply those of its children"
        )
    stages = tuple(
        StageOutcome(tuple(name for name, _ in stage.labels), RoundingMethod.FIXED, 0.0)
        for stage in problem.rounding
    )
    estimate = counts.astype(np.float64)
    return _freeze(problem, counts, estimate, status, 0.0, RoundingOutcome(stages, widened=False))


def _solved(problem: FamilyProblem, limit: float) -> FamilySolution:
    allowed = problem.allowed()
    answer = solve_passes(problem, allowed, limit)
    # Only a failure asks for the conflict: its linear program is much larger than the problem of the family.
    if answer.residual_persons > limit:
        conflict = explain_conflict(problem)
        # A conflict is the plan's fault, and anything else that ends here is the solver's: the two have different
        # remedies.
        if conflict is not None:
            raise ConstraintError(conflict)
        raise SolverError(
            f"{problem.where}: least squares ended {answer.residual_persons:.3g} (in counts) from optimality, "
            f"want at most {limit:.3g}; status {answer.status.value}: {answer.status.remedy}"
        )
    rounded = round_counts(problem, allowed, answer.estimate)
    if rounded is None:
        raise ConstraintError(
            explain_conflict(problem)
            or f"{problem.where}: real-valued counts satisfy the constraints but no whole numbers do: "
            f"{_quoted([rows.name for rows in problem.constraints])}; make their rows nested, or drop one"
        )
    return _freeze(
        problem, rounded.counts, answer.estimate, answer.status, answer.residual_persons, rounded.outcome
    )


def _freeze(
    problem: FamilyProblem,
    counts: Integers,
    estimate: np.ndarray,
    status: EstimateStatus,
    residual: float,
    rounding: RoundingOutcome,
) -> FamilySolution:
    # Solutions are handed to several stages; none may change what another one reads.
    counts.setflags(write=False)
    estimate.setflags(write=False)
    # The last pass alone: earlier passes have other queries, so that their sums cannot be compared.
    objective = weighted_deviation(problem, problem.passes[-1], estimate)
    return FamilySolution(counts, estimate, status, residual, objective, rounding)


def _quoted(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
