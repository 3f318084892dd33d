"""The steps that cut and group the geounits of a spine, so that entities are nearer to it.

`branch_spine` splits a spine by a set of entities, such as all American Indian and Alaska Native areas.
`group_by_membership` makes optimised block groups: the blocks of a tract, grouped by the entities that
contain them. `cut_by_entities` cuts geounits by many entities at once, into the primitive geographies and
tract subsets of the paper. `FanOutLimit` limits the number of children in a group of siblings.

`group_by_distance` makes tract groups: the children of each parent (the tracts of a county) are put into
groups of limited size, so that the off-spine distances of all entities, sorted from the largest down, never
grow (compared lexicographically). It is greedy. Each child starts as its own group. Parents are visited in
the spine's order. In a parent, pairs of groups are visited in the order of their first children. Two groups
are merged if the limit allows it and the vector does not become larger. A merged group keeps the position of
the first of the two, and the visit continues from there. Rounds over all parents are repeated until a round
merges nothing. With `gains_first`, rounds that only accept a smaller vector come first. With the measure "sum", the
groups make the sum of the distances small instead (`least_sum`).

Worked case. A county has tracts 1, 2, 3, and the only entity is tracts 1 and 2, with distance 2 (the two
tracts, or the county minus tract 3). Merging 1 and 2 gives distance 1, so the merge is accepted. Merging
this group with 3 would raise the distance to 2 again, so it is refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import isqrt
from typing import Final, Literal, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.declared import Declared, Whole
from tallyveil.errors import GeographyError
from tallyveil.geography.build import (
    DraftLevel,
    Reshaped,
    draft_level,
    draft_levels,
    first_appearance,
    numbered_codes,
    respine,
)
from tallyveil.geography.entities import EntityFamily, near_and_far, require_same_spine, touched_levels
from tallyveil.geography.least_sum import least_sum
from tallyveil.geography.spine import Spine

DistanceMeasure: TypeAlias = Literal["sorted", "sum"]
"""What groups make small: the off-spine distances sorted from the largest down, or their sum."""

LARGEST_CUTOFF: Final = 10**9
"""Above the number of geounits of any spine, so that a larger one would mean the same, and far from overflow."""


@dataclass(frozen=True)
class FanOutLimit(Declared):
    """A group has at most int(sqrt(n) + cutoff) children, where n siblings are to be grouped.

    If n siblings are grouped, the larger of the number of groups and the group size is at least sqrt(n). The cutoff
    allows larger, and therefore fewer, groups.

    Attributes:
        cutoff: Allowance above the square root; 0 or more. Production used 12.
        at_most: An additional limit that does not depend on n; 1 or more.

    Raises:
        GeographyError: no group could keep the limit.
    Source: Cumings-Menon et al. 2023, section 4.
    """

    cutoff: Whole = 12
    at_most: Whole | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.cutoff <= LARGEST_CUTOFF:
            raise GeographyError(
                f"the fan-out cutoff is {self.cutoff}; wanted 0 or more, and at most {LARGEST_CUTOFF:,}. It is added "
                "to the square root of the number of siblings.",
                code="fan-out-limit",
            )
        if self.at_most is not None and self.at_most < 1:
            raise GeographyError(
                f"the fan-out limit is {self.at_most}, so no group could have a child. Wanted 1 or more, or no limit.",
                code="fan-out-limit",
            )

    def limit(self, n: int) -> int:
        """Largest number of children in a group, out of n siblings."""
        # int(sqrt(n) + cutoff) is isqrt(n) + cutoff, because the cutoff is an integer.
        bound = isqrt(n) + self.cutoff
        return bound if self.at_most is None else min(bound, self.at_most)

    def limits(self, sizes: Integers) -> Integers:
        """The limit for each number of siblings; an array of the same shape."""
        # A country has millions of parents, but few different numbers of children: each limit is computed once.
        distinct, inverse = np.unique(sizes, return_inverse=True)
        limits = np.array([self.limit(n) for n in distinct.tolist()], dtype=np.int64)
        return limits[inverse.reshape(-1)]


PRODUCTION_LIMIT = FanOutLimit()
"""The limit of the 2020 redistricting production."""


def branch_spine(
    spine: Spine, inside: NDArray[np.bool_], geolevel: str, name: str, *, parts: str | None = None
) -> Reshaped:
    """Cut every geounit, from a geolevel down, into its part inside an area and its part outside.

    The area's part of a geounit of that geolevel then becomes a geounit of the spine. A geounit that is cut becomes
    two, with geocodes such as `44+AIAN` (inside) and `44-AIAN` (outside). A geounit entirely on one side keeps its
    geocode. The finest geounits are not cut.

    Args:
        spine: The spine to cut.
        inside: Whether each finest geounit is in the area; see `EntityFamily.inside`.
        geolevel: First geolevel to be cut, such as the state's. It must not be the finest.
        name: Name of the branch. It becomes part of the geocodes.
        parts: Name of a new geolevel for the parts of `geolevel`. The geolevel itself then remains whole above the
            parts, so that exactly published counts of it constrain the sum of the parts. With None, the parts replace
            the geolevel.

    Raises:
        GeographyError: the geolevel is unknown or the finest, the name is empty, the geolevel of parts exists already,
            the mask belongs to another spine, the area is the whole spine, or a new geocode exists already. An area
            without finest geounits cuts nothing, and is no error.
    Source: Cumings-Menon et al. 2023, figure 1.
    """
    top = spine.level_index(geolevel)
    n_finest = spine.n_geounits(spine.finest)
    if top == spine.finest:
        raise GeographyError(
            f"a branch is to start at {geolevel}, the finest geolevel, whose geounits cannot be divided. Name one of "
            f"{', '.join(spine.geolevels[:-1]) or 'the geolevels above it, of which there are none'}.",
            code="spine-step",
        )
    if not name:
        raise GeographyError(
            "a branch has no name, and its geocodes begin with that name. Give it one.", code="spine-step"
        )
    if inside.dtype != np.bool_ or inside.shape != (n_finest,):
        raise GeographyError(
            f"a branch is given by an array of shape {inside.shape} and type {inside.dtype}; wanted {n_finest} "
            "booleans, one for each finest geounit of the spine. Use an entity family that was read on this spine.",
            code="spine-step",
        )
    if bool(inside.all()):
        raise GeographyError(
            f"the area of branch {name} is the whole spine, so no geounit would be divided. Name the entities of the "
            "area; a family together with its remainder covers everything.",
            code="spine-step",
        )
    if parts is not None and parts in spine.geolevels:
        raise GeographyError(
            f"the parts of {geolevel} are to form geolevel {parts}, which the spine already has "
            f"({', '.join(spine.geolevels)}). Give them a new name.",
            code="spine-step",
        )
    # Only the geolevels above the finest can be cut; a finest geounit is on one side entirely.
    levels = [draft_level(spine, level) for level in range(spine.finest)]
    cut = [_cut_in_two(level, inside, name) for level in levels[top:]]
    # With `parts` None the geolevel keeps its name for its parts, and constraints on it bind sums of parts.
    if parts is None:
        return respine(spine, [*levels[:top], *cut])[0]
    renamed = DraftLevel(parts, cut[0].codes, cut[0].geounit_of)
    return respine(spine, [*levels[: top + 1], renamed, *cut[1:]])[0]


def _cut_in_two(level: DraftLevel, inside: NDArray[np.bool_], name: str) -> DraftLevel:
    n = len(level.codes)
    n_inside = np.bincount(level.geounit_of[inside], minlength=n)
    # Strictly between none and all: a geounit on one side keeps its geocode, and published tables still find it.
    is_cut = (n_inside > 0) & (n_inside < np.bincount(level.geounit_of, minlength=n))
    # The parts are numbered in the order of their geounits. A cut geounit has two parts, any other has one.
    first = np.concatenate([[0], np.cumsum(1 + is_cut)]).astype(np.int64)
    # The inside part comes first, so that its number is that of the geounit's first part.
    part_of: Integers = first[level.geounit_of] + (is_cut[level.geounit_of] & ~inside)
    source = np.repeat(np.arange(n, dtype=np.int64), 1 + is_cut)
    is_second = np.arange(len(source)) > first[source]
    ending = np.where(is_cut[source], np.where(is_second, f"-{name}", f"+{name}"), "")
    return DraftLevel(level.name, level.codes.gather(source) + pl.Series(ending), part_of)


def group_by_membership(
    spine: Spine,
    families: Sequence[EntityFamily],
    *,
    geolevel: str,
    children: str,
    limit: FanOutLimit,
) -> Reshaped:
    """Group siblings that are in the same entities, and make the groups a geolevel.

    The container is the geounit above the groups (a tract). Its children (blocks) that are in the same entities of all
    families form a group. A group above the limit is divided, in the spine's order, into the smallest sufficient number
    of parts, of nearly equal sizes. Groups are numbered by their first child; their geocode is the container's, a dot
    and this number. If children are not finest geounits, a child that lies entirely in an entity is distinguished from
    one that lies partly in it.

    Args:
        spine: The spine to change.
        families: Families of this spine.
        geolevel: Name of the geolevel of groups. If it is the geolevel just above the children, it is replaced.
            Otherwise it is inserted above them.
        children: Geolevel whose geounits are grouped, such as the blocks.
        limit: Largest number of children in a group. Its n is the number of children in the container.

    Raises:
        GeographyError: a geolevel is unknown, no geolevel can contain the groups, or a family belongs to another spine.
    Source: Cumings-Menon et al. 2023, section 4 and Algorithm 2.
    """
    child_level, outer_level = group_levels(spine, geolevel, children)
    for family in families:
        require_same_spine(spine, family)
    outer_of_finest = spine.ancestors(outer_level)
    firsts = spine.finest_offsets(child_level)[:-1]
    container_of = outer_of_finest[firsts]
    alike = membership_classes(spine, families, child_level)
    group_of, container_of_group = _groups(container_of, alike, limit)
    return insert_groups(spine, geolevel, child_level, outer_level, group_of, container_of_group)


def group_levels(spine: Spine, geolevel: str, children: str) -> tuple[int, int]:
    """Level of the children, and level of the containers of the groups.

    Raises:
        GeographyError: the geolevel is unknown, or there is no geolevel above to contain the groups.
    """
    child_level = spine.level_index(children)
    # Only the geolevel just above the children can give way: below any other there are geounits that refer to it.
    replaces = child_level > 0 and spine.geolevels[child_level - 1] == geolevel
    if geolevel in spine.geolevels and not replaces:
        raise GeographyError(
            f"groups of {children} are to form geolevel {geolevel}, which the spine has elsewhere "
            f"({', '.join(spine.geolevels)}). Name the geolevel just above {children}, or a new one.",
            code="spine-step",
        )
    outer_level = child_level - 2 if replaces else child_level - 1
    if outer_level < 0:
        raise GeographyError(
            f"groups of {children} as geolevel {geolevel} have no geolevel above to lie in: the geolevels of the "
            f"spine are {', '.join(spine.geolevels)}. Group a lower geolevel, or add a root above.",
            code="spine-step",
        )
    return child_level, outer_level


def insert_groups(
    spine: Spine,
    geolevel: str,
    child_level: int,
    outer_level: int,
    group_of: Integers,
    container_of_group: Integers,
) -> Reshaped:
    """The spine with groups of children as a geolevel, in place of any geolevel between container and children.

    Args:
        spine: The spine to change.
        geolevel: Name of the geolevel of groups.
        child_level: Level of the children.
        outer_level: Level of the containers, one or two above the children.
        group_of: Group of each child.
        container_of_group: Container of each group; must not decrease.
    """
    outer = draft_level(spine, outer_level)
    codes = numbered_codes(outer.codes, container_of_group)
    groups = DraftLevel(geolevel, codes, group_of[spine.ancestors(child_level)])
    drafts = draft_levels(spine)
    return respine(spine, [*drafts[: outer_level + 1], groups, *drafts[child_level:]])[0]


def membership_classes(spine: Spine, families: Sequence[EntityFamily], level: int) -> Integers:
    """A number for each geounit of a geolevel. Two geounits have equal numbers if they lie in the same entities.

    All geounits start in one class. Each entity in turn divides the classes into the part inside it and the rest. So
    the time is proportional to the number of members of the entities, also if entities overlap.
    """
    ancestors, size = spine.ancestors(level), np.diff(spine.finest_offsets(level))
    number = np.zeros(spine.n_geounits(level), dtype=np.int64)
    n_classes = 1
    for family in families:
        for entity in range(family.n_entities):
            members = family.members_of(entity)
            touched, n_inside = members, None
            # Only a finest geounit is wholly inside or wholly outside; others may also lie partly in an entity.
            if level != spine.finest:
                touched, n_inside = np.unique(ancestors[members], return_counts=True)
            parts = [touched] if n_inside is None else [touched, touched[n_inside == size[touched]]]
            for part in parts:
                old, inverse = np.unique(number[part], return_inverse=True)
                # The part gets new classes by its old ones, so that all other geounits keep their numbers.
                number[part] = n_classes + inverse.reshape(-1)
                n_classes += len(old)
    return number


def _groups(container_of: Integers, alike: Integers, limit: FanOutLimit) -> tuple[Integers, Integers]:
    """Group of every child, and container of each group. Groups are numbered by container, then by first child."""
    n = len(container_of)
    limits = limit.limits(np.bincount(container_of, minlength=1))
    # Number the classes within their container first, so that each class lies in one container.
    keys = container_of * (int(alike.max(initial=0)) + 1) + alike
    number, first = first_appearance(keys)
    size = np.bincount(number, minlength=len(first))
    # The smallest sufficient number of parts, rounded up; sizes then differ by at most one.
    parts = -(-size // limits[container_of[first]])
    order = np.argsort(number, kind="stable")
    rank = np.empty(n, dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(size)[:-1]])
    # Rank of each child within its class, in the spine's order, so that parts are runs of neighbours.
    rank[order] = np.arange(n, dtype=np.int64) - np.repeat(starts, size)
    # rank * parts // size deals 0..size-1 out to the parts in runs of nearly equal length.
    part = rank * parts[number] // size[number]
    group, first_child = first_appearance(number * (int(parts.max(initial=1))) + part)
    return group, container_of[first_child]


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
    parts = [_cut_by_parts(draft, alike, ending) for draft in drafts[top:]]
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


def _cut_by_parts(draft: DraftLevel, alike: Integers, ending: pl.Series) -> DraftLevel:
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


def group_by_distance(
    spine: Spine,
    families: Sequence[EntityFamily],
    *,
    geolevel: str,
    children: str,
    limit: FanOutLimit,
    gains_first: bool = False,
    measure: DistanceMeasure = "sorted",
) -> Reshaped:
    """Group siblings greedily while the off-spine distances, sorted from the largest down, do not grow.

    The head of this module describes the method.

    Args:
        spine: The spine to change.
        families: Families of this spine. The distances of all their entities are compared together.
        geolevel: Name of the geolevel of groups. If it is the geolevel just above the children, it is replaced.
            Otherwise it is inserted above them.
        children: Geolevel whose geounits are grouped, such as the tracts. It must not be the finest.
        limit: Largest number of children in a group. Its n is the number of children of the parent.
        gains_first: If true, first make only merges that lower the sorted distances, until there are none, and then
            continue as above. The paper merges groups that leave the distances equal as soon as it meets them, which
            can fill groups that would gain from a later merge.
        measure: What the groups make small: the distances sorted from the largest down, as the paper, or their sum.

    Raises:
        GeographyError: a geolevel is unknown, no geolevel can contain the groups, there is no entity, a family belongs
            to another spine, or `gains_first` is given for the sum.
    Source: Cumings-Menon et al. 2023, Algorithm 2.
    """
    child_level, outer_level = group_levels(spine, geolevel, children)
    if sum(family.n_entities for family in families) == 0:
        raise GeographyError(
            f"groups of {children} are chosen by the off-spine distances of entities, and there are none. Give an "
            "entity family.",
            code="spine-step",
        )
    if gains_first and measure == "sum":
        raise GeographyError(
            "gains_first is about the order of merges by sorted distances, and groups are to be chosen by the sum of "
            "the distances. Leave gains_first out.",
            code="spine-step",
        )
    choose = _group_by_sum if measure == "sum" else partial(_group_of, gains_first=gains_first)
    without = spine
    # The geolevel is there already: its geounits are taken out first, so that groups are made from the children alone.
    if outer_level == child_level - 2:
        drafts = draft_levels(spine)
        taken = respine(spine, [*drafts[: outer_level + 1], *drafts[child_level:]])[0]
        without, families = taken.spine, [family.reordered(taken.rows) for family in families]
        child_level -= 1
        group_of, container_of_group = choose(without, families, child_level, limit)
        inserted = insert_groups(without, geolevel, child_level, outer_level, group_of, container_of_group)
        # Two reorderings one after the other: the rows of the insertion are those of the spine without the old groups.
        return Reshaped(inserted.spine, taken.rows[inserted.rows])
    group_of, container_of_group = choose(without, families, child_level, limit)
    return insert_groups(without, geolevel, child_level, outer_level, group_of, container_of_group)


def _group_of(
    spine: Spine, families: Sequence[EntityFamily], level: int, limit: FanOutLimit, gains_first: bool
) -> tuple[Integers, Integers]:
    """Group of every geounit of a level, and parent of each group."""
    # Inside the function, because importing the kernel compiles or loads it, which most commands never need.
    from tallyveil.kernels.tree.off_spine_distance import EntityEntries, Siblings, merge_siblings

    family = together(families)
    # An entry is a pair of an entity and a geounit that it touches; all others are no cost and are not stored.
    levels = touched_levels(spine, family)
    # One list of the entries of all geolevels above the children, the roots' entries first.
    # Merging changes counts on the way up to the roots. One list lets the kernel follow one index from entry to entry.
    sizes = [len(levels[upper][0].geounit) for upper in range(level)]
    base = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    above = [np.full(sizes[0], -1, dtype=np.int64)]
    above += [base[upper - 1] + _above(levels[upper][1]) for upper in range(1, level)]
    entity = [_entity_of(levels[upper][0].begin) for upper in range(level)]
    entries = EntityEntries(
        np.concatenate([levels[upper][0].inner for upper in range(level)]),
        np.concatenate([levels[upper][0].outer for upper in range(level)]),
        np.concatenate(above),
        np.concatenate(entity),
    )
    parents, children = levels[level - 1][0], levels[level][0]
    near, far = near_and_far(children.inner, children.outer)
    parent_entry = base[level - 1] + _above(levels[level][1])
    # The kernel walks the entries of a child, then those of a parent: both are sorted once, here.
    by_child = np.lexsort((parent_entry, children.geounit))
    by_parent = np.argsort(parents.geounit, kind="stable")
    # A copy: to the compiler a read-only array is another type, and would be compiled a second time.
    child_begin = spine.child_offsets[level - 1].copy()
    siblings = Siblings(
        child_begin,
        limit.limits(np.diff(child_begin)),
        _begin(parents.geounit, spine.n_geounits(level - 1)),
        base[level - 1] + by_parent,
        _begin(children.geounit, spine.n_geounits(level)),
        parent_entry[by_child],
        near[by_child],
        far[by_child],
    )
    # At the start every child is its own group, so that the distance is the one before any merge.
    near_root, _ = near_and_far(levels[0][0].inner, levels[0][0].outer)
    distance = np.zeros(family.n_entities, dtype=np.int64)
    np.add.at(distance, entity[0], near_root)
    first_child, _ = merge_siblings(siblings, entries, distance, gains_first)
    group, first = first_appearance(first_child)
    return group, spine.parents(level)[first]


def _group_by_sum(
    spine: Spine, families: Sequence[EntityFamily], level: int, limit: FanOutLimit
) -> tuple[Integers, Integers]:
    """Group of every geounit of a level, and parent of each group, by the sum of the distances."""
    family = together(families)
    touched = touched_levels(spine, family)[level][0]
    entity, geounit = _entity_of(touched.begin), touched.geounit
    near, far = near_and_far(touched.inner, touched.outer)
    # Entries in the order of their geounits, so that those of one parent are neighbours.
    order = np.argsort(geounit, kind="stable")
    begin = _begin(geounit, spine.n_geounits(level))
    offsets = spine.child_offsets[level - 1]
    group_of = np.zeros(spine.n_geounits(level), dtype=np.int64)
    for start, stop, largest in zip(offsets, offsets[1:], limit.limits(np.diff(offsets)), strict=False):
        entries = order[begin[start] : begin[stop]]
        entities, row = np.unique(entity[entries], return_inverse=True)
        # A child that an entity does not touch has nothing of it, and is itself the rest.
        parts = np.zeros((len(entities), stop - start), dtype=np.int64)
        rests = np.ones_like(parts)
        for matrix, values in ((parts, near), (rests, far)):
            matrix[row.reshape(-1), geounit[entries] - start] = values[entries]
        group_of[start:stop] = start + least_sum(parts, rests, int(largest))
    group, first = first_appearance(group_of)
    return group, spine.parents(level)[first]


def together(families: Sequence[EntityFamily]) -> EntityFamily:
    # One family, because the vector that is compared holds the distances of all families' entities.
    """All entities as one family, with numbers as names, because the names do not matter here."""
    width = len(str(sum(family.n_entities for family in families)))
    codes = tuple(f"{number:0{width}}" for number in range(sum(family.n_entities for family in families)))
    sizes = np.concatenate([family.sizes for family in families])
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    members = np.concatenate([family.members for family in families])
    return EntityFamily("all", codes, offsets, members, families[0].n_finest)


def _above(above: Integers | None) -> Integers:
    if above is None:
        raise GeographyError("roots have no geolevel above them. Give a geolevel below the root.")
    return above


def _entity_of(begin: Integers) -> Integers:
    return np.repeat(np.arange(len(begin) - 1, dtype=np.int64), np.diff(begin))


def _begin(labels: Integers, n: int) -> Integers:
    return np.concatenate([[0], np.cumsum(np.bincount(labels, minlength=n))]).astype(np.int64)
