"""Mixtures of normal laws: bounds beside integrals in 40 digits, what vectors cost, the JSON form, and refusals."""

import json
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import mpmath
import numpy as np
import pytest
from flint import acb
from mpmath import mpc, mpf
from scipy.special import ndtr
from tests.oracles.integrals import ball, integral_of, number
from tests.samples import few

from tallyveil.accounting import (
    Gaussian,
    Guarantee,
    MixtureOfGaussians,
    Neighbours,
    PoissonSampled,
    SequentialEvent,
    compose,
    epsilon_of,
    event_from_mapping,
    for_group,
    loss_law_of,
    renyi_divergence,
    rho_of,
    translate,
)
from tallyveil.accounting.calibration import scaled
from tallyveil.accounting.engines.ball_tails import OneSample
from tallyveil.accounting.engines.cells import Cells
from tallyveil.accounting.engines.choose import engine_for
from tallyveil.accounting.engines.dithered import Dithered
from tallyveil.accounting.engines.sampled import atoms_of_sample, fall_of_sample, log_moment_of_sample
from tallyveil.accounting.losses import SampledLoss, mirrored
from tallyveil.errors import BudgetError
from tallyveil.noise.balls import precision, rational

MIXTURES = [
    MixtureOfGaussians(1, [0, 1, 2], ["9/10", "9/100", "1/100"]),
    MixtureOfGaussians(4, ["1/1000", 1, 5], ["1/10", "8/10", "1/10"]),
    MixtureOfGaussians("1/2", [1, "3/7"], ["1/100", "99/100"]),
    MixtureOfGaussians(100, [0, 0, 1, 30], ["1/2", "1/4", "1/8", "1/8"]),
]


def real(value: Fraction) -> mpf:
    return mpf(value.numerator) / value.denominator


def parts_of(event: MixtureOfGaussians) -> list[tuple[mpf, mpf]]:
    unit = mpmath.sqrt(real(event.variance))
    return [
        (real(move) / unit, real(share))
        for move, share in zip(event.sensitivities, event.probabilities, strict=True)
    ]


def grown(event: MixtureOfGaussians, x: mpf) -> mpf:
    """The quotient of the two densities at a place, in standard deviations."""
    return mpmath.fsum(share * mpmath.exp(mu * x - mu**2 / 2) for mu, share in parts_of(event))


def density(x: acb) -> acb:
    return (-x * x / 2).exp() / (2 * acb.pi()).sqrt()


def grown_by(event: MixtureOfGaussians) -> Callable[[acb], acb]:
    """The same for balls."""
    unit = rational(event.variance).sqrt()
    parts = [
        (rational(move) / unit, rational(share))
        for move, share in zip(event.sensitivities, event.probabilities, strict=True)
    ]
    return lambda x: sum((share * (mu * x - mu * mu / 2).exp() for mu, share in parts), acb(0))


def delta_of(event: MixtureOfGaussians, epsilon: mpf, added: bool) -> mpf:
    """E max(0, 1 - exp(epsilon - L)) as an integral; the place of its kink is found by bisection."""
    kappa = mpmath.exp(epsilon)

    def gap(x: mpf) -> mpf:
        return 1 - kappa * grown(event, x) if added else grown(event, x) - kappa

    low, high = mpf(-60), mpf(60)
    # The quotient rises with x, so that there is one change of sign at most.
    if (gap(low) > 0) == (gap(high) > 0):
        ends = (mpf(-60), mpf(60)) if gap(low) > 0 else (mpf(0), mpf(0))
    else:
        for _ in range(150):
            middle = (low + high) / 2
            low, high = (middle, high) if (gap(middle) > 0) == (gap(low) > 0) else (low, middle)
        ends = (mpf(-60), low) if added else (low, mpf(60))
    with precision(200):
        ratio, bound = grown_by(event), ball(kappa)

        def term(x: acb, _: bool) -> acb:
            return density(x) * (1 - bound * ratio(x) if added else ratio(x) - bound)

        return number(integral_of(term, *map(ball, ends))).real


@cache
def guarantee_of(event: MixtureOfGaussians) -> Guarantee:
    return compose(event, neighbours="unbounded")


@pytest.mark.parametrize("event", MIXTURES)
@pytest.mark.parametrize("epsilon", few(2, ["-1", "-1/100", "0", "1/10", "2", "7"]))
def test_one_answer_is_the_value_of_its_best_test(event, epsilon) -> None:
    found = guarantee_of(event).delta(epsilon)
    with mpmath.workdps(40):
        truth = max(delta_of(event, real(Fraction(epsilon)), added) for added in (False, True))
        assert found.lower * (1 - mpf("1e-18")) <= truth <= found.upper * (1 + mpf("1e-18"))
        assert found.upper == pytest.approx(float(truth), rel=1e-12, abs=1e-300)


def test_one_sample_of_normal_noise_is_such_an_answer() -> None:
    law = loss_law_of(PoissonSampled(Gaussian(2), "1/7"))
    assert isinstance(engine_for(law, "auto", 1e-9), OneSample)
    assert law == loss_law_of(MixtureOfGaussians(2, [1, 0], ["1/7", "6/7"]))
    for way in (law, mirrored(law)):
        found, other = engine_for(way, "auto", 1e-9), Cells(way, 200)
        for epsilon in (Fraction(-1, 20), Fraction(1, 50), Fraction(1)):
            fine, rough = found.log_tails(epsilon), other.log_tails(epsilon)
            for name in ("log_first", "log_second", "log_delta"):
                assert getattr(rough, name).lower <= getattr(fine, name).upper
                assert getattr(fine, name).lower <= getattr(rough, name).upper


def test_the_ends_of_the_loss_of_an_added_record() -> None:
    law = mirrored(loss_law_of(PoissonSampled(Gaussian(2), "1/2")))
    engine = engine_for(law, "auto", 1e-9)
    assert engine.log_tails(Fraction(7, 10)).log_delta.upper == -float("inf")  # ln 2 is less
    assert engine.log_tails(Fraction(69, 100)).log_delta.lower > -float("inf")
    everything = engine_for(mirrored(law), "auto", 1e-9).log_tails(Fraction(-7, 10))
    assert everything.log_first.lower == pytest.approx(0.0, abs=1e-15)
    assert everything.log_delta.upper == pytest.approx(float(mpmath.log(1 - mpmath.exp(-0.7))), rel=1e-14)


def transform(event: MixtureOfGaussians, w) -> mpc:
    with precision(250):
        ratio, power = grown_by(event), ball(w)
        return number(
            integral_of(lambda x, analytic: density(x) * (power * ratio(x).log(analytic)).exp(), -60, 60)
        )


@pytest.mark.parametrize("event", MIXTURES)
@pytest.mark.parametrize("added", few(1, [False, True]))
@pytest.mark.parametrize("tilt", few(1, [Fraction(-1, 3), Fraction(4)]))
def test_transforms_and_how_they_fall(event, added: bool, tilt: Fraction) -> None:
    (loss,) = loss_law_of(event)
    assert isinstance(loss, SampledLoss)
    loss = mirrored((loss,))[0] if added else loss
    with mpmath.workdps(30):
        s, u = real(tilt), mpf(3)
        w = -s - 1j * u if added else 1 + s + 1j * u
        at_zero, value = transform(event, mpmath.re(w)).real, transform(event, w)
        moment = log_moment_of_sample(loss, tilt)
        assert abs(moment - float(mpmath.log(at_zero))) < 1e-12 * (1 + abs(float(mpmath.log(at_zero))))
        atoms = atoms_of_sample(loss, tilt, 3.0)
        listed = sum(
            p * mpmath.expj(u * mpf(x))
            for x, p in zip(atoms.losses.tolist(), atoms.weights.tolist(), strict=True)
        )
        assert abs(listed - value / at_zero) < 1e-13
        assert fall_of_sample(loss, tilt)(3.0, 6.0) <= -float(mpmath.log(abs(value / at_zero)))


def many_deltas(event: MixtureOfGaussians, epsilons: np.ndarray, added: bool) -> np.ndarray:
    """delta of one answer at many epsilons in floats, with the place of the best test by bisection."""
    parts = [(float(mu), float(share)) for mu, share in parts_of(event)]

    def ratio(x: np.ndarray) -> np.ndarray:
        return np.sum([share * np.exp(mu * x - mu * mu / 2) for mu, share in parts], axis=0)

    low, high = np.full(epsilons.size, -40.0), np.full(epsilons.size, 60.0)
    wanted = np.exp(-epsilons if added else epsilons)
    for _ in range(80):
        middle = (low + high) / 2
        less = ratio(middle) < wanted
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    side = -1 if added else 1
    without = ndtr(-side * low)
    moved = sum(share * ndtr(side * (mu - low)) for mu, share in parts)
    first, second = (without, moved) if added else (moved, without)
    return first - np.exp(epsilons) * second


@pytest.mark.nightly
@pytest.mark.parametrize("event", MIXTURES[:3])
def test_two_answers_by_the_second_one_given_the_first(event) -> None:
    """delta of two answers is the mean of that of the second one at epsilon less the first loss."""
    twice = MixtureOfGaussians(event.variance, event.sensitivities, event.probabilities, 2)
    found = compose(twice, neighbours="unbounded").delta("3/2")
    x = np.linspace(-12.0, 24.0, 36_001)
    ratio = np.array(sum(float(p) * np.exp(float(mu) * x - float(mu) ** 2 / 2) for mu, p in parts_of(event)))
    density = np.exp(-x * x / 2) / np.sqrt(2 * np.pi) * (x[1] - x[0])
    removed = float((density * ratio) @ many_deltas(event, 1.5 - np.log(ratio), False))
    added = float(density @ many_deltas(event, 1.5 + np.log(ratio), True))
    truth = max(removed, added)
    assert found.lower <= truth * (1 + 1e-7)
    assert truth <= found.upper * (1 + 1e-7)
    assert found.upper - found.lower < 1e-5


@pytest.mark.parametrize("event", few(1, MIXTURES[:3]))
@pytest.mark.parametrize("added", [False, True])
def test_cells_and_the_contour_agree(event, added: bool) -> None:
    law = loss_law_of(MixtureOfGaussians(event.variance, event.sensitivities, event.probabilities, 40))
    law = mirrored(law) if added else law
    contour, cells = engine_for(law, "dithered", 1e-9), Cells(law, 200)
    assert isinstance(contour, Dithered)
    for epsilon in (1.0, 5.0):
        fine, rough = contour.log_deltas([epsilon])[0], cells.log_deltas([epsilon])[0]
        assert rough.lower <= fine.upper
        assert fine.lower <= rough.upper
        assert rough.upper <= fine.upper + 0.02


def test_a_vector_costs_no_more_than_its_lengths_in_one_line() -> None:
    """Two ways that move a vector along different axes, by a plain sum over a grid of the plane."""
    event = MixtureOfGaussians(1, [0, "3/2", 2], ["1/2", "1/4", "1/4"])
    step = mpf("0.05")
    places = [step * (j + mpf("0.5")) for j in range(-160, 160)]
    for epsilon in (0.2, 1.0, 2.5):
        kappa, total = mpmath.exp(epsilon), 0.0
        first = [float(mpmath.npdf(x)) for x in places]
        across = [float(mpmath.exp(mpf("1.5") * x - mpf("1.125"))) for x in places]
        along = [float(mpmath.exp(2 * x - 2)) for x in places]
        for p, a in zip(first, across, strict=True):
            for q, b in zip(first, along, strict=True):
                total += p * q * max(0.0, 0.5 + 0.25 * a + 0.25 * b - float(kappa))
        line = compose(event, neighbours="unbounded").delta(Fraction(epsilon))
        assert total * float(step) ** 2 < line.lower


def test_what_a_mixture_is_when_little_is_random() -> None:
    assert loss_law_of(MixtureOfGaussians(3, [2, 2], ["1/3", "2/3"], 5)) == loss_law_of(Gaussian(3, 2, 5))
    assert loss_law_of(MixtureOfGaussians(3, [0, 2], [0, 1])) == loss_law_of(Gaussian(3, 2))
    assert loss_law_of(MixtureOfGaussians(3, [0, 2], [1, 0])) == ()
    several = MixtureOfGaussians(3, [2, 0, 1, 2], ["1/8", "1/2", "1/4", "1/8"])
    assert loss_law_of(several) == loss_law_of(MixtureOfGaussians(3, [0, 1, 2], ["1/2", "1/4", "1/4"]))


def test_the_json_form_is_kept() -> None:
    event = MixtureOfGaussians("1/2", [0, "3/7"], ["1/4", "3/4"], 7)
    written = {
        "kind": "mixture_of_gaussians",
        "variance": "1/2",
        "sensitivities": ["0", "3/7"],
        "probabilities": ["1/4", "3/4"],
        "multiplicity": 7,
    }
    assert event.to_mapping() == written
    assert event_from_mapping(json.loads(json.dumps(written))) == event
    with pytest.raises(BudgetError, match="list of texts"):
        event_from_mapping({**written, "sensitivities": [0, 1]})


@pytest.mark.parametrize(
    ("moves", "shares", "named"),
    [
        ([0, 1], ["1/2", "1/3"], "sum 1 exactly"),
        ([0, 1], [1], "one number"),
        ([0, 1], ["3/2", "-1/2"], "0 or more"),
        ([0, -1], ["1/2", "1/2"], "sensitivities of MixtureOfGaussians must be 0 or more"),
        ([], [], "list of 1 to 1000"),
        ("01", ["1/2", "1/2"], "list of 1 to 1000"),
        ([0, 0.5], ["1/2", "1/2"], "sensitivities of MixtureOfGaussians"),
        ([0, 10**6], ["1/2", "1/2"], "sensitivity\\^2 / variance"),
        ([0, 1], [1 - Fraction(1, 10**101), Fraction(1, 10**101)], "1e-100 away"),
    ],
)
def test_what_is_no_mixture_is_refused(moves, shares, named) -> None:
    with pytest.raises(BudgetError, match=named):
        MixtureOfGaussians(1, moves, shares)


def test_what_a_mixture_has_not_is_refused_by_name() -> None:
    event = MIXTURES[0]
    with pytest.raises(BudgetError, match="MixtureOfGaussians is stated for unbounded") as caught:
        compose(SequentialEvent((event,)), neighbours="bounded")
    assert caught.value.code == "sample-neighbours"
    for ask in (rho_of, epsilon_of):
        with pytest.raises(BudgetError):
            ask(event)
    with pytest.raises(BudgetError, match="MixtureOfGaussians"):
        for_group(event, 2)
    with pytest.raises(BudgetError, match="MixtureOfGaussians"):
        translate(event, Neighbours.UNBOUNDED, Neighbours.BOUNDED)


def test_noise_is_scaled_and_divergences_are_known() -> None:
    event = MIXTURES[0]
    assert scaled(event, Fraction(9, 4)).variance == Fraction(9, 4)
    with mpmath.workdps(30):
        truth = max(mpmath.log(transform(event, mpf(3)).real), mpmath.log(transform(event, mpf(-2)).real)) / 2
        assert renyi_divergence(event, 3) == pytest.approx(float(truth), rel=1e-12)
        assert renyi_divergence(event, 3) >= truth


@pytest.mark.nightly
def test_the_peer_is_above_and_near() -> None:
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    event = MixtureOfGaussians(1, [0, 1, 2], ["9/10", "9/100", "1/100"], 50)
    peer = pld.from_mixture_gaussian_mechanism(
        1.0, [0, 1, 2], [0.9, 0.09, 0.01], value_discretization_interval=1e-3
    ).self_compose(50)
    found = compose(event, neighbours="unbounded").epsilon("1e-6")
    assert found.upper - found.lower < 2e-9
    assert found.lower <= peer.get_epsilon_for_delta(1e-6) <= found.upper + 1e-2
