"""Meeting times of coupled chains, and the bound on total variation that follows from them.

Problem. A chain starts at a fixed point and should follow a stationary law. Wanted is a bound on the total variation
distance between the law of its state after l sweeps and the stationary law.

Steps. Two chains with the same kernel are moved together. The leading chain is `lag` sweeps ahead. The moves are
coupled so that the chains can meet, and they stay together once they have met. Let tau be the sweep of the leading
chain at which they meet. Then

    TV(law after l sweeps, stationary law) <= E max(0, ceil((tau - lag - l) / lag)).

Many independent pairs estimate this expectation (`diagnostics`).

Stopping rule. A pair is given up after `longest` sweeps beyond the lag.

Worked case. With lag 10, a pair that meets after tau - lag = 25 sweeps contributes ceil((25 - 10) / 10) = 2 to the
bound at l = 10, and 0 to the bound at l = 25.

Source: Biswas, Jacob, Vanetti 2019, Theorem 2.5; Dharangutte et al. 2022, Algorithms 2 and 3.
"""

import time
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tallyveil.arrays import Integers
from tallyveil.errors import SolverError
from tallyveil.kernels.subspace.chain import ABSOLUTE, Bits
from tallyveil.kernels.subspace.chain_coupled import coupled_jump_sweeps, coupled_slice_sweeps
from tallyveil.subspace.mcmc import (
    SweepObserver,
    chain_arrays,
    chain_start,
    jump_arrays,
    sweep_chain,
)
from tallyveil.subspace.mcmc_moves import ChainPlan, SliceMoves
from tallyveil.subspace.mcmc_stream import COUPLED, LEAD, ChainStream

_PILOTS: Final = 24
"""Pilot pairs of one attempt. A quarter of them, 6, that do not meet is a refusal."""
_GREATEST_ABSOLUTE: Final = 1 << 30
"""Beyond this size the points of two slices cannot be compared (see `meeting_times`)."""
_FIRST_SWEEPS: Final = 16
"""First lag that is tried, and the sweeps whose bits are asked for first."""
_ATTEMPTS: Final = 10
"""Attempts to find a lag."""
_PILOT_CHAIN: Final = 1 << 40
"""Number of the first pilot. Pilots above 2**40 share no random bits with pairs numbered from 0."""


@dataclass(frozen=True, slots=True, eq=False)
class MeetingTimes:
    """The numbers of sweeps that pairs of chains took to meet.

    Attributes:
        lag: Number of sweeps by which the leading chain is ahead.
        longest: Number of sweeps after the lag at which a pair is given up.
        times: int64 [pairs], tau - lag, the sweeps made by the lagged chain; longest + 1 for pairs that did not meet.
    """

    lag: int
    longest: int
    times: Integers

    @property
    def unmet(self) -> int:
        """Number of pairs that did not meet."""
        return int((self.times > self.longest).sum())


def meeting_times(
    plan: ChainPlan,
    key: bytes,
    lag: int,
    pairs: int,
    longest: int,
    *,
    start: npt.ArrayLike | None = None,
    first_pair: int = 0,
    observer: SweepObserver | None = None,
) -> MeetingTimes:
    """Run pairs of chains until they meet.

    Args:
        plan: Law, columns and moves.
        key: 32 bytes. The pairs use other random bits than the chains of `run_chain`.
        lag: 1 or more; see `choose_lag`.
        pairs: Number of independent pairs.
        longest: Number of sweeps after the lag at which a pair is given up.
        start: Where both chains start; zero by default. Bounds hold for chains with this start.
        first_pair: Number of the first pair, to run more pairs with the same key.
        observer: Receives the number of finished pairs.
    Raises:
        SolverError: a number is below 1, or the noise is so wide that points of two slices cannot be compared.
    """
    if min(lag, pairs, longest) < 1:
        raise SolverError(
            f"Coupling: got lag {lag}, {pairs} pairs and at most {longest} sweeps; wanted 1 or more of each.",
            code="subspace-chain-range",
        )
    if plan.target.kind == ABSOLUTE and plan.target.limit >= _GREATEST_ABSOLUTE:
        raise SolverError(
            f"Coupling: {plan.law} on {plan.columns.n_cells} cells can reach absolute values of {plan.target.limit}, "
            f"wanted below {_GREATEST_ABSOLUTE}. Use less noise or an exact sampler.",
            code="subspace-chain-range",
        )
    times = np.empty(pairs, dtype=np.int64)
    lead = ChainStream(key, plan.digest, plan.words)
    stream = ChainStream(key, plan.digest, plan.coupled_words)
    began = time.perf_counter()
    if observer is not None:
        observer.stage_started("coupling", pairs)
    for pair in range(pairs):
        ahead, behind = chain_start(plan, start), chain_start(plan, start)
        _lead(plan, lead, first_pair + pair, lag, ahead)
        times[pair] = _meet(plan, stream, first_pair + pair, longest, ahead, behind)
        if observer is not None:
            observer.advanced(1)
    if observer is not None:
        observer.stage_finished("coupling", time.perf_counter() - began)
    times.flags.writeable = False
    return MeetingTimes(lag, longest, times)


def choose_lag(plan: ChainPlan, key: bytes, longest: int, *, start: npt.ArrayLike | None = None) -> int:
    """A lag near the time that most of a few pilot pairs take to meet. A much shorter lag would make the bound loose.

    Raises:
        SolverError: a quarter of the pilot pairs or more did not meet in `longest` sweeps.
    """
    lag = _FIRST_SWEEPS
    for attempt in range(_ATTEMPTS):
        # New pairs in every attempt, other than those that suggested its lag.
        first = _PILOT_CHAIN + attempt * _PILOTS
        pilots = meeting_times(plan, key, lag, _PILOTS, longest, start=start, first_pair=first)
        if 4 * pilots.unmet >= _PILOTS:
            raise SolverError(
                f"Coupling: {pilots.unmet} of {_PILOTS} pilot pairs of chains did not meet in {longest} sweeps. "
                "Allow more sweeps, or give a reduced basis.",
                code="subspace-not-converged",
            )
        # Most pairs, not all: a lag costs every pair that many sweeps, and one slow pilot should not set it.
        typical = int(np.quantile(pilots.times, 0.75))
        # If leading chains have hardly moved from the common start, pairs meet at once, which is no information.
        moved = int((pilots.times > 0).sum()) >= _PILOTS - 2
        if attempt and moved and typical <= lag:
            break
        lag = max(lag if moved and attempt > 1 else 4 * lag, typical)
    return lag


def _lead(plan: ChainPlan, stream: ChainStream, pair: int, lag: int, state: Integers) -> None:
    done = 0
    while done < lag:
        now = min(stream.chunk, lag - done)
        sweep_chain(plan, stream.words(LEAD, pair, done, now), stream.per_sweep, now, state)
        done += now


def _meet(
    plan: ChainPlan, stream: ChainStream, pair: int, longest: int, ahead: Integers, behind: Integers
) -> int:
    """Number of sweeps of the lagged chain until both are equal, or longest + 1."""
    law, columns = chain_arrays(plan)
    if np.array_equal(ahead[: columns.n_cells], behind[: columns.n_cells]):
        return 0
    done = 0
    ask = _FIRST_SWEEPS  # pairs that meet early should not cost bits that they do not use
    while done < longest:
        now = min(stream.chunk, longest - done, ask)
        bits = Bits(stream.words(COUPLED, pair, done, now), stream.per_sweep, now)
        if isinstance(plan.moves, SliceMoves):
            met = coupled_slice_sweeps(law, columns, bits, ahead, behind)
        else:
            met = coupled_jump_sweeps(law, columns, jump_arrays(plan), bits, ahead, behind)
        if met <= now:
            return done + int(met)
        done += now
        ask *= 2
    return longest + 1
