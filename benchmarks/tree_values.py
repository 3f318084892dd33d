"""Accuracy of `[estimation] values = "tree"` beside `"own"`, on the same noisy measurements.

The population is the one of `accuracy.py`: Rhode Island's blocks, with 2,016 cells and made-up group quarters and
races. Releases have the facilities' bounds and are rounded as in production. Spines:

    plain      State, County, Tract, Block_Group and Block as the Bureau draws them
    optimised  block groups regrouped by entities, as in 2020

All errors are those of published blocks, added up to official geounits and to areas of an entity table. For a query,
the error of an area is the sum of |error| over the answers. Tables have means over areas and keys, by query, by the
true size of the area, and by race. For blocks there are also the counts of small groups by their true size. Test keys
protect nobody.

The State has few answers of a coarse query, so its errors differ much from key to key. `--root-keys` estimates the
State alone for many keys.

    python benchmarks/tree_values.py [--counts FILE] [--entities FILE] [--keys 4] [--spine optimised] [--json FILE]
    python benchmarks/tree_values.py --root-keys 200
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal
from unittest import mock

import numpy as np
import polars as pl
from accuracy_alternatives import World, make_world, matrix_of
from scipy import sparse

from tallyveil.confidential.measure import Measurer
from tallyveil.files.evaluation import SizeClass, size_classes
from tallyveil.files.histograms import read_histogram
from tallyveil.geography.census.block_files import kinds_of_group_quarters
from tallyveil.geography.spine import Spine
from tallyveil.noise.key import insecure_key
from tallyveil.noise.source import NoiseSource
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.plans.guarantee import guarantee_of
from tallyveil.plans.release import ReleasePlan
from tallyveil.postprocess.constraints import with_implied_bounds
from tallyveil.postprocess.families import tree_values
from tallyveil.postprocess.families.level import FamilyBuilder, estimate_level
from tallyveil.postprocess.families.tree_values import prepared_sweep, swept_values
from tallyveil.products.topdown.run.inputs import read_hierarchies
from tallyveil.products.topdown.run.preparation import compile_constraints
from tallyveil.products.topdown.run.public import read_public
from tallyveil.products.topdown.run.run import run_release
from tallyveil.runs.executor import Threads
from tallyveil.runs.observer import SilentObserver
from tallyveil.runs.timings import Timings

DATA = Path(__file__).parents[2] / "shared" / "data"
PRESET, SPINE_PRESET = "redistricting-state-rooted", "redistricting-persons-state-rooted"
QUERIES = ("total", "votingage", "hispanic*cenrace", "hhgq", "detailed")
FAMILIES = ("place", "county_subdivision", "school_district", "state_house", "state_senate", "zcta")
RACES = ("white", "black", "aian", "asian", "nhopi", "sor")
WAYS = ("own", "tree", "query by query")
STAGES = ("estimate", "values of the tree")

Row = tuple[str, str, str]
"""Kind of area; "query", "size", "race" or "group size"; and which of them."""


@dataclass(frozen=True)
class Release:
    """A release that is made again and again.

    Attributes:
        plan: With values = "own".
        spine: The spine that is measured.
        place: Official number of each of its finest geounits.
    """

    plan: ReleasePlan
    spine: Spine
    place: np.ndarray


def with_values(plan: ReleasePlan, values: Literal["own", "tree"]) -> ReleasePlan:
    """The plan with these values at all geolevels but the finest, without microdata and measurement files."""
    finest = plan.geolevels[-1]
    estimation = tuple(
        (name, item if name == finest else replace(item, values=values)) for name, item in plan.estimation
    )
    return replace(plan, estimation=estimation, measurements="none", microdata=False, tables=("total",))


def release_of(world: World, folder: Path, entities: Path, spine: str) -> Release:
    """The release on one of the two spines."""
    if spine == "plain":
        return Release(world.plan, world.spine, np.arange(world.spine.n_geounits(world.spine.finest)))
    kinds = kinds_of_group_quarters(pl.read_parquet(folder / "facilities.parquet"))
    codes = world.spine.geocodes[-1].text.implode()
    table = pl.read_parquet(entities).filter(pl.col("geocode").is_in(codes))
    table.join(kinds, on="geocode", how="left").write_parquet(folder / "entities.parquet")
    path = folder / "optimised.toml"
    text = (folder / "release.toml").read_text()
    path.write_text(f'{text}\n[spine]\nentities = "entities.parquet"\npreset = "{SPINE_PRESET}"\n')
    plan = load_plan(path)
    measured = read_hierarchies(plan).spine
    block_codes = measured.geocodes[-1].text.to_numpy()
    return Release(plan, measured, world.spine.locate(world.spine.finest, block_codes))


def areas_of(spine: Spine, path: Path) -> dict[str, sparse.csr_matrix]:
    """For each official geolevel and each family, which blocks are in each area."""
    n = spine.n_geounits(spine.finest)
    areas = {
        name: sparse.csr_matrix((np.ones(n), (spine.ancestors(level), np.arange(n))))
        for level, name in enumerate(spine.geolevels)
    }
    table = pl.read_parquet(path)
    rows = spine.locate(spine.finest, table["geocode"].to_numpy())
    for family in FAMILIES:
        inside = table[family].is_not_null().to_numpy() & (rows >= 0)
        _, area = np.unique(table[family].to_numpy()[inside].astype(str), return_inverse=True)
        members = (np.ones(len(area)), (area, rows[inside]))
        areas[family] = sparse.csr_matrix(members, shape=(area.max() + 1, n))
    return areas


def adders_of(world: World) -> dict[str, sparse.csr_matrix]:
    """For each query, which cells count in each answer."""
    cells = np.arange(world.schema.size)
    return {
        query: sparse.csr_matrix((np.ones(len(cells)), (cells, world.schema.query(query).answers_of(cells))))
        for query in QUERIES
    }


def races_of(world: World) -> dict[str, np.ndarray]:
    """For each group of people, which cells count."""
    cells = np.arange(world.schema.size)
    hispanic, race = (world.schema.query(query).answers_of(cells) for query in ("hispanic", "cenrace"))
    indicators = {f"{name} alone": (race == number) * 1.0 for number, name in enumerate(RACES)}
    indicators["two or more races"] = (race >= len(RACES)) * 1.0
    indicators["Hispanic"] = (hispanic == 1) * 1.0
    return indicators


class Study:
    """What is added up to errors, and how."""

    def __init__(self, world: World, entities: Path) -> None:
        self.world, self.truth = world, world.truth[-1]
        self.areas, self.adders, self.races = (
            areas_of(world.spine, entities),
            adders_of(world),
            races_of(world),
        )
        ones = np.ones(world.schema.size)
        self.sizes = {
            name: size_classes((members @ (self.truth @ ones)).astype(np.int64))
            for name, members in self.areas.items()
        }

    def errors(self, release: Release, out: Path) -> Iterator[tuple[Row, float, float]]:
        """Mean error and bias of every row, of the release in a folder."""
        finest = release.spine.geolevels[-1]
        counts = matrix_of(
            read_histogram(out, finest, self.world.schema, release.spine), self.world.schema.size
        )
        order = np.argsort(release.place)
        wrong = sparse.csr_matrix(counts[order] - self.truth)
        for place, members in self.areas.items():
            yield from self._of_place(place, sparse.csr_matrix(members @ wrong))
        yield from self._of_groups(finest, wrong)

    def _of_groups(self, finest: str, wrong: sparse.csr_matrix) -> Iterator[tuple[Row, float, float]]:
        """Errors of the counts of all groups but the largest at blocks, by the true count."""
        small = np.stack([counted for race, counted in self.races.items() if race != "white alone"], axis=1)
        off, classes = wrong @ small, size_classes((self.truth @ small).astype(np.int64))
        for number, size in enumerate(SizeClass):
            chosen = off[classes == number]
            if chosen.size:
                yield (finest, "group size", size.value), float(abs(chosen).mean()), float(chosen.mean())

    def _of_place(self, place: str, wrong: sparse.csr_matrix) -> Iterator[tuple[Row, float, float]]:
        n, total = wrong.shape[0], np.asarray(wrong.sum(axis=1)).reshape(-1)
        for query, adding in self.adders.items():
            yield (place, "query", query), float(abs(wrong @ adding).sum() / n), float(total.mean())
        for number, size in enumerate(SizeClass):
            chosen = self.sizes[place] == number
            if chosen.any():
                bias, error = float(total[chosen].mean()), float(abs(total[chosen]).mean())
                yield (place, "size", size.value), error, bias
        for race, counted in self.races.items():
            errors = wrong @ counted
            yield (place, "race", race), float(abs(errors).mean()), float(errors.mean())


Found = dict[Row, dict[str, list[tuple[float, float]]]]
"""By row and way of estimating, error and bias of every key."""


def query_by_query() -> AbstractContextManager[object]:
    """No block of answers is small enough for the sweep with full precision."""
    return mock.patch.object(tree_values, "LARGEST_BLOCK", 1)


def compare(study: Study, release: Release, keys: int, folder: Path) -> tuple[Found, dict[str, list[float]]]:
    """Errors by key, and the seconds of noise, estimation and rounding."""
    errors: Found = defaultdict(lambda: defaultdict(list))
    seconds: dict[str, list[float]] = defaultdict(list)
    shared = release.plan.measuring_digest()
    for number in range(keys):
        for way in WAYS:
            plan = with_values(release.plan, "own" if way == "own" else "tree")
            with tempfile.TemporaryDirectory(dir=folder) as place:
                out = Path(place) / "out"
                # Noise is bound to the plan, of which the values are a part.
                with (
                    mock.patch.object(ReleasePlan, "measuring_digest", return_value=shared),
                    query_by_query() if way == "query by query" else nullcontext(),
                ):
                    timings = Timings(Path(place) / "timings.jsonl")
                    run_release(plan, out, test_key=insecure_key(f"tree {number}"), observer=timings)
                lines = map(json.loads, (Path(place) / "timings.jsonl").read_text().splitlines())
                stages = [line for line in lines if line["event"] == "stage finished"]
                seconds[way].append(
                    sum(stage["seconds"] for stage in stages if stage["stage"].startswith(STAGES))
                )
                for row, error, bias in study.errors(release, out):
                    errors[row][way].append((error, bias))
        print(f"key {number} done", flush=True)
    return errors, seconds


def compare_roots(world: World, keys: int) -> Found:
    """Errors of the root's queries by key, where nothing else is estimated."""
    plan = with_values(world.plan, "tree")
    public = read_public(plan)
    hierarchies, allocation = public.hierarchies, public.allocation
    constraints = compile_constraints(plan, hierarchies, world.histograms, public.bounds)
    sweep = prepared_sweep(plan, hierarchies, constraints)
    bounding = with_implied_bounds(constraints, world.spine, plan.schema)
    settings = plan.estimation_of(world.spine.geolevels[0])
    truth = np.asarray(world.truth[0].todense()).reshape(-1)
    adders = {name: adding.toarray() for name, adding in adders_of(world).items()}
    errors: Found = defaultdict(lambda: defaultdict(list))
    for number in range(keys):
        source = Measurer(
            world.histograms, plan.schema, allocation, NoiseSource(insecure_key(f"root {number}"))
        )
        for way in WAYS[:2]:
            builder = FamilyBuilder(
                plan,
                allocation,
                0,
                source,
                bounding,
                tuple(plan.query(name) for name in plan.strategy.queries(world.spine.geolevels[0])),
                tuple(tuple(plan.query(name) for name in stage) for stage in settings.rounding),
                swept_values(sweep, source, SilentObserver(), Threads()) if way == "tree" else None,
            )
            counts = estimate_level(builder, None, SilentObserver()).counts
            wrong = -truth
            wrong[counts.cells] += counts.counts
            for query, adding in adders.items():
                answers = wrong @ adding
                errors["State", "query", query][way].append(
                    (float(abs(answers).sum()), float(answers.mean()))
                )
    return errors


def summary(errors_of: Found) -> list[dict[str, object]]:
    """Means over keys, ratios to "own", and the standard errors of the ratios."""
    rows: list[dict[str, object]] = []
    for (place, kind, which), by_way in errors_of.items():
        row: dict[str, object] = {"place": place, "kind": kind, "which": which}
        untied = np.array(by_way["own"])
        for way, values in by_way.items():
            errors, biases = np.array(values).T
            ratio = errors.mean() / untied[:, 0].mean() if untied[:, 0].any() else float("nan")
            rest = (errors - ratio * untied[:, 0]) / max(untied[:, 0].mean(), 1e-9)
            spread = rest.std(ddof=1) / np.sqrt(len(rest)) if len(rest) > 1 else 0.0
            row[way] = {"error": errors.mean(), "bias": biases.mean(), "ratio": ratio, "ratio_se": spread}
        rows.append(row)
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    """The rows as a table in Markdown."""
    ways = [way for way in WAYS if way in rows[0]]
    heads = [f"{way}: error | bias" for way in ways[:2]] + [f"{way} / own" for way in ways[1:]]
    print("| | | " + " | ".join(heads) + " |")
    print("|" + "---|" * (5 + len(ways)))
    for row in rows:
        numbers = [f"{row[way]['error']:.2f} | {row[way]['bias']:+.2f}" for way in ways[:2]]
        ratios = [f"{row[way]['ratio']:.3f} ± {row[way]['ratio_se']:.3f}" for way in ways[1:]]
        print(f"| {row['place']} | {row['which']} | " + " | ".join([*numbers, *ratios]) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--counts", type=Path, default=DATA / "ri_2010_counts.parquet")
    parser.add_argument("--entities", type=Path, default=DATA / "ri_2010_entities.parquet")
    parser.add_argument("--keys", type=int, default=4, help="test keys to average over")
    parser.add_argument("--root-keys", type=int, help="estimate the State alone, with so many test keys")
    parser.add_argument("--spine", choices=("plain", "optimised"), default="plain")
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        world = make_world(options.counts, PRESET, folder / "data")
        if options.root_keys:
            show(summary(compare_roots(world, options.root_keys)))
            return
        release = release_of(world, folder / "data", options.entities, options.spine)
        errors, seconds = compare(Study(world, options.entities), release, options.keys, folder)
        exact = guarantee_of(release.plan, read_public(release.plan).allocation)["exact"]["epsilon"]["upper"]
    rows = summary(errors)
    delta = float(release.plan.delta)
    print(f"{options.spine} spine, {options.keys} keys, exact epsilon {exact:.4f} at delta {delta:g}")
    show(rows)
    for way, times in seconds.items():
        print(f"estimation, {way}: {min(times):.2f} s at best, {np.mean(times):.2f} s on average")
    if options.json is not None:
        settings = {"spine": options.spine, "keys": options.keys, "epsilon": exact, "delta": delta}
        options.json.write_text(json.dumps({**settings, "rows": rows, "seconds": seconds}, indent=2) + "\n")


if __name__ == "__main__":
    main()
