"""The buffers of the cipher, and a cipher that does not do what it is asked."""

import numpy as np
import pytest

from tallyveil.errors import SolverError
from tallyveil.noise.address import LANES, PAIR_BITS, pack_address
from tallyveil.noise.key import insecure_key
from tallyveil.noise.source import BLOCK_BYTES, Keystream, NoiseSource


class Counting:
    """Stands in for a cipher: gives back what it was given, or one byte too few."""

    def __init__(self, short: int = 0) -> None:
        self.short = short
        self.seen: list[bytes] = []

    def update_into(self, data, buffer) -> int:
        buffer[: len(data)] = data
        return len(data) - self.short

    def update(self, data: bytes) -> bytes:
        self.seen.append(data)
        return data


def test_a_cipher_that_writes_too_little_is_refused():
    with pytest.raises(SolverError, match="Reinstall"):
        Keystream(Counting(short=1), 4).encrypt(4)


def test_words_and_lanes_are_the_same_bits():
    stream = Keystream(Counting(), 3)
    stream.addresses[:] = np.arange(6, dtype=np.uint64) << np.uint64(17)
    stream.encrypt(2)
    assert np.array_equal(stream.words[:4], stream.addresses[:4])
    assert np.array_equal(stream.lanes[:16].view(np.uint64), stream.words[:4])
    assert stream.lanes.size == 3 * LANES
    assert 2 * stream.words.itemsize == BLOCK_BYTES


def test_words_of_one_address_are_asked_for_pair_by_pair():
    cipher = Counting()
    words = list(Keystream(cipher, 1).words_at(7 << PAIR_BITS, 9))
    assert cipher.seen == [pack_address((7 << PAIR_BITS) + pair, 9) for pair in range(1 << PAIR_BITS)]
    assert len(words) == 2 << PAIR_BITS
    assert all(0 <= word < 1 << 64 for word in words)


def test_only_names_that_exist_are_offered():
    import tallyveil.noise

    assert tallyveil.noise.NoiseSource is NoiseSource
    with pytest.raises(AttributeError, match="nothing"):
        _ = tallyveil.noise.nothing  # type: ignore[attr-defined]
    assert insecure_key("a") != insecure_key("b")
