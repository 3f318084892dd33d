"""The entry point of the `tallyveil` command. It handles Ctrl-C from the start, before anything else is imported.

Python turns Ctrl-C into an exception of the main thread. This exception waits while compiled code runs, and the parser
of the command line would report it as an abort. So a separate thread waits for the signal. It prints one sentence at
once and gives the main thread one second to stop its work. Then the process ends. This is safe at any moment, because
every output file is always either complete or absent.

It also settles how often Python looks for unused objects that refer to each other. Everything else is freed at once, by
counting references. A release makes next to no such objects, but its imports make hundreds of thousands of objects
that stay, and each search goes through many of them.
"""

import gc
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from types import FrameType, TracebackType

INTERRUPTED = 130
"""Exit code of a command that was interrupted: 128 plus the number of the signal."""
SECONDS_TO_LEAVE = 1.0
"""Seconds for the main thread to end by itself. Half may cut a last step short; twice keeps a stuck process waiting."""
OBJECTS_BETWEEN_SEARCHES = 1_000_000
"""New containers, such as lists, after which Python searches the new ones for such unused objects. A small release
makes 850,000, of which 1,900 are such. With half as many, each command searches what its imports made, for 0.1 s; with
twice as many, the unused ones of a command that made many could take some hundred MB."""
RESUMED = (
    ("run",),
    ("measure",),
    ("estimate",),
    ("demo",),
    ("safetab", "run"),
    ("safetab", "households"),
    ("subspace", "release"),
    ("measurements", "import"),
    ("copy",),
)
"""Commands that go on with what they find in their folder."""


class Interrupted(BaseException):
    """Ctrl-C, as an exception that the parser of the command line does not catch."""


def main() -> None:
    """Run the command line. Ctrl-C ends it with one sentence and exit code 130."""
    gc.set_threshold(OBJECTS_BETWEEN_SEARCHES)
    pressed, said = threading.Event(), threading.Event()

    def leave(number: int, frame: FrameType | None) -> None:
        # An interrupted import can raise other errors, and compiled code calls the hook for them. Print nothing then.
        # Where it is raised in what Python calls by itself, such as a callback of a reference, Python prints it there.
        sys.excepthook, sys.unraisablehook = _silent, _pass_over
        # The flag before the exception, which other code may swallow.
        pressed.set()
        raise Interrupted

    try:
        # A handler runs only between two steps of Python. The byte in this pipe is seen at once, by the thread below.
        reader, writer = os.pipe()
        if hasattr(os, "set_blocking"):  # Python 3.11 lacks it on Windows, which does not ask for it
            os.set_blocking(writer, False)
        signal.signal(signal.SIGINT, leave)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        # The thread gets a copy of descriptor 2, because descriptor 2 leads nowhere while a command runs. Thus no
        # library can quote a record there.
        threading.Thread(target=_answer, args=(reader, _standard_error(), said), daemon=True).start()
        # Before pydantic is imported: looking for its plugins takes 20 ms, and a plugin could read what users give.
        os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"
        from tallyveil.cli.main import main as command_line

        command_line()
    finally:
        gc.freeze()  # the system takes all memory back, so Python need not search it when the process ends
        # Other code may have turned the interruption into another exception. The exit code is set in any case.
        if pressed.is_set():
            said.wait(SECONDS_TO_LEAVE)
            sys.exit(INTERRUPTED)


def _standard_error() -> int:
    """A copy of the descriptor of standard error; -1 if standard error is closed."""
    try:
        return os.dup(2)
    except OSError:
        return -1


def _silent(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    """Print nothing about an error."""


def _pass_over(unraisable: object) -> None:
    """Print nothing about an error that Python cannot raise."""


def _answer(reader: int, error: int, said: threading.Event) -> None:
    """Wait for Ctrl-C, print what it means for the command, and end the process if the main thread does not."""
    # Other signals write their numbers into the pipe, too.
    while os.read(reader, 1) != bytes([signal.SIGINT]):
        pass
    with suppress(OSError):  # standard error may be closed, or its reader may be gone
        os.write(error, f"\n{sentence(sys.argv[1:])}\n".encode())
    said.set()
    # Compiled code may not return to Python for long, and the process is then ended from here.
    time.sleep(SECONDS_TO_LEAVE)
    os._exit(INTERRUPTED)


def sentence(arguments: list[str]) -> str:
    """The sentence that says what an interruption means for the command in these arguments."""
    words = tuple(word for word in arguments[:2] if not word.startswith("-"))
    if any(words[: len(command)] == command for command in RESUMED):
        return "interrupted; the same command goes on where this one ended, and spends nothing twice."
    return "interrupted; the same command starts again from the beginning."
