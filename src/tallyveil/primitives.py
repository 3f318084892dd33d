"""The algorithms that every secret rests on, tried with known answers before anything depends on them.

SHA-256 and AES-256 are all that Tallyveil asks of a library of ciphers. Beside them, numba gives compiled code names by
SHA-1, which keeps nothing secret. An OpenSSL in FIPS mode has all three. An OpenSSL that demands FIPS but has no such
provider has none of them, and then each call of it fails. So a command tries the hashes when it starts, and a run tries
AES-256 before it reads its inputs.
"""

import hashlib
from typing import Final

from tallyveil.errors import SolverError

SHA256_OF_ABC: Final = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
"""FIPS 180-4, example of one block."""

# The key of the vector: the bytes 0 to 31.
AES256_KEY: Final = bytes(range(32))
AES256_PLAIN: Final = "00112233445566778899aabbccddeeff"
AES256_CIPHER: Final = "8ea2b7ca516745bfeafc49904b496089"
"""FIPS 197, appendix C.3: the encryption of `AES256_PLAIN` under `AES256_KEY`."""


def require_hashes() -> None:
    """Refuse a machine without SHA-256, or on which numba could not compile.

    Raises:
        SolverError: Python's hashlib refuses SHA-256 or SHA-1, or gives a wrong SHA-256.
    """
    try:
        digest = hashlib.sha256(b"abc").hexdigest()
    except ValueError as error:
        raise _refused("Python's hashlib", "SHA-256") from error
    # A wrong hash would give keys and digests that no other machine could check.
    if digest != SHA256_OF_ABC:
        raise _wrong("Python's hashlib", "SHA-256")
    try:
        hashlib.sha1(b"abc")  # as numba calls it
    except ValueError as error:
        raise _refused("Python's hashlib", "SHA-1, by which numba names compiled code,") from error


def require_aes256() -> None:
    """Refuse a machine without AES-256.

    Raises:
        SolverError: the package `cryptography` refuses AES-256, or encrypts the block of FIPS 197 to another one.
    """
    # Imported late: commands that only plan need no ciphers, and should start at once.
    from cryptography.exceptions import InternalError, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    try:
        encryptor = Cipher(algorithms.AES(AES256_KEY), modes.ECB()).encryptor()
        encrypted = encryptor.update(bytes.fromhex(AES256_PLAIN)).hex()
    except (InternalError, UnsupportedAlgorithm, ValueError) as error:
        raise _refused("the package `cryptography`", "AES-256") from error
    if encrypted != AES256_CIPHER:
        raise _wrong("the package `cryptography`", "AES-256")


def _refused(library: str, algorithm: str) -> SolverError:
    return SolverError(
        f"{library} refuses {algorithm} on this machine. Tallyveil cannot work without it. Nothing was read or spent. "
        "Where OPENSSL_CONF or the system demands FIPS, give OpenSSL a FIPS provider that it can load. Python and "
        "`cryptography` must then use one and the same libcrypto.",
        code="algorithm-refused",
    )


def _wrong(library: str, algorithm: str) -> SolverError:
    return SolverError(
        f"{library} gives a wrong answer for {algorithm}: a published test vector has another result on this machine. "
        "Nothing was read or spent. Reinstall Python and the package `cryptography`, and check the machine.",
        code="algorithm-refused",
    )
