"""Reads records of any kind into the population groups that each of them is in. Confidential."""

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.confidential.histogram import REDACTED
from tallyveil.errors import SchemaError, TallyveilError
from tallyveil.safetab.group_plan import GroupPlan, MappedLevel
from tallyveil.safetab.groupings import Grouping
from tallyveil.safetab.input_errors import raise_all
from tallyveil.storage.read import collect_batches, require_levels, scan_table

logger = logging.getLogger(__name__)

_ROW: Final = "record"
"""Of a batch: the number of a record."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ConfidentialGroups:
    """The groups of every record at one level, in order of the group and the cell. Confidential.

    Attributes:
        level: The level.
        places: Position of the group, for each pair of a record and one of its groups; int64, ascending.
        cells: Cell of the record; int64.
    """

    level: MappedLevel
    places: Integers
    cells: Integers

    def __repr__(self) -> str:
        return f"ConfidentialGroups(level={self.level.name!r}, records={REDACTED})"

    def totals(self, rows: Integers) -> Integers:
        """Records in each group, shape (1, groups); a level has one row."""
        return np.bincount(self.places, minlength=self.level.width).astype(np.int64)[None, :]

    def tables(self, rows: Integers, slots: NDArray[np.int32], n: int) -> Integers:
        """Tables of the cells of some groups; see `LevelCounts.tables`."""
        width = self.level.ladder.finest_cells
        adaptive = slice(0, int(np.searchsorted(self.places, self.level.n_adaptive)))
        slot = slots.reshape(-1)[self.places[adaptive]].astype(np.int64)
        wanted = slot >= 0
        flat = slot[wanted] * width + self.cells[adaptive][wanted]
        return np.bincount(flat, minlength=n * width).astype(np.int64).reshape(n, width)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class RecordGroups:
    """The groups of every record, at every level. Confidential.

    Attributes:
        levels: By level, in the order of the plan.
    """

    levels: tuple[ConfidentialGroups, ...]

    def __repr__(self) -> str:
        return f"RecordGroups(records={REDACTED})"

    def of(self, one: MappedLevel) -> ConfidentialGroups:
        """The groups at one level."""
        return self.levels[one.geolevel]

    def digest(self) -> bytes:
        """SHA-256 of the groups and cells, whatever the order of the records."""
        digest = hashlib.sha256()
        for one in self.levels:
            digest.update(len(one.places).to_bytes(8, "little"))
            for array in (one.places, one.cells):
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
    named = dict.fromkeys([*attributes.values(), *(c for one in plan.groupings for c in one.columns)])
    frame = scan_table(path, list(named), "records", confidential=True)
    require_levels(frame, list(named), path, "records")
    coded, found = frame.select(_coded(plan)), _Collected(plan)
    for batch in collect_batches(coded, path, "records"):
        found.add(batch)
    found.refuse(path)
    logger.info("records read and valid")
    return found.finished()


def _coded(plan: GroupPlan) -> list[pl.Expr]:
    """Codes of levels and of values, null if unknown; and whether a value of a grouping is missing."""
    columns = dict(plan.columns)
    found = [
        _code(columns[a.name], a.levels).alias(f"attribute {n}") for n, a in enumerate(plan.schema.attributes)
    ]
    for n, one in enumerate(plan.groupings):
        for m, column in enumerate(one.columns):
            text = pl.col(column).cast(pl.String)
            missing = (text.is_null() | (text == "")).fill_null(value=True)
            # -1 stands for a missing value, null for an unknown one.
            code = pl.when(missing).then(-1).otherwise(_code(column, one.values).cast(pl.Int64))
            found.append(code.alias(f"grouping {n} {m}"))
    return found


def _code(column: str, levels: Sequence[str]) -> pl.Expr:
    return pl.col(column).cast(pl.String).cast(pl.Enum(list(levels)), strict=False).to_physical()


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
        own = self._unknown(batch)
        self.unknown |= own
        if own:
            return
        schema = self.plan.schema
        codes = [batch[f"attribute {n}"].to_numpy() for n in range(len(schema.attributes))]
        cells = schema.encode(np.stack(codes, axis=1))
        members = {
            one.name: _members(one, [batch[f"grouping {n} {m}"].to_numpy() for m in range(len(one.columns))])
            for n, one in enumerate(self.plan.groupings)
        }
        for level, parts in zip(self.plan.levels, self.parts, strict=True):
            pairs = [members[one.name] for one in level.groups.groupings]
            sizes = np.ones(batch.height, np.int64)
            for records, _ in pairs:
                sizes *= np.bincount(records, minlength=batch.height)
            if sizes.max() > level.stability:
                self.over.add(level.name)
            else:
                records, places = _combined(level, pairs, batch.height)
                parts.append((places, cells[records]))

    def _unknown(self, batch: pl.DataFrame) -> set[str]:
        columns = dict(self.plan.columns)
        attributes = {f"attribute {n}": columns[a.name] for n, a in enumerate(self.plan.schema.attributes)}
        values = {
            f"grouping {n} {m}": column
            for n, one in enumerate(self.plan.groupings)
            for m, column in enumerate(one.columns)
        }
        return {column for code, column in (attributes | values).items() if batch[code].null_count()}

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
        found = []
        for level, parts in zip(self.plan.levels, self.parts, strict=True):
            none = np.empty(0, np.int64)
            places, cells = (np.concatenate([none, *(part[n] for part in parts)]) for n in (0, 1))
            parts.clear()
            order = np.lexsort((cells, places))
            found.append(ConfidentialGroups(level, places[order], cells[order]))
        return RecordGroups(tuple(found))


def _members(one: Grouping, columns: Sequence[Integers]) -> tuple[Integers, Integers]:
    """Pairs of a record and a group of one grouping that it is in, each once, in order of the record."""
    known = [np.flatnonzero(codes >= 0) for codes in columns]
    n_values = len(one.values)
    coded = [own * n_values + codes[own] for own, codes in zip(known, columns, strict=True)]
    held = np.divmod(np.unique(np.concatenate(coded)), n_values)  # each value of a record once
    order = np.argsort(one.pairs[:, 0], kind="stable")
    groups, n_of = one.pairs[order, 1], np.bincount(one.pairs[:, 0], minlength=n_values)
    first = np.cumsum(n_of) - n_of
    times = n_of[held[1]]
    within = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
    flat = np.repeat(held[0], times) * len(one.groups) + groups[np.repeat(first[held[1]], times) + within]
    found, n_found = np.unique(flat, return_counts=True)
    records, group = np.divmod(found, len(one.groups))
    # Each pair (value, group) is listed once, so a shared group is found once for each value.
    if one.match == "all":
        shared = n_found == np.bincount(held[0], minlength=1)[records]
        records, group = records[shared], group[shared]
    return records, group


def _combined(
    level: MappedLevel, pairs: Sequence[tuple[Integers, Integers]], n_records: int
) -> tuple[Integers, Integers]:
    """Records and positions of their groups: every combination of a record's groups in the level's groupings."""
    records, combination = np.arange(n_records), np.zeros(n_records, np.int64)
    for one, (members, groups) in zip(level.groups.groupings, pairs, strict=True):
        n_of = np.bincount(members, minlength=n_records)
        first = np.cumsum(n_of) - n_of
        times = n_of[records]
        within = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
        places = np.repeat(first[records], times) + within
        records = np.repeat(records, times)
        combination = np.repeat(combination, times) * len(one.groups) + groups[places]
    return records, level.groups.place_of[combination]
