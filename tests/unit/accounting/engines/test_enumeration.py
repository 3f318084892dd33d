"""Plain enumeration against formulas that fit on a line, and against the oracle."""

import itertools
import math
from fractions import Fraction

import mpmath
import pytest
from flint import arb, ctx
from mpmath import mpf

from tallyveil.accounting.engines.ball_tails import Enumeration, Proved, _table
from tallyveil.accounting.losses import GaussianLoss, LaplaceLoss, ResponseLoss, SampledLoss
from tallyveil.noise.balls import precision, rational


def real(value: Fraction) -> mpf:
    return mpf(value.numerator) / value.denominator


def test_one_laplace_answer_is_randomised_response() -> None:
    direct = Enumeration.build((LaplaceLoss(Fraction(2), 1, 1),))
    assert direct is not None
    high = 1 / (1 + math.exp(-0.5))
    first, second, delta = (float(ball) for ball in direct.balls(Fraction(0)))
    assert first == pytest.approx(high, rel=1e-15)
    assert second == pytest.approx(1 - high, rel=1e-15)
    assert delta == pytest.approx(2 * high - 1, rel=1e-15)
    assert float(direct.balls(Fraction(1, 4))[2]) == pytest.approx(
        high - math.exp(0.25) * (1 - high), rel=1e-15
    )


@pytest.mark.parametrize("bits", [1, 4, 12])
@pytest.mark.parametrize("variance", [Fraction(1, 2), Fraction(7, 3), Fraction(40)])
def test_probabilities_are_enclosed_however_early_the_noise_is_cut_off(variance: Fraction, bits: int) -> None:
    factor = GaussianLoss(variance, 1, 1)
    with precision(400):
        weights = {x: rational(-Fraction(x * x) / (2 * variance)).exp() for x in range(-200, 201)}
        total = sum(weights.values(), arb(0))
        for loss, mass in _table(factor, bits).items():
            exact = weights[int((loss - factor.offset) / factor.step)] / total
            assert mass.lower() <= exact.upper()
            assert mass.upper() >= exact.lower()


def test_beyond_the_largest_loss_nothing_is_left() -> None:
    direct = Enumeration.build((LaplaceLoss(Fraction(2), 1, 3),))
    assert direct is not None
    tails = direct.log_tails(1.5)
    assert tails.log_first.upper < -100
    assert tails.log_delta.lower == -math.inf


def test_losses_without_a_common_step_need_no_lattice() -> None:
    factors = (GaussianLoss(Fraction(7, 5), 2, 1), LaplaceLoss(Fraction(13, 11), 2, 1))
    direct, proved = Enumeration.build(factors), Proved.build(factors)
    assert direct is not None
    with ctx.workprec(600):
        for epsilon in (-3, 0, Fraction(5, 7), 4, 11, 20):
            for one, other in zip(
                direct.balls(Fraction(epsilon)), proved.balls(Fraction(epsilon)), strict=True
            ):
                assert one.overlaps(other)
                assert one.rel_accuracy_bits() > 66
                assert other.rel_accuracy_bits() > 66


def test_what_takes_too_long_is_left_to_others() -> None:
    assert Enumeration.build((GaussianLoss(Fraction(10**9), 1, 1),)) is None
    assert Enumeration.build((GaussianLoss(Fraction(5), 1, 650),)) is None
    assert Enumeration.build((GaussianLoss(Fraction(10**400), 1, 1),)) is None


def losses_on_the_sample(base: LaplaceLoss | ResponseLoss) -> list[tuple[mpf, mpf]]:
    """Each loss of noise with few losses, and its probability without the record, from the definitions."""
    if isinstance(base, ResponseLoss):
        e, whole = real(base.epsilon), mpmath.exp(real(base.epsilon)) + base.options - 1
        return [(e, 1 / whole), (mpf(0), (base.options - 2) / whole), (-e, mpmath.exp(e) / whole)]
    k, a = base.sensitivity, mpmath.exp(-1 / real(base.scale))
    shares = [1 if j == 0 else a**k if j == k else (1 - a) * a**j for j in range(k + 1)]
    return [((2 * j - k) / real(base.scale), share / (1 + a)) for j, share in enumerate(shares)]


def losses_of_samples(loss: SampledLoss) -> dict[mpf, mpf]:
    """The sums of the losses of all samples, one sample after the other."""
    q, single, stays = real(loss.probability), [], mpf(1)
    for b, mass in losses_on_the_sample(loss.base):
        ratio = 1 - q + q * mpmath.exp(b)
        if not loss.changed:
            single.append((-mpmath.log(ratio), mass) if loss.added else (mpmath.log(ratio), mass * ratio))
        elif b > 0:
            single += [(mpmath.log(ratio), mass * ratio), (-mpmath.log(ratio), mass)]
            stays -= mass * (1 + ratio)
    if loss.changed:
        single.append((mpf(0), stays))
    total = {mpf(0): mpf(1)}
    for _ in range(loss.multiplicity):
        following: dict[mpf, mpf] = {}
        for (before, chance), (value, mass) in itertools.product(total.items(), single):
            following[before + value] = following.get(before + value, mpf(0)) + chance * mass
        total = following
    return total


@pytest.mark.parametrize(
    "loss",
    [
        SampledLoss(ResponseLoss(Fraction(1), 4), Fraction(1, 3), multiplicity=3),
        SampledLoss(LaplaceLoss(Fraction(3_160_000), 2, 1), Fraction(601, 1000), added=True),
        SampledLoss(LaplaceLoss(Fraction(3), 3, 1), Fraction(1, 7), changed=True, multiplicity=2),
        SampledLoss(ResponseLoss(Fraction(2), 3), Fraction(1, 7), changed=True, multiplicity=2),
    ],
)
def test_samples_of_few_losses_are_enumerated(loss: SampledLoss) -> None:
    engine = Enumeration.build((loss,))
    assert engine is not None
    with mpmath.workdps(60):
        total = losses_of_samples(loss)
        most = max(total)
        for share in (Fraction(-1, 2), Fraction(0), Fraction(1, 3), Fraction(9, 10)):
            epsilon = share * Fraction(str(mpmath.nstr(most, 20)))
            e, tails = real(epsilon), engine.log_tails(epsilon)
            for found, truth in (
                (tails.log_delta, mpmath.fsum(p * max(0, 1 - mpmath.exp(e - x)) for x, p in total.items())),
                (tails.log_first, mpmath.fsum(p for x, p in total.items() if x > e)),
                (tails.log_second, mpmath.fsum(p * mpmath.exp(-x) for x, p in total.items() if x > e)),
            ):
                assert found.lower <= mpmath.log(truth) <= found.upper
                # A loss of 0 may count as above 0, or not, but delta does not depend on it.
                assert found.width < 1e-14 or (epsilon == 0 and found is not tails.log_delta)
        # A loss that rounding cannot tell from epsilon may count, or not.
        value = max(engine.probabilities)
        tails = engine.log_tails(value)
        assert tails.log_first.lower == -math.inf
        assert tails.log_first.upper >= mpmath.log(total[most]) - 1e-15


def test_too_many_sums_of_samples_are_left_to_other_engines() -> None:
    assert (
        Enumeration.build((SampledLoss(LaplaceLoss(Fraction(1), 3, 1), Fraction(1, 2), multiplicity=200),))
        is None
    )
    assert (
        Enumeration.build((SampledLoss(ResponseLoss(Fraction(1), 3), Fraction(1, 2), multiplicity=9999),))
        is None
    )


def test_a_probability_in_a_ball_that_holds_zero_has_an_upper_bound_alone() -> None:
    table = Enumeration({Fraction(0): arb("0.5"), Fraction(1): arb(0, 1)}, 64, is_whole=True)
    values, logs = table.logarithms()
    assert values == (0, 1)
    assert logs[0].lower <= math.log(0.5) <= logs[0].upper
    assert logs[1].lower == -math.inf
    assert 0 >= logs[1].upper >= -1e-8
