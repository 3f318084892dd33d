"""The 128-bit addresses of noise. This layout is a stability contract.

The draw at (geolevel, query, geounit, answer) is a pure function of these four numbers, the key and the law. An address
is 16 bytes: two 64-bit words, each little endian.
    bytes 0 to 7     low word; its meaning depends on the kind (below)
    bytes 8 to 15    high word:  kind 4 bits | geolevel 8 | query 16 | geounit 36    (the kind in the highest bits)

    kind 0, cells        low word = block, where block = answer // 8.
                         The AES-256 encryption of the address is 8 lanes of 16 bits, each little endian, in byte order.
                         Lane answer % 8 holds the first 16 binary digits of the answer's uniform number.
    kind 1, refinement   low word = answer << 16 | pair.
                         The AES-256 encryption is 2 words of 64 bits, each little endian, in byte order.
                         They are groups 2 pair and 2 pair + 1 of 64 digits, counted from the digit after the first 16.
    kind 2, numbers      low word = site // 2. The field geounit holds the number of a draw of a vector.
                         The AES-256 encryption is 2 words of 64 bits, each little endian, in byte order.
                         Word site % 2 holds the first 64 binary digits of the uniform number of the site.
    kind 3, digits       low word = site << 16 | pair.
                         As kind 1: groups 2 pair and 2 pair + 1 of 64 digits, counted from the digit after the first
                             64.
    kinds 4 to 14        reserved.
    kind 15, chains      Markov chains; `tallyveil.subspace.mcmc` gives the layout.

Every address is encrypted by itself (the electronic codebook mode), so no state, order or chunking has an effect.
Golden vectors in the tests fix this layout.

Worked case: answer 11 is in block 11 // 8 = 1, lane 11 % 8 = 3. Its first 16 digits are bytes 6 and 7 of the encryption
of the address (kind 0, block 1).

Security: distinct inputs of a block cipher never give equal outputs, but those of a random function can. This
difference gives an observer of q blocks an advantage of at most q**2 / 2**129 in telling the two apart. It is 2**-67
for 2**31 blocks. A national run asks for a little more.
"""

import struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tallyveil.errors import GeographyError, SchemaError

# The four kinds of address, in the highest 4 bits. A kind never changes its number, and a removed one must not be
# given again: a changed number would give every address other noise, and a used one would repeat old noise.
CELLS: Final = 0
# Further digits of a cell's draw.
REFINEMENT: Final = 1
# Uniform numbers of vectors.
NUMBERS: Final = 2
# Further digits of such a number.
DIGITS: Final = 3

LANES: Final = 8
"""Number of draws in one encrypted block."""

# Widths of the fields in bits. The high word is full: 4 + 8 + 16 + 36 = 64. A wider field would have to take its
# bits from a neighbour and move all fields above it, which changes every draw.
GEOLEVEL_BITS: Final = 8
# At most 65,536 query groups of one key.
QUERY_BITS: Final = 16
# 2**36 geounits of one geolevel: more than 8,000 times the 8 million blocks of the United States.
GEOUNIT_BITS: Final = 36
# Answers of a query. Answer << 16 | pair must fit into the low word, so 48 + 16 = 64: no two draws can share an
# address of refinement. Cells need only 45 of these bits, because 8 answers share a block.
ANSWER_BITS: Final = 48
# Pairs of words that one draw can read: 2**17 words or 8 million digits. Each further word is needed with
# probability about 2**-64, so the limit is never met, and the field could not overflow into the answer's.
PAIR_BITS: Final = 16
# Uniform numbers of one draw of a vector. The same width as an answer, for the same reason.
SITE_BITS: Final = 48


def high_word(kind: int, geolevel: int, query: int) -> np.uint64:
    """The high word of an address, with zeros in the field of the geounit.

    Raises:
        GeographyError: the geolevel is not in 0..255.
        SchemaError: the query is not in 0..65535.
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
    # Python's integers do not overflow, and the checks above keep each field inside its bits, so no field can spill
    # into another: different (kind, geolevel, query) always give different words.
    shifted = kind << GEOLEVEL_BITS | geolevel
    return np.uint64((shifted << QUERY_BITS | query) << GEOUNIT_BITS)


def checked_geounits(geounits: range | npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Geounit numbers as a contiguous int64 array.

    Raises:
        GeographyError: the numbers are not a flat list of integers in 0..2**36 - 1.
    """
    # numpy would read a range element by element through Python.
    if isinstance(geounits, range):
        geounits = np.arange(geounits.start, geounits.stop, geounits.step)
    return _checked(geounits, "geounits", GEOUNIT_BITS, GeographyError)


def checked_answers(answers: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Answer numbers as a contiguous int64 array.

    Raises:
        SchemaError: the numbers are not a flat list of integers in 0..2**48 - 1.
    """
    return _checked(answers, "answers", ANSWER_BITS, SchemaError)


def _checked(
    numbers: npt.ArrayLike, name: str, bits: int, error: type[GeographyError] | type[SchemaError]
) -> npt.NDArray[np.int64]:
    # Not cast before the check: 2.7 would silently become the address of 2.
    array: npt.NDArray[Any] = np.asarray(numbers)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise error(
            f"Noise address: {name} has shape {array.shape} and type {array.dtype}, wanted a flat array of "
            "whole numbers."
        )
    if array.size:
        # As integers of Python: in int64 a uint64 of 2**63 or more would turn negative, and the message would show
        # a number that nobody gave.
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
