"""The file of `tallyveil subspace`: one table with exact invariants. Its typed models, and the plan they describe."""

from fractions import Fraction
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import Field, model_validator

from tallyveil.accounting.events import Neighbours
from tallyveil.accounting.renyi import epsilon_to_rho
from tallyveil.declared import Exact, Name
from tallyveil.errors import ConfigError
from tallyveil.plans.from_toml.load import parse_file
from tallyveil.plans.from_toml.models import ReleaseTable
from tallyveil.plans.from_toml.tables import Table
from tallyveil.products.lattice.public.plan import SubspacePlan, TableInput
from tallyveil.schema.attribute import Attribute
from tallyveil.schema.names import PlainName
from tallyveil.schema.schema import Schema
from tallyveil.storage.addresses import located
from tallyveil.storage.paths import is_same_file
from tallyveil.storage.read import column_names, read_table
from tallyveil.subspace.mechanisms import GeneralisedGaussian, GeneralisedLaplace, LatticeLaw, Norm
from tallyveil.subspace.noise_plan import ChainSettings
from tallyveil.subspace.nonnegative import Outputs
from tallyveil.subspace.table import Margin, WeightedSum, constrain

COLUMNS: Final = frozenset({"count", "noisy", "margin", "draw", "noise"})
"""Columns of the output tables, which no attribute may be named after."""
LARGEST_BOUND: Final = 1 << 20
"""Limit on the largest count that is known of a cell, so that no sum over cells overflows."""


class TableTable(Table):
    """[table]: the confidential counts."""

    path: Name = Field(description="Parquet or CSV file. The path is relative to this TOML file.")
    count: Name | None = Field(
        default=None, description="Column of counts. Without it, each row is one record."
    )
    largest: int | None = Field(
        default=None,
        ge=1,
        le=LARGEST_BOUND,
        description="Largest count that a cell can have, as is known to the public. Outputs other than free keep it.",
    )
    columns: dict[Name, Name] = Field(
        default_factory=dict, description="Column of each attribute whose column has another name."
    )


class CellsTable(Table):
    """[[attributes]]: an attribute and its levels. Each combination of levels is a cell of the table."""

    name: PlainName
    levels: list[Name] | None = Field(default=None, min_length=1)
    path: Name | None = Field(default=None, description="Public table whose column lists the levels.")
    column: Name | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        # Exactly one form: levels without path and column, or path and column without levels.
        if (self.levels is None) == (self.path is None) or (self.path is None) != (self.column is None):
            raise ValueError(
                "give either levels, or the path and the column of a public table that lists them"
            )
        return self


class TermTable(Table):
    """[[constraints]] terms: a set of cells and the coefficient of their counts in a weighted sum."""

    cells: dict[Name, list[Name]]
    times: int | float = Field(default=1, ge=-(2**53), le=2**53)


class SumTable(Table):
    """[[constraints]]: sums that are published exactly."""

    name: PlainName
    margin: list[Name] | None = Field(
        default=None, description="Attributes. There is one sum for each combination of their levels."
    )
    margin_by: Name | None = Field(
        default=None,
        description="A column of the public table that lists the levels of an attribute. There is one sum for each "
        "of its values, over the levels with this value: a State's total, if the attribute is the county.",
    )
    cells: dict[Name, list[Name]] | None = Field(
        default=None, description="One sum, over the cells with these levels."
    )
    terms: list[TermTable] | None = Field(default=None, min_length=1, description="One weighted sum.")
    total: int | None = Field(
        default=None, description="The value of this one sum. It is checked against the table."
    )

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if sum(form is not None for form in (self.margin, self.margin_by, self.cells, self.terms)) != 1:
            raise ValueError("give one of margin, margin_by, cells and terms")
        # A total is one number. A margin of attributes is many sums; the empty margin, one.
        if self.total is not None and (self.margin or self.margin_by):
            raise ValueError(
                "a total can be given only with cells, terms or the empty margin, each of which is a single sum"
            )
        return self


class SubspacePrivacyTable(Table):
    """[privacy]: the declared budget."""

    neighbours: Literal["bounded", "unbounded"] = "bounded"
    epsilon: Exact | None = Field(
        default=None,
        description="Declared budget of Laplace noise. For Gaussian noise, its epsilon at delta.",
    )
    rho: Exact | None = Field(default=None, description="Declared budget of Gaussian noise.")
    delta: Exact = Field(
        default=Fraction(1, 10**10), description="Delta at which the epsilon of Gaussian noise is stated."
    )

    @model_validator(mode="after")
    def _delta_in_range(self) -> Self:
        if not 0 < self.delta < 1:
            raise ValueError(f"delta is {self.delta}, wanted a number between 0 and 1")
        return self


class MechanismTable(Table):
    """[mechanism]: the distribution of the noise."""

    law: Literal["laplace", "gaussian"]
    norm: Literal["l1", "l2"] = "l1"
    epsilon: Exact | None = Field(
        default=None,
        description="Epsilon of Laplace noise for each unit of distance in the norm. For Gaussian noise, epsilon at "
        "[privacy] delta of the tables at the distance: the least variance that gives it is taken.",
    )
    variance: Exact | None = Field(default=None, description="Parameter of Gaussian noise, counts squared.")
    rho: Exact | None = Field(
        default=None, description="Cost of Gaussian noise at the distance, which gives the variance."
    )
    distance: Exact = Field(
        description="Largest distance between two neighbouring tables: in the norm for Laplace noise, the squared l2 "
        "distance for Gaussian noise. If one record changes its cell, the l1 and the squared l2 distance are both 2."
    )
    sampler: Literal["auto", "exact", "chain"] = "auto"
    outputs: Literal["free", "nonnegative", "restricted"] = Field(
        default="free",
        description="free: counts may be negative, and are unbiased. nonnegative: the nearest table without negative "
        "counts, at no cost. restricted: a law on the tables without negative counts, at twice the cost.",
    )

    @model_validator(mode="after")
    def _parameter_of_law(self) -> Self:
        settings = [name for name in ("epsilon", "variance", "rho") if getattr(self, name) is not None]
        if self.law == "laplace" and settings != ["epsilon"]:
            raise ValueError("the laplace law takes epsilon, and neither variance nor rho")
        if len(settings) != 1:
            raise ValueError("the gaussian law takes one of variance, rho and epsilon")
        if self.outputs == "restricted" and self.sampler == "chain":
            raise ValueError("outputs 'restricted' are drawn exactly, and cannot be drawn by a chain")
        return self


class ChainTable(Table):
    """[chain]: settings of the Markov chain that draws the noise where no exact sampler exists."""

    allowed_delta: Exact = Field(
        default=Fraction(1, 10**6), description="The largest amount that the chain may add to delta."
    )
    sweeps: int | None = Field(default=None, ge=1)
    moves: Literal["slices", "jumps"] = Field(
        default="slices",
        description="slices: along the columns of the lattice, without tuning. jumps: Algorithm 1 of the paper, all "
        "columns of a basis at once, with scales from a warm-up without data.",
    )
    lag: int | None = Field(
        default=None, ge=1, description="Lag of the coupled pairs, in sweeps. Without it, one is chosen."
    )
    pairs: int = Field(default=4000, ge=20)
    longest: int = Field(default=20_000, ge=1)
    confidence: Exact = Fraction(999, 1000)
    bound: Literal["measured", "extrapolated"] = "measured"


class SubspaceFile(Table):
    """A whole file of `tallyveil subspace`."""

    release: ReleaseTable
    table: TableTable
    attributes: list[CellsTable] = Field(min_length=1)
    constraints: list[SumTable] = Field(default_factory=list)
    privacy: SubspacePrivacyTable
    mechanism: MechanismTable
    chain: ChainTable = Field(default_factory=ChainTable)

    @model_validator(mode="after")
    def _largest_is_kept(self) -> Self:
        if self.table.largest is not None and self.mechanism.outputs == "free":
            raise ValueError(
                "[table] largest is given, but noise is added to the counts with outputs = 'free', so that they may "
                "be larger. Leave it out, or use outputs 'nonnegative' or 'restricted'"
            )
        return self


def load_subspace_plan(path: Path) -> SubspacePlan:
    """Read the file of `tallyveil subspace` and make its plan.

    Args:
        path: TOML file. Relative paths inside it start from its folder.
    Raises:
        StoreError: the file, or a public table of levels, cannot be read.
        ConfigError: the file is not TOML, or has unknown keys or wrong values (all shown at once).
        ConstraintError: a constraint names an unknown attribute or level, a coefficient is not an integer, or stated
            totals contradict each other.
        BudgetError: a parameter is out of range, or the mechanism costs more than the declared budget.
    """
    file, folder = parse_file(path, SubspaceFile), path.parent
    names = [item.name for item in file.constraints]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(
            f"[[constraints]] gives the name {', '.join(map(repr, twice))} twice. Give each a name of its own.",
            code="stated-twice",
        )
    _refuse_columns(file.attributes)
    # Before the tables of levels are read: their content is published.
    _refuse_records(file, folder)
    schema = Schema(
        name=file.release.name, attributes=tuple(_attribute(item, folder) for item in file.attributes)
    )
    unknown = sorted(set(file.table.columns) - set(schema.attribute_names))
    if unknown:
        raise ConfigError(
            f"[table] columns names {', '.join(unknown)}, which is not an attribute of the table. Its attributes "
            f"are: {', '.join(schema.attribute_names)}.",
            code="unknown-attribute",
        )
    # A column has the name of its attribute unless the file says another.
    columns = tuple((name, file.table.columns.get(name, name)) for name in schema.attribute_names)
    return SubspacePlan(
        name=file.release.name,
        schema=schema,
        table=TableInput(located(folder, file.table.path), file.table.count, columns),
        constraints=constrain(
            schema,
            [wanted for item in file.constraints for wanted in _constraints(item, file.attributes, folder)],
        ),
        law=_law(file.mechanism, file.privacy.delta),
        distance=_distance(file.mechanism),
        neighbours=Neighbours(file.privacy.neighbours),
        declared=_declared(file.privacy, file.mechanism),
        delta=file.privacy.delta,
        wish=file.mechanism.sampler,
        chain=ChainSettings(
            allowed_delta=file.chain.allowed_delta,
            sweeps=file.chain.sweeps,
            moves=file.chain.moves,
            lag=file.chain.lag,
            pairs=file.chain.pairs,
            longest=file.chain.longest,
            confidence=file.chain.confidence,
            extrapolate=file.chain.bound == "extrapolated",
        ),
        outputs=Outputs(file.mechanism.outputs),
        largest=file.table.largest,
    )


def _refuse_columns(attributes: list[CellsTable]) -> None:
    """Refuse attributes with the name of a column that the output tables have."""
    reserved = [item.name for item in attributes if item.name.casefold() in COLUMNS]
    if reserved:
        raise ConfigError(
            f"[[attributes]] names {', '.join(reserved)}, which is reserved for a column of the files that are "
            "written. Rename it.",
            code="bad-name",
        )


def _refuse_records(file: SubspaceFile, folder: Path) -> None:
    """Refuse the confidential table as the list of the levels, which is published."""
    for item in file.attributes:
        if item.path is not None and is_same_file(
            located(folder, item.path), located(folder, file.table.path)
        ):
            raise ConfigError(
                f"[[attributes]] '{item.name}' names {item.path}, the confidential table. The table of levels must be "
                "public: what it lists is published. Name another file, or write the levels out.",
                code="records-not-public",
            )


def _attribute(item: CellsTable, folder: Path) -> Attribute:
    if item.levels is not None:
        return Attribute(item.name, tuple(item.levels))
    column = item.column or ""
    listed = read_table(located(folder, item.path or ""), [column], f"levels of '{item.name}'")[column]
    if listed.null_count():
        raise ConfigError(
            f"{item.path}, which lists the levels of '{item.name}', has {listed.null_count()} row(s) without a level "
            f"in column '{column}'. Remove these rows, or give the level a name.",
            code="bad-name",
        )
    return Attribute(item.name, tuple(str(level) for level in listed.to_list()))


def _constraints(item: SumTable, attributes: list[CellsTable], folder: Path) -> list[Margin | WeightedSum]:
    if item.margin:
        return [Margin(item.name, tuple(item.margin))]
    if item.margin_by:
        return [
            WeightedSum(f"{item.name}: {group}", ((cells, 1.0),))
            for group, cells in _groups(item.name, item.margin_by, attributes, folder).items()
        ]
    terms = item.terms or [TermTable(cells=item.cells or {})]
    cells = [tuple((name, tuple(levels)) for name, levels in term.cells.items()) for term in terms]
    pairs = tuple((term_cells, float(term.times)) for term_cells, term in zip(cells, terms, strict=True))
    return [WeightedSum(item.name, pairs, item.total)]


def _groups(
    name: str, column: str, attributes: list[CellsTable], folder: Path
) -> dict[str, tuple[tuple[str, tuple[str, ...]], ...]]:
    """For each value of a column of an attribute's public table, the levels with this value."""
    sources = []
    for item in attributes:
        path = located(folder, item.path or "")
        # The column may be in the table of one attribute only, or the sum would be ambiguous.
        if item.column and column in column_names(path, f"levels of '{item.name}'"):
            sources.append((item.name, item.column, path))
    if len(sources) != 1:
        raise ConfigError(
            f"constraint '{name}' has margin_by = '{column}', which is a column of {len(sources)} of the public tables "
            "that list the levels of attributes; wanted 1. Name a column of one of these tables, or rename it in the "
            "others.",
            code="subspace-margin-by",
        )
    attribute, levels, path = sources[0]
    frame = read_table(path, [levels, column], f"levels of '{attribute}'")
    if frame[column].null_count():
        raise ConfigError(
            f"column '{column}' of {path} has no value for some levels of '{attribute}', so constraint '{name}' cannot "
            "tell which sum they belong to. Give every level a value.",
            code="subspace-margin-by",
        )
    groups: dict[str, list[str]] = {}
    for level, group in frame.select(levels, column).iter_rows():
        # In the order of the file, which is the order of the sums in all outputs.
        groups.setdefault(str(group), []).append(str(level))
    return {group: ((attribute, tuple(members)),) for group, members in groups.items()}


def _law(table: MechanismTable, delta: Fraction) -> LatticeLaw:
    if table.law == "gaussian":
        if table.variance is not None:
            return GeneralisedGaussian(table.variance)
        # rho = distance / (2 variance), solved for the variance. 0 is refused by the law itself.
        rho = epsilon_to_rho(table.epsilon, delta) if table.epsilon is not None else table.rho
        return GeneralisedGaussian(_distance(table) / (2 * rho) if rho else Fraction(0))
    return GeneralisedLaplace(Norm(table.norm), table.epsilon or Fraction(0))


def _distance(table: MechanismTable) -> Fraction:
    if table.distance < 1 or (table.law == "gaussian" and table.distance.denominator != 1):
        raise ConfigError(
            f"[mechanism] distance is {table.distance}; wanted 1 or more, and for Gaussian noise an integer (it is "
            "the squared l2 distance). Changing the cell of one record moves the table by 2 in the l1 distance and "
            "by 2 in the squared l2 distance.",
            code="subspace-distance",
        )
    return table.distance


def _declared(privacy: SubspacePrivacyTable, mechanism: MechanismTable) -> Fraction:
    gaussian = mechanism.law == "gaussian"
    # A rho that gives this epsilon at delta, nearly the largest: Gaussian noise is accounted for in rho.
    if gaussian and privacy.epsilon is not None and privacy.rho is None:
        return epsilon_to_rho(privacy.epsilon, privacy.delta)
    declared, other = (privacy.rho, privacy.epsilon) if gaussian else (privacy.epsilon, privacy.rho)
    if declared is None or other is not None:
        wanted = "rho, or epsilon at delta," if gaussian else "epsilon"
        raise ConfigError(
            f"[privacy] must declare {wanted} and no other budget, for {mechanism.law} noise.",
            code="wrong-unit",
        )
    return declared
