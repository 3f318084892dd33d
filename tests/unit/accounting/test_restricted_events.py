"""A law restricted to tables without negative counts costs twice as much, everywhere that a cost is computed."""

import json
from fractions import Fraction

import numpy as np
import pytest

from tallyveil.accounting import Neighbours, compose
from tallyveil.accounting.calibration import scaled
from tallyveil.accounting.costs import epsilon_of, has_gaussian, rho_of
from tallyveil.accounting.events import DiscreteGaussian, IntegerSubspaceLaplace, SequentialEvent
from tallyveil.accounting.ledger.lines import event_from_mapping
from tallyveil.errors import BudgetError

FREE = IntegerSubspaceLaplace("1/4", "l1", 2, ("total",))
RESTRICTED = IntegerSubspaceLaplace("1/4", "l1", 2, ("total",), 0, restricted=True)


def test_every_cost_doubles():
    assert (epsilon_of(FREE), epsilon_of(RESTRICTED)) == (Fraction(1, 2), 1)
    assert rho_of(RESTRICTED, laplace_as_zcdp=True) == Fraction(1, 2)
    assert epsilon_of(scaled(RESTRICTED, Fraction(2))) == Fraction(1, 2)
    exact = compose(RESTRICTED, neighbours=Neighbours.BOUNDED).epsilon(Fraction(1, 10**10))
    assert 0.99 < exact.lower <= exact.upper <= 1


def test_its_json_says_so_and_that_of_the_others_does_not():
    assert "restricted" not in FREE.to_mapping()
    for event in (FREE, RESTRICTED):
        assert event_from_mapping(json.loads(json.dumps(event.to_mapping()))) == event
    with pytest.raises(BudgetError):
        event_from_mapping({**FREE.to_mapping(), "restricted": "yes"})


def test_gaussian_noise_is_found_in_any_depth():
    assert not has_gaussian(SequentialEvent((FREE, RESTRICTED)))
    assert has_gaussian(SequentialEvent((FREE, SequentialEvent((DiscreteGaussian(4),)))))


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
@pytest.mark.parametrize("total", [1, 3, 8])
def test_the_loss_of_listed_tables_is_within_the_cost_and_beyond_that_of_free_noise(epsilon, total):
    """All pairs of tables of two cells with one sum, by listing."""
    tables = np.arange(total + 1)
    weights = np.exp(-epsilon * 2 * np.abs(tables[:, None] - tables[None, :]))
    laws = weights / weights.sum(axis=1, keepdims=True)
    losses = np.abs(np.log(laws[:, None, :]) - np.log(laws[None, :, :])).max(axis=2)
    distances = 2 * np.abs(tables[:, None] - tables[None, :])
    assert (losses <= 2 * epsilon * distances + 1e-12).all()
    if total > 1:
        assert (losses > epsilon * distances + 1e-3).any()
