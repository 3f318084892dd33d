"""A spine as a Parquet file: one row for each finest geounit, and one column of geocodes for each geolevel."""

import json
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl

from tallyveil.errors import GeographyError, StoreError
from tallyveil.exact import fraction_of
from tallyveil.geography.build import spine_from_columns
from tallyveil.geography.shares import GeounitShares
from tallyveil.geography.spine import Spine
from tallyveil.storage.published import names_of_tag, published_tags
from tallyveil.storage.read import (
    UNREADABLE,
    collect,
    parquet_columns,
    parquet_metadata,
    require_text,
    scan_table,
)
from tallyveil.storage.write import write_parquet

# Columns of shares and of geocodes stand side by side; no geolevel's name may begin so (`schema.names`).
SHARE = "share."
GEOLEVELS_TAG = "tallyveil.geolevels"
AIMED_TAG = "tallyveil.aimed"


def write_spine(
    path: Path, spine: Spine, shares: GeounitShares | None = None, aimed: Sequence[str] = ()
) -> None:
    """Write a spine, with the exact share of every geounit if shares are given.

    The columns are the geolevels, root first. Shares are in columns `share.<geolevel>`, as text such as "104/4099". The
    file's metadata lists the families and geolevels (`aimed`) for which the groups were chosen.

    Raises:
        StoreError: the file cannot be written.
    """
    # Each geocode is repeated for every finest geounit below it; dictionary encoding makes that cheap in Parquet.
    columns = [
        codes.text.gather(spine.ancestors(level)).alias(spine.geolevels[level])
        for level, codes in enumerate(spine.geocodes)
    ]
    if shares is not None:
        columns += [
            share_texts(shares, level).gather(spine.ancestors(level)).alias(SHARE + name)
            for level, name in enumerate(spine.geolevels)
        ]
    write_parquet(
        path,
        pl.DataFrame(columns),
        {"geolevels": json.dumps(list(spine.geolevels)), "aimed": json.dumps(list(aimed))},
    )


def read_spine_file(path: Path) -> tuple[Spine, GeounitShares | None]:
    """Read a spine and its shares; the shares are None if the file has none.

    Raises:
        StoreError: the file is missing or unreadable, or is not a spine.
        GeographyError: the geounits do not form a tree, or a geounit has two shares.
    """
    names = _geolevels(path)
    frame = scan_table(path, names, "spine")
    for name in names:
        require_text(frame, name, path, "spine")
    # All or none: a file with the shares of some geolevels only is read as one without shares.
    shares_given = all(SHARE + name in parquet_columns(path) for name in names)
    wanted = [*names, *(SHARE + name for name in names if shares_given)]
    table = collect(scan_table(path, wanted, "spine"), path, "spine")
    spine = spine_from_columns({name: table[name] for name in names}, names)
    if not shares_given:
        return spine, None
    # The rows of a file may have been reordered by other programs; shares are put back into the spine's order.
    rows = spine.locate(spine.finest, table[names[-1]])
    order = np.empty(len(rows), dtype=np.int64)
    order[rows] = np.arange(len(rows))
    return spine, shares_of_columns(spine, [table[SHARE + name].gather(order) for name in names])


def read_aimed(path: Path) -> tuple[str, ...]:
    """Families and geolevels for which the groups of a spine were chosen; empty for other spines.

    Raises:
        StoreError: the file is missing or unreadable, or is not a spine.
    """
    _geolevels(path)
    return names_of_tag(path, published_tags(path).get(AIMED_TAG, "[]"))


def share_texts(shares: GeounitShares, level: int) -> pl.Series:
    """Share of every geounit of a geolevel as text, such as "104/4099"."""
    texts = pl.Series([str(value) for value in shares.values], dtype=pl.String)
    return texts.gather(shares.positions[level])


def shares_of_columns(spine: Spine, columns: Sequence[pl.Series]) -> GeounitShares:
    """Shares from one column for each geolevel, root first, with one text for each finest geounit in the spine's order.

    Raises:
        GeographyError: a geounit has two shares, or a text is not an exact fraction.
    """
    # The same fraction can be written in two ways, such as 1/2 and 2/4: compare values, not texts.
    texts = sorted({text for column in columns for text in column.unique().to_list()})
    values = sorted({_fraction(text) for text in texts})
    place = {text: values.index(_fraction(text)) for text in texts}
    positions = []
    for level, column in enumerate(columns):
        number = column.replace_strict(place, return_dtype=pl.Int32).to_numpy()
        starts = spine.finest_offsets(level)[:-1]
        # A share is of a geounit, but is stored for each of its finest geounits: all copies must agree.
        if not np.array_equal(np.minimum.reduceat(number, starts), np.maximum.reduceat(number, starts)):
            raise GeographyError(
                f"a geounit of {spine.geolevels[level]} has two shares in the file of the spine. Write one share for "
                "each geounit."
            )
        positions.append(number[starts])
    return GeounitShares(tuple(values), tuple(positions))


def _fraction(text: str | None) -> Fraction:
    number = None if text is None else fraction_of(text)
    if number is None:
        raise GeographyError(
            f"a share in the spine's file is {text!r:.80}; wanted an exact fraction as text, such as '104/4099'."
        )
    return number


# Without the tag the columns could be any table's, and their order says nothing about their geolevels.
def _geolevels(path: Path) -> tuple[str, ...]:
    if not path.is_file():
        raise StoreError(
            f"the spine file {path} does not exist. Make it with `tallyveil spine build`, or correct the path.",
            code="input-missing",
        )
    try:
        stored_names = parquet_metadata(path).get(GEOLEVELS_TAG)
    except UNREADABLE:
        stored_names = None
    if stored_names is None:
        raise StoreError(
            f"{path} is not the file of a spine: it does not name its geolevels. Make such a file with `tallyveil "
            "spine build`.",
            code="input-unreadable",
        )
    return names_of_tag(path, stored_names)
