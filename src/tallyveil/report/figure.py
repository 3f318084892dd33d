"""Figures of a page as inline SVG, and the readability of text on colours."""

import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from markupsafe import Markup, escape

from tallyveil.printable import shown
from tallyveil.report.house_style import BAND, GRID, INK, METADATA, MUTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
