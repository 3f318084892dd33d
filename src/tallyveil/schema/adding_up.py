"""Which answers of one query add up to answers of another one."""

import numpy as np

from tallyveil.arrays import Integers
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema


def adding_up(schema: Schema, group: QueryGroup, other: QueryGroup) -> Integers:
    """Answer of `other` that contains each answer of `group`; -1 where it is not a sum of answers of `group`."""
    cells = np.arange(schema.size, dtype=np.int64)
    cells = cells[schema.possible(cells)]
    mine, theirs = group.answers_of(cells), other.answers_of(cells)
    first = np.full(group.size, -1, dtype=np.int64)
    first[mine[mine >= 0]] = theirs[mine >= 0]
    split = theirs != np.where(mine >= 0, first[mine], -1)  # cells on which the two queries disagree
    broken = np.unique(theirs[split & (theirs >= 0)])
    broken = np.union1d(broken, first[mine[split & (mine >= 0)]])
    first[np.isin(first, broken)] = -1
    return first
