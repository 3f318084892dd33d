"""Dot plots of margins and errors by query and geolevel, on a logarithmic axis."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from markupsafe import Markup

from tallyveil.report.figure import MARKERS, WIDTH, log_axis, new_figure, to_svg
from tallyveil.report.house_style import BAND, COLOURS, MUTED, house_style
from tallyveil.report.wording import name_title

_LEFT, _RIGHT = 2.6, 0.25  # inches beside the axes
_ROW = 0.52
_NAMES_ACROSS, _LINE = 6, 0.22  # of the legend
_LETTER, _MARKER = 0.083, 0.52  # inches of a letter of the legend, and of a marker with the space around it
_LONGEST = 40  # letters of a name in the legend


def dot_plot(
    name: str,
    rows: Sequence[str],
    geolevels: Sequence[str],
    values: Mapping[tuple[str, str], float],
    *,
    axis: str,
    description: str,
    below: float | None = None,
) -> Markup:
    """Draw one row of dots for each title. Each geolevel has a colour and a shape of its own.

    Args:
        name: Short name, unique on the page.
        rows: Titles from top to bottom.
        geolevels: Names, in order.
        values: Value by row title and geolevel. Pairs without a value get no dot.
        axis: Label of the axis.
        description: Alternative text for readers who cannot see the figure.
        below: Position at which zeros are drawn, below every positive value; None if there are no zeros.
    """
    with house_style(name):
        labels = [_label(geolevel) for geolevel in geolevels]
        names_across = _names_across(labels)
        # Rounded up.
        lines = -(-len(geolevels) // names_across)
        top, bottom = 0.42 + _LINE * (lines - 1), 0.6
        height = top + bottom + _ROW * len(rows)
        figure = new_figure(height)
        axes = figure.add_axes(
            (_LEFT / WIDTH, bottom / height, 1 - (_LEFT + _RIGHT) / WIDTH, 1 - (top + bottom) / height)
        )
        # A plot without a positive value still needs an axis.
        positive = [value for value in values.values() if value > 0] or [1.0]
        # Some room beside the outermost dots, the same in both directions on a logarithmic axis.
        low = min(positive) / 1.35 if below is None else below / 1.35
        log_axis(axes, low, max(max(positive) * 1.35, low * 10), below)
        if below is not None:
            axes.axvline(below, color=MUTED, linewidth=0.8, linestyle=(0, (2, 3)))
        # Every second row has a band, so that the eye can follow it.
        for row in range(0, len(rows), 2):
            axes.axhspan(row - 0.5, row + 0.5, color=BAND, zorder=0, linewidth=0)
        for number, geolevel in enumerate(geolevels):
            # The dots of a row are shifted vertically, so that equal values do not hide each other.
            shift = (number - (len(geolevels) - 1) / 2) * min(0.16, 0.82 / len(geolevels))
            points = [
                (values[row, geolevel], place) for place, row in enumerate(rows) if (row, geolevel) in values
            ]
            axes.scatter(
                [value or (below or low) for value, _ in points],
                [place + shift for _, place in points],
                s=40,
                color=COLOURS[number % len(COLOURS)],
                # Shifted after each round of colours, so that no two geolevels have both colour and shape in
                # common.
                marker=MARKERS[(number + number // len(COLOURS)) % len(MARKERS)],
                linewidths=0,
                label=labels[number],
                zorder=3,
            )
        axes.set_yticks(range(len(rows)), rows)
        # Upside down: the first row is on top.
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlabel(axis)
        figure.legend(
            loc="upper left",
            bbox_to_anchor=(_LEFT / WIDTH, 1 - 0.08 / height),
            ncols=names_across,
            columnspacing=1.4,
            handletextpad=0.2,
        )
        return to_svg(figure, name, description)


def _label(geolevel: str) -> str:
    """A name for the legend, cut if it is long."""
    title = name_title(geolevel)
    return title if len(title) <= _LONGEST else f"{title[: _LONGEST - 1]}…"


def _names_across(labels: Sequence[str]) -> int:
    """The largest number of names beside each other that fit the figure. The legend fills one column after another."""
    # From the widest down; with one column every legend fits.
    for across in range(min(len(labels), _NAMES_ACROSS), 1, -1):
        lines, longer = divmod(len(labels), across)  # the first columns have one line more
        ends = [(n + 1) * lines + min(n + 1, longer) for n in range(across)]
        columns = [labels[first:end] for first, end in pairwise([0, *ends])]
        letters = sum(max(len(label) for label in column) for column in columns)
        if across * _MARKER + letters * _LETTER <= WIDTH - _LEFT:
            return across
    return 1
