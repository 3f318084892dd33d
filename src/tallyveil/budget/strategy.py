"""A strategy: what is measured at each geolevel, its exact shares of the budget, and its expected errors.

Exact fractions are read from text. Errors are computed before any data is opened.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import Final, Literal

from tallyveil.accounting.events import DiscreteGaussian as DiscreteGaussianEvent
from tallyveil.accounting.events import DiscreteLaplace as DiscreteLaplaceEvent
from tallyveil.accounting.events import Neighbours, PrivacyEvent, SequentialEvent
from tallyveil.accounting.numbers import exact_text
from tallyveil.errors import BudgetError, ConfigError
from tallyveil.exact import as_given, exact_value
from tallyveil.noise.laws import DiscreteGaussian, DiscreteLaplace, Law

LARGEST_WANTED: Final = Fraction(10**9)
"""Largest weight, and largest wanted standard deviation, of a search in floats. The smallest is 1 over it."""


def can_be_wanted(value: Fraction) -> bool:
    """Whether a weight or a standard deviation is one that a search in floats can use: from 1e-9 to 1e9."""
    return 1 / LARGEST_WANTED <= value <= LARGEST_WANTED


def parse_fraction(value: object, where: str) -> Fraction:
    """The exact number that a value denotes.

    Args:
        value: Text such as '293764/114921', '3', '0.25' or '1e-10', or an integer.
        where: Name of the number, such as 'geolevel_shares.US', for the error message.

    Raises:
        ConfigError: the value is a float, or text of any other form.
    """
    if isinstance(value, float):
        raise ConfigError(
            f"{where} is the float {value!r}. A float is only close to the decimal that was written, so the number "
            f'would not be exact. Write it as a string: "{value!r}", or better as an exact fraction such as "1/3".'
        )
    number = exact_value(value)
    if number is None:
        raise ConfigError(
            f'{where} is {as_given(value)}, which is no exact number. Write a fraction "104/4099" (not over 0), an '
            'integer, or a decimal "0.25" or "1e-10", as a string.'
        )
    return number


class Mechanism(StrEnum):
    """The law of the noise. It also determines the unit of the budget."""

    DISCRETE_GAUSSIAN = "discrete_gaussian"
    DISCRETE_LAPLACE = "discrete_laplace"

    @property
    def budget_unit(self) -> Literal["rho", "epsilon"]:
        """Unit of the budget: "rho" for Gaussian noise, "epsilon" for Laplace noise."""
        return "rho" if self is Mechanism.DISCRETE_GAUSSIAN else "epsilon"


@dataclass(frozen=True, slots=True)
class Strategy:
    """An exact division of one budget over geolevels and, within each geolevel, over query groups.

    A query group at a geolevel gets `total * geolevel share * query share`. In most query groups, each record counts in
    at most one answer. Then each record also counts in at most one answer over all geounits of a geolevel. So one event
    covers a query group at a geolevel, and the costs of all geolevels and query groups add.

    If groups overlap, a record counts in up to s answers of a query group; s is its sensitivity. A changed record then
    moves up to s times as many answers, each by one. So the noise has s times the variance (Gaussian) or s times the
    scale (Laplace) at the same share. The event describes a change that moves the most answers. Every other change
    moves fewer answers, each by one too, and the noise has one law in all answers. So the event bounds every other one.

    Attributes:
        mechanism: Discrete Gaussian (the budget is rho) or discrete Laplace (the budget is epsilon).
        neighbours: The neighbouring relation under which the budget is stated.
        total: The whole budget, above 0.
        geolevel_shares: Share of each geolevel, root first. Shares are above 0 and sum to exactly 1.
        query_shares: For each of these geolevels, in the same order, the share of each query group. Shares are above 0
            and sum to exactly 1. Query groups are named by their specification.
        sensitivities: Number of answers in which one record can count, for query groups whose groups overlap
            (`sensitivities_of`). It is 1 for all others.
        records: Largest number of records that change between neighbours, 1 or more. It is 2 where households are
            derived from persons: a person may leave one and enter another. Both may move the same answers, so that an
            answer moves by up to this number.

    Raises:
        BudgetError: a share is not a fraction above 0, names are repeated or do not match, shares do not sum to 1, or a
            sensitivity is not an integer of 1 or more. The message says by how much.

    Privacy: measuring costs exactly `total` (see `event`).
    Source: Cumings-Menon et al. 2023, Theorem 1.
    """

    mechanism: Mechanism
    neighbours: Neighbours
    total: Fraction
    geolevel_shares: tuple[tuple[str, Fraction], ...]
    query_shares: tuple[tuple[str, tuple[tuple[str, Fraction], ...]], ...]
    sensitivities: tuple[tuple[str, int], ...] = ()
    records: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "mechanism", _member(Mechanism, self.mechanism, "mechanism"))
        object.__setattr__(self, "neighbours", _member(Neighbours, self.neighbours, "neighbours"))
        if not isinstance(self.total, Fraction) or self.total <= 0:
            raise BudgetError(
                f"the strategy's total {self.budget_unit} must be a Fraction above 0, got {as_given(self.total)}. "
                "Give it as an exact fraction."
            )
        _check_shares("geolevel shares", self.geolevel_shares)
        named = tuple(name for name, _ in self.query_shares)
        if named != self.geolevels:
            raise BudgetError(
                f"query shares are given for geolevels {', '.join(named) or 'none'}; wanted "
                f"{', '.join(self.geolevels)}, each once, root first. Give each geolevel with a share its queries."
            )
        for geolevel, shares in self.query_shares:
            _check_shares(f"query shares of geolevel {geolevel}", shares)
        if not isinstance(self.records, int) or self.records < 1:
            raise BudgetError(
                f"the number of records that change is {as_given(self.records)}; wanted an integer of 1 or more."
            )
        for query, sensitivity in self.sensitivities:
            if not isinstance(sensitivity, int) or sensitivity < 1:
                raise BudgetError(
                    f"the sensitivity of query '{query}' is {as_given(sensitivity)}; wanted an integer of 1 or more. "
                    "Take the sensitivities from the schema."
                )

    @property
    def budget_unit(self) -> Literal["rho", "epsilon"]:
        """Unit of `total`."""
        return self.mechanism.budget_unit

    @property
    def geolevels(self) -> tuple[str, ...]:
        """Measured geolevels, root first."""
        return tuple(name for name, _ in self.geolevel_shares)

    def queries(self, geolevel: str) -> tuple[str, ...]:
        """Query groups measured at a geolevel, in order.

        Raises:
            BudgetError: the geolevel is not measured.
        """
        return tuple(query for query, _ in self.shares_of(geolevel))

    @property
    def every_query(self) -> tuple[str, ...]:
        """Every query group that is measured at some geolevel, each once."""
        return tuple(dict.fromkeys(query for _, shares in self.query_shares for query, _ in shares))

    def with_shares(
        self, shares: Sequence[tuple[str, Fraction, Iterable[tuple[str, Fraction]]]]
    ) -> "Strategy":
        """The same budget, divided otherwise.

        Args:
            shares: Of each geolevel: its name, its share, and the share of each of its query groups.
        """
        return replace(
            self,
            geolevel_shares=tuple((geolevel, share) for geolevel, share, _ in shares),
            query_shares=tuple((geolevel, tuple(queries)) for geolevel, _, queries in shares),
        )

    def answers_moved(self, query: str) -> int:
        """Largest number of answers of a query group that one changed record moves, each by one.

        If one record changes, this is both the L1 and the squared L2 sensitivity under the strategy's neighbours.
        """
        return self.neighbours.answers_moved * dict(self.sensitivities).get(query, 1)

    def squared_distance(self, query: str) -> int:
        """The squared L2 sensitivity of a query group: all records that change move the same answers."""
        return self.answers_moved(query) * self.records**2

    def share(self, geolevel: str, query: str, of: Fraction | None = None) -> Fraction:
        """Exact budget of a query group at a geolevel, in `budget_unit`.

        Args:
            geolevel: Geolevel whose query shares are used.
            query: The query group.
            of: The geounit's share of the total; None for the share of the geolevel.

        Raises:
            BudgetError: the query is not measured at that geolevel.
        """
        shares = dict(self.shares_of(geolevel))
        if query not in shares:
            raise BudgetError(
                f"query '{query}' is not measured at geolevel {geolevel}; measured are {', '.join(shares)}. "
                "Ask for one of these, or give the query a share."
            )
        return self.total * (dict(self.geolevel_shares)[geolevel] if of is None else of) * shares[query]

    def law(self, geolevel: str, query: str, of: Fraction | None = None) -> Law:
        """Law of the noise of a query group at a geolevel.

        Gaussian: variance = squared distance / (2 rho), which is 1 / rho under bounded neighbours if no groups overlap
        and one record changes. Laplace: scale = answers moved * records / epsilon.

        Args:
            geolevel: Geolevel whose query shares are used.
            query: The query group.
            of: The geounit's share of the total, above 0; None for the share of the geolevel.

        Raises:
            BudgetError: the query is not measured there, or the noise is too large to be drawn.
        """
        share = self.share(geolevel, query, of)
        if self.mechanism is Mechanism.DISCRETE_GAUSSIAN:
            return DiscreteGaussian(self.squared_distance(query) / (2 * share))
        return DiscreteLaplace(self.answers_moved(query) * self.records / share)

    def events(self) -> tuple[PrivacyEvent, ...]:
        """One event for each geolevel and query group, in order."""
        return tuple(
            self._event_of(query, self.law(geolevel, query))
            for geolevel in self.geolevels
            for query in self.queries(geolevel)
        )

    def geolevel_event(self, geolevel: str, of: Fraction | None = None) -> SequentialEvent:
        """What this strategy measures at one geolevel.

        Args:
            geolevel: The geolevel.
            of: A geounit's share of the total, above 0; None for the share of the geolevel.

        Raises:
            BudgetError: the geolevel is not measured.
        """
        return SequentialEvent(
            tuple(self._event_of(query, self.law(geolevel, query, of)) for query in self.queries(geolevel))
        )

    def event(self) -> SequentialEvent:
        """Everything this strategy measures; its cost is exactly `total`."""
        return SequentialEvent(self.events())

    def _event_of(self, query: str, law: Law) -> PrivacyEvent:
        return noise_event(law, self.answers_moved(query), self.records)

    def shares_of(self, geolevel: str) -> tuple[tuple[str, Fraction], ...]:
        """Query groups measured at a geolevel, in order, each with its share of the geolevel's budget.

        Raises:
            BudgetError: the geolevel is not measured.
        """
        for name, shares in self.query_shares:
            if name == geolevel:
                return shares
        raise BudgetError(
            f"geolevel {geolevel} is not measured; measured are {', '.join(self.geolevels)}. "
            "Ask for one of these, or give the geolevel a share."
        )


def noise_event(law: Law, answers: int, records: int = 1) -> PrivacyEvent:
    """The event of answers with noise of a law, of which so many move by the number of records that change."""
    if isinstance(law, DiscreteGaussian):
        return DiscreteGaussianEvent(law.variance, records, answers)
    return DiscreteLaplaceEvent(law.scale, records, answers)


def _member(kind: type[StrEnum], value: str, where: str) -> StrEnum:
    if value not in list(kind):
        raise BudgetError(
            f"{where} is {as_given(value)}; wanted one of {', '.join(kind)}. Use one of these names."
        )
    return kind(value)


def _check_shares(where: str, shares: tuple[tuple[str, Fraction], ...]) -> None:
    names = [name for name, _ in shares]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise BudgetError(f"{where} name {', '.join(repeated)} more than once. Give each one share.")
    for name, share in shares:
        if not isinstance(share, Fraction) or share <= 0:
            raise BudgetError(
                f"{where}: {name} has {as_given(share)}; wanted a Fraction above 0. Leave out what the strategy does "
                "not measure."
            )
    total = sum((share for _, share in shares), Fraction(0))
    if total != 1:
        amount = f"{exact_text(1 - total)} short of 1" if total < 1 else f"{exact_text(total - 1)} over 1"
        raise BudgetError(
            f"{where} sum to {exact_text(total)}, {amount}. Change the shares so that they sum to exactly 1."
        )


@dataclass(frozen=True, slots=True)
class ExpectedError:
    """Error of one measured answer of one query group at one geolevel, before estimation reduces it.

    Attributes:
        geolevel: Geolevel at which the query group is measured.
        query: Specification of the query group.
        share: Its exact budget, in the strategy's unit.
        law: Law of the noise of each answer.
        variance: Variance of the integer noise itself, in counts squared. It can be slightly below the law's parameter.
        standard_deviation: Square root of the variance, in counts.
        margin: Smallest m for which P(|noise| <= m) is proved to be at least the requested confidence.
    """

    geolevel: str
    query: str
    share: Fraction
    law: Law
    variance: float
    standard_deviation: float
    margin: int

    @property
    def parameter(self) -> Fraction:
        """Exact parameter of the law: sigma squared of the Gaussian, or scale of the Laplace."""
        return self.law.variance if isinstance(self.law, DiscreteGaussian) else self.law.scale


def expected_errors(
    strategy: Strategy, confidence: Fraction = Fraction(95, 100)
) -> tuple[ExpectedError, ...]:
    """Expected error of each geolevel and query group, in the strategy's order.

    Args:
        strategy: What will be measured.
        confidence: Coverage of the margin, between 0 and 1.

    Raises:
        BudgetError: the noise of a query would be larger than can be drawn.
    """
    return tuple(
        _expected_error(strategy, geolevel, query, confidence)
        for geolevel in strategy.geolevels
        for query in strategy.queries(geolevel)
    )


def _expected_error(strategy: Strategy, geolevel: str, query: str, confidence: Fraction) -> ExpectedError:
    law = strategy.law(geolevel, query)
    return ExpectedError(
        geolevel=geolevel,
        query=query,
        share=strategy.share(geolevel, query),
        law=law,
        variance=law.variance_float(),
        standard_deviation=law.standard_deviation(),
        margin=law.margin(confidence),
    )
