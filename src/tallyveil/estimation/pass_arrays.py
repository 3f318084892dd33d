"""One pass of a family as plain arrays, which the compiled solver takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tallyveil.arrays import Bools, Floats, Int32s, Integers
from tallyveil.estimation.problem import UNBOUNDED, EstimationPass, FamilyProblem
from tallyveil.kernels.family.program import PassArrays


@dataclass(frozen=True, slots=True)
class SumBounds:
    """Bounds on sums of cells, by group of children; a constraint or a carried query.

    Attributes:
        labels: Row of each cell, -1: none.
        lower: Shape (groups, k), -inf: none.
        upper: Shape (groups, k), inf: none.
        groups: Group of each child, shape (C,).
    """

    labels: Int32s | Integers
    lower: Floats
    upper: Floats
    groups: Integers


def constraint_bounds(problem: FamilyProblem) -> tuple[SumBounds, ...]:
    """The problem's constraints with trivial bounds taken away."""
    all_bounds = []
    for rows in problem.constraints:
        # Counts are not negative, so a lower bound of zero or less never binds.
        lower = np.where(rows.lower <= 0, -np.inf, rows.lower.astype(np.float64))
        # an upper bound of zero forbids the cells, so that no row is needed
        upper = np.where((rows.upper >= UNBOUNDED) | (rows.upper <= 0), np.inf, rows.upper.astype(np.float64))
        all_bounds.append(SumBounds(rows.labels, lower, upper, rows.group_of))
    return tuple(all_bounds)


def pass_arrays(
    problem: FamilyProblem, allowed: Bools, current: EstimationPass, bounds: Sequence[SumBounds]
) -> PassArrays:
    """Arrays of one pass.

    Args:
        problem: The family.
        allowed: Where children may be above zero, shape (C, s).
        current: The pass.
        bounds: Constraints and the rows carried from earlier passes, on support cells.
    """
    n_cells, parent = problem.n_cells, problem.parent_counts
    queries = problem.queries(current)
    return PassArrays(
        allowed=np.ascontiguousarray(allowed),
        # A root has no parent's counts to sum to; ones stand for them in the shares of merged cells.
        inhabitants=np.ones(n_cells) if parent is None else parent.astype(np.float64),
        has_sums=parent is not None,
        # Shapes are given even where a list is empty: the kernels are compiled for arrays of two dimensions.
        labels=np.array([query.labels for query in queries], dtype=np.int32).reshape(len(queries), n_cells),
        widths=np.array([query.values.shape[1] for query in queries], dtype=np.int64),
        values=np.concatenate([np.zeros(0), *(query.values.reshape(-1) for query in queries)]),
        weights=np.array([query.weights for query in queries], dtype=np.float64).reshape(
            len(queries), problem.n_children
        ),
        bound_labels=np.array([rows.labels for rows in bounds], dtype=np.int32).reshape(len(bounds), n_cells),
        bound_widths=np.array([rows.lower.shape[1] for rows in bounds], dtype=np.int64),
        bound_groups=np.array([rows.groups for rows in bounds], dtype=np.int64).reshape(
            len(bounds), problem.n_children
        ),
        lower=np.concatenate([np.zeros(0), *(rows.lower.reshape(-1) for rows in bounds)]),
        upper=np.concatenate([np.zeros(0), *(rows.upper.reshape(-1) for rows in bounds)]),
    )
