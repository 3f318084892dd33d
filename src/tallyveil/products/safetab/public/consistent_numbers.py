"""Numbers of groups that keep all rules, from their estimates.

*Least squares.* A group with measured cells x_j, of noise variances d_j and sum d, and with a total of variance v, has
the covariance diag(d_j) + (v - d) / d^2 (d_j d_k). The equations of a nation and its states are imposed by generalised
least squares, which is linear: with covariances C_g of the cells of the nation and the states, M the sum of all C_g and
the gap e = nation - sum of the states, a state moves by C_g M^-1 e, the nation by - C_g M^-1 e, and the covariance
becomes C_g - C_g M^-1 C_g. So no variance grows. Finer cells move in proportion to d_j, and so does a group whose total
is published elsewhere.

*The nearest point.* Inequalities and counts of 0 or more have no such formula. Where the least-squares numbers break
one, the numbers are the nearest point that keeps all rules, by the variances. It is found in passes: first the totals;
then the cells of tables of 4 ages, given the totals; then those of 9 and of 23 ages, given the coarser ones. In one
pass for all, each of many cells would be moved a little in one direction, and the totals by the sum of that. A later
pass always has a point that keeps the rules: groups that all have the same shares of ages. Groups that no rule connects
are solved by themselves.

True totals keep the rules of totals. So the squared distance of all totals from them, weighted by inverse variances, is
never larger at the nearest point than after least squares; that of a single number can be.

*Whole numbers.* In every pass an integer program moves each cell to one of its two neighbouring whole numbers, at the
least sum of distances, and farther only where that breaks a rule.

Worked case. A nation of 10 with variance 2, states of 4 and 3 with variance 1 each: M = 4, e = 3. The nation becomes
10 - 2 x 3 / 4 = 8.5, with variance 2 - 4 / 4 = 1; the states 4.75 and 3.75, with variance 1 - 1 / 4 = 0.75.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import piqp
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from tallyveil.arrays import Bools, Floats, Integers
from tallyveil.errors import ConfigError, SolverError, TallyveilError
from tallyveil.estimation.highs import IntegerProgram, solve_integer
from tallyveil.estimation.problem import UNBOUNDED
from tallyveil.products.safetab.public.consistent_groups import (
    Groups,
    NationSum,
    Rules,
    cells_in,
    published_contradiction,
    summed,
)

TOLERANCE: Final = 1e-6
"""Persons by which numbers that are not whole may break a rule."""

_STOP: Final = 1e-8
"""At which the interior-point method stops, in persons, or in shares of a larger distance. Ten times as much is still
below TOLERANCE; a hundredth of it is not reached where rules leave no room between two numbers."""

_GAP: Final = 1e-10
"""Duality gap at which it stops, in squares of the same unit: the root of twice the gap bounds the distance from the
nearest point, at the weight of the most exact number. The solver's default would allow ten thousand times as much."""

_NO_POINT: Final = 1e-14
"""Relative residual at which the solver accepts a proof that no point keeps the rules. At its default, 1e-8, it
accepted such proofs for problems that leave little room. Where there really is no point, it stops at `_MOST_STEPS`."""

_FAR: Final = 100
"""A rule is left out at first if its room is more than this times the largest standard deviation and excess."""

_UNITS: Final = 1000
"""Into how many units a large distance is divided, each of which is one person otherwise."""

_MOST_UNITS: Final = 4
"""Number of units that are tried, each ten times the one before it. With one unit the gap may stop falling before it is
small enough. This happened in one of some thousands of problems of 51 states, and not with the next unit."""

_MOST_POINTS: Final = 5
"""Number of points that are sought one after another. A distance of 1e8 persons needs two or three, because each point
breaks rules by 1e-8 of what the point before it did. Further points gain nothing."""

_MOST_STEPS: Final = 200
"""Steps of the interior-point method, which usually needs one or two dozen."""

_COST: Final = 1024
"""Cost of one person's distance in the integer program; distances are rounded to 1/1024, which decides between points
that are as near as that."""


@dataclass(frozen=True, slots=True, eq=False)
class Reduction:
    """By how much least squares lowers the covariance of a group's cells in some detail.

    Attributes:
        detail: 0 for the total.
        covariance: What is taken away, shape (cells, cells).
    """

    detail: int
    covariance: Floats


@dataclass(frozen=True, slots=True, eq=False)
class LinearNumbers:
    """Estimates after least squares.

    Attributes:
        cells: Shape (cells,).
        reductions: By group; groups that did not move are left out.
    """

    cells: Floats
    reductions: dict[int, list[Reduction]]


def least_squares(groups: Groups, sums: Sequence[NationSum]) -> LinearNumbers:
    """Impose the totals that are published elsewhere, and the equations of nations and their states.

    Raises:
        ConfigError: totals that are published elsewhere contradict each other.
    """
    cells, variance = groups.cells.copy(), groups.variance.copy()
    noise = groups.sums(groups.noise)
    reductions: dict[int, list[Reduction]] = {}
    for group in np.flatnonzero(~np.isnan(groups.known)).tolist():
        span = groups.span(group)
        cells[span] += groups.noise[span] / noise[group] * (groups.known[group] - groups.total[group])
        reductions[group] = [Reduction(0, np.array([[variance[group]]]))]
        variance[group] = 0.0
    for total in sums:
        members = [total.nation, *total.states.tolist()]
        parts = [_part(groups, cells, group, float(variance[group]), total.detail) for group in members]
        gap = parts[0].sums - np.sum([part.sums for part in parts[1:]], axis=0)
        whole = np.sum([part.covariance for part in parts], axis=0)
        # Of totals that are all published elsewhere the sum has no variance, and then no gap may be left.
        price = np.linalg.lstsq(whole, gap, rcond=1e-12)[0]
        # Rounding leaves 1e-16 of a gap, which the ratio of the largest variance to the smallest may multiply.
        if np.abs(whole @ price - gap).max() > TOLERANCE + 1e-12 * np.abs(gap).max():
            raise published_contradiction()
        inverse = np.linalg.pinv(whole, rcond=1e-12, hermitian=True)
        for sign, group, part in zip([-1.0, *[1.0] * len(total.states)], members, parts, strict=True):
            into = cells_in(int(groups.detail[group]), total.detail)
            share = groups.noise[groups.span(group)] / part.noise[into]
            cells[groups.span(group)] += sign * share * (part.covariance @ price)[into]
            lowered = part.covariance @ inverse @ part.covariance
            reductions.setdefault(group, []).append(Reduction(total.detail, lowered))
    return LinearNumbers(cells, reductions)


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """A group in the detail of an equation: sums of its cells, their noise variances and their covariance."""

    sums: Floats
    noise: Floats
    covariance: Floats


def _part(groups: Groups, cells: Floats, group: int, variance: float, detail: int) -> _Part:
    into, span = cells_in(int(groups.detail[group]), detail), groups.span(group)
    noise = summed(into, groups.noise[span])
    both = (variance - noise.sum()) / noise.sum() ** 2
    covariance = np.diag(noise) + both * np.outer(noise, noise)
    return _Part(summed(into, cells[span]), noise, covariance)


def consistent_cells(
    groups: Groups, rules: Sequence[Rules], cells: Floats, *, whole: bool
) -> Floats | Integers:
    """Cells that keep all rules, pass by pass.

    Args:
        groups: The groups.
        rules: Those of each detail, as `rules_of` gives them.
        cells: Cells after least squares.
        whole: Whether the cells are whole numbers of 0 or more. Otherwise rules are kept within `TOLERANCE`.
    Raises:
        ConfigError: totals that are published elsewhere contradict each other.
        SolverError: a solver stopped early.
    """
    kind = _Kind(whole, bool(np.isfinite(groups.known).any()))
    numbers: Floats | Integers = np.zeros(0)
    for detail, of_detail in enumerate(rules):
        _, into = groups.cells_at(detail)
        target, noise = summed(into, cells), summed(into, groups.noise)
        if not detail:
            numbers = _of_pass(of_detail, target, groups.variance, groups.known, kind)
            continue
        _, coarser = groups.cells_at(detail - 1)
        parts = np.zeros(len(target), np.int64)
        parts[into] = coarser
        # Within a coarser cell the finer ones move with it, in proportion to their noise.
        rest = numbers - np.bincount(parts, target)
        target = target + (rest / np.bincount(parts, noise))[parts] * noise
        # A cell that is not divided further is known.
        given = np.where(np.bincount(parts)[parts] > 1, np.nan, numbers[parts])
        divided = _divided(of_detail, target, detail).with_sums(parts, numbers)
        numbers = _of_pass(divided, target, noise, given, kind)
    return numbers


def _divided(rules: Rules, target: Floats, detail: int) -> Rules:
    """The rules of a detail, where cells add up to coarser ones that keep the rules already.

    Where a coarser rule leaves no room, the finer ones are equations. The last of some equations that add up to one
    that holds already says nothing new, and is left out.
    """
    into = cells_in(detail, detail - 1)
    number, cell = np.divmod(np.arange(len(rules.right)), len(into))
    key = number * (into[-1] + 1) + into[cell]
    over = rules.matrix @ target - rules.right
    tight = rules.equal | (np.bincount(key, over)[key] > -TOLERANCE / 10)
    last = np.append(key[1:] != key[:-1], np.ones(min(1, len(key)), np.bool_))
    return Rules(rules.matrix, rules.right, tight).taken(~(tight & last))


def broken_rules(groups: Groups, rules: Sequence[Rules], cells: Floats | Integers) -> int:
    """How many rules, as `rules_of` gives them, cells break by more than `TOLERANCE`."""
    return sum(
        int((of_detail.excess(np.bincount(groups.cells_at(detail)[1], cells)) > TOLERANCE).sum())
        for detail, of_detail in enumerate(rules)
    )


@dataclass(frozen=True, slots=True)
class _Kind:
    """What all passes have in common.

    Attributes:
        whole: Whether the numbers are whole and 0 or more.
        published: Whether totals are published elsewhere. Without these every pass has a point.
    """

    whole: bool
    published: bool

    def no_point(self, said: str) -> TallyveilError:
        """What is wrong where a pass has no point."""
        if self.published:
            return published_contradiction()
        return SolverError(
            f"consistent groups: {said}. Please report this with the published tables.",
            code="safetab-nearest",
        )


def _of_pass(rules: Rules, target: Floats, variance: Floats, given: Floats, kind: _Kind) -> Floats | Integers:
    """The numbers of a pass.

    Args:
        rules: What they keep.
        target: What they are near to.
        variance: Inverse weights.
        given: Numbers that are known, otherwise NaN.
        kind: What all passes have in common.
    """
    rules, given = _settled(rules, given, kind.whole)
    if (rules.excess(np.zeros(len(target)))[np.diff(rules.matrix.indptr) == 0] > TOLERANCE).any():
        raise kind.no_point("known numbers contradict each other")
    rules = rules.taken(np.diff(rules.matrix.indptr) > 0)
    target = np.where(np.isnan(given), target, given)
    numbers: Floats | Integers = target.copy()
    if kind.whole:
        # Rounding to the nearest whole number costs the least, and keeps inequalities of single cells.
        numbers = np.rint(np.maximum(target, 0.0)).astype(np.int64)
    broken = (rules.excess(target) > TOLERANCE) | (rules.excess(numbers) > TOLERANCE)
    unsettled = np.zeros(len(target), np.bool_)
    unsettled[rules.matrix[broken].indices] = True
    if kind.whole:
        # A cell in no rule is rounded, and raised to 0.
        unsettled[rules.matrix.indices[target[rules.matrix.indices] < -TOLERANCE]] = True
    for cells, rules_here in _parts(rules, unsettled):
        near = target[cells]
        if (rules_here.excess(near) > TOLERANCE).any() or (kind.whole and near.min() < -TOLERANCE):
            near = _nearest(rules_here, near, variance[cells], kind)
        numbers[cells] = _whole(rules_here, np.maximum(near, 0.0), kind) if kind.whole else near
    return numbers


def _settled(rules: Rules, given: Floats, whole: bool) -> tuple[Rules, Floats]:
    """The rules for the numbers that are not known. Numbers of 0 or more that can only be 0 become known.

    Without it rules would leave no room between two numbers, and an interior point needs room.
    """
    while True:
        fixed = ~np.isnan(given)
        matrix = rules.matrix.copy()
        right = rules.right - matrix[:, fixed] @ given[fixed]
        matrix.data[fixed[matrix.indices]] = 0
        matrix.eliminate_zeros()
        left = Rules(matrix, right, rules.equal)
        sizes = np.diff(matrix.indptr)
        minus = np.add.reduceat(np.append(matrix.data < 0, False).astype(np.int64), matrix.indptr[:-1])
        minus = np.where(sizes > 0, minus, 0)
        nothing = (right <= 0) & (minus == 0) | left.equal & (right >= 0) & (minus == sizes)
        cells = matrix[nothing & (sizes > 0)].indices
        if not whole or not len(cells):
            return left, given
        given = given.copy()
        given[cells] = 0.0


def _parts(rules: Rules, unsettled: Bools) -> Iterator[tuple[Integers, Rules]]:
    """Cells that rules connect with each other and with an unsettled cell, ascending, and their rules."""
    n_rules, n = rules.matrix.shape
    entries = rules.matrix.tocoo()
    # Cells and rules are the nodes of a graph.
    graph = sparse.csr_matrix(
        (np.ones(entries.nnz, np.int8), (entries.col, n + entries.row)), shape=(n + n_rules, n + n_rules)
    )
    _, label = connected_components(graph, directed=False)
    if not unsettled.any():
        return
    of_cells, of_rules = _by_label(label[:n]), _by_label(label[n:])
    local = np.zeros(n, np.int64)
    for number in np.unique(label[:n][unsettled]).tolist():
        cells, which = of_cells[number], of_rules.get(number, np.zeros(0, np.int64))
        local[cells] = np.arange(len(cells))
        rows = rules.matrix[which]
        matrix = sparse.csr_matrix(
            (rows.data, local[rows.indices], rows.indptr), shape=(len(which), len(cells))
        )
        yield cells, Rules(matrix, rules.right[which], rules.equal[which])


def _by_label(label: Integers) -> dict[int, Integers]:
    """Positions of each label, ascending."""
    order = np.argsort(label, kind="stable")
    values, starts = np.unique(label[order], return_index=True)
    return dict(zip(values.tolist(), np.split(order, starts[1:]), strict=True))


def _nearest(rules: Rules, target: Floats, variance: Floats, kind: _Kind) -> Floats:
    """The nearest point.

    The solver stops at a share of the largest distance. Where that is many persons, its point still breaks rules a
    little, and the point nearest to it takes its place. A nearest point is no farther from any point that keeps the
    rules, and so no farther from the one that is sought.

    Raises:
        ConfigError, SolverError: the solver stopped before it found a point.
    """
    point = target
    for _ in range(_MOST_POINTS):
        point = _nearer(rules, point, variance, kind)
        if _distance(rules, point, kind) <= TOLERANCE:
            return np.maximum(point, 0.0) if kind.whole else point
    raise _not_found(kind, "rules were still broken")


def _nearer(rules: Rules, target: Floats, variance: Floats, kind: _Kind) -> Floats:
    """The nearest point, to a share of the largest distance. It is sought by the rules that are near the target."""
    room, distance = rules.right - rules.matrix @ target, _distance(rules, target, kind)
    reach = _FAR * (np.sqrt(variance.max()) + distance)
    while True:
        # A rule with room for a hundred million people has a price of almost 0. Room times price is part of the duality
        # gap, where its rounding error would hide everything else.
        near, bounded = rules.equal | (room <= reach), (target <= reach) & kind.whole
        point, allowed = _solved(rules.taken(near), target, variance, bounded, kind, distance)
        # The point holds if it keeps the other rules, too.
        if _distance(rules, point, kind) <= allowed:
            return point
        reach *= _FAR


def _solved(
    rules: Rules, target: Floats, variance: Floats, bounded: Bools, kind: _Kind, distance: float
) -> tuple[Floats, float]:
    """The nearest point, and by how much it may break a rule; raises as `_nearest`."""
    for unit in max(distance / _UNITS, 1.0) * 10.0 ** np.arange(_MOST_UNITS):
        status, point = _interior(rules, target, variance, bounded, unit)
        if status == piqp.PIQP_SOLVED and not (rules.excess(point) > unit * TOLERANCE).any():
            return point, unit * TOLERANCE
    raise _not_found(kind, f"the solver stopped with {status}")


def _distance(rules: Rules, numbers: Floats, kind: _Kind) -> float:
    """By how many persons numbers break a rule or are negative, at most."""
    lowest = float(numbers.min()) if kind.whole else 0.0
    return max(float(rules.excess(numbers).max(initial=0.0)), -lowest, 0.0)


def _interior(
    rules: Rules, target: Floats, variance: Floats, bounded: Bools, unit: float
) -> tuple[piqp.Status, Floats]:
    """The nearest point to a share of `unit` persons, and how the method stopped."""
    at_most, n = ~rules.equal, len(target)
    solver = piqp.SparseSolver()
    solver.settings.eps_abs, solver.settings.eps_rel = _STOP, 0.0
    solver.settings.eps_duality_gap_abs, solver.settings.eps_duality_gap_rel = _GAP, 0.0
    # Where little room is left, growing prices look like those of a contradiction before the point is reached.
    solver.settings.eps_primal_inf = solver.settings.eps_dual_inf = _NO_POINT
    solver.settings.max_iter = _MOST_STEPS
    matrix = rules.matrix.astype(np.float64)
    # Its variables are the distances from the target in units, which are small where counts or distances are large.
    room = (rules.right - matrix @ target) / unit
    solver.setup(
        sparse.diags(variance.min() / variance, format="csc"),
        np.zeros(n),
        matrix[rules.equal].tocsc(),
        room[rules.equal],
        matrix[at_most].tocsc(),
        np.full(int(at_most.sum()), -np.inf),
        room[at_most],
        np.where(bounded, -target / unit, -np.inf),
        np.full(n, np.inf),
    )
    status = solver.solve()
    return status, target + unit * np.asarray(solver.result.x)


def _not_found(kind: _Kind, said: str) -> TallyveilError:
    """What is wrong where the solver finds no point."""
    return _no_agreement() if kind.published else kind.no_point(f"the nearest numbers were not found: {said}")


def _no_agreement() -> ConfigError:
    """What may be wrong where the solver finds no point: its status does not say which."""
    return ConfigError(
        "no numbers were found that agree with all totals of --published. Either these contradict each other: a group "
        "would be larger than one that contains it, or states would not add up to their nation. Or one of them is so "
        "far from the estimates that the solver does not get there. Give totals of one publication about the people "
        "of these tables.",
        code="safetab-published-contradiction",
    )


def _whole(rules: Rules, near: Floats, kind: _Kind) -> Integers:
    """Whole numbers near a point. They go farther than to a neighbour only if nothing else works."""
    rounded = np.rint(near).astype(np.int64)
    if (rules.excess(rounded) <= TOLERANCE).all():
        return rounded
    farther, most = 0, 2 * int(max(near.max(), np.abs(rules.right).max())) + 2
    while farther <= most:
        program, low = _program(rules, near, farther)
        answer = solve_integer(program, "consistent groups")
        if answer is not None:
            up, above, below = answer.values.reshape(3, -1)
            return np.asarray(low + up + above - below)
        farther = 2 * farther + 1
    raise kind.no_point("no whole numbers keep the rules")


def _program(rules: Rules, near: Floats, farther: int) -> tuple[IntegerProgram, Integers]:
    """The integer program, and the whole numbers that its columns start from.

    A number is low + up + above - below, with `up` 0 or 1, and the others 0 to `farther`.
    """
    # A number that a tolerance has moved below a whole number is that whole number.
    low = np.floor(near + TOLERANCE).astype(np.int64)
    rest = np.clip(near - low, 0.0, 1.0)
    n, matrix = len(near), rules.matrix.tocsc()
    right = np.rint(rules.right).astype(np.int64) - matrix @ low
    program = IntegerProgram(
        cost=np.concatenate([np.rint(_COST * (1 - 2 * rest)).astype(np.int64), np.full(2 * n, _COST)]),
        lower=np.zeros(3 * n, np.int64),
        upper=np.concatenate([np.ones(n, np.int64), np.full(n, farther), np.minimum(low, farther)]),
        row_lower=np.where(rules.equal, right, -UNBOUNDED),
        row_upper=right,
        matrix=sparse.hstack([matrix, matrix, -matrix]).tocsc(),
        useful=np.ones(3 * n, np.bool_),
    )
    return program, low
