"""Kernels that make compact arrays of parsed records, with their specifications.

The race codes of a record become one number. It is the position of the record's only code, or ~p if the record has
several codes, which then begin at p in a common list; each record's codes in the list end with -1. So a record takes
4 bytes, and a few more if it has several codes.

Worked case: records with the codes (5), (2, 7) and (1) become 5, ~0 and 1, with the list 2, 7, -1.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Bools, Int16s, Int32s, Integers
from tallyveil.kernels.compiled import njit

COUNTIES = 1000
"""Most counties of a state: their numbers have three digits."""


class KnownBlocks(NamedTuple):
    """The blocks of a run.

    Attributes:
        states: [100], whether a state belongs to the run.
        counties: [100 * COUNTIES + 1], where each county's blocks begin in `blocks`.
        blocks: Numbers of the blocks, ascending.
    """

    states: Bools
    counties: Integers
    blocks: Integers


class CodedRows(NamedTuple):
    """Room for the coded records of some rows.

    Attributes:
        rows: [rows], rows of the run.
        places: [rows], position of each record's block, -1: not there.
        races: [rows], as said above.
        ethnicity: [rows], position of the ethnicity code.
        lists: [rows * (k + 1)], what is to be added to the list.
    """

    rows: Int32s
    places: Int32s
    races: Int32s
    ethnicity: Int16s
    lists: Int16s


@njit(nogil=True, cache=True)
def check_lists(races: Int32s, n_read: int) -> tuple[bool, bool]:
    """Whether a record has a code after none, and one beyond those that are read.

    Args:
        races: [rows, 8], codes, 0: none.
        n_read: Codes that are read.
    """
    # Flags alone come out: which record broke a rule is confidential.
    gap = later = False
    for row in range(races.shape[0]):
        for j in range(1, races.shape[1]):
            if races[row, j] > 0:
                gap |= races[row, j - 1] == 0
                later |= j >= n_read
    return gap, later


@njit(nogil=True, cache=True)
def code_rows(
    parsed: Int32s,
    known: KnownBlocks,
    position: Int16s,
    first_list: int,
    out: CodedRows,
    unknown: Bools,
) -> tuple[int, int]:
    """Code the records of one run.

    Args:
        parsed: [rows, 5 + k]: state, county, tract, block, race codes (0: none), ethnicity code.
        known: Blocks of the run.
        position: [10000], position of each code, -1: unknown.
        first_list: Length of the list of several codes before these rows.
        out: Output.
        unknown: Set for columns of codes (races, then ethnicity) with an unknown code, [k + 1].
    Returns:
        Records of the run; length of `lists`.
    """
    wanted, counties, blocks = known
    rows, places, races, ethnicity, lists = out
    # Room of k + 1 numbers a row suffices for `lists`: at most k codes and the -1.
    n = n_lists = 0
    k = parsed.shape[1] - 5
    for row in range(parsed.shape[0]):
        # As 64 bits from here on: a block's number has 15 digits and would overflow an int32.
        state = np.int64(parsed[row, 0])
        # The parser's rules bound the numbers by their digits, so that no index leaves its table.
        if not wanted[state]:
            continue
        county = state * COUNTIES + parsed[row, 1]
        # State, county, tract and block in one number: 2 + 3 + 6 + 4 digits, below 2^50, so that rising numbers are
        # rising geocodes.
        block = (county * 1_000_000 + parsed[row, 2]) * 10_000 + parsed[row, 3]
        # Among the county's blocks only: a few thousand, so a dozen steps.
        low, high = counties[county], counties[county + 1]
        while low < high:
            middle = (low + high) // 2
            if blocks[middle] < block:
                low = middle + 1
            else:
                high = middle
        matches = low < blocks.size and blocks[low] == block
        # A block that is not there is no error here: the caller decides.
        places[n] = low if matches else -1
        # The second code decides, since `check_lists` has made sure that no code stands after none.
        several = k > 1 and parsed[row, 5] > 0
        if several:
            # ~p is -p - 1, which is negative also for p = 0.
            races[n] = ~(first_list + n_lists)
        for j in range(k):
            code = parsed[row, 4 + j]
            if code == 0:
                break
            place = position[code]
            # Noted for the column and never for the record.
            unknown[j] |= place < 0
            if several:
                lists[n_lists] = place
                n_lists += 1
            else:
                races[n] = place
        if several:
            lists[n_lists] = -1
            n_lists += 1
        ethnicity[n] = position[parsed[row, 4 + k]]
        unknown[k] |= ethnicity[n] < 0
        rows[n] = row
        n += 1
    return n, n_lists


@njit(nogil=True, cache=True)
def order_lists(order: Int32s, races: Int32s, lists: Int16s, ordered: Int32s, further: Int16s) -> int:
    """Put records into another order, and their lists of several codes with them.

    Args:
        order: Records wanted, in order.
        races: Of each record.
        lists: The list of several codes.
        ordered: Output, [order], races.
        further: Output, the list in the new order; as long as `lists`.
    Returns:
        Length of the new list.
    """
    # Positions in the list change with the order, so every ~p is made anew.
    n = 0
    for place in range(order.size):
        code = races[order[place]]
        if code >= 0:
            ordered[place] = code
            continue
        ordered[place] = ~n
        begin = np.int64(~code)
        # The end is the -1 that each record's codes have.
        while lists[begin] >= 0:
            further[n] = lists[begin]
            begin += 1
            n += 1
        further[n] = -1
        n += 1
    return n
