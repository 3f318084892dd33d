"""Certified tails of a loss without a usable lattice, from its transform alone, to a width that is chosen.

The problem: compute delta(epsilon) = E[(1 - exp(epsilon - L))+] for a loss L that is a sum of discrete Gaussian losses
whose lattices have no common one of usable size. Moving each loss to a common grid would add an error for each.

The variables: kappa = exp(epsilon); P and Q, the laws of the output for two neighbours; D the *dither*, an independent
sum of p uniform variables on [-h / p, h / p]; delta_h(epsilon) the delta of L + D; s the *tilt*, the real part of the
numbers at which the transform of L is computed.

The idea: delta is a convex and falling function of kappa. So the dithered delta bounds it from both sides,

    2 delta_h(epsilon + h^2 / 2) - delta_2h(epsilon) <= delta(epsilon) <= delta_h(epsilon - h^2 / (6 p)),

and the two sides differ by about h^2, whatever the number of losses. The dither makes the transform fall quickly, so
that only frequencies up to a bound U, about 50 / h, matter.

The steps:

1. Once: scan the frequencies up to U for those at which the transform is not negligible (`revivals`).
2. For each tilt: compute the transform at the nodes of a trapezoid rule there (`dithered_contour`), and bound all
errors.
3. For each epsilon: sum over the nodes three times (one sum for each delta in the formula above), and widen the results
by the errors (docs/proofs/off-lattice.md).
4. The probabilities P(L > epsilon) and Q(L > epsilon) follow from delta alone: Q is minus its slope in kappa, which
   lies between the slopes of two chords.

Example: for a width of 1e-9 the noise of the 2020 redistricting data, 33 variances and 130 answers, has h = 3e-5 and
U = 1.6e6. The scan looks at 200 states and leaves one window around 0, which holds about twenty nodes.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np

from tallyveil.accounting.bounds import Bounds
from tallyveil.accounting.engines.dithered_bounds import log_excess, tails_of_delta, tails_of_rest
from tallyveil.accounting.engines.dithered_contour import DitheredContour, Scan, contour_at, log_moment_bounds
from tallyveil.accounting.engines.loss_transform import UNIT
from tallyveil.accounting.engines.revivals import Depth, GaussianFactors, find_windows, number_of_nodes
from tallyveil.accounting.engines.tails import Tails, exact_epsilon
from tallyveil.accounting.losses.factors import GaussianLoss, LossFactor, merged
from tallyveil.accounting.losses.log_bounds import log_reflected, log_rest
from tallyveil.accounting.losses.moments import log_moment, moments
from tallyveil.accounting.many_bounds import ManyBounds
from tallyveil.arrays import Floats

WIDTH: Final = 1e-9
"""Width of the bounds of epsilon that is aimed at unless another one is asked for."""

NARROWEST: Final = 1e-12
"""The smallest width that may be asked for. Below it, rounding in floats decides the width."""

MOST_ATOMS: Final = 4096
"""Largest number of values (atoms) of all Laplace losses and of all Gaussian ones of small variance together."""

MOST_NODES: Final = 1 << 23
"""Nodes of one contour, times factors, above which only Chernoff's bound is given. Only tiny deltas need so many."""

# p, the uniform laws that a dither adds up: its transform falls like the frequency to the power -p.
_PARTS: Final = 12
# The formulas of the scan are proved for variances of 1/4 or more; smaller ones are listed.
_LEAST_VARIANCE: Final = Fraction(1, 4)
# ln C from which a composition is refused: C multiplies the bounds on what is left out.
_LARGEST_LOG_NORM: Final = 5.0
_DEVIATIONS: Final = 6.5  # of epsilon from the mean loss, about, at delta = 1e-10: there the width is met
_WRAP: Final = 40.0  # minus the logarithm of the wrap-around that is aimed at, relative to the result
_TILTS: Final = 4  # contours for each standard deviation of the saddle
_CACHED: Final = 1 << 20  # nodes of the contours that are kept: some 40 MB
_FARTHEST: Final = Fraction(1 << 100)  # an epsilon beyond which floats could overflow
_BEYOND: Final = Fraction(10**300)  # an epsilon beyond which its rounding could overflow
# Steps of Newton's method, and of widening a period; either ends earlier by far, and no bound needs the result.
_CONTOUR_STEPS: Final = 60


class Dithered:
    """Certified tails of a sum of discrete Gaussian losses, and of some Laplace losses, that need no common lattice.

    Args:
        factors: The losses that are added up, equal ones merged.
        scan: Where the transform of their sum is not negligible.
        width: Width of epsilon's bounds that the scan is made for.
    """

    name = "dithered"

    def __init__(self, factors: tuple[LossFactor, ...], scan: Scan, width: float) -> None:
        self.factors = factors
        self.scan = scan
        self.width = width
        # Mean of the loss under P: half its variance for the Gaussian part.
        self.mean = float(scan.gaussians.variance / 2) + sum(
            f.multiplicity * moments(f, 0.0)[0] for f in scan.others
        )
        self._contours: dict[float, DitheredContour] = {}

    @classmethod
    def build(cls, factors: tuple[LossFactor, ...], width: float = WIDTH) -> "Dithered | None":
        """The engine, or None if a condition of it does not hold; `why_not` says which one.

        Args:
            factors: The losses added up.
            width: The width of epsilon's bounds that is aimed at, for a delta of about 1e-10. If the loss has a
                standard deviation below 1, the width is in units of this deviation.

        Raises:
            BudgetError: a factor is out of range.
        """
        engine = _made(factors, width)
        return None if isinstance(engine, str) else engine

    @staticmethod
    def why_not(factors: tuple[LossFactor, ...], width: float = WIDTH) -> str | None:
        """The condition that fails, in words, or None."""
        engine = _made(factors, width)
        return engine if isinstance(engine, str) else None

    def log_tails(self, epsilon: float | Fraction) -> Tails:
        """Certified tails above `epsilon`. Delta is close; both probabilities are known to about four digits.

        Raises:
            BudgetError: epsilon is not a finite number.
        """
        exact = exact_epsilon(epsilon)
        if exact < 0:
            there = self.log_tails(-exact)
            return Tails(
                log_rest(there.log_second),
                log_rest(there.log_first),
                self.log_deltas([exact])[0],
            )
        if exact > _FARTHEST:  # tails fall, so that bounds from above hold further out too
            return self._far_out(self._tilt(float(_FARTHEST)), _FARTHEST)
        tilt = self._tilt(float(exact))
        contour = self._contour(tilt, float(exact))
        # None: the contour would need more nodes than are worth it, so only Chernoff's bound is given.
        if contour is None:
            return self._far_out(tilt, exact)
        here = log_excess(contour, [exact])[0]
        if tilt < 0:
            return tails_of_rest(contour, exact, here)
        return tails_of_delta(contour, exact, here)

    def log_deltas(self, epsilons: Sequence[float | Fraction]) -> ManyBounds:
        """ln delta at each epsilon, any real number, without the probabilities: much faster than all tails."""
        exact = [exact_epsilon(epsilon) for epsilon in epsilons]
        sizes = [min(abs(epsilon), _BEYOND) for epsilon in exact]
        deltas, rests = self.log_deltas_and_rests(sizes)
        negative = np.array([epsilon < 0 for epsilon in exact], dtype=np.bool_)
        if not negative.any():
            return deltas
        reflected = _reflected(np.array([float(size) for size in sizes]), deltas, rests)
        return reflected.where(negative, deltas)

    def log_deltas_and_rests(self, epsilons: Sequence[float | Fraction]) -> tuple[ManyBounds, ManyBounds]:
        """ln delta and ln(1 - delta) at each epsilon, none negative. The latter is known also where delta is 1."""
        exact = [min(exact_epsilon(epsilon), _BEYOND) for epsilon in epsilons]
        groups: dict[float, list[int]] = {}
        for i, epsilon in enumerate(exact):
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
        return ManyBounds(*ends[0]), ManyBounds(*ends[1])

    def _logs_at(self, tilt: float, epsilons: list[Fraction]) -> ManyBounds:
        """ln delta, or ln(1 - delta) for a tilt below 0, at epsilons that share the tilt."""
        contour = self._contour(tilt, float(min(epsilons[0], _FARTHEST)))
        near = [min(epsilon, _FARTHEST) for epsilon in epsilons]
        if contour is None or max(epsilons) > _FARTHEST:
            return ManyBounds.of([self._chernoff(tilt, float(epsilon)) for epsilon in near])
        return log_excess(contour, epsilons)

    def _tilt(self, epsilon: float) -> float:
        """The tilt for an epsilon. It is taken from a grid, so that neighbouring epsilons share a contour.

        The tilt is below 0 where delta is nearly 1. There 1 - delta is computed instead of delta.
        """
        # A whole deviation below the mean: left of it delta is nearly 1, and its bounds would be of a tiny difference.
        of_rest = epsilon < self.mean - self.scan.spread
        least = 1 / (_TILTS * self.scan.spread)
        tilt = round(self._saddle(epsilon, of_rest) / least) * least
        # Beyond p / (2 h) the transform of the dither would overflow.
        most = _PARTS / (2 * self.scan.depth.half_width)
        return min(tilt, -least) if of_rest else min(max(tilt, least), most)

    def _contour(self, tilt: float, epsilon: float) -> DitheredContour | None:
        """The trapezoid rule with a tilt, kept for the next epsilon; None if it would have too many nodes."""
        if tilt not in self._contours:
            period, further = self._period(tilt, epsilon)
            windows, step = self.scan.windows, 2 * math.pi / period
            if number_of_nodes(windows.lows, windows.highs, step) * self.scan.gaussians.count > MOST_NODES:
                return None
            contour = contour_at(self.scan, tilt, period, further)
            while len(self._contours) * contour.frequencies.size > _CACHED:
                self._contours.pop(next(iter(self._contours)))
            self._contours[tilt] = contour
        return self._contours[tilt]

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
        """About the tilt at which the integrand is smallest on the real axis, between the poles at 0 and -1."""
        low, high = (-1.0, 0.0) if of_rest else (0.0, math.inf)
        tilt = -0.5 if of_rest else max((epsilon - self.mean) / self.scan.spread**2, 1 / self.scan.spread)
        for _ in range(_CONTOUR_STEPS):
            mean, variance = self._moments(tilt)
            # Slope of ln of the integrand on the real axis; between the poles it has one minimum there.
            slope = mean - epsilon - 1 / tilt - 1 / (tilt + 1)
            low, high = (tilt, high) if slope < 0 else (low, tilt)
            following = tilt - slope / (variance + 1 / tilt**2 + 1 / (tilt + 1) ** 2)
            if not low < following < high:
                following = (low + high) / 2 if math.isfinite(high) else 2 * tilt
            if abs(following - tilt) * self.scan.spread < 1e-3:
                break
            tilt = following
        return tilt

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
        for _ in range(_CONTOUR_STEPS):
            further = max(tilt - period / spread**2, -1.0) if tilt < 0 else tilt + period / spread**2
            exponent = self._log_moment(further) - here - (further - tilt) * epsilon
            exponent += abs(further) * 2 * self.scan.depth.half_width - abs(further - tilt) * period
            if exponent < log_size - _WRAP:
                break
            # 15% more until Chernoff's bound on the wrap-around is negligible.
            period *= 1.15
        return period, further


def _reflected(epsilons: Floats, deltas: ManyBounds, rests: ManyBounds) -> ManyBounds:
    """ln delta(-epsilon) from ln delta(epsilon), and from 1 - delta(-epsilon) = exp(-epsilon) (1 - delta(epsilon))."""
    from_deltas = log_reflected(-epsilons, deltas)
    slack = 8 * UNIT * (epsilons - rests.lower)
    rest = ManyBounds(rests.lower - epsilons - slack, np.minimum(rests.upper - epsilons + slack, 0.0))
    from_rests = log_rest(rest)
    return ManyBounds(
        np.maximum(from_deltas.lower, from_rests.lower), np.minimum(from_deltas.upper, from_rests.upper)
    )


def _made(factors: tuple[LossFactor, ...], width: float) -> Dithered | str:
    factors = merged(factors)
    wide = [f for f in factors if isinstance(f, GaussianLoss) and f.variance >= _LEAST_VARIANCE]
    if not wide:
        return "it needs discrete Gaussian noise of variance 1/4 or more"
    others = tuple(f for f in factors if f not in wide)
    refused = _out_of_range(others)
    if refused is not None:
        return refused
    gaussians = GaussianFactors.of(wide)
    if gaussians.log_norm > _LARGEST_LOG_NORM:
        return "the variances are too small for so many answers"
    spread = math.sqrt(gaussians.variance + sum((_largest_variance(f) for f in others), Fraction(0)))
    tilt = _DEVIATIONS / spread + 1 / spread
    aim = width * min(1.0, spread)
    half_width = math.sqrt(0.9 * aim / (1 + (tilt + 2) / (2 * _PARTS)))
    depth = Depth(
        math.log(1000 * (tilt + 1) * spread / aim) + gaussians.log_norm,
        half_width,
        _PARTS,
    )
    windows = find_windows(gaussians, depth)
    if windows is None:
        return "the transform of the loss returns to its full size too often"
    if 192 * UNIT * windows.end > gaussians.periods.min():
        return "floats cannot tell where within its period a loss's transform is"
    return Dithered(factors, Scan(gaussians, others, depth, windows, spread), width)


def _largest_variance(factor: LossFactor) -> Fraction:
    """The largest variance that any tilt gives the losses of a factor, about."""
    if isinstance(factor, GaussianLoss):
        return factor.multiplicity * factor.step**2 * (factor.variance + Fraction(1, 4))
    return factor.multiplicity * factor.offset**2


def _out_of_range(others: tuple[LossFactor, ...]) -> str | None:
    """Why the factors whose atoms are listed cannot be taken, or None."""
    if sum(1 if isinstance(f, GaussianLoss) else f.sensitivity + 1 for f in others) > MOST_ATOMS:
        return f"the Laplace losses take more than {MOST_ATOMS} values"
    return None
