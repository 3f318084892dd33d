"""Hand one pass of a family to the compiled solver as plain arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tallyveil.arrays import Bools
from tallyveil.estimation.problem import EstimationPass, FamilyProblem
from tallyveil.estimation.reduction import Bounds
from tallyveil.kernels.family.program import PassArrays


def pass_arrays(
    problem: FamilyProblem, allowed: Bools, current: EstimationPass, bounds: Sequence[Bounds]
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
        inhabitants=np.ones(n_cells) if parent is None else parent.astype(np.float64),
        has_sums=parent is not None,
        labels=np.array([one.labels for one in queries], dtype=np.int32).reshape(len(queries), n_cells),
        widths=np.array([one.values.shape[1] for one in queries], dtype=np.int64),
        values=np.concatenate([np.zeros(0), *(one.values.reshape(-1) for one in queries)]),
        weights=np.array([one.weights for one in queries], dtype=np.float64).reshape(
            len(queries), problem.n_children
        ),
        bound_labels=np.array([one.labels for one in bounds], dtype=np.int32).reshape(len(bounds), n_cells),
        bound_widths=np.array([one.lower.shape[1] for one in bounds], dtype=np.int64),
        bound_groups=np.array([one.groups for one in bounds], dtype=np.int64).reshape(
            len(bounds), problem.n_children
        ),
        lower=np.concatenate([np.zeros(0), *(one.lower.reshape(-1) for one in bounds)]),
        upper=np.concatenate([np.zeros(0), *(one.upper.reshape(-1) for one in bounds)]),
    )
