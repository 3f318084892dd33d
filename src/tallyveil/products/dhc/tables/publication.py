"""Publishes tables and microdata of the Demographic and Housing Characteristics in a folder of their own."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import polars as pl

from tallyveil.errors import ConfigError, SchemaError
from tallyveil.files.histograms import read_histogram
from tallyveil.files.manifest import listed_file
from tallyveil.products.dhc.tables.checks import CHECKS, check_dhc_table, require_same_records
from tallyveil.products.dhc.tables.definitions import PRESETS, DhcTable, load_table, preset_of, table_names
from tallyveil.products.dhc.tables.microdata import MICRODATA, write_records
from tallyveil.products.dhc.tables.readme import readme_text
from tallyveil.products.topdown.pl94.areas import PublishedAreas, published_areas
from tallyveil.products.topdown.pl94.costs import joint_record, release_record, source_marks
from tallyveil.products.topdown.pl94.layouts import label_rows
from tallyveil.products.topdown.pl94.publication import (
    GEOGRAPHY_FOLDER,
    LABELS,
    PUBLICATION,
    PUBLICATION_FORMAT,
    README,
    TABLES_FOLDER,
    Publication,
    tags_of,
)
from tallyveil.products.topdown.pl94.sources import Source, open_source, source_counts
from tallyveil.products.topdown.pl94.tables import table_frames, write_rows
from tallyveil.schema.counts import PublicCounts
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.outputs import new_folder, refuse_inputs, refuse_output_inside
from tallyveil.storage.paths import file_name, inside
from tallyveil.storage.write import write_json, write_text
from tallyveil.version import VERSION

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
            records: replace(source, layouts=tuple(one.layout for one in wanted if one.records == records))
            for records, source in opened.items()
        }
        job = _Job(out, sources, published_areas(list(sources.values())), wanted, microdata, csv)
        return job.publish()


def _opened(releases: Sequence[Path]) -> dict[str, Source]:
    """The releases by the kind of their records."""
    found: dict[str, Source] = {}
    for root in releases:
        source = open_source(root, ())
        records = next(
            (one for one in PRESETS if preset_of(one).attributes == source.schema.attributes), None
        )
        if records is None:
            raise SchemaError(
                f"the schema '{source.schema.name}' of the release {root} has other attributes or levels than the "
                f"schema presets {' and '.join(PRESETS.values())}. Name releases with one of these presets.",
                code="publish-attributes",
            )
        if records in found:
            raise ConfigError(
                f"the releases {found[records].root} and {root} are both of {records}. Name one release of persons, or "
                "one of units, or one of each.",
                code="publish-releases",
            )
        found[records] = source
    return dict(sorted(found.items()))


def _wanted_tables(records: Sequence[str], names: Sequence[str] | None) -> tuple[DhcTable, ...]:
    """The tables asked for; all of the releases' records if none are named."""
    if names is None:
        return tuple(load_table(name) for one in records for name in table_names(one))
    found = tuple(load_table(name) for name in dict.fromkeys(names))
    other = [one.layout.name for one in found if one.records not in records]
    if other:
        missing = " and ".join(one for one in PRESETS if one not in records)
        raise ConfigError(
            f"tables {', '.join(other)} count {missing}, and no release of {missing} is named. Name one, or leave "
            "these tables out.",
            code="publish-releases",
        )
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    """Writes the files of one publication; methods return the paths that they wrote."""

    out: Path
    sources: dict[str, Source]
    areas: PublishedAreas
    tables: tuple[DhcTable, ...]
    microdata: bool
    csv: bool

    @property
    def tags(self) -> dict[str, str]:
        """What every file says of itself."""
        return tags_of(list(self.sources.values()))

    def publish(self) -> Publication:
        """Write everything."""
        written = self._rows([f"{LABELS}.parquet"], label_rows(tuple(one.layout for one in self.tables)))
        totals: dict[str, list[pl.Series]] = {name: [] for name in self.areas.names}
        for records, source in self.sources.items():
            written += self._files_of(records, source, totals)
        for name in self.areas.names:
            rows = self.areas.rows(name).with_columns(totals[name])
            written += self._rows([GEOGRAPHY_FOLDER, f"{file_name(name)}.parquet"], rows)
        content = self._statements()
        write_text(self.out / README, readme_text(content, self.areas))
        whole = {
            **content,
            "areas": {name: len(self.areas.codes(name)) for name in self.areas.names},
            "checks": list(CHECKS if self.microdata else CHECKS[:-1]),
            "files": [asdict(listed_file(self.out, path)) for path in [README, *written]],
        }
        write_json(self.out / PUBLICATION, whole)
        return Publication(whole, len(written) + 1)

    def _files_of(self, records: str, source: Source, totals: dict[str, list[pl.Series]]) -> list[str]:
        """Write the microdata and the tables of one release, and add the total of each area to `totals`."""
        finest = read_histogram(source.root, source.finest, source.schema, source.spine)
        written: list[str] = []
        for name in self.areas.names:
            counts = source_counts(source, name, self.areas.members(name), finest)
            if name in self.areas.geolevels:
                require_same_records(self.out / name, counts, finest, source.schema)
            if name == source.finest and self.microdata:
                codes = self.areas.codes(name)
                written += write_records(self.out, records, counts, codes, source.schema, self.tags)
            for table in self.tables:
                if table.records == records:
                    written += self._table(table, name, counts, source)
            totals[name].append(self._total(records, name, counts, source))
        return written

    def _table(self, table: DhcTable, name: str, counts: PublicCounts, source: Source) -> list[str]:
        codes, layout = self.areas.codes(name), table.layout
        parts = [TABLES_FOLDER, file_name(name), f"{layout.name}.parquet"]
        frames = table_frames(counts, codes, layout, table.schema(source.schema))
        about = {"table": layout.name, "title": layout.title, "universe": layout.universe}
        write_rows(inside(self.out, *parts), frames, {**self.tags, **about}, csv=self.csv)
        check_dhc_table(inside(self.out, *parts), table, counts, codes, source.schema)
        return self._listed(parts)

    def _total(self, records: str, name: str, counts: PublicCounts, source: Source) -> pl.Series:
        """The number of people or of housing units of each area."""
        table, column = load_table(TOTALS[records][0]), TOTALS[records][1]
        frames = table_frames(counts, self.areas.codes(name), table.layout, table.schema(source.schema))
        return pl.concat(frames)[table.layout.identifiers[0]].alias(column)

    def _rows(self, parts: list[str], rows: pl.DataFrame) -> list[str]:
        write_rows(inside(self.out, *parts), iter([rows]), self.tags, csv=self.csv)
        return self._listed(parts)

    def _listed(self, parts: list[str]) -> list[str]:
        path = "/".join(parts)
        return [path, f"{path.removesuffix('.parquet')}.csv"] if self.csv else [path]

    def _statements(self) -> JsonObject:
        """What the folder says of itself before its files."""
        sources = list(self.sources.values())
        return {
            "format": PUBLICATION_FORMAT,
            "tallyveil": VERSION,
            "tables": [table.layout.name for table in self.tables],
            "microdata": list(self.sources) if self.microdata else [],
            **source_marks(sources).entry(),
            "releases": [release_record(source) for source in sources],
            **({"together": joint_record(sources)} if len(sources) > 1 else {}),
        }
