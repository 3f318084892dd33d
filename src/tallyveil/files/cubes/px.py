"""PX, the format of PC-Axis and PxWeb (version 2013): a file for each table.

The dimensions of the table are the stub, and which number of an observation a value is, is the heading. Texts stand in
all languages of the release. Within texts of PX there is no way to write a quotation mark: in texts for readers a
typographic one takes its place, and codes that hold one are refused. So are codes with white space that texts on one
line do not keep. The files are UTF-8, which their CODEPAGE says.

PX needs a value at every place. Where a table has none, its place holds `".."`. No keyword holds the time of writing,
so the same release gives the same bytes.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
import polars as pl

from tallyveil.errors import ConfigError
from tallyveil.files.cubes.cube import COUNT, EXACT, FREE, NOISY, PLACE, STATUS, Cube, Dimension, Measure
from tallyveil.files.cubes.edition import CubeFile, Edition, write_tables
from tallyveil.files.cubes.sdmx import joined_id
from tallyveil.files.cubes.words import word

FILES: Final = "Each file below tables/ is a table (PX, version 2013)."
LONGEST_TEXT: Final = 220
"""Characters of one quoted text. Programs read lines of 256 with the keyword; longer texts are written as several."""
MOST_PLACES: Final = 50_000_000
"""Places of a table that is not whole. Nearly all of them are empty, each in six bytes: twice as many fill a file of
gigabytes with dots."""
_BLOCK: Final = 1 << 20
"""Places that are filled at once."""
_NO_CODE: Final = r'["\p{C}\p{Zl}\p{Zp}]|[^\S ]|  |^ | $'
"""What no code may hold: in texts of PX it becomes a space, or nothing, and two codes would become one."""
_MISSING: Final = '".."'


def refuse(edition: Edition) -> None:
    """Refuse codes that PX cannot write, and tables that are nearly empty and large; raises ConfigError."""
    for cube in edition.cubes:
        for dimension in cube.dimensions:
            wrong = dimension.codes.filter(dimension.codes.str.contains(_NO_CODE))
            if len(wrong):
                raise ConfigError(
                    f"{dimension.name!r} of the table {cube.table!r} has {len(wrong):,} code(s) with a quotation mark, "
                    f"a control character, or white space other than single spaces within, such as {wrong[0]!a:.80}, "
                    "which PX has no way to write. Publish the table in another form, or rename them in the files of "
                    "the release.",
                    code="publish-names",
                )
        if not cube.is_whole and cube.size > MOST_PLACES:
            raise ConfigError(
                f"the table {cube.table!r} for {cube.geolevel!r} has {cube.n_rows:,} numbers at {cube.size:,} places, "
                f"and PX needs something at every place; wanted at most {MOST_PLACES:,} places. Name other tables or "
                "another geolevel, or publish it as SDMX, which lists what there is.",
                code="publish-large",
            )


def write(out: Path, edition: Edition) -> list[CubeFile]:
    """Write all tables."""

    def matrix(stream: BinaryIO, cube: Cube) -> None:
        for line in _head(cube, edition):
            stream.write(line.encode() + b"\n")
        _write_data(stream, cube)

    return write_tables(out, edition, ".px", matrix)


def _head(cube: Cube, edition: Edition) -> Iterator[str]:
    first, *others = edition.languages
    yield 'CHARSET="ANSI";'
    yield 'AXIS-VERSION="2013";'
    yield 'CODEPAGE="utf-8";'
    yield f'LANGUAGE="{first}";'
    if others:
        yield f"LANGUAGES={_list(edition.languages)};"
    yield f"DECIMALS={max(measure.scale for measure in cube.measures)};"
    yield "SHOWDECIMALS=0;"
    yield f"MATRIX={_quoted(joined_id(cube.key))};"
    # Sums of standard errors, and of ends of intervals, are none.
    yield f"AGGREGALLOWED={'YES' if cube.measures == (COUNT,) else 'NO'};"
    yield 'SUBJECT-CODE="TV";'
    for language in edition.languages:
        yield from _texts(cube, edition, language, "" if language == first else f"[{language}]")
    yield 'DATASYMBOL2="..";'
    yield 'ATTRIBUTE-ID="OBS_STATUS","CONF_STATUS";'
    yield f'ATTRIBUTE-TEXT="{word(first, "status")}","{word(first, "confidentiality")}";'
    yield f'ATTRIBUTES="{_status(cube)}","{FREE}";'


def _texts(cube: Cube, edition: Edition, language: str, tag: str) -> Iterator[str]:
    """The keywords that stand in a language; those of the first language have no tag."""
    names = _variables(cube, language)
    *stub, heading = names
    contents = [word(language, measure.name) for measure in cube.measures]
    yield f"SUBJECT-AREA{tag}={_long(edition.titles[language])};"
    yield f"TITLE{tag}={_long(cube.titles[language])};"
    yield f"CONTENTS{tag}={_long(cube.units[language])};"
    yield f"UNITS{tag}={_quoted(cube.units[language])};"
    yield f"STUB{tag}={_list(stub)};"
    yield f"HEADING{tag}={_quoted(heading)};"
    yield f"CONTVARIABLE{tag}={_quoted(heading)};"
    for name, dimension in zip(stub, cube.dimensions, strict=True):
        yield f"VALUES{tag}({_quoted(name)})={_list(_values(dimension, language))};"
    yield f"VALUES{tag}({_quoted(heading)})={_list(contents)};"
    for name, dimension in zip(stub, cube.dimensions, strict=True):
        if dimension.role == "time" and (span := _timeval(dimension.codes[0])):
            yield f"TIMEVAL{tag}({_quoted(name)})=TLIST({span[0]}),{_quoted(span[1])};"
        yield f"CODES{tag}({_quoted(name)})={_list(dimension.codes.to_list())};"
        if dimension.role == "geo":
            yield f'VARIABLE-TYPE{tag}({_quoted(name)})="G";'
    yield f"CODES{tag}({_quoted(heading)})={_list([measure.name for measure in cube.measures])};"
    for text, measure in zip(contents, cube.measures, strict=True):
        yield f"UNITS{tag}({_quoted(text)})={_quoted(cube.units[language])};"
        if measure.decimals:
            yield f"PRECISION{tag}({_quoted(heading)},{_quoted(text)})={measure.decimals};"
    yield f"SOURCE{tag}={_long(edition.citation or edition.titles[language])};"
    # Shown with the table whatever the reader chooses; a number sign is a new line.
    yield f"NOTEX{tag}={_long('#'.join(edition.notes(cube, language)))};"
    about = [f"{word(language, 'run')}: {edition.run}", f"{word(language, 'manifest')}: {edition.digest}"]
    about += [] if edition.licence is None else [f"{word(language, 'licence')}: {edition.licence}"]
    yield f"NOTE{tag}={_long('#'.join(about))};"


def _variables(cube: Cube, language: str) -> list[str]:
    """What the variables are called; those of one title are told apart by their names."""
    titles = [_plain(dimension.titles[language]) for dimension in cube.dimensions]
    titles.append(word(language, "measures"))
    names = [*(dimension.name for dimension in cube.dimensions), "value"]
    return [
        title if titles.count(title) == 1 else f"{title} ({_plain(name)})"
        for title, name in zip(titles, names, strict=True)
    ]


def _values(dimension: Dimension, language: str) -> list[str]:
    """What codes are called; those of one text are told apart by their codes."""
    labels = dimension.labels[language].map_elements(_plain, return_dtype=pl.String)
    alike = labels.is_duplicated()
    if not alike.any():
        return labels.to_list()
    frame = pl.DataFrame({"label": labels, "code": dimension.codes, "alike": alike})
    told = pl.when("alike").then(pl.format("{} ({})", "label", "code")).otherwise("label")
    return frame.select(told).to_series().to_list()


def _status(cube: Cube) -> str:
    """The status of a table: exact if all of it is."""
    statuses = {status for frame in cube.observations() for status in frame[STATUS].unique()}
    return EXACT if statuses == {EXACT} else NOISY


def _timeval(period: str) -> tuple[str, str] | None:
    """A period as PX writes it, with its scale; None for a day, for which there is no scale."""
    parts = period.split("-")
    if len(parts) == 1:
        return "A1", period
    if len(parts) == 2:
        return ("Q1", parts[0] + parts[1][1]) if parts[1].startswith("Q") else ("M1", "".join(parts))
    return None


def _plain(text: str) -> str:
    """A text as PX can hold it: on one line, with typographic quotation marks."""
    return " ".join(text.replace('"', "\N{RIGHT DOUBLE QUOTATION MARK}").split())


def _quoted(text: str) -> str:
    return f'"{_plain(text)}"'


def _list(texts: Sequence[str]) -> str:
    """Quoted texts, a line for each where there are many, so that lines stay short."""
    return (",\n" if len(texts) > 4 else ",").join(_quoted(text) for text in texts)


def _long(text: str) -> str:
    """A text of any length, in several quoted ones."""
    plain = _plain(text)
    starts = range(0, max(len(plain), 1), LONGEST_TEXT)
    return "\n".join(f'"{plain[start : start + LONGEST_TEXT]}"' for start in starts)


def _write_data(stream: BinaryIO, cube: Cube) -> None:
    stream.write(b"DATA=\n")
    columns = [_fixed(measure).cast(pl.String).fill_null(_MISSING) for measure in cube.measures]
    for frame in cube.observations() if cube.is_whole else _filled(cube):
        lines = frame.select(pl.concat_str(columns, separator=" ")).to_series()
        for start in range(0, len(lines), _BLOCK):
            # Each line ends with a space, as programs of PC-Axis want it.
            stream.write("".join(f"{line} \n" for line in lines[start : start + _BLOCK]).encode())
    stream.write(b";\n")


def _fixed(measure: Measure) -> pl.Expr:
    """A number without an exponent, which programs of PX do not read."""
    column = pl.col(measure.name)
    return column if measure.is_whole else column.cast(pl.Decimal(scale=measure.scale))


def _filled(cube: Cube) -> Iterator[pl.DataFrame]:
    """All places in order, with nulls where there is no observation."""
    # A table that is not whole has few observations for its places, and is read as a whole.
    known = pl.concat(cube.observations())
    for start in range(0, cube.size, _BLOCK):
        places = np.arange(start, min(start + _BLOCK, cube.size))
        first, last = known[PLACE].search_sorted([start, int(places[-1]) + 1])
        here = known.slice(first, last - first)
        yield pl.DataFrame({PLACE: places}).join(here, on=PLACE, how="left", maintain_order="left")
