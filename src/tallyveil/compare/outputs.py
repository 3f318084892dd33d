"""Tables that comparisons and attacks write, each as Parquet and as CSV, marked where they reveal true counts."""

from pathlib import Path
from typing import Final

import polars as pl

from tallyveil.files.marks import NOT_PRIVATE, Marks
from tallyveil.storage.write import write_file, write_parquet

UNMARKED: Final = Marks(protected=True, warnings=())
"""The marks of what follows from no release."""


def write_marked(
    out: Path, name: str, frame: pl.DataFrame, warning: str, *, private: bool, marks: Marks = UNMARKED
) -> None:
    """Write a table as Parquet and as CSV.

    Args:
        out: Folder.
        name: Of the files, without an ending.
        frame: The table.
        warning: What a reader must know of it; a tag of the Parquet file.
        private: Whether only published numbers are in it.
        marks: Of the release that it follows from.
    Raises:
        StoreError: a file cannot be written.
    """
    unprotected = {} if private and marks.protected else {"protected": "false"}
    tags = {"warning": " ".join([*marks.lines(), warning])} | unprotected
    write_parquet(out / f"{name}.parquet", frame, tags)
    # A CSV file has no place for tags: each row says it.
    claimed = ["claimed, not checked"] if private else []
    mark = "; ".join([*([NOT_PRIVATE] if marks.warnings or not private else []), *claimed])
    write_file(
        out / f"{name}.csv", for_spreadsheets(frame.with_columns(pl.lit(mark).alias("warning"))).write_csv
    )


def for_spreadsheets(frame: pl.DataFrame) -> pl.DataFrame:
    """The table with an apostrophe before every text that a spreadsheet would compute as a formula.

    Names of methods, levels and areas are anybody's. The Parquet file holds them unchanged.
    """
    texts = pl.col(pl.String)
    return frame.with_columns(
        pl.when(texts.str.contains(r"^[=+\-@\t\r]")).then(pl.lit("'") + texts).otherwise(texts).name.keep()
    )
