"""The least noise for a target: known values, safe rounding, proportions kept."""

import math
from fractions import Fraction

import pytest

from tallyveil.accounting import (
    ZCDP,
    AdaptiveEvent,
    ApproximateDP,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    IntegerSubspaceGaussian,
    IntegerSubspaceLaplace,
    Laplace,
    Neighbours,
    NonPrivateEvent,
    ParallelEvent,
    PoissonSampled,
    RandomizedResponse,
    WorstEvent,
    calibrate,
    calibration,
    compose,
)
from tallyveil.accounting.calibration import scaled
from tallyveil.accounting.events import InvariantEvent, SequentialEvent
from tallyveil.errors import BudgetError

# Variance, and the variance that gives the textbook zCDP epsilon at 1e-11 exactly: balls of radius < 1e-14.
TRUSTED = {
    "68.49": 54.191402355493,
    "5.00": 4.245685818070,
    "16.12": 13.286231556140,
    "10.46": 8.720864715788,
    "5.76": 4.875840917054,
    "11.61": 9.648473819142,
    "456.62": 343.268296779377,
}
ADD_REMOVE = Neighbours.UNBOUNDED


@pytest.mark.parametrize(("variance", "wanted"), TRUSTED.items())
def test_trusted_values(variance, wanted):
    event = DiscreteGaussian(variance, multiplicity=10)
    rho = 5 / float(variance)
    textbook = rho + 2 * math.sqrt(rho * math.log(1e11))
    found = calibrate(event, epsilon=textbook, delta="1e-11", neighbours=ADD_REMOVE)
    assert float(found.factor) * float(variance) == pytest.approx(wanted, rel=1e-10)
    assert found.guarantee.epsilon("1e-11").upper <= textbook


def test_the_target_is_met_and_a_hair_less_noise_misses_it():
    event = SequentialEvent((DiscreteGaussian(3, multiplicity=4), DiscreteGaussian(40, multiplicity=7)))
    found = calibrate(event, epsilon=2, delta="1e-9", neighbours=ADD_REMOVE)
    assert found.guarantee.log_delta(2).upper <= math.log(1e-9)
    less = scaled(event, found.factor * (1 - Fraction(1, 10**9)))
    assert compose(less, neighbours=ADD_REMOVE).log_delta(2).lower > math.log(1e-9)


@pytest.mark.parametrize("epsilon", ["2.3", "0.7", pytest.param("17.14", marks=pytest.mark.soak)])
def test_the_epsilon_of_the_result_is_not_above_the_target(epsilon):
    event = SequentialEvent((DiscreteGaussian("3.1415926535"), DiscreteGaussian("9.1347", multiplicity=3)))
    found = calibrate(event, epsilon=epsilon, delta="1e-10", neighbours=ADD_REMOVE)
    lower, upper = found.epsilon
    assert lower <= upper <= Fraction(epsilon)
    assert upper - lower < 1e-8


def test_proportions_and_statements_are_kept():
    event = SequentialEvent(
        (DiscreteGaussian(3), DiscreteLaplace(2, multiplicity=2), InvariantEvent("total"))
    )
    found = calibrate(event, epsilon=1, delta="1e-6", neighbours=ADD_REMOVE)
    gaussian, laplace, invariant = found.event.events
    assert gaussian.variance / 3 == laplace.scale / 2 == found.factor
    assert laplace.multiplicity == 2
    assert invariant == InvariantEvent("total")


def test_pure_noise_alone():
    found = calibrate(DiscreteLaplace(5), epsilon="1/2", delta="1e-12", neighbours=ADD_REMOVE)
    # At so small a delta the exact scale is a hair below the pure one, 1 / epsilon = 2.
    assert Fraction(39, 20) < 5 * found.factor <= 2


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        (0, "1e-9"),
        (-1, "1e-9"),
        (1, 0),
        (1, 1),
        (1, 2),
        (float("nan"), "1e-9"),
        ("1000000001", "1e-9"),
        ("1e400", "1e-9"),
        (1, "1e400"),
        ("-1e400", "1e-9"),
    ],
)
def test_impossible_targets_are_refused(epsilon, delta):
    with pytest.raises(BudgetError):
        calibrate(DiscreteGaussian(1), epsilon=epsilon, delta=delta, neighbours=ADD_REMOVE)


@pytest.mark.parametrize("epsilon", [10**9, "1e-400"])
def test_targets_at_the_ends_are_met(epsilon):
    found = calibrate(DiscreteGaussian(10), epsilon=epsilon, delta="1e-10", neighbours=ADD_REMOVE)
    assert found.guarantee.log_delta(Fraction(epsilon)).upper <= math.log(1e-10)


def test_few_guarantees_are_computed(monkeypatch):
    """Where no lattice holds all losses each one takes a third of a second, so a search may not take twenty."""
    calls = []

    def counted(*events, neighbours):
        calls.append(events)
        return compose(*events, neighbours=neighbours)

    monkeypatch.setattr(calibration, "compose", counted)
    event = SequentialEvent((DiscreteGaussian(9000, multiplicity=3), DiscreteLaplace(200, multiplicity=20)))
    found = calibrate(event, epsilon=1, delta="1e-7", neighbours=ADD_REMOVE)
    assert found.guarantee.log_delta(1).upper <= math.log(1e-7)
    assert len(calls) <= 10


@pytest.mark.parametrize(
    "event",
    [
        DiscreteLaplace(Fraction(1, 10**20)),
        DiscreteGaussian(10**20),
        SequentialEvent((DiscreteGaussian("0.001"), DiscreteLaplace(3))),
    ],
)
def test_noise_far_from_the_target_is_found(event):
    found = calibrate(event, epsilon=3, delta="1e-4", neighbours=ADD_REMOVE)
    assert found.guarantee.log_delta(3).upper <= math.log(1e-4)
    less = scaled(event, found.factor * (1 - Fraction(1, 10**6)))
    assert compose(less, neighbours=ADD_REMOVE).log_delta(3).lower > math.log(1e-4)


EVERY_KIND = [
    (DiscreteGaussian("7/2", 3, 5), DiscreteGaussian("7/4", 3, 5)),
    (DiscreteLaplace("7/2", 3, 5), DiscreteLaplace("7/4", 3, 5)),
    (Gaussian("7/2", "3/4", 5), Gaussian("7/4", "3/4", 5)),
    (Laplace("7/2", "3/4", 5), Laplace("7/4", "3/4", 5)),
    (RandomizedResponse("3/2", 4, 5), RandomizedResponse(3, 4, 5)),
    (ZCDP("3/2"), ZCDP(3)),
    (
        IntegerSubspaceLaplace("3/2", "l1", 2, ("sum",), "1e-9", True),
        IntegerSubspaceLaplace(3, "l1", 2, ("sum",), "1e-9", True),
    ),
    (
        IntegerSubspaceGaussian("7/2", 2, ("sum",), "1e-9"),
        IntegerSubspaceGaussian("7/4", 2, ("sum",), "1e-9"),
    ),
]


@pytest.mark.parametrize(("event", "wanted"), EVERY_KIND)
def test_half_the_noise_of_every_kind_of_release(event, wanted):
    """All that is not the size of the noise stays, alone and within every kind of event."""
    half = Fraction(1, 2)
    assert scaled(event, half) == wanted
    for whole in (
        lambda part: SequentialEvent((part, InvariantEvent("total"))),
        lambda part: ParallelEvent((part, InvariantEvent("total")), 7),
        lambda part: WorstEvent((part, NonPrivateEvent("debugging")), "public"),
    ):
        assert scaled(whole(event), half) == whole(wanted)
    with pytest.raises(BudgetError, match=r"^ApproximateDP\(.*states a guarantee"):
        scaled(SequentialEvent((event, ApproximateDP(1, "1e-9"))), half)


def test_half_the_noise_of_samples_and_of_branches_that_have_one_law():
    half, event, wanted = Fraction(1, 2), DiscreteGaussian("7/2", 3), DiscreteGaussian("7/4", 3)
    sample, halved = PoissonSampled(event, "1/9", 4), PoissonSampled(wanted, "1/9", 4)
    assert scaled(sample, half) == halved
    assert scaled(PoissonSampled(PoissonSampled(event, "1/9"), "1/2", 3), half) == PoissonSampled(
        PoissonSampled(wanted, "1/9"), "1/2", 3
    )
    assert scaled(AdaptiveEvent((sample, sample)), half) == AdaptiveEvent((halved, halved))


@pytest.mark.parametrize(
    ("value", "digits", "wanted"),
    [
        ("123456/1000", 4, "123.5"),
        ("123456/1000", 6, "123.456"),
        ("123456/1000", 2, "130"),
        ("1/3", 3, "0.334"),
        ("1/300000", 3, "0.00000334"),
        ("100", 1, "100"),
        ("100001", 2, "110000"),
        ("999.5", 3, "1000"),
    ],
)
def test_a_factor_is_rounded_up_to_its_digits(value, digits, wanted):
    assert calibration.rounded_up(Fraction(value), digits) == Fraction(wanted)


@pytest.mark.parametrize("root", [-60.0, -0.7, 1e-7, 0.4, 3.0, 80.0])
@pytest.mark.parametrize(
    ("guess", "slope"), [(0.0, -1.0), (1.0, -1e-3), (0.3, -200.0), (2.0, 1.0), (2.0, 0.0)]
)
def test_a_bracket_has_its_failing_end_first_and_is_found_in_few_steps(root, guess, slope):
    asked = []

    def excess(x):
        asked.append(x)
        return 5 * (root - x)

    low, high = calibration.bracket(excess, guess, slope)
    assert low <= root <= high
    assert excess(low) > 0 >= excess(high)
    assert len(asked) <= 22


def test_the_first_step_of_a_bracket_is_twice_that_to_the_root_and_at_most_one():
    def excess(x):
        return 5 * (0.1 - x)

    assert calibration.bracket(excess, 0.0, -5.0) == pytest.approx((0.0, 0.2))
    assert calibration.bracket(excess, 0.3, -5.0) == pytest.approx((-0.1, 0.3))
    assert calibration.bracket(excess, 0.0, -0.01) == pytest.approx((0.0, 1.0))


def test_a_search_without_an_end_is_given_up():
    for sign in (-1.0, 1.0):
        asked = []

        def excess(x, sign=sign, asked=asked):
            asked.append(x)
            return sign

        with pytest.raises(BudgetError, match="no factor between"):
            calibration.bracket(excess, 0.0, -1.0)
        assert max(map(abs, asked)) <= 1.5 * 1.5 * calibration.LARGEST_LOG_FACTOR
