"""The answers of many families at once, against plain twins."""

import numpy as np
import pytest
from tests.oracles import answers as oracles
from tests.samples import ten

from tallyveil.kernels.family import answers as kernels


def chunk(seed):
    """Families with supports of every size, queries that leave cells out, some settled families."""
    rng = np.random.default_rng([71, seed])
    n_families, n_cells, n_queries = int(rng.integers(1, 6)), int(rng.integers(1, 30)), 3
    supports = [
        np.sort(rng.choice(n_cells, int(rng.integers(0, n_cells + 1)), replace=False))
        for _ in range(n_families)
    ]
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in supports])])
    cells = np.concatenate(supports).astype(np.int64)
    sizes = np.array([1, 5, n_cells])
    tables = np.stack([rng.integers(-1, size, n_cells) for size in sizes]).astype(np.int32)
    children = rng.integers(1, 5, n_families)
    child_begin = np.concatenate([[0], np.cumsum(children)])
    settled = rng.random(n_families) < 0.2
    assert n_queries == len(sizes)
    return tables, sizes, offsets, cells, settled, child_begin


@pytest.mark.parametrize("seed", ten(range(60)))
def test_answers_on_support_agree_with_the_twin(seed):
    *family, _ = chunk(seed)
    found, expected = kernels.list_answers(*family), oracles.list_answers_reference(*family)
    for one, other in zip(found, expected, strict=True):
        assert np.asarray(one).dtype == np.asarray(other).dtype
        assert np.array_equal(one, other)


@pytest.mark.parametrize("seed", ten(range(60)))
def test_values_are_addressed_and_counts_added_as_by_the_twins(seed):
    tables, sizes, offsets, cells, settled, child_begin = chunk(seed)
    _, answers, begin = kernels.list_answers(tables, sizes, offsets, cells, settled)
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 6, child_begin[-1])
    truth = np.concatenate([[0], np.cumsum(lengths)])
    members = rng.integers(0, tables.shape[1], truth[-1])
    counts = rng.integers(1, 9, truth[-1])
    for q in range(len(sizes)):
        n = int((np.diff(begin[q]) * np.diff(child_begin)).sum())
        spread = [np.full(n, -7) for _ in range(4)]
        kernels.spread_answers(answers, begin[q], child_begin, *spread[:2])
        oracles.spread_answers_reference(answers, begin[q], child_begin, *spread[2:])
        assert np.array_equal(spread[0], spread[2])
        assert np.array_equal(spread[1], spread[3])
        noisy = rng.integers(-5, 5, n)
        fast, slow = noisy.copy(), noisy.copy()
        sparse = kernels.SparseCounts(truth, members, counts)
        args = answers, begin[q], child_begin, tables[q], int(sizes[q]), sparse
        kernels.add_counts(*args, fast)
        oracles.add_counts_reference(*args, slow)
        assert np.array_equal(fast, slow)
