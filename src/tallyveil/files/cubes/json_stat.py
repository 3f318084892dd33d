"""JSON-stat 2.0: a data set for each table, whose last dimension says which number of an observation a value is.

Values are written as they are read, part by part. The status of every value is that of its observation. A table in
which all observations have one status states it once. A table that is not whole lists its values by their places.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

import polars as pl

from tallyveil.files.cubes.cube import FREE, PLACE, STATUS, STATUSES, Cube, Dimension
from tallyveil.files.cubes.edition import CubeFile, Edition, write_tables
from tallyveil.files.cubes.words import word
from tallyveil.storage.json_files import JsonObject

FILES: Final = "Each file below tables/ is a table (a JSON-stat data set)."
METRIC: Final = "value"
"""Identifier of the dimension of measures. No attribute has this name."""


def refuse(edition: Edition) -> None:
    """Every table has a form in JSON-stat."""


def write(out: Path, edition: Edition) -> list[CubeFile]:
    """Write all tables."""
    return write_tables(out, edition, ".json", lambda stream, cube: _write(stream, cube, edition))


def _write(stream: BinaryIO, cube: Cube, edition: Edition) -> None:
    # The head is an object without its closing brace; values and statuses follow in it.
    head = json.dumps(_head(cube, edition), ensure_ascii=False, indent=1)
    stream.write(head.removesuffix("\n}").encode())
    statuses = _write_values(stream, cube, "value", [measure.name for measure in cube.measures])
    if len(statuses) == 1:
        stream.write(f',\n "status": "{statuses.pop()}"'.encode())
    else:
        _write_values(stream, cube, "status", [STATUS] * len(cube.measures))
    stream.write(b"\n}\n")


def _head(cube: Cube, edition: Edition) -> JsonObject:
    language = edition.languages[0]
    dimensions = {dimension.name: _dimension(dimension, language) for dimension in cube.dimensions}
    roles = {
        role: [dimension.name for dimension in cube.dimensions if dimension.role == role]
        for role in ("time", "geo")
    }
    measures = [measure.name for measure in cube.measures]
    metric: JsonObject = {
        "label": word(language, "measures"),
        "category": {
            "index": measures,
            "label": {name: word(language, name) for name in measures},
            "unit": {
                measure.name: {"label": cube.units[language], "decimals": measure.decimals}
                for measure in cube.measures
            },
        },
    }
    source = edition.citation or edition.titles[language]
    return {
        "version": "2.0",
        "class": "dataset",
        "label": cube.titles[language],
        "source": source,
        "note": edition.notes(cube, language),
        "id": [*dimensions, METRIC],
        "size": [*cube.shape, len(measures)],
        "role": {**{role: names for role, names in roles.items() if names}, "metric": [METRIC]},
        "dimension": {**dimensions, METRIC: metric},
        "extension": {
            "status": {"label": {status: word(language, status) for status in STATUSES}},
            "CONF_STATUS": FREE,
            "run": edition.run,
            "manifest_sha256": edition.digest,
            **edition.marks.entry(),
            **({} if edition.licence is None else {"licence": edition.licence}),
        },
    }


def _dimension(dimension: Dimension, language: str) -> JsonObject:
    codes, labels = dimension.codes.to_list(), dimension.labels[language].to_list()
    label: JsonObject = {} if codes == labels else {"label": dict(zip(codes, labels, strict=True))}
    # A category of one needs a label: the standard lets it stand without an index.
    if len(codes) == 1:
        label = {"label": dict(zip(codes, labels, strict=True))}
    return {"label": dimension.titles[language], "category": {"index": codes, **label}}


def _write_values(stream: BinaryIO, cube: Cube, key: str, columns: list[str]) -> set[str]:
    """Write the values of some columns of all observations in order; returns the statuses that there are."""
    statuses: set[str] = set()
    opening, closing = ("[", "]") if cube.is_whole else ("{", "}")
    stream.write(f',\n "{key}": {opening}'.encode())
    joint = "\n"
    for frame in cube.observations():
        statuses |= {*frame[STATUS].unique()}
        for text in _texts(frame, columns, with_places=not cube.is_whole):
            stream.write(joint.encode() + text.encode())
            joint = ",\n"
    stream.write(f"\n {closing}".encode())
    return statuses


_LINES: Final = 1 << 16
"""Observations that are joined to one text; a text of twice as many takes twice the memory and no less time."""


def _texts(frame: pl.DataFrame, columns: list[str], *, with_places: bool) -> Iterator[str]:
    """The values of observations, a line for each observation."""
    values: list[pl.Expr] = []
    for number, column in enumerate(columns):
        shown = pl.col(column).cast(pl.String)
        quoted = pl.format('"{}"', shown) if column == STATUS else shown
        text = quoted.fill_null("null")
        if with_places:
            text = pl.format('"{}": {}', pl.col(PLACE) * len(columns) + number, text)
        values.append(text)
    lines = frame.select(pl.concat_str(values, separator=",")).to_series()
    for start in range(0, len(lines), _LINES):
        yield ",\n".join(lines[start : start + _LINES])
