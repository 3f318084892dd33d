"""The best shares by an interior-point method, for programs on which `tallyveil.budget.optimal.step` is slow.

Problem. That of `tallyveil.budget.optimal.program`. Where two shares can stand in for each other, as those of a table
and of a finer table do, the model of `step` does not see this, and its steps become short.

Steps. Newton's method minimises, for smaller and smaller m,
    objective / m - sum log(slack of every limit) - sum log(w_i - least_i), with sum w = 1.
For the maximum, one more variable t is above all weighted variances. The second derivatives are differences of the
first ones: one evaluation of the variances for each share. So a step costs many times what one of `step` costs, and
few are needed.

Stopping rule. The number of constraints times m is a small fraction of the objective: the objective is then nearer than
this to its minimum. At the end, the shares in the middle of the constraints give a good lower bound as well.

Worked case. One limit, f = 1 / w_1 <= 4, and f_2 = 1 / w_2 is minimised: as m becomes small, w_1 falls to 1/4.
"""

from collections.abc import Iterator

import numpy as np

from tallyveil.arrays import Floats
from tallyveil.budget.optimal.program import SLACK, Evaluated, ShareProgram, Variances

FIRST = 10.0
"""Number of constraints times the first m, as a fraction of the objective. It is large, so that the shares leave limits
that they are near: along a limit, steps are short."""
LAST = 1e-5
"""The method ends once m times the number of constraints is below half of this, as a fraction of the objective."""
SHRINK = 0.1
"""Factor of m from one barrier to the next."""
MOVE = 1e-5
"""Relative change of a share from which second derivatives are found."""
ROOM = 1e-6
"""Even where the present shares have used up a limit, its slack is at least this fraction of it."""
MOST_NEWTON = 100
"""Newton steps for one m. Each step evaluates the variances once for every share, so steps are dear here."""
DECREMENT = 1e-2
"""A centre is accepted below this decrement: half of it is about how far the barrier is from its least value."""
HALVINGS = 40
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
        room = np.maximum(program.limits[limited] * (1 + SLACK), first.values[limited] * (1 + ROOM))
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
        point, evaluated = _centred(barrier, variances, point, evaluated)
        yield program.settled(point[:-1]), evaluated
        barrier.size *= SHRINK


def _centred(
    barrier: _Barrier, variances: Variances, point: Floats, evaluated: Evaluated
) -> tuple[Floats, Evaluated]:
    """The minimum of one barrier function, by Newton's method with halved steps."""
    here = barrier.at(point, evaluated)
    if not np.isfinite(here):
        return point, evaluated  # rounding errors have left no room to move
    for _ in range(MOST_NEWTON):
        direction, decrement = barrier.newton(point, evaluated)
        if not decrement >= DECREMENT:
            break
        # At most 99 % of the way to the nearest share of zero: shares stay above it.
        longest = -np.min(direction[:-1] / point[:-1])
        length = min(1.0, 0.99 / longest) if longest > 0 else 1.0
        for _ in range(HALVINGS):
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
