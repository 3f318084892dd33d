"""Copies a finished release between a folder and an object store: every file with its SHA-256, the manifest last.

What is copied is what the manifest lists, with the ledger, the page, the log, the intervals and signatures. All else
stays behind, such as a comparison with the truth. A folder with a private folder is not finished, and nothing of it is
copied.

An object store has no locks and no renaming. A release there is complete where its manifest is there, because that is
written after every other file was read back. The same command goes on with a copy that was interrupted: it reads what
is there, and writes what is not as it should be.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tallyveil.accounting.ledger.lines import LEDGER
from tallyveil.errors import ConfigError, StoreError
from tallyveil.files.finished import LOG, MANIFEST, PRIVATE, refuse_unfinished
from tallyveil.files.intervals import INTERVALS
from tallyveil.files.manifest import Manifest, ReleaseKind
from tallyveil.files.manifest_files import entered_manifest, parsed_manifest, read_manifest
from tallyveil.files.signatures import SUFFIX
from tallyveil.runs.executor import Threads
from tallyveil.runs.observer import Observer, SilentObserver, Stopwatch
from tallyveil.storage.addresses import address_of, is_object, shown_path
from tallyveil.storage.json_files import damaged
from tallyveil.storage.object_store import FolderPlace, Place, StorePlace, digest_at
from tallyveil.storage.outputs import refuse_taken
from tallyveil.storage.write import TEMPORARY_SUFFIX, UNFINISHED, Claim

COMMAND: Final = "copy"
_BESIDES: Final = ("report.html", "report.html" + SUFFIX, MANIFEST + SUFFIX, LOG)
_RESTORE: Final = "Copy the release again from where it was made."
_AT_ONCE: Final = 8
"""How many files are on their way at a time. Most of them are small, and each waits for several answers."""
# 256 MiB. A manifest has some megabytes; this refuses only what cannot be one, before it is read into memory.
_MOST_MANIFEST: Final = 1 << 28


@dataclass(frozen=True, slots=True)
class Copied:
    """What a copy holds.

    Attributes:
        target: The folder or the address.
        manifest: Of the release.
        files: How many files the copy has.
        bytes: How many bytes they have.
        already_there: How many of the files were there already, whole.
        left_out: Names of files beside the release that were not copied, in order.
    """

    target: Path
    manifest: Manifest
    files: int
    bytes: int
    already_there: int
    left_out: tuple[str, ...]


def copy_release(source: Path, target: Path, observer: Observer | None = None) -> Copied:
    """Copy a finished release from a folder to an object store, or from there to a folder.

    Args:
        source: Folder or address of the release.
        target: Address or folder of the copy: without files, or with a copy of this release, also an interrupted one.
        observer: Told of progress.
    Raises:
        ConfigError: not exactly one of the two is an address.
        StoreError: the release is not finished or was changed, the target holds something else, or a file cannot be
            read or written.
    """
    if is_object(source) == is_object(target):
        raise ConfigError(
            "tallyveil copy takes one folder and one address in either order, such as `tallyveil copy FOLDER "
            "s3://BUCKET/NAME`. Between two folders, any program can copy.",
            code="bad-address",
        )
    watch = Stopwatch(observer or SilentObserver())
    if is_object(target):
        refuse_unfinished(source)
        manifest = read_manifest(source, *ReleaseKind)
        job = _Job(FolderPlace(source), source, StorePlace(target), target, manifest, watch)
        return job.to_store()
    place = StorePlace(source)
    job = _Job(place, source, FolderPlace(target), target, _manifest_at(place, source), watch)
    return job.to_folder()


def _manifest_at(place: Place, source: Path) -> Manifest:
    """The manifest of a release in an object store."""
    sizes = place.names()
    if MANIFEST not in sizes:
        raise StoreError(
            f"{address_of(source)} holds no complete release: it has no manifest. Name the address that `tallyveil "
            "copy` wrote to. If a copy was interrupted there, give its command again.",
            code="no-release",
        )
    # The size is looked at first, since the object could be anything.
    if sizes[MANIFEST] > _MOST_MANIFEST:
        raise damaged(source / MANIFEST, "the whole", _RESTORE)
    try:
        with place.open(MANIFEST) as stream:
            content = json.loads(stream.read())
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise damaged(source / MANIFEST, "the whole", _RESTORE)
    return parsed_manifest(source, content)


@dataclass(frozen=True, slots=True)
class _Job:
    """One release on its way from one place to another."""

    source: Place
    source_path: Path
    target: Place
    target_path: Path
    manifest: Manifest
    watch: Stopwatch

    def to_store(self) -> Copied:
        """Copy to an object store."""
        wanted, left_out = self._wanted()
        sizes = self.target.names()
        # Objects that are no part of the release are never overwritten and never mixed with it.
        others = sorted(sizes.keys() - wanted.keys())
        if others or (MANIFEST in sizes and not self._is_there(sizes, MANIFEST, wanted[MANIFEST])):
            what = f"other objects, such as {others[0]!a:.200}" if others else "another release"
            raise StoreError(
                f"{address_of(self.target_path)} holds {what}. Choose another address, or remove what is there.",
                code="folder-taken",
            )
        return self._copied(wanted, self._copy(wanted, sizes), left_out)

    def to_folder(self) -> Copied:
        """Copy to a folder."""
        wanted, left_out = self._wanted()
        with Claim(self.target_path, COMMAND) as claim:
            tops = {name.split("/")[0] for name in wanted}
            began = {name + ending for name in tops for ending in ("", TEMPORARY_SUFFIX)}
            refuse_taken(
                self.target_path, "a copy of a release", {UNFINISHED, *(began if claim.goes_on else ())}
            )
            claim.begin()
            n_there = self._copy(wanted, self.target.names() if claim.goes_on else {})
            # The copy must pass as a release by itself, with its own ledger.
            if entered_manifest(self.target_path, *ReleaseKind) != self.manifest:  # the ledger must fit, too
                raise damaged(self.source_path / MANIFEST, "the whole", _RESTORE)
        return self._copied(wanted, n_there, left_out)

    def _wanted(self) -> tuple[dict[str, str], tuple[str, ...]]:
        """SHA-256 of every file to copy, the manifest last, and the names of all others."""
        listed = self.manifest.digests
        for name in listed:
            parts = name.split("/")
            # Names come from a manifest that others may have written: none may lead out of the folder.
            if parts[0] == PRIVATE or {"", ".", ".."} & set(parts):
                raise damaged(self.source_path / MANIFEST, "files", _RESTORE)
        sizes = self.source.names()
        if missing := sorted(listed.keys() - sizes.keys()):
            raise StoreError(
                f"{shown_path(self.source_path)} lacks {missing[0]!a:.200}, which its manifest lists. Restore it "
                "from a copy of the release.",
                code="release-damaged",
            )
        besides = [name for name in sorted(sizes) if name in _BESIDES or name.split("/")[0] == INTERVALS]
        # The ledger and the manifest come last, in this order: what has a manifest is whole.
        last = [name for name in (LEDGER, MANIFEST) if name in sizes]
        unlisted = {name: digest_at(self.source, name) for name in (*besides, *last) if name not in listed}
        left_out = sorted(sizes.keys() - listed.keys() - unlisted.keys())
        return {**listed, **unlisted}, tuple(left_out)

    def _copy(self, wanted: Mapping[str, str], sizes: Mapping[str, int]) -> int:
        """Copy what is not there, several files at once and the manifest after them; returns how many were there."""
        *others, manifest = wanted

        def copy(name: str) -> bool:
            if self._is_there(sizes, name, wanted[name]):
                return True
            with self.source.open(name) as stream:
                self.target.put(name, stream)
            # Read back from the target, because an object store may accept what it does not keep.
            self._require(name, wanted[name])
            return False

        with self.watch.stage("copy", len(wanted)):
            n_there = 0
            copies = Threads(_AT_ONCE).each(lambda number: copy(others[number]), range(len(others)))
            for _, was_there in copies:
                n_there += was_there
                self.watch.advanced(1)
            # The manifest alone at the end: until it is there, the copy is incomplete for everybody.
            return n_there + copy(manifest)

    def _require(self, name: str, digest: str) -> None:
        """Refuse a file of the copy that is not as it should be; raises StoreError."""
        if digest_at(self.target, name) != digest:
            raise StoreError(
                f"{name!a:.200} of {shown_path(self.target_path)} does not have the SHA-256 that it should have. It "
                f"was changed in {shown_path(self.source_path)}, or on its way. If it was changed there, restore it. "
                "Then give the same command again.",
                code="release-damaged",
            )

    def _is_there(self, names: Collection[str], name: str, digest: str) -> bool:
        return name in names and digest_at(self.target, name) == digest

    def _copied(self, wanted: Collection[str], n_there: int, left_out: tuple[str, ...]) -> Copied:
        sizes = self.source.names()
        size = sum(sizes[name] for name in wanted)
        return Copied(self.target_path, self.manifest, len(wanted), size, n_there, left_out)
