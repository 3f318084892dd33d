"""The three forms of a request for noise: whole rows of a dense array, scattered addresses, and listed answers of runs.

All forms do the same three things for a chunk of steps: write the addresses, look up the encrypted bits, and write
the refinement addresses of the draws that remain undecided. `NoiseSource` runs the chunks.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tallyveil.arrays import Integers
from tallyveil.kernels.address import (
    Blocks,
    Listed,
    Refinement,
    ScatteredBlocks,
    dense_addresses,
    dense_refinement,
    listed_addresses,
    scattered_addresses,
    scattered_refinement,
)
from tallyveil.kernels.inversion import look_up_dense, look_up_scattered
from tallyveil.noise.address import LANES
from tallyveil.noise.keystream import Workspace
from tallyveil.noise.table import InversionTable


class Draws(Protocol):
    """Draws in a fixed order, with a flat output array. A step takes at most one block of bits."""

    @property
    def n_steps(self) -> int:
        """Number of steps in total: blocks of a dense array, or scattered draws."""

    @property
    def add(self) -> bool:
        """Whether outcomes are added to the output instead of stored."""

    @property
    def out(self) -> npt.NDArray[Any]:
        """The flat output array."""

    def write_addresses(self, work: Workspace, first: int, n_steps: int) -> int:
        """Write the addresses for steps first to first + n_steps - 1. Returns the number of blocks to encrypt."""

    def look_up(self, work: Workspace, table: InversionTable, first: int, n_steps: int) -> int:
        """Look the encrypted blocks up. Returns the number of undecided draws, which are listed in work.positions."""

    def write_refinement(self, work: Workspace, first: int, places: Integers) -> None:
        """Write the refinement addresses of the undecided draws at `places` of the output."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class DenseDraws:
    """All answers of each geounit. Every row starts with a new block.

    Attributes:
        high: High word of the cells' addresses, without the geounit.
        refined_high: High word of the refinement addresses, without the geounit.
        geounits: int64 [rows].
        n_answers: Number of answers in a row.
        out: Flat array [rows * n_answers].
        add: Whether to add to `out` instead of storing.
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
    def n_steps(self) -> int:
        """Number of blocks."""
        return self.geounits.size * self._per_geounit

    def write_addresses(self, work: Workspace, first: int, n_steps: int) -> int:
        """Write the addresses of the blocks; see `Draws.write_addresses`."""
        dense_addresses(self.high, self.geounits, self._per_geounit, first, n_steps, work.cells.addresses)
        return n_steps

    def look_up(self, work: Workspace, table: InversionTable, first: int, n_steps: int) -> int:
        """Look the encrypted blocks up; see `Draws.look_up`."""
        blocks = Blocks(first, work.cells.lanes[: LANES * n_steps])
        return look_up_dense(blocks, table.first_part, self.n_answers, self.add, self.out, work.positions)

    def write_refinement(self, work: Workspace, first: int, places: Integers) -> None:
        """Write the refinement addresses of the undecided draws at `places` of the output."""
        blocks = Blocks(first, work.cells.lanes)
        out = Refinement(work.refinement.addresses, work.refined_cells)
        dense_refinement(self.refined_high, self.geounits, self.n_answers, blocks, places, out)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ScatteredDraws:
    """Draws of one answer of one geounit at a time. Neighbours in the order share a block where they can.

    Attributes:
        high: High word of the cells' addresses, without the geounit.
        refined_high: High word of the refinement addresses, without the geounit.
        where: Geounits and answers, int64 [n] each; or listed answers of runs of geounits.
        out: [n].
    """

    high: np.uint64
    refined_high: np.uint64
    where: tuple[Integers, Integers] | Listed
    out: npt.NDArray[Any]

    @property
    def n_steps(self) -> int:
        """Number of draws."""
        return self.out.size

    @property
    def add(self) -> bool:
        """Always false: scattered draws are stored."""
        return False

    def write_addresses(self, work: Workspace, first: int, n_steps: int) -> int:
        """Write the addresses of the blocks of these draws; see `Draws.write_addresses`."""
        lane_of = work.lane_of[:n_steps]
        if isinstance(self.where, Listed):
            return listed_addresses(self.high, self.where, first, work.cells.addresses, lane_of)
        return scattered_addresses(self.high, *self.where, first, work.cells.addresses, lane_of)

    def look_up(self, work: Workspace, table: InversionTable, first: int, n_steps: int) -> int:
        """Look the encrypted blocks up; see `Draws.look_up`."""
        blocks = ScatteredBlocks(first, work.lane_of[:n_steps], work.cells.lanes)
        return look_up_scattered(blocks, table.first_part, self.out, work.positions)

    def write_refinement(self, work: Workspace, first: int, places: Integers) -> None:
        """Write the refinement addresses of the undecided draws at `places` of the output."""
        blocks = ScatteredBlocks(first, work.lane_of, work.cells.lanes)
        out = Refinement(work.refinement.addresses, work.refined_cells)
        change = self.high ^ self.refined_high
        scattered_refinement(change, blocks, work.cells.addresses, places, out)
