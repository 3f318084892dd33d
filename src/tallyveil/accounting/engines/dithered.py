"""Certified tails of a loss without a usable lattice, from its transform alone, to a width that is chosen.

The problem: compute delta(epsilon) = E[(1 - exp(epsilon - L))+] for a loss L that is a sum of losses whose transforms
are known: of integer or real noise, of randomized response. Their lattices have no common one of usable size, or they
have none. Moving each loss to a common grid would add an error for each.

The variables: kappa = exp(epsilon); P and Q, the laws of the output for two neighbours; D the *dither*, an
independent sum of p uniform variables on [-h / p, h / p]; delta_h(epsilon) the delta of L + D; s the *tilt*,
the real part of the numbers at which the transform of L is computed.

The idea: delta is a convex and falling function of kappa. So the dithered delta bounds it from both sides,

    2 delta_h(epsilon + h^2 / 2) - delta_2h(epsilon) <= delta(epsilon) <= delta_h(epsilon - h^2 / (6 p)),

and the two sides differ by about h^2, whatever the number of losses. The dither makes the transform fall
quickly, so that only frequencies up to a bound U, about 50 / h, matter.

`Dithered` is the engine and has the steps; `contour_at` is one contour of the trapezoid rule, with bounds on all its
errors, which are derived in docs/proofs/off-lattice.md.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final, TypeAlias, TypeGuard

import numpy as np
from flint import arb

from tallyveil.accounting.engines.loss_transform import (
    FEW_STATES,
    UNIT,
    Depth,
    GaussianFactors,
    Other,
    Windows,
    atoms,
    decay_of,
    find_windows,
    nodes_within,
    number_of_nodes,
    power_of,
)
from tallyveil.accounting.engines.moments import (
    certified_log_moment,
    greatest_bounds,
    log_chance_of_greatest,
    log_moment,
    moments,
)
from tallyveil.accounting.engines.sampled import (
    USUAL_TERMS,
    atoms_of_sample,
    is_dense,
    largest_tilt,
    moments_of_sample,
    stays_of_sample,
    takes_sample,
    terms_of_sample,
)
from tallyveil.accounting.engines.tails import (
    NOTHING,
    LossEngine,
    ManyBounds,
    Tails,
    exact_epsilon,
    float_bounds,
    log_reflected,
    log_rest,
    tails_by_chords,
)
from tallyveil.accounting.losses import (
    UNKNOWN_LAW,
    Base,
    ExponentialLoss,
    FailureLoss,
    GaussianLoss,
    Law,
    LossFactor,
    NormalLoss,
    ResponseLoss,
    SampledLoss,
    merged_law,
    mirrored,
)
from tallyveil.accounting.numbers import Bounds
from tallyveil.arrays import Complexes, Floats, Integers
from tallyveil.noise.balls import precision

# Minus the logarithm, about, of images of a factor below which none of them is computed.
_NEGLIGIBLE_IMAGE: Final = 60.0
# Whole turns of the images that are computed.
_IMAGES: Final = (-3, -2, -1, 1, 2, 3)
# exp of more than 709 would overflow to infinity; a bound of exp(700) says nothing anyway.
_LARGEST_EXPONENT: Final = 700.0


Transformed: TypeAlias = Base | SampledLoss
"""Losses whose transform is known."""

EngineOf: TypeAlias = Callable[[Law], LossEngine]
"""Makes the engine of a law, the empty one included."""


@dataclass(frozen=True, slots=True)
class Scan:
    """What is known about a composition before any epsilon.

    Attributes:
        gaussians: The normal factors and the discrete Gaussian ones of variance 1/4 or more.
        others: All other factors.
        depth: Which sizes of the transform the scan took for negligible.
        windows: Where the transform is not negligible; at a usual tilt if that depends on the tilt.
        spread: About the standard deviation of the loss, or more.
        is_tilted: Whether the windows take the other factors into account, and so depend on the tilt.
        without_stays: Whether the contour is that of the part in which not all samples of fixed size have a loss of 0.
    """

    gaussians: GaussianFactors
    others: tuple[Other, ...]
    depth: Depth
    windows: Windows
    spread: float
    is_tilted: bool = False
    without_stays: bool = False

    def at(self, tilt: float) -> "Scan":
        """The same with the windows at a tilt."""
        if not self.is_tilted:
            return self
        decay = decay_of(
            self.gaussians, self.others, Fraction(tilt), self.spread, without_stays=self.without_stays
        )
        return replace(self, windows=find_windows(decay, self.depth, FEW_STATES))

    def largest(self, tilt: float) -> float:
        """About how many atoms the largest one of the samples has."""
        farthest = float(self.windows.highs.max(initial=0.0))
        samples = (factor for factor in self.others if isinstance(factor, SampledLoss))
        return max((_terms(factor, tilt, farthest) for factor in samples), default=0.0)

    def nodes(self, period: float) -> float:
        """About how many nodes a contour has."""
        return number_of_nodes(self.windows.lows, self.windows.highs, 2 * math.pi / period)

    def terms(self, tilt: float) -> float:
        """Numbers that a node takes: one for each Gaussian factor, for each atom and for each density."""
        farthest = float(self.windows.highs.max(initial=0.0))
        return self.gaussians.count + sum(_terms(factor, tilt, farthest) for factor in self.others)


@dataclass(frozen=True, slots=True)
class DitheredContour:
    """The rule on one contour, for the epsilons that share its tilt.

    The variables: z = s + i u with the tilt s and the frequency u; D the distance of neighbouring nodes u; G = 2
    pi / D the period of the rule; h half the width of the dither, a sum of p uniform laws; M the transform of the
    loss L; W the centre of the loss, from which phases are counted.

    For s > 0 the rule gives delta of the dithered loss, for -1 < s < 0 it gives 1 - delta. In both cases it sums
    M(z) k(z) exp(-z epsilon) / (z (z + 1)), with k(z) = (sinh(z h / p) / (z h / p))^p the transform of the
    dither. All bounds are derived in docs/proofs/off-lattice.md.

    Attributes:
        scan: The composition.
        tilt: s, above 0 for delta and between -1 and 0 for 1 - delta.
        period: G.
        centre: W, exact.
        frequencies: u at the nodes.
        terms: The terms of the rule without the phase exp(i u (W - epsilon)), for the dither and for one twice as wide.
        roundings: For both, a bound on the rounding error of the sum, and its growth with |W - epsilon|.
        sizes: For both, the sum of the moduli of the terms.
        log_unit: Logarithm of the unit of the sums, without the part -s epsilon.
        further: A tilt beyond s for Chernoff's bound on the wrap-around, and the logarithm of the moment there.
    """

    scan: Scan
    tilt: float
    period: float
    centre: Fraction
    frequencies: Floats
    terms: tuple[Complexes, Complexes]
    roundings: tuple[tuple[float, float], tuple[float, float]]
    sizes: tuple[float, float]
    log_unit: Bounds
    further: tuple[float, float]
    _shifted: dict[tuple[int, Fraction], Complexes] = field(default_factory=dict, repr=False, compare=False)

    def sums_at(
        self, epsilons: Sequence[Fraction], variants: Sequence[tuple[int, Fraction]]
    ) -> list[tuple[Floats, Floats]]:
        """The rule and bounds on its errors, without the wrap-around, for each variant.

        Args:
            epsilons: Where.
            variants: 1 for the wider dither, and what is added to the epsilons. Nearby epsilons share the phases, which
                take most of the time.
        """
        # Exact difference, rounded once: W and epsilon may be large and close.
        away = np.array([float(self.centre - epsilon) for epsilon in epsilons])
        terms = [self._terms_at(*variant) for variant in variants]
        values = [np.zeros(away.size) for _ in variants]
        # As many nodes at once as stay in a processor's cache.
        at_once = max(1, _AT_ONCE // away.size)
        for begin in range(0, self.frequencies.size, at_once):
            piece = slice(begin, begin + at_once)
            turns = np.multiply.outer(away / (2 * math.pi), self.frequencies[piece])
            # Whole turns are taken off before the cosine, whose argument reduction would otherwise lose digits.
            angles = (2 * math.pi) * (turns - np.rint(turns))
            cosines, sines = np.cos(angles), np.sin(angles)
            for i, term in enumerate(terms):
                values[i] += cosines @ term[piece].real - sines @ term[piece].imag
        return [
            (values[i], self._errors(np.abs(away), wide, shift)) for i, (wide, shift) in enumerate(variants)
        ]

    def _errors(self, away: Floats, wide: int, shift: Fraction) -> Floats:
        fixed, growth = self.roundings[wide]
        # Rounding grows with the distance from the centre, since u times it is the rounded phase.
        errors = fixed + growth * (away + float(abs(shift))) + self._left_out(wide + 1)
        if shift:
            # One more factor of modulus 1, right to some units.
            errors = errors + 100 * UNIT * self.sizes[wide]
        return errors

    def _terms_at(self, wide: int, shift: Fraction) -> Complexes:
        if not shift:
            return self.terms[wide]
        if (wide, shift) not in self._shifted:
            self._shifted[wide, shift] = self.terms[wide] * np.exp(-1j * float(shift) * self.frequencies)
        return self._shifted[wide, shift]

    def _left_out(self, factor: int) -> float:
        """Bound on the sum over the nodes outside the windows and beyond their end."""
        windows, depth = self.scan.windows, self.scan.depth
        # The poles are at 0 and -1: s is the distance from the nearer one, which bounds 1 / |z (z + 1)| on the line.
        s, step = min(abs(self.tilt), abs(1 + self.tilt)), 2 * math.pi / self.period
        size = math.exp(abs(self.tilt) * depth.half_width * factor + self.scan.gaussians.log_norm) / math.pi
        first = math.pi / (2 * s) + step / s**2
        later = windows.segments * windows.first / (windows.first - step)
        end = windows.end - step
        # Beyond the scan the dither makes everything small: u^-p, integrated. So does the density of Laplace noise.
        power = depth.parts * math.log(depth.parts / (depth.half_width * end)) - math.log(depth.parts + 1)
        beyond = min(0.0, power) - windows.gain - math.log(end)
        return 1.001 * size * (math.exp(-depth.depth) * (first + later) + math.exp(beyond))

    def wrap_around(self, epsilons: Floats, factor: int) -> Floats:
        """Bounds on what whole periods from epsilons add to the rule, in units of the sums."""
        there, log_moment = self.further
        units = self.log_unit.lower - self.tilt * epsilons
        # Nodes repeat the tail at whole periods; near: those towards the pole, each exp(-|s| G) smaller.
        near = -abs(self.tilt) * self.period
        apart = abs(there - self.tilt) * self.period
        # The wider dither reaches 2 h from the centre, and exp(|t| 2 h) bounds its transform at t.
        wide = abs(there) * factor * self.scan.depth.half_width
        far = log_moment - there * epsilons + wide - apart
        sizes = (
            np.abs(units) + abs(log_moment) + np.abs(there * epsilons) + np.abs(self.tilt * epsilons) + apart
        )
        slack = 1e-9 + 64 * UNIT * sizes
        parts = [
            # A geometric series over the periods: 1 / (1 - exp(-decay)) sums it.
            np.exp(np.minimum(_LARGEST_EXPONENT, exponent - units + slack)) / -math.expm1(-decay)
            for exponent, decay in ((near, -near), (far, apart))
        ]
        total: Floats = parts[0] + parts[1]
        return total

    def log_scales(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Logarithms of the units of the sums at epsilons, from both sides."""
        less = self.tilt * epsilons
        slack = 8 * UNIT * (np.abs(less) + abs(self.log_unit.upper))
        return self.log_unit.lower - less - slack, self.log_unit.upper - less + slack


def contour_at(scan: Scan, tilt: float, period: float, further: float) -> DitheredContour:
    """The rule on one contour.

    Args:
        scan: The composition.
        tilt: s.
        period: G.
        further: Where Chernoff's bound on the wrap-around is taken.
    """
    # A tilt moves every phase; the nodes are those of the windows, at multiples of the step, in order.
    step = 2 * math.pi / period
    numbers = nodes_within(scan.windows.lows, scan.windows.highs, step)
    lists = _lists(scan.others, tilt, float(numbers.max(initial=0) * step))
    # As many nodes at once as stay in a processor's cache: every array that leaves it takes ten times as long.
    pieces = [
        _terms_at_nodes(scan, tilt, step, numbers[begin : begin + _AT_ONCE], lists, numbers.size)
        for begin in range(0, numbers.size, _AT_ONCE)
    ]
    single, double = (
        (
            np.concatenate([piece[i].terms for piece in pieces]),
            (1.01 * sum(piece[i].fixed for piece in pieces), sum(piece[i].growth for piece in pieces)),
            1.01 * sum(piece[i].size for piece in pieces),
        )
        for i in (0, 1)
    )
    return DitheredContour(
        scan=scan,
        tilt=tilt,
        period=period,
        centre=_centre(scan.gaussians, lists),
        frequencies=numbers.astype(np.float64) * step,
        # The phases are counted from the centre, an exact fraction, so that epsilon minus centre has one rounding.
        terms=(single[0], double[0]),
        roundings=(single[1], double[1]),
        sizes=(single[2], double[2]),
        log_unit=log_moment_bounds(scan, tilt, scan.gaussians.log_norm),
        further=(further, log_moment_bounds(scan, further, 0.0).upper),
    )


def transform_of(
    factor: Transformed, numbers: Integers, step: float, tilt: float
) -> tuple["ContourPart", Fraction]:
    """The transform of one factor at nodes, in the unit of its kind, and the loss from which its phases are counted.

    The unit of a normal factor and of a discrete Gaussian one of variance 1/4 or more is exp((s + s^2) V / 2) / C, that
    of any other factor its moment E exp(s L).
    """
    wide, others = _split((factor,))
    gaussians = GaussianFactors.of(wide)
    lists = _lists(others, tilt, float(numbers.max(initial=0) * step))
    part = _transform(gaussians, others, lists, (numbers, step, numbers.size), tilt, without_stays=False)
    return part, _centre(gaussians, lists)


def _transform(
    gaussians: GaussianFactors,
    others: Sequence[Other],
    lists: dict[Other, "_List"],
    nodes: tuple[Integers, float, int],
    tilt: float,
    *,
    without_stays: bool,
) -> "ContourPart":
    """The transform of all factors.

    Args:
        gaussians, others: The factors.
        lists: Those of the others that have one.
        nodes: Numbers of nodes, their distance, and how many nodes the whole rule has.
        tilt: s.
        without_stays: Whether the part is taken off in which all samples of fixed size have a loss of 0.
    """
    numbers, step, count = nodes
    u = numbers.astype(np.float64) * step
    part = _gaussian_part(gaussians, u, tilt)
    samples = ContourPart(np.ones(u.size, dtype=np.complex128), np.ones(u.size), np.zeros(u.size))
    stays, roundings = 1.0, 0.0
    for factor in others:
        if isinstance(factor, ExponentialLoss):
            part = part.times(*_exponential_part(factor, u, Fraction(tilt)))
        elif without_stays and has_stays(factor):
            law = lists[factor]
            samples = samples.times(*_listed_part(law, numbers, step, count))
            # Of several kinds of samples each has its own. A power has four units for each factor, each weight two.
            at_zero = law.weights[law.losses == 0].real
            stays *= float(at_zero.sum()) ** law.multiplicity
            roundings += law.multiplicity * (8 + 2 * at_zero.size + 2 * law.error / UNIT)
        else:
            part = part.times(*_listed_part(lists[factor], numbers, step, count))
    if not without_stays:
        return part
    # The difference is the transform of a part of the law, so that its modulus is at most 1.
    return part.times(samples.values - stays, samples.errors + roundings)


def has_stays(factor: Transformed) -> bool:
    """Whether a loss is 0 with a probability, and has a density beside it: dense samples of fixed size."""
    return isinstance(factor, SampledLoss) and factor.changed and is_dense(factor)


def _centre(gaussians: GaussianFactors, lists: dict[Other, "_List"]) -> Fraction:
    """The loss from which phases are counted."""
    return gaussians.variance / 2 + sum((law.centre for law in lists.values()), Fraction(0))


def is_wide_gaussian(loss: Transformed) -> TypeGuard[GaussianLoss | NormalLoss]:
    """Whether a loss is of normal noise, or of discrete Gaussian noise whose transform has a closed form here."""
    return isinstance(loss, NormalLoss) or (
        isinstance(loss, GaussianLoss) and loss.variance >= LEAST_VARIANCE
    )


def _split(losses: Sequence[Transformed]) -> tuple[list[GaussianLoss | NormalLoss], list[Other]]:
    """The wide Gaussian losses, and all others."""
    wide: list[GaussianLoss | NormalLoss] = []
    others: list[Other] = []
    for loss in losses:
        if is_wide_gaussian(loss):
            wide.append(loss)
        else:
            assert not isinstance(loss, NormalLoss)
            others.append(loss)
    return wide, others


@dataclass(frozen=True, slots=True)
class _List:
    """A loss as a list of atoms, tilted.

    Attributes:
        losses, weights: As in `SampleAtoms`; losses are counted from the centre.
        error: Bound on the error of the transform that the list has by itself.
        centre: Exact; 0 for samples.
        multiplicity: Of the loss.
    """

    losses: Floats | Complexes
    weights: Floats | Complexes
    error: float
    centre: Fraction
    multiplicity: int


def _lists(others: Sequence[Other], tilt: float, farthest: float) -> dict[Other, _List]:
    """The lists of all factors but real Laplace noise, whose transform has a closed form."""
    lists: dict[Other, _List] = {}
    for factor in others:
        match factor:
            case ExponentialLoss():
                continue
            case SampledLoss():
                # Phases of Laplace noise and of samples are counted from a loss of 0.
                sample = atoms_of_sample(factor, Fraction(tilt), farthest)
                lists[factor] = _List(
                    sample.losses, sample.weights, sample.error, Fraction(0), factor.multiplicity
                )
            case _:
                # Atoms of what has no closed form, tilted exactly by the fraction that the float is. They are counted
                # from the middle of the list: phases stay as small as they can be.
                law = atoms(factor, Fraction(tilt))
                middle = law.weights.size // 2
                losses = float(factor.step) * (np.arange(law.weights.size, dtype=np.float64) - middle)
                centre = factor.multiplicity * (factor.offset + factor.step * (law.start + middle))
                lists[factor] = _List(losses, law.weights, law.error, centre, factor.multiplicity)
    return lists


@dataclass(frozen=True, slots=True)
class _Terms:
    """The terms of the rule at some nodes, their part of both roundings, and the sum of their moduli."""

    terms: Complexes
    fixed: float
    growth: float
    size: float


def _terms_at_nodes(
    scan: Scan, tilt: float, step: float, numbers: Integers, lists: dict[Other, _List], count: int
) -> tuple[_Terms, _Terms]:
    """The terms at some of the nodes, `count` in all, for the dither and for one twice as wide."""
    u = numbers.astype(np.float64) * step
    part = _transform(
        scan.gaussians, scan.others, lists, (numbers, step, count), tilt, without_stays=scan.without_stays
    )
    z = tilt + 1j * u
    # Half the nodes: the transform at -u is the conjugate of that at u, hence 2 for all but u = 0.
    flat = np.where(u == 0, 1.0, 2.0) * (step / (2 * math.pi)) / (z * (z + 1))
    if tilt < 0:
        flat = -flat
    # Relative errors multiply, as those of a power of many equal transforms do.
    relative = np.expm1(np.minimum(1.01 * UNIT * part.errors, _LARGEST_EXPONENT))
    both = []
    # Both dithers are needed for the lower bound, and share every transform, so they are made together.
    for times in (1, 2):
        kernel, size, error = _dither(tilt, u, scan.depth.half_width * times, scan.depth.parts)
        terms = part.values * kernel * flat
        rough = part.sizes * np.abs(flat) * 1.001
        fixed = float((rough * (relative * size + 1.01 * UNIT * (error + count * size))).sum())
        growth = 1.01 * UNIT * float((rough * size * u).sum()) * 8
        both.append(_Terms(terms, fixed, growth, float(np.abs(terms).sum())))
    return both[0], both[1]


@dataclass(frozen=True, slots=True)
class ContourPart:
    """A product of transforms at the nodes.

    Attributes:
        values: The product.
        sizes: Bounds on its modulus.
        errors: Bounds on the sum of the relative errors of all factors, each one relative to its size, in UNIT.
    """

    values: Complexes
    sizes: Floats
    errors: Floats

    def times(self, values: Complexes, errors: Floats) -> "ContourPart":
        """The product with a transform of modulus at most 1."""
        return ContourPart(self.values * values, self.sizes, self.errors + errors + 8)


def _terms(factor: Other, tilt: float, farthest: float) -> float:
    """How many numbers a node takes for a factor, about: its atoms; one for real Laplace and narrow Gaussian noise."""
    match factor:
        case SampledLoss():
            return terms_of_sample(factor, tilt, farthest)
        case GaussianLoss() | ExponentialLoss():
            return 1
        case ResponseLoss():
            return 3
        case _:
            return factor.sensitivity + 1


def log_moment_bounds(scan: Scan, tilt: float, log_norm: float) -> Bounds:
    """ln E exp(s L) of the factors, with the Gaussian part bounded by its largest value and divided by C."""
    gaussian = float((Fraction(tilt) + Fraction(tilt) ** 2) * scan.gaussians.variance / 2)
    slack = 64 * UNIT * (abs(gaussian) + log_norm)
    # Other factors in balls; the Gaussian part has its moment in closed form.
    others = (
        certified_log_moment(scan.others, Fraction(tilt), Fraction(0)) if scan.others else Bounds(0.0, 0.0)
    )
    total = gaussian - log_norm
    slack += 4 * UNIT * (abs(total) + abs(others.upper))
    return Bounds(total + others.lower - slack, total + others.upper + slack)


def _gaussian_part(factors: GaussianFactors, u: Floats, s: float) -> ContourPart:
    """The product of the Gaussian transforms, times C exp(-(s + s^2) V / 2) and without the phase of the centre."""
    if not factors.count:
        return ContourPart(np.ones(u.size, dtype=np.complex128), np.ones(u.size), np.zeros(u.size))
    periods = factors.periods[:, None]
    # d: distance of u from the nearest multiple of the period, where the transform returns to full size.
    d = u - np.floor(u / periods + 0.5) * periods
    weights = factors.powers * factors.rates
    decay = (weights / 2) @ (d * d)
    pull = weights @ np.abs(d)
    phase = (weights * s) @ d
    turns = phase / (2 * math.pi)
    values = np.exp((2j * math.pi) * (turns - np.rint(turns)))
    count = factors.count
    # u times the pull: u has a relative error, and d inherits it absolutely. This is what limits the frequencies.
    errors = 12 * u * pull + (8 + 2 * count) * decay
    errors += (13 * abs(s) + 72 * UNIT * u) * float(factors.variance) * u
    errors += (12 + count) * abs(s) * pull + 300 + count
    log_size = -decay
    # Distance of the nearest other image: images count only near a half period, for few factors.
    closest = np.pi * factors.variances - factors.sensitivities * np.abs(d).max(axis=1)
    for i in np.flatnonzero(2 * np.pi * closest < _NEGLIGIBLE_IMAGE + np.log(factors.powers)):
        m = int(factors.powers[i])
        total, more, error = _images(float(factors.variances[i]), float(factors.sensitivities[i]), d[i], u, s)
        values *= 1 + _power_less_one(total, m)
        log_size += m * np.log1p(more)
        errors += m * (error + 16 * (math.log2(m) + 3) * more + 1e-8) + 10
    sizes = np.exp(log_size)
    return ContourPart(values * np.exp(-decay), sizes, errors)


def _images(v: float, k: float, d: Floats, u: Floats, s: float) -> tuple[Complexes, Floats, Floats]:
    """The images of one factor but the nearest: their sum, the sum of their sizes, and the error in UNIT."""
    total, more, error = np.zeros(u.size, dtype=np.complex128), np.zeros(u.size), np.zeros(u.size)
    for n in _IMAGES:
        # exp(-2 pi n (pi v n - k d)): largest where d is a half period and n points the same way.
        sizes = np.exp(-2 * np.pi * n * (np.pi * v * n - k * d))
        # The phase exactly, as a fraction of a turn: n k s is a product of whole numbers with an exact tilt.
        angle = -2 * math.pi * float((n * int(k) * Fraction(s)) % 1)
        total += sizes * complex(math.cos(angle), math.sin(angle))
        more += sizes
        error += sizes * (80 * abs(n) * k * u + 50 * abs(n) * (math.pi * v * abs(n) + k * np.abs(d)) + 80)
    return total, more, error


def _power_less_one(w: Complexes, power: int) -> Complexes:
    """(1 + w)^power - 1 by squaring. The error is relative to |w|: many answers may have tiny images."""
    less_one, square = np.zeros_like(w), w
    while True:
        if power & 1:
            less_one = less_one + square + less_one * square
        power >>= 1
        if not power:
            return less_one
        square = square * (2 + square)


def _listed_part(law: _List, numbers: Integers, step: float, count: int) -> tuple[Complexes, Floats]:
    """The transform at some of `count` nodes relative to that at u = 0, to a power, and its error in UNIT."""
    # For many nodes a product of matrices, whose error is larger: there are few losses then.
    many = count * law.losses.size > _MANY_PHASES
    less_one = _less_one(law, numbers, step, many)
    # Beside the real axis weights are complex, and their moduli add up to more than 1.
    weights = np.abs(law.weights)
    phases = (float(np.abs(law.losses) @ weights) * step) * numbers
    error = 12 * phases + (120 + law.losses.size) * np.minimum(2.0 * float(weights.sum()), phases)
    error = 2 * law.error / UNIT + (8 if many else 1) * error
    return power_of(1 + less_one, law.multiplicity), law.multiplicity * (error + 8)


def _less_one(law: _List, numbers: Integers, step: float, many: bool) -> Complexes:
    """The sum of weights times exp(i u loss) - 1 at the nodes u = numbers times step.

    Args:
        law: The list.
        numbers: Of the nodes.
        step: Their distance.
        many: Whether a product of matrices is worth its error, which is eight times that of a plain sum.
    """
    losses, weights = law.losses, law.weights
    # For u = a + b, exp(i u l) - 1 is the product of those of a and of b, plus both. So with a at every so many nodes
    # and b between them, a product of two small matrices gives a large one.
    width = min((1 << j for j in range(10)), key=lambda w: _cost_of_rows(numbers, w)) if many else 1
    rows, which = np.unique(numbers // width, return_inverse=True)
    begins = (rows * width).astype(np.float64) * step
    columns = _turns_less_one(np.arange(width, dtype=np.float64) * step, losses)
    sums = np.empty((rows.size, width), dtype=np.complex128)
    # Of long lists few rows at once, for the same reason.
    at_once = max(1, _AT_ONCE // losses.size)
    for begin in range(0, rows.size, at_once):
        piece = slice(begin, begin + at_once)
        weighted = _turns_less_one(begins[piece], losses) * weights
        sums[piece] = weighted @ columns.T + weighted.sum(axis=1)[:, None]
    sums += columns @ weights
    by_node: Complexes = sums[which, numbers % width]
    return by_node


def _cost_of_rows(numbers: Integers, width: int) -> float:
    """About what the sums cost where a row holds so many nodes: a sine counts as 20 products."""
    rows = 1 + np.count_nonzero(np.diff(numbers // width))
    return float(20 * (rows + width) + rows * width)


def _turns_less_one(u: Floats, losses: Floats | Complexes) -> Complexes:
    """exp(i u loss) - 1 without cancelling: most losses of a sample are tiny, and there are thousands of samples."""
    turns = np.multiply.outer(u / (2 * math.pi), losses.real)
    angles = (2 * math.pi) * (turns - np.rint(turns))
    sine = np.sin(angles / 2)
    turned: Complexes = -2 * sine * sine + 1j * np.sin(angles)
    if np.iscomplexobj(losses):
        turned += np.expm1(-np.multiply.outer(u, losses.imag)) * (1 + turned)
    return turned


def _exponential_part(factor: ExponentialLoss, u: Floats, tilt: Fraction) -> tuple[Complexes, Floats]:
    """The transform of real Laplace noise relative to that at u = 0, to a power, and its error in UNIT.

    It is cosh w + (epsilon / 2) sinh(w) / w with w = (z + 1/2) epsilon, up to a constant: two atoms at the losses
    epsilon and -epsilon, and a density between them.
    """
    epsilon = float(factor.epsilon)
    a = abs(float((tilt + Fraction(1, 2)) * factor.epsilon))
    b = epsilon * u if tilt >= Fraction(-1, 2) else -epsilon * u
    turns = b / (2 * math.pi)
    angle = (2 * math.pi) * (turns - np.rint(turns))
    # Both times exp(-a), which overflows nowhere. expm1 keeps the digits of sinh where a is tiny.
    cosh, sinh = (1 + math.exp(-2 * a)) / 2, -math.expm1(-2 * a) / 2
    cos, sin = np.cos(angle), np.sin(angle)
    w = a + 1j * b
    over = (sinh * cos + 1j * cosh * sin) / np.where(w == 0, 1.0, w)
    over = np.where(w == 0, math.exp(-a), over)
    whole = cosh + epsilon / 2 * (sinh / a if a > 0 else 1.0)
    values = (cosh * cos + 1j * sinh * sin + epsilon / 2 * over) / whole
    # The function is even in w, and the sign of a was taken off above.
    errors = 16 * np.abs(b) + (4 * a + 160)
    return power_of(values, factor.multiplicity), factor.multiplicity * (errors + 8)


def _dither(s: float, u: Floats, half_width: float, parts: int) -> tuple[Complexes, Floats, Floats]:
    """k(z), a bound on its modulus, and its error in UNIT."""
    a, b = s * half_width / parts, u * (half_width / parts)
    turns = b / (2 * math.pi)
    angle = (2 * math.pi) * (turns - np.rint(turns))
    # expm1 and not sinh, whose difference of exponentials would cancel where a is tiny.
    sinh = (math.expm1(a) - math.expm1(-a)) / 2
    cosh = (math.exp(a) + math.exp(-a)) / 2
    ratio = (sinh * np.cos(angle) + 1j * cosh * np.sin(angle)) / (a + 1j * b)
    # 0.01 more: the modulus enters an error bound and must not be 0 where the dither has a zero.
    modulus = np.abs(ratio) + 0.01
    return power_of(ratio, parts), modulus**parts, 100 * parts * (modulus + 1) * modulus ** (parts - 1)


_AT_ONCE: Final = 1 << 15
"""Numbers of which several arrays fit a processor's cache of half a megabyte or more."""

_MANY_PHASES: Final = 1 << 20
"""Nodes times atoms from which a transform is a product of matrices: below, it takes some hundredths of a second."""


def _one_thread(nodes: float) -> AbstractContextManager[object]:
    """Products of matrices on one thread: of these sizes a second one gains nothing and waits at full speed."""
    if nodes <= FEW_NODES:
        return nullcontext()
    # Here, because few compositions need it.
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[object] = threadpool_limits(limits=1, user_api="blas")
    return limits


def log_excess(contour: DitheredContour, epsilons: Sequence[Fraction]) -> ManyBounds:
    """ln delta, or ln(1 - delta) on a contour left of the pole at 0, at each epsilon."""
    # Exact: the three epsilons must be exactly those of the inequalities, or the bounds would be of other numbers.
    h = Fraction(contour.scan.depth.half_width)
    # Upper bound: one dither at epsilon - h^2 / (6 p). Lower bound: twice one dither at epsilon + h^2 / 2 less the one
    # twice as wide at epsilon (docs/proofs/off-lattice.md).
    variants = ((0, -h * h / (6 * contour.scan.depth.parts)), (0, h * h / 2), (1, Fraction(0)))
    with _one_thread(contour.frequencies.size):
        (single, (lowest, highest)), (near, _), (far, (lower_scale, upper_scale)) = _dithered(
            contour, epsilons, variants
        )
    # The rule at epsilon + h^2 / 2 is in units of that epsilon.
    shift = math.exp(-contour.tilt * float(h * h / 2))
    near = (near[0] * shift, near[1] * shift)
    # 2 near - far cancels to the size of delta: the roundings of both are absolute, so they are bounded before it.
    rounding = 64 * UNIT * (np.abs(near[1]) + np.abs(far[1]))
    # Right of the pole the sums are of delta; left of it they are of 1 - delta, and both inequalities turn round.
    if contour.tilt > 0:
        lowers = _logarithms(2 * near[0] - far[1] - rounding, lower_scale, -1)
        uppers = _logarithms(single[1], highest, 1)
    else:
        lowers = _logarithms(single[0], lowest, -1)
        uppers = _logarithms(2 * near[1] - far[0] + rounding, upper_scale, 1)
    uppers = np.minimum(uppers, 0.0)
    return ManyBounds(np.minimum(lowers, uppers), uppers)


def _dithered(
    contour: DitheredContour, epsilons: Sequence[Fraction], variants: Sequence[tuple[int, Fraction]]
) -> list[tuple[tuple[Floats, Floats], tuple[Floats, Floats]]]:
    """The dithered function at epsilons plus a shift, and the logarithm of its unit, each from both sides."""
    both = []
    for (wide, shift), (values, errors) in zip(variants, contour.sums_at(epsilons, variants), strict=True):
        rounded = np.array([float(epsilon + shift) for epsilon in epsilons])
        # What wraps around is positive, so it can only have been added: it widens the lower side alone.
        less = errors + contour.wrap_around(rounded, wide + 1)
        both.append(((values - less, values + errors), contour.log_scales(rounded)))
    return both


def _logarithms(values: Floats, scales: Floats, side: int) -> Floats:
    """ln value + scale, rounded to one side. If the value is not positive: -inf from below, and 0 from above."""
    known = values > 0
    parts = np.log(np.where(known, values, 1.0))
    # 40 units for each logarithm: libm's own error, the sum with the scale, and the rounding of the scale.
    logs = parts + scales + side * UNIT * (40 + 40 * np.abs(parts) + 4 * np.abs(scales))
    # A value that is not positive is below the rounding: nothing is known from below, and only ln 1 from above.
    return np.where(known, logs, -math.inf if side < 0 else 0.0)


def tails_of_delta(contour: DitheredContour, epsilon: Fraction, here: Bounds) -> Tails:
    """Both probabilities from ln delta at epsilon and at a chord's length on either side.

    The contour gives the dithered function delta_h from both sides. Delta follows from it at three epsilons, and
    the probabilities P(L > epsilon) and Q(L > epsilon) follow from delta alone: Q is minus its slope in kappa =
    exp(epsilon), which lies between the slopes of two chords (docs/proofs/off-lattice.md, section 1).
    """
    e = float(epsilon)
    # Chernoff's bound on P, and Q <= exp(-epsilon) P above epsilon.
    # Chernoff's bound is also the cap where the chord is too rough to say more.
    most = min(
        0.0, float(contour.log_scales(np.array([e]))[1][0]) + contour.scan.gaussians.log_norm * (1 + 1e-12)
    )
    second = Bounds(-math.inf, min(0.0, _less(most, e)))
    # Without a lower bound of delta there is no chord: the caps are all that is known.
    if here.lower > -math.inf:
        chord = _chord(contour, here)
        before, after = log_excess(contour, [epsilon - chord, epsilon + chord])
        lower, upper = _slopes(e, float(chord), (here.lower, after.upper), (before.upper, here.lower))
        upper = min(upper, second.upper)
        second = Bounds(min(lower, upper), upper)
    # P = delta + exp(epsilon) Q, both at their upper ends; both summands are positive.
    upper = min(most, _log_added(here.upper, second.upper + e, 1))
    return Tails(Bounds(min(_log_added(here.lower, second.lower + e, -1), upper), upper), second, here)


def tails_of_rest(contour: DitheredContour, epsilon: Fraction, rest: Bounds) -> Tails:
    """Both probabilities where ln(1 - delta) is known instead. 1 - delta rises with kappa.

    Left of the pole at 0 the contour gives 1 - delta instead, and all inequalities turn round.
    """
    e = float(epsilon)
    second, least = Bounds(-math.inf, min(0.0, _less(rest.upper, e))), -math.inf
    if rest.lower > -math.inf:
        chord = _chord(contour, rest)
        before, after = log_excess(contour, [epsilon - chord, epsilon + chord])
        # 1 - delta rises with kappa, so the chord's ends change roles.
        lower, upper = _slopes(e, float(chord), (after.lower, rest.upper), (rest.upper, before.lower))
        upper = min(upper, second.upper)
        second = Bounds(min(lower, upper), upper)
        least = _log_gap(rest.lower, second.upper + e, -1)
    # P(L <= epsilon) = 1 - delta - exp(epsilon) Q(L > epsilon).
    below = _log_gap(rest.upper, second.lower + e, 1)
    return Tails(log_rest(Bounds(min(least, below), min(below, 0.0))), second, log_rest(rest))


def _chord(contour: DitheredContour, here: Bounds) -> Fraction:
    """A chord over which the width of delta's bounds and the bending of delta cost the slope about the same."""
    # Relative to the slope, a width w of delta's bounds costs about w / (|s| c) over a chord of length c, and the
    # bending |s| c / 2: equal at this c. The floor of 1e-15 keeps the chord above rounding where both bounds agree.
    # A tiny tilt would make it so long that its exponential overflows.
    return Fraction(min(math.sqrt(2 * max(here.width, 1e-15)) / abs(contour.tilt), 100))


def _slopes(
    e: float, chord: float, after: tuple[float, float], before: tuple[float, float]
) -> tuple[float, float]:
    """Logarithms of the slopes in kappa over the chords beyond and before epsilon.

    Args:
        e: Epsilon.
        chord: Length of both chords, in epsilon.
        after: Logarithms whose exponentials differ by at most the change over the chord beyond epsilon.
        before: Logarithms whose exponentials differ by at least the change over the chord before it.
    """
    # The logarithms of expm1 are off by libm's error, and 8 |epsilon| covers the rounding of epsilon itself.
    slack = UNIT * (200 + 8 * abs(e))
    beyond = e + math.log(math.expm1(chord))
    within = e + math.log(-math.expm1(-chord))
    slack += UNIT * 40 * (abs(beyond) + abs(within))
    return _log_gap(*after, -1) - beyond - slack, _log_gap(*before, 1) - within + slack


def _less(logarithm: float, epsilon: float) -> float:
    """An upper bound of a logarithm minus epsilon, which is rounded to nearest."""
    return logarithm - epsilon + 8 * UNIT * (abs(logarithm) + abs(epsilon))


def _log_gap(high: float, low: float, side: int) -> float:
    """ln(exp(high) - exp(low)), rounded to one side; -inf where it is not positive."""
    if not low < high:
        return -math.inf
    # -inf stands for exp(-inf) = 0, so the difference is the first number alone.
    part = math.log(-math.expm1(low - high)) if low > -math.inf else 0.0
    return high + part + side * UNIT * (80 + 40 * abs(part) + 4 * abs(high))


def _log_added(log_left: float, log_right: float, side: int) -> float:
    """ln(exp(one) + exp(other)), rounded to one side."""
    low, high = min(log_left, log_right), max(log_left, log_right)
    if high == -math.inf:
        return high
    return high + math.log1p(math.exp(low - high)) + side * UNIT * (80 + 8 * abs(high))


WIDTH: Final = 1e-9
"""Width of the bounds of epsilon that is aimed at unless another one is asked for."""

NARROWEST: Final = 1e-12
"""The smallest width that may be asked for. Below it, rounding in floats decides the width."""

MOST_ATOMS: Final = 4096
"""Largest number of values (atoms) of all discrete losses and of all Gaussian ones of small variance together."""

MOST_NODES: Final = 1 << 23
"""Nodes of one contour above which only Chernoff's bound is given. This many take two seconds, and 400 MB."""

MOST_TERMS: Final = 1 << 30
"""The same for nodes times factors and atoms: this many take some eight seconds, and few samples with replacement more
than a quarter of them."""

MOST_AT_BUILD: Final = 1 << 21
"""Nodes of a usual contour above which a width is refused. This many take half a second."""

FEW_NODES: Final = 1 << 16
"""Nodes up to which a contour takes a fiftieth of a second, so that a search needs no rougher one."""

_LARGEST_VARIANCE: Final = Fraction(10) ** 130
"""Largest variance of losses without a closed form for which the products of floats here stay far from overflow."""

# p, the uniform laws that a dither adds up: its transform falls like the frequency to the power -p.
_PARTS: Final = 12
# The formulas of the scan are proved for variances of 1/4 or more; smaller ones are listed.
LEAST_VARIANCE: Final = Fraction(1, 4)
# ln C from which a composition is refused: C multiplies the bounds on what is left out.
_LARGEST_LOG_NORM: Final = 5.0
_DEVIATIONS: Final = 6.5  # of epsilon from the mean loss, about, at delta = 1e-10: there the width is met
_WRAP: Final = 40.0  # minus the logarithm of the wrap-around that is aimed at, relative to the result
_PERIOD: Final = 10.0  # standard deviations in the period of a usual contour, about
# How much more may be left out where the decay is that of all factors: a sixth of the width, for far fewer nodes.
_SHALLOWER: Final = 5.0
# Minus the logarithm of a probability of a loss of 0 from which it is not taken out: the transform falls to it.
_NEGLIGIBLE_STAYS: Final = 45.0
_UNKNOWN: Final = Bounds(-math.inf, 0.0)
_ROUNDS: Final = 12  # of a search for a usual tilt, by factors from 2^12 to its thousandth part
_SHORTER: Final = 8  # distances for Chernoff's bound that are tried, each half of the one before
_TILTS: Final = (
    4  # contours for each standard deviation of the saddle; of samples, which take longer, there is one
)
_CACHED: Final = 1 << 20  # nodes of the contours that are kept: some 40 MB
_FARTHEST: Final = Fraction(1 << 100)  # an epsilon beyond which floats could overflow
_BEYOND: Final = Fraction(10**300)  # an epsilon beyond which its rounding could overflow
# Steps of Newton's method, and of widening a period; either ends earlier by far, and no bound needs the result.
_CONTOUR_STEPS: Final = 60


class Dithered:
    """Certified tails of a sum of losses that need no common lattice.

    The steps:

    1. Once, or for each tilt if there are losses whose decay depends on it: scan the frequencies up to U for those at
       which the transform is not negligible (`loss_transform.find_windows`).
    2. For each tilt: compute the transform at the nodes of a trapezoid rule there (`contour_at`), and bound all
       errors.
    3. For each epsilon: sum over the nodes three times (one sum for each delta in the formula above), and widen
       the results by the errors (docs/proofs/off-lattice.md).
    4. The probabilities P(L > epsilon) and Q(L > epsilon) follow from delta alone: Q is minus its slope in kappa,
       which lies between the slopes of two chords.

    Example: for a width of 1e-9 the noise of the 2020 redistricting data, 33 variances and 130 answers, has h =
    3e-5 and U = 1.6e6. The scan looks at 200 states and leaves one window around 0, which holds about twenty
    nodes.

    Args:
        factors: The losses that are added up, equal ones merged.
        scan: Where the transform of their sum is not negligible.
        width: Width of epsilon's bounds that the scan is made for.
        engine_of: Makes the engine of some of the losses, for the case that all samples of fixed size have a loss of 0.
    """

    name = "dithered"

    def __init__(
        self, factors: tuple[Transformed, ...], scan: Scan, width: float, engine_of: EngineOf | None
    ) -> None:
        self.factors = factors
        self.scan = scan
        self.width = width
        self._engine_of = engine_of
        self._stays: tuple[Bounds, LossEngine] | None = None
        if scan.without_stays:
            assert engine_of is not None
            rest = merged_law(tuple(factor for factor in factors if not has_stays(factor)))
            self._stays = _log_stays(factors), engine_of(rest)
        # Mean of the loss under P: half its variance for the Gaussian part.
        self.mean = float(scan.gaussians.variance / 2) + sum(
            f.multiplicity * moments(f, 0.0)[0] for f in scan.others
        )
        self._has_samples = any(isinstance(factor, SampledLoss) for factor in factors)
        # From the largest loss on, delta is 0.
        greatest = greatest_bounds(factors)
        self._greatest = Fraction(greatest.upper) if math.isfinite(greatest.upper) else None
        # Below it, delta is that of this loss at least.
        self._surely = greatest.lower, log_chance_of_greatest(factors) if self._greatest else -math.inf
        # Beyond p / (2 h) the transform of the dither would overflow.
        self._largest_tilt = min(_PARTS / (2 * scan.depth.half_width), _largest_tilt(scan.others))
        self._contours: dict[float, DitheredContour | None] = {}
        self._others: list[Dithered | None] = []
        self._rough: list[Dithered] = []

    @classmethod
    def build(
        cls, factors: Law, width: float = WIDTH, engine_of: EngineOf | None = None
    ) -> "Dithered | None":
        """The engine, or None if a condition of it does not hold; `why_not` says which one.

        Args:
            factors: The losses added up.
            width: The width of epsilon's bounds that is aimed at, for a delta of about 1e-10. If the loss has a
                standard deviation below 1, the width is in units of this deviation.
            engine_of: Makes the engine of some of the losses. With it, few samples of fixed size are taken too, which
                have a loss of exactly 0 with a probability.

        Raises:
            BudgetError: a factor is out of range.
        """
        engine = _made(factors, width, engine_of)
        return None if isinstance(engine, str) else engine

    @staticmethod
    def why_not(factors: Law, width: float = WIDTH) -> str | None:
        """The condition that fails, in words, or None."""
        engine = _made(factors, width, None)
        return engine if isinstance(engine, str) else None

    def reaches_usual_epsilons(self, tilt: float) -> bool:
        """Whether there is a contour for a usual epsilon. Samples have longer periods than the build expects."""
        if not self._has_samples:
            return True
        greatest = math.inf if self._greatest is None else float(self._greatest)
        epsilon = max(min(self._moments(tilt)[0], (self.mean + greatest) / 2), 0.0)
        return self._rule(self._tilt(epsilon), epsilon) is not None

    @property
    def usual_nodes(self) -> float:
        """About how many nodes a usual contour has."""
        return self.scan.nodes(_PERIOD * self.scan.spread)

    def rough(self) -> "Dithered":
        """An engine of the same losses that is faster and less exact, to search with; itself if it is fast enough."""
        if self.usual_nodes <= FEW_NODES:
            return self
        if not self._rough:
            rough = Dithered.build(self.factors, min(1.0, 1000 * self.width), self._engine_of)
            self._rough.append(rough or self)
        return self._rough[0]

    def log_tails(self, epsilon: float | Fraction) -> Tails:
        """Certified tails above `epsilon`. Delta is close; both probabilities are known to about four digits.

        Raises:
            BudgetError: epsilon is not a finite number.
        """
        exact = exact_epsilon(epsilon)
        if exact < 0:
            return self._tails_below_zero(exact)
        if self._greatest is not None and exact >= self._greatest:
            return Tails(NOTHING, NOTHING, NOTHING)
        if exact > _FARTHEST:  # tails fall, so that bounds from above hold further out too
            return self._far_out(self._tilt(float(_FARTHEST)), _FARTHEST)
        tilt = self._tilt(float(exact))
        contour = self._contour(tilt, float(exact))
        # None: the contour would need more nodes than are worth it, so only Chernoff's bound is given.
        if contour is None or self._stays:
            chord = 0.02 * self.scan.spread
            return tails_by_chords(self, exact, chord) if contour else self._far_out(tilt, exact)
        here = log_excess(contour, [exact])[0]
        if tilt < 0:
            return tails_of_rest(contour, exact, here)
        return tails_of_delta(contour, exact, here)

    def _tails_below_zero(self, epsilon: Fraction) -> Tails:
        opposite = self._opposite()
        if opposite is None:
            return Tails(_UNKNOWN, _UNKNOWN, _UNKNOWN)
        there = opposite.log_tails(-epsilon)
        return Tails(log_rest(there.log_second), log_rest(there.log_first), self.log_deltas([epsilon])[0])

    def log_deltas(self, epsilons: Sequence[float | Fraction]) -> ManyBounds:
        """ln delta at each epsilon, any real number, without the probabilities: much faster than all tails."""
        exact = [exact_epsilon(epsilon) for epsilon in epsilons]
        sizes = [min(abs(epsilon), _BEYOND) for epsilon in exact]
        deltas, rests = self.log_deltas_and_rests(sizes)
        negative = np.array([epsilon < 0 for epsilon in exact], dtype=np.bool_)
        if not negative.any():
            return deltas
        opposite = self._opposite()
        if opposite is None:
            unknown = ManyBounds(np.full(len(exact), -math.inf), np.zeros(len(exact)))
            return unknown.where(negative, deltas)
        there = (deltas, rests) if opposite is self else opposite.log_deltas_and_rests(sizes)
        reflected = _reflected(np.array([float(size) for size in sizes]), *there)
        return reflected.where(negative, deltas)

    def _opposite(self) -> "Dithered | None":
        """The engine of the two neighbours exchanged, which only random samples tell apart; None if there is none."""
        # Given that not all is revealed, the two laws of such samples do not have the same mass.
        if any(isinstance(factor, SampledLoss) and factor.failure for factor in self.factors):
            return None
        opposite = mirrored(self.factors)
        if opposite == self.factors:
            return self
        if not self._others:
            self._others.append(Dithered.build(opposite, self.width, self._engine_of))
        return self._others[0]

    def log_deltas_and_rests(self, epsilons: Sequence[float | Fraction]) -> tuple[ManyBounds, ManyBounds]:
        """ln delta and ln(1 - delta) at each epsilon, none negative. The latter is known also where delta is 1."""
        exact = [min(exact_epsilon(epsilon), _BEYOND) for epsilon in epsilons]
        groups: dict[float, list[int]] = {}
        beyond: list[int] = []
        for i, epsilon in enumerate(exact):
            # From the largest loss on delta is exactly 0, as the arrays below begin for it.
            if self._greatest is not None and epsilon >= self._greatest:
                beyond.append(i)
                continue
            # Epsilons that share a tilt share the transform, which is nearly the whole cost.
            groups.setdefault(self._tilt(float(min(epsilon, _FARTHEST))), []).append(i)
        # Where delta is near 1, 1 - delta is known instead: two logarithms for each epsilon, either of which may be
        # -inf.
        ends = np.full((2, 2, len(exact)), -np.inf)
        for tilt, members in groups.items():
            known = self._logs_at(tilt, [exact[i] for i in members])
            pair = (log_rest(known), known) if tilt < 0 else (known, log_rest(known))
            for which, logs in enumerate(pair):
                ends[which, 0, members], ends[which, 1, members] = logs.lower, logs.upper
        ends[1, :, beyond] = 0.0
        greatest, log_chance = self._surely
        if log_chance > -math.inf:
            below = np.array([max(0.0, greatest - float(min(epsilon, _FARTHEST))) for epsilon in exact])
            # Rounded down: the difference of two floats, the function of the platform, and the sum.
            below = np.maximum(below - 4 * UNIT * abs(greatest), 0.0)
            with np.errstate(divide="ignore"):
                least = log_chance + np.log(-np.expm1(-below))
            slack = UNIT * (80 + 8 * np.where(np.isfinite(least), np.abs(least), 0.0))
            ends[0, 0] = np.maximum(ends[0, 0], np.minimum(least - slack, ends[0, 1]))
        return ManyBounds(*ends[0]), ManyBounds(*ends[1])

    def _logs_at(self, tilt: float, epsilons: list[Fraction]) -> ManyBounds:
        """ln delta, or ln(1 - delta) for a tilt below 0, at epsilons that share the tilt."""
        contour = self._contour(tilt, float(min(epsilons[0], _FARTHEST)))
        near = [min(epsilon, _FARTHEST) for epsilon in epsilons]
        if contour is None or max(epsilons) > _FARTHEST:
            return ManyBounds.of([self._chernoff(tilt, float(epsilon)) for epsilon in near])
        known = log_excess(contour, epsilons)
        if not self._stays:
            return known
        # The contour is that of the part in which not all samples of fixed size have a loss of 0.
        log_stays, others = self._stays
        of_others = others.log_deltas(epsilons)
        return _log_mixed(known, log_stays, of_others if tilt > 0 else log_rest(of_others))

    def _tilt(self, epsilon: float) -> float:
        """The tilt for an epsilon. It is taken from a grid, so that neighbouring epsilons share a contour.

        The tilt is below 0 where delta is nearly 1. There 1 - delta is computed instead of delta.
        """
        # A whole deviation below the mean: left of it delta is nearly 1, and its bounds would be of a tiny difference.
        of_rest = epsilon < self.mean - self.scan.spread
        tilt = self._saddle(epsilon, of_rest)
        # Where a few large losses of samples take over from all others, the deviation is larger than elsewhere: by a
        # power of two, so that neighbouring tilts share a grid.
        local = math.sqrt(self._moments(min(tilt, self._largest_tilt))[1]) if self._has_samples else 0.0
        finer = 2.0 ** max(0, math.ceil(math.log2(max(local, 1e-300) / self.scan.spread)))
        least = 1 / ((1 if self._has_samples else _TILTS) * self.scan.spread * finer)
        tilt = round(tilt / least) * least
        if not of_rest:
            return min(max(tilt, least), self._largest_tilt)
        # Between the poles at -1 and 0, also where a quarter of the deviation says little: samples that may reveal all
        # have a loss that is nearly certain.
        edge = min(least, 1 / _TILTS)
        return min(max(tilt, edge - 1), -edge)

    def _contour(self, tilt: float, epsilon: float) -> DitheredContour | None:
        """The trapezoid rule with a tilt, kept for the next epsilon; None if it would have too many nodes."""
        if tilt not in self._contours:
            rule = self._rule(tilt, epsilon)
            if rule is None:
                self._contours[tilt] = None
                return None
            with _one_thread(rule[0].nodes(rule[2])):
                contour = contour_at(*rule)
            while self._contours and len(self._contours) * contour.frequencies.size > _CACHED:
                self._contours.pop(next(iter(self._contours)))
            self._contours[tilt] = contour
        return self._contours[tilt]

    def _rule(self, tilt: float, epsilon: float) -> tuple[Scan, float, float, float] | None:
        """What `contour_at` takes for a tilt; None if it would have too many nodes."""
        period, further = self._period(tilt, epsilon)
        scan = self.scan.at(tilt)
        if (
            scan.nodes(period) > MOST_NODES
            or scan.nodes(period) * scan.terms(tilt) > MOST_TERMS
            or max(scan.largest(tilt), scan.largest(further)) > USUAL_TERMS
        ):
            return None
        return scan, tilt, period, further

    def _far_out(self, tilt: float, epsilon: Fraction) -> Tails:
        """Tails by Chernoff's bound alone. Q(L > epsilon) is at most exp(-epsilon) P, and (1 - delta) exp(-epsilon)."""
        known = self._chernoff(tilt, float(epsilon))
        second = known.upper - float(epsilon) + 8 * UNIT * (abs(known.upper) + float(epsilon))
        first = known if tilt > 0 else log_rest(known)
        return Tails(first, Bounds(-math.inf, min(0.0, second)), first)

    def _chernoff(self, tilt: float, epsilon: float) -> Bounds:
        """P(L > epsilon) for a tilt above 0, else 1 - delta, are at most E exp(tilt (L - epsilon)) if tilt >= -1."""
        exponent = tilt * epsilon
        log_moment = log_moment_bounds(self.scan, tilt, 0.0).upper
        most = log_moment - exponent + 8 * UNIT * (abs(log_moment) + abs(exponent))
        return Bounds(-math.inf, min(0.0, most))

    def _saddle(self, epsilon: float, of_rest: bool) -> float:
        if of_rest:
            return saddle(self._moments, epsilon, -0.5, (-1.0, 0.0), self._largest_tilt)
        begin = max((epsilon - self.mean) / self.scan.spread**2, 1 / self.scan.spread)
        begin = min(begin, self._largest_tilt)
        return saddle(self._moments, epsilon, begin, (0.0, math.inf), self._largest_tilt)

    def _moments(self, tilt: float) -> tuple[float, float]:
        """Mean and variance of the tilted loss, in floats."""
        v = float(self.scan.gaussians.variance)
        mean, variance = v / 2 + tilt * v, v
        for factor in self.scan.others:
            of_answer = moments(factor, tilt)
            mean, variance = (
                mean + factor.multiplicity * of_answer[0],
                variance + factor.multiplicity * of_answer[1],
            )
        return mean, variance

    def _log_moment(self, tilt: float) -> float:
        v = float(self.scan.gaussians.variance)
        return (tilt + tilt * tilt) * v / 2 + sum(
            f.multiplicity * log_moment(f, tilt) for f in self.scan.others
        )

    def _period(self, tilt: float, epsilon: float) -> tuple[float, float]:
        """A period of the rule that makes its wrap-around negligible, and the tilt for Chernoff's bound on it."""
        spread, here = self.scan.spread, self._log_moment(tilt)
        log_size = -math.log(abs(tilt * (tilt + 1)) * math.sqrt(2 * math.pi) * spread)  # in units of the sums
        # The saddle's height: what the sum is about, so that the period can be judged relative to it.
        log_value = here - tilt * epsilon + log_size
        period = max(math.sqrt(2 * _WRAP) * spread, (_WRAP + max(-log_value, 0.0)) / abs(tilt))
        best, farthest = period / spread**2, abs(tilt)
        # The best distance for a normal loss is the period over the variance. The moments of samples grow faster, which
        # asks for shorter ones. They take time, and are computed once.
        of_samples = (
            [self._beyond(tilt, min(best, farthest) / 2**j) for j in range(_SHORTER)]
            if self._has_samples
            else []
        )
        for _ in range(_CONTOUR_STEPS):
            known = of_samples or [self._beyond(tilt, period / spread**2)]
            exponents = [
                log_moment_there - here - (there - tilt) * epsilon
                + abs(there) * 2 * self.scan.depth.half_width - abs(there - tilt) * period
                for there, log_moment_there in known
            ]  # fmt: skip
            least = int(np.argmin(exponents))
            further = known[least][0]
            if exponents[least] < log_size - _WRAP:
                break
            # 15% more until Chernoff's bound on the wrap-around is negligible.
            period *= 1.15
        return period, further

    def _beyond(self, tilt: float, distance: float) -> tuple[float, float]:
        """A tilt beyond another one, away from the pole at 0, and the logarithm of the moment there."""
        there = max(tilt - distance, -1.0) if tilt < 0 else tilt + distance
        return there, self._log_moment(there)


def _log_stays(factors: Sequence[Transformed]) -> Bounds:
    """Logarithm of the probability that all samples of fixed size have a loss of 0."""
    samples = [factor for factor in factors if isinstance(factor, SampledLoss) and has_stays(factor)]
    with precision(128):
        logs = (factor.multiplicity * stays_of_sample(factor, Fraction(0)).log() for factor in samples)
        return float_bounds(sum(logs, arb(0)))


def _log_mixed(known: ManyBounds, log_share: Bounds, other: ManyBounds) -> ManyBounds:
    """ln(x + share y) from ln x and ln y, at most 0."""
    ends = []
    for left, share, right, side in (
        (known.lower, log_share.lower, other.lower, -1),
        (known.upper, log_share.upper, other.upper, 1),
    ):
        mixed = np.logaddexp(left, share + right)
        slack = UNIT * (80 + 8 * np.where(np.isfinite(mixed), np.abs(mixed) + abs(share), 0.0))
        ends.append(np.minimum(mixed + side * slack, 0.0))
    return ManyBounds(np.minimum(*ends), ends[1])


def saddle(
    moments_at: Callable[[float], tuple[float, float]],
    epsilon: float,
    tilt: float,
    bracket: tuple[float, float],
    largest: float,
) -> float:
    """About the tilt at which the integrand is smallest on the real axis, beside the poles at 0 and -1.

    Args:
        moments_at: Mean and variance of the loss at a tilt.
        epsilon: Where delta is asked for.
        tilt: Where the search begins.
        bracket: Between -1 and 0, or from 0 on.
        largest: No larger tilt is used, and far beyond the largest loss it would grow until floats overflow.
    """
    low, high = bracket
    for _ in range(_CONTOUR_STEPS):
        mean, variance = moments_at(tilt)
        # Slope of ln of the integrand on the real axis; between the poles it has one minimum there.
        slope = mean - epsilon - 1 / tilt - 1 / (tilt + 1)
        curvature = variance + 1 / tilt**2 + 1 / (tilt + 1) ** 2
        low, high = (tilt, high) if slope < 0 else (low, tilt)
        following = tilt - slope / curvature
        if not low < following < high:
            following = (low + high) / 2 if math.isfinite(high) else 2 * tilt
        # A thousandth of the integrand's width on the real axis is as good as the minimum itself.
        if abs(following - tilt) * math.sqrt(curvature) < 1e-3:
            break
        tilt = following
        if tilt > largest:
            break
    return tilt


def _reflected(epsilons: Floats, deltas: ManyBounds, rests: ManyBounds) -> ManyBounds:
    """ln delta(-epsilon) from ln delta(epsilon), and from 1 - delta(-epsilon) = exp(-epsilon) (1 - delta(epsilon))."""
    from_deltas = log_reflected(-epsilons, deltas)
    slack = 8 * UNIT * (epsilons - rests.lower)
    rest = ManyBounds(rests.lower - epsilons - slack, np.minimum(rests.upper - epsilons + slack, 0.0))
    from_rests = log_rest(rest)
    return ManyBounds(
        np.maximum(from_deltas.lower, from_rests.lower), np.minimum(from_deltas.upper, from_rests.upper)
    )


def _made(factors: Law, width: float, engine_of: EngineOf | None) -> Dithered | str:
    merged = merged_law(factors)
    known = [loss for loss in merged if not isinstance(loss, FailureLoss | UNKNOWN_LAW)]
    if len(known) < len(merged):
        return "it needs losses whose transform is known"
    wide, others = _split(known)
    refused = _out_of_range(others)
    if refused is not None:
        return refused
    gaussians = GaussianFactors.of(wide)
    spread, tilt = _usual(gaussians, others)
    if gaussians.log_norm > _LARGEST_LOG_NORM or tilt > _largest_tilt(others):
        return "the variances are too small for so many answers, or the losses of random samples too small"
    aim = width * min(1.0, spread)
    half_width = math.sqrt(0.9 * aim / (1 + (tilt + 2) / (2 * _PARTS)))
    log_depth = math.log(1000 * (tilt + 1) * spread / aim) + gaussians.log_norm
    scan = None
    if wide:
        depth = Depth(log_depth, half_width, _PARTS)
        scan = Scan(gaussians, tuple(others), depth, find_windows(gaussians.decay, depth), spread)
    if others and (scan is None or _too_many(scan, tilt)):
        # Without wide Gaussian noise alone, but with the decay of all factors, at each tilt anew.
        # The narrower dither leaves room for that.
        depth = Depth(log_depth - math.log(_SHALLOWER), 0.88 * half_width, _PARTS)
        windows = scan.windows if scan else Windows(np.zeros(0), np.zeros(0), 1.0, 1.0, 1)
        # A loss of exactly 0 keeps the transform from falling: it is taken out where it is not negligible.
        without_stays = (
            engine_of is not None
            and not wide
            and any(map(has_stays, others))
            and _log_stays(others).upper > -_NEGLIGIBLE_STAYS
        )
        scan = Scan(
            gaussians,
            tuple(others),
            depth,
            windows,
            spread,
            is_tilted=True,
            without_stays=without_stays,
        ).at(tilt)
    assert scan is not None
    if _too_many(scan, tilt):
        return "the transform of the loss returns to its full size too often"
    if 192 * UNIT * scan.windows.end > gaussians.periods.min(initial=math.inf):
        return "floats cannot tell where within its period a loss's transform is"
    engine = Dithered((*wide, *others), scan, width, engine_of)
    return engine if engine.reaches_usual_epsilons(tilt) else "a usual contour needs too many nodes"


def _usual(gaussians: GaussianFactors, others: Sequence[Other]) -> tuple[float, float]:
    """About the standard deviation of the loss, or more, and a usual tilt."""
    samples = [f for f in others if isinstance(f, SampledLoss)]
    rest = gaussians.variance + sum(
        (_largest_variance(f) for f in others if not isinstance(f, SampledLoss)), Fraction(0)
    )
    variance = float(rest) + sum(f.multiplicity * moments(f, 0.0)[1] for f in samples)
    tilt = (_DEVIATIONS + 1) / math.sqrt(variance)
    if not samples:
        return math.sqrt(variance), tilt
    # A tilted sample has a larger variance. At a tilt s Chernoff's bound at the mean is K(s) - s K'(s), which falls.
    low, high = 0.0, min(tilt, _largest_tilt(samples))
    for _ in range(_ROUNDS):
        tilt = high if not low else math.sqrt(low * high)
        size = -float(rest) * tilt**2 / 2
        for factor in samples:
            log_moment, mean, _ = moments_of_sample(factor, tilt)
            size += factor.multiplicity * (log_moment - tilt * mean)
        if size > -((_DEVIATIONS + 1) ** 2) / 2:
            if tilt == high:
                break
            low = tilt
        else:
            high, low = tilt, low or tilt / 2**_ROUNDS
    tilted = float(rest) + sum(f.multiplicity * moments(f, tilt)[1] for f in samples)
    return math.sqrt(math.sqrt(variance * max(tilted, variance))), tilt


def _largest_tilt(others: Sequence[Other]) -> float:
    return min(
        (largest_tilt(factor) for factor in others if isinstance(factor, SampledLoss)), default=math.inf
    )


def _too_many(scan: Scan, tilt: float) -> bool:
    nodes = scan.nodes(_PERIOD * scan.spread)
    return nodes > MOST_AT_BUILD or nodes * scan.terms(tilt) > MOST_TERMS


def _largest_variance(factor: LossFactor | NormalLoss | ExponentialLoss | ResponseLoss) -> Fraction:
    """The largest variance that any tilt gives the losses of a factor, about."""
    match factor:
        case GaussianLoss():
            return factor.multiplicity * factor.step**2 * (factor.variance + Fraction(1, 4))
        case NormalLoss():
            return factor.multiplicity * factor.mu_squared
        case ExponentialLoss():
            return factor.multiplicity * factor.epsilon**2
        case _:
            return factor.multiplicity * factor.offset**2


def _out_of_range(others: list[Other]) -> str | None:
    """Why the factors without a closed form cannot be taken, or None."""
    if any(isinstance(f, SampledLoss) and not takes_sample(f) for f in others):
        return "a random sample has too many losses, or real Laplace noise, or noise out of range"
    listed = [f for f in others if not isinstance(f, SampledLoss)]
    if sum(_terms(f, 0.0, 0.0) for f in listed) > MOST_ATOMS:
        return f"the discrete losses take more than {MOST_ATOMS} values"
    if any(not _LARGEST_VARIANCE**-1 < _largest_variance(f) < _LARGEST_VARIANCE for f in listed):
        return "the losses are too large or too small for floats"
    return None
