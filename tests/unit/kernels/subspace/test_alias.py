from fractions import Fraction

import numpy as np
import pytest
from tests.oracles.alias import fill_alias_reference, split_by_alias_reference

from tallyveil.kernels.subspace.sums import FRACTION_BITS, fill_alias, split_by_alias
from tallyveil.noise import DiscreteGaussian, DiscreteLaplace
from tallyveil.subspace.exact.convolution import SumLaws, floats_of
from tallyveil.subspace.exact.split import LARGEST_ENTRIES, alias_tables, split_tree


@pytest.mark.parametrize("ignored", [0, 30, 44, 45])
@pytest.mark.parametrize("t", [-9, 0, 4])
def test_layouts_agree(ignored, t):
    laws = SumLaws(DiscreteLaplace(Fraction(2)))
    left, right, whole = (floats_of(laws.table(n)) for n in (1, 2, 3))
    total = whole[whole.size // 2 + t]
    tables = []
    for fill in (fill_alias, fill_alias_reference):
        table = np.zeros(64, dtype=np.uint64)
        fill(left, right, total, t, 6, ignored, table)
        tables.append(table)
    assert (tables[0] == tables[1]).all()
    assert (tables[0] >> np.uint64(12) <= 1 << FRACTION_BITS).all()


@pytest.mark.parametrize("ignored", [0, 38])
def test_splits_agree(ignored):
    tree = split_tree(11)
    laws = SumLaws(DiscreteGaussian(Fraction(5)))
    tables = alias_tables(laws, tree.sizes[tree.inner], tree.inner_parts, LARGEST_ENTRIES, ignored)
    words = np.random.default_rng(3).integers(0, 1 << 64, (200, 10), dtype=np.uint64)
    words[0], words[1] = 0, (1 << 64) - 1
    places = np.random.default_rng(4).permutation(13)[:11]
    found = []
    for split in (split_by_alias, split_by_alias_reference):
        cells = np.zeros((200, 13), dtype=np.int64)
        opened = np.zeros(200, dtype=np.bool_)
        split(words, tables.arrays, tables.lefts, tables.rights, places, cells, opened)
        found.append((cells, opened))
    (cells, opened), (plain, plain_opened) = found
    assert (opened == plain_opened).all()
    assert (cells[~opened] == plain[~opened]).all()
    assert not cells[~opened].sum(axis=1).any()
    assert (10 < opened.sum() < 190) if ignored else opened.sum() <= 2
