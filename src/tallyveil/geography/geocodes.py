"""The geocodes of one geolevel: a read-only column of text that uses little memory and can be indexed like an array.

Eight million block geocodes of 15 digits take 31 bytes each here (a 16-byte view and the digits), compared with 60 in
numpy's fixed-width text. Tables and joins use them without a copy.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.geography.columns import fixed_width, text_column


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Geocodes:
    """Geocodes of one geolevel, in the spine's order.

    An integer index gives a `str`. A slice, or an array of integers or booleans, gives `Geocodes`. Conversion to numpy
    copies into fixed-width text; polars uses the column without a copy.

    Attributes:
        text: The geocodes as a polars text Series. It is marked as sorted if the geocodes increase. It has no nulls
            when the spine builders made it. Not to be changed.
    """

    text: pl.Series

    def __len__(self) -> int:
        return len(self.text)

    @overload
    def __getitem__(self, index: int | np.integer[Any]) -> str: ...
    @overload
    def __getitem__(self, index: slice | NDArray[Any]) -> "Geocodes": ...
    def __getitem__(self, index: int | np.integer[Any] | slice | NDArray[Any]) -> "str | Geocodes":
        if isinstance(index, slice):
            return Geocodes(self.text[index])
        if isinstance(index, np.ndarray):
            # A mask and a list of positions look alike to numpy; polars has a function for each.
            return Geocodes(self.text.filter(index) if index.dtype == np.bool_ else self.text.gather(index))
        return str(self.text[int(index)])

    def __iter__(self) -> Iterator[str]:
        return iter(self.text)

    def tolist(self) -> list[str]:
        """The geocodes as Python strings."""
        return self.text.to_list()

    @property
    def rises(self) -> bool:
        """Whether the geocodes are sorted by code point."""
        # The flag is set when the geocodes are made, so that asking costs nothing.
        return bool(self.text.flags["SORTED_ASC"])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        # numpy has no text of width 0, so that an empty column takes width 1.
        array = fixed_width(self.text) if len(self.text) else np.empty(0, dtype="U1")
        return array if dtype is None else array.astype(dtype)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.text.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"Geocodes({len(self)})"


def geocodes_of(values: Any, geolevel: str) -> Geocodes:
    """Geocodes from any column of text.

    Raises:
        GeographyError: see `text_column`.
    """
    if isinstance(values, Geocodes):
        return values
    text = text_column(values, f"geocodes of {geolevel}")
    # With nulls the order says nothing, and a search in it could miss what is there.
    if text.null_count() == 0 and text.is_sorted():
        text = text.set_sorted()
    return Geocodes(text)
