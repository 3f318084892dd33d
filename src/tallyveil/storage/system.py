"""What differs between Linux, macOS and Windows. Only this module asks which system it runs on; a test holds this.

Locks are those of the operating system. They are on an open file, and the system gives them back when the process
ends, however it ends. Two processes on one machine never hold the same lock. On a network file system this holds
between two machines only if the file system passes locks on, as NFS 4 and SMB do in their usual settings. A file
system without locks is refused.

Windows differs in four points:

- No folder can be opened. So the names of a folder cannot be flushed to the disk, and files of a private folder are
  opened by their path, which is looked at just before.
- No open file can be removed. So a lock is given back before its file is removed. A process that takes the lock in
  between keeps the file.
- Files have no owner and mode that Python could check. A private folder is closed to other users by Python 3.12.4 or
  later (and by 3.11.10), which make it with mode 0700. Earlier versions leave it with the rights of the folder above.
- A lock also keeps others from reading the first byte of the file.
"""

import errno
import os
import stat
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from tallyveil.errors import StoreError

WINDOWS: Final = os.name == "nt"
WINDOWS_PATH_LIMIT: Final = 259
"""Characters of a path that every Windows takes; some can be told to take more."""
# Bytes in a MiB.
_MIB: Final = 1 << 20
# How often a lock is tried whose file was removed in the meantime. Each time another process has just finished, so that
# 100 in a row do not happen; a number at all keeps a broken file system from holding this process.
_ATTEMPTS: Final = 100


def lock(descriptor: int, path: Path) -> bool:
    """Lock an open file, without waiting.

    Args:
        descriptor: Of the file, open for reading and writing. The lock ends when it is closed.
        path: Where the file is, for the message.
    Returns:
        Whether this process has the lock now. If not, somebody else has it.
    Raises:
        StoreError: the file system has no locks.
    """
    from filelock import lock_descriptor

    try:
        return lock_descriptor(descriptor, blocking=False)
    except OSError as error:
        # Other errors are those of the disk or of rights, which the caller reports as such.
        if error.errno not in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP):
            raise
        raise StoreError(
            f"the file system of {path.parent} offers no locks ({os.strerror(error.errno)}), so two processes could "
            "write there at once. Choose a folder on a disk of this machine, or ask who runs the file system to turn "
            "locks on.",
            code="no-locks",
        ) from error


def is_locked(path: Path) -> bool | None:
    """Whether a process has the lock of a file. Nothing is changed, and nobody is kept waiting.

    To find out, this process has the lock itself for some microseconds if nobody else has. Elsewhere than on Windows it
    is then shared, so that two processes that ask do not see each other.

    Returns:
        None where this cannot be told: the file cannot be opened, or the file system has no locks.
    """
    from filelock import lock_descriptor

    try:
        if WINDOWS:
            _refuse_link(path)
        # No link is followed, and no pipe is waited for: the path may be anybody's.
        careful = _flag("O_NOFOLLOW") | _flag("O_NONBLOCK") | _flag("O_BINARY")
        descriptor = os.open(path, careful | (os.O_RDWR if WINDOWS else os.O_RDONLY))
    except FileNotFoundError:
        return False
    except OSError:
        return None
    try:
        if WINDOWS:
            return not lock_descriptor(descriptor, blocking=False)
        import fcntl

        # Shared: two that only ask do not see each other as holders.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return False


def open_for_lock(name: str | Path, *, folder: int | None = None, mode: int = 0o666) -> int:
    """Open a file for reading and writing, and make it if it is not there.

    Args:
        name: Its path, or its name if `folder` is given.
        folder: Descriptor of the folder that the name is in.
        mode: Rights of a new file.
    Raises:
        OSError: it cannot be opened, or is a link or a folder.
    """
    if WINDOWS:
        _refuse_link(Path(name))
    return os.open(
        name, os.O_CREAT | os.O_RDWR | _flag("O_NOFOLLOW") | _flag("O_BINARY"), mode, dir_fd=folder
    )


def open_new(name: str | Path, *, folder: int | None = None, mode: int = 0o666) -> int:
    """Open a new file for writing; arguments as for `open_for_lock`.

    Raises:
        OSError: it cannot be made, or something has its name.
    """
    # O_EXCL: two processes that make the same file cannot both succeed.
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | _flag("O_NOFOLLOW") | _flag("O_BINARY")
    return os.open(name, flags, mode, dir_fd=folder)


def open_to_read(name: str | Path, *, folder: int | None = None) -> int:
    """Open a file for reading; arguments as for `open_for_lock`.

    Raises:
        OSError: it cannot be opened, or is a link.
    """
    if WINDOWS:
        _refuse_link(Path(name))
    # Without waiting: a pipe that nobody writes to would be waited for without end. It is read as an empty file.
    flags = os.O_RDONLY | _flag("O_NOFOLLOW") | _flag("O_BINARY") | _flag("O_NONBLOCK")
    return os.open(name, flags, dir_fd=folder)


def open_folder(path: Path) -> int | None:
    """Open a folder, so that nothing put in its place later is taken for it.

    Returns:
        Its descriptor; None on Windows, where it is only looked at.
    Raises:
        OSError: the path cannot be opened, or is a link (ELOOP) or no folder (ENOTDIR).
    """
    if not WINDOWS:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    _refuse_link(path)
    if not stat.S_ISDIR(path.lstat().st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    return None


def take_lock(path: Path) -> int | None:
    """Lock a file, and make it if it is not there. The process that holds the lock removes the file when it finishes.

    Returns:
        Its descriptor, for `remove_locked`; None if somebody else has the lock.
    Raises:
        OSError: the file cannot be opened, or is a link or a folder.
        StoreError: the file system has no locks.
    """
    for _ in range(_ATTEMPTS):
        descriptor = open_for_lock(path)
        try:
            has_lock = lock(descriptor, path)
            # Whoever finishes removes its file. A lock of a file that is no longer at the path locks nothing.
            if has_lock and is_same_file(path, descriptor):
                return descriptor
        # Also for an interrupt: an open descriptor would hold the lock until the process ends.
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        if not has_lock:
            break
    return None


def is_same_file(path: Path, descriptor: int) -> bool:
    """Whether the open file is still the one at the path. Whoever finishes removes the file that others wait for."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def remove_locked(name: str | Path, descriptor: int, *, folder: int | None = None) -> None:
    """Remove a file that this process has locked, and give back the lock. The descriptor is closed in any case.

    Args:
        name: Path of the file, or its name if `folder` is given.
        descriptor: Of the file.
        folder: Descriptor of the folder that the name is in.
    Raises:
        OSError: the file cannot be removed.
    """
    if not WINDOWS:
        try:
            with suppress(FileNotFoundError):
                # Remove first and unlock then: in between, nobody can lock the file and take it for the folder's.
                os.unlink(name, dir_fd=folder)
        finally:
            os.close(descriptor)
        return
    # Windows removes no open file, so that it is closed first; whoever locks it then finds its own at the path.
    os.close(descriptor)
    with suppress(FileNotFoundError, PermissionError):  # Another process that has opened the file removes it.
        Path(name).unlink()


def flush(path: Path) -> None:
    """Force a file's bytes, or a folder's entries, onto the disk. Windows keeps entries safe by itself.
    # A rename is safe only when the entry of the folder is on the disk too.

        Raises:
            OSError: the system reports an error.
    """
    if WINDOWS and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDWR | _flag("O_BINARY") if WINDOWS else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_folder(descriptor: int | None) -> None:
    """Force the entries of a folder that `open_folder` opened onto the disk, where it can be opened."""
    if descriptor is not None:
        os.fsync(descriptor)


def regular_bytes(path: Path) -> bytes:
    """Content of a regular file; raises OSError. To read a device might never end."""
    # A device or pipe named as an input could give bytes for ever.
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return path.read_bytes()


def absent_folders(folder: Path) -> tuple[Path, ...]:
    """A folder and its parents, as far as they are not there; the folder first."""
    return tuple(path for path in (folder, *folder.parents) if not path.exists())


def remove_empty(folders: Iterable[Path]) -> None:
    """Remove folders in this order, up to the first that is not empty or cannot be removed."""
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()


def set_mode(descriptor: int | None, mode: int) -> None:
    """Give an open file or folder exactly these rights, whatever bits the umask took away. Windows has none."""
    if descriptor is not None and not WINDOWS:
        os.fchmod(descriptor, mode)


def has_other_owner(status: os.stat_result) -> bool:
    """Whether a file belongs to another user; False on Windows, which does not say."""
    return not WINDOWS and status.st_uid != os.geteuid()


def is_open_to_others(status: os.stat_result) -> bool:
    """Whether the mode of a file lets other users open it; False on Windows, whose modes do not say."""
    return not WINDOWS and bool(status.st_mode & 0o077)


def longest_names(folder: Path) -> tuple[int, int]:
    """The most bytes that a path, and a name in it, may have in a folder.

    Raises:
        OSError: the system does not say.
    """
    if WINDOWS:
        return WINDOWS_PATH_LIMIT, 255
    return os.pathconf(folder, "PC_PATH_MAX"), os.pathconf(folder, "PC_NAME_MAX")


def user_cache() -> Path:
    """The folder in which the programs of this user keep what they can make again."""
    try:
        home = Path.home()
    except RuntimeError:  # a user whom the machine does not know, as in some containers
        home = Path(os.devnull)  # no folder can be below it, so nothing is kept
    return cache_folder(os.environ, sys.platform, home)


def cache_folder(environment: Mapping[str, str], platform: str, home: Path) -> Path:
    """The cache folder of a user.

    Args:
        environment: Environment variables.
        platform: As `sys.platform`.
        home: The user's home folder.
    """
    if platform == "win32":
        return Path(environment.get("LOCALAPPDATA") or home / "AppData" / "Local")
    if platform == "darwin":
        return home / "Library" / "Caches"
    named = Path(environment.get("XDG_CACHE_HOME", ""))
    return named if named.is_absolute() else home / ".cache"  # as the XDG standard has it


def usable_cores() -> int:
    # Containers and batch systems give a process fewer cores than the machine has.
    """Number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def whole_memory() -> int:
    """Bytes of memory of this machine."""
    import psutil

    return int(psutil.virtual_memory().total)


def limited_memory() -> int | None:
    """Bytes of memory that this process may use under its limit on addresses (`ulimit -v`); None without a limit.

    What a process has mapped and not touched, such as libraries and the stacks of threads, counts towards the limit.
    Only Linux keeps to it.
    """
    if WINDOWS or sys.platform != "linux":
        return None
    import resource

    import psutil

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return None
    # Mapped and not touched memory counts towards the limit, so that it is taken off here.
    used = psutil.Process().memory_info()
    return max(0, limit - int(used.vms - used.rss))


def peak_memory_mib() -> int:
    """Largest resident memory of this process so far, MiB."""
    if WINDOWS:
        import psutil

        return int(psutil.Process().memory_info().peak_wset // _MIB)
    import resource

    # Linux reports KiB, macOS bytes.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak // (_MIB if sys.platform == "darwin" else 1024))


def _flag(name: str) -> int:
    """A flag for opening files, which not every system has."""
    return int(getattr(os, name, 0))


def _refuse_link(path: Path) -> None:
    """Refuse a link, or what Windows has in its place. Raises OSError."""
    is_junction = getattr(os.path, "isjunction", lambda _: False)  # from Python 3.12 on
    if path.is_symlink() or is_junction(path):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def kill_children() -> None:
    """End all processes that this one started, and those that they started."""
    import psutil

    # Children are listed before any is killed: those of a dead parent could not be found from here.
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            child.kill()
