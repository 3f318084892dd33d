"""Thirty and more faults of the kinds that have broken real systems, seeded one by one: does the suite catch each?

    python tests/seeded/run.py [--only NAME ...] [--list]

`bugs.toml` lists the faults. Each replaces one text of one source file, in a scratch copy of the project. The tests
that the fault names then run against the copy, and at least one of them must fail. Before that, all of these tests must
pass without a fault; otherwise a failure would prove nothing. The table at the end names the test that caught each
fault. The exit status is 1 if one was not caught.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).parents[2]
BUGS: Final = Path(__file__).with_name("bugs.toml")
LEFT_OUT: Final = (".git", ".venv*", "_build", "build", "dist", ".hypothesis", ".pytest_cache", ".mypy_cache")
SECONDS: Final = 900
"""After this time a test counts as failed: a fault may make the work endless."""


@dataclass(frozen=True, slots=True)
class Bug:
    """One fault.

    Attributes:
        name: Short name.
        what: What the fault does, as a sentence.
        file: Source file below `src/tallyveil`.
        old, new: The text that is replaced, which occurs once in the file, and what replaces it.
        tests: Arguments of pytest that select the tests.
    """

    name: str
    what: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def apply(self, project: Path) -> None:
        """Write the fault into a copy. Raises ValueError if its text is not there, or more than once."""
        path = project / "src" / "tallyveil" / self.file
        text = path.read_text()
        if text.count(self.old) != 1:
            raise ValueError(
                f"{self.name}: the text to replace occurs {text.count(self.old)} times in {self.file}, wanted once. "
                f"Change bugs.toml with the source."
            )
        path.write_text(text.replace(self.old, self.new))


def read_bugs() -> tuple[Bug, ...]:
    """The faults of `bugs.toml`, in order."""
    with BUGS.open("rb") as stream:
        found = tomllib.load(stream)["bug"]
    return tuple(Bug(**{**one, "tests": tuple(one["tests"])}) for one in found)


def failures(project: Path, tests: tuple[str, ...]) -> tuple[str, ...]:
    """Names of the tests that fail in a copy, the first one only; `("(time)",)` if they do not end."""
    environment = {**os.environ, "PYTHONPATH": str(project / "src"), "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, "-m", "pytest", "-x", "-rfE", "--tb=no", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(
            command,
            cwd=project,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return ("(time)",)
    found = re.findall(r"^(?:FAILED|ERROR) ([^\s\[]+)", done.stdout, re.MULTILINE)
    if done.returncode and not found:
        raise RuntimeError(
            f"pytest ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    return tuple(found)


def scratch_copy(folder: Path) -> Path:
    """A copy of the project, with its compiled kernels, whose dates are kept so that they stay valid."""
    return Path(shutil.copytree(PROJECT, folder / "project", ignore=shutil.ignore_patterns(*LEFT_OUT)))


def main() -> int:
    """Seed every fault, run its tests, and print a table. Returns 1 if a fault was not caught."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these faults alone")
    parser.add_argument("--list", action="store_true", help="print the faults, and run nothing")
    asked = parser.parse_args()
    bugs = [bug for bug in read_bugs() if not asked.only or bug.name in asked.only]
    if asked.list:
        print(*(f"{bug.name}: {bug.what}" for bug in bugs), sep="\n")
        return 0
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        project = scratch_copy(Path(folder))
        sound = failures(project, tuple(sorted({test for bug in bugs for test in bug.tests})))
        if sound:
            print(f"without a fault, {sound[0]} fails already; mend that first")
            return 1
        for bug in bugs:
            path = project / "src" / "tallyveil" / bug.file
            kept, dates = path.read_bytes(), path.stat()
            bug.apply(project)
            caught = failures(project, bug.tests)
            path.write_bytes(kept)
            os.utime(path, ns=(dates.st_atime_ns, dates.st_mtime_ns))
            missed += not caught
            print(f"| {bug.name} | {bug.what} | {caught[0] if caught else 'NOT CAUGHT'} |", flush=True)
    print(f"{len(bugs) - missed} of {len(bugs)} faults caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
