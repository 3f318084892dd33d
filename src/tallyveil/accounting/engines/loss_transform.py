"""Transforms of tilted losses with bounds on their errors, and where they are not negligible.

`power_of` and its neighbours compute the transform of one factor at the frequencies of a cyclic lattice, to a power and
with a bound on its error. `find_windows` finds, once for a composition or once for each tilt, where the transform of a
loss without a lattice is not negligible.

The problem: for one factor, compute F(theta)^n with F(theta) = E exp(i theta x), where x is the factor's
integer under the tilted law, counted from a whole number near its mean.

The variables: N the length of the cyclic lattice; k a frequency; w the factor's weight on the lattice; theta
= 2 pi w k / N; v the variance; n the multiplicity; c the fractional part of the tilted centre; u = 2^-53 the
unit roundoff.

The steps:

1. A wide discrete Gaussian has F in closed form, by Poisson's summation formula: the sum over integers m of
   exp(i c (theta + 2 pi m) - v (theta + 2 pi m)^2 / 2), divided by the same sum at theta = 0.
2. Every other law is a short list of atoms. F is summed directly, or by one FFT if the list is long.
3. F^n is computed by repeated squaring, which adds a relative error of at most 4 n u.

The error of an FFT: it computes each output in stages, which add few terms with factors of modulus one. So
each output differs from the exact one by at most C u log2(N) times the sum of the moduli of the inputs.
Operation counts of radix 2 to 5 give C < 6 if N is a product of 2, 3 and 5, which it always is here; the code
uses 20 (docs/proofs/accounting-rounding.md; Higham 2002, Theorem 24.2, has the normwise form).

Example: one Laplace answer of sensitivity 1 without a tilt has the atoms a / (1 + a) at 0 and 1 / (1 + a) at
1, so that F(theta) = (a + exp(i theta)) / (1 + a).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Final, TypeAlias

import numpy as np

from tallyveil.accounting.engines.moments import WIDE_VARIANCE
from tallyveil.accounting.engines.sampled import (
    LaplaceFall,
    fall_of_laplace,
    fall_of_sample,
    is_dense,
    pairs_of_sample,
    stays_of_sample,
)
from tallyveil.accounting.losses import (
    ExponentialLoss,
    GaussianLoss,
    LaplaceLoss,
    LossFactor,
    NormalLoss,
    ResponseLoss,
    SampledLoss,
)
from tallyveil.arrays import Bools, Complexes, Floats, Integers
from tallyveil.errors import SolverError
from tallyveil.exact import as_given
from tallyveil.noise.balls import precision, rational

Other: TypeAlias = LossFactor | ExponentialLoss | ResponseLoss | SampledLoss
"""Losses of other than wide Gaussian noise."""

Fall: TypeAlias = Callable[[float, float], float]
"""From the ends of a segment of frequencies: what minus the logarithm of a transform's size is at least in it."""

# Unit roundoff of float64: one operation rounds by at most this, relatively.
UNIT = 2.0**-53
# Bound on the rounding of an FFT in units of u log2(N), by counting operations: below 6 for steps of 2, 3, 4 and 5. 20
# leaves a factor of three; 10 would still hold by the count, 40 would only widen tiny deltas.
FFT_CONSTANT = 20.0
NEGLIGIBLE = 60.0
"""A transform whose modulus is below exp(-60) < 1e-26 is bounded instead of computed."""

# Atoms of one law that are listed at most: 32 MiB of floats. Twice doubles that.
MAX_ATOMS = 1 << 22
_MAX_DIRECT = 1 << 21  # atoms times frequencies that are summed directly, most accurately


@dataclass(frozen=True, slots=True)
class TiltedAtoms:
    """A tilted law as a list.

    Attributes:
        start: The integer of the first weight.
        weights: Probabilities of successive integers, normalised; float64.
        error: Bound on the sum of their absolute errors, including the mass left out.
    """

    start: int
    weights: Floats
    error: float


def fft_error(length: int) -> float:
    """Bound on the error of every output of an FFT, relative to the sum of the moduli of its inputs."""
    return FFT_CONSTANT * UNIT * max(1.0, math.log2(length))


def is_wide(factor: LossFactor) -> bool:
    """Whether the closed form of the transform is used."""
    return isinstance(factor, GaussianLoss) and factor.variance >= WIDE_VARIANCE


def origin(factor: LossFactor, tilt: Fraction) -> int:
    """The integer from which a wide factor counts x."""
    # Any whole number near the mean would do: the phase of x then turns slowly, and its rounding stays small.
    return round(tilt * factor.sensitivity)


def atoms(factor: LossFactor | ResponseLoss, tilt: Fraction) -> TiltedAtoms:
    """The law of X (Gaussian) or i (Laplace, randomized response) under exp(tilt L).

    Raises:
        SolverError: it has too many atoms to be listed.
    """
    if isinstance(factor, GaussianLoss):
        return _gaussian_atoms(factor, tilt)
    if isinstance(factor, ResponseLoss):
        return _response_atoms(factor, tilt)
    return _laplace_atoms(factor, tilt)


def _gaussian_atoms(factor: GaussianLoss, tilt: Fraction) -> TiltedAtoms:
    v = float(factor.variance)
    centre = tilt * factor.sensitivity
    middle = round(centre)
    part = float(centre - middle)
    side = 1.0 if part >= 0 else -1.0
    # Exact before it is rounded: 1 - 2 |part| cancels where the centre is halfway between two integers.
    gap = float(1 - 2 * abs(centre - middle))
    reach = math.ceil(math.sqrt(104 * v)) + 1  # what lies beyond is below exp(-50) of the whole
    _check_atoms(factor, 2 * reach + 1)
    x = np.arange(-reach, reach + 1, dtype=np.float64)
    # Relative to x = 0, the likeliest: -((x - part)^2 - part^2) / (2 v) = -x (x - 2 part) / (2 v). In x - 2 part
    # nothing cancels, also where part is nearly 1/2: it is x - side + side * gap.
    exponents = -x * (x - side + side * gap) / (2 * v)
    # The first atom left out is more than `reach` from the centre; next ones fall by exp(-reach / v) or faster.
    peak = -part * part / (2 * v)
    outside = -((reach + 0.5) ** 2) / (2 * v) - peak
    left_out = 2 * math.exp(outside) / -math.expm1(-reach / v)
    return _normalised(middle - reach, exponents, left_out)


def _laplace_atoms(factor: LaplaceLoss, tilt: Fraction) -> TiltedAtoms:
    k = factor.sensitivity
    _check_atoms(factor, k + 1)
    # Slope of the tilted law in j. Above 0 where the tilt is below -1/2: then the law leans to the other end.
    bent = float(-(1 + 2 * tilt) / factor.scale)
    j = np.arange(k, -1, -1, dtype=np.float64)  # ascending in i = k - j
    if bent > 0:
        j -= k  # relative to the heavier end, so that exponents near 0 are accurate
    exponents = j * bent
    if k > 1:
        # Places between the ends hold one point of noise each, (1 - a) times the weight at an end.
        exponents[1:-1] += math.log(-math.expm1(-1 / float(factor.scale)))
    return _normalised(0, exponents, 0.0)


def _response_atoms(factor: ResponseLoss, tilt: Fraction) -> TiltedAtoms:
    # In balls: the exponents may be large and cancel against the logarithm of the number of options.
    with precision(128):
        rest = factor.options - 2
        masses = [
            rational(-tilt * factor.epsilon).exp(),
            rational(Fraction(rest)),
            rational((1 + tilt) * factor.epsilon).exp(),
        ]
        total = masses[0] + masses[1] + masses[2]
        weights = np.array([float(mass / total) for mass in masses])
    # The ball's radius and the rounding to a float are each below one unit, and so is a weight that underflows.
    return TiltedAtoms(0, weights, 4 * UNIT)


def _check_atoms(factor: LossFactor, count: int) -> None:
    if count > MAX_ATOMS:
        raise SolverError(
            f"the loss of {as_given(factor)} has {count} values that matter (that is, whose probability is not "
            f"negligible), more than the {MAX_ATOMS} that this engine can list. Use a smaller variance, scale or "
            "sensitivity, or ask for another engine."
        )


def _normalised(start: int, exponents: Floats, left_out: float) -> TiltedAtoms:
    # Relative to the heaviest: sums of weights stay near 1, whatever the tilt.
    exponents = exponents - exponents.max()
    heavy = exponents > -700  # the rest is below exp(-650) of the whole, however many
    exponents = np.where(heavy, exponents, -700.0)
    weights = np.exp(exponents)
    # Exponents are off by 8 u of themselves, exp by less than 4 units in the last place.
    errors = UNIT * (8 * -exponents + 12) * weights
    total = float(weights.sum())
    relative = float(errors.sum()) / total
    # Twice: once for the weights themselves and once through their sum; 64 u for the sum and the quotient.
    return TiltedAtoms(start, weights / total, 2.01 * (relative + left_out) + 64 * UNIT)


def wide_exponents(factor: GaussianLoss, phases: Floats) -> Floats:
    """n v theta^2 / 2 for theta in [-pi, pi]: minus the logarithm of |F^n|, without the bracket of `wide_power`."""
    # The phases are within [-pi, pi], so this is the decay of the nearest image alone.
    return (factor.multiplicity * float(factor.variance) / 2) * phases * phases


def wide_power(factor: GaussianLoss, tilt: Fraction, phases: Floats) -> tuple[Complexes, Floats]:
    """F^n of a wide Gaussian factor, counted from its origin n times, and a bound on its absolute error.

    Args:
        factor: Variance at least 2.
        tilt: Exact tilt.
        phases: theta in [-pi, pi], within 2 u relatively.
    """
    n, v = factor.multiplicity, float(factor.variance)
    centre = tilt * factor.sensitivity
    # Exact: the fractional part of the centre is a difference of large numbers. Only it enters a phase.
    part = centre - round(centre)
    exponents, turn = wide_exponents(factor, phases), float(n * part) * phases
    # The phase and the decay in one exp: the modulus has no rounding of a separate product.
    leading = np.exp(1j * turn - exponents)
    # The neighbours m = -1, 1 (others are below exp(-12 pi^2) relatively), over the same at theta = 0.
    c = float(part)
    rounding = np.exp(2j * math.pi * c)
    above = np.exp(-2 * math.pi * v * (math.pi + phases))
    below = np.exp(-2 * math.pi * v * (math.pi - phases))
    extra = above * rounding + below * np.conj(rounding)
    at_zero = 2 * math.exp(-2 * math.pi**2 * v) * math.cos(2 * math.pi * c)
    # The bracket is 1 + what the neighbours add, over the same at 0.
    bracket = (1 + extra) / (1 + at_zero)
    size = np.abs(bracket)
    # exp multiplies the exponents' relative error (at most 8 v pi^2 u) into the neighbours.
    neighbours = above + below + 2 * math.exp(-2 * math.pi**2 * v)
    off = neighbours * UNIT * (60 + 130 * v) + np.where(neighbours > 1e-20, 4 * UNIT, 1e-20)
    powered, power_error = power_with_error(bracket, size, off, n)
    modulus = np.exp(-exponents)
    # 8 roundings for each nat of decay and each radian of phase, as exp turns absolute errors into relative ones.
    relative = UNIT * (8 * exponents + 8 * np.abs(turn) + 20)
    return leading * powered, modulus * (power_error + relative * (np.abs(powered) + power_error))


def listed_power(
    law: TiltedAtoms, multiplicity: int, weight: int, length: int, frequencies: Integers
) -> tuple[Complexes, Floats]:
    """F^n of a listed law, counted from its start n times, and a bound on its absolute error.

    Args:
        law: The atoms.
        multiplicity: n.
        weight: Lattice steps between neighbouring atoms.
        length: N, even.
        frequencies: k in 0..N/2 wanted.
    """
    # In whole numbers modulo N, so that angles are reduced exactly.
    stride = weight % length
    positions = (np.arange(law.weights.size, dtype=np.int64) * stride) % length
    # Direct sums have no error that grows with N, but take atoms times frequencies; the FFT takes over where that is
    # slow.
    if law.weights.size * frequencies.size <= _MAX_DIRECT:
        values = np.zeros(frequencies.size, dtype=np.complex128)
        for position, mass in zip(positions.tolist(), law.weights.tolist(), strict=True):
            values += mass * np.exp((2j * math.pi / length) * centred(position * frequencies, length))
        error = law.error + UNIT * (20 + 4 * law.weights.size)
    else:
        from scipy import fft  # here, since most compositions need no transform and the import takes long

        table = np.bincount(positions, weights=law.weights, minlength=length)
        values = np.conj(fft.rfft(table, workers=1))[frequencies]
        # bincount adds what falls on one place in order: at most as many roundings as turns round the cycle.
        turns = 1 + law.weights.size * stride // length
        error = law.error + fft_error(length) + UNIT * turns
    return power_with_error(values, np.abs(values), np.full(values.size, error), multiplicity)


def centred(products: Integers, length: int) -> Floats:
    """Products modulo the length, in [-length / 2, length / 2), as floats: exact."""
    # Exact: whole numbers below N are floats, and the division by N comes last, at the caller.
    reduced = products % length
    return np.where(2 * reduced >= length, reduced - length, reduced).astype(np.float64)


def power_with_error(values: Complexes, size: Floats, off: Floats, n: int) -> tuple[Complexes, Floats]:
    """values^n and a bound on its error; `size` are the moduli of the values, and `off` bounds their errors."""
    # |F| + e bounds the true modulus, so its power bounds that of the true value; the difference from |F|^n is the
    # error.
    slack = 8 * (n + 2) * UNIT
    with np.errstate(over="ignore", invalid="ignore"):
        powered, worst, least = power_of(values, n), _real_power(size + off, n), _real_power(size, n)
        # (|F| + e)^n - |F|^n, and the roundings of all three powers; where it cancels, the slack is the bound.
        error = np.maximum(worst * (1 + slack) - least * (1 - slack), 0.0) + 1e-300
    # A power beyond every float, of very many answers, says nothing.
    known = np.isfinite(powered) & np.isfinite(error)
    return np.where(known, powered, 0), np.where(known, error, math.inf)


def power_of(values: Complexes, n: int) -> Complexes:
    """Powers of one exponent, at least 1, by squaring: the relative error is at most 4 UNIT times the exponent."""
    result: Complexes | None = None
    while True:
        if n & 1:
            result = values if result is None else result * values
        n >>= 1
        if not n:
            assert result is not None
            return result
        values = values * values


def _real_power(values: Floats, n: int) -> Floats:
    result: Floats = np.ones_like(values)
    while n:
        if n & 1:
            result = result * values
        n >>= 1
        values = values * values
    return result


MOST_STATES: Final = 4_000_000
"""Largest number of states that a scan may look at. This many take about a second on one core."""

FEW_STATES: Final = 1 << 18
"""The same for a scan that is made anew for each tilt."""

MOST_WINDOWS: Final = 20_000
"""Largest number of windows. Each one holds a few nodes of every contour. This many take seconds for an epsilon."""

_BOUNDLESS: Final = 1e200
"""The variance at which integer noise stands for normal noise: its period is then beyond every frequency."""

_LEAST_PULL: Final = (
    1e-200  # a pull below it would underflow; a factor without a pull only makes the bound larger
)
_CHUNK: Final = 1 << 17  # multiples of the longest period that are split at once
_FIRST_END: Final = (
    8.0  # end of the first segment, in units of the reciprocal of the loss's standard deviation
)


@dataclass(frozen=True, slots=True)
class GaussianFactors:
    """Discrete Gaussian and normal factors as arrays, those first that narrow the scan most.

    A normal loss is the limit of discrete Gaussian ones whose variances grow while k^2 / v stays mu^2.

    Attributes:
        variances: v, rounded to nearest.
        sensitivities: k.
        powers: m.
        rates: k^2 / v.
        periods: P.
        pulls: a.
        variance: V, the sum of m k^2 / v: the variance of the loss, exact.
        log_norm: Sum of m ln c_v, c_v being the theta constant.
        loss: By how much F may exceed minus the logarithm of the transform's size: the sum of m exp(4 - 2 pi^2 v).
    """

    variances: Floats
    sensitivities: Floats
    powers: Floats
    rates: Floats
    periods: Floats
    pulls: Floats
    variance: Fraction
    log_norm: float
    loss: float

    @classmethod
    def of(cls, factors: Sequence[GaussianLoss | NormalLoss]) -> "GaussianFactors":
        """The factors, each discrete one of variance 1/4 or more."""
        ordered = sorted(
            factors,
            key=lambda f: -math.inf if isinstance(f, NormalLoss) else -f.variance * f.multiplicity,
        )
        pairs = [
            (_BOUNDLESS, math.sqrt(f.mu_squared * Fraction(_BOUNDLESS)))
            if isinstance(f, NormalLoss)
            else (float(f.variance), float(f.sensitivity))
            for f in ordered
        ]
        v = np.array([variance for variance, _ in pairs])
        k = np.array([sensitivity for _, sensitivity in pairs])
        m = np.array([float(f.multiplicity) for f in ordered])
        rates = k * k / v
        # ln of the theta constant: the transform's largest value is the sum of all images at 0.
        images = sum(np.exp(-2 * np.pi**2 * v * (j * j)) for j in range(1, 6))
        return cls(
            variances=v,
            sensitivities=k,
            powers=m,
            rates=rates,
            periods=2 * np.pi * v / k,
            # The pull: curvature of the transform's decay, less what the other images may add
            # (docs/proofs/off-lattice.md, 3).
            pulls=m * rates * (1 - 2 * math.log(2) / (np.pi**2 * v)),
            variance=sum(
                (
                    f.multiplicity * (f.mu_squared if isinstance(f, NormalLoss) else 2 * f.offset)
                    for f in factors
                ),
                Fraction(0),
            ),
            log_norm=float((m * np.log1p(2 * images)).sum()),
            loss=float((m * np.exp(4 - 2 * np.pi**2 * v)).sum()),
        )

    @property
    def count(self) -> int:
        """How many different factors there are."""
        return self.variances.size

    @property
    def decay(self) -> "Decay":
        """That of these factors alone."""
        return decay_of(self, (), Fraction(0), math.sqrt(self.variance))


@dataclass(frozen=True, slots=True)
class Depth:
    """How small a transform is negligible at a frequency, and how the dither shortens the scan.

    Attributes:
        depth: T; in the first segment, what is below exp(-T) is negligible.
        half_width: h, half the width of the dither.
        parts: p, the number of uniform laws that the dither adds up.
    """

    depth: float
    half_width: float
    parts: int

    def at(self, begin: float) -> float:
        """T - ln b - p max(0, ln(h b / p)), for the segment that begins at b."""
        # Beyond the frequency p / h the dither falls like a power of p: the depth may fall by its logarithm.
        return (
            self.depth
            - math.log(begin)
            - self.parts * max(0.0, math.log(self.half_width * begin / self.parts))
        )


@dataclass(frozen=True, slots=True)
class Decay:
    """How fast the transform of a composition falls between its revivals: bounds at one tilt.

    At a frequency u in a segment, minus the logarithm of the transform's size, relative to that at u = 0, is at least
    F(u) + gain - loss, with F the sum of a d^2 / 2 over the factors that have a pull, and the gain of this segment.

    Attributes:
        periods: P, those first that narrow the scan most.
        pulls: a.
        loss: By how much F may be too large.
        deviation: The standard deviation of the loss, about or more.
        falls: For losses with many values, what minus the logarithm of their transform is at least in a segment.
    """

    periods: Floats
    pulls: Floats
    loss: float
    deviation: float
    falls: tuple[Fall, ...] = ()

    @property
    def count(self) -> int:
        """How many factors have a pull."""
        return self.periods.size

    def gain(self, begin: float, end: float) -> float:
        """What losses with many values take from the transform's size in a segment."""
        return sum(fall(begin, end) for fall in self.falls)


def decay_of(
    gaussians: GaussianFactors,
    others: Sequence[Other],
    tilt: Fraction,
    deviation: float,
    *,
    without_stays: bool = False,
) -> Decay:
    """The decay of a composition at one tilt (docs/proofs/off-lattice.md, section 3).

    Args:
        gaussians: The wide factors; their decay does not depend on the tilt.
        others: All other factors.
        tilt: Exact.
        deviation: The standard deviation of the loss, about or more.
        without_stays: Whether it is that of the part in which not all samples of fixed size have a loss of 0.
    """
    periods, pulls = gaussians.periods.tolist(), gaussians.pulls.tolist()
    falls: list[Fall] = []
    parts: list[_Part] = []
    for factor in others:
        density: LaplaceFall | None = None
        # Distances of values of the loss, and products of their tilted probabilities.
        pairs: list[tuple[float, float]] = []
        match factor:
            case ExponentialLoss():
                density = _fall_of_exponential(factor, tilt)
            case SampledLoss(ExponentialLoss()):
                density = fall_of_laplace(factor, tilt)
            case SampledLoss(changed=True) if is_dense(factor):
                stays = float(stays_of_sample(factor, tilt).upper())
                parts.append(_Part(factor.multiplicity, min(stays, 1.0), fall_of_sample(factor, tilt)))
            case SampledLoss() if is_dense(factor):
                falls.append(partial(_fall_of_samples, factor.multiplicity, fall_of_sample(factor, tilt)))
            case SampledLoss():
                pairs = pairs_of_sample(factor, tilt)
            case _:
                pairs = [_neighbours(factor, tilt)]
        if density is not None:
            falls.append(partial(_fall_of_density, factor.multiplicity, density))
            pairs = [(density.apart, density.strength)]
        # Of 1 - |F|^2 = sum of p p' (1 - cos u (l - l')) over all pairs, each pair is a part.
        for apart, product in pairs:
            pull = 4 / math.pi**2 * factor.multiplicity * product * apart * apart
            if pull > _LEAST_PULL:
                periods.append(2 * math.pi / apart)
                pulls.append(pull)
    if parts:
        falls.append(partial(_fall_of_parts, tuple(parts), without_stays))
    # Those of the largest product first: it counts how many revivals there are and how narrow they are.
    order = np.argsort([-p * p * a for p, a in zip(periods, pulls, strict=True)], kind="stable")
    return Decay(
        np.array(periods)[order] if periods else np.zeros(0),
        np.array(pulls)[order] if pulls else np.zeros(0),
        gaussians.loss,
        deviation,
        tuple(falls),
    )


def _fall_of_density(multiplicity: int, density: LaplaceFall, begin: float, end: float) -> float:
    size = density.mass + density.slope / begin
    return max(0.0, -multiplicity * math.log(size) * (1 - 1e-12) - 1e-12 * multiplicity)


def _fall_of_samples(multiplicity: int, fall: Fall, begin: float, end: float) -> float:
    return multiplicity * fall(begin, end)


@dataclass(frozen=True, slots=True)
class _Part:
    """So many samples of fixed size: the tilted probability of a loss of 0, and how the rest of the transform falls."""

    multiplicity: int
    stays: float
    fall: Fall


def _fall_of_parts(parts: tuple[_Part, ...], without_stays: bool, begin: float, end: float) -> float:
    """That of the product of (stays + rest) to some powers, or of what it has beyond the product of stays alone."""
    rests = [math.exp(-part.fall(begin, end)) for part in parts]
    # Every product of parts of which one at least is a rest is at most that of their sizes.
    grown = sum(
        part.multiplicity * math.log1p(rest / part.stays) for part, rest in zip(parts, rests, strict=True)
    )
    stays = sum(part.multiplicity * math.log(part.stays) for part in parts)
    log_size = stays + (grown + math.log(-math.expm1(-grown)) if without_stays else grown)
    # Sums and powers of floats: one in 10^12 of each factor.
    slack = 1e-12 * sum(part.multiplicity for part in parts) + 1e-12 * abs(log_size)
    return max(0.0, -log_size - slack)


def _neighbours(factor: GaussianLoss | LaplaceLoss | ResponseLoss, tilt: Fraction) -> tuple[float, float]:
    """The distance of neighbouring atoms, and the sum of the products of their tilted probabilities."""
    law = atoms(factor, tilt)
    # Of all pairs of atoms these have the full period.
    products = float(law.weights[1:] @ law.weights[:-1]) * (1 - 1e-9) - 2 * law.error
    return float(factor.step), max(products, 0.0)


def _fall_of_exponential(factor: ExponentialLoss, tilt: Fraction) -> LaplaceFall:
    epsilon = float(factor.epsilon)
    bent = abs(float((tilt + Fraction(1, 2)) * factor.epsilon))
    # sinh(a) / (a cosh a): the tilted density between the atoms, relative to these.
    density = epsilon / 2 * (math.tanh(bent) / bent if bent > 1e-8 else 1.0)
    mass = 1 / (1 + density)
    # 1 / (2 cosh a) from exp(-a), which does not overflow.
    least = math.exp(-bent) / (1 + math.exp(-2 * bent))
    share = mass / (mass + math.exp(0.5) * (1 - mass))
    # The transform of the density is at most mass / (2 u).
    rounded_up = mass * (1 + 1e-12)
    return LaplaceFall(2 * epsilon, share * least * least * (1 - 1e-9), rounded_up, rounded_up / 2)


@dataclass(frozen=True, slots=True)
class Windows:
    """Intervals of frequencies outside which the transform is negligible; they may overlap.

    Attributes:
        lows: Where each interval begins, at least 0.
        highs: Where each interval ends.
        first: End of the first segment.
        end: U, the end of the scan.
        segments: Number of segments, the first one included.
        gain: Minus the logarithm of the transform's size from U on, at least.
        is_whole: Whether the scan was given up, so that the windows hold every frequency.
    """

    lows: Floats
    highs: Floats
    first: float
    end: float
    segments: int
    gain: float = 0.0
    is_whole: bool = False


def find_windows(decay: Decay, depth: Depth, most_states: int | None = None) -> Windows:
    """All windows; one that holds every frequency if there are too many states or windows on the way to them.

    The problem: find all frequencies u in [0, U] at which the transform of a sum of losses may exceed a stated
    size, and be sure that none is missed.

    The variables, for a discrete Gaussian factor of variance v, sensitivity k and multiplicity m: P = 2 pi v / k
    is its *period*; d is the distance of u from the nearest multiple of P; a = m (k^2 / v) (1 - 2 ln 2 / (pi^2
    v)) is its *pull*.

    At the multiples of its period, the transform of one factor returns to its full size: a *revival*. Elsewhere
    it is at most exp(-a d^2 / 2), up to a constant. So the transform of the sum is at most exp(-F(u)) with F(u)
    the sum of a d^2 / 2 over all factors (docs/proofs/off-lattice.md, section 3). Other factors have a period and a
    pull of their own, and the density of Laplace noise takes a constant from all revivals but the first ones.

    The steps: take the factors one after the other, and first those that narrow the scan most. A state is an
    interval of u, with one multiple of the period chosen for each factor so far. The part of F of these factors
    is there the quadratic weight (u - middle)^2 / 2 + rest. The next factor splits each state into one for every
    multiple of its period that is the nearest one somewhere in the interval. Then the interval shrinks to where
    the quadratic is at most the bound, and empty intervals are dropped. The intervals that remain after the last
    factor are the *windows*.

    The stopping rule: segments [b, 2 b] are scanned until the dither, or the density of a loss, makes everything beyond
    negligible, or until more states were looked at than the limit. A segment in which F never exceeds the bound is a
    window.

    Example: one factor alone has a window around every multiple of its period. With two factors of periods 1 and
    sqrt(2), a window is left only where a multiple of one is close to a multiple of the other, such as 7 and 5
    sqrt(2) = 7.07.
    """
    first = _FIRST_END / decay.deviation
    segments, end, count = [_Segment(0.0, first, depth.depth + decay.loss)], first, 1
    # Twice as long each time: the dither's factor shrinks with u, so the number of segments grows only with ln(U).
    while depth.at(end) > decay.gain(end, math.inf):
        bound = depth.at(end) - decay.gain(end, 2 * end)
        if bound > 0:
            segments.append(_Segment(end, 2 * end, bound + decay.loss))
        end, count = 2 * end, count + 1
    # The largest F that there is: every d is half a period at most.
    most = float((decay.pulls * decay.periods**2).sum()) / 8
    part = [segment for segment in segments if segment.bound < most]
    # Where the caller limits the states he limits the nodes, too, and windows are no limit of their own.
    limits = (MOST_STATES, MOST_WINDOWS) if most_states is None else (most_states, math.inf)
    scanned = _scanned(decay, part, *limits) if part else (np.zeros(0), np.zeros(0))
    whole = segments if scanned is None else [segment for segment in segments if segment.bound >= most]
    lows, highs = scanned or (np.zeros(0), np.zeros(0))
    return Windows(
        np.concatenate([lows, [segment.begin for segment in whole]]),
        np.concatenate([highs, [segment.end for segment in whole]]),
        first,
        end,
        count,
        decay.gain(end, math.inf),
        scanned is None,
    )


def windows_up_to(decay: Decay, bound: float, end: float) -> tuple[Floats, Floats] | None:
    """Intervals of [0, end] outside which minus the logarithm of the transform's size exceeds a bound, or None.

    The size is that of the product of the sums of all images, without the constant: at most C at u = 0. The intervals
    may overlap, and reach a little beyond the end.
    """
    return _scanned(decay, [_Segment(0.0, end, bound + decay.loss)], MOST_STATES)


def number_of_nodes(lows: Floats, highs: Floats, step: float) -> float:
    """About how many nodes at this distance lie in some intervals."""
    return lows.size + float((highs - lows).sum()) / step


def nodes_within(lows: Floats, highs: Floats, step: float) -> Integers:
    """All whole j with j step in some interval, each once and in order."""
    # Widened by more than a division's rounding: a node on the edge of an interval must not be dropped.
    first = np.ceil(lows / step * (1 - 1e-13) - 1e-9).astype(np.int64)
    last = np.floor(highs / step * (1 + 1e-13) + 1e-9).astype(np.int64)
    counts = np.maximum(last - first + 1, 0)
    # All places of all intervals in one array: begin of each interval repeated, plus a running count.
    numbers = np.arange(int(counts.sum())) + np.repeat(first - np.cumsum(counts) + counts, counts)
    # Each interval's are in order already, which this sort makes use of.
    numbers.sort(kind="stable")
    # Windows may overlap; each node enters the sum once, and numbers are sorted already.
    distinct: Integers = numbers[np.diff(numbers, prepend=-1) > 0]
    return distinct


@dataclass(frozen=True, slots=True)
class _Segment:
    """An interval of frequencies, and the size of F from which the transform is negligible there."""

    begin: float
    end: float
    bound: float


@dataclass(frozen=True, slots=True)
class _States:
    """Intervals of u, the quadratic of the factors so far on each, and the bound and slip of the segment it is in."""

    middle: Floats
    rest: Floats
    low: Floats
    high: Floats
    bound: Floats
    slip: Floats

    def where(self, chosen: Bools | Integers) -> "_States":
        return _States(
            self.middle[chosen],
            self.rest[chosen],
            self.low[chosen],
            self.high[chosen],
            self.bound[chosen],
            self.slip[chosen],
        )


def _scanned(
    decay: Decay, segments: list[_Segment], most_states: int, most_windows: float = math.inf
) -> tuple[Floats, Floats] | None:
    """Windows of all segments, or None if there are more states or windows on the way to them.

    Most segments are short, and hold few states. So many of them go through the factors at once: a call of numpy takes
    about as long for one state as for a thousand.
    """
    period = decay.periods[0]
    # Refused before an array is made: the longest period alone would need this many states.
    if segments[-1].end / period > most_states:
        return None
    pieces, multiples = [], []
    for segment in segments:
        count = math.ceil((segment.end - segment.begin) / (_CHUNK * period))
        ends = np.linspace(segment.begin, segment.end, count + 1)
        pieces.append(_begun(decay, segment, ends))
        multiples += (np.diff(ends) / period + 1).tolist()
    begun = _States(*(np.concatenate([getattr(part, name) for part in pieces]) for name in _States.__slots__))
    # A batch has at most as many multiples of the longest period as one full piece, or it is one piece.
    # Batches by the number of multiples, not of segments: the work of a batch is what its states split into.
    batch = np.floor(np.cumsum(multiples) / _CHUNK)
    lows, highs, seen = [], [], 0
    for number in sorted(set(batch.tolist())):
        windows = _windows_of(decay, begun.where(batch == number), most_states - seen)
        if windows is None:
            return None
        states, looked_at = windows
        lows.append(np.maximum(states.low, 0.0))
        highs.append(states.high)
        seen += looked_at
        # Windows are what costs time later, so they are limited apart from the states on the way to them.
        if sum(part.size for part in lows) > most_windows:
            return None
    return np.concatenate(lows), np.concatenate(highs)


def _begun(decay: Decay, segment: _Segment, ends: Floats) -> _States:
    """The states before the first factor: one for each piece of a segment."""
    n = ends.size - 1
    # By how much rounding may move a multiple of a period, a middle or the edge of a cell.
    # Rounding of every period's multiple, of the middles and of the cells, relative to the end of the segment.
    slip = (8 * decay.count + 32) * UNIT * segment.end
    # The bound raised by what that rounding could hide: F at the true place may be larger than at the rounded one.
    bound = (math.sqrt(segment.bound) + slip * math.sqrt(8 * float(decay.pulls.sum()))) ** 2
    bound = bound * (1 + 1e-9) + 1e-9
    return _States(np.zeros(n), np.zeros(n), ends[:-1], ends[1:], np.full(n, bound), np.full(n, slip))


def _windows_of(decay: Decay, states: _States, allowed: int) -> tuple[_States, int] | None:
    # Weight and rest of the quadratic so far; F's factors are added one by one, as the module says.
    """The states after the last factor and the number of states looked at, or None if there are more than allowed."""
    weight, seen = 0.0, 0
    for period, pull in zip(decay.periods.tolist(), decay.pulls.tolist(), strict=True):
        split = _split(states, period, allowed - seen)
        if split is None:
            # A limit on the states that were looked at, not on those left: time is spent on the former.
            return None
        seen += split[1].size
        states = _joined(*split, (weight, pull, period))
        weight += pull
    return states, seen


def _split(states: _States, period: float, allowed: int) -> tuple[_States, Floats] | None:
    """One state for every multiple of the period that is nearest somewhere in the interval, and these multiples."""
    first = np.floor(states.low / period + 0.5)
    # Round to the nearest multiple at both ends: all multiples in between are candidates.
    counts = (np.floor(states.high / period + 0.5) - first).astype(np.int64) + 1
    total = int(counts.sum())
    if total > allowed:
        return None
    if total == counts.size:  # every interval lies in one cell, as most do
        return states, first * period
    parents = np.repeat(np.arange(counts.size), counts)
    # A running count within each state, plus its first multiple: one array instead of a loop.
    place = np.arange(total, dtype=np.float64) - np.repeat(np.cumsum(counts) - counts, counts)
    centres: Floats = (first[parents] + place) * period
    return states.where(parents), centres


def _joined(states: _States, centre: Floats, factor: tuple[float, float, float]) -> _States:
    """The states with one more factor: its pull towards its multiple of the period, and the cell of this multiple."""
    weight, pull, period = factor
    total, bound, slip = weight + pull, states.bound, states.slip
    # Sum of two squares, completed: weight (u - m)^2 / 2 + pull (u - c)^2 / 2 has this middle and this rest.
    off = centre - states.middle
    rest = states.rest + (0.5 * weight * pull / total) * off * off
    middle = states.middle + off * (pull / total)
    # Where the quadratic is above the bound nothing is left: the interval shrinks to where it is not.
    reach = np.sqrt(np.maximum(bound - rest, 0.0) * (2 / total)) + slip
    low = np.maximum(np.maximum(states.low, centre - period / 2 - slip), middle - reach)
    high = np.minimum(np.minimum(states.high, centre + period / 2 + slip), middle + reach)
    # States whose rest already exceeds the bound, or whose interval is empty, hold no frequency.
    return _States(middle, rest, low, high, bound, slip).where((rest <= bound) & (low <= high))
