"""Evaluation files, each marked as not private wherever it ends up."""

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from tallyveil.errors import StoreError
from tallyveil.evaluation.metrics import COLUMNS
from tallyveil.storage.read import read_parquet
from tallyveil.storage.write import write_json, write_parquet

FOLDER = "evaluation"
JSON_FILE = "errors.json"
TABLE_FILE = "errors.parquet"
WARNING = (
    "NOT PRIVATE: computed from the true counts. No privacy guarantee covers these numbers; "
    "they must not be published with the release."
)


def write_evaluation(run_dir: Path, frame: pl.DataFrame, metadata: Mapping[str, str]) -> Path:
    """Write error metrics into the `evaluation/` folder of a release.

    Args:
        run_dir: Release folder.
        frame: As `error_metrics` gives it.
        metadata: Words on where it comes from (such as the run and the records' role), written along.
    Returns:
        The JSON file, for people; beside it lies the same table as Parquet, for programs.
    Raises:
        StoreError: the folder cannot be written to.
    Privacy: none; both files carry "private": false and a warning.
    """
    folder = run_dir / FOLDER
    write_parquet(folder / TABLE_FILE, frame, {**metadata, "private": "false", "warning": WARNING})
    content = {"private": False, "warning": WARNING, "metadata": dict(metadata), "errors": frame.to_dicts()}
    write_json(folder / JSON_FILE, content)
    return folder / JSON_FILE


def read_evaluation(run_dir: Path) -> pl.DataFrame:
    """Read back what `write_evaluation` wrote.

    Raises:
        StoreError: there is no evaluation in the folder, or it cannot be read.
    """
    path = run_dir / FOLDER / TABLE_FILE
    try:
        frame = read_parquet(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise _not_an_evaluation(path, type(error).__name__) from None
    if frame.schema != pl.Schema(COLUMNS):
        raise _not_an_evaluation(path, "its columns are others")
    return frame


def _not_an_evaluation(path: Path, reason: str) -> StoreError:
    return StoreError(
        f"{path} cannot be read as an evaluation ({reason}). Evaluate the release first.",
        code="input-unreadable",
    )
