import itertools
from fractions import Fraction

import numpy as np
import pytest

from tallyveil.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    NoiseSource,
    insecure_key,
)
from tallyveil.subspace.exact.convolution import SumLaws, floats_of
from tallyveil.subspace.exact.digits import NoiseAddress
from tallyveil.subspace.exact.split import BlockSplitter, candidates, split_tree

ADDRESS = NoiseAddress(NoiseSource(insecure_key("split sums")), 1, 2)
LAWS = (DiscreteLaplace(Fraction(5, 2)), DiscreteGaussian(Fraction(7)), DiscreteGaussian(Fraction(1, 5)))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_tables_of_sums_hold_the_exact_probabilities(law, n):
    """Against plain convolution of certified probabilities in fractions of balls."""
    laws = SumLaws(law)
    table = laws.table(n)
    reach = 90
    single = [law.probability_ball(x, 300) for x in range(-reach, reach + 1)]
    power = [1]
    for _ in range(n):
        after = [0] * (len(power) + 2 * reach)
        for i, a in enumerate(power):
            if a != 0:
                for j in range(max(0, 90 - 40), min(181, 90 + 41)):
                    after[i + j] = after[i + j] + a * single[j]
        power = after
        middle = len(power) // 2
        power = power[middle - 100 : middle + 101] if middle > 100 else power
    middle = len(power) // 2
    for s in range(-8, 9):
        assert float(power[middle + s]) == pytest.approx(table.at(s) / 2.0**table.bits, rel=1e-5)
    assert sum(table.values) == pytest.approx(1 << table.bits, rel=1e-15)


def test_table_errors_are_covered():
    """A table at few bits is within its stated error of one at many."""
    for law in LAWS:
        laws = SumLaws(law)
        for n in (1, 2, 5, 12):
            rough, fine = laws.table(n, 48), laws.table(n, 192)
            for s in range(-fine.reach, fine.reach + 1):
                assert abs(rough.at(s) * (1 << 144) - fine.at(s)) <= (rough.error << 144) + fine.error


def test_floats_are_accurate_or_zero():
    laws = SumLaws(DiscreteLaplace(Fraction(3)))
    table = laws.table(4, 192)
    array = floats_of(table)
    middle = array.size // 2
    fine = laws.table(4, 320)
    for s in range(-middle, middle + 1):
        exact = fine.at(s) / 2**320
        assert array[middle + s] == 0 or abs(array[middle + s] / exact - 1) < 2.0**-49


def test_the_tree_covers_every_cell_once():
    for n in range(1, 40):
        tree = split_tree(n)
        assert tree.sizes.size == 2 * n - 1
        assert len(set(tree.leaves.tolist())) == n
        inner = tree.lefts >= 0
        assert (tree.sizes[tree.lefts[inner]] + tree.sizes[tree.rights[inner]] == tree.sizes[inner]).all()
        assert (tree.lefts[inner] > np.flatnonzero(inner)).all()


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("ignored", [44, 52, 60, 63])
def test_whole_number_decisions_agree_with_floats(law, ignored):
    """Ignoring digits leaves most decisions to whole numbers; the outcome is that of the same uniform numbers."""
    draws = np.arange(60)
    totals = np.random.default_rng(5).integers(-4, 5, 60)
    quick = BlockSplitter.build(law, 6).draw(ADDRESS, draws, 4, totals)
    slow = BlockSplitter.build(law, 6, ignored_digits=ignored).draw(ADDRESS, draws, 4, totals)
    assert (quick == slow).all()
    assert (quick.sum(axis=1) == totals).all()


def test_totals_far_out_are_still_drawn():
    splitter = BlockSplitter.build(DiscreteGaussian(Fraction(1)), 3)
    far = splitter.draw(ADDRESS, np.arange(5), 0, np.full(5, 60))
    assert (far.sum(axis=1) == 60).all()
    assert np.abs(far - 20).max() <= 4


def test_batches_change_nothing():
    splitter = BlockSplitter.build(DiscreteLaplace(Fraction(4)), 9)
    zeros = np.zeros(50, dtype=np.int64)
    whole = splitter.draw(ADDRESS, np.arange(50), 0, zeros)
    order = np.random.default_rng(1).permutation(50)
    assert (splitter.draw(ADDRESS, order, 0, zeros) == whole[order]).all()
    assert (splitter.draw(ADDRESS, np.array([17]), 0, zeros[:1]) == whole[17]).all()


def test_candidates_go_outward():
    assert list(itertools.islice(candidates(5), 5)) == [5, 6, 4, 7, 3]
