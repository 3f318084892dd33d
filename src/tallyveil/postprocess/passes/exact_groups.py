"""The groups of the first pass: exact answers of invariants and agreements that count every record once.

`first_groups` checks before anything is spent that the exact answers fit each other and the bounds, so that
the passes can always be made. An error names the tables that contradict each other.

`geounits_without_people` reads the bounds of a release that is planned but not made: nobody lives where there
are no units.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tallyveil.arrays import Bools, Integers
from tallyveil.budget.outer_pass import OuterPass
from tallyveil.errors import ConstraintError
from tallyveil.estimation.problem import UNBOUNDED
from tallyveil.geography.spine import Spine
from tallyveil.plans.constraints import Residents
from tallyveil.plans.lifts import possible_cells
from tallyveil.plans.release import StatedPlan
from tallyveil.postprocess.constraint_files import TakenOver
from tallyveil.postprocess.constraints import GEOUNITS_AT_ONCE, ConstraintTable
from tallyveil.postprocess.other_releases import AgreedCounts, agreement_name, resident_levels
from tallyveil.postprocess.passes.class_division import ClassDivision
from tallyveil.postprocess.passes.groups import FixedGroups, PassGroupCounts, groups_of, in_groups
from tallyveil.postprocess.passes.part_limits import (
    cells_of_part,
    refuse_impossible_sizes,
    refuse_totals,
    residents_of,
)
from tallyveil.schema.counts import PublicCounts, TripletSum, row_ranges, sum_triplets, widen_limits
from tallyveil.schema.nested_queries import determines, only_answers, representative_cells
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema


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
        places = np.full(sum(group.size for group in queries), -1, dtype=np.int64)
        places[groups] = answers
        return places if np.array_equal(places[groups], answers) else None


@dataclass(frozen=True, slots=True, eq=False)
class FirstGroups:
    """The groups of the first pass, as they are known before the spend.

    Attributes:
        known: The groups. Classes that bounds divide are divided by facilities (`class_division`).
        division: How they are divided, if the measurements may divide them anew; None if they may not, or if bounds
            divide nothing.
    """

    known: FixedGroups
    division: ClassDivision | None


def first_groups(
    plan: StatedPlan,
    constraints: Sequence[ConstraintTable],
    taken_over: TakenOver,
    spine: Spine,
) -> FirstGroups:
    """The groups of the first pass, after a check that all constraints hold whatever the passes estimate.

    Args:
        plan: The release, with outer passes.
        constraints: Its invariants and bounds.
        taken_over: What it takes over from finished releases.
        spine: The spine that is measured.
    Raises:
        ConstraintError: the exact counts do not count every record once, contradict each other or the bounds, or a
            constraint is on other groups than these.
        ConfigError: the first pass is a lift pass, and its cells do not fit the groups; or the groups do not tell apart
            kinds of households that can have different sizes.
    """
    # Totals of a first lift pass are no groups: they limit the pass itself.
    lift = plan.outer[0] if plan.outer[0].part is not None else None
    records, exact, chosen = covering_counts(plan, constraints, taken_over.agreed, spine)
    queries = tuple(part.query for part in chosen)
    groups = FixedGroups(queries, tuple(_joined(chosen, level) for level in range(spine.n_levels)))
    _refuse_unreachable(records, groups)
    for counts in exact:
        if counts not in chosen:
            _require_implied(records, counts, groups)
    divisions = []
    for table in constraints:
        if not table.is_exact and _divides(records, table, groups):
            # Bounds divide one query at a time; after that the groups are those of both.
            finest = chosen[0].counts[-1]
            divisions.append(ClassDivision(plan.schema, groups.queries[0], finest, table, spine))
            groups = divisions[-1].groups()
    for table in constraints:
        if not table.is_exact:
            _require_within(records, table, groups)
    if lift is not None:
        refuse_totals(lift, groups, cells_of_part(plan.schema, lift, groups), taken_over, spine)
    refuse_impossible_sizes(plan, groups, taken_over.residents, spine)
    is_free = len(divisions) == 1 and _is_free(plan, divisions[0], constraints, taken_over, records)
    return FirstGroups(groups, divisions[0] if is_free else None)


def _is_free(
    plan: StatedPlan,
    division: ClassDivision,
    constraints: Sequence[ConstraintTable],
    taken_over: TakenOver,
    records: "_Records",
) -> bool:
    """Whether everything that is promised before the spend holds however the classes are divided within their bounds.

    All other bounds must be on sums of the exact counts, and no lift pass may look at a kind that shares its class.
    """
    others = (table for table in constraints if table is not division.table and not table.is_exact)
    if not all(
        _bounds_nothing(table) or records.answer_of_groups((division.query,), table.query) is not None
        for table in others
    ):
        return False
    class_of_kind = division.classes.answers_of(division.kind_cells)
    shared = np.bincount(class_of_kind[class_of_kind >= 0], minlength=division.classes.size) > 1
    cells = records.cells[shared[division.classes.answers_of(records.cells)]]
    looked_at = {
        name
        for outer in plan.outer
        if outer.part is not None
        for name in (outer.part, outer.company, outer.at_most, _sizes_of(outer, taken_over))
        if name is not None
    }
    return all(bool((plan.query(name).answers_of(cells) < 0).all()) for name in looked_at)


def _sizes_of(outer: OuterPass, taken_over: TakenOver) -> str | None:
    """The query of the sizes that a pass finds."""
    return None if outer.sizes is None else residents_of(outer.sizes, taken_over).households


def covering_counts(
    plan: StatedPlan,
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
    # The total of the first lift is taken out; it would cover records twice.
    held = None if total is None else agreement_name(total)
    exact = [Exact(counts.name, counts.query, counts.counts) for counts in agreed if counts.name != held]
    exact += [_exact(table, spine) for table in constraints if table.is_exact]
    for counts in exact:
        if not determines(first, counts.query):
            raise ConstraintError(
                f"{counts.name} fixes answers of '{counts.query.name}', and the first outer pass cannot keep them: "
                f"these "
                "answers "
                f"are no sums of the cells '{first.name}'. Give the first pass finer cells, or leave out "
                f"{counts.name}.",
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
    answers = [counts.query.answers_of(records.cells) for counts in exact]
    # The query with most answers first: coarser counts are then sums of what was taken.
    finest_first = sorted(zip(exact, answers, strict=True), key=lambda pair: -len(np.unique(pair[1])))
    for counts, count_answers in finest_first:
        left = np.setdiff1d(count_answers[count_answers >= 0], count_answers[counted])
        overlaps = bool((counted & (count_answers >= 0)).any())
        if len(counts.counts) < records.spine.n_levels or (overlaps and not len(left)):
            continue
        # Of an overlapping query only the answers that nothing finer counts.
        part = replace(counts, query=only_answers(counts.query, left)) if overlaps else counts
        inside = part.query.answers_of(records.cells) >= 0
        if not (counted & inside).any():
            chosen.append(part)
            counted |= inside
    finest = records.spine.geolevels[-1]
    if not counted.all():
        given = "; ".join(f"{counts.name} on '{counts.query.name}'" for counts in exact)
        raise ConstraintError(
            "outer passes need exact counts that count every record once at every geolevel. Nothing fixes how many "
            f"records with {records.label(int(np.argmin(counted)))} there are in each {finest}. Add an [[agreement]] "
            f"with a finished release, or [[invariants]] at {finest}, whose query counts them. Given: "
            f"{given or 'none'}.",
            code="passes-groups",
        )
    queries = [part.query for part in chosen]
    for counts in exact:
        if records.answer_of_groups(queries, counts.query) is None:
            raise ConstraintError(
                f"{counts.name}, on '{counts.query.name}', divides records that other exact counts take together "
                f"({', '.join(other.name for other in chosen)}), and does not count all of these by itself. Outer "
                "passes cannot keep both. Make them one query that counts every record once, or leave one out.",
                code="passes-groups",
            )
    return chosen


def _joined(chosen: Sequence[Exact], level: int) -> PassGroupCounts:
    """Counts of all chosen queries, with groups numbered query by query."""
    queries = tuple(part.query for part in chosen)
    total = TripletSum(chosen[0].counts[level].n_geounits, sum(query.size for query in queries))
    begin = 0
    for part in chosen:
        counts = part.counts[level]
        for start, stop in row_ranges(counts.offsets):
            rows, cells, persons = counts.rows(start, stop)
            answers = part.query.answers_of(cells)
            inside = answers >= 0
            total.add(start + rows[inside], begin + answers[inside], persons[inside])
        begin += part.query.size
    return PassGroupCounts(*total.finish())


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


def _require_implied(records: _Records, exact: Exact, groups: FixedGroups) -> None:
    """Require that counts are the sums of the groups' counts; raises ConstraintError."""
    for level, counts in enumerate(exact.counts):
        stated = in_groups((exact.query,), counts)
        summed = _summed_to(records, exact.query, groups, level)
        size = exact.query.size
        rows = [np.repeat(np.arange(counts.n_geounits), np.diff(given.offsets)) for given in (stated, summed)]
        # Differences of both are summed; what does not cancel is a contradiction, and its geounit is named.
        both = sum_triplets(
            np.concatenate(rows),
            np.concatenate([stated.groups, summed.groups]),
            np.concatenate([stated.counts, -summed.counts.astype(np.int64)]),
            size,
        )
        if len(both[0]):
            raise _contradiction(
                records.spine, level, int(both[0][0]), (exact.name, "the other exact counts")
            )


def _summed_to(records: _Records, query: QueryGroup, groups: FixedGroups, level: int) -> PassGroupCounts:
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
    return PassGroupCounts(*total.finish())


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


def geounits_without_part(
    plan: StatedPlan,
    constraints: Sequence[ConstraintTable],
    agreed: Sequence[AgreedCounts],
    spine: Spine,
) -> Bools:
    """The finest geounits in which no record can belong to the part of the first pass.

    Args:
        plan: The release, whose first pass is a lift pass.
        constraints: Its invariants and bounds.
        agreed: Counts of finished releases that it keeps.
        spine: Its spine.
    Raises:
        ConstraintError: the exact counts do not count every record once.
    """
    records, _, chosen = covering_counts(plan, constraints, agreed, spine)
    inside = plan.query(str(plan.outer[0].part)).answers_of(records.cells) >= 0
    # True until counts show that a record of the part may be there.
    promised = np.ones(spine.n_geounits(spine.finest), dtype=np.bool_)
    for counts in chosen:
        finest = counts.counts[-1]
        answers = counts.query.answers_of(records.cells[inside])
        counted = np.isin(counts.query.answers_of(finest.cells), answers[answers >= 0]) & (finest.counts > 0)
        promised[np.repeat(np.arange(finest.n_geounits), np.diff(finest.offsets))[counted]] = False
    return promised


def geounits_without_people(
    item: Residents, schema: Schema, constraints: Sequence[ConstraintTable], spine: Spine
) -> Bools:
    """The finest geounits in which constraints of a release bar all people who live in units.

    Args:
        item: Who these people are.
        schema: The universe of the release.
        constraints: Its invariants and bounds.
        spine: Its spine.
    Raises:
        SchemaError: the schema has no such attribute or level.
    """
    cells = _cells_of(resident_levels(item, schema)[0], schema)
    promised = np.zeros(spine.n_geounits(spine.finest), dtype=np.bool_)
    for table in constraints:
        answers = table.query.answers_of(cells)
        # Bounds must reach the finest geounits and cover all these people, or they promise nothing.
        if table.of_geounits < spine.finest or bool((answers < 0).any()):
            continue
        wanted = np.unique(answers)
        for start in range(0, len(promised), GEOUNITS_AT_ONCE):
            _, upper = table.bounds_of(spine.finest, start, start + GEOUNITS_AT_ONCE)
            # An upper bound of 0 on every answer with such people promises that there are none.
            promised[start : start + len(upper)] |= (upper[:, wanted] == 0).all(axis=1)
    return promised


def _cells_of(levels: Sequence[Bools], schema: Schema) -> Integers:
    """All cells with allowed levels."""
    codes = np.meshgrid(*(np.flatnonzero(allowed) for allowed in levels), indexing="ij")
    return schema.encode(np.stack([code.reshape(-1) for code in codes], axis=1))
