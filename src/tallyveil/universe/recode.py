"""A recode: a grouping of one attribute's levels."""

from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from tallyveil.errors import SchemaError
from tallyveil.universe.attribute import Attribute
from tallyveil.universe.names import check_distinct, check_factor_name, check_labels, closest_hint


@dataclass(frozen=True, slots=True)
class Recode:
    """A grouping of the levels of one attribute into groups that do not overlap.

    If groups overlapped (such as "white alone or in combination" and "black alone or in combination"), one record could
    count in two answers, and the privacy loss would be larger. Write each such group as a separate recode.

    Attributes:
        name: Name to use in query specifications.
        attribute: Name of the attribute whose levels are grouped.
        groups: Pairs of a label and the levels in its group. A query leaves out a level that is in no group.
    Raises:
        SchemaError: a label or level is empty or repeated, or groups overlap.
    """

    name: str
    attribute: str
    groups: tuple[tuple[str, tuple[str, ...]], ...]

    def __post_init__(self) -> None:
        check_factor_name(self.name, "recode")
        where = f"recode {self.name!r}"
        check_labels((label for label, _ in self.groups), "group label", where)
        home: dict[str, str] = {}
        for label, levels in self.groups:
            check_distinct(levels, "level", f"{where}, group {label!r}")
            for level in levels:
                if level in home:
                    raise SchemaError(
                        f"{where}: level {level!r} is in groups {home[level]!r} and {label!r}; "
                        "groups may not overlap, so write one of them as a recode of its own."
                    )
                home[level] = label

    @property
    def size(self) -> int:
        """Number of groups."""
        return len(self.groups)

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the groups. A group's code is its position in this tuple."""
        return tuple(label for label, _ in self.groups)

    def codes(self, attribute: Attribute) -> NDArray[np.int32]:
        """Group of each level.

        Args:
            attribute: The attribute whose levels this recode groups.
        Returns:
            Shape (attribute.size,), read-only: the group's code, or -1 for a level in no group.
        Raises:
            SchemaError: the attribute is another one, or it lacks a level of the recode.
        """
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
                f"recode {self.name!r}: attribute {self.attribute!r} has no level {unknown[0]!r}. {hint}"
            )
        codes = np.full(attribute.size, -1, dtype=np.int32)
        for group, (_, levels) in enumerate(self.groups):
            codes[[place[level] for level in levels]] = group
        codes.flags.writeable = False
        return codes
