"""Noisy answers about a part of the records, such as householders, for the families of a lift pass.

A cell of the part is a sum of answers of a measured query. Of the queries that give such sums, the one is taken whose
sums vary least. The noise of a sum of m answers has m times the variance of one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tallyveil.arrays import Floats, Integers
from tallyveil.budget.allocation import Allocation
from tallyveil.measurements.answers import MeasurementSource
from tallyveil.schema.counts import places_in
from tallyveil.schema.nested_queries import determines, meet, representative_cells
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema

# 32 MiB of noisy values at once; twice as many would double it, and half costs more calls. Sums stay the same.
VALUES_AT_ONCE = 1 << 22


Terms = tuple[Integers, Integers]
"""Where the answers of each column begin, shape (columns + 1,); and numbers of answers of a query, column by column."""


@dataclass(frozen=True, slots=True, eq=False)
class PartAnswers:
    """The measured answers whose sums are the cells of a part, at one geolevel.

    Attributes:
        geolevel: The geolevel.
        query: The measured query.
        begin: Where the answers of each column begin, shape (columns + 1,).
        answers: Numbers of answers of the query, column by column.
        variances: Variance of one answer of each geounit; infinite for a geounit that is not measured.
    """

    geolevel: str
    query: str
    begin: Integers
    answers: Integers
    variances: Floats

    def as_few_as(self, other: "PartAnswers") -> bool:
        """Whether every column has answers, and on average no more than in another list of answers."""
        terms = np.diff(self.begin)
        return bool((terms > 0).all()) and len(self.answers) <= len(other.answers)

    def variance(self, geounits: slice, columns: Integers) -> Floats:
        """Variance of the sum of each column in each of some geounits, in squared counts."""
        terms = np.diff(self.begin)[columns].astype(np.float64)
        return self.variances[geounits][:, None] * terms

    def sums(self, source: MeasurementSource, geounits: slice, columns: Integers) -> Integers:
        """The noisy sums, shape (geounits, columns).

        Args:
            source: Source of the noisy answers.
            geounits: Consecutive geounits.
            columns: Numbers of columns.
        """
        terms = np.diff(self.begin)[columns]
        first = np.concatenate([[0], np.cumsum(terms)])
        entries = np.repeat(self.begin[columns] - first[:-1], terms) + np.arange(int(first[-1]))
        wanted = self.answers[entries]
        # The source wants answers in ascending order; they are put back by column below.
        order = np.argsort(wanted, kind="stable")
        column = np.repeat(np.arange(len(columns)), terms)[order]
        by_column = np.argsort(column, kind="stable")
        sums = np.empty((geounits.stop - geounits.start, len(columns)), dtype=np.int64)
        step = max(1, VALUES_AT_ONCE // max(1, len(wanted)))
        for start in range(geounits.start, geounits.stop, step):
            stop = min(start + step, geounits.stop)
            noisy = source.measure(self.geolevel, self.query, start, stop, wanted[order])
            begin = slice(start - geounits.start, stop - geounits.start)
            # reduceat needs a run that is not empty for each column; `as_few_as` requires this of the rest.
            sums[begin] = np.add.reduceat(noisy.values[:, by_column], first[:-1], axis=1)
        return sums


@dataclass(frozen=True, slots=True, eq=False)
class PartQueries:
    """The queries whose answers add up to the cells of a part. Each query is looked at once for all geolevels.

    Attributes:
        schema: The universe.
        cells: Cells of the pass that count the part.
        part_cells: The representative cell of each column.
    """

    schema: Schema
    cells: QueryGroup
    part_cells: Integers
    _known: dict[str, Terms | None] = field(default_factory=dict, init=False, repr=False)

    def at(self, geolevel: str, measured: Sequence[str], allocation: Allocation) -> PartAnswers | None:
        """The answers that tell most about the part; None where no measured query tells its cells apart.

        Args:
            geolevel: The geolevel.
            measured: Queries that are measured there.
            allocation: The share of the budget of each geounit.
        """
        n_geounits = allocation.spine.n_geounits(allocation.spine.geolevels.index(geolevel))
        sums = []
        for name in measured:
            if name not in self._known:
                self._known[name] = self._terms(self.schema.query(name))
            terms = self._known[name]
            if terms is not None:
                variances = np.asarray(allocation.variances(geolevel, name, 0, n_geounits))
                sums.append(PartAnswers(geolevel, name, *terms, variances))
        # Of several queries the least noise; the first one where equal.
        return min(sums, key=_typical_variance, default=None)

    def _terms(self, query: QueryGroup) -> Terms | None:
        """The answers of a query that make up each cell; None where it does not tell the cells apart."""
        # Answers that overlap have correlated noise, so that m times the variance of one would be wrong.
        if query.overlaps or not determines(query, self.cells, self.schema.barred_levels()):
            return None
        both = meet(query, self.cells)
        sums = representative_cells(both, self.schema.possible_answers(both).astype(np.int64))
        wanted = self.cells.answers_of(self.part_cells)
        order = np.argsort(wanted, kind="stable")
        place, inside = places_in(wanted[order], self.cells.answers_of(sums))
        column = order[place[inside]]
        by_column = np.argsort(column, kind="stable")
        begin = np.searchsorted(column[by_column], np.arange(len(wanted) + 1))
        return begin, query.answers_of(sums)[inside][by_column]


def _typical_variance(answers: PartAnswers) -> float:
    return float(np.diff(answers.begin).mean() * answers.variances.min(initial=np.inf))
