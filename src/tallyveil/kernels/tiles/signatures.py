"""Types of what the kernels of tables take through pointers. A test compares them with the kernels."""

from typing import Any

from numba import types

from tallyveil.kernels.tiles.certificate import Gaps
from tallyveil.kernels.tiles.chunk import Kernels, Solved
from tallyveil.kernels.tiles.component import Numbers, Source
from tallyveil.kernels.tiles.family import Family, FreeTables, TileChunk
from tallyveil.kernels.tiles.newton import Effort, Methods
from tallyveil.kernels.tiles.rounding import Estimates, Nest
from tallyveil.kernels.tiles.solver import Outcome, Parts
from tallyveil.kernels.tiles.tables import Prices, Tables

_tuple_of: Any = types.BaseTuple.from_types  # numba has no types of its own functions
_FLOATS, _FLOAT_ROWS = types.float64[::1], types.float64[:, ::1]
_INTEGERS, _INTEGER_ROWS = types.int64[::1], types.int64[:, ::1]
_INT32S, _INT32_ROWS, _BOOLS = types.int32[::1], types.int32[:, ::1], types.boolean[::1]

TABLES = _tuple_of(
    (
        _INTEGERS,
        _INTEGERS,
        _INTEGERS,
        _BOOLS,
        _INT32S,
        _FLOATS,
        _FLOATS,
        _FLOATS,
        _FLOATS,
        _FLOATS,
        _INTEGERS,
        _INT32S,
        _FLOAT_ROWS,
        _FLOAT_ROWS,
    ),
    Tables,
)
PRICES = _tuple_of((_FLOATS, _FLOATS, _FLOAT_ROWS), Prices)
PROJECT = types.float64(TABLES, _FLOATS, PRICES, _FLOATS, types.float64, types.int64)
PROJECT_TYPE = types.FunctionType(PROJECT)
APPROACH = types.float64(TABLES, PRICES, _FLOATS, types.int64, types.float64, types.float64, PROJECT_TYPE)
APPROACH_TYPE = types.FunctionType(APPROACH)
EFFORT = _tuple_of((types.float64, types.int64, types.int64, types.int64), Effort)
DIRECTION = _tuple_of((types.float64, types.int64))(TABLES, _FLOATS, _FLOAT_ROWS, PRICES, types.float64)
METHODS_TYPE = _tuple_of((PROJECT_TYPE, APPROACH_TYPE, types.FunctionType(DIRECTION)), Methods)
CLIMB = EFFORT(TABLES, PRICES, _FLOATS, types.float64, METHODS_TYPE)
PARTS_TYPE = _tuple_of((METHODS_TYPE, types.FunctionType(CLIMB)), Parts)
_GAPS = _tuple_of((types.float64, types.float64, types.float64), Gaps)
_OUTCOME = _tuple_of((types.int64, _GAPS, types.int64, types.int64, types.int64), Outcome)
SOLVE = _OUTCOME(TABLES, PRICES, _FLOATS, types.float64, PARTS_TYPE)

_ESTIMATES = _tuple_of((_FLOATS, types.int64, types.int64, _FLOATS, _FLOATS), Estimates)
_NEST = _tuple_of((_INT32_ROWS, _INTEGERS, _INTEGERS), Nest)
ROUND = types.int64(_ESTIMATES, _NEST, _INTEGERS)
CHUNK = _tuple_of(
    (
        _INTEGERS,
        _INTEGERS,
        _INT32S,
        _INTEGERS,
        _INTEGERS,
        _INTEGERS,
        _INT32_ROWS,
        _INTEGER_ROWS,
        _INTEGER_ROWS,
        _FLOATS,
        _FLOAT_ROWS,
        _INT32_ROWS,
        _INTEGERS,
    ),
    TileChunk,
)
_FAMILY = _tuple_of(
    (
        _INTEGERS,
        _INT32S,
        _INTEGER_ROWS,
        _INT32_ROWS,
        _INTEGERS,
        _INTEGERS,
        _FLOATS,
        _FLOAT_ROWS,
        _INT32_ROWS,
        _INTEGERS,
    ),
    Family,
)
_FREE = _tuple_of((_INTEGERS, _INTEGERS, _INT32S, _INTEGERS, _INT32S), FreeTables)
_NUMBERS = _tuple_of((_INTEGERS, _INT32S, _INT32S, _INT32S), Numbers)
SOURCE = _tuple_of((_FAMILY, _FREE, types.int8[:, ::1], _NUMBERS), Source)
READ_FAMILY = _tuple_of((types.boolean, SOURCE, _INTEGERS, _INTEGERS))(CHUNK, types.int64, _INTEGER_ROWS)
BUILD = TABLES(SOURCE, _INTEGERS)
KERNELS_TYPE = _tuple_of(
    (
        types.FunctionType(READ_FAMILY),
        types.FunctionType(BUILD),
        types.FunctionType(SOLVE),
        PARTS_TYPE,
        types.FunctionType(ROUND),
    ),
    Kernels,
)
_SOLVED = _tuple_of(
    (_INTEGERS, _FLOAT_ROWS, _INTEGER_ROWS, _INTEGERS, _INT32S, _INTEGERS, _FLOATS),
    Solved,
)
FAMILIES = _SOLVED(CHUNK, types.float64, types.boolean, KERNELS_TYPE)
