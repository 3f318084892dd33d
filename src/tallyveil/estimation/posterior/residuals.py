"""Whether the measurements look as if the draws were the counts that they were made of.

If the model holds, the true counts are one more draw, so that squared differences of measurements and a draw's answers
are, on average, the variance of the noise: their ratio to it is 1. A ratio below 1 says that draws follow the noise,
one above that the model pulls counts away from what was measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tallyveil.arrays import Floats, Int32s
from tallyveil.estimation.posterior.problem import PosteriorProblem

SURE: Final = 4.0
"""Standard errors from which a ratio differs from 1 by more than chance: a state has some hundred of them."""
SMALL: Final = 0.05
"""Smaller differences of a ratio from 1 are not spoken of: noise that is 2 % larger would explain them."""


@dataclass(frozen=True, slots=True)
class Residuals:
    """Squared residuals of a query at a geolevel, over all geounits and draws.

    Attributes:
        geolevel: The geolevel.
        query: The query.
        ratio: Mean square of the residuals of each group, over the variance of the noise.
        error: Standard error of such a ratio, if the model holds.
    """

    geolevel: str
    query: str
    ratio: list[float]
    error: float

    @property
    def fits(self) -> bool:
        """Whether no ratio differs from 1 by much, and by more than chance."""
        most = max(SMALL, SURE * self.error)
        return all(abs(ratio - 1.0) <= most for ratio in self.ratio)


def squared_residuals(problem: PosteriorProblem, residual: Int32s) -> Floats:
    """Mean ratio of squared residuals to the variance of the noise, of each group of each table.

    Args:
        problem: What is measured.
        residual: Answers of a table of counts minus the measurements (`State.residual`).
    """
    answers = problem.kernel.answers
    parts = [np.zeros(0)]
    for t in range(len(answers.size)):
        precisions = problem.precisions_of(t)
        squares = problem.of_table(residual, t).astype(np.float64) ** 2
        measured = np.broadcast_to(precisions, len(squares)) > 0
        parts.append((squares * precisions[:, None])[measured].mean(axis=0))
    return np.concatenate(parts)


def residuals_of(problem: PosteriorProblem, states: Sequence[Floats]) -> list[Residuals]:
    """The mean of `squared_residuals` over some states, by geolevel and query."""
    answers, mean = problem.kernel.answers, np.mean(states, axis=0)
    geolevels = problem.spine.geolevels[::-1]
    out, begin = [], 0
    for t, size in enumerate(answers.size.tolist()):
        n = int((np.broadcast_to(problem.precisions_of(t), _n_geounits(problem, t)) > 0).sum())
        # The square of a normal number has variance 2 about its mean of 1, that of a Laplace number 5.
        error = float(np.sqrt((2.0 if answers.gaussian else 5.0) / n))
        ratio = mean[begin : begin + size].tolist()
        out.append(Residuals(geolevels[answers.geolevel[t]], problem.queries[t], ratio, error))
        begin += size
    return out


def _n_geounits(problem: PosteriorProblem, table: int) -> int:
    begin = problem.kernel.tree.level_begin
    geolevel = problem.kernel.answers.geolevel[table]
    return int(begin[geolevel + 1] - begin[geolevel]) - 1
