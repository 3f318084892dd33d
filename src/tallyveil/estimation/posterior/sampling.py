"""Chains until they agree: what is watched, and the draws that are taken from them.

First the parameters that all areas share are learned: chains that draw them run from the released counts, and the mean
of what they drew is then held. The law of the draws is the posterior given these values. To draw them as well would
take a hundred times as long, since measurements of single blocks say little about them.

Then chains begin from tables that were moved apart. From FIRST_SEGMENTS on they are compared now and then, without
their first segments. Of every segment only sums and squares of what is watched are remembered, so that memory does not
grow with the sweeps. Draws are states of these segments, evenly spaced, as soon as they pass the rule of `convergence`.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from copy import deepcopy
from dataclasses import dataclass, field, replace
from threading import Event
from typing import Final, TypeVar

import numpy as np

from tallyveil.arrays import Floats, Int32s, Integers, Numbers, Unsigned
from tallyveil.errors import SolverError
from tallyveil.estimation.posterior.chain import Chain
from tallyveil.estimation.posterior.convergence import (
    LEAST_SIZE,
    MOST_AT_SMALL,
    MOST_REDUCTION,
    effective_sizes,
    moments,
)
from tallyveil.estimation.posterior.prior import CLASSES, Common, Parameters, averaged
from tallyveil.estimation.posterior.problem import PosteriorProblem
from tallyveil.estimation.posterior.residuals import Residuals, residuals_of, squared_residuals
from tallyveil.kernels.posterior.moves import State
from tallyveil.schema.counts import PublicCounts
from tallyveil.subspace.diagnostics import scale_reduction

Result = TypeVar("Result")

SAMPLER: Final = 3
"""Number of this sampler: a change with which the same key gives other draws, or chains are saved in other arrays,
raises it."""
CHAINS: Final = 4
LEARNERS: Final = 2
"""Chains from which the common parameters are learned. With four, their means would be more exact by less than a fifth
of the parameters' own uncertainty."""
LEARNING: Final = 160
"""Sweeps of each of them, of which the first quarter, in which they come from far away, is thrown away. Twice as many
would double the time, for values that differ little."""
SEGMENTS: Final = 16
"""Parts of the sweeps done so far. With these many, they are joined in pairs, and chains go on with parts that are
twice as long."""
THROWN: Final = 1
"""Segments that are thrown away: a fifteenth to a ninth of the sweeps. With the common parameters held, a chain of one
county that began without measurements of blocks had the mean of the others after 32 sweeps, but for the number of
empty blocks, which had it after 64."""
FIRST_SEGMENTS: Final = THROWN + 8
"""Segments with which chains are compared; from then on, whenever the number of those that are not thrown away is even.
Fewer would say too little of how much means of segments differ, from which effective sample sizes follow."""
FIRST_SEGMENT: Final = 64
"""Sweeps of a first segment: 256 of each half of a chain when chains are compared for the first time. The largest R-hat
of some thousand quantities is then 1.007 if states are independent, and 1.01 if neighbouring ones are somewhat alike;
an earlier comparison would be in vain."""
STATES: Final = 4
"""States of a segment that may become draws. With more, they are so near each other that they say little more."""
FIRST_SWEEPS: Final = FIRST_SEGMENTS * FIRST_SEGMENT
"""Sweeps before the chains are compared for the first time."""
LONGEST: Final = 16 * SEGMENTS * FIRST_SEGMENT
"""Sweeps after which chains that still disagree are given up."""
FAR_SWEEPS: Final = 20
"""Sweeps by which chains are moved apart, with measurements of blocks and families that weigh less."""
FAR_WEIGHTS: Final = (1.0, 0.3, 0.1, 0.0)
"""What these measurements weigh for each chain. With 0 the model alone says where people are."""
LISTENING: Final = 0.2
"""Seconds after which Ctrl-C is noticed: it seems immediate, and waking up costs nothing."""
SUMMARIES: Final = 2
"""Watched quantities of all blocks together: mean logarithm of their concentrations, and number of empty ones."""
MOST_DRAWS: Final = CHAINS * STATES * (FIRST_SEGMENTS - THROWN)


@dataclass(frozen=True, slots=True, eq=False)
class Convergence:
    """What was compared when chains had run for some sweeps.

    Attributes:
        sweeps: Sweeps of each chain, with those that were thrown away.
        reduction: Largest split R-hat of the mean logarithm of the blocks' concentrations, of the number of empty
            blocks, and of the watched counts from the root down to two geolevels above the blocks. Watched are groups
            of all steps to the classed one.
        at_families: 99th percentile of the split R-hat of the families' watched counts with a mean above 0.01.
        at_blocks: The same of the blocks' totals.
        effective: Smallest effective sample size of these.
        n_watched: Number of these.
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


@dataclass(frozen=True, slots=True, eq=False)
class CompactCounts:
    """A table of whole counts in the narrowest types that hold them: chains remember some hundred tables.

    Attributes:
        lengths: Number of cells with people of each block; unsigned, shape (blocks,).
        cells: These cells, block by block; unsigned, shape (entries,).
        counts: Their people; unsigned, shape (entries,).
    """

    lengths: Unsigned
    cells: Unsigned
    counts: Unsigned

    @classmethod
    def of(cls, counts: Int32s) -> "CompactCounts":
        """A table; shape (blocks, cells)."""
        rows, cells = np.nonzero(counts)
        lengths = np.bincount(rows, minlength=len(counts))
        return cls(_narrowest(lengths), _narrowest(cells), _narrowest(counts[rows, cells]))

    def public(self, geolevel: str) -> PublicCounts:
        """The table as counts of a geolevel."""
        offsets = np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)])
        return PublicCounts(geolevel, offsets, self.cells.astype(np.int32), self.counts.astype(np.int32))


def _narrowest(values: Numbers) -> Unsigned:
    """The same whole numbers, none of them negative, in the narrowest type that holds the largest."""
    return values.astype(np.min_scalar_type(int(values.max(initial=0))))


@dataclass(frozen=True, slots=True, eq=False)
class _Segment:
    """What is remembered of some consecutive sweeps of one chain.

    Attributes:
        watched: Sums over the sweeps of what is watched by itself, less `_Watched.about`, and of its squares; shape (2,
            quantities).
        families: The same of the watched counts of the families, as they are.
        blocks: The same of the totals of the blocks.
        squares_of_residuals: Mean squares of the residuals of the states, as `squared_residuals` has them.
        states: The counts at STATES moments, evenly spaced, the last one at the end.
    """

    watched: Floats
    families: Floats
    blocks: Floats
    squares_of_residuals: list[Floats]
    states: list[CompactCounts]

    def joined(self, following: "_Segment") -> "_Segment":
        """This and the following segment as one."""
        return _Segment(
            self.watched + following.watched,
            self.families + following.families,
            self.blocks + following.blocks,
            (self.squares_of_residuals + following.squares_of_residuals)[1::2],
            (self.states + following.states)[1::2],
        )


@dataclass(frozen=True, slots=True, eq=False)
class HeldChain:
    """A chain that waits, and its segments so far.

    Attributes:
        counts: Its table.
        parameters: Its parameters.
        sweep: Sweeps done.
        segments: What is remembered of them.
    """

    counts: CompactCounts
    parameters: Parameters
    sweep: int
    segments: list[_Segment]


@dataclass(frozen=True, slots=True, eq=False)
class Progress:
    """Chains that were compared and go on, so that an interrupted command can begin here.

    Attributes:
        common: The common parameters that were learned.
        chains: The chains; none before they were compared for the first time.
        done: Segments of each chain.
        per_segment: Sweeps of each segment.
    """

    common: Common
    chains: list[HeldChain]
    done: int
    per_segment: int


@dataclass(frozen=True, slots=True, eq=False)
class Sampled:
    """What chains that agree have drawn.

    Attributes:
        geolevel: The finest geolevel.
        states: The tables that were drawn: counts of the finest geolevel.
        convergence: What was compared.
        common: The common parameters that were learned and held.
        residuals: Squared residuals of the states from which draws are taken.
    """

    geolevel: str
    states: list[CompactCounts]
    convergence: Convergence
    common: Common
    residuals: list[Residuals]

    def draws(self) -> Iterator[PublicCounts]:
        """The draws, one after the other: all at once would take much memory."""
        return (state.public(self.geolevel) for state in self.states)


@dataclass(slots=True, eq=False)
class _Watched:
    """A chain, and its segments so far.

    Attributes:
        chain: The chain.
        about: About what watched quantities vary; shape (quantities,). Sums of squares of their differences from this
            are exact, those of large counts would not be.
        segments: Its segments.
    """

    chain: Chain
    about: Floats
    segments: list[_Segment] = field(default_factory=list)

    def run(self, sweeps: int, stopped: Event) -> None:
        """Do the sweeps of one more segment, or those until it is stopped."""
        problem, state = self.chain.problem, self.chain.state
        columns = _columns(problem)
        n_families = problem.spine.n_geounits(problem.spine.finest - 1)
        watched, blocks = np.zeros((2, len(self.about))), np.zeros((2, problem.n_blocks))
        families = np.zeros((2, n_families * columns))
        squares, states = [], []
        for sweep in range(1, sweeps + 1):
            if stopped.is_set():
                return
            self.chain.run(1)
            of_families = _of_families(problem, state)
            coarse = np.concatenate([_summaries(self.chain), *_coarse(problem, of_families)]) - self.about
            for sums, values in (
                (watched, coarse),
                (families, of_families.ravel()),
                (blocks, state.people[:, 0]),
            ):
                sums[0] += values
                sums[1] += values.astype(np.float64) ** 2
            if sweep % (sweeps // STATES) == 0:
                squares.append(squared_residuals(problem, state.residual))
                states.append(CompactCounts.of(self.chain.counts()))
        self.segments.append(_Segment(watched, families, blocks, squares, states))

    def held(self) -> HeldChain:
        """The chain as it is now."""
        chain = self.chain
        return HeldChain(CompactCounts.of(chain.counts()), chain.parameters, chain.sweep, self.segments)

    @classmethod
    def of(
        cls, problem: PosteriorProblem, key: int, number: int, about: Floats, held: HeldChain
    ) -> "_Watched":
        """A chain that goes on: its randomness is a function of its number and of the sweep."""
        table = held.counts.public(problem.spine.geolevels[problem.spine.finest])
        counts = table.dense(0, problem.n_blocks, problem.schema.size).astype(np.int32)
        # A copy, since the arrays of an archive are read-only, which compiled code does not take.
        parameters = deepcopy(held.parameters)
        chain = Chain(problem, key, number, problem.state(counts), parameters, held.sweep, True)
        return cls(chain, about, list(held.segments))

    def halve(self) -> None:
        """Join segments in pairs, so that as many again can follow."""
        pairs = zip(self.segments[::2], self.segments[1::2], strict=True)
        self.segments = [first.joined(second) for first, second in pairs]


def sample(
    problem: PosteriorProblem,
    counts: Int32s,
    key: int,
    number: int,
    *,
    longest: int = LONGEST,
    workers: int = 1,
    advanced: Callable[[int], None] = lambda sweeps: None,
    begun: Progress | None = None,
    save: Callable[[Progress], None] = lambda progress: None,
) -> Sampled:
    """Draw tables of counts from the posterior.

    Args:
        problem: What is measured.
        counts: A table within the limits, from which the chains begin; shape (blocks, cells).
        key: Key of the randomness, 64 bits.
        number: Number of draws, at most MOST_DRAWS.
        longest: Sweeps of a chain after which it is given up.
        workers: Chains that run at once. Draws do not depend on it.
        advanced: Told of finished sweeps.
        begun: What `save` was given when the same draws were begun before; None to begin. Draws do not depend on it.
        save: Given what an interrupted command can go on from: the common parameters, and the chains whenever they were
            compared.
    Returns:
        The draws, and what chains say about them.
    Raises:
        SolverError: the chains do not agree after `longest` sweeps.
    """
    stopped = Event()
    of_families = _of_families(problem, problem.state(counts))
    about = np.concatenate([np.zeros(SUMMARIES), *_coarse(problem, of_families)])
    with ThreadPoolExecutor(max_workers=max(1, min(workers, CHAINS))) as pool:
        try:
            if begun is None:
                common = _learned(pool, problem, key, counts, stopped)
                begun = Progress(common, [], 0, FIRST_SEGMENT)
                save(begun)
            common, done, per_segment = begun.common, begun.done, begun.per_segment
            if begun.chains:
                chains = [_Watched.of(problem, key, i, about, held) for i, held in enumerate(begun.chains)]
                advanced(done * per_segment)
            else:
                far = [pool.submit(_far, problem, key, i, counts, common) for i in range(CHAINS)]
                chains = [_Watched(chain, about) for chain in _results(far)]
            while True:
                _results([pool.submit(watched.run, per_segment, stopped) for watched in chains])
                advanced(per_segment)
                done += 1
                if done == SEGMENTS:
                    for watched in chains:
                        watched.halve()
                    done //= 2
                    per_segment *= 2
                if done < FIRST_SEGMENTS or (done - THROWN) % 2:
                    continue
                kept = [watched.segments[THROWN:] for watched in chains]
                convergence = _compared(kept, done * per_segment, per_segment)
                if convergence.passed:
                    squares = [
                        square
                        for segments in kept
                        for part in segments
                        for square in part.squares_of_residuals
                    ]
                    return Sampled(
                        problem.spine.geolevels[problem.spine.finest],
                        _spread(kept, number),
                        convergence,
                        common,
                        residuals_of(problem, squares),
                    )
                following = done + 2 if done + 2 <= SEGMENTS else SEGMENTS + 2 * THROWN
                is_last = following * per_segment > longest
                save(Progress(common, [watched.held() for watched in chains], done, per_segment))
                if is_last:
                    raise _not_converged(convergence)
        finally:
            # The pool waits for its threads: after Ctrl-C they end with the sweep they are at.
            stopped.set()


def _results(running: Sequence[Future[Result]]) -> list[Result]:
    """Wait for what threads do."""
    # Libraries may let the wait for a thread go on after a signal: Python then looks at Ctrl-C only between two waits.
    while wait(running, timeout=LISTENING).not_done:
        pass
    return [future.result() for future in running]


def _learned(
    pool: ThreadPoolExecutor, problem: PosteriorProblem, key: int, counts: Int32s, stopped: Event
) -> Common:
    """The common parameters, from chains that draw them."""

    def drawn(number: int) -> list[Common]:
        # Numbers of their own, so that no randomness is used twice.
        chain = Chain.begin(problem, key, 2 * CHAINS + number, counts)
        commons = []
        for _ in range(LEARNING):
            if stopped.is_set():
                break
            chain.run(1)
            commons.append(chain.parameters.common)
        return commons[LEARNING // 4 :]

    return averaged([x for xs in _results([pool.submit(drawn, i) for i in range(LEARNERS)]) for x in xs])


def _far(problem: PosteriorProblem, key: int, number: int, counts: Int32s, common: Common) -> Chain:
    """A chain that begins away from the others, and holds the common parameters."""
    answers = problem.kernel.answers
    fine = np.repeat(answers.geolevel <= 1, np.diff([*answers.precision_begin, len(answers.precision)]))
    weights = np.where(fine, FAR_WEIGHTS[number], 1.0)
    loose = replace(
        problem,
        kernel=problem.kernel._replace(answers=answers._replace(precision=answers.precision * weights)),
    )
    # Its sweeps have numbers of their own chain, so that no randomness is used twice.
    away = Chain.begin(loose, key, CHAINS + number, counts)
    away.hold(common)
    away.run(FAR_SWEEPS)
    chain = Chain.begin(problem, key, number, away.counts())
    chain.parameters, chain.is_held = away.parameters, True
    return chain


def _columns(problem: PosteriorProblem) -> int:
    """Columns that are watched: all steps to the classed one. Those of later steps are more and smaller."""
    return int(np.searchsorted(problem.step, problem.kernel.steps.classed, side="right"))


def _of_families(problem: PosteriorProblem, state: State) -> Integers:
    """Watched counts of the families; shape (families, columns)."""
    people = state.people[:, : _columns(problem)].astype(np.int64)
    return np.asarray(np.add.reduceat(people, problem.spine.child_offsets[-1][:-1], axis=0))


def _summaries(chain: Chain) -> Floats:
    """What is watched of all blocks together."""
    size = chain.state.people[:, 0]
    telling = size > 1  # the classes of other blocks say nothing
    classes = CLASSES[chain.parameters.block_class[telling]]
    return np.array([float(np.log(classes).sum()) / max(1, len(classes)), float((size == 0).sum())])


def _coarse(problem: PosteriorProblem, of_families: Integers) -> Iterator[Floats]:
    """Watched counts of the geolevels from the one above the families to the root."""
    summed = of_families
    for offsets in problem.spine.child_offsets[-2::-1]:
        summed = np.add.reduceat(summed, offsets[:-1], axis=0)
        yield summed.ravel().astype(np.float64)


def _compared(chains: list[list[_Segment]], sweeps: int, per_segment: int) -> Convergence:
    """What the segments that are kept of all chains say."""
    half = len(chains[0]) // 2
    halves = [part for segments in chains for part in (segments[:half], segments[half:])]

    def reduction(watched: Callable[[_Segment], Floats]) -> tuple[Floats, Floats]:
        """Means of counts, and their split R-hat: every chain counts as two, its halves."""
        means, variances = moments(
            [np.sum(list(map(watched, part)), axis=0) for part in halves], half * per_segment
        )
        return means.mean(axis=0), scale_reduction(means, variances, half * per_segment)

    watched = [segment.watched for segments in chains for segment in segments]
    return Convergence(
        sweeps=sweeps,
        reduction=float(reduction(lambda segment: segment.watched)[1].max()),
        at_families=_percentile(*reduction(lambda segment: segment.families)),
        at_blocks=_percentile(*reduction(lambda segment: segment.blocks)),
        effective=float(effective_sizes(*moments(watched, per_segment), per_segment).min()),
        n_watched=watched[0].shape[1],
    )


def _percentile(means: Floats, factors: Floats) -> float:
    """99th percentile of the split R-hat of counts."""
    # Counts with people in fewer than one state in a hundred change too rarely for their factor to mean anything.
    often = factors[means > 0.01]
    return float(np.quantile(often, 0.99)) if often.size else 1.0


def _spread(chains: list[list[_Segment]], number: int) -> list[CompactCounts]:
    """Draws evenly from all chains, and from each evenly over what is kept of it."""
    draws = []
    for i, segments in enumerate(chains):
        states = [state for segment in segments for state in segment.states]
        n = len(range(i, number, CHAINS))
        draws.append([states[(2 * k + 1) * len(states) // (2 * n)] for k in range(n)])
    return [draws[k % CHAINS][k // CHAINS] for k in range(number)]


def _not_converged(convergence: Convergence) -> SolverError:
    return SolverError(
        f"the chains do not agree after {convergence.sweeps:,} sweeps. Of {convergence.n_watched:,} watched quantities "
        f"the largest R-hat is {convergence.reduction:.3f} (wanted at most {MOST_REDUCTION}) and the least effective "
        f"sample size {convergence.effective:.0f} (wanted at least {LEAST_SIZE:.0f}); the 99th percentile of R-hat is "
        f"{convergence.at_families:.3f} at families and {convergence.at_blocks:.3f} at blocks (wanted at most "
        f"{MOST_AT_SMALL}). Nothing was written. Allow more sweeps: the same command goes on where the chains stopped. "
        "Chains that still disagree then have a law that this sampler cannot draw from.",
        code="draws-not-converged",
    )
