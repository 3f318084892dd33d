"""Figures of a comparison: accuracy against risk, a dot for each method, and the frontier."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from tallyveil.report.svg import (
    COLOURS,
    LINE,
    MUTED,
    PAPER,
    SMALL,
    WIDTH,
    Canvas,
    Key,
    Picture,
    Scale,
    legend_of,
)

FAMILIES: Final = (
    "TopDown",
    "SafeTab",
    "cell key",
    "rounding",
    "swapping",
    "suppression",
    "coarsening",
    "sampling",
    "elsewhere",
    "exact",
)
"""Families of methods in a fixed order, so that each has the same colour and shape on every page."""

_HEIGHT: Final = 330.0
_LEFT, _RIGHT, _BOTTOM = 62.0, 20.0, 44.0


@dataclass(frozen=True, slots=True)
class Dot:
    """One method in a figure.

    Attributes:
        number: Its number in the table of methods.
        name: Its name.
        family: Its family.
        loss: What users lose, further right is worse.
        risk: What the attacker gains, further up is worse.
        low, high: Ends of the interval of the risk.
        bound: A proved bound of the risk; None where there is none.
        is_ranked: Whether the broken line may join it. Other dots are hollow.
    """

    number: int
    name: str
    family: str
    loss: float
    risk: float
    low: float
    high: float
    bound: float | None = None
    is_ranked: bool = True


def keys_of(families: Sequence[str]) -> Mapping[str, Key]:
    """Colour and shape of each family that occurs."""
    known = [family for family in FAMILIES if family in families]
    known += [family for family in families if family not in known]
    places = {family: FAMILIES.index(family) if family in FAMILIES else len(FAMILIES) for family in known}
    return {
        family: Key(family, COLOURS[place % len(COLOURS)], (place + place // len(COLOURS)) % 8)
        for family, place in places.items()
    }


def frontier(dots: Sequence[Dot]) -> list[Dot]:
    """Ranked methods that no other such method beats in both at once, from the most exact on.

    An attacker who loses counts as one who gains nothing.
    """
    best: list[Dot] = []
    for dot in sorted((dot for dot in dots if dot.is_ranked), key=lambda dot: (dot.loss, dot.risk)):
        if not best or max(dot.risk, 0.0) < max(best[-1].risk, 0.0):
            best.append(dot)
    return best


def risk_figure(
    name: str,
    dots: Sequence[Dot],
    *,
    loss: str,
    risk: str,
    most: float | None = None,
    least: float | None = None,
) -> Picture:
    """Draw risk against loss. Both axes begin at 0; the best place is the lower left corner.

    Places of losses follow their square roots: most methods lie close together, far below the largest loss.

    Args:
        name: Short name, unique on the page.
        dots: The methods.
        loss: Label of the horizontal axis.
        risk: Label of the vertical axis.
        most: The largest risk that is possible, if it is known; a line is drawn there.
        least: What an attacker without the tables has, if it is known; another line is drawn there.
    """
    keys = keys_of([dot.family for dot in dots])
    legend = legend_of(list(keys.values()), WIDTH - _LEFT - _RIGHT)
    top = legend.height + 30
    base = top + _HEIGHT
    largest = max([dot.loss for dot in dots], default=0) or 1.0
    highest = max([dot.high for dot in dots] + ([most] if most else []), default=0) or 1.0
    lowest = min([0.0, *(dot.low for dot in dots)])
    root = Scale(0, math.sqrt(1.08 * largest), _LEFT, WIDTH - _RIGHT)

    def x(value: float) -> float:
        return root(math.sqrt(value))

    y = Scale(lowest, 1.04 * highest, base - 6, top + 6)
    canvas = Canvas(base + _BOTTOM)
    legend.draw(canvas, (_LEFT + 5, 2))
    canvas.text((4, top - 8), risk, MUTED)
    for value in _ticks(lowest, highest):
        canvas.line((_LEFT, y(value)), (WIDTH - _RIGHT, y(value)), LINE)
        canvas.text((_LEFT - 8, y(value)), f"{value:.10g}".replace("-", "−"), MUTED, anchor="end")
    ticks = [(math.sqrt(value), f"{value:.10g}") for value in _root_ticks(x, largest)]
    canvas.axis(root, base, ticks, title=f"{loss} (square-root scale)", grid_from=top)
    for level in (most, least):
        if level:  # a line at 0 is that of the axis
            canvas.line((_LEFT, y(level)), (WIDTH - _RIGHT, y(level)), MUTED, dashes="2 3")
    best = frontier(dots)
    for first, second in pairwise(best):
        canvas.line(
            (x(first.loss), y(first.risk)), (x(second.loss), y(second.risk)), MUTED, width=1.2, dashes="5 3"
        )
    for dot in dots:
        canvas.line((x(dot.loss), y(dot.low)), (x(dot.loss), y(dot.high)), keys[dot.family].colour, width=1.4)
        if dot.bound is not None:
            place = x(dot.loss), y(dot.bound)
            canvas.line(
                (place[0] - 7, place[1]), (place[0] + 7, place[1]), keys[dot.family].colour, width=2.4
            )
    for dot in dots:
        key = keys[dot.family]
        place = x(dot.loss), y(dot.risk)
        canvas.dots([place], key.colour, shape=key.shape or 0, radius=4.4)
        if not dot.is_ranked:
            canvas.dots([place], PAPER, shape=key.shape or 0, radius=2.6)
    for dot, place in zip(dots, _label_places([(x(dot.loss), y(dot.risk)) for dot in dots]), strict=True):
        canvas.text(place, str(dot.number), size=SMALL + 1.5, bold=True)
    named = "; ".join(f"{dot.number} {dot.name}" for dot in best)
    sentence = f"Not beaten in both: {named}." if best else "None of these is compared with another."
    described = "; ".join(
        f"{dot.number} {dot.name}: loss {dot.loss:.3g}, risk {dot.risk:.3g}" for dot in dots
    )
    return Picture(canvas.svg(name, f"{risk} against {loss}", described), sentence)


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers from low to high, at most about six."""
    step = 10.0 ** math.floor(math.log10(max(high - low, 1e-9)))
    for part in (0.2, 0.5, 1.0, 2.0):
        if (high - low) / (step * part) <= 6:
            step *= part
            break
    first = int(-(-low // step))
    return [round(number * step, 10) for number in range(first, int(high / step + 1e-9) + 1)]


_APART: Final = 36.0
"""Points between two labels of the horizontal axis: the width of the longest."""


def _root_ticks(x: Callable[[float], float], high: float) -> list[float]:
    """Round numbers from 0 to high whose places are far enough apart for labels."""
    ticks = [0.0]
    for value in (step * 10.0**power for power in range(-6, 12) for step in (1, 2, 5)):
        if value <= high and x(value) - x(ticks[-1]) >= _APART:
            ticks.append(value)
    return ticks


_NEAR: Final = 13.0
"""Points within which two labels would overlap: the width of two digits."""


def _label_places(dots: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """A place for the number of each dot, beside it where no other dot or number is."""
    taken: list[tuple[float, float]] = list(dots)
    places = []
    for dot in dots:
        options = [
            (dot[0] + reach * dx, dot[1] + reach * dy)
            for reach in (1.0, 1.7, 2.5)
            for dx, dy in ((7, -7), (7, 8), (-14, -7), (-14, 8), (8, 0), (-15, 0), (-3, -12), (-3, 13))
        ]
        free = [
            place
            for place in options
            if all(
                abs(place[0] + 4 - x) > _NEAR - 4 or abs(place[1] - y) > 9 for x, y in taken if (x, y) != dot
            )
        ]
        place = free[0] if free else options[0]
        taken.append((place[0] + 4, place[1]))
        places.append(place)
    return places
