"""Publishes the tables P1 to P5 and H1 from finished releases, in a folder of their own.

The releases share their geography, and the areas of the tables are theirs. With the tables stands a page for
people who open the folder, which says what the releases cost, each by itself and together. The written tables
are read back and held to the counts of the releases.
"""

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import polars as pl

from tallyveil.accounting.ledger.joint import JointLedgers, read_joint
from tallyveil.accounting.ledger.joint_cost import joint_cost, least_epsilon
from tallyveil.accounting.numbers import at_most, delta_text, exact_text
from tallyveil.arrays import Integers
from tallyveil.errors import GeographyError, SchemaError, SolverError
from tallyveil.files.finished import MANIFEST
from tallyveil.files.geography import ENTITY, GEOGRAPHY, ORIGINAL, family_of_column, read_geography
from tallyveil.files.histograms import area_counts, histogram_path, read_histogram
from tallyveil.files.manifest import Manifest, ReleaseKind, listed_file
from tallyveil.files.manifest_files import copied_lines, read_manifest, require_unchanged
from tallyveil.files.marks import Marks, joint_marks, mark_lines
from tallyveil.files.total import at_once
from tallyveil.geography.spine import Spine
from tallyveil.plans.guarantee import with_guarantee
from tallyveil.products.topdown.pl94.layouts import (
    HOUSEHOLD,
    PERSON_TABLES,
    UNIT_TABLES,
    TableLayout,
    area_totals,
    column_matrix,
    label_rows,
    table_frames,
    write_rows,
)
from tallyveil.schema.counts import PublicCounts, row_ranges, sum_members
from tallyveil.schema.schema import Schema, schema_from_mapping
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.outputs import new_folder, refuse_inputs, refuse_output_inside
from tallyveil.storage.paths import file_name, inside
from tallyveil.storage.read import collect, published_columns, read_published, scan_parquet
from tallyveil.storage.write import file_digest, write_json, write_text
from tallyveil.version import VERSION

_BESIDE: Final = {"hhgq": {HOUSEHOLD}, "votingage": {"under_18"}}
"""Levels that an attribute has although no column of the tables counts them."""


@dataclass(frozen=True, slots=True, eq=False)
class SourceRelease:
    """A finished release that tables are made from.

    Attributes:
        root: Its folder.
        manifest: Content of its `manifest.json`.
        schema: Its universe.
        spine: The hierarchy that was measured.
        layouts: The tables that are made from it.
        geolevels: Geolevels as people know them, fewest areas first. Those that the spine cut or replaced have their
            original geounits.
        entities: Families of entities that it publishes tables of.
        blocks: One row for each finest geounit, sorted by geocode, with a column for each of the geolevels and
            entities: the geocode or the entity that it lies in, null for none, a list where entities overlap.
        own_levels: The geolevels among these that are geolevels of the spine.
    """

    root: Path
    manifest: Manifest
    schema: Schema
    spine: Spine
    layouts: tuple[TableLayout, ...]
    geolevels: tuple[str, ...]
    entities: tuple[str, ...]
    blocks: pl.DataFrame
    own_levels: frozenset[str]

    @property
    def finest(self) -> str:
        """Name of the finest geolevel."""
        return self.spine.geolevels[-1]


def open_source(root: Path, layouts: tuple[TableLayout, ...]) -> SourceRelease:
    """Open a finished release for some tables.

    Args:
        root: Folder of the release.
        layouts: The tables.
    Raises:
        StoreError: the folder holds no finished release of `tallyveil run` or `tallyveil estimate`, or a file is
            not the one that its manifest lists.
        SchemaError: its schema lacks an attribute of the tables, or an attribute has other levels.
    """
    manifest = with_guarantee(root, read_manifest(root, ReleaseKind.TOPDOWN))
    plan = manifest.body["plan"]
    schema = schema_from_mapping(plan["schema"])
    _require_attributes(root, schema, layouts)
    require_unchanged(root, manifest, root / GEOGRAPHY)
    spine = read_geography(root)
    entities = tuple(plan.get("entities", ()))
    stored = published_columns(root / GEOGRAPHY)
    # Where a step cut a geolevel, people know the geolevel of the geography, which stands under a prefix.
    replaced = [name.removeprefix(ORIGINAL) for name in stored if name.startswith(ORIGINAL)]
    levels = [name for name in spine.geolevels if name not in replaced]
    columns = {
        **{name: name for name in levels},
        **{ORIGINAL + name: name for name in replaced},
        **{ENTITY + name: name for name in entities},
    }
    blocks = read_published(root / GEOGRAPHY, list(columns)).rename(columns).sort(spine.geolevels[-1])
    # Files are held to the manifest before they are read: later ones are read without a check.
    for name in levels:
        require_unchanged(root, manifest, histogram_path(root, name))
    geolevels = coarse_first(blocks, list(dict.fromkeys([*spine.geolevels, *replaced])))
    return SourceRelease(
        root, manifest, schema, spine, layouts, geolevels, entities, blocks, frozenset(levels)
    )


def coarse_first(blocks: pl.DataFrame, names: Sequence[str]) -> tuple[str, ...]:
    """Geolevels in the order of the number of their geounits; equal numbers in the order given."""
    return tuple(sorted(names, key=lambda name: blocks[name].n_unique()))


def _require_attributes(root: Path, schema: Schema, layouts: Sequence[TableLayout]) -> None:
    """Refuse a schema that lacks attributes of the tables, or has them with other levels."""
    known = {attribute.name: set(attribute.levels) for attribute in schema.attributes}
    missing: dict[str, list[str]] = {}
    other: dict[str, list[str]] = {}
    for layout in layouts:
        for place, name in enumerate(layout.attributes):
            counted = {levels[place] for column in layout.columns for levels in column.counts}
            if name not in known:
                missing.setdefault(name, []).append(layout.name)
            # Levels that no column counts may be missing or there; any other level would belong to no column.
            elif not counted <= known[name] <= counted | _BESIDE.get(name, set()):
                other.setdefault(name, []).append(layout.name)
    said = [f"has no attribute {_needed(missing)}"] if missing else []
    said += [f"has other levels than production for attribute {_needed(other)}"] if other else []
    if said:
        raise SchemaError(
            f"the schema '{schema.name}' of the release {root} {', and '.join(said)}. To make "
            f"{', '.join(layout.name for layout in layouts)}, name a release with the attributes and levels of "
            f"schema preset {'pl94-units' if layouts[0].name == 'H1' else 'pl94-persons'}.",
            code="publish-attributes",
        )


def _needed(names: Mapping[str, Sequence[str]]) -> str:
    return ", ".join(f"{name} (for {', '.join(dict.fromkeys(tables))})" for name, tables in names.items())


def source_counts(
    source: SourceRelease, name: str, members: pl.DataFrame, finest: PublicCounts
) -> PublicCounts:
    """Published counts of all areas of a kind, in the order of their codes.

    Args:
        source: The release.
        name: Geolevel or family; it need not be one of this release.
        members: Finest geounits and the area, or list of areas, that each lies in; two columns.
        finest: Counts of the finest geolevel of the release.
    Raises:
        StoreError: a histogram cannot be read.
    """
    # No histogram was published for these areas. Their counts are sums of the finest geolevel.
    if name not in source.own_levels:
        return area_counts(finest, family_of_column(source.spine, members), source.schema.size)
    counts = finest
    if name != source.finest:
        counts = read_histogram(source.root, name, source.schema, source.spine)
    codes = source.spine.geocodes[source.spine.level_index(name)].text
    # The spine sorts by tree; tables are sorted by code, which differs where the steps moved geounits.
    if codes.is_sorted():
        return counts
    order = codes.arg_sort().to_numpy().astype("int64")
    # One member for each area: summing over them only permutes the rows.
    each_once = pl.int_range(len(codes) + 1, eager=True).to_numpy()
    summed = sum_members(counts.offsets, counts.cells, counts.counts, each_once, order, source.schema.size)
    return PublicCounts(name, *summed)


@dataclass(frozen=True, slots=True, eq=False)
class PublishedAreas:
    """All areas of a publication: those of its releases, which share their geography.

    Attributes:
        finest: Name of the finest geolevel.
        geolevels: Names of the geolevels, fewest areas first.
        entities: Names of the families of entities.
        blocks: As in `SourceRelease`.
    """

    finest: str
    geolevels: tuple[str, ...]
    entities: tuple[str, ...]
    blocks: pl.DataFrame

    @property
    def names(self) -> tuple[str, ...]:
        """Geolevels and families of entities."""
        return (*self.geolevels, *self.entities)

    def members(self, name: str) -> pl.DataFrame:
        """The finest geounits and the area of a kind that each lies in."""
        area = self.blocks[name]
        return pl.DataFrame([self.blocks[self.finest].alias("finest_geounits"), area])

    def codes(self, name: str) -> pl.Series:
        """Codes of all areas of a kind, sorted."""
        column = self.blocks[name]
        held = column.explode(empty_as_null=False) if isinstance(column.dtype, pl.List) else column
        return held.drop_nulls().unique().sort()

    def rows(self, name: str) -> pl.DataFrame:
        """One row for each area of a kind, in the order of codes.

        Columns: `geocode`; the number of its finest geounits; then, for each coarser geolevel, the geounit that holds
        the whole area (null if none does). Finest geounits also have their entities, if these do not overlap.
        """
        names = (
            self.geolevels[: self.geolevels.index(name)] if name in self.geolevels else self.geolevels[:-1]
        )
        if name == self.finest:
            lists = {column for column in self.entities if isinstance(self.blocks.schema[column], pl.List)}
            names = (*names, *(column for column in self.entities if column not in lists))
        held = self.blocks.select(pl.col(name).alias("geocode"), *names)
        if isinstance(held.schema["geocode"], pl.List):
            held = held.explode("geocode", empty_as_null=False)
        whole = [
            pl.when(pl.col(column).n_unique() == 1).then(pl.col(column).first()).alias(column)
            for column in names
        ]
        grouped = held.drop_nulls("geocode").group_by("geocode")
        return grouped.agg(pl.len().cast(pl.Int64).alias("finest_geounits"), *whole).sort("geocode")


RESERVED: Final = ("geocode", "finest_geounits", "POP100", "HU100")
"""Columns of the geography that no geolevel and no family may be named like."""


def published_areas(sources: Sequence[SourceRelease]) -> PublishedAreas:
    """The areas of one release, or of two with the same geography.

    Raises:
        GeographyError: the releases have other finest geounits, or areas of the same name with other members; or a
            geolevel or family has the name of another column of the geography.
    """
    first = sources[0]
    blocks, geolevels, entities = first.blocks, list(first.geolevels), list(first.entities)
    for source in sources[1:]:
        _require_same(first, source)
        more = [name for name in source.blocks.columns if name not in blocks.columns]
        blocks = blocks.with_columns(source.blocks.select(more))
        geolevels += [name for name in source.geolevels if name in more]
        entities += [name for name in source.entities if name in more]
    if reserved := [name for name in blocks.columns if name in RESERVED]:
        raise GeographyError(
            f"{', '.join(reserved)} is the name of a geolevel or family of {first.root}, and of a column of the "
            "geography that is published with the tables. Rename it in the release file.",
            code="publish-geography",
        )
    return PublishedAreas(first.finest, coarse_first(blocks, geolevels), tuple(entities), blocks)


def _require_same(left: SourceRelease, right: SourceRelease) -> None:
    both = f"{left.root} and {right.root}"
    mend = (
        "Tables of both belong into one publication only if they count the same areas. Publish each by itself, or make "
        "both releases with the same geography and entity tables."
    )
    if left.finest != right.finest:
        raise GeographyError(
            f"the finest geolevel of {left.root} is {left.finest}, that of {right.root} is {right.finest}. {mend}",
            code="publish-geography",
        )
    ours, theirs = left.blocks[left.finest], right.blocks[left.finest]
    apart = sorted(set(ours) ^ set(theirs)) if not ours.equals(theirs) else []
    if apart:
        raise GeographyError(
            f"{both} have different geographies: {len(apart)} {left.finest} geounits are in one of them only, such as "
            f"'{apart[0]}'. {mend}",
            code="publish-geography",
        )
    for name in [name for name in left.blocks.columns if name in right.blocks.columns]:
        here, there = left.blocks[name], right.blocks[name]
        if here.dtype != there.dtype or not here.equals(there):
            raise GeographyError(
                f"{both} have different geographies: {name} does not have the same areas in both. {mend}",
                code="publish-geography",
            )


CHECKS: Final = (
    "no number is negative or missing",
    "every subtotal is the sum of its parts",
    "every area has the release's counts",
    "every column adds up to the release's counts",
    "all geolevels add up to the same counts",
)


def check_table(
    path: Path, layout: TableLayout, counts: PublicCounts, codes: pl.Series, schema: Schema
) -> None:
    """Verify one written table.

    Args:
        path: Its Parquet file.
        layout: What it holds.
        counts: The release's counts of the same areas.
        codes: Codes of the areas, in order.
        schema: The universe of the counts.
    Raises:
        SolverError: a check failed; the tables must not be published.
        StoreError: the file cannot be read.
    """
    check_numbers(path, layout)
    names = layout.identifiers
    frame = scan_parquet(path)
    matrix = column_matrix(layout, schema)
    # Numbers in the wrong column or row change the weighted sum of a row.
    weights = np.arange(1, len(names) + 1, dtype=np.int64) ** 2
    weighted = pl.sum_horizontal(
        pl.col(name) * int(weight) for name, weight in zip(names, weights, strict=True)
    )
    rows = collect(frame.select("geocode", names[0], weighted.alias("weighted")), path, "table")
    agree = (
        rows["geocode"].equals(codes)
        and np.array_equal(rows[names[0]], area_totals(counts, matrix[0]))
        and np.array_equal(rows["weighted"], area_totals(counts, weights @ matrix))
    )
    require(path, CHECKS[2], agree)
    # Column sums find what a weighted sum of a row cannot: two errors of one row that cancel.
    sums = collect(frame.select(pl.col(names).sum()), path, "table").row(0)
    require(path, CHECKS[3], list(sums) == (matrix @ cell_totals(counts, schema)).tolist())


def check_numbers(path: Path, layout: TableLayout) -> None:
    """Verify that no number of a written table is negative or missing, and that subtotals are sums.

    Raises:
        SolverError: a check failed; the tables must not be published.
        StoreError: the file cannot be read.
    """
    names = layout.identifiers
    columns = pl.col(names)
    wrong = [
        (pl.sum_horizontal(pl.col([names[part] for part in column.parts])) != pl.col(column.identifier)).sum()
        for column in layout.columns
        if column.parts
    ]
    # One pass over the file for both checks: a table of blocks has millions of rows.
    flawed = pl.sum_horizontal((columns < 0).sum() + columns.null_count())
    frame = scan_parquet(path)
    numbers = collect(
        frame.select(pl.sum_horizontal(pl.lit(0), *wrong).alias("wrong"), flawed.alias("flawed")),
        path,
        "table",
    )
    require(path, CHECKS[0], numbers["flawed"][0] == 0)
    require(path, CHECKS[1], numbers["wrong"][0] == 0)


def check_sums(root: Path, geolevel: str, totals: Integers, expected: Integers) -> None:
    """Verify that a geolevel has as many records of every cell as the finest geolevel.

    Args:
        root: Folder of the release.
        geolevel: The geolevel.
        totals: Its records by cell.
        expected: Those of the finest geolevel.
    Raises:
        SolverError: it has not.
    """
    require(root / geolevel, CHECKS[4], np.array_equal(totals, expected))


def cell_totals(counts: PublicCounts, schema: Schema) -> Integers:
    """Records of all areas together, by cell."""
    totals = np.zeros(schema.size, dtype=np.int64)
    for start, stop in row_ranges(counts.offsets):
        _, cells, records = counts.rows(start, stop)
        # add.at and no bincount: the sum must be of int64, and bincount adds weights as floats.
        np.add.at(totals, cells, records)
    return totals


def require(path: Path, name: str, passed: bool) -> None:
    """Go on only if a check of a file or a folder has passed; raises SolverError otherwise."""
    if not passed:
        raise SolverError(
            f"a check of {path} failed: {name}. The tables must not be published; keep the folder and report this.",
            code="check-failed",
        )


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
    """Which release it is, and its own guarantee."""
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
    folder = PublicationFolder(out, published_areas(sources), tags_of(sources), csv)
    layouts = tuple(layout for source in sources for layout in source.layouts)
    # First, since releases that cannot be stated together are refused.
    content = statements(sources, [layout.name for layout in layouts])
    written = folder.write([f"{LABELS}.parquet"], iter([label_rows(layouts)]))
    written += _write_tables(folder, sources)
    return folder.finish(content, readme_text(content, folder.areas), CHECKS, written)


def statements(
    sources: Sequence[SourceRelease], tables: Sequence[str], besides: Mapping[str, Any] = MappingProxyType({})
) -> JsonObject:
    """What a folder says of itself before its files: its tables, what it holds besides, and the releases."""
    return {
        "format": PUBLICATION_FORMAT,
        "tallyveil": VERSION,
        "tables": list(tables),
        **besides,
        **source_marks(sources).entry(),
        "releases": [release_record(source) for source in sources],
        **({"together": joint_record(sources)} if len(sources) > 1 else {}),
    }


def tags_of(sources: Sequence[SourceRelease]) -> dict[str, str]:
    """What every file of a publication says of the releases behind it."""
    return {"runs": ", ".join(source.manifest.run for source in sources), **source_marks(sources).tags()}


@dataclass(frozen=True, slots=True, eq=False)
class PublicationFolder:
    """The folder of a publication while it is written; methods return the paths in it that they wrote.

    Attributes:
        out: The folder.
        areas: The areas of its tables.
        tags: What every file says of the releases behind it.
        csv: Whether every file of rows is written as CSV, too.
    """

    out: Path
    areas: PublishedAreas
    tags: Mapping[str, str]
    csv: bool

    def write(
        self, parts: list[str], frames: Iterator[pl.DataFrame], about: Mapping[str, str] | None = None
    ) -> list[str]:
        """Write the rows of one file."""
        write_rows(inside(self.out, *parts), frames, {**self.tags, **(about or {})}, csv=self.csv)
        path = "/".join(parts)
        return [path, f"{path.removesuffix('.parquet')}.csv"] if self.csv else [path]

    def write_table(self, area: str, layout: TableLayout, frames: Iterator[pl.DataFrame]) -> list[str]:
        """Write one table of one kind of areas."""
        about = {"table": layout.name, "title": layout.title, "universe": layout.universe}
        return self.write([TABLES_FOLDER, file_name(area), f"{layout.name}.parquet"], frames, about)

    def write_geography(self, totals: Mapping[str, Iterable[pl.Series]]) -> list[str]:
        """Write the areas of every kind, with the totals of each area."""
        written: list[str] = []
        for name in self.areas.names:
            rows = self.areas.rows(name).with_columns(totals[name])
            written += self.write([GEOGRAPHY_FOLDER, f"{file_name(name)}.parquet"], iter([rows]))
        return written

    def finish(
        self, content: JsonObject, readme: str, checks: Sequence[str], written: Sequence[str]
    ) -> Publication:
        """Write the page for people, and then what the folder says of itself and its files."""
        write_text(self.out / README, readme)
        # Last, with the digest of every other file: a folder without it is not finished.
        whole = {
            **content,
            "areas": {name: len(self.areas.codes(name)) for name in self.areas.names},
            "checks": list(checks),
            "files": [asdict(listed_file(self.out, path)) for path in [README, *written]],
        }
        write_json(self.out / PUBLICATION, whole)
        return Publication(whole, len(written) + 1)


def _write_tables(folder: PublicationFolder, sources: Sequence[SourceRelease]) -> list[str]:
    """Write and check the tables of all kinds of areas, then the geography with the total of each area."""
    written: list[str] = []
    areas = folder.areas
    totals: dict[str, list[pl.Series]] = {name: [] for name in areas.names}
    for source in sources:
        # Read once: all areas off the spine are sums of it.
        finest = read_histogram(source.root, source.finest, source.schema, source.spine)
        expected = cell_totals(finest, source.schema)
        everything = np.ones(source.schema.size, dtype=np.int64)
        for name in areas.names:
            codes, counts = areas.codes(name), source_counts(source, name, areas.members(name), finest)
            if name in areas.geolevels:
                # Geolevels cover the country, entities need not; only the former must have the same sums.
                check_sums(folder.out, name, cell_totals(counts, source.schema), expected)
            for layout in source.layouts:
                paths = folder.write_table(name, layout, table_frames(counts, codes, layout, source.schema))
                check_table(inside(folder.out, *paths[0].split("/")), layout, counts, codes, source.schema)
                written += paths
            totals[name].append(pl.Series(TOTALS[source.layouts], area_totals(counts, everything)))
    return [*written, *folder.write_geography(totals)]
