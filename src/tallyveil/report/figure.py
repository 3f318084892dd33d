"""Figures in the house style of all plots: inline SVG for pages, dot plots, and files of a guarantee.

A plot has the same bytes every time. Readers with a colour vision deficiency can tell its colours apart. Text
on colours is readable.
"""

import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup, escape

from tallyveil.accounting.numbers import Bounds
from tallyveil.errors import ConfigError
from tallyveil.printable import shown
from tallyveil.report.wording import name_title
from tallyveil.storage.write import write_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

BLUE: Final = "#0072b2"
VERMILION: Final = "#d55e00"
PURPLE: Final = "#cc79a7"
INK: Final = "#1b1f24"
MUTED: Final = "#57606a"
GREY: Final = "#b4bac2"
GRID: Final = "#dfe3e8"
BAND: Final = "#f4f6f8"

# Okabe and Ito's colours, distinct under the common kinds of colour blindness. Yellow is left out because it is too
# light on white.
COLOURS: Final = (BLUE, "#e69f00", "#009e73", VERMILION, "#56b4e9", PURPLE, "#5c4a9c", INK)

_STYLE: Final[dict[Any, Any]] = {
    "font.family": ["DejaVu Sans"],  # this font comes with matplotlib, so text has the same width everywhere
    "font.size": 10.5,
    "text.color": INK,
    "text.parse_math": False,  # a dollar sign in a name is only a dollar sign
    "axes.edgecolor": GRID,
    "axes.labelcolor": MUTED,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": MUTED,
    "ytick.color": INK,
    "ytick.major.size": 0,
    "ytick.minor.size": 0,
    "xtick.major.size": 3,
    "xtick.minor.size": 0,
    "legend.frameon": False,
    "legend.borderpad": 0,
    "legend.borderaxespad": 0,
    "legend.handletextpad": 0.5,
    "svg.fonttype": "none",  # text stays text
}

METADATA: Final[dict[str, dict[str, None]]] = {
    "svg": {"Creator": None, "Date": None, "Format": None, "Type": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None},
}
"""By file format, the entries of metadata to leave out, because they name a version or a time."""


@contextmanager
def house_style(name: str) -> Iterator[None]:
    """Set matplotlib to the house style for one figure.

    Args:
        name: Name of the figure. The ids in its SVG are made from it, so that two figures on a page have different ids.
    """
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()  # a user's own settings must not change the bytes
        mpl.rcParams.update({**_STYLE, "svg.hashsalt": name})
        yield


def label_powers(axis: "Axis", limits: tuple[float, float]) -> None:
    """Label a logarithmic axis of probabilities in plain text: 1, 1e-3, 1e-6."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    low, high = (math.log10(limit) for limit in limits)
    # At most about six labels on an axis.
    step = max(1, math.ceil((high - low) / 6))
    powers = [power for power in range(math.floor(low), math.ceil(high) + 1) if power % step == 0]
    axis.set_major_locator(FixedLocator([10.0**power for power in powers]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(
        FuncFormatter(lambda value, _: "1" if value == 1 else f"1e{round(math.log10(value))}")
    )


MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")

WIDTH = 10.0
"""Width of every figure in inches. The page scales figures to the width of its column."""

THEME: Final = {INK: "--ink", MUTED: "--muted", GRID: "--line", BAND: "--band"}
"""Colours of text, lines and bands, and the names under which the style sheet has them for light and dark pages."""

_TAG = re.compile(r"<[^>]*>")
_REFERENCE = re.compile(r"""(\bid="|url\(#|href="#)""")
_NEUTRAL = re.compile("|".join(THEME))
_PAPER_EDGE = "stroke: #ffffff"


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure of a page, with the sentence that says what it shows.

    Attributes:
        svg: The drawing, with an alternative text.
        sentence: A sentence computed from the numbers that are drawn.
    """

    svg: Markup
    sentence: str


def new_figure(height: float) -> "Figure":
    """An empty figure as wide as the page and `height` inches high. The caller places its axes."""
    from matplotlib.figure import Figure

    return Figure(figsize=(WIDTH, height))


def to_svg(figure: "Figure", name: str, description: str) -> Markup:
    """The figure as an `<svg>` element.

    Args:
        figure: The figure. Call this inside `house_style(name)`.
        name: Short name, unique on the page. It becomes part of all ids in the SVG.
        description: Alternative text for readers who cannot see the figure.
    """
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata=METADATA["svg"], transparent=True)
    # Names that people chose may hold characters that cannot be printed.
    text = shown(buffer.getvalue())
    text = re.sub(r"<!--.*?-->", "", text[text.index("<svg") :], flags=re.DOTALL)
    # Text is escaped: "<" and ">" occur only in tags, so no name in a text is changed here.
    text = _TAG.sub(lambda tag: _themed(_REFERENCE.sub(rf"\g<1>{name}-", tag.group())), text)
    opening = f'<svg role="img" aria-label="{escape(description)}" '
    # Markup is safe here, because matplotlib has escaped every text that it wrote.
    return Markup(text.replace("<svg ", opening, 1))


def _themed(tag: str) -> str:
    """A tag whose neutral colours are those of the page, so that a figure can be read on light and on dark paper."""
    themed = _NEUTRAL.sub(lambda colour: f"var({THEME[colour.group()]})", tag)
    return themed.replace(_PAPER_EDGE, "stroke: var(--paper)")


def log_axis(axes: "Axes", low: float, high: float, zero: float | None = None) -> None:
    """Make the x axis a logarithmic axis of counts, labelled at 1, 10, 100, ... or 1, 2, 5, 10, ...

    Args:
        axes: The axes to change.
        low, high: Ends of the axis.
        zero: Position of the label 0, left of all other labels; None for no label 0.
    """
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    # Above two and a half powers of ten, labels at 2 and 5 would overlap.
    steps = (1,) if high / low > 300 else (1, 2, 5)
    ticks = [step * 10.0**power for power in range(-6, 12) for step in steps]
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    # A label left of the smallest value would stand in the place of the zero.
    labelled = [tick for tick in ticks if (zero or low) < tick <= high]
    axes.xaxis.set_major_locator(FixedLocator(labelled if zero is None else [zero, *labelled]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: "0" if value == zero else f"{value:,.10g}"))
    axes.grid(axis="x")


def text_colour(background: str) -> str:
    """Black or white, whichever has the greater contrast with a colour. This contrast is at least 4.58."""
    return max("#000000", "#ffffff", key=lambda colour: contrast(colour, background))


def contrast(colour: str, other: str) -> float:
    """Contrast of two colours, from 1 to 21. Text needs at least 4.5.

    Source: W3C, Web Content Accessibility Guidelines 2.1, "contrast ratio".
    """
    darker, lighter = sorted((_luminance(colour), _luminance(other)))
    # 0.05 is the standard's allowance for light that a screen reflects.
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    parts = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    red, green, blue = (
        # The sRGB curve as the standard states it.
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4
        for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


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


ENDINGS = (".svg", ".png", ".pdf")
"""Formats that matplotlib writes without further programs, and whose metadata the house style keeps the same."""


def draw_profile(path: Path, epsilons: Sequence[float], deltas: Sequence[Bounds]) -> None:
    """Draw delta against epsilon on a logarithmic axis.

    Raises:
        ConfigError: the ending of the file name is not a known format.
        StoreError: the file cannot be written.
    """
    with house_style("profile"):
        figure, axes = _empty("epsilon", "delta (logarithmic)")
        # Zero cannot be drawn on a logarithmic axis. The upper bound is drawn: it is what may be claimed.
        shown = [(x, y.upper) for x, y in zip(epsilons, deltas, strict=True) if y.upper > 0]
        axes.plot([x for x, _ in shown], [y for _, y in shown], color=COLOURS[0], linewidth=2)
        axes.set_yscale("log")
        label_powers(axes.yaxis, axes.get_ylim())
        axes.set_title("Privacy profile: delta at every epsilon (upper bound)")
        _save(figure, path)


def draw_tradeoff(path: Path, alphas: Sequence[float], betas: Sequence[Bounds]) -> None:
    """Draw the trade-off function, beside the line of perfect privacy. It raises the errors of `draw_profile`."""
    with house_style("tradeoff"):
        figure, axes = _empty("false positives alpha", "least false negatives beta")
        axes.plot([0, 1], [1, 0], color=GREY, linestyle="--", label="nothing can be told apart")
        axes.plot(
            # The lower bound: a guarantee says that false negatives are at least so many.
            alphas,
            [beta.lower for beta in betas],
            color=COLOURS[0],
            linewidth=2,
            label="this composition",
        )
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
        axes.set_title("Trade-off function of the best test between neighbours (lower bound)")
        axes.legend(loc="upper right")
        _save(figure, path)


def _empty(x: str, y: str) -> "tuple[Figure, Axes]":
    figure = new_figure(5.0)
    axes = figure.subplots()
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.grid()
    return figure, axes


def _save(figure: "Figure", path: Path) -> None:
    if path.suffix not in ENDINGS:
        raise ConfigError(
            f"--plot is {path}; wanted a file that ends in {', '.join(ENDINGS)}. Rename it.", code="bad-flag"
        )
    file_format = path.suffix[1:]

    def write(temporary: Path) -> None:
        # Into a temporary file that is moved, so that no half-written picture is left.
        figure.savefig(temporary, format=file_format, metadata=METADATA[file_format], bbox_inches="tight")

    write_file(path, write)
