"""The spine: a tree of geounits, stored in columns."""

import hashlib
import json
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.errors import GeographyError
from tallyveil.geography.columns import TextColumn, text_column
from tallyveil.geography.geocodes import Geocodes, geocodes_of

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
