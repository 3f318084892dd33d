"""Theorem 2 at its boundary, its converse, what its condition on query strategies is needed for, and its remarks.

Remark 1 is about a parent and its children alone. Remark 2 is about the fan-out of a hierarchy of intervals with equal
shares of the budget, under Laplace noise.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
import polars as pl

from tallyveil.arrays import Floats
from tallyveil.budget.strategy import Mechanism
from tallyveil.geography import Spine
from tallyveil_studies.exhibit import Findings, StudyInputs
from tallyveil_studies.geographic_spines.trees import (
    ROUNDING,
    Shares,
    balanced,
    given_to_children,
    growth,
    growth_of_queries,
    incidence,
    precisions,
    shares_by_level,
    spine_of_paths,
    variances,
    whole_budget_parameters,
)
from tallyveil_studies.printed import beside_ours

_PAPER: Final = "geographic_spines"
_CHILDREN: Final = (1, 2, 3, 4, 5, 10)
"""Numbers of children at which the boundary (c - 1) / 2 is found."""

_BLOCKS: Final = ((1, 1, 1), (4, 4, 4), (1, 4, 4), (1, 20, 20), (1, 1, 20))
"""Blocks of the three children of a parent, equal and unequal, for the converse."""

_CELLS: Final = 4
"""Cells of a geounit where the query strategies differ. Two would do; more make the difference larger."""

LAPLACE: Final = Mechanism.DISCRETE_LAPLACE
GAUSSIAN: Final = Mechanism.DISCRETE_GAUSSIAN


def boundary(_: StudyInputs) -> Findings:
    """The least share of the children at which nothing grows, found by bisection, beside (c - 1) / 2."""
    rows = [_boundary_row(children) for children in _CHILDREN]
    ours = {_children(n): row["least ratio"] for n, row in zip(_CHILDREN, rows, strict=True)}
    # The largest number of children that may be bypassed at equal shares: 3, by the theorem.
    equal = max(n for n in range(1, 20) if _change(_alike(n), LAPLACE, 1.0) <= ROUNDING)
    return Findings(
        tables={
            "theorem-2": pl.DataFrame(rows),
            "theorem-2-unequal-subtrees": pl.DataFrame([_converse_row(blocks) for blocks in _BLOCKS]),
            "theorem-2-query-strategies": pl.DataFrame(_strategy_rows()),
        },
        comparisons=(
            *beside_ours(_PAPER, "boundary", ours, "least share of a child / share of its parent"),
            *beside_ours(_PAPER, "equal-shares", {"most children": equal}, "bypassed at equal shares"),
        ),
        notes=(
            "A parent in a spine of four geolevels gives its share to its children. Growth is the greatest relative "
            "growth of the variance of a geounit's total.",
            "Where all children have the same descendants, the condition is also necessary. Where they differ, it is "
            "necessary for linear queries in general, but the totals of all geounits can fall on both sides of it.",
            "The theorem supposes the same query strategy at every geolevel. Where the parent measures the total and "
            "its only child measures cells, bypassing makes some answer worse with either law.",
        ),
    )


def remark_1(_: StudyInputs) -> Findings:
    """A parent and its children alone: the variance of the parent's total with and without its own measurement."""
    ours: dict[str, float] = {}
    for children in (2, 3, 4):
        spine = balanced(children)
        whole = shares_by_level(spine, (1, 1))
        for name, shares in (("kept", whole), ("bypassed", given_to_children(spine, whole, 0, [0]))):
            variance_of_parent = variances(spine, shares, LAPLACE)[0][0]
            ours[f"{_children(children)}, parent {name}"] = float(variance_of_parent)
    cost = whole_budget_parameters(LAPLACE, shares=2)
    frame = pl.DataFrame([{"case": case, "variance": variance, **cost} for case, variance in ours.items()])
    return Findings(
        {"remark-1": frame},
        beside_ours(_PAPER, "remark-1", ours, "variance of the parent"),
        notes=("Shares sum to 2 on every path, so the parent kept and bypassed cost the same.",),
    )


def least_ratio(grows: Callable[[float], float], upper: float) -> float:
    """The least ratio at which nothing grows, by bisection between 0 and `upper`, where nothing grows."""
    low, high = 0.0, upper
    if grows(low) <= ROUNDING:
        return low
    # 60 halvings: below the rounding of a double from any start.
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if grows(middle) <= ROUNDING else (middle, high)
    return high


def _children(number: int) -> str:
    return "1 child" if number == 1 else f"{number} children"


def _alike(children: int) -> Spine:
    return balanced(2, children, 2)


def _change(spine: Spine, mechanism: Mechanism, ratio: float) -> float:
    """Greatest growth of a geounit's variance if the first geounit below the root gives its share away."""
    before = shares_by_level(spine, (1, 1, ratio, 1))
    after = given_to_children(spine, before, 1, [0])
    return growth(variances(spine, before, mechanism), variances(spine, after, mechanism))


def _change_of_queries(spine: Spine, ratio: float) -> float:
    before = shares_by_level(spine, (1, 1, ratio, 1))
    return growth_of_queries(spine, before, given_to_children(spine, before, 1, [0]), LAPLACE)


def _boundary_row(children: int) -> dict[str, float | int]:
    spine, wanted = _alike(children), (children - 1) / 2
    return {
        "children": children,
        "(c - 1) / 2": wanted,
        "least ratio": least_ratio(lambda ratio: _change(spine, LAPLACE, ratio), wanted + 1),
        "growth 1 % below": _change(spine, LAPLACE, 0.99 * wanted),
        "growth at the boundary": _change(spine, LAPLACE, wanted),
        "growth 1 % above": _change(spine, LAPLACE, 1.01 * wanted),
        "growth at equal shares": _change(spine, LAPLACE, 1.0),
        "growth at equal shares, Gaussian": _change(spine, GAUSSIAN, 1.0),
    }


def _converse_row(blocks: tuple[int, ...]) -> dict[str, object]:
    """A parent whose children have different numbers of blocks, beside a second parent with one child."""
    paths = [(0, child, block) for child, number in enumerate(blocks) for block in range(number)]
    spine = spine_of_paths([*paths, (1, 0, 0)])
    wanted = (len(blocks) - 1) / 2
    return {
        "blocks of the children": " ".join(map(str, blocks)),
        "(c - 1) / 2": wanted,
        "least ratio, totals of geounits": least_ratio(lambda r: _change(spine, LAPLACE, r), wanted + 1),
        "least ratio, all linear queries": least_ratio(lambda r: _change_of_queries(spine, r), wanted + 1),
        "growth at equal shares, Gaussian": _change(spine, GAUSSIAN, 1.0),
    }


def _strategy_rows() -> list[dict[str, object]]:
    """An area that is measured twice, as a parent and as its only child, by different queries."""
    total, cells = np.ones((1, _CELLS)), np.eye(_CELLS)
    rows: list[dict[str, object]] = []
    for law, power, mechanism in (("Laplace", 2, LAPLACE), ("Gaussian", 1, GAUSSIAN)):
        for name, above, below in (
            ("shares of 1 and 1", 1.0, 1.0),
            ("bypassed, measured by the child's queries", 0.0, 2.0),
            ("bypassed, measured by the parent's queries", 2.0, 0.0),
        ):
            # Precision is share**2 / 2 with Laplace noise and share with Gaussian noise; the constant is left
            # out.
            information = above**power * total.T @ total + below**power * cells.T @ cells
            cost = whole_budget_parameters(mechanism, shares=2)
            rows.append({"law": law, "case": name, **_total_and_cell(information), **cost})
    return rows


def _total_and_cell(information: Floats) -> dict[str, float]:
    """Variance of the total and of a cell, times a constant; infinite where they are not determined."""
    ones = np.ones(_CELLS)
    if np.linalg.matrix_rank(information) < _CELLS:
        return {"total": float(_CELLS**2 / (ones @ information @ ones)), "cell": float("inf")}
    inverse = np.linalg.inv(information)
    return {"total": float(ones @ inverse @ ones), "cell": float(inverse[0, 0])}


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
