"""Optimises a spine by a list of steps. Each step makes a new spine from the previous one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from tallyveil.arrays import Integers
from tallyveil.declared import Declared, Flag, Many, Name, left_out
from tallyveil.errors import GeographyError
from tallyveil.geography.build import Reshaped
from tallyveil.geography.bypass import BypassRule, QueryShares, bypass
from tallyveil.geography.entities import EntityFamily, require_same_spine
from tallyveil.geography.spine import GeounitShares, Spine, path_total, uniform_shares
from tallyveil.geography.steps import (
    PRODUCTION_LIMIT,
    DistanceMeasure,
    FanOutLimit,
    branch_spine,
    cut_by_entities,
    group_by_distance,
    group_by_membership,
)
from tallyveil.schema.names import PlainName


@dataclass(frozen=True)
class Branch(Declared):
    """Cut every geounit, from a geolevel down, by a set of entities into inside and outside (`branch_spine`).

    With `parts`, the cut geolevel stays whole above them; otherwise the parts replace it.
    """

    kind: Annotated[Literal["branch"], Field(description="Kind of the step.")] = field(
        default="branch", kw_only=True
    )
    family: Annotated[
        Name,
        Field(description="Family of the entities that together form the area, such as all tribal areas."),
    ]
    geolevel: Annotated[Name, Field(description="First geolevel to be cut.")]
    name: Annotated[PlainName, Field(description="Name of the branch, written into geocodes.")]
    entities: Annotated[
        Many[Name] | None, Field(description="Entities of the family. Default: all of them.")
    ] = None
    parts: Annotated[
        PlainName | None,
        Field(
            description="Name of a new geolevel for the parts. The cut geolevel then stays whole above them. This is "
            "needed if an invariant or bounds are stated for the cut geolevel."
        ),
    ] = None


@dataclass(frozen=True)
class CutByEntities(Declared):
    """Cut every geounit, from a geolevel down, by many entities at once, as for tract subsets (`cut_by_entities`)."""

    kind: Annotated[Literal["cut_by_entities"], Field(description="Kind of the step.")] = field(
        default="cut_by_entities", kw_only=True
    )
    families: Annotated[
        Many[Name], Field(min_length=1, description="Families whose entities cut the geounits.")
    ]
    geolevel: Annotated[Name, Field(description="First geolevel to be cut.")]
    name: Annotated[PlainName, Field(description="Name of the geolevel of the parts.")]
    keep: Annotated[
        Flag,
        Field(description="Keep the geolevel whole above its parts. If false, the parts replace it."),
    ] = True


@dataclass(frozen=True)
class GroupByMembership(Declared):
    """Make optimised block groups (`group_by_membership`).

    Attributes:
        families: Families whose entities distinguish the children.
        geolevel: Geolevel of the groups.
        children: Geolevel whose geounits are grouped.
        limit: Largest number of children in a group.
    """

    kind: Literal["group_by_membership"] = field(default="group_by_membership", kw_only=True)
    families: Many[Name]
    geolevel: Name
    children: Name
    limit: FanOutLimit = PRODUCTION_LIMIT


@dataclass(frozen=True)
class GroupByDistance(Declared):
    """Make tract groups (`group_by_distance`).

    Attributes:
        families: Families whose distances must not grow.
        geolevel: Geolevel of the groups.
        children: Geolevel whose geounits are grouped.
        limit: Largest number of children in a group.
        remainders: If true, the area outside all entities of a family counts as one more entity, as in the paper.
        gains_first: If true, merges that reduce distances come before merges that leave them equal. The paper does not
            do this.
        measure: What the groups make small: the distances sorted from the largest down (the paper), or their sum.
    """

    kind: Literal["group_by_distance"] = field(default="group_by_distance", kw_only=True)
    families: Many[Name]
    geolevel: Name
    children: Name
    limit: FanOutLimit = PRODUCTION_LIMIT
    remainders: Flag = True
    gains_first: Flag = False
    measure: Annotated[DistanceMeasure, left_out("sorted")] = "sorted"


Step = Branch | CutByEntities | GroupByMembership | GroupByDistance


@dataclass(frozen=True, slots=True, eq=False)
class OptimisedSpine:
    """A spine made from another by steps, with its relation to the original spine.

    Attributes:
        spine: The new spine; its finest geounits are those of the original, with the same geocodes.
        rows: For each finest geounit, its row on the original spine; read-only. `EntityFamily.reordered(rows)` converts
            a family to the new spine.
        origins: For each geolevel, the geounit of the original geolevel with the same name that contains each geounit
            entirely, or -1 if there is none. It is -1 for all geounits of a new geolevel. Known facts about an origin
            apply to the sum of the geounits with this origin: an invariant of a state binds the sum of its two halves.
        shares: Share of every geounit; None if no shares were given.
    """

    spine: Spine
    rows: Integers
    origins: tuple[Integers, ...]
    shares: GeounitShares | None

    def keeps(self, level: int) -> bool:
        """Whether every original geounit of the geolevel is a sum of geounits of the new spine."""
        return not bool(np.any(self.origins[level] < 0))


def optimise_spine(
    spine: Spine,
    families: Sequence[EntityFamily],
    steps: Sequence[Step],
    *,
    shares: Mapping[str, Fraction] | None = None,
    bypassing: BypassRule | None = None,
    most_children: int | None = None,
    queries: QueryShares | None = None,
) -> OptimisedSpine:
    """Apply steps in order and finally bypass geounits.

    Only public geography is used.

    Args:
        spine: The spine at the start.
        families: Families on that spine. Steps refer to them by name.
        steps: The steps, in order.
        shares: Share of every geolevel of the spine that the steps make, summing to exactly 1. Needed for bypassing.
        bypassing: Rule for bypassing; None to bypass nothing.
        most_children: Never bypass a geounit with more children.
        queries: What each geolevel of the spine that the steps make measures; only EVERY_QUERY needs it.

    Raises:
        GeographyError: a step does not fit the spine or names an unknown family, families share a name, or bypassing is
            wanted without shares.
        BudgetError: the shares do not fit the spine that the steps make.
    Source: Cumings-Menon et al. 2023.
    """
    known = _by_name(spine, families)
    reshaped = Reshaped(spine, np.arange(spine.n_geounits(spine.finest), dtype=np.int64))
    for step in steps:
        reshaped = _then(reshaped, _apply(reshaped, known, step))
    # Shares are of geolevels of the spine that the steps made, so that they can be looked up only now.
    geounit_shares = None
    if shares is not None:
        geounit_shares = uniform_shares(reshaped.spine, shares)
    if bypassing is not None:
        if geounit_shares is None:
            raise GeographyError(
                "bypassing moves shares of the privacy-loss budget between geolevels, and none are given. Give a "
                "share for each geolevel.",
                code="spine-step",
            )
        bypassed, geounit_shares = bypass(
            reshaped.spine, geounit_shares, bypassing, most_children=most_children, queries=queries
        )
        reshaped = _then(reshaped, bypassed)
    # Also without bypassing: a measurement may not start with paths of different cost.
    if geounit_shares is not None:
        path_total(reshaped.spine, geounit_shares)
    return _optimised(spine, reshaped, geounit_shares)


def further(
    original: Spine, optimised: OptimisedSpine, change: Reshaped, shares: GeounitShares | None = None
) -> OptimisedSpine:
    """Apply one more change to a spine made by steps.

    Args:
        original: The spine at the start of all steps.
        optimised: The result of the steps so far.
        change: A spine made from `optimised.spine`.
        shares: Share of every geounit of the changed spine.
    """
    return _optimised(original, _then(Reshaped(optimised.spine, optimised.rows), change), shares)


def _optimised(original: Spine, optimised: Reshaped, shares: GeounitShares | None) -> OptimisedSpine:
    # A copy, so that making it read-only does not change the array of the last step.
    rows = optimised.rows.copy()
    rows.flags.writeable = False
    return OptimisedSpine(optimised.spine, rows, origins_of(original, optimised.spine, rows), shares)


def geolevels_after(geolevels: Sequence[str], steps: Sequence[Step]) -> tuple[str, ...]:
    """Names of the geolevels after the steps, root first. No geography is needed for this.

    Raises:
        GeographyError: a step names a geolevel that does not exist when the step is applied.
    """
    names = list(geolevels)
    for step in steps:
        # The geolevel that must already exist: the one that is cut, or the one whose geounits are grouped.
        below = step.geolevel if isinstance(step, Branch | CutByEntities) else step.children
        if below not in names:
            raise GeographyError(
                f"a step of the spine names geolevel '{below}'; the geolevels before this step are "
                f"{', '.join(names)}. Use one of these names.",
                code="spine-step",
            )
        place = names.index(below)
        if isinstance(step, Branch):
            names[place + 1 : place + 1] = [step.parts] if step.parts is not None else []
        elif isinstance(step, CutByEntities):
            names[place : place + 1] = [step.geolevel, step.name] if step.keep else [step.name]
        # A geolevel of groups just above the children is replaced under its own name, and the names stay as they are.
        elif place == 0 or names[place - 1] != step.geolevel:
            names.insert(place, step.geolevel)
    return tuple(names)


def families_of(steps: Sequence[Step]) -> tuple[str, ...]:
    """Names of the families that the steps use, each once, in the order of the steps."""
    named = [(step.family,) if isinstance(step, Branch) else step.families for step in steps]
    return tuple(dict.fromkeys(name for names in named for name in names))


def origins_of(original: Spine, reshaped: Spine, rows: Integers) -> tuple[Integers, ...]:
    """For each geolevel of a spine, the original geounit of the same geolevel that contains each geounit, or -1."""
    origins = []
    for level, name in enumerate(reshaped.geolevels):
        origin = np.full(reshaped.n_geounits(level), -1, dtype=np.int64)
        if name in original.geolevels:
            ancestors = original.ancestors(original.level_index(name))[rows]
            starts = reshaped.finest_offsets(level)[:-1]
            # A geounit is inside an original one if all its finest geounits are: the least and the largest ancestor
            # agree.
            least, most = np.minimum.reduceat(ancestors, starts), np.maximum.reduceat(ancestors, starts)
            origin = np.where(least == most, least, -1)
        origin.flags.writeable = False
        origins.append(origin)
    return tuple(origins)


def _apply(reshaped: Reshaped, known: Mapping[str, EntityFamily], step: Step) -> Reshaped:
    if isinstance(step, Branch):
        # Families are on the spine at the start, and every step reorders the rows: convert at each step from there.
        family = _named(known, step.family).reordered(reshaped.rows)
        inside = family.inside(step.entities)
        return branch_spine(reshaped.spine, inside, step.geolevel, step.name, parts=step.parts)
    families = [_named(known, name).reordered(reshaped.rows) for name in step.families]
    if isinstance(step, CutByEntities):
        return cut_by_entities(
            reshaped.spine, families, geolevel=step.geolevel, name=step.name, keep=step.keep
        )
    if isinstance(step, GroupByMembership):
        return group_by_membership(
            reshaped.spine, families, geolevel=step.geolevel, children=step.children, limit=step.limit
        )
    # Only distances need remainders. Membership already tells the area outside all entities apart.
    if step.remainders:
        families = [family.with_remainder() for family in families]
    return group_by_distance(
        reshaped.spine,
        families,
        geolevel=step.geolevel,
        children=step.children,
        limit=step.limit,
        gains_first=step.gains_first,
        measure=step.measure,
    )


def _then(first: Reshaped, second: Reshaped) -> Reshaped:
    return Reshaped(second.spine, first.rows[second.rows])


def _by_name(spine: Spine, families: Sequence[EntityFamily]) -> dict[str, EntityFamily]:
    known: dict[str, EntityFamily] = {}
    for family in families:
        require_same_spine(spine, family)
        if family.name in known:
            raise GeographyError(
                f"two entity families are called {family.name}. Give each its own name.", code="entity-table"
            )
        known[family.name] = family
    return known


def _named(known: Mapping[str, EntityFamily], name: str) -> EntityFamily:
    if name not in known:
        raise GeographyError(
            f"a step names the entity family {name}; there are {', '.join(known) or 'none'}. Use one of these.",
            code="unknown-entity",
        )
    return known[name]
