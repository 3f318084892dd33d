"""`datapackage.json`: what every file of a release holds, for programs and catalogues (a Frictionless Data Package).

It is made from the plan and from the list of files alone, so the same release gives the same bytes. Columns that are in
the names of folders (`geolevel`, `query`) are properties of the file's resource.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

import polars as pl

from tallyveil.files.geography import GEOGRAPHY
from tallyveil.files.histograms import HISTOGRAM, MICRODATA
from tallyveil.files.manifest import ListedFile, Manifest, listed_file
from tallyveil.files.manifest_files import require_unchanged
from tallyveil.files.marks import mark_lines
from tallyveil.files.tables import TABLES
from tallyveil.schema.schema import Schema, schema_from_mapping, unit_of
from tallyveil.storage.json_files import JsonObject, read_json_object
from tallyveil.storage.read import published_schema, published_tags
from tallyveil.storage.write import json_text, write_json

DATA_PACKAGE: Final = "datapackage.json"
PROFILE: Final = "https://datapackage.org/profiles/2.0/datapackage.json"
NUMBERS: Final = {
    "count": "Published number of {units}",
    "estimate": "Unbiased estimate of the number of {units}, from the noisy measurements",
    "standard_error": "Standard error of the estimate, from the privacy noise alone",
    "lower": "Lower end of the interval; in bounds/, the lower bound",
    "upper": "Upper end of the interval; in bounds/, the upper bound (null: none)",
    "values": "Noisy numbers of {units}, in the order of measurements/answers.parquet",
}
"""Columns that hold numbers of records, with their titles."""

WORDS: Final = {
    "geolevel": "Geolevel, or family of entities",
    "geocode": "Geocode of the geounit, or name of the entity",
    "name": "Name of the geounit or entity",
    "geometry": "Polygon or point, as well-known binary (WKB) in longitude and latitude",
    "query": "Query",
    "answer": "Answer of the query",
    "label": "What the answer counts",
    "variance": "Variance of the noise, squared {units}",
    "answers": "Numbers of the answers in the list of values",
}
"""Other columns, with their titles."""


ROWS: Final = {
    HISTOGRAM: "A cell of a geounit that has no row has a published count of 0.",
    "invariants": "An answer of a geounit that has no row is 0.",
}
"""What is said of the rows of files in a folder. Tables say it themselves, because they differ."""


def data_package(
    root: Path, plan: Mapping[str, Any], run: str, warnings: Iterable[str], files: Iterable[ListedFile]
) -> JsonObject:
    """Content of `datapackage.json`.

    Args:
        root: Release folder.
        plan: Content of `plan.json`.
        run: Public name of the run.
        warnings: What must be said wherever the release is shown.
        files: The files to describe. One that somebody has removed since it was listed has no columns.
    Raises:
        StoreError: a file cannot be read.
    """
    schema = schema_from_mapping(plan["schema"])
    units = unit_of(plan["schema"].get("unit"), plan["schema"].get("units")).many
    licence = plan.get("licence")
    return {
        "$schema": PROFILE,
        "name": _slug(plan["name"]),
        "id": run,
        "title": plan["name"],
        "description": _description(plan, warnings),
        **({} if licence is None else {"licenses": [{"path" if "://" in licence else "name": licence}]}),
        **({"citation": plan["citation"]} if "citation" in plan else {}),
        "resources": [
            _resource(root, number, file, schema, units)
            for number, file in enumerate(files, 1)
            # The package does not describe itself: its own digest cannot be in it.
            if file.path != DATA_PACKAGE
        ],
    }


def require_markable_package(root: Path, manifest: Manifest) -> None:
    """Refuse a finished release whose `datapackage.json` cannot be marked, because it is not what the manifest lists.

    A process that was killed while it marked the release may have left the file with the new marks alone.

    Raises:
        StoreError: the file is missing or was changed.
    """
    stated = manifest.digests.get(DATA_PACKAGE)
    if stated is None:
        return
    unmarked = json_text(_marked(root, manifest.body["plan"], manifest.warnings))
    if hashlib.sha256(unmarked.encode()).hexdigest() != stated:
        require_unchanged(root, manifest, root / DATA_PACKAGE)


def marked_package(root: Path, plan: Mapping[str, Any], warnings: Iterable[str]) -> ListedFile:
    """Say the marks that a finished release has now in its `datapackage.json`; the other arguments as above.

    Returns:
        The file, for the manifest.
    Raises:
        StoreError: the file is damaged, or cannot be written.
    """
    write_json(root / DATA_PACKAGE, _marked(root, plan, warnings))
    return listed_file(root, DATA_PACKAGE)


def _marked(root: Path, plan: Mapping[str, Any], warnings: Iterable[str]) -> JsonObject:
    content = read_json_object(root / DATA_PACKAGE, "Restore the file from a copy.")
    # Only the marks change; what the files hold was described when they were written.
    return {**content, "description": _description(plan, warnings)}


def _description(plan: Mapping[str, Any], warnings: Iterable[str]) -> str:
    units = unit_of(plan["schema"].get("unit"), plan["schema"].get("units")).many
    said = f"Numbers of {units}, published with differential privacy by Tallyveil."
    return " ".join([said, *mark_lines(warnings)])


def _slug(name: str) -> str:
    """A name in the letters that the standard allows."""
    # A name without any such letter still needs one, and the run's id tells packages apart.
    return re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-") or "release"


def _resource(root: Path, number: int, file: ListedFile, schema: Schema, units: str) -> JsonObject:
    path = PurePosixPath(file.path)
    common = {
        "name": f"{_slug(path.parts[0].split('.')[0])}-{number}",
        "path": file.path,
        "format": path.suffix.lstrip("."),
        "bytes": file.bytes,
        "hash": f"sha256:{file.sha256}",
    }
    # Text and JSON have no columns to describe; a file may have been removed by its owner.
    if path.suffix != ".parquet" or not (root / file.path).is_file():
        return common
    tags = published_tags(root / file.path)
    about = {name: tags[f"tallyveil.{name}"] for name in ("geolevel", "query") if f"tallyveil.{name}" in tags}
    rows = _rows(path.parts[0], tags)
    described = {**common, "mediatype": "application/vnd.apache.parquet", **about, **rows}
    labels = _labels(schema, path.parts[0], about.get("query"))
    columns = published_schema(root / file.path)
    # What people chose as a name gets no title of ours, even if it is spelled like one of our columns.
    chosen_names = {*labels, *(columns if file.path == GEOGRAPHY else ())}  # names that people chose
    fields = [
        {
            "name": name,
            "type": _type(kind),
            **({"title": name} if name in chosen_names else _meaning(name, units)),
            **({"constraints": {"required": True, "enum": list(labels[name])}} if labels.get(name) else {}),
        }
        for name, kind in columns.items()
    ]
    return {**described, "schema": {"fields": fields}}


def _rows(folder: str, tags: Mapping[str, str]) -> JsonObject:
    """What a missing row of a file means, or that none is missing; nothing where that is not said."""
    said = ROWS.get(folder, tags.get("tallyveil.rows"))
    return {} if said is None else {"description": said}


def _labels(schema: Schema, folder: str, query: str | None) -> dict[str, tuple[str, ...]]:
    """The labels that the column of each attribute may have in the files of a folder; none if it is summed out."""
    if folder in (HISTOGRAM, MICRODATA):
        return {attribute.name: attribute.levels for attribute in schema.attributes}
    if folder not in (TABLES, "intervals") or query is None:
        return {}
    factors = schema.query(query).factors
    # A column of an attribute that is summed out is empty, and has no labels to choose from.
    return {factor.attribute: () if factor.name is None else factor.labels for factor in factors}


def _meaning(name: str, units: str) -> JsonObject:
    """Title and unit of a column whose name has the same meaning in every release."""
    if name in NUMBERS:
        return {"title": NUMBERS[name].format(units=units), "unit": units}
    return {"title": WORDS[name].format(units=units) if name in WORDS else name}


def _type(kind: pl.DataType) -> str:
    if kind.is_nested():
        # Lists come first, because the type inside them would be taken for the column's.
        return "array"
    if kind.is_numeric():
        return "integer" if kind.is_integer() else "number"
    return "any" if kind == pl.Binary else "string"
