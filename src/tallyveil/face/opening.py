"""Open a finished folder of any product."""

from pathlib import Path

from tallyveil.face.given import path_given
from tallyveil.face.opened import Measurements, Opened
from tallyveil.face.released import Release
from tallyveil.release.finished import refuse_unfinished
from tallyveil.release.kinds import ReleaseKind
from tallyveil.release.manifest_files import read_manifest


def open_folder(folder: str | Path) -> Opened:
    """Open a finished release or finished measurements.

    Args:
        folder: A folder that `run`, `estimate`, `measure` or a command of `tallyveil` has made.
    Returns:
        A `Release` for a folder of the main product, `Measurements` for a folder of `measure`, and for other products
        an object with the manifest, the guarantee as plain data and the page.
    Raises:
        ConfigError: the folder is no path.
        StoreError: the folder holds nothing finished, or was changed.
    """
    path = path_given(folder, "folder")
    refuse_unfinished(path)
    manifest = read_manifest(path, *ReleaseKind)
    if manifest.kind is ReleaseKind.TOPDOWN:
        return Release(path, manifest)
    if manifest.kind is ReleaseKind.MEASUREMENTS:
        return Measurements(path, manifest)
    return Opened(path, manifest)
