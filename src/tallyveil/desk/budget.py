"""The smallest budget with which tables are as exact as somebody wishes, and what other budgets would mean."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from scipy.special import ndtri

from tallyveil.accounting.numbers import claim_text
from tallyveil.accounting.proved import proved_epsilon
from tallyveil.budget.optimal.aims import Aims, Goal, Target, VarianceModel
from tallyveil.budget.strategy import Strategy
from tallyveil.errors import BudgetError
from tallyveil.plans.guess import guess_of_event
from tallyveil.plans.release import ReleasePlan
from tallyveil.products.topdown.run.optimal_shares import optimal_shares

QUANTILE: Final = Fraction(float(ndtri(0.975)))
"""Standard deviations within which a normal error lies with probability 95 %."""
LEAST_SHARE: Final = Fraction(1, 200)
"""Least part of the budget for a query at a geolevel, so that a table that nobody needs exactly is not useless. A tenth
of it makes such a table three times as inexact, and twice as much costs those who need tables exactly."""
LEAST_WITHIN: Final = Fraction(1, 10)
"""Least distance from a count that can be wished for. Noise below it would nearly always be 0, and no sampler draws
it."""
MOST_KEPT: Final = Fraction(1, 4)
"""Most of the budget that these least parts may take together."""
FACTORS: Final = tuple(map(Fraction, ("1/2", "3/5", "3/4", "1", "5/4", "3/2", "2", "3")))
"""Errors, as multiples of those asked for, at which a budget is shown."""


@dataclass(frozen=True, slots=True)
class Wish:
    """How exact a table must be.

    Attributes:
        table: The query.
        geolevel: The geolevel.
        within: With probability 95 %, an answer is within this many records of the count before noise.
    """

    table: str
    geolevel: str
    within: Fraction


@dataclass(frozen=True, slots=True)
class Choice:
    """A budget that can be chosen.

    Attributes:
        factor: Its errors, as a multiple of those asked for.
        rho: What it spends.
        epsilon: Upper bound of epsilon at the delta of the plan, as text.
        right: Upper bound of the share of right guesses about one record.
    """

    factor: Fraction
    rho: Fraction
    epsilon: str
    right: Fraction


def smallest_strategy(plan: ReleasePlan, wishes: Sequence[Wish]) -> Strategy:
    """The measurements of a plan with the shares and the least rho that meet all wishes.

    Args:
        plan: A plan that measures every table wished for at its geolevel. Its public geography is opened.
        wishes: At least one.
    Raises:
        BudgetError: a wish cannot be met, or is about what is published exactly.
    """
    places = [(level, query) for level in plan.geolevels for query in plan.strategy.queries(level)]
    least = min(LEAST_SHARE, MOST_KEPT / len(places))
    aims = Aims(
        # As a release makes its published counts: from the root downwards.
        model=VarianceModel.TOP_DOWN,
        goal=Goal.RHO,
        relative=False,
        spare=False,
        targets=tuple(Target(wish.geolevel, wish.table, wish.within / QUANTILE) for wish in wishes),
        keep=tuple((level, query, least) for level, query in places),
    )
    return optimal_shares(plan, aims).strategy


def scaled(strategy: Strategy, factor: Fraction) -> Strategy:
    """The same shares of the budget whose errors are so many times as large."""
    return replace(strategy, total=strategy.total / factor**2)


def choices_of(plan: ReleasePlan, strategy: Strategy) -> tuple[Choice, ...]:
    """What budgets around the smallest one mean for one person, as far as there can be such budgets.

    Raises:
        BudgetError: there can be no budget such as the smallest one itself.
    """
    choices = []
    for factor in FACTORS:
        try:
            choices.append(_choice(plan, strategy, factor))
        except BudgetError:
            if factor == 1:
                raise
    return tuple(choices)


def _choice(plan: ReleasePlan, strategy: Strategy, factor: Fraction) -> Choice:
    spent = scaled(strategy, factor)
    event = spent.event()
    epsilon = proved_epsilon(event, plan.neighbours, plan.delta).bounds.upper
    right = guess_of_event(event, plan.neighbours, spent.total, plan.budget_unit)
    return Choice(factor, spent.total, claim_text(epsilon, 3), right)


def costs_of(plan: ReleasePlan, wishes: Sequence[Wish], whole: Fraction) -> tuple[tuple[Wish, Fraction], ...]:
    """What each wish costs: the part of the smallest rho, `whole`, that would be saved without it, dearest first."""
    saved = []
    for place, wish in enumerate(wishes):
        others = [*wishes[:place], *wishes[place + 1 :]]
        # A single wish is all that is paid for.
        rest = smallest_strategy(plan, others).total if others else Fraction(0)
        saved.append((wish, max(Fraction(0), 1 - rest / whole)))
    return tuple(sorted(saved, key=lambda item: -item[1]))
