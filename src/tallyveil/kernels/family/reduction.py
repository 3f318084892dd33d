"""From a family and one pass to the smallest quadratic program with the same answer, compiled.

Problem: find a program (`tallyveil.kernels.family.program`, which names the sizes) on as few cells as
possible whose answer gives the pass's answer. Rows that cannot bind are left out.

*Merging.* Two cells belong together if every query and every bound gives them the same label and the same
children may have people in both. The merged count is split in the parent's proportions. Step: begin with one
group and split the groups by one labelling after another. It ends when all labellings have been used or every
cell is alone. Worked cases: labels (0, 0, 1, 1) of one query and (0, 0, 0, 1) of another give the groups
{0, 1}, {2}, {3}. A pass that measures only the total, over three cells in which the parent has 2, 1 and 1
persons, has a program of one cell with 4 persons; a child's answer of 2 persons is split as 1, 1/2 and 1/2.

*Ridge.* Where a child's queries do not determine every cell, the matrix H is singular and the optimum is not
unique. A diagonal is then added that is far smaller than any measurement's weight: RIDGE * smallest weight *
parent's mean count / parent's count. Under the parent's sums it makes undetermined counts proportional to the
parent's. H is singular if there are fewer answers than cells, or if Cholesky's method with pivots meets a
pivot that is zero up to rounding. Worked case: two cells whose total alone is measured, with weight 1. H =
[[1, 1], [1, 1]] has the pivots 1 and 0, so the ridge is added; with equal counts in the parent it is 2^-14 on
both diagonal entries.

Specification: `tests.oracles.reduction.reduce_pass`. It gives the same merged cells, partitions and rows in
the same order.
"""

import numpy as np

from tallyveil.arrays import Bools, Floats, Int32s, Integers
from tallyveil.kernels.compiled import internal, njit
from tallyveil.kernels.family.program import (
    DENSE_CELLS,
    MOST_ENTRIES,
    SOFTEST,
    PassArrays,
    Program,
    allowed_in_groups,
    capacities,
    group_sizes,
)
from tallyveil.kernels.vectors import sort_first


@internal
def merge_cells(
    allowed: Bools, labels: Int32s, widths: Integers, bound_labels: Int32s, bound_widths: Integers
) -> tuple[Integers, Integers]:
    """Group cells that no label and no child tells apart, in order of appearance.

    Returns:
        Group of each cell, [s], and the first cell of each group.
    """
    n_cells = allowed.shape[1]
    # a query that tells all cells apart settles it at once
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
    # children are looked at only until every cell is alone
    for c in range(allowed.shape[0]):
        if n_groups == n_cells:
            break
        for i in range(n_cells):
            pattern[i] = allowed[c, i]
        n_groups = _refine(group, n_groups, pattern, int(np.int64(2)))
    # numbered by first appearance, so that the program does not depend on the order in which labels split the
    # cells
    number = np.full(n_groups, -1, np.int64)
    first = np.empty(n_groups, np.int64)
    n = 0
    for i in range(n_cells):
        if number[group[i]] < 0:
            number[group[i]] = n
            first[n] = i
            n += 1
        group[i] = number[group[i]]
    return group, first


@internal
def _separates_all(labels: Int32s, width: int) -> bool:
    seen = np.zeros(width, np.bool_)
    for label in labels:
        if label < 0 or seen[label]:
            return False
        seen[label] = True
    return labels.size > 0


@internal
def _refine(group: Integers, n_groups: int, labels: Int32s, width: int) -> int:
    """Split groups by label, in place; returns how many there are."""
    n_cells = group.size
    start = np.zeros(n_groups + 1, np.int64)
    # a counting sort by group: a labelling costs s + width and not s * groups
    for i in range(n_cells):
        start[group[i] + 1] += 1
    for k in range(n_groups):
        start[k + 1] += start[k]
    order = np.empty(n_cells, np.int64)
    for i in range(n_cells):
        order[start[group[i]]] = i
        start[group[i]] += 1
    # start[k] is now where group k ends
    number = np.full(width + 1, -1, np.int64)
    n, begin = 0, 0
    for k in range(n_groups):
        for t in range(begin, start[k]):
            i = order[t]
            # label + 1, so that cells in no answer are a class like the others
            if number[labels[i] + 1] < 0:
                number[labels[i] + 1] = n
                n += 1
            group[i] = number[labels[i] + 1]
        # set back member by member: the cost is the group's and not the labelling's
        for t in range(begin, start[k]):
            number[labels[order[t]] + 1] = -1
        begin = start[k]
    return n


RIDGE = 2.0**-14
"""Weight of the ridge, in weights of the noisiest query: that of a measurement with 16,384 times its variance, far
below what the noise could show. Half of it pulls half as hard on counts that measurements determine, and makes H twice
as nearly singular; 2^-20 was tried, and left some programs too ill-conditioned to certify. The published counts of
every release without a detailed query depend on it."""


@internal
def fill_hessian(answers: Integers, weights: Floats, hessian: Floats) -> None:
    """Write H, without the ridge, into a matrix of zeros."""
    n_cells = answers.shape[1]
    for k in range(answers.shape[0]):
        # an answer's cells are told by equal labels: no list of them is needed
        labels = answers[k]
        for i in range(n_cells):
            if labels[i] >= 0:
                row = hessian[i]
                weight = weights[labels[i]]
                # the upper half alone; the lower one is its mirror image, copied below
                for j in range(i, n_cells):
                    row[j] += weight if labels[j] == labels[i] else 0.0
    for i in range(n_cells):
        for j in range(i):
            hessian[i, j] = hessian[j, i]


@internal
def ridges(answers: Integers, sizes: Integers, weights: Floats, relative: Floats) -> Floats:
    """Diagonals that make each kind's H definite; zeros where it is already definite.

    `relative` is the parent's count of each cell over its mean count of a support cell."""
    n_kinds, n_cells = weights.shape[0], answers.shape[1]
    ridge = np.zeros((n_kinds, n_cells))
    # the noisiest query of any kind, for kinds that nothing measures
    of_any = np.inf
    for z in range(n_kinds):
        for t in range(weights.shape[1]):
            of_any = min(of_any, weights[z, t] if weights[z, t] > 0.0 else np.inf)
    for z in range(n_kinds):
        smallest, place, n_used, whole = np.inf, 0, 0, False
        # all answers of a partition have the same weight, so the first one speaks for all of them
        for k in range(answers.shape[0]):
            if weights[z, place] > 0.0:
                # a partition with as many answers as cells counts each by itself, and H is definite without a
                # test
                whole |= sizes[k] == n_cells
                smallest = min(smallest, weights[z, place])
                n_used += sizes[k]
            place += sizes[k]
        # fewer answers than cells cannot determine them; only where it is open is a matrix factored, at g^3 /
        # 3
        if whole or (n_used >= n_cells and _determined(answers, weights[z])):
            continue
        smallest = smallest if n_used > 0 else of_any
        smallest = smallest if smallest < np.inf else 1.0
        for i in range(n_cells):
            # More where the parent has few: under given sums the undetermined counts become proportional to
            # the parent's.
            ridge[z, i] = RIDGE * smallest / (relative[i] if relative[i] > 0 else 1.0)
    return ridge


@internal
def _determined(answers: Integers, weights: Floats) -> bool:
    """Whether the answers that have a weight determine every cell."""
    equal = np.empty(weights.size)
    # Ones in place of weights: what is determined does not depend on variances, and whole numbers keep a
    # pivot of zero far from one that is not.
    for t in range(weights.size):
        equal[t] = 1.0 if weights[t] > 0.0 else 0.0
    hessian = np.zeros((answers.shape[1], answers.shape[1]))
    fill_hessian(answers, equal, hessian)
    return _independent(hessian)


@internal
def _independent(matrix: Floats) -> bool:
    """Whether a symmetric positive semidefinite matrix is definite, by Cholesky's method with pivots."""
    n = matrix.shape[0]
    left = np.arange(n)
    largest = 0.0
    for step in range(n):
        # The largest pivot comes next. Only then does a small one prove that all of the rest is small.
        best = step
        for t in range(step, n):
            if matrix[left[t], left[t]] > matrix[left[best], left[best]]:
                best = t
        left[step], left[best] = left[best], left[step]
        pivot = left[step]
        largest = max(largest, matrix[pivot, pivot])
        # Pivots of a definite matrix of such whole numbers are far above 1e-9 of the largest; a zero one is
        # rounding, some 1e-16 of it.
        if matrix[pivot, pivot] <= 1e-9 * largest:
            return False
        for t in range(step + 1, n):
            i = left[t]
            factor = matrix[i, pivot] / matrix[pivot, pivot]
            if factor != 0.0:
                for u in range(step + 1, n):
                    matrix[i, left[u]] -= factor * matrix[pivot, left[u]]
    return True


@njit(nogil=True, cache=True)
def reduce_arrays(arrays: PassArrays) -> tuple[Program, Integers, Floats]:
    """The program of one pass on merged cells.

    Returns:
        The program; the merged cell of each support cell, [s]; its share of the merged count, [s].
    """
    # cells that nothing tells apart have the same gradient: merged, they are one variable and the ridge
    # splits them as below
    group, first = merge_cells(
        arrays.allowed, arrays.labels, arrays.widths, arrays.bound_labels, arrays.bound_widths
    )
    n_cells, n_groups = group.size, first.size
    totals = np.zeros(n_groups)
    for i in range(n_cells):
        totals[group[i]] += arrays.inhabitants[i]
    share = np.zeros(n_cells)
    # a cell without people in the parent gets no share; its group may have none at all
    for i in range(n_cells):
        if totals[group[i]] > 0:
            share[i] = arrays.inhabitants[i] / totals[group[i]]
    allowed = arrays.allowed
    if n_groups < n_cells:
        # all cells of a group are alike in this, so the first one stands for them
        allowed = np.empty((arrays.allowed.shape[0], n_groups), np.bool_)
        for c in range(allowed.shape[0]):
            for i in range(n_groups):
                allowed[c, i] = arrays.allowed[c, first[i]]
    # children with equal variances share one H: memory and products are by kind and not by child
    kind, leaders = _kinds(arrays.weights)
    answers, sizes, weights, targets = _partitions(arrays, first, leaders)
    ridge = ridges(answers, sizes, weights, _relative(totals, arrays.inhabitants))
    # H's diagonal: an answer's weight once for each query that counts the cell
    curvature = ridge.copy()
    for z in range(leaders.size):
        for k in range(answers.shape[0]):
            for i in range(n_groups):
                if answers[k, i] >= 0:
                    curvature[z, i] += weights[z, answers[k, i]]
    scale = _scales(curvature)
    # held where it is small: a product with H then costs less than one by answers
    dense = n_groups <= DENSE_CELLS and leaders.size * n_groups * n_groups <= MOST_ENTRIES
    hessian = np.zeros((leaders.size, n_groups, n_groups) if dense else (0, 0, 0))
    linear = np.zeros(allowed.shape if dense else (0, 0))
    # cell by cell, since the kernels ask which answers a cell counts in
    by_cell = answers.T.copy()
    if dense:
        _fill_linear(by_cell, targets, linear)
        for z in range(leaders.size):
            fill_hessian(answers, weights[z], hessian[z])
            for i in range(n_groups):
                hessian[z, i, i] += ridge[z, i]
    rows = _rows(arrays, first, allowed, totals)
    program = Program(
        allowed,
        arrays.has_sums,
        totals,
        kind,
        by_cell,
        weights,
        targets,
        ridge,
        curvature,
        scale,
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
        arrays.bound_widths,
        arrays.bound_groups,
        rows[8],
        rows[9],
        *_least_and_middle(scale, kind),
    )
    return program, group, share


@internal
def _relative(totals: Floats, inhabitants: Floats) -> Floats:
    """Totals in units of the mean count of a support cell."""
    people, relative = 0.0, np.empty(totals.size)
    for i in range(inhabitants.size):
        people += inhabitants[i]
    for i in range(totals.size):
        relative[i] = totals[i] / (people / inhabitants.size) if people > 0.0 else 0.0
    return relative


@internal
def _scales(curvature: Floats) -> Floats:
    """`scale` as in `Program`."""
    scale = curvature.copy()
    # with one kind no sibling is measured better
    if scale.shape[0] > 1:
        for i in range(scale.shape[1]):
            largest = 0.0
            for z in range(scale.shape[0]):
                largest = max(largest, curvature[z, i])
            for z in range(scale.shape[0]):
                scale[z, i] = max(curvature[z, i], SOFTEST * largest)
    return scale


@internal
def _least_and_middle(curvature: Floats, kind: Integers) -> tuple[float, float]:
    """Minimum and median over all children; where all are of one kind, that kind's curvature gives both."""
    n_kinds, n_cells = curvature.shape
    ordered = curvature.reshape(-1).copy()
    # one kind: its curvatures in any number of copies have the same minimum and median
    if n_kinds > 1:
        ordered = np.empty(kind.size * n_cells)
        for c in range(kind.size):
            for i in range(n_cells):
                ordered[c * n_cells + i] = curvature[kind[c], i]
    n = ordered.size
    if n == 0:
        return 1.0, 1.0
    # in order of size, so that the order of the children does not matter
    sort_first(ordered, n)
    middle = ordered[n // 2] if n % 2 == 1 else (ordered[n // 2 - 1] + ordered[n // 2]) * 0.5
    return ordered[0], middle


@internal
def _kinds(weights: Floats) -> tuple[Integers, Integers]:
    """The kind of each child, numbered as they first appear, [C]; and the first child of each kind, [K]."""
    n_children = weights.shape[1]
    kind, leaders = np.zeros(n_children, np.int64), np.zeros(n_children, np.int64)
    n = 0
    for c in range(n_children):
        same, k = False, 0
        while k < n and not same:
            same = True
            # compared exactly: children whose variances differ at all have an H of their own
            for q in range(weights.shape[0]):
                same &= weights[q, c] == weights[q, leaders[k]]
            k += not same
        if k == n:
            leaders[n] = c
            n += 1
        kind[c] = k
    return kind, leaders[:n].copy()


@internal
def _partitions(
    arrays: PassArrays, first: Integers, leaders: Integers
) -> tuple[Integers, Integers, Floats, Floats]:
    """Answers of merged cells; queries that split them alike become one.

    Args:
        arrays: The pass.
        first: A support cell of each merged cell.
        leaders: A child of each kind.
    Returns:
        Answers as in `Program`; how many each partition has; weights and targets as in `Program`.
    """
    n_queries, n_cells = arrays.labels.shape[0], first.size
    n_children = arrays.allowed.shape[0]
    answers = np.empty((n_queries, n_cells), np.int64)
    starts = np.zeros(n_queries + 1, np.int64)
    # a partition for each different way in which queries split the cells
    same, sizes = np.empty(n_queries, np.int64), np.zeros(n_queries, np.int64)
    columns = np.empty((n_queries, n_cells), np.int64)
    labels = np.empty(n_cells, np.int64)
    n = int(np.int64(0))
    for q in range(n_queries):
        sizes[q] = _canonical(arrays.labels[q], arrays.widths[q], first, labels, columns[q])
        if sizes[q] > 0:
            # labels in order of first appearance make equal splits equal arrays
            same[q] = _find(answers, starts, n, labels, sizes[q])
            if same[q] == n:
                for i in range(n_cells):
                    answers[n, i] = starts[n] + labels[i] if labels[i] >= 0 else -1
                starts[n + 1] = starts[n] + sizes[q]
                n += 1
    weights, targets = np.zeros((leaders.size, starts[n])), np.zeros((n_children, starts[n]))
    place = 0
    for q in range(n_queries):
        width, column = arrays.widths[q], columns[q]
        # measurements of the same answer become one: weights add, and so do weights times values
        if sizes[q] > 0:
            start = starts[same[q]]
            for z in range(leaders.size):
                for k in range(sizes[q]):
                    weights[z, start + k] += arrays.weights[q, leaders[z]]
            for c in range(n_children):
                weight = arrays.weights[q, c]
                of_child = targets[c, start : start + sizes[q]]
                for k in range(of_child.size):
                    of_child[k] += weight * arrays.values[np.uint64(place + column[k])]
                place += width
        else:
            # a query that counts no merged cell has values all the same: they are passed over
            place += n_children * width
    part_sizes = np.empty(n, np.int64)
    for k in range(n):
        part_sizes[k] = starts[k + 1] - starts[k]
    return answers[:n].copy(), part_sizes, weights, targets


@internal
def _canonical(given: Int32s, width: int, first: Integers, labels: Integers, columns: Integers) -> int:
    """Number labels of merged cells in order of appearance; returns how many there are."""
    number = np.full(width, -1, np.int64)
    n = 0
    # labels of the first cell of each group, which all of the group share
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


@internal
def _find(answers: Integers, starts: Integers, n: int, labels: Integers, size: int) -> int:
    """The partition with these labels, or n when there is none."""
    # the number of answers is compared first, as it costs nothing
    for k in range(n):
        same = starts[k + 1] - starts[k] == size
        for i in range(labels.size):
            if not same:
                break
            same = answers[k, i] == (starts[k] + labels[i] if labels[i] >= 0 else -1)
        if same:
            return k
    return n


@internal
def _fill_linear(by_cell: Integers, targets: Floats, linear: Floats) -> None:
    n_cells = by_cell.shape[0]
    for c in range(targets.shape[0]):
        of_child = linear[c]
        for q in range(by_cell.shape[1]):
            for i in range(n_cells):
                # `-1` is tested before it becomes unsigned
                answer = by_cell[i, q]
                of_child[i] += targets[c, np.uint64(answer)] if answer >= 0 else 0.0


@internal
def _rows(
    arrays: PassArrays, first: Integers, allowed: Bools, sums: Floats
) -> tuple[
    Integers,
    Integers,
    Integers,
    Floats,
    Floats,
    Bools,
    Integers,
    Integers,
    Integers,
    Integers,
]:
    """Rows that can bind; arrays as in `Program`, in its order."""
    n_children, n_bounds = allowed.shape[0], arrays.bound_labels.shape[0]
    # room for every bound; rows that cannot bind are not listed
    most = arrays.lower.size
    group, bound, label = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    lower, upper = np.empty(most), np.empty(most)
    labels = np.empty((n_bounds, first.size), np.int64)
    start = np.empty(n_bounds, np.int64)
    number = np.full(most, -1, np.int64)
    has_rows, members = np.zeros(n_children, np.bool_), np.zeros(n_bounds, np.int64)
    n, place = 0, 0
    for b in range(n_bounds):
        start[b] = place
        width = arrays.bound_widths[b]
        for i in range(first.size):
            labels[b, i] = arrays.bound_labels[b, first[i]]
        groups = arrays.bound_groups[b]
        sizes = group_sizes(groups)
        # what a group may have is what any of its children may have
        reachable = allowed_in_groups(allowed, groups, sizes)
        busy = np.zeros(sizes.size, np.bool_)
        for g in range(sizes.size):
            members[b] = max(members[b], sizes[g])
            capacity = capacities(labels[b], width, reachable[g], arrays.has_sums, sums)
            # Counts are not negative, and under given sums they are at most the parent's: a bound beyond that
            # never binds. With fewer rows, the active set is smaller.
            for k in range(width):
                low = arrays.lower[place + k]
                high = arrays.upper[place + k]
                low = -np.inf if low <= 0 else low
                high = np.inf if high >= capacity[k] else high
                if low > -np.inf or high < np.inf:
                    group[n], bound[n], label[n], lower[n], upper[n] = g, b, k, low, high
                    number[place + k] = n
                    busy[g] = True
                    n += 1
            place += width
        # children without rows are passed over in every sum of rows
        for c in range(n_children):
            has_rows[c] |= busy[groups[c]]
    return (
        group[:n],
        bound[:n],
        label[:n],
        lower[:n],
        upper[:n],
        has_rows,
        labels,
        start,
        members,
        number,
    )
