"""Open a finished folder of any product."""

from pathlib import Path
from typing import Any, Literal, overload

from tallyveil.api.given import name_given, path_given
from tallyveil.api.opened import Measurements, Opened
from tallyveil.api.released import Release
from tallyveil.errors import ConfigError
from tallyveil.exact import as_given
from tallyveil.files.finished import refuse_unfinished
from tallyveil.files.kinds import ReleaseKind
from tallyveil.files.manifest_files import read_manifest


# What a folder holds is not known before it is read. Without `kind`, a type checker is told of a `Release`, which is
# what most people open, or something else: it takes what a `Release` has, and what it is handed to.
@overload
def open_folder(folder: str | Path, *, kind: None = None) -> Release | Any: ...
@overload
def open_folder(folder: str | Path, *, kind: Literal["topdown"]) -> Release: ...
@overload
def open_folder(folder: str | Path, *, kind: Literal["topdown-measurements"]) -> Measurements: ...
@overload
def open_folder(
    folder: str | Path,
    *,
    kind: Literal["safetab", "safetab-households", "safetab-groups", "integer-subspace"],
) -> Opened: ...
def open_folder(folder: str | Path, *, kind: str | None = None) -> Opened:
    """Open a finished release or finished measurements.

    Args:
        folder: A folder that `run`, `estimate`, `measure` or a command of `tallyveil` has made.
        kind: The kind that the folder must hold, as in its manifest; None for any. With it, type checkers know the
            class of the result.
    Returns:
        A `Release` for a folder of the main product (`topdown`), `Measurements` for a folder of `measure`
        (`topdown-measurements`), and for other products an `Opened` with the manifest, the guarantee as plain data and
        the page.
    Raises:
        ConfigError: the folder is no path, or there is no such kind.
        StoreError: the folder holds nothing finished or another kind, or was changed.
    """
    path, wanted = path_given(folder, "folder"), _kinds_given(kind)
    refuse_unfinished(path)
    manifest = read_manifest(path, *wanted)
    if manifest.kind is ReleaseKind.TOPDOWN:
        return Release(path, manifest)
    if manifest.kind is ReleaseKind.MEASUREMENTS:
        return Measurements(path, manifest)
    return Opened(path, manifest)


def _kinds_given(kind: object) -> tuple[ReleaseKind, ...]:
    """The kinds that a folder may hold."""
    if kind is None:
        return tuple(ReleaseKind)
    wanted = tuple(known for known in ReleaseKind if known.value == name_given(kind, "kind"))
    if not wanted:
        raise ConfigError(
            f"kind is {as_given(kind)}, wanted {', '.join(ReleaseKind)}, or nothing for any of them.",
            code="bad-argument",
        )
    return wanted
