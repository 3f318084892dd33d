"""From a family and one pass to the smallest quadratic program with the same answer, compiled.

The numpy twin and specification is `tallyveil.estimation.reduction.reduce_pass`: the same merged cells, the same
partitions, the same rows, in the same order. Sizes are named in `tallyveil.kernels.family_program`.
"""

import numpy as np
from numba import njit

from tallyveil.kernels.compiled import part
from tallyveil.kernels.family_program import (
    DENSE_CELLS,
    Booleans,
    Floats,
    Integers,
    Labels,
    PassArrays,
    Program,
)

RIDGE = 2.0**-14
"""Weight of the ridge, in weights of the noisiest query; see `tallyveil.estimation.reduction`."""


@njit(nogil=True, cache=True)
def reduce_arrays(one: PassArrays) -> tuple[Program, Integers, Floats]:
    """The program of one pass on merged cells.

    Returns:
        The program; the merged cell of each support cell, [s]; its share of the merged count, [s].
    """
    group, first = merge_cells(one.allowed, one.labels, one.widths, one.bound_labels, one.bound_widths)
    n_cells, n_groups = group.size, first.size
    totals = np.zeros(n_groups)
    for i in range(n_cells):
        totals[group[i]] += one.inhabitants[i]
    share = np.zeros(n_cells)
    for i in range(n_cells):
        if totals[group[i]] > 0:
            share[i] = one.inhabitants[i] / totals[group[i]]
    allowed = one.allowed
    if n_groups < n_cells:
        allowed = np.empty((one.allowed.shape[0], n_groups), np.bool_)
        for c in range(allowed.shape[0]):
            for i in range(n_groups):
                allowed[c, i] = one.allowed[c, first[i]]
    answers, sizes, weights, targets = _partitions(one, first)
    ridge = _ridge(answers, sizes, weights, totals / one.inhabitants.mean())
    curvature = ridge.copy()
    for k in range(answers.shape[0]):
        for i in range(n_groups):
            if answers[k, i] >= 0:
                curvature[i] += weights[answers[k, i]]
    hessian, linear = np.zeros((0, 0)), np.zeros((0, 0))
    by_cell = answers.T.copy()
    if n_groups <= DENSE_CELLS:
        linear = _linear(by_cell, targets)
        hessian = _hessian(answers, weights)
        for i in range(n_groups):
            hessian[i, i] += ridge[i]
    rows = _rows(one, first, allowed, totals)
    program = Program(
        allowed,
        one.has_sums,
        totals,
        by_cell,
        weights,
        targets,
        ridge,
        curvature,
        hessian,
        linear,
        rows[0],
        rows[1],
        rows[2],
        rows[3],
        rows[4],
        rows[5],
        rows[6],
        rows[7],
        rows[8],
        one.bound_widths,
        rows[9],
        curvature.min(),
        np.median(curvature),
    )
    return program, group, share


@njit(nogil=True, cache=True)
def merge_cells(
    allowed: Booleans, labels: Labels, widths: Integers, bound_labels: Labels, bound_widths: Integers
) -> tuple[Integers, Integers]:
    """Group cells that no label and no child tells apart, in order of appearance.

    Returns:
        Group of each cell, [s], and the first cell of each group.
    """
    n_cells = allowed.shape[1]
    for q in range(labels.shape[0]):
        if _separates_all(labels[q], widths[q]):
            return np.arange(n_cells), np.arange(n_cells)
    group = np.zeros(n_cells, np.int64)
    n_groups = min(n_cells, 1)
    for q in range(labels.shape[0]):
        n_groups = _refine(group, n_groups, labels[q], widths[q])
    for b in range(bound_labels.shape[0]):
        n_groups = _refine(group, n_groups, bound_labels[b], bound_widths[b])
    pattern = np.empty(n_cells, np.int32)
    for c in range(allowed.shape[0]):
        if n_groups == n_cells:
            break
        for i in range(n_cells):
            pattern[i] = allowed[c, i]
        n_groups = _refine(group, n_groups, pattern, int(np.int64(2)))
    number = np.full(n_groups, -1)
    first = np.empty(n_groups, np.int64)
    n = 0
    for i in range(n_cells):
        if number[group[i]] < 0:
            number[group[i]] = n
            first[n] = i
            n += 1
        group[i] = number[group[i]]
    return group, first


@part
def _separates_all(labels: Labels, width: int) -> bool:
    seen = np.zeros(width, np.bool_)
    for label in labels:
        if label < 0 or seen[label]:
            return False
        seen[label] = True
    return labels.size > 0


@part
def _refine(group: Integers, n_groups: int, labels: Labels, width: int) -> int:
    """Split groups by label, in place; returns how many there are."""
    n_cells = group.size
    start = np.zeros(n_groups + 1, np.int64)
    for i in range(n_cells):
        start[group[i] + 1] += 1
    for k in range(n_groups):
        start[k + 1] += start[k]
    order = np.empty(n_cells, np.int64)
    for i in range(n_cells):
        order[start[group[i]]] = i
        start[group[i]] += 1
    # start[k] is now where group k ends
    number = np.full(width + 1, -1)
    n, begin = 0, 0
    for k in range(n_groups):
        for t in range(begin, start[k]):
            i = order[t]
            if number[labels[i] + 1] < 0:
                number[labels[i] + 1] = n
                n += 1
            group[i] = number[labels[i] + 1]
        for t in range(begin, start[k]):
            number[labels[order[t]] + 1] = -1
        begin = start[k]
    return n


@part
def _partitions(one: PassArrays, first: Integers) -> tuple[Integers, Integers, Floats, Floats]:
    """Answers of merged cells; queries that split them alike become one.

    Returns:
        Answers as in `Program`; how many each partition has; weights and targets as in `Program`.
    """
    n_queries, n_cells = one.labels.shape[0], first.size
    n_children = one.allowed.shape[0]
    answers = np.empty((n_queries, n_cells), np.int64)
    starts = np.zeros(n_queries + 1, np.int64)
    same, sizes = np.empty(n_queries, np.int64), np.zeros(n_queries, np.int64)
    columns = np.empty((n_queries, n_cells), np.int64)
    labels = np.empty(n_cells, np.int64)
    n = int(np.int64(0))
    for q in range(n_queries):
        sizes[q] = _canonical(one.labels[q], one.widths[q], first, labels, columns[q])
        if sizes[q] > 0:
            same[q] = _find(answers, starts, n, labels, sizes[q])
            if same[q] == n:
                for i in range(n_cells):
                    answers[n, i] = starts[n] + labels[i] if labels[i] >= 0 else -1
                starts[n + 1] = starts[n] + sizes[q]
                n += 1
    weights, targets = np.zeros(starts[n]), np.zeros((n_children, starts[n]))
    place = 0
    for q in range(n_queries):
        width, weight, column = one.widths[q], one.weights[q], columns[q]
        if sizes[q] > 0:
            start = starts[same[q]]
            for k in range(sizes[q]):
                weights[start + k] += weight
            for c in range(n_children):
                own = targets[c, start : start + sizes[q]]
                for k in range(own.size):
                    own[k] += weight * one.values[np.uint64(place + column[k])]
                place += width
        else:
            place += n_children * width
    return answers[:n].copy(), starts[1 : n + 1] - starts[:n], weights, targets


@part
def _canonical(given: Labels, width: int, first: Integers, labels: Integers, columns: Integers) -> int:
    """Number labels of merged cells in order of appearance; returns how many there are."""
    number = np.full(width, -1)
    n = 0
    for i in range(first.size):
        label = given[first[i]]
        labels[i] = -1
        if label >= 0:
            if number[label] < 0:
                number[label] = n
                columns[n] = label
                n += 1
            labels[i] = number[label]
    return n


@part
def _find(answers: Integers, starts: Integers, n: int, labels: Integers, size: int) -> int:
    """The partition with these labels, or n when there is none."""
    for k in range(n):
        same = starts[k + 1] - starts[k] == size
        for i in range(labels.size):
            if not same:
                break
            same = answers[k, i] == (starts[k] + labels[i] if labels[i] >= 0 else -1)
        if same:
            return k
    return n


@part
def _hessian(answers: Integers, weights: Floats) -> Floats:
    n_cells = answers.shape[1]
    hessian = np.zeros((n_cells, n_cells))
    for k in range(answers.shape[0]):
        own = answers[k]
        for i in range(n_cells):
            if own[i] >= 0:
                row = hessian[i]
                weight = weights[own[i]]
                for j in range(i, n_cells):
                    row[j] += weight if own[j] == own[i] else 0.0
    for i in range(n_cells):
        for j in range(i):
            hessian[i, j] = hessian[j, i]
    return hessian


@part
def _linear(by_cell: Integers, targets: Floats) -> Floats:
    n_children, n_cells = targets.shape[0], by_cell.shape[0]
    linear = np.zeros((n_children, n_cells))
    for c in range(n_children):
        own = linear[c]
        for q in range(by_cell.shape[1]):
            for i in range(n_cells):
                answer = by_cell[i, q]
                own[i] += targets[c, np.uint64(answer)] if answer >= 0 else 0.0
    return linear


@part
def _ridge(answers: Integers, sizes: Integers, weights: Floats, relative: Floats) -> Floats:
    """Diagonal that makes H definite; zeros where it is already. `relative` is as in the numpy twin."""
    n_cells = answers.shape[1]
    ridge = np.zeros(n_cells)
    smallest = np.inf
    for k in range(answers.shape[0]):
        if sizes[k] == n_cells:
            return ridge
        smallest = min(smallest, weights[sizes[:k].sum()])
    if weights.size >= n_cells and _independent(_hessian(answers, np.ones(weights.size))):
        return ridge
    if answers.shape[0] == 0:
        smallest = 1.0
    for i in range(n_cells):
        ridge[i] = RIDGE * smallest / (relative[i] if relative[i] > 0 else 1.0)
    return ridge


@part
def _independent(matrix: Floats) -> bool:
    """Whether a symmetric positive semidefinite matrix is definite, by Cholesky's method with pivots."""
    n = matrix.shape[0]
    left = np.arange(n)
    largest = 0.0
    for step in range(n):
        best = step
        for t in range(step, n):
            if matrix[left[t], left[t]] > matrix[left[best], left[best]]:
                best = t
        left[step], left[best] = left[best], left[step]
        pivot = left[step]
        largest = max(largest, matrix[pivot, pivot])
        if matrix[pivot, pivot] <= 1e-9 * largest:
            return False
        for t in range(step + 1, n):
            i = left[t]
            factor = matrix[i, pivot] / matrix[pivot, pivot]
            if factor != 0.0:
                for u in range(step + 1, n):
                    matrix[i, left[u]] -= factor * matrix[pivot, left[u]]
    return True


@part
def _rows(
    one: PassArrays, first: Integers, allowed: Booleans, sums: Floats
) -> tuple[
    Integers,
    Integers,
    Integers,
    Floats,
    Floats,
    Integers,
    Integers,
    Integers,
    Integers,
    Integers,
]:
    """Rows that can bind; arrays as in `Program`, in its order."""
    n_children, n_bounds = allowed.shape[0], one.bound_labels.shape[0]
    most = one.lower.size
    child, bound, label = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    lower, upper = np.empty(most), np.empty(most)
    labels = np.empty((n_bounds, first.size), np.int64)
    start = np.empty(n_bounds, np.int64)
    number = np.full(most, -1)
    per_child = np.zeros(n_children + 1, np.int64)
    n, place = 0, 0
    for b in range(n_bounds):
        start[b] = place
        width = one.bound_widths[b]
        for i in range(first.size):
            labels[b, i] = one.bound_labels[b, first[i]]
        for c in range(n_children):
            capacity = np.full(width, 0.0 if one.has_sums else np.inf)
            if one.has_sums:
                for i in range(first.size):
                    if labels[b, i] >= 0 and allowed[c, i]:
                        capacity[labels[b, i]] += sums[i]
            for k in range(width):
                low = one.lower[place + k]
                high = one.upper[place + k]
                low = -np.inf if low <= 0 else low
                high = np.inf if high >= capacity[k] else high
                if low > -np.inf or high < np.inf:
                    child[n], bound[n], label[n], lower[n], upper[n] = c, b, k, low, high
                    number[place + k] = n
                    per_child[c + 1] += 1
                    n += 1
            place += width
    for c in range(n_children):
        per_child[c + 1] += per_child[c]
    members = np.empty(n, np.int64)
    filled = per_child[:-1].copy()
    for r in range(n):
        members[filled[child[r]]] = r
        filled[child[r]] += 1
    parts = child[:n].copy(), bound[:n].copy(), label[:n].copy(), lower[:n].copy(), upper[:n].copy()
    return (*parts, per_child, members, labels, start, number)
