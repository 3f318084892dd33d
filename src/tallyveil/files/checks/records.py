"""Checks of microdata: the records of every file are those that the counts of the finest geolevel say, in order."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from tallyveil.arrays import Integers
from tallyveil.files.histograms import (
    n_record_pieces,
    read_records,
    record_file,
    record_files,
    record_pieces,
)
from tallyveil.geography.spine import Spine
from tallyveil.schema.counts import PublicCounts
from tallyveil.schema.schema import Schema


def record_files_agree(root: Path, finest: PublicCounts, schema: Schema, spine: Spine) -> bool:
    """Whether the files of microdata hold the records of these counts; raises StoreError."""
    wanted = {record_file(root, number) for number in range(n_record_pieces(finest))}
    return record_files(root) == wanted and all(
        records_agree(read_records(record_file(root, number), schema, spine), expected)
        for number, expected in enumerate(record_pieces(finest))
    )


def records_agree(batches: Iterable[tuple[Integers, Integers]], expected: tuple[Integers, Integers]) -> bool:
    """Whether a file holds these records.

    Args:
        batches: Geounits and cells of its records, in order.
        expected: Geounits and cells wanted.
    """
    geounits, cells = expected
    begin = 0
    for found_geounits, found_cells in batches:
        own = slice(begin, begin + len(found_cells))
        if not np.array_equal(geounits[own], found_geounits) or not np.array_equal(cells[own], found_cells):
            return False
        begin = own.stop
    return begin == len(cells)
