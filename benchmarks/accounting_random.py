"""Epsilon of 300 random compositions by dp_accounting and prv_accountant, beside certified bounds and other values.

python benchmarks/accounting_random.py [--count 300] [--prv PYTHON] [--out FILE] [--summary FILE]

An independent value of delta is computed here in another way than in the library: in mpmath with 50 digits, where all
losses but one are finite (the sum over their values of the closed form of the other one); or by a contour integral in
floats, whose transforms are closed forms or integrals by the trapezoid rule; or, where neither works, dp_accounting's
optimistic and pessimistic values must not contradict the bounds. The script fails if any value does.

A mechanism of which only rho is known is checked with normal noise of this rho.

PYTHON is an interpreter with prv_accountant, which runs in a process of its own. Each line of the output is a JSON
object. `--summary` reads such a file and prints where the others are below the truth, or far above it.
"""

import argparse
import json
import math
import random
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from dp_accounting.pld import privacy_loss_distribution as pld
from mpmath import erfc, exp, log, mp, mpf, sqrt

from tallyveil.accounting import (
    ZCDP,
    ApproximateDP,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    PoissonSampled,
    PrivacyEvent,
    RandomizedResponse,
    compose,
)

DELTAS = ("1e-2", "1e-4", "1e-6", "1e-8", "1e-10")
MOST_ATOMS = 4000
MOST_NODES = 10_000
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


def drawn(draw: random.Random) -> tuple[PrivacyEvent, ...]:
    """A random composition of one to four events."""

    def log_uniform(low: float, high: float) -> Fraction:
        return rounded(math.exp(draw.uniform(math.log(low), math.log(high))))

    makers: list[Callable[[], PrivacyEvent]] = [
        lambda: Gaussian(log_uniform(0.3, 300), log_uniform(0.2, 3), draw.choice([1, 1, 3, 20])),
        lambda: Laplace(log_uniform(0.5, 50), log_uniform(0.2, 2), draw.choice([1, 1, 2, 10])),
        lambda: DiscreteGaussian(log_uniform(0.3, 100), draw.choice([1, 1, 2]), draw.choice([1, 2])),
        lambda: DiscreteLaplace(log_uniform(0.5, 20), draw.choice([1, 1, 3]), draw.choice([1, 2, 4])),
        lambda: RandomizedResponse(log_uniform(0.05, 3), draw.choice([2, 2, 3, 10]), draw.choice([1, 2])),
        lambda: ApproximateDP(log_uniform(0.01, 2), log_uniform(1e-12, 1e-3), draw.choice([1, 3])),
        lambda: ZCDP(log_uniform(1e-3, 2)),
        lambda: PoissonSampled(Gaussian(log_uniform(0.3, 9)), log_uniform(1e-3, 0.5), 1),
        lambda: PoissonSampled(
            Gaussian(log_uniform(0.5, 9)), log_uniform(1e-3, 0.05), draw.choice([30, 100, 1000])
        ),
        lambda: PoissonSampled(Laplace(log_uniform(0.5, 5)), log_uniform(1e-2, 0.5), 1),
    ]
    while True:
        chosen = tuple(draw.choice(makers)() for _ in range(draw.choice([1, 1, 2, 2, 3, 4])))
        kinds = {type(event) for event in chosen}
        if not {ZCDP, PoissonSampled} <= kinds:
            return chosen


def number(value: Fraction | int) -> Any:
    """An exact number in mpmath."""
    exact = Fraction(value)
    return mpf(exact.numerator) / exact.denominator


def atoms_of(event: PrivacyEvent) -> Atoms | None:
    """Values and probabilities of one finite (or cut) loss, once for each answer; None if it is not finite."""
    match event:
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
            reach = int(18 * math.sqrt(event.variance)) + 2 + k
            weights = {x: exp(-x * x / (2 * v)) for x in range(-reach, reach + 1)}
            total = sum(weights.values())
            return [((k * k + 2 * k * x) / (2 * v), weight / total) for x, weight in weights.items()]
        case _:
            return None


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
    assert isinstance(event, PoissonSampled)
    inner = event.event
    if isinstance(inner, Gaussian):
        return sampled(
            lambda e: normal_delta(sqrt(number(inner.mu_squared)), e), number(event.probability), added
        )
    assert isinstance(inner, Laplace)
    return sampled(lambda e: laplace_delta(number(inner.epsilon), e), number(event.probability), added)


def combined(events: list[PrivacyEvent]) -> Atoms | None:
    """Every combination of finite losses; None if there are too many."""
    total: dict[Any, Any] = {mpf(0): mpf(1)}
    for event in events:
        one = atoms_of(event)
        assert one is not None
        for _ in range(event.multiplicity):  # type: ignore[union-attr]
            if len(total) * len(one) > 40 * MOST_ATOMS:
                return None
            following: dict[Any, Any] = {}
            for loss, mass in total.items():
                for more, share in one:
                    key = mp.nstr(loss + more, 30)
                    old = following.get(key, (loss + more, mpf(0)))
                    following[key] = (old[0], old[1] + mass * share)
            total = dict(following.values())
    return list(total.items()) if len(total) <= MOST_ATOMS else None


def exact_delta(events: tuple[PrivacyEvent, ...]) -> Callable[[Any], Any] | None:
    """Delta in mpmath; None if no sum of closed forms gives it."""
    finite = [event for event in events if atoms_of(event) is not None]
    others = [event for event in events if atoms_of(event) is None]
    both = [other_delta(others, added) for added in (False, True)]
    if None in both:
        return None
    atoms = combined(finite)
    if atoms is None:
        return None

    def delta(epsilon: Any) -> Any:
        return max(
            mp.fsum(mass * (1 if loss == mp.inf else base(epsilon - loss)) for loss, mass in atoms if mass)
            for base in both
            if base is not None
        )

    return delta


def transform(event: PrivacyEvent, z: Any, added: bool) -> Any:
    """E exp(z L) of one answer on complex numbers, in floats."""
    match event:
        case Gaussian():
            return np.exp(z * (z + 1) * float(event.mu_squared) / 2)
        case Laplace():
            e = float(event.epsilon)
            return (np.exp(z * e) * (1 + 1 / (1 + 2 * z)) + np.exp(-(z + 1) * e) * (1 - 1 / (1 + 2 * z))) / 2
        case PoissonSampled():
            return sampled_transform(event, z, added)
        case _:
            atoms = atoms_of(event)
            assert atoms is not None
            return sum(float(mass) * np.exp(z * float(loss)) for loss, mass in atoms if loss != mp.inf)


def sampled_transform(event: PoissonSampled, z: Any, added: bool) -> Any:
    """The same for a sample of a normal answer, by the trapezoid rule."""
    assert isinstance(event.event, Gaussian)
    mu, q = math.sqrt(event.event.mu_squared), float(event.probability)
    highest = float(z.real.max()) * mu if not added else 0.0
    x = np.arange(-14.0 - highest * added, 14.0 + highest + mu, SPACING)
    losses = np.logaddexp(math.log1p(-q), math.log(q) + mu * x - mu * mu / 2)
    log_mass = -x * x / 2 - math.log(2 * math.pi) / 2 + math.log(SPACING)
    exponents = -losses if added else losses
    log_mass = log_mass if added else log_mass + losses
    parts = np.array_split(z, max(1, z.size // 256))
    return np.concatenate([np.exp(np.outer(part, exponents) + log_mass).sum(axis=1) for part in parts])


def _mu(event: PoissonSampled) -> float:
    assert isinstance(event.event, Gaussian)
    return math.sqrt(event.event.mu_squared)


def contour_delta(events: tuple[PrivacyEvent, ...], epsilon: float) -> float | None:
    """Delta by the integral of the transform along a line, in floats; None if the transform does not fall for good."""
    if any(isinstance(event, PoissonSampled) and not isinstance(event.event, Gaussian) for event in events):
        return None
    if any(isinstance(event, DiscreteGaussian) for event in events):
        return None  # its transform returns to its full size further out
    fails = -math.expm1(
        sum(e.multiplicity * math.log1p(-float(e.delta)) for e in events if isinstance(e, ApproximateDP))
    )
    found = []
    for added in (False, True):

        def log_moment(z: Any) -> Any:
            return sum(
                event.multiplicity * np.log(transform(event, z, added))  # type: ignore[union-attr] # noqa: B023
                for event in events
            )

        lines = np.exp(np.linspace(-4, 5, 40)).astype(np.complex128)
        heights = (log_moment(lines) - lines * epsilon - np.log(lines * (lines + 1))).real
        s = float(lines[int(np.nanargmin(heights))].real)
        scale = float(np.nanmin(heights))
        width = 1.0
        ends = np.array([s + 1j * 2.0**power for power in range(-3, 15)])
        sizes = (log_moment(ends) - ends * epsilon - np.log(ends * (ends + 1))).real
        small = np.flatnonzero(sizes < scale - 34)
        if not small.size:
            return None
        width = 2.0 ** (int(small[0]) - 3)
        step = min(width / 2000, 0.02 * s + 1e-3)
        fastest = max((_mu(event) for event in events if isinstance(event, PoissonSampled)), default=0.0)
        if width / step > MOST_NODES or width * fastest * SPACING > 1:
            return None
        u = np.arange(0.0, width, step)
        z = s + 1j * u
        logs = log_moment(z)
        values = np.exp(logs - z * epsilon - np.log(z) - np.log(z + 1)).real
        # An upper half of a Riemann sum; at u = 0 the weight is a half.
        found.append((values.sum() - values[0] / 2) * step / math.pi)
    return max(found) + fails


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
                else:
                    one = pld.from_laplace_mechanism(float(inner.scale), sampling_prob=q, **ends)  # type: ignore[union-attr]
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
    """Normal noise in the place of a mechanism of which only rho is known."""
    return Gaussian(1 / (2 * event.rho)) if isinstance(event, ZCDP) else event


def truth(
    events: tuple[PrivacyEvent, ...], epsilon: float, exact: Callable[[Any], Any] | None
) -> tuple[str, float, float]:
    """An independent delta at an epsilon, from both sides, and how it was found."""
    if exact is not None:
        with mp.workdps(50):
            value = float(exact(number(Fraction(epsilon))))
        return "mpmath", value * (1 - 1e-13) - 1e-45, value * (1 + 1e-13) + 1e-45  # 50 digits are kept
    value = contour_delta(events, epsilon)
    if value is not None:
        return "contour", value * (1 - 1e-8) - 1e-13, value * (1 + 1e-8) + 1e-13
    optimistic, pessimistic = (by_pld(events, None, epsilon, up) for up in (False, True))
    assert optimistic is not None
    assert pessimistic is not None
    return "peer", optimistic * (1 - 1e-6) - 1e-11, pessimistic * (1 + 1e-6) + 1e-11


def rows(count: int, prv: str | None, part: int, parts: int) -> Iterator[dict[str, Any]]:
    """One row a composition, of those whose number leaves `part` if it is divided by `parts`."""
    draw = random.Random(20)
    child = None
    if prv:
        child = subprocess.Popen([prv, "-c", PRV], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for index in range(count):
        events, delta = drawn(draw), draw.choice(DELTAS)
        if index % parts != part:
            continue
        start = time.process_time()
        guarantee = compose(*events, neighbours="unbounded")
        ours = guarantee.epsilon(delta)
        middle = time.process_time()
        row: dict[str, Any] = {
            "index": index,
            "events": [str(event) for event in events],
            "kinds": sorted({type(event).__name__ for event in events}),
            "delta": delta,
            "lower": ours.lower,
            "upper": ours.upper,
            "seconds": middle - start,
            "engine": guarantee.engines,
        }
        known = tuple(map(attained, events))
        with mp.workdps(50):
            exact = exact_delta(known)
        row["checks"] = checks(known, guarantee, ours, exact)
        row["seconds_checks"] = time.process_time() - middle
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
    events: tuple[PrivacyEvent, ...], guarantee: Any, ours: Any, exact: Callable[[Any], Any] | None
) -> list[dict[str, Any]]:
    """Independent values of delta beside the certified bounds, at an epsilon close to the one that is claimed."""
    middle = ours.upper if math.isfinite(ours.upper) and ours.upper > 0 else 1.0
    found = []
    for epsilon in (0.999 * middle,):
        way, low, high = truth(events, epsilon, exact)
        bounds = guarantee.delta(epsilon)
        inside = bool(low <= bounds.upper and bounds.lower <= high)
        found.append(
            {
                "epsilon": epsilon,
                "way": way,
                "value": [low, high],
                "lower": bounds.lower,
                "upper": bounds.upper,
                "inside": inside,
            }
        )
    return found


def summary(path: Path) -> None:
    """Print where the others are below the truth, or more than one per cent above it."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    ways = [check["way"] for row in rows for check in row["checks"]]
    print(
        f"{len(rows)} compositions; {sum(not c['inside'] for r in rows for c in r['checks'])} values outside of bounds"
    )
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
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--prv")
    parser.add_argument("--out", type=Path, default=Path("accounting_random.jsonl"))
    parser.add_argument("--part", default="0/1", help="0/2 and 1/2 share the work between two processes")
    parser.add_argument("--summary", type=Path)
    arguments = parser.parse_args()
    if arguments.summary:
        summary(arguments.summary)
        return
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    wrong = 0
    with arguments.out.open("w") as file:
        part, parts = map(int, arguments.part.split("/"))
        for row in rows(arguments.count, arguments.prv, part, parts):
            file.write(json.dumps(row) + "\n")
            file.flush()
            wrong += not all(check["inside"] for check in row["checks"])
    print(f"{arguments.count} compositions, {wrong} with a value outside of the bounds")
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
