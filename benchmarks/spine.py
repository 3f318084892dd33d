"""The spine of a large state: how long its optimisation takes, in how much memory, and what it gains.

Blocks, places, county subdivisions, school districts and tribal areas are made up as `tallyveil synth` makes them;
or the blocks and entities of tables are used. What a spine gains is the exact standard deviation of totals under
the 2020 redistricting strategy, on the same areas with the same budget.

    python benchmarks/spine.py [--blocks 421545] [--json FILE]
    python benchmarks/spine.py --geography BLOCKS.parquet --entities ENTITIES.parquet
"""

import argparse
import json
import resource
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import headline
import numpy as np
import polars as pl

from tallyveil.budget.presets import load_strategy_preset
from tallyveil.budget.spine.regroup import RegroupingAim, group_by_variance
from tallyveil.budget.spine.variance import family_accuracies, measured_variances, precision_of, totals_summed
from tallyveil.geography.areas import geounits_as_entities
from tallyveil.geography.build import spine_from_columns
from tallyveil.geography.bypass import BypassRule, QueryShares
from tallyveil.geography.entities import off_spine_distances, recipe_of
from tallyveil.geography.optimise import Branch, GroupByDistance, GroupByMembership, Step, optimise_spine
from tallyveil.geography.steps import FanOutLimit
from tallyveil.geography.tables import entities_from_columns
from tallyveil.schema.presets import load_preset
from tallyveil.synthetic.country import make_entities, make_geography

GEOLEVELS = ("US", "State", "County", "Tract", "Block_Group", "Block")
COLUMNS = ("state", "county", "tract", "block_group", "geocode")
FAMILIES = ("place", "county_subdivision", "school_district", "tribal_area")
BRANCH = Branch("tribal_area", "State", "AIAN")


def state(blocks: int, seed: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Geography and entities of a made-up state."""
    geography = make_geography(blocks, np.random.default_rng(seed), 1)
    return geography, pl.concat(make_entities(geography, seed))


def accuracy(rows: list[dict[str, Any]], spine: Any, families: Any, limits: dict[str, FanOutLimit]) -> None:
    """Exact standard deviations of the same areas on the plain spine, the paper's and ours."""
    strategy = load_strategy_preset("redistricting-us").strategy
    summed = totals_summed(load_preset("pl94-persons"), strategy)
    shares = dict(strategy.geolevel_shares)
    precisions = {
        name: np.inf if name == "US" else float(precision_of(strategy, name, shares[name], summed))
        for name in GEOLEVELS
    }
    asked = [family for family in families if family.name != "tribal_area" and family.n_entities]
    areas = [
        geounits_as_entities(spine, spine.level_index(name)) for name in ("County", "Tract", "Block_Group")
    ]
    optimised = {
        "plain": optimise_spine(spine, families, []),
        "AIAN": optimise_spine(spine, families, [BRANCH]),
    }
    for name, limit in limits.items():
        group = GroupByMembership(FAMILIES, "Block_Group", "Block", limit)
        optimised[f"paper, {name}"] = optimise_spine(spine, families, [BRANCH, group])
    spines = {name: (result.spine, result.rows) for name, result in optimised.items()}
    start = optimised[f"paper, {next(iter(limits))}"]
    aims = {
        "entities, tracts, counties": asked,
        "and given block groups": [*asked, geounits_as_entities(spine, spine.level_index("Block_Group"))],
    }
    for title, aimed in aims.items():
        for name, limit in limits.items():
            renamed = [
                type(family)(
                    f"given {family.name}", family.codes, family.offsets, family.members, family.n_finest
                )
                if family.name in GEOLEVELS
                else family
                for family in aimed
            ]
            aim = RegroupingAim(
                tuple((family.name, 1.0) for family in renamed), (("Tract", 1.0), ("County", 1.0))
            )
            clock, cpu, ours = timed(
                lambda renamed=renamed, limit=limit, aim=aim: group_by_variance(
                    start.spine,
                    [family.reordered(start.rows) for family in renamed],
                    precisions,
                    geolevel="Block_Group",
                    limit=limit,
                    aim=aim,
                )
            )
            report(rows, f"ours, {name}: {title} ({ours.rounds} rounds)", clock, cpu)
            spines[f"ours, {name}: {title}"] = (ours.spine, start.rows[ours.rows])
    for name, (tree, order) in spines.items():
        variances = measured_variances(tree, strategy, summed, exact=["US"])
        moved = [family.reordered(order) for family in (*asked, *areas)]
        for item in family_accuracies(variances, moved):
            row = {"area": item.name, "mean": item.mean, "q90": item.q90, "greatest": item.greatest}
            rows.append({"what": f"standard deviation: {name}", **row})
        line = "  ".join(
            f"{r['area']} {r['mean']:.2f}" for r in rows if r["what"] == f"standard deviation: {name}"
        )
        print(f"{name:46s} {tree.n_geounits(4)} groups: {line}")


def timed(call: Any) -> tuple[float, float, Any]:
    """Seconds by the clock and of the processor, and the answer."""
    clock, cpu = time.perf_counter(), time.process_time()
    answer = call()
    return time.perf_counter() - clock, time.process_time() - cpu, answer


def report(rows: list[dict[str, Any]], name: str, clock: float, cpu: float) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    rows.append({"what": name, "seconds": clock, "cpu_seconds": cpu, "peak_gib": peak})
    print(f"{name:44s} {clock:8.2f} s  {cpu:8.2f} s of a core   peak {peak:5.2f} GiB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--blocks", type=int, default=421_545)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--geography", type=Path)
    parser.add_argument("--entities", type=Path)
    headline.add_option(parser)
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    if given.geography:
        geography, table = pl.read_parquet(given.geography), pl.read_parquet(given.entities)
    else:
        clock, cpu, (geography, table) = timed(lambda: state(given.blocks, given.seed))
        report(rows, "make the state up (not counted)", clock, cpu)
    columns = {"US": pl.repeat("US", geography.height, dtype=pl.String, eager=True)}
    columns |= {name: geography[column] for name, column in zip(GEOLEVELS[1:], COLUMNS, strict=True)}
    clock, cpu, spine = timed(lambda: spine_from_columns(columns, GEOLEVELS))
    report(rows, "spine from columns", clock, cpu)
    clock, cpu, families = timed(lambda: entities_from_columns(spine, table.to_dict(), FAMILIES))
    report(rows, "entities", clock, cpu)
    print(spine, *families, sep="\n")
    accuracy(rows, spine, families, {"cutoff 12": FanOutLimit(), "cutoff 60": FanOutLimit(cutoff=60)})
    steps: list[Step] = [
        BRANCH,
        GroupByMembership(FAMILIES, "Block_Group", "Block"),
        GroupByDistance(FAMILIES, "Tract_Group", "Tract"),
    ]
    shares = {name: Fraction(1, 7) for name in (*GEOLEVELS[:3], "Tract_Group", *GEOLEVELS[3:])}
    queries = QueryShares(({"total": Fraction(1)},) * len(shares), squared=False)
    gaining: list[Step] = [*steps[:2], GroupByDistance(FAMILIES, "Tract_Group", "Tract", gains_first=True)]
    spines = {"plain": (spine, np.arange(geography.height))}
    for name, upto in (("AIAN", 1), ("AIAN, block groups", 2), ("AIAN, block groups, tract groups", 3)):
        clock, cpu, optimised = timed(lambda upto=upto: optimise_spine(spine, families, steps[:upto]))
        report(rows, f"optimise: {name}", clock, cpu)
        spines[name] = (optimised.spine, optimised.rows)
    clock, cpu, optimised = timed(lambda: optimise_spine(spine, families, gaining))
    report(rows, "optimise: the same, gains first", clock, cpu)
    spines["gains first"] = (optimised.spine, optimised.rows)
    for rule in BypassRule:
        clock, cpu, optimised = timed(
            lambda rule=rule: optimise_spine(
                spine, families, steps, shares=shares, bypassing=rule, queries=queries
            )
        )
        report(rows, f"optimise: all, bypass {rule}", clock, cpu)
        print(optimised.spine)
    for name, (tree, order) in spines.items():
        moved = [family.reordered(order) for family in families]
        clock, cpu, off_spine = timed(
            lambda tree=tree, moved=moved: [off_spine_distances(tree, f) for f in moved]
        )
        report(rows, f"distances: {name}", clock, cpu)
        for distances in off_spine:
            row = {
                "family": distances.family,
                "mean": distances.mean,
                "median": distances.quantile(1, 2),
                "q90": distances.quantile(9, 10),
                "maximum": distances.maximum,
            }
            rows.append({"what": f"distances: {name}", **row})
            print(
                "   ",
                "  ".join(f"{k} {v:.2f}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()),
            )
    clock, cpu, recipe = timed(lambda: recipe_of(spine, families[0], families[0].codes[0]))
    report(rows, f"one recipe, of {len(recipe)} geounits", clock, cpu)
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1))
    slowest = max(row["seconds"] for row in rows if row["what"].startswith("optimise"))
    peak = max(row["peak_gib"] for row in rows if "peak_gib" in row)
    headline.write(
        given.headline,
        [
            headline.Headline("optimising a spine", f"{slowest:.1f} s", "of the 60 s allowed", 60 / slowest),
            headline.Headline("memory", f"{peak:.2f} GiB", "of the 4 GiB allowed", 4 / peak),
        ],
    )


if __name__ == "__main__":
    main()
