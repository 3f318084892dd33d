"""What happens to a run while it works, and the folder in which it happens."""

import ctypes
import random
import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fork_server import begin, serve
from kills import LOCKED, TAKEN, UNMENDABLE, contents, damage, spends
from random_products import Command, Job, Step
from runner import CANARY_COUNTS, DOCUMENTED

LIMIT = 120.0
"""Seconds after which a command hangs; the commands of a cluster have five times as many."""
CLUSTER_LOST = 9
CLONE_NEWNS = 0x00020000
"""Of the header linux/sched.h: mounts of its own."""


@dataclass(frozen=True)
class Said:
    """How a command ended.

    Attributes:
        code: Exit code; None where it was killed.
        error: Code of the error that it named.
        made: What it said or made, to be compared.
        text: All that it said.
    """

    code: int | None
    error: str
    made: object
    text: str


class Stage:
    """A folder with the inputs of a job, in which its commands are given.

    Attributes:
        root: The folder.
        job: The job.
        workers: Number of threads of each command.
        faults: What went wrong, in words.
        counted: What happened, and how often.
        seconds: How long each undisturbed command took.
        said: What the commands have said.
        shown: By count that stands out, which commands have shown it: a fault, if no published count is that number.
    """

    def __init__(self, root: Path, job: Job, workers: str, faults: list[str], counted: Counter[str]) -> None:
        self.root, self.job, self.workers = root, job, workers
        self.faults, self.counted = faults, counted
        self.seconds: dict[str, float] = {}
        self.said: list[Said] = []
        self.shown: dict[int, list[str]] = defaultdict(list)

    def lay_out(self) -> bool:
        """Write the inputs, and make those that a command makes; whether that could be done."""
        for name, content in self.job.files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        self.root.mkdir(exist_ok=True)
        for command in self.job.before:
            if self.given(command).code:
                self.faults.append(f"{' '.join(command)} ended with {self.said[-1].code}")
                return False
        return True

    def request(self, command: Command, **changes: Any) -> dict:
        """A request to the fork server."""
        request = {
            "arguments": command,
            "cwd": str(self.root),
            "seconds": LIMIT,
            "memory_mib": 8000,
            "temporary": str(self.root),
            "kill_at": None,
        }
        return request | changes

    def given(self, command: Command, *, may_die: bool = False, **changes: Any) -> Said:
        """Give a command, and judge what it says."""
        answer = serve(self.request(command, **changes))
        return self.heard(command, answer, may_die=may_die)

    def heard(self, command: Command, answer: dict, *, may_die: bool) -> Said:
        """Judge what a command has said."""
        text = answer["out"] + answer["err"]
        code, named = answer["code"], re.findall(r"error \[([a-z0-9-]+)\]", text)
        said = Said(code, named[-1] if named else "", None, text)
        self.said.append(said)
        self.counted[f"exit code {code}"] += 1
        with (self.root / "said.txt").open("a") as file:
            file.write(f"$ tallyveil {' '.join(command)}\n{text}\nexit code {code}\n\n")
        where = f"{' '.join(command[:2])}, {code}"
        if code is None and not may_die:
            self.faults.append(f"{where}: it hangs")
        elif code is not None and code not in {*DOCUMENTED, CLUSTER_LOST}:
            self.faults.append(f"{where}: no documented exit code: {text[-600:]}")
        if re.search(r"Traceback|internal error|panicked at|^  File \"", text, re.MULTILINE):
            self.faults.append(f"{where}: a traceback: {text[-900:]}")
        for count in CANARY_COUNTS:
            if re.search(rf"(?<![0-9.]){count}(?![0-9])|{count:,}", text):
                self.shown[count].append(f"{where}: it says the count of a record")
        return said

    def command(self, step: Step, executor: str = "threads") -> Command:
        """The command of a step with the flags that choose where the work is done."""
        flags: Command = ("--workers", self.workers) if step.has_workers else ()
        if step.has_executor:
            flags = (*flags, "--executor", executor)
        return (*step.command, *flags)

    def done(self, step: Step) -> int | None:
        """Give the command of a step, to its end; its exit code."""
        answer = serve(self.request(self.command(step)))
        self.seconds.setdefault(step.out, answer["seconds"])
        return self.heard(step.command, answer, may_die=False).code

    def read(self, command: Command, out: str | None) -> Said:
        """Give a command that reads a folder, without what it made before; what it says and makes."""
        if out is not None and out != "out" and (self.root / out).exists():
            path = self.root / out
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        said = self.given(command)
        made: object = None
        if out is not None and (self.root / out).exists():
            path = self.root / out
            made = contents(path) if path.is_dir() else path.read_bytes()
        elif command[0] in ("account", "intervals"):
            made = said.text
        if isinstance(made, dict):
            made = {name: digest for name, digest in made.items() if not name.endswith("report.html")}
        return Said(said.code, said.error, made, said.text)

    def damage_finished(self, draw: random.Random) -> tuple[str, str]:
        """Damage a file of the finished folder; its path in the folder, and what was done, in words."""
        paths = sorted(path for path in (self.root / "out").rglob("*") if path.is_file())
        path = draw.choice(paths)
        how = damage(path, draw)
        with (self.root / "said.txt").open("a") as file:
            file.write(f"# {path.relative_to(self.root)} {how}\n")
        return path.relative_to(self.root / "out").as_posix(), how


def _undisturbed(stage: Stage, step: Step, draw: random.Random) -> None:
    """Nothing happens."""


def _moment(stage: Stage, step: Step, draw: random.Random) -> float:
    return draw.uniform(0.02, 1.1) * stage.seconds.get(step.out, 1.0)


def _killed(stage: Stage, step: Step, draw: random.Random) -> None:
    """The system ends the process at some moment."""
    stage.given(stage.command(step), may_die=True, seconds=_moment(stage, step, draw))


def _killed_twice(stage: Stage, step: Step, draw: random.Random) -> None:
    """The same, and once more when it goes on."""
    for _ in range(2):
        _killed(stage, step, draw)


def _raced(stage: Stage, step: Step, draw: random.Random) -> None:
    """Two processes give the same command at once; one may be killed."""
    commands = [stage.command(step) for _ in range(2)]
    begun = [begin(stage.request(command)) for command in commands]
    moments = [LIMIT, _moment(stage, step, draw) if draw.random() < 0.5 else LIMIT]
    said = [
        stage.heard(command, one.ended(moment), may_die=moment < LIMIT)
        for command, one, moment in zip(commands, begun, moments, strict=True)
    ]
    for one in said:
        if one.code and LOCKED not in one.text and TAKEN not in one.text:
            stage.faults.append(f"a race ended with {one.code}: {one.text[-600:]}")


def _damaged_unfinished(stage: Stage, step: Step, draw: random.Random) -> None:
    """A killed run goes on after a file of its folder was damaged: it mends that, or refuses until it is restored."""
    _killed(stage, step, draw)
    out, copy = stage.root / step.out, stage.root / "copy"
    paths = sorted(path for path in out.rglob("*") if path.is_file()) if out.exists() else []
    if not paths or not (out / "private").is_dir():
        return
    path = draw.choice(paths)
    has_key, spent = (out / "private" / "run.json").exists(), spends(out)
    shutil.copytree(out, copy)
    how = damage(path, draw)
    code = stage.done(step)
    if code == 0:
        stage.counted["damage mended"] += 1
    else:
        error = stage.said[-1].error
        stage.counted[f"damage of an unfinished run refused: {error}"] += 1
        links = path.parent.name == "private" and how == "made a link"  # never followed, never mended
        is_programme = (out / "private" / "programme.json").exists()
        if not error or (has_key and path.name not in UNMENDABLE and not links and not is_programme):
            stage.faults.append(f"{path.name} {how}, which ended with {code}: {stage.said[-1].text[-600:]}")
        if path.name != "ledger.jsonl" and spends(out) != spent:
            stage.faults.append(f"{path.name} {how}: {spends(out)} spends instead of {spent}")
        shutil.rmtree(out)
        shutil.copytree(copy, out)
    shutil.rmtree(copy)


def mount_alone() -> None:
    """Let only this process and its children see what they mount, so that it vanishes with them, be they killed."""
    if sys.platform == "linux" and ctypes.CDLL(None).unshare(CLONE_NEWNS) == 0:
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)


def _disk_full(stage: Stage, step: Step, draw: random.Random) -> None:
    """The folder is on a small disk, until there is more room. Only who may mount disks can try this."""
    out = stage.root / step.out
    out.mkdir()
    size = draw.choice([8, 64, 160, 300])
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(out)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        stage.counted["no disk could be mounted"] += 1
        out.rmdir()
        return
    try:
        code = stage.done(step)
        stage.counted[f"small disk: {stage.said[-1].error or code}"] += 1
        files = stage.root / "on the disk"
        shutil.copytree(out, files, symlinks=True)
    finally:
        subprocess.run(["umount", str(out)], check=True)
    out.rmdir()
    files.rename(out)


def _file_too_large(stage: Stage, step: Step, draw: random.Random) -> None:
    """No file may have more than some bytes."""
    limit = draw.choice([8000, 20_000, 60_000])  # what the command says goes to a file, too
    said = stage.given((*stage.command(step), "--quiet"), largest_file=limit)
    stage.counted[f"small files: {said.error or said.code}"] += 1


def _ray(stage: Stage, step: Step, draw: random.Random) -> None:
    """Worker processes of a cluster on this machine do the work; at times the command is killed."""
    command = stage.command(step, "ray")
    is_killed = draw.random() < 0.3
    seconds = draw.uniform(1, 15) if is_killed else 5 * LIMIT
    said = stage.given(command, may_die=is_killed, seconds=seconds, memory_mib=None)
    if said.code:
        stage.faults.append(f"on a cluster it ended with {said.code}: {said.text[-600:]}")


DISTURBANCES: dict[str, Callable[[Stage, Step, random.Random], None]] = {
    "none": _undisturbed,
    "killed": _killed,
    "killed twice": _killed_twice,
    "raced": _raced,
    "damaged unfinished": _damaged_unfinished,
    "disk full": _disk_full,
    "file too large": _file_too_large,
    "ray": _ray,
}
