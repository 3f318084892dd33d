"""Chooses groups of geounits so that published variances become small, by local search with exact variances.

Problem. A spine has a geolevel of groups (such as block groups) between containers (such as tracts) and their
children (such as blocks). Each container's children may be grouped in any way that keeps the largest group
size. Wanted are groups that make an aim small: a weighted sum of mean variances, or the largest weighted
variance. Limits on other families and geolevels must hold.

`group_by_variance` searches round by round. What the rest of the spine means for one container while its inside
changes is in `Surroundings`; `search_containers` finds good groups in every container by itself, with the rest fixed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Floats, Integers
from tallyveil.budget.caps import FIRST_WEIGHT, CapTrial, excess, limiting_weights, over
from tallyveil.budget.spine.variance import SpineVariances, entity_parts, entity_variances, spine_variances
from tallyveil.errors import BudgetError, GeographyError
from tallyveil.geography.build import Reshaped, first_appearance
from tallyveil.geography.entities import EntityFamily
from tallyveil.geography.spine import Spine
from tallyveil.geography.steps import FanOutLimit, insert_groups, membership_classes, together

if TYPE_CHECKING:
    from tallyveil.kernels.tree.variance import Container, EntityParts


@dataclass(frozen=True, slots=True, eq=False)
class Surroundings:
    """For every geounit of a geolevel, what the measurements outside it contribute.

    Problem. The groups inside a geounit (the container) are to be changed. Every variance of the spine then
    changes through the container's total only. Wanted are the few numbers that describe the measurements outside
    the container.

    Variables. For a geounit at some level: v is its variance from the measurements in its own subtree; pi is the
    precision of its parent's total from the parent's own measurement and from outside the parent; s is the sum of
    v over the geounit's siblings; d = 1 + pi s.

    Steps. The recursion goes from the roots down to the wanted geolevel.
    - The outside measurements determine the geounit's total with precision pi / d.
    - If the geounit's total is given and grows by 1, the parent's total moves by 1 / d and the total of a sibling
      with variance v' moves by -pi v' / d.
    - Adding these moves gives each entity's slope outside the geounit, and the weighted sum of squared slopes.

    Stopping rule. There is one step for each geolevel above the wanted one.

    Worked case. A root and its two children are each measured with variance 1. For one child, pi = 1, s = 1 and d
    = 2. Its sibling and the root determine its total with precision 1/2: the root's measurement minus the
    sibling's has variance 2. Together with its own measurement, the child's variance is 1 / (1 + 1/2) = 2/3.

    Given a geounit's total, the part of an entity outside the geounit is estimated as slope x the geounit's total, plus
    an error that is independent of the measurements inside the geounit.

    Attributes:
        precision: Precision with which all measurements outside determine the geounit's total; shape (n_geounits,).
        weight: Sum of weight times squared slope on the total, over all variances outside except those of entities that
            touch the geounit.
        outside_slope: For every entry of the geolevel (an entity in a geounit), the slope of the entity's part outside.
    """

    precision: Floats
    weight: Floats
    outside_slope: Floats


class _Weights(NamedTuple):
    """Weights of the variances whose sum is wanted.

    Attributes:
        geounits: For each geolevel, weight of each geounit's variance.
        carried: For each geolevel, weight of each geounit's variance and of all below it, from `carried_weights`.
        entities: Weight of each entity's variance.
    """

    geounits: tuple[Floats, ...]
    carried: tuple[Floats, ...]
    entities: Floats


def carried_weights(variances: SpineVariances, weights: tuple[Floats, ...]) -> tuple[Floats, ...]:
    """For every geounit, how much the weighted sum of variances in its subtree grows with its own variance."""
    carried = [weights[-1]]
    for level in range(variances.spine.finest - 1, -1, -1):
        total = variances.family(level).total
        shares = np.add.reduceat(
            carried[0] * variances.below[level + 1] ** 2, variances.spine.child_offsets[level][:-1]
        )
        carried.insert(0, weights[level] + _over(shares, total**2))
    return tuple(carried)


def outside_of(
    variances: SpineVariances,
    levels: "tuple[tuple[EntityParts, Integers | None], ...]",
    entity_weights: Floats,
    weights: tuple[Floats, ...],
    level: int,
) -> Surroundings:
    """Go down from the roots to a geolevel and describe the surroundings of its geounits.

    Args:
        variances: Variances; all must be finite.
        levels: The entries of the entities at each geolevel, from `entity_parts`.
        entity_weights: Weight of each entity's variance.
        weights: For each geolevel, weight of each geounit's variance.
        level: The wanted geolevel.
    """
    weighing = _Weights(weights, carried_weights(variances, weights), entity_weights)
    n_roots = variances.spine.n_geounits(0)
    here = Surroundings(np.zeros(n_roots), np.zeros(n_roots), np.zeros(len(levels[0][0].geounit)))
    for upper in range(level):
        entries, above = levels[upper + 1]
        if above is None:
            break
        here = _down(variances, levels[upper][0], entries, above, weighing, upper, here)
    return here


def _down(
    variances: SpineVariances,
    parents: "EntityParts",
    children: "EntityParts",
    above: Integers,
    weighing: _Weights,
    level: int,
    here: Surroundings,
) -> Surroundings:
    """One step of the recursion in the head of this module: from the parents of a geolevel to their children."""
    family = variances.family(level)
    weights, carried, entity_weights = weighing
    pi = variances.precisions[level] + here.precision
    known = np.isinf(pi)
    finite = np.where(known, 1.0, pi)
    v = variances.below[level + 1]
    siblings = np.maximum(family.total[family.parent] - v, 0.0)
    # For an exactly known parent, pi is infinite. Dividing everything by pi replaces 1 by 0 and pi by 1.
    finite_share = np.where(known, 0.0, 1.0)
    d = finite_share[family.parent] + finite[family.parent] * siblings
    precision = np.where(d > 0, finite[family.parent] / np.where(d > 0, d, 1.0), np.inf)
    moved = (
        finite_share[parents.geounit] * here.outside_slope
        - finite[parents.geounit] * parents.slope * family.total[parents.geounit]
    )
    child = children.geounit
    passed_down = finite[family.parent[child]] * children.slope * v[child]
    outside_slope = _over(moved[above] + passed_down, d[child])
    entity = np.repeat(np.arange(len(children.begin) - 1), np.diff(children.begin))
    entity_above = np.repeat(np.arange(len(parents.begin) - 1), np.diff(parents.begin))
    touching = np.bincount(parents.geounit, entity_weights[entity_above] * moved**2, minlength=len(pi))
    touched_here = np.bincount(child, entity_weights[entity] * moved[above] ** 2, minlength=len(v))
    share = carried[level + 1] * v**2
    shares = np.add.reduceat(share, variances.spine.child_offsets[level][:-1])
    from_outside = finite_share**2 * (here.weight + weights[level])
    outside = from_outside[family.parent] + np.maximum(touching[family.parent] - touched_here, 0.0)
    outside += finite[family.parent] ** 2 * np.maximum(shares[family.parent] - share, 0.0)
    return Surroundings(precision, _over(outside, d**2), outside_slope)


def _over(numerator: Floats, denominator: Floats) -> Floats:
    quotient: Floats = np.where(denominator > 0, numerator / np.where(denominator > 0, denominator, 1.0), 0.0)
    return quotient


MOST_PASSES = 6
"""Largest number of passes from one start."""


@dataclass(frozen=True, slots=True, eq=False)
class FixedTerms:
    """What the search of all containers needs, laid out so that each container's part is contiguous.

    Attributes:
        below: Variance of every child from its own subtree.
        carried: Weight of every child's variance, including all variances below that depend on it.
        alike: Children with the same number are interchangeable. None treats all children as different.
        begin_child, entry, slope: Entities that touch each child, numbered within its container, and their slopes.
        begin_outer, weight, outside_slope: Entities that touch each container, their weights, and the slopes of their
            parts outside the container.
        outside: For every container: weight of the surroundings, precision from them, own precision, own weight.
    """

    below: Floats
    carried: Floats
    alike: Integers | None
    begin_child: Integers
    entry: Integers
    slope: Floats
    begin_outer: Integers
    weight: Floats
    outside_slope: Floats
    outside: tuple[Floats, Floats, Floats, Floats]

    def container(self, u: int, children: slice, group_precision: float, limit: int) -> "Container":
        """Container u, as the kernel takes it."""
        from tallyveil.kernels.tree.variance import Container

        first, last = int(self.begin_child[children.start]), int(self.begin_child[children.stop])
        touching = slice(int(self.begin_outer[u]), int(self.begin_outer[u + 1]))
        n = children.stop - children.start
        alike = np.arange(n) if self.alike is None else _numbered(self.alike[children])
        weight, precision, own_precision, own_weight = (float(column[u]) for column in self.outside)
        below = self.below[children].copy()
        # An exactly published total gets a precision far above all others, because the kernel needs a finite number.
        known = not np.isfinite(own_precision)
        return Container(
            below,
            self.carried[children].copy(),
            alike,
            self.begin_child[children.start : children.stop + 1] - first,
            self.entry[first:last],
            self.slope[first:last],
            self.weight[touching],
            self.outside_slope[touching],
            weight,
            precision,
            1e9 / float(below.min()) if known else own_precision,
            own_weight,
            group_precision,
            limit,
        )


def fixed_terms(
    variances: SpineVariances, families: Sequence[EntityFamily], weights: Mapping[str, Floats], level: int
) -> FixedTerms:
    """Compute everything that remains fixed while the groups of a geolevel change.

    Args:
        variances: Variances on the spine.
        families: Families of the spine, named in `weights`.
        weights: Weight of every single variance, by family and by geolevel.
        level: Level of the groups.

    Raises:
        BudgetError: some variance cannot be estimated.
        GeographyError: there is no geolevel above the groups.
    """
    spine = variances.spine
    if any(not np.all(np.isfinite(below)) for below in variances.below):
        raise BudgetError(
            "the measurements do not determine the answer of some geounit, so its variance is infinite. Measure the "
            "finest geolevel."
        )
    everything = together(families) if families else _nothing(spine)
    entity_weights = np.concatenate([np.zeros(0), *(weights[family.name] for family in families)])
    by_level = tuple(
        np.asarray(weights.get(name, np.zeros(spine.n_geounits(i)))) for i, name in enumerate(spine.geolevels)
    )
    levels = entity_parts(variances, everything)
    out = outside_of(variances, levels, entity_weights, by_level, level - 1)
    outer, (children, up), own_precision = levels[level - 1][0], levels[level + 1], levels[level][1]
    if own_precision is None or up is None:
        raise GeographyError(
            "groups of geounits need a geolevel above them, and this is the root. Name a geolevel below the root."
        )
    order = np.argsort(outer.geounit, kind="stable")
    begin_outer = _begin(outer.geounit, spine.n_geounits(level - 1))
    local = np.empty(len(order), dtype=np.int64)
    local[order] = np.arange(len(order)) - begin_outer[outer.geounit[order]]
    entity = np.repeat(np.arange(len(outer.begin) - 1), np.diff(outer.begin))
    by_child = np.argsort(children.geounit, kind="stable")
    return FixedTerms(
        variances.below[level + 1],
        carried_weights(variances, by_level)[level + 1],
        membership_classes(spine, families, level + 1) if level + 1 == spine.finest else None,
        _begin(children.geounit, spine.n_geounits(level + 1)),
        local[own_precision[up]][by_child],
        children.slope[by_child],
        begin_outer,
        entity_weights[entity[order]],
        out.outside_slope[order],
        (out.weight, out.precision, variances.precisions[level - 1], by_level[level - 1]),
    )


def search_containers(
    variances: SpineVariances,
    families: Sequence[EntityFamily],
    weights: Mapping[str, Floats],
    level: int,
    limit: FanOutLimit,
    group_precision: float,
    *,
    from_classes: bool = True,
) -> tuple[Integers, Floats]:
    """Search for good groups in every container, with everything else fixed.

    Problem. A container's children are to be put into groups of limited size so that the weighted sum of all
    variances becomes small. With everything else fixed, this sum depends on the container's groups only through a
    few numbers. They are the terms of `FixedTerms`: for each child its variance from below and what depends on
    it, for each entity its slope and weight, and for the surroundings a precision and a weight.

    Steps. The compiled kernel (`kernels.tree.variance`) starts from the present groups and does passes. A pass
    moves each child to the group where the sum is smallest, then merges pairs of groups. For finest geounits the
    kernel starts a second time, from groups of children that are in the same entities, and the better result is
    kept.

    Stopping rule. A start ends when a pass changes nothing, or after `MOST_PASSES` passes.

    Worked case of the second start: children of kinds a a a b b with at most two in a group give the groups aa,
    a, bb.

    Args:
        found, families, weights, level: As in `fixed_terms`.
        limit: Largest number of children in a group.
        group_precision: Precision of a group's own measurement.
        from_classes: Whether to start also from finest geounits grouped by the entities that contain them.
    Returns:
        For every child, its group within its container, numbered from 0. For every container, the amount by which its
        new groups lower the weighted sum.
    """
    spine = variances.spine
    fixed = fixed_terms(variances, families, weights, level)
    by_class = from_classes and fixed.alike is not None
    first_child = spine.child_offsets[level][spine.child_offsets[level - 1]]
    parent = spine.parents(level + 1)
    group_of = np.empty(len(parent), dtype=np.int64)
    gains = np.zeros(spine.n_geounits(level - 1))
    for u in range(len(gains)):
        children = slice(int(first_child[u]), int(first_child[u + 1]))
        here = parent[children] - parent[children.start]
        group_of[children] = here
        if len(here) > 1 and np.isfinite(fixed.outside[1][u]):
            container = fixed.container(u, children, float(group_precision), limit.limit(len(here)))
            group_of[children], gains[u] = _searched_container(container, here, by_class)
    return group_of, gains


def _searched_container(container: "Container", here: Integers, by_class: bool) -> tuple[Integers, float]:
    """The best groups found for one container, from its present groups and from classes of alike children."""
    from tallyveil.kernels.tree.variance import regroup

    best = here.copy()
    start, least = regroup(container, best, MOST_PASSES)
    if by_class:
        other = _classes(container.alike, container.limit)
        _, value = regroup(container, other, MOST_PASSES)
        if value < least - abs(least) * 1e-11:
            best, least = other, value
    return best, start - least


def _classes(alike: Integers, limit: int) -> Integers:
    """Groups of alike children, split into as few nearly equal parts as the limit allows."""
    order = np.argsort(alike, kind="stable")
    size = np.bincount(alike)
    rank = np.empty(len(alike), dtype=np.int64)
    rank[order] = np.arange(len(alike)) - np.repeat(np.cumsum(size) - size, size)
    parts = -(-size // limit)
    return _numbered(alike * len(alike) + rank * parts[alike] // size[alike])


def _numbered(labels: Integers) -> Integers:
    numbers: Integers = np.unique(labels, return_inverse=True)[1].reshape(-1).astype(np.int64, copy=False)
    return numbers


def _nothing(spine: Spine) -> EntityFamily:
    none = np.zeros(0, dtype=np.int64)
    return EntityFamily("none", (), np.zeros(1, dtype=np.int64), none, spine.n_geounits(spine.finest))


def _begin(labels: Integers, n: int) -> Integers:
    return np.concatenate([[0], np.cumsum(np.bincount(labels, minlength=n))]).astype(np.int64)


POWER = 8
"""For the maximum, the search uses the derivatives of the sum of variances to this power."""
FRACTIONS = (1.0, 0.5, 0.2, 0.05)
"""Parts of the gaining containers that a round tries to change, in this order."""
GIVEN = "given "
"""Prefix of a geolevel's name that refers to the geounits of the geography, not to the newly chosen groups."""


class Measure(StrEnum):
    """The quantity that the search minimises."""

    SUM = "sum"
    """The weighted sum of mean variances, each divided by its value at the start."""
    MAXIMUM = "maximum"
    """The largest weighted variance of any single entity or geounit."""


@dataclass(frozen=True, slots=True)
class RegroupingAim:
    """What the groups are chosen for.

    Attributes:
        families: Weight of each family of entities.
        geolevels: Weight of each geolevel. The geolevel of the groups cannot be named.
        measure: Sum or maximum.
        spare_all: With the sum, never let the mean variance of a family or geolevel of the aim grow.
    """

    families: tuple[tuple[str, float], ...]
    geolevels: tuple[tuple[str, float], ...] = ()
    measure: Measure = Measure.SUM
    spare_all: bool = True


@dataclass(frozen=True, slots=True)
class PartVariance:
    """Variances of one family's entities or one geolevel's geounits.

    Attributes:
        name: The family or geolevel.
        mean: Mean of the variances, in counts squared.
        greatest: Largest variance, in counts squared.
        deviation: Mean of the standard deviations, in counts.
    """

    name: str
    mean: float
    greatest: float
    deviation: float


@dataclass(frozen=True, slots=True, eq=False)
class Regrouped:
    """A spine with other groups.

    Attributes:
        spine: The new spine.
        rows: For each finest geounit, its row on the given spine.
        before: Variances on the given spine of every family and geolevel in the aim or with a limit.
        after: The same on the new spine.
        rounds: Number of rounds that improved it.
        unmet: Families and geolevels whose limit the new spine does not keep. The given spine did not keep it either.
    """

    spine: Spine
    rows: Integers
    before: tuple[PartVariance, ...]
    after: tuple[PartVariance, ...]
    rounds: int
    unmet: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _RegroupingState:
    """A spine with the variances of everything in the aim or with a limit: entities by family, geounits by geolevel."""

    reshaped: Reshaped
    variances: SpineVariances
    values: dict[str, Floats]

    def deviations(self) -> dict[str, float]:
        """Mean standard deviation of each family and geolevel."""
        return {name: float(np.sqrt(values).mean()) for name, values in self.values.items()}


@dataclass(frozen=True, slots=True, eq=False)
class _Task:
    """What stays the same throughout a search.

    Attributes:
        families: Families in the aim or with a limit, on the spine at the start.
        precisions, aim, limits: As in `group_by_variance`.
        level: Level of the groups.
        limit: Largest number of children in a group.
        start: The spine at the start.
    """

    families: Sequence[EntityFamily]
    precisions: Mapping[str, float]
    aim: RegroupingAim
    limits: Mapping[str, float]
    level: int
    limit: FanOutLimit
    start: _RegroupingState

    @property
    def spared(self) -> bool:
        """Whether no mean variance of the aim may grow above its value at the start."""
        return self.aim.spare_all and self.aim.measure is Measure.SUM


def group_by_variance(
    spine: Spine,
    families: Sequence[EntityFamily],
    precisions: Mapping[str, float],
    *,
    geolevel: str,
    limit: FanOutLimit,
    aim: RegroupingAim,
    limits: Mapping[str, float] | None = None,
    most_rounds: int = 12,
) -> Regrouped:
    """Choose new groups at one geolevel so that variances fall, starting from the present groups.

    Steps. One round searches each container by itself, with the rest of the spine fixed (`search_containers`). A
    container's effect on every variance of the spine is then known exactly (`Surroundings`). The round's changes are
    combined, and all variances are computed again from the whole spine. The round is kept only if this
    computation shows an improvement that breaks no limit that held before. Otherwise only half, a fifth or a
    twentieth of the containers that gain most are changed. If a part that may not grow did grow, its weight is
    multiplied by 3 and the search repeated.

    Stopping rule. The method stops when a round finds no improvement and nothing to weigh more, or at the round
    limit.

    Worked case. A container has four blocks, 1 to 4. Each block and each group is measured with variance 1, and
    the container is not measured. The entity is blocks 1 and 2. With groups {1, 3} and {2, 4}, blocks 1 and 2
    have independent errors of variance 2/3 each, so the entity has variance 4/3. With groups {1, 2} and {3, 4},
    the first group is the entity, and its variance is 1 / (1 + 1/2) = 2/3. So the second grouping is chosen.

    The head of this module describes the method. For the children of a container, single children are moved between
    groups, and groups are merged. If the children are finest geounits, the first round also starts from groups of
    children that are in the same entities. The aim is never worse than at the start, unless the given spine breaks a
    limit: then keeping the limit goes before the aim.

    A variance that is neither in the aim nor in `limits` may grow without bound. A limited family also has a weight in
    the search, and this weight is raised until the limit holds (`limiting_weights`). Every round that is kept leaves
    all limits intact that held before it, by the variances computed again for the whole spine. `unmet` names the limits
    that remain broken.

    Args:
        spine: The spine, with the groups to start from (such as those of Cumings-Menon et al. 2023).
        families: Families of this spine.
        precisions: For each geolevel, the precision of a geounit's own measurement. It must be above 0 at the finest
            geolevel, and finite except at the roots. All geounits of a geolevel have the same, so bypass afterwards.
        geolevel: Geolevel of the groups: neither the finest nor the roots.
        limit: Largest number of children in a group. Its n is the number of children in the container, as in the paper.
        aim: What is to be made small.
        limits: Largest mean standard deviation, in counts, of families and geolevels outside the aim.
        most_rounds: Largest number of rounds.

    Raises:
        GeographyError: a geolevel or family is unknown, or the groups have no geolevel above or none below.
        BudgetError: precisions are missing or out of range, a weight is not above 0, or a variance cannot be estimated.
    """
    level = spine.level_index(geolevel)
    if not 0 < level < spine.finest:
        raise GeographyError(
            f"groups of geolevel {geolevel} cannot be chosen: such a geolevel needs one geolevel above it and one "
            "below it. Name another geolevel.",
            code="spine-step",
        )
    bounds = dict(limits or {})
    _check_aim(spine, families, precisions, aim, geolevel, bounds)
    named = {*dict(aim.families), *bounds}
    used = [family for family in families if family.name in named]
    levels = [*dict(aim.geolevels), *(name for name in bounds if name in spine.geolevels)]
    whole = Reshaped(spine, np.arange(spine.n_geounits(spine.finest)))
    start = _evaluated(whole, used, precisions, levels)
    task = _Task(used, precisions, aim, bounds, level, limit, start)
    current, rounds = start, 0
    scale = _first_scale(task)
    for _ in range(most_rounds):
        # After the first kept round, the groups already reflect what starting from classes can find.
        groups, gains = _searched(task, current, scale, from_classes=rounds == 0)
        better, worse = _best_of(task, current, groups, gains)
        if better is not None:
            current, rounds = better, rounds + 1
        elif worse:
            # Some part would grow. Give it more weight and search again.
            scale = {name: weight * (3.0 if name in worse else 1.0) for name, weight in scale.items()}
        else:
            break
    reshaped, unmet = current.reshaped, over(current.deviations(), bounds)
    return Regrouped(reshaped.spine, reshaped.rows, _parts(start), _parts(current), rounds, unmet)


def _check_aim(
    spine: Spine,
    families: Sequence[EntityFamily],
    precisions: Mapping[str, float],
    aim: RegroupingAim,
    geolevel: str,
    limits: Mapping[str, float],
) -> None:
    known = {family.name for family in families if family.n_entities}
    strange = [name for name, _ in aim.families if name not in known]
    strange += [name for name, _ in aim.geolevels if name not in spine.geolevels or name == geolevel]
    strange += [name for name, _ in aim.families if name in spine.geolevels]  # used for both
    aimed = dict((*aim.families, *aim.geolevels))
    strange += [
        name for name in limits if name in aimed or name == geolevel or name not in (*known, *spine.geolevels)
    ]
    if strange or not (aim.families or aim.geolevels):
        raise GeographyError(
            f"the aim names {', '.join(strange) or 'nothing'}, or a limit does. Wanted entity families among "
            f"{', '.join(sorted(known)) or 'none'} and geolevels of the spine other than {geolevel}; each may be in "
            "the aim or have a limit, but not both.",
            code="unknown-entity",
        )
    if any(weight <= 0 for _, weight in (*aim.families, *aim.geolevels)):
        raise BudgetError("a weight of the aim is not above 0. Leave out of the aim what does not matter.")
    missing = [name for name in spine.geolevels if name not in precisions]
    bad = [name for name in spine.geolevels[1:] if not 0 <= precisions.get(name, 0) < np.inf]
    if missing or bad or not precisions[spine.geolevels[-1]] > 0:
        raise BudgetError(
            f"precisions of {', '.join(missing or bad or spine.geolevels[-1:])} are missing or out of range. Wanted "
            "one for each geolevel: finite below the root, and above 0 at the finest geolevel."
        )


def _evaluated(
    reshaped: Reshaped,
    families: Sequence[EntityFamily],
    precisions: Mapping[str, float],
    geolevels: Sequence[str],
) -> _RegroupingState:
    spine = reshaped.spine
    variances = spine_variances(
        spine,
        [
            np.full(spine.n_geounits(level), float(precisions[name]))
            for level, name in enumerate(spine.geolevels)
        ],
    )
    values = {
        family.name: entity_variances(variances, family.reordered(reshaped.rows)) for family in families
    }
    values |= {name: variances.variance[spine.level_index(name)] for name in geolevels}
    return _RegroupingState(reshaped, variances, values)


def _parts(state: _RegroupingState) -> tuple[PartVariance, ...]:
    deviations = state.deviations()
    return tuple(
        PartVariance(name, float(values.mean()), float(values.max()), deviations[name])
        for name, values in state.values.items()
    )


def _first_scale(task: _Task) -> dict[str, float]:
    """Factors on the weights of all families and geolevels in the search, found by trials that keep the limits."""
    first = {name: FIRST_WEIGHT if name in task.limits else 1.0 for name in task.start.values}
    if not task.limits:
        return first
    before = {name: float(values.mean()) for name, values in task.start.values.items()}
    spared = [
        name for name in task.start.values if name not in task.limits and task.spared and before[name] > 0
    ]
    bounds = {**task.limits, **dict.fromkeys(spared, 1.0)}

    def attempt(scale: Mapping[str, float]) -> CapTrial:
        groups, gains = _searched(task, task.start, {**first, **scale}, from_classes=True)
        state = _tried(task, task.start, groups, gains > 0)
        means = {name: float(state.values[name].mean()) / before[name] for name in spared}
        return CapTrial({**state.deviations(), **means}, _score(task, state))

    return first | limiting_weights({name: first[name] for name in bounds}, bounds, attempt)


def _searched(
    task: _Task, state: _RegroupingState, scale: Mapping[str, float], *, from_classes: bool
) -> tuple[Integers, Floats]:
    moved = [family.reordered(state.reshaped.rows) for family in task.families]
    weights = _weights(task, state, scale)
    precision = task.precisions[state.reshaped.spine.geolevels[task.level]]
    return search_containers(
        state.variances, moved, weights, task.level, task.limit, precision, from_classes=from_classes
    )


def _score(task: _Task, state: _RegroupingState) -> float:
    weights = dict((*task.aim.families, *task.aim.geolevels))
    if task.aim.measure is Measure.MAXIMUM:
        return max(weight * float(state.values[name].max()) for name, weight in weights.items())
    return sum(
        weight * float(state.values[name].mean() / task.start.values[name].mean())
        for name, weight in weights.items()
        if task.start.values[name].any()
    )


def _weights(task: _Task, state: _RegroupingState, scale: Mapping[str, float]) -> dict[str, Floats]:
    """Weight of every single variance in the sum that the search minimises."""
    weights = dict((*task.aim.families, *task.aim.geolevels))
    summed = task.aim.measure is Measure.SUM
    unit = 1.0 if summed else _score(task, state)
    means = {name: float(values.mean()) or 1.0 for name, values in task.start.values.items()}
    by_name = {
        name: np.full(len(values), weights.get(name, unit) * scale[name] / means[name] / len(values))
        for name, values in state.values.items()
        if summed or name in task.limits
    }
    if not summed:
        # Derivatives of the sum of eighth powers, whose root approximates the maximum.
        by_name |= {
            name: weight * (weight * state.values[name] / unit) ** (POWER - 1)
            for name, weight in weights.items()
        }
    return by_name


def _best_of(
    task: _Task, current: _RegroupingState, groups: Integers, gains: Floats
) -> tuple[_RegroupingState | None, tuple[str, ...]]:
    """The first better trial, changing all gaining containers or those that gain most; else the parts that grew."""
    worse: tuple[str, ...] = ()
    gaining = np.sort(gains[gains > 0])[::-1]
    if len(gaining) == 0:
        return None, worse
    for fraction in FRACTIONS:
        least = gaining[max(int(len(gaining) * fraction) - 1, 0)]
        trial = _tried(task, current, groups, gains >= least)
        grown = _grown(task, current, trial)
        worse = worse or grown
        if not grown and _is_better(task, trial, current):
            return trial, ()
    return None, worse


def _grown(task: _Task, current: _RegroupingState, trial: _RegroupingState) -> tuple[str, ...]:
    """Parts of the aim that grew since the start, and parts above their limit that grew in this trial."""
    before, after = current.deviations(), trial.deviations()
    beyond = [name for name in over(after, task.limits) if after[name] > before[name] * (1 + 1e-12)]
    spared = [
        name
        for name, values in trial.values.items()
        if task.spared
        and name not in task.limits
        and float(values.mean()) > float(task.start.values[name].mean()) * (1 + 1e-12)
    ]
    return (*spared, *beyond)


def _is_better(task: _Task, trial: _RegroupingState, current: _RegroupingState) -> bool:
    """Whether the total excess over the limits is smaller or, if it is equal, the aim is smaller."""
    left, before = (excess(state.deviations(), task.limits) for state in (trial, current))
    if left != before:
        return left < before
    return _score(task, trial) < _score(task, current) * (1 - 1e-9)


def _tried(
    task: _Task, state: _RegroupingState, groups: Integers, changed: NDArray[np.bool_]
) -> _RegroupingState:
    """The state with the groups of some containers replaced."""
    levels = [name for name in state.values if name in state.reshaped.spine.geolevels]
    reshaped = _regrouped(state, task.level, groups, changed)
    return _evaluated(reshaped, task.families, task.precisions, levels)


def _regrouped(state: _RegroupingState, level: int, groups: Integers, changed: NDArray[np.bool_]) -> Reshaped:
    """The state's spine with the groups of some containers replaced."""
    spine = state.reshaped.spine
    parent = spine.parents(level + 1)
    container = spine.parents(level)[parent]
    offsets = spine.child_offsets[level - 1]
    number = np.where(changed[container], groups, parent - offsets[container])
    width = int(np.diff(spine.child_offsets[level][offsets]).max())
    group, first = first_appearance(container * width + number)
    inserted = insert_groups(spine, spine.geolevels[level], level + 1, level - 1, group, container[first])
    return Reshaped(inserted.spine, state.reshaped.rows[inserted.rows])
