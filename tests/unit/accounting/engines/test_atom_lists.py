"""Listed losses against the same laws in ball arithmetic: every weight, every value, and what was left out."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from flint import arb

from tallyveil.accounting.engines import gridded
from tallyveil.accounting.engines.gridded import Listable, listed
from tallyveil.accounting.losses import Base, GaussianLoss, LaplaceLoss, ResponseLoss, SampledLoss
from tallyveil.errors import SolverError
from tallyveil.noise.balls import precision, rational

BITS = 300
NORMAL = GaussianLoss(Fraction(5, 2), 1, 1)
WIDE = GaussianLoss(Fraction(50_000), 300, 1)
"""Of so many values that a look decides which ones a sample needs."""

LOSSES: tuple[Listable, ...] = (
    NORMAL,
    GaussianLoss(Fraction(1, 3), 2, 1),
    GaussianLoss(Fraction(199, 100), 3, 1),
    GaussianLoss(Fraction(2), 1, 1),
    LaplaceLoss(Fraction(3), 1, 1),
    LaplaceLoss(Fraction(7, 2), 4, 1),
    ResponseLoss(Fraction(3, 2), 3, 1),
    ResponseLoss(Fraction(1, 5), 9, 1),
    *(SampledLoss(base, q, added=added)
      for base, q in (
          (NORMAL, Fraction(1, 10)),
          (GaussianLoss(Fraction(1, 3), 1, 1), Fraction(9, 10)),
          (LaplaceLoss(Fraction(7, 2), 4, 1), Fraction(1, 2)),
          (ResponseLoss(Fraction(3, 2), 3, 1), Fraction(1, 1000)),
      )
      for added in (False, True)),
    *(SampledLoss(None, Fraction(1, 5), Fraction(1, 7), added) for added in (False, True)),
    *(SampledLoss(LaplaceLoss(Fraction(2), 1, 1), Fraction(3, 4), Fraction(1, 7), added)
      for added in (False, True)),
)  # fmt: skip


def outcomes(base: Base | None, reach: int) -> list[tuple[arb, arb]]:
    """Probability under P and loss of every outcome, in the order of a list; of Gaussian noise, up to a reach."""
    match base:
        case GaussianLoss():
            masses = [
                rational(-Fraction(x * x) / (2 * base.variance)).exp() for x in range(-reach, reach + 1)
            ]
            losses = [rational(base.offset + base.step * x) for x in range(-reach, reach + 1)]
        case LaplaceLoss():
            k, a = base.sensitivity, rational(-1 / base.scale).exp()
            inner = [(1 - a) * a**j for j in range(1, k)]
            masses = [arb(1), *inner, a**k]
            losses = [rational((k - 2 * j) / base.scale) for j in range(k + 1)]
        case ResponseLoss():
            masses = [rational(base.epsilon).exp(), arb(base.options - 2), arb(1)]
            losses = [rational(loss) for loss in (base.epsilon, Fraction(0), -base.epsilon)]
        case _:
            masses, losses = [arb(1)], [arb(0)]
    total = sum(masses, arb(0))
    return [(mass / total, loss) for mass, loss in zip(masses, losses, strict=True)]


def sampled(loss: SampledLoss, found: list[tuple[arb, arb]]) -> list[tuple[arb, arb]]:
    """The same of a sample, given that the loss is finite, from the definition of the pair."""
    q, fails = rational(loss.probability), rational(loss.failure)
    pairs = [(mass * (1 - fails), mass * (-b).exp() * (1 - fails)) for mass, b in found]
    pairs = [((1 - q) * second + q * first, second) for first, second in pairs]
    if loss.failure:
        # The mechanism has one more outcome without the record, and another one that only the record causes.
        pairs.append(((1 - q) * fails, fails))
    if loss.added:
        pairs = [(second, first) for first, second in pairs]
    finite = sum((first for first, _ in pairs), arb(0))
    return [(first / finite, (first / second).log()) for first, second in pairs]


@pytest.mark.parametrize(
    ("loss", "tilt"),
    [
        *product(LOSSES, (0.0, 0.4, 3.0)),
        # Large exponents, whose rounding is far above that of anything else.
        (ResponseLoss(Fraction(9001, 10), 3, 1), 30.3),
        (LaplaceLoss(Fraction(1, 701), 3, 1), 20.7),
        (SampledLoss(LaplaceLoss(Fraction(1, 701), 3, 1), Fraction(1, 3)), 20.7),
        *((SampledLoss(WIDE, Fraction(1, 50), added=added), 0.7) for added in (False, True)),
        (SampledLoss(WIDE, Fraction(9, 10), added=True), 8.0),
    ],
)
def test_listed_atoms_are_those_of_the_law_within_their_bounds(loss: Listable, tilt: float) -> None:
    found = listed(loss, tilt)
    base = loss.base if isinstance(loss, SampledLoss) else loss
    reach = math.ceil(20 * base.variance**0.5) + 80 if isinstance(base, GaussianLoss) else 0
    with precision(BITS):
        law = outcomes(base, reach)
        if isinstance(loss, SampledLoss):
            law = sampled(loss, law)
        # Atoms stand in order and without gaps, so the largest one says where the list begins.
        tilted = [float((mass * (loss_at * arb(tilt)).exp()).log()) for mass, loss_at in law]
        first = int(np.argmax(tilted)) - int(found.weights.argmax())
        assert len(found.losses) == len(law) or isinstance(base, GaussianLoss)
        scale, left_out = arb(found.log_scale), arb(0)
        for place, (mass, loss_at) in enumerate(law):
            at = place - first
            if not 0 <= at < len(found.losses):
                left_out += mass * (loss_at * arb(tilt) - scale).exp()
                continue
            value, weight = arb(float(found.losses[at])), arb(float(found.weights[at]))
            exact = mass * (value * arb(tilt) - scale).exp()
            assert abs(weight - exact).upper() <= (found.relative * exact + 1e-300).lower()
            assert abs(value - loss_at).upper() <= found.slip
        assert left_out.upper() <= found.lost
    assert found.weights.sum() == pytest.approx(1, rel=1e-12)
    largest = float(np.abs(found.losses).max())
    assert found.relative < 1e-14 * (1000 + 10 * (1 + tilt) * largest)
    assert found.slip < 1e-14 * (10 + largest)
    assert found.lost < 1e-25


@pytest.mark.parametrize("added", [False, True])
def test_a_look_leaves_out_values_that_a_sample_does_not_need(added: bool) -> None:
    """Those of both centres and all between them are listed where the noise is not wide."""
    loss = SampledLoss(WIDE, Fraction(1, 50), added=added)
    deviations = len(listed(loss, 0.0).losses) / math.sqrt(WIDE.variance)
    both = WIDE.sensitivity / math.sqrt(WIDE.variance)
    assert 22 < deviations < 22 + both + 2


@pytest.mark.parametrize(
    "loss", [WIDE, *(SampledLoss(WIDE, Fraction(1, 3), added=added) for added in (False, True)),
             LaplaceLoss(Fraction(5000), 9000, 1), SampledLoss(LaplaceLoss(Fraction(5000), 9000, 1), Fraction(1, 3))]
)  # fmt: skip
def test_a_coarse_list_has_the_moments_of_the_whole_one(loss: Listable) -> None:
    for tilt in (0.0, 0.8):
        few, all_of_them = listed(loss, tilt, coarse=True), listed(loss, tilt)
        assert len(few.losses) <= len(all_of_them.losses)
        assert few.log_scale == pytest.approx(all_of_them.log_scale, abs=1e-2)
        means = [one.weights @ one.losses for one in (few, all_of_them)]
        assert means[0] == pytest.approx(means[1], abs=1e-2)
        squares = [
            one.weights @ (one.losses - mean) ** 2
            for one, mean in zip((few, all_of_them), means, strict=True)
        ]
        assert squares[0] == pytest.approx(squares[1], rel=0.03)


def test_a_coarse_list_of_few_values_is_the_whole_one() -> None:
    for loss in (NORMAL, LaplaceLoss(Fraction(7, 2), 800, 1), ResponseLoss(Fraction(3, 2), 3, 1)):
        few, all_of_them = listed(loss, 0.4, coarse=True), listed(loss, 0.4)
        np.testing.assert_array_equal(few.losses, all_of_them.losses)
        np.testing.assert_array_equal(few.weights, all_of_them.weights)
    long = LaplaceLoss(Fraction(7, 2), 801, 1)
    assert len(listed(long, 0.4, coarse=True).losses) == 800 < len(listed(long, 0.4).losses)


def test_losses_that_cannot_be_listed_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    least = GaussianLoss(Fraction(1, 1000), 1, 1)
    assert listed(least, 0.0).weights.max() == 1
    with pytest.raises(SolverError, match="too small for this engine"):
        listed(GaussianLoss(Fraction(1, 1001), 1, 1), 0.0)
    far = SampledLoss(GaussianLoss(Fraction(10_000), 1000, 1), Fraction(1, 2))
    assert listed(far, 36.0).lost < 1e-25
    with pytest.raises(SolverError, match="standard deviations at one tilt"):
        listed(far, 38.6)
    k = 12
    monkeypatch.setattr(gridded, "MOST_ATOMS", k)
    assert len(listed(LaplaceLoss(Fraction(2), k, 1), 0.0).losses) == k + 1
    with pytest.raises(SolverError, match="14 values"):
        listed(LaplaceLoss(Fraction(2), k + 1, 1), 0.0)
    with pytest.raises(SolverError, match="values that matter"):
        listed(NORMAL, 0.0)


LARGE = 2.0**-30
"""A unit of rounding beside which floats are exact: error bounds then show each of their terms."""


@pytest.mark.parametrize("tilt", [0.0, 0.4, 3.0])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_errors_of_a_list_are_those_of_its_exponents_and_losses(
    loss: Listable, tilt: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gridded, "UNIT", LARGE)
    found = listed(loss, tilt)
    base = loss.base if isinstance(loss, SampledLoss) else loss
    left_out = slip = 0.0
    match base:
        case GaussianLoss():
            v = float(base.variance)
            count = len(found.losses) - (isinstance(loss, SampledLoss) and loss.failure > 0)
            x = np.arange(count) - count // 2
            centre, k = 0.0, base.sensitivity
            low = high = tilt * k
            if isinstance(loss, SampledLoss):
                low, high = (-k - tilt * k, -k) if loss.added else (-k, tilt * k)
            first = math.floor(low - 12.2 * math.sqrt(v) - 2)
            last = math.ceil(high + 12.2 * math.sqrt(v) + 2)
            assert count == last - first + 1
            x = np.arange(first, last + 1) - centre
            norm = math.log(sum(math.exp(-i * i / (2 * v)) for i in range(-200, 201)))
            log_first = -(x**2) / (2 * v) - norm
            b = float(base.offset) + float(base.step) * x
            slip = 4 * LARGE * float(base.offset + base.step * max(abs(first), abs(last)))
            left_out = math.exp(-70) * (count + 4 * math.sqrt(v) + 4) * 4
        case LaplaceLoss() | ResponseLoss():
            pairs = [(float(mass.log()), float(at)) for mass, at in outcomes(base, 0)]
            log_first, b = (np.array(part) for part in zip(*pairs, strict=True))
            rate = base.sensitivity / base.scale if isinstance(base, LaplaceLoss) else base.epsilon
            slip = 4 * LARGE * float(rate)
        case _:
            log_first = b = np.zeros(1)
    size = np.abs(log_first).max() + np.abs(b).max()
    largest = np.abs(found.losses).max()
    if isinstance(loss, SampledLoss):
        slip += 16 * LARGE * (1 + largest)
    size += largest * (1 + tilt) + abs(found.log_scale)
    assert found.slip == pytest.approx(slip, rel=1e-9, abs=1e-20)
    assert found.relative == pytest.approx(LARGE * (100 + 12 * size) + slip, rel=1e-9, abs=0)
    assert found.lost == pytest.approx(left_out, rel=1e-9, abs=0)
