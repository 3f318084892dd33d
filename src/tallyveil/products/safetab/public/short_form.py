"""Converts short-form code lists to the long form: `ITERATION_CODE|1000:1999, 5010` becomes one row for each code."""

import re
from pathlib import Path

from tallyveil.errors import SchemaError
from tallyveil.products.safetab.public.files import CODES, check_utf8, unreadable
from tallyveil.storage.read import UNREADABLE, read_text
from tallyveil.storage.write import write_text

_TERM = r"[0-9]{4}(?::[0-9]{4})?"
_LINE = re.compile(rf" *([0-9]{{1,4}}) *\| *({_TERM}(?: *, *{_TERM})*) *", re.ASCII)
_HEADER = "ITERATION_CODE|RACE_ETH_CODE"


def convert_short_form(short_form: Path, codes: Path, output: Path) -> int:
    """Write the long form of a short-form file.

    Ranges may contain codes that do not exist. Codes that are not in the codes file are omitted.

    Args:
        short_form: Each line has an iteration code, `|`, and codes or ranges `first:last` separated by commas.
        codes: The race and ethnicity codes file.
        output: The long-form file to write, complete or absent.
    Returns:
        Number of rows written.
    Raises:
        SchemaError: a line breaks the grammar, a range decreases, or the codes file lacks its column.
        StoreError: a file cannot be read or written.
    """
    # Ranges are written generously (1000:1999), so codes that do not exist are expected and passed over.
    known = _known_codes(codes)
    rows = [
        f"{iteration}|{code:04d}"
        for iteration, spans in _parse(short_form)
        # Overlapping ranges name a code twice; it gets one row.
        for code in dict.fromkeys(c for first, last in spans for c in range(first, last + 1))
        if code in known
    ]
    write_text(output, "\n".join([_HEADER, *rows, ""]))
    return len(rows)


def _known_codes(path: Path) -> set[int]:
    check_utf8(path)
    try:
        frame = read_text(path, "|", None)
    except UNREADABLE as error:
        raise unreadable(path, error) from None
    name = CODES.columns[0]
    if name not in frame.columns:
        raise SchemaError(
            f"{path} does not have the column {name}. Give the file of race and ethnicity codes.",
            code="safetab-short-form",
        )
    return {int(code) for code in frame[name].to_list() if code is not None and code.isdecimal()}


def _parse(path: Path) -> list[tuple[str, list[tuple[int, int]]]]:
    check_utf8(path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise unreadable(path, error) from None
    parsed = []
    # The first line is a header, whatever its words.
    for number, line in enumerate(lines[1:], start=2):
        match = _LINE.fullmatch(line)
        spans = [_span(term) for term in match[2].split(",")] if match else []
        if match is None or any(first > last for first, last in spans):
            raise SchemaError(
                f"{path}, line {number}: {line[:60]!r} is not in the short form. Wanted an iteration code, then '|', "
                "then codes of 4 digits or rising ranges such as 1000:1999, separated by commas.",
                code="safetab-short-form",
            )
        parsed.append((match[1], spans))
    return parsed


def _span(term: str) -> tuple[int, int]:
    first, _, last = term.strip().partition(":")
    return int(first), int(last or first)
