"""Block assignment files: for each State a set of files, each with one kind of area for every block."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from tallyveil.errors import GeographyError
from tallyveil.geography.census.checks import (
    ALL_STATES,
    Part,
    check_blocks,
    check_code,
    check_part,
    check_same_blocks,
)
from tallyveil.geography.census.codes import BY_KIND
from tallyveil.geography.census.source_files import SourceTable, read_source
from tallyveil.geography.census.states import STATES, uses_subdivisions

PREFIX: Final = "BlockAssign_"
_NAME: Final = re.compile(r"BlockAssign_ST([0-9]{2})_([A-Z]{2})_([A-Z_]+)\.txt")
WANTED_NAME: Final = "BlockAssign_ST<State>_<abbreviation>_<area>.txt, such as BlockAssign_ST44_RI_MCD.txt"
BLOCKID: Final = "BLOCKID"
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
    rows = tables[0].rows.select(pl.col(BLOCKID).alias("geocode"))
    for kind, table in zip(known, tables, strict=True):
        # A file of another year has other blocks; a join would leave them without areas and say nothing.
        check_same_blocks(tables[0], table, BLOCKID)
        rows = rows.join(_codes_of(kind, table), on="geocode", how="left", maintain_order="left")
    unused = tuple(path for kind, path in paths.items() if kind not in BY_KIND)
    return StateBlocks(state, "block assignment files", rows.sort("geocode"), tuple(tables), unused)


def _read_one(state: str, kind: str, path: Path) -> SourceTable:
    code = BY_KIND[kind]
    table = read_source(path, [BLOCKID, code.assigned], ["COUNTYFP", *COMPONENT])
    check_blocks(table, BLOCKID, state)
    check_code(table, code.assigned, code)
    if "COUNTYFP" in table.rows.columns:
        check_part(table, BLOCKID, "COUNTYFP", Part(2, 3, "county"))
    return table


def _codes_of(kind: str, table: SourceTable) -> pl.DataFrame:
    code = BY_KIND[kind]
    # The Bureau wrote the name in two ways; the first that is there is taken.
    component = [pl.col(name).alias(COMPONENT[0]) for name in COMPONENT if name in table.rows.columns]
    return table.rows.select(
        pl.col(BLOCKID).alias("geocode"), pl.col(code.assigned).alias(code.column), *component[:1]
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
