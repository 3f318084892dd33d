"""Run a case in a folder of its own, and judge what it did."""

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fork_server import ForkServer

ARENA = "@ARENA@"
"""Stands in a case for the folder it runs in, which is not known when the case is made."""
WORK = "a/b/c/d/work"
"""Where a case's files lie, deep enough that a few `..` stay in the arena, where they are seen."""
CANARY = "canary"
CANARY_COUNTS = (75_431, 83_377, 98_731)
DOCUMENTED = {0, 2, 3, 4, 5, 6, 7, 8}
LONGEST_MESSAGE = 20_000
OUTPUT_FLAGS = ("--out", "--plot", "--each")


@dataclass(frozen=True)
class Case:
    """One bad input: files, links and the arguments of the command.

    Attributes:
        kind: The group of inputs it belongs to.
        arguments: Of the command line, without the program's name.
        files: Content by path, relative to the work folder; None is a folder.
        links: Target by path.
        writable: Paths the command may write to, besides those that its flags name.
        done: What was done to the valid input, in words.
    """

    kind: str
    arguments: tuple[str, ...]
    files: dict[str, bytes | None]
    links: dict[str, str] = field(default_factory=dict)
    writable: tuple[str, ...] = ()
    done: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """How a case ended and what is wrong with that."""

    code: int | None
    seconds: float
    out: str
    err: str
    findings: tuple[str, ...]


class Runner:
    """Runs cases one after the other through one fork server."""

    def __init__(self, folder: Path, *, seconds: float = 10.0, memory_mib: int = 6000) -> None:
        self._arena = folder / "arena"
        self._seconds, self._memory_mib = seconds, memory_mib
        self._server = ForkServer()

    def close(self) -> None:
        """End the server."""
        self._server.close()

    def run(self, case: Case) -> Outcome:
        """Lay out the case's files in a fresh arena, run it, and judge it."""
        _remove(self._arena)
        work = self._arena / WORK
        _lay_out(case, work, self._arena)
        before = snapshot(self._arena)
        arguments = tuple(item.replace(ARENA, str(self._arena)) for item in case.arguments)
        said = self._server.run(arguments, work, self._seconds, memory_mib=self._memory_mib)
        after = snapshot(self._arena)
        changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
        allowed = [Path(os.path.realpath(work / path)) for path in (*case.writable, *_outputs(arguments))]
        findings = tuple(_findings(case, said, changed, allowed, self._arena))
        return Outcome(said["code"], said["seconds"], said["out"], said["err"], findings)


def _remove(folder: Path) -> None:
    if not folder.exists():
        return
    for path in (folder, *folder.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
    shutil.rmtree(folder)


def _lay_out(case: Case, work: Path, arena: Path) -> None:
    work.mkdir(parents=True)
    for name, content in case.files.items():
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.mkdir(exist_ok=True)
        else:
            path.write_bytes(content.replace(ARENA.encode(), str(arena).encode()))
    for private in work.rglob("private"):
        if private.is_dir():
            private.chmod(0o700)  # as a run makes it; another mode is refused before anything in it is read
    for name, target in case.links.items():
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file() or path.is_symlink():
            path.unlink()
        elif path.is_dir():
            shutil.rmtree(path)
        path.symlink_to(target.replace(ARENA, str(arena)))


def snapshot(folder: Path) -> dict[str, str]:
    """What every path below a folder is: a digest of its content, its target, or that it is a folder."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_symlink():
            state = f"link to {path.readlink()}"
        elif path.is_dir():
            state = "folder"
        else:
            state = hashlib.sha256(path.read_bytes()).hexdigest()
        found[str(path.relative_to(folder))] = state
    return found


def _outputs(arguments: tuple[str, ...]) -> Iterator[str]:
    """Values of the flags that name where to write."""
    for place, item in enumerate(arguments):
        flag, given, value = item.partition("=")
        if flag in OUTPUT_FLAGS and given:
            yield value
        elif flag in OUTPUT_FLAGS and place + 1 < len(arguments):
            yield arguments[place + 1]


def _findings(case: Case, said: dict, changed: list[str], allowed: list[Path], arena: Path) -> Iterator[str]:
    code, text = said["code"], said["out"] + said["err"]
    if code is None:
        yield "hang: it had to be killed"
    elif code not in DOCUMENTED:
        yield f"exit code {code}"
    if re.search(r"Traceback|internal error|panicked at|^  File \"", text, re.MULTILINE):
        yield "traceback: " + _gist(text)
    if len(said["err"]) > LONGEST_MESSAGE:
        yield f"flood: a message of {len(said['err']):,} characters"
    if match := re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text):
        yield f"control character {match.group()!r} reaches the terminal"
    inside = [path for path in changed if _is_within(arena / path, allowed)]
    if outside := [path for path in changed if path not in inside]:
        yield f"wrote outside --out: {', '.join(outside[:5])}"
    if code not in (0, None) and inside:
        if any(_has_spend(arena / path) for path in inside):
            yield "failed after the spend: " + _gist(text)
        else:
            yield f"left behind after a refusal: {', '.join(inside[:5])}"
    yield from _leaks(text, "what it said")
    for path in changed:
        if (arena / path).is_file() and "private" not in Path(path).parts:
            yield from _leaks((arena / path).read_bytes().decode("latin-1"), Path(path).name)


def _gist(text: str) -> str:
    """The last lines that say where and why."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    places = [line for line in lines if line.startswith('File "')]
    kind = [line for line in lines if re.search(r"internal error: \w+|\w+Error\b|^error \[|panicked", line)]
    return " | ".join([*places[-1:], *kind[-1:]] or lines[-1:])[:300]


def _is_within(path: Path, roots: list[Path]) -> bool:
    """Whether a path is one of the places to write to, in one, or a folder made on the way to one."""
    real = Path(os.path.realpath(path.parent)) / path.name
    return any(real == root or root in real.parents or (real in root.parents) for root in roots)


def _has_spend(path: Path) -> bool:
    return path.name == "ledger.jsonl" and path.is_file() and b'"kind":"spend"' in path.read_bytes()


def _leaks(text: str, where: str) -> Iterator[str]:
    if CANARY in text:
        start = text.index(CANARY)
        yield f"record value in {where}: {text[max(0, start - 60) : start + 30]!r}"
    for count in CANARY_COUNTS:
        if re.search(rf"(?<![0-9.]){count}(?![0-9])|(?<![0-9.]){count:,}(?![0-9])", text):
            yield f"record count in {where}: {count}"
