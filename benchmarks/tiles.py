"""The tile problem on made-up parents shaped like those of the DHC's persons, by geolevel.

Persons get a relationship or group quarters type (42), an age of 40 groups, a sex, a Hispanic origin and a race (63).
What a redistricting release and the facilities fix is the count of each child by type of group quarters, voting age,
origin and race. Seven coarse queries couple these groups, and the cells themselves are measured.

    python benchmarks/tiles.py [--parents 20] [--exact 20] [--flows 50] [--largest] [--json FILE]

Columns: parents, children, columns of the parent's support, unknown counts after presolve, processor milliseconds of a
parent at a backward error of 0.1 persons, steps of Newton's method and of conjugate gradients, restarts, the largest
backward error, and parents that were certified. `--exact` compares small parents with PIQP, `--flows` the rounding of
tables with HiGHS, `--largest` adds a county of 141 tracts.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))  # where the tests are, with their oracles

from tests.oracles.tiles import least_deviation_reference, least_squares_reference

from tallyveil.estimation.problem import MeasuredQuery, TileProblem
from tallyveil.estimation.tiles import TileSolution, estimate_tiles

RACES, AGES, TYPES = 63, 40, 42
LEVELS = {
    "block": (0.0011, 32, 1, 40),
    "block group": (0.043, 3, 30, 40),
    "tract": (0.182, 49, 90, 45),
    "county": (0.031, 5, 3000, 60),
}
"""Weight of a query, children of a parent, and how many blocks a child has and how many persons one of them has."""


def persons(rng: np.random.Generator, n: int, diversity: float) -> np.ndarray:
    """Persons as rows of type, age, sex, origin and race. The relationship says much about the age."""
    household = np.array([6, 6, 4, 1, 0.3, 0.1, 6, 0.4, 0.5, 0.3, 0.5, 0.4, 0.6, 0.1, 0.3, 0.5, 0.1, 0.3])
    middle = np.array([29, 29, 29, 24, 27, 25, 10, 12, 10, 22, 33, 8, 34, 30, 20, 24, 8, 22])
    spread = np.array([4, 4, 4, 3, 3, 3, 6, 5, 5, 5, 2, 5, 2, 3, 6, 4, 4, 5])
    kind = rng.choice(18, n, p=household / household.sum())
    age = np.clip(np.rint(rng.normal(middle[kind], spread[kind])), 0, AGES - 1).astype(int)
    quarters = rng.random(n) < 0.02
    kind[quarters] = 18 + rng.choice(24, int(quarters.sum()))
    share = 1.0 / np.arange(1, RACES + 1) ** (3.6 / diversity)
    race = rng.choice(RACES, n, p=share / share.sum())
    origin = (rng.random(n) < 0.08 * diversity).astype(int)
    sex = np.where(rng.random(n) < 0.7, kind % 2, rng.integers(0, 2, n))
    return np.stack([kind, age, sex, origin, race], axis=1)


def answers(kind: np.ndarray, age: np.ndarray, sex: np.ndarray, origin: np.ndarray) -> dict[str, np.ndarray]:
    """The seven coarse queries."""
    thirds = np.where(age < 18, 0, np.where(age < 30, 1, 2))
    quarters = np.where(kind < 2, 0, np.where(kind < 18, 1, np.where(kind < 33, 2, 3)))
    eight = np.where(kind < 18, 0, 1 + (kind - 18) * 5 // 24)
    return {
        "thirds*quarters": thirds * 4 + quarters,
        "thirds*sex": thirds * 2 + sex,
        "ages*sex": np.where(age < 15, age, np.where(age < 18, 15, age - 2)) * 2 + sex,
        "origin*sex": origin * 2 + sex,
        "sex*quarters": sex * 4 + quarters,
        "tens*eight": eight * 10 + np.minimum(age // 4, 9),
        "kinds": np.minimum(kind, 18),
    }


def parent(seed: int, level: str, children: int | None = None) -> TileProblem:
    """A made-up parent whose children are at a geolevel."""
    weight, usual, blocks, per_block = LEVELS[level]
    rng = np.random.default_rng([20, seed, len(level)])
    n_children = children or max(2, int(rng.poisson(usual)))
    sizes = rng.gamma(1.0, per_block, (n_children, blocks)).astype(int).sum(axis=1) + 1
    diversity = rng.uniform(0.8, 1.6)
    rows = persons(rng, int(sizes.sum()), diversity)
    child = np.repeat(np.arange(n_children), sizes)
    cell = np.ravel_multi_index(rows.T, (TYPES, AGES, 2, 2, RACES))
    columns, place = np.unique(cell, return_inverse=True)
    truth = np.zeros((n_children, columns.size), np.int64)
    np.add.at(truth, (child, place), 1)
    kind, age, sex, origin, race = np.unravel_index(columns, (TYPES, AGES, 2, 2, RACES))
    held = ((np.maximum(kind - 17, 0) * 2 + (age >= 18)) * 2 + origin) * RACES + race
    groups, group = np.unique(held, return_inverse=True)
    fixed = np.zeros((n_children, groups.size), np.int64)
    np.add.at(fixed.T, group, truth.T)
    queries = {**answers(kind, age, sex, origin), "cells": np.arange(columns.size)}
    measured = []
    for name, labels in queries.items():
        used, number = np.unique(labels, return_inverse=True)
        sums = np.zeros((used.size, n_children))
        np.add.at(sums, number, truth.T.astype(float))
        variance = 0.5 / weight if name == "cells" else 1.0 / weight
        noise = np.rint(rng.normal(0.0, variance**0.5, sums.shape))
        variances = np.full(n_children, variance)
        measured.append(MeasuredQuery(name, number.astype(np.int32), (sums + noise).T, variances))
    thirds = np.where(age < 18, 0, np.where(age < 30, 1, 2))
    nested = [group * 2 + sex, (group * 2 + sex) * 3 + thirds, np.arange(columns.size)]
    chain = tuple(np.unique(labels, return_inverse=True)[1].astype(np.int32) for labels in nested)
    names = tuple(str(c) for c in range(n_children))
    return TileProblem(
        f"parent {seed}", level, names, columns, truth.sum(axis=0), group, fixed,
        tuple(measured), chain, np.array([1.0, 1.0, 2.0]),
    )  # fmt: skip


def line(name: str, problems: list[TileProblem], tolerance: float) -> dict[str, object]:
    """Solve some parents and sum up."""
    solutions: list[TileSolution] = []
    seconds = []
    for problem in problems:
        start = time.process_time()
        solutions.append(estimate_tiles(problem, backward_error_persons=tolerance))
        seconds.append(time.process_time() - start)
    mean = {
        field: float(np.mean([getattr(solution.effort, field) for solution in solutions]))
        for field in ("entries", "steps", "cg_steps")
    }
    return {
        "children at": name,
        "parents": len(problems),
        "children": float(np.mean([problem.n_children for problem in problems])),
        "columns": float(np.mean([problem.n_columns for problem in problems])),
        **mean,
        "milliseconds": 1e3 * float(np.mean(seconds)),
        "slowest": 1e3 * max(seconds),
        "restarts": sum(solution.effort.restarts for solution in solutions),
        "wide_flows": sum(solution.effort.wide_flows for solution in solutions),
        "backward error": max(solution.residual_persons for solution in solutions),
        "certified": sum(solution.status.certified for solution in solutions),
    }


def small_parents(n: int) -> list[TileProblem]:
    """Parents of at most 2,500 unknown counts."""
    problems: list[TileProblem] = []
    seed = 0
    while len(problems) < n:
        problem = parent(1000 + seed, "block group" if seed % 2 else "block", children=2 + seed % 4)
        seed += 1
        if problem.n_children * problem.n_columns <= 2500:
            problems.append(problem)
    return problems


def compare_estimates(n: int) -> dict[str, float]:
    """Largest difference from PIQP, in persons."""
    worst = 0.0
    for problem in small_parents(n):
        ours = estimate_tiles(problem, backward_error_persons=1e-6).estimate
        worst = max(worst, float(np.abs(ours - least_squares_reference(problem)).max()))
    return {"parents": n, "largest difference from PIQP": worst}


def compare_flows(n: int) -> dict[str, float]:
    """Tables whose rounding deviates more or less than the least deviation that HiGHS finds."""
    differing = tables = 0
    for problem in small_parents(n):
        if tables >= n:
            break
        solution = estimate_tiles(problem)
        for group in range(problem.n_groups):
            inside = np.flatnonzero(problem.group == group)
            estimate = solution.estimate[:, inside].T
            if tables >= n or inside.size < 2 or np.allclose(estimate, np.rint(estimate)):
                continue
            chain = tuple(labels[inside] for labels in problem.chain)
            weights = problem.whole_weights
            totals = (problem.parent_counts[inside], problem.fixed[:, group])
            least = least_deviation_reference(estimate, totals, chain, weights)
            cost = deviation(solution.counts[:, inside].T, estimate, chain, weights)
            differing += abs(cost - least) > 1e-3
            tables += 1
    return {"tables": tables, "deviations that differ from HiGHS": differing}


def deviation(counts: np.ndarray, estimate: np.ndarray, chain: tuple, weights: np.ndarray) -> float:
    """Weighted sum of |whole sum - estimated sum|."""
    total = 0.0
    for labels, weight in zip(chain, weights, strict=True):
        gap = np.zeros((int(labels.max()) + 1, counts.shape[1]))
        np.add.at(gap, labels, counts - estimate)
        total += float(weight) * float(np.abs(gap).sum())
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parents", type=int, default=20)
    parser.add_argument("--exact", type=int, default=20)
    parser.add_argument("--flows", type=int, default=50)
    parser.add_argument("--tolerance", type=float, default=0.1)
    parser.add_argument("--largest", action="store_true")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    estimate_tiles(parent(0, "block", children=2))
    lines = [
        line("block", [parent(seed, "block") for seed in range(given.parents)], given.tolerance),
        line("block group", [parent(seed, "block group") for seed in range(given.parents)], given.tolerance),
        line(
            "tract", [parent(seed, "tract") for seed in range(max(1, given.parents // 10))], given.tolerance
        ),
    ]
    if given.largest:
        lines.append(line("tract (141)", [parent(1, "tract", children=141)], given.tolerance))
    for row in lines:
        print(
            "  ".join(
                f"{key}: {value:.4g}" if isinstance(value, float) else f"{key}: {value}"
                for key, value in row.items()
            )
        )
    checks = [compare_estimates(given.exact), compare_flows(given.flows)]
    for check in checks:
        print(check)
    if given.json:
        given.json.write_text(json.dumps({"lines": lines, "checks": checks}, indent=1))


if __name__ == "__main__":
    main()
