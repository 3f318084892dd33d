"""The tables of a release file. What a plan states of them is declared with the plan; the rest is declared here."""

from fractions import Fraction
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from tallyveil.budget.outer_pass import OuterPass
from tallyveil.declared import Exact, Name
from tallyveil.estimation.problem import RoundingTarget
from tallyveil.plans.constraints import Agreement, BoundsInput, Invariant, Residents
from tallyveil.plans.estimating import MeasurementFiles, Method, Values
from tallyveil.plans.from_toml.spine_tables import SpineTable
from tallyveil.plans.from_toml.tables import Table
from tallyveil.plans.inputs import GeographyInput, RecordsInput
from tallyveil.runs.executor import WANTED_ADDRESS, is_address
from tallyveil.schema.counts import LARGEST_COUNT
from tallyveil.schema.labels import LabelsByLanguage
from tallyveil.schema.names import PlainName
from tallyveil.schema.schema import SchemaTable
from tallyveil.storage.addresses import InputPath

EVERY_GEOLEVEL = "*"


class ReleaseTable(Table):
    """[release]: the name of the release."""

    name: PlainName = Field(description="Name of the release, shown in every output.")
    licence: Name | None = Field(
        default=None,
        description='Licence of the published files, for datapackage.json: a name such as "CC-BY-4.0", or an address.',
    )
    citation: Name | None = Field(default=None, description="How to cite the release, for datapackage.json.")


class PrivacyTable(Table):
    """[privacy]: the declared budget, and what it protects."""

    neighbours: Literal["bounded", "unbounded"] = Field(
        description="bounded: one record changes its value; unbounded: one record is added or removed."
    )
    mechanism: Literal["discrete_gaussian", "discrete_laplace"] = Field(description="Law of the noise.")
    rho: Exact | None = Field(default=None, description="Declared budget of the discrete Gaussian (zCDP).")
    epsilon: Exact | None = Field(
        default=None,
        description="Declared budget of the discrete Laplace. For the discrete Gaussian, a declared epsilon at delta.",
    )
    delta: Exact = Field(
        default=Fraction(1, 10**10),
        description="Delta at which epsilon is declared or reported for the discrete Gaussian.",
    )

    @model_validator(mode="after")
    def _budget_of_mechanism(self) -> Self:
        if (self.rho is None) == (self.epsilon is None):
            raise ValueError("declare either rho or epsilon, and not both")
        if self.rho is not None and self.mechanism == "discrete_laplace":
            raise ValueError(
                "the discrete_laplace mechanism has its budget in epsilon: give epsilon, and no rho"
            )
        if not 0 < self.delta < 1:
            raise ValueError(f"delta is {self.delta}, wanted a number between 0 and 1")
        return self


class StrategyTable(Table):
    """[strategy]: how the budget is divided, by a preset or by shares of your own."""

    preset: Name | None = Field(
        default=None,
        description='"redistricting-us", "redistricting-us-from-state" or "redistricting-state-rooted" '
        "(schema pl94-persons); "
        '"redistricting-units-us" or "redistricting-units-state-rooted" (schema pl94-units).',
    )
    rho: Exact | None = Field(default=None, description="What the discrete Gaussian strategy spends.")
    epsilon: Exact | None = Field(
        default=None,
        description="What the discrete Laplace strategy spends. For the discrete Gaussian, a target at delta: the "
        "exact accountant finds the largest rho that meets it.",
    )
    delta: Exact | None = Field(
        default=None, description="Delta of a discrete Gaussian target. Default: the delta of [privacy]."
    )
    geolevels: dict[Name, Exact] = Field(
        default_factory=dict, description="Share of each geolevel. The shares sum to 1."
    )
    queries: dict[Name, dict[Name, Exact]] = Field(
        default_factory=dict,
        description="Shares of the queries at each geolevel. At each geolevel they sum to 1. The entry "
        '"*" applies to every geolevel that has no entry.',
    )

    @model_validator(mode="after")
    def _preset_or_own(self) -> Self:
        if self.preset is not None and (self.geolevels or self.queries):
            raise ValueError(
                "a preset has shares of its own; remove geolevels and queries, or remove the preset"
            )
        if self.preset is None and not (self.geolevels and self.queries):
            raise ValueError("give a preset, or the shares of geolevels and of queries")
        if self.rho is not None and self.epsilon is not None:
            raise ValueError("spend either rho, or epsilon at delta, and not both")
        if self.delta is not None and (self.epsilon is None or not 0 < self.delta < 1):
            raise ValueError("delta is given together with epsilon, and lies between 0 and 1")
        return self


class EstimationTable(Table):
    """[estimation]: ordered passes and rounding stages. The keys are geolevels, or "*" for all other geolevels."""

    passes: dict[Name, list[list[Name]]] = Field(
        default_factory=dict,
        description="Queries of each least-squares pass of a geolevel. Later passes keep the answers of earlier ones.",
    )
    slack: Exact | None = Field(
        default=None, description="Records by which later passes may move an earlier answer."
    )
    rounding: dict[Name, Annotated[list[list[Name]], Field(min_length=1)]] = Field(
        default_factory=dict,
        description="Queries of each rounding stage of a geolevel. Later stages keep the answers of earlier ones.",
    )
    rounding_target: RoundingTarget | None = Field(
        default=None,
        description="The values that rounding approximates: the estimates (fraction), or the estimates rounded to "
        "the nearest integers (nearest, as in 2020). Default: the target of the strategy's preset, else fraction.",
    )

    values: Values | None = Field(
        default=None,
        description="What families above the finest geolevel are fitted to: the noisy answers of each geounit (own), "
        "or its best linear unbiased estimates from everything measured in or below it (tree). Default: own where "
        "counts are drawn on a lattice, else what the strategy's preset says, else tree.",
    )

    blocks: Method | None = Field(
        default=None,
        description="How the finest geolevel is estimated: like all others (families), or by a model of its geounits "
        "that is learned from the measurements (allocation). Default: families.",
    )

    outer: list[OuterPass] = Field(
        default_factory=list,
        description="Passes over the whole spine, for schemas of very many cells. Each keeps earlier counts.",
    )

    @model_validator(mode="after")
    def _within_counts(self) -> Self:
        if self.slack is not None and not 0 <= self.slack <= LARGEST_COUNT:
            raise ValueError(f"slack must be a number of records from 0 to {LARGEST_COUNT:,}")
        return self


class EstimationFile(Table):
    """The file of `tallyveil estimate --estimation`: the table of a release file by itself."""

    estimation: EstimationTable


class SubspaceTable(Table):
    """[[subspace]]: a query whose counts get noise that keeps the invariants exact. Estimation keeps these counts."""

    query: Name = Field(description="The query. Each record counts in at most one of its answers.")
    geolevel: Name = Field(description="Geolevel at which the counts are drawn.")
    mechanism: Literal["integer-subspace"] = Field(
        default="integer-subspace", description="The mechanism; there is only one."
    )
    rho: Exact | None = Field(default=None, description="Cost of lattice Gaussian noise.")
    epsilon: Exact | None = Field(default=None, description="Cost of l1 generalised Laplace noise.")


class OutputsTable(Table):
    """[outputs]: what the release publishes."""

    tables: list[Name] = Field(
        default_factory=lambda: ["total", "detailed"],
        description='Queries to publish for every geounit. Default: "total" and "detailed".',
    )
    entities: list[Name] = Field(
        default_factory=list,
        description="Families of [spine]. The tables are also published for the entities of these families.",
    )
    measurements: MeasurementFiles = Field(
        default="full",
        description="Noisy answers to write. full: all. small: all of every query with at most 8,192 answers, and of "
        "larger ones at geolevels where they are at most 134,217,728 numbers. support: only those on the support of "
        "the parent's published counts. none: no noisy answer.",
    )
    microdata: bool = Field(default=True, description="Write microdata: one row for each published record.")
    intervals: Exact | None = Field(
        default=None,
        description="Coverage (such as 0.95) of the interval that is put beside every published count when the "
        "release is finished. Default: no intervals. Needs measurements full or small, and discrete Gaussian noise.",
    )


class ExecutionTable(Table):
    """[execution]: where the work is done. No count depends on it."""

    executor: Literal["threads", "ray"] = Field(
        default="threads",
        description="threads: threads of this machine. ray: worker processes of a Ray cluster. Needs the extra "
        "`cluster`, and a release folder in a file system that every machine shares.",
    )
    address: Name | None = Field(
        default=None,
        description='Address of the cluster\'s head, such as "10.0.0.1:6379". Default: a cluster of this machine '
        "alone, which ends with the run.",
    )
    open_cluster: bool = Field(
        default=False,
        description="Whether a cluster may be used that demands no token. Everybody who reaches its ports can then "
        "read what its worker processes hold: the noise key and true counts.",
    )

    @field_validator("address")
    @classmethod
    def _names_a_port(cls, address: str | None) -> str | None:
        if address is not None and not is_address(address):
            raise ValueError(f"wanted {WANTED_ADDRESS}")
        return address

    @model_validator(mode="after")
    def _of_a_cluster(self) -> Self:
        if self.executor == "threads" and (self.address is not None or self.open_cluster):
            raise ValueError('address and open_cluster belong to executor = "ray"')
        return self


class BookTable(Table):
    """[book]: the book of the register, which says what all releases from its records may cost together."""

    path: InputPath = Field(
        description="The book that `tallyveil book create` made. The run enters what it spends, and is refused where "
        "too little is left."
    )


class ReleaseFile(Table):
    """A whole release file."""

    release: ReleaseTable
    records: RecordsInput
    geography: GeographyInput
    spine: SpineTable | None = None
    universe: SchemaTable = Field(alias="schema")
    privacy: PrivacyTable
    strategy: StrategyTable
    estimation: EstimationTable = Field(default_factory=EstimationTable)
    invariants: list[Invariant] = Field(default_factory=list)
    bounds: list[BoundsInput] = Field(default_factory=list)
    agreement: list[Agreement] = Field(default_factory=list)
    residents: list[Residents] = Field(default_factory=list)
    subspace: list[SubspaceTable] = Field(default_factory=list)
    outputs: OutputsTable = Field(default_factory=OutputsTable)
    execution: ExecutionTable = Field(default_factory=ExecutionTable)
    book: BookTable | None = None
    labels: LabelsByLanguage = Field(
        default=(),
        description="What the release and its parts are called, in a table for each language. The pages of the release "
        "are then in these languages, the first of them without a choice.",
    )
