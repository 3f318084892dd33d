"""Loops over four numbers at a time, which an intrinsic states as instructions on vectors of four numbers.

No sum is reassociated and no product is fused with a sum, so that every machine gives the same bits, whether it
has such vectors or not. Python runs the lines of each function here, and a kernel that calls it gets the
instructions. The number n of all of them is a multiple of four. Numbers lie side by side, and the caller holds
that arrays do not overlap. The compiler does not know this: its own loops of short rows test it in each row.

*Four sums.* The sum of many numbers waits for each addition before the next one. Four sums of every fourth
number wait a quarter as long, and a processor can add to all four at once. The additions of each lane have
the same order on every machine. Worked case: the values 5, 1, 2, 9, 7, 0, 0, 0 and the shift 2. The lanes have
the sums 3 + 5, 0, 0 and 7; three values lie above 2.
"""

from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, overload

from tallyveil.arrays import Floats

LANES = 4
"""Numbers in one instruction. Four fill the vector registers of common processors (AVX2); on others the compiler splits
them into smaller vectors, with the same sums. More lanes would change the order of additions, and so the bits."""

_types: Any = types  # numba has no types of its own functions
_code: Any = cgutils


def four_sums(values: Floats, n: int, shift: float) -> tuple[tuple[float, float, float, float], int]:
    """Sums of max(0, value - shift) over every fourth of the first n values, and how many values lie above the shift.

    The number n is a multiple of four. The values lie side by side.
    """
    # The same additions in the same order as the instructions: lane i % 4, from the first number to the last.
    sums = np.zeros(LANES)
    for i in range(n):
        sums[i % LANES] += max(values[i] - shift, 0.0)
    first, second, third, fourth = sums.tolist()
    return (first, second, third, fourth), int((values[:n] > shift).sum())


@overload(four_sums, strict=False)  # annotations may differ
def _compiled_four_sums(values: Any, n: Any, shift: Any) -> Any:
    """What a kernel calls."""

    def instructions(values: Any, n: Any, shift: Any) -> Any:
        return _four_sums(values, n, shift)  # type: ignore[call-arg]

    return instructions


@intrinsic
def _four_sums(typing: Any, values: Any, n: Any, shift: Any) -> Any:
    """The types of `four_sums`, and its instructions."""
    sums = _types.UniTuple(types.float64, LANES)
    signature = _types.Tuple((sums, types.int64))(values, types.int64, types.float64)
    return signature, _write_sums


def _write_sums(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Write the loop over four values at a time."""
    # No test of n or of the layout: the caller holds both, and a test inside the loop would cost what it saves.
    values, n, shift = arguments
    floats, integers = ir.VectorType(ir.DoubleType(), LANES), ir.VectorType(ir.IntType(64), LANES)
    data = context.make_array(signature.args[0])(context, builder, values).data
    shifts = _in_all_lanes(builder, floats, shift)
    zeros, ones = ir.Constant(floats, [0.0] * LANES), ir.Constant(integers, [1] * LANES)
    sums, counts = (_code.alloca_once_value(builder, ir.Constant(kind, None)) for kind in (floats, integers))
    step = ir.Constant(n.type, LANES)
    with _code.for_range_slice(builder, ir.Constant(n.type, 0), n, step) as (i, _):
        place = builder.bitcast(builder.gep(data, [i]), floats.as_pointer())
        four = builder.load(place, align=8)  # arrays of numbers begin at multiples of 8 bytes, and not of 32
        above = builder.fsub(four, shifts)
        # Numbers that are not above add an exact 0, so that the sum is that of the branch without one.
        above = builder.select(builder.fcmp_ordered(">", above, zeros), above, zeros)
        # Without flags of fast mathematics: the compiler may not reassociate these sums.
        builder.store(builder.fadd(builder.load(sums), above), sums)
        lies_above = builder.fcmp_ordered(">", four, shifts)
        counted_here = builder.select(lies_above, ones, ir.Constant(integers, None))
        builder.store(builder.add(builder.load(counts), counted_here), counts)
    lanes = [ir.Constant(ir.IntType(32), lane) for lane in range(LANES)]
    summed, counted = builder.load(sums), builder.load(counts)
    total = ir.Constant(ir.IntType(64), 0)
    for lane in lanes:
        total = builder.add(total, builder.extract_element(counted, lane))
    lane_sums = [builder.extract_element(summed, lane) for lane in lanes]
    inner = context.make_tuple(builder, signature.return_type[0], lane_sums)
    return context.make_tuple(builder, signature.return_type, [inner, total])


def _in_all_lanes(builder: Any, kind: Any, number: Any) -> Any:
    """A vector with the same number in all lanes."""
    vector = ir.Constant(kind, ir.Undefined)
    for lane in range(LANES):
        vector = builder.insert_element(vector, number, ir.Constant(ir.IntType(32), lane))
    return vector


def _places(context: Any, builder: Any, signature: Any, arguments: Any) -> list[Any]:
    """The arguments, with the place of its first number for each array."""
    return [
        context.make_array(kind)(context, builder, value).data if isinstance(kind, types.Array) else value
        for kind, value in zip(signature.args, arguments, strict=True)
    ]


def _at(builder: Any, data: Any, i: Any) -> Any:
    """Where four numbers of an array lie."""
    floats = ir.VectorType(ir.DoubleType(), LANES)
    return builder.bitcast(builder.gep(data, [i]), floats.as_pointer())


def _load(builder: Any, data: Any, i: Any) -> Any:
    """Four numbers of an array."""
    return builder.load(_at(builder, data, i), align=8)


Four: TypeAlias = tuple[Any, Any, Any, Any]


def subtract_fours(out: Floats, rows: Four, factors: Four, n: int) -> None:
    """Subtract factor * row for each of four rows, one after the other."""
    for row, factor in zip(rows, factors, strict=True):
        out[:n] -= factor * row[:n]


@overload(subtract_fours, strict=False)  # annotations may differ
def _compiled_subtract_fours(out: Any, rows: Any, factors: Any, n: Any) -> Any:
    """What a kernel calls."""

    def instructions(out: Any, rows: Any, factors: Any, n: Any) -> Any:
        return _subtract_fours(out, rows, factors, n)  # type: ignore[call-arg]

    return instructions


@intrinsic
def _subtract_fours(typing: Any, out: Any, rows: Any, factors: Any, n: Any) -> Any:
    """The types of `subtract_fours`, and its instructions."""
    return _types.void(out, rows, factors, types.int64), _write_subtract


def _write_subtract(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    out, _, _, n = _places(context, builder, signature, arguments)
    floats = ir.VectorType(ir.DoubleType(), LANES)
    row = context.make_array(signature.args[0])
    rows = [row(context, builder, each).data for each in _code.unpack_tuple(builder, arguments[1])]
    factors = [_in_all_lanes(builder, floats, each) for each in _code.unpack_tuple(builder, arguments[2])]
    step = ir.Constant(n.type, LANES)
    with _code.for_range_slice(builder, ir.Constant(n.type, 0), n, step) as (i, _):
        left = _load(builder, out, i)
        for data, factor in zip(rows, factors, strict=True):
            left = builder.fsub(left, builder.fmul(factor, _load(builder, data, i)))
        builder.store(left, _at(builder, out, i), align=8)
    return context.get_dummy_value()
