"""Kernels of the noise: they write addresses, and look random bits up in an inversion table.

The layout of addresses is that of `tallyveil.noise.address`, and the table is that of
`tallyveil.noise.table`. Specifications in numpy: `tests.oracles.address` and `tests.oracles.inversion`.

*Addresses.* The noise of an answer is read from one 16-bit lane of an encrypted block of 8 lanes. The kernels
write the addresses of the blocks, and of the blocks that refine a draw which one lane does not decide. All
words are uint64: [2 i] is the low word of address i and [2 i + 1] its high word. Worked case: 10 answers a
geounit take 2 blocks a row. Block 3, counted through all rows, is block 1 of row 1 and holds the answers 8
and 9 of the second geounit.

*Inversion.* Uniform random bits become a draw of a law on the integers. The table's first part says, for each
of the 2^16 values of a lane, which outcome it decides, or that it leaves the draw open. An open draw takes
more bits and compares them with the law's cumulative probabilities. Integers only: no floating-point number
lies between the bits and the outcome.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tallyveil.arrays import Int32s, Integers, Uint16s, Words
from tallyveil.kernels.compiled import inlined, njit
from tallyveil.kernels.vectors import first_at_least


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
        end = int(np.int64(starts[cell + 1]))
        # The first boundary of the cell that the word does not pass
        low = first_at_least(fractions, int(np.int64(starts[cell])), end, word)
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
