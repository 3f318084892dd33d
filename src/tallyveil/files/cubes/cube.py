"""A published table as a data cube, whatever product made it, so that every form of publication reads all of them.

A cube has dimensions, each with its codes in order, and measures. An observation is one combination of codes. Its
*place* is the mixed-radix number of its codes; the first dimension is the most significant. Observations come in
order of their places, part by part, so that a table is never in memory as a whole. A cube that is not whole, such as
the groups of SafeTab that were published, has no observation at most places.

The quality of an observation is its status, in the codes of SDMX's cross-domain list CL_OBS_STATUS: `A` (normal: the
number is published exactly), `E` (estimated: noise was added to it), `U` (of low reliability: noise was added, and
its standard error is more than a third of the published number).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.errors import StoreError
from tallyveil.files.intervals import DECIMALS
from tallyveil.schema.answer_columns import code_expression

Texts = Mapping[str, str]
"""One text in each language. The first language is the one that is shown without a choice."""

PLACE: Final = "place"
STATUS: Final = "status"
EXACT, NOISY, UNRELIABLE = "A", "E", "U"
STATUSES: Final = (EXACT, NOISY, UNRELIABLE)
FREE: Final = "F"
"""Confidentiality status of every observation, in the codes of SDMX's list CL_CONF_STATUS: free for publication."""
LEAST_RATIO: Final = 3
"""Published numbers of fewer standard errors than this are unreliable. At 3, noise makes up a third of such a number
or more; at twice this, two of three numbers of small areas would be marked, and at half of it the mark would come
where a number may as well be 0."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A number that an observation has.

    Attributes:
        name: Its column.
        concept: Its concept in SDMX.
        decimals: How many decimals of it are shown.
        scale: How many a form writes that has a fixed number: those that estimates have. Other forms write all.
        is_whole: Whether it is always a whole number.
    """

    name: str
    concept: str
    decimals: int = 2
    scale: int = DECIMALS
    is_whole: bool = False


COUNT: Final = Measure("count", "OBS_VALUE", 0, 0, is_whole=True)
ESTIMATE: Final = Measure("estimate", "ESTIMATE")
STANDARD_ERROR: Final = Measure("standard_error", "STANDARD_ERROR")
LOWER: Final = Measure("lower", "LOWER_BOUND", 0, 0, is_whole=True)
UPPER: Final = Measure("upper", "UPPER_BOUND", 0, 0, is_whole=True)
MARGIN: Final = Measure("margin", "MARGIN")
ESTIMATE_MARGIN: Final = Measure("estimate_margin", "ESTIMATE_MARGIN")


@dataclass(frozen=True, slots=True, eq=False)
class Dimension:
    """What the observations of a cube are told apart by.

    Attributes:
        name: An attribute, a recode, or another name that the product gives.
        list_name: Name of its list of codes; dimensions of one release with the same name of a list have one list.
        codes: The codes in order, each once.
        titles: What it is called.
        labels: What each code is called, in each language.
        role: "geo" for areas, "time" for the reference period, "" for others.
    """

    name: str
    list_name: str
    codes: pl.Series
    titles: Texts
    labels: Mapping[str, pl.Series]
    role: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Cube:
    """One published table.

    Attributes:
        geolevel: The geolevel or family of entities that it is of; "" for none.
        table: Its name among the tables of the geolevel.
        key: The words of its identifier: the geolevel, and what tells it from the other tables there.
        titles: Its title.
        unit: Name of what it counts, in the plural.
        units: What that is called, in the plural.
        notes: What readers of the numbers must know, in each language.
        dimensions: At least one.
        measures: The first is the published number.
        n_rows: Number of its observations.
        read: Reads the observations: frames with the columns `PLACE`, one for each measure, and `STATUS`.
    """

    geolevel: str
    table: str
    key: tuple[str, ...]
    titles: Texts
    unit: str
    units: Texts
    notes: Mapping[str, tuple[str, ...]]
    dimensions: tuple[Dimension, ...]
    measures: tuple[Measure, ...]
    n_rows: int
    read: Callable[[], Iterator[pl.DataFrame]]

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of codes of each dimension."""
        return tuple(len(dimension.codes) for dimension in self.dimensions)

    @property
    def size(self) -> int:
        """Number of places."""
        return prod(self.shape)

    @property
    def is_whole(self) -> bool:
        """Whether there is an observation at every place."""
        return self.n_rows == self.size

    def observations(self) -> Iterator[pl.DataFrame]:
        """The observations, part by part, in order of their places.

        Raises:
            StoreError: a file was changed; or there are fewer or more observations than the release states, which a
                publication must not hide.
        """
        seen, last = 0, -1
        for frame in self.read():
            places = frame[PLACE].to_numpy()
            if len(places) and (places[0] <= last or places[-1] >= self.size or (np.diff(places) <= 0).any()):
                raise self._damaged()
            if len(places):
                seen, last = seen + len(places), int(places[-1])
            yield frame
        if seen != self.n_rows:
            raise self._damaged()

    def positions(self, places: Integers) -> tuple[Integers, ...]:
        """For each dimension the position of the code of every place."""
        return np.unravel_index(places, self.shape)

    def _damaged(self) -> StoreError:
        where = f" for {self.geolevel!r}" if self.geolevel else ""
        return StoreError(
            f"the table of {self.table!r}{where} does not have the observations that the release states, each once and "
            "in order. Restore its files from a copy of the release.",
            code="release-damaged",
        )


def status_of(standard_error: pl.Expr, *, is_exact: bool = False) -> pl.Expr:
    """The status of observations.

    Args:
        standard_error: Of the published number; null where none is known.
        is_exact: Whether the release publishes all these numbers exactly.
    """
    if is_exact:
        return pl.lit(EXACT).alias(STATUS)
    unreliable = LEAST_RATIO * standard_error > pl.col(COUNT.name).abs()
    return (
        pl.when(standard_error == 0)
        .then(pl.lit(EXACT))
        .when(unreliable)
        .then(pl.lit(UNRELIABLE))
        .otherwise(pl.lit(NOISY))
        .alias(STATUS)
    )


def placed(frame: pl.DataFrame, codes: Mapping[str, pl.Series]) -> pl.DataFrame:
    """A frame with the place of every row, in order of places.

    Args:
        frame: Its rows.
        codes: The codes of each dimension, by the column that holds one of them in every row.
    Raises:
        StoreError: a row holds another code.
    """
    place = pl.lit(0, dtype=pl.Int64)
    for column, known in codes.items():
        place = place * len(known) + code_expression(column, known.to_list())
    in_order = frame.with_columns(place.alias(PLACE)).sort(PLACE)
    if in_order[PLACE].null_count():
        raise StoreError(
            f"a published table has a code in {', '.join(codes)} that the release does not have. Restore its files "
            "from a copy of the release.",
            code="release-damaged",
        )
    return in_order


def free_name(name: str, taken: Mapping[str, object] | set[str]) -> str:
    """A name that nothing has yet: the name, with as many underscores behind it as it takes."""
    while name in taken:
        name += "_"
    return name
