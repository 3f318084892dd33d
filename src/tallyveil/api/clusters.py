"""The type of an argument that says which cluster does the work.

It is not in `tallyveil.api.arguments`, because it imports the executors, and only few functions need it.
"""

from typing import Annotated

from pydantic import PlainValidator

from tallyveil.api.arguments import Wanted
from tallyveil.runs.executor import ClusterSettings
from tallyveil.runs.executors import WORDS, Where


def _cluster(cluster: object) -> Where:
    if cluster is None or isinstance(cluster, ClusterSettings):
        return cluster
    for word in WORDS:
        if cluster == word:
            return word
    raise ValueError("no cluster")


Cluster = Annotated[
    Where,
    PlainValidator(_cluster),
    Wanted("a ClusterSettings, 'threads', 'ray', or nothing for what the release file says"),
]
"""Where the work is done: a cluster, or one of the words that `Where` explains."""
