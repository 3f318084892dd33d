"""Epsilon of 25 compositions by dp_accounting, beside certified bounds: where it is loose, and where it is wrong.

python benchmarks/accounting_compared.py [--delta 1e-10]

Each row has our bounds, and two values of dp_accounting: its privacy loss distribution (PLD: discrete laws, "connect
the dots", pessimistic, with its own default of the discretisation) and its accountant by Renyi differential privacy
(RDP). The number behind a plus is by how much a value exceeds the truth. A value below our lower bound is marked
WRONG: it claims more privacy than there is. The RDP accountant has continuous laws only, and gets those.
"""

import argparse
import math
import random
import time
import warnings
from collections.abc import Iterator
from fractions import Fraction

import dp_accounting
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.rdp import RdpAccountant

from tallyveil.accounting import DiscreteGaussian, DiscreteLaplace, Neighbours, compose
from tallyveil.accounting.events import PrivacyEvent

SHARES = (20, 274, 85, 131, 238, 118, 3)
COUNTS = (10, 10, 10, 20, 10, 10, 10)

Events = tuple[PrivacyEvent, ...]


def compositions() -> Iterator[tuple[str, Events]]:
    """Names and events; the random ones are drawn from a fixed seed."""
    census = tuple(
        DiscreteGaussian(Fraction(10_000_000, 2 * share * 3650), 1, count)
        for share, count in zip(SHARES, COUNTS, strict=True)
    )
    yield "census paper, eight geolevels", census
    for variance in ("1/4", "1/2", "1", "5", "68.49", "1e4"):
        yield f"one answer, variance {variance}", (DiscreteGaussian(variance),)
        yield f"ten answers, variance {variance}", (DiscreteGaussian(variance, 1, 10),)
    for scale in ("1/2", "4", "100"):
        yield f"ten answers, Laplace {scale}", (DiscreteLaplace(scale, 1, 10),)
    yield "1,000 answers, variance 1e5", (DiscreteGaussian("1e5", 1, 1000),)
    yield "sensitivity 3, variance 20", (DiscreteGaussian(20, 3, 5),)
    yield "sensitivity 3, Laplace 5", (DiscreteLaplace(5, 3, 5),)
    yield "Gaussian and Laplace", (DiscreteGaussian(5, 1, 10), DiscreteLaplace(4, 1, 10))
    draw = random.Random(1)
    for number in range(1, 6):
        yield (
            f"five kinds, drawn ({number})",
            tuple(
                DiscreteGaussian(Fraction(draw.randrange(300, 9000), 97), 1, draw.randint(1, 9))
                for _ in range(5)
            ),
        )


def by_pld(events: Events, delta: float) -> float:
    """Privacy loss distributions, pessimistic."""
    total = None
    for event in events:
        if isinstance(event, DiscreteGaussian):
            loss = pld.from_discrete_gaussian_mechanism(math.sqrt(event.variance), event.sensitivity)
        else:
            assert isinstance(event, DiscreteLaplace)
            loss = pld.from_discrete_laplace_mechanism(1 / float(event.scale), event.sensitivity)
        part = loss.self_compose(event.multiplicity)
        total = part if total is None else total.compose(part)
    assert total is not None
    return float(total.get_epsilon_for_delta(delta))


def by_rdp(events: Events, delta: float) -> float:
    """Renyi differential privacy; nan where it has no such mechanism."""
    accountant = RdpAccountant()
    for event in events:
        if isinstance(event, DiscreteGaussian):
            noise = dp_accounting.GaussianDpEvent(math.sqrt(event.variance) / event.sensitivity)
        else:
            assert isinstance(event, DiscreteLaplace)
            noise = dp_accounting.LaplaceDpEvent(float(event.scale) / event.sensitivity)
        accountant.compose(noise, event.multiplicity)
    return float(accountant.get_epsilon(delta))


def verdict(value: float, lower: float, upper: float) -> str:
    """By how much a value is above the truth, or that it is below it."""
    if value < lower:
        return f"WRONG by {lower - value:.1e}"
    return f"+{max(value - upper, 0.0):.1e}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--delta", default="1e-10")
    delta = parser.parse_args().delta
    warnings.simplefilter("ignore")
    print(f"{'composition':33} {'epsilon':>14} {'width':>7} {'PLD':>16} {'RDP':>16} {'ms':>7} {'ms PLD':>7}")
    for name, events in compositions():
        start = time.process_time()
        ours = compose(*events, neighbours=Neighbours.UNBOUNDED).epsilon(delta)
        middle = time.process_time()
        peer = by_pld(events, float(delta))
        end = time.process_time()
        verdicts = [
            verdict(stated, ours.lower, ours.upper) for stated in (peer, by_rdp(events, float(delta)))
        ]
        times = f"{1000 * (middle - start):7.1f} {1000 * (end - middle):7.0f}"
        print(
            f"{name:33} {ours.upper:14.9f} {ours.width:7.0e} {verdicts[0]:>16} {verdicts[1]:>16} {times}",
            flush=True,
        )


if __name__ == "__main__":
    main()
