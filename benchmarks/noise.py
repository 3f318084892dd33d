"""How many exact discrete Gaussian draws a second: Tallyveil's noise source and OpenDP, on one core.

Rounds of both are interleaved, so that a machine that slows down slows both; the table shows medians.

    python benchmarks/noise.py [--rounds 7] [--json FILE]
"""

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import headline
import numpy as np
import opendp.prelude as dp

from tallyveil.noise import DiscreteGaussian, NoiseSource, insecure_key

VARIANCES = ("5", "68.49", "456.62", "10000")
N_ANSWERS = 2016
N_GEOUNITS = 1000
N_SCATTERED = 1_000_000
N_PEER = 20_000


def ours(law: DiscreteGaussian) -> dict[str, tuple[int, Callable[[], Any]]]:
    """What is timed, with the number of draws of one call."""
    noise = NoiseSource(insecure_key("benchmark"))
    many = np.zeros((N_GEOUNITS, N_ANSWERS), dtype=np.int64)
    many32 = np.zeros((N_GEOUNITS, N_ANSWERS), dtype=np.int32)
    zeros = np.zeros((1, N_GEOUNITS * N_ANSWERS), dtype=np.int64)
    random = np.random.default_rng(1)
    geounits = random.integers(0, 8_000_000, N_SCATTERED)
    answers = random.integers(0, N_ANSWERS, N_SCATTERED)
    return {
        "dense": (many.size, lambda: noise.dense(law, 3, 1, range(N_GEOUNITS), N_ANSWERS, many)),
        "dense int32": (many.size, lambda: noise.dense(law, 3, 1, range(N_GEOUNITS), N_ANSWERS, many32)),
        "dense, one geounit": (zeros.size, lambda: noise.dense(law, 3, 1, range(1), zeros.size, zeros)),
        "added in place": (many.size, lambda: noise.add_dense(law, 3, 1, range(N_GEOUNITS), many)),
        "scattered": (N_SCATTERED, lambda: noise.at(law, 3, 1, geounits, answers)),
    }


def peer(law: DiscreteGaussian) -> Callable[[], Any]:
    """OpenDP's exact discrete Gaussian on a vector of integers."""
    dp.enable_features("contrib")
    mechanism = dp.m.make_gaussian(
        dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float), scale=math.sqrt(law.variance)
    )
    zeros = [0] * N_PEER
    return lambda: mechanism(zeros)


def rate(n_draws: int, call: Callable[[], Any]) -> float:
    """Draws a second of one call."""
    start = time.perf_counter()
    call()
    return n_draws / (time.perf_counter() - start)


def measure(variance: str, rounds: int) -> dict[str, float]:
    """Median rates by name."""
    law = DiscreteGaussian(Fraction(variance))
    calls = {**ours(law), "OpenDP": (N_PEER, peer(law))}
    for _, call in calls.values():
        call()  # compiles, certifies the table, touches the memory
    rates: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, (n_draws, call) in calls.items():
            rates[name].append(rate(n_draws, call))
    return {name: statistics.median(values) for name, values in rates.items()}


def headlines(results: dict[str, dict[str, float]]) -> Iterator[headline.Headline]:
    """The slowest variance of every shape, beside OpenDP's sampler."""
    for name in next(iter(results.values())):
        if name != "OpenDP":
            rates = min(results.values(), key=lambda rates_of: rates_of[name] / rates_of["OpenDP"])
            speed = f"{rates[name] / 1e6:.1f} M draws/s"
            yield headline.Headline(name, speed, "times OpenDP", rates[name] / rates["OpenDP"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    headline.add_option(parser)
    options = parser.parse_args()
    results = {variance: measure(variance, options.rounds) for variance in VARIANCES}
    print(f"{'variance':>9} {'shape':<20} {'M draws/s':>10} {'OpenDP':>8} {'ratio':>8}")
    for variance, rates in results.items():
        base = rates["OpenDP"]
        for name, value in rates.items():
            if name != "OpenDP":
                print(
                    f"{variance:>9} {name:<20} {value / 1e6:>10.1f} {base / 1e6:>8.4f} {value / base:>8.0f}"
                )
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=2) + "\n")
    headline.write(options.headline, list(headlines(results)))


if __name__ == "__main__":
    main()
