"""The moments of a loss, the tilt that moves its mean to an epsilon, and the largest value that it can have.

K(s) = ln E exp(s L) is the logarithm of the moment of the loss L. The law tilted by s has the density exp(s L - K(s))
with respect to that of L, the mean K'(s) and the variance K''(s). Tilts are computed in floats; no bound rests on how
near the mean is to the epsilon.

The variables: s tilt, v variance, t scale, k sensitivity, n multiplicity, W the Gaussian losses' offset, half of their
variance. A discrete Gaussian loss has K(s) = s (s + 1) k^2 / (2 v) + ln(S(s k) / S(0)), where S(m) is the sum over
integers x of exp(-(x - m)^2 / (2 v)). S has period 1 and is largest at 0. By Poisson's summation formula S(m) / S(0)
differs from 1 by less than 5 exp(-2 pi^2 v) if v >= 1/4. A discrete Laplace loss is a geometric sum, and
randomized response has three terms. A normal loss has K(s) = s (s + 1) mu^2 / 2. A loss of real Laplace noise has K(s)
= ln(cosh a + (epsilon / 2) sinh(a) / a) - epsilon / 2 with a = (s + 1/2) epsilon.

Example: with k = 1, v = 2 and s = 1, K(1) = 1/2 exactly, because S(1) = S(0).
"""

import math
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from flint import arb

from tallyveil.accounting.engines.sampled import kinds_of, log_moment_of_sample, moments_of_sample
from tallyveil.accounting.engines.tails import float_bounds, fraction_bounds
from tallyveil.accounting.losses import (
    AnyLoss,
    Base,
    ChoiceLoss,
    ExponentialLoss,
    FailureLoss,
    GaussianLoss,
    LaplaceLoss,
    Law,
    LossFactor,
    LossLattice,
    NormalLoss,
    ResponseLoss,
    SampleBase,
    SampledLoss,
    SelectedLoss,
    mirrored,
)
from tallyveil.accounting.numbers import Bounds, as_float
from tallyveil.arrays import Floats
from tallyveil.noise.balls import between_zero_and, precision, rational

WIDE_VARIANCE = 2
"""From this variance on, the quotient S(m) / S(0) is taken as 1, within the bound 5 exp(-2 pi^2 2) < 4e-17."""

_BITS = 192
"""Bits of ball arithmetic, and of theta sums: terms below 2^-192 of the largest are bounded, not added. A float keeps
53, so that half as many would do for values far below 2^40."""


def certified_log_moment(factors: tuple[Base | SampledLoss, ...], tilt: Fraction, less: Fraction) -> Bounds:
    """K(tilt) - less, from both sides. Its exponential turns sums over the tilted law into true probabilities."""
    with precision(_BITS):
        total = rational(-less)
        for factor in factors:
            total += factor.multiplicity * _log_moment_ball(factor, tilt)
        return float_bounds(total)


def _log_moment_ball(factor: Base | SampledLoss, tilt: Fraction) -> arb:
    match factor:
        case SampledLoss():
            return log_moment_of_sample(factor, tilt)
        case GaussianLoss():
            return rational(tilt * (tilt + 1) * factor.offset) + _theta_quotient(factor, tilt)
        case NormalLoss(mu_squared):
            return rational(tilt * (tilt + 1) * mu_squared / 2)
        case LaplaceLoss():
            return _laplace_log_moment(factor, tilt)
        case ResponseLoss(epsilon, options):
            masses = rational((1 + tilt) * epsilon).exp() + (options - 2) + rational(-tilt * epsilon).exp()
            return (masses / (rational(epsilon).exp() + (options - 1))).log()
        case ExponentialLoss(epsilon):
            bent = rational((tilt + Fraction(1, 2)) * epsilon)
            between = bent.sinh() / bent if bent != 0 else arb(1)
            return (bent.cosh() + rational(epsilon / 2) * between).log() - rational(epsilon / 2)


def log_moment(factor: Base | SampledLoss, tilt: float) -> float:
    """K of one answer in floats, without a certificate; the error is about 1e-14 of the largest term."""
    match factor:
        case SampledLoss():
            return moments_of_sample(factor, tilt)[0]
        case GaussianLoss():
            return tilt * (tilt + 1) * factor.offset_float + _log_theta(factor, tilt)
        case NormalLoss(mu_squared):
            return tilt * (tilt + 1) * float(mu_squared) / 2
        case ExponentialLoss(epsilon):
            bent = abs(tilt + 0.5) * float(epsilon)
            cosh, sinh, _, _ = _hyperbolic(bent)
            return bent - float(epsilon) / 2 + math.log(cosh + float(epsilon) / 2 * sinh)
        case ResponseLoss(epsilon, options):
            exponents, _ = _response_atoms(factor, tilt)
            highest = float(exponents.max())
            whole = np.logaddexp(float(epsilon), math.log(options - 1))
            return highest + math.log(float(np.exp(exponents - highest).sum())) - float(whole)
        case LaplaceLoss():
            return _laplace_log_moment_float(factor, tilt)


def _response_atoms(factor: ResponseLoss, tilt: float) -> tuple[Floats, Floats]:
    """Logarithms of the tilted weights of the losses -epsilon, 0 and epsilon, and these losses."""
    epsilon = float(factor.epsilon)
    exponents = np.array([-tilt * epsilon, math.log(factor.options - 2), (1 + tilt) * epsilon])
    return exponents, np.array([-epsilon, 0.0, epsilon])


def _hyperbolic(a: float) -> tuple[float, float, float, float]:
    """exp(-a) times cosh a, sinh(a) / a and the first two derivatives of the latter, a >= 0."""
    cosh, sinh = (1 + math.exp(-2 * a)) / 2, -math.expm1(-2 * a) / 2
    # Below 1e-3 the quotients would cancel; the next terms of these series are below 1e-12.
    if a < 1e-3:
        scale = math.exp(-a)
        return cosh, scale * (1 + a * a / 6), scale * a * (1 / 3 + a * a / 30), scale * (1 / 3 + a * a / 10)
    first = (cosh - sinh / a) / a
    return cosh, sinh / a, first, (sinh - 2 * first) / a


def _laplace_log_moment_float(factor: LaplaceLoss, tilt: float) -> float:
    rate, k = 1 / float(factor.scale), factor.sensitivity
    bent = -(1 + 2 * tilt) * rate  # logarithm of the ratio of the geometric sum
    middle = _log_geometric(bent, k - 1) + math.log(-math.expm1(-rate)) if k > 1 else -math.inf
    terms = (0.0, middle, k * bent)
    # Relative to the largest term, so that no exponential overflows.
    largest = max(terms)
    total = sum(math.exp(term - largest) for term in terms)
    return tilt * k * rate + largest + math.log(total) - math.log1p(math.exp(-rate))


def moments(factor: Base | SampledLoss, tilt: float) -> tuple[float, float]:
    """Mean and variance of one loss under the law tilted by exp(tilt L), in floats, without a certificate."""
    if isinstance(factor, SampledLoss):
        return moments_of_sample(factor, tilt)[1:]
    if isinstance(factor, NormalLoss):
        return (0.5 + tilt) * float(factor.mu_squared), float(factor.mu_squared)
    if isinstance(factor, ExponentialLoss):
        return _exponential_moments(float(factor.epsilon), tilt)
    if isinstance(factor, ResponseLoss):
        exponents, losses = _response_atoms(factor, tilt)
        weights = np.exp(exponents - exponents.max())
        weights /= weights.sum()
        mean = float(weights @ losses)
        return mean, float(weights @ (losses - mean) ** 2)
    if isinstance(factor, GaussianLoss):
        step = float(factor.step)
        if factor.variance >= WIDE_VARIANCE:
            return (1 + 2 * tilt) * factor.offset_float, 2 * factor.offset_float
        x, weights = _narrow_gaussian(factor, tilt)
        x = x + round(tilt * factor.sensitivity)
        offset = factor.offset_float
    else:
        step, offset = float(factor.step), factor.offset_float
        rate, k = 1 / float(factor.scale), factor.sensitivity
        x, weights = _laplace_atoms(rate, k, tilt)
    mean = float(x @ weights)
    return offset + step * mean, step * step * float((x - mean) ** 2 @ weights)


def _exponential_moments(epsilon: float, tilt: float) -> tuple[float, float]:
    bent = abs(tilt + 0.5) * epsilon
    cosh, over, first, second = _hyperbolic(bent)
    size = cosh + epsilon / 2 * over
    slope = (bent * over + epsilon / 2 * first) / size
    # Even in a, so that the mean is odd in it.
    mean = math.copysign(epsilon * slope, tilt + 0.5)
    return mean, epsilon * epsilon * max((cosh + epsilon / 2 * second) / size - slope * slope, 0.0)


def _narrow_gaussian(factor: GaussianLoss, tilt: float) -> tuple[Floats, Floats]:
    v, centre = float(factor.variance), tilt * factor.sensitivity
    reach = math.ceil(math.sqrt(90 * v)) + 1
    x = np.arange(-reach, reach + 1, dtype=np.float64)
    # Up to here terms are above exp(-45) of the largest: what is cut off is below a float's last digit.
    exponents = -((x - (centre - round(centre))) ** 2) / (2 * v)
    weights = np.exp(exponents - exponents.max())
    return x, weights / weights.sum()


def _laplace_atoms(rate: float, k: int, tilt: float) -> tuple[Floats, Floats]:
    bent = -(1 + 2 * tilt) * rate
    # The caller needs a guess only. Of very many atoms, it gets the ends and a sample of those in between.
    j = np.unique(np.linspace(0, k, min(k, 4096) + 1).round())
    exponents = j * bent
    exponents[1:-1] += math.log(-math.expm1(-rate))
    weights = np.exp(exponents - exponents.max())
    return k - j, weights / weights.sum()


def _log_theta(factor: GaussianLoss, tilt: float) -> float:
    if factor.variance >= WIDE_VARIANCE:
        return 0.0
    v, centre = float(factor.variance), tilt * factor.sensitivity
    part = abs(centre - round(centre))
    reach = math.ceil(math.sqrt(90 * v)) + 1
    x = np.arange(-reach, reach + 1, dtype=np.float64)
    # S has period 1, so the distance to the nearest integer is all that counts.
    at_centre = -((x - part) ** 2) / (2 * v)
    largest = at_centre.max()
    return float(
        largest + math.log(np.exp(at_centre - largest).sum()) - math.log(np.exp(-x * x / (2 * v)).sum())
    )


def _log_geometric(exponent: float, count: int) -> float:
    """ln of sum over j in 1..count of exp(j * exponent)."""
    # The next term of the series, (exponent * count)^2 / 24, is below 1e-17; the quotient would be 0 / 0.
    if abs(exponent) * count < 1e-8:
        return math.log(count) + exponent * (count + 1) / 2
    top = max(exponent, exponent * count)
    return top + math.log(math.expm1(-abs(exponent) * count) / math.expm1(-abs(exponent)))


def _theta_quotient(factor: GaussianLoss, tilt: Fraction) -> arb:
    """ln(S(tilt k) / S(0)) as a ball."""
    centre = tilt * factor.sensitivity
    part = abs(centre - round(centre))
    if part == 0:
        return arb(0)
    if factor.variance >= WIDE_VARIANCE:
        # A smaller variance gives a larger bound, so capping it is safe. The quotient is at most 1.
        bound = -5 * (-2 * arb.pi() ** 2 * rational(min(factor.variance, Fraction(10**4)))).exp()
        return between_zero_and(bound)
    return (_theta(factor.variance, part) / _theta(factor.variance, Fraction(0))).log()


def _theta(variance: Fraction, part: Fraction) -> arb:
    """S(part) for 0 <= part <= 1/2. A geometric series bounds the terms that are left out."""
    slope = rational(-1 / (2 * variance))
    reach = math.ceil(math.sqrt(2 * float(variance) * _BITS * math.log(2))) + 2
    total = arb(0)
    for x in range(-reach, reach + 1):
        total += (slope * rational((x - part) ** 2)).exp()
    # Beyond the reach, on either side, each term is below the one before by more than exp(-reach / v).
    first = (slope * rational((reach + 1 - part) ** 2)).exp()
    rest = 2 * first / (1 - rational(-reach / variance).exp())
    return total + between_zero_and(rest)


def _laplace_log_moment(factor: LaplaceLoss, tilt: Fraction) -> arb:
    k, rate = factor.sensitivity, 1 / factor.scale
    bent = -(1 + 2 * tilt) * rate
    a, last = rational(-rate).exp(), rational(k * bent).exp()
    # At a tilt of -1/2 all terms are equal, and the quotient below would be 0 / 0.
    if bent == 0:
        middle = arb(k - 1)
    else:
        b = rational(bent).exp()
        middle = b * rational((k - 1) * bent).expm1() / rational(bent).expm1()
    total = (1 - rational(-rate).expm1() * middle + last) / (1 + a)
    return rational(tilt * k * rate) + total.log()


def greatest_loss(factors: tuple[LossFactor, ...]) -> Fraction | None:
    """The largest possible loss: None if a Gaussian factor leaves it unbounded, 0 without any factor."""
    if not all(isinstance(factor, LaplaceLoss) for factor in factors):
        return None
    # The values of a Laplace loss lie symmetrically about 0, and the offset is the smallest.
    return -sum((factor.multiplicity * factor.offset for factor in factors), Fraction(0))


@lru_cache(maxsize=256)  # a selection asks for both directions of its run, twice as many with each level
def greatest_bounds(law: Law) -> Bounds:
    """The largest loss that a composition can have but for failures: infinite if there is none."""
    exact, sampled = Fraction(0), [Bounds(0.0, 0.0)]
    for loss in law:
        match loss:
            case LaplaceLoss():
                exact -= loss.multiplicity * loss.offset
            case ExponentialLoss() | ResponseLoss():
                exact += loss.multiplicity * loss.epsilon
            case SampledLoss() | SelectedLoss():
                bounds = (
                    _greatest_of_sample(loss)
                    if isinstance(loss, SampledLoss)
                    else _greatest_of_selection(loss)
                )
                sampled.append(Bounds(bounds.lower * loss.multiplicity, bounds.upper * loss.multiplicity))
            case FailureLoss():
                pass
            case _:
                return Bounds(math.inf, math.inf)
    if len(sampled) == 1:
        return fraction_bounds(exact)
    ends = [fraction_bounds(exact), *sampled]
    # One rounding for the sum; the factor below covers it and the products with multiplicities.
    lower, upper = math.fsum(bounds.lower for bounds in ends), math.fsum(bounds.upper for bounds in ends)
    return Bounds(lower * (1 - 1e-15), upper * (1 + 1e-15))


def _greatest_of_selection(loss: SelectedLoss) -> Bounds:
    """That of one run, and what the order of the results adds (docs/proofs/real-noise.md, section 12)."""
    run, back = greatest_bounds(loss.base), greatest_bounds(mirrored(loss.base)).upper
    if loss.eta is None:
        # Total variation from the largest losses of both directions, which differ for a sample. The quotient comes
        # first: it is at most 1 and does not vanish where both are tiny.
        there, and_back, both = -math.expm1(-run.upper), -math.expm1(-back), -math.expm1(-run.upper - back)
        variation = there * (and_back / both) if both > 0 else 0.0
        return Bounds(0.0, run.upper + as_float(loss.parameter) * variation * (1 + 1e-14))
    return Bounds(run.lower, run.upper + as_float(1 + loss.eta) * back * (1 + 1e-15))


def _greatest_of_sample(loss: SampledLoss) -> Bounds:
    """ln(1 - q + q exp(b)), or -ln(1 - q + q exp(-b)) for an added record, at the largest b."""
    if isinstance(loss.base, ChoiceLoss):
        kinds = [_greatest_of_sample(part) for _, part in kinds_of(loss)]
        return Bounds(max(kind.lower for kind in kinds), max(kind.upper for kind in kinds))
    most = _largest_base(loss.base)
    # A removed record may have been in the sample, whose loss has no end then.
    if most is None and not loss.added:
        return Bounds(math.inf, math.inf)
    # Only a mixture without a part that stays has q = 1, and its loss has no end on either side.
    if loss.probability == 1:
        return Bounds(math.inf, math.inf)
    with precision(256):
        q, rest = rational(loss.probability), rational(1 - loss.probability)
        # With b without bound, or a failure, exp(-b) falls to 0: only ln(1 - q) is left.
        if loss.added and (loss.failure or most is None):
            return float_bounds(-rest.log())
        assert most is not None
        grown = (rest + q * rational(-most if loss.added else most).exp()).log()
        return float_bounds(-grown if loss.added else grown)


def log_chance_of_greatest(law: Law) -> float:
    """A lower bound of the logarithm of the probability of the largest loss; -inf where none is known."""
    with precision(_BITS):
        chances = [(loss.multiplicity, _chance_of_greatest(loss)) for loss in law]
        known = [(n, chance) for n, chance in chances if chance is not None]
        if len(known) < len(chances):
            return -math.inf
        return float_bounds(sum((n * chance.log() for n, chance in known), arb(0))).lower


def _chance_of_greatest(loss: AnyLoss | Base) -> arb | None:
    match loss:
        case LaplaceLoss():
            return 1 / (1 + rational(-1 / loss.scale).exp())
        case ExponentialLoss():
            return arb(0.5)
        case ResponseLoss():
            odds = rational(loss.epsilon).exp()
            return odds / (odds + (loss.options - 1))
        case SampledLoss(LaplaceLoss() | ExponentialLoss() | ResponseLoss() as base, q, failure=0):
            chance = _chance_of_greatest(base)
            most = _largest_base(base)
            assert chance is not None
            assert most is not None
            # If the record was added, the largest loss is that of the smallest b, whose probability under Q is this.
            return chance if loss.added else chance * (rational(q) + rational(1 - q) * rational(-most).exp())
        case _:
            return None


def _largest_base(base: SampleBase | None) -> Fraction | None:
    """The largest loss on the sample, None if there is no largest one."""
    match base:
        case LaplaceLoss():
            return -base.offset
        case ExponentialLoss() | ResponseLoss():
            return base.epsilon
        case None:
            return Fraction(0)
        case _:
            return None


OUTSIDE: Final = 50.0
"""Minus the logarithm of the mass left outside a window on either side."""


def tilt_grid(factors: tuple[LossFactor, ...], epsilon: float, coarseness: float = 0.25) -> Fraction:
    """Tilt whose mean is near epsilon, rounded to a grid, so that neighbouring epsilons share one tilt.

    Args:
        factors: The losses added up.
        epsilon: Wanted mean.
        coarseness: Spacing of the grid: by how many standard deviations the mean moves from one tilt to the next.
    """
    tilt, spread = saddle_point(factors, epsilon)
    # A power of two: the tilt is then an exact fraction of few bits, which later products of fractions need. A quarter
    # of a standard deviation costs the sums nothing that shows and lets many epsilons share one law; twice of it halves
    # the laws, and the largest terms move away from epsilon.
    grid = 2.0 ** math.floor(math.log2(coarseness / spread)) if spread > 0 else 2.0**-20
    return Fraction(round(tilt / grid)) * Fraction(grid)


def saddle_point(factors: tuple[LossFactor, ...], epsilon: float) -> tuple[float, float]:
    """Tilt whose mean loss is about epsilon, and the standard deviation there; floats, without a certificate.

    Newton's method; a step that leaves the bracket is replaced by the middle of the bracket. It stops when the mean is
    within 0.05 standard deviations of epsilon, when the tilt exceeds 1e12, or after 80 steps.
    """
    low, high, tilt = -math.inf, math.inf, 0.0
    mean, variance = _total_moments(factors, tilt)
    # 80 halvings bring any bracket of size 1e12 down to 1e-12. Whatever tilt is reached is used: no bound depends on
    # it.
    for _ in range(80):
        if mean < epsilon:
            low = tilt
        else:
            high = tilt
        # Twentieth of a deviation: no bound depends on it, see above.
        if abs(mean - epsilon) <= 0.05 * math.sqrt(variance):
            break
        step = (epsilon - mean) / variance if variance > 0 else math.copysign(math.inf, epsilon - mean)
        # A Newton step may leap where nearly all mass sits on one atom and the variance is tiny.
        reach = 4 * (abs(tilt) + 1)
        wanted = tilt + min(max(step, -reach), reach)
        if not low < wanted < high:
            wanted = (low + high) / 2
        if wanted == tilt or abs(wanted) > 1e12:
            # Beyond 1e12 the wanted mean is the greatest loss, or past it: no tilt reaches it.
            break
        tilt = wanted
        mean, variance = _total_moments(factors, tilt)
    return tilt, math.sqrt(variance)


def window(factors: tuple[LossFactor, ...], tilt: float, outside: float = OUTSIDE) -> tuple[float, float]:
    """Losses outside of which the tilted law has mass at most exp(-outside) on either side.

    By Chernoff's bound P_s(L >= x) <= exp(K(s + t) - K(s) - t x) for every t > 0. So every t gives a valid end, and the
    nearest end of a few t is used. K is computed in floats; a bound on its error is added to the exponent.
    """
    # exp(-50) on either side is below the rounding of the transforms, so that what a window leaves out never decides.
    _, variance = _total_moments(factors, tilt)
    # Where nearly all mass sits on one atom the variance is tiny and says nothing about the next ones.
    untilted = sum(factor.multiplicity * abs(float(factor.step * factor.offset)) for factor in factors)
    natural = [math.sqrt(2 * outside / spread) for spread in (variance, 2 * untilted) if spread > 0]
    here, noise = _total_log_moment(factors, tilt)
    ends = []
    for side in (-1, 1):
        best = math.inf
        # Three values around the best one for a normal loss, for which sqrt(2 outside / variance) is the minimum.
        for t in (scale * multiple for scale in natural for multiple in (0.5, 1.0, 2.0)):
            there, more = _total_log_moment(factors, tilt + side * t)
            best = min(best, (there - here + outside + noise + more) / t)
        ends.append(side * best)
    # A bounded loss needs no points beyond its greatest one, however heavy the bound above is.
    most = greatest_loss(factors)
    if most is not None:
        # Rounded outwards: the exact bound must lie within the window.
        bound = float(most) * (1 + 1e-12)
        ends = [max(ends[0], -bound), min(ends[1], bound)]
    return ends[0], ends[1]


def estimated_length(factors: tuple[LossFactor, ...], lattice: LossLattice) -> float:
    """About how many lattice points the window holds without a tilt."""
    low, high = window(factors, 0.0)
    step = float(lattice.step)
    return (high - low) / step + 1 if step > 0 else math.inf


def _total_moments(factors: tuple[LossFactor, ...], tilt: float) -> tuple[float, float]:
    pairs = [(factor.multiplicity, *moments(factor, tilt)) for factor in factors]
    return sum(n * mean for n, mean, _ in pairs), sum(n * variance for n, _, variance in pairs)


def _total_log_moment(factors: tuple[LossFactor, ...], tilt: float) -> tuple[float, float]:
    """K(tilt) and a bound on its error, both in floats."""
    values = [factor.multiplicity * log_moment(factor, tilt) for factor in factors]
    largest = [
        factor.multiplicity * (tilt * tilt + abs(tilt) + 1) * (1 + abs(factor.offset_float))
        for factor in factors
    ]
    # Errors of log_moment grow with tilt^2 and with the offset; 1e-13 is some 450 units in the last place of that. It
    # enters the exponent of Chernoff's bound, so that a window in floats is still a proved one.
    return sum(values), 1e-13 * sum(largest)
