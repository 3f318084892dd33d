"""Counts and regressions of a user's own, read from the files that the TOML file of `--own` names.

Everything is checked here, before a figure is recomputed. The data are treated as public: messages may quote them, and
the noise of a study protects nobody.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from tallyveil.errors import ConfigError, SchemaError
from tallyveil.noise import DiscreteGaussian
from tallyveil.plans.from_toml.study_files import CountsTable, RegressionTable, StudyFile
from tallyveil.schema.names import closest_hint
from tallyveil.storage.read import collect, require_counts, require_text, scan_table
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
    return OwnData(path, counts, tuple(_regression(path.parent, table) for table in file.regressions))


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
    _require_noise(table.noise, source.where)
    rows = source.read(table.geounit, [*table.counts, table.outcome])
    # A place without an outcome is passed over, not refused.
    rows = rows.filter(pl.col(table.outcome).is_not_null())
    source.require_once(rows, table.geounit)
    # The category whose share explains comes last.
    columns = [*(name for name in table.counts if name != table.share), table.share]
    counts = source.whole_numbers(rows, columns, table.geounit)
    outcome = source.numbers(rows, table.outcome, table.geounit)
    totals = counts.sum(axis=1)
    if not totals.all():
        place = _named(rows.row(int(totals.argmin()), named=True), table.geounit)
        raise SchemaError(
            f"{source.where}: the place {place} of {source.path} has no people in {', '.join(table.counts)}, so it has "
            "no share. Remove the row, or leave its outcome empty.",
            code="bad-counts",
        )
    if len(counts) < FEWEST_PLACES or len(np.unique(counts[:, -1] / totals)) == 1:
        raise ConfigError(
            f"{source.where}: the file {source.path} has {len(counts)} places with an outcome, and their shares of "
            f"'{table.share}' have {len(np.unique(counts[:, -1] / totals))} different values. A slope needs at least "
            f"{FEWEST_PLACES} places and 2 different shares. Add places.",
        )
    _require_people(counts, source, table.noise)
    return Regression(table.name, Places(counts, outcome), table.noise)


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
