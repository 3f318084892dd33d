import json
import math
from fractions import Fraction

import pytest

from tallyveil.accounting import (
    Declaration,
    DiscreteLaplace,
    IntegerSubspaceGaussian,
    IntegerSubspaceLaplace,
    Ledger,
    Neighbours,
    ParallelEvent,
    SequentialEvent,
    WorstEvent,
    compose,
    delta_with_total_variation,
    epsilon_of,
    event_from_mapping,
    read_ledger,
    renyi_divergence,
    rho_of,
    total_variation_of,
    translate,
)
from tallyveil.accounting.calibration import scaled
from tallyveil.errors import BudgetError

LAPLACE = IntegerSubspaceLaplace("0.25", "l1", 4, ("county totals", "age totals"))
GAUSSIAN = IntegerSubspaceGaussian("68.49", 2, ("state total",))
CUT = IntegerSubspaceLaplace("1/2", "l2", "1.5", (), "1e-9")


@pytest.mark.parametrize("event", [LAPLACE, GAUSSIAN, CUT])
def test_json_form_comes_back(event):
    mapping = json.loads(json.dumps(event.to_mapping()))
    assert event_from_mapping(mapping) == event
    with pytest.raises(BudgetError, match="wanted exactly"):
        event_from_mapping(mapping | {"extra": 1})
    with pytest.raises(BudgetError, match="list of texts"):
        event_from_mapping(mapping | {"invariants": "one"})


def test_costs():
    assert epsilon_of(LAPLACE) == 1
    assert rho_of(GAUSSIAN) == 1 / Fraction("68.49")
    assert rho_of(LAPLACE, laplace_as_zcdp=True) == Fraction(1, 2)
    assert epsilon_of(SequentialEvent((LAPLACE, CUT, DiscreteLaplace(2)))) == 1 + Fraction(3, 4) + Fraction(
        1, 2
    )
    with pytest.raises(BudgetError, match="cost in epsilon"):
        rho_of(LAPLACE)
    with pytest.raises(BudgetError, match="no finite pure epsilon"):
        epsilon_of(GAUSSIAN)


def test_divergences():
    assert renyi_divergence(GAUSSIAN, 3) == pytest.approx(3 / 68.49)
    response = math.log((math.exp(2) + math.exp(-1)) / (1 + math.e))
    assert renyi_divergence(LAPLACE, 2) == pytest.approx(response)


def test_guarantee_of_a_pure_release_is_that_of_randomised_response():
    guarantee = compose(LAPLACE, neighbours=Neighbours.BOUNDED)
    assert guarantee.invariants == ("county totals", "age totals")
    for epsilon in (0.0, 0.5):
        exact = (math.e - math.exp(epsilon)) / (1 + math.e)
        assert guarantee.delta(epsilon).upper == pytest.approx(exact)
    assert guarantee.delta(1).upper < 1e-15


@pytest.mark.parametrize("event", [GAUSSIAN, CUT])
def test_events_without_a_loss_law_say_so(event):
    with pytest.raises(BudgetError) as caught:
        compose(event, neighbours=Neighbours.BOUNDED)
    assert caught.value.code == "subspace-no-law"


def test_total_variation_adds_up():
    twice = SequentialEvent((CUT, CUT, LAPLACE))
    assert total_variation_of(twice) == Fraction(2, 10**9)
    assert total_variation_of(WorstEvent((CUT, twice))) == Fraction(2, 10**9)
    assert total_variation_of(ParallelEvent((CUT, LAPLACE), 3)) == Fraction(6, 10**9)
    added = delta_with_total_variation(Fraction(1), Fraction(1, 10), Fraction(1, 10**9))
    assert added == pytest.approx(0.1 + (1 + math.e) * 1e-9)
    assert delta_with_total_variation(Fraction(5), Fraction(0), Fraction(1, 2)) == 1.0


def test_scaling_and_translation():
    assert scaled(LAPLACE, Fraction(2)).epsilon == Fraction(1, 8)
    assert scaled(GAUSSIAN, Fraction(2)).variance == Fraction("136.98")
    with pytest.raises(BudgetError, match="nothing to translate"):
        translate(LAPLACE, Neighbours.BOUNDED, Neighbours.UNBOUNDED)


def test_the_ledger_takes_them(tmp_path):
    declaration = Declaration("epsilon", Fraction(2), Neighbours.BOUNDED)
    path = tmp_path / "ledger.jsonl"
    with Ledger(path, declaration, run="one") as ledger:
        assert ledger.spend(LAPLACE, "table", "table").cost == 1
        with pytest.raises(BudgetError, match="would exceed"):
            ledger.spend(IntegerSubspaceLaplace(1, "l1", 2), "again", "again")
    assert read_ledger(path)[1][0].event == LAPLACE


@pytest.mark.parametrize(
    "make",
    [
        lambda: IntegerSubspaceLaplace(0, "l1", 2),
        lambda: IntegerSubspaceLaplace(1, "l3", 2),
        lambda: IntegerSubspaceLaplace(1, "l1", 0),
        lambda: IntegerSubspaceLaplace(0.5, "l1", 2),
        lambda: IntegerSubspaceLaplace(1, "l1", 2, "state"),
        lambda: IntegerSubspaceLaplace(1, "l1", 2, (), 1),
        lambda: IntegerSubspaceGaussian(0, 2),
        lambda: IntegerSubspaceGaussian(1, 0),
        lambda: IntegerSubspaceGaussian(1, True),
    ],
)
def test_bad_events(make):
    with pytest.raises(BudgetError):
        make()
