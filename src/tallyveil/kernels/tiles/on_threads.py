"""One large family of tables on several threads, with the same bits as on one.

A State's largest county with all its tracts is one family, which has tens of millions of unknown counts. The solver of
`chunk` gives a family to one thread. Here the long loops of the same solver are divided among threads:

- *Pieces*, which are consecutive tables: the projections, the energies of rows, the drops of entries, the rounding.
  A table depends on others through the prices of labels alone, and these are fixed meanwhile.
- *Small components*, which no measured query couples with others: one thread estimates a whole one, as in `chunk`.
- *Strips*, which are some children with their rows in every table: the sums of labels and the blocks of the
  preconditioner. Each such sum and block belongs to one child.

Newton's method itself is `solver.climb`, and its direction `direction.find_direction`. Here, Python runs both without
compiling them, and each kernel that they call divides its work among the threads. Every number is computed by one
thread, from the same numbers in the same order as on one thread. So counts do not depend on the number of threads, of
pieces or of strips. What is left for one thread are sums over everything, which are short.

Oracle: `chunk.solve_chunk`, which gives the same bits.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar, cast

import numpy as np

from tallyveil.arrays import Floats, IntegerRows, Integers
from tallyveil.kernels.compiled import all_compiled, conforming, lines_of, njit
from tallyveil.kernels.tiles.chunk import (
    CONTRADICTORY,
    EFFORT_SIZE,
    FLOWS_AT,
    KERNELS,
    SETTLED,
    SOLVED,
    UNPROVED,
    Components,
    Solved,
    TileKernels,
    note,
    round_and_write,
    solve_components,
    zero_prices,
)
from tallyveil.kernels.tiles.direction import ChildBlocks, DirectionParts, TableFace, find_direction
from tallyveil.kernels.tiles.family import Source, TileChunk
from tallyveil.kernels.tiles.rounding import FAILED
from tallyveil.kernels.tiles.solver import (
    APPROXIMATE,
    LAST_PROJECTION_LIMIT,
    NEWTON_PROJECTION_LIMIT,
    PLAIN,
    RESTARTED,
    SAFETY,
    SUM_TOLERANCE,
    ComponentOutcome,
    Project,
    State,
    aim,
    climb,
    dual_value,
    row_energies,
    take_few_steps,
)
from tallyveil.kernels.tiles.tables import Prices, Strip, Tables, clear_sums, label_sums
from tallyveil.kernels.vectors import largest_of

Part = TypeVar("Part")
Result = TypeVar("Result")

PARTS_A_THREAD = 4
"""Parts of a loop for each thread, which takes the next one when it is done. With half as many, threads wait longer for
the last one; twice as many cost more calls. Counts do not depend on it."""

SHARED = 1 << 18
"""Number of unknown counts of a component above which all threads share its loops. One thread estimates a smaller one
in less than a second, and several threads estimate such components at the same time. Counts do not depend on it."""


class Crew(ThreadPoolExecutor):
    """Threads that estimate large families together. Several families may use them at the same time.

    Attributes:
        size: Number of threads.
    """

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size

    def each(self, work: Callable[[Part], Result], parts: Sequence[Part]) -> list[Result]:
        """Apply work to all parts, and return the results in the order of the parts."""
        return list(self.map(work, parts))


def solve_family(chunk: TileChunk, tolerance: float, crew: Crew, shared: int = SHARED) -> Solved:
    """Estimate and round the one family of a chunk; the same as `chunk.solve_chunk`, on several threads.

    Args:
        chunk: The family. Its values are changed.
        tolerance: Backward error that is asked for, in persons.
        crew: The threads.
        shared: As `SHARED`; tests give other numbers.
    """
    chunk, kernels = conforming(chunk), all_compiled(KERNELS)
    counts = np.zeros((int(chunk.child_begin[1]), int(chunk.offsets[1])), np.int64)
    gaps, effort = np.zeros((1, 3)), np.zeros((1, EFFORT_SIZE), np.int64)
    good, *parts = kernels.read_family(chunk, 0, counts)
    components, ended = Components(*parts), CONTRADICTORY
    if good:
        source, order, begin = components
        sizes, proved = _sizes(components), True
        for j in np.flatnonzero(sizes > shared):
            members = order[begin[j] : begin[j + 1]]
            tables = kernels.component_tables(source, members)
            team = _team(crew, source, members, tables)
            prices, x = zero_prices(tables), np.empty(tables.centre.size)
            note(gaps[0], effort[0], tables, _solve(team, tables, prices, x, tolerance))
            ways = _rounded(team, source, members, tables, x, counts)
            effort[0, FLOWS_AT:] += np.bincount(ways, minlength=EFFORT_SIZE - FLOWS_AT)
            proved &= FAILED not in ways
        proved &= _solve_small(
            crew, components, np.flatnonzero(sizes <= shared), counts, tolerance, (gaps[0], effort[0])
        )
        if not proved or not kernels.sums_hold(source.family, counts):
            ended = UNPROVED
        else:
            ended = SOLVED if len(begin) > 1 else SETTLED
    rows, columns = np.nonzero(counts)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(counts)))])
    return Solved(
        np.array([ended]), gaps, effort, offsets, columns.astype(np.int32), counts[rows, columns], np.zeros(0)
    )


def _sizes(components: Components) -> Integers:
    """Unknown counts of each component."""
    source, order, begin = components
    free = source.free
    below = np.concatenate([[0], np.cumsum((np.diff(free.column_begin) * np.diff(free.row_begin))[order])])
    sizes: Integers = np.diff(below[begin])
    return sizes


def _solve_small(
    crew: Crew,
    components: Components,
    which: Integers,
    counts: IntegerRows,
    tolerance: float,
    record: tuple[Floats, Integers],
) -> bool:
    """As `chunk.solve_components`, with some of the components on each thread."""
    kernels, gaps, effort = all_compiled(KERNELS), *record
    below = np.cumsum(_sizes(components)[which])
    wanted = np.linspace(0, int(below[-1]) if len(below) else 0, PARTS_A_THREAD * crew.size + 1)[1:-1]

    def work(some: Integers) -> tuple[bool, Floats, Integers]:
        # Working arrays and sums are separate for each thread.
        separate = components._replace(source=_with_room(components.source))
        of_some = np.zeros_like(gaps), np.zeros_like(effort)
        return _solve_components(
            separate, some, counts, tolerance, np.zeros((0, 0)), of_some, kernels
        ), *of_some

    parts = [part for part in np.split(which, np.searchsorted(below, wanted)) if len(part)]
    proved = True
    for part_proved, part_gaps, part_effort in crew.each(work, parts):
        proved &= part_proved
        np.maximum(gaps, part_gaps, out=gaps)
        effort += part_effort
    return proved


def _with_room(source: Source) -> Source:
    """A source with separate working arrays, since several threads write into them at the same time."""
    room = (np.full_like(array, -1) for array in source.numbers[1:])
    return source._replace(numbers=type(source.numbers)(source.numbers.first, *room))


@dataclass(frozen=True, slots=True, eq=False)
class _Team:
    """Threads, and the parts of a component that they take.

    Attributes:
        crew: The threads.
        spans: The first table of each piece, and one past its last.
        pieces: Their tables, as the kernels take them.
        strips: The strips.
    """

    crew: Crew
    spans: list[tuple[int, int]]
    pieces: list[Tables]
    strips: list[Strip]

    def projected(self, prices: Prices, x: Floats) -> float:
        """The last projection for the prices of labels. Returns the largest gap as a multiple of what is allowed."""
        point, project = np.empty(x.size), all_compiled(KERNELS).parts.methods.project

        def work(piece: Tables) -> float:
            _aim(piece, prices.label, point)
            missed: float = project(piece, point, prices, x, SUM_TOLERANCE, LAST_PROJECTION_LIMIT)
            return missed

        return max(self.crew.each(work, self.pieces))

    def evaluate(
        self, tables: Tables, x: Floats, state: State, tolerance: float, project: Project
    ) -> tuple[float, float]:
        """As `solver.evaluate`."""

        def aimed(piece: Tables) -> float:
            _aim(piece, state.trial.label, state.point)
            missed = project(piece, state.point, state.trial, x, tolerance, NEWTON_PROJECTION_LIMIT)
            _row_energies(piece, x, state)
            return missed

        if max(self.crew.each(aimed, self.pieces)) > 1.0:
            return -np.inf, np.inf
        self.crew.each(lambda strip: _label_sums(tables, x, state.gradient, strip), self.strips)
        return _value(tables, state)

    def direction_parts(self) -> DirectionParts:
        """The parts of `direction.find_direction`, each with its work divided among the threads."""
        parts: DirectionParts = all_compiled(KERNELS).parts.methods.direction
        pieces, strips = list(zip(self.pieces, self.spans, strict=True)), self.strips

        def factored_blocks(
            tables: Tables, face: TableFace, easing: Floats, share: Floats, _: Strip
        ) -> list[ChildBlocks]:
            return self.crew.each(
                lambda strip: parts.factored_blocks(tables, face, easing, share, strip), strips
            )

        def apply_blocks(
            tables: Tables,
            face: TableFace,
            blocks: list[ChildBlocks],
            share: Floats,
            left: Floats,
            out: Floats,
            _: Strip,
        ) -> None:
            def work(part: tuple[ChildBlocks, Strip]) -> None:
                parts.apply_blocks(tables, face, part[0], share, left, out, part[1])

            self.crew.each(work, list(zip(blocks, strips, strict=True)))

        def drop_entries(_: Tables, face: TableFace, moves: Floats, falls: Floats) -> None:
            def work(part: tuple[Tables, tuple[int, int]]) -> None:
                parts.drop_entries(part[0], _face_of(face, part[1]), moves, falls)

            self.crew.each(work, pieces)

        def add_drops(tables: Tables, face: TableFace, falls: Floats, _: Strip) -> None:
            self.crew.each(lambda strip: parts.add_drops(tables, face, falls, strip), strips)

        return parts._replace(
            # Here the blocks are a list of those of all strips, which only these two functions look into.
            factored_blocks=cast(Any, factored_blocks),
            apply_blocks=cast(Any, apply_blocks),
            drop_entries=drop_entries,
            add_drops=add_drops,
        )


def _team(crew: Crew, source: Source, members: Integers, tables: Tables) -> _Team:
    """The parts of a component; pieces have about as many entries each, and strips as many children."""
    n = PARTS_A_THREAD * crew.size
    wanted = np.linspace(0, int(tables.entry_begin[-1]), n + 1)
    ends = np.unique(np.searchsorted(tables.entry_begin, wanted)).tolist()
    spans = list(pairwise(ends))
    pieces = [
        tables._replace(
            column_begin=tables.column_begin[first : last + 1],
            row_begin=tables.row_begin[first : last + 1],
            entry_begin=tables.entry_begin[first : last + 1],
            upright=tables.upright[first:last],
        )
        for first, last in spans
    ]
    return _Team(crew, spans, pieces, _strips(source, members, tables, n))


def _strips(source: Source, members: Integers, tables: Tables, n: int) -> list[Strip]:
    """About n strips of a component. Rows of a table are in the order of the family's children."""
    free, n_children = source.free, source.family.weights.shape[1]
    child = np.concatenate([free.row[free.row_begin[p] : free.row_begin[p + 1]] for p in members])
    table = np.repeat(np.arange(len(members)), np.diff(tables.row_begin))
    keys, number = table * n_children + child, np.full(n_children, -1, np.int64)
    number[child] = tables.child
    strips = []
    for first, last in pairwise(np.unique(np.linspace(0, n_children, n + 1).astype(np.int64)).tolist()):
        begin, end = (
            np.searchsorted(keys, np.arange(len(members)) * n_children + at) for at in (first, last)
        )
        strips.append(Strip(begin, end, number[first:last][number[first:last] >= 0]))
    return strips


def _face_of(face: TableFace, span: tuple[int, int]) -> TableFace:
    """The active entries of a piece."""
    first, last = span
    return face._replace(
        outer_begin=face.outer_begin[first : last + 1], inner_begin=face.inner_begin[first : last + 1]
    )


def _solve(team: _Team, tables: Tables, prices: Prices, x: Floats, tolerance: float) -> ComponentOutcome:
    """As `solver.solve_component`."""
    kernels = all_compiled(KERNELS)
    methods, rung, restarts, steps, cg_steps = kernels.parts.methods, PLAIN, 0, 0, 0
    if prices.label.size:
        take_few_steps(tables, prices, x, kernels.parts)
        shared = methods._replace(
            find_direction=lines_of(find_direction), direction=team.direction_parts(), evaluate=team.evaluate
        )
        effort = lines_of(climb)(tables, prices, x, SAFETY * tolerance, shared)
        if effort.residual > tolerance:
            # The further rungs are rare, and one thread climbs them from the beginning.
            fresh = zero_prices(tables)
            outcome: ComponentOutcome = kernels.solve(tables, fresh, x, tolerance, kernels.parts)
            return outcome
        rung = RESTARTED if effort.restarts else PLAIN
        restarts, steps, cg_steps = effort.restarts, effort.steps, effort.cg_steps
    missed = team.projected(prices, x)
    if missed > 1.0:
        clear_sums(prices)
        missed = team.projected(prices, x)
    gaps = kernels.parts.gaps_of(tables, prices, x)
    if gaps.labels > tolerance or missed > 1.0:
        rung = APPROXIMATE
    return ComponentOutcome(rung, gaps, restarts, steps, cg_steps)


def _rounded(
    team: _Team, source: Source, members: Integers, tables: Tables, x: Floats, counts: IntegerRows
) -> Integers:
    """Round every table into the counts of the family. Returns how each was rounded."""
    kernels = all_compiled(KERNELS)

    def work(span: tuple[int, int]) -> Integers:
        return _round_tables(_with_room(source), members, tables, x, counts, kernels, span)

    return np.concatenate(team.crew.each(work, team.spans))


@njit(nogil=True, cache=True)
def _round_tables(
    source: Source,
    members: Integers,
    tables: Tables,
    x: Floats,
    counts: IntegerRows,
    kernels: TileKernels,
    span: tuple[int, int],
) -> Integers:
    ways = np.zeros(span[1] - span[0], np.int64)
    for t in range(span[0], span[1]):
        ways[t - span[0]] = round_and_write(source, members[t], tables, t, x, counts, kernels)
    return ways


@njit(nogil=True, cache=True)
def _value(tables: Tables, state: State) -> tuple[float, float]:
    return dual_value(tables, state), largest_of(state.gradient.reshape(-1))


_kernel = njit(nogil=True, cache=True)

# The steps of the solver of one thread, which kernels call, as kernels that Python calls.
_aim = _kernel(aim)
_row_energies = _kernel(row_energies)
_label_sums = _kernel(label_sums)
_solve_components = _kernel(solve_components)
