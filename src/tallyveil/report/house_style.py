"""The house style of all plots, on report pages and in studies: colours, fonts, axes, and file metadata.

A plot has the same bytes every time. Readers with a colour vision deficiency can tell its colours apart.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from matplotlib.axis import Axis

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
