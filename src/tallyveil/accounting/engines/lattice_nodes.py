"""The points of a trapezoid rule on a lattice at which a transform of Gaussian factors is not negligible.

The rule has N points theta_j = 2 pi j / N. On a shifted contour, the transform of the Gaussian part of Z is at most its
value without a shift, and that is exp(-F(u)) C or less at the frequency u = theta / h (`revivals`). So the scan for
revivals finds all points that count without looking at every one of N.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from tallyveil.accounting.engines.revivals import (
    GaussianFactors,
    nodes_within,
    number_of_nodes,
    windows_up_to,
)
from tallyveil.accounting.losses.factors import GaussianLoss
from tallyveil.arrays import Floats, Integers

MOST_POINTS: Final = 1 << 31
"""Points of a rule, and least weights of factors, with which angles are exact in whole numbers of 64 bits."""

MAX_NODES: Final = 1 << 15
"""Points that count above which an engine is refused. Side peaks or a slow decay cause many."""


@dataclass(frozen=True, slots=True)
class LatticeFactors:
    """Gaussian factors on a common lattice.

    Attributes:
        weights: a, [factors].
        variances: v, [factors].
        powers: m, [factors].
    """

    weights: Integers
    variances: Floats
    powers: Integers

    @classmethod
    def of(cls, pairs: list[tuple[GaussianLoss, int]]) -> "LatticeFactors":
        """Factors with their weights."""
        return cls(
            weights=np.array([weight for _, weight in pairs], dtype=np.int64),
            variances=np.array([float(factor.variance) for factor, _ in pairs]),
            powers=np.array([factor.multiplicity for factor, _ in pairs], dtype=np.int64),
        )

    def angles(self, places: Integers, n_points: int) -> Floats:
        """a theta brought to [-pi, pi], [factors, places]; the angles are reduced in whole numbers."""
        # Reduced in integers modulo N first. weight < 2^31 and place < 2^31 keep the product below 2^62, so that int64
        # cannot overflow, and the angle has one rounding instead of an error that grows with j.
        reduced = (self.weights % n_points)[:, None] * places % n_points
        # To [-pi, pi]: the Gaussian images are counted from the nearest whole turn.
        return (2 * np.pi / n_points) * np.where(2 * reduced > n_points, reduced - n_points, reduced)


def find_places(factors: list[GaussianLoss], step: Fraction, n_points: int, depth: float) -> Integers | str:
    """All j from 0 to N // 2 at which C times the transform may exceed C exp(-depth), or why there are too many.

    Args:
        factors: Gaussian factors of variance 1/4 or more, on a lattice.
        step: h.
        n_points: N, odd.
        depth: Minus the logarithm of what is negligible.
    """
    # The transform is real up to a phase and symmetric in j: half the points are enough.
    half = n_points // 2
    if not factors:
        # Without Gaussian noise nothing decays, so every point counts.
        return np.arange(half + 1) if half < MAX_NODES else _too_many(half + 1)
    turn = 2 * math.pi / n_points / float(step)
    # Half a step beyond the last node, so that a node on the very edge cannot be dropped by rounding.
    windows = windows_up_to(GaussianFactors.of(factors), depth, turn * (half + 0.5))
    if windows is None:
        return "the transform of the loss returns to its full size too often"
    count = number_of_nodes(*windows, turn)
    # Refused before the nodes are made, at four times the limit: the windows overlap, and count some nodes twice.
    if count > 4 * MAX_NODES:
        return _too_many(round(count))
    places = nodes_within(*windows, turn)
    # The scan may reach a little beyond its end; j > N // 2 are the mirror images, counted by symmetry.
    places = places[: np.searchsorted(places, half, side="right")]
    return places if places.size <= MAX_NODES else _too_many(places.size)


def _too_many(count: int) -> str:
    return f"the transform counts at about {count} nodes, wanted at most {MAX_NODES}"


def log_theta_constant(variance: float) -> float:
    """ln of c_v, the sum over whole k of exp(-2 pi^2 v k^2), for v of 1/4 or more."""
    # Five terms: at v = 1/4, the least variance allowed, the sixth is exp(-178), far below a float's rounding of 1.
    return math.log1p(2 * sum(math.exp(-2 * math.pi**2 * variance * k * k) for k in range(1, 6)))
