"""The smallest mu at many knots, where their probabilities are known to few digits: each end takes its own errors."""

import math
from dataclasses import replace
from fractions import Fraction

import pytest
from scipy.stats import norm

from tallyveil.accounting import envelope
from tallyveil.accounting.curves import zcdp_cost
from tallyveil.accounting.engines.moments import log_moment, tilt_grid
from tallyveil.accounting.engines.tails import Tails
from tallyveil.accounting.engines.tilted_fft import TiltedFFT, TiltedLaw
from tallyveil.accounting.losses import GaussianLoss, LaplaceLoss, LossFactor
from tallyveil.accounting.numbers import Bounds

ENTRY, OUTSIDE = 1e-7, 3e-7
COMPOSITIONS: list[tuple[LossFactor, ...]] = [
    (GaussianLoss(Fraction(40), 1, 4),),
    (GaussianLoss(Fraction(5), 2, 2), LaplaceLoss(Fraction(20), 1, 3)),
]


class Uncertain(TiltedFFT):
    """An engine whose laws are known to seven digits."""

    def law(self, tilt: Fraction) -> TiltedLaw:
        return replace(super().law(tilt), entry_error=ENTRY, outside=OUTSIDE)


def ends(engine: TiltedFFT, tilt: Fraction, index: int, *, under: str) -> tuple[float, float]:
    """A probability at a knot from both sides: the weights' sum, with the error of each and of what is left out.

    Args:
        engine: Has the law.
        tilt: Of the law.
        index: Z at the knot.
        under: Q for Q(L > l), P for P(L > l), "not P" for P(L <= l).
    """
    law, s = engine.law(tilt), float(tilt)
    step, offset = float(engine.lattice.step), float(engine.lattice.offset)
    log_scale = sum(f.multiplicity * log_moment(f, s) for f in engine.factors)
    rate = s + 1 if under == "Q" else s
    total = error = 0.0
    # The largest value of the damping, where what lies outside of the window may be.
    nearest = math.exp(-rate * (offset + step * (index + (1 if under == "not P" else 0))))
    for place, weight in enumerate(law.weights.tolist()):
        loss = offset + step * (law.first + place)
        if (law.first + place <= index) == (under == "not P"):
            total += weight * math.exp(-rate * loss)
            error += ENTRY * math.exp(-rate * loss)
    error = 1.01 * (error + 4 * OUTSIDE * nearest)
    scale = math.exp(log_scale)
    return max(total - error, 0.0) * scale, min((total + error) * scale, 1.0)


@pytest.mark.parametrize("factors", COMPOSITIONS)
@pytest.mark.parametrize(("low", "high"), [(-1.9, -0.4), (-0.5, 0.8), (0.4, 1.9), (1.0, 2.6)])
def test_both_ends_of_mu_take_the_errors_that_hurt(
    factors: tuple[LossFactor, ...], low: float, high: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(envelope, "_WIDE", math.inf)
    engine = Uncertain(factors)
    step, offset = engine.lattice.step, engine.lattice.offset
    deviation = math.sqrt(2 * zcdp_cost(factors))
    begin, end = Fraction(low * deviation), Fraction(high * deviation)
    first, last = (math.ceil((one - offset) / step) for one in (begin, end))
    tilt = max(tilt_grid(engine.factors, float(offset + step * ((first + last) // 2))), Fraction(-1, 2))
    lowers, uppers = [], []
    for index in range(first, last):
        alpha = ends(engine, tilt, index, under="Q")
        if tilt >= 0:
            power = ends(engine, tilt, index, under="P")
            betas = 1 - power[0], 1 - power[1]
        else:
            betas = ends(engine, tilt, index, under="not P")[::-1]
        lowers.append(norm.isf(alpha[1]) + norm.isf(betas[0]))
        uppers.append(norm.isf(alpha[0]) + norm.isf(betas[1]))
    found = envelope._over(engine, begin, end, None)
    assert last - first > envelope._FEW
    assert found.lower == pytest.approx(max(0.0, *lowers), rel=1e-9)
    assert found.upper == pytest.approx(max(0.0, *uppers), rel=1e-9)


@pytest.mark.parametrize("index", [-3, 2])
def test_a_knot_by_itself_takes_the_errors_that_hurt(index: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loss below 0 has its type II error from the tail on the other side, so that no digits are lost near 1."""
    engine = TiltedFFT(COMPOSITIONS[0])
    loss = engine.lattice.offset + index * engine.lattice.step
    known = {
        loss: Tails(Bounds(-1.1, -1.0), Bounds(-2.2, -2.0), Bounds(-9.0, 0.0)),
        -loss - engine.lattice.step / 2: Tails(Bounds(-9.0, 0.0), Bounds(-3.5, -3.2), Bounds(-9.0, 0.0)),
    }
    monkeypatch.setattr(engine, "log_tails", known.__getitem__)
    found = envelope._one_by_one(engine, index, index + 1)
    alpha = norm.isf(math.exp(-2.0)), norm.isf(math.exp(-2.2))
    if loss < 0:
        beta = norm.isf(math.exp(-3.2)), norm.isf(math.exp(-3.5))
    else:
        beta = norm.isf(1 - math.exp(-1.1)), norm.isf(1 - math.exp(-1.0))
    assert found.lower == pytest.approx(max(0.0, alpha[0] + beta[0]))
    assert found.upper == pytest.approx(max(0.0, alpha[1] + beta[1]))
    assert found.width > 0.1


def test_knots_that_a_law_does_not_hold_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = TiltedFFT(COMPOSITIONS[0])
    law = engine.law(Fraction(0))
    monkeypatch.setattr(engine, "law", lambda tilt: replace(law, first=10**6))
    assert envelope._over(engine, Fraction(-1), Fraction(1), None) == Bounds(0.0, math.inf)
