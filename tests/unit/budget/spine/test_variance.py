"""Variances on the tree against dense generalised least squares, and by hand."""

import numpy as np
import pytest
from tests.oracles.spine_matrices import SpineMatrix
from tests.oracles.variance import raise_parts_reference
from tests.samples import ten

from tallyveil.budget.spine.variance import entity_parts, entity_variances, spine_variances
from tallyveil.errors import BudgetError
from tallyveil.geography.areas import geounits_as_entities
from tallyveil.geography.build import spine_from_columns
from tallyveil.kernels.tree.variance import raise_parts


def members(family):
    wanted = np.zeros((family.n_entities, family.n_finest))
    for entity in range(family.n_entities):
        wanted[entity, family.members_of(entity)] = 1
    return wanted


def precisions_of(rng, spine, zeros, known=0.0):
    found = []
    for level in range(spine.n_levels):
        n = spine.n_geounits(level)
        one = np.exp(rng.uniform(-2, 2, n))
        one[rng.random(n) < zeros] = 0
        one[rng.random(n) < known] = np.inf
        found.append(one)
    return found


@pytest.mark.parametrize("seed", ten(range(200)))
def test_every_variance_is_that_of_dense_least_squares(random_spine, random_family, dense_gls, seed):
    rng = np.random.default_rng([11, seed])
    spine = random_spine(rng, int(rng.integers(1, 14)), int(rng.integers(1, 6)), one_root=bool(seed % 2))
    family = random_family(rng, spine, 6)
    precisions = precisions_of(
        rng, spine, zeros=[0, 0, 0.3, 0.6][seed % 4], known=[0, 0, 0, 0.1, 0][seed % 5]
    )
    found = spine_variances(spine, precisions)
    rows = SpineMatrix(spine).dense().astype(float)
    weights = np.concatenate(precisions)
    np.testing.assert_allclose(
        np.concatenate(found.variance), dense_gls(rows, weights, rows), rtol=1e-10, atol=1e-10
    )
    np.testing.assert_allclose(
        entity_variances(found, family), dense_gls(rows, weights, members(family)), rtol=1e-10, atol=1e-10
    )


@pytest.mark.parametrize("seed", ten(range(40)))
def test_compiled_step_is_its_plain_twin(random_spine, random_family, seed):
    rng = np.random.default_rng([12, seed])
    spine = random_spine(rng, int(rng.integers(2, 30)), 4)
    found = spine_variances(
        spine, precisions_of(rng, spine, zeros=[0, 0.5][seed % 2], known=[0, 0, 0.3][seed % 3])
    )
    levels = entity_parts(found, random_family(rng, spine, 5))
    for level in range(spine.finest):
        below = levels[level + 1][0]
        family = found.family(level)
        raised, _ = raise_parts(below, family._replace(below=family.below.copy()))
        for entity, wanted in enumerate(raise_parts_reference(below, family)):
            span = slice(*raised.begin[entity : entity + 2])
            assert raised.geounit[span].tolist() == list(wanted)
            slope, spread = np.array(list(wanted.values())).T
            told = np.isfinite(spread)  # elsewhere the slope means nothing
            np.testing.assert_allclose(raised.slope[span][told], slope[told], rtol=1e-12, atol=1e-14)
            np.testing.assert_allclose(raised.spread[span], spread, rtol=1e-10, atol=1e-12)


def test_two_children_by_hand():
    spine = spine_from_columns({"A": ["a", "a"], "B": ["b0", "b1"]}, ("A", "B"))
    found = spine_variances(spine, [np.array([1.0]), np.array([1.0, 1.0])])
    # Root: 1 and, from the children, 1/2. Child: 1 + (1 + 1)^-1.
    assert found.variance[0].tolist() == pytest.approx([2 / 3])
    assert found.variance[1].tolist() == pytest.approx([2 / 3, 2 / 3])


def test_an_answer_that_is_not_determined_has_an_infinite_variance_for_complex_precisions_too(random_spine):
    spine = random_spine(np.random.default_rng(7), 6, 3, one_root=True)
    found = spine_variances(spine, [np.zeros(spine.n_geounits(level), complex) for level in range(3)])
    family = geounits_as_entities(spine, 1)
    assert np.isposinf(entity_variances(found, family).real).all()


def test_what_is_found_cannot_be_changed(random_spine):
    rng = np.random.default_rng(8)
    spine = random_spine(rng, 6, 3)
    found = spine_variances(spine, precisions_of(rng, spine, zeros=0))
    for array in (*found.precisions, *found.below, *found.variance):
        assert not array.flags.writeable


def test_derivative_from_complex_precisions(random_spine, random_family):
    rng = np.random.default_rng(5)
    spine = random_spine(rng, 20, 4)
    family = random_family(rng, spine, 8)
    precisions = precisions_of(rng, spine, zeros=0)

    def at(step):
        # All are complex together, since the kernels would be compiled once more for a mixture.
        moved = [one + step * (level == 2) for level, one in enumerate(precisions)]
        found = spine_variances(spine, moved)
        return np.concatenate([*found.variance, entity_variances(found, family)])

    exact = at(1e-30j).imag / 1e-30
    np.testing.assert_allclose(exact, (at(1e-6) - at(-1e-6)) / 2e-6, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(at(1e-30j).real, at(0), rtol=1e-14)


def test_precisions_of_another_spine_are_refused(random_spine):
    rng = np.random.default_rng(6)
    spine = random_spine(rng, 9, 3)
    with pytest.raises(BudgetError, match="precisions of"):
        spine_variances(spine, [np.ones(1)])
    with pytest.raises(BudgetError, match="0 or more"):
        spine_variances(spine, [-np.ones(spine.n_geounits(level)) for level in range(3)])
