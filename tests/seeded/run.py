"""Thirty and more faults of the kinds that have broken real systems, seeded one by one: does the suite catch each?

    python -m tests.seeded.run [--only NAME ...] [--list]

`bugs.toml` lists the faults. Each replaces one text of one source file, in a scratch copy of the project. The tests
that the fault names then run against the copy, and at least one of them must fail. Before that, all of these tests must
pass without a fault; otherwise a failure would prove nothing. For the same reason a fault is not caught where tests
cannot be collected or do not end in time. The table at the end names the test that caught each fault. The exit status
is 1 if one was not caught, and 2 if that could not be found out.
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
from importlib.util import cache_from_source
from pathlib import Path
from typing import Final

sys.path.append(str(Path(__file__).parents[2]))

from tests.commands import PROJECT, NotCheckedError, exit_code

BUGS: Final = Path(__file__).with_name("bugs.toml")
LEFT_OUT: Final = (".git", ".venv*", "_build", "build", "dist", ".hypothesis", ".pytest_cache", ".mypy_cache")
SECONDS: Final = 900
"""Time for the tests of one fault, which take less than a minute on a machine without other work."""


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
        """Write the fault into a copy. Raises NotCheckedError if its text is not there, or more than once."""
        path = project / "src" / "tallyveil" / self.file
        text = path.read_text()
        if text.count(self.old) != 1:
            raise NotCheckedError(
                f"{self.name}: the text to replace occurs {text.count(self.old)} times in {self.file}, wanted once. "
                f"Change bugs.toml with the source."
            )
        path.write_text(text.replace(self.old, self.new))
        _forget_compiled(path)


def _forget_compiled(path: Path) -> None:
    """Remove the bytecode of a source file. Python takes it for that of another text of the same length and second."""
    Path(cache_from_source(str(path))).unlink(missing_ok=True)


def read_bugs() -> tuple[Bug, ...]:
    """The faults of `bugs.toml`, in order."""
    with BUGS.open("rb") as stream:
        found = tomllib.load(stream)["bug"]
    return tuple(Bug(**{**one, "tests": tuple(one["tests"])}) for one in found)


def failures(project: Path, tests: tuple[str, ...], seconds: int = SECONDS) -> tuple[str, ...]:
    """Names of the tests that fail in a copy, the first one only.

    Raises:
        NotCheckedError: The tests cannot be collected, or do not end in time.
    """
    environment = {**os.environ, "PYTHONPATH": str(project / "src"), "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, "-m", "pytest", "-x", "-rfE", "--tb=no", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(
            command,
            cwd=project,
            env=environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotCheckedError(f"the tests {', '.join(tests)} did not end within {seconds} s") from None
    found = re.findall(r"^(?:FAILED|ERROR) ([^\s\[]+::[^\s\[]+)", done.stdout, re.MULTILINE)
    if done.returncode and not found:
        raise NotCheckedError(
            f"pytest ended with {done.returncode} and names no test that fails:\n"
            f"{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    return tuple(found)


def scratch_copy(folder: Path) -> Path:
    """A copy of the project. It loads the kernels that this project has compiled, since their sources are the same."""
    ignored = shutil.ignore_patterns(*LEFT_OUT)
    return Path(shutil.copytree(PROJECT, folder / "project", symlinks=True, ignore=ignored))


def main() -> int:
    """Seed every fault, run its tests, and print a table. Returns 1 if a fault was not caught."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these faults alone")
    parser.add_argument("--list", action="store_true", help="print the faults, and run nothing")
    asked = parser.parse_args()
    known = read_bugs()
    if unknown := sorted(set(asked.only or ()) - {bug.name for bug in known}):
        parser.error(f"no fault is called {', '.join(unknown)}; --list shows the names")
    bugs = [bug for bug in known if not asked.only or bug.name in asked.only]
    if asked.list:
        print(*(f"{bug.name}: {bug.what}" for bug in bugs), sep="\n")
        return 0
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        project = scratch_copy(Path(folder))
        all_tests = tuple(sorted({test for bug in bugs for test in bug.tests}))
        if sound := failures(project, all_tests, SECONDS * len(bugs)):
            raise NotCheckedError(f"without a fault, {sound[0]} fails already; mend that first")
        for bug in bugs:
            said = _caught(bug, project)
            missed += not said.startswith("tests/")
            print(f"| {bug.name} | {bug.what} | {said} |", flush=True)
    print(f"{len(bugs) - missed} of {len(bugs)} faults caught")
    return 1 if missed else 0


def _caught(bug: Bug, project: Path) -> str:
    """The test that fails with a fault, or that and why none is known to."""
    path = project / "src" / "tallyveil" / bug.file
    kept, dates = path.read_bytes(), path.stat()
    bug.apply(project)
    try:
        found = failures(project, bug.tests)
    except NotCheckedError as error:
        return f"NOT CAUGHT: {str(error).partition(chr(10))[0]}"
    finally:
        path.write_bytes(kept)
        os.utime(path, ns=(dates.st_atime_ns, dates.st_mtime_ns))
        _forget_compiled(path)
    return found[0] if found else "NOT CAUGHT"


if __name__ == "__main__":
    sys.exit(exit_code(main))
