"""The intervals of a release, as text and figures for readers who are not specialists.

By its intervals, a release also says how near published counts lie to the counts before noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tallyveil.files.geography import read_names
from tallyveil.files.intervals import DECIMALS, INTERVALS, made_intervals, read_interval_table
from tallyveil.geography.areas import names_in
from tallyveil.report.release_files import Matrix, ReleaseFiles, Titles
from tallyveil.report.svg import (
    CIRCLE,
    COLOURS,
    DIAMOND,
    INK,
    LINE,
    MUTED,
    WIDTH,
    Canvas,
    Key,
    Picture,
    Scale,
    even_ticks,
    legend_of,
    wrapped,
)
from tallyveil.report.wording import grouped, percent, rounded
from tallyveil.storage.read import collect
from tallyveil.words.language import Figure


@dataclass(frozen=True, slots=True)
class Nearness:
    """The published counts of one query at one geolevel, without those that are known exactly.

    Attributes:
        geolevel: Name.
        counts: How many there are.
        typical: Their median, a published count.
        distance: The least number that at least half of them have as their distance: the farthest that the count before
            noise can lie from the published one and be in the interval.
        above_zero: How many of them are above zero.
        perhaps_zero: How many of those have an interval that holds zero.
    """

    geolevel: str
    counts: int
    typical: int
    distance: int
    above_zero: int
    perhaps_zero: int


def nearness_of(geolevel: str, frame: pl.DataFrame) -> Nearness | None:
    """Summarise intervals; None if no count has an interval with two ends.

    Args:
        geolevel: Name of the geolevel.
        frame: Whole numbers `count`, `lower` and `upper`, null where there is no end.
    """
    # A count whose interval has an open end has no distance.
    known = frame.drop_nulls(["lower", "upper"])
    if known.is_empty():
        return None
    distances = known.select(
        # The farther end: where the count before noise may be in the worst case.
        pl.max_horizontal(pl.col("upper") - pl.col("count"), pl.col("count") - pl.col("lower"))
    ).to_series()
    positive = known.filter(pl.col("count") > 0)
    return Nearness(
        geolevel,
        known.height,
        _middle(known["count"]),
        _middle(distances),
        positive.height,
        positive.filter(pl.col("lower") <= 0).height,
    )


def _middle(values: pl.Series) -> int:
    """The least of the values that at least half of them do not exceed."""
    return int(values.sort()[(len(values) - 1) // 2])


INSIDE, OUTSIDE = COLOURS[0], COLOURS[3]
_LEFT, _RIGHT = 150.0, 18.0  # beside the axes
_PANEL, _GAP, _BOTTOM = 88.0, 30.0, 42.0
_LABEL = 45.0  # from the axes to the name of a geolevel: past the longest tick label
_LABELS = 9


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """Counts of one geolevel, sorted by published count. All arrays have the same shape.

    Attributes:
        title: The geolevel.
        published: Released counts.
        estimate: Unbiased estimates.
        lower, upper: Ends of the intervals.
    """

    title: str
    published: NDArray[np.int64]
    estimate: NDArray[np.float64]
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]

    @property
    def inside(self) -> NDArray[np.bool_]:
        """Whether each interval holds the published count."""
        held: NDArray[np.bool_] = (self.lower <= self.published) & (self.published <= self.upper)
        return held


def interval_plot(panels: Sequence[Panel], titles: Titles) -> Picture:
    """Draw one panel for each geolevel. Intervals are drawn relative to the published counts, the line at zero."""
    keys = (
        Key(titles.say("published count"), INK, lined=True),
        Key(titles.say("estimate and interval that holds it"), INSIDE, CIRCLE, lined=True),
        Key(titles.say("interval that does not"), OUTSIDE, DIAMOND, lined=True),
    )
    legend = legend_of(keys, WIDTH - _LEFT)
    first = legend.height + 14
    canvas = Canvas(first + len(panels) * (_PANEL + _GAP) - _GAP + _BOTTOM, titles.language)
    legend.draw(canvas, (_LEFT + 5, 2))
    for number, panel in enumerate(panels):
        top = first + number * (_PANEL + _GAP)
        lines = [*wrapped(panel.title, _LEFT - _LABEL), titles.unit.many]
        for place, line in enumerate(lines):
            middle = top + _PANEL / 2 + 14 * (place - (len(lines) - 1) / 2)
            colour = MUTED if place == len(lines) - 1 else INK
            canvas.text((_LEFT - _LABEL, middle), line, colour, anchor="end")
        last = number == len(panels) - 1
        below = titles.say("published count, from the smallest geounit to the largest") if last else ""
        _draw(canvas, panel, top, below)
    svg = canvas.svg(
        titles.anchor("intervals"),
        titles.say("Intervals relative to published counts"),
        _description(panels, titles),
    )
    return Picture(svg, _words(panels, titles))


def _draw(canvas: Canvas, panel: Panel, top: float, axis_title: str) -> None:
    places = Scale(-0.8, max(len(panel.published) - 0.2, 0.8), _LEFT, WIDTH - _RIGHT)
    ends = {name: getattr(panel, name) - panel.published for name in ("lower", "upper", "estimate")}
    low, high = (float(end(list(map(end, ends.values())))) for end in (np.min, np.max))
    # Some room above and below, and a height where all intervals have none.
    room = 0.08 * (high - low) or 1.0
    heights = Scale(low - room, high + room, top + _PANEL, top)
    for tick in even_ticks(heights.low, heights.high, 5):
        canvas.line((_LEFT, heights(tick)), (WIDTH - _RIGHT, heights(tick)), LINE)
        label = Figure("0" if tick == 0 else f"{tick:+,d}".replace("-", "−"))
        canvas.text((_LEFT - 6, heights(tick)), label, MUTED, anchor="end")
    held = panel.inside
    # Colour and shape both differ, for readers who do not see the colours.
    kinds = ((held, INSIDE, CIRCLE), (~held, OUTSIDE, DIAMOND))
    for which, colour, _ in kinds:
        for place in np.flatnonzero(which).tolist():
            x = places(place)
            canvas.line(
                (x, heights(float(ends["lower"][place]))),
                (x, heights(float(ends["upper"][place]))),
                colour,
                width=2.2,
            )
    canvas.line((_LEFT, heights(0)), (WIDTH - _RIGHT, heights(0)), INK, width=1.1)
    for which, colour, shape in kinds:
        middles = [
            (places(place), heights(float(ends["estimate"][place])))
            for place in np.flatnonzero(which).tolist()
        ]
        canvas.dots(middles, colour, shape=shape, radius=2.4)
    # Evenly spaced ranks; unique, since few counts give the same rank twice.
    last = len(panel.published) - 1
    shown = np.unique(np.linspace(0, last, min(_LABELS, last + 1)).round().astype(int)).tolist()
    labels = [(place, grouped(int(panel.published[place]))) for place in shown]
    canvas.axis(places, top + _PANEL, labels, title=axis_title)


def _description(panels: Sequence[Panel], titles: Titles) -> str:
    parts = [
        titles.say(
            "{geolevel}: {outside} of {number} outside",
            geolevel=panel.title,
            outside=int((~panel.inside).sum()),
            number=len(panel.published),
        )
        for panel in panels
    ]
    return titles.say(
        "Intervals of counts drawn relative to the published count. {counts}.", counts="; ".join(parts)
    )


def _words(panels: Sequence[Panel], titles: Titles) -> str:
    """How many of the counts that are drawn lie outside their intervals."""
    drawn = sum(len(panel.published) for panel in panels)
    outside = [(panel.title, int((~panel.inside).sum())) for panel in panels]
    beyond = sum(number for _, number in outside)
    if not beyond:
        return titles.say(
            "All {number} published counts that are drawn lie in their intervals.", number=grouped(drawn)
        )
    where = ", ".join(
        titles.say("{number} at {geolevel}", number=number, geolevel=title)
        for title, number in outside
        if number
    )
    return titles.say(
        "Of the {number} published counts that are drawn, {outside} lie outside their intervals ({where}).",
        number=grouped(drawn),
        outside=beyond,
        where=where,
    )


POINTS = 48
"""Largest number of counts of one geolevel in the figure."""
EXACT = 10.0**-DECIMALS
"""Standard error below which an estimate counts as exact: one unit of the last decimal that the interval files
hold. Ten times it would hide true, small errors; a tenth is below what the files can show."""


@dataclass(frozen=True, slots=True)
class Example:
    """One count as an example for the reader.

    Attributes:
        area, query: They identify the count; the area has its geolevel, its geocode and, if it has one, its name.
        published, estimate, standard_error, lower, upper: Its numbers, as text.
    """

    area: str
    query: str
    published: str
    estimate: str
    standard_error: str
    lower: str
    upper: str


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """The content of the page's section on intervals.

    Attributes:
        level: Coverage, as text.
        share: The same as "95 of 100".
        simultaneous: Whether all intervals of a table together have this coverage.
        covers: What the intervals cover and what they do not, or why there are none.
        with_intervals: Whether there are intervals; Laplace noise has estimates and standard errors alone.
        bounds_left_out: Names of public bounds that were not used.
        example: A count of medium size; None if no count has an interval.
        outside: Share of published counts outside their interval, by query and geolevel; None without intervals.
        nearness: How near the counts of `query` lie to those before noise, from the geolevel with the fewest areas on.
        query: The query of the example, the figure and `nearness`.
        errors: Median standard errors, by query and geolevel.
        entities_outside: The same as `outside` for families of entities; None without entities or intervals.
        entities_errors: The same as `errors` for families of entities; None without entities.
        plot: Figure of published counts against estimates; None if there is nothing to draw.
        in_tables: Whether the published tables have the same columns.
    """

    level: str
    share: str
    simultaneous: bool
    covers: str
    with_intervals: bool
    bounds_left_out: tuple[str, ...]
    example: Example | None
    outside: Matrix | None
    nearness: tuple[Nearness, ...]
    query: str
    errors: Matrix
    entities_outside: Matrix | None
    entities_errors: Matrix | None
    plot: Picture | None
    in_tables: bool


def uncertainty_of(files: ReleaseFiles) -> Uncertainty | None:
    """Read and summarise the intervals of a release; None if it has none.

    Raises:
        StoreError: the intervals belong to another run, or cannot be read.
    """
    manifest = made_intervals(files.root, files.manifest.run)
    if manifest is None:
        return None
    compared = manifest["compared"]
    levels = [item for item in compared if not item["is_entity"]]
    entities = [item for item in compared if item["is_entity"]]
    query = _main_query(levels)
    # Laplace noise has no intervals, only standard errors.
    with_intervals = manifest.get("kind") != "none"
    areas = _samples(files, levels, query) if with_intervals else []
    samples = [(name, sample) for name, sample, _ in areas]
    panels = [_panel(files.titles.geolevel(geolevel), sample) for geolevel, sample in samples]
    titles, noted = files.titles, files.manifest.body.get("intervals")
    return Uncertainty(
        level=Figure(f"{100 * manifest['level']:g} %"),
        share=titles.say("{number} of 100", number=Figure(f"{100 * manifest['level']:g}")),
        simultaneous=bool(manifest.get("simultaneous")),
        covers=manifest["covers"],
        with_intervals=with_intervals,
        bounds_left_out=tuple(manifest["bounds_left_out"]),
        example=_example(files, samples, query),
        outside=_by_level(levels, _outside, titles) if with_intervals else None,
        nearness=tuple(
            sorted((near for *_, near in areas if near is not None), key=lambda nearness: nearness.counts)
        ),
        query=query,
        errors=_by_level(levels, _error, titles),
        entities_outside=_by_family(entities, _outside, titles) if entities and with_intervals else None,
        entities_errors=_by_family(entities, _error, titles) if entities else None,
        plot=interval_plot(panels, titles) if panels else None,
        in_tables=isinstance(noted, dict) and bool(noted.get("tables")),
    )


def _main_query(levels: Sequence[dict[str, Any]]) -> str:
    """The query that examples are of: the total, or the first one if there are no intervals of totals."""
    queries = [str(item["query"]) for item in levels]
    return "total" if "total" in queries else queries[0]


def _outside(titles: Titles, item: dict[str, Any]) -> str:
    # Counts that are exact cannot lie outside, and those not determined have no interval: neither is part of
    # the share.
    inexact = item["answers"] - item["exact"] - item["undetermined"]
    return percent((item["below"] + item["above"]) / inexact) if inexact else _without_error(titles, item)


def _error(titles: Titles, item: dict[str, Any]) -> str:
    return _without_error(titles, item) if item["standard_error"] is None else rounded(item["standard_error"])


def _without_error(titles: Titles, item: dict[str, Any]) -> str:
    """What is said of a table in which every answer is exact or not determined."""
    return titles.say("not determined") if item["undetermined"] else titles.say("exact")


def _by_level(items: Sequence[dict[str, Any]], text: Any, titles: Titles) -> Matrix:
    """A table with queries in rows and geolevels in columns."""
    areas, queries = (list(dict.fromkeys(item[key] for item in items)) for key in ("area", "query"))
    texts = {(item["query"], item["area"]): text(titles, item) for item in items}
    return Matrix(
        tuple(map(titles.geolevel, areas)),
        tuple((titles.query(query), tuple(texts.get((query, area)) for area in areas)) for query in queries),
    )


def _by_family(items: Sequence[dict[str, Any]], text: Any, titles: Titles) -> Matrix:
    """A table with families in rows and queries in columns, because there may be many families."""
    turned = _by_level(items, text, titles)
    queries = tuple(title for title, _ in turned.rows)
    return Matrix(
        queries, tuple(zip(turned.geolevels, zip(*(row for _, row in turned.rows), strict=True), strict=True))
    )


def _samples(
    files: ReleaseFiles, levels: Sequence[dict[str, Any]], query: str
) -> list[tuple[str, pl.DataFrame, Nearness | None]]:
    """For each geolevel without its exact counts: some at evenly spaced ranks, and how near all of them are."""
    samples = []
    for item in levels:
        if item["query"] != query:
            continue
        # Filtered while it is read: the table of a country's blocks may not fit in memory.
        rows = read_interval_table(files.root, item["area"], query).filter(pl.col("standard_error") >= EXACT)
        frame = collect(rows, files.root / INTERVALS, "intervals")
        if frame.height:
            # Stable, so that equal counts keep the order of the file and the page its bytes.
            order = np.argsort(frame["count"].to_numpy(), kind="stable")
            places = np.unique(
                np.linspace(0, frame.height - 1, min(POINTS, frame.height)).round().astype(int)
            )
            samples.append((item["area"], frame[order[places]], nearness_of(item["area"], frame)))
    return samples


def _panel(title: str, sample: pl.DataFrame) -> Panel:
    columns = {name: sample[name].to_numpy() for name in ("estimate", "lower", "upper")}
    return Panel(title, published=sample["count"].to_numpy(), **columns)


def _example(files: ReleaseFiles, samples: Sequence[tuple[str, pl.DataFrame]], query: str) -> Example | None:
    """The count in the middle of the sample of the middle geolevel; None if there is no sample."""
    if not samples:
        return None
    # The middle of the middle: neither the country nor a block, and no extreme count.
    geolevel, sample = samples[len(samples) // 2]
    row = sample.row(sample.height // 2, named=True)
    return Example(
        area=_area(files, geolevel, row["geocode"]),
        query=files.titles.query(query),
        published=grouped(row["count"]),
        estimate=Figure(f"{row['estimate']:,.1f}".replace("-", "−")),
        standard_error=rounded(row["standard_error"]),
        lower=grouped(row["lower"]),
        upper=grouped(row["upper"]),
    )


def _area(files: ReleaseFiles, geolevel: str, geocode: str) -> str:
    """The geolevel and the geocode of an area, after its name if the release has names."""
    place, names = f"{files.titles.geolevel(geolevel)} {geocode}", read_names(files.root)
    # Names are optional in a release.
    if names is None:
        return place
    names = names_in(names, files.tag)
    of_area = names.filter(pl.col("geolevel") == geolevel, pl.col("geocode") == geocode)["name"]
    return place if of_area.is_empty() else f"{of_area[0]} ({place})"
