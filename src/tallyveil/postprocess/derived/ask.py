"""Answers to questions in words, from the published files of a finished release.

Problem. A question (`tallyveil.postprocess.derived.question`) asks for the counts of some areas by attributes,
recodes and conditions. Wanted for each is the published count, the unbiased estimate from all measurements, its
standard error and an interval, and whether the interval is narrow enough for the number to be used.

Classes. Levels of an attribute that the question never tells apart are one class. The query by classes of all
attributes is estimated as `tallyveil intervals` estimates a table, and every count is a sum of its answers.

Shares. The share is the count divided by the count of the same area without the conditions and the attributes
that the denominator does not keep. Both are asked together with their sum, whose variance gives their covariance.
The standard error is that of the delta method, and the interval is Fieller's (`estimation.intervals.interval`).

Worked case. A town has 30 foreigners of 200 people, estimated with standard errors 6 and 2 and no correlation. The
share is 0.15, with a standard error of (6^2 + (0.15 x 2)^2)^(1/2) / 200 = 0.030. Half the width of its interval is
0.059, which is 0.39 of the share. So at the limit of 0.65 it can be used.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from numbers import Real
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from tallyveil.arrays import Floats, Integers
from tallyveil.estimation.intervals.answers import Answers
from tallyveil.estimation.intervals.covariance import TreeCovariance, tree_covariance
from tallyveil.estimation.intervals.fit import fit_tree
from tallyveil.estimation.intervals.interval import (
    NO_INTERVALS,
    IntervalKind,
    fieller_ends,
    intervals_if_any,
    refuse_level,
    rounded_inward,
    sentence_of,
)
from tallyveil.estimation.intervals.joint import Asked, asked_estimates, asked_variances, joint_covariance
from tallyveil.estimation.intervals.model import TreeModel
from tallyveil.estimation.intervals.regions import Region
from tallyveil.exact import as_given
from tallyveil.files.intervals import DECIMALS
from tallyveil.files.manifest_files import require_unchanged_files
from tallyveil.files.marks import marks_of, short_mark
from tallyveil.geography.areas import Hierarchies
from tallyveil.geography.entities import EntityFamily
from tallyveil.measurements.store import FOLDER
from tallyveil.plans.machine import in_gib, machine_memory
from tallyveil.postprocess.derived.district import (
    NOT_DETERMINED,
    area_members,
    bounds_choice,
    published_counts,
)
from tallyveil.postprocess.derived.question import Condition, Question, refused
from tallyveil.postprocess.intervals.fits import LARGEST_SHARE, fits_of
from tallyveil.postprocess.intervals.model import FinishedRelease, open_release, refuse_partial_measurements
from tallyveil.printable import short_name
from tallyveil.schema.names import closest_hint
from tallyveil.schema.query_group import Factor, QueryGroup
from tallyveil.schema.schema import Schema
from tallyveil.storage.system import usable_cores

LIMIT: Final = 0.65
"""Half the width of an interval of 95 %, as a part of the number, above which the number should not be used: 1.96 times
the coefficient of variation of 33.3 % above which Statistics Canada calls an estimate unacceptable. Twice it lets
numbers pass whose interval reaches from nearly nothing to more than double; half of it is the limit there for what is
acceptable."""
MOST_ROWS: Final = 200_000
"""Rows of an answer. More are a table of the release, which `tallyveil intervals` writes part by part. Twice as many
take twice the time and memory."""
MOST_ANSWERS: Final = 4096
"""Counts of one area by classes, of which a square matrix is in memory: 128 MiB. Twice as many take four times that."""
MOST_NUMBERS: Final = 1 << 24
"""Counts of all areas by classes, 128 MiB of whole numbers."""
SHARE_DECIMALS: Final = 9
"""Of shares and rates, which may be far below one: a count of a country of a billion moves the last of them."""
SMALL: Final = "the count that it is a share of may be zero before noise, so that no share is known"
"""Why a share has no estimate although both counts have."""
ALL: Final = "all"
"""Name of the area that is the whole release."""


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """The answer to a question.

    Attributes:
        table: One row for each count; columns as docs/ask.md says.
        level: Coverage of every interval.
        limit: Greatest half width of an interval, as a part of the number, of a number that is usable.
        covers: What the intervals cover, or why the noise allows none.
        warnings: What must be said wherever the release is shown.
    """

    table: pl.DataFrame
    level: float
    limit: float
    covers: str
    warnings: tuple[str, ...]
    _tree: TreeCovariance = field(repr=False)
    _asked: Asked = field(repr=False)

    def covariance(self, weights: ArrayLike | None = None) -> Floats:
        """Covariances of the estimated counts of the rows, or of weighted sums of them, before shares and rates.

        Args:
            weights: A weight of every row in each weighted sum; shape (sums, rows). None for the rows themselves, whose
                matrix takes 8 bytes for each pair of rows.
        Returns:
            In squared counts; NaN where the measurements do not determine a count. Shape (sums, sums), or (rows, rows).
        Raises:
            ConfigError: the weights have another shape, or are not finite numbers; or the matrix of all rows does not
                fit into memory.
        """
        if weights is None:
            _refuse_matrix(self._asked.n)
        joint = joint_covariance(self._tree, self._asked)
        if weights is None:
            return joint.matrix()
        given = np.asarray(weights, dtype=object)
        sums = (
            given.astype(np.float64) if all(isinstance(item, Real) for item in given.ravel()) else np.zeros(0)
        )
        if sums.ndim != 2 or sums.shape[1] != joint.n or not np.isfinite(sums).all():
            raise refused(
                f"weights have shape {given.shape}, wanted finite numbers of shape (sums, {joint.n}): a weight of "
                "every row in each weighted sum."
            )
        product, known = joint.times(sums.T), np.isfinite(joint.variances)
        matrix: Floats = sums[:, known] @ product[known]
        # A sum with an unknown row is a column of NaN there, and has no covariance with others either.
        matrix[np.isnan(np.diag(matrix))] = np.nan
        return matrix

    def to_frame(self) -> pl.DataFrame:
        """The table."""
        return self.table

    def __repr__(self) -> str:
        return f"<Answer of {self.table.height:,} rows{short_mark(self.warnings)}>\n{self.table}"

    def _repr_html_(self) -> str:
        return f"<strong>Answer{short_mark(self.warnings)}</strong>{self.table._repr_html_()}"


def _refuse_matrix(n: int) -> None:
    needed, has = 8 * n * n, machine_memory()
    if needed > LARGEST_SHARE * has:
        raise refused(
            f"the covariances of {n:,} rows take {in_gib(needed)}; this process may use {in_gib(has)}, and a quarter "
            "is kept free. Give weights of the sums that are wanted, or ask for fewer rows."
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Axis:
    """What a question says of one attribute.

    Attributes:
        name: The attribute or recode of the rows; None if it makes none.
        labels: Labels of its groups that have a level left.
        counted: Whether each level is counted in each group; shape (groups, levels).
        whole: The same for the denominator of a share.
    """

    name: str | None
    labels: tuple[str, ...]
    counted: NDArray[np.bool_]
    whole: NDArray[np.bool_]

    def classes(self) -> tuple[NDArray[np.int32], Integers]:
        """The class of each level, and a level of each class. Levels of one class are never told apart."""
        marks = np.concatenate([self.counted, self.whole])
        _, first, codes = np.unique(marks, axis=1, return_index=True, return_inverse=True)
        of_level = codes.reshape(-1).astype(np.int32)
        of_level.flags.writeable = False
        return of_level, first.astype(np.int64)


def answer_question(
    root: Path,
    question: Question,
    *,
    per: Mapping[str, float] | None = None,
    level: float = 0.95,
    limit: float = LIMIT,
    workers: int | None = None,
) -> Answer:
    """Answer a question from the published files of a finished release; nothing is written.

    Args:
        root: Release folder.
        question: The question.
        per: A public number for each area, by which its counts are divided; None for counts or shares.
        level: Coverage of every interval.
        limit: Greatest half width of an interval, as a part of the number, of a number that is usable.
        workers: Number of threads; None for one per core.
    Raises:
        ConfigError: the question names something that the release does not have, or has no answer.
        GeographyError: an area does not exist.
        StoreError: the folder holds no finished release, lacks measurements, or has a changed file.
    Privacy: post-processing. It reads published files alone and spends nothing.
    """
    refuse_level(level)
    if not isinstance(limit, Real) or not limit > 0:
        raise refused(f"the limit is {as_given(limit)}, wanted a number above 0, such as {LIMIT}.")
    release = open_release(root)
    refuse_partial_measurements(release)
    kind, axes = _understood(question, release)
    names, family, minus = _areas_of(question, kind, release.hierarchies)
    divisors = None if per is None else _divisors(per, names, question)
    base, counted, whole = _queries(axes, release.schema)
    _refuse_large(len(names), len(counted), base.size)
    _, with_bounds = bounds_choice(release, with_bounds=True)
    require_unchanged_files(release.root, release.manifest, {FOLDER})
    (fit,) = fits_of(release, [base], with_bounds=with_bounds)
    threads = workers or usable_cores()
    tree = tree_covariance(fit.model, workers=threads)
    estimate = fit_tree(tree, fit.rows(release), fit.invariants(release), workers=threads)
    regions = [_region(family.members_of(number)) for number in range(len(names))]
    if minus is not None:
        regions = [region - _region(minus) for region in regions]
        # A quotient of differences may be any number, and its interval is that of a share, between 0 and 1.
        if question.share_of is not None and any((region.weights < 0).any() for region in regions):
            raise refused(
                "a share is asked for of areas from which others are subtracted that are no part of them. Subtract "
                "only areas that lie in every area of the rows."
            )
    rows = fit.questions.rows()
    # A share is asked for together with its denominator and the sum of both: one pass up the tree for all.
    kinds = [counted] if question.share_of is None else [counted, whole, whole + counted]
    asked = _asked(regions, np.concatenate(kinds) @ rows)
    values = _by_kind(asked_estimates(estimate, asked, workers=threads), len(regions), len(kinds))
    variances = _by_kind(asked_variances(tree, asked, workers=threads), len(regions), len(kinds))
    counts = _published(release, family, minus, base, np.concatenate(kinds))
    published = None if counts is None else _by_kind(counts, len(regions), len(kinds))
    table = _labelled(axes, names, is_all=kind is None and question.areas is None)
    number = _Numbers(fit.model, level, limit)
    if question.share_of is None:
        scale = None if divisors is None else np.repeat(divisors, len(counted))
        shown = None if published is None else published[0]
        columns = number.counts(values[0], variances[0], shown, scale, is_difference=minus is not None)
    else:
        shared = 0.5 * (variances[2] - variances[1] - variances[0])
        columns = number.shares(
            (values[0], values[1]),
            (variances[0], variances[1], shared),
            None if published is None else (published[0], published[1]),
        )
    covers = sentence_of(level) if fit.model.gaussian else NO_INTERVALS
    warnings = marks_of(release.manifest).warnings
    of_counts = _asked(regions, counted @ rows)
    return Answer(pl.DataFrame(table | columns), level, limit, covers, warnings, tree, of_counts)


def _understood(question: Question, release: FinishedRelease) -> tuple[str | None, list[_Axis]]:
    """The geolevel or family of the rows, and what is said of each attribute."""
    schema, kinds = release.schema, _kinds(release.hierarchies)
    kind: str | None = None
    factors: dict[str, Factor] = {}
    for name in question.by:
        known = _known(
            name, (*schema.factor_names, *kinds), "attribute, recode, geolevel or family of this release"
        )
        if known in schema.factor_names:
            (factor,) = (item for item in schema.query(known).factors if item.name is not None)
            if factor.attribute in factors:
                raise refused(
                    f"the rows are by {factors[factor.attribute].name!r} and by {known!r}, which are both of attribute "
                    f"{factor.attribute!r}. Keep one of them."
                )
            factors[factor.attribute] = factor
        elif kind is not None:
            raise refused(f"the rows are by {kind!r} and by {known!r}. Keep one geolevel or family.")
        else:
            kind = known
    conditions = [_condition(schema, condition) for condition in question.where]
    kept = None
    if question.share_of is not None:
        asked = [*(str(factor.name) for factor in factors.values()), *(name for name, _, _ in conditions)]
        kept = [_known(name, asked, "attribute or recode of the question") for name in question.share_of]
    return kind, [
        _axis(schema, axis, factors.get(attribute.name), conditions, kept)
        for axis, attribute in enumerate(schema.attributes)
    ]


def _kinds(hierarchies: Hierarchies) -> list[str]:
    """Geolevels and families that readers know."""
    levels = (hierarchies.spine.geolevels[level] for level in hierarchies.known_levels)
    return [*levels, *(family.name for family in (*hierarchies.replaced, *hierarchies.families))]


def _known(name: str, known: Sequence[str], what: str) -> str:
    """The known name that is meant: the same, or the only one that is the same without regard to case."""
    if name in known:
        return name
    alike = [other for other in known if other.casefold() == name.casefold()]
    if len(alike) == 1:
        return alike[0]
    raise refused(f"{short_name(name)!r} is no {what}. {closest_hint(name, known)}")


def _condition(schema: Schema, condition: Condition) -> tuple[str, str, NDArray[np.bool_]]:
    """The name of a condition, its attribute, and which levels satisfy it."""
    name = _known(condition.name, schema.factor_names, "attribute or recode of this release")
    (factor,) = (item for item in schema.query(name).factors if item.name is not None)
    groups = []
    for label in condition.labels:
        if label not in factor.labels:
            raise refused(
                f"{name!r} has no level {short_name(label)!r}. {closest_hint(label, factor.labels)}"
            )
        groups.append(factor.labels.index(label))
    if condition.is_span:
        first, last = groups
        if first > last:
            raise refused(
                f"the condition on {name!r} goes from {condition.labels[0]!r} to {condition.labels[1]!r}, which stands "
                "before it. Give the earlier level first."
            )
        groups = list(range(first, last + 1))
    levels: NDArray[np.bool_] = np.logical_or.reduce(_masks(factor)[groups])
    return name, factor.attribute, levels


def _masks(factor: Factor) -> NDArray[np.bool_]:
    """Whether each level is in each group; shape (groups, levels)."""
    groups = np.arange(factor.size)[:, None]
    masks: NDArray[np.bool_] = np.logical_or.reduce([layer[None, :] == groups for layer in factor.layers])
    return masks


def _axis(
    schema: Schema,
    axis: int,
    factor: Factor | None,
    conditions: Sequence[tuple[str, str, NDArray[np.bool_]]],
    kept: Sequence[str] | None,
) -> _Axis:
    attribute = schema.attributes[axis]
    every = np.ones(attribute.size, np.bool_)
    inside, whole_inside = every, every
    for name, of, levels in conditions:
        if of == attribute.name:
            inside = inside & levels
            whole_inside = whole_inside & levels if kept is not None and name in kept else whole_inside
    masks, labels = (every[None], ("",)) if factor is None else (_masks(factor), factor.labels)
    counted = masks & inside
    left = np.flatnonzero(counted.any(axis=1))
    if not len(left):
        named = [repr(name) for name, of, _ in conditions if of == attribute.name]
        rows = [] if factor is None else [repr(factor.name)]
        raise refused(
            f"no level of {attribute.name!r} is left by what is said of {', '.join(dict.fromkeys([*rows, *named]))}: "
            "the conditions contradict each other. Leave one out, or name levels that they share."
        )
    is_kept = factor is not None and kept is not None and factor.name in kept
    whole = masks & whole_inside if is_kept else np.broadcast_to(whole_inside, counted.shape)
    row_name = None if factor is None else str(factor.name)
    return _Axis(row_name, tuple(labels[group] for group in left), counted[left], whole[left])


def _queries(axes: Sequence[_Axis], schema: Schema) -> tuple[QueryGroup, Integers, Integers]:
    """The query by classes; and how often every count and every denominator of an area has each of its answers."""
    factors = []
    counted: Integers = np.ones((1, 1), np.int64)
    whole: Integers = np.ones((1, 1), np.int64)
    for axis, attribute in zip(axes, schema.attributes, strict=True):
        codes, first = axis.classes()
        labels = tuple(attribute.levels[level] for level in first)
        # Without a name, the attribute is summed out; its one class has all levels then.
        factors.append(Factor(attribute.name, None if len(first) == 1 else attribute.name, (codes,), labels))
        counted = np.kron(counted, axis.counted[:, first].astype(np.int64))
        whole = np.kron(whole, axis.whole[:, first].astype(np.int64))
        if counted.shape[1] > MOST_ANSWERS or len(counted) > MOST_ROWS:
            _refuse_large(1, len(counted), counted.shape[1])
    return QueryGroup("the question", tuple(factors)), counted, whole


def _refuse_large(n_areas: int, n_answers: int, n_classes: int) -> None:
    if n_areas * n_answers > MOST_ROWS or n_classes > MOST_ANSWERS or n_areas * n_classes > MOST_NUMBERS:
        raise refused(
            f"the question has {n_areas:,} areas with {n_answers:,} counts each; at most {MOST_ROWS:,} rows, and "
            f"{MOST_ANSWERS:,} counts of one area, are answered. Ask for fewer areas or coarser recodes, or write "
            "whole tables with `tallyveil intervals`."
        )


def _areas_of(
    question: Question, kind: str | None, hierarchies: Hierarchies
) -> tuple[list[str], EntityFamily, Integers | None]:
    """Names of the areas of the rows, their finest geounits, and those of the areas that are subtracted."""
    spine, areas = hierarchies.spine, question.areas
    n_finest = spine.n_geounits(spine.finest)
    members: list[Integers]
    if isinstance(areas, dict):
        if kind is not None:
            raise refused(
                f"the rows are by {kind!r}, and areas are given as unions by name. Leave one of them out."
            )
        names, members = list(areas), [_union(hierarchies, codes) for codes in areas.values()]
    elif kind is None:
        names = [ALL if areas is None else " + ".join(areas)]
        members = [np.arange(n_finest, dtype=np.int64) if areas is None else _union(hierarchies, areas)]
    else:
        names = hierarchies.codes_of(kind).to_list() if areas is None else list(areas)
        _refuse_large(len(names), 1, 1)
        members = (
            _each(hierarchies, kind)
            if areas is None
            else [area_members(hierarchies, name, kind) for name in names]
        )
    if not names or len(set(names)) < len(names):
        raise refused("the list of areas is empty or has an area twice. Name one or more areas, each once.")
    offsets = np.cumsum([0, *(len(rows) for rows in members)]).astype(np.int64)
    # Padded, so that texts sort as the numbers do: the codes of a family rise.
    numbers = tuple(f"{number:010d}" for number in range(len(names)))
    family = EntityFamily("areas", numbers, offsets, np.concatenate(members), n_finest)
    return names, family, _union(hierarchies, question.minus) if question.minus else None


def _union(hierarchies: Hierarchies, names: Sequence[str]) -> Integers:
    """The finest geounits of areas, each once."""
    if not names:
        raise refused("a list of areas is empty. Name one or more areas.")
    return np.unique(np.concatenate([area_members(hierarchies, name, None) for name in names]))


def _each(hierarchies: Hierarchies, kind: str) -> list[Integers]:
    """The finest geounits of each area of a geolevel or family, in the order of its codes."""
    for family in (*hierarchies.replaced, *hierarchies.families):
        if family.name == kind:
            return [family.members_of(number) for number in range(family.n_entities)]
    spine = hierarchies.spine
    offsets = spine.finest_offsets(spine.level_index(kind))
    finest = np.arange(offsets[-1], dtype=np.int64)
    return [finest[start:stop] for start, stop in pairwise(offsets.tolist())]


def _region(geounits: Integers) -> Region:
    return Region(geounits, np.ones(len(geounits)))


def _asked(regions: Sequence[Region], rows: Floats) -> Asked:
    """Every row of coefficients about every region, region by region."""
    return Asked(
        regions,
        np.repeat(np.arange(len(regions)), len(rows)),
        rows,
        np.tile(np.arange(len(rows)), len(regions)),
    )


def _by_kind(numbers: NDArray[Any], n_regions: int, n_kinds: int) -> NDArray[Any]:
    """Numbers of all kinds of each region, by kind and not by region; shape (kinds, regions x rows)."""
    return numbers.reshape(n_regions, n_kinds, -1).swapaxes(0, 1).reshape(n_kinds, -1)


def _divisors(per: Mapping[str, float], names: Sequence[str], question: Question) -> Floats:
    """The public number of each area."""
    if question.share_of is not None or question.minus:
        raise refused(
            "a rate per public number is asked for together with a share or a difference. Ask for one of them."
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


def _published(
    release: FinishedRelease,
    family: EntityFamily,
    minus: Integers | None,
    base: QueryGroup,
    weights: Integers,
) -> Integers | None:
    """Published counts of all rows; None without counts in the folder."""
    counts = published_counts(release, family, [base])
    if counts is None:
        return None
    if minus is not None:
        offsets = np.array([0, len(minus)], np.int64)
        less = EntityFamily("areas", ("minus",), offsets, minus, family.n_finest)
        subtracted = published_counts(release, less, [base])
        assert subtracted is not None
        counts = counts - subtracted
    sums: Integers = (counts @ weights.T).ravel()
    return sums


def _labelled(axes: Sequence[_Axis], names: Sequence[str], *, is_all: bool) -> dict[str, pl.Series]:
    """The columns that say what each row counts: the area, and the label of every attribute or recode."""
    shape = [len(axis.labels) for axis in axes]
    groups = np.unravel_index(np.arange(math.prod(shape)), shape)
    n = math.prod(shape)
    columns = (
        {}
        if is_all
        else {"geocode": pl.Series(names, dtype=pl.String).gather(np.repeat(np.arange(len(names)), n))}
    )
    for axis, group in zip(axes, groups, strict=True):
        if axis.name is not None:
            labels = pl.Series(axis.labels, dtype=pl.String)
            columns[axis.name] = labels.gather(np.tile(group, len(names)))
    return columns


@dataclass(frozen=True, slots=True, eq=False)
class _Numbers:
    """How numbers get their intervals, and which of them are usable."""

    model: TreeModel
    level: float
    limit: float

    def counts(
        self,
        values: Floats,
        variances: Floats,
        published: Integers | None,
        scale: Floats | None,
        *,
        is_difference: bool,
    ) -> dict[str, pl.Series]:
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
        counts = {} if published is None else {"count": pl.Series(published)}
        errors, number = answers.standard_errors, None if published is None else published.astype(np.float64)
        if scale is not None:
            values, errors, low, high = (part / scale for part in (values, errors, low, high))
            number = None if number is None else number / scale
            counts |= {} if number is None else {"published": pl.Series(number)}
        reasons = [NOT_DETERMINED] * len(known)
        decimals = DECIMALS if scale is None else SHARE_DECIMALS
        columns = self._columns((values, errors, low, high), number, known, reasons, decimals)
        if scale is None:
            columns |= {name: columns[name].cast(pl.Int64) for name in ("lower", "upper")}
        return counts | columns

    def shares(
        self,
        values: tuple[Floats, Floats],
        variances: tuple[Floats, Floats, Floats],
        published: tuple[Integers, Integers] | None,
    ) -> dict[str, pl.Series]:
        """The columns of shares: parts, wholes, and the variances of both and their covariances."""
        (part, whole), (first, second, shared) = values, variances
        quantile = float(ndtri(0.5 + self.level / 2))
        determined = np.isfinite(first) & np.isfinite(second)
        known = determined & (whole > quantile * np.sqrt(np.where(determined, second, 0.0)))
        divisor = np.where(known, whole, 1.0)
        share = np.where(known, part, 0.0) / divisor
        # The delta method: the gradient of a / b is (1, -a / b) / b.
        spread = np.where(known, first - 2 * share * shared + share**2 * second, 0.0)
        errors = np.sqrt(np.maximum(spread, 0.0)) / divisor
        low, high = np.full(len(part), np.nan), np.full(len(part), np.nan)
        if self.model.gaussian:
            for row in np.flatnonzero(known).tolist():
                pair = np.array([[first[row], shared[row]], [shared[row], second[row]]])
                low[row], high[row] = fieller_ends(np.array([part[row], whole[row]]), pair, quantile, 1.0)
        reasons = [NOT_DETERMINED if not sure else SMALL for sure in determined.tolist()]
        counts, number = {}, None
        if published is not None:
            number = published[0] / np.where(published[1] > 0, published[1], np.nan)
            counts = {"count": pl.Series(published[0]), "of": pl.Series(published[1])}
            counts["published"] = pl.Series(number).fill_nan(None)
        return counts | self._columns((share, errors, low, high), number, known, reasons, SHARE_DECIMALS)

    def _columns(
        self,
        numbers: tuple[Floats, Floats, Floats, Floats],
        published: Floats | None,
        known: NDArray[np.bool_],
        reasons: Sequence[str],
        decimals: int,
    ) -> dict[str, pl.Series]:
        values, errors, low, high = (np.where(known, part, np.nan) for part in numbers)
        shown = values if published is None else published
        usable = (high - low) / 2 <= self.limit * np.abs(shown)
        has_ends = pl.Series(np.isfinite(low))
        lacking = [None if sure else reason for sure, reason in zip(known.tolist(), reasons, strict=True)]
        columns = {
            name: pl.Series(part).fill_nan(None).round(decimals)
            for name, part in (
                ("estimate", values),
                ("standard_error", errors),
                ("lower", low),
                ("upper", high),
            )
        }
        return {
            **columns,
            # Where nothing is known, no number is usable. Where the noise has no intervals, nothing is said.
            "usable": pl.Series(usable).set(~has_ends & pl.Series(known), None),
            "lacking": pl.Series(lacking, dtype=pl.String),
        }
