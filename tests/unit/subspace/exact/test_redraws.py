"""Tables drawn again until no count is out of bounds: against lists, partial sums, an exact kernel, and its stop."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2, chi2_contingency
from tests.samples import few

from tallyveil.errors import BudgetError, ConfigError, SolverError
from tallyveil.noise import NoiseSource, insecure_key
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.exact import choose_restricted as chooser
from tallyveil.subspace.exact.choose_restricted import choose_restricted
from tallyveil.subspace.exact.choose_sampler import choose_sampler
from tallyveil.subspace.exact.digits import NoiseAddress
from tallyveil.subspace.exact.partial_sums import draw_around
from tallyveil.subspace.exact.redraws import RedrawingSampler, typical_table
from tallyveil.subspace.lattice import lattice_of
from tallyveil.subspace.mechanisms import GeneralisedLaplace, Norm

PLACE = NoiseAddress(NoiseSource(insecure_key("redraws")), 0, 3)
L1, L2 = GeneralisedLaplace(Norm.L1, Fraction(1, 2)), GeneralisedLaplace(Norm.L2, Fraction(1))


def margins(*shape):
    """All sums over one attribute of a table: both margins of two attributes, all two-way margins of three."""
    cells = np.arange(np.prod(shape)).reshape(shape)
    lines = [
        line for axis, n in enumerate(shape) for line in np.moveaxis(cells, axis, -1).reshape(-1, n).tolist()
    ]
    return ConstraintSystem.from_sets(lines, cells.size)


def redrawing(system, counts, law, largest=None, stop_bits=16):
    lattice = lattice_of(system)
    free, bounded = choose_sampler(lattice, law).sampler, np.ones(len(counts), dtype=bool)
    return RedrawingSampler(free, np.array(counts), bounded, largest, stop_bits)


def weights_of(system, counts, law, largest):
    """All tables with the sums of `counts` and no count above the largest, and their weights."""
    counts = np.array(counts)
    tables = np.indices((largest + 1,) * len(counts)).reshape(len(counts), -1).T
    tables = tables[(system.totals(tables.T) == system.totals(counts)[:, None]).all(axis=0)]
    away = np.abs(tables - counts)
    size = np.sqrt((away**2).sum(axis=1)) if law.takes_root else away.sum(axis=1)
    return tables, np.exp(-float(law.epsilon) * size)


def agree(drawn, tables, probabilities):
    """Chi-square at 1e-6, with rare tables taken together."""
    found, n = Counter(map(tuple, drawn.tolist())), len(drawn)
    seen, expected = np.array([found[tuple(table)] for table in tables.tolist()]), n * probabilities
    assert seen.sum() == n
    rare = expected < 5
    if rare.any():
        seen, expected = (np.append(values[~rare], values[rare].sum()) for values in (seen, expected))
    return chi2.sf(((seen - expected) ** 2 / expected).sum(), len(seen) - 1) > 1e-6


CASES = [
    (ConstraintSystem.from_sets([[0, 1, 2], [1, 2, 3]], 4), [2, 1, 1, 1], None),
    (ConstraintSystem.from_matrix([[2, 1, 1, 0, -1], [0, 1, 3, 1, 0]]), [1, 1, 1, 2, 2], 3),
    (margins(2, 3), [2, 1, 1, 0, 1, 2], None),
]


@pytest.mark.parametrize("law", [L1, L2])
@pytest.mark.parametrize(("system", "counts", "largest"), few(2, CASES))
def test_the_law_is_that_of_a_list(system, counts, largest, law):
    """By chance one of these fails with probability 1e-6."""
    tables, weights = weights_of(system, counts, law, 4 if largest is None else largest)
    drawn = counts + redrawing(system, counts, law, largest).draw(PLACE, range(300))
    assert agree(drawn, tables, weights / weights.sum())


def test_a_draw_is_stopped_as_often_as_its_law_says_and_the_rest_has_the_law():
    """A stop at every fourth round. Its probability depends on the table by no more than the guarantee says."""
    system, p, stops = ConstraintSystem.from_sets([range(3)], 3), 1 / 4, {}
    law = GeneralisedLaplace(Norm.L1, Fraction(1, 2))
    for counts in ([0, 0, 1], [0, 1, 0], [1, 0, 0], [0, 0, 6], [1, 0, 5]):
        tables, weights = weights_of(system, counts, law, sum(counts))
        steps = np.arange(-60, 61)
        a, b = np.meshgrid(steps, steps)
        share = weights.sum() / np.exp(-(np.abs(a) + np.abs(b) + np.abs(a + b)) / 2).sum()
        stops[tuple(counts)] = p / (p + (1 - p) * share)
    # Rows that differ by one record are at distance 2.
    for one, other in (((0, 0, 1), (0, 1, 0)), ((0, 0, 6), (1, 0, 5))):
        assert abs(np.log(stops[one] / stops[other])) <= 2 / 2
    counts, n, drawn = [1, 0, 5], 400, []
    sampler = redrawing(system, counts, law, stop_bits=2)
    for draw in range(n):
        try:
            drawn.append(counts + sampler.draw(PLACE, [draw])[0])
        except SolverError as error:
            assert error.code == "subspace-stopped"  # noqa: PT017 - it is counted
    tables, weights = weights_of(system, counts, law, 6)
    expected = n * stops[1, 0, 5]
    assert abs(n - len(drawn) - expected) < 5 * np.sqrt(expected)
    assert agree(np.array(drawn), tables, weights / weights.sum())


@pytest.mark.nightly
def test_redraws_and_partial_sums_have_one_law():
    """3 x 3 x 3 cells of 1 with all two-way margins: the distances from the true table, of either way."""
    system, counts = margins(3, 3, 3), np.ones(27, dtype=np.int64)
    law, n = GeneralisedLaplace(Norm.L2, Fraction(3, 2)), 300
    choice = choose_restricted(lattice_of(system), law, counts, None)
    assert choice.name == "partial sums"
    sizes = [
        (sampler.draw(PLACE, range(n)) ** 2).sum(axis=1)
        for sampler in (choice.sampler, redrawing(system, counts, law))
    ]
    table = np.array(
        [[(size == 0).sum(), ((size > 0) & (size < 16)).sum(), (size >= 16).sum()] for size in sizes]
    )
    assert (table.sum(axis=0) > 10).all()
    assert chi2_contingency(table).pvalue > 1e-6


def kernel_leaves_alone(counts, drawn, epsilon, rng, moves=40):
    """Heat-bath steps along moves leave the l2 law as it is, so that statistics before and after agree."""
    after = drawn.copy()
    for table in after:
        cube = table.reshape(counts.shape)
        for _ in range(moves):
            places = [rng.choice(n, 2, replace=False) for n in counts.shape]
            signs = np.array([1, -1])
            cells = cube[np.ix_(*places)]
            move = signs[:, None, None] * signs[:, None] * signs
            low, high = -cells[move > 0].min(), cells[move < 0].min()
            steps = np.arange(low, high + 1)
            away = ((cube - counts) ** 2).sum() - ((cells - counts[np.ix_(*places)]) ** 2).sum()
            moved = cells - counts[np.ix_(*places)] + steps[:, None, None, None] * move
            sizes = np.sqrt(away + (moved**2).sum(axis=(1, 2, 3)))
            weights = np.exp(-epsilon * (sizes - sizes.min()))
            cube[np.ix_(*places)] = cells + rng.choice(steps, p=weights / weights.sum()) * move
    truth = counts.ravel()
    for statistic in (
        lambda y: np.sqrt(((y - truth) ** 2).sum(axis=1)),
        lambda y: y.min(axis=1),
        lambda y: y[:, 0] * 1.0,
        lambda y: ((y - truth)[:, :-1] * (y - truth)[:, 1:]).sum(axis=1),
        lambda y: (y < truth / 2).sum(axis=1),
    ):
        differences = statistic(after) - statistic(drawn)
        assert abs(differences.mean()) <= 5 * differences.std() / np.sqrt(len(drawn))


@pytest.mark.parametrize(
    ("shape", "mean", "epsilon", "n"),
    few(1, [((3, 3, 3), 4, Fraction(2), 80), ((6, 6, 6), 40, Fraction(1, 2), 60)]),
)
def test_a_dense_table_stays_the_same_under_an_exact_kernel(shape, mean, epsilon, n, monkeypatch):
    rng = np.random.default_rng(7)
    counts, system = rng.poisson(mean, shape), margins(*shape)
    monkeypatch.setattr(chooser, "LARGEST_MIXED", 1 << 16)
    law = GeneralisedLaplace(Norm.L2, epsilon)
    choice = choose_restricted(lattice_of(system), law, counts.ravel(), None)
    assert choice.name == "redraws"
    assert chooser.LEAST_SHARE <= choice.share < 1
    assert choice.sampler.total_variation == Fraction(1, 1 << 62)
    drawn = counts.ravel() + choice.sampler.draw(PLACE, range(n))
    assert (drawn >= 0).all()
    assert (system.totals(drawn.T) == system.totals(counts.ravel())[:, None]).all()
    kernel_leaves_alone(counts, drawn, float(epsilon), rng)


def test_redraws_do_not_depend_on_how_they_are_batched_and_cells_of_no_sum_are_drawn_alone(monkeypatch):
    system = ConstraintSystem.from_sets([[0, 1, 2], [1, 2, 3]], 5)
    counts, lattice = np.array([2, 0, 1, 2, 0]), lattice_of(system)
    monkeypatch.setattr(chooser, "LARGEST_STEPS", 1)
    sampler = choose_restricted(lattice, L1, counts, None).sampler
    assert isinstance(sampler, RedrawingSampler)
    assert sampler.bounded.tolist() == [True] * 4 + [False]
    together = sampler.draw(PLACE, range(20))
    assert np.array_equal(together[7], sampler.draw(PLACE, [7])[0])
    table = draw_around(PLACE, counts, lattice.structure, L1, sampler, None)
    assert (table >= 0).all()
    assert (system.totals(table) == system.totals(counts)).all()


def test_a_typical_table_has_the_sums_and_one_that_no_free_table_fits_is_refused(monkeypatch):
    system, counts = margins(3, 4), np.arange(12) ** 2
    fitted = typical_table(system, system.totals(counts), None)
    assert system.matrix @ fitted == pytest.approx(system.totals(counts))
    assert (fitted > 0).all()
    crossing = ConstraintSystem.from_sets([[0, 1, 2, 3], [2, 3, 4, 5], [0, 3, 5]], 6)
    monkeypatch.setattr(chooser, "LARGEST_STEPS", 1)
    wide = GeneralisedLaplace(Norm.L1, Fraction(1, 50))
    with pytest.raises(ConfigError, match=r"0 of 64 trials around a typical table"):
        choose_restricted(lattice_of(crossing), wide, np.array([1, 0, 1, 0, 1, 0]), None)
    with pytest.raises(ConfigError, match="no exact sampler here"):
        choose_restricted(lattice_of(margins(4, 4, 4)), wide, np.full(64, 1000), None)


@pytest.mark.parametrize(
    ("norm", "epsilon", "size"),
    [(Norm.L2, "1/100000", "small"), (Norm.L2, "100000", "large"), (Norm.L1, "100000", "large")],
)
def test_a_refused_law_of_cells_is_refused_as_the_law_that_was_asked_for(norm, epsilon, size):
    law = GeneralisedLaplace(norm, Fraction(epsilon))
    with pytest.raises(BudgetError, match=f"epsilon {epsilon} .*: epsilon is too {size}") as caught:
        choose_restricted(lattice_of(margins(3, 3, 3)), law, np.full(27, 1000), None)
    assert caught.value.code == "subspace-parameter"


def test_the_choice_depends_on_the_sums_alone(monkeypatch):
    system = margins(3, 3)
    monkeypatch.setattr(chooser, "LARGEST_STEPS", 1)
    shares = {
        choose_restricted(lattice_of(system), L1, np.array(counts), None).share
        for counts in ([8, 0, 8, 8, 8, 0, 0, 8, 8], [0, 8, 8, 8, 0, 8, 8, 8, 0])
    }
    assert len(shares) == 1
