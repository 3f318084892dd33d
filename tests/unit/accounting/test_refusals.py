"""What the accountant refuses, and the numbers beside which it cannot tell."""

import math
from fractions import Fraction

import flint
import pytest

import tallyveil.accounting
import tallyveil.noise
from tallyveil.accounting import (
    ZCDP,
    AdaptiveEvent,
    ApproximateDP,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    InvariantEvent,
    Laplace,
    Neighbours,
    NonPrivateEvent,
    ParallelEvent,
    PoissonSampled,
    RandomizedResponse,
    SequentialEvent,
    WorstEvent,
    ZcdpCurve,
    calibrate,
    compose,
    delta_with_total_variation,
    group_privacy,
    renyi_delta,
    renyi_divergence,
    renyi_epsilon,
    zcdp_to_delta,
    zcdp_to_epsilon,
)
from tallyveil.accounting.calibration import scaled
from tallyveil.accounting.costs import folded_cost
from tallyveil.accounting.events import IntegerSubspaceGaussian, IntegerSubspaceLaplace, require_distance
from tallyveil.accounting.losses import loss_law_of
from tallyveil.accounting.numbers import Bounds, at_least, at_most, both_ends
from tallyveil.errors import BudgetError

GAUSSIAN, LAPLACE = DiscreteGaussian(Fraction(2)), DiscreteLaplace(Fraction(3))
SUBSPACE_LAPLACE = IntegerSubspaceLaplace("1/4", "l1", Fraction(4))
SUBSPACE_GAUSSIAN = IntegerSubspaceGaussian(5, 4)


@pytest.mark.parametrize("module", [tallyveil.accounting, tallyveil.noise])
def test_names_that_are_not_offered(module):
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = module.nothing


@pytest.mark.parametrize("event", [GAUSSIAN, LAPLACE, SUBSPACE_LAPLACE, SUBSPACE_GAUSSIAN])
def test_scaling_divides_the_cost_of_every_release(event):
    """By the factor itself, in rho for Gaussian noise and in epsilon for Laplace noise."""
    cost = "epsilon" if event in (LAPLACE, SUBSPACE_LAPLACE) else "rho"

    def of(one):
        if isinstance(one, DiscreteGaussian):
            return one.multiplicity * Fraction(one.sensitivity**2) / (2 * one.variance)
        if isinstance(one, DiscreteLaplace):
            return one.multiplicity * Fraction(one.sensitivity) / one.scale
        return one.loss if isinstance(one, IntegerSubspaceLaplace) else one.rho

    trees = [
        event,
        SequentialEvent((event, event)),
        ParallelEvent((event, event), 2),
        WorstEvent((event, event), "public"),
        SequentialEvent((event, InvariantEvent("total"))),
    ]
    if event is not SUBSPACE_GAUSSIAN:  # which has no loss law, so that branches cannot be compared
        trees.append(AdaptiveEvent((event, event)))
    for tree in trees:
        before, after = (folded_cost(one, of, Fraction(0)) for one in (tree, scaled(tree, Fraction(7, 3))))
        assert after == before / Fraction(7, 3), cost
    public = NonPrivateEvent("evaluation")
    assert scaled(public, Fraction(7, 3)) is public


def test_a_target_that_cannot_be_certified_is_refused(monkeypatch):
    from tallyveil.accounting import calibration

    monkeypatch.setattr(calibration, "MAX_STEPS", 0)
    monkeypatch.setattr(calibration, "bracket", lambda excess, guess, slope: (-3.0, 3.0))
    with pytest.raises(BudgetError, match="fewer digits"):
        calibrate(GAUSSIAN, epsilon=1, delta="1e-9", neighbours=Neighbours.BOUNDED)


def test_branches_of_which_none_covers_the_others_have_no_single_law():
    branches = WorstEvent((GAUSSIAN, DiscreteGaussian(Fraction(2), multiplicity=3)), "public")
    assert loss_law_of(branches) == loss_law_of(branches.branches[1])  # three answers cost more than one
    apart = WorstEvent((DiscreteGaussian(Fraction(1, 2)), DiscreteLaplace(Fraction(1))), "public")
    with pytest.raises(BudgetError):
        loss_law_of(apart)
    assert compose(apart, neighbours=Neighbours.UNBOUNDED).epsilon("1e-9").upper > 0


@pytest.mark.parametrize("excess", [Fraction(1, 10**30), Fraction(1), Fraction(10**6)])
@pytest.mark.parametrize("scale", [Fraction(1, 10**6), Fraction(1), Fraction(10**90)])
def test_divergences_of_laplace_noise_stay_below_what_is_pure(scale, excess):
    """Also where the ball around the divergence is as wide as the number itself."""
    event = DiscreteLaplace(scale, 2, 3)
    found = renyi_divergence(event, 1 + excess)
    assert 0 <= found <= float(6 / scale) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("release", "neighbours", "fits"),
    [
        (IntegerSubspaceGaussian(5, 1), Neighbours.UNBOUNDED, True),
        (IntegerSubspaceGaussian(5, 1), Neighbours.BOUNDED, False),
        (IntegerSubspaceLaplace("1/4", "l1", Fraction(1)), Neighbours.BOUNDED, False),
        (IntegerSubspaceLaplace("1/4", "l1", Fraction(2)), Neighbours.BOUNDED, True),
        (IntegerSubspaceLaplace("1/4", "l2", Fraction(7, 5)), Neighbours.BOUNDED, False),
        (IntegerSubspaceLaplace("1/4", "l2", Fraction(3, 2)), Neighbours.BOUNDED, True),
    ],
)
def test_a_release_protects_tables_as_far_apart_as_one_record_moves_them(release, neighbours, fits):
    if fits:
        require_distance(release, neighbours)
        return
    with pytest.raises(BudgetError) as caught:
        require_distance(release, neighbours)
    assert caught.value.code == "subspace-distance"


def test_numbers_without_digits_are_written_in_words():
    assert at_most(math.nan, 3) == "no number"
    assert at_most(math.inf, 3) == "infinity"
    assert at_most(-math.inf, 3) == "minus infinity"
    assert both_ends(Bounds(0.0, math.inf)) == ("0", "infinity")
    assert at_most(Fraction(0), 3) == "0"


@pytest.mark.parametrize("power", [-400, -17, -1, 0, 1, 15, 400])
def test_powers_of_ten_have_their_own_leading_digit(power):
    """Logarithms in floats may be off by one; the digits shown may not."""
    exact = Fraction(10) ** power
    for value in (exact, exact * (1 - Fraction(1, 10**30)), exact * (1 + Fraction(1, 10**30))):
        shown = Fraction(at_most(value, 5))
        assert value <= shown <= value * (1 + Fraction(1, 1000))
        assert value * (1 - Fraction(2, 10**5)) <= Fraction(at_least(value, 5)) <= value


def test_balls_of_nothing_are_refused():
    from tallyveil.accounting.engines.ball_tails import _floor
    from tallyveil.errors import SolverError

    with pytest.raises((SolverError, ValueError)):
        _floor(flint.arb("nan"))


MISTAKE = "no number"
NAMED = [
    (DiscreteGaussian, "variance of DiscreteGaussian"),
    (lambda bad: DiscreteGaussian(3, bad), "sensitivity of DiscreteGaussian"),
    (lambda bad: DiscreteGaussian(3, 1, bad), "multiplicity of DiscreteGaussian"),
    (DiscreteLaplace, "scale of DiscreteLaplace"),
    (lambda bad: DiscreteLaplace(3, bad), "sensitivity of DiscreteLaplace"),
    (lambda bad: DiscreteLaplace(3, 1, bad), "multiplicity of DiscreteLaplace"),
    (Gaussian, "variance of Gaussian"),
    (lambda bad: Gaussian(3, bad), "sensitivity of Gaussian"),
    (lambda bad: Gaussian(3, 1, bad), "multiplicity of Gaussian"),
    (Laplace, "scale of Laplace"),
    (lambda bad: Laplace(3, bad), "sensitivity of Laplace"),
    (lambda bad: Laplace(3, 1, bad), "multiplicity of Laplace"),
    (RandomizedResponse, "epsilon of RandomizedResponse"),
    (lambda bad: RandomizedResponse(1, bad), "options of RandomizedResponse"),
    (lambda bad: RandomizedResponse(1, 2, bad), "multiplicity of RandomizedResponse"),
    (lambda bad: ApproximateDP(bad, 0), "epsilon of ApproximateDP"),
    (lambda bad: ApproximateDP(1, bad), "delta of ApproximateDP"),
    (lambda bad: ApproximateDP(1, 0, bad), "multiplicity of ApproximateDP"),
    (ZCDP, "rho of ZCDP"),
    (lambda bad: PoissonSampled(Gaussian(3), bad), "probability of PoissonSampled"),
    (lambda bad: PoissonSampled(Gaussian(3), "1/2", bad), "multiplicity of PoissonSampled"),
    (lambda bad: ParallelEvent((), bad), "degree of ParallelEvent"),
    (lambda bad: IntegerSubspaceLaplace(bad, "l1", 2), "epsilon of IntegerSubspaceLaplace"),
    (lambda bad: IntegerSubspaceLaplace(1, "l1", bad), "distance of IntegerSubspaceLaplace"),
    (lambda bad: IntegerSubspaceGaussian(bad, 2), "variance of IntegerSubspaceGaussian"),
    (lambda bad: IntegerSubspaceGaussian(3, bad), "squared_distance of IntegerSubspaceGaussian"),
    (lambda bad: IntegerSubspaceGaussian(3, 2, (), bad), "total variation of an integer-subspace release"),
    (lambda bad: group_privacy(bad, 0, 2), "epsilon"),
    (lambda bad: group_privacy(1, bad, 2), "delta"),
    (lambda bad: delta_with_total_variation(bad, 0, 0), "epsilon"),
    (lambda bad: delta_with_total_variation(1, bad, 0), "delta"),
    (lambda bad: delta_with_total_variation(1, 0, bad), "total variation"),
    (lambda bad: zcdp_to_epsilon(bad, "1e-9"), "rho"),
    (lambda bad: zcdp_to_epsilon(1, bad), "delta"),
    (lambda bad: zcdp_to_delta(bad, 1), "rho"),
    (lambda bad: zcdp_to_delta(1, bad), "epsilon"),
    (lambda bad: renyi_divergence(GAUSSIAN, bad), "the order of the Renyi divergence"),
    (lambda bad: renyi_epsilon(GAUSSIAN, bad), "delta"),
    (lambda bad: renyi_delta(GAUSSIAN, bad), "epsilon"),
    (ZcdpCurve, "rho of ZcdpCurve"),
    (
        lambda bad: calibrate(GAUSSIAN, epsilon=bad, delta="1e-9", neighbours="unbounded"),
        "the target epsilon",
    ),
    (lambda bad: calibrate(GAUSSIAN, epsilon=1, delta=bad, neighbours="unbounded"), "the target delta"),
    (lambda bad: compose(GAUSSIAN, neighbours="unbounded").epsilon(bad), "delta"),
    (lambda bad: compose(GAUSSIAN, neighbours="unbounded").delta(bad), "epsilon"),
    (lambda bad: compose(GAUSSIAN, neighbours="unbounded").beta(bad), "alpha"),
]


@pytest.mark.parametrize(("call", "name"), NAMED, ids=[f"{i}: {name}" for i, (_, name) in enumerate(NAMED)])
def test_a_number_that_is_refused_is_named(call, name):
    with pytest.raises(BudgetError, match=rf"^{name} must be .*{MISTAKE}"):
        call(MISTAKE)
