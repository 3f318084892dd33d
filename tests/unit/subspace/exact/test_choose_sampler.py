from fractions import Fraction

import numpy as np
import pytest
from tests.samples import few

from tallyveil.noise import NoiseSource, insecure_key
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.exact.choose_sampler import choose_sampler
from tallyveil.subspace.exact.digits import NoiseAddress
from tallyveil.subspace.lattice import lattice_of
from tallyveil.subspace.mechanisms import GeneralisedGaussian, GeneralisedLaplace

ADDRESS = NoiseAddress(NoiseSource(insecure_key("choose")), 0, 3)
L1, L2 = GeneralisedLaplace("l1", Fraction(1, 4)), GeneralisedLaplace("l2", Fraction(1, 4))
GAUSSIAN = GeneralisedGaussian(Fraction(30))


def two_way(n_rows, n_columns):
    cells = np.arange(n_rows * n_columns).reshape(n_rows, n_columns)
    return ConstraintSystem.from_sets([*cells.tolist(), *cells.T.tolist()], cells.size)


CROSSING = ConstraintSystem.from_sets(
    [[0, 1, 6, 7, 8, 9, 12, 13], [2, 3, 6, 7, 10, 11, 12, 13], [4, 5, 8, 9, 10, 11, 12, 13]], 14
)
NESTED = ConstraintSystem.from_sets([range(9), [0, 1, 2, 3], [1, 2], [5, 6]], 10)


@pytest.mark.parametrize(
    ("system", "law", "name"),
    few(
        8,
        [
            (ConstraintSystem.from_sets([], 3), L1, "split sums"),
            (NESTED, L1, "split sums"),
            (NESTED, GAUSSIAN, "split sums"),
            (NESTED, L2, "mixture of split sums"),
            (two_way(5, 2), L1, "dynamic programming"),
            (two_way(2, 5), GAUSSIAN, "dynamic programming"),
            (two_way(4, 4), L1, "look-ahead trials"),
            (two_way(4, 4), GeneralisedLaplace("l1", Fraction(1, 90)), "trials by rows"),
            (two_way(4, 4), L2, "mixture of look-ahead trials"),
            (two_way(3, 4), GAUSSIAN, "look-ahead trials"),
            (two_way(3, 3), L1, "look-ahead trials"),
            (two_way(5, 2), L2, "mixture of look-ahead trials"),
            (CROSSING, L1, "trials by block sums"),
            (CROSSING, L2, "mixture of trials by block sums"),
            (CROSSING, GAUSSIAN, "nearest planes"),
        ],
    ),
)
def test_choice_keeps_the_constraints_and_any_batching(system, law, name):
    lattice = lattice_of(system)
    choice = choose_sampler(lattice, law)
    assert choice.name == name
    assert choice.reason
    assert choice.total_variation <= Fraction(1, 1 << 60)
    assert (choice.total_variation == 0) is (law is not L2)
    noise = choice.sampler.draw(ADDRESS, range(200))
    assert noise.shape == (200, system.n_cells)
    assert noise.any()
    assert not system.totals(noise.T).any()
    again = choice.sampler.draw(ADDRESS, [150, 3, 77])
    assert (again == noise[[150, 3, 77]]).all()


def test_a_hopeless_system_is_left_to_the_chain():
    rng = np.random.default_rng(4)
    lattice = lattice_of(ConstraintSystem.from_matrix((rng.random((12, 60)) < 0.4).astype(int)))
    choice = choose_sampler(lattice, GeneralisedLaplace("l1", Fraction(1, 20)), most_trials=1000)
    assert choice.sampler is None
    assert choice.name == "chain"
    assert choice.total_variation is None
    assert "use a chain" in choice.reason


def test_the_threshold_of_nearest_planes():
    lattice = lattice_of(CROSSING)
    assert choose_sampler(lattice, GeneralisedGaussian(Fraction(30))).name == "nearest planes"
    assert choose_sampler(lattice, GeneralisedGaussian(Fraction(1, 8))).name != "nearest planes"
