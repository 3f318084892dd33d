"""Classes of values for the colours of a map: about equally many areas in each, with limits that are short numbers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import floor, log10
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Floats, Integers
from tallyveil.explore.rows import COUNT, Block
from tallyveil.storage.json_files import JsonObject

# Classes of a map, which eyes still tell apart by colour. At half, maps lose their differences; at twice, neighbouring
# colours look alike.
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
    # Zero gets a class only if it would fill one; a rare zero belongs to the lowest class.
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
    # So few values are their own classes.
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
    # Running numbers of areas: the value at which a part of them is reached follows by a search.
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


PUBLISHED: Final = "published"
SHARE: Final = "share"
ERROR: Final = "standard_error"
RELATIVE: Final = "relative_standard_error"


@dataclass(slots=True, eq=False)
class ClassLimits:
    """Collects the values of one table, block by block.

    Attributes:
        size: Number of answers.
        totals: For every area of the kind the count that shares are of; None without shares.
    """

    size: int
    totals: NDArray[np.int64] | None
    _frequencies_of: dict[str, list[list[Frequencies]]] = field(default_factory=dict)

    def add(self, block: Block) -> None:
        """Add the values of some areas."""
        for measure, values in self._measures(block).items():
            self._frequencies_of.setdefault(measure, []).append(_frequencies(values))

    def to_mapping(self) -> JsonObject:
        """For each measure a list with an entry for each answer: its classes."""
        return {
            "format": 1,
            "measures": {
                measure: [class_limits(_together(parts)) for parts in zip(*frequencies, strict=True)]
                for measure, frequencies in self._frequencies_of.items()
            },
        }

    def _measures(self, block: Block) -> Mapping[str, NDArray[Any]]:
        counts = block.columns[COUNT]
        measures: dict[str, NDArray[Any]] = {PUBLISHED: counts}
        if self.totals is not None:
            measures[SHARE] = _ratio(counts, self.totals[block.start : block.start + block.n, None])
        if "standard_error" in block.columns:
            measures[ERROR] = block.columns["standard_error"]
            measures[RELATIVE] = _ratio(measures[ERROR], counts)
        return measures


def _ratio(above: NDArray[Any], below: NDArray[Any]) -> Floats:
    """Quotients; NaN where the divisor is not positive."""
    ratio: Floats = np.full(above.shape, np.nan)
    np.divide(above, below, out=ratio, where=np.broadcast_to(below > 0, above.shape))
    return ratio


def _frequencies(values: NDArray[Any]) -> list[Frequencies]:
    """The different values of each column and how often they occur, without NaN."""
    ordered = np.sort(values.T, axis=1)  # NaN comes last
    begins = np.ones(ordered.shape, dtype=np.bool_)
    begins[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    sizes = np.full(len(ordered), ordered.shape[1])
    if values.dtype.kind == "f":
        missing = np.isnan(ordered)
        begins &= ~missing
        sizes -= missing.sum(axis=1)
    frequencies = []
    for values_of_class, first, size in zip(ordered, begins, sizes.tolist(), strict=True):
        places = np.flatnonzero(first)
        frequencies.append(Frequencies(values_of_class[places], np.diff(places, append=size)))
    return frequencies


def _together(parts: Sequence[Frequencies]) -> Frequencies:
    """The frequencies of all areas of several parts."""
    values, places = np.unique(np.concatenate([part.values for part in parts]), return_inverse=True)
    areas = np.zeros(len(values), dtype=np.int64)
    np.add.at(areas, places, np.concatenate([part.areas for part in parts]))
    return Frequencies(values, areas)
