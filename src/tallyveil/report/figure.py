"""The house style of plots that are files of their own, and the plots of a guarantee.

They are drawn by matplotlib, which writes SVG, PNG and PDF. A plot has the same bytes every time.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tallyveil.accounting.numbers import Bounds
from tallyveil.errors import ConfigError
from tallyveil.report.svg import BLUE, GREY
from tallyveil.storage.write import write_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

INK: Final = "#1b1f24"
MUTED: Final = "#57606a"
GRID: Final = "#dfe3e8"
BAND: Final = "#f4f6f8"

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
        name: Name of the figure. The ids in its SVG are made from it.
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
        axes.plot([x for x, _ in shown], [y for _, y in shown], color=BLUE, linewidth=2)
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
            color=BLUE,
            linewidth=2,
            label="this composition",
        )
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
        axes.set_title("Trade-off function of the best test between neighbours (lower bound)")
        axes.legend(loc="upper right")
        _save(figure, path)


def _empty(x: str, y: str) -> "tuple[Figure, Axes]":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 5.0))
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
