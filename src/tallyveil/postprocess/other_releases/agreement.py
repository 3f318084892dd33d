"""Agreement with a finished release: its published counts, which the counts of this release keep at every geolevel.

Only published files are read. The counts stay sparse: a block has few of the thousands of answers that agree.
"""

import hashlib
from dataclasses import dataclass

import numpy as np

from tallyveil.arrays import Integers
from tallyveil.declared import mapping_of
from tallyveil.errors import ConstraintError, SchemaError
from tallyveil.geography.areas import Hierarchies
from tallyveil.geography.spine import Spine
from tallyveil.plans.constraints import Agreement
from tallyveil.postprocess.constraints.geolevels import ConstraintTable
from tallyveil.postprocess.other_releases.release import NamedRelease, open_finished
from tallyveil.schema.counts import (
    ENTRIES_AT_ONCE,
    PublicCounts,
    TripletSum,
    narrow_limits,
    row_ranges,
    sum_families,
)
from tallyveil.schema.nested_queries import representative_cells
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema
from tallyveil.storage.json_files import JsonObject


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
