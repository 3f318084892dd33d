"""Names for reconstructed records: a file of names, addresses, sexes and ages is joined to them.

The attacker knows block, sex and age of every person, without error. For each person he looks up the reconstructed
records of that block, sex and age. If there are any, he takes the Hispanic origin and race of most of them for the
person's, and of those that are equally frequent the more frequent in the county. The match is *confirmed* if both are
right.

Held-out people are in his file and in no release. What he finds out about them follows from their neighbours.
"""

from dataclasses import dataclass

import numpy as np
from tests.attacks.worlds import World

from tallyveil.compare.attacks.linkage import linked


@dataclass(frozen=True, slots=True)
class Linked:
    """What the join gives for every person: whether there was a record, and whether its race and origin are right."""

    matched: np.ndarray
    confirmed: np.ndarray


def link(world: World, files: np.ndarray, shares: np.ndarray) -> Linked:
    """Join names to reconstructed records.

    Args:
        world: The people.
        files: Reconstructed counts, shape (blocks, cells).
        shares: Share of each cell in the county of each block, shape (blocks, cells).
    """
    known, unknown = divide(world)
    n_known, n_unknown = known.max() + 1, unknown.max() + 1
    order = np.lexsort((unknown, known))  # cells by sex and age, then by origin and race
    records, ties = (counts[:, order].reshape(-1, n_known, n_unknown) for counts in (files, shares))
    matched, guess = linked(records, ties, world.blocks, known[world.cells])
    return Linked(matched, matched & (guess == unknown[world.cells]))


def divide(world: World) -> tuple[np.ndarray, np.ndarray]:
    """For each cell, what the attacker knows (sex and age) and what he wants to know (origin and race)."""
    cells = np.arange(world.schema.size)
    return world.schema.query("sex*age").answers_of(cells), world.schema.query("hispanic*race").answers_of(
        cells
    )


def alone(world: World) -> np.ndarray:
    """Whether a person is the only one of that sex and age in the block, which the attacker's file shows."""
    known, _ = divide(world)
    n_known = known.max() + 1
    place = world.blocks * n_known + known[world.cells]
    return np.bincount(place)[place] == 1


def uncommon(world: World) -> np.ndarray:
    """Whether a person's origin and race are not the county's most common: a guess without data is then wrong."""
    _, unknown = divide(world)
    county = world.county_of_block()[world.blocks]
    counts = np.zeros((county.max() + 1, unknown.max() + 1), np.int64)
    np.add.at(counts, (county, unknown[world.cells]), 1)
    return counts.argmax(axis=1)[county] != unknown[world.cells]
