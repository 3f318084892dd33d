"""How large a schema and a strategy may be, which is checked before any array is made."""

from typing import Final

from tallyveil.budget.strategy import Strategy
from tallyveil.errors import GeographyError, SchemaError
from tallyveil.noise.address import GEOLEVEL_BITS, QUERY_BITS
from tallyveil.schema.schema import Schema

MOST_CELLS: Final = 1 << 27
"""The largest number of cells that a schema may have.

The largest schema of the 2020 census has about a hundredth of this. With this many cells, estimation would need several
GiB of memory.
"""
MOST_LAYERED_CELLS: Final = MOST_CELLS
"""The largest product of the number of cells and the number of layers of overlapping queries at a geolevel.

Estimation treats every layer as a query of its own (`BYTES_PER_ANSWERED_CELL`). A query has at most one layer for each
of its answers.
"""

BYTES_PER_CELL: Final = 32
"""Bytes that estimation holds for each cell."""
BYTES_PER_ANSWERED_CELL: Final = 28
"""Bytes that estimation holds for each pair of a cell and a layer of a query, in addition to `BYTES_PER_CELL`.

A query has one layer, unless its groups overlap.

The number of the answer in which the cell is counted takes 4 bytes, and 8 more while it is looked up. At most one noisy
value and its noise take 8 bytes each.
"""


def require_size(schema: Schema, strategy: Strategy) -> None:
    """Refuse a schema that is too large, before any array with one number for each cell is made.

    Raises:
        SchemaError: the schema has more cells than `MOST_CELLS`.
    """
    if schema.size <= MOST_CELLS:
        return
    # The geolevel with most queries needs the most memory, so it is the one that the message is about.
    queries = max(len(strategy.queries(geolevel)) for geolevel in strategy.geolevels)
    needed = schema.size * (BYTES_PER_CELL + queries * BYTES_PER_ANSWERED_CELL)
    raise SchemaError(
        f"schema '{schema.name}' has {schema.size:,} cells. Estimation holds numbers for every cell of a geounit in "
        f"memory, which would take about {needed / 2**30:,.0f} GiB for these queries. Wanted at most {MOST_CELLS:,} "
        "cells. Drop or coarsen an attribute.",
        code="schema-too-large",
    )


def require_possible(schema: Schema) -> None:
    """Refuse structural zeros that forbid every cell.

    Raises:
        SchemaError: no cell is possible.
    """
    if not schema.possible_answers(schema.query("total")).size:
        names = ", ".join(repr(zero.name) for zero in schema.structural_zeros)
        raise SchemaError(
            f"the structural zeros {names} of schema '{schema.name}' forbid every cell, so that no "
            f"{schema.unit.one} can be counted. A structural zero lists combinations of levels that no record has. "
            "Correct them.",
            code="nobody-fits",
        )


def require_addresses(strategy: Strategy) -> None:
    """Refuse more geolevels, or queries at a geolevel, than the addresses of the noise have numbers for.

    Raises:
        GeographyError, SchemaError: there are too many.
    """
    levels = len(strategy.geolevels)
    queries = max(len(strategy.queries(name)) for name in strategy.geolevels)
    # Two geolevels of one address would share their noise, which the guarantee does not allow for.
    if levels > 1 << GEOLEVEL_BITS:
        raise GeographyError(
            f"the spine has {levels:,} geolevels; wanted at most {1 << GEOLEVEL_BITS}, because the addresses of the "
            "noise have no numbers for more. Leave out geolevels."
        )
    if queries > 1 << QUERY_BITS:
        raise SchemaError(
            f"a geolevel measures {queries:,} queries; wanted at most {1 << QUERY_BITS:,}, because the addresses of "
            "the noise have no numbers for more. Measure fewer queries."
        )


def require_few_layers(schema: Schema, strategy: Strategy) -> None:
    """Refuse overlapping queries with too many layers, before any array with one number for each cell of one is made.

    Raises:
        SchemaError: there are more pairs of a layer and a cell than `MOST_LAYERED_CELLS`, or a query is unknown.
    """
    for geolevel in strategy.geolevels:
        groups = map(schema.query, strategy.queries(geolevel))
        # Queries without overlaps have one layer each, which `MOST_CELLS` already allows for.
        layers = sum(group.n_layers for group in groups if group.overlaps)
        if layers * schema.size > MOST_LAYERED_CELLS:
            raise SchemaError(
                f"the queries of {geolevel} whose groups overlap have {layers:,} layers, in each of which no groups "
                f"overlap. Estimation holds numbers for every layer and each of the {schema.size:,} cells. Wanted at "
                f"most {MOST_LAYERED_CELLS:,} pairs of a layer and a cell. Measure fewer overlapping groups.",
                code="schema-too-large",
            )
