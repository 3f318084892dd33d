"""Noise as a pure function of key, law and address, and arrays of such noise for use outside releases.

Drawing changes no internal state. Repeating a request gives the same noise, and so does any chunking, order
or number of workers. `tallyveil.noise.address` gives the layout that fixes this.

Problem. Wanted is one integer with exactly the law, for each address (geolevel, query, geounit, answer).

Steps, for a chunk of addresses:
1. Write the 16-byte addresses and encrypt them with AES-256, in buffers for one call at a time (`Keystream`).
   The encryption of an address is the first part of the binary digits of a uniform number U.
2. Look U up in the law's inversion table. Most draws are decided here.
3. Encrypt the refinement addresses of the remaining draws, which gives 64 more digits, and compare again.
4. For the few draws still undecided, read further digits and compare them with boundaries in ball arithmetic.

Stopping rule. Steps 2 to 4 end when the digits of U differ from those of the nearest boundaries.
`tallyveil.noise.table` describes the comparison and gives a worked case.

A request has one of three forms: whole rows of a dense array, scattered addresses, and listed answers of
runs. Each form writes addresses, looks encrypted bits up, and writes the refinement addresses of draws that
remain undecided.

A release draws at addresses of its own. `discrete_gaussian` and `discrete_laplace` draw whole arrays at
addresses that nothing else uses: the array has a number, and an entry has its place in the array.
"""

import math
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, NoReturn, Protocol, TypeGuard

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.errors import BudgetError, ConfigError, SchemaError, SolverError
from tallyveil.exact import as_given, exact_value
from tallyveil.kernels.noise import (
    LaneBlocks,
    Listed,
    Refinement,
    ScatteredBlocks,
    dense_addresses,
    dense_refinement,
    listed_addresses,
    look_up_dense,
    look_up_scattered,
    refine,
    scattered_addresses,
    scattered_refinement,
)
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
    pack_address,
)
from tallyveil.noise.key import new_run_key, require_key
from tallyveil.noise.laws import DiscreteGaussian, DiscreteLaplace, Law
from tallyveil.noise.table import InversionTable

# Bytes of an address and of its encryption: the block of AES. Eight lanes of 16 bits, or two words of 64.
BLOCK_BYTES: Final = 16

CHUNK_BLOCKS: Final = 1 << 14
"""Number of blocks encrypted at a time. Addresses and bits take 256 KiB each, and stay in cache."""

REFINED_BLOCKS: Final = 1 << 12
"""Number of undecided draws that are refined at a time."""


class Keystream:
    """An encryptor with its input and output buffers.

    Attributes:
        addresses: uint64 [2 n], input: low and high word of each address.
        words: uint64 [2 n], output: the encrypted blocks as 64-bit words.
        lanes: uint16 [8 n], output: the same bits as 16-bit lanes.
    """

    __slots__ = ("_encryptor", "_input", "_output", "addresses", "lanes", "words")

    def __init__(self, encryptor: CipherContext, n_blocks: int) -> None:
        self._encryptor = encryptor
        self.addresses: npt.NDArray[np.uint64] = np.empty(2 * n_blocks, dtype=np.uint64)
        # update_into requires room for one byte less than a further block.
        # uint64 so that the buffer is aligned; lanes and words are views of one memory and cost no copy.
        room: npt.NDArray[np.uint64] = np.empty(2 * n_blocks + 2, dtype=np.uint64)
        self.words = room[: 2 * n_blocks]
        self.lanes = self.words.view(np.uint16)
        self._input = self.addresses.data.cast("B")
        self._output = room.data.cast("B")

    def encrypt(self, n_blocks: int) -> None:
        """Encrypt the first `n_blocks` addresses into bits."""
        # The codebook mode keeps no state between calls, so one encryptor serves all chunks and both keystreams.
        size = n_blocks * BLOCK_BYTES
        # Whole blocks go in, so whole blocks come out at once. Fewer bytes would leave bits of an earlier chunk in
        # the buffer, and noise that was used before: hence the check and no retry.
        written = self._encryptor.update_into(self._input[:size], self._output[: size + BLOCK_BYTES - 1])
        if written != size:
            raise SolverError(
                f"The cipher wrote {written} bytes, wanted {size}. Reinstall the package `cryptography`."
            )

    def words_at(self, low: int, high: int) -> Iterator[int]:
        """All words of one draw's refinement, given the address of its first pair."""
        # `low` has zeros in the 16 bits of the pair, so adding the pair never carries into the answer's bits.
        for pair in range(1 << PAIR_BITS):
            block = self._encryptor.update(pack_address(low + pair, high))
            yield int.from_bytes(block[:8], "little")
            yield int.from_bytes(block[8:], "little")


class Workspace:
    """The buffers of one call of a NoiseSource: about 1.8 MiB, of which 0.6 MiB are mostly used.

    Attributes:
        cells: Keystream of the first 16 bits of each draw.
        refinement: Keystream of the further words of undecided draws.
        positions: int64, output positions of the draws that the table leaves undecided.
        refined_cells: uint16, the first 16 bits of these draws, one batch at a time.
        still_open: int64, the draws of a batch that remain undecided after one word.
        lane_of: int32, the lane of each scattered or listed draw of a chunk.
    """

    __slots__ = ("cells", "lane_of", "positions", "refined_cells", "refinement", "still_open")

    def __init__(self, cipher: Cipher[modes.ECB]) -> None:
        # One workspace is used by one call at a time, so that its encryptor and buffers need no lock.
        encryptor = cipher.encryptor()
        self.cells = Keystream(encryptor, CHUNK_BLOCKS)
        self.refinement = Keystream(encryptor, REFINED_BLOCKS)
        self.positions: npt.NDArray[np.int64] = np.empty(LANES * CHUNK_BLOCKS, dtype=np.int64)
        self.refined_cells: npt.NDArray[np.uint16] = np.empty(REFINED_BLOCKS, dtype=np.uint16)
        self.still_open: npt.NDArray[np.int64] = np.empty(REFINED_BLOCKS, dtype=np.int64)
        self.lane_of: npt.NDArray[np.int32] = np.empty(CHUNK_BLOCKS, dtype=np.int32)


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


Exact = Fraction | int | str
Shape = int | tuple[int, ...]


def discrete_gaussian(
    variance: Exact, shape: Shape = (), *, key: bytes | None = None, number: int = 0
) -> NDArray[np.int64]:
    """Draws from the discrete Gaussian law, whose weights are proportional to exp(-x^2 / (2 variance)).

    Args:
        variance: The law's parameter: a fraction, an integer, or text such as "68.49". Floats are refused.
        shape: Shape of the array.
        key: 32 bytes from which the draws follow; None for new random bytes from the operating system.
        number: Number of the array, 0 to 65535. Arrays of one key need different numbers. If they have the same
            number, they get the same draws, and their difference shows what the noise should hide.
    Returns:
        Independent draws with exactly this law, int64.
    Raises:
        BudgetError: the variance is no exact number, or is out of range.
        ConfigError: the key is not 32 bytes.
        GeographyError, SchemaError: the number or the size is out of range.
    Privacy: whoever knows the key can subtract the noise. Do not publish it.
    Source: Canonne, Kamath, Steinke 2020, "The Discrete Gaussian for Differential Privacy".
    """
    return _draws(DiscreteGaussian(_exact(variance, "variance")), shape, key, number)


def discrete_laplace(
    scale: Exact, shape: Shape = (), *, key: bytes | None = None, number: int = 0
) -> NDArray[np.int64]:
    """Draws from the discrete Laplace law, whose weights are proportional to exp(-|x| / scale).

    Args:
        scale: The law's parameter, as for the variance of `discrete_gaussian`. With sensitivity 1, epsilon is
            1 / scale.
        shape, key, number: As for `discrete_gaussian`. The two laws must not share a key and a number.
    Returns:
        Independent draws with exactly this law, int64.
    Raises:
        BudgetError, ConfigError, GeographyError, SchemaError: as `discrete_gaussian`.
    Privacy: as `discrete_gaussian`.
    """
    return _draws(DiscreteLaplace(_exact(scale, "scale")), shape, key, number)


def _draws(law: Law, shape: Shape, key: bytes | None, number: int) -> NDArray[np.int64]:
    lengths = _lengths(shape)
    if not _is_whole(number):
        raise SchemaError(f"number is {as_given(number)}, wanted a whole number from 0 to 65535.")
    # Kind, geolevel 0 and geounit 0 are the same for all arrays; only the number, in the query's field, tells them
    # apart.
    source = NoiseSource(new_run_key() if key is None else key)
    # One row with all entries: an entry's draw depends on its place alone, so a longer array begins with the same
    # draws. `prod` is of Python's integers and cannot overflow.
    draws: NDArray[np.int64] = source.dense(law, 0, int(number), range(1), math.prod(lengths))
    return draws.reshape(lengths)


def _lengths(shape: object) -> tuple[int, ...]:
    """The length of each dimension; raises SchemaError."""
    # A list is taken as well, as numpy takes it. Nothing is cast: 2.0 is refused.
    dimensions = shape if isinstance(shape, tuple | list) else (shape,)
    lengths = [int(length) for length in dimensions if _is_whole(length)]
    if len(lengths) != len(dimensions) or min(lengths, default=0) < 0:
        raise SchemaError(
            f"shape is {as_given(shape)}, wanted a whole number, 0 or more, or a tuple of such numbers."
        )
    return tuple(lengths)


def _is_whole(number: object) -> TypeGuard[int]:
    # True is an integer of Python, and would pass for 1.
    return isinstance(number, int | np.integer) and not isinstance(number, bool)


def _exact(value: Exact, name: str) -> Fraction:
    exact = exact_value(value)
    if exact is None:
        raise BudgetError(
            f"{name} must be an exact number, got {as_given(value)}. Give a Fraction, an integer, or text such as "
            "'68.49'; a float is not the decimal it was written as."
        )
    return exact
