"""Inversion kernels against their numpy twins."""

from fractions import Fraction

import numpy as np
import pytest
from tests.oracles import inversion as oracles

from tallyveil.kernels import noise as kernels
from tallyveil.kernels.noise import LaneBlocks, ScatteredBlocks
from tallyveil.noise import DiscreteGaussian
from tallyveil.noise.table import InversionTable

RNG = np.random.default_rng(21)
TABLES = [
    InversionTable.build(DiscreteGaussian(Fraction(1, 2))),
    InversionTable.build(DiscreteGaussian(Fraction(10**4)), direct_bits=9, word_bits=2),
    InversionTable.build(DiscreteGaussian(Fraction(3 * 10**7))),
]
LANES = RNG.integers(0, 1 << 16, 8 * 500).astype(np.uint16)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: str(table.law))
@pytest.mark.parametrize("dtype", [np.int64, np.int32])
@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize(
    ("n_answers", "first", "n_blocks"),
    [(1, 3, 400), (8, 0, 500), (29, 5, 111), pytest.param(4000, 7, 480, marks=pytest.mark.nightly)],
)
def test_look_up_dense(
    table: InversionTable, dtype: type, add: bool, n_answers: int, first: int, n_blocks: int
) -> None:
    rows = (first + n_blocks) // -(-n_answers // 8) + 1
    results = []
    for kernel in (kernels.look_up_dense, oracles.look_up_dense_reference):
        out = np.arange(rows * n_answers, dtype=dtype)
        positions = np.zeros(8 * n_blocks, dtype=np.int64)
        n_open = kernel(
            LaneBlocks(first, LANES[: 8 * n_blocks]), table.first_part, n_answers, add, out, positions
        )
        results.append((out, positions[:n_open]))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])


@pytest.mark.parametrize("table", TABLES, ids=lambda table: str(table.law))
def test_look_up_scattered(table: InversionTable) -> None:
    lane_of = RNG.integers(0, LANES.size, 500).astype(np.int32)
    results = []
    for kernel in (kernels.look_up_scattered, oracles.look_up_scattered_reference):
        out, positions = np.zeros(600, dtype=np.int64), np.zeros(500, dtype=np.int64)
        n_open = kernel(ScatteredBlocks(80, lane_of, LANES), table.first_part, out, positions)
        results.append((out, positions[:n_open]))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])


@pytest.mark.parametrize("table", TABLES, ids=lambda table: str(table.law))
@pytest.mark.parametrize("add", [False, True])
def test_refine(table: InversionTable, add: bool) -> None:
    (undecided,) = np.nonzero(table.direct == table.open_mark)
    cells = np.concatenate([RNG.choice(undecided, 300), [0, 0, 0, 65535, 65535]]).astype(np.uint16)
    words = RNG.integers(0, 1 << 64, 2 * cells.size, dtype=np.uint64)
    tail = int(table.tail_word)
    words[-10::2] = np.array([0, tail, tail + 1, (1 << 64) - 1, int(table.mask) - tail], dtype=np.uint64)
    hits = RNG.integers(0, table.fractions.size, 20)  # words equal to a boundary stay open
    cells[:20] = np.searchsorted(table.starts, hits, side="right") - 1
    words[:40:2] = table.fractions[hits]
    places = RNG.permutation(cells.size)
    results = []
    for kernel in (kernels.refine, oracles.refine_reference):
        out, still_open = np.full(cells.size, 5), np.zeros(cells.size, dtype=np.int64)
        n_open = kernel(
            cells,
            words,
            table.second_part,
            places,
            add,
            out,
            still_open,
        )
        results.append((out, still_open[:n_open]))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])
    assert set(range(20)) <= set(results[0][1].tolist())
