"""Tables without negative counts: as outputs of a release, nearest to a given table, and drawn exactly.

Which tables may come out of a release: all integer tables with the invariants, or those without negative
counts.

`nearest_nonnegative` finds the table nearest to a given one; `draw_restricted` draws from the l1 Laplace law
restricted to such tables.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Final, TypeAlias, TypeVar

import numpy as np
from flint import arb

from tallyveil.arrays import Integers
from tallyveil.errors import ConfigError, SolverError
from tallyveil.exact import in_short
from tallyveil.noise.balls import certified_floor, precision, rational
from tallyveil.noise.laws import SMALLEST_PARAMETER
from tallyveil.subspace.constraints import Structure, StructureKind
from tallyveil.subspace.exact.digits import NoiseAddress
from tallyveil.subspace.lattice import Lattice
from tallyveil.subspace.mechanisms import GeneralisedLaplace, LatticeLaw, Norm

LARGEST_RESTRICTED: Final = 4096
"""Largest number of cells of a table that is drawn from a restricted law by trials with tilted cells. A draw of this
size takes about a minute."""

LARGEST_NEAREST: Final = 1024
"""Largest number of cells for which the nearest table is found by an integer program, or for which a table is drawn by
dynamic programming, where the number of tables with the same sums decides. An integer program for 10 x 10 x 10 cells
with all two-way margins takes up to a few seconds, and one for 16 x 16 x 16 more than some minutes. Half of it would
exclude tables that take a second."""


class Outputs(StrEnum):
    """The tables that may come out.

    FREE: the true table plus noise, which may have negative counts. Unbiased.
    NONNEGATIVE: after the noise, the nearest table without negative counts and with the same invariants. It is
        post-processing, which costs nothing and is biased.
    RESTRICTED: a law on the tables without negative counts and with the same invariants. It costs twice as much.

    A table may have a largest count besides. Then the last two keep to it as well.
    """

    FREE = "free"
    NONNEGATIVE = "nonnegative"
    RESTRICTED = "restricted"


def require_outputs(outputs: Outputs, law: LatticeLaw, lattice: Lattice, largest: int | None = None) -> None:
    """Refuse outputs that cannot be made exactly for a law and a lattice. No data is read.

    Args:
        outputs: Which tables may come out.
        law: The law of the noise.
        lattice: The lattice of the invariants.
        largest: Largest count of a cell; None for no bound.
    Raises:
        ConfigError: no exact method makes these outputs, or no cost of the restricted law is proved.
    """
    structure = lattice.structure
    if outputs is Outputs.RESTRICTED:
        if not isinstance(law, GeneralisedLaplace):
            raise _refused(
                outputs,
                f"the law is {law}, and no bound on the cost of a restricted Gaussian law is proved",
                'Use law = "laplace", or outputs = "nonnegative".',
            )
        if law.norm is Norm.L2 and largest is None and structure.free.size:
            raise _refused(
                outputs,
                "no constraint names some cell, and the restricted law in the l2 norm is drawn exactly only where the "
                "sums or a largest count bound all cells",
                'Give [table] largest, or use norm = "l1", or add the total to [[constraints]].',
            )
        tilted = by_tilted_cells(law, structure, largest)
        if law.norm is Norm.L1 and not tilted and law.epsilon * SMALLEST_PARAMETER > 1:
            raise _refused(
                outputs,
                f"epsilon is about {in_short(law.epsilon)}, and the restricted law in the l1 norm is drawn up to "
                f"{1 / SMALLEST_PARAMETER} under these constraints",
                "Give [mechanism] a smaller epsilon.",
            )
        most = LARGEST_RESTRICTED if tilted else LARGEST_NEAREST
        if lattice.n_cells > most:
            raise _refused(
                outputs,
                f"the table has {lattice.n_cells:,} cells, and a draw from the restricted law would take too long for "
                f"more than {most:,}",
                'Use outputs = "nonnegative" or "free", or a smaller table.',
            )
    closed = has_nearest(structure) and largest is None
    if outputs is Outputs.NONNEGATIVE and not closed and lattice.n_cells > LARGEST_NEAREST:
        raise _refused(
            outputs,
            f"the constraints are {structure.kind.value}, and the table has {lattice.n_cells:,} cells. The nearest "
            "table without negative counts is then the answer to an integer program, which is solved for at most "
            f"{LARGEST_NEAREST:,} cells",
            'Use outputs = "free", fewer constraints, or a smaller table.',
        )


def by_tilted_cells(law: LatticeLaw, structure: Structure, largest: int | None) -> bool:
    """Whether `draw_restricted` draws the restricted law: block sums are fixed, and counts have no largest value."""
    one_norm = isinstance(law, GeneralisedLaplace) and law.norm is Norm.L1
    return one_norm and structure.sums_vanish and largest is None


def has_nearest(structure: Structure) -> bool:
    """Whether `nearest_nonnegative` finds the nearest table: block sums are fixed, or the invariants are two-way."""
    return structure.sums_vanish or structure.kind is StructureKind.TWO_WAY


def _refused(outputs: Outputs, why: str, advice: str) -> ConfigError:
    return ConfigError(
        f'[mechanism] outputs is "{outputs.value}", but {why}. {advice} Nothing was read or spent.',
        code="subspace-outputs",
    )


_FAR = np.int64(1) << 60
"""Distance of what cannot be reached. Twice it is 2**61, so a sum of two of them does not overflow 64 bits."""


def nearest_nonnegative(table: Integers, structure: Structure, order: Integers) -> Integers:
    """The nearest table of integers from 0 with the same invariants, in the l1 distance.

    Problem. A table y of integers has the invariants of some table without negative counts, but some y_i are
    negative. Wanted is an integer table w >= 0 with A w = A y whose l1 distance from y is least.

    Steps for one block of cells whose sum is kept. Negative cells become 0, and what this adds is taken from the
    others: w_i = max(0, y_i - t) for one level t, and some cells at or above the level keep one more, so that the
    sum is right. No table is nearer: the l1 distance is twice the sum of the negative counts, which every w >= 0
    with this sum has to move. Among the tables at this distance, w is also nearest in the l2 distance.

    Steps for two-way margins. Negative cells become 0, which leaves rows and columns with more than their
    margins. Units are then moved along shortest paths from a row with too much to a column with too much. A step
    from a row to a column takes units from their cell, and a step from a column to a row gives units to their
    cell. A step costs +1 for each unit that moves a cell away from y, and -1 for each unit that moves it back.
    Shortest paths keep the table nearest among all tables with its margins (successive shortest paths; Ahuja,
    Magnanti, Orlin 1993, section 9.7).

    Stopping rule. The margins are those of y. A path exists as long as they are not, because some table without
    negative counts has these margins.

    Ties. Cells at the same level, and paths of the same length, are taken in an order that the caller draws at
    random. A fixed order would favour the same cells in every release.

    Worked case. y = (-3, 5, 2), one sum: t = 2 takes 2 from 5 and 2 from 2, which is one unit too many. So one of
    the two keeps one more: w = (0, 3, 1) or (0, 4, 0). Both are at l1 distance 6.

    Args:
        table: int64 [n_cells]; some table without negative counts has its invariants.
        structure: Structure of the invariants: every block of like cells sums to a constant, or two-way margins.
        order: A random permutation of the cells, which decides among equally near tables.
    Returns:
        int64 [n_cells].
    Raises:
        SolverError: no such table exists, or the structure is another one.
    Privacy: post-processing of the given table.
    """
    nearest = np.maximum(table, 0)
    if structure.sums_vanish:
        for block in structure.blocks:
            cells = block[np.argsort(order[block])]
            nearest[cells] = _with_sum(table[cells])
    elif structure.kind is StructureKind.TWO_WAY:
        grid = structure.grid
        grid = grid[np.argsort(order[grid[:, 0]])][:, np.argsort(order[grid[0]])]
        nearest[grid.ravel()] = _with_margins(table[grid]).ravel()
    else:
        raise _impossible()
    return nearest


def _with_sum(values: Integers) -> Integers:
    """max(0, y - t) with the sum of y; the last of the cells at or above the level keep one more."""
    total = int(values.sum())
    if total < 0:
        raise _impossible()
    low, high = (
        0,
        int(values.max(initial=0)),
    )  # the sum at t = low is at least the total, at high it is at most that
    while low < high:
        middle = (low + high) // 2
        if int(np.maximum(values - middle, 0).sum()) <= total:
            high = middle
        else:
            low = middle + 1
    lowered = np.maximum(values - low, 0)
    at_level = np.flatnonzero(values >= low) if low else np.empty(0, dtype=np.int64)
    missing = total - int(lowered.sum())
    lowered[at_level[at_level.size - missing :]] += 1
    return lowered


def _with_margins(values: Integers) -> Integers:
    """The nearest table by successive shortest paths."""
    table = np.maximum(values, 0)
    rows, columns = (table.sum(axis=a) - values.sum(axis=a) for a in (1, 0))
    while rows.any():
        path = _shortest_path(table, values, np.flatnonzero(rows > 0), np.flatnonzero(columns > 0))
        amount = min(int(rows[path[0]]), int(columns[path[-1]]), *_capacities(table, values, path))
        for step, (row, column) in enumerate(_cells(path)):
            table[row, column] += amount if step % 2 else -amount
        rows[path[0]] -= amount
        columns[path[-1]] -= amount
    return table


def _cells(path: list[int]) -> list[tuple[int, int]]:
    """The cells of a path row, column, row, ..., column."""
    return [(path[i], path[i + 1]) if i % 2 == 0 else (path[i + 1], path[i]) for i in range(len(path) - 1)]


def _capacities(table: Integers, values: Integers, path: list[int]) -> list[int]:
    """For each step, how many units it can move at its cost."""
    capacities = []
    for step, (row, column) in enumerate(_cells(path)):
        now, start = int(table[row, column]), max(0, int(values[row, column]))
        if step % 2:
            capacities.append(start - now if now < start else int(_FAR))
        else:
            capacities.append(now - start if now > start else now)
    return capacities


def _shortest_path(table: Integers, values: Integers, rows: Integers, columns: Integers) -> list[int]:
    """A shortest path row, column, ..., column, by rounds of relaxation (Bellman, Ford)."""
    start = np.maximum(values, 0)
    take = np.where(table > start, -1, np.where(table > 0, 1, _FAR))
    give = np.where(table < start, -1, 1).T
    to_row = np.full(table.shape[0], _FAR)
    to_row[rows] = 0
    to_column = np.full(table.shape[1], _FAR)
    before_row = np.full(table.shape[0], -1)
    before_column = np.full(table.shape[1], -1)
    while True:
        changed = _relaxed(to_row, take, to_column, before_column)
        if not changed or not _relaxed(to_column, give, to_row, before_row):
            break
    end = int(columns[np.argmin(to_column[columns])])
    if to_column[end] >= _FAR:
        raise _impossible()
    path = [end]
    while True:
        path.append(int(before_column[path[-1]]))
        if before_row[path[-1]] < 0:
            return path[::-1]
        path.append(int(before_row[path[-1]]))


def _relaxed(source: Integers, costs: Integers, target: Integers, before: Integers) -> bool:
    """Shorten the distances of the target by one step from the source; returns whether any became shorter."""
    lengths = source[:, None] + costs
    best = lengths.argmin(axis=0)
    shorter = lengths[best, np.arange(target.size)]
    better = (shorter < target) & (shorter < _FAR)
    target[better] = shorter[better]
    before[better] = best[better]
    return bool(better.any())


def _impossible() -> SolverError:
    return SolverError(
        "no table without negative counts has these invariants, or they have a structure for which none is looked "
        "for. Release the table with outputs 'free'; if it was a table of counts, please report this.",
        code="check-failed",
    )


_BITS: Final = 256
"""Bits of ball arithmetic. Draws that they leave undecided are decided with more."""
_TILT_STEPS: Final = 32
"""Halvings of the interval of the tilt. Given the sum, the tilt cancels: it decides only how many trials succeed."""
Digits: TypeAlias = Callable[[int], Iterator[int]]
Answer = TypeVar("Answer", int, bool)


@dataclass(frozen=True, slots=True)
class TiltedCell:
    """The law p(y) ~ exp(-epsilon |y - count| - tilt y) on y >= 0.

    Variables. For any tilt t > -epsilon, a cell has the law p(y) ~ exp(-epsilon |y - x| - t y) on y >= 0. Given
    their sum, independent cells with these laws have the wanted law, whatever the tilt, because exp(-t sum y) is
    a constant then.

    A cell has two sides: the counts up to x and the counts above x. One uniform number chooses the side by the
    masses of the two, another one chooses the place on it, by inversion: both sides are (truncated) geometric.
    All decisions are taken in ball arithmetic and with as many digits of the uniform numbers as they need, so
    that the law is exact. The tilt itself needs no accuracy: it changes the number of trials only.

    Attributes:
        count: The true count. Confidential.
        epsilon: Rate of the Laplace law.
        tilt: 0 or more.
    """

    count: int
    epsilon: Fraction
    tilt: Fraction

    def draw(self, digits: Digits) -> int:
        """One draw; `digits` gives the binary digits of the uniform numbers 0 and 1."""
        if _positive(digits(0), lambda u: u * (self._mass_up_to() + self._mass_above()) - self._mass_up_to()):
            above = self.epsilon + self.tilt
            return self.count + 1 + _floor(digits(1), lambda u: -u.log() / rational(above))
        return self._place_up_to(digits(1))

    def excess(self) -> arb:
        """The expectation minus the count."""
        low, high = self._mass_up_to(), self._mass_above()
        above = rational(self.epsilon + self.tilt)
        return (high / -(-above).expm1() - low * self._mean_below()) / (low + high)

    def keeps(self, value: int, digits: Iterator[int]) -> bool:
        """Whether a value is kept, with probability p(value) / max p."""
        if value < 0:
            return False
        mode = self.count if self.tilt <= self.epsilon else 0
        loss = self._energy(value) - self._energy(mode)

        def beyond(u: arb) -> arb:
            return u - (-rational(loss)).exp()

        return not loss or not _positive(digits, beyond)

    def _energy(self, value: int) -> Fraction:
        return self.epsilon * abs(value - self.count) + self.tilt * value

    def _mass_up_to(self) -> arb:
        """Mass of 0, ..., count, in units of the weight of `count`."""
        slope = self.epsilon - self.tilt
        if not slope:
            return arb(self.count + 1)
        rate = rational(slope)
        return (-rate * (self.count + 1)).expm1() / (-rate).expm1()

    def _mass_above(self) -> arb:
        """Mass of count + 1, count + 2, ..., in the same units."""
        rate = rational(self.epsilon + self.tilt)
        return (-rate).exp() / -(-rate).expm1()

    def _mean_below(self) -> arb:
        """Expectation of count - y, given that y is at most the count."""
        slope, n = self.epsilon - self.tilt, self.count + 1
        if not slope:
            return arb(self.count) / 2
        rate = rational(abs(slope))
        mean = 1 / rate.expm1() - n / (rate * n).expm1()
        return mean if slope > 0 else self.count - mean

    def _place_up_to(self, digits: Iterator[int]) -> int:
        """A draw given that it is at most the count: geometric from the count down, or from 0 up."""
        slope, n = self.epsilon - self.tilt, self.count + 1
        if not slope:
            return _floor(digits, lambda u: u * n)
        rate = rational(abs(slope))
        place = _floor(digits, lambda u: -(1 + u * (-rate * n).expm1()).log() / rate)
        return self.count - place if slope > 0 else place


def draw_restricted(
    address: NoiseAddress, counts: Integers, structure: Structure, epsilon: Fraction
) -> Integers:
    """A table without negative counts, with the block sums of `counts`, from the restricted law.

    Problem. Given the true counts x >= 0 of the cells of a block, wanted is y >= 0 with the sum of x and with
    probability proportional to exp(-epsilon |y - x|_1).

    Steps. The tilt is chosen so that the expected sum of the cells is about the wanted sum. A trial draws all
    cells but the pivot, the cell with the largest count. The sum determines the pivot. The trial succeeds with
    probability p(pivot) / max p, and never if the pivot would be negative. Cells that no constraint names are
    drawn from p with tilt 0.

    Stopping rule. A draw ends with its first successful trial. With the tilt chosen like this, about one trial in
    2 sqrt(n) succeeds for a block of n cells, whatever the counts.

    Worked case. x = (0, 0, 1). Without a tilt the expected sum is far above 1 if epsilon is small. With a tilt
    near ln 4 each cell has about 1/3 in expectation, and every few trials the first two cells sum to 0 or 1.

    Args:
        address: Place of the draw in the address space.
        counts: int64 [n_cells], from 0; the true table. Confidential.
        structure: A structure whose block sums vanish on the lattice (`Structure.sums_vanish`).
        epsilon: Rate of the law, for each unit of l1 distance.
    Returns:
        int64 [n_cells].
    Privacy: epsilon times twice the l1 distance, between tables with the same block sums. The time that a draw takes
        depends on the counts.
    """
    drawn = np.zeros_like(counts)
    drawn[structure.free] = draw_alone(address, counts, structure.free, epsilon)
    for block in structure.blocks:
        drawn[block] = _block(address, counts[block], int(block[0]), epsilon)
    return drawn


def draw_alone(address: NoiseAddress, counts: Integers, cells: Integers, epsilon: Fraction) -> list[int]:
    """Counts of cells that no constraint names, each from the restricted law of its own, as `draw_restricted` does."""
    laws = (TiltedCell(int(counts[cell]), epsilon, Fraction(0)) for cell in cells)
    return [law.draw(_sites(address, int(cell), 0, 1)(0)) for law, cell in zip(laws, cells, strict=True)]


def _block(address: NoiseAddress, counts: Integers, place: int, epsilon: Fraction) -> list[int]:
    total = int(counts.sum())
    # The only table of counts from 0 with this sum: nothing to draw.
    if total == 0:
        return [0] * counts.size
    pivot = int(np.argmax(counts))
    with precision(_BITS):
        tilt = _tilt(counts, epsilon)
        laws = [TiltedCell(int(count), epsilon, tilt) for count in counts]
    trial = 0
    while True:
        vector = _trial(laws, pivot, total, _sites(address, place, trial * counts.size, counts.size))
        if vector is not None:
            return vector
        trial += 1


def _trial(
    laws: list[TiltedCell], pivot: int, total: int, sites: Callable[[int], Digits]
) -> list[int] | None:
    """One trial: the cells, or None. The pivot comes last and is what the others leave."""
    values, left = [0] * len(laws), total
    for i, law in enumerate(laws):
        if i != pivot:
            values[i] = law.draw(sites(i))
            left -= values[i]
        if left < 0:
            return None
    values[pivot] = left
    return values if laws[pivot].keeps(left, sites(pivot)(0)) else None


def _tilt(counts: Integers, epsilon: Fraction) -> Fraction:
    """A tilt at which the expected sum is about the sum of the counts. No tilt makes it larger, a large one smaller."""
    kinds, numbers = np.unique(counts, return_counts=True)
    low, high = Fraction(0), epsilon + math.ceil(math.log2(counts.size + 1)) + 1
    for _ in range(_TILT_STEPS):
        middle = (low + high) / 2
        excess = arb(0)
        for kind, number in zip(kinds.tolist(), numbers.tolist(), strict=True):
            excess += number * TiltedCell(kind, epsilon, middle).excess()
        low, high = (middle, high) if excess.mid() > 0 else (low, middle)
    return (low + high) / 2


def _sites(address: NoiseAddress, draw: int, first: int, pairs: int) -> Callable[[int], Digits]:
    """The two uniform numbers of each of some cells, from a pair of sites on: for a cell, its digits by number."""
    words = address.numbers(np.array([draw], dtype=np.int64), 2 * first, 2 * pairs)[0].tolist()

    def of_cell(cell: int) -> Digits:
        def digits(trial_number: int) -> Iterator[int]:
            yield words[2 * cell + trial_number]
            yield from address.source.digits(
                address.geolevel, address.query, draw, 2 * (first + cell) + trial_number
            )

        return digits

    return of_cell


def _floor(digits: Iterator[int], value: Callable[[arb], arb]) -> int:
    """The floor of a value of a uniform number."""
    return _answer(digits, lambda u: certified_floor(value(u)))


def _positive(digits: Iterator[int], value: Callable[[arb], arb]) -> bool:
    """Whether a value of a uniform number is positive."""

    def sign(u: arb) -> bool | None:
        ball = value(u)
        return True if ball > 0 else False if ball < 0 else None

    return _answer(digits, sign)


def _answer(digits: Iterator[int], question: Callable[[arb], Answer | None]) -> Answer:
    """The answer of a question about a uniform number, with as many of its digits as that takes."""
    known, bits = 0, 0
    while True:
        known, bits = known << 64 | next(digits), bits + 64
        with precision(_BITS + bits):
            # The ball below holds every number that begins with the known digits, so an answer is final.
            half = arb(2) ** -(bits + 1)
            answer = question((2 * known + 1) * half + arb(0, half))
        if answer is not None:
            return answer
