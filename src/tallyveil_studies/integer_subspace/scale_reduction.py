"""Potential scale reduction of Algorithm 1 at the paper's settings: four chains with dispersed starts (appendix E)."""

import math
from fractions import Fraction
from typing import Final

import numpy as np
import polars as pl

from tallyveil.subspace.diagnostics import potential_scale_reduction
from tallyveil.subspace.lattice import lattice_of
from tallyveil.subspace.mcmc import run_chain
from tallyveil.subspace.mcmc_columns import basis_columns
from tallyveil.subspace.mcmc_examples import ILLINOIS_EPSILON
from tallyveil.subspace.mcmc_moves import JumpMoves, plan_chain
from tallyveil.subspace.mcmc_stream import STARTS
from tallyveil.subspace.mechanisms import GeneralisedLaplace, Norm
from tallyveil_studies.comparison import Claim, Comparison, PrintedNumber
from tallyveil_studies.exhibit import Findings, StudyInputs
from tallyveil_studies.integer_subspace.examples import EXAMPLES, KEY

CHAINS: Final = 4
"""Chains, as in appendix E of the paper."""

ITERATIONS: Final = 1_000_000
"""Iterations of each chain, as in appendix E: a million."""

THIN: Final = 500
"""Every how many iterations a state is kept, as in the paper: 2,000 states of each chain."""

RATE: Final = 2.5
"""-ln(a) of the paper's jumps."""

START_EPSILON: Final = Fraction(1, 10)
"""Epsilon of the law from which chains start."""


def reduced(_: StudyInputs) -> Findings:
    """Counties of Illinois, l1: chains from a wider law, then as many iterations with the law itself."""
    columns = basis_columns(lattice_of(EXAMPLES["Illinois"]().system, "smith").basis)
    jumps = JumpMoves((1 / RATE,) * columns.n_columns)
    wide = plan_chain(GeneralisedLaplace(Norm.L1, START_EPSILON), columns, jumps)
    plan = plan_chain(GeneralisedLaplace(Norm.L1, ILLINOIS_EPSILON), columns, jumps)
    states = []
    for chain in range(CHAINS):
        # Dispersed starts: epsilon 0.1 in the place of 0.192 makes a wider law.
        start = run_chain(wide, KEY, ITERATIONS, chain=chain, part=STARTS)[0]
        states.append(run_chain(plan, KEY, ITERATIONS, chain=chain, part=STARTS, thin=THIN, start=start))
    rows = []
    # The factor as it would have looked earlier in the run.
    for share in (0.1, 0.25, 0.5, 1.0):
        n_states = math.ceil(share * len(states[0]))
        # The later half of the chain so far: the first is burn-in.
        factors = potential_scale_reduction(
            np.stack([chain_states[n_states // 2 : n_states] for chain_states in states])
        )
        rows.append(
            {"iterations": n_states * THIN, "largest": factors.max(), "median": float(np.median(factors))}
        )
    table = pl.DataFrame(rows)
    printed = PrintedNumber("1.01", "appendix E.4", Claim.UPPER_BOUND, "for each county of each State")
    return Findings(
        tables={"scale-reduction": table},
        comparisons=(
            Comparison("largest scale reduction, Illinois, l1", printed, float(table["largest"][-1])),
        ),
        notes=(
            f"{CHAINS} chains along the Smith basis with a = exp(-{RATE}). Each starts from a state after "
            f"{ITERATIONS:,} iterations with epsilon {START_EPSILON}. The factor of a county compares the later halves "
            f"of the chains so far, every {THIN}th state.",
            "A factor near 1 is no bound on the distance from the law.",
        ),
    )
