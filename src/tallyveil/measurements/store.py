"""Measurement files: Parquet files that anyone can read, divided into parts of limited size.

Layout: `measurements/<geolevel>/<query>/part-00000.parquet` has three columns:
- `geocode` (text);
- `values` (a list of integers, one for each answer; int32, or int64 in a part where they do not fit);
- `variance` (in squared counts).
`measurements/answers.parquet` names the answers. A geounit without a share of the budget is not measured, and is
absent.

If only the answers on the support are kept, a column `answers` precedes `values`: for each geounit, the list of the
numbers of its answers, of the same length. Geounits that needed no measurement are then absent too.

Folder names follow `tallyveil.storage.paths.file_name`, so the `*` of a query becomes `.`. Counts drawn on a lattice
are stored next to those of the queries, in `measurements/<geolevel>/integer-subspace.<query>.parquet`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.arrays import Integers, NarrowArray
from tallyveil.errors import StoreError
from tallyveil.geography.spine import GeounitShares, Spine
from tallyveil.measurements.answers import (
    FamilyAnswers,
    MeasurementSource,
    NoisyMeasurements,
    measure_one_by_one,
)
from tallyveil.measurements.names import ANSWER_LABELS, measurement_folder
from tallyveil.schema.counts import narrow
from tallyveil.schema.query_group import QueryGroup
from tallyveil.storage.json_files import damaged
from tallyveil.storage.paths import inside
from tallyveil.storage.read import published_first, published_schema, published_tags, read_published
from tallyveil.storage.write import copy_file, file_digest, write_parquet

VALUES_PER_PART = 1 << 23
"""Noisy answers in a file, 8 million: 64 MiB while it is written. Another number would give other files."""
KEPT_BYTES: Final = 1 << 30
"""Bytes of noisy answers that stay in memory: 32 parts. Half as many are enough where files have the order of the
spine. In another order, parts of a large query are read again and again."""
_WHOLE: Final = (pl.List(pl.Int32), pl.List(pl.Int64))
_RESTORE: Final = "Restore the file from a copy of the release."


def n_parts(spine: Spine, geolevel: str, group: QueryGroup) -> int:
    """Number of parts in which every noisy answer of a query at a geolevel is written."""
    return -(-spine.n_geounits(spine.level_index(geolevel)) // _geounits_per_part(group))


def write_measured_part(
    root: Path,
    source: MeasurementSource,
    spine: Spine,
    geolevel: str,
    group: QueryGroup,
    part: int,
    metadata: Mapping[str, str],
) -> int:
    """Measure the geounits of one part for one query group, and write their values. Parts may be written in any order.

    Returns:
        Number of values of the part.
    Raises:
        StoreError: the part cannot be written.
    """
    # Parts follow from the number of answers alone: threads and processes agree on them without talking.
    level, at_once = spine.level_index(geolevel), _geounits_per_part(group)
    start, stop = part * at_once, min((part + 1) * at_once, spine.n_geounits(level))
    measured = source.measure(geolevel, group.name, start, stop, np.arange(group.size, dtype=np.int64))
    # Unmeasured geounits have no row: a row of zeros would look like an answer.
    measured_rows = np.flatnonzero(np.isfinite(measured.variances))
    rows = (
        spine.geocodes[level].text.gather(start + measured_rows),
        measured.values[measured_rows],
        measured.variances[measured_rows],
    )
    write_part(root, geolevel, group.name, part, rows, metadata)
    return (stop - start) * group.size


def _geounits_per_part(group: QueryGroup) -> int:
    return max(1, VALUES_PER_PART // group.size)


def write_part(
    root: Path,
    geolevel: str,
    query: str,
    part: int,
    rows: tuple[pl.Series, NarrowArray, NDArray[np.float64]],
    metadata: Mapping[str, str],
) -> None:
    """Write one part of a query's noisy answers, with every answer of some geounits.

    Args:
        root: Release folder.
        geolevel: Geolevel of the geounits.
        query: Name of the query group.
        part: Number of the part.
        rows: Geocodes of the geounits; their values, shape (n_geounits, n_answers); their variances.
        metadata: Metadata of the file.
    Raises:
        StoreError: the file cannot be written.
    """
    geocodes, noisy, variances = rows
    # A polars series without rows cannot be reshaped.
    values = pl.Series("values", noisy.ravel()).reshape(noisy.shape) if len(noisy) else pl.Series([])
    frame = pl.DataFrame(
        {"geocode": geocodes, "values": values.cast(pl.List(_whole_numbers(noisy))), "variance": variances}
    )
    folder = measurement_folder(root, geolevel, query)
    tags = {**metadata, "query": query, "geolevel": geolevel}
    write_parquet(folder / f"part-{part:05d}.parquet", frame, tags)


def write_support_measurements(
    root: Path,
    part: int,
    wanted: FamilyAnswers,
    values: Integers,
    variances: NDArray[np.float64],
    spine: Spine,
    metadata: Mapping[str, str],
) -> None:
    """Write the measurements that a chunk of families needed, one file for each query.

    Args:
        root: Release folder.
        part: Number of the chunk.
        wanted: The geounits and their answers.
        values: Noisy answers, in the layout of `wanted`.
        variances: Variance of each query's noise in each geounit; shape (queries, geounits).
        spine: The hierarchy.
        metadata: Metadata of the files.
    Raises:
        StoreError: a file cannot be written.
    """
    codes = spine.geocodes[spine.level_index(wanted.geolevel)]
    # A file holds all layers of a query group, whose answers no reader should have to put together.
    layers: dict[str, list[int]] = {}
    for q, group in enumerate(wanted.queries):
        layers.setdefault(group.name, []).append(q)
    for query, layer in layers.items():
        geounits, answers, noisy = _of_layers(wanted, layer, values)
        # Geounits from which nothing was wanted get no row.
        lengths = np.bincount(geounits - wanted.child_begin[0], minlength=variances.shape[1])
        measured = lengths > 0
        frame = pl.DataFrame(
            {
                "geocode": codes[np.flatnonzero(measured) + wanted.child_begin[0]].text,
                "answers": _lists(answers, lengths[measured], pl.Int32),
                "values": _lists(noisy, lengths[measured], _whole_numbers(noisy)),
                "variance": variances[layer[0]][measured],
            }
        )
        path = measurement_folder(root, wanted.geolevel, query) / f"part-{part:05d}.parquet"
        write_parquet(path, frame, {**metadata, "query": query, "geolevel": wanted.geolevel})


def _of_layers(
    wanted: FamilyAnswers, layers: Sequence[int], values: Integers
) -> tuple[Integers, Integers, Integers]:
    """Geounit, answer and value of everything wanted of one query group, by geounit, then answer."""
    addresses = [wanted.addresses(q) for q in layers]
    geounits, answers = (np.concatenate(parts) for parts in zip(*addresses, strict=True))
    noisy = np.concatenate([values[wanted.value_begin[q, 0] : wanted.value_begin[q, -1]] for q in layers])
    if len(layers) == 1:
        return geounits, answers, noisy
    # The layers' answers interleave; a reader searches them in rising order.
    order = np.lexsort((answers, geounits))
    return geounits[order], answers[order], noisy[order]


def _whole_numbers(values: NarrowArray) -> type[pl.DataType]:
    """int32 if the values fit, as they nearly always do; files are then a quarter smaller and faster to read."""
    limits = np.iinfo(np.int32)
    fits = not values.size or (limits.min <= values.min() and values.max() <= limits.max)
    return pl.Int32 if fits else pl.Int64


def _lists(flat: Integers, lengths: Integers, kind: type[pl.DataType]) -> pl.Series:
    """A column of lists, from their concatenated values and their lengths."""
    # Sorted by construction, which saves polars the sort.
    rows = pl.Series("row", np.repeat(np.arange(len(lengths)), lengths)).set_sorted()
    frame = pl.DataFrame({"row": rows, "value": pl.Series(flat).cast(kind)})
    return frame.group_by("row", maintain_order=True).agg("value")["value"]


def write_answer_labels(root: Path, groups: Sequence[QueryGroup], metadata: Mapping[str, str]) -> None:
    """Write the table of answers (`answer_labels`)."""
    write_parquet(inside(root, *ANSWER_LABELS.split("/")), answer_labels(groups), metadata)


def answer_labels(groups: Sequence[QueryGroup]) -> pl.DataFrame:
    """The table of answers: one row for each answer, with its query, number and label."""
    frames = [
        pl.DataFrame(
            {
                "query": [group.name] * group.size,
                "answer": np.arange(group.size, dtype=np.int64),
                "label": group.labels(),
            }
        )
        for group in groups
    ]
    return pl.concat(frames)


@dataclass(frozen=True, slots=True, eq=False)
class _OnSupport:
    """One query at one geolevel, of which the answers on the support were kept: all are in memory.

    Attributes:
        offsets: The answers of geounit g are `answers[offsets[g]:offsets[g + 1]]`, and so are their values.
        answers, values: The answers and their values, rising within a geounit.
        variances: Variance of each geounit; infinite where it is not measured, NaN where it has no row.
    """

    offsets: Integers
    answers: Integers
    values: NarrowArray
    variances: NDArray[np.float64]

    def rows(self, start: int, stop: int, answers: Integers) -> Integers | None:
        """Values of the answers for geounits start..stop; None where one of them was not kept."""
        values = np.zeros((stop - start, len(answers)), dtype=np.int64)
        for row, geounit in enumerate(range(start, stop)):
            if np.isinf(self.variances[geounit]):
                continue  # not measured
            span = slice(int(self.offsets[geounit]), int(self.offsets[geounit + 1]))
            # Answers rise within a geounit, as they were written.
            place = np.searchsorted(self.answers[span], answers)
            # Clipped, since searchsorted may point behind the last answer; the comparison then finds that they differ.
            inside = np.minimum(place, max(span.stop - span.start - 1, 0))
            if span.start == span.stop or (self.answers[span][inside] != answers).any():
                return None
            values[row] = self.values[span][place]
        return values


@dataclass(frozen=True, slots=True, eq=False)
class _Whole:
    """One query at one geolevel with all its answers, of which some parts are in memory.

    Attributes:
        part, row: The part of each geounit, and its row there; -1 where it is not measured.
        variances: Variance of each geounit; infinite where it is not measured.
        values_of: The values of a part, by its number; shape (rows, answers).
    """

    part: Integers
    row: Integers
    variances: NDArray[np.float64]
    width: int
    values_of: Callable[[int], NarrowArray]

    def at(self, geounits: Integers, answers: Integers) -> Integers:
        """Value of each pair of a geounit and an answer; 0 where it is not measured."""
        values = np.zeros(len(geounits), dtype=np.int64)
        for here, rows, of_part in self._by_part(geounits):
            values[here] = of_part[rows, answers[here]]
        return values

    def rows(self, start: int, stop: int, answers: Integers) -> Integers | None:
        """Values of the answers for geounits start..stop."""
        values = np.zeros((stop - start, len(answers)), dtype=np.int64)
        for here, rows, of_part in self._by_part(np.arange(start, stop)):
            values[here] = of_part[np.ix_(rows, answers)]
        return values

    def _by_part(self, geounits: Integers) -> Iterator[tuple[Integers, Integers, NarrowArray]]:
        """For each part with some of the geounits: their places among these, their rows in it, and its values."""
        parts = self.part[geounits]
        for part in np.unique(parts[parts >= 0]).tolist():
            here = np.flatnonzero(parts == part)
            yield here, self.row[geounits[here]], self.values_of(part)


class StoredMeasurements:
    """Measurements read from the files of a run.

    Of parts with every answer, those that were asked for last stay in memory (`KEPT_BYTES`): a state has more numbers
    than memory. A run asks for geounits in the order of the spine, as most files have them.
    """

    def __init__(
        self,
        root: Path,
        spine: Spine,
        shares: GeounitShares | None = None,
        digests: Mapping[str, str] | None = None,
    ) -> None:
        """Open the measurements of a run.

        Args:
            root: Release folder.
            spine: The spine that was measured.
            shares: Shares of its geounits, if some geounits are not measured (`read_shares`).
            digests: SHA-256 that every file must have when it is read, by its path in the folder; None: any.
        """
        self._root = root
        self._spine = spine
        self._shares = shares
        self._digests = digests
        self._loaded: dict[tuple[str, str], _OnSupport | _Whole] = {}
        self._kept: dict[Path, NarrowArray] = {}
        self._loading = Lock()

    def measure(
        self, geolevel: str, query: str, start: int, stop: int, answers: Integers
    ) -> NoisyMeasurements:
        """Noisy values as written, with the signature and the values of the source that wrote them.

        Raises:
            StoreError: the files are missing, have another digest, belong to another geography, or do not contain these
                answers.
        """
        stored = self._load(geolevel, query)
        if isinstance(stored, _Whole) and np.max(answers, initial=-1) >= stored.width:
            raise other_geography(measurement_folder(self._root, geolevel, query))
        values = stored.rows(start, stop, answers)
        if values is None:
            raise StoreError(
                f"the measurements of '{query}' at {geolevel} in {self._root} hold only the answers on the support "
                "of the counts published with them. Ask for these, or make the release with "
                'measurements = "full".',
                code="measurements-missing",
            )
        return NoisyMeasurements(geolevel, query, start, answers, values, stored.variances[start:stop])

    def measure_families(self, wanted: FamilyAnswers) -> Integers:
        """Noisy values of the answers that families need, as written."""
        stored = [self._load(wanted.geolevel, group.name) for group in wanted.queries]
        whole = [source for source in stored if isinstance(source, _Whole)]
        for group, source in zip(wanted.queries, stored, strict=True):
            if isinstance(source, _Whole) and source.width != group.size:
                raise other_geography(measurement_folder(self._root, wanted.geolevel, group.name))
        # Where only answers on the support were kept, each must be searched for.
        if len(whole) < len(stored):
            return measure_one_by_one(self, wanted)
        return np.concatenate(
            [
                np.zeros(0, dtype=np.int64),
                *(source.at(*wanted.addresses(number)) for number, source in enumerate(whole)),
            ]
        )

    def copy(self, root: Path, geolevel: str, query: str, run: str) -> bool:
        """Copy the files of one query as they are, unless another run has written them.

        Args:
            root: Release folder to copy into.
            geolevel, query: As in `measure`.
            run: Public name of the run that must have written them.
        Returns:
            Whether they were copied.
        Raises:
            StoreError: a file has another digest, or cannot be copied.
        """
        parts = sorted(measurement_folder(self._root, geolevel, query).glob("part-*.parquet"))
        if any(published_tags(path).get("tallyveil.run") != run for path in parts):
            return False
        for path in parts:
            place = measurement_folder(root, geolevel, query) / path.name
            copy_file(path, place)
            self._require_unchanged(path, place)
        return bool(parts)

    def _load(self, geolevel: str, query: str) -> _OnSupport | _Whole:
        key = geolevel, query
        # The lock is held while reading, too: two threads must not read the same large files at once.
        with self._loading:  # chunks are measured by several threads
            if key not in self._loaded:
                self._loaded[key] = self._read(geolevel, query)
            return self._loaded[key]

    def _read(self, geolevel: str, query: str) -> _OnSupport | _Whole:
        folder = measurement_folder(self._root, geolevel, query)
        parts = sorted(folder.glob("part-*.parquet"))
        if not parts:
            raise StoreError(
                f"there are no measurements of '{query}' at {geolevel} in {folder}. Ask for a query group that was "
                "measured there, or restore the folder.",
                code="measurements-missing",
            )
        level = self._spine.level_index(geolevel)
        if "answers" not in published_schema(parts[0]):
            return self._whole(folder, parts, level)
        # Parts may have different widths; they can be joined in one type only.
        wide = pl.col("values").cast(pl.List(pl.Int64))
        read = []
        for path in parts:
            if "answers" not in published_schema(path):
                raise _damaged(path, "the column answers, which other parts have")
            read.append(self._read_part(path).with_columns(wide))
        frame = pl.concat(read)
        measured = self._measured(level)
        rows = self._places(folder, level, frame["geocode"])
        # Imported files may be in any order; memory has the order of the spine.
        frame = frame[np.argsort(rows)]
        lengths = np.zeros(self._spine.n_geounits(level), dtype=np.int64)
        lengths[np.sort(rows)] = frame["values"].list.len().to_numpy()
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        # NaN for measured geounits without a row, so that a use of them cannot go unnoticed.
        variances = np.full(self._spine.n_geounits(level), np.nan)
        variances[~measured] = np.inf
        variances[np.sort(rows)] = frame["variance"].to_numpy()
        answers, values = (_joined_lists(frame[name]) for name in ("answers", "values"))
        return _OnSupport(offsets, answers, narrow(values), variances)

    def _whole(self, folder: Path, parts: Sequence[Path], level: int) -> _Whole:
        """Where each geounit is, and its variance: all but the values, which are read when they are asked for."""
        frames = []
        widths: set[int] = set()
        for path in parts:
            if _lists_of(path, published_schema(path)) != ["values"]:
                raise _damaged(path, "the columns geocode, values and variance alone")
            frames.append(read_published(path, ["geocode", "variance"]))
            _require_variances(path, frames[-1])
            first = published_first(path, "values")
            if first.null_count():
                raise _damaged(path, "a value")
            widths.update(first.list.len().to_list())
        # Every part is held to this width when it is read.
        if len(widths) > 1:
            raise other_geography(folder)
        width = max(widths, default=0)
        begins = np.cumsum([0, *(frame.height for frame in frames)])
        frame = pl.concat(frames)
        rows = self._places(folder, level, frame["geocode"])
        # Files have exactly the measured geounits.
        if not np.array_equal(np.sort(rows), np.flatnonzero(self._measured(level))):
            raise other_geography(folder)
        n = self._spine.n_geounits(level)
        part, row, variances = np.full(n, -1), np.full(n, -1), np.full(n, np.inf)
        place = np.arange(len(rows))
        part[rows] = np.searchsorted(begins, place, side="right") - 1
        row[rows] = place - begins[part[rows]]
        variances[rows] = frame["variance"].to_numpy()

        def values_of(number: int) -> NarrowArray:
            # Of this part, the geounits by their rows.
            inside = rows[begins[number] : begins[number + 1]]
            return self._values(parts[number], width, level, inside, variances)

        return _Whole(part, row, variances, width, values_of)

    def _values(
        self, path: Path, width: int, level: int, geounits: Integers, variances: NDArray[np.float64]
    ) -> NarrowArray:
        """The values of one part, whose width and geounits are known, with the variances of all; raises StoreError."""
        with self._loading:  # two threads must not read the same large file at once
            values = self._kept.pop(path, None)
            if values is None:
                frame = self._read_part(path)
                codes = self._spine.geocodes[level].text.gather(geounits)
                # What was changed since the geocodes were read would shift answers to other geounits.
                same = frame["geocode"].equals(codes) and bool(
                    (frame["variance"].to_numpy() == variances[geounits]).all()
                )
                if not same or bool((frame["values"].list.len() != width).any()):
                    raise other_geography(path.parent)
                flat = frame["values"].explode(empty_as_null=False).to_numpy()
                values = narrow(flat.reshape(frame.height, width))
            self._kept[path] = values  # at the end, so that the least recently used part is removed first
            used = sum(part.nbytes for part in self._kept.values())
            while used > KEPT_BYTES and len(self._kept) > 1:
                used -= self._kept.pop(next(iter(self._kept))).nbytes
        return values

    def _places(self, folder: Path, level: int, codes: pl.Series) -> Integers:
        """The geounit of each row of the files, each once; raises StoreError."""
        rows = np.flatnonzero(self._measured(level))
        # Files that a run wrote have the order of the spine, so that nothing need be searched.
        if not codes.equals(self._spine.geocodes[level].text.gather(rows)):
            rows = self._spine.locate(level, codes)
        # An unknown geounit, or one twice: each would shift answers to other geounits.
        if bool((rows < 0).any()) or len(np.unique(rows)) < len(rows):
            raise other_geography(folder)
        return rows

    def _read_part(self, path: Path) -> pl.DataFrame:
        frame = read_published(path)
        # Compared after reading: what was checked earlier may have been replaced since then.
        self._require_unchanged(path, path)
        require_part(path, frame)
        return frame

    def _require_unchanged(self, path: Path, copy: Path) -> None:
        """Refuse a copy of a part, or the part itself, that has another digest; raises StoreError."""
        name = path.relative_to(self._root).as_posix()
        if self._digests is not None and file_digest(copy) != self._digests.get(name):
            raise StoreError(
                f"{path} was changed or added after the folder had been checked. Restore the folder from a copy, and "
                "run the same command again.",
                code="release-damaged",
            )

    def _measured(self, level: int) -> NDArray[np.bool_]:
        if self._shares is not None:
            return self._shares.measured(level)
        return np.ones(self._spine.n_geounits(level), dtype=np.bool_)


def other_geography(folder: Path) -> StoreError:
    """The error for measurements whose geounits are not those of the spine."""
    return StoreError(
        f"the measurements in {folder} are of another geography than the one given. Give the geography that they were "
        "made with.",
        code="measurements-mismatch",
    )


def _joined_lists(column: pl.Series) -> Integers:
    return column.explode(empty_as_null=False).cast(pl.Int64).to_numpy()


def require_part(path: Path, frame: pl.DataFrame) -> None:
    """Refuse a part whose columns are not those of the layout, or that lacks a value.

    Args:
        path: The file.
        frame: Its content: `geocode`, `values`, `variance`, and `answers` if only the answers on the support are kept.
    Raises:
        StoreError: a column is missing or has another type, a value is missing, or a geounit has other numbers of
            answers and of values.
    """
    lists = _lists_of(path, frame.schema)
    lengths = frame.select(pl.col(lists).list.len())
    # A null inside a list is no null of the column, so lengths without nulls are compared.
    whole = frame.select(pl.col(lists).list.drop_nulls().list.len())
    if any(frame[name].null_count() for name in lists) or not lengths.equals(whole):
        raise _damaged(path, "a value")
    if "answers" in lists and not (lengths["values"] == lengths["answers"]).all():
        raise _damaged(path, "a value for each answer")
    _require_variances(path, frame)


def _lists_of(path: Path, kinds: Mapping[str, pl.DataType]) -> list[str]:
    """The columns of lists in a part, whose columns must be those of the layout; raises StoreError."""
    lists = [name for name in ("values", "answers") if name in kinds]
    fits = kinds.get("geocode") == pl.String and kinds.get("variance") == pl.Float64 and "values" in lists
    if not fits or any(kinds[name] not in _WHOLE for name in lists):
        raise _damaged(path, "the columns geocode, values and variance, and their types")
    return lists


def _require_variances(path: Path, frame: pl.DataFrame) -> None:
    """Refuse a part with a geounit without a variance, or without a geocode; raises StoreError."""
    if frame["geocode"].null_count() or frame["variance"].null_count():
        raise _damaged(path, "a value")
    # NaN is not finite, and a variance of 0 would be an infinite precision.
    if not frame["variance"].is_finite().all() or not (frame["variance"] > 0).all():
        raise _damaged(path, "a variance")


def _damaged(path: Path, place: str) -> StoreError:
    return damaged(path, place, _RESTORE)
