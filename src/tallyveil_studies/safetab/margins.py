"""Tables 1 and 4: the budgets that given margins of error need."""

from fractions import Fraction
from typing import Any

import polars as pl

from tallyveil.noise.balls import rational
from tallyveil.products.safetab.public.levels import law_of
from tallyveil.products.safetab.public.privacy import budget_for_margin
from tallyveil_studies.comparison import Comparison
from tallyveil_studies.exhibit import Findings, StudyInputs
from tallyveil_studies.safetab.parameters import (
    GAMMA,
    LEVELS,
    MARGINS,
    MECHANISMS,
    STABILITY,
    level_parameters,
    printed_budgets,
)

SYMBOLS = {"Geometric": "epsilon", "Gaussian": "rho"}


def budgets_for_margins(_: StudyInputs) -> Findings:
    """The printed budgets, those of section F's formulas (corrected, unrounded), and the smallest for each margin."""
    rows = [_row(number) for number in range(len(LEVELS))]
    frame = pl.DataFrame(rows)
    comparisons = [
        Comparison(
            f"{part} {SYMBOLS[noise]}, {noise}, {level}", number, frame[f"{noise}: {part}, corrected"][place]
        )
        for noise in MECHANISMS
        for part in ("step 2", "total")
        for place, (level, number) in enumerate(zip(LEVELS, printed_budgets(noise, part), strict=True))
    ]
    return Findings(
        tables={"tables-1-and-4": frame, "tables-1-and-4-parameters": _parameters()},
        comparisons=tuple(comparisons),
        notes=(
            "Corrected: section F with 1 / (1 - gamma) where its text has 1 / gamma, which alone gives the tables. The "
            "paper truncates some totals, rounds others, and takes nine tenths of the rounded total as step 2.",
            "Exact: the least budget, to nine digits, whose noise is within the margin with at least 95 % probability. "
            "The formulas' coverage shows why it differs: Geometric noise covers less than 95 %, Gaussian more.",
        ),
    )


def exact_budgets(noise: str) -> tuple[Fraction, ...]:
    """The smallest budget of each level that gives its margin."""
    return tuple(_budget(noise, margin, exact=True) for margin in MARGINS)


def formula_budgets(noise: str) -> tuple[Fraction, ...]:
    """Budgets of section F's formulas, corrected and unrounded."""
    return tuple(_budget(noise, margin, exact=False) for margin in MARGINS)


def _row(place: int) -> dict[str, str | int | float]:
    row: dict[str, Any] = {"level": LEVELS[place], "margin": MARGINS[place]}
    for noise in MECHANISMS:
        # False: the formulas of section F; True: the least budget whose law keeps the margin.
        corrected, exact = (_budget(noise, MARGINS[place], exact=x) for x in (False, True))
        for part, share in (("step 2", 1 - GAMMA), ("total", Fraction(1))):
            row[f"{noise}: {part}, printed"] = float(printed_budgets(noise, part)[place].value)
            row[f"{noise}: {part}, corrected"] = float(share * corrected)
            row[f"{noise}: {part}, exact"] = float(share * exact)
        row[f"{noise}: coverage, corrected"] = _coverage(noise, corrected, MARGINS[place])
        row[f"{noise}: coverage, exact"] = _coverage(noise, exact, MARGINS[place])
        row[f"{noise}: remark"] = printed_budgets(noise, "total")[place].remark + (
            " The corrected formula covers less than 95 %."
            # Geometric noise falls short, Gaussian noise overshoots: the formulas are approximations.
            if row[f"{noise}: coverage, corrected"] < 0.95
            else " The corrected formula costs more than 95 % needs."
        )
    return row


def _parameters() -> pl.DataFrame:
    """Privacy parameters of each level alone, with the budgets of the formulas and with the smallest ones."""

    return pl.DataFrame(
        [
            {"level": level, "margin": margin, "noise": noise, "budgets": kind, "total": float(budget)}
            | level_parameters(noise, budget)
            for place, (level, margin) in enumerate(zip(LEVELS, MARGINS, strict=True))
            for noise in MECHANISMS
            for kind, budget in (
                ("corrected", formula_budgets(noise)[place]),
                ("exact", exact_budgets(noise)[place]),
            )
        ],
        infer_schema_length=None,
    )


def _budget(noise: str, margin: int, *, exact: bool) -> Fraction:
    return budget_for_margin(
        MECHANISMS[noise],
        margin,
        stability=STABILITY,
        stage_1_fraction=GAMMA,
        recipe="exact" if exact else "printed",
    )


def _coverage(noise: str, budget: Fraction, margin: int) -> float:
    """Chance that the noise of a count of stage 2 lies within the margin."""
    # A cell of stage 2 has the part 1 - gamma of the share.
    law = law_of(MECHANISMS[noise], (1 - GAMMA) * budget / STABILITY)
    return float((2 * law.cdf(margin) - rational(Fraction(1))).mid())
