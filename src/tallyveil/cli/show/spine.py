"""Print the results of the spine commands."""

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from tallyveil.cli.frame.terminal import say
from tallyveil.cli.show.number_table import show_table

if TYPE_CHECKING:
    from tallyveil.geography import Recipe, Spine
    from tallyveil.products.topdown.run.fitted_spine import FittedSpine

PRINTED = {"mean": "mean", "q90": "90 %", "greatest": "max"}


def _areas(row: dict[str, Any]) -> str:
    return f"{row['name']} of the first spine" if row["kind"] == "geolevel" else str(row["name"])


def _change(row: dict[str, Any]) -> str:
    """Relative change of the mean standard deviation; a dash if the first spine has none or is exact."""
    first, second = row["first_mean"], row["second_mean"]
    if first is None or not 0 < first < np.inf:
        return "–"
    return f"{second / first - 1:+.0%}" + (" worse" if row["worse"] else "")


def show_rows(frame: pl.DataFrame, parameters: list[dict[str, Any]], as_json: bool) -> None:
    """Print a comparison with what its accuracy costs, and a warning for every kind of area that is less exact."""
    from tallyveil.cli.show.area_changes import AIMED, warn
    from tallyveil.cli.show.parameters import show_parameters

    if as_json:
        say(json.dumps({"areas": frame.to_dicts(), "privacy": parameters}, indent=2))
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
    say("What this accuracy costs, for each geolevel alone and for all together:")
    show_parameters(parameters)
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


def show_fitted(made: "FittedSpine", as_json: bool) -> None:
    """Print fitted shares and the strategy's own shares, with their budgets and standard deviations."""
    found, own = made.found, dict(made.given.geolevel_shares)
    rows = [[name, str(share), str(own[name])] for name, share in found.strategy.geolevel_shares]
    show_table(["geolevel", "share", "strategy's own"], rows, as_json)
    if as_json:
        return
    say(
        f"{made.given.budget_unit} needed: {found.needed} = {float(found.needed):.6g} (no shares do with less than "
        f"{found.least:.6g}); with the strategy's own shares {found.given_needed:.6g}"
    )
    for target, reached in found.reached:
        say(f"  {target.name}: wanted {float(target.standard_deviation):g}, reached {reached:.4g}")


def show_recipe(spine: "Spine", recipe: "Recipe", name: str, as_json: bool) -> None:
    """Print the geounits that make an entity."""
    lines = recipe.lines(spine)
    if as_json:
        say(json.dumps([{"sign": sign, "geolevel": level, "geocode": code} for sign, level, code in lines]))
        return
    say(f"{name} is {len(lines)} geounits:")
    for sign, level, code in lines:
        say(f"  {'+' if sign > 0 else '-'} {level} {code}")
