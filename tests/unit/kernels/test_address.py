"""Address kernels against their numpy twins."""

import numpy as np
import pytest
from tests.oracles import address as oracles
from tests.samples import ten

from tallyveil.kernels import noise as kernels

HIGH = np.uint64(0x1234567000000000)
RNG = np.random.default_rng(20)
GEOUNITS = RNG.integers(0, 1 << 36, 40)
ANSWERS = RNG.integers(0, 1 << 48, 40)
LANES = RNG.integers(0, 1 << 16, 4000).astype(np.uint16)


def unwritten(n: int) -> np.ndarray:
    return np.full(n, 99, dtype=np.uint64)


@pytest.mark.parametrize(
    ("per_geounit", "first", "n_blocks"), [(1, 0, 40), (7, 5, 100), (300, 299, 2), (3, 4, 0)]
)
def test_dense_addresses(per_geounit: int, first: int, n_blocks: int) -> None:
    fast, plain = unwritten(210), unwritten(210)
    kernels.dense_addresses(HIGH, GEOUNITS, per_geounit, first, n_blocks, fast)
    oracles.dense_addresses_reference(HIGH, GEOUNITS, per_geounit, first, n_blocks, plain)
    np.testing.assert_array_equal(fast, plain)
    assert np.all(fast[2 * n_blocks :] == 99)


def assert_same(results: list[tuple[np.ndarray, ...]]) -> None:
    for fast, plain in zip(*results, strict=True):
        np.testing.assert_array_equal(fast, plain)


@pytest.mark.parametrize("neighbours", [False, True])
@pytest.mark.parametrize(("first", "n_draws"), [(0, 40), (13, 20), (39, 1), (7, 0)])
def test_scattered_addresses(neighbours: bool, first: int, n_draws: int) -> None:
    geounits, answers = (GEOUNITS // (1 << 33), np.arange(40) * 3) if neighbours else (GEOUNITS, ANSWERS)
    results = []
    for kernel in (kernels.scattered_addresses, oracles.scattered_addresses_reference):
        addresses, lane_of = unwritten(100), np.full(n_draws, -1, np.int32)
        n_blocks = kernel(HIGH, geounits, answers, first, addresses, lane_of)
        results.append((addresses, lane_of))
        assert np.all(addresses[2 * n_blocks :] == 99)
        own = addresses.reshape(-1, 2)[lane_of // 8, 0] * 8 + (lane_of % 8).astype(np.uint64)
        np.testing.assert_array_equal(own, answers[first : first + n_draws])
    assert_same(results)


def test_neighbours_in_one_block_share_its_address() -> None:
    geounits, answers = np.array([1, 1, 1, 2, 1]), np.array([6, 7, 8, 8, 9])
    addresses, lane_of = unwritten(10), np.zeros(5, np.int32)
    assert kernels.scattered_addresses(HIGH, geounits, answers, 0, addresses, lane_of) == 4
    assert lane_of.tolist() == [6, 7, 8, 16, 25]


LISTED = kernels.Listed(
    np.array([99, 1, 7, 8, 30, 2, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
    np.array([1, 5, 5, 6, 16]),
    np.array([100, 103, 110, 110, 112]),
    np.array([0, 12, 12, 12, 32]),
)
"""Three geounits with four answers, seven with none, none with one answer, and two with ten."""


@pytest.mark.parametrize("first", ten(range(32)))
@pytest.mark.parametrize("n_draws", [1, 5, 32])
def test_listed_addresses(first: int, n_draws: int) -> None:
    results = []
    for kernel in (kernels.listed_addresses, oracles.listed_addresses_reference):
        addresses, lane_of = unwritten(70), np.full(min(n_draws, 32 - first), -1, np.int32)
        n_blocks = kernel(HIGH, LISTED, first, addresses, lane_of)
        results.append((addresses, lane_of))
        assert np.all(addresses[2 * n_blocks :] == 99)
    assert_same(results)


@pytest.mark.parametrize("n_answers", [1, 8, 13, 64])
def test_dense_refinement(n_answers: int) -> None:
    first_row = 10
    per_geounit = -(-n_answers // 8)
    places = np.sort(RNG.choice(np.arange(first_row * n_answers, 40 * n_answers), 25, replace=False))
    blocks = kernels.LaneBlocks(first_row * per_geounit, LANES)
    results = []
    for kernel in (kernels.dense_refinement, oracles.dense_refinement_reference):
        addresses, cells = unwritten(60), np.zeros(30, dtype=np.uint16)
        kernel(HIGH, GEOUNITS, n_answers, blocks, places, kernels.Refinement(addresses, cells))
        results.append((addresses, cells))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])


def test_scattered_refinement() -> None:
    addresses, lane_of = unwritten(80), np.zeros(40, np.int32)
    kernels.scattered_addresses(HIGH, GEOUNITS, ANSWERS, 0, addresses, lane_of)
    places, change = np.array([11, 12, 30, 39]), np.uint64(1 << 60)
    results = []
    for kernel in (kernels.scattered_refinement, oracles.scattered_refinement_reference):
        refined, cells = unwritten(10), np.zeros(6, dtype=np.uint16)
        blocks = kernels.ScatteredBlocks(10, lane_of[10:], LANES)
        kernel(change, blocks, addresses, places, kernels.Refinement(refined, cells))
        results.append((refined, cells))
    assert_same(results)
    assert results[0][0][0] == ANSWERS[11] << 16
    assert results[0][0][1] == HIGH ^ change | np.uint64(GEOUNITS[11])
    assert results[0][1][0] == LANES[lane_of[11]]
