"""What the quadrature computes about a composition once, before any epsilon: its nodes, and the transform there.

The nodes are theta = 2 pi j / N. At a node, the transform of a Gaussian factor is exp(-v x^2 / 2) times one plus its
*images*: the terms exp(-2 pi v k (pi k + x)) of Poisson's summation formula at whole turns k from x. Nodes and images
whose size is negligible are left out, and their sum is bounded.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from tallyveil.accounting.engines.gaussian_sums import UNIT
from tallyveil.accounting.engines.lattice_nodes import LatticeFactors, find_places, log_theta_constant
from tallyveil.accounting.losses.factors import GaussianLoss, LaplaceLoss
from tallyveil.arrays import Complexes, Floats, Integers

_NEGLIGIBLE: Final = 46.0  # minus a logarithm; with it everything left out is below 1e-18 of the sum
# Minus the logarithm of an image that is left out: exp(-42) is 6e-19. What is left out is bounded too.
_NEGLIGIBLE_IMAGE: Final = 42.0
# Whole turns away. From the fourth on, an image is below exp(-2 pi v 4 (4 pi - pi)) = exp(-59) at v = 1/4.
_IMAGES: Final = (-1, 1, -2, 2, -3, 3)


@dataclass(frozen=True, slots=True)
class ImagesOfFactor:
    """The images of one Gaussian factor that count at some node.

    Attributes:
        power: m.
        nodes: Where in the list of nodes they count.
        sizes: Their sizes relative to the main term, [images, nodes].
        rates: Their phases for each unit of tau, [images].
    """

    power: int
    nodes: Integers
    sizes: Floats
    rates: Floats


@dataclass(frozen=True, slots=True)
class ContourNodes:
    """The nodes of the trapezoid rule at which the transform is not negligible.

    Attributes:
        n_points: N, odd.
        places: j of the nodes kept, 0 first, [nodes]; each but 0 stands for -j too.
        versines: 1 - cos(theta), [nodes].
        sines: sin(theta), [nodes].
        decays: Sum of m v x^2 / 2, [nodes].
        phase_rates: Sum of m v a x, [nodes].
        sizes: Bound on C |Gaussian transform| in units of exp(V tau^2 / 2), [nodes].
        error_bases: Roundings of a node's term, in UNIT of its size, [nodes].
        error_rates: The same for each unit of |tau|, [nodes].
        images: The images that count.
        left_out: Bound on the sum of C |Gaussian transform| over all other nodes, in the same unit, divided by N.
    """

    n_points: int
    places: Integers
    versines: Floats
    sines: Floats
    decays: Floats
    phase_rates: Floats
    sizes: Floats
    error_bases: Floats
    error_rates: Floats
    images: tuple[ImagesOfFactor, ...]
    left_out: float


@dataclass(frozen=True, slots=True)
class LaplacePart:
    """Laplace factors, and their transforms' phases at the nodes.

    Attributes:
        weights: a, [factors].
        powers: m, [factors].
        log_masses: Logarithms of the probabilities of i = 0..k, -inf beyond, [factors, most k + 1].
        phases: For each factor exp(i theta a), ..., exp(i theta a k) and 1 before them, [k + 1, nodes].
        mean: Mean under P of the Laplace part of Z.
        spread: Variance under P of the same part.
        largest_log: Sum of m times the largest |log mass|; it bounds the rounding of the masses.
        reach: Sum of m a k, the largest value of the Laplace part.
    """

    weights: Floats
    powers: Integers
    log_masses: Floats
    phases: tuple[Complexes, ...]
    mean: float
    spread: float
    largest_log: float
    reach: float

    def tilted(self, tau: float) -> tuple[Floats, Floats, float, float]:
        """The law tilted by tau.

        Returns:
            Probabilities, [factors, most k + 1]; logarithms of the transforms at tau, [factors]; mean and variance of
            the Laplace part of Z.
        """
        values = np.arange(self.log_masses.shape[1])
        # Tilted by exp(tau a i), the largest exponent taken out first: tau a k may be beyond what exp can hold.
        exponents = self.log_masses + tau * self.weights[:, None] * values
        top = exponents.max(axis=1)
        masses = np.exp(exponents - top[:, None])
        totals = masses.sum(axis=1)
        masses /= totals[:, None]
        # Means and variances are about the tilted law; they steer the contour, and no bound rests on them.
        means = masses @ values
        variances = (masses * (values - means[:, None]) ** 2).sum(axis=1)
        mean = float((self.powers * self.weights) @ means)
        return masses, top + np.log(totals), mean, float((self.powers * self.weights**2) @ variances)


def contour_nodes(
    gaussians: list[tuple[GaussianLoss, int]],
    laplaces: list[tuple[LaplaceLoss, int]],
    step: Fraction,
    n_points: int,
) -> ContourNodes | str:
    """The nodes at which the transform is not negligible, or in words why there are too many.

    Args:
        gaussians: Factors and their weights.
        laplaces: Factors and their weights. Their transforms are only bounded by 1 here.
        step: h.
        n_points: N, odd.
    """
    # The sum over N nodes of what is below exp(-46 - ln N) is below exp(-46).
    depth = _NEGLIGIBLE + math.log(n_points)
    spots = find_places([factor for factor, _ in gaussians], step, n_points, depth)
    if isinstance(spots, str):
        return spots
    parts = LatticeFactors.of(gaussians)
    # The scan gives intervals; here each node in them is looked at by itself, and most drop out.
    logs = _log_sizes(parts, np.abs(parts.angles(spots, n_points)))
    heavy = logs >= -depth
    log_norm = sum(
        factor.multiplicity * log_theta_constant(float(factor.variance)) for factor, _ in gaussians
    )
    # 2.001: each node stands for its mirror image too. The last part is the scan's own bound on all nodes it did not
    # return, and 1e-300 covers what underflowed.
    left_out = 2.001 * float(np.exp(logs[~heavy]).sum()) / n_points + math.exp(log_norm - depth) + 1e-300
    places, x = spots[heavy], parts.angles(spots[heavy], n_points)
    rates = (parts.powers * parts.variances * parts.weights)[:, None] * x
    decays = (parts.powers * parts.variances / 2) @ (x * x)
    theta = (2 * np.pi / n_points) * places
    count = len(gaussians)
    # Roundings are counted before anything is computed, in UNIT of a term's size. The decays and the phases are sums
    # over factors, hence (8 + count) roundings for each nat or radian.
    bases, slopes = 200.0 + places.size + (8 + count) * decays, (8 + count) * np.abs(rates).sum(axis=0)
    for factor, weight in laplaces:
        n, k = factor.multiplicity, factor.sensitivity
        # A Laplace transform is a sum of k + 1 products, and its power n multiplies its relative error by n.
        bases += n * (60 + 8 * k + 8 * _largest_log(factor))
        slopes += n * 8.0 * weight * k
    images = []
    for factor, weight, place in zip(
        parts.powers.tolist(), parts.weights.tolist(), range(count), strict=True
    ):
        image, image_bases, image_slopes = _images(factor, weight, float(parts.variances[place]), x[place])
        images += image
        bases += image_bases
        slopes += image_slopes
    return ContourNodes(
        n_points=n_points,
        places=places,
        # 2 sin^2(theta / 2) and not 1 - cos(theta), which would lose all digits near theta = 0.
        versines=2 * np.sin(theta / 2) ** 2,
        sines=np.sin(theta),
        decays=decays,
        phase_rates=rates.sum(axis=0),
        # Larger by 1e-9, since these sizes are computed in floats and must not be below the true ones.
        sizes=np.exp(logs[heavy]) * (1 + 1e-9),
        error_bases=bases,
        error_rates=slopes,
        images=tuple(images),
        left_out=left_out,
    )


def _log_sizes(factors: LatticeFactors, x: Floats) -> Floats:
    """ln of C |transform of the Gaussian part| on the imaginary axis; it bounds it on every shifted contour too."""
    v = factors.variances[:, None]
    # 1e-17 stands for the images from the fourth turn on. All images are positive on the imaginary axis, so the sum
    # there bounds the modulus on every shifted contour.
    images = 1e-17 + sum(
        np.exp(-2 * np.pi * v * k * (np.pi * k - side * x)) for k in (1, 2, 3) for side in (1, -1)
    )
    log_sizes: Floats = factors.powers @ (np.log1p(images) - v * x * x / 2)
    return log_sizes


def _images(power: int, weight: int, v: float, x: Floats) -> tuple[list[ImagesOfFactor], Floats, Floats]:
    """The images that count; the roundings they add to each node's term, and those for each unit of |tau|."""
    k = np.array(_IMAGES)
    logs = -2 * np.pi * v * k[:, None] * (np.pi * k[:, None] + x)
    # ln(power) more: m answers have m times the images to first order.
    counts = logs >= -_NEGLIGIBLE_IMAGE - math.log(power)
    sizes, nodes_hit, rates = np.exp(logs), counts.any(axis=0), 2 * np.pi * v * weight * k
    # Images left out at a node, as a relative error of its term: in UNIT, like all other roundings.
    bases = 1.1 * np.where(counts, 0.0, sizes).sum(axis=0) / UNIT
    bases += (0.01 if v > 0.5 else 1.0) + 60 * nodes_hit  # images from the fourth on, and those that count
    slopes = 8 * np.abs(rates) @ np.where(counts, sizes, 0.0)
    nodes, rows = np.flatnonzero(nodes_hit), counts.any(axis=1)
    image = ImagesOfFactor(power, nodes, np.where(counts, sizes, 0.0)[np.ix_(rows, nodes)], rates[rows])
    return [image] if nodes.size else [], power * bases, power * slopes


def laplace_part(laplaces: list[tuple[LaplaceLoss, int]], places: Integers, n_points: int) -> LaplacePart:
    """The Laplace factors at given nodes."""
    widest = max((factor.sensitivity for factor, _ in laplaces), default=0) + 1
    log_masses = np.full((len(laplaces), widest), -np.inf)
    phases = []
    mean = spread = 0.0
    for i, (factor, weight) in enumerate(laplaces):
        logs = _log_masses(factor)
        log_masses[i, : len(logs)] = logs
        # Whole numbers modulo N, as for the Gaussian angles: both the product and the remainder are exact in int64.
        turns = np.multiply.outer(np.arange(len(logs)) * (weight % n_points) % n_points, places) % n_points
        phases.append(
            # Angles to half a turn on either side, so that exp sees no number above pi.
            np.exp((2j * np.pi / n_points) * np.where(2 * turns > n_points, turns - n_points, turns))
        )
        masses, values = np.exp(logs), weight * np.arange(len(logs))
        centre = float(masses @ values)
        mean += factor.multiplicity * centre
        spread += factor.multiplicity * float(masses @ (values - centre) ** 2)
    return LaplacePart(
        weights=np.array([float(weight) for _, weight in laplaces]),
        powers=np.array([factor.multiplicity for factor, _ in laplaces], dtype=np.int64),
        log_masses=log_masses,
        phases=tuple(phases),
        mean=mean,
        spread=spread,
        largest_log=sum(factor.multiplicity * _largest_log(factor) for factor, _ in laplaces),
        reach=float(sum(f.multiplicity * weight * f.sensitivity for f, weight in laplaces)),
    )


def _log_masses(factor: LaplaceLoss) -> list[float]:
    """Logarithms of the probabilities of i = 0..k: a^k, (1 - a) a^(k - i), 1, over 1 + a."""
    k, rate = factor.sensitivity, float(1 / factor.scale)
    # log1p and expm1: with a large scale, a is within rounding of 1, and 1 - a would lose its digits.
    norm = math.log1p(math.exp(-rate))
    inner = math.log(-math.expm1(-rate))
    return [-k * rate - norm, *(inner - (k - i) * rate - norm for i in range(1, k)), -norm]


def _largest_log(factor: LaplaceLoss) -> float:
    return max(abs(value) for value in _log_masses(factor)) + float(
        # The cap keeps a tiny scale from overflowing; the range of scales is checked before this is used.
        factor.sensitivity * min(1 / factor.scale, Fraction(10) ** 300)
    )
