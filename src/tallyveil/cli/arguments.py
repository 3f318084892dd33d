"""Arguments and flags that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from tallyveil.errors import StoreError
from tallyveil.printable import has_bytes

ReleaseFilePath = Annotated[Path, typer.Argument(help="The release file (TOML).", metavar="RELEASE.TOML")]
Out = Annotated[
    Path, typer.Option("--out", help="Folder of the release: new, empty, or with an unfinished run.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show nothing but errors.")]
AsJson = Annotated[bool, typer.Option("--json", help="Log JSON lines, and print the summary as JSON.")]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        help="Number of threads for estimation. Default: one for each core. The release does not depend on it.",
    ),
]
InsecureTestKey = Annotated[
    str | None,
    typer.Option(
        "--insecure-test-key",
        metavar="TEXT",
        help="Derive all noise from this text, for tests. The release then protects nobody, and its files say so.",
    ),
]


def require_utf8(text: str) -> str:
    """A text that somebody typed, unchanged: an argument, an answer, or the working folder.

    Raises:
        StoreError: it has bytes that are no UTF-8, which readers of Parquet and JSON cannot take.
    """
    if has_bytes(text):
        raise StoreError(
            f"got '{text}', which has bytes that are no UTF-8 text; wanted paths and values in UTF-8. Rename the file "
            "or the folder.",
            code="path-not-text",
        )
    return text


def split_names(text: str) -> list[str]:
    """The names in the value of a flag, which are separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]
