"""How far a chain's law is from the one asked for, what that costs in delta, and when it is too far.

Derivations: docs/subspace.md, "Chains".
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy.stats import beta

from tallyveil.accounting.decimals import at_least, at_most
from tallyveil.errors import BudgetError, SolverError
from tallyveil.subspace.coupling import MeetingTimes
from tallyveil.subspace.mcmc_moves import ChainPlan
from tallyveil.subspace.mechanisms import LatticeLaw

_FEWEST_PAIRS: Final = 20


@dataclass(frozen=True, slots=True)
class TotalVariationBound:
    """How far the law of a chain after some sweeps is from the law asked for.

    Attributes:
        sweeps: After how many.
        lag, pairs: What it was found from.
        estimate: Mean over pairs of max(0, ceil((tau - lag - sweeps) / lag)): the paper's number.
        standard_error: Of that mean.
        confidence: Probability that `measured` and `extrapolated` hold, over the pairs.
        measured: Upper confidence bound; what lies beyond the sweeps seen is taken to fall off from lag to lag no
            slower than it does past the median. Never below about 3 / pairs.
        extrapolated: Upper confidence bound where the same fall is taken to go on from the median, however few meetings
            are that late: as small as one likes for enough sweeps, but it is that assumption which makes it so.
        arithmetic: What rounding adds at most; part of both bounds.
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
    """Bound the total variation between a chain after `sweeps` sweeps and the law asked for.

    Args:
        plan: Of the chain, and of the pairs.
        meetings: Of pairs that started where the chain starts.
        sweeps: Of the chain.
        confidence: Of the two upper bounds, each.
    Raises:
        SolverError: fewer than 20 pairs, or a confidence outside 0.5 to 1.
    Source: Biswas, Jacob, Vanetti 2019, Theorem 2.5; Clopper, Pearson 1934.
    """
    times, lag, pairs = meetings.times, meetings.lag, meetings.times.size
    if pairs < _FEWEST_PAIRS or not 0.5 <= confidence < 1:
        raise SolverError(
            f"Convergence: {pairs} pairs at confidence {confidence}; wanted {_FEWEST_PAIRS} pairs or more, and 0.5 or "
            "more but below 1. Let more pairs meet.",
            code="subspace-chain-range",
        )
    if np.median(times) == 0:
        raise SolverError(
            f"Convergence: most of {pairs} pairs were equal from the start, because the leading chain had not moved in "
            f"{lag} sweeps. Take a longer lag; see choose_lag.",
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
    updates = plan.slacks_per_sweep * plan.target.update_error
    arithmetic = plan.target.rounding + updates * (sweeps + (2 * sweeps + lag) * rest)
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
    """The fewest sweeps after which the estimate of the total variation is below `bound`.

    Raises:
        SolverError: some pairs did not meet.
    """
    if meetings.unmet:
        raise SolverError(
            f"Convergence: {meetings.unmet} of {meetings.times.size} pairs did not meet in {meetings.longest} sweeps. "
            "Allow more sweeps, or move along better columns.",
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
    """Upper confidence bound on a probability: the bound is too low with probability `tail` at most.

    Source: Clopper, Pearson 1934.
    """
    return 1.0 if successes >= trials else float(beta.ppf(1 - tail, successes + 1, trials - successes))


def added_delta(total_variation: float, epsilon: Fraction, least_distance: float = 1.0) -> float:
    """The delta that noise off by `total_variation` adds to an integer-subspace guarantee at this epsilon.

    For tables at distance D, P~(E) <= P(E) + t <= e^(eps D) P'(E) + t <= e^(eps D) P~'(E) + (1 + e^(eps D)) t,
    besides the delta that the law asked for has itself. Definition 2 allows delta (e^(eps D) - 1) / (e^eps - 1),
    so that delta = t (e^eps - 1) (e^(eps D) + 1) / (e^(eps D) - 1) will do; it falls with D, hence the least distance
    counts.

    Args:
        total_variation: t, between the law of the noise and the law asked for.
        epsilon: Of the guarantee, above 0.
        least_distance: Least norm of a lattice vector but zero: no two tables with the same invariants are nearer.
            1 is always allowed; for one sum and the l1 norm it is 2.
    Raises:
        BudgetError: epsilon is not positive, the distance below 1, or the total variation outside 0 to 1.
    """
    rate = float(epsilon)
    if not rate > 0 or not least_distance >= 1 or not 0 <= total_variation <= 1:
        raise BudgetError(
            f"Added delta: total variation {total_variation}, epsilon {epsilon}, least distance {least_distance}; "
            "wanted 0 to 1, above 0, and 1 or more."
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
    """The delta to add to the guarantee, where it is allowed.

    Args:
        bound: On the chain's total variation.
        epsilon: Of the guarantee.
        allowed_delta: The most that may be added.
        least_distance: As in `added_delta`.
        extrapolate: Take the extrapolated bound; its assumption then belongs to the guarantee.
    Raises:
        SolverError: more would have to be added.
    """
    distance = bound.extrapolated if extrapolate else bound.measured
    delta = added_delta(distance, epsilon, least_distance)
    if delta > allowed_delta:
        kind = "extrapolated" if extrapolate else "measured"
        raise SolverError(
            f"Chain of {bound.sweeps} sweeps: its law is within {at_most(distance, 3)} of the one asked for "
            f"({kind}, confidence {bound.confidence:g}, {bound.pairs} pairs at lag {bound.lag}), which adds delta "
            f"{at_most(delta, 3)}; allowed is {at_least(allowed_delta, 3)}. Run more sweeps, let more pairs "
            "meet, or raise the allowed delta.",
            code="subspace-not-converged",
        )
    return delta


def potential_scale_reduction(chains: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Potential scale reduction factor of each cell; near 1 where chains agree.

    Args:
        chains: [chains, states, n_cells], two chains or more, from starts that are spread out.
    Returns:
        float64 [n_cells]; 1 for a cell that never moves, infinite for one that moves between chains only.
    Raises:
        SolverError: fewer than two chains or states.
    Source: Gelman, Rubin 1992.
    """
    states = np.asarray(chains, dtype=np.float64)
    if states.ndim != 3 or min(states.shape[:2]) < 2:
        raise SolverError(
            f"Scale reduction: shape {states.shape}, wanted two chains and two states or more, by cell.",
            code="subspace-chain-range",
        )
    n = states.shape[1]
    within = states.var(axis=1, ddof=1).mean(axis=0)
    between = states.mean(axis=1).var(axis=0, ddof=1)
    total = (n - 1) / n * within + between
    still = np.where(total > 0, math.inf, 1.0)
    factors: npt.NDArray[np.float64] = np.sqrt(np.divide(total, within, out=still, where=within > 0))
    return factors


def effective_size(states: npt.ArrayLike) -> float:
    """Independent draws that would tell the mean of one quantity as well as these correlated ones.

    Args:
        states: [n], one quantity along a chain.
    Source: Geyer 1992, the initial positive sequence.
    """
    x = np.asarray(states, dtype=np.float64)
    x = x - x.mean()
    n = x.size
    if n < 4 or not x.any():
        return float(n)
    spectrum = np.fft.rfft(x, 2 * n)
    correlation = np.fft.irfft(spectrum * np.conj(spectrum))[:n] / n
    pairs = correlation[0 : n - 1 : 2] + correlation[1:n:2]
    negative = np.flatnonzero(pairs <= 0)
    kept = pairs[: negative[0]] if negative.size else pairs
    return float(n * correlation[0] / max(2 * kept.sum() - correlation[0], correlation[0] / n))


def overdispersed(law: LatticeLaw) -> LatticeLaw:
    """The same kind of law, about twice as wide: where chains for `potential_scale_reduction` should start."""
    from tallyveil.subspace.mechanisms import GeneralisedGaussian, GeneralisedLaplace

    if isinstance(law, GeneralisedLaplace):
        return GeneralisedLaplace(law.norm, law.epsilon / 2)
    return GeneralisedGaussian(law.variance * 4)
