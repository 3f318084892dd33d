"""Reads records: from a table to the true histogram, with errors that show no record."""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from tallyveil.confidential.histogram import ConfidentialHistogram
from tallyveil.confidential.households import households_of
from tallyveil.errors import GeographyError, SchemaError, TallyveilError
from tallyveil.geography.spine import Spine
from tallyveil.plans.inputs import Households
from tallyveil.schema.attribute import Attribute, bins_of, ranges_of
from tallyveil.schema.counts import LARGEST_COUNT, TripletSum
from tallyveil.schema.query_group import Factor
from tallyveil.schema.schema import Schema
from tallyveil.storage.read import (
    PLAIN,
    TextForm,
    collect_batches,
    require_counts,
    require_levels,
    require_numbers,
    require_text,
    scan_table,
    whole_number,
)

logger = logging.getLogger(__name__)

GEOCODE, WEIGHT = "__geocode", "__count"
_UNIT = "__unit"
_SHORT = "__short_"
"""Prefix of the columns that say whether a value of an attribute has lost its leading zeros."""


def read_records(
    path: Path,
    *,
    geocode: str,
    count: str | None,
    columns: Mapping[str, str],
    schema: Schema,
    spine: Spine,
    numbers: Collection[str] = (),
    repeated: Mapping[str, Factor] | None = None,
    missing: Mapping[str, str] | None = None,
    form: TextForm = PLAIN,
    household: Households | None = None,
) -> ConfidentialHistogram:
    """Read a table of records, in batches, into the true histogram of the finest geolevel.

    The memory needed depends on the histogram, not on the table. Tables sorted by geocode are read faster.

    Args:
        path: Parquet or CSV file, with one row for each record, or with a column of counts.
        geocode: Column of the finest geocode (text).
        count: Column of non-negative integer counts, or None if each row is one record.
        columns: Column of every attribute, by attribute name. Its values are names of levels.
        schema: The universe that the records must fit.
        spine: The hierarchy that must contain their geocodes.
        numbers: Attributes whose columns hold whole numbers. Their levels are ranges.
        missing: Level of records without a value, by attribute; without it, they are refused.
        form: How a text file is written.
        household: How the records, which are of households, follow from those of the table; None if they are its rows.
        repeated: Further columns that say again what follows from an attribute, each with the groups of its levels.
    Raises:
        SchemaError: a value is not a level of its attribute, a count is negative, missing or fractional, counts are too
            large (`LARGEST_COUNT`), a record lies in a structural zero, or a repeated column contradicts its attribute.
        GeographyError: a record's geocode is not in the geography table.
        ConfigError, StoreError: the file or a column is missing or unreadable.
    Privacy: messages name only columns and rules, never a value, a geocode or a number of records.
    """
    total = TripletSum(spine.n_geounits(spine.finest), schema.size)
    if household is not None:
        numbers = [name for name, _ in household.number]
    problems = _Problems(path, geocode, count, columns, schema, spine, numbers, repeated or {})
    if household is not None:
        problems.derived_from = {name: member.column for name, member in household.value}
    # A batch is added up while the next one is read. Each batch waits for the one before, so that memory holds few.
    with ThreadPoolExecutor(1) as adder:
        added = adder.submit(lambda: None)
        for _, rows, cells, persons in _sound_batches(problems, missing or {}, form, household=household):
            added.result()
            added = adder.submit(total.add, rows, cells, persons)
        added.result()
    logger.info("records read and valid")
    return ConfidentialHistogram(spine.geolevels[spine.finest], *total.finish())


def read_units(
    path: Path,
    *,
    geocode: str,
    unit: str,
    columns: Mapping[str, str],
    schema: Schema,
    spine: Spine,
    numbers: Collection[str] = (),
    missing: Mapping[str, str] | None = None,
    form: TextForm = PLAIN,
) -> "RecordUnits":
    """Read which unit, such as a household or an establishment, each record belongs to.

    Args:
        path, geocode, columns, schema, spine, numbers, missing, form: As in `read_records`; each row is one record.
        unit: Column that names the unit of each record. A record without one is a unit of its own.
    Raises:
        SchemaError, GeographyError, ConfigError, StoreError: as in `read_records`.
    Privacy: confidential. Messages are those of `read_records`.
    """
    problems = _Problems(path, geocode, None, columns, schema, spine, numbers)
    parts = [
        (rows, cells, batch[_UNIT])
        for batch, rows, cells, _ in _sound_batches(problems, missing or {}, form, unit=unit)
    ]
    rows, cells = (
        np.concatenate([part[place] for part in parts] or [np.zeros(0, np.int64)]) for place in (0, 1)
    )
    named = pl.concat([part[2] for part in parts] or [pl.Series([], dtype=pl.String)])
    # Equal texts have equal numbers; a record without a unit gets a number that no other has.
    numbered = named.rank("dense").cast(pl.Int64).fill_null(0).to_numpy().copy()
    alone = numbered == 0
    numbered[alone] = numbered.max(initial=0) + 1 + np.arange(int(alone.sum()))
    order = np.lexsort((cells, rows))
    return RecordUnits(rows[order], cells[order], numbered[order])


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class RecordUnits:
    """The unit of every record, the records in the order of their geounits and cells. Confidential.

    Attributes:
        geounits: Finest geounit of each record; int64, shape (n_records,).
        cells: Cell of each record.
        units: Number of the unit of each record.
    """

    geounits: np.ndarray
    cells: np.ndarray
    units: np.ndarray

    def __repr__(self) -> str:
        return "RecordUnits(<redacted>)"


def _sound_batches(
    problems: "_Problems",
    missing: Mapping[str, str],
    form: TextForm,
    *,
    unit: str | None = None,
    household: Households | None = None,
) -> Iterator[tuple[pl.DataFrame, np.ndarray, np.ndarray, np.ndarray]]:
    """Batches of coded records that break no rule, each with their geounits, cells and counts.

    Raises:
        TallyveilError: at the end, one error that names all problems; or the file or a column is missing.
    """
    path, geocode, count, columns = problems.path, problems.geocode, problems.count, problems.columns
    # Each column once, also where two attributes are recoded from the same one.
    read = columns.values() if household is None else household.columns
    wanted = [
        geocode,
        *read,
        *([count] if count else []),
        *problems.repeated,
        *([unit] if unit else []),
    ]
    frame = scan_table(path, list(dict.fromkeys(wanted)), "records", confidential=True, form=form)
    # The types are checked before any value is read, so that a message can name the column and nothing else.
    require_text(frame, geocode, path, "records")
    if household is not None:
        require_levels(frame, list(household.columns), path, "records")
        frame = households_of(frame, household, geocode)
    require_levels(frame, list(columns.values()), path, "records")
    require_numbers(frame, [columns[name] for name in problems.numbers], path, "records")
    if count is not None:
        require_counts(frame, count, path, "records")
    frame = frame.with_columns(_without_gaps(columns[name], level) for name, level in missing.items())
    coded = [
        *_coded_places(geocode, count, form.decimal),
        *_coded_levels(columns, problems.schema, problems.numbers, form.decimal),
        *_coded_again(problems.repeated),
        *([] if unit is None else [pl.col(unit).cast(pl.String).alias(_UNIT)]),
    ]
    for batch in collect_batches(frame.select(coded), path, "records"):
        counts = batch[WEIGHT] if count else None
        rows = problems.spine.locate(problems.spine.finest, batch[GEOCODE])
        # What cannot be located or coded is noted and skipped, so that one error at the end names every problem.
        if problems.look(batch, rows, counts):
            cells = _cells(batch, problems.schema)
            problems.look_at_cells(cells)
            persons = np.ones(batch.height, dtype=np.int64) if counts is None else counts.to_numpy()
            if problems.look_at_sizes(persons):
                yield batch, rows, cells, persons
    # After the last batch: an error at the first bad row would tell where in the table it stands.
    problems.refuse()


def _without_gaps(column: str, level: str) -> pl.Expr:
    """A column with a level in the place of nulls and empty texts."""
    text = pl.col(column).cast(pl.String)
    return pl.when(text.is_null() | (text == "")).then(pl.lit(level)).otherwise(text).alias(column)


def _coded_places(geocode: str, count: str | None, decimal: str) -> list[pl.Expr]:
    """The geocode as text, and the count (null if it is not an integer)."""
    coded = [pl.col(geocode).cast(pl.String).alias(GEOCODE)]
    return coded if count is None else [*coded, whole_number(count, decimal).alias(WEIGHT)]


def _coded_levels(
    columns: Mapping[str, str], schema: Schema, numbers: Collection[str], decimal: str
) -> list[pl.Expr]:
    """The level codes; null for an unknown level, and for a number in no range."""
    coded = []
    for attribute in schema.attributes:
        column = columns[attribute.name]
        if attribute.name in numbers:
            begins, levels = bins_of(ranges_of(attribute.levels, attribute.name))
            # Polars cuts at floats, which are exact for bounds below 2**53.
            bins = (
                whole_number(column, decimal)
                .cut([float(begin) for begin in begins], left_closed=True)
                .to_physical()
            )
            # The bins are numbered by their order; this gives each the code of its level, and none to gaps between
            # ranges.
            code = bins.replace_strict(range(len(levels)), levels, default=None, return_dtype=pl.UInt32)
        else:
            code = (
                pl.col(column)
                .cast(pl.String)
                # An unknown text becomes null here and is counted as a bad level; it is never quoted.
                .cast(pl.Enum(list(attribute.levels)), strict=False)
                .to_physical()
            )
            if width := _zeros_width(attribute.levels):
                longer = pl.col(column).cast(pl.String).str.zfill(width)
                # Only a value that becomes a level with zeros in front, and was none without, has lost zeros.
                short = longer.is_in(list(attribute.levels)) & (longer != pl.col(column).cast(pl.String))
                coded.append(short.fill_null(value=False).alias(_SHORT + attribute.name))
        coded.append(code.alias(_code_column(attribute.name)))
    return coded


def _zeros_width(levels: Sequence[str]) -> int:
    """Number of digits of levels that begin with a zero, such as `01`; 0 if there are none."""
    return max((len(level) for level in levels if level.isdecimal() and level.startswith("0")), default=0)


def _coded_again(repeated: Mapping[str, Factor]) -> list[pl.Expr]:
    """The numbers of the groups that columns name once more; null for what names none."""
    return [
        pl.col(column)
        .cast(pl.String)
        .replace_strict(list(factor.labels), range(factor.size), default=None, return_dtype=pl.Int64)
        .alias(_again_column(column))
        for column, factor in repeated.items()
    ]


def _again_column(column: str) -> str:
    return f"__again_{column}"


def _code_column(attribute: str) -> str:
    return f"__code_{attribute}"


def _cells(batch: pl.DataFrame, schema: Schema) -> np.ndarray:
    codes = [batch[_code_column(name)].to_numpy() for name in schema.attribute_names]
    return schema.encode(np.stack(codes, axis=1))


@dataclass(slots=True)
class _Problems:
    """The rules that the records read so far break, without where they break them."""

    path: Path
    geocode: str
    count: str | None
    columns: Mapping[str, str]
    schema: Schema
    spine: Spine
    numbers: Collection[str] = ()
    repeated: Mapping[str, Factor] = field(default_factory=dict)
    derived_from: Mapping[str, str] = field(default_factory=dict)
    contradicted: set[str] = field(default_factory=set)
    bad_counts: bool = False
    bad_attributes: set[str] = field(default_factory=set)
    bad_geocodes: bool = False
    short_codes: set[str] = field(default_factory=set)
    impossible: bool = False
    too_many: bool = False
    _persons: int = field(default=0, repr=False)

    def look(self, batch: pl.DataFrame, rows: np.ndarray, counts: pl.Series | None) -> bool:
        """Note what is wrong with a batch. Returns whether its cells can be numbered."""
        self.bad_counts |= counts is not None and bool((counts.null_count() > 0) or (counts < 0).any())
        bad = {name for name in self.schema.attribute_names if batch[_code_column(name)].null_count()}
        self.bad_attributes |= bad
        self.bad_geocodes |= bool((rows < 0).any())
        self.short_codes |= {name for name in bad if _SHORT + name in batch and batch[_SHORT + name].any()}
        # Tried only for geocodes that are unknown, and only until one is found: it serves a hint in the message.
        if (rows < 0).any() and GEOCODE not in self.short_codes:
            lost = batch[GEOCODE].filter(rows < 0).drop_nulls().unique()
            width = int(self.spine.geocodes[-1].text.str.len_chars().to_numpy().max())
            longer = lost.str.zfill(width)
            if (self.spine.locate(self.spine.finest, longer.filter(longer != lost)) >= 0).any():
                self.short_codes.add(GEOCODE)
        for column, factor in self.repeated.items():
            if factor.attribute not in bad:
                # A batch with a bad code of the attribute was left out above; a code of null would index at random.
                group = factor.codes[batch[_code_column(factor.attribute)].to_numpy()]
                # -1 marks a text that names no group. Such a row says nothing, and contradicts nothing.
                said = batch[_again_column(column)].fill_null(-1).to_numpy()
                self.contradicted |= {column} if bool(((said >= 0) & (group != said)).any()) else set()
        return not (self.bad_counts or self.bad_attributes or self.bad_geocodes)

    def look_at_cells(self, cells: np.ndarray) -> None:
        """Note whether a cell is in a structural zero."""
        self.impossible |= not bool(self.schema.possible(cells).all())

    def look_at_sizes(self, persons: np.ndarray) -> bool:
        """Note whether a count, or the sum of all counts so far, is too large. Returns whether they may be added up.

        No sum here overflows, because a batch has fewer than 2**30 rows and each count is at most 2**32.
        """
        # The sum is not taken once a count is too large: only small counts are proved not to overflow it.
        if not self.too_many and persons.size:
            self.too_many = int(persons.max()) > LARGEST_COUNT
        if not self.too_many:
            self._persons += int(persons.sum())
            self.too_many = self._persons > LARGEST_COUNT
        return not self.too_many

    def refuse(self) -> None:
        """Raise one error that names every problem, if there is any."""
        problems: list[TallyveilError] = []
        if self.bad_counts:
            problems.append(self._counts_problem())
        for attribute in self.schema.attributes:
            if attribute.name in self.bad_attributes:
                problems.append(self._attribute_problem(attribute))
        if self.bad_geocodes:
            problems.append(self._geocode_problem())
        problems += [self._contradiction(column) for column in sorted(self.contradicted)]
        if self.too_many:
            problems.append(self._size_problem())
        if problems:
            # Structural zeros are looked at last and alone: where codes are bad, cells were not numbered at all.
            raise _together(problems)
        if self.impossible:
            raise self._impossible_problem()

    def _counts_problem(self) -> SchemaError:
        return SchemaError(
            f"column '{self.count}' of the records file {self.path} has negative, missing or fractional counts; "
            "wanted integers of 0 or more. Correct or remove those rows (filter the column for values below 0, "
            "nulls and fractions to find them). Survey weights cannot be released: leave count out, and count the "
            "records of the sample.",
            code="bad-counts",
        )

    def _attribute_problem(self, attribute: Attribute) -> SchemaError:
        shown = ", ".join(attribute.levels[:12]) + (", ..." if attribute.size > 12 else "")
        # The column of the file: a derived attribute has its values from that of another name.
        column = self.derived_from.get(attribute.name, self.columns[attribute.name])
        return SchemaError(
            f"column '{column}' of the records file {self.path} has values (or nulls) that are "
            f"{self._what(attribute)} of attribute '{attribute.name}'. Its {attribute.size} levels are: {shown}. "
            f"{self._zeros(attribute.name)}Recode the column, or add the level to the schema.",
            code="unknown-level",
        )

    def _zeros(self, name: str) -> str:
        """A sentence on leading zeros, if values of an attribute, or geocodes (`GEOCODE`), have lost them."""
        if name not in self.short_codes:
            return ""
        return (
            "Values have lost their leading zeros: with zeros in front they are known. Where the file is made, keep "
            "the column as text. "
        )

    def _what(self, attribute: Attribute) -> str:
        """What the values of a column should be."""
        return "not whole numbers in a range" if attribute.name in self.numbers else "not levels"

    def _size_problem(self) -> SchemaError:
        return SchemaError(
            f"the records file {self.path} has a count above {LARGEST_COUNT:,}, or counts that add up to more than "
            "that. The computations that follow are not proved for larger numbers. Correct the counts, or release "
            "parts of the population one by one.",
            code="counts-too-large",
        )

    def _geocode_problem(self) -> GeographyError:
        return GeographyError(
            f"the records file {self.path} has records whose '{self.geocode}' is missing or is no "
            f"{self.spine.geolevels[self.spine.finest]} of the geography table. {self._zeros(GEOCODE)}Add the missing "
            "geounits to the "
            "table (it must list every geounit, also the empty ones), or correct the records; an anti-join of the "
            "two files finds them.",
            code="unknown-geounit",
        )

    def _contradiction(self, column: str) -> SchemaError:
        factor = self.repeated[column]
        return SchemaError(
            f"column '{column}' of the records file {self.path} contradicts column '{self.columns[factor.attribute]}': "
            f"where it names a group of '{factor.name}', this must be the group of attribute '{factor.attribute}'. A "
            "release that this one agrees with counts by it. Correct the records, or rename a column that means "
            "something else.",
            code="records-contradict",
        )

    def _impossible_problem(self) -> SchemaError:
        names = ", ".join(f"'{zero.name}'" for zero in self.schema.structural_zeros)
        return SchemaError(
            f"the records file {self.path} has records in a structural zero of schema '{self.schema.name}' "
            f"({names}). Edit those records before the release, or remove the structural zero from the schema.",
            code="structural-zero",
        )


def _together(problems: list[TallyveilError]) -> TallyveilError:
    """One error that names all problems. It has the type of the first problem."""
    if len(problems) == 1:
        return problems[0]
    lines = [f"{len(problems)} problems with the records:"] + [f"- {problem}" for problem in problems]
    # The code of the first problem; a program that reads codes gets one, a person reads all of them.
    return type(problems[0])("\n".join(lines), code=problems[0].code)
