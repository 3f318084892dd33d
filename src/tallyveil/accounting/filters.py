"""Budgets for noise that is chosen on the way: a filter that stops in time, and an odometer that says what was lost.

`compose` needs to know the noise in advance. What is measured may depend on what was released before; how much noise it
gets may not. If the noise itself is chosen on the way, the sum of the costs is random, and a plain composition theorem
says nothing about it. A *filter* fixes the budget in advance instead, and refuses what would exceed it. An *odometer*
has no limit. It computes a bound on the privacy loss after each step. With probability at least 1 - delta, the bounds
of all steps hold together.

The conditions are those of docs/proofs/filters.md: given all that was released before, each event has the cost that it
states, and every event is stated under the same relation.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar, Protocol

from tallyveil.accounting.costs import epsilon_of, require_neighbours, rho_of, total_variation_of
from tallyveil.accounting.events import (
    ZCDP,
    ApproximateDP,
    Gaussian,
    InvariantEvent,
    Neighbours,
    PrivacyEvent,
    SequentialEvent,
)
from tallyveil.accounting.numbers import (
    Exact,
    exact_number,
    exact_text,
    parameter_of_noise,
    round_up,
    share_of,
)
from tallyveil.errors import BudgetError
from tallyveil.exact import as_given
from tallyveil.noise.balls import precision, rational

_BITS = 192
"""Bits of ball arithmetic. A handful of operations keep far more of them than the 53 of the float that is returned,
and half as many would, too."""

_STEPS = 32
"""The mixture of an odometer has x from 2^-16 to 2^16 times the best one for a rho of 1, in steps of a root of two: the
best ones for rho from 2e-10 to 4e9. With steps of two, its bound is up to 3 per cent larger between them."""


class _Unit(Protocol):
    """A unit in which costs add up, also if they are chosen on the way."""

    def costs(self, event: PrivacyEvent) -> tuple[Fraction, ...]:
        """What an event costs, in each part of the unit."""

    def promise(self, budget: tuple[Fraction, ...]) -> PrivacyEvent:
        """What holds for everything that was spent."""


@dataclass(frozen=True, slots=True)
class _Rho:
    """Zero-concentrated differential privacy. Source: Feldman, Zrnic 2021; Whitehouse et al. 2023."""

    names: ClassVar = ("rho",)

    def costs(self, event: PrivacyEvent) -> tuple[Fraction, ...]:
        # Pure epsilon is zCDP with epsilon^2 / 2 (Bun and Steinke 2016, Proposition 1.4).
        return (rho_of(event, laplace_as_zcdp=True),)

    def promise(self, budget: tuple[Fraction, ...]) -> PrivacyEvent:
        return ZCDP(budget[0])


@dataclass(frozen=True, slots=True)
class _Mu:
    """The square of mu; for real-valued normal noise alone (docs/proofs/filters.md, section 2)."""

    names: ClassVar = ("mu squared",)

    def costs(self, event: PrivacyEvent) -> tuple[Fraction, ...]:
        # By cover, not by rho: a discrete Gaussian has the rho of a normal answer, but may tell more.
        match event:
            case Gaussian():
                return (event.multiplicity * event.mu_squared,)
            case SequentialEvent(events):
                return (sum((self.costs(part)[0] for part in events), Fraction(0)),)
            case InvariantEvent():
                return (Fraction(0),)
            case _:
                raise BudgetError(
                    f"a filter with mu takes Gaussian events alone, got {as_given(event)}. Use a filter with rho."
                )

    def promise(self, budget: tuple[Fraction, ...]) -> PrivacyEvent:
        # At sensitivity 1, mu squared is one over the variance.
        return Gaussian(1 / budget[0])


@dataclass(frozen=True, slots=True)
class _EpsilonDelta:
    """Sums of epsilon and of delta. Source: Rogers, Roth, Ullman, Vadhan 2016, basic composition."""

    names: ClassVar = ("epsilon", "delta")

    def costs(self, event: PrivacyEvent) -> tuple[Fraction, ...]:
        if isinstance(event, ApproximateDP):
            # Plain sums, whose promise also holds for events chosen on the way (filters.md, section 3).
            return event.multiplicity * event.epsilon, event.multiplicity * event.delta
        if isinstance(event, SequentialEvent):
            pairs = [self.costs(part) for part in event.events]
            return tuple(sum((pair[i] for pair in pairs), Fraction(0)) for i in (0, 1))
        return epsilon_of(event), Fraction(0)

    def promise(self, budget: tuple[Fraction, ...]) -> PrivacyEvent:
        return ApproximateDP(budget[0], budget[1])


@dataclass(slots=True, init=False)
class Filter:
    """A budget fixed in advance, for events whose noise may be chosen by what was released before.

    Give one budget: `rho`; or `epsilon`, with or without `delta`; or `mu`. Its promise (`event`) holds however the
    events are chosen, and whenever one stops.

    - `rho` takes every event with a rho. Noise of pure epsilon counts as epsilon^2 / 2.
    - `epsilon` and `delta` take pure epsilons and `ApproximateDP`. Sums count, so many small events cost much.
    - `mu` takes `Gaussian` alone, and loses nothing to a composition known in advance.

    Attributes:
        neighbours: The relation that all events are stated under.
        spent: What was spent, exact: one number, or epsilon and delta.
        budget: What may be spent, in the same units; mu is kept as its square.
        events: What it was spent on, in order.
    """

    neighbours: Neighbours
    budget: tuple[Fraction, ...]
    spent: tuple[Fraction, ...]
    events: tuple[PrivacyEvent, ...]
    _unit: "_Rho | _Mu | _EpsilonDelta" = field(repr=False)

    def __init__(
        self,
        *,
        neighbours: Neighbours | str,
        rho: Exact | None = None,
        epsilon: Exact | None = None,
        delta: Exact = 0,
        mu: Exact | None = None,
    ) -> None:
        stated = [
            name for name, value in (("rho", rho), ("epsilon", epsilon), ("mu", mu)) if value is not None
        ]
        if len(stated) != 1 or (epsilon is None and delta != 0):
            raise BudgetError(
                f"a filter takes one budget, got {', '.join(stated) or 'none'}. Give rho, or mu, or epsilon with or "
                "without delta.",
                code="filter-budget",
            )
        if rho is not None:
            self._unit, self.budget = _Rho(), (parameter_of_noise(rho, "rho of a filter"),)
        elif mu is not None:
            self._unit, self.budget = _Mu(), (parameter_of_noise(mu, "mu of a filter") ** 2,)
        else:
            assert epsilon is not None
            share = share_of(delta, "delta of a filter")
            self._unit, self.budget = (
                _EpsilonDelta(),
                (parameter_of_noise(epsilon, "epsilon of a filter"), share),
            )
        self._unit.promise(self.budget)  # refuses a budget that no event states
        self.neighbours = Neighbours.of(neighbours)
        self.spent = (Fraction(0),) * len(self.budget)
        self.events = ()

    @property
    def event(self) -> PrivacyEvent:
        """What holds for everything that was or will be spent. `compose` turns it into a guarantee."""
        return self._unit.promise(self.budget)

    @property
    def left(self) -> tuple[Fraction, ...]:
        """What may still be spent."""
        return tuple(most - gone for most, gone in zip(self.budget, self.spent, strict=True))

    def spend(self, event: PrivacyEvent) -> None:
        """Enter an event, before it is done. If it costs more than is left, nothing is entered.

        Raises:
            BudgetError: the event costs more than is left (code `filter-spent`), has no cost in this unit, or is not
                stated under this relation.
        """
        # Every part is checked before any is entered, so that a refusal leaves the filter as it was.
        costs = _costs(self._unit, event, self.neighbours)
        for name, cost, left in zip(self._unit.names, costs, self.left, strict=True):
            if cost > left:
                raise BudgetError(
                    f"{as_given(event)} costs {name} {exact_text(cost)}, and {exact_text(left)} is left. Nothing was "
                    "entered. Choose more noise, or stop.",
                    code="filter-spent",
                )
        # Exact fractions: after any number of steps, no rounding lets one more in.
        self.spent = tuple(gone + cost for gone, cost in zip(self.spent, costs, strict=True))
        self.events = (*self.events, event)


@dataclass(slots=True, init=False)
class Odometer:
    """A bound on the privacy loss that holds at every step at once, for events whose noise is chosen on the way.

    With probability at least 1 - delta under the true law, the loss of everything released so far is at most `epsilon`,
    at every step. So (epsilon, delta) holds wherever one stops, also if the results decide where. There is no limit,
    and nothing has to be known of what will be spent.

    For each x above 0, all losses stay below (1 + x) rho + ln(1 / delta) / x, but each x is close to the least bound
    for one rho alone. So a mixture of many x is used. At delta 1e-10 the bound is 3 to 6 per cent above that of the
    best x where rho is between 0.1 and 10, and at 1e-6 it is 4 to 11 per cent above it.

    Attributes:
        neighbours: The relation that all events are stated under.
        delta: Exact.
        rho: What was spent, exact.
        events: What it was spent on, in order.

    Source: Whitehouse, Ramdas, Rogers, Wu 2023; docs/proofs/filters.md, section 4.
    """

    neighbours: Neighbours
    delta: Fraction
    rho: Fraction
    events: tuple[PrivacyEvent, ...]
    _mixture: tuple[tuple[Fraction, Fraction], ...] = field(repr=False)

    def __init__(self, *, neighbours: Neighbours | str, delta: Exact) -> None:
        self.neighbours = Neighbours.of(neighbours)
        self.delta = exact_number(delta, "delta of an odometer")
        if not 0 < self.delta < 1:
            raise BudgetError(
                f"delta of an odometer must lie between 0 and 1, both excluded, got {as_given(delta)}. Give one "
                "such as '1e-6'.",
                code="filter-budget",
            )
        with precision(_BITS):
            # The best x where rho is 1. Any x above 0 gives a bound, so that a float will do.
            best = float((-rational(self.delta).log()).sqrt())
        shares = {step: Fraction(1, (2 + abs(step)) ** 2) for step in range(-_STEPS, _STEPS + 1)}
        self._mixture = tuple(
            (Fraction(best * 2 ** (step / 2)), share / sum(shares.values())) for step, share in shares.items()
        )
        self.rho, self.events = Fraction(0), ()

    @property
    def epsilon(self) -> float:
        """An upper bound of the loss of everything entered so far, rounded up."""
        # Before any step the loss is 0, whatever the boundary says.
        if not self.rho:
            return 0.0
        with precision(_BITS):
            rho, needed = rational(self.rho), -rational(self.delta).log()
            mixture = [(rational(x), rational(weight)) for x, weight in self._mixture]
            lower = 0.0
            upper = min(round_up((1 + x) * rho + (needed - weight.log()) / x) for x, weight in mixture)
            # Until no float lies between them. An infinite bound stays.
            while lower < (middle := lower + (upper - lower) / 2) < upper:
                loss = rational(Fraction(middle))
                total = sum(weight * (x * (loss - (1 + x) * rho) - needed).exp() for x, weight in mixture)
                if total >= 1:
                    upper = middle
                else:
                    lower = middle
        return upper

    def spend(self, event: PrivacyEvent) -> None:
        """Enter an event, before it is done.

        Raises:
            BudgetError: the event has no rho, or is not stated under this relation.
        """
        self.rho += _costs(_Rho(), event, self.neighbours)[0]
        self.events = (*self.events, event)


def _costs(unit: _Unit, event: PrivacyEvent, neighbours: Neighbours) -> tuple[Fraction, ...]:
    if not isinstance(event, PrivacyEvent):
        raise BudgetError(
            f"spend takes one privacy event, got {as_given(event)}. Give an event, such as DiscreteGaussian(5)."
        )
    require_neighbours(event, neighbours)
    costs = unit.costs(event)
    if total_variation_of(event):
        raise BudgetError(
            "the noise of this event follows its law only up to a total variation distance, which a filter does not "
            "count. Use noise that is drawn exactly."
        )
    return costs
