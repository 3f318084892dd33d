"""The general engine: the law of the loss on its lattice, tilted to the point of interest, by one inverse FFT.

The problem: bounds on P(L > epsilon), Q(L > epsilon) and delta(epsilon) with a small relative error, also where they
are far below the smallest float.

The variables: L = W + h Z the loss on its lattice; s the tilt; K(s) = ln E exp(s L); p_s the law tilted by exp(s L) and
normalised; N the length of the cyclic lattice; l the first lattice point above epsilon; r = l - epsilon; d the distance
of a point above l.

The steps:

1. Choose s so that the mean K'(s) of the tilted law is near epsilon.
2. Multiply the transforms of all factors, and invert the product by one FFT of length N. This gives p_s on a window
   that holds all but exp(-50) of it on either side.
3. Sum: P(L > epsilon) = exp(K(s) - s l) * sum of p_s exp(-s d). In delta each term has the further factor
   1 - exp(-r - d), in Q(L > epsilon) the factor exp(-l - d). The largest terms are where p_s is largest, so an absolute
   error of p_s is a small relative error of the sum.
4. Bound what is not exact: the transforms and their powers (`loss_transform`), the FFT, the mass outside the window
   and what wraps around (Chernoff's bound at another tilt, on either side), and the rounding of the sums. K(s) - s l
   is a ball.

W, h and epsilon are exact, so no lattice point is ever counted on the wrong side. If the bounds are wide, up to three
other tilts are tried, and the bounds intersected.

Example: one Laplace answer of sensitivity 1 and scale t has W = -1 / t, h = 2 / t and Z in {0, 1}. For
0 <= epsilon < 1 / t one term is left: P(L > epsilon) = 1 / (1 + a) with a = exp(-1 / t).
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tallyveil.accounting.engines.loss_transform import (
    NEGLIGIBLE,
    UNIT,
    atoms,
    centred,
    fft_error,
    is_wide,
    listed_power,
    origin,
    wide_exponents,
    wide_power,
)
from tallyveil.accounting.engines.moments import (
    OUTSIDE,
    certified_log_moment,
    estimated_length,
    greatest_loss,
    tilt_grid,
    window,
)
from tallyveil.accounting.engines.tails import (
    NOTHING,
    DeltaByTails,
    Tails,
    log_of,
    log_rest,
    log_sum,
    narrower,
    probability,
    within_floats,
)
from tallyveil.accounting.losses import GaussianLoss, LossFactor, LossLattice, lattice_of, merged
from tallyveil.accounting.numbers import Bounds
from tallyveil.arrays import Floats, Integers
from tallyveil.errors import SolverError

MAX_LENGTH = 1 << 21
"""Longest cyclic lattice worked on."""

# Laws of tilts that are kept, of 32 MiB each at most: 200 MB. Twice doubles that.
_CACHED = 6
# ln delta above which delta is also computed as one minus a tail: at delta near 1, the tail of the rest has more
# digits.
_NEARLY_ONE = math.log(0.9)
_FARTHEST = 10**6  # an epsilon that protects nobody
_WIDE = 1e-9  # relative width above which another tilt is tried


@dataclass(frozen=True, slots=True)
class TiltedLaw:
    """The tilted law on a window of its lattice.

    Attributes:
        tilt: s, exact.
        first: The integer Z of the first weight.
        weights: p_s of successive points, read-only.
        entry_error: Bound on the error of each weight, without the mass that wraps around.
        outside: Bound on the mass above the window, and also on the mass below it.
    """

    tilt: Fraction
    first: int
    weights: Floats
    entry_error: float
    outside: float


class TiltedFFT(DeltaByTails):
    """Certified tails of a composition whose losses share a lattice that is not too fine.

    Args:
        factors: The losses added up.

    Raises:
        BudgetError: no factor, or one out of range.
        SolverError: the lattice is too fine for the longest FFT.
    """

    name = "tilted_fft"

    def __init__(self, factors: tuple[LossFactor, ...]) -> None:
        self.factors = merged(factors)
        self.lattice: LossLattice = lattice_of(self.factors)
        self.greatest = greatest_loss(self.factors)
        self._laws: dict[Fraction, TiltedLaw] = {}
        self._significant: dict[int, Integers] = {}
        length = estimated_length(self.factors, self.lattice)
        if length > MAX_LENGTH:
            raise SolverError(
                f"the losses share a lattice of step {float(self.lattice.step):.3g}. About {length:.3g} of its "
                f"points matter, and this engine supports {MAX_LENGTH}. Ask for 'auto', which "
                "chooses an engine that can."
            )

    def log_tails(self, epsilon: float | Fraction) -> Tails:
        """Certified tails above `epsilon`.

        Raises:
            BudgetError: epsilon is not finite, or beyond 1e301.
        """
        exact = within_floats(epsilon)
        # No loss is as large: both probabilities are exactly 0, and the window would hold nothing.
        if self.greatest is not None and exact >= self.greatest:
            return Tails(NOTHING, NOTHING, NOTHING)
        # At the saddle the terms of the sum are largest and nearest to epsilon.
        tilt = tilt_grid(self.factors, float(exact))
        # A window that no transform holds: Chernoff's bound is all that is left there, and it is one-sided.
        if tilt > 0 and self._is_too_wide(tilt):
            return self._far_out(exact, tilt)
        tails = self._tails_at(exact, tilt)
        if _is_wide(tails):
            # Few atoms carry the tail, and not near epsilon: aim where they are.
            point = self._next_point(exact)
            widest = max(self.lattice.weights) * self.lattice.step
            # Aims: the mean of what lies above epsilon, its first point, and that moved by the widest atom. A different
            # tilt gives other roundings, and the intersection of bounds is safe.
            for aim in (self._carried(exact, tilt), float(point), float(point + widest)):
                aimed = tilt_grid(self.factors, aim)
                if self._is_too_wide(aimed):
                    continue
                tails = narrower(tails, self._tails_at(exact, aimed))
                if not _is_wide(tails):
                    break
        near_one = exact >= 0 and tails.log_delta.upper > _NEARLY_ONE and self._next_point(exact) < _FARTHEST
        return self._with_rest(exact, tails) if near_one else tails

    def _with_rest(self, epsilon: Fraction, tails: Tails) -> Tails:
        """The tails, with delta also from 1 - delta = P(L <= epsilon) + exp(epsilon) Q(L > epsilon)."""
        below = self.log_tails(-self._next_point(epsilon)).log_second
        delta = log_rest(log_sum(below, tails.log_second, float(epsilon)))
        return narrower(tails, Tails(tails.log_first, tails.log_second, delta))

    def _far_out(self, epsilon: Fraction, tilt: Fraction) -> Tails:
        """Chernoff's bound, for an s > 0: P(L > epsilon) <= exp(K(s) - s epsilon), and Q is at most exp(-epsilon) P."""
        first, second = (
            Bounds(-math.inf, min(certified_log_moment(self.factors, tilt, power * epsilon).upper, 0.0))
            for power in (tilt, tilt + 1)
        )
        return Tails(first, second, first)

    def _carried(self, epsilon: Fraction, tilt: Fraction) -> float:
        """Mean of the losses above epsilon, weighted by their shares of delta; in floats."""
        law, distance = self.law(max(tilt, Fraction(0))), 0.0
        z = (epsilon - self.lattice.offset) // self.lattice.step + 1
        begin = max(z, law.first)
        weights = law.weights[begin - law.first :] - law.entry_error
        far = float(self.lattice.step) * (float(begin - z) + np.arange(weights.size))
        if far.size:
            terms = np.maximum(weights, 0.0) * np.exp(-float(law.tilt) * (far - far[0]))
            total = float(terms.sum())
            distance = float((terms * (far / total)).sum()) if total > 0 else far[0]
        return float(self._next_point(epsilon)) + float(distance)

    def _next_point(self, epsilon: Fraction) -> Fraction:
        """The first lattice point above epsilon, exactly."""
        step, offset = self.lattice.step, self.lattice.offset
        return offset + ((epsilon - offset) // step + 1) * step

    def _tails_at(self, epsilon: Fraction, tilt: Fraction) -> Tails:
        first, second, delta = self._weighted(epsilon, max(tilt, Fraction(0)))
        if tilt < 0:
            second = self._weighted(epsilon, max(tilt, Fraction(-1)))[1]
        return Tails(probability(first), probability(second), probability(delta))

    def law(self, tilt: Fraction) -> TiltedLaw:
        """The law tilted by exp(tilt L). The laws of the last few tilts are kept."""
        if tilt not in self._laws:
            # The oldest is dropped: a search over epsilon moves on, and comes back only to the last few.
            while len(self._laws) >= _CACHED:
                self._laws.pop(next(iter(self._laws)))
            self._laws[tilt] = self._tilted(tilt)
        return self._laws[tilt]

    def _weighted(self, epsilon: Fraction, tilt: Fraction) -> tuple[Bounds, Bounds, Bounds]:
        """ln of P(L > epsilon), Q(L > epsilon), delta, from the law at one tilt, which is at least -1.

        With a negative tilt, P(L > epsilon) and delta would have terms that grow with the loss. They then get the
        bounds (-inf, 0), which say nothing.
        """
        law, lattice = self.law(tilt), self.lattice
        # First lattice point above epsilon by integer division: no point on the wrong side, whatever the rounding.
        z = (epsilon - lattice.offset) // lattice.step + 1  # first lattice point above, exactly
        point = lattice.offset + z * lattice.step
        begin = max(z, law.first)
        weights = law.weights[begin - law.first :]
        # Distances in lattice steps, exact until the one multiplication by the step.
        distance = float(lattice.step) * np.arange(begin - z, begin - z + weights.size, dtype=np.float64)
        gap = float(point - epsilon)
        unknown = Bounds(-math.inf, 0.0)
        # Q(L > epsilon) is E[exp(-L)] above it, so one tilt more: its scale is at (s + 1) l.
        s = float(tilt)
        second_scale = certified_log_moment(self.factors, tilt, (tilt + 1) * point)
        damped = np.exp(-(s + 1) * distance)
        second = _summed(second_scale, weights, damped, (s + 1) * distance, law)
        if tilt < 0:
            return unknown, second, unknown
        scale = certified_log_moment(self.factors, tilt, tilt * point)
        growth = np.exp(-s * distance) if s else np.ones_like(distance)
        first = _summed(scale, weights, growth, s * distance, law)
        # 1 - exp(-(gap + d)) by expm1: near epsilon the factor is tiny and would cancel.
        delta = _summed(scale, weights, growth * -np.expm1(-(gap + distance)), s * distance, law)
        return first, second, delta

    def _tilted(self, tilt: Fraction) -> TiltedLaw:
        first, count = self._points(tilt)
        if count > 2 * MAX_LENGTH:
            raise SolverError(
                f"the tilted loss spreads over {count} lattice points, more than can be worked on. Ask for another "
                "engine, or account for noise that protects nobody apart from the rest."
            )
        # Exactly the count, rounded up to a length of small primes, which the FFT's error bound needs.
        length = smooth_length(count)
        weights, entry_error = self._inverted(tilt, length, first)
        weights = weights[:count]
        weights.flags.writeable = False
        return TiltedLaw(tilt, first, weights, entry_error, 2 * math.exp(-OUTSIDE))

    def _points(self, tilt: Fraction) -> tuple[int, int]:
        """The first lattice point and the number of them that hold all but a little of a tilted law."""
        low, high = window(self.factors, float(tilt))
        step, offset = self.lattice.step, self.lattice.offset
        first = math.floor((Fraction(low) - offset) / step)
        return first, math.ceil((Fraction(high) - offset) / step) - first + 1

    def _is_too_wide(self, tilt: Fraction) -> bool:
        return tilt not in self._laws and self._points(tilt)[1] > 2 * MAX_LENGTH

    def _inverted(self, tilt: Fraction, length: int, first: int) -> tuple[Floats, float]:
        # The transform of a sum is a product, so errors add up relatively: size and off are carried along.
        """Weights on the cyclic lattice, rolled so that point `first` comes first, and each one's error."""
        frequencies = self._frequencies(length)
        product = np.ones(frequencies.size, dtype=np.complex128)
        size, off = np.ones(frequencies.size), np.zeros(frequencies.size)
        start = 0
        for factor, weight in zip(self.factors, self.lattice.weights, strict=True):
            if is_wide(factor):
                assert isinstance(factor, GaussianLoss)
                # Phases reduced in integers, so that no angle is larger than pi.
                phases = _phases(weight, frequencies, length)
                values, error = wide_power(factor, tilt, phases)
                start += factor.multiplicity * weight * origin(factor, tilt)
            else:
                law = atoms(factor, tilt)
                values, error = listed_power(law, factor.multiplicity, weight, length, frequencies)
                start += factor.multiplicity * weight * law.start
            moduli = np.abs(values)
            # |a b| <= |a| e_b + e_a (|b| + e_b): one line for both, and 8 UNIT for the product itself.
            off = size * error + off * (moduli + error) + 8 * UNIT * size * moduli
            size = size * moduli
            product = product * values
        from scipy import fft  # here, since most compositions need no transform and the import takes long

        spectrum = np.zeros(length // 2 + 1, dtype=np.complex128)
        spectrum[frequencies] = np.conj(product)
        weights = fft.irfft(spectrum, length, workers=1)
        # Half the spectrum stands for both halves, hence 2 / N; what was left out is bounded, not computed.
        # Interior frequencies count twice; the ones left out are below exp(-60) each.
        total_off = 2 * float(off.sum()) / length + 2 * math.exp(-NEGLIGIBLE)
        rounding = fft_error(length) * 2 * float(size.sum()) / length
        return np.roll(weights, (start - first) % length), 1.001 * (total_off + rounding)

    def _frequencies(self, length: int) -> Integers:
        """Frequencies at which the product of the wide factors' transforms is not negligible."""
        if length not in self._significant:
            # One factor after the other, the strongest decay first: frequencies drop out before the others are
            # computed.
            frequencies = np.arange(length // 2 + 1, dtype=np.int64)
            exponents = np.zeros(frequencies.size)
            pairs = zip(self.factors, self.lattice.weights, strict=True)
            wide = [(f, w) for f, w in pairs if isinstance(f, GaussianLoss) and is_wide(f)]
            for factor, weight in sorted(wide, key=lambda pair: -pair[0].multiplicity * pair[0].variance):
                phases = _phases(weight, frequencies, length)
                # Within pi / 2 the bracket of `wide_power` is below 1 + 1e-8, and below 2.1 elsewhere.
                bracket = factor.multiplicity * np.where(np.abs(phases) < math.pi / 2, 1e-8, math.log(2.1))
                exponents = exponents + wide_exponents(factor, phases) - bracket
                # A factor further on cannot raise the product: its modulus is at most 1.
                heavy = exponents * (1 - 1e-12) < NEGLIGIBLE
                frequencies, exponents = frequencies[heavy], exponents[heavy]
            self._significant = {length: frequencies, **dict(list(self._significant.items())[:_CACHED])}
        return self._significant[length]


def _is_wide(tails: Tails) -> bool:
    return tails.log_delta.width > _WIDE or tails.log_second.width > _WIDE


def smooth_length(count: int) -> int:
    """The least even length of at least `count` points that has no prime factors but 2, 3 and 5.

    The bound on the transform's error holds for steps of these factors (docs/proofs/accounting-rounding.md).
    """
    best = 2
    while best < count:
        best *= 2
    # All products of 2, 3 and 5 above the count: three nested loops, as there are few of them.
    five = 2
    while five < best:
        three = five
        while three < best:
            length = three
            while length < count:
                length *= 2
            best = min(best, length)
            three *= 3
        five *= 5
    return best


def _phases(weight: int, frequencies: Integers, length: int) -> Floats:
    return (2 * math.pi / length) * centred((weight % length) * frequencies, length)


def _summed(scale: Bounds, weights: Floats, values: Floats, exponents: Floats, law: TiltedLaw) -> Bounds:
    """ln of exp(scale) * sum of weights * values, where values <= 1 and decrease by exp(-exponents)."""
    terms = weights * values
    total = float(terms.sum())
    # Values: exponents off by 4 u of themselves, exp and expm1 by 4 u each; sums in blocks by 60 u.
    rounding = UNIT * float((np.abs(terms) * (4 * exponents + 80)).sum())
    error = law.entry_error * float(values.sum()) + 4 * law.outside + rounding
    return log_of(scale, total, 1.01 * error)
