"""What can be known of a release before it spends: its inputs are read and checked, and nothing is written."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallyveil.confidential.histogram import ConfidentialHistogram, check_bounds, invariant_values
from tallyveil.geography.areas import Hierarchies
from tallyveil.geography.geometry import geometry_warnings
from tallyveil.plans.constraints import Agreement, Invariant, Residents
from tallyveil.plans.guarantee import privacy_of
from tallyveil.plans.release import ReleasePlan
from tallyveil.plans.resources import predict, sizes_of_spine, warn_small_machine
from tallyveil.postprocess.constraint_files import TakenOver, invariant_name, stated_invariant
from tallyveil.postprocess.constraints import ConstraintTable, constraint_table, refuse_conflicts
from tallyveil.postprocess.families.tree_values import TreeSweep, prepared_sweep
from tallyveil.postprocess.intervals.fits import planned_fits
from tallyveil.postprocess.other_releases import (
    AgreedCounts,
    promised_counts,
    read_agreement,
    read_residents,
    refuse_unprotected,
)
from tallyveil.postprocess.passes.exact_groups import FirstGroups, covering_counts, first_groups
from tallyveil.products.topdown.run.inputs import read_histograms
from tallyveil.products.topdown.run.public import PublicInputs, read_public
from tallyveil.products.topdown.run.spine_making import warnings_of
from tallyveil.runs.observer import Observer, Stopwatch
from tallyveil.schema.counts import narrow_limits
from tallyveil.storage.json_files import JsonObject

if TYPE_CHECKING:
    from tallyveil.plans.lattice_draws import SubspaceDraw


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs that a release file names, read and checked.

    Attributes:
        public: The public ones.
        privacy: The guarantee, for the manifest.
        counts_of_others: What is taken over from finished releases.
        taken: What the manifest says of these releases, by the kind of what is taken over.
        histograms: True counts of every geolevel. Confidential.
        records_digest: Digest of the records. Confidential: it would confirm a guess of them.
    """

    public: PublicInputs
    privacy: dict[str, Any]
    counts_of_others: TakenOver
    taken: dict[str, list[JsonObject]]
    histograms: tuple[ConfidentialHistogram, ...] = field(repr=False)
    records_digest: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Prepared:
    """What follows from the inputs before the spend.

    Attributes:
        constraints: Invariants and public bounds, at every geolevel.
        groups: The counts that outer passes begin with, by group; None where the plan has no outer passes.
        subspace: The counts that will be drawn on a lattice.
        tree: The sweep up the spine, if families are fitted to values from the tree.
    """

    constraints: tuple[ConstraintTable, ...]
    groups: FirstGroups | None
    subspace: "tuple[SubspaceDraw, ...]"
    tree: TreeSweep | None


def read_inputs(
    plan: ReleasePlan,
    observer: Observer,
    watch: Stopwatch,
    awaited: Sequence[Agreement] = (),
    *,
    protected: bool,
) -> Inputs:
    """Read the geography of a plan, the finished releases that it agrees with, and its records.

    Args:
        plan: The plan.
        observer: Told of progress.
        watch: Times the stages.
        awaited: Agreements with releases of the same programme that are not finished.
        protected: Whether the release shall protect people, so that it cannot read one that does not.
    Raises:
        TallyveilError: an input breaks its rules, a release that the plan agrees with is not finished or does not fit,
            or the event cannot be accounted for.
    """
    with watch.stage("read geography"):
        public = read_public(plan)
        # Before the records: a guarantee that cannot be stated must fail while nothing confidential is open.
        privacy = privacy_of(plan, public.allocation)  # not every event can be accounted for
        others, taken = _taken_over(plan, public.hierarchies, protected=protected)
    hierarchies = public.hierarchies
    for sentence in (
        *public.warnings,
        *warnings_of(hierarchies.changes),
        *geometry_warnings(hierarchies.geometry),
    ):
        observer.warned(sentence)
    warning = warn_small_machine(predict(plan, sizes_of_spine(hierarchies.spine)))
    if warning is not None:
        observer.warned(warning)
    with watch.stage("read records"):
        histograms = read_histograms(plan, hierarchies.spine, awaited)
    # Coarser geolevels are sums of the finest one, so its digest is that of all records.
    return Inputs(public, privacy, others, taken, histograms, histograms[-1].digest())


def _taken_over(
    plan: ReleasePlan, hierarchies: Hierarchies, *, protected: bool
) -> tuple[TakenOver, dict[str, list[JsonObject]]]:
    """What is taken over from finished releases, and what the manifest says of them."""
    agreed = [read_agreement(item, plan.schema, hierarchies) for item in plan.agreement]
    residents = [read_residents(item, hierarchies.spine) for item in plan.residents]
    if protected:
        for release in (*(counts.release for counts in agreed), *(people.release for people in residents)):
            refuse_unprotected(release)
    records = {
        "agreement": [counts.record for counts in agreed],
        "residents": [people.record for people in residents],
    }
    others = TakenOver(
        tuple(counts.counts for counts in agreed), tuple(people.counts for people in residents)
    )
    return others, {kind: listed for kind, listed in records.items() if listed}


def prepare(
    plan: ReleasePlan,
    inputs: Inputs,
    watch: Stopwatch,
    promised: Sequence[Agreement | Residents] = (),
) -> Prepared:
    """Check the constraints of a plan against its inputs, and prepare what it asks for.

    Args:
        plan: The release.
        inputs: What it reads.
        watch: Times the stage.
        promised: Agreements and residents that the plan does not have, of releases that will be made before this one.
            What outer passes begin with is then not known, only whether these counts and the others will be enough.
    Raises:
        TallyveilError: constraints contradict each other or the records, or something could not be computed with them.
    """
    hierarchies, others = inputs.public.hierarchies, inputs.counts_of_others
    with watch.stage("compile constraints"):
        constraints = compile_constraints(
            plan, hierarchies, inputs.histograms, inputs.public.bounds, others.agreed
        )
        # Refuses tables that could have no intervals, and zeros that these could not take into account.
        if plan.intervals is not None:
            planned_fits(plan, hierarchies, [plan.query(name) for name in plan.tables])
        # Refuses constraints that outer passes could not keep.
        groups = None
        if plan.outer and promised:
            later = (
                promised_counts(item, plan.schema, hierarchies.spine)
                for item in promised
                if isinstance(item, Agreement)
            )
            covering_counts(plan, constraints, [*others.agreed, *later], hierarchies.spine)
        elif plan.outer:
            groups = first_groups(plan, constraints, others, hierarchies.spine)
        subspace: tuple[SubspaceDraw, ...] = ()
        if plan.subspace:
            # Imported here, since few plans have such counts.
            from tallyveil.plans.lattice_draws import prepare_subspace

            subspace = prepare_subspace(plan, hierarchies.spine)
        # Refuses public zeros that the sweep up the spine could not take into account.
        tree = prepared_sweep(plan, hierarchies, constraints)
    return Prepared(constraints, groups, subspace, tree)


def compile_constraints(
    plan: ReleasePlan,
    hierarchies: Hierarchies,
    histograms: tuple[ConfidentialHistogram, ...],
    bounds: Sequence[ConstraintTable],
    agreed: Sequence[AgreedCounts] = (),
) -> tuple[ConstraintTable, ...]:
    """Invariants and public bounds of a plan, summed upward to every coarser geolevel.

    Args:
        plan: The release.
        hierarchies: Its spine.
        histograms: True counts of every geolevel.
        bounds: Its public bounds, as they were read.
        agreed: Counts of finished releases that are kept. Without outer passes they are tables like the others, after
            the bounds; outer passes have them apart, because they have too many answers for a table.
    Raises:
        ConstraintError: constraints contradict each other, or the records break the bounds.
    """
    invariants = [_invariant_table(plan, invariant, hierarchies, histograms) for invariant in plan.invariants]
    agreed_tables = () if plan.outer else (counts.table() for counts in agreed)
    tables = (*invariants, *bounds, *agreed_tables)
    # Conflicts among what is public come first: they can be told in full.
    refuse_conflicts(tables, hierarchies.spine, plan.schema)
    for table in bounds:
        level = len(table.lower) - 1
        limits = table.lower[level], table.upper[level]
        # At the geolevel of the bounds alone: what holds there holds for all sums of it.
        check_bounds(histograms[level], table.query, *limits, table.name, table.groups)
    return tables


def _invariant_table(
    plan: ReleasePlan,
    invariant: Invariant,
    hierarchies: Hierarchies,
    histograms: tuple[ConfidentialHistogram, ...],
) -> ConstraintTable:
    query = plan.query(invariant.query)
    stated = stated_invariant(hierarchies, invariant.query, invariant.geolevels)
    # An invariant is a bound whose two ends are equal, so that one kind of table serves both.
    values = narrow_limits(invariant_values(histograms[stated.level], query, stated.groups))
    return constraint_table(
        invariant_name(invariant.query), query, (values, values), stated, hierarchies.spine
    )
