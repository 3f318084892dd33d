"""Builds a spine from a table of the finest geounits, and makes another spine over the same finest geounits.

Both forms of input sort the rows by their path from the root. The rows of a geounit of any geolevel are then
contiguous, and its parent is the geounit of the level above whose rows contain them. The result does not
depend on the order of the given rows.

A step of an optimisation assigns every finest geounit to new geounits at each geolevel above the finest
(`respine`). Each drafted geolevel becomes a column with the geocode of every finest geounit.
`spine_from_columns` builds the spine from these columns and checks that every geounit has one parent. Then
the finest geounits are located on the given spine, which tells how the order of the rows changed. For
example, blocks 1, 2, 3 are in tract A, and a draft puts blocks 1 and 3 into group A.1, and block 2 into group
A.2. The columns are (A, A, A), (A.1, A.2, A.1) and (1, 2, 3). The new order of blocks is 1, 3, 2, so `rows`
is (0, 2, 1).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.errors import GeographyError
from tallyveil.geography.spine import (
    LONGEST_GEOCODE,
    Geocodes,
    Spine,
    TextColumn,
    geocodes_of,
    row_order,
    text_column,
)
from tallyveil.printable import present_columns, short_name, some_names


def spine_from_prefixes(geocodes: TextColumn, geolevels: Sequence[str], lengths: Sequence[int]) -> Spine:
    """Spine whose geounits are given by prefixes of the finest geocode.

    Args:
        geocodes: Finest geocodes, each once, in any order, all of the same length.
        geolevels: Names, root first.
        lengths: Number of characters of the prefix at each geolevel. Lengths must increase, and the last is the length
            of the whole geocode. The first may be 0: then one root contains everything, and its geocode is the
            geolevel's name.

    Raises:
        GeographyError: there are no rows, names are repeated, lengths do not increase or do not fit the geocodes, or a
            geocode is null, empty or repeated.
    """
    names = _checked_names(geolevels)
    _check_lengths(names, lengths)
    column = text_column(geocodes, f"geocodes of {names[-1]}")
    _refuse_missing(names[-1], column)
    _check_whole_length(names, lengths, column)
    ordered = (column if column.is_sorted() else column.sort()).set_sorted()
    # Sorted text compares neighbours alone; polars uses the flag in later joins.
    _refuse_duplicates(names[-1], ordered, ~_differs_from_above(ordered))
    prefixes = (
        ordered.str.slice(0, length)
        if length
        else pl.repeat(names[0], len(ordered), dtype=pl.String, eager=True)
        for length in lengths
    )
    return _spine_of_paths(names, prefixes)


def spine_from_columns(columns: Mapping[str, TextColumn], geolevels: Sequence[str]) -> Spine:
    """Spine given by one column of geocodes for each geolevel. Geocodes may have different lengths.

    Args:
        columns: For each geolevel name, the geocode at that geolevel of every finest geounit. There is one row for each
            finest geounit, in any order. Other columns are ignored.
        geolevels: Names, root first and finest last.

    Raises:
        GeographyError: there are no rows, names are repeated, a column is missing or has another length, a geocode is
            null or empty, a finest geocode is repeated, or a geounit has two parents.
    """
    names = _checked_names(geolevels)
    missing = [name for name in names if name not in columns]
    if missing:
        raise GeographyError(
            f"there is no column for geolevel {some_names(missing)}. {present_columns(tuple(columns), names)} Give one "
            "column of geocodes, named after the geolevel, for every geolevel."
        )
    given = {name: text_column(columns[name], f"column {name}") for name in names}
    sizes = {name: len(column) for name, column in given.items()}
    if len(set(sizes.values())) > 1:
        shown = ", ".join(f"{name} has {size}" for name, size in sizes.items())
        raise GeographyError(
            f"the columns of the geography table differ in length: {shown} rows. "
            "Give every finest geounit one row with a geocode at every geolevel."
        )
    for name, column in given.items():
        _refuse_missing(name, column)
    paths = pl.DataFrame(given)
    # Most files are sorted already, and a check costs less than a sort of all columns.
    if not _in_order(paths):
        paths = paths[row_order([given[name] for name in names])]
    _refuse_duplicates(names[-1], paths[names[-1]], _repeats_row_above(paths))
    return _spine_of_paths(names, (paths[name] for name in names))


def _spine_of_paths(names: tuple[str, ...], columns: Iterable[pl.Series]) -> Spine:
    """Build the tree from rows sorted by path. The columns come root first, one at a time, to save memory."""
    geocodes: list[Geocodes] = []
    child_offsets: list[NDArray[np.int64]] = []
    starts_here: NDArray[np.bool_] | None = None
    starts_above: NDArray[np.int64] | None = None
    codes_above: pl.Series | None = None
    for name, column in zip(names, columns, strict=True):
        changes = _differs_from_above(column)
        # A geounit also starts wherever its parent starts, even if the geocode does not change there.
        starts_here = changes if starts_here is None else starts_here | changes
        starts = np.flatnonzero(starts_here).astype(np.int64, copy=False)
        # At the finest geolevel every row begins a geounit.
        codes = column if len(starts) == len(column) else column[starts]
        if starts_above is not None and codes_above is not None:
            # Where a parent starts, one of its children starts too: the search finds each start exactly.
            offsets = np.append(np.searchsorted(starts, starts_above), len(starts)).astype(
                np.int64, copy=False
            )
            _refuse_two_parents(name, codes, codes_above, offsets)
            child_offsets.append(offsets)
        geocodes.append(geocodes_of(codes, name))
        starts_above, codes_above = starts, codes
    return Spine(names, tuple(geocodes), tuple(child_offsets))


def _checked_names(geolevels: Sequence[str]) -> tuple[str, ...]:
    names = tuple(geolevels)
    if not names or not all(names):
        raise GeographyError(
            f"geolevels are {list(names)}; wanted at least one name, none of them empty. "
            "Name every geolevel, root first."
        )
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise GeographyError(
            f"geolevel {', '.join(repeated)} is named more than once in {', '.join(names)}. "
            "Give every geolevel its own name."
        )
    return names


def _check_lengths(names: tuple[str, ...], lengths: Sequence[int]) -> None:
    if len(lengths) != len(names):
        raise GeographyError(
            f"there are {len(names)} geolevels ({', '.join(names)}) but {len(lengths)} prefix lengths. "
            "Give one length for every geolevel, root first."
        )
    if lengths[-1] > LONGEST_GEOCODE:
        raise GeographyError(
            f"the last prefix length is {str(lengths[-1])[:20]}; no geocode has more than {LONGEST_GEOCODE} "
            "characters. Give the number of characters of a whole geocode."
        )
    rises = all(shorter < longer for shorter, longer in pairwise(lengths))
    if lengths[0] < 0 or lengths[-1] < 1 or not rises:
        raise GeographyError(
            f"the prefix lengths of {', '.join(names)} do not rise; they must rise from the root "
            "to the finest geolevel, the first being 0 or more. "
            "Leave out a geolevel that repeats the one above it."
        )


def _check_whole_length(names: tuple[str, ...], lengths: Sequence[int], column: pl.Series) -> None:
    wrong = column.filter(column.str.len_chars() != lengths[-1])
    if len(wrong) == 0:
        return
    example = str(wrong.sort()[0])
    if len(example) < lengths[-1]:
        meaning = "the prefix is longer than the geocode; leading zeros may have been lost on reading"
    else:
        meaning = "the rest of the geocode would be dropped"
    raise GeographyError(
        f"{len(wrong)} geocodes of {names[-1]}, such as '{short_name(example)}', do not have {lengths[-1]} characters: "
        f"{meaning}. Read geocodes as text, make the last length that of the whole geocode, or, where "
        "lengths differ, give each geolevel a column of its own."
    )


def _refuse_missing(name: str, column: pl.Series) -> None:
    if len(column) == 0:
        raise GeographyError(
            f"the geography table has no rows, so geolevel {name} has no geounits. "
            "Give at least one finest geounit."
        )
    # Usually nothing is missing, and this look needs no query.
    if column.null_count() == 0 and not (column == "").any():
        return
    missing = (column.is_null() | (column == "")).fill_null(True).arg_true()
    if len(missing):
        raise GeographyError(
            f"{len(missing)} rows have no geocode at geolevel {name}, the first is row {missing[0]} "
            "(from 0): a geounit below would be an orphan. Fill in the geocode, or leave the row out."
        )


def _refuse_duplicates(name: str, finest: pl.Series, repeats: NDArray[np.bool_]) -> None:
    rows = np.flatnonzero(repeats)
    if len(rows):
        raise GeographyError(
            f"{len(rows)} rows repeat a finest geocode, such as {name} '{finest[int(rows[0])]}'. "
            "Give every finest geounit exactly one row."
        )


def _differs_from_above(column: pl.Series) -> NDArray[np.bool_]:
    """Whether each geocode differs from that in the row above, as the first does. There must be no nulls."""
    # Compared by slices, which are no queries: polars takes longer to prepare a query than to do it for a few rows.
    differs = np.ones(len(column), np.bool_)
    differs[1:] = (column[1:] != column[:-1]).to_numpy()
    return differs


def _repeats_row_above(paths: pl.DataFrame) -> NDArray[np.bool_]:
    same = np.ones(len(paths), np.bool_)
    for column in paths.get_columns():
        same &= ~_differs_from_above(column)
    return same


def _in_order(paths: pl.DataFrame) -> bool:
    """Whether the rows are sorted by the columns, the first column first."""
    # A row is out of order if it is smaller in the first column in which it differs from the row above.
    undecided = np.ones(len(paths) - 1, np.bool_)
    for column in paths.get_columns():
        if (undecided & (column[1:] < column[:-1]).to_numpy()).any():
            return False
        undecided &= ~_differs_from_above(column)[1:]
    return True


def _refuse_two_parents(
    name: str, codes: pl.Series, codes_above: pl.Series, offsets: NDArray[np.int64]
) -> None:
    # Prefixes and most tables give geocodes that increase over the whole geolevel, and then none can repeat.
    if (codes[1:] > codes[:-1]).all() or codes.n_unique() == len(codes):
        return
    repeated = codes.filter(codes.is_duplicated())
    geocode = str(repeated.min())
    # The rule that a geocode stands in one place lets tables refer to a geounit by its geocode alone.
    first, second = (codes == geocode).arg_true()[:2].to_list()
    parents = [
        str(codes_above[int(np.searchsorted(offsets, row, side="right")) - 1]) for row in (first, second)
    ]
    raise GeographyError(
        f"{repeated.n_unique()} geounits of {name} have more than one parent: '{geocode}' lies in "
        f"'{parents[0]}' and in '{parents[1]}'. Geocodes must be unique within a geolevel: put the parent's "
        "geocode in front where they restart within each parent, or give the geounit one parent."
    )


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
