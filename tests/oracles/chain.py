"""Specifications of the kernels of `chain` and `chain_coupled`, in plain Python: dense columns, no running sums.

A law here is (kind, scale, limit, thresholds). Sizes are summed again at every step, and the ends of a slice are found
one point at a time.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from tallyveil.arrays import Integers, Words
from tallyveil.kernels.subspace.chain import ABSOLUTE, ROOT, Bits, Ends

Law: TypeAlias = tuple[int, float, int, Words]

_NEAR = 16


class DenseColumns(NamedTuple):
    """Columns of the basis as a dense matrix.

    Attributes:
        matrix: [rows, columns], cells first.
        pivots: A row of each column at which its step is 1. [columns]
        n_cells: Cells of a state.
    """

    matrix: Integers
    pivots: Integers
    n_cells: int


class Jumps(NamedTuple):
    """Jump laws.

    Attributes:
        masses: The law of each column.
        block: Columns that are accepted or rejected together.
    """

    masses: Sequence[Sequence[int]]
    block: int


def _words_of(bits: Bits, sweep: int) -> list[int]:
    """The random words of one sweep."""
    return [int(word) for word in bits.words[sweep * bits.per_sweep : (sweep + 1) * bits.per_sweep]]


def draw_slack_reference(words: Sequence[int], thresholds: Words) -> int:
    """Specification of `draw_slack`."""
    digits = [
        sum(int(bound) <= int(u) for bound in row[:-1])
        for u, row in zip(words, thresholds.tolist(), strict=True)
    ]
    return sum(digit * 256**place for place, digit in enumerate(digits))


def level_reference(law: Law, cells: Integers) -> tuple[int, bool]:
    """Level of a vector, and whether it lies within the limit."""
    kind, scale, limit, _ = law
    size = int(np.abs(cells).sum() if kind == ABSOLUTE else (cells**2).sum())
    return (math.floor(scale * math.sqrt(size)) if kind == ROOT else size), size <= limit


def slice_ends_reference(law: Law, cells: Integers, column: Integers, height: int) -> tuple[int, int]:
    """Specification of `size_budget` and `slice_ends` together."""
    ends = []
    for sign in (-1, 1):
        times = 0
        while True:
            level, inside = level_reference(law, cells + sign * (times + 1) * column)
            if level > height or not inside:
                break
            times += 1
        ends.append(sign * times)
    return ends[0], ends[1]


def draw_jump_reference(bits: int, masses: Sequence[int]) -> tuple[int, int]:
    """Specification of `draw_jump`: count through the histogram, jumps of both signs taking turns."""
    if bits < masses[0]:
        return 0, bits
    place, positive = divmod(bits - masses[0], 2)
    jump = 1
    while place >= masses[jump]:
        place -= masses[jump]
        jump += 1
    return (jump if positive else -jump), place


def slice_sweeps_reference(law: Law, dense: DenseColumns, bits: Bits, state: Integers) -> None:
    """Specification of `slice_sweeps`."""
    columns, _, n_cells = dense
    digits = law[3].shape[0]
    for sweep in range(bits.n_sweeps):
        words = _words_of(bits, sweep)
        for k in range(columns.shape[1]):
            drawn = words[k * (digits + 1) : (k + 1) * (digits + 1)]
            height = level_reference(law, state[:n_cells])[0] + draw_slack_reference(drawn[:-1], law[3])
            low, high = slice_ends_reference(law, state[:n_cells], columns[:n_cells, k], height)
            n = high - low + 1
            if (drawn[-1] * n) % 2**64 < 2**64 % n:
                continue
            state += (low + drawn[-1] * n // 2**64) * columns[:, k]


def jump_sweeps_reference(law: Law, dense: DenseColumns, jumps: Jumps, bits: Bits, state: Integers) -> int:
    """Specification of `jump_sweeps`."""
    columns, _, n_cells = dense
    masses, block = jumps
    n_columns, digits, accepted = columns.shape[1], law[3].shape[0], 0
    for sweep in range(bits.n_sweeps):
        words = _words_of(bits, sweep)
        place = (n_columns + 1) // 2
        for first in range(0, n_columns, block):
            proposal = state.copy()
            for k in range(first, min(first + block, n_columns)):
                proposal += draw_jump_reference(_half(words, k), masses[k])[0] * columns[:, k]
            height = level_reference(law, state[:n_cells])[0]
            height += draw_slack_reference(words[place : place + digits], law[3])
            place += digits
            level, inside = level_reference(law, proposal[:n_cells])
            if inside and level <= height:
                state[:] = proposal
                accepted += 1
    return accepted


def couple_uniforms_reference(
    ends: Ends, other_ends: Ends, near: bool, u: int, v: int, w: int
) -> tuple[int, int]:
    """Specification of `couple_uniforms`: it lists the second law's points less those that the first covers."""
    low, high = ends
    other_low, other_high = other_ends
    n, other_n = high - low + 1, other_high - other_low + 1
    first = low + u * n // 2**64
    if not near:
        return first, other_low + u * other_n // 2**64
    if other_low <= first <= other_high and (n >= other_n or v * other_n // 2**64 < n):
        return first, first
    outside = [y for y in range(other_low, other_high + 1) if not low <= y <= high]
    within = [y for y in range(other_low, other_high + 1) if low <= y <= high]
    rest = outside
    if other_n < n:
        rest = [y for y in outside for _ in range(n)] + [y for y in within for _ in range(n - other_n)]
    return first, rest[w * len(rest) // 2**64]


def coupled_slice_sweeps_reference(
    law: Law, dense: DenseColumns, bits: Bits, state: Integers, other: Integers
) -> int:
    """Specification of `coupled_slice_sweeps`."""
    columns, pivots, n_cells = dense
    digits = law[3].shape[0]
    for sweep in range(bits.n_sweeps):
        words = _words_of(bits, sweep)
        distance = int(np.abs(state[:n_cells] - other[:n_cells]).sum())
        for k in range(columns.shape[1]):
            drawn = words[k * (digits + 3) : (k + 1) * (digits + 3)]
            slack = draw_slack_reference(drawn[:digits], law[3])
            ends = []
            for chain in (state, other):
                height = level_reference(law, chain[:n_cells])[0] + slack
                low, high = slice_ends_reference(law, chain[:n_cells], columns[:n_cells, k], height)
                ends.append((int(chain[pivots[k]]) + low, int(chain[pivots[k]]) + high))
            near = distance * _NEAR <= min(last - first for first, last in ends) + 1
            value, other_value = couple_uniforms_reference(
                ends[0], ends[1], near, drawn[digits], drawn[digits + 1], drawn[digits + 2]
            )
            state += (value - state[pivots[k]]) * columns[:, k]
            other += (other_value - other[pivots[k]]) * columns[:, k]
        if np.array_equal(state[:n_cells], other[:n_cells]):
            return sweep + 1
    return bits.n_sweeps + 1


def coupled_jump_sweeps_reference(
    law: Law, dense: DenseColumns, jumps: Jumps, bits: Bits, state: Integers, other: Integers
) -> int:
    """Specification of `coupled_jump_sweeps`."""
    columns, pivots, n_cells = dense
    masses, block = jumps
    n_columns, digits = columns.shape[1], law[3].shape[0]
    for sweep in range(bits.n_sweeps):
        words = _words_of(bits, sweep)
        place = (n_columns + 1) // 2
        for first in range(0, n_columns, block):
            proposal, other_proposal = state.copy(), other.copy()
            for k in range(first, min(first + block, n_columns)):
                jump, height = draw_jump_reference(_half(words, k), masses[k])
                needed = int(proposal[pivots[k]] + jump - other_proposal[pivots[k]])
                met = abs(needed) < len(masses[k]) and height < masses[k][abs(needed)]
                proposal += jump * columns[:, k]
                other_proposal += (needed if met else -jump) * columns[:, k]
            slack = draw_slack_reference(words[place : place + digits], law[3])
            place += digits
            for chain, proposed in ((state, proposal), (other, other_proposal)):
                level, inside = level_reference(law, proposed[:n_cells])
                if inside and level <= level_reference(law, chain[:n_cells])[0] + slack:
                    chain[:] = proposed
        if np.array_equal(state[:n_cells], other[:n_cells]):
            return sweep + 1
    return bits.n_sweeps + 1


def _half(bits: Sequence[int], k: int) -> int:
    return (bits[k // 2] >> (32 * (k % 2))) % 2**32
