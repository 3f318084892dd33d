"""List of the exhibits that can be recomputed."""

from collections.abc import Callable
from typing import Final

from tallyveil_studies.exhibit import Exhibit, Findings, StudyInputs
from tallyveil_studies.safetab import margins


def _table(name: str) -> Callable[[StudyInputs], Findings]:
    """Table 1 or Table 4, which hold the same numbers, with the privacy parameters of every level."""

    def recompute(inputs: StudyInputs) -> Findings:
        findings = margins.budgets_for_margins(inputs)
        tables = {
            name: findings.tables["tables-1-and-4"],
            f"{name}-parameters": findings.tables["tables-1-and-4-parameters"],
        }
        return Findings(tables, findings.comparisons, notes=findings.notes)

    return recompute


EXHIBITS: Final = (
    Exhibit("table-1", "Table 1: budgets for margins of error", _table("table-1")),
    Exhibit("table-2", "Table 2: privacy loss by several accountants", margins.losses),
    Exhibit("table-4", "Table 4: the same budgets by population group level", _table("table-4")),
    Exhibit(
        "margins", "Equations 35 and 36: margins by formula, and least margins", margins.margins_by_formula
    ),
    Exhibit(
        "stability",
        "Section D.1.1: accounting by stability and by composition",
        margins.stability_accounting,
    ),
)
