"""A Ray cluster as the executor of a run."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tallyveil.runs.cluster import site as cluster_site
from tallyveil.runs.cluster.executor import RayExecutor
from tallyveil.runs.cluster.site import ClusterSettings
from tallyveil.runs.executor import Chunks, Executor, Site
from tallyveil.storage.json_files import JsonObject

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Cluster:
    """Makes the executor of a run on a cluster. See `Executors`."""

    settings: ClusterSettings
    told: Callable[[JsonObject], None]

    @contextmanager
    def begin(self, folder: Path) -> Iterator[Executor]:
        """As `Executors.begin`."""
        served = Served(self, folder)
        try:
            yield served
        finally:
            served.leave()


class Served:
    """The executor of one run."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster, self._folder = cluster, folder
        self._ray: RayExecutor | None = None

    @property
    def is_remote(self) -> bool:
        """As `Executor.is_remote`."""
        return True

    def serve(self, site: Site) -> None:
        """As `Executor.serve`."""
        chunks = self._folder / "chunks"
        chunks.mkdir(mode=0o700, parents=True, exist_ok=True)
        told = cluster_site.Site(site.opener, site.description, site.secret, chunks)
        self._ray = RayExecutor(self._cluster.settings, told, self._cluster.told).__enter__()

    def share(self, name: str, write: Callable[[Path], None]) -> None:
        """As `Executor.share`."""
        folder = self._folder / "shared"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write(folder / name)

    def completed(self, chunks: Chunks[Result], numbers: Sequence[int]) -> Iterator[tuple[int, Result]]:
        """As `Executor.completed`."""
        if self._ray is None:
            raise ValueError("the cluster was not told of the run")
        return self._ray.completed(chunks, numbers)

    def leave(self) -> None:
        """Leave the cluster."""
        if self._ray is not None:
            self._ray.__exit__()
