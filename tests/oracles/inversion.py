"""Slow and obvious specifications of the kernels in `tallyveil.kernels.noise`."""

from typing import Any

import numpy as np
import numpy.typing as npt

from tallyveil.arrays import Integers, Uint16s, Words
from tallyveil.kernels.noise import Boundaries, Direct, LaneBlocks, ScatteredBlocks


def look_up_dense_reference(
    blocks: LaneBlocks,
    table: Direct,
    n_answers: int,
    add: bool,
    out: npt.NDArray[Any],
    positions: Integers,
) -> int:
    """Specification of `look_up_dense`."""
    lanes = blocks.lanes.reshape(-1, 8)
    rows, places_in_row = np.divmod(np.arange(blocks.first, blocks.first + len(lanes)), -(-n_answers // 8))
    answers = 8 * places_in_row[:, None] + np.arange(8)
    real = answers < n_answers
    places = (rows[:, None] * n_answers + answers)[real]
    outcomes = table.outcomes[lanes[real]]
    undecided = outcomes == table.open_mark
    if add:
        out[places] += np.where(undecided, 0, outcomes)
    else:
        out[places] = outcomes
    n_open = int(np.count_nonzero(undecided))
    positions[:n_open] = places[undecided]
    return n_open


def look_up_scattered_reference(
    blocks: ScatteredBlocks,
    table: Direct,
    out: npt.NDArray[Any],
    positions: Integers,
) -> int:
    """Specification of `look_up_scattered`."""
    outcomes = table.outcomes[blocks.lanes[blocks.lane_of]]
    out[blocks.first : blocks.first + blocks.lane_of.size] = outcomes
    (undecided,) = np.nonzero(outcomes == table.open_mark)
    positions[: undecided.size] = blocks.first + undecided
    return int(undecided.size)


def refine_reference(
    cells: Uint16s,
    words: Words,
    boundaries: Boundaries,
    positions: Integers,
    add: bool,
    out: npt.NDArray[Any],
    still_open: Integers,
) -> int:
    """Specification of `refine`."""
    starts, fractions, mask, lowest, tail_word = boundaries
    n_open = 0
    for i, position in enumerate(positions):
        cell = int(cells[i])
        word = words[2 * i] & mask
        inside = fractions[starts[cell] : starts[cell + 1]]
        in_tail = (cell == 0 and word <= tail_word) or (cell == 65535 and word >= mask - tail_word)
        if in_tail or np.any(inside == word):
            still_open[n_open] = i
            n_open += 1
            continue
        outcome = lowest + int(starts[cell]) + int(np.count_nonzero(inside < word))
        out[position] = out[position] + outcome if add else outcome
    return n_open
