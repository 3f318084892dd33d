"""Total-variation curves (Figures 1, 4, 6), iterations to convergence, and potential scale reduction (appendix E)."""

import math
from fractions import Fraction
from functools import cache
from typing import Final

import numpy as np
import polars as pl

from tallyveil.report.drawing import Line, LinePanel, LinePlot, Role
from tallyveil.subspace.diagnostics import (
    MeetingTimes,
    choose_lag,
    meeting_times,
    potential_scale_reduction,
    sweeps_until,
    total_variation_bound,
)
from tallyveil.subspace.lattice import lattice_of
from tallyveil.subspace.mcmc import STARTS, run_chain, tune_jumps
from tallyveil.subspace.mcmc_moves import ChainPlan, JumpMoves, basis_columns, lattice_columns, plan_chain
from tallyveil.subspace.mechanisms import GeneralisedLaplace, Norm
from tallyveil_studies.exhibit import Comparison, Findings, PrintedClaim, PrintedNumber, StudyInputs
from tallyveil_studies.integer_subspace.examples import EXAMPLES, ILLINOIS_EPSILON, KEY, NORMS

PAIRS: Final = 200
"""Number of pairs of chains, as in the paper."""

CONVERGED: Final = 0.01
"""Estimated total variation distance below which a chain counts as converged, as in the paper's text. A smaller one
needs more iterations, in proportion to its logarithm."""

LAG_FACTORS: Final = (0.25, 1.0, 4.0)
"""Lags that are drawn, in terms of the middle one. The paper's lags are in its pictures alone, so a range is
shown."""

PAPER: Final = "Algorithm 1, the paper's jumps"
TUNED: Final = "Algorithm 1, tuned jumps"
SLICES: Final = "slices"
PAPER_RATES: Final = {
    ("children", Norm.L1): 1.0,
    ("children", Norm.L2): 2.0,
    ("intersecting", Norm.L1): 1.0,
    ("intersecting", Norm.L2): 1.5,
}
"""-ln(a) of the paper's double-geometric jumps (appendix E)."""

_LONGEST_JUMPS: Final = 500_000
"""Sweeps after which a pair of Algorithm 1 counts as not met. A longer wait would move only curves of chains
that are too slow anyway."""

_LONGEST_SLICES: Final = 5_000
"""The same for slices, which meet in hundreds of sweeps."""

_BOUND_PAIRS: Final = 1000
"""Pairs of the certified bound; the first pair of the other runs has this number, so that the two have no pair
in common."""

_POINTS: Final = 300
"""Points of a curve, evenly spaced on a logarithmic axis: more than a panel has pixels between its labels."""


def children_l1(_: StudyInputs) -> Findings:
    """Figure 1: children, l1."""
    return _curves("figure-1", [("children", Norm.L1)])


def intersecting(_: StudyInputs) -> Findings:
    """Figure 4: 14 cells, l1 and l2."""
    return _curves("figure-4", [("intersecting", Norm.L1), ("intersecting", Norm.L2)])


def children_l2(_: StudyInputs) -> Findings:
    """Figure 6: children, l2."""
    return _curves("figure-6", [("children", Norm.L2)])


def illinois(_: StudyInputs) -> Findings:
    """Counties of Illinois. The paper has no curve for them."""
    return _curves("illinois", [("Illinois", Norm.L1), ("Illinois", Norm.L2)])


def iterations(_: StudyInputs) -> Findings:
    """Iterations until the estimated distance is below 0.01, by Algorithm 1 and by slices, and pairs that met."""
    rows, comparisons = [], []
    for name, make in EXAMPLES.items():
        paper = dict(make().iterations)
        for norm in NORMS:
            for way in _ways(name):
                plan = _plan(name, norm, way)
                lag = _lag(name, norm, way)
                meetings = _meetings(name, norm, way, lag)
                needed = sweeps_until(meetings, CONVERGED)
                # A sweep tries every column; an iteration of the paper as many as a basis has.
                count = needed * plan.columns.n_columns / lattice_of(make().system).dimension
                rows.append(
                    {
                        "example": name,
                        "norm": norm.value,
                        "way": way,
                        "lag": lag,
                        "pairs": len(meetings.times),
                        "pairs_not_met": meetings.unmet,
                        "longest_meeting": int(meetings.times.max()),
                        "sweeps": needed,
                        "iterations": count,
                        "paper": paper.get(norm),
                        **_bound(name, norm, way, lag),
                    }
                )
                if norm in paper:
                    printed = PrintedNumber(
                        # The paper states powers of ten.
                        f"1e{round(math.log10(paper[norm]))}",
                        "section 5, appendix E",
                        PrintedClaim.UPPER_BOUND,
                        "burn-in by potential scale reduction"
                        if name == "Illinois"
                        else "read off its figure",
                    )
                    comparisons.append(
                        Comparison(f"iterations, {name}, {norm.value}, {way}", printed, float(count))
                    )
    return Findings(
        tables={"iterations": pl.DataFrame(rows)},
        comparisons=tuple(comparisons),
        notes=(
            f"First iteration at which the mean over {PAIRS} pairs falls below {CONVERGED}; an iteration tries as many "
            "columns as a basis has. `bound`: with 95 % confidence, from 1,000 other pairs, at 1.3 times the longest "
            "meeting of the first.",
            "Algorithm 1 moves along the Smith basis, by double-geometric jumps: with the paper's scales, and with "
            "scales that a warm-up without data chose. The paper's basis is not printed and may be another one. On "
            "Illinois no pair of 8 met within 1e6 iterations, which is left out.",
        ),
    )


def _ways(name: str) -> tuple[str, ...]:
    return (PAPER, TUNED, SLICES) if (name, Norm.L1) in PAPER_RATES else (SLICES,)


@cache
def _plan(name: str, norm: Norm, way: str) -> ChainPlan:
    example = EXAMPLES[name]()
    if way == SLICES:
        return plan_chain(example.law(norm), lattice_columns(lattice_of(example.system)))
    columns = basis_columns(lattice_of(example.system, "smith").basis)
    if way == PAPER:
        # Scale of a double-geometric jump: the reciprocal of -ln(a).
        jumps = JumpMoves((1 / PAPER_RATES[name, norm],) * columns.n_columns)
        return plan_chain(example.law(norm), columns, jumps)
    return plan_chain(example.law(norm), columns, tune_jumps(example.law(norm), columns, KEY))


@cache
def _lag(name: str, norm: Norm, way: str) -> int:
    return choose_lag(_plan(name, norm, way), KEY, _longest(way))


@cache
def _meetings(name: str, norm: Norm, way: str, lag: int) -> MeetingTimes:
    return meeting_times(_plan(name, norm, way), KEY, lag, PAIRS, _longest(way), first_pair=_BOUND_PAIRS)


def _longest(way: str) -> int:
    return _LONGEST_SLICES if way == SLICES else _LONGEST_JUMPS


def _bound(name: str, norm: Norm, way: str, lag: int) -> dict[str, float]:
    if way != SLICES:  # a thousand pairs of Algorithm 1 would take minutes
        return {"bound_at": math.nan, "bound": math.nan}
    # Chosen from other pairs than those of the bound, so that the choice does not bias it.
    sweeps = int(1.3 * _meetings(name, norm, way, lag).times.max())
    pairs = meeting_times(_plan(name, norm, way), KEY, lag, _BOUND_PAIRS, _longest(way))
    bound = total_variation_bound(_plan(name, norm, way), pairs, sweeps, confidence=0.95)
    return {"bound_at": float(sweeps), "bound": bound.measured}


def _curves(exhibit: str, cases: list[tuple[str, Norm]]) -> Findings:
    panels, tables = [], []
    for name, norm in cases:
        for way in _ways(name):
            lines = []
            middle = _lag(name, norm, way)
            for factor, role in zip(LAG_FACTORS, (Role.OTHER, Role.OURS, Role.PUBLISHED), strict=True):
                lag = max(1, round(factor * middle))
                curve = _curve(name, norm, way, lag)
                tables.append(
                    curve.with_columns(norm=pl.lit(norm.value), way=pl.lit(way), lag=pl.lit(lag)).select(
                        "norm", "way", "lag", "iterations", "estimate"
                    )
                )
                shown = curve.filter(pl.col("iterations") > 0)
                points = shown["iterations"].to_list(), shown["estimate"].to_list()
                lines.append(Line(f"lag {factor:g} x the middle one", role, *points))
            title = f"{way}, {norm.value}, middle lag {middle}"
            panels.append(LinePanel(title, tuple(lines), ((CONVERGED, "0.01"),)))
    plot = LinePlot(
        tuple(panels), 2, "iterations", "estimated bound on total variation", log_x=True, y_limits=(0, 1.5)
    )
    return Findings(
        tables={exhibit: pl.concat(tables)},
        drawings={exhibit: plot},
        notes=(
            f"{PAIRS} pairs, as in the paper. Its lags stand in its figures only, which are pictures; shown here are a "
            "quarter of, once and four times the lag at which most pairs meet within a lag.",
        ),
    )


def _curve(name: str, norm: Norm, way: str, lag: int) -> pl.DataFrame:
    meetings, plan = _meetings(name, norm, way, lag), _plan(name, norm, way)
    scale = plan.columns.n_columns / plan.columns.dimension
    last = math.log10(max(2, int(meetings.times.max()) + 1))
    sweeps = np.unique(np.concatenate([[0], np.logspace(0, last, _POINTS).astype(np.int64)]))
    # The estimator of Biswas, Jacob and Vanetti: the mean of max(0, ceil((meeting - t) / lag)).
    late = np.maximum(0, -(-(meetings.times[None, :] - sweeps[:, None]) // lag))
    return pl.DataFrame({"iterations": sweeps * scale, "estimate": late.mean(axis=1)})


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
    printed = PrintedNumber("1.01", "appendix E.4", PrintedClaim.UPPER_BOUND, "for each county of each State")
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
