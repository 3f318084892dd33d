"""Renyi divergences against sums over the noise, their conversion, and the divergence printed for SafeTab."""

import math
from fractions import Fraction
from functools import cache

import flint
import mpmath
import pytest
from tests.samples import few

from tallyveil.accounting import (
    ApproximateDP,
    Conversion,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    InvariantEvent,
    Laplace,
    ParallelEvent,
    PoissonSampled,
    PrivacyEvent,
    RandomizedResponse,
    SequentialEvent,
    WorstEvent,
    epsilon_of,
    renyi_delta,
    renyi_divergence,
    renyi_epsilon,
    rho_of,
    zcdp_to_delta,
    zcdp_to_epsilon,
)
from tallyveil.errors import BudgetError

ORDERS = [Fraction(11, 10), Fraction(2), Fraction(5, 2), Fraction(8), Fraction(40)]


def ball(value: Fraction) -> flint.arb:
    return flint.arb(flint.fmpq(value.numerator, value.denominator))


def summed(log_weight, shift: int, alpha: Fraction, reach: int) -> Fraction:
    """ln sum P^alpha Q^(1 - alpha) / (alpha - 1) over -reach..reach, P moved by `shift`, at 300 bits."""
    with flint.ctx.workprec(300):
        a, points = ball(alpha), range(-reach, reach + 1)
        norm = sum((log_weight(x).exp() for x in points), flint.arb(0))
        moment = sum(
            ((a * log_weight(x - shift) + (1 - a) * log_weight(x)).exp() for x in points), flint.arb(0)
        )
        mantissa, exponent = ((moment / norm).log() / (a - 1)).mid().man_exp()
        return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


@pytest.mark.parametrize("alpha", ORDERS)
@pytest.mark.parametrize(("scale", "k"), few(3, [("1/2", 1), ("2", 1), ("2", 2), ("3", 5), ("40/7", 3)]))
def test_the_laplace_divergence_is_the_sum_over_the_noise(alpha: Fraction, scale: str, k: int) -> None:
    rate = 1 / Fraction(scale)
    truth = summed(lambda x: -abs(x) * ball(rate), k, alpha, reach=600 * math.ceil(1 / rate))
    found = renyi_divergence(DiscreteLaplace(scale, k), alpha)
    assert Fraction(found) >= truth * (1 - Fraction(1, 10**60))
    assert found == pytest.approx(float(truth), rel=4e-16)


@pytest.mark.parametrize("alpha", ORDERS)
@pytest.mark.parametrize(("variance", "k"), [("1/3", 1), ("5", 1), ("5", 3)])
def test_the_gaussian_bound_is_above_the_sum_and_meets_it_at_whole_centres(
    alpha, variance: str, k: int
) -> None:
    v = Fraction(variance)
    truth = summed(lambda x: -x * x / (2 * ball(v)), k, alpha, reach=400)
    found = renyi_divergence(DiscreteGaussian(v, k), alpha)
    assert Fraction(found) >= truth * (1 - Fraction(1, 10**60))
    if (alpha * k).denominator == 1:
        assert found == pytest.approx(float(truth), rel=4e-16)


@pytest.mark.parametrize("alpha", ORDERS)
def test_one_laplace_answer_is_randomised_response(alpha: Fraction) -> None:
    a, e = float(alpha), 0.427
    wanted = math.log((math.exp(a * e) + math.exp((1 - a) * e)) / (1 + math.exp(e))) / (a - 1)
    assert renyi_divergence(DiscreteLaplace("1000/427"), alpha) == pytest.approx(wanted, rel=1e-13)


def printed_lemma_8(alpha: float, epsilon: float) -> float:
    """SafeTab, Corollary 1: the sum taken as an integral."""
    tail = 2 * alpha / (epsilon * (2 * alpha - 1)) * math.exp((alpha - 1) * epsilon)
    head = 2 * (alpha - 1) / (epsilon * (2 * alpha - 1)) * math.exp(-alpha * epsilon)
    return math.log(math.tanh(epsilon / 2) * (tail + head)) / (alpha - 1)


def test_the_divergence_printed_in_lemma_8_is_no_bound() -> None:
    """Negative near order 1, where a divergence cannot be, and below the true one at every order tried."""
    assert printed_lemma_8(1.1, 0.427) == pytest.approx(-0.0632, abs=5e-5)
    assert renyi_divergence(DiscreteLaplace("1000/427"), "11/10") == pytest.approx(0.0985, abs=5e-5)
    for scale in ("1000/427", "5", "1/2"):
        for alpha in ORDERS:
            truth = summed(lambda x, s=scale: -abs(x) / ball(Fraction(s)), 1, alpha, 600)
            assert printed_lemma_8(float(alpha), 1 / float(Fraction(scale))) < float(truth)


def test_divergences_add_and_the_largest_branch_counts() -> None:
    one, two = DiscreteLaplace(2), DiscreteGaussian(3, 2)

    def of(event: PrivacyEvent) -> float:
        return renyi_divergence(event, "7/2")

    assert of(SequentialEvent((one, two, one, InvariantEvent("x")))) == pytest.approx(2 * of(one) + of(two))
    assert of(ParallelEvent((one, two), 9)) == pytest.approx(9 * max(of(one), of(two)))
    assert of(WorstEvent((one, two))) == max(of(one), of(two))
    assert of(DiscreteLaplace(2, multiplicity=5)) == pytest.approx(5 * of(one))
    assert of(SequentialEvent(())) == 0.0


@pytest.mark.parametrize("rho", ["1e-9", "1/100", "2", "1000"])
@pytest.mark.parametrize("delta", ["1e-100", "1e-10", "1/100"])
def test_for_gaussian_noise_the_conversion_is_that_of_zcdp(rho: str, delta: str) -> None:
    event = DiscreteGaussian(1 / (2 * Fraction(rho)))
    assert rho_of(event) == Fraction(rho)
    zcdp = zcdp_to_epsilon(Fraction(rho), Fraction(delta))
    assert renyi_epsilon(event, delta).value == pytest.approx(zcdp, rel=1e-13)
    epsilon = Fraction(zcdp)
    back = renyi_delta(event, epsilon)
    assert back.value == pytest.approx(zcdp_to_delta(Fraction(rho), epsilon), rel=1e-11)


MIXED = SequentialEvent((DiscreteLaplace(3, 2, 4), DiscreteGaussian(7, 1, 3), DiscreteLaplace("1/2")))


@pytest.mark.parametrize("conversion", Conversion)
def test_no_order_on_a_fine_grid_does_better(conversion: Conversion) -> None:
    delta = 1e-8
    found = renyi_epsilon(MIXED, "1e-8", conversion)
    for i in range(1, 400):
        x = math.exp(-6 + i / 40)
        alpha = 1 + x
        saved = alpha * math.log1p(1 / x) + math.log(x) if conversion is Conversion.CANONNE else 0.0
        bound = renyi_divergence(MIXED, Fraction(alpha)) - (math.log(delta) + saved) / x
        assert found.value <= bound * (1 + 1e-12)
    assert found.order > 1
    back = renyi_delta(MIXED, Fraction(found.value), conversion)
    assert back.value == pytest.approx(delta, rel=1e-9)


def test_the_better_conversion_is_better_and_neither_passes_the_pure_epsilon() -> None:
    event = DiscreteLaplace(30, multiplicity=360)
    mironov = renyi_epsilon(event, "1e-10", Conversion.MIRONOV)
    canonne = renyi_epsilon(event, "1e-10")
    assert canonne.value < mironov.value < epsilon_of(event) == 12
    assert renyi_delta(event, 4).value < renyi_delta(event, 4, Conversion.MIRONOV).value


def test_nothing_released_is_nothing_lost_and_extremes_stay_bounds() -> None:
    assert renyi_epsilon(InvariantEvent("total"), "1e-10").value < 1e-30
    assert renyi_delta(InvariantEvent("total"), 1).value < 1e-300
    assert renyi_divergence(DiscreteLaplace("1e-100"), 2) >= 10**99
    assert 0 < renyi_divergence(DiscreteLaplace("1e100"), 2) < 1e-99
    assert 0 < renyi_divergence(DiscreteLaplace("1e30", 10**9, 10**9), 2) <= 1e-12
    assert renyi_divergence(DiscreteGaussian("1e-100", 10**150, 10**10), 2) == math.inf
    assert renyi_epsilon(DiscreteLaplace("1e-30"), "1e-10").value >= 1e29
    assert renyi_delta(DiscreteGaussian(1), 10**6).value == math.ulp(0.0)


@pytest.mark.parametrize("order", [1, "1/2", 0, -3, 2.0, "nan"])
def test_orders_are_exact_and_above_one(order) -> None:
    with pytest.raises(BudgetError):
        renyi_divergence(MIXED, order)


@pytest.mark.parametrize("delta", [0, 1, "-1/2", 1e-10])
def test_deltas_are_exact_and_inside_the_unit_interval(delta) -> None:
    with pytest.raises(BudgetError):
        renyi_epsilon(MIXED, delta)
    with pytest.raises(BudgetError):
        renyi_delta(MIXED, -1)


@pytest.mark.parametrize("alpha", ORDERS[:4])
def test_the_divergence_of_two_independent_releases_is_the_sum_of_theirs(alpha: Fraction) -> None:
    """SafeTab's Lemma 11, on the joint law of both noises, which is listed pair by pair."""
    one, other = (
        {x: math.exp(-abs(x) / scale) for x in range(-reach, reach + 1)}
        for scale, reach in ((2, 60), (3.5, 90))
    )
    joint = {(x, y): p * q for x, p in one.items() for y, q in other.items()}
    norm = sum(joint.values())
    a = float(alpha)
    moment = sum(joint.get((x - 1, y - 2), 0.0) ** a * weight ** (1 - a) for (x, y), weight in joint.items())
    divergence = math.log(moment / norm) / (a - 1)
    events = [DiscreteLaplace(Fraction(2)), DiscreteLaplace(Fraction(7, 2), sensitivity=2)]
    assert renyi_divergence(SequentialEvent(tuple(events)), alpha) == pytest.approx(divergence, rel=1e-9)
    assert divergence == pytest.approx(sum(renyi_divergence(event, alpha) for event in events), rel=1e-9)


@pytest.mark.parametrize("n", [9, 16, 20, 60])
@pytest.mark.parametrize("conversion", list(Conversion))
def test_a_delta_next_to_1_does_not_lose_the_logarithm_of_delta(n: int, conversion: Conversion) -> None:
    """Of Mironov’s conversion rho remains; the other one gives 0."""
    event = DiscreteGaussian(5)
    assert renyi_epsilon(event, 1 - Fraction(1, 10**n), conversion).value <= 0.1001


def largest_of_both(density, shifted, q: Fraction, alpha: Fraction, add) -> mpmath.mpf:
    """The larger divergence of (1 - q) Q + q P from Q, and the other way round; `add` sums or integrates."""
    with mpmath.workdps(40):
        share, order = (mpmath.mpf(value.numerator) / value.denominator for value in (q, alpha))

        def moment(power):
            return add(lambda x: ((1 - share) + share * shifted(x) / density(x)) ** power * density(x))

        return max(mpmath.log(moment(order)), mpmath.log(moment(1 - order))) / (order - 1)


def summed_over(reach: int):
    return lambda term: mpmath.fsum(term(x) for x in range(-reach, reach + 1))


def integrated(term) -> mpmath.mpf:
    return mpmath.quad(term, [-80, -20, -8, -3, 0, 1, 2, 4, 6, 9, 14, 20, 30, 80])


@cache
def sum_of_weights(prec: int) -> mpmath.mpf:
    """Of discrete Gaussian noise of variance 3, at the precision at work."""
    return mpmath.jtheta(3, 0, mpmath.exp(-mpmath.mpf(1) / 6))


SAMPLES = [
    (Gaussian("4", "2"), mpmath.npdf, lambda x: mpmath.npdf(x - 1), integrated),
    (
        DiscreteGaussian(3, 2),
        lambda x: mpmath.exp(-(mpmath.mpf(x) ** 2) / 6) / sum_of_weights(mpmath.mp.prec),
        lambda x: mpmath.exp(-(mpmath.mpf(x - 2) ** 2) / 6) / sum_of_weights(mpmath.mp.prec),
        summed_over(120),
    ),
    (
        DiscreteLaplace("5/2", 2),
        lambda x: mpmath.tanh(mpmath.mpf("0.2")) * mpmath.exp(-abs(x) / mpmath.mpf("2.5")),
        lambda x: mpmath.tanh(mpmath.mpf("0.2")) * mpmath.exp(-abs(x - 2) / mpmath.mpf("2.5")),
        summed_over(300),
    ),
    (Laplace(1), lambda x: mpmath.exp(-abs(x)) / 2, lambda x: mpmath.exp(-abs(x - 1)) / 2, integrated),
]


@pytest.mark.parametrize("q", few(1, [Fraction(1, 100), Fraction(1, 3)]))
@pytest.mark.parametrize("alpha", few(1, [Fraction(3, 2), Fraction(7), Fraction(20)]))
@pytest.mark.parametrize(("event", "density", "shifted", "add"), SAMPLES)
def test_the_divergence_of_a_sample_is_that_of_its_pair_of_laws(
    event, density, shifted, add, q, alpha
) -> None:
    with mpmath.workdps(40):
        truth = largest_of_both(density, shifted, q, alpha, add)
        found = renyi_divergence(PoissonSampled(event, q, 5), alpha)
        assert found >= 5 * truth * (1 - mpmath.mpf("1e-18"))
        assert found == pytest.approx(float(5 * truth), rel=1e-13)


def test_renyi_epsilon_of_samples_beside_the_peer() -> None:
    rdp = pytest.importorskip("dp_accounting.rdp")
    theirs = pytest.importorskip("dp_accounting")
    event = PoissonSampled(Gaussian(1), "1/100", 10_000)
    step = theirs.PoissonSampledDpEvent(0.01, theirs.GaussianDpEvent(1.0))
    accountant = rdp.RdpAccountant([2.0, 5.0]).compose(theirs.SelfComposedDpEvent(step, 10_000))
    for order, divergence in zip((2, 5), accountant.rdp, strict=True):
        assert renyi_divergence(event, order) == pytest.approx(divergence, rel=1e-10)
    assert renyi_epsilon(event, "1e-5").value <= rdp.RdpAccountant().compose(
        theirs.SelfComposedDpEvent(step, 10_000)
    ).get_epsilon(1e-5)


@pytest.mark.parametrize(
    ("event", "order"),
    [
        (PoissonSampled(ApproximateDP(1, "1e-9"), "1/2"), 2),
        (PoissonSampled(Gaussian("1e-3"), "1/2"), 2),
        (PoissonSampled(RandomizedResponse(1, 3), "1e-13"), 2),
        (PoissonSampled(Gaussian(1), "1/2"), 10**9),
    ],
)
def test_a_sample_without_a_divergence_is_refused(event: PrivacyEvent, order: int) -> None:
    with pytest.raises(BudgetError, match="no finite Renyi divergence") as caught:
        renyi_divergence(event, order)
    assert caught.value.code == "no-cost"
