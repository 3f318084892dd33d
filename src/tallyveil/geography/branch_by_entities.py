"""Cuts geounits by many entities at once, into the primitive geographies and tract subsets of the paper."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.errors import GeographyError
from tallyveil.geography.block_groups import membership_classes
from tallyveil.geography.distance import require_same_spine
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.respine import (
    DraftLevel,
    Reshaped,
    draft_levels,
    first_appearance,
    respine,
)
from tallyveil.geography.spine import Spine


def cut_by_entities(
    spine: Spine, families: Sequence[EntityFamily], *, geolevel: str, name: str, keep: bool
) -> Reshaped:
    """Cut every geounit, from a geolevel down, into parts by the entities that contain them.

    The finest geounits of a geounit that are in the same entities of all families form a part. The parts become a
    geolevel, and all finer geolevels except the finest are cut in the same way. A geounit that is one part keeps its
    geocode. Other parts add the entities' names: `44007+59000`, and `44007+` for the part in no entity.

    Args:
        spine: The spine to cut.
        families: Families of this spine.
        geolevel: First geolevel to be cut. It must not be the finest.
        name: Name of the geolevel of parts.
        keep: If true, the geolevel remains, with the parts as a new geolevel below it. Otherwise the parts replace it.

    Raises:
        GeographyError: the geolevel is unknown or the finest, the name or a new geocode exists already, there is no
            family, or a family belongs to another spine.
    Source: Cumings-Menon et al. 2023, section 6 (prims and tract subsets).
    """
    top = spine.level_index(geolevel)
    if top == spine.finest:
        raise GeographyError(
            f"{geolevel} is the finest geolevel, whose geounits cannot be divided. Name a geolevel above it.",
            code="spine-step",
        )
    # A geolevel that is replaced gives its name free, so that the parts may take it over.
    taken = [level for level in spine.geolevels if keep or level != geolevel]
    if not name or name in taken:
        raise GeographyError(
            f"the parts of {geolevel} are to form geolevel '{name}'; wanted a name other than {', '.join(taken)}. "
            "Rename it.",
            code="spine-step",
        )
    if not families:
        raise GeographyError(
            f"no entity family is named by which {geolevel} is to be divided. Name the families.",
            code="spine-step",
        )
    for family in families:
        require_same_spine(spine, family)
    # Classes are made at the finest geolevel and then numbered as they appear, so that no number depends on the
    # families' size.
    alike, _ = first_appearance(membership_classes(spine, families, spine.finest))
    ending = _endings(families, alike)
    drafts = draft_levels(spine)
    # All geolevels are cut by the same classes of finest geounits. So each part lies in one part of the geolevel above.
    parts = [_cut(draft, alike, ending) for draft in drafts[top:]]
    named = DraftLevel(name, parts[0].codes, parts[0].geounit_of)
    above = drafts[: top + 1] if keep else drafts[:top]
    return respine(spine, [*above, named, *parts[1:]])[0]


def _endings(families: Sequence[EntityFamily], alike: Integers) -> pl.Series:
    """For each class, the names of its entities: families are separated by "/", entities of a family by "&"."""
    _, first = np.unique(alike, return_index=True)
    # Each class has the same entities throughout, so that one of its finest geounits stands for all of them.
    n = len(first)
    class_at = np.full(len(alike), -1, dtype=np.int64)
    class_at[first] = np.arange(n)
    columns: list[list[str]] = []
    for family in families:
        names: list[list[str]] = [[] for _ in range(n)]
        # The members of all entities are visited once; a search in each entity for each class would take classes x
        # entities.
        entity = np.repeat(np.arange(family.n_entities, dtype=np.int64), family.sizes)
        seen = class_at[family.members]
        for place, number in zip(seen[seen >= 0].tolist(), entity[seen >= 0].tolist(), strict=True):
            names[place].append(family.codes[number])
        columns.append(["&".join(entities) for entities in names])
    return pl.Series(["+" + "/".join(parts) for parts in zip(*columns, strict=True)], dtype=pl.String)


def _cut(draft: DraftLevel, alike: Integers, ending: pl.Series) -> DraftLevel:
    # geounit and class in one number: below n_geounits * n_classes, far from 2**63.
    part_of, first = first_appearance(draft.geounit_of * len(ending) + alike)
    source = draft.geounit_of[first]
    # Only a geounit with two parts or more is cut; a part that is a whole geounit keeps its geocode.
    is_cut = np.bincount(source, minlength=len(draft.codes))[source] > 1
    source_codes = draft.codes.gather(source)
    frame = pl.DataFrame({"source": source_codes, "ending": ending.gather(alike[first]), "cut": is_cut})
    codes = frame.select(
        pl.when("cut").then(pl.col("source") + pl.col("ending")).otherwise("source").alias("code")
    )
    return DraftLevel(draft.name, codes["code"], part_of)
