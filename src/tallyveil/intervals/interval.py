"""Intervals for counts from unbiased estimates and their variances.

Two kinds hold what they say: the unified interval, for counts, which cannot be negative; and the normal one, for
anything, such as differences. Why no other is offered is in docs/intervals.md.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from tallyveil.arrays import Floats
from tallyveil.errors import ConfigError
from tallyveil.intervals.answers import Answers
from tallyveil.intervals.feldman_cousins import unified_belt
from tallyveil.intervals.model import TreeModel

IntervalKind = Literal["unified", "normal"]

GRAIN = 1e-6
"""Persons, and share of the estimate at 1e-3 of that, by which rounding of floats may have moved an end."""


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """Intervals of several answers; arrays of one shape.

    Attributes:
        low: Lower ends, persons; whole numbers for the unified kind.
        high: Upper ends, persons; inf where nothing determines the answer.
        kind: "unified" or "normal".
        level: Coverage asked for.
        simultaneous: Number of intervals that together have the level; 1 for one at a time.
    """

    low: Floats
    high: Floats
    kind: IntervalKind
    level: float
    simultaneous: int

    @property
    def sentence(self) -> str:
        """What the intervals cover and what they do not."""
        return sentence_of(self.level, self.simultaneous)


def sentence_of(level: float, simultaneous: int = 1) -> str:
    """What intervals of a level cover and what they do not."""
    return _sentence(level, None if simultaneous == 1 else f"all {simultaneous:,} intervals")


def sentence_of_tables(level: float) -> str:
    """The same where all intervals of a table have the level together."""
    return _sentence(level, "all intervals of a table")


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
        model: What the answers are estimates of.
        answers: Estimates and variances.
        level: Coverage, at least 0.5 and below 1.
        kind: "unified" for counts, whose truth is a whole number of at least 0: never empty, with ends rounded
            inward to whole numbers. "normal" for any other question: estimate plus and minus a multiple of its
            standard error.
        simultaneous: Cover this many answers at once by Bonferroni's inequality, which holds for any dependence
            among estimates and for intervals that are not symmetric (Šidák's does not).
    Raises:
        ConfigError: the level or the number of intervals cannot be; or the noise is not Gaussian, so that
            normal quantiles would cover less than they say.
    """
    refuse_intervals(model, level, kind, simultaneous)
    each = 1.0 - (1.0 - level) / simultaneous
    errors = answers.standard_errors
    known = np.isfinite(errors)
    with np.errstate(invalid="ignore", over="ignore"):
        if kind == "normal":
            reach = ndtri(0.5 + each / 2) * errors
            low, high = answers.estimates - reach, answers.estimates + reach
        else:
            low, high = _unified(answers.estimates, errors, each)
    low = np.where(known, low, 0.0 if kind == "unified" else -np.inf)
    return Intervals(low, np.where(known, high, np.inf), kind, level, simultaneous)


def _unified(estimates: Floats, errors: Floats, level: float) -> tuple[Floats, Floats]:
    exact = errors == 0
    scale = np.where(exact | ~np.isfinite(errors), 1.0, errors)
    low, high = unified_belt(level).ends(estimates / scale)
    low, high = np.where(exact, estimates, low * scale), np.where(exact, estimates, high * scale)
    return rounded_inward(estimates, low, high)


def rounded_inward(
    estimates: Floats, low: Floats, high: Floats, *, least: float = 0.0
) -> tuple[Floats, Floats]:
    """Least and greatest whole numbers inside, from `least` on; where there is none, the one nearest to the estimate.

    The truth is a whole number, so nothing is lost; where none is inside, the interval grows and is not empty.
    """
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
            "intervals need discrete Gaussian noise: the sum of few discrete Laplace draws has heavier tails, and "
            "normal quantiles would cover less than they say. Use the variances, which are exact for any noise.",
            code="interval-noise",
        )
    if kind not in ("unified", "normal"):
        raise ConfigError(f"interval kind {kind!r}; wanted 'unified' or 'normal'.", code="interval-level")
    if not (0.5 <= level < 1 and simultaneous >= 1):
        raise ConfigError(
            f"level {level!r} for {simultaneous!r} intervals; wanted a level of at least 0.5 and below 1, "
            "and 1 or more intervals.",
            code="interval-level",
        )
