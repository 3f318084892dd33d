"""The schema of a release file, and the most cells it may have."""

from collections.abc import Mapping, Sequence
from typing import Final

from tallyveil.budget.strategy import Strategy
from tallyveil.config.models import SchemaTable
from tallyveil.errors import SchemaError
from tallyveil.universe.attribute import Attribute
from tallyveil.universe.presets import load_preset
from tallyveil.universe.recode import Recode
from tallyveil.universe.schema import Schema
from tallyveil.universe.structural_zero import StructuralZero
from tallyveil.universe.unit import unit_of

MOST_CELLS: Final = 1 << 27
"""Most cells that a schema may have. The largest schema of the 2020 census has about a hundredth as many; estimation
would need several GiB of memory for a schema with the most."""

BYTES_PER_CELL: Final = 32
"""What estimation holds for a cell."""
BYTES_PER_ANSWERED_CELL: Final = 28
"""What estimation holds for a cell and each query besides: the answer that the cell counts in (4 bytes, and 8 more
while it is looked up), and up to one noisy value and its noise (8 bytes each)."""


def schema_of(table: SchemaTable) -> Schema:
    """The schema that a release file describes.

    Raises:
        SchemaError: its parts do not fit each other.
    """
    if table.preset is not None:
        return load_preset(table.preset)
    return Schema(
        name=table.name or "",
        attributes=tuple(Attribute(item.name, tuple(item.levels)) for item in table.attributes),
        recodes=tuple(Recode(item.name, item.attribute, _groups(item.groups)) for item in table.recodes),
        structural_zeros=tuple(
            StructuralZero(item.name, _groups(item.cells)) for item in table.structural_zeros
        ),
        unit=unit_of(table.unit, table.units),
    )


def require_size(schema: Schema, strategy: Strategy) -> None:
    """Refuse a schema whose cells cannot be worked on, before anything holds a number for each of them.

    Raises:
        SchemaError: it has more cells than `MOST_CELLS`.
    """
    if schema.size <= MOST_CELLS:
        return
    queries = max(len(strategy.queries(geolevel)) for geolevel in strategy.geolevels)
    needed = schema.size * (BYTES_PER_CELL + queries * BYTES_PER_ANSWERED_CELL)
    raise SchemaError(
        f"schema '{schema.name}' has {schema.size:,} cells. Estimation holds numbers for every cell of a geounit at "
        f"once: that would take about {needed / 2**30:,.0f} GiB of memory for these queries. Wanted at most "
        f"{MOST_CELLS:,} cells: drop or coarsen an attribute.",
        code="schema-too-large",
    )


def _groups(table: Mapping[str, Sequence[str]]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple((name, tuple(levels)) for name, levels in table.items())
