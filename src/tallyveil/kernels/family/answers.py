"""Kernels that list the answers that families reach, and work through the answers of many families at once.

A chunk is F consecutive families of one geolevel. Its answers are ordered by query, then by family. Its values, one
for each answer of each child, are ordered by query, family, child and answer.

Worked case: two families whose supports are the cells {0, 1} and {1}, and one query that counts each cell by itself.
The first family reaches the answers 0 and 1, the second reaches 1, so the chunk's answers are 0, 1, 1. With two
children in each family there are 4 values of the first family and then 2 of the second.

Specifications: `tests.oracles.answers`.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Bools, Int32s, Integers
from tallyveil.kernels.compiled import internal, njit
from tallyveil.kernels.vectors import sort_first


class SparseCounts(NamedTuple):
    """Counts of people in children, without the zeros.

    Attributes:
        offsets: Where each child's counts begin. [children + 1]
        cells: Cells of the counts.
        counts: Persons.
    """

    offsets: Integers
    cells: Integers
    counts: Integers


@internal
def number_answers(
    answer_of_cell: Int32s, cells: Integers, number: Int32s, distinct: Int32s, out: Int32s
) -> int:
    """Number the distinct answers that some cells count in, in rising order of the answers.

    Args:
        answer_of_cell: Answer of each cell of the schema, -1: none. [schema cells]
        cells: The cells. [s]
        number: Work space, all -1, and left so. [answers]
        distinct: The distinct answers. [at least as many as there are], changed
        out: Number of each cell's answer among them, -1: none. [s], changed
    Returns:
        How many there are.
    """
    # true as long as answers appear in rising order, so that most supports need no sorting
    n = 0
    rising = True
    for cell in cells:
        answer = answer_of_cell[cell]
        if answer >= 0 and number[answer] < 0:
            rising &= n == 0 or distinct[n - 1] < answer
            distinct[n] = answer
            number[answer] = 0
            n += 1
    if not rising:
        sort_first(distinct, n)
    for k in range(n):
        number[distinct[k]] = k
    for i in range(cells.size):
        answer = answer_of_cell[cells[i]]
        out[i] = number[answer] if answer >= 0 else -1
    for k in range(n):
        # only the entries in use are set back: a small family then costs nothing for the size of the schema
        number[distinct[k]] = -1
    return n


@njit(nogil=True, cache=True)
def list_answers(
    answer_of_cell: Int32s, n_answers: Integers, offsets: Integers, cells: Integers, settled: Bools
) -> tuple[Int32s, Integers, Integers]:
    """The answers that the support of each family reaches.

    Args:
        answer_of_cell: Answer of each cell of the schema, -1: none. [Q, schema cells]
        n_answers: Answers of each query. [Q]
        offsets: Where each family's support begins. [F + 1]
        cells: Supports, one after the other. [offsets[F]]
        settled: Families with nothing to estimate, which need no answers. [F]
    Returns:
        Column of each support cell among its family's answers, -1: none, [Q, offsets[F]]; the answers, rising
        within a family; where those of each query and family begin, [Q, F + 1].
    """
    n_queries, n_families = n_answers.size, settled.size
    columns = np.full((n_queries, cells.size), -1, np.int32)
    begin = np.zeros((n_queries, n_families + 1), np.int64)
    answers = np.empty(n_queries * cells.size, np.int64)
    # no query has more distinct answers on a support than it has cells
    n = 0
    # positions run on through all queries and families, so n is never set back
    for q in range(n_queries):
        number = np.full(n_answers[q], -1, np.int32)
        distinct = np.empty(n_answers[q], np.int32)
        begin[q, 0] = n
        # one work space for all families of a query; `number_answers` leaves it as it was
        for f in range(n_families):
            if not settled[f]:
                support = cells[offsets[f] : offsets[f + 1]]
                width = number_answers(
                    answer_of_cell[q], support, number, distinct, columns[q, offsets[f] : offsets[f + 1]]
                )
                for k in range(width):
                    answers[n + k] = distinct[k]
                n += width
            begin[q, f + 1] = n
    return columns, answers[:n].copy(), begin


@njit(nogil=True, cache=True)
def spread_answers(
    answers: Integers, begin: Integers, child_begin: Integers, geounits: Integers, spread: Integers
) -> None:
    """Write the geounit and the answer of every value of one query.

    Args:
        answers: Answers of the chunk.
        begin: Where those of each family begin, for this query. [F + 1]
        child_begin: First child of each family. [F + 1]
        geounits: Output, [values of the query].
        spread: Output, in the same order.
    """
    n = 0
    for f in range(child_begin.size - 1):
        # a family that is settled has an empty range of answers, and so no values
        for child in range(child_begin[f], child_begin[f + 1]):
            for k in range(begin[f], begin[f + 1]):
                geounits[n], spread[n] = child, answers[k]
                n += 1


@njit(nogil=True, cache=True)
def add_counts(
    answers: Integers,
    begin: Integers,
    child_begin: Integers,
    answer_of_cell: Int32s,
    n_answers: int,
    sparse: SparseCounts,
    values: Integers,
) -> None:
    """Add the answers of sparse counts to the values of one query; answers not listed are passed over.

    Args:
        answers: Answers of the chunk.
        begin: Where those of each family begin, for this query. [F + 1]
        child_begin: First child of each family, counted from the chunk's first child. [F + 1]
        answer_of_cell: Answer of each cell of the schema, -1: none.
        n_answers: Answers of the query.
        sparse: Counts of the children.
        values: Values of this query, changed.
    """
    offsets, cells, counts = sparse
    column = np.full(n_answers, -1, np.int64)
    # -1 outside the loop over one family's answers: answers that it does not reach are told apart by that
    place = 0
    for f in range(child_begin.size - 1):
        for k in range(begin[f], begin[f + 1]):
            column[answers[k]] = k - begin[f]
        for child in range(child_begin[f], child_begin[f + 1]):
            for e in range(offsets[child], offsets[child + 1]):
                answer = answer_of_cell[cells[e]]
                if answer >= 0 and column[answer] >= 0:
                    values[place + column[answer]] += counts[e]
            place += begin[f + 1] - begin[f]
        for k in range(begin[f], begin[f + 1]):
            # set back answer by answer, at the cost of the family and not of the schema
            column[answers[k]] = -1
