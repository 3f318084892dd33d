"""The kernels that those of tables call through pointers, and their compilation.

A kernel with the code of all of them would take longer to compile than all of them by themselves.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from tallyveil.kernels.compiled import compiled_for, with_pointers
from tallyveil.kernels.rounding.network_simplex import minimum_cost_flow, proves_least_cost
from tallyveil.kernels.tiles.approach import approach
from tallyveil.kernels.tiles.chunk import Kernels, Solved, solve_families
from tallyveil.kernels.tiles.component import component_tables, prepare
from tallyveil.kernels.tiles.family import TileChunk
from tallyveil.kernels.tiles.newton import Methods, climb, find_direction
from tallyveil.kernels.tiles.projection import project
from tallyveil.kernels.tiles.rounding import Flows, round_table
from tallyveil.kernels.tiles.signatures import (
    APPROACH,
    BUILD,
    CLIMB,
    DIRECTION,
    FLOW,
    KERNELS_TYPE,
    PREPARE,
    PROJECT,
    PROOF,
    ROUND,
    SOLVE,
)
from tallyveil.kernels.tiles.solver import Parts, solve_component

KERNELS = Kernels(
    prepare,
    component_tables,
    solve_component,
    Parts(Methods(project, approach, find_direction), climb),
    round_table,
    Flows(minimum_cost_flow, proves_least_cost),
)

SIGNATURES = (
    (project, PROJECT),
    (approach, APPROACH),
    (find_direction, DIRECTION),
    (climb, CLIMB),
    (solve_component, SOLVE),
    (minimum_cost_flow, FLOW),
    (proves_least_cost, PROOF),
    (round_table, ROUND),
    (prepare, PREPARE),
    (component_tables, BUILD),
)
"""Each kernel that is called through a pointer, and its type."""


@cache
def compile_parts() -> None:
    """Compile the kernels that are called through pointers, or load them from disk."""
    for kernel, signature in SIGNATURES:
        compiled_for(kernel, signature)


def solve_chunk(chunk: TileChunk, tolerance: float, *, keep_estimates: bool = False) -> Solved:
    """Estimate and round every family of a chunk; see `chunk.solve_families`."""
    compile_parts()
    given = (chunk, tolerance, keep_estimates)
    kernel: Callable[..., Any] = with_pointers(solve_families, given, KERNELS_TYPE)
    solved: Solved = kernel(*given, KERNELS)
    return solved
