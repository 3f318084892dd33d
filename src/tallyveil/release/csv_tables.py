"""The tables of a release as CSV, in a folder of their own: one file for each geolevel or family and each query.

`publication.json` names the release and lists the files, so that programs know what each file holds and notice changes.
"""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Final

import polars as pl

from tallyveil.release.finished import MANIFEST
from tallyveil.release.geography import NAMES
from tallyveil.release.interval_tables import refuse_earlier_tables
from tallyveil.release.kinds import ReleaseKind
from tallyveil.release.manifest import Manifest, listed_file
from tallyveil.release.manifest_files import read_manifest, require_unchanged
from tallyveil.release.marks import marked_text, marks_of
from tallyveil.release.tables import TABLES
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
PUBLICATION_FORMAT: Final = 1
NAMES_AS_CSV: Final = "names.csv"


def publish_csv(root: Path, out: Path) -> JsonObject:
    """Write every table of a finished release as a CSV file, and the names of its geounits and entities if it has any.

    Args:
        root: Folder of the release.
        out: A new or empty folder outside it, or one where the same command was interrupted.
    Returns:
        Content of `publication.json`.
    Raises:
        StoreError: the release is not finished or damaged, or an earlier version wrote its tables; `out` is taken, or
            cannot be written to.
    Privacy: nothing is spent: the files hold what is published.
    """
    refuse_inputs(out, [root])
    refuse_output_inside(out, root)
    manifest = read_manifest(root, ReleaseKind.TOPDOWN)
    refuse_earlier_tables(root, "Read them as they are")
    paths = [root / file.path for file in manifest.files if file.path.startswith(f"{TABLES}/")]
    names = [root / NAMES] if NAMES in manifest.digests else []
    with new_folder(out, COMMAND, "the tables", (TABLES, NAMES_AS_CSV, README, PUBLICATION)):
        for path in (*paths, *names):
            require_unchanged(root, manifest, path)
        tables = [_write(out, list(parts)) for _, parts in groupby(paths, lambda path: path.parent)]
        for path in names:
            write_file(out / NAMES_AS_CSV, scan_parquet(path).sink_csv)
        write_text(out / README, _readme(root, manifest))
        others = [{"path": NAMES_AS_CSV}] * len(names) + [{"path": README}]
        content = _publication(root, out, manifest, tables + others)
        write_json(out / PUBLICATION, content)
    return content


def _write(out: Path, parts: Sequence[Path]) -> dict[str, str]:
    """Write one table, whose parts are in one folder; returns its path in `out`, its geolevel or family, its query."""
    tags = published_tags(parts[0])
    area, query = (tags[f"tallyveil.{name}"] for name in ("geolevel", "query"))
    names = (TABLES, file_name(area), f"{file_name(query)}.csv")
    rows = scan_parquet(*parts).select(pl.lit(area).alias("geolevel"), pl.lit(query).alias("query"), pl.all())
    write_file(inside(out, *names), rows.sink_csv)
    return {"path": "/".join(names), "geolevel": area, "query": query}


def _publication(root: Path, out: Path, manifest: Manifest, files: Sequence[dict[str, str]]) -> JsonObject:
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
        "files": [{**file, **asdict(listed_file(out, file["path"]))} for file in files],
    }


def _readme(root: Path, manifest: Manifest) -> str:
    digest = file_digest(root / MANIFEST)
    text = _README.format(name=manifest.body["name"], run=manifest.run, digest=digest)
    return marked_text(marks_of(manifest).lines(), text)


_README: Final = """Tables of the release {name}, as CSV in UTF-8

Run {run}; SHA-256 of its manifest.json: {digest}

There is one file for each geolevel, or family of entities, and each query: tables/<geolevel>/<query>.csv. All files
have the same columns: geolevel, query, geocode, one column for each attribute, count and, where intervals were made,
estimate, standard_error, lower and upper. An empty field of an attribute means that the query sums the attribute out.
An empty number of an interval means that there is none. Tables of queries with many answers leave counts of zero out.
names.csv is there if the release has names of geounits. publication.json lists the files with their SHA-256.

Read all columns but the numbers as text: geocodes may begin with zeros. A spreadsheet that opens a file directly also
computes every text that begins with =, +, - or @ as a formula. Codes and levels are written unchanged, so import the
file as text.
"""
