"""Chains on the paper's three examples: sweeps until the total variation is below 0.01, and iterations a second.

    python benchmarks/subspace_mcmc.py

An iteration of Algorithm 1 tries each of the d - k columns of a basis once, and so does a sweep of slices on a basis;
on more columns a sweep is longer, which the column `iterations` allows for (updates / (d - k)).
"""

import argparse
import math
import sys
import time
from pathlib import Path

import headline
import numpy as np

sys.path.append(str(Path(__file__).parents[1]))  # where the tests are, with their oracles

from tests.oracles.effective_size import effective_size
from tests.oracles.mcmc import algorithm_1

from tallyveil.errors import SolverError
from tallyveil.noise.key import insecure_key
from tallyveil.subspace.diagnostics import choose_lag, meeting_times, sweeps_until, total_variation_bound
from tallyveil.subspace.lattice import lattice_of
from tallyveil.subspace.mcmc import run_chain, tune_jumps
from tallyveil.subspace.mcmc_moves import JumpMoves, basis_columns, lattice_columns, plan_chain
from tallyveil.subspace.mechanisms import Norm, size_of
from tallyveil_studies.integer_subspace.examples import (
    delinquent_children,
    illinois_counties,
    intersecting_constraints,
)

KEY = insecure_key("benchmark of chains")
LONGEST = {"jumps": 100_000, "slices": 3_000}
PAIRS = 1000
PAPER_JUMPS = {  # -ln a of the paper's double-geometric jumps; it has none for the l2 norm on Illinois
    ("intersecting", Norm.L1): 1.0,
    ("intersecting", Norm.L2): 1.5,
    ("delinquent children", Norm.L1): 1.0,
    ("delinquent children", Norm.L2): 2.0,
    ("Illinois counties", Norm.L1): 2.5,
    ("Illinois counties", Norm.L2): 2.5,
}


def convergence(example, norm):
    lattice = lattice_of(example.system)
    law = example.law(norm)
    paper = dict(example.iterations).get(norm)
    ways = [
        ("Algorithm 1, Smith basis", basis_columns(lattice_of(example.system, "smith").basis), "jumps"),
        ("Algorithm 1, reduced basis", basis_columns(lattice_of(example.system, "reduced").basis), "jumps"),
        ("slices, Smith basis", basis_columns(lattice_of(example.system, "smith").basis), "slices"),
        ("slices, butterflies", lattice_columns(lattice), "slices"),
    ]
    for name, columns, how in ways:
        if columns.n_columns > 50 and name != "slices, butterflies":
            continue  # no meeting within LONGEST
        moves = tune_jumps(law, columns, KEY) if how == "jumps" else None
        plan = plan_chain(law, columns, moves)
        meeting_times(plan, KEY, 2, 2, 4)
        began = time.perf_counter()
        try:
            lag = choose_lag(plan, KEY, LONGEST[how])
        except SolverError as error:
            print(f"{example.name:20} {norm.value} {name:27} {error}")
            continue
        first = meeting_times(plan, KEY, lag, PAIRS // 5, LONGEST[how], first_pair=PAIRS)
        needed = sweeps_until(first, 0.01)
        sweeps = int(1.3 * first.times.max())
        bound = total_variation_bound(
            plan, meeting_times(plan, KEY, lag, PAIRS, LONGEST[how]), sweeps, confidence=0.95
        )
        seconds = time.perf_counter() - began
        began = time.process_time()
        run_chain(plan, KEY, 20 * sweeps)
        seconds_of_chain = (time.process_time() - began) / 20
        iterations = needed * columns.n_columns / lattice.dimension
        print(
            f"{example.name:20} {norm.value} {name:27} lag {lag:6} sweeps {needed:6} iterations {iterations:8.0f} "
            f"paper {paper} | at {sweeps}: estimate {bound.estimate:.2g} measured {bound.measured:.2g} "
            f"extrapolated {bound.extrapolated:.1g} arithmetic {bound.arithmetic:.1g} | "
            f"pairs {seconds:.2f} s, one chain {1000 * seconds_of_chain:.2f} ms",
            flush=True,
        )


def speed(example, norm):
    law = example.law(norm)
    columns = basis_columns(lattice_of(example.system, "smith").basis)
    scales = (1 / PAPER_JUMPS[example.name, norm],) * columns.n_columns
    plan = plan_chain(law, columns, JumpMoves(scales))
    run_chain(plan, KEY, 10)
    ours = []
    for _ in range(3):
        began = time.process_time()
        run_chain(plan, KEY, 200_000)
        ours.append(200_000 / (time.process_time() - began))
    a = [math.exp(-1 / scale) for scale in scales]
    theirs = []
    for _ in range(3):
        began = time.process_time()
        algorithm_1(
            law, columns.dense(), a, np.zeros(columns.n_columns, np.int64), np.random.default_rng(0), 1000
        )
        theirs.append(1000 / (time.process_time() - began))
    fast = plan_chain(law, lattice_columns(lattice_of(example.system)))
    run_chain(fast, KEY, 10)
    began = time.process_time()
    states = run_chain(fast, KEY, 20_000, thin=1)
    seconds = time.process_time() - began
    effective = min(effective_size(size_of(law, states)), *(effective_size(states[:, i]) for i in (0, 5, 13)))
    print(
        f"{example.name:20} {norm.value} Algorithm 1: {max(ours):8.0f} iterations/s, transcription "
        f"{max(theirs):7.0f}, ratio {max(ours) / max(theirs):5.0f} | slices, butterflies: "
        f"{20_000 / seconds:8.0f} sweeps/s, "
        f"{effective / seconds:8.0f} effective draws/s",
        flush=True,
    )
    what = f"iterations, {example.name}, {norm.value}"
    return headline.Headline(
        what, f"{max(ours):,.0f} a second", "times the transcription", max(ours) / max(theirs)
    )


def main():
    """Speed and convergence of every example."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    headline.add_option(parser)
    given = parser.parse_args()
    lines = []
    for make in (intersecting_constraints, delinquent_children, illinois_counties):
        for norm in (Norm.L1, Norm.L2):
            lines.append(speed(make(), norm))
            convergence(make(), norm)
    headline.write(given.headline, lines)


if __name__ == "__main__":
    main()
