"""Prints privacy parameters beside a claim of accuracy."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from tallyveil.cli.show.number_table import show_table


def show_parameters(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print epsilon at three deltas, and beta at alpha = 5 % and mu if a row has them.

    Each is rounded in the safe direction.

    Args:
        rows: Of `budget.parameters`. A row is named by its columns `spine` and `geolevel`, or `level`.
    """
    from tallyveil.accounting.decimals import at_least, at_most
    from tallyveil.accounting.parameters import BETA, DELTAS, MU, epsilon_name

    if not rows:
        return
    names = [name for name in ("spine", "geolevel", "level") if name in rows[0]]
    with_beta, with_mu = (any(row.get(one) is not None for row in rows) for one in (BETA, MU))
    headings = [
        *names,
        "spent",
        *(f"epsilon at {delta}" for delta in DELTAS),
        *(["beta at 5 %"] if with_beta else []),
        *(["mu"] if with_mu else []),
        "by",
    ]

    def shown(row: Mapping[str, Any]) -> list[Any]:
        beta, mu = row[BETA], row.get(MU)
        return [
            *(row[name] for name in names),
            at_most(Fraction(row["spent"]), 5),
            *(at_most(row[epsilon_name(delta)], places=4) for delta in DELTAS),
            *([None if beta is None else at_least(beta, places=4)] if with_beta else []),
            *([None if mu is None else at_most(mu, places=4)] if with_mu else []),
            row["accountant"],
        ]

    show_table(headings, [shown(row) for row in rows], False)
