"""Print better shares of a budget: what every aim gets, what it costs, and how far from the best they are."""

from typing import TYPE_CHECKING, Any

from tallyveil.cli.frame.terminal import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallyveil.budget.optimal.choose import OptimalShares, ShareChoice
    from tallyveil.products.topdown.run.shares_trial import Trial
    from tallyveil.schema.unit import Unit

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


def show_optimal(found: "OptimalShares", units: str) -> None:
    """Print the result.

    Args:
        found: The shares.
        units: What records are called, in the plural.
    """
    from tallyveil.accounting.decimals import at_most, delta_text
    from tallyveil.cli.frame.terminal import Screen, headed
    from tallyveil.cli.show.number_table import show_table

    console = Screen()
    console.print(headed("Better shares", f" (smallest {GOALS[found.aims.goal.value]})"))
    console.print(f"variances   of {MODELS[found.aims.model.value]}", soft_wrap=True)
    console.print(f"gap         no shares can be better by more than {at_most(100 * found.gap, places=2)} %")
    if found.held:
        console.print(
            f"floor       {', '.join(found.held)} keep at least {found.aims.floor} of their present shares, because "
            "they determine what public bounds limit",
            soft_wrap=True,
        )
    console.print(
        f"epsilon     at most {at_most(found.epsilon)} at delta = {delta_text(found.delta)}", end=""
    )
    console.print(f"; with the present shares {at_most(found.epsilon_before)}")
    console.print(
        f"rho         {at_most(found.strategy.total, places=6)}; with the present shares "
        f"{at_most(found.before.total, places=6)}"
    )
    headings = ["area", "query", f"st.dev. before ({units})", "after", "ratio"]
    with_targets = bool(found.aims.targets)
    rows: list[list[Any]] = [
        [one.area, one.query, _short(one.before), _short(one.after), f"{one.ratio:.3f}"]
        + ([None if one.wanted is None else _short(float(one.wanted))] if with_targets else [])
        for one in found.outcomes
    ]
    show_table(headings + (["wanted"] if with_targets else []), rows, False)
    say(
        f"Root mean square of the ratios: {found.mean_ratio:.3f}. A standard deviation is the root of the mean "
        "variance over all answers of all geounits or entities of the area."
    )


def show_trial(found: "OptimalShares", trial: "Trial", unit: "Unit") -> None:
    """Print what releases of made-up records obtain, beside what the model promises.

    Args:
        found: The shares.
        trial: What was measured.
        unit: What records are.
    """
    from tallyveil.cli.frame.terminal import Screen, headed
    from tallyveil.cli.show.number_table import show_table

    console = Screen()
    console.print()
    records = f"{unit.counted(trial.records)}, made up, under {trial.keys} test keys"
    console.print(headed("Measured", f" in releases of {records} (no record was opened)"), soft_wrap=True)
    rows: list[list[Any]] = [
        [
            one.area,
            one.query,
            _short(before),
            _short(after),
            f"{ratio:.3f}",
            f"{spread:.3f}",
            f"{one.ratio:.3f}",
        ]
        for one, before, after, ratio, spread in _measured(found, trial)
    ]
    headings = ["area", "query", f"error before ({unit.many})", "after", "ratio", "±", "promised ratio"]
    show_table(headings, rows, False)
    worse = [
        f"'{one.query}' at {one.area}"
        for one, _, _, ratio, spread in _measured(found, trial)
        if ratio - spread > 1
    ]
    listed = f": {'; '.join(worse)}" if worse else ""
    say(
        f"Root mean square of the measured ratios: {trial.mean_ratio:.3f}; the model promises {found.mean_ratio:.3f}. "
        f"{len(worse)} of {len(found.outcomes)} became worse beyond the margin ± of 95 % that each ratio has by "
        f"itself{listed}. An error is the root of the mean squared difference between released and made-up counts."
    )


def _measured(
    found: "OptimalShares", trial: "Trial"
) -> "Iterator[tuple[ShareChoice, float, float, float, float]]":
    """Every outcome with its measured error before and after, their ratio, and the ratio's margin."""
    before, after = trial.deviations
    numbers = (before.tolist(), after.tolist(), trial.ratios.tolist(), trial.margins.tolist())
    return zip(found.outcomes, *numbers, strict=True)


def optimal_record(found: "OptimalShares", trial: "Trial | None" = None) -> dict[str, Any]:
    """The result as plain data, with what a trial measured."""
    record = _record(found)
    if trial is not None:
        record["trial"] = {
            "records": trial.records,
            "keys": trial.keys,
            "root_mean_square_ratio": trial.mean_ratio,
        }
        for item, (_, before, after, ratio, spread) in zip(
            record["aims"], _measured(found, trial), strict=True
        ):
            item["measured"] = {
                "error": {"before": before, "after": after},
                "ratio": ratio,
                "margin": spread,
            }
    return record


def _record(found: "OptimalShares") -> dict[str, Any]:
    return {
        "model": found.aims.model.value,
        "minimise": found.aims.goal.value,
        "spare": found.aims.spare,
        "floor": {"part": str(found.aims.floor), "queries": list(found.held)},
        "gap": found.gap,
        "delta": str(found.delta),
        "epsilon": {"before": found.epsilon_before, "after": found.epsilon},
        "rho": {"before": str(found.before.total), "after": str(found.strategy.total)},
        "root_mean_square_ratio": found.mean_ratio,
        "aims": [
            {
                "area": one.area,
                "query": one.query,
                "weight": None if one.weight is None else str(one.weight),
                "wanted": None if one.wanted is None else float(one.wanted),
                "standard_deviation": {"before": one.before, "after": one.after},
                "ratio": one.ratio,
            }
            for one in found.outcomes
        ],
        "geolevel_shares": {name: str(share) for name, share in found.strategy.geolevel_shares},
        "query_shares": {
            name: {query: str(share) for query, share in own} for name, own in found.strategy.query_shares
        },
    }


def _short(value: float) -> str:
    return f"{value:,.2f}" if value >= 1 else f"{value:.3g}"
