"""The only cell in which the records of an answer can lie, if structural zeros leave just one."""

import numpy as np
from numpy.typing import NDArray

from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema

Box = list[NDArray[np.bool_]]
"""For each attribute, whether each level is in the box; a cell is in it if all its levels are."""


def only_cell(schema: Schema, group: QueryGroup, answer: int) -> int | None:
    """The only possible cell of an answer; None if the structural zeros leave several, or none.

    A level is dropped from the box of the answer when one structural zero bars all cells of the box that have it. This
    is repeated until nothing changes. It takes no number for each cell, however many cells the schema has.

    Worked case: the answer "vacant" of a schema with the attributes occupancy and sex (male, female, none), where a
    structural zero bars male and female for vacant units. The levels male and female are dropped; one cell is left.

    Args:
        schema: The universe.
        group: A query whose groups do not overlap.
        answer: Number of the answer.
    """
    numbers = np.unravel_index(answer, group.shape)
    box = [factor.codes == number for factor, number in zip(group.factors, numbers, strict=True)]
    zeros = [_box_of(schema, barred) for barred in schema.barred_levels()]
    while True:
        dropped = sum(_drop_levels(box, zero) for zero in zeros)
        if not dropped:
            break
    if any(int(levels.sum()) != 1 for levels in box):
        return None
    cell = schema.encode(np.array([[int(np.argmax(levels)) for levels in box]]))
    return int(cell[0]) if bool(schema.possible(cell)[0]) else None


def _box_of(schema: Schema, barred: dict[int, NDArray[np.bool_]]) -> Box:
    """The cells that a structural zero bars, from the levels that it names (`Schema.barred_levels`)."""
    every = [np.ones(attribute.size, dtype=np.bool_) for attribute in schema.attributes]
    return [barred.get(place, levels) for place, levels in enumerate(every)]


def _drop_levels(box: Box, zero: Box) -> int:
    """Drop the levels with which every cell of the box is barred; returns how many there are."""
    inside = [bool(barred[levels].all()) for levels, barred in zip(box, zero, strict=True)]
    dropped = 0
    for place, barred in enumerate(zero):
        if all(inside[:place] + inside[place + 1 :]):
            gone = box[place] & barred
            dropped += int(gone.sum())
            box[place] &= ~barred
            inside[place] = bool(barred[box[place]].all())
    return dropped
