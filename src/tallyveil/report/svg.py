"""Figures of pages, as SVG: scales and ticks, marks on a canvas, and the dot plot that several pages have.

Lengths are points of a figure as wide as the page; the page scales a figure to the width of its column. A figure has
the same bytes every time. Readers with a colour vision deficiency can tell its colours apart. Text, lines and bands
take their colours from the page, so a figure can be read on light and on dark paper.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from markupsafe import Markup, escape

from tallyveil.printable import shown
from tallyveil.report.wording import name_title
from tallyveil.words.language import ENGLISH, Figure, Language

INK: Final = "var(--ink)"
MUTED: Final = "var(--muted)"
LINE: Final = "var(--line)"
BAND: Final = "var(--band)"
PAPER: Final = "var(--paper)"

BLUE: Final = "#0072b2"
VERMILION: Final = "#d55e00"
PURPLE: Final = "#cc79a7"
GREY: Final = "#b4bac2"

# The first six are of Okabe and Ito, whose colours are distinct under the common kinds of colour blindness. Their
# yellow is left out because it is too light on white. The violet after them is not theirs. The last is the colour of
# text.
COLOURS: Final = (BLUE, "#e69f00", "#009e73", VERMILION, "#56b4e9", PURPLE, "#7d6bc4", INK)

WIDTH: Final = 720.0
"""Width of every figure in points."""

SIZE: Final = 10.5
"""Size of text, unless a figure says otherwise."""
SMALL: Final = 9.0

_LETTER: Final = 0.57
"""Width of a letter as a part of the size of text: of the widest font that a page may be shown in, on average."""

Anchor = Literal["start", "middle", "end"]

# Outlines of the marks, on a circle of radius 1 about the origin; marks of one size look equally large.
_OUTLINES: Final = (
    "",  # a circle, which has an element of its own
    "M-.89-.89H.89V.89H-.89Z",
    "M0-1.16 1.08.8H-1.08Z",
    "M0-1.25 1.25 0 0 1.25-1.25 0Z",
    "M0 1.16-1.08-.8H1.08Z",
    "M-.36-1.1H.36V-.36H1.1V.36H.36V1.1H-.36V.36H-1.1V-.36H-.36Z",
    "M-1.04-.53-.53-1.04 0-.51.53-1.04 1.04-.53.51 0 1.04.53.53 1.04 0 .51-.53 1.04-1.04.53-.51 0Z",
    "M-1.16 0 .8-1.08V1.08Z",
)
SHAPES: Final = len(_OUTLINES)
"""Number of shapes of dots."""
CIRCLE, DIAMOND = 0, 3


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure of a page, with the sentence that says what it shows.

    Attributes:
        svg: The drawing, with an alternative text.
        sentence: A sentence computed from the numbers that are drawn.
    """

    svg: Markup
    sentence: str


@dataclass(frozen=True, slots=True)
class Scale:
    """Where on the canvas a value lies.

    Attributes:
        low, high: Ends of the axis, in the order of `start` and `end`.
        start, end: Their places on the canvas.
        logarithmic: Whether equal ratios have equal lengths.
    """

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        low, high = self.low, self.high
        if self.logarithmic:
            value, low, high = math.log(value), math.log(low), math.log(high)
        return self.start + (value - low) / (high - low) * (self.end - self.start)


def even_ticks(low: float, high: float, most: int) -> list[int]:
    """At most so many whole numbers from `low` to `high`: multiples of 1, 2 or 5 times a power of ten."""
    step = 1
    while math.floor(high / step) - math.ceil(low / step) + 1 > most:
        # 1, 2, 5, 10, ...
        step = step * 5 // 2 if str(step).startswith("2") else step * 2
    return [step * n for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def amount_ticks(low: float, high: float) -> list[float]:
    """Labels of a logarithmic axis of amounts: 1, 10, 100, ... or, on a short axis, 1, 2, 5, 10, ..."""
    # Above two and a half powers of ten, labels at 2 and 5 would overlap.
    steps = (1,) if high / low > 300 else (1, 2, 5)
    ticks = [step * 10.0**power for power in range(-6, 12) for step in steps]
    return [tick for tick in ticks if low < tick <= high]


class Canvas:
    """Marks on a canvas, in the order of drawing: later ones lie above earlier ones."""

    def __init__(self, height: float, language: Language = ENGLISH) -> None:
        self._height = height
        self._language = language
        self._marks: list[str] = []

    def line(
        self,
        start: tuple[float, float],
        end: tuple[float, float],
        colour: str = LINE,
        *,
        width: float = 0.8,
        dashes: str = "",
    ) -> None:
        """A straight line."""
        (x1, y1), (x2, y2) = start, end
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        self._marks.append(
            f'<path d="M{_short(x1)} {_short(y1)}L{_short(x2)} {_short(y2)}" stroke="{colour}" '
            f'stroke-width="{_short(width)}"{dashed}/>'
        )

    def bar(self, corner: tuple[float, float], width: float, height: float, colour: str) -> None:
        """A rectangle with its left upper corner. A bar without width or height is not drawn."""
        if width > 0 and height > 0:
            x, y = map(_short, corner)
            self._marks.append(
                f'<rect x="{x}" y="{y}" width="{_short(width)}" height="{_short(height)}" fill="{colour}"/>'
            )

    def dots(
        self, places: Iterable[tuple[float, float]], colour: str, *, shape: int = CIRCLE, radius: float = 3.2
    ) -> None:
        """Equal marks at some places."""
        outline = _OUTLINES[shape]
        if not outline:
            marks = "".join(
                f'<circle cx="{_short(x)}" cy="{_short(y)}" r="{_short(radius)}"/>' for x, y in places
            )
        else:
            marks = "".join(
                f'<path d="{outline}" transform="translate({_short(x)} {_short(y)})scale({_short(radius)})"/>'
                for x, y in places
            )
        self._marks.append(f'<g fill="{colour}">{marks}</g>')

    def points(self, places: Iterable[Sequence[float]], colour: str, *, diameter: float) -> None:
        """Very many discs. They are ends of lines without length, which take few bytes."""
        ends = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in places)
        if ends:
            self._marks.append(
                f'<path d="{ends}" stroke="{colour}" stroke-width="{_short(diameter)}" stroke-linecap="round"/>'
            )

    def text(
        self,
        place: tuple[float, float],
        words: str,
        colour: str = INK,
        *,
        size: float = SIZE,
        anchor: Anchor = "start",
        bold: bool = False,
    ) -> None:
        """A line of text; its middle lies at the height of `place`."""
        x, y = place
        weight = ' font-weight="600"' if bold else ""
        # A third of the size below the middle stands the line that letters stand on.
        self._marks.append(
            f'<text x="{_short(x)}" y="{_short(y + 0.35 * size)}" font-size="{_short(size)}" text-anchor="{anchor}" '
            # Names that people chose may hold characters that cannot be printed.
            f'fill="{colour}"{weight}>{escape(shown(self._language.figure(words)))}</text>'
        )

    def axis(
        self,
        scale: Scale,
        height: float,
        labels: Iterable[tuple[float, str]],
        *,
        title: str = "",
        grid_from: float | None = None,
    ) -> None:
        """A horizontal axis at a height.

        Args:
            scale: Places of its values.
            height: Where it is.
            labels: Values and their labels.
            title: Text below the labels.
            grid_from: Height at which lines from the labels end; None for no such lines.
        """
        for value, label in labels:
            x = scale(value)
            self.line((x, height if grid_from is None else grid_from), (x, height + 3))
            self.text((x, height + 11), label, MUTED, anchor="middle")
        self.line((scale.start, height), (scale.end, height))
        if title:
            self.text(((scale.start + scale.end) / 2, height + 28), title, MUTED, anchor="middle")

    def svg(self, name: str, title: str, description: str) -> Markup:
        """The canvas as an `<svg>` element.

        Args:
            name: Short name, unique on the page. The ids are made from it.
            title: What the figure is, in a few words.
            description: Alternative text for readers who cannot see the figure.
        """
        # Markup is safe here, because every text is escaped where it is written.
        return Markup(
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_short(WIDTH)} {_short(self._height)}" role="img" '
            f'aria-labelledby="{name}-title" aria-describedby="{name}-desc">'
            f'<title id="{name}-title">{escape(shown(title))}</title>'
            f'<desc id="{name}-desc">{escape(shown(description))}</desc>{"".join(self._marks)}</svg>'
        )


def _short(length: float) -> str:
    """A length to a hundredth of a point, without zeros at its end."""
    text = f"{length:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def text_width(words: str, size: float = SIZE) -> float:
    """About how wide a text is."""
    return _LETTER * size * len(words)


@dataclass(frozen=True, slots=True)
class Key:
    """One entry of a legend.

    Attributes:
        label: Text, cut if it is long.
        colour: Colour of its mark.
        shape: Shape of the dot; None for a square patch.
        lined: Whether a line goes through the mark.
    """

    label: str
    colour: str
    shape: int | None = None
    lined: bool = False


_LONGEST: Final = 40  # letters of a name in a legend
_LEGEND_ROW: Final = 16.0
_MARK: Final = 14.0  # from the left end of an entry to its text
_SPACE: Final = 18.0  # between columns


@dataclass(frozen=True, slots=True)
class Legend:
    """The entries of a legend in columns, filled one column after another.

    Attributes:
        columns: Entries of each column.
        widths: Width of each column.
    """

    columns: tuple[tuple[Key, ...], ...]
    widths: tuple[float, ...]

    @property
    def height(self) -> float:
        """Height of all rows."""
        return _LEGEND_ROW * max(map(len, self.columns))

    def draw(self, canvas: Canvas, corner: tuple[float, float]) -> None:
        """Draw the legend with its left upper corner."""
        left, top = corner
        for column, width in zip(self.columns, self.widths, strict=True):
            for row, key in enumerate(column):
                y = top + _LEGEND_ROW * (row + 0.5)
                if key.lined:
                    canvas.line((left - 5, y), (left + 9, y), key.colour, width=2.2)
                if key.shape is not None:
                    canvas.dots([(left + 2, y)], key.colour, shape=key.shape)
                elif not key.lined:
                    canvas.bar((left - 3, y - 5), 10, 10, key.colour)
                canvas.text((left + _MARK, y), _cut(key.label))
            left += width


def legend_of(keys: Sequence[Key], width: float) -> Legend:
    """The legend with the most columns beside each other that fit the width."""
    # From the widest down; one column is taken as it is.
    for across in range(len(keys), 0, -1):
        lines, longer = divmod(len(keys), across)  # the first columns have one line more
        ends = [(n + 1) * lines + min(n + 1, longer) for n in range(across)]
        columns = tuple(tuple(keys[first:end]) for first, end in pairwise([0, *ends]))
        widths = tuple(
            _MARK + _SPACE + max(text_width(_cut(key.label)) for key in column) for column in columns
        )
        if sum(widths) - _SPACE <= width:
            break
    return Legend(columns, widths)


def _cut(label: str) -> str:
    return label if len(label) <= _LONGEST else f"{label[: _LONGEST - 1]}…"


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


_LEFT, _RIGHT = 187.0, 18.0  # beside the axes of a dot plot
_ROW = 37.0
_BOTTOM = 40.0


def dot_plot(
    name: str,
    rows: Sequence[str],
    geolevels: Sequence[str],
    values: Mapping[tuple[str, str], float],
    *,
    axis: str,
    description: str,
    below: float | None = None,
    language: Language = ENGLISH,
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
        language: Of its numbers.
    """
    keys = [
        # Shifted after each round of colours, so that no two geolevels have both colour and shape in common.
        Key(name_title(geolevel), COLOURS[n % len(COLOURS)], (n + n // len(COLOURS)) % SHAPES)
        for n, geolevel in enumerate(geolevels)
    ]
    # A plot without a positive value still needs an axis.
    positive = [value for value in values.values() if value > 0] or [1.0]
    # Some room beside the outermost dots, the same in both directions on a logarithmic axis.
    low = min(positive) / 1.35 if below is None else below / 1.35
    scale = Scale(low, max(max(positive) * 1.35, low * 10), _LEFT, WIDTH - _RIGHT, logarithmic=True)
    legend = legend_of(keys, WIDTH - _LEFT - _RIGHT)
    top = legend.height + 12
    base = top + _ROW * len(rows)
    canvas = Canvas(base + _BOTTOM, language)
    legend.draw(canvas, (_LEFT + 5, 2))
    # Every second row has a band, so that the eye can follow it.
    for row in range(0, len(rows), 2):
        canvas.bar((_LEFT, top + _ROW * row), WIDTH - _RIGHT - _LEFT, _ROW, BAND)
    # A label left of the smallest value would stand in the place of the zero.
    ticks = amount_ticks(below or low, scale.high)
    zero = [] if below is None else [(below, "0")]
    canvas.axis(
        scale, base, zero + [(tick, Figure(f"{tick:,.10g}")) for tick in ticks], title=axis, grid_from=top
    )
    if below is not None:
        canvas.line((scale(below), top), (scale(below), base), MUTED, dashes="2 3")
    for number, (geolevel, key) in enumerate(zip(geolevels, keys, strict=True)):
        # The dots of a row are shifted vertically, so that equal values do not hide each other.
        shift = (number - (len(geolevels) - 1) / 2) * min(0.16, 0.82 / len(geolevels))
        places = [
            (scale(values[row, geolevel] or below or low), top + _ROW * (place + 0.5 + shift))
            for place, row in enumerate(rows)
            if (row, geolevel) in values
        ]
        canvas.dots(places, key.colour, shape=key.shape or CIRCLE)
    for place, title in enumerate(rows):
        _row_title(canvas, title, top + _ROW * (place + 0.5))
    return canvas.svg(name, axis, description)


def _row_title(canvas: Canvas, title: str, middle: float) -> None:
    """The title of a row, left of the axes; on two lines, and cut, if it is long."""
    lines = wrapped(title, _LEFT - 10)
    for number, line in enumerate(lines):
        canvas.text((_LEFT - 8, middle + 12.5 * (number - (len(lines) - 1) / 2)), line, anchor="end")


def wrapped(title: str, width: float) -> list[str]:
    """A title on one line or two, cut where it is still too long."""
    most = int(width / (_LETTER * SIZE))
    if len(title) <= most:
        return [title]
    # At the last space that leaves a first line of at most this length; without one, in the middle of a word.
    space = title.rfind(" ", 0, most + 1)
    cut = space if space > 0 else most
    rest = title[cut:].strip()
    return [title[:cut], rest if len(rest) <= most else f"{rest[: most - 1]}…"]
