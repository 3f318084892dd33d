"""Slow and obvious specifications of the kernels in `tallyveil.kernels.family.answers`."""

import numpy as np

from tallyveil.arrays import Bools, Int32s, Integers
from tallyveil.kernels.family.answers import SparseCounts


def list_answers_reference(
    answer_of_cell: Int32s, n_answers: Integers, offsets: Integers, cells: Integers, settled: Bools
) -> tuple[Int32s, Integers, Integers]:
    """Specification of `list_answers`."""
    columns = np.full((n_answers.size, cells.size), -1, np.int32)
    answers: list[int] = []
    begin = np.zeros((n_answers.size, settled.size + 1), np.int64)
    for q in range(n_answers.size):
        begin[q, 0] = len(answers)
        for f in range(settled.size):
            part = slice(offsets[f], offsets[f + 1])
            if not settled[f]:
                own = answer_of_cell[q, cells[part]]
                distinct = sorted(set(own.tolist()) - {-1})
                columns[q, part] = [distinct.index(one) if one >= 0 else -1 for one in own.tolist()]
                answers += distinct
            begin[q, f + 1] = len(answers)
    return columns, np.array(answers, np.int64), begin


def spread_answers_reference(
    answers: Integers, begin: Integers, child_begin: Integers, geounits: Integers, spread: Integers
) -> None:
    """Specification of `spread_answers`."""
    pairs = [
        (child, answer)
        for f in range(child_begin.size - 1)
        for child in range(child_begin[f], child_begin[f + 1])
        for answer in answers[begin[f] : begin[f + 1]].tolist()
    ]
    geounits[:] = [child for child, _ in pairs]
    spread[:] = [answer for _, answer in pairs]


def add_counts_reference(
    answers: Integers,
    begin: Integers,
    child_begin: Integers,
    answer_of_cell: Int32s,
    n_answers: int,
    sparse: SparseCounts,
    values: Integers,
) -> None:
    """Specification of `add_counts`, with every child's answers in full."""
    offsets, cells, counts = sparse
    place = 0
    for f in range(child_begin.size - 1):
        listed = answers[begin[f] : begin[f + 1]]
        for child in range(child_begin[f], child_begin[f + 1]):
            full = np.zeros(n_answers + 1, np.int64)
            part = slice(offsets[child], offsets[child + 1])
            np.add.at(full, answer_of_cell[cells[part]], counts[part])
            values[place : place + listed.size] += full[listed]
            place += listed.size
