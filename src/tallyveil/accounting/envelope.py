"""The smallest mu whose Gaussian trade-off function lies below that of a composition: one number for the guarantee.

The problem: find the smallest mu such that G_mu, the trade-off function of N(0, 1) against N(mu, 1), is nowhere above
the trade-off function of the composition.

The variables: alpha and beta, the errors of the test that rejects above a loss l; such a pair is a *knot*; z(p), the
upper normal quantile; rho, the zCDP cost.

Up to an epsilon E, look at every knot: G_mu lies below the knots exactly if mu >= z(alpha) + z(beta) at each. For
epsilon in [l_j, l_(j+1)), delta is 1 - beta_j - exp(epsilon) alpha_j, so the knots up to E decide every epsilon up to
E. Knots below minus the largest step mirror those above 0.

Beyond E, use two bounds. Because K(s) <= s (s + 1) rho, delta(eps) is at most exp(-(eps - rho)^2 / (4 rho)). With a =
eps / mu - mu / 2 and b = a + mu, the Gaussian delta is phi(a) (R(a) - R(b)) >= phi(a) mu / (b^2 + 3). R is Mills'
ratio; its derivative is at most -1 / (x^2 + 3) for x > 0, by the third convergent of its continued fraction. The
difference of the logarithms is

    eps^2 (1 / (4 rho) - 1 / (2 mu^2)) + rho / 4 - mu^2 / 8 + ln mu - ln sqrt(2 pi) - ln(b^2 + 3).

It grows with eps once eps^2 (1 / (4 rho) - 1 / (2 mu^2)) >= 1. So if it is positive at E, it is positive from there
on.

The stopping rule: E grows by about two standard deviations at a time, until mu at the knots also covers everything
beyond E, or after 120 steps.
"""

import math
from fractions import Fraction

import numpy as np

from tallyveil.accounting.bounds import Bounds
from tallyveil.accounting.curves import zcdp_cost
from tallyveil.accounting.engines.loss_transform import UNIT
from tallyveil.accounting.engines.tilted_fft import MAX_LENGTH, TiltedFFT, TiltedLaw
from tallyveil.accounting.engines.tilts import estimated_length, tilt_grid
from tallyveil.accounting.losses.factors import LossFactor, lattice_of
from tallyveil.accounting.losses.largest_loss import greatest_loss
from tallyveil.accounting.losses.moments import certified_log_moment
from tallyveil.arrays import Floats

_STRETCHES = 120  # of two standard deviations each, over which every knot is looked at
_FEW = 8  # knots in a stretch up to which each is evaluated by itself
_STEEPEST = 500  # logarithm of the fall over one stretch that floats can hold
_MOST_POINTS = 1 << 24  # lattice points of all stretches' laws together: about two seconds
# Width of a mu above which its knot is evaluated by itself, as in gaps between atoms. Both ways are certified.
_WIDE = 1e-6
_MOST_SINGLE = 64  # knots of one stretch with wide bounds that are looked at again
_QUANTILE_ERROR = 1e-12  # relative, of the normal quantile function


def gaussian_envelope(factors: tuple[LossFactor, ...]) -> Bounds:
    """The smallest mu with G_mu nowhere above the composition's trade-off function.

    If the lattice of the losses is too fine for one FFT, the upper end is infinite and the lower end is 0;
    `profile_envelope` then finds more.
    """
    if not factors:
        return Bounds(0.0, 0.0)
    lattice = lattice_of(factors)
    if estimated_length(factors, lattice) > MAX_LENGTH:
        return Bounds(0.0, math.inf)
    engine = TiltedFFT(factors)
    rho = zcdp_cost(factors)
    stretch = max(Fraction(2 * math.sqrt(2 * rho)), 2 * lattice.step)
    most = greatest_loss(factors)
    # Knots further to the left mirror those to the right, by the symmetry of the loss.
    begin = -max(lattice.step * weight for weight in lattice.weights)
    lower = upper = 0.0
    budget = _MOST_POINTS
    for _ in range(_STRETCHES):
        # Tilts grow with the loss: a stretch is cut short where floats could not hold its fall.
        tilt = max(tilt_grid(engine.factors, float(begin + stretch)), Fraction(0))
        length = max(min(stretch, _STEEPEST / (tilt + 1)), 2 * lattice.step)
        bounds = _over(engine, begin, begin + length, most)
        lower, upper = max(lower, bounds.lower), max(upper, bounds.upper)
        begin += length
        # Each stretch has a law of about this size, and all of them together take the time.
        budget -= engine.law(Fraction(0)).weights.size
        if budget < 0:
            break
        if most is not None and begin >= most:
            return Bounds(lower, upper)
        if beyond(rho, float(begin)) <= upper:
            break
    return Bounds(lower, max(upper, beyond(rho, float(begin)), lower))


def _over(engine: TiltedFFT, begin: Fraction, end: Fraction, most: Fraction | None) -> Bounds:
    """The largest mu of the knots with begin <= l < end."""
    step, offset = engine.lattice.step, engine.lattice.offset
    first = math.ceil((begin - offset) / step)
    last = math.ceil((end - offset) / step)
    if most is not None:
        last = min(last, math.ceil((most - offset) / step))  # at the greatest loss alpha is 0
    if last <= first:
        return Bounds(0.0, 0.0)
    tilt = max(tilt_grid(engine.factors, float(offset + step * ((first + last) // 2))), Fraction(-1, 2))
    if last - first <= _FEW:
        return _one_by_one(engine, first, last)
    law, s = engine.law(tilt), float(tilt)
    begin_at = max(first - law.first, 0)
    count = min(last - law.first, law.weights.size) - begin_at
    if count <= 0:
        return Bounds(0.0, math.inf)
    first = law.first + begin_at
    distance = float(step) * np.arange(law.weights.size - begin_at)
    start = offset + step * first

    def beyond(rate: float) -> tuple[Floats, Floats]:
        return _sums(law.weights[begin_at:], np.exp(-rate * distance), law)

    log_alpha = _logs(engine, tilt, (tilt + 1) * start, beyond(s + 1), slice(0, count))
    lower, upper = _quantile(log_alpha[1], -1), _quantile(log_alpha[0], 1)
    if tilt >= 0:
        power = _logs(engine, tilt, tilt * start, beyond(s), slice(0, count))
        return _checked(engine, first, lower - _quantile(power[0], 1), upper - _quantile(power[1], -1))
    # P(L <= l), counted down from the point after the last knot, so that a place's own mass is included.
    stop = begin_at + count + 1
    turned = np.append(law.weights, 0.0)[:stop][::-1]
    sums = _sums(turned, np.exp(s * float(step) * np.arange(turned.size)), law)
    below = (sums[0][:count][::-1], sums[1][:count][::-1])
    log_beta = _logs(engine, tilt, tilt * (start + count * step), below, slice(0, count))
    return _checked(engine, first, lower + _quantile(log_beta[1], -1), upper + _quantile(log_beta[0], 1))


def _one_by_one(engine: TiltedFFT, first: int, last: int) -> Bounds:
    """The same, for a few lattice points from `first` to before `last`."""
    step, offset = engine.lattice.step, engine.lattice.offset
    lower = upper = 0.0
    for index in range(first, last):
        loss = offset + index * step
        tails = engine.log_tails(loss)
        alpha, power = tails.log_second, tails.log_first
        low, high = _ends(alpha.upper, -1), _ends(alpha.lower, 1)
        if loss < 0:
            beta = engine.log_tails(-loss - step / 2).log_second
            low, high = low + _ends(beta.upper, -1), high + _ends(beta.lower, 1)
        else:
            low, high = low - _ends(power.lower, 1), high - _ends(power.upper, -1)
        lower, upper = max(lower, low), max(upper, high)
    return Bounds(lower, upper)


def _ends(logarithm: float, side: int) -> float:
    return float(_quantile(np.array([logarithm]), side)[0])


def _checked(engine: TiltedFFT, first: int, lower: Floats, upper: Floats) -> Bounds:
    """The largest of many knots, those with wide bounds (in gaps between atoms) evaluated by themselves."""
    wide = np.flatnonzero(~(upper - lower < _WIDE))
    if wide.size > _MOST_SINGLE:
        return Bounds(0.0, math.inf)
    single = [_one_by_one(engine, first + place, first + place + 1) for place in wide.tolist()]
    open_points = np.ones(upper.size, dtype=np.bool_)
    open_points[wide] = False
    least = max([0.0, float(np.max(lower[open_points], initial=0.0)), *(bounds.lower for bounds in single)])
    return Bounds(
        least,
        max([least, float(np.max(upper[open_points], initial=0.0)), *(bounds.upper for bounds in single)]),
    )


def _sums(weights: Floats, values: Floats, law: TiltedLaw) -> tuple[Floats, Floats]:
    """Sum of weights * values beyond each place, and a bound on its error; values fall from 1."""
    terms = np.append((weights * values)[1:], 0.0)[::-1]
    size = np.append(values[1:], 0.0)[::-1]
    total = np.cumsum(terms)[::-1]
    rounding = UNIT * (weights.size + 100) * np.cumsum(np.abs(terms))[::-1]
    return total, 1.01 * (law.entry_error * np.cumsum(size)[::-1] + 4 * law.outside * values + rounding)


def _logs(
    engine: TiltedFFT, tilt: Fraction, less: Fraction, sums: tuple[Floats, Floats], wanted: slice
) -> tuple[Floats, Floats]:
    """Both sides of the logarithms of sums at the places wanted."""
    scale = certified_log_moment(engine.factors, tilt, less)
    total, error = sums[0][wanted], sums[1][wanted]
    low, high = np.maximum(total - error, 0.0), np.maximum(total + error, 0.0)
    with np.errstate(divide="ignore"):
        lower, upper = np.log(low) + scale.lower, np.log(high) + scale.upper
    slack = 1e-15 * (2 + abs(scale.upper))
    return np.minimum(lower - slack, 0.0), np.minimum(upper + slack, 0.0)


def _quantile(logs: Floats, side: int) -> Floats:
    """Upper normal quantiles of probabilities given by logarithms, moved a little to one side."""
    from scipy.special import ndtri_exp  # here, since most users of guarantees do not ask for mu

    quantiles: Floats = -ndtri_exp(logs)
    return quantiles + side * _QUANTILE_ERROR * (1 + np.abs(np.where(np.isfinite(quantiles), quantiles, 0.0)))


def beyond(rho: float, end: float) -> float:
    """A mu that covers every epsilon from `end` on, near the smallest one the argument yields."""
    low = math.sqrt(2 * rho)
    high = next((mu for mu in (1.1 * low, 2 * low, 4 * low + 4) if _covers(rho, end, mu)), math.inf)
    if high == math.inf:
        return math.inf
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if _covers(rho, end, middle) else (middle, high)
    return high


def _covers(rho: float, end: float, mu: float) -> bool:
    curvature = 1 / (4 * rho) - 1 / (2 * mu * mu)
    grown = end * end * curvature
    if grown < 1 or end <= mu * mu:
        return False
    b = end / mu + mu / 2
    least = grown + rho / 4 - mu * mu / 8 + math.log(mu) - 0.5 * math.log(2 * math.pi) - math.log(b * b + 3)
    return least > 1e-9 * (1 + grown)
