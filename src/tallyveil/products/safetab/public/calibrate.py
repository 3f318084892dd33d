"""Parameter folders with other budgets: those that margins of error need, or that an epsilon allows.

Source: SafeTab (Haney et al.), section F.1. Its text has rho = rho_base / gamma, which must be rho_base / (1 - gamma):
the margin is that of stage 2, which has the share 1 - gamma. Table 4 agrees with the latter.
"""

import json
import re
import shutil
from collections.abc import Mapping
from decimal import Context, Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Final

from tallyveil.accounting.composition import compose
from tallyveil.accounting.decimals import at_least, at_most
from tallyveil.errors import BudgetError, ConfigError
from tallyveil.products.safetab.public.config import (
    CONFIG,
    GEOGRAPHIES,
    LEVELS,
    Level,
    budget_key,
    read_values,
)
from tallyveil.products.safetab.public.files import (
    CODE_TO_ITERATION,
    CODES,
    ETHNICITY_ITERATIONS,
    RACE_ITERATIONS,
    find_file,
)
from tallyveil.products.safetab.public.levels import NEIGHBOURS
from tallyveil.products.safetab.public.plan import RunPlan, SafetabPlan, with_budgets
from tallyveil.products.safetab.public.privacy import Recipe, budget_for_margin, calibrate_plan
from tallyveil.storage.write import write_file, write_text

DIGITS: Final = 12
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
        f"the budgets that give epsilon {epsilon} at delta {delta} could not be written with {DIGITS} digits. Give "
        "a slightly different epsilon or delta."
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
    return Fraction((at_most if up else at_least)(budget, DIGITS))


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
