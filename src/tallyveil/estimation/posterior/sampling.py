"""Chains until they agree: what is watched, and the draws that are taken from them.

Chains begin from tables that were moved apart and run for a number of sweeps. The first half is thrown away. If what is
left does not pass the rule of `convergence`, the chains run as long again. Draws are states of the second half, evenly
spaced.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from threading import Event
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Floats, Int32s, Integers
from tallyveil.errors import SolverError
from tallyveil.estimation.posterior.chain import Chain
from tallyveil.estimation.posterior.convergence import (
    LEAST_SIZE,
    MOST_AT_SMALL,
    MOST_REDUCTION,
    effective_sizes,
    split_reduction,
)
from tallyveil.estimation.posterior.prior import CLASSES
from tallyveil.estimation.posterior.problem import PosteriorProblem
from tallyveil.schema.counts import PublicCounts
from tallyveil.subspace.diagnostics import scale_reduction

CHAINS: Final = 4
SEGMENTS: Final = 52
"""Parts of the sweeps done so far, each of which ends with a state that may become a draw: 26 of each chain, 104 of
all. With more, states are so near each other that they say little more. A quarter of it is a whole number."""
ROWS: Final = 16
"""Moments of a segment at which parameters and coarse counts are kept, 208 of each quarter of a chain. The largest
R-hat of some thousand quantities of independent draws is then about 1.008; with half as many moments it would be above
1.01."""
FIRST_SWEEPS: Final = SEGMENTS * ROWS
"""Sweeps before the chains are compared for the first time. About 100 are needed to forget where they began."""
LONGEST: Final = 32 * FIRST_SWEEPS
"""Sweeps after which chains that still disagree are given up."""
FAR_SWEEPS: Final = 20
"""Sweeps by which chains are moved apart, with measurements of blocks and families that weigh less."""
FAR_WEIGHTS: Final = (1.0, 0.3, 0.1, 0.0)
"""What these measurements weigh for each chain. With 0 the model alone says where people are."""
LISTENING: Final = 0.2
"""Seconds after which Ctrl-C is noticed: it seems immediate, and waking up costs nothing."""
MOST_DRAWS: Final = CHAINS * SEGMENTS // 2


@dataclass(frozen=True, slots=True, eq=False)
class Convergence:
    """What was compared when chains had run for some sweeps.

    Attributes:
        sweeps: Sweeps of each chain, of which the first half was thrown away.
        reduction: Largest split R-hat of the parameters of which there are few, and of the watched counts from the root
            down to two geolevels above the blocks. Watched are groups of all steps to the classed one.
        at_families: 99th percentile of the split R-hat of the families' watched counts with a mean above 0.01.
        at_blocks: The same of the blocks' totals.
        effective: Smallest effective sample size of parameters and coarse counts.
        n_watched: Number of parameters and coarse counts.
    """

    sweeps: int
    reduction: float
    at_families: float
    at_blocks: float
    effective: float
    n_watched: int

    @property
    def passed(self) -> bool:
        """Whether draws may be taken."""
        return (
            self.reduction <= MOST_REDUCTION
            and self.effective >= LEAST_SIZE
            and max(self.at_families, self.at_blocks) <= MOST_AT_SMALL
        )


@dataclass(slots=True, eq=False)
class _Segment:
    """What is remembered of some consecutive sweeps of one chain.

    Attributes:
        series: Parameters and coarse counts at ROWS moments, evenly spaced; shape (ROWS, quantities), float32.
        sums: Sum over the sweeps of the total of each block; shape (blocks,).
        squares: Sum of its square.
        family_sums: Sum of the watched counts of each family; shape (families, columns).
        family_squares: Sum of their squares.
        state: The counts at the end.
    """

    series: NDArray[np.float32]
    sums: Floats
    squares: Floats
    family_sums: Floats
    family_squares: Floats
    state: PublicCounts


@dataclass(slots=True, eq=False)
class _Watched:
    """A chain, and its segments so far."""

    chain: Chain
    segments: list[_Segment] = field(default_factory=list)

    def run(self, sweeps: int, stopped: Event) -> None:
        """Do the sweeps of one more segment, or those until it is stopped."""
        problem, state = self.chain.problem, self.chain.state
        columns = _columns(problem)
        families = problem.spine.child_offsets[-1][:-1]
        # Squares of large counts, summed, are more than 64 bits hold.
        sums, squares = np.zeros((2, problem.n_blocks))
        family_sums, family_squares = np.zeros((2, len(families), columns))
        series = []
        for sweep in range(1, sweeps + 1):
            if stopped.is_set():
                return
            self.chain.run(1)
            counts = state.people[:, :columns].astype(np.int64)
            sums += counts[:, 0]
            squares += counts[:, 0].astype(np.float64) ** 2
            of_families = np.add.reduceat(counts, families, axis=0)
            family_sums += of_families
            family_squares += of_families.astype(np.float64) ** 2
            if sweep % (sweeps // ROWS) == 0:
                row = np.concatenate([_parameters(self.chain), *_coarse(problem, of_families)])
                series.append(row.astype(np.float32))
        self.segments.append(
            _Segment(np.array(series), sums, squares, family_sums, family_squares, _sparse(self.chain))
        )

    def halve(self) -> None:
        """Join segments in pairs, so that as many again can follow."""
        pairs = zip(self.segments[::2], self.segments[1::2], strict=True)
        self.segments = [
            _Segment(
                # Every other moment: the series would else grow with the sweeps.
                np.concatenate([first.series, second.series])[1::2],
                first.sums + second.sums,
                first.squares + second.squares,
                first.family_sums + second.family_sums,
                first.family_squares + second.family_squares,
                second.state,
            )
            for first, second in pairs
        ]


def sample(
    problem: PosteriorProblem,
    counts: Int32s,
    key: int,
    number: int,
    *,
    longest: int = LONGEST,
    workers: int = 1,
    advanced: Callable[[int], None] = lambda sweeps: None,
) -> tuple[list[PublicCounts], Convergence]:
    """Draw tables of counts from the posterior.

    Args:
        problem: What is measured.
        counts: A table within the limits, from which the chains begin; shape (blocks, cells).
        key: Key of the randomness, 64 bits.
        number: Number of draws, at most MOST_DRAWS.
        longest: Sweeps of a chain after which it is given up.
        workers: Chains that run at once. Draws do not depend on it.
        advanced: Told of finished sweeps.
    Returns:
        The draws, and what was compared.
    Raises:
        SolverError: the chains do not agree after `longest` sweeps.
    """
    stopped = Event()
    with ThreadPoolExecutor(max_workers=max(1, min(workers, CHAINS))) as pool:
        try:
            chains = list(pool.map(lambda i: _Watched(_far(problem, key, i, counts)), range(CHAINS)))
            per_segment = FIRST_SWEEPS // SEGMENTS
            while True:
                for _ in range(SEGMENTS - len(chains[0].segments)):
                    running = [pool.submit(watched.run, per_segment, stopped) for watched in chains]
                    # Libraries may let the wait for a thread go on after a signal: Python then looks at Ctrl-C only
                    # between two waits.
                    while wait(running, timeout=LISTENING).not_done:
                        pass
                    for future in running:
                        future.result()
                    advanced(per_segment)
                convergence = _compared(
                    [watched.segments[SEGMENTS // 2 :] for watched in chains], per_segment
                )
                if convergence.passed:
                    return _spread(chains, number), convergence
                if 2 * convergence.sweeps > longest:
                    raise _not_converged(convergence)
                for watched in chains:
                    watched.halve()
                per_segment *= 2
        finally:
            # The pool waits for its threads: after Ctrl-C they end with the sweep they are at.
            stopped.set()


def _far(problem: PosteriorProblem, key: int, number: int, counts: Int32s) -> Chain:
    """A chain that begins away from the others."""
    answers = problem.kernel.answers
    fine = np.repeat(answers.geolevel <= 1, np.diff([*answers.precision_begin, len(answers.precision)]))
    weights = np.where(fine, FAR_WEIGHTS[number], 1.0)
    loose = replace(
        problem,
        kernel=problem.kernel._replace(answers=answers._replace(precision=answers.precision * weights)),
    )
    # Its sweeps have numbers of their own chain, so that no randomness is used twice.
    away = Chain.begin(loose, key, CHAINS + number, counts)
    away.run(FAR_SWEEPS)
    chain = Chain.begin(problem, key, number, away.counts())
    chain.parameters = away.parameters
    return chain


def _columns(problem: PosteriorProblem) -> int:
    """Columns that are watched: all steps to the classed one. Those of later steps are more and smaller."""
    return int(np.searchsorted(problem.step, problem.kernel.steps.classed, side="right"))


def _parameters(chain: Chain) -> Floats:
    """The parameters of which there are few, most as logarithms."""
    parameters, common, problem = chain.parameters, chain.parameters.common, chain.problem
    telling = chain.state.people[:, 0] > 1  # the classes of other blocks say nothing
    logs = [
        np.log(CLASSES[parameters.block_class[telling]]).mean(keepdims=True),
        np.log([common.size_shape, common.size_spread, common.empty_near]),
        [common.size_centre, common.empty_mean, float((chain.state.people[:, 0] == 0).sum())],
        *(np.log(near[:-1]) for near in common.near),
        np.log(common.concentration[problem.divided & ~problem.has_class]),
    ]
    return np.concatenate(logs)


def _coarse(problem: PosteriorProblem, of_families: Integers) -> Iterator[Floats]:
    """Watched counts of the geolevels from the one above the families to the root."""
    summed = of_families
    for offsets in problem.spine.child_offsets[-2::-1]:
        summed = np.add.reduceat(summed, offsets[:-1], axis=0)
        yield summed.ravel().astype(np.float64)


def _compared(chains: list[list[_Segment]], per_segment: int) -> Convergence:
    """What the second halves of all chains say."""
    series = np.stack([np.concatenate([s.series for s in segments]) for segments in chains]).astype(
        np.float64
    )
    half = len(chains[0]) // 2
    parts = [part for segments in chains for part in (segments[:half], segments[half:])]
    n = half * per_segment
    return Convergence(
        sweeps=2 * len(chains[0]) * per_segment,
        reduction=float(split_reduction(series).max()),
        at_families=_percentile(parts, n, "family_sums", "family_squares"),
        at_blocks=_percentile(parts, n, "sums", "squares"),
        effective=float(effective_sizes(series).min()),
        n_watched=series.shape[2],
    )


def _percentile(parts: list[list[_Segment]], n: int, sums: str, squares: str) -> float:
    """99th percentile of the split R-hat of counts of which sums and squares are known."""
    total = np.stack([sum(getattr(s, sums).ravel() for s in part) for part in parts])
    square = np.stack([sum(getattr(s, squares).ravel() for s in part) for part in parts])
    means = total / n
    variances = np.maximum(square - n * means**2, 0.0) / (n - 1)
    # Counts with people in fewer than one state in a hundred change too rarely for their factor to mean anything.
    often = means.mean(axis=0) > 0.01
    factors = scale_reduction(means[:, often], variances[:, often], n)
    return float(np.quantile(factors, 0.99)) if factors.size else 1.0


def _spread(chains: list[_Watched], number: int) -> list[PublicCounts]:
    """Draws evenly from all chains, and from each evenly over its second half."""
    states = [[segment.state for segment in watched.segments[SEGMENTS // 2 :]] for watched in chains]
    draws = []
    for i, of_chain in enumerate(states):
        n = len(range(i, number, CHAINS))
        draws.append([of_chain[(2 * k + 1) * len(of_chain) // (2 * n)] for k in range(n)])
    return [draws[k % CHAINS][k // CHAINS] for k in range(number)]


def _sparse(chain: Chain) -> PublicCounts:
    counts, spine = chain.counts(), chain.problem.spine
    rows, cells = np.nonzero(counts)
    offsets = np.searchsorted(rows, np.arange(len(counts) + 1))
    return PublicCounts(spine.geolevels[spine.finest], offsets, cells.astype(np.int32), counts[rows, cells])


def _not_converged(convergence: Convergence) -> SolverError:
    return SolverError(
        f"the chains do not agree after {convergence.sweeps:,} sweeps. Of {convergence.n_watched:,} watched quantities "
        f"the largest R-hat is {convergence.reduction:.3f} (wanted at most {MOST_REDUCTION}) and the least effective "
        f"sample size {convergence.effective:.0f} (wanted at least {LEAST_SIZE:.0f}); the 99th percentile of R-hat is "
        f"{convergence.at_families:.3f} at families and {convergence.at_blocks:.3f} at blocks (wanted at most "
        f"{MOST_AT_SMALL}). Nothing was written. Allow more sweeps; chains that still disagree then have a law that "
        "this sampler cannot draw from.",
        code="draws-not-converged",
    )
