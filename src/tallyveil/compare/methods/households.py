"""Households that may take each other's place: what every kind of swapping works with."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tallyveil.arrays import IntegerRows, Integers
from tallyveil.compare.inputs import Areas, SharedInput
from tallyveil.errors import ConfigError

EACH_A_HOUSEHOLD: Final = (
    "Each person is a household, because the records name none. An office moves whole households, so that its errors "
    "and what its attackers gain differ from these. "
)


@dataclass(frozen=True, slots=True, eq=False)
class Households:
    """The households of an input, and which of them are alike.

    Attributes:
        shared: The input.
        geounits, cells: Finest geounit and cell of each person; people of one household stand together.
        household: Number of the household of each person.
        first: The first person of each household.
        homes: Finest geounit of each household.
        sizes: Number of people of each household.
        strata: The area that a household does not leave, and its kind; int64, shape (2, n_households). Households of
            one stratum may take each other's place: they have the same size and the same attributes that are matched.
    """

    shared: SharedInput
    geounits: Integers
    cells: Integers
    household: Integers
    first: Integers
    homes: Integers
    sizes: Integers
    strata: Integers

    def counts_at(self, homes: Integers) -> tuple[IntegerRows, int]:
        """The counts if households lived elsewhere, and the number of people of those that do.

        Args:
            homes: Finest geounit of each household.
        """
        counts = np.zeros_like(self.shared.counts)
        np.add.at(counts, (homes[self.household], self.cells), 1)
        return counts, int(self.sizes[homes != self.homes].sum())


def households_of(shared: SharedInput, within: Areas, match: Sequence[str]) -> Households:
    """The households of an input.

    Args:
        shared: The input. Where it names no households, each person is one.
        within: Areas that households do not leave.
        match: Attributes that households of a stratum have in common.
    Raises:
        SchemaError: an attribute is not there.
    """
    geounits, cells, household = shared.people
    first = np.flatnonzero(np.diff(household, prepend=-1))
    homes, sizes = geounits[first], np.bincount(household)
    strata = np.stack([within.place[homes], _kinds(shared, match, cells, household, sizes)])
    return Households(shared, geounits, cells, household, first, homes, sizes, strata)


def _kinds(
    shared: SharedInput, match: Sequence[str], cells: Integers, household: Integers, sizes: Integers
) -> Integers:
    """A number for each household that is the same for those that are alike."""
    schema = shared.schema
    names = schema.attribute_names
    for name in match:
        schema.attribute(name)
    axes = [names.index(name) for name in match]
    codes = schema.decode(cells)[:, axes]
    shape = [schema.shape[axis] for axis in axes]
    person = np.ravel_multi_index(codes.T, shape) if axes else np.zeros(cells.size, dtype=np.int64)
    # A household's kind is the multiset of its members' kinds: a random number for each, added up, names it. Two
    # multisets have the same sum with a probability of 2^-64, and a false pair would only be a swap of unlikes.
    number = np.random.Generator(np.random.Philox(key=0)).integers(
        np.iinfo(np.uint64).max, size=int(np.prod(shape)) or 1, dtype=np.uint64
    )
    sums = np.zeros(sizes.size, dtype=np.uint64)
    np.add.at(sums, household, number[person])
    # Sizes need no place of their own: the sums of different numbers of random numbers differ as surely.
    return np.asarray(np.unique(sums, return_inverse=True)[1]).ravel()


def geolevel_of(shared: SharedInput, name: str, method: str) -> Areas:
    """The geolevel that a setting of a method names.

    Args:
        shared: The input.
        name: Of the geolevel.
        method: Name of the method, for the error.
    Raises:
        ConfigError: the input has no such geolevel.
    """
    for areas in shared.geolevels:
        if areas.name == name:
            return areas
    raise ConfigError(
        f"the method '{method}' names the geolevel '{name}', wanted one of "
        f"{', '.join(areas.name for areas in shared.geolevels)}. Correct within or across.",
        code="unknown-geolevel",
    )


def groups_of(strata: Integers, order: Integers) -> Iterator[Integers]:
    """The members of each stratum.

    Args:
        strata: As in `Households`.
        order: All households, those of one stratum next to each other.
    """
    starts = np.flatnonzero((np.diff(strata[:, order], axis=1, prepend=-1) != 0).any(axis=0))
    for begin, end in zip(starts, np.append(starts[1:], order.size), strict=True):
        yield order[begin:end]


def what_stays(within: Areas, match: Sequence[str]) -> tuple[str, ...]:
    """What swapping publishes exactly, in words."""
    same = ["size", *match]
    return (
        f"all tables of {within.name} and of the geolevels above it",
        f"in every area, the number of households with the same {' and '.join(same)}, "
        "and so the number of people" + (f" by {', '.join(match)}" if match else ""),
    )
