"""Exact draws against the effective sample rate of chains, two-way tables, and the algebra of large systems; one core.

    python benchmarks/subspace.py

An effective draw of a chain is one that tells the mean of a quantity as well as an independent draw would (Geyer 1992);
a chain's rate is that of its slowest quantity among the size of the noise, its cells, and sums of the first 2, 4, ...
cells. Chains start from an exact draw, so that no burn-in is counted against them. The rate of the plain transcription
is that of the same chain, at the iterations a second that it makes.
"""

import argparse
import sys
import time
from fractions import Fraction
from pathlib import Path

import headline
import numpy as np

sys.path.append(str(Path(__file__).parents[1]))  # where the tests are, with their oracles

from tests.oracles.effective_size import effective_size
from tests.oracles.mcmc import algorithm_1

from tallyveil.noise.key import insecure_key
from tallyveil.noise.source import NoiseSource
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.exact.choose_sampler import choose_sampler
from tallyveil.subspace.exact.digits import NoiseAddress
from tallyveil.subspace.lattice import check_lattice, lattice_of
from tallyveil.subspace.mcmc import run_chain, tune_jumps
from tallyveil.subspace.mcmc_moves import JumpMoves, basis_columns, lattice_columns, plan_chain
from tallyveil.subspace.mechanisms import GeneralisedGaussian, GeneralisedLaplace, Norm, size_of
from tallyveil_studies.integer_subspace.examples import illinois_counties

KEY = insecure_key("benchmark of exact samplers")
PAPER_SCALE = 1 / 2.5
SAME_VARIANCE = GeneralisedGaussian(Fraction(54))
"""About the variance of a cell under the l1 law of Illinois."""


def exact_rate(sampler, batch=1000, batches=20):
    """Draws a second, batch by batch, the best of fifty."""
    address = NoiseAddress(NoiseSource(KEY), 0, 0)
    sampler.draw(address, range(batch))
    best = 0.0
    for repetition in range(50):
        began = time.process_time()
        for number in range(repetition * batches, (repetition + 1) * batches):
            sampler.draw(address, range(number * batch, (number + 1) * batch))
        best = max(best, batch * batches / (time.process_time() - began))
    return best


def chain_rate(law, plan, start, sweeps, thin):
    """(effective draws a second, iterations a second, effective draws in the run)."""
    run_chain(plan, KEY, 10)
    began = time.process_time()
    states = run_chain(plan, KEY, sweeps, thin=thin, start=start)
    seconds = time.process_time() - began
    sums = states.cumsum(axis=1)[:, [1, 3, 7, 15, 31, 63]]
    quantities = np.column_stack([size_of(law, states), states, sums])
    slowest = min(effective_size(quantity) for quantity in quantities.T)
    return slowest / seconds, sweeps / seconds, slowest


def transcription_rate(law, columns):
    """Iterations a second of the paper's Algorithm 1 as it stands, in numpy; the best of three."""
    a = [np.exp(-1 / PAPER_SCALE)] * columns.n_columns
    best = 0.0
    for _ in range(3):
        start = np.zeros(columns.n_columns, np.int64)
        began = time.process_time()
        algorithm_1(law, columns.dense(), a, start, np.random.default_rng(0), 500)
        best = max(best, 500 / (time.process_time() - began))
    return best


def illinois():
    """Print exact and chain rates for the counties of Illinois; returns how they stand, law by law."""
    lines = []
    example = illinois_counties()
    lattice, smith = lattice_of(example.system), lattice_of(example.system, "smith")
    for law in (example.law(Norm.L1), example.law(Norm.L2), SAME_VARIANCE):
        choice = choose_sampler(lattice, law)
        exact = exact_rate(choice.sampler)
        start = choice.sampler.draw(NoiseAddress(NoiseSource(KEY), 1, 0), range(1))[0]
        print(f"Illinois, {law}: exact ({choice.name}) {exact:,.0f} draws/s", flush=True)
        neighbours = basis_columns(lattice.sparse_basis)
        ways = {
            "Algorithm 1, the paper's jumps, Smith basis": (
                basis_columns(smith.basis),
                "paper",
                4_000_000,
                200,
            ),
            "Algorithm 1, the paper's jumps, neighbours": (neighbours, "paper", 4_000_000, 200),
            "Algorithm 1, tuned jumps, neighbours": (neighbours, "tuned", 4_000_000, 200),
            "slices, butterflies": (lattice_columns(lattice), "slices", 20_000, 1),
        }
        best = 0.0
        for name, (columns, how, sweeps, thin) in ways.items():
            moves = None
            if how == "paper":
                moves = JumpMoves((PAPER_SCALE,) * columns.n_columns)
            elif how == "tuned":
                moves = tune_jumps(law, columns, KEY)
            rate, iterations, effective = chain_rate(
                law, plan_chain(law, columns, moves), start, sweeps, thin
            )
            best = max(best, rate)
            print(
                f"  {name:45} {iterations:12,.0f} iterations/s {rate:10.2f} effective draws/s "
                f"({effective:.0f} in the run): exact is {exact / rate:,.0f} times as fast",
                flush=True,
            )
            if how == "paper":
                plain = transcription_rate(law, columns)
                there = plain * effective / sweeps
                print(
                    f"  {'  the same, plain transcription':45} {plain:12,.0f} iterations/s {there:10.2f} effective "
                    f"draws/s: exact is {exact / there:,.0f} times as fast",
                    flush=True,
                )

        lines.append(
            headline.Headline(
                f"exact draws, {law}", f"{exact:,.0f} a second", "times the best chain's rate", exact / best
            )
        )
    return lines


def two_way_tables():
    """Print the time to choose and prepare the sampler of two-way tables, and of a draw."""
    of_l1 = [GeneralisedLaplace("l1", Fraction(epsilon)) for epsilon in ("1", "1/4", "1/10")]
    address = NoiseAddress(NoiseSource(KEY), 2, 0)
    choose_sampler(lattice_of(margins(4, 4)), of_l1[0]).sampler.draw(address, range(1))
    for shape in ((4, 4), (5, 5), (4, 10), (10, 10), (20, 10), (102, 10), (100, 100)):
        lattice = lattice_of(margins(*shape))
        laws: tuple[GeneralisedLaplace | GeneralisedGaussian, ...] = (
            *of_l1,
            GeneralisedGaussian(Fraction(32)),
        )
        for law in laws:
            began = time.process_time()
            choice = choose_sampler(lattice, law)
            chosen = time.process_time() - began
            n = max(2, 20_000 // lattice.n_cells)
            began = time.process_time()
            choice.sampler.draw(address, range(n))
            draw = (time.process_time() - began) / n
            print(
                f"{shape[0]:4} x {shape[1]:<4} {law!s:66} {choice.name:18} {choice.expected_trials:5.2f} trials, "
                f"prepared in {1e3 * chosen:7.1f} ms, {1e3 * draw:8.3f} ms a draw",
                flush=True,
            )


def margins(n_rows, n_columns):
    grid = np.arange(n_rows * n_columns).reshape(n_rows, n_columns)
    return ConstraintSystem.from_sets([*grid.tolist(), *grid.T.tolist()], grid.size)


def timed(name, make):
    began = time.process_time()
    lattice = lattice_of(make())
    seconds = time.process_time() - began
    began = time.process_time()
    wrong = check_lattice(lattice)
    checked = time.process_time() - began
    assert not wrong, wrong
    print(
        f"{name:58} {lattice.system.n_constraints:4} x {lattice.n_cells:5} dimension {lattice.dimension:5} "
        f"{lattice.structure.kind.value:28} {seconds:6.2f} s, checked in {checked:.2f} s",
        flush=True,
    )


def algebra():
    rng = np.random.default_rng(0)
    states = np.sort(rng.integers(0, 51, 3144))
    disjoint = [np.flatnonzero(states == state).tolist() for state in range(51)]
    timed("counties of all states", lambda: ConstraintSystem.from_sets(disjoint, 3144))
    timed("with the nation", lambda: ConstraintSystem.from_sets([range(3144), *disjoint], 3144))
    timed("two-way margins, 64 x 50", lambda: margins(64, 50))
    sparse = [rng.choice(3200, 40, replace=False).tolist() for _ in range(100)]
    timed("100 random sets of 40 cells", lambda: ConstraintSystem.from_sets(sparse, 3200))
    weighted = np.zeros((100, 3200), dtype=np.int64)
    for row in weighted:
        row[rng.choice(3200, 40, replace=False)] = rng.integers(-3, 4, 40)
    timed("100 random rows with coefficients -3 to 3", lambda: ConstraintSystem.from_matrix(weighted))
    cube = np.arange(3200).reshape(4, 8, 100)
    three = [cube[i, j, :].tolist() for i in range(4) for j in range(8)]
    three += [cube[i, :, k].tolist() for i in range(4) for k in range(16)]
    timed(
        "part of the margins of a three-way table, 4 x 8 x 100",
        lambda: ConstraintSystem.from_sets(three, 3200),
    )


def main():
    """All parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    headline.add_option(parser)
    given = parser.parse_args()
    headline.write(given.headline, illinois())
    two_way_tables()
    algebra()


if __name__ == "__main__":
    main()
