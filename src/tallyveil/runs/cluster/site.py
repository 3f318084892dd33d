"""Which cluster does the work of a run, and what opens the run in a worker process."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Final, TypeAlias

from tallyveil.errors import ClusterError, ConfigError
from tallyveil.exact import as_given
from tallyveil.runs.executor import Workplace
from tallyveil.storage.json_files import JsonObject

WANTED_ADDRESS: Final = "the address of the cluster's head with its port, such as 10.0.0.1:6379"
_ADDRESS: Final = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})")


def is_address(text: str) -> bool:
    """Whether a text names a machine and a port of it."""
    match = _ADDRESS.fullmatch(text)
    # A port is 16 bits; port 0 means "any", and nobody listens there.
    return match is not None and 1 <= int(match[1]) <= 65535


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Which cluster does the work.

    Attributes:
        address: Of the cluster's head, such as "10.0.0.1:6379". None starts a cluster on this machine, for this run.
        workers: Number of worker processes. None asks for one on each processor of the cluster.
        open_allowed: Whether a cluster is used that demands no token, where everybody who reaches its ports can run
            programs and read what its worker processes hold.

    Raises:
        ConfigError: the address names no machine and port, or the number of worker processes is no positive integer.
    """

    address: str | None = None
    workers: int | None = None
    open_allowed: bool = False

    def __post_init__(self) -> None:
        if self.address is not None and not (isinstance(self.address, str) and is_address(self.address)):
            raise ConfigError(
                f"the address of a cluster is {as_given(self.address)}, wanted {WANTED_ADDRESS}. Leave it out for a "
                "cluster of this machine alone.",
                code="bad-argument",
            )
        if self.workers is not None and not (type(self.workers) is int and self.workers >= 1):
            raise ConfigError(
                f"the number of worker processes is {as_given(self.workers)}, wanted 1 or more, or nothing for one on "
                "each processor of the cluster.",
                code="bad-argument",
            )


Opener: TypeAlias = Callable[[JsonObject, bytes], Workplace]


def opener_of(name: str) -> Opener:
    """The function that a text such as "package.module:function" names.

    Raises:
        ClusterError: there is no such module or function on this machine.
    """
    module, _, function = name.partition(":")
    try:
        # By name, since functions that were pickled would bring code and state of the driver with them.
        opener: Opener = getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise ClusterError(
            f"a worker process cannot import '{name}' ({type(error).__name__}). Install the same packages on every "
            "machine of the cluster.",
            code="cluster-version",
        ) from error
    return opener
