"""Compiled code on disk never stops a command, and lies where the user wants it."""

import errno
import importlib
import os
import pickle
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numba
import numpy as np
import pytest
from tests.samples import few

from tallyveil.errors import StoreError
from tallyveil.kernels import compiled
from tallyveil.kernels.compiled import (
    bytes_on_disk,
    kernels_folder,
    njit,
    on_disk,
    remove_code,
    require_kept,
)

KERNEL = """
from tallyveil.kernels.compiled import njit

@njit(cache=True)
def kernel(number):
    return number + 1
"""


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """Imports a kernel in a new module, as a new process would."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "kernel_on_disk.py").write_text(KERNEL)
    monkeypatch.syspath_prepend(tmp_path / "package")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "codes"))

    def act():
        sys.modules.pop("kernel_on_disk", None)
        for remembered in (compiled._prepared, compiled._say_not_kept):
            remembered.cache_clear()
        importlib.invalidate_caches()
        return importlib.import_module("kernel_on_disk").kernel

    yield act
    sys.modules.pop("kernel_on_disk", None)


def answered(kernel) -> tuple[int, bool]:
    """The kernel's answer, and whether its code came from disk."""
    return kernel(1), bool(kernel.stats.cache_hits)


def test_code_is_taken_from_disk(kernel, tmp_path):
    assert answered(kernel()) == (2, False)
    again = kernel()
    assert on_disk(again)
    assert answered(again) == (2, True)
    assert bytes_on_disk() > 0
    assert kernels_folder() == tmp_path / "codes" / "tallyveil" / "kernels"


def test_code_of_another_installation_with_the_same_sources_is_not_looked_at(kernel, tmp_path):
    answered(kernel())
    kernel()  # seals it
    (index,) = tmp_path.rglob("*.nbi")
    other = index.parent.rename(index.parent.with_name("elsewhere")) / index.name
    flip(other)
    damaged = other.read_bytes()
    again = kernel()
    assert not on_disk(again)
    assert answered(again) == (2, False)
    assert other.read_bytes() == damaged


def flip(path: Path) -> None:
    """Change a bit in the middle of a file. Its time stays, as that of a file on a failing disk does."""
    data, before = path.read_bytes(), path.stat()
    middle = len(data) // 2
    path.write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


DAMAGE = {
    "empty": lambda data: b"",
    "zeros": lambda data: bytes(100),
    "cut": lambda data: data[:-9],
    "cut after a full stop": lambda data: data[: data.index(b".") + 1],
    "other bytes that end in a full stop": lambda data: b"nothing that numba wrote.",
}


@pytest.fixture(params=["nbi", "nbc"])
def ending(request):
    """The ending of an index, and of compiled code."""
    return request.param


@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "unsealed"])
@pytest.mark.parametrize("damage", few(3, (pytest.param(harm, id=name) for name, harm in DAMAGE.items())))
def test_a_damaged_file_is_as_if_it_was_not_there(kernel, tmp_path, ending, damage, sealed):
    """A process that is killed leaves files without a seal."""
    answered(kernel())
    kernel()
    (path,) = tmp_path.rglob(f"*.{ending}")
    path.write_bytes(damage(path.read_bytes()))
    if not sealed:
        path.with_name(path.name + compiled.SEAL).unlink()
    assert answered(kernel()) == (2, False)
    assert answered(kernel()) == (2, True)


def test_a_changed_byte_in_the_code_never_runs(kernel, tmp_path, ending):
    answered(kernel())
    kernel()
    (path,) = tmp_path.rglob(f"*.{ending}")
    flip(path)
    assert answered(kernel()) == (2, False)
    assert answered(kernel()) == (2, True)


def test_a_folder_or_a_lost_link_in_the_place_of_code_is_removed(kernel, tmp_path, ending):
    answered(kernel())
    for put in (lambda path: (path / "within").mkdir(parents=True), lambda path: path.symlink_to("nowhere")):
        (path,) = tmp_path.rglob(f"*.{ending}")
        path.unlink()
        put(path)
        assert answered(kernel()) == (2, False)
        assert answered(kernel()) == (2, True)


def test_code_is_sealed_when_the_process_ends(kernel, tmp_path):
    """The seal is not only that of the next process, which would take a damaged file as it is."""
    act = "import sys; sys.path.insert(0, sys.argv[1]); from kernel_on_disk import kernel; print(kernel(1))"
    place = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "codes")}
    ended = subprocess.run([sys.executable, "-c", act, tmp_path / "package"], env=place, check=True)
    assert ended.returncode == 0
    (path,) = tmp_path.rglob("*.nbc")
    flip(path)
    assert answered(kernel()) == (2, False)


def no_space(**_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_without_room_a_kernel_works_and_it_is_said_once(kernel, monkeypatch, caplog):
    monkeypatch.setattr(compiled, "TemporaryFile", no_space)
    loaded = kernel()
    assert answered(loaded) == (2, False)
    assert not on_disk(loaded)
    njit(cache=True)(loaded.py_func)
    (said,) = caplog.messages
    assert "every command compiles it again. Set NUMBA_CACHE_DIR" in said


def test_a_home_that_is_unknown_stops_no_kernel(kernel, monkeypatch, tmp_path):
    """A user in a container can be unknown to the machine, and a home folder can be a file."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    (tmp_path / "a file").write_text("no folder can be below a file, for an administrator neither")
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "a file")
    assert answered(kernel()) == (2, False)


def test_code_is_read_where_it_cannot_be_written(kernel, monkeypatch):
    """An image of a machine is warmed up once, and read-only afterwards."""
    answered(kernel())
    monkeypatch.setattr(compiled, "TemporaryFile", no_space)
    assert answered(kernel()) == (2, True)


def test_damaged_code_is_not_read_where_it_cannot_be_written(kernel, tmp_path, monkeypatch, ending):
    answered(kernel())
    kernel()
    (path,) = tmp_path.rglob(f"*.{ending}")
    flip(path)
    monkeypatch.setattr(compiled, "TemporaryFile", no_space)
    assert answered(kernel()) == (2, False)


def test_a_copy_of_a_read_only_folder_can_be_written_to(kernel, tmp_path, monkeypatch):
    answered(kernel())
    monkeypatch.setattr(compiled, "TemporaryFile", no_space)
    folders = [path for path in tmp_path.rglob("*") if path.is_dir() and "codes" in path.parts]
    for folder in folders:
        folder.chmod(0o555)
    try:
        assert answered(kernel()) == (2, True)
        used = compiled.code_folder("kernel_on_disk")
        assert used is not None
        assert not used.is_relative_to(tmp_path)
        assert all(folder.stat().st_mode & 0o200 for folder in used.rglob("*") if folder.is_dir())
    finally:
        for folder in folders:
            folder.chmod(0o755)


def test_what_is_not_kept_is_refused(kernel, monkeypatch, tmp_path):
    monkeypatch.setattr(compiled, "TemporaryFile", no_space)
    kernel()
    monkeypatch.setattr(compiled, "__package__", "kernel_on_disk"[:-5])
    monkeypatch.setitem(sys.modules, "kernel_on.disk", sys.modules["kernel_on_disk"])
    with pytest.raises(StoreError, match=f"{tmp_path}.* did not keep all.* NUMBA_CACHE_DIR") as refused:
        require_kept()
    assert refused.value.code == "kernels-not-kept"


def test_no_code_is_kept_beside_the_package(kernel, tmp_path, monkeypatch):
    """`pip uninstall` removes what pip has installed, and would leave anything else in the package's folders."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert answered(kernel()) == (2, False)
    assert [path.name for path in (tmp_path / "package").iterdir()] == ["kernel_on_disk.py"]
    assert list((tmp_path / "cache" / "tallyveil" / "kernels").rglob("*.nbc"))
    assert numba.config.CACHE_DIR == ""  # type: ignore[attr-defined]  # other packages keep their code where they did


def test_code_of_other_sources_stays_until_it_is_a_month_old(kernel, tmp_path):
    answered(kernel())
    source = tmp_path / "package" / "kernel_on_disk.py"
    for days, left in ((compiled.DAYS_KEPT - 1, 2), (compiled.DAYS_KEPT + 1, 1)):
        source.write_text(source.read_text() + "\n")
        for caches in (compiled.sources_digest, compiled._source):
            caches.cache_clear()
        old = time.time() - days * 24 * 60 * 60
        for folder in (kernels_folder() / "kernel_on_disk").iterdir():
            os.utime(folder, (old, old))
        assert answered(kernel()) == (2, False)
        assert len(list((kernels_folder() / "kernel_on_disk").iterdir())) == left


def test_kept_code_is_removed_and_nothing_else(kernel, tmp_path):
    assert remove_code() == 0
    loaded = kernel()
    loaded(1)
    (tmp_path / "codes" / "numba's").write_text("code of another package")
    size = bytes_on_disk()
    assert remove_code() == size > 0
    assert [path.name for path in (tmp_path / "codes").iterdir()] == ["numba's"]
    assert loaded(1.5) == 2.5  # a running command compiles what it still needs


def test_what_cannot_be_removed_is_named(kernel, tmp_path, monkeypatch):
    answered(kernel())

    def refused(folder):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("shutil.rmtree", refused)
    with pytest.raises(StoreError, match=f"{tmp_path}.* cannot be removed .Permission denied") as said:
        remove_code()
    assert said.value.code == "kernels-not-removed"


def test_a_seal_that_was_not_written_to_its_end_removes_no_code(kernel, monkeypatch):
    """The disk is full, or the process is killed."""
    answered(kernel())
    written = Path.write_text

    def half(path, text):
        written(path, text[:30])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", half)
    kernel()
    monkeypatch.setattr(Path, "write_text", written)
    assert answered(kernel()) == (2, True)


@pytest.mark.parametrize("later", [1, -1], ids=["later", "earlier"])
def test_code_that_is_replaced_while_it_is_sealed_is_no_damaged_code(kernel, tmp_path, monkeypatch, later):
    """numba replaces an index for each new type; which process began to write its index first says nothing."""
    answered(kernel())
    (path,) = tmp_path.rglob("*.nbi")
    read, other = Path.read_bytes, pickle.dumps("another index")

    def replaced(one):
        data = read(one)
        if one == path:
            when = path.stat().st_mtime_ns + later * 10**9
            path.write_bytes(other)
            os.utime(path, ns=(when, when))
        return data

    monkeypatch.setattr(Path, "read_bytes", replaced)
    compiled.seal(path.parent)
    monkeypatch.setattr(Path, "read_bytes", read)
    compiled._remove_damaged(path.parent)
    assert path.read_bytes() == other


def test_code_that_is_replaced_while_it_is_looked_at_is_no_damaged_code(kernel, tmp_path, monkeypatch):
    answered(kernel())
    kernel()
    (path,) = tmp_path.rglob("*.nbi")
    fits, other = compiled._fits_seal, pickle.dumps("another index")

    def replaced(one):
        if one == path:
            path.write_bytes(other)
        return fits(one)

    monkeypatch.setattr(compiled, "_fits_seal", replaced)
    compiled._remove_damaged(path.parent)
    assert path.read_bytes() == other


def test_a_seal_is_never_written_through_a_link(kernel, tmp_path):
    answered(kernel())
    for path in tmp_path.rglob("*.nb[ci]"):
        path.with_name(path.name + compiled.SEAL).symlink_to(tmp_path / "elsewhere")
    assert answered(kernel()) == (2, True)
    assert not (tmp_path / "elsewhere").exists()
    assert answered(kernel()) == (2, True)


def test_what_another_process_is_writing_is_not_removed(kernel, tmp_path):
    """It would stop that process: numba gives a file its name when it is whole."""
    answered(kernel())
    kernel()
    (path,) = tmp_path.rglob("*.nbi")
    flip(path)
    unfinished = path.with_name(f"{path.name}.tmp.0123456789abcdef")
    unfinished.write_bytes(b"half")
    assert answered(kernel()) == (2, False)
    assert unfinished.exists()


ANSWERS = """
import sys; sys.path.insert(0, sys.argv[1])
from kernel_on_disk import kernel
print(kernel(1.5), kernel(1), sum(kernel.stats.cache_hits.values()))
"""
# The second process says when it waits, and when it has read the index. It writes nothing until the first has written
# its index, if that is what `read` asks for.
SECOND = """
import sys, time; sys.path.insert(0, sys.argv[1])
from pathlib import Path
from numba.core.caching import IndexDataCacheFile
state, save, sleep = Path(sys.argv[2]), IndexDataCacheFile._save_index, time.sleep
def waits(seconds):
    (state / "second waits").touch()
    sleep(seconds)
def saves(index, codes):
    if "{order}" == "read":
        (state / "second has read").touch()
        while not (state / "first has written").exists():
            sleep(0.01)
    save(index, codes)
time.sleep, IndexDataCacheFile._save_index = waits, saves
from kernel_on_disk import kernel
kernel(1)
(state / "second has ended").touch()
"""
FIRST = """
import os, subprocess, sys, time; sys.path.insert(0, sys.argv[1])
from pathlib import Path
from numba.core.caching import IndexDataCacheFile
state, save = Path(sys.argv[2]), IndexDataCacheFile._save_index
def wait_for(*events):
    while not any((state / f"second {event}").exists() for event in events):
        time.sleep(0.01)
def saves(index, codes):
    subprocess.Popen([sys.executable, "-c", sys.argv[3], *sys.argv[1:3]])
    wait_for("waits", "has read", "has ended")
    save(index, codes)
    (state / "first has written").touch()
    if "{ending}" == "killed":
        os.kill(os.getpid(), 9)
    wait_for("waits", "has ended")
IndexDataCacheFile._save_index = saves
from kernel_on_disk import kernel
kernel(1.5)
"""


@pytest.mark.parametrize(("order", "ending"), few(1, [("wrote", "killed"), ("read", "ended")]))
def test_two_processes_never_give_one_number_to_codes_for_two_types(kernel, tmp_path, order, ending):
    """numba writes an index before the code. With the number of another type's code, it would give a wrong answer."""
    place = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "codes"), "PYTHONDONTWRITEBYTECODE": "1"}
    folders = [str(tmp_path / "package"), str(tmp_path)]
    first, second = FIRST.replace("{ending}", ending), SECOND.replace("{order}", order)
    # Its output ends when both have ended.
    subprocess.run(
        [sys.executable, "-c", first, *folders, second],
        check=False,
        env=place,
        capture_output=True,
        timeout=120,
    )
    asked = [sys.executable, "-c", ANSWERS, folders[0]]
    answers = subprocess.run(asked, env=place, capture_output=True, text=True, check=True, timeout=120).stdout
    hits = {"killed": 1, "ended": 2}[ending]  # the code of who was killed is compiled again
    assert answers.split() == ["2.5", "2", str(hits)]
    assert not list(tmp_path.rglob("*.lock"))


def test_damaged_code_is_not_removed_while_another_process_writes(kernel, tmp_path):
    answered(kernel())
    kernel()
    (path,) = tmp_path.rglob("*.nbi")
    flip(path)
    remover = threading.Thread(target=compiled._remove_damaged, args=(path.parent,))
    with compiled._only_writer(path.parent.parent):
        remover.start()
        remover.join(0.2)
        assert path.exists()
    remover.join()
    assert not list(tmp_path.rglob("*.nb[ci]"))


def test_whoever_waits_long_is_told_for_what(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(compiled, "LONG_WAIT", 0)
    waiter = threading.Thread(target=lambda: compiled._only_writer(tmp_path / "codes").__enter__())
    with compiled._only_writer(tmp_path / "codes"):
        waiter.start()
        waiter.join(0.2)
    waiter.join()
    (said,) = caplog.messages
    assert f"holds {tmp_path / 'codes.lock'}; this one waits" in said


def test_on_a_disk_without_locks_a_kernel_works_and_it_is_said(kernel, monkeypatch, caplog):
    def no_locks(path):
        raise StoreError("the file system offers no locks", code="no-locks")

    monkeypatch.setattr(compiled, "take_lock", no_locks)
    loaded = kernel()
    assert answered(loaded) == (2, False)
    assert not on_disk(loaded)
    (said,) = caplog.messages
    assert "(No locks available), so every command compiles it again" in said


def test_a_kernel_that_cannot_be_compiled_leaves_nothing_locked(kernel, tmp_path):
    loaded = kernel()
    with pytest.raises(numba.TypingError):
        loaded("a text")
    assert not list(tmp_path.rglob("*.lock"))
    assert answered(loaded) == (2, False)


def test_threads_compile_one_kernel_for_several_types(kernel, tmp_path):
    loaded = kernel()
    with ThreadPoolExecutor() as threads:
        assert list(threads.map(loaded, [1, 1.5, 1j, np.float32(1)])) == [2, 2.5, 1 + 1j, 2]
    again = kernel()
    assert [again(1), again(1.5), again(1j)] == [2, 2.5, 1 + 1j]
    assert sum(again.stats.cache_hits.values()) == 3
    assert not list(tmp_path.rglob("*.lock"))
