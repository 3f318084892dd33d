"""What the margins of SafeTab's numbers cover, and how biased a stage-1 count is once it has chosen a detail."""

import numpy as np

from tallyveil.noise.laws import Law
from tallyveil.products.safetab.public.estimates import (
    MARGIN_STEPS,
    UNIT,
    DetailEstimator,
    NoisePair,
    NoiseSum,
    chosen_law,
    noise_sum,
)


def coverage_of_sum(law: NoiseSum, margin: int) -> float:
    """P(|X| <= margin)."""
    return float(law.within(np.array([-margin]), np.array([margin]))[0])


def combined_coverage(estimator: DetailEstimator, parts: int) -> float:
    """Coverage of the stated margin for a sum of `parts` cells, if stage 1 has its full weight: at least 95 %."""
    weight = parts * estimator.unit
    others = noise_sum(estimator.stage_1, 1).plus(noise_sum(estimator.stage_2, estimator.n - parts))
    pair = NoisePair(UNIT - weight, noise_sum(estimator.stage_2, parts), weight, others, UNIT)
    return pair.coverage(round(estimator.combined(parts).margin * MARGIN_STEPS))


def stage_1_bias(law: Law, count: int, lowest: int | None, highest: int | None) -> float:
    """Bias of a stage-1 count, given that lowest <= Y1 < highest: E[Y1 | choice] - count.

    Args:
        law: Law of its noise.
        count: True count.
        lowest, highest: The choice; None means no bound.
    """
    y1, weights = chosen_law(noise_sum(law, 1), count, lowest, highest)
    return float(weights @ (y1 - count) / weights.sum())
