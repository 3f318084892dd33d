"""Noise as a pure function of key, law and address.

Nothing here has a state that draws advance. Asking twice gives the same noise twice, and any chunking, order
or number of workers gives the same noise: see `tallyveil.noise.address` for the layout that holds this fixed.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from tallyveil.errors import ConfigError, SchemaError
from tallyveil.kernels.address import dense_addresses
from tallyveil.kernels.inversion import refine
from tallyveil.noise.address import (
    ANSWER_BITS,
    CELLS,
    DIGITS,
    NUMBERS,
    PAIR_BITS,
    REFINEMENT,
    SITE_BITS,
    checked_answers,
    checked_geounits,
    high_word,
)
from tallyveil.noise.draws import DenseDraws, Draws, ScatteredDraws
from tallyveil.noise.key import require_key
from tallyveil.noise.keystream import CHUNK_BLOCKS, REFINED_BLOCKS, Keystream, Workspace
from tallyveil.noise.laws import Law
from tallyveil.noise.table import InversionTable

TABLES_KEPT: Final = 128
"""Inversion tables one source keeps, 0.4 MiB each for common laws; the oldest goes first."""


class NoiseSource:
    """Exact integer noise at addresses (geolevel, query, geounit, answer), from a key of 32 bytes.

    A table is certified the first time a law is met. Calls from several threads are safe and run side by
    side: each works in a workspace of its own, taken from a pool that the source keeps.

    The law is no part of the address. One address must meet one law only, which holds because the key is
    bound to the plan that fixes the laws (`derive_key`): two laws at one address would share their bits.

    Privacy: whoever holds the key can subtract the noise. It is shown by no message and no `repr`, and a
    source refuses to be pickled.

    Raises:
        ConfigError: the key is not 32 bytes, or the machine is not little endian.
    """

    __slots__ = ("_cipher", "_idle", "_lock", "_tables")

    def __init__(self, key: bytes) -> None:
        require_key(key, "NoiseSource: key")
        if sys.byteorder != "little":
            raise ConfigError("NoiseSource: this machine is big endian, and addresses are little endian.")
        # The codebook mode is right here: every block is a distinct address, and the output is the stream.
        self._cipher = Cipher(algorithms.AES(key), modes.ECB())
        self._tables: dict[Law, InversionTable] = {}
        self._idle: list[Workspace] = []
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return "NoiseSource(key=<redacted>)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A NoiseSource is not pickled: it holds a key. Hand the key on and make another one.")

    def dense(
        self,
        law: Law,
        geolevel: int,
        query: int,
        geounits: range | npt.ArrayLike,
        n_answers: int,
        out: npt.NDArray[Any] | None = None,
    ) -> npt.NDArray[Any]:
        """Noise of all answers of the geounits given.

        Args:
            law: Law of every draw.
            geolevel: 0 (root) to 255.
            query: Number of the query group in the plan, 0 to 65535.
            geounits: [n], each 0 to 2**36 - 1, any order; one listed twice gets the same noise twice.
            n_answers: Answers of the query group, at most 2**48.
            out: Where to write, C-contiguous int64 or int32 [n, n_answers]; by default a new int64 array.
        Returns:
            [n, n_answers], counts of noise.
        Raises:
            GeographyError, SchemaError: an address is out of range, or `out` does not fit.
        """
        rows = checked_geounits(geounits)
        _check_width(n_answers)
        if out is None:
            out = np.empty((rows.size, n_answers), dtype=np.int64)
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
        """Add noise to counts in place: the same draws as `dense`, in one sweep of memory.

        Args:
            law: Law of every draw.
            geolevel: 0 (root) to 255.
            query: Number of the query group in the plan, 0 to 65535.
            geounits: [n], as in `dense`.
            counts: C-contiguous int64 [n, n_answers], below 2**62 in size. Confidential. If the call is
                interrupted, part of them stays without noise.
        Raises:
            GeographyError, SchemaError: an address is out of range, or `counts` has the wrong layout.
        """
        rows = checked_geounits(geounits)
        _check_output(counts, (rows.size, *counts.shape[1:2]), ("int64",))
        _check_width(counts.shape[1])
        self._fill(law, geolevel, query, rows, counts, add=True)

    def at(
        self,
        law: Law,
        geolevel: int,
        query: int,
        geounits: npt.ArrayLike,
        answers: npt.ArrayLike,
    ) -> npt.NDArray[np.int64]:
        """Noise at scattered addresses: what `dense` holds at row geounits[i] and column answers[i].

        Args:
            law: Law of every draw.
            geolevel: 0 (root) to 255.
            query: Number of the query group in the plan, 0 to 65535.
            geounits: [n], each 0 to 2**36 - 1.
            answers: [n], each 0 to 2**48 - 1.
        Returns:
            int64 [n].
        Raises:
            GeographyError, SchemaError: an address is out of range, or lengths differ.
        """
        rows, columns = checked_geounits(geounits), checked_answers(answers)
        if rows.size != columns.size:
            raise SchemaError(
                f"NoiseSource.at: {rows.size} geounits for {columns.size} answers, wanted as many of each."
            )
        out: npt.NDArray[np.int64] = np.empty(rows.size, dtype=np.int64)
        draws = ScatteredDraws(
            high=high_word(CELLS, geolevel, query),
            refined_high=high_word(REFINEMENT, geolevel, query),
            geounits=rows,
            answers=columns,
            out=out,
        )
        self._draw(self._table(law), draws)
        return out

    def numbers(
        self, geolevel: int, query: int, draws: range | npt.ArrayLike, first_site: int, n_sites: int
    ) -> npt.NDArray[np.uint64]:
        """The first 64 binary digits of uniform numbers, which samplers of whole vectors decide by.

        Args:
            geolevel: 0 (root) to 255.
            query: Number of the query group in the plan, 0 to 65535.
            draws: [n] numbers of draws, each 0 to 2**36 - 1.
            first_site: The first uniform number wanted of each draw; even, at least 0.
            n_sites: How many of each draw.
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
        pairs = -(-n_sites // 2)
        out: npt.NDArray[np.uint64] = np.empty((rows.size, 2 * pairs), dtype=np.uint64)
        flat = out.reshape(-1)
        high = high_word(NUMBERS, geolevel, query)
        with self._workspace() as work:
            for first in range(0, rows.size * pairs, CHUNK_BLOCKS):
                n_blocks = min(CHUNK_BLOCKS, rows.size * pairs - first)
                dense_addresses(high, rows, pairs, first, n_blocks, work.cells.addresses)
                work.cells.addresses[: 2 * n_blocks : 2] += np.uint64(first_site // 2)
                work.cells.encrypt(n_blocks)
                flat[2 * first : 2 * (first + n_blocks)] = work.cells.words[: 2 * n_blocks]
        return out[:, :n_sites]

    def digits(self, geolevel: int, query: int, draw: int, site: int) -> Iterator[int]:
        """The digits of one uniform number after its first 64, 64 at a time.

        Args:
            geolevel: 0 (root) to 255.
            query: 0 to 65535.
            draw: 0 to 2**36 - 1.
            site: 0 to 2**48 - 1.
        Raises:
            GeographyError, SchemaError: an address is out of range.
        """
        (row,) = checked_geounits([draw]).tolist()
        (checked,) = checked_answers([site]).tolist()
        high = int(high_word(DIGITS, geolevel, query)) | row
        # An encryptor of its own: the digits are read while others draw.
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
        with self._workspace() as work:
            for first in range(0, draws.n_blocks, CHUNK_BLOCKS):
                n_blocks = min(CHUNK_BLOCKS, draws.n_blocks - first)
                draws.write_addresses(work, first, n_blocks)
                work.cells.encrypt(n_blocks)
                n_open = draws.look_up(work, table, first, n_blocks)
                for start in range(0, n_open, REFINED_BLOCKS):
                    places = work.positions[start : min(start + REFINED_BLOCKS, n_open)]
                    draws.write_refinement(work, first, places)
                    _refine(table, work, places, draws)

    def _table(self, law: Law) -> InversionTable:
        with self._lock:
            table = self._tables.get(law)
            if table is None:
                table = InversionTable.build(law)
                if len(self._tables) >= TABLES_KEPT:
                    del self._tables[next(iter(self._tables))]
                self._tables[law] = table
            return table

    @contextmanager
    def _workspace(self) -> Iterator[Workspace]:
        with self._lock:
            work = self._idle.pop() if self._idle else Workspace(self._cipher)
        try:
            yield work
        finally:
            with self._lock:
                self._idle.append(work)


def _refine(table: InversionTable, work: Workspace, places: npt.NDArray[np.int64], draws: Draws) -> None:
    """Decide a batch of undecided draws: by one more word, then by ball arithmetic."""
    stream = work.refinement
    stream.encrypt(places.size)
    n_still_open = refine(
        work.refined_cells,
        stream.words,
        table.mask,
        table.starts,
        table.fractions,
        table.lowest,
        table.tail_word,
        places,
        draws.add,
        draws.out,
        work.still_open,
    )
    for i in work.still_open[:n_still_open].tolist():
        low, high = stream.addresses[2 * i : 2 * i + 2].tolist()
        outcome = table.resolve(int(work.refined_cells[i]), stream.words_at(low, high))
        if draws.add:
            draws.out[places[i]] += outcome
        else:
            draws.out[places[i]] = outcome


def _check_width(n_answers: int) -> None:
    if not 0 <= n_answers <= 1 << ANSWER_BITS:
        raise SchemaError(f"Noise address: {n_answers} answers, wanted 0 to 2**{ANSWER_BITS}.")


def _check_output(out: npt.NDArray[Any], shape: tuple[int, ...], types: tuple[str, ...]) -> None:
    if out.ndim != 2 or out.shape != shape or out.dtype.name not in types:
        raise SchemaError(
            f"NoiseSource: the array to write has shape {out.shape} and type {out.dtype}, wanted "
            f"{' or '.join(types)} of shape (n_geounits, n_answers), with {shape[0]} geounits."
        )
    if not out.flags.c_contiguous or not out.flags.writeable:
        raise SchemaError("NoiseSource: the array to write must be writable and C-contiguous. Pass a copy.")
