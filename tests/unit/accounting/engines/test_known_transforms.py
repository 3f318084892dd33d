"""Real Laplace and normal noise and randomized response: closed forms, the contour and independent sums agree."""

import math
import random
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpc, mpf
from tests.samples import few

from tallyveil.accounting.conversion import epsilon_at
from tallyveil.accounting.engines.ball_tails import Enumeration, Normal, _inverses
from tallyveil.accounting.engines.choose import engine_for
from tallyveil.accounting.engines.dithered import Dithered, _exponential_part
from tallyveil.accounting.engines.loss_transform import (
    UNIT,
    GaussianFactors,
    atoms,
    decay_of,
    find_windows,
)
from tallyveil.accounting.engines.moments import certified_log_moment, log_moment, moments
from tallyveil.accounting.engines.tails import LossEngine
from tallyveil.accounting.losses import (
    Base,
    ExponentialLoss,
    GaussianLoss,
    LaplaceLoss,
    NormalLoss,
    ResponseLoss,
    merged_law,
)
from tallyveil.noise.balls import precision, rational

LAPLACE_1000 = mpf("18.950287367539558198147")
"""Epsilon at delta 1e-6 of 1,000 answers with Laplace noise of scale 10, by an integral in 40-digit arithmetic."""


def base_law(*losses: Base) -> tuple[Base, ...]:
    law = merged_law(losses)
    return tuple(
        loss
        for loss in law
        if isinstance(loss, GaussianLoss | LaplaceLoss | NormalLoss | ExponentialLoss | ResponseLoss)
    )


def to_mp(value: Fraction) -> mpf:
    return mpf(value.numerator) / value.denominator


def transform(loss: Base, z: mpc) -> mpc:
    """E exp(z L) of one answer, by its definition: sums over outcomes, an integral for Laplace noise."""
    match loss:
        case NormalLoss(mu_squared):
            return mpmath.exp((z + z * z) * to_mp(mu_squared) / 2)
        case ResponseLoss(epsilon, options):
            e = to_mp(epsilon)
            whole = mpmath.exp(e) + options - 1
            return (mpmath.exp(e + z * e) + options - 2 + mpmath.exp(-z * e)) / whole
        case ExponentialLoss(epsilon):
            e = to_mp(epsilon)
            # The noise is below 0, between 0 and epsilon, or beyond: the loss is e, e - 2 x, or -e.
            within = (mpmath.exp(z * e) - mpmath.exp(-(z + 1) * e)) / (2 * z + 1)
            return (mpmath.exp(z * e) + mpmath.exp(-(z + 1) * e) + within) / 2
        case LaplaceLoss(scale, k):
            a = mpmath.exp(-1 / to_mp(scale))
            masses = [1, *((1 - a) * a**j for j in range(1, k)), a**k]
            return sum(m * mpmath.exp(z * (k - 2 * j) / to_mp(scale)) for j, m in enumerate(masses)) / (1 + a)
        case GaussianLoss(variance, k):
            v = to_mp(variance)
            xs = range(-60, 61)
            whole = sum(mpmath.exp(-mpf(x * x) / (2 * v)) for x in xs)
            return (
                sum(mpmath.exp(-mpf(x * x) / (2 * v) + z * (k * k + 2 * k * x) / (2 * v)) for x in xs) / whole
            )


LOSSES: list[Base] = [
    NormalLoss(Fraction(3, 7)),
    ExponentialLoss(Fraction(1, 10)),
    ExponentialLoss(Fraction(7)),
    ResponseLoss(Fraction(2), 40),
    LaplaceLoss(Fraction(3, 2), 3, 1),
]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("tilt", [-0.9, -0.5, 0.0, 0.7, 9.5])
def test_moments_are_derivatives_of_the_log_of_the_transform(loss: Base, tilt: float) -> None:
    with mpmath.workdps(50):

        def cumulant(s: mpf) -> mpf:
            # The definition is 0 / 0 at -1/2 for real Laplace noise.
            return mpmath.log(transform(loss, s + mpf(10) ** -30))

        exact = cumulant(mpf(tilt))
        bounds = certified_log_moment((loss,), Fraction(tilt), Fraction(0))
        assert bounds.lower - 1e-25 <= exact <= bounds.upper + 1e-25
        assert bounds.width <= 1e-14 * (1 + abs(bounds.lower))
        assert log_moment(loss, tilt) == pytest.approx(float(exact), rel=1e-12, abs=1e-14)
        mean, variance = moments(loss, tilt)
        assert mean == pytest.approx(float(mpmath.diff(cumulant, mpf(tilt))), rel=1e-9, abs=1e-10)
        assert variance == pytest.approx(float(mpmath.diff(cumulant, mpf(tilt), 2)), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("epsilon", [Fraction(1, 1000), Fraction(1, 3), Fraction(40)])
@pytest.mark.parametrize("tilt", [-0.8, -0.5, 0.25, 30.0])
def test_the_transform_of_laplace_noise_at_the_nodes_is_within_its_error(
    epsilon: Fraction, tilt: float
) -> None:
    loss, u = ExponentialLoss(epsilon, 3), np.array([0.0, 1e-9, 0.3, 7.1, 410.0, 1e6])
    values, errors = _exponential_part(loss, u, Fraction(tilt))
    with mpmath.workdps(50):
        base = transform(loss, mpc(mpf(tilt) + mpf(10) ** -30, 0))
        for place, value, error in zip(u.tolist(), values.tolist(), errors.tolist(), strict=True):
            exact = (transform(loss, mpc(mpf(tilt) + mpf(10) ** -30, mpf(place))) / base) ** 3
            assert abs(mpc(value) - exact) <= error * UNIT


@pytest.mark.parametrize("seed", range(8))
def test_outside_the_windows_of_a_tilt_the_transform_is_below_the_bound(seed: int) -> None:
    draw = random.Random(seed)
    others = (
        ExponentialLoss(Fraction(draw.randint(1, 30), 10), draw.randint(1, 60)),
        ResponseLoss(Fraction(draw.randint(1, 30), 11), draw.choice([3, 40]), draw.randint(1, 30)),
        LaplaceLoss(Fraction(13, draw.randint(1, 20)), draw.randint(1, 4), draw.randint(1, 9)),
    )[: 1 + seed % 3]
    tilt, none = Fraction(draw.uniform(-0.9, 3)), GaussianFactors.of([])
    decay = decay_of(none, others, tilt, math.sqrt(sum(o.multiplicity for o in others)))
    engine = Dithered.build(others, 1e-2)
    assert engine is not None
    depth = engine.scan.depth
    windows = find_windows(decay, depth)
    u = np.sort(np.random.default_rng(seed).uniform(0, windows.end * 1.5, 20_000))
    logs = np.zeros(u.size)
    for other in others:
        if isinstance(other, ExponentialLoss):
            one, _ = _exponential_part(ExponentialLoss(other.epsilon), u, tilt)
        else:
            law = atoms(other, tilt)
            one = (
                np.exp(1j * np.multiply.outer(u * float(other.step), np.arange(law.weights.size)))
                @ law.weights
            )
        logs += other.multiplicity * np.log(np.maximum(np.abs(one), 1e-300))
    # Numbers of the windows that hold each frequency.
    inside = np.zeros(u.size, dtype=bool)
    for low, high in zip(windows.lows, windows.highs, strict=True):
        inside |= (u >= low) & (u <= high)
    begins = windows.first * 2.0 ** np.floor(np.log2(np.maximum(u, windows.first) / windows.first))
    bounds = np.array(
        [depth.depth if x < windows.first else depth.at(b) for x, b in zip(u, begins, strict=True)]
    )
    within = u < windows.end
    assert (logs[within & ~inside] <= -bounds[within & ~inside] + 1e-6).all()
    assert (logs[~within] <= -windows.gain + 1e-6).all()


def test_inverse_transforms_are_their_series() -> None:
    with precision(300), mpmath.workdps(220):
        for text in ("1/100000", "7/10", "300"):
            x, count = Fraction(text), 6
            found = _inverses(rational(x), count, 200)
            terms = [to_mp(x) ** i / mpmath.factorial(i) for i in range(1200)]
            for k in range(count):
                series = (
                    sum(mpf(0.5) ** i * terms[k + i] for i in range(900)),
                    sum(mpf(-0.5) ** i * terms[k + i] for i in range(900)),
                    sum(mpf(0.25) ** i * terms[k + 1 + 2 * i] for i in range(500)),
                )
                for ball, exact in zip((part[k] for part in found), series, strict=True):
                    middle = mpf(ball.mid().str(60, radius=False))
                    assert abs(middle - exact) <= mpf(str(float(ball.rad()))) + abs(exact) * mpf(10) ** -50


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**9), Fraction(1, 3), Fraction(20), Fraction(10**4)])
def test_one_answer_with_laplace_noise_has_a_formula(epsilon: Fraction) -> None:
    """1 - delta = exp((x - epsilon) / 2) between -epsilon and epsilon."""
    engine = Enumeration.build((ExponentialLoss(epsilon),))
    assert engine is not None
    with mpmath.workdps(60):
        for share in ("-0.99", "0", "0.4", "0.999999"):
            at = epsilon * Fraction(share)
            exact = mpmath.log(-mpmath.expm1(to_mp(at - epsilon) / 2))
            found = engine.log_tails(at).log_delta
            assert found.lower <= exact <= found.upper
            assert found.width < 1e-14 * (1 + abs(float(exact)))
        tails = engine.log_tails(epsilon)
        assert tails.log_delta.upper == tails.log_first.upper == -math.inf


def test_a_thousand_answers_with_laplace_noise() -> None:
    law = (ExponentialLoss(Fraction(1, 10), 1000),)
    engine = engine_for(law, "auto", 1e-9)
    assert isinstance(engine, Dithered)
    found = epsilon_at(engine, law, Fraction(1, 10**6))
    assert found.lower <= LAPLACE_1000 <= found.upper
    assert found.width < 2.5e-9


@pytest.mark.parametrize("count", [1, 7, 64])
def test_normal_noise_in_parts_is_the_closed_form(count: int) -> None:
    """The contour alone; merged, all normal answers are one."""
    mu_squared = Fraction(5, 3)
    engine, exact = Dithered.build((NormalLoss(mu_squared / count, count),), 1e-9), Normal(mu_squared)
    assert engine is not None
    for epsilon in (0.0, 1e-9, 0.3, 2.0, 9.0, 40.0):
        one, two = engine.log_tails(epsilon), exact.log_tails(epsilon)
        for a, b in zip(
            (one.log_first, one.log_second, one.log_delta),
            (two.log_first, two.log_second, two.log_delta),
            strict=True,
        ):
            assert a.lower <= b.upper
            assert b.lower <= a.upper
        assert one.log_delta.width < 1e-7


def mp_delta(law: tuple[Base, ...], epsilon: Fraction, tilt: float, period: float, end: float) -> mpf:
    """Delta by the trapezoid rule on a contour, without a dither, in 40-digit arithmetic."""
    with mpmath.workdps(40):
        step, total, j = 2 * mp.pi / period, mpf(0), 0
        while j * step < end:
            z = mpc(tilt, j * step)
            term = mpmath.exp(-z * to_mp(epsilon)) / (z * (z + 1))
            for loss in law:
                term *= transform(loss, z) ** loss.multiplicity
            total += term.real if j == 0 else 2 * term.real
            j += 1
        return total * step / (2 * mp.pi)


@pytest.mark.parametrize("tilt", few(1, [2.0, 3.5]))
def test_mixtures_with_normal_noise_are_their_integrals(tilt: float) -> None:
    law = base_law(
        NormalLoss(Fraction(1)),
        ExponentialLoss(Fraction(2, 3), 4),
        ResponseLoss(Fraction(1), 5, 3),
        LaplaceLoss(Fraction(3), 2, 2),
    )
    engine = engine_for(law, "auto", 1e-9)
    assert isinstance(engine, Dithered)
    for epsilon in (Fraction(1), Fraction(13, 3), Fraction(9)):
        exact = mpmath.log(mp_delta(law, epsilon, tilt, 80.0, 14.0))
        found = engine.log_deltas([epsilon])[0]
        assert found.lower <= exact <= found.upper
        assert found.width < 1e-7


def random_law(draw: random.Random) -> tuple[Base, ...]:
    losses: list[Base] = []
    for _ in range(draw.randint(1, 3)):
        epsilon, n = Fraction(str(round(10 ** draw.uniform(-2, 0.7), 3))), draw.randint(1, 6)
        losses.append(
            draw.choice(
                [
                    ExponentialLoss(epsilon, n),
                    ResponseLoss(epsilon, draw.choice([3, 4, 40, 10**6]), n),
                    LaplaceLoss(1 / epsilon, draw.randint(1, 4), (n + 1) // 2),
                    GaussianLoss(Fraction(str(round(draw.uniform(0.05, 0.24), 3))), 1, 1),
                ]
            )
        )
    return base_law(*losses)


def encloses(engine: LossEngine, exact: Enumeration, epsilon: Fraction) -> None:
    one, two = engine.log_tails(epsilon), exact.log_tails(epsilon)
    for a, b in (
        (one.log_first, two.log_first),
        (one.log_second, two.log_second),
        (one.log_delta, two.log_delta),
    ):
        assert a.lower <= b.upper
        assert b.lower <= a.upper


def check_contour(seed: int, widths: list[float]) -> None:
    """The contour beside enumeration in closed form, at losses, beside them, and at the largest one."""
    draw = random.Random(seed)
    law = random_law(draw)
    exact, engine = Enumeration.build(law), Dithered.build(law, draw.choice(widths))
    if exact is None or engine is None:
        return
    spread = engine.scan.spread
    epsilons = [Fraction(draw.uniform(-2, 6) * spread) for _ in range(4)]
    epsilons += [Fraction(0), Fraction(1, 10**9), Fraction(10**5), draw.choice(list(exact.probabilities))]
    if exact.is_whole:
        most = max(exact.probabilities)
        epsilons += [most, most + 1, most - Fraction(1, 10**6), most * Fraction(99, 100)]
    for epsilon in epsilons:
        encloses(engine, exact, epsilon)
    # What enumeration cuts off Gaussian noise says nothing about the smallest deltas.
    least = Fraction(1, 10**300) if exact.is_whole else Fraction(1, 10**20)
    for delta in (least, Fraction(1, 10**9), Fraction(1, 3), 1 - Fraction(1, 10**12)):
        found, true = epsilon_at(engine, law, delta), epsilon_at(exact, law, delta)
        assert found.lower <= true.upper
        assert true.lower <= found.upper


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(4000, marks=pytest.mark.nightly),
        pytest.param(4004, marks=pytest.mark.nightly),
        4012,
        pytest.param(4016, marks=pytest.mark.nightly),
        pytest.param(4020, marks=pytest.mark.nightly),
        pytest.param(4008, marks=pytest.mark.nightly),
    ],
)
def test_the_contour_encloses_what_enumeration_gives(seed: int) -> None:
    check_contour(seed, [1e-1, 1e-2])


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(5000, 5400))
def test_the_contour_encloses_what_enumeration_gives_of_many(seed: int) -> None:
    check_contour(seed, [1e-1, 1e-2, 1e-3, 1e-4])


def check_sum(draw: random.Random) -> None:
    """Enumeration in closed form beside a direct convolution: Laplace noise as very fine discrete Laplace noise."""
    epsilon, n = Fraction(draw.randint(1, 40), 10), draw.randint(1, 3)
    answer = ResponseLoss(Fraction(draw.randint(1, 30), 7), 5, draw.randint(1, 2))
    exact = Enumeration.build((ExponentialLoss(epsilon, n), answer))
    steps = 60
    # It covers the real noise (docs/proofs/real-noise.md, section 2), and is close to it.
    above = Enumeration.build((LaplaceLoss(steps / epsilon, steps, n), answer))
    less = steps / epsilon
    less *= 4 * steps * less / (4 * steps * less - 1)
    below = Enumeration.build((LaplaceLoss(less, steps, n), answer))
    assert exact is not None
    assert above is not None
    assert below is not None
    for share in ("-1/2", "0", "1/9", "2/3", "97/100"):
        at = (epsilon * n + answer.epsilon * answer.multiplicity) * Fraction(share)
        low, found, high = (engine.log_tails(at).log_delta for engine in (below, exact, above))
        assert low.lower <= found.upper
        assert found.lower <= high.upper
        assert high.upper - low.lower < 0.1


@pytest.mark.parametrize("seed", range(6))
def test_real_laplace_noise_lies_between_discrete_noise_on_either_side(seed: int) -> None:
    check_sum(random.Random(seed))


@pytest.mark.parametrize(
    ("law", "delta", "name", "width"),
    [
        ((ResponseLoss(Fraction(1), 40, 31),), "1e-8", "direct", 2e-12),
        ((ResponseLoss(Fraction(1), 40, 300),), "1e-8", "direct", 2e-12),
        ((ExponentialLoss(Fraction(1, 10), 100),), "1e-6", "direct", 1e-12),
        ((ExponentialLoss(Fraction(10**4), 3),), "1e-6", "direct", 1e-10),
        ((ExponentialLoss(Fraction(1), 3), NormalLoss(Fraction(1, 3))), "1e-8", "dithered", 1.5e-9),
        ((ResponseLoss(Fraction(1), 40, 31), NormalLoss(Fraction(1, 3))), "1e-8", "dithered", 1.5e-9),
    ],
)
def test_what_auto_takes_and_how_narrow_it_is(
    law: tuple[Base, ...], delta: str, name: str, width: float
) -> None:
    engine = engine_for(merged_law(law), "auto", 1e-9)
    assert engine.name == name
    assert epsilon_at(engine, law, Fraction(delta)).width < width
