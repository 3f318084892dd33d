"""Privacy parameters beside accuracy: exact where there is one law, from the cost alone elsewhere, never too small."""

from fractions import Fraction

import pytest
from tests.samples import few

from tallyveil.accounting import Neighbours, compose, zcdp_to_epsilon
from tallyveil.accounting.engines import dithered, loss_transform
from tallyveil.accounting.guarantee import BETA, DELTAS, MU, epsilon_name, exact_parameters, zcdp_parameters
from tallyveil.budget.guarantees import TOGETHER, cost_parameters, query_parameters, strategy_parameters
from tallyveil.budget.presets import load_product
from tallyveil.budget.strategy import Mechanism, Strategy

HALVES = (("total", Fraction(1, 4)), ("detailed", Fraction(3, 4)))


def strategy(mechanism=Mechanism.DISCRETE_GAUSSIAN):
    return Strategy(
        mechanism,
        Neighbours.BOUNDED,
        Fraction(1),
        (("State", Fraction(1, 3)), ("Block", Fraction(2, 3))),
        (("State", HALVES), ("Block", HALVES)),
    )


@pytest.mark.parametrize("mechanism", few(1, Mechanism))
def test_every_row_is_the_guarantee_of_its_event(mechanism):
    plan = strategy(mechanism)
    rows = {row["geolevel"]: row for row in strategy_parameters(plan)}
    assert list(rows) == ["State", "Block", TOGETHER]
    for name, row in rows.items():
        event = plan.event() if name == TOGETHER else plan.geolevel_event(name)
        guarantee = compose(event, neighbours=plan.neighbours)
        assert row["accountant"] == "exact"
        for delta in DELTAS:
            assert row[epsilon_name(delta)] == guarantee.epsilon(delta).upper
        assert row[BETA] == guarantee.beta("0.05").lower
        assert row[MU] == guarantee.mu().upper


def test_budget_that_was_moved_is_accounted_for_by_its_cost():
    rows = {
        row["geolevel"]: row
        for row in strategy_parameters(strategy(), {"Block": Fraction(1, 2)}, with_mu=False)
    }
    assert (rows["State"]["accountant"], rows["Block"]["accountant"]) == ("exact", "zcdp")
    assert rows["Block"]["epsilon_at_1e-5"] == zcdp_to_epsilon(Fraction(1, 2), Fraction("1e-5"))
    assert rows["Block"][BETA] is None
    assert rows["State"][MU] is None
    (own,) = (
        row
        for row in strategy_parameters(strategy(), {"Block": Fraction(2, 3)}, with_mu=False)
        if row["geolevel"] == "Block"
    )
    assert (own["accountant"], own["spent"]) == ("exact", "2/3")  # what it spends is the strategy's
    part = cost_parameters(strategy(), Fraction(1, 2), "Town")
    assert part == {**rows["Block"], "geolevel": "Town"}
    assert cost_parameters(strategy())["geolevel"] == TOGETHER
    pure = cost_parameters(strategy(Mechanism.DISCRETE_LAPLACE))
    assert (pure["accountant"], pure["spent"], pure["epsilon_at_1e-11"]) == ("pure", "1", 1.0)


def test_a_laplace_budget_that_was_moved_is_its_epsilon():
    rows = strategy_parameters(strategy(Mechanism.DISCRETE_LAPLACE), {"Block": Fraction(1, 2)}, with_mu=False)
    assert [(row["geolevel"], row["accountant"], row["spent"]) for row in rows] == [
        ("State", "exact", "1/3"),
        ("Block", "pure", "1/2"),
        (TOGETHER, "exact", "1"),
    ]
    assert rows[1]["epsilon_at_1e-11"] == 0.5


def test_losses_without_a_lattice_are_accounted_for_exactly():
    plan = load_product("redistricting-units-pr").strategies[0]
    row = strategy_parameters(plan, with_mu=False)[-1]
    assert (row["geolevel"], row["accountant"]) == (TOGETHER, "exact")
    assert row["epsilon_at_1e-10"] < zcdp_parameters(plan.total).epsilons["1e-10"]
    assert 0 < row["beta_at_alpha_0.05"] < 0.95


def test_losses_that_only_the_slowest_engine_takes_are_accounted_for_by_zcdp(monkeypatch):
    monkeypatch.setattr(loss_transform, "MOST_STATES", 10)
    monkeypatch.setattr(dithered, "MOST_AT_BUILD", 10)
    plan = load_product("redistricting-units-pr").strategies[0]
    row = strategy_parameters(plan, with_mu=False)[-1]
    assert (row["geolevel"], row["accountant"]) == (TOGETHER, "zcdp")


def test_exact_parameters_are_within_those_of_zcdp():
    plan = strategy()
    exact = exact_parameters(compose(plan.event(), neighbours=plan.neighbours))
    for delta, value in zcdp_parameters(plan.total).epsilons.items():
        assert exact.epsilons[delta] < value


@pytest.mark.nightly
def test_queries_before_composition():
    plan = strategy()
    found = query_parameters(plan, with_mu=True)
    assert list(found) == [(level, query) for level in plan.geolevels for query, _ in HALVES]
    event = plan.events()[1]
    assert query_parameters(plan)["State", "total"].mu is None
    assert found["State", "detailed"] == exact_parameters(compose(event, neighbours=plan.neighbours))
