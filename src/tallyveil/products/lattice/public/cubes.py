"""The released table as a data cube."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import polars as pl

from tallyveil.files.cubes.cube import (
    COUNT,
    ESTIMATE,
    ESTIMATE_MARGIN,
    MARGIN,
    Cube,
    Dimension,
    Measure,
    placed,
    status_of,
)
from tallyveil.files.cubes.publication import Published
from tallyveil.files.cubes.words import titled, word
from tallyveil.files.manifest import Manifest
from tallyveil.files.manifest_files import read_listed_table
from tallyveil.products.lattice.public.verified import TABLE, UNBIASED
from tallyveil.schema.schema import Schema, schema_from_mapping

_LANGUAGE = "en"


def cubes_of_table(root: Path, manifest: Manifest) -> Published:
    """The cells of a release of one table.

    Args:
        root: Its folder.
        manifest: Content of its `manifest.json`.
    Raises:
        StoreError: the table is missing or was changed.
    """
    schema = schema_from_mapping(manifest.body["plan"]["schema"])
    frame = read_listed_table(root, manifest, TABLE)
    # Where the published table is the nearest one without negative counts, margins are those of the counts before.
    has_estimate = UNBIASED in frame.columns
    margin = ESTIMATE_MARGIN if has_estimate else MARGIN
    beside = ((ESTIMATE,) if has_estimate else ()) + ((margin,) if MARGIN.name in frame.columns else ())
    columns = {ESTIMATE.name: UNBIASED, margin.name: MARGIN.name}
    measures, name = (COUNT, *beside), manifest.body["name"]
    cube = Cube(
        geolevel="",
        table=name,
        key=(name,),
        titles={_LANGUAGE: titled(_LANGUAGE, schema.unit.many, schema.attribute_names)},
        unit=schema.unit.many,
        units={_LANGUAGE: schema.unit.many},
        notes={
            _LANGUAGE: (
                word(_LANGUAGE, "noise", units=schema.unit.many),
                word(_LANGUAGE, "sums"),
            )
        },
        dimensions=tuple(
            Dimension(
                attribute.name,
                attribute.name,
                pl.Series(attribute.levels, dtype=pl.String),
                {_LANGUAGE: attribute.name},
                {_LANGUAGE: pl.Series(attribute.levels, dtype=pl.String)},
            )
            for attribute in schema.attributes
        ),
        measures=measures,
        n_rows=frame.height,
        read=partial(_read, frame, schema, {item: columns.get(item.name, item.name) for item in measures}),
    )
    return Published({_LANGUAGE: name}, (cube,))


def _read(frame: pl.DataFrame, schema: Schema, columns: Mapping[Measure, str]) -> Iterator[pl.DataFrame]:
    levels = {attribute.name: pl.Series(attribute.levels, dtype=pl.String) for attribute in schema.attributes}
    # Without the attributes, which may have the names of measures.
    numbers = placed(frame, levels).select(
        "place", *(pl.col(column).alias(measure.name) for measure, column in columns.items())
    )
    margin = next((measure.name for measure in columns if measure in (MARGIN, ESTIMATE_MARGIN)), None)
    # A release of one table states margins of 95 % alone, which are about two standard errors.
    error = pl.lit(None, pl.Float64) if margin is None else pl.col(margin) / 2
    yield numbers.with_columns(status_of(error))
