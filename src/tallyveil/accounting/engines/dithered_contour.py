"""The trapezoid rule for a dithered loss (see `dithered`) on one contour, with bounds on all its errors.

The variables: z = s + i u with the tilt s and the frequency u; D the distance of neighbouring nodes u; G = 2 pi / D the
period of the rule; h half the width of the dither, a sum of p uniform laws; M the transform of the loss L; W the
centre of the loss, from which phases are counted.

For s > 0 the rule gives delta of the dithered loss, for -1 < s < 0 it gives 1 - delta. In both cases it sums
M(z) k(z) exp(-z epsilon) / (z (z + 1)), with k(z) = (sinh(z h / p) / (z h / p))^p the transform of the dither. All
bounds are derived in docs/proofs/off-lattice.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from tallyveil.accounting.bounds import Bounds
from tallyveil.accounting.engines.loss_transform import UNIT, TiltedAtoms, atoms, power_of
from tallyveil.accounting.engines.revivals import Depth, GaussianFactors, Windows, nodes_within
from tallyveil.accounting.losses.factors import LossFactor
from tallyveil.accounting.losses.moments import certified_log_moment
from tallyveil.arrays import Complexes, Floats

# Minus the logarithm, about, of images of a factor below which none of them is computed.
_NEGLIGIBLE_IMAGE: Final = 60.0
# Whole turns of the images that are computed.
_IMAGES: Final = (-3, -2, -1, 1, 2, 3)
# exp of more than 709 would overflow to infinity; a bound of exp(700) says nothing anyway.
_LARGEST_EXPONENT: Final = 700.0


@dataclass(frozen=True, slots=True)
class Scan:
    """What is known about a composition before any epsilon.

    Attributes:
        gaussians: The discrete Gaussian factors of variance 1/4 or more.
        others: All other factors. The scan bounds their transforms by the values at u = 0.
        depth: Which sizes of the transform the scan took for negligible.
        windows: Where the transform is not negligible.
        spread: About the standard deviation of the loss, or more.
    """

    gaussians: GaussianFactors
    others: tuple[LossFactor, ...]
    depth: Depth
    windows: Windows
    spread: float


@dataclass(frozen=True, slots=True)
class DitheredContour:
    """The rule on one contour, for the epsilons that share its tilt.

    Attributes:
        scan: The composition.
        tilt: s, above 0 for delta and between -1 and 0 for 1 - delta.
        period: G.
        centre: W, exact.
        frequencies: u at the nodes.
        terms: The terms of the rule without the phase exp(i u (W - epsilon)), for the dither and for one twice as wide.
        roundings: For both, a bound on the rounding error of the sum, and its growth with |W - epsilon|.
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
    log_unit: Bounds
    further: tuple[float, float]

    def sums_at(self, epsilons: Sequence[Fraction], wide: int) -> tuple[Floats, Floats]:
        """The rule at epsilons and bounds on its errors, without the wrap-around; `wide` is 1 for the wider dither."""
        # Exact difference, rounded once: W and epsilon may be large and close.
        away = np.array([float(self.centre - epsilon) for epsilon in epsilons])
        turns = np.multiply.outer(away / (2 * math.pi), self.frequencies)
        # Whole turns are taken off before the cosine, whose argument reduction would otherwise lose digits.
        angles = (2 * math.pi) * (turns - np.rint(turns))
        values: Floats = np.cos(angles) @ self.terms[wide].real - np.sin(angles) @ self.terms[wide].imag
        fixed, growth = self.roundings[wide]
        # Rounding grows with the distance from the centre, since u times it is the rounded phase.
        return values, fixed + growth * np.abs(away) + self._left_out(wide + 1)

    def _left_out(self, factor: int) -> float:
        """Bound on the sum over the nodes outside the windows and beyond their end."""
        windows, depth = self.scan.windows, self.scan.depth
        # The poles are at 0 and -1: s is the distance from the nearer one, which bounds 1 / |z (z + 1)| on the line.
        s, step = min(abs(self.tilt), abs(1 + self.tilt)), 2 * math.pi / self.period
        size = math.exp(abs(self.tilt) * depth.half_width * factor + self.scan.gaussians.log_norm) / math.pi
        first = math.pi / (2 * s) + step / s**2
        later = windows.segments * windows.first / (windows.first - step)
        end = windows.end - step
        # Beyond the scan the dither alone makes everything small: u^-p, integrated.
        beyond = depth.parts * math.log(depth.parts / (depth.half_width * end)) - math.log(
            end * (depth.parts + 1)
        )
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
    u = nodes_within(scan.windows.lows, scan.windows.highs, step).astype(np.float64) * step
    # Atoms of what has no closed form, tilted exactly by the fraction that the float is.
    listed = [(factor, atoms(factor, Fraction(tilt))) for factor in scan.others]
    part = _gaussian_part(scan.gaussians, u, tilt)
    for listed_factor, law in listed:
        part = part.times(*_listed_part(law, float(listed_factor.step), listed_factor.multiplicity, u))
    z = tilt + 1j * u
    # Half the nodes: the transform at -u is the conjugate of that at u, hence 2 for all but u = 0.
    flat = np.where(u == 0, 1.0, 2.0) * (step / (2 * math.pi)) / (z * (z + 1))
    if tilt < 0:
        flat = -flat
    terms, roundings = [], []
    # Both dithers are needed for the lower bound, and share every transform, so they are made together.
    for times in (1, 2):
        kernel, size, error = _dither(tilt, u, scan.depth.half_width * times, scan.depth.parts)
        terms.append(part.values * kernel * flat)
        rough = part.sizes * np.abs(flat) * 1.001
        # Relative errors multiply, as those of a power of many equal transforms do.
        relative = np.expm1(np.minimum(1.01 * UNIT * part.errors, _LARGEST_EXPONENT))
        fixed = float((rough * (relative * size + 1.01 * UNIT * (error + u.size * size))).sum())
        roundings.append((1.01 * fixed, 1.01 * UNIT * float((rough * size * u).sum()) * 8))
    return DitheredContour(
        scan=scan,
        tilt=tilt,
        period=period,
        centre=scan.gaussians.variance / 2 + sum((_centre(f, law) for f, law in listed), Fraction(0)),
        frequencies=u,
        # The phases are counted from the centre, an exact fraction, so that epsilon minus centre has one rounding.
        terms=(terms[0], terms[1]),
        roundings=(roundings[0], roundings[1]),
        log_unit=log_moment_bounds(scan, tilt, scan.gaussians.log_norm),
        further=(further, log_moment_bounds(scan, further, 0.0).upper),
    )


@dataclass(frozen=True, slots=True)
class _ContourPart:
    """A product of transforms at the nodes.

    Attributes:
        values: The product.
        sizes: Bounds on its modulus.
        errors: Bounds on the sum of the relative errors of all factors, each one relative to its size, in UNIT.
    """

    values: Complexes
    sizes: Floats
    errors: Floats

    def times(self, values: Complexes, errors: Floats) -> "_ContourPart":
        """The product with a transform of modulus at most 1."""
        return _ContourPart(self.values * values, self.sizes, self.errors + errors + 8)


def _centre(factor: LossFactor, law: TiltedAtoms) -> Fraction:
    return factor.multiplicity * (factor.offset + factor.step * (law.start + law.weights.size // 2))


def log_moment_bounds(scan: Scan, tilt: float, log_norm: float) -> Bounds:
    """ln E exp(s L) of the factors, with the Gaussian part bounded by its largest value and divided by C."""
    gaussian = float((Fraction(tilt) + Fraction(tilt) ** 2) * scan.gaussians.variance / 2)
    slack = 64 * UNIT * (abs(gaussian) + log_norm)
    # Listed factors in balls, by their exact atoms; the Gaussian part has its moment in closed form.
    others = (
        certified_log_moment(scan.others, Fraction(tilt), Fraction(0)) if scan.others else Bounds(0.0, 0.0)
    )
    total = gaussian - log_norm
    slack += 4 * UNIT * (abs(total) + abs(others.upper))
    return Bounds(total + others.lower - slack, total + others.upper + slack)


def _gaussian_part(factors: GaussianFactors, u: Floats, s: float) -> _ContourPart:
    """The product of the Gaussian transforms, times C exp(-(s + s^2) V / 2) and without the phase of the centre."""
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
    return _ContourPart(values * np.exp(-decay), sizes, errors)


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


def _listed_part(law: TiltedAtoms, step: float, power: int, u: Floats) -> tuple[Complexes, Floats]:
    """The transform of a law given by its atoms, to a power, and its error in UNIT."""
    # Counted from the middle of the list: phases stay as small as they can be.
    places = np.arange(law.weights.size) - float(law.weights.size // 2)
    # A product of nodes and atoms; the number of atoms of all listed losses is limited where the engine is made.
    turns = np.multiply.outer(u * (step / (2 * math.pi)), places)
    values = np.exp((2j * math.pi) * (turns - np.rint(turns))) @ law.weights
    mean_size = float(np.abs(places) @ law.weights)
    error = law.error / UNIT + 12 * step * mean_size * u + 60 + law.weights.size
    return power_of(values, power), power * (error + 8)


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
