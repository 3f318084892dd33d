"""Buffers in which addresses are encrypted into random bits, for one call at a time."""

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, modes

from tallyveil.errors import SolverError
from tallyveil.noise.address import LANES, PAIR_BITS, pack_address

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
