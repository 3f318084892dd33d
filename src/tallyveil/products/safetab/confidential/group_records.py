"""Reads records of any kind into the population groups that each of them is in. Confidential."""

import hashlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Bools, Integers
from tallyveil.confidential.histogram import REDACTED
from tallyveil.errors import SchemaError, TallyveilError
from tallyveil.products.safetab.public.files import raise_all
from tallyveil.products.safetab.public.group_plan import GroupPlan, MappedLevel
from tallyveil.products.safetab.public.groupings import Grouping, ValueMap
from tallyveil.storage.read import collect_batches, require_levels, scan_table

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ConfidentialGroups:
    """The groups of every record at one level, in order of the group and the cell. Confidential.

    Attributes:
        level: The level.
        places: Position of the group, counted row by row, for each pair of a record and one of its groups; int64,
            ascending.
        cells: Cell of the record; int64.
    """

    level: MappedLevel
    places: Integers
    cells: Integers

    def __repr__(self) -> str:
        return f"ConfidentialGroups(level={self.level.name!r}, records={REDACTED})"

    def totals(self, rows: Integers) -> Integers:
        """Records in each group of some rows, shape (rows, width)."""
        groups, _ = self._within(rows)
        # `minlength` keeps the empty groups behind the last occupied one, which are measured like all others.
        size = len(rows) * self.level.width
        return np.bincount(groups, minlength=size).astype(np.int64).reshape(len(rows), self.level.width)

    def tables(self, rows: Integers, slots: NDArray[np.int32], n: int) -> Integers:
        """Tables of the cells of some groups; see `LevelCounts.tables`."""
        finest, adaptive = self.level.ladder.finest_cells, self.level.n_adaptive
        groups, cells = self._within(rows)
        row, column = np.divmod(groups, self.level.width)
        # Total-only columns have no entry in `slots`, which is as wide as the adaptive part of a row.
        slot = np.full(len(groups), -1, np.int64)
        tabulated = column < adaptive
        slot[tabulated] = slots.ravel()[row[tabulated] * adaptive + column[tabulated]]
        wanted = slot >= 0
        # One bincount over (slot, cell) is O(records of the rows) and needs no loop over the groups.
        flat = slot[wanted] * finest + cells[wanted]
        return np.bincount(flat, minlength=n * finest).astype(np.int64).reshape(n, finest)

    def _within(self, rows: Integers) -> tuple[Integers, Integers]:
        """Groups, numbered from the first one of these rows, and cells of the records in the rows."""
        width = self.level.width
        # Places are sorted, so that the records of neighbouring rows are one slice, found in O(log n).
        bounds = np.searchsorted(self.places, (rows[0] * width, (rows[-1] + 1) * width))
        span = slice(int(bounds[0]), int(bounds[1]))
        row, column = np.divmod(self.places[span], width)
        # The slice also has the rows between the first and the last one that were not asked for; these are
        # dropped. `place` is in range, because no row of the slice is above the last one asked for.
        place = np.searchsorted(rows, row)
        asked = rows[place] == row
        return place[asked] * width + column[asked], self.cells[span][asked]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class RecordGroups:
    """The groups of every record, at every level. Confidential.

    Attributes:
        levels: By level, in the order of the plan.
    """

    levels: tuple[ConfidentialGroups, ...]

    def __repr__(self) -> str:
        return f"RecordGroups(records={REDACTED})"

    def of(self, level: MappedLevel) -> ConfidentialGroups:
        """The groups at one level."""
        return self.levels[level.number]

    def digest(self) -> bytes:
        """SHA-256 of the groups and cells, whatever the order of the records."""
        digest = hashlib.sha256()
        for level in self.levels:
            # The length keeps two arrays apart that would give the same bytes when written one after the
            # other.
            digest.update(len(level.places).to_bytes(8, "little"))
            for array in (level.places, level.cells):
                # Little endian whatever the machine: the digest binds the key, and a run may go on elsewhere.
                digest.update(array.astype("<i8").tobytes())
        return digest.digest()


def read_group_records(path: Path, plan: GroupPlan) -> RecordGroups:
    """Read records in batches, and find the groups of each.

    Args:
        path: Parquet or CSV file, with one row for each record.
        plan: Attributes, groupings and levels.
    Raises:
        SchemaError: a value is unknown, or a record is in more groups of a level than the plan allows.
        ConfigError, StoreError: the file or a column is missing or unreadable.
    Privacy: messages name only columns, levels and rules, never a value, a group or a number of records.
    """
    attributes = dict(plan.columns)
    maps = [value_map for grouping in plan.groupings for value_map in grouping.maps]
    named = dict.fromkeys(
        [*attributes.values(), *(column for value_map in maps for column in value_map.columns)]
    )
    frame = scan_table(path, list(named), "records", confidential=True)
    require_levels(frame, list(named), path, "records")
    # Codes are made inside the query, so that the texts of a column are never all in memory.
    coded, collected = frame.select(_coded(plan)), _Collected(plan)
    for batch in collect_batches(coded, path, "records"):
        collected.add(batch)
    # Only after the last batch: the message then names every broken rule, and its moment tells nothing of
    # where in the file a record breaks it.
    collected.refuse(path)
    logger.info("records read and valid")
    return collected.finished()


def _coded(plan: GroupPlan) -> list[pl.Expr]:
    """Codes of levels and of values, null if unknown; and whether a value of a grouping is missing."""
    column_of = dict(plan.columns)
    expressions = [
        _code(pl.col(column_of[a.name]), a.levels).alias(f"attribute {n}")
        for n, a in enumerate(plan.schema.attributes)
    ]
    for name, value_map, columns in _values(plan):
        texts = [pl.col(column).cast(pl.String) for column in columns]
        absent = ["", *value_map.missing]
        missing = pl.any_horizontal(
            (text.is_null() | text.is_in(absent)).fill_null(value=True) for text in texts
        )
        # -1 stands for a missing value, null for an unknown one.
        code = (
            pl.when(missing).then(-1).otherwise(_code(pl.concat_str(texts), value_map.values).cast(pl.Int64))
        )
        expressions.append(code.alias(name))
    return expressions


def _values(plan: GroupPlan) -> Iterator[tuple[str, ValueMap, tuple[str, ...]]]:
    """For each value that a map reads of a record: its name in a batch, the map, and the columns that hold it."""
    for n, grouping in enumerate(plan.groupings):
        for m, value_map in enumerate(grouping.maps):
            held = (
                [value_map.columns]
                if value_map.match == "joined"
                else [(column,) for column in value_map.columns]
            )
            for k, columns in enumerate(held):
                yield f"value {n} {m} {k}", value_map, columns


def _code(text: pl.Expr, levels: Sequence[str]) -> pl.Expr:
    # Not strict: an unknown text becomes null here and is reported by column alone, without its value.
    return text.cast(pl.String).cast(pl.Enum(list(levels)), strict=False).to_physical()


@dataclass(slots=True, repr=False, eq=False)
class _Collected:
    """The groups of the records read so far, and the rules that they break, without where they break them."""

    plan: GroupPlan
    unknown: set[str] = field(default_factory=set)
    over: set[str] = field(default_factory=set)
    parts: list[list[tuple[Integers, Integers]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.parts = [[] for _ in self.plan.levels]

    def add(self, batch: pl.DataFrame) -> None:
        """Add the records of a batch."""
        # Before nulls are dropped, because a null is how an unknown value is seen.
        self.unknown |= self._unknown(batch)
        batch = batch.drop_nulls()  # the other rules are checked with the records whose values are known
        schema = self.plan.schema
        codes = [batch[f"attribute {n}"].to_numpy() for n in range(len(schema.attributes))]
        # A record's cell does not depend on its groups, so it is computed once for all levels.
        cells = schema.encode(np.stack(codes, axis=1))
        members = {
            grouping.name: _members(grouping, [self._codes(batch, value_map) for value_map in grouping.maps])
            for grouping in self.plan.groupings
        }
        for level, parts in zip(self.plan.levels, self.parts, strict=True):
            pairs = [members[value_map.name] for value_map in level.listed.groupings]
            # Combinations of a record: the product over the groupings of its groups in each. One grouping
            # without a group gives 0, and the record is in no group of the level.
            sizes = np.ones(batch.height, np.int64)
            for records, _ in pairs:
                sizes *= np.bincount(records, minlength=batch.height)
            # Refused and never truncated: dropping a group of a record silently would make its count wrong,
            # and keeping it would break the stability that the noise was chosen for.
            if (sizes > level.stability).any():
                self.over.add(level.name)
            else:
                records, places = _combined(level, pairs, batch.height)
                parts.append((places, cells[records]))

    def _codes(self, batch: pl.DataFrame, value_map: ValueMap) -> list[Integers]:
        # By identity: two maps may be equal and still be of two groupings.
        return [batch[name].to_numpy() for name, source, _ in _values(self.plan) if source is value_map]

    def _unknown(self, batch: pl.DataFrame) -> set[str]:
        columns = dict(self.plan.columns)
        held: dict[str, tuple[str, ...]] = {
            f"attribute {n}": (columns[a.name],) for n, a in enumerate(self.plan.schema.attributes)
        }
        held |= {name: sources for name, _, sources in _values(self.plan)}
        return {column for code, sources in held.items() if batch[code].null_count() for column in sources}

    def refuse(self, path: Path) -> None:
        """Raise one error that names every broken rule, if there is any."""
        problems: list[TallyveilError] = []
        if self.unknown:
            listed = ", ".join(f"'{name}'" for name in sorted(self.unknown))
            problems.append(
                SchemaError(
                    f"column(s) {listed} of the records {path} have values that the file of the release does not list "
                    "(or, for an attribute, no value). Recode the column, or add the values to [cells] or to the "
                    "grouping's list.",
                    code="unknown-level",
                )
            )
        if self.over:
            listed = ", ".join(f"'{name}'" for name in sorted(self.over))
            problems.append(
                SchemaError(
                    f"records of {path} are in more groups of the level(s) {listed} than most_groups allows. Raise "
                    "most_groups (it sets the noise), or leave values out of the records before the run.",
                    code="groups-too-many",
                )
            )
        raise_all(problems, "the records")

    def finished(self) -> RecordGroups:
        """The groups of all records, level by level."""
        levels = []
        for level, parts in zip(self.plan.levels, self.parts, strict=True):
            # So that a file without any record of a level still concatenates to int64.
            none = np.empty(0, np.int64)
            places, cells = (np.concatenate([none, *(part[n] for part in parts)]) for n in (0, 1))
            # The parts of a level are freed before the next one is joined: two copies of one level, not of
            # all.
            parts.clear()
            # Sorted by group, then cell: the digest must not depend on the order of the records in the file.
            order = np.lexsort((cells, places))
            levels.append(ConfidentialGroups(level, places[order], cells[order]))
        return RecordGroups(tuple(levels))


def _members(grouping: Grouping, codes: Sequence[Sequence[Integers]]) -> tuple[Integers, Integers]:
    """Pairs of a record and a group of one grouping that it is in, each once, in order of the record.

    Args:
        grouping: The grouping.
        codes: For each of its maps, the codes of the values that it reads of every record.
    """
    n_groups = len(grouping.groups)
    pairs = [
        _mapped(value_map, columns, n_groups) for value_map, columns in zip(grouping.maps, codes, strict=True)
    ]
    # A record that two maps put into the same group counts in it once; they are sorted by record, too.
    records, groups = np.divmod(_each_once(np.concatenate(pairs)), n_groups)
    return records, groups


def _each_once(numbers: Integers) -> Integers:
    """The different numbers, sorted. np.unique takes a hash table, and ten times as long where most are different."""
    ordered = np.sort(numbers, kind="stable")  # which takes next to no time where they are sorted already
    return np.asarray(ordered[np.diff(ordered, prepend=-1) != 0])


def _mapped(value_map: ValueMap, columns: Sequence[Integers], n_groups: int) -> Integers:
    """Numbers record * n_groups + group of the records in groups of one map, each once."""
    # -1 is a missing value, which puts a record into no group.
    known = [np.flatnonzero(codes >= 0) for codes in columns]
    n_values = len(value_map.values)
    coded = [rows * n_values + codes[rows] for rows, codes in zip(known, columns, strict=True)]
    held = np.divmod(_each_once(np.concatenate(coded)), n_values)  # each value of a record once
    # A compressed row layout of the pairs: groups of value v from first[v] on, n_of[v] of them.
    order = np.argsort(value_map.pairs[:, 0])
    groups, n_of = value_map.pairs[order, 1], np.bincount(value_map.pairs[:, 0], minlength=n_values)
    first = np.cumsum(n_of) - n_of
    times = n_of[held[1]]
    # 0, 1, ... within each run of length `times`: the flat index minus the start of its run.
    within = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
    flat = np.repeat(held[0], times) * n_groups + groups[np.repeat(first[held[1]], times) + within]
    numbers: Integers
    numbers, times_met = np.unique(flat, return_counts=True)
    # Each pair (value, group) is listed once, so a shared group is found once for each value.
    if value_map.match == "all":
        shared: Bools = times_met == np.bincount(held[0])[numbers // n_groups]
        numbers = numbers[shared]
    return numbers


def _combined(
    level: MappedLevel, pairs: Sequence[tuple[Integers, Integers]], n_records: int
) -> tuple[Integers, Integers]:
    """Records and positions of their groups: every combination of a record's groups in the level's groupings."""
    records, combination = np.arange(n_records), np.zeros(n_records, np.int64)
    for grouping, (members, groups) in zip(level.listed.groupings, pairs, strict=True):
        n_of = np.bincount(members, minlength=n_records)
        first = np.cumsum(n_of) - n_of
        times = n_of[records]
        # Every combination so far is repeated for each group of its record in this grouping, as in a product of lists.
        within = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
        places = np.repeat(first[records], times) + within
        records = np.repeat(records, times)
        # C order over the groupings, the last one fastest, as `GroupList.places` reads it. The product of the
        # sizes is at most 2**27, so it fits int64.
        combination = np.repeat(combination, times) * len(grouping.groups) + groups[places]
    return records, level.listed.places(combination)
