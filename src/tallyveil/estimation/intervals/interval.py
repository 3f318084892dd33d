"""Intervals for counts and for ratios of two counts, from unbiased estimates and their variances.

Counts, which cannot be negative, have the unified interval; anything else, such as a difference, the normal one.
docs/intervals.md explains why no other kind is offered. Discrete Laplace noise has estimates and standard errors, and
no intervals. Worked case: an estimate of 3.2 with standard error 2 has at level 0.95 the unified interval 0 to 7.12,
rounded inward to integers 0 to 7, and the normal interval -0.72 to 7.12.

*The unified interval of Feldman and Cousins* (1998, Phys. Rev. D 57, 3873, section IV.B and table X), in units of the
standard error. x is normal with variance 1 and mean m >= 0. Wanted is an interval that is never empty and covers m
with exactly the level, whatever m is. For each m, values x are accepted in decreasing order of their likelihood under
m relative to that under max(x, 0), until their probability is the level. The interval of x contains every m that
accepts x. Let the acceptance of m end at m + d. Its lower end has the same likelihood ratio: m - d if that is not
negative, and m/2 - d^2/(2 m) otherwise. Bisection finds d in a fixed number of steps, which exhausts double precision.
The ends are tabulated over m and interpolated as functions of x. Worked case: at 0.95, x = 5 gives 3.04 to 6.96, and x
= 0 gives 0 to 1.96.

*Ratios (Fieller).* The estimates a and b of two counts are normal with known covariance. If r is the true ratio, a - r
b is normal with mean 0 and variance V(r) = Var a - 2 r Cov(a, b) + r^2 Var b. So r is kept if (a - r b)^2 <= z^2 V(r),
that is A r^2 - 2 B r + C <= 0 with A = b^2 - z^2 Var b, B = a b - z^2 Cov(a, b) and C = a^2 - z^2 Var a, and the true
ratio is kept with exactly the level. If b is further from zero than z standard errors, A is positive, and the kept
ratios are an interval. Otherwise they are everything outside an interval, or every number: no interval of bounded
length can have its level for every truth (Gleser and Hwang 1987). The result is the least and the greatest kept ratio
from 0 to `most` (a share is at most 1), infinite where every large ratio is kept. If none is kept, it is the possible
ratio nearest to a / b, or every ratio if b is not above zero. Worked case: a = 10 and b = 100, independent, with
standard errors 2 and 5, and z = 2: A = 9900, B = 1000, C = 84, and the ends are 0.0596 and 0.1425.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Floats
from tallyveil.errors import ConfigError
from tallyveil.estimation.intervals.answers import Answers
from tallyveil.estimation.intervals.model import TreeModel
from tallyveil.estimation.intervals.rising_curve import RisingCurve, rising_curve
from tallyveil.exact import as_given
from tallyveil.schema.counts import LARGEST_LEVEL
from tallyveil.words.language import phrase

FAR = 9.0
"""Below -9 standard errors, the lower tail of the normal law is too small for double precision."""
KNOTS = 2001
"""Means at which the belt is tabulated. They lie closer where the mean is small, because the ends bend there. Halving
the number would make the interpolation coarser than the 1e-8 that is promised; twice it only takes twice the time, once
for each level."""
_STEPS = 60
"""Halvings of an interval of less than one standard error; the 53 bits of a float are used up before. More steps change
nothing, and half of them would leave errors of up to 1e-9."""


@dataclass(frozen=True, slots=True, eq=False)
class UnifiedBelt:
    """Ends of the interval as functions of the estimate, in standard errors.

    Attributes:
        level: Coverage, between 0 and 1.
        two_sided: Normal quantile with probability (1 - level) / 2 above it.
        one_sided: Normal quantile with probability 1 - level above it.
        low_end: Lower end, for estimates between `one_sided` and twice `two_sided`.
        high_end: Upper end, for estimates between -FAR and 0.
    """

    level: float
    two_sided: float
    one_sided: float
    low_end: RisingCurve
    high_end: RisingCurve

    def ends(self, x: Floats) -> tuple[Floats, Floats]:
        """Lower and upper ends for estimates of any shape. Not-a-number gives not-a-number."""
        low = np.where(x <= self.one_sided, 0.0, x - self.two_sided)
        inner = (x > self.one_sided) & (x < 2 * self.two_sided)
        # Outside this range the ends are known in closed form: 0, or the normal interval.
        low[inner] = self.low_end.at(x[inner])
        high = x + self.two_sided
        near = (x < 0) & (x > -FAR)
        high[near] = self.high_end.at(x[near])
        far = x <= -FAR
        # For such x the lower tail is negligible, so d = one_sided, and m/2 - d^2/(2 m) = x is solved for m.
        d = self.one_sided
        high[far] = d * d / (np.hypot(x[far], d) - x[far])
        return np.where(np.isnan(x), np.nan, np.maximum(low, 0.0)), high


def two_sided_quantile(level: float) -> float:
    """How many standard errors a normal interval of a level reaches to each side of its estimate."""
    from scipy.special import ndtri  # here, since most runs make no intervals

    # Half of what is not covered lies on each side.
    return float(ndtri(0.5 + level / 2))


@lru_cache(maxsize=16)
def unified_belt(level: float) -> UnifiedBelt:
    """Tabulate the interval for a level. The ends are accurate to 1e-8 standard errors.

    Args:
        level: Coverage, between 0.5 and 1.
    """
    from scipy.special import ndtri  # here, since most runs make no intervals

    two_sided, one_sided = two_sided_quantile(level), float(ndtri(level))
    # Squared spacing, and without the mean 0, at which the lower end of acceptance is -infinity.
    means = two_sided * np.linspace(0.0, 1.0, KNOTS)[1:] ** 2
    d = _half_widths(means, level, one_sided, two_sided)
    uppers, lowers = means + d, means / 2 - d * d / (2 * means)
    low_end = rising_curve(np.append(one_sided, uppers), np.append(0.0, means))
    # Further down the formula for far estimates is used; the knots between FAR and twice FAR keep the interpolation
    # good up to its end.
    order = np.flatnonzero(lowers >= -2 * FAR)
    high_end = rising_curve(lowers[order], means[order])
    return UnifiedBelt(level, two_sided, one_sided, low_end, high_end)


def _half_widths(means: Floats, level: float, one_sided: float, two_sided: float) -> Floats:
    """d of each mean, by bisection: the acceptance up to m + d then has the level's probability."""
    from scipy.special import ndtr

    small: Floats = np.full(means.shape, one_sided)
    large: Floats = np.full(means.shape, two_sided)
    for _ in range(_STEPS):
        d = (small + large) / 2
        lower = -means / 2 - d * d / (2 * means)  # lower end minus m
        # The probability rises with d, so that bisection is safe.
        enough = ndtr(d) - ndtr(lower) >= level
        large, small = np.where(enough, d, large), np.where(enough, small, d)
    widths: Floats = (small + large) / 2
    return widths


def fieller_ends(values: Floats, covariance: Floats, quantile: float, most: float) -> tuple[float, float]:
    """The least and the greatest ratio of the first count to the second that the estimates do not contradict.

    Args:
        values: The two estimates.
        covariance: Their covariance; shape (2, 2).
        quantile: z, the quantile of the normal law for the level.
        most: Greatest possible ratio: 1 for a share, infinity for any other ratio.
    Returns:
        Two numbers from 0 to `most`. The interval contains the true ratio at least as often as the level says, if the
        estimates are normal.
    Source: Fieller 1954, section 2.
    """
    a, b = (float(value) for value in values)
    square = quantile * quantile
    # Var a, Cov(a, b) and Var b.
    first, both, second = float(covariance[0, 0]), float(covariance[0, 1]), float(covariance[1, 1])
    quadratic = (b * b - square * second, a * b - square * both, a * a - square * first)
    # B^2 - A C, written so that the fourth powers of the estimates cancel before they are computed.
    spread = max(b * b * first - 2 * a * b * both + a * a * second, 0.0)
    discriminant = square * (spread - square * (first * second - both * both))
    ratios = [root for root in _roots(quadratic, discriminant) if 0 <= root <= most]
    # The kept set is cut off at 0 and `most`: an end belongs to it even where no root is there.
    ratios += [end for end in (0.0, most) if _is_kept(quadratic, end)]
    if ratios:
        return min(ratios), max(ratios)
    # Every ratio contradicts the estimates: the rules of the docstring, which only add ratios.
    if b <= 0:
        return 0.0, most
    nearest = min(max(a / b, 0.0), most)
    return nearest, nearest


def _roots(quadratic: tuple[float, float, float], discriminant: float) -> list[float]:
    """Zeros of A r^2 - 2 B r + C. Neither is computed as a difference of nearly equal numbers."""
    square, half, constant = quadratic
    if discriminant < 0:
        if square <= 0:
            return []
        discriminant = 0.0  # a / b is kept, so only rounding can make it negative
    # The root with the sum of equal signs; the other follows from the product of the roots, C / A.
    larger = half + math.copysign(math.sqrt(discriminant), half)
    roots = [larger / square] if square else []
    return [*roots, constant / larger] if larger else roots


def _is_kept(quadratic: tuple[float, float, float], ratio: float) -> bool:
    square, half, constant = quadratic
    if math.isinf(ratio):
        return square < 0 or (square == 0 and (half > 0 or (half == 0 and constant <= 0)))
    return square * ratio * ratio - 2 * half * ratio + constant <= 0


IntervalKind = Literal["unified", "normal", "none"]

NO_INTERVALS = phrase(
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
    if simultaneous == 1:
        return COVERS_COUNT.format(number=f"{100 * level:g}")
    # Of a number of intervals that somebody asks for; no page of a release says it.
    return sentence_of_tables(level).replace("intervals of a table", f"{simultaneous:,} intervals")


def sentence_of_tables(level: float) -> str:
    """The same, if all intervals of a table together have the level."""
    return COVERS_TABLE.format(number=f"{100 * level:g}")


def covers_of_tables(model: TreeModel, level: float, *, simultaneous: bool) -> str:
    """What the intervals of a release's tables cover, or why the noise allows none."""
    if not model.gaussian:
        return NO_INTERVALS
    return sentence_of_tables(level) if simultaneous else sentence_of(level)


COVERS_COUNT: Final = phrase(
    "In {number} of 100 repetitions of the privacy noise an interval made this way contains the count before noise. It "
    "covers the privacy noise only: neither errors of the count itself, nor those of coverage or response. The "
    "published number need not be in its middle: published numbers are whole and never below zero, which moves many of "
    "them a little. The interval of a sum is not the sum of the intervals."
)
COVERS_TABLE: Final = phrase(
    "In {number} of 100 repetitions of the privacy noise all intervals of a table contain their counts before noise "
    "(Bonferroni). It covers the privacy noise only: neither errors of the count itself, nor those of coverage or "
    "response. The published number need not be in its middle: published numbers are whole and never below zero, which "
    "moves many of them a little. The interval of a sum is not the sum of the intervals."
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
            reach = two_sided_quantile(each) * errors
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
