"""Counts published for real blocks, with which a made-up population can be made to agree."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.errors import GeographyError, SchemaError
from tallyveil.schema import Schema
from tallyveil.synthetic.country import GEOGRAPHY_COLUMNS

MOST_OF_A_BLOCK: Final = 1_000_000
"""Largest count that is accepted. Every person becomes a row, so that a wrong number could fill the memory."""


@dataclass(frozen=True, slots=True, eq=False)
class PublishedCounts:
    """Public counts of real blocks by voting age and race.

    Attributes:
        counts: Columns geocode, voting_age, race_ethnicity (levels of preset "race-age") and count. Missing rows mean a
            count of zero.
        blocks: One row for each block, including empty ones: columns geocode, state, county, tract, block_group.
    """

    counts: pl.DataFrame
    blocks: pl.DataFrame


def geography_of(published: PublishedCounts) -> pl.DataFrame:
    """The blocks' geography, sorted by geocode.

    Args:
        published: Counts and blocks.
    Returns:
        One row for each block, columns `GEOGRAPHY_COLUMNS`, all strings.
    Raises:
        GeographyError: a column is missing or has a null, there are no rows, or a block is repeated.
    """
    blocks = published.blocks
    missing = [column for column in GEOGRAPHY_COLUMNS if column not in blocks.columns]
    if missing:
        raise GeographyError(
            f"published blocks: column {missing[0]!r} is missing; wanted {list(GEOGRAPHY_COLUMNS)}. Add it."
        )
    # Sorted here, because the rows of the array of people are in this order.
    geography = blocks.select(pl.col(GEOGRAPHY_COLUMNS).cast(pl.String)).sort("geocode")
    if geography.height == 0 or sum(geography.null_count().row(0)):
        raise GeographyError(
            "published blocks: there are no rows, or a geocode is null. Wanted at least one row, and a value in "
            "every column."
        )
    if geography["geocode"].is_duplicated().any():
        raise GeographyError("published blocks: a geocode is given twice; wanted one row per block.")
    return geography


def people_of(published: PublishedCounts, geography: pl.DataFrame, schema: Schema) -> NDArray[np.int64]:
    """The published counts as an array.

    Args:
        published: Counts and blocks.
        geography: The blocks, from `geography_of`.
        schema: Preset "race-age".
    Returns:
        Shape (n_blocks, 2, 8): people by voting age and race.
    Raises:
        SchemaError: a column is missing, a level is unknown, or a count is no whole number from 0 to `MOST_OF_A_BLOCK`.
        GeographyError: a geocode is not a block.
    """
    # Other columns are ignored, so that a published table can be given as it is.
    wanted = ("geocode", *schema.attribute_names, "count")
    missing = [column for column in wanted if column not in published.counts.columns]
    if missing:
        raise SchemaError(
            f"published counts: column {missing[0]!r} is missing; wanted {list(wanted)}. Add it."
        )
    counts = published.counts.select(wanted)
    codes = np.stack(
        [_codes(counts, attribute.name, attribute.levels) for attribute in schema.attributes], axis=1
    )
    place = (
        counts["geocode"]
        .cast(pl.String)
        .replace_strict(
            geography["geocode"],
            pl.int_range(geography.height, eager=True),
            default=None,
            return_dtype=pl.Int64,
        )
    )
    if place.null_count():
        raise GeographyError("published counts: a geocode is not among the published blocks; add its block.")
    # strict=False turns what is no number into null, which is refused below with the rest.
    number = counts["count"].cast(pl.Int64, strict=False)
    whole = not counts["count"].dtype.is_float() or bool((number == counts["count"]).all())
    if number.null_count() or not whole or (number < 0).any():
        raise SchemaError(
            "published counts: a count is null, negative or no whole number; wanted whole numbers from 0. Correct it."
        )
    if (number > MOST_OF_A_BLOCK).any():
        raise SchemaError(
            f"published counts: a count is above {MOST_OF_A_BLOCK:,}, which is more people than any block has. Correct "
            "it."
        )
    people = np.zeros((geography.height, *schema.shape), dtype=np.int64)
    # add.at, because a block may have several rows of one age and race.
    np.add.at(people, (place.to_numpy(), codes[:, 0], codes[:, 1]), number.to_numpy())
    return people


def _codes(counts: pl.DataFrame, column: str, levels: tuple[str, ...]) -> NDArray[np.int64]:
    codes = (
        counts[column]
        .cast(pl.String)
        .replace_strict(list(levels), list(range(len(levels))), default=None, return_dtype=pl.Int64)
    )
    if codes.null_count():
        raise SchemaError(
            f"published counts: column {column!r} holds an unknown level; wanted {list(levels)}."
        )
    return codes.to_numpy()
