"""Renyi divergences against their definition, ln E_Q[(P / Q)^order] / (order - 1), summed or integrated."""

from fractions import Fraction

import mpmath
import pytest
from tests.samples import few

from tallyveil.accounting.losses import (
    AnyLoss,
    ConcentratedLoss,
    ExponentialLoss,
    FailureLoss,
    GaussianLoss,
    LaplaceLoss,
    NormalLoss,
    ResponseLoss,
)
from tallyveil.accounting.renyi import BITS, certified_divergence, searched_divergence
from tallyveil.errors import BudgetError
from tallyveil.noise.balls import precision

EXCESSES = [Fraction(1, 1000), Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(40)]


def real(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / value.denominator


def moment(loss: AnyLoss, x: mpmath.mpf) -> mpmath.mpf:
    """E_P[exp(x L)]."""
    match loss:
        case LaplaceLoss():
            a, k = mpmath.exp(-1 / real(loss.scale)), loss.sensitivity
            places = range(-400 * int(loss.scale + 1), 400 * int(loss.scale + 1) + k)
            masses = [(a ** abs(n), (abs(n - k) - abs(n)) / real(loss.scale)) for n in places]
            return sum(p * mpmath.exp(x * value) for p, value in masses) / sum(p for p, _ in masses)
        case ExponentialLoss():
            e = real(loss.epsilon)
            outer = (mpmath.exp(x * e) + mpmath.exp(-e - x * e)) / 2  # beyond both centres
            between = mpmath.quad(lambda z: mpmath.exp(-z) / 2 * mpmath.exp(x * (e - 2 * z)), [0, e])
            return outer + between
        case ResponseLoss():
            e, n = real(loss.epsilon), loss.options
            return (mpmath.exp(e + x * e) + (n - 2) + mpmath.exp(-x * e)) / (mpmath.exp(e) + n - 1)
        case _:
            raise AssertionError(loss)


@pytest.mark.parametrize("excess", few(3, EXCESSES))
@pytest.mark.parametrize(
    "loss",
    [
        LaplaceLoss(Fraction(3, 2), 1, 1),
        LaplaceLoss(Fraction(3, 2), 4, 3),
        ExponentialLoss(Fraction(1, 5)),
        ExponentialLoss(Fraction(3), 2),
        ResponseLoss(Fraction(1, 5), 3, 2),
        ResponseLoss(Fraction(3), 7, 1),
    ],
    ids=repr,
)
def test_divergences_are_those_of_the_definition(loss: AnyLoss, excess: Fraction) -> None:
    with mpmath.workdps(50):
        wanted = loss.multiplicity * mpmath.log(moment(loss, real(excess))) / real(excess)
        with precision(BITS):
            found = certified_divergence((loss,), excess)
        assert -1e-30 * wanted <= real(found) - wanted <= 1e-15 * wanted
    assert searched_divergence((loss,))(float(excess)) == pytest.approx(float(wanted), rel=1e-11)


@pytest.mark.parametrize("excess", EXCESSES)
def test_concentrated_losses_add_up_and_grow_with_the_order(excess: Fraction) -> None:
    law = (
        GaussianLoss(Fraction(5), 2, 3),
        NormalLoss(Fraction(1, 7), 2),
        ConcentratedLoss(Fraction(2, 9), 5),
    )
    rho = 3 * Fraction(4, 10) + 2 * Fraction(1, 14) + 5 * Fraction(2, 9)
    assert certified_divergence(law, excess) == rho * (1 + excess)
    assert searched_divergence(law)(float(excess)) == pytest.approx(float(rho * (1 + excess)), rel=1e-14)


def test_a_divergence_is_at_most_the_largest_loss() -> None:
    """A vast order leaves nothing of the logarithm's second term."""
    with precision(BITS):
        for loss in (ExponentialLoss(Fraction(1, 3)), ResponseLoss(Fraction(1, 3), 4)):
            assert certified_divergence((loss,), Fraction(10**40)) <= Fraction(1, 3)


def test_a_failure_has_no_divergence() -> None:
    for ask in (
        lambda law: certified_divergence(law, Fraction(1)),
        searched_divergence,
    ):
        with pytest.raises(BudgetError, match=r"^FailureLoss\(.*no finite Renyi divergence"):
            ask((FailureLoss(Fraction(1, 9)),))
