"""The spine: a tree of geounits, stored in columns of geocodes, and exact budget shares of its geounits.

Geocodes are stored as polars text Series, because polars sorts and joins text several times faster than
numpy does. `Geocodes` wraps the Series of one geolevel: it is read-only and can be indexed like an array.
Eight million block geocodes of 15 digits take 31 bytes each here (a 16-byte view and the digits), compared
with 60 in numpy's fixed-width text. Tables and joins use them without a copy.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, TypeAlias, TypeVar, overload

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.errors import BudgetError, GeographyError
from tallyveil.exact import as_given

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
    # One query for both, since preparing a query takes longer than a look at few geocodes.
    texts = pl.first().str
    has_nul, longest = (
        column.to_frame()
        .select(nul=texts.contains("\0", literal=True).any(), longest=texts.len_chars().max())
        .row(0)
    )
    # NUL ends geocodes in the digest of a spine and pads them for sorting, so that it can be in none.
    if has_nul:
        raise GeographyError(
            f"{where}: a geocode holds the character NUL, which a text file cannot hold. Remove the character from "
            "the table."
        )
    if _as_int(longest) > LONGEST_GEOCODE:
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


# Geocodes that are joined into one text at a time, about 1 MB for blocks of 15 digits. The digest does not depend on
# it. Half as many mean twice as many calls, and twice as many twice the memory.
_DIGEST_CHUNK = 1 << 16
_Scalar = TypeVar("_Scalar", bound=np.generic)


@dataclass(frozen=True, slots=True, eq=False)
class Spine:
    """A hierarchy of geounits, root first, stored in a few arrays for each geolevel.

    The geounits of a geolevel are numbered from 0, in depth-first order. The children of geounit `g` of level `i` are
    rows `child_offsets[i][g]:child_offsets[i][g + 1]` of level `i + 1`. The builders sort siblings by geocode (by code
    point). So the finest geounits of any geounit are contiguous too. There may be several roots. Every geounit above
    the finest level has at least one child.

    Build a spine with `spine_from_prefixes` or `spine_from_columns`. Two spines are equal if their digests are equal.

    Attributes:
        geolevels: Names, root first, each once.
        geocodes: For each geolevel, the geocode of every geounit, unique within the geolevel. Any column of text may be
            given.
        child_offsets: One read-only int64 array of shape (n_geounits + 1,) for every geolevel except the finest.
    """

    geolevels: tuple[str, ...]
    geocodes: tuple[Geocodes, ...]
    child_offsets: tuple[NDArray[np.int64], ...]

    def __post_init__(self) -> None:
        n_levels = len(self.geolevels)
        if n_levels == 0 or len(self.geocodes) != n_levels or len(self.child_offsets) != n_levels - 1:
            raise GeographyError(
                f"a spine of {n_levels} geolevels got {len(self.geocodes)} arrays of geocodes and "
                f"{len(self.child_offsets)} of child offsets; wanted {n_levels} and {max(n_levels - 1, 0)}. "
                "Build it with spine_from_prefixes or spine_from_columns."
            )
        for level, offsets in enumerate(self.child_offsets):
            self._check_offsets(level, offsets)
        codes = zip(self.geocodes, self.geolevels, strict=True)
        object.__setattr__(self, "geocodes", tuple(geocodes_of(text, level) for text, level in codes))
        object.__setattr__(self, "child_offsets", tuple(_read_only(array) for array in self.child_offsets))

    def _check_offsets(self, level: int, offsets: NDArray[np.int64]) -> None:
        above, below = len(self.geocodes[level]), len(self.geocodes[level + 1])
        sound = (
            # Compiled code reads these arrays by position without a check of its own.
            offsets.dtype == np.int64
            and offsets.shape == (above + 1,)
            and offsets[0] == 0
            and offsets[-1] == below
            # Strictly: a geounit without children would have no finest geounit, and `reduceat` gives wrong values for
            # it.
            and bool(np.all(offsets[1:] > offsets[:-1]))
        )
        if not sound:
            raise GeographyError(
                f"child offsets of geolevel {self.geolevels[level]} must be {above + 1} int64 values that "
                f"rise strictly from 0 to {below}, the number of geounits below. "
                "Build the spine with spine_from_prefixes or spine_from_columns."
            )

    @property
    def n_levels(self) -> int:
        """Number of geolevels."""
        return len(self.geolevels)

    @property
    def finest(self) -> int:
        """Index of the finest geolevel."""
        return len(self.geolevels) - 1

    def level_index(self, name: str) -> int:
        """Index of the geolevel with a given name.

        Raises:
            GeographyError: there is no such geolevel.
        """
        if name not in self.geolevels:
            raise GeographyError(
                f"there is no geolevel '{name}' in the spine; it has {', '.join(self.geolevels)}. Use one of these "
                "names."
            )
        return self.geolevels.index(name)

    def n_geounits(self, level: int) -> int:
        """Number of geounits of a geolevel."""
        return len(self.geocodes[level])

    def parents(self, level: int) -> NDArray[np.int64]:
        """For each geounit, the index of its parent in the geolevel above; shape (n_geounits(level),).

        Raises:
            GeographyError: the root geolevel has no parents.
        """
        if level == 0:
            raise GeographyError(
                f"geounits of {self.geolevels[0]} are roots and have no parent. Ask for a level of 1 or more."
            )
        offsets = self.child_offsets[level - 1]
        # Rows of one parent are neighbours, so that parents need not be stored: 8 bytes a block are saved.
        return np.repeat(np.arange(len(offsets) - 1, dtype=np.int64), np.diff(offsets))

    def finest_offsets(self, level: int) -> NDArray[np.int64]:
        """Start of each geounit's finest geounits; shape (n_geounits(level) + 1,).

        The finest geounits of geounit `g` are rows `offsets[g]:offsets[g + 1]` of the finest geolevel.
        """
        offsets = np.arange(self.n_geounits(level) + 1, dtype=np.int64)
        # Offsets of offsets: where the children begin, then where theirs begin, down to the finest geolevel.
        for lower in self.child_offsets[level:]:
            offsets = lower[offsets]
        return offsets

    def ancestors(self, level: int) -> NDArray[np.int64]:
        """For each finest geounit, the index of the geounit of a geolevel that contains it.

        The array has shape (n_geounits(finest),).
        """
        return np.repeat(
            np.arange(self.n_geounits(level), dtype=np.int64), np.diff(self.finest_offsets(level))
        )

    def locate(self, level: int, geocodes: TextColumn) -> NDArray[np.int64]:
        """Index of each geocode in a geolevel, in the order asked; -1 for a null or a geocode that does not exist.

        Equal geocodes that follow each other are looked up once, by a hash join with the part of the geolevel that can
        contain them. Look many geocodes up in one call rather than one by one. Sorted geocodes may be divided over
        several calls to save memory.

        Raises:
            GeographyError: the geocodes are not text.
        """
        wanted = text_column(geocodes, f"geocodes to find in {self.geolevels[level]}")
        if len(wanted) == 0:
            return np.empty(0, dtype=np.int64)
        # A table sorted by geocode at a coarse geolevel has long runs, so that few texts are joined.
        runs = wanted.rle().struct.unnest()
        first, known = self._candidates(level, runs["value"])
        rows = pl.int_range(first, first + len(known), eager=True).alias("row")
        located = runs.join(
            pl.DataFrame([known.alias("value"), rows]), on="value", how="left", maintain_order="left"
        )
        # -1 for what the join did not find; callers decide whether that is an error.
        return np.repeat(located["row"].fill_null(-1).to_numpy(), runs["len"].to_numpy()).astype(
            np.int64, copy=False
        )

    def _candidates(self, level: int, wanted: pl.Series) -> tuple[int, pl.Series]:
        """A part of a geolevel that contains every wanted geocode that exists, and its start."""
        codes = self.geocodes[level]
        smallest, largest = wanted.min(), wanted.max()
        # Without an order, or if all are null, there are no ends between which to search.
        if not codes.rises or smallest is None:
            return 0, codes.text
        ends = pl.Series([smallest, largest], dtype=pl.String)
        start = codes.text.search_sorted(ends[:1], side="left")[0]
        stop = codes.text.search_sorted(ends[1:], side="right")[0]
        return start, codes.text.slice(start, stop - start)

    def digest(self) -> bytes:
        """SHA-256 of the spine's names, geocodes and offsets.

        It does not depend on the order of the rows that the spine was built from, or on an array's byte order or width.
        """
        # The number in this line is the version of the digest. A change of what follows needs a new one.
        digest = hashlib.sha256(b"tallyveil spine 1\n")
        sizes = [self.n_geounits(level) for level in range(self.n_levels)]
        header = json.dumps([list(self.geolevels), sizes], ensure_ascii=True, separators=(",", ":"))
        digest.update(header.encode("ascii") + b"\n")
        for codes in self.geocodes:
            for start in range(0, len(codes), _DIGEST_CHUNK):
                # NUL ends every geocode and can be in no geocode, so different spines never write the same bytes.
                chunk = codes.text.slice(start, _DIGEST_CHUNK).str.join("\0").item()
                digest.update(chunk.encode("utf-8") + b"\0")
        for offsets in self.child_offsets:
            # Little-endian by name, so that machines of either byte order give one digest.
            digest.update(offsets.astype("<i8", copy=False).tobytes())
        return digest.digest()

    def __repr__(self) -> str:
        sizes = ", ".join(
            f"{name}: {len(codes)}" for name, codes in zip(self.geolevels, self.geocodes, strict=True)
        )
        return f"Spine({sizes})"


def _read_only(array: NDArray[_Scalar]) -> NDArray[_Scalar]:
    view = array.view()
    view.flags.writeable = False
    return view


@dataclass(frozen=True, slots=True, eq=False)
class GeounitShares:
    """Share of the budget of every geounit of a spine, as exact fractions.

    A geounit with share 0 is not measured. Only a few different fractions occur, so each geounit stores only the
    position of its share in a list.

    Attributes:
        values: The different shares, increasing.
        positions: For each geolevel, the position in `values` of each geounit's share; read-only int32.

    Raises:
        BudgetError: a share is below 0, the values do not increase, or a position has no value.
    """

    values: tuple[Fraction, ...]
    positions: tuple[NDArray[np.int32], ...]

    def __post_init__(self) -> None:
        # Rising values give each share one position, so that equal shares can be compared by position.
        exact = all(isinstance(value, Fraction) and value >= 0 for value in self.values)
        if not exact or any(a >= b for a, b in zip(self.values, self.values[1:], strict=False)):
            raise BudgetError(
                f"shares of geounits are {', '.join(map(str, self.values[:9]))}; wanted Fractions of 0 or more in "
                "rising order. Build them with uniform_shares or bypass."
            )
        read_only = []
        for array in self.positions:
            if len(array) and not 0 <= int(array.min()) <= int(array.max()) < len(self.values):
                raise BudgetError(
                    f"a geounit's share is at a position outside the {len(self.values)} shares. "
                    "Build them with uniform_shares or bypass."
                )
            # A view, not the caller's array: making that one read-only would change an object that is not ours.
            view = array.astype(np.int32, copy=False).view()
            view.flags.writeable = False
            read_only.append(view)
        object.__setattr__(self, "positions", tuple(read_only))

    def share(self, level: int, geounit: int) -> Fraction:
        """Share of one geounit."""
        return self.values[int(self.positions[level][geounit])]

    def measured(self, level: int) -> NDArray[np.bool_]:
        """Whether each geounit of a geolevel has a share above 0; shape (n_geounits,)."""
        above = np.array([value > 0 for value in self.values], dtype=np.bool_)
        return above[self.positions[level]]

    def tally(self, level: int) -> dict[Fraction, int]:
        """Number of geounits of a geolevel with each share, smallest share first."""
        counts = np.bincount(self.positions[level], minlength=len(self.values)).tolist()
        return {value: count for value, count in zip(self.values, counts, strict=True) if count}


def uniform_shares(spine: Spine, shares: Mapping[str, Fraction]) -> GeounitShares:
    """Shares that are equal for all geounits of a geolevel.

    Args:
        spine: The spine.
        shares: Share of each geolevel, above 0. Their sum must be exactly 1.

    Raises:
        BudgetError: a geolevel is missing or unknown, a share is not a Fraction above 0, or the sum is not 1.
    """
    if set(shares) != set(spine.geolevels):
        raise BudgetError(
            f"shares are given for {', '.join(shares) or 'no geolevel'}; wanted one for each of "
            f"{', '.join(spine.geolevels)}. Give every geolevel of the spine a share, and no other."
        )
    for geolevel, share in shares.items():
        if not isinstance(share, Fraction) or share <= 0:
            raise BudgetError(
                f"share of {geolevel} is {as_given(share)}; wanted a Fraction above 0. Leave out of the spine a "
                "geolevel that is not measured."
            )
    total = sum(shares.values(), Fraction(0))
    # Exact fractions: with floats a sum of 1 could not be told from a sum just above it, which would overspend.
    if total != 1:
        raise BudgetError(
            f"shares of the geolevels sum to {total}; wanted 1. Change them so that they sum to exactly 1."
        )
    values = tuple(sorted(set(shares.values())))
    return GeounitShares(
        values,
        tuple(
            np.full(spine.n_geounits(level), values.index(shares[name]), dtype=np.int32)
            for level, name in enumerate(spine.geolevels)
        ),
    )


def distinct_pairs(first: Integers, second: NDArray[np.int32], width: int) -> tuple[Integers, Integers]:
    """The different pairs of small numbers, encoded as first * width + second, and each entry's position among them.

    The result is that of np.unique with return_inverse=True, without sorting millions of entries.
    """
    # Both numbers are below the number of different shares or sums, so that bincount needs little memory.
    pair = first * width + second
    there = np.bincount(pair) > 0
    return np.flatnonzero(there), (np.cumsum(there) - 1)[pair]


def path_total(spine: Spine, shares: GeounitShares) -> Fraction:
    """The sum of shares along a path from a root to a finest geounit, after a check that all paths have the same sum.

    By parallel composition, disjoint geounits can use the same budget. So a spine costs what its most expensive path
    sums to. If all paths have the same sum, no budget is wasted.

    Raises:
        BudgetError: the shares belong to another spine, or two paths have different sums.
    Source: Cumings-Menon et al. 2023, Theorem 3.
    """
    sizes = tuple(len(array) for array in shares.positions)
    if sizes != tuple(spine.n_geounits(level) for level in range(spine.n_levels)):
        raise BudgetError(
            f"shares for {', '.join(map(str, sizes))} geounits by geolevel do not fit the spine {spine!r}. Use the "
            "shares that were made with this spine."
        )
    # The sums so far, as positions in this list; the list stays as short as the number of different sums.
    sums: list[Fraction] = [Fraction(0)]
    sum_of: Integers = np.zeros(spine.n_geounits(0), dtype=np.int64)
    for level in range(spine.n_levels):
        above = sum_of if level == 0 else sum_of[spine.parents(level)]
        # Only few different pairs (sum so far, share here) occur, and only those are added as fractions.
        pairs, index = distinct_pairs(above, shares.positions[level], len(shares.values))
        added = [
            sums[pair // len(shares.values)] + shares.values[pair % len(shares.values)]
            for pair in pairs.tolist()
        ]
        sums = sorted(set(added))
        place = np.array([sums.index(value) for value in added], dtype=np.int64)
        sum_of = place[index]
    if len(sums) > 1:
        low, high = int(np.argmin(sum_of)), int(np.argmax(sum_of))
        codes = spine.geocodes[-1]
        raise BudgetError(
            f"shares sum to {sums[0]} on the path to {spine.geolevels[-1]} '{codes[low]}' and to {sums[-1]} on the "
            f"path to '{codes[high]}'. The shares on every path from the root must have the same sum. If a geounit "
            "gives up its share, give that share to each of its children.",
            code="unequal-paths",
        )
    return sums[0]
