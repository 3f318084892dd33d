"""HTML pages about a finished run: one about the release, and a separate one about its errors. Each is one file."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tallyveil.products.dhc.page import write_programme_report
    from tallyveil.products.lattice.page.table import write_table_evaluation, write_table_report
    from tallyveil.products.safetab.page.groups import write_groups_evaluation, write_groups_report
    from tallyveil.products.safetab.page.households import (
        write_households_evaluation,
        write_households_report,
    )
    from tallyveil.products.safetab.page.persons import write_safetab_evaluation, write_safetab_report
    from tallyveil.products.topdown.page.release import write_report
    from tallyveil.report.evaluation_page import write_evaluation_report

# A command writes one page, so the modules of a page are imported with its function.
_PLACES = {
    "write_evaluation_report": "evaluation_page",
    "write_groups_evaluation": "safetab_groups_page",
    "write_groups_report": "safetab_groups_page",
    "write_households_evaluation": "safetab_households_page",
    "write_households_report": "safetab_households_page",
    "write_programme_report": "programme_page",
    "write_report": "release_page",
    "write_safetab_evaluation": "safetab_page",
    "write_safetab_report": "safetab_page",
    "write_table_evaluation": "table_page",
    "write_table_report": "table_page",
}

__all__ = [
    "write_evaluation_report",
    "write_groups_evaluation",
    "write_groups_report",
    "write_households_evaluation",
    "write_households_report",
    "write_programme_report",
    "write_report",
    "write_safetab_evaluation",
    "write_safetab_report",
    "write_table_evaluation",
    "write_table_report",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
