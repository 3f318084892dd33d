"""Kernels that count people in population groups, with their specifications.

A person has one or several race codes (`races` and `lists`: see `coded_records`) and an ethnicity code. At one level
of iterations a code maps to at most one Alone iteration, one Alone-or-in-combination iteration and one ethnicity
iteration (-1: none). The person is in the Alone iteration that all of their race codes share, in the combination
iteration of each of these codes, and in the iteration of their ethnicity code.

Worked case: a person with two race codes that map to the Alone iterations 3 and 4 is in no Alone iteration. If both
map to 3, the person is in it.

People are ordered by block. A region is a set of blocks: those from `first[region]` to `first[region + 1]` of
`blocks`. The people of a block are those from `start[block]` to `start[block + 1]`.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Int8s, Int16s, Int32s, Integers
from tallyveil.kernels.compiled import njit

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
