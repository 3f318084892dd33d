"""Kernels from disk work by themselves and in kernels that are compiled later."""

import subprocess
import sys
from pathlib import Path

KERNELS = """
from tallyveil.kernels.compiled import internal, njit

@internal
def twice(number):
    return 2 * number

@njit(cache=True)
def more(number):
    return twice(number) + 1
"""
USED = """
import sys
sys.path.insert(0, {folder!r})
from numba.core import codegen
read = []
parse = codegen.ll.parse_bitcode
codegen.ll.parse_bitcode = lambda code: (read.append(len(code)), parse(code))[1]
import numba
from kernels_of_this_test import more
found = more(20)
by_itself = max(read, default=0)

@numba.njit
def again(number):
    return more(more(number))

print(found, again(20), sum(more.stats.cache_hits.values()), max(read, default=0) > by_itself)
"""


def test_code_is_linked_when_it_is_needed(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "codes"))
    (tmp_path / "kernels_of_this_test.py").write_text(KERNELS)
    assert use(tmp_path) == "41 83 0 False"  # compiled in this process
    assert use(tmp_path) == "41 83 1 True"  # taken from disk, and linked into another kernel


def use(folder: Path) -> str:
    """Use the kernel in a process of its own."""
    command = [sys.executable, "-c", USED.format(folder=str(folder))]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
