"""Signatures of the two kernels that the kernel of a chunk calls through pointers.

A test compares them with what the kernels give and take.
"""

from typing import Any

from numba import types

from tallyveil.kernels.family.program import PassArrays
from tallyveil.kernels.family.solver import Answer
from tallyveil.kernels.rounding.arrays import Bounds, Entries

_tuple_of: Any = types.BaseTuple.from_types  # numba has no types of its own functions
_BOOLS, _BOOL_ROWS = types.boolean[::1], types.boolean[:, ::1]
_FLOATS, _FLOAT_ROWS = types.float64[::1], types.float64[:, ::1]
_INTEGERS, _INTEGER_ROWS = types.int64[::1], types.int64[:, ::1]
_INT32_ROWS = types.int32[:, ::1]


def _named(kind: Any, **fields: Any) -> Any:
    """The type of a named tuple, whose fields are given by name."""
    return _tuple_of(tuple(fields[name] for name in kind._fields), kind)


_PASS = _named(
    PassArrays,
    allowed=_BOOL_ROWS,
    inhabitants=_FLOATS,
    has_sums=types.boolean,
    labels=_INT32_ROWS,
    widths=_INTEGERS,
    values=_FLOATS,
    weights=_FLOAT_ROWS,
    bound_labels=_INT32_ROWS,
    bound_widths=_INTEGERS,
    bound_groups=_INTEGER_ROWS,
    lower=_FLOATS,
    upper=_FLOATS,
)
_ANSWER = _named(
    Answer,
    estimate=_FLOAT_ROWS,
    residual=types.float64,
    rounds=types.int64,
    sweeps=types.int64,
    steps=types.int64,
)
_BOUNDS = _named(
    Bounds, offset=_INTEGERS, lower=_INTEGER_ROWS, upper=_INTEGER_ROWS, shared=_BOOLS, groups=_INTEGERS
)
_ENTRIES = _named(Entries, start=_INTEGERS, cell=_INTEGERS, floor=_INTEGERS, part=_INTEGERS)

SOLVE_PASS = _ANSWER(_PASS)
ROUND_BY_FLOW = _tuple_of((types.int64, _INTEGERS))(
    _INT32_ROWS, _INTEGERS, _BOOLS, _BOUNDS, _ENTRIES, _INTEGERS
)
