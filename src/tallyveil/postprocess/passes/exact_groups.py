"""The groups of the first pass: answers that invariants and agreements keep exact, which count every record once.

All of this is checked before anything is spent: whoever may be wrong is named, and the passes can then always be made.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tallyveil.arrays import Integers
from tallyveil.errors import ConstraintError
from tallyveil.estimation.problem import UNBOUNDED
from tallyveil.geography.spine import Spine
from tallyveil.plans.estimating import EstimationPlan
from tallyveil.plans.part_cells import possible_cells
from tallyveil.postprocess.constraints.geolevels import GEOUNITS_AT_ONCE, ConstraintTable
from tallyveil.postprocess.other_releases.agreement import AgreedCounts, agreement_name
from tallyveil.postprocess.other_releases.kept import Kept
from tallyveil.postprocess.passes.bounded_groups import divide_groups
from tallyveil.postprocess.passes.groups import FixedGroups, GroupCounts, groups_of, in_groups
from tallyveil.postprocess.passes.part_limits import cells_of_part, refuse_totals
from tallyveil.postprocess.passes.size_counts import refuse_impossible_sizes
from tallyveil.universe.counts import PublicCounts, TripletSum, row_ranges, sum_triplets
from tallyveil.universe.limits import widen_limits
from tallyveil.universe.nested_queries import determines, only_answers, representative_cells
from tallyveil.universe.query_group import QueryGroup


@dataclass(frozen=True, slots=True, eq=False)
class Exact:
    """Counts that are exact at some geolevels.

    Attributes:
        name: Name in errors.
        query: The query.
        counts: Counts of geolevels from the root down; each answer by its representative cell.
    """

    name: str
    query: QueryGroup
    counts: tuple[PublicCounts, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Records:
    """What the first pass tells apart: one cell for each of its possible answers.

    Attributes:
        first: Cells of the first pass.
        cells: The representative cell of each possible answer.
        spine: The spine that is measured.
    """

    first: QueryGroup
    cells: Integers
    spine: Spine

    def label(self, number: int) -> str:
        """What a record of a cell is, in words."""
        labels = self.first.label(int(self.first.answers_of(self.cells[number])))
        return ", ".join(f"{name}={text}" for name, text in labels.items()) or "any levels"

    def answer_of_groups(self, queries: Sequence[QueryGroup], query: QueryGroup) -> Integers | None:
        """The answer of `query` that each group lies in, -1 for none; None where a group is in several answers."""
        groups, answers = groups_of(queries, self.cells), query.answers_of(self.cells)
        places = np.full(sum(one.size for one in queries), -1, dtype=np.int64)
        places[groups] = answers
        return places if np.array_equal(places[groups], answers) else None


def first_groups(
    plan: EstimationPlan,
    constraints: Sequence[ConstraintTable],
    kept: Kept,
    spine: Spine,
) -> FixedGroups:
    """The groups of the first pass, after a check that all constraints hold whatever the passes estimate.

    Args:
        plan: The release, with outer passes.
        constraints: Its invariants and bounds.
        kept: What it takes over from finished releases.
        spine: The spine that is measured.
    Raises:
        ConstraintError: the exact counts do not count every record once, contradict each other or the bounds, or a
            constraint is on other groups than these.
        ConfigError: the first pass is a lift pass, and its cells do not fit the groups; or the groups do not tell apart
            kinds of households that can have different sizes.
    """
    lift = plan.outer[0] if plan.outer[0].part is not None else None
    records, exact, chosen = covering_counts(plan, constraints, kept.agreed, spine)
    queries = tuple(one.query for one in chosen)
    groups = FixedGroups(queries, tuple(_joined(chosen, level) for level in range(spine.n_levels)))
    _refuse_unreachable(records, groups)
    for one in exact:
        if one not in chosen:
            _require_implied(records, one, groups)
    for table in constraints:
        if not table.is_exact and _divides(records, table, groups):
            finest = chosen[0].counts[-1]
            groups = divide_groups(plan.schema, queries[0], finest, table, spine)
            queries = groups.queries
    for table in constraints:
        if not table.is_exact:
            _require_within(records, table, groups)
    if lift is not None:
        refuse_totals(lift, groups, cells_of_part(plan.schema, lift, groups), kept, spine)
    refuse_impossible_sizes(plan, groups, kept.residents, spine)
    return groups


def covering_counts(
    plan: EstimationPlan,
    constraints: Sequence[ConstraintTable],
    agreed: Sequence[AgreedCounts],
    spine: Spine,
) -> tuple["_Records", list[Exact], list[Exact]]:
    """All exact counts, and those among them that count every record once.

    Only queries and geolevels matter here, and no counts. So releases that do not exist yet may be agreed with.

    Raises:
        ConstraintError: no exact counts count every record once, or others are neither sums of theirs nor apart.
    """
    first = plan.query(plan.outer[0].cells)
    records = _Records(first, possible_cells(plan.schema, first), spine)
    total = plan.outer[0].total
    held = None if total is None else agreement_name(total)
    exact = [Exact(one.name, one.query, one.counts) for one in agreed if one.name != held]
    exact += [_exact(table, spine) for table in constraints if table.is_exact]
    for one in exact:
        if not determines(first, one.query):
            raise ConstraintError(
                f"{one.name} fixes answers of '{one.query.name}', and the first outer pass cannot keep them: these "
                "answers "
                f"are no sums of the cells '{first.name}'. Give the first pass finer cells, or leave out {one.name}.",
                code="passes-groups",
            )
    return records, exact, _covering(records, exact)


def _divides(records: _Records, table: ConstraintTable, groups: FixedGroups) -> bool:
    """Whether bounds divide the groups in a way that can be fixed first; see `bounded_groups`."""
    return (
        len(groups.queries) == 1
        and table.groups is None
        and len(table.lower) == records.spine.n_levels
        and not _bounds_nothing(table)
        and records.answer_of_groups(groups.queries, table.query) is None
        and bool((table.query.answers_of(records.cells) >= 0).all())
        and determines(records.first, table.query)
    )


def _exact(table: ConstraintTable, spine: Spine) -> Exact:
    """An invariant as sparse counts; raises ConstraintError where its geounits are no geounits of the spine."""
    if table.groups is not None:
        raise ConstraintError(
            f"{table.name} is stated for {table.stated}, whose geounits the steps of the spine cut. Outer passes keep "
            f"exact counts of geounits of the spine only: {', '.join(spine.geolevels)}. State it for one of these, or "
            "leave it out.",
            code="passes-groups",
        )
    counts = []
    for level in range(len(table.lower)):
        n_geounits = spine.n_geounits(level)
        total = TripletSum(n_geounits, table.query.n_cells)
        for start in range(0, n_geounits, GEOUNITS_AT_ONCE):
            values, _ = table.bounds_of(level, start, start + GEOUNITS_AT_ONCE)
            rows, answers = np.nonzero(values)
            total.add(start + rows, representative_cells(table.query, answers), values[rows, answers])
        counts.append(PublicCounts(spine.geolevels[level], *total.finish()))
    return Exact(table.name, table.query, tuple(counts))


def _covering(records: _Records, exact: Sequence[Exact]) -> list[Exact]:
    """Those exact counts that together count every record once, with the finest groups.

    Of counts that overlap with finer ones, the answers are taken that no finer ones count. Example: one release has
    published occupied and vacant units, and another one householders by age. Householders are counted by age, and
    vacant units by the first release.

    Raises:
        ConstraintError: there are no such counts, or others are neither sums of theirs nor apart from them.
    """
    chosen: list[Exact] = []
    counted = np.zeros(len(records.cells), dtype=np.bool_)
    answers = [one.query.answers_of(records.cells) for one in exact]
    finest_first = sorted(zip(exact, answers, strict=True), key=lambda pair: -len(np.unique(pair[1])))
    for one, own in finest_first:
        left = np.setdiff1d(own[own >= 0], own[counted])
        overlaps = bool((counted & (own >= 0)).any())
        if len(one.counts) < records.spine.n_levels or (overlaps and not len(left)):
            continue
        part = replace(one, query=only_answers(one.query, left)) if overlaps else one
        inside = part.query.answers_of(records.cells) >= 0
        if not (counted & inside).any():
            chosen.append(part)
            counted |= inside
    finest = records.spine.geolevels[-1]
    if not counted.all():
        given = "; ".join(f"{one.name} on '{one.query.name}'" for one in exact)
        raise ConstraintError(
            "outer passes need exact counts that count every record once at every geolevel. Nothing fixes how many "
            f"records with {records.label(int(np.argmin(counted)))} there are in each {finest}. Add an [[agreement]] "
            f"with a finished release, or [[invariants]] at {finest}, whose query counts them. Given: "
            f"{given or 'none'}.",
            code="passes-groups",
        )
    queries = [one.query for one in chosen]
    for one in exact:
        if records.answer_of_groups(queries, one.query) is None:
            raise ConstraintError(
                f"{one.name}, on '{one.query.name}', divides records that other exact counts take together "
                f"({', '.join(other.name for other in chosen)}), and does not count all of these by itself. Outer "
                "passes cannot keep both. Make them one query that counts every record once, or leave one out.",
                code="passes-groups",
            )
    return chosen


def _joined(chosen: Sequence[Exact], level: int) -> GroupCounts:
    """Counts of all chosen queries, with groups numbered query by query."""
    queries = tuple(one.query for one in chosen)
    total = TripletSum(chosen[0].counts[level].n_geounits, sum(query.size for query in queries))
    begin = 0
    for one in chosen:
        counts = one.counts[level]
        for start, stop in row_ranges(counts.offsets):
            rows, cells, persons = counts.rows(start, stop)
            answers = one.query.answers_of(cells)
            inside = answers >= 0
            total.add(start + rows[inside], begin + answers[inside], persons[inside])
        begin += one.query.size
    return GroupCounts(*total.finish())


def _refuse_unreachable(records: _Records, groups: FixedGroups) -> None:
    """Refuse records in groups all of whose cells are structural zeros."""
    reached = np.zeros(groups.size, dtype=np.bool_)
    reached[groups.groups_of(records.cells)] = True
    finest = groups.levels[-1]
    wrong = np.flatnonzero(~reached[finest.groups])
    if len(wrong):
        geounit = int(np.searchsorted(finest.offsets, wrong[0], side="right")) - 1
        raise _contradiction(
            records.spine, records.spine.finest, geounit, ("the exact counts", "the structural zeros")
        )


def _require_implied(records: _Records, one: Exact, groups: FixedGroups) -> None:
    """Require that counts are the sums of the groups' counts; raises ConstraintError."""
    for level, counts in enumerate(one.counts):
        stated = in_groups((one.query,), counts)
        summed = _summed_to(records, one.query, groups, level)
        size = one.query.size
        rows = [np.repeat(np.arange(counts.n_geounits), np.diff(given.offsets)) for given in (stated, summed)]
        both = sum_triplets(
            np.concatenate(rows),
            np.concatenate([stated.groups, summed.groups]),
            np.concatenate([stated.counts, -summed.counts.astype(np.int64)]),
            size,
        )
        if len(both[0]):
            raise _contradiction(records.spine, level, int(both[0][0]), (one.name, "the other exact counts"))


def _summed_to(records: _Records, query: QueryGroup, groups: FixedGroups, level: int) -> GroupCounts:
    """The groups' counts, added up to the answers of a query that takes groups together."""
    counts = groups.levels[level]
    answer_of = records.answer_of_groups(groups.queries, query)
    total = TripletSum(len(counts.offsets) - 1, query.size)
    for start, stop in row_ranges(counts.offsets):
        entries = slice(int(counts.offsets[start]), int(counts.offsets[stop]))
        rows = np.repeat(np.arange(start, stop), np.diff(counts.offsets[start : stop + 1]))
        answers = np.full(len(rows), -1) if answer_of is None else answer_of[counts.groups[entries]]
        inside = answers >= 0
        total.add(rows[inside], answers[inside], counts.counts[entries][inside])
    return GroupCounts(*total.finish())


def _require_within(records: _Records, table: ConstraintTable, groups: FixedGroups) -> None:
    """Require that bounds hold whatever the passes estimate, as bounds on sums of groups do; raises ConstraintError."""
    if _bounds_nothing(table):
        return
    if table.groups is not None or records.answer_of_groups(groups.queries, table.query) is None:
        raise ConstraintError(
            f"{table.name}, bounds on '{table.query.name}', divide records that the exact counts take together, or are "
            "stated for geounits that the spine cuts. Outer passes could break them. Bound sums of the exact counts, "
            "or leave the bounds out.",
            code="passes-groups",
        )
    for level in range(len(table.lower)):
        counts = _summed_to(records, table.query, groups, level)
        for start in range(0, records.spine.n_geounits(level), GEOUNITS_AT_ONCE):
            lower, upper = table.bounds_of(level, start, start + GEOUNITS_AT_ONCE)
            begin = counts.offsets[start : start + len(lower) + 1]
            entries = slice(int(begin[0]), int(begin[-1]))
            dense = np.zeros(lower.shape, dtype=np.int64)
            rows = np.repeat(np.arange(len(lower)), np.diff(begin))
            dense[rows, counts.groups[entries]] = counts.counts[entries]
            wrong = np.flatnonzero(((dense < lower) | (dense > upper)).any(axis=1))
            if len(wrong):
                names = ("the exact counts", table.name)
                raise _contradiction(records.spine, level, start + int(wrong[0]), names)


def _bounds_nothing(table: ConstraintTable) -> bool:
    return all(not lower.any() for lower in table.lower) and all(
        bool((widen_limits(upper) >= UNBOUNDED).all()) for upper in table.upper
    )


def _contradiction(spine: Spine, level: int, geounit: int, names: tuple[str, str]) -> ConstraintError:
    return ConstraintError(
        f"{spine.geolevels[level]} '{spine.geocodes[level][geounit]}': {names[0]} and {names[1]} contradict each "
        "other. Correct one of them. Nothing was spent.",
        code="constraints-conflict",
    )
