"""The model from which variances follow, for a finished release or for a plan whose data has not been opened."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tallyveil.accounting.ledger.lines import LEDGER
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.errors import ConfigError, StoreError
from tallyveil.estimation.intervals.fit import AnswerRows, MeasuredLevels, StoredRows
from tallyveil.estimation.intervals.merged import UnmergedModel
from tallyveil.estimation.intervals.model import (
    LevelModel,
    TreeModel,
    Zeros,
    levels_of_strategy,
    model_of_levels,
    with_queries,
)
from tallyveil.files.finished import MANIFEST, PLAN, refuse_unfinished
from tallyveil.files.geography import read_hierarchies
from tallyveil.files.histograms import read_histogram
from tallyveil.files.manifest import Manifest, ReleaseKind
from tallyveil.files.manifest_files import entered_manifest, require_plan, written_manifest
from tallyveil.geography.areas import Hierarchies, with_sums
from tallyveil.geography.spine import Spine
from tallyveil.plans.fitting import stated_plan
from tallyveil.plans.release import LARGEST_SCHEMA, ReleasePlan, StatedPlan
from tallyveil.postprocess.constraint_files import (
    EXACT,
    stated_bounds,
    stated_constraints,
    stated_invariant,
)
from tallyveil.postprocess.constraints import public_zeros, zeros_of
from tallyveil.postprocess.families.lattice_measurements import DrawnRows, drawn_queries
from tallyveil.schema.names import as_named, check_table_name
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema
from tallyveil.storage.json_files import JsonObject


@dataclass(frozen=True, slots=True, eq=False)
class FinishedRelease:
    """The parts of a finished release on which variances depend.

    Attributes:
        root: Its folder.
        manifest: Content of `manifest.json`.
        schema: The universe.
        hierarchies: The spine, and the areas off the spine.
        strategy: The measured queries and their budgets.
        stated: The plan that the manifest states.
    """

    root: Path
    manifest: Manifest
    schema: Schema
    hierarchies: Hierarchies
    strategy: Strategy
    stated: StatedPlan

    @property
    def spine(self) -> Spine:
        """The spine that was measured."""
        return self.hierarchies.spine

    @property
    def plan(self) -> JsonObject:
        """The plan in the manifest."""
        plan: JsonObject = self.manifest.body["plan"]
        return plan

    @property
    def is_alone(self) -> bool:
        """Whether the folder holds measurements alone, without counts that were estimated from them."""
        return self.manifest.kind is ReleaseKind.MEASUREMENTS

    @property
    def name(self) -> str:
        """Name of the release."""
        return str(self.manifest.body["name"])

    @property
    def tags(self) -> dict[str, str]:
        """Metadata of files that follow from the release."""
        return self.manifest.file_tags


def open_release(
    root: Path, *, in_run: bool = False, kinds: Sequence[ReleaseKind] = (ReleaseKind.TOPDOWN,)
) -> FinishedRelease:
    """Read manifest and geography of a finished release.

    Args:
        root: Its folder.
        in_run: Whether the release's own run holds the folder, so that the private folder is still there, without key.
        kinds: What the folder may hold; measurements have no published counts.
    Raises:
        StoreError: the folder holds no finished release.
    """
    # The run's own process still holds the private folder, but the key is gone by then.
    if not in_run:
        refuse_unfinished(root)
    # The answers for a district need only the manifest, the geography and the bounds. So a copy of the release may
    # lack the ledger. If the ledger is there, it is checked.
    read = entered_manifest if (root / LEDGER).exists() and not in_run else written_manifest
    manifest = read(root, *kinds)
    # A copy may lack the plan as well.
    if (root / PLAN).exists() and not in_run:
        require_plan(root, manifest)
    plan = manifest.body["plan"]
    stated = stated_plan(root / MANIFEST, plan)
    hierarchies = read_hierarchies(root)
    stated.require_geolevels(root / MANIFEST, hierarchies.spine.geolevels)
    return FinishedRelease(root, manifest, stated.schema, hierarchies, stated.strategy_in_passes, stated)


def named_queries(
    release: FinishedRelease, tables: Sequence[str] | None, known: Sequence[str] = ()
) -> tuple[QueryGroup, ...]:
    """The queries that are named, or those of the release's tables where None is given.

    Args:
        release: The release.
        tables: The queries; factors may stand in another order than in the release's tables and measurements.
        known: Further queries whose names are taken where a query has the same factors.
    Raises:
        ConfigError: there is none.
        SchemaError: a name is no query of the schema.
    """
    measured = (
        name for geolevel in release.strategy.geolevels for name in release.strategy.queries(geolevel)
    )
    known = [*release.plan["tables"], *known, *measured]
    names = dict.fromkeys(
        release.plan["tables"] if tables is None else (as_named(name, known) for name in tables)
    )
    if not names:
        raise ConfigError(
            f"no queries are named, and {release.root} publishes no tables. Name queries with --tables."
            if tables is None
            else "the list of queries is empty. Name one or more, or leave the list out for those of the release.",
            code="interval-tables",
        )
    for name in names:
        check_table_name(name, "query")
    return tuple(release.schema.query(name) for name in names)


def refuse_partial_measurements(release: FinishedRelease) -> None:
    """Refuse a release that does not hold all its noisy answers; raises StoreError."""
    written = release.plan["measurements"]
    if written not in ("full", "small"):
        raise StoreError(
            f'{release.root} was made with measurements = "{written}"; estimates and intervals need noisy answers. '
            "These cannot be drawn again, because the key of the noise has been removed. Make the next release with "
            'measurements = "full" under [outputs], or "small" for a large schema. This costs no additional budget. '
            "Standard errors need no measurements: ask for those of a district with --district, or of a plan with "
            "`tallyveil plan --families`.",
            code="measurements-missing",
        )


def release_model(release: FinishedRelease, *, with_bounds: bool = True) -> TreeModel:
    """The model that the measurements of a release follow, with every cell of its schema.

    Args:
        release: The release.
        with_bounds: Whether the zeros of its public bounds are used. Without them the variances are larger.
    Raises:
        StoreError: the public bounds are not in the folder.
        ConfigError: the release has a model for each table.
        SchemaError, ConstraintError: the covariance blocks would be too large.
    """
    refuse_tables_apart(release.stated)
    return whole_model(release_measured(release, with_bounds=with_bounds))


def plan_model(plan: ReleasePlan, hierarchies: Hierarchies) -> TreeModel:
    """The model that the measurements of a plan will follow. Raises the same errors as `release_model`."""
    refuse_tables_apart(plan)
    return whole_model(plan_measured(plan, hierarchies))


def whole_model(measured: UnmergedModel) -> TreeModel:
    """The model with every cell; raises SchemaError or ConstraintError if the covariance blocks would be too large."""
    return model_of_levels(
        measured.schema,
        measured.spine,
        measured.levels,
        zeros=measured.zeros,
        gaussian=measured.gaussian,
    )


def refuse_tables_apart(plan: StatedPlan) -> None:
    """Refuse a plan with a model for each table where one model of all cells is needed; raises ConfigError."""
    if plan.tables_apart:
        raise ConfigError(
            f"one model of all cells is needed here. A release with more than {LARGEST_SCHEMA:,} cells, or with "
            'measurements = "small", has a model for each table instead. So the covariances of counts of different '
            "tables are not known. Ask for the intervals of single tables with `tallyveil intervals RUN --tables "
            "QUERY,...`.",
            code="tables-apart",
        )


def release_measured(release: FinishedRelease, *, with_bounds: bool = True) -> UnmergedModel:
    """What a release measured and published exactly, as far as estimates can use it.

    Args:
        release: The release.
        with_bounds: Whether the zeros of its public bounds are used.
    Raises:
        StoreError: the public bounds are not in the folder.
    """
    plan, hierarchies = release.plan, release.hierarchies
    zeros: tuple[Zeros, ...] = ()
    if with_bounds:
        bounds = stated_bounds(plan["bounds"], hierarchies)
        tables = (item.read(release.root, release.schema, hierarchies.spine) for item in bounds)
        zeros = tuple(zeros_of(table, release.spine) for table in tables)
    stated = [(item["query"], item["geolevels"]) for item in plan["invariants"]]
    drawn = drawn_queries(release.schema, release.strategy, release.stated.subspace)
    return _measured(release.stated, hierarchies, release.strategy, stated, zeros, drawn)


def plan_measured(plan: ReleasePlan, hierarchies: Hierarchies) -> UnmergedModel:
    """The same for a plan. Raises TallyveilError for bounds that cannot be read."""
    stated = [(item.query, item.geolevels) for item in plan.invariants]
    drawn = drawn_queries(plan.schema, plan.strategy, plan.subspace)
    zeros = tuple(public_zeros(plan, hierarchies))
    return _measured(plan, hierarchies, plan.strategy, stated, zeros, drawn)


def _measured(
    plan: StatedPlan,
    hierarchies: Hierarchies,
    strategy: Strategy,
    stated: Sequence[tuple[str, Sequence[str]]],
    zeros: tuple[Zeros, ...],
    drawn: Mapping[str, Sequence[tuple[QueryGroup, float]]],
) -> UnmergedModel:
    schema, spine = plan.schema, hierarchies.spine
    with_wholes, invariants = exact_geolevels(stated, hierarchies)
    levels = levels_of_strategy(
        schema, spine, strategy, shares=hierarchies.shares, invariants=invariants, besides=drawn
    )
    # Only answers that are written can be used; the others were drawn but nobody has them.
    if plan.measurements == "small":
        levels = [
            with_queries(level, plan.written(level.geolevel, spine.n_geounits(number)))
            for number, level in enumerate(levels)
        ]
    by_name = {level.geolevel: level for level in levels}
    # Geolevels of sums of siblings have no measurements, but exact answers.
    for name in with_wholes.geolevels:
        if name not in by_name:
            exact = tuple(schema.query(query) for query in invariants[name])
            by_name[name] = LevelModel(name, (), np.zeros((1, 0)), exact)
    return UnmergedModel(
        schema,
        with_wholes,
        [by_name[name] for name in with_wholes.geolevels],
        zeros,
        strategy.mechanism is Mechanism.DISCRETE_GAUSSIAN,
    )


def measured_rows(release: FinishedRelease, model: MeasuredLevels) -> AnswerRows:
    """The noisy answers of a release, including those of the integer-subspace mechanism."""
    stored = StoredRows(release.root, model)
    items = release.stated.subspace
    return DrawnRows(stored, release.root, items, release.schema, model.spine) if items else stored


def exact_geolevels(
    stated: Sequence[tuple[str, Sequence[str]]], hierarchies: Hierarchies
) -> tuple[Spine, Mapping[str, list[str]]]:
    """The spine on which estimates are made, and for each of its geolevels the invariants that estimates use there.

    An invariant is used at the finest geolevel of which every geounit's answers are exact; coarser ones are sums of
    these. If it is on sums of siblings, this is a geolevel of the sums (`geography.areas.with_sums`).
    """
    placed = [(query, stated_invariant(hierarchies, query, geolevels)) for query, geolevels in stated]
    spine = with_sums(hierarchies.spine, [at for _, at in placed])
    invariants: dict[str, list[str]] = {}
    for query, at in placed:
        name = at.summed or hierarchies.spine.geolevels[at.level]
        queries = invariants.setdefault(name, [])
        if query not in queries:
            queries.append(query)
    return spine, invariants


def published_invariants(release: FinishedRelease, model: TreeModel) -> dict[str, NDArray[np.int64]]:
    """The exact answers of a model's invariants, as the release publishes them.

    Raises:
        StoreError: a histogram cannot be read.
    """
    return {
        level.geolevel: np.concatenate(
            [exact_answers(release, model.spine, number, group) for group in level.invariants], axis=1
        )
        for number, level in enumerate(model.levels)
        if level.invariants
    }


def exact_answers(release: FinishedRelease, spine: Spine, level: int, group: QueryGroup) -> NDArray[np.int64]:
    """The published answers of an invariant at a geolevel of a model's spine; raises StoreError."""
    at = level
    while spine.geolevels[at] not in release.spine.geolevels:
        at += 1  # the sums of siblings have no histogram, but the siblings have one
    if release.is_alone:
        return _stated_answers(release, at, group, of_groups=at > level)
    counts = read_histogram(release.root, spine.geolevels[at], release.schema, release.spine)
    answers = group.apply(*counts.rows(0, counts.n_geounits), counts.n_geounits)
    for above in range(at - 1, level - 1, -1):
        # The sums of siblings are summed from their histograms, as the release published them.
        answers = np.add.reduceat(answers, spine.child_offsets[above][:-1], axis=0)
    return answers


def _stated_answers(
    release: FinishedRelease, at: int, group: QueryGroup, *, of_groups: bool
) -> NDArray[np.int64]:
    """The answers of an invariant that measurements hold beside the noisy answers; raises StoreError.

    Args:
        release: The measurements.
        at: Number of a geolevel of the spine.
        group: The query of the invariant.
        of_groups: Whether the answers are those of sums of siblings at this geolevel.
    """
    exact = (item for item in stated_constraints(release.plan, release.hierarchies) if item.kind is EXACT)
    # Several invariants may be on one query; the model asks for one that is stated here.
    for item in exact:
        if release.schema.query(item.query).factors != group.factors:
            continue
        table = item.read(release.root, release.schema, release.spine)
        last = len(table.lower) - 1
        if (table.groups is not None and at == last) == of_groups and at <= last:
            return table.bounds_of(at, 0, len(table.lower[at]))[0]
    raise StoreError(
        f"{release.root} does not hold the exact answers of '{group.name}', which its plan names. Restore the folder "
        "from a copy.",
        code="measurements-missing",
    )
