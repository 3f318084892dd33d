"""Reading people: from a table of records to the true histogram, with errors that show no record."""

import logging
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl

from tallyveil.confidential.histogram import ConfidentialHistogram, histogram_from_triplets
from tallyveil.errors import GeographyError, SchemaError, TallyveilError
from tallyveil.geography.spine import Spine
from tallyveil.storage.read import collect, require_text, scan_table
from tallyveil.universe.schema import Schema

logger = logging.getLogger(__name__)

WEIGHT = "__count"
SMALLEST = "__smallest"


def read_records(
    path: Path,
    *,
    geocode: str,
    count: str | None,
    columns: Mapping[str, str],
    schema: Schema,
    spine: Spine,
) -> ConfidentialHistogram:
    """Read a table of people into the true histogram of the finest geolevel.

    Args:
        path: Parquet or CSV; one row a person, or one row a count.
        geocode: Column of the finest geocode (text).
        count: Column of non-negative whole counts, or None for one row a person.
        columns: Column of every attribute, by attribute name; its values are level names.
        schema: The universe the records must fit.
        spine: The hierarchy their geocodes must be in.
    Raises:
        SchemaError: a value is no level of its attribute, a count is negative, missing or not whole, or a
            record lies in a structural zero.
        GeographyError: a record's geocode is not in the geography table.
        ConfigError, StoreError: the file or a column is missing or unreadable.
    Privacy: messages name columns and rules only, never a value, a geocode or a number of records.
    """
    wanted = [geocode, *columns.values(), *([count] if count else [])]
    frame = scan_table(path, wanted, "records")
    require_text(frame, geocode, path, "records")
    groups = _grouped(frame, path, geocode, count, columns)
    problems: list[TallyveilError] = []
    if count is not None:
        problems += _count_problems(groups, path, count)
    codes = _codes(groups, path, columns, schema, problems)
    rows = _geounits(groups, path, geocode, spine, problems)
    if problems:
        raise _together(problems)
    cells = schema.encode(codes)
    _refuse_structural_zeros(cells, schema, path)
    counts = groups[WEIGHT].to_numpy().astype(np.int64)
    finest = spine.finest
    logger.info("records read and valid")
    return histogram_from_triplets(
        spine.geolevels[finest], spine.n_geounits(finest), rows, cells.astype(np.int64), counts
    )


def _grouped(
    frame: pl.LazyFrame, path: Path, geocode: str, count: str | None, columns: Mapping[str, str]
) -> pl.DataFrame:
    """One row a distinct (geocode, values); summed before anything else, so memory follows the histogram."""
    keys = [pl.col(geocode).cast(pl.String).alias("__geocode")]
    keys += [pl.col(column).cast(pl.String).alias(f"__{name}") for name, column in columns.items()]
    if count is None:
        weights = [pl.len().cast(pl.Int64).alias(WEIGHT)]
    else:
        # A count that is no whole number becomes null and is refused below; a strict cast would quote it.
        whole = pl.col(count).cast(pl.Int64, strict=False)
        exact = pl.when(whole.cast(pl.Float64) == pl.col(count).cast(pl.Float64, strict=False)).then(whole)
        weights = [exact.sum().alias(WEIGHT), exact.fill_null(-1).min().alias(SMALLEST)]
    return collect(frame.group_by(keys).agg(weights), path, "records")


def _count_problems(groups: pl.DataFrame, path: Path, count: str) -> list[TallyveilError]:
    if groups.is_empty() or bool((groups[SMALLEST] >= 0).all()):
        return []
    return [
        SchemaError(
            f"column '{count}' of the records file {path} has negative, missing or fractional counts; wanted "
            "whole numbers, 0 or more. Mend or remove those rows (filter the column for values below 0, "
            "nulls and fractions to find them).",
            code="bad-counts",
        )
    ]


def _codes(
    groups: pl.DataFrame,
    path: Path,
    columns: Mapping[str, str],
    schema: Schema,
    problems: list[TallyveilError],
) -> np.ndarray:
    codes = np.zeros((groups.height, len(schema.attributes)), dtype=np.int64)
    for position, attribute in enumerate(schema.attributes):
        values = groups[f"__{attribute.name}"]
        found = values.replace_strict(
            list(attribute.levels), list(range(attribute.size)), default=-1, return_dtype=pl.Int64
        ).fill_null(-1)
        if bool((found < 0).any()):
            shown = ", ".join(attribute.levels[:12]) + (", ..." if attribute.size > 12 else "")
            problems.append(
                SchemaError(
                    f"column '{columns[attribute.name]}' of the records file {path} has values (or nulls) that "
                    f"are no level of attribute '{attribute.name}'. Its {attribute.size} levels are: {shown}. "
                    "Recode the column, or add the level to the schema.",
                    code="unknown-level",
                )
            )
        codes[:, position] = found.to_numpy()
    return codes


def _geounits(
    groups: pl.DataFrame, path: Path, geocode: str, spine: Spine, problems: list[TallyveilError]
) -> np.ndarray:
    finest = spine.finest
    rows = spine.locate(finest, groups["__geocode"].fill_null("").to_numpy())
    if bool((rows < 0).any()):
        problems.append(
            GeographyError(
                f"the records file {path} has records whose '{geocode}' is missing or is no "
                f"{spine.geolevels[finest]} of the geography table. Add the missing geounits to the table "
                "(every geounit belongs there, also the empty ones), or correct the records; an anti-join of "
                "the two files finds them.",
                code="unknown-geounit",
            )
        )
    return rows


def _refuse_structural_zeros(cells: np.ndarray, schema: Schema, path: Path) -> None:
    if not bool(schema.possible(cells).all()):
        names = ", ".join(f"'{zero.name}'" for zero in schema.structural_zeros)
        raise SchemaError(
            f"the records file {path} has records in a structural zero of schema '{schema.name}' ({names}). "
            "Edit those records before the release, or remove the structural zero from the schema.",
            code="structural-zero",
        )


def _together(problems: list[TallyveilError]) -> TallyveilError:
    """One error that shows every problem at once, of the first problem's kind."""
    if len(problems) == 1:
        return problems[0]
    lines = [f"{len(problems)} problems with the records:"] + [f"- {problem}" for problem in problems]
    return type(problems[0])("\n".join(lines), code=problems[0].code)
