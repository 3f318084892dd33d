"""Every row of a published table, and the tables of a release as CSV or as one GeoParquet file.

A table without intervals may leave counts of zero out; they are put back. A table that an earlier version
gave intervals may have left them out, too, and with them their estimates; then the same rows are read from
`intervals/`.

CSV goes to a folder of its own: one file for each geolevel or family and each query. `publication.json` names
the release and lists the files, so that programs know what each file holds and notice changes.

GeoParquet has a row for each area of a kind, with its shape and its answers. There is a column for each
answer, which is called as the answer is, such as `hispanic=hispanic * cenrace=white`. That of the total is
`total`. Where a table has intervals, further columns follow each answer, such as `total standard_error`.
Shapes of areas above the finest geolevel are merged from those of their finest geounits.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.errors import ConfigError, StoreError
from tallyveil.files.finished import MANIFEST
from tallyveil.files.geography import GEOGRAPHY, GEOMETRY, NAMES, read_geometry, read_hierarchies
from tallyveil.files.intervals import (
    BESIDE,
    INTERVALS,
    interval_files,
    known_queries,
    refuse_earlier_tables,
    unchanged_parts,
)
from tallyveil.files.manifest import Manifest, ReleaseKind, listed_file
from tallyveil.files.manifest_files import MAIN_PRODUCT, read_manifest, require_unchanged
from tallyveil.files.marks import Marks, marked_text, marks_of
from tallyveil.files.tables import INCLUDED, LEFT_OUT, ROWS, ROWS_PER_PART, TABLES, table_folder, table_name
from tallyveil.geography.areas import Hierarchies
from tallyveil.geography.geometry import COLUMN, POLYGONS, Geometry, geo_metadata, merged, require_maps
from tallyveil.geography.spine import Spine, geocodes_of
from tallyveil.schema.answer_columns import answer_expression, label_columns
from tallyveil.schema.labels import read_labels
from tallyveil.schema.names import as_named
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import schema_from_mapping
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.outputs import new_file, new_folder, refuse_inputs, refuse_output_inside
from tallyveil.storage.paths import file_name, inside
from tallyveil.storage.read import collect, published_columns, published_tags, scan_parquet
from tallyveil.storage.write import file_digest, write_file, write_json, write_parquet, write_text
from tallyveil.version import VERSION


def table_files(root: Path, manifest: Manifest, area: str, query: str) -> list[Path]:
    """The files of a table, in order, after a check that they are those that the manifest lists.

    Args:
        root: Release folder.
        manifest: Of the release.
        area: A geolevel, or a family of entities.
        query: Name of the query.
    Raises:
        ConfigError: the release has no such table.
        StoreError: a file is missing or was changed.
    """
    folder = table_name(area, query) + "/"
    # Sorted: the names of parts are numbers of equal width, so that this is the order of their rows.
    parts = [inside(root, *name.split("/")) for name in sorted(manifest.digests) if name.startswith(folder)]
    if not parts:
        raise ConfigError(
            f"{root} has no table of {query!r} for {area!r}. Name a geolevel or family, and a query, of the folder "
            "`tables`.",
            code="no-table",
        )
    for part in parts:
        require_unchanged(root, manifest, part)
    return parts


def whole_table(root: Path, manifest: Manifest, area: str, group: QueryGroup) -> Iterator[pl.DataFrame]:
    """All rows of a table, part by part, in order of area and answer.

    Args:
        root: Release folder.
        manifest: Of the release.
        area: A geolevel, or a family of entities.
        group: The query.
    Yields:
        Frames with the columns of the table.
    Raises:
        ConfigError: the release has no such table.
        StoreError: a file is missing or was changed; or the files leave out rows with estimates, and `intervals/` has
            others.
    """
    parts = table_files(root, manifest, area, group.name)
    tags = published_tags(parts[0])
    if tags.get("tallyveil.zeros") == INCLUDED:
        return _read(parts)
    if "tallyveil.level" in tags:
        return _read(_interval_files(root, area, group.name, tags))
    return _restored(root, manifest, parts, area, group)


def listed_rows(root: Path, manifest: Manifest, area: str, query: str) -> Iterator[pl.DataFrame]:
    """The rows of a table with a count above 0, part by part. Arguments and errors are those of `table_files`."""
    return (frame.filter(pl.col("count") > 0) for frame in _read(table_files(root, manifest, area, query)))


def _read(parts: Sequence[Path]) -> Iterator[pl.DataFrame]:
    for part in parts:
        yield collect(scan_parquet(part), part, "table")


def _interval_files(root: Path, area: str, query: str, tags: dict[str, str]) -> list[Path]:
    """The files of `intervals/` that hold all rows of a table with these tags."""
    parts = unchanged_parts(root, sorted(table_folder(root, area, query, INTERVALS).glob("part-*.parquet")))
    # Intervals of another level or kind of coverage would be other estimates than those of the table.
    about = ("tallyveil.level", "tallyveil.covers")
    if parts and all(published_tags(parts[0]).get(name) == tags.get(name) for name in about):
        return parts
    raise StoreError(
        f"the table of {query!r} for {area!r} in {root} has estimates, but an earlier version of Tallyveil left out "
        f"its rows with a published count of 0, and {INTERVALS}/ does not hold the same estimates for all rows. Sums "
        "of the estimates that are there would be too high. Make the intervals again with `tallyveil intervals`, which "
        "writes all rows and spends nothing. Or ask for the rows that are there: zeros=False in Python, and "
        "`tallyveil publish csv --no-zeros`.",
        code="intervals-missing",
    )


def _restored(
    root: Path, manifest: Manifest, parts: Sequence[Path], area: str, group: QueryGroup
) -> Iterator[pl.DataFrame]:
    """The rows of files that leave counts of zero out, with these counts."""
    # The areas come from this file: a changed one would bring wrong zeros for wrong areas.
    require_unchanged(root, manifest, root / GEOGRAPHY)
    codes = read_hierarchies(root).codes_of(area)
    areas = Spine((area,), (geocodes_of(codes, area),), ())
    beside = [name for name in BESIDE if name in published_columns(parts[0])]
    # So many areas that a frame is as large as a file of a table without zeros.
    step = max(1, ROWS_PER_PART // group.size)
    begin = 0
    for number, part in enumerate(parts):
        rows, answers, persons = _located(part, areas, group)
        # A part ends at its last listed area; areas after it have zeros only and come with the next part.
        end = len(codes) if number + 1 == len(parts) else int(rows.max(initial=begin - 1)) + 1
        # A negative answer would wrap around as an index, and count in the wrong row.
        if len(rows) and (rows.min() < begin or answers.min() < 0):
            raise StoreError(
                f"{part} has a row that is no answer of its query, or of an area that the release does not have or "
                "that an earlier part has. Restore the file from a copy of the release.",
                code="release-damaged",
            )
        for start in range(begin, end, step):
            here = np.arange(start, min(start + step, end))
            # Rows are in order of area, so the range of areas is one slice.
            rows_here = slice(*np.searchsorted(rows, [start, start + len(here)]))
            counts = np.zeros((len(here), group.size), dtype=np.int64)
            counts[rows[rows_here] - start, answers[rows_here]] = persons[rows_here]
            columns = [
                codes.gather(np.repeat(here, group.size)).alias("geocode"),
                *label_columns(group, np.tile(np.arange(group.size), len(here))),
                pl.Series("count", counts.ravel()),
            ]
            yield pl.DataFrame(columns).with_columns(
                pl.lit(None, dtype=BESIDE[name]).alias(name) for name in beside
            )
        begin = end


def _located(part: Path, areas: Spine, group: QueryGroup) -> tuple[Integers, Integers, Integers]:
    """Area, answer (-1: none) and count of every row of a file."""
    wanted = scan_parquet(part).select("geocode", answer_expression(group), "count")
    frame = collect(wanted, part, "table")
    answers = frame["answer"].fill_null(-1).to_numpy()
    return areas.locate(0, frame["geocode"]), answers, frame["count"].to_numpy()


COMMAND: Final = "publish csv"
README: Final = "README.txt"
PUBLICATION: Final = "publication.json"
# Version of `publication.json`. A change of what its keys mean needs the next number.
PUBLICATION_FORMAT: Final = 1
NAMES_AS_CSV: Final = "names.csv"
LABELS_AS_CSV: Final = "labels.csv"
"""What the release and its parts are called: a row for each label in each language."""


def publish_csv(root: Path, out: Path, *, zeros: bool = True) -> JsonObject:
    """Write every table of a finished release as a CSV file, and the names of its geounits and entities if it has any.

    Args:
        root: Folder of the release.
        out: A new or empty folder outside it, or one where the same command was interrupted.
        zeros: Whether rows with a published count of 0 are written, so that there is a row for every answer.
    Returns:
        Content of `publication.json`.
    Raises:
        StoreError: the release is not finished or damaged, or an earlier version wrote its tables; `out` is taken, or
            cannot be written to; or an earlier version left out rows with estimates, and `intervals/` does not hold
            them.
    Privacy: nothing is spent: the files hold what is published.
    """
    refuse_inputs(out, [root])
    refuse_output_inside(out, root)
    manifest = read_manifest(root, ReleaseKind.TOPDOWN)
    # Before the folder is made: such tables cannot be written in this form.
    refuse_earlier_tables(root, "Read them as they are")
    held = INCLUDED if zeros else LEFT_OUT
    schema = schema_from_mapping(manifest.body["plan"]["schema"])
    paths = [root / file.path for file in manifest.files if file.path.startswith(f"{TABLES}/")]
    names = [root / NAMES] if NAMES in manifest.digests else []
    with new_folder(out, COMMAND, "the tables", (TABLES, NAMES_AS_CSV, LABELS_AS_CSV, README, PUBLICATION)):
        # Reversed, so that of several files of a table the first one in the manifest stays.
        first_parts = {path.parent: path for path in reversed(paths)}
        # Whole tables hold each further file to its digest when they read it.
        for path in (*first_parts.values(), *names):
            require_unchanged(root, manifest, path)
        tables = []
        for path in reversed(first_parts.values()):
            tags = published_tags(path)
            area, query = (tags[f"tallyveil.{name}"] for name in ("geolevel", "query"))
            if zeros:
                frames = whole_table(root, manifest, area, schema.query(query))
            else:
                frames = listed_rows(root, manifest, area, query)
            tables.append(_write(out, area, query, frames))
        for path in names:
            # A table of names is small, and is written as it stands.
            write_file(out / NAMES_AS_CSV, scan_parquet(path).sink_csv)
        labels = _labels_frame(manifest)
        if labels is not None:
            write_file(out / LABELS_AS_CSV, labels.write_csv)
        rows = ROWS[held] if zeros else f"{ROWS[held]} {_CHOSEN}"
        write_text(out / README, _readme(root, manifest, rows))
        others = [{"path": NAMES_AS_CSV}] * len(names) + [{"path": README}]
        others += [] if labels is None else [{"path": LABELS_AS_CSV}]
        content = _publication(root, out, manifest, held, tables + others)
        # The list of files comes last: a folder without it is an interrupted one.
        write_json(out / PUBLICATION, content)
    return content


def _labels_frame(manifest: Manifest) -> pl.DataFrame | None:
    """The labels of a release, with a row for each in each language (`LABEL_COLUMNS`); None without any."""
    given = read_labels(manifest.body["plan"].get("labels", {}))
    rows = [
        (language, table[0], table[1] if len(table) > 1 else None, name, label)
        for language, labels in given
        for table, names in (*labels.tables_of_labels().items(), (("release",), labels.whole()))
        for name, label in names.items()
    ]
    return pl.DataFrame(rows, LABEL_COLUMNS, orient="row") if rows else None


LABEL_COLUMNS: Final = dict.fromkeys(("language", "kind", "attribute", "name", "label"), pl.String)


def _write(out: Path, area: str, query: str, frames: Iterator[pl.DataFrame]) -> dict[str, str]:
    """Write one table, frame by frame; returns its path in `out`, its geolevel or family, its query."""
    names = (TABLES, file_name(area), f"{file_name(query)}.csv")
    about = pl.lit(area).alias("geolevel"), pl.lit(query).alias("query")

    def write(path: Path) -> None:
        with path.open("wb") as stream:
            for number, frame in enumerate(frames):
                # One header, before the first frame; a table is never in memory as a whole.
                frame.select(*about, pl.all()).write_csv(stream, include_header=number == 0)

    write_file(inside(out, *names), write)
    return {"path": "/".join(names), "geolevel": area, "query": query}


def _publication(
    root: Path, out: Path, manifest: Manifest, zeros: str, files: Sequence[dict[str, str]]
) -> JsonObject:
    """Content of `publication.json`: the release, and each file with what it is of, its size and its SHA-256."""
    return {
        "format": PUBLICATION_FORMAT,
        "tallyveil": VERSION,
        "release": {
            "name": manifest.body["name"],
            "run": manifest.run,
            "manifest_sha256": file_digest(root / MANIFEST),
        },
        **marks_of(manifest).entry(),
        "zeros": zeros,
        "files": [{**file, **asdict(listed_file(out, file["path"]))} for file in files],
    }


def _readme(root: Path, manifest: Manifest, rows: str) -> str:
    digest = file_digest(root / MANIFEST)
    labels = _LABELS if manifest.body["plan"].get("labels") else ""
    text = _README.format(
        name=manifest.body["name"], run=manifest.run, digest=digest, rows=rows, labels=labels
    )
    return marked_text(marks_of(manifest).lines(), text)


_CHOSEN: Final = """So the rows of a table with
intervals were chosen by their counts: sums and means of their estimates are too high, and fewer true counts lie in
their intervals than the stated share."""
_LABELS: Final = " labels.csv says what all of this is called for people."
_README: Final = """Tables of the release {name}, as CSV in UTF-8

Run {run}; SHA-256 of its manifest.json: {digest}

There is one file for each geolevel, or family of entities, and each query: tables/<geolevel>/<query>.csv. All files
have the same columns: geolevel, query, geocode, one column for each attribute, count and, where intervals were made,
estimate, standard_error, lower and upper. An empty field of an attribute means that the query sums the attribute out.
An empty number of an interval means that there is none. names.csv is there if the release has names of geounits.
publication.json lists the files with their SHA-256.{labels}

{rows}

Read all columns but the numbers as text: geocodes may begin with zeros. A spreadsheet that opens a file directly also
computes every text that begins with =, +, - or @ as a formula. Codes and levels are written unchanged, so import the
file as text.
"""


MOST_ANSWERS: Final = 1_000
"""Most answers of an area. Programs for maps list all columns, of which an answer with its interval has five."""
# Areas of several points are one shape of several, also where an area has one point alone.
_SEVERAL_POINTS: Final = ("Point", "MultiPoint")


@dataclass(frozen=True, slots=True)
class MapFile:
    """A file that was made.

    Attributes:
        areas: Number of its rows.
        columns: Number of its columns of numbers.
        n_missing: Number of areas without a shape.
        marks: What must be said wherever the release is shown.
    """

    areas: int
    columns: int
    n_missing: int
    marks: Marks


def publish_geoparquet(root: Path, geolevel: str, queries: Sequence[str], out: Path) -> MapFile:
    """Write tables of a finished release with the shapes of its areas.

    Of measurements, which have no tables, the estimates in `intervals/` are written.

    Args:
        root: Folder of the release, or of measurements.
        geolevel: A geolevel, or a family of entities, that the release has tables of.
        queries: Queries of the tables; each once.
        out: A file outside the release that does not exist.
    Raises:
        ConfigError: the extra `maps` is not installed, the release has no geometry or no such table, or the tables
            have too many answers.
        StoreError: the release is not finished or damaged, or the file cannot be written.
    Privacy: nothing is spent: the file holds what is published.
    """
    require_maps("a file with shapes")
    refuse_output_inside(out, root)
    manifest = read_manifest(root, *MAIN_PRODUCT)
    alone = manifest.kind is ReleaseKind.MEASUREMENTS
    refuse_earlier_tables(root, "Read them as they are")
    schema = schema_from_mapping(manifest.body["plan"]["schema"])
    known = known_queries(root, manifest)
    # Each query once, whatever the order in which its factors are named.
    groups = [schema.query(name) for name in dict.fromkeys(as_named(query, known) for query in queries)]
    for group in groups:
        if alone:
            interval_files(root, geolevel, group.name)
        else:
            table_files(root, manifest, geolevel, group.name)
    _refuse_many(groups)
    # A hidden lock beside the file: two processes with one --out do not write it at once.
    with new_file(out, []):
        # What is read below must be what the release published, or the file would name a release that it is not of.
        for name in (GEOGRAPHY, GEOMETRY, NAMES):
            if name in manifest.digests:
                require_unchanged(root, manifest, root / name)
        hierarchies = read_hierarchies(root)
        codes, offsets, members = _areas(hierarchies, geolevel)
        geometry = read_geometry(root, hierarchies.spine)
        if geometry is None:
            raise _no_geometry(root)
        columns = [codes.alias("geocode"), *_names(hierarchies, geolevel, codes)]
        for group in groups:
            parts = (
                _read(interval_files(root, geolevel, group.name))
                if alone
                else whole_table(root, manifest, geolevel, group)
            )
            columns += _answers(group, pl.concat(parts))
        shapes, kinds = _shapes(geometry, offsets, members)
        frame = pl.DataFrame([*columns, shapes.alias(COLUMN)])
        marks = marks_of(manifest)
        tags = {
            "run": manifest.run,
            "manifest": file_digest(root / MANIFEST),
            "geolevel": geolevel,
            **marks.tags(),
        }
        write_parquet(out, frame, tags, geo_metadata(kinds))
    # The geocode and the name are text; all other columns are numbers.
    numbers = len(columns) - len([name for name in ("geocode", "name") if name in frame.columns])
    return MapFile(frame.height, numbers, shapes.null_count(), marks)


def _refuse_many(groups: Sequence[QueryGroup]) -> None:
    answers = sum(group.size for group in groups)
    if answers > MOST_ANSWERS:
        raise ConfigError(
            f"the tables have {answers:,} answers of each area together, wanted at most {MOST_ANSWERS:,}. Name fewer "
            "tables.",
            code="bad-flag",
        )


def _no_geometry(root: Path) -> ConfigError:
    return ConfigError(
        f"{root} has no {GEOMETRY}, because its release file names no `[geography] geometry`, or its measurements were "
        "imported without --shapes. Only a release with shapes can be shown on a map.",
        code="no-geometry",
    )


def _areas(hierarchies: Hierarchies, geolevel: str) -> tuple[pl.Series, Integers, Integers]:
    """Codes of the areas, and their finest geounits as offsets and rows."""
    for family in (*hierarchies.replaced, *hierarchies.families):
        if family.name == geolevel:
            return pl.Series(family.codes, dtype=pl.String), family.offsets, family.members
    spine = hierarchies.spine
    level = spine.level_index(geolevel)
    # The finest geounits of any geounit are neighbours, so that the rows are all of them in order.
    rows = np.arange(spine.n_geounits(spine.finest), dtype=np.int64)
    return spine.geocodes[level].text, spine.finest_offsets(level), rows


def _names(hierarchies: Hierarchies, geolevel: str, codes: pl.Series) -> list[pl.Series]:
    """The column of names, if the release has names."""
    if hierarchies.names is None:
        return []
    # A left join keeps the order of the areas, in which all other columns are.
    names_here = hierarchies.names.filter(pl.col("geolevel") == geolevel).select("geocode", "name")
    names = pl.DataFrame([codes.alias("geocode")]).join(
        names_here, on="geocode", how="left", maintain_order="left"
    )
    return [names["name"]]


def _answers(group: QueryGroup, rows: pl.DataFrame) -> Iterator[pl.Series]:
    """The columns of a table, in the order of its answers, from all its rows."""
    # A table may have the columns without an estimate, where only other tables have intervals.
    has_intervals = "estimate" in rows.columns and rows["estimate"].null_count() < rows.height
    # Measurements alone have no counts.
    numbers = [name for name in ("count", *(BESIDE if has_intervals else ())) if name in rows.columns]
    for answer, label in enumerate(group.labels()):
        for name in numbers:
            # Whole tables have a row for every answer, so that an answer is every size-th row from its number on.
            counts = rows[name].gather_every(group.size, answer)
            yield counts.alias(label if name == "count" else f"{label} {name}")


def _shapes(geometry: Geometry, offsets: Integers, members: Integers) -> tuple[pl.Series, Sequence[str]]:
    """The shapes of areas as well-known binary, and the types of shapes among them."""
    import shapely

    finest = shapely.from_wkb(np.array(geometry.wkb.to_list(), dtype=object))
    known = finest[~shapely.is_missing(finest)]
    # A valid coverage shares its borders exactly, and merging it is faster; others are overlaid.
    shared = not geometry.points and bool(shapely.coverage_is_valid(known))
    shapes: NDArray[Any] = merged(finest, offsets, members, shared=shared)
    stored = pl.Series(list(shapely.to_wkb(shapes, byte_order=1, flavor="iso")), dtype=pl.Binary)
    return stored, _SEVERAL_POINTS if geometry.points else POLYGONS
