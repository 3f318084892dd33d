"""Checks of blocks and codes that several kinds of files share. Each names the first line that does not fit."""

from typing import Final, NamedTuple

import polars as pl

from tallyveil.geography.census.codes import BLOCK, Code
from tallyveil.geography.census.source_files import SourceTable
from tallyveil.geography.census.states import STATES
from tallyveil.geography.census.tribal_classes import CLASSES, OUTSIDE, class_of

ALL_STATES: Final = f"{', '.join(STATES)} (the fifty States, the District of Columbia and Puerto Rico)"


def check_blocks(table: SourceTable, column: str, state: str | None = None) -> None:
    """Refuse blocks that are no blocks, repeated, of an unknown State, or of another State.

    Args:
        table: The file.
        column: Its column of blocks.
        state: The State that all blocks must be in; None if any will do.

    Raises:
        GeographyError: as above.
    """
    blocks = table.rows[column]
    # The form first: the digits that are cut out below mean something only in a block of 15 digits.
    check_form(table, column, BLOCK, "a block of 15 digits", may_be_empty=False)
    states = blocks.str.slice(0, 2)
    if len(lost := (~states.is_in(list(STATES))).arg_true()):
        row = lost[0]
        raise table.error(
            row,
            f"block '{blocks[row]}' of State '{states[row]}'",
            f"one of the States {ALL_STATES}",
            "Remove the row, or correct the block.",
            code="census-code",
        )
    if state is not None and len(lost := (states != state).arg_true()):
        row = lost[0]
        raise table.error(
            row,
            f"block '{blocks[row]}', which is in State {_named(states[row])}",
            f"blocks of State {_named(state)}, which the name of the file says",
            "Use the file of the right State, or give the file its own name.",
            code="census-block",
        )
    check_once(table, column)


def check_once(table: SourceTable, column: str) -> None:
    """Refuse a value that two rows of a column have.

    Raises:
        GeographyError: as above.
    """
    values = table.rows[column]
    again = (~values.is_first_distinct()).arg_true()
    if len(again):
        row = again[0]
        first = (values == values[row]).arg_true()[0]
        raise table.error(
            row,
            f"block '{values[row]}' a second time; it is first at {table.at(first)}",
            "every block once",
            "Remove one of the rows.",
            code="census-block",
        )


def check_form(table: SourceTable, column: str, form: str, wanted: str, *, may_be_empty: bool) -> None:
    """Refuse codes of another width or of other characters.

    Raises:
        GeographyError: as above.
    """
    values = table.rows[column]
    # The whole text must fit, and a null counts as the caller says.
    fits = values.str.contains(f"^(?:{form})$").fill_null(may_be_empty)
    if len(wrong := (~fits).arg_true()):
        row = wrong[0]
        got = "nothing" if values[row] is None else f"'{values[row]}'"
        raise table.error(
            row,
            f"{got} in column {column}",
            wanted,
            "Read codes as text, because numbers lose their leading zeros, or download the file again.",
            code="census-code",
        )


def check_code(table: SourceTable, column: str, code: Code, *, may_be_empty: bool = True) -> None:
    """Refuse a column whose codes do not have the form of a code.

    Raises:
        GeographyError: as above.
    """
    check_form(table, column, code.form, f"a code of {code.wanted}", may_be_empty=may_be_empty)
    if code.column == "AIANNHCE":
        _check_tribal_class(table, column)


def _check_tribal_class(table: SourceTable, column: str) -> None:
    values = table.rows[column]
    lost = [
        code for code in values.drop_nulls().unique().to_list() if code != OUTSIDE and class_of(code) is None
    ]
    if lost:
        row = values.is_in(lost).fill_null(False).arg_true()[0]
        raise table.error(
            row,
            f"'{values[row]}' in column {column}, which no class of areas has",
            f"a code from {CLASSES[0].first} to {CLASSES[-1].last} in one of the classes, or {OUTSIDE}",
            "Download the file again, or correct the code.",
            code="census-code",
        )


class Part(NamedTuple):
    """Digits of a block that another column repeats.

    Attributes:
        start: Place of the first digit, from 0.
        length: Number of digits.
        what: What they are.
    """

    start: int
    length: int
    what: str


def check_part(table: SourceTable, block: str, column: str, part: Part) -> None:
    """Refuse a column that contradicts the digits of the block.

    Args:
        table: The file.
        block: Its column of blocks.
        column: A column that repeats digits of the block.
        part: Which digits.

    Raises:
        GeographyError: as above.
    """
    blocks, parts = table.rows[block], table.rows[column]
    wanted = blocks.str.slice(part.start, part.length)
    # A null in either column is a contradiction too: the Bureau leaves neither empty.
    if len(wrong := (~(wanted == parts)).fill_null(True).arg_true()):
        row = wrong[0]
        raise table.error(
            row,
            f"block '{blocks[row]}' with {column} '{parts[row] or ''}'",
            f"the {part.what} of the block, '{wanted[row]}'",
            "Correct the block or the column; the Bureau's files say the same in both.",
            code="census-block",
        )


def check_same_blocks(first: SourceTable, other: SourceTable, column: str) -> None:
    """Refuse two files of a State if one has a block that the other lacks.

    Raises:
        GeographyError: as above.
    """
    blocks, others = first.rows[column], other.rows[column]
    # The same column in the same order is the usual case, and comparing it costs less than two searches.
    if blocks.equals(others):
        return
    for here, there in ((other, first), (first, other)):
        lost = (~here.rows[column].is_in(there.rows[column].implode())).arg_true()
        if len(lost):
            row = lost[0]
            raise here.error(
                row,
                f"block '{here.rows[column][row]}', which {there.path} does not have "
                f"({len(lost)} blocks differ in this way)",
                "the same blocks in all files of a State",
                "Use files of one year, and download an incomplete file again.",
                code="census-block",
            )


def check_known(table: SourceTable, column: str, known: pl.Series) -> None:
    """Refuse a block that the imported geography does not have.

    Raises:
        GeographyError: as above.
    """
    lost = (~table.rows[column].is_in(known.implode())).arg_true()
    if len(lost):
        row = lost[0]
        raise table.error(
            row,
            f"block '{table.rows[column][row]}', for which there is no geography ({len(lost)} rows have such blocks)",
            "blocks of the block assignment files and the geographic reference files",
            "Use files of one year, and add the files of the block's State.",
            code="census-block",
        )


def _named(state: str) -> str:
    return f"{state} ({STATES[state].name})"
