"""HTML pages about a finished run: one about the release, and a separate one about its errors. Each is one file."""

from tallyveil.report.evaluation_page import write_evaluation_report
from tallyveil.report.release_page import write_report
from tallyveil.report.safetab_groups_page import write_groups_evaluation, write_groups_report
from tallyveil.report.safetab_households_page import (
    write_households_evaluation,
    write_households_report,
)
from tallyveil.report.safetab_page import write_safetab_evaluation, write_safetab_report
from tallyveil.report.table_page import write_table_evaluation, write_table_report

__all__ = [
    "write_evaluation_report",
    "write_groups_evaluation",
    "write_groups_report",
    "write_households_evaluation",
    "write_households_report",
    "write_report",
    "write_safetab_evaluation",
    "write_safetab_report",
    "write_table_evaluation",
    "write_table_report",
]
