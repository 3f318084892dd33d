"""The spine of a made-up large state: how long its optimisation takes, in how much memory, and what it gains.

Blocks lie along a space-filling curve, so that tracts and block groups are compact; county subdivisions are
cells within counties, school districts cells of the state, places discs, as are a few tribal areas. So entities
cross tracts as real ones do.

    python benchmarks/spine.py [--blocks 421545] [--json FILE]
"""

import argparse
import json
import resource
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.spatial import cKDTree

from tallyveil.geography import (
    Branch,
    BypassRule,
    GroupByDistance,
    GroupByMembership,
    entities_from_columns,
    off_spine_distances,
    optimise_spine,
    recipe_of,
    spine_from_prefixes,
)

GEOLEVELS = ("US", "State", "County", "Tract", "Block_Group", "Block")
FAMILIES = ("place", "county_subdivision", "school_district", "tribal_area")


def hilbert(n: int, order: int = 10) -> np.ndarray:
    """Points along a Hilbert curve through the unit square, evenly spaced; shape (n, 2)."""
    d = np.arange(n, dtype=np.int64) * (1 << (2 * order)) // n
    x, y = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    for bit in range(order):
        s = 1 << bit
        rx, ry = 1 & (d // 2), 1 & (d ^ (d // 2))
        turn = ry == 0
        flip = turn & (rx == 1)
        x[flip], y[flip] = s - 1 - x[flip], s - 1 - y[flip]
        x[turn], y[turn] = y[turn].copy(), x[turn].copy()
        x, y = x + s * rx, y + s * ry
        d //= 4
    return np.stack([x, y], axis=1) / (1 << order)


def cut(rng: np.random.Generator, n: int, parts: int) -> np.ndarray:
    """Cut n in a row into parts of uneven size; the part of each."""
    ends = np.sort(rng.choice(np.arange(1, n), size=min(parts, n) - 1, replace=False))
    return np.searchsorted(ends, np.arange(n), side="right")


def state(blocks: int, seed: int) -> pl.DataFrame:
    """Blocks of a state with their geocodes and the entity of each family."""
    rng = np.random.default_rng(seed)
    points = hilbert(blocks)
    county = cut(rng, blocks, max(blocks // 6_300, 2))
    tract = cut(rng, blocks, max(blocks // 131, 3))
    group = cut(rng, blocks, max(blocks // 43, 4))
    # A part that straddles two of the coarser cut falls into two; numbers restart nowhere, so text stays unique.
    codes = [
        f"42{c:03d}{t:06d}{g % 9 + 1}{b:06d}"
        for b, (c, t, g) in enumerate(zip(county.tolist(), tract.tolist(), group.tolist(), strict=True))
    ]
    wobble = points + rng.normal(scale=0.002, size=points.shape)

    def cells(n: int) -> np.ndarray:
        return cKDTree(rng.random((n, 2))).query(wobble)[1]

    def discs(n: int, share: float, spread: float) -> np.ndarray:
        centre, radius = rng.random((n, 2)), rng.lognormal(0, spread, n)
        radius *= np.sqrt(share / np.pi / np.sum(radius**2))
        distance, nearest = cKDTree(centre).query(wobble)
        return np.where(distance < radius[nearest], nearest, -1)

    def named(label: np.ndarray, width: int = 5) -> list[str | None]:
        return [None if k < 0 else f"{k:0{width}d}" for k in label.tolist()]

    scale = blocks / 421_545
    minor = county * 100_000 + cells(max(int(1_300 * scale), 5))
    return pl.DataFrame(
        {
            "geocode": codes,
            "place": named(discs(max(int(1_300 * scale), 3), 0.3, 1.0)),
            "county_subdivision": named(minor, 9),
            "school_district": named(cells(max(int(500 * scale), 3))),
            "tribal_area": named(discs(3, 0.002, 0.3)),
        }
    )


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
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    clock, cpu, table = timed(lambda: state(given.blocks, given.seed))
    report(rows, "make the state up (not counted)", clock, cpu)
    clock, cpu, spine = timed(lambda: spine_from_prefixes(table["geocode"], GEOLEVELS, (0, 2, 5, 11, 12, 18)))
    report(rows, "spine from prefixes", clock, cpu)
    clock, cpu, families = timed(lambda: entities_from_columns(spine, table.to_dict(), FAMILIES))
    report(rows, "entities", clock, cpu)
    print(spine, *families, sep="\n")
    steps = [
        Branch("tribal_area", "State", "AIAN"),
        GroupByMembership(FAMILIES, "Block_Group", "Block"),
        GroupByDistance(FAMILIES, "Tract_Group", "Tract"),
    ]
    shares = {name: Fraction(1, 7) for name in (*GEOLEVELS[:3], "Tract_Group", *GEOLEVELS[3:])}
    gaining = [*steps[:2], GroupByDistance(FAMILIES, "Tract_Group", "Tract", gains_first=True)]
    spines = {"plain": (spine, np.arange(given.blocks))}
    for name, upto in (("AIAN", 1), ("AIAN, block groups", 2), ("AIAN, block groups, tract groups", 3)):
        clock, cpu, made = timed(lambda upto=upto: optimise_spine(spine, families, steps[:upto]))
        report(rows, f"optimise: {name}", clock, cpu)
        spines[name] = (made.spine, made.rows)
    clock, cpu, made = timed(lambda: optimise_spine(spine, families, gaining))
    report(rows, "optimise: the same, gains first", clock, cpu)
    spines["gains first"] = (made.spine, made.rows)
    for rule in BypassRule:
        clock, cpu, made = timed(
            lambda rule=rule: optimise_spine(spine, families, steps, shares=shares, bypassing=rule)
        )
        report(rows, f"optimise: all, bypass {rule}", clock, cpu)
        print(made.spine)
    for name, (one, order) in spines.items():
        moved = [family.reordered(order) for family in families]
        clock, cpu, found = timed(lambda one=one, moved=moved: [off_spine_distances(one, f) for f in moved])
        report(rows, f"distances: {name}", clock, cpu)
        for distances in found:
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


if __name__ == "__main__":
    main()
