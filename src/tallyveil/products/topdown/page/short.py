"""A release in a few sentences, and the sizes of its geounits.

The sentences are for readers who have never heard of differential privacy. Sizes are numbers of records in
the published counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.budget.strategy import ExpectedError
from tallyveil.errors import StoreError
from tallyveil.files.histograms import histogram_path
from tallyveil.files.manifest_files import require_unchanged
from tallyveil.plans.guess import NO_SECRET, guess_words, ledger_guess
from tallyveil.products.topdown.page.uncertainty import Nearness, Uncertainty
from tallyveil.report.page import NumberTile, SummaryPoint
from tallyveil.report.privacy import guess_tile
from tallyveil.report.release_files import ReleaseFiles
from tallyveil.report.wording import grouped, listed, name_title, percent
from tallyveil.storage.read import UNREADABLE, parquet_columns, scan_parquet


@dataclass(frozen=True, slots=True, eq=False)
class GeolevelSizes:
    """Sizes of one geolevel, as published.

    Attributes:
        geolevel: Name.
        geounits: Number of geounits, including empty ones.
        empty: Number of geounits without a published record.
        nonzero_cells: Number of published counts above zero.
        records: Number of published records.
        totals: Number of published records in each geounit that is not empty, sorted from small to large.
    """

    geolevel: str
    geounits: int
    empty: int
    nonzero_cells: int
    records: int
    totals: NDArray[np.int64]

    @property
    def median(self) -> int:
        """Lower median of the sizes of all geounits, including empty ones."""
        # `totals` leaves out empty geounits, which stand before all others in the order.
        place = (self.geounits + 1) // 2 - self.empty - 1
        return int(self.totals[place]) if place >= 0 else 0

    @property
    def largest(self) -> int:
        """Size of the largest geounit."""
        return int(self.totals[-1]) if len(self.totals) else 0


def geolevel_sizes(files: ReleaseFiles) -> tuple[GeolevelSizes, ...]:
    """Sizes at every geolevel, root first.

    Raises:
        StoreError: a published histogram is missing or damaged.
    """
    return tuple(_sizes(files, geolevel) for geolevel in files.geolevels)


def attribute_names(files: ReleaseFiles) -> list[str]:
    """Names of the attributes of the published counts: all columns except geocode and count."""
    path = histogram_path(files.root, files.geolevels[0])
    try:
        names = parquet_columns(path)
    except UNREADABLE as error:
        raise _unreadable(str(path), error) from None
    return [name for name in names if name not in ("geocode", "count")]


def _sizes(files: ReleaseFiles, geolevel: str) -> GeolevelSizes:
    path = histogram_path(files.root, geolevel)
    require_unchanged(files.root, files.manifest, path)
    try:
        counts = scan_parquet(path).select("geocode", pl.col("count").cast(pl.Int64))
        # Streaming, and sorted inside the query: only one number for each geounit comes back.
        totals = counts.group_by("geocode").agg(pl.col("count").sum()).select(pl.col("count").sort())
        records = totals.collect(engine="streaming")["count"].to_numpy()
    except UNREADABLE as error:
        raise _unreadable(str(path), error) from None
    stated = files.manifest.body["sizes"]["geolevels"][geolevel]
    return GeolevelSizes(
        geolevel=geolevel,
        geounits=stated["geounits"],
        # The published histogram has no rows of empty geounits, so their number is that of the manifest less
        # those that occur.
        empty=stated["geounits"] - len(records),
        nonzero_cells=stated["nonzero_cells"],
        records=int(records.sum()),
        totals=records,
    )


def _unreadable(path: str, error: Exception) -> StoreError:
    return StoreError(
        f"{path} cannot be read: {type(error).__name__}. Restore the folder as the run left it.",
        code="release-unreadable",
    )


def release_guess(files: ReleaseFiles) -> Fraction:
    """Upper bound of the share of right guesses about one record."""
    return ledger_guess(files.entries, files.declaration, files.manifest.privacy["exact"]["engines"])


def release_tiles(
    files: ReleaseFiles, sizes: Sequence[GeolevelSizes], uncertainty: Uncertainty | None, right: Fraction
) -> tuple[NumberTile, ...]:
    """The numbers that stand out: how many records and areas, how near typical counts are, and the best guess."""
    unit, finest = files.unit, sizes[-1]
    tiles = [
        NumberTile(f"Published {unit.many}", grouped(finest.records), "in all areas together"),
        NumberTile(
            f"Smallest areas ({name_title(finest.geolevel)})",
            grouped(finest.geounits),
            f"{grouped(finest.empty)} of them published as empty",
        ),
    ]
    if uncertainty is not None and uncertainty.nearness:
        near = uncertainty.nearness[-1]
        tiles.append(
            NumberTile(
                f"Half of the {name_title(near.geolevel)} counts are within",
                grouped(near.distance),
                f"{unit.many} of the count before noise, with {uncertainty.level} confidence",
            )
        )
    return (*tiles, guess_tile(right, unit, is_protected=files.is_protected))


def release_points(
    files: ReleaseFiles,
    sizes: Sequence[GeolevelSizes],
    expected: Sequence[ExpectedError],
    uncertainty: Uncertainty | None,
    right: Fraction,
) -> tuple[SummaryPoint, ...]:
    """What was done, how sure a count is, what may not be concluded, and what it means for one record.

    Args:
        files: The release.
        sizes: Of its geolevels, root first.
        expected: Errors of its measurements.
        uncertainty: Its intervals; None if it has none.
        right: Upper bound of the share of right guesses.
    """
    return (
        SummaryPoint("What was done", _done(files)),
        SummaryPoint("How sure a count is", _sure(files, expected, uncertainty)),
        SummaryPoint("What not to conclude", _not(files, sizes[-1], uncertainty)),
        SummaryPoint(f"What it means for one {files.unit.one}", _single_counts(files, right)),
    )


def _done(files: ReleaseFiles) -> str:
    first, last = (name_title(files.geolevels[place]) for place in (0, -1))
    exactly = [
        f"{files.titles.query(item.query)} at {listed([name_title(name) for name in item.geolevels])}"
        for item in files.plan.invariants
    ]
    exact_counts = f" Published exactly, without noise: {listed(exactly)}." if exactly else ""
    others = (
        "Others have measured and published the noisy counts. " if "imported" in files.manifest.body else ""
    )
    return (
        f"{others}A random whole number, called noise, was added to every count that was measured. It may be positive "
        "or negative, and it is public how large such numbers usually are. All published counts were then computed "
        f"from the noisy ones. They are whole, never negative, and add up from {last} to {first}.{exact_counts}"
    )


def _sure(files: ReleaseFiles, expected: Sequence[ExpectedError], uncertainty: Uncertainty | None) -> str:
    if uncertainty is None:
        return f"{_measured(files, expected)} This release has no intervals of its published counts yet."
    what = files.titles.counts_of(uncertainty.query)
    if not uncertainty.nearness:
        return f"Each count has an estimate without bias and its standard error.{_errors(files, uncertainty)}"
    # Geolevels are root first: the last is the finest.
    small, large = uncertainty.nearness[-1], uncertainty.nearness[0]
    text = f"With {uncertainty.level} confidence, {what} before noise is {_within(small)}"
    text += f" and {_within(large)}." if large is not small else "."
    return (
        f"{text} Typical means that this or better holds for at least half of these areas. Every single count has an "
        "interval of its own."
    )


def _errors(files: ReleaseFiles, uncertainty: Uncertainty) -> str:
    """The median standard errors at the finest and at the coarsest geolevel where counts are not exact."""
    errors = dict(uncertainty.errors.rows).get(files.titles.query(uncertainty.query), ())
    known = [
        f"{text} for one {level}"
        for level, text in zip(uncertainty.errors.geolevels, errors, strict=False)
        if text not in (None, "exact")
    ]
    if not known:
        return ""
    ends = " and ".join(dict.fromkeys((known[-1], known[0])))
    return f" That of {files.titles.counts_of(uncertainty.query)} is typically {ends}, in {files.unit.many}."


def _within(near: Nearness) -> str:
    return (
        f"within {grouped(near.distance)} of the published one for a typical {name_title(near.geolevel)} "
        f"(about {grouped(near.typical)})"
    )


def _measured(files: ReleaseFiles, expected: Sequence[ExpectedError]) -> str:
    """How exact the measurements of the first query are, at the finest and at the coarsest geolevel that has it."""
    query = "total" if any(item.query == "total" for item in expected) else expected[0].query
    exact = {name for item in files.plan.invariants if item.query == query for name in item.geolevels}
    measured = [item for item in expected if item.query == query]
    # Where the query is exact, its measurement says nothing about the published count.
    noisy = [item for item in measured if item.geolevel not in exact] or measured
    margins = [
        f"{grouped(item.margin)} for one {name_title(item.geolevel)}" for item in (noisy[-1], noisy[0])
    ]
    return (
        f"As measured, {files.titles.counts_of(query)} has noise of at most {' and '.join(dict.fromkeys(margins))}, in "
        "95 of 100 cases. Published counts are computed from all measurements together, which makes many of them more "
        "exact than that, and small ones too large on average."
    )


def _not(files: ReleaseFiles, finest: GeolevelSizes, uncertainty: Uncertainty | None) -> str:
    level = name_title(finest.geolevel)
    near = (
        None
        if uncertainty is None
        else next((x for x in uncertainty.nearness if x.geolevel == finest.geolevel), None)
    )
    text = f"Do not take the count of a single {level} for the truth."
    if near is None:
        text += " A small one may be zero before noise."
    elif near.perhaps_zero:
        text += (
            f" Of the {grouped(near.above_zero)} {level} counts above zero, {grouped(near.perhaps_zero)} "
            f"({percent(near.perhaps_zero / near.above_zero)}) may be zero before noise: their intervals hold zero."
        )
    interval = (
        ", and use the interval of the sum" if uncertainty is not None and uncertainty.with_intervals else ""
    )
    return f"{text} Add areas up before you compare them{interval}."


def _single_counts(files: ReleaseFiles, right: Fraction) -> str:
    words = guess_words(right, files.declaration.neighbours, files.unit)
    exactly = " What is published exactly is not covered." if files.plan.invariants else ""
    return f"{'' if files.is_protected else NO_SECRET}{words}{exactly}"
