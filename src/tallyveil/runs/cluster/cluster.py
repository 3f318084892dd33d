"""A Ray cluster as the maker of a run's executor."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from tallyveil.runs.cluster.executor import RayExecutor
from tallyveil.runs.cluster.site import ClusterSettings
from tallyveil.runs.executor import Executor
from tallyveil.storage.json_files import JsonObject


@dataclass(frozen=True, slots=True)
class Cluster:
    """Makes the executor of a run on a cluster. See `Executors`.

    Attributes:
        settings: Which cluster.
        told: Is told of what happens, for the log. See `RayExecutor`.
    """

    settings: ClusterSettings
    told: Callable[[JsonObject], None]

    def begin(self, folder: Path) -> AbstractContextManager[Executor]:
        """As `Executors.begin`: one worker process has shown that it can be used. It has no secret yet."""
        return RayExecutor(self.settings, folder, self.told)
