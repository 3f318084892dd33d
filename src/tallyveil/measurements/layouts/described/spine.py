"""Makes the spine that was measured from the geocodes of files.

Problem. The files list geocodes by geolevel. A geocode begins with the geocode of its parent, and all geocodes of a
geolevel have the same length; or a table says in which geounits each finest geounit lies. The geounits of the spine of
the Census Bureau are not those of the tabulation geography: States are cut, and block groups are optimised ones. Counts
are published for the tabulation geography. The tree that was measured and the tabulation geography are wanted, with the
same blocks.

Steps. The geocodes of finest geounits give the tree: each geolevel has the prefixes of its length. These prefixes must
be exactly the geocodes that the files list there; otherwise files are missing. A part of a tree may lack what is below
a geounit. This geounit then gets one child at each finer geolevel, of which nothing is measured. Where finest geocodes
end with the 16 digits of tabulation blocks, these give the tabulation geography. A geolevel whose geounits are
those of the tabulation geography gets the tabulation geocodes. Any other geolevel keeps the geocodes of the files.

Worked case. The geocodes 044...4400700010011001 and 144...4400700010011002 of blocks begin with 044 and 144.
These are two geounits at State, parts of the State 44. Both blocks are in the tabulation tract 44007000100.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import polars as pl

from tallyveil.arrays import Bools, Integers
from tallyveil.errors import GeographyError
from tallyveil.geography.areas import Hierarchies, geounits_as_entities, plain_hierarchies
from tallyveil.geography.build import spine_from_columns
from tallyveil.geography.spine import Spine
from tallyveil.measurements.layouts.described.source import GEOCODE, SourceFiles

_BLOCK_DIGITS: Final = 16
"""Digits of a tabulation block with which a block's geocode ends: State 2, county 3, tract 6, block group 1, block
4."""
REST: Final = "~"
"""Ends the geocode of the only child of a geounit whose children the files lack."""
_GEOCODES_SHOWN: Final = 3
"""Geocodes that a message shows as examples."""


@dataclass(frozen=True, slots=True, eq=False)
class SourceSpine:
    """The spine of the files, and how their geocodes are found on it.

    Attributes:
        hierarchies: The spine that was measured and the tabulation geography; no shares yet.
        measured: For each geolevel, whether each geounit has noisy answers.
        lacking: For each geolevel, whether each geounit stands for children that the files lack.
        source: The same tree with the geocodes of the files.
        rows: For each geolevel, the geounit of `hierarchies.spine` that each geounit of `source` is.
    """

    hierarchies: Hierarchies
    measured: tuple[Bools, ...]
    lacking: tuple[Bools, ...]
    source: Spine
    rows: tuple[Integers, ...]

    @property
    def spine(self) -> Spine:
        """The spine that was measured."""
        return self.hierarchies.spine

    def locate(self, level: int, geocodes: pl.Series) -> Integers:
        """Geounit of each geocode of the files; -1 where there is none."""
        return _located(self.source, self.rows[level], level, geocodes)


def read_spine(files: SourceFiles, *, measured_only: bool = False) -> SourceSpine:
    """Make the spine from the geocodes of all tables.

    Args:
        files: The files.
        measured_only: Whether geolevels without noisy answers are left out of the spine.
    Raises:
        GeographyError: geocodes are not nested, or a geounit lacks its parent or its children; a block's geocode does
            not name its tabulation block.
        StoreError: a file cannot be read.
    """
    form, geolevels = files.form, files.geolevels
    if geolevels[-1] != form.finest and not (form.part or measured_only):
        raise _bad_geounits(
            f"{files.root} has no geolevel {form.finest}; it has {', '.join(geolevels)}. The tree of geounits is made "
            f"from the geocodes of {form.finest}. Add the files of the finest geolevel, or give --part, which leaves "
            "unmeasured what the files lack."
        )
    listed, answered = {}, {}
    for name in geolevels:
        codes = {table: _geocodes(files, name, table) for table in form.tables}
        answered[name] = codes[form.tables[0]]
        # Bypassed geounits have constraints and no answers, so that all tables together list all geounits.
        listed[name] = pl.concat(codes.values()).unique().sort()
    if measured_only:
        geolevels = tuple(name for name in geolevels if len(answered[name]))
    if not geolevels:
        raise _bad_geounits(
            f"{files.root} has no noisy answers at any geolevel. Add the files of noisy answers."
        )
    table = files.geography()
    paths = (
        _prefixes(files, geolevels, listed) if table is None else _rows_of(files, geolevels, listed, table)
    )
    lacking: dict[str, pl.Series] = {}
    if form.part and table is None:
        paths, lacking = _with_rest(paths, geolevels, listed)
    source = spine_from_columns({name: paths[name] for name in geolevels}, geolevels)
    hierarchies = _hierarchies(files, paths, source, lacking)
    rows = _rows(source, hierarchies.spine)
    measured, absent = [], []
    for level, name in enumerate(geolevels):
        here = np.zeros(source.n_geounits(level), dtype=np.bool_)
        here[_located(source, rows[level], level, answered[name])] = True
        measured.append(here)
        without = np.zeros(source.n_geounits(level), dtype=np.bool_)
        without[_located(source, rows[level], level, lacking.get(name, pl.Series([], dtype=pl.String)))] = (
            True
        )
        absent.append(without)
    return SourceSpine(hierarchies, tuple(measured), tuple(absent), source, rows)


def tabulation_blocks(geocodes: pl.Series) -> pl.Series:
    """The 15 digits of the tabulation block that each block geocode of the files ends with.

    The files write the number of the block group twice: by itself, and as the first digit of the block.
    """
    block_numbers = geocodes.str.tail(_BLOCK_DIGITS)
    return block_numbers.str.slice(0, 11) + block_numbers.str.slice(12)


def _geocodes(files: SourceFiles, geolevel: str, table: str) -> pl.Series:
    """The different geocodes of a table."""
    frame = files.scan(geolevel, table, [GEOCODE]).unique()
    codes = files.collect(frame, geolevel, table)[GEOCODE]
    if codes.null_count():
        raise _bad_geounits(
            f"{files.place(geolevel, table)} has rows without a geocode. Download the table again."
        )
    return codes


def _prefixes(files: SourceFiles, geolevels: Sequence[str], listed: Mapping[str, pl.Series]) -> pl.DataFrame:
    """The geocode of every listed finest geounit at each geolevel, which is a prefix of its own."""
    lengths = [_length(files, name, listed[name]) for name in geolevels]
    if any(longer <= shorter for shorter, longer in pairwise(lengths)):
        raise _bad_geounits(
            f"geocodes of {', '.join(geolevels)} in {files.root} have {', '.join(map(str, lengths))} characters; "
            "wanted more at each finer geolevel, because a geocode begins with that of its parent. Take all "
            "geolevels from the same product, or name a table of geography under [files]."
        )
    finest = listed[geolevels[-1]]
    for name, length in zip(geolevels[:-1], lengths, strict=False):
        # Prefixes of the finest are the tree; the lists only prove that no file is missing.
        prefixes = finest.str.slice(0, length).unique().sort()
        _require_same(files, name, geolevels[-1], listed[name], prefixes)
    # A root of everything has an empty geocode in the files, and the name of its geolevel in the tree.
    return pl.DataFrame(
        [
            (
                finest.str.slice(0, length)
                if length
                else pl.repeat(name, len(finest), dtype=pl.String, eager=True)
            ).alias(name)
            for name, length in zip(geolevels, lengths, strict=True)
        ]
    )


def _rows_of(
    files: SourceFiles, geolevels: Sequence[str], listed: Mapping[str, pl.Series], table: pl.DataFrame
) -> pl.DataFrame:
    """The table of geography, after a check that it has every geounit of the files."""
    for name in geolevels:
        if table.schema[name] != pl.String:
            raise _bad_geounits(
                f"column {name} of the table of geography in {files.root} holds {table.schema[name]}, wanted text."
            )
        unknown = listed[name].filter(~listed[name].is_in(table[name].implode()))
        if len(unknown):
            raise _bad_geounits(
                f"{len(unknown):,} geounit(s) of {name} in {files.root} are not in the table of geography: "
                f"{_examples(unknown)}. Add their rows, or take the files and the table from one product."
            )
    rows = table.select(geolevels)
    # Where the files lack the finest geolevels, several rows of the table name the same geounit of their finest one.
    return rows if geolevels[-1] == files.form.finest else rows.unique(maintain_order=True)


def _with_rest(
    paths: pl.DataFrame, geolevels: Sequence[str], listed: Mapping[str, pl.Series]
) -> tuple[pl.DataFrame, dict[str, pl.Series]]:
    """The tree with one unmeasured child at each finer geolevel for geounits whose children the files lack.

    Returns:
        The geocode of every finest geounit at each geolevel; and for each geolevel, the children that were added.
    """
    rows = [paths]
    lacking: dict[str, pl.Series] = {}
    known = {name: paths[name].unique() for name in geolevels}
    lengths = {name: int(listed[name].str.len_chars().to_numpy().max(initial=0)) for name in geolevels}
    # From the finest up, so that a geounit that has a rest below a finer geounit is not given another.
    for level in range(len(geolevels) - 2, -1, -1):
        name = geolevels[level]
        codes = listed[name].filter(~listed[name].is_in(known[name].implode()))
        # A root of everything, whose geocode is empty, has all others below it.
        if not len(codes) or not lengths[name]:
            continue
        columns = []
        for above in geolevels[: level + 1]:
            prefix = codes.str.slice(0, lengths[above])
            columns.append(
                (
                    prefix if lengths[above] else pl.repeat(above, len(codes), dtype=pl.String, eager=True)
                ).alias(above)
            )
            known[above] = pl.concat([known[above], columns[-1].rename("")]).unique()
        for below in geolevels[level + 1 :]:
            columns.append((codes + REST).alias(below))
            lacking[below] = pl.concat([lacking.get(below, pl.Series([], dtype=pl.String)), codes + REST])
        rows.append(pl.DataFrame(columns))
    return pl.concat(rows), lacking


def _length(files: SourceFiles, geolevel: str, geocodes: pl.Series) -> int:
    """The one number of characters that the geocodes of a geolevel have."""
    lengths = geocodes.str.len_chars()
    if lengths.n_unique() == 1:
        return int(lengths[0])
    short, long = (geocodes.filter(lengths == end)[0] for end in (lengths.min(), lengths.max()))
    raise _bad_geounits(
        f"geocodes of {geolevel} in {files.root} have different lengths, such as {short!a:.60} and {long!a:.60}. "
        "Without a table of geography, all geocodes of a geolevel have the same number of characters. Take all files "
        "from one product."
    )


def _require_same(
    files: SourceFiles, geolevel: str, finest: str, listed: pl.Series, prefixes: pl.Series
) -> None:
    """Refuse geounits without finest ones, and finest ones whose geounit is not listed."""
    childless = listed.filter(~listed.is_in(prefixes.implode()))
    if len(childless) and not files.form.part:
        raise _bad_geounits(
            f"{len(childless):,} geounit(s) of {geolevel} in {files.root} have nothing below them at {finest}: "
            f"{_examples(childless)}. Files of finer geolevels are missing. Add them; or give --part, which leaves "
            "unmeasured what the files lack."
        )
    orphans = prefixes.filter(~prefixes.is_in(listed.implode()))
    if len(orphans):
        raise _bad_geounits(
            f"geounits of {finest} in {files.root} lie in {len(orphans):,} geounit(s) of {geolevel} that no table of "
            f"{geolevel} lists: {_examples(orphans)}. Add the files of {geolevel} for these, or remove the files of "
            "what lies in them."
        )


def _hierarchies(
    files: SourceFiles, paths: pl.DataFrame, source: Spine, lacking: Mapping[str, pl.Series]
) -> Hierarchies:
    """The tree with tabulation geocodes where it has tabulation geounits, and the tabulation geography."""
    geolevels, form = source.geolevels, files.form
    finest = geolevels[-1]
    # Without blocks, nothing says which geounits of the tabulation geography those of the files are.
    if not form.tabulation or finest != form.finest:
        return plain_hierarchies(source)
    digits_of = dict(form.tabulation)
    rest = lacking.get(finest, pl.Series([], dtype=pl.String))
    is_rest = paths[finest].is_in(rest.implode())
    numbers = _numbers(paths[finest], is_rest)
    _require_tabulation(paths[finest].filter(~is_rest), numbers.filter(~is_rest))
    geocodes, tabulated, replaced = {}, {}, []
    for name in geolevels[:-1]:
        of_files = paths[name]
        of_tables = of_files
        if name in digits_of:
            digits = digits_of[name]
            of_tables = numbers.str.slice(0, digits) if digits else pl.repeat(name, len(numbers), eager=True)
            # What stands for geounits that the files lack has no tabulation block.
            of_tables = pl.select(pl.when(is_rest).then(of_files).otherwise(of_tables)).to_series()
        pairs = pl.DataFrame([of_files.alias("files"), of_tables.alias("tables")]).unique()
        # One to one: each geounit of the files is one of the tabulation, and the other way round.
        is_same = pairs.height == pairs["files"].n_unique() == pairs["tables"].n_unique()
        geocodes[name] = of_tables if is_same else of_files
        tabulated[name] = of_tables
        if not is_same:
            replaced.append(name)
    spine = spine_from_columns({**geocodes, finest: numbers}, geolevels)
    if not replaced:
        return plain_hierarchies(spine)
    original = spine_from_columns({**tabulated, finest: numbers}, geolevels)
    # The two trees sort their blocks by different geocodes.
    order = original.locate(original.finest, spine.geocodes[-1].text)
    areas = [geounits_as_entities(original, original.level_index(name)).reordered(order) for name in replaced]
    return Hierarchies(spine, original, replaced=tuple(areas))


def _numbers(blocks: pl.Series, is_rest: pl.Series) -> pl.Series:
    """The tabulation block of each finest geounit; what stands for lacking blocks is as it is."""
    return pl.select(pl.when(is_rest).then(blocks).otherwise(tabulation_blocks(blocks))).to_series()


def _require_tabulation(blocks: pl.Series, numbers: pl.Series) -> None:
    tail = blocks.str.tail(_BLOCK_DIGITS)
    # The block group is written twice, and must be the same both times.
    bad = ~tail.str.contains(r"^[0-9]{16}$") | (tail.str.slice(11, 1) != tail.str.slice(12, 1))
    if bool(bad.any()):
        raise _bad_geounits(
            f"{int(bad.sum()):,} geocode(s) of blocks do not end with the 16 digits of a tabulation block, such as "
            f"{blocks.filter(bad)[0]!a:.60}. Wanted: State (2), county (3), tract (6), block group (1) and block (4, "
            "beginning with the block group). They say which State, county, tract and block group counts are "
            "published for. Take the files as the Census Bureau published them."
        )
    if numbers.n_unique() != len(numbers):
        twice = numbers.filter(numbers.is_duplicated())
        raise _bad_geounits(
            f"two geocodes of blocks end with the same tabulation block, such as {twice[0]!a}. A block is in one "
            "place of the tree. Remove the files of one of the two."
        )


def _rows(source: Spine, spine: Spine) -> tuple[Integers, ...]:
    """The geounit of a spine that each geounit of the same tree in another order is, by geolevel."""
    if source is spine:
        return tuple(np.arange(source.n_geounits(level), dtype=np.int64) for level in range(source.n_levels))
    codes = source.geocodes[-1].text
    numbers = _numbers(codes, codes.str.ends_with(REST))
    blocks = spine.locate(spine.finest, numbers)
    rows = [
        # A geounit is found by its first block.
        spine.ancestors(level)[blocks[source.finest_offsets(level)[:-1]]]
        for level in range(source.finest)
    ]
    return (*rows, blocks)


def _located(source: Spine, rows: Integers, level: int, geocodes: pl.Series) -> Integers:
    if source.n_geounits(level) == 1 and len(geocodes) and geocodes.eq("").all():
        return np.full(len(geocodes), rows[0], dtype=np.int64)  # a root with the empty geocode
    # -1 stays -1, and must not be used as an index from the end.
    places = source.locate(level, geocodes)
    return np.where(places < 0, -1, rows[places])


def _examples(geocodes: pl.Series) -> str:
    shown = ", ".join(f"{code!a:.60}" for code in geocodes.head(_GEOCODES_SHOWN))
    return shown + (", ..." if len(geocodes) > _GEOCODES_SHOWN else "")


def _bad_geounits(what: str) -> GeographyError:
    return GeographyError(what, code="layout-geounits")
