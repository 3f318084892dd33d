"""Shares fitted to accuracy targets: against a general-purpose minimiser, and proved by their bound."""

import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize
from tests.samples import few, ten

from tallyveil.accounting.events import Neighbours
from tallyveil.budget.fitted_shares import AccuracyTarget, _rounded, _rounded_up, fit_shares
from tallyveil.budget.spine.variance import answer_precisions, entity_variances, spine_variances
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.errors import BudgetError, SolverError
from tallyveil.geography.build import spine_from_columns

SUMMED = {"total": 1, "detailed": 6}


def strategy_of(spine, mechanism=Mechanism.DISCRETE_GAUSSIAN):
    n = spine.n_levels
    queries = (("total", Fraction(1, 3)), ("detailed", Fraction(2, 3)))
    return Strategy(
        mechanism,
        Neighbours.BOUNDED,
        Fraction(5, 2),
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


@pytest.mark.parametrize("seed", few(1, range(6)))
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
    assert fitted.least <= other * float(strategy.total) * (1 + 1e-9)
    assert [target for target, _ in fitted.reached] == targets
    for target, reached in fitted.reached:
        assert reached <= float(target.standard_deviation) * (1 + 1e-9)
        ratio = worst(spine, family, fitted.strategy, [target])
        assert reached == pytest.approx(float(target.standard_deviation) * ratio**0.5)
    given = worst(spine, family, strategy, targets) * float(strategy.total)
    assert fitted.given_needed == pytest.approx(given)


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
    blind = {"total": 0, "detailed": 0}
    with pytest.raises(BudgetError, match="some variance of f is infinite"):
        fit_shares(spine, [family], strategy_of(spine), blind, good)


def test_the_worked_case_of_the_head_of_the_module():
    spine = spine_from_columns({"A": ["a", "b"]}, ("A",))
    strategy = Strategy(
        Mechanism.DISCRETE_GAUSSIAN,
        Neighbours.UNBOUNDED,
        Fraction(7),
        (("A", Fraction(1)),),
        (("A", (("total", Fraction(1)),)),),
    )
    fitted = fit_shares(spine, [], strategy, {"total": 1}, [AccuracyTarget("A", Fraction(5))])
    assert fitted.strategy.geolevel_shares == (("A", 1),)
    assert Fraction(2, 100) <= fitted.needed <= Fraction(200001, 10_000_000)
    assert fitted.least == pytest.approx(0.02)


def test_a_geolevel_that_is_published_exactly_keeps_hardly_any_share(random_spine, random_family):
    rng = np.random.default_rng(43)
    spine = random_spine(rng, 20, 3, one_root=True)
    family = random_family(rng, spine, 3, "f")
    strategy = strategy_of(spine)
    targets = [AccuracyTarget("f", Fraction(4)), AccuracyTarget("L2", Fraction(3))]
    fitted = fit_shares(spine, [family], strategy, SUMMED, targets, exact=["L0"])
    assert dict(fitted.strategy.geolevel_shares)["L0"] <= Fraction(5, 10_000)
    found = spine_variances(spine, answer_precisions(spine, fitted.strategy, SUMMED, exact=["L0"]))
    assert np.sqrt(entity_variances(found, family).mean()) == pytest.approx(fitted.reached[0][1], rel=1e-6)
    assert fitted.needed < fit_shares(spine, [family], strategy, SUMMED, targets).needed


def test_rounds_that_do_not_close_the_gap_are_an_error(random_spine, random_family):
    rng = np.random.default_rng(44)
    spine = random_spine(rng, 20, 4, one_root=True)
    family = random_family(rng, spine, 3, "f")
    targets = [AccuracyTarget("f", Fraction(4)), AccuracyTarget("L3", Fraction(3))]
    call = (spine, [family], strategy_of(spine), SUMMED, targets)
    fitted = fit_shares(*call)
    with pytest.raises(SolverError, match=r"relative gap of 0\.0001: it lies between") as error:
        fit_shares(*call, most_rounds=3)
    low, high = map(float, re.findall(r"between ([0-9.]+) and ([0-9.]+)\.", str(error.value))[0])
    assert low <= fitted.needed * Fraction(1001, 1000)
    assert fitted.least <= high
    assert low < high * (1 - 1e-4)
    wide = fit_shares(*call, gap=0.5)
    assert wide.least <= float(fitted.needed)
    assert float(wide.needed) <= wide.least * 2 * 1.001


@pytest.mark.parametrize("seed", ten(range(20)))
def test_rounded_shares_are_whole_parts_near_the_given_ones(seed):
    rng = np.random.default_rng([45, seed])
    shares = rng.dirichlet(np.full(6, 10.0 ** -(seed % 4)))
    shares = 0.9994 * shares + 0.0001  # none is below the smallest
    found = _rounded(shares)
    assert sum(found) == 1
    assert all(one >= Fraction(1, 10_000) and 10_000 % one.denominator == 0 for one in found)
    assert np.abs(np.array(found, float) - shares).max() <= 1e-4 * (1 + 1e-9)


def test_shares_that_are_too_small_are_raised_at_the_cost_of_the_largest():
    found = _rounded(np.array([0.99993, 0.00002, 0.00005]))
    assert found == (Fraction(9998, 10_000), Fraction(1, 10_000), Fraction(1, 10_000))
    # The remainders are 0.6, 0.9 and 0.5: the two largest ones are rounded up.
    assert _rounded(np.array([0.30006, 0.30009, 0.39985])) == tuple(
        Fraction(n, 10_000) for n in (3001, 3001, 3998)
    )


@pytest.mark.parametrize("value", [1.0, 0.0123456, 123456.5, 3e-7, 9.9999999, 2.5])
def test_a_budget_is_rounded_up_to_six_digits(value):
    found = _rounded_up(value)
    assert Fraction(value) <= found < Fraction(value) * Fraction(100_001, 100_000)
    digits = f"{float(found):.20e}"
    assert float(f"{float(found):.5e}") == float(found), digits
