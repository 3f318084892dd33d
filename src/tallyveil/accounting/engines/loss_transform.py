"""Transforms of tilted losses at the frequencies of a cyclic lattice, each with a bound on its error.

The problem: for one factor, compute F(theta)^n with F(theta) = E exp(i theta x), where x is the factor's integer under
the tilted law, counted from a whole number near its mean.

The variables: N the length of the cyclic lattice; k a frequency; w the factor's weight on the lattice;
theta = 2 pi w k / N; v the variance; n the multiplicity; c the fractional part of the tilted centre; u = 2^-53 the unit
roundoff.

The steps:

1. A wide discrete Gaussian has F in closed form, by Poisson's summation formula: the sum over integers m of
   exp(i c (theta + 2 pi m) - v (theta + 2 pi m)^2 / 2), divided by the same sum at theta = 0.
2. Every other law is a short list of atoms. F is summed directly, or by one FFT if the list is long.
3. F^n is computed by repeated squaring, which adds a relative error of at most 4 n u.

The error of an FFT: it computes each output in stages, which add few terms with factors of modulus one. So each output
differs from the exact one by at most C u log2(N) times the sum of the moduli of the inputs. Operation counts of radix 2
to 5 give C < 6 if N is a product of 2, 3 and 5, which it always is here; the code uses 20
(docs/proofs/accounting-rounding.md; Higham 2002, Theorem 24.2, has the normwise form).

Example: one Laplace answer of sensitivity 1 without a tilt has the atoms a / (1 + a) at 0 and 1 / (1 + a) at 1, so that
F(theta) = (a + exp(i theta)) / (1 + a).
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tallyveil.accounting.losses.factors import GaussianLoss, LaplaceLoss, LossFactor
from tallyveil.accounting.losses.moments import WIDE_VARIANCE
from tallyveil.arrays import Complexes, Floats, Integers
from tallyveil.errors import SolverError
from tallyveil.exact import as_given

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


def atoms(factor: LossFactor, tilt: Fraction) -> TiltedAtoms:
    """The law of X (Gaussian) or i (Laplace) under exp(tilt L).

    Raises:
        SolverError: it has too many atoms to be listed.
    """
    if isinstance(factor, GaussianLoss):
        return _gaussian_atoms(factor, tilt)
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
    powered, worst, least = power_of(values, n), _real_power(size + off, n), _real_power(size, n)
    slack = 8 * (n + 2) * UNIT
    # (|F| + e)^n - |F|^n, and the roundings of all three powers; where it cancels, the slack is the bound.
    return powered, np.maximum(worst * (1 + slack) - least * (1 - slack), 0.0) + 1e-300


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
