"""What a method publishes, and what an attacker may know of how it came about."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

import numpy as np

from tallyveil.arrays import Bools, Floats, IntegerRows, Integers
from tallyveil.compare.inputs import SharedInput, TableName
from tallyveil.compare.relations import NO_LIMIT, TableCells

IMPOSSIBLE: Final = -60.0
"""Logarithm of a probability that stands for zero. It is finite, so that one impossible answer among many does not
make every hypothesis impossible: an attacker who is wrong about the method should lose, not fail. At half of it, e^-30,
five answers of the rarest kind could outweigh it."""


@dataclass(frozen=True, slots=True, eq=False)
class PublishedTable:
    """One table as published.

    Attributes:
        counts: int64, shape (n_areas, n_answers). Where nothing is shown the number means nothing.
        hidden: Where nothing is shown; the same shape. None where everything is.
        stand_in: What users are advised to put in the place of a hidden count.
    """

    counts: Integers
    hidden: Bools | None = None
    stand_in: int = 0

    @property
    def shown(self) -> Bools:
        """Where a count is shown."""
        return np.ones(self.counts.shape, dtype=np.bool_) if self.hidden is None else ~self.hidden

    def filled(self) -> Integers:
        """The counts, with the stand-in for those that are hidden."""
        return self.counts if self.hidden is None else np.where(self.hidden, self.stand_in, self.counts)

    def at(self, areas: Integers, answers: Integers) -> "PublishedTable":
        """Some answers of some areas, one by one."""
        hidden = None if self.hidden is None else self.hidden[areas, answers]
        return PublishedTable(self.counts[areas, answers], hidden, self.stand_in)

    def repeated(self, times: int) -> "PublishedTable":
        """Answers picked by `at`, each so many times side by side, for as many true counts; shape (n_counts, times)."""
        shape = (self.counts.size, times)
        hidden = None if self.hidden is None else np.broadcast_to(self.hidden[:, None], shape)
        return PublishedTable(np.broadcast_to(self.counts[:, None], shape), hidden, self.stand_in)


class Law(Protocol):
    """How likely a published count is, given the true one: what a tuned attacker knows of a method."""

    def log_likelihood(self, name: TableName, true: Integers, published: PublishedTable) -> Floats:
        """Logarithm of the probability of each published count if the true count were this one.

        Args:
            name: Of the table that the counts are from.
            true: Supposed true counts, any shape.
            published: What was published, of the same shape.
        """
        ...


class Support(Protocol):
    """Which true counts a published one leaves possible: what is certain of a method that limits its changes."""

    def limits(self, name: TableName, published: PublishedTable) -> tuple[Floats, Floats]:
        """The least and the greatest true count behind each published one; `NO_LIMIT` where there is no greatest.

        A published count that cannot be has limits of which the first is above the second.

        Args:
            name: Of the table that the counts are from.
            published: What was published.
        """
        ...


class StatedLaw(Law, Support, Protocol):
    """A law that follows from the settings of a method."""


@dataclass(frozen=True, eq=False)
class Limits:
    """Limits of the true counts of a publication: those of its support, and those that all sums leave of them.

    Attributes:
        shared: Says which tables there are, and how they add up.
        tables: As published.
        support: What the method leaves possible.
    """

    shared: SharedInput
    tables: Mapping[TableName, PublishedTable]
    support: Support

    @cached_property
    def cells(self) -> TableCells:
        """The counts of all tables in one order, which is that of all limits."""
        return TableCells(self.shared)

    @cached_property
    def stated(self) -> tuple[Floats, Floats]:
        """The limits of each count by itself."""
        parts = [self.support.limits(name, self.tables[name]) for name in self.cells.names]
        return np.concatenate([low.ravel() for low, _ in parts]), np.concatenate(
            [high.ravel() for _, high in parts]
        )

    @property
    def hidden(self) -> Bools:
        """Which true counts their own published counts do not tell exactly."""
        low, high = self.stated
        return np.asarray(low < high)

    @cached_property
    def narrowed(self) -> tuple[Floats, Floats]:
        """The limits after interval arithmetic along all sums of tables, geolevels and families of entities."""
        low, high = self.cells.narrowed(*self.stated)
        # What is left of `NO_LIMIT` when others are subtracted is no limit either.
        return low, np.where(high > NO_LIMIT / 2, NO_LIMIT, high)

    def narrowed_row(self, name: TableName, area: int) -> tuple[Floats, Floats]:
        """The narrowed limits of the counts of one area in a table."""
        size = self.tables[name].counts.shape[1]
        start = self.cells.offsets[name] + area * size
        low, high = self.narrowed
        return low[start : start + size], high[start : start + size]

    @property
    def contradict(self) -> bool:
        """Whether no true tables are within the limits: the support is not that of these tables."""
        low, high = self.narrowed
        return bool((low > high).any())


@dataclass(frozen=True, slots=True, eq=False)
class NoisyAnswers:
    """Noisy answers that a differentially private release publishes beside its tables.

    Attributes:
        name: Areas and query that were measured.
        values: int64, shape (n_areas, n_answers).
        variance: Of the discrete Gaussian noise, shape (n_areas,).
    """

    name: TableName
    values: Integers
    variance: Floats


class Questions(Protocol):
    """How an office would answer questions about unions of finest geounits that its users choose."""

    def answers(self, members: Bools, cell: int) -> PublishedTable:
        """The count of a cell in each union.

        Args:
            members: Which finest geounits each union has, shape (n_unions, n_finest chosen); see `restricted`.
            cell: A cell of the schema.
        """
        ...

    def restricted(self, geounits: Integers) -> "Questions":
        """The same office, for unions of some finest geounits only."""
        ...


FALSE_ALARMS: Final = 0.01
"""Rate of false alarms at which power is stated, the usual one for attacks on membership."""

EMPTY: Final = 0.9995
"""A bound above this is 1 to three digits: it allows an attacker who is nearly always right."""


def is_empty(bound: float) -> bool:
    """Whether a bound on an advantage or on a share says practically nothing."""
    return bound > EMPTY


@dataclass(frozen=True, slots=True)
class Certificate:
    """A proved bound on what anybody can learn.

    Where some counts are published exactly, it compares only data sets that agree on these counts.

    Attributes:
        advantage: The most by which knowing everybody else and the answers raises the chance of telling two records
            apart, as two times accuracy minus one; rounded up. None where the bound is not about a record that changes
            its value.
        power: The most by which a record that is there is noticed where at most `FALSE_ALARMS` of those that are not
            are taken for it; rounded up. None in the same case.
        epsilon: What is proved, in words: at the delta of the release, rounded up, and for which two data sets.
        invariants: What is published exactly, outside the bound.
        advantage_of_places: The same as `advantage`, for telling which of two households lives where; rounded up. None
            where the bound is about a record that changes its value.
    """

    advantage: float | None
    power: float | None
    epsilon: str
    invariants: tuple[str, ...]
    advantage_of_places: float | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it says practically nothing."""
        return any(
            is_empty(value) for value in (self.advantage, self.advantage_of_places) if value is not None
        )


@dataclass(frozen=True, slots=True, eq=False)
class Published:
    """Everything that a method publishes of the shared input.

    Attributes:
        tables: By areas and query.
        law: What a tuned attacker knows of the method.
        questions: Answers to questions of users; None where no questions can be put, as for tables made elsewhere.
        noisy: Noisy answers, of a release that publishes them.
        certificate: A proved bound; None where none exists.
        limits: Limits of the true counts; None where a method leaves every count possible, or nobody knows which.
        notes: What happened on the way that a reader must know, such as the gap of a program.
    """

    tables: Mapping[TableName, PublishedTable]
    law: Law
    questions: Questions | None
    noisy: tuple[NoisyAnswers, ...] = ()
    certificate: Certificate | None = None
    limits: Limits | None = None
    notes: tuple[str, ...] = ()

    def noisy_cells(self, shared: SharedInput) -> tuple[Integers, Floats] | None:
        """Noisy counts of the cells of the finest geounits and their variances; None where none were published."""
        for noisy in self.noisy:
            query = shared.schema.query(noisy.name[1])
            if noisy.name[0] == shared.finest.name and query.is_detailed:
                return noisy.values[:, query.answers_of(np.arange(shared.schema.size))], noisy.variance
        return None


@dataclass(frozen=True, slots=True, eq=False)
class SummedQuestions:
    """Answers that are sums of published counts of finest geounits: asking for a union reveals nothing new."""

    counts: IntegerRows

    def answers(self, members: Bools, cell: int) -> PublishedTable:
        """As in `Questions`."""
        return PublishedTable(members.astype(np.int64) @ self.counts[:, cell])

    def restricted(self, geounits: Integers) -> "SummedQuestions":
        """As in `Questions`."""
        return SummedQuestions(self.counts[geounits])


@dataclass(frozen=True, slots=True, eq=False)
class ExactLaw:
    """Every published count is the true one.

    Attributes:
        least_hidden: The least count that may be hidden. A hidden count says no more than that it is no smaller.
    """

    least_hidden: int = 0

    def log_likelihood(self, name: TableName, true: Integers, published: PublishedTable) -> Floats:
        """As in `Law`."""
        possible = np.where(published.shown, published.counts == true, true >= self.least_hidden)
        return np.asarray(np.where(possible, 0.0, IMPOSSIBLE))

    def limits(self, name: TableName, published: PublishedTable) -> tuple[Floats, Floats]:
        """As in `Support`."""
        shown, counts = published.shown, published.counts.astype(np.float64)
        return np.where(shown, counts, float(self.least_hidden)), np.where(shown, counts, NO_LIMIT)


SIZES: Final = np.array([1, 2, 3, 6, 11], dtype=np.int64)
"""True counts at which a class of errors begins: 0, 1, 2, 3 to 5, 6 to 10, and more. Methods treat small counts apart,
and most of the counts that name somebody are 0, 1 or 2."""

ENOUGH: Final = 400
"""Cells from which a class has a law of its own, counted error by error; below it only the variance is estimated. With
half as many an attacker would learn the very errors of the cells that he attacks, and look stronger than he can be."""

WIDEST: Final = 12
"""Errors from -12 to 12 are counted one by one. Beyond, a normal tail is used."""


@dataclass(frozen=True, slots=True, eq=False)
class ObservedLaw:
    """The law of the errors as they are, for methods whose law has no formula.

    It is estimated from the true tables: the attacker is granted what no outsider has, so that the method is not
    flattered by an attacker who does not know it.

    Attributes:
        errors: By table and class of the true count: logarithms of the frequencies of the errors -WIDEST..WIDEST, or
            None where there are too few cells.
        spread: By table and class: the variance of the errors; zero where all are exact.
        hidden: By table and class: the share of counts that are not shown.
    """

    errors: Mapping[tuple[TableName, int], Floats | None]
    spread: Mapping[tuple[TableName, int], float]
    hidden: Mapping[tuple[TableName, int], float]

    def log_likelihood(self, name: TableName, true: Integers, published: PublishedTable) -> Floats:
        """As in `Law`."""
        logs = np.full(true.shape, IMPOSSIBLE)
        classes = np.searchsorted(SIZES, true, side="right")
        shown = published.shown
        for number in np.unique(classes):
            here = (classes == number) & (true >= 0)
            key = name, int(number)
            error = (published.counts - true)[here]
            logs[here] = np.where(
                shown[here],
                self._log_shown(key, error) + _log(1 - self.hidden[key]),
                _log(self.hidden[key]),
            )
        return np.asarray(np.maximum(logs, IMPOSSIBLE))

    def _log_shown(self, key: tuple[TableName, int], error: Integers) -> Floats:
        spread, frequencies = self.spread[key], self.errors[key]
        if spread == 0:
            return np.asarray(np.where(error == 0, 0.0, IMPOSSIBLE))
        normal = -0.5 * error.astype(np.float64) ** 2 / spread - 0.5 * np.log(2 * np.pi * spread)
        if frequencies is None:
            return np.asarray(normal)
        counted = frequencies[np.clip(error, -WIDEST, WIDEST) + WIDEST]
        return np.asarray(np.where(np.abs(error) <= WIDEST, counted, normal))


def _log(share: float) -> float:
    return float(np.log(share)) if share > 0 else IMPOSSIBLE


def observed_law(shared: SharedInput, tables: Mapping[TableName, PublishedTable]) -> ObservedLaw:
    """The law of the errors of published tables, by table and size of the true count."""
    errors: dict[tuple[TableName, int], Floats | None] = {}
    spread: dict[tuple[TableName, int], float] = {}
    hidden: dict[tuple[TableName, int], float] = {}
    for name, table in tables.items():
        true = shared.truth[name]
        classes = np.searchsorted(SIZES, true, side="right")
        error, shown = table.counts - true, table.shown
        # Where a class has too few cells to know its variance, that of the whole table stands for it.
        whole = float((error[shown].astype(np.float64) ** 2).mean()) if shown.any() else 1.0
        for number in range(SIZES.size + 1):
            here, key = classes == number, (name, number)
            visible = error[here & shown]
            hidden[key] = 1 - visible.size / here.sum() if here.any() else 0.0
            enough = visible.size >= ENOUGH
            spread[key] = float((visible.astype(np.float64) ** 2).mean()) if enough else whole
            errors[key] = _frequencies(visible) if enough else None
    return ObservedLaw(errors, spread, hidden)


def _frequencies(error: Integers) -> Floats:
    """Logarithms of the frequencies of small errors, with a quarter of a cell added to each."""
    counted = np.bincount(error[np.abs(error) <= WIDEST] + WIDEST, minlength=2 * WIDEST + 1)
    # Without the quarter an error that did not occur here would be called impossible.
    return np.asarray(np.log((counted + 0.25) / (error.size + 0.25 * counted.size)))


def by_table(
    shared: SharedInput, change: Callable[[TableName, Integers], PublishedTable]
) -> dict[TableName, PublishedTable]:
    """Every table, changed one by one."""
    return {name: change(name, true) for name, true in shared.truth.items()}
