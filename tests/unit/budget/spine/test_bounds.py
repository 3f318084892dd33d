"""Bounds on variances against all groups of small spines."""

from itertools import product

import numpy as np
import pytest
from tests.samples import few
from tests.unit.geography.test_distance_bounds import LIMIT, family_on, partitions, spine_of

from tallyveil.budget.spine.bounds import variance_bounds
from tallyveil.budget.spine.variance import entity_variances, spine_variances
from tallyveil.errors import BudgetError, GeographyError


def variances_on(spine, precisions):
    return spine_variances(
        spine, [np.full(spine.n_geounits(level), value) for level, value in enumerate(precisions)]
    )


@pytest.mark.parametrize("seed", few(2, range(4)))
def test_the_bound_is_the_least_variance_over_all_groups(seed):
    rng = np.random.default_rng([94, seed])
    blocks = [[f"b{t}{k}" for k in range(int(n))] for t, n in enumerate(rng.integers(2, 5, 2))]
    every = [block for tract in blocks for block in tract]
    masks = [set(rng.permutation(every)[: int(rng.integers(1, len(every) + 1))].tolist()) for _ in range(8)]
    # Every second state's total is exact, and some geolevels say nothing.
    precisions = [
        np.inf if seed % 2 else 0.3,
        rng.choice([0, 1.0]),
        rng.uniform(0.1, 3),
        rng.choice([0.01, 1.0]),
    ]
    reached, bounds = [], []
    for made in product(*(list(partitions(tract, 2)) for tract in blocks)):
        variances = variances_on(spine_of(made), precisions)
        family = family_on(variances.spine, masks)
        reached.append(entity_variances(variances, family))
        bounds.append(variance_bounds(variances, family, "Block_Group", LIMIT))
    least = np.min(reached, axis=0)
    # Which groups the spine has does not matter to the bound.
    for bound in bounds:
        np.testing.assert_allclose(bound, least, rtol=1e-9, atol=1e-12)


def test_what_has_no_bound_is_refused():
    spine = spine_of([[["a", "b"], ["c"]]])
    family = family_on(spine, [{"a"}])
    with pytest.raises(GeographyError, match="just above the finest"):
        variance_bounds(variances_on(spine, (1, 1, 1, 1)), family, "Tract", LIMIT)
    with pytest.raises(BudgetError, match="no groups determine"):
        variance_bounds(variances_on(spine, (1, 1, 0, 0)), family, "Block_Group", LIMIT)
    moved = spine_variances(spine, [np.ones(1), np.ones(1), np.array([1.0, 2.0]), np.ones(3)])
    with pytest.raises(BudgetError, match="--no-bypass"):
        variance_bounds(moved, family, "Block_Group", LIMIT)
