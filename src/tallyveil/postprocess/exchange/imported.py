"""The job of `tallyveil measurements import`: make a folder of measurements from files that others published.

The noisy measurements are opened with everything that an estimate of counts needs beside them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import polars as pl

from tallyveil.accounting.events import TEST_KEY
from tallyveil.accounting.ledger.lines import Declaration, LedgerEntry, whole_ledger
from tallyveil.accounting.numbers import at_most
from tallyveil.arrays import Integers
from tallyveil.errors import ConfigError, ConstraintError, StoreError
from tallyveil.files.manifest import ReleaseKind
from tallyveil.geography.areas import Hierarchies
from tallyveil.geography.bypass import BypassRule
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.geometry import Geometry, read_shapes, require_maps, with_geometry
from tallyveil.geography.spine import Spine
from tallyveil.geography.tables import GEOCODE, entities_from_columns, family_columns, read_assignments
from tallyveil.measurements.layouts.described.answers import (
    copy_answers,
    has_exact,
    lacking_totals,
    read_bounds,
    read_exact,
    read_totals_file,
    require_known_constraints,
    require_root_total,
)
from tallyveil.measurements.layouts.described.form import ANSWERS, EQUAL, ConstraintRows
from tallyveil.measurements.layouts.described.settings import (
    SourceSettings,
    computed_settings,
    find_settings,
    rho_of_variances,
)
from tallyveil.measurements.layouts.described.source import SourceFiles, find_files
from tallyveil.measurements.layouts.described.spine import SourceSpine, read_spine
from tallyveil.measurements.names import measurement_name
from tallyveil.plans.constraints import Bounds
from tallyveil.plans.from_toml.descriptions import Description
from tallyveil.plans.guarantee import privacy_of
from tallyveil.plans.inputs import SpineInput
from tallyveil.plans.release import ReleasePlan
from tallyveil.postprocess.constraint_files import invariant_name, stated_invariant
from tallyveil.postprocess.constraints import ConstraintTable, constraint_table, refuse_conflicts
from tallyveil.postprocess.measured import check_public_inputs, write_public_inputs
from tallyveil.postprocess.publish import write_labels
from tallyveil.runs.key_file import Earlier, binding_of, public_secrets
from tallyveil.runs.observer import Observer, Stopwatch
from tallyveil.runs.once import run_product
from tallyveil.runs.product import Job, Outcome, Run, Work
from tallyveil.schema.names import check_areas
from tallyveil.storage.json_files import JsonObject, digest_of
from tallyveil.storage.outputs import refuse_inputs, refuse_output_inside
from tallyveil.storage.write import file_digest

_OTHERS: Final = (
    "These measurements were published by others and imported. Their noise was not drawn here. What is said of "
    "privacy holds if the publisher measured with the strategy of the plan and with exact discrete Gaussian noise. The "
)
STATEMENT: Final = f"{_OTHERS}variances of the files are those of that strategy."
COMPUTED: Final = (
    f"{_OTHERS}strategy was computed from the variances in the files, and says nothing of what the publisher measured "
    "besides."
)
LEFT_OUT: Final = "left_out"
DESCRIPTION: Final = "description_sha256"
"""What the manifest says besides, if the strategy was computed."""


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
    descriptions: Sequence[Description],
    totals: Path | None = None,
    entities: Path | None = None,
    shapes: Path | None = None,
    shapes_geocode: str | None = None,
) -> PublishedMeasurements:
    """Open a folder of files that a description describes.

    Args:
        root: The folder.
        descriptions: The description; or several of one layout, of which one fits.
        totals: Table of the exact totals that the files leave out, with the columns geocode and count.
        entities: Table of the finest geounits and the areas that they lie in, for tables of these areas.
        shapes: File of geometry of the finest geounits, for maps.
        shapes_geocode: Its column of geocodes; None for "geocode".
    Raises:
        ConfigError, SchemaError, GeographyError, ConstraintError: the files are not those of one product, or they or
            the tables beside them are incomplete or contradict each other.
        StoreError: a file is missing or cannot be read.
    """
    if shapes is not None:
        require_maps("--shapes")  # before anything is read
    # Of descriptions of one layout, that with most geolevels knows all words.
    widest = max(descriptions, key=lambda description: len(description.form.geolevels))
    files = find_files(root, widest.form, widest.schema)
    declared = {item.name: item.declared.strategy for item in descriptions if item.declared is not None}
    compares = bool(declared) and not widest.form.part
    source = read_spine(files, measured_only=not compares)
    if compares:
        settings = find_settings(files, source, declared)
        # The settings are found from the variances in the files, because these do not name their strategy.
        description = next(item for item in descriptions if item.name == settings.name)
    else:
        description = _only(descriptions, files)
        settings = computed_settings(files, source, description.schema, description.neighbours)
    files = replace(files, form=description.form, schema=description.schema)
    families = () if entities is None else _families(entities, source.spine)
    geometry = None if shapes is None else _geometry(shapes, shapes_geocode or GEOCODE, source.spine)
    hierarchies = replace(source.hierarchies, families=families, shares=settings.shares, geometry=geometry)
    product = description.declared if compares else description.plan_with(settings.allocation.strategy)
    assert product is not None
    plan = _plan_on(product, hierarchies)
    constraints = _constraints(files, source, plan, hierarchies, totals)
    # Before anything is copied, which takes long.
    refuse_conflicts(constraints, source.spine, plan.schema)
    beside = {"totals": totals, "entities": entities, "shapes": shapes}
    inputs = {name: path for name, path in beside.items() if path is not None}
    imported: JsonObject = {
        "layout": description.form.name,
        "product": description.name,
        "source_sha256": files.digest(),
        "beside_sha256": {name: file_digest(path) for name, path in inputs.items()},
        "rho_of_variances": at_most(rho_of_variances(source, settings), 7),
        "statement": STATEMENT if compares else COMPUTED,
    }
    if files.measured_by:
        imported["measured_by"] = list(files.measured_by)
    if not compares:
        imported |= {DESCRIPTION: description.digest(), LEFT_OUT: _left_out(files, source, settings)}
    read = tuple(inputs.values())
    return PublishedMeasurements(files, source, settings, plan, hierarchies, constraints, imported, read)


def _only(descriptions: Sequence[Description], files: SourceFiles) -> Description:
    """The description of a part; of several of one layout, the first with its geolevels and queries.

    Raises:
        ConfigError: none has them.
    """
    named = {name for geolevel in files.geolevels for name in files.names(geolevel, ANSWERS)}
    for description in sorted(descriptions, key=lambda item: len(item.form.geolevels)):
        queries = {description.form.query_of(str(name)) for name in named}
        if set(files.geolevels) <= set(description.form.geolevels) and all(
            query is not None and description.schema.known_query(query) is not None for query in queries
        ):
            return description
    if len(descriptions) == 1:
        return descriptions[0]
    known = ", ".join(description.name for description in descriptions)
    raise ConfigError(
        f"none of {known} has the geolevels and queries of {files.root}: {', '.join(files.geolevels)}; "
        f"{', '.join(sorted(map(str, named)))}. Give --as the description of their product.",
        code="layout-settings",
    )


def _left_out(files: SourceFiles, source: SourceSpine, settings: SourceSettings) -> list[str]:
    """What the description has and the files lack, in words."""
    geolevels = source.spine.geolevels
    words = [f"geolevel {name}" for name in files.form.geolevels if name not in geolevels]
    stated = {query for _, query in files.form.queries}
    for name in geolevels:
        queries = set(settings.allocation.strategy.queries(name))
        words += [f"{query} at {name}" for query in sorted(stated - queries)]
    for level, name in enumerate(geolevels):
        lacking = int((~source.measured[level]).sum())
        words += [f"{lacking:,} geounits of {name}"] if lacking else []
    words += [
        f"constraints on {item.query} at {item.geolevel}"
        for item in files.form.constraints
        if item.geolevel is not None and item.geolevel not in geolevels
    ]
    return words


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


def _geometry(path: Path, geocode: str, spine: Spine) -> Geometry:
    """The shapes of a file; those of geounits that the spine does not have, such as water blocks, are left out."""
    stored = read_shapes(path, geocode)
    known = pl.Series(spine.locate(spine.finest, stored.geocodes) >= 0)
    return with_geometry(
        spine, replace(stored, geocodes=stored.geocodes.filter(known), wkb=stored.wkb.filter(known))
    )


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
    require_known_constraints(files, source)
    stated_rows = files.form.constraints
    tables = []
    for invariant in plan.invariants:
        query = plan.query(invariant.query)
        stated = stated_invariant(hierarchies, invariant.query, invariant.geolevels)
        rows = next(item for item in stated_rows if item.sign == EQUAL and item.query == invariant.query)
        if stated.groups is None and has_exact(files, stated.geolevel, rows):
            exact = read_exact(files, source, stated.level, query, rows)
        elif totals is not None and query.name == _TOTAL:
            codes = stated.areas.geocodes[stated.place].text
            exact = read_totals_file(totals, codes, stated.geolevel)
        else:
            raise lacking_totals(files, query.name, stated.geolevel)
        # Whatever file the totals are from, they must add up to the published total of the root.
        require_root_total(files, source, query, rows, exact)
        if bool(source.lacking[stated.level].any()) and stated.groups is None:
            raise _lacking_exact(files, query.name, stated.geolevel)
        limits: tuple[Integers, Integers] = (exact, exact)
        tables.append(constraint_table(invariant_name(query.name), query, limits, stated, source.spine))
    for item in plan.bounds:
        query = plan.query(item.query)
        stated = stated_invariant(hierarchies, item.query, (item.geolevel,))
        if stated.groups is not None:
            raise _cut_bounds(files, item.name, item.geolevel)
        described = [rows for rows in stated_rows if rows.sign != EQUAL and _is_of(rows, item)]
        limits = read_bounds(files, source, stated.level, query, described)
        tables.append(constraint_table(item.name, query, limits, stated, source.spine))
    return tuple(tables)


def _is_of(rows: ConstraintRows, bounds: Bounds) -> bool:
    return rows.geolevel is not None and rows.zero is None and rows.bounds_name == bounds.name


def _lacking_exact(files: SourceFiles, query: str, geolevel: str) -> ConstraintError:
    return ConstraintError(
        f"{files.root} lacks geounits of {geolevel}, whose exact '{query}' is not known, so that exact counts of this "
        "geolevel cannot be used. Import the part of the tree for which they are there: leave out the geounits above "
        f"it that have others below them, or leave the entry of '{query}' out of [[constraints]].",
        code="layout-totals",
    )


def _cut_bounds(files: SourceFiles, name: str, geolevel: str) -> ConstraintError:
    return ConstraintError(
        f"the bounds '{name}' are stated for {geolevel}, whose geounits the spine of {files.root} divides. State them "
        "for a geolevel whose geounits are whole there.",
        code="layout-totals",
    )


_TOTAL: Final = "total"
_TOKEN = "release"


def import_measurements(
    published: PublishedMeasurements, out: Path, *, observer: Observer | None = None
) -> Outcome:
    """Make a folder of measurements from published files, or resume an interrupted import.

    The folder is one that `postprocess.measured.open_measurements` opens, as if `tallyveil measure` had made it.

    Args:
        published: The files, opened.
        out: Folder of the measurements: absent, empty, or with an unfinished import of the same files.
        observer: Receives reports of progress.
    Raises:
        SchemaError: noisy answers are incomplete or damaged.
        StoreError: the folder cannot be used, or a file cannot be read or written.
    Privacy: post-processing of published measurements. The ledger of the folder shows what measuring has cost.
    """
    outcome = run_product(Import(published), out, observer=observer, draws=False)
    # The same plan can be imported from other files; the digests of the files tell the two apart.
    if outcome.manifest.body.get("imported") != published.imported:
        raise StoreError(
            f"{out} holds finished measurements on the same plan from other files. Choose another folder.",
            code="folder-taken",
        )
    return outcome


@dataclass(frozen=True, slots=True, eq=False)
class Import:
    """Measurements that are made from published files."""

    published: PublishedMeasurements

    @property
    def plan_digest(self) -> str:
        """Digest of the plan, in hexadecimal."""
        return self.published.plan.digest().hex()

    def spend(self) -> None:
        """Nothing: the measurements are paid for."""

    def refuse(self, out: Path) -> None:
        """Refuse an output folder that contains an input or is inside the folder of the files; raises StoreError."""
        root = self.published.files.root
        refuse_inputs(out, [root, *self.published.inputs])
        refuse_output_inside(out, root)

    def read(self, out: Path, observer: Observer) -> Work:
        """The work; the files are open already."""
        published = self.published
        privacy = privacy_of(
            published.plan, published.settings.allocation, imported=published.settings.name is None
        )
        return _Import(published, privacy, observer, Stopwatch(observer))


@dataclass(frozen=True, slots=True, eq=False)
class _Import:
    """The work of one process on an import."""

    published: PublishedMeasurements
    privacy: JsonObject
    observer: Observer
    watch: Stopwatch

    def job(self) -> Job:
        """The files that identify the import, and the ledger of a run that would have drawn them."""
        published = self.published
        plan = published.plan
        event = plan.event(published.settings.allocation.event())
        declaration = Declaration(plan.strategy.budget_unit, plan.declared, plan.strategy.neighbours)
        binding, whole_plan = binding_of(b"import", published.digest()), plan.digest()
        protected = published.files.protected
        # The folder's own name stands for the run of the publisher, which is not known.
        run = public_secrets(Earlier("", b"", protected), binding, whole_plan).run_id
        # The cost is computed here from the event, and not taken from the publisher.
        cost = declaration.cost_of(event)
        description = f"measurements of {plan.name}, published by others and imported"
        # A test key of the publisher is entered as in a run of ours, so that the mark follows every estimate.
        acts = [] if protected else [_test_key(run)]
        spend = LedgerEntry(len(acts) + 1, "spend", event, cost, description, f"{run} {_TOKEN}", run)
        ledger = whole_ledger(declaration, [*acts, spend], run)
        return Job(
            kind=ReleaseKind.MEASUREMENTS,
            plan_digest=whole_plan.hex(),
            whole_plan=whole_plan,
            binding=binding,
            declaration=declaration,
            event=event,
            privacy=self.privacy,
            description=description,
            token=_TOKEN,
            earlier=Earlier(run, ledger, protected),
        )

    def release(self, run: Run) -> JsonObject:
        """Copy what was published; returns the body of the manifest."""
        published = self.published
        plan = published.plan
        write_public_inputs(run, plan.to_mapping(), published.hierarchies, published.constraints)
        for level in range(published.source.spine.n_levels):
            self._copy(run, level)
        write_labels(run, plan, published.source.spine)
        return {
            "name": plan.name,
            "plan": plan.to_mapping(),
            "inputs": {"geography_sha256": published.source.spine.digest().hex()},
            "imported": published.imported,
        }

    def check(self, run: Run) -> list[str]:
        """Look at the source once more, and compare the public files with what was written."""
        # Copying takes hours, and the files may have changed meanwhile.
        self.published.files.require_unchanged()
        plan = self.published.plan
        spine, constraints = self.published.source.spine, self.published.constraints
        return [check_public_inputs(run.path, plan.to_mapping(), plan.schema, spine, constraints)]

    def _copy(self, run: Run, level: int) -> None:
        """Copy the noisy answers of a geolevel. A finished geolevel is kept if the import is interrupted."""
        published = self.published
        geolevel = published.source.spine.geolevels[level]
        queries = published.plan.strategy.queries(geolevel)
        measured = int(published.source.measured[level].sum())
        total = measured * sum(published.plan.query(query).size for query in queries)

        def copy() -> JsonObject:
            with self.watch.stage(f"import {geolevel}", total):
                for done in copy_answers(
                    published.files,
                    published.source,
                    published.settings,
                    published.plan.schema,
                    level,
                    run.path,
                    run.tags,
                ):
                    self.observer.advanced(done)
            return {}

        run.stage(f"import {geolevel}", [measurement_name(geolevel, query) for query in queries], copy)


def _test_key(run: str) -> LedgerEntry:
    """The act of a run with a test key, in the words of such a run."""
    return LedgerEntry(
        1, "declassify", TEST_KEY, None, "run with an insecure test key", f"{run} test key", run
    )
