"""What several runs on the same people cost together, as plain data: exact rho, and the epsilon that it is known to be.

The same numbers are stated for releases that are planned and for finished ones: a `JointLedgers` may be made from the
events of plans, before there is any ledger.
"""

from fractions import Fraction
from typing import Final

from tallyveil.accounting.ledger.joint import JointLedgers, published_guarantee, published_upper_bound
from tallyveil.accounting.losses.loss_laws import alternatives_of, has_loss_law
from tallyveil.errors import BudgetError
from tallyveil.storage.json_files import JsonObject

MOST_LAWS: Final = 10
"""Largest number of laws that are composed for an exact epsilon; each takes seconds."""


def joint_cost(joint: JointLedgers, delta: Fraction, *, not_exact: str = "") -> JsonObject:
    """The cost of several runs together, as `tallyveil account total` composes their ledgers.

    `rho` is their exact cost in zero-concentrated differential privacy, and `epsilon` what it allows to be claimed.
    `exact_epsilon` has both bounds of the least epsilon; where that cannot be composed, `not_exact` says why.

    Args:
        joint: What the runs do, or did.
        delta: Where epsilon is stated.
        not_exact: Why the losses of a run are not known exactly yet, although its rho is; empty where they are known.
    Raises:
        BudgetError: a run protects nobody, or the delta is out of range.
    """
    bound = published_upper_bound(joint, delta)
    return {
        "neighbours": joint.neighbours.value,
        "rho": str(bound.rho),
        "delta": str(delta),
        "epsilon": bound.epsilon,
        **({"added_delta": bound.added_delta} if bound.added_delta else {}),
        **({"not_exact": not_exact} if not_exact else _exact_epsilon(joint, delta)),
        "not_covered": list(joint.non_private),
    }


def least_epsilon(cost: JsonObject) -> float:
    """The least upper bound of epsilon that a joint cost states."""
    exact = cost.get("exact_epsilon", {}).get("upper", cost["epsilon"])
    return float(min(exact, cost["epsilon"]))


def _exact_epsilon(joint: JointLedgers, delta: Fraction) -> JsonObject:
    """Both bounds of the least epsilon at delta, or why it was not composed."""
    if not has_loss_law(joint.paid):
        return {"not_exact": "noise on a lattice has no single exact loss law"}
    try:
        n_laws = len(alternatives_of(joint.paid, joint.neighbours))
    except BudgetError as error:  # too many to be listed
        return {"not_exact": str(error)}
    if n_laws > MOST_LAWS:
        return {
            "not_exact": f"it is the largest of {n_laws} epsilons, one for each way in which records may lie on the "
            f"spines, and at most {MOST_LAWS} are composed here; `tallyveil account total` composes all of them"
        }
    guarantee = published_guarantee(joint)
    return {"exact_epsilon": guarantee.epsilon(delta).to_mapping(), "engines": list(guarantee.engines)}
