"""Every engine on a table of workloads: width of epsilon's bounds, processor time, and where each one is the best.

python benchmarks/accounting.py [--rounds 3] [--json FILE]
python benchmarks/accounting.py --spines

A time is that of preparing the composition and of one epsilon at delta 1e-10. Two of the workloads are also given to
dp_accounting's privacy loss distributions, on one core. `--spines` accounts for the products of the 2020 Census on
spines that have every kind of path that bypassing only children can make, each product alone and several together.
"""

import argparse
import itertools
import json
import math
import random
import statistics
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import headline
from dp_accounting.pld import privacy_loss_distribution

from tallyveil.accounting import Neighbours
from tallyveil.accounting.engines.choose import ENGINES
from tallyveil.accounting.events import (
    DiscreteGaussian,
    DiscreteLaplace,
    ParallelEvent,
    PrivacyEvent,
    SequentialEvent,
)
from tallyveil.accounting.guarantee import compose
from tallyveil.accounting.losses import number_of_laws
from tallyveil.accounting.proved import upper_bound
from tallyveil.budget.presets import load_strategy_preset
from tallyveil.errors import BudgetError, SolverError

SHARES = (20, 274, 85, 131, 238, 118, 3)
COUNTS = (10, 10, 10, 20, 10, 10, 10)
PEER_INTERVAL = 1e-4


PEERED = ("eight levels", "Gaussian and Laplace")
ASKED = tuple(
    engine for engine in ENGINES if engine not in {"proved", "cells"}
)  # minutes for a whole release

# Nobody needs closer bounds of epsilon than this; among engines that reach it the fastest is the best.
CLOSE = 1e-6


def compositions() -> dict[str, tuple[PrivacyEvent, ...]]:
    """What is accounted for: noise of releases first, then what is hard for one engine or another."""
    census = tuple(
        DiscreteGaussian(Fraction(10) / (2 * Fraction(share, 1000) * Fraction(365, 100)), 1, count)
        for share, count in zip(SHARES, COUNTS, strict=True)
    )
    draw = random.Random(1)
    drawn = tuple(
        DiscreteGaussian(Fraction(draw.randrange(300, 9000), 97), 1, draw.randint(1, 9)) for _ in range(5)
    )
    unlike = tuple(DiscreteGaussian(Fraction(1000 + 7 * i, 31 + i)) for i in range(12))
    laplaces = (DiscreteLaplace("3.37", 1, 5), DiscreteLaplace("7.113", 1, 8))
    narrow = (DiscreteGaussian("0.1271", 1, 3), DiscreteGaussian("0.2237", 1, 2))
    return {
        "one level": (DiscreteGaussian(5, 1, 10),),
        "eight levels": census,
        "redistricting data 2020": (load_strategy_preset("redistricting-us").strategy.event(),),
        "five kinds, drawn": drawn,
        "twelve kinds": unlike,
        "twelve kinds, one narrow": (*unlike, DiscreteGaussian("1/5")),
        "two kinds, no lattice": (DiscreteGaussian("5.0001", 1, 10), DiscreteGaussian("68.49317", 1, 10)),
        "2,000 answers": (DiscreteGaussian("100.01", 1, 1000), DiscreteGaussian("133.37", 1, 1000)),
        "narrow": (DiscreteGaussian("1/5", 1, 3),),
        "narrow, two kinds": narrow,
        "nearly narrow, no lattice": tuple(
            DiscreteGaussian(variance, 1, n) for variance, n in (("0.71", 2), ("1.333337", 2), ("0.31271", 3))
        ),
        "Gaussian and Laplace": (DiscreteGaussian(5, 1, 10), DiscreteLaplace(4, 1, 10)),
        "Gaussian and Laplace, no lattice": (DiscreteGaussian("20.01"), *laplaces),
        "narrow and Laplace, no lattice": (narrow[0], *laplaces),
        "three Laplace scales": (*laplaces, DiscreteLaplace("2.29", 2, 3)),
        "eight Laplace scales": tuple(
            DiscreteLaplace(Fraction(10007 + 97 * i * i, 1000 + i), 1 + i % 3, 6) for i in range(8)
        ),
        "forty Laplace scales": tuple(
            DiscreteLaplace(Fraction(50007 + 97 * i * i, 1000 + i), 1, 25) for i in range(40)
        ),
        "Laplace, 20,000 steps": (
            DiscreteLaplace("9001.7", 20_000, 3),
            DiscreteLaplace("6000.13", 15_000, 4),
        ),
    }


def ours(events: tuple[PrivacyEvent, ...], engine: str, rounds: int) -> dict[str, Any] | None:
    """One engine on one composition, or None where it does not take it."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        try:
            guarantee = compose(*events, neighbours=Neighbours.UNBOUNDED, engine=engine)
            epsilon = guarantee.epsilon("1e-10")
        except (BudgetError, SolverError):
            return None
        times.append(time.process_time() - start)
        if times[-1] > 1:  # slow engines need no average
            break
    return {
        "engine": engine,
        "by": guarantee.engines[0],
        "epsilon at 1e-10": (epsilon.lower, epsilon.upper),
        "width": epsilon.width,
        "ms an epsilon": 1000 * statistics.median(times),
    }


def best(rows: list[dict[str, Any]]) -> str:
    """The fastest engine whose bounds are close enough, else the one whose bounds are closest."""
    # Some compositions no engine takes alone: "auto" then gives parts of them to different engines.
    engines = [row for row in rows if row["engine"] != "auto"] or rows
    close = [row for row in engines if row["width"] <= CLOSE]
    if not close:
        return str(min(engines, key=lambda row: row["width"])["engine"])
    return str(min(close, key=lambda row: row["ms an epsilon"])["engine"])


def peer(events: tuple[PrivacyEvent, ...]) -> dict[str, Any]:
    """dp_accounting: connect the dots above, and its optimistic value below."""
    bounds, spent = [], 0.0
    for pessimistic in (False, True):
        start = time.perf_counter()
        total = None
        for event in events:
            if isinstance(event, DiscreteGaussian):
                answer = privacy_loss_distribution.from_discrete_gaussian_mechanism(
                    math.sqrt(event.variance),
                    pessimistic_estimate=pessimistic,
                    value_discretization_interval=PEER_INTERVAL,
                )
            elif isinstance(event, DiscreteLaplace):
                answer = privacy_loss_distribution.from_discrete_laplace_mechanism(
                    1 / float(event.scale),
                    pessimistic_estimate=pessimistic,
                    value_discretization_interval=PEER_INTERVAL,
                )
            else:
                raise TypeError(f"dp_accounting is compared for discrete noise alone, not for {event!r}")
            part = answer.self_compose(event.multiplicity)
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
        if row["engine"] == "auto" and row["composition"] in peers:
            time_taken = row["ms an epsilon"]
            ratio = peers[row["composition"]] / time_taken
            yield headline.Headline(
                f"epsilon of {row['composition']}", f"{time_taken:.2f} ms", "times dp_accounting", ratio
            )


TOGETHER = {
    "persons": ("redistricting-us",),
    "units": ("redistricting-units-us",),
    "DHC persons": ("dhc-persons-us",),
    "DHC units": ("dhc-units-us",),
    "persons, units": ("redistricting-us", "redistricting-units-us"),
    "persons, DHC persons": ("redistricting-us", "dhc-persons-us"),
    "units, DHC units": ("redistricting-units-us", "dhc-units-us"),
    "all four": ("redistricting-us", "redistricting-units-us", "dhc-persons-us", "dhc-units-us"),
    "Puerto Rico, all four": (
        "redistricting-state-rooted",
        "redistricting-units-state-rooted",
        "dhc-persons-state-rooted",
        "dhc-units-state-rooted",
    ),
}


def on_every_path(name: str) -> PrivacyEvent:
    """A product on a spine in which any geounit below the root may have an only child, and is bypassed if it has."""
    strategy = load_strategy_preset(name).strategy
    shares = [dict(strategy.geolevel_shares)[geolevel] for geolevel in strategy.geolevels]
    kinds = set()
    for bypassed in itertools.product((False, True), repeat=len(shares) - 2):
        moved = list(shares)
        for level in range(len(shares) - 2, 0, -1):
            if bypassed[level - 1]:
                moved[level], moved[level + 1] = moved[level] + moved[level + 1], Fraction(0)
        kinds.add(tuple(moved))
    return ParallelEvent(
        tuple(
            SequentialEvent(
                tuple(
                    strategy.geolevel_event(geolevel, share)
                    for geolevel, share in zip(strategy.geolevels, kind, strict=True)
                    if share
                )
            )
            for kind in sorted(kinds)
        )
    )


def spines() -> None:
    """Epsilon of the products at delta 1e-10, and the bound that follows without the laws."""
    delta = Fraction(1, 10**10)
    for name, products in TOGETHER.items():
        event = SequentialEvent(tuple(map(on_every_path, products)))
        start = time.process_time()
        guarantee = compose(event, neighbours=Neighbours.BOUNDED)
        epsilon = guarantee.epsilon(delta)
        spent = time.process_time() - start
        start = time.process_time()
        fallback, method = upper_bound(event, Neighbours.BOUNDED, delta)
        print(
            f"| {name} | {number_of_laws(guarantee.choices):,} | {epsilon.upper:.9f} | {epsilon.width:.1e} | "
            f"{spent:.2f} | "
            f"{fallback:.4f}, {method} | {time.process_time() - start:.2f} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--spines", action="store_true")
    headline.add_option(parser)
    arguments = parser.parse_args()
    if arguments.spines:
        spines()
        return
    rows = []
    for name, events in compositions().items():
        answers = [ours(events, engine, arguments.rounds) for engine in ASKED]
        here = [row for row in answers if row is not None]
        winner = best(here)
        if name in PEERED:
            here.append(peer(events))
        for row in here:
            rows.append({"composition": name, **row, "best": row["engine"] == winner})
            bounds = f"{row['epsilon at 1e-10'][1]:16.10f} {row.get('width', math.nan):8.1e}"
            chosen = (
                f"  chose {row['by']}"
                if row["engine"] == "auto"
                else "  best"
                if row["engine"] == winner
                else ""
            )
            print(f"{name:34} {row['engine']:14} {bounds} {row['ms an epsilon']:9.1f} ms{chosen}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))
    headline.write(arguments.headline, list(headlines(rows)))


if __name__ == "__main__":
    main()
