"""Accuracy of a release beside alternatives: how far totals and cells are from the truth, over several keys.

The population is made up so that its blocks are Rhode Island's (voting age by race and ethnicity from the 2010
census). What is measured is the State-and-below part of the 2020 national allocation (preset
`redistricting-us-from-state`), with the State's total and the facilities as constraints. Methods:

    production            totals first, then everything within a slack of 0.1; non-negative, and rounded towards the
                          nearest whole numbers, as in 2020
    production, fraction  the same, rounded towards the estimates
    single pass           one least-squares pass over all queries; non-negative, rounded as `production, fraction`
    signed                least squares and family sums as in `single pass`, but negative counts are allowed
    bottom-up             the blocks' measurements of the same run alone, block by block; non-negative, added up
    bottom-up, whole rho  the same with the budget of all five geolevels spent on the blocks

All but the last work on the very same noisy measurements. `signed` keeps answers at zero only where there is no
facility, has no lower bounds and no slack, and starts from all cells that can hold anybody; `bottom-up` keeps
the facilities' bounds, and nothing makes its sum the State's total. Both are left in real numbers.

    python benchmarks/accuracy.py [--counts FILE] [--keys 10] [--json FILE]
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import headline
import numpy as np
from accuracy_alternatives import (
    Errors,
    World,
    bottom_up,
    errors_of,
    make_world,
    matrix_of,
    signed,
    whole_budget,
)
from scipy import sparse

from tallyveil.files.evaluation import SizeClass, size_classes
from tallyveil.files.histograms import read_histogram
from tallyveil.measurements.answers import MeasurementSource
from tallyveil.measurements.store import StoredMeasurements
from tallyveil.noise.key import insecure_key
from tallyveil.plans.estimating import GeolevelEstimation
from tallyveil.plans.release import ReleasePlan
from tallyveil.products.topdown.run.run import run_release

COUNTS = Path(__file__).parents[2] / "shared" / "data" / "ri_2010_counts.parquet"
PRESET = "redistricting-us-from-state"
# Mean absolute error of totals, persons, over all geounits: a feasibility study of the same allocation.
STUDY = {"County": 1.7, "Tract": 1.93, "Block_Group": 1.32, "Block": 4.23}


def with_estimation(
    plan: ReleasePlan, change: Callable[[str, GeolevelEstimation], GeolevelEstimation]
) -> ReleasePlan:
    """The same release, estimated otherwise."""
    return replace(plan, estimation=tuple((name, change(name, item)) for name, item in plan.estimation))


def ways(plan: ReleasePlan) -> dict[str, ReleasePlan]:
    """The ways of estimating that a release file can ask for."""
    return {
        "production": plan,
        "production, fraction": with_estimation(plan, lambda _, item: replace(item, target="fraction")),
        "single pass": with_estimation(
            plan,
            lambda name, item: replace(item, passes=(plan.strategy.queries(name),), target="fraction"),
        ),
    }


def released(world: World, plan: ReleasePlan, out: Path, key: bytes) -> Errors:
    """Errors of a release with the noise of the world's own plan, whatever order it is estimated in."""
    shared = world.plan.measuring_digest()
    # Noise is bound to the plan, whose order of estimation is a part. The keys here protect nobody.
    with mock.patch.object(ReleasePlan, "measuring_digest", return_value=shared):
        run_release(plan, out, test_key=key)
    errors = {}
    for level, name in enumerate(world.spine.geolevels):
        estimate = matrix_of(read_histogram(out, name, plan.schema, world.spine), plan.schema.size)
        errors[name] = errors_of(world, sparse.csr_matrix(estimate - world.truth[level]))
    return errors


def compare(world: World, keys: int, folder: Path) -> dict[str, list[Errors]]:
    """Errors of every method, key by key."""
    errors_by_method: dict[str, list[Errors]] = defaultdict(list)
    for number in range(keys):
        start = time.perf_counter()
        key = insecure_key(f"accuracy {number}")
        with tempfile.TemporaryDirectory(dir=folder) as runs:
            for name, plan in ways(world.plan).items():
                out = Path(runs) / name.replace(", ", "-").replace(" ", "-")
                errors_by_method[name].append(released(world, plan, out, key))
            first = StoredMeasurements(Path(runs) / "production", world.spine)
            check_same_noise(world, first, StoredMeasurements(Path(runs) / "single-pass", world.spine))
            errors_by_method["signed"].append(signed(world, first))
            errors_by_method["bottom-up"].append(bottom_up(world, first))
        errors_by_method["bottom-up, whole rho"].append(bottom_up(world, whole_budget(world, key)))
        print(f"key {number}: {time.perf_counter() - start:.0f} s", flush=True)
    return errors_by_method


def check_same_noise(world: World, first: MeasurementSource, second: MeasurementSource) -> None:
    """Refuse to compare methods that saw different measurements."""
    for level, name in enumerate(world.spine.geolevels):
        asked = (name, "total", 0, world.spine.n_geounits(level), np.zeros(1, dtype=np.int64))
        if not np.array_equal(first.measure(*asked).values, second.measure(*asked).values):
            raise RuntimeError(f"the methods were given different measurements at {name}")


def summarise(world: World, errors_by_method: dict[str, list[Errors]]) -> list[dict[str, object]]:
    """Means over geounits of a size class, then over keys; standard errors are those over keys."""
    rows = []
    for level, geolevel in enumerate(world.spine.geolevels):
        totals = np.asarray(world.truth[level].sum(axis=1)).reshape(-1).astype(np.int64)
        classes = size_classes(totals)
        kinds = {"all": np.ones(len(totals), dtype=bool), "populated": totals > 0}
        kinds |= {size.value: classes == number for number, size in enumerate(SizeClass)}
        for size, chosen in kinds.items():
            if not chosen.any():
                continue
            for method, by_key in errors_by_method.items():
                total, cells, crossed = (
                    np.array([errors[geolevel][part][chosen] for errors in by_key]) for part in range(3)
                )
                row = {"geolevel": geolevel, "size": size, "geounits": int(chosen.sum()), "method": method}
                parts = {"total": abs(total), "bias": total, "cells_l1": cells, "crossed_l1": crossed}
                for name, values in parts.items():
                    means = values.mean(axis=1)
                    row[name] = float(means.mean())
                    row[f"{name}_se"] = (
                        float(means.std(ddof=1) / np.sqrt(len(means))) if len(means) > 1 else None
                    )
                rows.append(row)
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    """The table, and how the first method stands beside the study."""
    head = f"{'method':<22} {'|total|':>10} {'s.e.':>7} {'bias':>10} {'s.e.':>7} {'cells L1':>10} {'crossed L1':>10}"
    before = None
    for row in rows:
        place = f"{row['geolevel']}, {row['size']}: {row['geounits']} geounits"
        if place != before:
            print(f"\n{place}\n{head}")
            before = place
        errors = (row["total_se"] or 0.0, row["bias_se"] or 0.0)
        print(
            f"{row['method']:<22} {row['total']:>10.3f} {errors[0]:>7.3f} {row['bias']:>10.3f} {errors[1]:>7.3f} "
            f"{row['cells_l1']:>10.2f} {row['crossed_l1']:>10.2f}"
        )
    print("\nproduction beside the study, mean |error| of totals: all geounits, populated ones, study")
    for geolevel, stated in STUDY.items():
        by_size = {
            r["size"]: r["total"] for r in rows if (r["geolevel"], r["method"]) == (geolevel, "production")
        }
        ratio = by_size["all"] / stated - 1
        print(
            f"{geolevel:<12} {by_size['all']:.3f} {by_size['populated']:.3f} {stated:.2f}  {ratio:+.1%} over all"
        )


def headlines(rows: list[dict[str, Any]]) -> Iterator[headline.Headline]:
    """Mean absolute errors of totals, beside those of the feasibility study."""
    for row in rows:
        if (row["method"], row["size"]) == ("production", "all") and row["geolevel"] in STUDY:
            stated = STUDY[row["geolevel"]]
            what = f"mean absolute error of totals, {row['geolevel']}"
            error = f"{row['total']:.2f} persons"
            yield headline.Headline(what, error, "of the study's error", stated / row["total"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--counts", type=Path, default=COUNTS, help="published counts to make the blocks from"
    )
    parser.add_argument("--keys", type=int, default=10, help="test keys to average over")
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    headline.add_option(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        world = make_world(options.counts, PRESET, Path(folder) / "data")
        rows = summarise(world, compare(world, options.keys, Path(folder)))
    show(rows)
    headline.write(options.headline, list(headlines(rows)))
    if options.json is not None:
        rho = str(world.plan.strategy.total)
        settings = {"preset": PRESET, "rho": rho, "keys": options.keys, "population_seed": 1}
        options.json.write_text(json.dumps({"settings": settings, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
