"""The guarantee of a SafeTab run, exactly and by the paper's accountants, and budgets for a wanted one or for margins.

`privacy_of` says what each run guarantees. `plan_for_margins` and `plan_for_epsilon` change a plan's budgets to those
that margins of error need, or that an epsilon allows, and `write_parameters` writes the parameter folder of such a
plan.

Source: SafeTab (Haney et al.), section F.1, for the budget of a margin (`budget_for_margin`). Its text has rho =
rho_base / gamma, which must be rho_base / (1 - gamma): the margin is that of stage 2, which has the share 1 - gamma.
Table 4 agrees with the latter.
"""

import json
import math
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from tallyveil.accounting.costs import epsilon_of, rho_of
from tallyveil.accounting.engines.tails import fraction_bounds
from tallyveil.accounting.events import ParallelEvent, PrivacyEvent, SequentialEvent
from tallyveil.accounting.guarantee import compose
from tallyveil.accounting.ledger.file import read_ledger
from tallyveil.accounting.ledger.lines import LEDGER
from tallyveil.accounting.numbers import at_least, at_most
from tallyveil.accounting.proved import proved_epsilon
from tallyveil.accounting.renyi import renyi_epsilon, zcdp_to_epsilon, zcdp_to_epsilon_textbook
from tallyveil.budget.strategy import Mechanism
from tallyveil.errors import BudgetError, ConfigError
from tallyveil.exact import as_given, fraction_of
from tallyveil.files.finished import MANIFEST, PLAN
from tallyveil.files.manifest import Manifest, ReleaseKind
from tallyveil.files.manifest_files import read_listed
from tallyveil.noise.laws import DiscreteGaussian
from tallyveil.products.safetab.public.config import (
    CONFIG,
    GEOGRAPHIES,
    LEVELS,
    Level,
    budget_key,
    read_values,
)
from tallyveil.products.safetab.public.estimates import CONFIDENCE
from tallyveil.products.safetab.public.files import (
    CODE_TO_ITERATION,
    CODES,
    ETHNICITY_ITERATIONS,
    RACE_ITERATIONS,
    find_file,
)
from tallyveil.products.safetab.public.group_plan import StatedGroupPlan
from tallyveil.products.safetab.public.households import StatedHouseholdPlan
from tallyveil.products.safetab.public.levels import NEIGHBOURS, law_of
from tallyveil.products.safetab.public.plan import RunPlan, SafetabPlan, StatedSafetabPlan, with_budgets
from tallyveil.storage.json_files import JsonObject, damaged
from tallyveil.storage.write import write_file, write_text

FACTOR_DIGITS: Final = 9
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


def derived_privacy(root: Path, manifest: Manifest) -> JsonObject:
    """The guarantee of each run of a finished release, from the event in its ledger, at the deltas that it states.

    Args:
        root: Folder of the release.
        manifest: Its manifest, held to its ledger.
    Raises:
        StoreError: the plan in the folder names other runs, or runs of other budgets, than the ledger shows.
        BudgetError: a stated delta is out of range.
    """
    event = next(entry.event for entry in read_ledger(root / LEDGER)[1] if entry.kind == "spend")
    plan = read_listed(root, manifest, PLAN, _STATED[manifest.kind])
    mechanism = Mechanism(plan["mechanism"])
    if manifest.kind is ReleaseKind.GROUPS:
        budgets, parts = {plan["name"]: plan["spent"]}, [event]
    else:
        # Every record is in one run, so that the ledger has one event of them side by side.
        budgets = {name: run["budget"] for name, run in plan["runs"].items()}
        parts = list(event.events) if isinstance(event, ParallelEvent) else []
    cost = rho_of if mechanism is Mechanism.DISCRETE_GAUSSIAN else epsilon_of
    if [Fraction(budget) for budget in budgets.values()] != [cost(part) for part in parts]:
        raise damaged(
            root / PLAN, "runs", "The ledger in the same folder shows other runs, or other budgets."
        )
    derived = {}
    for name, part in zip(budgets, parts, strict=True):
        stated = manifest.privacy.get(name)
        delta = fraction_of(str(stated.get("delta"))) if isinstance(stated, dict) else None
        if delta is None:
            raise damaged(root / MANIFEST, "privacy", "It states no delta of a run.")
        derived[name] = privacy_of_event(name, cost(part), part, mechanism, delta).to_mapping()
    return derived


def with_runs(root: Path, manifest: Manifest) -> Manifest:
    """The manifest with the guarantee of every run that follows from its ledger; raises as `derived_privacy`.

    Every command and every page that shows the guarantee of a release takes it from here.
    """
    return replace(manifest, privacy=derived_privacy(root, manifest))


_STATED: Final = {
    ReleaseKind.SAFETAB: StatedSafetabPlan,
    ReleaseKind.HOUSEHOLDS: StatedHouseholdPlan,
    ReleaseKind.GROUPS: StatedGroupPlan,
}
"""What `plan.json` of each kind of release holds."""


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
    factor = calibrate(
        event, epsilon=epsilon, delta=delta, neighbours=NEIGHBOURS, digits=FACTOR_DIGITS
    ).factor
    # From a billionth up to a tenth more noise; the first step almost always suffices.
    for nudge in range(FACTOR_DIGITS):
        reached = compose(scaled(run.event(), factor), neighbours=NEIGHBOURS).epsilon(Fraction(delta))
        if reached.upper <= Fraction(epsilon):
            return factor
        factor *= 1 + Fraction(10) ** (nudge - FACTOR_DIGITS)
    raise BudgetError(
        f"the budgets of the {run.run} run that give epsilon {epsilon} at delta {delta} could not be certified. Give "
        "a slightly different epsilon or delta."
    )


def _least_base(mechanism: Mechanism, margin: int) -> Fraction:
    """Smallest budget of one count whose margin is at most the wanted margin, to nine digits, rounded up."""
    # The printed formulas, in floats: only their size is used.
    guess = 1.92 / margin**2 if mechanism is Mechanism.DISCRETE_GAUSSIAN else math.log(20) / (margin + 1)
    # Nine significant digits of the result.
    step = Fraction(10) ** (math.floor(math.log10(guess)) + 1 - FACTOR_DIGITS)
    # The printed budget is within a factor of two of the smallest one.
    low, high = int(Fraction(guess) / 2 / step), int(Fraction(guess) * 2 / step) + 1
    while high - low > 1:
        middle = (low + high) // 2
        # Exact: the margin is that of the law, decided with certified tails.
        enough = law_of(mechanism, middle * step).margin(CONFIDENCE) <= margin
        low, high = (low, middle) if enough else (middle, high)
    return high * step


BUDGET_DIGITS: Final = 12
"""Significant digits of a budget that is written."""

_LISTS: Final = (CODES, RACE_ITERATIONS, ETHNICITY_ITERATIONS, CODE_TO_ITERATION)
_MARGIN: Final = re.compile(r"\s*([A-Z-]+)\s+([0-9])\s*=\s*([0-9]{1,9})\s*")


def parse_margins(text: str) -> dict[Level, int]:
    """Margins of level sets from a text such as "USA 2 = 6, STATE 2 = 6".

    Raises:
        ConfigError: the text has another form, or names an unknown level set or one of them twice.
    """
    known = {(geography, level) for run in GEOGRAPHIES.values() for geography in run for level in LEVELS}
    margins: dict[Level, int] = {}
    for part in text.split(","):
        match = _MARGIN.fullmatch(part)
        place = (match[1], int(match[2])) if match else ("", 0)
        if match is None or place not in known or place in margins:
            raise ConfigError(
                f"--margins has {part.strip()!r:.60}; wanted level sets with their margins, each once, such as "
                '"USA 2 = 6, COUNTY 1 = 50". The number after the geography is the iteration level, 1 or 2.',
                code="bad-flag",
            )
        margins[place] = int(match[3])
    return margins


def plan_for_margins(plan: SafetabPlan, margins: Mapping[Level, int], recipe: Recipe) -> SafetabPlan:
    """The plan whose cells of stage 2 have the given 95 % margins. Level sets without a margin get no budget.

    Args:
        plan: Lists, stage-1 fraction and mechanism.
        margins: Margin of a cell, in persons, of each level set.
        recipe: Of `budget_for_margin`.
    Raises:
        BudgetError: a margin is 0, or its noise is out of range.
        ConfigError: a run has no level set with a margin, or a level set belongs to a run that is switched off.
        SchemaError: a level set has no iterations.
    """
    for run in plan.config.runs:
        if not any(geography in GEOGRAPHIES[run] for geography, _ in margins):
            raise ConfigError(
                f"--margins names no level set of the {run} run, which is switched on in {CONFIG}. Name at least one "
                f"of {', '.join(GEOGRAPHIES[run])}, or switch the run off.",
                code="bad-flag",
            )
    if unused := sorted({place[0] for place in margins if place not in plan.config.budgets}):
        raise ConfigError(
            f"--margins names {', '.join(unused)} of a run that is switched off in {CONFIG}. Leave it out.",
            code="bad-flag",
        )
    # Any budget above 0 makes the level set, and with it its stability.
    # The stability follows from the lists and not from the size of a budget.
    chosen = with_budgets(plan, {place: Fraction(int(place in margins)) for place in plan.config.budgets})
    budgets = {
        (level_set.geography, level_set.level): budget_for_margin(
            plan.config.mechanism,
            margins[level_set.geography, level_set.level],
            stability=level_set.stability,
            stage_1_fraction=plan.config.stage_1_fraction,
            recipe=recipe,
        )
        for run in chosen.runs
        for level_set in run.sets
    }
    # Up: a larger budget means less noise, so the margin is kept.
    return with_budgets(chosen, {place: _rounded(budget, up=True) for place, budget in budgets.items()})


def plan_for_epsilon(plan: SafetabPlan, epsilon: Fraction, delta: Fraction) -> SafetabPlan:
    """The plan whose budgets are scaled until every run has at most this epsilon. The rounded budgets are certified.

    Raises:
        BudgetError: the target is out of range.
    """
    calibrated = calibrate_plan(plan, epsilon=epsilon, delta=delta)
    budgets = {
        (level_set.geography, level_set.level): level_set.budget
        for run in calibrated.runs
        for level_set in run.sets
    }
    # Rounding down usually keeps epsilon; where composition is so tight that it does not, a billionth to a
    # millionth less does.
    for less in (Fraction(0), *(Fraction(1, 10**digits) for digits in (9, 8, 7, 6))):
        # Down: a smaller budget means more noise, so epsilon is kept.
        lower = {place: _rounded(budget * (1 - less), up=False) for place, budget in budgets.items()}
        rounded = with_budgets(plan, lower)
        # The budgets as they will be written are certified, not those before rounding.
        if all(_epsilon(run, delta) <= epsilon for run in rounded.runs):
            return rounded
    raise BudgetError(
        f"the budgets that give epsilon {epsilon} at delta {delta} could not be written with {BUDGET_DIGITS} digits. "
        "Give a slightly different epsilon or delta."
    )


def _epsilon(run: RunPlan, delta: Fraction) -> Fraction:
    return Fraction(compose(run.event(), neighbours=NEIGHBOURS).epsilon(delta).upper)


def write_parameters(source: Path, out: Path, plan: SafetabPlan) -> None:
    """Write a parameter folder: the lists of another one, and its config with the budgets of a plan.

    Args:
        source: The folder that the plan was made from.
        out: Folder to write to.
        plan: Has the new budgets.
    Raises:
        ConfigError, StoreError: the folder cannot be read, or a file cannot be written.
    """
    values, _ = read_values(source)
    # All other keys stay as the user wrote them.
    values |= {budget_key(*place): budget for place, budget in plan.config.budgets.items()}
    for form in _LISTS:
        path = find_file(source, form)
        write_file(out / path.name, partial(shutil.copyfile, path))
    write_text(out / CONFIG, _exact_json(values))


def _rounded(budget: Fraction, *, up: bool) -> Fraction:
    return Fraction((at_most if up else at_least)(budget, BUDGET_DIGITS))


def _exact_json(values: Mapping[str, Any]) -> str:
    """JSON in which exact numbers are decimals with all their digits."""
    numbers: list[str] = []

    # A float would lose digits of an exact budget. So a marker is written in its place and replaced
    # afterwards: json.dumps has no way to write a number as given text.
    def noted(value: Any) -> str:
        numbers.append(_decimal(value))
        return f"\0{len(numbers) - 1}"

    text = json.dumps(values, indent=2, default=noted)
    return re.sub(r'"\\u0000([0-9]+)"', lambda match: numbers[int(match[1])], text) + "\n"


def _decimal(value: Fraction) -> str:
    """A fraction that has finitely many decimals, with all of them."""
    # A denominator of d digits is at most 10**d, so 2**k or 5**k with k below 4 d; that many decimals always
    # suffice.
    digits = len(str(value.numerator)) + 4 * len(str(value.denominator))
    return format(Context(prec=digits).divide(Decimal(value.numerator), Decimal(value.denominator)), "f")
