"""A finished release whose published counts another release takes into account."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from tallyveil.arrays import Integers
from tallyveil.errors import ConstraintError, StoreError
from tallyveil.files.geography import read_geography
from tallyveil.files.histograms import histogram_path, read_histogram
from tallyveil.files.manifest import Manifest, ReleaseKind
from tallyveil.files.manifest_files import read_manifest, require_unchanged
from tallyveil.geography.spine import Spine
from tallyveil.schema.counts import LARGEST_COUNT, PublicCounts
from tallyveil.schema.schema import Schema, schema_from_mapping
from tallyveil.storage.json_files import JsonObject

_LARGEST_SUM: Final = 2 * LARGEST_COUNT
"""No release publishes more records: its noise adds less than the largest number of records."""


@dataclass(frozen=True, slots=True, eq=False)
class NamedRelease:
    """Which release was read.

    Attributes:
        where: What names it, for messages.
        named: What the manifest of the new release says of it.
        protected: Whether it protects anybody.
    """

    where: str
    named: JsonObject
    protected: bool


@dataclass(frozen=True, slots=True, eq=False)
class OtherRelease:
    """A finished release of counts, opened.

    Attributes:
        where: What names it, for messages.
        path: Its folder.
        manifest: Its manifest.
        schema: Its universe.
        spine: Its published geography.
    """

    where: str
    path: Path
    manifest: Manifest
    schema: Schema
    spine: Spine

    @property
    def release(self) -> NamedRelease:
        """Which release it is."""
        manifest = self.manifest
        named = {"run": manifest.run, "plan_digest": manifest.plan_digest}
        return NamedRelease(self.where, named, manifest.protected)

    def same_geounits(self, spine: Spine) -> Integers:
        """The finest geounit of another spine for each of its own; raises ConstraintError if the two sets differ."""
        their_spine = self.spine
        theirs = their_spine.geocodes[their_spine.finest].text
        rows = spine.locate(spine.finest, theirs)
        ours = spine.n_geounits(spine.finest)
        if len(theirs) == ours and bool((rows >= 0).all()):
            return rows
        missing = theirs.filter(pl.Series(rows < 0))
        example = f", such as '{missing[0]}', which only the other has" if len(missing) else ""
        raise ConstraintError(
            f"{self.where}: the release in {self.path} has {len(theirs):,} {their_spine.geolevels[-1]} geounits "
            f"and this one "
            f"has {ours:,} {spine.geolevels[-1]} geounits, and they are not the same{example}. Both releases must have "
            "the same finest geounits. Make both from one geography table.",
            code="agreement-geography",
        )

    def finest_counts(self) -> PublicCounts:
        """Its published counts of the finest geounits.

        Raises:
            StoreError: the file is damaged, or is not the one that the manifest names.
        """
        geolevel = self.spine.geolevels[-1]
        path = histogram_path(self.path, geolevel)
        counts = read_histogram(self.path, geolevel, self.schema, self.spine)
        require_unchanged(self.path, self.manifest, path)
        numbers = counts.counts
        # With the largest number below 2**33, the sum of all numbers fits int64.
        if len(numbers) and (
            numbers.min() < 0 or numbers.max() > _LARGEST_SUM or numbers.sum() > _LARGEST_SUM
        ):
            raise StoreError(
                f"{path} holds a count below 0, or counts larger than any release has. It was changed after it was "
                "written; restore it from a copy of the release.",
                code="release-damaged",
            )
        return counts


def open_finished(where: str, path: Path | None) -> OtherRelease:
    """Open the folder of a finished release of counts.

    Args:
        where: What names it, for messages.
        path: Its folder, if one is named.
    Raises:
        ConstraintError: no folder is named.
        StoreError: the folder holds no finished release of counts, or a file in it is damaged.
    """
    if path is None:
        raise ConstraintError(
            f"{where} names no path. Name the folder of the finished release, or run the file as part of a programme "
            "of releases, which knows the folder.",
            code="agreement-path",
        )
    manifest = read_manifest(path, ReleaseKind.TOPDOWN)
    schema = schema_from_mapping(manifest.body["plan"]["schema"])
    return OtherRelease(where, path, manifest, schema, read_geography(path))


def refuse_unprotected(release: NamedRelease) -> None:
    """Refuse a release that was made with an insecure test key, for a release that shall protect people.

    Raises:
        ConstraintError: it was.
    """
    if not release.protected:
        raise ConstraintError(
            f"{release.where}: the release that it names was made with an insecure test key and protects nobody. A "
            "release that keeps its counts would protect nobody either. Name a release that was made without a test "
            "key, or give --insecure-test-key for a trial. Nothing was spent.",
            code="agreement-unprotected",
        )
