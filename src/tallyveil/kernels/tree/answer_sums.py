"""Sums of listed answers, in whole numbers, on the way into a sweep up the tree and out of it.

Worked case. Two geounits of one group have the answers 3 and 4 to a query of one answer. The group has the sum 7.
"""

import numpy as np

from tallyveil.arrays import Int32s, Integers
from tallyveil.kernels.compiled import njit


@njit(nogil=True, cache=True)
def add_answers(
    answers: Integers,
    begin: Integers,
    child_begin: Integers,
    group: Integers,
    values: Integers,
    query_begin: Integers,
    out: Integers,
) -> None:
    """Add the listed answers of geounits to the sums of their groups, as whole numbers.

    Args:
        answers: Answer numbers, by query, then by run of geounits.
        begin: Where those of each query and run begin. [Q, runs + 1]
        child_begin: First geounit of each run, counted from the first of all. [runs + 1]
        group: Row of each geounit in `out`.
        values: Noisy answers, by query, run, geounit and answer.
        query_begin: Where each query begins in a row of `out`. [Q]
        out: Changed.
    """
    # `values` is read once, front to back: the loops are in the order in which the draws were listed.
    place = 0
    # Whole numbers, so the sums are the same in any order, and chunks may be added by themselves.
    for q in range(begin.shape[0]):
        for f in range(child_begin.size - 1):
            for child in range(child_begin[f], child_begin[f + 1]):
                # A view of the row: nothing is copied, and two children of one group add to the same sums.
                sums = out[group[child]]
                for k in range(begin[q, f], begin[q, f + 1]):
                    sums[query_begin[q] + answers[k]] += values[place]
                    place += 1


@njit(nogil=True, cache=True)
def family_answers(
    answers: Integers,
    begin: Integers,
    child_begin: Integers,
    answer_of_cell: Int32s,
    n_answers: int,
    units: Integers,
    values: Integers,
) -> None:
    """The listed answers of one query, summed from cells.

    Args:
        answers: Answers of the chunk.
        begin: Where those of each family begin, for this query. [F + 1]
        child_begin: First child of each family, counted from the first row of `units`. [F + 1]
        answer_of_cell: Answer of each cell of the schema, -1: none.
        n_answers: Answers of the query.
        units: Cells of every geounit in units of the grid. [children, cells]
        values: Output, in the layout of `FamilyAnswers`.
    """
    # All answers of one geounit, of which only the listed ones are wanted. To sum the cells once is cheaper than to
    # search the cells of each listed answer.
    full = np.empty(n_answers, np.int64)
    place = 0
    for f in range(child_begin.size - 1):
        # A family without listed answers costs nothing, not even its children's cells.
        if begin[f + 1] > begin[f]:
            for child in range(child_begin[f], child_begin[f + 1]):
                full[:] = 0
                for cell in range(answer_of_cell.size):
                    if answer_of_cell[cell] >= 0:
                        full[answer_of_cell[cell]] += units[child, cell]
                for k in range(begin[f], begin[f + 1]):
                    values[place] = full[answers[k]]
                    place += 1
