"""Tables with given sums and with counts between bounds, drawn exactly by dynamic programming over partial sums.

Problem. Given a true table x, wanted is a table y with A y = A x and 0 <= y_i <= u, with probability proportional to
the product of the weights L(y_i - x_i). The sum of these products over all such tables is not known.

Variables. Cells that the constraints treat alike form a block, and only the sum g_b of a block is constrained. The
blocks are taken in an order. A *state* is what the constraints still need once the sums of the first blocks are known.
A *step* goes from a state to the next one by a sum of the next block.

Steps. `partial_sums` lists the states and steps from which the last state, where nothing is needed, may still be
reached. A sum that the constraints, one by one, rule out is left out. Then, from the last block to the first,

    B_k(s) >= sum over the steps from s of W_k(g) B_(k+1)(s after g),      B = 1 at the last state,

where W_k(g) is at least the sum of the products of weights over the cells of the block that add up to g. It comes from
the same inequality within the block, cell by cell. All these numbers are floats, rounded up. A trial begins at the
first state and takes a step with probability W_k(g) B_(k+1) / B_k(s), and fails with what is left. In each block it
takes the cells in the same way. The B and W cancel, so that it reaches a table y with probability (product of the
rounded weights) / B_1. It then succeeds with probability (product of the weights) / (product of the rounded weights).
So a trial gives y with probability (product of the weights) / B_1: one constant.

Rounding only ever makes B too large, and too large a B only makes more trials fail. All decisions compare the digits of
uniform numbers with exact quotients of floats, and the last one with a certified ball. So the law is exact.

Stopping rule. Trials are repeated until one succeeds. Without rounding none would fail. The number of states and steps
depends on the sums, the bound, and nothing else of the table.

Worked case. Two cells with the sum 1 and x = (1, 0): the states are 1, then 0 or 1, then 0. With L(1) = 1/2, B is 1 and
1/2 after the first cell is 1 and 0. The steps have weights 1 * 1 and 1/2 * 1/2, so that B at first is 5/4.

Source: docs/proofs/integer-subspace.md, section 5.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, TypeAlias

import numpy as np
from flint import arb

from tallyveil.accounting.numbers import round_up
from tallyveil.arrays import Bools, Floats, Integers
from tallyveil.errors import ConfigError
from tallyveil.noise.balls import power_of_two, precision
from tallyveil.noise.laws import DiscreteLaplace, Law
from tallyveil.subspace.constraints import Structure
from tallyveil.subspace.exact.convolution import cell_weight
from tallyveil.subspace.exact.digits import NoiseAddress, is_below
from tallyveil.subspace.exact.mixture import mixture_sampler
from tallyveil.subspace.exact.sampler import TrialSampler, VectorSampler
from tallyveil.subspace.mechanisms import GeneralisedLaplace
from tallyveil.subspace.nonnegative import draw_alone

LARGEST_STEPS: Final = 1 << 28
"""Limit on the numbers that are listed for all steps, at most 2 GiB: for each step `_NUMBERS_OF_A_STEP`, and one for
every constraint that is open."""
LARGEST_MIXED: Final = 1 << 23
"""The same for the l2 law, each of whose Gaussians has its own B and W."""

_ROUNDS: Final = 20
"""Rounds of the search for the range of each block's sum. Fewer rounds leave more steps that lead nowhere."""
_LARGEST_KEY: Final = 1 << 62
"""States are told apart by one 64-bit number."""
_LARGEST_RANKS: Final = 1 << 24
"""Up to here a table by number finds the state of each step, and sorting does above."""
_NUMBERS_OF_A_STEP: Final = 8
_MULTIPLICATIONS_OF_A_NUMBER: Final = 16
"""Multiplications of two arrays that take as long as listing one of these numbers."""
_UP: Final = 1 + 2.0**-28
"""A sum of 2**24 positive products of floats is off by a share of at most 2**-29 in each direction."""
_TINY: Final = 2.0**-1000
"""Added to every B, W and weight, far above what underflow can take from a sum, and so that no quotient has a zero."""
_UNIT_BITS: Final = 1074
"""Every float is a whole multiple of 2**-1074."""
_WEIGHT_BITS: Final = 96
"""Of ball arithmetic, from which weights are rounded up to floats."""


Digits: TypeAlias = Callable[[int], Iterator[int]]
"""All digits of the uniform number at a place."""


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """The steps by the sum of one block.

    Attributes:
        block: Cells of the block.
        starts: int64 [n_states + 1], the first step from each state.
        sums: int64 [n_steps], the sum of the block.
        after: int64 [n_steps], the state that the step leads to.
    """

    block: Integers
    starts: Integers
    sums: Integers
    after: Integers


@dataclass(frozen=True, slots=True, eq=False)
class PartialSums:
    """All states and steps of the tables with given sums and bounds. Made by `partial_sums`.

    Attributes:
        layers: One for each block, in the order in which they are drawn.
        largest: Largest count of a cell; None for no bound.
    """

    layers: tuple[Layer, ...]
    largest: int | None

    @property
    def n_steps(self) -> int:
        """Number of steps of all layers."""
        return sum(layer.sums.size for layer in self.layers)


def partial_sums(
    structure: Structure, totals: Integers, largest: int | None, most_steps: int = LARGEST_STEPS
) -> PartialSums:
    """List the states and steps of the tables of counts from 0 with given sums.

    Args:
        structure: Structure of the constraints.
        totals: int64 [n_constraints], the sums of some table of counts within the bounds.
        largest: Largest count of a cell; None for no bound. Cells that no constraint names are then left out.
        most_steps: Limit on the numbers that are listed (`LARGEST_STEPS`).
    Raises:
        ConfigError: there are more steps, or the constraints do not bound the sum of some block.
    Privacy: the result depends on the sums and the bound alone, which are published exactly.
    """
    blocks, columns = list(structure.blocks), structure.columns
    if largest is not None:
        blocks += [structure.free[i : i + 1] for i in range(structure.free.size)]
        columns = np.pad(columns, ((0, 0), (0, structure.free.size)))
    sizes = [int(block.size) for block in blocks]
    low, high = _ranges(columns, totals.tolist(), sizes, largest)
    work = sum((n - 1) * (most + 1) ** 2 for n, most in zip(sizes, high, strict=True))
    left = most_steps - work // _MULTIPLICATIONS_OF_A_NUMBER
    layers: list[Layer] = []
    needs, opened = np.zeros((1, 0), dtype=np.int64), np.zeros(0, dtype=np.int64)
    least = (np.minimum(columns * low, columns * high)).sum(axis=1)
    most = (np.maximum(columns * low, columns * high)).sum(axis=1)
    unplaced = (columns != 0).sum(axis=1)
    for b in _order(columns, totals):
        column = columns[:, b]
        named = np.flatnonzero(column)
        new = np.setdiff1d(named, opened)
        opened = np.concatenate([opened, new])
        needs = np.hstack([needs, np.broadcast_to(totals[new], (needs.shape[0], new.size))])
        least -= np.minimum(column * low[b], column * high[b])
        most -= np.maximum(column * low[b], column * high[b])
        unplaced[named] -= 1
        first, numbers = _sums(needs, opened, column, (low[b], high[b]), (least, most))
        left -= int(numbers.sum()) * (_NUMBERS_OF_A_STEP + opened.size)
        if left < 0:
            raise _too_large(len(blocks), most_steps)
        starts = np.concatenate([[0], np.cumsum(numbers)])
        before = np.repeat(np.arange(numbers.size), numbers)
        sums = np.arange(starts[-1]) - starts[before] + first[before]
        still = unplaced[opened] > 0
        opened = opened[still]
        needs = needs[:, still][before] - sums[:, None] * column[opened]
        distinct = _distinct(needs)
        if distinct is None:
            raise _too_large(len(blocks), most_steps)
        needs, after = distinct
        layers.append(Layer(blocks[b], starts, sums, after))
    return PartialSums(tuple(layers), largest)


def _ranges(
    columns: Integers, totals: list[int], sizes: list[int], largest: int | None
) -> tuple[Integers, Integers]:
    """Least and largest sum of each block that every constraint by itself allows.

    In a constraint sum a_b g_b = t, a_b g_b is at most t minus the least that the others can be. This is applied to all
    constraints in turn, until nothing changes or for some rounds.
    """
    low: list[int] = [0] * len(sizes)
    high: list[float] = [math.inf if largest is None else largest * n for n in sizes]
    rows = [
        [(int(b), int(row[b])) for b in np.flatnonzero(row)] for row in np.concatenate([columns, -columns])
    ]
    for _ in range(_ROUNDS):
        before = low.copy(), high.copy()
        for row, total in zip(rows, [*totals, *(-t for t in totals)], strict=True):
            least = [a * (low[b] if a > 0 else high[b]) for b, a in row]
            open_ones = sum(math.isinf(value) for value in least)
            whole = sum(int(value) for value in least if not math.isinf(value))
            for (b, a), value in zip(row, least, strict=True):
                if open_ones > math.isinf(value):
                    continue
                rest = total - whole + (0 if math.isinf(value) else int(value))
                if a > 0:
                    high[b] = min(high[b], rest // a)
                else:
                    low[b] = max(low[b], -(rest // -a))
        if before == (low, high):
            break
    if any(math.isinf(value) for value in high):
        raise ConfigError(
            '[mechanism] outputs is "restricted", but the constraints do not say how large the count of some cell can '
            "be, so that there may be infinitely many tables with these sums. Give [table] largest, the largest count "
            "that a cell can have, or add the total to [[constraints]]. Nothing was spent.",
            code="subspace-outputs",
        )
    return np.array(low, dtype=np.int64), np.array([int(value) for value in high], dtype=np.int64)


def _order(columns: Integers, totals: Integers) -> list[int]:
    """An order of the blocks in which few constraints are open at a time: begun, and not yet complete.

    One constraint after the other is completed: the one after which the open ones have the fewest states, if each of
    their sums counted alone; among these the one with the fewest blocks to come.
    """
    named = (columns != 0).astype(np.float64)
    width = np.log2(np.abs(totals) + 2.0)
    unplaced = np.ones(columns.shape[1])
    order: list[int] = []
    while True:
        to_come = named @ unplaced
        waiting = np.flatnonzero(to_come)
        if not waiting.size:
            return [*order, *np.flatnonzero(unplaced).tolist()]
        shared = (named * unplaced)[waiting] @ named.T
        begun = (shared > 0) | (to_come < named.sum(axis=1))
        is_open = begun & (to_come > shared)
        best = np.lexsort((to_come[waiting], np.where(is_open, width, 0.0).sum(axis=1)))[0]
        members = np.flatnonzero(named[waiting[best]] * unplaced)
        order += members.tolist()
        unplaced[members] = 0


def _sums(
    needs: Integers,
    opened: Integers,
    column: Integers,
    ends: tuple[int, int],
    rest: tuple[Integers, Integers],
) -> tuple[Integers, Integers]:
    """(first sum of the block, number of sums) for each state: those after which each constraint can be completed."""
    first = np.full(needs.shape[0], ends[0])
    last = np.full(needs.shape[0], ends[1])
    for place, i in enumerate(opened.tolist()):
        a = int(column[i])
        if a:
            # a g has to leave what the later blocks can take: between rest[0] and rest[1].
            largest, smallest = needs[:, place] - rest[0][i], needs[:, place] - rest[1][i]
            if a < 0:
                largest, smallest = -smallest, -largest
            first = np.maximum(first, -(-smallest // abs(a)))
            last = np.minimum(last, largest // abs(a))
    return first, np.maximum(last - first + 1, 0)


def _distinct(needs: Integers) -> tuple[Integers, Integers] | None:
    """(the different states, and the number of each row's state among them); None if there may be 2**62 states."""
    low = needs.min(axis=0)
    widths = (needs.max(axis=0) - low + 1).tolist()
    size = math.prod(widths)
    if size > _LARGEST_KEY:
        return None
    key = np.zeros(needs.shape[0], dtype=np.int64)
    for values, least, width in zip(needs.T, low, widths, strict=True):
        key = key * width + (values - least)
    if size <= _LARGEST_RANKS:
        is_there = np.zeros(size, dtype=np.bool_)
        is_there[key] = True
        keys, after = np.flatnonzero(is_there), (np.cumsum(is_there, dtype=np.int64) - 1)[key]
    else:
        keys, after = np.unique(key, return_inverse=True)
    states = np.empty((keys.size, low.size), dtype=np.int64)
    for column in reversed(range(low.size)):
        keys, states[:, column] = np.divmod(keys, widths[column])
    return states + low, after


def _too_large(n_blocks: int, most_steps: int) -> ConfigError:
    return ConfigError(
        '[mechanism] outputs is "restricted", but there are too many tables with the sums of this one. They have '
        f"{n_blocks:,} groups of cells that the constraints treat alike, and dynamic programming over what these leave "
        f'to each other would list more than {most_steps:,} numbers. Use outputs = "nonnegative" or "free", fewer '
        "constraints that cross, or attributes with fewer levels. Nothing was spent.",
        code="subspace-outputs",
    )


@dataclass(frozen=True, slots=True, eq=False)
class PartialSumsProposal:
    """Trials of one law around one true table (`sampler.Proposal`). Made by `partial_sums_proposal`. Confidential.

    A vector is what the drawn table differs by from the true one.

    Attributes:
        steps: States and steps.
        law: Law of one cell.
        counts: int64 [n_cells], the true table.
        weights: float64, L(d) rounded up, for d = 0, 1, ...
        within: For each layer, (W of the cells from the j-th on, by their sum; and the power of two it is divided by).
        values: For each layer, (B by state, and the power of two it is divided by).
    """

    steps: PartialSums
    law: Law
    counts: Integers
    weights: Floats
    within: tuple[tuple[tuple[Floats, int], ...], ...]
    values: tuple[tuple[Floats, int], ...]

    @property
    def always_accepts(self) -> bool:
        """Whether no trial fails: always false, because of rounding."""
        return False

    @property
    def trials_at_once(self) -> int:
        """Largest number of trials of one draw that are worth making together."""
        return 1

    def trials(
        self, address: NoiseAddress, draws: Integers, first_trial: int, n_trials: int
    ) -> tuple[Integers, Bools]:
        """Trials of each draw from first_trial: (vectors [n * n_trials, n_cells], whether each succeeded)."""
        n_sites = 2 * (sum(layer.block.size for layer in self.steps.layers) // 2 + 1)
        words, rows, sites = address.trial_numbers(draws, first_trial, n_trials, n_sites)
        vectors = np.zeros((rows.size, self.counts.size), dtype=np.int64)
        accepted = np.zeros(rows.size, dtype=np.bool_)
        for row, (draw, site) in enumerate(zip(rows.tolist(), sites.tolist(), strict=True)):

            def digits(place: int, draw: int = draw, site: int = site) -> Iterator[int]:
                return address.all_digits(draw, site + place)

            table = self._table(digits)
            if table is not None:
                vectors[row] = table - self.counts
                last = n_sites - 1
                accepted[row] = self._kept(np.abs(vectors[row]), int(words[row, last]), digits, last)
        return vectors, accepted

    def mass(self, single: arb, bits: int) -> arb:
        """The mass for which a trial gives z with probability weight(z) / mass. The arguments are not used."""
        within = sum(scale for tables in self.within for _, scale in tables)
        return arb(float(self.values[0][0][0])) * power_of_two(
            within + sum(scale for _, scale in self.values)
        )

    def _table(self, digits: Digits) -> Integers | None:
        """A table with probability (product of the rounded weights) / B, or None."""
        table, state, place = self.counts.copy(), 0, 0
        for k, layer in enumerate(self.steps.layers):
            part = slice(int(layer.starts[state]), int(layer.starts[state + 1]))
            after, sums = layer.after[part], layer.sums[part]
            step = _chosen(
                self.within[k][0][0][sums], self._next(k)[after], self.values[k], state, digits(place)
            )
            if step is None:
                return None
            state, left = int(after[step]), int(sums[step])
            place += 1
            for j, cell in enumerate(layer.block[:-1].tolist()):
                counts = np.arange(left + 1)
                of_cell = self.weights[np.abs(counts - self.counts[cell])]
                of_rest = self.within[k][j + 1][0][left::-1]
                count = _chosen(of_cell, of_rest, self.within[k][j], left, digits(place))
                if count is None:
                    return None
                table[cell], left = count, left - count
                place += 1
            # A sum that is too large for the last cell has no weight of its own, only what rounding added.
            if self.steps.largest is not None and left > self.steps.largest:
                return None
            table[layer.block[-1]] = left
        return table

    def _next(self, k: int) -> Floats:
        """B of the states after layer k."""
        return self.values[k + 1][0] if k + 1 < len(self.values) else np.ones(1)

    def _kept(self, distances: Integers, word: int, digits: Digits, place: int) -> bool:
        """Whether a table is kept, with probability (product of the weights) / (product of the rounded weights)."""
        cells = np.concatenate([layer.block for layer in self.steps.layers])
        moved = distances[cells][distances[cells] > 0].tolist()

        def ratio() -> arb:
            share = arb(1)
            for distance in moved:
                share = share * cell_weight(self.law, distance) / arb(float(self.weights[distance]))
            return share

        return is_below(ratio, word, lambda: digits(place))


def _chosen(
    first: Floats, second: Floats, whole: tuple[Floats, int], place: int, digits: Iterator[int]
) -> int | None:
    """Outcome j with probability first[j] second[j] / (whole[place] 2**scale), exactly; None with what is left.

    The numerators and the denominator are whole multiples of 2**-2148, so that everything is compared in integers.
    """
    numerators = [_units(a) * _units(b) for a, b in zip(first.tolist(), second.tolist(), strict=True)]
    up_to = list(accumulate(numerators))
    all_of_it = _units(float(whole[0][place])) << (_UNIT_BITS + whole[1])
    uniform, bits = 0, 0
    while True:
        uniform, bits = uniform << 64 | next(digits), bits + 64
        # Outcome j is the first with up_to[j] / all_of_it above the uniform number, which lies in [u, u + 1) / 2**bits.
        lowest = bisect_right(up_to, uniform * all_of_it >> bits)
        highest = bisect_left(up_to, -(-(uniform + 1) * all_of_it >> bits))
        if lowest == highest:
            return lowest if lowest < len(up_to) else None


def _units(value: float) -> int:
    """A float from 2**-1000 on as a multiple of 2**-1074."""
    mantissa, exponent = math.frexp(value)
    return int(mantissa * 2**53) << (exponent - 53 + _UNIT_BITS)


def partial_sums_proposal(steps: PartialSums, law: Law, counts: Integers) -> PartialSumsProposal:
    """Compute W and B of one law around one true table.

    Args:
        steps: States and steps of the tables with the sums of `counts`.
        law: Law of one cell.
        counts: int64 [n_cells], within the bounds. Confidential.
    """
    weights = _weights(law, steps)
    within, values = [], []
    after = np.ones(1)
    for layer in reversed(steps.layers):
        tables = _of_block(layer, weights, counts, steps.largest)
        of_steps = tables[0][0][layer.sums] * after[layer.after]
        before = np.repeat(np.arange(layer.starts.size - 1), np.diff(layer.starts))
        summed = np.bincount(before, of_steps, layer.starts.size - 1)
        values.append(_scaled(np.asarray(summed, dtype=np.float64)))
        within.append(tables)
        after = values[-1][0]
    return PartialSumsProposal(steps, law, counts, weights, tuple(reversed(within)), tuple(reversed(values)))


def draw_by_sums(
    address: NoiseAddress,
    counts: Integers,
    structure: Structure,
    law: GeneralisedLaplace,
    steps: PartialSums,
) -> Integers:
    """A table within the bounds and with the sums of `counts`, from the restricted law.

    Args:
        address: Place of the draw in the address space.
        counts: int64 [n_cells], within the bounds; the true table. Confidential.
        structure: Structure of the constraints.
        law: The law.
        steps: States and steps of the tables with the sums of `counts`.
    Returns:
        int64 [n_cells].
    Privacy: twice epsilon times the distance in the norm of the law, between tables with the same sums.
    """
    # Cells that no constraint names are at the draws with their numbers, so that the table is at the one after them.
    drawn: Integers = counts + sampler_by_sums(counts, law, steps).draw(address, [counts.size])[0]
    if steps.largest is None:
        drawn[structure.free] = draw_alone(address, counts, structure.free, law.epsilon)
    return drawn


def sampler_by_sums(counts: Integers, law: GeneralisedLaplace, steps: PartialSums) -> VectorSampler:
    """Draws what a table from the restricted law differs by from the true one, except in cells that `steps` leaves out.

    The weights of the l2 law are no product over the cells. They are a mixture of Gaussian ones (`mixture`), which are.
    """
    if law.takes_root:
        return mixture_sampler(law, counts.size, lambda laws: partial_sums_proposal(steps, laws.law, counts))
    return TrialSampler(partial_sums_proposal(steps, DiscreteLaplace(1 / law.epsilon), counts), counts.size)


def _weights(law: Law, steps: PartialSums) -> Floats:
    reach = max((int(layer.sums.max(initial=0)) for layer in steps.layers), default=0)
    with precision(_WEIGHT_BITS):
        return np.array([max(round_up(cell_weight(law, d)), _TINY) for d in range(reach + 1)])


def _of_block(
    layer: Layer, weights: Floats, counts: Integers, largest: int | None
) -> tuple[tuple[Floats, int], ...]:
    """W of the cells from the j-th on, for j = 0, 1, ..., by their sum."""
    sums = np.arange(int(layer.sums.max(initial=0)) + 1)
    tables: list[tuple[Floats, int]] = []
    for cell in reversed(layer.block.tolist()):
        of_cell = weights[np.abs(sums - counts[cell])]
        if largest is not None:
            of_cell = of_cell[: largest + 1]
        if not tables:
            last = np.full(sums.size, _TINY)
            last[: of_cell.size] = of_cell
            tables.append((last, 0))
            continue
        # In a fixed order of additions, so that the floats are the same on every machine.
        joined = np.zeros(sums.size)
        for count, weight in enumerate(of_cell.tolist()):
            joined[count:] += weight * tables[-1][0][: sums.size - count]
        tables.append(_scaled(joined))
    return tuple(reversed(tables))


def _scaled(sums: Floats) -> tuple[Floats, int]:
    """Sums of products, made larger than all errors, and divided by a power of two so that the largest is near 1."""
    larger = sums * _UP + _TINY
    _, scale = math.frexp(float(larger.max()))
    return np.ldexp(larger, -scale), scale
