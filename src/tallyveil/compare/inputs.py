"""The one input of all methods: true counts of the finest geounits, the areas above them, and the tables wanted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from pydantic import Field
from scipy import sparse

from tallyveil.accounting.ledger.file import Ledger
from tallyveil.arrays import Int32s, IntegerRows, Integers
from tallyveil.confidential.declassify import Withheld, read_truth, read_truth_of_units
from tallyveil.confidential.records import RecordUnits
from tallyveil.declared import Name
from tallyveil.errors import ConfigError
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.spine import Spine
from tallyveil.geography.tables import GEOCODE, entities_from_columns, read_assignments
from tallyveil.plans.from_toml.tables import Table
from tallyveil.plans.release import ReleasePlan
from tallyveil.products.topdown.run.inputs import read_spine
from tallyveil.schema.counts import PublicCounts
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema
from tallyveil.storage.addresses import InputPath

MOST_COUNTS: Final = 1 << 25
"""Largest number of finest geounits times cells. Every method and attack has a few arrays of this size in memory, of
256 MiB each at the limit. Twice as many would need twice the memory; half would refuse a State of 421,545 blocks and 64
cells."""

REASON: Final = "true counts compared with what several methods publish; the results reveal them"

TableName = tuple[str, str]
"""Which table: the name of the areas, and that of the query."""


@dataclass(frozen=True, slots=True, eq=False)
class Areas:
    """Areas that tables are published for: the geounits of a geolevel, or the entities of a family.

    Attributes:
        name: Of the geolevel or the family.
        codes: Geocode or name of each area.
        place: Number of the area that each finest geounit is in, -1 for none; int64, shape (n_finest,).
    """

    name: str
    codes: tuple[str, ...]
    place: Integers

    @property
    def n_areas(self) -> int:
        """Number of areas."""
        return len(self.codes)

    def sums(self, counts: IntegerRows) -> Integers:
        """Sums of the finest geounits' counts over each area; shape (n_areas, counts.shape[1])."""
        inside = np.flatnonzero(self.place >= 0)
        ones = np.ones(inside.size, dtype=np.int64)
        shape = (self.n_areas, self.place.size)
        members = sparse.csr_matrix((ones, (self.place[inside], inside)), shape=shape)
        return np.asarray(members @ counts)


@dataclass(frozen=True, eq=False)
class SharedInput:
    """What every method starts from.

    Attributes:
        schema: The universe.
        queries: Tables that are published for every area.
        areas: Geolevels from the root down, then families of entities.
        n_geolevels: Number of geolevels among the areas. The last of them has the finest geounits.
        counts: True counts, int64, shape (n_finest, schema.size).
        household: Number of the household of each person, the people in the order of their geounits and cells; None
            where households are not known, and each person is one.
        contributor: The contributor whose record each is, such as an establishment, in the same order and over all
            geounits; None where each record is a contributor.
        earlier: Counts of an earlier year, in the shape of `counts`; None for the first one.
    Privacy: true counts. Whatever is computed from them must be marked as not private.
    """

    schema: Schema
    queries: tuple[QueryGroup, ...]
    areas: tuple[Areas, ...]
    n_geolevels: int
    counts: IntegerRows
    household: Integers | None = None
    contributor: Integers | None = None
    earlier: IntegerRows | None = None

    @property
    def people(self) -> tuple[Int32s, Int32s, Int32s]:
        """Finest geounit, cell and household of every person; people of one household stand together.

        Of 32 bits: a State of 17 million people has arrays of 64 MiB each.
        """
        n_finest, n_cells = self.counts.shape
        geounits = np.repeat(np.arange(n_finest, dtype=np.int32), self.counts.sum(axis=1))
        cells = np.repeat(np.tile(np.arange(n_cells, dtype=np.int32), n_finest), self.counts.ravel())
        if self.household is None:
            return geounits, cells, np.arange(cells.size, dtype=np.int32)
        order = np.argsort(self.household, kind="stable")
        return geounits[order], cells[order], self.household[order].astype(np.int32)

    @property
    def geolevels(self) -> tuple[Areas, ...]:
        """The areas that are geolevels."""
        return self.areas[: self.n_geolevels]

    @property
    def finest(self) -> Areas:
        """The finest geounits."""
        return self.areas[self.n_geolevels - 1]

    @property
    def detailed(self) -> QueryGroup | None:
        """A published query whose answers are the cells; None if there is none."""
        return next((query for query in self.queries if query.is_detailed), None)

    def areas_named(self, name: str) -> Areas:
        """The areas of that name, which are there."""
        return next(areas for areas in self.areas if areas.name == name)

    def parents(self, level: int) -> Integers:
        """Number of the geounit above each geounit of a geolevel below the root."""
        above, here = self.areas[level - 1].place, self.areas[level].place
        parents = np.empty(self.areas[level].n_areas, dtype=np.int64)
        parents[here] = above
        return parents

    @cached_property
    def truth(self) -> Mapping[TableName, Integers]:
        """The true tables."""
        return self.tables_of(self.counts)

    def answers(self, areas: Areas, query: QueryGroup) -> Integers:
        """The true answers of any query for some areas; shape (n_areas, query.size)."""
        return np.asarray(areas.sums(self.counts) @ answer_matrix(query))

    def tables_of(self, counts: IntegerRows) -> dict[TableName, Integers]:
        """Every table of any counts of the finest geounits; each of shape (n_areas, query.size)."""
        tables: dict[TableName, Integers] = {}
        for areas in self.areas:
            sums = areas.sums(counts)
            for query in self.queries:
                tables[areas.name, query.name] = np.asarray(sums @ answer_matrix(query))
        return tables


def answer_matrix(query: QueryGroup) -> sparse.csr_matrix:
    """How often a cell of the schema counts in an answer of the query; shape (n_cells, size)."""
    cells, answers = query.counted_in(np.arange(query.n_cells))
    # Where a cell counts twice in an answer, entries of one place are added up.
    return sparse.csr_matrix(
        (np.ones(cells.size, dtype=np.int64), (cells, answers)), shape=(query.n_cells, query.size)
    )


@dataclass(frozen=True, slots=True, eq=False)
class PublicInput:
    """What is known of the input before its records are read.

    Attributes:
        plan: Of the release file.
        spine: Of its geography.
        areas: Geolevels of the spine from the root down, then families of entities.
        queries: Tables that are published for every area.
        sensitive: Attribute that attackers want to know.
    """

    plan: ReleasePlan
    spine: Spine
    areas: Sequence[Areas]
    queries: tuple[QueryGroup, ...]
    sensitive: str

    @property
    def geolevels(self) -> Sequence[Areas]:
        """The areas that are geolevels."""
        return self.areas[: self.spine.n_levels]


class EntitiesTable(Table):
    """[entities]: areas off the spine that tables are published for."""

    path: InputPath = Field(
        description="Table with a column geocode and one for each family (Parquet or CSV)."
    )
    families: list[Name] = Field(min_length=1, max_length=8, description="Columns that name the entities.")


def read_areas(plan: ReleasePlan, entities: EntitiesTable | None) -> tuple[Spine, list[Areas]]:
    """The public part of the input: the spine of the geography table, its geolevels, and families of entities.

    Args:
        plan: Of the release file, whose geography is read.
        entities: Table with one row for each finest geounit; None for no entities.
    Raises:
        GeographyError, StoreError, ConfigError: as for a release.
    """
    spine = read_spine(plan.geography)
    read: tuple[EntityFamily, ...] = ()
    if entities is not None:
        families = entities.families
        table = read_assignments(entities.path, families, "entities")
        columns = {GEOCODE: table[GEOCODE], **{name: table[name] for name in families}}
        read = entities_from_columns(spine, columns, families)
    return spine, areas_of_spine(spine, read)


def areas_of_spine(spine: Spine, families: Sequence[EntityFamily]) -> list[Areas]:
    """The geolevels of a spine, and families of areas beside it."""
    finest = np.arange(spine.n_geounits(spine.finest))
    areas = [
        Areas(name, tuple(spine.geocodes[level]), spine.ancestors(level) if level < spine.finest else finest)
        for level, name in enumerate(spine.geolevels)
    ]
    return areas + [_of_family(family) for family in families]


def _of_family(family: EntityFamily) -> Areas:
    place = np.full(family.n_finest, -1, dtype=np.int64)
    place[family.members] = np.repeat(np.arange(family.n_entities), family.sizes)
    return Areas(family.name, family.codes, place)


@dataclass(frozen=True, slots=True)
class UnitColumns:
    """Columns of the records that say which unit a record belongs to.

    Attributes:
        households: Column of the household; the same text in another geounit is another household.
        contributors: Column of the contributor, such as an establishment, over all geounits.
    """

    households: str | None = None
    contributors: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class WithheldInput:
    """An input that was read, before the ledger says so.

    Attributes:
        public: What is known beforehand.
        truths: True counts of every geolevel.
        household: Household of each record; None where it is not known.
        contributor: Contributor of each record; likewise.
    Privacy: confidential until `declassified`.
    """

    public: PublicInput
    truths: Withheld[tuple[PublicCounts, ...]]
    household: Withheld[RecordUnits] | None
    contributor: Withheld[RecordUnits] | None

    def declassified(self, ledger: Ledger) -> SharedInput:
        """The input, after non-private events are written to the ledger of the comparison. Privacy: none."""
        public, finest = self.public, self.truths.declassified(ledger)[-1]
        household, contributor = (
            None if units is None else units.declassified(ledger)
            for units in (self.household, self.contributor)
        )
        return SharedInput(
            public.plan.schema,
            public.queries,
            tuple(public.areas),
            public.spine.n_levels,
            finest.dense(0, finest.n_geounits, public.plan.schema.size),
            # A household lives in one geounit: the same number elsewhere is another household.
            None
            if household is None
            else np.unique(np.stack([household.geounits, household.units]), axis=1, return_inverse=True)[
                1
            ].ravel(),
            None if contributor is None else contributor.units,
        )


def read_input(public: PublicInput, units: UnitColumns) -> WithheldInput:
    """Read the records.

    Args:
        public: What is known beforehand; the records are those of its plan.
        units: Columns of households and contributors.
    Raises:
        SchemaError, GeographyError, StoreError: a record does not fit.
    """
    records = public.plan.records
    door: dict[str, Any] = {"schema": public.plan.schema, "spine": public.spine}
    truths = read_truth(records.path, reason=REASON, **records.counting, **door)
    household, contributor = (
        None
        if column is None
        else read_truth_of_units(
            records.path, unit=column, reason=f"{what}: {REASON}", **records.reading, **door
        )
        for what, column in (("households", units.households), ("contributors", units.contributors))
    )
    return WithheldInput(public, truths, household, contributor)


def refuse_too_large(spine: Spine, schema: Schema) -> None:
    """Refuse more counts than `MOST_COUNTS`; raises ConfigError."""
    n_finest = spine.n_geounits(spine.finest)
    if n_finest * schema.size > MOST_COUNTS:
        raise ConfigError(
            f"{n_finest:,} finest geounits of {schema.size:,} cells are {n_finest * schema.size:,} counts, "
            f"wanted at most {MOST_COUNTS:,}: every method and attack holds some tables of all of them in memory. "
            "Compare a part of the geography, or a schema with fewer cells. Nothing was read.",
            code="comparison-too-large",
        )


def require_single_records(plan: ReleasePlan, units: UnitColumns) -> None:
    """Refuse derived records, and columns of units where the records are counts, before anything is read.

    Raises:
        ConfigError: a record is derived from several rows, or a row counts several records.
    """
    # Methods publish the derived records as if each were one person, whose change moves two of them.
    if plan.records.household is not None:
        raise ConfigError(
            "the release file derives households from persons ([records.household]), and a comparison has one person "
            "for each record. Give a release file whose table has a row for each household. Nothing was read.",
            code="bad-key-or-value",
        )
    if plan.records.count is not None and (units.households or units.contributors):
        raise ConfigError(
            f"the records have a column of counts, {plan.records.count}, so that a row is no single record, and the "
            "file names a column of households or contributors. Give records one by one, or leave the column out. "
            "Nothing was read.",
            code="bad-key-or-value",
        )
