"""One known answer, and what this machine gives for it: of the cipher, of the hashes, and of draws of noise.

Answers of the cipher and of the hashes are from the standards that define them. Draws are at addresses, under
a key that everybody knows. The tests of the project compute such draws a second time, in plain decimal
arithmetic that shares no code with the package.
"""

import hashlib
import hmac
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from tallyveil.noise.key import derive_key
from tallyveil.noise.laws import DiscreteGaussian, DiscreteLaplace, Law
from tallyveil.noise.source import BLOCK_BYTES, Keystream, NoiseSource
from tallyveil.primitives import AES256_CIPHER, AES256_KEY, AES256_PLAIN, SHA256_OF_ABC


@dataclass(frozen=True, slots=True)
class KnownAnswer:
    """A known answer and the answer of this machine.

    Attributes:
        area: What is checked: cipher, hash, noise, accounting or release.
        name: What was computed.
        source: Where the known answer comes from.
        wanted: The known answer, as text.
        got: The answer of this machine, as text.
        same: Whether they agree.
    """

    area: str
    name: str
    source: str
    wanted: str
    got: str
    same: bool


def equal(area: str, name: str, source: str, wanted: str, got: str) -> KnownAnswer:
    """An answer that must be the known one to the last digit."""
    return KnownAnswer(area, name, source, wanted, got, wanted == got)


def digest(data: bytes) -> str:
    """The first 32 hexadecimal digits of the SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()[:32]


CIPHER_KEY: Final = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
PLAIN: Final = bytes.fromhex(
    "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
    "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
)
COUNTER: Final = bytes.fromhex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff")
"""Key, plain text and first counter of the examples of NIST SP 800-38A for AES-256."""
ECB: Final = (
    "f3eed1bdb5d2a03c064b5a7e3db181f8591ccb10d410ed26dc5ba74a31362870"
    "b6ed21b99ca6f4f9f153e7b1beafed1d23304b7a39f9f3ff067d8d8f9e24ecc7"
)
CTR: Final = (
    "601ec313775789a5b7a7f504bbf3d228f443e3ca4d62b59aca84e990cacaf5c5"
    "2b0930daa23de94ce87017ba2d84988ddfc9c58db67aada613c2dd08457941a6"
)


def cipher_answers() -> Iterator[KnownAnswer]:
    """AES-256 on single blocks, on several, and as the stream that the noise is made of."""
    yield equal("cipher", "AES-256, one block", "FIPS 197, C.3", AES256_CIPHER, _encrypted(AES256_KEY))
    # ECB without chaining, as the noise uses the cipher: each block is encrypted for itself.
    encryptor = Cipher(algorithms.AES(CIPHER_KEY), modes.ECB()).encryptor()
    yield equal("cipher", "AES-256-ECB, four blocks", "SP 800-38A, F.1.5", ECB, encryptor.update(PLAIN).hex())
    yield equal("cipher", "keystream as AES-256-CTR", "SP 800-38A, F.5.5", CTR, _counter_mode().hex())


def _encrypted(key: bytes) -> str:
    return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(bytes.fromhex(AES256_PLAIN)).hex()


def _counter_mode() -> bytes:
    """The plain text, encrypted with the keystream of the noise at the counters of the example."""
    n_blocks = len(PLAIN) // BLOCK_BYTES
    # The counter is a big-endian number, as the standard has it.
    first = int.from_bytes(COUNTER, "big")
    counters = b"".join((first + block).to_bytes(BLOCK_BYTES, "big") for block in range(n_blocks))
    stream = Keystream(Cipher(algorithms.AES(CIPHER_KEY), modes.ECB()).encryptor(), n_blocks)
    # As the noise writes addresses, so that the same code is tried that draws it.
    stream.addresses[:] = np.frombuffer(counters, dtype=np.uint64)
    stream.encrypt(n_blocks)
    return bytes(a ^ b for a, b in zip(PLAIN, stream.words.tobytes(), strict=True))


def hash_answers() -> Iterator[KnownAnswer]:
    """SHA-256, HMAC-SHA256, and the keys that are derived with it."""
    # Longer than one block with its padding, so that the chaining is tried as well.
    two_blocks = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"
    yield equal("hash", "SHA-256, one block", "FIPS 180-4", SHA256_OF_ABC, hashlib.sha256(b"abc").hexdigest())
    yield equal(
        "hash",
        "SHA-256, two blocks",
        "FIPS 180-4",
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
        hashlib.sha256(two_blocks).hexdigest(),
    )
    yield equal(
        "hash",
        "HMAC-SHA256",
        "RFC 4231, case 1",
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
        hmac.new(b"\x0b" * 20, b"Hi There", hashlib.sha256).hexdigest(),
    )
    yield equal(
        "hash",
        "key derived for a purpose",
        "this project, format 1",
        "9af8fafc679cf262b0b1af72b0f6d017318fee8e3485975e2fc760887dc49fad",
        derive_key(bytes(range(32)), "measure", b"a", b"b").hex(),
    )


NOISE_KEY: Final = bytes(range(32))
"""A key that everybody knows, so that everybody can draw the same numbers."""
GAUSSIAN: Final = DiscreteGaussian(Fraction("68.49"))
FIRST: Final = (
    (GAUSSIAN, "1 5 -5 7 14 -2 -7 0 5 0 -12 -10"),
    (DiscreteLaplace(Fraction("7.3")), "1 4 -4 7 17 -1 -7 0 4 0 -15 -11"),
)
"""The first twelve draws of the root's first query."""
LAST: Final = "-3 1 7 -5 3 -8 11 -19 2 8 5 -3"
"""The first twelve draws of the last geounit of the last query of the last geolevel that an address can name."""
MANY: Final = (
    (DiscreteGaussian(Fraction(1, 10)), "bab2320786a95a2f49990d6684efcb21"),
    (GAUSSIAN, "c613890fafd399affc46c3aa562dd26e"),
    (DiscreteGaussian(Fraction(10**4)), "5754b5f03c7bd7aef14b367608a45d1d"),
    (DiscreteLaplace(Fraction("7.3")), "2c79e6410282c6770ca356087ed5d300"),
)
"""Digests of 201,600 draws of each law."""
SOURCE: Final = "this project, noise law 1"


def noise_answers() -> Iterator[KnownAnswer]:
    """Draws of the discrete Gaussian and the discrete Laplace law."""
    noise = NoiseSource(NOISE_KEY)

    def first_draws(law: Law, geolevel: int, query: int, geounit: int) -> str:
        return " ".join(map(str, noise.dense(law, geolevel, query, [geounit], 12)[0].tolist()))

    for law, wanted in FIRST:
        yield equal("noise", f"{_words(law)}, first draws", SOURCE, wanted, first_draws(law, 0, 0, 0))
    last = first_draws(GAUSSIAN, 255, 65535, (1 << 36) - 1)
    yield equal("noise", f"{_words(GAUSSIAN)}, last address", SOURCE, LAST, last)
    for law, wanted in MANY:
        drawn = noise.dense(law, 2, 9, range(100), 2016)
        yield equal(
            "noise", f"{_words(law)}, 201,600 draws", SOURCE, wanted, digest(drawn.astype("<i8").tobytes())
        )


def _words(law: Law) -> str:
    if isinstance(law, DiscreteGaussian):
        return f"discrete Gaussian of variance {law.variance}"
    return f"discrete Laplace of scale {law.scale}"
