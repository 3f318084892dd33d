"""What does the work: as a command says, else as the release file says, else threads."""

import pytest

from tallyveil.cli.arguments import cluster_of
from tallyveil.errors import ConfigError
from tallyveil.execution.executors import executors_of
from tallyveil.face.given import where_given
from tallyveil.runs.cluster.cluster import Cluster
from tallyveil.runs.cluster.site import ClusterSettings
from tallyveil.runs.executor import Threads
from tallyveil.runs.log import LOG

NAMED = ClusterSettings("10.0.0.1:6379", open_allowed=True)


@pytest.mark.parametrize(
    ("where", "planned", "workers", "wanted"),
    [
        (None, None, 3, Threads(3)),
        ("threads", NAMED, 2, Threads(2)),
        (None, NAMED, None, NAMED),
        ("ray", NAMED, None, NAMED),
        ("ray", None, None, ClusterSettings()),
        ("ray", None, 5, ClusterSettings(workers=5)),
        (ClusterSettings("b:1"), NAMED, 5, ClusterSettings("b:1", workers=5)),
    ],
)
def test_who_does_the_work(tmp_path, where, planned, workers, wanted):
    found = executors_of(where, planned, workers, tmp_path)
    assert (found.settings if isinstance(found, Cluster) else found) == wanted


def test_the_log_of_a_release_tells_of_every_chunk(tmp_path):
    found = executors_of("ray", None, None, tmp_path)
    assert isinstance(found, Cluster)
    found.told({"chunk": "begun", "number": 3, "host": "here"})
    assert '"event": "chunk begun", "number": 3, "host": "here"' in (tmp_path / LOG).read_text()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [(None, None), ("threads", "threads"), ("ray", "ray"), ("ray=a:1", ClusterSettings("a:1"))],
)
def test_what_the_flag_says(text, wanted):
    assert cluster_of(text) == wanted


@pytest.mark.parametrize("text", ["", "Ray", "ray=", "dask", "threads=2", "=a:1", "x" * 500])
def test_another_executor_is_refused(text):
    with pytest.raises(ConfigError, match="wanted threads, ray, or ray with the address") as refused:
        cluster_of(text)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("given", ["cluster", 3, {"address": "a"}, True])
def test_another_cluster_is_refused(given):
    with pytest.raises(ConfigError, match="wanted a ClusterSettings"):
        where_given(given)
