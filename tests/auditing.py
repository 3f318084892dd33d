"""Black-box privacy audits: a lower bound on epsilon from many outputs on two neighbouring populations.

Problem. A mechanism runs many times on a population with a person (outputs with law P) and on the same population
without the person (law Q). If it satisfies epsilon and delta, then P(A) <= exp(epsilon) Q(A) + delta for every set A of
outputs, and the same with P and Q exchanged. Wanted is a value that epsilon cannot be below.

Steps. An attacker gives each output a score, which is larger if the output is more likely with the person. One half of
the outputs determines a threshold on the scores, and so a set A. The other half gives exact binomial bounds on P(A) and
Q(A). These bounds refute every epsilon below ln((lower bound on P(A) - delta) / upper bound on Q(A)).

Worked case. If P(A) is at least 0.30 and Q(A) at most 0.10, every epsilon below ln 3 = 1.10 is refuted at delta 0.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Floats
from tallyveil.errors import ConfigError
from tallyveil.noise.laws import DiscreteGaussian, Law
from tallyveil.products.safetab.public.ages import DETAILS
from tallyveil.products.safetab.public.group_numbers import GroupMeasurements
from tallyveil.products.safetab.public.plan import LevelSet

_CANDIDATES: Final = 200


@dataclass(frozen=True, slots=True)
class AuditedEpsilon:
    """The result of an audit.

    Attributes:
        lower: Every epsilon below it is refuted at `delta`, with the requested confidence; 0 if none is refuted.
        delta: The delta.
        threshold: Threshold of the set of outputs.
        above: Whether the set consists of the scores above the threshold, or of the others.
        more_often: Lower bound on the set's probability under the population in which it is more frequent.
        less_often: Upper bound on its probability under the other population.
    """

    lower: float
    delta: float
    threshold: float
    above: bool
    more_often: float
    less_often: float


def audit_epsilon(without: Floats, having: Floats, *, delta: float, confidence: float) -> AuditedEpsilon:
    """A lower bound on epsilon, from scores of outputs on two neighbouring populations.

    Args:
        without: Scores of independent runs without a person, in the order in which they were made.
        having: Scores of independent runs with the person. They should be larger.
        delta: Delta at which epsilon is bounded.
        confidence: Probability, at least, that the bound holds, such as 0.999.
    Raises:
        ConfigError: there are fewer than two scores of either kind, or numbers are out of range.
    Source: Clopper and Pearson 1934 for the binomial bounds; Ding et al. 2018 for choosing sets on other outputs.
    """
    if min(len(without), len(having)) < 2 or not 0 <= delta < 1 or not 0 < confidence < 1:
        raise ConfigError(
            f"audit: got {len(without)} and {len(having)} scores, delta {delta}, confidence {confidence}; wanted at "
            "least two scores of each kind, a delta of at least 0 and below 1, and a confidence between 0 and 1."
        )
    chosen_on = without[: len(without) // 2], having[: len(having) // 2]
    judged_on = without[len(without) // 2 :], having[len(having) // 2 :]
    # Both directions and both bounds may fail, so each gets a quarter of the failure probability.
    failure = (1 - confidence) / 4
    found = []
    for above in (True, False):
        threshold = _best_threshold(*chosen_on, above=above, delta=delta, failure=failure)
        found.append(_judged(*judged_on, threshold, above=above, delta=delta, failure=failure))
    return max(found, key=lambda one: one.lower)


def binomial_bounds(hits: int, trials: int, failure: float) -> tuple[float, float]:
    """Exact lower and upper bound on a probability. Each fails with at most the given probability.

    Args:
        hits: Number of successes.
        trials: Number of trials, at least 1.
        failure: Failure probability, between 0 and 1.
    """
    from scipy.stats import beta

    lower = float(beta.ppf(failure, hits, trials - hits + 1)) if hits else 0.0
    upper = float(beta.ppf(1 - failure, hits + 1, trials - hits)) if hits < trials else 1.0
    return lower, upper


def person_scores(
    one: LevelSet, part: GroupMeasurements, groups: NDArray[np.int64], cell: int, cells: NDArray[np.int64]
) -> Floats:
    """How strongly each region suggests that the person is present: the logarithm of the likelihood ratio.

    Args:
        one: The level set that was measured.
        part: Measurements of some regions, each of which is an independent run.
        groups: Iterations with adaptive detail that contain the person.
        cell: The person's cell among the 46 finest.
        cells: Sex by 23 ages of the other people in each of these groups; shape (len(groups), 46).
    Returns:
        One score for each region.
    """
    width = part.stage_1.shape[1]
    scores = np.zeros(len(part.rows))
    for group, others in zip(groups.tolist(), cells, strict=True):
        base = int(others.sum())
        scores += _evidence(one.stage_1, part.stage_1[:, group] - base)
        plain = part.detail[:, group] == 0
        scores[plain] += _evidence(one.stage_2, part.totals[plain, group] - base)
        for detail, table in zip(DETAILS, part.tables, strict=True):
            rows, iterations = np.divmod(table.places, width)
            own = iterations == group
            place = int(detail.cell_of_finest()[cell])
            known = int(detail.collapse(others[None, :])[0, place])
            scores[rows[own]] += _evidence(one.stage_2, table.values[own, place] - known)
    return scores


def _evidence(law: Law, residual: NDArray[np.int64]) -> Floats:
    """ln P(noise = residual - 1) - ln P(noise = residual)."""
    if isinstance(law, DiscreteGaussian):
        ratio: Floats = (residual - 0.5).astype(np.float64) / float(law.variance)
        return ratio
    evidence: Floats = np.where(residual >= 1, 1.0, -1.0) / float(law.scale)
    return evidence


def _best_threshold(without: Floats, having: Floats, *, above: bool, delta: float, failure: float) -> float:
    """The threshold with the best bound on these scores, out of a grid of their quantiles."""
    grid = np.quantile(np.concatenate([without, having]), np.linspace(0.001, 0.999, _CANDIDATES))
    bounds = [
        _judged(without, having, float(t), above=above, delta=delta, failure=failure).lower
        for t in np.unique(grid)
    ]
    return float(np.unique(grid)[int(np.argmax(bounds))])


def _judged(
    without: Floats, having: Floats, threshold: float, *, above: bool, delta: float, failure: float
) -> AuditedEpsilon:
    more, less = (having, without) if above else (without, having)
    hits = [int(np.count_nonzero((scores > threshold) == above)) for scores in (more, less)]
    more_often, _ = binomial_bounds(hits[0], len(more), failure)
    _, less_often = binomial_bounds(hits[1], len(less), failure)
    refuted = math.log((more_often - delta) / less_often) if more_often > delta else 0.0
    return AuditedEpsilon(max(refuted, 0.0), delta, threshold, above, more_often, less_often)
