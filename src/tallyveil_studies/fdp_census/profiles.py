"""Figures 2, 5, 7 and 11: delta at every epsilon.

The paper accounts for all geolevels together by delta(epsilon) < P(L > epsilon), the first term alone. It drops the
second term, exp(epsilon) Q(L > epsilon), because floats could not hold it (Section A.6).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
import polars as pl
from scipy.optimize import brentq

from tallyveil.accounting import Guarantee, zcdp_to_epsilon_textbook
from tallyveil.accounting.engines.tilted_fft import TiltedFFT
from tallyveil.accounting.guarantee import exact_parameters
from tallyveil.accounting.losses import loss_law_of, of_integers
from tallyveil.accounting.numbers import at_least, at_most
from tallyveil.arrays import Floats
from tallyveil.report.drawing import Line, LinePanel, LinePlot, Role
from tallyveil_studies.exhibit import Findings, StudyInputs
from tallyveil_studies.fdp_census.allocation import (
    DELTA,
    OVERALL_DELTA,
    RHO,
    geolevel_guarantee,
    geolevel_rho,
    overall_event,
    overall_guarantee,
    overall_reduced_noise,
    reduced_noise,
    variances,
)
from tallyveil_studies.fdp_census.printed import compared, printed
from tallyveil_studies.fdp_census.whole_curve import overall_least_noise
from tallyveil_studies.fdp_census.zcdp_curves import zcdp_log_delta

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
    return _findings(
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
    return _findings(
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
    return _findings("figure-11", curves, columns=2, notes=tuple(gains))


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
    findings = _findings("figure-7", curves, columns=1, mark=(OVERALL_DELTA, "1e-10"), first_term=True)
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


def _findings(
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
