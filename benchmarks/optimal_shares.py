"""Shares that `tallyveil plan --optimise` finds, measured in releases beside the present ones.

The population is the one of `accuracy.py`: Rhode Island's blocks, with 2,016 cells and made-up group quarters and
races. There are 35 aims: six redistricting tables at five geolevels and in places, without the State's total, which is
exact. No aim may become worse. All shares have the exact epsilon of the present ones. The errors of an aim are root
mean squares over its answers, its areas and the keys. Test keys protect nobody.

The live sizes are those of the made-up people themselves, which no real release may use: they show what the best
possible public table would give. `half` and `double` have sizes that are wrong by a factor of two. No size is below
1.02.

    python benchmarks/optimal_shares.py [--counts FILE] [--entities FILE] [--keys 12] [--json FILE]
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import polars as pl
from accuracy_alternatives import World, make_world, matrix_of
from scipy import sparse

from tallyveil.budget.optimal.aims import Aim, Aims, VarianceModel
from tallyveil.budget.optimal.choose import OptimalShares, present_shares
from tallyveil.budget.strategy import Strategy
from tallyveil.files.histograms import read_histogram
from tallyveil.noise.key import insecure_key
from tallyveil.products.topdown.run.optimal_shares import optimal_shares, variances_by_share
from tallyveil.products.topdown.run.run import run_release

DATA = Path(__file__).parents[2] / "shared" / "data"
QUERIES = ("total", "votingage", "hispanic*cenrace", "votingage*hispanic*cenrace", "hhgq", "detailed")
GROUPINGS = ("hhgq", "hhinstlevels", "votingage", "hispanic", "cenrace")
FAMILY = "place"
ROOT_TOTAL = ("State", "total")
FOUND = {  # by name: the model, and the factor on the live sizes, if they are used
    "all cells": (VarianceModel.TOP_DOWN, None),
    "live": (VarianceModel.TOP_DOWN, 1.0),
    "half": (VarianceModel.TOP_DOWN, 0.5),
    "double": (VarianceModel.TOP_DOWN, 2.0),
    "least squares": (VarianceModel.LEAST_SQUARES, None),
}
RUNS: tuple[tuple[Literal["own", "tree"], str], ...] = (
    *(("own", name) for name in ("present", *FOUND)),
    *(("tree", name) for name in ("present", "all cells", "live", "least squares")),
)

Errors = dict[tuple[str, str], float]
Measured = dict[tuple[str, str], list[float]]
"""Mean squared errors of every aim, one for each key."""


class Chosen(NamedTuple):
    """Shares, with the standard deviations that a model promises."""

    strategy: Strategy
    found: OptimalShares | None
    seconds: float
    promised: Errors


def live_sizes(world: World, path: Path, factor: float) -> None:
    """The table of mean numbers of categories in use over geounits with any people, times a factor."""
    rows = []
    for level, geolevel in enumerate(world.spine.geolevels):
        people = world.truth[level]
        for name in GROUPINGS:
            used = np.asarray((people @ adding(world, name) > 0).sum(axis=1)).reshape(-1)
            size = float(used[used > 0].mean()) * factor
            rows.append((geolevel, name, min(max(size, 1.02), world.plan.query(name).size)))
    pl.DataFrame(rows, ["geolevel", "query", "live"], orient="row").write_parquet(path)


def adding(world: World, query: str) -> sparse.csr_matrix:
    """Which cells each answer of a query is the sum of."""
    cells = np.arange(world.schema.size)
    return sparse.csr_matrix((np.ones(len(cells)), (cells, world.schema.query(query).answers_of(cells))))


def places_of(world: World, path: Path) -> sparse.csr_matrix:
    """Which blocks are in each place."""
    table = pl.read_parquet(path)
    rows = world.spine.locate(world.spine.finest, table["geocode"].to_numpy())
    inside = table[FAMILY].is_not_null().to_numpy() & (rows >= 0)
    _, area = np.unique(table[FAMILY].to_numpy()[inside].astype(str), return_inverse=True)
    n_blocks = world.spine.n_geounits(world.spine.finest)
    return sparse.csr_matrix(
        (np.ones(len(area)), (area, rows[inside])), shape=(int(area.max()) + 1, n_blocks)
    )


def squared_errors(
    world: World, places: sparse.csr_matrix, out: Path
) -> Iterator[tuple[tuple[str, str], float]]:
    """The mean squared error of every aim."""
    off = {
        name: matrix_of(read_histogram(out, name, world.schema, world.spine), world.schema.size)
        - world.truth[level]
        for level, name in enumerate(world.spine.geolevels)
    }
    off[FAMILY] = places @ off[world.spine.geolevels[-1]]
    for area, wrong in off.items():
        for query in QUERIES:
            if (area, query) != ROOT_TOTAL:
                answers = wrong @ adding(world, query)
                yield (area, query), float(answers.multiply(answers).sum() / np.prod(answers.shape))


def choose(world: World, entities: Path, folder: Path) -> dict[str, Chosen]:
    """All shares, and what the model with live categories promises of each."""
    areas = (*world.spine.geolevels, FAMILY)
    pairs = tuple(Aim(area, query) for area in areas for query in QUERIES if (area, query) != ROOT_TOTAL)
    aims = Aims(VarianceModel.TOP_DOWN, aims=pairs, entities=entities)
    for factor in (0.5, 1.0, 2.0):
        live_sizes(world, folder / f"live-{factor}.parquet", factor)
    by_live = variances_by_share(world.plan, replace(aims, live=folder / "live-1.0.parquet"))

    def promised(strategy: Strategy) -> Errors:
        scale = float(world.plan.strategy.total / strategy.total)
        values = by_live.at(present_shares(strategy)).values * scale
        return dict(zip(aims.named, np.sqrt(values).tolist(), strict=True))

    present = world.plan.strategy
    chosen = {"present": Chosen(present, None, 0.0, promised(present))}
    for name, (model, factor) in FOUND.items():
        live = None if factor is None else folder / f"live-{factor}.parquet"
        start = time.process_time()
        optimum = optimal_shares(world.plan, replace(aims, model=model, live=live))
        seconds = time.process_time() - start
        chosen[name] = Chosen(optimum.strategy, optimum, seconds, promised(optimum.strategy))
    return chosen


def measure(
    world: World, chosen: Mapping[str, Chosen], places: sparse.csr_matrix, keys: range, folder: Path
) -> dict[tuple[str, str], Measured]:
    """Mean squared errors by values and shares."""
    errors: dict[tuple[str, str], Measured] = defaultdict(lambda: defaultdict(list))
    finest = world.plan.geolevels[-1]
    for number in keys:
        start = time.perf_counter()
        for values, name in RUNS:
            estimation = tuple(
                (level, item if level == finest else replace(item, values=values))
                for level, item in world.plan.estimation
            )
            plan = replace(
                world.plan.with_strategy(chosen[name].strategy),
                estimation=estimation,
                measurements="none",
                microdata=False,
                tables=("total",),
            )
            with tempfile.TemporaryDirectory(dir=folder) as runs:
                out = Path(runs) / "out"
                run_release(plan, out, test_key=insecure_key(f"optimal shares {number}"))
                for aim, error in squared_errors(world, places, out):
                    errors[values, name][aim].append(error)
        print(f"key {number}: {time.perf_counter() - start:.0f} s", flush=True)
    return errors


def root(errors: list[float]) -> float:
    return float(np.sqrt(np.mean(errors)))


def show_chosen(chosen: Mapping[str, Chosen]) -> None:
    """Print how each set of shares was found, and what it promises."""
    print(
        f"{'shares':<15}{'seconds':>8}{'gap':>9}{'epsilon':>10}  root mean square of ratios, own model | live"
    )
    before = chosen["present"].promised
    for name in FOUND:
        choice = chosen[name]
        by_live = np.sqrt(np.mean([(choice.promised[aim] / before[aim]) ** 2 for aim in before]))
        print(
            f"{name:<15}{choice.seconds:>8.2f}{choice.found.gap:>9.5f}{choice.found.epsilon:>10.5f}  "
            f"{choice.found.mean_ratio:.3f} | {by_live:.3f}"
        )


def mean_ratio(errors: Measured, base: Measured, keys: np.ndarray) -> float:
    """Root mean square of the ratios of all aims, from some of the keys."""
    return float(
        np.sqrt(
            np.mean([np.take(errors[aim], keys).mean() / np.take(base[aim], keys).mean() for aim in base])
        )
    )


def show_measured(measured: Mapping[tuple[str, str], Measured]) -> None:
    """Print the errors of all aims together, with jackknife standard errors."""
    print("\nmeasured: root mean square of the ratios to the present shares with the same values")
    for values, name in RUNS:
        base, errors = measured[values, "present"], measured[values, name]
        keys = np.arange(len(next(iter(base.values()))))
        without = [mean_ratio(errors, base, np.delete(keys, key)) for key in keys] if len(keys) > 1 else [0.0]
        spread = np.sqrt((len(keys) - 1) * np.var(without))
        worst = max(root(errors[aim]) / root(base[aim]) for aim in base)
        print(
            f"{values:<6}{name:<15}{mean_ratio(errors, base, keys):.3f} +- {spread:.3f}, worst {worst:.2f}; to the "
            f"present shares with own values {mean_ratio(errors, measured['own', 'present'], keys):.3f}"
        )


def show_aims(chosen: Mapping[str, Chosen], measured: Mapping[tuple[str, str], Measured]) -> None:
    """Print every aim."""
    print("\nwith own values: the present deviation promised and measured, then each ratio promised|measured")
    print(f"{'area':<12}{'query':<28}{'promised':>9}{'measured':>9}" + "".join(f"{n:>15}" for n in FOUND))
    base, before = measured["own", "present"], chosen["present"].promised
    for aim in base:
        line = f"{aim[0]:<12}{aim[1]:<28}{before[aim]:>9.3f}{root(base[aim]):>9.3f}"
        for name in FOUND:
            ratio = chosen[name].promised[aim] / before[aim]
            line += f"{ratio:>8.2f}|{root(measured['own', name][aim]) / root(base[aim]):>6.2f}"
        print(line)


def rows_of(
    chosen: Mapping[str, Chosen], measured: Mapping[tuple[str, str], Measured]
) -> list[dict[str, object]]:
    """Every number, as data."""
    return [
        {
            "values": values,
            "shares": name,
            "area": aim[0],
            "query": aim[1],
            "promised": chosen[name].promised[aim],
            "squared_errors": errors,
        }
        for (values, name), by_aim in measured.items()
        for aim, errors in by_aim.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--counts", type=Path, default=DATA / "ri_2010_counts.parquet")
    parser.add_argument("--entities", type=Path, default=DATA / "ri_2010_entities.parquet")
    parser.add_argument("--keys", type=int, default=12, help="test keys to average over")
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        world = make_world(options.counts, "redistricting-state-rooted", folder / "data")
        places = places_of(world, options.entities)
        chosen = choose(world, options.entities, folder)
        measured = measure(world, chosen, places, range(options.keys), folder)
    show_chosen(chosen)
    show_measured(measured)
    show_aims(chosen, measured)
    if options.json is not None:
        options.json.write_text(json.dumps(rows_of(chosen, measured), indent=2) + "\n")


if __name__ == "__main__":
    main()
