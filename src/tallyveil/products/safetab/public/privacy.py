"""The guarantee of a SafeTab run, exactly and by the paper's accountants; budgets for an accuracy or a guarantee."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal

from tallyveil.accounting.costs import epsilon_of, rho_of
from tallyveil.accounting.engines.tails import fraction_bounds
from tallyveil.accounting.events import PrivacyEvent, SequentialEvent
from tallyveil.accounting.proved import proved_epsilon
from tallyveil.accounting.renyi import renyi_epsilon, zcdp_to_epsilon, zcdp_to_epsilon_textbook
from tallyveil.budget.strategy import Mechanism
from tallyveil.errors import BudgetError
from tallyveil.exact import as_given
from tallyveil.noise.laws import DiscreteGaussian
from tallyveil.products.safetab.public.levels import NEIGHBOURS, law_of
from tallyveil.products.safetab.public.plan import RunPlan, SafetabPlan, with_budgets
from tallyveil.products.safetab.public.sums import CONFIDENCE

DIGITS: Final = 9
"""Significant decimal digits of a calibrated budget."""

Recipe = Literal["exact", "printed"]
LN_20: Final = Fraction("2.995732273553990993435223576142540775676601622989028")
"""ln 20 to 51 decimals, of the printed recipe for 95 %: epsilon = ln(1 / 0.05) / (M + 1). More digits than any
budget is written with."""


@dataclass(frozen=True, slots=True)
class RunPrivacy:
    """Epsilon of one run at a given delta, by every accountant. Each is an upper bound; the exact one is the smallest.

    Attributes:
        run: "US" or "PR".
        budget: Sum of the level budgets, in rho (Gaussian) or pure epsilon (Laplace); exact.
        delta: The delta.
        exact: Epsilon from the exact loss law, with total-only groups in their worst case; rounded up.
        exact_lower: Lower bound on the same epsilon, which shows how precisely it is known.
        pure: Pure epsilon (delta 0); only for Laplace noise.
        renyi: Epsilon from the (corrected) Renyi divergence.
        zcdp: Epsilon from rho by the optimal conversion; only for Gaussian noise.
        zcdp_textbook: Epsilon from rho by rho + 2 sqrt(rho ln(1 / delta)); only for Gaussian noise.
        changed, changed_lower: Bounds on the exact epsilon if a record is changed within the run (`changed_event`).
    """

    run: str
    budget: Fraction
    delta: Fraction
    exact: float
    exact_lower: float
    pure: float | None
    renyi: float
    zcdp: float | None
    zcdp_textbook: float | None
    changed: float
    changed_lower: float

    def to_mapping(self) -> dict[str, Any]:
        """The same values as plain data."""
        return {
            "run": self.run,
            "budget": str(self.budget),
            "delta": str(self.delta),
            "epsilon": {"lower": self.exact_lower, "upper": self.exact},
            "pure": self.pure,
            "renyi": self.renyi,
            "zcdp": self.zcdp,
            "zcdp_textbook": self.zcdp_textbook,
            "changed": changed_mapping(self.budget, self.changed_lower, self.changed),
        }


def privacy_of(plan: SafetabPlan, delta: Fraction) -> tuple[RunPrivacy, ...]:
    """The guarantee of each run, between populations that differ by one person's record.

    A person is in one run, so the guarantee of both runs together is the weaker of the two.

    Args:
        plan: The plan.
        delta: Between 0 and 1.
    Raises:
        BudgetError: the delta is out of range.
    """
    mechanism = plan.config.mechanism
    return tuple(privacy_of_event(run.run, run.budget, run.event(), mechanism, delta) for run in plan.runs)


def changed_event(event: PrivacyEvent) -> PrivacyEvent:
    """The event for a record that changes its value: it leaves its groups and enters at most as many others.

    The groups that it leaves and those that it enters have independent noise. So the loss is the sum of two independent
    losses, each that of one record removed or added. If the two records share a group, its totals do not change, and
    the loss is smaller. So this event is an upper bound, which is attained if they share no group.
    """
    return SequentialEvent((event, event))


def changed_mapping(budget: Fraction, lower: float, upper: float) -> dict[str, Any]:
    """The guarantee for a record that changes its value, as plain data: twice the budget, and epsilon."""
    return {"budget": str(2 * budget), "epsilon": {"lower": lower, "upper": upper}}


def privacy_of_event(
    name: str, budget: Fraction, event: PrivacyEvent, mechanism: Mechanism, delta: Fraction
) -> RunPrivacy:
    """The guarantee of one run.

    Args:
        name: Name of the run.
        budget: What the event costs in rho or pure epsilon.
        event: What the run does.
        mechanism: Of its noise.
        delta: Between 0 and 1.
    Raises:
        BudgetError: the delta is out of range.
    """
    exact = proved_epsilon(event, NEIGHBOURS, delta).bounds
    changed = proved_epsilon(changed_event(event), NEIGHBOURS, delta).bounds
    gaussian = mechanism is Mechanism.DISCRETE_GAUSSIAN
    # Laplace noise has a pure epsilon, and zCDP would only be weaker.
    rho = rho_of(event) if gaussian else None
    return RunPrivacy(
        run=name,
        budget=budget,
        delta=delta,
        exact=exact.upper,
        exact_lower=exact.lower,
        pure=None if gaussian else fraction_bounds(epsilon_of(event)).upper,
        renyi=renyi_epsilon(event, delta).value,
        zcdp=None if rho is None else zcdp_to_epsilon(rho, delta),
        zcdp_textbook=None if rho is None else zcdp_to_epsilon_textbook(rho, delta),
        changed=changed.upper,
        changed_lower=changed.lower,
    )


def budget_for_margin(
    mechanism: Mechanism,
    margin: int,
    *,
    stability: int,
    stage_1_fraction: Fraction,
    recipe: Recipe = "exact",
) -> Fraction:
    """Budget of a level at which a stage-2 count has a given 95 % margin of error.

    Args:
        mechanism: Determines whether the budget is rho (Gaussian) or epsilon (Laplace).
        margin: Wanted margin in counts, at least 1.
        stability: Number of groups that a record can be in.
        stage_1_fraction: Share of stage 1.
        recipe: "exact" gives the smallest budget, rounded up to nine digits, whose noise lies within the margin with
            probability of 95 % or more. "printed" gives the paper's rho = 1.92 / M**2 and epsilon = ln 20 / (M + 1),
            which cover slightly more (Gaussian) and less (Laplace) than 95 %.
    Raises:
        BudgetError: the margin is not an integer of 1 or more.
    Source: SafeTab (Haney et al.), section F.1, with 1 / (1 - gamma) where its text has 1 / gamma.
    """
    if not isinstance(margin, int) or margin < 1:
        raise BudgetError(
            f"the margin of error is {as_given(margin)}, wanted an integer of 1 or more. Give one."
        )
    if recipe == "printed":
        gaussian = mechanism is Mechanism.DISCRETE_GAUSSIAN
        # 1.92 is 1.96**2 / 2, rounded; sigma**2 = 1 / (2 rho).
        base = Fraction("1.92") / margin**2 if gaussian else LN_20 / (margin + 1)
    else:
        base = _least_base(mechanism, margin)
    # A stage-2 count has the part 1 - gamma of the share budget / s.
    return base * stability / (1 - stage_1_fraction)


def calibrate_plan(plan: SafetabPlan, *, epsilon: Fraction | str, delta: Fraction | str) -> SafetabPlan:
    """The plan with budgets scaled to be as large as an (epsilon, delta) target allows in every run.

    The proportions of the budgets within a run do not change. Each run has its own factor, because no person is in
    both.

    Args:
        plan: Gives the proportions.
        epsilon, delta: The target.
    Raises:
        BudgetError: the target is out of range.
    """
    budgets: dict[tuple[str, int], Fraction] = {}
    for run in plan.runs:
        factor = _noise_factor(run, epsilon, delta)
        budgets |= {
            (level_set.geography, level_set.level): level_set.budget / factor for level_set in run.sets
        }
    return with_budgets(plan, budgets)


def _noise_factor(run: RunPlan, epsilon: Fraction | str, delta: Fraction | str) -> Fraction:
    """Factor on every variance or scale of a run that meets the target, certified for all cases of the run.

    With Gaussian noise, split and total-only groups cost almost the same. So the single law without total-only groups
    determines the factor, and all cases with them certify it. With Laplace noise the cases differ, so all of them are
    used in the search.
    """
    from tallyveil.accounting.calibration import calibrate, scaled
    from tallyveil.accounting.guarantee import compose

    gaussian = isinstance(run.sets[0].stage_1, DiscreteGaussian)
    event = run.event(total_only=not gaussian)
    # Variances or scales are divided by budgets, so one factor scales a whole run and keeps its proportions.
    factor = calibrate(event, epsilon=epsilon, delta=delta, neighbours=NEIGHBOURS, digits=DIGITS).factor
    # From a billionth up to a tenth more noise; the first step almost always suffices.
    for nudge in range(DIGITS):
        reached = compose(scaled(run.event(), factor), neighbours=NEIGHBOURS).epsilon(Fraction(delta))
        if reached.upper <= Fraction(epsilon):
            return factor
        factor *= 1 + Fraction(10) ** (nudge - DIGITS)
    raise BudgetError(
        f"the budgets of the {run.run} run that give epsilon {epsilon} at delta {delta} could not be certified. Give "
        "a slightly different epsilon or delta."
    )


def _least_base(mechanism: Mechanism, margin: int) -> Fraction:
    """Smallest budget of one count whose margin is at most the wanted margin, to nine digits, rounded up."""
    # The printed formulas, in floats: only their size is used.
    guess = 1.92 / margin**2 if mechanism is Mechanism.DISCRETE_GAUSSIAN else math.log(20) / (margin + 1)
    # Nine significant digits of the result.
    step = Fraction(10) ** (math.floor(math.log10(guess)) + 1 - DIGITS)
    # The printed budget is within a factor of two of the smallest one.
    low, high = int(Fraction(guess) / 2 / step), int(Fraction(guess) * 2 / step) + 1
    while high - low > 1:
        middle = (low + high) // 2
        # Exact: the margin is that of the law, decided with certified tails.
        enough = law_of(mechanism, middle * step).margin(CONFIDENCE) <= margin
        low, high = (low, middle) if enough else (middle, high)
    return high * step
