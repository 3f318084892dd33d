"""What a worker process says of an error: the class, message and code of an error of ours, and never a value.

Exceptions do not travel through Ray, which would send their arguments, causes and local state. A worker process answers
with JSON text instead. It is one of:

- {"result": ...};
- {"refused": {"kind", "message", "code"}}: a TallyveilError, which the driver raises again;
- {"machine": {...}}: the same of an OSError, or of a result that could not be written. Another machine may do better;
- {"defect": "..."}: any other exception, as its class and the lines of code that it passed through.
"""

import json
import traceback
from collections.abc import Callable
from typing import Any, Final

from tallyveil import errors
from tallyveil.errors import StoreError, TallyveilError

RESULT: Final = "result"
REFUSED: Final = "refused"
MACHINE: Final = "machine"
DEFECT: Final = "defect"


class WorkerDefectError(RuntimeError):
    """A worker process met an exception that nobody foresaw."""


class UnwrittenError(Exception):
    """A worker process could not write a result.

    Attributes:
        cause: What says why.
    """

    def __init__(self, cause: TallyveilError) -> None:
        super().__init__("a result was not written")
        self.cause = cause


def answer(work: Callable[[], Any]) -> str:
    """What the work returns or raises, as JSON text."""
    try:
        return json.dumps({RESULT: work()})
    # Ours carry no value of a record in their message, so the whole message may travel.
    except TallyveilError as error:
        return json.dumps({REFUSED: _told(error)})
    except UnwrittenError as error:
        return json.dumps({MACHINE: _told(error.cause)})
    except OSError as error:
        # `strerror` names the reason and no path or value; the arguments of an OSError can hold more.
        failed = StoreError(
            f"a worker process could not read or write a file: {type(error).__name__}, {error.strerror}.",
            code="write-failed",
        )
        return json.dumps({MACHINE: _told(failed)})
    except BaseException as error:
        # An interrupt or an exit ends the process, as it should; Ray reports that it died.
        if not isinstance(error, Exception):
            raise
        return json.dumps({DEFECT: _lines(error)})


def result_of(text: str) -> Any:
    """What an answer holds.

    Raises:
        TallyveilError: the one that the worker process met.
        UnwrittenError: the worker's machine failed, and another may do better.
        WorkerDefectError: the worker process met another exception.
    """
    told = json.loads(text)
    if RESULT in told:
        return told[RESULT]
    if REFUSED in told:
        raise _rebuilt(told[REFUSED])
    if MACHINE in told:
        raise UnwrittenError(_rebuilt(told[MACHINE]))
    raise WorkerDefectError(told[DEFECT])


def _told(error: TallyveilError) -> dict[str, str]:
    # A subclass that is not of `errors` is told as its nearest class there, which the driver can make again.
    known = next(kind for kind in type(error).__mro__ if getattr(errors, kind.__name__, None) is kind)
    return {"kind": known.__name__, "message": str(error), "code": error.code}


def _rebuilt(told: dict[str, str]) -> TallyveilError:
    kind: type[TallyveilError] = getattr(errors, told["kind"])
    return kind(told["message"], code=told["code"])


def _lines(error: Exception) -> str:
    """The class of an exception, and the lines of code that it passed through; no message and no value."""
    # The traceback alone: source lines are those of the code, while messages and locals could quote a value.
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f"  {frame.filename}:{frame.lineno} in {frame.name}" for frame in frames]
    return "\n".join(
        [
            f"a worker process met {type(error).__name__}; its words may quote a value and are withheld:",
            *lines,
        ]
    )
