"""Family problems: the data that the estimator needs for a parent and its children, gathered from the measurements.

A single family becomes a `FamilyProblem`; a chunk of consecutive families becomes the arrays of the compiled loop.
"""

from dataclasses import dataclass

import numpy as np

from tallyveil.arrays import Floats, Integers
from tallyveil.budget.allocation import Allocation
from tallyveil.estimation.problem import EstimationPass, FamilyProblem, MeasuredQuery, RoundingStage
from tallyveil.geography.spine import Spine
from tallyveil.kernels.family.chunk import Chunk, Rules
from tallyveil.measurements.answers import FamilyAnswers, MeasurementSource, answer_tables, answers_on_support
from tallyveil.plans.estimating import EstimationPlan, GeolevelEstimation
from tallyveil.postprocess.constraints.geolevels import ConstraintTable
from tallyveil.postprocess.families.tree_values import TreeValues
from tallyveil.schema.counts import PublicCounts
from tallyveil.schema.query_group import QueryGroup


@dataclass(frozen=True, slots=True, eq=False)
class FamilyBuilder:
    """Makes the family problems of one geolevel.

    Attributes:
        plan: How the release is estimated.
        allocation: The share of the budget of each geounit.
        level: Number of the children's geolevel, 0 for the root.
        source: Source of the noisy answers.
        constraints: Every constraint of the release.
        queries: The query groups measured at this geolevel; each layer of one whose groups overlap.
        rounding: The query groups of each rounding stage.
        tree: What the families are fitted to instead of the noisy answers; None for the noisy answers themselves.
    """

    plan: EstimationPlan
    allocation: Allocation
    level: int
    source: MeasurementSource
    constraints: tuple[ConstraintTable, ...]
    queries: tuple[QueryGroup, ...]
    rounding: tuple[tuple[QueryGroup, ...], ...]
    tree: TreeValues | None = None

    @property
    def spine(self) -> Spine:
        """The hierarchy."""
        return self.allocation.spine

    @property
    def geolevel(self) -> str:
        """Name of the children's geolevel."""
        return self.spine.geolevels[self.level]

    def root(self, start: int, stop: int) -> FamilyProblem:
        """The problem of the roots from `start` up to `stop`: every possible cell, and no parent to sum to."""
        schema = self.plan.schema
        cells = np.arange(schema.size, dtype=np.int64)
        support = cells[schema.possible(cells)]
        return self._problem((0, start), start, stop, support, None)

    @property
    def root_families(self) -> list[tuple[int, int]]:
        """The first root of each family of roots, and the one after its last.

        A root is a family of its own, unless a constraint on a sum binds it to others; these stand side by side.
        """
        last = np.arange(self.spine.n_geounits(0))
        for groups in self._groups:
            # Reversed, so that the first place of each group found is its last geounit.
            first, count = np.unique(groups[::-1], return_index=True)
            last = np.maximum(last, (len(groups) - 1 - count)[np.searchsorted(first, groups)])
        # A family ends where no group that began in it reaches further.
        reached = np.maximum.accumulate(last)
        ends = np.flatnonzero(reached == np.arange(len(last))) + 1
        return list(zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True))

    @property
    def binds_siblings(self) -> bool:
        """Whether a constraint is on sums of geounits of this geolevel."""
        return bool(self._groups)

    @property
    def _groups(self) -> list[Integers]:
        """Of each constraint on sums, the group of each geounit."""
        groups_of_tables = (table.groups_at(self.level) for table in self.bounding)
        return [groups for groups in groups_of_tables if groups is not None]

    def family(self, parent: int, counts: PublicCounts) -> FamilyProblem:
        """The problem of a parent's children, on the cells where the parent has people."""
        offsets = self.spine.child_offsets[self.level - 1]
        support, parent_counts = counts.entries(parent)
        start, stop = int(offsets[parent]), int(offsets[parent + 1])
        return self._problem((self.level - 1, parent), start, stop, support, parent_counts)

    @property
    def bounding(self) -> tuple[ConstraintTable, ...]:
        """The constraints that hold at this geolevel."""
        return tuple(table for table in self.constraints if table.reaches(self.level))

    def rules(self) -> Rules:
        """The data that all families of the geolevel share, as arrays."""
        settings = self.plan.estimation_of(self.geolevel)
        n_cells = self.plan.schema.size
        rounding = [(number, group) for number, stage in enumerate(self.rounding) for group in stage]
        bounded = [table.query for table in self.bounding]
        return Rules(
            pass_queries=np.array(
                [[group.name in names for group in self.queries] for names in settings.passes], dtype=np.bool_
            ),
            slack=np.full(len(settings.passes), float(settings.slack)),
            bound_answers=answer_tables(bounded, n_cells),
            bound_sizes=np.array([group.size for group in bounded], dtype=np.int64),
            round_answers=answer_tables([group for _, group in rounding], n_cells),
            round_sizes=np.array([group.size for _, group in rounding], dtype=np.int64),
            stage=np.array([number for number, _ in rounding], dtype=np.int64),
            nearest=np.full(len(self.rounding), settings.target == "nearest"),
        )

    def weights(self, start: int, stop: int) -> Floats:
        """1 / variance of each query's answers in geounits start..stop, shape (queries, stop - start).

        The value is zero for a geounit that is not measured.
        """
        return 1.0 / self.variances(start, stop)

    def variances(self, start: int, stop: int) -> Floats:
        """Variances of the answers in persons squared; infinite for a geounit that is not measured."""
        each = [self.allocation.variances(self.geolevel, group.name, start, stop) for group in self.queries]
        return np.array(each, dtype=np.float64).reshape(len(self.queries), stop - start)

    def answers(self, first: int, last: int, counts: PublicCounts) -> FamilyAnswers:
        """The measurements that the families of parents first..last need."""
        offsets, cells, _ = counts.slice(first, last)
        child_begin = self.spine.child_offsets[self.level - 1][first : last + 1]
        # A single child has its parent's counts, and an empty parent has empty children: neither needs measurements.
        settled = (np.diff(child_begin) == 1) | (np.diff(offsets) == 0)
        return answers_on_support(self.geolevel, self.queries, child_begin.copy(), offsets, cells, settled)

    def chunk(
        self, first: int, last: int, counts: PublicCounts, wanted: FamilyAnswers, values: Floats
    ) -> Chunk:
        """The families of parents first..last, with the values of their answers.

        Constraints must be on single geounits.
        """
        offsets, cells, persons = counts.slice(first, last)
        start, stop = int(wanted.child_begin[0]), int(wanted.child_begin[-1])
        # An array without columns keeps the concatenation defined where nothing is bounded.
        none = np.zeros((stop - start, 0), dtype=np.int64)
        bounding = [table.bounds_of(self.level, start, stop) for table in self.bounding]
        return Chunk(
            offsets=offsets,
            cells=cells,
            counts=persons,
            child_begin=wanted.child_begin - start,
            columns=wanted.columns,
            widths=wanted.widths,
            value_begin=wanted.value_begin,
            values=values,
            weights=self.weights(start, stop),
            lower=np.concatenate([none, *(lower for lower, _ in bounding)], axis=1),
            upper=np.concatenate([none, *(upper for _, upper in bounding)], axis=1),
        )

    def _problem(
        self,
        parent: tuple[int, int],
        start: int,
        stop: int,
        support: Integers,
        parent_counts: Integers | None,
    ) -> FamilyProblem:
        parent_level, parent_geounit = parent
        settings = self.plan.estimation_of(self.geolevel)
        # A single child has its parent's counts, and an empty parent has empty children: neither needs measurements.
        trivial = parent_counts is not None and (stop - start == 1 or len(support) == 0)
        variances = self.variances(start, stop)
        names = [group.name for group in self.queries]
        measured = tuple(
            self._measured(group, names[:number].count(group.name), variances[number], start, support)
            for number, group in enumerate(self.queries)
            # Nothing is measured for a family whose counts are settled; its noisy answers stay undrawn.
            if not trivial
        )
        return FamilyProblem(
            geocode=str(self.spine.geocodes[parent_level][parent_geounit]),
            geolevel=self.spine.geolevels[parent_level],
            children=tuple(str(code) for code in self.spine.geocodes[self.level][start:stop]),
            support=support,
            parent_counts=parent_counts,
            measured=measured,
            constraints=tuple(table.on_support(self.level, start, stop, support) for table in self.bounding),
            passes=(EstimationPass(()),) if trivial else _passes(settings),
            rounding=tuple(
                RoundingStage(
                    tuple((group.name, _labels(group, support)[0]) for group in stage), target=settings.target
                )
                for stage in self.rounding
            ),
        )

    def _measured(
        self, group: QueryGroup, layer: int, variances: Floats, start: int, support: Integers
    ) -> MeasuredQuery:
        labels, answers = _labels(group, support)
        asked = start, start + len(variances), answers
        if self.tree is None:
            noisy = self.source.measure(self.geolevel, group.name, *asked)
            values = noisy.values.astype(np.float64)
        else:
            values = self.tree.answers(self.geolevel, group, *asked)
        return MeasuredQuery(group.name, labels, values, variances, layer)


def _labels(group: QueryGroup, support: Integers) -> tuple[np.ndarray, Integers]:
    """The answers that have a cell on the support, and the position among them of each support cell's answer."""
    answer_of_cell = group.answers_of(support)
    answers, column = np.unique(answer_of_cell, return_inverse=True)
    # Cells in no answer of the query come first as -1, and are taken out of the list of answers.
    if len(answers) and answers[0] < 0:
        answers, column = answers[1:], column - 1
    return column.astype(np.int32).reshape(-1), answers.astype(np.int64)


def _passes(settings: GeolevelEstimation) -> tuple[EstimationPass, ...]:
    return tuple(EstimationPass(names, float(settings.slack)) for names in settings.passes)
