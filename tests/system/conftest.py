"""Shared by the system tests: work that ends at a chosen write or moment, by an exception or by a real kill."""

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.cluster_nodes import Nodes

import tallyveil.storage.write as writing
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.postprocess.warm_up import compile_kernels, compile_sweep
from tallyveil.products.topdown.run.run import run_release


class Killed(BaseException):
    """Stands for the process ending at once."""


@pytest.fixture
def killed_at(monkeypatch) -> Callable[..., bool]:
    """End work at its n-th written file, before the bytes are written or just after; whether it came so far."""

    def act(
        number: int,
        work: Callable[[], Any],
        *,
        before: bool = False,
        modules: tuple[ModuleType, ...] = (writing,),
    ) -> bool:
        # Several threads write files: each takes its number once, and no two take the same.
        original, numbers = writing.write_file, count(1)

        def write_file(path, write):
            at = next(numbers)
            if at == number and before:
                raise Killed
            original(path, write)
            if at == number:
                raise Killed

        with monkeypatch.context() as patch:
            for module in modules:
                patch.setattr(module, "write_file", write_file)
            try:
                work()
            except Killed:
                return True
        return False

    return act


@pytest.fixture(autouse=True)
def no_plot_is_drawn(plots_are_empty: object) -> None:
    """The rooms of the plots test them."""


@pytest.fixture(scope="session")
def small_run_once(make_small_inputs, tmp_path_factory) -> Path:
    """Folder of the finished small release, for copies alone."""
    folder = tmp_path_factory.mktemp("small-run")
    release = make_small_inputs(folder / "inputs")
    return run_release(load_plan(release), folder / "out", test_key=bytes(32), workers=1).path


@pytest.fixture
def small_run(small_run_once, tmp_path) -> Path:
    """Folder of a finished small release, which a test may change."""
    return Path(shutil.copytree(small_run_once, tmp_path / "out"))


@pytest.fixture(scope="session")
def nodes() -> Iterator[Nodes]:
    """A Ray cluster of two nodes, for tests that end no node."""
    with Nodes() as running:
        yield running


@pytest.fixture(scope="session")
def compiled_kernels() -> None:
    """The kernels lie compiled on disk: processes that a test starts need not each compile them."""
    compile_kernels()
    compile_sweep()


@pytest.fixture(scope="session")
def fork_server(compiled_kernels: None) -> Iterator[Any]:
    """Runs the command line in real processes, without the seconds that starting Python takes."""
    path = Path(__file__).parents[1] / "soak" / "fork_server.py"
    spec = importlib.util.spec_from_file_location("fork_server_of_system_tests", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    server = module.ForkServer()
    yield server
    server.close()


@pytest.fixture(scope="session")
def archive(tmp_path_factory) -> Path:
    """The archive for machines without a network."""
    out = tmp_path_factory.mktemp("archive")
    tool = [sys.executable, Path(__file__).parents[2] / "tools" / "bundle", "--out", out]
    subprocess.run(tool, check=True, env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"})
    (archive,) = out.glob("*.tar")
    return archive


@pytest.fixture(scope="session")
def bundle(archive, tmp_path_factory) -> Path:
    """The archive, unpacked outside the project."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
    return folder / archive.stem
