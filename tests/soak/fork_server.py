"""Run the command line many times from one process that has already imported it.

Starting Python and importing the package takes seconds; forking takes milliseconds. The server imports everything
once and starts no thread, and so it may fork. It reads one request a line from standard input, as JSON:

    {"arguments": [...], "cwd": "...", "seconds": 10, "memory_mib": 6000, "temporary": "...", "kill_at": null}

and answers with one line: {"code": exit code or minus the signal, "seconds": ..., "out": ..., "err": ...}. A command
that outlives its limit is killed with its whole process group, and its code is null. With "kill_at" the command kills
itself (SIGKILL) where a function is called: ["tallyveil.runs.folder RunFolder seal", 1] is the method's first call.
With "memory_mib": null there is no limit of memory. With "largest_file" no file can have more bytes.

`ForkServer` starts a server and asks it. `prepare`, `begin` and `forked` are for scripts that fork work of their own.
"""

import contextlib
import importlib
import json
import os
import pkgutil
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import IO

sys.path.append(str(Path(__file__).parents[2]))

from tests.commands import end_with_parent

import tallyveil

LONGEST_OUTPUT = 4_000_000
LARGEST_FILE = 1 << 30


class ForkServer:
    """A server in a process of its own, and the way to ask it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            raise RuntimeError("the fork server did not start")

    def run(
        self,
        arguments: tuple[str, ...],
        cwd: Path,
        seconds: float,
        *,
        memory_mib: int = 6000,
        kill_at: tuple[str, int] | None = None,
    ) -> dict:
        """Run one command; how it ended and what it said."""
        request = {
            "arguments": arguments,
            "cwd": str(cwd),
            "seconds": seconds,
            "memory_mib": memory_mib,
            "temporary": str(cwd),
            "kill_at": kill_at,
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """End the server."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def prepare() -> None:
    """Import everything and load what is compiled, so that no forked process has to."""
    for module in pkgutil.walk_packages(tallyveil.__path__, "tallyveil."):
        importlib.import_module(module.name)
    from tallyveil.postprocess.warm_up import compile_kernels, compile_tables

    compile_kernels()
    compile_tables()


def forked(work: Callable[[], int], out: int, err: int) -> int:
    """Do some work in a process of its own, whose words go to two open files; returns the number of the process.

    Args:
        work: Returns the exit code. What it raises is written as a traceback, and the exit code is then 1.
        out, err: File descriptors.
    """
    process = os.fork()
    if process:
        return process
    end_with_parent()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    code = 1
    try:
        silence = os.open(os.devnull, os.O_RDONLY)
        for number, descriptor in enumerate((silence, out, err)):
            os.dup2(descriptor, number)
        code = work()
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(code)


def main() -> None:
    """Import everything, say so, then serve requests until standard input ends."""
    prepare()
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    answer.write("ready\n")
    answer.flush()
    for line in sys.stdin:
        answer.write(json.dumps(serve(json.loads(line))) + "\n")
        answer.flush()


@dataclass
class Begun:
    """A command in a process of its own, and the files that take what it says."""

    child: int
    out: IO[bytes]
    err: IO[bytes]
    moment: float

    def ended(self, seconds: float) -> dict:
        """What it said and how it ended, at the latest so many seconds after it began."""
        with self.out, self.err:
            code = _wait(self.child, self.moment + seconds)
            took = time.monotonic() - self.moment
            said = {}
            for name, file in (("out", self.out), ("err", self.err)):
                file.seek(0)
                said[name] = file.read(LONGEST_OUTPUT).decode("utf-8", "backslashreplace")
        return {"code": code, "seconds": took, **said}


def begin(request: dict) -> Begun:
    """Start the command of a request in a child."""
    out, err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 - closed when the command has ended
    moment = time.monotonic()
    return Begun(forked(lambda: _command(request), out.fileno(), err.fileno()), out, err, moment)


def serve(request: dict) -> dict:
    """Run one request in a child; what it said and how it ended."""
    return begin(request).ended(request["seconds"])


def _wait(child: int, end: float) -> int | None:
    """The child's exit code, minus its signal, or None where it had to be killed at the end of its time."""
    done = status = 0
    try:
        while not done and time.monotonic() < end:
            time.sleep(0.005)
            done, status = os.waitpid(child, os.WNOHANG)
    finally:  # also where somebody stops the soak
        if not done:
            os.kill(child, signal.SIGKILL)  # it may not have a group of its own yet
            os.waitpid(child, 0)
        with contextlib.suppress(ProcessLookupError):  # whatever it started ends with it
            os.killpg(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(status) if done else None


def _command(request: dict) -> int:
    """Become the command of a request, and run it as the interpreter would; its exit code."""
    os.setsid()
    if request["memory_mib"] is not None:
        limit = request["memory_mib"] << 20
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    largest = request.get("largest_file", LARGEST_FILE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.chdir(request["cwd"])
    tempfile.tempdir = os.environ["TMPDIR"] = request["temporary"]
    sys.argv = ["tallyveil", *request["arguments"]]
    if request["kill_at"]:
        _kill_at(*request["kill_at"])
    from tallyveil.cli.main import main as command_line

    try:
        command_line()
    except SystemExit as ended:
        if isinstance(ended.code, int):
            return ended.code
        if ended.code is not None:
            sys.stderr.write(f"{ended.code}\n")
        return int(ended.code is not None)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


def _kill_at(where: str, number: int) -> None:
    """Let this process kill itself at the n-th call of a function: its module, its class if it has one, its name."""
    module, *owner, name = where.split(" ")
    place = importlib.import_module(module)
    for attribute in owner:
        place = getattr(place, attribute)
    original, numbers = getattr(place, name), count(1)

    def killing(*arguments: object, **named: object) -> object:
        if next(numbers) == number:  # several threads call it: no number is taken twice
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments, **named)

    setattr(place, name, killing)


if __name__ == "__main__":
    main()
