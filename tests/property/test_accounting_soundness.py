"""Every engine's bounds enclose the divergence that plain enumeration of noise values gives, in ball arithmetic."""

import math
import random
from fractions import Fraction
from typing import Any

import pytest
from flint import arb, arb_poly, ctx, fmpq
from tests.samples import every, few, ten

from tallyveil.accounting.engines.ball_tails import Enumeration, Proved
from tallyveil.accounting.engines.closed_form import ClosedForm
from tallyveil.accounting.engines.dithered import Dithered
from tallyveil.accounting.engines.quadrature import Quadrature
from tallyveil.accounting.engines.tails import LossEngine
from tallyveil.accounting.engines.tilted_fft import TiltedFFT
from tallyveil.accounting.losses import GaussianLoss, LaplaceLoss, LossFactor, lattice_of, merged


def ball(value: Fraction) -> arb:
    return arb(fmpq(value.numerator, value.denominator))


class Enumerated:
    """The law of the total loss from the noise itself: ln(P(x) / Q(x)) at every outcome x, nothing simplified."""

    def __init__(self, factors: tuple[LossFactor, ...], bits: int) -> None:
        self.bits = bits
        with ctx.workprec(bits + 200):
            answers = []
            for factor in factors:
                answers += [self.one_answer(factor)] * factor.multiplicity
            steps = set()
            for table in answers:
                low = min(table)
                steps |= {loss - low for loss in table}
            unit = math.lcm(*(step.denominator for step in steps))
            self.step = Fraction(math.gcd(*(int(step * unit) for step in steps)), unit)
            self.least = sum((min(table) for table in answers), Fraction(0))
            law = arb_poly([1])
            for table in answers:
                low = min(table)
                masses = [arb(0)] * (int((max(table) - low) / self.step) + 1)
                for loss, mass in table.items():
                    masses[int((loss - low) / self.step)] += mass
                law = law * arb_poly(masses)
            self.masses = law.coeffs()

    def one_answer(self, factor: LossFactor) -> dict[Fraction, arb]:
        k = factor.sensitivity

        def cost(x: int) -> Fraction:
            return (
                Fraction(x * x) / (2 * factor.variance)
                if isinstance(factor, GaussianLoss)
                else abs(x) / factor.scale
            )

        depth, reach = Fraction(self.bits) * Fraction(7, 10), 1
        while cost(reach) < depth:
            reach *= 2
        while cost(reach * 9 // 10) > depth:
            reach = reach * 9 // 10
        table: dict[Fraction, arb] = {}
        for x in range(-reach - k, reach + k + 1):  # as far on the side of the other population's answer
            loss = cost(x - k) - cost(x)
            table[loss] = table.get(loss, arb(0)) + ball(-cost(x)).exp()
        total = sum(table.values(), arb(0))
        return {loss: mass / total for loss, mass in table.items()}

    def tails(self, epsilon: Fraction) -> tuple[arb, arb, arb]:
        with ctx.workprec(self.bits + 200):
            slack = arb(0, arb(2) ** (40 - self.bits))  # what lies beyond the reach, with room to spare
            first, second, delta = arb(slack), arb(slack), arb(slack)
            ratio, weight = ball(-self.step).exp(), ball(-self.least).exp()
            at = ball(epsilon).exp()
            for i, mass in enumerate(self.masses):
                if self.least + i * self.step > epsilon:
                    first += mass
                    second += mass * weight
                    delta += mass * (1 - at * weight)
                weight *= ratio
            return first, second, delta


def spread_of(factors: tuple[LossFactor, ...]) -> tuple[float, float]:
    """About the mean and the standard deviation of the loss."""
    rho = sum(
        f.multiplicity
        * f.sensitivity**2
        / (2 * float(f.variance if isinstance(f, GaussianLoss) else f.scale**2))
        for f in factors
    )
    return rho, math.sqrt(2 * rho)


def composition(draw: random.Random, *, laplace: bool, most: int = 250) -> tuple[LossFactor, ...]:
    """A few factors with losses on a common, not too fine lattice; variances from 1/4 to 1000."""
    while True:
        scale = Fraction(draw.choice([1, 2, 3, 5, 7, 10, 23, 60, 137, 333, 1000]), draw.choice([1, 2, 3, 4]))
        factors: list[LossFactor] = []
        for _ in range(draw.randint(1, 3)):
            k, n, a = draw.randint(1, 3), draw.randint(1, 5), draw.randint(1, 4)
            if laplace and draw.random() < 0.5:
                factors.append(LaplaceLoss(2 * scale / a, k, n))
            else:
                factors.append(GaussianLoss(k * scale / a, k, n))
        variances = [f.variance for f in factors if isinstance(f, GaussianLoss)]
        scales = [f.scale for f in factors if isinstance(f, LaplaceLoss)]
        lattice = lattice_of(tuple(factors))
        deviation = math.sqrt(2 * spread_of(tuple(factors))[0]) / float(lattice.step)  # in lattice steps
        fine = deviation > most  # too many outcomes to enumerate often
        if not fine and all(Fraction(1, 4) <= v <= 1000 for v in variances) and all(t <= 20 for t in scales):
            return tuple(factors)


def engines_for(factors: tuple[LossFactor, ...], least_delta: Fraction) -> list[LossEngine]:
    engines: list[LossEngine | None] = [
        Proved.build(factors, least_delta=least_delta),
        ClosedForm.build(factors),
        Quadrature.build(factors),
    ]
    engines.append(TiltedFFT(factors))
    if sum(f.multiplicity for f in factors) <= 2:
        engines.append(Enumeration.build(factors, least_delta=least_delta))
    return [engine for engine in engines if engine is not None]


def check(
    factors: tuple[LossFactor, ...], truth: Enumerated, engines: list[Any], epsilon: float, width: float
) -> None:
    expected = truth.tails(Fraction(epsilon))
    with ctx.workprec(truth.bits + 200):
        for engine in engines:
            tails = engine.log_tails(epsilon)
            for name, probability in zip(("log_first", "log_second", "log_delta"), expected, strict=True):
                bounds = getattr(tails, name)
                where = (
                    f"{engine.name} {name} at {epsilon!r} of {factors}: {bounds}, truth {probability.str(25)}"
                )
                if bounds.lower > -math.inf:
                    assert arb(bounds.lower).exp() <= probability.upper(), where
                upper = arb(bounds.upper).exp() if bounds.upper > -math.inf else arb(0)
                assert upper >= probability.lower(), where
                resolved = probability.lower() > arb(2) ** (80 - truth.bits)
                if resolved and engine.name in ("closed_form", "quadrature", "proved"):
                    assert bounds.width <= width, where


def check_many(
    factors: tuple[LossFactor, ...], truth: Enumerated, engines: list[Any], draw: random.Random
) -> None:
    """Many epsilons at once: spread out, on the losses, and right beside them, of both signs."""
    mean, deviation = spread_of(factors)
    on = [float(truth.least + truth.step * draw.randrange(len(truth.masses))) for _ in range(4)]
    near = [math.nextafter(loss, side) for loss in on for side in (-math.inf, math.inf)]
    epsilons = [mean + deviation * draw.uniform(-6, 9) for _ in range(12)]
    epsilons += [*on, *near, *(-loss for loss in on[:2]), on[0] * (1 + 1e-14), 0.0, -0.0, 5e-324, -5e-324]
    epsilons = [epsilon for epsilon in epsilons if abs(epsilon) < mean + 10 * deviation]
    expected = [truth.tails(Fraction(epsilon))[2] for epsilon in epsilons]
    with ctx.workprec(truth.bits + 200):
        for engine in engines:
            found = engine.log_deltas(epsilons)
            for epsilon, bounds, delta in zip(epsilons, found, expected, strict=True):
                where = f"{engine.name} at {epsilon!r} of {factors}: {bounds}, truth {delta.str(25)}"
                assert bounds.lower == -math.inf or arb(bounds.lower).exp() <= delta.upper(), where
                upper = arb(bounds.upper).exp() if bounds.upper > -math.inf else arb(0)
                assert upper >= delta.lower(), where
                resolved = delta.lower() > arb(2) ** (80 - truth.bits)
                assert bounds.width <= 1e-9 or not resolved, where


@pytest.mark.parametrize("seed", few(5, every(13, range(200))))
def test_every_engine_encloses_the_enumerated_divergence(seed: int) -> None:
    draw = random.Random(seed)
    factors = composition(draw, laplace=seed % 2 == 1)
    truth = Enumerated(factors, 260)
    mean, deviation = spread_of(factors)
    first_loss = float(truth.least + truth.step * (len(truth.masses) // 2))
    epsilons = [0.0, -draw.uniform(0, 2 * mean), first_loss, draw.uniform(0, mean)]
    epsilons += [mean + deviation * x for x in (0.3, draw.uniform(1, 5), 6.0, 11.3)]  # the last: delta 1e-30
    engines = engines_for(factors, Fraction(1, 10**40))
    for epsilon in epsilons:
        check(factors, truth, engines, epsilon, 1e-9)
    close = [engine for engine in engines if engine.name in ("closed_form", "quadrature")]
    check_many(factors, truth, close, draw)


@pytest.mark.parametrize("seed", every(4, range(1000, 1012)))
def test_deep_tails(seed: int) -> None:
    draw = random.Random(seed)
    factors = composition(draw, laplace=seed % 3 == 0, most=30)
    truth = Enumerated(factors, 1500)
    mean, deviation = spread_of(factors)
    engines = engines_for(factors, Fraction(1, 10**300))
    for deviations in (20.0, 36.9):  # about 1e-90 and 1e-300
        check(factors, truth, engines, mean + deviations * deviation, 1e-9)


def off_lattice_composition(draw: random.Random, kind: int) -> tuple[LossFactor, ...]:
    """As above, with wide Gaussian noise in it; kind 1 has Laplace noise besides, kind 2 Gaussian of small variance."""
    while True:
        factors = composition(draw, laplace=kind == 1, most=100)
        if kind == 2:
            v = Fraction(draw.choice([1, 2, 3, 5]), draw.choice([21, 30, 47]))
            factors = merged((*factors, GaussianLoss(v, draw.randint(1, 2), draw.randint(1, 3))))
        deviation = math.sqrt(2 * spread_of(factors)[0]) / float(lattice_of(factors).step)
        wide = any(isinstance(f, GaussianLoss) and f.variance >= Fraction(1, 4) for f in factors)
        if wide and deviation < 250:
            return factors


def check_dithered(seed: int, widths: list[float]) -> None:
    """Losses on a lattice are the hardest ones for it: their transforms return to the full size again and again."""
    draw = random.Random(seed)
    factors = off_lattice_composition(draw, seed % 3)
    # A few losses on a lattice may return too often for a small width.
    engine = Dithered.build(factors, draw.choice(widths)) or Dithered.build(factors, max(widths))
    assert engine is not None
    truth = Enumerated(factors, 260)
    mean, deviation = spread_of(factors)
    first_loss = float(truth.least + truth.step * (len(truth.masses) // 2))
    epsilons = [0.0, -draw.uniform(0, 2 * mean), first_loss, draw.uniform(0, mean)]
    epsilons += [mean + deviation * x for x in (-2.0, -1.0, 0.3, draw.uniform(1, 5), 6.0, 11.3)]
    for epsilon in epsilons:
        check(factors, truth, [engine], epsilon, math.inf)


@pytest.mark.parametrize("seed", few(1, every(4, range(2000, 2009))))
def test_the_dithered_contour_encloses_the_enumerated_divergence(seed: int) -> None:
    check_dithered(seed, [1e-2, 1e-3])


@pytest.mark.soak
@pytest.mark.parametrize("seed", ten(range(3000, 3500)))
def test_the_dithered_contour_encloses_the_enumerated_divergence_of_many(seed: int) -> None:
    check_dithered(seed, [1e-2, 1e-3, 1e-4, 1e-5])
