"""Open the inputs of a plan: first the public geography, then the confidential records."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from tallyveil.budget.allocation import Allocation, allocation_of
from tallyveil.confidential.histogram import ConfidentialHistogram, aggregate_all
from tallyveil.confidential.records import read_records
from tallyveil.errors import ConfigError, GeographyError
from tallyveil.geography.areas import (
    NAME_COLUMNS,
    NAME_IN,
    Hierarchies,
    hierarchies_of,
    plain_hierarchies,
    stated_geounits,
    with_names,
)
from tallyveil.geography.build import spine_from_columns, spine_from_prefixes
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.geometry import read_shapes, require_maps, with_geometry
from tallyveil.geography.spine import Spine
from tallyveil.geography.tables import (
    GEOCODE,
    entities_from_columns,
    entities_from_pairs,
    family_columns,
    read_assignments,
)
from tallyveil.plans.constraints import Agreement
from tallyveil.plans.inputs import GeographyInput, SpineInput
from tallyveil.plans.release import ReleasePlan
from tallyveil.printable import short_name
from tallyveil.products.topdown.run.spine_making import make_spine
from tallyveil.schema.query_group import Factor
from tallyveil.storage.paths import is_same_file
from tallyveil.storage.read import collect, column_names, require_text, scan_table

ENTITY = "entity"
"""Column that names the entity in the table of an overlapping family."""


def read_hierarchies(plan: ReleasePlan) -> Hierarchies:
    """The spine that the steps of a plan make, the geography that it is made from, entities, names and geometry.

    Raises:
        GeographyError: the geography is not a tree, entities, names or geometry do not fit it, a step does not fit, or
            something is stated for a geolevel whose geounits the steps divide or replace.
        BudgetError: shares or variances do not fit the spine that the steps make.
        StoreError, ConfigError: a file or a column is missing or unreadable, or a public table is the records.
    """
    _refuse_records(plan)
    if plan.geography.geometry is not None:
        require_maps("[geography] geometry")  # before anything is read
    return _geometry_read(plan.geography, _names_read(plan, _read_areas(plan)))


def _names_read(plan: ReleasePlan, hierarchies: Hierarchies) -> Hierarchies:
    path = plan.geography.names
    if path is None:
        return hierarchies
    # Names in languages that the release is not shown in stay where they are: such a table is often somebody else's.
    wanted = [f"{NAME_IN}{language}" for language in plan.languages]
    known = column_names(path, "names") if wanted else ()
    columns = [*NAME_COLUMNS, *(name for name in wanted if name in known)]
    frame = scan_table(path, columns, "names")
    for column in columns:
        require_text(frame, column, path, "names")
    return with_names(hierarchies, collect(frame.cast(pl.String), path, "names"))


def _geometry_read(geography: GeographyInput, hierarchies: Hierarchies) -> Hierarchies:
    if geography.geometry is None:
        return hierarchies
    stored = read_shapes(geography.geometry, geography.geometry_geocode or "geocode")
    return replace(hierarchies, geometry=with_geometry(hierarchies.spine, stored))


def _refuse_records(plan: ReleasePlan) -> None:
    """Refuse the records in the place of a public table, whose content messages quote and releases contain."""
    spine = plan.spine
    public = [
        ("[geography] path", plan.geography.path),
        ("[geography] names", plan.geography.names),
        ("[geography] geometry", plan.geography.geometry),
        # Every table that a message may quote or a release may contain; a new public input belongs here.
        ("[spine] entities", None if spine is None else spine.entities),
        *(
            (f"[spine.overlapping] {name}", path)
            for name, path in (() if spine is None else spine.overlapping)
        ),
        *((f"[[bounds]] '{item.name}'", item.path) for item in plan.bounds),
    ]
    for key, path in public:
        if path is not None and is_same_file(path, plan.records.path):
            raise ConfigError(
                f"{key} names {path}, the file of the confidential records. This table must be public: what it holds "
                "is shown and published. Name another file.",
                code="records-not-public",
            )


def _read_areas(plan: ReleasePlan) -> Hierarchies:
    original = read_spine(plan.geography)
    if plan.spine is None:
        return plain_hierarchies(original)
    families = read_entities(plan.spine, original)
    # Without a step that changes the spine, the measured spine is the geography, and there is nothing to compare.
    if not plan.spine.changes:
        return plain_hierarchies(original, families)
    spine, changes = make_spine(plan, original, families, read_other_entities(plan, original))
    hierarchies = hierarchies_of(original, spine, families, changes)
    _refuse_constraints(plan, hierarchies)
    return hierarchies


def _refuse_constraints(plan: ReleasePlan, hierarchies: Hierarchies) -> None:
    """Refuse constraints whose geounits are no sums of siblings on the spine that was made.

    The parts of what an invariant is stated for must also be neighbours: estimates know its exact answers only so
    (`with_sums`), and an exact count would get an interval.
    """
    for bounds in plan.bounds:
        stated_geounits(hierarchies, bounds.geolevel, f"'{bounds.name}', bounds on '{bounds.query}',")
    for invariant in plan.invariants:
        for geolevel in invariant.geolevels:
            stated = stated_geounits(hierarchies, geolevel, f"the invariant on '{invariant.query}'")
            if stated.apart is not None:
                raise GeographyError(
                    f"the invariant on '{invariant.query}' is stated for {geolevel}, whose geounits the steps of the "
                    f"spine cut. In the order of geocodes, parts of another {geolevel} lie between the parts of "
                    f"'{short_name(stated.apart)}', so that estimates would not know its exact count. Give all "
                    f"{geolevel} geocodes of the same length, or let the spine keep the geolevel: a branch with "
                    "`parts` leaves its geolevel whole.",
                    code="not-on-spine",
                )
            if stated.groups is not None and plan.subspace:
                raise GeographyError(
                    f"the invariant on '{invariant.query}' is stated for {geolevel}, whose geounits the steps of the "
                    "spine cut. Counts of the integer-subspace mechanism ([[subspace]]) keep invariants of whole "
                    "geounits only. Leave one of the two out, or let the spine keep the geolevel: a branch with "
                    "`parts` leaves its geolevel whole.",
                    code="not-on-spine",
                )


def read_allocation(plan: ReleasePlan) -> Allocation:
    """The share of the budget that each geounit of a plan's spine gets; raises as `read_hierarchies` does."""
    hierarchies = read_hierarchies(plan)
    return allocation_of(plan.strategy, hierarchies.spine, hierarchies.shares)


def read_allocation_if_bypassed(plan: ReleasePlan) -> Allocation | None:
    """As `read_allocation`, if geounits are bypassed. If none are, nothing is read: all paths have the same shares."""
    return read_allocation(plan) if plan.may_bypass else None


def read_spine(geography: GeographyInput) -> Spine:
    """The hierarchy that a plan's geography table describes, before any step.

    Raises:
        GeographyError: the table does not describe a tree, or geocodes are repeated or missing.
        StoreError, ConfigError: the file or a column is missing or unreadable.
    """
    columns = [*(geography.parent_columns or ()), geography.geocode]
    frame = scan_table(geography.path, columns, "geography")
    # A geocode read as a number would have lost its leading zeros, so that only text is taken.
    for column in dict.fromkeys(columns):
        require_text(frame, column, geography.path, "geography")
    table = collect(frame, geography.path, "geography")
    if geography.prefix_lengths is not None:
        return spine_from_prefixes(table[geography.geocode], geography.geolevels, geography.prefix_lengths)
    by_level = dict(zip(geography.geolevels, columns, strict=True))
    return spine_from_columns(
        {level: table[column] for level, column in by_level.items()}, geography.geolevels
    )


def read_entities(entities: SpineInput, spine: Spine) -> tuple[EntityFamily, ...]:
    """The families of off-spine entities on the spine of the geography table; none if the plan names no table.

    Raises:
        GeographyError: the table does not have exactly one row for each finest geounit, or a table of pairs has unknown
            or repeated rows.
        StoreError, ConfigError: the file or a column is missing or unreadable.
    """
    disjoint = () if entities.entities is None else _disjoint_families(entities, entities.entities, spine)
    return (
        *disjoint,
        *(_overlapping_family(entities, name, path, spine) for name, path in entities.overlapping),
    )


def read_other_entities(plan: ReleasePlan, spine: Spine) -> tuple[EntityFamily, ...]:
    """The families of the entity table that the plan does not name, so that their loss of accuracy is reported as well.

    Every text column is a family, unless it has the name of a geolevel or of a family with a table of its own. Both an
    empty text and null mean that the geounit is in no entity.
    """
    asked = plan.spine
    if asked is None or asked.entities is None:
        return ()
    overlapping = [name for name, _ in asked.overlapping]
    taken = {*asked.families, *overlapping, *plan.geography.geolevels, *plan.geolevels}
    names = [name for name in family_columns(asked.entities, asked.geocode) if name not in taken]
    table = read_assignments(asked.entities, names, "entities", asked.geocode)
    columns = {name: table[name].replace("", None) for name in names}
    return entities_from_columns(spine, {GEOCODE: table[GEOCODE], **columns}, names)


def _disjoint_families(entities: SpineInput, path: Path, spine: Spine) -> tuple[EntityFamily, ...]:
    table = _text_table(entities, path, entities.families)
    return entities_from_columns(spine, {name: table[name] for name in table.columns}, entities.families)


def _overlapping_family(entities: SpineInput, name: str, path: Path, spine: Spine) -> EntityFamily:
    table = _text_table(entities, path, [ENTITY])
    return entities_from_pairs(spine, name, table[GEOCODE], table[ENTITY])


def _text_table(entities: SpineInput, path: Path, columns: Sequence[str]) -> pl.DataFrame:
    table = read_assignments(path, columns, "entities", entities.geocode)
    for column in columns:
        require_text(table.lazy(), column, path, "entities")
    return table


def read_histograms(
    plan: ReleasePlan, spine: Spine, awaited: Sequence[Agreement] = ()
) -> tuple[ConfidentialHistogram, ...]:
    """True counts of every geolevel, root first; raises as `read_records` does. Confidential.

    Args:
        plan: The plan.
        spine: Its spine.
        awaited: Its agreements with releases of the same programme that are not finished.
    """
    records = plan.records
    finest = read_records(
        records.path,
        **records.counting,
        schema=plan.schema,
        spine=spine,
        repeated=_repeated(plan, (*plan.agreement, *awaited)),
    )
    # The records are read once; coarser geolevels are sums, so that all geolevels agree exactly.
    return aggregate_all(finest, spine)


def _repeated(plan: ReleasePlan, agreements: Sequence[Agreement]) -> dict[str, Factor]:
    """Columns of the records that an agreement names for the other release, and what they say again of this one's.

    Redistricting data count people by the column `hhgq`, and the DHC by `relgq`, from which `hhgq` follows. If both
    columns are in one file and contradict each other, the two releases would be of different people.
    """
    known = {plan.records.geocode, plan.records.count, *(column for _, column in plan.records.columns)}
    repeated: dict[str, Factor] = {}
    for item in agreements:
        factors = {factor.name: factor for factor in plan.query(item.query).factors}
        # An agreement names the factors of both releases in the same order (`same_answers`).
        for ours, theirs in zip(item.query.split("*"), item.theirs.split("*"), strict=False):
            # Columns that this release reads anyway are not compared. A factor with several layers gives no one value.
            if theirs not in known and ours in factors and len(factors[ours].layers) == 1:
                repeated[theirs] = factors[ours]
    if not repeated:
        return {}
    there = column_names(plan.records.path, "records", plan.records.form)
    return {column: factor for column, factor in repeated.items() if column in there}
