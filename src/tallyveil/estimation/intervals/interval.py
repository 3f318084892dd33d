"""Intervals for counts, from unbiased estimates and their variances.

There are two kinds of intervals with the stated coverage: the unified interval, for counts, which cannot be negative;
and the normal interval, for anything else, such as differences. docs/intervals.md explains why no other kind is
offered. Discrete Laplace noise has estimates and standard errors, and no intervals.

Worked case. An estimate is 3.2 with standard error 2, that is x = 1.6. At level 0.95 the unified interval is 0 to
2 x (1.6 + 1.96) = 7.12; rounded inward to integers, it is 0 to 7. The normal interval is -0.72 to 7.12.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Floats
from tallyveil.errors import ConfigError
from tallyveil.estimation.intervals.answers import Answers
from tallyveil.estimation.intervals.feldman_cousins import unified_belt
from tallyveil.estimation.intervals.model import TreeModel
from tallyveil.exact import as_given
from tallyveil.schema.counts import LARGEST_LEVEL

IntervalKind = Literal["unified", "normal", "none"]

NO_INTERVALS = (
    "There are no intervals, because the noise is discrete Laplace. The sum of a few draws of such noise has heavier "
    "tails than a normal law, so that an interval of normal quantiles would contain the count before noise less often "
    "than stated. Estimates are unbiased, and standard errors are those of this noise. They cover the privacy noise "
    "only: neither errors of the count itself, nor those of coverage or response."
)
"""Why a release with Laplace noise has no intervals, and what its standard errors cover."""

GRAIN = 1e-6
"""Rounding of floats may have moved an end by this many counts, plus 1e-9 of the estimate."""


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """Intervals for several answers, as arrays of the same shape.

    Attributes:
        low: Lower ends, in counts; integers for the unified kind; NaN for no interval.
        high: Upper ends, in counts; inf if the answer is not determined; NaN for no interval.
        kind: "unified" or "normal"; "none" if only answers that are known exactly have one, of one number.
        level: The requested coverage.
        simultaneous: Number of intervals that together have the level; 1 for one interval at a time.
    """

    low: Floats
    high: Floats
    kind: IntervalKind
    level: float
    simultaneous: int

    @property
    def sentence(self) -> str:
        """What the intervals cover, and what they do not cover."""
        return sentence_of(self.level, self.simultaneous)


def sentence_of(level: float, simultaneous: int = 1) -> str:
    """What intervals of a level cover, and what they do not cover."""
    return _sentence(level, None if simultaneous == 1 else f"all {simultaneous:,} intervals")


def sentence_of_tables(level: float) -> str:
    """The same, if all intervals of a table together have the level."""
    return _sentence(level, "all intervals of a table")


def covers_of_tables(model: TreeModel, level: float, *, simultaneous: bool) -> str:
    """What the intervals of a release's tables cover, or why the noise allows none."""
    if not model.gaussian:
        return NO_INTERVALS
    return sentence_of_tables(level) if simultaneous else sentence_of(level)


def _sentence(level: float, together: str | None) -> str:
    what = "an interval made this way contains the count before noise"
    if together is not None:
        what = f"{together} contain their counts before noise (Bonferroni)"
    return (
        f"In {100 * level:g} of 100 repetitions of the privacy noise {what}. It covers the privacy noise only: neither "
        "errors of the count itself, nor those of coverage or response. It is not centred on the published number, "
        "which is non-negative and whole and therefore biased; and intervals of sums are not sums of intervals."
    )


def intervals_of(
    model: TreeModel,
    answers: Answers,
    *,
    level: float = 0.95,
    kind: IntervalKind = "unified",
    simultaneous: int = 1,
) -> Intervals:
    """Intervals for answers.

    Args:
        model: The model that the estimates follow.
        answers: Estimates and variances.
        level: Coverage, at least 0.5 and below 1.
        kind: "unified" is for counts, whose true values are non-negative integers. These intervals are never empty, and
            their ends are rounded inward to integers. "normal" is for any other question: the estimate plus and minus a
            multiple of its standard error.
        simultaneous: Number of answers to cover together, by Bonferroni's inequality. It holds for any dependence
            between estimates and for intervals that are not symmetric (Šidák's inequality does not).
    Raises:
        ConfigError: the level or the number of intervals is out of range; or the noise is not Gaussian, so normal
            quantiles would cover less than stated.
    """
    refuse_intervals(model, level, kind, simultaneous)
    each = _level_of_each(level, simultaneous)
    errors = answers.standard_errors
    # An answer that is not determined gets the widest interval instead of none, so that tables keep their shape.
    known = np.isfinite(errors)
    with np.errstate(invalid="ignore", over="ignore"):
        if kind == "normal":
            from scipy.special import ndtri  # here, since most runs make no intervals

            # Half of what is not covered lies on each side.
            reach = ndtri(0.5 + each / 2) * errors
            low, high = answers.estimates - reach, answers.estimates + reach
        else:
            low, high = _unified(answers.estimates, errors, each)
    low = np.where(known, low, 0.0 if kind == "unified" else -np.inf)
    return Intervals(low, np.where(known, high, np.inf), kind, level, simultaneous)


def _level_of_each(level: float, simultaneous: int) -> float:
    """The coverage of each of several intervals that together have a level."""
    # Bonferroni: the probabilities of missing add up to at most 1 - level.
    return 1.0 - (1.0 - level) / simultaneous


def intervals_if_any(
    model: TreeModel, answers: Answers, *, level: float, kind: IntervalKind = "unified", simultaneous: int = 1
) -> Intervals:
    """Intervals as `intervals_of` makes them; where the noise allows none, of exact answers alone.

    Raises:
        ConfigError: the level or the number of intervals is out of range.
    """
    if model.gaussian:
        return intervals_of(model, answers, level=level, kind=kind, simultaneous=simultaneous)
    refuse_level(level, kind, simultaneous)
    # Exact answers need no law of the noise.
    ends = np.where(answers.standard_errors == 0, np.rint(answers.estimates), np.nan)
    return Intervals(ends, ends, "none", level, simultaneous)


def _unified(estimates: Floats, errors: Floats, level: float) -> tuple[Floats, Floats]:
    exact = errors == 0
    # Any positive number: these entries are replaced below.
    scale = np.where(exact | ~np.isfinite(errors), 1.0, errors)
    low, high = unified_belt(level).ends(estimates / scale)
    low, high = np.where(exact, estimates, low * scale), np.where(exact, estimates, high * scale)
    return rounded_inward(estimates, low, high)


def rounded_inward(
    estimates: Floats, low: Floats, high: Floats, *, least: float = 0.0
) -> tuple[Floats, Floats]:
    """Smallest and largest integers inside, not below `least`; or twice the integer nearest to the estimate.

    The true count is an integer, so rounding inward loses nothing. An interval without integers grows to contain
    the integer nearest to the estimate.
    """
    # Without it, an upper end of 7 - 1e-12, which is 7 but for rounding, would become 6.
    grain = GRAIN * (1.0 + 1e-3 * np.abs(estimates))
    first = np.maximum(np.ceil(low - grain), least)
    last = np.floor(high + grain)
    nearest = np.maximum(np.rint(estimates), least)
    none = first > last
    return np.where(none, nearest, first), np.where(none, nearest, last)


def contains(intervals: Intervals, counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each interval contains a count, such as the published one."""
    return (intervals.low <= counts) & (counts <= intervals.high)


def refuse_intervals(model: TreeModel, level: float, kind: str = "unified", simultaneous: int = 1) -> None:
    """Refuse what `intervals_of` would refuse, before anything is computed.

    Raises:
        ConfigError: see `intervals_of`.
    """
    if not model.gaussian:
        raise ConfigError(
            "intervals need discrete Gaussian noise. The sum of a few discrete Laplace draws has heavier tails than "
            "a normal law, so that an interval of normal quantiles would cover less often than stated. Use the "
            "variances, which are exact for any noise.",
            code="interval-noise",
        )
    refuse_level(level, kind, simultaneous)


def refuse_level(level: float, kind: str = "unified", simultaneous: int = 1) -> None:
    """Refuse a level, kind or number of intervals that cannot be.

    Raises:
        ConfigError: see `intervals_of`.
    """
    if kind not in ("unified", "normal"):
        raise ConfigError(
            f"the kind of interval is {as_given(kind)}; wanted 'unified' or 'normal'. Use one of them.",
            code="interval-level",
        )
    if not (0.5 <= level < 1 and simultaneous >= 1):
        raise ConfigError(
            f"the level is {as_given(level)} for {as_given(simultaneous)} simultaneous intervals; wanted a level of at "
            "least 0.5 and below 1, and 1 or more intervals.",
            code="interval-level",
        )
    if _level_of_each(level, simultaneous) > LARGEST_LEVEL:
        raise ConfigError(
            f"the level is {level!r} for {simultaneous:,} simultaneous intervals, so each would have to contain its "
            f"count with a probability above {LARGEST_LEVEL!r}, which floats cannot tell from 1. Ask for a lower "
            "level, or for fewer intervals together.",
            code="interval-level",
        )
