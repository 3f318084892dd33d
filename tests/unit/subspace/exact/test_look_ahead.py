"""Look-ahead trials: their tables, their decisions in balls, and their law by enumeration."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from flint import arb
from tests.oracles.look_ahead import look_ahead_of

from tallyveil.errors import SolverError
from tallyveil.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    NoiseSource,
    insecure_key,
)
from tallyveil.noise.balls import precision
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.exact import choose_sampler as choose_sampler_module
from tallyveil.subspace.exact import column_tables as column_tables_module
from tallyveil.subspace.exact.choose_sampler import choose_sampler
from tallyveil.subspace.exact.column_tables import column_tables, exponential, scratch_memory
from tallyveil.subspace.exact.convolution import cell_weight, weight_beyond
from tallyveil.subspace.exact.digits import NoiseAddress
from tallyveil.subspace.exact.look_ahead import (
    ExactRow,
    LookAheadProposal,
    look_ahead_proposal,
    unequal_sampler,
)
from tallyveil.subspace.exact.sampler import TrialSampler, single_mass
from tallyveil.subspace.exact.two_way_grid import LawGrid, histories, two_way_grid
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
    found = look_ahead_proposal(law, two_way_grid(lattice), lattice.structure.free, lattice.n_cells)
    return replace(found, ignored_digits=ignored_digits)


def same_law(law, n_rows, n_columns):
    return LawGrid((law,), np.zeros((n_rows, n_columns), dtype=np.int64))


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
    tables = column_tables(same_law(law, 5, 4))
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
    grid = same_law(DiscreteLaplace(Fraction(30)), 3, 6)
    grid.law_of[2] = [0, -1, -1, 0, -1, -1]
    tables = column_tables(grid)
    for x in (0, 60, 300):
        assert 0.999 < s_1_at_0(tables, 3, [x, 0, 0, -x, 0, 0]) <= 1


def test_columns_far_from_zero_have_at_most_all_the_probability():
    """The weights beyond the reach of the tables are then larger than those within."""
    tables = column_tables(same_law(DiscreteLaplace(Fraction(4)), 18, 10))
    for x in (0, 100, 130, 175, 250):
        assert s_1_at_0(tables, 15, [x, -x] * 5) <= 1
        assert s_1_at_0(tables, 15, [x] * 10) <= 1  # no trial comes here, but the bound is for all x


def test_tables_whose_floats_err_too_much_are_refused(monkeypatch):
    monkeypatch.setattr(
        column_tables_module, "inflations", lambda laws, exponents, length: np.ones(len(laws))
    )
    with pytest.raises(SolverError, match="errors of floats"):
        column_tables(same_law(LAWS[0], 4, 4))


@pytest.mark.parametrize("law", LAWS)
def test_bounds_hold_beyond_the_tables(law):
    with precision(200):
        for reach in (0, 3, 20):
            total = sum((cell_weight(law, w) for w in range(reach + 1, reach + 400)), arb(0))
            assert weight_beyond(law, reach) >= total - arb(2) ** -180
    tables = column_tables(same_law(law, 6, 5))
    heads = tables.columns.heads
    assert (np.diff(heads, axis=1) <= 0).all()
    assert (heads > 0).all()


def test_a_last_row_beyond_the_table_is_weighed():
    trials = proposal(LAWS[0], 4, 4)
    (flat,) = trials.tables.sizes.flats
    left = [flat + 1, -flat - 1, 0, 0]
    rows = [
        ExactRow(trials.tables, 1, left, np.zeros((4, 2)), ADDRESS, draw, 0).drawn() for draw in range(400)
    ]
    assert np.mean([row is not None for row in rows]) == pytest.approx(math.exp(-2), abs=0.06)
    assert all(row == left for row in rows if row)


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
        column_tables(same_law(DiscreteLaplace(Fraction(10**4)), 100, 100))


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
    assert np.array_equal(np.sort(grid.cells), np.flatnonzero(moving))
    assert (grid.moving.sum(axis=1) >= 2).all()
    for law in (GeneralisedLaplace("l1", Fraction(1)), GeneralisedGaussian(Fraction(1, 100))):
        choice = choose_sampler(lattice, law)
        assert choice.name == "look-ahead trials"
        assert not lattice.system.totals(choice.sampler.draw(ADDRESS, range(20)).T).any()


def test_grids_of_other_constraints_are_not_two_way():
    assert two_way_grid(lattice_of(ConstraintSystem.from_sets([[0, 1, 2], [1, 2, 3]], 4))) is None
    triangle = ConstraintSystem.from_sets([[0, 1, 6], [1, 2, 7], [0, 2, 8], [6, 7, 8]], 9)
    assert two_way_grid(lattice_of(triangle)) is None
    three_levels = lattice_of(ConstraintSystem.from_sets(three_way(3, 3, 3), 27))
    assert two_way_grid(three_levels) is None
    assert two_way_grid(lattice_of(ConstraintSystem.from_matrix([[1, 2, 1], [1, 1, 0]]))) is None
    assert two_way_grid(lattice_of(ConstraintSystem.from_sets([[0, 1], [1, 2, 3], [0, 2, 4]], 5))) is None


def test_a_fixed_cell_is_in_an_early_row():
    one = two_way_grid(lattice_of(two_way(4, 5, 0, (7,))))
    assert one.moving.shape == (5, 4)
    assert one.moving.sum() == 19
    assert one.moving[-1].all()


def three_way(n_rows, n_columns, n_layers):
    """All two-way margins of a three-way table."""
    cells = np.arange(n_rows * n_columns * n_layers).reshape(n_rows, n_columns, n_layers)
    return [
        line.tolist()
        for axis in range(3)
        for line in np.moveaxis(cells, axis, 2).reshape(-1, cells.shape[axis])
    ]


def groups_of_cells(n_rows, n_columns, *groups):
    cells = np.arange(n_rows * n_columns).reshape(n_rows, n_columns)
    return [*cells.tolist(), *cells.T.tolist(), *groups]


DIAGONAL = [[0], [5], [10], [15]]


@pytest.mark.parametrize(
    ("sets", "shape", "n_numbers"),
    [
        (groups_of_cells(4, 4, *DIAGONAL), (4, 4), 12),
        (groups_of_cells(3, 4, [0, 1], [5, 6]), (5, 4), 12),
        (groups_of_cells(3, 4, [0, 1, 2, 3, 4, 5, 6, 7], [0, 4, 8, 1, 5, 9]), (3, 4), 12),
        (groups_of_cells(4, 3)[:-1], (4, 3), 12),
        (three_way(5, 3, 2), (5, 3), 15),
        (three_way(2, 3, 4), (4, 3), 12),
        (three_way(4, 2, 2), (4, 2), 8),
        ([*three_way(3, 4, 2), [5]], (4, 3), 11),
    ],
)
def test_two_way_tables_behind_other_constraints(sets, shape, n_numbers):
    """Fixed cells everywhere, groups in rows, sums of rows and columns, a margin left out, and layers of two."""
    lattice = lattice_of(ConstraintSystem.from_sets(sets, 1 + max(map(max, sets))))
    grid = two_way_grid(lattice)
    assert grid.moving.sum() == n_numbers
    assert sorted(grid.moving.shape) == sorted(shape)
    turned = grid.turned()
    numbers = np.arange(1, 1 + grid.moving.size)
    for one in (grid, turned):
        assert one.moving.ravel()[one.places].all()
    values = dict(zip(grid.cells.tolist(), (grid.signs * numbers[grid.places]).tolist(), strict=True))
    assert len({abs(v) for v in values.values()}) == n_numbers
    choice = choose_sampler(lattice, GeneralisedLaplace("l1", Fraction(1, 2)))
    assert choice.name == "look-ahead trials"
    noise = choice.sampler.draw(ADDRESS, range(40))
    assert not lattice.system.totals(noise.T).any()
    assert np.array_equal(noise.any(axis=0), lattice.sparse_basis.toarray().any(axis=1))


MIXED = (DiscreteLaplace(Fraction(2)), DiscreteGaussian(Fraction(3)), DiscreteLaplace(Fraction(1, 2)))


@pytest.mark.parametrize("ignored", [52, 63])
def test_unequal_laws_in_balls_and_in_floats(ignored):
    lattice = lattice_of(two_way(4, 5, 0, (3, 7)))
    laws = [MIXED[i % 3] for i in range(20)]
    sampler = unequal_sampler(lattice, laws)
    assert isinstance(sampler.proposal, LookAheadProposal)
    slow = TrialSampler(replace(sampler.proposal, ignored_digits=ignored), 20)
    noise = sampler.draw(ADDRESS, range(8))
    assert (slow.draw(ADDRESS, range(8)) == noise).all()
    assert not lattice.system.totals(noise.T).any()


@pytest.mark.parametrize("seed", range(4))
def test_rows_of_unequal_cells_have_at_most_all_the_probability(seed):
    """s_1(0) <= 1 for cells of any laws and with fixed cells, wherever the columns are."""
    rng = np.random.default_rng(seed)
    law_of = rng.integers(-1, 3, (6, 5))
    law_of[rng.integers(0, 6, 5), np.arange(5)] = 0
    tables = column_tables(LawGrid(MIXED, law_of))
    for m in range(2, 7):
        if tables.cells(m):
            for far in (0, 2, 9, 60, 500):
                left = rng.integers(-far, far + 1, 5)
                assert s_1_at_0(tables, m, left) <= 1


@pytest.mark.parametrize("seed", range(3))
def test_exponents_of_a_row_leave_nothing_over(seed):
    rng = np.random.default_rng(seed)
    law_of = rng.integers(-1, 3, (8, 10))
    law_of[0] = 0
    table_of, steps, exponents = histories(LawGrid(MIXED, law_of))
    assert ((exponents == 0) == ((law_of < 0) | (np.vstack([np.full(10, -1), table_of[:-1]]) < 0))).all()
    for row in exponents:
        inverses = sum(Fraction(16, int(p)) for p in row if p)
        assert inverses <= 1
        assert inverses > Fraction(99, 100) or not row.any()
    assert all(step.before < place for place, step in enumerate(steps))


def test_unequal_laws_that_cannot_be_drawn_are_refused():
    with pytest.raises(SolverError, match="3 laws for 9 cells"):
        unequal_sampler(lattice_of(two_way(3, 3)), MIXED)
    with pytest.raises(SolverError, match="leave 1 cells free"):
        unequal_sampler(lattice_of(two_way(3, 3, 1)), [MIXED[0]] * 10)
    layers = lattice_of(ConstraintSystem.from_sets(three_way(3, 3, 2), 18))
    with pytest.raises(SolverError, match="laws of one kind"):
        unequal_sampler(layers, [MIXED[i % 2] for i in range(18)])


@pytest.mark.parametrize("variance", [2, 8, 40])
def test_tables_by_formula_are_hardly_above_those_by_transforms(variance, monkeypatch):
    """Each number is at least the norm, and at most one in 10,000 above it once two cells below give some width."""
    law_of = np.random.default_rng(variance).integers(-1, 2, (12, 6))
    law_of[0] = 0
    laws = DiscreteGaussian(Fraction(variance)), DiscreteGaussian(Fraction(3 * variance))
    grid = LawGrid(laws, law_of)
    quick = column_tables(grid)
    monkeypatch.setattr(column_tables_module, "has_formula", lambda grid, length: False)
    slow = column_tables(grid)
    heads = [tables.columns.heads * 2.0 ** tables.exponents[:, None] for tables in (quick, slow)]
    ratios = (heads[0] / heads[1])[len(laws) :]
    near = ratios[:, : int(4 * variance**0.5)]
    assert (near > 1).all()
    assert (near < 1.0001).all()
    for far in (0, 10, 100, 1000):
        left = np.random.default_rng(far).integers(-far, far + 1, 6)
        assert all(s_1_at_0(quick, m, left) <= 1 for m in range(2, 13) if quick.cells(m))


def test_exponentials_of_ieee_operations():
    y = np.linspace(0, 300, 5001)
    assert exponential(y) == pytest.approx(np.exp(-y), rel=2.0**-43, abs=0)
    assert exponential(np.array([0.0]))[0] == 1


def test_wide_gaussian_noise_takes_little_preparation():
    choice = choose_sampler(lattice_of(two_way(20, 10)), GeneralisedGaussian(Fraction(4000)))
    assert choice.name == "look-ahead trials"
    assert choice.expected_trials < 1.5


def test_cells_whose_joint_noise_is_too_narrow_are_left_to_other_samplers():
    layers = lattice_of(ConstraintSystem.from_sets(three_way(3, 3, 2), 18))
    with pytest.raises(SolverError, match="1/300, wanted 1/250"):
        unequal_sampler(layers, [DiscreteLaplace(Fraction(1, 150))] * 18)
    assert choose_sampler(layers, GeneralisedLaplace("l1", Fraction(150))).name != "look-ahead trials"
