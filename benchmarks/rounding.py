"""Controlled rounding: is the network flow optimal on thousands of families, and how much faster than HiGHS?

Families are those of releases of made-up populations that agree with real block counts. Every stage of every
family is also solved by HiGHS as an integer program, with the flow's answers of the earlier stages held, and the
deviations must agree exactly. A sample is solved in the textbook's form too (binary roundings, one variable for
each absolute value), as a program that knows nothing of networks would.

    python benchmarks/rounding.py --like COUNTS.parquet [--families 2000] [--sample 20] [--json FILE]
"""

import argparse
import json
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

import headline
import highspy
import numpy as np
from numba import njit
from release_families import families, made_up
from scipy import sparse

from tallyveil.estimation.highs import branch_and_bound, solve_integer
from tallyveil.estimation.least_squares import solve_passes
from tallyveil.estimation.problem import UNBOUNDED, FamilyProblem
from tallyveil.estimation.rounding import Fixing, Snapped, _arrays, round_counts, snap, stage_program
from tallyveil.kernels.rounding.flow import round_by_flow
from tallyveil.kernels.rounding.network_simplex import ONE, Bounds, Entries

Family = tuple[FamilyProblem, np.ndarray, np.ndarray]


def rounded_families(like: Path, seed: int) -> Iterator[Family]:
    """Every family of the release of one population, as the rounding gets it."""
    for problem in families(made_up(like, seed), f"rounding {seed}"):
        allowed = problem.allowed()
        yield problem, allowed, solve_passes(problem, allowed.copy()).estimate


def seconds(call: Any, rounds: int = 1) -> tuple[float, Any]:
    """Least time of some rounds, and the answer."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        answer = call()
        times.append(time.perf_counter() - start)
    return min(times), answer


@njit(nogil=True)
def round_repeatedly(
    labels: np.ndarray,
    stage: np.ndarray,
    nearest: np.ndarray,
    bounds: Bounds,
    entries: Entries,
    parent: np.ndarray,
    n: int,
) -> int:
    """Round a family n times, without coming back to Python."""
    total = 0
    for _ in range(n):
        total += round_by_flow(labels, stage, nearest, bounds, entries, parent)[1].size
    return total


def own_seconds(problem: FamilyProblem, snapped: Snapped) -> float:
    """Least time of one rounding in a compiled loop, as a run's loop over its families is compiled."""
    arrays = _arrays(problem, snapped)
    return seconds(lambda: round_repeatedly(*arrays, 5), rounds=5)[0] / 5


def answers(labels: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Sums by label, shape (C, k)."""
    sums = np.zeros((counts.shape[0], int(labels.max(initial=-1)) + 1), dtype=np.int64)
    for i in np.flatnonzero(labels >= 0):
        sums[:, labels[i]] += counts[:, i]
    return sums


def compare(problem: FamilyProblem, allowed: np.ndarray, estimate: np.ndarray) -> dict[str, Any]:
    """Times, and by how much HiGHS differs from the flow, in units of 2^-20 persons over all stages."""
    rounded = round_counts(problem, allowed, estimate)
    snapped = snap(estimate, allowed)
    ours = own_seconds(problem, snapped)
    fixings: list[Fixing] = []
    gap, integer, linear = 0, 0.0, 0.0
    for stage in problem.rounding:
        program, columns, start = stage_program(problem, snapped, stage, fixings, widened=False)
        held = start.copy()
        if columns.size:
            taken, optimum = seconds(lambda program=program: branch_and_bound(program, problem.where))
            integer += taken
            linear += seconds(lambda program=program: solve_integer(program, problem.where))[0]
            held[columns] = optimum[: columns.size]
        exact, nearest, part = (np.zeros(allowed.shape, dtype=np.int64) for _ in range(3))
        place = snapped.child, snapped.cell
        exact[place], nearest[place], part[place] = held, rounded.counts[place] - snapped.floor, snapped.part
        for _, labels in stage.labels:
            target = answers(labels, part)
            if stage.target == "nearest":
                target = np.rint(target / ONE).astype(np.int64) * ONE
            mine, best = (np.abs(answers(labels, up) * ONE - target).sum() for up in (nearest, exact))
            gap += int(mine - best)
            fixings.append(Fixing(labels, answers(labels, rounded.counts)))
    method = rounded.outcome.method.value + (" widened" if rounded.outcome.widened else "")
    return {
        "geolevel": problem.geolevel,
        "method": method,
        "gap": gap,
        "ours": ours,
        "integer": integer,
        "linear": linear,
    }


def textbook(problem: FamilyProblem, allowed: np.ndarray, estimate: np.ndarray) -> float:
    """Seconds HiGHS takes for binary roundings y and d >= |Q y - target|, stage after stage, without building."""
    snapped = snap(estimate, allowed)
    n, taken, held = snapped.floor.size, 0.0, np.zeros(0)
    base: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    if problem.parent_counts is not None:
        base.append(rows_of(snapped.cell, snapped.floor, problem.parent_counts, problem.parent_counts))
    for rows in problem.constraints:
        width = rows.lower.shape[1]
        member = np.where(
            rows.labels[snapped.cell] >= 0, snapped.child * width + rows.labels[snapped.cell], -1
        )
        base.append(rows_of(member, snapped.floor, rows.lower.reshape(-1), rows.upper.reshape(-1)))
    for stage in problem.rounding:
        queries = []
        for _, labels in stage.labels:
            width = int(labels.max(initial=-1)) + 1
            member = np.where(labels[snapped.cell] >= 0, snapped.child * width + labels[snapped.cell], -1)
            queries.append(summing(member, n))
        matrix = sparse.vstack(queries).tocsr()
        target = matrix @ (snapped.part / ONE)
        solver = textbook_model(n, base, matrix, target)
        start = time.perf_counter()
        solver.run()
        taken += time.perf_counter() - start
        held = np.rint(np.asarray(solver.getSolution().col_value)[:n])
        base.append((matrix, matrix @ held, matrix @ held))
    return taken


def summing(member: np.ndarray, n: int) -> sparse.csr_matrix:
    """Rows that sum entries by member; -1: in none."""
    used = np.flatnonzero(member >= 0)
    shape = (int(member.max(initial=-1)) + 1, n)
    return sparse.csr_matrix((np.ones(used.size), (member[used], used)), shape=shape)


def rows_of(member: np.ndarray, floor: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> Any:
    """Rows with bounds on what is above the floors."""
    matrix = summing(member, floor.size)
    base = matrix @ floor
    high = np.where(upper >= UNBOUNDED, np.inf, upper)[: base.size] - base
    return matrix, lower[: base.size] - base, high


def textbook_model(n: int, base: Any, matrix: sparse.csr_matrix, target: np.ndarray) -> highspy.Highs:
    """The model of one stage."""
    m = target.size
    inside = sparse.vstack([block[0] for block in base]) if base else sparse.csr_matrix((0, n))
    system = sparse.bmat(
        [
            [inside, sparse.csr_matrix((inside.shape[0], m))],
            [matrix, sparse.identity(m)],
            [matrix, -sparse.identity(m)],
        ]
    ).tocsc()
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = n + m, system.shape[0]
    lp.col_cost_ = np.concatenate([np.zeros(n), np.ones(m)])
    lp.col_lower_, lp.col_upper_ = np.zeros(n + m), np.concatenate([np.ones(n), np.full(m, np.inf)])
    lows, highs = [block[1] for block in base], [block[2] for block in base]
    lp.row_lower_ = np.concatenate([*lows, target, np.full(m, -np.inf)]).astype(np.float64)
    lp.row_upper_ = np.concatenate([*highs, np.full(m, np.inf), target]).astype(np.float64)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_ = system.indptr, system.indices
    lp.a_matrix_.value_ = system.data
    lp.integrality_ = [highspy.HighsVarType.kInteger] * n + [highspy.HighsVarType.kContinuous] * m
    solver = highspy.Highs()
    for name, value in (("output_flag", False), ("threads", 1), ("mip_rel_gap", 0.0), ("time_limit", 120.0)):
        solver.setOptionValue(name, value)
    solver.passModel(lp)
    return solver


def gathered(like: Path, n_families: int) -> Iterator[Family]:
    """Families of population after population, until there are enough."""
    populations = (rounded_families(like, seed) for seed in count(1))
    return islice(chain.from_iterable(populations), n_families)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--like", type=Path, required=True, help="block counts to agree with")
    parser.add_argument("--families", type=int, default=2000)
    parser.add_argument(
        "--sample", type=int, default=20, help="solve every n-th family in the textbook's form"
    )
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    headline.add_option(parser)
    options = parser.parse_args()
    records: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for i, family in enumerate(gathered(options.like, options.families)):
        record = compare(*family)
        if i % options.sample == 0:
            record["textbook"] = textbook(*family)
        records[record["geolevel"]].append(record)
    print(
        f"{'parents':<12} {'n':>5} {'differ':>6} {'ms: flow':>9} {'integer':>8} {'linear':>8} {'textbook':>9}"
    )
    for geolevel, rows in records.items():
        means = [1e3 * statistics.fmean(row[key] for row in rows) for key in ("ours", "integer", "linear")]
        sampled = [row for row in rows if "textbook" in row]
        form = 1e3 * statistics.fmean(row["textbook"] for row in sampled) if sampled else float("nan")
        differ = sum(row["gap"] != 0 for row in rows)
        print(
            f"{geolevel:<12} {len(rows):>5} {differ:>6} {means[0]:>9.3f} {means[1]:>8.1f} {means[2]:>8.1f} {form:>9.1f}"
        )
    every = [row for rows in records.values() for row in rows]
    ratios = {
        key: sorted(row[key] / row["ours"] for row in every if key in row) for key in ("integer", "textbook")
    }
    lines = []
    for key, values in ratios.items():
        ours = sum(row["ours"] for row in every if key in row)
        whole = sum(row[key] for row in every if key in row) / ours
        print(
            f"{key}: {whole:.0f} times the flow's time in all; median of families {statistics.median(values):.0f}"
        )
        name = {"integer": "HiGHS, integer program", "textbook": "HiGHS, textbook's form"}[key]
        lines.append(
            headline.Headline("rounding, all families", f"{1e3 * ours:.1f} ms", f"times {name}", whole)
        )
    headline.write(options.headline, lines)
    print(f"methods: { {m: sum(r['method'] == m for r in every) for m in {r['method'] for r in every}} }")
    if options.json is not None:
        options.json.write_text(json.dumps(records, indent=2) + "\n")
    sys.exit(any(row["gap"] for row in every))


if __name__ == "__main__":
    main()
