"""Columns of geocodes: which types are accepted, and the two forms in which they are stored.

Geocodes are stored as polars text Series, because polars sorts and joins text several times faster than numpy does.
`Geocodes` wraps a Series for reading.
"""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.errors import GeographyError

LONGEST_GEOCODE: Final = 1000
"""Characters of a geocode. All geocodes of a geolevel are stored with the width of the longest one."""
TextColumn: TypeAlias = Sequence[str | None] | pl.Series | NDArray[Any]


def text_column(values: TextColumn, where: str) -> pl.Series:
    """Geocodes as a polars text Series. Nulls remain null.

    Args:
        values: Any sequence of `str`, a numpy array of text, or a polars Series of text or categories.
        where: Name of the column, for the error message.

    Raises:
        GeographyError: the values are not text, contain the NUL character, or are too long.
    """
    column = _as_series(values, where)
    # NUL ends geocodes in the digest of a spine and pads them for sorting, so that it can be in none.
    if column.str.contains("\0", literal=True).any():
        raise GeographyError(
            f"{where}: a geocode holds the character NUL, which a text file cannot hold. Remove the character from "
            "the table."
        )
    if _as_int(column.str.len_chars().max()) > LONGEST_GEOCODE:
        raise GeographyError(
            f"{where}: a text has more than {LONGEST_GEOCODE:,} characters, and so is no geocode or name of an entity. "
            "Name the column of geocodes, or correct the table."
        )
    return column


def fixed_width(column: pl.Series) -> NDArray[np.str_]:
    """The same geocodes as a read-only numpy array of the narrowest fixed-width text. There must be no nulls."""
    width = _as_int(column.str.len_chars().max())
    if _is_ascii(column):
        # Nearly all geocodes are ASCII. Widening one run of bytes to numpy's four-byte characters takes half the time
        # and a third of the memory of a conversion through Python strings.
        array = _padded_bytes(column, width).astype("<u4").view(f"<U{width}").astype(f"U{width}", copy=False)
    else:
        array = np.array(column.to_list(), dtype=f"U{width}")
    array.flags.writeable = False
    return array


def row_order(columns: Sequence[pl.Series]) -> NDArray[np.int64]:
    """Row numbers that sort by the columns, the first column first, by code point. There must be no nulls.

    Each geocode is cut into eight-byte words that compare as the text does. Sorting integers takes a third of the time
    of sorting the text of several columns.
    """
    words = [word for column in columns for word in _sort_words(column)]
    return np.lexsort(words[::-1]).astype(np.int64, copy=False)  # the last key of lexsort is the primary one


def _sort_words(column: pl.Series) -> list[NDArray[np.uint64]]:
    # UTF-8 keeps the order of code points, and the padding NUL is smaller than every other byte.
    # Big-endian words compare as their bytes do from the left; numpy then turns them into native integers.
    n_words = -(-_as_int(column.str.len_bytes().max()) // 8)
    grid = _padded_bytes(column, 8 * n_words).view(">u8").reshape(len(column), n_words)
    return [grid[:, index].astype(np.uint64) for index in range(n_words)]


def _padded_bytes(column: pl.Series, width: int) -> NDArray[np.uint8]:
    """The UTF-8 bytes of all geocodes in one array, each geocode padded to the width with NUL."""
    if _is_ascii(column):
        run = column.str.pad_end(width, "\0").str.join("").item().encode("ascii")
    else:
        run = b"".join(text.encode("utf-8").ljust(width, b"\0") for text in column.to_list())
    return np.frombuffer(run, dtype=np.uint8)


def _is_ascii(column: pl.Series) -> bool:
    # Every character of ASCII is one byte, and every other is more: equal sums mean that all are ASCII.
    return _as_int(column.str.len_bytes().sum()) == _as_int(column.str.len_chars().sum())


def _as_series(values: TextColumn, where: str) -> pl.Series:
    if hasattr(values, "__arrow_c_stream__") and not isinstance(values, pl.Series):
        values = pl.Series(values)
    if isinstance(values, pl.Series):
        if values.dtype == pl.String:
            return values
        if isinstance(values.dtype, pl.Categorical | pl.Enum):
            return values.cast(pl.String)
        raise _not_text(where, str(values.dtype.base_type()))
    if isinstance(values, np.ndarray):
        # "U" is text of fixed width, "T" of variable width, "O" objects, which are looked at one by one.
        if values.ndim != 1 or values.dtype.kind not in "UOT":
            raise _not_text(where, f"a numpy array of {values.dtype} with {values.ndim} dimensions")
        return _series_of_list(values.tolist(), where) if values.dtype.kind != "U" else pl.Series(values)
    # A str is a sequence of str, each of one character; that is never meant.
    if isinstance(values, str):
        raise _not_text(where, "one str")
    return _series_of_list(list(values), where)


def _series_of_list(values: list[Any], where: str) -> pl.Series:
    for value in values:
        if value is not None and not isinstance(value, str):
            raise _not_text(where, f"a value of type {type(value).__name__}")
    return pl.Series(values, dtype=pl.String)


def _not_text(where: str, got: str) -> GeographyError:
    return GeographyError(
        f"{where}: geocodes must be a column of text, got {got}. Read the column as text: "
        "a number loses the leading zeros of '04'."
    )


def _as_int(value: object) -> int:
    return value if isinstance(value, int) else 0
