"""One step towards the best shares: the exact minimum of a simple model of the variances.

Problem. At the present shares p, share i contributes c_ki = -p_i df_k/dp_i to the variance f_k, and precision that no
share pays for contributes the rest. The model of f_k at other shares w is
    rest + sum_i c_ki (1 + ((w_i / p_i)^-e - 1) / e).
With e = 1, the model is the variance that the estimates which are best at p would have with the shares w. It is never
below f_k, which is the variance of the estimates that are best at w. So with e = 1 a step neither makes the objective
larger nor exceeds a limit. A smaller e makes longer steps, which must be checked.

Steps. The model's program has the constraints of `Program`. A barrier method minimises
    objective / m - sum log(slack of every limit) - sum log(w_i - least_i), with sum w = 1,
by Newton's method for smaller and smaller m. For the maximum, one more variable t is above all weighted variances.
At the end, m / slack are the multipliers of the limits.

Stopping rule. Newton's method stops when its decrement is small; the barrier, when the number of constraints times m is
a small fraction of the objective.

Worked case. Two shares with c = (1, 4) and p = (1/2, 1/2): the model is 1/2 / w_1 + 2 / w_2, and its minimum has
w_2 / w_1 = 2.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tallyveil.arrays import Floats
from tallyveil.budget.optimal.program import SLACK, Evaluated, ShareProgram

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
