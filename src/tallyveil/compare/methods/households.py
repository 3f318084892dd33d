"""Households that may take each other's place: what every kind of swapping works with."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from tallyveil.arrays import Int32s, IntegerRows, Integers, Words
from tallyveil.compare.inputs import Areas, SharedInput

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
        strata: Number of the stratum of each household: its kind and the area that it does not leave. Households of one
            stratum may take each other's place: they have the same size and the same attributes that are matched.
    """

    shared: SharedInput
    geounits: Int32s
    cells: Int32s
    household: Int32s
    first: Int32s
    homes: Int32s
    sizes: Integers
    strata: Integers

    def counts_at(self, homes: Int32s) -> tuple[IntegerRows, int]:
        """The counts if households lived elsewhere, and the number of people of those that do.

        Args:
            homes: Finest geounit of each household.
        """
        shape = self.shared.counts.shape
        places = homes[self.household].astype(np.int64) * shape[1] + self.cells
        counts = np.bincount(places, minlength=shape[0] * shape[1]).reshape(shape)
        return counts.astype(np.int64, copy=False), int(self.sizes[homes != self.homes].sum())

    def groups(self, order: Integers) -> Iterator[Integers]:
        """The households of each stratum.

        Args:
            order: All households, those of one stratum next to each other.
        """
        starts = np.flatnonzero(np.diff(self.strata[order], prepend=-1))
        for begin, end in pairwise(np.append(starts, order.size)):
            yield order[begin:end]


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
    kinds = _kinds_of_cells(shared, match)
    if shared.household is None:
        first, homes = household, geounits
        sizes = np.ones(cells.size, dtype=np.int64)
        kind = np.asarray(np.unique(kinds, return_inverse=True)[1]).ravel()[cells]
    else:
        first = np.flatnonzero(np.diff(household, prepend=-1)).astype(np.int32)
        homes, sizes = geounits[first], np.bincount(household)
        # A household's kind is the multiset of its members' kinds: random numbers of these, added up, name it. Two
        # multisets have the same sum with a probability of 2^-64, and a false pair would only be a swap of unlikes.
        # Sizes need no place of their own: the sums of different numbers of random numbers differ as surely.
        sums = np.zeros(sizes.size, dtype=np.uint64)
        np.add.at(sums, household, kinds[cells])
        kind = np.asarray(np.unique(sums, return_inverse=True)[1]).ravel()
    strata = kind * within.n_areas + within.place[homes]
    return Households(shared, geounits, cells, household, first, homes, sizes, strata)


def _kinds_of_cells(shared: SharedInput, match: Sequence[str]) -> Words:
    """A random number for each cell, the same for cells that agree in some attributes."""
    schema = shared.schema
    names = schema.attribute_names
    for name in match:
        schema.attribute(name)
    axes = [names.index(name) for name in match]
    shape = [schema.shape[axis] for axis in axes]
    codes = schema.decode(np.arange(schema.size))[:, axes]
    alike = np.ravel_multi_index(codes.T, shape) if axes else np.zeros(schema.size, dtype=np.int64)
    return np.random.Generator(np.random.Philox(key=0)).integers(
        np.iinfo(np.uint64).max, size=int(np.prod(shape)) or 1, dtype=np.uint64
    )[alike]


def what_stays(within: Areas, match: Sequence[str]) -> tuple[str, ...]:
    """What swapping publishes exactly, in words."""
    same = ["size", *match]
    return (
        f"all tables of {within.name} and of the geolevels above it",
        f"in every area, the number of households with the same {' and '.join(same)}, "
        "and so the number of people" + (f" by {', '.join(match)}" if match else ""),
    )
