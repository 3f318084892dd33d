"""Small families to work on."""

import numpy as np
import pytest

from tallyveil.estimation.problem import EstimationPass, FamilyProblem, MeasuredQuery, RoundingStage


@pytest.fixture
def make_family():
    """Build a family whose total and detailed queries were measured; keywords replace its parts."""

    def build(parent_counts=(6, 4, 0, 3), n_children=3, seed=1, **parts):
        rng = np.random.default_rng([9, seed])
        parent = None if parent_counts is None else np.array(parent_counts)
        n_cells = 4 if parent is None else parent.size
        total, detailed = np.zeros(n_cells, np.int32), np.arange(n_cells, dtype=np.int32)
        values = {
            "geocode": "parent-p",
            "geolevel": "tract",
            "children": tuple(f"child-{chr(97 + c)}" for c in range(n_children)),
            "support": np.arange(n_cells),
            "parent_counts": parent,
            "measured": (
                MeasuredQuery("total", total, rng.integers(-2, 9, (n_children, 1)), 1.0),
                MeasuredQuery("detailed", detailed, rng.integers(-2, 5, (n_children, n_cells)), 4.0),
            ),
            "constraints": (),
            "passes": (EstimationPass(("total", "detailed")),),
            "rounding": (RoundingStage((("total", total),)), RoundingStage((("detailed", detailed),))),
        }
        return FamilyProblem(**(values | parts))

    return build
