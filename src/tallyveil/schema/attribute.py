"""Attributes of a record: named levels, recodes that group them, and structural zeros.

Levels can be ranges of whole numbers, such as ages: "0-4", "85+", or a single number. A structural zero names
cells in which no record can lie, whatever the data are.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from tallyveil.declared import ByName, Declared, Flag, Many, Name, left_out
from tallyveil.errors import SchemaError
from tallyveil.printable import short_name
from tallyveil.schema.names import (
    PlainName,
    check_distinct,
    check_factor_name,
    check_labels,
    check_name,
    closest_hint,
)


@dataclass(frozen=True, slots=True)
class Attribute(Declared):
    """One property of every record, with finitely many named levels. A level's code is its position among them.

    Raises:
        SchemaError: the name is not allowed, or levels are empty or repeated.
    """

    name: Annotated[
        PlainName,
        Field(description="Name of the attribute, and of its column in the published tables."),
    ]
    levels: Annotated[Many[Name], Field(min_length=1, description="Names of the levels, in order.")]

    def __post_init__(self) -> None:
        check_factor_name(self.name, "attribute")
        check_labels(self.levels, "level", f"attribute {self.name!r}")

    @property
    def size(self) -> int:
        """Number of levels."""
        return len(self.levels)

    def code(self, level: str) -> int:
        """Code of a level.

        Args:
            level: Name of a level.
        Returns:
            Its position among `levels`.
        Raises:
            SchemaError: the attribute has no such level.
        """
        try:
            return self.levels.index(level)
        except ValueError:
            hint = closest_hint(level, self.levels)
            raise SchemaError(f"attribute {self.name!r} has no level {short_name(level)!r}. {hint}") from None


@dataclass(frozen=True, slots=True)
class Recode(Declared):
    """A grouping of the levels of one attribute.

    If groups overlap (such as "white alone or in combination" and "black alone or in combination"), one record can
    count in several answers. At the same budget, the measurement of such groups needs more noise. So an overlap must be
    declared.

    Raises:
        SchemaError: a label or level is empty or repeated, or groups overlap although `overlapping` is false.
    """

    name: Annotated[PlainName, Field(description="Name of the recode, used in queries.")]
    attribute: Annotated[Name, Field(description="The attribute whose levels are grouped.")]
    groups: Annotated[
        ByName[Many[Name]],
        Field(description="Levels of each group, by its label. Levels may be left out."),
    ]
    overlapping: Annotated[
        Flag,
        left_out(False),
        Field(
            description="Whether a level may be in several groups. A record then counts in several answers, and a "
            "measurement needs more noise."
        ),
    ] = False

    def __post_init__(self) -> None:
        check_factor_name(self.name, "recode")
        where = f"recode {self.name!r}"
        check_labels((label for label, _ in self.groups), "group label", where)
        home: dict[str, str] = {}
        for label, levels in self.groups:
            check_distinct(levels, "level", f"{where}, group {label!r}")
            for level in levels:
                if level in home and not self.overlapping:
                    raise SchemaError(
                        f"{where}: level {short_name(level)!r} is in groups {home[level]!r} and {label!r}, and the "
                        "recode does not say that its groups overlap. Take the level out of one group. If a record "
                        "shall count in both groups, set overlapping = true; a measurement of such groups needs more "
                        "noise."
                    )
                # The last group that has the level; only a message shows it.
                home[level] = label

    @property
    def size(self) -> int:
        """Number of groups."""
        return len(self.groups)

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the groups. A group's code is its position in this tuple."""
        return tuple(label for label, _ in self.groups)

    def layers(self, attribute: Attribute) -> tuple[NDArray[np.int32], ...]:
        """The group of each level, in layers: within a layer, no two groups overlap.

        Each group is in exactly one layer: the first one in which it overlaps no earlier group. If no groups overlap,
        there is one layer. Example: of the groups {a}, {a, b} and {b}, the first and the third are in layer 0, and the
        second is in layer 1.

        Args:
            attribute: The attribute whose levels this recode groups.
        Returns:
            One array for each layer, of shape (attribute.size,), read-only: the group's code, or -1 for a level that is
            in no group of the layer.
        Raises:
            SchemaError: the attribute is another one, or it lacks a level of the recode.
        """
        place = self._place_of_levels(attribute)
        # Most recodes have no overlaps, and some have hundreds of groups: these are laid at once.
        layers = self._overlapping_layers(place) if self.overlapping else self._one_layer(place)
        for layer in layers:
            layer.flags.writeable = False
        return tuple(layers)

    def _one_layer(self, place: dict[str, int]) -> list[NDArray[np.int32]]:
        """The layer of groups that do not overlap, all at once; none if there are no groups."""
        home = np.full(len(place), -1, dtype=np.int32)
        codes = [place[level] for _, levels in self.groups for level in levels]
        home[codes] = np.repeat(np.arange(self.size), [len(levels) for _, levels in self.groups])
        # No group, no layer: a recode without groups counts nothing.
        return [home] * min(self.size, 1)

    def _overlapping_layers(self, place: dict[str, int]) -> list[NDArray[np.int32]]:
        """The layers of groups that overlap, group by group."""
        layers: list[NDArray[np.int32]] = []
        for group, (_, levels) in enumerate(self.groups):
            codes = [place[level] for level in levels]
            # First fit. The number of layers may not be the smallest, but it depends on the order of the groups alone.
            home = next((layer for layer in layers if (layer[codes] < 0).all()), None)
            if home is None:
                home = np.full(len(place), -1, dtype=np.int32)
                layers.append(home)
            home[codes] = group
        return layers

    def _place_of_levels(self, attribute: Attribute) -> dict[str, int]:
        """The code of each level of the attribute; raises SchemaError if the recode does not fit the attribute."""
        if attribute.name != self.attribute:
            raise SchemaError(
                f"recode {self.name!r} groups attribute {self.attribute!r}, got attribute {attribute.name!r}."
            )
        place = {level: code for code, level in enumerate(attribute.levels)}
        asked = chain.from_iterable(levels for _, levels in self.groups)
        unknown = [level for level in asked if level not in place]
        if unknown:
            hint = closest_hint(unknown[0], attribute.levels)
            raise SchemaError(
                f"recode {self.name!r}: attribute {self.attribute!r} has no level {short_name(unknown[0])!r}. {hint}"
            )
        return place


@dataclass(frozen=True, slots=True)
class StructuralZero(Declared):
    """A product of level sets. Every cell in the product has the count zero by definition.

    Raises:
        SchemaError: no attribute is named, or a name is empty or repeated.
    """

    name: Annotated[PlainName, Field(description="Name in messages and manifests.")]
    levels: Annotated[
        ByName[Many[Name]],
        Field(
            alias="cells",
            description="Levels of some attributes. No record can have one of these levels in each of them.",
        ),
    ]

    def __post_init__(self) -> None:
        check_name(self.name, "structural zero")
        where = f"structural zero {self.name!r}"
        check_distinct((attribute for attribute, _ in self.levels), "attribute", where)
        for attribute, levels in self.levels:
            check_distinct(levels, "level", f"{where}, attribute {attribute!r}")


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
