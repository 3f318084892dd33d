"""The run folder: one process at a time holds it, and only its owner can see what is private in it.

    private/lock              held by the process that runs; removed last
    private/run.json          the key; there from before the spend until the release is sealed
    private/programme.json    in the folder of a programme: the releases begun, and on which inputs
    private/<stage>.json      checkpoints
    private/progress.json     how far the run has come, for `tallyveil status`
    private/cluster/          what worker processes on other machines read and write
    private/sealed-<sha256>   the manifest, whole, before the key is removed; then it becomes manifest.json

The lock is taken on a file that the finishing process removes. A process that gets the lock therefore checks
that the file it holds is still the one in the folder. If it is not, the process tries again.

What a folder holds, as far as a run needs to know, is told without holding it (`folder_state`).
"""

import errno
import hashlib
import os
import shutil
import stat
import time
from contextlib import suppress
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Final

from tallyveil.accounting.ledger.lines import LEDGER
from tallyveil.errors import StoreError
from tallyveil.files.finished import MANIFEST, PRIVATE, PROGRAMME
from tallyveil.storage.addresses import refuse_object
from tallyveil.storage.system import (
    absent_folders,
    flush,
    flush_folder,
    has_other_owner,
    is_open_to_others,
    is_same_file,
    lock,
    open_folder,
    open_for_lock,
    open_new,
    open_to_read,
    remove_empty,
    remove_locked,
    set_mode,
)
from tallyveil.storage.write import TEMPORARY_SUFFIX, store_error

KEY_FILE: Final = "run.json"
LOCK_FILE: Final = "lock"
CLUSTER: Final = "cluster"
SEALED: Final = "sealed-"


class FolderState(Enum):
    """The state of an output folder."""

    ABSENT = "absent or empty"
    STARTED = "a run that can be resumed"
    SEALED = "a release that lacks only its last steps"
    FINISHED = "a finished release"
    KEYLESS = "a run whose key is lost"
    PROGRAMME = "the releases of a programme"
    FOREIGN = "something else"


def folder_state(path: Path) -> FolderState:
    """The state of a folder, which is not changed. Another process may change it unless the caller holds its lock.

    Raises:
        StoreError: the path is a file, or cannot be read.
        ConfigError: the path is the address of an object.
    """
    refuse_object(path)
    try:
        if not path.exists():
            return FolderState.ABSENT
        if not path.is_dir():
            raise StoreError(f"{path} is a file; name a folder for the release.", code="folder-taken")
        names = {entry.name for entry in path.iterdir()}
        private = path / PRIVATE
        inside = (
            {entry.name for entry in private.iterdir()}
            if private.is_dir() and not private.is_symlink()
            else set()
        )
    except OSError as error:
        raise store_error(path / MANIFEST, error) from error
    # The order is that of a run's last steps, the last one first: a finished folder may still hold all the earlier
    # files.
    if MANIFEST in names:
        return FolderState.FINISHED
    # A name that still ends as a temporary one was never complete.
    if any(name.startswith(SEALED) and not name.endswith(TEMPORARY_SUFFIX) for name in inside):
        return FolderState.SEALED
    if KEY_FILE in inside:
        return FolderState.STARTED
    # A ledger alone: something was spent here, and no key can repeat its draws.
    if LEDGER in names:
        return FolderState.KEYLESS
    return _without_a_run(names, inside)


def _without_a_run(names: set[str], inside: set[str]) -> FolderState:
    """The state of a folder with these entries, and these in its private folder, that holds no run itself."""
    if PROGRAMME in names | inside:
        return FolderState.PROGRAMME
    # A run killed before its key was written has spent nothing and left only its empty private folder.
    return FolderState.ABSENT if names <= {PRIVATE} else FolderState.FOREIGN


# Most turns in which owners that finish remove the folder under this process. Far more than processes that wait.
_ATTEMPTS: Final = 100
# With 1, a look of another process by `is_locked` would pass for a run; each further one adds `_PAUSE` to a refusal.
_REFUSALS: Final = 3
_PAUSE: Final = 0.02
"""Seconds between two attempts at a lock that is taken. A process that calls `is_locked` has it for microseconds."""


class RunFolder:
    """An output folder held by one process at a time; use as a context manager.

    Raises:
        StoreError: another process holds it, or its private folder is not only ours.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._directory: int | None = None
        self._lock, self._lock_is_new = -1, False
        self._private_is_new = False
        self._made: tuple[Path, ...] = ()

    @property
    def private(self) -> Path:
        """Folder of the key and the checkpoints, mode 0700; gone when the run has finished."""
        # All later steps go through this descriptor, so that a folder put in its place in the meantime is not written
        # to.
        return self.path / PRIVATE

    @property
    def is_held(self) -> bool:
        """Whether this process holds the lock."""
        return self._lock >= 0

    def __enter__(self) -> "RunFolder":
        try:
            self._claim()
            try:
                # The lock is held by now: nobody of ours writes while the entries are looked at.
                self._refuse_planted()
            except StoreError:
                # Only a lock that this process made is removed; one that was there belongs to a run that is to go on.
                if self._lock_is_new:
                    self._remove_lock()  # what is refused is left as it was found
                raise
        except OSError as error:
            self._let_go()
            raise store_error(self.private, error) from error
        except StoreError:
            self._let_go()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is not None and self._lock_is_new:
                # A refusal leaves the folder as it was found. A resume makes another lock.
                with suppress(OSError):
                    self._remove_lock()
                    self._remove_what_was_made()
        finally:
            self._let_go()

    def read(self, name: str) -> bytes | None:
        """Bytes of a file of the private folder; None if there is none, and no bytes if the entry is a folder."""
        try:
            with os.fdopen(open_to_read(self._place(name), folder=self._directory), "rb") as stream:
                return stream.read()
        except FileNotFoundError:
            return None
        except IsADirectoryError:
            return b""
        except OSError as error:
            raise store_error(self.private / name, error) from error

    def write(self, name: str, data: bytes, *, public: bool = False, lasting: bool = True) -> None:
        """Write a file of the private folder, complete or absent; on return it is on disk.

        An existing entry of this name, or of its temporary name, is replaced by a new file and never written to.

        Args:
            name: Of the file.
            data: Its bytes.
            public: Whether the file will leave the private folder, and gets the mode of other files.
            lasting: Whether to wait until it is on disk. Without that, only a crash of the machine can lose it.
        """
        temporary = name + TEMPORARY_SUFFIX
        try:
            # A temporary name that is left over may be a link to elsewhere, so it is removed and never opened.
            self.remove(temporary)
            mode = 0o666 if public else 0o600
            descriptor = open_new(self._place(temporary), folder=self._directory, mode=mode)
            with os.fdopen(descriptor, "wb") as stream:
                # Whatever the umask is; the mode must not depend on who started the run.
                if not public:
                    set_mode(stream.fileno(), mode)
                stream.write(data)
                stream.flush()
                # The bytes are on disk before the name points to them; after a crash there is the old file or the new
                # one.
                if lasting:
                    os.fsync(stream.fileno())
            if self._is_folder(name):
                self.remove(name)
            self._move(temporary, self._place(name))
            if lasting:
                # The rename itself lasts only once the folder is on disk.
                flush_folder(self._directory)
        except OSError as error:
            with suppress(OSError):
                self.remove(temporary)
            raise store_error(self.private / name, error) from error

    def remove(self, name: str) -> None:
        """Remove an entry of the private folder, whatever it is; one that is not there is no error."""
        with suppress(FileNotFoundError):
            # A link to a folder is no folder here: what it points to stays.
            if self._is_folder(name):
                shutil.rmtree(self.private / name)
            else:
                os.unlink(self._place(name), dir_fd=self._directory)

    def seal(self, manifest: bytes) -> None:
        """Keep the finished manifest in the private folder; `publish` does the next steps, also after a kill."""
        # At most one sealed manifest exists, so `sealed` need not choose.
        self.unseal()
        self.write(SEALED + hashlib.sha256(manifest).hexdigest(), manifest, public=True)

    def sealed(self) -> bytes | None:
        """The sealed manifest; None if there is none that is whole."""
        for name in self._sealed_names():
            data = self.read(name)
            if data is not None and SEALED + hashlib.sha256(data).hexdigest() == name:
                return data
        return None

    def unseal(self) -> None:
        """Forget a sealed manifest."""
        for name in self._sealed_names():
            self.remove(name)

    def publish(self) -> None:
        """Remove the key, then move the manifest into place: from here on nobody can compute the noise again.

        The private folder stays, with the lock alone, until `remove_private`.
        """
        data = self.sealed()
        if data is None:
            raise ValueError("there is no sealed manifest")
        name = SEALED + hashlib.sha256(data).hexdigest()
        try:
            # The key goes first and for good. A kill after that leaves a sealed release, which needs no key.
            self._remove_all_but(name)
            self._move(name, (self.path / MANIFEST).absolute())
            flush(self.path)
        except OSError as error:
            raise store_error(self.path / MANIFEST, error) from error

    def remove_private(self) -> None:
        """Remove the key, the checkpoints, whatever else is there, and the private folder."""
        try:
            self._remove_all_but("")
            self._remove_lock()
            self._remove_folder(self.private)
            flush(self.path)
        except OSError as error:
            raise store_error(self.private, error) from error

    def abandon(self) -> None:
        """Undo the making of a folder in which nothing was spent."""
        with suppress(OSError):
            self._remove_all_but("")
            self._remove_lock()
            self._remove_folder(self.private)
            self._remove_folder(self.path)
        # The first of the folders was the release folder itself, removed above; its parents go if they are empty.
        remove_empty(self._made[1:])

    def _claim(self) -> None:
        gone: OSError | None = None
        refused = 0
        for _ in range(_ATTEMPTS):
            try:
                self._open_private()
                # Asked before the file is opened, which makes it.
                self._lock_is_new = LOCK_FILE not in self._names()
                self._lock = open_for_lock(self._place(LOCK_FILE), folder=self._directory, mode=0o600)
                if not lock(self._lock, self.private / LOCK_FILE):
                    # Somebody holds it, so the folder is there; an earlier "not found" is no longer the reason.
                    gone = None
                    refused += 1
                    if refused == _REFUSALS:
                        # `is_locked` takes the lock for microseconds; three refusals in a row are a process that
                        # works.
                        break
                    time.sleep(_PAUSE)
                elif self._is_current():
                    return
            except FileNotFoundError as error:  # who held the folder has removed it just now
                gone = error
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.EISDIR):
                    raise self._not_ours(f"its entry {LOCK_FILE!r} is no file") from None
                raise
            # Not current: the lock was taken on a file that its owner has removed. The next attempt opens the new
            # one.
            self._let_go()
        if gone is not None:
            raise gone
        raise StoreError(
            f"another process is running in {self.path}; wait for it, or choose another folder.",
            code="folder-locked",
        )

    def _open_private(self) -> None:
        if not self.path.is_dir():
            self._made = absent_folders(self.path)
            # Noted before they are made, so that a refusal can remove exactly these.
            self.path.mkdir(parents=True, exist_ok=True)
            flush(self.path.parent)
        # Made with its mode in one step: with a later chmod, others could open it in between.
        with suppress(FileExistsError):
            self.private.mkdir(mode=0o700)
            self._private_is_new = True
            flush(self.path)
        try:
            # Refuses a link (ELOOP) and a file (ENOTDIR): a planted link must not lead the key elsewhere.
            self._directory = open_folder(self.private)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise self._not_ours("it is a link or a file and not a folder") from None
            raise
        # The descriptor is asked and not the path, which could be another folder by now.
        status = self.private.lstat() if self._directory is None else os.fstat(self._directory)
        if has_other_owner(status):
            raise self._not_ours("it belongs to another user")
        if is_open_to_others(status):
            raise self._not_ours(
                f"its mode is {stat.S_IMODE(status.st_mode):04o}, so that other users can open it"
            )
        set_mode(self._directory, 0o700)

    def _is_current(self) -> bool:
        """Whether the file that is locked is still the lock file in the folder."""
        return is_same_file(self.private / LOCK_FILE, self._lock)

    def _refuse_planted(self) -> None:
        state = folder_state(self.path)
        if state in (FolderState.SEALED, FolderState.FINISHED):
            return  # all that is done with the private folder is to remove it
        started = state is not FolderState.ABSENT
        # What a run of ours may have left that was killed before its key was on disk.
        begun = {LOCK_FILE, CLUSTER, KEY_FILE + TEMPORARY_SUFFIX, PROGRAMME + TEMPORARY_SUFFIX}
        for name in self._names():
            status = os.stat(self._place(name), dir_fd=self._directory, follow_symlinks=False)
            reason = None
            if stat.S_ISLNK(status.st_mode):
                # Others may have changed it, or may read what is written into it.
                reason = "is a link"
            elif has_other_owner(status):
                reason = "belongs to another user"
            elif not started and name not in begun:
                # Nothing of ours comes before the key but the names above. A planted checkpoint or manifest is
                # refused here.
                reason = "was there before any run was started"
            elif not started and is_open_to_others(status):
                reason = f"has mode {stat.S_IMODE(status.st_mode):04o}, so that others can open it"
            if reason is not None:
                raise self._not_ours(f"its entry {name!r} {reason}")

    def _not_ours(self, reason: str) -> StoreError:
        return StoreError(
            f"{self.private} cannot hold the key of a run: {reason}. No key was written to it. Find out who made "
            "this folder. If your own run made it and nobody else could read it, remove what does not belong there "
            "and set its mode to 0700. Otherwise choose another folder.",
            code="private-folder",
        )

    def _place(self, name: str) -> str | Path:
        """Where an entry is: its name in the folder that is open, or its path where no folder can be opened."""
        return name if self._directory is not None else self.private / name

    def _move(self, name: str, to: str | Path) -> None:
        """Rename an entry to another name in the folder, or to an absolute path."""
        # For an absolute path, the system ignores the descriptor; so one call serves both kinds of targets.
        os.replace(self._place(name), to, src_dir_fd=self._directory, dst_dir_fd=self._directory)

    def _remove_lock(self) -> None:
        """Remove the lock file, and with it the lock."""
        if self._lock >= 0:
            # Forgotten first: a failure below must not close the same number twice.
            descriptor, self._lock = self._lock, -1
            remove_locked(self._place(LOCK_FILE), descriptor, folder=self._directory)

    def _is_folder(self, name: str) -> bool:
        return (self.private / name).is_dir() and not (self.private / name).is_symlink()

    def _names(self) -> list[str]:
        with os.scandir(self.private if self._directory is None else self._directory) as entries:
            return sorted(entry.name for entry in entries)

    def _sealed_names(self) -> list[str]:
        return [name for name in self._names() if name.startswith(SEALED)]

    def _remove_all_but(self, spared: str) -> None:
        """Remove what the private folder holds, the key first and for good before anything else."""
        self.remove(KEY_FILE)
        self.remove(KEY_FILE + TEMPORARY_SUFFIX)
        # On disk before anything else goes: after a crash, no key may come back beside a published release.
        flush_folder(self._directory)
        for name in self._names():
            if name not in (LOCK_FILE, spared):
                self.remove(name)

    def _remove_folder(self, path: Path) -> None:
        """Remove a folder; one that another process has begun to use in the meantime is left to it."""
        try:
            path.rmdir()
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise

    def _remove_what_was_made(self) -> None:
        """Remove the folders that this process made, as far as they are empty."""
        if self._private_is_new:
            remove_empty((self.private, *self._made))

    def _let_go(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
        if self._directory is not None:
            os.close(self._directory)
        self._lock, self._directory = -1, None
