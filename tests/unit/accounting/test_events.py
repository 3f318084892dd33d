"""Privacy events: what they accept, and their JSON form."""

import json
from fractions import Fraction

import pytest

from tallyveil.accounting import (
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    InvariantEvent,
    NonPrivateEvent,
    ParallelEvent,
    SequentialEvent,
    event_from_mapping,
)
from tallyveil.errors import BudgetError

TREE = SequentialEvent(
    (
        DiscreteGaussianEvent(Fraction(1929937650363, 1588675712), 2),
        ParallelEvent((DiscreteLaplaceEvent(Fraction(5, 3), 1, 4), SequentialEvent(()))),
        InvariantEvent("total at State"),
        NonPrivateEvent("a look"),
    )
)


def test_the_json_form_gives_back_an_equal_event() -> None:
    assert event_from_mapping(json.loads(json.dumps(TREE.to_mapping()))) == TREE


def test_the_json_form_is_kept_from_version_to_version() -> None:
    assert TREE.to_mapping() == {
        "kind": "sequential",
        "events": [
            {
                "kind": "discrete_gaussian",
                "variance": "1929937650363/1588675712",
                "squared_sensitivity": 2,
                "multiplicity": 1,
            },
            {
                "kind": "parallel",
                "events": [
                    {"kind": "discrete_laplace", "scale": "5/3", "sensitivity": 1, "multiplicity": 4},
                    {"kind": "sequential", "events": []},
                ],
            },
            {"kind": "invariant", "statement": "total at State"},
            {"kind": "non_private", "reason": "a look"},
        ],
    }


@pytest.mark.parametrize("variance", [Fraction(0), Fraction(-1), 2.5, 3])
def test_a_variance_must_be_a_fraction_above_zero(variance) -> None:
    with pytest.raises(BudgetError, match="variance of DiscreteGaussianEvent must be a Fraction above 0"):
        DiscreteGaussianEvent(variance, 1)


@pytest.mark.parametrize("count", [0, -1, 1.0, True, "1"])
def test_sensitivities_and_multiplicities_are_positive_integers(count) -> None:
    with pytest.raises(BudgetError, match="must be an integer of 1 or more"):
        DiscreteGaussianEvent(Fraction(1), count)
    with pytest.raises(BudgetError, match="must be an integer of 1 or more"):
        DiscreteLaplaceEvent(Fraction(1), 1, count)


GAUSSIAN = DiscreteGaussianEvent(Fraction(1), 1).to_mapping()


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        ({"kind": "poisson"}, "unknown privacy event 'poisson'"),
        ({}, "unknown privacy event None"),
        (GAUSSIAN | {"sampling": "1/2"}, "wanted exactly"),
        ({"kind": "discrete_gaussian", "variance": "1"}, "wanted exactly"),
        (GAUSSIAN | {"variance": 1.5}, "exact fraction as text"),
        (GAUSSIAN | {"variance": "1/0"}, "exact fraction as text"),
        (GAUSSIAN | {"variance": "x"}, "exact fraction as text"),
        (GAUSSIAN | {"multiplicity": 1.0}, "integer of 1 or more"),
        ({"kind": "sequential", "events": "none"}, "list of events"),
        ({"kind": "sequential", "events": [1]}, "list of events"),
        ({"kind": "parallel", "events": [{"kind": "poisson"}]}, "unknown privacy event 'poisson'"),
        ({"kind": "invariant", "statement": 3}, "must be text"),
    ],
)
def test_a_wrong_json_form_is_refused(mapping: dict, words: str) -> None:
    with pytest.raises(BudgetError, match=words):
        event_from_mapping(mapping)
