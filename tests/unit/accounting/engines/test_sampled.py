"""Losses of random samples: their transforms, and bounds by them, beside integrals in 40 digits and enumeration."""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from tests.samples import few

from tallyveil.accounting import compose
from tallyveil.accounting.engines.ball_tails import Enumeration, OneSample
from tallyveil.accounting.engines.cells import Cells
from tallyveil.accounting.engines.choose import engine_for
from tallyveil.accounting.engines.dithered import Dithered
from tallyveil.accounting.engines.moments import log_chance_of_greatest
from tallyveil.accounting.engines.sampled import (
    atoms_of_sample,
    fall_of_sample,
    is_dense,
    log_moment_of_sample,
    takes_sample,
)
from tallyveil.accounting.events import ApproximateDP, Gaussian, PoissonSampled, SampledWithoutReplacement
from tallyveil.accounting.losses import (
    ExponentialLoss,
    GaussianLoss,
    LaplaceLoss,
    Law,
    NormalLoss,
    ResponseLoss,
    SampledLoss,
    merged_law,
    mirrored,
)

BASES = (
    NormalLoss(Fraction(1)),
    NormalLoss(Fraction(1, 100)),
    NormalLoss(Fraction(9)),
    GaussianLoss(Fraction(4), 2, 1),
    GaussianLoss(Fraction(100), 7, 1),
    GaussianLoss(Fraction(1, 2), 1, 1),
    LaplaceLoss(Fraction(3), 2, 1),
    ResponseLoss(Fraction(2), 5),
    ExponentialLoss(Fraction(1)),
    ExponentialLoss(Fraction(5)),
    None,
)


def samples() -> list[SampledLoss]:
    """One of each kind, of both directions, with and without failures."""
    return [
        SampledLoss(base, q, failure, added)
        for base, q, added in itertools.product(BASES, (Fraction(1, 50), Fraction(4, 5)), (False, True))
        for failure in ((Fraction(0), Fraction(1, 1000)) if base else (Fraction(1, 1000),))
    ]


def exact_parts(loss: SampledLoss) -> "list[tuple[mpmath.mpf, mpmath.mpf]] | None":
    """Losses and probabilities, given that not all is revealed, from the definitions; None for real-valued noise."""
    q, f = (mpmath.mpf(x.numerator) / x.denominator for x in (loss.probability, loss.failure))
    match loss.base:
        case NormalLoss() | ExponentialLoss():
            return None
        case None:
            of_q = [(mpmath.mpf(0), mpmath.mpf(1))]
        case ResponseLoss(epsilon, options):
            e = mpmath.mpf(epsilon.numerator) / epsilon.denominator
            whole = mpmath.exp(e) + options - 1
            of_q = [(-e, mpmath.exp(e) / whole), (mpmath.mpf(0), (options - 2) / whole), (e, 1 / whole)]
        case LaplaceLoss(scale, k):
            t = mpmath.mpf(scale.numerator) / scale.denominator
            noise = {
                x: (1 - mpmath.exp(-1 / t)) / (1 + mpmath.exp(-1 / t)) * mpmath.exp(-abs(x) / t)
                for x in range(-400, 401)
            }
            of_q = [((abs(x) - abs(x - k)) / t, p) for x, p in noise.items()]
        case GaussianLoss(variance, k):
            v = mpmath.mpf(variance.numerator) / variance.denominator
            weights = {x: mpmath.exp(-mpmath.mpf(x * x) / (2 * v)) for x in range(-250, 251)}
            whole = mpmath.fsum(weights.values())
            of_q = [((2 * k * mpmath.mpf(x) - k * k) / (2 * v), p / whole) for x, p in weights.items()]
    parts = []
    for b, p in of_q:
        grown = 1 - q + q * mpmath.exp(b)
        parts.append(
            (-mpmath.log(grown), (1 - f) * p) if loss.added else (mpmath.log(grown), (1 - f) * p * grown)
        )
    if f:
        rest = mpmath.log(1 - q)
        parts.append((-rest, f) if loss.added else (rest, f * (1 - q)))
    whole = 1 if loss.added else 1 - q * f
    return [(value, p / whole) for value, p in parts]


def mean_under_q(
    loss: SampledLoss, of: "Callable[[mpmath.mpf], mpmath.mpf]", reach: "mpmath.mpf"
) -> "mpmath.mpf":
    """The mean of a function of R under Q, for real-valued noise, in pieces of one standard deviation or less."""
    q = mpmath.mpf(loss.probability.numerator) / loss.probability.denominator
    if isinstance(loss.base, ExponentialLoss):
        e = mpmath.mpf(loss.base.epsilon.numerator) / loss.base.epsilon.denominator
        ends = of(1 - q + q * mpmath.exp(-e)) / 2 + mpmath.exp(-e) / 2 * of(1 - q + q * mpmath.exp(e))
        pieces = mpmath.linspace(0, e, 9)
        return ends + mpmath.quad(
            lambda x: mpmath.exp(-x) / 2 * of(1 - q + q * mpmath.exp(2 * x - e)), pieces, maxdegree=5
        )
    assert isinstance(loss.base, NormalLoss)
    mu = mpmath.sqrt(mpmath.mpf(loss.base.mu_squared.numerator) / loss.base.mu_squared.denominator)
    # No step of the trapezoid rule.
    return mpmath.quad(
        lambda x: mpmath.npdf(x) * of(1 - q + q * mpmath.exp(mu * x - mu**2 / 2)),
        list(range(-int(reach), int(reach) + 1)),
        maxdegree=5,
    )


def exact_transform(loss: SampledLoss, z: "mpmath.mpc") -> "mpmath.mpc":
    """E exp(z L), given that not all is revealed."""
    parts = exact_parts(loss)
    if parts is not None:
        return mpmath.fsum(p * mpmath.exp(z * value) for value, p in parts)
    q, f = (mpmath.mpf(x.numerator) / x.denominator for x in (loss.probability, loss.failure))
    w = -z if loss.added else 1 + z
    whole = mean_under_q(loss, lambda grown: grown**w, 14 + 4 * abs(mpmath.re(w)))
    whole = (1 - f) * whole + f * (1 - q) ** w
    return whole / (1 if loss.added else 1 - q * f)


@pytest.mark.parametrize("loss", few(4, samples()), ids=str)
def test_the_transform_is_within_its_error(loss: SampledLoss) -> None:
    with mpmath.workdps(22):
        for tilt, u in ((Fraction(5, 2), 7.3), (Fraction(-1, 3), 0.9)):
            law = atoms_of_sample(loss, tilt, 8.0)
            there = np.exp(1j * u * law.losses) @ law.weights
            at_zero = mpmath.re(exact_transform(loss, mpmath.mpf(tilt.numerator) / tilt.denominator))
            z = mpmath.mpc(mpmath.mpf(tilt.numerator) / tilt.denominator, u)
            exact = exact_transform(loss, z) / at_zero
            assert abs(complex(exact) - there) < law.error + 1e-13
            assert law.error < 1e-18
            ball = log_moment_of_sample(loss, tilt)
            assert abs(float(mpmath.log(at_zero)) - float(ball)) < 1e-13 * (1 + abs(float(ball)))


@pytest.mark.parametrize("loss", few(4, (loss for loss in samples() if is_dense(loss))), ids=str)
def test_a_fall_is_never_more_than_the_transform_falls_by(loss: SampledLoss) -> None:
    generator, useful = np.random.default_rng(5), 0
    for tilt in (Fraction(2), Fraction(-1, 2)):
        fall = fall_of_sample(loss, tilt)
        for begin in 2.0 ** np.arange(-3, 10):
            least = fall(begin, 2 * begin)
            law = atoms_of_sample(loss, tilt, 2 * begin)
            u = begin * (1 + generator.random(400))
            sizes = np.abs(np.exp(1j * np.multiply.outer(u, law.losses)) @ law.weights)
            assert math.exp(-least) >= sizes.max() - 1e-11  # the rounding of the sum
            useful += least > 0.01
    assert useful >= 4


def normal_delta(mu: "mpmath.mpf", epsilon: "mpmath.mpf") -> "mpmath.mpf":
    return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


def exact_delta(loss: SampledLoss, mu: "mpmath.mpf", epsilon: "mpmath.mpf") -> "mpmath.mpf":
    """Delta of some samples and one normal answer."""
    single = replace(loss, multiplicity=1)
    parts = exact_parts(single)
    if parts is None:
        assert loss.multiplicity == 1

        def of(grown: "mpmath.mpf") -> "mpmath.mpf":
            value, p = (-mpmath.log(grown), 1) if loss.added else (mpmath.log(grown), grown)
            return p * normal_delta(mu, epsilon - value)

        return mean_under_q(loss, of, mpmath.mpf(16))
    law = {mpmath.mpf(0): mpmath.mpf(1)}
    for _ in range(loss.multiplicity):
        following: dict[mpmath.mpf, mpmath.mpf] = {}
        for (value, p), (more, chance) in itertools.product(law.items(), parts):
            if p * chance > mpmath.mpf(10) ** -28:
                following[value + more] = following.get(value + more, mpmath.mpf(0)) + p * chance
        law = following
    return mpmath.fsum(p * normal_delta(mu, epsilon - value) for value, p in law.items())


@pytest.mark.parametrize(
    "loss",
    few(
        3,
        (
            loss
            for loss in samples()
            if not loss.failure or loss.base is None or isinstance(loss.base, ResponseLoss)
        ),
    ),
    ids=str,
)
def test_bounds_enclose_the_delta_of_samples_beside_a_normal_answer(loss: SampledLoss) -> None:
    few = isinstance(loss.base, ResponseLoss | LaplaceLoss | None)
    loss = replace(loss, multiplicity=3 if few else 1)
    engine = Dithered.build(merged_law((loss, NormalLoss(Fraction(1, 4)))))
    assert engine is not None
    with mpmath.workdps(25):
        # Below 0 nothing is claimed where all may be revealed.
        for epsilon in (0.25, 1.5, 4.0) if loss.failure else (-0.75, 0.25, 1.5, 4.0):
            exact = float(mpmath.log(exact_delta(loss, mpmath.mpf("0.5"), mpmath.mpf(epsilon))))
            bounds = engine.log_deltas([epsilon])[0]
            assert bounds.lower - 1e-13 <= exact <= bounds.upper + 1e-13
            assert bounds.width < 2e-8 * (1 + abs(exact))
            tails = engine.log_tails(epsilon)
            assert tails.log_delta.lower - 1e-13 <= exact <= tails.log_delta.upper + 1e-13


MANY: tuple[Law, ...] = (
    (SampledLoss(NormalLoss(Fraction(1)), Fraction(1, 100), multiplicity=1000),),
    (SampledLoss(NormalLoss(Fraction(4)), Fraction(1, 10), multiplicity=20),),
    (SampledLoss(NormalLoss(Fraction(1)), Fraction(1, 100), Fraction(1, 10**6), multiplicity=1000),),
    (SampledLoss(GaussianLoss(Fraction(4), 2, 1), Fraction(1, 100), multiplicity=10_000),),
    (SampledLoss(GaussianLoss(Fraction(100), 10, 1), Fraction(1, 100), multiplicity=2000),),
    (SampledLoss(ResponseLoss(Fraction(1), 4), Fraction(1, 10), multiplicity=400),),
    (SampledLoss(LaplaceLoss(Fraction(2), 2, 1), Fraction(1, 10), multiplicity=400),),
    (SampledLoss(ExponentialLoss(Fraction(1)), Fraction(1, 10), multiplicity=1000),),
)


@pytest.mark.parametrize(
    "law",
    # Three laws one way; the others, and the other way, every night.
    few(3, [(law if i % 2 else mirrored(law),) for i, law in enumerate(MANY)])
    + [
        pytest.param(mirrored(law) if i % 2 else law, marks=pytest.mark.nightly) for i, law in enumerate(MANY)
    ],
    ids=str,
)
def test_many_samples_agree_with_cells(law: Law) -> None:
    engine, cells = engine_for(law, "auto", 1e-9), Cells(law, 200)
    assert engine.name == "dithered"
    for epsilon in (0.3, 1.0, 2.5):
        near, far = engine.log_deltas([epsilon])[0], cells.log_deltas([epsilon])[0]
        assert near.lower <= far.upper
        assert far.lower <= near.upper
        assert near.width < 1e-6


def test_stochastic_gradient_descent_is_known_to_nine_digits() -> None:
    bounds = compose(
        PoissonSampled(Gaussian(1, 1), Fraction(1, 100), 10_000), neighbours="unbounded"
    ).epsilon("1e-5")
    # The inverse Laplace transform of T(1 + z)^10000 by the trapezoid rule, with T by other rules in 30 digits.
    assert bounds.lower <= 6.18771238997154 <= bounds.upper
    assert bounds.upper - bounds.lower < 1.1e-9


@pytest.mark.nightly
@pytest.mark.parametrize("delta", ["1e-2", "1e-30", "1e-100"])
def test_the_width_is_as_small_at_tiny_deltas(delta: str) -> None:
    bounds = compose(PoissonSampled(Gaussian(1, 1), Fraction(1, 100), 1000), neighbours="unbounded").epsilon(
        delta
    )
    assert bounds.upper - bounds.lower < 2e-9 * (1 + bounds.upper)


def test_noise_that_protects_nobody_is_left_to_the_grid() -> None:
    assert not takes_sample(SampledLoss(NormalLoss(Fraction(10**6)), Fraction(1, 2)))


def test_far_out_the_transform_may_be_below_every_float() -> None:
    fall = fall_of_sample(SampledLoss(NormalLoss(Fraction(1)), Fraction(1, 10**6)), Fraction(480))
    assert 600 < fall(1e15, 2e15) < 700
    assert fall(1e-12, 2e-12) == 0


def test_samples_that_may_reveal_all_have_a_loss_that_is_nearly_certain() -> None:
    # 200 samples with a failure of 9 in 10: about 180 of them have the loss -ln(1 - q), all others none.
    loss = SampledLoss(None, Fraction(1, 274), Fraction(9, 10), added=True, multiplicity=200)
    engine = Dithered.build((loss,), 1e-7)
    assert engine is not None
    lost = -math.log1p(-1 / 274)
    for epsilon in (0.0, 0.2):
        delta = math.fsum(
            math.comb(200, j) * 0.9**j * 0.1 ** (200 - j) * max(0.0, -math.expm1(epsilon - j * lost))
            for j in range(201)
        )
        bounds = engine.log_deltas([epsilon])[0]
        assert bounds.lower <= math.log(delta) <= bounds.upper


@pytest.mark.parametrize(
    "event",
    [
        PoissonSampled(ApproximateDP(1, 1 - Fraction(1, 10**20)), Fraction(1, 100), 3),
        PoissonSampled(PoissonSampled(Gaussian(1, 1), Fraction(1, 10**20)), Fraction(1, 10**20), 3),
    ],
    ids=["a failure that floats take for certain", "a probability of 1e-40"],
)
def test_what_floats_cannot_hold_is_left_to_other_engines(event: PoissonSampled) -> None:
    bounds = compose(event, neighbours="unbounded").delta(1)
    assert 0 <= bounds.lower <= bounds.upper <= 1


@pytest.mark.nightly
def test_an_epsilon_far_beyond_all_losses_is_answered() -> None:
    guarantee = compose(PoissonSampled(Gaussian(1, 1), Fraction(1, 100), 100), neighbours="unbounded")
    assert guarantee.delta(10**300).upper < 1e-300


def in_plain_sums(loss: SampledLoss, tilt: Fraction, frequencies: list[float]) -> list[complex]:
    """The transform relative to that at u = 0 on the real axis, in floats and with very many places."""
    power = float(-tilt if loss.added else 1 + tilt)
    q = float(loss.probability)
    if isinstance(loss.base, NormalLoss):
        mu = math.sqrt(loss.base.mu_squared)
        centre = power * mu if power > 0 else 0.0
        x = np.arange(centre - 45.0 * max(1.0, -power * mu / 4), centre + 45.0, 5e-4)
        b, log_weights = mu * x - mu * mu / 2, -x * x / 2
    else:
        assert isinstance(loss.base, ExponentialLoss)
        epsilon = float(loss.base.epsilon)
        nodes, weights = np.polynomial.legendre.leggauss(40)
        begins = np.arange(4000)[:, None] * (epsilon / 4000)
        x = (begins + (1 + nodes) * (epsilon / 8000)).ravel()
        b = np.concatenate([[-epsilon, epsilon], 2 * x - epsilon])
        density = np.log(np.tile(weights, 4000) * (epsilon / 16000)) - x
        log_weights = np.concatenate([[-math.log(2), -math.log(2) - epsilon], density])
    grown = np.logaddexp(math.log1p(-q), math.log(q) + b)
    exponents = log_weights + power * grown
    masses = np.exp(exponents - exponents.max())
    losses = -grown if loss.added else grown
    return [complex(masses @ np.exp(1j * u * losses)) / float(masses.sum()) for u in frequencies]


@pytest.mark.parametrize("added", few(1, [False, True]))
@pytest.mark.parametrize("q", few(1, [Fraction(1, 1000), Fraction(1, 2)]))
@pytest.mark.parametrize(
    "base",
    [
        NormalLoss(Fraction(1, 16)),
        NormalLoss(Fraction(4)),
        ExponentialLoss(Fraction(1, 5)),
        ExponentialLoss(Fraction(6)),
    ],
)
def test_beside_the_real_axis_few_atoms_do_for_large_frequencies(base, q, added) -> None:
    loss, farthest = SampledLoss(base, q, Fraction(0), added), 3000.0
    for tilt in (Fraction(-1, 2), Fraction(2), Fraction(30)):
        law = atoms_of_sample(loss, tilt, farthest)
        frequencies = [0.0, 1.0, 70.0, 900.0, farthest]
        found = [complex(law.weights @ np.exp(1j * u * law.losses)) for u in frequencies]
        # The plain sums lose three digits of sixteen: a phase of 3,000 times a loss.
        np.testing.assert_allclose(found, in_plain_sums(loss, tilt, frequencies), rtol=0, atol=4e-12)
        assert law.losses.size < 1200
        assert law.losses.imag.min() >= 0
        assert complex(law.weights.sum()) == pytest.approx(1, abs=1e-14)
    for frequency in (1e4, 1e6):
        assert atoms_of_sample(loss, Fraction(2), frequency).losses.size < 1200


@pytest.mark.parametrize(
    "number", [1, pytest.param(3, marks=pytest.mark.nightly), pytest.param(20, marks=pytest.mark.nightly)]
)
def test_few_samples_of_normal_noise_are_close(number) -> None:
    """With one sample delta is a difference of normal probabilities at the place where the loss is epsilon."""
    q = Fraction(1, 100)
    bounds = compose(PoissonSampled(Gaussian(1), q, number), neighbours="unbounded").epsilon("1e-6")
    assert bounds.width < 1e-7
    if number == 1:
        with mpmath.workdps(40):
            share, epsilon = mpmath.mpf(1) / 100, mpmath.mpf(bounds.upper)
            place = mpmath.log((mpmath.exp(epsilon) - 1 + share) / share) + mpmath.mpf(1) / 2
            revealed = share * mpmath.ncdf(1 - place) + (1 - share) * mpmath.ncdf(-place)
            assert revealed - mpmath.exp(epsilon) * mpmath.ncdf(-place) <= mpmath.mpf("1e-6")


def test_samples_of_very_wide_normal_noise_are_taken() -> None:
    """Below mu = 1e-5 the ellipses of the rule would otherwise all be too wide."""
    sample = SampledWithoutReplacement(Gaussian(10**10), 1, 2)
    bounds = compose(sample, Gaussian(1), neighbours="bounded").epsilon("1e-6")
    alone = compose(Gaussian(1), neighbours="bounded").epsilon("1e-6")
    assert alone.lower <= bounds.upper <= alone.upper + 1e-5
    assert bounds.width < 1e-8


@pytest.mark.parametrize("added", [False, True])
def test_one_sample_of_real_laplace_noise_has_the_delta_of_amplification(added: bool) -> None:
    """Delta of the noise itself is 1 - exp((x - e) / 2) for |x| < e; docs/proofs/real-noise.md, section 4."""
    noise, q = 1 / 3, 1 / 7
    engine = OneSample.build((SampledLoss(ExponentialLoss(Fraction(1, 3)), Fraction(1, 7), added=added),))
    assert engine is not None

    def of_noise(x: float) -> float:
        return max(0.0, 1 - math.exp(x)) if abs(x) >= noise else 1 - math.exp((x - noise) / 2)

    def removed(epsilon: float) -> float:
        inner = 1 + math.expm1(epsilon) / q
        return 1 - math.exp(epsilon) if inner <= 0 else q * of_noise(math.log(inner))

    for epsilon in (-0.5, -0.03, 0.0, 0.01, 0.04, 0.05, 2.0):
        truth = removed(epsilon)
        if added:
            truth = 1 - math.exp(epsilon) + math.exp(epsilon) * removed(-epsilon)
        found = engine.log_tails(epsilon).log_delta
        assert math.exp(found.upper) == pytest.approx(truth, rel=1e-9, abs=1e-15)
        assert found.width < 1e-14 or truth < 1e-15


def test_near_the_largest_loss_delta_is_that_of_this_loss_at_least() -> None:
    law: Law = (ExponentialLoss(Fraction(1, 3), 40), ExponentialLoss(Fraction(1, 7), 1))
    contour, exact = Dithered.build(law, 1e-5), Enumeration.build(law)
    assert contour is not None
    assert exact is not None
    for share in (Fraction(1, 10**6), Fraction(1, 10**12)):
        epsilon = (1 - share) * (Fraction(40, 3) + Fraction(1, 7))
        found, truth = contour.log_deltas([epsilon])[0], exact.log_tails(epsilon).log_delta
        assert found.lower <= truth.upper
        assert truth.lower <= found.upper
        assert truth.lower - found.lower < 0.1 * float(share) * 1e6 + 1e-3
    # For samples, by their definition: a record that is removed has the largest loss in and out of the sample.
    q = Fraction(1, 5)
    for added, least in ((False, (0.2 + 0.8 * math.exp(-0.5)) / 2), (True, 0.5)):
        single = (SampledLoss(ExponentialLoss(Fraction(1, 2)), q, added=added),)
        assert log_chance_of_greatest(single) == pytest.approx(math.log(least), abs=1e-14)
    assert log_chance_of_greatest((ResponseLoss(Fraction(1), 4, 2),)) == pytest.approx(
        2 - 2 * math.log(math.e + 3), abs=1e-14
    )
    assert log_chance_of_greatest((NormalLoss(Fraction(1)),)) == -math.inf
