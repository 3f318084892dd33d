"""The kernels that those of tables call through pointers, and their compilation.

A kernel with the code of all of them would take longer to compile than all of them by themselves.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from tallyveil.kernels.compiled import compiled_for
from tallyveil.kernels.tiles.approach import approach
from tallyveil.kernels.tiles.chunk import Kernels, Solved, solve_families
from tallyveil.kernels.tiles.component import component_tables, read_family
from tallyveil.kernels.tiles.direction import find_direction
from tallyveil.kernels.tiles.family import TileChunk
from tallyveil.kernels.tiles.newton import Methods, climb
from tallyveil.kernels.tiles.projection import project
from tallyveil.kernels.tiles.rounding import round_table
from tallyveil.kernels.tiles.signatures import (
    APPROACH,
    BUILD,
    CLIMB,
    DIRECTION,
    FAMILIES,
    PROJECT,
    READ_FAMILY,
    ROUND,
    SOLVE,
)
from tallyveil.kernels.tiles.solver import Parts, solve_component

KERNELS = Kernels(
    read_family,
    component_tables,
    solve_component,
    Parts(Methods(project, approach, find_direction), climb),
    round_table,
)

SIGNATURES = (
    (project, PROJECT),
    (approach, APPROACH),
    (find_direction, DIRECTION),
    (climb, CLIMB),
    (solve_component, SOLVE),
    (round_table, ROUND),
    (read_family, READ_FAMILY),
    (component_tables, BUILD),
)
"""Each kernel that is called through a pointer, and its type."""


_TYPES = {
    "group": np.int32,
    "labels": np.int32,
    "chain": np.int32,
    "values": np.float64,
    "weights": np.float64,
}


@cache
def compile_tiles() -> Callable[..., Any]:
    """Compile the kernels of tables, or load them from disk. Returns that of a chunk."""
    for kernel, signature in SIGNATURES:
        compiled_for(kernel, signature)
    return compiled_for(solve_families, FAMILIES)


def solve_chunk(chunk: TileChunk, tolerance: float, *, keep_estimates: bool = False) -> Solved:
    """Estimate and round every family of a chunk; see `chunk.solve_families`.

    The kernel is compiled for one set of types. Arrays of other types, and arrays that are read-only, are copied. The
    chunk's values are changed (`family.TileChunk`), so that a chunk can be solved once.
    """
    typed = TileChunk(
        *(
            np.require(array, _TYPES.get(name, np.int64), ["C", "W"])
            for name, array in chunk._asdict().items()
        )
    )
    solved: Solved = compile_tiles()(typed, float(tolerance), bool(keep_estimates), KERNELS)
    return solved
