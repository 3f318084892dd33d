"""Least squares of one family: Tallyveil beside PIQP, Clarabel and OSQP, on one core, on real supports.

The families are those a release of a made-up population meets whose blocks are Rhode Island's (voting age by
race and ethnicity from the 2010 census, everything else made up), under the State-rooted allocation of 2020.
Each solver gets the last pass of a family. Tallyveil's time runs from the measurements as arrays to the certified
answer, in a compiled loop over the same family, as a run's loop over its families is compiled: a call from Python
takes about 18 us more, which no run spends. The others' is setup and solution, their matrices built beforehand in
the lifted sparse form that suits them best ("ratio"); or both with the time it takes to build those arrays and
matrices ("whole"). Of each, the loosest tolerance counts whose answer is within 0.01 person of the certified one.

    python benchmarks/estimation.py [--counts FILE] [--families 30] [--rounds 3] [--limit 20] [--json FILE]
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("RAYON_NUM_THREADS", "1")

import argparse
import dataclasses
import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import clarabel
import headline
import numpy as np
import osqp
import piqp
from family_grid import grid
from numba import njit
from release_families import families, made_up
from scipy import sparse
from tests.oracles import interior_point as lifted_form
from tests.oracles.block_program import BlockProgram
from tests.oracles.reduction import reduce_pass

from tallyveil.estimation import least_squares as ladder
from tallyveil.estimation.least_squares import SumBounds, constraint_bounds, pass_arrays
from tallyveil.estimation.problem import FamilyProblem
from tallyveil.kernels.compiled import all_compiled, compiled
from tallyveil.kernels.family.polish import FamilyKernels
from tallyveil.kernels.family.program import Answer, PassArrays
from tallyveil.kernels.family.solver import KERNELS, solve_pass

COUNTS = Path(__file__).parents[2] / "shared" / "data" / "ri_2010_counts.parquet"
SAME_PERSONS = 0.01
TOLERANCES = (1e-4, 1e-6, 1e-8, 1e-10)


@dataclass(frozen=True)
class Instance:
    """The last pass of one family: our call, and the same program for other solvers, scaled to H of one."""

    name: str
    children: int
    cells: int
    build: float
    own_build: Callable[[], PassArrays]
    call: Callable[[], Answer]
    repeat: Callable[[int], float]
    program: BlockProgram
    expand: Callable[[np.ndarray], np.ndarray]
    quadratic: sparse.csc_matrix
    linear: np.ndarray
    equal: sparse.csc_matrix
    equal_to: np.ndarray
    rows: sparse.csc_matrix
    lower: np.ndarray
    upper: np.ndarray


def last_pass(problem: FamilyProblem) -> Instance:
    """Run all passes but the last, and write the last one out for everybody."""
    allowed, bounds = problem.allowed(), constraint_bounds(problem)
    for current in problem.passes[:-1]:
        estimate = solve_pass(pass_arrays(problem, allowed, current, bounds)).estimate
        carried = ladder._carried(problem, current, estimate)
        bounds, allowed = (*bounds, *carried), ladder._narrow(allowed, carried)
    start = time.perf_counter()
    instance = inlined(problem, allowed, bounds)
    return dataclasses.replace(instance, build=time.perf_counter() - start)


def inlined(problem: FamilyProblem, allowed: np.ndarray, bounds: tuple[SumBounds, ...]) -> Instance:
    """The last pass as sparse matrices."""
    current = problem.passes[-1]
    arrays = pass_arrays(problem, allowed, current, bounds)
    program, merging = reduce_pass(problem, allowed, current, bounds)
    objective = lifted_form._lifted(
        program, 1.0 / float(np.diagonal(program.hessian, axis1=1, axis2=2).max())
    )
    extra = objective.linear.size - program.n_variables
    sums = lifted_form._sum_matrix(program)
    return Instance(
        name=f"{problem.geolevel} {problem.geocode}",
        children=problem.n_children,
        cells=problem.n_cells,
        build=0.0,
        own_build=lambda: pass_arrays(problem, allowed, current, bounds),
        call=lambda: solve_pass(arrays),
        repeat=lambda n: in_a_loop(arrays, n),
        program=program,
        expand=lambda x: merging.expand(program.spread(x[: program.n_variables])),
        quadratic=objective.quadratic,
        linear=objective.linear,
        equal=sparse.vstack([lifted_form._widen(sums, extra), objective.lift]).tocsc(),
        equal_to=np.concatenate([lifted_form._sum_values(program), objective.target]),
        rows=lifted_form._widen(program.rows.matrix, extra).tocsc(),
        lower=program.rows.lower,
        upper=program.rows.upper,
    )


def with_piqp(instance: Instance, tolerance: float, limit: float) -> np.ndarray:
    solver = piqp.SparseSolver()
    solver.settings.eps_abs, solver.settings.eps_rel = tolerance, 0.0
    solver.settings.check_duality_gap = False
    free = np.full(instance.linear.size - instance.program.n_variables, -np.inf)
    solver.setup(
        instance.quadratic,
        instance.linear,
        instance.equal,
        instance.equal_to,
        instance.rows,
        instance.lower,
        instance.upper,
        np.concatenate([np.zeros(instance.program.n_variables), free]),
        np.full(instance.linear.size, np.inf),
    )
    solver.solve()
    return np.asarray(solver.result.x)


def with_clarabel(instance: Instance, tolerance: float, limit: float) -> np.ndarray:
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.time_limit, settings.max_threads = False, limit, 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
    low, high = np.isfinite(instance.lower), np.isfinite(instance.upper)
    n = instance.program.n_variables
    positive = sparse.eye(n, instance.linear.size, format="csc")
    matrix = sparse.vstack([instance.equal, -instance.rows[low], instance.rows[high], -positive]).tocsc()
    right = np.concatenate([instance.equal_to, -instance.lower[low], instance.upper[high], np.zeros(n)])
    cones = [
        clarabel.ZeroConeT(instance.equal_to.size),
        clarabel.NonnegativeConeT(int(low.sum() + high.sum()) + n),
    ]
    solver = clarabel.DefaultSolver(instance.quadratic, instance.linear, matrix, right, cones, settings)
    return np.asarray(solver.solve().x)


def with_osqp(instance: Instance, tolerance: float, limit: float) -> np.ndarray:
    n = instance.program.n_variables
    matrix = sparse.vstack([instance.equal, instance.rows, sparse.eye(n, instance.linear.size)]).tocsc()
    solver = osqp.OSQP()
    solver.setup(
        instance.quadratic,
        instance.linear,
        matrix,
        np.concatenate([instance.equal_to, instance.lower, np.zeros(n)]),
        np.concatenate([instance.equal_to, instance.upper, np.full(n, np.inf)]),
        verbose=False,
        eps_abs=tolerance,
        eps_rel=tolerance,
        max_iter=1_000_000,
        time_limit=limit,
        polishing=False,
    )
    return np.asarray(solver.solve(raise_error=False).x, dtype=np.float64)


PEERS = {"PIQP": with_piqp, "Clarabel": with_clarabel, "OSQP": with_osqp}


def seconds(call: Callable[[], Any], rounds: int) -> float:
    """Median time of a call."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


@njit(nogil=True)
def solve_repeatedly(arrays: PassArrays, n: int, kernels: FamilyKernels) -> float:
    """Solve a pass n times, without coming back to Python; returns the residuals' sum."""
    total = 0.0
    for _ in range(n):
        total += kernels.solve(arrays, kernels.parts).residual
    return total


def in_a_loop(arrays: PassArrays, n: int) -> float:
    """`solve_repeatedly` with the kernels that it calls."""
    return compiled(solve_repeatedly)(arrays, n, all_compiled(KERNELS))


def own_seconds(instance: Instance, rounds: int) -> float:
    """Median time of one solution in a compiled loop that lasts about a hundredth of a second."""
    instance.repeat(1)
    once = seconds(lambda: instance.repeat(1), 3)
    n = max(1, int(0.01 / once))
    return seconds(lambda: instance.repeat(n), rounds) / n


def measure_peer(name: str, instance: Instance, truth: np.ndarray, rounds: int, limit: float) -> float:
    """Seconds of the loosest tolerance that gives the same answer; infinite where none does in time."""
    for tolerance in TOLERANCES:
        start = time.perf_counter()
        x = PEERS[name](instance, tolerance, limit)
        first = time.perf_counter() - start
        if np.isfinite(x).all() and np.abs(instance.expand(x) - truth).max() <= SAME_PERSONS:
            repeat = rounds if first < 1.0 else 0
            return seconds(partial(PEERS[name], instance, tolerance, limit), repeat) if repeat else first
        if first >= limit:
            break
    return float("inf")


def measure(problem: FamilyProblem, rounds: int, limit: float) -> dict[str, Any]:
    """Seconds of every solver on one family."""
    instance = last_pass(problem)
    answer = instance.call()
    every_pass = seconds(lambda: ladder.solve_passes(problem, problem.allowed()), rounds + 4)
    result: dict[str, Any] = {
        "family": instance.name,
        "children": instance.children,
        "cells": instance.cells,
        "variables": instance.program.n_variables,
        "residual": answer.residual,
        "build": instance.build,
        "all passes": every_pass,
        "own build": seconds(instance.own_build, rounds + 4),
        "Tallyveil": own_seconds(instance, rounds + 4),
    }
    for name in PEERS:
        result[name] = measure_peer(name, instance, answer.estimate, rounds, limit)
    return result


def spread_by_size(met: list[FamilyProblem], n: int) -> list[FamilyProblem]:
    """n families from the smallest to the largest."""
    ordered = sorted(met, key=lambda problem: int(problem.allowed().sum()))
    return [ordered[i] for i in np.unique(np.linspace(0, len(ordered) - 1, n).astype(int))]


def whole(result: dict[str, Any], peer: str) -> float:
    """How many times longer a peer takes, with the building of matrices and of arrays."""
    return (result[peer] + result["build"]) / (result["Tallyveil"] + result["own build"])


def show(title: str, results: list[dict[str, Any]]) -> None:
    heads = " ".join(f"{name + ' ms':>12} {'ratio':>6} {'whole':>6}" for name in PEERS)
    print(f"\n{title}\n{'children':>8} {'cells':>6} {'n':>6} {'Tallyveil ms':>12} {heads}")
    for result in results:
        ours = result["Tallyveil"]
        peers = " ".join(
            f"{1e3 * result[p]:>12.2f} {result[p] / ours:>6.0f} {whole(result, p):>6.0f}" for p in PEERS
        )
        sizes = f"{result['children']:>8} {result['cells']:>6} {result['variables']:>6}"
        print(f"{sizes} {1e3 * ours:>12.3f} {peers}")
    for peer in PEERS:
        for name in ("ratio", "whole"):
            ratios = sorted(
                whole(result, peer) if name == "whole" else result[peer] / result["Tallyveil"]
                for result in results
            )
            middle = statistics.median(ratios)
            print(f"{peer}: {name} min {ratios[0]:.1f}, median {middle:.1f}, max {ratios[-1]:.1f}")


def headlines(results: dict[str, list[dict[str, Any]]]) -> Iterator[headline.Headline]:
    """The median family of every kind, beside the fastest peer of each family."""
    for kind, of_kind in results.items():
        ours = statistics.median(result["Tallyveil"] for result in of_kind)
        ratio = statistics.median(
            min(result[peer] for peer in PEERS) / result["Tallyveil"] for result in of_kind
        )
        yield headline.Headline(kind, f"{1e3 * ours:.3f} ms", "times the fastest peer", ratio)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--counts", type=Path, default=COUNTS, help="published counts to make the blocks from"
    )
    parser.add_argument("--families", type=int, default=30, help="of each kind")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=20.0, help="seconds a peer may take")
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    headline.add_option(parser)
    options = parser.parse_args()
    release = made_up(options.counts)
    met = list(families(release))
    start = time.perf_counter()
    for problem in met:
        ladder.solve_passes(problem, problem.allowed())
    print(f"all {len(met)} families of the state, all passes: {time.perf_counter() - start:.3f} s")
    results = {}
    kinds = {f"{level} weights, by size": list(grid(release, level)) for level in ("Tract", "Block")}
    for level in release.spine.geolevels[:-1]:
        of_level = [family for family in met if family.geolevel == level and family.parent_counts is not None]
        kinds[f"{level} to its children"] = spread_by_size(of_level, options.families)
    kinds["root"] = [family for family in met if family.parent_counts is None]
    for kind, chosen in kinds.items():
        results[kind] = [measure(family, options.rounds, options.limit) for family in chosen]
        show(kind, results[kind])
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=2) + "\n")
    headline.write(options.headline, list(headlines(results)))


if __name__ == "__main__":
    main()
