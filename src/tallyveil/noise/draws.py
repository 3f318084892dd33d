"""The two shapes of a request for noise: whole rows of a dense array, and scattered addresses.

Both write addresses, look the bits up, and write the refinement addresses of what stayed undecided, a chunk
of blocks at a time; `NoiseSource` runs the chunks.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tallyveil.arrays import Integers
from tallyveil.kernels.address import (
    dense_addresses,
    dense_refinement,
    scattered_addresses,
    scattered_refinement,
)
from tallyveil.kernels.inversion import look_up_dense, look_up_scattered
from tallyveil.noise.address import LANES
from tallyveil.noise.keystream import Workspace
from tallyveil.noise.table import InversionTable


class Draws(Protocol):
    """Draws in a fixed order, in blocks of up to 8, with a flat output."""

    @property
    def n_blocks(self) -> int:
        """Blocks to encrypt in all."""

    @property
    def add(self) -> bool:
        """Whether outcomes are added to the output instead of stored."""

    @property
    def out(self) -> npt.NDArray[Any]:
        """Flat output."""

    def write_addresses(self, work: Workspace, first: int, n_blocks: int) -> None:
        """Address blocks first..first + n_blocks."""

    def look_up(self, work: Workspace, table: InversionTable, first: int, n_blocks: int) -> int:
        """Look the encrypted blocks up; returns how many draws stay undecided, listed in work.positions."""

    def write_refinement(self, work: Workspace, first: int, places: Integers) -> None:
        """Address the refinement words of the undecided draws at `places` of the output."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DenseDraws:
    """All answers of each geounit; every row begins a block of its own.

    Attributes:
        high: High word of the cells' addresses, without geounit.
        refined_high: The same of the refinement addresses.
        geounits: int64 [rows].
        n_answers: Answers in a row.
        out: Flat, [rows * n_answers].
        add: Add to `out` instead of storing.
    """

    high: np.uint64
    refined_high: np.uint64
    geounits: Integers
    n_answers: int
    out: npt.NDArray[Any]
    add: bool

    @property
    def _per_geounit(self) -> int:
        return -(-self.n_answers // LANES)

    @property
    def n_blocks(self) -> int:
        """Blocks to encrypt in all."""
        return self.geounits.size * self._per_geounit

    def write_addresses(self, work: Workspace, first: int, n_blocks: int) -> None:
        """Address blocks first..first + n_blocks."""
        dense_addresses(self.high, self.geounits, self._per_geounit, first, n_blocks, work.cells.addresses)

    def look_up(self, work: Workspace, table: InversionTable, first: int, n_blocks: int) -> int:
        """Look the encrypted blocks up; see `Draws.look_up`."""
        return look_up_dense(
            work.cells.lanes,
            table.direct,
            table.open_mark,
            first,
            n_blocks,
            self.n_answers,
            self.add,
            self.out,
            work.positions,
        )

    def write_refinement(self, work: Workspace, first: int, places: Integers) -> None:
        """Address the refinement words of the undecided draws at `places` of the output."""
        dense_refinement(
            self.refined_high,
            self.geounits,
            self.n_answers,
            first,
            work.cells.lanes,
            places,
            work.refinement.addresses,
            work.refined_cells,
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ScatteredDraws:
    """One answer of one geounit at a time, each with a block of its own.

    Attributes:
        high: High word of the cells' addresses, without geounit.
        refined_high: The same of the refinement addresses.
        geounits: int64 [n].
        answers: int64 [n].
        out: [n].
    """

    high: np.uint64
    refined_high: np.uint64
    geounits: Integers
    answers: Integers
    out: npt.NDArray[Any]

    @property
    def n_blocks(self) -> int:
        """Blocks to encrypt in all."""
        return self.geounits.size

    @property
    def add(self) -> bool:
        """Never: scattered draws are stored."""
        return False

    def write_addresses(self, work: Workspace, first: int, n_blocks: int) -> None:
        """Address blocks first..first + n_blocks."""
        scattered_addresses(self.high, self.geounits, self.answers, first, n_blocks, work.cells.addresses)

    def look_up(self, work: Workspace, table: InversionTable, first: int, n_blocks: int) -> int:
        """Look the encrypted blocks up; see `Draws.look_up`."""
        return look_up_scattered(
            work.cells.lanes,
            table.direct,
            table.open_mark,
            self.answers,
            first,
            n_blocks,
            self.out,
            work.positions,
        )

    def write_refinement(self, work: Workspace, first: int, places: Integers) -> None:
        """Address the refinement words of the undecided draws at `places` of the output."""
        scattered_refinement(
            self.refined_high,
            self.geounits,
            self.answers,
            first,
            work.cells.lanes,
            places,
            work.refinement.addresses,
            work.refined_cells,
        )
