"""Compiled code on disk never stops a command and is never another kernel's."""

import errno
from typing import Any, cast

import numba
import pytest

from tallyveil.errors import StoreError
from tallyveil.kernels import compiled
from tallyveil.kernels.code_files import CodeFiles
from tallyveil.kernels.compiled import njit, on_disk, require_kept


@pytest.fixture
def files(tmp_path, monkeypatch) -> CodeFiles:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    @njit(cache=True)
    def kernel(number):
        return number + 1

    return cast(Any, kernel)._cache._cache_file


def test_code_is_found_again(files):
    files.save("first", "one")
    files.save("second", "two")
    assert (files.load("first"), files.load("second"), files.load("third"), files.codes()) == (
        "one",
        "two",
        None,
        2,
    )


def test_the_code_of_another_process_under_the_same_number_is_not_taken(files):
    files.save("first", "one")
    name = files._load_index()["first"]
    files._save_index({"second": name})  # as a process does that had read an empty index
    assert files.load("second") is None
    assert files.load("first") is None


@pytest.mark.parametrize("left", [b"", b"\0" * 100, None], ids=["empty", "zeros", "cut"])
@pytest.mark.parametrize("ending", ["nbi", "nbc"])
def test_a_damaged_file_is_as_if_it_was_not_there(files, tmp_path, left, ending):
    files.save("first", "one")
    (path,) = tmp_path.rglob(f"*.{ending}")
    path.write_bytes(path.read_bytes()[:-9] if left is None else left)
    assert files.load("first") is None
    files.save("first", "two")
    assert files.load("first") == "two"


def test_a_full_disk_loses_the_code_and_nothing_else(files, monkeypatch):
    def full(name, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "_save_data", full)
    files.save("first", "one")
    assert (files.load("first"), files.codes()) == (None, 0)


def test_a_kernel_works_and_is_known_not_to_be_kept_if_the_disk_is_full(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    @njit(cache=True)
    def kernel(number):
        return number + 1

    monkeypatch.setattr(cast(Any, kernel)._cache._cache_file, "_open_for_write", full_disk)
    assert kernel(1) == 2
    assert not on_disk(kernel)
    monkeypatch.setattr(compiled, "kernel_of_this_test", kernel, raising=False)
    with pytest.raises(
        StoreError, match=f"the folder {tmp_path}.* did not keep all.* NUMBA_CACHE_DIR"
    ) as refused:
        require_kept()
    assert refused.value.code == "kernels-not-kept"


def full_disk(path):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_where_no_folder_can_be_written_the_message_says_which_to_name(monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", "/proc/none")
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/proc/none")
    monkeypatch.setattr(numba.core.caching.CacheImpl, "_locator_classes", [])
    with pytest.raises(
        StoreError, match="NUMBA_CACHE_DIR is /proc/none, which cannot be written to"
    ) as refused:
        njit(cache=True)(lambda number: number)
    assert refused.value.code == "kernels-not-kept"
