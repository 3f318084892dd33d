"""The plan of a release: one declaration of everything that is decided before any file is opened.

`StatedPlan` is what `plan.json` says. It names no path, so that a plan does not depend on where its files
are, and a finished release can be read by it. The guarantee, the estimation and what is written follow from it
alone. `ReleasePlan` is the same plan together with the inputs of a run. A key that says nothing is left out
(`left_out`), so that plans without it keep their digest.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field

from tallyveil.accounting.events import (
    IntegerSubspaceGaussian,
    IntegerSubspaceLaplace,
    InvariantEvent,
    Neighbours,
    PrivacyEvent,
    SequentialEvent,
)
from tallyveil.accounting.numbers import exact_text
from tallyveil.budget.outer_pass import OuterPass
from tallyveil.budget.queries import require_sensitivities, sensitivities_of
from tallyveil.budget.strategy import Mechanism, Strategy
from tallyveil.declared import UNSTATED, ByName, Declared, Exact, Flag, Many, Name, left_out, mapping_of
from tallyveil.errors import BudgetError
from tallyveil.plans.constraints import Agreement, Bounds, BoundsInput, Invariant, Residents
from tallyveil.plans.estimating import GeolevelEstimation, MeasurementFiles
from tallyveil.plans.inputs import GeographyInput, Records, RecordsInput, SpineInput, StatedSpine
from tallyveil.runs.executor import ClusterSettings
from tallyveil.schema.labels import NO_LABELS, Labels, LabelsByLanguage
from tallyveil.schema.names import PlainName
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import PERSON, StatedSchema, Unit
from tallyveil.storage.json_files import damaged, digest_of
from tallyveil.subspace.mechanisms import GeneralisedGaussian, GeneralisedLaplace, LatticeLaw, Norm

INTEGER_SUBSPACE = "integer-subspace"

# 8,192 answers. Twice as many can write twice as much; with half, tables of some queries have no intervals.
SMALL_QUERY: Final = 1 << 13
MOST_NUMBERS: Final = 1 << 27
"""With `measurements = "small"`, the most answers of a query that is written at every geolevel; and the most noisy
answers of all geounits of a geolevel together that are written of a larger query."""

LARGEST_SCHEMA: Final = 1 << 16
"""Cells of the largest schema of which intervals have one model of all cells."""


@dataclass(frozen=True)
class SubspaceQuery(Declared):
    """A query whose answers at one geolevel get noise that keeps the invariants; the noisy counts are then fixed."""

    mechanism: Annotated[
        Literal["integer-subspace"], Field(description="The mechanism; there is only one.")
    ] = field(default="integer-subspace", kw_only=True)
    query: Annotated[Name, Field(description="The query. Each record counts in at most one of its answers.")]
    geolevel: Annotated[Name, Field(description="Geolevel at which the counts are drawn.")]
    budget: Annotated[Exact, Field(description="Exact cost, in the unit of the strategy of the release.")]

    def law(self, mechanism: Mechanism, neighbours: Neighbours) -> LatticeLaw:
        """Law of the noise: Gaussian if the budget is rho, l1 Laplace if it is epsilon.

        Each answer changes by at most 1 if one record changes, so the l1 distance and the squared l2 distance are both
        the number of answers that change.
        """
        moved = neighbours.answers_moved
        if mechanism is Mechanism.DISCRETE_GAUSSIAN:
            # rho = moved / (2 variance), solved for the variance; exact in fractions.
            return GeneralisedGaussian(moved / (2 * self.budget))
        # l1 Laplace noise of a scale moved / epsilon costs epsilon.
        return GeneralisedLaplace(Norm.L1, self.budget / moved)

    def event(
        self, mechanism: Mechanism, neighbours: Neighbours, invariants: Sequence[Invariant]
    ) -> IntegerSubspaceGaussian | IntegerSubspaceLaplace:
        """The privacy event of drawing the counts. Its cost is exactly `budget`."""
        names = tuple(item.statement for item in invariants)
        law = self.law(mechanism, neighbours)
        if isinstance(law, GeneralisedGaussian):
            return IntegerSubspaceGaussian(law.variance, neighbours.answers_moved, names)
        return IntegerSubspaceLaplace(law.epsilon, "l1", neighbours.answers_moved, names)

    @property
    def name(self) -> str:
        """Name in constraints, checks and messages."""
        return f"{INTEGER_SUBSPACE} {self.query}"


OUTPUT: Final = object()
"""The mark of a key that describes what is written, not what is measured. The noise key does not depend on it. A key
that changes what is measured must never have it: a resumed run would add the same noise to other counts."""


@dataclass(frozen=True, kw_only=True)
class StatedPlan(Declared):
    """What the plan of a release states, in the order of `plan.json`.

    Attributes:
        name: Name of the release in messages and in the report.
        schema: The universe.
        records: How the confidential table is read.
        geolevels: Of the spine that is measured, root first: those of the geography after the steps.
        mechanism: Law of the noise.
        neighbours: Relation under which the budget is stated.
        budget_unit: Unit of what is declared and spent.
        declared: Largest budget that may be spent.
        spent: What the release costs: the strategy, and the counts that are drawn on a lattice.
        delta: Delta at which epsilon is reported.
        geolevel_shares: Share of each geolevel in the budget of the strategy.
        query_shares: Share of each measured query in the budget of its geolevel.
        invariants: Queries published exactly.
        bounds: Public bounds.
        estimation: Passes and rounding of each geolevel.
        tables: Queries published for every geounit.
        measurements: Which noisy answers are written: all ("full"), all of the queries with few answers ("small"),
            only those on the support of each parent's published counts ("support"), or none ("none"). The values are
            the same in each case.
        microdata: Whether one row for each person is written.
        subspace: Queries whose counts at a geolevel get noise on the lattice of the invariants and are then fixed.
        outer: Outer passes over the whole spine, first to last; none where each geolevel is finished before the next.
        agreement: Counts of finished releases that the counts of this one keep.
        residents: People of finished releases who live in the units that this release counts.
        intervals: Coverage of the intervals that are written beside every published count; None for no intervals.
        licence: Name or address of the licence that the release is published under; None if it is not stated.
        citation: How the release is to be cited; None if it is not stated.
        names: Whether names of geounits and entities are published.
        geometry: Whether polygons or points of the finest geounits are published.
        spine: Off-spine entities and the steps that make the spine; None to use the geography as it is.
        entities: Families of entities that tables are published for; None without a spine.
        labels: What the release and its parts are called, by language; none where names are shown as they are.
    """

    format: Literal[1] = 1
    name: PlainName
    schema: StatedSchema
    records: Records
    geolevels: Many[PlainName]
    mechanism: Mechanism
    neighbours: Neighbours
    budget_unit: Literal["rho", "epsilon"]
    declared: Exact
    spent: Exact
    delta: Exact
    geolevel_shares: ByName[Exact]
    query_shares: ByName[ByName[Exact]]
    invariants: Many[Invariant]
    bounds: Many[Bounds]
    estimation: ByName[GeolevelEstimation]
    tables: Annotated[Many[Name], OUTPUT]
    measurements: Annotated[MeasurementFiles, OUTPUT]
    microdata: Annotated[Flag, OUTPUT]
    subspace: Annotated[Many[SubspaceQuery], left_out(())] = ()
    outer: Annotated[Many[OuterPass], left_out(())] = ()
    agreement: Annotated[Many[Agreement], left_out(())] = ()
    residents: Annotated[Many[Residents], left_out(())] = ()
    intervals: Annotated[Exact | None, left_out(None), OUTPUT] = None
    licence: Annotated[Name | None, left_out(None), OUTPUT] = None
    citation: Annotated[Name | None, left_out(None), OUTPUT] = None
    names: Annotated[Flag, left_out(False), OUTPUT] = False
    geometry: Annotated[Flag, left_out(False), OUTPUT] = False
    spine: Annotated[StatedSpine | None, left_out(None)] = None
    entities: Annotated[Many[Name] | None, left_out(None), OUTPUT] = None
    labels: Annotated[LabelsByLanguage, left_out(()), OUTPUT] = ()

    def __post_init__(self) -> None:
        require_sensitivities(self.strategy, self.schema)
        if self.spent > self.declared:
            unit = self.budget_unit
            raise BudgetError(
                f"the strategy costs {unit} = {exact_text(self.spent)}, "
                f"more than the declared budget {unit} = {exact_text(self.declared)}. "
                f"Lower [strategy] {unit}, or raise [privacy] {unit} if policy allows it; nothing was read."
            )

    @cached_property
    def strategy(self) -> Strategy:
        """The measured queries and their budgets."""
        return self._strategy(self.query_shares)

    @cached_property
    def strategy_in_passes(self) -> Strategy:
        """The same, with the queries of each geolevel in the order in which its passes name them.

        The estimator adds up in this order, so that its floats depend on it; the budget does not.
        """
        shares = {geolevel: dict(shares) for geolevel, shares in self.query_shares}
        return self._strategy(
            tuple(
                (
                    geolevel,
                    tuple((query, shares[geolevel][query]) for names in steps.passes for query in names),
                )
                for geolevel, steps in self.estimation
            )
        )

    def _strategy(self, query_shares: tuple[tuple[str, tuple[tuple[str, Fraction], ...]], ...]) -> Strategy:
        return Strategy(
            mechanism=self.mechanism,
            neighbours=self.neighbours,
            total=self.spent - sum(item.budget for item in self.subspace),
            geolevel_shares=self.geolevel_shares,
            query_shares=query_shares,
            sensitivities=sensitivities_of(
                self.schema, (query for _, shares in query_shares for query, _ in shares)
            ),
            records=records_changed(self.records),
        )

    def with_strategy(self, strategy: Strategy) -> Self:
        """The same plan with another division of its budget, or another budget."""
        if strategy.records != self.strategy.records:
            raise BudgetError(
                f"a strategy for {strategy.records} changed records is given to a plan in which "
                f"{self.strategy.records} may change. Take the strategy of the plan, and change its shares or budget."
            )
        return replace(self, **keys_of_budget(strategy, self.subspace))

    @property
    def protected_unit(self) -> Unit:
        """Whose record the guarantee is about: where households are derived from persons, a person's."""
        return self.schema.unit if self.strategy.records == 1 else PERSON

    @property
    def may_bypass(self) -> bool:
        """Whether geounits may be bypassed, so that the paths of the spine may differ in their shares."""
        return self.spine is not None and self.spine.bypassing is not None

    @property
    def entity_families(self) -> tuple[str, ...]:
        """Families of entities that tables are published for; without a spine there are none."""
        return self.entities or ()

    @property
    def uses_tree(self) -> bool:
        """Whether some geolevel is fitted to more than its own noisy answers."""
        return any(steps.values == "tree" for _, steps in self.estimation)

    @property
    def allocates(self) -> bool:
        """Whether the finest geolevel is estimated by a model of its geounits."""
        return self.estimation[-1][1].method == "allocation"

    @property
    def cells_at_finest(self) -> str | None:
        """A query that is measured at the finest geolevel and tells all cells apart; None if there is none."""
        for name in self.strategy.queries(self.geolevels[-1]):
            query = self.query(name)
            if query.size == self.schema.size and not query.overlaps:
                return name
        return None

    @property
    def tables_apart(self) -> bool:
        """Whether intervals of each table have a model of their own, because one of all cells would be too large."""
        # Above LARGEST_SCHEMA, blocks of all cells would not fit into the memory of a machine.
        return self.measurements == "small" or self.schema.size > LARGEST_SCHEMA

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages of the labels, that which is shown without a choice first; none without labels."""
        return tuple(language for language, _ in self.labels)

    def labels_in(self, language: str | None) -> Labels:
        """The labels in a language of the release; without any labels, and for None, every name is its own label."""
        return NO_LABELS if language is None else dict(self.labels)[language]

    def query(self, name: str) -> QueryGroup:
        """The query group of that name."""
        return self.schema.query(name)

    def estimation_of(self, geolevel: str) -> GeolevelEstimation:
        """Passes and rounding stages of a geolevel."""
        return dict(self.estimation)[geolevel]

    def written(self, geolevel: str, n_geounits: int) -> tuple[str, ...]:
        """The measured queries of a geolevel of which every noisy answer is written, whatever the counts are.

        Args:
            geolevel: A geolevel that is measured.
            n_geounits: Its number of geounits.
        """
        queries = self.strategy.queries(geolevel)
        if self.measurements == "full":
            return queries
        # By sizes alone, which are public: what is written must not depend on the counts.
        if self.measurements == "small":
            sizes = [self.query(name).size for name in queries]
            return tuple(
                name
                for name, size in zip(queries, sizes, strict=True)
                if size <= SMALL_QUERY or size * n_geounits <= MOST_NUMBERS
            )
        # The support of a root's families is every cell, so all answers of the root are written.
        is_root = geolevel == self.strategy.geolevels[0]
        return queries if self.measurements == "support" and is_root else ()

    def event(self, measuring: PrivacyEvent | None = None) -> PrivacyEvent:
        """Everything the release does to privacy: the measurements, the counts drawn on a lattice, the invariants.

        Args:
            measuring: The measurements on the spine of the release (`Allocation.event`); without it, those of a
                spine on which nothing is bypassed, which cost the same.
        """
        invariants = tuple(InvariantEvent(invariant.statement) for invariant in self.invariants)
        drawn = tuple(item.event(self.mechanism, self.neighbours, self.invariants) for item in self.subspace)
        # In this order; the digest of an event depends on it.
        return SequentialEvent((measuring or self.strategy.event(), *drawn, *invariants))

    def require_geolevels(self, path: Path, geolevels: Sequence[str]) -> None:
        """Refuse a plan whose geolevels are not those of the geography beside it; raises StoreError."""
        if self.geolevels != tuple(geolevels):
            raise damaged(
                path,
                "plan.geolevels",
                f"The geography has {', '.join(geolevels)}. Restore the folder from a copy.",
            )

    def to_mapping(self) -> dict[str, Any]:
        """Plain data for `plan.json`."""
        return mapping_of(self)

    def digest(self) -> bytes:
        """SHA-256 of the plan as JSON, in the order of its keys."""
        return digest_of(self.to_mapping())

    def measuring_digest(self) -> bytes:
        """SHA-256 of the plan without the keys that describe outputs. The noise key depends on it."""
        return digest_of({key: value for key, value in self.to_mapping().items() if key not in OUTPUTS})


def records_changed(records: Records) -> int:
    """Largest number of records that a change of one person's record may change (docs/proofs/domination.md, section 5).

    A person may leave one household and enter another; the record of a household is a function of its members alone.
    """
    return 1 if records.household is None else 2


def keys_of_budget(strategy: Strategy, drawn: Sequence[SubspaceQuery]) -> dict[str, Any]:
    """What a plan states of a strategy, and of counts that are drawn on a lattice beside it."""
    return {
        "mechanism": strategy.mechanism,
        "neighbours": strategy.neighbours,
        "budget_unit": strategy.budget_unit,
        "spent": sum((item.budget for item in drawn), strategy.total),
        "geolevel_shares": strategy.geolevel_shares,
        "query_shares": strategy.query_shares,
    }


OUTPUTS: Final = tuple(
    item.name for item in fields(StatedPlan) if OUTPUT in getattr(item.type, "__metadata__", ())
)
"""Keys of a plan that describe what is written."""


@dataclass(frozen=True, kw_only=True)
class ReleasePlan(StatedPlan):
    """The plan of one release with the inputs of a run, of which `plan.json` says nothing.

    Attributes:
        geography: The public table of geounits.
        cluster: Which cluster does the work; None for threads of this machine. No count depends on it.
        book: The book of the register, into which the spend is entered; None for none.
    """

    records: RecordsInput
    bounds: Many[BoundsInput]
    spine: Annotated[SpineInput | None, left_out(None)] = None
    geography: Annotated[GeographyInput, UNSTATED]
    cluster: Annotated[ClusterSettings | None, UNSTATED] = None
    book: Annotated[Path | None, UNSTATED] = None
