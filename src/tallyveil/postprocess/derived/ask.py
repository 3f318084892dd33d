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
from functools import cached_property
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Floats
from tallyveil.estimation.intervals.answers import Answers, region_answers
from tallyveil.estimation.intervals.covariance import tree_covariance
from tallyveil.estimation.intervals.fit import TreeEstimate
from tallyveil.estimation.intervals.indices import Index, index_of, quantile_sums, quantiles_of
from tallyveil.estimation.intervals.interval import NO_INTERVALS, refuse_level, sentence_of
from tallyveil.estimation.intervals.joint import Asked
from tallyveil.estimation.intervals.model import TreeModel
from tallyveil.estimation.intervals.questions import sums_of
from tallyveil.estimation.intervals.regions import Region
from tallyveil.exact import as_given
from tallyveil.files.manifest_files import MAIN_PRODUCT
from tallyveil.files.marks import marks_of
from tallyveil.postprocess.derived.answer import Answer, AnswerKind, JointCounts
from tallyveil.postprocess.derived.asking import MOST_ANSWERS, Asking, asking, region_of_all
from tallyveil.postprocess.derived.district import NOISY, NOT_DETERMINED, bounds_choice, finest_counts
from tallyveil.postprocess.derived.numbers import Columns, Numbers, Quotient, is_finite
from tallyveil.postprocess.derived.plain import by_kind, plain_numbers
from tallyveil.postprocess.derived.question import LIMIT, Question, refused
from tallyveil.postprocess.intervals.fits import IntervalFit, fits_of, whole_fit
from tallyveil.postprocess.intervals.model import (
    open_release,
    refuse_partial_measurements,
)
from tallyveil.printable import short_name
from tallyveil.schema.counts import PublicCounts
from tallyveil.schema.query_group import QueryGroup
from tallyveil.storage.system import usable_cores

MOST_INDICES: Final = 4096
"""Indices of an answer, of which each is a pass up the tree: some 10 ms. Twice as many take twice the time."""
MOST_TREES: Final = 2
"""Trees of tables apart that are in memory, each up to some GB in a state. Twice as many take twice the memory; half as
many make a reader wait who goes back and forth between a few tables."""
LARGEST_THRESHOLD: Final = 10**15
"""Far above the people of any country, and far below the numbers whose square is no float."""
MOST_LIMIT: Final = 1000.0
"""An interval a thousand times as wide as the number says nothing of it, so that a greater limit is meant by nobody."""


@dataclass(frozen=True, slots=True)
class Terms:
    """How a question is answered.

    Attributes:
        level: Coverage of every interval.
        limit: Greatest half width of an interval, as a part of the number, of a number that is usable.
        threshold: A number to which every row is held; None for none.
        draws: Folder with draws of the release, from which each number is computed, too; None for none.
        workers: Number of threads; None for one per core.
    """

    level: float = 0.95
    limit: float = LIMIT
    threshold: float | None = None
    draws: Path | None = None
    workers: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Fitted:
    """The estimates from which a question is answered.

    Attributes:
        model: The model of the measurements.
        rows: Coefficients of the answers of the query that is estimated; shape (answers, n_cells).
        estimate: Its estimates.
        workers: Number of threads.
    """

    model: TreeModel
    rows: Floats
    estimate: TreeEstimate
    workers: int

    def answers(self, regions: Sequence[Region], weights: NDArray[Any]) -> Answers:
        """Sums of the answers of `base` with weights (sums, answers); arrays of shape (regions, sums)."""
        questions = sums_of(self.model.algebra, weights @ self.rows)
        return region_answers(self.estimate, regions, questions, workers=self.workers)

    def joint(self, regions: Sequence[Region], weights: NDArray[Any], variances: Floats) -> JointCounts:
        """Every sum about every region, region by region."""
        region, row = np.divmod(np.arange(len(regions) * len(weights)), len(weights))
        asked = Asked(regions, region, weights @ self.rows, row)
        return JointCounts(self.estimate.covariance, asked, variances.ravel())


@dataclass(frozen=True, slots=True, eq=False)
class _Tree:
    """The estimates of a whole tree.

    Attributes:
        fit: The model that they follow from.
        estimate: The estimates.
    """

    fit: IntervalFit
    estimate: TreeEstimate


class AskedRelease:
    """A finished release that answers questions, one at a time. What does not depend on a question is computed once.

    The files that are read are held to their digests when they are first needed. Estimates are made of the whole tree,
    and kept for the next question: of a release with one model of all cells there are no others, and of one with a
    model for each table (`StatedPlan.tables_apart`) the last few are kept.
    """

    def __init__(self, root: Path) -> None:
        """Open the release.

        Args:
            root: Its folder; or a folder of measurements, whose answers have no published counts.
        Raises:
            StoreError: the folder holds no finished release, or one without measurements, or with a changed file.
        """
        self.release = open_release(root, kinds=MAIN_PRODUCT)
        refuse_partial_measurements(self.release)
        self._trees: dict[bytes, _Tree] = {}

    @cached_property
    def _counts(self) -> PublicCounts | None:
        return finest_counts(self.release)

    @cached_property
    def _with_bounds(self) -> bool:
        return bounds_choice(self.release, with_bounds=True, besides=NOISY)[1]

    def rows(
        self, question: Question, districts: Mapping[str, pl.Series] | None = None
    ) -> pl.DataFrame | None:
        """The columns that say what each row of an answer is, before it is computed; None without published counts.

        Raises:
            ConfigError, GeographyError: as for `answer_question`.
        """
        asked = asking(question, self.release, self._counts, districts)
        return None if asked.counts is None else pl.DataFrame(asked.labelled())

    def prepare(self, workers: int | None = None) -> None:
        """Make the estimates of the whole tree, if all questions have one tree. Otherwise the first answer does."""
        if not self.release.stated.tables_apart and not self._trees:
            total = Question()
            self._fit(asking(total, self.release, self._counts, None), workers or usable_cores())

    def answer(
        self,
        question: Question,
        *,
        districts: Mapping[str, pl.Series] | None = None,
        per: Mapping[str, float] | None = None,
        terms: Terms = Terms(),
    ) -> Answer:
        """Answer a question; arguments and errors as for `answer_question`."""
        _refuse_terms(question, terms)
        asked = asking(question, self.release, self._counts, districts)
        divisors = None if per is None else _divisors(per, asked.names, question)
        # Before the estimates are made, which takes longer: draws that cannot answer are refused at once.
        drawn, said_of_draws = {}, ""
        if terms.draws is not None:
            # Here, since most questions need no draws, and the sampler behind them takes long to import.
            from tallyveil.postprocess.derived.drawn import OpenedDraws

            draws = OpenedDraws.of(terms.draws, self.release, terms.level)
            drawn, said_of_draws = draws.columns(asked, divisors, terms.level), draws.statement
        fitted = self._fit(asked, terms.workers or usable_cores())
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
            pl.DataFrame(asked.labelled() | columns | drawn),
            terms.level,
            terms.limit,
            covers,
            marks_of(self.release.manifest).warnings,
            answer_kind,
            frozenset([self.release.manifest.spender]),
            joint,
            said_of_draws,
        )

    def _fit(self, asked: Asking, workers: int) -> _Fitted:
        """The estimates of what the question needs; raises StoreError and SchemaError as `fits_of` does."""
        apart = self.release.stated.tables_apart
        key = _key(asked.base) if apart else b""
        tree = self._trees.pop(key) if key in self._trees else self._tree(asked.base, workers)
        self._trees[key] = tree  # at the end, so that what was not asked for the longest time goes first
        fit = tree.fit if apart else whole_fit(tree.fit.model, [asked.base])
        return _Fitted(fit.model, fit.questions.rows(), tree.estimate, workers)

    def _tree(self, base: QueryGroup, workers: int) -> _Tree:
        # Let go before the next one is made, so that no more than MOST_TREES are in memory.
        while len(self._trees) >= MOST_TREES:
            self._trees.pop(next(iter(self._trees)))
        (fit,) = fits_of(self.release, [base], with_bounds=self._with_bounds)
        tree = tree_covariance(fit.model, workers=workers)
        return _Tree(fit, fit.estimate(self.release, tree, workers=workers))


def _key(query: QueryGroup) -> bytes:
    """What tells queries apart: queries of different questions have one name."""
    digest = sha256()
    for factor in query.factors:
        digest.update(b"".join(layer.tobytes() for layer in factor.layers))
        digest.update(len(factor.layers).to_bytes(8, "big"))
    return digest.digest()


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
        districts: Geocodes of each area of the rows, by its name: of finest geounits, or of other areas in it; None for
            the areas that the question names.
        per: A public number for each area, by which its counts are divided; None for counts or shares.
        terms: How it is answered.
    Raises:
        ConfigError: the question names something that the release does not have, or has no answer.
        GeographyError: an area does not exist.
        StoreError: the folder holds no finished release, lacks measurements, or has a changed file.
    Privacy: post-processing. It reads published files alone and spends nothing.
    """
    return AskedRelease(root).answer(question, districts=districts, per=per, terms=terms)


def _refuse_terms(question: Question, terms: Terms) -> None:
    refuse_level(terms.level)
    if not _is_positive(terms.limit) or terms.limit > MOST_LIMIT:
        raise refused(
            f"the limit is {as_given(terms.limit)}, wanted a number above 0 and at most {MOST_LIMIT:g}, such as "
            f"{LIMIT}."
        )
    if terms.threshold is None:
        return
    if question.measure is not None:
        raise refused(
            "a threshold is given for a quantile or an index, which have none. Ask for counts, for shares (as share of "
            "NAME) or for deviations (as deviation)."
        )
    if question.share_of is not None or question.is_deviation:
        if not _is_positive(terms.threshold) or terms.threshold >= 1:
            raise refused(
                f"the threshold is {as_given(terms.threshold)}, wanted a number above 0 and below 1, such as 0.5."
            )
    # Two counts are compared by their difference, which is held to 0.
    elif not (
        (_is_positive(terms.threshold) or (question.minus and is_finite(terms.threshold)))
        and abs(terms.threshold) <= LARGEST_THRESHOLD
    ):
        raise refused(
            f"the threshold is {as_given(terms.threshold)}, wanted a number above 0, such as 10000; of a difference of "
            f"areas (minus AREAS) any finite number, such as 0; and none beyond {LARGEST_THRESHOLD:,}, which no "
            "count reaches."
        )


def _counts(
    asked: Asking, regions: list[Region], fitted: _Fitted, numbers: Numbers, divisors: Floats | None
) -> tuple[Columns, JointCounts]:
    answers = fitted.answers(regions, asked.counted)
    columns = numbers.counts(
        answers.estimates.ravel(),
        answers.variances.ravel(),
        plain_numbers(asked, divisors),
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
    values, variances = (by_kind(part, len(kinds)) for part in (answers.estimates, answers.variances))
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
            plain_numbers(asked, None),
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
    answer_of_row = np.tile(np.arange(each), n)
    known = np.isfinite(both).all(axis=0)
    columns = numbers.quotients(
        Quotient(
            answers.estimates.ravel(),
            answers.estimates.mean(axis=0)[answer_of_row],
            answers.variances.ravel(),
            # Of a total that is known exactly, it may come out a rounding error below zero.
            np.where(known, np.maximum(second, 0.0), np.inf)[answer_of_row],
            both[np.arange(n * each), answer_of_row],
            plain_numbers(asked, None),
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
    at = np.sqrt(variances[np.arange(len(variances)), levels.estimate])
    return numbers.quantiles(
        levels, labels, (people, at, measure.part), (determined, there), plain_numbers(asked, None)
    )


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
    family, cuts = asked.compared()
    most = int(np.diff(cuts).max())
    if most * levels > MOST_ANSWERS:
        raise refused(
            f"an index compares {most:,} areas by {levels} groups; at most {MOST_ANSWERS:,} counts are compared. "
            f"Choose a coarser geolevel than {str(asked.question.across)!r}, or smaller areas."
        )
    regions = [region_of_all(family.members_of(number)) for number in range(family.n_entities)]
    every = weights.reshape(-1, weights.shape[2])
    # The estimates of all units at once; shape (units, rows of an area, levels).
    shape = len(regions), *weights.shape[:2]
    answers = fitted.answers(regions, every)
    estimates, variances = answers.estimates.reshape(shape), answers.variances.reshape(shape)
    indices: list[Index] = []
    for start, stop in pairwise(cuts):
        for row, sums in enumerate(weights):
            x, spread = estimates[start:stop, row], variances[start:stop, row]
            if np.isfinite(spread).all():
                covariance = fitted.joint(regions[start:stop], sums, spread).covariance(None)
                indices.append(index_of(measure.kind, x, covariance, numbers.quantile))
            else:
                indices.append(Index(math.nan, math.nan, NOT_DETERMINED))
    return numbers.indices(
        indices, math.log(levels) if measure.kind == "entropy" else 1.0, plain_numbers(asked, None)
    )


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


def _is_positive(number: Any) -> bool:
    return is_finite(number) and float(number) > 0
