"""The 128-bit addresses of noise. This layout is a stability contract.

The draw at (geolevel, query, geounit, answer) is a pure function of these four numbers, the key and the law.
An address is 16 bytes, two 64-bit words, each little endian:

    bytes 0 to 7     low word, by kind (below)
    bytes 8 to 15    high word:  kind 4 bits | geolevel 8 | query 16 | geounit 36    (kind on top)

    kind 0, cells        low word = block, where block = answer // 8.
                         AES-256 of the address is 8 lanes of 16 bits, each little endian, in byte order;
                         lane answer % 8 holds the first 16 binary digits of the answer's uniform number.
    kind 1, refinement   low word = answer << 16 | pair.
                         AES-256 of the address is 2 words of 64 bits, each little endian, in byte order;
                         they are the digits 2 pair and 2 pair + 1 (counted in 64s) after the first 16.
    kind 2, numbers      low word = site // 2. The geounit is the number of a draw of a vector.
                         AES-256 of the address is 2 words of 64 bits, each little endian, in byte order;
                         word site % 2 holds the first 64 binary digits of the uniform number of the site.
    kind 3, digits       low word = site << 16 | pair.
                         Words as in kind 1: digits 2 pair and 2 pair + 1 (counted in 64s) after the first 64.
    kinds 4 to 14        reserved.
    kind 15, chains      of Markov chains; laid out in `tallyveil.subspace.mcmc_stream`.

Every address is encrypted once in its own right (the electronic codebook), so no state, order or chunking
enters. Golden vectors in the tests hold this layout fixed.

Security: distinct inputs of a block cipher never collide, unlike those of a random function. What tells the
two apart is bounded by q**2 / 2**129 for q blocks: 2**-67 for the 2**31 blocks of a national run.
"""

import struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tallyveil.errors import GeographyError, SchemaError

CELLS: Final = 0
REFINEMENT: Final = 1
NUMBERS: Final = 2
DIGITS: Final = 3

LANES: Final = 8
"""Draws in one encrypted block."""

GEOLEVEL_BITS: Final = 8
QUERY_BITS: Final = 16
GEOUNIT_BITS: Final = 36
ANSWER_BITS: Final = 48
PAIR_BITS: Final = 16
SITE_BITS: Final = 48


def high_word(kind: int, geolevel: int, query: int) -> np.uint64:
    """The high word of an address, with zeros where the geounit goes.

    Raises:
        GeographyError: geolevel is not in 0..255.
        SchemaError: query is not in 0..65535.
    """
    if not 0 <= geolevel < 1 << GEOLEVEL_BITS:
        raise GeographyError(
            f"Noise address: geolevel is {geolevel}, wanted 0 to {(1 << GEOLEVEL_BITS) - 1}. "
            f"Use at most {1 << GEOLEVEL_BITS} geolevels, numbered from the root, which is 0."
        )
    if not 0 <= query < 1 << QUERY_BITS:
        raise SchemaError(
            f"Noise address: query is {query}, wanted 0 to {(1 << QUERY_BITS) - 1}. "
            f"Use at most {1 << QUERY_BITS} query groups, numbered from 0."
        )
    shifted = kind << GEOLEVEL_BITS | geolevel
    return np.uint64((shifted << QUERY_BITS | query) << GEOUNIT_BITS)


def checked_geounits(geounits: range | npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Geounit numbers as a contiguous int64 array.

    Raises:
        GeographyError: not a flat list of whole numbers in 0..2**36 - 1.
    """
    if isinstance(geounits, range):
        geounits = np.arange(geounits.start, geounits.stop, geounits.step, dtype=np.int64)
    return _checked(geounits, "geounits", GEOUNIT_BITS, GeographyError)


def checked_answers(answers: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Answer numbers as a contiguous int64 array.

    Raises:
        SchemaError: not a flat list of whole numbers in 0..2**48 - 1.
    """
    return _checked(answers, "answers", ANSWER_BITS, SchemaError)


def _checked(
    numbers: npt.ArrayLike, name: str, bits: int, error: type[GeographyError] | type[SchemaError]
) -> npt.NDArray[np.int64]:
    array: npt.NDArray[Any] = np.asarray(numbers)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise error(
            f"Noise address: {name} has shape {array.shape} and type {array.dtype}, wanted a flat array of "
            "whole numbers."
        )
    if array.size:
        least, most = int(array.min()), int(array.max())
        if least < 0 or most >= 1 << bits:
            raise error(
                f"Noise address: {name} lie in {least}..{most}, wanted 0 to {(1 << bits) - 1}. "
                "Number them from 0."
            )
    return np.ascontiguousarray(array, dtype=np.int64)


def pack_address(low: int, high: int) -> bytes:
    """The 16 bytes of an address."""
    return struct.pack("<QQ", low, high)
