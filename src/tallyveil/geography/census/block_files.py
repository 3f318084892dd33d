"""The public files that say something of every block: assignment files, reference files, group quarters.

Block assignment files are a set of files for each State, each with one kind of area for every block. A
geographic reference file has one row for each block, with all its tabulation codes. Facilities of group
quarters give bounds on the people of every block, and the kinds that a block has.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from tallyveil.errors import GeographyError
from tallyveil.geography.census.codes import BY_COLUMN, BY_KIND, CODES, STATES, uses_subdivisions
from tallyveil.geography.census.source_files import (
    ALL_STATES,
    Part,
    SourceTable,
    check_blocks,
    check_code,
    check_form,
    check_known,
    check_part,
    check_same_blocks,
    read_source,
)

PREFIX: Final = "BlockAssign_"
_NAME: Final = re.compile(r"BlockAssign_ST([0-9]{2})_([A-Z]{2})_([A-Z_]+)\.txt")
WANTED_NAME: Final = "BlockAssign_ST<State>_<abbreviation>_<area>.txt, such as BlockAssign_ST44_RI_MCD.txt"
ASSIGNED_BLOCK: Final = "BLOCKID"
COMPONENT: Final = ("COMPTYP", "COMPTYPE")
"""Names of the column that says whether a block is on a reservation (R) or on trust land (T)."""


@dataclass(frozen=True, slots=True, eq=False)
class StateBlocks:
    """The blocks of one State, as a source gives them.

    Attributes:
        state: FIPS code.
        source: What the blocks were read from.
        rows: Columns geocode, those of `CODES` that the source has, and, if given, COMPTYP. One row for each block.
        tables: The files.
        unused: Files whose kind of area is not known, and which were not read.
    """

    state: str
    source: str
    rows: pl.DataFrame
    tables: tuple[SourceTable, ...]
    unused: tuple[Path, ...] = ()


def find_assignment_files(folders: Sequence[Path]) -> dict[str, dict[str, Path]]:
    """The files of each State, by kind of area.

    Raises:
        GeographyError: a folder does not exist or has none of these files, a name has another form or an unknown State,
            or two files have the same State and kind.
    """
    paths_by_state: dict[str, dict[str, Path]] = {}
    for folder in folders:
        # Sorted, because the order of a folder's entries differs between file systems, and messages name the first.
        paths = sorted(folder.glob(PREFIX + "*")) if folder.is_dir() else []
        if not paths:
            raise GeographyError(
                f"{folder}: got {'no block assignment files' if folder.is_dir() else 'no folder'}; wanted a folder "
                f"with files named {WANTED_NAME}. Unpack the archive of the State, and name its folder.",
                code="census-file",
            )
        for path in paths:
            state, kind = _parts_of_name(path)
            if kind in paths_by_state.setdefault(state, {}):
                raise GeographyError(
                    f"{path}: got a second file of {kind} of State {state}; the first is "
                    f"{paths_by_state[state][kind]}. Wanted one file of each kind. Name only one of the folders.",
                    code="census-file",
                )
            paths_by_state[state][kind] = path
    # Sorted by State, so that the report and the tables do not depend on the order of the folders.
    return dict(sorted(paths_by_state.items()))


def read_assignment_files(state: str, paths: Mapping[str, Path]) -> StateBlocks:
    """The blocks of a State from its files.

    Raises:
        GeographyError: the file of minor civil divisions or places is missing, a file cannot be read, or files
            contradict themselves or each other.
    """
    needed = "MCD" if uses_subdivisions(state) else "INCPLACE_CDP"
    if needed not in paths:
        folder = next(iter(paths.values())).parent
        raise GeographyError(
            f"{folder}: got files of {', '.join(paths)} of State {state} ({STATES[state].name}); wanted also {needed}, "
            "because the rule for this State is made of it. Download the whole archive of the State.",
            code="census-file",
        )
    # The file that the rule needs goes first: it defines the blocks, and all others are held against it.
    known = [needed, *(kind for kind in BY_KIND if kind in paths and kind != needed)]
    tables = [_read_one(state, kind, paths[kind]) for kind in known]
    rows = tables[0].rows.select(pl.col(ASSIGNED_BLOCK).alias("geocode"))
    for kind, table in zip(known, tables, strict=True):
        # A file of another year has other blocks; a join would leave them without areas and say nothing.
        check_same_blocks(tables[0], table, ASSIGNED_BLOCK)
        rows = rows.join(_codes_of(kind, table), on="geocode", how="left", maintain_order="left")
    unused = tuple(path for kind, path in paths.items() if kind not in BY_KIND)
    return StateBlocks(state, "block assignment files", rows.sort("geocode"), tuple(tables), unused)


def _read_one(state: str, kind: str, path: Path) -> SourceTable:
    code = BY_KIND[kind]
    table = read_source(path, [ASSIGNED_BLOCK, code.assigned], ["COUNTYFP", *COMPONENT])
    check_blocks(table, ASSIGNED_BLOCK, state)
    check_code(table, code.assigned, code)
    if "COUNTYFP" in table.rows.columns:
        check_part(table, ASSIGNED_BLOCK, "COUNTYFP", Part(2, 3, "county"))
    return table


def _codes_of(kind: str, table: SourceTable) -> pl.DataFrame:
    code = BY_KIND[kind]
    # The Bureau wrote the name in two ways; the first that is there is taken.
    component = [pl.col(name).alias(COMPONENT[0]) for name in COMPONENT if name in table.rows.columns]
    return table.rows.select(
        pl.col(ASSIGNED_BLOCK).alias("geocode"), pl.col(code.assigned).alias(code.column), *component[:1]
    )


def _parts_of_name(path: Path) -> tuple[str, str]:
    """State and kind of a file, from its name."""
    parts = _NAME.fullmatch(path.name)
    if parts is None:
        raise GeographyError(
            f"{path}: got a file of this name; wanted {WANTED_NAME}. Give the file the name under which the Census "
            "Bureau publishes it, or move it elsewhere.",
            code="census-file",
        )
    state, abbreviation, kind = parts.groups()
    if state not in STATES:
        raise GeographyError(
            f"{path}: got State '{state}' in the name; wanted one of the States {ALL_STATES}. Correct the name, or "
            "move the file elsewhere.",
            code="census-code",
        )
    if STATES[state].abbreviation != abbreviation:
        raise GeographyError(
            f"{path}: got State {state} with the abbreviation {abbreviation}; wanted {STATES[state].abbreviation}, for "
            f"{STATES[state].name}. Give the file the name under which the Census Bureau publishes it.",
            code="census-code",
        )
    return state, kind


PARTS: Final = (
    ("TABBLKST", "[0-9]{2}", "2 digits"),
    ("TABBLKCOU", "[0-9]{3}", "3 digits"),
    ("TABTRACTCE", "[0-9]{6}", "6 digits"),
    ("TABBLK", "[0-9]{4}", "4 digits"),
)
"""The columns that make up a block, in order, and their form."""

BLOCK_GROUP: Final = "TABBLKGRPCE"
GEOID: Final = "GEOID"
REQUIRED_CODES: Final = ("AIANNHCE", "COUSUBFP", "PLACEFP")
"""Codes that every block has in a geographic reference file, if only as "in none"."""

DIGITS: Final = {
    "TABBLKST": Part(0, 2, "State"),
    "TABBLKCOU": Part(2, 3, "county"),
    "TABTRACTCE": Part(5, 6, "tract"),
    "TABBLK": Part(11, 4, "block number"),
    BLOCK_GROUP: Part(11, 1, "block group, which is the first digit of the block number"),
}
"""The digits of the block that each column repeats."""


def read_reference_file(path: Path) -> list[StateBlocks]:
    """The blocks of every State of a file.

    Raises:
        GeographyError: the file cannot be read, a code has another form, columns contradict each other, or a block is
            there twice.
    """
    parts = [name for name, _, _ in PARTS]
    optional = [BLOCK_GROUP, GEOID, *(code.column for code in CODES if code.column not in REQUIRED_CODES)]
    table = read_source(path, [*parts, *REQUIRED_CODES], optional)
    for column, form, wanted in PARTS:
        check_form(table, column, form, wanted, may_be_empty=False)
    # The block is made of its parts after their form is checked, so that it always has 15 digits.
    table = _with_blocks(table)
    check_blocks(table, "geocode")
    # The file states the block a second time. Both must agree, because either could be the wrong one.
    if GEOID in table.rows.columns:
        check_blocks(table, GEOID)
        for column in parts:
            check_part(table, GEOID, column, DIGITS[column])
    if BLOCK_GROUP in table.rows.columns:
        check_form(table, BLOCK_GROUP, "[0-9]", "1 digit", may_be_empty=False)
        check_part(table, "geocode", BLOCK_GROUP, DIGITS[BLOCK_GROUP])
    # All codes, known to be needed or not: what a later rule reads has been checked here.
    for column in table.rows.columns:
        if column in BY_COLUMN:
            check_code(table, column, BY_COLUMN[column], may_be_empty=column not in REQUIRED_CODES)
    return _by_state(table)


def _with_blocks(table: SourceTable) -> SourceTable:
    """The same table, with a column of blocks."""
    blocks = pl.concat_str([name for name, _, _ in PARTS]).alias("geocode")
    return SourceTable(table.path, table.rows.with_columns(blocks), table.notes, table.counts_lines)


def _by_state(table: SourceTable) -> list[StateBlocks]:
    columns = ["geocode", *(name for name in table.rows.columns if name in BY_COLUMN)]
    parts = table.rows.sort("geocode").partition_by("TABBLKST", as_dict=True, maintain_order=True)
    return [
        StateBlocks(str(state), "geographic reference file", rows.select(columns), (table,))
        for (state,), rows in parts.items()
    ]


BLOCKID, KIND, NUMBER = "BLOCKID", "GQTYPE", "FACILITIES"
HOUSEHOLD: Final = "household"
KINDS: Final = {
    "1": "adult_correctional",
    "2": "juvenile",
    "3": "nursing",
    "4": "other_institutional",
    "5": "college",
    "6": "military",
    "7": "other_noninstitutional",
    "8": "other_noninstitutional",
    "9": "other_noninstitutional",
}
"""The major kind of group quarters by the first digit of the Bureau's type of three digits. They are levels of hhgq."""


def read_facilities(path: Path, blocks: pl.Series) -> tuple[SourceTable, pl.DataFrame]:
    """The facilities of every block and major kind.

    Args:
        path: A file with the columns BLOCKID, GQTYPE (three digits, or the name of a major kind) and FACILITIES.
        blocks: Blocks of the geography.

    Returns:
        The file, and the number of facilities: columns geocode, hhgq, facilities; only numbers above 0.

    Raises:
        GeographyError: the file cannot be read, a block is unknown, or a type or a number has another form.
    """
    table = read_source(path, [BLOCKID, KIND, NUMBER])
    check_form(table, BLOCKID, "[0-9]{15}", "a block of 15 digits", may_be_empty=False)
    check_known(table, BLOCKID, blocks)
    names = "|".join(dict.fromkeys(KINDS.values()))
    wanted = f"a type of three digits from 101 to 999, or one of {names.replace('|', ', ')}"
    check_form(table, KIND, f"[1-9][0-9]{{2}}|{names}", wanted, may_be_empty=False)
    # Nine digits at most, so that sums over a country stay far below 2**63.
    check_form(table, NUMBER, "[0-9]{1,9}", "a whole number, 0 or more", may_be_empty=False)
    _check_pairs(table)
    # A type of three digits gives its first digit's kind; a name of a kind is no key of the table and stays.
    kind = pl.col(KIND).str.slice(0, 1).replace_strict(KINDS, default=None).fill_null(pl.col(KIND))
    facilities = (
        table.rows.select(pl.col(BLOCKID).alias("geocode"), kind.alias("hhgq"), pl.col(NUMBER).cast(pl.Int64))
        .group_by("geocode", "hhgq")
        .agg(pl.col(NUMBER).sum().alias("facilities"))
        # No row means no facility, and bounds treat it so; a row with 0 would say the same twice.
        .filter(pl.col("facilities") > 0)
        .sort("geocode", "hhgq")
    )
    return table, facilities


def kinds_of_group_quarters(facilities: pl.DataFrame) -> pl.DataFrame:
    """For every block with group quarters, the combination of their kinds: columns geocode, group_quarters.

    Args:
        facilities: Columns geocode, hhgq and lower (the number of facilities; 0 for households), as `bounds_of` makes.
    """
    # Sorted by kind, so that one combination has one name.
    present = facilities.filter(pl.col("lower") > 0).sort("geocode", "hhgq")
    return present.group_by("geocode", maintain_order=True).agg(
        pl.col("hhgq").str.join("+").alias("group_quarters")
    )


def bounds_of(blocks: pl.Series, facilities: pl.DataFrame) -> pl.DataFrame:
    """Bounds on the people of a block by hhgq: at least one person in every facility, nobody in a kind that is absent.

    The Bureau's public files do not say which blocks have housing units. So every block may have households.

    Args:
        blocks: Every block.
        facilities: As `read_facilities` gives them.

    Returns:
        Columns geocode, hhgq, lower, upper. A pair without a row has the upper bound 0; null is no bound.
    """
    homes = pl.DataFrame({"geocode": blocks}).with_columns(
        pl.lit(HOUSEHOLD).alias("hhgq"), pl.lit(0, dtype=pl.Int64).alias("facilities")
    )
    # Households have the lower bound 0: a block may be without any.
    both = pl.concat([homes, facilities.select(homes.columns)]).sort("geocode", "hhgq")
    return both.select(
        "geocode", "hhgq", pl.col("facilities").alias("lower"), pl.lit(None, dtype=pl.Int64).alias("upper")
    )


def _check_pairs(table: SourceTable) -> None:
    first = table.rows.select(pl.struct(BLOCKID, KIND).is_first_distinct().alias("first"))["first"]
    if len(again := (~first).arg_true()):
        row = again[0]
        raise table.error(
            row,
            f"type '{table.rows[KIND][row]}' in block '{table.rows[BLOCKID][row]}' a second time",
            "one row for each type in a block",
            "Add the numbers of facilities in one row.",
            code="census-block",
        )
