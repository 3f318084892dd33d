"""What a plan promises, in numbers and in one sentence; computed before any data is opened."""

import math
from typing import Any

from tallyveil.accounting.zcdp import zcdp_to_epsilon
from tallyveil.budget.strategy import Mechanism
from tallyveil.execution.plan import ReleasePlan

NEIGHBOURS_IN_WORDS = {
    "bounded": "one person's record changes its value",
    "unbounded": "one person's record is added or removed",
}


def guarantee_of(plan: ReleasePlan) -> dict[str, Any]:
    """The privacy guarantee of a plan as plain data.

    Returns:
        Exact budget and cost as text, the reporting delta, `epsilon` at that delta (an upper bound; for pure
        DP the exact cost), the invariants, and one sentence.
    Source: SafeTab (Haney et al.), Lemma 4; Canonne, Kamath, Steinke 2020, for epsilon from rho.
    """
    strategy = plan.strategy
    gaussian = strategy.mechanism is Mechanism.DISCRETE_GAUSSIAN
    epsilon = (
        zcdp_to_epsilon(strategy.total, plan.delta) if gaussian else _round_up(float(strategy.total), 12)
    )
    delta = plan.delta if gaussian else 0
    return {
        "neighbours": strategy.neighbours.value,
        "neighbours_in_words": NEIGHBOURS_IN_WORDS[strategy.neighbours.value],
        "mechanism": strategy.mechanism.value,
        "budget_unit": strategy.budget_unit,
        "declared": str(plan.declared),
        "spent": str(strategy.total),
        "delta": str(delta),
        "epsilon": epsilon,
        "invariants": [f"{item.query} at {', '.join(item.geolevels)}" for item in plan.invariants],
        "statement": _statement(plan, epsilon, gaussian),
    }


def _statement(plan: ReleasePlan, epsilon: float, gaussian: bool) -> str:
    strategy = plan.strategy
    neighbours = f"{strategy.neighbours.value} neighbours"
    if not gaussian:
        return f"pure differential privacy, epsilon = {strategy.total} ({epsilon:.6g}), {neighbours}"
    return (
        f"rho = {strategy.total} ({float(strategy.total):.4f}) zCDP, so epsilon <= {_round_up(epsilon, 3):.3f} "
        f"at delta = {float(plan.delta):g}, {neighbours}"
    )


def _round_up(value: float, digits: int) -> float:
    """A bound stays a bound when it is shown: rounded up, never to nearest."""
    scale = float(10**digits)
    return math.ceil(value * scale) / scale
