"""Makes a spine with other geounits over the same finest geounits.

Problem. A step of an optimisation assigns every finest geounit to new geounits at each geolevel above the finest. The
tree of these geounits is wanted, in the canonical order of a spine (depth first, siblings sorted by geocode).

Steps. Each drafted geolevel becomes a column with the geocode of every finest geounit. `spine_from_columns` builds the
spine from these columns and checks that every geounit has one parent. Then the finest geounits are located on the given
spine, which tells how the order of the rows changed.

Worked case. Blocks 1, 2, 3 are in tract A. A draft puts blocks 1 and 3 into group A.1, and block 2 into group A.2. The
columns are (A, A, A), (A.1, A.2, A.1) and (1, 2, 3). The new order of blocks is 1, 3, 2, so `rows` is (0, 2, 1).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.errors import GeographyError
from tallyveil.geography.build import spine_from_columns
from tallyveil.geography.spine import Spine


@dataclass(frozen=True, slots=True, eq=False)
class Reshaped:
    """A spine made from another one, over the same finest geounits with the same geocodes.

    Attributes:
        spine: The new spine.
        rows: For each finest geounit, its row on the spine that this one was made from; read-only.
    """

    spine: Spine
    rows: Integers


@dataclass(frozen=True, slots=True, eq=False)
class DraftLevel:
    """One geolevel of a spine that is to be made.

    Attributes:
        name: Name of the geolevel.
        codes: Geocode of each geounit, each once.
        geounit_of: For each finest geounit, its geounit, as an index into `codes`; shape (n_finest,).
    """

    name: str
    codes: pl.Series
    geounit_of: Integers


def draft_levels(spine: Spine) -> list[DraftLevel]:
    """The spine's geolevels above the finest, root first, to be changed and given to `respine`."""
    return [draft_level(spine, level) for level in range(spine.finest)]


def draft_level(spine: Spine, level: int) -> DraftLevel:
    """One unchanged geolevel of the spine, as a draft."""
    return DraftLevel(spine.geolevels[level], geocode_series(spine, level), spine.ancestors(level))


def geocode_series(spine: Spine, level: int) -> pl.Series:
    """Geocodes of a geolevel as polars text."""
    return spine.geocodes[level].text


def numbered_codes(containers: pl.Series, container_of: Integers) -> pl.Series:
    """Geocodes of groups: the container's geocode, a dot, and a number from 1, padded with zeros so that text sorts.

    Args:
        containers: Geocodes of the containers.
        container_of: Container of each group; must not decrease.
    """
    # The containers do not decrease, so that a binary search finds where each one's groups begin.
    first = np.searchsorted(container_of, np.arange(len(containers)))
    number = np.arange(len(container_of)) - first[container_of] + 1
    # One width for the whole geolevel: "2" must sort before "10", and `spine_from_columns` sorts as text.
    width = len(str(int(number.max(initial=1))))
    text = pl.Series(number).cast(pl.String).str.zfill(width)
    return containers.gather(container_of) + "." + text


def respine(spine: Spine, above: Sequence[DraftLevel]) -> tuple[Reshaped, tuple[Integers, ...]]:
    """Make the spine of the drafted geolevels over the finest geounits of a given spine.

    Args:
        spine: The given spine, whose finest geolevel is kept.
        above: All other geolevels, root first. Each geounit must lie in one geounit of the geolevel above.
    Returns:
        The new spine; and, for each drafted geolevel, the index in the draft of each geounit of the new spine.

    Raises:
        GeographyError: two geounits of a geolevel have the same geocode, a geolevel is named twice, or a geounit would
            lie in two geounits of the geolevel above.
    """
    finest = spine.geolevels[-1]
    names = (*(draft.name for draft in above), finest)
    for draft in above:
        _refuse_repeated_codes(draft)
    columns = {draft.name: draft.codes.gather(draft.geounit_of) for draft in above}
    # The builder refuses a repeated name: the dictionary holds it once, but `names` holds it twice.
    reshaped = spine_from_columns({**columns, finest: geocode_series(spine, spine.finest)}, names)
    # The finest geocodes are unique, so that they say where each row was before.
    rows = spine.locate(spine.finest, geocode_series(reshaped, reshaped.finest))
    rows.flags.writeable = False
    numbers = tuple(
        # Every geounit of the new spine lies in one of the draft, and so its first finest geounit tells which.
        draft.geounit_of[rows[reshaped.finest_offsets(level)[:-1]]]
        for level, draft in enumerate(above)
    )
    return Reshaped(reshaped, rows), numbers


def first_appearance(labels: Integers) -> tuple[Integers, Integers]:
    """Number labels from 0 in the order of their first appearance.

    Returns:
        The number of each element; and, for each number, the position of its first element.
    """
    # np.unique numbers by value; the order of first appearance is independent of how labels were made.
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.arange(len(order), dtype=np.int64)
    return number[inverse.reshape(-1)], first[order].astype(np.int64, copy=False)


def _refuse_repeated_codes(draft: DraftLevel) -> None:
    repeated = draft.codes.filter(draft.codes.is_duplicated())
    if len(repeated):
        raise GeographyError(
            f"two geounits of {draft.name} would have the geocode '{repeated.sort()[0]}'. Rename the geounit of the "
            "given spine that already has it, or give the new branch or geolevel another name.",
            code="geocode-clash",
        )
