"""Remark 2: the fan-out of a hierarchy of intervals with equal shares of the budget, under Laplace noise."""

import numpy as np
import polars as pl

from tallyveil.arrays import Floats
from tallyveil.budget.strategy import Mechanism
from tallyveil.geography import Spine
from tallyveil_studies.exhibit import Findings, StudyInputs
from tallyveil_studies.geographic_spines.trees import (
    Shares,
    balanced,
    given_to_children,
    incidence,
    precisions,
    shares_by_level,
    whole_budget_parameters,
)

_TREES = ((2, 6), (3, 4))
"""Fan-out and depth of the trees that are bypassed: 64 intervals by halving, 81 by division into three."""


def more_sub_intervals(_: StudyInputs) -> Findings:
    """Trees of two and of three sub-intervals, every second level of them bypassed, and trees with larger fan-outs."""
    rows: list[dict[str, object]] = []
    for fan_out, depth in _TREES:
        fine = balanced(*[fan_out] * depth)
        shares = shares_by_level(fine, [1 / (depth + 1)] * (depth + 1))
        start = _covariance(fine, shares)
        rows.append(_row(f"{fan_out} sub-intervals", fan_out**depth, start, start))
        merged = shares
        # Every second level above the leaves; the root stays.
        for level in range(depth - 1, 0, -2):
            merged = given_to_children(fine, merged, level, range(fine.n_geounits(level)))
        rows.append(_row("every second level bypassed", fan_out**depth, start, _covariance(fine, merged)))
        for larger in (2, 3, 4, 6):
            if depth % larger == 0:
                coarse = balanced(*[fan_out**larger] * (depth // larger))
                equal = shares_by_level(coarse, [1 / coarse.n_levels] * coarse.n_levels)
                name = f"{fan_out**larger} sub-intervals, equal shares"
                rows.append(_row(name, fan_out**depth, start, _covariance(coarse, equal)))
    return Findings(
        {"remark-2": pl.DataFrame(rows)},
        notes=(
            "Shares sum to one on every path. Ratios are those of an arbitrary linear query of the intervals, before "
            "and after; the mean is over all ranges of neighbouring intervals.",
            "Bypassing every second level makes no query worse, as the remark says. Trees that divide the budget "
            "equally again over fewer levels are another matter: of these, the ratios tell.",
            "All trees cost epsilon 1 for one record added or removed.",
        ),
    )


def _row(name: str, intervals: int, start: Floats, after: Floats) -> dict[str, object]:
    # Ratios of the variances of any linear query are generalised eigenvalues of the two covariances.
    ratios = np.linalg.eigvals(np.linalg.solve(start, after)).real
    return {
        "intervals": intervals,
        "tree": name,
        "mean variance of ranges": _mean_of_ranges(after),
        "least ratio of a query": float(ratios.min()),
        "greatest ratio of a query": float(ratios.max()),
        **whole_budget_parameters(Mechanism.DISCRETE_LAPLACE),
    }


def _covariance(spine: Spine, shares: Shares) -> Floats:
    """Covariance of the finest counts by weighted least squares."""
    matrix = incidence(spine)
    weights = np.concatenate(precisions(shares, Mechanism.DISCRETE_LAPLACE))
    return np.asarray(np.linalg.inv(matrix.T @ (weights[:, None] * matrix)), dtype=np.float64)


def _mean_of_ranges(covariance: Floats) -> float:
    """Mean variance of the sums of all ranges of neighbouring counts."""
    n = len(covariance)
    corner = np.zeros((n + 1, n + 1))
    # Sums over a range are differences of corners, so all ranges take O(n^2) together.
    corner[1:, 1:] = covariance.cumsum(axis=0).cumsum(axis=1)
    start, stop = np.triu_indices(n + 1, 1)
    summed = corner[stop, stop] - corner[start, stop] - corner[stop, start] + corner[start, start]
    return float(summed.mean())
