"""Signatures of the kernels of a family that other kernels call through pointers.

A test compares them with what the kernels give and take.
"""

from typing import Any

from numba import types

from tallyveil.kernels.family.answer_system import AnswerSystem
from tallyveil.kernels.family.face import Face, Signs
from tallyveil.kernels.family.parts import Faces, Kernels, Parts
from tallyveil.kernels.family.program import Answer, PassArrays, Point, Program
from tallyveil.kernels.family.walk import Swaps, Walk
from tallyveil.kernels.rounding.arrays import Bounds, Entries

_tuple_of: Any = types.BaseTuple.from_types  # numba has no types of its own functions
_BOOLS, _BOOL_ROWS = types.boolean[::1], types.boolean[:, ::1]
_FLOATS, _FLOAT_ROWS = types.float64[::1], types.float64[:, ::1]
_INTEGERS, _INTEGER_ROWS = types.int64[::1], types.int64[:, ::1]
_INT32_ROWS = types.int32[:, ::1]
_PLACES = types.uint32[::1]


def _named(kind: Any, /, **fields: Any) -> Any:
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
_PROGRAM = _named(
    Program,
    allowed=_BOOL_ROWS,
    has_sums=types.boolean,
    sums=_FLOATS,
    kind=_INTEGERS,
    answers=_INTEGER_ROWS,
    weights=_FLOAT_ROWS,
    targets=_FLOAT_ROWS,
    ridge=_FLOAT_ROWS,
    curvature=_FLOAT_ROWS,
    scale=_FLOAT_ROWS,
    hessian=types.float64[:, :, ::1],
    linear=_FLOAT_ROWS,
    row_group=_INTEGERS,
    row_bound=_INTEGERS,
    row_label=_INTEGERS,
    row_lower=_FLOATS,
    row_upper=_FLOATS,
    has_rows=_BOOLS,
    bound_label=_INTEGER_ROWS,
    bound_start=_INTEGERS,
    bound_width=_INTEGERS,
    bound_group=_INTEGER_ROWS,
    bound_members=_INTEGERS,
    row_number=_INTEGERS,
    row_scale=types.float64,
    row_stiffness=types.float64,
)
_POINT = _named(Point, x=_FLOAT_ROWS, cell_price=_FLOATS, row_price=_FLOATS)
_SIGNS = _named(Signs, free=_BOOL_ROWS, side=_INTEGERS)
_SYSTEM = _named(
    AnswerSystem,
    begin=_INTEGERS,
    first=_INTEGERS,
    unknowns=_PLACES,
    row=_INTEGERS,
    compliance=_FLOATS,
    common=_INTEGERS,
    shared=_FLOATS,
    factors=_FLOATS,
)
_FACE = _named(
    Face,
    cells=_PLACES,
    cells_of=_INTEGERS,
    give=_FLOATS,
    cell_stiffness=_FLOATS,
    inverse=_FLOATS,
    schur=_FLOAT_ROWS,
    rows=_INTEGERS,
    row_begin=_INTEGERS,
    members=_PLACES,
    compliance=types.float64,
    system=_FLOAT_ROWS,
    by_child=_SYSTEM,
    place=_INTEGERS,
    answers=_SYSTEM,
)
_WALK = _named(
    Walk,
    signs=_SIGNS,
    centre=_POINT,
    point=_POINT,
    costs=_FLOAT_ROWS,
    activity=_FLOATS,
    settled=_SIGNS,
    exact=types.float64,
    tolerance=types.float64,
)
_SWAPS = _named(Swaps, full=types.int64, single=types.int64, renewed=types.boolean, quick=types.boolean)
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

SIGNATURES = {
    "reduce_arrays": _tuple_of((_PROGRAM, _INTEGERS, _FLOATS))(_PASS),
    "approach": types.boolean(_PROGRAM, _POINT),
    "descend": types.int64(_PROGRAM, _POINT, types.float64, types.int64, types.float64),
    "list_face": _tuple_of((types.boolean, _FACE))(_PROGRAM, _SIGNS, types.float64, types.int64),
    "solve_face": types.none(_PROGRAM, _FACE, _WALK, types.float64, types.boolean),
}
"""Of the parts of the solver, by their names in `Parts` and `Faces`."""


def _pointers(kind: Any, /, **others: Any) -> Any:
    """The type of a named tuple of pointers to parts of the solver, and of other fields."""
    pointers = {name: types.FunctionType(SIGNATURES[name]) for name in kind._fields if name in SIGNATURES}
    return _named(kind, **pointers, **others)


FACES_TYPE = _pointers(Faces)
SIGNATURES["polish"] = _tuple_of((types.float64, types.int64))(
    _PROGRAM, _POINT, types.float64, types.int64, _SWAPS, FACES_TYPE
)
PARTS_TYPE = _pointers(Parts, faces=FACES_TYPE)
SOLVE_PASS = _ANSWER(_PASS, PARTS_TYPE)
ROUND_BY_FLOW = _tuple_of((types.int64, _INTEGERS))(
    _INT32_ROWS, _INTEGERS, _BOOLS, _BOUNDS, _ENTRIES, _INTEGERS
)
KERNELS_TYPE = _named(
    Kernels,
    solve=types.FunctionType(SOLVE_PASS),
    parts=PARTS_TYPE,
    round_up=types.FunctionType(ROUND_BY_FLOW),
)
