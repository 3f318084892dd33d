"""The content of a plot, as data: lines in panels, dots in rows, or boxes side by side; and how it is drawn.

Plots are drawn in the house style.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tallyveil.report.figure import BAND, INK, METADATA, MUTED, house_style, label_powers
from tallyveil.report.svg import BLUE, PURPLE, VERMILION
from tallyveil.storage.write import write_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

Points: TypeAlias = Sequence[float] | npt.NDArray[np.float64]


class Role(StrEnum):
    """Whose numbers a line, dot or box shows. The role decides its colour, dash and shape."""

    OURS = "ours"
    PUBLISHED = "published"
    REDUCED = "reduced"
    PRINTED = "printed"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Line:
    """A curve.

    Attributes:
        label: Text in the legend. Curves with equal labels share one entry.
        role: Whose numbers the curve shows.
        x, y: Coordinates of its points.
    """

    label: str
    role: Role
    x: Points
    y: Points


@dataclass(frozen=True, slots=True)
class LinePanel:
    """Curves on one pair of axes.

    Attributes:
        title: Title above the panel.
        lines: Curves, in the order of drawing.
        marks: Heights at which a thin horizontal line with a word is drawn.
    """

    title: str
    lines: tuple[Line, ...]
    marks: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True, slots=True)
class LinePlot:
    """Panels of curves side by side.

    Attributes:
        panels: Panels, from left to right and then down.
        columns: Number of panels in a row.
        x_label, y_label: Labels of the axes.
        log_x, log_y: Whether the axes are logarithmic.
        x_limits, y_limits: Ends of the axes; None to choose them from the points.
        square: Whether both axes have the same scale.
    """

    panels: tuple[LinePanel, ...]
    columns: int
    x_label: str
    y_label: str
    log_x: bool = False
    log_y: bool = False
    x_limits: tuple[float, float] | None = None
    y_limits: tuple[float, float] | None = None
    square: bool = False


@dataclass(frozen=True, slots=True)
class Dots:
    """One series of dots, one in each row.

    Attributes:
        label: Text in the legend.
        role: Whose numbers the dots show.
        values: One value for each row.
        ranges: Low and high end of a whisker for each row; empty for no whiskers.
    """

    label: str
    role: Role
    values: tuple[float, ...]
    ranges: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class DotPanel:
    """Dots on one pair of axes.

    Attributes:
        title: Title above the panel.
        series: Series of dots, in the order of drawing.
        x_label: Label below the panel.
        notes: Short text at the right end of each row; empty for no notes.
    """

    title: str
    series: tuple[Dots, ...]
    x_label: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DotPlot:
    """Panels of dots with the same rows.

    Attributes:
        rows: Titles of the rows from top to bottom.
        panels: Panels, from left to right and then down.
        columns: Number of panels in a row.
        log_x: Whether the x axis is logarithmic.
    """

    rows: tuple[str, ...]
    panels: tuple[DotPanel, ...]
    columns: int
    log_x: bool = False


@dataclass(frozen=True, slots=True)
class Box:
    """Five summary numbers of many draws, and a single draw.

    Attributes:
        low, first, middle, third, high: Smallest draw, three quartiles, largest draw. Each whisker ends 1.5 times the
            interquartile range from the box, or at the extreme draw if that is nearer.
        single: A single draw, marked separately; None for none.
    """

    low: float
    first: float
    middle: float
    third: float
    high: float
    single: float | None = None


@dataclass(frozen=True, slots=True)
class BoxSeries:
    """Boxes of one distribution, one for each place.

    Attributes:
        label: Text in the legend.
        role: Whose numbers the boxes show.
        boxes: One box for each place.
    """

    label: str
    role: Role
    boxes: tuple[Box, ...]


@dataclass(frozen=True, slots=True)
class BoxPanel:
    """Series of boxes with the same places.

    Attributes:
        title: Title above the panel.
        series: Series of boxes, side by side at every place.
    """

    title: str
    series: tuple[BoxSeries, ...]


@dataclass(frozen=True, slots=True)
class BoxPlot:
    """Panels of boxes, one below the other.

    Attributes:
        places: Names along the axis. Long names are small and vertical. More than 40 names are not shown.
        panels: Panels from top to bottom.
        x_label, y_label: Labels of the axes.
    """

    places: tuple[str, ...]
    panels: tuple[BoxPanel, ...]
    x_label: str
    y_label: str


Drawing: TypeAlias = LinePlot | DotPlot | BoxPlot


_COLOURS: Final = {
    Role.OURS: BLUE,
    Role.PUBLISHED: VERMILION,
    Role.REDUCED: INK,
    Role.PRINTED: PURPLE,
    Role.OTHER: "#8b949e",
}
_DASHES: Final[dict[Role, Any]] = {
    Role.OURS: "solid",
    Role.PUBLISHED: (0, (6, 2)),
    Role.REDUCED: (0, (1.2, 1.4)),
    Role.PRINTED: (0, (4, 1.5, 1, 1.5)),
    Role.OTHER: (0, (3, 3)),
}
_MARKERS: Final = {
    Role.OURS: "o",
    Role.PUBLISHED: "D",
    Role.REDUCED: "s",
    Role.PRINTED: "X",
    Role.OTHER: "v",
}

MOST_NAMES: Final = 40
"""Largest number of places of a box plot that are named. More names would not be legible."""


def write_plot(path: Path, drawing: Drawing, title: str) -> None:
    """Draw and write one plot. The suffix of `path`, .svg or .png, selects the file format.

    Raises:
        StoreError: the file cannot be written.
    """
    with house_style("tallyveil"):
        figure = _drawn(drawing)
        width, height = figure.get_size_inches()
        heading = figure.suptitle(
            title, x=0.08 / width, y=1 - 0.08 / height, ha="left", va="top", fontsize=12, fontweight="bold"
        )
        heading.set_in_layout(False)  # `_panels` has already left room for the heading
        file_format = path.suffix.removeprefix(".")

        def save(temporary: Path) -> None:
            figure.savefig(temporary, format=file_format, metadata=METADATA[file_format], facecolor="white")

        write_file(path, save)


def _drawn(drawing: Drawing) -> "Figure":
    if isinstance(drawing, LinePlot):
        return _lines(drawing)
    return _dots(drawing) if isinstance(drawing, DotPlot) else _boxes(drawing)


@contextmanager
def _panels(n: int, columns: int, size: tuple[float, float], **shared: Any) -> Iterator[tuple["Figure", Any]]:
    """Yield a figure with `n` panels; after the caller has drawn, add one legend and leave room for a title."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    rows = math.ceil(n / columns)
    width = size[0] * columns
    layout = ConstrainedLayoutEngine()
    figure = Figure(figsize=(width, size[1] * rows), layout=layout)
    axes = figure.subplots(rows, columns, squeeze=False, **shared).ravel()
    for panel in axes[:n]:
        panel.grid()
    # The last row of panels may not be full.
    for empty in axes[n:]:
        empty.set_axis_off()
    yield figure, axes
    entries: dict[str, Any] = {}
    for panel in axes[:n]:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            # One entry for a label, in the order in which labels first occur.
            entries.setdefault(label, handle)
    # The space above the panels, in inches, holds the title and the lines of the legend.
    # 0.65 inches for line and space, 0.07 for a letter.
    fitting = max(1, int(width / (0.65 + 0.07 * max(map(len, entries)))))
    lines = math.ceil(len(entries) / fitting)
    head = 0.42 + 0.22 * lines
    height = size[1] * rows + head
    # Only now is the height known, since the legend may take several lines.
    figure.set_size_inches(width, height)
    layout.set(rect=(0, 0, 1, 1 - head / height), w_pad=0.08, h_pad=0.06)
    figure.legend(
        entries.values(),
        entries.keys(),
        loc="upper left",
        bbox_to_anchor=(0.08 / width, 1 - 0.36 / height),
        ncols=math.ceil(len(entries) / lines),
        columnspacing=1.6,
        handlelength=2.4,
        borderpad=0,
        borderaxespad=0,
    )


def _lines(plot: LinePlot) -> "Figure":
    size = (2.75, 2.95) if plot.square else (3.1, 2.6) if len(plot.panels) > 2 else (4.6, 3.8)
    if len(plot.panels) == 1:
        size = (6.8, 6.4) if plot.square else (7.4, 4.6)
    with _panels(len(plot.panels), plot.columns, size, sharey=plot.y_limits is not None) as (figure, axes):
        for place, (panel, content) in enumerate(zip(axes, plot.panels, strict=False)):
            _draw_lines(panel, content, plot)
            # Labels at the outer panels alone; inner ones share the axis.
            if place % plot.columns == 0:
                panel.set_ylabel(plot.y_label)
            if place >= len(plot.panels) - plot.columns:
                panel.set_xlabel(plot.x_label)
    return figure


def _draw_lines(axes: "Axes", content: LinePanel, plot: LinePlot) -> None:
    axes.set_title(content.title)
    axes.margins(x=0)
    for line in content.lines:
        axes.plot(
            line.x,
            line.y,
            color=_COLOURS[line.role],
            linestyle=_DASHES[line.role],
            linewidth=1.3 if line.role is Role.OTHER else 1.8,
            label=line.label,
        )
    if plot.log_x:
        axes.set_xscale("log")
    if plot.log_y:
        axes.set_yscale("log")
    if plot.x_limits is not None:
        axes.set_xlim(*plot.x_limits)
    if plot.y_limits is not None:
        axes.set_ylim(*plot.y_limits)
    if plot.log_x:
        label_powers(axes.xaxis, axes.get_xlim())
    if plot.log_y:
        label_powers(axes.yaxis, axes.get_ylim())
    if plot.square:
        axes.set_aspect("equal")
    for height, word in content.marks:
        axes.axhline(height, color=MUTED, linewidth=0.8, linestyle=(0, (1, 2)))
        axes.annotate(
            word,
            (0, height),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            xytext=(4, 2),
            color=MUTED,
            fontsize=8,
        )


def _label_amounts(axis: "Axis", limits: tuple[float, float]) -> None:
    """Label a logarithmic axis of persons or dollars in plain text: 1, 2, 5, 10."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    low, high = limits
    ratio = high / low
    # The shorter the axis, the more labels in a power of ten.
    steps = (1, 1.5, 2, 3, 4, 5, 7) if ratio < 4 else (1, 2, 5) if ratio < 200 else (1,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [step * 10.0**power for power in powers for step in steps]
    axis.set_major_locator(FixedLocator([tick for tick in ticks if low <= tick <= high]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


def _dots(plot: DotPlot) -> "Figure":
    # 0.085 inches for a letter of the names of the rows.
    label_width = 0.085 * max(map(len, plot.rows))
    size = (3.9 + label_width / plot.columns, 0.4 * len(plot.rows) + 0.85)
    if len(plot.panels) == 1:
        size = (7.4, size[1])
    with _panels(len(plot.panels), plot.columns, size, sharey=True) as (figure, axes):
        for panel, content in zip(axes, plot.panels, strict=False):
            _draw_dots(panel, content, plot)
            panel.set_xlabel(content.x_label)
    return figure


def _draw_dots(axes: "Axes", content: DotPanel, plot: DotPlot) -> None:
    axes.set_title(content.title)
    axes.grid(axis="y", visible=False)
    for row in range(0, len(plot.rows), 2):
        axes.axhspan(row - 0.5, row + 0.5, color=BAND, zorder=0, linewidth=0)
    for number, series in enumerate(content.series):
        # Series are shifted about the middle of their row, so that equal values stay visible.
        shift = (number - (len(content.series) - 1) / 2) * 0.18
        places = [row + shift for row in range(len(plot.rows))]
        for place, (low, high) in zip(places, series.ranges, strict=False):
            axes.plot([low, high], [place, place], color=_COLOURS[series.role], linewidth=1.6, alpha=0.5)
        axes.scatter(
            series.values,
            places,
            s=32,
            color=_COLOURS[series.role],
            marker=_MARKERS[series.role],
            linewidths=0,
            label=series.label,
            zorder=3,
        )
    axes.set_yticks(range(len(plot.rows)), plot.rows)
    axes.set_ylim(len(plot.rows) - 0.5, -0.5)
    ends = [end for series in content.series for pair in series.ranges for end in pair]
    shown = [value for series in content.series for value in series.values] + ends
    if plot.log_x:
        axes.set_xscale("log")
        axes.set_xlim(min(shown) / 1.25, max(shown) * 1.25)
        _label_amounts(axes.xaxis, axes.get_xlim())
    elif min(shown) >= 0:
        # From 0, so that lengths can be compared.
        axes.set_xlim(0, 1.05 * max(shown))
    else:
        axes.axvline(0, color=MUTED, linewidth=0.8)
    for row, note in enumerate(content.notes):
        axes.annotate(
            note,
            (1, row),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            xytext=(4, 0),
            va="center",
            color=MUTED,
            fontsize=8.5,
        )


def _boxes(plot: BoxPlot) -> "Figure":
    # At least legible and at most as wide as a page in landscape; boxes get narrower beyond.
    width = min(11.0, max(6.0, 0.32 * len(plot.places) * len(plot.panels[0].series) + 1.5))
    with _panels(len(plot.panels), 1, (width, 2.7), sharex=True) as (figure, axes):
        for panel, content in zip(axes, plot.panels, strict=False):
            panel.set_title(content.title)
            panel.grid(axis="x", visible=False)
            panel.axhline(0, color=MUTED, linewidth=0.8)
            panel.set_ylabel(plot.y_label)
            for number, series in enumerate(content.series):
                _draw_boxes(
                    panel, series, (number + 0.5) / len(content.series) - 0.5, 0.7 / len(content.series)
                )
            panel.set_xlim(-0.7, len(plot.places) - 0.3)
        last = axes[len(plot.panels) - 1]
        last.set_xlabel(plot.x_label)
        named = len(plot.places) <= MOST_NAMES
        # More names would overlap and are left out.
        last.set_xticks(range(len(plot.places)) if named else [], plot.places if named else [])
        if named and max(map(len, plot.places)) > 3:
            last.tick_params(axis="x", labelrotation=90, labelsize=8)
    return figure


def _draw_boxes(axes: "Axes", series: BoxSeries, shift: float, width: float) -> None:
    colour = _COLOURS[series.role]
    for place, box in enumerate(series.boxes):
        # Tukey's whiskers: 1.5 times the interquartile range.
        x, reach = place + shift, 1.5 * (box.third - box.first)
        ends = max(box.low, box.first - reach), min(box.high, box.third + reach)
        axes.plot([x, x], ends, color=colour, linewidth=0.8, zorder=2)
        # A box without height would not be drawn.
        height = max(box.third - box.first, 1e-9)
        axes.bar(
            x,
            height,
            width,
            bottom=box.first,
            color=colour,
            alpha=0.35,
            edgecolor=colour,
            linewidth=0.8,
            zorder=2,
            # One entry in the legend for a whole series.
            label=series.label if place == 0 else None,
        )
        axes.plot([x - width / 2, x + width / 2], [box.middle] * 2, color=colour, linewidth=1.4, zorder=3)
        # Only the extreme draws are known of those beyond a whisker.
        outside = [end for end, whisker in zip((box.low, box.high), ends, strict=True) if end != whisker]
        if outside:
            axes.scatter([x] * len(outside), outside, s=7, marker="x", linewidths=0.7, color=colour, zorder=2)
        if box.single is not None:
            axes.scatter(
                [x], [box.single], s=9, marker="s", color=INK, linewidths=0, zorder=4, label="one draw"
            )
