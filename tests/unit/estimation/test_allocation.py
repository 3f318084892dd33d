"""Blocks by a model: the posterior of a block against every table, the sharing out against every way, and the prior."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles.allocation import block_laws_reference, cost_of, share_out_reference
from tests.samples import nightly

from tallyveil.estimation.allocation.model import families_of, grid_of, kinds_of
from tallyveil.estimation.allocation.prior import Sample, first_prior, learned
from tallyveil.kernels.allocation.flow import share_out
from tallyveil.kernels.allocation.law import Answers, Laws, Noise, block_laws, likelihoods
from tallyveil.schema.attribute import Attribute
from tallyveil.schema.schema import Schema

SCHEMA = Schema("small", (Attribute("age", ("young", "old")), Attribute("race", ("a", "b"))))
PARENT, ABOVE = np.array([[9, 0, 12, 5]]), np.array([[30, 4, 60, 20]])
GAUSSIAN, LAPLACE = Noise(0.5, 2, 9), Noise(0.9, 1, 22)


def model(noise, values):
    """A grid, a prior, families and the tables of a family's blocks."""
    kinds = kinds_of(SCHEMA)
    grid = grid_of(kinds, PARENT[0], 26, 4.0)
    families = families_of(kinds, PARENT, ABOVE, np.array([len(values)]))
    distinct, place = np.unique(values, return_inverse=True)
    table, _ = likelihoods(distinct, noise, grid)
    return grid, first_prior(grid), families, table, place.reshape(values.shape)


@pytest.mark.parametrize("noise", [GAUSSIAN, LAPLACE])
@pytest.mark.parametrize("noisy", [(2, -1, 4, 1), *map(nightly, ((0, 0, 0, 0), (-3, 5, 6, -2)))])
def test_laws_of_a_block_are_those_of_all_tables(noise, noisy):
    values = np.array([noisy])
    grid, prior, families, table, column = model(noise, values)
    laws = block_laws(Answers(values, column, table, noise), 0, families, prior, grid)
    joint = block_laws_reference(values[0], noise, families, prior, grid, most=20)
    totals = np.indices(joint.shape).sum(axis=0)
    for row in range(5):
        if row < 4:
            wanted = joint.sum(axis=tuple(axis for axis in range(4) if axis != row))
        else:
            wanted = np.bincount(totals.ravel(), joint.ravel())
        below = laws.below[laws.begin[row] : laws.begin[row + 1]]
        there = np.cumsum(wanted)[laws.first[row] : laws.first[row] + len(below)]
        # Weights below 1e-4 of sizes and factors are left out.
        np.testing.assert_allclose(below, there, atol=3e-3)


@st.composite
def laws_and_supply(draw):
    n, n_cells = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    first, below = [], []
    for _ in range(n * (n_cells + 1)):
        steps = draw(st.lists(st.integers(0, 5), min_size=1, max_size=4).filter(sum))
        first.append(draw(st.integers(0, 2)))
        below.append(np.cumsum(steps) / sum(steps))
    begin = np.cumsum([0, *map(len, below)])
    supply = np.array(draw(st.lists(st.integers(0, 4), min_size=n_cells, max_size=n_cells)))
    return Laws(np.array(first), begin, np.concatenate(below)), supply, n


@settings(max_examples=60, deadline=None)
@given(laws_and_supply())
def test_shared_out_counts_add_up_and_none_cost_less(asked):
    laws, supply, n = asked
    counts = share_out(laws, supply)
    assert counts.min() >= 0
    assert counts.sum(axis=0).tolist() == supply.tolist()
    assert cost_of(laws, counts) == share_out_reference(laws, supply, n)


def test_what_nobody_expects_is_divided_evenly():
    """Both blocks have nobody for sure, and six people must go somewhere."""
    laws = Laws(np.zeros(4, np.int64), np.arange(5), np.ones(4))
    assert share_out(laws, np.array([6])).tolist() == [[3], [3]]


def test_the_prior_learns_how_many_blocks_are_empty():
    rng = np.random.default_rng(5)
    truth = rng.poisson(np.array([4.0, 0.0, 6.0, 2.0]), (400, 4)) * (rng.random((400, 1)) < 0.5)
    family = np.repeat(np.arange(20), 20)
    parents = truth.reshape(20, 20, 4).sum(axis=1)
    kinds = kinds_of(SCHEMA)
    families = families_of(kinds, parents, parents, np.full(20, 20))
    values = truth + np.rint(rng.normal(0, 1.0, truth.shape)).astype(int)
    values[:, 1] = 0
    found = learned(
        Sample(values, family, families),
        Noise(1.0, 2, 6),
        lambda concentration: grid_of(kinds, parents.sum(axis=0), 400, concentration),
    )
    empty = np.exp(found.prior.log_size[families.size_class, 0]).sum(axis=1)
    assert empty.mean() == pytest.approx(np.mean(truth.sum(axis=1) == 0), abs=0.08)
