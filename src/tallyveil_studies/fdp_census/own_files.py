"""Counts and regressions of a user's own, read from the files that the TOML file of `--own` names.

Everything is checked here, before a figure is recomputed. The data are treated as public: messages may quote them, and
the noise of a study protects nobody.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from tallyveil.errors import ConfigError, SchemaError
from tallyveil.noise import DiscreteGaussian
from tallyveil.plans.from_toml.study_files import (
    AreaRegression,
    BlocksTable,
    CountsTable,
    RegressionTable,
    StudyFile,
)
from tallyveil.schema.names import closest_hint
from tallyveil.storage.read import collect, column_names, require_counts, require_text, scan_table
from tallyveil_studies.exhibit import CensusCounts, CountedLevel, OwnData, Places, Regression
from tallyveil_studies.fdp_census.allocation import BUREAU, both_noises, geolevels
from tallyveil_studies.fdp_census.education import repetitions_of

LARGEST_COUNT: Final = 2**32
"""Largest count that is read. The sum of 2**31 of them still fits 64 bits."""

FEWEST_PLACES: Final = 3
"""Smallest number of places of a regression. A line fits two places without any error."""


SAFE_DEVIATIONS: Final = 14
"""Noise farther from 0 than so many standard deviations has a probability of about 1e-44."""

MOST_UNDEFINED: Final = 1e-6
"""Largest expected number of places without a share in all repetitions of a regression together."""


def read_own_data(path: Path, file: StudyFile) -> OwnData:
    """Read and check all data that a file describes.

    Args:
        path: The TOML file. The paths in it are relative to its folder.
        file: Its content.
    Raises:
        StoreError: a table is missing or cannot be read.
        ConfigError: a column is missing, the noise is that of no geolevel, or the geounits do not fit each other.
        SchemaError: a count or an outcome is not what it has to be.
    """
    counts = None if file.counts is None else _census_counts(path.parent, file.counts)
    regressions = [_regression(path.parent, table) for table in file.regressions]
    if file.blocks is not None:
        regressions += _regressions_of_areas(path.parent, file.blocks)
    return OwnData(path, counts, tuple(regressions))


def _census_counts(folder: Path, table: CountsTable) -> CensusCounts:
    source = _OwnTable(folder / table.path, "counts", f"[counts] '{table.name}'", table.rows)
    for geolevel in table.geolevels:
        _require_noise(geolevel.noise, f"[[counts.geolevels]] '{geolevel.name}'")
    keys = list(dict.fromkeys(name for geolevel in table.geolevels for name in geolevel.geounit))
    rows = source.read(keys, list(table.columns.values()))
    finest = table.geolevels[-1].geounit
    whole = source.whole_numbers(rows, list(table.columns.values()), finest)
    # Counts of a geolevel are sums of the finer ones, so geounits must nest.
    for coarse, fine in pairwise(table.geolevels):
        _require_nested(
            rows, coarse.geounit, fine.geounit, f"{source.where}: geolevel '{fine.name}'", coarse.name
        )
    levels = []
    for geolevel in table.geolevels:
        # Geounits are numbered by all columns that name them, in their order.
        numbers = rows.select(geounit=pl.struct(geolevel.geounit).rank("dense"))["geounit"].to_numpy() - 1
        sums = np.zeros((int(numbers.max()) + 1, whole.shape[1]), dtype=np.int64)
        # Sums of at most 2**31 counts of 2**32 fit int64.
        np.add.at(sums, numbers, whole)
        levels.append(CountedLevel(geolevel.name, geolevel.noise, sums))
    return CensusCounts(table.name, tuple(table.columns), tuple(levels))


def _regression(folder: Path, table: RegressionTable) -> Regression:
    source = _OwnTable(folder / table.path, "regression", f"[[regressions]] '{table.name}'", table.rows)
    rows = source.read(table.geounit, [*table.counts, table.outcome])
    # A place without an outcome is passed over, not refused.
    rows = rows.filter(pl.col(table.outcome).is_not_null())
    source.require_once(rows, table.geounit)
    counts = source.whole_numbers(rows, _share_last(table.counts, table.share), table.geounit)
    places = Places(counts, source.numbers(rows, table.outcome, table.geounit))
    names = [_named(row, table.geounit) for row in rows.select(table.geounit).iter_rows(named=True)]
    _require_fit(places, source, table.noise, table.share, names)
    return Regression(table.name, places, table.noise)


def _regressions_of_areas(folder: Path, table: BlocksTable) -> Iterator[Regression]:
    """Regressions of areas whose counts are sums over their blocks."""
    source = _OwnTable(folder / table.path, "counts", "[blocks]", table.rows)
    rows = source.read([table.geocode], table.counts)
    counts = source.whole_numbers(rows, _share_last(table.counts, table.share), [table.geocode])
    columns = _columns_of_areas(folder, table)
    for regression in table.regressions:
        areas, partial = _areas_of_blocks(columns[regression.area], regression.area, rows[table.geocode])
        yield _regression_of_areas(folder, regression, table.share, (areas, partial), counts)


def _columns_of_areas(folder: Path, table: BlocksTable) -> dict[str, "_OwnTable"]:
    """The table that has the column of each regression's areas."""
    tables = [_OwnTable(folder / path, "areas", "[blocks]", {}) for path in table.areas]
    there = {area.path: column_names(area.path, area.what) for area in tables}
    columns = {}
    for regression in table.regressions:
        having = [area for area in tables if regression.area in there[area.path]]
        if len(having) != 1:
            names = [name for present in there.values() for name in present if name != table.geocode]
            raise ConfigError(
                f"[[blocks.regressions]] '{regression.name}': {len(having)} of the tables of areas "
                f"({', '.join(table.areas)}) have the column '{regression.area}', wanted one. "
                f"{closest_hint(regression.area, names)}"
            )
        columns[regression.area] = having[0]
    return columns


def _areas_of_blocks(source: "_OwnTable", area: str, blocks: pl.Series) -> tuple[pl.Series, pl.Series]:
    """The area of each row's block, null where it is in none; and the areas that have a block without a row."""
    geocode = blocks.name
    table = source.texts([geocode, area])
    source.require_once(table, [geocode])
    lost = blocks.filter(~blocks.is_in(table[geocode].implode()))
    if len(lost):
        raise ConfigError(
            f"{source.where}: {source.path} has no row for the block '{lost[0]}', which has counts (blocks of this "
            f"kind: {lost.n_unique():,}); wanted the area of every block. Use tables of areas of the year and the "
            "States of the counts."
        )
    areas = blocks.to_frame().join(table, on=geocode, how="left", maintain_order="left")[area]
    return areas, table.filter(~pl.col(geocode).is_in(blocks.implode()))[area].drop_nulls().unique()


def _regression_of_areas(
    folder: Path,
    table: AreaRegression,
    share: str,
    areas_of_blocks: tuple[pl.Series, pl.Series],
    counts: npt.NDArray[np.int64],
) -> Regression:
    areas, partial = areas_of_blocks
    where = f"[[blocks.regressions]] '{table.name}'"
    source = _OwnTable(folder / table.path, "regression", where, table.rows)
    outcomes = source.read([table.geounit], [table.outcome]).filter(pl.col(table.outcome).is_not_null())
    source.require_once(outcomes, [table.geounit])
    codes = areas.drop_nulls().unique().sort()
    known = outcomes.filter(pl.col(table.geounit).is_in(codes.implode())).sort(table.geounit)
    if known.is_empty():
        example = f"such as '{codes[0]}'" if len(codes) else "which has none"
        raise ConfigError(
            f"{where}: no code in the column '{table.geounit}' of {source.path} is one of the column '{table.area}' of "
            f"the tables of areas, {example}. Write the codes as they are there, as text."
        )
    chosen = known[table.geounit]
    lacking = chosen.filter(chosen.is_in(partial.implode()))
    if len(lacking):
        raise ConfigError(
            f"{where}: some blocks of {table.area} '{lacking[0]}' have no row of counts (areas of this kind: "
            f"{len(lacking):,}), so their people would be missing from its sums; wanted all blocks of an area with an "
            "outcome. Add the rows, with zeros where nobody lives, or leave the outcome empty."
        )
    # Blocks in no area, and in areas without an outcome, are in no sum.
    number = areas.replace_strict(chosen, pl.Series(range(len(chosen))), default=None)
    inside = number.is_not_null().to_numpy()
    sums = np.zeros((len(chosen), counts.shape[1]), dtype=np.int64)
    # Sums of at most 2**31 counts of 2**32 fit int64.
    np.add.at(sums, number.drop_nulls().to_numpy(), counts[inside])
    places = Places(sums, source.numbers(known, table.outcome, [table.geounit]))
    _require_fit(places, source, table.noise, share, [f"{table.area} '{code}'" for code in chosen])
    return Regression(table.name, places, table.noise)


def _share_last(counts: Sequence[str], share: str) -> list[str]:
    """The columns of counts; the category whose share explains comes last."""
    return [*(name for name in counts if name != share), share]


def _require_fit(
    places: Places, source: "_OwnTable", geolevel: str, share: str, names: Sequence[str]
) -> None:
    """Refuse places that have no share or no slope, or that are too small for the noise."""
    _require_noise(geolevel, source.where)
    counts = places.counts
    totals = counts.sum(axis=1)
    if not totals.all():
        raise SchemaError(
            f"{source.where}: the place {names[int(totals.argmin())]} of {source.path} has no people in any of the "
            "counts, so it has no share. Remove the row, or leave its outcome empty.",
            code="bad-counts",
        )
    if len(counts) < FEWEST_PLACES or len(np.unique(counts[:, -1] / totals)) == 1:
        raise ConfigError(
            f"{source.where}: the file {source.path} has {len(counts)} places with an outcome, and their shares of "
            f"'{share}' have {len(np.unique(counts[:, -1] / totals))} different values. A slope needs at least "
            f"{FEWEST_PLACES} places and 2 different shares. Add places."
        )
    _require_people(counts, source, geolevel)


def _require_people(counts: npt.NDArray[np.int64], source: "_OwnTable", geolevel: str) -> None:
    """Refuse places so small that in some repetition all their noisy counts may be 0, which have no share."""
    # The larger of the two noises.
    variance = both_noises(geolevel)[BUREAU]
    law = DiscreteGaussian(variance)
    reach = math.ceil(SAFE_DEVIATIONS * law.standard_deviation())
    # A count above the noise's reach is never zero in effect; few different values are left.
    values, index = np.unique(np.minimum(counts, reach), return_inverse=True)
    tails = np.array([float(law.cdf(-value)) for value in values.tolist()])
    all_zero = tails[index].reshape(counts.shape).prod(axis=1)
    # Expected number over all places and repetitions: a bound on the chance that any is undefined.
    expected = repetitions_of(len(counts)) * float(all_zero.sum())
    if expected > MOST_UNDEFINED:
        raise ConfigError(
            f"{source.where}: in {source.path} some places are too small for the noise of '{geolevel}' (variance "
            f"{float(variance):.4g}). In all repetitions together {expected:.2g} places are expected to have no noisy "
            f"count above 0, and so no share; wanted at most {MOST_UNDEFINED:g}. Leave the places with the fewest "
            "people out, or name a geolevel with less noise."
        )


@dataclass(frozen=True, slots=True)
class _OwnTable:
    """A table of the user's, and how messages name it.

    Attributes:
        path: Parquet or CSV file.
        what: Its role, for messages of the readers.
        where: The place in the TOML file that names it.
        rows: Texts by column. Only rows with these texts are read.
    """

    path: Path
    what: str
    where: str
    rows: Mapping[str, str]

    def read(self, keys: Sequence[str], numbers: Sequence[str]) -> pl.DataFrame:
        """The wanted rows. Keys are texts without gaps; numbers are as they stand in the file."""
        frame = scan_table(self.path, [*self.rows, *keys, *numbers], self.what)
        for name in (*self.rows, *keys):
            require_text(frame, name, self.path, self.what)
        for name in numbers:
            require_counts(frame, name, self.path, self.what)
        wanted = [pl.col(name) == text for name, text in self.rows.items()]
        table = collect(frame.filter(*wanted) if wanted else frame, self.path, self.what)
        if table.is_empty():
            texts = " and ".join(f"{name} = '{text}'" for name, text in self.rows.items())
            row = f"row with {texts}" if texts else "row"
            raise ConfigError(
                f"{self.where}: the file {self.path} has no {row}; wanted at least one. Correct the texts in rows, or "
                "name another file."
            )
        for name in keys:
            if table[name].null_count():
                raise ConfigError(
                    f"{self.where}: column '{name}' of {self.path} is empty in some rows (number: "
                    f"{table[name].null_count():,}), so it is not known in which geounit they are. Fill it, or remove "
                    "the rows."
                )
        return table

    def texts(self, columns: Sequence[str]) -> pl.DataFrame:
        """Columns of text, with their gaps."""
        frame = scan_table(self.path, columns, self.what)
        for name in columns:
            require_text(frame, name, self.path, self.what)
        return collect(frame, self.path, self.what)

    def whole_numbers(
        self, rows: pl.DataFrame, columns: Sequence[str], keys: Sequence[str]
    ) -> npt.NDArray[np.int64]:
        """Columns of counts, int64 [rows, columns]. It raises SchemaError if a count is not a whole number."""
        arrays = []
        for name in columns:
            whole = rows[name].cast(pl.Int64, strict=False)
            # Compared as floats as well, so that 1.5 is not read as 1.
            fits = whole.is_between(0, LARGEST_COUNT) & (whole == rows[name].cast(pl.Float64, strict=False))
            self._require(rows, name, fits, keys, f"whole numbers from 0 to {LARGEST_COUNT:,}")
            arrays.append(whole.to_numpy())
        return np.ascontiguousarray(np.stack(arrays, axis=1))

    def numbers(self, rows: pl.DataFrame, column: str, keys: Sequence[str]) -> npt.NDArray[np.float64]:
        """A column of numbers. It raises SchemaError if one is not finite."""
        values = rows[column].cast(pl.Float64, strict=False)
        self._require(rows, column, values.is_finite(), keys, 'finite numbers such as "61937.5"')
        return np.ascontiguousarray(values.to_numpy())

    def _require(
        self, rows: pl.DataFrame, column: str, fits: pl.Series, keys: Sequence[str], wanted: str
    ) -> None:
        bad = rows.filter(~fits.fill_null(value=False))
        if bad.is_empty():
            return
        first = bad.row(0, named=True)
        got = "nothing" if first[column] is None else f"{str(first[column])[:40]!r}"
        raise SchemaError(
            f"{self.where}: column '{column}' of {self.path} holds {got} at {_named(first, keys)}; "
            f"wanted {wanted}. Rows that do not fit: {bad.height:,}. Correct the file.",
            code="bad-counts",
        )

    def require_once(self, rows: pl.DataFrame, keys: Sequence[str]) -> None:
        """Refuse a file that has a place twice."""
        twice = rows.filter(rows.select(keys).is_duplicated())
        if not twice.is_empty():
            raise ConfigError(
                f"{self.where}: {self.path} has more than one row for {_named(twice.row(0, named=True), keys)}; "
                "wanted one row for each place. Sum the rows, or name in geounit all columns that tell places apart."
            )


def _require_noise(noise: str, where: str) -> None:
    known = geolevels()
    if noise not in known:
        raise ConfigError(
            f"{where}: noise is '{noise}', wanted a geolevel of the paper's Table 1. {closest_hint(noise, known)}"
        )


def _require_nested(
    rows: pl.DataFrame, coarse: Sequence[str], fine: Sequence[str], where: str, coarse_name: str
) -> None:
    """Refuse a geounit that lies in several geounits of the geolevel above, since its name would stand for several."""
    pairs = rows.select([*dict.fromkeys([*fine, *coarse])]).unique(maintain_order=True)
    split = pairs.filter(pairs.select(fine).is_duplicated())
    if split.is_empty():
        return
    raise ConfigError(
        f"{where}: the geounit {_named(split.row(0, named=True), fine)} lies in more than one geounit of "
        f"'{coarse_name}'; wanted one. Name in geounit all columns that tell geounits apart, and order the geolevels "
        "from the coarsest to the finest."
    )


def _named(row: Mapping[str, object], keys: Iterable[str]) -> str:
    return ", ".join(f"{key} '{row[key]}'" for key in keys)
