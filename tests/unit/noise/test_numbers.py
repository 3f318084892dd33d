"""Uniform numbers of vectors: their layout, held fixed, and their independence of batches."""

import itertools
import struct

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from tallyveil.errors import SchemaError
from tallyveil.noise import NoiseSource, insecure_key

KEY = insecure_key("numbers")
SOURCE = NoiseSource(KEY)


def block(low: int, high: int) -> tuple[int, int]:
    encryptor = Cipher(algorithms.AES(KEY), modes.ECB()).encryptor()
    return struct.unpack("<QQ", encryptor.update(struct.pack("<QQ", low, high)))


def test_layout():
    found = SOURCE.numbers(3, 77, [12, 5], 4, 3)
    for row, draw in enumerate((12, 5)):
        high = 2 << 60 | 3 << 52 | 77 << 36 | draw
        assert found[row].tolist() == [*block(2, high), block(3, high)[0]]
    high = 3 << 60 | 3 << 52 | 77 << 36 | 12
    digits = list(itertools.islice(SOURCE.digits(3, 77, 12, 9), 4))
    assert digits == [*block(9 << 16, high), *block(9 << 16 | 1, high)]


def test_batches_change_nothing():
    whole = SOURCE.numbers(0, 0, range(5000), 0, 11)
    assert (SOURCE.numbers(0, 0, [4999, 17], 0, 11) == whole[[4999, 17]]).all()
    assert (SOURCE.numbers(0, 0, range(5000), 6, 5) == whole[:, 6:]).all()
    assert np.unique(whole).size == whole.size


def test_no_sites_and_the_last_sites():
    assert SOURCE.numbers(0, 0, [3], 0, 0).shape == (1, 0)
    last = SOURCE.numbers(0, 0, [3], (1 << 48) - 2, 2)
    assert last.shape == (1, 2)
    assert (last != SOURCE.numbers(0, 0, [3], 0, 2)).all()


@pytest.mark.parametrize(("first", "n"), [(1, 2), (-2, 2), (0, -1), (1 << 48, 2)])
def test_sites_out_of_range(first, n):
    with pytest.raises(SchemaError, match=f"sites {first} to {first + n}, wanted an even first site"):
        SOURCE.numbers(0, 0, [0], first, n)
