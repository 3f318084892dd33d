"""Rates of attacks, and how sure they are."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm, rankdata, t
from tests.auditing import binomial_bounds

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Rate:
    """A number with its interval of 95 %. Without noise there is no interval: both ends are the number."""

    value: float
    lower: float
    upper: float


def over_releases(values: Sequence[float]) -> Rate:
    """The mean over releases of the same people with different keys, and Student's interval for it."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return Rate(mean, mean, mean)
    spread = float(np.std(values, ddof=1)) / len(values) ** 0.5
    width = float(t.ppf((1 + CONFIDENCE) / 2, len(values) - 1)) * spread
    return Rate(mean, mean - width, mean + width)


def of_trials(hits: int, trials: int, confidence: float = CONFIDENCE) -> Rate:
    """The rate of independent trials, with the exact interval of Clopper and Pearson."""
    return Rate(hits / trials, *binomial_bounds(hits, trials, (1 - confidence) / 2))


def area_under_curve(without: np.ndarray, having: np.ndarray) -> float:
    """The probability that a score with the record exceeds one without it; ties count half."""
    ranks = rankdata(np.concatenate([without, having]))[len(without) :]
    return float((ranks.sum() - len(having) * (len(having) + 1) / 2) / (len(having) * len(without)))


def area_of_trials(without: np.ndarray, having: np.ndarray) -> Rate:
    """The area under the curve with the normal interval of DeLong, DeLong and Clarke-Pearson 1988."""
    value = area_under_curve(without, having)
    both = rankdata(np.concatenate([without, having]))
    m, n = len(without), len(having)
    beaten = (both[m:] - rankdata(having)) / m
    lost = 1 - (both[:m] - rankdata(without)) / n
    width = (
        float(norm.ppf((1 + CONFIDENCE) / 2)) * float(beaten.var(ddof=1) / n + lost.var(ddof=1) / m) ** 0.5
    )
    return Rate(value, max(0.0, value - width), min(1.0, value + width))


def power_at(without: np.ndarray, having: np.ndarray, false_alarms: float) -> float:
    """Share of the scores with the record above the threshold that so few of those without it exceed.

    Ties at the threshold are decided by lot, so that the share of false alarms is met exactly.
    """
    threshold = np.quantile(without, 1 - false_alarms, method="higher")
    above, at = np.mean(without > threshold), np.mean(without == threshold)
    by_lot = (false_alarms - above) / at if at else 0.0
    return float(np.mean(having > threshold) + by_lot * np.mean(having == threshold))
