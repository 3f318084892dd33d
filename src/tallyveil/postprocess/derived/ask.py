"""Answers to questions in words, from the published files of a finished release.

Problem. A question (`tallyveil.postprocess.derived.question`) asks for the counts of some areas by attributes,
recodes and conditions, or for what follows from them. Wanted for each is the published number, the unbiased estimate
from all measurements, its standard error and an interval, and whether the interval is narrow enough for the number to
be used.

Counts. Every count is a sum of the answers of one query (`tallyveil.postprocess.derived.asking`), which is estimated as
`tallyveil intervals` estimates a table.

Shares. The count and the count that it is a part of are asked together with their sum, whose variance gives their
covariance. Deviations are from the mean of all areas, which is a product of the covariances with few vectors.

Measures. A quantile asks for the sums D of each row (`estimation.intervals.indices`) in the place of the counts. An
index has the joint covariances of the counts of its row.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Real
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Floats
from tallyveil.estimation.intervals.answers import Answers, region_answers
from tallyveil.estimation.intervals.covariance import TreeCovariance, tree_covariance
from tallyveil.estimation.intervals.fit import TreeEstimate, fit_tree
from tallyveil.estimation.intervals.indices import Index, index_of, plain_index, quantile_sums, quantiles_of
from tallyveil.estimation.intervals.interval import NO_INTERVALS, refuse_level, sentence_of
from tallyveil.estimation.intervals.joint import Asked
from tallyveil.estimation.intervals.model import TreeModel
from tallyveil.estimation.intervals.questions import sums_of
from tallyveil.estimation.intervals.regions import Region
from tallyveil.exact import as_given
from tallyveil.files.manifest import ReleaseKind
from tallyveil.files.manifest_files import require_unchanged_files
from tallyveil.files.marks import marks_of
from tallyveil.measurements.store import FOLDER
from tallyveil.postprocess.constraint_files import INVARIANTS
from tallyveil.postprocess.derived.answer import Answer, AnswerKind, JointCounts
from tallyveil.postprocess.derived.asking import MOST_ANSWERS, Asking, asking, family_of, region_of_all
from tallyveil.postprocess.derived.district import NOT_DETERMINED, bounds_choice
from tallyveil.postprocess.derived.numbers import Columns, Numbers, Quotient
from tallyveil.postprocess.derived.question import LIMIT, Question, refused
from tallyveil.postprocess.intervals.fits import fits_of
from tallyveil.postprocess.intervals.model import open_release, refuse_partial_measurements
from tallyveil.printable import short_name
from tallyveil.storage.system import usable_cores

MOST_INDICES: Final = 4096
"""Indices of an answer, of which each is a pass up the tree: some 10 ms. Twice as many take twice the time."""
MOST_LIMIT: Final = 1000.0
"""An interval a thousand times as wide as the number says nothing of it, so that a greater limit is meant by nobody."""


@dataclass(frozen=True, slots=True)
class Terms:
    """How a question is answered.

    Attributes:
        level: Coverage of every interval.
        limit: Greatest half width of an interval, as a part of the number, of a number that is usable.
        threshold: A share or a deviation to which every row is held; None for none.
        workers: Number of threads; None for one per core.
    """

    level: float = 0.95
    limit: float = LIMIT
    threshold: float | None = None
    workers: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Fitted:
    """The estimates from which a question is answered.

    Attributes:
        model: The model of the measurements.
        rows: Coefficients of the answers of the query that is estimated; shape (answers, n_cells).
        tree: Its covariances.
        estimate: Its estimates.
        workers: Number of threads.
    """

    model: TreeModel
    rows: Floats
    tree: TreeCovariance
    estimate: TreeEstimate
    workers: int

    @classmethod
    def of(cls, asked: Asking, workers: int) -> "_Fitted":
        """Fit what the question needs; raises StoreError and SchemaError as `fits_of` does."""
        release = asked.release
        _, with_bounds = bounds_choice(release, with_bounds=True)
        require_unchanged_files(release.root, release.manifest, {FOLDER, INVARIANTS})
        (fit,) = fits_of(release, [asked.base], with_bounds=with_bounds)
        tree = tree_covariance(fit.model, workers=workers)
        estimate = fit_tree(tree, fit.rows(release), fit.invariants(release), workers=workers)
        return cls(fit.model, fit.questions.rows(), tree, estimate, workers)

    def answers(self, regions: Sequence[Region], weights: NDArray[Any]) -> Answers:
        """Sums of the answers of `base` with weights (sums, answers); arrays of shape (regions, sums)."""
        questions = sums_of(self.model.algebra, weights @ self.rows)
        return region_answers(self.estimate, regions, questions, workers=self.workers)

    def joint(self, regions: Sequence[Region], weights: NDArray[Any], variances: Floats) -> JointCounts:
        """Every sum about every region, region by region."""
        region, row = np.divmod(np.arange(len(regions) * len(weights)), len(weights))
        return JointCounts(self.tree, Asked(regions, region, weights @ self.rows, row), variances.ravel())


def answer_question(
    root: Path,
    question: Question,
    *,
    districts: Mapping[str, pl.Series] | None = None,
    per: Mapping[str, float] | None = None,
    terms: Terms = Terms(),
) -> Answer:
    """Answer a question from the published files of a finished release; nothing is written.

    Args:
        root: Release folder; or a folder of measurements, whose answers have no published counts.
        question: The question.
        districts: Finest geocodes of each area of the rows, by its name; None for the areas that the question names.
        per: A public number for each area, by which its counts are divided; None for counts or shares.
        terms: How it is answered.
    Raises:
        ConfigError: the question names something that the release does not have, or has no answer.
        GeographyError: an area does not exist.
        StoreError: the folder holds no finished release, lacks measurements, or has a changed file.
    Privacy: post-processing. It reads published files alone and spends nothing.
    """
    _refuse_terms(question, terms)
    release = open_release(root, kinds=(ReleaseKind.TOPDOWN, ReleaseKind.MEASUREMENTS))
    refuse_partial_measurements(release)
    asked = asking(question, release, districts)
    divisors = None if per is None else _divisors(per, asked.names, question)
    fitted = _Fitted.of(asked, terms.workers or usable_cores())
    numbers = Numbers(fitted.model, terms.level, terms.limit, terms.threshold)
    answer_kind: AnswerKind = "count"
    joint: tuple[JointCounts, ...] = ()
    if question.measure is not None:
        answer_kind = "level" if question.measure.is_quantile else "number"
        columns = (_quantiles if question.measure.is_quantile else _indices)(asked, fitted, numbers)
    else:
        regions = asked.regions()
        if question.share_of is not None:
            columns, counts = _shares(asked, regions, fitted, numbers)
        elif question.is_deviation:
            columns, counts = _deviations(asked, regions, fitted, numbers)
        else:
            columns, counts = _counts(asked, regions, fitted, numbers, divisors)
        joint = (counts,)
        if question.share_of is not None or question.is_deviation or divisors is not None:
            answer_kind = "number"
    covers = sentence_of(terms.level) if fitted.model.gaussian else NO_INTERVALS
    return Answer(
        pl.DataFrame(asked.labelled() | columns),
        terms.level,
        terms.limit,
        covers,
        marks_of(release.manifest).warnings,
        answer_kind,
        frozenset([release.manifest.spender]),
        joint,
    )


def _refuse_terms(question: Question, terms: Terms) -> None:
    refuse_level(terms.level)
    if not _is_positive(terms.limit) or terms.limit > MOST_LIMIT:
        raise refused(
            f"the limit is {as_given(terms.limit)}, wanted a number above 0 and at most {MOST_LIMIT:g}, such as "
            f"{LIMIT}."
        )
    if terms.threshold is None:
        return
    if question.share_of is None and not question.is_deviation:
        raise refused(
            "a threshold is given for what is neither a share nor a deviation. Write: as share of NAME, or: as "
            "deviation."
        )
    if not _is_positive(terms.threshold) or terms.threshold >= 1:
        raise refused(
            f"the threshold is {as_given(terms.threshold)}, wanted a number above 0 and below 1, such as 0.5."
        )


def _counts(
    asked: Asking, regions: list[Region], fitted: _Fitted, numbers: Numbers, divisors: Floats | None
) -> tuple[Columns, JointCounts]:
    answers = fitted.answers(regions, asked.counted)
    published = asked.published(asked.counted)
    columns = numbers.counts(
        answers.estimates.ravel(),
        answers.variances.ravel(),
        None if published is None else published.ravel(),
        None if divisors is None else np.repeat(divisors, len(asked.counted)),
        is_difference=asked.minus is not None,
    )
    return columns, fitted.joint(regions, asked.counted, answers.variances)


def _shares(
    asked: Asking, regions: list[Region], fitted: _Fitted, numbers: Numbers
) -> tuple[Columns, JointCounts]:
    # A share is asked for together with its denominator and the sum of both: one pass up the tree for all.
    kinds = np.stack([asked.counted, asked.whole, asked.whole + asked.counted])
    answers = fitted.answers(regions, kinds.reshape(-1, kinds.shape[2]))
    values, variances = (_by_kind(part, len(kinds)) for part in (answers.estimates, answers.variances))
    published = asked.published(kinds[:2].reshape(-1, kinds.shape[2]))
    first, second, together = variances
    with np.errstate(invalid="ignore"):
        both = 0.5 * (together - first - second)
    columns = numbers.quotients(
        Quotient(
            values[0],
            values[1],
            first,
            second,
            both,
            None if published is None else tuple(_by_kind(published, 2)),
            is_deviation=False,
        )
    )
    return columns, fitted.joint(regions, asked.counted, first)


def _deviations(
    asked: Asking, regions: list[Region], fitted: _Fitted, numbers: Numbers
) -> tuple[Columns, JointCounts]:
    n, each = len(regions), len(asked.counted)
    answers = fitted.answers(regions, asked.counted)
    counts = fitted.joint(regions, asked.counted, answers.variances)
    # A weighted sum for each count of an area: its mean over the areas.
    means = np.tile(np.eye(each) / n, (n, 1))
    both = counts.covariances_with(means)
    second = np.einsum("rs,rs->s", means, np.nan_to_num(both))
    own = np.tile(np.arange(each), n)
    published = asked.published(asked.counted)
    known = np.isfinite(both).all(axis=0)
    columns = numbers.quotients(
        Quotient(
            answers.estimates.ravel(),
            answers.estimates.mean(axis=0)[own],
            answers.variances.ravel(),
            # Of a total that is known exactly, it may come out a rounding error below zero.
            np.where(known, np.maximum(second, 0.0), np.inf)[own],
            both[np.arange(n * each), own],
            None if published is None else (published.ravel(), published.mean(axis=0)[own]),
            is_deviation=True,
        )
    )
    return columns, counts


def _quantiles(asked: Asking, fitted: _Fitted, numbers: Numbers) -> Columns:
    measure, labels = asked.question.measure, asked.axes[asked.measured].labels
    assert measure is not None
    weights = quantile_sums(len(labels), measure.part)
    # The sums D of a row, with the levels of the measure at the end: (rows of an area x levels, answers).
    by_level = asked.by_level(asked.counted[None])[0]
    sums = np.einsum("kl,rla->rka", weights, by_level).reshape(-1, by_level.shape[2])
    answers = fitted.answers(asked.regions(), sums)
    estimates, variances = (part.reshape(-1, len(labels)) for part in (answers.estimates, answers.variances))
    determined = np.isfinite(variances.sum(axis=1))
    estimates, variances = (np.where(determined[:, None], part, 0.0) for part in (estimates, variances))
    # The last of the sums is the part above the quantile of all people.
    people, error = (part[:, -1] / (1 - measure.part) for part in (estimates, np.sqrt(variances)))
    there = determined & (people > numbers.quantile * error)
    levels = quantiles_of(estimates, variances, numbers.quantile)
    counts = asked.published(asked.counted)
    published = None
    if counts is not None:
        counts = asked.by_level(counts).reshape(-1, len(labels))
        total = counts.sum(axis=1)
        exact = quantiles_of(counts @ weights.T, np.zeros(counts.shape), numbers.quantile)
        published = total, np.where(total > 0, exact.estimate, -1)
    at = np.sqrt(variances[np.arange(len(variances)), levels.estimate])
    return numbers.quantiles(levels, labels, (people, at, measure.part), (determined, there), published)


def _indices(asked: Asking, fitted: _Fitted, numbers: Numbers) -> Columns:
    measure = asked.question.measure
    assert measure is not None
    levels = asked.shape[asked.measured]
    n_rows = asked.rows // levels
    if n_rows > MOST_INDICES:
        raise refused(
            f"{n_rows:,} indices are asked for, at most {MOST_INDICES:,} are computed. Ask for fewer areas."
        )
    weights = asked.by_level(asked.counted[None])[0]
    units = list(asked.units())
    most = max(len(parts) for parts in units)
    if most * levels > MOST_ANSWERS:
        raise refused(
            f"an index compares {most:,} areas by {levels} groups; at most {MOST_ANSWERS:,} counts are compared. "
            f"Choose a coarser geolevel than {str(asked.question.across)!r}, or smaller areas."
        )
    family = family_of([unit for parts in units for unit in parts], asked.family.n_finest)
    regions = [region_of_all(family.members_of(number)) for number in range(family.n_entities)]
    every = weights.reshape(-1, weights.shape[2])
    # The estimates and the published counts of all units at once; shape (units, rows of an area, levels).
    shape = len(regions), *weights.shape[:2]
    answers = fitted.answers(regions, every)
    estimates, variances = answers.estimates.reshape(shape), answers.variances.reshape(shape)
    counts = asked.published(every, family)
    found: list[Index] = []
    plain: list[float] = []
    total: list[int] = []
    for start, stop in pairwise(np.cumsum([0, *(len(parts) for parts in units)]).tolist()):
        for row, sums in enumerate(weights):
            x, spread = estimates[start:stop, row], variances[start:stop, row]
            if np.isfinite(spread).all():
                covariance = fitted.joint(regions[start:stop], sums, spread).covariance(None)
                found.append(index_of(measure.kind, x, covariance, numbers.quantile))
            else:
                found.append(Index(math.nan, math.nan, NOT_DETERMINED))
            if counts is not None:
                own = counts.reshape(shape)[start:stop, row]
                plain.append(plain_index(measure.kind, own))
                total.append(int(own.sum()))
    told = (np.array(total, np.int64), np.array(plain)) if plain else None
    return numbers.indices(found, math.log(levels) if measure.kind == "entropy" else 1.0, told)


def _by_kind(numbers: NDArray[Any], n_kinds: int) -> NDArray[Any]:
    """Numbers (regions, kinds x rows) by kind and not by region; shape (kinds, regions x rows)."""
    return numbers.reshape(len(numbers), n_kinds, -1).swapaxes(0, 1).reshape(n_kinds, -1)


def _divisors(per: Mapping[str, float], names: Sequence[str], question: Question) -> Floats:
    """The public number of each area."""
    if (
        question.share_of is not None
        or question.minus
        or question.is_deviation
        or question.measure is not None
    ):
        raise refused(
            "a rate per public number is asked for together with a share or a difference, or another number that is no "
            "count. Ask for one of them."
        )
    if not isinstance(per, Mapping):
        raise refused(
            f"per is {as_given(per)}, wanted a mapping from areas to numbers, such as {{'44007': 1200}}."
        )
    lacking = [name for name in names if name not in per]
    if lacking:
        raise refused(
            f"per has no number for {short_name(lacking[0])!r}. Give one for each of the {len(names):,} areas."
        )
    wrong = [name for name in names if not _is_positive(per[name])]
    if wrong:
        raise refused(
            f"per has {as_given(per[wrong[0]])} for {short_name(wrong[0])!r}, wanted a number above 0."
        )
    return np.array([float(per[name]) for name in names])


def _is_positive(number: object) -> bool:
    if not isinstance(number, Real) or isinstance(number, bool):
        return False
    return math.isfinite(number) and float(number) > 0
