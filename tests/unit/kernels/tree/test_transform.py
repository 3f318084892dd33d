"""The basis and the cascade against dense matrices, and every kernel against its twin."""

import numpy as np
import pytest
from tests.oracles.transform import (
    apply_blocks_reference,
    collect_from_cells_reference,
    reflect_reference,
    spread_to_cells_reference,
)

from tallyveil.estimation.intervals.algebra import coefficients, derive_algebra, information
from tallyveil.estimation.intervals.questions import cascade_of
from tallyveil.kernels.tree.sweep import (
    apply_blocks,
    collect_from_cells,
    reflect,
    spread_to_cells,
    straight_answers,
)
from tallyveil.schema.presets import load_preset

SPECS = (
    "total",
    "hhinstlevels",
    "hhgq",
    "instlevels*hispanic",
    "votingage*cenrace",
    "hispanic*cenrace",
    "detailed",
)


@pytest.fixture(scope="module")
def redistricting():
    schema = load_preset("pl94-persons")
    groups = [schema.query(spec) for spec in SPECS]
    return derive_algebra(schema, groups), groups


def test_reflections_are_their_own_inverse(redistricting):
    algebra, _ = redistricting
    cells = np.random.default_rng(1).normal(size=algebra.n_cells)
    changed = cells.copy()
    reflect(algebra.basis, changed)
    assert not np.allclose(changed, cells)
    assert np.linalg.norm(changed) == pytest.approx(np.linalg.norm(cells), rel=1e-13)
    twin = cells.copy()
    reflect_reference(algebra.basis, twin)
    np.testing.assert_allclose(changed, twin, atol=1e-12)
    reflect(algebra.basis, changed)
    np.testing.assert_allclose(changed, cells, atol=1e-12)


def test_spreading_and_collecting_are_adjoint_and_equal_their_twins(redistricting):
    algebra, groups = redistricting
    cascade = cascade_of(groups, algebra.n_cells)
    rng = np.random.default_rng(2)
    n = len(cascade.scale)
    values = rng.integers(-9, 9, n)
    weights, x = rng.random(len(groups)), rng.normal(size=algebra.n_cells)
    cells, twin = np.empty(algebra.n_cells), np.empty(algebra.n_cells)
    spread_to_cells(cascade, weights, values, np.empty(n + 1), cells)
    spread_to_cells_reference(cascade, weights, values, np.empty(n + 1), twin)
    np.testing.assert_allclose(cells, twin, atol=1e-11)
    answers, answers_twin = np.empty(n + 1), np.empty(n + 1)
    collect_from_cells(cascade, x, answers)
    collect_from_cells_reference(cascade, x, answers_twin)
    np.testing.assert_allclose(answers[:-1], answers_twin[:-1], atol=1e-11)
    weighted = np.repeat(weights, [group.size for group in groups]) * values
    assert weighted @ answers[:-1] == pytest.approx(cells @ x, rel=1e-10)


def test_cascade_reaches_the_cells_as_each_query_does(redistricting):
    algebra, groups = redistricting
    cascade = cascade_of(groups, algebra.n_cells)
    for q, group in enumerate(groups):
        answers = group.answers_of(np.arange(algebra.n_cells))
        expected = np.where(answers >= 0, answers + cascade.begin[q], -1)
        np.testing.assert_array_equal(straight_answers(cascade, q), expected)
    # the total goes through finer queries, only the finest straight to the cells
    assert (cascade.target < 0).sum() == 1


def test_blocks_are_the_information(redistricting):
    """Q'Q x, through blocks in the basis and through the cells."""
    algebra, groups = redistricting
    rng = np.random.default_rng(3)
    x = rng.normal(size=(1, algebra.n_cells))
    for group in groups:
        out, twin = np.zeros(algebra.n_cells), np.zeros(algebra.n_cells)
        blocks, own = information(algebra, group), coefficients(algebra, x)[0]
        apply_blocks(algebra.basis, blocks, own, out)
        apply_blocks_reference(algebra.basis, blocks, own, twin)
        np.testing.assert_allclose(out, twin, atol=1e-10)
        dense = group.adjoint(group.apply_dense(x), np.arange(algebra.n_cells))
        np.testing.assert_allclose(out, coefficients(algebra, dense)[0], atol=1e-9)


def test_projector_is_what_the_query_tells(redistricting):
    algebra, groups = redistricting
    x = np.random.default_rng(4).normal(size=(1, algebra.n_cells))
    for group in groups:
        once, twice = np.zeros(algebra.n_cells), np.zeros(algebra.n_cells)
        blocks = information(algebra, group, normalised=True)
        apply_blocks(algebra.basis, blocks, coefficients(algebra, x)[0], once)
        apply_blocks(algebra.basis, blocks, once, twice)
        np.testing.assert_allclose(once, twice, atol=1e-10)
        sizes = group.apply_dense(np.ones((1, algebra.n_cells)))
        averaged = group.adjoint(group.apply_dense(x) / sizes, np.arange(algebra.n_cells))
        np.testing.assert_allclose(once, coefficients(algebra, averaged)[0], atol=1e-10)
