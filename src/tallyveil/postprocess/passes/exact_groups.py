"""The groups of the first pass: exact answers of invariants and agreements that count every record once.

`first_groups` checks before anything is spent that the exact answers fit each other and the bounds, so that
the passes can always be made. An error names the tables that contradict each other.

*Groups that bounds divide*: how many records of each kind a finest geounit has is fixed before the first
pass.

An agreement fixes how many people live in each class of group quarters in a block, and facility bounds say
which types of quarters there are: at least one person in each facility, nobody where there is no facility of
a type. Where a block has several types of one class, the people of the class must be divided among the types.
Then the bounds hold whatever the passes estimate, and every family keeps a solution.

Step: in each finest geounit and class, every type gets its lower bound. The others are divided in proportion
to the lower bounds, which count the facilities, by largest remainders; ties go to the first type. Then it is
drawn at random which records of the class have which type (`whole_cells.Choice`), from public counts alone.
No measurement is used. So the types of one class in one block are as unequal as their facilities, and no more
is claimed of them.

Worked case: 10 people in a class, with 1 facility of one type and 2 of another. They get 1 and 2, and of the
other 7 people 2 1/3 and 4 2/3, which is 2 and 5. So 3 people are of the first type and 7 of the second.

`geounits_without_people` reads the bounds of a release that is planned but not made: nobody lives where there
are no units.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tallyveil.arrays import Bools, Integers
from tallyveil.errors import ConstraintError
from tallyveil.estimation.problem import UNBOUNDED
from tallyveil.geography.spine import Spine
from tallyveil.plans.constraints import Residents
from tallyveil.plans.lifts import possible_cells
from tallyveil.plans.release import StatedPlan
from tallyveil.postprocess.constraint_files import TakenOver
from tallyveil.postprocess.constraints import GEOUNITS_AT_ONCE, ConstraintTable
from tallyveil.postprocess.other_releases import AgreedCounts, agreement_name, resident_levels, summed_to_root
from tallyveil.postprocess.passes.groups import FixedGroups, PassGroupCounts, groups_of, in_groups
from tallyveil.postprocess.passes.part_limits import cells_of_part, refuse_impossible_sizes, refuse_totals
from tallyveil.postprocess.passes.whole_cells import Choice, digest_of_counts
from tallyveil.schema.counts import PublicCounts, TripletSum, row_ranges, sum_triplets, widen_limits
from tallyveil.schema.nested_queries import (
    common_groups,
    determines,
    meet,
    only_answers,
    representative_cells,
)
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema

# Geounits with dense counts by kind at once; twice as many need twice the memory, and numbers do not depend on it.
GEOUNITS_DIVIDED_AT_ONCE = 1 << 14


def divide_groups(
    schema: Schema, query: QueryGroup, exact: PublicCounts, table: ConstraintTable, spine: Spine
) -> FixedGroups:
    """Groups that bounds do not divide any more.

    Args:
        schema: The universe.
        query: The query whose answers were the groups; it counts every record once.
        exact: Its counts in the finest geounits; each answer by its representative cell.
        table: Bounds on a query that counts every record once, for the finest geounits.
        spine: The spine that is measured.
    Raises:
        ConstraintError: the bounds contradict the exact counts, or are of a kind that cannot be kept in this way.
    """
    both = meet(query, table.query)
    classes = common_groups(query, table.query)
    _refuse_incomplete(schema, query, table, classes, both)
    # The seed is a digest of published counts: the draw is public, and the same whoever repeats it.
    choice = Choice.of(query, table.query, digest_of_counts(exact))
    total = TripletSum(exact.n_geounits, schema.size)
    for start, stop in row_ranges(exact.offsets, GEOUNITS_DIVIDED_AT_ONCE):
        records = exact.rows(start, stop)
        kinds = _kinds(classes, table, records, (start, stop), spine)
        rows, cells, persons = choice.cells(records, kinds, start, stop - start)
        total.add(start + rows, representative_cells(both, both.answers_of(cells)), persons)
    finest = PublicCounts(exact.geolevel, *total.finish())
    # Summed up from the finest, so that children always add up to their parents in every group.
    counts = summed_to_root(finest, spine, schema.size)
    return FixedGroups((both,), tuple(in_groups((both,), level_counts) for level_counts in counts))


def _refuse_incomplete(
    schema: Schema, query: QueryGroup, table: ConstraintTable, classes: QueryGroup, both: QueryGroup
) -> None:
    """Refuse structural zeros that bar some pairs of an exact answer and a bounded one of the same class."""
    cells = representative_cells(both, np.arange(both.size))
    possible = np.zeros(both.size, dtype=np.bool_)
    possible[schema.possible_answers(both)] = True
    answers, kinds, of_class = (group.answers_of(cells) for group in (query, table.query, classes))
    inside = (answers >= 0) & (kinds >= 0)
    # Answers and kinds that are possible at all must be possible together, if they are of one class.
    answer_possible = np.zeros(query.size, dtype=np.bool_)
    kind_possible = np.zeros(table.query.size, dtype=np.bool_)
    answer_possible[answers[inside & possible]] = True
    kind_possible[kinds[inside & possible]] = True
    # Pairs that are barred although both members occur; with these, records could not be matched freely.
    wanted = inside & ~possible & (of_class >= 0)
    wanted[wanted] = answer_possible[answers[wanted]] & kind_possible[kinds[wanted]]
    if wanted.any():
        first = int(np.argmax(wanted))
        raise ConstraintError(
            f"{table.name}, bounds on '{table.query.name}': structural zeros bar records with "
            f"{_label(table.query, kinds[first])} and {_label(query, answers[first])}, so that the records of a class "
            "cannot be divided freely. Outer passes cannot keep these bounds. Bound sums of the exact counts, or leave "
            "them out.",
            code="passes-groups",
        )


def _kinds(
    classes: QueryGroup,
    table: ConstraintTable,
    records: tuple[Integers, Integers, Integers],
    span: tuple[int, int],
    spine: Spine,
) -> tuple[Integers, Integers, Integers]:
    """How many records of each bounded answer some finest geounits have; each answer by its representative cell."""
    start, stop = span
    lower, upper = table.bounds_of(len(table.lower) - 1, start, stop)
    cells = representative_cells(table.query, np.arange(table.query.size))
    class_of_kind = classes.answers_of(cells)
    held = np.zeros((stop - start, classes.size), dtype=np.int64)
    np.add.at(held, (records[0], classes.answers_of(records[1])), records[2])
    counts = np.zeros(lower.shape, dtype=np.int64)
    for class_number in range(classes.size):
        kinds = np.flatnonzero(class_of_kind == class_number)
        low, high = lower[:, kinds], upper[:, kinds]
        # Checked for every geounit before the spend: the class must fit between the sums of the bounds.
        wrong = (low.sum(axis=1) > held[:, class_number]) | (_most(high) < held[:, class_number])
        if wrong.any():
            geocode = spine.geocodes[spine.finest][start + int(np.argmax(wrong))]
            raise ConstraintError(
                f"{spine.geolevels[-1]} '{geocode}': {table.name} and the exact counts contradict each other: the "
                f"bounds on {_label(table.query, int(kinds[0]))} and its like ask for more records than there "
                "are, or allow fewer. Correct one of them. Nothing was spent.",
                code="constraints-conflict",
            )
        counts[:, kinds] = _divided(held[:, class_number], low, high, table)
    rows, kind = np.nonzero(counts)
    return rows, cells[kind], counts[rows, kind]


def _divided(held: Integers, low: Integers, high: Integers, table: ConstraintTable) -> Integers:
    """Records of a class among its kinds, in each geounit."""
    is_open = high >= UNBOUNDED
    rest = held - low.sum(axis=1)
    # Finite upper bounds above the lower ones would need a division that respects them; none is proved here.
    bounded = ~is_open & (high > low)
    if (bounded.any(axis=1) & ((high > low).sum(axis=1) > 1) & (rest > 0)).any():
        raise ConstraintError(
            f"{table.name}, bounds on '{table.query.name}': where several answers of one group may have records, outer "
            "passes keep upper bounds only if they are absent, or equal to the lower bounds. Correct these bounds.",
            code="passes-groups",
        )
    # Lower bounds count facilities, so they are the weights; kinds without room have none.
    weight = np.where(high > low, low, 0)
    # No facility counted at all: all open kinds alike.
    weight = np.where((high > low) & (weight.sum(axis=1, keepdims=True) == 0), 1, weight)
    whole = np.maximum(weight.sum(axis=1), 1)[:, None]
    # Whole numbers throughout: quotient first, then the largest remainders, so that the sum is exact.
    more, remainder = np.divmod(rest[:, None] * weight, whole)
    left = rest - more.sum(axis=1)
    # Stable, so ties go to the first kind on every machine.
    order = np.argsort(-remainder, axis=1, kind="stable")
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.broadcast_to(np.arange(order.shape[1]), order.shape), axis=1)
    divided: Integers = low + more + (place < left[:, None])
    return divided


def _most(high: Integers) -> Integers:
    """The largest sum that upper bounds allow."""
    most: Integers = np.where(
        # Divided by 64, so that a sum over answers stays below the overflow of int64.
        (high >= UNBOUNDED).any(axis=1),
        UNBOUNDED,
        np.minimum(high, UNBOUNDED // 64).sum(axis=1),
    )
    return most


def _label(query: QueryGroup, answer: int) -> str:
    return ", ".join(f"{name}={text}" for name, text in query.label(int(answer)).items()) or "any levels"


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


def first_groups(
    plan: StatedPlan,
    constraints: Sequence[ConstraintTable],
    taken_over: TakenOver,
    spine: Spine,
) -> FixedGroups:
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
    for table in constraints:
        if not table.is_exact and _divides(records, table, groups):
            # Bounds divide one query at a time; after that the groups are those of both.
            finest = chosen[0].counts[-1]
            groups = divide_groups(plan.schema, queries[0], finest, table, spine)
            queries = groups.queries
    for table in constraints:
        if not table.is_exact:
            _require_within(records, table, groups)
    if lift is not None:
        refuse_totals(lift, groups, cells_of_part(plan.schema, lift, groups), taken_over, spine)
    refuse_impossible_sizes(plan, groups, taken_over.residents, spine)
    return groups


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
