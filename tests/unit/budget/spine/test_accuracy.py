"""Accuracy of areas: geounits asked as entities are what they are as geounits."""

import numpy as np
import pytest

from tallyveil.budget.spine.accuracy import family_accuracies, geolevel_accuracies
from tallyveil.budget.spine.variance import entity_variances, spine_variances
from tallyveil.geography.areas import geounits_as_entities


@pytest.mark.parametrize("seed", range(10))
def test_geounits_as_entities(random_spine, seed):
    rng = np.random.default_rng([95, seed])
    spine = random_spine(rng, int(rng.integers(2, 40)), 4)
    found = spine_variances(spine, [np.exp(rng.normal(0, 1, spine.n_geounits(level))) for level in range(4)])
    families = [geounits_as_entities(spine, level) for level in range(4)]
    for level, family in enumerate(families):
        rows = spine.locate(level, list(family.codes))
        np.testing.assert_allclose(entity_variances(found, family), found.variance[level][rows], rtol=1e-10)
    for one, two in zip(geolevel_accuracies(found), family_accuracies(found, families), strict=True):
        assert (one.name, one.areas) == (two.name, two.areas)
        values = (one.mean, one.median, one.q90, one.greatest)
        assert values == pytest.approx((two.mean, two.median, two.q90, two.greatest))
        assert one.median <= one.q90 <= one.greatest


def test_quantiles_by_hand(random_spine):
    spine = random_spine(np.random.default_rng(96), 10, 1)
    found = spine_variances(spine, [1 / np.arange(1.0, 11.0) ** 2])
    (only,) = geolevel_accuracies(found)
    assert (only.mean, only.median, only.q90, only.greatest) == pytest.approx((5.5, 5, 9, 10))
