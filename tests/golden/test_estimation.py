"""One family whose counts are pinned: they may change only on purpose."""

import numpy as np

from tallyveil.estimation.family import estimate_family
from tallyveil.estimation.problem import (
    UNBOUNDED,
    EstimationPass,
    FamilyProblem,
    LinearConstraint,
    MeasuredQuery,
    RoundingStage,
)

EXPECTED = [[9, 5, 2, 0, 0, 0], [4, 3, 0, 3, 2, 0], [10, 3, 3, 1, 0, 1]]
OBJECTIVE = 3.3388774689439407


def test_pinned_family():
    """Three blocks, two attributes of 2 and 3 levels, total first, one facility that only the second block has."""
    detailed = np.arange(6)
    first, total = detailed // 3, np.zeros(6, int)
    lower = np.array([[0, 0], [0, 2], [0, 0]])
    upper = np.array([[UNBOUNDED, 0], [UNBOUNDED, UNBOUNDED], [UNBOUNDED, UNBOUNDED]])
    problem = FamilyProblem(
        geocode="44001030100",
        geolevel="tract",
        children=("440010301001", "440010301002", "440010301003"),
        support=detailed,
        parent_counts=np.array([23, 11, 5, 4, 2, 1]),
        measured=(
            MeasuredQuery("total", total, np.array([[17], [13], [19]]), 1.5),
            MeasuredQuery("first", first, np.array([[16, 1], [8, 4], [17, 1]]), 4.0),
            MeasuredQuery(
                "detailed",
                detailed,
                np.array([[9, 4, 2, 0, -1, 1], [5, 3, -2, 5, 2, 0], [10, 2, 3, 1, 0, 0]]),
                6.0,
            ),
        ),
        constraints=(LinearConstraint("facilities", first, lower, upper),),
        passes=(EstimationPass(("total",), 0.1), EstimationPass(("first", "detailed"))),
        rounding=(
            RoundingStage((("total", total),)),
            RoundingStage((("first", first), ("detailed", detailed))),
        ),
    )
    solution = estimate_family(problem)
    np.testing.assert_array_equal(solution.counts, EXPECTED)
    np.testing.assert_allclose(solution.objective, OBJECTIVE, rtol=1e-9)
