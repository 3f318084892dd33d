"""Kernels that look random bits up in an inversion table (`tallyveil.noise.table`), with their specifications in numpy.

Problem: turn uniform random bits into a draw of a law on the integers. The table's first part says, for each of the
2^16 values of a lane, which outcome it decides, or that it leaves the draw open. An open draw takes more bits and
compares them with the law's cumulative probabilities.

Integers only: no floating-point number lies between the bits and the outcome.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tallyveil.arrays import Integers, Uint16s, Words
from tallyveil.kernels.address import LaneBlocks, ScatteredBlocks
from tallyveil.kernels.compiled import inlined, njit


class Direct(NamedTuple):
    """The first part of a table.

    Attributes:
        outcomes: [65536], outcome of each cell or `open_mark`.
        open_mark: Marks an undecided cell.
    """

    outcomes: npt.NDArray[Any]
    open_mark: int


class Boundaries(NamedTuple):
    """The second part of a table: cumulative probabilities inside the undecided cells.

    Attributes:
        starts: [65537], where each cell's boundaries begin in `fractions`.
        fractions: Digits of the boundaries after the first 16, ascending in each cell.
        mask: The digits of a word that count.
        lowest: Outcome below all boundaries.
        tail_word: Largest word of cell 0 that stays undecided; mirrored in cell 65535.
    """

    starts: npt.NDArray[np.int32]
    fractions: Words
    mask: np.uint64
    lowest: int
    tail_word: np.uint64


class _LaneRun(NamedTuple):
    """Neighbouring lanes of one row, from `lane` on, whose draws go to `place` and the places after it."""

    lane: np.uint64
    place: np.uint64
    width: np.uint64


@inlined
def _look_up_run(
    lanes: Uint16s,
    table: Direct,
    run: _LaneRun,
    add: bool,
    out: npt.NDArray[Any],
    positions: Integers,
    n_open: int,
) -> int:
    """Look the lanes of one run up; see `look_up_dense`.

    Indices are unsigned, which spares the compiled code a test for negative ones.
    """
    # Values of the table are 16 or 32 bits wide; the output is as wide or wider, which keeps every outcome.
    direct, open_mark = table
    lane, place, width = run
    # Eight draws at a time with one branch: a group without an undecided draw, nearly all of them, pays
    # nothing for the bookkeeping of the others. A last group that is not whole is looked up one by one.
    single, eight = np.uint64(1), np.uint64(8)
    i = np.uint64(0)
    while i + eight <= width:
        any_open = False
        for k in range(eight):
            outcome = direct[lanes[lane + i + k]]
            undecided = outcome == open_mark
            # No branch for a single draw, which the processor would now and then guess wrongly.
            any_open |= undecided
            # an undecided draw is added when it is decided
            if add:
                out[place + i + k] += 0 if undecided else outcome
            else:
                out[place + i + k] = outcome
        if any_open:
            for k in range(eight):
                # Written in any case, counted only where the draw is open: again without a branch. No more draws
                # can be open than were looked up before, so the place exists.
                positions[n_open] = place + i + k
                n_open += direct[lanes[lane + i + k]] == open_mark
        i += eight
    while i < width:
        outcome = direct[lanes[lane + i]]
        undecided = outcome == open_mark
        if add:
            out[place + i] += 0 if undecided else outcome
        else:
            out[place + i] = outcome
        positions[n_open] = place + i
        n_open += undecided
        i += single
    return n_open


@njit(nogil=True, cache=True)
def look_up_dense(
    blocks: LaneBlocks,
    table: Direct,
    n_answers: int,
    add: bool,
    out: npt.NDArray[Any],
    positions: Integers,
) -> int:
    """Look up the draws of a run of blocks of a dense array.

    Args:
        blocks: Encrypted blocks, counted through all rows. Lanes beyond the end of a row are skipped.
        table: The law's table.
        n_answers: Answers in a row.
        add: Add the outcome to `out` (undecided: nothing) instead of storing it.
        out: Flat dense array, changed in place.
        positions: Output, places in `out` of the undecided draws. [as long as the lanes]
    Returns:
        How many draws are undecided.
    """
    # Rows are counted through, so that a chunk may begin in the middle of one and end in the middle of another.
    first, lanes = blocks
    n_blocks = lanes.size // 8
    per_geounit = (n_answers + 7) // 8
    row = first // per_geounit
    block = first - row * per_geounit
    done = 0
    n_open = 0
    while done < n_blocks:
        # Lanes beyond the last answer of a row are passed over, never used for the next row.
        run = min(per_geounit - block, n_blocks - done)
        place = row * n_answers + 8 * block
        width = min(8 * run, n_answers - 8 * block)
        # n_answers times rows is the size of an array in memory, so that no product overflows.
        row_run = _LaneRun(np.uint64(8 * done), np.uint64(place), np.uint64(width))
        n_open = _look_up_run(lanes, table, row_run, add, out, positions, n_open)
        done += run
        row += 1
        block = 0
    return n_open


@njit(nogil=True, cache=True)
def look_up_scattered(
    blocks: ScatteredBlocks,
    table: Direct,
    out: npt.NDArray[Any],
    positions: Integers,
) -> int:
    """Look up a run of scattered or listed draws.

    Args:
        blocks: Encrypted blocks.
        table: The law's table.
        out: [n], changed in place.
        positions: Output, places in `out` of the undecided draws. [at least one a draw of the run]
    Returns:
        How many draws are undecided.
    """
    first, lane_of, lanes = blocks
    direct, open_mark = table
    # One by one: lanes of scattered draws do not lie side by side.
    n_open = 0
    for i in range(lane_of.size):
        outcome = direct[lanes[lane_of[i]]]
        out[first + i] = outcome
        positions[n_open] = first + i
        n_open += outcome == open_mark
    return n_open


@njit(nogil=True, cache=True)
def refine(
    cells: Uint16s,
    words: Words,
    boundaries: Boundaries,
    positions: Integers,
    add: bool,
    out: npt.NDArray[Any],
    still_open: Integers,
) -> int:
    """Decide draws by one 64-bit word each, compared with the boundaries in their cell.

    Args:
        cells: [m], the first 16 digits of each draw.
        words: [2 m], word 2 i holds the next digits of draw i.
        boundaries: The second part of the law's table.
        positions: [m], places of the draws in `out`.
        add: Add the outcome to `out` instead of storing it.
        out: Changed in place.
        still_open: Output, which of the m draws stay undecided. [at least m]
    Returns:
        How many draws stay undecided.
    """
    starts, fractions, mask, lowest, tail_word = boundaries
    n_open = 0
    for i in range(positions.size):
        # Signed from here on: an unsigned and a signed integer together would become a float.
        cell = np.int64(cells[i])
        # The first of the two words of the block; the second serves the third step.
        word = words[2 * i] & mask
        # A binary search: most cells hold a boundary or two, those of the tails or of a wide law many.
        low = np.int64(starts[cell])
        high = np.int64(starts[cell + 1])
        end = high
        # The first boundary of the cell that the word does not pass
        while low < high:
            middle = (low + high) // 2
            if fractions[middle] < word:
                low = middle + 1
            else:
                high = middle
        # The word equals a boundary as far as its digits go, or lies where no boundaries are stored.
        if (
            (low < end and fractions[low] == word)
            or (cell == 0 and word <= tail_word)
            or (cell == 65535 and word >= mask - tail_word)
        ):
            still_open[n_open] = i
            n_open += 1
        elif add:
            out[positions[i]] += lowest + low
        else:
            out[positions[i]] = lowest + low
    return n_open
