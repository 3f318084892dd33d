"""Privacy events: what they accept, and their JSON form."""

import json
from dataclasses import FrozenInstanceError, replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from tallyveil.accounting import (
    AdaptiveEvent,
    DiscreteGaussian,
    DiscreteLaplace,
    InvariantEvent,
    NonPrivateEvent,
    ParallelEvent,
    SequentialEvent,
    WorstEvent,
    event_from_mapping,
)
from tallyveil.errors import BudgetError

TREE = SequentialEvent(
    (
        DiscreteGaussian(Fraction(1929937650363, 1588675712), multiplicity=2),
        ParallelEvent((DiscreteLaplace("5/3", 1, 4), SequentialEvent(())), degree=9),
        AdaptiveEvent((DiscreteGaussian(3), SequentialEvent((DiscreteGaussian(3),)))),
        WorstEvent((DiscreteLaplace(2, 3),)),
        WorstEvent((DiscreteLaplace(2), DiscreteGaussian(1)), chosen="public"),
        InvariantEvent("total at State"),
        NonPrivateEvent("a look"),
    )
)


def test_the_json_form_gives_back_an_equal_event() -> None:
    assert event_from_mapping(json.loads(json.dumps(TREE.to_mapping()))) == TREE


def gaussian(variance: str, sensitivity: int = 1, multiplicity: int = 1) -> dict:
    return {
        "kind": "discrete_gaussian",
        "variance": variance,
        "sensitivity": sensitivity,
        "multiplicity": multiplicity,
    }


def laplace(scale: str, sensitivity: int = 1, multiplicity: int = 1) -> dict:
    return {
        "kind": "discrete_laplace",
        "scale": scale,
        "sensitivity": sensitivity,
        "multiplicity": multiplicity,
    }


def test_the_json_form_is_kept_from_version_to_version() -> None:
    sequential = {"kind": "sequential", "events": [gaussian("3")]}
    assert TREE.to_mapping() == {
        "kind": "sequential",
        "events": [
            gaussian("1929937650363/1588675712", multiplicity=2),
            {
                "kind": "parallel",
                "events": [laplace("5/3", multiplicity=4), {"kind": "sequential", "events": []}],
                "degree": 9,
            },
            {"kind": "adaptive", "branches": [gaussian("3"), sequential]},
            {"kind": "worst", "branches": [laplace("2", 3)], "chosen": "adaptive"},
            {"kind": "worst", "branches": [laplace("2"), gaussian("1")], "chosen": "public"},
            {"kind": "invariant", "statement": "total at State"},
            {"kind": "non_private", "reason": "a look"},
        ],
    }


@pytest.mark.parametrize("given", [Fraction(5, 2), "5/2", "2.5", " 25e-1 ", Decimal("2.5")])
def test_a_parameter_is_a_fraction_however_it_is_written(given) -> None:
    assert DiscreteGaussian(given) == DiscreteGaussian(Fraction(5, 2), 1, 1)
    assert type(DiscreteLaplace(given).scale) is Fraction
    assert DiscreteLaplace(3).scale == Fraction(3)
    assert hash(DiscreteGaussian(given)) == hash(DiscreteGaussian(Fraction(5, 2)))


@pytest.mark.parametrize("count", [2, np.int64(2), "2", Fraction(2), Decimal(2)])
def test_whole_numbers_may_be_written_in_every_exact_way(count) -> None:
    event = DiscreteGaussian(1, count, count)
    assert event == DiscreteGaussian(1, 2, 2)
    assert type(event.sensitivity) is type(event.multiplicity) is type(ParallelEvent((), count).degree) is int


def test_events_are_values() -> None:
    event = DiscreteGaussian(3, multiplicity=2)
    assert replace(event, multiplicity=1) == DiscreteGaussian(3)
    assert repr(event) == "DiscreteGaussian(variance=Fraction(3, 1), sensitivity=1, multiplicity=2)"
    with pytest.raises(FrozenInstanceError):
        event.variance = Fraction(1)  # type: ignore[misc]


def nested(depth: int) -> dict:
    mapping: dict = {"kind": "sequential", "events": []}
    for _ in range(depth - 1):
        mapping = {"kind": "sequential", "events": [mapping]}
    return mapping


def test_a_json_form_may_be_deep_but_not_bottomless() -> None:
    event_from_mapping(nested(100))
    with pytest.raises(BudgetError, match="more than 100 deep"):
        event_from_mapping(nested(101))
    with pytest.raises(BudgetError, match="more than 100 deep"):
        event_from_mapping(nested(900))


GAUSSIAN = gaussian("1")


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        ({"kind": "poisson"}, "unknown privacy event 'poisson'"),
        ({"kind": []}, "unknown privacy event"),
        ({}, "unknown privacy event None"),
        (GAUSSIAN | {"sampling": "1/2"}, "wanted exactly"),
        ({"kind": "discrete_gaussian", "variance": "1"}, "wanted exactly"),
        ({"kind": "parallel", "events": []}, "wanted exactly"),
        ({"kind": "worst", "branches": [GAUSSIAN]}, "wanted exactly"),
        (GAUSSIAN | {"variance": 1.5}, "must be text"),
        (GAUSSIAN | {"variance": 1}, "must be text"),
        (GAUSSIAN | {"variance": "1/0"}, "must be an exact number"),
        (GAUSSIAN | {"variance": "x"}, "must be an exact number"),
        (GAUSSIAN | {"multiplicity": 1.0}, "integer of 1 or more"),
        ({"kind": "sequential", "events": "none"}, "list of events"),
        ({"kind": "sequential", "events": [1]}, "list of events"),
        (
            {"kind": "parallel", "events": [{"kind": "poisson"}], "degree": 1},
            "unknown privacy event 'poisson'",
        ),
        ({"kind": "adaptive", "branches": [GAUSSIAN, gaussian("2")]}, "different loss laws"),
        ({"kind": "invariant", "statement": 3}, "must be text"),
    ],
)
def test_a_wrong_json_form_is_refused(mapping: dict, words: str) -> None:
    with pytest.raises(BudgetError, match=words):
        event_from_mapping(mapping)


def test_a_refusal_names_the_place_of_an_event_within_others() -> None:
    worst = {"kind": "worst", "branches": [GAUSSIAN, GAUSSIAN | {"variance": "x"}], "chosen": "public"}
    with pytest.raises(BudgetError, match=r"^events\[1\].branches\[2\]: variance of"):
        event_from_mapping({"kind": "sequential", "events": [worst]})
    with pytest.raises(BudgetError, match=r"^line 3.branches\[2\]: variance of"):
        event_from_mapping(worst, place="line 3")
