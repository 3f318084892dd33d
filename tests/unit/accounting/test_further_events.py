"""Real-valued noise, stated guarantees and random samples: the bounds enclose the truth, computed in other ways."""

import json
import math
from decimal import Decimal
from fractions import Fraction
from itertools import product

import pytest
from mpmath import erfc, exp, inf, log, mp, mpf, quad, sqrt
from tests.samples import every

from tallyveil.accounting import (
    ZCDP,
    AdaptiveEvent,
    ApproximateDP,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Guarantee,
    Laplace,
    Neighbours,
    ParallelEvent,
    PoissonSampled,
    PrivacyEvent,
    RandomizedResponse,
    SequentialEvent,
    WorstEvent,
    alternatives_of,
    calibrate,
    compose,
    epsilon_of,
    event_from_mapping,
    renyi_divergence,
    rho_of,
    translate,
    zcdp_to_epsilon,
)
from tallyveil.errors import BudgetError

EVENTS: tuple[PrivacyEvent, ...] = (
    Gaussian("5/3", "0.7", 2),
    Laplace(3, "1/3", 4),
    RandomizedResponse("1.5", 3, 2),
    ApproximateDP("0.5", "1e-6", 3),
    ZCDP("1/10"),
    PoissonSampled(PoissonSampled(Gaussian(2), "1/2"), "0.1", 7),
)


def composed(*events: PrivacyEvent) -> Guarantee:
    return compose(*events, neighbours="unbounded")


def number(value: Fraction | str | int) -> mpf:
    exact = Fraction(value)
    return mpf(exact.numerator) / exact.denominator


def normal_cdf(z: mpf) -> mpf:
    return erfc(-z / sqrt(mpf(2))) / 2


def normal_delta(mu_squared: Fraction | str, epsilon: mpf) -> mpf:
    mu = sqrt(number(mu_squared))
    return normal_cdf(mu / 2 - epsilon / mu) - exp(epsilon) * normal_cdf(-mu / 2 - epsilon / mu)


def laplace_delta(loss: Fraction | str, epsilon: mpf) -> mpf:
    most = number(loss)
    if abs(epsilon) >= most:
        return max(mpf(0), 1 - exp(epsilon))
    return 1 - exp((epsilon - most) / 2)


def sampled_delta(base, q: mpf, epsilon: mpf, added: bool) -> mpf:
    """Of ((1 - q) Q + q P, Q), or of the same pair the other way round, from the profile of (P, Q)."""
    odds = exp(-epsilon if added else epsilon)
    inner = (odds - 1 + q) / q
    removed = 1 - odds if inner <= 0 else q * base(log(inner))
    return 1 - 1 / odds + removed / odds if added else removed


def response_atoms(epsilon: mpf, options: int) -> list[tuple[mpf, mpf]]:
    whole = exp(epsilon) + options - 1
    found = [(epsilon, exp(epsilon) / whole), (-epsilon, 1 / whole)]
    return [*found, (mpf(0), (options - 2) / whole)] if options > 2 else found


def enumerated_delta(atoms: list[list[tuple[mpf, mpf]]], epsilon: mpf) -> mpf:
    """Delta of independent finite losses, by every combination of their values."""
    total = mpf(0)
    for one in product(*atoms):
        loss, mass = sum(value for value, _ in one), mpf(1)
        for _, share in one:
            mass *= share
        if loss > epsilon:
            total += mass * (1 - exp(epsilon - loss) if loss != inf else 1)
    return total


def encloses(found: Guarantee, epsilon: str, true: mpf, width: float = math.inf) -> None:
    bounds = found.log_delta(epsilon)
    if true < mpf(10) ** -150:  # what is left of 0 where the digits of the test end
        assert bounds.lower < -300
        assert bounds.upper < -10
    else:
        assert bounds.lower <= log(true) <= bounds.upper
        assert bounds.width <= width * max(1.0, abs(float(log(true))))


@pytest.mark.parametrize("mu_squared", ["1e-10", "1/7", "50", "5000"])
@pytest.mark.parametrize("epsilon", ["-2", "0", "1/10000", "7"])
def test_one_normal_answer_has_its_closed_form(mu_squared: str, epsilon: str) -> None:
    with mp.workdps(1200):
        encloses(
            composed(Gaussian(1 / Fraction(mu_squared))),
            epsilon,
            normal_delta(mu_squared, number(epsilon)),
            1e-12,
        )


def test_normal_answers_add_up_to_one() -> None:
    found = compose(Gaussian("7/3", "0.31", 3), Gaussian(2, "2/14"), neighbours="bounded")
    mu_squared = 3 * Fraction("0.31") ** 2 / Fraction(7, 3) + Fraction(1, 98)
    assert found.engines == ("normal",)
    with mp.workdps(60):
        for epsilon in ("0", "1/10", "2"):
            encloses(found, epsilon, normal_delta(mu_squared, number(epsilon)), 1e-12)
        root = found.epsilon("1e-9")
        assert normal_delta(mu_squared, number(Fraction(root.upper))) <= mpf("1e-9")
        assert normal_delta(mu_squared, number(Fraction(root.lower))) >= mpf("1e-9")
        assert found.mu().lower <= sqrt(number(mu_squared)) <= found.mu().upper
        for alpha in ("1e-6", "0.3", "0.9"):
            beta = normal_cdf(-mp.sqrt(2) * mp.erfinv(2 * number(alpha) - 1) - sqrt(number(mu_squared)))
            bounds = found.beta(alpha)
            assert bounds.lower <= beta <= bounds.upper
            assert bounds.width < 1e-6


@pytest.mark.parametrize(("scale", "sensitivity"), [("7/3", "0.31"), ("1/4", "4/2"), ("1e5", "1")])
def test_one_laplace_answer(scale: str, sensitivity: str) -> None:
    found, loss = composed(Laplace(scale, sensitivity)), Fraction(sensitivity) / Fraction(scale)
    with mp.workdps(50):
        for share in ("-2", "0", "1/3", "0.99999", "1"):
            epsilon = str(loss * Fraction(share))
            encloses(found, epsilon, laplace_delta(loss, number(epsilon)), 0.1)
    assert loss <= found.epsilon(0).upper <= float(loss) * (1 + 1e-14)


def test_a_normal_answer_beside_integer_noise() -> None:
    """E over the atoms of the discrete loss of the profile of the normal one."""
    found = composed(Gaussian(2, "4/6"), DiscreteLaplace(1, 1))
    with mp.workdps(50):
        kept = 1 / (1 + exp(mpf(-1)))
        for epsilon in ("0", "3/4", "4"):
            e = number(epsilon)
            parts = [normal_delta("2/9", e - 1), normal_delta("2/9", e + 1)]
            encloses(found, epsilon, kept * parts[0] + (1 - kept) * parts[1], 1e-6)


def test_integer_noise_of_huge_variance_beside_a_normal_answer() -> None:
    """Discrete Gaussian noise of variance 10^12 is normal noise but for one part in 10^11."""
    found = composed(Gaussian(1), DiscreteGaussian("1e12", 10**5, 3), RandomizedResponse("1e-9", 3))
    with mp.workdps(40):
        for epsilon in ("0", "2"):
            true, bounds = normal_delta(Fraction(103, 100), number(epsilon)), found.delta(epsilon)
            assert bounds.lower - 1e-8 <= true <= bounds.upper + 1e-8
            assert bounds.width < 1e-6


def test_two_laplace_answers_by_integration() -> None:
    found = composed(Laplace(1, "0.8"), Laplace(2))
    with mp.workdps(30):
        a, b = number("0.8"), number("0.5")
        for epsilon in ("0", "0.7", "1.2"):
            e = number(epsilon)
            knots = [-b, *sorted({min(max(e - a, -b), b), min(max(e + a, -b), b)}), b]
            inner = quad(lambda loss: exp((loss - b) / 2) / 4 * laplace_delta("0.8", e - loss), knots)  # noqa: B023
            true = inner + laplace_delta("0.8", e - b) / 2 + exp(-b) / 2 * laplace_delta("0.8", e + b)
            encloses(found, epsilon, true, 1e-6)


@pytest.mark.parametrize(
    ("q", "mu_squared"), [("1e-6", "1"), ("0.01", "1e-3"), ("0.01", "49"), ("0.999", "1")]
)
def test_one_sample_of_a_normal_answer(q: str, mu_squared: str) -> None:
    found = composed(PoissonSampled(Gaussian(1 / Fraction(mu_squared)), q))
    with mp.workdps(200):
        for epsilon in ("-1", "0", "1/1000", "1"):
            e = number(epsilon)
            worst = max(
                sampled_delta(lambda x: normal_delta(mu_squared, x), number(q), e, added)
                for added in (False, True)
            )
            encloses(found, epsilon, worst)


@pytest.mark.parametrize(
    "event",
    [
        RandomizedResponse(1, 4),
        DiscreteLaplace(1),
        pytest.param(ApproximateDP(1, "1/100"), marks=pytest.mark.nightly),
    ],
)
@pytest.mark.parametrize(
    "epsilons", [("-1/2", "1/3", "1"), pytest.param(("0", "0.8"), marks=pytest.mark.nightly)]
)
def test_three_samples_by_every_combination(event, epsilons) -> None:
    found, q = composed(PoissonSampled(event, "0.3", 3)), mpf(3) / 10
    with mp.workdps(40):
        fails = number(event.delta) if isinstance(event, ApproximateDP) else mpf(0)
        atoms = response_atoms(mpf(1), 4 if isinstance(event, RandomizedResponse) else 2)
        removed = [(log(1 - q + q * exp(b)), (1 - fails) * p * (q + (1 - q) * exp(-b))) for b, p in atoms]
        added = [(-log(1 - q + q * exp(b)), (1 - fails) * p * exp(-b)) for b, p in atoms]
        if fails:
            removed += [(inf, q * fails), (log(1 - q), (1 - q) * fails)]
            added += [(-log(1 - q), fails)]
        for epsilon in epsilons:
            true = max(enumerated_delta([law] * 3, number(epsilon)) for law in (removed, added))
            encloses(found, epsilon, true, 1e-4)


@pytest.mark.soak
def test_the_sampled_steps_of_a_training_run() -> None:
    """Accountants of other make, which round up, lie above the lower end and close to the upper one."""
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    found = composed(PoissonSampled(Gaussian("1.21"), "0.01", 1000))
    other = pld.from_gaussian_mechanism(1.1, sampling_prob=0.01, value_discretization_interval=1e-3)
    theirs = other.self_compose(1000).get_epsilon_for_delta(1e-5)
    bounds = found.epsilon("1e-5")
    assert bounds.lower <= theirs
    assert theirs == pytest.approx(bounds.upper, rel=5e-2)
    assert bounds.width < 1e-3
    tiny = found.log_delta(40)
    assert tiny.upper < math.log(1e-100)


def test_samples_of_everybody_and_of_nobody() -> None:
    for event in EVENTS[:2]:
        whole, plain = composed(PoissonSampled(Gaussian(2), 1, 3), event), composed(Gaussian(2, 1, 3), event)
        assert whole.log_delta(1) == plain.log_delta(1)
    assert composed(PoissonSampled(Gaussian(2), 0, 3)).epsilon("1e-9").upper == 0
    nested = composed(PoissonSampled(PoissonSampled(Gaussian(2), "1/2"), "1/5"))
    assert nested.alternatives == composed(PoissonSampled(Gaussian(2), "0.1")).alternatives


def test_the_worst_approximate_mechanisms_by_every_combination() -> None:
    found = composed(ApproximateDP("0.5", "0.01", 2), ApproximateDP(0, "1/7"), RandomizedResponse(1))
    with mp.workdps(40):
        pairs = [(mpf(1) / 2, mpf(1) / 100)] * 2 + [(mpf(0), mpf(1) / 7), (mpf(1), mpf(0))]
        atoms = [[(inf, d), *((loss, (1 - d) * p) for loss, p in response_atoms(e, 2))] for e, d in pairs]
        for epsilon in ("-1", "0", "0.99", "1.7", "5"):
            encloses(found, epsilon, enumerated_delta(atoms, number(epsilon)), 1e-11)
        failures = 1 - (1 - mpf(1) / 100) ** 2 * (1 - mpf(1) / 7)
        assert found.epsilon(str(failures - mpf("1e-9"))).lower == math.inf
        assert found.epsilon("0.99").upper == 0
        assert found.epsilon(Fraction(1) - Fraction(99, 100) ** 2 * Fraction(6, 7)).upper >= 2
    assert found.mu().lower == math.inf
    assert composed(ApproximateDP(1, "1e-6")).epsilon("1e-6").upper == pytest.approx(1, rel=1e-14)
    assert composed(ApproximateDP(1, "0.999")).delta(1).upper == pytest.approx(0.999, rel=1e-12)
    many = composed(ApproximateDP("1e-3", "1e-9", 10**6))
    assert many.delta(1000).lower == pytest.approx(-math.expm1(-1e-3), rel=1e-6)


@pytest.mark.parametrize("delta", ["0.3", "1e-300"])
def test_the_trade_off_of_an_approximate_mechanism(delta: str) -> None:
    """Kairouz, Oh, Viswanath 2015: the largest of 0, 1 - d - e^eps a and e^-eps (1 - d - a)."""
    found, d = composed(ApproximateDP(1, delta)), float(Fraction(delta))
    for alpha in (0.0, 0.05, 0.2, 0.5, 0.9, 1.0):
        true = max(0.0, 1 - d - math.e * alpha, (1 - d - alpha) / math.e)
        bounds = found.beta(alpha)
        assert bounds.lower - 1e-12 <= true <= bounds.upper + 1e-12
        assert bounds.width < 1e-9


def test_many_options_by_their_atoms() -> None:
    found = compose(RandomizedResponse("3/2", 5), neighbours="bounded")
    with mp.workdps(40):
        atoms = [response_atoms(number("3/2"), 5)]
        for epsilon in ("0", "1", "1.4999"):
            encloses(found, epsilon, enumerated_delta(atoms, number(epsilon)), 1e-4)
    assert found.epsilon(0).upper == pytest.approx(1.5, rel=1e-14)
    two = compose(RandomizedResponse("3/2"), neighbours="bounded")
    assert two.log_delta(1) == compose(DiscreteLaplace("2/3"), neighbours="bounded").log_delta(1)


def test_rho_alone_lies_between_normal_noise_and_its_conversion() -> None:
    found, rho = composed(ZCDP("0.3"), ZCDP("0.2")), Fraction(1, 2)
    assert found.epsilon("1e-6").upper == pytest.approx(zcdp_to_epsilon(rho, Fraction("1e-6")), rel=1e-12)
    assert found.epsilon("1e-6").lower == composed(Gaussian(1)).epsilon("1e-6").lower
    assert found.log_delta(3).lower == composed(Gaussian(1)).log_delta(3).lower
    assert found.delta(-1).upper <= 1
    mixed = composed(
        ZCDP("0.5"), DiscreteGaussian(1), Laplace(2), RandomizedResponse(1, 3), ApproximateDP(0, "1e-7")
    )
    inside = composed(
        Gaussian(1), DiscreteGaussian(1), Laplace(2), RandomizedResponse(1, 3), ApproximateDP(0, "1e-7")
    )
    for epsilon in ("1", "4", "8"):
        outer, inner = mixed.log_delta(epsilon), inside.log_delta(epsilon)
        assert outer.lower <= inner.lower + 1e-6
        assert inner.lower < outer.upper
    with pytest.raises(BudgetError, match="ApproximateDP"):
        composed(ZCDP(1), PoissonSampled(ApproximateDP(1, "1e-6"), "1/2"))


def test_rho_beside_samples_lies_between_normal_noise_and_its_conversion() -> None:
    steps = PoissonSampled(Gaussian(1), "1/10", 20)
    outer, inner = composed(ZCDP("0.1"), steps), composed(Gaussian(5), steps)
    for epsilon in ("-2", "-0.1", "0", "1", "4"):
        bounds, truth = outer.log_delta(epsilon), inner.log_delta(epsilon)
        assert bounds.lower <= truth.upper
        assert truth.lower <= bounds.upper <= 0
    assert inner.epsilon("1e-6").upper < outer.epsilon("1e-6").upper < 1.2 * inner.epsilon("1e-6").upper


@pytest.mark.parametrize("delta", every(2, ["1e-300", "1e-30", "1e-3", "0.5", "0.999"]))
@pytest.mark.parametrize(
    "event",
    [Laplace(1), pytest.param(PoissonSampled(DiscreteGaussian(1), "0.2", 20), marks=pytest.mark.nightly)],
)
def test_epsilon_and_delta_are_inverse_at_every_delta(event, delta: str) -> None:
    found = composed(event)
    bounds, target = found.epsilon(delta), float(mp.log(mpf(delta)))
    assert found.log_delta(bounds.upper).upper <= target + 1e-9
    if bounds.lower > 0:
        assert found.log_delta(bounds.lower).lower >= target - 1e-9


@pytest.mark.soak
def test_the_trade_off_function_of_samples_encloses_the_truth() -> None:
    """One sample: f_q = q f + (1 - q) (1 - alpha) for a removed record, and its inverse (Dong, Roth, Su 2022)."""
    found, q = composed(PoissonSampled(Gaussian(1), "0.5")), 0.5
    with mp.workdps(30):

        def mixed(alpha: mpf) -> mpf:
            inner = normal_cdf(-sqrt(mpf(2)) * mp.erfinv(2 * alpha - 1) - 1)
            return q * inner + (1 - q) * (1 - alpha)

        for alpha in ("0.2",):
            value = mixed(mpf(alpha))
            inverse = mp.findroot(lambda x: mixed(x) - mpf(alpha), (0.2, 0.6), solver="anderson")  # noqa: B023
            bounds = found.beta(alpha)
            assert bounds.lower <= min(value, inverse) + mpf("1e-9")
            assert bounds.upper >= min(value, inverse) - mpf("0.02")
    alphas, betas = found.tradeoff_curve(5)
    assert alphas[0] == 0
    assert all(beta.lower <= 1 - alpha + 1e-12 for alpha, beta in zip(alphas, betas, strict=True))


def test_costs_in_closed_form_are_exact() -> None:
    assert rho_of(Gaussian("5/3", "0.7", 2)) == Fraction(49, 100) / Fraction(5, 3)
    assert rho_of(SequentialEvent((ZCDP("1/3"), Gaussian(1)))) == Fraction(5, 6)
    assert epsilon_of(
        SequentialEvent((Laplace(3, "1/3", 4), RandomizedResponse("1.5", 3), ApproximateDP(1)))
    ) == (Fraction(4, 9) + Fraction(5, 2))
    assert renyi_divergence(Gaussian(2), 3) == 0.75
    assert renyi_divergence(ZCDP("1/4"), 3) == 0.75
    with mp.workdps(30):
        true = log(exp(mpf(2)) * 3 / 5 + exp(mpf(-3)) * 2 / 5) / 2
        assert renyi_divergence(Laplace(1), 3) == pytest.approx(float(true), rel=1e-15)
        assert renyi_divergence(Laplace(1), 3) >= true
        options = log((exp(mpf(3)) + 2 + exp(mpf(-2))) / (exp(mpf(1)) + 3)) / 2
        assert renyi_divergence(RandomizedResponse(1, 4), 3) == pytest.approx(float(options), rel=1e-15)
    for event in (ApproximateDP(1, "1e-6"), EVENTS[5]):
        for cost in (rho_of, epsilon_of):
            with pytest.raises(BudgetError):
                cost(event)
    with pytest.raises(BudgetError):
        renyi_divergence(ApproximateDP(1, "1e-6"), 2)
    for event in (Laplace(1), RandomizedResponse(1)):
        with pytest.raises(BudgetError, match="laplace_as_zcdp"):
            rho_of(event)
        assert rho_of(event, laplace_as_zcdp=True) == Fraction(1, 2)
    for event in (Gaussian(1), ZCDP(1)):
        with pytest.raises(BudgetError, match="no finite pure epsilon"):
            epsilon_of(event)


@pytest.mark.parametrize("event", EVENTS)
def test_every_kind_of_event_holds_them(event) -> None:
    assert event_from_mapping(json.loads(json.dumps(event.to_mapping()))) == event
    wholes = (
        SequentialEvent((event,)),
        AdaptiveEvent((event, event)),
        WorstEvent((event,)),
        ParallelEvent((event,)),
    )
    alone = alternatives_of(event, Neighbours.UNBOUNDED)
    for whole in wholes:
        assert alternatives_of(whole, Neighbours.UNBOUNDED) == alone
    with pytest.raises(BudgetError, match="leave one part and enter"):
        compose(ParallelEvent((event if event is not EVENTS[5] else EVENTS[0],)), neighbours="bounded")


def test_translation_and_calibration() -> None:
    assert translate(EVENTS[0], "bounded", "unbounded") == Gaussian("5/3", "0.7", 1)
    for event in EVENTS[2:]:
        with pytest.raises(BudgetError, match=f"{type(event).__name__}.* is no noisy partition query"):
            translate(event, "bounded", "unbounded")
    with pytest.raises(BudgetError, match="unbounded neighbours") as caught:
        compose(EVENTS[5], neighbours="bounded")
    assert caught.value.code == "sample-neighbours"
    found = calibrate(Gaussian(1), epsilon=1, delta="1e-6", neighbours="unbounded", digits=6)
    with mp.workdps(50):
        least = found.event.variance
        assert normal_delta(1 / least, mpf(1)) <= mpf("1e-6")
        assert normal_delta(1 / (least * Fraction(99999, 100000)), mpf(1)) > mpf("1e-6")
    with pytest.raises(BudgetError, match="no noise that could be scaled"):
        calibrate(ApproximateDP(1, "1e-9"), epsilon=1, delta="1e-6", neighbours="unbounded")


@pytest.mark.parametrize(
    "make",
    [
        lambda: Gaussian(1.5),
        lambda: Gaussian(1, 0),
        lambda: Gaussian(1, 101),
        lambda: Gaussian(1, "1e-40"),
        lambda: Gaussian(1, 1, 0),
        lambda: Laplace("1e-9", 1),
        lambda: Laplace(1, "-1"),
        lambda: RandomizedResponse(0),
        lambda: RandomizedResponse(1, 1),
        lambda: RandomizedResponse(0.5),
        lambda: ApproximateDP(-1, 0),
        lambda: ApproximateDP(1, 1),
        lambda: ApproximateDP(1, "1e-301"),
        lambda: ApproximateDP(1, 1e-6),
        lambda: ZCDP(0),
        lambda: PoissonSampled(Gaussian(1), "1.1"),
        lambda: PoissonSampled(Gaussian(1), 0.1),
        lambda: PoissonSampled(Gaussian(1), "1e-101"),
        lambda: PoissonSampled(Laplace(1, 1, 2), "1/2"),
        lambda: PoissonSampled(ZCDP(1), "1/2"),
        lambda: PoissonSampled(SequentialEvent(()), "1/2"),
    ],
)
def test_what_is_not_certified_is_refused(make) -> None:
    with pytest.raises(BudgetError):
        make()


def test_numbers_are_taken_in_every_exact_form() -> None:
    wanted = Gaussian(Fraction(1, 4), Fraction(1, 2))
    assert wanted == Gaussian("1/4", "0.5") == Gaussian(Decimal("0.25"), "2/4")
    with pytest.raises(BudgetError, match=r"Write '0\.1'"):
        Gaussian(1, 0.1)
