"""Print better shares of a budget: what every aim gets, what it costs, and how far from the best they are."""

from typing import TYPE_CHECKING, Any

from tallyveil.cli.frame.terminal import say

if TYPE_CHECKING:
    from tallyveil.budget.optimal.choose import OptimalShares

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


def optimal_record(found: "OptimalShares") -> dict[str, Any]:
    """The result as plain data."""
    return {
        "model": found.aims.model.value,
        "minimise": found.aims.goal.value,
        "spare": found.aims.spare,
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
