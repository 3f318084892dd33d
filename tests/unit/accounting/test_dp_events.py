"""Events of dp_accounting, read as ours: the same mechanism under the same relation, or an error that names it."""

from dataclasses import dataclass
from fractions import Fraction

import pytest

from tallyveil.accounting import (
    ZCDP,
    ApproximateDP,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    MixtureOfGaussians,
    NonPrivateEvent,
    PoissonSampled,
    RandomizedResponse,
    SampledWithoutReplacement,
    SequentialEvent,
    compose,
    from_dp_event,
    rho_of,
)
from tallyveil.errors import BudgetError

theirs = pytest.importorskip("dp_accounting.dp_event")
NOTHING = SequentialEvent(())
SAMPLED_AGAIN = theirs.SampledWithReplacementDpEvent(9, 3, theirs.GaussianDpEvent(1.0))


@dataclass
class EpsilonDeltaDpEvent:
    """As in versions of dp_accounting that have it."""

    epsilon: float
    delta: float


def read(event, neighbours="unbounded"):
    return from_dp_event(event, neighbours=neighbours)


def test_each_kind_of_event() -> None:
    assert read(theirs.GaussianDpEvent(1.5)) == Gaussian("9/4")
    assert read(theirs.GaussianDpEvent(1.5), "bounded") == Gaussian("9/4", 2)
    assert read(theirs.GaussianDpEvent(1.1)) == Gaussian(Fraction(1.1) ** 2)
    assert read(theirs.LaplaceDpEvent(0.5)) == Laplace("1/2")
    assert read(theirs.LaplaceDpEvent(0.5), "bounded") == Laplace("1/2", 2)
    assert read(theirs.DiscreteLaplaceDpEvent(0.5, 3)) == DiscreteLaplace(2, 3)
    assert read(EpsilonDeltaDpEvent(1.0, 2.0**-20)) == ApproximateDP(1, Fraction(1, 2**20))
    assert read(theirs.ZCDpEvent(0.25)) == ZCDP("1/4")
    assert read(theirs.NoOpDpEvent()) == read(theirs.ZCDpEvent(0.0)) == NOTHING
    for event in (theirs.NonPrivateDpEvent(), theirs.GaussianDpEvent(0.0), theirs.LaplaceDpEvent(0.0)):
        assert isinstance(read(event), NonPrivateEvent)


def nodes_with_first_step(steps: int) -> int:
    """Sums that hold the first of some steps, counted one by one: whole subtrees that end within the steps."""
    return sum(1 for level in range(steps) if 2**level <= steps)


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 7, 8, 1000])
def test_tree_aggregation_is_gaussian_noise_on_the_sums_that_hold_a_step(steps) -> None:
    tree = theirs.SingleEpochTreeAggregationDpEvent(2.0, steps)
    assert read(tree) == Gaussian(4, 1, nodes_with_first_step(steps))
    assert read(tree, "bounded") == Gaussian(4, 2, nodes_with_first_step(steps))
    twice = theirs.SelfComposedDpEvent(tree, 2)
    assert read(twice) == Gaussian(4, 1, 2 * nodes_with_first_step(steps))


def test_the_longest_of_several_trees_counts() -> None:
    assert read(theirs.SingleEpochTreeAggregationDpEvent(2.0, [3, 9, 0])) == Gaussian(4, 1, 4)
    assert isinstance(read(theirs.SingleEpochTreeAggregationDpEvent(0.0, 4)), NonPrivateEvent)


def test_tree_aggregation_costs_what_the_peer_says() -> None:
    accountant = pytest.importorskip("dp_accounting.rdp")
    event = theirs.SingleEpochTreeAggregationDpEvent(4.0, [5, 100])
    peer = accountant.RdpAccountant([4.0], theirs_relations().REPLACE_SPECIAL).compose(event).rdp[0]
    assert rho_of(read(event)) * 4 == pytest.approx(peer, rel=1e-12)


def theirs_relations():
    return pytest.importorskip("dp_accounting.privacy_accountant").NeighboringRelation


def test_samples_of_fixed_size() -> None:
    event = theirs.SampledWithoutReplacementDpEvent(9, 3, theirs.GaussianDpEvent(1.0))
    assert read(event, "bounded") == SampledWithoutReplacement(Gaussian(1, 2), 3, 9)
    shared = theirs.SampledWithoutReplacementDpEvent(
        9, 3, theirs.SelfComposedDpEvent(theirs.GaussianDpEvent(1.0), 4)
    )
    assert read(theirs.SelfComposedDpEvent(shared, 5), "bounded") == SampledWithoutReplacement(
        Gaussian(1, 2, 4), 3, 9, 5
    )
    assert (
        read(theirs.SampledWithoutReplacementDpEvent(9, 0, theirs.GaussianDpEvent(1.0)), "bounded") == NOTHING
    )
    assert read(theirs.SampledWithoutReplacementDpEvent(9, 3, theirs.NoOpDpEvent()), "bounded") == NOTHING


def test_mixtures_of_gaussians_with_probabilities_that_sum_to_one_but_for_rounding() -> None:
    exact = theirs.MixtureOfGaussiansDpEvent(2.0, [2.0, 0.0, 1.0], [0.125, 0.75, 0.125])
    assert read(exact) == MixtureOfGaussians(4, [0, 1, 2], ["3/4", "1/8", "1/8"])
    assert read(theirs.SelfComposedDpEvent(exact, 3)).multiplicity == 3
    tiny = Fraction(1, 2**50)
    less = read(theirs.MixtureOfGaussiansDpEvent(2.0, [0.0, 1.0], [0.75 - 2.0**-50, 0.25]))
    assert less == MixtureOfGaussians(4, [0, 1], [Fraction(3, 4) - tiny, Fraction(1, 4) + tiny])
    more = read(theirs.MixtureOfGaussiansDpEvent(2.0, [0.0, 1.0], [0.75 + 2.0**-50, 0.25]))
    assert more == MixtureOfGaussians(4, [0, 1], ["3/4", "1/4"])
    gone = read(theirs.MixtureOfGaussiansDpEvent(2.0, [0.0, 1.0, 3.0], [2.0**-60, 0.75 + 2.0**-50, 0.25]))
    assert gone == MixtureOfGaussians(4, [1, 3], ["3/4", "1/4"])
    assert read(theirs.MixtureOfGaussiansDpEvent(2.0, [0.0], [1.0])) == NOTHING
    assert isinstance(read(theirs.MixtureOfGaussiansDpEvent(0.0, [1.0], [1.0])), NonPrivateEvent)


def test_randomized_response_is_rounded_up() -> None:
    found = read(theirs.RandomizedResponseDpEvent(0.5, 3), "bounded")
    assert isinstance(found, RandomizedResponse)
    assert found.options == 3
    assert 0 < found.epsilon - Fraction(1386294361119890618, 10**18) < Fraction(1, 10**17)  # ln 4
    assert read(theirs.RandomizedResponseDpEvent(1.0, 3), "bounded") == NOTHING
    assert read(theirs.RandomizedResponseDpEvent(0.0, 3), "bounded") == NonPrivateEvent(
        "RandomizedResponseDpEvent of dp_accounting without noise"
    )


def test_events_within_events() -> None:
    steps = theirs.SelfComposedDpEvent(theirs.PoissonSampledDpEvent(0.25, theirs.GaussianDpEvent(2.0)), 1000)
    assert read(steps) == PoissonSampled(Gaussian(4), "1/4", 1000)
    whole = theirs.ComposedDpEvent([steps, theirs.SelfComposedDpEvent(theirs.ZCDpEvent(0.25), 2)])
    assert read(whole) == SequentialEvent((PoissonSampled(Gaussian(4), "1/4", 1000), ZCDP("1/2")))
    twice = theirs.SelfComposedDpEvent(theirs.ComposedDpEvent([theirs.LaplaceDpEvent(1.0)]), 2)
    assert read(twice) == SequentialEvent((Laplace(1, 1, 2),))
    assert read(theirs.SelfComposedDpEvent(theirs.NonPrivateDpEvent(), 3)) == read(theirs.NonPrivateDpEvent())
    assert read(theirs.SelfComposedDpEvent(theirs.NonPrivateDpEvent(), 0)) == NOTHING
    shared = theirs.ComposedDpEvent(
        [theirs.GaussianDpEvent(2.0), theirs.NoOpDpEvent(), theirs.GaussianDpEvent(2.0)]
    )
    assert read(theirs.PoissonSampledDpEvent(0.5, shared)) == PoissonSampled(Gaussian(2), "1/2")
    assert read(theirs.PoissonSampledDpEvent(0.5, theirs.NoOpDpEvent())) == NOTHING


@pytest.mark.parametrize(
    ("event", "neighbours", "named"),
    [
        (theirs.UnsupportedDpEvent(), "unbounded", "UnsupportedDpEvent"),
        (
            theirs.RepeatAndSelectDpEvent(theirs.UnsupportedDpEvent(), 10.0, 1.0),
            "unbounded",
            "UnsupportedDpEvent",
        ),
        (
            theirs.SampledWithReplacementDpEvent(9, 3, theirs.GaussianDpEvent(1.0)),
            "unbounded",
            "SampledWithReplacement",
        ),
        (theirs.ComposedDpEvent([theirs.UnsupportedDpEvent()]), "unbounded", "UnsupportedDpEvent"),
        (theirs.ZCDpEvent(1.0, 0.5), "unbounded", "xi = 0"),
        (theirs.RandomizedResponseDpEvent(0.5, 2), "unbounded", "neighbours='bounded'"),
        (theirs.PoissonSampledDpEvent(0.5, theirs.GaussianDpEvent(1.0)), "bounded", "neighbours='unbounded'"),
        (theirs.PoissonSampledDpEvent(0.5, theirs.ZCDpEvent(1.0)), "unbounded", "no sample is known"),
        (
            theirs.PoissonSampledDpEvent(
                0.5, theirs.ComposedDpEvent([theirs.LaplaceDpEvent(1.0), theirs.GaussianDpEvent(1.0)])
            ),
            "unbounded",
            "Several releases use its sample",
        ),
        ("GaussianDpEvent", "unbounded", "'GaussianDpEvent'"),
        (theirs.DiscreteLaplaceDpEvent(0.0, 1), "unbounded", "above 0"),
        (type("GaussianDpEvent", (), {})(), "unbounded", "'noise_multiplier'"),
        (theirs.GaussianDpEvent(-5.0), "unbounded", "below 0"),
        (theirs.SingleEpochTreeAggregationDpEvent(1.0, []), "unbounded", "step_counts"),
        (
            theirs.SampledWithoutReplacementDpEvent(9, 3, theirs.GaussianDpEvent(1.0)),
            "unbounded",
            "neighbours='bounded'",
        ),
        (
            theirs.SampledWithoutReplacementDpEvent(9, 3, theirs.ZCDpEvent(1.0)),
            "bounded",
            "no sample is known",
        ),
        (theirs.MixtureOfGaussiansDpEvent(1.0, [1.0], [1.0]), "bounded", "neighbours='unbounded'"),
        (theirs.MixtureOfGaussiansDpEvent(-1.0, [1.0], [1.0]), "unbounded", "below 0"),
        (theirs.MixtureOfGaussiansDpEvent(1.0, [1.0, 2.0], [0.5, 0.4]), "unbounded", "with sum 1"),
        (theirs.MixtureOfGaussiansDpEvent(1.0, [1.0, -2.0], [0.5, 0.5]), "unbounded", "none below 0"),
        (theirs.MixtureOfGaussiansDpEvent(1.0, 1.0, [0.5]), "unbounded", "must be a list"),
        (theirs.SingleEpochTreeAggregationDpEvent(1.0, [0, 0]), "unbounded", "step_counts"),
    ],
)
def test_what_is_not_supported_is_named(event, neighbours, named) -> None:
    with pytest.raises(BudgetError, match=named) as caught:
        read(event, neighbours)
    assert caught.value.code == "dp-event"


def test_a_number_of_options_that_is_no_integer_is_refused_by_its_name() -> None:
    with pytest.raises(BudgetError, match=r"^num_buckets must be an integer"):
        read(theirs.RandomizedResponseDpEvent(0.5, 2.5), "bounded")


def test_numbers_out_of_range_are_refused() -> None:
    for event in (
        theirs.GaussianDpEvent(float("nan")),
        theirs.LaplaceDpEvent(-1.0),
        theirs.GaussianDpEvent(1e-300),
    ):
        with pytest.raises(BudgetError):
            read(event)


@pytest.mark.parametrize("relation", ["ADD_OR_REMOVE_ONE", "REPLACE_ONE"])
def test_their_accountant_means_the_same_by_each_relation(relation: str) -> None:
    library, pld = pytest.importorskip("dp_accounting"), pytest.importorskip("dp_accounting.pld")
    event = theirs.GaussianDpEvent(3.0)
    accountant = pld.PLDAccountant(library.NeighboringRelation[relation])
    accountant.compose(event)
    ours = "unbounded" if relation == "ADD_OR_REMOVE_ONE" else "bounded"
    found = compose(read(event, ours), neighbours=ours).epsilon("1e-5")
    assert accountant.get_epsilon(1e-5) == pytest.approx(found.upper, rel=1e-3)
