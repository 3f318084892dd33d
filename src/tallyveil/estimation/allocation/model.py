"""What the model of blocks takes from a schema, from the noise and from released counts.

The model (`tallyveil.kernels.allocation.law`) says of the count of cell c in block b of family f:

    x[b, c] ~ negative binomial, mean size[b] * factor[b, group of c] * class factor[b, c] * share[f, c]

Groups are the levels of the attribute with the most levels (race), whose people live together in blocks more than
chance has it: a factor for each, or none of them at all. A block's class says that one level of the next attribute
(age) is rarer or more common in it than in its family; blocks of group quarters have nearly no children. Shares are
those of the family's released counts, with a few people added that are divided as in the family's own parent.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from tallyveil.arrays import Floats, IntegerRows, Integers
from tallyveil.kernels.allocation.law import PER_SIZE, Families, Grid
from tallyveil.schema.schema import Schema

SIZES_AN_OCTAVE: Final = 4
"""Sizes from one power of two to the next: neighbours differ by 19 %, and counts of one mean by more."""

MEANS_AN_OCTAVE: Final = PER_SIZE * SIZES_AN_OCTAVE

LEAST_MEAN: Final = 5e-4
"""Means below it are zero. A hundred blocks with this mean have one person in one of 20 tables."""

FACTORS: Final = (0, -18, -12, -7, -3, 0, 3, 6, 10, 17)
"""Factors of a group in steps of sizes, 1/23 to 19; the first stands for none of the group."""

CLASS_FACTORS: Final = (0.01, 0.5, 1.6)
"""Factors of a level in a block's class: nearly absent, as children in group quarters, rarer, and more common."""

ADDED: Final = 6.0
"""People added to a family's counts. With 6, a cell with one person in a block group has nearly that share."""

FAMILY_SIZES: Final = (1.0, 12.0, 25.0, 40.0, 60.0, 90.0, 150.0)
"""Ends of the classes of families, by people per block."""

GROUP_SHARES: Final = (0.004, 0.015, 0.05, 0.15, 0.5)
"""Ends of the classes of groups, by their share of a family."""


@dataclass(frozen=True, slots=True, eq=False)
class CellKinds:
    """What the model knows of the cells of a schema.

    Attributes:
        cells: The cells of each group; shape (groups, cells of a group).
        level: Level of each cell that a block's class may be about; all 0 where there is no second attribute.
    """

    cells: IntegerRows
    level: Integers


def kinds_of(schema: Schema) -> CellKinds:
    """The attributes that the model distinguishes: the one with the most levels, and the one after it."""
    levels = schema.decode(np.arange(schema.size))
    # In the schema's order where two have as many levels.
    order = sorted(range(len(schema.attributes)), key=lambda a: -schema.attributes[a].size)
    second = levels[:, order[1]] if len(order) > 1 else np.zeros(schema.size, np.int64)
    # Every level of an attribute has as many cells, so that sorted cells are rows.
    cells = np.argsort(levels[:, order[0]], kind="stable").reshape(schema.attributes[order[0]].size, -1)
    return CellKinds(cells.astype(np.int64), second.astype(np.int64))


def grid_of(kinds: CellKinds, counts: Integers, largest: int, concentration: float) -> Grid:
    """The lattice of means, and the lists of sizes, factors and classes.

    Args:
        kinds: What is known of cells.
        counts: People in each cell, over the whole area: classes are about all levels but the most common.
        largest: The most people that a block can have.
        concentration: Concentration of the negative binomial law.
    """
    top = int(np.ceil(np.log2(max(largest, 1))))
    people = np.bincount(kinds.level, counts)
    shift = [np.zeros(len(kinds.level), np.int64)]
    for level in np.flatnonzero(np.arange(len(people)) != int(np.argmax(people))):
        for factor in CLASS_FACTORS:
            shift.append(np.where(kinds.level == level, round(MEANS_AN_OCTAVE * float(np.log2(factor))), 0))
    # From the least mean to a whole octave above the largest size.
    n_means = int(np.ceil(MEANS_AN_OCTAVE * (top + 1 - np.log2(LEAST_MEAN))))
    log_mean = np.log(LEAST_MEAN) + np.arange(n_means) * (np.log(2.0) / MEANS_AN_OCTAVE)
    n_sizes = 2 + top * SIZES_AN_OCTAVE
    return Grid(log_mean, concentration, n_sizes, np.array(FACTORS), np.array(shift), kinds.cells)


def families_of(kinds: CellKinds, counts: IntegerRows, above: IntegerRows, n_blocks: Integers) -> Families:
    """What the prior knows of families.

    Args:
        kinds: What is known of cells.
        counts: Released counts of the family's parent; shape (families, cells).
        above: Released counts of the parent's own parent; shape (families, cells).
        n_blocks: Number of blocks of each family.
    """
    near = above + 0.5
    share = counts + ADDED * near / near.sum(axis=1, keepdims=True)
    # Nobody can be where the parent has nobody.
    share = np.where(counts > 0, share, 0.0)
    share /= np.maximum(share.sum(axis=1, keepdims=True), LEAST_MEAN)
    with np.errstate(divide="ignore"):
        steps = np.rint(MEANS_AN_OCTAVE * np.log2(share / LEAST_MEAN))
    # Far below all means where there is nobody, so that no size nor factor leads back to one.
    place = np.where(counts > 0, steps + 1, -(1 << 20)).astype(np.int64)
    of_group = share[:, kinds.cells].sum(axis=2)
    per_block = counts.sum(axis=1) / np.maximum(n_blocks, 1)
    return Families(place, _class_of(per_block, FAMILY_SIZES), _class_of(of_group, GROUP_SHARES))


def _class_of(values: Floats, ends: tuple[float, ...]) -> Integers:
    return np.digitize(values, ends).astype(np.int64)
