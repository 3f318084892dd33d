"""A recode: a grouping of one attribute's levels."""

from dataclasses import dataclass
from itertools import chain
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from tallyveil.declared import ByName, Declared, Flag, Many, Name, left_out
from tallyveil.errors import SchemaError
from tallyveil.printable import short_name
from tallyveil.schema.attribute import Attribute
from tallyveil.schema.names import (
    PlainName,
    check_distinct,
    check_factor_name,
    check_labels,
    closest_hint,
)


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
