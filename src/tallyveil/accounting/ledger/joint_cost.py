"""What several runs on the same people cost together, as plain data: exact rho, and the epsilon that it is known to be.

The same numbers are stated for releases that are planned and for finished ones: a `JointLedgers` may be made from the
events of plans, before there is any ledger.
"""

from fractions import Fraction

from tallyveil.accounting.costs import rho_of
from tallyveil.accounting.ledger.joint import (
    JointLedgers,
    added_delta,
    published_epsilon,
    require_protection,
)
from tallyveil.accounting.proved import upper_bound
from tallyveil.storage.json_files import JsonObject


def joint_cost(joint: JointLedgers, delta: Fraction, *, not_exact: str = "") -> JsonObject:
    """The cost of several runs together, as `tallyveil account total` composes their ledgers.

    `rho` is their exact cost in zero-concentrated differential privacy, and `epsilon` the least that follows without a
    loss law. `exact_epsilon` has both bounds of the least epsilon; where that cannot be composed, `not_exact` says why.

    Args:
        joint: What the runs do, or did.
        delta: Where epsilon is stated.
        not_exact: Why the losses of a run are not known exactly yet, although its rho is; empty where they are known.
    Raises:
        BudgetError: a run protects nobody, or the delta is out of range.
    """
    require_protection(joint)
    # Always there, while the exact one may take long or not exist.
    epsilon, _ = upper_bound(joint.paid, joint.neighbours, delta)
    added = added_delta(joint, Fraction(epsilon))
    return {
        "neighbours": joint.neighbours.value,
        "rho": str(rho_of(joint.paid, laplace_as_zcdp=True)),
        "delta": str(delta),
        "epsilon": epsilon,
        **({"added_delta": added} if added else {}),
        **({"not_exact": not_exact} if not_exact else _exact_epsilon(joint, delta)),
        "not_covered": list(joint.non_private),
    }


def least_epsilon(cost: JsonObject) -> float:
    """The least upper bound of epsilon that a joint cost states."""
    exact = cost.get("exact_epsilon", {}).get("upper", cost["epsilon"])
    return float(min(exact, cost["epsilon"]))


def _exact_epsilon(joint: JointLedgers, delta: Fraction) -> JsonObject:
    """Both bounds of the least epsilon at delta, or why it was not composed."""
    proved = published_epsilon(joint, delta)
    if proved.not_exact:
        return {"not_exact": proved.not_exact}
    return {"exact_epsilon": proved.bounds.to_mapping(), "engines": list(proved.engines)}
