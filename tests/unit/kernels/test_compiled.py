"""Compiled code on disk is used as long as the sources it comes from are the same, and never after that."""

import ast
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numba.core.event import install_recorder
from numba.extending import is_jitted

import tallyveil.kernels
from tallyveil.arrays import FloatRows
from tallyveil.kernels import compiled
from tallyveil.kernels.compiled import (
    all_compiled,
    conforming,
    on_disk,
    pointers,
    signature_of,
    sources_digest,
)
from tallyveil.kernels.family.chunk import estimate_families
from tallyveil.kernels.family.program import Point
from tallyveil.kernels.family.solver import KERNELS, PARTS, hold, solve_held
from tallyveil.kernels.tiles.chunk import KERNELS as TABLES
from tallyveil.kernels.tiles.chunk import solve_families

KERNEL = """
from tallyveil.kernels.compiled import njit
from stale_kernels.called import made, step

@njit(nogil=True, cache=True)
def total(pair):
    return pair.first + step(pair.second)
"""
CALLED = """
from typing import NamedTuple
from tallyveil.kernels.compiled import {decorator}

class {name}(NamedTuple):
    first: int
    second: int

def made():
    return {name}(1, 2)

@{decorator}
def step(number):
    if number > 9:
        raise ValueError("too large")
    return {factor} * number
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch):
    """Writes a package of two modules, imports it as a new process would, and calls its kernel."""
    folder = tmp_path / "stale_kernels"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "kernel.py").write_text(KERNEL)
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path / "codes"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def forget() -> None:
        for name in [name for name in sys.modules if name.startswith("stale_kernels")]:
            del sys.modules[name]
        compiled.sources_digest.cache_clear()
        compiled._source.cache_clear()
        compiled._prepared.cache_clear()
        importlib.invalidate_caches()

    def act(factor: int, name: str = "Pair", decorator: str = "internal") -> tuple[int, bool]:
        """The kernel's answer, and whether its code came from disk."""
        forget()
        (folder / "called.py").write_text(CALLED.format(factor=factor, name=name, decorator=decorator))
        kernel = importlib.import_module("stale_kernels.kernel")
        answer = kernel.total(kernel.made())
        return answer, bool(kernel.total.stats.cache_hits)

    yield act
    forget()


@pytest.mark.parametrize("decorator", ["internal", "inlined"])
def test_code_on_disk_is_bound_to_the_sources_of_what_it_calls(run, decorator):
    assert run(10, decorator=decorator) == (21, False)
    assert run(10, decorator=decorator) == (21, True)
    assert run(20, decorator=decorator) == (41, False)
    assert run(20, name="Renamed", decorator=decorator) == (41, False)
    assert run(20, name="Renamed", decorator=decorator) == (41, True)


def test_what_a_part_of_a_kernel_raises_reaches_python_from_code_on_disk_too(run):
    for from_disk in (False, True):
        assert run(10) == (21, from_disk)
        kernel = sys.modules["stale_kernels.kernel"]
        with pytest.raises(ValueError, match="too large"):
            kernel.total(kernel.made()._replace(second=10))


def test_a_kernel_is_on_disk_once_it_is_compiled(run):
    run(10)
    kernel = sys.modules["stale_kernels.kernel"]
    assert on_disk(kernel.total)
    assert on_disk(kernel.made)  # plain Python: nothing to compile


class Pair(NamedTuple):
    rows: FloatRows
    number: int


def third_of(pair: Pair, number: int) -> int:
    if number % 3:
        raise ValueError("not a multiple of three")
    return number // 3


@pointers
class Thirds(NamedTuple):
    third: Callable[[Pair, int], int]


def ninth_of(pair: Pair, thirds: Thirds) -> int:
    return thirds.third(pair, thirds.third(pair, pair.number))


def test_a_kernel_calls_others_through_pointers(tmp_path, monkeypatch):
    """What the other kernel raises reaches the caller."""
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))
    third, ninth = (compiled.njit(nogil=True, cache=True)(function) for function in (third_of, ninth_of))
    kernels = all_compiled(Thirds(third))
    assert compiled.compiled(ninth)(Pair(np.zeros((1, 1)), 18), kernels) == 2
    with pytest.raises(ValueError, match="not a multiple of three"):
        compiled.compiled(ninth)(Pair(np.zeros((1, 1)), 12), kernels)
    assert compiled.compiled(len) is len


def test_arrays_of_other_numbers_or_that_are_read_only_are_copied():
    numbers = np.arange(4)
    numbers.setflags(write=False)
    point = conforming(Point(np.ones((2, 2)).T, numbers, numbers[::2]))
    assert [array.dtype for array in point] == [np.float64] * 3
    assert all(array.flags.writeable and array.flags.c_contiguous for array in point)
    assert conforming(point).x is point.x


POINTED = [*PARTS[:-1], *PARTS.faces, *KERNELS, estimate_families, hold, solve_held]
OF_TABLES = [*TABLES[:3], *TABLES.parts.methods, TABLES.parts.climb, TABLES.round_up, solve_families]


@pytest.mark.parametrize("kernel", [kernel for kernel in (*POINTED, *OF_TABLES) if callable(kernel)])
def test_annotations_state_what_a_kernel_gives(kernel):
    """Kernels call it by its address, so what they believe of its types must be true."""
    signature = signature_of(kernel.py_func)
    (stated,) = compiled.compiled(kernel).nopython_signatures
    assert (stated.args, stated.return_type) == (signature.args, signature.return_type)


def modules_of_kernels() -> list[str]:
    found = pkgutil.walk_packages(tallyveil.kernels.__path__, "tallyveil.kernels.")
    return [module.name for module in found if not module.ispkg]


@cache
def imported_by(name: str) -> frozenset[str]:
    """Modules of this package from which a module imports names, as Python reads its lines."""
    tree = ast.parse(inspect.getsource(importlib.import_module(name)))
    whole = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    assert not [one for one in whole if one.startswith("tallyveil")], name
    parts = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert not [node for node in parts if node.level], name
    return frozenset(str(node.module) for node in parts if str(node.module).startswith("tallyveil"))


def sources_of(name: str) -> set[str]:
    """The module, the modules that it imports, and what these import."""
    found: set[str] = set()
    names = {name}
    while names:
        found |= names
        names = set().union(*map(imported_by, names)) - found
    return found


@pytest.mark.parametrize("name", modules_of_kernels())
def test_everything_a_kernel_uses_lies_in_the_modules_it_imports(name, monkeypatch):
    """The digest reads import lines as text. They must be of the one form that it knows."""
    module = importlib.import_module(name)
    read = []
    source = compiled._source

    def noted(one: str) -> compiled._SourceFile:
        read.append(one)
        return source(one)

    monkeypatch.setattr(compiled, "_source", noted)
    sources_digest.cache_clear()
    sources_digest(name)
    assert set(read) == sources_of(name)
    used = {str(getattr(value, "__module__", "")) for value in vars(module).values()}
    used |= {value.py_func.__module__ for value in vars(module).values() if is_jitted(value)}
    assert {one for one in used if one.startswith("tallyveil")} <= set(read)


def test_without_compilation_a_kernel_is_plain_python(monkeypatch):
    monkeypatch.setattr("numba.config.DISABLE_JIT", True)

    def plain() -> int:
        return 1

    assert compiled.njit(nogil=True, cache=True)(plain) is plain


def test_what_only_kernels_call_is_compiled_once_whoever_calls_it():
    @compiled.internal
    def shared(number):
        return number + 1

    @compiled.internal
    def part(number):
        return shared(number)

    @compiled.njit(nogil=True)
    def kernel(number):
        return shared(number) + part(number)

    with install_recorder("numba:compile") as recorder:
        assert kernel(1) == shared(1) + part(1) == 4
    names = [event.data["dispatcher"].py_func.__name__ for _, event in recorder.buffer if event.is_start]
    assert sorted(names) == ["kernel", "part", "shared"]
