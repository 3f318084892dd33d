"""The plan of a release, as data: everything that is decided before any file is opened."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tallyveil.accounting.events import PrivacyEvent
from tallyveil.accounting.exact import exact_text
from tallyveil.budget.outer_pass import OuterPass
from tallyveil.budget.sensitivity import require_sensitivities
from tallyveil.budget.strategy import Strategy
from tallyveil.errors import BudgetError
from tallyveil.geography.optimise import geolevels_after
from tallyveil.plans.constraints import Agreement, Bounds, Invariant, Residents
from tallyveil.plans.estimating import EstimationPlan, GeolevelEstimation, MeasurementFiles
from tallyveil.plans.inputs import GeographyInput, RecordsInput, SpineInput
from tallyveil.plans.subspace_query import SubspaceQuery
from tallyveil.plans.terms import PrivacyTerms
from tallyveil.runs.cluster.site import ClusterSettings
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema
from tallyveil.storage.json_files import digest_of

PLAN_FORMAT = 1

OUTPUTS = (
    "tables",
    "entities",
    "measurements",
    "microdata",
    "intervals",
    "licence",
    "citation",
    "names",
    "geometry",
)
"""Keys of a plan's mapping that describe what is written, not what is measured."""


@dataclass(frozen=True, slots=True)
class ReleasePlan:
    """The plan of one release: its inputs, its budget, its estimation and its outputs.

    Attributes:
        name: Name of the release in messages and in the report.
        schema: The universe.
        records: The confidential table.
        geography: The public table of geounits.
        strategy: The measured queries and their budgets.
        declared: Largest budget that may be spent.
        delta: Delta at which epsilon is reported.
        invariants: Queries published exactly.
        bounds: Public bounds.
        estimation: Passes and rounding of each geolevel.
        tables: Queries published for every geounit.
        measurements: Which noisy answers are written: all ("full"), all of the queries with few answers ("small"),
            only those on the support of each parent's published counts ("support"), or none ("none"). The values are
            the same in each case.
        microdata: Whether one row for each person is written.
        spine: Off-spine entities and the steps that make the spine; None to use the geography as it is.
        entities: Families of entities that tables are published for.
        subspace: Queries whose counts at a geolevel get noise on the lattice of the invariants and are then fixed.
        intervals: Coverage of the intervals that are written beside every published count; None for no intervals.
        licence: Name or address of the licence that the release is published under; None if it is not stated.
        citation: How the release is to be cited; None if it is not stated.
        outer: Outer passes over the whole spine, first to last; none where each geolevel is finished before the next.
        agreement: Counts of finished releases that the counts of this one keep.
        residents: People of finished releases who live in the units that this release counts.
        cluster: Which cluster does the work; None for threads of this machine. No count depends on it, and it is no
            part of what a release says of its plan.
    """

    name: str
    schema: Schema
    records: RecordsInput
    geography: GeographyInput
    strategy: Strategy
    declared: Fraction
    delta: Fraction
    invariants: tuple[Invariant, ...]
    bounds: tuple[Bounds, ...]
    estimation: tuple[tuple[str, GeolevelEstimation], ...]
    tables: tuple[str, ...]
    measurements: MeasurementFiles = "full"
    microdata: bool = True
    spine: SpineInput | None = None
    entities: tuple[str, ...] = ()
    subspace: tuple[SubspaceQuery, ...] = ()
    intervals: Fraction | None = None
    licence: str | None = None
    citation: str | None = None
    outer: tuple[OuterPass, ...] = ()
    agreement: tuple[Agreement, ...] = ()
    residents: tuple[Residents, ...] = ()
    cluster: ClusterSettings | None = None

    def __post_init__(self) -> None:
        require_sensitivities(self.strategy, self.schema)
        if self.spent > self.declared:
            unit = self.strategy.budget_unit
            raise BudgetError(
                f"the strategy costs {unit} = {exact_text(self.spent)}, "
                f"more than the declared budget {unit} = {exact_text(self.declared)}. "
                f"Lower [strategy] {unit}, or raise [privacy] {unit} if policy allows it; nothing was read."
            )

    @property
    def geolevels(self) -> tuple[str, ...]:
        """Geolevels of the spine that is measured, root first: those of the geography after the steps."""
        if self.spine is None:
            return self.geography.geolevels
        return geolevels_after(self.geography.geolevels, self.spine.steps)

    @property
    def spent(self) -> Fraction:
        """Cost of the release, in the unit of the strategy."""
        return self.terms.spent

    @property
    def terms(self) -> PrivacyTerms:
        """The part of the plan that its privacy event and its guarantee follow from."""
        return PrivacyTerms(
            unit=self.schema.unit,
            strategy=self.strategy,
            declared=self.declared,
            delta=self.delta,
            invariants=self.invariants,
            subspace=self.subspace,
            may_bypass=self.spine is not None and self.spine.bypassing is not None,
        )

    @property
    def estimating(self) -> EstimationPlan:
        """The part of the plan that is needed after the measurements."""
        return EstimationPlan(
            schema=self.schema,
            strategy=self.strategy,
            estimation=self.estimation,
            tables=self.tables,
            entities=self.entities,
            measurements=self.measurements,
            microdata=self.microdata,
            intervals=self.intervals,
            outer=self.outer,
        )

    def query(self, name: str) -> QueryGroup:
        """The query group of that name."""
        return self.schema.query(name)

    def event(self, measuring: PrivacyEvent | None = None) -> PrivacyEvent:
        """Everything the release does to privacy (`PrivacyTerms.event`)."""
        return self.terms.event(measuring)

    def to_mapping(self) -> dict[str, Any]:
        """Plain data for `plan.json`. It contains no path, so the plan does not depend on where its files are."""
        mapping = {
            "format": PLAN_FORMAT,
            "name": self.name,
            "schema": self.schema.to_mapping(),
            "records": {
                "geocode": self.records.geocode,
                "count": self.records.count,
                "columns": dict(self.records.columns),
                **({"numbers": list(self.records.numbers)} if self.records.numbers else {}),
            },
            "geolevels": list(self.geolevels),
            "mechanism": self.strategy.mechanism.value,
            "neighbours": self.strategy.neighbours.value,
            "budget_unit": self.strategy.budget_unit,
            "declared": str(self.declared),
            "spent": str(self.spent),
            "delta": str(self.delta),
            "geolevel_shares": {name: str(share) for name, share in self.strategy.geolevel_shares},
            "query_shares": {
                level: {query: str(share) for query, share in shares}
                for level, shares in self.strategy.query_shares
            },
            "invariants": [{"query": i.query, "geolevels": list(i.geolevels)} for i in self.invariants],
            "bounds": [
                {"name": b.name, "query": b.query, "geolevel": b.geolevel, "missing_upper": b.missing_upper}
                for b in self.bounds
            ],
            "estimation": {level: item.to_mapping() for level, item in self.estimation},
            "tables": list(self.tables),
            "measurements": self.measurements,
            "microdata": self.microdata,
            # Left out where there is none, so that plans without it keep their digest.
            **({"subspace": [item.to_mapping() for item in self.subspace]} if self.subspace else {}),
            **({"outer": [one.to_mapping() for one in self.outer]} if self.outer else {}),
            **({"agreement": [item.to_mapping() for item in self.agreement]} if self.agreement else {}),
            **({"residents": [item.to_mapping() for item in self.residents]} if self.residents else {}),
            **({} if self.intervals is None else {"intervals": str(self.intervals)}),
            **({} if self.licence is None else {"licence": self.licence}),
            **({} if self.citation is None else {"citation": self.citation}),
            **({} if self.geography.names is None else {"names": True}),
            **({} if self.geography.geometry is None else {"geometry": True}),
        }
        if self.spine is not None:
            mapping["spine"] = {"from": list(self.geography.geolevels), **self.spine.to_mapping()}
            mapping["entities"] = list(self.entities)
        return mapping

    def digest(self) -> bytes:
        """SHA-256 of the plan's canonical JSON."""
        return digest_of(self.to_mapping())

    def measuring_digest(self) -> bytes:
        """SHA-256 of the plan without the keys that describe outputs. The noise key depends on it."""
        return digest_of({key: value for key, value in self.to_mapping().items() if key not in OUTPUTS})
