"""Compiled code on disk never stops a command and is never another kernel's."""

import errno
import importlib
import os
import sys
import time
from pathlib import Path
from typing import Any, cast

import numba
import pytest

from tallyveil.errors import StoreError
from tallyveil.kernels import code_files, compiled
from tallyveil.kernels.code_files import CodeFiles, CodeFolder, kept_bytes, remove_kept
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


@pytest.mark.parametrize(
    "left",
    [b"", b"\0" * 100, None, b"I12x\n.", b"cno_module\nname\n."],
    ids=["empty", "zeros", "cut", "number", "module"],
)
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


@pytest.mark.parametrize("home", ["read-only", "unknown"])
def test_without_a_folder_that_can_be_written_a_kernel_works_and_it_is_said_once(
    home, tmp_path, monkeypatch, caplog
):
    """A home folder can be read-only, and a user in a container can be unknown to the machine."""

    def no_home():
        raise RuntimeError("Could not determine home directory.")

    blocked = tmp_path / "a file"
    blocked.write_text("no folder can be below a file, for an administrator neither")
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(Path, "home", no_home if home == "unknown" else lambda: blocked)
    code_files._say_not_kept.cache_clear()

    @njit(cache=True)
    def first(number):
        return number + 1

    @njit(cache=True)
    def second(number):
        return number + 2

    assert (first(1), second(1)) == (2, 3)
    assert not on_disk(first)
    (said,) = caplog.messages
    assert "every command compiles it again. Set NUMBA_CACHE_DIR" in said
    monkeypatch.setattr(compiled, "kernel_of_this_test", first, raising=False)
    with pytest.raises(StoreError, match="did not keep all"):
        require_kept()


def test_code_is_read_where_it_cannot_be_written(files, monkeypatch):
    """An image of a machine is warmed up once, and read-only afterwards."""
    files.save("first", "one")
    monkeypatch.setattr(files, "_open_for_write", full_disk)
    files.save("second", "two")
    assert (files.load("first"), files.load("second")) == ("one", None)


def test_no_code_is_kept_beside_the_package(tmp_path, monkeypatch):
    """`pip uninstall` removes what pip has installed, and would leave anything else in the package's folders."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    package = tmp_path / "site-packages" / "installed_package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        "from tallyveil.kernels.compiled import njit\n\n@njit(cache=True)\ndef kernel(number):\n    return number + 1\n"
    )
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert importlib.import_module("installed_package").kernel(1) == 2
    assert [path.name for path in package.rglob("*")] == ["__init__.py"]
    assert list((tmp_path / "cache" / "tallyveil" / "kernels").rglob("*.nbc"))


def kernel_of(sources: str):
    """The files of a kernel with code of these sources."""
    kept = CodeFiles(CodeFolder(kernel_of, sources), "kernel")
    kept.save("key", sources)
    return kept


def test_installations_side_by_side_keep_their_code_until_it_is_a_month_old(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    one, two = kernel_of("sources of version 1"), kernel_of("sources of version 2")
    assert (one.load("key"), two.load("key")) == ("sources of version 1", "sources of version 2")
    monkeypatch.setattr(numba, "__version__", "99")
    kernel_of("sources of version 1")
    assert one.load("key") == "sources of version 1"  # for another numba it is in another folder
    old = time.time() - (code_files.DAYS_KEPT + 1) * 24 * 60 * 60
    os.utime(one._cache_path, (old, old))
    kernel_of("sources of version 3")
    assert (one.load("key"), two.load("key")) == (None, "sources of version 2")


def test_kept_code_is_removed_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    assert remove_kept() == 0
    kept = kernel_of("sources")
    (tmp_path / "numba's").write_text("code of another package")
    size = kept_bytes()
    assert remove_kept() == size > 0
    assert [path.name for path in tmp_path.iterdir()] == ["numba's"]
    assert kept.load("key") is None


def test_what_cannot_be_removed_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    kernel_of("sources")

    def refused(folder):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("shutil.rmtree", refused)
    with pytest.raises(StoreError, match=f"{tmp_path}.* cannot be removed .Permission denied") as said:
        remove_kept()
    assert said.value.code == "kernels-not-removed"
