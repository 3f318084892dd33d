"""Writes tables of the layout, with geocodes of the layout for any spine.

The geocode of a geounit begins with its parent's, and a block's ends with its tabulation block. A spine of
tabulation geounits keeps its geocodes. Any other geounit gets the geocode of its parent and its number among
the parent's children. In both cases the order of geounits stays.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.budget.allocation import Allocation
from tallyveil.errors import GeographyError
from tallyveil.geography.spine import Spine
from tallyveil.measurements.layouts.census_2020.words import (
    ANSWERS,
    CONSTRAINTS,
    GEOLEVELS,
    STRUCTURAL_ZEROS,
    TOTAL,
    answer_name,
    attribute_words,
    lower_name,
    table_folder,
    upper_name,
    zero_words,
)
from tallyveil.measurements.layouts.described.form import AT_LEAST, AT_MOST, EQUAL
from tallyveil.measurements.layouts.described.settings import expected_variances
from tallyveil.schema.counts import LARGEST_COUNT
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema
from tallyveil.storage.paths import file_name, inside
from tallyveil.storage.write import write_parquet

# Digits of a tabulation geocode that name its geounit at each geolevel.
_DIGITS: Final = {"State": 2, "County": 5, "Tract": 11, "Block_Group": 12}


def published_geocodes(spine: Spine) -> tuple[pl.Series, ...]:
    """Geocodes of all geounits by geolevel, in the order of the spine.

    Raises:
        GeographyError: the geolevels are not those of the layout, or a block's geocode does not have 15 digits.
    """
    _require_geolevels(spine)
    blocks = spine.geocodes[-1].text
    if not bool(blocks.str.contains(r"^[0-9]{15}$").all()):
        bad = blocks.filter(~blocks.str.contains(r"^[0-9]{15}$"))
        raise GeographyError(
            f"the geocode {bad[0]!a:.60} of {spine.geolevels[-1]} does not have 15 digits: State (2), county (3), "
            'tract (6) and block (4). The layout "census-2020" needs them. Write the layout "tidy", which takes any '
            "geocodes.",
            code="layout-unsuited",
        )
    # The files write the number of the block group by itself, too.
    long = blocks.str.slice(0, 11) + blocks.str.slice(11, 1) + blocks.str.slice(11)
    tabulated = tuple(_tabulated(spine, level, long) for level in range(spine.finest))
    if all(column is not None for column in tabulated):
        return (*(column for column in tabulated if column is not None), long)
    # From here on geocodes are made up: parents first, so that each begins with that of its parent.
    codes = [_first(spine)]
    for level in range(1, spine.n_levels):
        parents = spine.parents(level)
        number = np.arange(len(parents)) - spine.child_offsets[level - 1][parents]
        # One width for a geolevel, because all its geocodes have one length.
        width = len(str(int(number.max(initial=0))))
        numbers = pl.Series(number).cast(pl.String).str.zfill(width) if level < spine.finest else long
        codes.append(codes[-1].gather(parents) + numbers)
    return tuple(codes)


def _first(spine: Spine) -> pl.Series:
    """Geocodes of the roots: empty for the US, else numbers."""
    roots = spine.n_geounits(0)
    if spine.geolevels[0] == GEOLEVELS[0] and roots == 1:
        return pl.Series([""])
    return pl.Series(np.arange(roots)).cast(pl.String).str.zfill(len(str(roots)))


def _tabulated(spine: Spine, level: int, blocks: pl.Series) -> pl.Series | None:
    """Geocodes of a geolevel whose geounits are those of the tabulation geography; None for another geolevel."""
    name = spine.geolevels[level]
    if name == GEOLEVELS[0]:
        return pl.Series([""]) if spine.n_geounits(level) == 1 else None
    codes = spine.geocodes[level].text
    of_blocks = blocks.str.slice(0, _DIGITS[name])
    # Compared at the blocks: a geolevel is that of the tabulation if every block agrees.
    return codes if codes.gather(spine.ancestors(level)).equals(of_blocks) else None


def _require_geolevels(spine: Spine) -> None:
    names = spine.geolevels
    if names not in (GEOLEVELS, GEOLEVELS[1:]):
        raise GeographyError(
            f'the measurements have the geolevels {", ".join(names)}; the layout "census-2020" has '
            f'{", ".join(GEOLEVELS)}, where US may be left out. Write the layout "tidy", which takes any geolevels.',
            code="layout-unsuited",
        )


GEOUNITS_AT_ONCE: Final = 1 << 16
"""Geounits whose constraints are written together, and so are rows of one file before it is divided by State. Another
number would give other files."""
_STATE: Final = "State"


class LayoutWriter:
    """Writes the tables of one folder, file by file.

    Args:
        root: The folder.
        schema: The universe.
        spine: The spine that was measured.
        codes: Geocodes of the layout, by geolevel.
        metadata: Tags of every file.
    """

    def __init__(
        self,
        root: Path,
        schema: Schema,
        spine: Spine,
        codes: tuple[pl.Series, ...],
        metadata: Mapping[str, str],
    ) -> None:
        self._root = root
        self._schema = schema
        self._spine = spine
        self._codes = codes
        self._metadata = metadata
        self._numbers: dict[tuple[str, str], int] = {}

    def answers(
        self, level: int, group: QueryGroup, rows: Integers, values: pl.Series, allocation: Allocation
    ) -> None:
        """Write the noisy answers of a query in some geounits.

        Args:
            level: Number of the geolevel.
            group: The query.
            rows: The geounits.
            values: For each of them, the list of its noisy answers.
            allocation: What they were measured with. The layout has the parameter of the law as its variance.
        """
        geolevel = self._spine.geolevels[level]
        # The layout has the law's parameter for its variance; `is_close` to either is accepted when files are read.
        _, parameters = expected_variances(allocation, geolevel, group.name)
        columns: dict[str, pl.Series | pl.Expr] = {
            "query_name": pl.lit(answer_name(group.name)),
            **_constants(attribute_words(group)),
            "query_shape": _shape(group.shape),
            "value": values,
            "variance": pl.Series(parameters[rows]),
            "plb": _parts_of_budget(allocation, geolevel, group.name, rows),
        }
        self._write(level, ANSWERS, rows, columns)

    def bounds(self, level: int, query: QueryGroup, lower: Integers, upper: Integers, start: int) -> None:
        """Write lower and upper bounds on a query's answers, for consecutive geounits from `start`."""
        for name, sign, values in (
            (lower_name(query.name), AT_LEAST, lower),
            # "No bound" is 2^62 here, which the layout writes as the largest count.
            (upper_name(query.name), AT_MOST, np.minimum(upper, LARGEST_COUNT)),
        ):
            self._constraint(level, name, sign, query, values, start)

    def totals(self, level: int, query: QueryGroup, counts: Integers, start: int) -> None:
        """Write exact totals, for consecutive geounits from `start`."""
        self._constraint(level, TOTAL, EQUAL, query, counts, start)

    def structural_zeros(self, level: int) -> None:
        """Write the structural zeros of the schema, for all geounits of a geolevel."""
        for zero in self._schema.structural_zeros:
            name, words = STRUCTURAL_ZEROS[zero.name]
            for start, stop in steps_of(self._spine.n_geounits(level)):
                values = pl.Series(np.zeros((stop - start, 1), dtype=np.int64))
                words_of_all = zero_words(self._schema, words)
                shape = tuple(1 for _ in words_of_all)
                self._rows(level, name, EQUAL, words_of_all, shape, values, start)

    def _constraint(
        self, level: int, name: str, sign: str, query: QueryGroup, values: Integers, start: int
    ) -> None:
        words = attribute_words(query)
        self._rows(level, name, sign, words, query.shape, pl.Series(values), start)

    def _rows(
        self,
        level: int,
        name: str,
        sign: str,
        words: Mapping[str, str],
        shape: tuple[int, ...],
        values: pl.Series,
        start: int,
    ) -> None:
        columns: dict[str, pl.Series | pl.Expr] = {
            "query_name": pl.lit(name),
            "sign": pl.lit(sign),
            **_constants(words),
            "query_shape": _shape(shape),
            "value": values.cast(pl.List(pl.Int64)),
        }
        self._write(level, CONSTRAINTS, np.arange(start, start + len(values)), columns)

    def _write(
        self, level: int, table: str, rows: Integers, columns: Mapping[str, pl.Series | pl.Expr]
    ) -> None:
        """Write rows, divided by State below the States."""
        frame = pl.DataFrame({"geocode": self._codes[level].gather(rows)}).with_columns(**columns)
        geolevels = self._spine.geolevels
        state = geolevels.index(_STATE)
        # A State is one row, so that dividing by State would give a file for each row.
        if level <= state:
            self._part(geolevels[level], table, (), frame)
            return
        width = len(self._codes[state][0])
        # Geocodes begin with that of their State.
        for (code,), part in frame.group_by(pl.col("geocode").str.slice(0, width), maintain_order=True):
            self._part(geolevels[level], table, (f"{_STATE}={file_name(str(code))}",), part)

    def _part(self, geolevel: str, table: str, below: tuple[str, ...], frame: pl.DataFrame) -> None:
        # Numbered within the table: names stay unique over all folders of States.
        number = self._numbers.get((geolevel, table), 0)
        self._numbers[geolevel, table] = number + 1
        path = inside(self._root, *table_folder(geolevel, table), *below, f"part-{number:05d}.parquet")
        write_parquet(path, frame, self._metadata)


def _parts_of_budget(allocation: Allocation, geolevel: str, query: str, rows: Integers) -> pl.Series:
    """For each geounit, the part of the whole budget that a query has there."""
    shares = dict(allocation.strategy.shares_of(geolevel))
    # Exact fractions are multiplied, and made a float once at the end.
    by_position = np.array([float(value * shares[query]) for value in allocation.shares.values])
    return pl.Series(by_position[allocation.positions(geolevel)[rows]])


def steps_of(n_geounits: int) -> Iterator[tuple[int, int]]:
    """Ranges of geounits whose constraints are written together."""
    for start in range(0, n_geounits, GEOUNITS_AT_ONCE):
        yield start, min(start + GEOUNITS_AT_ONCE, n_geounits)


def _constants(words: Mapping[str, str]) -> dict[str, pl.Expr]:
    return {name: pl.lit(word) for name, word in words.items()}


def _shape(shape: tuple[int, ...]) -> pl.Expr:
    return pl.lit(pl.Series([list(shape)], dtype=pl.List(pl.Int64))).first()
