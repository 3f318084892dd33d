"""Accuracy of `[estimation] values = "tree"` beside `"own"`, on the same noisy measurements.

The population is the one of `accuracy.py`: Rhode Island's blocks, with 2,016 cells and made-up group quarters and
races. For every geolevel and every query, and for the areas of an entity table, the sum of |error| over the answers of
the query is averaged over geounits and keys. Test keys protect nobody.

    python benchmarks/tree_values.py [--counts FILE] [--entities FILE] [--keys 4] [--preset NAME] [--query-wise]
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import polars as pl
from accuracy_alternatives import World, make_world, matrix_of
from scipy import sparse

from tallyveil.execution.topdown.run import run_release
from tallyveil.noise.key import insecure_key
from tallyveil.plans.release import ReleasePlan
from tallyveil.postprocess import tree_values
from tallyveil.release.histograms import read_histogram

DATA = Path(__file__).parents[2] / "shared" / "data"
QUERIES = ("total", "votingage", "hispanic*cenrace", "hhgq", "detailed")
FAMILIES = ("place", "county_subdivision", "state_house", "state_senate")
STAGES = ("estimate", "values of the tree")


def with_values(plan: ReleasePlan, values: str) -> ReleasePlan:
    """The plan with these values at all geolevels but the finest, without microdata and measurement files."""
    finest = plan.geolevels[-1]
    estimation = tuple(
        (name, item if name == finest else replace(item, values=values)) for name, item in plan.estimation
    )
    return replace(plan, estimation=estimation, measurements="none", microdata=False, tables=("total",))


def areas_of(world: World, path: Path) -> dict[str, sparse.csr_matrix]:
    """For each family, which blocks are in each area."""
    table = pl.read_parquet(path)
    rows = world.spine.locate(world.spine.finest, table["geocode"].to_numpy())
    found = {}
    for family in FAMILIES:
        inside = table[family].is_not_null().to_numpy() & (rows >= 0)
        _, area = np.unique(table[family].to_numpy()[inside].astype(str), return_inverse=True)
        ones = np.ones(len(area))
        found[family] = sparse.csr_matrix(
            (ones, (area, rows[inside])), shape=(area.max() + 1, len(world.truth[-1].indptr) - 1)
        )
    return found


def errors(world: World, areas: dict[str, sparse.csr_matrix], out: Path) -> Iterator[tuple[str, str, float]]:
    """Mean over geounits of the sum of |error| over the answers, by geolevel or family, and query."""
    schema, cells = world.plan.schema, np.arange(world.plan.schema.size)
    off = {
        name: matrix_of(read_histogram(out, name, schema, world.spine), schema.size) - world.truth[level]
        for level, name in enumerate(world.spine.geolevels)
    }
    off |= {family: members @ off[world.spine.geolevels[-1]] for family, members in areas.items()}
    for place, wrong in off.items():
        for query in QUERIES:
            group = schema.query(query)
            adding = sparse.csr_matrix((np.ones(len(cells)), (cells, group.answers_of(cells))))
            yield place, query, float(abs(wrong @ adding).sum() / wrong.shape[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--counts", type=Path, default=DATA / "ri_2010_counts.parquet")
    parser.add_argument("--entities", type=Path, default=DATA / "ri_2010_entities.parquet")
    parser.add_argument("--keys", type=int, default=4, help="test keys to average over")
    parser.add_argument("--preset", default="redistricting-state-rooted", help="allocation of the budget")
    parser.add_argument("--query-wise", action="store_true", help="let the tree go query by query")
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    options = parser.parse_args()
    if options.query_wise:
        tree_values.LARGEST_BLOCK = 1
    found: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    seconds: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        world = make_world(options.counts, options.preset, Path(folder) / "data")
        areas, shared = areas_of(world, options.entities), world.plan.measuring_digest()
        for number in range(options.keys):
            for values in ("own", "tree"):
                out = Path(folder) / f"{values}-{number}"
                # Noise is bound to the plan, of which the values are a part.
                with mock.patch.object(ReleasePlan, "measuring_digest", return_value=shared):
                    run_release(with_values(world.plan, values), out, test_key=insecure_key(f"tree {number}"))
                stages = json.loads((out / "manifest.json").read_text())["performance"]
                seconds[values].append(
                    sum(one["seconds"] for one in stages if one["stage"].startswith(STAGES))
                )
                for place, query, error in errors(world, areas, out):
                    found[place, query][values].append(error)
    print(f"{'':<20} {'query':<18} {'own':>10} {'tree':>10} {'ratio':>7} {'s.e.':>6}")
    rows = []
    for (place, query), by_values in found.items():
        own, tree = (np.array(by_values[values]) for values in ("own", "tree"))
        ratio = tree.mean() / own.mean() if own.mean() else float("nan")
        spread = (
            np.std((tree - ratio * own) / max(own.mean(), 1e-9), ddof=1) / np.sqrt(len(own))
            if len(own) > 1
            else 0.0
        )
        print(
            f"{place:<20} {query:<18} {own.mean():>10.3f} {tree.mean():>10.3f} {ratio:>7.3f} {spread:>6.3f}"
        )
        rows.append({"place": place, "query": query, "own": own.mean(), "tree": tree.mean(), "ratio": ratio})
    for values, times in seconds.items():
        print(f"estimation with {values}: {min(times):.2f} s at best, {np.mean(times):.2f} s on average")
    if options.json is not None:
        options.json.write_text(
            json.dumps({"keys": options.keys, "rows": rows, "seconds": seconds}, indent=2) + "\n"
        )


if __name__ == "__main__":
    main()
