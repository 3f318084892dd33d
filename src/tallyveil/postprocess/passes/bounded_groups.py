"""Groups that bounds divide: how many records of each kind a finest geounit has is fixed before the first pass.

An agreement fixes how many people live in each class of group quarters in a block, and facility bounds say which types
of quarters there are: at least one person in each facility, nobody where there is no facility of a type. Where a block
has several types of one class, the people of the class must be divided among the types. Then the bounds hold whatever
the passes estimate, and every family keeps a solution.

Step: in each finest geounit and class, every type gets its lower bound. The others are divided in proportion to the
lower bounds, which count the facilities, by largest remainders; ties go to the first type. Then it is drawn at random
which records of the class have which type (`whole_cells.Choice`), from public counts alone. No measurement is used. So
the types of one class in one block are as unequal as their facilities, and no more is claimed of them.

Worked case: 10 people in a class, with 1 facility of one type and 2 of another. They get 1 and 2, and of the other 7
people 2 1/3 and 4 2/3, which is 2 and 5. So 3 people are of the first type and 7 of the second.
"""

import numpy as np

from tallyveil.arrays import Integers
from tallyveil.errors import ConstraintError
from tallyveil.estimation.problem import UNBOUNDED
from tallyveil.geography.spine import Spine
from tallyveil.postprocess.constraints.geolevels import ConstraintTable
from tallyveil.postprocess.other_releases.agreement import summed_to_root
from tallyveil.postprocess.passes.groups import FixedGroups, in_groups
from tallyveil.postprocess.passes.whole_cells import Choice, digest_of_counts
from tallyveil.schema.counts import PublicCounts, TripletSum, row_ranges
from tallyveil.schema.nested_queries import common_groups, meet, representative_cells
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema

GEOUNITS_AT_ONCE = 1 << 14


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
    choice = Choice.of(query, table.query, digest_of_counts(exact))
    total = TripletSum(exact.n_geounits, schema.size)
    for start, stop in row_ranges(exact.offsets, GEOUNITS_AT_ONCE):
        own = exact.rows(start, stop)
        kinds = _kinds(classes, table, own, (start, stop), spine)
        rows, cells, persons = choice.cells(own, kinds, start, stop - start)
        total.add(start + rows, representative_cells(both, both.answers_of(cells)), persons)
    finest = PublicCounts(exact.geolevel, *total.finish())
    counts = summed_to_root(finest, spine, schema.size)
    return FixedGroups((both,), tuple(in_groups((both,), one) for one in counts))


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
    own: tuple[Integers, Integers, Integers],
    span: tuple[int, int],
    spine: Spine,
) -> tuple[Integers, Integers, Integers]:
    """How many records of each bounded answer some finest geounits have; each answer by its representative cell."""
    start, stop = span
    lower, upper = table.bounds_of(len(table.lower) - 1, start, stop)
    cells = representative_cells(table.query, np.arange(table.query.size))
    class_of_kind = classes.answers_of(cells)
    held = np.zeros((stop - start, classes.size), dtype=np.int64)
    np.add.at(held, (own[0], classes.answers_of(own[1])), own[2])
    counts = np.zeros(lower.shape, dtype=np.int64)
    for one in range(classes.size):
        kinds = np.flatnonzero(class_of_kind == one)
        low, high = lower[:, kinds], upper[:, kinds]
        wrong = (low.sum(axis=1) > held[:, one]) | (_most(high) < held[:, one])
        if wrong.any():
            geocode = spine.geocodes[spine.finest][start + int(np.argmax(wrong))]
            raise ConstraintError(
                f"{spine.geolevels[-1]} '{geocode}': {table.name} and the exact counts contradict each other: the "
                f"bounds on {_label(table.query, int(kinds[0]))} and its like ask for more records than there "
                "are, or allow fewer. Correct one of them. Nothing was spent.",
                code="constraints-conflict",
            )
        counts[:, kinds] = _divided(held[:, one], low, high, table)
    rows, kind = np.nonzero(counts)
    return rows, cells[kind], counts[rows, kind]


def _divided(held: Integers, low: Integers, high: Integers, table: ConstraintTable) -> Integers:
    """Records of a class among its kinds, in each geounit."""
    is_open = high >= UNBOUNDED
    rest = held - low.sum(axis=1)
    bounded = ~is_open & (high > low)
    if (bounded.any(axis=1) & ((high > low).sum(axis=1) > 1) & (rest > 0)).any():
        raise ConstraintError(
            f"{table.name}, bounds on '{table.query.name}': where several answers of one group may have records, outer "
            "passes keep upper bounds only if they are absent, or equal to the lower bounds. Correct these bounds.",
            code="passes-groups",
        )
    weight = np.where(high > low, low, 0)
    weight = np.where((high > low) & (weight.sum(axis=1, keepdims=True) == 0), 1, weight)
    whole = np.maximum(weight.sum(axis=1), 1)[:, None]
    more, remainder = np.divmod(rest[:, None] * weight, whole)
    left = rest - more.sum(axis=1)
    order = np.argsort(-remainder, axis=1, kind="stable")
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.broadcast_to(np.arange(order.shape[1]), order.shape), axis=1)
    divided: Integers = low + more + (place < left[:, None])
    return divided


def _most(high: Integers) -> Integers:
    """The largest sum that upper bounds allow."""
    most: Integers = np.where(
        (high >= UNBOUNDED).any(axis=1), UNBOUNDED, np.minimum(high, UNBOUNDED // 64).sum(axis=1)
    )
    return most


def _label(query: QueryGroup, answer: int) -> str:
    return ", ".join(f"{name}={text}" for name, text in query.label(int(answer)).items()) or "any levels"
