"""Certified bounds of 1,000 random compositions of all events, beside independent values of delta.

python benchmarks/accounting_random.py [--count 1000] [--peers] [--out FILE] [--part 0/2] [--limit 10]
python benchmarks/accounting_random.py --summary FILE...

Half of the compositions hold real-valued noise, random samples or selections. Deltas lie between 1e-300 and 1 - 1e-12,
and epsilons between 1e-9 and 1e5.

An independent value of delta is computed here in another way than in the library:

- in ball arithmetic, so that it is proved, where all losses but one are listed: a sum over the listed losses of the
  closed form of the other one, or over two lists. The bits are raised until a value has 13 digits;
- or by a contour integral in floats, whose transforms are closed forms or integrals by the trapezoid rule;
- or, where neither works, dp_accounting's optimistic and pessimistic values must not contradict the bounds.

The script fails if any value does. A value that takes longer than `--limit` seconds of processor time is given up, and
counted as such.

Where only an upper bound is known, the value is that of a mechanism that attains what is known: normal noise for rho, a
record that all samples move alike, the exact law of the best of several results of a finite mechanism. It then must
not be above the upper bound.

With `--peers` each composition is also computed by dp_accounting. Each line of the output is a JSON object. `--summary`
reads such files and prints what was found.
"""

import argparse
import json
import logging
import math
import random
import resource
import signal
import time
import warnings
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from dp_accounting.pld import common
from dp_accounting.pld import privacy_loss_distribution as pld
from flint import arb, arb_poly, ctx, fmpq

from tallyveil.accounting import (
    ZCDP,
    AdaptiveEvent,
    ApproximateDP,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    IntegerSubspaceLaplace,
    InvariantEvent,
    Laplace,
    MixtureOfGaussians,
    ParallelEvent,
    PoissonRepeatAndSelect,
    PoissonSampled,
    PrivacyEvent,
    RandomizedResponse,
    RepeatAndSelect,
    SampledWithoutReplacement,
    SampledWithReplacement,
    SequentialEvent,
    TruncatedPoissonSampled,
    WorstEvent,
    compose,
)
from tallyveil.accounting.events import Sample, Sampleable
from tallyveil.errors import TallyveilError

MOST_ATOMS = 1 << 15  # losses of a table
MOST_PAIRS = 1 << 17  # sums of two losses that are looked at
MOST_FORMS = 1 << 14  # losses at each of which a closed form is asked
FAR = 60.0  # nats below the least delta from which probabilities are left out
PRECISIONS = (400, 1600, 6400, 25600)  # bits, until a value has 13 digits
SCALE = arb(2) ** 110  # losses that agree to one over this are one
MOST_NODES = 40_000
SPACING = 0.01  # of the trapezoid rule for a transform, which must not alias at the highest frequency
LEAST_OF_PEER = 1e-9  # delta below which the peer says nothing: its masses are right to about 1e-11
MOST_LOSS = 500.0  # largest loss for which the peer is asked: its arrays have 10,000 places for each unit
LONGEST = 4.0  # seconds of the bounds of a composition
MOST_MEMORY = 4 << 30

Atoms = list[tuple[arb, arb]]
Known = TypeVar("Known")
Finite = RandomizedResponse | DiscreteLaplace
"""Events whose losses have few values."""

UNKNOWN = arb(0).union(arb(1))
GIVEN_UP = "given up", UNKNOWN
BEST = ("balls", "contour", "peer", "none", "given up")


def rounded(value: float) -> Fraction:
    """A random parameter with three digits."""
    return Fraction(f"{value:.3g}")


def drawn(draw: random.Random) -> tuple[str, tuple[PrivacyEvent, ...], Fraction]:
    """The relation, a random composition of one to four events, and a delta."""

    def log_uniform(low: float, high: float) -> Fraction:
        return rounded(math.exp(draw.uniform(math.log(low), math.log(high))))

    neighbours = draw.choice(["bounded", "unbounded"])
    # About the epsilon of one event: half of them are usual, the others of any size.
    size = float(log_uniform(0.03, 3) if draw.random() < 0.5 else log_uniform(1e-9, 2e3))
    usual = min(max(size, 0.02), 5.0)

    def loss() -> Fraction:
        return log_uniform(size / 3, size * 3)

    def finite() -> Finite:
        choices: list[Callable[[], Finite]] = [
            lambda: RandomizedResponse(loss(), draw.choice([2, 3, 10]), draw.choice([1, 1, 2])),
            lambda: DiscreteLaplace(rounded(1 / size), draw.choice([1, 2]), draw.choice([1, 2])),
        ]
        return draw.choice(choices)()

    def noise() -> Fraction:
        return rounded(float(log_uniform(0.5, 3)) / usual**2)

    of_integers: list[Callable[[], PrivacyEvent]] = [
        lambda: DiscreteGaussian(
            rounded(float(log_uniform(0.3, 3)) / min(size, 5.0) ** 2), draw.choice([1, 1, 2]), 2
        ),
        lambda: DiscreteGaussian(noise(), 1, draw.choice([2, 20])),
        lambda: DiscreteLaplace(
            rounded(float(log_uniform(0.3, 3)) / size), draw.choice([1, 3]), draw.choice([2, 4])
        ),
        lambda: RandomizedResponse(loss(), draw.choice([2, 2, 3, 10]), draw.choice([1, 2])),
        lambda: ApproximateDP(loss(), log_uniform(1e-290, 1e-3), draw.choice([1, 3])),
        lambda: IntegerSubspaceLaplace(rounded(size / 2), "l1", 2, ("total",)),
        lambda: WorstEvent(tuple(DiscreteLaplace(noise(), 1, 2) for _ in range(2)), chosen="public"),
        lambda: ParallelEvent((DiscreteGaussian(noise(), 1, 2), DiscreteLaplace(noise(), 1, 2)), 2),
        lambda: AdaptiveEvent((DiscreteGaussian(4, 1, 2), SequentialEvent((DiscreteGaussian(4, 1, 2),)))),
    ]
    makers: list[Callable[[], PrivacyEvent]] = [
        lambda: Gaussian(
            rounded(float(log_uniform(0.3, 3)) / min(size, 50.0) ** 2), 1, draw.choice([1, 3, 20])
        ),
        lambda: Laplace(rounded(float(log_uniform(0.3, 3)) / size), 1, draw.choice([1, 1, 2, 10])),
        lambda: ZCDP(log_uniform(usual**2 / 9, usual**2)),
        lambda: RepeatAndSelect(finite(), log_uniform(1e-3, 0.9), draw.choice(["0", "1", "-1/2", "3"])),
        lambda: PoissonRepeatAndSelect(finite(), log_uniform(0.1, 30)),
    ]
    if neighbours == "unbounded":
        shares = [Fraction(n, 10) for n in (5, 3, 2)]
        makers += [
            lambda: PoissonSampled(Gaussian(noise()), log_uniform(1e-6, 0.5), 1),
            lambda: PoissonSampled(
                Gaussian(log_uniform(0.5, 9)), log_uniform(1e-3, 0.05), draw.choice([30, 1000])
            ),
            lambda: PoissonSampled(Laplace(log_uniform(0.5, 5)), log_uniform(1e-2, 0.5), 1),
            lambda: PoissonSampled(finite_one(finite()), log_uniform(1e-4, 0.9), draw.choice([1, 2])),
            lambda: MixtureOfGaussians(log_uniform(0.5, 20), ["0", "1", "5/2"], shares, draw.choice([1, 10])),
            lambda: TruncatedPoissonSampled(
                Gaussian(log_uniform(1, 9)), "1/10", draw.choice([12, 20]), 100, 30
            ),
        ]
    else:
        makers += [
            lambda: SampledWithoutReplacement(
                Gaussian(log_uniform(1, 20)), draw.choice([1, 5, 40]), 100, draw.choice([1, 30])
            ),
            lambda: SampledWithoutReplacement(
                finite_one(finite()), draw.choice([1, 40]), 100, draw.choice([1, 2])
            ),
            lambda: SampledWithReplacement(Gaussian(log_uniform(1, 20)), draw.choice([1, 5, 40]), 100, 10),
        ]
    count, mixed = draw.choice([1, 1, 2, 2, 3, 4]), draw.random() < 0.5
    chosen = [draw.choice(of_integers)() for _ in range(count)]
    if mixed:
        chosen[0] = draw.choice(makers)()
        for place in range(1, count):
            if draw.random() < 0.3:
                chosen[place] = draw.choice(makers)()
    if draw.random() < 0.1:
        chosen.append(InvariantEvent("total"))
    tail = 10 ** -draw.choice([draw.uniform(0.3, 12), draw.uniform(0.3, 12), draw.uniform(12, 300)])
    delta = 1 - rounded(max(tail, 1e-12)) if draw.random() < 0.15 else rounded(tail)
    return neighbours, tuple(chosen), delta


def finite_one(event: Finite) -> Finite:
    """One answer of an event."""
    return replace(event, multiplicity=1)


def portion(part: PrivacyEvent, number: int, of: int) -> PrivacyEvent:
    """A part of a parallel event with so many of `of` equal portions of its answers."""
    assert isinstance(part, Sampleable)
    return replace(part, multiplicity=number * part.multiplicity // of)


def ways_of(events: tuple[PrivacyEvent, ...], bounded: bool) -> list[list[PrivacyEvent]]:
    """What an independent value is computed for: each way that the events may take, as releases."""
    ways: list[list[PrivacyEvent]] = [[]]
    for event in events:
        match event:
            case SequentialEvent(parts):
                options = ways_of(parts, bounded)
            case AdaptiveEvent(branches):
                options = ways_of(branches[:1], bounded)
            case WorstEvent(branches):
                options = [way for branch in branches for way in ways_of((branch,), bounded)]
            case ParallelEvent(parts, degree):
                # Halves of the parts that a record leaves or enters; all multiplicities here are even.
                halves, times = (2, 2 * degree) if bounded else (1, degree)
                options = [
                    [portion(part, n, halves) for part, n in zip(parts, picks, strict=True) if n]
                    for picks in ((n, times - n) for n in range(times + 1))
                ]
            case InvariantEvent():
                options = [[]]
            case IntegerSubspaceLaplace():
                options = [[DiscreteLaplace(1 / event.loss)]]
            case _:
                options = [[attained(event)]]
        ways = [way + option for way in ways for option in options]
    return ways


def number(value: Fraction | int | float) -> arb:
    """An exact number as a ball."""
    exact = Fraction(value)
    return arb(fmpq(exact.numerator, exact.denominator))


def on_lattice(event: PrivacyEvent, least: float) -> tuple[Fraction, Fraction, list[arb]] | None:
    """The loss of one answer as a lattice: its least value, the step, and the probabilities; None if it has none.

    Losses of Gaussian noise with probabilities far below `least` are left out. So are failures.
    """
    match event:
        case RandomizedResponse(e, k):
            odds = number(e).exp()
            whole = odds + k - 1
            return -e, e, [1 / whole, (k - 2) / whole, odds / whole]
        case ApproximateDP(e, d):
            odds, held = number(e).exp(), number(1 - d)
            return -e, 2 * e, [held / (1 + odds), held * odds / (1 + odds)]
        case DiscreteLaplace(scale, k):
            a = (-1 / number(scale)).exp()
            shares = [arb(1), *((1 - a) * a**j for j in range(1, k)), a**k]
            return -k / scale, 2 / scale, [share / (1 + a) for share in reversed(shares)]
        case DiscreteGaussian(v, k):
            reach = int(math.sqrt(v * 2 * (FAR - math.log(least)))) + 2
            if reach > MOST_ATOMS:
                return None
            unit = number(-1 / (2 * v))
            half = [(unit * (x * x)).exp() for x in range(reach + 2)]
            # Beyond the end at most a geometric series, or nothing.
            rest = half.pop() / (1 - (unit * (2 * reach + 3)).exp())
            total = 1 + 2 * (sum(half[1:], arb(0)) + arb(0).union(rest))
            weights = [weight / total for weight in half]
            return (k * k - 2 * k * reach) / (2 * v), k / v, weights[:0:-1] + weights
        case _:
            return None


def answers_on_lattice(event: PrivacyEvent, least: float) -> Atoms | None:
    """The losses of all answers of an event that lie on a lattice."""
    law = on_lattice(event, least)
    if law is None:
        return None
    low, step, masses = law
    n, total, start = event.multiplicity, arb_poly([1]), 0  # type: ignore[union-attr]
    for _ in range(n):
        total = total * arb_poly(masses)
        coefficients = total.coeffs()
        far = [i for i, mass in enumerate(coefficients) if mass.upper() > least * math.exp(-FAR)]
        if len(far) > MOST_ATOMS:
            return None
        start += far[0]
        total = arb_poly(coefficients[far[0] : far[-1] + 1])
    return [
        (number(n * low + (start + i) * step), mass.nonnegative_part())
        for i, mass in enumerate(total.coeffs())
    ]


def sampled_atoms(event: PoissonSampled, added: bool, least: float) -> Atoms | None:
    """The losses of one sample of few losses."""
    inner = answers_on_lattice(event.event, least)
    if inner is None:
        return None
    q = number(event.probability)
    # Masses under Q, the law without the record.
    without = [(1 + q * loss.expm1(), mass * (-loss).exp()) for loss, mass in inner]
    return [(-ratio.log(), mass) if added else (ratio.log(), mass * ratio) for ratio, mass in without]


def selected_atoms(event: RepeatAndSelect | PoissonRepeatAndSelect, least: float) -> Atoms | None:
    """The exact law of the best result of a finite mechanism, whose results are better the larger their loss is."""
    inner = answers_on_lattice(event.event, least)
    if inner is None:
        return None
    if isinstance(event, PoissonRepeatAndSelect):
        mean = number(event.mean)
        generating = lambda x: (mean * (x - 1)).exp()  # noqa: E731
    else:
        gamma, eta = number(event.gamma), number(event.eta)
        generating = (
            (lambda x: ((1 - (1 - gamma) * x) ** -eta - 1) / (gamma**-eta - 1))
            if event.eta
            else (lambda x: (1 - (1 - gamma) * x).log() / gamma.log())
        )
    first = second = arb(0)
    atoms = [(arb(0), generating(arb(0)))] if isinstance(event, PoissonRepeatAndSelect) else []
    for loss, mass in inner:
        after = first + mass, second + mass * (-loss).exp()
        mine, yours = (
            generating(end) - generating(begin) for begin, end in zip((first, second), after, strict=True)
        )
        first, second = after
        if mass > 0:
            atoms.append(((mine / yours).log(), mine))
    return atoms


@cache
def atoms_of(event: PrivacyEvent, added: bool, least: float, bits: int) -> Atoms | None:
    """Losses and probabilities of all answers of an event, without failures; None if they are not listed."""
    del bits  # the precision at which they were made
    match event:
        case PoissonSampled():
            law = sampled_atoms(event, added, least)
        case RepeatAndSelect() | PoissonRepeatAndSelect():
            law = selected_atoms(event, least)
        case _:
            return answers_on_lattice(event, least)
    return None if law is None else summed([law] * event.multiplicity)


def summed(laws: Sequence[Atoms]) -> Atoms | None:
    """Every sum of losses; None if there are too many."""
    total: Atoms = [(arb(0), arb(1))]
    for law in laws:
        if len(total) * len(law) > MOST_PAIRS:
            return None
        following: dict[Any, tuple[arb, arb]] = {}
        for loss, mass in total:
            for more, share in law:
                value = loss + more
                key = (value * SCALE).mid().floor().unique_fmpz()
                old = following.get(key)
                # Equal but for rounding: a ball that holds both.
                following[key] = (
                    (value, mass * share) if old is None else (value.union(old[0]), old[1] + mass * share)
                )
        total = list(following.values())
    return total if len(total) <= MOST_ATOMS else None


def normal_delta(mu: arb, epsilon: arb) -> arb:
    """Delta of one normal answer."""
    root = arb(2).sqrt()
    first, second = (((epsilon / mu + side * mu / 2) / root).erfc() / 2 for side in (-1, 1))
    return first - epsilon.exp() * second


def laplace_delta(most: arb, epsilon: arb) -> arb:
    """Delta of one Laplace answer."""
    if epsilon > most:
        return arb(0)
    return -epsilon.expm1() if epsilon < -most else -((epsilon - most) / 2).expm1()


def sampled(base: Callable[[arb], arb], q: arb, added: bool) -> Callable[[arb], arb]:
    """Delta of one sample, from that of the mechanism on it."""

    def delta(epsilon: arb) -> arb:
        odds = (-epsilon if added else epsilon).exp()
        inner = (odds - 1 + q) / q
        removed = q * base(inner.log()) if inner > 0 else 1 - odds
        return 1 - 1 / odds + removed / odds if added else removed

    return delta


def other_delta(events: list[PrivacyEvent], added: bool) -> Callable[[arb], arb] | None:
    """Delta of the losses that are not listed, if they have a closed form together."""
    if events and all(isinstance(event, Gaussian) for event in events):
        mu = number(sum(e.mu_squared * e.multiplicity for e in events)).sqrt()  # type: ignore[union-attr, misc]
        return partial(normal_delta, mu)
    if len(events) > 1 or events[0].multiplicity > 1:  # type: ignore[union-attr]
        return None
    match events[0]:
        case PoissonSampled(Gaussian() as inner, q):
            return sampled(partial(normal_delta, number(inner.mu_squared).sqrt()), number(q), added)
        case PoissonSampled(Laplace() as inner, q):
            return sampled(partial(laplace_delta, number(inner.epsilon)), number(q), added)
        case _:
            return None


@dataclass(frozen=True, slots=True)
class Listed:
    """Losses in rising order, and sums over all from each on.

    Attributes:
        places: The losses.
        first, half, second: Sums of p, of p exp(-loss / 2) and of p exp(-loss).
    """

    places: list[arb]
    first: list[arb]
    half: list[arb]
    second: list[arb]

    @classmethod
    def of(cls, atoms: Atoms) -> "Listed":
        """The sums."""
        ordered = sorted(((loss.mid(), loss, mass) for loss, mass in atoms), key=lambda atom: atom[0])
        sums: list[list[arb]] = [[arb(0)], [arb(0)], [arb(0)]]
        for _, loss, mass in reversed(ordered):
            root = (-loss / 2).exp()
            for total, term in zip(sums, (mass, mass * root, mass * root * root), strict=True):
                total.append(total[-1] + term)
        return cls([place for place, _, _ in ordered], *(total[::-1] for total in sums))

    def delta(self, x: arb, most: arb | None) -> arb:
        """Delta at x, of the losses alone or with those of one Laplace answer, which are at most `most`.

        On which side of an end a loss counts that rounding does not tell from it changes less than the ball's radius.
        """
        if most is None:
            i = bisect(self.places, x.mid())
            return self.first[i] - x.exp() * self.second[i]
        i, j = (bisect(self.places, (x + side * most).mid()) for side in (-1, 1))
        between = self.first[i] - self.first[j] - ((x - most) / 2).exp() * (self.half[i] - self.half[j])
        return between + self.first[j] - x.exp() * self.second[j]


Base = Callable[[arb], arb] | tuple[Listed, arb | None]
"""Delta of the losses that are not in the first list: a closed form, or another list and the largest Laplace loss."""


@cache
def laws_of(
    events: tuple[PrivacyEvent, ...], added: bool, least: float, bits: int
) -> tuple[arb, Atoms, Base] | None:
    """The probability of failures and a composition in two parts; None where these cannot be listed."""
    fails = -sum(
        (e.multiplicity * (-number(e.delta)).log1p() for e in events if isinstance(e, ApproximateDP)), arb(0)
    ).expm1()
    listed: list[Atoms] = []
    unlisted: list[PrivacyEvent] = []
    for event in events:
        atoms = atoms_of(event, added, least, bits)
        if atoms is None:
            unlisted.append(event)
        else:
            listed.append(atoms)
    most = None
    match unlisted:
        case [Laplace(multiplicity=1) as event]:
            most = number(event.epsilon)
        case [_, *_]:
            base, total = other_delta(unlisted, added), summed(listed)
            return None if base is None or total is None or len(total) > MOST_FORMS else (fails, total, base)
    halves: tuple[list[Atoms], list[Atoms]] = ([], [])
    for atoms in sorted(listed, key=len, reverse=True):
        min(halves, key=lambda half: math.prod(map(len, half))).append(atoms)
    left, right = map(summed, halves)
    return None if left is None or right is None else (fails, left, (Listed.of(right), most))


def ball_delta(events: tuple[PrivacyEvent, ...], epsilon: float, least: float) -> arb | None:
    """Delta as a ball that holds it; None if the losses are not listed, but for one with a closed form."""
    worst = arb(0)
    directions = (False, True) if any(isinstance(event, PoissonSampled) for event in events) else (False,)
    for added in directions:
        delta = arb(0)
        for bits in PRECISIONS:
            ctx.prec = bits
            laws = laws_of(events, added, least, bits)
            if laws is None:
                return None
            delta = _delta_of(*laws, number(epsilon))
            if delta.rad() < 1e-13 * abs(delta.mid()) or delta.upper() < 1e-3 * least:
                break
        worst = worst.max(delta)
    return worst


def _delta_of(fails: arb, atoms: Atoms, base: Base, epsilon: arb) -> arb:
    held = sum((mass for _, mass in atoms), arb(0))
    if callable(base):
        delta = sum((mass * base(epsilon - loss) for loss, mass in atoms), arb(0))
    else:
        listed, most = base
        delta = sum((mass * listed.delta(epsilon - loss, most) for loss, mass in atoms), arb(0))
        held *= listed.first[0]
    # What is not listed has a loss above epsilon, or not.
    missing = (1 - fails - held).upper()
    return fails + delta + (arb(0).union(missing) if missing > 0 else 0)


def transform(event: PrivacyEvent, z: Any, added: bool) -> Any:
    """E exp(z L) of one answer on complex numbers, in floats."""
    match event:
        case Gaussian():
            return np.exp(z * (z + 1) * float(event.mu_squared) / 2)
        case Laplace():
            e = float(event.epsilon)
            return (np.exp(z * e) * (1 + 1 / (1 + 2 * z)) + np.exp(-(z + 1) * e) * (1 - 1 / (1 + 2 * z))) / 2
        case MixtureOfGaussians():
            return mixture_transform(shares_of(event), float(event.variance), z, added)
        case PoissonSampled() if isinstance(event.event, Gaussian):
            q = float(event.probability)
            shares = [(0.0, 1 - q), (1.0, q)]
            return mixture_transform(shares, 1 / float(event.event.mu_squared), z, added)
        case _:
            assert isinstance(event, Sampleable | Sample)
            atoms = atoms_of(replace(event, multiplicity=1), added, 1e-300, PRECISIONS[0])
            assert atoms is not None
            return sum(float(mass) * np.exp(z * float(loss)) for loss, mass in atoms)


def shares_of(event: MixtureOfGaussians) -> list[tuple[float, float]]:
    """Each distance with its probability."""
    return [(float(m), float(p)) for m, p in zip(event.sensitivities, event.probabilities, strict=True)]


def mixture_transform(shares: list[tuple[float, float]], variance: float, z: Any, added: bool) -> Any:
    """The same for a mixture of normal laws, by the trapezoid rule."""
    most = max(move for move, _ in shares) / math.sqrt(variance)
    highest = float(z.real.max()) * most if not added else 0.0
    x = np.arange(-14.0 - highest * added, 14.0 + highest + most, SPACING)
    losses = np.full(x.shape, -np.inf)
    for move, share in shares:
        mu = move / math.sqrt(variance)
        losses = np.logaddexp(losses, math.log(share) + mu * x - mu * mu / 2)
    log_mass = -x * x / 2 - math.log(2 * math.pi) / 2 + math.log(SPACING)
    exponents = -losses if added else losses
    log_mass = log_mass if added else log_mass + losses
    parts = np.array_split(z, max(1, z.size // 256))
    return np.concatenate([np.exp(np.outer(part, exponents) + log_mass).sum(axis=1) for part in parts])


def fastest_of(events: list[PrivacyEvent]) -> float:
    """How fast the losses of samples change with the noise, at most."""
    rates = [0.0]
    for event in events:
        if isinstance(event, PoissonSampled) and isinstance(event.event, Gaussian):
            rates.append(math.sqrt(event.event.mu_squared))
        elif isinstance(event, MixtureOfGaussians):
            rates.append(float(max(event.sensitivities)) / math.sqrt(event.variance))
    return max(rates)


def contour_delta(events: list[PrivacyEvent], epsilon: float) -> tuple[float, float] | None:
    """Delta and its error by the integral of the transform along a line, in floats; None if that does not fall."""
    if any(isinstance(event, PoissonSampled) and isinstance(event.event, Laplace) for event in events):
        return None
    if any(isinstance(event, DiscreteGaussian) for event in events):
        return None  # its transform returns to its full size further out
    fails = -math.expm1(
        sum(e.multiplicity * math.log1p(-float(e.delta)) for e in events if isinstance(e, ApproximateDP))
    )
    sums = []
    fastest = fastest_of(events)
    for added in (False, True):

        def log_integrand(z: Any) -> Any:
            total = -z * epsilon - np.log(z) - np.log(z + 1)
            for event in events:
                total = total + event.multiplicity * np.log(transform(event, z, added))  # type: ignore[union-attr] # noqa: B023
            return total

        lines = np.exp(np.linspace(-8, 4.5 if fastest else 25, 200)).astype(np.complex128)
        heights = np.nan_to_num(log_integrand(lines).real, nan=np.inf, posinf=np.inf)
        place = min(max(int(np.argmin(heights)), 1), lines.size - 2)
        s, scale = float(lines[place].real), float(heights[place])
        if not np.isfinite(heights[place - 1 : place + 2]).all() or not -690 < scale < 600:
            return None
        ends = s + 1j * s * 2.0 ** np.arange(-8, 24)
        if fastest:
            ends = ends[ends.imag * fastest * SPACING <= 1]
        sizes = log_integrand(ends).real
        large = np.flatnonzero(~(sizes < scale - 34))
        if not ends.size or (large.size and large[-1] >= ends.size - 3):
            return None
        width = float(ends[large[-1] + 1].imag) if large.size else float(ends[0].imag)
        # The curvature of the integrand's logarithm is the variance of the tilted loss.
        h = 0.01 * s
        near = log_integrand(np.array([s - h, s, s + h], dtype=np.complex128)).real
        spread = math.sqrt(max(near[0] - 2 * near[1] + near[2], 1e-30)) / h
        step = min(width / 500, 0.15 * s, 0.4 / spread)
        if not width / step <= MOST_NODES:
            return None
        z = s + 1j * np.arange(0.0, width, step)
        values = np.exp(log_integrand(z))
        # An upper half of a Riemann sum; at u = 0 the weight is a half.
        value = (values.real.sum() - values[0].real / 2) * step / math.pi
        sums.append((value, 1e-7 * float(np.abs(values).sum()) * step / math.pi))
    return max(value for value, _ in sums) + fails, max(error for _, error in sums) + 1e-12 * fails


@cache
def by_pld(events: tuple[PrivacyEvent, ...], up: bool) -> Any:
    """The composition as dp_accounting's privacy loss distribution with its defaults; None if it cannot have it."""
    if sum(largest_loss(event) for event in events) > MOST_LOSS:
        return None
    total: Any = None
    for event in events:
        part = pld_of(event, up)
        if part is None:
            return None
        n = getattr(event, "multiplicity", 1)
        part = part.self_compose(n) if n > 1 else part
        total = part if total is None else total.compose(part)
    return pld.identity(pessimistic_estimate=up) if total is None else total


def largest_loss(event: Any) -> float:
    """About the largest loss of all answers of an event, which its arrays reach."""
    match event:
        case PoissonSampled(inner, _, n):
            return n * largest_loss(inner)
        case Gaussian() | DiscreteGaussian():
            mu = (
                math.sqrt(event.mu_squared)
                if isinstance(event, Gaussian)
                else event.sensitivity / math.sqrt(event.variance)
            )
            return math.sqrt(event.multiplicity) * 10 * mu + event.multiplicity * mu * mu / 2
        case DiscreteLaplace() | Laplace():
            return float(event.multiplicity * event.sensitivity / event.scale)
        case RandomizedResponse() | ApproximateDP():
            return float(event.multiplicity * event.epsilon)
        case _:
            return 0.0


def pld_of(event: PrivacyEvent, up: bool) -> Any:  # noqa: PLR0911 (one return a kind)
    """One answer; None if dp_accounting has no such noise."""
    ends: dict[str, Any] = {"pessimistic_estimate": up}
    match event:
        case Gaussian():
            return pld.from_gaussian_mechanism(math.sqrt(event.variance), float(event.sensitivity), **ends)
        case Laplace():
            return pld.from_laplace_mechanism(float(event.scale), float(event.sensitivity), **ends)
        case DiscreteGaussian():
            return pld.from_discrete_gaussian_mechanism(math.sqrt(event.variance), event.sensitivity, **ends)
        case DiscreteLaplace():
            return pld.from_discrete_laplace_mechanism(1 / float(event.scale), event.sensitivity, **ends)
        case RandomizedResponse(epsilon, k):
            return pld.from_randomized_response(k / (k - 1 + math.exp(epsilon)), k, **ends)
        case PoissonSampled(Gaussian() as inner, q):
            deviation = 1 / math.sqrt(inner.mu_squared)
            return pld.from_gaussian_mechanism(deviation, sampling_prob=float(q), **ends)
        case PoissonSampled(Laplace() as inner, q):
            return pld.from_laplace_mechanism(1 / float(inner.epsilon), sampling_prob=float(q), **ends)
        case MixtureOfGaussians():
            moves, shares = zip(*shares_of(event), strict=True)
            return pld.from_mixture_gaussian_mechanism(
                math.sqrt(event.variance), list(moves), list(shares), **ends
            )
        case ApproximateDP(epsilon, delta):
            # It has no optimistic form; to leave it out is one.
            stated = common.DifferentialPrivacyParameters(float(epsilon), float(delta))
            return pld.from_privacy_parameters(stated) if up else pld.identity(pessimistic_estimate=False)
        case _:
            return None


def attained(event: PrivacyEvent) -> PrivacyEvent:
    """A mechanism of which the same is known, where no law is known."""
    match event:
        case ZCDP():
            return Gaussian(1 / (2 * event.rho))
        case SampledWithoutReplacement():
            share = Fraction(event.sample_size, event.records)
            return PoissonSampled(event.event, share, event.multiplicity)
        case SampledWithReplacement():
            m, p = event.sample_size, Fraction(1, event.records)
            shares = [math.comb(m, k) * p**k * (1 - p) ** (m - k) for k in range(min(m, 8) + 1)]
            shares[0] += 1 - sum(shares)
            return MixtureOfGaussians(
                event.event.variance, list(range(len(shares))), shares, event.multiplicity
            )
        case TruncatedPoissonSampled():
            n, most, p = event.records, event.largest, event.probability
            chances = [math.comb(n - 1, k) * p**k * (1 - p) ** (n - 1 - k) for k in range(n)]
            seen = sum(c * p * min(Fraction(most, k + 1), Fraction(1)) for k, c in enumerate(chances))
            return PoissonSampled(event.event, seen, event.multiplicity)
        case _:
            return event


ONE_SIDED = (
    ZCDP
    | RepeatAndSelect
    | PoissonRepeatAndSelect
    | SampledWithoutReplacement
    | SampledWithReplacement
    | TruncatedPoissonSampled
)
"""Events whose attained value lies between the bounds and is not enclosed tightly."""


def truth(ways: list[list[PrivacyEvent]], least: float, epsilon: float) -> tuple[str, arb]:
    """How an independent delta at an epsilon was found, and a ball that holds it, for the worst of all ways."""
    worst = (BEST[0], arb(0))
    for way in ways:
        name, delta = _truth(tuple(way), least, epsilon)
        worst = (max(worst[0], name, key=BEST.index), worst[1].max(delta))
    return worst


def within(limit: float, compute: Callable[[], Known], otherwise: Known) -> Known:
    """What a function returns, or something else where it takes longer than so many seconds."""
    signal.setitimer(signal.ITIMER_VIRTUAL, limit)
    try:
        return compute()
    except (TimeoutError, MemoryError):
        return otherwise
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _give_up(number: int, frame: object) -> None:
    raise TimeoutError


def between(low: float, high: float) -> arb:
    """A ball that holds two numbers, of which neither is below 0."""
    return arb(max(low, 0.0)).union(arb(high))


def _truth(events: tuple[PrivacyEvent, ...], least: float, epsilon: float) -> tuple[str, arb]:
    delta = ball_delta(events, epsilon, least)
    if delta is not None:
        return "balls", delta
    contour = contour_delta(list(events), epsilon)
    if contour is not None:
        value, error = contour
        return "contour", between(value * (1 - 1e-6) - error, value * (1 + 1e-6) + error)
    laws = (by_pld(events, False), by_pld(events, True)) if least >= LEAST_OF_PEER else (None,)
    if None in laws:
        return "none", UNKNOWN
    low, high = (float(law.get_delta_for_epsilon(epsilon)) for law in laws)
    return "peer", between(low * (1 - 1e-6) - 1e-11, high * (1 + 1e-6) + 1e-11)


def rows(count: int, peers: bool, share: tuple[int, int], limit: float) -> Iterator[dict[str, Any]]:
    """One row a composition, of those whose number leaves the first number if it is divided by the second."""
    draw, (part, parts) = random.Random(20), share
    for index in range(count):
        neighbours, events, delta = drawn(draw)
        if index % parts != part:
            continue
        row: dict[str, Any] = {
            "index": index,
            "events": [str(event) for event in events],
            "kinds": sorted({type(event).__name__ for event in events}),
            "delta": float(delta),
        }
        for cached in (atoms_of, laws_of, by_pld):
            cached.cache_clear()
        start = time.process_time()
        both = not any(isinstance(event, ONE_SIDED) for event in events)
        try:
            guarantee = compose(*events, neighbours=neighbours)
            ours = within(LONGEST, partial(guarantee.epsilon, delta), None)
            middle = time.process_time()
            row["seconds"] = middle - start
            if ours is None:
                row["refused"] = f"longer than {LONGEST:g} s"
            else:
                row |= {
                    "lower": ours.lower,
                    "upper": ours.upper,
                    "engine": guarantee.engines,
                    "two_sided": both,
                }
                row["checks"] = checks(
                    ways_of(events, neighbours == "bounded"), guarantee, (ours, delta), both, limit
                )
                row["seconds_checks"] = time.process_time() - middle
        except TallyveilError as error:
            row |= {"refused": f"{error.code}: {error}", "seconds": time.process_time() - start}
        if peers:
            begin = time.process_time()
            law = within(limit, partial(by_pld, events, True), None)
            row["pld"] = None if law is None else float(law.get_epsilon_for_delta(float(delta)))
            row["seconds_pld"] = time.process_time() - begin
        yield row


def checks(
    ways: list[list[PrivacyEvent]], guarantee: Any, claim: tuple[Any, Fraction], both: bool, limit: float
) -> list[dict[str, Any]]:
    """Independent values of delta beside the certified bounds: at the epsilons claimed, and close to them."""
    epsilon, delta = claim
    below = 0.9 * epsilon.upper if math.isfinite(epsilon.upper) and epsilon.upper > 0 else 1.0
    asked = [("upper", epsilon.upper), ("lower", epsilon.lower), ("delta", below)]
    rows = []
    way, value = BEST[0], UNKNOWN
    for what, place in asked:
        if not math.isfinite(place) or (what == "lower" and not (both and place > 0)):
            continue
        compute = partial(truth, ways, float(delta), place)
        # What took too long once takes too long again.
        way, value = within(limit, compute, GIVEN_UP) if way != GIVEN_UP[0] else GIVEN_UP
        bounds = guarantee.delta(place) if what == "delta" else None
        most = number(delta) if bounds is None else arb(bounds.upper)
        least = number(delta) if bounds is None else arb(bounds.lower)
        above, under = value.lower() > most, value.upper() < least
        inside = (
            not above
            if what == "upper"
            else not under
            if what == "lower"
            else not (above or (both and under))
        )
        rows.append({"what": what, "way": way, "inside": inside, "epsilon": place, "value": value.str(20)})
    return rows


def summary(paths: list[Path]) -> None:
    """Print what was found, and where the peer is below the truth, or more than one per cent above it."""
    rows = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    checked = [check for row in rows for check in row.get("checks", [])]
    print(
        f"{len(rows)} compositions; {sum(not c['inside'] for c in checked)} of {len(checked)} values outside of bounds"
    )
    for row in rows:
        if "refused" in row:
            print(f"  refused: {row['refused'][:200]}: {'; '.join(row['events'])}")
        elif not all(check["inside"] for check in row["checks"]):
            print(f"  outside: {_shown(row)}: {[check for check in row['checks'] if not check['inside']]}")
    widths: dict[str, list[tuple[float, str]]] = {}
    for row in rows:
        if "upper" in row and math.isfinite(row["upper"]):
            width = (row["upper"] - row["lower"]) / max(1.0, row["upper"])
            name = " ".join(row["engine"]) + ("" if row["two_sided"] else ", a mechanism from below")
            widths.setdefault(name, []).append((width, _shown(row)))
    for engine, values in sorted(widths.items()):
        plain, (widest, where) = [width for width, _ in values], max(values)
        print(
            f"  {engine}: {len(values)}, median width {np.median(plain):.1e}, largest {widest:.1e}: {where}"
        )
    seconds = [row["seconds"] for row in rows]
    print(f"seconds {sum(seconds):.0f}, median {np.median(seconds):.3f}, largest {max(seconds):.1f}")
    print(f"seconds of the checks {sum(row.get('seconds_checks', 0) for row in rows):.0f}")
    print(Counter(check["way"] for check in checked))
    best = [
        min(map(BEST.index, (check["way"] for check in row.get("checks", []))), default=-1) for row in rows
    ]
    print(
        "compositions by their best way:", Counter(BEST[place] if place >= 0 else "refused" for place in best)
    )
    known = [row for row in rows if isinstance(row.get("pld"), float) and "upper" in row]
    print(f"dp_accounting: {len(known)} computed in {sum(row['seconds_pld'] for row in known):.0f} s")
    for row in known:
        if row["pld"] < row["lower"]:
            print(f"  BELOW by {row['lower'] - row['pld']:.2e}: {_shown(row)}")
        elif row["pld"] > 1.01 * row["upper"] + 1e-3:
            print(f"  above by {row['pld'] - row['upper']:.2e}: {_shown(row)}")


def _shown(row: dict[str, Any]) -> str:
    return f"delta {row['delta']}, epsilon in [{row['lower']:.6g}, {row['upper']:.6g}], {'; '.join(row['events'])}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--peers", action="store_true", help="compute each also by dp_accounting")
    parser.add_argument("--out", type=Path, default=Path("accounting_random.jsonl"))
    parser.add_argument("--part", default="0/1", help="0/2 and 1/2 share the work between two processes")
    parser.add_argument("--limit", type=float, default=10.0, help="seconds of an independent value")
    parser.add_argument("--summary", type=Path, nargs="+")
    arguments = parser.parse_args()
    if arguments.summary:
        summary(arguments.summary)
        return
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    np.seterr(all="ignore")
    signal.signal(signal.SIGVTALRM, _give_up)
    # The peer's arrays may be of any size.
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    wrong = 0
    with arguments.out.open("w") as file:
        part, parts = map(int, arguments.part.split("/"))
        for row in rows(arguments.count, arguments.peers, (part, parts), arguments.limit):
            file.write(json.dumps(row) + "\n")
            file.flush()
            wrong += not all(check["inside"] for check in row.get("checks", []))
    print(f"{arguments.count} compositions, {wrong} with a value outside of the bounds")
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
