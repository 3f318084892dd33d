"""Epsilon at a delta by the accountants that papers and regulations use, side by side."""

from fractions import Fraction

from tallyveil.accounting.costs import epsilon_of, has_gaussian, rho_of
from tallyveil.accounting.engines.tails import fraction_bounds
from tallyveil.accounting.events import PrivacyEvent
from tallyveil.accounting.renyi import Conversion, renyi_epsilon
from tallyveil.accounting.zcdp import zcdp_to_epsilon, zcdp_to_epsilon_textbook


def classical_epsilons(event: PrivacyEvent, delta: Fraction) -> dict[str, float]:
    """Upper bounds of epsilon at a delta, by name. Each one holds; the exact epsilon is below all of them.

    Args:
        event: What is done.
        delta: Between 0 and 1, both excluded.

    Returns:
        "pure" (only without Gaussian noise; it holds at delta 0), "zcdp_textbook", "zcdp" (Laplace noise counts as
        epsilon^2 / 2), "renyi_mironov" and "renyi", each rounded up.

    Raises:
        BudgetError: a delta out of range, or a non-private event.
    """
    pure = {} if has_gaussian(event) else {"pure": fraction_bounds(epsilon_of(event)).upper}
    rho = rho_of(event, laplace_as_zcdp=True)
    return pure | {
        "zcdp_textbook": zcdp_to_epsilon_textbook(rho, delta),
        "zcdp": zcdp_to_epsilon(rho, delta),
        "renyi_mironov": renyi_epsilon(event, delta, Conversion.MIRONOV).value,
        "renyi": renyi_epsilon(event, delta).value,
    }
