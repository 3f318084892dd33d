"""The areas of a publication: those of its releases, which share their geography."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from tallyveil.errors import GeographyError
from tallyveil.products.topdown.pl94.sources import Source, coarse_first


@dataclass(frozen=True, slots=True, eq=False)
class PublishedAreas:
    """All areas of a publication: those of its releases, which share their geography.

    Attributes:
        finest: Name of the finest geolevel.
        geolevels: Names of the geolevels, fewest areas first.
        entities: Names of the families of entities.
        blocks: As in `Source`.
    """

    finest: str
    geolevels: tuple[str, ...]
    entities: tuple[str, ...]
    blocks: pl.DataFrame

    @property
    def names(self) -> tuple[str, ...]:
        """Geolevels and families of entities."""
        return (*self.geolevels, *self.entities)

    def members(self, name: str) -> pl.DataFrame:
        """The finest geounits and the area of a kind that each lies in."""
        area = self.blocks[name]
        return pl.DataFrame([self.blocks[self.finest].alias("finest_geounits"), area])

    def codes(self, name: str) -> pl.Series:
        """Codes of all areas of a kind, sorted."""
        column = self.blocks[name]
        held = column.explode(empty_as_null=False) if isinstance(column.dtype, pl.List) else column
        return held.drop_nulls().unique().sort()

    def rows(self, name: str) -> pl.DataFrame:
        """One row for each area of a kind, in the order of codes.

        Columns: `geocode`; the number of its finest geounits; then, for each coarser geolevel, the geounit that holds
        the whole area (null if none does). Finest geounits also have their entities, if these do not overlap.
        """
        names = (
            self.geolevels[: self.geolevels.index(name)] if name in self.geolevels else self.geolevels[:-1]
        )
        if name == self.finest:
            lists = {one for one in self.entities if isinstance(self.blocks.schema[one], pl.List)}
            names = (*names, *(one for one in self.entities if one not in lists))
        held = self.blocks.select(pl.col(name).alias("geocode"), *names)
        if isinstance(held.schema["geocode"], pl.List):
            held = held.explode("geocode", empty_as_null=False)
        whole = [pl.when(pl.col(one).n_unique() == 1).then(pl.col(one).first()).alias(one) for one in names]
        grouped = held.drop_nulls("geocode").group_by("geocode")
        return grouped.agg(pl.len().cast(pl.Int64).alias("finest_geounits"), *whole).sort("geocode")


RESERVED: Final = ("geocode", "finest_geounits", "POP100", "HU100")
"""Columns of the geography that no geolevel and no family may be named like."""


def published_areas(sources: Sequence[Source]) -> PublishedAreas:
    """The areas of one release, or of two with the same geography.

    Raises:
        GeographyError: the releases have other finest geounits, or areas of the same name with other members; or a
            geolevel or family has the name of another column of the geography.
    """
    first = sources[0]
    blocks, geolevels, entities = first.blocks, list(first.geolevels), list(first.entities)
    for source in sources[1:]:
        _require_same(first, source)
        more = [name for name in source.blocks.columns if name not in blocks.columns]
        blocks = blocks.with_columns(source.blocks.select(more))
        geolevels += [name for name in source.geolevels if name in more]
        entities += [name for name in source.entities if name in more]
    if taken := [name for name in blocks.columns if name in RESERVED]:
        raise GeographyError(
            f"{', '.join(taken)} is the name of a geolevel or family of {first.root}, and of a column of the "
            "geography that is published with the tables. Rename it in the release file.",
            code="publish-geography",
        )
    return PublishedAreas(first.finest, coarse_first(blocks, geolevels), tuple(entities), blocks)


def _require_same(one: Source, other: Source) -> None:
    both = f"{one.root} and {other.root}"
    mend = (
        "Tables of both belong into one publication only if they count the same areas. Publish each by itself, or make "
        "both releases with the same geography and entity tables."
    )
    if one.finest != other.finest:
        raise GeographyError(
            f"the finest geolevel of {one.root} is {one.finest}, that of {other.root} is {other.finest}. {mend}",
            code="publish-geography",
        )
    ours, theirs = one.blocks[one.finest], other.blocks[one.finest]
    apart = sorted(set(ours) ^ set(theirs)) if not ours.equals(theirs) else []
    if apart:
        raise GeographyError(
            f"{both} have different geographies: {len(apart)} {one.finest} geounits are in one of them only, such as "
            f"'{apart[0]}'. {mend}",
            code="publish-geography",
        )
    for name in [name for name in one.blocks.columns if name in other.blocks.columns]:
        here, there = one.blocks[name], other.blocks[name]
        if here.dtype != there.dtype or not here.equals(there):
            raise GeographyError(
                f"{both} have different geographies: {name} does not have the same areas in both. {mend}",
                code="publish-geography",
            )
