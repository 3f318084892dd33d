"""The release file as typed tables: every key there is, and nothing else."""

from fractions import Fraction
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tallyveil.config.spine_tables import SpineTable
from tallyveil.config.tables import Exact, Name, PlainName, Table
from tallyveil.estimation.problem import RoundingTarget
from tallyveil.universe.limits import LARGEST_COUNT

EVERY_GEOLEVEL = "*"


class ReleaseTable(Table):
    """[release]"""

    name: PlainName = Field(description="Name of the release, shown in every output.")


class RecordsTable(Table):
    """[records]: the confidential table."""

    path: Name = Field(description="Parquet or CSV file, relative to the release file.")
    geocode: Name = Field(default="geocode", description="Column of the finest geocode (text).")
    count: Name | None = Field(default=None, description="Column of counts; without it, one row a record.")
    columns: dict[str, Name] = Field(
        default_factory=dict, description="Column of an attribute, where it is not the attribute's name."
    )


class GeographyTable(Table):
    """[geography]: the public table of all finest geounits."""

    path: Name = Field(description="Parquet or CSV file with one row a finest geounit, also the empty ones.")
    geocode: Name = Field(default="geocode", description="Column of the finest geocode (text).")
    geolevels: list[PlainName] = Field(min_length=1, description="Names of the geolevels, root first.")
    prefix_lengths: list[Annotated[int, Field(ge=0, le=1000)]] | None = Field(
        default=None, description="Characters of the geocode's prefix at each geolevel."
    )
    parent_columns: list[Name] | None = Field(
        default=None, description="Column of the geocode at each geolevel but the finest."
    )

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if (self.prefix_lengths is None) == (self.parent_columns is None):
            raise ValueError("give either prefix_lengths or parent_columns, and not both")
        given = self.prefix_lengths if self.prefix_lengths is not None else self.parent_columns
        wanted = len(self.geolevels) - (self.prefix_lengths is None)
        if given is not None and len(given) != wanted:
            key = "prefix_lengths" if self.prefix_lengths is not None else "parent_columns"
            raise ValueError(
                f"{key} has {len(given)} entries, wanted {wanted} for {len(self.geolevels)} geolevels"
            )
        return self


class AttributeTable(Table):
    """[[schema.attributes]]"""

    name: PlainName
    levels: list[Name] = Field(min_length=1)


class RecodeTable(Table):
    """[[schema.recodes]]"""

    name: PlainName
    attribute: Name
    groups: dict[Name, list[Name]] = Field(min_length=1)


class StructuralZeroTable(Table):
    """[[schema.structural_zeros]]"""

    name: PlainName
    cells: dict[Name, list[Name]] = Field(min_length=1)


class SchemaTable(Table):
    """[schema]: a preset, or attributes of your own."""

    preset: Name | None = Field(default=None, description='"pl94-persons", "pl94-units" or "race-age".')
    name: PlainName | None = None
    unit: Name | None = Field(default=None, description='What a record stands for; "person" without it.')
    units: Name | None = Field(default=None, description='Plural of unit; without it, unit with an "s".')
    attributes: list[AttributeTable] = Field(default_factory=list)
    recodes: list[RecodeTable] = Field(default_factory=list)
    structural_zeros: list[StructuralZeroTable] = Field(default_factory=list)

    @model_validator(mode="after")
    def _preset_or_own(self) -> Self:
        own = self.name is not None and bool(self.attributes)
        anything = self.name or self.unit or self.attributes or self.recodes or self.structural_zeros
        if self.preset is None and not own:
            raise ValueError("give a preset, or a name and attributes of your own")
        if self.preset is not None and anything:
            raise ValueError("a preset stands alone; to change it, write out name, attributes and recodes")
        if self.units is not None and self.unit is None:
            raise ValueError("units is the plural of unit: give unit, too")
        return self


class PrivacyTable(Table):
    """[privacy]: what may be spent, and what it means."""

    neighbours: Literal["bounded", "unbounded"] = Field(
        description="bounded: one record changes its value; unbounded: one record is added or removed."
    )
    mechanism: Literal["discrete_gaussian", "discrete_laplace"]
    rho: Exact | None = Field(default=None, description="Declared budget of the discrete Gaussian (zCDP).")
    epsilon: Exact | None = Field(default=None, description="Declared budget of the discrete Laplace.")
    delta: Exact = Field(
        default=Fraction(1, 10**10),
        description="Delta at which epsilon is reported for the discrete Gaussian.",
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
    """[strategy]: how the budget is divided; a preset, or shares of your own."""

    preset: Name | None = Field(
        default=None,
        description='"redistricting-us", "redistricting-us-from-state" or "redistricting-state-rooted" '
        "(schema pl94-persons); "
        '"redistricting-units-us" or "redistricting-units-state-rooted" (schema pl94-units).',
    )
    rho: Exact | None = Field(default=None, description="What the discrete Gaussian strategy spends.")
    epsilon: Exact | None = Field(
        default=None,
        description="What the discrete Laplace strategy spends; for the discrete Gaussian a target at delta, for "
        "which the largest rho is found by the exact accountant.",
    )
    delta: Exact | None = Field(
        default=None, description="Delta of a discrete Gaussian target; without it, that of [privacy]."
    )
    geolevels: dict[str, Exact] = Field(
        default_factory=dict, description="Share of each geolevel; they sum to 1."
    )
    queries: dict[str, dict[str, Exact]] = Field(
        default_factory=dict,
        description='Shares of the queries at each geolevel, summing to 1; "*" for geolevels without their own.',
    )

    @model_validator(mode="after")
    def _preset_or_own(self) -> Self:
        if self.preset is not None and (self.geolevels or self.queries):
            raise ValueError("a preset brings its own shares; remove geolevels and queries, or the preset")
        if self.preset is None and not (self.geolevels and self.queries):
            raise ValueError("give a preset, or the shares of geolevels and of queries")
        if self.rho is not None and self.epsilon is not None:
            raise ValueError("spend either rho, or epsilon at delta, and not both")
        if self.delta is not None and (self.epsilon is None or not 0 < self.delta < 1):
            raise ValueError("delta goes with epsilon, and lies between 0 and 1")
        return self


class EstimationTable(Table):
    """[estimation]: ordered passes and rounding stages; keys are geolevels, or "*" for the others."""

    passes: dict[str, list[list[Name]]] = Field(default_factory=dict)
    slack: Exact | None = Field(default=None, description="Records an earlier pass's answers may still move.")
    rounding: dict[str, Annotated[list[list[Name]], Field(min_length=1)]] = Field(default_factory=dict)
    rounding_target: RoundingTarget | None = Field(
        default=None,
        description="What rounding comes near to: the estimates (fraction), or the estimates rounded to nearest "
        "(nearest, as in 2020). Without it, that of the strategy's preset, or fraction.",
    )

    @model_validator(mode="after")
    def _within_counts(self) -> Self:
        if self.slack is not None and not 0 <= self.slack <= LARGEST_COUNT:
            raise ValueError(f"slack is a number of records from 0 to {LARGEST_COUNT:,}")
        return self


class EstimationFile(Table):
    """The file of `tallyveil estimate --estimation`: the table of a release file by itself."""

    estimation: EstimationTable


class InvariantTable(Table):
    """[[invariants]]: a query published exactly."""

    query: Name
    geolevels: list[Name] = Field(min_length=1)


class BoundsTable(Table):
    """[[bounds]]: public lower and upper bounds from a table."""

    name: PlainName
    query: Name
    geolevel: Name
    path: Name = Field(
        description="Columns geocode, one a factor of the query, lower, upper (null: unbounded)."
    )
    missing: Literal["zero", "unbounded"] = Field(description="Upper bound of an answer that has no row.")


class SubspaceTable(Table):
    """[[subspace]]: counts drawn with noise that leaves the invariants alone, and fixed from there on."""

    query: Name
    geolevel: Name
    mechanism: Literal["integer-subspace"] = "integer-subspace"
    rho: Exact | None = Field(default=None, description="Cost of lattice Gaussian noise.")
    epsilon: Exact | None = Field(default=None, description="Cost of l1 generalised Laplace noise.")


class OutputsTable(Table):
    """[outputs]"""

    tables: list[Name] = Field(default_factory=lambda: ["total", "detailed"])
    entities: list[Name] = Field(
        default_factory=list,
        description="Families of [spine] for whose entities the tables are published, too.",
    )
    measurements: Literal["full", "support", "none"] = Field(
        default="full",
        description="Noisy answers to write: all; those on the support of each parent's published counts, which "
        "the estimate used; or none.",
    )
    microdata: bool = Field(default=True, description="Write one row a record.")
    intervals: Exact | None = Field(
        default=None,
        description="Coverage (such as 0.95) of an interval put beside every published count once the release is "
        "finished; without it, none. Needs every measurement and discrete Gaussian noise.",
    )


class ReleaseFile(Table):
    """A whole release file."""

    release: ReleaseTable
    records: RecordsTable
    geography: GeographyTable
    spine: SpineTable | None = None
    universe: SchemaTable = Field(alias="schema")
    privacy: PrivacyTable
    strategy: StrategyTable
    estimation: EstimationTable = Field(default_factory=EstimationTable)
    invariants: list[InvariantTable] = Field(default_factory=list)
    bounds: list[BoundsTable] = Field(default_factory=list)
    subspace: list[SubspaceTable] = Field(default_factory=list)
    outputs: OutputsTable = Field(default_factory=OutputsTable)
