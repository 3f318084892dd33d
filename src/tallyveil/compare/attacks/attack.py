"""What an attack is, what it finds, and how sure its numbers are."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Final, NamedTuple

import numpy as np
from scipy.stats import beta
from scipy.stats import t as student

from tallyveil.arrays import Bools, Floats, IntegerRows, Integers
from tallyveil.compare.draws import Draws
from tallyveil.compare.inputs import Areas, SharedInput
from tallyveil.compare.published import Published

COVERAGE: Final = 0.95
"""Coverage of every interval, the usual one."""

MOVED: Final = 5
"""At most every fifth person gets a coin: half of these move, a tenth of all. With half as many small inputs have too
few people for an attack; with twice as many other records are no longer rare."""

FEWEST_MOVED: Final = 200
"""People who get a coin in any case, where there are so many."""

RARE: Final = 0.3
"""Expected others with the same record below which a record is rare. At twice it exact tables leave more doubt whether
a count of 1 is this person; at a third of it small inputs have too few such people to attack."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One number that an attack found out.

    Attributes:
        attack: Name of the attack.
        measure: What the number is.
        value: The number; None where the method left nothing to attack.
        low, high: Ends of its 95 % interval over people or questions; both are the value where all were tried.
        tried: Number of people or questions.
        prior: The same measure for somebody who has none of the published tables.
        bound: The most that is possible by a theorem; None where there is none.
    """

    attack: str
    measure: str
    value: float | None
    low: float | None
    high: float | None
    tried: int
    prior: float | None = None
    bound: float | None = None


@dataclass(frozen=True, eq=False)
class Targets:
    """What all attackers share: the input, and which attribute they want to know.

    Attributes:
        shared: The input.
        draws: Random numbers of the comparison.
        sensitive: Attribute that attackers want to know. They know all others.
        people: Number of people, or of questions, that an attack tries.
        around: Counts of cells in the areas below the root, as published, for attackers who have nothing else. None for
            those who are granted the exact ones.
    """

    shared: SharedInput
    draws: Draws
    sensitive: str
    people: int
    around: IntegerRows | None = None

    @cached_property
    def axis(self) -> int:
        """Number of the attribute among those of the schema."""
        return self.shared.schema.attribute_names.index(self.sensitive)

    @cached_property
    def by_class(self) -> Integers:
        """Counts by finest geounit, class of what is known, and sensitive level.

        Shape (n_finest, n_classes, n_levels).
        """
        shape = self.shared.schema.shape
        cube = self.shared.counts.reshape(-1, *shape)
        moved = np.moveaxis(cube, self.axis + 1, -1)
        return np.ascontiguousarray(moved).reshape(len(cube), -1, shape[self.axis])

    @cached_property
    def cells(self) -> Integers:
        """The cell of each class of what is known and each sensitive level; shape (n_classes, n_levels)."""
        schema = self.shared.schema
        cube = np.moveaxis(np.arange(schema.size).reshape(schema.shape), self.axis, -1)
        return np.ascontiguousarray(cube).reshape(-1, schema.shape[self.axis])

    @cached_property
    def background(self) -> Floats:
        """Shares of the sensitive levels by class in the area below the root: what everybody knows beforehand.

        Shape (n_finest, n_classes, n_levels) by finest geounit, without its own people.
        """
        if self.around is None:
            others = self._counts_around[self.around_place] - self.shared.counts
        else:
            others = np.maximum(self.around, 0)[self.around_place]
        # Nobody can be in a structural zero; a trace is left there, so that logarithms stay finite.
        weights = np.where(self.possible, others[:, self.cells] + 0.5, 1e-9)
        return shares_of(weights.astype(np.float64))

    @property
    def around_place(self) -> Integers:
        """Number of the area below the root that each finest geounit is in."""
        return self.shared.areas[min(1, self.shared.n_geolevels - 1)].place

    @cached_property
    def _counts_around(self) -> IntegerRows:
        areas = self.shared.areas[min(1, self.shared.n_geolevels - 1)]
        return areas.sums(self.shared.counts)

    @cached_property
    def kinds_around(self) -> Floats:
        """Share of each kind of record in the areas below the root; above zero."""
        counts = self._counts_around if self.around is None else np.maximum(self.around, 0)
        return shares_of(counts.astype(np.float64) + 0.5)

    @cached_property
    def possible(self) -> Bools:
        """Which of `cells` are no structural zeros."""
        return self.shared.schema.possible(self.cells.ravel()).reshape(self.cells.shape)

    @cached_property
    def pairs(self) -> "Pairs":
        """People drawn at random, each with another record, and the coin that says which of the two they have."""
        generator = self.draws.generator("pairs")
        counts, n_levels = self.shared.counts, self.cells.shape[1]
        # The people are numbered cell by cell, so that a number is a person.
        ends = np.cumsum(counts.ravel())
        # Were more than a part of a small input changed, records that are rare would be so no longer.
        most = min(self.people, max(int(ends[-1]) // MOVED, min(FEWEST_MOVED, int(ends[-1]))))
        anybody = generator.choice(int(ends[-1]), most, replace=False)
        seldom = np.flatnonzero(np.repeat(self.rare_cells.ravel(), counts.ravel()))
        seldom = generator.permutation(np.setdiff1d(seldom, anybody))[: most // 2]
        person = np.sort(np.concatenate([anybody, seldom]))
        geounits, cells = np.divmod(np.searchsorted(ends, person, side="right"), counts.shape[1])
        number = np.empty(self.cells.size, dtype=np.int64)
        number[self.cells.ravel()] = np.arange(self.cells.size)
        classes, levels = np.divmod(number[cells], n_levels)
        weights = np.where(self.possible[classes], self.background[geounits, classes], 0.0)
        weights[np.arange(levels.size), levels] = 0
        # Who could have no other record is not asked about.
        eligible = weights.sum(axis=1) > 0
        person, geounits, cells, classes, levels = (
            values[eligible] for values in (person, geounits, cells, classes, levels)
        )
        weights = weights[eligible]
        drawn = generator.random(levels.size) * weights.sum(axis=1)
        # Rounding may put a draw past the last sum.
        other = (np.cumsum(weights, axis=1) <= drawn[:, None]).sum(axis=1)
        unsound = (other == n_levels) | (weights[np.arange(other.size), np.minimum(other, n_levels - 1)] == 0)
        other = np.where(unsound, weights.argmax(axis=1), other)
        unchanged = generator.integers(2, size=levels.size).astype(np.bool_)
        rare, drawn_evenly = self.rare_cells[geounits, cells], ~np.isin(person, seldom)
        return Pairs(person, geounits, cells, self.cells[classes, other], unchanged, rare, drawn_evenly)

    @cached_property
    def rare_cells(self) -> Bools:
        """Where a record is rare: nobody else has it, and fewer than `RARE` others with it are expected from around."""
        shared = self.shared
        above = shared.areas[max(shared.n_geolevels - 2, 0)]
        around = above.sums(shared.counts)
        # One record less: the person is not among the others.
        shares = np.maximum(around - 1, 0) / np.maximum(around.sum(axis=1, keepdims=True), 1)
        expected = shared.counts.sum(axis=1, keepdims=True) * shares[above.place]
        return np.asarray((shared.counts == 1) & (expected < RARE))

    @cached_property
    def tossed(self) -> SharedInput:
        """The input in which each person of `pairs` has the record that the coin says.

        An attacker who is asked about people as they are could guess by how common a record is, and would seem to learn
        from tables what he knew before. With coins that were thrown after everything else, he cannot.
        """
        counts = self.shared.counts.copy()
        moved = np.flatnonzero(~self.pairs.unchanged)
        np.subtract.at(counts, (self.pairs.geounits[moved], self.pairs.cells[moved]), 1)
        np.add.at(counts, (self.pairs.geounits[moved], self.pairs.others[moved]), 1)
        if self.shared.household is None and self.shared.contributor is None:
            return replace(self.shared, counts=counts)
        # The people stand in the order of their cells, so those who changed cells change their places among the others.
        cells = np.repeat(np.arange(counts.size), self.shared.counts.ravel())
        cells[self.pairs.numbers[moved]] = (
            self.pairs.geounits[moved] * counts.shape[1] + self.pairs.others[moved]
        )
        order = np.argsort(cells, kind="stable")
        household, contributor = (
            None if units is None else units[order]
            for units in (self.shared.household, self.shared.contributor)
        )
        return replace(self.shared, counts=counts, household=household, contributor=contributor)

    def prepare(self) -> None:
        """Compute what is kept of the input, before several threads ask for it."""
        for value in (
            self.shared.truth,
            self.tossed.truth,
            self.by_class,
            self.background,
            self.kinds_around,
        ):
            assert value is not None

    def half(self, number: int) -> Integers:
        """Which of so many people tune the attack (0) and which judge it (1)."""
        return self.draws.generator("halves").permutation(number) % 2


class Pairs(NamedTuple):
    """People with two records each.

    Attributes:
        numbers: Number of each person, among all people in the order of geounits and cells; int64, shape (n_people,).
        geounits: Finest geounit of each person.
        cells: The cell of the person's record in the input.
        others: Another cell, which differs in the sensitive attribute alone.
        unchanged: Whether the record of the person stays as it is where coins are thrown.
        rare: Whether the person's record is rare around there.
        even: Whether the person was drawn among all people with equal chances; the others were drawn among the rare.
    """

    numbers: Integers
    geounits: Integers
    cells: Integers
    others: Integers
    unchanged: Bools
    rare: Bools
    even: Bools


class Attack:
    """One kind of attacker.

    Attributes:
        name: Of the attack.
        letter: By which the page refers to it.
        who: The attacker and what he knows, in sentences.
        prior: What he would guess without the tables.
        bounded: Which bound applies, in sentences.
        reading: How to read its numbers, and what a stronger attacker would use, in sentences.
        headline: The measure that the page shows in figures.
    """

    name: ClassVar[str]
    letter: ClassVar[str]
    who: ClassVar[str]
    prior: ClassVar[str]
    bounded: ClassVar[str]
    reading: ClassVar[str]
    headline: ClassVar[str]
    must: ClassVar[float]
    """Least value of the headline on exact tables; an attack below it is not shown."""

    @abstractmethod
    def run(self, targets: Targets, published: Published, tossed: Published | None) -> Sequence[Finding]:
        """Attack what one method published.

        Args:
            targets: The input, and who is attacked.
            published: What the method published of the input.
            tossed: What it published of `targets.tossed`, with other random numbers. The law that an attacker knows is
                taken from the publication that is not attacked: nobody knows the errors of the very tables that he has.
                None where a method cannot publish again; attacks that need it then find nothing.
        """

    def number_at_risk(self, targets: Targets) -> int | None:
        """Number of people in the whole input whom the attack is about; None where it is about anybody."""
        return None

    def power(self, targets: Targets, findings: Sequence[Finding]) -> float | None:
        """The headline on tables on which the attack must succeed; its findings there are given.

        None where it found nothing to attack.
        """
        return self.headline_of(findings)

    def headline_of(self, findings: Sequence[Finding]) -> float | None:
        """The largest value of the headline among the findings of one method."""
        values: list[float] = [
            item.value
            for item in findings
            if item.attack == self.name and item.measure.startswith(self.headline) and item.value is not None
        ]
        return max(values, default=None)


def shares_of(weights: Floats) -> Floats:
    """Weights divided by their sums over the last axis."""
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def interval(right: float, tried: int) -> tuple[float, float]:
    """The interval of Clopper and Pearson for a share; ties count half."""
    tail = (1 - COVERAGE) / 2
    low = 0.0 if right <= 0 else float(beta.ppf(tail, right, tried - right + 1))
    high = 1.0 if right >= tried else float(beta.ppf(1 - tail, right + 1, tried - right))
    return low, high


def share(attack: str, measure: str, right: float, tried: int, *, prior: float | None = None) -> Finding:
    """A share of guesses that were right, with its interval."""
    if not tried:
        return Finding(attack, measure, None, None, None, 0, prior)
    return Finding(attack, measure, right / tried, *interval(right, tried), tried, prior)


def over_draws(draws: Sequence[Sequence[Finding]]) -> tuple[Finding, ...]:
    """The findings of one attack on several draws of a method, each a mean with an interval.

    The interval is the wider of two: the mean interval over people, and Student's interval over the draws.
    """
    return tuple(_averaged(items) for items in zip(*draws, strict=True))


def _averaged(items: Sequence[Finding]) -> Finding:
    first = items[0]
    values = np.array([item.value for item in items if item.value is not None])
    # Where one draw left nothing to attack, the others are too few to speak for all.
    if len(items) == 1 or values.size < len(items):
        return first if values.size == len(items) else replace(first, value=None, low=None, high=None)
    centre = float(values.mean())
    reach = float(
        student.ppf((1 + COVERAGE) / 2, values.size - 1) * values.std(ddof=1) / np.sqrt(values.size)
    )
    low = float(np.mean([centre if item.low is None else item.low for item in items]))
    high = float(np.mean([centre if item.high is None else item.high for item in items]))
    low, high = min(low, centre - reach), max(high, centre + reach)
    # Shares and advantages end at 1; bits that are gained may be more, or less than none.
    if not first.measure.startswith("bits"):
        low, high = max(low, -1.0 if "advantage" in first.measure else 0.0), min(high, 1.0)
    return replace(first, value=centre, low=low, high=high)


def mean(attack: str, measure: str, values: Floats, *, prior: float | None = None) -> Finding:
    """A mean over people, with an interval by its standard error."""
    if not values.size:
        return Finding(attack, measure, None, None, None, 0, prior)
    centre = float(values.mean())
    # 1.96 standard errors cover 95 % of a normal law, which the mean of hundreds of people has nearly.
    reach = 1.96 * float(values.std(ddof=1)) / np.sqrt(values.size) if values.size > 1 else float("inf")
    return Finding(attack, measure, centre, centre - reach, centre + reach, values.size, prior)


def bits_of_coin(right: float) -> float:
    """Bits that a guess of a fair coin tells if it is right with this probability: 1 minus the entropy of the error.

    Source: Cover and Thomas 2006, the binary symmetric channel. It is a lower bound on what the attacker's score tells.
    """
    if right <= 0.5:
        return 0.0
    wrong = 1 - right
    return 1.0 + right * float(np.log2(right)) + (wrong * float(np.log2(wrong)) if wrong > 0 else 0.0)


def coin_findings(attack: str, source: str, right: float, tried: int, bound: float | None) -> list[Finding]:
    """How well somebody guesses fair coins: the share of right guesses, the advantage, and bits, with their intervals.

    Args:
        attack: Its name.
        source: What the guesses are from, in words.
        right: Number of right guesses; ties count half.
        tried: Number of guesses; above 0.
        bound: Of the advantage; None where there is none.
    """
    value, (low, high) = right / tried, interval(right, tried)
    bits = [bits_of_coin(part) for part in (value, low, high)]
    return [
        Finding(attack, f"correct guesses {source}", value, low, high, tried, 0.5),
        Finding(attack, f"advantage {source}", 2 * value - 1, 2 * low - 1, 2 * high - 1, tried, 0.0, bound),
        Finding(attack, f"bits {source}", bits[0], bits[1], bits[2], tried, 0.0),
    ]


def area_above(shared: SharedInput, levels: int) -> Areas:
    """The geolevel so many levels above the finest, but not above the one below the root, which everybody knows."""
    return shared.areas[max(shared.n_geolevels - 1 - levels, min(1, shared.n_geolevels - 1))]
