"""Time of one delta and of one epsilon, by engine, beside dp_accounting's privacy loss distributions, on one core.

python benchmarks/accounting.py [--rounds 5] [--json FILE]
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
from dp_accounting.pld import privacy_loss_distribution

from tallyveil.accounting import Neighbours
from tallyveil.accounting.composition import compose
from tallyveil.accounting.events import DiscreteGaussian, DiscreteLaplace, PrivacyEvent
from tallyveil.errors import BudgetError

SHARES = (20, 274, 85, 131, 238, 118, 3)
COUNTS = (10, 10, 10, 20, 10, 10, 10)
PEER_INTERVAL = 1e-4


def compositions() -> dict[str, tuple[PrivacyEvent, ...]]:
    """What is accounted for."""
    census = tuple(
        DiscreteGaussian(Fraction(10) / (2 * Fraction(share, 1000) * Fraction(365, 100)), 1, count)
        for share, count in zip(SHARES, COUNTS, strict=True)
    )
    mixed = (DiscreteGaussian(Fraction(5), 1, 10), DiscreteLaplace(Fraction(4), 1, 10))
    return {"eight levels": census, "Gaussian and Laplace": mixed}


def milliseconds(call: Callable[[], Any]) -> float:
    """Time of one call."""
    start = time.perf_counter()
    call()
    return 1000 * (time.perf_counter() - start)


def ours(events: tuple[PrivacyEvent, ...], engine: str, rounds: int) -> dict[str, Any] | None:
    """One engine on one composition, or None where it does not take it."""
    try:
        made = compose(*events, neighbours=Neighbours.UNBOUNDED, engine=engine)
    except BudgetError:
        return None
    made.log_delta(3)
    deltas = [milliseconds(lambda at=15 + turn: made.log_delta(at)) for turn in range(rounds)]
    at_10 = [milliseconds(lambda: made.epsilon("1e-10")) for _ in range(rounds)]
    found, far = made.epsilon("1e-10"), made.epsilon("1e-300")
    return {
        "engine": engine,
        "ms a delta": statistics.median(deltas),
        "ms an epsilon": statistics.median(at_10),
        "epsilon at 1e-10": (found.lower, found.upper),
        "width at 1e-300": far.width,
    }


def peer(events: tuple[PrivacyEvent, ...]) -> dict[str, Any]:
    """dp_accounting: connect the dots above, and its optimistic value below."""
    bounds, spent = [], 0.0
    for pessimistic in (False, True):
        start = time.perf_counter()
        total = None
        for event in events:
            if isinstance(event, DiscreteGaussian):
                one = privacy_loss_distribution.from_discrete_gaussian_mechanism(
                    math.sqrt(event.variance),
                    pessimistic_estimate=pessimistic,
                    value_discretization_interval=PEER_INTERVAL,
                )
            else:
                one = privacy_loss_distribution.from_discrete_laplace_mechanism(
                    1 / float(event.scale),
                    pessimistic_estimate=pessimistic,
                    value_discretization_interval=PEER_INTERVAL,
                )
            part = one.self_compose(event.multiplicity)
            total = part if total is None else total.compose(part)
        bounds.append(total.get_epsilon_for_delta(1e-10))
        spent += time.perf_counter() - start
    reached = min(
        (e for e in range(10, 300) if total.get_epsilon_for_delta(10.0**-e) == math.inf), default=300
    )
    return {
        "engine": "dp_accounting",
        "ms an epsilon": 1000 * spent,
        "epsilon at 1e-10": tuple(bounds),
        "smallest delta": 10.0 ** -(reached - 1),
    }


def headlines(rows: list[dict[str, Any]]) -> Iterator[headline.Headline]:
    """Our own choice of engine beside the peer, composition by composition."""
    peers = {row["composition"]: row["ms an epsilon"] for row in rows if row["engine"] == "dp_accounting"}
    for row in rows:
        if row["engine"] == "auto":
            own = row["ms an epsilon"]
            ratio = peers[row["composition"]] / own
            yield headline.Headline(
                f"epsilon of {row['composition']}", f"{own:.2f} ms", "times dp_accounting", ratio
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    headline.add_option(parser)
    arguments = parser.parse_args()
    rows = []
    for name, events in compositions().items():
        for engine in ("auto", "closed_form", "quadrature", "tilted_fft", "rounded_fft"):
            row = ours(events, engine, arguments.rounds)
            if row is not None:
                rows.append({"composition": name, **row})
        rows.append({"composition": name, **peer(events)})
    for row in rows:
        print("  ".join(f"{key} {value}" for key, value in row.items()))
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))
    headline.write(arguments.headline, list(headlines(rows)))


if __name__ == "__main__":
    main()
