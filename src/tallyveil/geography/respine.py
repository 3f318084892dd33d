"""Make a spine of other geounits over the same finest ones."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.errors import GeographyError
from tallyveil.geography.build import spine_from_columns
from tallyveil.geography.spine import Spine


@dataclass(frozen=True, slots=True, eq=False)
class Reshaped:
    """A spine made from another, over the same finest geounits with the same geocodes.

    Attributes:
        spine: The new spine.
        rows: Row, on the spine it was made from, of each finest geounit; read-only.
    """

    spine: Spine
    rows: Integers


@dataclass(frozen=True, slots=True, eq=False)
class DraftLevel:
    """One geolevel of a spine to be.

    Attributes:
        name: Geolevel.
        codes: Geocode of each geounit, each once.
        geounit_of: Geounit of each finest geounit, numbered as `codes`; shape (n_finest,).
    """

    name: str
    codes: pl.Series
    geounit_of: Integers


def draft_levels(spine: Spine) -> list[DraftLevel]:
    """The spine's geolevels above the finest, root first, to be changed and handed to `reshape`."""
    return [draft_level(spine, level) for level in range(spine.finest)]


def draft_level(spine: Spine, level: int) -> DraftLevel:
    """One geolevel of the spine as it is."""
    return DraftLevel(spine.geolevels[level], geocode_series(spine, level), spine.ancestors(level))


def geocode_series(spine: Spine, level: int) -> pl.Series:
    """Geocodes of a geolevel as polars text."""
    return spine.geocodes[level].text


def numbered_codes(containers: pl.Series, container_of: Integers) -> pl.Series:
    """Geocodes of groups: that of what holds them, a dot, and a number from 1 on, padded so that text sorts.

    Args:
        containers: Geocodes of what holds the groups.
        container_of: What holds each group; never falls.
    """
    first = np.searchsorted(container_of, np.arange(len(containers)))
    number = np.arange(len(container_of)) - first[container_of] + 1
    width = len(str(int(number.max(initial=1))))
    text = pl.Series(number).cast(pl.String).str.zfill(width)
    return containers.gather(container_of) + "." + text


def respine(spine: Spine, above: Sequence[DraftLevel]) -> tuple[Reshaped, tuple[Integers, ...]]:
    """The spine of the drafted geolevels over the finest geounits of a spine.

    Args:
        spine: Gives the finest geolevel.
        above: All other geolevels, root first; each geounit must lie in one of the geolevel above.
    Returns:
        The new spine; and, for each drafted geolevel, the drafted number of each of its geounits.

    Raises:
        GeographyError: two geounits of a geolevel have the same geocode, a geolevel is named twice, or a
            geounit would lie in two of the geolevel above.
    """
    finest = spine.geolevels[-1]
    names = (*(draft.name for draft in above), finest)
    for draft in above:
        _refuse_repeated_codes(draft)
    columns = {draft.name: draft.codes.gather(draft.geounit_of) for draft in above}
    # A name given twice is left for the builder to refuse: the columns hold it once, the names twice.
    made = spine_from_columns({**columns, finest: geocode_series(spine, spine.finest)}, names)
    rows = spine.locate(spine.finest, geocode_series(made, made.finest))
    rows.flags.writeable = False
    numbers = tuple(
        draft.geounit_of[rows[made.finest_offsets(level)[:-1]]] for level, draft in enumerate(above)
    )
    return Reshaped(made, rows), numbers


def first_appearance(labels: NDArray[np.int64]) -> tuple[Integers, Integers]:
    """Number labels from 0 in the order in which they first appear.

    Returns:
        The number of each element, and the first element of each number.
    """
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.arange(len(order), dtype=np.int64)
    return number[inverse.reshape(-1)], first[order].astype(np.int64, copy=False)


def _refuse_repeated_codes(draft: DraftLevel) -> None:
    repeated = draft.codes.filter(draft.codes.is_duplicated())
    if len(repeated):
        raise GeographyError(
            f"two geounits of {draft.name} would have the geocode '{repeated.sort()[0]}'. Rename the one of the "
            "given spine that has it already, or give the new branch or geolevel another name.",
            code="geocode-clash",
        )
