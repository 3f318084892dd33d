"""A worker process: what it says of itself, what it does out of turn, and what it answers to a chunk."""

import hashlib
import json
import os
import platform
import socket
from importlib.metadata import PackageNotFoundError

import numba
import numpy as np
import polars as pl
import pytest
from tests.cluster_site import OPENER
from tests.unit.runs.cluster.conftest import FILES_KEY, SECRET, TOKEN

import tallyveil
from tallyveil.errors import ClusterError
from tallyveil.runs.cluster import worker as module
from tallyveil.runs.cluster.channel import DriverEnd
from tallyveil.runs.cluster.chunk_files import ChunkFiles
from tallyveil.runs.cluster.failures import result_of
from tallyveil.runs.cluster.worker import COMPARED, ClusterWorker, this_installation

VERSIONS = {
    "Tallyveil": tallyveil.__version__,
    "Python": platform.python_version(),
    "numpy": np.__version__,
    "numba": numba.__version__,
    "polars": pl.__version__,
}
THREADS = dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "POLARS_MAX_THREADS"), "7")


@pytest.fixture
def worker(monkeypatch):
    monkeypatch.setattr(os, "environ", dict(os.environ, RAY_AUTH_TOKEN=TOKEN.decode(), **THREADS))
    return ClusterWorker()


@pytest.fixture
def opened(worker, tmp_path):
    """A worker process that has opened a run, and the driver's view of its files."""
    said = result_of(worker.hello(str(tmp_path / "nonce"), 0))
    driver, folder = DriverEnd(TOKEN), tmp_path / "chunks"
    sealed = driver.sealed(said["public"], result_of(worker.confirm(driver.public)), FILES_KEY + SECRET)
    answer = worker.open(driver.public, sealed, OPENER, str(folder), json.dumps({"folder": str(tmp_path)}))
    assert result_of(answer) is None
    return worker, ChunkFiles(folder, FILES_KEY)


def test_it_computes_in_one_thread_whatever_its_machine_says(worker):
    assert {name: os.environ[name] for name in THREADS} == dict.fromkeys(THREADS, "1")


def test_it_says_what_is_installed_and_what_it_sees(worker, tmp_path):
    nonce = tmp_path / "nonce"
    seen = []
    for content in (b"0123abcd", "é".encode(), None):
        if content is None:
            nonce.unlink()
        else:
            nonce.write_bytes(content)
        said = result_of(worker.hello(str(nonce), 0))
        seen.append(said.pop("nonce"))
        del said["public"]
        assert said == {**VERSIONS, "host": socket.gethostname(), "pid": os.getpid()}
    assert seen == ["0123abcd", "", ""]


def test_a_package_that_is_missing_has_no_version(monkeypatch):
    def version(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(module, "version", version)
    assert this_installation() == VERSIONS | dict.fromkeys(COMPARED, "")


def test_in_an_open_cluster_no_token_is_read(worker, tmp_path):
    """A token that cannot be read is no hindrance where none is wanted."""
    os.environ.update(RAY_AUTH_TOKEN="", RAY_AUTH_TOKEN_PATH=str(tmp_path / "absent"))
    driver = DriverEnd(None)
    said = result_of(worker.hello(str(tmp_path / "nonce"), 1))
    driver.require_confirmed(said["public"], result_of(worker.confirm(driver.public)))
    with pytest.raises(ClusterError, match="cannot be read"):
        result_of(worker.hello(str(tmp_path / "nonce"), 0))


OUT_OF_TURN = {
    "confirm": lambda worker: worker.confirm(DriverEnd(TOKEN).public),
    "open": lambda worker: worker.open(DriverEnd(TOKEN).public, "", OPENER, "", "{}"),
    "do": lambda worker: worker.do("{}", 1),
}


@pytest.mark.parametrize("method", OUT_OF_TURN)
def test_what_comes_out_of_turn_is_refused(worker, method):
    with pytest.raises(ClusterError, match="a worker process was") as caught:
        result_of(OUT_OF_TURN[method](worker))
    assert caught.value.code == "cluster-token"


def test_a_chunk_is_kept_and_its_digest_and_seconds_are_said(opened, monkeypatch):
    worker, files = opened
    clock = iter([10.0, 10.12345678])
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    said = result_of(worker.do('{"level": 3}', 5))
    data = str(5 * 5 * len(SECRET)).encode()
    assert said == {"sha256": hashlib.sha256(data).hexdigest(), "seconds": 0.123457}
    assert files.finished({"level": 3}, 5).read_bytes() == data
    assert files.finished({"level": 4}, 5) is None
