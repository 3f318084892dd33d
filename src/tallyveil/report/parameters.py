"""Privacy parameters beside a claim of accuracy, as text for the tables of a page."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from tallyveil.accounting.decimals import at_least, at_most
from tallyveil.accounting.parameters import BETA, DELTAS, MU, epsilon_name
from tallyveil.report.wording import geolevel_title


def parameter_texts(row: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Privacy parameters of some measurements, each rounded in the safe direction.

    Args:
        row: Of `tallyveil.budget.parameters`.
        name: The column that names the measurements.
    """
    beta, mu = row[BETA], row.get(MU)
    return (
        geolevel_title(row[name]),
        at_most(Fraction(row["spent"]), 5),
        *(at_most(row[epsilon_name(delta)], places=4) for delta in DELTAS),
        "–" if beta is None else at_least(beta, places=4),
        "–" if mu is None else at_most(mu, places=4),
        row["accountant"],
    )
