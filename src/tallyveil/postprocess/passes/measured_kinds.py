"""Totals of kinds from measurements: types of group quarters that a small query tells apart.

Before the spend, the people of a class of group quarters are divided among its types by facilities
(`class_division`). A small measured query may tell more. In the DHC, one group of `gq_constr_groups*age_10_groups`
has the people of shelters, nursing homes and hospitals. How many people live in nursing homes is known, and all
other types of the class of hospitals are counted by other groups of the query. So its noisy answers say how
many people live in shelters.

*Parts* of a class are the sets of its kinds that such queries tell apart. A class with several parts is
*split*; the other classes are left as they are. A finest geounit is *open* if its bounds allow more than one
division of a class among parts: for example, if a block has two types of one class and more people than facilities.
All other geounits keep the division by facilities.

*Step.* For one part after another, from the root down: every geounit has an expected number, with a variance,
from the facilities of its open geounits and from its noisy answers (`estimation.kind_totals`). At the root, this
number is rounded; below, the number of the parent is divided among its children. The limits of an open geounit are
chosen so that the part is within its bounds, and the other parts of its class can have the people who are left. The
limits of a geounit above are sums of these. So every division has a solution. Then the numbers of this part are exact,
and the expectations of the next part are conditional on them. The last part of a class is what is left. In the open
geounits, each part is divided among its kinds by facilities.

Numbers are computed as differences from the division by facilities, which is known in every geounit. The result
depends on public counts, bounds and noisy answers alone.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Bools, Floats, Integers
from tallyveil.budget.allocation import Allocation
from tallyveil.estimation.kind_totals import KindTotals, nearest_split, spread_among_facilities
from tallyveil.measurements.answers import MeasurementSource
from tallyveil.plans.release import SMALL_QUERY, StatedPlan
from tallyveil.postprocess.passes.class_division import (
    GEOUNITS_DIVIDED_AT_ONCE,
    ClassDivision,
    KindCounts,
    facility_weights,
    in_proportion,
)
from tallyveil.postprocess.passes.exact_groups import FirstGroups
from tallyveil.postprocess.passes.groups import FixedGroups, PassGroupCounts
from tallyveil.schema.counts import entries_of_rows
from tallyveil.schema.nested_queries import common_groups, counts_all_of, representative_cells
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema


def measured_groups(
    first: FirstGroups, plan: StatedPlan, allocation: Allocation, source: MeasurementSource
) -> FixedGroups:
    """The groups of the first pass, with the totals of kinds that measurements tell apart.

    Args:
        first: The groups as they are known before the spend.
        plan: The release.
        allocation: The share of the budget of each geounit.
        source: Source of the noisy answers.
    Privacy: post-processing of noisy answers that the plan pays for.
    """
    if first.division is None:
        return first.known
    parts = Parts.of(first.division, plan)
    blocks = None if parts is None else _open_geounits(first.division, parts)
    if parts is None or blocks is None:
        return first.known
    levels = [
        _level(first.known, parts, blocks, level, allocation, source)
        for level in range(allocation.spine.n_levels)
    ]
    numbers = _split(parts, blocks, levels)
    return first.division.groups(blocks.kinds(parts, numbers))


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """The finest sums over kinds that answers of a measured query add up to.

    Attributes:
        query: The sums, whose answers are sums of answers of the measured query and of kinds.
        has_part: Whether each sum has each part of the split classes, shape (sums, parts).
        answers: Answers of the measured query that may count records of such a part, ascending.
        sum_of_answer: The sum that each of these answers belongs to.
    """

    query: QueryGroup
    has_part: Bools
    answers: Integers
    sum_of_answer: Integers

    @classmethod
    def of(cls, schema: Schema, measured: QueryGroup, kinds: QueryGroup, sum_of_part: Integers) -> "Sums":
        """The sums of a measured query.

        Args:
            schema: The universe.
            measured: The query.
            kinds: The query of the kinds.
            sum_of_part: The sum that has each part.
        """
        sums = common_groups(measured, kinds)
        has_part = sum_of_part == np.arange(sums.size)[:, None]
        answers = np.sort(schema.possible_answers(measured)).astype(np.int64)
        sum_of_answer = sums.answers_of(representative_cells(measured, answers))
        inside = has_part.any(axis=1)[sum_of_answer]
        return cls(sums, has_part, answers[inside], sum_of_answer[inside])


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """The parts of the split classes, class by class.

    Attributes:
        class_of: Class of each part, shape (parts,).
        kinds: The kinds of each.
        sums: The sums of the queries that tell them apart, by the name of the query.
    """

    class_of: Integers
    kinds: tuple[Integers, ...]
    sums: Mapping[str, Sums]

    @classmethod
    def of(cls, division: ClassDivision, plan: StatedPlan) -> "Parts | None":
        """The parts that the small queries of a plan tell apart; None if they tell none apart."""
        kinds = division.table.query
        class_of_kind = division.classes.answers_of(division.kind_cells)
        # Structural zeros bar all records of a kind without a class.
        numbers = np.flatnonzero(class_of_kind >= 0)
        cells, class_of_kind = division.kind_cells[numbers], class_of_kind[numbers]
        measured = {name: None for level in division.spine.geolevels for name in plan.strategy.queries(level)}
        sums_of = {}
        for name in measured:
            group = plan.query(name)
            if group.overlaps or group.size > SMALL_QUERY:
                continue
            # A query that leaves records out says nothing of all records of a kind.
            if not (counts_all_of(group, kinds) and counts_all_of(kinds, group)):
                continue
            sum_of_kind = common_groups(group, kinds).answers_of(cells)
            pairs = np.unique(np.stack([class_of_kind, sum_of_kind]), axis=1)
            if len(np.unique(pairs[0])) < pairs.shape[1]:
                sums_of[name] = sum_of_kind
        signs = np.stack([class_of_kind, *sums_of.values()])
        signature, part_of_kind = np.unique(signs, axis=1, return_inverse=True)
        n_parts = np.bincount(signature[0])
        split = np.flatnonzero(n_parts[signature[0]] > 1)
        if not len(split):
            return None
        members = tuple(numbers[part_of_kind.reshape(-1) == part] for part in split)
        sums = {
            name: Sums.of(plan.schema, plan.query(name), kinds, signature[row][split])
            for row, name in enumerate(sums_of, start=1)
        }
        return cls(signature[0][split], members, sums)

    def classes(self) -> Iterator[Integers]:
        """The parts of each split class."""
        for number in np.unique(self.class_of):
            yield np.flatnonzero(self.class_of == number)


@dataclass(frozen=True, slots=True, eq=False)
class OpenGeounits:
    """The finest geounits in which it is open how many records the parts of a class have.

    Attributes:
        geounits: Their numbers, ascending; shape (n,).
        held: Records of each class, shape (n, classes).
        lower, upper: Limits of each kind, shape (n, kinds).
        by_facilities: Records of each kind in proportion to facilities, shape (n, kinds).
    """

    geounits: Integers
    held: Integers
    lower: Integers
    upper: Integers
    by_facilities: Integers

    def limits(self, parts: Parts) -> tuple[Integers, Integers, Integers]:
        """Limits of each part, and its records by facilities; each of shape (n, parts)."""
        upper = np.minimum(self.upper, self.held.sum(axis=1)[:, None])  # below the overflow of a sum
        sums = [
            np.stack([table[:, kinds].sum(axis=1) for kinds in parts.kinds], axis=1)
            for table in (self.lower, upper, self.by_facilities)
        ]
        return sums[0], sums[1], sums[2]

    def covariance(self, parts: Parts) -> Floats:
        """Covariances of the parts, from facilities alone; shape (n, parts, parts)."""
        n_parts = len(parts.kinds)
        covariance = np.zeros((len(self.geounits), n_parts, n_parts))
        for members in parts.classes():
            kinds = np.concatenate([parts.kinds[part] for part in members])
            low, high = self.lower[:, kinds], self.upper[:, kinds]
            weights = facility_weights(low, high)
            part = np.repeat(np.arange(len(members)), [len(parts.kinds[member]) for member in members])
            facilities = np.stack([weights[:, part == k].sum(axis=1) for k in range(len(members))], axis=1)
            rest = self.held[:, parts.class_of[members[0]]] - low.sum(axis=1)
            covariance[:, members[:, None], members] = spread_among_facilities(rest, facilities)
        return covariance

    def kinds(self, parts: Parts, numbers: Integers) -> KindCounts:
        """Counts of kinds, from numbers of records of each part, shape (n, parts)."""
        counts = self.by_facilities.copy()
        for part, kinds in enumerate(parts.kinds):
            divided = in_proportion(numbers[:, part], self.lower[:, kinds], self.upper[:, kinds])
            counts[:, kinds] = divided
        return KindCounts(self.geounits, counts)


def _open_geounits(division: ClassDivision, parts: Parts) -> OpenGeounits | None:
    """The open geounits; None if there are none."""
    columns: list[tuple[Integers, ...]] = []
    n_geounits = division.spine.n_geounits(division.spine.finest)
    for start in range(0, n_geounits, GEOUNITS_DIVIDED_AT_ONCE):
        stop = min(start + GEOUNITS_DIVIDED_AT_ONCE, n_geounits)
        limits = division.limits(start, stop)
        held, lower, upper = limits
        is_open = np.zeros(stop - start, dtype=np.bool_)
        for members in parts.classes():
            room = [(upper > lower)[:, parts.kinds[part]].any(axis=1) for part in members]
            kinds = np.concatenate([parts.kinds[part] for part in members])
            rest = held[:, parts.class_of[members[0]]] > lower[:, kinds].sum(axis=1)
            is_open |= rest & (np.sum(room, axis=0) > 1)
        if is_open.any():
            tables = (*limits, division.by_facilities(start, limits))
            columns.append((start + np.flatnonzero(is_open), *(table[is_open] for table in tables)))
    return OpenGeounits(*map(np.concatenate, zip(*columns, strict=True))) if columns else None


@dataclass(frozen=True, slots=True, eq=False)
class _Level:
    """What is known at a geolevel, in the geounits that contain open geounits, numbered from 0.

    Attributes:
        place: Number of the geounit that contains each open geounit, shape (open geounits,).
        parent: Number of each geounit's parent in the level above, shape (geounits,).
        totals: What is known of the numbers of the parts.
    """

    place: Integers
    parent: Integers
    totals: KindTotals

    def sums(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Sums over the open geounits in each geounit."""
        sums = np.zeros((len(self.parent), *numbers.shape[1:]), dtype=numbers.dtype)
        np.add.at(sums, self.place, numbers)
        return sums


def _level(
    known: FixedGroups,
    parts: Parts,
    blocks: OpenGeounits,
    level: int,
    allocation: Allocation,
    source: MeasurementSource,
) -> _Level:
    """Expected numbers of the parts at a geolevel, from facilities and its own noisy answers."""
    spine, geolevel = allocation.spine, allocation.spine.geolevels[level]
    geounits, place = np.unique(spine.ancestors(level)[blocks.geounits], return_inverse=True)
    parent = np.zeros(len(geounits), dtype=np.int64)
    if level:
        above = np.unique(spine.ancestors(level - 1)[blocks.geounits])
        ends = spine.child_offsets[level - 1][above + 1]
        parent = np.searchsorted(ends, geounits, side="right")
    n_parts = len(parts.kinds)
    totals = KindTotals(np.zeros((len(geounits), n_parts)), np.zeros((len(geounits), n_parts, n_parts)))
    at_level = _Level(place.reshape(-1), parent, totals)
    totals.covariance += at_level.sums(blocks.covariance(parts))
    for name in allocation.strategy.queries(geolevel):
        if name not in parts.sums:
            continue
        sums = parts.sums[name]
        variances = allocation.variances(geolevel, name, 0, spine.n_geounits(level))[geounits]
        noisy = np.zeros((len(geounits), sums.query.size), dtype=np.int64)
        for begin, end in _runs(geounits):
            span = int(geounits[begin]), int(geounits[end - 1]) + 1
            values = source.measure(geolevel, name, *span, sums.answers).values
            np.add.at(noisy[begin:end].T, sums.sum_of_answer, values.T)
        counted = _sums_of_groups(known, sums.query, known.levels[level], geounits)
        terms = np.bincount(sums.sum_of_answer, minlength=sums.query.size)
        for number in np.flatnonzero(sums.has_part.any(axis=1)):
            # The sum less that of the division by facilities; the variances of the noise of its answers add up.
            beyond = (noisy[:, number] - counted[:, number]).astype(np.float64)
            totals.observe(sums.has_part[number], beyond, variances * terms[number])
    return at_level


def _runs(numbers: Integers) -> Iterator[tuple[int, int]]:
    """Begin and end of each run of consecutive numbers in ascending ones."""
    ends = np.flatnonzero(np.diff(numbers) > 1) + 1
    yield from zip([0, *ends.tolist()], [*ends.tolist(), len(numbers)], strict=True)


def _sums_of_groups(
    known: FixedGroups, sums: QueryGroup, counts: PassGroupCounts, geounits: Integers
) -> Integers:
    """Sums of the counts of groups in some geounits, shape (geounits, sums)."""
    (groups,) = known.queries
    sum_of_group = sums.answers_of(representative_cells(groups, np.arange(groups.size)))
    entries = entries_of_rows(counts.offsets, geounits)
    added = np.zeros((len(geounits), sums.size), dtype=np.int64)
    rows = np.repeat(np.arange(len(geounits)), counts.offsets[geounits + 1] - counts.offsets[geounits])
    np.add.at(added, (rows, sum_of_group[counts.groups[entries]]), counts.counts[entries])
    return added


def _split(parts: Parts, blocks: OpenGeounits, levels: list[_Level]) -> Integers:
    """Records of each part in the open geounits, shape (n, parts); the levels are from the root to the finest."""
    lower, upper, by_facilities = blocks.limits(parts)
    numbers = by_facilities.copy()
    for members in parts.classes():
        left = blocks.held[:, parts.class_of[members[0]]].copy()
        for place, part in enumerate(members[:-1]):
            later = members[place + 1 :]
            # Whatever is left must fit between the limits of the parts after this one.
            least = np.maximum(lower[:, part], left - upper[:, later].sum(axis=1))
            most = np.minimum(upper[:, part], left - lower[:, later].sum(axis=1))
            beyond = _divided_down(
                levels, part, least - by_facilities[:, part], most - by_facilities[:, part]
            )
            numbers[:, part] = by_facilities[:, part] + beyond
            left -= numbers[:, part]
        numbers[:, members[-1]] = left
    return numbers


def _divided_down(levels: list[_Level], part: int, least: Integers, most: Integers) -> Integers:
    """The numbers of a part in open geounits, beyond the division by facilities, from the root down. What the levels
    know of the other parts is conditioned on them.
    """
    above: Integers | None = None
    for at_level in levels:
        mean, variance = at_level.totals.of_kind(part)
        low, high = at_level.sums(least), at_level.sums(most)
        if above is None:
            numbers = np.clip(np.rint(mean), low, high).astype(np.int64)
        else:
            numbers = np.empty_like(low)
            begins = np.searchsorted(at_level.parent, np.arange(len(above) + 1))
            for total, begin, end in zip(above.tolist(), begins[:-1], begins[1:], strict=True):
                family = slice(begin, end)
                numbers[family] = nearest_split(
                    total, mean[family], variance[family], low[family], high[family]
                )
        of_part = np.arange(len(at_level.totals.mean[0])) == part
        at_level.totals.observe(of_part, numbers.astype(np.float64), np.zeros(len(numbers)))
        above = numbers
    return numbers
