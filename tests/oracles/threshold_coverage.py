"""Slow and obvious specifications of the kernels in `tallyveil.kernels.threshold_coverage`."""

import numpy as np

from tallyveil.arrays import Floats
from tallyveil.kernels.threshold_coverage import Law, Line


def interval_chance_reference(
    count: float,
    ends: tuple[float, float],
    share: float,
    stage_1: tuple[Floats, Floats, Floats],
    others: Law,
    below: Floats,
    levels: Line,
) -> float:
    """Specification of `interval_chance`: all y and r at once."""
    (y1, chances, weights), (rest, rest_chances), (totals, of_totals) = stage_1, others, levels
    reach = (below.size - 2) // 2
    w, y, r = weights[:, None], y1[:, None], rest[None, :]
    if totals.size:
        at = count + r + (1 - share) * w / (1 - w) * y
        bounds = [(np.interp(at + end, of_totals, totals) - w * y) / (1 - w) - r - count for end in ends]
    else:
        moved = share * w * (y - r - count)
        bounds = [(end - moved) / (1 - share * w) for end in ends]
    last, before = np.floor(bounds[1]), np.ceil(bounds[0]) - 1
    places = [np.clip(end + reach + 1, 0, below.size - 1).astype(np.int64) for end in (last, before)]
    inside = np.maximum(below[places[0]] - below[places[1]], 0.0)
    return float(chances @ inside @ rest_chances)


def mean_squared_error_reference(
    count: float,
    weight: float,
    stage_1: Law,
    sums: Law,
    levels: Line,
) -> float:
    """Specification of `mean_squared_error`: all y and x at once."""
    (y1, chances), (values, value_chances) = stage_1, sums
    at = (1 - weight) * (count + values[None, :]) + weight * y1[:, None]
    return float(chances @ (np.interp(at, *levels) - count) ** 2 @ value_chances)
