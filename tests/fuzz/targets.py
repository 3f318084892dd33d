"""One target for each reader: a valid file of each form, and what reads it.

A builder makes the valid files once, by the library itself or from the inputs of the soak, in a folder of its own. A
target then puts a changed file in the place of the valid one and reads it. Everything beside that file stays valid.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl


@dataclass(frozen=True)
class Target:
    """A reader and a valid file for it.

    Attributes:
        valid: Content of a valid file.
        read: Reads a file with the given content; returns something that is equal for equal files, or None.
        form: "toml", "json", "lines" (of JSON), "csv", "parquet" or "bytes".
        confidential: Whether the file holds records.
        mended: Makes a changed tree consistent again, such as by its digest, so that readers look beyond it.
    """

    valid: bytes
    read: Callable[[bytes], object]
    form: str
    confidential: bool = False
    mended: Callable[[Any], Any] = field(default=lambda tree: tree)


Builder = Callable[[Path], Target]


def at(path: Path, read: Callable[[], object]) -> Callable[[bytes], object]:
    """Reads after the content was written to a path."""

    def reading(content: bytes) -> object:
        path.write_bytes(content)
        return read()

    return reading


def all_targets() -> Mapping[str, Builder]:
    """Every builder by the name of its target."""
    from geography_targets import GEOGRAPHY_TARGETS
    from input_targets import INPUT_TARGETS
    from release_targets import RELEASE_TARGETS
    from run_targets import RUN_TARGETS
    from safetab_targets import SAFETAB_TARGETS

    return {
        **INPUT_TARGETS,
        **GEOGRAPHY_TARGETS,
        **SAFETAB_TARGETS,
        **RELEASE_TARGETS,
        **RUN_TARGETS,
    }


def table_of(content: bytes, form: str) -> dict[str, list[Any]]:
    """Columns of a CSV or Parquet file."""
    import io

    if form == "parquet":
        return pl.read_parquet(io.BytesIO(content)).to_dict(as_series=False)
    separator = "|" if b"|" in content.partition(b"\n")[0] else ","
    return pl.read_csv(io.BytesIO(content), separator=separator, infer_schema=False).to_dict(as_series=False)


def json_bytes(tree: Any) -> bytes:
    """A tree as a JSON file."""
    return json.dumps(tree).encode()
