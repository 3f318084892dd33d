"""What the spine commands work out and print."""

import json
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from tallyveil.cli.spine_inputs import read_families, read_strategy
from tallyveil.cli.terminal import say
from tallyveil.errors import BudgetError, ConfigError

if TYPE_CHECKING:
    from tallyveil.budget.spine.accuracy import AreaAccuracy
    from tallyveil.budget.spine.measures import TotalMeasures
    from tallyveil.budget.spine.variance import SpineVariances
    from tallyveil.geography import EntityFamily, Recipe, Spine

MEASURES = ("mean", "median", "q90", "greatest")
PRINTED = {"mean": "mean", "q90": "90 %", "greatest": "max"}


def comparison(
    files: tuple[Path, Path],
    strategies: tuple[str, str],
    entities: Path | None,
    family: Sequence[str],
    schema: str,
    exact: Sequence[str],
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Standard deviations on two spines.

    Returns:
        A row for each kind of area; and a row for each area: every geounit of the first spine, every entity.

    Raises:
        GeographyError: the spines are not over the same blocks.
        BudgetError: a spine has more to spend than the strategy allows, or does not fit it.
    """
    from tallyveil.budget.spine.accuracy import (
        family_accuracies,
        geolevel_accuracies,
        measured_variances,
    )
    from tallyveil.geography.areas import geounits_as_entities
    from tallyveil.geography.spine_files import read_aimed, read_spine_file

    found, families, spines = [], [], []
    aimed = {name for file in files for name in read_aimed(file)}
    for file, strategy in zip(files, strategies, strict=True):
        made, shares = read_spine_file(file)
        plan, summed = read_strategy(strategy, schema)
        if shares is None and plan.geolevels != made.geolevels:
            raise BudgetError(
                f"{file} has geolevels {', '.join(made.geolevels)}, strategy {strategy} has "
                f"{', '.join(plan.geolevels)}. Name the strategy the spine is for."
            )
        found.append(measured_variances(made, plan, summed, shares=shares, exact=exact))
        families.append(read_families(entities, made, family))
        spines.append(made)
    rows_on_first = _rows(spines[0], spines[1])
    first = [*geolevel_accuracies(found[0]), *family_accuracies(found[0], families[0])]
    areas = [geounits_as_entities(spines[0], level) for level in range(spines[0].n_levels)]
    moved = [area.reordered(rows_on_first) for area in areas]
    second = [*family_accuracies(found[1], moved, "geolevel"), *family_accuracies(found[1], families[1])]
    rows = [_row("areas of the first", one, two, aimed) for one, two in zip(first, second, strict=True)]
    rows += [_row("geounits of the second", None, one, set()) for one in geolevel_accuracies(found[1])]
    each = [
        _each(kind, family, found[0], found[1], rows_on_first)
        for kind, families_on_first in (("geolevel", areas), ("entities", families[0]))
        for family in families_on_first
    ]
    return pl.DataFrame(rows, infer_schema_length=None), pl.concat(each)


def _each(
    kind: str, family: "EntityFamily", first: "SpineVariances", second: "SpineVariances", rows: Any
) -> pl.DataFrame:
    """Standard deviation of every area of a family on the first spine, on both."""
    from tallyveil.budget.spine.variance import entity_variances

    names = {"kind": [kind] * family.n_entities, "name": [family.name] * family.n_entities}
    return pl.DataFrame(
        {**names, "code": list(family.codes)}, schema=dict.fromkeys((*names, "code"), pl.String)
    ).with_columns(
        pl.Series("first", np.sqrt(entity_variances(first, family))),
        pl.Series("second", np.sqrt(entity_variances(second, family.reordered(rows)))),
    )


def _rows(first: "Spine", second: "Spine") -> Any:
    """Row on the first spine of each finest geounit of the second."""
    from tallyveil.errors import GeographyError

    rows = first.locate(first.finest, second.geocodes[-1].text)
    if first.n_geounits(first.finest) != len(rows) or bool((rows < 0).any()):
        raise GeographyError(
            "the two spines are not over the same finest geounits, so nothing can be compared. Build both from one "
            "geography table."
        )
    return rows


def _row(
    part: str, one: "AreaAccuracy | None", two: "AreaAccuracy", aimed: AbstractSet[str]
) -> dict[str, Any]:
    from tallyveil.execution.topdown.spine_changes import is_worse

    row: dict[str, Any] = {"part": part, "kind": two.kind, "name": two.name, "areas": two.areas}
    for measure in MEASURES:
        row[f"first_{measure}"] = getattr(one, measure) if one is not None else None
        row[f"second_{measure}"] = getattr(two, measure)
    row["aimed"] = two.name in aimed
    row["worse"] = one is not None and is_worse(one.mean, two.mean)
    return row


def _areas(row: dict[str, Any]) -> str:
    return f"{row['name']} of the first spine" if row["kind"] == "geolevel" else str(row["name"])


def _change(row: dict[str, Any]) -> str:
    """Relative change of the mean standard deviation; a dash where the first spine has none or is exact."""
    first, second = row["first_mean"], row["second_mean"]
    if first is None or not 0 < first < np.inf:
        return "–"
    return f"{second / first - 1:+.0%}" + (" worse" if row["worse"] else "")


def show_rows(frame: pl.DataFrame, as_json: bool) -> None:
    """Print a comparison, and a warning for every kind of area that is less exact on the second spine."""
    from tallyveil.cli.area_changes import AIMED, warn

    if as_json:
        say(json.dumps(frame.to_dicts(), indent=2))
        return
    show_table(
        [
            "",
            "areas",
            *(f"{place} {name}" for name in PRINTED.values() for place in ("1st", "2nd")),
            "change",
        ],
        [
            [
                row["name"] + (AIMED if row["aimed"] else "")
                if row["part"].startswith("areas")
                else f"{row['name']} of the 2nd",
                row["areas"],
            ]
            + [row[f"{place}_{measure}"] for measure in PRINTED for place in ("first", "second")]
            + [_change(row)]
            for row in frame.iter_rows(named=True)
        ],
        False,
    )
    say(
        "Standard deviations of the total, in counts. The same areas on both spines; below, the second's own. The last "
        "column says by how much the mean changes."
    )
    if frame["aimed"].any():
        say("Groups were chosen by variance for what is marked *.")
    warn(
        [
            f"{_areas(row)}: totals are less exact on the second spine, with a mean standard deviation of "
            f"{row['second_mean']:,.2f} against {row['first_mean']:,.2f}"
            for row in frame.iter_rows(named=True)
            if row["worse"]
        ]
    )


def fitted(
    file: Path,
    strategy: str,
    targets: Sequence[str],
    entities: Path | None,
    each: bool,
    schema: str,
    exact: Sequence[str],
) -> tuple[list[list[Any]], list[str], list[str]]:
    """Shares that meet targets, by geolevel; what to say of them; and warnings.

    The warnings are of families and geolevels that these shares make less exact than the strategy's own do with the
    same budget.

    Raises:
        ConfigError: a target that is no NAME=NUMBER.
        BudgetError: as `fit_shares`.
    """
    from tallyveil.budget.fitted_shares import AccuracyTarget, fit_shares
    from tallyveil.budget.fractions import parse_fraction
    from tallyveil.budget.spine.measures import TotalMeasures
    from tallyveil.geography.spine_files import read_spine_file

    if any(not item.partition("=")[2] for item in targets):
        raise ConfigError("a target is NAME=STANDARD_DEVIATION, such as Tract=5.", code="bad-flag")
    wanted = [
        AccuracyTarget(item.partition("=")[0], parse_fraction(item.partition("=")[2], "--target"), each)
        for item in targets
    ]
    made, _ = read_spine_file(file)
    plan, summed = read_strategy(strategy, schema)
    missing = [one.name for one in wanted if one.name not in made.geolevels] if entities is None else []
    families = read_families(entities, made, missing)
    found = fit_shares(made, families, plan, summed, wanted, exact=exact)
    own = dict(plan.geolevel_shares)
    rows: list[list[Any]] = [
        [name, str(share), str(own[name])] for name, share in found.strategy.geolevel_shares
    ]
    unit = plan.budget_unit
    lines = [
        f"{unit} needed: {found.needed} = {float(found.needed):.6g} (no shares do with less than {found.least:.6g}); "
        f"with the strategy's own shares {found.given_needed:.6g}",
        *(
            f"  {target.name}: wanted {float(target.standard_deviation):g}, reached {reached:.4g}"
            for target, reached in found.reached
        ),
    ]
    own_measures = TotalMeasures(replace(plan, total=found.needed), summed, tuple(exact))
    fitted_measures = TotalMeasures(found.strategy, summed, tuple(exact))
    return rows, lines, _losses(made, families, own_measures, fitted_measures)


def _losses(
    made: "Spine", families: "Sequence[EntityFamily]", own: "TotalMeasures", fitted: "TotalMeasures"
) -> list[str]:
    """A sentence for every family and geolevel that fitted shares make less exact, with the same budget."""
    from tallyveil.budget.spine.accuracy import family_accuracies, geolevel_accuracies
    from tallyveil.execution.topdown.spine_changes import is_worse

    one, two = (
        [*family_accuracies(found, families), *geolevel_accuracies(found)]
        for found in (own.on(made), fitted.on(made))
    )
    return [
        f"{after.name}: totals are less exact with these shares, with a mean standard deviation of {after.mean:,.2f} "
        f"against {before.mean:,.2f} with the strategy's own shares of the same budget"
        for before, after in zip(one, two, strict=True)
        if is_worse(before.mean, after.mean)
    ]


def show_recipe(spine: "Spine", recipe: "Recipe", name: str, as_json: bool) -> None:
    """Print the geounits that make an entity."""
    lines = recipe.lines(spine)
    if as_json:
        say(json.dumps([{"sign": sign, "geolevel": level, "geocode": code} for sign, level, code in lines]))
        return
    say(f"{name} is {len(lines)} geounits:")
    for sign, level, code in lines:
        say(f"  {'+' if sign > 0 else '-'} {level} {code}")


def show_table(headings: list[str], rows: list[list[Any]], as_json: bool) -> None:
    """Print rows under headings, or as JSON."""
    if as_json:
        say(json.dumps([dict(zip(headings, row, strict=True)) for row in rows], indent=2))
        return
    from rich import box
    from rich.table import Table

    from tallyveil.cli.terminal import Screen

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="right" if place else "left", no_wrap=not place)
    for row in rows:
        table.add_row(*(_text(value) for value in row))
    console = Screen()
    # Into a file or a pipe there is no width to keep to.
    console.print(table) if console.is_terminal else Screen(width=140).print(table)


def _text(value: Any) -> str:
    if value is None:
        return "–"
    return (
        f"{value:,.2f}"
        if isinstance(value, float)
        else f"{value:,}"
        if isinstance(value, int)
        else str(value)
    )
