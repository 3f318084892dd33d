"""Samples of fixed size: bounds beside whole mechanisms that are enumerated, integrals in 30 digits, and refusals."""

import itertools
import json
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache

import mpmath
import numpy as np
import pytest
from flint import acb
from mpmath import mpc, mpf
from tests.oracles.integrals import ball, integral_of, number
from tests.samples import few

from tallyveil.accounting import (
    ApproximateDP,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Guarantee,
    Laplace,
    Neighbours,
    PoissonSampled,
    RandomizedResponse,
    SampledWithoutReplacement,
    SampledWithReplacement,
    compose,
    event_from_mapping,
    for_group,
    loss_law_of,
    renyi_epsilon,
    rho_of,
    translate,
)
from tallyveil.accounting.calibration import scaled
from tallyveil.accounting.engines import dithered
from tallyveil.accounting.engines.ball_tails import Enumeration, OneSample
from tallyveil.accounting.engines.cells import Cells
from tallyveil.accounting.engines.choose import engine_for
from tallyveil.accounting.engines.dithered import Dithered
from tallyveil.accounting.engines.sampled import (
    atoms_of_sample,
    fall_of_sample,
    log_moment_of_sample,
    moments_of_sample,
    stays_of_sample,
)
from tallyveil.accounting.engines.tails import LossEngine
from tallyveil.accounting.losses import (
    ExponentialLoss,
    GaussianLoss,
    LaplaceLoss,
    Law,
    NormalLoss,
    ResponseLoss,
    SampledLoss,
    mirrored,
)
from tallyveil.errors import BudgetError
from tallyveil.noise.balls import precision, rational

EPSILONS = ["-1/3", "-1/50", "0", "1/100", "1/10", "1/4", "2/5"]


def noise(scale: float) -> np.ndarray:
    """Discrete Laplace noise on -60..60, which holds all but 4e-11 of it for a scale of 2.5."""
    x = np.arange(-60, 61)
    return np.tanh(1 / (2 * scale)) * np.exp(-np.abs(x) / scale)


def output(values: tuple[int, ...], size: int, scale: float) -> np.ndarray:
    """The law of the noisy sum of a sample, over all samples."""
    law = np.zeros(121 + sum(values))
    samples = list(itertools.combinations(values, size))
    for sample in samples:
        begin = sum(sample)
        law[begin : begin + 121] += noise(scale) / len(samples)
    return law


def divergence(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    width = max(p.size, q.size)
    p, q = np.pad(p, (0, width - p.size)), np.pad(q, (0, width - q.size))
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


@cache
def guarantee_of(size: int, records: int) -> Guarantee:
    return compose(SampledWithoutReplacement(DiscreteLaplace("5/2", 2), size, records), neighbours="bounded")


@pytest.mark.parametrize(("size", "records"), [(1, 3), (2, 3), (2, 4)])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_worst_of_all_small_databases_attains_one_sample(size: int, records: int, epsilon: str) -> None:
    """Every database of values 0 to 2, every changed record: sums of samples with discrete Laplace noise."""
    found = guarantee_of(size, records).delta(epsilon)
    e = float(Fraction(epsilon))
    truth = max(
        divergence(output((first, *others), size, 2.5), output((second, *others), size, 2.5), e)
        for others in itertools.combinations_with_replacement(range(3), records - 1)
        for first, second in itertools.permutations(range(3), 2)
    )
    assert found.lower - 1e-9 <= truth <= found.upper + 1e-10
    assert found.upper == pytest.approx(truth, rel=1e-4, abs=1e-7)


def test_a_second_sample_that_is_chosen_by_the_first_costs_more_than_one_direction() -> None:
    """The second query moves the record up or down, whichever is worse given the first answer."""
    with_it, without = output((2, 0, 0), 1, 2.5), output((0, 0, 0), 1, 2.5)
    without = np.pad(without, (0, with_it.size - without.size))
    found = compose(SampledWithoutReplacement(DiscreteLaplace("5/2", 2), 1, 3, 2), neighbours="bounded")
    held = (with_it > 0) & (without > 0)
    for epsilon in (0.1, 0.2):
        # delta of two answers is the mean of that of the second one at epsilon less the first loss.
        rest = epsilon - np.log(with_it[held] / without[held])
        removed = np.array([divergence(with_it, without, e) for e in rest])
        added = np.array([divergence(without, with_it, e) for e in rest])
        chosen = float(with_it[held] @ np.maximum(removed, added))
        same = float(with_it[held] @ removed)
        bounds = found.delta(Fraction(epsilon))
        assert same * 1.001 < chosen <= bounds.upper + 1e-14
        assert bounds.lower <= same + 1e-9


def real(value: Fraction) -> mpf:
    return mpf(value.numerator) / value.denominator


def transform(loss: SampledLoss, z) -> mpc:
    """E exp(z L) from the definition: both halves as integrals, and what they leave of 1."""
    assert isinstance(loss.base, NormalLoss)
    with precision(250):
        mu, q, z = rational(loss.base.mu_squared).sqrt(), rational(loss.probability), ball(z)

        def law(x: acb, analytic: bool) -> tuple[acb, acb]:
            density = (-x * x / 2).exp() / (2 * acb.pi()).sqrt()
            return density, (1 - q + q * (mu * x - mu * mu / 2).exp()).log(analytic)

        def left_out(x: acb, analytic: bool) -> acb:
            density, b = law(x, analytic)
            return density * (1 + b.exp())

        def term(x: acb, analytic: bool) -> acb:
            density, b = law(x, analytic)
            return density * (((1 + z) * b).exp() + (-z * b).exp())

        return number(1 + integral_of(term, mu / 2, 60) - integral_of(left_out, mu / 2, 60))


@pytest.mark.parametrize("mu_squared", few(2, [Fraction(1), Fraction(1, 100), Fraction(9)]))
@pytest.mark.parametrize("q", few(1, [Fraction(1, 50), Fraction(4, 5)]))
@pytest.mark.parametrize("tilt", [Fraction(-1, 3), Fraction(4)])
def test_the_transform_of_normal_noise_and_how_it_falls(mu_squared, q, tilt) -> None:
    loss = SampledLoss(NormalLoss(mu_squared), q, changed=True)
    with mpmath.workdps(30):
        s = real(tilt)
        at_zero = transform(loss, s).real
        moment = log_moment_of_sample(loss, tilt)
        assert abs(moment - float(mpmath.log(at_zero))) < 1e-12 * (1 + abs(float(mpmath.log(at_zero))))
        assert moments_of_sample(loss, float(tilt))[0] == pytest.approx(float(mpmath.log(at_zero)), abs=1e-6)
        stays = float(stays_of_sample(loss, tilt).mid())
        for u in (2.0, 20.0):
            value = complex(transform(loss, s + 1j * mpf(u)) / at_zero)
            # On the real axis, and for large frequencies on a path beside it.
            for largest in (u, 5000.0):
                atoms = atoms_of_sample(loss, tilt, largest)
                assert np.iscomplexobj(atoms.losses) == (largest > u)
                assert abs(atoms.weights @ np.exp(1j * u * atoms.losses) - value) < 1e-13 + atoms.error
                assert atoms.weights[-1] == pytest.approx(stays, rel=1e-14)
            # Beside a loss of exactly 0, which does not fall.
            fall = fall_of_sample(loss, tilt)(u, 2 * u)
            assert 0 <= fall <= -math.log(abs(value - stays))


@pytest.mark.parametrize("q", [Fraction(1, 50), Fraction(4, 5)])
def test_the_transform_falls_with_the_square_of_the_frequency_and_the_bound_with_it(q: Fraction) -> None:
    loss, tilt = SampledLoss(NormalLoss(Fraction(1)), q, changed=True), Fraction(4)
    fall, stays = fall_of_sample(loss, tilt), float(stays_of_sample(loss, tilt).mid())
    atoms = atoms_of_sample(loss, tilt, 2e5)
    for u in (1e3, 1e4, 1e5):
        rest = abs(atoms.weights @ np.exp(1j * u * atoms.losses) - stays)
        assert rest < math.exp(-fall(u, 2 * u)) < 1.6 * rest
        assert fall(u, 2 * u) >= fall(u, math.inf) > fall(u, 2 * u) - 0.1


@pytest.mark.parametrize(
    "base", [GaussianLoss(Fraction(5), 2, 1), LaplaceLoss(Fraction(2), 3, 1), ResponseLoss(Fraction(1), 4)]
)
@pytest.mark.parametrize("tilt", [Fraction(-1, 3), Fraction(5)])
def test_the_list_of_other_noise_is_that_of_its_definition(base, tilt) -> None:
    q = Fraction(1, 7)
    law = atoms_of_sample(SampledLoss(base, q, changed=True), tilt, 1.0)
    with mpmath.workdps(30):
        match base:
            case GaussianLoss(variance, k):
                weights = {x: mpmath.exp(-mpf(x * x) / (2 * real(variance))) for x in range(-150, 151)}
                whole = mpmath.fsum(weights.values())
                of_q = [
                    (real(Fraction(2 * k * x - k * k) / (2 * variance)), w / whole)
                    for x, w in weights.items()
                ]
            case LaplaceLoss(scale, k):
                t = real(scale)
                of_q = [
                    ((abs(x) - abs(x - k)) / t, mpmath.tanh(1 / (2 * t)) * mpmath.exp(-abs(x) / t))
                    for x in range(-300, 301)
                ]
            case ResponseLoss():
                whole = mpmath.e + 3
                of_q = [(mpf(-1), mpmath.e / whole), (mpf(0), 2 / whole), (mpf(1), 1 / whole)]
        z, total, rest = real(tilt) + 1j, mpf(0), mpf(1)
        at_zero = mpf(0)
        for b, chance in of_q:
            if b > 0:
                ratio = 1 - real(q) + real(q) * mpmath.exp(b)
                total += chance * (ratio ** (1 + z) + ratio ** (-z))
                at_zero += chance * (ratio ** (1 + real(tilt)) + ratio ** (-real(tilt)))
                rest -= chance * (1 + ratio)
        value = (total + rest) / (at_zero + rest)
        assert abs(law.weights @ np.exp(1j * law.losses) - value) < 1e-13
    assert law.weights.sum() == pytest.approx(1, abs=1e-14)


def taken_apart(law: Law, engine_of: Callable[[Law], LossEngine]) -> Dithered:
    """The contour of the part in which not all samples have a loss of 0."""
    contour = Dithered.build(law, 1e-7, engine_of)
    assert contour is not None
    assert contour.scan.without_stays
    return contour


@pytest.mark.parametrize(
    "law",
    [
        pytest.param(
            (SampledLoss(NormalLoss(Fraction(1)), Fraction(1, 20), changed=True),), marks=pytest.mark.nightly
        ),
        pytest.param(
            (SampledLoss(NormalLoss(Fraction(1, 16)), Fraction(1, 2), changed=True),),
            marks=pytest.mark.nightly,
        ),
        # Several kinds of samples, each with a loss of 0 of its own.
        loss_law_of(SampledWithReplacement(Gaussian(20), 2, 9)),
    ],
)
def test_one_sample_without_its_loss_of_0_beside_the_closed_form(law: Law) -> None:
    contour, exact = taken_apart(law, lambda rest: engine_for(rest, "auto", 1e-9)), OneSample.build(law)
    assert exact is not None
    for epsilon in (Fraction(-1, 5), Fraction(1, 10)):
        bounds, truth = contour.log_deltas([epsilon])[0], exact.log_tails(epsilon).log_delta
        assert bounds.lower <= truth.upper
        assert truth.lower <= bounds.upper <= bounds.lower + 1e-3
        tails = contour.log_tails(epsilon)
        assert tails.log_second.lower <= exact.log_tails(epsilon).log_second.upper
    # What is left of the transform falls to nothing, so that leaving out high frequencies costs nothing.
    lists = dithered._lists(contour.scan.others, 3.0, 1e6)
    nodes = np.array([0, 1, 10**4, 10**6])
    part = dithered._transform(
        contour.scan.gaussians, contour.scan.others, lists, (nodes, 1.0, 4), 3.0, without_stays=True
    )
    assert np.abs(part.values[2:]).max() < 1e-3
    assert np.abs(part.values[3]) < 1e-7


@pytest.mark.nightly
def test_two_samples_and_other_noise_beside_a_convolution() -> None:
    """Delta of two samples is the mean of that of one at epsilon less the loss of the other."""
    single = SampledLoss(NormalLoss(Fraction(1, 4)), Fraction(1, 10), changed=True)
    answer = ExponentialLoss(Fraction(1, 3))
    alone = OneSample.build((single,))
    assert alone is not None
    law = (replace(single, multiplicity=2),)
    contour = taken_apart(law, lambda rest: engine_for(rest, "auto", 1e-9))
    for epsilon in (0.05, 0.4):
        # Nodes of the other sample's loss: both halves in x, cut where the loss is epsilon; and 0.
        cut = 2 * math.log((math.exp(epsilon) - 0.9) / 0.1) + 0.25
        nodes, shares = np.polynomial.legendre.leggauss(60)
        ends = ((0.25, cut), (cut, cut + 9))
        x = np.concatenate([(a + b) / 2 + (b - a) / 2 * nodes for a, b in ends])
        weight = np.concatenate([(b - a) / 2 * shares for a, b in ends])
        density = weight * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
        ratio = 0.9 + 0.1 * np.exp(x / 2 - 0.125)
        losses = np.concatenate([np.log(ratio), -np.log(ratio), [0.0]])
        chances = np.concatenate([density * ratio, density, [0.0]])
        chances[-1] = 1 - chances.sum()
        deltas = alone.log_deltas((epsilon - losses).tolist())
        truth = float(chances @ np.exp(deltas.upper))
        bounds = contour.log_deltas([epsilon])[0]
        assert math.exp(bounds.lower) - 1e-12 <= truth <= math.exp(bounds.upper) + 1e-12
        assert bounds.upper - bounds.lower < 1e-5
    # Beside other noise without an end of its transform, the case that all samples stay is that noise alone.
    both = taken_apart((*law, answer), lambda rest: engine_for(rest, "auto", 1e-9))
    whole = Enumeration.build((answer,))
    assert whole is not None
    least = 2 * math.log(chances[-1])
    for epsilon in (0.1, 0.3):
        assert both.log_deltas([epsilon])[0].upper >= whole.log_deltas([epsilon])[0].lower + least
        assert both.log_deltas([epsilon])[0].lower >= contour.log_deltas([epsilon])[0].lower


@pytest.mark.parametrize(
    ("base", "q", "n"),
    few(
        1,
        [
            (NormalLoss(Fraction(1)), Fraction(1, 10), 200),
            (LaplaceLoss(Fraction(2), 2, 1), Fraction(1, 10), 300),
            (GaussianLoss(Fraction(4), 1, 1), Fraction(1, 5), 1000),
        ],
    ),
)
def test_the_contour_and_cells_agree(base, q, n) -> None:
    law = (SampledLoss(base, q, changed=True, multiplicity=n),)
    assert mirrored(law) == law
    contour, cells = Dithered.build(law, 1e-7), Cells(law, 200)
    assert contour is not None
    for epsilon in (Fraction(-1), Fraction(1), Fraction(6)):
        fine, rough = contour.log_deltas([epsilon])[0], cells.log_deltas([epsilon])[0]
        assert rough.lower <= fine.upper
        assert fine.lower <= rough.upper < fine.upper + 0.05


def test_a_loss_and_minus_the_loss_of_the_other_neighbour_are_alike() -> None:
    for law in (
        (SampledLoss(NormalLoss(Fraction(1)), Fraction(1, 10), changed=True),),
        (SampledLoss(LaplaceLoss(Fraction(2), 2, 1), Fraction(1, 10), changed=True, multiplicity=40),),
    ):
        engine = engine_for(law, "auto", 1e-9)
        there, here = engine.log_tails(Fraction(-1, 4)), engine.log_tails(Fraction(1, 4))
        if law[0].multiplicity == 1:
            assert math.exp(there.log_first.upper) == pytest.approx(
                1 - math.exp(here.log_second.upper), rel=1e-14
            )
        delta = 1 - math.exp(-0.25) * (1 - math.exp(here.log_delta.upper))
        assert math.exp(there.log_delta.upper) == pytest.approx(delta, rel=1e-6)


@pytest.mark.nightly
def test_bounds_of_many_samples_and_renyi_divergences() -> None:
    event = SampledWithoutReplacement(Gaussian(1), 100, 10_000, 1000)
    found = compose(event, neighbours="bounded").epsilon("1e-5")
    attained = compose(PoissonSampled(Gaussian(1), "1/100", 1000), neighbours="unbounded").epsilon("1e-5")
    assert found.lower <= attained.upper < found.upper < renyi_epsilon(event, "1e-5").value
    rdp, theirs = pytest.importorskip("dp_accounting.rdp"), pytest.importorskip("dp_accounting")
    accountant = rdp.RdpAccountant(neighboring_relation=theirs.NeighboringRelation.REPLACE_ONE)
    # There the noise multiplier is one over the move of a changed record.
    step = theirs.SampledWithoutReplacementDpEvent(10_000, 100, theirs.GaussianDpEvent(1.0))
    assert found.upper < accountant.compose(theirs.SelfComposedDpEvent(step, 1000)).get_epsilon(1e-5)


def test_what_is_no_sample_is_its_event() -> None:
    assert loss_law_of(SampledWithoutReplacement(Gaussian(3, 2), 7, 7, 2)) == loss_law_of(Gaussian(3, 2, 2))
    assert loss_law_of(SampledWithoutReplacement(ApproximateDP(0), 1, 7)) == ()
    pure = SampledWithoutReplacement(ApproximateDP("1/2"), 1, 7)
    assert loss_law_of(pure) == loss_law_of(SampledWithoutReplacement(DiscreteLaplace(2), 1, 7))


def test_the_json_form_is_kept() -> None:
    event = SampledWithoutReplacement(Gaussian("1/2", 2), 3, 40, 7)
    written = {
        "kind": "sampled_without_replacement",
        "event": {"kind": "gaussian", "variance": "1/2", "sensitivity": "2", "multiplicity": 1},
        "sample_size": 3,
        "records": 40,
        "multiplicity": 7,
    }
    assert event.to_mapping() == written
    assert event_from_mapping(json.loads(json.dumps(written))) == event
    assert scaled(event, Fraction(4)).event == Gaussian(2, 2)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((ApproximateDP(1, "1e-9"), 1, 2), "delta 0"),
        ((PoissonSampled(Gaussian(1), "1/2"), 1, 2), "takes one release"),
        ((DiscreteGaussian(1, 1, 2), 1, 2), "takes one answer"),
        ((Gaussian(1), 3, 2), "at most the number of records"),
        ((Gaussian(1), 0, 2), "sample_size of SampledWithoutReplacement"),
        ((Gaussian(1), 1, 2, 0), "multiplicity of SampledWithoutReplacement"),
        ((Gaussian(1), 0.5, 2), "sample_size of SampledWithoutReplacement"),
    ],
)
def test_what_cannot_be_sampled_is_refused(arguments, named) -> None:
    with pytest.raises(BudgetError, match=named):
        SampledWithoutReplacement(*arguments)


def test_what_such_a_sample_has_not_is_refused_by_name() -> None:
    event = SampledWithoutReplacement(Laplace(1), 1, 2)
    with pytest.raises(BudgetError, match="bounded neighbours") as caught:
        compose(event, neighbours="unbounded")
    assert caught.value.code == "sample-neighbours"
    with pytest.raises(BudgetError):
        rho_of(event)
    with pytest.raises(BudgetError, match="SampledWithoutReplacement"):
        for_group(event, 2)
    with pytest.raises(BudgetError, match="SampledWithoutReplacement"):
        translate(event, Neighbours.BOUNDED, Neighbours.UNBOUNDED)
    assert (
        compose(SampledWithoutReplacement(RandomizedResponse(1, 3), 1, 5), neighbours="bounded")
        .epsilon(0)
        .upper
        > 0
    )
