"""Adds to what is built: the commit, for `tallyveil --version`, and compiled kernels, for `make wheel`."""

import os
import shutil
import subprocess
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAME = "tallyveil/commit.txt"


class CommitHook(BuildHookInterface[Any]):
    """Adds the file with the commit. A source distribution has it too, so that wheels made of it have it."""

    made: Path | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the file, unless the package runs from its checkout or there is no checkout."""
        kernels = os.environ.get("TALLYVEIL_KERNELS")  # the folder of tools/bundle/kernels.py
        if kernels and self.target_name == "wheel":
            build_data["force_include"][kernels] = "tallyveil/kernels/carried"
            build_data.update(pure_python=False, infer_tag=True)
        if version == "editable" or not (Path(self.root) / ".git").exists():
            return
        asked = [
            "git",
            "-C",
            self.root,
            "describe",
            "--always",
            "--exclude=*",
            "--abbrev=12",
            "--dirty=+changes",
        ]
        try:
            commit = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
        except (OSError, subprocess.CalledProcessError):  # no git, or a checkout that it does not trust
            return
        self.made = Path(mkdtemp(prefix="tallyveil-build-"))
        file = self.made / "commit.txt"
        file.write_text(f"{commit}\n", encoding="utf-8")
        build_data["force_include"][str(file)] = NAME if self.target_name == "wheel" else f"src/{NAME}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the folder of the file."""
        if self.made is not None:
            shutil.rmtree(self.made)
