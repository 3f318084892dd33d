"""The only module that turns names into file names, and that checks that a path lies inside its folder.

The encoding of names is injective: different names have different file names. Letters, digits, spaces, hyphens and
underscores are unchanged, so a geolevel `County` becomes the file `County.parquet`. A `*`, which joins the factors of a
query, becomes `.`. Every other character becomes its UTF-8 bytes, for example `%2F` for a slash. So no name can lead
out of a folder, and a recode `a.b` (`a%2Eb`) is different from the query `a*b` (`a.b`).

Folders of tables are Hive-style, `geolevel=Tract`, so that readers make a column of them. There a name is only
percent-encoded, which readers undo: `*` is written `%2A`, and nothing is shortened (`tallyveil.schema.names` refuses
a name that is too long).

A file system that ignores case would still treat `Age` and `age` as the same file. The check of the configuration
refuses names that differ only in case (`tallyveil.schema.names.check_apart`).
"""

import hashlib
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tallyveil.errors import StoreError
from tallyveil.storage.system import longest_names

LONGEST_FILE_NAME: Final = 120
"""Characters of an encoded name. File systems allow 255 bytes; endings such as `.parquet.partial` are added to it."""

# Characters of a long name that stay readable. With the digest they make 114, below `LONGEST_FILE_NAME`; twice as many
# would exceed it.
_KEPT_OF_LONG: Final = 80
_ORDINARY: Final = re.compile(r"[A-Za-z0-9 _-]")


def file_name(name: str) -> str:
    """The file name for a name.

    A name whose encoding is too long is shortened. Its SHA-256 digest, after `%~`, then distinguishes it from others.

    Args:
        name: Any text, including the empty text.
    """
    encoded = "".join(_encoded(character) for character in name)
    # Dots alone mean a folder to every system; the percent sign makes a name of them that nothing else encodes to.
    if not encoded.strip("."):  # an empty name, or a name such as `.` that would mean a folder
        encoded = f"%{encoded}"
    if len(encoded) <= LONGEST_FILE_NAME:
        return encoded
    # 128 bits of the digest: two names of one release do not collide by chance.
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{encoded[:_KEPT_OF_LONG]}%~{digest[:32]}"


def hive_folder(column: str, value: str) -> str:
    """The folder for the rows that have one value in a column, such as `geolevel=Tract`.

    Args:
        column: Name of the column, a constant.
        value: Any text that is not empty. Readers of Hive-style folders read it back as it was.
    """
    return f"{column}={hive_value(value)}"


def hive_value(value: str) -> str:
    """A value in the name of a Hive-style folder, percent-encoded."""
    return "".join("%2A" if character == "*" else _encoded(character) for character in value)


def real(path: Path) -> Path:
    """The path without symbolic links. Unlike `Path.resolve` it never fails, even for a link to itself."""
    # `Path.resolve` raises for a link to itself in some versions; the text is enough for a comparison.
    return Path(os.path.realpath(path))


def is_same_file(path: Path, other_path: Path) -> bool:
    """Whether two paths lead to one file, possibly through symbolic or hard links."""
    return real(path) == real(other_path) or (
        path.is_file() and other_path.is_file() and path.samefile(other_path)
    )


def inside(root: Path, *parts: str) -> Path:
    """The path of a file or folder below `root`, after a check that it lies there.

    Args:
        root: The folder of a release, of a study, or of any other output.
        parts: Names of folders and of the file. Each consists of constants, numbers and results of `file_name`.
    Raises:
        StoreError: a part leads out of `root`, by its text or through a symbolic link.
    """
    path = root.joinpath(*parts)
    # Each part by its text first: a colon is a drive on Windows, and both slashes are separators there.
    plain = all(part not in {"", ".", ".."} and not re.search(r"[/\\:\0]", part) for part in parts)
    # Then by what lies there: a link inside the folder may lead out of it.
    if not plain or not real(path).is_relative_to(real(root)):
        raise StoreError(
            f"{path!s:.200} does not lie inside {root}: a name or a symbolic link leads out of the folder. Nothing was "
            "written there. Remove the link, or choose another folder with --out.",
            code="path-outside",
        )
    return path


def refuse_long_paths(root: Path, relative: Iterable[str], ending: str) -> None:
    """Refuse a folder whose path is too long for the files that will be written below it.

    Args:
        root: Folder of the outputs. It need not exist.
        relative: The files, as paths below `root`.
        ending: Ending of a file's name while the file is being written.
    Raises:
        StoreError: a path or file name would be longer than the system allows.
    """
    longest = [*relative]
    # The limits are those of the file system of the nearest folder that exists.
    here = next(parent for parent in (root.absolute(), *root.absolute().parents) if parent.exists())
    try:
        path_limit, name_limit = longest_names(here)
    except OSError:  # The system does not report a limit. If it refuses a path later, that is a failed write.
        return
    folder = real(root)
    whole = [os.fsencode(f"{folder}/{path}{ending}") for path in longest]
    parts = [os.fsencode(part) for path in longest for part in f"{path}{ending}".split("/")]
    # A path's limit includes the byte that ends it, a name's does not.
    if any(len(path) >= path_limit for path in whole) or any(len(part) > name_limit for part in parts):
        raise StoreError(
            f"the path of the output folder has {len(os.fsencode(folder))} bytes, so that the paths of files "
            f"inside it would be longer than this system allows ({path_limit} bytes, or {name_limit} bytes in one "
            "name). Choose an --out with a shorter path. Nothing was spent.",
            code="path-too-long",
        )


def _encoded(character: str) -> str:
    if _ORDINARY.fullmatch(character):
        return character
    # `*` joins the factors of a query and is forbidden in names on Windows; no other character becomes a dot.
    if character == "*":
        return "."
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))
