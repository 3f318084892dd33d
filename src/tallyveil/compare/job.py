"""The whole comparison: read the input, publish by every method, measure losses, attack, and write page and numbers."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import polars as pl

from tallyveil.accounting.ledger.file import Ledger
from tallyveil.accounting.ledger.lines import LEDGER, Declaration
from tallyveil.accounting.numbers import at_most
from tallyveil.compare.attacks.attack import Attack, Finding, Targets, over_draws
from tallyveil.compare.attacks.hidden_counts import HiddenCounts
from tallyveil.compare.attacks.knows_others import KnowsOthers
from tallyveil.compare.attacks.linkage import Linkage
from tallyveil.compare.attacks.presence import Presence
from tallyveil.compare.attacks.questions import RepeatedQuestions
from tallyveil.compare.attacks.rare_attribute import RareAttribute
from tallyveil.compare.attacks.reconstruction import Reconstruction
from tallyveil.compare.draws import Draws
from tallyveil.compare.inputs import (
    PublicInput,
    SharedInput,
    read_areas,
    read_input,
    refuse_too_large,
    require_single_records,
)
from tallyveil.compare.losses import change_losses, losses_of
from tallyveil.compare.methods.exact import Exact
from tallyveil.compare.methods.method import Method, Office
from tallyveil.compare.methods.topdown import TopDown
from tallyveil.compare.outputs import write_marked
from tallyveil.compare.page import write_comparison_page
from tallyveil.compare.published import Certificate
from tallyveil.compare.results import Comparison, MethodResult
from tallyveil.compare.settings import CompareFile
from tallyveil.errors import ConfigError
from tallyveil.files.evaluation import WARNING
from tallyveil.noise.laws import SMALLEST_PARAMETER, DiscreteGaussian
from tallyveil.plans.from_toml.load import load_plan, parse_file
from tallyveil.plans.release import ReleasePlan
from tallyveil.runs.executor import Threads
from tallyveil.schema.schema import Schema
from tallyveil.storage.outputs import own_folder, refuse_inputs, refuse_output_inside, remove
from tallyveil.storage.system import usable_cores
from tallyveil.storage.write import write_json
from tallyveil.subspace.mechanisms import GeneralisedGaussian
from tallyveil.version import VERSION

ATTACKS: Final[tuple[Attack, ...]] = (
    KnowsOthers(),
    RareAttribute(),
    RepeatedQuestions(),
    Reconstruction(),
    Linkage(),
    HiddenCounts(),
    Presence(),
)
"""Every attack, in the order of the page."""

POWER_AT_1000: Final = 0.8
"""Part of what an attack finds on exact tables that it must find on a release with an epsilon of 1000, which is nearly
exact. An attack with less is too weak against noise to be shown. At half of it a blunt attack would pass; closer to 1
the remaining noise of that release would refuse good ones."""

EXACT: Final = "exact tables"
WORK: Final = "releases"
"""Folder for releases that are made on the way, in that of the results; it is gone when a comparison has ended."""

CONTROL: Final = "the control"
"""Name of the release with next to no noise, on which attacks must succeed."""


def compare(path: Path, out: Path, progress: Callable[[str], None], workers: int | None = None) -> Comparison:
    """Compare the methods of a file, and write the page and the numbers.

    Args:
        path: TOML file (`CompareFile`).
        out: Folder of the results: new, empty, or of an earlier comparison.
        progress: Is told what is being done, in words.
        workers: Number of threads; None for one per core. The results do not depend on it.
    Raises:
        TallyveilError: the file, an input or the folder is wrong. The ledger gets its entry before a count is computed.
    Privacy: none. `out` gets a ledger that says so, and every file is marked.
    """
    file = parse_file(path, CompareFile)
    plan = load_plan(file.release)
    require_attribute(file.attacks.sensitive, plan.schema)
    require_single_records(plan, file.units)
    inputs = [path, *file.inputs, plan.records.path, plan.geography.path]
    later = None
    if file.later is not None:
        later = load_plan(file.later)
        _require_comparable(plan, later)
        require_single_records(later, file.units)
        inputs += [later.records.path, later.geography.path]
    refuse_written_inputs(out, inputs)
    with own_folder(out, "compare"):
        comparison = _compared(file, plan, later, out, workers or usable_cores(), progress)
        write_numbers(out, comparison)
        write_comparison_page(out, comparison)
    return comparison


def refuse_written_inputs(out: Path, inputs: Sequence[Path]) -> None:
    """Refuse a folder of results that is an input, has one in it, or lies in the folder of a release; StoreError."""
    refuse_inputs(out, inputs)
    for path in inputs:
        if path.is_dir():
            refuse_output_inside(out, path)


def require_attribute(sensitive: str, schema: Schema) -> None:
    """Refuse an attribute that the schema does not have, before records are read; raises ConfigError."""
    names = schema.attribute_names
    if sensitive not in names:
        raise ConfigError(
            f"[attacks] sensitive is '{sensitive}', wanted an attribute of the schema: {', '.join(names)}. Nothing was "
            "read.",
            code="bad-key-or-value",
        )


def _require_comparable(plan: ReleasePlan, later: ReleasePlan) -> None:
    """Refuse a later year with another schema, before records are read; raises ConfigError."""
    if later.schema.digest() != plan.schema.digest():
        raise ConfigError(
            "the release file of later has another schema than the release file of the comparison. Compare years of "
            "one schema. Nothing was read.",
            code="other-release",
        )


def _compared(
    file: CompareFile,
    plan: ReleasePlan,
    later: ReleasePlan | None,
    out: Path,
    workers: int,
    progress: Callable[[str], None],
) -> Comparison:
    began = time.process_time()
    progress("reading the geography")
    spine, areas = read_areas(plan, file.entities)
    refuse_too_large(spine, plan.schema)
    queries = tuple(plan.schema.query(name) for name in file.tables or plan.tables)
    public = PublicInput(plan, spine, areas, queries, file.attacks.sensitive)
    control = control_of(plan)
    # Whatever can be refused is refused before the records are read, which cannot be taken back.
    for method in (control, *file.methods):
        method.require_fit(public)
    declaration = Declaration(plan.budget_unit, plan.declared, plan.neighbours)
    progress("reading the records")
    # Both years before the ledger says anything: records that are refused have shown nothing.
    read, read_later = read_input(public, file.units), None
    if later is not None:
        progress("reading the records of the later year")
        read_later = read_input(replace(public, plan=later), file.units)
    after: SharedInput | None = None
    with Ledger(out / LEDGER, declaration, "compare") as ledger:
        shared = read.declassified(ledger)
        if read_later is not None:
            after = replace(read_later.declassified(ledger), earlier=shared.counts)
    targets = Targets(shared, Draws(file.key), file.attacks.sensitive, file.attacks.people)
    attacks = tuple(item for item in ATTACKS if file.questions or not isinstance(item, RepeatedQuestions))
    # What a killed run left there: releases that are made on the way have a public key, and true counts beside.
    remove(out / WORK)
    try:
        rooms = _Rooms(targets, plan, out / WORK, after)
        # One draw is enough to see whether an attack succeeds where it must.
        controls = _results((Exact(name=EXACT), control), rooms, attacks, 1, workers, progress)
        power = {
            attack.name: tuple(attack.power(targets, control.findings) for control in controls)
            for attack in attacks
        }
        stated = control_budget(control, plan.budget_unit, controls[1].certificate)
        refused = refused_attacks(power, stated)
        shown = tuple(attack for attack in attacks if attack.name not in refused)
        results = _results(file.methods, rooms, shown, file.draws, workers, progress)
    finally:
        remove(out / WORK)
    return Comparison(
        file=file,
        plan=plan,
        shared=shared,
        results=tuple(results),
        power=power,
        control=stated,
        at_risk={
            attack.name: number for attack in shown if (number := attack.number_at_risk(targets)) is not None
        },
        shown_attacks=shown,
        refused=refused,
        seconds=time.process_time() - began,
    )


def control_of(plan: ReleasePlan) -> TopDown:
    """A release with an epsilon of 1000, by the published conversion where the budget is rho.

    It has less where this program draws no noise as small: attacks then have to succeed against a little more noise.
    """
    wanted = Fraction(1000)
    if plan.budget_unit == "rho":
        # epsilon = rho + 2 sqrt(rho ln(1 / delta)), solved for rho. Floats are enough to test an attack's power.
        log = math.log(1 / plan.delta)
        root = math.sqrt(log + 1000) - math.sqrt(log)
        wanted = Fraction(root**2).limit_denominator(1000)
    # A geounit whose parents are bypassed has their shares as well, at most the whole budget.
    share = Fraction(1) if plan.may_bypass else None
    laws = [
        plan.strategy.law(geolevel, query, share)
        for geolevel in plan.strategy.geolevels
        for query in plan.strategy.queries(geolevel)
    ]
    # Both parameters of noise fall as the budget rises, and so do those of noise on a lattice.
    least = min(law.variance if isinstance(law, DiscreteGaussian) else law.scale for law in laws)
    for item in plan.subspace:
        drawn = item.law(plan.mechanism, plan.neighbours)
        least = min(least, drawn.variance if isinstance(drawn, GeneralisedGaussian) else 1 / drawn.epsilon)
    return TopDown(name=CONTROL, budget=min(wanted, plan.spent * least / SMALLEST_PARAMETER))


def control_budget(control: TopDown, unit: str, certificate: Certificate | None) -> str:
    """The budget of the control in words, with its epsilon where one is proved of it."""
    if certificate is not None:
        return certificate.epsilon
    assert control.budget is not None
    return f"{unit} = {at_most(control.budget, 5)}"


def _results(
    methods: Sequence[Method],
    rooms: "_Rooms",
    attacks: tuple[Attack, ...],
    draws: int,
    workers: int,
    progress: Callable[[str], None],
) -> list[MethodResult]:
    """Publish by every method as often as is asked for, and attack every draw; several draws at a time.

    Each draw has random numbers of its own, so that nothing depends on the number of threads or on their order.
    """
    tasks = [
        (number, draw)
        for number, method in enumerate(methods)
        for draw in range(draws if method.random else 1)
    ]
    # What every draw needs is computed once, before threads could compute it twice.
    rooms.targets.prepare()

    def work(task: int) -> _Draw:
        number, draw = tasks[task]
        progress(f"{methods[number].name}: draw {draw + 1}")
        return _drawn(methods[number], rooms, attacks, task, draw)

    done = dict(Threads(workers).each(work, range(len(tasks))))
    results = []
    for number, method in enumerate(methods):
        parts = [done[task] for task, (which, _) in enumerate(tasks) if which == number]
        results.append(
            MethodResult(
                method,
                _mean_losses([part.losses for part in parts]),
                over_draws([part.findings for part in parts]),
                parts[-1].certificate,
                parts[-1].notes,
                len(parts),
                sum(part.seconds for part in parts) / len(parts),
            )
        )
    return results


@dataclass(frozen=True, slots=True, eq=False)
class _Draw:
    """What became of one draw of a method. Its tables are not held: those of all draws would fill the memory."""

    losses: pl.DataFrame
    findings: Sequence[Finding]
    certificate: Certificate | None
    notes: tuple[str, ...]
    seconds: float


def _drawn(method: Method, rooms: "_Rooms", attacks: tuple[Attack, ...], task: int, draw: int) -> _Draw:
    """Publish once by a method, and attack it."""
    targets = rooms.targets
    folder = rooms.work / f"{task}"
    began = time.perf_counter()
    published = method.publish(rooms.office(3 * draw, targets.shared, folder / "published"))
    seconds = time.perf_counter() - began
    tossed = None
    if method.repeatable:
        tossed = method.publish(rooms.office(3 * draw + 1, targets.tossed, folder / "tossed"))
    lost = losses_of(targets.shared, published, targets.sensitive)
    if rooms.later is not None and method.repeatable:
        # Another draw of everything but what records keep.
        office = rooms.office(3 * draw + 2, rooms.later, folder / "later", lasting=3 * draw)
        changes = change_losses(targets.shared, published, rooms.later, method.publish(office))
        lost = pl.concat([lost, changes])
    findings = [item for attack in attacks for item in attack.run(targets, published, tossed)]
    remove(folder)
    return _Draw(lost, findings, published.certificate, published.notes, seconds)


def _mean_losses(losses: list[pl.DataFrame]) -> pl.DataFrame:
    """Means over draws; null where a draw has none. Every draw has the same rows."""
    values = pl.mean_horizontal(*(frame["value"] for frame in losses), ignore_nulls=False)
    return losses[0].with_columns(pl.select(values).to_series().alias("value"))


@dataclass(frozen=True, slots=True, eq=False)
class _Rooms:
    """What methods and attacks work with, draw by draw."""

    targets: Targets
    plan: ReleasePlan
    work: Path
    later: SharedInput | None

    def office(self, draw: int, shared: SharedInput, folder: Path, lasting: int | None = None) -> Office:
        """An office with random numbers of its own, for the input, the one with coins, or that of a later year.

        Args:
            draw: Number of the random numbers.
            shared: The input.
            folder: For releases that are made on the way.
            lasting: Of those that stay with the records; None for the same number.
        """
        draws = self.targets.draws
        return Office(
            shared,
            self.plan,
            self.targets.sensitive,
            draws.again(draw),
            draws.again(draw if lasting is None else lasting),
            folder,
        )


def refused_attacks(power: Mapping[str, Sequence[float | None]], control: str) -> dict[str, str]:
    """Attacks that are too weak to be shown, with what they found where they must succeed.

    Args:
        power: By attack, its headline on exact tables and on nearly exact ones. Others are not asked.
        control: Budget of the nearly exact ones.
    """
    refused = {}
    for attack in ATTACKS:
        if attack.name not in power:
            continue
        best, noisy = power[attack.name]
        if best is None or best < attack.must:
            refused[attack.name] = (
                f"On exact tables its {attack.headline} is {_number(best)}, wanted {attack.must:.2f} or more."
            )
        elif noisy is None or noisy < POWER_AT_1000 * best:
            refused[attack.name] = (
                f"On the release with next to no noise ({control}) its {attack.headline} is "
                f"{_number(noisy)}, wanted {POWER_AT_1000 * best:.2f} or more."
            )
    return refused


def _number(value: float | None) -> str:
    return "not known" if value is None else f"{value:.2f}"


def write_numbers(out: Path, comparison: Comparison) -> None:
    """Write losses and findings as tidy tables (Parquet and CSV), and the settings as JSON; raises StoreError."""
    losses = pl.concat(
        [
            result.losses.select(pl.lit(result.method.name).alias("method"), pl.all())
            for result in comparison.results
        ]
    )
    findings = pl.DataFrame(
        [
            {"method": result.method.name, **{name: getattr(item, name) for name in Finding.__slots__}}
            for result in comparison.results
            for item in result.findings
        ],
        infer_schema_length=None,
    )
    for name, frame in (("losses", losses), ("attacks", findings)):
        write_marked(out, name, frame, WARNING, private=False)
    write_json(out / "comparison.json", _content(comparison))


def _content(comparison: Comparison) -> dict[str, Any]:
    return {
        "format": 1,
        "protected": False,
        "warning": WARNING,
        "version": VERSION,
        "key": comparison.file.key,
        "tables": [query.name for query in comparison.shared.queries],
        "areas": {areas.name: areas.n_areas for areas in comparison.shared.areas},
        "sensitive": comparison.file.attacks.sensitive,
        "people": comparison.file.attacks.people,
        "draws": comparison.file.draws,
        "questions": comparison.file.questions,
        "power": {name: list(values) for name, values in comparison.power.items()},
        "control": comparison.control,
        "at_risk": dict(comparison.at_risk),
        "note": comparison.file.note,
        "not_shown": dict(comparison.refused),
        "methods": [
            {
                "name": result.method.name,
                "kind": type(result.method).model_fields["kind"].default,
                "settings": result.method.settings(),
                "draws": result.draws,
                "seconds_to_publish": round(result.seconds, 3),
                "notes": list(result.notes),
            }
            for result in comparison.results
        ],
    }
