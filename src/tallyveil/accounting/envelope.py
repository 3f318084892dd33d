"""The smallest mu whose Gaussian trade-off function lies below that of a composition: one number for a guarantee.

G_mu is the trade-off function of N(0, 1) against N(mu, 1), and delta_mu the privacy profile of the same test. Wanted
is the smallest mu such that G_mu is nowhere above the trade-off function of the composition; this holds exactly if
delta_mu(epsilon) >= delta(epsilon) for all epsilon >= 0.

`smallest_mu` chooses the way. Where the losses share a lattice, its points decide (`gaussian_envelope`); otherwise
the privacy profile alone does (`profile_envelope`). `beyond` is what both use for every epsilon above a last one.
`log_line` and `log_rest_of_line` bound tests between normal laws as lines in kappa = exp(epsilon), also where mu is
tiny or huge.

Throughout, rho is the zCDP cost, Phi and phi are the normal distribution function and density, and R = (1 - Phi) /
phi is Mills' ratio. Proof: docs/proofs/off-lattice.md.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Final

import numpy as np

from tallyveil.accounting.curves import search_cost, zcdp_cost
from tallyveil.accounting.engines.ball_tails import Normal
from tallyveil.accounting.engines.choose import first_asked
from tallyveil.accounting.engines.dithered import Dithered
from tallyveil.accounting.engines.enclosing import Between, WithFailure
from tallyveil.accounting.engines.loss_transform import UNIT
from tallyveil.accounting.engines.moments import (
    certified_log_moment,
    estimated_length,
    greatest_loss,
    tilt_grid,
)
from tallyveil.accounting.engines.tails import LossEngine, ManyBounds, fraction_bounds, log_rest
from tallyveil.accounting.engines.tilted_fft import MAX_LENGTH, TiltedFFT, TiltedLaw
from tallyveil.accounting.losses import (
    AnyLoss,
    Law,
    LossFactor,
    NormalLoss,
    SampledLoss,
    further,
    lattice_of,
    of_integers,
)
from tallyveil.accounting.numbers import Bounds
from tallyveil.arrays import Bools, Floats

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

    The variables: alpha and beta, the errors of the test that rejects above a loss l; such a pair is a *knot*;
    z(p), the upper normal quantile; rho, the zCDP cost.

    Up to an epsilon E, look at every knot: G_mu lies below the knots exactly if mu >= z(alpha) + z(beta) at each.
    For epsilon in [l_j, l_(j+1)), delta is 1 - beta_j - exp(epsilon) alpha_j, so the knots up to E decide every
    epsilon up to E. Knots below minus the largest step mirror those above 0.

    The stopping rule: E grows by about two standard deviations at a time, until mu at the knots also covers
    everything beyond E, or after 120 steps.

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
    """A mu that covers every epsilon from `end` on, near the smallest one the argument yields.

    Two bounds are used. Because K(s) <= s (s + 1) rho, delta(eps) is at most exp(-(eps - rho)^2 / (4 rho)).
    With a = eps / mu - mu / 2 and b = a + mu, the Gaussian delta is phi(a) (R(a) - R(b)) >= phi(a) mu / (b^2 +
    3). R is Mills' ratio; its derivative is at most -1 / (x^2 + 3) for x > 0, by the third convergent of its
    continued fraction. The difference of the logarithms is

        eps^2 (1 / (4 rho) - 1 / (2 mu^2)) + rho / 4 - mu^2 / 8 + ln mu - ln sqrt(2 pi) - ln(b^2 + 3).

    It grows with eps once eps^2 (1 / (4 rho) - 1 / (2 mu^2)) >= 1. So if it is positive at E, it is positive from
    there on.
    """
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


ERROR: Final = 1e-12
"""Relative error of scipy's erfcx and log_ndtr, of the platform's functions and of a few operations, with room."""

_TINY_MU: Final = 1e-3
"""Mu below which the difference of two Mills' ratios is bounded as an integral. At twice of it the two bounds are four
times as far apart, at half of it the subtraction loses one bit more."""
_LOG_ROOT_2_PI: Final = math.log(2 * math.pi) / 2  # of the normal density
_CENTRAL: Final = -1.0
"""y from which the line itself is looked at. Here it is at most Phi(1) = 0.84 and one minus it at least 0.16, so that
both forms keep their digits."""


def is_central(mu: float, best_at: Floats) -> Bools:
    """Where one minus the line is to be looked at instead of the line, because y < -1."""
    central: Bools = best_at / mu - mu / 2 < _CENTRAL
    return central


def log_line(mu: float, best_at: Floats, epsilons: Floats, side: int) -> Floats:
    """ln(Phi(a) - kappa Phi(a - mu)), rounded down or up; for y >= -1.

    The problem: for a test that rejects above a point, bound the value of the line Phi(a) - kappa Phi(a - mu),
    and of one minus it, in logarithms. For every a, the line is at most delta_mu(epsilon), the delta of the
    Gaussian test. At a = mu / 2 - epsilon / mu the two are equal.

    The variables: kappa = exp(epsilon); Phi and phi, the normal distribution function and density; R = (1 - Phi)
    / phi, Mills' ratio; e_0, the epsilon at which the test is best; y = e_0 / mu - mu / 2 = -a.

    Where y is -1 or more, kappa phi(a - mu) = exp(epsilon - e_0) phi(a), so that

        Phi(a) - kappa Phi(a - mu) = phi(y) [R(y) - R(y + mu) - (exp(epsilon - e_0) - 1) R(y + mu)].

    For a tiny mu, R(y) - R(y + mu) is the integral of r(t) = 1 - t R(t) over [y, y + mu]. The function r is
    falling and convex, because R(t) is the integral of exp(-t w - w^2 / 2) over w > 0. So the integral lies
    between mu r(y + mu / 2) and mu (r(y) + r(y + mu)) / 2, which differ by about mu^2 of themselves.

    Example: mu = 1e-15. Both probabilities then agree to fifteen digits, but R(y) - R(y + mu) is known to twelve.

    Args:
        mu: Above 0.
        best_at: At which epsilon the test of each line is best.
        epsilons: Where each line is evaluated.
        side: -1 to round down, 1 to round up.
    """
    y = np.maximum(best_at / mu - mu / 2, _CENTRAL)
    here, there = _mills(y), _mills(y + mu)
    if mu < _TINY_MU:
        # r is convex: its middle bounds the integral from below, and its ends bound it from above.
        points = (y + mu / 2,) if side < 0 else (y, y + mu)
        steps = [1 - t * _mills(t) for t in points]
        gap = mu * sum(steps[1:], steps[0]) / len(steps)
        error = mu * (2 + (np.abs(y) + mu) * here)
    else:
        gap, error = here - there, here + there
    moved = np.expm1(epsilons - best_at)
    # The point y is rounded, so that the test is the best one at another epsilon, but nearly the same.
    elsewhere = np.exp(epsilons - best_at) * (np.abs(best_at) + np.abs(epsilons) + mu * mu)
    error = error + there * (np.abs(moved) + 0.01 * elsewhere)
    inner = gap - moved * there + side * ERROR * error
    with np.errstate(divide="ignore", invalid="ignore"):
        logs: Floats = np.log(np.maximum(inner, 0.0)) - y * y / 2 - _LOG_ROOT_2_PI
    slack = ERROR * (2 + y * y + np.where(np.isfinite(logs), np.abs(logs), 0.0))
    return logs + side * slack


def log_rest_of_line(mu: float, best_at: Floats, epsilons: Floats, side: int) -> Floats:
    """ln(1 - Phi(a) + kappa Phi(a - mu)), rounded down or up.

    Where y is below -1, the line may be so close to 1 that only its distance from 1 can be told. This distance is
    the sum of positive terms Phi(-a) + kappa Phi(a - mu).
    """
    from scipy.special import log_ndtr  # here, since most users of guarantees do not ask for mu

    a = mu / 2 - best_at / mu
    # As logarithms, since far out both probabilities are below every float.
    first, second = log_ndtr(-a), epsilons + log_ndtr(a - mu)
    # A point that is rounded changes the logarithms by its error times their slope, at most |a| + mu + 1.
    size = 2 + np.abs(first) + np.abs(second) + np.abs(epsilons)
    size = size + (np.abs(a) + mu + 1) * (mu + np.abs(best_at) / mu)
    logs: Floats = np.logaddexp(first, second) + side * ERROR * size
    return logs


def _mills(t: Floats) -> Floats:
    """R(t), for t of -1 or more."""
    from scipy.special import erfcx  # here, since most users of guarantees do not ask for mu

    ratio: Floats = math.sqrt(math.pi / 2) * erfcx(t / math.sqrt(2))
    return ratio


_GRID: Final = 0.04  # distance of neighbouring epsilons, in units of sigma
_LONGEST_STEP: Final = 0.3  # the same in units of epsilon: the chords of a longer one are far above delta
_END: Final = 140.0  # of the grid, in units of sigma, above rho
_MOST_EPSILONS: Final = 1 << 16  # of the grid: a few seconds
_PERIOD: Final = 9.0  # of a contour, about, in units of sigma
_MOST_NODES: Final = 4000.0  # of one contour, in a grid that takes a few seconds
_SHARES: Final = (0.5, 0.75, 1.0)
"""Where between two neighbours a test is best. Far out delta falls so steeply that only the last of these helps."""

_HALVINGS: Final = 30
"""Of a bracket of mu a few sigma wide: about 1e-9 of it is left, where the grid allows 1e-3. Half as many would leave
3e-5, and each one looks at the whole grid."""
_LOW_END: Final = 51
"""Epsilons within sigma of rho, at which the lower end is found if there is no grid."""


def smallest_mu(law: Law, engine: LossEngine) -> Bounds:
    """The smallest mu of a composition, from both sides, by the way that its engine allows.

    The upper end is infinite with random samples and with losses of which only rho is known.
    """
    engine = first_asked(engine)
    if isinstance(engine, Normal):
        return engine.mu()
    if isinstance(engine, WithFailure):  # no normal noise reveals everything
        return Bounds(math.inf, math.inf)
    if isinstance(engine, Dithered) and not any(isinstance(loss, SampledLoss) for loss in law):
        mu = profile_envelope(engine)
    else:
        mu = Bounds(0.0, math.inf) if further(law) else gaussian_envelope(of_integers(law))
        if not math.isfinite(mu.upper):
            lower = engine.lower if isinstance(engine, Between) else engine
            mu = Bounds(_lower_end(lower, math.sqrt(2 * search_cost(law))), mu.upper)
    upper = mu.upper if math.isfinite(mu.upper) else _of_parts(law)
    return Bounds(min(mu.lower, upper), upper)


def profile_envelope(engine: Dithered) -> Bounds:
    """The smallest mu with delta_mu nowhere below delta, from both sides.

    The variables: kappa = exp(epsilon); Phi, the normal distribution function; rho, the zCDP cost; sigma, the
    square root of 2 rho, about the standard deviation of the loss, whose mean is about rho.

    The steps:

    1. Compute delta and 1 - delta from both sides at a grid of epsilons up to an end E.
    2. The lower end of mu: at every epsilon of the grid, delta_mu must reach the lower bound of delta.
    3. The upper end: between two neighbours of the grid, delta is below its chord in kappa, because delta is
       convex. For every number a, the line Phi(a) - kappa Phi(a - mu) is at most delta_mu. Take the line that
       touches delta_mu at some epsilon between the two. If this line is above both ends of the chord, delta_mu is
       above delta in between. Where delta is nearly 1, compare one minus all of these (`log_rest_of_line`).
    4. Beyond E, take the bound that zero-concentrated differential privacy gives (`beyond`).

    The bracket is about 1e-3 wide, relative to mu: the grid of 0.04 sigma costs up to 2e-4, and E = rho + 140
    sigma costs the rest. Where the grid would take too long, because each contour has many nodes or sigma is
    huge, the lower end comes from a few epsilons around rho, and the upper end from the answers taken one by one:
    if the trade-off function of each is at least that of N(mu_i, 1), that of all together is at least that of
    N(mu, 1) with mu^2 the sum of all mu_i^2 (Dong, Roth and Su 2022, Theorem 3.2 and Corollary 3.3). This bracket
    is a few per cent wide where variances are near 1, and about 1 / (24 v) where they are a larger v.

    Example: many discrete Gaussian answers without a common lattice are nearly one continuous one. Then delta_mu
    is nearly delta at every epsilon for mu = sigma, and both ends lie close to it.

    Args:
        engine: Bounds of delta, without random samples, whose law differs between the two neighbours.
    """
    # Rounded up, as the bound beyond the grid rests on it. Sigma only says where to look.
    factors = tuple(loss for loss in engine.factors if not isinstance(loss, SampledLoss))
    assert len(factors) == len(engine.factors)
    rho = zcdp_cost(factors)
    sigma = math.sqrt(2 * rho)
    step = min(sigma * _GRID, _LONGEST_STEP)
    count = round((rho + _END * sigma) / step) + 1
    if count > _MOST_EPSILONS or _nodes(engine) > _MOST_NODES:
        return Bounds(_lower_end(engine, sigma), math.inf)
    epsilons: Floats = step * np.arange(count, dtype=np.float64)
    deltas, rests = engine.log_deltas_and_rests(epsilons.tolist())

    def covers(mu: float) -> bool:
        """Whether delta_mu certainly covers delta up to the end of the grid."""
        covered = np.zeros(epsilons.size - 1, dtype=np.bool_)
        # Every line is a valid bound. So an interval is covered if any one of these lines covers both ends.
        for share in _SHARES:
            at: Floats = epsilons[:-1] + share * np.diff(epsilons)
            ends = [
                _is_above(mu, at, epsilons[part], deltas.at(part), rests.at(part))
                for part in (slice(None, -1), slice(1, None))
            ]
            covered |= ends[0] & ends[1]
        return bool(covered.all())

    at_least = _reached(epsilons, deltas, rests, sigma)
    most = beyond(rho, float(epsilons[-1]))
    # Without an end beyond the grid, or one that covers, no mu is proved from above.
    if not (math.isfinite(most) and covers(2 * most)):
        return Bounds(at_least, math.inf)
    # Both must hold: mu covers the grid, and rho alone covers everything beyond it.
    at_most = max(_between(covers, at_least, 2 * most)[1], most)
    return Bounds(min(at_least, at_most), at_most)


def _nodes(engine: Dithered) -> float:
    """About how many nodes a contour has."""
    return engine.scan.nodes(_PERIOD * engine.scan.spread)


def _lower_end(engine: LossEngine, sigma: float) -> float:
    """A mu below the smallest one, from delta at a few epsilons around the mean of the loss."""
    rho = sigma * sigma / 2
    epsilons: Floats = np.linspace(max(0.0, rho - sigma), rho + sigma, _LOW_END)
    deltas = engine.log_deltas(epsilons.tolist())
    return _reached(epsilons, deltas, log_rest(deltas), sigma)


def _reached(epsilons: Floats, deltas: ManyBounds, rests: ManyBounds, sigma: float) -> float:
    """A mu whose delta_mu is certainly below delta at one of these epsilons; 0 if none is found."""

    def reaches(mu: float) -> bool:
        """Whether delta_mu may reach every lower bound."""
        # Rounded so that a mu is called too small only where that is certain.
        high = log_line(mu, epsilons, epsilons, 1) >= deltas.lower
        rest = log_rest_of_line(mu, epsilons, epsilons, -1) <= rests.upper
        return bool(np.where(is_central(mu, epsilons), rest, high).all())

    return _between(reaches, sigma / 8, 2 * sigma)[0]


def _is_above(mu: float, at: Floats, epsilons: Floats, deltas: ManyBounds, rests: ManyBounds) -> Bools:
    """Where the lines that are best at some epsilons are certainly above delta at others."""
    # The other way round: called above only where that is certain.
    high = log_line(mu, at, epsilons, -1) >= deltas.upper
    rest = log_rest_of_line(mu, at, epsilons, 1) <= rests.lower
    return np.where(is_central(mu, at), rest, high)


def _of_parts(law: Law) -> float:
    """An upper end from the mu of every answer by itself."""
    total = sum(loss.multiplicity * _single(loss) ** 2 for loss in law)
    return math.sqrt(total) * (1 + 1e-12)


def _single(loss: AnyLoss) -> float:
    """A mu of one answer that is not below the smallest one; infinite where none is known."""
    if isinstance(loss, NormalLoss):
        return math.sqrt(fraction_bounds(loss.mu_squared).upper) * (1 + 1e-15)
    if not isinstance(loss, LossFactor):
        return math.inf
    answer = replace(loss, multiplicity=1)
    mu = gaussian_envelope((answer,)).upper
    if math.isfinite(mu):
        return mu
    engine = Dithered.build((answer,))
    return math.inf if engine is None else profile_envelope(engine).upper


def _between(passes: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """Two close numbers of which the first one fails and the second one passes, if high passes.

    The first one is 0 if low passes, and high if high fails.
    """
    if passes(low):
        return 0.0, low
    if not passes(high):
        return high, high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if passes(middle) else (middle, high)
    return low, high
