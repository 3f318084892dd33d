"""Publishes tables and microdata of the Demographic and Housing Characteristics in a folder of their own.

With them stand a page for people who open the folder, and checks that hold the written tables to the counts of the
releases.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.errors import ConfigError, SchemaError
from tallyveil.files.histograms import read_histogram
from tallyveil.files.marks import mark_lines
from tallyveil.products.dhc.tables.definitions import PRESETS, DhcTable, load_table, preset_of, table_names
from tallyveil.products.dhc.tables.microdata import CHECK, MICRODATA, write_records
from tallyveil.products.topdown.pl94.layouts import label_rows, table_frames
from tallyveil.products.topdown.pl94.publication import CHECKS as NUMBER_CHECKS
from tallyveil.products.topdown.pl94.publication import (
    GEOCODES,
    GEOGRAPHY_FOLDER,
    LABELS,
    NUMBERS,
    PUBLICATION,
    README,
    TABLES_FOLDER,
    Publication,
    PublicationFolder,
    PublishedAreas,
    SourceRelease,
    check_numbers,
    cost_lines,
    open_source,
    page,
    published_areas,
    require,
    source_counts,
    statements,
    tags_of,
)
from tallyveil.schema.counts import PublicCounts, TripletSum, row_ranges
from tallyveil.schema.schema import Schema
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.outputs import new_folder, refuse_inputs, refuse_output_inside
from tallyveil.storage.paths import inside
from tallyveil.storage.read import collect, scan_parquet

_FILES: Final = """\
tables/<areas>/<table>.parquet    one row for each area: geolevel, geocode, and the columns of the table
geography/<areas>.parquet         one row for each area, in the same order: geocode; finest_geounits, how many
                                  finest geounits it consists of; for each coarser geolevel the geounit that holds
                                  the whole area (empty if none does); POP100, its people, and HU100, its housing
                                  units. For the finest geounits, also the entities that they lie in.
labels.parquet                    what each column counts: table, title, universe, column, position, indent, label,
                                  path
microdata/persons.txt, units.txt  one row for each record, with "|" between the fields, if microdata were asked for;
                                  the Parquet files of the same name have the same rows
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
        f"Tables {', '.join(content['tables']) or '(none)'} of the Demographic and Housing Characteristics. They were "
        "made by Tallyveil from releases with differential privacy. They are no publication of the Census Bureau. "
        "Columns are numbered in the order of their labels, and labels.parquet says what each counts.",
        f"Areas: {', '.join(kinds)}.",
        f"{NUMBERS} Persons and units have noise of their own, so the number of householders of an area may differ "
        "from the number of its occupied housing units.",
        "The microdata are made-up records that have the published counts. No row is the record of a person or a "
        "housing unit.",
        GEOCODES,
        *cost_lines(content),
    ]
    return page(parts, _FILES)


_TOTALS: Final = "the total of every area is the number of its records"
CHECKS: Final = (*NUMBER_CHECKS[:2], _TOTALS, NUMBER_CHECKS[-1], CHECK)
"""Checks in the order of `publication.json`. The last is of the microdata and is left out without them."""


def check_dhc_table(
    path: Path, table: DhcTable, counts: PublicCounts, codes: pl.Series, schema: Schema
) -> None:
    """Verify one written table.

    Args:
        path: Its Parquet file.
        table: What it holds.
        counts: Counts of the same areas.
        codes: Codes of the areas, in order.
        schema: The universe of the counts.
    Raises:
        SolverError: a check failed; the tables must not be published.
        StoreError: the file cannot be read.
    """
    check_numbers(path, table.layout)
    first = table.layout.identifiers[0]
    rows = collect(scan_parquet(path).select("geocode", first), path, "table")
    # Geocodes in order prove that no row was lost, and none exchanged.
    agree = rows["geocode"].equals(codes)
    # A tally counts a record in several lines, so that its total is not the number of records.
    if not table.tallies:
        agree = agree and np.array_equal(rows[first], records_counted(counts, table, schema))
    require(path, _TOTALS, agree)


def records_counted(counts: PublicCounts, table: DhcTable, schema: Schema) -> Integers:
    """Number of records of each area that a table counts, without its query."""
    totals = np.zeros(counts.n_geounits, dtype=np.int64)
    for start, stop in row_ranges(counts.offsets):
        rows, cells, records = counts.rows(start, stop)
        codes = schema.decode(cells)
        inside = np.ones(len(cells), dtype=np.bool_)
        for name, levels in table.counted.items():
            inside &= np.isin(codes[:, schema.attribute_names.index(name)], list(levels))
        np.add.at(totals, start + rows[inside], records[inside])
    return totals


def require_same_records(path: Path, counts: PublicCounts, expected: PublicCounts, schema: Schema) -> None:
    """Verify that two geolevels have the same records of every cell; raises SolverError."""
    ours, theirs = (_all_areas(side, schema) for side in (counts, expected))
    same = all(np.array_equal(left, right) for left, right in zip(ours, theirs, strict=True))
    require(path, NUMBER_CHECKS[-1], same)


def _all_areas(counts: PublicCounts, schema: Schema) -> tuple[Integers, Integers]:
    """The cells that have records in any area, and how many."""
    # Sparse: the DHC schema of units has far more cells than records fill.
    total = TripletSum(1, schema.size)
    for start, stop in row_ranges(counts.offsets):
        rows, cells, records = counts.rows(start, stop)
        total.add(0 * rows, cells, records)
    _, filled, sums = total.finish()
    return filled.astype(np.int64), sums.astype(np.int64)


COMMAND: Final = "publish dhc"
TOTALS: Final = {"persons": ("P1", "POP100"), "units": ("H1", "HU100")}
"""The table whose first column is the total of an area, and the column of the geography that has this total."""


def publish_dhc(
    releases: Sequence[Path],
    out: Path,
    *,
    tables: Sequence[str] | None = None,
    microdata: bool = False,
    csv: bool = False,
) -> Publication:
    """Write tables, and microdata in the published layouts, of releases of persons and of units.

    Args:
        releases: Folders of finished releases with the attributes of schema presets "dhc-persons" or "dhc-units"; one
            of each at most, with the same geography.
        out: A new or empty folder, or one where the same command was interrupted.
        tables: Names of tables, such as "P12"; None for all tables that these releases have, those by race and
            Hispanic origin among them.
        microdata: Whether the microdata are written, too. They need block codes of 15 digits.
        csv: Whether every table, the geography and the labels are written as CSV, too.
    Raises:
        StoreError: a release is not finished or damaged; `out` is taken, an input or in one, written by another
            process, or cannot be written to.
        SchemaError: a release has another schema, or a table is unknown.
        ConfigError: two releases are of the same records, a table is of records that no release has, or nothing
            is asked for.
        GeographyError: the releases have different geographies, or no block codes.
        BudgetError: the releases are stated under different neighbours.
        SolverError: a check of the written files failed.
    Privacy: nothing is spent: everything follows from what is published.
    """
    if tables is not None and not (tables or microdata):
        raise ConfigError(
            "no table is named, and no microdata are asked for. Name tables by their numbers, such as P12 and H4, or "
            "leave --named out for all tables.",
            code="publish-table",
        )
    refuse_inputs(out, releases)
    for root in releases:
        refuse_output_inside(out, root)
    opened = _opened(releases)
    wanted = _wanted_tables(list(opened), tables)
    parts = (
        MICRODATA,
        TABLES_FOLDER,
        GEOGRAPHY_FOLDER,
        f"{LABELS}.parquet",
        f"{LABELS}.csv",
        README,
        PUBLICATION,
    )
    with new_folder(out, COMMAND, "the tables", parts):
        sources = {
            records: replace(
                source, layouts=tuple(table.layout for table in wanted if table.records == records)
            )
            for records, source in opened.items()
        }
        releases_read = list(sources.values())
        folder = PublicationFolder(out, published_areas(releases_read), tags_of(releases_read), csv)
        return _DhcPublication(folder, sources, wanted, microdata).publish()


def _opened(releases: Sequence[Path]) -> dict[str, SourceRelease]:
    """The releases by the kind of their records."""
    sources: dict[str, SourceRelease] = {}
    for root in releases:
        source = open_source(root, ())
        records = next(
            (
                preset_name
                for preset_name in PRESETS
                if preset_of(preset_name).attributes == source.schema.attributes
            ),
            None,
        )
        if records is None:
            raise SchemaError(
                f"the schema '{source.schema.name}' of the release {root} has other attributes or levels than the "
                f"schema presets {' and '.join(PRESETS.values())}. Name releases with one of these presets.",
                code="publish-attributes",
            )
        if records in sources:
            raise ConfigError(
                f"the releases {sources[records].root} and {root} are both of {records}. Name one release of persons, "
                "or one of units, or one of each.",
                code="publish-releases",
            )
        sources[records] = source
    # Persons before units, however the folders were named, so that the same releases give the same files.
    return dict(sorted(sources.items()))


def _wanted_tables(records: Sequence[str], names: Sequence[str] | None) -> tuple[DhcTable, ...]:
    """The tables asked for; all of the releases' records if none are named."""
    if names is None:
        return tuple(load_table(name) for record_kind in records for name in table_names(record_kind))
    tables = tuple(load_table(name) for name in dict.fromkeys(names))
    other = [table.layout.name for table in tables if table.records not in records]
    if other:
        missing = " and ".join(preset for preset in PRESETS if preset not in records)
        raise ConfigError(
            f"tables {', '.join(other)} count {missing}, and no release of {missing} is named. Name one, or leave "
            "these tables out.",
            code="publish-releases",
        )
    return tables


@dataclass(frozen=True, slots=True, eq=False)
class _DhcPublication:
    """Writes the files of one publication; methods return the paths that they wrote."""

    folder: PublicationFolder
    sources: dict[str, SourceRelease]
    tables: tuple[DhcTable, ...]
    microdata: bool

    def publish(self) -> Publication:
        """Write everything."""
        folder, layouts = self.folder, tuple(table.layout for table in self.tables)
        written = folder.write([f"{LABELS}.parquet"], iter([label_rows(layouts)]))
        totals: dict[str, list[pl.Series]] = {name: [] for name in folder.areas.names}
        for records, source in self.sources.items():
            written += self._files_of(records, source, totals)
        written += folder.write_geography(totals)
        content = statements(
            list(self.sources.values()),
            [layout.name for layout in layouts],
            {"microdata": list(self.sources) if self.microdata else []},
        )
        checks = CHECKS if self.microdata else CHECKS[:-1]
        return folder.finish(content, readme_text(content, folder.areas), checks, written)

    def _files_of(self, records: str, source: SourceRelease, totals: dict[str, list[pl.Series]]) -> list[str]:
        """Write the microdata and the tables of one release, and add the total of each area to `totals`."""
        finest = read_histogram(source.root, source.finest, source.schema, source.spine)
        written: list[str] = []
        for name in self.folder.areas.names:
            counts = source_counts(source, name, self.folder.areas.members(name), finest)
            if name in self.folder.areas.geolevels:
                require_same_records(self.folder.out / name, counts, finest, source.schema)
            # Microdata are of the finest geolevel: coarser geounits follow from the block code of each row.
            if name == source.finest and self.microdata:
                codes = self.folder.areas.codes(name)
                written += write_records(
                    self.folder.out, records, counts, codes, source.schema, self.folder.tags
                )
            for table in self.tables:
                if table.records == records:
                    written += self._table(table, name, counts, source)
            totals[name].append(self._total(records, name, counts, source))
        return written

    def _table(self, table: DhcTable, name: str, counts: PublicCounts, source: SourceRelease) -> list[str]:
        folder, codes, layout = self.folder, self.folder.areas.codes(name), table.layout
        schema = table.schema(source.schema)
        paths = folder.write_table(name, layout, table_frames(counts, codes, layout, schema))
        check_dhc_table(inside(folder.out, *paths[0].split("/")), table, counts, codes, source.schema)
        return paths

    def _total(self, records: str, name: str, counts: PublicCounts, source: SourceRelease) -> pl.Series:
        """The number of people or of housing units of each area."""
        table, column = load_table(TOTALS[records][0]), TOTALS[records][1]
        frames = table_frames(
            counts, self.folder.areas.codes(name), table.layout, table.schema(source.schema)
        )
        return pl.concat(frames)[table.layout.identifiers[0]].alias(column)
