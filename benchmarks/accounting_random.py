"""Certified bounds of 1,000 random compositions of all events, beside independent values of delta.

python benchmarks/accounting_random.py [--count 1000] [--peers] [--prv PYTHON] [--out FILE] [--part 0/2] [--limit 10]
python benchmarks/accounting_random.py --summary FILE

Half of the compositions hold real-valued noise, random samples or selections. Deltas lie between 1e-300 and 1 - 1e-12,
and epsilons between 1e-9 and 1e5.

An independent value of delta is computed here in another way than in the library: in mpmath with 50 digits, where all
losses but one are finite (the sum over their values of the closed form of the other one); or by a contour integral in
floats, whose transforms are closed forms or integrals by the trapezoid rule; or, where neither works, dp_accounting's
optimistic and pessimistic values must not contradict the bounds. The script fails if any value does. A value that takes
longer than `--limit` seconds of processor time is given up, and counted as such.

Where only an upper bound is known, the value is that of a mechanism that attains what is known: normal noise for rho, a
record that all samples move alike, the exact law of the best of several results of a finite mechanism. It then must
not be above the upper bound.

With `--peers` each composition is also computed by dp_accounting, and with `--prv` by prv_accountant, whose interpreter
PYTHON is. Each line of the output is a JSON object. `--summary` reads such a file and prints what was found.
"""

import argparse
import json
import math
import random
import signal
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from dp_accounting.pld import privacy_loss_distribution as pld
from mpmath import erfc, exp, log, mp, mpf, sqrt

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
from tallyveil.errors import TallyveilError

MOST_ATOMS = 4000
MOST_NODES = 40_000
SPACING = 0.01  # of the trapezoid rule for a transform, which must not alias at the highest frequency

Atoms = list[tuple[Any, Any]]

PRV = """
import json, sys, warnings
warnings.simplefilter("ignore")
from prv_accountant import PRVAccountant
from prv_accountant import privacy_random_variables as prv
makers = {
    "gaussian": lambda z: prv.GaussianMechanism(noise_multiplier=z),
    "laplace": lambda mu: prv.LaplaceMechanism(mu=mu),
    "sampled": lambda q, z: prv.PoissonSubsampledGaussianMechanism(sampling_probability=q, noise_multiplier=z),
}
for line in sys.stdin:
    parts, delta = json.loads(line)
    try:
        counts = [n for _, _, n in parts]
        accountant = PRVAccountant(
            prvs=[makers[kind](*args) for kind, args, _ in parts],
            max_self_compositions=counts, eps_error=0.01, delta_error=delta * 1e-3)
        print(json.dumps([float(x) for x in accountant.compute_epsilon(delta, counts)]), flush=True)
    except Exception as error:
        print(json.dumps(f"{type(error).__name__}: {error}"[:100]), flush=True)
"""


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

    def finite() -> PrivacyEvent:
        return draw.choice(
            [
                lambda: RandomizedResponse(loss(), draw.choice([2, 3, 10]), draw.choice([1, 1, 2])),
                lambda: DiscreteLaplace(rounded(1 / size), draw.choice([1, 2]), draw.choice([1, 2])),
            ]
        )()

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
    others: list[Callable[[], PrivacyEvent]] = [
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
        others += [
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
        others += [
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
        chosen[0] = draw.choice(others)()
        for place in range(1, count):
            if draw.random() < 0.3:
                chosen[place] = draw.choice(others)()
    if draw.random() < 0.1:
        chosen.append(InvariantEvent("total"))
    tail = 10 ** -draw.choice([draw.uniform(0.3, 12), draw.uniform(0.3, 12), draw.uniform(12, 300)])
    delta = 1 - rounded(max(tail, 1e-12)) if draw.random() < 0.15 else rounded(tail)
    return neighbours, tuple(chosen), delta


def finite_one(event: PrivacyEvent) -> Any:
    """One answer of an event."""
    return replace(event, multiplicity=1)  # type: ignore[type-var]


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
                    [
                        replace(part, multiplicity=n * part.multiplicity // halves)
                        for part, n in zip(parts, picks, strict=True)
                        if n
                    ]  # type: ignore[union-attr, type-var]
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


def number(value: Fraction | int) -> Any:
    """An exact number in mpmath."""
    exact = Fraction(value)
    return mpf(exact.numerator) / exact.denominator


def atoms_of(event: PrivacyEvent, added: bool = False) -> Atoms | None:  # noqa: PLR0911 (one return a kind)
    """Values and probabilities of one finite (or cut) loss, once for each answer; None if it is not finite."""
    match event:
        case PoissonSampled():
            inner = atoms_of(event.event)
            if inner is None:
                return None
            q = number(event.probability)
            # Masses under Q, the law without the record.
            without = [(log(1 - q + q * exp(loss)), mass * exp(-loss)) for loss, mass in inner]
            return [(-loss, mass) if added else (loss, mass * exp(loss)) for loss, mass in without]
        case RepeatAndSelect() | PoissonRepeatAndSelect():
            return selected_atoms(event)
        case RandomizedResponse():
            e, k = number(event.epsilon), event.options
            whole = exp(e) + k - 1
            return [(e, exp(e) / whole), (mpf(0), (k - 2) / whole), (-e, 1 / whole)]
        case ApproximateDP():
            e, d = number(event.epsilon), number(event.delta)
            return [(mp.inf, d), (e, (1 - d) / (1 + exp(-e))), (-e, (1 - d) / (1 + exp(e)))]
        case DiscreteLaplace():
            a, k = exp(-1 / number(event.scale)), event.sensitivity
            shares = [1 if j == 0 else a**k if j == k else (1 - a) * a**j for j in range(k + 1)]
            return [((k - 2 * j) / number(event.scale), share / (1 + a)) for j, share in enumerate(shares)]
        case DiscreteGaussian():
            v, k = number(event.variance), event.sensitivity
            reach = int(40 * math.sqrt(event.variance)) + 2 + k
            if reach > MOST_ATOMS:
                return None
            weights = {x: exp(-x * x / (2 * v)) for x in range(-reach, reach + 1)}
            total = sum(weights.values())
            return [((k * k + 2 * k * x) / (2 * v), weight / total) for x, weight in weights.items()]
        case _:
            return None


def selected_atoms(event: RepeatAndSelect | PoissonRepeatAndSelect) -> Atoms:
    """The exact law of the best result of a finite mechanism, whose results are better the larger their loss is."""
    inner = combined([event.event], False)
    assert inner is not None
    if isinstance(event, PoissonRepeatAndSelect):
        mean = number(event.mean)
        generating = lambda x: exp(mean * (x - 1))  # noqa: E731
    else:
        gamma, eta = number(event.gamma), number(event.eta)
        generating = (
            (lambda x: ((1 - (1 - gamma) * x) ** -eta - 1) / (gamma**-eta - 1))
            if eta
            else (lambda x: log(1 - (1 - gamma) * x) / log(gamma))
        )
    first = second = mpf(0)
    none = generating(mpf(0))
    atoms = [(mpf(0), none)] if none else []
    with mp.workdps(200):
        for loss, mass in sorted(inner, key=lambda atom: atom[0]):
            after = first + mass, second + mass * exp(-loss)
            mine, yours = (
                generating(min(end, mpf(1))) - generating(begin)
                for begin, end in zip((first, second), after, strict=True)
            )
            first, second = after
            atoms.append((log(mine / yours), mine))
    return atoms


def normal_delta(mu: Any, epsilon: Any) -> Any:
    """Delta of one normal answer."""

    def below(z: Any) -> Any:
        return erfc(-z / sqrt(mpf(2))) / 2

    return below(mu / 2 - epsilon / mu) - exp(epsilon) * below(-mu / 2 - epsilon / mu)


def laplace_delta(most: Any, epsilon: Any) -> Any:
    """Delta of one Laplace answer."""
    return max(mpf(0), 1 - exp(epsilon)) if abs(epsilon) >= most else 1 - exp((epsilon - most) / 2)


def sampled(base: Callable[[Any], Any], q: Any, added: bool) -> Callable[[Any], Any]:
    """Delta of one sample, from that of the mechanism on it."""

    def delta(epsilon: Any) -> Any:
        odds = exp(-epsilon if added else epsilon)
        inner = (odds - 1 + q) / q
        removed = 1 - odds if inner <= 0 else q * base(log(inner))
        return 1 - 1 / odds + removed / odds if added else removed

    return delta


def other_delta(events: list[PrivacyEvent], added: bool) -> Callable[[Any], Any] | None:
    """Delta of the losses that are not finite, if they have a closed form together."""
    if all(isinstance(event, Gaussian) for event in events):
        mu = sqrt(
            number(
                sum((e.mu_squared * e.multiplicity for e in events if isinstance(e, Gaussian)), Fraction(0))
            )
        )
        return (lambda e: normal_delta(mu, e)) if events else (lambda e: max(mpf(0), 1 - exp(e)))
    if len(events) > 1 or events[0].multiplicity > 1:  # type: ignore[union-attr]
        return None
    event = events[0]
    if isinstance(event, Laplace):
        return lambda e: laplace_delta(number(event.epsilon), e)
    if not isinstance(event, PoissonSampled):
        return None
    inner = event.event
    if isinstance(inner, Gaussian):
        return sampled(
            lambda e: normal_delta(sqrt(number(inner.mu_squared)), e), number(event.probability), added
        )
    assert isinstance(inner, Laplace)
    return sampled(lambda e: laplace_delta(number(inner.epsilon), e), number(event.probability), added)


def combined(events: list[PrivacyEvent], added: bool) -> Atoms | None:
    """Every combination of finite losses; None if there are too many."""
    total: dict[Any, Any] = {mpf(0): mpf(1)}
    for event in events:
        one = atoms_of(event, added)
        assert one is not None
        for _ in range(event.multiplicity):  # type: ignore[union-attr]
            if len(total) * len(one) > 10 * MOST_ATOMS:
                return None
            following: dict[Any, Any] = {}
            for loss, mass in total.items():
                for more, share in one:
                    key = mp.nstr(loss + more, 30)
                    old = following.get(key, (loss + more, mpf(0)))
                    following[key] = (old[0], old[1] + mass * share)
            total = dict(following.values())
    return list(total.items()) if len(total) <= MOST_ATOMS else None


def exact_delta(events: list[PrivacyEvent]) -> Callable[[Any], Any] | None:
    """Delta in mpmath; None if no sum of closed forms gives it."""
    finite = [event for event in events if is_finite(event)]
    others = [event for event in events if not is_finite(event)]
    parts = []
    for added in (False, True):
        base, atoms = other_delta(others, added), combined(finite, added)
        if base is None or atoms is None:
            return None
        parts.append((base, atoms))

    def delta(epsilon: Any) -> Any:
        return max(
            mp.fsum(mass * (1 if loss == mp.inf else base(epsilon - loss)) for loss, mass in atoms if mass)
            for base, atoms in parts
        )

    return delta


@cache
def is_finite(event: PrivacyEvent) -> bool:
    """Whether the losses of an event are listed."""
    return atoms_of(event) is not None


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
            atoms = atoms_of(event, added)
            assert atoms is not None
            return sum(float(mass) * np.exp(z * float(loss)) for loss, mass in atoms if loss != mp.inf)


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
    found = []
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
        found.append((value, 1e-7 * float(np.abs(values).sum()) * step / math.pi))
    return max(value for value, _ in found) + fails, max(error for _, error in found) + 1e-12 * fails


def by_pld(  # noqa: PLR0912 (one branch a kind)
    events: tuple[PrivacyEvent, ...], delta: float | None, epsilon: float = 0.0, up: bool = True
) -> float | None:
    """Epsilon or delta by dp_accounting's privacy loss distributions with its defaults; None if it lacks an event."""
    total: Any = None
    ends: dict[str, Any] = {} if up else {"pessimistic_estimate": False}
    for event in events:
        n = getattr(event, "multiplicity", 1)
        match event:
            case Gaussian():
                one = pld.from_gaussian_mechanism(math.sqrt(event.variance), float(event.sensitivity), **ends)
            case Laplace():
                one = pld.from_laplace_mechanism(float(event.scale), float(event.sensitivity), **ends)
            case DiscreteGaussian():
                one = pld.from_discrete_gaussian_mechanism(
                    math.sqrt(event.variance), event.sensitivity, **ends
                )
            case DiscreteLaplace():
                one = pld.from_discrete_laplace_mechanism(1 / float(event.scale), event.sensitivity, **ends)
            case RandomizedResponse():
                k = event.options
                one = pld.from_randomized_response(k / (k - 1 + math.exp(event.epsilon)), k, **ends)
            case PoissonSampled():
                inner, q = event.event, float(event.probability)
                if isinstance(inner, Gaussian):
                    one = pld.from_gaussian_mechanism(math.sqrt(inner.variance), sampling_prob=q, **ends)
                elif isinstance(inner, Laplace):
                    one = pld.from_laplace_mechanism(float(inner.scale), sampling_prob=q, **ends)
                else:
                    return None
            case ApproximateDP() if not up:
                continue  # it has no optimistic form; to leave it out is one
            case ApproximateDP():
                from dp_accounting.pld import common

                one = pld.from_privacy_parameters(
                    common.DifferentialPrivacyParameters(float(event.epsilon), float(event.delta))
                )
            case _:
                return None
        part = one.self_compose(n) if n > 1 else one
        total = part if total is None else total.compose(part)
    if total is None:
        return 0.0
    return float(
        total.get_epsilon_for_delta(delta) if delta is not None else total.get_delta_for_epsilon(epsilon)
    )


def for_prv(events: tuple[PrivacyEvent, ...]) -> list[Any] | None:
    """The composition in the words of prv_accountant; None if it lacks an event."""
    parts: list[Any] = []
    for event in events:
        match event:
            case Gaussian():
                parts.append(("gaussian", [1 / math.sqrt(event.mu_squared)], event.multiplicity))
            case Laplace():
                parts.append(("laplace", [float(event.epsilon)], event.multiplicity))
            case PoissonSampled() if isinstance(event.event, Gaussian):
                args = [float(event.probability), 1 / math.sqrt(event.event.mu_squared)]
                parts.append(("sampled", args, event.multiplicity))
            case _:
                return None
    return parts


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


def truth(ways: list[list[PrivacyEvent]], epsilon: float, limit: float) -> tuple[str, float, float]:
    """An independent delta at an epsilon, from both sides, and how it was found; within so many seconds."""
    worst = ("", 0.0, 0.0)
    signal.setitimer(signal.ITIMER_VIRTUAL, limit)
    try:
        for way in ways:
            name, low, high = _truth(way, epsilon)
            worst = (max(worst[0], name), max(worst[1], low), max(worst[2], high))
    except (TimeoutError, ZeroDivisionError):
        # Too slow, or probabilities below the digits of mpmath.
        return "given up", 0.0, 1.0
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return worst


def _give_up(number: int, frame: object) -> None:
    raise TimeoutError


def _truth(events: list[PrivacyEvent], epsilon: float) -> tuple[str, float, float]:
    with mp.workdps(50):
        exact = exact_delta(events)
        if exact is not None:
            delta = exact(number(Fraction(epsilon)))
            error = mpf(10) ** -33
            # Where it is tiny, the sum of closed forms has lost digits.
            if delta > mpf(10) ** -30:
                return "mpmath", float(delta - error) * (1 - 1e-13), float(delta + error) * (1 + 1e-13)
            mp.dps = 400
            delta = exact_delta(events)(number(Fraction(epsilon)))  # type: ignore[misc]
            return "mpmath", float(delta) * (1 - 1e-13), float(delta) * (1 + 1e-13) + 5e-324
    found = contour_delta(events, epsilon)
    if found is not None:
        value, error = found
        return "contour", value * (1 - 1e-6) - error, value * (1 + 1e-6) + error
    try:
        optimistic, pessimistic = (by_pld(tuple(events), None, epsilon, up) for up in (False, True))
    except (OverflowError, MemoryError):
        # The peer has no such large losses, and no arrays for such wide noise.
        return "none", 0.0, 1.0
    if optimistic is None or pessimistic is None:
        return "none", 0.0, 1.0
    return "peer", optimistic * (1 - 1e-6) - 1e-11, pessimistic * (1 + 1e-6) + 1e-11


def rows(
    count: int, peers: bool, prv: str | None, share: tuple[int, int], limit: float
) -> Iterator[dict[str, Any]]:
    """One row a composition, of those whose number leaves the first number if it is divided by the second."""
    draw, (part, parts) = random.Random(20), share
    child = None
    if prv:
        child = subprocess.Popen([prv, "-c", PRV], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
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
        start = time.process_time()
        try:
            guarantee = compose(*events, neighbours=neighbours)
            ours = guarantee.epsilon(delta)
            row |= {"lower": ours.lower, "upper": ours.upper, "engine": guarantee.engines}
        except TallyveilError as error:
            row["refused"] = f"{error.code}: {error}"
        middle = time.process_time()
        row["seconds"] = middle - start
        if "refused" not in row:
            ways = ways_of(events, neighbours == "bounded")
            row["checks"] = checks(
                partial(truth, ways, limit=limit),
                guarantee,
                ours,
                delta,
                not any(isinstance(e, ONE_SIDED) for e in events),
            )
        row["seconds_checks"] = time.process_time() - middle
        if peers:
            begin = time.process_time()
            row["pld"] = by_pld(events, float(delta))
            row["seconds_pld"] = time.process_time() - begin
        words = for_prv(events)
        if child is not None and words is not None:
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdin.write(json.dumps([words, float(delta)]) + "\n")
            child.stdin.flush()
            row["prv"] = json.loads(child.stdout.readline())
        yield row


def checks(
    known: Callable[[float], tuple[str, float, float]], guarantee: Any, ours: Any, delta: Fraction, both: bool
) -> list[dict[str, Any]]:
    """Independent values of delta beside the certified bounds: at the epsilons claimed, and close to them."""
    found = []
    if math.isfinite(ours.upper):
        way, low, _ = known(ours.upper)
        found.append(
            {
                "what": "upper",
                "way": way,
                "inside": bool(low <= float(delta) * (1 + 1e-12)),
                "value": float(low),
            }
        )
        if both and ours.lower > 0:
            way, _, high = known(ours.lower)
            found.append(
                {
                    "what": "lower",
                    "way": way,
                    "inside": bool(high >= float(delta) * (1 - 1e-12)),
                    "value": float(high),
                }
            )
    epsilon = 0.9 * ours.upper if math.isfinite(ours.upper) and ours.upper > 0 else 1.0
    way, low, high = known(epsilon)
    bounds = guarantee.delta(epsilon)
    inside = low <= bounds.upper and (bounds.lower <= high or not both)
    found.append(
        {
            "what": "delta",
            "way": way,
            "inside": bool(inside),
            "value": [float(low), float(high)],
            "epsilon": epsilon,
        }
    )
    found[-1] |= {"lower": bounds.lower, "upper": bounds.upper}
    return found


def summary(path: Path) -> None:  # noqa: PLR0912 (one part a line)
    """Print where the others are below the truth, or more than one per cent above it."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    checked = [check for row in rows for check in row.get("checks", [])]
    ways = [check["way"] for check in checked]
    print(f"{len(rows)} compositions; {sum(not c['inside'] for c in checked)} values outside of bounds")
    for row in rows:
        if "refused" in row:
            print(f"  refused: {row['refused'][:200]}: {'; '.join(row['events'])}")
        elif not all(check["inside"] for check in row["checks"]):
            print(f"  outside: {_shown(row)}: {[check for check in row['checks'] if not check['inside']]}")
    widths: dict[str, list[float]] = {}
    for row in rows:
        if "upper" in row and math.isfinite(row["upper"]):
            width = (row["upper"] - row["lower"]) / max(1.0, row["upper"])
            widths.setdefault(" ".join(row["engine"]), []).append(width)
    for engine, values in sorted(widths.items()):
        print(f"  {engine}: {len(values)}, median width {np.median(values):.1e}, largest {max(values):.1e}")
    print(f"seconds {sum(row['seconds'] for row in rows):.0f}")
    print({way: ways.count(way) for way in sorted(set(ways))})
    for name in ("pld", "prv"):
        known = [row for row in rows if isinstance(row.get(name), float | list)]
        refused = [row for row in rows if isinstance(row.get(name), str)]
        print(f"{name}: {len(known)} computed, {len(refused)} errors")
        for row in known:
            found = row[name] if name == "pld" else row[name][2]
            if found < row["lower"]:
                print(f"  BELOW by {row['lower'] - found:.2e}: {_shown(row)}")
            elif found > 1.01 * row["upper"] + 1e-3:
                print(f"  above by {found - row['upper']:.2e}: {_shown(row)}")
        if name == "prv":
            for row in known:
                if row[name][0] > row["upper"]:
                    print(f"  its lower bound is above by {row[name][0] - row['upper']:.2e}: {_shown(row)}")
        for row in refused:
            print(f"  {row[name]}: {_shown(row)}")


def _shown(row: dict[str, Any]) -> str:
    return f"delta {row['delta']}, epsilon in [{row['lower']:.6g}, {row['upper']:.6g}], {'; '.join(row['events'])}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--peers", action="store_true", help="compute each also by dp_accounting")
    parser.add_argument("--prv")
    parser.add_argument("--out", type=Path, default=Path("accounting_random.jsonl"))
    parser.add_argument("--part", default="0/1", help="0/2 and 1/2 share the work between two processes")
    parser.add_argument("--limit", type=float, default=10.0, help="seconds of an independent value")
    parser.add_argument("--summary", type=Path)
    arguments = parser.parse_args()
    if arguments.summary:
        summary(arguments.summary)
        return
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    signal.signal(signal.SIGVTALRM, _give_up)
    wrong = 0
    with arguments.out.open("w") as file:
        part, parts = map(int, arguments.part.split("/"))
        for row in rows(arguments.count, arguments.peers, arguments.prv, (part, parts), arguments.limit):
            file.write(json.dumps(row) + "\n")
            file.flush()
            wrong += not all(check["inside"] for check in row.get("checks", []))
    print(f"{arguments.count} compositions, {wrong} with a value outside of the bounds")
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
