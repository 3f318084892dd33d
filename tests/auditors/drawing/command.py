"""Draws the outputs that are audited, and writes them for the auditors.

    python -m tests.auditors.drawing.command FOLDER SOURCE --number 200000 --releases 300 --groups samplers tree ...

The package that is drawn from is the one that is imported, so that a copy with a fault can be audited as well. It must
be the one below SOURCE.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.auditors.drawing.groups_of_outputs import GROUPS
from tests.auditors.outputs import Draws, Outputs
from tests.commands import exit_code, refuse_another_package, whole


def main() -> int:
    """Draw the groups that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("source", type=Path)
    parser.add_argument("--number", type=whole(1), required=True, help="outputs on each side")
    parser.add_argument("--releases", type=whole(0), required=True, help="whole releases on each side")
    parser.add_argument("--groups", nargs="+", choices=GROUPS, default=GROUPS)
    asked = parser.parse_args()
    refuse_another_package(asked.source)
    asked.folder.mkdir(parents=True, exist_ok=True)
    for group in asked.groups:
        with tempfile.TemporaryDirectory() as scratch:
            for drawn in _drawn(group, asked.number, asked.releases, Path(scratch)):
                drawn.write(asked.folder)
    return 0


def _drawn(group: str, number: int, releases: int, scratch: Path) -> Iterator[Draws | Outputs]:
    # Imported here: a fault may keep one of them from being imported.
    if group in ("samplers", "counts"):
        from tests.auditors.drawing import samplers

        # One sample costs less here than elsewhere.
        return samplers.draws(10 * number) if group == "samplers" else samplers.counts(5 * number)
    if group == "tree":
        from tests.auditors.drawing import forest

        return forest.draw(number)
    if group == "groups":
        from tests.auditors.drawing import groups

        return groups.draw(number)
    if group == "lattices":
        from tests.auditors.drawing import lattices

        return lattices.draw(number)
    from tests.auditors.drawing import releases as whole

    return whole.draw(group, releases, scratch)


if __name__ == "__main__":
    sys.exit(exit_code(main))
