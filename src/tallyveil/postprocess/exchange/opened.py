"""Opens noisy measurements that others published, with everything that an estimate of counts needs beside them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tallyveil.accounting.numbers import at_most
from tallyveil.arrays import Integers
from tallyveil.geography.areas import Hierarchies
from tallyveil.geography.bypass import BypassRule
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.spine import Spine
from tallyveil.geography.tables import GEOCODE, entities_from_columns, family_columns, read_assignments
from tallyveil.measurements.layouts.census_2020.answers import (
    lacking_totals,
    read_bounds,
    read_totals,
    read_totals_file,
    require_known_constraints,
    require_root_total,
)
from tallyveil.measurements.layouts.census_2020.source import SourceFiles, find_files
from tallyveil.measurements.layouts.census_2020.spine import (
    SourceSettings,
    SourceSpine,
    find_settings,
    read_spine,
    rho_of_variances,
)
from tallyveil.measurements.layouts.layout import Layout
from tallyveil.plans.inputs import SpineInput
from tallyveil.plans.release import ReleasePlan
from tallyveil.postprocess.constraints.conflicts import refuse_conflicts
from tallyveil.postprocess.constraints.constraint_files import invariant_name, stated_invariant
from tallyveil.postprocess.constraints.geolevels import ConstraintTable, constraint_table
from tallyveil.schema.names import check_areas
from tallyveil.storage.json_files import JsonObject, digest_of
from tallyveil.storage.write import file_digest

STATEMENT: Final = (
    "These measurements were published by others and imported. Their noise was not drawn here. What is said of "
    "privacy holds if the publisher measured with the strategy of the plan and with exact discrete Gaussian noise. The "
    "variances of the files are those of that strategy."
)


@dataclass(frozen=True, slots=True, eq=False)
class PublishedMeasurements:
    """Measurements that others published, opened and checked. The noisy answers themselves are not read yet.

    Attributes:
        files: The files.
        source: Their spine.
        settings: What they were made with.
        plan: The plan that they follow.
        hierarchies: The spine that was measured, and the areas that are not on it.
        constraints: Invariants, then public bounds, as the plan lists them.
        imported: What the manifest says of the import.
        inputs: Every other file that was read.
    """

    files: SourceFiles
    source: SourceSpine
    settings: SourceSettings
    plan: ReleasePlan
    hierarchies: Hierarchies
    constraints: tuple[ConstraintTable, ...]
    imported: JsonObject
    inputs: tuple[Path, ...]

    def digest(self) -> bytes:
        """SHA-256 of everything that was read."""
        return digest_of(self.imported)


def open_published(
    root: Path,
    products: Sequence[ReleasePlan],
    totals: Path | None = None,
    entities: Path | None = None,
) -> PublishedMeasurements:
    """Open a folder of the layout "census-2020".

    Args:
        root: The folder, which has a folder for each geolevel.
        products: Plans of the products that the files may be of.
        totals: Table of the exact totals that the files leave out, with the columns geocode and count.
        entities: Table of blocks and the areas that they lie in, for tables of these areas.
    Raises:
        ConfigError, SchemaError, GeographyError, ConstraintError: the files are not those of one product, or they or
            the tables beside them are incomplete or contradict each other.
        StoreError: a file is missing or cannot be read.
    """
    files = find_files(root)
    source = read_spine(files)
    strategies = {plan.name: plan.strategy for plan in products}
    settings = find_settings(files, source, strategies)
    # The settings are found from the variances in the files, because these do not name their strategy.
    product = next(plan for plan in products if plan.name == settings.name)
    families = () if entities is None else _families(entities, source.spine)
    hierarchies = replace(source.hierarchies, families=families, shares=settings.shares)
    plan = _plan_on(product, hierarchies)
    constraints = _constraints(files, source, plan, hierarchies, totals)
    # Before anything is copied, which takes long.
    refuse_conflicts(constraints, source.spine, plan.schema)
    beside = {"totals": totals, "entities": entities}
    inputs = {name: path for name, path in beside.items() if path is not None}
    imported = {
        "layout": Layout.CENSUS_2020.value,
        "product": settings.name,
        "source_sha256": files.digest(),
        "beside_sha256": {name: file_digest(path) for name, path in inputs.items()},
        "rho_of_variances": at_most(rho_of_variances(source, settings), 7),
        "statement": STATEMENT,
    }
    read = tuple(inputs.values())
    return PublishedMeasurements(files, source, settings, plan, hierarchies, constraints, imported, read)


def _families(path: Path, spine: Spine) -> tuple[EntityFamily, ...]:
    """The families of a table of blocks; blocks that the spine does not have are left out."""
    names = family_columns(path)
    check_areas(spine.geolevels, names, names)
    table = read_assignments(path, names, "entities")
    # A table of all blocks of the country may be given for the files of one State.
    known = spine.locate(spine.finest, table[GEOCODE]) >= 0
    rows = table.filter(known)
    columns = {name: rows[name] for name in rows.columns}
    blank = {name: columns[name].replace("", None) for name in names}
    return entities_from_columns(spine, {**columns, **blank}, names)


def _plan_on(product: ReleasePlan, hierarchies: Hierarchies) -> ReleasePlan:
    """The plan of a product on the spine of its files. The steps that made this spine are not known."""
    families = tuple(family.name for family in hierarchies.families)
    if not (hierarchies.replaced or families or hierarchies.shares is not None):
        return product
    bypassing = None if hierarchies.shares is None else BypassRule.SINGLE_CHILD
    # Only that the spine is another one is known and stated, not how it was made.
    spine = SpineInput(
        original=product.geolevels, geocode="geocode", families=families, steps=(), bypassing=bypassing
    )
    return replace(product, spine=spine, entities=families)


def _constraints(
    files: SourceFiles,
    source: SourceSpine,
    plan: ReleasePlan,
    hierarchies: Hierarchies,
    totals: Path | None,
) -> tuple[ConstraintTable, ...]:
    """The plan's invariants and bounds, with the values of the files."""
    bounded = [plan.query(item.query) for item in plan.bounds]
    require_known_constraints(files, plan.schema, bounded[0] if bounded else None)
    tables = []
    for invariant in plan.invariants:
        query = plan.query(invariant.query)
        stated = stated_invariant(hierarchies, invariant.query, invariant.geolevels)
        in_files = stated.groups is None and stated.level in (0, source.spine.finest)
        if in_files:
            exact = read_totals(files, source, stated.level)
        elif totals is not None:
            codes = stated.areas.geocodes[stated.place].text
            exact = read_totals_file(totals, codes, stated.geolevel)
        else:
            raise lacking_totals(files, stated.geolevel)
        # Whatever file the totals are from, they must add up to the published total of the root.
        require_root_total(files, exact)
        limits: tuple[Integers, Integers] = (exact, exact)
        tables.append(constraint_table(invariant_name(query.name), query, limits, stated, source.spine))
    for item, query in zip(plan.bounds, bounded, strict=True):
        stated = stated_invariant(hierarchies, item.query, (item.geolevel,))
        limits = read_bounds(files, source, query)
        tables.append(constraint_table(item.name, query, limits, stated, source.spine))
    return tuple(tables)
