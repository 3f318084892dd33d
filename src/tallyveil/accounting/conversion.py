"""From delta to epsilon, and numbers from outside to exact ones.

Letters: A = P(L > epsilon), B = Q(L > epsilon), delta = A - exp(epsilon) B.

delta is convex and piecewise linear in exp(epsilon), with slope -B: a Newton step in that variable is exact
within one lattice cell, one on the logarithm of delta is the better one from afar. The root is then certified
by two evaluations beside it, which need nothing from the search.
"""

import math
from fractions import Fraction

from tallyveil.accounting.engines.cells import Cells
from tallyveil.accounting.engines.choose import FallbackEngine
from tallyveil.accounting.engines.dithered import Dithered
from tallyveil.accounting.engines.enclosing import Between, RenyiUpper, WithFailure
from tallyveil.accounting.engines.moments import greatest_bounds, greatest_loss
from tallyveil.accounting.engines.tails import LossEngine, Tails, fraction_bounds, log_bounds_of, log_delta_of
from tallyveil.accounting.losses import GaussianLoss, Law, cost_hint, further, of_integers
from tallyveil.accounting.numbers import Bounds, exact_number
from tallyveil.errors import BudgetError, SolverError
from tallyveil.exact import as_given, in_short

_MAX_STEPS = 200
"""Of the search, and of the certificate on each side. After Newton's steps halving gains a bit a step, and a float has
53; strides of a certificate grow eightfold. So 100 would do, and 400 gain nothing."""
_DOUBLINGS = 12
"""Up to 4,096 times the epsilon that fails. If delta is not certified there, the engine's bounds are too wide."""
_NEWTON_STEPS = 20
"""Most searches need fewer than ten. Where delta falls from atom to atom in long jumps, a Newton step ends at the next
jump, of which there may be thousands; then halving the interval is faster."""

_STEPS_BY_SLOPE = 20
"""Steps of a certificate that trust the slope. Few need more than five."""
_WIDE_OF_SEARCH = 0.5
"""Relative width of delta's or Q's bounds above which a search asks the second engine, too."""


def real_number(value: Fraction | float | str, where: str) -> Fraction:
    """A number from outside, exactly; a float stands for itself, text for the decimal or fraction written.

    Raises:
        BudgetError: it is no finite number.
    """
    if not isinstance(value, float):
        return exact_number(value, where)
    if not math.isfinite(value):
        raise BudgetError(
            f"{where} must be a finite number, got {as_given(value)}. Give one such as '1e-10'."
        )
    return Fraction(value)


def epsilon_at(engine: LossEngine, factors: Law, delta: Fraction) -> Bounds:
    """The smallest epsilon >= 0 with delta(epsilon) <= delta, from both sides.

    Where two engines enclose the truth, the upper end is that of one of them and the lower end that of the other.

    Args:
        engine: Tails of the loss.
        factors: The losses added up, for where to start and where they end.
        delta: 0 or more, exact.

    Raises:
        BudgetError: delta is negative.
        SolverError: the engine's bounds are too wide to enclose a root.
    """
    if delta < 0:
        raise BudgetError(f"delta must be 0 or more, got {in_short(delta)}. Give one such as '1e-10'.")
    # No delta is above 1, and without losses the two neighbours cannot be told apart.
    if delta >= 1 or not factors:
        return Bounds(0.0, 0.0)
    if isinstance(engine, WithFailure | Between):
        return _of_parts(engine, factors, delta)
    # At delta 0 epsilon is the largest loss; for any other delta no search needs to look beyond it.
    most = _greatest(factors)
    if delta == 0:
        return most
    if isinstance(engine, RenyiUpper):
        return Bounds(0.0, engine.epsilon(delta))
    return _by_search(engine, factors, delta, most.upper)


def _by_search(engine: LossEngine, factors: Law, delta: Fraction, ceiling: float) -> Bounds:
    target = log_bounds_of(delta)
    # Also the case where a search would have no root: delta is below the target on all of [0, inf). It is not if delta,
    # which falls, is above the target near the root. At 0 delta may take much longer to compute.
    rough = _rough(engine)
    near = min(about_epsilon(factors, target.lower), ceiling) / 2
    if log_delta_of(rough, near).lower <= target.upper and log_delta_of(engine, 0.0).upper <= target.lower:
        return Bounds(0.0, 0.0)
    # From the ceiling on delta is 0, and its logarithm has no slope to follow: begin well below.
    begin = min(about_epsilon(factors, (target.lower + target.upper) / 2), ceiling / 2)
    root, slope = _root(rough, begin, target, ceiling)
    if rough is not engine:
        root, slope = _root(engine, root, target, ceiling)
    upper = _certified_upper(engine, root, slope, target, ceiling)
    return Bounds(_certified_lower(engine, root, slope, target), upper)


def _rough(engine: LossEngine) -> LossEngine:
    """An engine of the same losses to search with, where the engine itself takes long at each place."""
    match engine:
        case Dithered() | Cells():
            return engine.rough()
        case FallbackEngine(Dithered() as fast):
            quick = fast.rough()
            # A search that saw the first engine's wide bounds alone would end far from the root.
            return FallbackEngine(
                quick, lambda: quick if engine.general is fast else _rough(engine.general), _WIDE_OF_SEARCH
            )
        case _:
            return engine


def _of_parts(engine: WithFailure | Between, factors: Law, delta: Fraction) -> Bounds:
    """The smallest epsilon of two enclosing engines, or of the rest at what failures leave of delta."""
    if isinstance(engine, Between):
        # The law that costs no less may have a larger loss than any of the truth.
        upper = min(epsilon_at(engine.upper, engine.upper_law, delta).upper, _greatest(factors).upper)
        return Bounds(min(epsilon_at(engine.lower, engine.lower_law, delta).lower, upper), upper)
    less, more = engine.deltas_of_rest(delta)
    # Below 0 nothing is left: failures alone exceed delta, at whatever epsilon.
    upper = math.inf if less < 0 else epsilon_at(engine.rest, engine.law, less).upper
    lower = math.inf if more < 0 else epsilon_at(engine.rest, engine.law, more).lower
    return Bounds(lower, upper)


def _greatest(law: Law) -> Bounds:
    """The largest possible loss, infinite if there is none."""
    if further(law):
        return greatest_bounds(law)
    most = greatest_loss(of_integers(law))
    return Bounds(math.inf, math.inf) if most is None else fraction_bounds(most)


def _root(engine: LossEngine, epsilon: float, target: Bounds, ceiling: float) -> tuple[float, float]:
    """An epsilon near the root, and minus the derivative of ln delta there; the search begins at `epsilon`."""
    aim = (target.lower + target.upper) / 2
    low, high = 0.0, ceiling
    slope = 1.0
    for attempt in range(_MAX_STEPS):
        tails = engine.log_tails(epsilon)
        middle = _middle(tails.log_delta)
        if middle > aim:
            low = epsilon
        else:
            high = epsilon
        slope = _slope(epsilon, _middle(tails.log_second), middle)
        # Where delta is flat the step has no end: between the two losses of noise that protects nobody, for example.
        wanted = min(_step(epsilon, middle, aim, slope), 2 * epsilon + 1)
        # The bracket keeps Newton's steps from leaving, and takes over where they are slow.
        if not low < wanted < high or (attempt >= _NEWTON_STEPS and math.isfinite(high)):
            wanted = (low + high) / 2 if math.isfinite(high) else 2 * epsilon + 1
        if abs(wanted - epsilon) <= math.ulp(epsilon) or _straddles(tails, target):
            return epsilon, slope
        epsilon = wanted
    return epsilon, slope


def _slope(epsilon: float, log_second: float, log_delta: float) -> float:
    """Minus the derivative of ln delta: exp(epsilon) B / delta; 1 where delta is too small to tell.

    It only says how far to look next. Where delta is 0 the logarithms are both infinite, and say nothing.
    """
    exponent = epsilon + log_second - log_delta if math.isfinite(log_delta) else 0.0
    # Floats overflow at exp(709.8); the floor keeps the quotients of a caller finite.
    return max(math.exp(min(exponent, 700.0)), 1e-12)


def _step(epsilon: float, log_delta: float, aim: float, slope: float) -> float:
    if not math.isfinite(log_delta):
        return -math.inf  # beyond the greatest loss: the bracket takes over
    off = log_delta - aim
    if abs(off) < 0.3:
        # Exact within a cell: exp(epsilon') = (A - target) / B.
        grown = -math.expm1(-off) / slope
        return epsilon + math.log1p(grown) if grown > -1 else -math.inf
    # From afar ln delta is nearly straight, and the Newton step on it loses no digits.
    return epsilon + off / slope


def about_epsilon(factors: Law, log_delta: float) -> float:
    """About the epsilon of a law, where a search may begin: that of one normal answer of about the same rho."""
    rho = sum(cost_hint(loss) for loss in further(factors))
    for factor in of_integers(factors):
        if isinstance(factor, GaussianLoss):
            rho += factor.multiplicity * factor.offset_float
        else:
            # epsilon^2 / 2 for a small epsilon, epsilon / 2 for a large one: a place to start.
            rate = factor.sensitivity / float(factor.scale)
            rho += factor.multiplicity * rate * min(rate, 1.0) / 2
    return _gaussian_epsilon(math.sqrt(2 * rho), log_delta)


def _gaussian_epsilon(mu: float, log_delta: float) -> float:
    """Epsilon of one continuous Gaussian answer: near that of many, and only a place to start."""
    low, high = 0.0, mu * mu / 2 + mu * math.sqrt(2 * max(-log_delta, 0.0)) + mu
    # Forty halvings are 1e-12 of the interval: more than a place to start needs.
    for _ in range(40):
        epsilon = (low + high) / 2
        first = _log_normal(mu / 2 - epsilon / mu)
        second = epsilon + _log_normal(-mu / 2 - epsilon / mu)
        log_difference = first + math.log(max(-math.expm1(min(second - first, 0.0)), 1e-300))
        low, high = (epsilon, high) if log_difference > log_delta else (low, epsilon)
    return (low + high) / 2


def _log_normal(x: float) -> float:
    """About the logarithm of the normal distribution function: a search begins from it."""
    if x > -10:
        return math.log(math.erfc(-x / math.sqrt(2)) / 2)
    # The asymptotic series, off by about 2.5 / x^4. erfc would underflow near x = -38.
    return -x * x / 2 - math.log(-x * math.sqrt(2 * math.pi)) - 1 / (x * x)


def _straddles(tails: Tails, target: Bounds) -> bool:
    return tails.log_delta.lower <= target.upper and target.lower <= tails.log_delta.upper


def _certified_upper(engine: LossEngine, root: float, slope: float, target: Bounds, ceiling: float) -> float:
    epsilon = root
    for attempt in range(_MAX_STEPS):
        log_delta = log_delta_of(engine, epsilon)
        if log_delta.upper <= target.lower:
            return epsilon
        epsilon += _stride(epsilon, (log_delta.upper - target.lower) / slope, attempt)
        # At the largest loss delta is 0, so this end is certain without an evaluation.
        if epsilon >= ceiling:
            return ceiling
    return _by_halving(engine, epsilon, target)


def _by_halving(engine: LossEngine, low: float, target: Bounds) -> float:
    """An epsilon above one that fails, where the slope misled the search: delta need not fall evenly between tilts."""

    def holds(epsilon: float) -> bool:
        return log_delta_of(engine, epsilon).upper <= target.lower

    high = 2 * low + 1e-3
    for _ in range(_DOUBLINGS):
        if holds(high):
            for _ in range(_NEWTON_STEPS):
                middle = (low + high) / 2
                low, high = (low, middle) if holds(middle) else (middle, high)
            return high
        low, high = high, 2 * high
    raise SolverError(
        f"the bounds that the engine {engine.name} gives on delta are too wide to enclose this epsilon. Ask for a "
        "larger delta, or for another engine."
    )


def _certified_lower(engine: LossEngine, root: float, slope: float, target: Bounds) -> float:
    epsilon = root
    for attempt in range(_MAX_STEPS):
        log_delta = log_delta_of(engine, epsilon)
        if log_delta.lower >= target.upper:
            return epsilon
        epsilon -= _stride(epsilon, (target.upper - log_delta.lower) / slope, attempt)
        if epsilon <= 0:
            break
    return 0.0


def _stride(epsilon: float, wanted: float, attempt: int) -> float:
    """How far to go on: what the slope asks for, but short at first, in case the slope changes beside the root."""
    # The exponent is capped as 8^342 overflows; a stride of less than an ulp would not move.
    short = max(16 * math.ulp(epsilon), 1e-12) * 8.0 ** min(attempt - 2, 300)
    # Where Q is known badly the slope may be too large, and steps by it alone would never get there.
    further_on = 1.1 * 2.0 ** min(max(attempt - _STEPS_BY_SLOPE, 0), 300)
    return max(min(further_on * wanted, max(short, math.ulp(epsilon))), math.ulp(epsilon))


def _middle(bounds: Bounds) -> float:
    # A lower end of delta may be 0, whose logarithm leaves no middle.
    if not math.isfinite(bounds.lower):
        return bounds.upper
    return (bounds.lower + bounds.upper) / 2
