"""Which answers of a query have a possible cell, without a look at every cell.

A structural zero is a product of level sets. So the attributes can be taken one after the other. After some of them, a
cell is known by its level codes so far. What matters for the rest is only the answer that these codes lead to, and the
set of structural zeros that contain all of them. A structural zero that names no later attribute and still contains
the codes makes every such cell impossible. All cells with the same answer and the same set are treated as one.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.schema.counts import distinct
from tallyveil.schema.query_group import Factor, QueryGroup

ZeroLevels = dict[int, NDArray[np.bool_]]
"""One structural zero: for each attribute that it names, by position, whether each level is in its set."""

States = dict[int, Integers]
"""Answers so far, sorted, by the set of structural zeros that contain the level codes so far; bit z is zero z."""


def possible_answers(group: QueryGroup, zeros: Sequence[ZeroLevels]) -> Integers:
    """The answers of a query in which at least one possible cell counts, ascending.

    Args:
        group: The query.
        zeros: The structural zeros of its schema.
    """
    states: States = {(1 << len(zeros)) - 1: np.zeros(1, dtype=np.int64)}
    for axis, factor in enumerate(group.factors):
        closed = sum(1 << bit for bit, zero in enumerate(zeros) if max(zero) == axis)
        states = _with_attribute(states, factor, _groups_by_zeros(factor, axis, zeros), closed)
    return _union(list(states.values()))


def _groups_by_zeros(factor: Factor, axis: int, zeros: Sequence[ZeroLevels]) -> States:
    """The groups that have a level, by the set of structural zeros that contain this level."""
    found: dict[int, list[Integers]] = {}
    layers = np.stack(factor.layers)
    for level in range(factor.n_levels):
        inside = sum(1 << bit for bit, zero in enumerate(zeros) if axis not in zero or zero[axis][level])
        groups = layers[:, level].astype(np.int64)
        found.setdefault(inside, []).append(groups[groups >= 0])
    return {inside: _union(parts) for inside, parts in found.items()}


def _with_attribute(states: States, factor: Factor, groups: States, closed: int) -> States:
    """The states after one more attribute, without those in a structural zero that names no later attribute."""
    found: dict[int, list[Integers]] = {}
    for before, answers in states.items():
        for own, places in groups.items():
            if not before & own & closed:
                joined = np.add.outer(answers * factor.size, places).ravel()
                found.setdefault(before & own, []).append(joined)
    return {inside: _union(parts) for inside, parts in found.items()}


def _union(parts: list[Integers]) -> Integers:
    """The numbers in any of some arrays, ascending."""
    return distinct(np.concatenate(parts)) if parts else np.empty(0, dtype=np.int64)
