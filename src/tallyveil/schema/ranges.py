"""Levels that are ranges of whole numbers, such as ages: "0-4", "85+", or a single number."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tallyveil.errors import SchemaError

LARGEST_NUMBER = 10**9
"""Largest number in the name of a range."""

_FORMS = re.compile(r"(?P<low>[0-9]{1,10})(?:-(?P<high>[0-9]{1,10})|(?P<open>\+))?")


@dataclass(frozen=True, slots=True)
class Range:
    """One level of an attribute whose column holds whole numbers.

    Attributes:
        low: Smallest number in it.
        high: Largest number in it; None if it has no upper end.
        level: Position of the level in the attribute's list of levels.
    """

    low: int
    high: int | None
    level: int


def ranges_of(levels: Sequence[str], attribute: str) -> tuple[Range, ...]:
    """The ranges that the names of levels stand for, in ascending order.

    Args:
        levels: Names of levels, each "LOW-HIGH", "LOW+" or a single number. They may leave numbers out.
        attribute: Name of the attribute, for messages.
    Raises:
        SchemaError: a name is no range, a range ends before it begins, or two ranges share a number.
    """
    # In ascending order each range need only be compared with the next one.
    ranges = sorted(
        (_range(name, number, attribute) for number, name in enumerate(levels)),
        key=lambda level_range: level_range.low,
    )
    for before, after in pairwise(ranges):
        if before.high is None or before.high >= after.low:
            raise SchemaError(
                f"[records] numbers: levels {levels[before.level]!r} and {levels[after.level]!r} of attribute "
                f"{attribute!r} share a number. Each number belongs to one level: end the first range before the "
                "second begins.",
                code="bad-range",
            )
    return tuple(ranges)


def bins_of(ranges: Sequence[Range]) -> tuple[list[int], list[int | None]]:
    """Where the bins of all whole numbers begin, and the level of each bin.

    Args:
        ranges: As `ranges_of` gives them.
    Returns:
        Numbers at which a new bin begins, in ascending order; and the level of each bin. There is one level more than
        there are beginnings, because the first bin has all smaller numbers. A bin in no range has None.
    """
    begins: list[int] = []
    levels: list[int | None] = [None]
    # Where one range ends, the next may begin: the later change at the same number is the one that holds.
    for begin, level in _changes(ranges):
        if begins and begins[-1] == begin:
            levels[-1] = level
        else:
            begins.append(begin)
            levels.append(level)
    return begins, levels


def _changes(ranges: Sequence[Range]) -> Iterator[tuple[int, int | None]]:
    for level_range in ranges:
        yield level_range.low, level_range.level
        if level_range.high is not None:
            yield level_range.high + 1, None


def _range(name: str, level: int, attribute: str) -> Range:
    parts = _FORMS.fullmatch(name)
    if parts is None:
        raise SchemaError(
            f"[records] numbers: level {name!r} of attribute {attribute!r} is no range. Write '18-24', '85+', or a "
            "single number such as '7'.",
            code="bad-range",
        )
    # At most ten digits by the pattern, so that int() is given no text of thousands.
    low = int(parts["low"])
    high = None if parts["open"] else int(parts["high"] or low)
    if (high is not None and high < low) or max(low, high or 0) > LARGEST_NUMBER:
        raise SchemaError(
            f"[records] numbers: level {name!r} of attribute {attribute!r} ends before it begins, or has a number "
            f"above {LARGEST_NUMBER:,}. Write the smaller number first.",
            code="bad-range",
        )
    return Range(low, high, level)
