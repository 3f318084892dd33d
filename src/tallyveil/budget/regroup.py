"""Group geounits for the variances users see, not for a distance: local search with exact variances."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tallyveil.budget.outside import carried_weights, outside_of
from tallyveil.budget.spine_variance import SpineVariances, entity_parts, entity_variances, spine_variances
from tallyveil.errors import BudgetError, GeographyError
from tallyveil.geography import EntityFamily, FanOutLimit, Reshaped, Spine
from tallyveil.geography.block_groups import insert_groups, membership_classes
from tallyveil.geography.reshape import first_appearance
from tallyveil.geography.tract_groups import together

if TYPE_CHECKING:
    from tallyveil.kernels.regrouping import Container

Rows = NDArray[np.int64]
Reals = NDArray[np.float64]
POWER = 8
MOST_PASSES = 6
FRACTIONS = (1.0, 0.5, 0.2, 0.05)


class Measure(StrEnum):
    """What is made small."""

    SUM = "sum"
    """The weighted sum of mean variances, each relative to what it is at the start."""
    MAXIMUM = "maximum"
    """The greatest weighted variance of a single entity or geounit."""


@dataclass(frozen=True, slots=True)
class Aim:
    """What a grouping is to be good for.

    Attributes:
        families: Weight of each family of entities.
        geolevels: Weight of each geolevel; not that of the groups, which are chosen anew.
        measure: Sum or maximum.
        spare_all: For the sum, never let the mean variance of a named family or geolevel grow.
    """

    families: tuple[tuple[str, float], ...]
    geolevels: tuple[tuple[str, float], ...] = ()
    measure: Measure = Measure.SUM
    spare_all: bool = True


@dataclass(frozen=True, slots=True)
class PartVariance:
    """Variances of one family's entities or one geolevel's geounits: their mean and their greatest, counts squared."""

    name: str
    mean: float
    greatest: float


@dataclass(frozen=True, slots=True, eq=False)
class Regrouped:
    """A spine with other groups.

    Attributes:
        spine: The new spine.
        rows: Row on the given spine of each finest geounit.
        before, after: Every family and geolevel of the aim on the given and on the new spine, each worked out whole.
        rounds: Rounds that improved it.
    """

    spine: Spine
    rows: Rows
    before: tuple[PartVariance, ...]
    after: tuple[PartVariance, ...]
    rounds: int


@dataclass(frozen=True, slots=True, eq=False)
class _State:
    """A spine with its variances: entities by family, geounits by geolevel named in the aim."""

    made: Reshaped
    found: SpineVariances
    values: dict[str, Reals]


def group_by_variance(
    spine: Spine,
    families: Sequence[EntityFamily],
    precisions: Mapping[str, float],
    *,
    geolevel: str,
    limit: FanOutLimit,
    aim: Aim,
    most_rounds: int = 12,
) -> Regrouped:
    """Regroup the children of a geolevel so that variances fall, starting from the groups that are there.

    Each container's groups (a tract's block groups) are searched with all else held fixed: children move
    singly, groups are merged. What a change does to every variance of the spine is known exactly (`Outside`). A
    round does this for all containers; then the whole is worked out afresh, and the round is kept only if it is
    better, with fewer containers changed if need be. So the result is never worse than the start.

    Args:
        spine: The spine, with groups to start from: the paper's.
        families: Families of this spine.
        precisions: Precision of a geounit's own measurement by geolevel: above 0 at the finest, finite except at the
            roots. One number a geolevel; bypass afterwards.
        geolevel: Geolevel of the groups: neither the finest nor the roots.
        limit: Most children of a group; n is the number of children in the container, as in the paper.
        aim: What is to be made small.
        most_rounds: Most rounds tried.

    Raises:
        GeographyError: an unknown geolevel or family, or groups without container or children.
        BudgetError: precisions missing, or some variance that cannot be told.
    """
    level = spine.level_index(geolevel)
    if not 0 < level < spine.finest:
        raise GeographyError(
            f"groups of geolevel {geolevel} cannot be chosen: they need a geolevel above and one below. Name another.",
            code="spine-step",
        )
    _check_aim(spine, families, precisions, aim, geolevel)
    used = [family for family in families if family.name in dict(aim.families)]
    start = _evaluated(Reshaped(spine, np.arange(spine.n_geounits(spine.finest))), used, precisions, aim)
    current, rounds = start, 0
    scale = {name: 1.0 for name in start.values}
    for _ in range(most_rounds):
        weights = _weights(current, start, aim, scale)
        groups, gains = _search(current, used, weights, level, limit, precisions[geolevel])
        better, worse = _best_of(current, start, used, precisions, aim, level, groups, gains)
        if better is not None:
            current, rounds = better, rounds + 1
        elif worse:
            # Some part would grow: let it count for more, and search again.
            scale = {name: one * (3.0 if name in worse else 1.0) for name, one in scale.items()}
        else:
            break
    made = current.made
    return Regrouped(made.spine, made.rows, _parts(start), _parts(current), rounds)


def _check_aim(
    spine: Spine,
    families: Sequence[EntityFamily],
    precisions: Mapping[str, float],
    aim: Aim,
    geolevel: str,
) -> None:
    known = {family.name for family in families if family.n_entities}
    strange = [name for name, _ in aim.families if name not in known]
    strange += [name for name, _ in aim.geolevels if name not in spine.geolevels or name == geolevel]
    if strange or not (aim.families or aim.geolevels):
        raise GeographyError(
            f"the aim names {', '.join(strange) or 'nothing'}; wanted families among {', '.join(sorted(known)) or 'none'} "
            f"and geolevels of the spine other than {geolevel}.",
            code="unknown-entity",
        )
    if any(weight <= 0 for _, weight in (*aim.families, *aim.geolevels)):
        raise BudgetError("a weight of the aim is not above 0. Leave out what does not matter.")
    missing = [name for name in spine.geolevels if name not in precisions]
    bad = [name for name in spine.geolevels[1:] if not 0 <= precisions.get(name, 0) < np.inf]
    if missing or bad or not precisions[spine.geolevels[-1]] > 0:
        raise BudgetError(
            f"precisions of {', '.join(missing or bad or spine.geolevels[-1:])} are missing or out of range; wanted one "
            "for each geolevel, finite below the root, above 0 at the finest."
        )


def _evaluated(
    made: Reshaped, families: Sequence[EntityFamily], precisions: Mapping[str, float], aim: Aim
) -> _State:
    spine = made.spine
    found = spine_variances(
        spine,
        [np.full(spine.n_geounits(level), float(precisions[name])) for level, name in enumerate(spine.geolevels)],
    )
    values = {
        family.name: entity_variances(found, family.reordered(made.rows)) for family in families
    }
    values |= {name: found.variance[spine.level_index(name)] for name, _ in aim.geolevels}
    return _State(made, found, values)


def _parts(state: _State) -> tuple[PartVariance, ...]:
    return tuple(
        PartVariance(name, float(one.mean()), float(one.max())) for name, one in state.values.items()
    )


def _score(state: _State, start: _State, aim: Aim) -> float:
    weights = dict((*aim.families, *aim.geolevels))
    if aim.measure is Measure.MAXIMUM:
        return max(weights[name] * float(one.max()) for name, one in state.values.items())
    return sum(
        weights[name] * float(one.mean() / start.values[name].mean())
        for name, one in state.values.items()
        if start.values[name].any()
    )


def _weights(state: _State, start: _State, aim: Aim, scale: Mapping[str, float]) -> dict[str, Reals]:
    """Weight of every single variance in the sum that is searched."""
    weights = dict((*aim.families, *aim.geolevels))
    if aim.measure is Measure.SUM:
        means = {name: float(one.mean()) or 1.0 for name, one in start.values.items()}
        return {
            name: np.full(len(one), weights[name] * scale[name] / means[name] / len(one))
            for name, one in state.values.items()
        }
    greatest = _score(state, start, aim)
    # The slopes of the sum of powers, which comes near the maximum.
    return {
        name: weights[name] * (weights[name] * one / greatest) ** (POWER - 1)
        for name, one in state.values.items()
    }


def _best_of(
    current: _State,
    start: _State,
    families: Sequence[EntityFamily],
    precisions: Mapping[str, float],
    aim: Aim,
    level: int,
    groups: Rows,
    gains: Reals,
) -> tuple[_State | None, list[str]]:
    """The first trial that is better, changing all containers or those that gain most; else the parts that grew."""
    worse: list[str] = []
    gaining = np.sort(gains[gains > 0])[::-1]
    if len(gaining) == 0:
        return None, worse
    for fraction in FRACTIONS:
        least = gaining[max(int(len(gaining) * fraction) - 1, 0)]
        trial = _evaluated(_regrouped(current, level, groups, gains >= least), families, precisions, aim)
        grown = [
            name
            for name, one in trial.values.items()
            if aim.spare_all
            and aim.measure is Measure.SUM
            and float(one.mean()) > float(start.values[name].mean()) * (1 + 1e-12)
        ]
        worse = worse or grown
        if not grown and _score(trial, start, aim) < _score(current, start, aim) * (1 - 1e-9):
            return trial, []
    return None, worse


def _search(
    state: _State,
    families: Sequence[EntityFamily],
    weights: Mapping[str, Reals],
    level: int,
    limit: FanOutLimit,
    group_precision: float,
) -> tuple[Rows, Reals]:
    """Group of every child in its container, numbered from 0 there; and what each container gains."""
    from tallyveil.kernels.regrouping import Container, regroup

    spine, found = state.made.spine, state.found
    moved = [family.reordered(state.made.rows) for family in families]
    everything = together(moved) if moved else _nothing(spine)
    entity_weights = np.concatenate([weights[family.name] for family in moved]) if moved else np.zeros(0)
    by_level = tuple(
        np.asarray(weights.get(name, np.zeros(spine.n_geounits(i)))) for i, name in enumerate(spine.geolevels)
    )
    levels = entity_parts(found, everything)
    if any(not np.all(np.isfinite(one)) for one in found.below):
        raise BudgetError("some geounit's answer cannot be told from what is measured. Measure the finest geolevel.")
    outside = outside_of(found, levels, entity_weights, by_level, level - 1)
    carried = carried_weights(found, by_level)[level + 1]
    outer, (groups, _), (children, _) = levels[level - 1][0], levels[level], levels[level + 1]
    own = levels[level][1]
    up = levels[level + 1][1]
    if own is None or up is None:
        raise GeographyError("groups need a geolevel above them.")
    # Entries of a container in a row, numbered from 0; those of a child in a row.
    order = np.argsort(outer.geounit, kind="stable")
    begin_outer = _begin(outer.geounit, spine.n_geounits(level - 1))
    local = np.empty(len(order), dtype=np.int64)
    local[order] = np.arange(len(order)) - begin_outer[outer.geounit[order]]
    entity = np.repeat(np.arange(len(outer.begin) - 1), np.diff(outer.begin))
    by_child = np.argsort(children.geounit, kind="stable")
    begin_child = _begin(children.geounit, spine.n_geounits(level + 1))
    entry = local[own[up]][by_child]
    slope = children.slope[by_child]
    alike = _alike(spine, moved, level + 1)
    below = found.below[level + 1]
    first_child = spine.child_offsets[level][spine.child_offsets[level - 1]]
    parent = spine.parents(level + 1)
    group_of = np.empty(len(parent), dtype=np.int64)
    gains = np.zeros(spine.n_geounits(level - 1))
    for u in range(len(gains)):
        a, b = int(first_child[u]), int(first_child[u + 1])
        e, f = int(begin_outer[u]), int(begin_outer[u + 1])
        here = parent[a:b] - parent[a]
        group_of[a:b] = here
        if b - a < 2 or not np.isfinite(outside.precision[u]):
            continue
        kinds = np.unique(alike[a:b], return_inverse=True)[1].reshape(-1) if alike is not None else np.arange(b - a)
        start = int(begin_child[a])
        container = Container(
            below[a:b].copy(),
            carried[a:b].copy(),
            kinds.astype(np.int64, copy=False),
            begin_child[a : b + 1] - start,
            entry[start : int(begin_child[b])],
            slope[start : int(begin_child[b])],
            entity_weights[entity[order[e:f]]],
            outside.lean[order[e:f]],
            float(outside.weight[u]),
            float(outside.precision[u]),
            float(found.precisions[level - 1][u]),
            float(by_level[level - 1][u]),
            float(group_precision),
            limit.limit(b - a),
        )
        if not np.isfinite(container.precision):
            container = _known(container)
        gains[u] = regroup(container, here, MOST_PASSES)
        group_of[a:b] = here
    return group_of, gains


def _known(container: "Container") -> "Container":
    """A container whose total is published exactly: a precision far above any other stands for it."""
    return container._replace(precision=1e9 / float(container.below.min()))


def _alike(spine: Spine, families: Sequence[EntityFamily], level: int) -> Rows | None:
    """Which finest geounits are interchangeable; None for coarser ones, of which none are taken to be."""
    return membership_classes(spine, families, level) if level == spine.finest else None


def _nothing(spine: Spine) -> EntityFamily:
    none = np.zeros(0, dtype=np.int64)
    return EntityFamily("none", (), np.zeros(1, dtype=np.int64), none, spine.n_geounits(spine.finest))


def _begin(labels: Rows, n: int) -> Rows:
    return np.concatenate([[0], np.cumsum(np.bincount(labels, minlength=n))]).astype(np.int64)


def _regrouped(state: _State, level: int, groups: Rows, changed: NDArray[np.bool_]) -> Reshaped:
    """The state's spine with the groups of some containers replaced."""
    spine = state.made.spine
    parent = spine.parents(level + 1)
    container = spine.parents(level)[parent]
    offsets = spine.child_offsets[level - 1]
    number = np.where(changed[container], groups, parent - offsets[container])
    width = int(np.diff(spine.child_offsets[level][offsets]).max())
    group, first = first_appearance(container * width + number)
    made = insert_groups(spine, spine.geolevels[level], level + 1, level - 1, group, container[first])
    return Reshaped(made.spine, state.made.rows[made.rows])
