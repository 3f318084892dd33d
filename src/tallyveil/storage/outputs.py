"""Where a command may write: never over an input, and never over files that it did not write itself."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import polars as pl

from tallyveil.errors import StoreError
from tallyveil.storage.paths import real
from tallyveil.storage.read import parquet_metadata
from tallyveil.storage.write import FORMAT_TAG, write_text

MARKER: Final = ".tallyveil-output"
"""The file that marks a folder to which a command wrote before."""


def refuse_inputs(out: Path, inputs: Iterable[Path]) -> None:
    """Refuse an output path that is an input, or a folder that contains an input.

    Args:
        out: The file or folder that will be written.
        inputs: Files that are read.
    Raises:
        StoreError: an input is `out` itself or lies below it, possibly through symbolic links.
    """
    written = real(out)
    for path in inputs:
        if real(path).is_relative_to(written) or path.absolute().is_relative_to(out.absolute()):
            raise StoreError(
                f"the input {path} is inside the folder that output is written to ({out}). Output could replace the "
                "input, and the input would be published with the folder. Choose another --out, or move the input.",
                code="input-in-output",
            )


def refuse_output_inside(out: Path, root: Path) -> None:
    """Refuse an output path inside a published folder that is an input.

    Args:
        out: The file or folder that will be written.
        root: The published folder.
    Raises:
        StoreError: `out` lies in `root`, possibly through symbolic links.
    """
    if real(out).is_relative_to(real(root)):
        raise StoreError(
            f"{out} lies in {root}, which is read and must stay as it was published. Choose a folder outside it.",
            code="input-in-output",
        )


def refuse_taken(folder: Path, what: str) -> None:
    """Refuse a folder that contains anything.

    Args:
        folder: Where files will be written. It need not exist.
        what: What will be written, for the message.
    Raises:
        StoreError: it is a file, or a folder that is not empty.
    """
    if folder.is_symlink() or folder.exists():
        if folder.is_dir() and not any(folder.iterdir()):
            return
        raise StoreError(
            f"{folder} is a file, or it is a folder that is not empty, and {what} would be written there. Choose a "
            "new or empty folder with --out, or remove what is in it.",
            code="folder-taken",
        )


def claim_folder(folder: Path, command: str) -> None:
    """Take a folder for the outputs of a command: a new or empty folder, or one that the same command wrote to before.

    Args:
        folder: Where files will be written.
        command: Name of the command, such as "study".
    Raises:
        StoreError: the folder contains files that the command did not write, or cannot be written to.
    """
    marker = folder / MARKER
    text = f"Written by `tallyveil {command}`, which may replace the files of this folder.\n"
    if marker.is_file() and marker.read_text(encoding="utf-8", errors="replace") == text:
        return
    refuse_taken(folder, f"files of `tallyveil {command}`")
    write_text(marker, text)


def claim_file(path: Path, inputs: Iterable[Path]) -> None:
    """Take one file for an output: a file that does not exist, or a Parquet file that Tallyveil wrote before.

    Args:
        path: The file.
        inputs: Files that are read to make it.
    Raises:
        StoreError: it is an input, a folder, or a file that Tallyveil did not write.
    """
    refuse_inputs(path, inputs)
    if not (path.is_symlink() or path.exists()):
        return
    try:
        own = path.suffix == ".parquet" and FORMAT_TAG in parquet_metadata(path)
    except (OSError, pl.exceptions.PolarsError):
        own = False
    if not own:
        raise StoreError(
            f"{path} exists, and it is not a file that this command may replace. Choose another --out, or remove it.",
            code="file-taken",
        )
