"""The answers that consecutive families need: those their parents' supports reach."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tallyveil.arrays import Bools, Int32s, Integers
from tallyveil.kernels.family.answers import list_answers, spread_answers
from tallyveil.measurements.measurements import NoisyMeasurements
from tallyveil.universe.query_group import QueryGroup


@dataclass(frozen=True, slots=True, eq=False)
class FamilyAnswers:
    """Which answers of which queries F consecutive families of one geolevel need.

    Attributes:
        geolevel: Geolevel of the children.
        queries: The Q measured query groups.
        child_begin: Geounit of each family's first child; shape (F + 1,).
        answers: Answer numbers, query after query, family after family, rising within a family.
        begin: Where those of each query and family begin; shape (Q, F + 1).
        columns: Column of each entry of the parents among its family's answers, -1: none; (Q, entries), int32.
        value_begin: Where the values of each query and family begin; shape (Q, F + 1). The values of a family
            are one row a child.
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
        """Answers of each query and family, shape (Q, F)."""
        return np.diff(self.begin, axis=1)

    @property
    def n_values(self) -> int:
        """Number of values."""
        return int(self.value_begin[-1, -1]) if len(self.queries) else 0

    def addresses(self, query: int) -> tuple[Integers, Integers]:
        """Geounit and answer of every value of one query, in order."""
        n = int(self.value_begin[query, -1] - self.value_begin[query, 0])
        geounits, answers = np.empty(n, np.int64), np.empty(n, np.int64)
        spread_answers(self.answers, self.begin[query], self.child_begin, geounits, answers)
        return geounits, answers


class MeasurementSource(Protocol):
    """Where noisy answers come from: behind the wall on request, or files written earlier. Both agree exactly."""

    def measure(
        self, geolevel: str, query: str, start: int, stop: int, answers: Integers
    ) -> NoisyMeasurements:
        """Noisy values of the listed answers for geounits start..stop of a geolevel."""
        ...

    def measure_families(self, wanted: FamilyAnswers) -> Integers:
        """Noisy values of the answers that families need, laid out as `wanted` says; all writable."""
        ...


def answers_on_support(
    geolevel: str,
    queries: Sequence[QueryGroup],
    child_begin: Integers,
    offsets: Integers,
    cells: Integers,
    settled: Bools,
) -> FamilyAnswers:
    """The answers that the supports of consecutive families reach.

    Args:
        geolevel: Geolevel of the children.
        queries: What is measured there.
        child_begin: Geounit of each family's first child; shape (F + 1,).
        offsets: Where each parent's entries begin among `cells`, from 0; shape (F + 1,).
        cells: Cells where the parents have people.
        settled: Families with nothing to estimate, which need no answers; shape (F,).
    """
    tables = answer_tables(queries, queries[0].n_cells if queries else 0)
    sizes = np.array([group.size for group in queries], dtype=np.int64)
    columns, answers, begin = list_answers(tables, sizes, offsets, cells, settled)
    n_values = np.diff(begin, axis=1) * np.diff(child_begin)
    ends = np.cumsum(n_values.reshape(-1)).reshape(n_values.shape)
    value_begin = np.concatenate([ends[:, :1] - n_values[:, :1], ends], axis=1)
    return FamilyAnswers(geolevel, tuple(queries), child_begin, answers, begin, columns, value_begin)


def answer_tables(queries: Sequence[QueryGroup], n_cells: int) -> Int32s:
    """Answer that each cell of the schema counts in, -1: none; shape (Q, n_cells), int32."""
    cells = np.arange(n_cells, dtype=np.int64)
    return np.array([group.answers_of(cells) for group in queries], np.int32).reshape(len(queries), n_cells)


def measure_one_by_one(source: MeasurementSource, wanted: FamilyAnswers) -> Integers:
    """Values of all answers wanted, asked for family by family: the specification of `measure_families`."""
    values = np.empty(wanted.n_values, np.int64)
    for q, group in enumerate(wanted.queries):
        for f in range(len(wanted.child_begin) - 1):
            start, stop = int(wanted.child_begin[f]), int(wanted.child_begin[f + 1])
            answers = wanted.answers[wanted.begin[q, f] : wanted.begin[q, f + 1]]
            if answers.size:
                noisy = source.measure(wanted.geolevel, group.name, start, stop, answers)
                values[wanted.value_begin[q, f] : wanted.value_begin[q, f + 1]] = noisy.values.reshape(-1)
    return values
