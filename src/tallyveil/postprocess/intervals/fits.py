"""The models that make the intervals of a release: one of all tables, or one of each table with merged cells."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tallyveil.errors import ConfigError, SchemaError
from tallyveil.estimation.intervals.covariance import ROWS, TreeCovariance
from tallyveil.estimation.intervals.fit import AnswerRows, KeptRows, TreeEstimate, fit_tree
from tallyveil.estimation.intervals.merged import Atoms, MergedModel, MergedRows, UnmergedModel, merged_model
from tallyveil.estimation.intervals.model import TreeModel
from tallyveil.estimation.intervals.questions import Questions, n_distinct_blocks, questions_of
from tallyveil.geography.areas import Hierarchies
from tallyveil.geography.spine import Spine
from tallyveil.plans.machine import in_gib, machine_memory
from tallyveil.plans.release import ReleasePlan
from tallyveil.postprocess.intervals.model import (
    FinishedRelease,
    exact_answers,
    measured_rows,
    plan_measured,
    plan_model,
    published_invariants,
    release_measured,
    release_model,
)
from tallyveil.schema.query_group import QueryGroup
from tallyveil.storage.json_files import JsonObject

BLOCK_ARRAYS, FINEST_ARRAYS, ESTIMATE_ARRAYS, QUERY_ARRAYS = 13, 8, 4, 3
"""Arrays that are in memory at once, measured for blocks of 140 and of 1,400 rows.

There are arrays of blocks for every geounit above the finest geolevel, and as many for those that are worked on; arrays
of blocks for finest geounits; arrays of estimates; and arrays of blocks for every query of a geolevel.
"""

MOST_SETS: Final = 1 << 14
"""Most atoms of a table. The algebra of more would take long to derive, and their covariances never fit into memory."""
LARGEST_SHARE: Final = 0.75
"""Share of the machine's memory above which a table is refused."""


@dataclass(frozen=True, slots=True, eq=False)
class IntervalFit:
    """Tables that are estimated together.

    Attributes:
        groups: Their queries.
        model: The model of the measurements, with all cells or with merged ones.
        measured: What was measured; None if the model has all cells.
        merged: The merged cells; None if the model has all cells.
    """

    groups: tuple[QueryGroup, ...]
    model: TreeModel
    measured: UnmergedModel | None = None
    merged: MergedModel | None = None

    @property
    def questions(self) -> Questions:
        """The answers of the tables, one table after the other."""
        asked = self.groups if self.merged is None else (self.merged.asked,)
        return questions_of(self.model.algebra, asked)

    @property
    def asked(self) -> list[tuple[QueryGroup, Questions]]:
        """Each table's query, and its answers."""
        if self.merged is not None:
            return [(self.groups[0], self.questions)]
        return [(group, questions_of(self.model.algebra, group)) for group in self.groups]

    def stage(self, name: str) -> str:
        """Name of a stage of this fit."""
        return name if self.merged is None else f"{name} of {self.groups[0].name}"

    def rows(self, release: FinishedRelease) -> AnswerRows:
        """The noisy answers, read from the release."""
        if self.merged is None or self.measured is None:
            return KeptRows(measured_rows(release, self.model))
        return KeptRows(MergedRows(measured_rows(release, self.measured), self.merged))

    def estimate(self, release: FinishedRelease, tree: TreeCovariance, *, workers: int) -> TreeEstimate:
        """The estimates of all geounits, from the noisy answers; raises StoreError."""
        return fit_tree(tree, self.rows(release), self.invariants(release), workers=workers)

    def invariants(self, release: FinishedRelease) -> Mapping[str, NDArray[np.int64]]:
        """What is known exactly; raises StoreError."""
        if self.merged is None:
            return published_invariants(release, self.model)
        spine = self.model.spine
        return {
            spine.geolevels[level]: np.concatenate(
                [
                    answer_sum.apply(exact_answers(release, spine, level, answer_sum.query))
                    for answer_sum in sums
                ],
                axis=1,
            )
            for level, sums in enumerate(self.merged.exact)
            if sums
        }

    def to_mapping(self, release: FinishedRelease) -> JsonObject:
        """For the manifest of the intervals: from what the table is estimated. Only with merged cells."""
        assert self.merged is not None
        strategy = release.strategy
        used, unused = {}, {}
        for geolevel, sums in zip(self.model.spine.geolevels, self.merged.measured, strict=True):
            if geolevel not in release.spine.geolevels:
                continue  # nothing is measured of the sums of siblings
            names = used[geolevel] = list(dict.fromkeys(answer_sum.query.name for answer_sum in sums))
            queries = strategy.queries(geolevel) if geolevel in strategy.geolevels else ()
            unused[geolevel] = [name for name in queries if name not in names]
        return {"query": self.groups[0].name, "atoms": self.merged.atoms.n, "used": used, "unused": unused}


def fits_of(
    release: FinishedRelease, groups: Sequence[QueryGroup], *, with_bounds: bool
) -> list[IntervalFit]:
    """The fits of a job. Every table is refused here, before the first one is estimated.

    Args:
        release: The release.
        groups: Queries of the tables.
        with_bounds: Whether the zeros of public bounds are used.
    Raises:
        StoreError: the public bounds are not in the folder.
        SchemaError, ConstraintError: the covariance blocks would be too large.
        ConfigError: nothing that is written determines a table.
    """
    if not release.stated.tables_apart:
        return [whole_fit(release_model(release, with_bounds=with_bounds), groups)]
    return _table_fits(release_measured(release, with_bounds=with_bounds), groups)


def planned_fits(
    plan: ReleasePlan, hierarchies: Hierarchies, groups: Sequence[QueryGroup]
) -> list[IntervalFit]:
    """The fits that a release of a plan will have. Raises the same errors as `fits_of`."""
    if not plan.tables_apart:
        return [whole_fit(plan_model(plan, hierarchies), groups)]
    return _table_fits(plan_measured(plan, hierarchies), groups)


def whole_fit(model: TreeModel, groups: Sequence[QueryGroup]) -> IntervalFit:
    """All tables with the model of all cells; raises SchemaError if the blocks of their answers do not fit."""
    # Eight bytes a number; blocks that are equal for several queries are held once.
    needed = 8 * model.algebra.n_block_entries * n_distinct_blocks(model.algebra, groups)
    _refuse_needed([group.name for group in groups], needed, machine_memory(), "the blocks of their answers")
    return IntervalFit(tuple(groups), model)


def _table_fits(measured: UnmergedModel, groups: Sequence[QueryGroup]) -> list[IntervalFit]:
    if not groups:
        raise ConfigError(
            "no tables are named, and the release publishes no tables. Name queries with --tables.",
            code="interval-tables",
        )
    models = [(group, table_model(measured, group)) for group in groups]
    return [IntervalFit((group,), merged.tree, measured, merged) for group, merged in models]


def table_model(measured: UnmergedModel, group: QueryGroup, memory: int | None = None) -> MergedModel:
    """The model of a table that can have intervals.

    Args:
        measured: What is measured.
        group: The table's query.
        memory: Bytes of memory; None for those that this process may use.
    Raises:
        SchemaError: its covariances would not fit into memory.
        ConfigError: nothing that is written determines it.
    """
    has = machine_memory() if memory is None else memory
    atoms = measured.atoms_of(group)
    # Three looks, each with a better estimate: what is far too large is refused before costly steps.
    _refuse_large(group, atoms, needed_bytes(measured.spine, atoms.n), has)  # before the algebra is derived
    merged = merged_model(measured, group, atoms)
    algebra = merged.tree.algebra
    n_queries = max(len(level.measured) for level in merged.tree.levels)
    needed = needed_bytes(measured.spine, atoms.n, algebra.n_block_entries, n_queries)
    _refuse_large(group, atoms, needed, has)
    needed += 8 * algebra.n_block_entries * n_distinct_blocks(algebra, [merged.asked])
    _refuse_large(group, atoms, needed, has)
    # Nothing that is written determines any answer: an empty table would say nothing.
    if not merged.determined.any():
        raise ConfigError(
            f"no noisy answers that are written determine the table '{group.name}' in any geounit. With "
            'measurements = "small" these are all answers of the queries with at most 8,192, and of larger queries '
            "where they are few. Ask for a table that they determine, or make the intervals of such counts from "
            "another release that measures them.",
            code="table-undetermined",
        )
    return merged


def needed_bytes(spine: Spine, n_atoms: int, n_block_entries: int = 0, n_queries: int = 0) -> int:
    """Bytes of memory while a table is estimated.

    Args:
        spine: The hierarchy.
        n_atoms: Number of atoms.
        n_block_entries: Numbers in the blocks of one geounit; 0 if they are not known yet.
        n_queries: Most queries of a geolevel of the flat schema.
    """
    inner = 1 + sum(spine.n_geounits(level) for level in range(spine.finest))
    # Blocks are held for all inner geounits, and once more for those that are worked on.
    geounits = BLOCK_ARRAYS * (inner + min(inner, ROWS)) + FINEST_ARRAYS
    blocks = (geounits + QUERY_ARRAYS * n_queries) * n_block_entries
    return 8 * (blocks + ESTIMATE_ARRAYS * inner * n_atoms + n_atoms * n_queries)


def _refuse_large(group: QueryGroup, atoms: Atoms, needed: int, has: int) -> None:
    if atoms.n > MOST_SETS:
        raise SchemaError(
            f"intervals of '{group.name}' would need covariances of {atoms.n:,} sets of cells in each geounit; at most "
            f"{MOST_SETS:,} are tried. Ask for a query with fewer answers, such as one with recodes.",
            code="blocks-too-large",
        )
    what = (
        f"{atoms.n:,} sets of cells in each geounit above the finest geolevel, and for {group.size:,} answers"
    )
    _refuse_needed([group.name], needed, has, what)


def _refuse_needed(names: Sequence[str], needed: int, has: int, what: str) -> None:
    if needed > LARGEST_SHARE * has:
        raise SchemaError(
            f"intervals of {', '.join(map(repr, names))} would need about {in_gib(needed)} of memory for {what}; this "
            f"process may use {in_gib(has)}, and a quarter is kept free. Ask for queries with fewer answers, such as "
            "those with recodes, or use a machine with more memory.",
            code="blocks-too-large",
        )
