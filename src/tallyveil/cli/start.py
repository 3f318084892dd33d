"""Where the `tallyveil` command begins: from here on it answers Ctrl-C, before anything else is imported.

Python turns Ctrl-C into an exception of the main thread. This exception has to wait while compiled code runs, and the
parser of the command line would report it as an abort. So a separate thread waits for the signal here. It prints one
sentence at once, and gives the main thread a second to stop its work. Then the process ends. This is safe at any
moment, because every file is complete or absent at any moment.
"""

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from types import FrameType, TracebackType

INTERRUPTED = 130
"""Exit code of a command that was interrupted: 128 and the number of the signal."""
SECONDS_TO_LEAVE = 1.0
RESUMED = (
    ("run",),
    ("measure",),
    ("estimate",),
    ("demo",),
    ("safetab", "run"),
    ("safetab", "households"),
    ("subspace", "release"),
)
"""Commands that go on with what they find in their folder."""


class Interrupted(BaseException):
    """Ctrl-C, as an exception that the parser of the command line does not handle."""


def main() -> None:
    """Run the command line; Ctrl-C ends it with one sentence and exit code 130."""
    pressed, told = threading.Event(), threading.Event()

    def leave(number: int, frame: FrameType | None) -> None:
        # An import that is broken off fails in ways of its own, and compiled code then calls the hook itself.
        sys.excepthook = _silent
        pressed.set()
        raise Interrupted

    try:
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.signal(signal.SIGINT, leave)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        # A duplicate: while a command runs, descriptor 2 leads nowhere, so that no library can quote a record there.
        threading.Thread(target=_answer, args=(reader, _standard_error(), told), daemon=True).start()
        from tallyveil.cli.main import main as command_line

        command_line()
    finally:
        # Other code may have turned the interruption into another exception: the exit code says it all the same.
        if pressed.is_set():
            told.wait(SECONDS_TO_LEAVE)
            sys.exit(INTERRUPTED)


def _standard_error() -> int:
    """A descriptor of standard error of our own; -1 where it is closed."""
    try:
        return os.dup(2)
    except OSError:
        return -1


def _silent(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    """Say nothing about an error."""


def _answer(reader: int, error: int, told: threading.Event) -> None:
    """Wait for Ctrl-C, print what it means for the command, and end the process if the main thread does not."""
    while os.read(reader, 1) != bytes([signal.SIGINT]):
        pass
    with suppress(OSError):  # standard error may be closed, or nobody may read it
        os.write(error, f"\n{sentence(sys.argv[1:])}\n".encode())
    told.set()
    time.sleep(SECONDS_TO_LEAVE)
    os._exit(INTERRUPTED)


def sentence(arguments: list[str]) -> str:
    """What an interruption means for the command that these arguments give."""
    words = tuple(word for word in arguments[:2] if not word.startswith("-"))
    if any(words[: len(command)] == command for command in RESUMED):
        return "interrupted; the same command goes on where this one ended, and spends nothing twice."
    return "interrupted; the same command starts again from the beginning."
