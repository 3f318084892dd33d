"""The folder of a site: filled under another name, and then put in the place of an earlier site.

One process at a time makes a site: it locks a hidden file beside the folder. A killed process leaves its hidden files
and folders there. The next one takes them over: it removes what is unfinished, and puts an earlier site back if it was
moved away.
"""

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tallyveil.errors import StoreError
from tallyveil.explore.files import SITE_FILE
from tallyveil.storage.outputs import LOCK_SUFFIX, refuse_inputs
from tallyveil.storage.paths import real
from tallyveil.storage.system import absent_folders, remove_empty, remove_locked, take_lock
from tallyveil.storage.write import store_error

TOP: Final = frozenset({"index.html", "app", "vendor", "data"})
"""What lies directly in the folder of a site."""
_UNFINISHED: Final = ".{}.tallyveil-unfinished"
_EARLIER: Final = ".{}.tallyveil-earlier"
"""Folders beside the site, only while it is made."""


@contextmanager
def replaced_site(site: Path, inputs: Iterable[Path]) -> Iterator[Path]:
    """A new folder to fill. If the work succeeds, it becomes the site; otherwise it is removed.

    Args:
        site: Folder of the site: it does not exist, is empty, or holds an earlier site.
        inputs: Files and folders that are read. They must not lie in the site, where they would be removed.
    Raises:
        StoreError: the folder holds something else or an input, another process writes it, or it cannot be written to.
    """
    refuse_inputs(site, inputs)
    site = real(site)
    unfinished, earlier = (site.with_name(form.format(site.name)) for form in (_UNFINISHED, _EARLIER))
    with _locked(site):
        try:
            # An exchange that was killed between its two renames leaves no site: put the earlier one back.
            if earlier.exists() and not site.exists():
                earlier.rename(site)
            # After the lock, so that no other process fills the folder between this check and the exchange.
            _refuse_other(site)
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
        except OSError as error:
            raise store_error(unfinished, error) from error
        try:
            yield unfinished
            _exchange(site, unfinished, earlier)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)


@contextmanager
def _locked(site: Path) -> Iterator[None]:
    """Let no other process write the site; raises StoreError."""
    place = site.with_name(f".{site.name}{LOCK_SUFFIX}")
    absent = absent_folders(site.parent)
    try:
        site.parent.mkdir(parents=True, exist_ok=True)
        held = take_lock(place)
    except OSError as error:
        remove_empty(absent)
        raise store_error(place, error) from error
    if held is None:
        raise StoreError(
            f"another process is writing {site}; wait for it, or choose another folder.", code="folder-locked"
        )
    try:
        yield
    finally:
        remove_locked(place, held)
        remove_empty(absent)  # which hold the site if all went well


def _exchange(site: Path, unfinished: Path, earlier: Path) -> None:
    try:
        shutil.rmtree(earlier, ignore_errors=True)
        # A folder that is not empty cannot be renamed over; the moment without a site is two renames long.
        if site.exists():
            site.rename(earlier)
        unfinished.rename(site)
    except OSError as error:
        with suppress(OSError):  # the earlier site, if it was moved, goes back to its place
            earlier.rename(site)
        raise store_error(site, error) from error
    # Errors are ignored: the new site is in place, and the next run removes what is left of this folder.
    shutil.rmtree(earlier, ignore_errors=True)


def _refuse_other(site: Path) -> None:
    """Refuse a folder that is neither empty nor a site: it would be removed."""
    try:
        names = {entry.name for entry in site.iterdir()} if site.is_dir() else set()
        is_file = site.exists() and not site.is_dir()
        is_mounted = site.is_mount()
    except OSError as error:
        raise store_error(site, error) from error
    if is_mounted:
        raise StoreError(
            f"{site} is a mount point, which cannot be replaced. Name a folder in it.", code="not-a-site"
        )
    is_site = (site / SITE_FILE).is_file()
    if not is_file and (not names or (is_site and names <= TOP)):
        return
    others = sorted(names - TOP) if is_site else sorted(names)
    what = "is a file" if is_file else f"holds {', '.join(others[:3])}{', ...' * (len(others) > 3)}"
    raise StoreError(
        f"{site} {what}, which no explorer wrote. The folder of a site is replaced as a whole, so it must be new, "
        "empty, or hold an earlier site and nothing else. Choose another folder, or move the other files away.",
        code="not-a-site",
    )
