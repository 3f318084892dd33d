"""How far counts and prices are from optimal, recomputed entry by entry, compiled.

The counts are the optimum of a strictly convex problem if and only if there are prices with which they meet four
conditions (docs/proofs/tiles.md): no count is negative; all sums are right; each count is what the prices ask for; and
each label's price is its weight times (sum - target). The kernel returns by how many persons these fail. It shares no
code with the kernels that find the answer.

Worked case: that of `newton`. All four numbers are zero; with the price -1 instead of -2/3, the counts asked for are
(3/2, 1/2), each 1/6 away, and the label's sum misses target + price / weight = 1 by 1/3.
"""

from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Floats
from tallyveil.kernels.compiled import internal
from tallyveil.kernels.tiles.tables import Prices, Tables


class Gaps(NamedTuple):
    """Persons by which the conditions fail.

    Attributes:
        labels: Largest |sum - target - price / weight| of a label and child: the backward error.
        entries: Largest difference between a count and what the prices ask for. A negative count is one.
        sums: Largest difference between a sum and its total.
    """

    labels: float
    entries: float
    sums: float


@internal
def gaps_of(tables: Tables, prices: Prices, x: Floats) -> Gaps:
    """By how much each condition fails."""
    # recomputed from counts, prices and tables alone; nothing that the solver kept is read
    answers = np.zeros((prices.label.shape[0], prices.label.shape[1]))
    count, total = 0.0, 0.0
    for p in range(tables.upright.size):
        first, last = tables.column_begin[p], tables.column_begin[p + 1]
        top, bottom = tables.row_begin[p], tables.row_begin[p + 1]
        row_sums = np.zeros(bottom - top)
        for i in range(first, last):
            # the long way round for each entry: speed does not matter here, and being plain does
            column_sum = 0.0
            for k in range(top, bottom):
                if tables.upright[p]:
                    value = x[tables.entry_begin[p] + (i - first) * (bottom - top) + k - top]
                    wanted = tables.centre[tables.entry_begin[p] + (i - first) * (bottom - top) + k - top]
                else:
                    value = x[tables.entry_begin[p] + (k - top) * (last - first) + i - first]
                    wanted = tables.centre[tables.entry_begin[p] + (k - top) * (last - first) + i - first]
                # minus all prices of the entry, as the formula in `tables` says
                for z in range(tables.label_begin[i], tables.label_begin[i + 1]):
                    wanted -= prices.label[tables.label[z], tables.child[k]] / tables.weight[k]
                    answers[tables.label[z], tables.child[k]] += value
                wanted -= tables.slack[k] * (prices.column[i] + prices.row[k])
                # the first condition of step T6; a negative count fails it by itself
                count = max(count, abs(value - max(0.0, wanted)))
                column_sum += value
                row_sums[k - top] += value
            # at a root columns have no totals to miss
            if tables.column_total.size:
                total = max(total, abs(column_sum - tables.column_total[i]))
        for k in range(top, bottom):
            total = max(total, abs(row_sums[k - top] - tables.row_total[k]))
    label = 0.0
    for j in range(answers.shape[0]):
        for c in range(answers.shape[1]):
            weight = tables.label_weight[j, c]
            if weight > 0.0:
                # delta of step T7: measurements moved by it make these counts the exact optimum
                gap = answers[j, c] - tables.label_target[j, c] - prices.label[j, c] / weight
                label = max(label, abs(gap))
            else:
                # a label that is not measured must not pull: its price has to be zero
                label = max(label, abs(prices.label[j, c]))
    return Gaps(label, count, total)
