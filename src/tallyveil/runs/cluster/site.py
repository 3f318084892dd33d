"""Which cluster does the work of a run, and what opens the run in a worker process."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, TypeAlias

from tallyveil.errors import ClusterError
from tallyveil.runs.executor import Chunks
from tallyveil.storage.json_files import JsonObject


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Which cluster does the work.

    Attributes:
        address: Of the cluster's head, such as "10.0.0.1:6379". None starts a cluster on this machine, for this run.
        workers: Number of worker processes. None asks for one on each processor of the cluster.
        open_allowed: Whether a cluster is used that demands no token, where everybody who reaches its ports can run
            programs and read what its worker processes hold.
    """

    address: str | None = None
    workers: int | None = None
    open_allowed: bool = False


class Opened(Protocol):
    """A run that a worker process has opened."""

    def chunks(self, address: JsonObject) -> Chunks[Any]:
        """The work of an address; the same as the driver's work of that address."""
        ...


Opener: TypeAlias = Callable[[JsonObject, bytes], Opened]


def opener_of(name: str) -> Opener:
    """The function that a text such as "package.module:function" names.

    Raises:
        ClusterError: there is no such module or function on this machine.
    """
    module, _, function = name.partition(":")
    try:
        found: Opener = getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise ClusterError(
            f"a worker process cannot import '{name}' ({type(error).__name__}). Install the same packages on every "
            "machine of the cluster.",
            code="cluster-version",
        ) from error
    return found
