"""List of the exhibits that can be recomputed."""

from typing import Final

from tallyveil.studies.exhibit import Exhibit, Findings, StudyInputs
from tallyveil.studies.safetab import formulas, losses, margins


def _table_1(inputs: StudyInputs) -> Findings:
    """Table 1. It holds the same numbers as Table 4."""
    found = margins.budgets_for_margins(inputs)
    return Findings({"table-1": found.tables["tables-1-and-4"]}, found.comparisons, notes=found.notes)


def _table_4(inputs: StudyInputs) -> Findings:
    """Table 4. It holds the same numbers as Table 1."""
    found = margins.budgets_for_margins(inputs)
    return Findings({"table-4": found.tables["tables-1-and-4"]}, found.comparisons, notes=found.notes)


EXHIBITS: Final = (
    Exhibit("table-1", "Table 1: budgets for margins of error", _table_1),
    Exhibit("table-2", "Table 2: privacy loss by several accountants", losses.losses),
    Exhibit("table-4", "Table 4: the same budgets by population group level", _table_4),
    Exhibit(
        "margins", "Equations 35 and 36: margins by formula, and least margins", formulas.margins_by_formula
    ),
    Exhibit(
        "stability",
        "Section D.1.1: accounting by stability and by composition",
        formulas.stability_accounting,
    ),
)
