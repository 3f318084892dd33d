"""The last step of docs/proofs/alias-tables.md: splits of splits, down to the cells."""

from fractions import Fraction
from itertools import product
from random import Random

import numpy as np
import pytest
from tests.proofs.rational_laws import random_block, random_masses, split_law, sums_of
from tests.samples import every

from tallyveil.noise import NoiseSource, insecure_key
from tallyveil.subspace.exact.digits import NoiseAddress
from tallyveil.subspace.exact.split import LARGEST_ENTRIES, BlockSplitter, split_tree


def tree_law(sums, n):
    """The law of the cells when every split of the tree has its law, by enumeration."""
    tree = split_tree(n)
    whole = {((0, 0),): Fraction(1)}
    for node in tree.inner.tolist():
        left, right = int(tree.lefts[node]), int(tree.rights[node])
        parts = [sums.exact(int(tree.sizes[part])) for part in (left, right)]
        further = {}
        for known, mass in whole.items():
            t = dict(known)[node]
            for s, share in split_law(parts[0], parts[1], t).items():
                further[(*known, (left, s), (right, t - s))] = mass * share
        whole = further
    return {tuple(dict(known)[leaf] for leaf in tree.leaves.tolist()): mass for known, mass in whole.items()}


@pytest.mark.parametrize("seed", every(10, range(30)))
def test_w9_splits_down_the_tree_give_the_cells_given_their_sum(seed):
    random = Random(f"tree {seed}")
    sums, n = sums_of(random_masses(random, 1)), random.randint(2, 5)
    direct = {}
    for cells in product(sums.cell, repeat=n):
        if sum(cells) == 0:
            direct[cells] = Fraction(1)
            for x in cells:
                direct[cells] *= sums.cell[x]
    total = sum(direct.values())
    assert tree_law(sums, n) == {cells: mass / total for cells, mass in direct.items()}


@pytest.mark.parametrize("seed", range(4))
def test_w9_a_draw_made_again_keeps_what_the_look_up_decided(seed):
    """The exact path decides every split as the kernel does, so one undecided split changes no other one."""
    _, sums, n = random_block(seed)
    splitter = BlockSplitter.build(sums, n, alias_entries=LARGEST_ENTRIES, ignored_digits=35)
    address, draws = NoiseAddress(NoiseSource(insecure_key(f"proof {seed}")), 0, 0), np.arange(40)
    words = address.numbers(draws, 0, n - 1 + (n - 1) % 2)[:, : n - 1]
    cells = np.empty((40, n), dtype=np.int64)
    opened = splitter.alias.split(np.ascontiguousarray(words), np.arange(n), cells)
    assert np.count_nonzero(~opened) > 0
    for i in np.flatnonzero(~opened).tolist():
        sums_of_nodes = splitter._exactly(address, i, 0, 0)
        assert sums_of_nodes[splitter.tree.leaves].tolist() == cells[i].tolist()
