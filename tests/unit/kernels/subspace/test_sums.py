from fractions import Fraction

import numpy as np
import pytest
from tests.oracles.sums import split_sums_reference

from tallyveil.kernels.subspace.sums import TreeNodes, split_sums
from tallyveil.noise import DiscreteLaplace
from tallyveil.subspace.exact.split import BlockSplitter


@pytest.mark.parametrize("shift", [0, 20, 50])
def test_twins_agree(shift):
    splitter = BlockSplitter.build(DiscreteLaplace(Fraction(2)), 5)
    tree = splitter.tree
    rng = np.random.default_rng(shift)
    words = rng.integers(0, 1 << 64, (40, 4), dtype=np.uint64)
    words[0], words[1] = 0, (1 << 64) - 1
    found = []
    for kernel in (split_sums, split_sums_reference):
        sums = np.zeros((40, tree.sizes.size), dtype=np.int64)
        sums[:, 0] = np.random.default_rng(9).integers(-6, 7, 40)
        sums[2, 0] = 10_000  # far beyond the table
        opened = np.zeros(40, dtype=np.bool_)
        nodes = TreeNodes(tree.lefts, tree.rights, tree.sizes, splitter.kinds)
        kernel(words, splitter.tables, nodes, np.uint64(shift), sums, opened)
        found.append((sums, opened))
    (sums, opened), (plain, plain_opened) = found
    assert (opened == plain_opened).all()
    assert (sums[~opened] == plain[~opened]).all()
    assert opened[1]
    assert opened[2]
    assert not opened[3:].any() or shift == 50
