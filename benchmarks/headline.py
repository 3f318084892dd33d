"""What a benchmark found, in a few lines of the same form: what was compared, with what, and how they stand.

Every benchmark takes `--headline FILE` and writes its lines there; `benchmarks/run_all.py` makes one table of them.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Headline:
    """One comparison.

    Attributes:
        what: What was measured.
        found: Its value with its unit, as text.
        against: The peer, or the target; empty where there is neither.
        ratio: None without peer and target. For a peer, how many times better than it. For a target, the target
            divided by what was found, so that 1 or more means that it is reached.
    """

    what: str
    found: str
    against: str = ""
    ratio: float | None = None


def add_option(parser: argparse.ArgumentParser) -> None:
    """Give a benchmark the option `--headline`."""
    parser.add_argument("--headline", type=Path, help="write the lines of the summary to this file")


def write(path: Path | None, lines: Sequence[Headline]) -> None:
    """Write the lines of a benchmark, if a file was asked for."""
    if path is not None:
        path.write_text(json.dumps([asdict(line) for line in lines], indent=1) + "\n")


def read(path: Path) -> list[Headline]:
    """The lines that a benchmark wrote; none if it wrote no file."""
    return [Headline(**line) for line in json.loads(path.read_text())] if path.exists() else []
