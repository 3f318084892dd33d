"""Sums that hold among true tables: of children, of finest geounits in entities, and of finer answers.

All published counts are put into one long vector. A line says that one of its numbers is the sum of some others. From
hidden counts with known limits, interval arithmetic along the lines narrows the limits until nothing changes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tallyveil.arrays import Bools, Floats, Integers
from tallyveil.compare.inputs import SharedInput, TableName, answer_matrix
from tallyveil.schema.query_group import QueryGroup

ROUNDS: Final = 30
"""Rounds of interval arithmetic. A round passes limits one line further; five geolevels and three tables need about
ten. Half as many leave some limits wider than they could be; twice as many changed nothing where it was tried."""

NO_LIMIT: Final = 1e15
"""Upper limit of a count of which nothing is known. Sums of millions of them are exact enough to be compared with."""


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """Lines among numbered counts.

    Attributes:
        wholes: For each line, the number of the count that is a sum; int64, shape (n_lines,).
        parts: Numbers of the parts of all lines, one line after the other; int64.
        line: The line of each part.
    """

    wholes: Integers
    parts: Integers
    line: Integers

    @property
    def n_lines(self) -> int:
        """Number of lines."""
        return int(self.wholes.size)

    @property
    def members(self) -> tuple[Integers, Integers]:
        """Every count on every line, as the line and the number of the count: first all parts, then all wholes."""
        return (
            np.concatenate([self.line, np.arange(self.n_lines)]),
            np.concatenate([self.parts, self.wholes]),
        )

    def matrix(self, n_counts: int, whole: float) -> sparse.csr_matrix:
        """1 where a count is a part of a line, and `whole` where it is the whole; shape (n_lines, n_counts)."""
        values = np.concatenate([np.ones(self.parts.size), np.full(self.n_lines, whole)])
        return sparse.csr_matrix((values, self.members), shape=(self.n_lines, n_counts))

    def touching(self, counts: Bools) -> "Lines":
        """The lines on which any of these counts stands."""
        touched = counts[self.wholes] | (np.bincount(self.line, counts[self.parts], self.n_lines) > 0)
        inside = touched[self.line]
        number = np.cumsum(touched) - 1
        return Lines(self.wholes[touched], self.parts[inside], number[self.line[inside]])

    def narrowed(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Limits of all counts after interval arithmetic; the arguments are not changed."""
        return _narrowed((self,), low, high)

    def narrow(self, low: Floats, high: Floats) -> None:
        """Narrow limits once along each line, in place."""
        sums_low = np.bincount(self.line, low[self.parts], self.n_lines)
        sums_high = np.bincount(self.line, high[self.parts], self.n_lines)
        np.maximum.at(low, self.wholes, sums_low)
        np.minimum.at(high, self.wholes, sums_high)
        # A part is what the whole leaves when all others are as small, or as large, as they can be.
        others_low = sums_low[self.line] - low[self.parts]
        others_high = sums_high[self.line] - high[self.parts]
        most = high[self.wholes][self.line] - others_low
        least = low[self.wholes][self.line] - others_high
        np.minimum.at(high, self.parts, most)
        np.maximum.at(low, self.parts, least)


def _narrowed(blocks: Iterable[Lines], low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Limits after interval arithmetic along all lines, block after block, until nothing changes."""
    before = low, high
    low, high = low.copy(), high.copy()
    parts: list[Lines] = []
    for lines in blocks:
        lines.narrow(low, high)
        # Once it was looked at, a line of which every count is known says nothing more.
        parts.append(lines.touching(low < high))
    for _ in range(ROUNDS - 1):
        # The limits themselves: beside NO_LIMIT, sums of floats do not show a change of one.
        moved = (low != before[0]) | (high != before[1])
        if not moved.any():
            break
        before = low.copy(), high.copy()
        # The lines of one kind have no count in common, so that a line says nothing new until one of its counts moves.
        for lines in parts:
            lines.touching(moved).narrow(low, high)
    return low, high


@dataclass(frozen=True, eq=False)
class TableCells:
    """The counts of all tables as one vector.

    Attributes:
        shared: The input.
        with_entities: Whether the tables of entities are there, too.
    """

    shared: SharedInput
    with_entities: bool = True

    @cached_property
    def names(self) -> tuple[TableName, ...]:
        """The tables, in order."""
        areas = self.shared.areas if self.with_entities else self.shared.geolevels
        return tuple((item.name, query.name) for item in areas for query in self.shared.queries)

    @cached_property
    def offsets(self) -> dict[TableName, int]:
        """Number of the first count of each table."""
        sizes = [self.shared.truth[name].size for name in self.names]
        return dict(zip(self.names, np.concatenate([[0], np.cumsum(sizes)[:-1]]).tolist(), strict=True))

    def numbers(self, name: TableName) -> Integers:
        """Numbers of the counts of a table, in its shape."""
        shape = self.shared.truth[name].shape
        return np.asarray(self.offsets[name] + np.arange(shape[0] * shape[1]).reshape(shape))

    def joined(self, tables: Mapping[TableName, NDArray[Any]]) -> NDArray[Any]:
        """What some tables have of each count, as one vector."""
        return np.concatenate([tables[name].ravel() for name in self.names])

    def narrowed(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Limits of all counts after interval arithmetic along all lines; the arguments are not changed."""
        return _narrowed(self.blocks(), low, high)

    def blocks(self) -> Iterator[Lines]:
        """All lines, those of one kind together; one kind after the other, because all take much memory."""
        shared = self.shared
        for level in range(1, shared.n_geolevels):
            yield from self._sums(
                shared.areas[level - 1].name, shared.areas[level].name, shared.parents(level)
            )
        for areas in shared.areas[shared.n_geolevels :] if self.with_entities else ():
            yield from self._sums(areas.name, shared.finest.name, areas.place)
        for coarse, fine, answers in nested(shared.queries):
            for areas in shared.areas if self.with_entities else shared.geolevels:
                whole, part = (self.numbers((areas.name, query.name)) for query in (coarse, fine))
                used = np.flatnonzero(answers >= 0)
                rows = np.arange(areas.n_areas)[:, None] * coarse.size
                yield Lines(whole.ravel(), part[:, used].ravel(), (rows + answers[used][None, :]).ravel())

    def _sums(self, above: str, here: str, place: Integers) -> Iterator[Lines]:
        inside = np.flatnonzero(place >= 0)
        for query in self.shared.queries:
            whole, part = self.numbers((above, query.name)), self.numbers((here, query.name))
            line = place[inside][:, None] * query.size + np.arange(query.size)[None, :]
            yield Lines(whole.ravel(), part[inside].ravel(), line.ravel())


def nested(queries: Sequence[QueryGroup]) -> Iterator[tuple[QueryGroup, QueryGroup, Integers]]:
    """Pairs of queries of which the second refines the first.

    With each pair goes the answer of the first that each answer of the second is in, -1 for none.
    """
    for coarse in queries:
        for fine in queries:
            if coarse is fine or fine.size <= coarse.size:
                continue
            together = np.asarray((answer_matrix(fine).T @ answer_matrix(coarse)).todense())
            cells = np.asarray(answer_matrix(fine).sum(axis=0)).ravel()
            inside = together.max(axis=1)
            # Every answer lies in one answer of the coarser query or in none, and all cells of these are covered.
            whole = np.asarray(answer_matrix(coarse).sum(axis=0)).ravel()
            if ((inside == cells) | (inside == 0)).all() and (together.sum(axis=0) == whole).all():
                yield coarse, fine, np.where(inside > 0, together.argmax(axis=1), -1)


class Families:
    """The tables of a parent and its children side by side: one row for each of them, the parent first."""

    def __init__(self, shared: SharedInput, level: int) -> None:
        self._above, self._here = shared.areas[level - 1].name, shared.areas[level].name
        self._queries = shared.queries
        self._starts = np.concatenate([[0], np.cumsum([query.size for query in shared.queries])])
        self._nested = [
            (shared.queries.index(coarse), shared.queries.index(fine), answers)
            for coarse, fine, answers in nested(shared.queries)
        ]
        parents = shared.parents(level)
        self._order = np.argsort(parents, kind="stable")
        self._ends = np.searchsorted(parents[self._order], np.arange(shared.areas[level - 1].n_areas + 1))

    def children(self, parent: int) -> Integers:
        """Numbers of the children of a parent."""
        return self._order[self._ends[parent] : self._ends[parent + 1]]

    def gathered(self, tables: Mapping[TableName, NDArray[Any]], parent: int) -> NDArray[Any]:
        """The family's part of some tables, as one vector."""
        rows = [
            np.concatenate(
                [
                    tables[self._above, query.name][[parent]],
                    tables[self._here, query.name][self.children(parent)],
                ]
            )
            for query in self._queries
        ]
        return np.concatenate(rows, axis=1).ravel()

    def scatter(self, values: NDArray[Any], tables: Mapping[TableName, NDArray[Any]], parent: int) -> None:
        """Write such a vector back."""
        table = values.reshape(-1, self._starts[-1])
        for query, start in zip(self._queries, self._starts.tolist(), strict=False):
            part = table[:, start : start + query.size]
            tables[self._above, query.name][parent] = part[0]
            tables[self._here, query.name][self.children(parent)] = part[1:]

    def lines(self, parent: int) -> Lines:
        """The sums in the family."""
        width = int(self._starts[-1])
        n_children = self.children(parent).size
        answers, rows = np.arange(width), width * np.arange(n_children + 1)[:, None]
        wholes, parts, line = (
            [answers],
            [width + np.arange(n_children * width)],
            [np.tile(answers, n_children)],
        )
        n_lines = width
        for coarse, fine, inside in self._nested:
            used = np.flatnonzero(inside >= 0)
            size = self._queries[coarse].size
            wholes.append((rows + self._starts[coarse] + np.arange(size)).ravel())
            parts.append((rows + self._starts[fine] + used).ravel())
            line.append((n_lines + size * np.arange(n_children + 1)[:, None] + inside[used]).ravel())
            n_lines += size * (n_children + 1)
        return Lines(np.concatenate(wholes), np.concatenate(parts), np.concatenate(line))

    def price(self, counts: Integers) -> Floats:
        """Costs of hiding: large counts cost more, and the parent, whom more users need, as much as five children."""
        price = 1.0 + np.log1p(counts)
        price[: self._starts[-1]] *= 5.0
        return np.asarray(price)
