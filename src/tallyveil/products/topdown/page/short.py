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
from tallyveil.report.release_files import ReleaseFiles, Titles
from tallyveil.report.wording import grouped, percent
from tallyveil.schema.schema import PERSON, Unit
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
        # Streaming, and sorted inside the query: only two numbers for each geounit come back.
        totals = counts.group_by("geocode").agg(pl.col("count").sum(), cells=pl.len()).sort("count")
        frame = totals.select("count", "cells").collect(engine="streaming")
    except UNREADABLE as error:
        raise _unreadable(str(path), error) from None
    records = frame["count"].to_numpy()
    geounits = files.manifest.body["sizes"]["geolevels"][geolevel]["geounits"]
    return GeolevelSizes(
        geolevel=geolevel,
        geounits=geounits,
        # The published histogram has no rows of empty geounits, so their number is that of the manifest, which was
        # held to the geography, less those that occur.
        empty=geounits - len(records),
        nonzero_cells=int(frame["cells"].sum()),
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
    titles, unit, finest = files.titles, files.unit, sizes[-1]
    tiles = [
        NumberTile(
            titles.say("Published {units}", units=unit.many),
            grouped(finest.records),
            titles.say("in all areas together"),
        ),
        NumberTile(
            titles.say("Smallest areas ({geolevel})", geolevel=titles.geolevel(finest.geolevel)),
            grouped(finest.geounits),
            titles.say("{number} of them published as empty", number=grouped(finest.empty)),
        ),
    ]
    if uncertainty is not None and uncertainty.nearness:
        near = uncertainty.nearness[-1]
        tiles.append(
            NumberTile(
                titles.say(
                    "Half of the {geolevel} counts are within", geolevel=titles.geolevel(near.geolevel)
                ),
                grouped(near.distance),
                titles.say(
                    "{units} of the count before noise, with {level} confidence",
                    units=unit.many,
                    level=uncertainty.level,
                ),
            )
        )
    return (*tiles, guess_tile(right, unit, is_protected=files.is_protected, language=titles.language))


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
    say = files.titles.say
    return (
        SummaryPoint(say("What was done"), _done(files)),
        SummaryPoint(say("How sure a count is"), _sure(files, expected, uncertainty)),
        SummaryPoint(say("What not to conclude"), _not(files, sizes[-1], uncertainty)),
        SummaryPoint(
            say("What it means for one {unit}", unit=_protected(files).one), _single_counts(files, right)
        ),
    )


def _done(files: ReleaseFiles) -> str:
    titles = files.titles
    first, last = (titles.geolevel(files.geolevels[place]) for place in (0, -1))
    exactly = [
        titles.say(
            "{query} at {geolevel}",
            query=titles.query(item.query),
            geolevel=titles.listed(list(map(titles.geolevel, item.geolevels))),
        )
        for item in files.plan.invariants
    ]
    sentences = [
        titles.say(
            "A random whole number, called noise, was added to every count that was measured. It may be positive or "
            "negative, and it is public how large such numbers usually are. All published counts were then computed "
            "from the noisy ones. They are whole, never negative, and add up from {last} to {first}.",
            first=first,
            last=last,
        )
    ]
    if "imported" in files.manifest.body:
        sentences.insert(0, titles.say("Others have measured and published the noisy counts."))
    if exactly:
        sentences.append(
            titles.say("Published exactly, without noise: {counts}.", counts=titles.listed(exactly))
        )
    return " ".join(sentences)


def _sure(files: ReleaseFiles, expected: Sequence[ExpectedError], uncertainty: Uncertainty | None) -> str:
    titles = files.titles
    if uncertainty is None:
        return " ".join(
            (
                _measured(files, expected),
                titles.say("This release has no intervals of its published counts yet."),
            )
        )
    what = titles.counts_of(uncertainty.query)
    if not uncertainty.nearness:
        return titles.say("Each count has an estimate without bias and its standard error.") + _errors(
            files, uncertainty
        )
    # Geolevels are root first: the last is the finest.
    small, large = uncertainty.nearness[-1], uncertainty.nearness[0]
    if large is small:
        near = titles.say(
            "With {level} confidence, {count} before noise is {near}.",
            level=uncertainty.level,
            count=what,
            near=_within(titles, small),
        )
    else:
        near = titles.say(
            "With {level} confidence, {count} before noise is {near} and {nearest}.",
            level=uncertainty.level,
            count=what,
            near=_within(titles, small),
            nearest=_within(titles, large),
        )
    typical = titles.say(
        "Typical means that this or better holds for at least half of these areas. Every single count has an interval "
        "of its own."
    )
    return f"{near} {typical}"


def _errors(files: ReleaseFiles, uncertainty: Uncertainty) -> str:
    """The median standard errors at the finest and at the coarsest geolevel where counts are not exact."""
    titles = files.titles
    errors = dict(uncertainty.errors.rows).get(titles.query(uncertainty.query), ())
    known = [
        titles.say("{number} for one {geolevel}", number=text, geolevel=level)
        for level, text in zip(uncertainty.errors.geolevels, errors, strict=False)
        if text not in (None, titles.say("exact"))
    ]
    if not known:
        return ""
    return " " + titles.say(
        "That of {count} is typically {errors}, in {units}.",
        count=titles.counts_of(uncertainty.query),
        errors=titles.listed(list(dict.fromkeys((known[-1], known[0])))),
        units=files.unit.many,
    )


def _within(titles: Titles, near: Nearness) -> str:
    return titles.say(
        "within {distance} of the published one for a typical {geolevel} (about {size})",
        distance=grouped(near.distance),
        geolevel=titles.geolevel(near.geolevel),
        size=grouped(near.typical),
    )


def _measured(files: ReleaseFiles, expected: Sequence[ExpectedError]) -> str:
    """How exact the measurements of the first query are, at the finest and at the coarsest geolevel that has it."""
    titles = files.titles
    query = "total" if any(item.query == "total" for item in expected) else expected[0].query
    exact = {name for item in files.plan.invariants if item.query == query for name in item.geolevels}
    measured = [item for item in expected if item.query == query]
    # Where the query is exact, its measurement says nothing about the published count.
    noisy = [item for item in measured if item.geolevel not in exact] or measured
    margins = [
        titles.say(
            "{number} for one {geolevel}",
            number=grouped(item.margin),
            geolevel=titles.geolevel(item.geolevel),
        )
        for item in (noisy[-1], noisy[0])
    ]
    return titles.say(
        "As measured, {count} has noise of at most {margins}, in 95 of 100 cases. Published counts are computed from "
        "all measurements together, which makes many of them more exact than that, and small ones too large on "
        "average.",
        count=titles.counts_of(query),
        margins=titles.listed(list(dict.fromkeys(margins))),
    )


def _not(files: ReleaseFiles, finest: GeolevelSizes, uncertainty: Uncertainty | None) -> str:
    titles = files.titles
    level = titles.geolevel(finest.geolevel)
    near = (
        None
        if uncertainty is None
        else next((x for x in uncertainty.nearness if x.geolevel == finest.geolevel), None)
    )
    sentences = [titles.say("Do not take the count of a single {geolevel} for the truth.", geolevel=level)]
    if near is None:
        sentences.append(titles.say("A small one may truly be zero."))
    elif near.perhaps_zero:
        sentences.append(
            titles.say(
                "Of the {number} {geolevel} counts above zero, {zero} ({share}) may truly be zero: zero lies in "
                "their intervals.",
                number=grouped(near.above_zero),
                geolevel=level,
                zero=grouped(near.perhaps_zero),
                share=percent(near.perhaps_zero / near.above_zero),
            )
        )
    if uncertainty is not None and uncertainty.with_intervals:
        sentences.append(titles.say("Add areas up before you compare them, and use the interval of the sum."))
    else:
        sentences.append(titles.say("Add areas up before you compare them."))
    return " ".join(sentences)


def _protected(files: ReleaseFiles) -> Unit:
    """Whose record the guarantee is about, in the language of the page."""
    if files.plan.strategy.records == 1:
        return files.unit
    say = files.titles.say
    return Unit(say(PERSON.one), say(PERSON.many))


def _single_counts(files: ReleaseFiles, right: Fraction) -> str:
    titles = files.titles
    words = guess_words(right, files.declaration.neighbours, _protected(files), titles.language)
    before = [] if files.is_protected else [titles.say(NO_SECRET)]
    after = [titles.say("What is published exactly is not covered.")] if files.plan.invariants else []
    return " ".join((*before, words, *after))
