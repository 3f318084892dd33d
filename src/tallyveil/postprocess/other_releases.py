"""Other finished releases that a release agrees with, or whose counts of people limit its own.

Only published files are read. An agreement keeps published counts at every geolevel; they stay sparse,
because a block has few of the thousands of answers that agree. Residents are published numbers of people and
of adults who live in the units that a release counts. They are written so that the folder of the release
alone says all.

Layout: `residents/00.parquet` holds the first residents of the plan, and so on. Its columns are `geocode`,
`people` and `adults`, at the finest geolevel. Finest geounits without a row have no people.
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
from tallyveil.errors import ConstraintError, SchemaError, StoreError, TallyveilError
from tallyveil.files.geography import read_geography
from tallyveil.files.histograms import histogram_path, read_histogram
from tallyveil.files.manifest import Manifest, ReleaseKind
from tallyveil.files.manifest_files import read_manifest, require_unchanged
from tallyveil.geography.areas import Hierarchies
from tallyveil.geography.spine import Spine
from tallyveil.plans.constraints import Agreement, Levels, Residents
from tallyveil.postprocess.constraints import ConstraintTable
from tallyveil.schema.counts import (
    ENTRIES_AT_ONCE,
    LARGEST_COUNT,
    PublicCounts,
    TripletSum,
    narrow_limits,
    row_ranges,
    sum_families,
)
from tallyveil.schema.nested_queries import representative_cells
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema, schema_from_mapping
from tallyveil.storage.json_files import JsonObject
from tallyveil.storage.paths import inside
from tallyveil.storage.read import collect, scan_parquet
from tallyveil.storage.write import write_parquet

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


@dataclass(frozen=True, slots=True, eq=False)
class AgreedCounts:
    """Counts that the release keeps exactly.

    Attributes:
        name: Name in errors and checks.
        query: The query whose answers are kept.
        counts: Counts of every geolevel, root first. Each answer is represented by one cell, the first one of its
            groups (`representative_cells`).
    """

    name: str
    query: QueryGroup
    counts: tuple[PublicCounts, ...]

    def digest(self) -> bytes:
        """SHA-256 of the finest counts, from which all others follow."""
        digest = hashlib.sha256(f"{self.name}\0{self.query.name}".encode())
        finest = self.counts[-1]
        for array in (finest.offsets, finest.cells, finest.counts):
            for start in range(0, len(array), ENTRIES_AT_ONCE):
                # As int64, whatever the compact type is.
                digest.update(array[start : start + ENTRIES_AT_ONCE].astype("<i8").tobytes())
        return digest.digest()

    def table(self) -> ConstraintTable:
        """The same as a table with a number for every answer of every geounit."""
        lower = []
        for counts in self.counts:
            rows, cells, persons = counts.rows(0, counts.n_geounits)
            dense = np.zeros((counts.n_geounits, self.query.size), dtype=np.int64)
            dense[rows, self.query.answers_of(cells)] = persons
            lower.append(narrow_limits(dense))
        # One array for both bounds, which marks the constraint as exact.
        return ConstraintTable(self.name, self.query, tuple(lower), tuple(lower))


@dataclass(frozen=True, slots=True, eq=False)
class Agreed:
    """An agreement that was read.

    Attributes:
        counts: The counts.
        record: What the manifest says of them.
        release: The release that published them.
    """

    counts: AgreedCounts
    record: JsonObject
    release: NamedRelease


def agreement_name(name: str) -> str:
    """Name of an agreement's counts in checks and errors."""
    return f"agreement {name}"


def read_agreement(item: Agreement, schema: Schema, hierarchies: Hierarchies) -> Agreed:
    """The published counts that a release shall agree with, from the folder of the finished release.

    Args:
        item: The agreement.
        schema: The universe of the new release.
        hierarchies: Its spine.
    Raises:
        ConstraintError: no folder is named; the labels of the two queries, or the finest geounits, differ.
        StoreError: the folder holds no finished release of counts, or a file in it is damaged.
        SchemaError: the other release has no such query.
    """
    theirs = open_finished(f"[[agreement]] '{item.name}'", item.path)
    other = their_query(item, theirs.schema)
    query = schema.query(item.query)
    answers = same_answers(item, query, other)
    spine, rows = hierarchies.spine, theirs.same_geounits(hierarchies.spine)
    their_counts = theirs.finest_counts()
    total = TripletSum(spine.n_geounits(spine.finest), schema.size)
    for start, stop in row_ranges(their_counts.offsets):
        geounits, cells, persons = their_counts.rows(start, stop)
        their_answers = other.answers_of(cells)
        # Records that their query leaves out have no answer, and no promise.
        inside = their_answers >= 0
        named = representative_cells(query, answers[their_answers[inside]])
        total.add(rows[start + geounits[inside]], named, persons[inside])
    finest = PublicCounts(spine.geolevels[-1], *total.finish())
    counts = AgreedCounts(agreement_name(item.name), query, summed_to_root(finest, spine, schema.size))
    return Agreed(counts, {**mapping_of(item), **theirs.release.named}, theirs.release)


def promised_counts(item: Agreement, schema: Schema, spine: Spine) -> AgreedCounts:
    """What stands for the counts of a release that is not made yet: the query, and no counts.

    Args:
        item: The agreement.
        schema: The universe of the new release.
        spine: Its spine.
    """
    levels = [
        PublicCounts(name, *TripletSum(spine.n_geounits(level), schema.size).finish())
        for level, name in enumerate(spine.geolevels)
    ]
    return AgreedCounts(agreement_name(item.name), schema.query(item.query), tuple(levels))


# Each geolevel from the one below: fewer entries than the finest.
def summed_to_root(counted: PublicCounts, spine: Spine, n_cells: int) -> tuple[PublicCounts, ...]:
    """Counts of a geolevel and of every one above it, root first, from those of the former."""
    counts = [counted]
    for level in range(spine.level_index(counted.geolevel) - 1, -1, -1):
        below = counts[-1]
        summed = sum_families(below.offsets, below.cells, below.counts, spine.child_offsets[level], n_cells)
        counts.append(PublicCounts(spine.geolevels[level], *summed))
    return tuple(reversed(counts))


def their_query(item: Agreement, schema: Schema) -> QueryGroup:
    """The query of the other release, whose schema is given; raises SchemaError if it has no such query."""
    try:
        return schema.query(item.theirs)
    except SchemaError as error:
        raise SchemaError(
            f"[[agreement]] '{item.name}': 'theirs' names no query of the other release. {error}",
            code=error.code,
        ) from error


def same_answers(item: Agreement, query: QueryGroup, other: QueryGroup) -> Integers:
    """The answer of `query` that has the labels of each answer of `other`; of two queries of one answer, this answer.

    Args:
        item: The agreement, for messages.
        query: The query of the new release.
        other: The query of the release that it agrees with.
    Raises:
        ConstraintError: the labels of the two differ.
    """
    # Two totals agree whatever they are called.
    if query.size == 1 and other.size == 1 and not other.overlaps:
        return np.zeros(1, dtype=np.int64)
    ours, theirs = _named_in_order(query, item.query), _named_in_order(other, item.theirs)
    places: list[tuple[int, Integers]] = []
    fit = len(ours) == len(theirs) and not other.overlaps
    for mine, its in zip(ours, theirs, strict=False):
        labels, wanted = query.factors[mine].labels, other.factors[its].labels
        # The same labels in any order; the order is translated below.
        fit = fit and sorted(labels) == sorted(wanted)
        if not fit:
            break
        places.append((its, np.array([labels.index(label) for label in wanted], dtype=np.int64)))
    if not fit:
        raise ConstraintError(
            f"[[agreement]] '{item.name}': the labels of '{item.query}' are not those of '{item.theirs}' of the "
            f"release in {item.path}. Ours: {_shown(query)}. Theirs: {_shown(other)}. Name two queries with the same "
            "labels, factor by factor in the same order.",
            code="agreement-labels",
        )
    codes = np.unravel_index(np.arange(other.size), other.shape)
    number = np.zeros((len(query.factors), other.size), dtype=np.int64)
    for mine, (its, code_of) in zip(ours, places, strict=True):
        number[mine] = code_of[codes[its]]
    return np.asarray(np.ravel_multi_index(tuple(number), query.shape), dtype=np.int64)


def _named_in_order(query: QueryGroup, spec: str) -> list[int]:
    """Numbers of the attributes that a query names, in the order in which the specification names them."""
    by_name = {factor.name: number for number, factor in enumerate(query.factors) if factor.name is not None}
    names = [name.strip() for name in spec.split("*")]
    return [by_name[name] for name in names] if set(names) == set(by_name) else list(by_name.values())


def _shown(query: QueryGroup) -> str:
    parts = []
    for factor in query.factors:
        if factor.name is not None:
            labels = ", ".join(factor.labels[:4]) + (", ..." if factor.size > 4 else "")
            parts.append(f"{factor.name} with {factor.size} ({labels})")
    return "; ".join(parts) or "the total"


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
