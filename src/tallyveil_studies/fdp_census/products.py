"""Not in the paper: all released products, one by one and together, and neighbours that replace a record."""

from fractions import Fraction
from typing import Any

import polars as pl

from tallyveil import noise
from tallyveil.accounting import (
    DiscreteGaussian,
    Neighbours,
    PrivacyEvent,
    ZcdpConversion,
    compose,
    rho_of,
    translate,
)
from tallyveil.accounting.guarantee import exact_parameters
from tallyveil.accounting.numbers import at_most
from tallyveil.budget.guarantees import query_parameters
from tallyveil.budget.presets import DELTA, NEIGHBOURS, CensusProduct, load_product, product_names
from tallyveil.budget.strategy import Strategy, expected_errors
from tallyveil_studies.exhibit import Findings, StudyInputs
from tallyveil_studies.fdp_census.allocation import FOLDS, overall_event, variances

_DELTAS = ("1e-5", "1e-10", "1e-11")


def products(_: StudyInputs) -> Findings:
    """Every product that was released with this noise, and what they cost together, exactly and by zCDP."""
    rows = [product_row(load_product(name)) for name in product_names()]
    # "all-us" composes the four files of the States.
    together = next(row for row in rows if row["product"] == "all-us")
    return Findings(
        tables={"products": pl.DataFrame(rows, schema_overrides={"published_epsilon": pl.Float64})},
        notes=(
            "Neighbours agree on all invariants and differ in the value of one record of the kind named, or of one "
            "record of each kind.",
            f"All four files of the fifty states and DC: epsilon {at_most(together['exact_upper'], places=6)} at "
            f"delta 1e-10. The Detailed and the Supplemental DHC are not in it.",
        ),
    )


def product_row(product: CensusProduct) -> dict[str, Any]:
    """Epsilon of a product at delta 1e-10, from both sides, beside what zCDP gives and what was published."""
    exact = compose(product.event, neighbours=NEIGHBOURS).epsilon(DELTA)
    published = product.published_epsilon
    return {
        "product": product.name,
        "record": product.record,
        "query_budgets": product.n_budgets,
        "rho": float(product.rho),
        "published_epsilon": None if published is None else float(published),
        # The conversion that the Bureau used for its published epsilons.
        "textbook_zcdp": ZcdpConversion.TEXTBOOK.epsilon(product.rho, DELTA),
        "best_zcdp": ZcdpConversion.BEST.epsilon(product.rho, DELTA),
        "exact_lower": exact.lower,
        "exact_upper": exact.upper,
    }


def replacement(_: StudyInputs) -> Findings:
    """Appendix A.1: the paper's noise where a record is replaced, which moves two answers of every query."""
    rows = []
    events: dict[str, PrivacyEvent] = {
        name: DiscreteGaussian(variance, multiplicity=FOLDS) for name, variance in variances().items()
    }
    # Each geolevel by itself, and then all of them composed.
    for name, event in (events | {"all eight geolevels": overall_event()}).items():
        rho = rho_of(event)
        # A replaced record is one removed and one added: every query counts twice.
        replaced = translate(event, Neighbours.UNBOUNDED, Neighbours.BOUNDED)
        added = compose(event, neighbours=Neighbours.UNBOUNDED)
        changed = compose(replaced, neighbours=Neighbours.BOUNDED)
        for delta in _DELTAS:
            exact = changed.epsilon(delta)
            rows.append(
                {
                    "geolevel": name,
                    "delta": delta,
                    "rho_added": float(rho),
                    "exact_added": added.epsilon(delta).upper,
                    "rho_replaced": float(2 * rho),
                    "textbook_replaced": ZcdpConversion.TEXTBOOK.epsilon(2 * rho, Fraction(delta)),
                    "exact_replaced_lower": exact.lower,
                    "exact_replaced_upper": exact.upper,
                }
            )
    return Findings(
        tables={"replacement": pl.DataFrame(rows)},
        notes=(
            "The variances are the paper's. It accounts for one record added or removed; the Bureau's guarantee is for "
            "one record replaced by another, which counts every query twice (appendix A.1) and doubles rho.",
        ),
    )


def queries(_: StudyInputs) -> Findings:
    """The parameters of every query before composition: the paper's allocation and the released ones."""
    rows = []
    for name in product_names():
        product = load_product(name)
        if product.published_epsilon is not None and name.endswith("-us"):
            rows += _query_rows(name, product.strategies[0])
    for geolevel, variance in variances().items():
        # The event is accounted for, the law gives the true variance, which is a little below the parameter.
        event, law = DiscreteGaussian(variance), noise.DiscreteGaussian(variance)
        parameters = exact_parameters(compose(event, neighbours=Neighbours.UNBOUNDED))
        cost = {"rho": float(rho_of(event)), "variance_proxy": float(variance)}
        rows.append(
            {"allocation": "the paper's", "geolevel": geolevel, "query": f"each of {FOLDS}", **cost}
            | {"mean_squared_error": law.variance_float(), **parameters.to_mapping()}
        )
    return Findings(
        tables={"queries": pl.DataFrame(rows, infer_schema_length=None)},
        notes=(
            "Each row is one query at one geolevel by itself, before anything is composed. The released allocations "
            "are for one record that changes its value, the paper's for one that is added or removed.",
        ),
    )


def _query_rows(name: str, strategy: Strategy) -> list[dict[str, Any]]:
    # Before composition: what one query would cost if it were the only one.
    alone = query_parameters(strategy, with_mu=True)
    return [
        {
            "allocation": name,
            "geolevel": item.geolevel,
            "query": item.query,
            "rho": float(item.share),
            "variance_proxy": float(item.parameter),
            "mean_squared_error": item.variance,
            **alone[item.geolevel, item.query].to_mapping(),
        }
        for item in expected_errors(strategy)
    ]
