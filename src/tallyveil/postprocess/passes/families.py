"""The families of a pass at one geolevel, gathered from the fixed counts and the measurements."""

from dataclasses import dataclass

import numpy as np

from tallyveil.arrays import Floats, Int32s, Integers
from tallyveil.budget.allocation import Allocation
from tallyveil.errors import SolverError
from tallyveil.estimation.problem import MeasuredQuery
from tallyveil.estimation.tile_problem import TileProblem
from tallyveil.geography.spine import Spine
from tallyveil.kernels.tiles.family import TileChunk
from tallyveil.measurements.answers import FamilyAnswers, MeasurementSource, answers_on_support
from tallyveil.postprocess.passes.groups import FixedGroups
from tallyveil.schema.counts import PublicCounts, places_in
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema

WEIGHT_OF_CHAIN = 16
"""What a person of deviation costs at every level of a rounding chain, in the kernel's sixteenths."""


@dataclass(frozen=True, slots=True, eq=False)
class PassBuilder:
    """Makes the families of one pass at one geolevel.

    Attributes:
        schema: The universe.
        allocation: The share of the budget of each geounit.
        source: Source of the noisy answers.
        level: Number of the children's geolevel, 0 for the root.
        cells: Query whose answers the pass counts.
        groups: What is fixed in every geounit.
        queries: Query groups that the pass is fitted to at this geolevel; each layer of one whose groups overlap.
        chain: Rounding chain, coarse to fine.
    """

    schema: Schema
    allocation: Allocation
    source: MeasurementSource
    level: int
    cells: QueryGroup
    groups: FixedGroups
    queries: tuple[QueryGroup, ...]
    chain: tuple[QueryGroup, ...]

    @property
    def spine(self) -> Spine:
        """The spine that is measured."""
        return self.allocation.spine

    @property
    def geolevel(self) -> str:
        """Name of the children's geolevel."""
        return self.spine.geolevels[self.level]

    def root(self, geounit: int, possible: Integers) -> TileProblem:
        """The problem of a root: every possible cell of the pass whose group has records.

        Args:
            geounit: Number of the root.
            possible: Representative cells of the possible answers, ascending (`possible_cells`).
        """
        groups = self.groups.groups_of(possible)
        begin, end = self.groups.levels[0].offsets[geounit : geounit + 2]
        present = self.groups.levels[0].groups[begin:end]
        # Only groups that have records in this root; a column in another group is zero.
        place, inside = places_in(present, groups)
        columns, group = possible[inside], place[inside]
        only_family = np.zeros(len(columns), dtype=np.int64)
        code = str(self.spine.geocodes[0][geounit])
        chain = self._chain(columns, only_family, group, np.array([0, len(columns)]))
        return TileProblem(
            geocode=code,
            geolevel=self.geolevel,
            children=(code,),
            columns=columns,
            parent_counts=None,
            group=group.astype(np.int32),
            fixed=self.groups.levels[0].counts[begin:end].astype(np.int64)[None, :],
            measured=tuple(self._measured(number, geounit, columns) for number in range(len(self.queries))),
            chain=tuple(chain),
            chain_weights=np.ones(len(chain)),
        )

    def answers(self, first: int, last: int, above: PublicCounts) -> FamilyAnswers:
        """The measurements that the families of parents first..last need."""
        offsets, cells, _ = above.slice(first, last)
        child_begin = self.spine.child_offsets[self.level - 1][first : last + 1]
        # A single child has its parent's counts, and an empty parent has empty children: neither needs measurements.
        # The same rule as for families of one pass (`FamilyBuilder.answers`).
        settled = (np.diff(child_begin) == 1) | (np.diff(offsets) == 0)
        return answers_on_support(self.geolevel, self.queries, child_begin.copy(), offsets, cells, settled)

    def variances(self, start: int, stop: int) -> Floats:
        """Variances of the answers in squared counts; infinite for a geounit that is not measured."""
        each = [self.allocation.variances(self.geolevel, group.name, start, stop) for group in self.queries]
        return np.array(each, dtype=np.float64).reshape(len(self.queries), stop - start)

    def chunk(
        self, first: int, last: int, above: PublicCounts, wanted: FamilyAnswers, noisy: Integers
    ) -> TileChunk:
        """The families of parents first..last, with the values of their answers."""
        offsets, cells, persons = above.slice(first, last)
        family = np.repeat(np.arange(last - first), np.diff(offsets))
        # Family and group in one number, so that groups of all families are numbered in one sort.
        keys = family * self.groups.size + self.groups.groups_of(cells)
        present, place = np.unique(keys, return_inverse=True)
        begins = np.searchsorted(present, np.arange(last - first + 1) * self.groups.size)
        # Numbered from 0 in each family, as the kernel wants it.
        group = (place.reshape(-1) - begins[family]).astype(np.int32)
        fixed_begin, fixed = self._fixed(wanted.child_begin, present, begins)
        start, stop = int(wanted.child_begin[0]), int(wanted.child_begin[-1])
        chain = self._chain(cells, family, place.reshape(-1).astype(np.int64), offsets)
        return TileChunk(
            offsets=offsets,
            counts=persons,
            group=group,
            child_begin=wanted.child_begin - start,
            fixed_begin=fixed_begin,
            fixed=fixed,
            labels=wanted.columns,
            widths=np.ascontiguousarray(wanted.widths),
            value_begin=wanted.value_begin,
            values=noisy.astype(np.float64),
            weights=1.0 / self.variances(start, stop),
            chain=np.array(chain, dtype=np.int32).reshape(len(chain), len(cells)),
            chain_weight=np.full(len(chain), WEIGHT_OF_CHAIN, dtype=np.int64),
        )

    def _fixed(self, child_begin: Integers, present: Integers, begins: Integers) -> tuple[Integers, Integers]:
        """Counts of each child in each group of its family, child by child; and where each family's begin.

        Args:
            child_begin: First child of each family, and one past the last child.
            present: Family * number of groups + group, of the groups that the families have.
            begins: Where those of each family begin.
        """
        widths, children = np.diff(begins), np.diff(child_begin)
        fixed_begin = np.concatenate([[0], np.cumsum(widths * children)]).astype(np.int64)
        fixed = np.zeros(int(fixed_begin[-1]), dtype=np.int64)
        offsets, groups, counts = self.groups.levels[self.level]
        start, stop = int(child_begin[0]), int(child_begin[-1])
        entries = slice(int(offsets[start]), int(offsets[stop]))
        child = np.repeat(np.arange(start, stop), np.diff(offsets[start : stop + 1]))
        family = np.searchsorted(child_begin, child, side="right") - 1
        keys = family * self.groups.size + groups[entries]
        place, inside = places_in(present, keys)
        # A child with records where its parent has none would mean that an earlier pass is wrong: nothing may follow.
        if not inside.all():
            raise SolverError(
                f"{self.geolevel}: a child has records in a group in which its parent has none. Nothing was published; "
                "please report this.",
                code="check-failed",
            )
        fixed[
            fixed_begin[family] + (child - child_begin[family]) * widths[family] + place - begins[family]
        ] = counts[entries]
        return fixed_begin, fixed

    def _chain(self, cells: Integers, family: Integers, sets: Integers, offsets: Integers) -> list[Int32s]:
        """Sets of columns at each level of the chain, numbered from 0 in each family. They are nested.

        Args:
            cells: Columns of all families, one after the other.
            family: Family of each column.
            sets: Sets that the first level divides, rising from family to family.
            offsets: Where each family's columns begin.
        """
        answers = []
        for query in self.chain:
            # One more than the answers: cells in no answer (-1) form a set of their own.
            keys = sets.astype(np.int64) * (query.size + 1) + query.answers_of(cells) + 1
            sets = np.unique(keys, return_inverse=True)[1].reshape(-1).astype(np.int64)
            first = np.zeros(len(offsets) - 1, dtype=np.int64)
            filled = np.diff(offsets) > 0
            if filled.any():
                first[filled] = np.minimum.reduceat(sets, offsets[:-1][filled])
            answers.append((sets - first[family]).astype(np.int32))
        return answers

    def _measured(self, number: int, geounit: int, columns: Integers) -> MeasuredQuery:
        """One query, or one of its layers, measured in a root."""
        group = self.queries[number]
        column_answers = group.answers_of(columns)
        answers, labels = np.unique(column_answers, return_inverse=True)
        # -1, for columns in no answer, comes first; labels are shifted so that it stays -1.
        if len(answers) and answers[0] < 0:
            answers, labels = answers[1:], labels - 1
        noisy = self.source.measure(self.geolevel, group.name, geounit, geounit + 1, answers.astype(np.int64))
        layer = [query.name for query in self.queries[:number]].count(group.name)
        return MeasuredQuery(
            group.name,
            labels.reshape(-1).astype(np.int32),
            noisy.values.astype(np.float64),
            noisy.variances,
            layer,
        )
