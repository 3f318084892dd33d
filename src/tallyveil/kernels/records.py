"""Kernels that parse records of numbers, code their races and count people in groups.

Specifications: `tests.oracles.text_records`, `coded_records` and `safetab_groups`.

*Text.* A record is a line, with `|` between its columns.

*Codes.* The race codes of a record become one number. It is the position of the record's only code, or ~p if
the record has several codes, which then begin at p in a common list; each record's codes in the list end with
-1. So a record takes 4 bytes, and a few more if it has several codes. Worked case: records with the codes
(5), (2, 7) and (1) become 5, ~0 and 1, with the list 2, 7, -1.

*Groups.* A person has one or several race codes and an ethnicity code. At one level of iterations a code maps
to at most one Alone iteration, one Alone-or-in-combination iteration and one ethnicity iteration (-1: none).
The person is in the Alone iteration that all of their race codes share, in the combination iteration of each
of these codes, and in the iteration of their ethnicity code. Worked case: a person with two race codes that
map to the Alone iterations 3 and 4 is in no Alone iteration. If both map to 3, the person is in it.

People are ordered by block. A region is a set of blocks: those from `first[region]` to `first[region + 1]` of
`blocks`. The people of a block are those from `start[block]` to `start[block + 1]`.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Bools, Bytes, Int8s, Int16s, Int32s, Integers
from tallyveil.kernels.compiled import internal, njit
from tallyveil.kernels.vectors import first_at_least

# Bytes of ASCII: the bar between columns, the ends of a line, and the digit 0.
_BAR, _LINE_FEED, _RETURN, _ZERO = 124, 10, 13, 48
# "Null", "True" and "False" as bytes of ASCII. Kernels cannot compare text.
_NULL = (78, 117, 108, 108)
# "True", which writes the number 1.
_TRUE = (84, 114, 117, 101)
# "False", which writes the number 0.
_FALSE = (70, 97, 108, 115, 101)
# Words that a column may have in the place of a number; in the last column of `rules`.
NULL, FLAG = 1, 2


@njit(nogil=True, cache=True)
def parse_rows(data: Bytes, rules: Integers, values: Int32s, broken: Bools) -> int:
    """Parse lines into numbers, and say which columns hold something else.

    Args:
        data: Whole lines; the last one ends with a line feed, too. A carriage return before it is passed over,
            and so are empty lines.
        rules: [columns, 5]: least digits, most digits, least number, largest number, words allowed (`NULL`:
            Null is 0; `FLAG`: False is 0 and True is 1; 0: none).
        values: Output, [rows, columns]; 0 where a rule is broken.
        broken: Set for columns with a value that its rule does not allow, [columns].
    Returns:
        Rows parsed, or -1 if a line has another number of columns.
    """
    # One pass over the bytes, without a text or a number of Python for each field.
    n_columns = rules.shape[0]
    row = column = 0
    begin = place = 0
    number = 0
    digits = True
    while place < data.size:
        byte = int(data[place])
        digit = byte - _ZERO
        if 0 <= digit <= 9:
            # May overflow for long rows of digits, without harm: such a field has more digits than any rule allows.
            number = number * 10 + digit
            place += 1
            continue
        # A carriage return alone is no end of a line: it makes the field no number.
        ends = byte == _LINE_FEED
        if byte == _RETURN and place + 1 < data.size and data[place + 1] == _LINE_FEED:
            ends = True
        if not ends and byte != _BAR:
            # Anything else stays in the field, which is then a word or broken. No byte of it is ever shown.
            digits = False
            place += 1
            continue
        length = place - begin
        last = column == n_columns - 1
        if ends and column == 0 and length == 0 and n_columns > 1:
            last = False  # an empty line
        # Too few or too many columns. Nothing is guessed: a row that is out of step would shift all values after
        # it.
        elif ends != last:
            return -1
        else:
            # The length is tested before the number is believed, since an overflow shows in the length alone.
            in_length = digits and length > 0 and rules[column, 0] <= length <= rules[column, 1]
            if not (in_length and rules[column, 2] <= number <= rules[column, 3]):
                number = _word(data, begin, length, rules[column, 4])
                # For the column as a whole: which record was wrong would be confidential.
                broken[column] |= number < 0
                number = max(number, 0)
            values[row, column] = number
            column = 0 if ends else column + 1
            row += ends
        place += 2 if byte == _RETURN else 1
        begin, number, digits = place, 0, True
    return row


@internal
def _word(data: Bytes, begin: int, length: int, words: int) -> int:
    """The number that a word writes, or -1."""
    # Case counts: "null" is no word of these files.
    if words == NULL and _spells(data, begin, length, _NULL):
        return 0
    if words == FLAG and _spells(data, begin, length, _FALSE):
        return 0
    if words == FLAG and _spells(data, begin, length, _TRUE):
        return 1
    return -1


@internal
def _spells(data: Bytes, begin: int, length: int, word: tuple[int, ...]) -> bool:
    if length != len(word):
        return False
    # At most five bytes, without an early end.
    same = True
    for i in range(length):
        same &= data[begin + i] == word[i]
    return same


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
        place_of_block = first_at_least(blocks, counties[county], counties[county + 1], block)
        matches = place_of_block < blocks.size and blocks[place_of_block] == block
        # A block that is not there is no error here: the caller decides.
        places[n] = place_of_block if matches else -1
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


MOST_ITERATIONS = 16
"""Room for the iterations of one person: 8 codes in combination, one Alone, one ethnicity."""


class RegionBlocks(NamedTuple):
    """The blocks of each region.

    Attributes:
        first: [regions + 1], where each region begins in `blocks`.
        blocks: Blocks, region by region.
    """

    first: Integers
    blocks: Int32s


class CodedPeople(NamedTuple):
    """People by block, with their codes as in `person_iterations`.

    Attributes:
        start: [blocks + 1], where each block's people begin.
        races: [persons].
        lists: Codes of people with several.
        ethnicity: [persons].
    """

    start: Integers
    races: Int32s
    lists: Int16s
    ethnicity: Int16s


class IterationMaps(NamedTuple):
    """The iterations that each code maps to at one level, or -1.

    Attributes:
        alone_of: [codes].
        combination_of: [codes].
        ethnicity_of: [codes].
    """

    alone_of: Int16s
    combination_of: Int16s
    ethnicity_of: Int16s


@njit(nogil=True, cache=True)
def person_iterations(
    race: int,
    lists: Int16s,
    ethnicity: int,
    alone_of: Int16s,
    combination_of: Int16s,
    ethnicity_of: Int16s,
    out: Int32s,
) -> int:
    """List the iterations of one person, each once; returns how many.

    Args:
        race: Position of their only code, or ~p where their codes begin at p in `lists`.
        lists: Positions of codes, -1 after each person's.
        ethnicity: Position of the ethnicity code.
        alone_of, combination_of, ethnicity_of: [codes], iteration of each code or -1.
        out: Output, [MOST_ITERATIONS].
    """
    # Written first and counted after: an iteration of -1 is overwritten by the next one, without a branch.
    n: int = 0
    if race >= 0:
        out[n] = combination_of[race]
        n += int(out[n] >= 0)
        out[n] = alone_of[race]
        n += int(out[n] >= 0)
        out[n] = ethnicity_of[ethnicity]
        n += int(out[n] >= 0)
        return n
    # As 64 bits, the type of places.
    place = np.int64(~race)
    # The iteration that all codes share, or -1 from the first that differs. Where the first is -1, it stays -1.
    alone = alone_of[lists[place]]
    while lists[place] >= 0:
        code = lists[place]
        place += 1
        if alone_of[code] != alone:
            alone = -1
        combination = combination_of[code]
        # At most 8 codes: a search of the list so far is faster than a set. A person counts once in each group,
        # which the privacy guarantee rests on.
        known = combination < 0
        for i in range(n):
            known |= out[i] == combination
        if not known:
            out[n] = combination
            n += 1
    out[n] = alone
    n += int(alone >= 0)
    out[n] = ethnicity_of[ethnicity]
    n += int(out[n] >= 0)
    return n


@njit(nogil=True, cache=True)
def count_totals(
    regions: Integers, blocks_of: RegionBlocks, people: CodedPeople, maps: IterationMaps, totals: Integers
) -> None:
    """Add the people of each population group to `totals`.

    Args:
        regions: [rows], the region of each row.
        blocks_of: The blocks of each region.
        people: The people.
        maps: The iterations of each code.
        totals: [rows, iterations], added to.
    """
    first, blocks = blocks_of
    start, races, lists, ethnicity = people
    alone_of, combination_of, ethnicity_of = maps
    iterations = np.empty(MOST_ITERATIONS, np.int32)
    n_iterations = totals.shape[1]
    # -1 as an index is the last place: whoever has no iteration is counted there, and the place is never read.
    of_row = np.zeros(n_iterations + 1, np.int64)  # the last one is for no iteration, -1
    # Rows are independent and write only their own row of `totals`, so that threads share the work by rows. Counts
    # are whole numbers: no order changes them.
    for row in range(regions.size):
        for place in range(first[regions[row]], first[regions[row] + 1]):
            for person in range(start[blocks[place]], start[blocks[place] + 1]):
                race = races[person]
                if race < 0:
                    n = person_iterations(
                        race, lists, ethnicity[person], alone_of, combination_of, ethnicity_of, iterations
                    )
                    for i in range(n):
                        of_row[iterations[i]] += 1
                    continue
                # The same for one code, without a list.
                of_row[combination_of[race]] += 1
                of_row[alone_of[race]] += 1
                of_row[ethnicity_of[ethnicity[person]]] += 1
        for iteration in range(n_iterations):
            # Added at the end, once for each group, instead of once for each person in the larger array.
            totals[row, iteration] += of_row[iteration]
        of_row[:] = 0


@njit(nogil=True, cache=True)
def count_tables(
    regions: Integers,
    blocks_of: RegionBlocks,
    people: CodedPeople,
    cells: Int8s,
    maps: IterationMaps,
    slots: Int32s,
    tables: Integers,
) -> None:
    """Add the people of the groups that have a slot to their tables of sex by age.

    Args:
        regions, blocks_of, people, maps: As in `count_totals`.
        cells: [persons], cell of sex by age.
        slots: [rows, iterations], row of a group in `tables`, -1: none.
        tables: [slots + 1, cells], added to. The last row is working room, for whoever is in a group without a slot:
            to add without asking is faster. It ends as zeros.
    """
    first, blocks = blocks_of
    start, races, lists, ethnicity = people
    alone_of, combination_of, ethnicity_of = maps
    iterations = np.empty(MOST_ITERATIONS, np.int32)
    # A working row of the caller's: calls at the same time need tables of their own.
    rest = tables.shape[0] - 1
    # Maps of this level may name iterations that no row has a slot for; these go to the working row as well.
    n_iterations = max(slots.shape[1], alone_of.max() + 1, combination_of.max() + 1, ethnicity_of.max() + 1)
    table_of = np.empty(n_iterations + 1, np.int32)  # the last one is for no iteration, -1
    for row in range(regions.size):
        table_of[:] = rest
        wanted = False
        for iteration in range(slots.shape[1]):
            if slots[row, iteration] >= 0:
                table_of[iteration] = slots[row, iteration]
                wanted = True
        # No group of the region has a table: its people need not be read.
        if not wanted:
            continue
        for place in range(first[regions[row]], first[regions[row] + 1]):
            for person in range(start[blocks[place]], start[blocks[place] + 1]):
                race, cell = races[person], cells[person]
                if race < 0:
                    n = person_iterations(
                        race, lists, ethnicity[person], alone_of, combination_of, ethnicity_of, iterations
                    )
                    for i in range(n):
                        tables[table_of[iterations[i]], cell] += 1
                    continue
                # The same for one code, without a list.
                tables[table_of[combination_of[race]], cell] += 1
                tables[table_of[alone_of[race]], cell] += 1
                tables[table_of[ethnicity_of[ethnicity[person]]], cell] += 1
    tables[rest] = 0


@njit(nogil=True, cache=True)
def order_by_region(region: Int32s, n_regions: int, start: Integers, order: Int32s) -> None:
    """Sort things (persons by block, blocks by region), keeping their order within one; -1 is none and left out.

    Args:
        region: [things].
        n_regions: Regions.
        start: Output, [n_regions + 1].
        order: Output, [things]; the first start[n_regions] are written.
    """
    # Counting sort: linear, and stable, so that people keep their order within a block.
    start[:] = 0
    for thing in range(region.size):
        if region[thing] >= 0:
            start[region[thing] + 1] += 1
    for i in range(n_regions):
        start[i + 1] += start[i]
    # The next free place of each region; the begins themselves are still needed.
    place = start[:-1].copy()
    for thing in range(region.size):
        container = region[thing]
        if container >= 0:
            order[place[container]] = thing
            place[container] += 1


@njit(nogil=True, cache=True)
def choose_detail(stage_1: Integers, thresholds: Integers, detail: Int8s, slots: Int32s) -> int:
    """Choose each group's detail by its noisy count, and number the groups that get a table.

    Args:
        stage_1: [rows, iterations], noisy counts.
        thresholds: [details], at least one, non-decreasing.
        detail: Output, [rows, iterations]: how many thresholds are at or below the count.
        slots: Output, [rows, iterations]: number of a group among those of detail 1 or more, -1: detail 0.
    Returns:
        Groups of detail 1 or more.
    """
    n = 0
    for row in range(stage_1.shape[0]):
        for iteration in range(stage_1.shape[1]):
            # Noisy counts alone decide here: what follows is post-processing of them.
            count = stage_1[row, iteration]
            # At or above a threshold counts as reached; a count below the first gets no table.
            if count < thresholds[0]:
                detail[row, iteration] = 0
                slots[row, iteration] = -1
            else:
                chosen = 1
                # Non-decreasing, so the number of thresholds at or below the count is the detail.
                for threshold in thresholds[1:]:
                    chosen += count >= threshold
                detail[row, iteration] = chosen
                slots[row, iteration] = n
                n += 1
    return n


@njit(nogil=True, cache=True)
def list_totals(totals: Integers, detail: Int8s, keep_above: int, places: Integers) -> int:
    """List the groups whose total is published: detail 0 and a count above a bound.

    Args:
        totals: [rows, iterations], noisy counts; set to 0 where another detail was chosen.
        detail: [rows, iterations].
        keep_above: A count is published if it is larger.
        places: Output, flat places of the groups, at least [rows * iterations].
    Returns:
        How many are listed.
    """
    n = 0
    width = totals.shape[1]
    for row in range(totals.shape[0]):
        for iteration in range(width):
            # The total of a group with a table is not published.
            if detail[row, iteration] != 0:
                totals[row, iteration] = 0
            else:
                places[n] = row * width + iteration
                n += totals[row, iteration] > keep_above
    return n
