"""Intervals in the tables of a release: estimate, standard error and interval beside every published count.

Tables with these columns have a row for every geounit and answer, zeros included, and take the place of those without.
They are written in a folder of their own, checked there, and then renamed into place, table by table. Until the
manifest lists the new tables, the old ones are kept beside them. So whoever goes on after an interruption can tell from
the manifest whether a table was changed by anybody else.
"""

import shutil
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Final

import polars as pl

from tallyveil.errors import StoreError
from tallyveil.files.data_package import DATA_PACKAGE, data_package
from tallyveil.files.manifest import ListedFile, Manifest, listed_file
from tallyveil.files.tables import TABLES, has_zeros, table_tags
from tallyveil.schema.query_group import QueryGroup
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.paths import hive_folder
from tallyveil.storage.read import collect, parquet_columns, parquet_metadata, scan_parquet
from tallyveil.storage.write import (
    TEMPORARY_SUFFIX,
    file_digest,
    store_error,
    write_json,
    write_parquet,
)

BESIDE: Final = {
    "estimate": pl.Float64,
    "standard_error": pl.Float64,
    "lower": pl.Int64,
    "upper": pl.Int64,
}
"""Columns that stand beside a count, with their types; null where the measurements do not determine it."""

_REPLACED = "replaced"


def refuse_earlier_tables(root: Path, otherwise: str) -> None:
    """Refuse tables of an earlier version, which have one label for each answer and no columns for attributes.

    Args:
        root: Release folder.
        otherwise: What can be done with these tables, as the beginning of a sentence.
    Raises:
        StoreError: the release has such tables.
    """
    if any(not path.parent.name.startswith("query=") for path in (root / TABLES).rglob("*.parquet")):
        raise StoreError(
            f"the tables of {root} were written by an earlier version of Tallyveil, with one label for each answer. "
            f"{otherwise}, or make the same release with tables of today's form from its measurements: `tallyveil "
            "estimate` spends nothing.",
            code="tables-format",
        )


def undo_exchange(root: Path, manifest: Manifest) -> None:
    """Put back the tables that an interrupted exchange put aside, if the manifest lists those and not the new ones.

    Args:
        root: Release folder.
        manifest: Of the release; it is written when all tables are exchanged.
    Raises:
        StoreError: the release folder cannot be written to, or a table cannot be read.
    """
    staging = root / (TABLES + TEMPORARY_SUFFIX)
    try:
        for old in sorted((staging / _REPLACED).glob("*/*")):
            place = root / TABLES / old.parent.name / old.name
            found = {
                f"{place.relative_to(root).as_posix()}/{path.name}": file_digest(path)
                for path in old.iterdir()
            }
            if place.exists() and found and found.items() <= manifest.digests.items():
                shutil.rmtree(place)
            if not place.exists():
                old.rename(place)
    except OSError as error:
        raise store_error(staging, error) from error


def start_tables(root: Path) -> Path:
    """An empty folder for new tables.

    Raises:
        StoreError: the release folder cannot be written to.
    """
    staging = root / (TABLES + TEMPORARY_SUFFIX)
    try:
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir()
    except OSError as error:
        raise store_error(staging, error) from error
    return staging


def clear_other_tables(root: Path, staging: Path, others: Iterable[QueryGroup]) -> None:
    """Write the tables of other queries with empty columns of intervals, so that all tables have the same columns.

    Their rows are again those of a table without intervals.

    Args:
        root: Release folder.
        staging: From `start_tables`.
        others: Queries of tables that have no intervals.
    Raises:
        StoreError: a table cannot be read or written.
    """
    empty = [pl.lit(None, dtype=kind).alias(name) for name, kind in BESIDE.items()]
    for group in others:
        zeros = has_zeros(group)
        for path in sorted((root / TABLES).glob(f"*/{hive_folder('query', group.name)}/*.parquet")):
            tags = parquet_metadata(path)
            if "tallyveil.level" not in tags and set(BESIDE) <= set(parquet_columns(path)):
                continue
            rows = scan_parquet(path).with_columns(empty)
            frame = collect(rows if zeros else rows.filter(pl.col("count") > 0), path, "table")
            own = {
                name.removeprefix("tallyveil."): value
                for name, value in tags.items()
                if name.startswith("tallyveil.") and name.split(".")[1] not in ("format", "level", "covers")
            }
            about = table_tags(tags["tallyveil.geolevel"], group.name, zeros=zeros)
            write_parquet(staging / path.relative_to(root), frame, {**own, **about})


def exchange_tables(root: Path, staging: Path) -> set[str]:
    """Put the new tables in the place of the old ones, which stay beside them until `forget_replaced`.

    Returns:
        The folders exchanged, relative to the release folder.
    Raises:
        StoreError: the release folder cannot be written to.
    """
    exchanged = set()
    try:
        for new in sorted((staging / TABLES).glob("*/*")):
            exchanged.add(new.relative_to(staging).as_posix())
            place = root / new.relative_to(staging)
            aside = staging / _REPLACED / place.parent.name / place.name
            aside.parent.mkdir(parents=True, exist_ok=True)
            place.rename(aside)
            new.rename(place)
    except OSError as error:
        raise store_error(staging, error) from error
    return exchanged


def forget_replaced(staging: Path) -> None:
    """Remove the old tables, once the manifest lists the new ones; raises StoreError."""
    try:
        shutil.rmtree(staging)
    except OSError as error:
        raise store_error(staging, error) from error


def manifest_with_tables(
    root: Path,
    manifest: Manifest,
    exchanged: Collection[str],
    beside: Sequence[ListedFile],
    intervals: JsonObject,
) -> Manifest:
    """The release's manifest, once its tables have been exchanged, and `datapackage.json` anew.

    Args:
        root: Release folder.
        manifest: Before.
        exchanged: Folders of tables, from `exchange_tables`.
        beside: The tables of `intervals/`, which have a manifest of their own.
        intervals: What the release's manifest is to say of the intervals.
    Raises:
        StoreError: a file cannot be read, or `datapackage.json` cannot be written.
    """
    kept = [file for file in manifest.files if PurePosixPath(file.path).parent.as_posix() not in exchanged]
    paths = [path for folder in exchanged for path in (root / folder).glob("*.parquet")]
    new = [listed_file(root, path.relative_to(root).as_posix()) for path in paths]
    files = _in_order([*(file for file in kept if file.path != DATA_PACKAGE), *new])
    body = manifest.body
    content = data_package(root, body["plan"], manifest.run, manifest.warnings, [*files, *beside])
    write_json(root / DATA_PACKAGE, content)
    files = _in_order([*files, listed_file(root, DATA_PACKAGE)])
    return replace(manifest, files=tuple(files), body={**body, "intervals": intervals})


def _in_order(files: Iterable[ListedFile]) -> list[ListedFile]:
    return sorted(files, key=lambda file: PurePosixPath(file.path))
