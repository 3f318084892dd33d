"""Answers of the accountant, and how they are printed: as text, or as JSON."""

import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tallyveil.cli.frame.terminal import say

if TYPE_CHECKING:
    from tallyveil.accounting import Guarantee
    from tallyveil.accounting.ledger.joint import JointLedgers, UpperBound


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


def upper_bound(joint: "JointLedgers", delta: str, exact: Fraction) -> dict[str, Any]:
    """Upper bounds for runs with noise on a lattice, which has no single loss law. Arguments as for `exact_epsilon`."""
    from tallyveil.accounting import invariants_of
    from tallyveil.accounting.classical import classical_epsilons
    from tallyveil.accounting.ledger.joint import published_upper_bound

    bound = published_upper_bound(joint, exact)
    return {
        "epsilon": {"upper": bound.epsilon},
        "delta": delta,
        **({"added_delta": {"upper": bound.added_delta}} if bound.added_delta else {}),
        "not_exact": "epsilon is an upper bound, by zero-concentrated differential privacy: noise on a lattice has no "
        "single exact loss law if it is Gaussian, or if a chain comes only close to its law",
        "rho": str(bound.rho),
        **_pure(bound),
        "classical": classical_epsilons(joint.paid, exact),
        "neighbours": joint.neighbours.value,
        "invariants": list(invariants_of(joint.paid)),
    }


def _pure(bound: "UpperBound") -> dict[str, Any]:
    """The pure epsilon at delta 0, and what samplers add to that delta; nothing where some noise is Gaussian."""
    from tallyveil.accounting.engines.tails import fraction_bounds

    if bound.pure_epsilon is None:
        return {}
    found: dict[str, Any] = {"pure_epsilon": {"upper": fraction_bounds(bound.pure_epsilon).upper}}
    return found | ({"pure_delta": {"upper": bound.pure_added_delta}} if bound.pure_added_delta else {})


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
