"""Reads small text files: release files, manifests, lists."""

from pathlib import Path

MOST_BYTES = 1 << 28
"""Size limit of a file that is read as one text. The largest, the manifest of a national release, has a few MiB."""


def read_text_file(path: Path) -> str:
    """The text of a UTF-8 file, without the byte-order mark that some editors put in front.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not a regular file (reading a device might never end), is larger than `MOST_BYTES`, or is not
            UTF-8.
    """
    if path.exists() and not path.is_file():
        raise ValueError("it is no regular file")
    if path.stat().st_size > MOST_BYTES:
        raise ValueError("it is larger than any such file")
    return path.read_text(encoding="utf-8-sig")
