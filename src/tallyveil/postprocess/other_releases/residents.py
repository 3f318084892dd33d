"""Residents: published numbers of people and of adults who live in the units that a release counts.

They are read from a finished release, and written so that the folder of the release alone says all.

Layout: `residents/00.parquet` holds the first residents of the plan, and so on. Its columns are `geocode`, `people` and
`adults`, at the finest geolevel. Finest geounits without a row have no people.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from tallyveil.arrays import Bools, Integers
from tallyveil.declared import mapping_of
from tallyveil.errors import StoreError, TallyveilError
from tallyveil.geography.spine import Spine
from tallyveil.plans.constraints import Levels, Residents
from tallyveil.postprocess.other_releases.release import NamedRelease, open_finished
from tallyveil.schema.counts import row_ranges
from tallyveil.schema.schema import Schema
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.paths import inside
from tallyveil.storage.read import collect, scan_parquet
from tallyveil.storage.write import write_parquet

RESIDENTS: Final = "residents"


@dataclass(frozen=True, slots=True, eq=False)
class ResidentCounts:
    """People who live in the units of each finest geounit.

    Attributes:
        name: Name of the residents in the plan.
        people: Number of people of each finest geounit.
        adults: How many of them are adults; all, if the plan does not say who is.
        households: Query that counts households by size, if sizes add up to these people.
        geolevel: Geolevel of the geounits in which they do.
    """

    name: str
    people: Integers
    adults: Integers
    households: str | None = None
    geolevel: str | None = None

    def digest(self) -> bytes:
        """SHA-256 of the counts."""
        digest = hashlib.sha256(f"{RESIDENTS}\0{self.name}".encode())
        for array in (self.people, self.adults):
            digest.update(array.astype("<i8").tobytes())
        return digest.digest()


@dataclass(frozen=True, slots=True, eq=False)
class ReadResidents:
    """Residents that were read: the counts, what the manifest says of them, and the release that published them."""

    counts: ResidentCounts
    record: JsonObject
    release: NamedRelease


def residents_name(name: str) -> str:
    """Name of residents in checks and errors."""
    return f"residents {name}"


def read_residents(item: Residents, spine: Spine) -> ReadResidents:
    """The published residents of every finest geounit, from the folder of the finished release.

    Args:
        item: The residents.
        spine: The spine of the new release.
    Raises:
        ConstraintError: no folder is named, or the finest geounits differ.
        StoreError: the folder holds no finished release of counts, or a file in it is damaged.
        SchemaError: the other release has no such attribute or level.
    """
    theirs = open_finished(f"[[residents]] '{item.name}'", item.path)
    people, adults = resident_levels(item, theirs.schema)
    rows, their_counts = theirs.same_geounits(spine), theirs.finest_counts()
    counts = np.zeros((2, spine.n_geounits(spine.finest)), dtype=np.int64)
    for start, stop in row_ranges(their_counts.offsets):
        geounits, cells, persons = their_counts.rows(start, stop)
        codes = theirs.schema.decode(cells)
        chosen = _have(people, codes)
        for kind, inside_ in enumerate((chosen, chosen & _have(adults, codes))):
            # Several cells of a geounit fall together, so the sum must not be buffered.
            np.add.at(counts[kind], rows[start + geounits[inside_]], persons[inside_])
    record = {**mapping_of(item), **theirs.release.named}
    read = ResidentCounts(item.name, counts[0], counts[1], item.households, item.geolevel)
    return ReadResidents(read, record, theirs.release)


def resident_levels(item: Residents, schema: Schema) -> tuple[list[Bools], list[Bools]]:
    """Which levels of each attribute of the other release people and adults may have.

    Raises:
        SchemaError: the schema has no such attribute or level.
    """
    where = f"[[residents]] '{item.name}'"
    return _levels(item.people, schema, f"{where} people"), _levels(item.adults, schema, f"{where} adults")


def _levels(levels: Levels, schema: Schema, where: str) -> list[Bools]:
    allowed = {
        # Attributes that are not named allow every level.
        name: np.ones(size, dtype=np.bool_)
        for name, size in zip(schema.attribute_names, schema.shape, strict=True)
    }
    for name, level_names in levels:
        attribute = schema.attribute(name, where)
        try:
            codes = [attribute.code(level) for level in level_names]
        except TallyveilError as error:
            raise type(error)(f"{where}: {error}", code=error.code) from None
        allowed[name] = np.isin(np.arange(attribute.size), codes)
    return list(allowed.values())


def _have(levels: list[Bools], codes: Integers) -> Bools:
    """Whether records with some codes, one column for each attribute, have allowed levels only."""
    chosen = np.ones(len(codes), dtype=np.bool_)
    for column, allowed in zip(codes.T, levels, strict=True):
        chosen &= allowed[column]
    return chosen


def residents_path(root: Path, number: int) -> Path:
    """File of the plan's residents with this number, counted from 0."""
    return inside(root, RESIDENTS, f"{number:02d}.parquet")


def write_residents(
    root: Path, number: int, counts: ResidentCounts, spine: Spine, metadata: Mapping[str, str]
) -> None:
    """Write the finest geounits that have people.

    Raises:
        StoreError: the file cannot be written.
    Privacy: the counts were published by the other release.
    """
    rows = np.flatnonzero(counts.people)
    frame = pl.DataFrame(
        {
            "geocode": spine.geocodes[spine.finest].text.gather(rows),
            "people": counts.people[rows],
            "adults": counts.adults[rows],
        }
    )
    write_parquet(residents_path(root, number), frame, {**metadata, "geolevel": spine.geolevels[-1]})


def read_resident_counts(root: Path, number: int, item: Mapping[str, Any], spine: Spine) -> ResidentCounts:
    """The residents that a release folder holds.

    Args:
        root: Release folder.
        number: Place of the residents in the plan.
        item: The entry of `plan.json`.
        spine: The hierarchy.
    Raises:
        StoreError: the file is missing, unreadable, or of another geography.
    """
    path = residents_path(root, number)
    if not path.is_file():
        raise StoreError(
            f"{path} does not exist, so the residents whom this release takes into account are unknown. Restore the "
            "file from a copy.",
            code="measurements-missing",
        )
    frame = collect(scan_parquet(path).select("geocode", "people", "adults"), path, RESIDENTS)
    rows = spine.locate(spine.finest, frame["geocode"])
    numbers = frame.select("people", "adults")
    # Nulls and floats would become wrong whole numbers without an error.
    whole = all(kind.is_integer() for kind in numbers.dtypes) and not sum(numbers.null_count().row(0))
    if not whole or bool((rows < 0).any()) or len(np.unique(rows)) < len(rows):
        raise StoreError(
            f"{path} does not hold two whole numbers for each of some geounits of this release. It was changed after "
            "it was written; restore it from a copy of the release.",
            code="release-damaged",
        )
    counts = np.zeros((2, spine.n_geounits(spine.finest)), dtype=np.int64)
    counts[:, rows] = numbers.to_numpy().T
    return ResidentCounts(item["name"], counts[0], counts[1], item.get("households"), item.get("geolevel"))
