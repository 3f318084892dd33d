"""Group geounits for the variances users see, not for a distance: local search with exact variances."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Floats, Integers
from tallyveil.budget.caps import FIRST_WEIGHT, Trial, excess, limiting_weights, over
from tallyveil.budget.spine.search import search_containers
from tallyveil.budget.spine.variance import SpineVariances, entity_variances, spine_variances
from tallyveil.errors import BudgetError, GeographyError
from tallyveil.geography import EntityFamily, FanOutLimit, Reshaped, Spine
from tallyveil.geography.block_groups import insert_groups
from tallyveil.geography.respine import first_appearance

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
    """Variances of one family's entities or one geolevel's geounits.

    Attributes:
        name: The family or geolevel.
        mean, greatest: Of the variances, in counts squared.
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
        rows: Row on the given spine of each finest geounit.
        before, after: Every family and geolevel that is aimed at or limited, on the given and on the new spine, each
            worked out whole.
        rounds: Rounds that improved it.
        unmet: Families and geolevels whose limit the new spine does not keep; the given one did not keep it either.
    """

    spine: Spine
    rows: Integers
    before: tuple[PartVariance, ...]
    after: tuple[PartVariance, ...]
    rounds: int
    unmet: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _State:
    """A spine with its variances: entities by family, geounits by geolevel, of all that is aimed at or limited."""

    made: Reshaped
    found: SpineVariances
    values: dict[str, Floats]

    def deviations(self) -> dict[str, float]:
        """Mean standard deviation of each."""
        return {name: float(np.sqrt(one).mean()) for name, one in self.values.items()}


@dataclass(frozen=True, slots=True, eq=False)
class _Task:
    """What stays the same throughout a search.

    Attributes:
        families: Families aimed at or limited, on the spine at the start.
        precisions, aim, limits: As in `group_by_variance`.
        level: Level of the groups.
        limit: Most children of a group.
        start: The spine at the start.
    """

    families: Sequence[EntityFamily]
    precisions: Mapping[str, float]
    aim: Aim
    limits: Mapping[str, float]
    level: int
    limit: FanOutLimit
    start: _State

    @property
    def spared(self) -> bool:
        """Whether no mean variance of the aim may be greater than at the start."""
        return self.aim.spare_all and self.aim.measure is Measure.SUM


def group_by_variance(
    spine: Spine,
    families: Sequence[EntityFamily],
    precisions: Mapping[str, float],
    *,
    geolevel: str,
    limit: FanOutLimit,
    aim: Aim,
    limits: Mapping[str, float] | None = None,
    most_rounds: int = 12,
) -> Regrouped:
    """Regroup the children of a geolevel so that variances fall, starting from the groups that are there.

    Each container's groups (a tract's block groups) are searched with all else held fixed: children move
    singly, groups are merged; it starts from the groups there are and, for finest geounits, also from groups
    of those in the same entities. What a change does to every variance of the spine is known exactly
    (`Surroundings`). A round does this for all containers. Then all variances are computed again, and the round is
    kept only if it is better, with fewer containers changed if need be. So the aim is never worse than at the start.

    What is not in the aim may get worse without bound, unless `limits` names it. A limited family weighs in the
    search, too, and its weight is raised until its limit holds (`limiting_weights`). Every round that is kept leaves
    all limits unbroken that held before it, by the variances of the whole spine worked out afresh. Where the
    given spine breaks a limit, coming nearer to it goes before the aim; `unmet` names the limits still broken.

    Args:
        spine: The spine, with groups to start from: the paper's.
        families: Families of this spine.
        precisions: Precision of a geounit's own measurement by geolevel: above 0 at the finest, finite except at the
            roots. One number a geolevel; bypass afterwards.
        geolevel: Geolevel of the groups: neither the finest nor the roots.
        limit: Most children of a group; n is the number of children in the container, as in the paper.
        aim: What is to be made small.
        limits: Greatest mean standard deviation, in counts, that families and geolevels outside the aim may have.
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
        # What came of the classes is in the groups once a round has been kept.
        groups, gains = _searched(task, current, scale, from_classes=rounds == 0)
        better, worse = _best_of(task, current, groups, gains)
        if better is not None:
            current, rounds = better, rounds + 1
        elif worse:
            # Some part would grow: let it count for more, and search again.
            scale = {name: one * (3.0 if name in worse else 1.0) for name, one in scale.items()}
        else:
            break
    made, unmet = current.made, over(current.deviations(), bounds)
    return Regrouped(made.spine, made.rows, _parts(start), _parts(current), rounds, unmet)


def _check_aim(
    spine: Spine,
    families: Sequence[EntityFamily],
    precisions: Mapping[str, float],
    aim: Aim,
    geolevel: str,
    limits: Mapping[str, float],
) -> None:
    known = {family.name for family in families if family.n_entities}
    strange = [name for name, _ in aim.families if name not in known]
    strange += [name for name, _ in aim.geolevels if name not in spine.geolevels or name == geolevel]
    strange += [name for name, _ in aim.families if name in spine.geolevels]  # one name for two things
    aimed = dict((*aim.families, *aim.geolevels))
    strange += [
        name for name in limits if name in aimed or name == geolevel or name not in (*known, *spine.geolevels)
    ]
    if strange or not (aim.families or aim.geolevels):
        raise GeographyError(
            f"the aim names {', '.join(strange) or 'nothing'}, or a limit does; wanted families among "
            f"{', '.join(sorted(known)) or 'none'} and geolevels of the spine other than {geolevel}, each "
            "in the aim or limited, not both.",
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
    made: Reshaped,
    families: Sequence[EntityFamily],
    precisions: Mapping[str, float],
    geolevels: Sequence[str],
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
    values |= {name: found.variance[spine.level_index(name)] for name in geolevels}
    return _State(made, found, values)


def _parts(state: _State) -> tuple[PartVariance, ...]:
    deviations = state.deviations()
    return tuple(
        PartVariance(name, float(one.mean()), float(one.max()), deviations[name])
        for name, one in state.values.items()
    )


def _first_scale(task: _Task) -> dict[str, float]:
    """What multiplies the weight of everything in the search, once the limits have been tried."""
    first = {name: FIRST_WEIGHT if name in task.limits else 1.0 for name in task.start.values}
    if not task.limits:
        return first
    before = {name: float(one.mean()) for name, one in task.start.values.items()}
    spared = [
        name for name in task.start.values if name not in task.limits and task.spared and before[name] > 0
    ]
    bounds = {**task.limits, **dict.fromkeys(spared, 1.0)}

    def attempt(scale: Mapping[str, float]) -> Trial:
        groups, gains = _searched(task, task.start, {**first, **scale}, from_classes=True)
        state = _tried(task, task.start, groups, gains > 0)
        means = {name: float(state.values[name].mean()) / before[name] for name in spared}
        return Trial({**state.deviations(), **means}, _score(task, state))

    return first | limiting_weights({name: first[name] for name in bounds}, bounds, attempt)


def _searched(
    task: _Task, state: _State, scale: Mapping[str, float], *, from_classes: bool
) -> tuple[Integers, Floats]:
    moved = [family.reordered(state.made.rows) for family in task.families]
    weights = _weights(task, state, scale)
    own = task.precisions[state.made.spine.geolevels[task.level]]
    return search_containers(
        state.found, moved, weights, task.level, task.limit, own, from_classes=from_classes
    )


def _score(task: _Task, state: _State) -> float:
    weights = dict((*task.aim.families, *task.aim.geolevels))
    if task.aim.measure is Measure.MAXIMUM:
        return max(weight * float(state.values[name].max()) for name, weight in weights.items())
    return sum(
        weight * float(state.values[name].mean() / task.start.values[name].mean())
        for name, weight in weights.items()
        if task.start.values[name].any()
    )


def _weights(task: _Task, state: _State, scale: Mapping[str, float]) -> dict[str, Floats]:
    """Weight of every single variance in the sum that is searched."""
    weights = dict((*task.aim.families, *task.aim.geolevels))
    summed = task.aim.measure is Measure.SUM
    unit = 1.0 if summed else _score(task, state)
    means = {name: float(one.mean()) or 1.0 for name, one in task.start.values.items()}
    found = {
        name: np.full(len(one), weights.get(name, unit) * scale[name] / means[name] / len(one))
        for name, one in state.values.items()
        if summed or name in task.limits
    }
    if not summed:
        # The slopes of the sum of powers, which comes near the maximum.
        found |= {
            name: weight * (weight * state.values[name] / unit) ** (POWER - 1)
            for name, weight in weights.items()
        }
    return found


def _best_of(
    task: _Task, current: _State, groups: Integers, gains: Floats
) -> tuple[_State | None, tuple[str, ...]]:
    """The first trial that is better, changing all containers or those that gain most; else the parts that grew."""
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


def _grown(task: _Task, current: _State, trial: _State) -> tuple[str, ...]:
    """Parts of the aim that grew since the start, and limited ones that are above their limit and grew since."""
    before, after = current.deviations(), trial.deviations()
    beyond = [name for name in over(after, task.limits) if after[name] > before[name] * (1 + 1e-12)]
    spared = [
        name
        for name, one in trial.values.items()
        if task.spared
        and name not in task.limits
        and float(one.mean()) > float(task.start.values[name].mean()) * (1 + 1e-12)
    ]
    return (*spared, *beyond)


def _is_better(task: _Task, trial: _State, current: _State) -> bool:
    """Whether less is above the limits or, where that is equal, the aim is smaller."""
    left, before = (excess(state.deviations(), task.limits) for state in (trial, current))
    if left != before:
        return left < before
    return _score(task, trial) < _score(task, current) * (1 - 1e-9)


def _tried(task: _Task, state: _State, groups: Integers, changed: NDArray[np.bool_]) -> _State:
    """The state with the groups of some containers replaced."""
    levels = [name for name in state.values if name in state.made.spine.geolevels]
    made = _regrouped(state, task.level, groups, changed)
    return _evaluated(made, task.families, task.precisions, levels)


def _regrouped(state: _State, level: int, groups: Integers, changed: NDArray[np.bool_]) -> Reshaped:
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
