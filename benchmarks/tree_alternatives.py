"""Ways of using what is measured below a geounit, on the same noisy measurements.

The population is a part of Rhode Island: some tracts of every county, with 16 cells (voting age by race and
ethnicity). The budget is nearly that of production; queries of Hispanic origin are left out, so that the measured
queries with their intersections are closed, and precisions are known in closed form. Ways:

    own                 each child is fitted to its own noisy answers; totals first
    single pass         the same in one pass over all queries
    tree                `values = "tree"`: the values come from all that is measured in or below each child
    tree, single pass   the same in one pass
    full precision      the same values, and also the exact precisions of these estimates as weights (the form of
                        BlueDown, arXiv 2603.10099); each child then has weights of its own. Slow, a reference
    whole tree          least squares over the whole spine at once, with every cell of every block at least zero
                        (`estimators.py`). Not rounded, which favours it a little. Slow, a reference

    python benchmarks/tree_alternatives.py [--tracts 60] [--keys 5] [--json FILE]
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import re
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from unittest import mock

import numpy as np
import polars as pl
from estimators import whole_tree
from intervals import part_of
from scipy import sparse
from tree_values import DATA, areas_of

from tallyveil.api.beginning import write_country
from tallyveil.confidential.histogram import ConfidentialHistogram
from tallyveil.estimation.intervals.fit import StoredRows
from tallyveil.files.histograms import read_histogram
from tallyveil.geography.spine import Spine
from tallyveil.noise.key import insecure_key
from tallyveil.plans.estimating import GeolevelEstimation
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.plans.guarantee import guarantee_of
from tallyveil.plans.release import ReleasePlan
from tallyveil.postprocess.families.level import FamilyBuilder
from tallyveil.postprocess.intervals.model import open_release, published_invariants, release_model
from tallyveil.products.topdown.run.inputs import read_histograms, read_spine
from tallyveil.products.topdown.run.run import run_release
from tallyveil.schema.counts import PublicCounts

QUERIES = ("total", "voting_age", "race_ethnicity", "detailed")
AGES, RACES = 2, 8
STEPS = 120


def release_text(text: str) -> str:
    """A release file with own values, whose shares of queries with Hispanic origin go to the detailed query."""
    text = text.replace("[estimation]\n", '[estimation]\nvalues = "own"\n')
    numerators = re.findall(r'hispanic"? = "(\d+)/', text)
    text = re.sub(r'"?(voting_age\*)?hispanic"? = .*\n', "", text)
    shares = iter(sum(map(int, pair)) for pair in zip(numerators[::2], numerators[1::2], strict=True))
    return re.sub(r'detailed = "(\d+)/', lambda match: f'detailed = "{int(match[1]) + next(shares)}/', text)


def make_part(folder: Path, counts: Path, n_tracts: int) -> ReleasePlan:
    """The release of some tracts of every county."""
    write_country(folder, blocks=None, schema="race-age", like=counts, seed=1)
    path = folder / "release.toml"
    path.write_text(release_text(path.read_text()))
    plan = load_plan(path)
    spine = read_spine(plan.geography)
    codes = spine.geocodes[-1].text.gather(part_of(spine, n_tracts)).implode()
    for name in (plan.records.path, plan.geography.path):
        pl.read_parquet(name).filter(pl.col("geocode").is_in(codes)).write_parquet(name)
    return load_plan(path)


def precisions(plan: ReleasePlan, spine: Spine) -> list[np.ndarray]:
    """By geolevel, the precision of the estimate of each geounit in four spaces of cells.

    A space is the constant or the contrasts of voting age, times the constant or the contrasts of race. The precision
    of every measured query is a multiple of the identity on each space.
    """
    of_query = {
        "total": (AGES * RACES, 0, 0, 0),
        "voting_age": (RACES, 0, RACES, 0),
        "race_ethnicity": (AGES, AGES, 0, 0),
        "detailed": (1, 1, 1, 1),
    }
    by_level: list[np.ndarray] = []
    for level in reversed(range(spine.n_levels)):
        name = spine.geolevels[level]
        measured = sum(
            np.array(of_query[query]) / plan.strategy.law(name, query).variance_float()
            for query in plan.strategy.queries(name)
        )
        below = np.zeros(4)
        if by_level:
            below = 1 / np.add.reduceat(1 / by_level[0], spine.child_offsets[level][:-1], axis=0)
        by_level.insert(0, np.broadcast_to(measured + below, (spine.n_geounits(level), 4)))
    return by_level


def weights_of(precision: np.ndarray) -> dict[str, np.ndarray]:
    """The weight of each query whose sum is the precision of the estimates; for the total's pass, that of a total."""
    constant, race, age, both = precision.T
    weights = {
        "total": constant / (AGES * RACES),
        "voting_age": (age - both) / RACES,
        "race_ethnicity": (race - both) / AGES,
        "detailed": both,
    }
    if min(weight.min() for weight in weights.values()) <= 0:
        raise RuntimeError("a weight is not positive: the measured queries are not closed")
    return weights


def with_full_precision(plan: ReleasePlan, spine: Spine) -> Callable[[FamilyBuilder, int, int], np.ndarray]:
    """What takes the place of `FamilyBuilder.variances`."""
    usual = FamilyBuilder.variances
    by_level = [weights_of(precision) for precision in precisions(plan, spine)]

    def variances(builder: FamilyBuilder, start: int, stop: int) -> np.ndarray:
        if builder.tree is None:
            return usual(builder, start, stop)
        return np.array([1 / by_level[builder.level][group.name][start:stop] for group in builder.queries])

    return variances


def ways(plan: ReleasePlan) -> dict[str, ReleasePlan]:
    """The ways that a release file can ask for."""
    finest = plan.geolevels[-1]

    def changed(change: Callable[[str, GeolevelEstimation], GeolevelEstimation]) -> ReleasePlan:
        estimation = tuple(
            (name, item if name == finest else change(name, item)) for name, item in plan.estimation
        )
        return replace(plan, estimation=estimation, microdata=False, tables=("total",))

    return {
        "own": changed(lambda _, item: item),
        "single pass": changed(lambda name, item: replace(item, passes=(plan.strategy.queries(name),))),
        "tree": changed(lambda _, item: replace(item, values="tree")),
        "tree, single pass": changed(
            lambda name, item: replace(item, values="tree", passes=(plan.strategy.queries(name),))
        ),
        "full precision": changed(lambda _, item: replace(item, values="tree", slack=Fraction(0))),
    }


def estimates(plan: ReleasePlan, spine: Spine, folder: Path, key: bytes) -> Iterator[tuple[str, np.ndarray]]:
    """Cells of the finest geounits by each way, from the same noisy answers."""
    shared, finest = plan.measuring_digest(), spine.geolevels[-1]
    patched = mock.patch.object(FamilyBuilder, "variances", with_full_precision(plan, spine))
    for name, plan_of_way in ways(plan).items():
        out = folder / name.replace(", ", "-").replace(" ", "-")
        # Noise is bound to the plan, of which the way of estimating is a part.
        with mock.patch.object(ReleasePlan, "measuring_digest", return_value=shared):
            if name == "full precision":
                with patched:
                    run_release(plan_of_way, out, test_key=key)
            else:
                run_release(plan_of_way, out, test_key=key)
        counts = read_histogram(out, finest, plan.schema, spine)
        yield name, dense(counts, plan.schema.size)
    release = open_release(folder / "own")
    model = release_model(release)
    begin = time.process_time()
    start = dense(read_histogram(folder / "own", finest, plan.schema, spine), plan.schema.size)
    cells, left = whole_tree(
        model, StoredRows(folder / "own", model), published_invariants(release, model), start, STEPS
    )
    seconds = time.process_time() - begin
    print(
        f"whole tree: {left:.3f} persons a block not yet settled, {seconds:.0f} s of processor time",
        flush=True,
    )
    yield "whole tree", cells


def dense(counts: ConfidentialHistogram | PublicCounts, size: int) -> np.ndarray:
    """All cells of all geounits."""
    out = np.zeros((counts.n_geounits, size))
    rows, cells, persons = counts.rows(0, counts.n_geounits)
    np.add.at(out, (rows, cells), persons)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--counts", type=Path, default=DATA / "ri_2010_counts.parquet")
    parser.add_argument("--entities", type=Path, default=DATA / "ri_2010_entities.parquet")
    parser.add_argument("--tracts", type=int, default=60)
    parser.add_argument("--keys", type=int, default=5, help="test keys to average over")
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    options = parser.parse_args()
    errors: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plan = make_part(folder / "data", options.counts, options.tracts)
        spine = read_spine(plan.geography)
        truth = dense(read_histograms(plan, spine)[-1], plan.schema.size)
        areas = areas_of(spine, options.entities)
        cells = np.arange(plan.schema.size)
        adders = {
            query: sparse.csr_matrix(
                (np.ones(cells.size), (cells, plan.query(query).answers_of(cells)))
            ).toarray()
            for query in QUERIES
        }
        for number in range(options.keys):
            with tempfile.TemporaryDirectory(dir=folder) as runs:
                for way, estimate in estimates(plan, spine, Path(runs), insecure_key(f"ways {number}")):
                    for place, members in areas.items():
                        wrong = members @ (estimate - truth)
                        for query, adding in adders.items():
                            errors[place, query][way].append(float(abs(wrong @ adding).sum() / len(wrong)))
            print(f"key {number} done", flush=True)
    exact = guarantee_of(plan)["exact"]["epsilon"]["upper"]
    print(f"{spine}; {options.keys} keys; exact epsilon {exact:.4f} at delta {float(plan.delta):g}")
    names = list(next(iter(errors.values())))
    print(
        "| | | "
        + " | ".join([names[0], *(f"{name_of_way} / {names[0]}" for name_of_way in names[1:])])
        + " |"
    )
    print("|" + "---|" * (len(names) + 2))
    for (place, query), by_way in errors.items():
        means = {way: float(np.mean(values)) for way, values in by_way.items()}
        ratios = [f"{means[way] / means[names[0]]:.2f}" if means[names[0]] else "" for way in names[1:]]
        print(f"| {place} | {query} | {means[names[0]]:.2f} | " + " | ".join(ratios) + " |")
    if options.json is not None:
        rows = [{"place": place, "query": query, **by_way} for (place, query), by_way in errors.items()]
        options.json.write_text(
            json.dumps({"keys": options.keys, "epsilon": exact, "rows": rows}, indent=2) + "\n"
        )


if __name__ == "__main__":
    main()
