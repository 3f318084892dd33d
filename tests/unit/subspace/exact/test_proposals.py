from fractions import Fraction

import numpy as np
import pytest

from tallyveil.errors import SolverError
from tallyveil.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    NoiseSource,
    insecure_key,
)
from tallyveil.noise.balls import precision
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.exact import sampler
from tallyveil.subspace.exact.convolution import SumLaws
from tallyveil.subspace.exact.digits import NoiseAddress
from tallyveil.subspace.exact.nearest_planes import nearest_planes
from tallyveil.subspace.exact.sampler import accepted_sums, block_proposal, single_mass, two_way_proposal
from tallyveil.subspace.lattice import lattice_of

ADDRESS = NoiseAddress(NoiseSource(insecure_key("trials")), 0, 1)


def two_way(n_rows, n_columns):
    cells = np.arange(n_rows * n_columns).reshape(n_rows, n_columns)
    return ConstraintSystem.from_sets([*cells.tolist(), *cells.T.tolist()], cells.size)


def test_whole_number_acceptance_agrees_with_floats(monkeypatch):
    laws = SumLaws(DiscreteLaplace(Fraction(3)))
    rng = np.random.default_rng(2)
    draws, sites = np.arange(300), np.zeros(300, dtype=np.int64)
    sums = rng.integers(-4, 5, (300, 3))
    words = ADDRESS.numbers(draws, 0, 1)[:, 0]
    quick = accepted_sums(laws, (1, 2, 5), sums, words, ADDRESS, draws, sites)
    monkeypatch.setattr(sampler, "_FLOOR", 2.0)  # nothing is clear in floats any more
    assert (accepted_sums(laws, (1, 2, 5), sums, words, ADDRESS, draws, sites) == quick).all()
    assert 0 < quick.mean() < 1


def test_sums_beyond_all_tables_are_refused():
    laws = SumLaws(DiscreteGaussian(Fraction(1)))
    sums = np.full((50, 1), 10**6)
    words = ADDRESS.numbers(np.arange(50), 0, 1)[:, 0]
    words[0] = 0  # undecided in floats
    assert not accepted_sums(
        laws, (2,), sums, words, ADDRESS, np.arange(50), np.zeros(50, dtype=np.int64)
    ).any()


@pytest.mark.parametrize("variance", [Fraction(1, 2), Fraction(5)])
def test_masses_agree_with_the_lattice_sum(variance):
    """Rate of success times mass is the sum of all weights, for every kind of trial."""
    lattice = lattice_of(two_way(2, 3))
    laws = SumLaws(DiscreteGaussian(variance))
    reach = np.arange(-40, 41)
    a, b = np.meshgrid(reach, reach)
    total = np.exp(-(a * a + b * b + (a + b) ** 2) / float(variance)).sum()  # both rows alike
    for proposal in (
        block_proposal(laws, lattice.structure, 6),
        two_way_proposal(laws, lattice.structure, 6),
        nearest_planes(lattice, variance),
    ):
        n = 400_000
        _, accepted = proposal.trials(ADDRESS, np.zeros(1, dtype=np.int64), 0, n)
        with precision(160):
            mass = float(proposal.mass(single_mass(laws.law), 128))
        expected = total / mass
        assert abs(accepted.mean() - expected) < 5 * np.sqrt(expected * (1 - expected) / n) + 1e-9


def test_large_coefficients_are_refused():
    lattice = lattice_of(ConstraintSystem.from_matrix([[1, 3_000_000, 7]]))
    with pytest.raises(SolverError, match="2\\*\\*20"):
        block_proposal(SumLaws(DiscreteLaplace(Fraction(1))), lattice.structure, 3)
