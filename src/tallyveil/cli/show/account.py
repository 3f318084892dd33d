"""Answers of the accountant, and how they are printed: as text, or as JSON."""

import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from tallyveil.cli.frame.terminal import say

if TYPE_CHECKING:
    from tallyveil.accounting import Guarantee
    from tallyveil.accounting.ledger.joint import JointLedgers
    from tallyveil.accounting.proved import ProvedEpsilon


def exact_epsilon(guarantee: "Guarantee", delta: str, exact: Fraction) -> dict[str, Any]:
    """Lower and upper bounds on epsilon, and the upper bounds of the other accountants that apply.

    Args:
        guarantee: The guarantee.
        delta: The delta as the user wrote it.
        exact: The same number as a fraction.
    """
    from tallyveil.accounting.classical import classical_epsilons

    return {
        "epsilon": guarantee.epsilon(exact).to_mapping(),
        "delta": delta,
        "classical": classical_epsilons(guarantee.event, exact),
    }


def about(guarantee: "Guarantee") -> dict[str, Any]:
    """The neighbours that a guarantee covers, and how it was computed."""
    reached = guarantee.width_reached
    wider = {} if reached is None or reached <= guarantee.width else {"width_reached": Fraction(str(reached))}
    return {
        "neighbours": guarantee.neighbours.value,
        "engines": list(guarantee.engines),
        **wider,
        "invariants": list(guarantee.invariants),
    }


def published(joint: "JointLedgers", delta: str, exact: Fraction) -> dict[str, Any]:
    """What is proved of everything that several runs published. Arguments as for `exact_epsilon`."""
    from tallyveil.accounting import invariants_of
    from tallyveil.accounting.classical import classical_epsilons
    from tallyveil.accounting.ledger.joint import published_epsilon

    proved = published_epsilon(joint, exact)
    bounds = {"upper": proved.bounds.upper} if proved.not_exact else proved.bounds.to_mapping()
    reached = proved.width_reached
    return {
        "epsilon": bounds,
        "delta": delta,
        **(_not_exact(joint, proved) if proved.not_exact else {}),
        "classical": classical_epsilons(joint.paid, exact),
        "neighbours": joint.neighbours.value,
        "engines": list(proved.engines),
        **({} if reached is None else {"width_reached": Fraction(str(reached))}),
        "invariants": list(invariants_of(joint.paid)),
    }


_METHODS: Final = {
    "zcdp": "zero-concentrated differential privacy",
    "renyi": "Renyi differential privacy",
    "pure": "pure differential privacy",
}


def _not_exact(joint: "JointLedgers", proved: "ProvedEpsilon") -> dict[str, Any]:
    """What is to be said where epsilon is only an upper bound: why, rho, and what samplers add to delta."""
    from tallyveil.accounting import epsilon_of, rho_of
    from tallyveil.accounting.costs import has_gaussian
    from tallyveil.accounting.engines.tails import fraction_bounds
    from tallyveil.accounting.ledger.joint import added_delta

    added = added_delta(joint, Fraction(proved.bounds.upper))
    answer: dict[str, Any] = {"added_delta": {"upper": added}} if added else {}
    method = _METHODS[proved.engines[-1]]
    answer["not_exact"] = f"epsilon is an upper bound, by {method}: {proved.not_exact}"
    answer["rho"] = str(rho_of(joint.paid, laplace_as_zcdp=True))
    if has_gaussian(joint.paid):
        return answer
    pure = epsilon_of(joint.paid)
    answer["pure_epsilon"] = {"upper": fraction_bounds(pure).upper}
    at_pure = added_delta(joint, pure)
    return answer | ({"pure_delta": {"upper": at_pure}} if at_pure else {})


def print_answer(answer: dict[str, Any], as_json: bool) -> None:
    """Print an answer as lines of words, or as JSON."""
    if as_json:
        say(json.dumps(answer, indent=2, default=float))
        return
    from tallyveil.cli.frame.terminal import Screen, headed

    console = Screen()
    for key, value in answer.items():
        console.print(headed(key.replace("_", " "), f": {_in_words(value)}"), soft_wrap=True)


def _in_words(value: Any) -> str:  # noqa: PLR0911 (one return a kind)
    """A value for reading: bounds are rounded outwards, a float is an upper bound, a Fraction is exact."""
    from tallyveil.accounting.bounds import Bounds
    from tallyveil.accounting.decimals import at_most, both_ends, short_decimal

    if isinstance(value, dict):
        if set(value) == {"lower", "upper"}:
            return "between {} and {}".format(*both_ends(Bounds(**value)))
        if set(value) == {"upper"}:
            return f"at most {at_most(value['upper'])}"
        return "; ".join(f"{key.replace('_', ' ')} {_in_words(item)}" for key, item in value.items())
    if isinstance(value, list):
        if value and isinstance(value[0], dict):
            return "\n" + "\n".join(f"  {_in_words(item)}" for item in value)
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, float):
        return at_most(value)
    return short_decimal(value) if isinstance(value, Fraction) else str(value)


def show_products(as_json: bool) -> None:
    """Print the released products, what their record is, and what they cost by zCDP at the published delta."""
    from tallyveil.accounting.decimals import at_most
    from tallyveil.accounting.zcdp_curve import ZcdpConversion
    from tallyveil.budget.products import DELTA, load_product, product_names
    from tallyveil.cli.show.number_table import show_table

    rows = []
    for product in map(load_product, product_names()):
        rho, published = product.rho, product.published_epsilon
        rows.append(
            [
                product.name,
                product.record,
                product.n_budgets,
                at_most(rho, places=4),
                None if published is None else at_most(published),
                *(at_most(conversion.epsilon(rho, DELTA), places=3) for conversion in ZcdpConversion),
            ]
        )
    show_table(
        ["product", "record", "budgets", "rho", "published epsilon", "textbook", "best zCDP"], rows, as_json
    )
