"""Kernels that are not on disk are compiled by several processes."""

import subprocess
from functools import partial

import numpy as np
from numba.extending import is_jitted

from tallyveil.estimation.family import estimate_family
from tallyveil.kernels.family.chunk import COPIED, estimate_chunk
from tallyveil.kernels.tiles import on_threads
from tallyveil.postprocess import warm_up


def test_other_processes_do_their_parts(monkeypatch):
    started = []

    class Noted(subprocess.Popen):
        def __init__(self, *words, **named):
            super().__init__(*words, **named)
            started.append(self)

    warm_up.compile_kernels()
    monkeypatch.setattr(subprocess, "Popen", Noted)
    warm_up.compile_kernels()
    assert not started  # everything is on disk by now
    monkeypatch.setattr(warm_up, "on_disk", lambda kernel: False)
    monkeypatch.setattr(warm_up, "usable_cores", lambda: 1)
    warm_up.compile_kernels()
    assert not started
    monkeypatch.setattr(warm_up, "usable_cores", lambda: 2)
    warm_up.compile_kernels()
    assert [process.returncode for process in started] == [0]


def test_work_that_another_process_has_begun_is_left_to_it(tmp_path, monkeypatch):
    done = []
    monkeypatch.setattr(warm_up, "WORK", tuple(partial(done.append, number) for number in range(3)))
    (tmp_path / "1").mkdir()
    warm_up.compile_share(str(tmp_path), [2, 1, 0])
    warm_up.compile_share(str(tmp_path), [0, 1, 2])
    assert done == [2, 0]


def test_the_chunk_holds_the_same_family():
    ended, _, _, offsets, cells, persons = estimate_chunk(*warm_up.smallest_chunk())
    counts = np.zeros((2, 2), dtype=np.int64)
    counts[np.repeat([0, 1], np.diff(offsets)), cells] = persons
    assert ended[0] > COPIED
    assert np.array_equal(counts, estimate_family(warm_up.smallest_family()).counts)


def test_every_kernel_of_a_large_family_is_compiled_before_the_spend(monkeypatch):
    """Compiling can fail, as on a full disk, and whether a family is large is known after the spend alone."""
    kernels = {
        name: kernel
        for name, kernel in vars(on_threads).items()
        if is_jitted(kernel) and kernel.__module__ == on_threads.__name__
    }
    called = set()

    def noted(name):
        def call(*arguments):
            called.add(name)
            return kernels[name](*arguments)

        return call

    for name in kernels:
        monkeypatch.setattr(on_threads, name, noted(name))
    warm_up.compile_tables()
    assert called == kernels.keys() != set()
