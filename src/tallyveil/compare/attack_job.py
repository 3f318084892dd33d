"""Attack one publication: what an outsider would claim and, for those who have the records, how often he is right.

Without the true records nothing confidential is opened, and the results are about published numbers alone. With them
the ledger gets its entry before a true count is compared: that of the release, or one of its own beside the results.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from tallyveil.accounting.ledger.file import Ledger
from tallyveil.accounting.ledger.lines import LEDGER, Declaration
from tallyveil.arrays import Integers
from tallyveil.compare.attack_page import write_attack_page
from tallyveil.compare.attacks.attack import Finding, Targets
from tallyveil.compare.claims import Answer, claims_of, seem_exact
from tallyveil.compare.draws import Draws
from tallyveil.compare.inputs import (
    PublicInput,
    SharedInput,
    TableName,
    areas_of_spine,
    read_areas,
    refuse_too_large,
)
from tallyveil.compare.job import (
    ATTACKS,
    WORK,
    control_budget,
    control_of,
    refuse_written_inputs,
    refused_attacks,
    require_attribute,
)
from tallyveil.compare.methods.elsewhere import published_tables
from tallyveil.compare.methods.method import Method, Office
from tallyveil.compare.methods.topdown import published_release, with_budget
from tallyveil.compare.outputs import UNMARKED, write_marked
from tallyveil.compare.published import (
    ExactLaw,
    Law,
    Limits,
    NoisyAnswers,
    Published,
    PublishedTable,
    observed_law,
)
from tallyveil.compare.results import Attacked
from tallyveil.compare.settings import AttackFile
from tallyveil.confidential.declassify import read_truth
from tallyveil.errors import ConfigError
from tallyveil.files.checks import Bounded
from tallyveil.files.declassified import mark_declassified, require_markable
from tallyveil.files.finished import MANIFEST
from tallyveil.files.geography import GEOGRAPHY, read_geography
from tallyveil.files.geography import read_areas as read_release_areas
from tallyveil.files.histograms import HISTOGRAM, read_histogram
from tallyveil.files.manifest import Manifest, ReleaseKind
from tallyveil.files.manifest_files import read_manifest, require_unchanged_files
from tallyveil.files.marks import marks_of
from tallyveil.geography.areas import Hierarchies
from tallyveil.geography.spine import Spine
from tallyveil.geography.tables import write_spine
from tallyveil.plans.fitting import stated_plan
from tallyveil.plans.from_toml.load import load_plan, parse_file
from tallyveil.plans.inputs import GeographyInput, RecordsInput
from tallyveil.plans.release import ReleasePlan, StatedPlan
from tallyveil.postprocess.constraint_files import INVARIANTS, read_invariants
from tallyveil.storage.outputs import own_folder, remove
from tallyveil.storage.write import write_json
from tallyveil.version import VERSION

REASON: Final = "true counts compared with what attackers claim; the results reveal them"

CONTRADICT: Final = (
    "The tables contradict the settings of the method, as the file or a default states them. So no hidden count can be "
    "computed from them."
)


@dataclass(frozen=True, slots=True, eq=False)
class _Sight:
    """What an outsider sees.

    Attributes:
        plan: Of the release, or of the release file whose geography a table of counts has.
        manifest: Of a finished release; None for a table of counts.
        spine: Of the areas.
        shared: The published counts in the place of the true ones.
        published: Everything that is published.
        around: Published counts of cells in the areas below the root; None where there are none.
        law: What he knows of the changes.
        shows_exact: Whether he takes shown counts for exact.
        exact: Invariants of a release, with their published answers.
    """

    plan: StatedPlan
    manifest: Manifest | None
    spine: Spine
    shared: SharedInput
    published: Published
    around: Integers
    law: Law
    shows_exact: bool
    exact: Sequence[Bounded] = ()


def attack(path: Path, out: Path, truth: Path | None, progress: Callable[[str], None]) -> Attacked:
    """Attack what a file names, and write claims, page and, with the truth, what came of them.

    Args:
        path: TOML file (`AttackFile`).
        out: Folder of the results: new, empty, or of an earlier attack.
        truth: The true records, with the columns that the release was made from; None for an outsider.
        progress: Is told what is being done, in words.
    Raises:
        TallyveilError: the file, an input or the folder is wrong. The ledger gets its entry before a count is compared.
    Privacy: without `truth` nothing but published numbers is read. With it none: every file is marked.
    """
    file = parse_file(path, AttackFile)
    inputs = [path, *file.inputs, *([truth] if truth else [])]
    refuse_written_inputs(out, inputs)
    progress("reading what was published")
    sight = _sight(file)
    if isinstance(sight.plan, ReleasePlan):
        refuse_written_inputs(out, [sight.plan.geography.path])
    draws = Draws(file.key)
    targets = Targets(sight.shared, draws, file.attacks.sensitive, file.attacks.people, sight.around)
    with own_folder(out, "attack"):
        progress("making claims")
        claims = claims_of(targets, sight.published, sight.law, shows_exact=sight.shows_exact)
        attacked = Attacked(
            file,
            sight.plan,
            sight.shared,
            claims,
            None,
            None,
            (),
            {},
            "",
            {},
            (*sight.published.notes, *claims.notes),
            sight.published.certificate,
            UNMARKED if sight.manifest is None else marks_of(sight.manifest),
        )
        if truth is not None:
            # What a killed run left there: a release with a public key, and true counts beside.
            remove(out / WORK)
            try:
                attacked = _judged(attacked, sight, out, truth, progress)
            finally:
                remove(out / WORK)
        _write(out, attacked)
        write_attack_page(out, attacked)
    return attacked


def _sight(file: AttackFile) -> _Sight:
    """Read what was published, as an outsider sees it."""
    return _of_release(file) if file.published.is_dir() else _of_table(file)


def _of_release(file: AttackFile) -> _Sight:
    if file.release is not None or file.method is not None or file.entities is not None:
        raise ConfigError(
            f"{file.published} is the folder of a release, which says its geography, its entities and what was done; "
            "the file has release, entities or [method] besides. Leave them out. Nothing was read.",
            code="bad-key-or-value",
        )
    root = file.published
    manifest = read_manifest(root, ReleaseKind.TOPDOWN)
    require_unchanged_files(root, manifest, {GEOGRAPHY, HISTOGRAM, INVARIANTS})
    plan = stated_plan(root / MANIFEST, manifest.body["plan"])
    require_attribute(file.attacks.sensitive, plan.schema)
    spine = read_geography(root)
    refuse_too_large(spine, plan.schema)
    replaced, families = read_release_areas(root, spine)
    # The areas that tables are published for; a geolevel that the spine replaces has other geounits there.
    every = {areas.name: areas for areas in areas_of_spine(spine, (*replaced, *families))}
    geolevels = plan.geolevels if plan.spine is None else plan.spine.original
    areas = [every[name] for name in (*geolevels, *(family.name for family in families))]
    names = list(file.tables or plan.tables or plan.strategy.every_query)
    queries = [plan.schema.query(name) for name in names]
    if not any(query.is_detailed for query in queries):
        # The published records tell all cells apart, whichever tables were written.
        queries.append(plan.schema.query("detailed"))
    histogram = read_histogram(root, spine.geolevels[-1], plan.schema, spine)
    shared = SharedInput(
        plan.schema,
        tuple(queries),
        tuple(areas),
        len(geolevels),
        histogram.dense(0, histogram.n_geounits, plan.schema.size),
    )
    published = published_release(root, manifest, shared)
    around, hierarchies = _around(shared, published), Hierarchies(spine, spine, families, replaced)
    exact = read_invariants(root, manifest.body["plan"], plan.schema, hierarchies)
    return _Sight(plan, manifest, spine, shared, published, around, ExactLaw(), False, exact)


def _of_table(file: AttackFile) -> _Sight:
    if file.release is None:
        raise ConfigError(
            f"{file.published} is a table of counts, and the file names no release file with its geography and schema. "
            'Give release = "release.toml". Nothing was read.',
            code="bad-key-or-value",
        )
    plan = load_plan(file.release)
    require_attribute(file.attacks.sensitive, plan.schema)
    spine, areas = read_areas(plan, file.entities)
    refuse_too_large(spine, plan.schema)
    queries = tuple(plan.schema.query(name) for name in file.tables or plan.tables)
    empty = np.zeros((spine.n_geounits(spine.finest), plan.schema.size), dtype=np.int64)
    shared = SharedInput(plan.schema, queries, tuple(areas), spine.n_levels, empty)
    tables, notes = published_tables(file.published, shared.areas, queries, absent="hidden")
    cells = shared.detailed
    if cells is not None:
        table = tables[shared.finest.name, cells.name]
        answers = cells.answers_of(np.arange(plan.schema.size))
        shared = replace(shared, counts=np.maximum(table.filled()[:, answers], 0))
    # Where a zero is shown beside hidden counts, zeros are not what is hidden.
    zeros = any(((table.counts == 0) & table.shown & ~table.shown.all()).any() for table in tables.values())
    law, limits, shows_exact = _knowledge(file.method, shared, tables, ExactLaw(int(zeros)))
    if limits is not None and limits.contradict:
        limits = None
        notes = (*notes, CONTRADICT)
    published = Published(tables, law, None, limits=limits, notes=notes)
    return _Sight(plan, None, spine, shared, published, _around(shared, published), law, shows_exact)


def _knowledge(
    method: Method | None, shared: SharedInput, tables: Mapping[TableName, PublishedTable], exact: ExactLaw
) -> tuple[Law, Limits | None, bool]:
    """What he knows of the changes, which true counts that leaves, and whether shown counts are exact.

    Args:
        method: What the office says that it did; None where it says nothing.
        shared: The published counts in the place of the true ones.
        tables: As published.
        exact: What hidden counts are where the shown ones are exact.
    """
    if method is None:
        if not seem_exact(shared, tables):
            return ExactLaw(), None, False
        return exact, Limits(shared, tables, exact), True
    stated = method.stated_law()
    support = exact if method.shows_exact else stated
    limits = None if support is None else Limits(shared, tables, support)
    return stated or ExactLaw(), limits, method.shows_exact


def _around(shared: SharedInput, published: Published) -> Integers:
    """Published counts of cells in the areas below the root; zeros where none are published."""
    areas = shared.areas[min(1, shared.n_geolevels - 1)]
    if shared.detailed is None:
        return np.zeros((areas.n_areas, shared.schema.size), dtype=np.int64)
    table = published.tables[areas.name, shared.detailed.name]
    return table.filled()[:, shared.detailed.answers_of(np.arange(shared.schema.size))]


def _judged(
    attacked: Attacked, sight: _Sight, out: Path, truth: Path, progress: Callable[[str], None]
) -> Attacked:
    """The same with the true records: which claims are right, and what the attacks of a comparison find."""
    # Whatever can be refused is refused before the records are read, which cannot be taken back.
    plan = _plan_of_control(sight, out / WORK, truth)
    control = control_of(plan)
    sensitive = attacked.file.attacks.sensitive
    control.require_fit(PublicInput(plan, sight.spine, sight.shared.areas, sight.shared.queries, sensitive))
    progress("reading the records")
    shared = _true_input(sight, attacked.file, out, truth)
    answers = attacked.claims.answers
    right, there = (
        np.array([judge(answer, shared) for answer in answers], dtype=np.bool_)
        for judge in (Answer.is_right, Answer.is_there)
    )
    targets = Targets(shared, Draws(attacked.file.key), sensitive, attacked.file.attacks.people)
    method = attacked.file.method
    law = None if method is None else method.stated_law()
    # Where settings do not say the law, the attacker is granted the errors of these very tables, which nobody has.
    published = replace(
        sight.published, law=observed_law(shared, sight.published.tables) if law is None else law
    )
    progress("attacking exact tables")
    exact = _exactly(shared, published)
    best = {item.name: item.power(targets, item.run(targets, exact, None)) for item in ATTACKS}
    # What finds nothing on exact tables needs a second publication, or questions.
    usable = [item for item in ATTACKS if best[item.name] is not None]
    progress("attacking a release with next to no noise")
    office = Office(shared, plan, targets.sensitive, targets.draws, targets.draws, out / WORK)
    nearly = control.publish(office)
    if not sight.published.noisy:
        nearly = replace(nearly, noisy=())
    power = {
        item.name: (best[item.name], item.power(targets, item.run(targets, nearly, None))) for item in usable
    }
    stated = control_budget(control, plan.budget_unit, nearly.certificate)
    refused = refused_attacks(power, stated)
    progress("attacking what was published")
    findings = [
        finding
        for item in usable
        if item.name not in refused
        for finding in item.run(targets, published, None)
    ]
    granted = (
        ()
        if law is not None
        else ("The attacks that are judged by the records are granted the errors of these very tables.",)
    )
    return replace(
        attacked,
        right=right,
        there=there,
        findings=tuple(findings),
        power=power,
        control=stated,
        refused=refused,
        notes=(*attacked.notes, *granted),
    )


def _exactly(shared: SharedInput, published: Published) -> Published:
    """The true tables, and true answers where noisy ones are published: what every attack must succeed on."""
    tables = {name: PublishedTable(true) for name, true in shared.truth.items()}
    noisy = []
    for item in published.noisy:
        areas = shared.areas_named(item.name[0])
        query = shared.schema.query(item.name[1])
        # The noise has the least variance that the arithmetic of likelihoods bears.
        noisy.append(NoisyAnswers(item.name, shared.answers(areas, query), np.full(areas.n_areas, 1e-3)))
    return Published(tables, ExactLaw(), None, noisy=tuple(noisy), limits=Limits(shared, tables, ExactLaw()))


ALONE: Final[Mapping[str, Any]] = {"bounds": (), "agreement": (), "residents": ()}
"""What the control has of public bounds and of counts that agree with other releases: none. They need files that may
be gone, and the true counts may contradict them."""


def _plan_of_control(sight: _Sight, work: Path, truth: Path) -> ReleasePlan:
    """The plan of what is attacked as one that can be run on the true counts, without its other inputs.

    The spine of a finished release is taken as it was published.

    Args:
        sight: What is attacked.
        work: A folder for the geography of a finished release.
        truth: The true records.
    """
    if isinstance(sight.plan, ReleasePlan):
        return replace(sight.plan, **ALONE)
    path = work / GEOGRAPHY
    write_spine(path, sight.spine)
    *parents, geocode = sight.spine.geolevels
    geography = GeographyInput(
        path=path, geocode=geocode, geolevels=sight.plan.geolevels, parent_columns=tuple(parents)
    )
    stated = {item.name: getattr(sight.plan, item.name) for item in fields(StatedPlan)}
    alone = {**ALONE, "spine": None, "entities": None}
    plan = ReleasePlan(**{**stated, **alone, "records": RecordsInput(path=truth), "geography": geography})
    # Of derived records one changes here, where a person changes several: no more than the square of the noise's budget
    # is needed for the same noise.
    changed = sight.plan.strategy.records
    return plan if changed == 1 else with_budget(plan, plan.spent / changed**2)


def _true_input(sight: _Sight, file: AttackFile, out: Path, truth: Path) -> SharedInput:
    """The true counts.

    The records are read, and the ledger says that their counts are declassified before any of them is returned.
    """
    plan, manifest = sight.plan, sight.manifest
    declaration = Declaration(plan.budget_unit, plan.declared, plan.neighbours)
    root = out if manifest is None else file.published
    if manifest is not None:
        require_markable(root, manifest)
    with Ledger(root / LEDGER, declaration, "attack" if manifest is None else manifest.run) as ledger:
        truths = read_truth(
            truth,
            **plan.records.counting,
            schema=plan.schema,
            spine=sight.spine,
            reason=REASON,
            exact=sight.exact,
        ).declassified(ledger)
        if manifest is not None:
            # In the manifest as well, before anything is compared, so that no report can hide it.
            mark_declassified(root, ledger.entries)
    return replace(sight.shared, counts=truths[-1].dense(0, truths[-1].n_geounits, plan.schema.size))


def _write(out: Path, attacked: Attacked) -> None:
    table = attacked.claims.table
    private = attacked.right is None
    if attacked.right is not None:
        table = table.with_columns(
            pl.Series("there", attacked.there, dtype=pl.Boolean),
            pl.Series("right", attacked.right, dtype=pl.Boolean),
        )
    marks, warning = attacked.marks, attacked.warning
    write_marked(out, "claims", table, warning, private=private, marks=marks)
    if not private:
        findings = [{name: getattr(item, name) for name in Finding.__slots__} for item in attacked.findings]
        frame = pl.DataFrame(findings, infer_schema_length=None)
        write_marked(out, "attacks", frame, warning, private=False, marks=marks)
    write_json(
        out / "attack.json",
        {
            "format": 1,
            **attacked.marked(),
            "version": VERSION,
            "key": attacked.file.key,
            "sensitive": attacked.file.attacks.sensitive,
            "people": attacked.file.attacks.people,
            "claims": table.height,
            "power": {name: list(values) for name, values in attacked.power.items()},
            "control": attacked.control,
            "not_shown": attacked.refused,
            "notes": list(attacked.notes),
        },
    )
