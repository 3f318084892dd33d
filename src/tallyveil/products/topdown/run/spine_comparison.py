"""Compares two spines before any data is opened: how exact totals are on them, and how near entities are to them.

The second spine can be compared with lower bounds over all groups of its geolevels, too (docs/proofs/groups.md).
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from tallyveil.arrays import Floats, Integers
from tallyveil.budget.guarantees import cost_parameters, strategy_parameters
from tallyveil.budget.spine.bounds import SharedBounds, shared_bounds, variance_bounds
from tallyveil.budget.spine.higher_groups import with_shared_groups
from tallyveil.budget.spine.single_children import greatest_precisions
from tallyveil.budget.spine.variance import (
    AreaAccuracy,
    SpineVariances,
    TotalMeasures,
    entity_variances,
    family_accuracies,
    geolevel_accuracies,
)
from tallyveil.budget.strategy import Strategy
from tallyveil.errors import BudgetError, GeographyError
from tallyveil.geography.areas import geounits_as_entities
from tallyveil.geography.bypass import BypassRule, bypass
from tallyveil.geography.distance_bounds import (
    FreeGroups,
    distance_bounds,
    joint_distance_bound,
    require_groups,
    undivided,
)
from tallyveil.geography.entities import EntityFamily, off_spine_distances
from tallyveil.geography.spine import GeounitShares, Spine, uniform_shares
from tallyveil.geography.steps import together
from tallyveil.geography.tables import family_columns, read_aimed, read_spine_file
from tallyveil.products.topdown.run.spine_design import read_families
from tallyveil.products.topdown.run.spine_making import is_worse

MEASURES = ("mean", "median", "q90", "greatest")


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """Two spines beside each other.

    Attributes:
        kinds: Standard deviations: a row for each kind of area.
        each: The same for each area: every geounit of the first spine, every entity.
        distances: Off-spine distances: a row for each family of entities.
        parameters: Privacy parameters of both strategies, a row for each geolevel (`budget/guarantees.py`). Where a
            spine moves shares between geolevels there is one row, for all of them.
    """

    kinds: pl.DataFrame
    each: pl.DataFrame
    distances: pl.DataFrame
    parameters: list[dict[str, Any]]


def comparison(
    files: tuple[Path, Path],
    measures: tuple[TotalMeasures, TotalMeasures],
    entities: Path | None,
    family: Sequence[str],
    free: FreeGroups | None = None,
) -> Compared:
    """Standard deviations and off-spine distances on two spines.

    Args:
        files: The spines.
        measures: What is measured on each.
        entities: Table of entities; None for none.
        family: Its columns; empty for all of text.
        free: Groups of the second spine, for lower bounds; None for no bounds.

    Raises:
        GeographyError: the spines are not over the same blocks, or groups do not fit the second.
        BudgetError: a spine has more to spend than the strategy allows, or does not fit it; or bounds are wanted, and
            free groups are bypassed otherwise than by moving the strategy's shares where there is one child.
    """

    spines, all_shares, parameters = [], [], []
    aimed = {name for file in files for name in read_aimed(file)}
    for place, file, measured in zip(("first", "second"), files, measures, strict=True):
        spine, shares = read_spine_file(file)
        plan = measured.strategy
        # A file with shares says itself what each geounit gets, so that the geolevels of the strategy may differ.
        if shares is None and plan.geolevels != spine.geolevels:
            raise BudgetError(
                f"{file} has geolevels {', '.join(spine.geolevels)}, and its strategy has "
                f"{', '.join(plan.geolevels)}. Name the strategy that the spine was built for."
            )
        all_shares.append(shares)
        spines.append(spine)
        parameters += [{"spine": place, **row} for row in _parameters(plan, shares is not None)]
    families = _families(entities, spines, family)
    # Both spines sort the same finest geounits differently: `rows_on_first` maps the second to the first, argsort back.
    rows_on_first = _rows(spines[0], spines[1])
    order = (np.argsort(rows_on_first), rows_on_first)
    cut = [
        measures[place].with_cut(
            spine, spines[1 - place].geolevels, _cut_by(spine, spines[1 - place], order[place])
        )
        for place, spine in enumerate(spines)
    ]
    variances = [cut[place].on(spine, all_shares[place]) for place, spine in enumerate(spines)]
    first = [*geolevel_accuracies(variances[0], spines[0]), *family_accuracies(variances[0], families[0])]
    areas = [geounits_as_entities(spines[0], level) for level in range(spines[0].n_levels)]
    areas_on_second = [area.reordered(rows_on_first) for area in areas]
    second = [
        *family_accuracies(variances[1], areas_on_second, "geolevel"),
        *family_accuracies(variances[1], families[1]),
    ]
    # Families without entities have no row among the kinds.
    pairs = [pair for pair in zip(*families, strict=True) if pair[0].n_entities]
    bounded = None
    if free is not None:
        inputs = _Reached(cut[1], spines[1], all_shares[1], variances[1], [pair[1] for pair in pairs])
        bounded = _bound_inputs(inputs, free)
    each = [
        _each(kind, pair, variances, bounded)
        for kind, of_kind in (
            ("geolevel", list(zip(areas, areas_on_second, strict=True))),
            ("entities", pairs),
        )
        for pair in of_kind
    ]
    bounds = [frame["bound"].mean() for frame in each]
    rows = [
        _row("areas of the first", on_first, on_second, aimed, bound)
        for on_first, on_second, bound in zip(first, second, bounds, strict=True)
    ]
    shared = None if bounded is None or not pairs else _shared(bounded, [pair[1] for pair in pairs])
    if shared is not None:
        rows += _shared_rows(rows[len(areas) :], variances, pairs, shared)
    rows += [
        _row("geounits of the second", None, geolevel, set(), None)
        for geolevel in geolevel_accuracies(variances[1], spines[1])
    ]
    distances = [_distances(spines, pair, free) for pair in pairs]
    if len(distances) > 1:
        distances.append(_all_distances(distances, spines[1], [pair[1] for pair in pairs], free))
    for row, least in zip(distances, _undivided(spines[1], pairs, shared, free), strict=False):
        row["shared_mean"], row["shared_gap"] = least, _gap(row["second_mean"], least)
    kinds = pl.DataFrame(rows, infer_schema_length=None, schema_overrides=_BOUNDS)
    return Compared(kinds, pl.concat(each), pl.DataFrame(distances, schema_overrides=_BOUNDS), parameters)


_BOUNDS: Final = dict.fromkeys(("bound_mean", "gap", "shared_mean", "shared_gap"), pl.Float64)
ALL_FAMILIES: Final = "all of these"
"""Name of the row of all families of entities together."""


def _families(
    path: Path | None, spines: Sequence[Spine], names: Sequence[str]
) -> list[tuple[EntityFamily, ...]]:
    """The same families of entities on each spine."""
    blank = not names
    if path is not None and blank:
        # What one spine has as a geolevel is no family on the other, or there would be fewer on one of them.
        geolevels = {geolevel for spine in spines for geolevel in spine.geolevels}
        names = [name for name in family_columns(path) if name not in geolevels]
        path = path if names else None
    return [read_families(path, spine, names, blank=blank) for spine in spines]


@dataclass(frozen=True, slots=True, eq=False)
class _BoundInputs:
    """What bounds on the standard deviations on the second spine are computed from.

    Attributes:
        variances: Variances with precisions from which bounds over all groups follow. If nothing is bypassed, they are
            those of the spine or, for free groups of higher geounits, of one with groups that the areas share better;
            else those of `greatest_precisions`.
        rows: Row of each finest geounit of their spine on the second spine; None for the same spine.
        single: Precision of a finest geounit that is alone in its group after bypassing; None if nothing is bypassed.
        free: The free groups.
        reached: Variances on the second spine itself.
    """

    variances: SpineVariances
    rows: Integers | None
    single: float | None
    free: FreeGroups
    reached: SpineVariances

    def moved(self, family: EntityFamily) -> EntityFamily:
        """A family of the second spine, on the spine of `variances`."""
        return family if self.rows is None else family.reordered(self.rows)

    def least(self, family: EntityFamily) -> list[float | None]:
        """Bounds on the standard deviations of a family.

        There is none for the finest geounits themselves: they are many, and groups matter little to them.
        """
        if family.name == self.reached.spine.geolevels[-1]:
            return [None] * family.n_entities
        variances = variance_bounds(self.variances, self.moved(family), self.free, single=self.single)
        bounds: list[float | None] = np.sqrt(variances).tolist()
        return bounds


@dataclass(frozen=True, slots=True, eq=False)
class _Reached:
    """The second spine: what is measured on it, its shares, its variances, and families with entities."""

    measures: TotalMeasures
    spine: Spine
    shares: GeounitShares | None
    variances: SpineVariances
    families: list[EntityFamily]


def _bound_inputs(second: _Reached, free: FreeGroups) -> _BoundInputs | None:
    """What bounds on standard deviations are computed from; None if there are none over these groups.

    Raises:
        GeographyError: the geolevels cannot be groups, with bypassed geounits or without.
        BudgetError: groups are bypassed otherwise than by moving the strategy's shares where there is one child.
    """
    spine, shares, reached = second.spine, second.shares, second.variances
    require_groups(spine, free.geolevels)
    bypassed = False
    for geolevel in free.geolevels:
        level = spine.level_index(geolevel)
        # Where a group was bypassed, its children are in its place, and each of them also has itself as an only child,
        # which is not measured.
        levels = range(level, min(level + 2, spine.n_levels))
        if shares is not None and not all(shares.measured(each).all() for each in levels):
            bypassed = True
            if not _single_children(second.measures.strategy, spine, shares):
                raise BudgetError(
                    f"some geounits of {geolevel} on the second spine are bypassed, and which ones depends on the "
                    "groups. The bounds hold where the strategy's shares are moved between geounits with one child and "
                    "this child, or not at all: build the spine with --no-bypass."
                )
    higher = free.higher(spine)
    if len(higher) > 1 or (higher and bypassed):
        return None
    if bypassed:
        variances, single = greatest_precisions(second.measures, spine, free.limit)
        return _BoundInputs(variances, None, single, free, reached)
    if higher and second.families:
        shared, rows = with_shared_groups(reached, second.families, higher[0], free.limit)
        return _BoundInputs(shared, rows, None, free, reached)
    return _BoundInputs(reached, None, None, free, reached)


def _single_children(strategy: Strategy, spine: Spine, shares: GeounitShares) -> bool:
    """Whether the shares of a spine are those of a strategy after geounits with one child were bypassed."""
    if strategy.geolevels != spine.geolevels:
        return False
    uniform = uniform_shares(spine, dict(strategy.geolevel_shares))
    reshaped, wanted = bypass(spine, uniform, BypassRule.SINGLE_CHILD)
    return (
        reshaped.spine.digest() == spine.digest()
        and wanted.values == shares.values
        and all(map(np.array_equal, wanted.positions, shares.positions))
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Shared:
    """Bounds for entities that share their groups, with the standard deviations that the spine reaches."""

    bounds: SharedBounds
    reached: Floats


def _shared(inputs: _BoundInputs, families: Sequence[EntityFamily]) -> _Shared:
    reached = np.concatenate([np.sqrt(entity_variances(inputs.reached, family)) for family in families])
    moved = [inputs.moved(family) for family in families]
    return _Shared(shared_bounds(inputs.variances, moved, inputs.free, single=inputs.single), reached)


def _shared_rows(
    rows: Sequence[dict[str, Any]],
    variances: Sequence[SpineVariances],
    pairs: Sequence[tuple[EntityFamily, EntityFamily]],
    shared: _Shared,
) -> list[dict[str, Any]]:
    """Add bounds for entities that share their groups to the rows of families.

    Returns:
        A row of all families together; no row if there is only one family.
    """
    number = np.repeat(np.arange(len(pairs)), [pair[1].n_entities for pair in pairs])
    for place, row in enumerate(rows):
        least = shared.bounds.least_mean(number == place, shared.reached)
        row["shared_mean"], row["shared_gap"] = least, _gap(row["second_mean"], least)
    if len(pairs) == 1:
        return []
    accuracies = [
        family_accuracies(on_spine, [together(families)])[0]
        for on_spine, families in zip(variances, zip(*pairs, strict=True), strict=True)
    ]
    alone = float(shared.bounds.alone.mean())
    row = _row("areas of the first", accuracies[0], replace(accuracies[1], name=ALL_FAMILIES), set(), alone)
    least = shared.bounds.least_sum(np.ones(len(number))) / len(number)
    return [{**row, "shared_mean": least, "shared_gap": _gap(accuracies[1].mean, least)}]


def _undivided(
    spine: Spine,
    pairs: Sequence[tuple[EntityFamily, EntityFamily]],
    shared: _Shared | None,
    free: FreeGroups | None,
) -> list[float | None]:
    """Least mean distance of each family, and of all families together; None if it is not known.

    The least is over the groups with which the standard deviations of all entities have no greater mean than on the
    spine. It is known if the lowest groups are free, and if every such group that an entity divides makes this mean
    greater.
    """
    if (
        free is None
        or shared is None
        or not free.are_lowest(spine)
        or not shared.bounds.keeps_groups_whole(shared.reached)
    ):
        return [None] * (len(pairs) + 1)
    fewest, moved = undivided(spine, [pair[1] for pair in pairs], free.limit)
    return [
        joint_distance_bound(fewest, families, free.higher(spine), free.limit)
        / sum(family.n_entities for family in families)
        for families in (*([family] for family in moved), moved)
    ]


def _distances(
    spines: Sequence[Spine], pair: Sequence[EntityFamily], free: FreeGroups | None
) -> dict[str, Any]:
    """Off-spine distances of a family on two spines, and the bound on those of the second."""
    first, second = (off_spine_distances(spine, family) for spine, family in zip(spines, pair, strict=True))
    bounds = least = None
    if free is not None:
        bounds = distance_bounds(spines[1], pair[1], free.geolevels, free.limit)
        # Entities of a family share their groups.
        least = joint_distance_bound(spines[1], [pair[1]], free.geolevels, free.limit) / len(first.codes)
    return {
        "name": first.family,
        "areas": len(first.codes),
        "first_mean": first.mean,
        "second_mean": second.mean,
        "first_greatest": first.maximum,
        "second_greatest": second.maximum,
        "bound_mean": least,
        "bound_greatest": None if bounds is None else int(bounds.max()),
        "gap": _gap(second.mean, least),
    }


def _all_distances(
    rows: Sequence[dict[str, Any]], spine: Spine, families: Sequence[EntityFamily], free: FreeGroups | None
) -> dict[str, Any]:
    """The row of all families together. Its bound lets families share their groups."""
    areas = sum(row["areas"] for row in rows)
    means: dict[str, Any] = {
        name: None if rows[0][name] is None else sum(row["areas"] * row[name] for row in rows) / areas
        for name in ("first_mean", "second_mean", "bound_mean")
    }
    if free is not None:
        shared = joint_distance_bound(spine, families, free.geolevels, free.limit) / areas
        means["bound_mean"] = max(shared, means["bound_mean"])
    greatest = {
        name: None if rows[0][name] is None else max(row[name] for row in rows)
        for name in ("first_greatest", "second_greatest", "bound_greatest")
    }
    return {
        "name": ALL_FAMILIES,
        "areas": areas,
        **means,
        **greatest,
        "gap": _gap(means["second_mean"], means["bound_mean"]),
    }


def _gap(mean: float, bound: float | None) -> float | None:
    """By which part a mean is above its bound; None without a bound, or where the bound is 0."""
    return mean / bound - 1 if bound else None


def _parameters(strategy: Strategy, is_moved: bool) -> list[dict[str, Any]]:
    """Privacy parameters of a strategy; where shares are moved between geolevels, of the whole alone."""
    if not is_moved:
        return strategy_parameters(strategy, with_mu=False)
    return [cost_parameters(strategy)]


def _each(
    kind: str, pair: Sequence[EntityFamily], variances: Sequence[SpineVariances], bounded: _BoundInputs | None
) -> pl.DataFrame:
    """Standard deviation of every area of a family on two spines, and the bound on that of the second."""
    first, second = pair
    names = {"kind": [kind] * first.n_entities, "name": [first.name] * first.n_entities}
    return pl.DataFrame(
        {**names, "code": list(first.codes)}, schema=dict.fromkeys((*names, "code"), pl.String)
    ).with_columns(
        pl.Series("first", np.sqrt(entity_variances(variances[0], first))),
        pl.Series("second", np.sqrt(entity_variances(variances[1], second))),
        pl.Series("bound", [None] * first.n_entities if bounded is None else bounded.least(second)),
    )


def _rows(first: Spine, second: Spine) -> Any:
    """Row on the first spine of each finest geounit of the second."""

    rows = first.locate(first.finest, second.geocodes[-1].text)
    if first.n_geounits(first.finest) != len(rows) or bool((rows < 0).any()):
        raise GeographyError(
            "the two spines do not have the same finest geounits, so they cannot be compared. Build both from one "
            "geography table."
        )
    return rows


def _cut_by(spine: Spine, other: Spine, rows: Any) -> list[EntityFamily]:
    """The geolevels of another spine of which a spine has more geounits; `rows` are its blocks on the other spine."""
    return [
        geounits_as_entities(other, level).reordered(rows)
        for level, name in enumerate(other.geolevels)
        # More geounits under the same name mean that the spine cut those of the other one.
        if name in spine.geolevels and other.n_geounits(level) < spine.n_geounits(spine.level_index(name))
    ]


def _row(
    part: str,
    on_first: AreaAccuracy | None,
    on_second: AreaAccuracy,
    aimed: AbstractSet[str],
    bound: Any,
) -> dict[str, Any]:

    row: dict[str, Any] = {
        "part": part,
        "kind": on_second.kind,
        "name": on_second.name,
        "areas": on_second.areas,
    }
    for measure in MEASURES:
        row[f"first_{measure}"] = getattr(on_first, measure) if on_first is not None else None
        row[f"second_{measure}"] = getattr(on_second, measure)
    row["aimed"] = on_second.name in aimed
    row["worse"] = on_first is not None and is_worse(on_first.mean, on_second.mean)
    row["bound_mean"], row["gap"] = bound, _gap(on_second.mean, bound)
    row["shared_mean"] = row["shared_gap"] = None
    return row
