"""Every exact sampler of noise on a lattice, on the same tables: seconds to prepare it and to draw a thousand tables.

    python benchmarks/samplers.py [--limit SECONDS]

Each row is a two-way table with fixed margins and a law. A release draws one table for its counts and a thousand with a
public key for its margins of error, so both times count. Processor time of one core; a method that is not done
within the limit shows a line, and one that cannot take the law a cross. `*` marks what `choose_sampler` takes.
"""

import argparse
import signal
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from tallyveil.errors import SolverError
from tallyveil.noise.key import insecure_key
from tallyveil.noise.laws import DiscreteGaussian, DiscreteLaplace, Law
from tallyveil.noise.source import NoiseSource
from tallyveil.subspace.constraints import ConstraintSystem
from tallyveil.subspace.exact.choose_sampler import choose_sampler
from tallyveil.subspace.exact.convolution import SumLaws
from tallyveil.subspace.exact.digits import NoiseAddress
from tallyveil.subspace.exact.look_ahead import look_ahead_proposal, two_column_sampler
from tallyveil.subspace.exact.nearest_planes import nearest_planes
from tallyveil.subspace.exact.sampler import TrialSampler, VectorSampler, block_proposal, two_way_proposal
from tallyveil.subspace.exact.two_way_grid import two_way_grid
from tallyveil.subspace.lattice import Lattice, lattice_of
from tallyveil.subspace.mechanisms import GeneralisedGaussian, GeneralisedLaplace, LatticeLaw

ADDRESS = NoiseAddress(NoiseSource(insecure_key("every sampler on the same tables")), 0, 0)
DRAWS = 1000
SHAPES = ((2, 5), (2, 100), (3, 3), (4, 4), (3, 10), (6, 6))
LAWS: tuple[LatticeLaw, ...] = (
    *(GeneralisedGaussian(Fraction(variance)) for variance in (1, 100, 10**4, 10**6)),
    *(GeneralisedLaplace("l1", Fraction(epsilon)) for epsilon in ("1", "1/10", "1/100")),
)


def margins(n_rows: int, n_columns: int) -> Lattice:
    """The lattice of tables of that shape whose row and column sums are all zero."""
    grid = np.arange(n_rows * n_columns).reshape(n_rows, n_columns)
    return lattice_of(ConstraintSystem.from_sets([*grid.tolist(), *grid.T.tolist()], grid.size))


def samplers(lattice: Lattice, law: LatticeLaw) -> dict[str, Callable[[], VectorSampler]]:
    """For each method that a lattice and a law have, what prepares it."""
    cell: Law = (
        DiscreteGaussian(law.variance)
        if isinstance(law, GeneralisedGaussian)
        else DiscreteLaplace(1 / law.epsilon)
    )
    structure, n_cells, grid = lattice.structure, lattice.n_cells, two_way_grid(lattice)
    assert grid is not None  # every table here is a two-way table
    ways: dict[str, Callable[[], VectorSampler]] = {
        "look-ahead trials": lambda: TrialSampler(
            look_ahead_proposal(cell, grid, structure.free, n_cells), n_cells
        ),
        "trials by rows": lambda: TrialSampler(two_way_proposal(SumLaws(cell), structure, n_cells), n_cells),
        "trials by block sums": lambda: TrialSampler(
            block_proposal(SumLaws(cell), structure, n_cells), n_cells
        ),
    }
    if isinstance(law, GeneralisedGaussian):
        ways["nearest planes"] = lambda: TrialSampler(nearest_planes(lattice, law.variance), n_cells)
    if 2 in structure.grid.shape:
        ways["dynamic programming"] = lambda: two_column_sampler(cell, structure, n_cells)
    return ways


def seconds(prepare: Callable[[], VectorSampler], limit: int) -> str:
    """Processor seconds to prepare a sampler and to draw a thousand tables, as the table shows them."""

    def too_long(*_: Any) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(limit)
    began = time.process_time()
    try:
        prepare().draw(ADDRESS, range(DRAWS))
    except TimeoutError:
        return "-"
    except SolverError:
        return "x"
    finally:
        signal.alarm(0)
    return f"{time.process_time() - began:.2f}"


def main() -> None:
    """All tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--limit", type=int, default=20, help="seconds that a method may take")
    limit = parser.parse_args().limit
    seconds(samplers(margins(3, 3), LAWS[0])["look-ahead trials"], limit)  # compiles
    for shape in SHAPES:
        lattice = margins(*shape)
        for law in LAWS:
            chosen = choose_sampler(lattice, law).name
            cells = (
                f"{'*' if name == chosen else ''}{name} {seconds(prepare, limit)}"
                for name, prepare in samplers(lattice, law).items()
            )
            print(f"{shape[0]} x {shape[1]}, {law}:", *cells, sep="  ", flush=True)


if __name__ == "__main__":
    main()
