"""Run the command line many times from one process that has already imported it.

Starting Python and importing the package takes seconds; forking takes milliseconds. The server imports everything
once and starts no thread, and so it may fork. It reads one request a line from standard input, as JSON:

    {"arguments": [...], "cwd": "...", "seconds": 10, "memory_mib": 6000, "temporary": "..."}

and answers with one line: {"code": exit code or minus the signal, "seconds": ..., "out": ..., "err": ...}. A command
that outlives its limit is killed with its whole process group, and its code is null.
"""

import contextlib
import importlib
import json
import os
import pkgutil
import resource
import signal
import sys
import tempfile
import time
import traceback

import tallyveil

LONGEST_OUTPUT = 4_000_000
LARGEST_FILE = 1 << 30


def main() -> None:
    """Import everything, say so, then serve requests until standard input ends."""
    for module in pkgutil.walk_packages(tallyveil.__path__, "tallyveil."):
        importlib.import_module(module.name)
    from tallyveil.postprocess.warm_up import compile_kernels

    compile_kernels()
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    answer.write("ready\n")
    answer.flush()
    for line in sys.stdin:
        answer.write(json.dumps(serve(json.loads(line))) + "\n")
        answer.flush()


def serve(request: dict) -> dict:
    """Run one request in a child; what it said and how it ended."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = time.monotonic()
        child = os.fork()
        if child == 0:
            _child(request, out.fileno(), err.fileno())
        code = _wait(child, started + request["seconds"])
        seconds = time.monotonic() - started
        said = {}
        for name, file in (("out", out), ("err", err)):
            file.seek(0)
            said[name] = file.read(LONGEST_OUTPUT).decode("utf-8", "backslashreplace")
    return {"code": code, "seconds": seconds, **said}


def _wait(child: int, end: float) -> int | None:
    """The child's exit code, minus its signal, or None where it had to be killed at the end of its time."""
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            with contextlib.suppress(ProcessLookupError):  # whatever it started ends with it
                os.killpg(child, signal.SIGKILL)
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _child(request: dict, out: int, err: int) -> None:
    """Become the command; never returns."""
    code = 1
    try:
        os.setsid()
        silence = os.open(os.devnull, os.O_RDONLY)
        for number, descriptor in enumerate((silence, out, err)):
            os.dup2(descriptor, number)
        limit = request["memory_mib"] << 20
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.chdir(request["cwd"])
        tempfile.tempdir = os.environ["TMPDIR"] = request["temporary"]
        sys.argv = ["tallyveil", *request["arguments"]]
        code = _command()
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(code)


def _command() -> int:
    """Run the command line as the interpreter would; its exit code."""
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


if __name__ == "__main__":
    main()
