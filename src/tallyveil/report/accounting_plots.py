"""Figures of a privacy guarantee: the privacy profile and the trade-off function, each in a file."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tallyveil.accounting.numbers import Bounds
from tallyveil.errors import ConfigError
from tallyveil.report.figure import new_figure
from tallyveil.report.house_style import COLOURS, GREY, METADATA, house_style, label_powers
from tallyveil.storage.write import write_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
