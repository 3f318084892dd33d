"""Sparse counts: adding up in pieces gives what adding up at once gives, in few bytes."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.samples import ten

from tallyveil.schema import counts as module
from tallyveil.schema.counts import (
    PublicCounts,
    TripletSum,
    compress_rows,
    distinct,
    narrow,
    row_ranges,
    sum_families,
    sum_members,
    sum_triplets,
)

N_ROWS, N_CELLS = 6, 5
PIECES = st.lists(
    st.lists(
        st.tuples(st.integers(0, N_ROWS - 1), st.integers(0, N_CELLS - 1), st.integers(-2, 9)), max_size=12
    ),
    max_size=6,
)


def columns(triplets):
    return (np.array([triplet[index] for triplet in triplets], dtype=np.int64) for index in range(3))


def expand(offsets, cells, counts):
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return list(zip(rows.tolist(), cells.tolist(), counts.tolist(), strict=True))


def expected(triplets):
    total = Counter()
    for row, cell, count in triplets:
        total[row, cell] += count
    return [(*place, count) for place, count in sorted(total.items()) if count]


@settings(max_examples=200)
@given(PIECES, st.sampled_from([1, 8, 1 << 25]), st.booleans())
def test_pieces_in_any_order_add_up(pieces, pending, ordered):
    if ordered:
        whole = sorted(triplet for piece in pieces for triplet in piece)
        pieces = [whole[at : at + 7] for at in range(0, len(whole), 7)]
    total = TripletSum(N_ROWS, N_CELLS)
    total._limit = pending
    for piece in pieces:
        total.add(*columns(piece))
    assert expand(*total.finish()) == expected([triplet for piece in pieces for triplet in piece])


def test_a_universe_too_large_for_one_number_a_place_is_sorted_by_two():
    cells = np.array([2**61, 3, 2**61, 5])
    rows = np.array([9, 9, 9, 2])
    found = sum_triplets(rows, cells, np.array([1, 2, 3, 4]), 2**62)
    assert [array.tolist() for array in found] == [[2, 9, 9], [5, 3, 2**61], [4, 2, 4]]
    offsets, kept, _ = compress_rows(10, rows, cells, np.ones(4, dtype=np.int64))
    assert kept.dtype == np.int64
    assert offsets[-1] == 3


def test_counts_are_narrow_where_they_fit():
    assert narrow(np.array([2**31 - 1, 0])).dtype == np.int32
    assert narrow(np.array([2**31])).dtype == np.int64
    assert narrow(np.array([-(2**31)])).dtype == np.int64
    with pytest.raises(ValueError, match="read-only"):
        narrow(np.array([1]))[0] = 2


def test_what_is_handed_out_is_wide():
    counts = PublicCounts(
        "A", *compress_rows(2, np.array([1, 1]), np.array([3, 4]), np.array([2**30, 2**30]))
    )
    assert counts.cells.dtype == counts.counts.dtype == np.int32
    assert counts.total == 2**31
    for array in (*counts.entries(1), *counts.rows(0, 2)):
        assert array.dtype == np.int64


@settings(max_examples=100)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.integers(1, 12))
def test_ranges_cover_every_row_once_and_stay_small(lengths, entries):
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    ranges = list(row_ranges(offsets, entries))
    assert [row for start, stop in ranges for row in range(start, stop)] == list(range(len(lengths)))
    for start, stop in ranges:
        assert stop - start == 1 or (offsets[stop] - offsets[start] <= entries and stop - start <= entries)


@pytest.mark.parametrize("entries", [1, 3, 1 << 21])
def test_families_add_up_to_their_parents(monkeypatch, entries):
    monkeypatch.setattr(module, "row_ranges", lambda offsets: row_ranges(offsets, entries))
    rng = np.random.default_rng(1)
    child_offsets = np.array([0, 2, 3, 9])
    dense = rng.integers(0, 3, (9, N_CELLS))
    rows, cells = np.nonzero(dense)
    children = compress_rows(9, rows, cells, dense[rows, cells])
    summed = np.add.reduceat(dense, child_offsets[:-1], axis=0)
    found = np.zeros_like(summed)
    for row, cell, count in expand(*sum_families(*children, child_offsets, N_CELLS)):
        found[row, cell] = count
    assert np.array_equal(found, summed)


@pytest.mark.parametrize("seed", ten(range(20)))
def test_areas_that_overlap_add_up_their_members(seed, monkeypatch):
    """Beside sums over dense arrays, an area at a time or several."""
    rng = np.random.default_rng([7, seed])
    dense = rng.integers(0, 4, (9, N_CELLS)) * (rng.random((9, N_CELLS)) < 0.4)
    rows, cells = np.nonzero(dense)
    offsets, cell, count = compress_rows(9, rows, cells, dense[rows, cells])
    inside = rng.random((5, 9)) < rng.random()
    area_offsets = np.concatenate([[0], np.cumsum(inside.sum(axis=1))])
    monkeypatch.setattr(module, "ENTRIES_AT_ONCE", 8 * int(rng.integers(1, 12)))
    summed = sum_members(offsets, cell, count, area_offsets, np.nonzero(inside)[1], N_CELLS)
    found = PublicCounts("areas", *summed)
    wanted = inside.astype(np.int64) @ dense
    assert found.n_geounits == 5
    got = np.zeros_like(wanted)
    got[found.geounits, found.cells] = found.counts
    assert np.array_equal(got, wanted)
    assert (found.counts > 0).all()


@pytest.mark.parametrize("numbers", [[], [3], [5, -1, 5, 5, 2], [2**40, 0, 2**40]])
def test_distinct_numbers_are_those_of_numpy(numbers):
    found = distinct(np.array(numbers, dtype=np.int64))
    assert found.dtype == np.int64
    assert found.tolist() == np.unique(np.array(numbers, dtype=np.int64)).tolist()
    narrow_numbers = np.array([number % 100 for number in numbers], dtype=np.int32)
    assert distinct(narrow_numbers).tolist() == np.unique(narrow_numbers).tolist()
