"""Checksums of a folder, and an archive of it that depends on names and contents alone."""

import hashlib
import tarfile
from pathlib import Path

CHECKSUMS = "SHA256SUMS"


def checksums(folder: Path) -> str:
    """One line for each file, in the format of `sha256sum`."""
    return "".join(f"{_sha256(path)}  {path.relative_to(folder).as_posix()}\n" for path in _files(folder))


def pack(folder: Path, into: Path, epoch: int) -> None:
    """Write a folder as an uncompressed tar file: names sorted, one time, one owner, one mode.

    The wheels are compressed already, and the result does not depend on the version of a compressor.
    """
    with tarfile.open(into, "w", format=tarfile.PAX_FORMAT) as archive:
        for path in _files(folder):
            entry = tarfile.TarInfo(f"{folder.name}/{path.relative_to(folder).as_posix()}")
            entry.size, entry.mtime, entry.mode = path.stat().st_size, epoch, 0o644
            with path.open("rb") as file:
                archive.addfile(entry, file)


def _files(folder: Path) -> list[Path]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return sorted(found, key=lambda path: path.relative_to(folder).as_posix())


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
