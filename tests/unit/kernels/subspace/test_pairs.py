from fractions import Fraction

import numpy as np
import pytest

from tallyveil.kernels.subspace.pairs import ring_cell, split_pairs, split_pairs_reference
from tallyveil.kernels.subspace.sums import TreeNodes
from tallyveil.noise import DiscreteLaplace
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.exact.three_columns import three_column_sampler
from tallyveil.subspace.structure import recognise


@pytest.mark.parametrize("shift", [0, 50])
def test_twins_agree(shift):
    cells = np.arange(12).reshape(4, 3)
    system = ConstraintSystem.from_sets([*cells.tolist(), *cells.T.tolist()], 12)
    sampler = three_column_sampler(DiscreteLaplace(Fraction(1, 2)), recognise(system), 12)
    tree = sampler.tree
    words = np.random.default_rng(shift).integers(0, 1 << 64, (30, 3), dtype=np.uint64)
    words[1] = (1 << 64) - 1
    found = []
    for kernel in (split_pairs, split_pairs_reference):
        sums = np.zeros((30, tree.sizes.size, 2), dtype=np.int64)
        sums[:, 0] = np.random.default_rng(9).integers(-3, 4, (30, 2))
        sums[2, 0] = 10_000
        opened = np.zeros(30, dtype=np.bool_)
        nodes = TreeNodes(tree.lefts, tree.rights, tree.sizes, sampler.kinds)
        kernel(words, sampler.tables, nodes, np.uint64(shift), sums, opened)
        found.append((sums, opened))
    (sums, opened), (plain, plain_opened) = found
    assert (opened == plain_opened).all()
    assert (sums[~opened] == plain[~opened]).all()
    assert opened[1:3].all()
    assert not opened[3:].any() or shift == 50


def test_rings_cover_the_plane_once():
    seen = [ring_cell(ring, place) for ring in range(6) for place in range(max(1, 8 * ring))]
    assert len(seen) == len(set(seen)) == 11 * 11
    assert all(max(abs(i), abs(j)) <= 5 for i, j in seen)
