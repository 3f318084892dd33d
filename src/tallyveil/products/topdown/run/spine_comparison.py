"""How exact totals are on two spines, side by side, before any data is opened."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tallyveil.budget.guarantees import cost_parameters, strategy_parameters
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
from tallyveil.geography import EntityFamily, Spine
from tallyveil.geography.areas import geounits_as_entities
from tallyveil.geography.tables import read_aimed, read_spine_file
from tallyveil.products.topdown.run.spine_changes import is_worse
from tallyveil.products.topdown.run.spine_inputs import read_families

MEASURES = ("mean", "median", "q90", "greatest")


def comparison(
    files: tuple[Path, Path],
    measures: tuple[TotalMeasures, TotalMeasures],
    entities: Path | None,
    family: Sequence[str],
) -> tuple[pl.DataFrame, pl.DataFrame, list[dict[str, Any]]]:
    """Standard deviations on two spines.

    Returns:
        A row for each kind of area; a row for each area: every geounit of the first spine, every entity; and the
        privacy parameters of both strategies, a row for each geolevel (`budget/guarantees.py`). Where a spine moves
        shares between geolevels there is one row, for all of them.

    Raises:
        GeographyError: the spines are not over the same blocks.
        BudgetError: a spine has more to spend than the strategy allows, or does not fit it.
    """

    families, spines, all_shares, parameters = [], [], [], []
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
        families.append(read_families(entities, spine, family))
        spines.append(spine)
        parameters += [{"spine": place, **row} for row in _parameters(plan, shares is not None)]
    # Both spines sort the same finest geounits differently: `rows_on_first` maps the second to the first, argsort back.
    rows_on_first = _rows(spines[0], spines[1])
    order = (np.argsort(rows_on_first), rows_on_first)
    variances = [
        measures[place]
        .with_cut(spine, spines[1 - place].geolevels, _cut_by(spine, spines[1 - place], order[place]))
        .on(spine, all_shares[place])
        for place, spine in enumerate(spines)
    ]
    first = [*geolevel_accuracies(variances[0], spines[0]), *family_accuracies(variances[0], families[0])]
    areas = [geounits_as_entities(spines[0], level) for level in range(spines[0].n_levels)]
    moved = [area.reordered(rows_on_first) for area in areas]
    second = [
        *family_accuracies(variances[1], moved, "geolevel"),
        *family_accuracies(variances[1], families[1]),
    ]
    rows = [
        _row("areas of the first", on_first, on_second, aimed)
        for on_first, on_second in zip(first, second, strict=True)
    ]
    rows += [
        _row("geounits of the second", None, geolevel, set())
        for geolevel in geolevel_accuracies(variances[1], spines[1])
    ]
    each = [
        _each(kind, family, variances[0], variances[1], rows_on_first)
        for kind, families_on_first in (("geolevel", areas), ("entities", families[0]))
        for family in families_on_first
    ]
    return pl.DataFrame(rows, infer_schema_length=None), pl.concat(each), parameters


def _parameters(strategy: Strategy, moved: bool) -> list[dict[str, Any]]:
    """Privacy parameters of a strategy; where shares are moved between geolevels, of the whole alone."""
    if not moved:
        return strategy_parameters(strategy, with_mu=False)
    return [cost_parameters(strategy)]


def _each(
    kind: str, family: EntityFamily, first: SpineVariances, second: SpineVariances, rows: Any
) -> pl.DataFrame:
    """Standard deviation of every area of a family on the first spine, on both."""

    names = {"kind": [kind] * family.n_entities, "name": [family.name] * family.n_entities}
    return pl.DataFrame(
        {**names, "code": list(family.codes)}, schema=dict.fromkeys((*names, "code"), pl.String)
    ).with_columns(
        pl.Series("first", np.sqrt(entity_variances(first, family))),
        pl.Series("second", np.sqrt(entity_variances(second, family.reordered(rows)))),
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
    part: str, on_first: AreaAccuracy | None, on_second: AreaAccuracy, aimed: AbstractSet[str]
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
    return row
