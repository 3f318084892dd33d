"""The noisy answers of one query at one geolevel, read from a finished folder."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from tallyveil.errors import ConfigError, StoreError
from tallyveil.files.finished import MANIFEST
from tallyveil.files.manifest import Manifest
from tallyveil.files.manifest_files import read_listed_table
from tallyveil.measurements.layouts.tidy import tidy_rows
from tallyveil.measurements.store import measurement_name
from tallyveil.plans.stated import stated_plan
from tallyveil.schema.answer_columns import summed_out
from tallyveil.schema.names import as_named


def noisy_parts(root: Path, manifest: Manifest, geolevel: str, query: str) -> Iterator[pl.DataFrame]:
    """The parts of a query's noisy answers, each checked against the manifest.

    Raises:
        StoreError: a part is missing, cannot be read, or is not the one that the manifest lists.
    """
    for name in _part_names(manifest, geolevel, query):
        yield read_listed_table(root, manifest, name)


def _part_names(manifest: Manifest, geolevel: str, query: str) -> list[str]:
    folder = measurement_name(geolevel, query) + "/"
    # Sorted: parts are numbered with leading zeros, so that this is the order of geounits.
    return sorted(name for name in manifest.digests if name.startswith(folder))


def noisy_answers(root: Path, manifest: Manifest, geolevel: str, query: str) -> pl.DataFrame:
    """The noisy answers of a query at a geolevel of the spine, as far as the folder keeps them.

    Args:
        root: A finished release or finished measurements.
        manifest: Its manifest.
        geolevel: A measured geolevel.
        query: A query that was measured there.
    Returns:
        `geocode`, a column for each attribute that the query names, `value` (a count, int64) and `variance` (squared
        counts). A geounit without a share of the budget has no rows. If only answers on the support were kept, the
        others have no rows.
    Raises:
        ConfigError: the query was not measured at this geolevel.
        StoreError: the folder keeps no noisy answers, or they are damaged.
    """
    plan = stated_plan(root / MANIFEST, manifest.body["plan"]).estimating
    if plan.measurements == "none":
        raise StoreError(
            f'{root} keeps no noisy answers (measurements = "none"). They cannot be drawn again, because the key of '
            'the noise has been removed. Make the next release with measurements = "full" under [outputs], which '
            "costs no additional budget.",
            code="measurements-missing",
        )
    measured = {name: plan.strategy.queries(name) for name in plan.strategy.geolevels}
    query = as_named(query, measured.get(geolevel, ()))
    if query not in measured.get(geolevel, ()):
        known = "; ".join(f"{name}: {', '.join(queries)}" for name, queries in measured.items())
        raise ConfigError(
            f"{root} has no measurements of {query!r} at {geolevel!r}. Ask for what was measured. {known}.",
            code="no-table",
        )
    if plan.measurements == "small" and not _part_names(manifest, geolevel, query):
        raise StoreError(
            f'{root} keeps no noisy answers of {query!r} at {geolevel} (measurements = "small"), because they would '
            "have been too many. They cannot be drawn again, because the key of the noise has been removed. Ask for a "
            "smaller query, or for a coarser geolevel.",
            code="measurements-missing",
        )
    group = plan.query(query)
    parts = noisy_parts(root, manifest, geolevel, query)
    # The empty frame gives the columns and their types where there is no part.
    rows = pl.concat([tidy_rows(group, _NO_PART), *(tidy_rows(group, part) for part in parts)])
    return rows.drop(summed_out(group))


_NO_PART = pl.DataFrame(schema={"geocode": pl.String, "values": pl.List(pl.Int64), "variance": pl.Float64})
"""Measurements of no geounit: on the support, a query may have nothing that had to be measured."""
