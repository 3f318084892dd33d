"""Measuring: true answers plus exact addressed noise, for any block of geounits and answers."""

from dataclasses import dataclass

import numpy as np

from tallyveil.budget.strategy import Strategy
from tallyveil.confidential.histogram import REDACTED, ConfidentialHistogram
from tallyveil.geography.spine import Spine
from tallyveil.kernels.family_answers import add_counts
from tallyveil.measurements.family_answers import FamilyAnswers, answer_tables
from tallyveil.measurements.measurements import NoisyMeasurements
from tallyveil.noise.source import NoiseSource
from tallyveil.universe.counts import Int64Array, rows_between
from tallyveil.universe.query_group import QueryGroup
from tallyveil.universe.schema import Schema


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Measurer:
    """Noisy answers of every measured query at every geolevel, computed when asked for.

    The noise of an answer is a pure function of the run key and the answer's address (geolevel, query,
    geounit, answer), so any split of the work, and any repetition of it, gives the same measurements.

    Attributes:
        histograms: True counts of every geolevel, root first. Confidential.
        spine: The hierarchy.
        schema: The universe.
        strategy: Which queries are measured where, with which law.
        noise: Addressed noise of this run, bound to the records, the geography and the plan.

    Privacy: all answers together cost `strategy.total`, whichever of them are asked for, because every
    answer asked for is one fixed draw (errata and DESIGN: addressed noise; Canonne, Kamath, Steinke 2020, Thm 4).
    """

    histograms: tuple[ConfidentialHistogram, ...]
    spine: Spine
    schema: Schema
    strategy: Strategy
    noise: NoiseSource

    def __repr__(self) -> str:
        return f"Measurer(geolevels={self.spine.geolevels!r}, histograms={REDACTED}, noise={REDACTED})"

    def measure(
        self, geolevel: str, query: str, start: int, stop: int, answers: Int64Array
    ) -> NoisyMeasurements:
        """Noisy values of the listed answers for geounits start..stop of a geolevel.

        Args:
            geolevel: Name of the geolevel.
            query: A query the strategy measures there.
            start: First geounit.
            stop: One past the last geounit.
            answers: Answer numbers of the query, ascending, distinct.
        Returns:
            Values of shape (stop - start, len(answers)), int64; may be negative.
        """
        level = self.spine.level_index(geolevel)
        position = self.strategy.queries(geolevel).index(query)
        law = self.strategy.law(geolevel, query)
        group = self.schema.query(query)
        geounits = np.arange(start, stop, dtype=np.int64)
        if len(answers) == group.size:
            values = self.noise.dense(law, level, position, geounits, group.size).astype(np.int64)
        else:
            grid = np.repeat(geounits, len(answers)), np.tile(answers, len(geounits))
            values = self.noise.at(law, level, position, *grid).astype(np.int64)
            values = values.reshape(len(geounits), len(answers))
        _add_true_answers(values, self.histograms[level], group, start, stop, answers)
        values.setflags(write=False)
        return NoisyMeasurements(geolevel, query, start, answers, values, law.variance_float())

    def measure_families(self, wanted: FamilyAnswers) -> Int64Array:
        """Noisy values of the answers that consecutive families need: those of `measure`, in bulk.

        Args:
            wanted: Which answers of which geounits.
        Returns:
            Values laid out as `wanted` says; may be negative.
        """
        level = self.spine.level_index(wanted.geolevel)
        first, last = int(wanted.child_begin[0]), int(wanted.child_begin[-1])
        truth = self.histograms[level]
        offsets, cells, counts = rows_between(truth.offsets, truth.cells, truth.counts, first, last)
        tables = answer_tables(wanted.queries, self.schema.size)
        names = self.strategy.queries(wanted.geolevel)
        values = np.empty(wanted.n_values, dtype=np.int64)
        for q, group in enumerate(wanted.queries):
            own = values[wanted.value_begin[q, 0] : wanted.value_begin[q, -1]]
            law = self.strategy.law(wanted.geolevel, group.name)
            own[:] = self.noise.at(law, level, names.index(group.name), *wanted.addresses(q))
            add_counts(
                wanted.answers,
                wanted.begin[q],
                wanted.child_begin - first,
                tables[q],
                group.size,
                offsets,
                cells,
                counts,
                own,
            )
        return values


def _add_true_answers(
    values: Int64Array,
    histogram: ConfidentialHistogram,
    group: QueryGroup,
    start: int,
    stop: int,
    answers: Int64Array,
) -> None:
    """Add the true answers in place, in integers; answers that are not listed are passed over."""
    rows, cells, counts = histogram.rows(start, stop)
    found = group.answers_of(cells)
    column = np.minimum(np.searchsorted(answers, found), max(len(answers) - 1, 0))
    listed = (answers[column] == found) if len(answers) else np.zeros(len(found), dtype=bool)
    np.add.at(values, (rows[listed], column[listed]), counts[listed])
