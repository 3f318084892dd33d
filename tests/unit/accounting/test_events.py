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


@pytest.mark.parametrize(
    "given",
    [
        2.5,
        float("nan"),
        float("inf"),
        Decimal("inf"),
        Decimal("1e999999999"),
        True,
        None,
        "nan",
        "1/0",
        "x",
        "",
        "1e999999999",
        "1_0",
        "1" * 5000,
    ],
)
def test_what_is_no_exact_number_is_refused(given) -> None:
    with pytest.raises(BudgetError, match="variance of DiscreteGaussian must be an exact number"):
        DiscreteGaussian(given)
    with pytest.raises(BudgetError, match="scale of DiscreteLaplace must be an exact number"):
        DiscreteLaplace(given)


@pytest.mark.parametrize("given", [0, -1, "-5/2", Fraction(0)])
def test_a_parameter_must_be_above_zero(given) -> None:
    with pytest.raises(BudgetError, match="must be above 0"):
        DiscreteGaussian(given)
    with pytest.raises(BudgetError, match="must be above 0"):
        DiscreteLaplace(given)


@pytest.mark.parametrize("count", [0, -1, 1.0, True, "1.5", Fraction(1, 2), "x"])
def test_sensitivities_multiplicities_and_degrees_are_positive_integers(count) -> None:
    for make in (
        lambda: DiscreteGaussian(1, count),
        lambda: DiscreteGaussian(1, 1, count),
        lambda: DiscreteLaplace(1, count),
        lambda: DiscreteLaplace(1, 1, count),
        lambda: ParallelEvent((), count),
    ):
        with pytest.raises(BudgetError, match="must be an integer of 1 or more"):
            make()


@pytest.mark.parametrize("count", [2, np.int64(2), "2", Fraction(2), Decimal(2)])
def test_whole_numbers_may_be_written_in_every_exact_way(count) -> None:
    event = DiscreteGaussian(1, count, count)
    assert event == DiscreteGaussian(1, 2, 2)
    assert type(event.sensitivity) is type(event.multiplicity) is type(ParallelEvent((), count).degree) is int


def test_a_refused_float_shows_how_to_write_it() -> None:
    with pytest.raises(BudgetError, match=r"Write '0\.1', as text, or better an exact fraction"):
        DiscreteGaussian(0.1)


def test_events_are_values() -> None:
    event = DiscreteGaussian(3, multiplicity=2)
    assert replace(event, multiplicity=1) == DiscreteGaussian(3)
    assert repr(event) == "DiscreteGaussian(variance=Fraction(3, 1), sensitivity=1, multiplicity=2)"
    with pytest.raises(FrozenInstanceError):
        event.variance = Fraction(1)  # type: ignore[misc]


@pytest.mark.parametrize("kind", [AdaptiveEvent, WorstEvent])
def test_a_choice_is_among_something(kind) -> None:
    with pytest.raises(BudgetError, match=f"{kind.__name__} has no branch"):
        kind(())


def test_a_choice_is_adaptive_or_public() -> None:
    with pytest.raises(BudgetError, match="'adaptive' or 'public'"):
        WorstEvent((TREE,), chosen="secret")


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


@pytest.mark.parametrize(
    "make", [lambda: DiscreteGaussian(Fraction(-5)), lambda: DiscreteLaplace(3, Fraction(-5))]
)
def test_messages_show_a_fraction_as_it_is_written(make) -> None:
    with pytest.raises(BudgetError, match=r"got -5\."):
        make()
