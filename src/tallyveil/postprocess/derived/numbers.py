"""The numbers of an answer: estimates, standard errors, intervals, and which of them are usable.

Shares. The share is the count divided by the count of the same area without the conditions and the attributes
that the denominator does not keep. A deviation is the count divided by the mean of all areas, less 1. The standard
error is that of the delta method, and the interval is Fieller's (`estimation.intervals.interval`).

Thresholds. A share a / b is above t where a - t b is above 0, which is a weighted sum with a known variance. So the
probability that noise leaves is Phi((a - t b) / s), for who knows nothing else of the share. A statement is safe if
a - t b is z standard errors away from 0, where z is such that all statements of an answer hold together as often as the
level says (Bonferroni, two-sided). A deviation is within t if both a - (1 + t) b is below 0 and a - (1 - t) b above.
Counts and differences are held to a threshold in the same way, with b = 1; rates have their public number as b.

Worked case. A town has 30 foreigners of 200 people, estimated with standard errors 6 and 2 and no correlation. The
share is 0.15, with a standard error of (6^2 + (0.15 x 2)^2)^(1/2) / 200 = 0.030. Half the width of its interval is
0.059, which is 0.39 of the share. So at the limit of 0.65 it can be used. It is above 0.1 with the probability
Phi(10 / 6.0) = 0.95.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import ndtr

from tallyveil.arrays import Floats, Integers
from tallyveil.estimation.intervals.answers import Answers
from tallyveil.estimation.intervals.indices import Index, Quantiles
from tallyveil.estimation.intervals.interval import (
    IntervalKind,
    fieller_ends,
    intervals_if_any,
    rounded_inward,
    two_sided_quantile,
)
from tallyveil.estimation.intervals.model import TreeModel
from tallyveil.files.intervals import DECIMALS
from tallyveil.postprocess.derived.district import NOT_DETERMINED

SHARE_DECIMALS: Final = 9
"""Of shares, rates and indices, which may be far below one: a count of a billion people moves the last of them."""
SMALL: Final = "the count that it is a part of may be zero before noise, so that nothing is known of the part"
"""Why a share or a quantile has no estimate although the counts have."""

VALUES: Final = (
    *("count", "of", "published", "estimate", "standard_error", "lower", "upper"),
    *("usable", "probability", "statement", "lacking", "drawn", "drawn_lower", "drawn_upper"),
)
"""Columns of an answer beside those that say what a row is."""

Columns = dict[str, pl.Series]


def is_finite(number: object) -> bool:
    """Whether somebody's value is a number, and one that a float can hold."""
    try:
        return isinstance(number, Real) and not isinstance(number, bool) and math.isfinite(number)
    except OverflowError:  # a whole number that is larger than any float
        return False


@dataclass(frozen=True, slots=True, eq=False)
class PlainNumbers:
    """The numbers of all rows of an answer; shape (rows,) each.

    Attributes:
        count: The people of each row.
        of: The people of its denominator, or the mean that it is compared with; None where it has none.
        number: What is asked for: the count, a share, a deviation or an index, or the number of a level of an
            attribute. NaN where there is nobody to ask about.
    """

    count: Integers
    of: Integers | Floats | None
    number: Floats


class Quotient(NamedTuple):
    """Numerators a and denominators b; shape (rows,) each.

    Attributes:
        above, below: The estimates of a and b.
        first, second, both: Var a, Var b and Cov(a, b); infinite or NaN where a count is not determined.
        published: The published a and b, and their quotient; None without counts in the folder.
        is_deviation: Whether the number is a / b - 1, which may be above 0 without a limit, and not a share.
    """

    above: Floats
    below: Floats
    first: Floats
    second: Floats
    both: Floats
    published: PlainNumbers | None
    is_deviation: bool


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """How numbers get their intervals.

    Attributes:
        model: The model that the estimates follow.
        level: Coverage of every interval.
        limit: Greatest half width of an interval, as a part of the number, of a number that is usable.
        threshold: What all numbers are held to: shares, deviations, counts or rates; None for none.
    """

    model: TreeModel
    level: float
    limit: float
    threshold: float | None

    @property
    def quantile(self) -> float:
        """The normal quantile of the level, two-sided."""
        return two_sided_quantile(self.level)

    def counts(
        self,
        values: Floats,
        variances: Floats,
        published: PlainNumbers | None,
        scale: Floats | None,
        *,
        is_difference: bool,
    ) -> Columns:
        """The columns of counts, of differences, or of rates per `scale`."""
        known = np.isfinite(variances)
        variances = np.where(known, variances, 0.0)
        # What is known exactly is whole.
        values = np.where(variances == 0, np.rint(values), values)
        answers = Answers(values, variances)
        kind: IntervalKind = "normal" if is_difference else "unified"
        ends = intervals_if_any(self.model, answers, level=self.level, kind=kind)
        low, high = ends.low, ends.high
        if ends.kind == "normal":
            low, high = rounded_inward(values, low, high, least=-np.inf)
        counts = {} if published is None else {"count": pl.Series(published.count)}
        errors, number = answers.standard_errors, None if published is None else published.number
        if scale is not None:
            values, errors, low, high = (part / scale for part in (values, errors, low, high))
            counts |= {} if number is None else {"published": pl.Series(number)}
        lacking = _reasons((NOT_DETERMINED, ~known))
        decimals = DECIMALS if scale is None else SHARE_DECIMALS
        columns = number_columns((values, errors, low, high), number, lacking, self.limit, decimals)
        if scale is None:
            columns |= {name: columns[name].cast(pl.Int64) for name in ("lower", "upper")}
        if self.threshold is None:
            return counts | columns
        exact, unit = np.zeros(len(variances)), np.ones(len(variances)) if scale is None else scale
        linear = _Linear(answers.estimates, unit, variances, exact, exact)
        return counts | columns | self._statements(linear, known, is_deviation=False)

    def quotients(self, of: Quotient) -> Columns:
        """The columns of shares or deviations, and of what is said of the threshold."""
        determined = np.isfinite(of.first) & np.isfinite(of.second)
        known = determined & (of.below > self.quantile * np.sqrt(np.where(determined, of.second, 0.0)))
        # Nothing is computed with what is not known.
        above, first, second, both = (
            np.where(known, part, 0.0) for part in (of.above, of.first, of.second, of.both)
        )
        below = np.where(known, of.below, 1.0)
        ratio = above / below
        # The delta method: the gradient of a / b is (1, -a / b) / b.
        errors = np.sqrt(np.maximum(first - 2 * ratio * both + ratio**2 * second, 0.0)) / below
        low, high = np.full(len(above), np.nan), np.full(len(above), np.nan)
        if self.model.gaussian:
            most = np.inf if of.is_deviation else 1.0
            for row in np.flatnonzero(known).tolist():
                pair = np.array([[first[row], both[row]], [both[row], second[row]]])
                low[row], high[row] = fieller_ends(
                    np.array([above[row], below[row]]), pair, self.quantile, most
                )
        counts, number, shift = {}, None, float(of.is_deviation)
        if of.published is not None:
            number = of.published.number
            counts = {"count": pl.Series(of.published.count), "of": pl.Series(of.published.of)}
            counts["published"] = pl.Series(number).fill_nan(None)
        lacking = _reasons((SMALL, ~known), (NOT_DETERMINED, ~determined))
        numbers = (ratio - shift, errors, low - shift, high - shift)
        columns = number_columns(numbers, number, lacking, self.limit, SHARE_DECIMALS)
        if self.threshold is None:
            return counts | columns
        linear = _Linear(above, below, first, second, both)
        return counts | columns | self._statements(linear, known, is_deviation=of.is_deviation)

    def _statements(self, linear: "_Linear", known: NDArray[np.bool_], *, is_deviation: bool) -> Columns:
        assert self.threshold is not None
        # Bonferroni: of the statements of all rows, on both sides.
        sure = two_sided_quantile(1 - (1 - self.level) / max(int(known.sum()), 1))
        if is_deviation:
            over, under = linear.scores(1 + self.threshold), -linear.scores(1 - self.threshold)
            probability = np.maximum(1 - ndtr(over) - ndtr(under), 0.0)
            yes, no = (over < -sure) & (under < -sure), (over > sure) | (under > sure)
            words = ("within", "outside")
        else:
            score = linear.scores(self.threshold)
            probability, yes, no, words = ndtr(score), score > sure, score < -sure, ("above", "not above")
        said = np.where(yes, words[0], np.where(no, words[1], "open"))
        there = known & self.model.gaussian
        return {
            "probability": pl.Series(np.where(there, probability, np.nan)).fill_nan(None).round(6),
            "statement": pl.Series(said, dtype=pl.String).set(pl.Series(~there), None),
        }

    def quantiles(
        self,
        levels: Quantiles,
        labels: Sequence[str],
        spread: tuple[Floats, Floats, float],
        known: tuple[NDArray[np.bool_], NDArray[np.bool_]],
        published: PlainNumbers | None,
    ) -> Columns:
        """The columns of quantiles, which are levels of an attribute.

        Args:
            levels: The levels.
            labels: Labels of all levels.
            spread: Of each row the number of people, and the standard error of the number of people up to the quantile
                less that part of all; and the part.
            known: Whether each row is determined, and whether it has anybody before noise.
            published: The published number of people, and the quantile of the published counts; None without counts in
                the folder.
        """
        (people, errors, part), (determined, there) = spread, known
        # The rank of the quantile is known as well as the people below it, or above it, whichever are fewer.
        usable = self.quantile * errors <= self.limit * min(part, 1 - part) * people
        has_ends = there & self.model.gaussian
        counts: Columns = {}
        if published is not None:
            counts = {"count": pl.Series(published.count), "published": labelled(published.number, labels)}
        return counts | {
            "estimate": labelled(np.where(there, levels.estimate, np.nan), labels),
            "lower": labelled(np.where(has_ends, levels.low, np.nan), labels),
            "upper": labelled(np.where(has_ends, levels.high, np.nan), labels),
            "usable": pl.Series(usable & there).set(pl.Series(there & ~has_ends), None),
            "lacking": _reasons((SMALL, ~there), (NOT_DETERMINED, ~determined)),
        }

    def indices(self, indices: Sequence[Index], most: float, published: PlainNumbers | None) -> Columns:
        """The columns of indices between 0 and `most`."""
        values = np.array([index.value for index in indices])
        errors = np.array([index.standard_error for index in indices])
        reach = self.quantile * errors if self.model.gaussian else np.full(len(indices), np.nan)
        low, high = np.clip(values - reach, 0.0, most), np.clip(values + reach, 0.0, most)
        number, counts = None, {}
        if published is not None:
            number = published.number
            counts = {"count": pl.Series(published.count), "published": pl.Series(number).fill_nan(None)}
        lacking = pl.Series([index.lacking for index in indices], dtype=pl.String)
        numbers = (values, errors, low, high)
        return counts | number_columns(numbers, number, lacking, self.limit, SHARE_DECIMALS)


def number_columns(
    numbers: tuple[Floats, Floats, Floats, Floats],
    published: Floats | None,
    lacking: pl.Series,
    limit: float,
    decimals: int,
) -> Columns:
    """The columns from `estimate` to `lacking`.

    Args:
        numbers: Estimates, standard errors, lower and upper ends; the ends are NaN where there is no interval.
        published: The published numbers; None without counts in the folder.
        lacking: Why a row has no estimate; null where it has one.
        limit: Greatest half width of an interval, as a part of the number, of a number that is usable.
        decimals: Decimals that are kept.
    """
    known = lacking.is_null().to_numpy()
    values, errors, low, high = (np.where(known, part, np.nan) for part in numbers)
    shown = values if published is None else published
    with np.errstate(invalid="ignore"):
        usable = (high - low) / 2 <= limit * np.abs(shown)
    has_ends = np.isfinite(low)
    columns = {
        name: pl.Series(part).fill_nan(None).round(decimals)
        for name, part in (
            ("estimate", values),
            ("standard_error", errors),
            ("lower", low),
            ("upper", high),
        )
    }
    # Where nothing is known, no number is usable. Where the noise has no intervals, nothing is said.
    return {
        **columns,
        "usable": pl.Series(usable).set(pl.Series(known & ~has_ends), None),
        "lacking": lacking,
    }


class _Linear(NamedTuple):
    """Pairs of counts a and b, with Var a, Var b and Cov(a, b)."""

    above: Floats
    below: Floats
    first: Floats
    second: Floats
    both: Floats

    def scores(self, ratio: float) -> Floats:
        """a - ratio b in standard errors. Where it is known exactly, infinite, and below 0 if it is 0."""
        difference = self.above - ratio * self.below
        variances = np.maximum(self.first - 2 * ratio * self.both + ratio**2 * self.second, 0.0)
        # Below this, the variance is what cancellation leaves of zero, and so is the difference.
        exact = variances < ROUNDING * (self.first + ratio**2 * self.second) + ROUNDING
        errors = np.sqrt(np.where(exact, 1.0, variances))
        return np.where(exact, np.where(difference > EQUAL, np.inf, -np.inf), difference / errors)


ROUNDING: Final = 1e-12
"""A variance below this part of its terms is a rounding error of zero."""
EQUAL: Final = 1e-6
"""Counts that are nearer than this are equal."""


def _reasons(*reasons: tuple[str, NDArray[np.bool_]]) -> pl.Series:
    """For each row the last reason that holds; null where none does."""
    out = np.full(len(reasons[0][1]), None, dtype=object)
    for reason, these in reasons:
        out[these] = reason
    return pl.Series(out.tolist(), dtype=pl.String)


def labelled(levels: Floats, labels: Sequence[str]) -> pl.Series:
    """Labels of levels by their numbers; null for NaN."""
    known = np.isfinite(levels)
    named = pl.Series(labels, dtype=pl.String).gather(np.where(known, levels, 0).astype(np.int64))
    return named.set(pl.Series(~known), None)
