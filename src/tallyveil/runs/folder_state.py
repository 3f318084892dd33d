"""What a folder holds, as far as a run needs to know, and the names of a run's own files."""

from enum import Enum
from pathlib import Path
from typing import Final

from tallyveil.errors import StoreError
from tallyveil.files.finished import LEDGER, MANIFEST, PRIVATE, PROGRAMME
from tallyveil.storage.addresses import refuse_object
from tallyveil.storage.write import TEMPORARY_SUFFIX, store_error

PLAN: Final = "plan.json"
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
