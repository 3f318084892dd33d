"""A finished release whose published counts another release takes into account."""

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from tallyveil.arrays import Integers
from tallyveil.errors import ConstraintError
from tallyveil.geography.spine import Spine
from tallyveil.release.geography import read_geography
from tallyveil.release.histograms import histogram_path, read_histogram
from tallyveil.release.kinds import ReleaseKind
from tallyveil.release.manifest import Manifest
from tallyveil.release.manifest_files import read_manifest, require_unchanged
from tallyveil.storage.json_files import JsonObject
from tallyveil.universe.counts import PublicCounts
from tallyveil.universe.presets import schema_from_mapping
from tallyveil.universe.schema import Schema


@dataclass(frozen=True, slots=True, eq=False)
class FinishedRelease:
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
    def named(self) -> JsonObject:
        """What the manifest of the new release says of this one."""
        return {"run": self.manifest.run, "plan_digest": self.manifest.plan_digest}

    def same_geounits(self, spine: Spine) -> Integers:
        """The finest geounit of another spine for each of its own; raises ConstraintError if the two sets differ."""
        made = self.spine
        theirs = made.geocodes[made.finest].text
        rows = spine.locate(spine.finest, theirs)
        ours = spine.n_geounits(spine.finest)
        if len(theirs) == ours and bool((rows >= 0).all()):
            return rows
        missing = theirs.filter(pl.Series(rows < 0))
        example = f", such as '{missing[0]}', which only the other has" if len(missing) else ""
        raise ConstraintError(
            f"{self.where}: the release in {self.path} has {len(theirs):,} {made.geolevels[-1]} geounits and this one "
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
        counts = read_histogram(self.path, geolevel, self.schema, self.spine)
        require_unchanged(self.path, self.manifest, histogram_path(self.path, geolevel))
        return counts


def open_finished(where: str, path: Path | None) -> FinishedRelease:
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
    return FinishedRelease(where, path, manifest, schema, read_geography(path))
