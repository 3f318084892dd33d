"""Checks between the published files of several releases of a programme, which no release can make by itself."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from tallyveil.files.contradictions import (
    Contradiction,
    SizedAreas,
    between_people,
    between_units,
    people_and_units,
)
from tallyveil.files.geography import GEOGRAPHY, read_geography
from tallyveil.files.histograms import histogram_path, read_histogram
from tallyveil.files.household_totals import household_people, households, redistricting_people, units
from tallyveil.files.manifest import Manifest
from tallyveil.files.manifest_files import require_unchanged
from tallyveil.schema.counts import PublicCounts
from tallyveil.schema.presets import load_preset
from tallyveil.schema.schema import Schema, schema_from_mapping
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.published import read_published

_READERS: Final[Mapping[str, Callable[[Schema, PublicCounts], Any]]] = {
    "pl94-persons": redistricting_people,
    "pl94-units": units,
    "dhc-persons": household_people,
    "dhc-units": households,
}
"""By schema preset, what is read of a file."""

_COMPARISONS: Final[Mapping[tuple[str, str], Callable[..., tuple[Contradiction, ...]]]] = {
    ("pl94-persons", "dhc-persons"): between_people,
    ("pl94-units", "dhc-units"): between_units,
    ("pl94-persons", "pl94-units"): people_and_units,
    ("pl94-persons", "dhc-units"): people_and_units,
    ("dhc-persons", "pl94-units"): people_and_units,
    ("dhc-persons", "dhc-units"): people_and_units,
}
"""By the schema presets of two files, how they are compared."""


def checks_between(root: Path, releases: Sequence[tuple[str, Manifest]]) -> list[JsonObject]:
    """What was found between the files of finished releases, each with its name, whether they agree, and a sentence.

    Args:
        root: Folder of the programme.
        releases: Names of the releases, which are those of their folders, and their manifests.
    Raises:
        StoreError: a published file cannot be read.
    """
    if len(releases) < 2:
        return []
    same = _finest_geounits(root, releases)
    return [same, *(_contradictions(root, releases) if same["agrees"] else ())]


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


@dataclass(frozen=True, slots=True, eq=False)
class _File:
    """What a published file says of households.

    Attributes:
        release: Name of its release.
        preset: Name of the schema preset whose attributes it has.
        geolevel: Its finest geolevel.
        n_geounits: Number of geounits there.
        run: Run that published it.
        totals: What was read, with the geounits in the order of their geocodes.
        sized: For each run whose people the sizes of its households add up to, the areas in which they do.
    """

    release: str
    preset: str
    geolevel: str
    n_geounits: int
    run: str
    totals: Any
    sized: Mapping[str, SizedAreas]


def _contradictions(root: Path, releases: Sequence[tuple[str, Manifest]]) -> Iterator[JsonObject]:
    """For each two files that both say something of households, how they contradict each other."""
    files = [
        found for name, manifest in releases if (found := _read(root / name, name, manifest)) is not None
    ]
    for (one_preset, other_preset), compare in _COMPARISONS.items():
        for one in files:
            for other in files:
                if (one.preset, other.preset) == (one_preset, other_preset):
                    sized = other.sized.get(one.run)
                    more = {} if sized is None else {"sized": sized}
                    yield _compared(one, other, compare(one.totals, other.totals, **more))


def _read(root: Path, name: str, manifest: Manifest) -> _File | None:
    """What the file of a release says of households; None if its attributes are not those of a preset that does."""
    schema = schema_from_mapping(manifest.body["plan"]["schema"])
    preset = next((one for one in _READERS if load_preset(one).attributes == schema.attributes), None)
    if preset is None:
        return None
    spine = read_geography(root)
    geolevel = spine.geolevels[-1]
    counts = read_histogram(root, geolevel, schema, spine)
    require_unchanged(root, manifest, histogram_path(root, geolevel))
    order = spine.geocodes[spine.finest].text.arg_sort().to_numpy().astype(np.int64)
    totals = _READERS[preset](schema, _in_order(counts, order))
    sized = {
        item["run"]: SizedAreas(
            item["geolevel"], spine.ancestors(spine.geolevels.index(item["geolevel"]))[order]
        )
        for item in manifest.body.get("residents", ())
        if "households" in item
    }
    return _File(name, preset, geolevel, counts.n_geounits, manifest.run, totals, sized)


def _in_order(counts: PublicCounts, order: np.ndarray) -> PublicCounts:
    """The same counts, with the geounits in another order."""
    lengths = np.diff(counts.offsets)[order]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    entries = np.repeat(counts.offsets[:-1][order] - offsets[:-1], lengths) + np.arange(int(offsets[-1]))
    return PublicCounts(counts.geolevel, offsets, counts.cells[entries], counts.counts[entries])


def _compared(one: _File, other: _File, found: Sequence[Contradiction]) -> JsonObject:
    """What was found between two files, for `programme.json`."""
    wrong = [item for item in found if item.can_agree and item.n_geounits]
    never = [item for item in found if not item.can_agree and item.n_geounits]
    compared = ", ".join(item.name for item in found if item.can_agree)
    statement = (
        f"No contradiction in any of {one.n_geounits:,} {one.geolevel} geounits. Compared: {compared}."
    )
    if wrong:
        statement = (
            f"Of {one.n_geounits:,} {one.geolevel} geounits, some contradict each other: {_counted(wrong)}."
        )
    if never:
        statement += f" Not made to agree: {_counted(never)}."
    return {
        "check": f"{one.release} and {other.release}",
        "agrees": not wrong,
        "statement": statement,
        "kinds": [
            {
                "kind": item.name,
                "meaning": item.meaning,
                "can_agree": item.can_agree,
                "geounits": item.n_geounits,
                "records": item.n_records,
            }
            for item in found
        ],
    }


def _counted(found: Sequence[Contradiction]) -> str:
    return ", ".join(f"{item.name} in {item.n_geounits:,}" for item in found)
