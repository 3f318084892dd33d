"""Not in the paper: the allocations of the released data products, query by query."""

from fractions import Fraction

import numpy as np
import polars as pl

from tallyveil.accounting import (
    Guarantee,
    calibrate,
    compose,
    rho_of,
    zcdp_to_epsilon,
    zcdp_to_epsilon_textbook,
)
from tallyveil.accounting.guarantee import exact_parameters
from tallyveil.accounting.numbers import at_most
from tallyveil.budget.presets import load_product
from tallyveil.budget.strategy import Strategy
from tallyveil.report.drawing import Line, LinePanel, LinePlot, Role
from tallyveil_studies.exhibit import Findings, StudyInputs
from tallyveil_studies.fdp_census.allocation import before_and_after
from tallyveil_studies.fdp_census.curves import BEST_ZCDP, OURS, SMALLEST_DELTA, zcdp_log_delta

_DELTAS = ("1e-5", "1e-10", "1e-15")
_POINTS = 33  # losses of the redistricting data share no usable lattice: seconds a point
PUBLISHED_DELTA = "1e-10"
"""The delta at which the Bureau states epsilon."""


def redistricting(_: StudyInputs) -> Findings:
    """The redistricting data of 2021, persons: six geolevels, 65 query budgets, published epsilon 17.14."""
    return _released("redistricting", load_product("redistricting-persons-us").strategies[0])


def dhc_persons(_: StudyInputs) -> Findings:
    """The Demographic and Housing Characteristics of 2023, persons: eight geolevels, 80 query budgets."""
    return _released("dhc-persons", load_product("dhc-persons-us").strategies[0])


def dhc_units(_: StudyInputs) -> Findings:
    """The Demographic and Housing Characteristics of 2023, housing units: eight geolevels, 80 query budgets."""
    return _released("dhc-units", load_product("dhc-units-us").strategies[0])


def _released(name: str, strategy: Strategy) -> Findings:
    event = strategy.event()
    guarantee = compose(event, neighbours=strategy.neighbours)
    values = _values(rho_of(event), guarantee)
    curve, plot = _curve(strategy, rho_of(event), guarantee)
    # The row whose delta is the one that the Bureau states.
    published = values.row(by_predicate=pl.col("delta") == PUBLISHED_DELTA, named=True)
    return Findings(
        tables={name: values, f"{name}-curve": curve, f"{name}-reductions": _reductions(strategy, guarantee)},
        drawings={name: plot},
        notes=(
            "Bounded neighbours that agree on all invariants: nothing is promised about what the counts published "
            "exactly reveal.",
            f"Epsilon at {PUBLISHED_DELTA}: {at_most(published['exact_upper'], places=6)} exactly, "
            f"{at_most(published['best_zcdp'], places=4)} by the best conversion of zCDP, "
            f"{at_most(published['textbook_zcdp'], places=4)} by the textbook's.",
        ),
    )


def _values(rho: Fraction, guarantee: Guarantee) -> pl.DataFrame:
    """Epsilon at several deltas."""
    rows = []
    for text in _DELTAS:
        delta = Fraction(text)
        exact = guarantee.epsilon(delta)
        rows.append(
            {
                "delta": text,
                "textbook_zcdp": zcdp_to_epsilon_textbook(rho, delta),
                "best_zcdp": zcdp_to_epsilon(rho, delta),
                "exact_lower": exact.lower,
                "exact_upper": exact.upper,
            }
        )
    return pl.DataFrame(rows)


def _reductions(strategy: Strategy, guarantee: Guarantee) -> pl.DataFrame:
    """How much smaller all variances could be at the epsilon of each conversion, and the parameters then."""
    event, before = strategy.event(), exact_parameters(guarantee).to_mapping()
    rows = []
    for conversion, epsilon_of_rho in (
        ("textbook", zcdp_to_epsilon_textbook),
        ("best", zcdp_to_epsilon),
    ):
        epsilon = epsilon_of_rho(rho_of(event), Fraction(PUBLISHED_DELTA))
        calibration = calibrate(event, epsilon=epsilon, delta=PUBLISHED_DELTA, neighbours=strategy.neighbours)
        rows.append(
            {
                "conversion": conversion,
                "epsilon": epsilon,
                "variance_reduction_percent": float(100 * (1 - calibration.factor)),
                **before_and_after(before, exact_parameters(calibration.guarantee).to_mapping()),
            }
        )
    return pl.DataFrame(rows, infer_schema_length=None)


def _curve(strategy: Strategy, rho: Fraction, guarantee: Guarantee) -> tuple[pl.DataFrame, LinePlot]:
    """delta at every epsilon, as a table and a plot."""
    epsilons = np.linspace(0.0, zcdp_to_epsilon_textbook(rho, SMALLEST_DELTA), _POINTS)
    bounds = guarantee.profile_curve(epsilons.tolist())
    textbook = np.exp(zcdp_log_delta(rho, epsilons))
    upper = [bound.upper for bound in bounds]
    table = pl.DataFrame(
        {
            "epsilon": epsilons,
            "textbook_zcdp": textbook,
            "exact_lower": [bound.lower for bound in bounds],
            "exact_upper": upper,
        }
    )
    best_epsilons, best_deltas = _best_zcdp_curve(rho)
    lines = (
        Line("textbook conversion of zCDP", Role.PUBLISHED, epsilons, textbook),
        Line(BEST_ZCDP, Role.OTHER, best_epsilons, best_deltas),
        Line(OURS, Role.OURS, epsilons, upper),
    )
    n_queries = sum(len(strategy.queries(geolevel)) for geolevel in strategy.geolevels)
    title = f"{n_queries} query budgets, {len(strategy.geolevels)} geolevels, rho = {at_most(rho, places=4)}"
    return table, LinePlot(
        panels=(LinePanel(title, lines, ((float(PUBLISHED_DELTA), PUBLISHED_DELTA),)),),
        columns=1,
        x_label="epsilon (one record changes its value)",
        y_label="delta",
        log_y=True,
        y_limits=(float(SMALLEST_DELTA), 2.0),
    )


def _best_zcdp_curve(rho: Fraction) -> tuple[list[float], list[float]]:
    """Epsilons, decreasing in delta, and deltas."""
    # Half powers of ten down to 1e-15: the best conversion gives epsilon for a delta, so this curve is drawn
    # from deltas.
    deltas = [10.0 ** (-exponent / 2) for exponent in range(1, 31)]
    return [zcdp_to_epsilon(rho, Fraction(delta)) for delta in deltas], deltas
