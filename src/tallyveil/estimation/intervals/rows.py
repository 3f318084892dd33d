"""Streams rows of noisy answers, from measurement files or from any source of measurements."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import polars as pl

from tallyveil.arrays import Integers, Numbers
from tallyveil.errors import StoreError
from tallyveil.estimation.intervals.model import LEAST_VARIANCE, LevelModel
from tallyveil.geography.spine import Spine
from tallyveil.measurements.answers import MeasurementSource
from tallyveil.measurements.store import measurement_folder
from tallyveil.schema.query_group import QueryGroup
from tallyveil.storage.read import published_columns, published_height, read_published

# Far above the rounding of a float (1e-16), far below any difference between two strategies that matters.
SAME_VARIANCE = 1e-9
"""Two variances with a smaller relative difference are equal; writing and reading may change the last digits."""


class AnswerRows(Protocol):
    """Noisy answers of every measured query, with one row for each geounit."""

    def rows(self, level: int, queries: Sequence[QueryGroup], start: int, stop: int) -> Numbers:
        """Answers of geounits start to stop - 1, as integers. The answers of the queries follow one another."""
        ...


class SourceRows:
    """Rows from a source of measurements, requested when they are needed."""

    def __init__(self, source: MeasurementSource, spine: Spine) -> None:
        self._source = source
        self._spine = spine

    def rows(self, level: int, queries: Sequence[QueryGroup], start: int, stop: int) -> Numbers:
        """Answers of geounits start to stop - 1, in the smallest integer type that can represent them."""
        out = np.empty((stop - start, sum(group.size for group in queries)), np.int64)
        place = 0
        for group in queries:
            answers = np.arange(group.size, dtype=np.int64)
            geolevel = self._spine.geolevels[level]
            measured = self._source.measure(geolevel, group.name, start, stop, answers)
            # Layers are asked for one by one, and each holds the answers of the whole query group.
            out[:, place : place + group.size] = measured.values
            place += group.size
        return narrowed(out)


class MeasuredLevels(Protocol):
    """What the rows of measurement files must fit: a model, or the levels of one."""

    @property
    def spine(self) -> Spine:
        """The hierarchy."""
        ...

    @property
    def levels(self) -> Sequence[LevelModel]:
        """What is measured at each geolevel, root first."""
        ...


class StoredRows:
    """Rows from the measurement files of a run that stored all answers. One part of a query is in memory at a time.

    Args:
        root: Release folder.
        model: The model of the measurements. Files of another geography or with another variance are refused.
    """

    def __init__(self, root: Path, model: MeasuredLevels) -> None:
        self._root = root
        self._model = model
        self._spine = model.spine
        self._begins: dict[tuple[int, str], tuple[list[Path], list[int]]] = {}
        self._held: dict[tuple[int, str], tuple[int, Numbers]] = {}

    def rows(self, level: int, queries: Sequence[QueryGroup], start: int, stop: int) -> Numbers:
        """Answers of geounits start to stop - 1, in the smallest integer type that can represent them.

        Raises:
            StoreError: files are missing, do not fit the model, or contain only answers on the support.
        """
        # Nothing is measured at this geolevel, and no file of it exists.
        if not queries:
            return np.zeros((stop - start, 0), np.int16)
        measured = self._measured(level, queries[0])
        if measured is None:
            return self._stored(level, queries, start, stop)
        # Files have rows only for measured geounits. The answers of others have no weight.
        first, last = np.searchsorted(measured, [start, stop]).tolist()
        out = np.zeros((stop - start, sum(group.size for group in queries)), np.int32)
        if last > first:
            out[measured[first:last] - start] = self._stored(level, queries, first, last)
        return narrowed(out)

    def _measured(self, level: int, group: QueryGroup) -> Integers | None:
        """Geounits in which a query of the strategy is measured; None if it is measured in all."""
        level_model = self._model.levels[level]
        if group not in level_model.measured:
            # The query's missing files will cause an error.
            return None
        precisions = level_model.precisions[:, level_model.measured.index(group)]
        measured = np.flatnonzero(precisions)
        return None if len(measured) == len(precisions) else measured

    def _stored(self, level: int, queries: Sequence[QueryGroup], start: int, stop: int) -> Numbers:
        """Rows start to stop - 1 of the files."""
        return np.concatenate([self._query(level, group, start, stop) for group in queries], axis=1)

    def _query(self, level: int, group: QueryGroup, start: int, stop: int) -> Numbers:
        key = level, group.name
        if key not in self._begins:
            self._begins[key] = self._parts(level, group)
        begins = self._begins[key][1]
        pieces, at = [], start
        while at < stop:
            # The part in which the row lies; `begins` ends with the number of rows.
            part = int(np.searchsorted(begins, at, side="right")) - 1
            until = min(stop, begins[part + 1])
            pieces.append(self._part(level, group, part)[at - begins[part] : until - begins[part]])
            at = until
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def _parts(self, level: int, group: QueryGroup) -> tuple[list[Path], list[int]]:
        folder = measurement_folder(self._root, self._spine.geolevels[level], group.name)
        parts = sorted(folder.glob("part-*.parquet"))
        if not parts:
            raise StoreError(
                f"there are no measurements of '{group.name}' in {folder}. Ask for a query that was measured, or "
                "restore the folder.",
                code="measurements-missing",
            )
        # Least squares over the whole spine needs every answer. Those on the support were chosen by the counts.
        if "answers" in published_columns(parts[0]):
            raise StoreError(
                f"the measurements in {folder} hold only the answers on the support of the counts published with "
                'them. Intervals need all answers: make the release with measurements = "full".',
                code="measurements-missing",
            )
        heights = [published_height(part) for part in parts]
        begins = np.cumsum([0, *heights]).tolist()
        measured = self._measured(level, group)
        if begins[-1] != (self._spine.n_geounits(level) if measured is None else len(measured)):
            raise self._mismatch(folder)
        return parts, begins

    def _part(self, level: int, group: QueryGroup, part: int) -> Numbers:
        key = level, group.name
        held = self._held.get(key)
        if held is not None and held[0] == part:
            return held[1]
        # Only one geolevel is read at a time.
        self._held = {other: stored for other, stored in self._held.items() if other[0] == level}
        parts, begins = self._begins[key]
        frame = read_published(parts[part], ["geocode", "values", "variance"])
        geounits = np.arange(begins[part], begins[part + 1], dtype=np.int64)
        measured = self._measured(level, group)
        codes = self._spine.geocodes[level].text[begins[part] : begins[part + 1]]
        if measured is not None:
            geounits = measured[geounits]
            codes = self._spine.geocodes[level].text.gather(geounits)
        values = frame["values"].explode(empty_as_null=False)
        # Order matters, too: rows are used by position.
        if not frame["geocode"].equals(codes) or len(values) != frame.height * group.size:
            raise self._mismatch(parts[part].parent)
        self._check_variances(level, group, geounits, frame)
        table = narrowed(values.to_numpy()).reshape(frame.height, group.size)
        self._held[key] = part, table
        return table

    def _check_variances(
        self, level: int, group: QueryGroup, geounits: Integers, frame: pl.DataFrame
    ) -> None:
        """Refuse measurements whose variance differs from that of the model."""
        level_model = self._model.levels[level]
        precisions = level_model.precisions_of(geounits)[:, level_model.measured.index(group)]
        variances = np.maximum(frame["variance"].to_numpy(), LEAST_VARIANCE)
        # A relative difference without a division; unmeasured geounits are left out below.
        off = np.abs(variances * precisions - 1.0)
        if bool((off[precisions > 0] > SAME_VARIANCE).any()):
            raise StoreError(
                f"the measurements of '{group.name}' at {level_model.geolevel} in {self._root} have another "
                "variance than the given strategy states. Use the strategy of that release.",
                code="measurements-mismatch",
            )

    def _mismatch(self, folder: Path) -> StoreError:
        return StoreError(
            f"the measurements in {folder} are of another geography than the one given. Give the geography that they "
            "were made with.",
            code="measurements-mismatch",
        )


class KeptRows:
    """Rows of another source, stored after the first reading as long as they fit into a given amount of memory."""

    def __init__(self, rows: AnswerRows, largest_bytes: int = 1 << 30) -> None:
        self._rows = rows
        self._left = largest_bytes
        self._kept: dict[tuple[int, int, int], Numbers] = {}

    def rows(self, level: int, queries: Sequence[QueryGroup], start: int, stop: int) -> Numbers:
        """Answers of geounits start to stop - 1. All requests for a level must have the same queries."""
        key = level, start, stop
        if key not in self._kept:
            answers = self._rows.rows(level, queries, start, stop)
            # Handed on without being kept. Smaller requests may still fit later.
            if answers.nbytes > self._left:
                return answers
            self._left -= answers.nbytes
            self._kept[key] = answers
        return self._kept[key]


def narrowed(values: Numbers) -> Numbers:
    """The same integers in two bytes each if they fit, otherwise in four, otherwise in eight."""
    least, most = (int(values.min()), int(values.max())) if values.size else (0, 0)
    # Noisy answers of blocks are small; two bytes instead of eight are a quarter of the memory.
    for kind in (np.int16, np.int32):
        if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max:
            return values.astype(kind, copy=False)
    return values.astype(np.int64, copy=False)
