"""What holds for every guarantee, against brute force in ball arithmetic."""

import math
import random
from fractions import Fraction

import pytest
from flint import arb, ctx, fmpq
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.samples import every, few

from tallyveil.accounting import Neighbours
from tallyveil.accounting.engines.cells import Cells
from tallyveil.accounting.engines.tilted_fft import TiltedFFT
from tallyveil.accounting.events import DiscreteGaussian, DiscreteLaplace
from tallyveil.accounting.guarantee import compose
from tallyveil.accounting.losses import GaussianLoss, LaplaceLoss, merged

STEADY = settings(max_examples=15)
DEPTH = 900  # atoms below exp(-900) are left out of the oracle; every tail compared is above exp(-700)

NOISE = st.builds(
    DiscreteGaussian,
    st.fractions(Fraction(1, 4), 40, max_denominator=4),
    st.integers(1, 3),
    st.integers(1, 3),
) | st.builds(
    DiscreteLaplace, st.fractions(Fraction(1, 2), 20, max_denominator=4), st.integers(1, 3), st.integers(1, 3)
)
EVENTS = st.lists(NOISE, min_size=1, max_size=2)
FEW_ATOMS = st.builds(
    DiscreteLaplace, st.fractions(Fraction(1, 2), 20, max_denominator=8), st.integers(1, 3), st.integers(1, 2)
)


def ball(value):
    value = Fraction(value)
    return arb(fmpq(value.numerator, value.denominator))


def atoms(factor):
    """Losses and probabilities of one answer."""
    if isinstance(factor, GaussianLoss):
        v = factor.variance
        reach = int(math.sqrt(2 * float(v) * DEPTH)) + 2
        weights = [(ball(Fraction(-x * x) / (2 * v))).exp() for x in range(reach + 1)]
        total = weights[0] + 2 * sum(weights[1:], arb(0))
        return {factor.offset + factor.step * x: weights[abs(x)] / total for x in range(-reach, reach + 1)}
    a, k = ball(-1 / factor.scale).exp(), factor.sensitivity
    middle = {j: (1 - a) * a**j / (1 + a) for j in range(1, k)}
    ends = {0: 1 / (1 + a), k: a**k / (1 + a)}
    return {Fraction(k - 2 * j) / factor.scale: p for j, p in {**middle, **ends}.items()}


def convolved(one, other):
    found = {}
    for x, p in one.items():
        for y, q in other.items():
            found[x + y] = found.get(x + y, arb(0)) + p * q
    return found


def law_of(factors):
    law = {Fraction(0): arb(1)}
    for factor in factors:
        for _ in range(factor.multiplicity):
            law = convolved(law, atoms(factor))
    return law


def with_odds(law):
    """Losses, probabilities, and probabilities under the other population."""
    return [(loss, p, p * ball(-loss).exp()) for loss, p in law.items()]


def oracle(law, epsilon):
    first, second, delta = arb(0), arb(0), arb(0)
    factor = ball(epsilon).exp()
    for loss, p, q in law:
        if loss > epsilon:
            first += p
            second += q
            delta += p - factor * q
    return [float(x.log().mid()) if x > 0 else -math.inf for x in (first, second, delta)]


def random_factors(rng):
    """A small composition whose law can be listed."""
    factors = []
    widest = 7
    for _ in range(rng.choice((1, 1, 2))):
        sensitivity = rng.randint(1, 3)
        if rng.random() < 0.5:
            variance = Fraction(rng.choice((1, 2, 3, 10, 40, 400, 4000)[:widest]), 4)
            widest = 4  # two wide ones would take the oracle minutes
            factors.append(GaussianLoss(variance, sensitivity, 1))
        else:
            scale = Fraction(rng.randint(1, 60), rng.choice((2, 3, 4)))
            factors.append(LaplaceLoss(scale, sensitivity, rng.randint(1, 3)))
    return merged(tuple(factors))


def encloses(bounds, truth):
    # The oracle's midpoint is rounded to a float, and in logarithms a hundred digits down that shows.
    slack = 2e-16 * max(1.0, abs(truth)) if math.isfinite(truth) else 0.0
    return bounds.lower - slack <= truth <= bounds.upper + slack


@pytest.mark.parametrize("seed", few(1, every(4, range(8))))
def test_bounds_enclose_brute_force(seed) -> None:
    """25 random compositions each, from the bulk to far in the tail, at lattice points and between."""
    rng = random.Random(seed)
    with ctx.workprec(300):
        for _ in range(25):
            factors = random_factors(rng)
            law, engine = law_of(factors), TiltedFFT(factors)
            losses = sorted(loss for loss, p in law.items() if p > 1e-200)
            greatest = float(losses[-1])
            listed = with_odds(law)
            for epsilon in (
                rng.choice(losses),
                losses[len(losses) // 2],
                Fraction(rng.uniform(-greatest, greatest)),
                Fraction(rng.uniform(0.8, 1) * greatest),
                Fraction(0),
            ):
                tails = engine.log_tails(epsilon)
                for found, truth in zip(
                    (tails.log_first, tails.log_second, tails.log_delta), oracle(listed, epsilon), strict=True
                ):
                    assert encloses(found, truth), (factors, epsilon)
                # Wider only far out, between clusters of atoms, where epsilon has few atoms near.
                if tails.log_delta.upper > -40:
                    assert tails.log_delta.width < 1e-8


@pytest.mark.parametrize("seed", every(2, range(3)))
def test_bounds_from_cells_enclose_exact_ones(seed) -> None:
    """Losses with a common lattice, cut into cells as if there were none."""
    rng = random.Random(seed)
    factors = merged(
        tuple(
            GaussianLoss(Fraction(v, 4), 1, rng.randint(1, 5))
            for v in rng.sample((8, 10, 16, 40, 50, 125), 3)
        )
    )
    exact, cells = TiltedFFT(factors), Cells(factors, 200)
    for epsilon in (Fraction(1, 3), 2.0, 5.0):
        truth, bounds = exact.log_tails(epsilon), cells.log_tails(epsilon)
        for name in ("log_first", "log_second", "log_delta"):
            assert getattr(truth, name).lower <= getattr(bounds, name).upper
            assert getattr(bounds, name).lower <= getattr(truth, name).upper
        assert bounds.log_delta.width < 1e-2


@STEADY
@given(EVENTS, st.floats(-3, 30), st.floats(0.01, 5))
def test_profile_is_decreasing_convex_and_symmetric(events, epsilon, step) -> None:
    guarantee = compose(*events, neighbours=Neighbours.UNBOUNDED)
    low, high = guarantee.delta(epsilon), guarantee.delta(epsilon + step)
    assert high.lower <= low.upper
    middle = math.log((math.exp(epsilon) + math.exp(epsilon + step)) / 2)
    assert guarantee.delta(middle).lower <= (low.upper + high.upper) / 2 * (1 + 1e-12)
    # delta(-epsilon) = 1 - exp(-epsilon) + exp(-epsilon) delta(epsilon).
    mirrored = guarantee.delta(-epsilon)
    assert mirrored.lower <= 1 - math.exp(-epsilon) + math.exp(-epsilon) * low.upper + 1e-12
    assert mirrored.upper >= 1 - math.exp(-epsilon) + math.exp(-epsilon) * low.lower - 1e-12


@STEADY
@given(EVENTS, st.floats(-12, -0.1))
def test_epsilon_undoes_delta(events, log10_delta) -> None:
    guarantee = compose(*events, neighbours=Neighbours.UNBOUNDED)
    delta = Fraction(10**log10_delta)
    epsilon = guarantee.epsilon(delta)
    # Beside the jump of a lattice of few atoms a relative error of delta moves epsilon by its own size.
    assert epsilon.width <= 1e-7
    if epsilon.upper > 0:
        assert guarantee.log_delta(epsilon.upper).upper <= math.log(delta) + 1e-12
    if epsilon.lower > 0:
        assert guarantee.log_delta(epsilon.lower).lower >= math.log(delta) - 1e-12


@STEADY
@given(FEW_ATOMS, EVENTS, st.floats(-2, 20))
def test_composition_is_convolution(one, other, epsilon) -> None:
    """The profile of both is the average of one's, shifted by the other's loss."""
    with ctx.workprec(200):
        law = law_of(compose(one, neighbours=Neighbours.UNBOUNDED).alternatives[0])
        heavy = {loss: float(p.mid()) for loss, p in law.items()}
    second = compose(*other, neighbours=Neighbours.UNBOUNDED)
    both = compose(one, *other, neighbours=Neighbours.UNBOUNDED).delta(epsilon)
    parts = [(p, second.delta(Fraction(epsilon) - loss)) for loss, p in heavy.items()]
    assert both.lower <= sum(p * part.upper for p, part in parts) * (1 + 1e-13) + 1e-300
    assert sum(p * part.lower for p, part in parts) <= both.upper * (1 + 1e-13) + 1e-300
    assert both.width <= 1e-8 * both.upper + 1e-300


@STEADY
@given(EVENTS, st.floats(1e-6, 0.999))
def test_tradeoff_is_its_own_inverse(events, alpha) -> None:
    guarantee = compose(*events, neighbours=Neighbours.UNBOUNDED)
    beta = guarantee.beta(alpha)
    assert beta.width <= 1e-9
    assert beta.upper <= 1 - alpha + 1e-15
    # f(f(alpha)) = alpha wherever f decreases; f(alpha) >= f(alpha') for alpha <= alpha'.
    assert guarantee.beta(beta.upper).lower <= alpha * (1 + 1e-9)
    if beta.lower > 1e-12:
        assert guarantee.beta(beta.lower).upper >= alpha * (1 - 1e-6) - 1e-9


@settings(STEADY, max_examples=4)
@given(EVENTS, st.floats(0.0, 15))
def test_gaussian_envelope_covers_the_profile(events, epsilon) -> None:
    from scipy.special import log_ndtr

    guarantee = compose(*events, neighbours=Neighbours.UNBOUNDED)
    mu = guarantee.mu().upper
    if math.isinf(mu):
        return
    first = log_ndtr(mu / 2 - epsilon / mu)
    gaussian = math.exp(first) * -math.expm1(epsilon + log_ndtr(-mu / 2 - epsilon / mu) - first)
    assert guarantee.delta(epsilon).lower <= gaussian * (1 + 1e-9)
