"""Group geounits for the variances users see, not for a distance: local search with exact variances."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from tallyveil.budget.container_search import search_containers
from tallyveil.budget.spine_variance import SpineVariances, entity_variances, spine_variances
from tallyveil.errors import BudgetError, GeographyError
from tallyveil.geography import EntityFamily, FanOutLimit, Reshaped, Spine
from tallyveil.geography.block_groups import insert_groups
from tallyveil.geography.reshape import first_appearance

Rows = NDArray[np.int64]
Reals = NDArray[np.float64]
POWER = 8
FRACTIONS = (1.0, 0.5, 0.2, 0.05)
GIVEN = "given "
"""Stands before a geolevel's name where the geounits of the geography are meant, not those chosen anew."""


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
    singly, groups are merged; it starts from the groups there are and, for finest geounits, also from groups
    of those in the same entities. What a change does to every variance of the spine is known exactly (`Outside`). A
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
    scale = dict.fromkeys(start.values, 1.0)
    for _ in range(most_rounds):
        weights = _weights(current, start, aim, scale)
        moved = [family.reordered(current.made.rows) for family in used]
        # What came of the classes is in the groups once a round has been kept.
        groups, gains = search_containers(
            current.found, moved, weights, level, limit, precisions[geolevel], from_classes=rounds == 0
        )
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
    strange += [name for name, _ in aim.families if name in spine.geolevels]  # one name for two things
    if strange or not (aim.families or aim.geolevels):
        raise GeographyError(
            f"the aim names {', '.join(strange) or 'nothing'}; wanted families among "
            f"{', '.join(sorted(known)) or 'none'} and geolevels of the spine other than {geolevel}.",
            code="unknown-entity",
        )
    if any(weight <= 0 for _, weight in (*aim.families, *aim.geolevels)):
        raise BudgetError("a weight of the aim is not above 0. Leave out what does not matter.")
    missing = [name for name in spine.geolevels if name not in precisions]
    bad = [name for name in spine.geolevels[1:] if not 0 <= precisions.get(name, 0) < np.inf]
    if missing or bad or not precisions[spine.geolevels[-1]] > 0:
        raise BudgetError(
            f"precisions of {', '.join(missing or bad or spine.geolevels[-1:])} are missing or out of range; wanted "
            "one for each geolevel, finite below the root, above 0 at the finest."
        )


def _evaluated(
    made: Reshaped, families: Sequence[EntityFamily], precisions: Mapping[str, float], aim: Aim
) -> _State:
    spine = made.spine
    found = spine_variances(
        spine,
        [
            np.full(spine.n_geounits(level), float(precisions[name]))
            for level, name in enumerate(spine.geolevels)
        ],
    )
    values = {family.name: entity_variances(found, family.reordered(made.rows)) for family in families}
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
