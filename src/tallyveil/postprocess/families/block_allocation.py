"""Counts of the finest geolevel by a model of its geounits: `[estimation] blocks = "allocation"`.

The prior is learned from the noisy answers of at most about `MOST_LEARNED` blocks, in the run's own process, which
shares it with others. Then chunks of families, as for other geolevels: the posterior laws of each block's counts, and
the parent's counts shared out at the least expected error (`tallyveil.kernels.allocation.flow`). Nothing is drawn, so
that the counts follow from the measurements, and neither chunks nor threads change them.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from tallyveil.arrays import IntegerRows
from tallyveil.budget.strategy import Mechanism
from tallyveil.estimation.allocation.model import CellKinds, families_of, grid_of, kinds_of
from tallyveil.estimation.allocation.prior import BlockModel, Sample, learned
from tallyveil.estimation.posterior.problem import inverse_parameters
from tallyveil.estimation.problem import EstimateStatus, RoundingMethod
from tallyveil.kernels.allocation.flow import share_out
from tallyveil.kernels.allocation.law import Answers, Families, Noise, block_laws, likelihoods
from tallyveil.measurements.answers import answers_on_support
from tallyveil.postprocess.families.chunk_files import ChunkFolders
from tallyveil.postprocess.families.level import (
    ChunkOutcome,
    FamilyBuilder,
    KeepMeasurements,
    LevelOutcome,
    Span,
    cut,
    joined_outcome,
    largest_first,
)
from tallyveil.runs.executor import Chunks, Executor, gathered
from tallyveil.runs.observer import Observer
from tallyveil.schema.counts import PublicCounts, narrow
from tallyveil.schema.query_group import QueryGroup
from tallyveil.storage.archives import archived, content_of, read_archive, write_archive

ALLOCATION: Final = "allocation"
"""Name of the work in addresses."""

PRIOR: Final = "block-prior"
"""Name of the file in which the run's own process shares the prior."""

MOST_LEARNED: Final = 30_000
"""Blocks to learn from. A small state gives all that it has. The time of learning grows with them, and the prior has
some hundred numbers, which a part of a large state tells well."""

RUN: Final = 16
"""Families that are asked for together where only some are learned from."""

REACH: Final = 6.0
"""Standard deviations of normal noise beyond which noise is left out: two in a billion are larger."""

LAPLACE_REACH: Final = 20.0
"""The same in scales of Laplace noise."""


@dataclass(frozen=True, slots=True, eq=False)
class BlockAllocation:
    """The allocation of the finest geolevel.

    Attributes:
        builder: What is measured there.
        above: Counts of the parents.
        over: Counts of the parents' parents.
    """

    builder: FamilyBuilder
    above: PublicCounts
    over: PublicCounts

    @property
    def _kinds(self) -> CellKinds:
        return kinds_of(self.builder.plan.schema)

    @property
    def _query(self) -> QueryGroup:
        """The measured query that tells all cells apart; a plan without one is refused."""
        return self.builder.plan.query(str(self.builder.plan.cells_at_finest))

    @property
    def noise(self) -> Noise:
        """The law of the noise of a cell, which is the same in every block."""
        builder = self.builder
        variance = builder.allocation.variances(builder.geolevel, self._query.name, 0, 1)
        gaussian = builder.plan.mechanism is Mechanism.DISCRETE_GAUSSIAN
        rate = float(inverse_parameters(1.0 / variance, gaussian=gaussian)[0])
        reach = REACH / rate**0.5 if gaussian else LAPLACE_REACH / rate
        return Noise(rate, 2 if gaussian else 1, int(np.ceil(reach)))

    def families(self, first: int, last: int) -> Families:
        """What the prior knows of the families of parents first to last - 1."""
        spine, level = self.builder.spine, self.builder.level
        parents = spine.child_offsets[level - 2]
        parent = np.repeat(np.arange(len(parents) - 1), np.diff(parents))[first:last]
        begin = int(parent[0])
        over = self.over.dense(begin, int(parent[-1]) + 1, self._query.n_cells)
        n_blocks = np.diff(spine.child_offsets[level - 1][first : last + 1])
        counts = self.above.dense(first, last, self._query.n_cells)
        return families_of(self._kinds, counts, over[parent - begin], n_blocks)

    def values(
        self, first: int, last: int, number: int = 0, keep: KeepMeasurements | None = None
    ) -> IntegerRows:
        """The noisy answers of the blocks of parents first to last - 1; 0 where the parent has nobody.

        Args:
            first, last: The parents.
            number: Number of the chunk.
            keep: Called with the measurements of all queries on the support of the parents.
        """
        builder, query = self.builder, self._query
        offsets, cells, _ = self.above.slice(first, last)
        if keep is None:
            begin = builder.spine.child_offsets[builder.level - 1][first : last + 1].copy()
            settled = (np.diff(begin) == 1) | (np.diff(offsets) == 0)
            wanted = answers_on_support(builder.geolevel, (query,), begin, offsets, cells, settled)
        else:
            wanted = builder.answers(first, last, self.above)
        noisy = builder.source.measure_families(wanted)
        if keep is not None:
            keep(number, wanted, noisy)
        q = [group.name for group in wanted.queries].index(query.name)
        starts = wanted.child_begin - wanted.child_begin[0]
        values = np.zeros((int(starts[-1]), query.n_cells), np.int64)
        for f in range(last - first):
            rows, width = slice(starts[f], starts[f + 1]), int(wanted.widths[q, f])
            if width:  # nothing is asked for an only child, which has its parent's counts
                of_family = noisy[wanted.value_begin[q, f] : wanted.value_begin[q, f + 1]].reshape(-1, width)
                entries = slice(offsets[f], offsets[f + 1])
                values[rows, cells[entries]] = of_family[:, wanted.columns[q, entries]]
        return values

    def learned(self) -> BlockModel:
        """The prior, learned from the noisy answers of some families, which depend on their sizes alone."""
        begin = self.builder.spine.child_offsets[self.builder.level - 1]
        n_families = len(begin) - 1
        step = max(1, -(-int(begin[-1]) // MOST_LEARNED))
        runs = [(run, min(run + RUN, n_families)) for run in range(0, n_families, RUN * step)]
        places = np.concatenate([np.arange(*run) for run in runs])
        every = [self.families(*run) for run in runs]
        sample = Sample(
            np.concatenate([self.values(*run) for run in runs]),
            np.repeat(np.arange(len(places)), np.diff(begin)[places]),
            Families(*(np.concatenate(parts) for parts in zip(*every, strict=True))),
        )
        people, totals = np.zeros(self._query.n_cells, np.int64), np.zeros(n_families, np.int64)
        rows, cells, counts = self.above.rows(0, n_families)
        np.add.at(people, cells, counts)
        np.add.at(totals, rows, counts)
        grid_for = partial(grid_of, self._kinds, people, int(totals.max(initial=0)))
        return learned(sample, self.noise, grid_for)

    def outcome(self, model: BlockModel, span: Span, keep: KeepMeasurements | None) -> ChunkOutcome:
        """The counts of the families of a chunk."""
        first, last = span.first, span.last
        families, noise = self.families(first, last), self.noise
        values = self.values(first, last, span.number, keep)
        distinct, place = np.unique(values, return_inverse=True)
        column = place.reshape(values.shape)
        table, _ = likelihoods(distinct, noise, model.grid)
        begin = self.builder.spine.child_offsets[self.builder.level - 1][first : last + 1]
        begin = begin - begin[0]
        parents = self.above.dense(first, last, self._query.n_cells)
        counts, statuses = np.zeros(values.shape, np.int64), []
        for f, supply in enumerate(parents):
            rows = slice(begin[f], begin[f + 1])
            if not supply.any():
                statuses.append(EstimateStatus.EMPTY)
            elif begin[f + 1] - begin[f] == 1:
                counts[rows] = supply
                statuses.append(EstimateStatus.COPIED)
            else:
                answers = Answers(values[rows], column[rows], table, noise)
                laws = block_laws(answers, f, families, model.prior, model.grid)
                counts[rows] = share_out(laws, supply)
                statuses.append(EstimateStatus.ALLOCATED)
        row, cells = np.nonzero(counts)
        return ChunkOutcome(
            span=span,
            lengths=np.count_nonzero(counts, axis=1),
            cells=narrow(cells),
            counts=narrow(counts[row, cells]),
            statuses=tuple(statuses),
            methods=tuple(
                RoundingMethod.NETWORK_FLOW if status is EstimateStatus.ALLOCATED else RoundingMethod.FIXED
                for status in statuses
            ),
            widened=0,
            residual_persons=0.0,
        )

    def chunks(
        self, model: BlockModel, keep: KeepMeasurements | None, folders: ChunkFolders
    ) -> tuple[Chunks[ChunkOutcome], list[Span]]:
        """The families as chunks that any process of the run can do.

        Args:
            model: The prior.
            keep: Called with the measurements of every chunk, whatever its counts follow from.
            folders: Where the release is.
        """
        spans = cut(self.above, self.builder.spine.child_offsets[self.builder.level - 1])

        def work(number: int) -> ChunkOutcome:
            return self.outcome(model, spans[number], keep)

        address = {"work": ALLOCATION, "geolevel": self.builder.geolevel}
        return folders.chunks(address, ChunkOutcome, work), spans

    def estimated(
        self, observer: Observer, executor: Executor, keep: KeepMeasurements | None, folders: ChunkFolders
    ) -> LevelOutcome:
        """The counts of the geolevel. They do not depend on the executor.

        Args:
            observer: Receives the number of finished families.
            executor: Runs the chunks.
            keep, folders: As for `chunks`.
        """
        model = self.learned()
        executor.share(PRIOR, partial(_save, model))
        chunks, spans = self.chunks(model, keep, folders)

        def done(number: int) -> None:
            observer.advanced(spans[number].last - spans[number].first)

        outcome = joined_outcome(
            self.builder.geolevel, gathered(executor, chunks, largest_first(spans), done)
        )
        prior = {"blocks": model.n_blocks, "concentration": model.grid.concentration}
        return LevelOutcome(outcome.counts, {**outcome.solver, "prior": prior})


def shared_model(folders: ChunkFolders) -> BlockModel:
    """The prior that the run's own process shares; raises StoreError."""
    return content_of(BlockModel, read_archive(folders.shared(PRIOR)))


def _save(model: BlockModel, path: Path) -> None:
    write_archive(path, *archived(model))
