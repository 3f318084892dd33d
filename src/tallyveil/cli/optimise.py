"""What `tallyveil plan --optimise` does: find better shares of a budget, write them to a file, and show them."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallyveil.cli.frame.terminal import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallyveil.api.planned import BetterShares
    from tallyveil.budget.optimal.choose import OptimalShares, ShareChoice
    from tallyveil.products.topdown.run.shares_trial import Trial
    from tallyveil.schema.schema import Unit


GOALS = {
    "sum": "the weighted sum of variances",
    "maximum": "the largest weighted variance",
    "rho": "rho, as the targets allow",
}
MODELS = {
    "topdown": "estimates from each geolevel's own measurements, from the root downwards, before counts are made "
    "non-negative integers",
    "least_squares": "estimates from all measurements, as tallyveil intervals makes them, without public bounds",
}


def show_better_shares(better: "BetterShares", out: Path | None) -> None:
    """Print better shares for readers.

    Args:
        better: The shares.
        out: The file with the resulting tables, or None.
    """
    plan, shares = better.plan, better.shares
    _show_optimal(shares, plan.schema.unit.many)
    if better.trial is None:
        say(
            "These numbers are the model's, which knows neither that released counts are never negative nor public "
            "bounds. Released counts can gain less than shown, and an aim can become worse. --try KEYS measures "
            "releases of made-up records."
        )
    else:
        _show_trial(shares, better.trial, plan.schema.unit)
    if shares.aims.model.value == "topdown" and any(item.values == "tree" for _, item in plan.estimation):
        say(
            'This release has values = "tree": it also uses what is measured below a geounit, which the model does '
            "not. So its errors above the finest geolevel are usually smaller than shown, before and after."
        )
    if better.needs_more:
        say(
            "The targets need more rho than [privacy] declares. `tallyveil plan` accepts these shares only if "
            "[privacy] declares more, which is for policy to decide."
        )
    if out is not None:
        say(f"{out}: put its tables in the place of [strategy] and [estimation].")


def better_shares_record(better: "BetterShares") -> dict[str, Any]:
    """Better shares as plain data, with what a trial measured."""
    record, trial = _record(better.shares), better.trial
    if trial is not None:
        record["trial"] = {
            "records": trial.records,
            "keys": trial.keys,
            "root_mean_square_ratio": trial.mean_ratio,
        }
        measured = _measured(better.shares, trial)
        for item, (_, before, after, ratio, spread) in zip(record["aims"], measured, strict=True):
            item["measured"] = {
                "error": {"before": before, "after": after},
                "ratio": ratio,
                "margin": spread,
            }
    return record


def _show_optimal(shares: "OptimalShares", units: str) -> None:
    """Print the result.

    Args:
        shares: The shares.
        units: What records are called, in the plural.
    """
    from tallyveil.accounting.numbers import at_most, delta_text
    from tallyveil.cli.frame.tables import show_table
    from tallyveil.cli.frame.terminal import Screen, headed

    console = Screen()
    console.print(headed("Better shares", f" (smallest {GOALS[shares.aims.goal.value]})"))
    console.print(f"variances   of {MODELS[shares.aims.model.value]}", soft_wrap=True)
    console.print(f"gap         no shares can be better by more than {at_most(100 * shares.gap, places=2)} %")
    if shares.held:
        console.print(
            f"floor       {', '.join(shares.held)} keep at least {shares.aims.floor} of their present shares, because "
            "they determine what public bounds limit",
            soft_wrap=True,
        )
    console.print(
        f"epsilon     at most {at_most(shares.epsilon)} at delta = {delta_text(shares.delta)}", end=""
    )
    console.print(f"; with the present shares {at_most(shares.epsilon_before)}")
    console.print(
        f"rho         {at_most(shares.strategy.total, places=6)}; with the present shares "
        f"{at_most(shares.before.total, places=6)}"
    )
    headings = ["area", "query", f"st.dev. before ({units})", "after", "ratio"]
    with_targets = bool(shares.aims.targets)
    rows: list[list[Any]] = [
        [aim.area, aim.query, _short(aim.before), _short(aim.after), f"{aim.ratio:.3f}"]
        + ([None if aim.wanted is None else _short(float(aim.wanted))] if with_targets else [])
        for aim in shares.outcomes
    ]
    show_table(headings + (["wanted"] if with_targets else []), rows, False)
    say(
        f"Root mean square of the ratios: {shares.mean_ratio:.3f}. A standard deviation is the root of the mean "
        "variance over all answers of all geounits or entities of the area."
    )


def _show_trial(shares: "OptimalShares", trial: "Trial", unit: "Unit") -> None:
    """Print what releases of made-up records obtain, beside what the model promises.

    Args:
        shares: The shares.
        trial: What was measured.
        unit: What records are.
    """
    from tallyveil.cli.frame.tables import show_table
    from tallyveil.cli.frame.terminal import Screen, headed

    console = Screen()
    console.print()
    records = f"{unit.counted(trial.records)}, made up, under {trial.keys} test keys"
    console.print(headed("Measured", f" in releases of {records} (no record was opened)"), soft_wrap=True)
    rows: list[list[Any]] = [
        [
            aim.area,
            aim.query,
            _short(before),
            _short(after),
            f"{ratio:.3f}",
            f"{spread:.3f}",
            f"{aim.ratio:.3f}",
        ]
        for aim, before, after, ratio, spread in _measured(shares, trial)
    ]
    headings = ["area", "query", f"error before ({unit.many})", "after", "ratio", "±", "promised ratio"]
    show_table(headings, rows, False)
    worse = [
        f"'{aim.query}' at {aim.area}"
        for aim, _, _, ratio, spread in _measured(shares, trial)
        if ratio - spread > 1
    ]
    listed = f": {'; '.join(worse)}" if worse else ""
    say(
        f"Root mean square of the measured ratios: {trial.mean_ratio:.3f}; the model promises {shares.mean_ratio:.3f}. "
        f"{len(worse)} of {len(shares.outcomes)} became worse beyond the margin ± of 95 % that each ratio has by "
        f"itself{listed}. An error is the root of the mean squared difference between released and made-up counts."
    )


def _measured(
    shares: "OptimalShares", trial: "Trial"
) -> "Iterator[tuple[ShareChoice, float, float, float, float]]":
    """Every outcome with its measured error before and after, their ratio, and the ratio's margin."""
    before, after = trial.deviations
    numbers = (before.tolist(), after.tolist(), trial.ratios.tolist(), trial.margins.tolist())
    return zip(shares.outcomes, *numbers, strict=True)


def _record(shares: "OptimalShares") -> dict[str, Any]:
    return {
        "model": shares.aims.model.value,
        "minimise": shares.aims.goal.value,
        "spare": shares.aims.spare,
        "floor": {"part": str(shares.aims.floor), "queries": list(shares.held)},
        "gap": shares.gap,
        "delta": str(shares.delta),
        "epsilon": {"before": shares.epsilon_before, "after": shares.epsilon},
        "rho": {"before": str(shares.before.total), "after": str(shares.strategy.total)},
        "root_mean_square_ratio": shares.mean_ratio,
        "aims": [
            {
                "area": aim.area,
                "query": aim.query,
                "weight": None if aim.weight is None else str(aim.weight),
                "wanted": None if aim.wanted is None else float(aim.wanted),
                "standard_deviation": {"before": aim.before, "after": aim.after},
                "ratio": aim.ratio,
            }
            for aim in shares.outcomes
        ],
        "geolevel_shares": {name: str(share) for name, share in shares.strategy.geolevel_shares},
        "query_shares": {
            name: {query: str(share) for query, share in parts}
            for name, parts in shares.strategy.query_shares
        },
    }


def _short(value: float) -> str:
    return f"{value:,.2f}" if value >= 1 else f"{value:.3g}"
