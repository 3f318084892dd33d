"""A run for tests of clusters: worker processes import this module, and do harmless or harmful chunks."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tallyveil.errors import ConstraintError, StoreError
from tallyveil.runs.executor import Chunks
from tallyveil.storage.write import write_text

OPENER = "tests.cluster_site:open_site"


@dataclass(frozen=True)
class FakeSite:
    """A run whose chunks are squares; what else happens is named by the address."""

    description: dict[str, Any]
    secret: bytes

    def chunks(self, address: dict[str, Any]) -> Chunks[str]:
        return Chunks(address, lambda number: self.square(address, number), self.write(address), read)

    def square(self, address: dict[str, Any], number: int) -> str:
        time.sleep(address.get("seconds", 0))
        wanted = address.get("at", {}).get(str(number))
        marker = Path(self.description["folder"], f"did-{number}-{os.getpid()}")
        if self.description.get("mark"):
            marker.touch()
        if wanted == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if wanted == "refuse":
            raise ConstraintError("the square is too large.", code="bounds-broken")
        if wanted == "defect":
            raise KeyError(self.secret)
        if wanted == "unread":
            raise PermissionError(13, "Permission denied")
        return str(number * number * len(self.secret))

    def write(self, address: dict[str, Any]) -> Any:
        def failing(number: int, result: str, path: Path) -> None:
            raise StoreError("the disk is full.", code="disk-full")

        return failing if address.get("full") else lambda number, result, path: write_text(path, result)


def read(path: Path) -> str:
    return path.read_text()


def open_site(description: dict[str, Any], secret: bytes) -> FakeSite:
    if description.get("refuse"):
        raise ConstraintError("no run is here.", code="bounds-broken")
    return FakeSite(description, secret)
