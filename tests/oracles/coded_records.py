"""Slow and obvious specifications of the kernels in `tallyveil.kernels.records`."""

from itertools import takewhile

import numpy as np

from tallyveil.arrays import Bools, Int16s, Int32s
from tallyveil.kernels.records import CodedRows, KnownBlocks


def check_lists_reference(races: Int32s, n_read: int) -> tuple[bool, bool]:
    """Specification of `check_lists`."""
    gap = (races[:, 1:] > 0) & (races[:, :-1] == 0)
    return bool(gap.any()), bool((races[:, max(n_read, 1) :] > 0).any())


def code_rows_reference(
    parsed: Int32s,
    known: KnownBlocks,
    position: Int16s,
    first_list: int,
    out: CodedRows,
    unknown: Bools,
) -> tuple[int, int]:
    """Specification of `code_rows`; looks blocks up by their number alone."""
    rows, places, races, ethnicity, lists = out
    where = {int(block): place for place, block in enumerate(known.blocks)}
    n, added = 0, 0
    for row, (state, county, tract, block, *codes, span) in enumerate(parsed.tolist()):
        if not known.states[state]:
            continue
        number = int(f"{state:02d}{county:03d}{tract:06d}{block:04d}")
        own = [int(position[code]) for code in takewhile(bool, codes)]
        rows[n], places[n], ethnicity[n] = row, where.get(number, -1), position[span]
        unknown[: len(own)] |= np.array(own) < 0
        unknown[-1] |= position[span] < 0
        if len(own) == 1:
            races[n] = own[0]
        else:
            races[n] = ~(first_list + added)
            lists[added : added + len(own) + 1] = [*own, -1]
            added += len(own) + 1
        n += 1
    return n, added


def order_lists_reference(
    order: Int32s, races: Int32s, lists: Int16s, ordered: Int32s, further: Int16s
) -> int:
    """Specification of `order_lists`."""
    found: list[int] = []
    for place, record in enumerate(order):
        own = int(races[record])
        ordered[place] = own if own >= 0 else ~len(found)
        if own < 0:
            found += [*takewhile(lambda code: code >= 0, lists[~own:].tolist()), -1]
    further[: len(found)] = found
    return len(found)
