"""Maps from the values of a record to groups: the functions g_i of Algorithm 1, for records of any kind.

A grouping reads some columns of a record. Each value that is not missing belongs to no, one or several groups. A record
is in the groups of any of its values, or only in those that all of its values share. A level of population groups is
the product of some groupings: its groups are all combinations, and a record is in every combination of its own groups.

Worked case. A hospital stay has two diagnoses, of chapters I and J, and one region, North. At the level of chapter by
region it is in two groups: (I, North) and (J, North). At a level of no grouping it is in the one group of all records.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import polars as pl

from tallyveil.arrays import Integers
from tallyveil.errors import ConfigError, SchemaError
from tallyveil.universe.names import check_labels

Match = Literal["any", "all"]

MOST_GROUPS: Final = 1 << 27
"""Largest number of groups of a level, so that the list of their positions takes at most a GiB."""


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """Groups of the values in some columns of the records.

    Attributes:
        name: Name of the grouping, and of its column in the published tables.
        columns: Columns of the records with the values.
        match: Whether a record is in the groups of any of its values, or in those that all of its values share.
        values: The known values.
        groups: Labels of the groups.
        pairs: Positions (value, group) of each value in a group; int64, shape (n, 2), each pair once.
    Raises:
        SchemaError: a label is empty or repeated, or could be mistaken.
    """

    name: str
    columns: tuple[str, ...]
    match: Match
    values: tuple[str, ...]
    groups: tuple[str, ...]
    pairs: Integers

    def __post_init__(self) -> None:
        check_labels(self.groups, "group", f"grouping {self.name!r}")

    @property
    def most(self) -> int:
        """A bound on the number of groups that a record can be in: its columns hold the values with most groups."""
        of_value = np.sort(np.bincount(self.pairs[:, 0], minlength=1))[::-1]
        columns = 1 if self.match == "all" else len(self.columns)
        return min(int(of_value[:columns].sum()), len(self.groups))

    def to_mapping(self) -> dict[str, Any]:
        """Plain data for the plan."""
        return {
            "name": self.name,
            "columns": list(self.columns),
            "match": self.match,
            "values": list(self.values),
            "groups": list(self.groups),
            "pairs": self.pairs.tolist(),
        }


def grouping_from_rows(
    name: str, columns: Sequence[str], match: Match, rows: Sequence[tuple[str, str | None]]
) -> Grouping:
    """A grouping from rows of a value and its group; a group of None says that the value is known and in no group.

    Values and groups are numbered in the order in which they first occur.

    Raises:
        SchemaError: no group is given, or a label could be mistaken.
    """
    values = {value: n for n, value in enumerate(dict.fromkeys(value for value, _ in rows))}
    groups = {
        group: n for n, group in enumerate(dict.fromkeys(group for _, group in rows if group is not None))
    }
    pairs = dict.fromkeys((values[value], groups[group]) for value, group in rows if group is not None)
    array = np.array(list(pairs), np.int64).reshape(-1, 2)
    array.setflags(write=False)
    return Grouping(name, tuple(columns), match, tuple(values), tuple(groups), array)


@dataclass(frozen=True, slots=True, eq=False)
class GroupList:
    """All groups of a level: those with adaptive detail first, then the total-only ones.

    Attributes:
        groupings: The groupings whose combinations they are; none for the one group of all records.
        place_of: Position of each combination; int64. Combinations are numbered in C order over the groupings.
        n_adaptive: Number of groups with adaptive detail.
    """

    groupings: tuple[Grouping, ...]
    place_of: Integers
    n_adaptive: int

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.place_of)

    @property
    def most(self) -> int:
        """A bound on the number of groups that a record can be in."""
        return math.prod(one.most for one in self.groupings)

    def labels(self, places: Integers) -> dict[str, pl.Series]:
        """For each grouping, its labels of the groups at these positions."""
        combination = np.empty(self.n_groups, np.int64)
        combination[self.place_of] = np.arange(self.n_groups)
        rest, found = combination[places], dict[str, pl.Series]()
        for one in reversed(self.groupings):
            rest, own = np.divmod(rest, len(one.groups))
            found[one.name] = pl.Series(one.groups, dtype=pl.String).gather(own)
        return dict(reversed(found.items()))


def list_groups(
    where: str, groupings: Sequence[Grouping], total_only: bool | Mapping[str, Sequence[str]]
) -> GroupList:
    """List the groups of a level.

    Args:
        where: Name of the level, for messages.
        groupings: Its groupings.
        total_only: Whether all groups are total-only; or by grouping, the labels whose groups are.
    Raises:
        ConfigError: a grouping or a label of `total_only` is unknown.
        SchemaError: the level is too large.
    """
    shape = [len(one.groups) for one in groupings]
    if math.prod(shape) > MOST_GROUPS:
        raise SchemaError(
            f"level '{where}' has {math.prod(shape):,} groups; wanted at most {MOST_GROUPS:,}. Use fewer or coarser "
            "groupings.",
            code="schema-too-large",
        )
    only = np.zeros(shape, np.bool_)
    if isinstance(total_only, bool):
        only |= total_only
    else:
        names = [one.name for one in groupings]
        for name, labels in total_only.items():
            if name not in names or (
                unknown := sorted(set(labels) - set(groupings[names.index(name)].groups))
            ):
                said = (
                    f"the grouping '{name}'" if name not in names else f"{unknown[0]!r} of grouping '{name}'"
                )
                raise ConfigError(
                    f"level '{where}': total_only names {said}, which the level does not have. Its groupings are: "
                    f"{', '.join(names) or '(none)'}. Correct the spelling, or remove it.",
                    code="groups-file",
                )
            axis = names.index(name)
            chosen = np.isin(np.array(groupings[axis].groups), list(labels))
            only |= chosen.reshape([-1 if n == axis else 1 for n in range(len(shape))])
    flat = only.reshape(-1)
    place_of = np.empty(flat.size, np.int64)
    place_of[np.argsort(flat, kind="stable")] = np.arange(flat.size)
    place_of.setflags(write=False)
    return GroupList(tuple(groupings), place_of, int(flat.size - flat.sum()))
