"""The geometry of the finest geounits of a spine. No count depends on it."""

import hashlib
from dataclasses import dataclass

import polars as pl


@dataclass(frozen=True, slots=True, eq=False)
class Geometry:
    """Polygons or points of finest geounits, in longitude and latitude (OGC:CRS84).

    Attributes:
        wkb: ISO well-known binary of every finest geounit, in the order of the spine; null where there is none.
        points: Whether all shapes are points; otherwise all are polygons or multipolygons.
    """

    wkb: pl.Series
    points: bool

    @property
    def n_missing(self) -> int:
        """Number of finest geounits without geometry."""
        return self.wkb.null_count()

    def digest(self) -> bytes:
        """SHA-256 of the geometry."""
        digest = hashlib.sha256(b"tallyveil geometry 1\n")
        for wkb in self.wkb:
            # The length goes before each shape, so that no two lists of shapes write the same bytes.
            shape = wkb or b""
            digest.update(len(shape).to_bytes(8, "big") + shape)
        return digest.digest()


def geometry_warnings(geometry: Geometry | None) -> tuple[str, ...]:
    """What to say of finest geounits without geometry, which is public."""
    if geometry is None or not geometry.n_missing:
        return ()
    return (
        f"the geometry file has no shape for {geometry.n_missing:,} of {len(geometry.wkb):,} finest geounits. Maps "
        "leave them out; no count changes.",
    )
