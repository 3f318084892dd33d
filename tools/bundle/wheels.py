"""The wheels of a bundle: the project's own, which is built, and those of the lock file, which are downloaded."""

import hashlib
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from email.message import Message
from email.parser import Parser
from functools import cached_property
from pathlib import Path
from zipfile import ZipFile

LICENCE_FILE = re.compile(r"^(licen[cs]e|copying|notice|authors)", re.IGNORECASE)


@dataclass(frozen=True)
class Wheel:
    """A wheel on disk.

    Attributes:
        path: The file.
    """

    path: Path

    @cached_property
    def sha256(self) -> str:
        """Digest of the file."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    @cached_property
    def _members(self) -> list[str]:
        with ZipFile(self.path) as file:
            return sorted(name for name in file.namelist() if not name.endswith("/"))

    def read(self, member: str) -> bytes:
        """Content of a file in the wheel."""
        with ZipFile(self.path) as file:
            return file.read(member)

    @cached_property
    def _info(self) -> str:
        """The folder in the wheel that holds what is known about it."""
        (metadata,) = (name for name in self._members if re.fullmatch(r"[^/]+\.dist-info/METADATA", name))
        return metadata.removesuffix("METADATA")

    @cached_property
    def metadata(self) -> Message:
        """Name, version, licence and requirements, as the wheel states them."""
        return Parser().parsestr(self.read(f"{self._info}METADATA").decode("utf-8"))

    @property
    def name(self) -> str:
        """Name of the package, normalised."""
        return re.sub(r"[-_.]+", "-", str(self.metadata["Name"])).lower()

    @property
    def version(self) -> str:
        """Version of the package."""
        return str(self.metadata["Version"])

    @property
    def licence(self) -> str:
        """The licence that the wheel states: an SPDX expression, classifiers, or one line; empty if none."""
        if self.metadata["License-Expression"]:
            return str(self.metadata["License-Expression"])
        kinds = [
            text.rpartition(" :: ")[2]
            for text in self.metadata.get_all("Classifier", [])
            if "License ::" in text
        ]
        lines = str(self.metadata["License"] or "").strip().splitlines()
        return " and ".join(kinds) or (lines[0] if lines else "")

    def licence_files(self) -> dict[str, bytes]:
        """Texts of licences, by their paths: those beside the metadata, or else all that the wheel has."""
        known = [name for name in self._members if LICENCE_FILE.match(Path(name).name)]
        beside = [name for name in known if name.startswith(self._info)]
        beside += [name for name in self._members if name.startswith(f"{self._info}licenses/")]
        return {name: self.read(name) for name in sorted({*beside} or known)}

    def stated_parts(self) -> dict[str, bytes]:
        """Bills of materials that the wheel itself carries, for libraries that are compiled into it."""
        return {name: self.read(name) for name in self._members if name.startswith(f"{self._info}sboms/")}


def wheels_in(folder: Path) -> list[Wheel]:
    """The wheels of a folder, by name."""
    return sorted(map(Wheel, folder.glob("*.whl")), key=lambda wheel: wheel.name)


def source_epoch(project: Path) -> int:
    """The time that everything is dated: SOURCE_DATE_EPOCH, or that of the commit."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given is not None:
        return int(given)
    log = ["git", "-C", project, "log", "-1", "--format=%ct"]
    return int(subprocess.run(log, capture_output=True, text=True, check=True).stdout)


def build_wheel(project: Path, into: Path, epoch: int, kernels: Path) -> Wheel:
    """Build the project's wheel with a folder of kernels. The same files, epoch and hatchling give the same bytes."""
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--no-cache-dir",
            "--wheel-dir",
            into,
            project,
        ],
        env={**os.environ, "SOURCE_DATE_EPOCH": str(epoch), "TALLYVEIL_KERNELS": str(kernels)},
        check=True,
    )
    # The newest, since a folder may have wheels of earlier builds.
    return Wheel(max(into.glob("tallyveil-*.whl"), key=lambda path: path.stat().st_mtime))


def download(lock: Path, into: Path) -> None:
    """Download the wheels of the lock file for this platform and Python. Each must have a hash of the lock file."""
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"),
            *("--only-binary", ":all:", "--requirement", lock, "--dest", into),
        ],
        check=True,
    )


def requirements(wheels: list[Wheel]) -> str:
    """Requirements that name exactly these wheels."""
    return "".join(f"{wheel.name}=={wheel.version} --hash=sha256:{wheel.sha256}\n" for wheel in wheels)
