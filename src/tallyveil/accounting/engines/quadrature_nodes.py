"""What the quadrature computes about a composition once, before any epsilon: its nodes, and the transform there.

The nodes are theta = 2 pi k / N. At a node, the transform of a Gaussian factor is exp(-v x^2 / 2) times one plus its
*images*: the terms exp(-2 pi v j (pi j + x)) of Poisson's summation formula at whole turns j from x. Nodes and images
whose size is negligible are left out, and their sum is bounded.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from tallyveil.accounting.losses.factors import GaussianLoss, LaplaceLoss
from tallyveil.arrays import Floats, Integers
from tallyveil.kernels.contour import UNIT, Images, Rule, log_magnitudes

MAX_NODES: Final = 4096
"""Number of nodes that matter above which the quadrature is refused. Side peaks or a slow decay cause many."""

_NEGLIGIBLE: Final = -46.0  # logarithm; with it everything left out is below 1e-18 of the sum
_NEGLIGIBLE_IMAGE: Final = -42.0
_IMAGES: Final = (-1, 1, -2, 2, -3, 3)


@dataclass(frozen=True, slots=True)
class ContourNodes:
    """The nodes of the trapezoid rule at which the transform is not negligible.

    Attributes:
        rule: The nodes.
        images: The images that count there.
        left_out: Upper bound on the sum of |transform| over all other nodes, divided by N.
    """

    rule: Rule
    images: Images
    left_out: float

    @property
    def n_points(self) -> int:
        """N, odd."""
        return self.rule.n_points


@dataclass(frozen=True, slots=True)
class LaplacePart:
    """Laplace factors at the nodes.

    Attributes:
        weights: [factors, 3]: a, n, and a column that the kernel fills.
        log_masses: [factors, most k + 1].
        angles: a theta brought to [-pi, pi], [nodes, factors].
        powers: n, [factors].
        mean: Mean under P of the Laplace part of Z.
        spread: Variance under P of the same part.
        largest_log: Sum of n times the largest |log mass|; it bounds the rounding of the masses.
        reach: Sum of n a k, the largest value of the Laplace part.
    """

    weights: Floats
    log_masses: Floats
    angles: Floats
    powers: Integers
    mean: float
    spread: float
    largest_log: float
    reach: float


def contour_nodes(
    gaussians: list[tuple[GaussianLoss, int]], laplaces: list[tuple[LaplaceLoss, int]], n_points: int
) -> ContourNodes | str:
    """The nodes at which the transform is not negligible, or in words why there are too many.

    Args:
        gaussians: Factors and their weights.
        laplaces: Factors and their weights. Their transforms are only bounded by 1 here.
        n_points: N, odd.
    """
    weights = np.array([weight for _, weight in gaussians], dtype=np.int64)
    variances = np.array([float(factor.variance) for factor, _ in gaussians], dtype=np.float64)
    powers = np.array([factor.multiplicity for factor, _ in gaussians], dtype=np.int64)
    threshold = _NEGLIGIBLE - math.log(n_points)
    order = np.argsort(-powers * variances, kind="stable")
    logs = log_magnitudes(
        weights[order], variances[order], powers[order].astype(np.float64), n_points, threshold
    )
    kept = np.flatnonzero(logs >= threshold)
    if kept.size > MAX_NODES:
        return f"the transform counts at {kept.size} nodes, wanted at most {MAX_NODES}"
    left_out = 2.001 * float(np.sum(np.exp(logs[logs < threshold]))) / n_points + 1e-300

    places = kept[:, None] * (weights % n_points) % n_points
    places = np.where(2 * places > n_points, places - n_points, places)
    x = 2 * np.pi * places / n_points
    rates = powers * variances * weights * x
    decays = (powers * variances * x**2 / 2).sum(axis=1)
    theta = 2 * np.pi * kept / n_points
    bases = 200.0 + kept.size + 8 * decays
    slopes = 8 * np.abs(rates).sum(axis=1)
    for factor, weight in laplaces:
        n, k = factor.multiplicity, factor.sensitivity
        bases += n * (60 + 8 * k + 8 * _largest_log(factor))
        slopes += n * 8.0 * weight * k
    images, image_bases, image_slopes = _images(x, weights, variances, powers)
    rule = Rule(
        n_points=n_points,
        nodes=kept,
        versines=2 * np.sin(theta / 2) ** 2,
        sines=np.sin(theta),
        decays=decays,
        phase_rates=rates.sum(axis=1),
        sizes=np.exp(logs[kept]) * (1 + 1e-9),
        error_bases=bases + image_bases,
        error_rates=slopes + image_slopes,
    )
    return ContourNodes(rule, images, left_out)


def _images(
    x: Floats, weights: Integers, variances: Floats, powers: Integers
) -> tuple[Images, Floats, Floats]:
    """The images that matter; the roundings they add to each node's term, and those for each unit of |tau|."""
    k = np.array(_IMAGES)
    log_sizes = -2 * np.pi * variances[:, None] * k * (np.pi * k + x[:, :, None])  # [nodes, factors, images]
    counts = log_sizes >= _NEGLIGIBLE_IMAGE - np.log(powers)[:, None]
    found = counts.any(axis=2)
    rates = np.broadcast_to((2 * np.pi * variances * weights)[:, None] * k, log_sizes.shape)
    small = np.where(counts, 0.0, np.exp(np.minimum(log_sizes, 0.0)))
    slopes = np.where(counts, np.abs(rates) * np.exp(np.minimum(log_sizes, 0.0)), 0.0)
    bases = 1.1 * small.sum(axis=2) / UNIT + np.where(variances > 0.5, 0.01, 1.0)  # images from the fourth on
    images = Images(
        pair_starts=_starts(found.sum(axis=1)),
        pair_powers=np.broadcast_to(powers, found.shape)[found],
        starts=_starts(counts.sum(axis=2)[found]),
        logs=log_sizes[counts],
        rates=rates[counts],
    )
    return (
        images,
        ((bases + 60 * found) * powers).sum(axis=1),
        (8 * powers * slopes.sum(axis=2)).sum(axis=1),
    )


def _starts(sizes: Integers) -> Integers:
    """Where each of consecutive pieces of these sizes begins, and where the last ends."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])


def laplace_part(laplaces: list[tuple[LaplaceLoss, int]], nodes: Integers, n_points: int) -> LaplacePart:
    """The Laplace factors at given nodes."""
    widest = max((factor.sensitivity for factor, _ in laplaces), default=0) + 1
    log_masses = np.full((len(laplaces), widest), -np.inf)
    angles = np.zeros((nodes.size, len(laplaces)))
    mean = spread = 0.0
    for i, (factor, weight) in enumerate(laplaces):
        logs = _log_masses(factor)
        log_masses[i, : len(logs)] = logs
        places = nodes * (weight % n_points) % n_points
        angles[:, i] = 2 * np.pi * np.where(2 * places > n_points, places - n_points, places) / n_points
        masses, values = np.exp(logs), weight * np.arange(len(logs))
        centre = float(masses @ values)
        mean += factor.multiplicity * centre
        spread += factor.multiplicity * float(masses @ (values - centre) ** 2)
    return LaplacePart(
        weights=np.array([(weight, factor.multiplicity, 0.0) for factor, weight in laplaces]).reshape(-1, 3),
        log_masses=log_masses,
        angles=angles,
        powers=np.array([factor.multiplicity for factor, _ in laplaces], dtype=np.int64),
        mean=mean,
        spread=spread,
        largest_log=sum(factor.multiplicity * _largest_log(factor) for factor, _ in laplaces),
        reach=float(sum(f.multiplicity * weight * f.sensitivity for f, weight in laplaces)),
    )


def _log_masses(factor: LaplaceLoss) -> list[float]:
    """Logarithms of the probabilities of i = 0..k: a^k, (1 - a) a^(k - i), 1, over 1 + a."""
    k, rate = factor.sensitivity, float(1 / factor.scale)
    norm = math.log1p(math.exp(-rate))
    inner = math.log(-math.expm1(-rate))
    return [-k * rate - norm, *(inner - (k - i) * rate - norm for i in range(1, k)), -norm]


def _largest_log(factor: LaplaceLoss) -> float:
    return max(abs(value) for value in _log_masses(factor)) + float(
        factor.sensitivity * min(1 / factor.scale, Fraction(10) ** 300)
    )
