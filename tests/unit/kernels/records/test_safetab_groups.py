"""Each kernel of SafeTab against its twin."""

import numpy as np
import pytest
from tests.oracles import safetab_groups as oracles

from tallyveil.kernels import records as kernels

N_BLOCKS = 60


@pytest.fixture
def people():
    rng = np.random.default_rng(11)
    n, n_codes = 400, 12
    races, lists = np.empty(n, np.int32), []
    for person in range(n):
        own = rng.integers(0, n_codes, rng.integers(1, 9)).tolist()
        races[person] = own[0] if len(own) == 1 else ~len(lists)
        lists += [*own, -1] if len(own) > 1 else []
    start = np.concatenate([[0], np.sort(rng.integers(0, n, N_BLOCKS - 1)), [n]]).astype(np.int64)
    ethnicity = rng.integers(0, n_codes, n).astype(np.int16)
    cells = rng.integers(0, 46, n).astype(np.int8)
    maps = [(rng.integers(-1, 3, n_codes) + base).astype(np.int16) for base in (0, 3, 6)]
    maps = [np.where(m == base - 1, -1, m).astype(np.int16) for m, base in zip(maps, (0, 3, 6), strict=True)]
    for of_codes in maps:
        # As those of a release: a writeable array is of another type, for which the kernel would be compiled anew.
        of_codes.setflags(write=False)
    region = rng.integers(-1, 7, N_BLOCKS).astype(np.int32)
    return (start, races, np.array(lists, np.int16), ethnicity), cells, maps, region


def ordered(region):
    start, order = np.zeros(8, np.int64), np.empty(len(region), np.int32)
    kernels.order_by_region(region, 7, start, order)
    return start, order


def test_order_by_region(people):
    region = people[3]
    start, order = ordered(region)
    other, wanted = np.zeros(8, np.int64), np.empty(len(region), np.int32)
    oracles.order_by_region_reference(region, 7, other, wanted)
    np.testing.assert_array_equal(start, other)
    np.testing.assert_array_equal(order[: start[-1]], wanted[: start[-1]])


def test_counts(people):
    coded, cells, maps, region = people
    regions = np.array([1, 2, 4, 6], np.int64)
    blocks, coded, maps = (
        kernels.RegionBlocks(*ordered(region)),
        kernels.CodedPeople(*coded),
        kernels.IterationMaps(*maps),
    )
    found, wanted = np.zeros((4, 9), np.int64), np.zeros((4, 9), np.int64)
    kernels.count_totals(regions, blocks, coded, maps, found)
    oracles.count_totals_reference(regions, blocks, coded, maps, wanted)
    np.testing.assert_array_equal(found, wanted)
    assert found.sum() > 400
    slots = np.full((4, 7), -1, np.int32)  # fewer columns than iterations: the rest are total-only
    slots[0, 2], slots[2, 5], slots[2, 0] = 0, 1, 2
    tables, other = np.zeros((4, 46), np.int64), np.zeros((4, 46), np.int64)
    kernels.count_tables(regions, blocks, coded, cells, maps, slots, tables)
    oracles.count_tables_reference(regions, blocks, coded, cells, maps, slots, other)
    np.testing.assert_array_equal(tables, other)
    np.testing.assert_array_equal(tables.sum(axis=1), [found[0, 2], found[2, 5], found[2, 0], 0])


@pytest.mark.parametrize("thresholds", [(3, 5, 9), (0, 0, 0), (5, 5, 7), (-4, 2, 100)])
def test_choice_and_lists(thresholds):
    rng = np.random.default_rng(2)
    counts = rng.integers(-6, 14, (9, 11))
    bounds = np.array(thresholds, np.int64)
    results = []
    for choose, listing in (
        (kernels.choose_detail, kernels.list_totals),
        (oracles.choose_detail_reference, oracles.list_totals_reference),
    ):
        detail, slots = np.empty(counts.shape, np.int8), np.empty(counts.shape, np.int32)
        totals, places = counts[::-1].copy(), np.zeros(counts.size, np.int64)
        n = choose(counts, bounds, detail, slots)
        listed = listing(totals, detail, 2, places)
        results.append((n, detail, slots, listed, places[:listed], totals))
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)
    wanted = (counts[:, :, None] >= bounds).sum(axis=2)
    np.testing.assert_array_equal(results[0][1], wanted)
    assert not results[0][5][wanted > 0].any()
