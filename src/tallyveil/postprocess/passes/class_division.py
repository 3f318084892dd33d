"""Classes of records that bounds divide into kinds: facilities say which types of group quarters a block has.

An agreement fixes how many people live in each class of group quarters in a block, and facility bounds say
which types of quarters there are: at least one person in each facility, nobody where there is no facility of
a type. Where a block has several types of one class, the people of the class must be divided among the types
before the first pass. Then the bounds hold whatever the passes estimate, and every family keeps a solution.

Step: in each finest geounit and class, every type gets its lower bound. The others are divided in proportion
to the lower bounds, which count the facilities, by largest remainders; ties go to the first type. Then it is
drawn at random which records of the class have which type (`whole_cells.Choice`), from public counts alone.

This division is made before the spend, so that the constraints are known to have a solution. After it, the
totals of types that measurements tell apart may replace it in some geounits (`measured_kinds`).

Worked case: 10 people in a class, with 1 facility of one type and 2 of another. They get 1 and 2, and of the
other 7 people 2 1/3 and 4 2/3, which is 2 and 5. So 3 people are of the first type and 7 of the second.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Integers
from tallyveil.errors import ConstraintError
from tallyveil.estimation.problem import UNBOUNDED
from tallyveil.geography.spine import Spine
from tallyveil.postprocess.constraints import ConstraintTable
from tallyveil.postprocess.other_releases import summed_to_root
from tallyveil.postprocess.passes.groups import FixedGroups, PassGroupCounts
from tallyveil.postprocess.passes.whole_cells import Choice, digest_of_counts
from tallyveil.schema.counts import PublicCounts, TripletSum, row_ranges
from tallyveil.schema.nested_queries import common_groups, meet, representative_cells
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema

# Geounits with dense counts by kind at once; twice as many need twice the memory, and numbers do not depend on it.
GEOUNITS_DIVIDED_AT_ONCE = 1 << 14


class KindLimits(NamedTuple):
    """What is known of the kinds in some finest geounits.

    Attributes:
        held: Records of each class, shape (geounits, classes).
        lower: Smallest number of records of each kind, shape (geounits, kinds).
        upper: Largest number; `UNBOUNDED` where there is no bound.
    """

    held: Integers
    lower: Integers
    upper: Integers


class KindCounts(NamedTuple):
    """How many records of each kind some finest geounits have.

    Attributes:
        geounits: Their numbers, ascending.
        counts: Shape (geounits, kinds). Counts of a class add up to what it holds, and are within the bounds.
    """

    geounits: Integers
    counts: Integers


@dataclass(frozen=True, slots=True, eq=False)
class ClassDivision:
    """How bounds divide exact counts. A kind is an answer of the bounds, and a class has one kind or several.

    Attributes:
        schema: The universe.
        query: The query whose answers are exact; it counts every record once.
        exact: Its counts in the finest geounits; each answer by its representative cell.
        table: Bounds on a query that counts every record once, for the finest geounits.
        spine: The spine that is measured.
    """

    schema: Schema
    query: QueryGroup
    exact: PublicCounts
    table: ConstraintTable
    spine: Spine

    @property
    def classes(self) -> QueryGroup:
        """The query of the classes: the finest groups that are sums of exact answers, and of kinds."""
        return common_groups(self.query, self.table.query)

    @property
    def kind_cells(self) -> Integers:
        """The representative cell of each kind."""
        return representative_cells(self.table.query, np.arange(self.table.query.size))

    def limits(self, start: int, stop: int) -> KindLimits:
        """What is known of the kinds in the finest geounits from `start` to `stop` - 1."""
        lower, upper = self.table.bounds_of(len(self.table.lower) - 1, start, stop)
        classes = self.classes
        held = np.zeros((stop - start, classes.size), dtype=np.int64)
        rows, cells, records = self.exact.rows(start, stop)
        np.add.at(held, (rows, classes.answers_of(cells)), records)
        return KindLimits(held, lower, upper)

    def by_facilities(self, start: int, limits: KindLimits) -> Integers:
        """Records of each kind in some finest geounits, shape (geounits, kinds), in proportion to the lower bounds.

        Args:
            start: The first of the geounits.
            limits: What is known of their kinds.
        Raises:
            ConstraintError: the bounds contradict the exact counts, or are of a kind that cannot be kept in this way.
        """
        held, lower, upper = limits
        class_of_kind = self.classes.answers_of(self.kind_cells)
        counts = np.zeros(lower.shape, dtype=np.int64)
        for number in range(held.shape[1]):
            kinds = np.flatnonzero(class_of_kind == number)
            low, high = lower[:, kinds], upper[:, kinds]
            # Checked for every geounit before the spend: the class must fit between the sums of the bounds.
            wrong = (low.sum(axis=1) > held[:, number]) | (_most(high) < held[:, number])
            if wrong.any():
                geocode = self.spine.geocodes[self.spine.finest][start + int(np.argmax(wrong))]
                raise ConstraintError(
                    f"{self.spine.geolevels[-1]} '{geocode}': {self.table.name} and the exact counts contradict each "
                    f"other: the bounds on {_label(self.table.query, int(kinds[0]))} and its like ask for more records "
                    "than there are, or allow fewer. Correct one of them. Nothing was spent.",
                    code="constraints-conflict",
                )
            self._refuse_bounded(held[:, number], low, high)
            counts[:, kinds] = in_proportion(held[:, number], low, high)
        return counts

    def groups(self, measured: KindCounts | None = None) -> FixedGroups:
        """Groups that bounds do not divide any more.

        Args:
            measured: The kinds of some finest geounits; those of all others are in proportion to the lower bounds.
        Raises:
            ConstraintError: the bounds contradict the exact counts, or are of a kind that cannot be kept in this way.
        """
        both = meet(self.query, self.table.query)
        self._refuse_incomplete(both)
        # The seed is a digest of published counts: the draw is public, and the same whoever repeats it.
        choice = Choice.of(self.query, self.table.query, digest_of_counts(self.exact))
        total = TripletSum(self.exact.n_geounits, both.size)
        kind_cells = self.kind_cells
        for start, stop in row_ranges(self.exact.offsets, GEOUNITS_DIVIDED_AT_ONCE):
            counts = self.by_facilities(start, self.limits(start, stop))
            if measured is not None:
                here = slice(*np.searchsorted(measured.geounits, [start, stop]))
                counts[measured.geounits[here] - start] = measured.counts[here]
            rows, kinds = np.nonzero(counts)
            of_kinds = rows, kind_cells[kinds], counts[rows, kinds]
            rows, cells, records = choice.cells(self.exact.rows(start, stop), of_kinds, start, stop - start)
            total.add(start + rows, both.answers_of(cells), records)
        # These counts are of groups, not of cells. All geolevels are sums of the finest, so that children always add up
        # to their parents.
        finest = PublicCounts(self.exact.geolevel, *total.finish())
        levels = summed_to_root(finest, self.spine, both.size)
        return FixedGroups(
            (both,), tuple(PassGroupCounts(level.offsets, level.cells, level.counts) for level in levels)
        )

    def _refuse_bounded(self, held: Integers, low: Integers, high: Integers) -> None:
        """Refuse finite upper bounds above the lower ones where several kinds of a class may have more records."""
        # A division within such bounds would have to respect them; none is proved here.
        bounded = (high < UNBOUNDED) & (high > low)
        if (bounded.any(axis=1) & ((high > low).sum(axis=1) > 1) & (held > low.sum(axis=1))).any():
            raise ConstraintError(
                f"{self.table.name}, bounds on '{self.table.query.name}': where several answers of one group may have "
                "records, outer passes keep upper bounds only if they are absent, or equal to the lower bounds. "
                "Correct these bounds.",
                code="passes-groups",
            )

    def _refuse_incomplete(self, both: QueryGroup) -> None:
        """Refuse structural zeros that bar some pairs of an exact answer and a bounded one of the same class."""
        query, bounded = self.query, self.table.query
        cells = representative_cells(both, np.arange(both.size))
        possible = np.zeros(both.size, dtype=np.bool_)
        possible[self.schema.possible_answers(both)] = True
        answers, kinds, of_class = (group.answers_of(cells) for group in (query, bounded, self.classes))
        inside = (answers >= 0) & (kinds >= 0)
        # Answers and kinds that are possible at all must be possible together, if they are of one class.
        answer_possible = np.zeros(query.size, dtype=np.bool_)
        kind_possible = np.zeros(bounded.size, dtype=np.bool_)
        answer_possible[answers[inside & possible]] = True
        kind_possible[kinds[inside & possible]] = True
        # Pairs that are barred although both members occur; with these, records could not be matched freely.
        wanted = inside & ~possible & (of_class >= 0)
        wanted[wanted] = answer_possible[answers[wanted]] & kind_possible[kinds[wanted]]
        if wanted.any():
            first = int(np.argmax(wanted))
            raise ConstraintError(
                f"{self.table.name}, bounds on '{bounded.name}': structural zeros bar records with "
                f"{_label(bounded, kinds[first])} and {_label(query, answers[first])}, so that the records of a class "
                "cannot be divided freely. Outer passes cannot keep these bounds. Bound sums of the exact counts, or "
                "leave them out.",
                code="passes-groups",
            )


def facility_weights(low: Integers, high: Integers) -> Integers:
    """What the records beyond the lower bounds are divided in proportion to, shape (geounits, kinds of a class)."""
    # Lower bounds count facilities, so they are the weights; kinds without room have none.
    weight = np.where(high > low, low, 0)
    # No facility counted at all: all open kinds alike.
    weights: Integers = np.where((high > low) & (weight.sum(axis=1, keepdims=True) == 0), 1, weight)
    return weights


def in_proportion(held: Integers, low: Integers, high: Integers) -> Integers:
    """Records of a class among its kinds, shape (geounits, kinds of the class).

    Args:
        held: Records of the class in each geounit, at least the sum of the lower bounds.
        low: Smallest numbers of records.
        high: Largest numbers. Where several kinds may have more than the smallest number, none has a largest one.
    """
    rest = held - low.sum(axis=1)
    weight = facility_weights(low, high)
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
