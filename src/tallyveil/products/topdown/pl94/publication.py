"""Publishes the tables P1 to P5 and H1 from finished releases, in a folder of their own."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from tallyveil.files.histograms import read_histogram
from tallyveil.files.manifest import listed_file
from tallyveil.products.topdown.pl94.areas import PublishedAreas, published_areas
from tallyveil.products.topdown.pl94.checks import CHECKS, cell_totals, check_sums, check_table
from tallyveil.products.topdown.pl94.costs import joint_record, release_record, source_marks
from tallyveil.products.topdown.pl94.layouts import PERSON_TABLES, UNIT_TABLES, label_rows
from tallyveil.products.topdown.pl94.readme import readme_text
from tallyveil.products.topdown.pl94.sources import Source, open_source, source_counts
from tallyveil.products.topdown.pl94.tables import area_totals, table_frames, write_rows
from tallyveil.schema.counts import PublicCounts
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.outputs import new_folder, refuse_inputs, refuse_output_inside
from tallyveil.storage.paths import file_name, inside
from tallyveil.storage.write import write_json, write_text
from tallyveil.version import VERSION

COMMAND: Final = "publish pl94"
PUBLICATION: Final = "publication.json"
PUBLICATION_FORMAT: Final = 1
GEOGRAPHY_FOLDER, TABLES_FOLDER, LABELS, README = "geography", "tables", "labels", "README.txt"
TOTALS: Final = {PERSON_TABLES: "POP100", UNIT_TABLES: "HU100"}
"""Columns of the geography that hold the total of each area, named as the Bureau names them."""


@dataclass(frozen=True, slots=True)
class Publication:
    """What was published.

    Attributes:
        content: Content of `publication.json`.
        files: Number of files beside it.
    """

    content: JsonObject
    files: int


def publish_pl94(persons: Path, units: Path | None, out: Path, *, csv: bool = False) -> Publication:
    """Write the tables of the redistricting data for every area that the releases publish.

    Args:
        persons: Folder of a finished release with the attributes of schema preset "pl94-persons".
        units: The same of "pl94-units", with the same geography; None to leave out H1.
        out: A new or empty folder, or one where the same command was interrupted.
        csv: Whether every table, the geography and the labels are written as CSV, too.
    Raises:
        StoreError: a release is not finished or damaged; `out` is taken, an input or in one, written by
            another process, or cannot be written to.
        SchemaError: a schema lacks an attribute of the tables.
        GeographyError: the releases have different geographies.
        BudgetError: the releases are stated under different neighbours.
        SolverError: a check of the written tables failed.
    Privacy: nothing is spent: everything follows from what is published.
    """
    given = [(persons, PERSON_TABLES), *([(units, UNIT_TABLES)] if units is not None else [])]
    refuse_inputs(out, [root for root, _ in given])
    for root, _ in given:
        refuse_output_inside(out, root)
    parts = (TABLES_FOLDER, GEOGRAPHY_FOLDER, f"{LABELS}.parquet", f"{LABELS}.csv", README, PUBLICATION)
    with new_folder(out, COMMAND, "the tables", parts):
        return _publish([open_source(root, layouts) for root, layouts in given], out, csv=csv)


def _publish(sources: Sequence[Source], out: Path, *, csv: bool) -> Publication:
    areas = published_areas(sources)
    content = _statements(sources)
    job = _Job(out, sources, areas, csv, tags_of(sources))
    written = [*job.labels(), *job.tables()]
    write_text(out / README, readme_text(content, areas))
    files = [listed_file(out, path) for path in [README, *written]]
    whole = {
        **content,
        "areas": {name: len(areas.codes(name)) for name in areas.names},
        "checks": list(CHECKS),
        "files": [asdict(file) for file in files],
    }
    write_json(out / PUBLICATION, whole)
    return Publication(whole, len(files))


def _statements(sources: Sequence[Source]) -> JsonObject:
    """What the folder says of itself before its files."""
    return {
        "format": PUBLICATION_FORMAT,
        "tallyveil": VERSION,
        "tables": [layout.name for source in sources for layout in source.layouts],
        **source_marks(sources).entry(),
        "releases": [release_record(source) for source in sources],
        **({"together": joint_record(sources)} if len(sources) > 1 else {}),
    }


def tags_of(sources: Sequence[Source]) -> dict[str, str]:
    """What every file of a publication says of the releases behind it."""
    return {"runs": ", ".join(source.manifest.run for source in sources), **source_marks(sources).tags()}


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    """Writes the files of one publication; every method returns their paths in the folder."""

    out: Path
    sources: Sequence[Source]
    areas: PublishedAreas
    csv: bool
    tags: Mapping[str, str]

    def labels(self) -> list[str]:
        """Write the labels of all columns."""
        layouts = tuple(layout for source in self.sources for layout in source.layouts)
        return self._write([f"{LABELS}.parquet"], iter([label_rows(layouts)]))

    def tables(self) -> list[str]:
        """Write and check the tables of all kinds of areas, then the geography with the total of each area."""
        written: list[str] = []
        totals: dict[str, dict[str, pl.Series]] = {name: {} for name in self.areas.names}
        for source in self.sources:
            finest = read_histogram(source.root, source.finest, source.schema, source.spine)
            expected = cell_totals(finest, source.schema)
            everything = np.ones(source.schema.size, dtype=np.int64)
            for name in self.areas.names:
                counts = source_counts(source, name, self.areas.members(name), finest)
                if name in self.areas.geolevels:
                    check_sums(self.out, name, cell_totals(counts, source.schema), expected)
                written += self._tables_of(source, name, counts)
                column = TOTALS[source.layouts]
                totals[name][column] = pl.Series(column, area_totals(counts, everything))
        for name in self.areas.names:
            rows = self.areas.rows(name).with_columns(totals[name].values())
            written += self._write([GEOGRAPHY_FOLDER, f"{file_name(name)}.parquet"], iter([rows]))
        return written

    def _tables_of(self, source: Source, name: str, counts: PublicCounts) -> list[str]:
        codes, written = self.areas.codes(name), []
        for layout in source.layouts:
            parts = [TABLES_FOLDER, file_name(name), f"{layout.name}.parquet"]
            frames = table_frames(counts, codes, layout, source.schema)
            about = {"table": layout.name, "title": layout.title, "universe": layout.universe}
            written += self._write(parts, frames, about)
            check_table(inside(self.out, *parts), layout, counts, codes, source.schema)
        return written

    def _write(
        self, parts: list[str], frames: Iterator[pl.DataFrame], about: Mapping[str, str] | None = None
    ) -> list[str]:
        write_rows(inside(self.out, *parts), frames, {**self.tags, **(about or {})}, csv=self.csv)
        path = "/".join(parts)
        return [path, f"{path.removesuffix('.parquet')}.csv"] if self.csv else [path]
