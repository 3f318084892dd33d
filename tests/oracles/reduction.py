"""From a family and one pass to the smallest quadratic program with the same answer.

Cells that no query, no bound and no carried row of the pass tells apart, and that are allowed in the same children,
are merged. That is exact: the objective and the rows depend only on the merged sums. Splitting a merged sum in the
parent's proportions keeps every cell sum and does not raise the ridge's value. So a pass over `total` becomes a program
of one or two cells a child, whatever the support.

The ridge. Where the pass's queries do not determine every merged cell of a child, the optimum is not unique, and
    1/2 * RIDGE * (smallest weight) * sum over cells of  x^2 * (parent's mean count) / (parent's count)
is added for that child, with all the parent's counts taken as 1 at a root. The smallest weight is the child's own
smallest weight above zero. For a child that nothing measures, it is the smallest weight of any child. Under the
parent's cell sums the ridge is smallest where the child is proportional to the parent, so undetermined counts follow
the parent's make-up. The ridge has the weight of a measurement with 16,384 times the variance of the noisiest query,
which is far below what the noise could show. A smaller ridge (2^-20 was tried) leaves some programs too
ill-conditioned to certify.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse
from tests.oracles.block_program import BlockProgram, Partition, RowSet

from tallyveil.arrays import Bools, Floats, Int32s, Integers
from tallyveil.estimation.least_squares import SumBounds
from tallyveil.estimation.problem import EstimationPass, FamilyProblem
from tallyveil.kernels.family.reduction import RIDGE


@dataclass(frozen=True, slots=True)
class Merging:
    """How support cells map to a program's cells.

    Attributes:
        group: Program cell of each support cell, shape (s,).
        share: Part of the merged count that is the cell's, shape (s,).
        first: One support cell of each program cell, shape (g,).
    """

    group: Integers
    share: Floats
    first: Integers

    def expand(self, merged: Floats) -> Floats:
        """Counts of shape (C, g) on the support, shape (C, s)."""
        return np.asarray(merged[:, self.group] * self.share)

    def merge(self, counts: Floats) -> Floats:
        """Counts on the support, shape (C, s), summed to those of the program's cells, shape (C, g)."""
        merged = np.zeros((self.first.size, counts.shape[0]))
        np.add.at(merged, self.group, counts.T)
        return merged.T


def reduce_pass(
    problem: FamilyProblem, allowed: Bools, current: EstimationPass, bounds: Sequence[SumBounds]
) -> tuple[BlockProgram, Merging]:
    """The program of one pass, on merged cells.

    Args:
        problem: The family.
        allowed: Where children may be above zero, shape (C, s).
        current: The pass.
        bounds: Constraints and the rows carried from earlier passes, on support cells.
    """
    queries = problem.queries(current)
    merging = _merge(problem, allowed, [query.labels for query in queries], bounds)
    first = merging.first
    inhabitants = _inhabitants(problem)
    weight: Floats = np.bincount(merging.group, weights=inhabitants, minlength=first.size).astype(np.float64)
    sums = None if problem.parent_counts is None else weight
    partitions = _partitions([(q.labels[first], q.weights, q.values) for q in queries])
    merged_bounds = [replace(one, labels=one.labels[first]) for one in bounds]
    relative = weight / inhabitants.mean()
    return _program(allowed[:, first], sums, relative, partitions, merged_bounds), merging


def _inhabitants(problem: FamilyProblem) -> Floats:
    """The parent's counts; all ones at a root."""
    if problem.parent_counts is None:
        return np.ones(problem.n_cells)
    return problem.parent_counts.astype(np.float64)


def _program(
    allowed: Bools,
    sums: Floats | None,
    weight: Floats,
    partitions: tuple[Partition, ...],
    bounds: Sequence[SumBounds],
) -> BlockProgram:
    kind, weights = _kinds(partitions, allowed.shape[0])
    hessian = np.stack([_hessian(partitions, own, weight.size) for own in weights])
    ridge = np.stack([_ridge(partitions, own, weight, weights) for own in weights])
    hessian[:, np.arange(weight.size), np.arange(weight.size)] += ridge
    child, cell = np.nonzero(allowed)
    block = _blocks(bounds, allowed.shape[0])
    return BlockProgram(
        allowed=allowed,
        sums=sums,
        partitions=partitions,
        kind=kind,
        block=block,
        ridge=ridge,
        hessian=hessian,
        linear=_linear(partitions, allowed.shape),
        rows=_rows(allowed, sums, child, cell, bounds, block),
        child=child,
        cell=cell,
        centre=np.zeros(child.size),
    )


def _merge(
    problem: FamilyProblem, allowed: Bools, labels: Sequence[Int32s], bounds: Sequence[SumBounds]
) -> Merging:
    """Group cells that nothing in the pass tells apart."""
    n_cells = problem.n_cells
    keys = [*labels, *(one.labels for one in bounds)]
    if any(_separates_all(one) for one in labels):
        group = np.arange(n_cells, dtype=np.int64)
    else:
        group = _allowed_patterns(allowed)
        for one in keys:
            combined = group * (int(one.max(initial=-1)) + 2) + one + 1
            group = np.unique(combined, return_inverse=True)[1].astype(np.int64)
        group = _in_order_of_appearance(group)
    first = np.unique(group, return_index=True)[1].astype(np.int64)
    weight = _inhabitants(problem)
    totals = np.bincount(group, weights=weight, minlength=first.size)[group]
    share = np.divide(weight, totals, out=np.zeros(n_cells), where=totals > 0)
    return Merging(group, share, first)


def _in_order_of_appearance(group: Integers) -> Integers:
    """The same groups, numbered as they first appear."""
    first, inverse = np.unique(group, return_index=True, return_inverse=True)[1:]
    return np.asarray(np.argsort(np.argsort(first))[inverse])


def _separates_all(labels: Int32s) -> bool:
    return bool(labels.size and labels.min() >= 0 and np.unique(labels).size == labels.size)


def _allowed_patterns(allowed: Bools) -> Integers:
    """Number of the pattern of children that each cell is allowed in, shape (s,)."""
    if allowed.all():
        return np.zeros(allowed.shape[1], dtype=np.int64)
    packed = np.ascontiguousarray(np.packbits(allowed, axis=0).T)
    return np.unique(packed, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _partitions(queries: Sequence[tuple[Int32s, Floats, Floats]]) -> tuple[Partition, ...]:
    """Queries on the merged cells; those that split them alike become one, by weighted mean."""
    found: dict[bytes, Partition] = {}
    for labels, weights, values in queries:
        canonical, columns = _canonical(labels)
        if columns.size == 0:
            continue
        answers, total = values[:, columns], weights
        key = canonical.tobytes()
        if key in found:
            other = found[key]
            total = other.weights + weights
            answers = other.weights[:, None] * other.values + weights[:, None] * answers
            answers = np.divide(answers, total[:, None], out=np.zeros_like(answers), where=total[:, None] > 0)
        found[key] = Partition(canonical, total, answers)
    return tuple(found.values())


def _kinds(partitions: Sequence[Partition], n_children: int) -> tuple[Integers, Floats]:
    """Kind of each child, in order of appearance, (C,); and the weights of each kind, (kinds, partitions)."""
    weights = np.array([one.weights for one in partitions], dtype=np.float64)
    weights = weights.reshape(len(partitions), n_children).T
    rows = [tuple(own) for own in weights.tolist()]
    number = {row: k for k, row in enumerate(dict.fromkeys(rows))}
    return np.array([number[row] for row in rows], dtype=np.int64), np.array(list(number), dtype=np.float64)


def _canonical(labels: Int32s) -> tuple[Integers, Integers]:
    """Labels renumbered in order of first appearance, and the answer column of each new number."""
    used, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    order = np.argsort(np.where(used >= 0, first, -1), kind="stable")
    rank = np.empty(used.size, dtype=np.int64)
    rank[order] = np.arange(used.size)
    offset = int(used.size > 0 and used[0] < 0)
    return rank[inverse] - offset, used[order][offset:].astype(np.int64)


def _hessian(partitions: Sequence[Partition], weights: Floats, n_cells: int) -> Floats:
    hessian = np.zeros((n_cells, n_cells))
    for one, weight in zip(partitions, weights, strict=True):
        same = (one.labels[:, None] == one.labels) & (one.labels >= 0)
        hessian += weight * same
    return hessian


def _linear(partitions: Sequence[Partition], shape: tuple[int, ...]) -> Floats:
    linear = np.zeros(shape)
    for one in partitions:
        used = one.labels >= 0
        linear[:, used] += one.weights[:, None] * one.values[:, one.labels[used]]
    return linear


def _ridge(partitions: Sequence[Partition], weights: Floats, relative: Floats, everyone: Floats) -> Floats:
    """Diagonal that makes a kind's H definite; zeros where it is already.

    Args:
        partitions: The pass's queries.
        weights: The kind's weight of each.
        relative: Parent's count of each program cell over its mean count of a support cell, shape (g,).
        everyone: Weights of all kinds.
    """
    used = [one for one, weight in zip(partitions, weights, strict=True) if weight > 0]
    if any(int(one.labels.min()) >= 0 and one.values.shape[1] == relative.size for one in used):
        return np.zeros(relative.size)
    if sum(one.values.shape[1] for one in used) >= relative.size and _determined(used, relative.size):
        return np.zeros(relative.size)
    own = weights if used else everyone
    size = RIDGE * float(own[own > 0].min(initial=np.inf)) if (own > 0).any() else RIDGE
    return np.asarray(size / np.where(relative > 0, relative, 1.0))


def _determined(partitions: Sequence[Partition], n_cells: int) -> bool:
    """Whether the answers determine every cell: Cholesky's method with pivots, on H with equal weights."""
    matrix = _hessian(partitions, np.ones(len(partitions)), n_cells)
    left, largest = np.ones(n_cells, dtype=np.bool_), 0.0
    for _ in range(n_cells):
        pivot = int(np.where(left, np.diagonal(matrix), -np.inf).argmax())
        largest = max(largest, float(matrix[pivot, pivot]))
        if matrix[pivot, pivot] <= 1e-9 * largest:
            return False
        matrix = matrix - np.outer(matrix[:, pivot], matrix[pivot]) / matrix[pivot, pivot]
        left[pivot] = False
    return True


def _blocks(bounds: Sequence[SumBounds], n_children: int) -> Integers:
    """Block of each child, shape (C,): children that share a row are in one block."""
    pairs = [np.zeros((2, 0), dtype=np.int64)]
    for one in bounds:
        first = np.unique(one.groups, return_index=True)[1]
        pairs.append(np.stack([np.arange(n_children), first[one.groups]]))
    from scipy.sparse.csgraph import connected_components  # here, since kernels solve nearly all families

    rows, columns = np.concatenate(pairs, axis=1)
    graph = sparse.coo_matrix((np.ones(rows.size), (rows, columns)), shape=(n_children, n_children))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)


def _rows(
    allowed: Bools,
    sums: Floats | None,
    child: Integers,
    cell: Integers,
    bounds: Sequence[SumBounds],
    block: Integers,
) -> RowSet:
    """All rows that can bind, flattened."""
    variable = np.full(allowed.shape, -1, dtype=np.int64)
    variable[child, cell] = np.arange(child.size)
    blocks = [_block(allowed, sums, variable, one) for one in bounds]
    of_row = [
        block[np.unique(one.groups, return_index=True)[1][found[0]]]
        for one, found in zip(bounds, blocks, strict=True)
    ]
    start = np.cumsum([0, *(one[0].size for one in blocks)])
    row = np.concatenate([np.zeros(0, np.int64), *(b[3] + start[i] for i, b in enumerate(blocks))])
    column = np.concatenate([np.zeros(0, np.int64), *(one[4] for one in blocks)])
    matrix = sparse.csr_matrix((np.ones(row.size), (row, column)), shape=(int(start[-1]), child.size))
    none = np.zeros(0)
    return RowSet(
        block=np.concatenate([np.zeros(0, np.int64), *of_row]),
        lower=np.concatenate([none, *(one[1] for one in blocks)]),
        upper=np.concatenate([none, *(one[2] for one in blocks)]),
        matrix=matrix,
    )


def _block(
    allowed: Bools, sums: Floats | None, variable: Integers, one: SumBounds
) -> tuple[Integers, Floats, Floats, Integers, Integers]:
    """(group, lower, upper) of the rows of one bound that can bind, and their (row, variable) entries."""
    n_groups, n_answers = one.lower.shape
    used = np.flatnonzero(one.labels >= 0)
    capacity = np.full((n_groups, n_answers), np.inf)
    if sums is not None:
        reachable = np.zeros((n_groups, allowed.shape[1]), dtype=np.bool_)
        np.logical_or.at(reachable, one.groups, allowed)
        where = np.arange(n_groups)[:, None] * n_answers + one.labels[used]
        weights = (reachable[:, used] * sums[used]).reshape(-1)
        capacity = np.bincount(where.reshape(-1), weights=weights, minlength=n_groups * n_answers)
        capacity = capacity.reshape(n_groups, n_answers)
    upper = np.where(one.upper >= capacity, np.inf, one.upper)
    # an equality that fills its capacity keeps its lower side, which is what binds
    lower = np.where(one.lower <= 0, -np.inf, one.lower)
    keep = np.isfinite(lower) | np.isfinite(upper)
    number = np.full((n_groups, n_answers), -1, dtype=np.int64)
    number[keep] = np.arange(int(keep.sum()))
    row = np.where(variable[:, used] >= 0, number[one.groups][:, one.labels[used]], -1)
    entries = row >= 0
    return np.nonzero(keep)[0], lower[keep], upper[keep], row[entries], variable[:, used][entries]
