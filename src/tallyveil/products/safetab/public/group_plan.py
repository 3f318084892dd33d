"""The plan of counts of population groups whose detail a noisy total chooses, before any record is read."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from tallyveil.accounting.events import Neighbours, PrivacyEvent, SequentialEvent
from tallyveil.accounting.numbers import exact_text
from tallyveil.arrays import Integers
from tallyveil.budget.strategy import Mechanism
from tallyveil.declared import (
    ByName,
    Declared,
    Exact,
    Format1,
    Many,
    Name,
    Number,
    Text,
    Whole,
    mapping_of,
)
from tallyveil.errors import BudgetError, SchemaError
from tallyveil.noise.laws import Law
from tallyveil.products.safetab.public.groupings import Grouping, GroupList
from tallyveil.products.safetab.public.levels import NEIGHBOURS, GroupLevel, Ladder, deviations_of, events_of
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema, StatedSchema
from tallyveil.storage.json_files import digest_of

MOST_LEVELS: Final = 256
"""Largest number of levels for which the addresses of the noise have room."""

QUERIES_APART: Final = 16
"""Number of query numbers that a level has among the addresses of the noise. Each detail needs one of them."""

MOST_NUMBERS: Final = 1 << 27
"""Largest product of the groups of a level and the cells of the finest table: 2**27 numbers of 8 bytes are one GiB."""


@dataclass(frozen=True, slots=True)
class QueryTable:
    """A table of the ladder, which lists the details of a level from coarse to fine. A query group gives its cells.

    Attributes:
        query: The query group. Every cell of the schema counts in one of its answers.
    """

    query: QueryGroup

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return self.query.size

    def collapse(self, finest: Integers) -> Integers:
        """Tables of this detail from tables of the cells of the schema."""
        return self.query.apply_dense(finest)


@dataclass(frozen=True)
class LevelNoise(Declared):
    """[levels.noise]: the addresses of the noise of a level."""

    geolevel: Annotated[Whole, Field(ge=0, lt=MOST_LEVELS, description="Field geolevel of the addresses.")]
    query: Annotated[
        Whole,
        Field(
            ge=0,
            lt=2**16,
            multiple_of=QUERIES_APART,
            description="First of the level's 16 query numbers.",
        ),
    ]
    geounit: Annotated[
        Name | None,
        Field(description="Grouping of the level whose groups are the geounits. Without it there is one."),
    ] = None


@dataclass(frozen=True, eq=False, kw_only=True)
class StatedGroupLevel(Declared):
    """What a plan states of a level whose groups are combinations of groupings.

    Attributes:
        by: Names of the groupings.
        budget, thresholds: As in `GroupLevel`.
        stability: Largest number of groups of the level that a record may be in. Records in more groups are refused.
        groups, total_only_groups: How many groups there are, and how many of them have no detail.
        order_of_groups: SHA-256 of their order. The addresses of the noise count groups in it, so that two plans that
            differ in it have different noise.
        details: From the total to that of total-only groups.
        standard_deviations: Of the noise of stage 1, of stage 2 and of a total-only group.
    """

    name: Text
    by: Many[Text]
    budget: Exact
    stability: Whole
    groups: Whole
    total_only_groups: Whole
    noise: LevelNoise
    order_of_groups: Text
    details: Many[Text]
    thresholds: Many[Whole]
    standard_deviations: Many[Number]


@dataclass(frozen=True, eq=False, kw_only=True)
class MappedLevel(StatedGroupLevel, GroupLevel):
    """The same level with what its measuring needs.

    Attributes:
        number: Its place among the levels of the plan.
        listed: The groups.
    """

    number: int
    listed: GroupList
    keep_above: None = None

    def cell_labels(self, detail: int) -> list[str]:
        """One line for each cell of a detail that has a table."""
        table = self.ladder.tables[detail - 1]
        assert isinstance(table, QueryTable)
        return table.query.labels()


def ladder_of(schema: Schema, details: tuple[str, ...]) -> Ladder:
    """The ladder: the total, and then these query groups.

    Among the addresses of the noise, each group has as many places as the least power of two that has room for the
    largest table. The Census layout has 64 places for its 46 cells.

    Raises:
        SchemaError: a query group is unknown, is given twice, leaves out a cell of the schema, has groups that overlap,
            or has fewer cells than the one before.
    """
    tables = tuple(QueryTable(schema.query(name)) for name in details)
    for table in tables:
        # A record would be in two cells of a table, and the noise is for one.
        if table.query.overlaps:
            raise SchemaError(
                f"groups of the detail {table.query.name!r} overlap, so that its cells would not add up to the total "
                "of a group. Use recodes whose groups do not overlap."
            )
        # With cells left out, the sum of a table would not be the group's total, which estimates suppose.
        if any((factor.codes < 0).any() for factor in table.query.factors):
            raise SchemaError(
                f"the detail {table.query.name!r} leaves out some cells, so that its cells would not add up to "
                "the total of a group. Give every level of its recodes a group."
            )
    for coarse, fine in pairwise(tables):
        # More records pass higher thresholds and can bear more cells.
        if fine.n_cells < coarse.n_cells:
            raise SchemaError(
                f"the detail {fine.query.name!r} has {fine.n_cells} cells and stands after {coarse.query.name!r} with "
                f"{coarse.n_cells}, so that larger groups would get less detail. List the details from coarse to fine."
            )
    of_factors: dict[object, str] = {}
    for table in tables:
        # The same table twice would only waste a threshold.
        same = of_factors.setdefault(table.query.factors, table.query.name)
        if same != table.query.name:
            raise SchemaError(
                f"the details {same!r} and {table.query.name!r} are the same table. Keep one of them.",
                code="query-twice",
            )
    names = ("total", *details, "total only")
    if len(set(names)) < len(names):
        raise SchemaError(
            f"the details are {', '.join(details)}. Each may be there once, and none may be 'total' or 'total only', "
            "which every ladder has. Remove those that are too many."
        )
    # A power of two, like the 64 of the Census layout, so that a file that repeats it has the same addresses.
    apart = 1 << (max(table.n_cells for table in tables) - 1).bit_length()
    return Ladder(names, tables, schema.size, apart)


def mapped_level(
    name: str,
    number: int,
    noise: LevelNoise,
    listed: GroupList,
    ladder: Ladder,
    laws: tuple[Law, Law, Law],
    *,
    budget: Fraction,
    thresholds: Sequence[int],
    stability: int,
) -> MappedLevel:
    """The level of some groups; the arguments are those of its attributes."""
    return MappedLevel(
        name=name,
        by=tuple(grouping.name for grouping in listed.groupings),
        budget=budget,
        stability=stability,
        groups=listed.n_groups,
        total_only_groups=listed.n_total_only,
        noise=noise,
        order_of_groups=hashlib.sha256(listed.place_of.astype("<i8").tobytes()).hexdigest(),
        details=ladder.names,
        thresholds=tuple(thresholds),
        standard_deviations=deviations_of(laws),
        number=number,
        listed=listed,
        geolevel=noise.geolevel,
        query=noise.query,
        width=listed.width,
        n_adaptive=listed.n_adaptive,
        ladder=ladder,
        stage_1=laws[0],
        stage_2=laws[1],
        total_only=laws[2],
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class StatedGroupPlan(Declared):
    """The plan of a release of population groups as `plan.json` states it.

    Attributes:
        name: Name of the release.
        mechanism: Discrete Gaussian (budgets are rho) or discrete Laplace (budgets are epsilon).
        declared: Largest budget that may be spent, in `budget_unit`.
        spent: Sum of the budgets of the levels.
        delta: Delta at which epsilon is stated.
        stage_1_fraction: Share of a group's budget for the count that chooses its detail.
        schema: The cells of the finest table.
        columns: Column of each attribute in the records, by attribute name.
        groupings: The maps from values to groups.
        levels: The levels.
    """

    # Part of the digest, so that a new format is a new plan for finished releases.
    format: Format1 = 1
    name: Text
    mechanism: Mechanism
    neighbours: Neighbours = NEIGHBOURS
    declared: Exact
    spent: Exact
    delta: Exact
    stage_1_fraction: Exact
    schema: StatedSchema
    columns: ByName[Text]
    groupings: Many[Grouping]
    levels: Many[StatedGroupLevel]


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupPlan(StatedGroupPlan):
    """The same plan with what measuring its levels needs.

    Raises:
        BudgetError: the levels cost more than the declared budget.
        SchemaError: a level is too large.
    """

    levels: tuple[MappedLevel, ...]

    def __post_init__(self) -> None:
        unit = self.budget_unit
        # Checked when the plan is made, long before anything is read.
        if self.spent > self.declared:
            raise BudgetError(
                f"the levels cost {unit} = {exact_text(self.spent)}, more than the declared {unit} = "
                f"{exact_text(self.declared)}. Lower the budgets of [[levels]], or raise [privacy] {unit} if policy "
                "allows it; nothing was read."
            )
        for level in self.levels:
            groups, cells = level.groups, level.ladder.finest_cells
            if (numbers := groups * cells) > MOST_NUMBERS:
                raise SchemaError(
                    f"level '{level.name}' has {groups:,} groups with tables of {cells:,} cells, together "
                    f"{numbers:,} numbers; wanted at most {MOST_NUMBERS:,}. Use coarser groupings or cells.",
                    code="schema-too-large",
                )

    @property
    def budget_unit(self) -> Literal["rho", "epsilon"]:
        """Unit of the budgets."""
        return self.mechanism.budget_unit

    @property
    def description(self) -> str:
        """What is made, in words, for the ledger and the book."""
        return f"population groups of {self.name}"

    def event(self) -> PrivacyEvent:
        """The privacy event. Levels are composed: any groups of a record at one level can go with any at another."""
        parts: list[PrivacyEvent] = []
        for level in self.levels:
            # A record may be in as many total-only groups as there are, but in no more than the stability.
            parts += events_of([level], level.stability, min(level.stability, level.total_only_groups))
        return SequentialEvent(tuple(parts))

    def digest(self) -> bytes:
        """SHA-256 of everything that determines the meaning of the noise."""
        return digest_of(self.to_mapping())

    def to_mapping(self) -> dict[str, Any]:
        """The plan as plain data, with budgets as exact text."""
        return mapping_of(self, StatedGroupPlan)
