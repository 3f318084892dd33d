"""Privacy parameters beside a claim of accuracy, as text for the tables of a page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tallyveil.accounting.guarantee import BETA, MU, parameter_texts
from tallyveil.accounting.numbers import at_most
from tallyveil.report.wording import name_title


@dataclass(frozen=True, slots=True)
class ParameterTable:
    """Privacy parameters of some measurements, each rounded in the safe direction.

    Attributes:
        symbols: Those of β and μ that at least one row has, in this order.
        rows: Texts: what was measured, what it cost, epsilon at three deltas, the symbols, the accountant.
    """

    symbols: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def parameter_table(rows: Sequence[Mapping[str, Any]], name: str) -> ParameterTable:
    """The table of privacy parameters.

    Args:
        rows: Of `tallyveil.budget.guarantees`.
        name: The column that names the measurements.
    """
    stated = {"β": BETA, "μ": MU}
    # β and μ exist only where the exact accountant gave them; a column of dashes is left out.
    columns_there = {
        symbol: column
        for symbol, column in stated.items()
        if any(row.get(column) is not None for row in rows)
    }
    return ParameterTable(
        tuple(columns_there), tuple(_texts(row, name, tuple(columns_there.values())) for row in rows)
    )


def _texts(row: Mapping[str, Any], name: str, columns: Sequence[str]) -> tuple[str, ...]:
    numbers = ("–" if text is None else text for text in parameter_texts(row, columns))
    # Costs rounded up to five digits, as every claim.
    return (name_title(row[name]), at_most(Fraction(row["spent"]), 5), *numbers, row["accountant"])
