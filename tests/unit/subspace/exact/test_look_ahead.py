"""Look-ahead trials: their tables, their decisions in balls, and their law by enumeration."""

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb

from tallyveil.errors import SolverError
from tallyveil.kernels.subspace.look_ahead import look_ahead_of
from tallyveil.noise import DiscreteGaussian, DiscreteLaplace, NoiseSource, insecure_key
from tallyveil.noise.balls import precision
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.exact import choose_sampler as choose_sampler_module
from tallyveil.subspace.exact import column_tables as column_tables_module
from tallyveil.subspace.exact.choose_sampler import choose_sampler
from tallyveil.subspace.exact.column_tables import (
    cell_weight,
    column_tables,
    scratch_memory,
    weight_beyond,
)
from tallyveil.subspace.exact.convolution import SumLaws
from tallyveil.subspace.exact.digits import NoiseAddress
from tallyveil.subspace.exact.look_ahead import look_ahead_proposal
from tallyveil.subspace.exact.look_ahead_row import ExactRow
from tallyveil.subspace.exact.proposals import single_mass
from tallyveil.subspace.exact.sampler import TrialSampler
from tallyveil.subspace.exact.two_way_grid import two_way_grid
from tallyveil.subspace.lattice import lattice_of
from tallyveil.subspace.mechanisms import GeneralisedGaussian, GeneralisedLaplace

ADDRESS = NoiseAddress(NoiseSource(insecure_key("look-ahead")), 0, 1)
LAWS = (DiscreteLaplace(Fraction(1)), DiscreteGaussian(Fraction(2)))


def two_way(n_rows, n_columns, n_free=0, fixed=()):
    cells = np.arange(n_rows * n_columns).reshape(n_rows, n_columns)
    sets = [*cells.tolist(), *cells.T.tolist(), *([cell] for cell in fixed)]
    return ConstraintSystem.from_sets(sets, cells.size + n_free)


def proposal(law, n_rows, n_columns, n_free=0, ignored_digits=0, fixed=()):
    lattice = lattice_of(two_way(n_rows, n_columns, n_free, fixed))
    grid, free = two_way_grid(lattice), lattice.structure.free
    return look_ahead_proposal(SumLaws(law), grid, free, lattice.n_cells, ignored_digits=ignored_digits)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("ignored", [52, 63])
def test_decisions_in_balls_agree_with_floats(law, ignored):
    for fixed in ((), (0, 5)):
        quick = TrialSampler(proposal(law, 4, 4, 2, 0, fixed), 18)
        slow = TrialSampler(proposal(law, 4, 4, 2, ignored, fixed), 18)
        assert (quick.draw(ADDRESS, range(6)) == slow.draw(ADDRESS, range(6))).all()


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("far", [0, 3, 40, 10**4])
def test_no_row_has_more_than_all_the_probability(law, far):
    """s_1(0) <= 1, and s_k is at least the sum over outcomes of t_k s_{k+1}, in balls, also far beyond the tables."""
    tables = column_tables(law, np.ones((5, 4), dtype=np.bool_))
    memory = scratch_memory(4, tables.sizes.length)
    left = np.array([far, -far, 1, -1])
    look_ahead_of(tables.columns, tables.roots, 3, left, memory)
    assert memory.s[0, 0] <= 1
    if far < 10:
        assert memory.s[0, 0] > 0.3
    row = ExactRow(tables, 3, left.tolist(), memory.s, ADDRESS, 0, 0)
    with precision(200):
        for k in range(3):
            weights = {w: row._weight(k, w) for w in range(-200, 201)}
            for y in (0, 1, -7, 30):
                total = sum(
                    (t * float(memory.s[k + 1, (y - w) % memory.s.shape[1]]) for w, t in weights.items()),
                    arb(0),
                )
                assert total + row._rest(k, 200) <= float(memory.s[k, y % memory.s.shape[1]])


def s_1_at_0(tables, m, left):
    memory = scratch_memory(tables.n_columns, tables.sizes.length)
    look_ahead_of(tables.columns, tables.roots, m, np.array(left), memory)
    return memory.s[0, 0]


def test_a_row_of_two_cells_with_wide_noise_has_at_most_all_the_probability():
    """Their sums of t are as large as they can be, and so are the errors of transforms."""
    active = np.ones((3, 6), dtype=np.bool_)
    active[2] = [True, False, False, True, False, False]
    tables = column_tables(DiscreteLaplace(Fraction(30)), active)
    for x in (0, 60, 300):
        assert 0.999 < s_1_at_0(tables, 3, [x, 0, 0, -x, 0, 0]) <= 1


def test_columns_far_from_zero_have_at_most_all_the_probability():
    """The weights beyond the reach of the tables are then larger than those within."""
    tables = column_tables(DiscreteLaplace(Fraction(4)), np.ones((18, 10), dtype=np.bool_))
    for x in (0, 100, 130, 175, 250):
        assert s_1_at_0(tables, 15, [x, -x] * 5) <= 1
        assert s_1_at_0(tables, 15, [x] * 10) <= 1  # no trial comes here, but the bound is for all x


def test_tables_whose_floats_err_too_much_are_refused(monkeypatch):
    monkeypatch.setattr(column_tables_module, "inflations", lambda active, length: np.ones(len(active)))
    with pytest.raises(SolverError, match="errors of floats"):
        column_tables(LAWS[0], np.ones((4, 4), dtype=np.bool_))


@pytest.mark.parametrize("law", LAWS)
def test_bounds_hold_beyond_the_tables(law):
    with precision(200):
        for reach in (0, 3, 20):
            total = sum((cell_weight(law, w) for w in range(reach + 1, reach + 400)), arb(0))
            assert weight_beyond(law, reach) >= total - arb(2) ** -180
    tables = column_tables(law, np.ones((6, 5), dtype=np.bool_))
    heads = tables.columns.heads
    assert (np.diff(heads, axis=1) <= 0).all()
    assert (heads > 0).all()


def test_a_last_row_beyond_the_table_is_weighed():
    trials = proposal(LAWS[0], 4, 4)
    flat = trials.tables.sizes.flat
    accepted = [
        trials._last_accepted(np.array([flat + 1, -flat - 1, 0, 0]), ADDRESS, draw, 0) for draw in range(400)
    ]
    assert np.mean(accepted) == pytest.approx(math.exp(-2), abs=0.06)


@pytest.mark.parametrize("law", LAWS)
def test_the_mass_agrees_with_the_sum_of_weights(law):
    """Rate of success times mass is the sum of all weights. Two rows: each column has its own weight twice."""
    trials = proposal(law, 3, 2, 1)
    x = np.arange(-30, 31)
    weight = np.array([math.exp(-2 * abs(v)) if law is LAWS[0] else math.exp(-v * v / 2) for v in x])
    total = np.convolve(np.convolve(weight, weight), weight)[90]
    n = 20_000
    _, accepted = trials.trials(ADDRESS, np.arange(n), 0, 1)
    with precision(160):
        single = single_mass(law)
        expected = total / float(trials.mass(single, 128) / single)
    assert 0.5 < expected < 1
    assert abs(accepted.mean() - expected) < 5 * math.sqrt(expected * (1 - expected) / n)


def test_large_tables_are_refused():
    with pytest.raises(SolverError, match="take too long"):
        column_tables(DiscreteLaplace(Fraction(10**4)), np.ones((100, 100), dtype=np.bool_))


@pytest.mark.parametrize(
    ("shape", "law", "name", "most_trials"),
    [
        ((20, 10), GeneralisedLaplace("l1", Fraction(1, 4)), "look-ahead trials", 1e5),
        ((4, 6), GeneralisedGaussian(Fraction(9)), "look-ahead trials", 9),
        ((4, 4), GeneralisedLaplace("l2", Fraction(1)), "mixture of look-ahead trials", 9),
    ],
)
def test_tables_whose_trials_by_rows_fail_are_drawn_exactly(shape, law, name, most_trials):
    n_rows, n_columns = shape
    lattice = lattice_of(two_way(n_rows, n_columns, 1))
    choice = choose_sampler(lattice, law, most_trials)
    assert choice.name == name
    assert choice.expected_trials < 10
    assert choice.total_variation <= Fraction(1, 1 << 60)
    noise = choice.sampler.draw(ADDRESS, range(20))
    assert noise.any(axis=0).all()
    assert not lattice.system.totals(noise.T).any()
    assert (choice.sampler.draw(ADDRESS, [14, 1]) == noise[[14, 1]]).all()


def test_an_l2_law_with_large_tables_is_left_to_the_chain(monkeypatch):
    for limit in ("QUICK_MIXTURE_WORK", "LARGEST_MIXTURE_WORK"):
        monkeypatch.setattr(choose_sampler_module, limit, 100)
    choice = choose_sampler(lattice_of(two_way(4, 4)), GeneralisedLaplace("l2", Fraction(1)), 9)
    assert choice.name == "chain"


def test_fixed_cells_have_no_noise():
    fixed = (0, 1, 12, 33, 57, 98, 99)
    lattice = lattice_of(two_way(12, 10, 0, fixed))
    choice = choose_sampler(lattice, GeneralisedLaplace("l1", Fraction(1, 2)))
    assert choice.name == "look-ahead trials"
    noise = choice.sampler.draw(ADDRESS, range(30))
    assert not noise[:, fixed].any()
    assert not lattice.system.totals(noise.T).any()
    assert noise.any(axis=0).sum() == 120 - len(fixed)


@pytest.mark.parametrize("fixed", [(1, 2, 3), (0, 1, 2, 3), (0, 4, 8, 2, 3), (0, 5, 1, 4)])
def test_cells_that_are_alone_in_a_margin_have_no_noise(fixed):
    """They are left out of the grid, and with them cells that are then alone in another margin."""
    lattice = lattice_of(two_way(4, 4, 0, fixed))
    grid = two_way_grid(lattice)
    moving = lattice.sparse_basis.toarray().any(axis=1)
    assert np.array_equal(np.sort(grid[grid >= 0]), np.flatnonzero(moving))
    assert ((grid >= 0).sum(axis=1) >= 2).all()
    for law in (GeneralisedLaplace("l1", Fraction(1)), GeneralisedGaussian(Fraction(1, 100))):
        choice = choose_sampler(lattice, law)
        assert choice.name == "look-ahead trials"
        assert not lattice.system.totals(choice.sampler.draw(ADDRESS, range(20)).T).any()


def test_grids_of_other_constraints_are_not_two_way():
    assert two_way_grid(lattice_of(ConstraintSystem.from_sets([[0, 1, 2], [1, 2, 3]], 4))) is None
    triangle = ConstraintSystem.from_sets([[0, 1, 6], [1, 2, 7], [0, 2, 8], [6, 7, 8]], 9)
    assert two_way_grid(lattice_of(triangle)) is None
    diagonal = two_way(4, 4, 0, (0, 5, 10, 15))
    assert two_way_grid(lattice_of(diagonal)) is None  # no row to end with
    one = two_way_grid(lattice_of(two_way(4, 5, 0, (7,))))
    assert one.shape == (5, 4)
    assert (one >= 0).sum() == 19
    assert (one[-1] >= 0).all()
