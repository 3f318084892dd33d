"""The answers of one published table, part by part, as a matrix for each column: a row an area, a column an answer.

A part of a table holds whole areas, in the order of the areas. So a matrix is complete as soon as its part is read, and
no more than one part of a table is in memory at a time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.errors import StoreError
from tallyveil.explore.files import CHUNK
from tallyveil.explore.kinds import Kind
from tallyveil.geography.spine import Spine, geocodes_of
from tallyveil.schema.answer_columns import answer_expression
from tallyveil.schema.query_group import QueryGroup
from tallyveil.storage.read import collect, scan_parquet

COUNT: Final = "count"
BESIDE: Final = ("estimate", "standard_error", "lower", "upper")
"""Columns of intervals, in the order of the site."""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """The answers of some areas that follow one another.

    Attributes:
        start: Row of the first area in its kind.
        columns: For each column of the table a matrix of shape (areas, answers). Counts are whole; the columns of
            intervals are floats, NaN where the release has no number.
    """

    start: int
    columns: dict[str, NDArray[Any]]

    @property
    def n(self) -> int:
        """Number of areas."""
        return len(self.columns[COUNT])


@dataclass(slots=True, eq=False)
class TableRows:
    """Reads a table as blocks of whole chunks.

    Attributes:
        parts: The files of the table, in order.
        kind: Its areas.
        group: Its query.
        names: Its columns: `COUNT`, and those of `BESIDE` if the release has intervals of the table.
    """

    parts: Sequence[Path]
    kind: Kind
    group: QueryGroup
    names: Sequence[str]
    _areas: Spine = field(init=False)

    def __post_init__(self) -> None:
        self._areas = Spine((self.kind.name,), (geocodes_of(self.kind.codes, self.kind.name),), ())

    def blocks(self) -> Iterator[Block]:
        """All areas of the kind in order, each block beginning with a chunk; counts that have no row are zero.

        Raises:
            StoreError: a part cannot be read, or its areas or labels are not those of the release.
        """
        # Where the order differs, rows of an area may be in any part, and all must be held.
        if not self.kind.in_order:
            yield self._whole()
            return
        waiting = self._empty(0, 0)
        for part in self.parts:
            start = waiting.start + waiting.n
            rows, answers, frame = self._read(part, start)
            block = self._empty(start, int(rows.max()) + 1 - start if len(rows) else 0)
            self._fill(block, rows, answers, frame)
            waiting = _joined(waiting, block)
            # Whole chunks only; the rest waits for the next part, in which it may go on.
            whole = waiting.n - waiting.n % CHUNK
            if whole:
                yield _rows(waiting, 0, whole)
                waiting = _rows(waiting, whole, waiting.n)
        stop = waiting.start + waiting.n
        # Areas without a row at the end of the table have zeros too.
        waiting = _joined(waiting, self._empty(stop, self.kind.n - stop))
        if waiting.n:
            yield waiting

    def _whole(self) -> Block:
        """All areas at once, where the table has them in another order."""
        block = self._empty(0, self.kind.n)
        for part in self.parts:
            self._fill(block, *self._read(part, 0))
        return block

    def _read(self, part: Path, start: int) -> tuple[Integers, Integers, pl.DataFrame]:
        """Area and answer of every row of a part, and its columns; no area comes before `start`."""
        wanted = pl.col("geocode"), answer_expression(self.group), *(pl.col(name) for name in self.names)
        frame = collect(scan_parquet(part).select(wanted), part, "table")
        rows = self._areas.locate(0, frame["geocode"])
        answers = frame["answer"].fill_null(-1).to_numpy()
        # A part may begin with the area at which the last one ended plus one, and never before.
        if len(rows) and (rows.min() < start or answers.min() < 0):
            raise StoreError(
                f"{part} has a row that is no answer of its query, or of an area that the release does not have or "
                "that an earlier part has. Restore the file from a copy of the release.",
                code="release-damaged",
            )
        return rows, answers, frame

    def _fill(self, block: Block, rows: Integers, answers: Integers, frame: pl.DataFrame) -> None:
        """Put the rows of a part in their places."""
        # Area and answer in one number, so that one assignment puts a whole part in place.
        places = (rows - block.start) * self.group.size + answers
        for name in self.names:
            block.columns[name].reshape(-1)[places] = _values(frame[name])

    def _empty(self, start: int, n: int) -> Block:
        """Areas of which the table has no row: their counts are zero, and they have no intervals."""
        shape = n, self.group.size
        columns: dict[str, NDArray[Any]] = {COUNT: np.zeros(shape, dtype=np.int64)}
        columns |= {name: np.full(shape, np.nan) for name in self.names if name != COUNT}
        return Block(start, columns)


def _values(column: pl.Series) -> NDArray[Any]:
    return column.to_numpy() if column.name == COUNT else column.cast(pl.Float64).fill_null(np.nan).to_numpy()


def _joined(first: Block, second: Block) -> Block:
    """Two blocks of which the second begins where the first ends."""
    if not first.n:
        return second
    return Block(
        first.start,
        {name: np.concatenate([values, second.columns[name]]) for name, values in first.columns.items()},
    )


def _rows(block: Block, start: int, stop: int) -> Block:
    """Some areas of a block; their first is the `start`-th."""
    return Block(block.start + start, {name: values[start:stop] for name, values in block.columns.items()})
