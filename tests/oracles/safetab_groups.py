"""Slow and obvious specifications of the kernels in `tallyveil.kernels.records`."""

from itertools import takewhile

import numpy as np

from tallyveil.arrays import Int8s, Int16s, Int32s, Integers
from tallyveil.kernels.records import MOST_ITERATIONS, CodedPeople, IterationMaps, RegionBlocks


def person_iterations_reference(
    race: int,
    lists: Int16s,
    ethnicity: int,
    alone_of: Int16s,
    combination_of: Int16s,
    ethnicity_of: Int16s,
    out: Int32s,
) -> int:
    """Specification of `person_iterations`, by sets."""
    own = [race] if race >= 0 else [*takewhile(lambda code: code >= 0, lists[~race:].tolist())]
    alone = set.intersection(*({int(alone_of[code])} for code in own))
    combined = dict.fromkeys(int(combination_of[code]) for code in own)
    found = [*combined, *alone, int(ethnicity_of[ethnicity])]
    found = [iteration for iteration in found if iteration >= 0]
    out[: len(found)] = found
    return len(found)


def count_totals_reference(
    regions: Integers, blocks_of: RegionBlocks, people: CodedPeople, maps: IterationMaps, totals: Integers
) -> None:
    """Specification of `count_totals`."""
    first, blocks = blocks_of
    start, races, lists, ethnicity = people
    found = np.empty(MOST_ITERATIONS, np.int32)
    for row, region in enumerate(regions):
        for block in blocks[first[region] : first[region + 1]]:
            for person in range(start[block], start[block + 1]):
                n = person_iterations_reference(races[person], lists, ethnicity[person], *maps, found)
                totals[row, found[:n]] += 1


def count_tables_reference(
    regions: Integers,
    blocks_of: RegionBlocks,
    people: CodedPeople,
    cells: Int8s,
    maps: IterationMaps,
    slots: Int32s,
    tables: Integers,
) -> None:
    """Specification of `count_tables`."""
    first, blocks = blocks_of
    start, races, lists, ethnicity = people
    found = np.empty(MOST_ITERATIONS, np.int32)
    for row, region in enumerate(regions):
        for block in blocks[first[region] : first[region + 1]]:
            for person in range(start[block], start[block + 1]):
                n = person_iterations_reference(races[person], lists, ethnicity[person], *maps, found)
                for iteration in found[:n]:
                    if iteration < slots.shape[1] and slots[row, iteration] >= 0:
                        tables[slots[row, iteration], cells[person]] += 1


def order_by_region_reference(region: Int32s, n_regions: int, start: Integers, order: Int32s) -> None:
    """Specification of `order_by_region`."""
    (inside,) = np.nonzero(region >= 0)
    start[0] = 0
    start[1:] = np.cumsum(np.bincount(region[inside], minlength=n_regions))
    order[: inside.size] = inside[np.argsort(region[inside], kind="stable")]


def choose_detail_reference(stage_1: Integers, thresholds: Integers, detail: Int8s, slots: Int32s) -> int:
    """Specification of `choose_detail`."""
    detail[:] = np.searchsorted(thresholds, stage_1, side="right")
    chosen = detail > 0
    slots[:] = -1
    n = int(np.count_nonzero(chosen))
    slots[chosen] = np.arange(n)
    return n


def list_totals_reference(totals: Integers, detail: Int8s, keep_above: int, places: Integers) -> int:
    """Specification of `list_totals`."""
    totals[detail != 0] = 0
    (found,) = np.nonzero(((detail == 0) & (totals > keep_above)).reshape(-1))
    places[: found.size] = found
    return int(found.size)
