"""TopDown: a release of this program with a test key, at any budget."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import ClassVar, Final, Literal

import numpy as np
import polars as pl
from pydantic import Field

from tallyveil.accounting.costs import translate
from tallyveil.accounting.events import Neighbours, PrivacyEvent
from tallyveil.accounting.guarantee import Guarantee, compose
from tallyveil.accounting.ledger.lines import event_from_mapping
from tallyveil.accounting.numbers import at_most, claim_text, delta_text
from tallyveil.arrays import Integers
from tallyveil.budget.strategy import Mechanism
from tallyveil.compare.inputs import Areas, PublicInput, SharedInput
from tallyveil.compare.methods.method import Method, Office
from tallyveil.compare.published import (
    FALSE_ALARMS,
    Certificate,
    NoisyAnswers,
    Published,
    PublishedTable,
    SummedQuestions,
    observed_law,
)
from tallyveil.declared import Exact
from tallyveil.errors import ConfigError
from tallyveil.files.finished import MANIFEST
from tallyveil.files.geography import read_geography, read_shares
from tallyveil.files.histograms import read_histogram
from tallyveil.files.manifest import Manifest
from tallyveil.geography.spine import Spine
from tallyveil.geography.tables import GEOCODE
from tallyveil.measurements.store import StoredMeasurements
from tallyveil.noise.key import insecure_key
from tallyveil.plans.fitting import stated_plan
from tallyveil.plans.inputs import RecordsInput
from tallyveil.plans.release import ReleasePlan, StatedPlan, keys_of_budget
from tallyveil.products.topdown.run.public import read_public
from tallyveil.products.topdown.run.run import run_release
from tallyveil.storage.write import write_parquet

COUNT: Final = "__count"
"""Column of counts in the table that a release is made from; no attribute can have this name."""

LATTICE: Final = (
    "Counts were drawn on a lattice. Such noise has no worst pair of neighbours, so no bound on attackers is stated "
    "here; the report of the release has its cost."
)


class TopDown(Method):
    """Differential privacy by TopDown, as `tallyveil run` makes it from the release file of the comparison.

    Each budget divides itself by the shares of the release file. The noise follows from the key of the comparison, so
    the releases made here protect nobody.
    """

    family: ClassVar[str] = "TopDown"
    literature: ClassVar[str] = "Abowd et al. 2022; Cumings-Menon et al. 2023"
    unbounded: ClassVar[str] = "None is stated."
    cannot: ClassVar[str] = (
        "It does not keep empty areas empty or small areas exact: noise in counts that may not be negative adds people "
        "where few are. Its bound is about one record, holds beside the counts that are published exactly, and says "
        "little at a large budget."
    )
    strength: ClassVar[str] = (
        "One bound is about all attackers and all questions together, tables add up, and errors of small areas do "
        "not add up in the larger areas of the spine; in other areas they do."
    )

    kind: Literal["topdown"] = "topdown"
    budget: Exact | None = Field(
        default=None,
        gt=0,
        description="Rho or epsilon, in the unit of the release file; without it the budget of the release file.",
    )

    def require_fit(self, public: PublicInput) -> None:
        """Refuse a release that cannot be made of the input, and of the input with coins.

        Raises:
            BudgetError: the plan of the budget cannot be stated.
            ConfigError: bounds or agreements are about the attribute that coins change.
            TallyveilError: as `read_public` raises it.
        """
        plan = with_budget(public.plan, self.budget)
        stated = [(item.name, item.query) for item in plan.bounds]
        stated += [(item.name, item.query) for item in plan.agreement]
        for name, query in stated:
            if public.sensitive in [factor.attribute for factor in plan.query(query).named_factors]:
                raise ConfigError(
                    f"the release file has '{name}', bounds or counts that '{query}' must agree with. Attacks publish "
                    f"the input once more with another {public.sensitive} of some people, which these need not allow. "
                    f"Leave '{name}' out of the release file of the comparison. Nothing was read.",
                    code="bad-key-or-value",
                )
        read_public(plan)

    def publish(self, office: Office) -> Published:
        """As in `Method`."""
        root = office.work / "release"
        records = write_records(office.shared, root.with_suffix(".parquet"))
        plan = replace(with_budget(office.plan, self.budget), records=records)
        # The text of the key names no budget: releases at different budgets have unrelated noise all the same, because
        # the key of a run is bound to its plan.
        release = run_release(plan, root, test_key=insecure_key(f"compare {office.draws.text}"), workers=1)
        return published_release(root, release.manifest, office.shared)


def published_release(
    root: Path, manifest: Manifest, shared: SharedInput, notes: tuple[str, ...] = ()
) -> Published:
    """What a finished release publishes of the shared input's areas.

    Args:
        root: Its folder.
        manifest: Its manifest.
        shared: The input.
        notes: As in `Published`.
    Raises:
        ConfigError: the release has other finest geounits.
        StoreError: a file of it is missing or damaged.
    """
    plan = stated_plan(root / MANIFEST, manifest.body["plan"])
    spine = read_geography(root)
    finest = read_histogram(root, spine.geolevels[-1], plan.schema, spine)
    counts = finest.dense(0, finest.n_geounits, plan.schema.size)
    counts = counts[finest_rows(root, spine, shared.finest)]
    tables = {name: PublishedTable(values) for name, values in shared.tables_of(counts).items()}
    noisy: tuple[NoisyAnswers, ...] = ()
    if plan.measurements == "full":
        shares = read_shares(root, spine)
        # With the digests: a file of noisy answers that was changed is refused, not attacked.
        stored = StoredMeasurements(root, spine, shares, manifest.digests)
        noisy = _noisy(plan, shared, spine, stored)
    return Published(
        tables,
        observed_law(shared, tables),
        SummedQuestions(counts),
        noisy=noisy,
        certificate=None if plan.subspace else _certificate(plan, event_from_mapping(manifest.event)),
        notes=(*notes, LATTICE) if plan.subspace else notes,
    )


def finest_rows(root: Path, spine: Spine, finest: Areas) -> Integers:
    """Row of each finest geounit of the comparison in a release: the steps of a spine may number them anew.

    Args:
        root: Folder of the release, for the error.
        spine: Of the release.
        finest: The finest geounits of the comparison.
    Raises:
        ConfigError: the release has others.
    """
    rows = spine.locate(spine.finest, list(finest.codes))
    if len(rows) != spine.n_geounits(spine.finest) or (rows < 0).any():
        raise ConfigError(
            f"the release in {root} has other finest geounits than the geography of the comparison. Compare releases "
            "of one geography.",
            code="other-release",
        )
    return rows


def with_budget(plan: ReleasePlan, budget: Fraction | None) -> ReleasePlan:
    """The plan with another budget and the same shares; its release has all measurements and nothing superfluous."""
    factor = Fraction(1) if budget is None else budget / plan.spent
    drawn = tuple(replace(item, budget=item.budget * factor) for item in plan.subspace)
    strategy = replace(plan.strategy, total=plan.strategy.total * factor)
    # In one step: a plan with only one of the two budgets changed would cost something else.
    return replace(
        plan,
        **keys_of_budget(strategy, drawn),
        declared=max(plan.declared, plan.spent * factor),
        subspace=drawn,
        measurements="full",
        microdata=False,
        tables=(),
        intervals=None,
        names=False,
        geometry=False,
    )


def write_records(shared: SharedInput, path: Path) -> RecordsInput:
    """Write the input as a table of counts, and say how a release reads it."""
    schema = shared.schema
    geounits, cells = np.nonzero(shared.counts)
    levels = schema.decode(cells)
    columns = {
        attribute.name: pl.Series(list(attribute.levels)).gather(levels[:, number])
        for number, attribute in enumerate(schema.attributes)
    }
    geocodes = pl.Series(list(shared.finest.codes)).gather(geounits)
    frame = pl.DataFrame({GEOCODE: geocodes, **columns, COUNT: shared.counts[geounits, cells]})
    write_parquet(path, frame, {})
    return RecordsInput(
        geocode=GEOCODE, count=COUNT, columns=tuple((name, name) for name in columns), path=path
    )


def _noisy(
    plan: StatedPlan, shared: SharedInput, spine: Spine, stored: StoredMeasurements
) -> tuple[NoisyAnswers, ...]:
    """The noisy answers at the geolevels that readers know; none for other laws than the discrete Gaussian."""
    if plan.mechanism is not Mechanism.DISCRETE_GAUSSIAN:
        return ()
    answers = []
    for areas in shared.geolevels:
        if areas.name not in plan.strategy.geolevels:
            continue
        level = spine.level_index(areas.name)
        # The steps of a spine may number geounits anew, and may have others at a geolevel of the same name.
        rows = spine.locate(level, list(areas.codes))
        if (rows < 0).any():
            continue
        for query in plan.strategy.queries(areas.name):
            size = plan.query(query).size
            measured = stored.measure(areas.name, query, 0, spine.n_geounits(level), np.arange(size))
            answers.append(NoisyAnswers((areas.name, query), measured.values[rows], measured.variances[rows]))
    return tuple(answers)


def _certificate(plan: StatedPlan, event: PrivacyEvent) -> Certificate:
    """What is proved of a release.

    Args:
        plan: Its plan.
        event: What its ledger shows, on its spine with the geounits that were bypassed.
    """
    stated = compose(event, neighbours=plan.neighbours)
    # Attackers are after a value: one record changes, whatever relation the office states its guarantee under.
    changed = compose(translate(event, plan.neighbours, Neighbours.BOUNDED), neighbours=Neighbours.BOUNDED)
    return certificate_of(changed, stated, plan.delta, plan.budget_unit, plan.spent, plan.neighbours)


_ABOUT: Final = {
    Neighbours.BOUNDED: "for one record that changes its value",
    Neighbours.UNBOUNDED: "for one record more or less",
}


def certificate_of(
    changed: Guarantee, stated: Guarantee, delta: Fraction, unit: str, spent: Fraction, neighbours: Neighbours
) -> Certificate:
    """What is proved.

    Args:
        changed: The guarantee for one record that changes its value, which attackers are after.
        stated: The guarantee as the office states it.
        delta: Of the statement.
        unit, spent: The budget.
        neighbours: The two data sets that the office's guarantee is about.
    """
    epsilon = claim_text(stated.epsilon(delta).upper)
    return Certificate(
        min(1.0, changed.advantage().upper),
        1.0 - changed.beta(Fraction(FALSE_ALARMS)).lower,
        f"{unit} = {at_most(spent, 5)}; epsilon <= {epsilon} at delta = {delta_text(delta)}, {_ABOUT[neighbours]}",
        changed.invariants,
    )
