"""The tables of a site: for every answer the published count, what stands beside it, and classes for its map.

Classes have about equally many areas each, and limits that are short numbers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import floor, log10
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Floats, Integers
from tallyveil.explore.files import (
    CHUNK,
    DATA,
    classes_path,
    number_columns,
    table_path,
    write_data,
    write_json_data,
)
from tallyveil.explore.opened import COUNT, Block, OpenedRelease, TableRows
from tallyveil.report.release_files import schema_titles
from tallyveil.schema.query_group import QueryGroup
from tallyveil.storage.json_files import JsonObject
from tallyveil.words.language import phrase

# Classes of a map, which eyes still tell apart by colour. At half, maps lose their differences; at twice, neighbouring
# colours look alike.
CLASSES: Final = 7
DIGITS: Final = 3
"""Most significant digits of a limit that is no count. The page writes as many."""
_SPAN: Final = 0.25
"""How far a limit may lie from its quantile to be a shorter number, as a part of a class."""


@dataclass(frozen=True, slots=True, eq=False)
class Frequencies:
    """The values of an answer.

    Attributes:
        values: The different values, in rising order.
        areas: How many areas have each of them.
    """

    values: NDArray[Any]
    areas: Integers


def class_limits(frequencies: Frequencies) -> JsonObject | None:
    """Describe the classes of some values.

    Estimates may be negative. Those that are stand in the lowest class, as zeros do.

    A class holds the values from its limit up to the next one. Zero has a class of its own if at least one area in
    `CLASSES` has it. The other areas are divided into parts of about equal size. No class is empty.

    Returns:
        `least` and `most` value, `limits` of the classes after the first one, and `zero`: whether the first class is
        zero alone. None without values.
    """
    values, areas = frequencies.values, frequencies.areas
    if not len(values):
        return None
    least, most = values[0].item(), values[-1].item()
    if least < 0:
        values, places = np.unique(np.maximum(values, 0), return_inverse=True)
        areas = np.bincount(places, areas).astype(np.int64)
    # Zero gets a class only if it would fill one; a rare zero belongs to the lowest class.
    zero = bool(least == 0 and areas[0] * CLASSES >= areas.sum())
    limits = list(_limits(values, areas, zero))
    return {
        "least": least,
        "most": most,
        "limits": _filled(limits, values),
        "zero": zero,
    }


def _limits(values: NDArray[Any], areas: Integers, zero: bool) -> Iterator[float]:
    """Limits in rising order. Classes between them may be empty."""
    # So few values are their own classes.
    if len(values) <= CLASSES:
        between = [
            (value, value, low) for low, value in zip(values[:-1].tolist(), values[1:].tolist(), strict=True)
        ]
    else:
        between = _between(values, areas, zero)
    whole = values.dtype.kind == "i"
    for wanted, high, low in between:
        limit = shortest(low, high, wanted, whole=whole)
        if limit is not None:
            yield limit


def _between(values: NDArray[Any], areas: Integers, zero: bool) -> list[tuple[float, float, float]]:
    """For every limit: its ideal value, the greatest value allowed, and the value that it must be above."""
    # Running numbers of areas: the value at which a part of them is reached follows by a search.
    above = np.concatenate([[0], np.cumsum(areas)])  # areas below each value, and all
    first = int(zero)
    wanted = CLASSES - first
    total = above[-1] - above[first]
    last = len(values) - 1
    chosen = [(values[1].item(), values[1].item(), values[0].item())] if zero else []
    for part in range(1, wanted):
        quantile = above[first] + total * part / wanted
        best = int(np.argmin(np.abs(above[:-1] - quantile)))
        best = min(max(best, first + 1), last)
        reach = total * _SPAN / wanted
        low = int(np.searchsorted(above, quantile - reach, side="right")) - 1  # the area there has this value
        high = int(np.searchsorted(above, quantile + reach, side="right")) - 1
        chosen.append(
            (
                values[best].item(),
                values[max(best, min(high, last))].item(),
                values[min(best - 1, max(low, first))].item(),
            )
        )
    return chosen


def shortest(low: float, high: float, wanted: float, *, whole: bool) -> float | None:
    """The shortest number above `low` and at most `high`; of equally short ones, the nearest to `wanted`.

    Numbers are multiples of 10, 5, 2 and 1, then of a tenth of these, and so on.

    Args:
        low: At least zero.
        high: More than `low`.
        wanted: Between them.
        whole: Whether the number must be whole. It may then have any number of digits.
    Returns:
        The number. None if it would need more than `DIGITS` digits.
    """
    greatest = floor(log10(high))
    places = range(greatest, -1, -1) if whole else range(greatest, greatest - DIGITS, -1)
    for place in places:
        for step in (10, 5, 2, 1):
            size = step * 10.0**place
            number = min(max(round(wanted / size), floor(low / size) + 1), floor(high / size))
            decimal = number * step * 10**place if whole else float(f"{number * step}e{place}")
            if low < decimal <= high:
                return decimal
    return None


def _filled(limits: list[float], values: NDArray[Any]) -> list[float]:
    """The limits without those that would leave a class empty."""
    below = np.searchsorted(values, np.array(limits, dtype=values.dtype))
    sizes: dict[int, float] = {}
    for limit, number in zip(limits, below.tolist(), strict=True):
        if 0 < number < len(values):
            sizes.setdefault(number, limit)
    return list(sizes.values())


PUBLISHED: Final = "published"
ESTIMATE: Final = "estimate"
SHARE: Final = "share"
ERROR: Final = "standard_error"
RELATIVE: Final = "relative_standard_error"


@dataclass(slots=True, eq=False)
class ClassLimits:
    """Collects the values of one table, block by block.

    Attributes:
        size: Number of answers.
        totals: For every area of the kind the count that shares are of; None without shares.
    """

    size: int
    totals: NDArray[np.int64] | None
    _frequencies_of: dict[str, list[list[Frequencies]]] = field(default_factory=dict)

    def add(self, block: Block) -> None:
        """Add the values of some areas."""
        for measure, values in self._measures(block).items():
            self._frequencies_of.setdefault(measure, []).append(_frequencies(values))

    def to_mapping(self) -> JsonObject:
        """For each measure a list with an entry for each answer: its classes."""
        return {
            "format": 1,
            "measures": {
                measure: [class_limits(_together(parts)) for parts in zip(*frequencies, strict=True)]
                for measure, frequencies in self._frequencies_of.items()
            },
        }

    def _measures(self, block: Block) -> Mapping[str, NDArray[Any]]:
        # Measurements have no counts, and their estimates take the place of these.
        name, column = (PUBLISHED, COUNT) if COUNT in block.columns else (ESTIMATE, "estimate")
        shown = block.columns[column]
        measures: dict[str, NDArray[Any]] = {name: shown}
        if self.totals is not None:
            measures[SHARE] = _ratio(shown, self.totals[block.start : block.start + block.n, None])
        if "standard_error" in block.columns:
            measures[ERROR] = block.columns["standard_error"]
            measures[RELATIVE] = _ratio(measures[ERROR], shown)
        return measures


def _ratio(above: NDArray[Any], below: NDArray[Any]) -> Floats:
    """Quotients; NaN where the divisor is not positive."""
    ratio: Floats = np.full(above.shape, np.nan)
    np.divide(above, below, out=ratio, where=np.broadcast_to(below > 0, above.shape))
    return ratio


def _frequencies(values: NDArray[Any]) -> list[Frequencies]:
    """The different values of each column and how often they occur, without NaN."""
    ordered = np.sort(values.T, axis=1)  # NaN comes last
    begins = np.ones(ordered.shape, dtype=np.bool_)
    begins[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    sizes = np.full(len(ordered), ordered.shape[1])
    if values.dtype.kind == "f":
        missing = np.isnan(ordered)
        begins &= ~missing
        sizes -= missing.sum(axis=1)
    frequencies = []
    for values_of_class, first, size in zip(ordered, begins, sizes.tolist(), strict=True):
        places = np.flatnonzero(first)
        frequencies.append(Frequencies(values_of_class[places], np.diff(places, append=size)))
    return frequencies


def _together(parts: Sequence[Frequencies]) -> Frequencies:
    """The frequencies of all areas of several parts."""
    values, places = np.unique(np.concatenate([part.values for part in parts]), return_inverse=True)
    areas = np.zeros(len(values), dtype=np.int64)
    np.add.at(areas, places, np.concatenate([part.areas for part in parts]))
    return Frequencies(values, areas)


NO_INTERVALS: Final = phrase(
    "The release has no intervals, so only its published counts are shown. If the release keeps its noisy "
    "measurements, `tallyveil intervals` adds them. It reads published files alone and spends nothing."
)

LETTERS: Final = {COUNT: "p", "estimate": "e", "standard_error": "s", "lower": "l", "upper": "u"}
"""First letter of a column of the site, before the number of the answer."""
_WHOLE: Final = (COUNT, "lower", "upper")


@dataclass(frozen=True, slots=True, eq=False)
class WrittenTables:
    """What was written.

    Attributes:
        entries: What `site.json` says of every table.
        share_of: Number of the table whose count shares are of; None without one.
    """

    entries: list[JsonObject]
    share_of: int | None


def write_tables(site: Path, release: OpenedRelease) -> WrittenTables:
    """Write every table of a release for every kind of area, and the class limits.

    Raises:
        StoreError: a file of the release was changed, or a file of the site cannot be written.
    """
    # The total is the query that names no factor; shares of other tables are of it, if it is a count.
    totals_of = [number for number, group in enumerate(release.queries) if not group.factor_names]
    share_of = totals_of[0] if totals_of and release.has_counts else None
    kinds: list[list[int]] = [[] for _ in release.queries]
    for kind in range(len(release.areas.kinds)):
        totals: Integers | None = None
        # The total first, because class limits of shares need it.
        order = sorted(range(len(release.queries)), key=lambda number: number != share_of)
        for table in order:
            rows = release.rows(kind, release.queries[table])
            if rows is None:
                continue
            counts = _write(site, (kind, table), rows, totals, release.tags)
            if table == share_of:
                totals = counts
            kinds[table].append(kind)
    entries = [_entry(release, number, group, kinds[number]) for number, group in enumerate(release.queries)]
    return WrittenTables(entries, share_of)


def write_other_tables(site: Path, release: OpenedRelease, kinds: Mapping[int, int], root: str) -> None:
    """Write the tables of a release that another one is compared with, below the folder `root` of the site.

    Args:
        site: Folder of the site.
        release: The release.
        kinds: For the numbers of kinds in the site, those in this release.
        root: The folder below `site`.
    Raises:
        StoreError: as `write_tables`.
    """
    for kind, tables_of_kind in kinds.items():
        for table, group in enumerate(release.queries):
            rows = release.rows(tables_of_kind, group)
            if rows is not None:
                for block in rows.blocks():
                    _write_chunks(site, (kind, table), block, root, release.tags)


def _write(
    site: Path, place: tuple[int, int], rows: TableRows, totals: Integers | None, tags: Mapping[str, str]
) -> Integers:
    """Write one table for one kind, `place`; returns its first count for every area, if there are counts."""
    limits = ClassLimits(rows.group.size, totals)
    first: list[NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)]
    for block in rows.blocks():
        _write_chunks(site, place, block, DATA, tags)
        limits.add(block)
        if COUNT in block.columns:
            first.append(block.columns[COUNT][:, 0])
    write_json_data(site, classes_path(*place), limits.to_mapping())
    return np.concatenate(first)


def _write_chunks(
    # Chunks begin at multiples of `CHUNK`, because blocks do.
    site: Path,
    place: tuple[int, int],
    block: Block,
    root: str,
    tags: Mapping[str, str],
) -> None:
    for start in range(0, block.n, CHUNK):
        frame = _frame(block, start, min(start + CHUNK, block.n))
        write_data(site, table_path(*place, (block.start + start) // CHUNK, root), frame, tags)


def _frame(block: Block, start: int, stop: int) -> pl.DataFrame:
    """The areas of one chunk: for every answer its count and, if there are intervals, the numbers beside it."""
    size = next(iter(block.columns.values())).shape[1]
    parts = [
        number_columns(
            [f"{LETTERS[name]}{answer}" for answer in range(size)],
            values[start:stop],
            whole=name in _WHOLE,
        )
        for name, values in block.columns.items()
    ]
    # All numbers of an answer stand together, so that a page reads neighbouring columns.
    order = [f"{LETTERS[name]}{answer}" for answer in range(size) for name in block.columns]
    return pl.DataFrame([column for part in parts for column in part]).select(order)


def _entry(release: OpenedRelease, number: int, group: QueryGroup, kinds: Sequence[int]) -> JsonObject:
    """What `site.json` says of a table."""
    titles = schema_titles(release.schema)
    asked = group.named_factors
    places = np.unravel_index(np.arange(group.size), [factor.size for factor in asked]) if asked else ()
    labels = [[factor.labels[i] for i in numbers] for factor, numbers in zip(asked, places, strict=True)]
    return {
        "number": number,
        "name": group.name,
        "title": titles.query(group.name),
        "answers": [" × ".join(parts) for parts in zip(*labels, strict=True)] if asked else ["total"],
        "factors": [
            {"name": factor.name, "title": titles.factor(str(factor.name)), "levels": list(factor.labels)}
            for factor in asked
        ],
        "attributes": [list(parts) for parts in zip(*labels, strict=True)] if asked else None,
        "kinds": list(kinds),
        "intervals": release.has_intervals(group.name),
    }
