"""Sums, differences, shares and ratios of chosen counts of a release, with exact covariances.

Of a release, the measurements are not needed. Covariances follow from the plan, the geography and the public bounds,
by one pass up the tree for all counts, and estimates are those of `intervals/`. Measurements alone have none, and a
release with a model for each table (`StatedPlan.tables_apart`) has no covariances of counts of different tables. There,
estimates are made of the noisy answers: of all cells, or of the classes of levels that the counts do not tell apart.

Problem. The estimates x of some counts have the covariance matrix C. Wanted are the standard error and an
interval of a number that follows from the counts.

Sums and differences. The number is w'x, with a weight for each count. Its variance is w'C w, exactly.

Shares and ratios. The number is r = u'x / v'x. The delta method gives the variance g'C g with g = (u - r v) /
v'x. The interval does not use it (`estimation.intervals.interval`).

Differences of shares. The number is r - s. Its variance by the delta method is (g - h)'C (g - h), with the g
and h of the two shares.

Worked case. Two counts have variance 4 each and covariance 3, because both are part of one total that is
known well. Their sum has variance 4 + 4 + 2 x 3 = 14, and their difference 4 + 4 - 2 x 3 = 2. Independence
would give 8 for both.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Floats, Integers
from tallyveil.errors import ConfigError
from tallyveil.estimation.intervals.algebra import coefficients
from tallyveil.estimation.intervals.answers import Answers, region_answers, region_variances
from tallyveil.estimation.intervals.covariance import tree_covariance
from tallyveil.estimation.intervals.interval import (
    IntervalKind,
    fieller_ends,
    intervals_if_any,
    refuse_intervals,
    refuse_level,
    rounded_inward,
    two_sided_quantile,
)
from tallyveil.estimation.intervals.joint import Asked, joint_covariance
from tallyveil.estimation.intervals.model import TreeModel
from tallyveil.estimation.intervals.questions import sums_of
from tallyveil.estimation.intervals.regions import region_of
from tallyveil.exact import as_given, type_of
from tallyveil.files.manifest_files import MAIN_PRODUCT
from tallyveil.files.marks import marks_of, short_mark
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.spine import Spine
from tallyveil.postprocess.derived.asking import MOST_ANSWERS, classes_of, factor_of_classes, masks_of
from tallyveil.postprocess.derived.district import (
    NOISY,
    NOT_DETERMINED,
    area_family,
    bounds_choice,
    published_counts,
    why_no_estimates,
    written_estimates,
)
from tallyveil.postprocess.intervals.fits import IntervalFit, fits_of
from tallyveil.postprocess.intervals.model import (
    FinishedRelease,
    open_release,
    refuse_partial_measurements,
    release_model,
)
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema
from tallyveil.storage.system import usable_cores

ROUNDING = 1e-12
"""Sums of weights differ by this part of the sum when they are equal."""


@dataclass(frozen=True, slots=True, eq=False)
class CountedCells:
    """What chosen counts are made of.

    Attributes:
        places: Whether the area of each count has the finest geounits of each class; shape (classes, counts). Finest
            geounits that the same areas have are one class.
        cells: Whether each cell, or each class of cells, is in each count; shape (counts, cells).
    """

    places: NDArray[np.bool_]
    cells: NDArray[np.bool_]

    def is_part(self, part: Floats, whole: Floats) -> bool:
        """Whether one sum of counts counts nobody more often than another; weights of shape (counts,)."""
        used = (part != 0) | (whole != 0)
        places, cells = np.unique(self.places[:, used], axis=0), self.cells[used]
        rest = np.where(places, (whole - part)[used], 0.0) @ cells
        return bool((rest >= -ROUNDING * np.abs(whole).sum()).all())


IntervalMethod = Literal["unified", "normal", "fieller", "delta"]


@dataclass(frozen=True, slots=True, eq=False)
class Derived:
    """A number that follows from chosen counts.

    Attributes:
        published: The same number of the published counts; None where they are not in the folder or divide by zero.
        estimate: The number of the unbiased estimates; None where one is lacking or the denominator's is zero. A share
            or a ratio of unbiased estimates is itself slightly biased.
        standard_error: Exact for sums and differences of counts. By the delta method for shares, ratios and differences
            of these. None where a count is not determined.
        lower, upper: Ends of the interval; None without an estimate, or if the noise allows no interval. The upper end
            of a ratio is infinite where the denominator may be zero.
        level: Coverage of the interval.
        method: How the interval was made (docs/derived-counts.md).
        lacking: Why there is no estimate; None if there is one.
    """

    published: float | None
    estimate: float | None
    standard_error: float | None
    lower: float | None
    upper: float | None
    level: float
    method: IntervalMethod
    lacking: str | None
    _slope: Floats = field(repr=False)
    _of: object = field(repr=False)
    _divisors: tuple[Floats, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Equality:
    """A test that two numbers are equal before noise.

    Attributes:
        difference: The first number minus the second.
        statistic: Estimate of the difference in standard errors; infinite if it is known exactly and is not 0.
        p_value: Probability that noise alone makes the statistic at least as large, in either direction.
        different: Whether equality is rejected: the p-value is below 1 - level.
    """

    difference: Derived
    statistic: float
    p_value: float
    different: bool


Weights = str | Sequence[str] | Mapping[str, float]
"""A name of a count; several names, whose counts are added up; or a weight for each name."""

Ends = tuple[float | None, float | None]

EXACT = 1e-6
"""A standard error below this part of the sum of its terms' standard errors is a rounding error of zero."""


@dataclass(frozen=True, slots=True, eq=False)
class Quantities:
    """Chosen counts together; made by `Release.quantities`.

    Wherever a method takes a count, it takes a name, several names whose counts are added up, or a weight for each.

    Attributes:
        names: Names of the counts.
        published: Published counts; None if they are not in the folder.
        estimates: Unbiased estimates; NaN where there is none. Shape (counts,).
        covariance: Exact covariance matrix of the estimates under the privacy noise, in squared counts; NaN where the
            measurements do not determine a count. Shape (counts, counts).
        level: Coverage of every interval.
        lacking: Why a count has no estimate; None for each that has one.
        warnings: What must be said wherever the release is shown.
    """

    names: tuple[str, ...]
    published: Integers | None
    estimates: Floats
    covariance: Floats
    level: float
    lacking: tuple[str | None, ...]
    _model: TreeModel = field(repr=False)
    _counted: CountedCells = field(repr=False)
    warnings: tuple[str, ...] = ()

    def sum(self, what: Weights) -> Derived:
        """A sum of counts, or any weighted sum.

        If all weights are whole and not negative, the sum is a count, and the interval is that of a count.

        Raises:
            ConfigError: a name is unknown, or a weight is not finite.
        """
        weights = self._weights(what)
        whole = bool((weights == np.rint(weights)).all())
        # Only a sum with whole weights that are not negative is a count, which is never below zero.
        return self._linear(weights, whole=whole, count=whole and bool((weights >= 0).all()))

    def difference(self, first: "Weights | Derived", second: "Weights | Derived") -> Derived:
        """The first number minus the second: counts, or shares and ratios that this object made.

        Raises:
            ConfigError: as for `sum`; or a number was made from other counts.
        """
        minuend, subtrahend = self._derived(first), self._derived(second)
        slope = minuend._slope - subtrahend._slope
        # Differences of sums are sums again, with an exact variance; all others need the delta method.
        if {minuend.method, subtrahend.method} <= {"unified", "normal"}:
            return self._linear(slope, whole=bool((slope == np.rint(slope)).all()), count=False)
        published = (
            None
            if minuend.published is None or subtrahend.published is None
            else minuend.published - subtrahend.published
        )
        value: float | None = None
        ends: Ends = (None, None)
        if minuend.estimate is not None and subtrahend.estimate is not None:
            value = minuend.estimate - subtrahend.estimate
            ends = self._ends(value, self._variance(slope) or 0.0, whole=False, count=False)
        lacking = minuend.lacking or subtrahend.lacking
        divisors = (*minuend._divisors, *subtrahend._divisors)
        return self._by_delta(slope, published, (value, lacking), ends, "delta", divisors)

    def share(self, part: Weights, whole: Weights) -> Derived:
        """The share of a count in another count that contains it.

        Raises:
            ConfigError: as for `ratio`; or the first count is not a part of the second.
        """
        above, below = self._weights(part), self._weights(whole)
        if not self._counted.is_part(above, below):
            raise ConfigError(
                f"{as_given(part)} is not a part of {as_given(whole)}: it counts somebody whom the whole does not "
                "count, or counts somebody more often. Ask for a ratio.",
                code="bad-argument",
            )
        return self._quotient(above, below, most=1.0)

    def ratio(self, numerator: Weights, denominator: Weights) -> Derived:
        """The ratio of two counts.

        Raises:
            ConfigError: as for `sum`; or a weight is negative, so that the ratio is not one of counts.
        """
        return self._quotient(self._weights(numerator), self._weights(denominator), most=math.inf)

    def probability_greater(self, first: "Weights | Derived", second: "Weights | Derived") -> float:
        """The probability that the first number is greater than the second, given the noise and no other knowledge.

        It is 1 / 2 where the estimates are equal, and 0 or 1 where the difference is known exactly: 0 where it is 0.
        Errors are taken for normal.

        Raises:
            ConfigError: as for `test_equal`.
        """
        difference, score = self._difference(first, second)
        if difference.standard_error == 0:
            return float(score > 0)
        return 0.5 * math.erfc(-score / math.sqrt(2))

    def test_equal(self, first: "Weights | Derived", second: "Weights | Derived") -> Equality:
        """Test that two counts, shares or ratios are equal before noise, by a normal law.

        Raises:
            ConfigError: as for `difference`; or there is no estimate, or the noise is not Gaussian.
        """
        difference, statistic = self._difference(first, second)
        # Two-sided: erfc(|z| / sqrt 2) is the probability of a normal deviate beyond z in either direction.
        p_value = math.erfc(abs(statistic) / math.sqrt(2))
        return Equality(difference, statistic, p_value, p_value < 1 - self.level)

    def _difference(self, first: "Weights | Derived", second: "Weights | Derived") -> tuple[Derived, float]:
        """The first number minus the second, and the same in standard errors."""
        refuse_intervals(self._model, self.level)
        difference = self.difference(first, second)
        if difference.estimate is None or difference.standard_error is None:
            raise ConfigError(
                f"the two are not compared, because an estimate is lacking: {difference.lacking}.",
                code="bad-argument",
            )
        quantile = two_sided_quantile(self.level)
        for below in difference._divisors:
            divisor, error = self._value(below) or 0.0, math.sqrt(self._variance(below) or 0.0)
            if divisor <= quantile * error:
                raise ConfigError(
                    f"the two are not compared, because a denominator ({divisor:,.1f}) is not above {quantile:.2f} of "
                    f"its standard errors ({error:,.1f}), so that the ratio has no normal law. Choose larger counts, "
                    "or compare the intervals.",
                    code="bad-argument",
                )
        if difference.standard_error == 0:
            # Known exactly and not zero: no noise could explain it.
            return difference, math.copysign(math.inf, difference.estimate) if difference.estimate else 0.0
        return difference, difference.estimate / difference.standard_error

    def to_frame(self) -> pl.DataFrame:
        """One row for each count: `name`, `published`, `estimate`, `standard_error`, `lower`, `upper`, `lacking`."""
        number, whole = pl.Float64(), pl.Int64()
        columns: dict[str, pl.DataType] = {"published": whole, "estimate": number, "standard_error": number}
        columns |= {"lower": whole, "upper": whole, "lacking": pl.String()}
        rows = [self.sum(name) for name in self.names]
        return pl.DataFrame(
            {"name": self.names}
            | {
                name: pl.Series([getattr(row, name) for row in rows], dtype=kind, strict=False)
                for name, kind in columns.items()
            }
        )

    def __repr__(self) -> str:
        return f"<Quantities: {', '.join(self.names)}{short_mark(self.warnings)}>"

    def _repr_html_(self) -> str:
        return f"<strong>Quantities{short_mark(self.warnings)}</strong>{self.to_frame()._repr_html_()}"

    def _weights(self, what: Weights) -> Floats:
        given = [what] if isinstance(what, str) else what
        if not isinstance(given, Mapping | Sequence) or not given:
            raise ConfigError(
                f"{as_given(what)} names no count. Give a name, a list of names, or a weight for each name.",
                code="bad-argument",
            )
        if strange := [name for name in given if not isinstance(name, str)]:
            raise ConfigError(f"names of counts are text, got {type_of(strange[0])}.", code="bad-argument")
        pairs = given if isinstance(given, Mapping) else dict.fromkeys(given, 1.0)
        sound = all(isinstance(weight, Real) and math.isfinite(weight) for weight in pairs.values())
        if not sound or len(pairs) < len(given):
            raise ConfigError(
                f"{as_given(what)} has a weight that is no finite number, or a name twice. Give each name one weight.",
                code="bad-argument",
            )
        unknown = [name for name in pairs if name not in self.names]
        if unknown:
            raise ConfigError(
                f"{as_given(unknown[0])} is no name of these counts, which are {', '.join(self.names)}.",
                code="bad-argument",
            )
        return np.array([float(pairs.get(name, 0.0)) for name in self.names])

    def _lacking(self, weights: Floats) -> str | None:
        """Why a count with a weight has no estimate; None if each has one."""
        return next((self.lacking[place] for place in np.flatnonzero(weights) if self.lacking[place]), None)

    def _variance(self, slope: Floats) -> float | None:
        """Variance of a weighted sum; None if a count with a weight is not determined."""
        # Counts with weight 0 may have no variance (NaN), which 0 * NaN would carry into the sum.
        used = np.flatnonzero(slope)
        covariance, weights = self.covariance[np.ix_(used, used)], slope[used]
        if not np.isfinite(covariance).all():
            return None
        variance = float(weights @ covariance @ weights)
        reach = float(np.abs(weights) @ np.sqrt(np.maximum(np.diag(covariance), 0.0)))
        # Below this, the variance is what cancellation leaves of zero.
        return variance if variance > (EXACT * reach) ** 2 else 0.0

    def _value(self, weights: Floats) -> float | None:
        used = np.flatnonzero(weights)
        value = float(weights[used] @ self.estimates[used])
        return value if math.isfinite(value) else None

    def _published(self, weights: Floats) -> float | None:
        return None if self.published is None else float(weights @ self.published)

    def _linear(self, weights: Floats, *, whole: bool, count: bool) -> Derived:
        variance, value = self._variance(weights), self._value(weights)
        ends: Ends = (None, None)
        if variance is None:
            value = None
        elif value is not None:
            value = float(round(value)) if whole and variance == 0 else value  # it is known exactly
            ends = self._ends(value, variance, whole=whole, count=count)
        return Derived(
            published=self._published(weights),
            estimate=value,
            standard_error=None if variance is None else math.sqrt(variance),
            lower=ends[0],
            upper=ends[1],
            level=self.level,
            method="unified" if count else "normal",
            lacking=self._lacking(weights),
            _slope=weights,
            _of=self,
        )

    def _ends(self, value: float, variance: float, *, whole: bool, count: bool) -> Ends:
        """Ends of the interval of a weighted sum; None if the noise allows none."""
        answers = Answers(np.array([value]), np.array([variance]))
        kind: IntervalKind = "unified" if count else "normal"
        interval = intervals_if_any(self._model, answers, level=self.level, kind=kind)
        low, high = interval.low, interval.high
        if not np.isfinite(low[0]):
            return None, None
        if whole and not count:
            low, high = rounded_inward(answers.estimates, low, high, least=-np.inf)
        return float(low[0]), float(high[0])

    def _quotient(self, above: Floats, below: Floats, *, most: float) -> Derived:
        if (above < 0).any() or (below < 0).any():
            raise ConfigError(
                "a share or ratio of counts has a negative weight. Give weights of at least 0.",
                code="bad-argument",
            )
        told = [self._published(weights) for weights in (above, below)]
        published = None if told[0] is None or not told[1] else told[0] / told[1]
        lacking, divisor = self._lacking(above + below), self._value(below)
        if lacking is None and not divisor:
            lacking = "the estimate of the denominator is zero"
        ratio, slope = self._value(above), above
        ends: Ends = (None, None)
        if lacking is None and ratio is not None and divisor is not None:
            ratio /= divisor
            # The gradient of u'x / v'x at the estimates, g = (u - r v) / v'x.
            slope = (above - ratio * below) / divisor
            if self._model.gaussian:
                ends = self._quotient_ends(above, below, most)
        return self._by_delta(slope, published, (ratio, lacking), ends, "fieller", (below,))

    def _by_delta(
        self,
        slope: Floats,
        published: float | None,
        estimate: tuple[float | None, str | None],
        ends: Ends,
        method: IntervalMethod,
        divisors: tuple[Floats, ...],
    ) -> Derived:
        """A number with its standard error by the delta method; without either, if something is lacking.

        Args:
            slope, published, ends, method, divisors: As in `Derived`.
            estimate: The estimate, and what it lacks.
        """
        value, lacking = estimate
        return Derived(
            published=published,
            estimate=value if lacking is None else None,
            standard_error=math.sqrt(self._variance(slope) or 0.0) if lacking is None else None,
            lower=ends[0],
            upper=ends[1],
            level=self.level,
            method=method,
            lacking=lacking,
            _slope=slope,
            _of=self,
            _divisors=divisors,
        )

    def _quotient_ends(self, above: Floats, below: Floats, most: float) -> tuple[float, float]:
        used = np.flatnonzero(above + below)
        pair = np.array([above[used], below[used]])
        covariance = pair @ self.covariance[np.ix_(used, used)] @ pair.T
        quantile = two_sided_quantile(self.level)
        return fieller_ends(pair @ self.estimates[used], covariance, quantile, most)

    def _derived(self, given: Weights | Derived) -> Derived:
        if not isinstance(given, Derived):
            return self.sum(given)
        if given._of is not self:
            raise ConfigError(
                "a share or ratio was made from other counts, whose covariances with these are not known. Choose all "
                "counts in one call of `quantities`.",
                code="bad-argument",
            )
        return given


@dataclass(frozen=True, slots=True, eq=False)
class ChosenCount:
    """One count that is asked for.

    Attributes:
        name: Its name.
        area: Finest geocodes of its area.
        query: The query.
        answer: Number of the answer.
    """

    name: str
    area: pl.Series
    query: QueryGroup
    answer: int


def quantities_of(
    root: Path,
    chosen: Sequence[ChosenCount],
    *,
    level: float = 0.95,
    with_bounds: bool = True,
    workers: int | None = None,
) -> Quantities:
    """Chosen counts of a release together, with the exact covariance matrix of their estimates.

    Args:
        root: Folder of a release or of measurements.
        chosen: The counts, one or more.
        level: Coverage of every interval that is made from them.
        with_bounds: Whether zeros of public bounds are used. If `intervals/` exists, the choice made there is used.
        workers: Number of threads; None for one per core.
    Raises:
        StoreError: the folder holds no finished release, or lacks its bounds or noisy answers that are needed.
        GeographyError: a geocode is unknown or given twice.
        SchemaError: covariances would not fit into memory.
        ConfigError: the level is out of range, or the counts tell too many cells apart.
    """
    refuse_level(level)
    release, threads = open_release(root, kinds=MAIN_PRODUCT), workers or usable_cores()
    apart = release.stated.tables_apart
    anew = apart or release.is_alone
    if anew:
        refuse_partial_measurements(release)
    interval_manifest, with_bounds = bounds_choice(
        release, with_bounds=with_bounds, besides=NOISY if anew else ()
    )
    family, area = _areas(release.spine, [count.area for count in chosen])
    if apart:
        base, cells = _classes(release.schema, chosen)
        (fit,) = fits_of(release, [base], with_bounds=with_bounds)
        basis = fit.questions.rows()
    else:
        base, basis = release.schema.query("detailed"), None
        cells = np.array([_cells(count.query, count.answer) for count in chosen])
        fit = IntervalFit((), release_model(release, with_bounds=with_bounds))
    model = fit.model
    regions = [region_of(release.spine, family.members_of(number)) for number in range(family.n_entities)]
    distinct, row = np.unique(cells, axis=0, return_inverse=True)
    rows = coefficients(model.algebra, distinct) if basis is None else distinct @ basis
    asked = Asked(regions, area, rows, row.reshape(-1))
    tree, questions = tree_covariance(model, workers=threads), sums_of(model.algebra, rows)
    if anew:
        estimate = fit.estimate(release, tree, workers=threads)
        answers = region_answers(estimate, regions, questions, workers=threads)
        variances, estimates = answers.variances, answers.estimates[asked.region, asked.row]
        lacking: list[str | None] = [None] * len(chosen)
    else:
        variances = region_variances(tree, regions, questions, workers=threads)
        estimates, lacking = _estimates(
            release, family, area, chosen, has_intervals=interval_manifest is not None
        )
    covariance = joint_covariance(tree, asked, variances[asked.region, asked.row]).matrix()
    # What is known exactly is whole, and its terms were rounded.
    estimates = np.where(np.diag(covariance) == 0, np.rint(estimates), estimates)
    there = np.isfinite(estimates) & np.isfinite(np.diag(covariance))
    reasons = [
        None if given else reason or NOT_DETERMINED for given, reason in zip(there, lacking, strict=True)
    ]
    # Read-only: quantities that were derived share these arrays.
    covariance.flags.writeable = estimates.flags.writeable = False
    return Quantities(
        tuple(count.name for count in chosen),
        _published(release, family, area, chosen),
        estimates,
        covariance,
        level,
        tuple(reasons),
        model,
        _counted(release.schema, base, family, area, cells),
        marks_of(release.manifest).warnings,
    )


def _areas(spine: Spine, given: Sequence[pl.Series]) -> tuple[EntityFamily, Integers]:
    """The different areas as a family, and the area of each count. An area may be given several times."""
    # Equal sets given in another order are one area.
    codes = {number: tuple(area.sort()) for number, area in {id(area): area for area in given}.items()}
    number = {area_codes: place for place, area_codes in enumerate(dict.fromkeys(codes.values()))}
    digits = len(str(len(number)))
    named = {
        f"area {place + 1:0{digits}}": pl.Series(area_codes, dtype=pl.String)
        for area_codes, place in number.items()
    }
    return area_family(spine, named), np.array([number[codes[id(area)]] for area in given], np.int64)


def _cells(query: QueryGroup, answer: int) -> Floats:
    """Weight of each cell in an answer: 1 or 0."""
    cells, answers = query.counted_in(np.arange(query.n_cells))
    weights = np.zeros(query.n_cells)
    weights[cells[answers == answer]] = 1.0
    return weights


def _classes(schema: Schema, chosen: Sequence[ChosenCount]) -> tuple[QueryGroup, Floats]:
    """The query by classes of levels that no count tells apart, and the weight of each of its answers in each count."""
    groups = [np.unravel_index(count.answer, count.query.shape) for count in chosen]
    factors, weights = [], np.ones((len(chosen), 1))
    for axis, attribute in enumerate(schema.attributes):
        counted = np.array(
            [masks_of(count.query.factors[axis])[at[axis]] for count, at in zip(chosen, groups, strict=True)]
        )
        codes, first = classes_of(counted)
        factors.append(factor_of_classes(attribute, codes, first))
        weights = np.einsum("na,nb->nab", weights, counted[:, first]).reshape(len(chosen), -1)
        if weights.shape[1] > MOST_ANSWERS:
            raise ConfigError(
                f"the counts tell {weights.shape[1]:,} or more sets of cells apart; at most {MOST_ANSWERS:,} are "
                "estimated together. Choose fewer counts, or counts of coarser recodes.",
                code="bad-argument",
            )
    return QueryGroup("the counts", tuple(factors)), weights


def _estimates(
    release: FinishedRelease,
    family: EntityFamily,
    area: Integers,
    chosen: Sequence[ChosenCount],
    *,
    has_intervals: bool,
) -> tuple[Floats, list[str | None]]:
    """Estimate of each count, NaN where there is none; and why its query has none."""
    estimates = np.full(len(chosen), np.nan)
    reasons: list[str | None] = [None] * len(chosen)
    for query in {count.query.name: count.query for count in chosen}.values():
        rows = [place for place, count in enumerate(chosen) if count.query.name == query.name]
        answers = [chosen[place].answer for place in rows]
        written = written_estimates(release, family, query, answers) if has_intervals else None
        if written is not None:
            estimates[rows] = written[area[rows], answers]
        reason = why_no_estimates(has_intervals=has_intervals, written=written is not None, query=query.name)
        for place in rows:
            reasons[place] = reason
    return estimates, reasons


def _published(
    release: FinishedRelease, family: EntityFamily, area: Integers, chosen: Sequence[ChosenCount]
) -> Integers | None:
    groups = list({count.query.name: count.query for count in chosen}.values())
    counts = published_counts(release, family, groups)
    if counts is None:
        return None
    begins = np.cumsum([0, *(group.size for group in groups)])
    begin = {group.name: int(start) for group, start in zip(groups, begins, strict=False)}
    return counts[area, [begin[count.query.name] + count.answer for count in chosen]]


def _counted(
    schema: Schema, base: QueryGroup, family: EntityFamily, area: Integers, cells: Floats
) -> CountedCells:
    inside = np.zeros((family.n_entities, family.n_finest), np.bool_)
    for number in range(family.n_entities):
        inside[number, family.members_of(number)] = True
    # Finest geounits that the same areas have need no row of their own: few classes instead of millions of blocks.
    _, first = np.unique(np.packbits(inside, axis=0), axis=1, return_index=True)
    possible = np.zeros(base.size, np.bool_)
    possible[schema.possible_answers(base)] = True
    return CountedCells(inside[:, first].T[:, area], (cells > 0) & possible)
