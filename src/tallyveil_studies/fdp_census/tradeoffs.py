"""Figures 4, 12 and 13: trade-off functions."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import polars as pl

from tallyveil.accounting import Guarantee
from tallyveil.accounting.numbers import at_least
from tallyveil.arrays import Floats
from tallyveil.report.drawing import Line, LinePanel, LinePlot, Role
from tallyveil_studies.exhibit import Findings, StudyInputs
from tallyveil_studies.fdp_census.allocation import (
    RHO,
    geolevel_guarantee,
    geolevel_rho,
    overall_guarantee,
    overall_reduced_noise,
    reduced_noise,
    variances,
)
from tallyveil_studies.fdp_census.printed import printed
from tallyveil_studies.fdp_census.profiles import BUREAU, OURS, REDUCED
from tallyveil_studies.fdp_census.zcdp_curves import zcdp_tradeoff

ZOOM = (1e-15, 1e-8)
"""False positive rates of Figure 13: around where the two curves of the County cross."""


@dataclass(frozen=True, slots=True)
class _TradeoffCase:
    """One panel: the Bureau's cost, and exact guarantees by label."""

    rho: Fraction
    exact: tuple[tuple[str, Role, Guarantee], ...]


def geolevel_tradeoffs(_: StudyInputs) -> Findings:
    """Figure 4: every geolevel, with the same and with reduced noise."""
    return _findings("figure-4", {name: _geolevel_case(v) for name, v in variances().items()}, columns=4)


def overall_tradeoff(_: StudyInputs) -> Findings:
    """Figure 12: all geolevels together."""
    # The reduction that the paper prints, drawn beside ours.
    paper_factor = 1 - printed("figure-7")["reduction in percent"].value / 100
    reduced = overall_reduced_noise()
    case = _TradeoffCase(
        RHO,
        (
            (OURS, Role.OURS, overall_guarantee()),
            ("exact, noise reduced by 8.59 %", Role.OTHER, overall_guarantee(paper_factor)),
            (
                f"exact, noise reduced by {at_least(100 * (1 - reduced.factor), places=2)} %",
                Role.REDUCED,
                reduced.guarantee,
            ),
        ),
    )
    wide = _findings("figure-12", {"all eight geolevels": case}, columns=1)
    # Logarithmic near both corners.
    near_zero = np.geomspace(1e-7, 0.5, 80)
    corner_alphas = np.concatenate([near_zero, 1 - near_zero[::-1]])
    frame, lines = _curves("all eight geolevels", case, corner_alphas)
    corner = LinePlot(
        panels=(LinePanel("all eight geolevels", lines),),
        columns=1,
        x_label="false positive rate",
        y_label="least false negative rate",
        log_x=True,
        log_y=True,
        x_limits=(1e-7, 1.0),
        y_limits=(1e-7, 1.5),
    )
    return Findings(
        tables={**wide.tables, "figure-12-corner": frame},
        drawings={**wide.drawings, "figure-12-corner": corner},
        notes=(
            "The second plot has logarithmic axes: on plain ones the Bureau's curve cannot be told from 0.",
        ),
    )


def county_zoom(_: StudyInputs) -> Findings:
    """Figure 13: the County's curves where they cross, near a false positive rate of 0."""
    case = _geolevel_case(variances()["County"])
    alphas = np.geomspace(*ZOOM, 121)
    frame, lines = _curves("County", case, alphas)
    # Power of the best test; relative to the Bureau's, since the curves themselves cannot be told apart.
    bureau = 1 - np.asarray(lines[0].y)
    relative = tuple(Line(line.label, line.role, line.x, (1 - np.asarray(line.y)) / bureau) for line in lines)
    plot = LinePlot(
        panels=(LinePanel("County", relative),),
        columns=1,
        x_label="false positive rate",
        y_label="power of the best test (Bureau's = 1)",
        log_x=True,
        x_limits=ZOOM,
    )
    return Findings(
        tables={"figure-13": frame},
        drawings={"figure-13": plot},
        notes=(
            "Drawn is 1 − the least false negative rate, relative to the Bureau's; below 1 is more private. "
            "The curves themselves are too close to be told apart.",
            "The caption says 8.59 percent; a single geolevel's noise is reduced as in Table 1, 17.58 percent for "
            "the County, which is drawn here.",
            _crossing(case),
        ),
    )


def _geolevel_case(variance: Fraction) -> _TradeoffCase:
    return _TradeoffCase(
        geolevel_rho(variance),
        (
            (OURS, Role.OURS, geolevel_guarantee(variance)),
            (REDUCED, Role.REDUCED, reduced_noise(variance).guarantee),
        ),
    )


def _crossing(case: _TradeoffCase) -> str:
    """The point where the curve of the reduced noise crosses the Bureau's curve, in words."""
    alphas = np.geomspace(1e-15, 1e-3, 241)
    # The lower bound, so that a crossing is certain.
    exact = np.array([case.exact[1][2].beta(alpha).lower for alpha in alphas.tolist()])
    # The Bureau's curve is the larger here: less noise is less private at these rates.
    below = alphas[exact < zcdp_tradeoff(case.rho, alphas)]
    if below.size == 0:
        return "The curve with reduced noise is nowhere below the Bureau's, as far as was looked (1e-15)."
    return (
        "With reduced noise the exact curve is below the Bureau's for false positive rates up to "
        f"{below.max():.1e}, and above it for all larger ones."
    )


def _findings(name: str, cases: dict[str, _TradeoffCase], *, columns: int) -> Findings:
    alphas = _alphas()
    frames, panels = [], []
    for title, case in cases.items():
        frame, lines = _curves(title, case, alphas)
        frames.append(frame)
        panels.append(LinePanel(title, lines))
    plot = LinePlot(
        panels=tuple(panels),
        columns=columns,
        x_label="false positive rate",
        y_label="least false negative rate",
        x_limits=(0.0, 1.0),
        y_limits=(0.0, 1.0),
        square=True,
    )
    return Findings(tables={name: pl.concat(frames)}, drawings={name: plot})


def _alphas() -> Floats:
    """False positive rates, closer together near both ends, where the curves bend."""
    near_zero = np.geomspace(1e-6, 0.05, 24)
    # 0 and 1 themselves, where the curve begins and ends.
    return np.concatenate([[0.0], near_zero, np.linspace(0.07, 0.93, 44), 1 - near_zero[::-1], [1.0]])


def _curves(title: str, case: _TradeoffCase, alphas: Floats) -> tuple[pl.DataFrame, tuple[Line, ...]]:
    bureau = zcdp_tradeoff(case.rho, alphas)
    columns = {"panel": [title] * alphas.size, "alpha": alphas, "bureau": bureau}
    lines = [Line(BUREAU, Role.PUBLISHED, alphas, bureau)]
    for label, role, guarantee in case.exact:
        bounds = [guarantee.beta(alpha) for alpha in alphas.tolist()]
        # The lower bound of beta is drawn: it is what is guaranteed.
        lower = columns[f"{label}: lower"] = np.array([bound.lower for bound in bounds])
        columns[f"{label}: upper"] = np.array([bound.upper for bound in bounds])
        lines.append(Line(label, role, alphas, lower))
    return pl.DataFrame(columns), tuple(lines)
