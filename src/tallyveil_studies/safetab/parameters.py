"""The paper's parameters (section F.1), its printed numbers, and its algorithm as a privacy event."""

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Final, Literal

from tallyveil.accounting.events import (
    AdaptiveEvent,
    DiscreteGaussian,
    DiscreteLaplace,
    Neighbours,
    ParallelEvent,
    PrivacyEvent,
    SequentialEvent,
)
from tallyveil.accounting.guarantee import compose, exact_parameters
from tallyveil.budget.strategy import Mechanism
from tallyveil_studies.exhibit import Comparison, PrintedClaim, PrintedNumber

DELTA: Final = Fraction(1, 10**10)
"""The delta of Table 2: 1e-10."""

GAMMA: Final = Fraction(1, 10)
"""Share of stage 1 in a group's budget, section F.1: 0.1."""

STABILITY: Final = 9
"""Groups of a level that a record is in, section F.1: 8 race codes and an ethnicity."""

LEVELS: Final = (
    "Nation, Detailed",
    "State, Detailed",
    "County, Detailed",
    "AIANNH, Detailed",
    "Nation, Regional",
    "State, Regional",
    "County, Regional",
)
"""Population group levels of Table 4, in its order. Table 1 has the same numbers."""

MARGINS: Final = (6, 6, 11, 11, 50, 50, 50)
"""Margins of error, in persons at 95 %, that Tables 1 and 4 ask of a cell at each of these levels."""

MECHANISMS: Final = {"Geometric": Mechanism.DISCRETE_LAPLACE, "Gaussian": Mechanism.DISCRETE_GAUSSIAN}

_PRINTED: Final = {
    ("Geometric", "step 2"): ("3.84", "3.84", "2.24", "2.24", "0.531", "0.531", "0.531"),
    ("Geometric", "total"): ("4.27", "4.27", "2.49", "2.49", "0.59", "0.59", "0.59"),
    ("Gaussian", "step 2"): ("0.481", "0.481", "0.143", "0.143", "0.007", "0.007", "0.007"),
    ("Gaussian", "total"): ("0.534", "0.534", "0.159", "0.159", "0.008", "0.008", "0.008"),
}
"""Budgets of Tables 1 and 4 as printed: epsilon for Geometric noise, rho for Gaussian."""

_REMARKS: Final = {
    (
        "Geometric",
        "step 2",
    ): "Nine tenths of the printed total, rounded; ours is nine tenths of the exact one.",
    ("Geometric", "total"): "Detailed levels are truncated, regional ones rounded.",
    (
        "Gaussian",
        "step 2",
    ): "Nine tenths of the printed total, rounded; ours is nine tenths of the exact one.",
    ("Gaussian", "total"): "The levels of margin 6 are rounded up, the others to nearest.",
}
TotalOnly = Literal["none", "nation and state", "all"]
NATIONWIDE_LEVELS: Final = ("Nation, Detailed", "State, Detailed")
"""Levels at which iterations may be TotalOnly: the detailed ones of nation and state."""


def printed_budgets(noise: str, part: str) -> tuple[PrintedNumber, ...]:
    """A column of Tables 1 and 4, "step 2" or "total", for "Geometric" (epsilon) or "Gaussian" (rho)."""
    remark = _REMARKS[noise, part]
    return tuple(PrintedNumber(text, "Tables 1 and 4", remark=remark) for text in _PRINTED[noise, part])


def printed_totals(noise: str) -> tuple[Fraction, ...]:
    """Budgets of the levels as printed."""
    return tuple(number.value for number in printed_budgets(noise, "total"))


def compared(
    quantity: str, text: str, ours: float, source: str, *, bound: bool = False, remark: str = ""
) -> Comparison:
    """A comparison of a printed number with ours."""
    kind = PrintedClaim.UPPER_BOUND if bound else PrintedClaim.VALUE
    return Comparison(quantity, PrintedNumber(text, source, kind, remark), ours)


def paper_event(noise: str, budgets: Sequence[Fraction], total_only: TotalOnly = "none") -> PrivacyEvent:
    """Algorithm 1 as a privacy event. There are seven levels, and a record is in nine groups of each level.

    Args:
        noise: "Geometric" or "Gaussian".
        budgets: Budgets of the levels.
        total_only: Levels in which every group is counted only by its total.
    """
    # The cost depends on how many groups are TotalOnly, so three cases are looked at.
    only = {"none": (), "nation and state": NATIONWIDE_LEVELS, "all": LEVELS}[total_only]
    return SequentialEvent(
        tuple(
            level_event(noise, budget, total_only=name in only)
            for name, budget in zip(LEVELS, budgets, strict=True)
        )
    )


def level_event(noise: str, budget: Fraction, *, total_only: bool = False) -> PrivacyEvent:
    """One level as a privacy event: a record is in nine groups of it."""
    # Each of a record's nine groups has a ninth of the level's budget.
    share = budget / STABILITY
    if total_only:
        return ParallelEvent((_count(noise, share),), STABILITY)
    # Four alternatives: the total, and sex by 4, 9 or 23 ages. One is made, at the rest of the share.
    tables = AdaptiveEvent((_count(noise, (1 - GAMMA) * share),) * 4)
    return ParallelEvent((SequentialEvent((_count(noise, GAMMA * share), tables)),), STABILITY)


@cache
def level_parameters(noise: str, budget: Fraction, *, total_only: bool = False) -> dict[str, float | None]:
    """Privacy parameters of one level alone: what stands beside the margin of error of its counts."""
    event = level_event(noise, budget, total_only=total_only)
    return exact_parameters(compose(event, neighbours=Neighbours.UNBOUNDED)).to_mapping()


def _count(noise: str, budget: Fraction) -> PrivacyEvent:
    """One count with a budget: epsilon (Geometric) or rho (Gaussian)."""
    if noise == "Geometric":
        return DiscreteLaplace(1 / budget)
    # rho = 1 / (2 sigma**2) for sensitivity 1.
    return DiscreteGaussian(1 / (2 * budget))
