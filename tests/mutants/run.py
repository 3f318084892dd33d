"""Mutation testing of the privacy core: does a test fail when one small thing in the source is changed?

    python -m tests.mutants.run --room ROOM [--sample N] [--seed N] [--quick]

Mutmut makes the mutants and runs the tests that `rooms.toml` names against each, in a copy of the project. A test
is run for a mutant only if it calls the changed function. A mutant that survives this is looked at a second time: all
tests of the room are run in a new process, because functions that run at an import or once for several tests escape the
first look. The copy stays in `build/mutants`. What was killed stays killed until its function changes; the others are
run again when sources or tests have changed. So the command can be stopped and given again. With `--quick` there is no
second look, and the score is a lower bound.

The exit status is 1 if a mutant was not run, or survives, changes more than words and is not named by `justified.toml`.
It is 2 if nothing could be said, such as without mutmut. Only one process at a time works on a room.
"""

import argparse
import filecmp
import hashlib
import json
import math
import os
import resource
import shutil
import signal
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from tests.commands import NotCheckedError, alone, digest_of, exit_code, whole
from tests.mutants.mutant import HERE, PROJECT, Mutant, draw, justified, mutants_of, refuse_compiled
from tests.mutants.outcomes import CAUGHT, OPEN, Outcome, Results, outcome_of, report

COPIED: Final = ("src", "tests", "docs", "examples", "benchmarks", "README.md", "CHANGELOG.md")
PYTEST: Final = ("-p", "no:cacheprovider", "-n", "0")
SECONDS: Final = 60
"""A second look ends after twice the processor seconds of the tests and this many more; the mutant is then endless."""
LONGEST: Final = 3600
"""Processor seconds that the tests of a room may take."""
WAITING: Final = 10
"""It also ends after this many times as many seconds by the clock."""
STOPPED: Final = (-signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP)
"""How a process ends that somebody stops, which says nothing of the tests."""
EXIT_CODES: Final = {Outcome.KILLED: 1, Outcome.ENDLESS: 36, Outcome.SURVIVED: 0}


@dataclass(frozen=True, slots=True)
class Workplace:
    """The copy in which one room is mutated.

    Attributes:
        room: The room.
        tests: What must notice.
        forked_from, left_out: See `rooms.toml`.
    """

    room: str
    tests: tuple[str, ...]
    forked_from: str
    left_out: tuple[str, ...] = ()

    @property
    def pytest(self) -> list[str]:
        """Arguments of pytest beside the tests."""
        return [*PYTEST, *(f"--deselect={test}" for test in self.left_out)]

    @property
    def folder(self) -> Path:
        """The copy of the project, in which mutmut makes the folder `mutants` with a second one."""
        return PROJECT / "build" / "mutants" / self.room

    @property
    def looked(self) -> Path:
        """File with what the second look has found to survive, and with the digest of the project at that time."""
        return self.folder / "second_look.json"

    def prepare(self) -> None:
        """Bring the copy up to date. If sources or tests have changed, what was not caught counts as not run again."""
        self._forget_what_is_half_written()
        digest = _digest(self._settings())
        kept = {*CAUGHT}
        if self.looked.exists() and json.loads(self.looked.read_text())["digest"] == digest:
            kept = set(Outcome) - {Outcome.NOT_RUN}
        else:
            self._copy()
            self._mutmut([sys.executable, str(HERE / "generate.py")])
            _write(self.looked, json.dumps({"digest": digest, "survived": []}))
        for path in self._metas():
            _write(path, _with_outcomes(path, kept))

    def _forget_what_is_half_written(self) -> None:
        """Remove what was being written when a process was killed, so that mutmut makes it again."""
        for file in (self.folder / "mutants" / "src" / "tallyveil" / self.room).rglob("*.py"):
            beside = [file.with_name(file.name + end) for end in (".meta", ".spans")]
            if not all(_is_whole(path, file) for path in beside):
                for path in (self.looked, file, *beside):
                    path.unlink(missing_ok=True)

    def _copy(self) -> None:
        """Copy what has changed. A file of mutants stays as long as its source is the same."""
        # An interpreter that starts with a search path which is not there yet never looks into it.
        (self.folder / "mutants" / "src").mkdir(parents=True, exist_ok=True)
        wanted, there = (
            {path.relative_to(root) for name in COPIED for path in _files(root / name)}
            for root in (PROJECT, self.folder)
        )
        for path in there - wanted:
            (self.folder / path).unlink()
            (self.folder / "mutants" / path).unlink(missing_ok=True)
        for path in wanted:
            if path not in there or not filecmp.cmp(PROJECT / path, self.folder / path):
                (self.folder / "mutants" / path).unlink(missing_ok=True)
                (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(PROJECT / path, self.folder / path)
        (self.folder / "pyproject.toml").write_text(
            (PROJECT / "pyproject.toml").read_text() + self._settings()
        )

    def _settings(self) -> str:
        package = Path("src") / "tallyveil"
        beside = (
            str(package / path.name) for path in (PROJECT / package).iterdir() if path.name != self.room
        )
        settings: dict[str, Any] = {
            "source_paths": [str(package / self.room)],
            "also_copy": [*sorted(beside), *COPIED[1:]],
            "pytest_add_cli_args_test_selection": list(self.tests),
            "pytest_add_cli_args": self.pytest,
            "process_isolation": "fork" if self.forked_from == "tests" else "forkserver",
            "forkserver_warmup": "import",
            "preload_modules_file": str(HERE / "imported_first.txt"),
            "timeout_multiplier": 4,
            "timeout_constant": 15,
            "use_git_change_detection": False,
            "track_dependencies": False,
        }
        # Lists of texts, numbers and truth values are the same in JSON and in TOML.
        return "\n[tool.mutmut]\n" + "".join(
            f"{key} = {json.dumps(value)}\n" for key, value in settings.items()
        )

    def _metas(self) -> list[Path]:
        return sorted((self.folder / "mutants" / "src" / "tallyveil" / self.room).rglob("*.meta"))

    def outcomes(self) -> dict[str, Outcome]:
        """What became of the mutants that mutmut has made so far."""
        codes = {}
        for path in self._metas():
            codes.update(json.loads(path.read_text())["exit_code_by_key"])
        return {name.removeprefix("tallyveil."): outcome_of(code) for name, code in codes.items()}

    def first_look(self, names: list[str]) -> None:
        """Let mutmut run mutants. What it says is in the file `mutmut.log` of the copy."""
        # Mutmut would keep what it knows of tests that were changed since.
        (self.folder / "mutants" / "mutmut-stats.json").unlink(missing_ok=True)
        # The mutmut of this interpreter, whatever is on the path; -P keeps the working folder out of what it imports.
        command = [sys.executable, "-P", "-m", "mutmut", "run", "--max-children", "1"]
        self._mutmut([*command, *(f"tallyveil.{name}" for name in names)])

    def _mutmut(self, command: list[str]) -> None:
        with (self.folder / "mutmut.log").open("w") as log:
            done = subprocess.run(
                command,
                cwd=self.folder,
                env=self._environment(),
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
                close_fds=False,  # so that it holds the folder, too
            )
        if done.returncode:
            raise NotCheckedError(f"mutmut ended with {done.returncode}; the reason is in {log.name}")

    def second_look(self, names: list[str]) -> None:
        """Run all tests of the room against mutants, each in a new process, and keep and print what became of them.

        Raises:
            NotCheckedError: The tests fail without a mutant, or do not fail where every function does.
        """
        before = _seconds_of_children()
        if names and self._tests_end_with("", LONGEST) is not Outcome.SURVIVED:
            raise NotCheckedError(f"the tests of {self.room} fail without a mutant; mend that first")
        limit = SECONDS + 2 * math.ceil(_seconds_of_children() - before)
        if names and self._tests_end_with("fail", limit) is not Outcome.KILLED:
            raise NotCheckedError(
                f"the tests of {self.room} run something else than {self.folder / 'mutants'}"
            )
        for name in names:
            outcome = self._tests_end_with(f"tallyveil.{name}", limit)
            self._keep(name, outcome)
            print(f"{name}: {outcome} at the second look", flush=True)

    def _tests_end_with(self, mutant: str, limit: int) -> Outcome:
        """Run all tests of the room, in a new process, against what mutmut knows under this name.

        Args:
            mutant: The name.
            limit: Processor seconds after which the mutant counts as endless.
        """
        try:
            done = subprocess.run(
                [sys.executable, "-m", "pytest", "-x", *self.pytest, *self.tests],
                cwd=self.folder / "mutants",
                env={**self._environment(), "MUTANT_UNDER_TEST": mutant},
                capture_output=True,
                text=True,
                timeout=WAITING * limit,
                check=False,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit)),
            )
        except subprocess.TimeoutExpired:
            return Outcome.ENDLESS
        if done.returncode in {-signal.SIGXCPU, -signal.SIGKILL}:
            return Outcome.ENDLESS
        if done.returncode in {4, 5}:
            raise NotCheckedError(f"pytest found no tests to run for {mutant}:\n{done.stdout[-2000:]}")
        if done.returncode in STOPPED:
            raise NotCheckedError(f"the tests of {mutant} were stopped by a signal; give the command again")
        return Outcome.KILLED if done.returncode else Outcome.SURVIVED

    def _keep(self, name: str, outcome: Outcome) -> None:
        """Write what the second look found to where it is found again."""
        if outcome is Outcome.SURVIVED:
            looked = json.loads(self.looked.read_text())
            _write(self.looked, json.dumps({**looked, "survived": [*looked["survived"], name]}))
            if self.outcomes()[name] is Outcome.UNREACHED:
                return
        for path in self._metas():
            meta = json.loads(path.read_text())
            if f"tallyveil.{name}" in meta["exit_code_by_key"]:
                meta["exit_code_by_key"][f"tallyveil.{name}"] = EXIT_CODES[outcome]
                _write(path, json.dumps(meta))

    def found_to_survive(self) -> frozenset[str]:
        """What the second look has found to survive."""
        return frozenset(json.loads(self.looked.read_text())["survived"])

    def _environment(self) -> dict[str, str]:
        copy = self.folder / "mutants"
        return {
            **os.environ,
            "PYTHONPATH": f"{copy / 'src'}{os.pathsep}{copy}",
            "PYTHONDONTWRITEBYTECODE": "",
        }


def _files(path: Path) -> list[Path]:
    """A file, or all files of a folder; none where there is neither."""
    return [one for one in (path, *path.rglob("*")) if one.is_file()]


def _write(path: Path, text: str) -> None:
    """Write a file at once, so that it is never half written."""
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    new.replace(path)


def _is_whole(path: Path, file: Path) -> bool:
    """Whether what mutmut writes beside a file of mutants, after it, is there and was written to its end."""
    if not path.exists() or path.stat().st_mtime < file.stat().st_mtime:
        return False
    try:
        json.loads(path.read_text())
    except json.JSONDecodeError:
        return False
    return True


def _with_outcomes(path: Path, kept: set[Outcome]) -> str:
    """The results of a file, where mutants with other outcomes count as not run."""
    meta = json.loads(path.read_text())
    codes = meta["exit_code_by_key"]
    meta["exit_code_by_key"] = {
        name: code if outcome_of(code) in kept else None for name, code in codes.items()
    }
    return json.dumps(meta)


def _seconds_of_children() -> float:
    """Processor seconds that processes which this one started have taken."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _digest(settings: str) -> str:
    """SHA-256 of the settings, the sources and the tests, without this folder."""
    files = digest_of([PROJECT / "src", PROJECT / "tests"], without=HERE)
    return hashlib.sha256(f"{settings}\0{files}".encode()).hexdigest()


def run(place: Workplace, mutants: dict[str, Mutant], drawn: list[str], *, quick: bool) -> Results:
    """Run the mutants that were drawn, as far as they have not been run, and look at the survivors again."""
    before = place.outcomes()
    wanted = [name for name in drawn if before.get(name, Outcome.NOT_RUN) is Outcome.NOT_RUN]
    words = frozenset(name for name in drawn if mutants[name].changes_words_alone())
    if wanted:
        place.first_look(wanted if len(drawn) < len(mutants) else [])
    survivors = {name for name, outcome in place.outcomes().items() if outcome in OPEN}
    if not quick:
        place.second_look([name for name in drawn if name in survivors - words - place.found_to_survive()])
    after = place.outcomes()
    return Results(
        room=place.room,
        n_mutants=len(mutants),
        outcomes={name: after.get(name, Outcome.NOT_RUN) for name in drawn},
        words=words,
        justified=justified(place.room, mutants),
    )


def main() -> int:
    """Run a sample of a room's mutants and print what became of it. Returns 1 if one was not run or has no reason."""
    rooms = tomllib.loads((HERE / "rooms.toml").read_text())
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--room", choices=sorted(rooms), required=True)
    parser.add_argument("--sample", type=whole(1), help="how many mutants to draw; all of them if left out")
    parser.add_argument("--seed", type=int, default=1, help="another number draws another sample")
    parser.add_argument("--quick", action="store_true", help="look at no survivor a second time")
    asked = parser.parse_args()
    if find_spec("mutmut") is None:
        parser.error(
            f"mutmut is not installed for {sys.executable}. `make mutants` installs it, and so does "
            f"`{sys.executable} -m pip install -e '.[dev,mutants]'`."
        )
    refuse_compiled(asked.room)
    own = rooms[asked.room]
    place = Workplace(asked.room, tuple(own["tests"]), own["forked_from"], tuple(own.get("left_out", ())))
    with alone(place.folder, f"mutants of {asked.room}"):
        place.prepare()
        mutants = mutants_of(asked.room, place.folder / "mutants")
        justified(asked.room, mutants)  # says what is wrong with the file before hours are spent
        results = run(place, mutants, draw(list(mutants), asked.sample, asked.seed), quick=asked.quick)
    print(report(results, mutants))
    return 1 if results.survivors() or results.not_run() else 0


if __name__ == "__main__":
    sys.exit(exit_code(main))
