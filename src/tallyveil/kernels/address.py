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


class Blocks(NamedTuple):
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
        block_of: Number of each draw's block among the blocks.
        lanes: The blocks, 8 lanes each.
    """

    first: int
    block_of: Int32s
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
    row = first // per_geounit
    block = first - row * per_geounit
    done = 0
    while done < n_blocks:
        word = high | np.uint64(geounits[row])
        run = min(per_geounit - block, n_blocks - done)
        for i in range(run):
            addresses[2 * (done + i)] = np.uint64(block + i)
            addresses[2 * (done + i) + 1] = word
        done += run
        row += 1
        block = 0


def dense_addresses_reference(
    high: np.uint64, geounits: Integers, per_geounit: int, first: int, n_blocks: int, addresses: Words
) -> None:
    """Specification of `dense_addresses`."""
    blocks = np.arange(first, first + n_blocks)
    addresses[0 : 2 * n_blocks : 2] = (blocks % per_geounit).astype(np.uint64)
    addresses[1 : 2 * n_blocks : 2] = high | geounits[blocks // per_geounit].astype(np.uint64)


@njit(nogil=True, cache=True)
def scattered_addresses(
    high: np.uint64, geounits: Integers, answers: Integers, first: int, addresses: Words, block_of: Int32s
) -> int:
    """Write the addresses of the blocks that hold scattered answers. Neighbours in one block share its address.

    Args:
        high: High word without geounit.
        geounits: [n].
        answers: [n].
        first: Answer to begin with.
        addresses: Output, [at least 2 block_of.size].
        block_of: Output, for each answer from `first` on, the number of its block among those written.
    Returns:
        How many addresses are written.
    """
    last = -1
    for i in range(block_of.size):
        low, word = np.uint64(answers[first + i] >> 3), high | np.uint64(geounits[first + i])
        if i == 0 or low != addresses[2 * last] or word != addresses[2 * last + 1]:
            last += 1
            addresses[2 * last] = low
            addresses[2 * last + 1] = word
        block_of[i] = last
    return last + 1


def scattered_addresses_reference(
    high: np.uint64, geounits: Integers, answers: Integers, first: int, addresses: Words, block_of: Int32s
) -> int:
    """Specification of `scattered_addresses`."""
    part = slice(first, first + block_of.size)
    low, word = (answers[part] // 8).astype(np.uint64), high | geounits[part].astype(np.uint64)
    new = np.append(True, (np.diff(low) != 0) | (np.diff(word) != 0))[: block_of.size]
    block_of[:] = np.cumsum(new) - 1
    n_blocks = int(np.count_nonzero(new))
    addresses[0 : 2 * n_blocks : 2] = low[new]
    addresses[1 : 2 * n_blocks : 2] = word[new]
    return n_blocks


@njit(nogil=True, cache=True)
def dense_refinement(
    high: np.uint64,
    geounits: Integers,
    n_answers: int,
    blocks: Blocks,
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
    per_geounit = (n_answers + 7) // 8
    for i in range(positions.size):
        row = positions[i] // n_answers
        answer = positions[i] - row * n_answers
        block = row * per_geounit + (answer >> 3) - first
        cells[i] = lanes[8 * block + (answer & 7)]
        addresses[2 * i] = np.uint64(answer) << np.uint64(16)
        addresses[2 * i + 1] = high | np.uint64(geounits[row])


def dense_refinement_reference(
    high: np.uint64,
    geounits: Integers,
    n_answers: int,
    blocks: Blocks,
    positions: Integers,
    out: Refinement,
) -> None:
    """Specification of `dense_refinement`."""
    rows, answers = np.divmod(positions, n_answers)
    own = rows * -(-n_answers // 8) + answers // 8 - blocks.first
    out.cells[: positions.size] = blocks.lanes[8 * own + answers % 8]
    out.addresses[0 : 2 * positions.size : 2] = (answers << 16).astype(np.uint64)
    out.addresses[1 : 2 * positions.size : 2] = high | geounits[rows].astype(np.uint64)


@njit(nogil=True, cache=True)
def scattered_refinement(
    high: np.uint64,
    geounits: Integers,
    answers: Integers,
    blocks: ScatteredBlocks,
    positions: Integers,
    out: Refinement,
) -> None:
    """Write the first refinement address of each undecided scattered draw, and its 16-bit cell.

    Args:
        high: High word without geounit, of the refinement kind.
        geounits: [n].
        answers: [n].
        blocks: Encrypted blocks, among them those of the draws at `positions`.
        positions: [m], places of the draws among the n.
        out: Output.
    """
    first, block_of, lanes = blocks
    addresses, cells = out
    for i in range(positions.size):
        position = positions[i]
        cells[i] = lanes[8 * block_of[position - first] + (answers[position] & 7)]
        addresses[2 * i] = np.uint64(answers[position]) << np.uint64(16)
        addresses[2 * i + 1] = high | np.uint64(geounits[position])


def scattered_refinement_reference(
    high: np.uint64,
    geounits: Integers,
    answers: Integers,
    blocks: ScatteredBlocks,
    positions: Integers,
    out: Refinement,
) -> None:
    """Specification of `scattered_refinement`."""
    drawn = answers[positions]
    own = blocks.block_of[positions - blocks.first].astype(np.int64)
    out.cells[: positions.size] = blocks.lanes[8 * own + drawn % 8]
    out.addresses[0 : 2 * positions.size : 2] = (drawn << 16).astype(np.uint64)
    out.addresses[1 : 2 * positions.size : 2] = high | geounits[positions].astype(np.uint64)
