"""Integer noise that stands for other noise, and failures: what costs no less, what costs no more, and how close."""

import math
from fractions import Fraction

import mpmath
import pytest

from tallyveil.accounting.engines import choose
from tallyveil.accounting.engines.ball_tails import Normal, OneSample
from tallyveil.accounting.engines.choose import NoLoss, _failures, engine_for, standing, without_fine
from tallyveil.accounting.engines.dithered import Dithered
from tallyveil.accounting.engines.enclosing import Between, WithFailure
from tallyveil.accounting.engines.gridded import Gridded
from tallyveil.accounting.engines.halves import Halves
from tallyveil.accounting.losses import (
    ConcentratedLoss,
    ExponentialLoss,
    FailureLoss,
    GaussianLoss,
    LaplaceLoss,
    NormalLoss,
    ResponseLoss,
    SampledLoss,
)
from tallyveil.errors import BudgetError

RESPONSE = ResponseLoss(Fraction(1), 3, 1)


def laplace_log_rest(loss: LaplaceLoss, epsilon: Fraction) -> mpmath.mpf:
    """ln(1 - delta) of one discrete Laplace answer: linear in exp(epsilon) between its losses, where it is exact."""
    k = loss.sensitivity
    place = (k - epsilon * loss.scale) / 2  # j of epsilon, between 0 and k
    j = math.floor(place)
    ends = [
        mpmath.exp(mpmath.mpf((k - 2 * i) * loss.scale.denominator) / loss.scale.numerator)
        for i in (j, j + 1)
    ]
    # At exp((k - 2 j) / t), 1 - delta is a^j, a = exp(-1 / t).
    rests = [mpmath.exp(-mpmath.mpf(i * loss.scale.denominator) / loss.scale.numerator) for i in (j, j + 1)]
    kappa = mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator)
    share = (kappa - ends[1]) / (ends[0] - ends[1])
    return mpmath.log(rests[1] + share * (rests[0] - rests[1]))


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(3, 2), Fraction(40)])
def test_discrete_laplace_noise_costs_no_less_and_no_more_than_that_of_real_numbers(
    epsilon: Fraction,
) -> None:
    (covering,), (covered,) = (
        standing((ExponentialLoss(epsilon, 3),), covering=side) for side in (True, False)
    )
    assert isinstance(covering, LaplaceLoss)
    assert isinstance(covered, LaplaceLoss)
    assert covering.multiplicity == covered.multiplicity == 3
    assert covering.sensitivity / covering.scale == epsilon
    with mpmath.workdps(60):
        for share in ("0", "0.1234567", "0.87", "-0.4", "0.99"):
            at = epsilon * Fraction(share)
            # 1 - delta = exp((at - epsilon) / 2) for real numbers.
            real = mpmath.mpf((at - epsilon).numerator) / (at - epsilon).denominator / 2
            low, high = laplace_log_rest(covering, at), laplace_log_rest(covered, at)
            assert low <= real * (1 - mpmath.mpf("1e-50")) + mpmath.mpf("1e-50")
            assert real <= high
            assert high - low < float(epsilon) ** 2 / 2**28


@pytest.mark.parametrize("mu_squared", [Fraction(1, 7), Fraction(3), Fraction(900)])
def test_discrete_noise_stands_for_normal_noise_on_either_side(mu_squared: Fraction) -> None:
    """Of almost the same mu squared: a little more for the upper bound, a little less for the lower one."""
    (more,), (less,) = (standing((NormalLoss(mu_squared, 5),), covering=side) for side in (True, False))
    assert isinstance(more, GaussianLoss)
    assert isinstance(less, GaussianLoss)
    for one in (more, less):
        assert one.multiplicity == 5
        assert one.variance > 10**7
    with_four = [
        Fraction(one.sensitivity**2) / (one.variance + side * 4) for one, side in ((more, 1), (less, -1))
    ]
    assert with_four == [
        mu_squared,
        mu_squared,
    ]  # docs/proofs/real-noise.md, section 2: four is added or taken off


def test_normal_noise_that_costs_next_to_nothing() -> None:
    tiny, least = NormalLoss(Fraction(1, 10**20), 2), NormalLoss(Fraction(1, 2**34), 2)
    assert standing((tiny,), covering=False) == ()
    assert standing((tiny,), covering=True) == standing((least,), covering=True) != ()
    sampled = SampledLoss(replace_multiplicity(tiny), Fraction(1, 3))
    assert standing((sampled,), covering=False) == ()
    (kept,) = standing((sampled,), covering=True)
    assert kept == SampledLoss(standing((replace_multiplicity(least),), covering=True)[0], Fraction(1, 3))
    failing = SampledLoss(None, Fraction(1, 3), Fraction(1, 10))
    assert standing((failing,), covering=False) == standing((failing,), covering=True) == (failing,)


def replace_multiplicity(loss: NormalLoss) -> NormalLoss:
    return NormalLoss(loss.mu_squared)


def test_fine_integer_noise_is_taken_as_normal_noise_on_either_side() -> None:
    fine, coarse = GaussianLoss(Fraction(10**8), 10**4, 2), GaussianLoss(Fraction(10**8 - 1), 10**4, 2)
    assert without_fine((coarse, RESPONSE), covering=True) == (coarse, RESPONSE)
    assert without_fine((fine,), covering=True) == (NormalLoss(2 * Fraction(10**8, 10**8 - 4)),)
    assert without_fine((fine,), covering=False) == (NormalLoss(2 * Fraction(10**8, 10**8 + 4)),)
    one = GaussianLoss(Fraction(10**8), 10**4, 1)
    (sampled,) = without_fine((SampledLoss(one, Fraction(1, 2)),), covering=True)
    assert sampled == SampledLoss(NormalLoss(Fraction(10**8, 10**8 - 4)), Fraction(1, 2))


def test_the_engine_follows_the_losses() -> None:
    assert isinstance(engine_for((NormalLoss(Fraction(1)),), "auto", 1e-9), Normal)
    assert isinstance(engine_for((RESPONSE,), "auto", 1e-9), Halves)
    assert isinstance(engine_for((RESPONSE,), "gridded", 1e-9), Gridded)
    law = (RESPONSE, NormalLoss(Fraction(1)))
    assert isinstance(engine_for(law, "auto", 1e-9), Dithered)
    both = engine_for(law, "gridded", 1e-9)
    assert isinstance(both, Between)
    assert both.upper.log_deltas([1.0])[0].upper > both.lower.log_deltas([1.0])[0].lower
    # The chords are a fiftieth of the standard deviation, here of rho = 1/2 + 1/2.
    assert both.chord == pytest.approx(0.02 * math.sqrt(2 * (0.5 + 0.5)))
    nearly_none = engine_for((NormalLoss(Fraction(1, 10**20)), RESPONSE), "gridded", 1e-9)
    assert isinstance(nearly_none, Between)
    one = (SampledLoss(NormalLoss(Fraction(1, 10**20)), Fraction(1, 3)),)
    assert isinstance(engine_for(one, "auto", 1e-9), OneSample)
    alone = engine_for(one, "gridded", 1e-9)
    assert isinstance(alone, Between)
    assert isinstance(alone.lower, NoLoss)
    with_failure = engine_for((FailureLoss(Fraction(1, 10)), RESPONSE), "auto", 1e-9)
    assert isinstance(with_failure, WithFailure)
    assert with_failure.law == (RESPONSE,)
    assert isinstance(with_failure.rest, Halves)
    rho = engine_for((ConcentratedLoss(Fraction(1, 2)),), "auto", 1e-9)
    assert isinstance(rho, Between)
    assert rho.lower_law == (NormalLoss(Fraction(1)),)
    with pytest.raises(BudgetError, match="integer noise only"):
        engine_for((RESPONSE,), "quadrature", 1e-9)
    assert isinstance(engine_for((FailureLoss(1 - Fraction(1, 10**300)),), "auto", 1e-9), WithFailure)
    with pytest.raises(BudgetError, match="cannot tell from 1"):
        engine_for((FailureLoss(1 - Fraction(1, 10**301)),), "auto", 1e-9)


def test_failures_of_all_kinds_combine_exactly_or_in_balls(monkeypatch: pytest.MonkeyPatch) -> None:
    law = (
        FailureLoss(Fraction(1, 7), 3),
        FailureLoss(Fraction(1, 10**9), 5),
        SampledLoss(None, Fraction(1, 4), Fraction(1, 3), multiplicity=2),
        SampledLoss(None, Fraction(1, 4), Fraction(1, 3), added=True, multiplicity=11),  # costs no failure
        NormalLoss(Fraction(1)),
    )
    none = Fraction(6, 7) ** 3 * (1 - Fraction(1, 10**9)) ** 5 * Fraction(11, 12) ** 2
    assert _failures(law) == (1 - none, 1 - none)
    assert _failures(()) == (0, 0)
    monkeypatch.setattr(choose, "_FEW_ANSWERS", 0)
    least, most = _failures(law)
    assert least < 1 - none < most < least * (1 + Fraction(1, 10**300))
    assert 0 <= _failures((FailureLoss(Fraction(1, 10**9), 10**40),))[0] <= 1
    assert _failures((FailureLoss(Fraction(1, 10**9), 10**40),))[1] == 1
    assert math.isclose(
        _failures((FailureLoss(Fraction(1, 10**12), 10**6),))[0], -math.expm1(-1e-6), rel_tol=1e-9
    )


FAILING = SampledLoss(ResponseLoss(Fraction(1), 3), Fraction(1, 2), Fraction(1, 10))
FIXED_SIZE = SampledLoss(NormalLoss(Fraction(1)), Fraction(1, 10), changed=True, multiplicity=2)


def test_failures_on_samples_are_taken_out_once_in_lower_bounds_too() -> None:
    engine = engine_for((FIXED_SIZE, FAILING), "auto", 1e-3)
    assert isinstance(engine, WithFailure)
    assert isinstance(engine.rest, Between)
    # Of the rest nothing is left far out, and of the whole the failure alone: a twentieth.
    assert engine.rest.lower.log_deltas([50])[0].upper < -50
    far = engine.log_deltas([50])[0]
    assert far.lower == pytest.approx(math.log(0.05), abs=1e-9)
    assert far.upper == pytest.approx(math.log(0.05), abs=1e-9)


def test_failures_on_samples_are_not_taken_out_of_what_is_left_without_other_samples() -> None:
    engine = choose._dithered((FIXED_SIZE, FAILING), 1e-3)
    assert engine is not None
    assert engine._stays is not None
    _, rest = engine._stays
    assert not isinstance(rest, WithFailure)
    # Without other samples nothing but the response is left, whose largest loss is below 1.
    assert rest.log_deltas([2])[0].upper == -math.inf
