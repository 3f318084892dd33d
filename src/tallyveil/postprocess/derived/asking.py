"""What a question means in a release: the areas of its rows, and what is said of each attribute.

Classes. Levels of an attribute that the question never tells apart are one class. The query by classes of all
attributes (`base`) is what is estimated, and every count is a sum of its answers.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.estimation.intervals.regions import Region
from tallyveil.geography.areas import Hierarchies
from tallyveil.geography.entities import EntityFamily
from tallyveil.postprocess.derived.district import area_family, area_members
from tallyveil.postprocess.derived.numbers import VALUES
from tallyveil.postprocess.derived.question import Condition, Question, refused
from tallyveil.postprocess.intervals.areas import family_counts
from tallyveil.postprocess.intervals.model import FinishedRelease
from tallyveil.printable import short_name
from tallyveil.schema.attribute import Attribute
from tallyveil.schema.counts import PublicCounts
from tallyveil.schema.names import closest_hint
from tallyveil.schema.query_group import Factor, QueryGroup
from tallyveil.schema.schema import Schema

MOST_ROWS: Final = 200_000
"""Rows of an answer. More are a table of the release, which `tallyveil intervals` writes part by part. Twice as many
take twice the time and memory."""
MOST_ANSWERS: Final = 4096
"""Counts of one area by classes, or of one index, of which a square matrix is in memory: 128 MiB. Twice as many take
four times that."""
MOST_NUMBERS: Final = 1 << 24
"""Counts of all areas by classes, 128 MiB of whole numbers. Twice as many take twice that."""
ALL: Final = "all"
"""Name of the area that is the whole release."""


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """What a question says of one attribute.

    Attributes:
        name: The attribute or recode of the rows; None if it makes none.
        labels: Labels of its groups that have a level left.
        counted: Whether each level is counted in each group; shape (groups, levels).
        whole: The same for the denominator of a share.
        is_measured: Whether the groups are the levels of a measure, and make no rows.
    """

    name: str | None
    labels: tuple[str, ...]
    counted: NDArray[np.bool_]
    whole: NDArray[np.bool_]
    is_measured: bool = False

    def classes(self) -> tuple[NDArray[np.int32], Integers]:
        """The class of each level, and a level of each class. Levels of one class are never told apart."""
        return classes_of(np.concatenate([self.counted, self.whole]))


def classes_of(marks: NDArray[np.bool_]) -> tuple[NDArray[np.int32], Integers]:
    """The class of each level, and a level of each class, by what is said of levels; shape (marks, levels)."""
    _, first, codes = np.unique(marks, axis=1, return_index=True, return_inverse=True)
    of_level = codes.reshape(-1).astype(np.int32)
    of_level.flags.writeable = False
    return of_level, first.astype(np.int64)


def factor_of_classes(attribute: Attribute, codes: NDArray[np.int32], first: Integers) -> Factor:
    """The levels of an attribute by classes; it is summed out if there is one class."""
    labels = tuple(attribute.levels[level] for level in first)
    # Without a name, the attribute is summed out; its one class has all levels then.
    return Factor(attribute.name, None if len(first) == 1 else attribute.name, (codes,), labels)


@dataclass(frozen=True, slots=True, eq=False)
class Asking:
    """A question that is understood, and the release that is asked.

    Attributes:
        question: The question.
        release: The release.
        names: Names of the areas of the rows.
        family: Their finest geounits.
        minus: The finest geounits that are subtracted; None for none.
        axes: What is said of each attribute, in the order of the schema.
        base: The query by classes.
        counted: How often every count of an area has each answer of `base`; shape (counts, answers).
        whole: The same of every denominator.
        is_by_area: Whether the rows name their area.
        counts: The published counts of finest geounits; None without counts in the folder.
    """

    question: Question
    release: FinishedRelease
    names: list[str]
    family: EntityFamily
    minus: Integers | None
    axes: list[Axis]
    base: QueryGroup
    counted: Integers
    whole: Integers
    is_by_area: bool
    counts: PublicCounts | None

    @property
    def rows(self) -> int:
        """Number of counts of all areas."""
        return len(self.names) * len(self.counted)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of groups of each attribute, whose product is that of the counts of one area."""
        return tuple(len(axis.labels) for axis in self.axes)

    def regions(self) -> list[Region]:
        """The areas of the rows, less what is subtracted."""
        regions = [region_of_all(self.family.members_of(number)) for number in range(len(self.names))]
        if self.minus is None:
            return regions
        regions = [region - region_of_all(self.minus) for region in regions]
        # A quotient of differences may be any number, and its interval is that of a share, between 0 and 1.
        is_quotient = self.question.share_of is not None or self.question.is_deviation
        if is_quotient and any((region.weights < 0).any() for region in regions):
            raise refused(
                "a share or a deviation is asked for of areas from which others are subtracted that are no part of "
                "them. Subtract only areas that lie in every area of the rows."
            )
        return regions

    def published(self, weights: Integers, family: EntityFamily | None = None) -> Integers | None:
        """Published counts of the areas of the rows, or of other areas.

        Args:
            weights: How often each answer of `base` is counted; shape (sums, answers).
            family: The other areas, less nothing; None for those of the rows.
        Returns:
            Shape (areas, sums); None without counts in the folder.
        """
        if self.counts is None:
            return None
        answers = family_counts(self.counts, family or self.family, [self.base])
        if family is None and self.minus is not None:
            less = family_of([self.minus], self.family.n_finest)
            answers = answers - family_counts(self.counts, less, [self.base])
        sums: Integers = answers @ weights.T
        return sums

    @property
    def measured(self) -> int:
        """Place of the attribute of the measure."""
        return next(place for place, axis in enumerate(self.axes) if axis.is_measured)

    def by_level(self, counts: NDArray[Any]) -> NDArray[Any]:
        """Numbers of all counts (areas, counts, ...) with the levels of the measure at the end of each row.

        Returns:
            Shape (areas, rows of an area, levels, ...).
        """
        parts = counts.reshape(len(counts), *self.shape, *counts.shape[2:])
        last = np.moveaxis(parts, 1 + self.measured, len(self.shape))
        levels = self.shape[self.measured]
        return last.reshape(len(counts), len(self.counted) // levels, levels, *counts.shape[2:])

    def compared(self) -> tuple[EntityFamily, list[int]]:
        """The parts that an index compares, area by area, and where those of each area begin and the last ones end.

        Of an index that compares none, the whole of each area is its only part.
        """
        units = list(self._units())
        family = family_of([unit for parts in units for unit in parts], self.family.n_finest)
        return family, np.cumsum([0, *(len(parts) for parts in units)]).tolist()

    def _units(self) -> Iterator[list[Integers]]:
        across, spine = self.question.across, self.release.spine
        if across is None:
            yield from ([self.family.members_of(number)] for number in range(len(self.names)))
            return
        known = [spine.geolevels[level] for level in self.release.hierarchies.known_levels]
        ancestors = spine.ancestors(spine.level_index(known_name(across, known, "geolevel of this release")))
        for number in range(len(self.names)):
            members = self.family.members_of(number)
            order = np.argsort(ancestors[members], kind="stable")
            cuts = np.flatnonzero(np.diff(ancestors[members][order])) + 1
            yield [np.sort(part) for part in np.split(members[order], cuts)]

    def labelled(self) -> dict[str, pl.Series]:
        """The columns that say what each row is: the area, and the label of every attribute or recode."""
        axes = [axis for axis in self.axes if not axis.is_measured]
        shape = [len(axis.labels) for axis in axes]
        n = math.prod(shape)
        groups = np.unravel_index(np.arange(n), shape)
        columns = {}
        if self.is_by_area:
            names = np.repeat(np.arange(len(self.names)), n)
            columns["geocode"] = pl.Series(self.names, dtype=pl.String).gather(names)
        for axis, group in zip(axes, groups, strict=True):
            if axis.name is not None:
                labels = pl.Series(axis.labels, dtype=pl.String)
                columns[axis.name] = labels.gather(np.tile(group, len(self.names)))
        return columns


def asking(
    question: Question,
    release: FinishedRelease,
    counts: PublicCounts | None,
    districts: Mapping[str, pl.Series] | None,
) -> Asking:
    """What a question means in a release.

    Args:
        question: The question.
        release: The release.
        counts: Its published counts of finest geounits; None without counts in the folder.
        districts: Geocodes of each area of the rows, by its name: of finest geounits, or of other areas in it; None for
            the areas that the question names.
    Raises:
        ConfigError: the question names something that the release does not have, contradicts itself, or is too large.
        GeographyError: an area does not exist.
    """
    kind, axes = _understood(question, release)
    names, family, minus = _areas_of(question, kind, release.hierarchies, districts)
    base, counted, whole = _queries(axes, release.schema)
    _refuse_large(len(names), len(counted), base.size)
    is_by_area = kind is not None or question.areas is not None or districts is not None
    return Asking(question, release, names, family, minus, axes, base, counted, whole, is_by_area, counts)


def _understood(question: Question, release: FinishedRelease) -> tuple[str | None, list[Axis]]:
    """The geolevel or family of the rows, and what is said of each attribute."""
    schema = release.schema
    names, kinds = names_of_rows(question, schema, release.hierarchies)
    if len(kinds) > 1:
        raise refused(f"the rows are by {kinds[0]!r} and by {kinds[1]!r}. Keep one geolevel or family.")
    what = "attribute or recode of this release"
    groups = {known_name(name, schema.factor_names, what): given for name, given in question.groups.items()}
    factors: dict[str, Factor] = {}
    for name in names:
        (factor,) = schema.query(name).named_factors
        if factor.attribute in factors:
            raise refused(
                f"the rows are by {factors[factor.attribute].name!r} and by {name!r}, which are both of attribute "
                f"{factor.attribute!r}. Keep one of them."
            )
        factors[factor.attribute] = _grouped(schema, factor, groups[name]) if name in groups else factor
    conditions = [_condition(schema, condition) for condition in question.where]
    denominator_names: list[str] = []
    if question.share_of is not None:
        asked = [*(str(factor.name) for factor in factors.values()), *(name for name, _, _ in conditions)]
        denominator_names = [
            known_name(name, asked, "attribute or recode of the question") for name in question.share_of
        ]
    axes = [
        _axis(schema, axis, factors.get(attribute.name), conditions, denominator_names)
        for axis, attribute in enumerate(schema.attributes)
    ]
    if question.measure is not None:
        axes = _measured(question, axes, list(factors.values()))
    for axis in axes:
        if axis.name in VALUES and not axis.is_measured:
            raise refused(
                f"{axis.name!r} is a column of numbers of an answer. Ask by a recode with another name."
            )
    return (kinds[0] if kinds else None), axes


def _grouped(schema: Schema, factor: Factor, groups: Sequence[Condition]) -> Factor:
    """An attribute or a recode with the groups that a question defines."""
    labels = tuple(group.name for group in groups)
    if not labels or not all(labels) or len(set(labels)) < len(labels):
        raise refused(
            f"two groups of {factor.name!r} have the same label, a label is empty, or there is no group. "
            "Give each group its own label."
        )
    codes = np.full(factor.n_levels, -1, np.int32)
    for number, group in enumerate(groups):
        levels = _condition(schema, group._replace(name=str(factor.name)))[2]
        if (codes[levels] >= 0).any():
            raise refused(
                f"the group {short_name(group.name)!r} of {factor.name!r} has a level of an earlier group, so that "
                "the rows would not add up. Give each level to one group only."
            )
        codes[levels] = number
    codes.flags.writeable = False
    return replace(factor, layers=(codes,), labels=labels)


def names_of_rows(
    question: Question, schema: Schema, hierarchies: Hierarchies
) -> tuple[list[str], list[str]]:
    """The attributes and recodes, and the geolevels and families, that the rows of a question are by.

    Raises:
        ConfigError: the release has no such name.
    """
    kinds = _kinds(hierarchies)
    what = "attribute, recode, geolevel or family of this release"
    known = [known_name(name, (*schema.factor_names, *kinds), what) for name in question.by]
    factors = [name for name in known if name in schema.factor_names]
    return factors, [name for name in known if name not in schema.factor_names]


def _measured(question: Question, axes: list[Axis], factors: list[Factor]) -> list[Axis]:
    """The axes, with the first name of the question as that of the measure."""
    assert question.measure is not None
    name = question.by[0]
    factor = next((item for item in factors if str(item.name).casefold() == name.casefold()), None)
    if factor is None:
        raise refused(
            f"{short_name(name)!r} is no attribute or recode of this release, so that it has no measure."
        )
    place = next(number for number, axis in enumerate(axes) if axis.name == factor.name)
    if len(factor.layers) > 1:
        raise refused(
            f"groups of {factor.name!r} overlap, so that it has no measure. Ask of the attribute itself."
        )
    if len(axes[place].labels) < 2:
        raise refused(
            f"{factor.name!r} has the one level {axes[place].labels[0]!r} in the question, so that it has no measure. "
            "Leave the condition out, or name more levels."
        )
    return [replace(axis, is_measured=number == place) for number, axis in enumerate(axes)]


def _kinds(hierarchies: Hierarchies) -> list[str]:
    """Geolevels and families that readers know."""
    levels = (hierarchies.spine.geolevels[level] for level in hierarchies.known_levels)
    return [*levels, *(family.name for family in (*hierarchies.replaced, *hierarchies.families))]


def known_name(name: str, known: Sequence[str], what: str) -> str:
    """The known name that is meant: the same, or the only one that is the same without regard to case."""
    if name in known:
        return name
    alike = [other for other in known if other.casefold() == name.casefold()]
    if len(alike) == 1:
        return alike[0]
    raise refused(f"{short_name(name)!r} is no {what}. {closest_hint(name, known)}")


def _condition(schema: Schema, condition: Condition) -> tuple[str, str, NDArray[np.bool_]]:
    """The name of a condition, its attribute, and which levels satisfy it."""
    name = known_name(condition.name, schema.factor_names, "attribute or recode of this release")
    (factor,) = schema.query(name).named_factors
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
    levels: NDArray[np.bool_] = np.logical_or.reduce(masks_of(factor)[groups])
    return name, factor.attribute, levels


def masks_of(factor: Factor) -> NDArray[np.bool_]:
    """Whether each level is in each group; shape (groups, levels)."""
    groups = np.arange(factor.size)[:, None]
    masks: NDArray[np.bool_] = np.logical_or.reduce([layer[None, :] == groups for layer in factor.layers])
    return masks


def _axis(
    schema: Schema,
    axis: int,
    factor: Factor | None,
    conditions: Sequence[tuple[str, str, NDArray[np.bool_]]],
    denominator_names: Sequence[str],
) -> Axis:
    attribute = schema.attributes[axis]
    every = np.ones(attribute.size, np.bool_)
    inside, whole_inside = every, every
    for name, of, levels in conditions:
        if of == attribute.name:
            inside = inside & levels
            whole_inside = whole_inside & levels if name in denominator_names else whole_inside
    masks, labels = (every[None], ("",)) if factor is None else (masks_of(factor), factor.labels)
    counted = masks & inside
    left = np.flatnonzero(counted.any(axis=1))
    if not len(left):
        named = [repr(name) for name, of, _ in conditions if of == attribute.name]
        rows = [] if factor is None else [repr(factor.name)]
        raise refused(
            f"no level of {attribute.name!r} is left by what is said of {', '.join(dict.fromkeys([*rows, *named]))}: "
            "the conditions contradict each other. Leave one out, or name levels that they share."
        )
    is_kept = factor is not None and factor.name in denominator_names
    whole = masks & whole_inside if is_kept else np.broadcast_to(whole_inside, counted.shape)
    row_name = None if factor is None else str(factor.name)
    return Axis(row_name, tuple(labels[group] for group in left), counted[left], whole[left])


def _queries(axes: Sequence[Axis], schema: Schema) -> tuple[QueryGroup, Integers, Integers]:
    """The query by classes; and how often every count and every denominator of an area has each of its answers."""
    factors = []
    counted: Integers = np.ones((1, 1), np.int64)
    whole: Integers = np.ones((1, 1), np.int64)
    for axis, attribute in zip(axes, schema.attributes, strict=True):
        codes, first = axis.classes()
        factors.append(factor_of_classes(attribute, codes, first))
        counted = np.kron(counted, axis.counted[:, first].astype(np.int64))
        whole = np.kron(whole, axis.whole[:, first].astype(np.int64))
        if counted.shape[1] > MOST_ANSWERS or len(counted) > MOST_ROWS:
            _refuse_large(1, len(counted), counted.shape[1])
    return QueryGroup("the question", tuple(factors)), counted, whole


def _refuse_large(n_areas: int, n_answers: int, n_classes: int) -> None:
    levels = "by the levels that the question tells apart"
    for has, most, what in (
        (n_areas * n_answers, MOST_ROWS, "rows"),
        (n_classes, MOST_ANSWERS, f"counts of one area {levels}"),
        (n_areas * n_classes, MOST_NUMBERS, f"counts of all areas {levels}"),
    ):
        if has > most:
            raise refused(
                f"the question needs {has:,} {what}; at most {most:,} are answered. Ask for fewer areas or coarser "
                "recodes, or write whole tables with `tallyveil intervals`."
            )


def _areas_of(
    question: Question,
    kind: str | None,
    hierarchies: Hierarchies,
    districts: Mapping[str, pl.Series] | None,
) -> tuple[list[str], EntityFamily, Integers | None]:
    """Names of the areas of the rows, their finest geounits, and those of the areas that are subtracted."""
    spine, areas = hierarchies.spine, question.areas
    n_finest = spine.n_geounits(spine.finest)

    @cache
    def area(name: str) -> Integers:
        return area_members(hierarchies, name, None)

    def union(names: Sequence[str]) -> Integers:
        """The finest geounits of areas, each once."""
        if not names:
            raise refused("a list of areas is empty. Name one or more areas.")
        return np.unique(np.concatenate([area(name) for name in names]))

    minus = union(question.minus) if question.minus else None
    given = [kind is not None, isinstance(areas, dict), districts is not None]
    if sum(given) > 1 or (districts is not None and areas is not None):
        raise refused(
            "the areas of the rows are given twice: by a geolevel or family, as unions by name, or as districts. Give "
            "one of these."
        )
    members: list[Integers]
    if districts is not None and not _are_coarser(hierarchies, districts):
        named = {f"district {short_name(name)!r}": geocodes for name, geocodes in districts.items()}
        return list(districts), area_family(spine, named), minus
    if districts is not None:
        names, members = list(districts), [union(codes.to_list()) for codes in districts.values()]
    elif isinstance(areas, dict):
        names, members = list(areas), [union(codes) for codes in areas.values()]
    elif kind is None:
        names = [ALL if areas is None else " + ".join(dict.fromkeys(areas))]
        members = [np.arange(n_finest, dtype=np.int64) if areas is None else union(areas)]
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
    return names, family_of(members, n_finest), minus


def _are_coarser(hierarchies: Hierarchies, districts: Mapping[str, pl.Series]) -> bool:
    """Whether districts are given by areas that are no finest geounits, such as towns, as their first code says."""
    spine, first = hierarchies.spine, next(iter(districts.values()))[:1]
    if not len(first) or first.dtype != pl.String or spine.locate(spine.finest, first)[0] >= 0:
        return False
    return any(first[0] in hierarchies.codes_of(kind) for kind in _kinds(hierarchies))


def family_of(members: Sequence[Integers], n_finest: int) -> EntityFamily:
    """Sets of finest geounits as the entities of one family."""
    offsets = np.cumsum([0, *(len(rows) for rows in members)]).astype(np.int64)
    # Padded, so that texts sort as the numbers do: the codes of a family rise.
    numbers = tuple(f"{number:010d}" for number in range(len(members)))
    return EntityFamily("areas", numbers, offsets, np.concatenate(members), n_finest)


def _each(hierarchies: Hierarchies, kind: str) -> list[Integers]:
    """The finest geounits of each area of a geolevel or family, in the order of its codes."""
    for family in (*hierarchies.replaced, *hierarchies.families):
        if family.name == kind:
            return [family.members_of(number) for number in range(family.n_entities)]
    spine = hierarchies.spine
    offsets = spine.finest_offsets(spine.level_index(kind))
    finest = np.arange(offsets[-1], dtype=np.int64)
    return [finest[start:stop] for start, stop in pairwise(offsets.tolist())]


def region_of_all(geounits: Integers) -> Region:
    """The plain set of some finest geounits."""
    return Region(geounits, np.ones(len(geounits)))
