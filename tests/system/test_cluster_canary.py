"""What nobody but a run and its worker processes may know: its keys and the true counts of a private run on a cluster.

The run is a protected one. While it estimates the finest geolevel, and at its end, its keys and the counts of a block
that stand out are looked for in every place that others could read, and in the memory of Ray's own processes.
"""

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import polars as pl
import psutil
import pytest
from tests.cluster_nodes import Nodes
from tests.found_secrets import counts_as_found, files_with, keys_as_found, processes_with

import tallyveil
from tallyveil.products.topdown.run import on_worker
from tallyveil.runs.executor import Site
from tallyveil.runs.observer import SilentObserver

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra cluster"),
    pytest.mark.skipif(sys.platform != "linux", reason="other systems have no second address of their own"),
]

BLOCK = "P0102"
COUNTS = (754_310_977, 833_771_923, 987_313_751)
"""True counts of the block's three cells. Noise hides them: their standard deviation is some hundreds."""


@pytest.fixture
def release(small_release):
    """A release with a block whose counts stand out, much noise, and no exact count."""
    path = small_release.parent / "people.parquet"
    frame = pl.read_parquet(path).filter(pl.col("geocode") != BLOCK)
    ages = ["young", "middle", "old"]
    rows = [(BLOCK, age, "house", count) for age, count in zip(ages, COUNTS, strict=True)]
    pl.concat([frame, pl.DataFrame(rows, schema=frame.schema, orient="row")]).write_parquet(path)
    text = small_release.read_text().replace('rho = "2"', 'rho = "1/10000"')
    start, stop = text.index("[[invariants]]"), text.index("[[bounds]]")
    small_release.write_text(f"{text[:start]}{text[stop:]}microdata = false\n")
    return small_release


class Looks(SilentObserver):
    """Looks for secrets in the midst of the work, and keeps what it found."""

    def __init__(self, nodes: Nodes, out: Path, sites: list[Site]) -> None:
        self._nodes, self._out, self._sites = nodes, out, sites
        self.found: list[Any] = []
        self.looked = 0

    def advanced(self, amount: int) -> None:
        """One look, when the first chunks of the finest geolevel are done."""
        if not self.looked and (self._out / "histogram" / "Town.parquet").exists():
            self.look()

    def look(self) -> None:
        """Look for every key and for the counts."""
        (site,) = self._sites
        key_file = self._out / "private" / "run.json"
        run_key = bytes.fromhex(json.loads(key_file.read_text())["key"])
        needles = counts_as_found(COUNTS)
        for key in (run_key, site.files_key, site.secret[:32], site.secret[32:]):
            needles += keys_as_found(key)
        folders = (self._nodes.temporary, self._out, "/dev/shm", *Path("/tmp").glob("tv-*"))
        self.found += files_with(needles, *folders, without=[key_file])
        self.found += processes_with(needles, self._of_ray())
        assert files_with(keys_as_found(run_key), self._out) == [key_file]
        who_knows = [psutil.Process(), *filter(does_chunks, self._of_nodes())]
        assert len(who_knows) > 1
        for one in who_knows:
            assert processes_with(needles, [one]) == [" ".join(one.cmdline())]
        self.looked += 1

    def _of_nodes(self) -> list[psutil.Process]:
        return [one for number in (0, 1) for one in self._nodes.processes(number)]

    def _of_ray(self) -> list[psutil.Process]:
        """The relay, and all processes of the nodes but those that do chunks."""
        relays = [
            one
            for one in psutil.Process().children()
            if one.cmdline()[-1:] == ["tallyveil.runs.cluster.relay"]
        ]
        assert relays
        return relays + [one for one in self._of_nodes() if not does_chunks(one)]


def does_chunks(process: psutil.Process) -> bool:
    return "ClusterWorker" in " ".join(process.cmdline())


def test_keys_and_true_counts_are_found_nowhere(release, tmp_path, monkeypatch, capfd):
    sites: list[Site] = []
    made = on_worker.measuring_site

    def kept(*arguments: Any) -> Site:
        sites.append(made(*arguments))
        return sites[-1]

    monkeypatch.setattr("tallyveil.products.topdown.run.run.measuring_site", kept)
    out = tmp_path / "out"
    with Nodes() as nodes:
        for name, text in nodes.environment.items():
            monkeypatch.setenv(name, text)
        looks = Looks(nodes, out, sites)
        finished = tallyveil.run(
            release, out, cluster=tallyveil.ClusterSettings(nodes.address), observer=looks
        )
        assert looks.looked == 1
        needles = counts_as_found(COUNTS) + keys_as_found(sites[0].secret[:32])
        looks.found += files_with(needles, nodes.temporary, out, "/dev/shm")
    assert looks.found == []
    said = capfd.readouterr()
    assert not any(needle in (said.out + said.err).encode() for needle in needles)
    assert finished.path == out
    assert not (out / "private").exists()
    planted = tmp_path / "planted"
    for needle in needles:
        planted.write_bytes(b"before" + needle + b"after")
        assert files_with(needles, tmp_path) == [planted]
