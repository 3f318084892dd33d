"""The areas of a release as its explorer shows them: kinds, in one order, with the tree and the members of entities.

The geolevels of the explorer are those of the geography as people know it. Where the spine that was measured cut or
regrouped them, they are restored from the release, and the geolevels that only the spine has are families beside them.
So the geolevels of the explorer are always one tree whose finest geounits are in depth-first order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.geography.areas import Hierarchies, geounits_as_entities
from tallyveil.geography.build import spine_from_columns
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.spine import Spine
from tallyveil.storage.json_files import JsonObject


class KindType(StrEnum):
    """Whether the areas of a kind are geounits of the tree, or sets of its finest geounits."""

    GEOLEVEL = "geolevel"
    FAMILY = "family"


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """All areas of one kind.

    Attributes:
        name: The geolevel, or the family of entities.
        type: Which of the two.
        codes: Geocode, or name of the entity, of every area.
        in_order: Whether the tables of the release have the areas in this order.
        family: For a family, the finest geounits of each entity, as rows of the finest kind; None for a geolevel.
    """

    name: str
    type: KindType
    codes: pl.Series
    in_order: bool
    family: EntityFamily | None = None

    @property
    def n(self) -> int:
        """Number of areas."""
        return len(self.codes)

    @property
    def rises(self) -> bool:
        """Whether the codes are sorted, so that an area can be looked up by halving."""
        return bool(self.codes.is_sorted())


@dataclass(frozen=True, slots=True, eq=False)
class Areas:
    """The kinds of areas of one release.

    Attributes:
        spine: The spine that was measured.
        tree: The geolevels of the explorer, root first. It is `spine` itself where that is the geography as given.
        kinds: The geolevels of `tree`, then the families.
        measured: For each finest geounit of `tree`, its row in the finest geolevel of `spine`.
        names: Columns `geolevel`, `geocode` and `name`; None if the release has no names.
    """

    spine: Spine
    tree: Spine
    kinds: tuple[Kind, ...]
    measured: Integers
    names: pl.DataFrame | None

    @property
    def finest(self) -> int:
        """Number of the finest geolevel's kind."""
        return self.tree.finest

    def parent(self, number: int) -> int | None:
        """The kind whose areas contain those of a kind whole; None for roots and families."""
        return number - 1 if 0 < number <= self.finest else None


def areas_of(hierarchies: Hierarchies, plan: JsonObject) -> Areas:
    """The areas of a release.

    Args:
        hierarchies: Its spine, and the areas beside it.
        plan: Its plan, which names the geolevels of the geography and the families with tables.
    """
    spine = hierarchies.spine
    tree = _tree(hierarchies, _planned_geolevels(plan, spine))
    measured = spine.locate(spine.finest, tree.geocodes[tree.finest].text)
    of_plan = [
        geounits_as_entities(spine, level)
        for level in hierarchies.known_levels
        if spine.geolevels[level] not in tree.geolevels
    ]
    published = [hierarchies.family(name) for name in plan.get("entities", [])]
    geolevels = zip(tree.geolevels, tree.geocodes, strict=True)
    kinds = [Kind(name, KindType.GEOLEVEL, codes.text, tree is spine) for name, codes in geolevels]
    for family, in_order in (*((entry, False) for entry in of_plan), *((entry, True) for entry in published)):
        codes = pl.Series(family.codes, dtype=pl.String)
        kinds.append(Kind(family.name, KindType.FAMILY, codes, in_order, family.reordered(measured)))
    return Areas(spine, tree, tuple(kinds), measured, hierarchies.names)


def _planned_geolevels(plan: JsonObject, spine: Spine) -> Sequence[str]:
    """The geolevels of the geography that the release was given."""
    stated = plan.get("spine")
    return spine.geolevels if stated is None else tuple(stated["from"])


def _tree(hierarchies: Hierarchies, geolevels: Sequence[str]) -> Spine:
    """The tree of the geography that the release was given."""
    spine = hierarchies.spine
    if tuple(geolevels) == spine.geolevels and not hierarchies.replaced:
        return spine
    replaced = {family.name: family for family in hierarchies.replaced}
    columns = {
        name: _of_family(replaced[name])
        if name in replaced
        else spine.geocodes[spine.level_index(name)].text.gather(spine.ancestors(spine.level_index(name)))
        for name in geolevels
    }
    return spine_from_columns(columns, list(geolevels))


def _of_family(family: EntityFamily) -> pl.Series:
    """The entity of every finest geounit, where each is in exactly one."""
    entity = np.empty(family.n_finest, dtype=np.int64)
    entity[family.members] = np.repeat(np.arange(family.n_entities, dtype=np.int64), family.sizes)
    return pl.Series(family.codes, dtype=pl.String).gather(entity)
