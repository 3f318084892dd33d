"""What a form of publication is given to write, and what it says of its files."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tallyveil.files.cubes.cube import Cube, Texts
from tallyveil.files.marks import Marks
from tallyveil.files.tables import TABLES
from tallyveil.storage.paths import file_name, inside
from tallyveil.storage.write import write_file
from tallyveil.words.language import language_of


@dataclass(frozen=True, slots=True)
class CubeFile:
    """A file of a publication.

    Attributes:
        path: Within the folder of the publication.
        cube: The table that it holds; None where it holds several, or none.
    """

    path: str
    cube: Cube | None = None

    def entry(self) -> dict[str, str]:
        """What `publication.json` says of it, beside its path, its size and its digest."""
        if self.cube is None:
            return {}
        return {"geolevel": self.cube.geolevel, "table": self.cube.table}


@dataclass(frozen=True, slots=True, eq=False)
class Edition:
    """Tables of one release, as they are published.

    Attributes:
        languages: The first is shown without a choice, or alone where a form has one language.
        titles: What the release is called.
        cubes: The tables.
        marks: What must be said wherever the release is shown.
        run: Public name of the run.
        digest: SHA-256 of the manifest of the release.
        spent: The budget that the release has spent.
        agency: Identifier of the agency that maintains the structures of SDMX.
        licence, citation: What the release says of them; None where it says nothing.
    """

    languages: tuple[str, ...]
    titles: Texts
    cubes: tuple[Cube, ...]
    marks: Marks
    run: str
    digest: str
    spent: str
    agency: str
    licence: str | None
    citation: str | None

    def notes(self, cube: Cube, language: str) -> list[str]:
        """What readers of a table must know; the marks first."""
        return [*self.mark_lines(language), *cube.notes[language]]

    def mark_lines(self, language: str) -> list[str]:
        """The marks in a language."""
        return self.marks.lines(language_of(language))

    def common_notes(self, language: str) -> list[str]:
        """What holds for all tables, in the order of the first."""
        first, *others = (cube.notes[language] for cube in self.cubes)
        return [note for note in first if all(note in notes for notes in others)]


def write_tables(
    out: Path, edition: Edition, ending: str, write: Callable[[BinaryIO, Cube], None]
) -> list[CubeFile]:
    """Write a file for each table.

    Args:
        out: Folder of the publication.
        edition: The tables.
        ending: Ending of the files.
        write: Writes one table.
    Raises:
        StoreError: a file cannot be written.
    """
    return [_write_table(out, cube, ending, write) for cube in edition.cubes]


def _write_table(out: Path, cube: Cube, ending: str, write: Callable[[BinaryIO, Cube], None]) -> CubeFile:
    folder = (file_name(cube.geolevel),) if cube.geolevel else ()
    names = (TABLES, *folder, f"{file_name(cube.table)}{ending}")

    def fill(temporary: Path) -> None:
        with temporary.open("wb") as stream:
            write(stream, cube)

    write_file(inside(out, *names), fill)
    return CubeFile("/".join(names), cube)
