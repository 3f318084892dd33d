"""Agreement with a finished release: its published counts, which the counts of this release keep at every geolevel.

Only published files are read. The counts stay sparse: a block has few of the thousands of answers that agree.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.errors import ConstraintError, SchemaError, StoreError
from tallyveil.geography.areas import Hierarchies
from tallyveil.geography.spine import Spine
from tallyveil.plans.constraints import Agreement
from tallyveil.postprocess.constraints import ConstraintTable
from tallyveil.release.geography import read_geography
from tallyveil.release.histograms import histogram_path, read_histogram
from tallyveil.release.kinds import ReleaseKind
from tallyveil.release.manifest import Manifest
from tallyveil.release.manifest_files import read_manifest, require_unchanged
from tallyveil.storage.json_files import JsonObject
from tallyveil.universe.counts import ENTRIES_AT_ONCE, PublicCounts, TripletSum, row_ranges, sum_families
from tallyveil.universe.limits import LARGEST_COUNT, narrow_limits
from tallyveil.universe.nested_queries import representative_cells
from tallyveil.universe.presets import schema_from_mapping
from tallyveil.universe.query_group import QueryGroup
from tallyveil.universe.schema import Schema

_LARGEST_SUM: Final = 2 * LARGEST_COUNT
"""No release publishes more records: its noise adds less than the largest number of records."""


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
        return ConstraintTable(self.name, self.query, tuple(lower), tuple(lower))


@dataclass(frozen=True, slots=True, eq=False)
class Agreed:
    """An agreement that was read.

    Attributes:
        counts: The counts.
        record: What the manifest says of them.
        protected: Whether the release that published them protects anybody.
    """

    counts: AgreedCounts
    record: JsonObject
    protected: bool


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
    if item.path is None:
        raise ConstraintError(
            f"[[agreement]] '{item.name}' names no path. Name the folder of the finished release, or run the file as "
            "part of a programme of releases, which knows the folder.",
            code="agreement-path",
        )
    manifest = read_manifest(item.path, ReleaseKind.TOPDOWN)
    theirs = schema_from_mapping(manifest.body["plan"]["schema"])
    other = their_query(item, theirs)
    query = schema.query(item.query)
    answers = same_answers(item, query, other)
    spine, made = hierarchies.spine, read_geography(item.path)
    rows = _same_geounits(item, spine, made)
    found = _finest_counts(item.path, manifest, theirs, made)
    total = TripletSum(spine.n_geounits(spine.finest), schema.size)
    for start, stop in row_ranges(found.offsets):
        own, cells, persons = found.rows(start, stop)
        kept = other.answers_of(cells)
        inside = kept >= 0
        named = representative_cells(query, answers[kept[inside]])
        total.add(rows[start + own[inside]], named, persons[inside])
    finest = PublicCounts(spine.geolevels[-1], *total.finish())
    counts = AgreedCounts(agreement_name(item.name), query, summed_to_root(finest, spine, schema.size))
    record = {**item.to_mapping(), "run": manifest.run, "plan_digest": manifest.plan_digest}
    return Agreed(counts, record, manifest.protected)


def refuse_unprotected(agreed: Sequence[Agreed]) -> None:
    """Refuse counts of releases that were made with an insecure test key, for a release that shall protect people.

    Raises:
        ConstraintError: there are such counts.
    """
    for one in agreed:
        if not one.protected:
            raise ConstraintError(
                f"[[agreement]] '{one.record['name']}': the release that it names was made with an insecure test key "
                "and protects nobody. A release that keeps its counts would protect nobody either. Name a release that "
                "was made without a test key, or give --insecure-test-key for a trial. Nothing was spent.",
                code="agreement-unprotected",
            )


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


def summed_to_root(finest: PublicCounts, spine: Spine, n_cells: int) -> tuple[PublicCounts, ...]:
    """Counts of every geolevel, root first, from those of the finest one."""
    counts = [finest]
    for level in range(spine.finest - 1, -1, -1):
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
    """The answer of `query` that has the labels of each answer of `other`.

    Args:
        item: The agreement, for messages.
        query: The query of the new release.
        other: The query of the release that it agrees with.
    Raises:
        ConstraintError: the labels of the two differ.
    """
    ours, theirs = _named_in_order(query, item.query), _named_in_order(other, item.theirs)
    places: list[tuple[int, Integers]] = []
    fit = len(ours) == len(theirs) and not other.overlaps
    for mine, its in zip(ours, theirs, strict=False):
        labels, wanted = query.factors[mine].labels, other.factors[its].labels
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


def _same_geounits(item: Agreement, spine: Spine, made: Spine) -> Integers:
    """Our finest geounit of each of theirs; raises ConstraintError if the two sets differ."""
    theirs = made.geocodes[made.finest].text
    rows = spine.locate(spine.finest, theirs)
    ours = spine.n_geounits(spine.finest)
    if len(theirs) == ours and bool((rows >= 0).all()):
        return rows
    missing = theirs.filter(pl.Series(rows < 0))
    example = f", such as '{missing[0]}', which only the other has" if len(missing) else ""
    raise ConstraintError(
        f"[[agreement]] '{item.name}': the release in {item.path} has {len(theirs):,} {made.geolevels[-1]} geounits "
        f"and this one has {ours:,} {spine.geolevels[-1]} geounits, and they are not the same{example}. Both releases "
        "must have the same finest geounits. Make both from one geography table.",
        code="agreement-geography",
    )


def _finest_counts(root: Path, manifest: Manifest, schema: Schema, spine: Spine) -> PublicCounts:
    geolevel = spine.geolevels[-1]
    path = histogram_path(root, geolevel)
    counts = read_histogram(root, geolevel, schema, spine)
    require_unchanged(root, manifest, path)
    numbers = counts.counts
    # With the largest number below 2**33, the sum of all numbers fits int64.
    if len(numbers) and (numbers.min() < 0 or numbers.max() > _LARGEST_SUM or numbers.sum() > _LARGEST_SUM):
        raise StoreError(
            f"{path} holds a count below 0, or counts larger than any release has. It was changed after it was "
            "written; restore it from a copy of the release.",
            code="release-damaged",
        )
    return counts
