"""From events to a guarantee."""

import subprocess
import sys

import pytest

from tallyveil.accounting import (
    DiscreteGaussian,
    DiscreteLaplace,
    Guarantee,
    InvariantEvent,
    Neighbours,
    SequentialEvent,
    WorstEvent,
    calibrate,
    compose,
    loss_law_of,
    translate,
)
from tallyveil.accounting.losses import dominates

BOUNDED, UNBOUNDED = Neighbours.BOUNDED, Neighbours.UNBOUNDED
GAUSSIAN, LAPLACE = DiscreteGaussian(8, multiplicity=2), DiscreteLaplace(3, multiplicity=2)


def test_events_are_composed_one_after_the_other() -> None:
    found = compose(GAUSSIAN, InvariantEvent("total"), LAPLACE, neighbours=BOUNDED)
    assert isinstance(found, Guarantee)
    assert found.event == SequentialEvent((GAUSSIAN, InvariantEvent("total"), LAPLACE))
    assert found.neighbours is BOUNDED
    assert found.invariants == ("total",)
    together = compose(SequentialEvent((LAPLACE, GAUSSIAN)), neighbours=BOUNDED)
    assert found.delta(1) == together.delta(1)
    assert compose(GAUSSIAN, neighbours=BOUNDED).event == GAUSSIAN


def test_nothing_released_is_nothing_lost() -> None:
    for events in ((), (InvariantEvent("total"),)):
        found = compose(*events, neighbours=BOUNDED)
        assert found.epsilon("1e-10").upper == 0.0
        assert found.delta(0).upper == 0.0


def test_a_choice_that_stands_alone_costs_the_worst_branch_at_every_epsilon() -> None:
    """Laplace noise is worse at small delta, Gaussian noise at large: the profiles cross."""
    one, other = DiscreteGaussian(4), DiscreteLaplace("3/2")
    both = compose(WorstEvent((one, other)), neighbours=UNBOUNDED)
    apart = [compose(event, neighbours=UNBOUNDED) for event in (one, other)]
    worst = set()
    for tenths in range(0, 30):
        epsilon = f"{tenths}/10"
        deltas = [guarantee.log_delta(epsilon) for guarantee in apart]
        assert both.log_delta(epsilon).upper == max(delta.upper for delta in deltas)
        worst.add(deltas[0].upper > deltas[1].upper)
    assert worst == {True, False}


def test_a_translated_event_has_the_guarantee_of_two_answers_moved() -> None:
    changed = compose(translate(DiscreteGaussian(8), UNBOUNDED, BOUNDED), neighbours=BOUNDED)
    assert changed.delta(1) == compose(GAUSSIAN, neighbours=BOUNDED).delta(1)


def test_names_that_bring_engines_along_stay_what_they_are_once_loaded() -> None:
    from tallyveil import accounting

    assert callable(calibrate)
    assert callable(accounting.calibrate)
    assert callable(accounting.compose)


def test_describing_and_pricing_an_event_loads_no_engine() -> None:
    script = (
        "import sys; from tallyveil.accounting import DiscreteGaussian, rho_of; rho_of(DiscreteGaussian(3)); "
        "print(sorted(m.split('.')[0] for m in sys.modules))"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    for heavy in ("numpy", "scipy", "numba", "polars"):
        assert f"'{heavy}'" not in loaded


@pytest.mark.parametrize(
    ("larger", "smaller"),
    [
        ((DiscreteLaplace(1),), (DiscreteLaplace("5/2"), DiscreteLaplace("5/3"))),
        ((DiscreteLaplace(1, multiplicity=9),), (DiscreteLaplace(10, 1, 9), DiscreteLaplace("20/9", 2, 9))),
        ((DiscreteLaplace("1/2"), GAUSSIAN), (GAUSSIAN, DiscreteLaplace(3, 2), DiscreteLaplace(1))),
        ((GAUSSIAN, LAPLACE, LAPLACE), (LAPLACE, GAUSSIAN)),
    ],
)
def test_a_law_seen_to_dominate_has_the_larger_profile_everywhere(larger, smaller) -> None:
    more, less = (SequentialEvent(events) for events in (larger, smaller))
    assert dominates(loss_law_of(more), loss_law_of(less))
    above, below = compose(more, neighbours=UNBOUNDED), compose(less, neighbours=UNBOUNDED)
    for tenths in range(-20, 40):
        epsilon = f"{tenths}/10"
        assert above.delta(epsilon).upper >= below.delta(epsilon).lower


def test_neighbours_may_be_given_by_name() -> None:
    assert compose(GAUSSIAN, neighbours="bounded") == compose(GAUSSIAN, neighbours=BOUNDED)
    assert compose(GAUSSIAN, neighbours="bounded").neighbours is BOUNDED
    assert translate(GAUSSIAN, "bounded", "unbounded") == translate(GAUSSIAN, BOUNDED, UNBOUNDED)
    by_name = calibrate(GAUSSIAN, epsilon=1, delta="1e-6", neighbours="bounded", digits=4)
    assert by_name == calibrate(GAUSSIAN, epsilon=1, delta="1e-6", neighbours=BOUNDED, digits=4)
