"""Releases that worker processes of a Ray cluster of two nodes make: the files of threads, also through a kill."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.cluster_nodes import Nodes

import tallyveil
from tallyveil.api.beginning import write_country
from tallyveil.runs.observer import SilentObserver

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra cluster"),
    pytest.mark.skipif(sys.platform != "linux", reason="other systems have no second address of their own"),
]

KEY = "on a cluster"
ENOUGH = 12
"""Finished chunks after which the run is killed."""


@pytest.fixture
def cluster(nodes, monkeypatch):
    """Settings of the cluster, which this process can join."""
    for name, text in nodes.environment.items():
        monkeypatch.setenv(name, text)
    return tallyveil.ClusterSettings(nodes.address)


@pytest.fixture(scope="module")
def country(tmp_path_factory):
    """The release file of a country of 200 blocks, with the values of the tree."""
    folder = tmp_path_factory.mktemp("country")
    write_country(folder, blocks=200, people=5000, schema="pl94-persons", seed=3)
    path = folder / "release.toml"
    path.write_text(path.read_text() + '\n[estimation]\nvalues = "tree"\n')
    return path


@pytest.fixture(scope="module")
def by_threads(country, tmp_path_factory):
    return digests(tallyveil.run(country, tmp_path_factory.mktemp("threads") / "out", insecure_test_key=KEY))


def digests(release: Any) -> dict[str, str]:
    """SHA-256 of every file of a release by its path."""
    listed = json.loads((release.path / "manifest.json").read_text())["files"]
    return {one["path"]: one["sha256"] for one in listed}


def chunks(timings: Path, event: str) -> list[tuple[str, int]]:
    """Address and number of every chunk of which the timings tell this."""
    lines = map(json.loads, timings.read_text().splitlines())
    return [
        (json.dumps(line["address"], sort_keys=True), line["number"])
        for line in lines
        if line["event"] == f"chunk {event}"
    ]


def spends(out: Path) -> int:
    return (out / "ledger.jsonl").read_text().count('"kind":"spend"')


@pytest.mark.nightly
def test_the_files_of_threads(country, by_threads, cluster, tmp_path):
    timings = tmp_path / "timings.jsonl"
    observer = tallyveil.Timings(timings)
    made = tallyveil.run(country, tmp_path / "out", cluster=cluster, insecure_test_key=KEY, observer=observer)
    assert digests(made) == by_threads
    begun, finished = chunks(timings, "begun"), chunks(timings, "finished")
    assert sorted(begun) == sorted(finished)
    assert {json.loads(address)["work"] for address, _ in begun} == {
        "measure",
        "sweep",
        "families",
        "microdata",
        "tables",
        "checks",
    }
    assert max(Counter(begun).values()) == 1
    assert spends(made.path) == 1
    assert not (made.path / "private").exists()


@pytest.mark.nightly
def test_a_killed_run_goes_on(country, by_threads, cluster, tmp_path):
    """The same command finishes it, for one spend, and begins no chunk that was finished."""
    out = tmp_path / "out"
    command = [sys.executable, "-m", "tallyveil", "run", str(country), "--out", str(out), "--quiet"]
    command += ["--insecure-test-key", KEY, "--workers", "2", "--executor", f"ray={cluster.address}"]
    timings = tmp_path / "timings.jsonl"
    command += ["--timings", str(timings)]
    driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    while not timings.exists() or len(chunks(timings, "finished")) < ENOUGH:
        assert driver.poll() is None, driver.stdout.read()
        time.sleep(0.02)
    driver.send_signal(signal.SIGSTOP)  # the file does not grow any more
    (relay,) = [one for one in psutil.Process(driver.pid).children() if one.cmdline()[-1].endswith("relay")]
    before = chunks(timings, "finished")
    folder = Path(f"/proc/{relay.pid}/fd/2").readlink().parent
    for pid in (driver.pid, relay.pid):
        os.kill(pid, signal.SIGKILL)
    driver.wait()
    assert folder.exists()
    assert spends(out) == 1
    assert (out / "private" / "run.json").exists()

    n_begun = len(chunks(timings, "begun"))
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stdout + again.stderr
    begun = chunks(timings, "begun")[n_begun:]
    assert begun
    assert not set(begun) & set(before)
    assert not folder.exists()
    finished = tallyveil.open(out)
    assert digests(finished) == by_threads
    assert spends(out) == 1
    assert not (out / "private").exists()


@pytest.mark.soak
def test_intervals_of_a_finished_release(country, by_threads, cluster, tmp_path):
    path = tmp_path / "full.toml"
    kept = [part for part in country.read_text().split("\n\n") if not part.startswith("[outputs]")]
    path.write_text("\n\n".join([*kept, '[outputs]\nmeasurements = "full"\ntables = ["total", "hhgq"]\n']))
    for records in ("records", "geography", "facilities", "entities"):
        if (country.parent / f"{records}.parquet").exists():
            (tmp_path / f"{records}.parquet").symlink_to(country.parent / f"{records}.parquet")
    here = tallyveil.run(path, tmp_path / "here", insecure_test_key=KEY)
    there = tallyveil.open(shutil.copytree(here.path, tmp_path / "there"))
    assert isinstance(there, tallyveil.Release)
    here.add_intervals()
    timings = tmp_path / "timings.jsonl"
    there.add_intervals(cluster=cluster, observer=tallyveil.Timings(timings))
    assert digests(there) == digests(here)
    assert {json.loads(address)["work"] for address, _ in chunks(timings, "finished")} == {"intervals"}


@pytest.mark.soak
def test_a_small_release_with_outer_passes(cluster, tmp_path):
    write_country(tmp_path / "dhc", blocks=8, people=200, schema="dhc", seed=5)
    release = tmp_path / "dhc" / "dhc-units.toml"
    tallyveil.run(tmp_path / "dhc" / "h1.toml", tmp_path / "h1", insecure_test_key=KEY)
    release.write_text(
        release.read_text().replace('theirs = "h1"', f'theirs = "h1"\npath = "{tmp_path / "h1"}"')
    )
    here = tallyveil.run(release, tmp_path / "threads", insecure_test_key=KEY)
    timings = tmp_path / "timings.jsonl"
    there = tallyveil.run(
        release, tmp_path / "out", cluster=cluster, insecure_test_key=KEY, observer=tallyveil.Timings(timings)
    )
    assert digests(there) == digests(here)
    assert "pass" in {json.loads(address)["work"] for address, _ in chunks(timings, "finished")}


OLDER_CPU = {
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
    "NUMBA_CPU_NAME": "generic",
    "NUMBA_CPU_FEATURES": "",
    "OPENBLAS_CORETYPE": "Nehalem",
}
"""What makes numpy, numba and OpenBLAS do without the vector units of newer processors."""


class OlderPids(SilentObserver):
    """Keeps the numbers of the processes of the second node, whose environment asks for the older processor."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self.seen: set[int] = set()

    def advanced(self, amount: int) -> None:
        found = [one for one in self._nodes.processes(1) if "ClusterWorker" in " ".join(one.cmdline())]
        assert all(OLDER_CPU.items() <= one.environ().items() for one in found)
        self.seen |= {one.pid for one in found}


@pytest.mark.soak
def test_processors_of_two_kinds(country, by_threads, monkeypatch, tmp_path):
    """Both nodes do chunks, and the files are those of threads on the newer processor."""
    with Nodes(others=OLDER_CPU) as nodes:
        for name, text in nodes.environment.items():
            monkeypatch.setenv(name, text)
        older, timings = OlderPids(nodes), tmp_path / "timings.jsonl"
        observer = tallyveil.Timings(timings, older)
        cluster = tallyveil.ClusterSettings(nodes.address)
        for name in ("compiles", "out"):  # the first run leaves kernels for the older processor
            made = tallyveil.run(
                country, tmp_path / name, cluster=cluster, insecure_test_key=KEY, observer=observer
            )
            assert digests(made) == by_threads
    lines = map(json.loads, timings.read_text().splitlines())
    finished = [line["pid"] in older.seen for line in lines if line["event"] == "chunk finished"]
    assert set(finished) == {True, False}
