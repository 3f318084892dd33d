"""Noisy measurements as they leave the wall, and the answers of them that consecutive families need.

A family needs the answers in which the nonzero cells of its parent count.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Bools, Int32s, Integers
from tallyveil.kernels.family.answers import list_answers, spread_answers
from tallyveil.kernels.noise import Listed
from tallyveil.schema.query_group import QueryGroup


@dataclass(frozen=True, slots=True, eq=False)
class NoisyMeasurements:
    """Noisy answers of one query group for consecutive geounits of one geolevel.

    Attributes:
        geolevel: Name of the geolevel.
        query: Name of the query group.
        first_geounit: Index of the geounit in row 0.
        answers: For each column, the number of its answer, ascending; shape (n_answers,).
        values: True answer plus noise, possibly negative; int64, shape (n_geounits, n_answers).
        variances: For each geounit, the variance of the noise of its values, in squared counts; shape (n_geounits,).
            Unmeasured geounits have infinite variance, and their values are 0 and carry no information.
    """

    geolevel: str
    query: str
    first_geounit: int
    answers: Integers
    values: Integers
    variances: NDArray[np.float64]


# 2^18 cells make a table of 1 MiB for each query; 128 such tables are kept at most. Twice or half of it changes no
# answer.
MOST_CELLS_KEPT: Final = 1 << 18
"""Largest number of cells of a schema whose answers are kept in a table with every cell."""


@dataclass(frozen=True, slots=True, eq=False)
class FamilyAnswers:
    """For F consecutive families of one geolevel and Q queries, the answers that are needed.

    Attributes:
        geolevel: Geolevel of the children.
        queries: The Q measured query groups; each layer of one whose groups overlap.
        child_begin: Geounit of each family's first child, and one past the last child; shape (F + 1,).
        answers: Answer numbers, ordered by query, then family; increasing within a family.
        begin: Start of each query's and family's answers in `answers`; shape (Q, F + 1).
        columns: For each entry of the parents, the position of its answer among its family's answers, or -1 for none;
            int32, shape (Q, entries).
        value_begin: Start of each query's and family's values; shape (Q, F + 1). The values of a family have one row
            for each child.
    """

    geolevel: str
    queries: tuple[QueryGroup, ...]
    child_begin: Integers
    answers: Integers
    begin: Integers
    columns: Int32s
    value_begin: Integers

    @property
    def widths(self) -> Integers:
        """Number of answers for each query and family, shape (Q, F)."""
        return np.diff(self.begin, axis=1)

    @property
    def n_values(self) -> int:
        """Total number of values."""
        # The end of the last query, since queries follow one another.
        return int(self.value_begin[-1, -1]) if len(self.queries) else 0

    def listed(self, query: int) -> Listed:
        """The values of one query, as a request for noise."""
        begin = self.value_begin[query]
        # Starts are counted within the query, whose noise is asked for by itself.
        return Listed(self.answers, self.begin[query], self.child_begin, begin - begin[0])

    def addresses(self, query: int) -> tuple[Integers, Integers]:
        """Geounit and answer of every value of one query, in order."""
        n = int(self.value_begin[query, -1] - self.value_begin[query, 0])
        geounits, answers = np.empty(n, np.int64), np.empty(n, np.int64)
        spread_answers(self.answers, self.begin[query], self.child_begin, geounits, answers)
        return geounits, answers


class MeasurementSource(Protocol):
    """Where noisy answers come from: a measurer behind the wall, or files written earlier. Both give equal values."""

    def measure(
        self, geolevel: str, query: str, start: int, stop: int, answers: Integers
    ) -> NoisyMeasurements:
        """Noisy values of the listed answers for geounits start to stop - 1 of a geolevel."""
        ...

    def measure_families(self, wanted: FamilyAnswers) -> Integers:
        """Noisy values of the answers that families need, in the layout of `wanted`. The array is writable."""
        ...


def answers_on_support(
    geolevel: str,
    queries: Sequence[QueryGroup],
    child_begin: Integers,
    offsets: Integers,
    cells: Integers,
    settled: Bools,
) -> FamilyAnswers:
    """The answers in which the nonzero cells of the parents of consecutive families count.

    Args:
        geolevel: Geolevel of the children.
        queries: The queries that are measured there; each layer of one whose groups overlap.
        child_begin: Geounit of each family's first child, and one past the last child; shape (F + 1,).
        offsets: Start of each parent's entries in `cells`, from 0; shape (F + 1,).
        cells: Cells where the parents' counts are not zero.
        settled: Families in which nothing is estimated, so that they need no answers; shape (F,).
    """
    tables, cells = answers_at(queries, queries[0].n_cells if queries else 0, cells)
    sizes = np.array([group.size for group in queries], dtype=np.int64)
    columns, answers, begin = list_answers(tables, sizes, offsets, cells, settled)
    # Every child of a family is asked for the same answers.
    n_values = np.diff(begin, axis=1) * np.diff(child_begin)
    ends = np.cumsum(n_values.reshape(-1)).reshape(n_values.shape)
    value_begin = np.concatenate([ends[:, :1] - n_values[:, :1], ends], axis=1)
    return FamilyAnswers(geolevel, tuple(queries), child_begin, answers, begin, columns, value_begin)


def answers_at(queries: Sequence[QueryGroup], n_cells: int, cells: Integers) -> tuple[Int32s, Integers]:
    """The answer in which each of some cells counts, as a table and the places in it where the cells are found.

    A small schema has a table with every cell, which is kept. In a large one, the table has the given cells alone.

    Returns:
        A table as that of `answer_tables`, and for each cell its column in the table.
    """
    if n_cells <= MOST_CELLS_KEPT:
        return answer_tables(queries, n_cells), cells
    # Cells recur in many families; each is looked up once.
    distinct, places = np.unique(cells, return_inverse=True)
    table = np.array([group.answers_of(distinct) for group in queries], np.int32).reshape(
        len(queries), len(distinct)
    )
    return table, places.astype(np.int64).reshape(-1)


def answer_tables(queries: Sequence[QueryGroup], n_cells: int) -> Int32s:
    """For each cell of the schema, the answer in which it counts, or -1 for none; int32, shape (Q, n_cells)."""
    return np.array([_answer_table(group) for group in queries], np.int32).reshape(len(queries), n_cells)


@lru_cache(maxsize=128)
def _answer_table(group: QueryGroup) -> Int32s:
    """The answer of every cell. Every chunk of families asks for it, so it is kept."""
    table = group.answers_of(np.arange(group.n_cells, dtype=np.int64)).astype(np.int32)
    # The cache hands the same array to every caller.
    table.setflags(write=False)
    return table


def measure_one_by_one(source: MeasurementSource, wanted: FamilyAnswers) -> Integers:
    """Values of all wanted answers, requested family by family. This is the specification of `measure_families`."""
    values = np.empty(wanted.n_values, np.int64)
    for q, group in enumerate(wanted.queries):
        for f in range(len(wanted.child_begin) - 1):
            start, stop = int(wanted.child_begin[f]), int(wanted.child_begin[f + 1])
            answers = wanted.answers[wanted.begin[q, f] : wanted.begin[q, f + 1]]
            # A settled family asks for nothing.
            if answers.size:
                noisy = source.measure(wanted.geolevel, group.name, start, stop, answers)
                values[wanted.value_begin[q, f] : wanted.value_begin[q, f + 1]] = noisy.values.reshape(-1)
    return values
