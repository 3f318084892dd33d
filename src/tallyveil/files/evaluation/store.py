"""Evaluation files. Each is marked as not private, also when it is copied elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl

from tallyveil.errors import StoreError
from tallyveil.files.evaluation.artefacts import ARTEFACT_COLUMNS
from tallyveil.files.evaluation.metrics import COLUMNS
from tallyveil.schema.unit import Unit
from tallyveil.storage.paths import file_name, inside
from tallyveil.storage.read import UNREADABLE, read_parquet
from tallyveil.storage.write import write_json, write_parquet

FOLDER = "evaluation"
JSON_FILE = "errors.json"
TABLE_FILE = "errors.parquet"
ARTEFACTS_FILE = "artefacts.parquet"
WARNING = (
    "NOT PRIVATE: computed from the true counts. No privacy guarantee covers these numbers; "
    "they must not be published with the release."
)

PARAMETERS: Final = "privacy-of-the-measurements"
"""Name of the table of privacy parameters, which follow from the plan and not from the counts."""


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """A comparison of a release with its true counts.

    Attributes:
        errors: The table of `error_metrics`.
        artefacts: The table of `find_artefacts`.
        unit: The unit of both counts.
        finest: The finest geolevel.
        parameters: Privacy parameters of the noise that the errors come from, a row for each geolevel and one for all
            together (`budget/parameters.py`). They follow from the plan, not from the counts.
    """

    errors: pl.DataFrame
    artefacts: pl.DataFrame
    unit: Unit
    finest: str
    parameters: tuple[Mapping[str, Any], ...] = ()

    def to_mapping(self) -> dict[str, Any]:
        """Plain data, marked as not private."""
        return {
            "protected": False,
            "warning": WARNING,
            "unit": self.unit.one,
            "privacy_of_the_measurements": [dict(row) for row in self.parameters],
            "errors": self.errors.to_dicts(),
            "artefacts": self.artefacts.to_dicts(),
        }


def write_evaluation(run_dir: Path, evaluation: Evaluation, metadata: Mapping[str, str]) -> Path:
    """Write errors and artefacts into the `evaluation/` folder of a release.

    Args:
        run_dir: Release folder.
        evaluation: The comparison.
        metadata: Where it comes from, in words (such as the run and the role of the records); written to the files.
    Returns:
        The JSON file, for readers. The same tables as Parquet files, for programs, are next to it.
    Raises:
        StoreError: the folder cannot be written to.
    Privacy: none. Every file has "protected": false and a warning.
    """
    folder = run_dir / FOLDER
    # In the metadata of every file, because a file may be passed on without its folder.
    tags = {**metadata, "protected": "false", "warning": WARNING}
    write_parquet(folder / TABLE_FILE, evaluation.errors, tags)
    write_parquet(folder / ARTEFACTS_FILE, evaluation.artefacts, tags)
    write_json(folder / JSON_FILE, {**evaluation.to_mapping(), "metadata": dict(metadata)})
    return folder / JSON_FILE


def read_evaluation(run_dir: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Read the errors and artefacts that `write_evaluation` wrote.

    Raises:
        StoreError: there is no evaluation in the folder, or it cannot be read.
    """
    folder = run_dir / FOLDER
    return _read(folder / TABLE_FILE, COLUMNS), _read(folder / ARTEFACTS_FILE, ARTEFACT_COLUMNS)


def _read(path: Path, columns: Mapping[str, Any]) -> pl.DataFrame:
    try:
        frame = read_parquet(path)
    except UNREADABLE as error:
        raise _not_an_evaluation(path, type(error).__name__) from None
    # A file of another version could have columns with other meanings.
    if frame.schema != pl.Schema(columns):
        raise _not_an_evaluation(path, "its columns are others")
    return frame


def _not_an_evaluation(path: Path, reason: str) -> StoreError:
    return StoreError(
        f"{path} cannot be read as an evaluation ({reason}). Evaluate the release first.",
        code="input-unreadable",
    )


def write_errors(out: Path, tables: Mapping[str, pl.DataFrame], metadata: Mapping[str, Any]) -> Path:
    """Write tables of errors and of true counts into `evaluation/`. Returns the JSON file with the errors.

    Args:
        out: Folder of the release.
        tables: Tables by name. Those whose names begin with "errors", and the privacy parameters, are also written to
            the JSON file.
        metadata: Where the tables come from, in words.
    Raises:
        StoreError: the folder cannot be written to.
    Privacy: none. Every file says so.
    """
    folder = out / FOLDER
    tags = {name: str(value) for name, value in metadata.items()} | {"protected": "false", "warning": WARNING}
    for name, frame in tables.items():
        write_parquet(inside(folder, f"{file_name(name)}.parquet"), frame, tags)
    # True counts stay out of the file that people open; the errors alone go into it.
    errors = {
        name: frame.to_dicts()
        for name, frame in tables.items()
        if name.startswith("errors") or name == PARAMETERS
    }
    content = {"protected": False, "warning": WARNING, "metadata": dict(metadata), **errors}
    write_json(folder / JSON_FILE, content)
    return folder / JSON_FILE
