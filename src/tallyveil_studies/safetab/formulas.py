"""Margins by the paper's formulas beside exact ones (D.3, E.2), and stability accounting beside composition (D.1.1)."""

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Final

import polars as pl

from tallyveil.accounting.engines.tails import fraction_bounds
from tallyveil.accounting.guarantee import pure_parameters, zcdp_parameters
from tallyveil.accounting.numbers import at_most
from tallyveil.accounting.renyi import zcdp_to_epsilon
from tallyveil.noise.balls import rational
from tallyveil.noise.laws import DiscreteLaplace, Law
from tallyveil.products.safetab.public.levels import law_of
from tallyveil_studies.exhibit import Findings, StudyInputs
from tallyveil_studies.safetab.parameters import (
    DELTA,
    GAMMA,
    LEVELS,
    MARGINS,
    MECHANISMS,
    STABILITY,
    level_parameters,
    printed_totals,
)

CONFIDENCES: Final = (Fraction(9, 10), Fraction(19, 20), Fraction(99, 100))
"""Confidences at which equation 35 is looked at. The paper states margins at 95 % alone; the other two are
ours, to show that its rounding down matters at any confidence."""

PAPER_CONFIDENCE: Final = Fraction(19, 20)
"""The confidence of equation 36, and the only one for which the paper gives a formula for the discrete Gaussian."""

_SHARES: Final = {"total-only total": Fraction(1), "cell of stage 2": 1 - GAMMA}
_SHORT: Final = "Covers less than stated: the formula rounds down, and must round up."


def margins_by_formula(_: StudyInputs) -> Findings:
    """Equations 35 and 36, and floor(1.96 sigma), at the printed budgets; their coverage, and the least margins."""
    frame = pl.DataFrame(list(_margin_rows()), infer_schema_length=None)
    short = frame.filter(pl.col("remark") == _SHORT).height
    return Findings(
        tables={"margins": frame},
        notes=(
            "Equation 35 gives the margin of Geometric noise at confidence 1 - p, and equation 36 is the case p = 5 %. "
            "Both round down. For the discrete Gaussian the paper has floor(1.96 sigma).",
            "The least margin is the least whole number whose interval has at least the confidence, by the law. "
            f"Of {frame.height} margins by formula, {short} cover less than the confidence.",
            "Epsilon at three deltas, beta and mu are of the level alone, whose groups have this table.",
        ),
    )


def stability_accounting(_: StudyInputs) -> Findings:
    """What accounting by stability would cost, beside generalised parallel composition, at the printed budgets."""
    rows = [row for noise in MECHANISMS for row in _stability_rows(noise)]
    frame = pl.DataFrame(rows, infer_schema_length=None)
    rho = sum(printed_totals("Gaussian"), Fraction(0))
    both = [zcdp_to_epsilon(times * rho, DELTA) for times in (1, STABILITY)]
    return Findings(
        tables={"stability": frame},
        notes=(
            "A record is in nine groups of a level. Stability accounting treats a level as one query of sensitivity 9. "
            "Generalised parallel composition treats it as nine queries of sensitivity 1.",
            "With Geometric noise both cost the same. With the discrete Gaussian stability accounting costs nine times "
            "the rho for the same noise, because rho is proportional to the square of the sensitivity.",
            f"For the printed rho of {float(rho)} epsilon at delta 1e-10 is {at_most(both[0], 5)} by composition, and "
            f"{at_most(both[1], 5)} by stability for the same noise (optimal conversion from rho).",
            "Epsilon at three deltas, beta and mu are of the level alone: exact for composition, and from the budget "
            "alone for stability accounting with the same budget.",
        ),
    )


def printed_margin(law: Law, confidence: Fraction) -> float:
    """The paper's margin before it is rounded down: equation 35 for Geometric noise, 1.96 sigma for the Gaussian."""
    if isinstance(law, DiscreteLaplace):
        # Equation 35 solved for the margin; b = 1 / epsilon.
        b = float(law.scale)
        return b * math.log(2 / (float(1 - confidence) * (1 + math.exp(1 / b))))
    # The normal quantile: the paper has no formula of its own for the discrete law.
    return 1.96 * math.sqrt(float(law.variance))


def _margin_rows() -> Iterator[dict[str, str | int | float | None]]:
    for noise, mechanism in MECHANISMS.items():
        for level, wanted, budget in zip(LEVELS, MARGINS, printed_totals(noise), strict=True):
            for number, share in _SHARES.items():
                law = law_of(mechanism, share * budget / STABILITY)
                for confidence in CONFIDENCES if noise == "Geometric" else (PAPER_CONFIDENCE,):
                    formula = printed_margin(law, confidence)
                    # The paper rounds down.
                    covered, least = _coverage(law, math.floor(formula)), law.margin(confidence)
                    remark = _SHORT if covered < confidence else ""
                    yield {
                        "noise": noise,
                        "level": level,
                        "number": number,
                        "target": wanted if number != "total-only total" else None,
                        "confidence": float(confidence),
                        "formula": formula,
                        "margin by formula": math.floor(formula),
                        "coverage": covered,
                        "least margin": least,
                        "coverage of the least": _coverage(law, least),
                        "remark": remark,
                        **level_parameters(noise, budget, total_only=share == 1),
                    }


def _coverage(law: Law, margin: int) -> float:
    # P(|noise| <= m) = 2 P(noise <= m) - 1, because the law is symmetric.
    return float((2 * law.cdf(margin) - rational(Fraction(1))).mid())


def _stability_rows(noise: str) -> Iterator[dict[str, str | int | float | None]]:
    """One query of sensitivity s costs s times (epsilon) or s**2 times (rho) what a query of sensitivity 1 does."""
    # epsilon grows with the sensitivity, rho with its square.
    power = 1 if noise == "Geometric" else 2
    for level, budget in zip(LEVELS, printed_totals(noise), strict=True):
        cell = (1 - GAMMA) * budget
        laws = {"composition": cell / STABILITY, "stability": cell / STABILITY**power}
        margins = {
            name: law_of(MECHANISMS[noise], share).margin(PAPER_CONFIDENCE) for name, share in laws.items()
        }
        by_stability = (
            pure_parameters(fraction_bounds(budget).upper)
            if noise == "Geometric"
            else zcdp_parameters(budget)
        )
        yield {
            "noise": noise,
            "level": level,
            "budget": float(budget),
            "budget by stability, same noise": float(budget * STABILITY ** (power - 1)),
            "margin of a cell, composition": margins["composition"],
            "margin of a cell, stability, same budget": margins["stability"],
            **{f"composition: {name}": value for name, value in level_parameters(noise, budget).items()},
            **{f"stability: {name}": value for name, value in by_stability.to_mapping().items()},
        }
