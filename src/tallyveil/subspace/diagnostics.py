"""How far a chain's law is from the wanted law, by coupled chains, and what this costs in delta.

*Meeting times of coupled chains*, and the bound on total variation that follows from them. Problem. A chain
starts at a fixed point and should follow a stationary law. Wanted is a bound on the total variation distance
between the law of its state after l sweeps and the stationary law.

Steps. Two chains with the same kernel are moved together. The leading chain is `lag` sweeps ahead. The moves
are coupled so that the chains can meet, and they stay together once they have met. Let tau be the sweep of
the leading chain at which they meet. Then

    TV(law after l sweeps, stationary law) <= E max(0, ceil((tau - lag - l) / lag)).

Many independent pairs estimate this expectation (`diagnostics`).

Stopping rule. A pair is given up after `longest` sweeps beyond the lag.

Worked case. With lag 10, a pair that meets after tau - lag = 25 sweeps contributes ceil((25 - 10) / 10) = 2
to the bound at l = 10, and 0 to the bound at l = 25.

Source: Biswas, Jacob, Vanetti 2019, Theorem 2.5; Dharangutte et al. 2022, Algorithms 2 and 3.

docs/subspace.md ("Chains") gives the derivations, and says when a law is too far from the wanted one.
"""

import math
import time
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy.stats import beta

from tallyveil.accounting.numbers import at_least, at_most
from tallyveil.arrays import Floats, Integers
from tallyveil.errors import BudgetError, SolverError
from tallyveil.kernels.subspace.chain import ABSOLUTE, Bits, coupled_jump_sweeps, coupled_slice_sweeps
from tallyveil.subspace.mcmc import (
    COUPLED,
    LEAD,
    ChainStream,
    SweepObserver,
    chain_arrays,
    chain_start,
    jump_arrays,
    sweep_chain,
)
from tallyveil.subspace.mcmc_moves import ChainPlan, SliceMoves
from tallyveil.subspace.mechanisms import LatticeLaw

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
        ahead, behind = chain_start(plan, None), chain_start(plan, None)
        _lead(plan, lead, first_pair + pair, lag, ahead)
        times[pair] = _meet(plan, stream, first_pair + pair, longest, ahead, behind)
        if observer is not None:
            observer.advanced(1)
    if observer is not None:
        observer.stage_finished("coupling", time.perf_counter() - began)
    times.flags.writeable = False
    return MeetingTimes(lag, longest, times)


def choose_lag(plan: ChainPlan, key: bytes, longest: int) -> int:
    """A lag near the time that most of a few pilot pairs take to meet. A much shorter lag would make the bound loose.

    Raises:
        SolverError: a quarter of the pilot pairs or more did not meet in `longest` sweeps.
    """
    lag = _FIRST_SWEEPS
    for attempt in range(_ATTEMPTS):
        # New pairs in every attempt, other than those that suggested its lag.
        first = _PILOT_CHAIN + attempt * _PILOTS
        pilots = meeting_times(plan, key, lag, _PILOTS, longest, first_pair=first)
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


_FEWEST_PAIRS: Final = 20
"""Fewer pairs would say next to nothing: at 99.9 % confidence a bound is never below about 8 / pairs."""


@dataclass(frozen=True, slots=True)
class TotalVariationBound:
    """A bound on the distance between the law of a chain after some sweeps and the wanted law.

    Attributes:
        sweeps: Number of sweeps of the chain.
        lag, pairs: Lag and number of the coupled pairs that the bound comes from.
        estimate: Mean over pairs of max(0, ceil((tau - lag - sweeps) / lag)), the paper's estimate.
        standard_error: Standard error of that mean.
        confidence: Confidence of `measured`, and of `extrapolated`.
        measured: Upper confidence bound from the pairs that met after `sweeps`. It assumes that beyond `sweeps` the
            number of pairs that have not met falls from lag to lag at least as fast as just after the median. It is
            never below about 3 / pairs.
        extrapolated: Upper confidence bound that applies the same rate of fall from the median on. It becomes as small
            as desired for enough sweeps, but only because of that assumption.
        arithmetic: Largest contribution of rounding; part of both bounds.
    """

    sweeps: int
    lag: int
    pairs: int
    estimate: float
    standard_error: float
    confidence: float
    measured: float
    extrapolated: float
    arithmetic: float


def total_variation_bound(
    plan: ChainPlan, meetings: MeetingTimes, sweeps: int, confidence: float = 0.999
) -> TotalVariationBound:
    """Bound the total variation between the law of a chain after `sweeps` sweeps and the wanted law.

    Args:
        plan: Plan of the chain and of the pairs.
        meetings: Meeting times of pairs that started where the chain starts.
        sweeps: Number of sweeps of the chain.
        confidence: Confidence of each of the two upper bounds.
    Raises:
        SolverError: there are fewer than 20 pairs, the confidence is outside 0.5 to 1, or most pairs were equal from
            the start.
    Source: Biswas, Jacob, Vanetti 2019, Theorem 2.5; Clopper, Pearson 1934.
    """
    times, lag, pairs = meetings.times, meetings.lag, meetings.times.size
    if pairs < _FEWEST_PAIRS or not 0.5 <= confidence < 1:
        raise SolverError(
            f"Convergence: got {pairs} pairs and confidence {confidence}; wanted {_FEWEST_PAIRS} pairs or more, and "
            "a confidence of at least 0.5 and below 1. Run more pairs of chains.",
            code="subspace-chain-range",
        )
    if np.median(times) == 0:
        raise SolverError(
            f"Convergence: most of {pairs} pairs of chains were equal from the start, because the leading chain had "
            f"not moved in {lag} sweeps. Use a longer lag; see choose_lag.",
            code="subspace-not-converged",
        )
    values = np.maximum(0, -(-(times - sweeps) // lag)).astype(np.float64)
    estimate = float(values.mean()) if not meetings.unmet else math.inf
    error = float(values.std(ddof=1)) / math.sqrt(pairs) if not meetings.unmet else math.inf
    half = (1 - confidence) / 2
    middle = int(np.median(times))
    late = int((times > middle).sum())
    fall = upper_proportion(int((times > middle + lag).sum()), late, half)
    beyond = upper_proportion(int((times > sweeps).sum()), pairs, half)
    from_middle = upper_proportion(late, pairs, half)
    rest = math.inf if fall >= 1 or sweeps < middle or meetings.unmet else 1 / (1 - fall)
    per_sweep = plan.slacks_per_sweep * plan.target.update_error + plan.points_error
    arithmetic = plan.target.rounding + per_sweep * (sweeps + (2 * sweeps + lag) * rest)
    extrapolated = from_middle * fall ** max(0, (sweeps - middle) // lag) * rest
    return TotalVariationBound(
        sweeps=sweeps,
        lag=lag,
        pairs=pairs,
        estimate=estimate,
        standard_error=error,
        confidence=confidence,
        measured=min(1.0, beyond * rest + arithmetic),
        extrapolated=min(1.0, extrapolated + arithmetic),
        arithmetic=min(1.0, arithmetic),
    )


def sweeps_until(meetings: MeetingTimes, bound: float) -> int:
    """The smallest number of sweeps after which the estimate of the total variation is below `bound`.

    Raises:
        SolverError: some pairs did not meet.
    """
    if meetings.unmet:
        raise SolverError(
            f"Convergence: {meetings.unmet} of {meetings.times.size} pairs of chains did not meet in "
            f"{meetings.longest} sweeps. Allow more sweeps, or give a better reduced basis.",
            code="subspace-not-converged",
        )
    low, high = 0, int(meetings.times.max(initial=0))
    while low < high:
        middle = (low + high) // 2
        if np.maximum(0, -(-(meetings.times - middle) // meetings.lag)).mean() < bound:
            high = middle
        else:
            low = middle + 1
    return low


def upper_proportion(successes: int, trials: int, tail: float) -> float:
    """Upper confidence bound on a probability. It is too low with probability at most `tail`.

    Source: Clopper, Pearson 1934.
    """
    return 1.0 if successes >= trials else float(beta.ppf(1 - tail, successes + 1, trials - successes))


def added_delta(total_variation: float, epsilon: Fraction, least_distance: float = 1.0) -> float:
    """The delta that a total variation distance adds to an integer-subspace guarantee with this epsilon.

    Let P be the wanted law and P~ the law of the noise, with total variation distance at most t. For tables at distance
    D, P~(E) <= P(E) + t <= e^(eps D) P'(E) + t <= e^(eps D) P~'(E) + (1 + e^(eps D)) t. (The delta of the wanted law
    itself comes in addition.) Definition 2 allows an additive term of delta (e^(eps D) - 1) / (e^eps - 1). So
    delta = t (e^eps - 1) (e^(eps D) + 1) / (e^(eps D) - 1) is sufficient. It decreases with D, so the least distance
    determines it.

    Args:
        total_variation: t, between the law of the noise and the wanted law.
        epsilon: Epsilon of the guarantee, above 0.
        least_distance: Smallest norm of a nonzero lattice vector. Different tables with the same invariants are at
            least this far apart. The value 1 is always valid; for one sum and the l1 norm the value is 2.
    Raises:
        BudgetError: epsilon is not positive, the distance is below 1, or the total variation is outside 0 to 1.
    """
    rate = float(epsilon)
    if not rate > 0 or not least_distance >= 1 or not 0 <= total_variation <= 1:
        raise BudgetError(
            f"Added delta: got total variation distance {total_variation}, epsilon {epsilon} and least distance "
            f"{least_distance}; wanted a total variation distance from 0 to 1, an epsilon above 0, and a least "
            "distance of 1 or more."
        )
    if rate > 700:
        return math.inf if total_variation else 0.0
    return total_variation * math.expm1(rate) / math.tanh(rate * least_distance / 2) * (1 + 1e-12)


def require_converged(
    bound: TotalVariationBound,
    epsilon: Fraction,
    allowed_delta: float,
    *,
    least_distance: float = 1.0,
    extrapolate: bool = False,
) -> float:
    """The delta to add to the guarantee, after a check that it is allowed.

    Args:
        bound: Bound on the chain's total variation.
        epsilon: Epsilon of the guarantee.
        allowed_delta: Largest delta that may be added.
        least_distance: As in `added_delta`.
        extrapolate: Use the extrapolated bound. Its assumption is then part of the guarantee.
    Raises:
        SolverError: a larger delta would have to be added.
    """
    distance = bound.extrapolated if extrapolate else bound.measured
    delta = added_delta(distance, epsilon, least_distance)
    if delta > allowed_delta:
        kind = "extrapolated" if extrapolate else "measured"
        raise SolverError(
            f"Chain of {bound.sweeps} sweeps: its law is within total variation distance {at_most(distance, 3)} of "
            f"the target law ({kind}, confidence {bound.confidence:g}, {bound.pairs} pairs at lag {bound.lag}), "
            f"which adds delta {at_most(delta, 3)}; the allowed delta is {at_least(allowed_delta, 3)}. Run more "
            "sweeps or more pairs of chains, or raise the allowed delta.",
            code="subspace-not-converged",
        )
    return delta


def potential_scale_reduction(chains: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Potential scale reduction factor of each cell. It is near 1 if the chains agree.

    Args:
        chains: [chains, states, n_cells], at least two chains, with dispersed starts.
    Returns:
        float64 [n_cells]; 1 for a cell that never changes, infinite for a cell that differs only between chains.
    Raises:
        SolverError: there are fewer than two chains or states.
    Source: Gelman, Rubin 1992.
    """
    states = np.asarray(chains, dtype=np.float64)
    if states.ndim != 3 or min(states.shape[:2]) < 2:
        raise SolverError(
            f"Scale reduction: got an array of shape {states.shape}, wanted (chains, states, cells) with at least "
            "two chains and two states.",
            code="subspace-chain-range",
        )
    return scale_reduction(states.mean(axis=1), states.var(axis=1, ddof=1), states.shape[1])


def scale_reduction(means: Floats, variances: Floats, n: int) -> Floats:
    """Potential scale reduction of each quantity from the means and variances of chains, or of parts of them.

    Args:
        means: Mean of each part; shape (parts, quantities).
        variances: Variance of each part, divided by n - 1; shape (parts, quantities).
        n: States of a part.
    Returns:
        float64 [quantities]; 1 for a quantity that never changes, infinite for one that differs only between parts.
    """
    within = variances.mean(axis=0)
    total = (n - 1) / n * within + means.var(axis=0, ddof=1)
    still = np.where(total > 0, math.inf, 1.0)
    factors: Floats = np.sqrt(np.divide(total, within, out=still, where=within > 0))
    return factors


def overdispersed(law: LatticeLaw) -> LatticeLaw:
    """A law of the same kind, twice as wide, from which chains for `potential_scale_reduction` can start."""
    from tallyveil.subspace.mechanisms import GeneralisedGaussian, GeneralisedLaplace

    if isinstance(law, GeneralisedLaplace):
        return GeneralisedLaplace(law.norm, law.epsilon / 2)
    return GeneralisedGaussian(law.variance * 4)
