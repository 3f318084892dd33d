"""Folders of the earlier releases of a programme, which a release file may name without a path.

A release file says in `[[agreement]]` with which published releases it agrees. In a file that a programme runs, an
entry may leave `path` out: its `name` is then that of an earlier release of the programme, whose folder is known.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tallyveil.errors import ConfigError

AGREEMENT: Final = "agreement"


def with_folders(
    content: dict[str, Any], folders: Mapping[str, Path], where: str
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The content of a release file with a path in every entry that names an earlier release, and these names.

    Entries of another shape than wanted stay as they are, for the check of the whole file names them better.

    Args:
        content: The tables of the file.
        folders: Folder of each earlier release of the programme, by its name.
        where: The file, for messages.
    Raises:
        ConfigError: an entry has no path, and its name is that of no earlier release.
    """
    entries = content.get(AGREEMENT)
    if not isinstance(entries, list):
        return content, ()
    unknown = [entry["name"] for entry in entries if _is_open(entry) and entry["name"] not in folders]
    if unknown:
        known = ", ".join(folders) or "none, for this release is the first"
        raise ConfigError(
            f"[[agreement]] '{unknown[0]}' of {where} has no path, and the programme has no earlier release of this "
            f"name. Earlier releases: {known}. Correct the name, change the order of the releases, or give the path of "
            "a finished release.",
            code="unknown-release",
        )
    filled = [
        {**entry, "path": str(folders[entry["name"]].absolute())} if _is_open(entry) else entry
        for entry in entries
    ]
    names = dict.fromkeys(entry["name"] for entry in entries if _is_open(entry))
    return {**content, AGREEMENT: filled}, tuple(names)


def _is_open(entry: Any) -> bool:
    """Whether an entry names a release and not its path."""
    return isinstance(entry, dict) and isinstance(entry.get("name"), str) and "path" not in entry
