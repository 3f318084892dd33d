"""A page about a spine: numbers of children, and a map of one county's blocks coloured by group."""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
from markupsafe import Markup
from numpy.typing import NDArray

from tallyveil.errors import GeographyError
from tallyveil.geography.spine import GeounitShares, Spine
from tallyveil.report.page import SummaryPoint, write_page
from tallyveil.report.svg import COLOURS, INK, LINE, MUTED, WIDTH, Canvas, Picture, Scale
from tallyveil.report.wording import grouped, name_title, percent, rounded
from tallyveil.words.listing import listed

MOST_POINTS = 12_000
"""Most points of the map. Twice as many make the page about twice as large; half as many thin out large counties."""
_COLOURS = COLOURS[:7]  # the last is the colour of text
_BINS = 24
"""Classes of the number of children, equally wide on the logarithmic axis; those within one whole number are joined."""


@dataclass(frozen=True, slots=True)
class FanOut:
    """One geolevel's row of the table, as text.

    Attributes:
        geolevel: Title.
        geounits: Number of geounits.
        least, median, mean, most: Children of a geounit; empty at the finest geolevel.
        single: Share of geounits with one child.
        shares: The different shares of the budget, with the number of geounits that have each; empty without shares.
    """

    geolevel: str
    geounits: str
    least: str
    median: str
    mean: str
    most: str
    single: str
    shares: str


def write_spine_page(
    path: Path,
    spine: Spine,
    shares: GeounitShares | None,
    points: pl.DataFrame | None,
    *,
    county: str | None,
    within: str,
    group: str,
) -> Path:
    """Write one self-contained page about a spine. The same spine gives the same bytes.

    Args:
        path: File to write.
        spine: The spine.
        shares: Share of every geounit; None where there are none.
        points: Columns geocode, latitude, longitude for the finest geounits; None for no map.
        county: Geocode of the geounit to draw; None for the one with the median number of finest geounits.
        within: Geolevel of that geounit.
        group: Geolevel that colours the finest geounits.

    Raises:
        GeographyError: a geolevel or geocode is unknown, or the groups are not below the geolevel `within`.
        StoreError: the page cannot be written.
    """
    drawn = None if points is None else _map(spine, points, county, within, group)
    return write_page(
        path,
        "spine.html.j2",
        {
            "geolevels": [name_title(name) for name in spine.geolevels],
            "points": _points(spine),
            "fan_outs": [_fan_out(spine, shares, level) for level in range(spine.n_levels)],
            "has_shares": shares is not None,
            "fan_out_plot": _fan_out_plot(spine),
            "map": drawn,
            "digest": spine.digest().hex(),
        },
        module=__name__,
    )


def _points(spine: Spine) -> tuple[SummaryPoint, ...]:
    """The spine in a few sentences."""
    sizes = listed(
        [
            f"{grouped(spine.n_geounits(level))} {name_title(spine.geolevels[level])}"
            for level in range(spine.n_levels)
        ]
    )
    return (
        SummaryPoint(
            "What this is",
            f"A tree of areas (a spine): {sizes} areas. Each is cut into those of the next kind.",
        ),
        SummaryPoint(
            "What it is for",
            "A release adds noise to the counts of these areas. Any other area is added up from them. The fewer "
            "of them it takes, the more exact is its count.",
        ),
        SummaryPoint(
            "What it is made of", "Public geography alone. No record and no count was read for this page."
        ),
    )


def _fan_out(spine: Spine, shares: GeounitShares | None, level: int) -> FanOut:
    title, n = name_title(spine.geolevels[level]), grouped(spine.n_geounits(level))
    spent = "" if shares is None else _spent(shares, level)
    if level == spine.finest:
        return FanOut(title, n, "", "", "", "", "", spent)
    children = np.diff(spine.child_offsets[level])
    return FanOut(
        title,
        n,
        grouped(int(children.min())),
        f"{np.median(children):g}",
        rounded(float(children.mean())),
        grouped(int(children.max())),
        percent(float((children == 1).mean())),
        spent,
    )


def _spent(shares: GeounitShares, level: int) -> str:
    tally = shares.tally(level)
    shown = sorted(tally.items(), key=lambda item: -item[1])[:3]
    text = ", ".join(f"{share} ({grouped(count)})" for share, count in shown)
    return text + (f" and {len(tally) - 3} more" if len(tally) > 3 else "")


_ROW, _BARS, _LEFT, _RIGHT = 61.0, 47.0, 130.0, 18.0


def _fan_out_plot(spine: Spine) -> Picture:
    """Draw histograms of the number of children, one row of bars for each geolevel."""
    canvas = Canvas(_ROW * spine.finest + 54)
    most = max(int(np.diff(offsets).max()) for offsets in spine.child_offsets)
    edges = np.unique(np.round(np.geomspace(1, most + 1, _BINS)))
    # Whole numbers lie in the middle of their class.
    edges = edges - 0.5
    edges = np.append(edges, most + 0.5) if edges[-1] < most + 0.5 else edges
    places = Scale(0.5, most + 1, _LEFT, WIDTH - _RIGHT, logarithmic=True)
    ticks = [t for t in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000) if t <= most]
    for level in range(spine.finest):
        base = 8 + _ROW * (level + 1)
        for tick in ticks:
            canvas.line((places(tick), base - _BARS), (places(tick), base), LINE)
        children = np.diff(spine.child_offsets[level])
        counts, _ = np.histogram(children, edges)
        heights = Scale(0, float(counts.max()), 0, _BARS - 3)
        for count, (left, right) in zip(counts.tolist(), pairwise(map(places, edges.tolist())), strict=True):
            canvas.bar((left, base - heights(count)), right - left, heights(count), COLOURS[0])
        median = places(float(np.median(children)))
        canvas.line((median, base - _BARS), (median, base), INK, width=1.2)
        canvas.text((_LEFT - 12, base - 31), name_title(spine.geolevels[level]), anchor="end")
        canvas.text((_LEFT - 12, base - 15), grouped(len(children)), MUTED, anchor="end")
        last = level == spine.finest - 1
        labels = [(float(tick), grouped(tick)) for tick in ticks] if last else []
        canvas.axis(places, base, labels, title="children of a geounit" if last else "")
    description = "Histograms of the number of children, by geolevel; a line at the median."
    return Picture(canvas.svg("fanout", "Children of a geounit", description), _fan_out_words(spine))


def _fan_out_words(spine: Spine) -> str:
    """The median number of children at the geolevel with the largest one."""
    medians = {level: float(np.median(np.diff(spine.child_offsets[level]))) for level in range(spine.finest)}
    if not medians:
        return "The spine has one geolevel, so no geounit has children."
    level = max(medians, key=lambda geolevel: medians[geolevel])
    return (
        f"The median number of children is largest at {name_title(spine.geolevels[level])}: {medians[level]:g} "
        f"{name_title(spine.geolevels[level + 1])} geounits."
    )


@dataclass(frozen=True, slots=True)
class GroupMap:
    """A map and its caption.

    Attributes:
        picture: The drawing and what it shows.
        title: The geounit drawn.
    """

    picture: Picture
    title: str


def _map(spine: Spine, points: pl.DataFrame, county: str | None, within: str, group: str) -> GroupMap:
    level, fine = spine.level_index(within), spine.level_index(group)
    if not level < fine < spine.finest:
        raise GeographyError(
            f"a map of a {within} coloured by {group} cannot be drawn: wanted a geolevel and a geolevel below it, "
            f"both above {spine.geolevels[-1]}. The geolevels of the spine are {', '.join(spine.geolevels)}.",
            code="spine-step",
        )
    offsets = spine.finest_offsets(level)
    if county is None:
        sizes = np.diff(offsets)
        # The lower median by a stable sort: the same spine gives the same county, and so the same page.
        chosen = int(np.argsort(sizes, kind="stable")[(len(sizes) - 1) // 2])
    else:
        chosen = int(spine.locate(level, [county])[0])
        if chosen < 0:
            raise GeographyError(
                f"there is no {within} '{county}' on the spine; there are "
                f"{', '.join(spine.geocodes[level].tolist()[:5])}, ...",
                code="spine-step",
            )
    start, stop = int(offsets[chosen]), int(offsets[chosen + 1])
    # Every k-th block in the order of the spine, with k rounded up, so that all groups are thinned alike.
    rows = np.arange(start, stop, -(-(stop - start) // MOST_POINTS))
    place = points.with_columns(pl.Series("row", spine.locate(spine.finest, points["geocode"])))
    here = pl.DataFrame({"row": rows}).join(
        place.with_columns(pl.col("row").cast(pl.Int64)), on="row", how="left"
    )
    here = here.sort("row")
    x, y = here["longitude"].to_numpy(), here["latitude"].to_numpy()
    groups, parents = spine.ancestors(fine)[rows], spine.ancestors(fine - 1)[rows]
    name = f"{name_title(within)} {spine.geocodes[level][chosen]}"
    shown = "all" if len(rows) == stop - start else f"{grouped(len(rows))} of"
    caption = (
        f"{shown} {grouped(stop - start)} {name_title(spine.geolevels[-1])} geounits of {name}, coloured by "
        f"{name_title(group)}: {grouped(len(np.unique(groups)))} groups in "
        f"{grouped(len(np.unique(parents)))} {name_title(spine.geolevels[fine - 1])} geounits."
    )
    figure = _points_plot(x, y, groups - groups.min(), f"Map of {name} coloured by group.")
    return GroupMap(Picture(figure, caption[0].upper() + caption[1:]), name)


_MARGIN = 10.0  # room for the outermost points of a map


def _points_plot(
    x: NDArray[np.float64], y: NDArray[np.float64], groups: NDArray[np.int64], description: str
) -> Markup:
    known = np.isfinite(x) & np.isfinite(y)
    x, y, groups = x[known], y[known], groups[known]
    if not len(x):
        canvas = Canvas(60)
        canvas.text((WIDTH / 2, 30), "no points are known", MUTED, anchor="middle")
        return canvas.svg("map", "Map", description)
    # The width of a degree of longitude is proportional to the cosine of the latitude.
    across = (x - x.min()) * np.cos(np.radians(y.mean()))
    up = y - y.min()
    frame = WIDTH - 2 * _MARGIN
    tall = float(np.clip(frame * float(np.ptp(up)) / max(float(np.ptp(across)), 1e-9), 200, 560))
    # One scale in both directions, and the map in the middle.
    length = min(frame / max(float(np.ptp(across)), 1e-9), tall / max(float(np.ptp(up)), 1e-9))
    left = (WIDTH - length * across.max()) / 2
    base = _MARGIN + (tall + length * up.max()) / 2
    places = np.column_stack([left + length * across, base - length * up])
    canvas = Canvas(tall + 2 * _MARGIN)
    diameter = float(np.sqrt(np.clip(40_000 / len(x), 4.0, 60.0)))
    for number, colour in enumerate(_COLOURS):
        # Neighbouring groups have consecutive numbers and so different colours.
        canvas.points(places[groups % len(_COLOURS) == number].tolist(), colour, diameter=diameter)
    return canvas.svg("map", "Map", description)
