"""Publishes the tables of a finished release of any product in one of the forms of `FORMS`, in a folder of its own.

A form is a module that writes cubes; nothing else of a publication depends on it. `publication.json` names the
release, says what was asked for, and lists the files, so that the publication can be made again and compared.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Final

import polars as pl

from tallyveil.accounting.numbers import at_most
from tallyveil.declared import Declared, Many, Name, left_out, mapping_of
from tallyveil.errors import ConfigError
from tallyveil.exact import as_given
from tallyveil.files.cubes import json_stat, px, sdmx, xlsx
from tallyveil.files.cubes.cube import Cube, Dimension, Texts, free_name
from tallyveil.files.cubes.edition import CubeFile, Edition
from tallyveil.files.cubes.words import word
from tallyveil.files.finished import MANIFEST
from tallyveil.files.manifest import Manifest, listed_file
from tallyveil.files.marks import marked_text, marks_of
from tallyveil.files.tables import TABLES
from tallyveil.files.whole_tables import PUBLICATION, PUBLICATION_FORMAT, README
from tallyveil.schema.names import as_named
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.outputs import new_folder, refuse_inputs, refuse_output_inside
from tallyveil.storage.write import file_digest, write_json, write_text
from tallyveil.version import VERSION


@dataclass(frozen=True, slots=True, eq=False)
class Published:
    """The tables of a finished release.

    Attributes:
        titles: What the release is called, in each of its languages.
        cubes: The tables.
        licence, citation: What the release says of them; None where it says nothing.
    """

    titles: Texts
    cubes: tuple[Cube, ...]
    licence: str | None = None
    citation: str | None = None


@dataclass(frozen=True, slots=True)
class Form:
    """A form of publication.

    Attributes:
        title: What it is called.
        files: What is written, for people.
        names: Names of the files and folders that are written beside the description of the publication.
        refuse: Refuses tables that the form cannot hold, before anything is written.
        write: Writes the files, and says what each is of.
    """

    title: str
    files: str
    names: tuple[str, ...]
    refuse: Callable[[Edition], None]
    write: Callable[[Path, Edition], list[CubeFile]]


FORMS: Final[Mapping[str, Form]] = {
    "sdmx": Form("SDMX-CSV 2.0", sdmx.FILES, (TABLES, sdmx.STRUCTURE), sdmx.refuse, sdmx.write),
    "json-stat": Form("JSON-stat 2.0", json_stat.FILES, (TABLES,), json_stat.refuse, json_stat.write),
    "px": Form("PX (PC-Axis)", px.FILES, (TABLES,), px.refuse, px.write),
    "xlsx": Form("Excel workbook", xlsx.FILES, (xlsx.WORKBOOK, xlsx.ROWS), xlsx.refuse, xlsx.write),
}
"""The forms of a publication of cubes, by the word that names each in commands and in `publication.json`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish(Declared):
    """What a publication is to hold.

    Attributes:
        tables: Names of tables; None for all.
        geolevel: A geolevel or family of entities; None for all.
        period: Reference period of the counts: a year, month, quarter or day; None for none.
        language: The language that is shown first, or alone; None for the first of the release.
        agency: Identifier of the agency that maintains the structures of SDMX; None for our own.
    """

    tables: Annotated[Many[Name] | None, left_out(None)] = None
    geolevel: Annotated[Name | None, left_out(None)] = None
    period: Annotated[Name | None, left_out(None)] = None
    language: Annotated[Name | None, left_out(None)] = None
    agency: Annotated[Name | None, left_out(None)] = None

    def __post_init__(self) -> None:
        if self.period is not None and not _is_period(self.period):
            raise ConfigError(
                f"the period is {as_given(self.period)}, wanted a year, a month, a quarter or a day, such as 2026, "
                "2026-03, 2026-Q1 or 2026-03-31.",
                code="bad-flag",
            )
        if self.agency is not None and not sdmx.is_agency(self.agency):
            raise ConfigError(
                f"the agency is {as_given(self.agency)}, wanted an identifier of SDMX: letters of English, digits, "
                "hyphens and underscores, with a letter first, and parts joined by dots, such as NSO.DEMOGRAPHY.",
                code="bad-flag",
            )


def publish_cubes(
    root: Path, manifest: Manifest, published: Published, form_name: str, out: Path, wish: Wish
) -> JsonObject:
    """Write tables of a finished release in one form.

    Args:
        root: Folder of the release.
        manifest: Content of its `manifest.json`.
        published: Its tables.
        form_name: A key of `FORMS`.
        out: A new or empty folder outside it, or one where the same command was interrupted.
        wish: What the publication is to hold.
    Returns:
        Content of `publication.json`.
    Raises:
        ConfigError: there is no such table, geolevel or language, or the form cannot hold a table.
        StoreError: the release is damaged; `out` is taken, or cannot be written to.
    Privacy: nothing is spent: the files hold what is published.
    """
    refuse_inputs(out, [root])
    refuse_output_inside(out, root)
    if wish.agency is not None and form_name != "sdmx":
        raise ConfigError(
            f"an agency is given, and {FORMS[form_name].title} names none. Leave it out.", code="bad-flag"
        )
    form, digest = FORMS[form_name], file_digest(root / MANIFEST)
    edition = edition_of(root, manifest, published, digest, wish)
    form.refuse(edition)
    command = f"publish {form_name}"
    with new_folder(out, command, "the tables", (*form.names, README, PUBLICATION)):
        files = form.write(out, edition)
        write_text(out / README, _readme(form, edition))
        content = {
            "format": PUBLICATION_FORMAT,
            "tallyveil": VERSION,
            "release": {
                "name": manifest.body.get("name", ""),
                "run": manifest.run,
                "manifest_sha256": digest,
            },
            **edition.marks.entry(),
            "form": form_name,
            "asked": mapping_of(wish),
            "files": [
                {**file.entry(), **asdict(listed_file(out, file.path))} for file in (*files, CubeFile(README))
            ],
        }
        # The list of files comes last: a folder without it is an interrupted one.
        write_json(out / PUBLICATION, content)
    return content


def edition_of(root: Path, manifest: Manifest, published: Published, digest: str, wish: Wish) -> Edition:
    """What a form is given to write.

    Args:
        root: Folder of the release.
        manifest: Content of its `manifest.json`.
        published: Its tables.
        digest: SHA-256 of its manifest.
        wish: What is to be published of them.
    Raises:
        ConfigError: there is no such table, geolevel or language.
    """
    languages = tuple(published.titles)
    if wish.language is not None:
        if wish.language not in languages:
            raise ConfigError(
                f"the language is {as_given(wish.language)}, and the release has labels in {', '.join(languages)}. "
                "Choose one of these, or leave the language out.",
                code="bad-flag",
            )
        languages = (wish.language, *(name for name in languages if name != wish.language))
    cubes = _chosen(root, published.cubes, wish)
    if wish.period is not None:
        cubes = tuple(_with_period(cube, wish.period, languages) for cube in cubes)
    spent = manifest.spent
    return Edition(
        languages,
        published.titles,
        cubes,
        marks_of(manifest),
        manifest.run,
        digest,
        f"{spent.unit} = {_amount(spent.spent)}",
        wish.agency or sdmx.AGENCY,
        published.licence,
        published.citation,
    )


def _amount(spent: Fraction) -> str:
    """An exact amount, or a bound of a few digits where it has many."""
    text = at_most(spent, 4)
    return text if Fraction(text) == spent else f"{text} (<=)"


def _chosen(root: Path, cubes: Sequence[Cube], wish: Wish) -> tuple[Cube, ...]:
    """The tables that are asked for."""
    tables = list(dict.fromkeys(cube.table for cube in cubes))
    geolevels = list(dict.fromkeys(cube.geolevel for cube in cubes))
    # A query by its factors, in whatever order they are named.
    wanted = None if wish.tables is None else [as_named(name, tables) for name in wish.tables]
    for name in wanted or ():
        if name not in tables:
            raise _no_table(root, f"the table {name!r}", tables)
    if wish.geolevel is not None and wish.geolevel not in geolevels:
        raise _no_table(root, f"tables for {wish.geolevel!r}", list(filter(None, geolevels)))
    chosen = tuple(
        cube
        for cube in cubes
        if (wanted is None or cube.table in wanted)
        and (wish.geolevel is None or cube.geolevel == wish.geolevel)
    )
    if not chosen:
        raise ConfigError(
            f"{root} has none of these tables for {wish.geolevel!r}. Ask for tables and a geolevel that go together."
            if cubes
            else f"{root} has no table that could be published: its release file asks for none.",
            code="no-table",
        )
    return chosen


def _no_table(root: Path, what: str, known: Sequence[str]) -> ConfigError:
    return ConfigError(
        f"{root} does not have {what}. It has {', '.join(known) or 'none'}.",
        code="no-table",
    )


def _with_period(cube: Cube, period: str, languages: Sequence[str]) -> Cube:
    codes = pl.Series([period], dtype=pl.String)
    name = free_name("period", {dimension.name for dimension in cube.dimensions})
    titles = {language: word(language, "period") for language in languages}
    time = Dimension(name, name, codes, titles, dict.fromkeys(languages, codes), "time")
    # The last dimension, of one code: no place changes.
    return replace(cube, dimensions=(*cube.dimensions, time))


def _is_period(text: str) -> bool:
    if re.fullmatch(r"[0-9]{4}(-(0[1-9]|1[0-2])|-Q[1-4])?", text):
        return True
    try:
        return bool(re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text)) and bool(date.fromisoformat(text))
    except ValueError:
        return False


def _readme(form: Form, edition: Edition) -> str:
    text = _README.format(
        title=edition.titles[edition.languages[0]],
        form=form.title,
        run=edition.run,
        digest=edition.digest,
        files=form.files,
        notes="\n\n".join(edition.common_notes(edition.languages[0])),
    )
    return marked_text(edition.marks.lines(), text)


_README: Final = """{title}: tables as {form}

Run {run}; SHA-256 of its manifest.json: {digest}

{files} publication.json lists all files with their SHA-256.

{notes}
"""
