"""The plan of counts of population groups whose detail a noisy total chooses, before any record is read."""

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final, Literal

from tallyveil.accounting.events import PrivacyEvent, SequentialEvent
from tallyveil.accounting.numbers import exact_text
from tallyveil.arrays import Integers
from tallyveil.budget.strategy import Mechanism
from tallyveil.errors import BudgetError, SchemaError
from tallyveil.products.safetab.public.groupings import Grouping, GroupList
from tallyveil.products.safetab.public.levels import NEIGHBOURS, GroupLevel, Ladder, events_of
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema
from tallyveil.storage.json_files import digest_of

GROUPS_FORMAT: Final = 1
"""Version of the plan's mapping. It is part of the digest, so a new version is a new plan for finished
releases."""

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


@dataclass(frozen=True, slots=True, eq=False)
class MappedLevel(GroupLevel):
    """A level whose groups are combinations of groupings.

    Attributes:
        number: Its place among the levels of the plan.
        groups: The groups.
        stability: Largest number of groups of the level that a record may be in, as the plan states it. Records that
            are in more groups are refused.
    """

    number: int
    groups: GroupList
    stability: int

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


@dataclass(frozen=True, slots=True, eq=False)
class GroupPlan:
    """The plan of a release of population groups.

    Attributes:
        name: Name of the release.
        schema: The cells of the finest table.
        columns: Column of each attribute in the records, by attribute name.
        groupings: The maps from values to groups.
        levels: The levels.
        mechanism: Discrete Gaussian (budgets are rho) or discrete Laplace (budgets are epsilon).
        stage_1_fraction: Share of a group's budget for the count that chooses its detail.
        declared: Largest budget that may be spent, in `budget_unit`.
        delta: Delta at which epsilon is stated.
    Raises:
        BudgetError: the levels cost more than the declared budget.
        SchemaError: a level is too large.
    """

    name: str
    schema: Schema
    columns: tuple[tuple[str, str], ...]
    groupings: tuple[Grouping, ...]
    levels: tuple[MappedLevel, ...]
    mechanism: Mechanism
    stage_1_fraction: Fraction
    declared: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        unit = self.budget_unit
        # Checked when the plan is made, long before anything is read.
        if self.budget > self.declared:
            raise BudgetError(
                f"the levels cost {unit} = {exact_text(self.budget)}, more than the declared {unit} = "
                f"{exact_text(self.declared)}. Lower the budgets of [[levels]], or raise [privacy] {unit} if policy "
                "allows it; nothing was read."
            )
        for level in self.levels:
            groups, cells = level.groups.n_groups, level.ladder.finest_cells
            if (numbers := groups * cells) > MOST_NUMBERS:
                raise SchemaError(
                    f"level '{level.name}' has {groups:,} groups with tables of {cells:,} cells, together "
                    f"{numbers:,} numbers; wanted at most {MOST_NUMBERS:,}. Use coarser groupings or cells.",
                    code="schema-too-large",
                )

    @property
    def budget_unit(self) -> Literal["rho", "epsilon"]:
        """Unit of the budgets."""
        return "rho" if self.mechanism is Mechanism.DISCRETE_GAUSSIAN else "epsilon"

    @property
    def budget(self) -> Fraction:
        """Sum of the budgets of the levels."""
        return sum((level.budget for level in self.levels), Fraction(0))

    def event(self) -> PrivacyEvent:
        """The privacy event. Levels are composed: any groups of a record at one level can go with any at another."""
        parts: list[PrivacyEvent] = []
        for level in self.levels:
            # A record may be in as many total-only groups as there are, but in no more than the stability.
            parts += events_of([level], level.stability, min(level.stability, level.groups.n_total_only))
        return SequentialEvent(tuple(parts))

    def digest(self) -> bytes:
        """SHA-256 of everything that determines the meaning of the noise."""
        return digest_of(self.to_mapping())

    def to_mapping(self) -> dict[str, Any]:
        """The plan as plain data, with budgets as exact text."""
        return {
            "format": GROUPS_FORMAT,
            "name": self.name,
            "mechanism": self.mechanism.value,
            "neighbours": NEIGHBOURS.value,
            "declared": str(self.declared),
            "spent": str(self.budget),
            "delta": str(self.delta),
            "stage_1_fraction": str(self.stage_1_fraction),
            "schema": self.schema.to_mapping(),
            "columns": dict(self.columns),
            "groupings": [grouping.to_mapping() for grouping in self.groupings],
            "levels": [_level_mapping(grouping) for grouping in self.levels],
        }


def _level_mapping(level: MappedLevel) -> dict[str, Any]:
    return {
        "name": level.name,
        "by": [grouping.name for grouping in level.groups.groupings],
        "budget": str(level.budget),
        "stability": level.stability,
        "groups": level.groups.n_groups,
        "total_only_groups": level.groups.n_total_only,
        "noise": {
            "geolevel": level.geolevel,
            "query": level.query,
            "geounit": None if level.groups.rows is None else level.groups.rows.name,
        },
        # The addresses count groups in this order, so two plans that differ in it have different noise.
        "order_of_groups": hashlib.sha256(level.groups.place_of.astype("<i8").tobytes()).hexdigest(),
        "details": list(level.ladder.names),
        "thresholds": list(level.thresholds),
        "standard_deviations": [
            law.standard_deviation() for law in (level.stage_1, level.stage_2, level.total_only)
        ],
    }
