"""What does the chunks of a run's work: threads of this machine, or worker processes of a cluster."""

from dataclasses import replace
from typing import Final, Literal, TypeAlias

from tallyveil.runs.executor import ClusterSettings, Executors, Threads
from tallyveil.runs.observer import Observer
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.system import usable_cores

Word: TypeAlias = Literal["threads", "ray"]
WORDS: Final[tuple[Word, ...]] = ("threads", "ray")

Where: TypeAlias = ClusterSettings | Word | None
"""Which cluster does the work. "threads": threads of this machine, whatever a release file says. "ray": the cluster
that the release file names, or else one of this machine alone. None: what the release file says."""


def executors_of(
    where: Where, planned: ClusterSettings | None, workers: int | None, observer: Observer | None
) -> Executors:
    """What a command asks for.

    Args:
        where: What the command says.
        planned: What the release file says; None for threads.
        workers: Number of threads, or of worker processes; None for one for each core.
        observer: Is told of every chunk that a cluster does, if it keeps timings.
    """
    cluster = planned if where is None else where
    # The word alone, without a cluster in the release file starts one on this machine alone.
    if cluster == "ray":
        cluster = planned or ClusterSettings()
    if not isinstance(cluster, ClusterSettings):
        return Threads(workers or usable_cores())
    # Ray's modules, and those that write its timings, are loaded only by a run that uses a cluster.
    from tallyveil.runs.cluster.executor import Cluster
    from tallyveil.runs.timings import Timings

    def told(event: JsonObject) -> None:
        if isinstance(observer, Timings):
            observer.note(**event)

    return Cluster(cluster if workers is None else replace(cluster, workers=workers), told)
