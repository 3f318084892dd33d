"""Measuring: true answers plus exact addressed noise, for any block of geounits and any set of answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.budget.allocation import Allocation
from tallyveil.budget.queries import require_sensitivities
from tallyveil.confidential.histogram import REDACTED, ConfidentialHistogram
from tallyveil.confidential.sealed_counts import SealedCounts
from tallyveil.errors import BudgetError
from tallyveil.kernels.family.answers import SparseCounts, add_counts
from tallyveil.measurements.answers import FamilyAnswers, NoisyMeasurements, answers_at
from tallyveil.noise.laws import Law
from tallyveil.noise.source import NoiseSource
from tallyveil.schema.counts import places_in, rows_between
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Measurer:
    """Noisy answers of every measured query at every geolevel, computed on request.

    The noise of an answer is a pure function of the run key and the answer's address (geolevel, query, geounit,
    answer). So any division of the work, and any repetition, gives the same measurements.

    Attributes:
        histograms: True counts of every geolevel that is asked for, by its number. Confidential.
        schema: The universe.
        allocation: Which queries are measured where, and with which law of noise.
        noise: Addressed noise of this run, bound to the records, the geography and the plan.

    Raises:
        BudgetError: the strategy assumes that a record counts in fewer or more answers of a query than it does.

    Privacy: all answers together cost `allocation.event()`. Requesting only some answers, or requesting one repeatedly,
    does not cost more, because each answer has one fixed draw. Source for the cost of Gaussian noise: Canonne, Kamath,
    Steinke 2020, Theorem 4.
    """

    histograms: Sequence[ConfidentialHistogram] | Mapping[int, ConfidentialHistogram]
    schema: Schema
    allocation: Allocation
    noise: NoiseSource

    def __post_init__(self) -> None:
        # The event is computed from these sensitivities. A smaller one than the true one would understate the cost.
        require_sensitivities(self.allocation.strategy, self.schema)

    def __repr__(self) -> str:
        return f"Measurer(geolevels={self.allocation.spine.geolevels!r}, histograms={REDACTED}, noise={REDACTED})"

    def measure(
        self, geolevel: str, query: str, start: int, stop: int, answers: Integers
    ) -> NoisyMeasurements:
        """Noisy values of the listed answers for geounits start to stop - 1 of a geolevel.

        Args:
            geolevel: Name of the geolevel.
            query: A query that is measured there.
            start: First geounit.
            stop: One past the last geounit.
            answers: Different answer numbers of the query, ascending.
        Returns:
            Values of shape (stop - start, len(answers)), int64, possibly negative. Unmeasured geounits get value 0 and
            infinite variance.
        """
        level = self.allocation.spine.level_index(geolevel)
        number = self.allocation.strategy.queries(geolevel).index(query)
        group = self.schema.query(query)
        position = self.allocation.positions(geolevel)[start:stop]
        values = np.zeros((stop - start, len(answers)), dtype=np.int64)
        # There is one law for each share. Usually all geounits of a geolevel have the same share.
        for share, law in self.allocation.laws(geolevel, query).items():
            rows = np.flatnonzero(position == share)
            noisy = self._noise(law, (level, number), start + rows, group.size, answers)
            # The truth is added to the noise in place, so that no array with true answers alone outlives the call.
            _add_true_answers(noisy, self.histograms[level], group, start, stop, answers, rows)
            # In the usual case, one share, no copy is made.
            if len(rows) == len(values):
                values = noisy
            else:
                values[rows] = noisy
        # Read-only, because a noisy answer is drawn once: whoever changed it would estimate from something else.
        values.setflags(write=False)
        variances = self.allocation.variances(geolevel, query, start, stop)
        return NoisyMeasurements(geolevel, query, start, answers, values, variances)

    def _draw(
        self,
        wanted: FamilyAnswers,
        q: int,
        position: NDArray[np.int32],
        number: tuple[int, int],
        out: Integers,
    ) -> None:
        """Noise of one query's wanted values. `number` is (number of the geolevel, number of the query)."""
        laws = self.allocation.laws(wanted.geolevel, wanted.queries[q].name)
        positions = position[int(wanted.child_begin[0]) : int(wanted.child_begin[-1])]
        # All geounits with one share, the usual case: the source draws straight into the caller's array.
        if positions.size and positions.min() == positions.max() and positions[0] in laws:
            self.noise.listed(laws[int(positions[0])], *number, wanted.listed(q), out)
            return
        # Shares differ within the geolevel, because some geounits were bypassed: each answer is drawn with its own
        # law.
        geounits, answers = wanted.addresses(q)
        share_of = position[geounits]
        drawn = 0
        for share, law in laws.items():
            here = share_of == share
            n_here = int(np.count_nonzero(here))
            if n_here == len(out):
                self.noise.at(law, *number, geounits, answers, out)
            elif n_here:
                out[here] = self.noise.at(law, *number, geounits[here], answers[here])
            drawn += n_here
        # Each value must have got noise from one law. One without a law would leave the wall as a true answer.
        if drawn < len(out):
            raise _unmeasured(wanted.geolevel)

    def _noise(
        self, law: Law, number: tuple[int, int], geounits: Integers, size: int, answers: Integers
    ) -> Integers:
        """Noise of some answers of a query with `size` answers. `number` is as in `_draw`."""
        # All answers: the source enumerates the addresses itself, which draws the same numbers as the list of
        # addresses.
        if len(answers) == size:
            return self.noise.dense(law, *number, geounits, size).astype(np.int64, copy=False)
        grid = np.repeat(geounits, len(answers)), np.tile(answers, len(geounits))
        return self.noise.at(law, *number, *grid).reshape(len(geounits), len(answers))

    def measure_families(self, wanted: FamilyAnswers) -> Integers:
        """Noisy values of the answers that consecutive families need. The values are those of `measure`.

        Args:
            wanted: The geounits and their answers.
        Returns:
            Values in the layout of `wanted`, possibly negative.
        """
        allocation = self.allocation
        level = allocation.spine.level_index(wanted.geolevel)
        # Only the geounits of these families are touched; `child_begin` counts from the first geounit of the
        # geolevel.
        first, last = int(wanted.child_begin[0]), int(wanted.child_begin[-1])
        truth = self.histograms[level]
        offsets, cells, counts = rows_between(truth.offsets, truth.cells, truth.counts, first, last)
        tables, places = answers_at(wanted.queries, self.schema.size, cells)
        sparse = SparseCounts(offsets, places, counts)
        names = allocation.strategy.queries(wanted.geolevel)
        position = allocation.positions(wanted.geolevel)
        values = np.empty(wanted.n_values, dtype=np.int64)
        for q, group in enumerate(wanted.queries):
            noisy = values[wanted.value_begin[q, 0] : wanted.value_begin[q, -1]]
            # Noise first, truth on top of it: both are int64, so the sum is exact, and equal to that of `measure`.
            self._draw(wanted, q, position, (level, names.index(group.name)), noisy)
            add_counts(
                wanted.answers,
                wanted.begin[q],
                wanted.child_begin - first,
                tables[q],
                group.size,
                sparse,
                noisy,
            )
        return values


def _add_true_answers(
    values: Integers,
    histogram: ConfidentialHistogram,
    group: QueryGroup,
    start: int,
    stop: int,
    answers: Integers,
    wanted: Integers,
) -> None:
    """Add the true answers of some of the geounits start to stop - 1 in place, in integers.

    Answers that are not listed and geounits that are not wanted are ignored.
    """
    rows, cells, counts = histogram.rows(start, stop)
    # Rows are renumbered to those that are wanted; -1 marks the others, whose entries are dropped.
    if len(wanted) < stop - start:
        place = np.full(stop - start, -1, dtype=np.int64)
        place[wanted] = np.arange(len(wanted))
        measured = place[rows] >= 0
        rows, cells, counts = place[rows[measured]], cells[measured], counts[measured]
    places, counted = group.counted_in(cells)
    # An answer that is not listed has no column, and its entries are dropped, too.
    column, listed = places_in(answers, counted)
    places = places[listed]
    # Several cells of a geounit may fall into one answer, so the sum must not be a buffered `+=`.
    np.add.at(values, (rows[places], column[listed]), counts[places])


def _unmeasured(geolevel: str) -> BudgetError:
    return BudgetError(
        f"measurements of geounits of {geolevel} are asked for that have no share of the budget. Only a geounit that "
        "is the single child of its parent has no share, and its counts are those of the parent. Ask for the "
        "parent's measurements."
    )


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class SealedMeasurer:
    """As `Measurer`, for a process that reads the true counts of the geounits that are asked for, and no others.

    Attributes:
        counts: The encrypted counts. Confidential.
        schema, allocation, noise: As for `Measurer`.

    Raises:
        StoreError: a file of the counts cannot be read.
    Privacy: as `Measurer`, of which it is a part.
    """

    counts: SealedCounts
    schema: Schema
    allocation: Allocation
    noise: NoiseSource

    def __repr__(self) -> str:
        return f"SealedMeasurer(geolevels={self.allocation.spine.geolevels!r}, counts={REDACTED}, noise={REDACTED})"

    def measure(
        self, geolevel: str, query: str, start: int, stop: int, answers: Integers
    ) -> NoisyMeasurements:
        """As `Measurer.measure`."""
        return self._measurer(geolevel, start, stop).measure(geolevel, query, start, stop, answers)

    def measure_families(self, wanted: FamilyAnswers) -> Integers:
        """As `Measurer.measure_families`."""
        first, last = int(wanted.child_begin[0]), int(wanted.child_begin[-1])
        return self._measurer(wanted.geolevel, first, last).measure_families(wanted)

    def _measurer(self, geolevel: str, start: int, stop: int) -> Measurer:
        # Geounits outside start..stop seem empty there; the address of a draw is that of the whole geolevel all the
        # same.
        level = self.allocation.spine.level_index(geolevel)
        counts = {level: self.counts.between(level, start, stop)}
        return Measurer(counts, self.schema, self.allocation, self.noise)
