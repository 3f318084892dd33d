"""Limits between classes of values: classes of about equally many areas, whose limits are short numbers."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import floor, log10
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.storage.json_files import JsonObject

CLASSES: Final = 7
DIGITS: Final = 3
"""Most significant digits of a limit that is no count. The page writes as many."""
_SPAN: Final = 0.25
"""How far a limit may lie from its quantile to be a shorter number, as a part of a class."""


@dataclass(frozen=True, slots=True, eq=False)
class Frequencies:
    """The values of an answer, none below zero.

    Attributes:
        values: The different values, in rising order.
        areas: How many areas have each of them.
    """

    values: NDArray[Any]
    areas: Integers


def class_limits(frequencies: Frequencies) -> JsonObject | None:
    """Describe the classes of some values.

    A class holds the values from its limit up to the next one. Zero has a class of its own if at least one area in
    `CLASSES` has it. The other areas are divided into parts of about equal size. No class is empty.

    Returns:
        `least` and `most` value, `limits` of the classes after the first one, and `zero`: whether the first class is
        zero alone. None without values.
    """
    values, areas = frequencies.values, frequencies.areas
    if not len(values):
        return None
    zero = bool(values[0] == 0 and areas[0] * CLASSES >= areas.sum())
    limits = list(_limits(values, areas, zero))
    return {
        "least": values[0].item(),
        "most": values[-1].item(),
        "limits": _filled(limits, values),
        "zero": zero,
    }


def _limits(values: NDArray[Any], areas: Integers, zero: bool) -> Iterator[float]:
    """Limits in rising order. Classes between them may be empty."""
    if len(values) <= CLASSES:
        between = [
            (value, value, low) for low, value in zip(values[:-1].tolist(), values[1:].tolist(), strict=True)
        ]
    else:
        between = _between(values, areas, zero)
    whole = values.dtype.kind == "i"
    for wanted, high, low in between:
        limit = shortest(low, high, wanted, whole=whole)
        if limit is not None:
            yield limit


def _between(values: NDArray[Any], areas: Integers, zero: bool) -> list[tuple[float, float, float]]:
    """For every limit: its ideal value, the greatest value allowed, and the value that it must be above."""
    above = np.concatenate([[0], np.cumsum(areas)])  # areas below each value, and all
    first = int(zero)
    wanted = CLASSES - first
    total = above[-1] - above[first]
    last = len(values) - 1
    chosen = [(values[1].item(), values[1].item(), values[0].item())] if zero else []
    for part in range(1, wanted):
        quantile = above[first] + total * part / wanted
        best = int(np.argmin(np.abs(above[:-1] - quantile)))
        best = min(max(best, first + 1), last)
        reach = total * _SPAN / wanted
        low = int(np.searchsorted(above, quantile - reach, side="right")) - 1  # the area there has this value
        high = int(np.searchsorted(above, quantile + reach, side="right")) - 1
        chosen.append(
            (
                values[best].item(),
                values[max(best, min(high, last))].item(),
                values[min(best - 1, max(low, first))].item(),
            )
        )
    return chosen


def shortest(low: float, high: float, wanted: float, *, whole: bool) -> float | None:
    """The shortest number above `low` and at most `high`; of equally short ones, the nearest to `wanted`.

    Numbers are multiples of 10, 5, 2 and 1, then of a tenth of these, and so on.

    Args:
        low: At least zero.
        high: More than `low`.
        wanted: Between them.
        whole: Whether the number must be whole. It may then have any number of digits.
    Returns:
        The number. None if it would need more than `DIGITS` digits.
    """
    greatest = floor(log10(high))
    places = range(greatest, -1, -1) if whole else range(greatest, greatest - DIGITS, -1)
    for place in places:
        for step in (10, 5, 2, 1):
            size = step * 10.0**place
            number = min(max(round(wanted / size), floor(low / size) + 1), floor(high / size))
            decimal = number * step * 10**place if whole else float(f"{number * step}e{place}")
            if low < decimal <= high:
                return decimal
    return None


def _filled(limits: list[float], values: NDArray[Any]) -> list[float]:
    """The limits without those that would leave a class empty."""
    below = np.searchsorted(values, np.array(limits, dtype=values.dtype))
    sizes: dict[int, float] = {}
    for limit, number in zip(limits, below.tolist(), strict=True):
        if 0 < number < len(values):
            sizes.setdefault(number, limit)
    return list(sizes.values())
