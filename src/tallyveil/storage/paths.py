"""The one module that turns names into file names, and that checks that a path lies inside its folder.

The encoding of names is injective: different names have different file names. Letters, digits, spaces, hyphens and
underscores stand for themselves, so that a geolevel `County` is the file `County.parquet`. A `*`, which joins the
factors of a query, is written `.`. Every other character is written as its UTF-8 bytes, `%2F` for a slash. So no name
can climb out of a folder, and a recode `a.b` (`a%2Eb`) is not the query `a*b` (`a.b`).

A file system that ignores case would still take `Age` for `age`. Names that differ in nothing but case are refused
with the configuration (`tallyveil.universe.names.check_apart`).
"""

import hashlib
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tallyveil.errors import StoreError

LONGEST_FILE_NAME: Final = 120
"""Characters of an encoded name. File systems allow 255 bytes; endings such as `.parquet.partial` come on top."""

_KEPT_OF_LONG: Final = 80
_ORDINARY: Final = re.compile(r"[A-Za-z0-9 _-]")


def file_name(name: str) -> str:
    """The file name that stands for a name.

    A name whose encoding is too long is cut; its SHA-256, after `%~`, keeps it apart from all others.

    Args:
        name: Any text, also an empty one.
    """
    encoded = "".join(_encoded(character) for character in name)
    if not encoded.strip("."):  # empty, or names such as `.`, which mean folders
        encoded = f"%{encoded}"
    if len(encoded) <= LONGEST_FILE_NAME:
        return encoded
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{encoded[:_KEPT_OF_LONG]}%~{digest[:32]}"


def real(path: Path) -> Path:
    """The path without symbolic links. Unlike `Path.resolve` it fails for none, not even for a link to itself."""
    return Path(os.path.realpath(path))


def inside(root: Path, *parts: str) -> Path:
    """The path of a file or folder below `root`, once it is proved to lie there.

    Args:
        root: The folder of a release, of a study, or of any other output.
        parts: Names of folders and of the file, each made of constants, numbers and `file_name`.
    Raises:
        StoreError: a part leads out of `root`, by its text or by a symbolic link on the way.
    """
    path = root.joinpath(*parts)
    plain = all(part not in {"", ".", ".."} and not re.search(r"[/\0]", part) for part in parts)
    if not plain or not real(path).is_relative_to(real(root)):
        raise StoreError(
            f"{path!s:.200} does not lie inside {root}: a name or a symbolic link leads out of the folder. Nothing was "
            "written there. Remove the link, or choose another folder with --out.",
            code="path-outside",
        )
    return path


def refuse_long_paths(root: Path, relative: Iterable[str], ending: str) -> None:
    """Refuse a folder whose path leaves too little room for the files that will be written below it.

    Args:
        root: Folder of the outputs; it need not exist.
        relative: The files, as paths below `root`.
        ending: Ending that the name of a file has while it is written.
    Raises:
        StoreError: the system allows no path, or no file name, as long as one of them.
    """
    longest = [*relative]
    here = next(parent for parent in (root.absolute(), *root.absolute().parents) if parent.exists())
    try:
        path_limit, name_limit = os.pathconf(here, "PC_PATH_MAX"), os.pathconf(here, "PC_NAME_MAX")
    except OSError:  # the system does not say; a path that it then refuses is a failed write
        return
    whole = [os.fsencode(f"{real(root)}/{path}{ending}") for path in longest]
    parts = [os.fsencode(part) for path in longest for part in f"{path}{ending}".split("/")]
    if any(len(path) >= path_limit for path in whole) or any(len(part) > name_limit for part in parts):
        raise StoreError(
            f"the path of the output folder has {len(os.fsencode(real(root)))} bytes, so that files inside it "
            f"would have more than the {path_limit} (or {name_limit} in one name) that this system allows. Choose an "
            "--out with a shorter path. Nothing was spent.",
            code="path-too-long",
        )


def _encoded(character: str) -> str:
    if _ORDINARY.fullmatch(character):
        return character
    if character == "*":
        return "."
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))
