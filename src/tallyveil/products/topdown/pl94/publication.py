"""Publishes the tables P1 to P5 and H1 from finished releases, in a folder of their own.

With them stands a page for people who open the folder, which says what the releases cost, each by itself and together.
"""

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from tallyveil.accounting.ledger.joint import JointLedgers, read_joint
from tallyveil.accounting.ledger.joint_cost import joint_cost, least_epsilon
from tallyveil.accounting.numbers import at_most, delta_text, exact_text
from tallyveil.files.finished import MANIFEST
from tallyveil.files.histograms import read_histogram
from tallyveil.files.manifest import listed_file
from tallyveil.files.manifest_files import copied_lines
from tallyveil.files.marks import Marks, joint_marks, mark_lines
from tallyveil.files.total import at_once
from tallyveil.products.topdown.pl94.checks import CHECKS, cell_totals, check_sums, check_table
from tallyveil.products.topdown.pl94.layouts import (
    PERSON_TABLES,
    UNIT_TABLES,
    area_totals,
    label_rows,
    table_frames,
    write_rows,
)
from tallyveil.products.topdown.pl94.sources import (
    PublishedAreas,
    SourceRelease,
    open_source,
    published_areas,
    source_counts,
)
from tallyveil.schema.counts import PublicCounts
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.outputs import new_folder, refuse_inputs, refuse_output_inside
from tallyveil.storage.paths import file_name, inside
from tallyveil.storage.write import file_digest, write_json, write_text
from tallyveil.version import VERSION

_WIDTH: Final = 100
"""Columns at which README.txt is wrapped."""

NUMBERS: Final = (
    "All numbers are whole and not negative, and every subtotal is the sum of its parts. They hold the noise of "
    "the releases. A number of a small area may be far from the truth in relation to its size."
)
"""What to know of the numbers of every publication."""

GEOCODES: Final = (
    "Geocodes are text and may begin with a zero. Some programs turn them into numbers when they open a CSV "
    "file. A spreadsheet computes a text that begins with =, +, - or @ as a formula. Import all columns with codes "
    "or names as text."
)
"""What to know of the geocodes of every publication."""

_FILES: Final = """\
tables/<areas>/<table>.parquet    one row for each area: geolevel, geocode, and the columns of the table
geography/<areas>.parquet         one row for each area, in the same order: geocode; finest_geounits, how many
                                  finest geounits it consists of; for each coarser geolevel the geounit that holds
                                  the whole area (empty if none does); POP100, its people; if there is a table H1,
                                  HU100, its housing units. For the finest geounits, also the entities that they
                                  lie in.
labels.parquet                    what each column counts: table, title, universe, column, position, indent, label,
                                  path
publication.json                  where the numbers come from, what they cost, and the SHA-256 of every file
*.csv, if there are any           the same rows as the Parquet files of the same name
"""


def readme_text(content: JsonObject, areas: PublishedAreas) -> str:
    """The text of README.txt.

    Args:
        content: What `publication.json` says.
        areas: The areas.
    """
    kinds = [f"{name} ({len(areas.codes(name)):,})" for name in areas.names]
    parts = [
        *mark_lines(content["warnings"]),
        f"Tables {', '.join(content['tables'])} of the redistricting data (P.L. 94-171), with the identifiers and "
        "labels of the Census Bureau. They were made by Tallyveil from releases with differential privacy. They are "
        "no publication of the Census Bureau.",
        f"Areas: {', '.join(kinds)}.",
        f"{NUMBERS} Persons and housing units have noise of their own, so a block may have people in households and no "
        "occupied housing unit, or the other way round.",
        GEOCODES,
        *cost_lines(content),
    ]
    return page(parts, _FILES)


def page(parts: Iterable[str], files: str) -> str:
    """Paragraphs of a page, wrapped, and the list of the files of its folder."""
    return "\n\n".join(textwrap.fill(part, _WIDTH) for part in parts) + f"\n\nFiles\n\n{files}"


def cost_lines(content: JsonObject) -> list[str]:
    """What each release costs, and what two cost together; one text each."""
    said = [
        f"Release of {release['counts']}: {release['privacy']['statement']}."
        for release in content["releases"]
    ]
    together = content.get("together", {})
    if "rho" in together:
        delta, rho = delta_text(Fraction(together["delta"])), exact_text(Fraction(together["rho"]))
        said.append(
            f"{together['statement']} epsilon <= {at_most(least_epsilon(together))} at delta = {delta}, "
            f"{together['neighbours']} neighbours; rho = {rho}."
        )
    if "not_exact" in together:
        said[-1] += f" This epsilon is an upper bound, and a smaller one may hold: {together['not_exact']}."
    return said


def source_marks(sources: Sequence[SourceRelease]) -> Marks:
    """What must be said of all that follows from these releases."""
    return joint_marks({f"release of {source.schema.unit.many}": source.manifest for source in sources})


def release_record(source: SourceRelease) -> JsonObject:
    """Which release it is, and its own guarantee, as its manifest states them."""
    manifest = source.manifest
    return {
        "name": manifest.body["name"],
        "run": manifest.run,
        "counts": source.schema.unit.many,
        "tables": [layout.name for layout in source.layouts],
        "manifest_sha256": file_digest(source.root / MANIFEST),
        "protected": manifest.protected,
        "warnings": list(manifest.warnings),
        "declassified": list(manifest.declassified),
        "privacy": manifest.privacy,
    }


def joint_record(sources: Sequence[SourceRelease]) -> JsonObject:
    """What two releases guarantee together, as `joint_cost` states it, with a sentence.

    Raises:
        StoreError: a ledger cannot be read.
        BudgetError: the releases are stated under different neighbours.
    """
    # Releases that protect nobody have no guarantee, and none may be computed for them.
    if not (marks := source_marks(sources)).protected:
        return {"statement": " ".join(marks.lines())}
    folders = [source.root for source in sources]
    joint = read_joint(folders, {source.root: copied_lines(source.manifest) for source in sources})
    # Both guarantees hold at the larger delta; at the smaller one, the other release has none that was stated.
    delta = max(Fraction(source.manifest.privacy["exact"]["delta"]) for source in sources)
    return {**joint_cost(joint, delta), "statement": _statement(sources, joint)}


def _statement(sources: Sequence[SourceRelease], joint: JointLedgers) -> str:
    change = at_once([source.schema.unit for source in sources], joint.neighbours)
    return (
        f"Both releases together, when {change}. The tables add nothing to this cost, because they are sums of "
        "published counts."
    )


COMMAND: Final = "publish pl94"
PUBLICATION: Final = "publication.json"
PUBLICATION_FORMAT: Final = 1
"""Version of `publication.json`; it rises when a reader of the file would have to change."""
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
    folders = [(persons, PERSON_TABLES), *([(units, UNIT_TABLES)] if units is not None else [])]
    refuse_inputs(out, [root for root, _ in folders])
    for root, _ in folders:
        refuse_output_inside(out, root)
    parts = (TABLES_FOLDER, GEOGRAPHY_FOLDER, f"{LABELS}.parquet", f"{LABELS}.csv", README, PUBLICATION)
    with new_folder(out, COMMAND, "the tables", parts):
        return _publish([open_source(root, layouts) for root, layouts in folders], out, csv=csv)


def _publish(sources: Sequence[SourceRelease], out: Path, *, csv: bool) -> Publication:
    areas = published_areas(sources)
    content = _statements(sources)
    job = _Pl94Publication(out, sources, areas, csv, tags_of(sources))
    written = [*job.labels(), *job.tables()]
    write_text(out / README, readme_text(content, areas))
    files = [listed_file(out, path) for path in [README, *written]]
    # publication.json is written last, with the digest of every other file: a folder without it is not finished.
    whole = {
        **content,
        "areas": {name: len(areas.codes(name)) for name in areas.names},
        "checks": list(CHECKS),
        "files": [asdict(file) for file in files],
    }
    write_json(out / PUBLICATION, whole)
    return Publication(whole, len(files))


def _statements(sources: Sequence[SourceRelease]) -> JsonObject:
    """What the folder says of itself before its files."""
    return {
        "format": PUBLICATION_FORMAT,
        "tallyveil": VERSION,
        "tables": [layout.name for source in sources for layout in source.layouts],
        **source_marks(sources).entry(),
        "releases": [release_record(source) for source in sources],
        **({"together": joint_record(sources)} if len(sources) > 1 else {}),
    }


def tags_of(sources: Sequence[SourceRelease]) -> dict[str, str]:
    """What every file of a publication says of the releases behind it."""
    return {"runs": ", ".join(source.manifest.run for source in sources), **source_marks(sources).tags()}


@dataclass(frozen=True, slots=True, eq=False)
class _Pl94Publication:
    """Writes the files of one publication; every method returns their paths in the folder."""

    out: Path
    sources: Sequence[SourceRelease]
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
            # Read once: all areas off the spine are sums of it.
            finest = read_histogram(source.root, source.finest, source.schema, source.spine)
            expected = cell_totals(finest, source.schema)
            everything = np.ones(source.schema.size, dtype=np.int64)
            for name in self.areas.names:
                counts = source_counts(source, name, self.areas.members(name), finest)
                if name in self.areas.geolevels:
                    # Geolevels cover the country, entities need not; only the former must have the same sums.
                    check_sums(self.out, name, cell_totals(counts, source.schema), expected)
                written += self._tables_of(source, name, counts)
                column = TOTALS[source.layouts]
                totals[name][column] = pl.Series(column, area_totals(counts, everything))
        for name in self.areas.names:
            rows = self.areas.rows(name).with_columns(totals[name].values())
            written += self._write([GEOGRAPHY_FOLDER, f"{file_name(name)}.parquet"], iter([rows]))
        return written

    def _tables_of(self, source: SourceRelease, name: str, counts: PublicCounts) -> list[str]:
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
