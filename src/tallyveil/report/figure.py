"""Figures as inline SVG: the same bytes every time, text kept as text, colours told apart by everybody."""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from tallyveil.printable import shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, distinct under the common kinds of colour blindness; yellow is left out (too light).
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7", "#5c4a9c", "#1b1f24")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")
GREY = "#b4bac2"
INK = "#1b1f24"
MUTED = "#57606a"
GRID = "#dfe3e8"
BAND = "#f4f6f8"

WIDTH = 10.0
"""Width of every figure in inches; the page scales it to its column."""

_STYLE: dict[Any, Any] = {
    "font.family": ["DejaVu Sans"],  # measured with the font that comes along; the page shows its own
    "font.size": 10.5,
    "text.color": INK,
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
    "axes.edgecolor": GRID,
    "axes.labelcolor": MUTED,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.axisbelow": True,
    "xtick.color": MUTED,
    "ytick.color": INK,
    "ytick.major.size": 0,
    "xtick.major.size": 3,
    "xtick.minor.size": 0,
    "legend.frameon": False,
    "legend.borderpad": 0,
    "legend.borderaxespad": 0,
    "legend.handletextpad": 0.5,
    "svg.fonttype": "none",
}
_NO_METADATA = {"Creator": None, "Date": None, "Format": None, "Type": None}
_TAG = re.compile(r"<[^>]*>")
_REFERENCE = re.compile(r"""(\bid="|url\(#|href="#)""")


@contextmanager
def house_style(name: str) -> Iterator[None]:
    """Matplotlib settings of one figure; its name keeps its ids apart from other figures' on the page."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()  # a reader's own settings must not change the bytes
        mpl.rcParams.update({**_STYLE, "svg.hashsalt": name})
        yield


def new_figure(height: float) -> "Figure":
    """An empty figure of the page's width, laid out by the caller; `height` in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(WIDTH, height))


def to_svg(figure: "Figure", name: str, description: str) -> Markup:
    """The figure as an `<svg>` element.

    Args:
        figure: What to draw; still within `house_style(name)`.
        name: Short name, unique on the page.
        description: What a reader who cannot see it should know.
    """
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata=_NO_METADATA, transparent=True)
    text = shown(buffer.getvalue())
    text = re.sub(r"<!--.*?-->", "", text[text.index("<svg") :], flags=re.DOTALL)
    # Text is escaped, so that "<" and ">" stand for tags alone and names cannot be mistaken for references.
    text = _TAG.sub(lambda tag: _REFERENCE.sub(rf"\g<1>{name}-", tag.group()), text)
    opening = f'<svg role="img" aria-label="{escape(description)}" '
    # Markup, since matplotlib has escaped every text it wrote.
    return Markup(text.replace("<svg ", opening, 1))


def log_axis(axes: "Axes", low: float, high: float, zero: float | None = None) -> None:
    """Logarithmic x axis of counts, labelled at 1, 10, 100, ... or 1, 2, 5, 10, ...

    Args:
        axes: Where.
        low, high: Its ends.
        zero: Where zero stands, left of every other label; None where there is none.
    """
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    steps = (1,) if high / low > 300 else (1, 2, 5)
    ticks = [step * 10.0**power for power in range(-6, 12) for step in steps]
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    labelled = [tick for tick in ticks if (zero or low) < tick <= high]
    axes.xaxis.set_major_locator(FixedLocator(labelled if zero is None else [zero, *labelled]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: "0" if value == zero else f"{value:,.10g}"))
    axes.grid(axis="x", color=GRID, linewidth=0.8)


def text_colour(background: str) -> str:
    """Black or white, whichever stands out more from a colour: its contrast is then at least 4.58."""
    return max("#000000", "#ffffff", key=lambda colour: contrast(colour, background))


def contrast(one: str, other: str) -> float:
    """Contrast of two colours, from 1 to 21; text needs 4.5.

    Source: W3C, Web Content Accessibility Guidelines 2.1, "contrast ratio".
    """
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    parts = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    red, green, blue = (
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
