"""Which executor a command, a release file and a number of workers ask for."""

import json

import pytest

from tallyveil.api import clusters
from tallyveil.api.arguments import checked
from tallyveil.cli.frame.arguments import cluster_of
from tallyveil.errors import ConfigError
from tallyveil.runs.cluster.executor import Cluster
from tallyveil.runs.executor import ClusterSettings, Threads
from tallyveil.runs.executors import executors_of
from tallyveil.runs.observer import SilentObserver
from tallyveil.runs.timings import Timings

PLANNED = ClusterSettings("planned:1", open_allowed=True)


def settings(where, planned=None, workers=None, out=None):
    made = executors_of(where, planned, workers, out)
    return made.settings if isinstance(made, Cluster) else made


@pytest.mark.parametrize(("text", "wanted"), [(None, None), ("threads", "threads"), ("ray", "ray")])
def test_words_of_the_flag(text, wanted):
    assert cluster_of(text) == wanted


def test_the_flag_names_a_cluster():
    assert cluster_of("ray=10.0.0.1:6379") == ClusterSettings("10.0.0.1:6379")


@pytest.mark.parametrize(
    "text", ["", "ray=", "ray=nonsense", "ray:1", "spark", "Ray", "ray=a:1=b", "ray=\x1b:1"]
)
def test_other_flags_are_refused(text):
    with pytest.raises(ConfigError, match="--executor is ") as caught:
        cluster_of(text)
    assert caught.value.code == "bad-flag"
    assert "\x1b" not in str(caught.value)


def test_the_command_is_stronger_than_the_release_file():
    assert settings(None, None, 3) == Threads(3)
    assert settings(None, PLANNED) == PLANNED
    assert settings("threads", PLANNED, 2) == Threads(2)
    assert settings("ray", PLANNED) == PLANNED
    assert settings("ray") == ClusterSettings()
    assert settings(ClusterSettings("given:1"), PLANNED) == ClusterSettings("given:1")
    assert settings("ray", PLANNED, 5) == ClusterSettings("planned:1", 5, open_allowed=True)


def test_timings_tell_of_every_chunk(tmp_path):
    timings = Timings(tmp_path / "timings.jsonl")
    for observer in (None, SilentObserver(), timings):
        executors = executors_of("ray", None, None, observer)
        assert isinstance(executors, Cluster)
        executors.told({"event": "chunk begun", "number": 4, "host": "a"})
    (line,) = map(json.loads, (tmp_path / "timings.jsonl").read_text().splitlines())
    assert (line["event"], line["number"], line["host"]) == ("chunk begun", 4, "a")


@checked
def where_of(cluster: clusters.Cluster) -> clusters.Cluster:
    return cluster


@pytest.mark.parametrize("cluster", ["cluster", 3, {"address": "a"}, True])
def test_another_cluster_is_refused(cluster):
    with pytest.raises(ConfigError, match="wanted a ClusterSettings"):
        where_of(cluster)
