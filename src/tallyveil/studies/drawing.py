"""What is to be plotted, as data: lines in panels, dots in rows, or boxes side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Points: TypeAlias = Sequence[float] | npt.NDArray[np.float64]


class Role(StrEnum):
    """Whose numbers a line or a dot shows; decides its colour, dash and shape."""

    OURS = "ours"
    PUBLISHED = "published"
    REDUCED = "reduced"
    PRINTED = "printed"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Line:
    """A curve.

    Attributes:
        label: In the legend; equal labels share one entry.
        role: Whose it is.
        x, y: Its points.
    """

    label: str
    role: Role
    x: Points
    y: Points


@dataclass(frozen=True, slots=True)
class LinePanel:
    """Curves on one pair of axes.

    Attributes:
        title: Above it.
        lines: Drawn in order.
        marks: Heights with a thin rule and a word.
    """

    title: str
    lines: tuple[Line, ...]
    marks: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True, slots=True)
class LinePlot:
    """Panels of curves side by side.

    Attributes:
        panels: Left to right, then down.
        columns: Panels in a row.
        x_label, y_label: Of every panel.
        log_x, log_y: Logarithmic axes.
        x_limits, y_limits: Ends of the axes; None leaves them to the points.
        square: Both axes have the same scale.
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
        label: In the legend.
        role: Whose they are.
        values: One for each row.
        ranges: Low and high end of a whisker for each row; empty for none.
    """

    label: str
    role: Role
    values: tuple[float, ...]
    ranges: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class DotPanel:
    """Dots on one pair of axes.

    Attributes:
        title: Above it.
        series: Drawn in order.
        x_label: Below it.
        notes: Short text at the right end of each row; empty for none.
    """

    title: str
    series: tuple[Dots, ...]
    x_label: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DotPlot:
    """Panels of dots over common rows.

    Attributes:
        rows: Titles from top to bottom.
        panels: Left to right, then down.
        columns: Panels in a row.
        log_x: Logarithmic axis.
    """

    rows: tuple[str, ...]
    panels: tuple[DotPanel, ...]
    columns: int
    log_x: bool = False


@dataclass(frozen=True, slots=True)
class Box:
    """Five numbers of many draws, and one draw of them.

    Attributes:
        low, first, middle, third, high: Least draw, quartiles, greatest draw; whiskers end at 1.5 times the
            interquartile range or at the least and greatest draw, whichever is nearer.
        one: A single draw, shown by itself; None for none.
    """

    low: float
    first: float
    middle: float
    third: float
    high: float
    one: float | None = None


@dataclass(frozen=True, slots=True)
class BoxSeries:
    """Boxes of one law, one for each place.

    Attributes:
        label: In the legend.
        role: Whose they are.
        boxes: One for each place.
    """

    label: str
    role: Role
    boxes: tuple[Box, ...]


@dataclass(frozen=True, slots=True)
class BoxPanel:
    """Boxes over common places.

    Attributes:
        title: Above it.
        series: Side by side at every place.
    """

    title: str
    series: tuple[BoxSeries, ...]


@dataclass(frozen=True, slots=True)
class BoxPlot:
    """Panels of boxes, one below the other.

    Attributes:
        places: Names along the axis; many are drawn small, and more than 40 are left out.
        panels: From top to bottom.
        x_label, y_label: Of the axes.
    """

    places: tuple[str, ...]
    panels: tuple[BoxPanel, ...]
    x_label: str
    y_label: str


Drawing: TypeAlias = LinePlot | DotPlot | BoxPlot
