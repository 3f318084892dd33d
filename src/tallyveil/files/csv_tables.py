"""The tables of a release as CSV, in a folder of their own: one file for each geolevel or family and each query.

`publication.json` names the release and lists the files, so that programs know what each file holds and notice changes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

import polars as pl

from tallyveil.files.finished import MANIFEST
from tallyveil.files.geography import NAMES
from tallyveil.files.intervals import refuse_earlier_tables
from tallyveil.files.kinds import ReleaseKind
from tallyveil.files.manifest import Manifest, listed_file
from tallyveil.files.manifest_files import read_manifest, require_unchanged
from tallyveil.files.marks import marked_text, marks_of
from tallyveil.files.tables import INCLUDED, LEFT_OUT, ROWS, TABLES
from tallyveil.files.whole_tables import listed_rows, whole_table
from tallyveil.schema.schema import schema_from_mapping
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.outputs import new_folder, refuse_inputs, refuse_output_inside
from tallyveil.storage.paths import file_name, inside
from tallyveil.storage.published import published_tags
from tallyveil.storage.read import scan_parquet
from tallyveil.storage.write import file_digest, write_file, write_json, write_text
from tallyveil.version import VERSION

COMMAND: Final = "publish csv"
README: Final = "README.txt"
PUBLICATION: Final = "publication.json"
# Version of `publication.json`. A change of what its keys mean needs the next number.
PUBLICATION_FORMAT: Final = 1
NAMES_AS_CSV: Final = "names.csv"


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
    with new_folder(out, COMMAND, "the tables", (TABLES, NAMES_AS_CSV, README, PUBLICATION)):
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
        rows = ROWS[held] if zeros else f"{ROWS[held]} {_CHOSEN}"
        write_text(out / README, _readme(root, manifest, rows))
        others = [{"path": NAMES_AS_CSV}] * len(names) + [{"path": README}]
        content = _publication(root, out, manifest, held, tables + others)
        # The list of files comes last: a folder without it is an interrupted one.
        write_json(out / PUBLICATION, content)
    return content


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
    text = _README.format(name=manifest.body["name"], run=manifest.run, digest=digest, rows=rows)
    return marked_text(marks_of(manifest).lines(), text)


_CHOSEN: Final = """So the rows of a table with
intervals were chosen by their counts: sums and means of their estimates are too high, and fewer true counts lie in
their intervals than the stated share."""
_README: Final = """Tables of the release {name}, as CSV in UTF-8

Run {run}; SHA-256 of its manifest.json: {digest}

There is one file for each geolevel, or family of entities, and each query: tables/<geolevel>/<query>.csv. All files
have the same columns: geolevel, query, geocode, one column for each attribute, count and, where intervals were made,
estimate, standard_error, lower and upper. An empty field of an attribute means that the query sums the attribute out.
An empty number of an interval means that there is none. names.csv is there if the release has names of geounits.
publication.json lists the files with their SHA-256.

{rows}

Read all columns but the numbers as text: geocodes may begin with zeros. A spreadsheet that opens a file directly also
computes every text that begins with =, +, - or @ as a formula. Codes and levels are written unchanged, so import the
file as text.
"""
