"""Write the files of a study: tables, plots, and the comparison of printed numbers with ours."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from tallyveil.report.drawing import write_plot
from tallyveil.storage.paths import file_name, inside
from tallyveil.storage.write import write_file
from tallyveil_studies.exhibit import Exhibit, Findings

COMPARISON_FILE = "paper-and-ours.csv"


def write_findings(out: Path, exhibit: Exhibit, findings: Findings, plot_format: str) -> tuple[Path, ...]:
    """Write an exhibit's tables (CSV) and plots.

    Args:
        out: Folder. It is made if it does not exist.
        exhibit: The exhibit that was recomputed.
        findings: Its results.
        plot_format: "svg" or "png".
    Returns:
        Paths of the files.
    Raises:
        StoreError: a file cannot be written.
    """
    written = []
    for name, frame in findings.tables.items():
        # Names become file names that every system takes and that stay inside the folder.
        written.append(inside(out, f"{file_name(name)}.csv"))
        _write_csv(written[-1], frame)
    for name, drawing in findings.drawings.items():
        written.append(inside(out, f"{file_name(name)}.{plot_format}"))
        write_plot(written[-1], drawing, exhibit.heading(findings))
    return tuple(written)


def comparison_table(results: Sequence[tuple[Exhibit, Findings]]) -> pl.DataFrame:
    """A table with one row for each printed number: the printed number and ours."""
    return pl.DataFrame(
        [
            {
                "exhibit": exhibit.name,
                "quantity": comparison.quantity,
                "printed": comparison.printed.text,
                # Fractions are exact and are written as floats, which have more digits than any paper prints.
                "ours": float(comparison.ours),
                "verdict": comparison.verdict.value,
                "source": comparison.printed.source,
                "remark": comparison.printed.remark,
            }
            for exhibit, findings in results
            for comparison in findings.comparisons
        ],
        schema={
            "exhibit": pl.String,
            "quantity": pl.String,
            "printed": pl.String,
            "ours": pl.Float64,
            "verdict": pl.String,
            "source": pl.String,
            "remark": pl.String,
        },
    )


def write_comparisons(out: Path, results: Sequence[tuple[Exhibit, Findings]]) -> Path:
    """Write the table of all printed numbers beside ours, and return its path.

    Raises:
        StoreError: the file cannot be written.
    """
    path = out / COMPARISON_FILE
    _write_csv(path, comparison_table(results))
    return path


def _write_csv(path: Path, frame: pl.DataFrame) -> None:
    write_file(path, frame.write_csv)
