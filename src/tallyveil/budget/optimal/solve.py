"""The convex program of the best shares, and the search that solves it with a certified gap.

Problem. Let w be the shares: they sum to 1, and share i is at least its least value. Let f_k(w) be the
variances of the aims. Wanted is the minimum of sum_k a_k f_k, or of max_k a_k f_k, over all w with f_k <= r_k
for the aims with a limit.

`solve` takes steps, each the exact minimum of a simple model of the variances (`step_from`), until a lower bound
(`ShareProgram`) certifies that no other shares are much better. Where two shares can stand in for each other, the
steps become short, and an interior-point method takes over (`from_inside`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tallyveil.accounting.numbers import at_most
from tallyveil.arrays import Floats
from tallyveil.errors import SolverError

SLACK = 1e-4
"""Fraction by which a limit may be exceeded while shares are searched, so that there is room to move."""
NOISE = 1e-6
"""Relative rounding errors of variances, at most: they cannot make shares break a limit."""


class Evaluated(NamedTuple):
    """Variances at some shares.

    Attributes:
        values: Shape (aims,), in squared counts.
        slopes: Derivatives by each share; shape (aims, shares).
    """

    values: Floats
    slopes: Floats

    def unpaid(self, shares: Floats) -> Floats:
        """The part of each variance that is due to precision that no share pays for; shape (aims,)."""
        excess: Floats = np.maximum(self.values + self.slopes @ shares, 0.0)
        return excess


Variances = Callable[[Floats], Evaluated]


@dataclass(frozen=True, slots=True, eq=False)
class ShareProgram:
    """What is to be minimised over the shares.

    Convexity. A precision matrix is linear in w, and the variance of a best linear unbiased estimate is a convex
    function of precisions. Where only shares give information, f_k(w) is also homogeneous of degree -1. No share
    pays for some precision, such as that of answers published exactly. Such precision is multiplied by the sum of
    the shares, which is 1. This extends f_k to all w > 0, and makes it homogeneous. Let g_k be the gradient of
    f_k before it is extended, and h_k = f_k + g_k'w the part of f_k that is due to such precision. The extended
    f_k has the gradient g_k - h_k, where h_k is taken off every component.

    Lower bound. Take any weights b >= 0, F = sum b_k f_k at some point, and q(v) = -sum b_k (g_k - h_k)'v. By
    convexity, F(v) >= 2 F / s - q(v) / s^2 for every s > 0, so F(v) >= F^2 / q(v). So F^2 / max q is a lower
    bound of F over all shares v. With b = a + m, where m >= 0 are weights of the limits, F^2 / max q - m'r is a
    lower bound of the minimum.

    Worked case. Two queries measure two unrelated counts, f_1 = 1 / w_1 and f_2 = 1 / w_2, and a = (1, 1). At w =
    (1/2, 1/2), F = 4 and q(v) = 4 v_1 + 4 v_2 = 4, so that the bound is 16 / 4 = 4: these shares are the best
    ones.

    Attributes:
        weights: The a_k, 0 or more; shape (aims,).
        of_maximum: Whether the largest weighted variance is minimised, and not the sum.
        limits: The r_k; infinite where there is no limit; shape (aims,).
        least: Smallest value of every share; shape (shares,).
    """

    weights: Floats
    of_maximum: bool
    limits: Floats
    least: Floats

    def objective(self, values: Floats) -> float:
        """The sum, or the maximum, of the weighted variances."""
        weighted = self.weights * values
        return float(weighted.max() if self.of_maximum else weighted.sum())

    def within_limits(self, values: Floats) -> bool:
        """Whether no variance exceeds its limit by more than the slack."""
        return bool(np.all(values < self.limits * (1 + SLACK) * (1 + NOISE)))

    def settled(self, shares: Floats) -> Floats:
        """Shares that sum to 1 up to rounding errors, moved so that they do and that none is below its least value.

        Divided by their sum, shares that are next to their least values would fall below them.
        """
        room = np.maximum(shares - self.least, 0.0)
        settled: Floats = self.least + room * ((1.0 - self.least.sum()) / room.sum())
        return settled

    def together(self, multipliers: Floats, prices: Floats) -> Floats:
        """The weight b of every aim in the lower bound: a, for the maximum split by multipliers, plus the prices."""
        weights = self.weights * multipliers / multipliers.sum() if self.of_maximum else self.weights
        prices_of_all: Floats = weights + np.where(np.isfinite(self.limits), prices, 0.0)
        return prices_of_all

    def lower_bound(self, evaluated: Evaluated, shares: Floats, multipliers: Floats, prices: Floats) -> float:
        """A lower bound of the minimum, from the variances at some shares.

        Args:
            evaluated: The variances and their derivatives there.
            shares: These shares.
            multipliers: For the maximum, 0 or more: relative weights of the aims, which are scaled to sum to 1.
            prices: The m_k of the limits, 0 or more; 0 where there is no limit.
        """
        limited = np.isfinite(self.limits)
        together = self.together(multipliers, prices)
        value = float(together @ evaluated.values)
        slope = -(together @ evaluated.slopes) + float(together @ evaluated.unpaid(shares))
        free = 1.0 - float(self.least.sum())
        greatest = float(self.least @ slope) + free * float(slope.max())
        limit = np.where(limited, self.limits * (1 + SLACK), 0.0)
        return value * value / greatest - float(np.where(limited, prices, 0.0) @ limit)

    def best_bound(self, evaluated: Evaluated, shares: Floats) -> float:
        """The lower bound from the variances at some shares, with weights that make it nearly as large as possible.

        With s = 1 in the head of this module, the bound is 2 F - max q - m'r. Its maximum is a linear program. The
        bound returned is that of the program's weights, whatever the program's own accuracy.
        """
        from scipy.optimize import linprog

        chosen = np.flatnonzero(self.weights > 0) if self.of_maximum else np.zeros(0, np.int64)
        limited = np.flatnonzero(np.isfinite(self.limits))
        scale = self.objective(evaluated.values)
        aims = np.concatenate([chosen, limited]).astype(np.int64)
        # In units in which every multiplier and price is of the order of 1.
        unit = np.concatenate([self.weights[chosen], scale / self.limits[limited]]) / scale
        slope = (evaluated.unpaid(shares)[:, None] - evaluated.slopes)[aims] * unit[:, None]
        gain = 2.0 * evaluated.values[aims] * unit - slope @ self.least
        gain[len(chosen) :] -= 1 + SLACK
        fixed = np.zeros(len(shares))
        if not self.of_maximum:
            fixed = self.weights @ (evaluated.unpaid(shares)[:, None] - evaluated.slopes) / scale
        free = 1.0 - float(self.least.sum())
        solved = linprog(
            np.append(-gain, free),
            A_ub=np.column_stack([slope.T, -np.ones(len(shares))]),
            b_ub=-fixed,
            A_eq=np.append(np.ones(len(chosen)), np.zeros(len(limited) + 1))[None, :]
            if len(chosen)
            else None,
            b_eq=[1.0] if len(chosen) else None,
            bounds=[(0, None)] * len(aims) + [(None, None)],
            method="highs",
        )
        multipliers, prices = np.zeros(len(evaluated.values)), np.zeros(len(evaluated.values))
        if solved.status != 0:
            return 0.0
        multipliers[chosen] = np.maximum(solved.x[: len(chosen)], 0.0)
        prices[limited] = np.maximum(solved.x[len(chosen) : -1], 0.0) * unit[len(chosen) :] * scale
        return self.lower_bound(evaluated, shares, multipliers, prices)


ACCURACY = 1e-8
"""Relative accuracy of the minimum of the model's program."""
ROOM = 1e-9
"""Even where the present shares have used up a limit, a step may make that variance larger by this fraction."""
SHRINK = 0.1
"""Factor of m from one barrier to the next."""
MOST_NEWTON = 1000
"""Newton steps for one m. The model is a closed formula, so that many steps are cheap."""
DECREMENT = 1e-3
"""A centre is accepted below this decrement: half of it is about how far the barrier is from its least value."""
HALVINGS = 60
"""Halvings of one step at most. After 60 a step is below the rounding of the shares that it changes."""


class InteriorStep(NamedTuple):
    """The shares that a model recommends.

    Attributes:
        shares: Shape (shares,).
        multipliers: Of the maximum; shape (aims,).
        prices: Of the limits; shape (aims,).
    """

    shares: Floats
    multipliers: Floats
    prices: Floats


@dataclass(frozen=True, slots=True, eq=False)
class _Model:
    """The model of the variances, with the constraints as rows.

    Attributes:
        present: p.
        contributions: c; shape (aims, shares).
        rest: Shape (aims,).
        exponents: e of every share.
        rows: Each row times the variances, plus `top` times t, is at most `most`.
        goal: Weights of the variances in the objective; the weight of t is `goal_top`.
    """

    present: Floats
    contributions: Floats
    rest: Floats
    exponents: Floats
    rows: Floats
    top: Floats
    most: Floats
    least: Floats
    goal: Floats
    goal_top: float

    def values(self, shares: Floats) -> Floats:
        moved = 1.0 + ((shares / self.present) ** -self.exponents - 1.0) / self.exponents
        values: Floats = self.rest + self.contributions @ moved
        return values

    def slack(self, point: Floats) -> Floats:
        slack: Floats = self.most - self.rows @ self.values(point[:-1]) - self.top * point[-1]
        return slack

    def barrier(self, point: Floats, size: float) -> float:
        """Infinite outside the constraints."""
        room = point[:-1] - self.least
        if not bool(np.all(room > 0)):
            return np.inf
        slack = np.concatenate([self.slack(point), room])
        if not bool(np.all(slack > 0)):
            return np.inf
        goal = float(self.goal @ self.values(point[:-1])) + self.goal_top * float(point[-1])
        return goal / size - float(np.log(slack).sum())

    def newton(self, point: Floats, size: float) -> tuple[Floats, float]:
        """Newton's direction, and its decrement: half of it is how far the barrier is from its least value, about."""
        shares = point[:-1]
        n = len(shares)
        power = (shares / self.present) ** -self.exponents
        slopes = -self.contributions * (power / shares)
        barrier_slope = self.goal / size + self.rows.T @ (1.0 / self.slack(point))
        inverse = 1.0 / self.slack(point)
        room = 1.0 / (shares - self.least)
        moves = np.column_stack([self.rows @ slopes, self.top]) * inverse[:, None]
        gradient = np.append(barrier_slope @ slopes - room, self.goal_top / size + float(self.top @ inverse))
        bend = (barrier_slope @ self.contributions) * (1.0 + self.exponents) * power / shares**2 + room**2
        system = np.zeros((n + 2, n + 2))
        system[: n + 1, : n + 1] = moves.T @ moves
        system[np.arange(n), np.arange(n)] += bend
        if self.goal_top == 0.0:
            system[n, n] = 1.0  # t is not used
        system[n + 1, :n] = system[:n, n + 1] = 1.0
        # Shares differ by many powers of ten: scaled by themselves, the system is well conditioned.
        scale = np.concatenate([shares, [abs(float(point[-1])) or 1.0, 1.0]])
        direction = (
            np.linalg.solve(system * np.outer(scale, scale), np.append(-gradient, 0.0) * scale) * scale
        )
        return direction[: n + 1], float(-(gradient @ direction[: n + 1]))


def step_from(program: ShareProgram, shares: Floats, evaluated: Evaluated, exponents: Floats) -> InteriorStep:
    """The best shares by the model at the present shares.

    Problem. At the present shares p, share i contributes c_ki = -p_i df_k/dp_i to the variance f_k, and precision
    that no share pays for contributes the rest. The model of f_k at other shares w is
        rest + sum_i c_ki (1 + ((w_i / p_i)^-e - 1) / e).
    With e = 1, the model is the variance that the estimates which are best at p would have with the shares w. It
    is never below f_k, which is the variance of the estimates that are best at w. So with e = 1 a step neither
    makes the objective larger nor exceeds a limit. A smaller e makes longer steps, which must be checked.

    Steps. The model's program has the constraints of `ShareProgram`. A barrier method minimises
        objective / m - sum log(slack of every limit) - sum log(w_i - least_i), with sum w = 1,
    by Newton's method for smaller and smaller m. For the maximum, one more variable t is above all weighted
    variances. At the end, m / slack are the multipliers of the limits.

    Stopping rule. Newton's method stops when its decrement is small; the barrier, when the number of constraints
    times m is a small fraction of the objective.

    Worked case. Two shares with c = (1, 4) and p = (1/2, 1/2): the model is 1/2 / w_1 + 2 / w_2, and its minimum
    has w_2 / w_1 = 2.

    Args:
        program: What is minimised. The present shares must be within its limits, and above its least shares.
        shares: The present shares.
        evaluated: The variances there.
        exponents: e of the model for every share, above -1 and not 0.
    """
    model = _model_of(program, shares, evaluated, exponents)
    level = program.objective(evaluated.values)
    point = np.append(shares, 1.1 * level)
    count = len(model.most) + len(shares)
    size = level / count
    while True:
        point = _centred(model, point, size)
        if count * size <= ACCURACY * level:
            break
        size *= SHRINK
    weights = size / model.slack(point)
    n_aims = len(evaluated.values)
    multipliers, prices = np.zeros(n_aims), np.zeros(n_aims)
    at_top = model.top != 0.0
    aims = np.argmax(model.rows > 0, axis=1)
    multipliers[aims[at_top]] = weights[at_top]
    prices[aims[~at_top]] = weights[~at_top]
    return InteriorStep(program.settled(point[:-1]), multipliers, prices)


def _model_of(program: ShareProgram, shares: Floats, evaluated: Evaluated, exponents: Floats) -> _Model:
    aims = np.flatnonzero(program.weights > 0) if program.of_maximum else np.zeros(0, np.int64)
    limited = np.flatnonzero(np.isfinite(program.limits))
    rows = np.zeros((len(aims) + len(limited), len(evaluated.values)))
    rows[np.arange(len(aims)), aims] = program.weights[aims]
    rows[len(aims) + np.arange(len(limited)), limited] = 1.0
    # A limit that the present shares reach, or miss by a rounding error, leaves room for the first step.
    present = evaluated.values[limited] * (1 + ROOM)
    limits = np.maximum(program.limits[limited] * (1 + SLACK), present)
    contributions, rest = np.maximum(-evaluated.slopes * shares, 0.0), evaluated.unpaid(shares)
    # At the present shares, the model is to be the variance itself in spite of rounding errors.
    contributions *= ((evaluated.values - rest) / contributions.sum(axis=1))[:, None]
    return _Model(
        present=shares,
        contributions=contributions,
        rest=rest,
        exponents=exponents,
        rows=rows,
        top=np.concatenate([-np.ones(len(aims)), np.zeros(len(limited))]),
        most=np.concatenate([np.zeros(len(aims)), limits]),
        least=program.least,
        goal=np.zeros(len(program.weights)) if program.of_maximum else program.weights,
        goal_top=1.0 if program.of_maximum else 0.0,
    )


def _centred(model: _Model, point: Floats, size: float) -> Floats:
    """The minimum of one barrier function, by Newton's method with halved steps."""
    here = model.barrier(point, size)
    if not np.isfinite(here):
        return point  # rounding errors have left no room to move
    for _ in range(MOST_NEWTON):
        direction, decrement = model.newton(point, size)
        if decrement < DECREMENT:
            break
        length = 1.0
        for _ in range(HALVINGS):
            there = model.barrier(point + length * direction, size)
            if there <= here - 1e-4 * length * decrement:
                break
            length *= 0.5
        else:
            break  # rounding errors hide any further decrease
        point, here = point + length * direction, there
    return point


FIRST = 10.0
"""Number of constraints times the first m, as a fraction of the objective. It is large, so that the shares leave limits
that they are near: along a limit, steps are short."""
LAST = 1e-5
"""The method ends once m times the number of constraints is below half of this, as a fraction of the objective."""
BARRIER_SHRINK = 0.1
"""Factor of m from one barrier to the next."""
MOVE = 1e-5
"""Relative change of a share from which second derivatives are found."""
BARRIER_ROOM = 1e-6
"""Even where the present shares have used up a limit, its slack is at least this fraction of it."""
BARRIER_NEWTON = 100
"""Newton steps for one m. Each step evaluates the variances once for every share, so steps are dear here."""
BARRIER_DECREMENT = 1e-2
"""A centre is accepted below this decrement: half of it is about how far the barrier is from its least value."""
BARRIER_HALVINGS = 40
"""Halvings of one step at most. After 40 a step is 1e-12 of the whole one."""


class _Barrier:
    """The barrier function of a program, for one m.

    Attributes:
        size: m.
    """

    def __init__(self, program: ShareProgram, variances: Variances, first: Evaluated, whole: float) -> None:
        # `whole` is m times the number of constraints.
        self._program, self._variances = program, variances
        limited = np.flatnonzero(np.isfinite(program.limits))
        topped = np.flatnonzero(program.weights > 0) if program.of_maximum else np.zeros(0, np.int64)
        n_aims = len(program.weights)
        # Each row times the variances, less `top` times t, is below `most`.
        self._rows = np.zeros((len(topped) + len(limited), n_aims))
        self._rows[np.arange(len(topped)), topped] = program.weights[topped]
        self._rows[len(topped) + np.arange(len(limited)), limited] = 1.0
        self._top = np.concatenate([np.ones(len(topped)), np.zeros(len(limited))])
        room = np.maximum(program.limits[limited] * (1 + SLACK), first.values[limited] * (1 + BARRIER_ROOM))
        self._most = np.concatenate([np.zeros(len(topped)), room])
        self.size = whole / self.count

    @property
    def count(self) -> int:
        """Number of constraints."""
        return len(self._most) + len(self._program.least)

    def at(self, point: Floats, evaluated: Evaluated) -> float:
        """The value at a point, which is the shares and t. Infinite outside the constraints."""
        slack = np.concatenate([self._slack(point, evaluated), point[:-1] - self._program.least])
        if not bool(np.all(slack > 0)):
            return np.inf
        goal = point[-1] if self._program.of_maximum else float(self._program.weights @ evaluated.values)
        return float(goal) / self.size - float(np.log(slack).sum())

    def newton(self, point: Floats, evaluated: Evaluated) -> tuple[Floats, float]:
        """Newton's direction, and its decrement."""
        shares, n = point[:-1], len(point) - 1
        of_maximum = self._program.of_maximum
        inverse, room = 1.0 / self._slack(point, evaluated), 1.0 / (shares - self._program.least)
        goal = np.zeros_like(self._program.weights) if of_maximum else self._program.weights
        barrier_slope = goal / self.size + self._rows.T @ inverse
        moves = np.column_stack([self._rows @ evaluated.slopes, -self._top]) * inverse[:, None]
        top = (1.0 / self.size if of_maximum else 0.0) - float(self._top @ inverse)
        gradient = np.append(barrier_slope @ evaluated.slopes - room, top)
        system = np.zeros((n + 2, n + 2))
        system[: n + 1, : n + 1] = moves.T @ moves
        system[:n, :n] += self._bend(shares, evaluated, barrier_slope) + np.diag(room**2)
        if not of_maximum:
            system[n, n] = 1.0  # t is not used
        system[n + 1, :n] = system[:n, n + 1] = 1.0
        # Shares differ by many powers of ten: scaled by themselves, the system is well conditioned.
        scale = np.concatenate([shares, [abs(float(point[-1])) or 1.0, 1.0]])
        solved = np.linalg.solve(system * np.outer(scale, scale), np.append(-gradient, 0.0) * scale) * scale
        return solved[: n + 1], float(-(gradient @ solved[: n + 1]))

    def _slack(self, point: Floats, evaluated: Evaluated) -> Floats:
        slack: Floats = self._most + self._top * point[-1] - self._rows @ evaluated.values
        return slack

    def _bend(self, shares: Floats, evaluated: Evaluated, weights: Floats) -> Floats:
        """Second derivatives of a weighted sum of the variances."""
        here = weights @ evaluated.slopes
        bend = np.empty((len(shares), len(shares)))
        for place, share in enumerate(shares):
            moved = shares.copy()
            moved[place] += MOVE * share
            bend[place] = (weights @ self._variances(moved).slopes - here) / (MOVE * share)
        return 0.5 * (bend + bend.T)


def from_inside(
    program: ShareProgram, variances: Variances, shares: Floats, evaluated: Evaluated
) -> Iterator[tuple[Floats, Evaluated]]:
    """Better and better shares, with the variances there, for smaller and smaller m.

    Where two shares can stand in for each other, as those of
    a table and of a finer table do, the model of `step_from` does not see this, and its steps become short.

    Steps. Newton's method minimises, for smaller and smaller m,
        objective / m - sum log(slack of every limit) - sum log(w_i - least_i), with sum w = 1.
    For the maximum, one more variable t is above all weighted variances. The second derivatives are differences
    of the first ones: one evaluation of the variances for each share. So a step costs many times what one of
    `step_from` costs, and few are needed.

    Stopping rule. The number of constraints times m is a small fraction of the objective: the objective is then
    nearer than this to its minimum. At the end, the shares in the middle of the constraints give a good lower
    bound as well.

    Worked case. One limit, f = 1 / w_1 <= 4, and f_2 = 1 / w_2 is minimised: as m becomes small, w_1 falls to
    1/4.

    Args:
        program: What is minimised.
        variances: The variances and their derivatives at any shares.
        shares: Shares within the program's limits, and above its least shares.
        evaluated: The variances there.
    """
    level = program.objective(evaluated.values)
    point = np.append(shares, 1.1 * level)
    barrier = _Barrier(program, variances, evaluated, FIRST * level)
    while barrier.size * barrier.count > 0.5 * LAST * level:
        point, evaluated = _centred_barrier(barrier, variances, point, evaluated)
        yield program.settled(point[:-1]), evaluated
        barrier.size *= BARRIER_SHRINK


def _centred_barrier(
    barrier: _Barrier, variances: Variances, point: Floats, evaluated: Evaluated
) -> tuple[Floats, Evaluated]:
    """The minimum of one barrier function, by Newton's method with halved steps."""
    here = barrier.at(point, evaluated)
    if not np.isfinite(here):
        return point, evaluated  # rounding errors have left no room to move
    for _ in range(BARRIER_NEWTON):
        direction, decrement = barrier.newton(point, evaluated)
        if not decrement >= BARRIER_DECREMENT:
            break
        # At most 99 % of the way to the nearest share of zero: shares stay above it.
        longest = -np.min(direction[:-1] / point[:-1])
        length = min(1.0, 0.99 / longest) if longest > 0 else 1.0
        for _ in range(BARRIER_HALVINGS):
            there = point + length * direction
            seen = variances(there[:-1])
            value = barrier.at(there, seen)
            # Armijo: a small part of the decrease that the slope promises is enough. Infinity fails.
            if value <= here - 1e-4 * length * decrement:
                break
            length *= 0.5
        else:
            break  # rounding errors hide any further decrease
        point, evaluated, here = there, seen, value
    return point, evaluated


GAP = 5e-4
"""Relative gap between the objective and its lower bound at which the search stops."""
MOST_ROUNDS = 60
"""Number of cheap steps after which the interior-point method takes over. Its steps cost an evaluation for each share.
"""
FIRST_EXPONENT = 0.5
"""Exponent of every share in the model until a step has shown one."""
LEAST_EXPONENT = -0.5
"""Exponents that steps show are raised to at least this, so that one odd step cannot upset the model."""
LEAST_SIZE = 0.01
"""Smallest size of an exponent, because the model divides by it."""
LEAST_MOVE = 1e-9
"""A share whose logarithm moves by less shows nothing of its exponent."""
CAUTIOUS = 0.9
"""An exponent above this becomes 1 after a step that failed. If all are 1, the next step cannot fail."""


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """Shares, and a certificate of how good they are.

    Attributes:
        shares: They sum to 1; shape (shares,).
        evaluated: The variances there.
        objective: The program's objective there.
        bound: Lower bound of the objective of any shares.
    """

    shares: Floats
    evaluated: Evaluated
    objective: float
    bound: float

    @property
    def gap(self) -> float:
        """By which fraction of the objective other shares could at most be better."""
        return max(0.0, 1.0 - self.bound / self.objective)


def solve(
    program: ShareProgram, variances: Variances, start: Floats, *, gap: float = GAP, enough: float = 0.0
) -> Solution:
    """The best shares, to within a relative gap.

    Args:
        program: What is minimised.
        variances: The variances and their derivatives at any shares.
        start: Shares within the program's limits, and above its least shares.
        gap: Relative gap at which the search stops.
        enough: An objective at which the search stops as well.
    Raises:
        SolverError: the gap was not reached.
    """
    shares, evaluated = start, variances(start)
    exponents, bound = np.full(len(start), FIRST_EXPONENT), 0.0
    for _ in range(MOST_ROUNDS):
        here = program.objective(evaluated.values)
        bound = max(bound, program.best_bound(evaluated, shares))
        if bound >= here * (1 - gap) or here <= enough:
            return Solution(shares, evaluated, here, bound)
        step = step_from(program, shares, evaluated, exponents)
        tried = variances(step.shares)
        if program.objective(tried.values) < here and program.within_limits(tried.values):
            weights = program.together(step.multipliers, step.prices)
            exponents = _seen(weights, (shares, evaluated), (step.shares, tried), exponents)
            shares, evaluated = step.shares, tried
        elif exponents.min() == 1.0:
            break  # only rounding errors can hide that a cautious step improves
        else:
            exponents = np.where(exponents > CAUTIOUS, 1.0, _off_zero(0.5 * (exponents + 1.0)))
    # Variances are convex, so that this is within all limits; and it is away from the least shares, as the start is.
    middle = 0.5 * (start + shares)
    for better, seen in from_inside(program, variances, middle, variances(middle)):
        shares, evaluated, here = better, seen, program.objective(seen.values)
        bound = max(bound, program.best_bound(evaluated, shares))
        if bound >= here * (1 - gap) or here <= enough:
            return Solution(shares, evaluated, here, bound)
    raise SolverError(
        f"the best shares were not found to within a relative gap of {gap:g}: the aims cannot have less than "
        f"{bound:.6g}, and the shares found have {at_most(program.objective(evaluated.values))}. Name fewer aims or "
        "targets, or choose aims and targets that are less unlike each other."
    )


def _seen(
    weights: Floats, before: tuple[Floats, Evaluated], after: tuple[Floats, Evaluated], exponents: Floats
) -> Floats:
    """The exponents for the next step: halfway to those that would have foreseen the slopes after the last one."""
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = np.log(after[0] / before[0])
        fallen = np.log((weights @ before[1].slopes) / (weights @ after[1].slopes))
        seen = fallen / moved - 1.0
    known = np.isfinite(seen) & (np.abs(moved) > LEAST_MOVE)
    halfway = np.clip(0.5 * (seen + exponents), LEAST_EXPONENT, 1.0)
    return _off_zero(np.where(known, halfway, exponents))


def _off_zero(exponents: Floats) -> Floats:
    moved: Floats = np.where(np.abs(exponents) < LEAST_SIZE, LEAST_SIZE, exponents)
    return moved
