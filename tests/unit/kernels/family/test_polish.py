"""The walk from face to face goes on where a face's equations are singular."""

import numpy as np
import pytest

from tallyveil.estimation.least_squares import constraint_bounds, pass_arrays
from tallyveil.estimation.problem import (
    EstimationPass,
    FamilyProblem,
    LinearConstraint,
    MeasuredQuery,
    RoundingStage,
)
from tallyveil.kernels.family.polish import CERTIFIED_PERSONS
from tallyveil.kernels.family.solver import FULL_SWAPS, solve_pass

CELLS = 10


def repeated_rows(variance, n_children):
    """Two constraints ask for the same sum of two cells, measured with a far larger variance than the others.

    What the cells give way then is so large that it swallows the rows' compliance: the equations are singular.
    """
    last = np.arange(CELLS) >= CELLS - 2
    precise = np.where(last, -1, np.arange(CELLS)).astype(np.int32)
    noisy = np.where(last, np.arange(CELLS) - CELLS + 2, -1).astype(np.int32)
    exact = np.full((n_children, 1), 6)
    rng = np.random.default_rng(1)
    return FamilyProblem(
        geocode="p",
        geolevel="tract",
        children=tuple(f"c{c}" for c in range(n_children)),
        support=np.arange(CELLS),
        parent_counts=None if n_children == 1 else np.full(CELLS, 6),
        measured=(
            MeasuredQuery("precise", precise, rng.integers(0, 9, (n_children, CELLS - 2)), 1.0),
            MeasuredQuery("noisy", noisy, rng.integers(0, 9, (n_children, 2)), variance),
        ),
        constraints=tuple(
            LinearConstraint(name, np.where(last, 0, -1).astype(np.int32), exact, exact)
            for name in ("one", "other")
        ),
        passes=(EstimationPass(("precise", "noisy")),),
        rounding=(RoundingStage((("precise", precise),)),),
    )


@pytest.mark.parametrize("n_children", [1, 2])
@pytest.mark.parametrize("variance", [1.0, 1e12, 1e14, 1e15, 1e16])
def test_rows_that_can_be_made_no_stiffer_are_not_solved_again(variance, n_children):
    """Rounding errors allow no compliance below that of the soft rows: the walk must go on to exact answers."""
    problem = repeated_rows(variance, n_children)
    arguments = problem, problem.allowed(), problem.passes[0], constraint_bounds(problem)
    answer = solve_pass(pass_arrays(*arguments))
    assert answer.residual <= CERTIFIED_PERSONS
    assert answer.steps <= FULL_SWAPS
    np.testing.assert_allclose(answer.estimate[:, -2:].sum(axis=1), 6, atol=CERTIFIED_PERSONS)
