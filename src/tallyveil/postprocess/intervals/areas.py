"""The areas that get intervals besides the geolevels of the spine: replaced geolevels and entities."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from scipy import sparse

from tallyveil.arrays import Integers
from tallyveil.errors import GeographyError
from tallyveil.files.geography import read_areas
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.spine import Spine
from tallyveil.geography.tables import GEOCODE, area_columns, entities_from_columns, read_assignments
from tallyveil.postprocess.intervals.model import FinishedRelease
from tallyveil.schema.counts import PublicCounts
from tallyveil.schema.names import check_areas
from tallyveil.schema.query_group import QueryGroup

FINEST_AT_ONCE = 4096
"""Finest geounits whose answers are held at once: 63 MiB for 2,016 answers of each. Sums do not depend on it."""


@dataclass(frozen=True, slots=True, eq=False)
class IntervalArea:
    """Geounits or entities that are sums of the spine's finest geounits.

    Attributes:
        family: The areas. Its name is that of a geolevel or of a family of entities.
        is_entity: Whether the areas are entities and not geounits of the original geography.
        tabulated: Whether the release publishes tables for them.
    """

    family: EntityFamily
    is_entity: bool
    tabulated: bool


def released_areas(release: FinishedRelease) -> tuple[IntervalArea, ...]:
    """The areas in the tables of a release that are not geolevels of its spine.

    A geolevel that the steps of the spine have replaced is included with its original geounits.
    """
    replaced, families = read_areas(release.root, release.spine)
    published = release.plan.get("entities", [])
    by_name = {family.name: family for family in families}
    return (
        *(IntervalArea(family, is_entity=False, tabulated=True) for family in replaced),
        *(IntervalArea(by_name[name], is_entity=True, tabulated=True) for name in published),
    )


def with_given(
    spine: Spine, areas: Sequence[IntervalArea], given: Sequence[EntityFamily]
) -> tuple[IntervalArea, ...]:
    """Areas of a release, together with further families that the user asks for.

    Args:
        spine: The spine of the release.
        areas: Areas of the release that are not geolevels of the spine.
        given: The further families.
    Raises:
        GeographyError: a family has the name of a geolevel, or that of a released family with other members.
        SchemaError: the name of a family cannot be a file name.
    """
    released = {area.family.name: area.family for area in areas if area.is_entity}
    levels = {*spine.geolevels, *(area.family.name for area in areas if not area.is_entity)}
    for family in given:
        if family.name in levels:
            raise GeographyError(
                f"the entity table has a family '{family.name}', and the release has a geolevel of that name. Their "
                "intervals would be in one folder. Rename the column, or leave it out with --families.",
                code="entity-table",
            )
        # The same family given again is no conflict; the released one is used.
        if family.name in released and family.digest() != released[family.name].digest():
            raise GeographyError(
                f"the entity table has a family '{family.name}', and the release has a family of that name with "
                "other members. Rename the column, or leave it out with --families.",
                code="entity-table",
            )
    # Folders are named by families on all systems, so names must also differ without regard to case.
    families = {*released, *(family.name for family in given)}
    check_areas(sorted(levels), sorted(families), sorted(families))
    new = [family for family in given if family.name not in released]
    return (*areas, *(IntervalArea(family, is_entity=True, tabulated=False) for family in new))


def read_entity_table(path: Path, families: Sequence[str] | None) -> pl.DataFrame:
    """The geocodes and families of an entity table. If no families are named, all its text columns are read.

    Raises:
        StoreError, ConfigError: the file or a column is missing or unreadable.
    """
    names = area_columns(path, "entity") if families is None else families
    return read_assignments(path, names, "entity")


def entity_families(spine: Spine, table: pl.DataFrame, families: Sequence[str] | None) -> list[EntityFamily]:
    """Families of entities from a table of finest geounits.

    Args:
        spine: The hierarchy.
        table: Table with a column `geocode` and a column for each family.
        families: Columns to read; None for every other text column.
    Raises:
        GeographyError: the table does not fit the geography.
    """
    names = families or [name for name, kind in table.schema.items() if kind == pl.String and name != GEOCODE]
    for name in names:
        if not re.fullmatch(r"\w[\w. -]*", name):
            raise GeographyError(
                f"the entity table has a column '{name}', which cannot be the name of a folder. Name families "
                "with letters, digits, '_', '-', '.' and spaces.",
                code="entity-table",
            )
    columns = {name: table[name] for name in table.columns}
    return list(entities_from_columns(spine, columns, names))


def family_counts(counts: PublicCounts, family: EntityFamily, groups: Sequence[QueryGroup]) -> Integers:
    """Published answers of every entity, one query after the other; shape (n_entities, answers)."""
    ones = np.ones(len(family.members), np.int64)
    member = sparse.csr_matrix(
        (ones, family.members, family.offsets), shape=(family.n_entities, family.n_finest)
    )
    # By columns, because each step takes some finest geounits and all areas.
    columns = member.tocsc()
    sums = np.zeros((family.n_entities, sum(group.size for group in groups)), np.int64)
    for start in range(0, family.n_finest, FINEST_AT_ONCE):
        stop = min(start + FINEST_AT_ONCE, family.n_finest)
        answers = [group.apply(*counts.rows(start, stop), stop - start) for group in groups]
        # Sums of int64, so the division into steps does not change a number.
        sums += columns[:, start:stop] @ np.concatenate(answers, axis=1)
    return sums
