"""Noise as a pure function of key, law and address.

Drawing changes no internal state. Repeating a request gives the same noise, and so does any chunking, order or number
of workers. `tallyveil.noise.address` gives the layout that fixes this.

Problem. Wanted is one integer with exactly the law, for each address (geolevel, query, geounit, answer).

Steps, for a chunk of addresses:
1. Write the 16-byte addresses and encrypt them with AES-256. The encryption of an address is the first part of the
   binary digits of a uniform number U.
2. Look U up in the law's inversion table. Most draws are decided here.
3. Encrypt the refinement addresses of the remaining draws, which gives 64 more digits, and compare again.
4. For the few draws still undecided, read further digits and compare them with boundaries in ball arithmetic.

Stopping rule. Steps 2 to 4 end when the digits of U differ from those of the nearest boundaries.
`tallyveil.noise.table` describes the comparison and gives a worked case.

A request has one of three forms: whole rows of a dense array, scattered addresses, and listed answers of runs. Each
form writes addresses, looks encrypted bits up, and writes the refinement addresses of draws that remain undecided.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NoReturn, Protocol

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from tallyveil.arrays import Integers
from tallyveil.errors import ConfigError, SchemaError
from tallyveil.kernels.address import (
    LaneBlocks,
    Listed,
    Refinement,
    ScatteredBlocks,
    dense_addresses,
    dense_refinement,
    listed_addresses,
    scattered_addresses,
    scattered_refinement,
)
from tallyveil.kernels.inversion import look_up_dense, look_up_scattered, refine
from tallyveil.noise.address import (
    ANSWER_BITS,
    CELLS,
    DIGITS,
    LANES,
    NUMBERS,
    PAIR_BITS,
    REFINEMENT,
    SITE_BITS,
    checked_answers,
    checked_geounits,
    high_word,
)
from tallyveil.noise.key import require_key
from tallyveil.noise.keystream import CHUNK_BLOCKS, REFINED_BLOCKS, Keystream, Workspace
from tallyveil.noise.laws import Law
from tallyveil.noise.table import InversionTable

# A plan with more laws than this draws the same noise and takes longer, since tables are then built again. Twice as
# many could take twice the memory.
TABLES_KEPT: Final = 128
"""Number of inversion tables that a source keeps (0.4 MiB each for common laws); the oldest is removed first."""


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
        # Rounded up: a row's last block may be partly unused. Its other lanes are skipped, never given to the next
        # row, so that a draw does not depend on how many answers its neighbours have.
        return -(-self.n_answers // LANES)

    @property
    def n_steps(self) -> int:
        """Number of blocks."""
        # An integer of Python: rows times blocks of the widest query stay far below 2**63 in any case.
        return self.geounits.size * self._per_geounit

    def write_addresses(self, work: Workspace, first: int, n_steps: int) -> int:
        """Write the addresses of the blocks; see `Draws.write_addresses`."""
        dense_addresses(self.high, self.geounits, self._per_geounit, first, n_steps, work.cells.addresses)
        return n_steps

    def look_up(self, work: Workspace, table: InversionTable, first: int, n_steps: int) -> int:
        """Look the encrypted blocks up; see `Draws.look_up`."""
        blocks = LaneBlocks(first, work.cells.lanes[: LANES * n_steps])
        return look_up_dense(blocks, table.first_part, self.n_answers, self.add, self.out, work.positions)

    def write_refinement(self, work: Workspace, first: int, places: Integers) -> None:
        """Write the refinement addresses of the undecided draws at `places` of the output."""
        blocks = LaneBlocks(first, work.cells.lanes)
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
        # Written anew by each chunk; look-up and refinement of the same chunk read it.
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
        # The two high words differ in the kind alone. So the refinement address follows from that of the block, and
        # no form of request needs its geounits and answers a second time.
        change = self.high ^ self.refined_high
        scattered_refinement(change, blocks, work.cells.addresses, places, out)


class NoiseSource:
    """Exact integer noise at addresses (geolevel, query, geounit, answer), from a key of 32 bytes.

    An inversion table is certified when its law is first used. Several threads may call the same source at the same
    time. Each call uses its own workspace, from a pool that the source keeps.

    The law is not part of the address. Each address must be used with one law only, because two laws at one address
    would share their random bits. This holds because the key is bound to the plan, which fixes the laws (`derive_key`).

    Privacy: whoever has the key can subtract the noise. No message and no `repr` shows it, and a source cannot be
    pickled.

    Raises:
        ConfigError: the key is not 32 bytes, or the machine is not little endian.
    """

    __slots__ = ("_cipher", "_idle", "_lock", "_tables")

    def __init__(self, key: bytes) -> None:
        require_key(key, "NoiseSource: key")
        # Lanes and words are views of one buffer. On a big-endian machine the same bytes would be other numbers, so
        # the same key would give other noise: refused rather than silently different.
        if sys.byteorder != "little":
            raise ConfigError(
                "NoiseSource: this machine is big endian, but noise addresses are little endian. Use a "
                "little-endian machine."
            )
        # The codebook mode is right here, because every block is a distinct address and the output serves as the
        # stream.
        # A counter mode would fix an order of draws. Each address encrypted by itself needs none.
        self._cipher = Cipher(algorithms.AES(key), modes.ECB())
        self._tables: dict[Law, InversionTable] = {}
        self._idle: list[Workspace] = []
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return "NoiseSource(key=<redacted>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "A NoiseSource is not pickled, because it holds a key. Pass the key on and make another NoiseSource "
            "from it."
        )

    def dense(
        self,
        law: Law,
        geolevel: int,
        query: int,
        geounits: range | npt.ArrayLike,
        n_answers: int,
        out: npt.NDArray[Any] | None = None,
    ) -> npt.NDArray[Any]:
        """Noise of all answers of the given geounits.

        Args:
            law: Law of every draw.
            geolevel: 0 (root) to 255.
            query: Number of the query group in the plan, 0 to 65535.
            geounits: [n], each 0 to 2**36 - 1, in any order. A geounit listed twice gets the same noise twice.
            n_answers: Number of answers of the query group, at most 2**48.
            out: Array to write to, C-contiguous int64 or int32 [n, n_answers]; by default a new int64 array.
        Returns:
            [n, n_answers], the noise in counts.
        Raises:
            GeographyError, SchemaError: an address is out of range, or `out` does not fit.
        """
        rows = checked_geounits(geounits)
        _check_width(n_answers)
        if out is None:
            out = np.empty((rows.size, n_answers), dtype=np.int64)
        # A draw beyond an int32 would be 20,000 times the largest scale away from 0: its probability is below
        # exp(-20,000).
        _check_output(out, (rows.size, n_answers), ("int64", "int32"))
        self._fill(law, geolevel, query, rows, out, add=False)
        return out

    def add_dense(
        self,
        law: Law,
        geolevel: int,
        query: int,
        geounits: range | npt.ArrayLike,
        counts: npt.NDArray[np.int64],
    ) -> None:
        """Add noise to counts in place. The draws are those of `dense`, added in one pass over memory.

        Args:
            law: Law of every draw.
            geolevel: 0 (root) to 255.
            query: Number of the query group in the plan, 0 to 65535.
            geounits: [n], as in `dense`.
            counts: C-contiguous int64 [n, n_answers], below 2**62 in absolute value. Confidential. If the call is
                interrupted, some of them remain without noise.
        Raises:
            GeographyError, SchemaError: an address is out of range, or `counts` has the wrong layout.
        """
        # Checked before the first count is changed, so that a refusal leaves no row half noisy.
        rows = checked_geounits(geounits)
        _check_output(counts, (rows.size, *counts.shape[1:]), ("int64",))
        _check_width(counts.shape[1])
        # Counts below 2**62 plus a draw far below 2**62 cannot overflow an int64.
        self._fill(law, geolevel, query, rows, counts, add=True)

    def at(
        self,
        law: Law,
        geolevel: int,
        query: int,
        geounits: npt.ArrayLike,
        answers: npt.ArrayLike,
        out: npt.NDArray[np.int64] | None = None,
    ) -> npt.NDArray[np.int64]:
        """Noise at scattered addresses: the value of `dense` at row geounits[i] and column answers[i].

        Args:
            law: Law of every draw.
            geolevel: 0 (root) to 255.
            query: Number of the query group in the plan, 0 to 65535.
            geounits: [n], each 0 to 2**36 - 1.
            answers: [n], each 0 to 2**48 - 1. Answers of one geounit that follow each other are drawn fastest.
            out: Array to write to, int64 [n]; by default a new one.
        Returns:
            int64 [n].
        Raises:
            GeographyError, SchemaError: an address is out of range, or the lengths differ.
        """
        rows, columns = checked_geounits(geounits), checked_answers(answers)
        if rows.size != columns.size:
            raise SchemaError(
                f"NoiseSource.at: got {rows.size} geounits for {columns.size} answers, wanted as many of one as of "
                "the other."
            )
        if out is None:
            out = np.empty(rows.size, dtype=np.int64)
        self._store(law, geolevel, query, (rows, columns), rows.size, out)
        return out

    def listed(self, law: Law, geolevel: int, query: int, listed: Listed, out: npt.NDArray[np.int64]) -> None:
        """Noise of the same answers for each geounit of a run, for many runs; the values of `at` at these addresses.

        Args:
            law: Law of every draw.
            geolevel: 0 (root) to 255.
            query: Number of the query group in the plan, 0 to 65535.
            listed: Runs of geounits and their answers. Rising answers are drawn fastest.
            out: Array to write to, int64, ordered by run, geounit and answer.
        Raises:
            GeographyError, SchemaError: an address is out of range, or `out` has another size.
        """
        # The last geounit_begin is one past the last geounit. It is checked too, so 2**36 - 1 itself is not usable
        # here.
        checked = listed._replace(
            answers=checked_answers(listed.answers), geounit_begin=checked_geounits(listed.geounit_begin)
        )
        # Rows of one run all have the same answers: runs are rectangles, and the draws their areas.
        n_draws = int((np.diff(listed.begin) * np.diff(listed.geounit_begin)).sum())
        self._store(law, geolevel, query, checked, n_draws, out)

    def _store(
        self,
        law: Law,
        geolevel: int,
        query: int,
        where: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | Listed,
        n_draws: int,
        out: npt.NDArray[np.int64],
    ) -> None:
        _check_output(out[None], (1, n_draws), ("int64",))
        high, refined_high = (high_word(kind, geolevel, query) for kind in (CELLS, REFINEMENT))
        self._draw(self._table(law), ScatteredDraws(high, refined_high, where, out))

    def numbers(
        self, geolevel: int, query: int, draws: range | npt.ArrayLike, first_site: int, n_sites: int
    ) -> npt.NDArray[np.uint64]:
        """The first 64 binary digits of uniform numbers, for samplers of whole vectors.

        Args:
            geolevel: 0 (root) to 255.
            query: Number of the query group in the plan, 0 to 65535.
            draws: [n], numbers of draws, each 0 to 2**36 - 1.
            first_site: Index of the first uniform number wanted in each draw; even, at least 0.
            n_sites: Number of uniform numbers wanted in each draw.
        Returns:
            uint64 [n, n_sites].
        Raises:
            GeographyError, SchemaError: an address is out of range.
        """
        rows = checked_geounits(draws)
        if first_site < 0 or first_site % 2 or n_sites < 0 or first_site + n_sites > 1 << SITE_BITS:
            raise SchemaError(
                f"Noise address: sites {first_site} to {first_site + n_sites}, wanted an even first site and at "
                f"most 2**{SITE_BITS}. Round the first site up to an even number."
            )
        # Two numbers share a block, so an even first site begins one and the last block may have a spare number.
        pairs = -(-n_sites // 2)
        out: npt.NDArray[np.uint64] = np.empty((rows.size, 2 * pairs), dtype=np.uint64)
        flat = out.reshape(-1)
        high = high_word(NUMBERS, geolevel, query)
        # Blocks of all draws are one list, cut into chunks without regard to rows: what a chunk holds has no
        # effect.
        with self._workspace() as work:
            for first in range(0, rows.size * pairs, CHUNK_BLOCKS):
                n_blocks = min(CHUNK_BLOCKS, rows.size * pairs - first)
                dense_addresses(high, rows, pairs, first, n_blocks, work.cells.addresses)
                # `dense_addresses` counts blocks from 0. The low words are every second word; no carry, as sites
                # are below 2**48.
                work.cells.addresses[: 2 * n_blocks : 2] += np.uint64(first_site // 2)
                work.cells.encrypt(n_blocks)
                flat[2 * first : 2 * (first + n_blocks)] = work.cells.words[: 2 * n_blocks]
        return out[:, :n_sites]

    def digits(self, geolevel: int, query: int, draw: int, site: int) -> Iterator[int]:
        """The digits of one uniform number after its first 64, in groups of 64.

        Args:
            geolevel: 0 (root) to 255.
            query: 0 to 65535.
            draw: 0 to 2**36 - 1.
            site: 0 to 2**48 - 1.
        Raises:
            GeographyError, SchemaError: an address is out of range.
        """
        (row,) = checked_geounits([draw]).tolist()
        # A site has as many bits as an answer, so the same check serves.
        (checked,) = checked_answers([site]).tolist()
        high = int(high_word(DIGITS, geolevel, query)) | row
        # This iterator has its own encryptor, because its digits may be read while other calls draw.
        return Keystream(self._cipher.encryptor(), 1).words_at(checked << PAIR_BITS, high)

    def _fill(
        self,
        law: Law,
        geolevel: int,
        query: int,
        rows: npt.NDArray[np.int64],
        out: npt.NDArray[Any],
        *,
        add: bool,
    ) -> None:
        draws = DenseDraws(
            high=high_word(CELLS, geolevel, query),
            refined_high=high_word(REFINEMENT, geolevel, query),
            geounits=rows,
            n_answers=out.shape[1],
            out=out.reshape(-1),
            add=add,
        )
        self._draw(self._table(law), draws)

    def _draw(self, table: InversionTable, draws: Draws) -> None:
        # Not one array with all bits: a chunk's buffers stay in the processor's cache, and memory does not grow
        # with the request.
        with self._workspace() as work:
            for first in range(0, draws.n_steps, CHUNK_BLOCKS):
                n_steps = min(CHUNK_BLOCKS, draws.n_steps - first)
                work.cells.encrypt(draws.write_addresses(work, first, n_steps))
                n_open = draws.look_up(work, table, first, n_steps)
                # Undecided draws of the chunk, in the order of their places. `work.cells` still holds the bits that
                # they began with: refinement writes to buffers of its own.
                for start in range(0, n_open, REFINED_BLOCKS):
                    places = work.positions[start : min(start + REFINED_BLOCKS, n_open)]
                    draws.write_refinement(work, first, places)
                    # Here each place is written exactly once: undecided draws were stored as marks, or added as 0.
                    _refine(table, work, places, draws)

    def _table(self, law: Law) -> InversionTable:
        # Held while a table is built: two threads that want the same law at once must not both spend seconds on it.
        with self._lock:
            table = self._tables.get(law)
            if table is None:
                table = InversionTable.build(law)
                if len(self._tables) >= TABLES_KEPT:
                    # Dictionaries keep the order of insertion. Rebuilding gives the same table, so removal changes
                    # no draw.
                    del self._tables[next(iter(self._tables))]
                self._tables[law] = table
            return table

    @contextmanager
    def _workspace(self) -> Iterator[Workspace]:
        # As many workspaces as there were calls at the same time; they are used again instead of made for each
        # call.
        with self._lock:
            work = self._idle.pop() if self._idle else Workspace(self._cipher)
        try:
            yield work
        # Also after an interruption: every chunk overwrites what it reads, so leftovers in the buffers do no harm.
        finally:
            with self._lock:
                self._idle.append(work)


def _refine(table: InversionTable, work: Workspace, places: npt.NDArray[np.int64], draws: Draws) -> None:
    """Decide a batch of undecided draws, first with one more word, then with ball arithmetic."""
    stream = work.refinement
    stream.encrypt(places.size)
    n_still_open = refine(
        work.refined_cells,
        stream.words,
        table.second_part,
        places,
        draws.add,
        draws.out,
        work.still_open,
    )
    for i in work.still_open[:n_still_open].tolist():
        # From the first word on: the third step compares all digits again, so it does not matter how far the second
        # came.
        low, high = stream.addresses[2 * i : 2 * i + 2].tolist()
        outcome = table.resolve(int(work.refined_cells[i]), stream.words_at(low, high))
        # The look-up added nothing for an undecided draw, so that the outcome is added once.
        if draws.add:
            draws.out[places[i]] += outcome
        else:
            draws.out[places[i]] = outcome


def _check_width(n_answers: int) -> None:
    if not 0 <= n_answers <= 1 << ANSWER_BITS:
        raise SchemaError(
            f"Noise address: got {n_answers} answers, wanted 0 to 2**{ANSWER_BITS}. Divide the query group."
        )


def _check_output(out: npt.NDArray[Any], shape: tuple[int, ...], types: tuple[str, ...]) -> None:
    if out.ndim != 2 or out.shape != shape or out.dtype.name not in types:
        raise SchemaError(
            f"NoiseSource: the array to write has shape {out.shape} and type {out.dtype}, wanted "
            f"{' or '.join(types)} of shape (n_geounits, n_answers), with {shape[0]} geounits."
        )
    if not out.flags.c_contiguous or not out.flags.writeable:
        raise SchemaError("NoiseSource: the array to write must be writable and C-contiguous. Pass a copy.")
