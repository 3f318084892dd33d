"""Epsilon of noise of all kinds: ours, and dp_accounting's privacy loss distributions at two settings, in one run.

python benchmarks/accounting_kinds.py [--rounds 3]

A time is processor time of preparing the composition and of one epsilon; the median of the rounds. Imports are not
counted. dp_accounting connects the dots. Its bounds are pessimistic, and its distance from ours is stated.
"""

import argparse
import math
import statistics
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import dp_accounting
import headline
from dp_accounting import rdp
from dp_accounting.pld import privacy_loss_distribution as pld

from tallyveil.accounting import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    MixtureOfGaussians,
    PoissonSampled,
    PrivacyEvent,
    RandomizedResponse,
    SampledWithoutReplacement,
    SampledWithReplacement,
    TruncatedPoissonSampled,
    compose,
)

INTERVALS = (1e-4, 1e-5)
"""Discretisations of dp_accounting: its own default, and a tenth of it."""

LONGEST = 20.0
"""Seconds of one setting of dp_accounting from which a finer one is not asked for."""

SGD = PoissonSampled(Gaussian(1, 1), Fraction(1, 100), 10_000)

CURVE = "curve"
"""In the place of a delta: 15 points of the trade-off function, of which dp_accounting has none."""

WORKLOADS: dict[str, tuple[tuple[PrivacyEvent, ...], str]] = {
    "1,000 Laplace, scale 10": ((Laplace(10, 1, 1000),), "1e-6"),
    "DP-SGD: sigma 1, q 0.01, 10,000 steps": ((SGD,), "1e-5"),
    "real, sampled and discrete": (
        (
            PoissonSampled(Gaussian(1, 1), Fraction(1, 100), 1000),
            Gaussian(4, 1, 3),
            Laplace(10, 1, 5),
            DiscreteGaussian(10, 1, 5),
        ),
        "1e-6",
    ),
    "three discrete Laplace scales, 16 answers": (
        (DiscreteLaplace("3.37", 1, 5), DiscreteLaplace("7.113", 1, 8), DiscreteLaplace("2.29", 2, 3)),
        "1e-8",
    ),
    "31 answers of 40 options": ((RandomizedResponse(1, 40, 31),), "1e-8"),
    "discrete Laplace and Gaussian, large delta": (
        (DiscreteLaplace(2, 1, 20), DiscreteGaussian(3, 1, 40)),
        "0.97",
    ),
    "trade-off function of 3 Laplace answers": ((Laplace(1, 1, 3),), CURVE),
    "DP-SGD at delta 1e-30": ((SGD,), "1e-30"),
    "DP-SGD: sigma 0.8, q 0.004, 50,000 steps": (
        (PoissonSampled(Gaussian(Fraction(16, 25), 1), Fraction(4, 1000), 50_000),),
        "1e-6",
    ),
    "100 samples, q 0.1, of normal noise": ((PoissonSampled(Gaussian(1, 1), Fraction(1, 10), 100),), "1e-5"),
    "4 samples, q 0.1, of normal noise": ((PoissonSampled(Gaussian(1, 1), Fraction(1, 10), 4),), "1e-6"),
    "40 samples, q 0.001, of normal noise": (
        (PoissonSampled(Gaussian(1, 1), Fraction(1, 1000), 40),),
        "1e-6",
    ),
    "10 samples, q 0.1, of Laplace noise": ((PoissonSampled(Laplace(1, 1), Fraction(1, 10), 10),), "1e-6"),
    "40 samples, q 0.1, of discrete Gaussian noise": (
        (PoissonSampled(DiscreteGaussian(1), Fraction(1, 10), 40),),
        "1e-6",
    ),
    "1,000 samples, q 0.1, of Laplace noise": (
        (PoissonSampled(Laplace(1, 1), Fraction(1, 10), 1000),),
        "1e-6",
    ),
    "two phases of DP-SGD": (
        (
            PoissonSampled(Gaussian(1, 1), Fraction(1, 100), 2000),
            PoissonSampled(Gaussian(4, 1), Fraction(1, 20), 3000),
        ),
        "1e-6",
    ),
    "100 Laplace, scale 1": ((Laplace(1, 1, 100),), "1e-6"),
    "3 Laplace and a normal answer": ((Laplace(2, 1, 3), Gaussian(4, 1)), "1e-8"),
    "50 answers, five Laplace scales": (tuple(Laplace(10 + i, 1, 10) for i in range(5)), "1e-8"),
    "1,000 samples, q 0.1, of discrete Laplace noise": (
        (PoissonSampled(DiscreteLaplace(1), Fraction(1, 10), 1000),),
        "1e-6",
    ),
    "one sample, q 0.1, of normal noise": ((PoissonSampled(Gaussian(1), Fraction(1, 10)),), "1e-5"),
    "50 mixtures of three normal laws": (
        (MixtureOfGaussians(1, [0, 1, 2], ["9/10", "9/100", "1/100"], 50),),
        "1e-6",
    ),
    "truncated samples: 10,000 steps, batch 150": (
        (TruncatedPoissonSampled(Gaussian(1), Fraction(1, 100), 150, 10_000, 10_000),),
        "1e-5",
    ),
    "samples without replacement: 10,000 steps": (
        (SampledWithoutReplacement(Gaussian(1), 100, 10_000, 10_000),),
        "1e-5",
    ),
    "samples with replacement: 10,000 steps, sigma 2": (
        (SampledWithReplacement(Gaussian(4), 100, 10_000, 10_000),),
        "1e-5",
    ),
}


def peer_part(event: Any, interval: float) -> Any:
    """dp_accounting's distribution of one event."""
    options = {"value_discretization_interval": interval}
    match event:
        case PoissonSampled(inner, q, n):
            options["sampling_prob"] = float(q)
            return peer_part_of(inner, options).self_compose(n)
        case MixtureOfGaussians(variance, moves, shares, n):
            lists = [float(move) for move in moves], [float(share) for share in shares]
            return pld.from_mixture_gaussian_mechanism(math.sqrt(variance), *lists, **options).self_compose(n)
        case TruncatedPoissonSampled(Gaussian() as inner, p, largest, records, n):
            deviation = 1 / math.sqrt(inner.mu_squared)
            part = pld.from_truncated_subsampled_gaussian_mechanism(
                records, float(p), largest, deviation, **options
            )
            return part.self_compose(n)
        case RandomizedResponse(epsilon, k, n):
            # Its parameter is the probability with which an answer is replaced by any of the options.
            noise = k / (math.exp(epsilon) + k - 1)
            return pld.from_randomized_response(noise, k, **options).self_compose(n)
        case _:
            return peer_part_of(event, options).self_compose(event.multiplicity)


def peer_part_of(event: Any, options: dict[str, float]) -> Any:
    """The same for one answer, on a sample if the options say so."""
    match event:
        case Gaussian():
            return pld.from_gaussian_mechanism(1 / math.sqrt(event.mu_squared), **options)
        case Laplace():
            return pld.from_laplace_mechanism(1 / float(event.epsilon), **options)
        case DiscreteGaussian():
            return pld.from_discrete_gaussian_mechanism(
                math.sqrt(event.variance), event.sensitivity, **options
            )
        case DiscreteLaplace():
            # Its own class of samples takes none of discrete Laplace noise.
            if "sampling_prob" in options:
                raise NotImplementedError
            return pld.from_discrete_laplace_mechanism(1 / float(event.scale), event.sensitivity, **options)
        case _:
            raise NotImplementedError


def timed(compute: Callable[[], Any], rounds: int) -> tuple[Any, float]:
    """What a function returns, and its processor time in seconds."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        answer = compute()
        times.append(time.process_time() - start)
        if times[-1] > 2:  # slow ones need no median
            break
    return answer, statistics.median(times)


def ours(events: tuple[PrivacyEvent, ...], delta: str) -> Any:
    """Bounds of epsilon, or of the trade-off function where they are widest, with all preparation."""
    fixed = any(isinstance(event, SampledWithoutReplacement | SampledWithReplacement) for event in events)
    guarantee = compose(*events, neighbours="bounded" if fixed else "unbounded")
    if delta == CURVE:
        return max(guarantee.tradeoff_curve(15)[1], key=lambda bounds: bounds.upper - bounds.lower)
    return guarantee.epsilon(delta)


def peer(events: tuple[PrivacyEvent, ...], delta: str, interval: float) -> float:
    """dp_accounting's pessimistic epsilon."""
    if delta == CURVE:
        raise NotImplementedError
    if isinstance(events[0], SampledWithoutReplacement):
        return renyi_peer(events[0], float(delta), interval)
    total = None
    for event in events:
        part = peer_part(event, interval)
        total = part if total is None else total.compose(part)
    assert total is not None
    return float(total.get_epsilon_for_delta(float(delta)))


def renyi_peer(event: SampledWithoutReplacement, delta: float, interval: float) -> float:
    """dp_accounting's Renyi accountant, which alone knows these samples: its usual orders, or a thousand of them."""
    orders = None if interval == INTERVALS[0] else [1.01 * 1.006**i for i in range(1000)]
    accountant = rdp.RdpAccountant(orders, dp_accounting.NeighboringRelation.REPLACE_ONE)
    assert isinstance(event.event, Gaussian)
    inner = dp_accounting.GaussianDpEvent(1 / math.sqrt(event.event.mu_squared))
    step = dp_accounting.SampledWithoutReplacementDpEvent(event.records, event.sample_size, inner)
    accountant.compose(dp_accounting.SelfComposedDpEvent(step, event.multiplicity))
    return float(accountant.get_epsilon(delta))


def headlines(rows: list[tuple[str, float, float]]) -> Iterator[headline.Headline]:
    """Ours beside the default setting of the peer."""
    for name, here, there in rows:
        yield headline.Headline(
            f"epsilon of {name}", f"{1000 * here:.0f} ms", "times dp_accounting", there / here
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    headline.add_option(parser)
    arguments = parser.parse_args()
    compose(SGD, neighbours="unbounded").epsilon("1e-3")  # what is loaded and made once
    rows = []
    for name, (events, delta) in WORKLOADS.items():
        bounds, here = timed(lambda: ours(events, delta), arguments.rounds)  # noqa: B023 (called at once)
        width, shown = bounds.upper - bounds.lower, "–" if delta == CURVE else f"{bounds.upper:.10g}"
        line = f"| {name} | {delta} | {shown} | {width:.1e} | {1000 * here:,.0f} |"
        for interval in INTERVALS:
            try:
                epsilon, there = timed(lambda: peer(events, delta, interval), arguments.rounds)  # noqa: B023
            except NotImplementedError:
                line += " – | – |"
                continue
            line += f" {epsilon - bounds.upper:+.1e} | {1000 * there:,.0f} |"
            if interval == INTERVALS[0]:
                rows.append((name, here, there))
            if interval == INTERVALS[0] and there > LONGEST:
                line += " – | – |"
                break
        print(line, flush=True)
    headline.write(arguments.headline, list(headlines(rows)))


if __name__ == "__main__":
    main()
