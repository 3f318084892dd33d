"""One Excel workbook: a cover, a list of contents, and a sheet for each table with a row for each observation.

The package of the extra `xlsx` writes it, row by row. Every text is written as a text, whatever it begins with: no
cell of the workbook is a formula or a link, apart from those from the contents to the sheets and back. The properties
of the file hold a fixed time, so that the same release gives the same bytes.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import polars as pl

from tallyveil.errors import ConfigError
from tallyveil.files.cubes.cube import PLACE, STATUS, Cube
from tallyveil.files.cubes.edition import CubeFile, Edition
from tallyveil.files.cubes.words import word
from tallyveil.storage.outputs import remove
from tallyveil.storage.write import write_file

WORKBOOK: Final = "tables.xlsx"
ROWS: Final = "tables.xlsx.rows"
"""Folder of the rows that have been read, while the workbook is written: its files have random names."""
FILES: Final = "tables.xlsx is a workbook with a cover, a list of contents, and a sheet for each table."
MOST_ROWS: Final = 1_048_576
"""Rows of a sheet of Excel."""
LONGEST_TEXT: Final = 32_767
"""Characters of a cell of Excel."""
_ABOVE: Final = 4
"""Rows above the observations of a sheet: title, unit, the way back, and the header."""
_MADE: Final = datetime(2000, 1, 1, tzinfo=UTC).replace(tzinfo=None)
_WIDEST: Final = 60
_FRAME: Final = 1 << 16
"""Observations that are taken out of a frame at once; as objects of Python they need some hundred bytes each."""


def has_package() -> bool:
    """Whether the package that writes workbooks is installed."""
    return find_spec("xlsxwriter") is not None


def require_package() -> None:
    """Refuse work without the package that writes workbooks; raises ConfigError."""
    if not has_package():
        raise ConfigError(
            "an Excel workbook needs the package xlsxwriter. Install it with `pip install 'tallyveil[xlsx]'`.",
            code="xlsx-extra",
        )


def refuse(edition: Edition) -> None:
    """Refuse tables that are longer than a sheet, and work without the package; raises ConfigError."""
    require_package()
    for cube in edition.cubes:
        if cube.n_rows > MOST_ROWS - _ABOVE:
            where = f" for {cube.geolevel!r}" if cube.geolevel else ""
            raise ConfigError(
                f"the table {cube.table!r}{where} has {cube.n_rows:,} rows, and a sheet of Excel has room for "
                f"{MOST_ROWS - _ABOVE:,}. Leave it out: name other tables with --tables, or another geolevel with "
                "--geolevel. `tallyveil publish csv` and the other forms hold tables of any length.",
                code="publish-large",
            )


def write(out: Path, edition: Edition) -> list[CubeFile]:
    """Write the workbook."""
    try:
        write_file(out / WORKBOOK, lambda path: _write(path, out / ROWS, edition))
    finally:
        remove(out / ROWS)
    return [CubeFile(WORKBOOK)]


def _write(path: Path, rows: Path, edition: Edition) -> None:
    from xlsxwriter import Workbook

    rows.mkdir(exist_ok=True)
    # Rows go to a file as they come; no text becomes a number, a formula or a link by itself.
    options = {
        "constant_memory": True,
        "tmpdir": str(rows),
        "strings_to_numbers": False,
        "strings_to_formulas": False,
        "strings_to_urls": False,
    }
    language = edition.languages[0]
    with Workbook(str(path), options) as book:
        book.use_zip64()
        book.set_properties({"title": edition.titles[language][:255], "created": _MADE})
        formats: dict[str | int, Any] = {
            "title": book.add_format({"bold": True, "font_size": 14}),
            "header": book.add_format({"bold": True, "text_wrap": True, "valign": "top", "bottom": 1}),
            "wrapped": book.add_format({"text_wrap": True, "valign": "top"}),
            "warning": book.add_format(
                {"text_wrap": True, "valign": "top", "bold": True, "font_color": "#9C0006"}
            ),
            "link": book.get_default_url_format(),
            "text": book.add_format({"num_format": "@"}),
            **{
                decimals: book.add_format({"num_format": f"#,##0{'.' if decimals else ''}{'0' * decimals}"})
                for decimals in sorted(
                    {0, *(item.decimals for cube in edition.cubes for item in cube.measures)}
                )
            },
        }
        cover, contents = (book.add_worksheet(word(language, name)) for name in ("cover", "contents"))
        # Sheets have numbers for names: those of tables may be longer than Excel allows, or hold what it forbids.
        sheets = [book.add_worksheet(str(number)) for number in range(1, len(edition.cubes) + 1)]
        _cover(cover, edition, formats)
        _contents(contents, edition, formats)
        for sheet, cube in zip(sheets, edition.cubes, strict=True):
            _table(sheet, cube, edition, formats)


def _cover(sheet: Any, edition: Edition, formats: Any) -> None:
    language = edition.languages[0]
    sheet.set_column(0, 0, 100)
    lines = [
        (edition.titles[language], "title"),
        *((line, "warning") for line in edition.mark_lines(language)),
    ]
    about = {
        "run": edition.run,
        "manifest": edition.digest,
        "spent": edition.spent,
        "licence": edition.licence,
        "citation": edition.citation,
    }
    lines += [
        (f"{word(language, key)}: {text}", "wrapped") for key, text in about.items() if text is not None
    ]
    lines += [(note, "wrapped") for note in edition.common_notes(language)]
    for row, (text, kind) in enumerate(lines):
        _text(sheet, row, 0, text, formats[kind])


def _contents(sheet: Any, edition: Edition, formats: Any) -> None:
    language = edition.languages[0]
    sheet.set_column(0, 0, 8)
    sheet.set_column(1, 1, 80)
    sheet.set_column(2, 2, 14)
    for column, text in enumerate(("#", word(language, "table"), word(language, "rows"))):
        _text(sheet, 0, column, text, formats["header"])
    for number, cube in enumerate(edition.cubes, 1):
        sheet.write_url(number, 0, f"internal:'{number}'!A1", formats["link"], str(number))
        _text(sheet, number, 1, cube.titles[language])
        sheet.write_number(number, 2, cube.n_rows, formats[0])
    sheet.freeze_panes(1, 0)


def _table(sheet: Any, cube: Cube, edition: Edition, formats: Any) -> None:
    language = edition.languages[0]
    texts = _texts(cube, language)
    for column, (title, _, shown) in enumerate(texts):
        sheet.set_column(column, column, _width(title, shown), formats["text"])
    for column, measure in enumerate(cube.measures, len(texts)):
        sheet.set_column(column, column, 14, formats[measure.decimals])
    header = [title for title, _, _ in texts]
    header += [*(word(language, measure.name) for measure in cube.measures), word(language, "status")]
    _text(sheet, 0, 0, cube.titles[language], formats["title"])
    common = edition.common_notes(language)
    about = [*edition.mark_lines(language), f"{word(language, 'unit')}: {cube.units[language]}."]
    # What holds for all tables stands on the cover.
    _text(sheet, 1, 0, " ".join([*about, *(note for note in cube.notes[language] if note not in common)]))
    sheet.write_url(
        2, 0, f"internal:'{word(language, 'contents')}'!A1", formats["link"], word(language, "back")
    )
    for column, text in enumerate(header):
        _text(sheet, _ABOVE - 1, column, text, formats["header"])
    row = _ABOVE
    for values in _rows(cube, texts):
        for column, value in enumerate(values):
            # A number that the release does not state leaves its cell empty.
            if isinstance(value, str):
                sheet.write_string(row, column, value[:LONGEST_TEXT])
            elif value is not None:
                sheet.write_number(row, column, value)
        row += 1
    sheet.autofilter(_ABOVE - 1, 0, max(row - 1, _ABOVE), len(header) - 1)
    sheet.freeze_panes(_ABOVE, 0)


def _texts(cube: Cube, language: str) -> list[tuple[str, int, pl.Series]]:
    """The columns of texts: header, number of the dimension, and the text of each of its codes."""
    columns = []
    for number, dimension in enumerate(cube.dimensions):
        title, labels = dimension.titles[language], dimension.labels[language]
        # Areas with names have their codes beside these.
        if dimension.role == "geo" and not labels.equals(dimension.codes, check_names=False):
            columns.append((f"{title}: {word(language, 'area')}", number, dimension.codes))
        columns.append((title, number, labels))
    return columns


def _rows(cube: Cube, texts: Sequence[tuple[str, int, pl.Series]]) -> Iterator[tuple[Any, ...]]:
    measures = [measure.name for measure in cube.measures]
    for frame in cube.observations():
        for start in range(0, frame.height, _FRAME):
            part = frame.slice(start, _FRAME)
            positions = cube.positions(part[PLACE].to_numpy())
            columns = [shown.gather(positions[number]) for _, number, shown in texts]
            columns += [*part.select(measures), part[STATUS]]
            yield from zip(*(column.to_list() for column in columns), strict=True)


def _width(header: str, texts: pl.Series) -> int:
    """The width of a column of texts, as wide as its longest text, within limits."""
    longest = texts.str.len_chars().max()
    return min(_WIDEST, max(10, len(header), longest if isinstance(longest, int) else 0) + 2)


def _text(sheet: Any, row: int, column: int, text: str, shown: Any = None) -> None:
    sheet.write_string(row, column, text[:LONGEST_TEXT], shown)
