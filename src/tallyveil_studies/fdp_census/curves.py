"""Curves of a guarantee, exact and by zCDP: profiles, epsilon at given deltas, and trade-off functions.

They are Figures 2, 5, 7 and 11; Figures 3, 14 and 15; Figures 4, 12 and 13.

The paper accounts for all geolevels together by delta(epsilon) < P(L > epsilon), the first term alone. It
drops the second term, exp(epsilon) Q(L > epsilon), because floats could not hold it (Section A.6).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
import polars as pl
from scipy.optimize import brentq

from tallyveil.accounting import Guarantee, zcdp_to_epsilon, zcdp_to_epsilon_textbook
from tallyveil.accounting.engines.tilted_fft import TiltedFFT
from tallyveil.accounting.guarantee import exact_parameters
from tallyveil.accounting.losses import loss_law_of, of_integers
from tallyveil.accounting.numbers import at_least, at_most
from tallyveil.arrays import Floats
from tallyveil.report.drawing import DotPanel, DotPlot, Dots, Line, LinePanel, LinePlot, Role
from tallyveil_studies.exhibit import Comparison, Findings, StudyInputs
from tallyveil_studies.fdp_census.allocation import (
    DELTA,
    OVERALL_DELTA,
    RHO,
    compared,
    geolevel_guarantee,
    geolevel_rho,
    overall_event,
    overall_guarantee,
    overall_reduced_noise,
    printed,
    reduced_noise,
    variances,
)
from tallyveil_studies.fdp_census.table_1 import overall_least_noise


def zcdp_log_delta(rho: Fraction, epsilons: Floats) -> Floats:
    """ln delta with epsilon = rho + 2 sqrt(rho ln(1 / delta)); 0 up to epsilon = rho.

    Source: Bun and Steinke 2016, Proposition 1.3.
    """
    # At epsilon <= rho the conversion promises nothing: delta 1, logarithm 0.
    excess = np.maximum(epsilons - float(rho), 0.0)
    return -(excess**2) / (4 * float(rho))


def zcdp_tradeoff(rho: Fraction, alphas: Floats, points: int = 4001) -> Floats:
    """Trade-off function of that curve: the largest over epsilon of what each (epsilon, delta) promises.

    Args:
        rho: Cost.
        alphas: False positive rates.
        points: Epsilons tried, from 0 to where delta is 1e-30.
    Source: Dong, Roth and Su 2022, Proposition 2.12.
    """
    epsilons = np.linspace(0.0, float(rho) + 2 * np.sqrt(float(rho) * 30 * np.log(10)), points)
    deltas = np.exp(zcdp_log_delta(rho, epsilons))
    best = np.zeros_like(alphas)
    for epsilon, delta in zip(epsilons, deltas, strict=True):
        room = 1 - delta
        # Two lines for each (epsilon, delta): the function and its inverse are equal by symmetry.
        best = np.maximum(best, room - np.exp(epsilon) * alphas)
        best = np.maximum(best, np.exp(-epsilon) * (room - alphas))
    return best


POINTS = 121
"""Points of a drawn curve: enough for a straight line between them to be invisible."""

SMALLEST_DELTA = Fraction("1e-15")
"""Smallest delta of the figures' axes, where a curve ends."""

FOLDS_ACS = 1890
"""Queries of Figure 11: the columns of four tables of the American Community Survey."""

VARIANCES_ACS = (200, 400)
"""Variances of Figure 11."""

BUREAU = "Bureau (zCDP)"
OURS = "exact"
REDUCED = "exact, with reduced noise"


@dataclass(frozen=True, slots=True)
class Curve:
    """One guarantee that is drawn as an (epsilon, delta) curve."""

    label: str
    role: Role
    guarantee: Guarantee


def geolevel_profiles(_: StudyInputs) -> Findings:
    """Figure 2: the same noise, accounted for exactly and by zCDP."""
    curves = {
        geolevel: (geolevel_rho(variance), (Curve(OURS, Role.OURS, geolevel_guarantee(variance)),))
        for geolevel, variance in variances().items()
    }
    # delta at epsilon 0 is the total variation distance.
    zero = {geolevel: curve.guarantee.delta(0).upper for geolevel, (_, (curve,)) in curves.items()}
    return _profile_findings(
        "figure-2",
        curves,
        columns=4,
        notes=(
            "At epsilon = 0 the exact delta (the total variation distance) is "
            + ", ".join(f"{name} {at_most(value, places=3)}" for name, value in zero.items())
            + ", where zCDP says 1.",
        ),
    )


def reduced_profiles(_: StudyInputs) -> Findings:
    """Figure 5: our reduced noise against the Bureau's larger noise; both meet at delta 1e-11."""
    curves = {
        geolevel: (
            geolevel_rho(variance),
            (Curve(REDUCED, Role.REDUCED, reduced_noise(variance).guarantee),),
        )
        for geolevel, variance in variances().items()
    }
    return _profile_findings(
        "figure-5",
        curves,
        columns=4,
        mark=(DELTA, "1e-11"),
        notes=(
            "The paper's caption says trade-off functions; its text, and where the curves meet (at a delta), "
            "say (epsilon, delta) curves, which are drawn here. The trade-off functions are in Figure 4.",
        ),
    )


def many_folds(_: StudyInputs) -> Findings:
    """Figure 11: 1,890 equal queries, as many as columns in four ACS tables."""
    curves = {
        f"variance {variance}, n = {FOLDS_ACS:,}": (
            geolevel_rho(Fraction(variance), FOLDS_ACS),
            (Curve(OURS, Role.OURS, geolevel_guarantee(Fraction(variance), FOLDS_ACS)),),
        )
        for variance in VARIANCES_ACS
    }
    gains = [
        f"{name}: epsilon at 1e-11 {at_most(curve.guarantee.epsilon(DELTA).upper, places=4)} "
        f"instead of {at_most(zcdp_to_epsilon_textbook(rho, DELTA), places=4)}"
        for name, (rho, (curve,)) in curves.items()
    ]
    return _profile_findings("figure-11", curves, columns=2, notes=tuple(gains))


def overall_profile(_: StudyInputs) -> Findings:
    """Figure 7: all geolevels together, exactly; the paper's upper bound; and with reduced noise."""
    reduced = overall_reduced_noise()
    # The reduction that the paper prints, accounted for exactly.
    paper_factor = 1 - printed("figure-7")["reduction in percent"].value / 100
    curves = {
        "all eight geolevels": (
            RHO,
            (
                Curve(OURS, Role.OURS, overall_guarantee()),
                Curve("exact, noise reduced by 8.59 %", Role.OTHER, overall_guarantee(paper_factor)),
                Curve(
                    f"exact, noise reduced by {at_least(100 * (1 - reduced.factor), places=2)} %",
                    Role.REDUCED,
                    reduced.guarantee,
                ),
            ),
        )
    }
    bureau = zcdp_to_epsilon_textbook(RHO, OVERALL_DELTA)
    # The paper's number comes out by the paper's method, not by the exact delta.
    by_first_term = first_term_reduction(bureau)
    ours = {"Bureau, delta 1e-10": bureau, "reduction in percent": by_first_term}
    findings = _profile_findings(
        "figure-7", curves, columns=1, mark=(OVERALL_DELTA, "1e-10"), first_term=True
    )
    exact = overall_guarantee().epsilon(OVERALL_DELTA)
    return Findings(
        tables={
            **findings.tables,
            "figure-7-values": _overall_values(bureau, exact.upper, by_first_term),
            "figure-7-parameters": _overall_parameters(paper_factor),
        },
        comparisons=compared("figure-7", ours, "all geolevels"),
        drawings=findings.drawings,
        notes=(
            f"The exact epsilon at 1e-10 is {at_most(exact.upper, places=6)}, and the noise can be reduced by "
            f"{at_least(100 * (1 - reduced.factor), places=2)} percent; the paper's method, which keeps the "
            f"first term of delta only, gives {by_first_term:.2f} percent.",
        ),
    )


def _overall_values(bureau: float, exact: float, by_first_term: float) -> pl.DataFrame:
    """Epsilon of all geolevels together, and how much smaller their noise can be, by several methods."""
    first_term = "variance reduction in percent, first term only"
    values = {
        "epsilon at 1e-10, Bureau": bureau,
        "epsilon at 1e-10, exact": exact,
        first_term: by_first_term,
        # 21.97 is the Bureau's epsilon as the text rounds it; the reduction depends on it.
        f"{first_term}, from epsilon 21.97": first_term_reduction(21.97),
        "variance reduction in percent, exact": float(100 * (1 - overall_reduced_noise().factor)),
        "variance reduction in percent, exact, at every delta of 1e-10 or more": float(
            100 * (1 - overall_least_noise().factor)
        ),
    }
    return pl.DataFrame({"quantity": list(values), "value": list(values.values())})


def _overall_parameters(paper_factor: Fraction) -> pl.DataFrame:
    """Privacy parameters of all geolevels together before and after their noise is reduced."""
    factors = {
        "Bureau's": Fraction(1),
        "reduced as in the paper": paper_factor,
        "reduced, exact": overall_reduced_noise().factor,
    }
    return pl.DataFrame(
        [
            {
                "noise": noise,
                "variance_reduction_percent": float(100 * (1 - factor)),
                **exact_parameters(overall_guarantee(factor)).to_mapping(),
            }
            for noise, factor in factors.items()
        ]
    )


def _profile_findings(
    name: str,
    curves: Mapping[str, tuple[Fraction, tuple[Curve, ...]]],
    *,
    columns: int,
    mark: tuple[Fraction, str] | None = None,
    notes: tuple[str, ...] = (),
    first_term: bool = False,
) -> Findings:
    """The curves of several panels and the Bureau's curves, as a table and a drawing."""
    frames, panels = [], []
    for title, (rho, exact) in curves.items():
        # A little beyond where the Bureau's curve leaves the plot.
        end = 1.04 * zcdp_to_epsilon_textbook(rho, SMALLEST_DELTA)
        epsilons = np.linspace(0.0, end, POINTS)
        # As logarithms first: small deltas would underflow in between.
        bureau = np.exp(zcdp_log_delta(rho, epsilons))
        columns_of = {"panel": [title] * POINTS, "epsilon": epsilons, "bureau": bureau}
        lines = [Line(BUREAU, Role.PUBLISHED, epsilons, bureau)]
        if first_term:
            columns_of["first_term_only"] = first_terms(epsilons)
            lines.append(Line("first term only (the paper)", Role.PRINTED, epsilons, first_terms(epsilons)))
        for curve in exact:
            bounds = curve.guarantee.profile_curve(epsilons.tolist())
            columns_of[f"{curve.label}: lower"] = np.array([bound.lower for bound in bounds])
            upper = columns_of[f"{curve.label}: upper"] = np.array([bound.upper for bound in bounds])
            # The upper bound is drawn; both bounds are in the table.
            lines.append(Line(curve.label, curve.role, epsilons, upper))
        frames.append(pl.DataFrame(columns_of))
        panels.append(LinePanel(title, tuple(lines), ((float(mark[0]), mark[1]),) if mark else ()))
    plot = LinePlot(
        panels=tuple(panels),
        columns=columns,
        x_label="epsilon",
        y_label="delta",
        log_y=True,
        y_limits=(float(SMALLEST_DELTA), 2.0),
    )
    return Findings(tables={name: pl.concat(frames)}, drawings={name: plot}, notes=notes)


def first_terms(epsilons: Floats) -> Floats:
    """P(L > epsilon) of all geolevels together, rounded up."""
    engine = TiltedFFT(of_integers(loss_law_of(overall_event())))
    # Logarithms until here: tails of 1e-300 and less are no floats.
    return np.array([math.exp(engine.log_tails(epsilon).log_first.upper) for epsilon in epsilons.tolist()])


@cache
def first_term_reduction(epsilon: float) -> float:
    """Percent by which all variances could be reduced at an epsilon, if delta were equal to P(L > epsilon).

    Args:
        epsilon: The epsilon to keep, at OVERALL_DELTA.
    """
    log_delta = math.log(float(OVERALL_DELTA))

    def excess(factor: float) -> float:
        # With eight digits, the losses have a common lattice that is not too large.
        exact = Fraction(round(factor * 10**8), 10**8)
        engine = TiltedFFT(of_integers(loss_law_of(overall_event(exact))))
        return engine.log_tails(epsilon).log_first.upper - log_delta

    # From four fifths of the variances to all of them; the root lies near 0.914.
    return 100 * (1 - float(brentq(excess, 0.8, 1.0, xtol=1e-7)))


_SHOWN = (("1e-11", DELTA), ("1e-5", Fraction("1e-5")))
_EXPONENTS = tuple(Fraction(half, 2) for half in range(-32, -1))  # delta from 1e-16 to 0.1
BEST_ZCDP = "best conversion of zCDP"


def epsilons(_: StudyInputs) -> Findings:
    """Figure 3: epsilon of every geolevel at delta 1e-11 and 1e-5."""
    rows = []
    for geolevel, variance in variances().items():
        rho = geolevel_rho(variance)
        for name, delta in _SHOWN:
            exact = geolevel_guarantee(variance).epsilon(delta)
            bureau = zcdp_to_epsilon_textbook(rho, delta)
            rows.append(
                {
                    "geolevel": geolevel,
                    "delta": name,
                    "bureau": bureau,
                    "best_zcdp": zcdp_to_epsilon(rho, delta),
                    "exact_lower": exact.lower,
                    "exact_upper": exact.upper,
                    # From the upper bound, so that a reduction is never overstated.
                    "reduction_percent": 100 * (1 - exact.upper / bureau),
                }
            )
    table = pl.DataFrame(rows)
    plot = DotPlot(
        rows=tuple(variances()),
        panels=tuple(_panel(table.filter(delta=name), name) for name, _ in _SHOWN),
        columns=2,
    )
    return Findings(
        tables={"figure-3": table},
        comparisons=_comparisons(table),
        drawings={"figure-3": plot},
        notes=(
            "The best conversion of zCDP needs no knowledge of the noise beyond rho (Canonne, Kamath, Steinke); "
            "it accounts for part of the difference.",
        ),
    )


def _comparisons(table: pl.DataFrame) -> tuple[Comparison, ...]:
    def of(geolevel: str, delta: str, column: str) -> float:
        return float(table.filter(geolevel=geolevel, delta=delta)[column].item())

    state = {
        f"{label}, delta {name}": of("State", name, column)
        for label, column in (("Bureau", "bureau"), ("ours", "exact_upper"))
        for name, _ in _SHOWN
    }
    # The paper states its reductions at this delta.
    gains = table.filter(delta="1e-11")["reduction_percent"]
    least, most = float(gains.min()), float(gains.max())  # type: ignore[arg-type]
    return (
        *compared("figure-3", state, "epsilon, State"),
        *compared("figure-3-national", {"Bureau, delta 1e-11": of("US", "1e-11", "bureau")}, "epsilon, US"),
        *compared(
            "figure-3-reduction",
            {"least, at the State": least, "most, at the Block": most},
            "epsilon lower by percent",
        ),
        *compared(
            "figure-3-reduction-introduction", {"least": least, "most": most}, "epsilon lower by percent"
        ),
    )


def _panel(table: pl.DataFrame, name: str) -> DotPanel:
    return DotPanel(
        f"delta = {name}",
        (
            Dots(BUREAU, Role.PUBLISHED, tuple(table["bureau"])),
            Dots(BEST_ZCDP, Role.OTHER, tuple(table["best_zcdp"])),
            Dots(OURS, Role.OURS, tuple(table["exact_upper"])),
        ),
        x_label="epsilon",
        notes=tuple(f"−{value:.1f} %" for value in table["reduction_percent"]),
    )


def improvements(_: StudyInputs) -> Findings:
    """Figure 14: how much smaller the exact epsilon is, at every delta."""
    return _improvement("figure-14", "improvement", "epsilon smaller by")


def relative_improvements(_: StudyInputs) -> Findings:
    """Figure 15: how many percent smaller the exact epsilon is, at every delta."""
    return _improvement("figure-15", "improvement_percent", "epsilon smaller by (percent)")


def _improvement(name: str, column: str, label: str) -> Findings:
    table = _improvement_table()
    panels = []
    for geolevel in variances():
        part = table.filter(geolevel=geolevel)
        panels.append(
            LinePanel(
                geolevel,
                (
                    Line(
                        "exact, less than the Bureau's",
                        Role.OURS,
                        part["delta"].to_list(),
                        part[column].to_list(),
                    ),
                    Line(
                        f"{BEST_ZCDP}, less than the Bureau's",
                        Role.OTHER,
                        part["delta"].to_list(),
                        part[f"best_zcdp_{column}"].to_list(),
                    ),
                ),
            )
        )
    highest = float(np.max(table[column].to_numpy()))
    plot = LinePlot(
        panels=tuple(panels),
        columns=4,
        x_label="delta",
        y_label=label,
        log_x=True,
        x_limits=(1e-16, 0.1),
        # One scale for all panels, so that geolevels can be compared.
        y_limits=(0.0, 1.05 * highest),
    )
    return Findings(
        tables={name: table},
        drawings={name: plot},
        notes=(
            "The steps at the State and the Tract Subset are real: losses live on a lattice, coarse where noise is "
            "small, and delta falls in bends between its points.",
        ),
    )


@cache
def _improvement_table() -> pl.DataFrame:
    rows = []
    for geolevel, variance in variances().items():
        # One composition serves all deltas of a geolevel.
        rho, guarantee = geolevel_rho(variance), geolevel_guarantee(variance)
        for exponent in _EXPONENTS:
            # The float of a half power of ten, taken exactly.
            delta = Fraction(10.0 ** float(exponent))
            bureau = zcdp_to_epsilon_textbook(rho, delta)
            best = zcdp_to_epsilon(rho, delta)
            exact = guarantee.epsilon(delta).upper
            rows.append(
                {
                    "geolevel": geolevel,
                    "delta": float(delta),
                    "bureau": bureau,
                    "best_zcdp": best,
                    "exact": exact,
                    "improvement": bureau - exact,
                    "improvement_percent": 100 * (1 - exact / bureau),
                    "best_zcdp_improvement": bureau - best,
                    "best_zcdp_improvement_percent": 100 * (1 - best / bureau),
                }
            )
    return pl.DataFrame(rows)


ZOOM = (1e-15, 1e-8)
"""False positive rates of Figure 13: around where the two curves of the County cross."""


@dataclass(frozen=True, slots=True)
class _TradeoffCase:
    """One panel: the Bureau's cost, and exact guarantees by label."""

    rho: Fraction
    exact: tuple[tuple[str, Role, Guarantee], ...]


def geolevel_tradeoffs(_: StudyInputs) -> Findings:
    """Figure 4: every geolevel, with the same and with reduced noise."""
    return _tradeoff_findings(
        "figure-4", {name: _geolevel_case(v) for name, v in variances().items()}, columns=4
    )


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
    wide = _tradeoff_findings("figure-12", {"all eight geolevels": case}, columns=1)
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


def _tradeoff_findings(name: str, cases: dict[str, _TradeoffCase], *, columns: int) -> Findings:
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
