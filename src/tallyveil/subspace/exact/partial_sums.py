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
the same inequality within the block, cell by cell. All these numbers are rounded up (`wide_floats`). A trial begins at
the first state and takes a step with probability W_k(g) B_(k+1) / B_k(s), and fails with what is left. In each block it
takes the cells in the same way. The B and W cancel, so that it reaches a table y with probability (product of the
rounded weights) / B_1. It then succeeds with probability (product of the weights) / (product of the rounded weights).
So a trial gives y with probability (product of the weights) / B_1: one constant.

Rounding only ever makes B too large, and too large a B only makes more trials fail. All decisions compare the digits of
uniform numbers with exact quotients of these numbers, and the last one with a certified ball. So the law is exact.

Stopping rule. Trials are repeated until one succeeds. Without rounding none would fail, and with it a share of about
1e-6 does. The number of states and steps depends on the sums, the bound, and nothing else of the table.

Worked case. Two cells with the sum 1 and x = (1, 0): the states are 1, then 0 or 1, then 0. With L(1) = 1/2, B is 1 and
1/2 after the first cell is 1 and 0. The steps have weights 1 * 1 and 1/2 * 1/2, so that B at first is 5/4.

Source: docs/proofs/integer-subspace.md, section 5.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from flint import arb

from tallyveil.arrays import Bools, Integers
from tallyveil.errors import ConfigError
from tallyveil.noise.balls import precision
from tallyveil.noise.laws import DiscreteLaplace, Law
from tallyveil.subspace.constraints import Structure
from tallyveil.subspace.exact.convolution import cell_weight
from tallyveil.subspace.exact.digits import NoiseAddress, is_below
from tallyveil.subspace.exact.mixture import mixture_sampler
from tallyveil.subspace.exact.sampler import TrialSampler, VectorSampler
from tallyveil.subspace.exact.wide_floats import (
    MOST_TERMS,
    WideFloats,
    choose,
    convolved,
    ones,
    summed,
    wide_floats,
)
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
_NUMBERS_OF_A_SUM: Final = 8
"""For each sum that W of a cell is listed for."""
_NUMBERS_OF_A_WEIGHT: Final = 64
"""Computing a weight takes as long as listing so many numbers."""
_PRODUCTS_OF_A_NUMBER: Final = 4
"""Products within a block that take as long as listing one number."""
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

    @property
    def least(self) -> int:
        """The sum from which W is listed: the least sum of a single cell. The parts of a sum of several begin at 0."""
        return 0 if self.block.size > 1 else int(self.sums.min(initial=self.sums.max(initial=0)))

    @property
    def reach(self) -> int:
        """Largest sum for which W is listed, less the least one. No cell differs from its true count by more."""
        return int(self.sums.max(initial=0)) - self.least


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
) -> PartialSums | None:
    """List the states and steps of the tables of counts from 0 with given sums.

    Args:
        structure: Structure of the constraints.
        totals: int64 [n_constraints], the sums of some table of counts within the bounds.
        largest: Largest count of a cell; None for no bound. Cells that no constraint names are then left out.
        most_steps: Limit on the numbers that are listed (`LARGEST_STEPS`).
    Returns:
        The states and steps; None if there are more.
    Raises:
        ConfigError: the constraints do not bound the sum of some block.
    Privacy: the result depends on the sums and the bound alone, which are published exactly.
    """
    blocks, columns = list(structure.blocks), structure.columns
    if largest is None:
        require_ends(structure)
    else:
        blocks += [structure.free[i : i + 1] for i in range(structure.free.size)]
        columns = np.pad(columns, ((0, 0), (0, structure.free.size)))
    sizes = [int(block.size) for block in blocks]
    least_sums, largest_sums = _ranges(columns, totals.tolist(), sizes, largest)
    left = most_steps - _work(sizes, least_sums, largest_sums)
    if left < 0 or _largest_part(columns, largest_sums) >= _LARGEST_KEY:
        return None
    low, high = np.array(least_sums, dtype=np.int64), np.array(largest_sums, dtype=np.int64)
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
        if left < 0 or int(numbers.max(initial=0)) > MOST_TERMS:
            return None
        starts = np.concatenate([[0], np.cumsum(numbers)])
        before = np.repeat(np.arange(numbers.size), numbers)
        sums = np.arange(starts[-1]) - starts[before] + first[before]
        still = unplaced[opened] > 0
        opened = opened[still]
        needs = needs[:, still][before] - sums[:, None] * column[opened]
        distinct = _distinct(needs)
        if distinct is None:
            return None
        needs, after = distinct
        layers.append(Layer(blocks[b], starts, sums, after))
    return PartialSums(tuple(layers), largest)


def _work(sizes: list[int], low: list[int], high: list[int]) -> int:
    """The numbers that are listed for the sums of all blocks, and what their computation takes in such numbers."""
    # As in `Layer`: the sums of a single cell are listed from the least one, and those of several from 0.
    reaches = [most - (least if n == 1 else 0) for n, least, most in zip(sizes, low, high, strict=True)]
    products = sum((n - 1) * (reach + 1) ** 2 for n, reach in zip(sizes, reaches, strict=True))
    sums = sum(n * (reach + 1) for n, reach in zip(sizes, reaches, strict=True))
    weights = max(reaches, default=0) + 1
    return products // _PRODUCTS_OF_A_NUMBER + _NUMBERS_OF_A_SUM * sums + _NUMBERS_OF_A_WEIGHT * weights


def _largest_part(columns: Integers, high: list[int]) -> int:
    """The largest that the absolute values of the terms of a constraint add up to."""
    return max(
        (sum(abs(a) * most for a, most in zip(row, high, strict=True)) for row in columns.tolist()), default=0
    )


def require_ends(structure: Structure) -> None:
    """Refuse constraints that leave the count of some cell without an end. No data is read.

    Without a largest count, some sum of counts from 0 has to be fixed for each cell. Constraint by constraint, the
    terms with one sign have an end if those with the other sign have.
    Raises:
        ConfigError: the constraints, one by one, do not say how large the sum of some block can be.
    """
    rows = np.concatenate([structure.columns, -structure.columns])
    ends = np.zeros(structure.columns.shape[1], dtype=np.bool_)
    while True:
        # Rows in which every term that pulls the others up has an end.
        sound = ~((rows < 0) & ~ends).any(axis=1)
        more = ends | (rows[sound] > 0).any(axis=0)
        if np.array_equal(more, ends):
            break
        ends = more
    if not ends.all():
        raise ConfigError(
            '[mechanism] outputs is "restricted", but the constraints, one by one, do not say how large the count of '
            "some cell can be, so that there may be infinitely many tables with these sums. Give [table] largest, the "
            "largest count that a cell can have, or add the total to [[constraints]]. Nothing was read or spent.",
            code="subspace-outputs",
        )


def _ranges(
    columns: Integers, totals: list[int], sizes: list[int], largest: int | None
) -> tuple[list[int], list[int]]:
    """Least and largest sum of each block that every constraint by itself allows.

    In a constraint sum a_b g_b = t, a_b g_b is at most t minus the least that the others can be. This is applied to all
    constraints in turn, until nothing changes, or for some rounds and until every sum has an end (`require_ends`).
    """
    low: list[int] = [0] * len(sizes)
    high: list[float] = [math.inf if largest is None else largest * n for n in sizes]
    rows = [
        [(int(b), int(row[b])) for b in np.flatnonzero(row)] for row in np.concatenate([columns, -columns])
    ]
    rounds = 0
    while rounds < _ROUNDS or any(map(math.isinf, high)):
        rounds, before = rounds + 1, (low.copy(), high.copy())
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
    return low, [int(value) for value in high]


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


@dataclass(frozen=True, slots=True, eq=False)
class PartialSumsProposal:
    """Trials of one law around one true table (`sampler.Proposal`). Made by `partial_sums_proposal`. Confidential.

    A vector is what the drawn table differs by from the true one.

    Attributes:
        steps: States and steps.
        law: Law of one cell.
        counts: int64 [n_cells], the true table.
        weights: L(d) rounded up, for d = 0, 1, ...
        within: For each layer, W of the cells from the j-th on, by their sum from `Layer.least`.
        values: For each layer, B by state.
    """

    steps: PartialSums
    law: Law
    counts: Integers
    weights: WideFloats
    within: tuple[tuple[WideFloats, ...], ...]
    values: tuple[WideFloats, ...]

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
        return self.values[0].ball(0)

    def _table(self, digits: Digits) -> Integers | None:
        """A table with probability (product of the rounded weights) / B, or None."""
        table, state, place = self.counts.copy(), 0, 0
        for k, layer in enumerate(self.steps.layers):
            part = slice(int(layer.starts[state]), int(layer.starts[state + 1]))
            after, sums = layer.after[part], layer.sums[part]
            step = choose(
                self.within[k][0].at(sums - layer.least),
                self._next(k).at(after),
                self.values[k].at(slice(state, state + 1)),
                digits(place),
            )
            if step is None:
                return None
            state, left = int(after[step]), int(sums[step])
            place += 1
            for j, cell in enumerate(layer.block[:-1].tolist()):
                # Beyond the largest count W has no room, and rounding must not leave any.
                most = left if self.steps.largest is None else min(left, self.steps.largest)
                counts = np.arange(most + 1)
                of_cell = self.weights.at(np.abs(counts - self.counts[cell]))
                of_rest = self.within[k][j + 1].at(left - counts)
                count = choose(of_cell, of_rest, self.within[k][j].at(slice(left, left + 1)), digits(place))
                if count is None:
                    return None
                table[cell], left = count, left - count
                place += 1
            table[layer.block[-1]] = left
        return table

    def _next(self, k: int) -> WideFloats:
        """B of the states after layer k."""
        return self.values[k + 1] if k + 1 < len(self.values) else ones(1)

    def _kept(self, distances: Integers, word: int, digits: Digits, place: int) -> bool:
        """Whether a table is kept, with probability (product of the weights) / (product of the rounded weights)."""
        cells = np.concatenate([layer.block for layer in self.steps.layers])
        moved = distances[cells][distances[cells] > 0].tolist()

        def ratio() -> arb:
            share = arb(1)
            for distance in moved:
                share = share * cell_weight(self.law, distance) / self.weights.ball(distance)
            return share

        return is_below(ratio, word, lambda: digits(place))


def partial_sums_proposal(steps: PartialSums, law: Law, counts: Integers) -> PartialSumsProposal:
    """Compute W and B of one law around one true table.

    Args:
        steps: States and steps of the tables with the sums of `counts`.
        law: Law of one cell.
        counts: int64 [n_cells], within the bounds. Confidential.
    """
    weights = _weights(law, steps)
    within, values = [], []
    after = ones(1)
    for layer in reversed(steps.layers):
        tables = _of_block(layer, weights, counts, steps.largest)
        after = summed(tables[0].at(layer.sums - layer.least), after.at(layer.after), layer.starts)
        values.append(after)
        within.append(tables)
    return PartialSumsProposal(steps, law, counts, weights, tuple(reversed(within)), tuple(reversed(values)))


def draw_around(
    address: NoiseAddress,
    counts: Integers,
    structure: Structure,
    law: GeneralisedLaplace,
    sampler: VectorSampler,
    largest: int | None,
) -> Integers:
    """A table within the bounds and with the sums of `counts`, from the restricted law.

    Args:
        address: Place of the draw in the address space.
        counts: int64 [n_cells], within the bounds; the true table. Confidential.
        structure: Structure of the constraints.
        law: The law.
        sampler: Draws what the table differs by from `counts`, but for cells that no constraint names, if `largest` is
            None (`choose_restricted`).
        largest: Largest count of a cell; None for none.
    Returns:
        int64 [n_cells].
    Privacy: twice epsilon times the distance in the norm of the law, between tables with the same sums.
    """
    # Cells that no constraint names are at the draws with their numbers, so that the table is at the one after them.
    drawn: Integers = counts + sampler.draw(address, [counts.size])[0]
    if largest is None:
        drawn[structure.free] = draw_alone(address, counts, structure.free, law.epsilon)
    return drawn


def sampler_by_sums(counts: Integers, law: GeneralisedLaplace, steps: PartialSums) -> VectorSampler:
    """Draws what a table from the restricted law differs by from the true one, except in cells that `steps` leaves out.

    The weights of the l2 law are no product over the cells. They are a mixture of Gaussian ones (`mixture`), which are.
    """
    if law.takes_root:
        return mixture_sampler(law, counts.size, lambda laws: partial_sums_proposal(steps, laws.law, counts))
    return TrialSampler(partial_sums_proposal(steps, DiscreteLaplace(1 / law.epsilon), counts), counts.size)


def _weights(law: Law, steps: PartialSums) -> WideFloats:
    reach = max((layer.reach for layer in steps.layers), default=0)
    with precision(_WEIGHT_BITS):
        return wide_floats([cell_weight(law, d) for d in range(reach + 1)])


def _of_block(
    layer: Layer, weights: WideFloats, counts: Integers, largest: int | None
) -> tuple[WideFloats, ...]:
    """W of the cells from the j-th on, for j = 0, 1, ..., by their sum from `Layer.least`."""
    sums = layer.least + np.arange(layer.reach + 1)
    tables: list[WideFloats] = []
    for cell in reversed(layer.block.tolist()):
        of_cell = weights.at(np.abs(sums - counts[cell]))
        if largest is not None:
            of_cell = of_cell.where(sums <= largest)
        tables.append(convolved(of_cell, tables[-1]) if tables else of_cell)
    return tuple(reversed(tables))
