"""SafeTab's settings for wanted margins of error, or for a wanted guarantee.

`plan_for_margins` gives level sets the least budgets that hold wanted margins of cells and of totals, and finds the
share of stage 1 at which these budgets are least. `plan_for_epsilon` scales budgets to an epsilon, and
`write_parameters` writes the parameter folder of such a plan.

*Totals.* With the budget b of a group, its total with a table of n cells is estimated from stage 1 and from the sum of
the cells (`estimates`). With Gaussian noise the inverse of its variance is 2 b (gamma + (1 - gamma) / n), and that of a
cell 2 b (1 - gamma). So a margin of totals alone asks for a large gamma, one of cells for a small gamma. Both together
have a best one. Worked case: n = 46, a cell within 6 and a total within 11 persons, each with a deviation of margin /
1.96. The cell needs b (1 - gamma) = 0.0534 and the total b (gamma + (1 - gamma) / 46) = 0.0159. Both hold with b =
0.0681 at gamma = 0.216; at gamma = 0.1 the total alone needs b = 0.133. The budgets are found with the exact laws.

Source: SafeTab (Haney et al.), section F.1, for the budget of a margin (`budget_for_margin`). Its text has rho =
rho_base / gamma, which must be rho_base / (1 - gamma): the margin is that of stage 2, which has the share 1 - gamma.
Table 4 agrees with the latter.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

from tallyveil.accounting.guarantee import compose
from tallyveil.accounting.numbers import at_least, at_most
from tallyveil.budget.strategy import Mechanism
from tallyveil.errors import BudgetError, ConfigError
from tallyveil.exact import as_given
from tallyveil.noise.laws import DiscreteGaussian
from tallyveil.products.safetab.public.config import (
    CONFIG,
    GEOGRAPHIES,
    LEVELS,
    Level,
    budget_key,
    read_values,
)
from tallyveil.products.safetab.public.estimates import CONFIDENCE, estimator_of, first_enough
from tallyveil.products.safetab.public.files import (
    CODE_TO_ITERATION,
    CODES,
    ETHNICITY_ITERATIONS,
    RACE_ITERATIONS,
    find_file,
)
from tallyveil.products.safetab.public.levels import NEIGHBOURS, GroupLevel, law_of, level_laws
from tallyveil.products.safetab.public.plan import RunPlan, SafetabPlan, make_plan, with_budgets
from tallyveil.storage.write import copy_file, write_text

FACTOR_DIGITS: Final = 9
"""Significant decimal digits of a calibrated budget."""

_TOTAL_DIGITS: Final = 6
"""Significant decimal digits of a budget that a margin of a total needs. Each digit takes some twenty milliseconds."""

BUDGET_DIGITS: Final = 12
"""Significant digits of a budget that is written."""

Recipe = Literal["exact", "printed"]
LN_20: Final = Fraction("2.995732273553990993435223576142540775676601622989028")
"""ln 20 to 51 decimals, of the printed recipe for 95 %: epsilon = ln(1 / 0.05) / (M + 1). More digits than any
budget is written with."""

NO_MARGINS: Final[Mapping[Level, int]] = MappingProxyType({})

_SHARES_OF_STAGE_1: Final = tuple(Fraction(hundredths, 100) for hundredths in range(1, 100))
"""Where the best share of stage 1 is looked for. Between two of them the least budget differs by less than 1 %."""

_LISTS: Final = (CODES, RACE_ITERATIONS, ETHNICITY_ITERATIONS, CODE_TO_ITERATION)
_MARGIN: Final = re.compile(r"\s*([A-Z-]+)\s+([0-9])\s*=\s*([0-9]{1,18})\s*")


def parse_margins(text: str, flag: str) -> dict[Level, int]:
    """Margins of level sets from a text such as "USA 2 = 6, STATE 2 = 6", of a flag that messages name.

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
                f"{flag} has {part.strip()!r:.60}; wanted level sets with their margins, each once, such as "
                '"USA 2 = 6, COUNTY 1 = 50". The number after the geography is the iteration level, 1 or 2.',
                code="bad-flag",
            )
        margins[place] = int(match[3])
    return margins


def plan_for_margins(
    plan: SafetabPlan,
    margins: Mapping[Level, int],
    recipe: Recipe = "exact",
    totals: Mapping[Level, int] = NO_MARGINS,
) -> SafetabPlan:
    """The plan with the least budgets that hold wanted 95 % margins. Level sets without one get no budget.

    With margins of totals, the share of stage 1 is that of all hundredths at which the sum of the budgets is least;
    otherwise it is the plan's.

    Args:
        plan: Lists, stage-1 fraction and mechanism.
        margins: Margin of a cell of stage 2, in persons, of each level set that has one.
        recipe: Of `budget_for_margin`.
        totals: Margin of the estimate of a group's total, in persons, of each level set that has one. It holds in every
            detail, where stage 1 has its full weight: away from the thresholds.
    Raises:
        BudgetError: a margin is 0, or its noise is out of range.
        ConfigError: a run has no level set with a margin, or a level set belongs to a run that is switched off, or
            margins of totals are wanted by the printed recipe.
        SchemaError: a level set has no iterations.
    """
    wanted = {**margins, **totals}
    for run in plan.config.runs:
        if not any(geography in GEOGRAPHIES[run] for geography, _ in wanted):
            raise ConfigError(
                f"the margins name no level set of the {run} run, which is switched on in {CONFIG}. Name at least one "
                f"of {', '.join(GEOGRAPHIES[run])}, or switch the run off.",
                code="bad-flag",
            )
    if unused := sorted({place[0] for place in wanted if place not in plan.config.budgets}):
        raise ConfigError(
            f"the margins name {', '.join(unused)} of a run that is switched off in {CONFIG}. Leave it out.",
            code="bad-flag",
        )
    if totals and recipe == "printed":
        raise ConfigError(
            "--formula printed has no formula for --total-margins. Leave one of both out.", code="bad-flag"
        )
    # Any budget above 0 makes the level set, and with it its stability.
    # The stability follows from the lists and not from the size of a budget.
    chosen = with_budgets(plan, {place: Fraction(int(place in wanted)) for place in plan.config.budgets})

    def budgets_at(gamma: Fraction, totals: Mapping[Level, int]) -> dict[Level, Fraction]:
        return {
            level_set.place: level_set.stability
            * _least_share(
                level_set,
                plan.config.mechanism,
                gamma,
                (margins.get(level_set.place), totals.get(level_set.place)),
                recipe,
            )
            for run in chosen.runs
            for level_set in run.sets
        }

    gamma, least = plan.config.stage_1_fraction, None
    for share in _SHARES_OF_STAGE_1 if totals else ():
        # The budgets of the cells alone rise with the share, so no larger one is better.
        if least is not None and sum(budgets_at(share, NO_MARGINS).values()) >= least:
            break
        budget = sum(budgets_at(share, totals).values())
        if least is None or budget < least:
            gamma, least = share, budget
    # Up: a larger budget means less noise, so the margin of a cell is kept. That of a total has fewer digits.
    rounded = {place: _rounded(budget, up=True) for place, budget in budgets_at(gamma, totals).items()}
    config = replace(chosen.config, stage_1_fraction=gamma, budgets={**chosen.config.budgets, **rounded})
    return make_plan(config, plan.files)


def _least_share(
    level: GroupLevel,
    mechanism: Mechanism,
    gamma: Fraction,
    wanted: tuple[int | None, int | None],
    recipe: Recipe,
) -> Fraction:
    """The least budget of a group that holds its wanted margins of a cell and of its total, if there are any."""
    cell, total = wanted
    for margin in wanted:
        if margin is not None:
            _require_margin(margin)
    details = range(level.ladder.total_only) if level.n_adaptive else ()
    # From the finest table on, whose total is the least exact.
    cells = tuple(level.ladder.n_cells(detail) for detail in reversed(details))
    try:
        for_cell = Fraction(0)
        if cell is not None:
            for_cell = budget_for_margin(mechanism, cell, stability=1, stage_1_fraction=gamma, recipe=recipe)
        return for_cell if total is None else _share_of_total(mechanism, gamma, for_cell, total, cells)
    except BudgetError as error:
        raise BudgetError(
            f"the margins of {level.name} are met by noise that cannot be drawn. Give others, a "
            f"smaller one if the noise is too large. {error}"
        ) from None


@lru_cache(maxsize=1024)
def _share_of_total(
    mechanism: Mechanism, gamma: Fraction, least: Fraction, margin: int, cells: tuple[int, ...]
) -> Fraction:
    """The least budget of a group, of at least `least`, at which its total has a margin with each number of cells."""
    # What normal noise would need; only where the search begins.
    precision, g, n = (1.96 / margin) ** 2, float(gamma), max(cells, default=1)
    if mechanism is Mechanism.DISCRETE_GAUSSIAN:
        guess = precision / 2 / (g + (1 - g) / n)
    else:
        guess = math.sqrt(2 * precision / (g**2 + (1 - g) ** 2 / n))
    guess = max(guess, float(least))
    step = Fraction(10) ** (math.floor(math.log10(guess)) + 1 - _TOTAL_DIGITS)

    def enough(steps: int) -> bool:
        share = steps * step
        return share > 0 and share >= least and _holds(mechanism, share, gamma, margin, cells)

    return first_enough(enough, int(Fraction(guess) / step)) * step


def _holds(
    mechanism: Mechanism, share: Fraction, gamma: Fraction, margin: int, cells: tuple[int, ...]
) -> bool:
    """Whether a group's total keeps a margin with this budget: with tables of each number of cells, and without one."""
    stage_1, stage_2, total_only = level_laws(mechanism, share, 1, gamma, "a level set")
    return (
        all(estimator_of(n, stage_1, stage_2, None, None).combined(n).margin <= margin for n in cells)
        and total_only.margin(CONFIDENCE) <= margin
    )


def _require_margin(margin: int) -> None:
    if not isinstance(margin, int) or margin < 1:
        raise BudgetError(
            f"the margin of error is {as_given(margin)}, wanted an integer of 1 or more. Give one."
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
    _require_margin(margin)
    if recipe == "printed":
        gaussian = mechanism is Mechanism.DISCRETE_GAUSSIAN
        # 1.92 is 1.96**2 / 2, rounded; sigma**2 = 1 / (2 rho).
        base = Fraction("1.92") / margin**2 if gaussian else LN_20 / (margin + 1)
    else:
        base = _least_base(mechanism, margin)
    # A stage-2 count has the part 1 - gamma of the share budget / s.
    return base * stability / (1 - stage_1_fraction)


@lru_cache(maxsize=256)
def _least_base(mechanism: Mechanism, margin: int) -> Fraction:
    """Smallest budget of one count whose margin is at most the wanted margin, to nine digits, rounded up."""
    # The printed formulas, in floats: only their size is used.
    guess = 1.92 / margin**2 if mechanism is Mechanism.DISCRETE_GAUSSIAN else math.log(20) / (margin + 1)
    # Nine significant digits of the result.
    step = Fraction(10) ** (math.floor(math.log10(guess)) + 1 - FACTOR_DIGITS)

    # Exact: the margin is that of the law, decided with certified tails.
    def enough(steps: int) -> bool:
        return steps > 0 and law_of(mechanism, steps * step).margin(CONFIDENCE) <= margin

    return first_enough(enough, int(Fraction(guess) / step)) * step


def plan_for_epsilon(plan: SafetabPlan, epsilon: Fraction, delta: Fraction) -> SafetabPlan:
    """The plan whose budgets are scaled until every run has at most this epsilon. The rounded budgets are certified.

    Raises:
        BudgetError: the target is out of range.
    """
    calibrated = calibrate_plan(plan, epsilon=epsilon, delta=delta)
    budgets = {level_set.place: level_set.budget for run in calibrated.runs for level_set in run.sets}
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
        budgets |= {level_set.place: level_set.budget / factor for level_set in run.sets}
    return with_budgets(plan, budgets)


def _noise_factor(run: RunPlan, epsilon: Fraction | str, delta: Fraction | str) -> Fraction:
    """Factor on every variance or scale of a run that meets the target, certified for all cases of the run.

    With Gaussian noise, split and total-only groups cost almost the same. So the single law without total-only groups
    determines the factor, and all cases with them certify it. With Laplace noise the cases differ, so all of them are
    used in the search.
    """
    from tallyveil.accounting.calibration import calibrate, scaled

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


def _epsilon(run: RunPlan, delta: Fraction) -> Fraction:
    return Fraction(compose(run.event(), neighbours=NEIGHBOURS).epsilon(delta).upper)


def write_parameters(source: Path, out: Path, plan: SafetabPlan) -> None:
    """Write a parameter folder: the lists of another one, and its config with what a plan calibrates.

    Args:
        source: The folder that the plan was made from.
        out: Folder to write to.
        plan: Has the new budgets, share of stage 1 and thresholds.
    Raises:
        ConfigError, StoreError: the folder cannot be read, or a file cannot be written.
    """
    values, _ = read_values(source)
    # All other keys stay as the user wrote them.
    values |= {budget_key(*place): budget for place, budget in plan.config.budgets.items()}
    values["privacy_budget_p_stage_1_fraction"] = plan.config.stage_1_fraction
    values["thresholds_p"] |= {
        f"({geography}, {level})": list(bounds)
        for (geography, level), bounds in plan.config.thresholds.items()
    }
    for form in _LISTS:
        path = find_file(source, form)
        copy_file(path, out / path.name)
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
