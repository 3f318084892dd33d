"""From aims to shares: the program of the aims, its solution, and the strategy with the resulting shares.

Shares are found as floats and stated as exact fractions.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from tallyveil.accounting.guarantee import compose
from tallyveil.accounting.numbers import at_least, at_most
from tallyveil.arrays import Floats
from tallyveil.budget.guarantees import rho_for_target
from tallyveil.budget.optimal.aims import Aims, Goal
from tallyveil.budget.optimal.solve import SLACK, ShareProgram, Variances, solve
from tallyveil.budget.strategy import Strategy
from tallyveil.errors import BudgetError
from tallyveil.noise.laws import LARGEST_VARIANCE

PARTS_OF_A_SHARE = 2500
"""The denominator is this many times the number of shares."""
LOSS = 1 / PARTS_OF_A_SHARE
"""Rounding makes every variance larger by at most this fraction, because it divides no share by more than 1 + LOSS."""


def rounded_shares(shares: Floats) -> tuple[Fraction, ...]:
    """Fractions with a common denominator that sum to exactly 1, near the given shares.

    Each share is rounded up to a whole number of parts, and all are divided by the sum of these numbers. For n shares
    and D parts, the sum is at most D + n. So no share becomes smaller than 1 / (1 + n / D) of what it was. Rounding to
    the nearest part instead could lose much: a tiny share may be all that determines an answer.

    Args:
        shares: Above 0; they sum to 1.
    """
    parts = PARTS_OF_A_SHARE * len(shares)
    whole = [max(1, int(part)) for part in np.ceil(shares * parts)]
    return tuple(Fraction(part, sum(whole)) for part in whole)


def with_shares(strategy: Strategy, shares: tuple[Fraction, ...]) -> Strategy:
    """A strategy that measures the same with other shares, geolevel by geolevel in its own order."""
    left = list(shares)
    divided = []
    for geolevel in strategy.geolevels:
        queries = strategy.queries(geolevel)
        parts, left = left[: len(queries)], left[len(queries) :]
        together = sum(parts, Fraction(0))
        pairs = zip(queries, parts, strict=True)
        divided.append((geolevel, together, [(query, part / together) for query, part in pairs]))
    return strategy.with_shares(divided)


DIGITS = 9
"""Significant digits of the least rho, which is rounded up."""
MARGIN = 2e-3
"""Targets are met with this fraction of the variance to spare before shares are rounded and the total is calibrated."""
DRAWN = 1e-2
"""A share stays larger, by this fraction, than the least share whose noise can be drawn. A present share that is not
that large may be divided by at most 1 plus this fraction."""

LEAST_FREE = 0.05
"""Part of the budget that must be tied to no query. [keep] alone may take 9/10, and tiny shares a thousandth more."""


@dataclass(frozen=True, slots=True, eq=False)
class ShareChoice:
    """What one aim or target gets.

    Attributes:
        area: The geolevel or the family.
        query: The query.
        weight: Weight of the aim; None for a target that is no aim.
        wanted: Standard deviation of the target, in records; None for an aim without a target.
        before: Root of the mean variance with the present strategy.
        after: The same with the resulting strategy.
    """

    area: str
    query: str
    weight: Fraction | None
    wanted: Fraction | None
    before: float
    after: float

    @property
    def ratio(self) -> float:
        """`after` divided by `before`."""
        return self.after / self.before


@dataclass(frozen=True, slots=True, eq=False)
class OptimalShares:
    """A strategy with better shares, and how good they are.

    Attributes:
        aims: What was asked.
        before: The present strategy.
        strategy: The same measurements with the resulting shares and total.
        outcomes: One for each aim and target.
        gap: No shares can make the objective smaller by more than this fraction. It includes the rounding of shares.
        epsilon_before: Upper bound of the present strategy's exact epsilon at `delta`.
        epsilon: The same of the resulting strategy.
        delta: Delta of both.
        held: Queries that keep `aims.floor` of their present share at every geolevel.
    """

    aims: Aims
    before: Strategy
    strategy: Strategy
    outcomes: tuple[ShareChoice, ...]
    gap: float
    epsilon_before: float
    epsilon: float
    delta: Fraction
    held: tuple[str, ...] = ()

    @property
    def mean_ratio(self) -> float:
        """Root mean square of the ratios of all aims, or of all targets where there are no aims."""
        chosen = [outcome for outcome in self.outcomes if outcome.weight is not None] or self.outcomes
        return float(np.sqrt(np.mean([outcome.ratio**2 for outcome in chosen])))


def choose_shares(
    strategy: Strategy,
    aims: Aims,
    variances: Variances,
    delta: Fraction,
    most: Fraction,
    *,
    held: Collection[str] = (),
) -> OptimalShares:
    """The shares that the aims ask for, and the strategy with them.

    Args:
        strategy: The present strategy, with Gaussian noise.
        aims: What is wanted.
        variances: Variances of `aims.named`, in this order, for shares in the order of the strategy and at its total.
        delta: Delta at which the exact epsilon is kept.
        most: The largest rho that the release has declared for the strategy. It is not exceeded, unless the least rho
            of targets is asked for.
        held: Queries that keep `aims.floor` of their present share at every geolevel.
    Raises:
        BudgetError: targets cannot be reached, or [keep] names what is not measured.
        SolverError: the gap was not reached.
    Privacy: the exact epsilon of the result is at most that of the present strategy, unless the least rho is asked for.
        Only public inputs are used.
    """
    stated = present_shares(strategy)
    reference = variances(stated).values
    program = _program(aims, reference, _least(strategy, aims, stated, held))
    start = stated
    if not bool(np.all(stated > program.least)):
        start = program.least + (1.0 - program.least.sum()) * stated
    if not program.within_limits(variances(start).values):
        start = _feasible(program, variances, start, strategy, aims)
    solved = solve(program, variances, start)
    shares = rounded_shares(solved.shares)
    chosen = with_shares(strategy, shares)
    values = variances(np.array([float(share) for share in shares])).values
    reached = program.objective(values)
    epsilon_before = epsilon_of(strategy, delta)
    if aims.goal is Goal.RHO:
        chosen = _with_total(chosen, _rounded_up(strategy.total * Fraction(reached)))
    else:
        chosen = replace(chosen, total=min(most, rho_for_target(chosen, Fraction(epsilon_before), delta)))
    after = values * float(strategy.total / chosen.total)
    _check_targets(aims, after)
    return OptimalShares(
        aims=aims,
        before=strategy,
        strategy=chosen,
        outcomes=_outcomes(aims, reference, after),
        gap=max(solved.gap, 1.0 - solved.bound / reached),
        epsilon_before=epsilon_before,
        epsilon=epsilon_of(chosen, delta),
        delta=delta,
        held=tuple(held),
    )


def _with_total(strategy: Strategy, total: Fraction) -> Strategy:
    """The strategy with another total.

    Raises:
        BudgetError: its noise could not be drawn.
    """
    enlarged = replace(strategy, total=total)
    try:
        enlarged.event()
    except BudgetError as error:
        raise BudgetError(
            f"the targets alone need rho = {at_most(total)}. With this rho, the noise of a query could not be drawn: "
            f"{error} Allow larger standard deviations if the variance is too small, and ask for smaller ones "
            "if it is too large.",
            code="target-out-of-reach",
        ) from None
    return enlarged


def present_shares(strategy: Strategy) -> Floats:
    """The part of the budget of every geolevel and query, in the strategy's order."""
    return np.array(
        [
            float(share * part)
            for geolevel, share in strategy.geolevel_shares
            for _, part in strategy.shares_of(geolevel)
        ]
    )


def epsilon_of(strategy: Strategy, delta: Fraction) -> float:
    """Upper bound of the exact epsilon."""
    return compose(strategy.event(), neighbours=strategy.neighbours).epsilon(delta).upper


def _program(aims: Aims, reference: Floats, least: Floats) -> ShareProgram:
    """The program of the aims, with all variances at the present total."""
    named = aims.named
    wanted = {target.place: float(target.standard_deviation) ** 2 for target in aims.targets}
    weight = {target.place: float(target.weight) for target in aims.aims}
    limit = np.array([wanted.get(target, np.inf) for target in named])
    is_aim = np.array([target in weight for target in named])
    spared = np.where(is_aim & aims.spare, reference, np.inf)
    if aims.goal is Goal.RHO:
        # A variance v at the present total needs v / limit times this total.
        return ShareProgram(1.0 / np.minimum(limit, spared), True, np.full(len(named), np.inf), least)
    weights = np.array([weight.get(target, 0.0) for target in named])
    if aims.relative:
        weights = weights / reference
    if aims.goal is Goal.SUM:
        weights = weights / sum(weight.values())
    # Neither the rounding of the shares nor a smaller total may break a target.
    return ShareProgram(weights, aims.goal is Goal.MAXIMUM, np.minimum(limit / (1 + MARGIN), spared), least)


def _least(strategy: Strategy, aims: Aims, stated: Floats, held: Collection[str] = ()) -> Floats:
    """The smallest value of every share: a part of the denominator, what can be drawn, or what is to be kept.

    Raises:
        BudgetError: [keep] names what is not measured, or too much is to be kept.
    """
    names = [(geolevel, query) for geolevel in strategy.geolevels for query in strategy.queries(geolevel)]
    moved = np.array([strategy.squared_distance(query) for _, query in names])
    drawn = moved / (2 * float(strategy.total) * float(LARGEST_VARIANCE)) * (1 + DRAWN)
    least = np.minimum(1.0 / (PARTS_OF_A_SHARE * len(stated)), stated / 2)
    least = np.maximum(least, np.minimum(drawn, stated / (1 + DRAWN)))
    is_held = np.array([query in held for _, query in names])
    least = np.maximum(least, np.where(is_held, float(aims.floor) * (1 + 2 * LOSS) * stated, 0.0))
    for geolevel, query, share in aims.keep:
        if (geolevel, query) not in names:
            raise BudgetError(
                f"[keep] names '{query:.80}' at {geolevel:.80}, which the strategy does not measure. Measured there: "
                f"{', '.join(query_name for level, query_name in names if level == geolevel) or 'nothing'}.",
                code="bad-aim",
            )
        place = names.index((geolevel, query))
        least[place] = max(least[place], float(share) * (1 + 2 * LOSS))
    if least.sum() > 1 - LEAST_FREE:
        raise BudgetError(
            f"[keep], and the floor of the queries that determine what public bounds limit, take "
            f"{at_most(least.sum())} of the budget together; wanted at most {1 - LEAST_FREE:g}, so that something is "
            "left to divide. Keep less, or lower `floor`.",
            code="bad-aim",
        )
    return least


def _feasible(
    program: ShareProgram, variances: Variances, start: Floats, strategy: Strategy, aims: Aims
) -> Floats:
    """Shares within the limits of a program.

    Raises:
        BudgetError: there are none.
    """
    limited = np.isfinite(program.limits)
    weights = np.where(limited, 1.0 / program.limits, 0.0)
    nothing = np.full(len(weights), np.inf)
    closest = ShareProgram(weights, of_maximum=True, limits=nothing, least=program.least)
    solution = solve(closest, variances, start, enough=1.0 + SLACK / 2)
    if solution.objective < 1.0 + SLACK:
        return solution.shares
    worst = int(np.argmax(weights * solution.evaluated.values))
    area, query = aims.named[worst]
    needed = float(strategy.total) * solution.bound
    condition = " while no aim becomes worse than it is (spare = true)" if aims.spare else ""
    raise BudgetError(
        f"no shares reach all targets with rho = {at_most(strategy.total)} and {MARGIN:.1%} of each variance to "
        f"spare{condition}: at least rho = {at_least(needed)} is needed, and '{query}' at {area} is among those "
        "furthest above their limits. Allow larger standard deviations, keep less, or ask for the least rho with "
        "minimise = "
        '"rho".',
        code="target-out-of-reach",
    )


def _check_targets(aims: Aims, after: Floats) -> None:
    """Check that rounding and calibration have broken no target.

    Raises:
        BudgetError: they have.
    """
    for target in aims.targets:
        reached = float(np.sqrt(after[aims.named.index(target.place)]))
        if reached > float(target.standard_deviation) * (1 + 1e-9):
            raise BudgetError(
                f"the shares that reach {target.text} must have a smaller rho to keep the epsilon of the present "
                f"strategy. With this rho, the standard deviation of {target.text} becomes {at_most(reached)}; wanted "
                f"at most {float(target.standard_deviation):g}. Allow a slightly larger standard deviation.",
                code="target-out-of-reach",
            )


def _outcomes(aims: Aims, before: Floats, after: Floats) -> tuple[ShareChoice, ...]:
    weights = {aim.place: aim.weight for aim in aims.aims}
    wanted = {aim.place: aim.standard_deviation for aim in aims.targets}
    return tuple(
        ShareChoice(*name, weights.get(name), wanted.get(name), float(np.sqrt(old)), float(np.sqrt(new)))
        for name, old, new in zip(aims.named, before, after, strict=True)
    )


def _rounded_up(value: Fraction) -> Fraction:
    """The value rounded up to nine significant digits."""
    unit = Fraction(10) ** (int(np.floor(np.log10(float(value)))) - DIGITS + 1)
    return -(-value // unit) * unit
