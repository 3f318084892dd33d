"""Checks between the published files of several releases of a programme, which no release can make by itself."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from tallyveil.release.geography import GEOGRAPHY
from tallyveil.release.manifest import Manifest
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.published import read_published


def checks_between(root: Path, releases: Sequence[tuple[str, Manifest]]) -> list[JsonObject]:
    """What was found between the files of finished releases, each with its name, whether they agree, and a sentence.

    Args:
        root: Folder of the programme.
        releases: Names of the releases, which are those of their folders, and their manifests.
    Raises:
        StoreError: a published file cannot be read.
    """
    return [_finest_geounits(root, releases)] if len(releases) > 1 else []


def _finest_geounits(root: Path, releases: Sequence[tuple[str, Manifest]]) -> JsonObject:
    """Whether the releases count in the same finest geounits, so that their tables can be joined by geocode."""
    first, others = releases[0], releases[1:]
    level, wanted = _finest(first[1]), _geocodes(root, *first)
    different = [name for name, manifest in others if not _geocodes(root, name, manifest).equals(wanted)]
    statement = f"All releases have the same {len(wanted):,} {level} geounits, by whose geocodes tables can be joined."
    if different:
        statement = (
            f"These releases have other finest geounits than {first[0]}: {', '.join(different)}. Join their tables "
            "only where the geocodes are the same."
        )
    return {"check": "same finest geounits", "agrees": not different, "statement": statement}


def _finest(manifest: Manifest) -> str:
    return str(manifest.body["plan"]["geolevels"][-1])


def _geocodes(root: Path, name: str, manifest: Manifest) -> pl.Series:
    """The geocodes of the finest geounits of a release, sorted."""
    level = _finest(manifest)
    return read_published(root / name / GEOGRAPHY, [level])[level].alias("geocode").sort()
