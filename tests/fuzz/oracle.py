"""What a reader may do with a file: accept it, or refuse it with a documented error in words of its own."""

import re
import time
import traceback
from pathlib import Path

from runner import CANARY, CANARY_COUNTS, LONGEST_MESSAGE
from targets import Target

from tallyveil.errors import TallyveilError

MOST_SECONDS = 10.0
ERRORS = Path(__file__).parents[2] / "docs" / "errors.md"


def documented_codes() -> frozenset[str]:
    """The codes that docs/errors.md has a section of."""
    return frozenset(re.findall(r"^### `([a-z0-9-]+)`", ERRORS.read_text(), re.MULTILINE))


def fault_of(target: Target, content: bytes, codes: frozenset[str]) -> tuple[str | None, str]:
    """Give a file to a reader; what is wrong with what it does, with the place, or None; and the code of its error."""
    begun, refused = time.process_time(), ""
    try:
        first = target.read(content)
        second = target.read(content)
        fault = None if first == second else "reading twice gives two different things"
    except TallyveilError as error:
        fault, refused = _fault_of_message(error, target, codes), error.code
    except OSError as error:
        # The command line says which path the system refuses, and no more.
        fault, refused = (
            None if isinstance(error.filename, str) and error.errno else _place(error),
            "path-refused",
        )
    except BaseException as error:  # a panic of polars is no Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        fault = _place(error)
    seconds = time.process_time() - begun
    return (f"slow: {seconds:.0f} s" if fault is None and seconds > MOST_SECONDS else fault), refused


def _place(error: BaseException) -> str:
    """Type of an error and the last lines of the library that it went through."""
    frames = [one for one in traceback.extract_tb(error.__traceback__) if "tallyveil" in one.filename]
    where = [f"{Path(one.filename).name}:{one.lineno} {one.name}" for one in frames[-2:]]
    return f"{type(error).__name__} at {' > '.join(where)}: {str(error)[:150]}"


def _fault_of_message(error: TallyveilError, target: Target, codes: frozenset[str]) -> str | None:
    text = str(error)
    if error.code not in codes:
        return f"the code {error.code} is not documented"
    if len(text) > LONGEST_MESSAGE:
        return f"a message that nobody can read, of {error.code}: {len(text):,} characters"
    if target.confidential:
        if CANARY in text:
            return f"the message of {error.code} shows a value of a record"
        if any(re.search(rf"(?<![0-9.]){count}(?![0-9])|{count:,}", text) for count in CANARY_COUNTS):
            return f"the message of {error.code} shows a count of a record"
    return None


def kind_of(fault: str) -> str:
    """The same text for faults of one cause: without what the message quotes."""
    return fault.partition(": ")[0]
