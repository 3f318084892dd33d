"""Kernels that write noise addresses (layout: `tallyveil.noise.address`), with their specifications in numpy.

The noise of an answer is read from one 16-bit lane of an encrypted block of 8 lanes. These kernels write the
addresses of the blocks, and of the blocks that refine a draw which one lane does not decide.

Worked case: 10 answers a geounit take 2 blocks a row. Block 3, counted through all rows, is block 1 of row 1 and
holds the answers 8 and 9 of the second geounit.

All words are uint64: [2 i] is the low word of address i and [2 i + 1] its high word.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Int32s, Integers, Uint16s, Words
from tallyveil.kernels.compiled import njit


class LaneBlocks(NamedTuple):
    """A run of encrypted blocks.

    Attributes:
        first: The first block, counted through all blocks of the request.
        lanes: The blocks, 8 lanes each.
    """

    first: int
    lanes: Uint16s


class ScatteredBlocks(NamedTuple):
    """Encrypted blocks of a run of scattered draws.

    Attributes:
        first: The first draw of the run.
        lane_of: Lane of each draw.
        lanes: The blocks, 8 lanes each.
    """

    first: int
    lane_of: Int32s
    lanes: Uint16s


class Refinement(NamedTuple):
    """Where the next digits of undecided draws are found, and the digits they begin with.

    Attributes:
        addresses: The first refinement address of each draw, two words each. [at least 2 m]
        cells: The first 16 digits of each draw. [at least m]
    """

    addresses: Words
    cells: Uint16s


@njit(nogil=True, cache=True)
def dense_addresses(
    high: np.uint64, geounits: Integers, per_geounit: int, first: int, n_blocks: int, addresses: Words
) -> None:
    """Write the addresses of `n_blocks` blocks of a dense array, beginning with block `first`.

    Args:
        high: High word without geounit.
        geounits: [rows], the geounit of each row.
        per_geounit: Blocks in a row.
        first: Block to begin with, counted through all rows.
        n_blocks: Blocks to write.
        addresses: Output, [at least 2 n_blocks].
    """
    # Chunks begin anywhere, also within a row: a block's address depends on its row and place alone, so any cut
    # into chunks writes the same.
    row = first // per_geounit
    block = first - row * per_geounit
    done = 0
    while done < n_blocks:
        # The geounit has the lowest 36 bits of the high word, which are zeros in `high`; it was checked to fit. So
        # "or" is the sum, and nothing spills into the query.
        word = high | np.uint64(geounits[row])
        run = min(per_geounit - block, n_blocks - done)
        for i in range(run):
            addresses[2 * (done + i)] = np.uint64(block + i)
            addresses[2 * (done + i) + 1] = word
        done += run
        row += 1
        block = 0


@njit(nogil=True, cache=True)
def scattered_addresses(
    high: np.uint64, geounits: Integers, answers: Integers, first: int, addresses: Words, lane_of: Int32s
) -> int:
    """Write the addresses of the blocks that hold scattered answers. Neighbours in one block share its address.

    Args:
        high: High word without geounit.
        geounits: [n].
        answers: [n].
        first: Answer to begin with.
        addresses: Output, [at least 2 lane_of.size].
        lane_of: Output, for each answer from `first` on, its lane among those of the blocks written.
    Returns:
        How many addresses are written.
    """
    # A chunk begins with a block of its own, even if the one before ended in the same block: that costs one
    # encryption and makes a chunk depend on nothing before it.
    last = -1
    for i in range(lane_of.size):
        answer, word = answers[first + i], high | np.uint64(geounits[first + i])
        # Block answer // 8 and lane answer % 8, by shifts, since answers are not negative.
        low = np.uint64(answer >> 3)
        # A block holds 8 answers. The order is by geounit and answer, so that answers of one block are neighbours.
        if i == 0 or low != addresses[2 * last] or word != addresses[2 * last + 1]:
            last += 1
            addresses[2 * last] = low
            addresses[2 * last + 1] = word
        # Lanes of one chunk: at most 8 times 2^14 of them, far within an int32.
        lane_of[i] = 8 * last + (answer & 7)
    return last + 1


class Listed(NamedTuple):
    """Draws of listed answers: for each run of geounits, each geounit of the run has the same answers.

    Attributes:
        answers: Answers of all runs.
        begin: Where those of each run begin. [runs + 1]
        geounit_begin: First geounit of each run, and one past the last. [runs + 1]
        draw_begin: First draw of each run, and the number of draws. [runs + 1]
    """

    answers: Integers
    begin: Integers
    geounit_begin: Integers
    draw_begin: Integers


@njit(nogil=True, cache=True)
def listed_addresses(high: np.uint64, listed: Listed, first: int, addresses: Words, lane_of: Int32s) -> int:
    """Write the addresses of the blocks that hold listed answers. The draws are by run, geounit and answer.

    Args:
        high: High word without geounit.
        listed: The draws.
        first: Draw to begin with.
        addresses: Output, [at least 2 lane_of.size].
        lane_of: Output, for each draw from `first` on, its lane among those of the blocks written.
    Returns:
        How many addresses are written.
    """
    answers, begin, geounit_begin, draw_begin = listed
    # The last run that begins at or before the draw. Runs without draws have equal begins, and are passed over
    # below.
    run = np.searchsorted(draw_begin, first, side="right") - 1
    done, n_blocks = 0, 0
    while done < lane_of.size:
        width = begin[run + 1] - begin[run]
        place = first + done - draw_begin[run]
        # This also skips runs without answers, whose width 0 would otherwise divide by zero.
        if place >= draw_begin[run + 1] - draw_begin[run]:
            run += 1
            continue
        geounit = place // width
        k = place - geounit * width
        word = high | np.uint64(geounit_begin[run] + geounit)
        # Only as far as the chunk reaches: the next one goes on within the geounit.
        stop = min(width, k + lane_of.size - done)
        # No block: every geounit begins with an address of its own.
        before = -1
        while k < stop:
            answer = answers[begin[run] + k]
            # 8 answers share a block; each geounit begins a new one
            if answer >> 3 != before:
                before = answer >> 3
                addresses[2 * n_blocks] = np.uint64(before)
                addresses[2 * n_blocks + 1] = word
                n_blocks += 1
            lane_of[done] = 8 * (n_blocks - 1) + (answer & 7)
            done += 1
            k += 1
    return n_blocks


@njit(nogil=True, cache=True)
def dense_refinement(
    high: np.uint64,
    geounits: Integers,
    n_answers: int,
    blocks: LaneBlocks,
    positions: Integers,
    out: Refinement,
) -> None:
    """Write the first refinement address of each undecided draw of a dense array, and its 16-bit cell.

    Args:
        high: High word without geounit, of the refinement kind.
        geounits: [rows].
        n_answers: Answers in a row.
        blocks: Encrypted blocks, among them those of the draws.
        positions: [m], places of the draws in the flat dense array.
        out: Output.
    """
    first, lanes = blocks
    addresses, cells = out
    # Rounded up, as in `DenseDraws`: both must agree on where a row's blocks begin.
    per_geounit = (n_answers + 7) // 8
    for i in range(positions.size):
        row = positions[i] // n_answers
        answer = positions[i] - row * n_answers
        block = row * per_geounit + (answer >> 3) - first
        # The lane that left the draw undecided is its first 16 digits. It is kept, since the comparison goes on
        # from it.
        cells[i] = lanes[8 * block + (answer & 7)]
        # the low 16 bits count the words of one draw
        addresses[2 * i] = np.uint64(answer) << np.uint64(16)
        addresses[2 * i + 1] = high | np.uint64(geounits[row])


@njit(nogil=True, cache=True)
def scattered_refinement(
    change: np.uint64, blocks: ScatteredBlocks, addresses: Words, positions: Integers, out: Refinement
) -> None:
    """Write the first refinement address of each undecided scattered or listed draw, and its 16-bit cell.

    Args:
        change: What makes the high word of a block's address into that of a refinement address, by exclusive or.
        blocks: Encrypted blocks, among them those of the draws at `positions`.
        addresses: Their addresses.
        positions: [m], places of the draws among all.
        out: Output.
    """
    first, lane_of, lanes = blocks
    refined, cells = out
    for i in range(positions.size):
        lane = lane_of[positions[i] - first]
        block = lane >> 3
        # The answer is read back from the block's address: low word times 8 plus the lane.
        answer = addresses[2 * block] << np.uint64(3) | np.uint64(lane & 7)
        cells[i] = lanes[lane]
        refined[2 * i] = answer << np.uint64(16)  # as in `dense_refinement`
        refined[2 * i + 1] = addresses[2 * block + 1] ^ change
