"""The content of a plot, as data: lines in panels, dots in rows, or boxes side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

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
