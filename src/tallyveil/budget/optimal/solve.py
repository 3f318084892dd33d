"""Search for the best shares, until a lower bound certifies that no others are much better."""

from dataclasses import dataclass

import numpy as np

from tallyveil.accounting.decimals import at_most
from tallyveil.arrays import Floats
from tallyveil.budget.optimal.interior import from_inside
from tallyveil.budget.optimal.program import Evaluated, ShareProgram, Variances
from tallyveil.budget.optimal.step import step_from
from tallyveil.errors import SolverError

GAP = 5e-4
"""Relative gap between the objective and its lower bound at which the search stops."""
MOST_ROUNDS = 60
"""Number of cheap steps after which the interior-point method takes over. Its steps cost an evaluation for each share.
"""
FIRST_EXPONENT = 0.5
"""Exponent of every share in the model until a step has shown one."""
LEAST_EXPONENT = -0.5
"""Exponents that steps show are raised to at least this, so that one odd step cannot upset the model."""
LEAST_SIZE = 0.01
"""Smallest size of an exponent, because the model divides by it."""
LEAST_MOVE = 1e-9
"""A share whose logarithm moves by less shows nothing of its exponent."""
CAUTIOUS = 0.9
"""An exponent above this becomes 1 after a step that failed. If all are 1, the next step cannot fail."""


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """Shares, and a certificate of how good they are.

    Attributes:
        shares: They sum to 1; shape (shares,).
        evaluated: The variances there.
        objective: The program's objective there.
        bound: Lower bound of the objective of any shares.
    """

    shares: Floats
    evaluated: Evaluated
    objective: float
    bound: float

    @property
    def gap(self) -> float:
        """By which fraction of the objective other shares could at most be better."""
        return max(0.0, 1.0 - self.bound / self.objective)


def solve(
    program: ShareProgram, variances: Variances, start: Floats, *, gap: float = GAP, enough: float = 0.0
) -> Solution:
    """The best shares, to within a relative gap.

    Args:
        program: What is minimised.
        variances: The variances and their derivatives at any shares.
        start: Shares within the program's limits, and above its least shares.
        gap: Relative gap at which the search stops.
        enough: An objective at which the search stops as well.
    Raises:
        SolverError: the gap was not reached.
    """
    shares, evaluated = start, variances(start)
    exponents, bound = np.full(len(start), FIRST_EXPONENT), 0.0
    for _ in range(MOST_ROUNDS):
        here = program.objective(evaluated.values)
        bound = max(bound, program.best_bound(evaluated, shares))
        if bound >= here * (1 - gap) or here <= enough:
            return Solution(shares, evaluated, here, bound)
        step = step_from(program, shares, evaluated, exponents)
        tried = variances(step.shares)
        if program.objective(tried.values) < here and program.within_limits(tried.values):
            weights = program.together(step.multipliers, step.prices)
            exponents = _seen(weights, (shares, evaluated), (step.shares, tried), exponents)
            shares, evaluated = step.shares, tried
        elif exponents.min() == 1.0:
            break  # only rounding errors can hide that a cautious step improves
        else:
            exponents = np.where(exponents > CAUTIOUS, 1.0, _off_zero(0.5 * (exponents + 1.0)))
    # Variances are convex, so that this is within all limits; and it is away from the least shares, as the start is.
    middle = 0.5 * (start + shares)
    for better, seen in from_inside(program, variances, middle, variances(middle)):
        shares, evaluated, here = better, seen, program.objective(seen.values)
        bound = max(bound, program.best_bound(evaluated, shares))
        if bound >= here * (1 - gap) or here <= enough:
            return Solution(shares, evaluated, here, bound)
    raise SolverError(
        f"the best shares were not found to within a relative gap of {gap:g}: the aims cannot have less than "
        f"{bound:.6g}, and the shares found have {at_most(program.objective(evaluated.values))}. Name fewer aims or "
        "targets, or choose aims and targets that are less unlike each other."
    )


def _seen(
    weights: Floats, before: tuple[Floats, Evaluated], after: tuple[Floats, Evaluated], exponents: Floats
) -> Floats:
    """The exponents for the next step: halfway to those that would have foreseen the slopes after the last one."""
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = np.log(after[0] / before[0])
        fallen = np.log((weights @ before[1].slopes) / (weights @ after[1].slopes))
        seen = fallen / moved - 1.0
    known = np.isfinite(seen) & (np.abs(moved) > LEAST_MOVE)
    halfway = np.clip(0.5 * (seen + exponents), LEAST_EXPONENT, 1.0)
    return _off_zero(np.where(known, halfway, exponents))


def _off_zero(exponents: Floats) -> Floats:
    moved: Floats = np.where(np.abs(exponents) < LEAST_SIZE, LEAST_SIZE, exponents)
    return moved
