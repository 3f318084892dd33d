"""The file of population groups in records of any kind, for `tallyveil safetab run`, and the plan it describes."""

from fractions import Fraction
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tallyveil.budget.strategy import Mechanism
from tallyveil.config.load import parse_file
from tallyveil.config.models import AttributeTable, RecodeTable, ReleaseTable
from tallyveil.config.schema import recode_of
from tallyveil.config.tables import Exact, Name, PlainName, Table
from tallyveil.errors import ConfigError
from tallyveil.safetab.group_numbers import QUALITY_COLUMNS
from tallyveil.safetab.group_plan import GroupPlan, MappedLevel, ladder_of
from tallyveil.safetab.groupings import Grouping, Match, grouping_from_rows, list_groups
from tallyveil.safetab.levels import Ladder, level_laws
from tallyveil.storage.read import collect, require_levels, scan_table
from tallyveil.universe.attribute import Attribute
from tallyveil.universe.names import check_apart
from tallyveil.universe.schema import Schema
from tallyveil.universe.unit import unit_of

MOST_LEVELS = 256
"""Largest number of levels: the noise's addresses have room for so many."""

Threshold = Annotated[int, Field(ge=-(2**60), le=2**60)]
TAKEN = frozenset(name.casefold() for name in ("COUNT", *QUALITY_COLUMNS, "DETAIL", "CELL"))


class CellsTable(Table):
    """[cells]: what a record shows beside its groups, and in which details groups are tabulated by it."""

    unit: Name | None = Field(default=None, description="What one record is, in the singular.")
    units: Name | None = Field(default=None, description="Plural of unit.")
    columns: dict[str, Name] = Field(
        default_factory=dict, description="Column of each attribute whose column has another name."
    )
    details: list[Name] = Field(
        min_length=1, description="Queries from coarse to fine. Below the first one is the total alone."
    )
    attributes: list[AttributeTable] = Field(min_length=1)
    recodes: list[RecodeTable] = Field(default_factory=list)


class GroupsPrivacyTable(Table):
    """[privacy]: the noise and the declared budget. Neighbours differ by one record more or less."""

    mechanism: Literal["discrete_gaussian", "discrete_laplace"]
    rho: Exact | None = Field(default=None, description="Declared budget of the discrete Gaussian.")
    epsilon: Exact | None = Field(default=None, description="Declared budget of the discrete Laplace.")
    delta: Exact = Field(default=Fraction(1, 10**10), description="Delta at which epsilon is stated.")
    stage_1_fraction: Exact = Field(description="Share of a group's budget that chooses its detail.")

    @model_validator(mode="after")
    def _in_range(self) -> Self:
        wanted, other = ("rho", "epsilon") if self.mechanism == "discrete_gaussian" else ("epsilon", "rho")
        if getattr(self, wanted) is None or getattr(self, other) is not None:
            raise ValueError(
                f"the {self.mechanism} mechanism has its budget in {wanted}: give {wanted} alone"
            )
        for name in ("delta", "stage_1_fraction"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, wanted a number between 0 and 1")
        return self


class GroupingTable(Table):
    """[[groupings]]: a map from the values of some columns to groups."""

    name: PlainName
    columns: list[Name] = Field(
        min_length=1, description="Columns of the records. Empty values are passed over."
    )
    match: Match = Field(
        default="any", description="any: groups of any of the values; all: groups that all values share."
    )
    groups: list[Name] | None = Field(default=None, description="The values, each a group of its own.")
    path: Name | None = Field(default=None, description="Public table of values and their groups.")
    value: Name | None = Field(default=None, description="Its column of values.")
    group: Name | None = Field(
        default=None, description="Its column of groups. A value without one is in no group."
    )

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        table = [self.path, self.value, self.group]
        if (self.groups is None) == (self.path is None) or any(
            (one is None) != (self.path is None) for one in table
        ):
            raise ValueError(
                "give either groups, or the path of a public table and its columns value and group"
            )
        if len(set(self.columns)) < len(self.columns):
            raise ValueError("a column is named twice")
        return self


class LevelTable(Table):
    """[[levels]]: the groups of one level, their budget, and the counts that choose their detail."""

    name: PlainName
    by: list[Name] = Field(
        description="Groupings whose combinations are the groups; [] for all records as one."
    )
    most_groups: int = Field(ge=1, description="Largest number of the groups that a record may be in.")
    budget: Exact = Field(description="Budget of all groups of the level together.")
    thresholds: list[Threshold] = Field(description="Noisy totals from which a group has each detail.")
    total_only: bool | dict[Name, list[Name]] = Field(
        default=False, description="true, or the labels of groups that have no detail, by grouping."
    )

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if self.budget <= 0:
            raise ValueError(f"budget is {self.budget}, wanted a number above 0")
        if sorted(self.thresholds) != self.thresholds:
            raise ValueError("thresholds must not decrease")
        if len(set(self.by)) < len(self.by):
            raise ValueError("by names a grouping twice")
        return self


class GroupsFile(Table):
    """A whole file."""

    release: ReleaseTable
    privacy: GroupsPrivacyTable
    cells: CellsTable
    groupings: list[GroupingTable] = Field(default_factory=list)
    levels: list[LevelTable] = Field(min_length=1, max_length=MOST_LEVELS)


def load_group_plan(path: Path) -> GroupPlan:
    """Read a file of population groups and make its plan.

    Args:
        path: TOML file. Relative paths inside it start from its folder.
    Raises:
        StoreError: the file, or a public table of groups, cannot be read.
        ConfigError: the file is not TOML, has unknown keys or wrong values (all shown at once), or its parts do not
            fit each other.
        SchemaError: a name is refused, or a level is too large.
        BudgetError: the levels cost more than is declared, or noise is out of range.
    """
    file = parse_file(path, GroupsFile)
    schema = _schema(file.release.name, file.cells)
    groupings = {item.name: _grouping(item, path.parent) for item in file.groupings}
    _check_names(file, schema)
    ladder = ladder_of(schema, tuple(file.cells.details))
    return GroupPlan(
        name=file.release.name,
        schema=schema,
        columns=tuple((name, file.cells.columns.get(name, name)) for name in schema.attribute_names),
        groupings=tuple(groupings.values()),
        levels=tuple(
            _level(number, item, groupings, ladder, file.privacy) for number, item in enumerate(file.levels)
        ),
        mechanism=Mechanism(file.privacy.mechanism),
        stage_1_fraction=file.privacy.stage_1_fraction,
        declared=file.privacy.rho if file.privacy.rho is not None else file.privacy.epsilon or Fraction(0),
        delta=file.privacy.delta,
    )


def _schema(name: str, table: CellsTable) -> Schema:
    return Schema(
        name=name,
        attributes=tuple(Attribute(item.name, tuple(item.levels)) for item in table.attributes),
        recodes=tuple(map(recode_of, table.recodes)),
        unit=unit_of(table.unit, table.units),
    )


def _check_names(file: GroupsFile, schema: Schema) -> None:
    """Refuse names that are given twice, that differ only in case, or that the published tables use themselves."""
    for what, names in (
        ("groupings", [g.name for g in file.groupings]),
        ("levels", [x.name for x in file.levels]),
    ):
        check_apart(names, f"[[{what}]]")
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ConfigError(
                f"[[{what}]] names {', '.join(twice)} twice. Give each a name of its own.", code="groups-file"
            )
    if taken := [g.name for g in file.groupings if g.name.casefold() in TAKEN]:
        raise ConfigError(
            f"[[groupings]] names {', '.join(taken)}, which is a column of the published tables. Rename it.",
            code="bad-name",
        )
    if unknown := sorted(set(file.cells.columns) - set(schema.attribute_names)):
        raise ConfigError(
            f"[cells] columns names {', '.join(unknown)}, which is not an attribute. The attributes are: "
            f"{', '.join(schema.attribute_names)}.",
            code="unknown-attribute",
        )


def _grouping(item: GroupingTable, folder: Path) -> Grouping:
    if item.groups is not None:
        rows: list[tuple[str, str | None]] = [(value, value) for value in item.groups]
        if len(set(item.groups)) < len(item.groups):
            raise ConfigError(
                f"grouping '{item.name}' lists a group twice. List each once.", code="groups-file"
            )
        return grouping_from_rows(item.name, item.columns, item.match, rows)
    value, group = item.value or "", item.group or ""
    path, what = folder / (item.path or ""), f"groups of '{item.name}'"
    scan = scan_table(path, [value, group], what)
    require_levels(scan, [value, group], path, what)
    table = collect(scan, path, what)
    if table[value].null_count():
        raise ConfigError(
            f"{item.path}, which lists the groups of '{item.name}', has {table[value].null_count()} row(s) without a "
            f"value in column '{value}'. Remove these rows.",
            code="groups-file",
        )
    pairs = zip(table[value].to_list(), table[group].to_list(), strict=True)
    return grouping_from_rows(
        item.name, item.columns, item.match, [(str(v), None if g is None else str(g)) for v, g in pairs]
    )


def _level(
    number: int, item: LevelTable, groupings: dict[str, Grouping], ladder: Ladder, privacy: GroupsPrivacyTable
) -> MappedLevel:
    if unknown := sorted(set(item.by) - set(groupings)):
        raise ConfigError(
            f"level '{item.name}' is by {', '.join(unknown)}, which no [[groupings]] defines. Those defined are: "
            f"{', '.join(groupings) or '(none)'}.",
            code="groups-file",
        )
    if len(item.thresholds) != len(ladder.tables):
        raise ConfigError(
            f"level '{item.name}' has {len(item.thresholds)} threshold(s), wanted {len(ladder.tables)}: one for each "
            "of the details of [cells].",
            code="groups-file",
        )
    groups = list_groups(item.name, [groupings[name] for name in item.by], item.total_only)
    if item.most_groups > groups.most:
        raise ConfigError(
            f"level '{item.name}' has most_groups = {item.most_groups}, but no record can be in more than "
            f"{groups.most} of its groups. A larger number only adds noise. Lower it.",
            code="groups-file",
        )
    mechanism = Mechanism(privacy.mechanism)
    laws = level_laws(
        mechanism, item.budget, item.most_groups, privacy.stage_1_fraction, f"level '{item.name}'"
    )
    return MappedLevel(
        item.name,
        number,
        0,
        groups.n_groups,
        groups.n_adaptive,
        ladder,
        item.budget,
        tuple(item.thresholds),
        *laws,
        None,
        groups,
        item.most_groups,
    )
