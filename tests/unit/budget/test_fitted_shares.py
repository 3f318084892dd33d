"""Shares fitted to accuracy targets: against a general-purpose minimiser, and proved by their bound."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize

from tallyveil.accounting.neighbours import Neighbours
from tallyveil.budget import Mechanism, Strategy
from tallyveil.budget.fitted_shares import AccuracyTarget, fit_shares
from tallyveil.budget.spine.precision import answer_precisions
from tallyveil.budget.spine.variance import entity_variances, spine_variances
from tallyveil.errors import BudgetError

SUMMED = {"total": 1, "detailed": 6}


def strategy_of(spine, mechanism=Mechanism.DISCRETE_GAUSSIAN):
    n = spine.n_levels
    queries = (("total", Fraction(1, 3)), ("detailed", Fraction(2, 3)))
    return Strategy(
        mechanism,
        Neighbours.BOUNDED,
        Fraction(1),
        tuple((name, Fraction(1, n)) for name in spine.geolevels),
        tuple((name, queries) for name in spine.geolevels),
    )


def worst(spine, family, strategy, targets):
    found = spine_variances(spine, answer_precisions(spine, strategy, SUMMED))
    values = {"f": entity_variances(found, family), **dict(zip(spine.geolevels, found.variance, strict=True))}
    return max(
        (values[t.name].max() if t.of_each else values[t.name].mean()) / float(t.standard_deviation) ** 2
        for t in targets
    )


@pytest.mark.parametrize("seed", range(6))
def test_least_budget_that_meets_the_targets(random_spine, random_family, seed):
    rng = np.random.default_rng([41, seed])
    spine = random_spine(rng, 30, 4, one_root=True)
    family = random_family(rng, spine, 5, "f")
    strategy = strategy_of(spine)
    targets = [
        AccuracyTarget("f", Fraction(4)),
        AccuracyTarget("L1", Fraction(3), of_each=bool(seed % 2)),
        AccuracyTarget("L3", Fraction(20)),
    ]
    fitted = fit_shares(spine, [family], strategy, SUMMED, targets)
    # The strategy it hands out meets every target, and none could do so with 0.1 % less.
    assert worst(spine, family, fitted.strategy, targets) <= 1 + 1e-9
    assert float(fitted.needed) <= fitted.least * 1.001
    assert fitted.needed == fitted.strategy.total
    assert float(fitted.needed) <= fitted.given_needed * (1 + 1e-4)
    assert sum(share for _, share in fitted.strategy.geolevel_shares) == 1

    def at(logs):
        shares = np.exp(logs) / np.exp(logs).sum()
        exact = [Fraction(float(share)) for share in shares[:-1]]
        exact.append(1 - sum(exact))
        named = tuple(zip(spine.geolevels, exact, strict=True))
        return worst(spine, family, replace(strategy, geolevel_shares=named), targets)

    other = min(
        minimize(at, rng.normal(0, 1, 4), method="Nelder-Mead", options={"maxiter": 400}).fun
        for _ in range(2)
    )
    assert fitted.least <= other * (1 + 1e-9)
    for target, reached in fitted.reached:
        assert reached <= float(target.standard_deviation) * (1 + 1e-9)


def test_what_cannot_be_fitted_is_refused(random_spine, random_family):
    rng = np.random.default_rng(42)
    spine = random_spine(rng, 10, 3)
    family = random_family(rng, spine, 2, "f")
    good = [AccuracyTarget("f", Fraction(1))]

    def call(strategy=None, targets=good):
        return fit_shares(spine, [family], strategy or strategy_of(spine), SUMMED, targets)

    with pytest.raises(BudgetError, match="Gaussian"):
        call(strategy_of(spine, Mechanism.DISCRETE_LAPLACE))
    for wrong in ("0", "-1", "1e-10", "1e10", "1e-400", "1e400"):
        with pytest.raises(BudgetError, match="from 1e-9 to 1e9"):
            call(targets=[AccuracyTarget("f", Fraction(wrong))])
    for targets in ([], [AccuracyTarget("h", Fraction(1))]):
        with pytest.raises(BudgetError, match="accuracy targets name"):
            call(targets=targets)
    with pytest.raises(BudgetError, match="geolevels"):
        call(strategy_of(random_spine(rng, 10, 4)))
