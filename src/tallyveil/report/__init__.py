"""One self-contained HTML page about a release, and a separate one about its errors."""

from tallyveil.report.evaluation_page import write_evaluation_report
from tallyveil.report.release_page import write_report

__all__ = ["write_evaluation_report", "write_report"]
