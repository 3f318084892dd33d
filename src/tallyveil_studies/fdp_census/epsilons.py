"""Figures 3, 14 and 15: epsilon at given deltas, exact and by zCDP."""

from fractions import Fraction
from functools import cache

import numpy as np
import polars as pl

from tallyveil.accounting import zcdp_to_epsilon, zcdp_to_epsilon_textbook
from tallyveil.report.drawing import DotPanel, DotPlot, Dots, Line, LinePanel, LinePlot, Role
from tallyveil_studies.comparison import Comparison
from tallyveil_studies.exhibit import Findings, StudyInputs
from tallyveil_studies.fdp_census.allocation import DELTA, geolevel_guarantee, geolevel_rho, variances
from tallyveil_studies.fdp_census.printed import compared
from tallyveil_studies.fdp_census.profiles import BUREAU, OURS

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
