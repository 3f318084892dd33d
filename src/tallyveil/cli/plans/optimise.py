"""What `tallyveil plan --optimise` does: find better shares, write them to a file of their own, and show them."""

import json
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from tallyveil.cli.frame.terminal import say

if TYPE_CHECKING:
    from tallyveil.budget.optimal.choose import OptimalShares
    from tallyveil.plans.release import ReleasePlan
    from tallyveil.products.topdown.run.shares_trial import Trial


def optimise(
    release_file: Path,
    aims_file: Path,
    out: Path | None,
    *,
    keys: int | None,
    people: int | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Find the shares that a file of aims asks for.

    Args:
        release_file: The release file.
        aims_file: The file of aims.
        out: File for the resulting tables, or None.
        keys: Number of test keys under which made-up records are released; None for no such trial.
        people: Number of made-up records; None for the default.
        quiet: Whether nothing is printed.
        as_json: Whether the result is printed as JSON.
    """
    from tallyveil.cli.show.optimal_shares import optimal_record, show_optimal, show_trial
    from tallyveil.plans.advice import strategy_tables
    from tallyveil.plans.from_toml.aims import load_aims
    from tallyveil.plans.from_toml.load import load_plan
    from tallyveil.products.topdown.run.optimal_shares import optimal_shares, public_inputs
    from tallyveil.storage.outputs import new_file
    from tallyveil.storage.write import write_text

    loaded, aims = load_plan(release_file), load_aims(aims_file)
    inputs = [release_file, aims_file, *public_inputs(loaded, aims)]
    with nullcontext() if out is None else new_file(out, inputs):
        found = optimal_shares(loaded, aims)
        trial = None if keys is None else _tried(loaded, found, keys, people)
        if out is not None:
            write_text(out, strategy_tables(found.strategy, loaded) + "\n")
    if as_json:
        say(json.dumps(optimal_record(found, trial), indent=2))
    if as_json or quiet:
        return
    show_optimal(found, loaded.schema.unit.many)
    if trial is None:
        say(
            "These numbers are the model's, which knows neither that released counts are never negative nor public "
            "bounds. Released counts can gain less than shown, and an aim can become worse. --try KEYS measures "
            "releases of made-up records."
        )
    else:
        show_trial(found, trial, loaded.schema.unit)
    if aims.model.value == "topdown" and any(item.values == "tree" for _, item in loaded.estimation):
        say(
            'This release has values = "tree": it also uses what is measured below a geounit, which the model does '
            "not. So its errors above the finest geolevel are usually smaller than shown, before and after."
        )
    if loaded.spent - loaded.strategy.total + found.strategy.total > loaded.declared:
        say(
            "The targets need more rho than [privacy] declares. `tallyveil plan` accepts these shares only if "
            "[privacy] declares more, which is for policy to decide."
        )
    if out is not None:
        say(f"{out}: put its tables in the place of [strategy] and [estimation].")


def _tried(loaded: "ReleasePlan", found: "OptimalShares", keys: int, people: int | None) -> "Trial":
    from tallyveil.products.topdown.run.shares_trial import try_shares  # here, since few calls try shares

    return try_shares(loaded, found, keys, people)
