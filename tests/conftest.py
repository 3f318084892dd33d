"""Shared by all tests: a small population and a release file for it."""

import fcntl
import gc
import itertools
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import settings
from numba.core.dispatcher import Dispatcher

from tallyveil.cli.main import main

settings.register_profile("suite", derandomize=True, deadline=None, max_examples=50)
settings.register_profile("nightly", derandomize=False, deadline=None, print_blob=True, max_examples=100)
# The suite never depends on chance: the same examples in every run. `make test-nightly` draws twice as many anew.
settings.load_profile("suite")

SHARED = Path(__file__).parents[2] / "shared" / "data"

SMALL_RELEASE = """
[release]
name = "small"

[records]
path = "people.parquet"
count = "count"

[geography]
path = "geography.parquet"
geolevels = ["Region", "Town", "Block"]
prefix_lengths = [1, 3, 5]

[schema]
name = "people"
[[schema.attributes]]
name = "age"
levels = ["young", "middle", "old"]
[[schema.attributes]]
name = "home"
levels = ["house", "barracks"]
[[schema.recodes]]
name = "grown"
attribute = "age"
groups = { young = ["young"], grown = ["middle", "old"] }
[[schema.structural_zeros]]
name = "no young in barracks"
cells = { age = ["young"], home = ["barracks"] }

[privacy]
neighbours = "bounded"
mechanism = "discrete_gaussian"
rho = "2"

[strategy]
rho = "2"
[strategy.geolevels]
Region = "1/4"
Town = "1/4"
Block = "1/2"
[strategy.queries."*"]
total = "1/4"
grown = "1/4"
"age*home" = "1/2"

[estimation.passes]
"*" = [["total"], ["*"]]
[estimation.rounding]
"*" = [["total"], ["home", "age*home"]]

[[invariants]]
query = "total"
geolevels = ["Region"]

[[bounds]]
name = "barracks"
query = "home"
geolevel = "Block"
path = "barracks.parquet"
missing = "zero"

[outputs]
tables = ["total", "age", "home"]
"""


def write_small_inputs(folder: Path, release: str = SMALL_RELEASE) -> Path:
    """Write records, geography, bounds and a release file; returns the release file."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(3)
    blocks = [f"{region}{town:02d}{block:02d}" for region in "PQ" for town in range(4) for block in range(6)]
    rows, bounds = [], []
    for position, block in enumerate(blocks):
        if position % 7 != 3:
            bounds.append((block, "house", 0, None))
            rows += [(block, age, "house", int(rng.integers(1, 30))) for age in ("young", "middle", "old")]
        if position % 11 == 5:
            bounds.append((block, "barracks", 1, None))
            rows += [(block, "middle", "barracks", int(rng.integers(3, 60)))]
    pl.DataFrame(rows, schema=["geocode", "age", "home", "count"], orient="row").write_parquet(
        folder / "people.parquet"
    )
    pl.DataFrame({"geocode": blocks}).write_parquet(folder / "geography.parquet")
    pl.DataFrame(
        bounds,
        schema={"geocode": pl.String, "home": pl.String, "lower": pl.Int64, "upper": pl.Int64},
        orient="row",
    ).write_parquet(folder / "barracks.parquet")
    path = folder / "release.toml"
    path.write_text(release)
    return path


def pytest_configure(config: pytest.Config) -> None:
    """Workers take tests from each other in the end. Their libraries, which share the cores, start no threads."""
    if config.getoption("dist", "no") == "load":
        config.option.dist = "worksteal"
    for name in ("POLARS_MAX_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    from tests import samples  # here, since programs import this module from elsewhere

    samples.not_asked_for = {m for m in ("nightly", "soak") if f"not {m}" in config.option.markexpr}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the long tests, so that no worker is left with one when the others have finished."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_collection() -> None:
    """No garbage is looked for among the tests that are being collected, nor among them while they run."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Afterwards garbage is looked for rarely: that took more than half of reading all sources as syntax trees."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    gc.enable()


NUMBERS = itertools.count()
"""Of the folders of tests."""


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of its own. pytest's fixture reads the names of the folders of all earlier tests to number it."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    folder = tmp_path_factory.getbasetemp() / f"{name}{next(NUMBERS)}"
    folder.mkdir()
    return folder


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """Flushing asks for the descriptor alone: no test cuts the power, and a kill loses nothing that was written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)
        yield


class OneAtATime:
    """Locks between the processes of one test run, by name. A thread that holds one takes no further."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._thread = folder, threading.RLock()
        self._is_held = False

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        with self._thread:
            if self._is_held:
                yield
                return
            with (self._folder / f"compiling-{name}").open("a") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                self._is_held = True
                try:
                    yield
                finally:
                    self._is_held = False


@pytest.fixture(scope="session", autouse=True)
def kernels_are_compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The first worker compiles what estimates need, on all cores, while the others wait for it.

    Of further kernels, a worker that needs one waits while another compiles it, and then loads it from disk. What this
    kernel calls is compiled under the same lock: each process compiles that for itself, so nobody waits for it.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        yield
        return
    # Here, since one test alone may need no estimator.
    from tallyveil.postprocess.warm_up import compile_kernels

    lock = OneAtATime(tmp_path_factory.getbasetemp().parent)
    original = Dispatcher.compile

    def compile_alone(self: Dispatcher, signature: Any) -> Any:
        with lock.held(f"{self.py_func.__module__}.{self.py_func.__qualname__}"):
            return original(self, signature)

    with lock.held("estimates"):
        compile_kernels(sweeps=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Dispatcher, "compile", compile_alone)
        yield


@pytest.fixture(scope="session")
def make_small_inputs() -> Callable[..., Path]:
    """Writes the small inputs into a folder: for a release that all tests of a module share."""
    return write_small_inputs


@pytest.fixture
def small_release(tmp_path: Path) -> Path:
    """A release file with all its inputs, in a folder of its own."""
    return write_small_inputs(tmp_path / "inputs")


@pytest.fixture
def edit(small_release: Path) -> Callable[[str, str], Path]:
    """Replace text in the small release file, which must be there."""

    def replace(old: str, new: str) -> Path:
        text = small_release.read_text()
        assert old in text
        small_release.write_text(text.replace(old, new))
        return small_release

    return replace


@pytest.fixture
def plots_are_empty(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Plots of diagnostics and of studies are empty files: drawing takes longer than all else. Returns what draws."""
    from tallyveil.products.lattice.page import diagnostics
    from tallyveil.report.drawing import write_plot
    from tallyveil.storage.write import write_file
    from tallyveil_studies import write

    for module in (diagnostics, write):
        monkeypatch.setattr(module, "write_plot", lambda path, *_: write_file(path, Path.touch))
    return write_plot


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of real public data, absent outside the development tree."""
    if not SHARED.is_dir():
        pytest.skip(f"needs the public data sets in {SHARED}")
    return SHARED


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files behave as on Windows."""
    from tests.windows import behave_like_windows  # here, since programs import this module from elsewhere

    behave_like_windows(monkeypatch)


@pytest.fixture
def command(monkeypatch, capsys):
    """Run the command line; what it prints, or, where it is to end with an exit code above 0, its error."""

    def run(*arguments: object, code: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["tallyveil", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert (ended.value.code or 0) == code, said.err
        return said.err if code else said.out

    return run
