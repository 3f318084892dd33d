"""The model from which variances follow, for a finished release or for a plan whose data has not been opened."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tallyveil.budget.strategy import Strategy
from tallyveil.errors import StoreError
from tallyveil.geography.areas import Hierarchies
from tallyveil.geography.spine import Spine
from tallyveil.intervals import ABOVE, AnswerRows, StoredRows, TreeModel, model_of_strategy
from tallyveil.plans.estimating import strategy_of_plan
from tallyveil.plans.release import ReleasePlan
from tallyveil.plans.stated import stated_plan
from tallyveil.plans.subspace_query import drawn_items
from tallyveil.postprocess.bounds_files import read_bounds
from tallyveil.postprocess.constraints import public_zeros, zeros_of
from tallyveil.postprocess.invariant_files import stated_invariant
from tallyveil.postprocess.lattice_measurements import DrawnRows, drawn_queries
from tallyveil.release.finished import LEDGER, MANIFEST, refuse_unfinished
from tallyveil.release.geography import read_hierarchies
from tallyveil.release.histograms import read_histogram
from tallyveil.release.kinds import ReleaseKind
from tallyveil.release.manifest import Manifest
from tallyveil.release.manifest_files import entered_manifest, written_manifest
from tallyveil.storage.json_files import JsonObject
from tallyveil.universe.schema import Schema


@dataclass(frozen=True, slots=True, eq=False)
class FinishedRelease:
    """The parts of a finished release on which variances depend.

    Attributes:
        root: Its folder.
        manifest: Content of `manifest.json`.
        schema: The universe.
        hierarchies: The spine, and the areas off the spine.
        strategy: The measured queries and their budgets.
    """

    root: Path
    manifest: Manifest
    schema: Schema
    hierarchies: Hierarchies
    strategy: Strategy

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
    def name(self) -> str:
        """Name of the release."""
        return str(self.manifest.body["name"])

    @property
    def tags(self) -> dict[str, str]:
        """Metadata of files that follow from the release."""
        protected = "true" if self.manifest.protected else "false: made with an insecure test key"
        return {"run": self.manifest.run, "protected": protected}


def open_release(root: Path, *, in_run: bool = False) -> FinishedRelease:
    """Read manifest and geography of a finished release.

    Args:
        root: Its folder.
        in_run: Whether the release's own run holds the folder, so that the private folder is still there, without key.
    Raises:
        StoreError: the folder holds no finished release.
    """
    if not in_run:
        refuse_unfinished(root)
    # The answers for a district need only the manifest, the geography and the bounds. So a copy of the release may
    # lack the ledger. If the ledger is there, it is checked.
    read = entered_manifest if (root / LEDGER).exists() and not in_run else written_manifest
    manifest = read(root, ReleaseKind.TOPDOWN)
    plan = manifest.body["plan"]
    stated = stated_plan(root / MANIFEST, plan)
    hierarchies = read_hierarchies(root)
    stated.require_geolevels(root / MANIFEST, hierarchies.spine.geolevels)
    return FinishedRelease(root, manifest, stated.estimating.schema, hierarchies, strategy_of_plan(plan))


def refuse_partial_measurements(release: FinishedRelease) -> None:
    """Refuse a release that does not hold all its noisy answers; raises StoreError."""
    kept = release.plan["measurements"]
    if kept != "full":
        raise StoreError(
            f'{release.root} was made with measurements = "{kept}"; estimates and intervals need all noisy answers. '
            "These cannot be drawn again, because the key of the noise has been removed. Make the next release with "
            'measurements = "full" under [outputs], which costs no additional budget. Standard errors need no '
            "measurements: ask for those of a district with --district, or of a plan with `tallyveil plan "
            "--families`.",
            code="measurements-missing",
        )


def release_model(release: FinishedRelease, *, with_bounds: bool = True) -> TreeModel:
    """The model that the measurements of a release follow.

    Args:
        release: The release.
        with_bounds: Whether the zeros of its public bounds are used. Without them the variances are larger.
    Raises:
        StoreError: the public bounds are not in the folder.
        SchemaError, ConstraintError: the covariance blocks would be too large.
    """
    plan, zeros, hierarchies = release.plan, [], release.hierarchies
    if with_bounds:
        tables = (
            read_bounds(release.root, number, bounds, release.schema, hierarchies)
            for number, bounds in enumerate(plan["bounds"])
        )
        zeros = [zeros_of(table, release.spine) for table in tables]
    stated = [(item["query"], item["geolevels"]) for item in plan["invariants"]]
    return model_of_strategy(
        release.schema,
        release.spine,
        release.strategy,
        shares=hierarchies.shares,
        invariants=invariants_by_geolevel(stated, hierarchies),
        zeros=zeros,
        besides=drawn_queries(release.schema, release.strategy, drawn_items(plan)),
    )


def plan_model(plan: ReleasePlan, hierarchies: Hierarchies) -> TreeModel:
    """The model that the measurements of a plan will follow. Raises the same errors as `release_model`."""
    stated = [(item.query, item.geolevels) for item in plan.invariants]
    return model_of_strategy(
        plan.schema,
        hierarchies.spine,
        plan.strategy,
        shares=hierarchies.shares,
        invariants=invariants_by_geolevel(stated, hierarchies),
        zeros=public_zeros(plan, hierarchies),
        besides=drawn_queries(plan.schema, plan.strategy, plan.subspace),
    )


def measured_rows(release: FinishedRelease, model: TreeModel) -> AnswerRows:
    """All noisy answers of a release, including those of the integer-subspace mechanism."""
    stored = StoredRows(release.root, model)
    items = drawn_items(release.plan)
    return DrawnRows(stored, release.root, items, release.schema, release.spine) if items else stored


def invariants_by_geolevel(
    stated: Sequence[tuple[str, Sequence[str]]], hierarchies: Hierarchies
) -> Mapping[str, list[str]]:
    """Each invariant at the finest geolevel of which every geounit's answers are exact; coarser ones are sums of these.

    Where an invariant is on sums of siblings, that is the geolevel above them: the model has nothing that binds
    siblings, so that it does without what the single sums tell. If the siblings are roots, and their only sum is that
    of all roots, the invariant is used above the roots. If roots have several sums, it is not used.
    """
    found: dict[str, list[str]] = {}
    for query, geolevels in stated:
        at = stated_invariant(hierarchies, query, geolevels)
        level = at.level - (at.groups is not None)
        if level < 0 and at.n_geounits > 1:
            continue
        own = found.setdefault(hierarchies.spine.geolevels[level] if level >= 0 else ABOVE, [])
        if query not in own:
            own.append(query)
    return found


def published_invariants(release: FinishedRelease, model: TreeModel) -> dict[str, NDArray[np.int64]]:
    """The exact answers of a model's invariants, as the release publishes them.

    Raises:
        StoreError: a histogram cannot be read.
    """
    found = {}
    for geolevel, groups in model.exact:
        if groups:
            stored = geolevel or release.spine.geolevels[0]
            counts = read_histogram(release.root, stored, release.schema, release.spine)
            triplets = counts.rows(0, counts.n_geounits)
            parts = [group.apply(*triplets, counts.n_geounits) for group in groups]
            answers = np.concatenate(parts, axis=1)
            found[geolevel] = answers.sum(axis=0, keepdims=True) if geolevel == ABOVE else answers
    return found
