from fractions import Fraction

import numpy as np
import pytest

from tallyveil.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    NoiseSource,
    insecure_key,
)
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.exact.choose_sampler import choose_sampler
from tallyveil.subspace.exact.convolution import SumLaws
from tallyveil.subspace.exact.digits import NoiseAddress
from tallyveil.subspace.exact.split import (
    LARGEST_ENTRIES,
    NOTHING_GIVEN,
    BlockSplitter,
    alias_tables,
    exact_split,
    split_tree,
)
from tallyveil.subspace.lattice import lattice_of
from tallyveil.subspace.mechanisms import GeneralisedGaussian

ADDRESS = NoiseAddress(NoiseSource(insecure_key("alias tables")), 1, 2)
LAWS = (DiscreteLaplace(Fraction(5, 2)), DiscreteGaussian(Fraction(7)), DiscreteGaussian(Fraction(1, 5)))


def tables_of(law, n, ignored=0):
    tree = split_tree(n)
    laws = SumLaws(law)
    sizes = tree.sizes[tree.inner]
    return laws, sizes, alias_tables(laws, sizes, tree.inner_parts, LARGEST_ENTRIES, ignored)


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("ignored", [0, 25])
def test_no_outcome_gets_more_than_its_probability(law, ignored):
    """Every entry of every table against whole numbers; nearly all of the mass is given."""
    laws, sizes, tables = tables_of(law, 7, ignored)
    for node, n in enumerate(sizes.tolist()):
        here, there, whole = (laws.table(part) for part in (n // 2, n - n // 2, n))
        reach = int(tables.arrays.reaches[node])
        for t in range(-reach, reach + 1):
            given = tables.given(node, t)
            assert given.total == sum(given.shares.values()) <= 1 << given.bits
            assert given.total >= (1 << given.bits) * (1 - 2.0**-26 - 2.0 ** (ignored - 38))
            for s, share in given.shares.items():
                least = (here.at(s) - here.error) * (there.at(t - s) - there.error) << given.bits
                assert share * (whole.at(t) + whole.error) << whole.bits <= least


def test_a_table_gives_what_its_columns_hold():
    """Every column and stretch of it, walked through: the shares of outcomes are what uniform numbers choose."""
    _, _, tables = tables_of(DiscreteGaussian(Fraction(1, 5)), 2)
    assert tables.arrays.column_bits.tolist() == [3]
    given = tables.given(0, 0)
    chosen = {}
    for column in range(8):
        threshold = int(tables.arrays.entries[column]) >> 12
        for digits, length in ((0, threshold), (threshold, (1 << 39) - threshold)):
            if length:
                s = tables.outcome(0, 0, (column << 39 | digits) << 64 - 42)
                chosen[s] = chosen.get(s, 0) + length
    assert chosen.pop(None) == (1 << 42) - given.total
    assert chosen == given.shares


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("t", [0, 3])
def test_what_a_table_leaves_is_drawn(law, t):
    """Evenly spread uniform numbers fall into the outcomes as what is left of each, over what is left of all."""
    laws, _, tables = tables_of(law, 7, ignored=40)
    node, n, spread = 1, 3, 512
    given = tables.given(node, t) if abs(t) <= tables.arrays.reaches[node] else NOTHING_GIVEN
    here, there, whole = (laws.table(part) for part in (1, 2, n))
    left = {}
    for s in range(-40, 41):
        exact = Fraction(here.at(s) * there.at(t - s), whole.at(t) << whole.bits)
        left[s] = float(exact - Fraction(given.shares.get(s, 0), 1 << given.bits))
        assert left[s] > -1e-30
    drawn = [exact_split(laws, (1, 2), t, iter([(2 * i + 1) << 54, 0, 0, 0]), given) for i in range(spread)]
    total = sum(left.values())
    for s in set(drawn) | {s for s, share in left.items() if share > total / spread}:
        assert abs(drawn.count(s) - spread * left[s] / total) <= 1
    assert given.total > 0 or t == 3


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_sums_other_than_zero_are_still_drawn(law):
    totals = np.array([0, 5, -3, 0])
    cells = BlockSplitter.build(law, 6, alias_entries=LARGEST_ENTRIES).draw(ADDRESS, np.arange(4), 0, totals)
    assert (cells.sum(axis=1) == totals).all()


def test_batches_change_nothing():
    splitter = BlockSplitter.build(
        DiscreteLaplace(Fraction(4)), 9, alias_entries=LARGEST_ENTRIES, ignored_digits=40
    )
    zeros = np.zeros(50, dtype=np.int64)
    whole = splitter.draw(ADDRESS, np.arange(50), 0, zeros)
    order = np.random.default_rng(1).permutation(50)
    assert (splitter.draw(ADDRESS, order, 0, zeros) == whole[order]).all()
    assert (splitter.draw(ADDRESS, np.array([17]), 0, zeros[:1]) == whole[17]).all()


def test_one_cell_has_nothing_to_split():
    assert BlockSplitter.build(LAWS[0], 1, alias_entries=LARGEST_ENTRIES).draw(
        ADDRESS, np.arange(2), 0, np.zeros(2, np.int64)
    ).tolist() == [[0], [0]]


def test_blocks_of_many_sizes_share_what_tables_may_take():
    """Fifty sizes: none has room for its own, and all are split by adding up."""
    sets, first = [], 0
    for size in range(2, 52):
        sets.append(range(first, first + size))
        first += size
    lattice = lattice_of(ConstraintSystem.from_sets(sets, first))
    sampler = choose_sampler(lattice, GeneralisedGaussian(Fraction(54))).sampler
    with_tables = [splitter.n_cells for splitter in sampler.splitters if splitter.alias is not None]
    assert 0 < len(with_tables) < 20
    assert (
        sum(s.alias.arrays.entries.size for s in sampler.splitters if s.alias is not None) <= LARGEST_ENTRIES
    )
    assert lattice.contains(sampler.draw(ADDRESS, range(20)).T)


def test_wide_laws_do_without():
    assert tables_of(DiscreteGaussian(Fraction(10**4)), 102)[2] is None
