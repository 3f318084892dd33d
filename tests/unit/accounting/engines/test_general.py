"""Integer noise that stands for other noise, and failures: what costs no less, what costs no more, and how close."""

import math
from fractions import Fraction

import mpmath
import pytest

from tallyveil.accounting.engines import choose
from tallyveil.accounting.engines.ball_tails import Normal, OneSample
from tallyveil.accounting.engines.cells import Cells
from tallyveil.accounting.engines.choose import _failures, _in_its_place, engine_for
from tallyveil.accounting.engines.dithered import Dithered
from tallyveil.accounting.engines.enclosing import Between, WithFailure
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
def test_real_laplace_noise_costs_no_less_and_no_more_than_fine_integer_noise(epsilon: Fraction) -> None:
    fine = LaplaceLoss(2**14 / epsilon, 2**14, 1)
    covering, covered = (_in_its_place(fine, covering=side) for side in (True, False))
    assert isinstance(covering, ExponentialLoss)
    assert isinstance(covered, ExponentialLoss)
    assert covered.epsilon == epsilon
    with mpmath.workdps(60):
        for share in ("0", "0.1234567", "0.87", "-0.4", "0.99"):
            at = epsilon * Fraction(share)
            # 1 - delta = exp((at - epsilon) / 2) for real numbers.
            high, low = (
                mpmath.mpf((at - real.epsilon).numerator) / (at - real.epsilon).denominator / 2
                for real in (covered, covering)
            )
            truth = laplace_log_rest(fine, at)
            assert low <= truth * (1 - mpmath.mpf("1e-50")) + mpmath.mpf("1e-50")
            assert truth <= high + mpmath.mpf("1e-50")
            assert high - low < float(epsilon) ** 2 / 2**28


def test_real_noise_stands_for_fine_integer_noise_on_samples() -> None:
    law = SampledLoss(GaussianLoss(Fraction(10**8), 10**4, 1), Fraction(1, 2), multiplicity=3)
    for covering, variance in ((True, 10**8 - 4), (False, 10**8 + 4)):
        real = _in_its_place(law, covering=covering)
        assert real == SampledLoss(NormalLoss(Fraction(10**8, variance)), Fraction(1, 2), multiplicity=3)
    coarse = SampledLoss(GaussianLoss(Fraction(10**5), 100, 1), Fraction(1, 2))
    alone = GaussianLoss(Fraction(10**8), 10**4, 1)
    for loss in (coarse, alone, RESPONSE, SampledLoss(None, Fraction(1, 2), Fraction(1, 3))):
        assert _in_its_place(loss, covering=True) == loss
    on_sample = SampledLoss(LaplaceLoss(Fraction(500), 1000, 1), Fraction(1, 2))
    assert _in_its_place(on_sample, covering=False) == SampledLoss(
        ExponentialLoss(Fraction(2)), Fraction(1, 2)
    )


def test_samples_that_nearly_always_hold_the_record_cost_as_much_as_the_mechanism() -> None:
    """Removed and added; a sample of a sample holds the record less often, and costs no more."""
    base, q = NormalLoss(Fraction(1, 10)), 1 - Fraction(1, 10**40)
    whole = Normal(Fraction(10))
    for added in (False, True):
        between = engine_for((SampledLoss(base, q, added=added, multiplicity=100),), "auto", 1e-9)
        for epsilon in (2.0, 15.0):
            bounds, exact = between.log_deltas([epsilon])[0], whole.log_deltas([epsilon])[0]
            assert bounds.lower <= exact.upper
            assert exact.lower <= bounds.upper
            assert bounds.width < 1e-7
    changed = SampledLoss(base, q, changed=True, multiplicity=2)
    assert _in_its_place(changed, covering=True) == changed


def test_the_engine_follows_the_losses() -> None:
    assert isinstance(engine_for((NormalLoss(Fraction(1)),), "auto", 1e-9), Normal)
    assert isinstance(engine_for((RESPONSE,), "auto", 1e-9), Halves)
    assert isinstance(engine_for((RESPONSE,), "cells", 1e-9), Cells)
    law = (RESPONSE, NormalLoss(Fraction(1)))
    assert isinstance(engine_for(law, "auto", 1e-9), Dithered)
    rare = SampledLoss(NormalLoss(Fraction(1)), Fraction(1, 1000), multiplicity=15)
    assert isinstance(engine_for((rare,), "auto", 1e-9), Cells)
    one = (SampledLoss(NormalLoss(Fraction(1, 10**20)), Fraction(1, 3)),)
    assert isinstance(engine_for(one, "auto", 1e-9), OneSample)
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
