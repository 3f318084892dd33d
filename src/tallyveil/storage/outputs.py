"""Where a command may write: never over an input, and never over files that it did not write itself."""

import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import polars as pl

from tallyveil.errors import StoreError
from tallyveil.storage.addresses import is_object, refuse_object
from tallyveil.storage.paths import real
from tallyveil.storage.read import parquet_metadata
from tallyveil.storage.system import absent_folders, remove_empty, remove_locked, take_lock
from tallyveil.storage.write import FORMAT_TAG, TEMPORARY_SUFFIX, UNFINISHED, Claim, store_error, write_text

MARKER: Final = ".tallyveil-output"
"""The file that marks a folder to which a command wrote before."""
LOCK_SUFFIX: Final = ".tallyveil-lock"
"""Ending of the file that is locked while a file is made."""


def refuse_inputs(out: Path, inputs: Iterable[Path]) -> None:
    """Refuse an output path that is an input, or a folder that contains an input.

    Args:
        out: The file or folder that will be written.
        inputs: Files that are read.
    Raises:
        StoreError: an input is `out` itself or lies below it, possibly through symbolic links.
        ConfigError: `out` is an address in an object store.
    """
    refuse_object(out)
    # Real paths, because a link may make two names of one folder.
    written = real(out)
    for path in inputs:
        if is_object(path):
            continue
        # Both by what lies there and by text: an input that is a link in the folder would be published with it.
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


def refuse_taken(folder: Path, what: str, besides: Collection[str] = ()) -> None:
    """Refuse a folder that contains anything.

    Args:
        folder: Where files will be written. It need not exist.
        what: What will be written, for the message.
        besides: Names that may be there.
    Raises:
        StoreError: it is a file, or a folder that is not empty; or it cannot be read.
    """
    try:
        is_free = folder.is_dir() and {entry.name for entry in folder.iterdir()} <= {*besides}
        # A link that leads nowhere does not exist, and yet something would be written through it.
        is_there = folder.is_symlink() or folder.exists()
    except OSError as error:
        raise store_error(folder, error) from error
    if is_there and not is_free:
        raise StoreError(
            f"{folder} is a file, or it is a folder that is not empty, and {what} would be written there. Choose a "
            "new or empty folder with --out, or remove what is in it.",
            code="folder-taken",
        )


@contextmanager
def own_folder(folder: Path, command: str) -> Iterator[None]:
    """Hold a folder for the outputs of a command: a new or empty folder, or one that the command wrote to before.

    Args:
        folder: Where files will be written.
        command: Name of the command, such as "study".
    Raises:
        StoreError: the folder contains files that the command did not write, another process writes it, or it cannot
            be written to.
    """
    text = f"Written by `tallyveil {command}`, which may replace the files of this folder.\n"
    what = f"files of `tallyveil {command}`"
    _refuse_file(folder, what)
    with Claim(folder, command) as claim:
        known = claim.goes_on or _is_text(folder / MARKER, text)
        # Files of the same command may be replaced; those of anybody else may not.
        if not known:
            refuse_taken(folder, what, [UNFINISHED])
        claim.begin()
        yield
        # The marker last: a folder is the command's own only when a run of it has succeeded.
        write_text(folder / MARKER, text)


@contextmanager
def new_folder(
    folder: Path, command: str, what: str, parts: Collection[str], resumed: Collection[str] = ()
) -> Iterator[None]:
    """Hold a folder for outputs that nothing replaces: a new or empty folder, or one where the command was interrupted.

    Args:
        folder: Where files will be written. What an interrupted command left there is removed.
        command: Name of the command, such as "synth".
        what: What will be written, for the message.
        parts: Names of the files and folders that the command writes.
        resumed: Names of files from which an interrupted command goes on. They stay; the command removes them at its
            end.
    Raises:
        StoreError: the folder contains something else, another process writes it, or it cannot be written to.
    """
    names = {name + ending for name in parts for ending in ("", TEMPORARY_SUFFIX)}
    _refuse_file(folder, what)
    with Claim(folder, command) as claim:
        stays = {name + ending for name in resumed for ending in ("", TEMPORARY_SUFFIX)}
        refuse_taken(folder, what, {UNFINISHED, *(names | stays if claim.goes_on else ())})
        claim.begin()
        # What an interrupted run left is removed, because nothing says which files were complete.
        for name in sorted(names):
            remove(folder / name)
        yield


def remove(path: Path) -> None:
    """Remove a file, a link or a folder with all that is in it, if it is there. Raises StoreError."""
    try:
        # A link to a folder is removed as a link: what it leads to belongs to somebody else.
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise store_error(path, error) from error


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
        # Only with our tag, so that no table of anybody else's is overwritten.
        is_ours = path.suffix == ".parquet" and FORMAT_TAG in parquet_metadata(path)
    except (OSError, pl.exceptions.PolarsError):
        is_ours = False
    if not is_ours:
        raise _file_taken(path)


@contextmanager
def new_file(path: Path, inputs: Iterable[Path]) -> Iterator[None]:
    """Hold the path of a file that does not exist, while its content is computed and written.

    A hidden lock file is beside it in the meantime. It stays if the process is killed, and the next process takes it
    over. An empty file counts as absent.

    Args:
        path: The file.
        inputs: Files that are read to make it.
    Raises:
        StoreError: it is an input or exists, another process writes it, or it cannot be written.
    """
    refuse_inputs(path, inputs)
    # Hidden, and in the same folder, so that it lies on the same file system as the file.
    place = path.with_name(f".{path.name}{LOCK_SUFFIX}")
    if _is_taken(path):
        raise _file_taken(path)
    folders = absent_folders(path.parent)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        held = take_lock(place)
    except OSError as error:
        raise store_error(path, error) from error
    if held is None:
        raise StoreError(
            f"another process is writing {path}; wait for it, or choose another --out.", code="file-taken"
        )
    try:
        if _is_taken(path):  # Another process has finished the file in the meantime.
            raise _file_taken(path)
        try:
            yield
        # Also for an interrupt: a half-written file would be taken by whoever comes next.
        except BaseException:
            path.unlink(missing_ok=True)
            raise
    finally:
        remove_locked(place, held)
        remove_empty(folders)  # which hold the file if all went well


def _is_taken(path: Path) -> bool:
    return path.is_symlink() or (path.exists() and not _is_empty(path))


def _is_empty(path: Path) -> bool:
    return path.is_file() and path.stat().st_size == 0


def _file_taken(path: Path) -> StoreError:
    return StoreError(
        f"{path} exists, and it is not a file that this command may replace. Choose another --out, or remove it.",
        code="file-taken",
    )


def _is_text(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8", errors="replace") == text


def _refuse_file(folder: Path, what: str) -> None:
    """Refuse the path of a file, or of a link that leads nowhere, where a folder is wanted."""
    try:
        is_folder = folder.is_dir()
    except OSError as error:
        raise store_error(folder, error) from error
    if not is_folder:
        refuse_taken(folder, what)
