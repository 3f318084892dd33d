"""Maps from the values of a record to groups: the functions g_i of Algorithm 1, for records of any kind.

A grouping has one or several maps. A map reads some columns of a record. Each value that is not missing belongs to no,
one or several groups. By a map, a record is in the groups of any of its values, or only in those that all of its values
share; or its values are joined, and are one value. It is in the groups of every map of the grouping. A level of
population groups is the product of some groupings: its groups are all combinations, and a record is in every
combination of its own groups.

Worked case. A hospital stay has two diagnoses, of chapters I and J, and one region, North. At the level of chapter by
region it is in two groups: (I, North) and (J, North). At a level of no grouping it is in the one group of all records.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray
from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from tallyveil.arrays import Integers
from tallyveil.declared import Declared, Many, Text, Whole
from tallyveil.errors import ConfigError, SchemaError
from tallyveil.products.safetab.public.files import some
from tallyveil.schema.names import check_labels

Match = Literal["any", "all", "joined"]

MOST_GROUPS: Final = 1 << 27
"""Largest number of groups of a level, so that the list of their positions takes at most a GiB."""


def _array_of(pairs: ArrayLike) -> Integers:
    array = np.array(pairs, np.int64).reshape(-1, 2)
    # Part of the plan: nobody may change it after the digest was made.
    array.setflags(write=False)
    return array


class _Pairs:
    """Reads and writes an array of pairs as a list."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(
            _array_of,
            handler.generate_schema(Many[tuple[Whole, Whole]]),
            serialization=core_schema.plain_serializer_function_ser_schema(lambda array: array.tolist()),
        )


@dataclass(frozen=True, slots=True, eq=False)
class ValueMap(Declared):
    """A map from the values in some columns of the records to the groups of a grouping.

    Attributes:
        columns: Columns of the records with the values.
        match: Whether a record is in the groups of any of its values, or in those that all of its values share, or
            whether its values are joined to one.
        missing: Values that count as missing, beside empty ones.
        values: The known values.
        pairs: Positions (value, group) of each value in a group; int64, shape (n, 2), each pair once.
    """

    columns: Many[Text]
    match: Match
    missing: Many[Text]
    values: Many[Text]
    pairs: Annotated[Integers, _Pairs()]

    @property
    def most(self) -> int:
        """A bound on the number of groups that a record can be in: its columns hold the values with most groups."""
        # "any" of k columns: at worst the k values with most groups. "all" and "joined" can be in no more
        # than one value's groups.
        of_value = np.sort(np.bincount(self.pairs[:, 0], minlength=1))[::-1]
        return int(of_value[: len(self.columns) if self.match == "any" else 1].sum())


@dataclass(frozen=True, slots=True, eq=False)
class Grouping(Declared):
    """Groups that maps make of the values of a record.

    Attributes:
        name: Name of the grouping, and of its column in the published tables.
        groups: Labels of the groups.
        maps: The maps. A record is in the groups of every one of them.
    Raises:
        SchemaError: a label is empty or repeated, or could be mistaken.
    """

    name: Text
    groups: Many[Text]
    maps: Many[ValueMap]

    def __post_init__(self) -> None:
        check_labels(self.groups, "group", f"grouping {self.name!r}")

    @property
    def most(self) -> int:
        """A bound on the number of groups that a record can be in."""
        # A bound on the maps' union; the number of groups bounds it, too.
        return min(sum(value_map.most for value_map in self.maps), len(self.groups))


def grouping_from_rows(
    name: str,
    columns: Sequence[str],
    match: Match,
    rows: Sequence[tuple[str, str | None]],
    missing: Sequence[str] = (),
) -> Grouping:
    """A grouping of one map, from rows of a value and its group.

    A group of None says that the value is known and in no group. Values and groups are numbered in the order in which
    they first occur.

    Raises:
        SchemaError: no group is given, a label could be mistaken, or a value counts as missing and is in a group.
    """
    # Empty texts are missing always.
    passed_over = {"", *missing}
    if lost := list(
        dict.fromkeys(value for value, group in rows if group is not None and value in passed_over)
    ):
        raise SchemaError(
            f"grouping {name!r} has the value(s) {some(lost)} of {', '.join(columns)} in a group, and counts them as "
            "missing. Nobody is in a group by a missing value, so that the counts of such a group would be noise "
            "alone. Take the values out of the groups, or out of missing.",
            code="groups-missing-value",
        )
    values = {value: n for n, value in enumerate(dict.fromkeys(value for value, _ in rows))}
    groups = {
        group: n for n, group in enumerate(dict.fromkeys(group for _, group in rows if group is not None))
    }
    # A row that is given twice counts once.
    pairs = dict.fromkeys((values[value], groups[group]) for value, group in rows if group is not None)
    value_map = ValueMap(tuple(columns), match, tuple(missing), tuple(values), _array_of(list(pairs)))
    return Grouping(name, tuple(groups), (value_map,))


def grouping_of_maps(name: str, parts: Sequence[Grouping]) -> Grouping:
    """One grouping with the maps of several. Groups with the same label are one. They are in alphabetical order."""
    # Alphabetical, so that the order of the maps does not decide the addresses of the noise.
    groups = sorted({group for part in parts for group in part.groups})
    place = {group: n for n, group in enumerate(groups)}
    maps = []
    for part in parts:
        places = np.array([place[group] for group in part.groups], np.int64)
        for value_map in part.maps:
            pairs = np.stack([value_map.pairs[:, 0], places[value_map.pairs[:, 1]]], axis=1)
            maps.append(replace(value_map, pairs=_array_of(pairs)))
    return Grouping(name, tuple(groups), tuple(maps))


@dataclass(frozen=True, slots=True, eq=False)
class GroupList:
    """All groups of a level, in rows: in each row those with adaptive detail first, then the total-only ones.

    Attributes:
        rows: The grouping that has a row for each of its groups; None for one row.
        within: The further groupings, whose combinations are the groups of a row; none for one group in each row.
        place_of: Position of each combination in a row; int64. Combinations are numbered in C order over `within`.
        n_adaptive: Number of groups of a row with adaptive detail.
    """

    rows: Grouping | None
    within: tuple[Grouping, ...]
    place_of: Integers
    n_adaptive: int

    @property
    def groupings(self) -> tuple[Grouping, ...]:
        """All groupings, that of the rows first."""
        return (*(() if self.rows is None else (self.rows,)), *self.within)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return 1 if self.rows is None else len(self.rows.groups)

    @property
    def width(self) -> int:
        """Number of groups of a row."""
        return len(self.place_of)

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return self.n_rows * self.width

    @property
    def n_total_only(self) -> int:
        """Number of total-only groups."""
        return self.n_rows * (self.width - self.n_adaptive)

    @property
    def most(self) -> int:
        """A bound on the number of groups that a record can be in."""
        return math.prod(grouping.most for grouping in self.groupings)

    def places(self, combinations: Integers) -> Integers:
        """Positions, row by row, of combinations that are numbered in C order over all groupings."""
        rows, within = np.divmod(combinations, self.width)
        return rows * self.width + self.place_of[within]

    def labels(self, places: Integers) -> dict[str, pl.Series]:
        """For each grouping, its labels of the groups at these positions, which are counted row by row."""
        # The inverse of `place_of`.
        combination = np.empty(self.width, np.int64)
        combination[self.place_of] = np.arange(self.width)
        rows, columns = np.divmod(places, self.width)
        rest, columns_of = rows * self.width + combination[columns], dict[str, pl.Series]()
        # Digits of a number in C order come out last grouping first.
        for grouping in reversed(self.groupings):
            rest, digits = np.divmod(rest, len(grouping.groups))
            columns_of[grouping.name] = pl.Series(grouping.groups, dtype=pl.String).gather(digits)
        return dict(reversed(columns_of.items()))


def list_groups(
    where: str,
    groupings: Sequence[Grouping],
    total_only: bool | Mapping[str, Sequence[str]],
    rows: Grouping | None = None,
) -> GroupList:
    """List the groups of a level.

    Args:
        where: Name of the level, for messages.
        groupings: Its groupings, but that of the rows.
        total_only: Whether all groups are total-only; or by grouping, the labels whose groups are.
        rows: The grouping that has a row for each of its groups; None for one row.
    Raises:
        ConfigError: a grouping or a label of `total_only` is unknown.
        SchemaError: the level is too large.
    """
    shape = [len(grouping.groups) for grouping in groupings]
    # Python integers: the product may be beyond int64 before it is refused.
    n_groups = math.prod(shape) * (1 if rows is None else len(rows.groups))
    if n_groups > MOST_GROUPS:
        raise SchemaError(
            f"level '{where}' has {n_groups:,} groups; wanted at most {MOST_GROUPS:,}. Use fewer or coarser "
            "groupings.",
            code="schema-too-large",
        )
    only = np.zeros(shape, np.bool_)
    if isinstance(total_only, bool):
        only |= total_only
    else:
        names = [grouping.name for grouping in groupings]
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
            # A label makes all combinations with it total-only: broadcast along its axis.
            only |= chosen.reshape([-1 if n == axis else 1 for n in range(len(shape))])
    return group_list(groupings, only, rows)


def group_list(
    groupings: Sequence[Grouping], only: NDArray[np.bool_], rows: Grouping | None = None
) -> GroupList:
    """List the groups of a level, of which each combination of groupings is total-only or not.

    Args:
        groupings: The groupings, but that of the rows.
        only: Whether a combination is total-only; combinations in C order.
        rows: The grouping that has a row for each of its groups; None for one row.
    """
    flat = only.reshape(-1)
    place_of = np.empty(flat.size, np.int64)
    # Adaptive groups first, then total-only ones, each in C order; stable, because the order is part of the
    # addresses.
    place_of[np.argsort(flat, kind="stable")] = np.arange(flat.size)
    place_of.setflags(write=False)
    return GroupList(rows, tuple(groupings), place_of, int(flat.size - flat.sum()))
