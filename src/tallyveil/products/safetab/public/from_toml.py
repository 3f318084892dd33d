"""The TOML file of population groups in records of any kind, for `tallyveil safetab`, and the plan in it."""

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tallyveil.budget.strategy import Mechanism
from tallyveil.declared import Exact, Name
from tallyveil.errors import ConfigError, TallyveilError
from tallyveil.plans.from_toml.load import parse_file
from tallyveil.plans.from_toml.models import ReleaseTable
from tallyveil.plans.from_toml.tables import Table
from tallyveil.products.safetab.public.addresses import FIRST_TABLE
from tallyveil.products.safetab.public.files import made_or_noted, raise_all
from tallyveil.products.safetab.public.group_numbers import QUALITY_COLUMNS
from tallyveil.products.safetab.public.group_plan import (
    MOST_LEVELS,
    QUERIES_APART,
    GroupPlan,
    LevelNoise,
    MappedLevel,
    ladder_of,
    mapped_level,
)
from tallyveil.products.safetab.public.groupings import (
    Grouping,
    GroupList,
    Match,
    grouping_from_rows,
    grouping_of_maps,
    list_groups,
)
from tallyveil.products.safetab.public.levels import Ladder, level_laws
from tallyveil.schema.attribute import Attribute, Recode
from tallyveil.schema.names import PlainName, check_apart
from tallyveil.schema.schema import Schema, unit_of
from tallyveil.storage.addresses import located
from tallyveil.storage.read import collect, require_levels, scan_table

Threshold = Annotated[int, Field(ge=-(2**60), le=2**60)]
TAKEN = frozenset(name.casefold() for name in ("COUNT", *QUALITY_COLUMNS, "DETAIL", "CELL", "TRUE"))
"""Names of columns that the published tables have themselves, in lower case; no grouping may have one."""


class CellsTable(Table):
    """[cells]: the attributes of a record by which groups are tabulated, and the details of these tables."""

    unit: Name | None = Field(default=None, description="What one record is, in the singular.")
    units: Name | None = Field(default=None, description="Plural of unit.")
    columns: dict[Name, Name] = Field(
        default_factory=dict, description="Column of each attribute whose column has another name."
    )
    details: list[Name] = Field(
        min_length=1,
        max_length=QUERIES_APART - FIRST_TABLE,
        description="Queries by which a group can be tabulated, from coarse to fine. The total is coarser than all.",
    )
    attributes: list[Attribute] = Field(min_length=1)
    recodes: list[Recode] = Field(default_factory=list)


class GroupsPrivacyTable(Table):
    """[privacy]: the noise and the declared budget. Neighbours differ by one record more or less."""

    mechanism: Literal["discrete_gaussian", "discrete_laplace"]
    rho: Exact | None = Field(default=None, description="Declared budget of the discrete Gaussian.")
    epsilon: Exact | None = Field(default=None, description="Declared budget of the discrete Laplace.")
    delta: Exact = Field(default=Fraction(1, 10**10), description="Delta at which epsilon is stated.")
    stage_1_fraction: Exact = Field(
        description="Share of a group's budget for the total that chooses its detail."
    )

    @model_validator(mode="after")
    def _in_range(self) -> Self:
        # A budget in the other unit is refused rather than converted: the two are not comparable.
        wanted, other = ("rho", "epsilon") if self.mechanism == "discrete_gaussian" else ("epsilon", "rho")
        if getattr(self, wanted) is None or getattr(self, other) is not None:
            raise ValueError(
                f"the {self.mechanism} mechanism has its budget in {wanted}: give {wanted} alone"
            )
        for name in ("delta", "stage_1_fraction"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, wanted a number between 0 and 1")
        return self


class MapTable(Table):
    """A map from the values of some columns to groups."""

    columns: list[Name] = Field(
        default_factory=list, description="Columns of the records. Empty values are passed over."
    )
    match: Match = Field(
        default="any",
        description="any: groups of any of the values; all: groups that all values share; joined: groups of the one "
        "value that the columns give together.",
    )
    missing: list[Name] = Field(
        default_factory=list, description="Values that are passed over like empty ones."
    )
    groups: list[Name] | None = Field(
        default=None, description="The values, if each value is a group of its own."
    )
    path: Name | None = Field(default=None, description="Public table of values and their groups.")
    value: Name | None = Field(default=None, description="Column of the values in the public table.")
    group: Name | None = Field(
        default=None,
        description="Column of the groups in the public table. A value without a group is in none.",
    )

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        _require_one_map(self)
        return self


def _require_one_map(item: MapTable) -> None:
    """Refuse a map that has no columns, or not one of the two forms of its groups."""
    table = [item.path, item.value, item.group]
    if (item.groups is None) == (item.path is None) or any(
        (entry is None) != (item.path is None) for entry in table
    ):
        raise ValueError("give either groups, or the path of a public table and its columns value and group")
    if not item.columns or len(set(item.columns)) < len(item.columns):
        raise ValueError("columns are missing, or a column is named twice")


class GroupingTable(MapTable):
    """[[groupings]]: groups, by one map or by several."""

    name: PlainName
    maps: list[MapTable] = Field(
        default_factory=list,
        description="Several maps in the place of one. A record is in the groups of each of them.",
    )

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if not self.maps:
            _require_one_map(self)
        elif set(self.model_fields_set) - {"name", "maps"}:
            raise ValueError("give either maps, or the keys of one map")
        return self


class LevelTable(Table):
    """[[levels]]: the groups of one level, their budget, and the counts that choose their detail."""

    name: PlainName
    by: list[Name] = Field(
        description="Groupings whose combinations are the groups; [] for all records as one."
    )
    most_groups: int = Field(ge=1, description="Largest number of the groups that a record may be in.")
    budget: Exact = Field(description="Budget of all groups of the level together.")
    thresholds: list[Threshold] = Field(
        description="For each detail, the noisy total from which a group gets it."
    )
    total_only: bool | dict[Name, list[Name]] = Field(
        default=False, description="true, or the labels of groups that have no detail, by grouping."
    )
    noise: LevelNoise | None = Field(
        default=None,
        description="Addresses of the noise, for a file that repeats the numbers of another layout.",
    )

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if self.budget <= 0:
            raise ValueError(f"budget is {self.budget}, wanted a number above 0")
        if sorted(self.thresholds) != self.thresholds:
            raise ValueError("thresholds must not decrease")
        if len(set(self.by)) < len(self.by):
            raise ValueError("by names a grouping twice")
        # The rows of a level are the geounits of its noise, so their grouping must be one of the level's.
        geounit = None if self.noise is None else self.noise.geounit
        if geounit is not None and geounit not in self.by:
            raise ValueError("the geounit of noise is a grouping that by does not name")
        if geounit is not None and not isinstance(self.total_only, bool) and geounit in self.total_only:
            raise ValueError("total_only names the grouping that is the geounit of noise")
        return self


class GroupsFile(Table):
    """A whole file."""

    release: ReleaseTable
    privacy: GroupsPrivacyTable
    cells: CellsTable
    groupings: list[GroupingTable] = Field(default_factory=list)
    levels: list[LevelTable] = Field(min_length=1, max_length=MOST_LEVELS)

    @model_validator(mode="after")
    def _addresses_apart(self) -> Self:
        # Two levels with the same addresses would get the same noise, and the difference of their counts
        # would be exact.
        noise = [_address(number, level) for number, level in enumerate(self.levels)]
        if len({(address.geolevel, address.query) for address in noise}) < len(noise):
            raise ValueError(
                "two levels have the same geolevel and query of noise: they would share their noise"
            )
        return self


def _address(number: int, item: LevelTable) -> LevelNoise:
    # By default each level is a geolevel of its own, so no query number can meet another.
    return item.noise or LevelNoise(number, 0)


def load_group_plan(path: Path) -> GroupPlan:
    """Read a file of population groups and make its plan.

    Args:
        path: TOML file. Relative paths inside it start from its folder.
    Raises:
        StoreError: the file, or a public table of groups, cannot be read.
        ConfigError: the file is not TOML, has unknown keys or wrong values, or its parts do not fit each other. All
            mistakes of a kind are shown at once.
        SchemaError: a name is refused, or a level is too large.
        BudgetError: the levels cost more than is declared, or noise is out of range.
    """
    file = parse_file(path, GroupsFile)
    schema = _schema(file.release.name, file.cells)
    # Mistakes are collected in two steps: levels are not made from groupings that could not be made.
    problems = list(_bad_names(file, schema))
    # Made with the names noted above still unreported, so that both kinds of mistake are shown at once.
    ladder = made_or_noted(lambda: ladder_of(schema, tuple(file.cells.details)), problems)
    groupings = {
        item.name: made_or_noted(partial(_grouping, item, path.parent), problems) for item in file.groupings
    }
    raise_all(problems, str(path))
    known = {name: grouping for name, grouping in groupings.items() if grouping is not None}
    # raise_all has raised if there was a problem.
    assert ladder is not None
    levels = [
        made_or_noted(partial(_level, number, item, known, ladder, file.privacy), problems)
        for number, item in enumerate(file.levels)
    ]
    raise_all(problems, str(path))
    known_levels = tuple(level for level in levels if level is not None)
    return GroupPlan(
        name=file.release.name,
        schema=schema,
        # An attribute without an entry has the column of its own name.
        columns=tuple((name, file.cells.columns.get(name, name)) for name in schema.attribute_names),
        groupings=tuple(known.values()),
        levels=known_levels,
        spent=sum((level.budget for level in known_levels), Fraction(0)),
        mechanism=Mechanism(file.privacy.mechanism),
        stage_1_fraction=file.privacy.stage_1_fraction,
        # Exactly one of the two is given (`_in_range`).
        declared=file.privacy.rho if file.privacy.rho is not None else file.privacy.epsilon or Fraction(0),
        delta=file.privacy.delta,
    )


def _schema(name: str, table: CellsTable) -> Schema:
    return Schema(
        name=name,
        attributes=tuple(table.attributes),
        recodes=tuple(table.recodes),
        unit=unit_of(table.unit, table.units),
    )


def _bad_names(file: GroupsFile, schema: Schema) -> Iterator[TallyveilError]:
    """Names that are given twice, that differ only in case, or that the published tables use themselves."""
    problems: list[TallyveilError] = []
    for what, names in (
        ("groupings", [g.name for g in file.groupings]),
        ("levels", [x.name for x in file.levels]),
    ):
        made_or_noted(partial(check_apart, names, f"[[{what}]]"), problems)
        if twice := sorted({name for name in names if names.count(name) > 1}):
            yield ConfigError(
                f"[[{what}]] names {', '.join(twice)} twice. Give each a name of its own.", code="groups-file"
            )
    if reserved := [g.name for g in file.groupings if g.name.casefold() in TAKEN]:
        yield ConfigError(
            f"[[groupings]] names {', '.join(reserved)}, which is a column of the published tables. Rename it.",
            code="bad-name",
        )
    if unknown := sorted(set(file.cells.columns) - set(schema.attribute_names)):
        yield ConfigError(
            f"[cells] columns names {', '.join(unknown)}, which is not an attribute. The attributes are: "
            f"{', '.join(schema.attribute_names)}.",
            code="unknown-attribute",
        )
    yield from problems


def _grouping(item: GroupingTable, folder: Path) -> Grouping:
    if item.maps:
        return grouping_of_maps(item.name, [_mapped(item.name, part, folder) for part in item.maps])
    return _mapped(item.name, item, folder)


def _mapped(name: str, item: MapTable, folder: Path) -> Grouping:
    """The grouping of one map."""
    if item.groups is not None:
        rows: list[tuple[str, str | None]] = [(value, value) for value in item.groups]
        if len(set(item.groups)) < len(item.groups):
            raise ConfigError(f"grouping '{name}' lists a group twice. List each once.", code="groups-file")
        return grouping_from_rows(name, item.columns, item.match, rows, item.missing)
    value, group = item.value or "", item.group or ""
    path, what = located(folder, item.path or ""), f"groups of '{name}'"
    scan = scan_table(path, [value, group], what)
    require_levels(scan, [value, group], path, what)
    table = collect(scan, path, what)
    # A row without a value would put nobody into the group; more likely a column was misnamed.
    if table[value].null_count():
        raise ConfigError(
            f"{item.path}, which lists the groups of '{name}', has {table[value].null_count()} row(s) without a "
            f"value in column '{value}'. Remove these rows.",
            code="groups-file",
        )
    pairs = zip(table[value].to_list(), table[group].to_list(), strict=True)
    # A value with a null group is known and in no group, so records with it are accepted.
    rows = [(str(v), None if g is None else str(g)) for v, g in pairs]
    return grouping_from_rows(name, item.columns, item.match, rows, item.missing)


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
    groups = _groups(item, groupings)
    # Too large a stability is safe but wastes accuracy, so it is refused as a mistake.
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
    return mapped_level(
        item.name,
        number,
        _address(number, item),
        groups,
        ladder,
        laws,
        budget=item.budget,
        thresholds=item.thresholds,
        stability=item.most_groups,
    )


def _groups(item: LevelTable, groupings: dict[str, Grouping]) -> GroupList:
    """The groups of a level. Those of the geounits of its noise are in rows of their own."""
    geounit = None if item.noise is None else item.noise.geounit
    # The order of `by` is the order of the combinations, and so part of the noise's addresses.
    within = [groupings[name] for name in item.by if name != geounit]
    return list_groups(item.name, within, item.total_only, None if geounit is None else groupings[geounit])
