"""Tails of a loss on a lattice by the trapezoid rule on a shifted contour.

The problem: for L = W + h Z with Z on the integers, compute P(Z >= z), Q(Z >= z) and delta. The transform
M(s) = E exp(s Z) is known in closed form, the law of Z is not.

`Quadrature` is the engine and has the steps. `contour_nodes` computes once what holds for every epsilon; `contour_at`
is one contour, with what the rule sums there for all lattice points near the saddle.

Error bounds hold where exp, expm1, log, log1p, sin and cos of the platform are right to 16 units in the last
place. Every formula and bound is derived in docs/proofs/quadrature.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

import numpy as np

from tallyveil.accounting.engines.lattice_points import (
    FARTHEST,
    LARGEST_MIRROR,
    MOST_POINTS,
    UNIT,
    EpsilonPlaces,
    LatticeFactors,
    LossPoints,
    find_places,
    log_theta_constant,
)
from tallyveil.accounting.engines.loss_transform import power_of
from tallyveil.accounting.engines.tails import ManyBounds, Tails, log_rest, log_sum
from tallyveil.accounting.losses import GaussianLoss, LaplaceLoss, LossFactor, LossLattice, lattice_of, merged
from tallyveil.accounting.numbers import Bounds
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

    The nodes are theta = 2 pi j / N. At a node, the transform of a Gaussian factor is exp(-v x^2 / 2) times one
    plus its *images*: the terms exp(-2 pi v k (pi k + x)) of Poisson's summation formula at whole turns k from x.
    Nodes and images whose size is negligible are left out, and their sum is bounded.

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


# What the rule sums: P(Z >= z). The three numbers are part of the key under which contours are kept.
FIRST: Final = 0
# Q(Z >= z): the same transform, its pole moved by the lattice step.
SECOND: Final = 1
# delta, from two sums whose coefficients depend on epsilon alone, so that one contour serves many epsilons.
DELTA: Final = 2

_EXACT_PRODUCTS: Final = 1 << 26  # below it, a node's place times z modulo N is an exact float


@dataclass(frozen=True, slots=True)
class LatticeContour:
    """The rule on one contour.

    Key: Z = sum of a S over the factors, s = tau + i theta, theta_j = 2 pi j / N; h lattice step; f gap between
    epsilon and the first loss; z the first lattice point of a sum.

    Each sum is in units of exp(V tau^2 / 2 - tau z) M_L(tau) / C (and exp(-W - h z) for `SECOND`), V the Gaussian
    part's variance, M_L the transform of the Laplace part, C the product of the theta constants. Delta is a
    combination of two sums, whose coefficients 1 - exp(-f) and exp(-f) (1 - exp(f - h)) depend on the gap.

    Attributes:
        tau: Shift of the contour; above 0, or above -h for SECOND.
        log_moment: Sum of m ln E exp(tau a S) over the Laplace factors.
        log_further: The same sum for a larger tau.
        n_points: N.
        places: j of the nodes.
        terms: What each sum adds up but for the phase exp(-i theta z), [sums, nodes]: one for FIRST and SECOND, and two
            for DELTA.
        errors: Bounds on the errors of the sums by rounding and by nodes left out, [sums].
    """

    tau: float
    log_moment: float
    log_further: float
    n_points: int
    places: Integers
    terms: Complexes
    errors: Floats

    def sums_at(self, residues: Integers) -> Floats:
        """The rule for many z, [sums, z].

        Args:
            residues: z modulo N, [z].
        """
        # Place and residue are below 2^26, their product below 2^52: floats hold it exactly, and are faster than an
        # integer remainder.
        if self.n_points < _EXACT_PRODUCTS:  # then all of this is exact in floats
            products = np.multiply.outer(self.places.astype(np.float64), residues.astype(np.float64))
            turns = products - np.rint(products * (1 / self.n_points)) * self.n_points
        else:
            angles = np.multiply.outer(self.places, residues) % self.n_points
            # To half a turn on either side, so that the cosine's argument has the smallest rounding.
            turns = np.where(2 * angles > self.n_points, angles - self.n_points, angles)
        turns = (2 * math.pi / self.n_points) * turns
        # The nodes come in conjugate pairs: a real sum of cosines and sines is the whole rule, at half the work.
        sums: Floats = self.terms.real @ np.cos(turns) + self.terms.imag @ np.sin(turns)
        return sums


def contour_at(
    kind: int, taus: tuple[float, float], step: float, nodes: ContourNodes, laplace: LaplacePart
) -> LatticeContour:
    """The rule on one contour.

    Args:
        kind: FIRST (P(Z >= z)), SECOND (Q(Z >= z)) or DELTA.
        taus: Shift of the contour, and a larger one, at which the Laplace part's transform is wanted too.
        step: h.
        nodes: The nodes kept.
        laplace: The Laplace factors there.
    """
    tau, further = taus
    masses, log_moments, _, _ = laplace.tilted(tau)
    term = _transform(tau, nodes, laplace, masses)
    # Each node but 0 stands for its mirror image too; its errors double with it.
    term[1:] *= 2
    sizes = nodes.sizes * (nodes.error_bases + abs(tau) * nodes.error_rates)
    sizes[1:] *= 2
    # The pole of the sum is at 0 under P and, as exp(-L) is a factor of Q, at minus the lattice step under Q.
    below = [_geometric(shift, nodes) for shift in ((tau + step,) if kind == SECOND else (tau,))]
    # Largest value of 1 / (1 - exp(-s)) on the contour: at theta = 0, where the denominator is smallest.
    largest = -1 / math.expm1(-tau - (step if kind == SECOND else 0.0))
    if kind == DELTA:
        # exp(-s) at tau, from 1 - cos and sin, so that nothing cancels near theta = 0.
        shifted = math.exp(-tau) * (1 - nodes.versines - 1j * nodes.sines)
        divisor = below[0] * _geometric(tau + step, nodes)
        largest *= -1 / math.expm1(-tau - step)
        factors, largests = [1 / divisor, shifted / divisor], [largest, largest * math.exp(-tau)]
    else:
        factors, largests = [1 / below[0]], [largest]
    # Rounding is proportional to each term's size: errors add up in absolute value.
    roundings = np.array([float(sizes @ np.abs(factor)) for factor in factors])
    return LatticeContour(
        tau=tau,
        log_moment=float(laplace.powers @ log_moments),
        log_further=float(laplace.powers @ laplace.tilted(further)[1]),
        n_points=nodes.n_points,
        places=nodes.places,
        terms=np.array([term * factor for factor in factors], dtype=np.complex128) / nodes.n_points,
        # 1.002: the bounds themselves are computed in floats, with roundings of order (number of nodes) UNIT.
        errors=roundings * (UNIT * 1.002 / nodes.n_points)
        + np.array(largests) * ((1 + 1e-12) * nodes.left_out),
    )


def _geometric(tau: float, nodes: ContourNodes) -> Complexes:
    """1 - exp(-tau - i theta) without cancellation, from 1 - cos(theta) and sin(theta)."""
    decay = math.exp(-tau)
    denominators: Complexes = -math.expm1(-tau) + decay * nodes.versines + 1j * (decay * nodes.sines)
    return denominators


def _transform(tau: float, nodes: ContourNodes, laplace: LaplacePart, masses: Floats) -> Complexes:
    """The transform of Z at the nodes, in its unit."""
    values = np.exp(-nodes.decays) * _turned(tau * nodes.phase_rates)
    for image in nodes.images:
        images = 1 + _turned(tau * image.rates) @ image.sizes
        values[image.nodes] *= power_of(images, image.power)
    for law, phases, power in zip(masses, laplace.phases, laplace.powers.tolist(), strict=True):
        values *= power_of(law[: len(phases)] @ phases, power)
    return values


def _turned(angles: Floats) -> Complexes:
    """exp(i angle), of angles reduced to [-pi, pi]."""
    # Reduced to half a turn in units of a turn: exp of a huge imaginary part would lose its digits.
    turns = angles / (2 * math.pi)
    rotation: Complexes = np.exp((2j * math.pi) * (turns - np.rint(turns)))
    return rotation


_POINTS_PER_DEVIATION: Final = 24  # the wrap-around stays negligible down to delta = exp(-1100)
_ASIDE: Final = 1.6  # standard deviations by which the contour passes the saddle, at least
_TILTS: Final = 2  # contours for each standard deviation of the saddle
_MOST_AT_ONCE: Final = 1 << 20  # nodes times epsilons
# Contours kept at least, even where a contour has many nodes.
_CACHED: Final = 16
# Contours kept at most, where each has few nodes.
_MOST_CACHED: Final = 128
# ln C from which a composition is refused: C multiplies the bounds on the nodes left out.
_LARGEST_LOG_NORM: Final = 5.0
# Least scale of Laplace noise that is taken; another engine takes what is outside of this and of `_MOST`.
_LEAST: Final = Fraction(1, 10**6)
# Largest scale and variance that are taken.
_MOST: Final = Fraction(10**15)


@dataclass(frozen=True, slots=True)
class Quadrature:
    """Composition of discrete Gaussian (variance at least 1/4) and Laplace losses on a common lattice.

    The variables: s = tau + i theta, where tau > 0 is the shift of the contour and theta the angle; V the
    variance of the Gaussian part of Z; M_L the transform of the Laplace part; C the product of the theta
    constants; N the odd number of points of the rule.

    The steps:

    1. Once (`contour_nodes`): find the nodes theta = 2 pi k / N at which |M| is not negligible, side peaks
       included, and compute there everything that does not depend on epsilon. Bound the sum over the other nodes.
    2. For each epsilon: find tau near the saddle of M(s) exp(-s z), where the terms cancel least.
    3. Sum over the nodes M(s) exp(-s z) / (1 - exp(-s)), which is the transform of a tail; for Q and delta the
       last factor is another one.
    4. Widen the result by the nodes left out, by the wrap-around of the rule and by the rounding
       (docs/proofs/quadrature.md).

    There is no iteration to stop: N follows from V, and the bounds hold for any tau.

    Example: with one Laplace answer of sensitivity 1, Z is 0 or 1 and M(s) = (a + exp(s)) / (1 + a), a = exp(-1 /
    t). The rule then gives P(Z >= 1) = 1 / (1 + a), up to the wrap-around, which is of order exp(-tau N).

    Attributes:
        points: Values that the total loss can take.
        step: h, rounded to nearest.
        variance: V, rounded to nearest; 0 without Gaussian noise.
        log_norm: ln C.
        mean: Mean under P of the Laplace part of Z; the mean of the Gaussian part is 0.
        largest: Largest value of Z, or None where Gaussian noise leaves Z unbounded.
        nodes: Where the transform is evaluated.
        laplace: The Laplace factors.
        name: Name of the engine.
    """

    points: LossPoints
    step: float
    variance: float
    log_norm: float
    mean: float
    largest: int | None
    nodes: ContourNodes = field(repr=False)
    laplace: LaplacePart = field(repr=False)
    name: str = "quadrature"
    _contours: dict[tuple[int, int], LatticeContour] = field(default_factory=dict, repr=False, compare=False)
    _means: dict[int, float] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def build(cls, factors: tuple[LossFactor, ...]) -> "Quadrature | None":
        """The engine, or None where its conditions do not hold; `why_not` says which.

        Raises:
            BudgetError: a factor is out of range.
        """
        engine = _made(factors)
        return None if isinstance(engine, str) else engine

    @staticmethod
    def why_not(factors: tuple[LossFactor, ...]) -> str | None:
        """The condition that fails, in words, or None."""
        engine = _made(factors)
        return engine if isinstance(engine, str) else None

    def log_tails(self, epsilon: float | Fraction) -> Tails:
        """Tails of the loss beyond epsilon, any real number."""
        z, _ = self.points.above(epsilon)
        return Tails(
            log_first=self._log_first(z),
            log_second=self._log_second(z),
            log_delta=self.log_deltas([epsilon])[0],
        )

    def log_deltas(self, epsilons: Sequence[float | Fraction]) -> ManyBounds:
        """ln delta at many epsilons at once."""
        places = self.points.places(epsilons)
        z = places.firsts
        # Left of this delta is nearly 1, and only its distance from 1 is a sum that keeps its digits.
        nearly_one = z <= self.mean - 1.5 * math.sqrt(self.variance + self.laplace.spread)
        last = np.zeros_like(nearly_one) if self.largest is None else z == self.largest
        usual = ~(nearly_one | last)
        if usual.all():
            return places.with_signs(self._log_excess(places))
        lower, upper = np.full(z.size, -np.inf), np.zeros(z.size)
        cases = (usual, self._log_excess), (nearly_one & ~last, self._from_tails), (last, self._of_last)
        for chosen, by in cases:
            if chosen.any():
                logs = by(places.at(chosen))
                lower[chosen], upper[chosen] = logs.lower, logs.upper
        return places.with_signs(ManyBounds(lower, upper))

    def _log_excess(self, places: EpsilonPlaces) -> ManyBounds:
        """ln delta(|epsilon|) as one sum of positive terms."""
        return self._log_sums(DELTA, places.firsts, (places.gaps, places.slips))

    def _from_tails(self, places: EpsilonPlaces) -> ManyBounds:
        """The same where it is nearly 1, as 1 - P(L <= epsilon) - exp(epsilon) Q(L > epsilon)."""
        below = self._log_sums(SECOND, 1 - places.firsts - self.points.mirror)
        second = self._log_sums(
            SECOND, places.firsts
        )  # right of the mean under Q, as |epsilon| is not negative
        return log_rest(log_sum(below, second, places.sizes))

    def _of_last(self, places: EpsilonPlaces) -> ManyBounds:
        """The same where one loss is left: its part 1 - exp(-gap) may be far below the rounding of any sum."""
        first, parts = self._log_sums(FIRST, places.firsts), np.log(-np.expm1(-places.gaps))
        slack = UNIT * (40 + 4 * np.abs(parts)) - 1.01 * np.log1p(-places.slips / places.gaps)
        uppers = np.minimum(first.upper + parts + slack, 0.0)
        return ManyBounds(np.minimum(first.lower + parts - slack, uppers), uppers)

    def _log_first(self, z: int) -> Bounds:
        """ln P(Z >= z)."""
        if z > self.mean:
            return self._log_sum(FIRST, z)
        return log_rest(self._log_sum(SECOND, 1 - z - self.points.mirror))

    def _log_second(self, z: int) -> Bounds:
        """ln Q(Z >= z); under Q, Z has the law of -m - Z under P."""
        if z > -self.points.mirror - self.mean:
            return self._log_sum(SECOND, z)
        return log_rest(self._log_sum(FIRST, 1 - z - self.points.mirror))

    def _log_sum(self, kind: int, z: int) -> Bounds:
        return self._log_sums(kind, np.array([min(z, FARTHEST + 1)]))[0]

    def _log_sums(self, kind: int, first: Integers, gaps: tuple[Floats, Floats] | None = None) -> ManyBounds:
        """Logarithms of sums over Z >= z for many z, each on a contour right of the pole and near its saddle.

        Args:
            kind: FIRST, SECOND or DELTA.
            first: z.
            gaps: For DELTA, by how much the loss at z exceeds epsilon, and bounds on the errors of this.
        """
        # Where a point is further out, the sum is smaller than from there, or there is nothing to add up.
        z = np.minimum(first, FARTHEST if self.largest is None else min(self.largest, FARTHEST))
        sums, errors, contours = self._on_contours(kind, z)
        if gaps is None:
            values, off = sums[0], errors[0]
        else:
            gap, slip = gaps
            parts = np.array([-np.expm1(-gap), -np.exp(-gap) * np.expm1(np.minimum(gap - self.step, 0.0))])
            values, off = (parts * sums).sum(axis=0), (parts * errors).sum(axis=0)
            off += 1.01 * slip * (np.abs(sums[0] - sums[1]) + errors[0] + errors[1])
        log_scales, roundings = self._log_scales(kind, contours, z)
        # The wrap-around only adds: it widens the lower side alone.
        less = off + self._wrap_around(kind, contours, z, log_scales, roundings)
        with np.errstate(divide="ignore"):
            uppers = np.log(np.maximum(values + off, 0.0)) + log_scales + roundings
            lowers = np.log(np.maximum(values - less, 0.0)) + log_scales - roundings
        if self.largest is not None:
            uppers = np.where(first > self.largest, -np.inf, uppers)
        uppers = np.minimum(uppers, 0.0)
        return ManyBounds(np.minimum(np.where(first > FARTHEST, -np.inf, lowers), uppers), uppers)

    def _on_contours(self, kind: int, z: Integers) -> tuple[Floats, Floats, "LatticeContour | _Used"]:
        """The sums for many z and bounds on their errors, both [sums, z], and the contour of each."""
        if z.size == 1:
            at_tilt = self._contour(kind, self._tilt(kind, int(z[0])))
            return at_tilt.sums_at(z % self.nodes.n_points), at_tilt.errors[:, None], at_tilt
        # In order, so that neighbouring points share a contour.
        places, back = np.unique(z, return_inverse=True)
        begin, used, counts, sums = 0, [], [], []
        # So many points at once that nodes times points is a matrix of bounded size.
        most = max(1, _MOST_AT_ONCE // self.nodes.places.size)
        while begin < places.size:
            index = self._tilt(kind, int(places[begin]))
            end = int(np.searchsorted(places, self._reach(index), side="right"))
            end = min(max(end, begin + 1), begin + most)
            used.append(self._contour(kind, index))
            counts.append(end - begin)
            sums.append(used[-1].sums_at(places[begin:end] % self.nodes.n_points))
            begin = end
        contour_of = np.repeat(np.arange(len(used)), counts)[back]
        errors = np.array([contour.errors for contour in used])[contour_of].T
        taus, moments, further = np.array(
            [[at_tilt.tau, at_tilt.log_moment, at_tilt.log_further] for at_tilt in used]
        )[contour_of].T
        return np.concatenate(sums, axis=1)[:, back], errors, _Used(taus, moments, further)

    @property
    def _spacing(self) -> float:
        """Distance of the tilts of neighbouring contours."""
        return _POINTS_PER_DEVIATION / (_TILTS * self.nodes.n_points)

    def _contour(self, kind: int, index: int) -> LatticeContour:
        """The contour of a tilt; kept for the next epsilon."""
        contour = self._contours.get((kind, index))
        if contour is None:
            while len(self._contours) >= max(
                _CACHED, min(_MOST_CACHED, _MOST_AT_ONCE // self.nodes.places.size)
            ):
                self._contours.pop(next(iter(self._contours)))
            # Far enough from the pole for the wrap-around, and no further: where the law has several scales,
            # more than a whole deviation of the widest could lead to another part of it.
            tau = index * self._spacing + _ASIDE * _POINTS_PER_DEVIATION / self.nodes.n_points
            further = float(tau + self._beyond)
            contour = contour_at(kind, (tau, further), self.step, self.nodes, self.laplace)
            self._contours[kind, index] = contour
        return contour

    @property
    def _beyond(self) -> float:
        """By how much Chernoff's bound is taken further out: half a period's worth of standard deviations."""
        return _POINTS_PER_DEVIATION**2 / (2.0 * self.nodes.n_points)

    def _tilt(self, kind: int, z: int) -> int:
        """The first place on the grid of tilts that is right of the saddle and of the pole."""
        # At the largest value itself the saddle is at infinity, so half a point before it is taken.
        target = float(z) if self.largest is None else min(float(z), self.largest - 0.5)
        # The pole of the last factor is at 0, and at -h for the tail under Q: the contour passes right of it.
        least = math.ceil((-self.step if kind == SECOND else 0.0) / self._spacing)
        if not self.laplace.powers.size:
            return max(math.ceil(target / self.variance / self._spacing), least)
        return max(self._saddle(target), least)

    def _reach(self, index: int) -> float:
        """The last z that has its saddle left of a place on the grid of tilts, about."""
        reach = self._mean_at(index)
        return math.inf if self.largest is not None and reach >= self.largest - 0.5 else reach

    def _saddle(self, target: float) -> int:
        """The first place on the grid of tilts at which the tilted Z has a mean of at least the target."""
        # The mean rises with the tilt, so doubling and halving find the place.
        low, high = -1, 1
        while self._mean_at(high) < target:
            low, high = high, 2 * high
        while self._mean_at(low) >= target:
            low, high = 2 * low, low
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._mean_at(middle) >= target else (middle, high)
        return high

    def _mean_at(self, index: int) -> float:
        if index not in self._means:
            tau = index * self._spacing
            self._means[index] = self.variance * tau + self.laplace.tilted(tau)[2]
        return self._means[index]

    def _log_scales(
        self, kind: int, contours: "LatticeContour | _Used", z: Integers
    ) -> tuple[Floats, Floats]:
        """Logarithms of the factors that the sums are to be multiplied by, and their rounding errors."""
        tau, moments = contours.tau, contours.log_moment
        gaussian, moved = self.variance * tau * tau / 2, tau * z.astype(np.float64)
        # Kept as a logarithm: the factor itself may be far below the smallest float.
        scales = gaussian - self.log_norm + moments - moved
        sizes = gaussian + self.log_norm + np.abs(moments) + np.abs(moved) + np.abs(scales)
        roundings = 16 + 8 * sizes
        if self.laplace.powers.size:
            # The logarithm of each transform is at most the largest mass's and |tau| a k.
            roundings += 16 * (self.laplace.largest_log + np.abs(tau) * self.laplace.reach)
        if kind == SECOND:
            losses = np.array(
                [(self.points.offset + self.points.step * index) / self.points.unit for index in z.tolist()]
            )
            scales = scales - losses
            roundings += 8 * np.abs(losses) + 8 * np.abs(scales)
        return scales, UNIT * roundings

    def _wrap_around(
        self,
        kind: int,
        contours: "LatticeContour | _Used",
        z: Integers,
        log_scales: Floats,
        roundings: Floats,
    ) -> Floats:
        """Bounds on the mass at whole periods from the tail, which the rule counts too, in units of the scale."""
        tau, period, beyond = contours.tau, float(self.nodes.n_points), self._beyond
        # Far from the pole one period weighs next to nothing; the cap of exp leaves no lower end anyway.
        decay = (tau + self.step if kind == SECOND else tau) * period
        below = np.exp(np.minimum(700.0, roundings - decay - log_scales)) / -np.expm1(-decay)
        # Chernoff's bound half a period further out.
        exponents = 2 * roundings + self.log_norm + self.variance * beyond * (2 * tau + beyond) / 2
        exponents += contours.log_further - contours.log_moment - beyond * (z + period)
        above = np.exp(np.minimum(700.0, exponents)) / -math.expm1(-beyond * period)
        if self.largest is not None:
            above = np.where(z + self.nodes.n_points > self.largest, 0.0, above)
        return (below + above) * 1.001


@dataclass(frozen=True, slots=True)
class _Used:
    """What is known of the contour that each of many sums is taken on, [sums].

    Attributes:
        tau: Shift of the contour.
        log_moment: Logarithm of the transform of the Laplace part at tau.
        log_further: The same further out.
    """

    tau: Floats
    log_moment: Floats
    log_further: Floats


def _made(factors: tuple[LossFactor, ...]) -> Quadrature | str:
    factors = merged(factors)
    if not factors:
        return "there is no loss"
    lattice = lattice_of(factors)
    pairs = tuple(zip(factors, lattice.weights, strict=True))
    gaussians = [(factor, weight) for factor, weight in pairs if isinstance(factor, GaussianLoss)]
    laplaces = [(factor, weight) for factor, weight in pairs if isinstance(factor, LaplaceLoss)]
    refused = _out_of_range(factors, lattice)
    if refused is not None:
        return refused
    points = LossPoints.of(lattice)
    exact = sum((f.multiplicity * a**2 * f.variance for f, a in gaussians), Fraction(0))
    widest = sum(f.multiplicity * (a * f.sensitivity) ** 2 for f, a in laplaces)
    # Odd, so that all nodes but 0 come in conjugate pairs and none lies at pi.
    # A Laplace answer counts with k^2 / 4, the largest variance that a tilt can give it.
    n_points = _POINTS_PER_DEVIATION * (math.isqrt(math.ceil(exact + Fraction(widest, 4))) + 1) | 1
    if n_points >= MOST_POINTS or points.mirror >= LARGEST_MIRROR:
        return f"the common lattice of the losses is too fine: more than {MOST_POINTS} points"
    log_norm = sum(f.multiplicity * log_theta_constant(float(f.variance)) for f, _ in gaussians)
    # ln C is about 2 exp(-2 pi^2 v) an answer: at variance 1/4 some 350 answers reach the limit.
    if log_norm > _LARGEST_LOG_NORM:
        return "the variances are too small for so many answers"
    nodes = contour_nodes(gaussians, laplaces, lattice.step, n_points)
    if isinstance(nodes, str):
        return nodes
    laplace = laplace_part(laplaces, nodes.places, n_points)
    return Quadrature(
        points,
        float(lattice.step),
        float(exact),
        log_norm,
        laplace.mean,
        None if gaussians else sum(f.multiplicity * a * f.sensitivity for f, a in laplaces),
        nodes,
        laplace,
    )


def _out_of_range(factors: tuple[LossFactor, ...], lattice: LossLattice) -> str | None:
    for factor in factors:
        # Below 1/4 the bounds on images widen (docs/proofs/quadrature.md, conditions).
        if isinstance(factor, GaussianLoss) and not Fraction(1, 4) <= factor.variance <= _MOST:
            return f"the quadrature needs variances from 1/4 to {_MOST}"
        if isinstance(factor, LaplaceLoss) and not (
            _LEAST <= factor.scale <= _MOST and factor.sensitivity <= 64
        ):
            return (
                f"the quadrature needs Laplace scales from {_LEAST} to {_MOST}, sensitivities of at most 64"
            )
    # Products of two such numbers fit into 64 bits, in which angles are reduced exactly.
    if max(*lattice.weights, *(max(f.multiplicity, f.sensitivity) for f in factors)) >= 1 << 31:
        return "the common lattice of the losses is too fine, or an answer is repeated too often"
    return None
