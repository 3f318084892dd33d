import numpy as np

from tallyveil.estimation.highs import explain_conflict
from tallyveil.estimation.problem import EstimationPass, FamilyProblem, MeasuredQuery, RoundingStage


def test_a_root_without_constraints_has_no_conflict():
    cells = np.arange(2, dtype=np.int32)
    problem = FamilyProblem(
        geocode="0",
        geolevel="nation",
        children=("0",),
        support=np.arange(2),
        parent_counts=None,
        measured=(MeasuredQuery("detailed", cells, np.array([[3, 4]]), 1.0),),
        constraints=(),
        passes=(EstimationPass(("detailed",)),),
        rounding=(RoundingStage((("detailed", cells),)),),
    )
    assert explain_conflict(problem) is None
