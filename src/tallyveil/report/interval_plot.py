"""A figure that compares published counts with unbiased estimates and their intervals."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tallyveil.report.figure import WIDTH, Picture, new_figure, to_svg
from tallyveil.report.house_style import COLOURS, INK, MUTED, house_style
from tallyveil.report.wording import grouped
from tallyveil.schema.unit import Unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INSIDE, OUTSIDE = COLOURS[0], COLOURS[3]
_LEFT, _RIGHT = 2.0, 0.2  # inches beside the axes
_PANEL, _GAP, _TOP, _BOTTOM = 1.25, 0.42, 0.42, 0.62
_LABEL = 0.62  # inches from the axes to the name of a geolevel: past the longest tick label
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


def interval_plot(panels: Sequence[Panel], unit: Unit) -> Picture:
    """Draw one panel for each geolevel. Intervals are drawn relative to the published counts, the line at zero."""
    with house_style("intervals"):
        height = _TOP + _BOTTOM + len(panels) * _PANEL + (len(panels) - 1) * _GAP
        figure = new_figure(height)
        for number, panel in enumerate(panels):
            base = _BOTTOM + (len(panels) - 1 - number) * (_PANEL + _GAP)
            axes = figure.add_axes(
                (_LEFT / WIDTH, base / height, 1 - (_LEFT + _RIGHT) / WIDTH, _PANEL / height)
            )
            _draw(axes, panel)
            axes.set_ylabel(f"{panel.title}\n{unit.many}", rotation=0, ha="right", va="center")
            axes.yaxis.set_label_coords(-_LABEL / (WIDTH - _LEFT - _RIGHT), 0.5)
            if number == len(panels) - 1:
                axes.set_xlabel("published count, from the smallest geounit to the largest")
        _legend(figure, height)
        return Picture(to_svg(figure, "intervals", _description(panels)), _words(panels))


def _draw(axes: "Axes", panel: Panel) -> None:
    places = np.arange(len(panel.published))
    held = panel.inside
    for which, colour, marker in ((held, INSIDE, "o"), (~held, OUTSIDE, "D")):
        low, high, middle = (
            (values - panel.published)[which] for values in (panel.lower, panel.upper, panel.estimate)
        )
        axes.vlines(places[which], low, high, color=colour, linewidth=2.2, zorder=2)
        axes.scatter(places[which], middle, s=20, color=colour, marker=marker, linewidths=0, zorder=4)
    axes.margins(y=0.08)
    axes.axhline(0, color=INK, linewidth=1.1, zorder=3)
    axes.grid(axis="y")
    shown = np.unique(np.linspace(0, len(places) - 1, min(_LABELS, len(places))).round().astype(int))
    axes.set_xticks(shown, [grouped(int(panel.published[place])) for place in shown])
    axes.set_xlim(-0.8, max(len(places) - 0.2, 0.8))
    axes.locator_params(axis="y", nbins=5, integer=True)
    axes.yaxis.set_major_formatter(lambda value, _: "0" if value == 0 else f"{value:+,.0f}".replace("-", "−"))
    axes.tick_params(axis="y", labelcolor=MUTED)


def _legend(figure: "Figure", height: float) -> None:
    from matplotlib.lines import Line2D

    entries = [
        Line2D([], [], color=INK, linewidth=1.1, label="published count"),
        Line2D(
            [],
            [],
            color=INSIDE,
            marker="o",
            markersize=4.5,
            linewidth=2.2,
            label="estimate and interval that holds it",
        ),
        Line2D(
            [], [], color=OUTSIDE, marker="D", markersize=4.5, linewidth=2.2, label="interval that does not"
        ),
    ]
    figure.legend(
        handles=entries,
        loc="upper left",
        bbox_to_anchor=(_LEFT / WIDTH, 1 - 0.05 / height),
        ncols=3,
        columnspacing=1.8,
        handlelength=1.6,
    )


def _description(panels: Sequence[Panel]) -> str:
    parts = [
        f"{panel.title}: {int((~panel.inside).sum())} of {len(panel.published)} outside" for panel in panels
    ]
    return f"Intervals of counts drawn relative to the published count. {'; '.join(parts)}."


def _words(panels: Sequence[Panel]) -> str:
    """How many of the counts that are drawn lie outside their intervals."""
    drawn = sum(len(panel.published) for panel in panels)
    outside = [(panel.title, int((~panel.inside).sum())) for panel in panels]
    beyond = sum(number for _, number in outside)
    if not beyond:
        return f"All {grouped(drawn)} published counts that are drawn lie in their intervals."
    where = ", ".join(f"{number} at {title}" for title, number in outside if number)
    return f"Of the {grouped(drawn)} published counts that are drawn, {beyond} lie outside their intervals ({where})."
