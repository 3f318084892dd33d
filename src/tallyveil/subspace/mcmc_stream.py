"""Random bits of chains: a pure function of key, part, chain and sweep.

An address is a block of AES-256, as in `tallyveil.noise.address`, under a key derived for one plan of chains:

    bytes 0 to 7     low word = sweep * blocks + block, where `blocks` is the number of blocks of one sweep
    bytes 8 to 15    high word: kind 4 bits (15) | part 8 | chain 52        (the kind in the highest bits)

So a chain can be continued from any sweep, in chunks of any length, and two chains never use the same bits.
"""

from typing import Final

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from tallyveil.errors import ConfigError
from tallyveil.noise.key import derive_key, require_key
from tallyveil.noise.keystream import CHUNK_BLOCKS, Keystream

CHAINS: Final = 15
"""Kind of an address, its four highest bits: no other purpose may use this number."""
SINGLE: Final = 0
"""Part: the chain whose state is kept."""
WARM_UP: Final = 1
"""Part: the chains that tune the jumps. Other bits than a release uses, so tuning cannot depend on its noise."""
LEAD: Final = 2
"""Part: the sweeps by which the leading chain of a pair is ahead."""
COUPLED: Final = 3
"""Part: the sweeps that both chains of a pair make together."""
STARTS: Final = 4
"""Part: chains from spread starts, for the scale reduction of the diagnostics."""

_PART_BITS: Final = 8
"""With the kind (4) and the chain (52), the parts fill the high word of 64 bits exactly, so addresses never collide."""
_CHAIN_BITS: Final = 52
"""See `_PART_BITS`: one bit more would run into the part."""


class ChainStream:
    """Random words for the sweeps of chains. Only one caller may use it at a time.

    Attributes:
        per_sweep: Number of 64-bit words of a sweep, even.
        chunk: Largest number of sweeps in one call.

    Privacy: whoever holds the key can subtract the noise drawn with it. It is never shown.

    Raises:
        ConfigError: the key is not 32 bytes.
    """

    __slots__ = ("_keystream", "chunk", "per_sweep")

    def __init__(self, key: bytes, plan_digest: bytes, words_per_sweep: int) -> None:
        require_key(key, "Chain: key")
        blocks = (words_per_sweep + 1) // 2
        self.per_sweep = 2 * blocks
        self.chunk = max(1, CHUNK_BLOCKS // blocks)
        cipher = Cipher(algorithms.AES(derive_key(key, "subspace-chain", plan_digest)), modes.ECB())
        self._keystream = Keystream(cipher.encryptor(), self.chunk * blocks)

    def __repr__(self) -> str:
        return "ChainStream(key=<redacted>)"

    def words(self, part: int, chain: int, first: int, sweeps: int) -> npt.NDArray[np.uint64]:
        """The words of some sweeps. The next call overwrites them.

        Args:
            part: Purpose of the chain.
            chain: 0 to 2**52 - 1.
            first: First sweep, from 0.
            sweeps: Number of sweeps, at most `chunk`.
        Returns:
            uint64 [sweeps * per_sweep].
        Raises:
            ConfigError: a number is out of range.
        """
        if not (0 <= chain < 1 << _CHAIN_BITS and 0 <= part < 1 << _PART_BITS and 0 <= first < 1 << 40):
            raise ConfigError(
                f"Chain address: got part {part}, chain {chain}, sweep {first}; wanted a part from 0 to 255, a chain "
                "below 2**52 and a sweep below 2**40. Number chains from 0."
            )
        blocks = self.per_sweep // 2
        n = sweeps * blocks
        addresses = self._keystream.addresses
        addresses[0 : 2 * n : 2] = np.arange(first * blocks, first * blocks + n, dtype=np.uint64)
        addresses[1 : 2 * n : 2] = np.uint64((CHAINS << _PART_BITS | part) << _CHAIN_BITS | chain)
        self._keystream.encrypt(n)
        return self._keystream.words[: 2 * n]
