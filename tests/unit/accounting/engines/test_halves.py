"""Enumeration in two halves against enumeration in one table, in ball arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb
from tests.samples import few

from tallyveil.accounting.curves import betas_at
from tallyveil.accounting.engines import choose, halves
from tallyveil.accounting.engines.ball_tails import Enumeration
from tallyveil.accounting.engines.choose import engine_for
from tallyveil.accounting.engines.dithered import Dithered
from tallyveil.accounting.engines.enclosing import Between, WithFailure
from tallyveil.accounting.engines.halves import Halves
from tallyveil.accounting.engines.tails import Tails
from tallyveil.accounting.losses import (
    ExponentialLoss,
    GaussianLoss,
    LaplaceLoss,
    NormalLoss,
    ResponseLoss,
    SampledLoss,
)
from tallyveil.accounting.numbers import Bounds

LAPLACE = LaplaceLoss(Fraction(7, 3), 2, 3)
LAWS = {
    "one loss": (LaplaceLoss(Fraction(2), 1, 1),),
    "no lattice": (LAPLACE, LaplaceLoss(Fraction(337, 100), 1, 5), ResponseLoss(Fraction(4, 7), 3, 2)),
    "large losses": (LaplaceLoss(Fraction(1, 90), 2, 1), ResponseLoss(Fraction(700), 5, 1)),
    "tiny losses": (LaplaceLoss(Fraction(10**9), 1, 4), ResponseLoss(Fraction(1, 10**7), 3, 2)),
    "Gaussian noise": (GaussianLoss(Fraction(5, 4), 1, 1), LAPLACE),
    "narrow": (GaussianLoss(Fraction(1, 5), 1, 2), GaussianLoss(Fraction(2, 7), 1, 1)),
    "samples": (SampledLoss(ResponseLoss(Fraction(2), 3), Fraction(1, 7), multiplicity=2), LAPLACE),
    "an added record": (SampledLoss(LAPLACE, Fraction(3, 5), added=True), ResponseLoss(Fraction(1), 4, 1)),
}


@pytest.mark.parametrize("name", LAWS)
def test_all_tails_enclose_those_of_one_table(name: str) -> None:
    law = LAWS[name]
    engine, truth = Halves.build(law), Enumeration.build(law)
    assert engine is not None
    assert truth is not None
    assert engine.is_whole == truth.is_whole
    losses = sorted(truth.probabilities)
    # On losses, beside them, between them, below and above all that matter.
    places = [losses[len(losses) * i // 7] for i in (1, 3, 4, 5, 6)]
    beside = [place + side * Fraction(1, 10**40) for place in places[:2] for side in (-1, 1)]
    epsilons = [*places, *beside, Fraction(0), Fraction(1, 3), -places[-1], Fraction(-1, 2)]
    for epsilon in epsilons:
        tails, wanted = engine.log_tails(epsilon), truth.log_tails(epsilon)
        for part in ("log_first", "log_second", "log_delta"):
            bounds, exact = getattr(tails, part), getattr(wanted, part)
            assert bounds.lower <= exact.upper
            assert exact.lower <= bounds.upper
        # Where what is cut off is far below delta.
        if wanted.log_delta.width < 1e-14 and wanted.log_delta.lower > -60:
            assert tails.log_delta.width < 1e-10
        assert engine.log_deltas([epsilon])[0] == tails.log_delta


@pytest.mark.parametrize("name", few(2, ["one loss", "no lattice", "Gaussian noise", "narrow"]))
def test_the_trade_off_function_is_as_close_as_that_of_one_table(name: str) -> None:
    """Its tests reject between two losses, where rounded losses are on their side."""
    law = LAWS[name]
    engine, truth = Halves.build(law), Enumeration.build(law)
    assert engine is not None
    assert truth is not None
    alphas = [Fraction(1, 20), Fraction(1, 3), Fraction(1, 2)]
    for (_, beta), (_, exact) in zip(
        betas_at(engine, law, alphas), betas_at(truth, law, alphas), strict=True
    ):
        assert beta.lower <= exact.upper
        assert exact.lower <= beta.upper
        assert beta.width < 1e-11


def test_beyond_the_largest_loss_nothing_is_left_and_far_below_everything() -> None:
    engine = Halves.build(LAWS["no lattice"])
    assert engine is not None
    assert engine.log_deltas([100])[0].upper == -math.inf
    largest = max(Fraction(loss) for loss in Enumeration.build(LAWS["no lattice"]).probabilities)
    nothing = Bounds(-math.inf, -math.inf)
    assert engine.log_tails(largest) == Tails(nothing, nothing, nothing)
    assert engine.log_deltas([largest - Fraction(1, 10**9)])[0].lower > -math.inf
    below = engine.log_tails(-100)
    assert below.log_first.lower > -1e-12
    assert below.log_first.upper == 0
    assert below.log_second.lower > -1e-12


def test_a_ball_that_holds_zero_has_an_upper_bound_alone() -> None:
    logs = halves._Logs.of([arb(0), arb(0, 1), arb("0.5")])
    assert logs.lower.tolist()[:2] == [-math.inf, -math.inf]
    assert logs.upper[0] == -math.inf
    assert 0 <= logs.upper[1] < 1e-8
    assert logs.lower[2] <= math.log(0.5) <= logs.upper[2]
    assert logs.lower[3] == logs.upper[3] == -math.inf


def test_what_has_a_density_or_takes_too_long_is_left_to_others() -> None:
    assert Halves.build((ExponentialLoss(Fraction(1)), LAPLACE)) is None
    assert Halves.build((GaussianLoss(Fraction(10**9), 1, 1), LAPLACE)) is None
    many = tuple(LaplaceLoss(Fraction(10**4 + n, 1000), 1, 25) for n in range(40))
    assert Halves.build(many) is None


def test_deltas_far_below_every_float_keep_their_digits_if_noise_is_cut_further_out() -> None:
    law = LAWS["Gaussian noise"]
    usual = Halves.build(law)
    deep = Halves.build(law, least_delta=Fraction(1, 10**310))
    assert usual is not None
    assert deep is not None
    epsilon = 30
    assert usual.log_deltas([epsilon])[0].lower <= deep.log_deltas([epsilon])[0].upper
    assert deep.log_deltas([epsilon])[0].upper < -400
    assert deep.log_deltas([epsilon])[0].width < 1e-9
    assert usual.log_deltas([epsilon])[0].upper >= deep.log_deltas([epsilon])[0].lower


def test_the_bounds_hold_where_every_operation_rounds_a_lot(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a unit that is larger, the bounds are wider by as much and still enclose the truth."""
    law = LAWS["no lattice"]
    usual = Halves.build(law)
    monkeypatch.setattr(halves, "UNIT", 2.0**-30)
    wide = Halves.build(law)
    assert usual is not None
    assert wide is not None
    for epsilon in (-1.0, 0.2, 1.5):
        near, far = usual.log_deltas([epsilon])[0], wide.log_deltas([epsilon])[0]
        assert far.lower < near.lower <= near.upper < far.upper
        assert 1e-7 < far.width < 1e-3


@pytest.mark.parametrize(("scale", "steps"), [("3", 300), ("150.5", 301), ("1000", 256)])
def test_discrete_laplace_noise_lies_between_two_real_ones(scale: str, steps: int) -> None:
    """docs/proofs/real-noise.md, section 2: at every epsilon, and close where there are many steps."""
    loss = LaplaceLoss(Fraction(scale), steps, 1)
    truth = Enumeration.build((loss,))
    between = choose._between_others((loss,), 1e-9)
    assert truth is not None
    assert isinstance(between, Between)
    most = -loss.offset
    more = between.upper_law[0].epsilon - most
    assert between.lower_law == (ExponentialLoss(most),)
    assert more == 1 / (4 * loss.scale**2)
    for share in np.linspace(-0.99, 0.999, 23).tolist():
        epsilon = Fraction(share) * most
        exact = truth.log_tails(epsilon).log_delta
        upper = between.upper.log_deltas([epsilon])[0].upper
        lower = between.lower.log_deltas([epsilon])[0].lower
        assert lower <= exact.upper
        assert exact.lower <= upper
    # Further from each other than half the distance of the largest losses, the bound would be no longer one.
    tight = Enumeration.build((ExponentialLoss(most + more / 100),))
    assert tight is not None
    middle = loss.step * (steps // 2) + loss.offset + loss.step / 2
    assert tight.log_tails(middle).log_delta.upper < truth.log_tails(middle).log_delta.lower


def test_fine_laplace_noise_beside_normal_noise_has_bounds_close_to_real_noise() -> None:
    law = (LaplaceLoss(Fraction(5000), 5000, 1), NormalLoss(Fraction(1)))
    engine = engine_for(law, "auto", 1e-9)
    assert isinstance(engine, Between)
    assert isinstance(engine.upper, Dithered)
    for epsilon in (0.5, 4.0):
        assert engine.log_deltas([epsilon])[0].width < 1e-7


def test_failures_on_samples_are_not_taken_out_again_beside_real_noise() -> None:
    sample = SampledLoss(ResponseLoss(Fraction(1), 3), Fraction(1, 2), Fraction(1, 10))
    between = choose._between_others((sample, LaplaceLoss(Fraction(400), 300, 1)), 1e-3)
    assert between is not None
    assert not isinstance(between.upper, WithFailure)
    assert not isinstance(between.lower, WithFailure)
