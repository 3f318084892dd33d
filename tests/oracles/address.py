"""Slow and obvious specifications of the kernels in `tallyveil.kernels.noise`."""

import numpy as np

from tallyveil.arrays import Int32s, Integers, Words
from tallyveil.kernels.noise import LaneBlocks, Listed, Refinement, ScatteredBlocks


def dense_addresses_reference(
    high: np.uint64, geounits: Integers, per_geounit: int, first: int, n_blocks: int, addresses: Words
) -> None:
    """Specification of `dense_addresses`."""
    blocks = np.arange(first, first + n_blocks)
    addresses[0 : 2 * n_blocks : 2] = (blocks % per_geounit).astype(np.uint64)
    addresses[1 : 2 * n_blocks : 2] = high | geounits[blocks // per_geounit].astype(np.uint64)


def scattered_addresses_reference(
    high: np.uint64, geounits: Integers, answers: Integers, first: int, addresses: Words, lane_of: Int32s
) -> int:
    """Specification of `scattered_addresses`."""
    part = slice(first, first + lane_of.size)
    low, word = (answers[part] // 8).astype(np.uint64), high | geounits[part].astype(np.uint64)
    new = np.append(True, (np.diff(low) != 0) | (np.diff(word) != 0))[: lane_of.size]
    lane_of[:] = 8 * (np.cumsum(new) - 1) + answers[part] % 8
    n_blocks = int(np.count_nonzero(new))
    addresses[0 : 2 * n_blocks : 2] = low[new]
    addresses[1 : 2 * n_blocks : 2] = word[new]
    return n_blocks


def listed_addresses_reference(
    high: np.uint64, listed: Listed, first: int, addresses: Words, lane_of: Int32s
) -> int:
    """Specification of `listed_addresses`: every draw by itself, of which those of a geounit share blocks."""
    answers, begin, geounit_begin, draw_begin = listed
    draws = np.arange(first, first + lane_of.size)
    run = np.searchsorted(draw_begin, draws, side="right") - 1
    geounit, k = np.divmod(draws - draw_begin[run], np.diff(begin)[run])
    own = answers[begin[run] + k]
    return scattered_addresses_reference(high, geounit_begin[run] + geounit, own, 0, addresses, lane_of)


def dense_refinement_reference(
    high: np.uint64,
    geounits: Integers,
    n_answers: int,
    blocks: LaneBlocks,
    positions: Integers,
    out: Refinement,
) -> None:
    """Specification of `dense_refinement`."""
    rows, answers = np.divmod(positions, n_answers)
    own = rows * -(-n_answers // 8) + answers // 8 - blocks.first
    out.cells[: positions.size] = blocks.lanes[8 * own + answers % 8]
    out.addresses[0 : 2 * positions.size : 2] = (answers << 16).astype(np.uint64)
    out.addresses[1 : 2 * positions.size : 2] = high | geounits[rows].astype(np.uint64)


def scattered_refinement_reference(
    change: np.uint64, blocks: ScatteredBlocks, addresses: Words, positions: Integers, out: Refinement
) -> None:
    """Specification of `scattered_refinement`."""
    lane = blocks.lane_of[positions - blocks.first].astype(np.int64)
    low, high = addresses[2 * (lane // 8)].astype(np.int64), addresses[2 * (lane // 8) + 1]
    out.cells[: positions.size] = blocks.lanes[lane]
    out.addresses[0 : 2 * positions.size : 2] = ((8 * low + lane % 8) << 16).astype(np.uint64)
    out.addresses[1 : 2 * positions.size : 2] = high ^ change
