"""The restricted law by dynamic programming: against all tables, against an exact kernel, and its exact inequality."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from flint import arb
from scipy.stats import chi2
from tests.samples import few

from tallyveil.errors import ConfigError
from tallyveil.noise import NoiseSource, insecure_key
from tallyveil.noise.balls import precision
from tallyveil.noise.laws import DiscreteGaussian, DiscreteLaplace
from tallyveil.subspace.constraints import ConstraintSystem, recognise
from tallyveil.subspace.exact.digits import NoiseAddress
from tallyveil.subspace.exact.partial_sums import (
    draw_around,
    partial_sums,
    partial_sums_proposal,
    sampler_by_sums,
)
from tallyveil.subspace.lattice import lattice_of
from tallyveil.subspace.mechanisms import GeneralisedLaplace, Norm
from tallyveil.subspace.noise_plan import plan_restricted

PLACE = NoiseAddress(NoiseSource(insecure_key("partial sums")), 0, 3)
HALF = Fraction(1, 2)


def margins(*shape):
    """All sums over one attribute of a table: both margins of two attributes, all two-way margins of three."""
    cells = np.arange(np.prod(shape)).reshape(shape)
    lines = [np.moveaxis(cells, axis, -1).reshape(-1, shape[axis]) for axis in range(len(shape))]
    return ConstraintSystem.from_sets(np.concatenate([line.tolist() for line in lines]).tolist(), cells.size)


def by_list(system, counts, largest):
    """All tables with the sums of `counts` and no count above the largest."""
    tables = np.indices((largest + 1,) * len(counts)).reshape(len(counts), -1).T
    return tables[(system.totals(tables.T) == system.totals(np.array(counts))[:, None]).all(axis=0)]


def fractions(numbers):
    """Wide floats, exactly."""
    pairs = zip(numbers.mantissas.tolist(), numbers.exponents.tolist(), strict=True)
    return [
        Fraction(mantissa) * Fraction(2) ** exponent if mantissa else Fraction(0)
        for mantissa, exponent in pairs
    ]


def sampler_of(system, counts, law, largest):
    steps = partial_sums(recognise(system), system.totals(counts), largest)
    return sampler_by_sums(counts, law, steps)


CROSSING = ConstraintSystem.from_sets([[0, 1, 2, 3], [2, 3, 4, 5], [0, 3, 5]], 6)
CASES = [
    # Two sums that overlap; three of the same kind; sums with weights of both signs; a 0/1 table with both margins; a
    # cell that no constraint names, with a bound; like cells with a bound; all two-way margins.
    (ConstraintSystem.from_sets([[0, 1, 2], [1, 2, 3]], 4), [2, 0, 1, 1], None),
    (CROSSING, [1, 1, 0, 2, 0, 1], None),
    (ConstraintSystem.from_matrix([[2, 1, 1, 0, -1], [0, 1, 3, 1, 0]]), [1, 0, 1, 2, 2], 3),
    (margins(3, 3), [1, 0, 1, 0, 1, 0, 1, 1, 0], 1),
    (ConstraintSystem.from_sets([[0, 1]], 3), [2, 1, 2], 2),
    (ConstraintSystem.from_sets([range(4)], 4), [1, 0, 1, 1], 1),
    (margins(2, 2, 2), [1, 0, 2, 1, 0, 2, 1, 1], 3),
]


@pytest.mark.parametrize("law", [GeneralisedLaplace(Norm.L1, HALF), GeneralisedLaplace(Norm.L2, Fraction(1))])
@pytest.mark.parametrize(("system", "counts", "largest"), few(2, CASES))
def test_the_law_is_that_of_a_list(system, counts, largest, law):
    """By chance one of these fails with probability 1e-6."""
    counts, n = np.array(counts), 400
    tables = by_list(system, counts, 4 if largest is None else largest)
    away = np.abs(tables - counts)
    size = np.sqrt((away**2).sum(axis=1)) if law.takes_root else away.sum(axis=1)
    weights = np.exp(-float(law.epsilon) * size)
    drawn = counts + sampler_of(system, counts, law, largest).draw(PLACE, range(n))
    found = Counter(map(tuple, drawn.tolist()))
    seen = np.array([found[tuple(table)] for table in tables.tolist()])
    assert seen.sum() == n
    expected = n * weights / weights.sum()
    rare = expected < 5
    seen, expected = (np.append(values[~rare], values[rare].sum()) for values in (seen, expected))
    statistic = ((seen - expected) ** 2 / np.maximum(expected, 1e-9)).sum()
    assert chi2.sf(statistic, max(len(seen) - 1 - (not rare.any()), 1)) > 1e-6


@pytest.mark.parametrize("law", [DiscreteLaplace(Fraction(2)), DiscreteGaussian(Fraction(3))])
def test_no_probability_is_above_one_and_the_mass_is_that_of_a_list(law):
    """Every state's inequality in exact fractions: what the trials rest on."""
    counts = np.array([1, 1, 0, 2, 0, 1])
    steps = partial_sums(recognise(CROSSING), CROSSING.totals(counts), None)
    proposal = partial_sums_proposal(steps, law, counts)
    for k, layer in enumerate(steps.layers):
        of_steps = fractions(proposal.within[k][0].at(layer.sums - layer.least))
        of_rest = fractions(proposal._next(k).at(layer.after))
        for state, whole in enumerate(fractions(proposal.values[k])):
            part = slice(layer.starts[state], layer.starts[state + 1])
            used = sum(a * b for a, b in zip(of_steps[part], of_rest[part], strict=True))
            assert used <= whole
            assert used >= whole * (1 - Fraction(1, 10**9))
    away = np.abs(by_list(CROSSING, counts, 4) - counts)
    if isinstance(law, DiscreteLaplace):
        weights = np.exp(-away.sum(axis=1) / float(law.scale))
    else:
        weights = np.exp(-(away**2).sum(axis=1) / (2 * float(law.variance)))
    with precision(128):
        assert float(proposal.mass(None, 128)) == pytest.approx(weights.sum(), rel=1e-6)


@pytest.mark.nightly
def test_region_by_sex_and_an_age_that_crosses_stays_the_same_under_an_exact_kernel():
    """A 2 x 3 x 4 table. Heat-bath steps along moves leave the law as it is, so statistics before and after agree."""
    cells = np.arange(24).reshape(2, 3, 4)
    system = ConstraintSystem.from_sets([*cells.reshape(6, 4).tolist(), cells[:, :, 1].ravel().tolist()], 24)
    rng = np.random.default_rng(5)
    counts, law, n = rng.integers(0, 9, 24), GeneralisedLaplace(Norm.L1, HALF), 150
    before = counts + sampler_of(system, counts, law, None).draw(PLACE, range(n))
    assert (before >= 0).all()
    assert (system.totals(before.T) == system.totals(counts)[:, None]).all()
    after = before.copy()
    for table in after:
        for _ in range(30):
            move = np.zeros(24, dtype=np.int64)
            (a, b), age = rng.choice(6, 2, replace=False), rng.choice([0, 2, 3])
            move[[4 * a + 1, 4 * b + age, 4 * a + age, 4 * b + 1]] = 1, 1, -1, -1
            moved = table + np.arange(-80, 81)[:, None] * move
            moved = moved[(moved >= 0).all(axis=1)]
            weights = np.exp(-0.5 * np.abs(moved - counts).sum(axis=1))
            table[:] = moved[rng.choice(len(moved), p=weights / weights.sum())]
    for statistic in (
        lambda y: np.abs(y - counts).sum(axis=1),
        lambda y: (y == 0).sum(axis=1),
        lambda y: y[:, 1] * 1.0,
        lambda y: (y**2).sum(axis=1),
    ):
        differences = statistic(after) - statistic(before)
        assert abs(differences.mean()) < 5 * differences.std() / np.sqrt(n)


def test_states_depend_on_the_sums_alone_and_draws_on_their_address():
    rng = np.random.default_rng(1)
    counts = rng.integers(0, 2, 25)
    system, law = margins(5, 5), GeneralisedLaplace(Norm.L1, Fraction(1))
    steps = partial_sums(recognise(system), system.totals(counts), 1)
    other = draw_around(PLACE, counts, recognise(system), law, sampler_by_sums(counts, law, steps), 1)
    again = partial_sums(recognise(system), system.totals(other), 1)
    for a, b in zip(steps.layers, again.layers, strict=True):
        assert np.array_equal(a.sums, b.sums)
        assert np.array_equal(a.after, b.after)
    sampler = sampler_by_sums(counts, law, again)
    assert np.array_equal(other, draw_around(PLACE, counts, recognise(system), law, sampler, 1))
    assert (system.totals(other) == system.totals(counts)).all()
    assert set(other.tolist()) <= {0, 1}


def test_a_narrow_law_gives_the_true_table_and_cells_without_a_constraint_are_drawn_too():
    counts = np.array([40, 0, 7, 19, 3, 0, 900])
    system = ConstraintSystem.from_sets([[0, 1, 2, 3], [2, 3, 4, 5], [0, 3, 5]], 7)
    structure = recognise(system)
    steps = partial_sums(structure, system.totals(counts), None)
    for epsilon, exact in ((Fraction(60), True), (Fraction(1, 4), False)):
        law = GeneralisedLaplace(Norm.L1, epsilon)
        drawn = draw_around(PLACE, counts, structure, law, sampler_by_sums(counts, law, steps), None)
        assert np.array_equal(drawn, counts) is exact
        assert (drawn >= 0).all()
        assert (system.totals(drawn) == system.totals(counts)).all()
    assert drawn[6] != 900


def test_tables_that_are_too_many_are_not_listed_and_those_without_end_are_refused():
    system = margins(6, 6, 6)
    assert partial_sums(recognise(system), system.totals(np.full(216, 3)), None, 1 << 16) is None
    difference = ConstraintSystem.from_matrix([[1, -1, 0], [0, 1, -1]])
    with pytest.raises(ConfigError, match="infinitely many"):
        partial_sums(recognise(difference), np.array([1, 2]), None)
    # The structure alone decides it, before any table is read.
    with pytest.raises(ConfigError, match="one by one, do not say"):
        plan_restricted(lattice_of(difference), GeneralisedLaplace(Norm.L1, HALF))
    few = partial_sums(recognise(difference), np.array([1, 2]), 9)
    ends = {int(layer.block[0]): (layer.sums.min(), layer.sums.max()) for layer in few.layers}
    assert ends == {0: (3, 9), 1: (2, 8), 2: (0, 6)}


def outcomes(first, second, whole):
    """Probability of each outcome of `choose`."""
    (denominator,) = fractions(whole)
    return [a * b / denominator for a, b in zip(fractions(first), fractions(second), strict=True)]


@pytest.mark.parametrize(
    ("counts", "largest"), [((1, 0, 1, 1), 1), ((1, 1, 1, 1), 1), ((0, 0, 0), 0), ((2, 0, 2), 2), ((3, 1), 3)]
)
def test_no_table_above_the_largest_count_has_a_probability(counts, largest, monkeypatch):
    """All choices of the trials are enumerated, with their exact probabilities."""
    system = ConstraintSystem.from_sets([range(len(counts))], len(counts))
    steps = partial_sums(recognise(system), system.totals(np.array(counts)), largest)
    proposal = partial_sums_proposal(steps, DiscreteLaplace(Fraction(2)), np.array(counts))
    probabilities, path = {}, []

    def follow(first, second, whole, digits):
        place, shares = len(path), outcomes(first, second, whole)
        assert sum(shares) <= 1
        ways = [j for j, share in enumerate(shares) if share]
        path.append([ways, shares])
        return ways[wanted[place]] if place < len(wanted) else ways[0]

    monkeypatch.setattr("tallyveil.subspace.exact.partial_sums.choose", follow)
    wanted = []
    while True:
        path.clear()
        table = proposal._table(lambda place: iter(()))
        taken = [*wanted, *[0] * (len(path) - len(wanted))]
        probability = np.prod([shares[ways[i]] for (ways, shares), i in zip(path, taken, strict=True)])
        probabilities[tuple(table.tolist())] = probability
        while taken and taken[-1] + 1 == len(path[len(taken) - 1][0]):
            taken.pop()
        if not taken:
            break
        wanted = [*taken[:-1], taken[-1] + 1]
    tables = by_list(system, counts, largest)
    assert set(probabilities) == set(map(tuple, tables.tolist()))
    weights = np.exp(-np.abs(tables - np.array(counts)).sum(axis=1) / 2)
    for table, weight in zip(tables.tolist(), weights / weights.sum(), strict=True):
        assert float(probabilities[tuple(table)]) == pytest.approx(weight, abs=1e-6)


@pytest.mark.nightly
def test_almost_no_trial_fails_where_most_of_a_block_is_out_of_reach():
    """The sums of the block have up to 2**1099 times the weight of the sum 0, near which the tables are."""
    n, weight, rate = 900, 60, 0.1
    counts = np.array([0] * n + [weight * 400])
    system = ConstraintSystem.from_matrix([[weight] * n + [1]])
    steps = partial_sums(recognise(system), system.totals(counts), None)
    mass = partial_sums_proposal(steps, DiscreteLaplace(Fraction(10)), counts).mass(arb(1), 128)
    # Each unit in the block costs its own distance and that of the other cell.
    wanted = (1 - np.exp(-rate * (weight + 1))) ** -n
    assert float(mass) == pytest.approx(wanted, rel=2e-6)


def test_counts_count_in_the_limit_on_work_where_they_do():
    one_sum = ConstraintSystem.from_sets([[0, 1]], 2)
    for total in (4 * 10**9, 10**10):
        assert partial_sums(recognise(one_sum), np.array([total]), None) is None
    # A state with 2**20 steps at most, and a cell whose count is fixed.
    pair = ConstraintSystem.from_sets([[0, 1], [1, 2], [0, 2]], 3)
    assert partial_sums(recognise(pair), np.array([2**21, 2**21, 2**21]), None) is None
    fixed = ConstraintSystem.from_sets([[0], [1, 2], [2, 3]], 4)
    steps = partial_sums(recognise(fixed), np.array([10**9, 2, 2]), None)
    counts = np.array([10**9, 1, 1, 1])
    drawn = counts + sampler_by_sums(counts, GeneralisedLaplace(Norm.L1, HALF), steps).draw(PLACE, range(3))
    assert (drawn[:, 0] == 10**9).all()


@pytest.mark.parametrize("order", [1, -1])
def test_a_long_chain_of_constraints_has_an_end_in_any_order(order):
    n = 30
    links = np.eye(n, n + 1, dtype=np.int64) - np.eye(n, n + 1, 1, dtype=np.int64)
    links[-1, -1] = 1
    system = ConstraintSystem.from_matrix(links[::order])
    steps = partial_sums(recognise(system), system.totals(np.array([1] * n + [2])), None)
    assert max(layer.sums.max() for layer in steps.layers) <= 3
