"""Slow and obvious specifications of the kernels in `tallyveil.kernels.family.polish`."""

import numpy as np

from tallyveil.arrays import Floats, Int32s, Integers


def squared_deviation_reference(
    labels: Int32s, widths: Integers, values: Floats, weights: Floats, estimate: Floats
) -> float:
    """Specification of `squared_deviation`."""
    total, n_children = 0.0, estimate.shape[0]
    starts = np.concatenate([[0], np.cumsum(n_children * widths)])
    for q, width in enumerate(widths):
        member = labels[q][:, None] == np.arange(width)
        measured = values[starts[q] : starts[q + 1]].reshape(n_children, width)
        missed = (estimate @ member - measured)[:, member.any(axis=0)]
        total += float(weights[q] @ np.square(missed).sum(axis=1))
    return total
