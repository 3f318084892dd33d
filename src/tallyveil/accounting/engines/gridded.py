"""Tails of random samples and of losses beside them that can be listed: moved to a grid, added up by one transform.

The problem: delta(epsilon) = E[(1 - exp(epsilon - L))+] from both sides, for L a sum of n independent losses.
The laws of the two neighbours need not mirror each other, and n may be ten thousand. It takes what no contour takes:
samples of noise that is far smaller than what a record adds, or of noise so wide that its losses are too many for a
sum at every frequency.

`Gridded` is the engine and has the steps; `AtomList` is one loss as a list of atoms, which `listed` makes. Proofs:
docs/proofs/accounting-rounding.md and docs/proofs/real-noise.md.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias

import numpy as np

from tallyveil.accounting.engines.loss_transform import UNIT, fft_error, power_with_error
from tallyveil.accounting.engines.moments import greatest_bounds
from tallyveil.accounting.engines.sampled import kinds_of
from tallyveil.accounting.engines.tails import (
    NOTHING,
    ManyBounds,
    Tails,
    float_bounds,
    tails_by_chords,
    within_floats,
)
from tallyveil.accounting.events import LARGEST_LOSS
from tallyveil.accounting.losses import (
    ChoiceLoss,
    GaussianLoss,
    LaplaceLoss,
    MixtureLoss,
    ResponseLoss,
    SampledLoss,
)
from tallyveil.accounting.numbers import Bounds, log_of
from tallyveil.arrays import Complexes, Floats
from tallyveil.errors import SolverError
from tallyveil.noise.balls import precision, rational

# Values of one loss that are listed at most: 32 MiB for each array of floats. Integer noise reaches it at a standard
# deviation of about 170,000; the limit on that moves in proportion.
MOST_ATOMS: Final = 1 << 22
# Minus the logarithm of a weight that may be left out: exp(-70) = 4e-31, below the rounding of a sum of 2^22 atoms. At
# half of it what is left out would show as 1e-15 of delta.
_LEFT_OUT: Final = 70.0
_REACH: Final = 12.2  # standard deviations: exp(-reach^2 / 2) < exp(-70)
_CELLS: Final = 4096  # of the look for atoms that matter
_WIDEST: Final = 400.0  # standard deviations that may be looked at
_FEW: Final = 200.0  # atoms for each standard deviation of a coarse list
# Variance below which Gaussian noise is refused: one atom holds all but exp(-500) of it, so it protects nobody.
_LEAST_VARIANCE: Final = Fraction(1, 1000)
_LEAST_REST: Final = 1e-300  # in the place of a mass that rounding leaves at 0 or below
_FLAT: Final = 2.0  # variance from which the sum of exp(-x^2 / (2 v)) is sqrt(2 pi v), but for exp(-2 pi^2 v)

Listable: TypeAlias = GaussianLoss | LaplaceLoss | ResponseLoss | SampledLoss


@dataclass(frozen=True, slots=True)
class AtomList:
    """Atoms of one tilted loss.

    The variables: l the loss of an outcome; p its probability under P; s the tilt; v variance, k sensitivity; q
    the probability with which a record is in a sample.

    The weight of an atom is p exp(s l) / M, where M is about the sum of p exp(s l) over the list. The list leaves
    out atoms whose weights are below exp(-70) together with a bound on their sum.

    Attributes:
        losses: Their values.
        weights: p exp(s l) / M.
        log_scale: ln M; any float would do.
        relative: Bound on the relative error of every weight, against the float values in `losses`.
        slip: Bound on the error of every value.
        lost: Bound on the sum of the weights of all atoms left out.
    """

    losses: Floats
    weights: Floats
    log_scale: float
    relative: float
    slip: float
    lost: float


def listed(loss: Listable, tilt: float, *, coarse: bool = False) -> AtomList:
    """The atoms of one answer, or of one sample.

    A sampled loss follows from the loss b of the mechanism on the sample: P is (1 - q) Q + q P, so that l = ln(1
    - q + q exp(b)), and its probability is that of b under Q, times exp(l). If the record was added, the loss is
    -l and the probability that under Q.

    Example: randomized response of epsilon 1 on a sample with q = 1/2 has the losses ln((1 + e) / 2) and ln((1 +
    1 / e) / 2).

    Args:
        loss: Its multiplicity is not looked at.
        tilt: s, 0 or more.
        coarse: Take few atoms, to look for a tilt; the bounds do not hold then.

    Raises:
        SolverError: too many atoms matter.
    """
    if isinstance(loss, SampledLoss) and isinstance(loss.base, ChoiceLoss):
        return _listed_kinds(loss, tilt, coarse=coarse)
    base, sampled = (loss.base, loss) if isinstance(loss, SampledLoss) else (loss, None)
    match base:
        case GaussianLoss():
            log_first, b, slip, lost = _gaussian(base, sampled, tilt, coarse)
        case MixtureLoss() if base.is_integer:
            assert sampled is not None
            log_first, b, slip, lost = _mixture(base, sampled, tilt, coarse)
        # Laplace losses have k + 1 values, so nothing is left out there.
        case LaplaceLoss():
            log_first, b, slip, lost = _laplace(base, coarse)
        case ResponseLoss():
            log_first, b, slip, lost = _response(base)
        # A sample of a mechanism that releases nothing: a loss of 0 with certainty.
        case None:
            log_first, b, slip, lost = np.zeros(1), np.zeros(1), 0.0, 0.0
        case _:
            raise SolverError(f"a {type(base).__name__} has no list of atoms")
    size = float(np.abs(log_first).max()) + float(np.abs(b).max())
    log_p, losses = (log_first, b) if sampled is None else _with_sample(sampled, log_first - b, b)
    if sampled is not None:
        # The loss of a sample is a logarithm of a sum of exponentials: 16 units for exp, logaddexp and log together.
        slip += 16 * UNIT * (1 + float(np.abs(losses).max()))
    exponents = log_p + tilt * losses
    # The largest exponent is taken out before exp, which would overflow at large losses.
    highest = float(exponents.max())
    log_scale = highest + math.log(float(np.exp(exponents - highest).sum()))
    size += float(np.abs(losses).max()) * (1 + tilt) + abs(log_scale)
    # 12 units for each nat of an exponent: exp turns an absolute error of the exponent into a relative one.
    relative = UNIT * (100 + 12 * size) + slip
    if sampled is not None and sampled.changed:
        # The mass of a loss of 0 is what both halves leave of 1, so that it has the errors of all their masses. Its
        # weight has an error that is no larger: E exp(s L) is at least 1 for such a loss, as it has the same law as
        # minus the loss of the other neighbour.
        lost = 4 * lost + 3 * relative
    return AtomList(
        losses=losses,
        weights=np.exp(exponents - log_scale),
        log_scale=log_scale,
        relative=relative,
        slip=slip,
        lost=lost,
    )


def _listed_kinds(loss: SampledLoss, tilt: float, *, coarse: bool) -> AtomList:
    """The atoms of several kinds of samples, of which one is drawn."""
    kinds = [(log_of(share), listed(part, tilt, coarse=coarse)) for share, part in kinds_of(loss)]
    logs = np.array([log_share + law.log_scale for log_share, law in kinds])
    log_scale = float(np.logaddexp.reduce(logs))
    shares = np.exp(logs - log_scale)
    return AtomList(
        losses=np.concatenate([law.losses for _, law in kinds]),
        weights=np.concatenate([share * law.weights for share, (_, law) in zip(shares, kinds, strict=True)]),
        log_scale=log_scale,
        # Twelve units for each nat of the exponents that give a share.
        relative=max(law.relative for _, law in kinds) + UNIT * (100 + 12 * float(np.abs(logs).max())),
        slip=max(law.slip for _, law in kinds),
        lost=math.fsum(float(share) * law.lost for share, (_, law) in zip(shares, kinds, strict=True)) * 1.01,
    )


def _with_sample(sampled: SampledLoss, log_second: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Log probabilities and losses of a sampled mechanism, given that they are finite; `log_second` is under Q."""
    q, failure = sampled.probability, sampled.failure
    # log1p where q is small, log of the exact 1 - q where it is near 1: each keeps its digits.
    log_keep = -math.inf if q == 1 else math.log1p(-float(q)) if 2 * q < 1 else math.log(1 - q)
    # ln(1 - q + q exp(b)) from two logarithms, so that no exp of a large b is ever taken.
    grown = np.logaddexp(log_keep, math.log(q) + b)
    if sampled.changed:
        # Losses of the mechanism are 0 exactly, or far from 0 beside their rounding.
        log_second, grown = log_second[b > 0], grown[b > 0]
        stays = 1 - math.fsum([*np.exp(log_second), *np.exp(log_second + grown)])
        log_p = np.concatenate([log_second + grown, log_second, [math.log(max(stays, _LEAST_REST))]])
        return log_p, np.concatenate([grown, -grown, [0.0]])
    log_p, losses = (log_second, -grown) if sampled.added else (log_second + grown, grown)
    if not failure:
        return log_p, losses
    # One more outcome: everything is revealed, but the record is not in the sample.
    # A failure while the record is in the sample is counted apart (`_failures` in `choose`): what remains has the
    # probability 1 - q f under P, or 1 if the record was added.
    whole = 0.0 if sampled.added else math.log(1 - q * failure)
    chance = math.log(failure) if sampled.added else math.log(failure) + log_keep
    log_p = np.append(log_p + math.log(1 - failure), chance) - whole
    return log_p, np.append(losses, -log_keep if sampled.added else log_keep)


def _gaussian(
    base: GaussianLoss, sampled: SampledLoss | None, tilt: float, coarse: bool
) -> tuple[Floats, Floats, float, float]:
    """Log probabilities under P, losses, the error of these, and the weight left out."""
    if not base.variance >= _LEAST_VARIANCE or base.offset > LARGEST_LOSS:
        raise _too_small(float(base.variance))
    v, k = float(base.variance), float(base.sensitivity)
    # Under P and under Q the law is centred at 0 and at -k; tilting moves each by tilt * k.
    centre, low, high = 0.0, tilt * k, tilt * k
    if sampled is not None:  # in terms of the law under Q, whose centre is -k
        centre = -k
        low, high = (-k - tilt * k, -k) if sampled.added else (-k, tilt * k)
    x, stride = _whole_numbers(
        v,
        (low, high),
        coarse,
        None
        if sampled is None
        else (sampled, tilt, centre, lambda x: float(base.offset) + float(base.step) * x),
    )
    half = float(1 / (2 * base.variance))
    log_first = -half * x * x - _log_sum(v) + math.log(stride)
    b = float(base.offset) + float(base.step) * x
    # step * x is rounded: the largest place bounds it for all.
    slip = 4 * UNIT * float(base.offset + base.step * int(np.abs(x).max()))
    # What lies outside falls by exp(-12 / sigma) or more from one place to the next, on either side.
    return log_first, b, slip, math.exp(-_LEFT_OUT) * (x.size + 4 * math.sqrt(v) + 4) * 4


def _mixture(
    base: MixtureLoss, sampled: SampledLoss, tilt: float, coarse: bool
) -> tuple[Floats, Floats, float, float]:
    """The same for noise that is moved by one of several distances; x is counted from the centre of the law under Q."""
    v, k = float(base.variance), float(base.shares[-1][0])
    parts = [
        (log_of(share), float(move / base.variance), float(move**2 / (2 * base.variance)))
        for move, share in base.shares
    ]
    if not base.variance >= _LEAST_VARIANCE or parts[-1][2] > LARGEST_LOSS:
        raise _too_small(v)

    def loss(x: Floats) -> Floats:
        summed: Floats = np.logaddexp.reduce(
            [log_share + step * x - offset for log_share, step, offset in parts]
        )
        return summed

    ends = (-tilt * k, 0.0) if sampled.added else (0.0, (1 + tilt) * k)
    x, stride = _whole_numbers(v, ends, coarse, (sampled, tilt, 0.0, loss))
    half = float(1 / (2 * base.variance))
    b = loss(x)
    log_first = -half * x * x - _log_sum(v) + math.log(stride) + b
    # Each part is off by four units of its terms, and each logaddexp by as many of its result.
    size = parts[-1][1] * float(np.abs(x).max()) + parts[-1][2] - parts[0][0] + float(np.abs(b).max())
    slip = 4 * UNIT * (size + len(parts) * (float(np.abs(b).max()) + 1))
    return log_first, b, slip, math.exp(-_LEFT_OUT) * (x.size + 4 * math.sqrt(v) + 4) * 4


def _whole_numbers(
    v: float,
    ends_of_centres: tuple[float, float],
    coarse: bool,
    sample: tuple[SampledLoss, float, float, Callable[[Floats], Floats]] | None,
) -> tuple[Floats, int]:
    """The places of noise that matter, and how far they are apart.

    Args:
        v: Variance.
        ends_of_centres: Where the tilted law may be centred.
        coarse: Take few places.
        sample: For a sample: itself, the tilt, the centre under Q, and the loss on the sample at a place.
    """
    sigma, (low, high) = math.sqrt(v), ends_of_centres
    # _REACH deviations hold all but exp(-70), and 2 for the whole numbers beside the ends.
    ends = (low - _REACH * sigma - 2, high + _REACH * sigma + 2)
    if ends[1] - ends[0] > _WIDEST * sigma + 1000:
        raise SolverError(
            f"a loss spreads over {(ends[1] - ends[0]) / sigma:.3g} standard deviations at one tilt; at most "
            f"{_WIDEST:g} are supported. Account for noise that protects nobody apart from the rest."
        )
    # Of a sample of fixed size all places count, for the mass of a loss of 0.
    if sample is not None and not sample[0].changed and sigma > _FEW:
        ends = _that_matter(v, ends, *sample)
    # Only for a coarse list: every sigma / 200 values one, with their weight multiplied by the stride, hence
    # log(stride).
    stride = max(1, int(sigma / _FEW)) if coarse else 1
    first, last = math.floor(ends[0]), math.ceil(ends[1])
    if (last - first) // stride > MOST_ATOMS:
        raise SolverError(
            f"a loss takes {last - first} values that matter, more than the {MOST_ATOMS} that are supported."
        )
    return np.arange(first, last + 1, stride, dtype=np.float64), stride


def _that_matter(
    v: float,
    ends: tuple[float, float],
    sampled: SampledLoss,
    tilt: float,
    centre: float,
    loss: Callable[[Floats], Floats],
) -> tuple[float, float]:
    """The stretch of x outside of which every weight is below exp(-70) times the largest one.

    A weight's logarithm is a concave parabola plus a monotone function of x. In a cell neither exceeds its value at the
    better end, or, for the parabola, at its top.
    """
    x = np.linspace(*ends, _CELLS + 1)
    parabola = -((x - centre) ** 2) / (2 * v)
    b = loss(x)
    _, losses = _with_sample(SampledLoss(None, sampled.probability), np.zeros_like(b), b)
    bent = -tilt * losses if sampled.added else (1 + tilt) * losses
    # Inside a cell the parabola is above both ends only where the cell holds its top.
    top = np.where((x[:-1] <= centre) & (x[1:] >= centre), 0.0, np.maximum(parabola[:-1], parabola[1:]))
    most = top + np.maximum(bent[:-1], bent[1:])
    # Every cell whose bound is within 70 nats of the best one, and one more for rounding.
    places = np.flatnonzero(most > float((parabola + bent).max()) - _LEFT_OUT - 1)
    return float(x[places[0]]), float(x[places[-1] + 1])


def _too_small(variance: float) -> SolverError:
    return SolverError(
        f"the variance {variance:.3g} of a loss is too small for this engine, which lists what an answer may lose. "
        "Account for noise that protects nobody apart from the rest."
    )


def _log_sum(variance: float) -> float:
    """ln of the sum of exp(-x^2 / (2 v)) over all whole numbers."""
    # Above a variance of 2 the integral is the sum to exp(-39), beyond any float.
    if variance >= _FLAT:
        return math.log(2 * math.pi * variance) / 2
    reach = math.ceil(math.sqrt(160 * variance)) + 2
    return math.log(sum(math.exp(-x * x / (2 * variance)) for x in range(-reach, reach + 1)))


def _laplace(base: LaplaceLoss, coarse: bool) -> tuple[Floats, Floats, float, float]:
    k, rate = base.sensitivity, float(1 / base.scale)
    if k > MOST_ATOMS:
        raise SolverError(f"a loss takes {k + 1} values, more than the {MOST_ATOMS} that are supported.")
    j = np.arange(k + 1, dtype=np.float64)
    log_first = -rate * j
    if k > 1:
        log_first[1:-1] += math.log(-math.expm1(-rate))
    log_first -= math.log1p(math.exp(-rate))
    b = float(1 / base.scale) * (k - 2 * j)
    # Coarse: 800 places out of many, each with the weight of the gap it stands for.
    if coarse and k > 4 * _FEW:
        places = np.unique(np.linspace(0, k, int(4 * _FEW)).round().astype(np.int64))
        more = np.where((places == 0) | (places == k), 0.0, math.log(k / places.size))
        return log_first[places] + more, b[places], 0.0, 0.0
    return log_first, b, 4 * UNIT * k * rate, 0.0


def _response(base: ResponseLoss) -> tuple[Floats, Floats, float, float]:
    epsilon, others = float(base.epsilon), base.options - 2
    # Of the options one has the weight exp(epsilon) under P, one under Q, and all others 1, so that their loss is 0.
    whole = epsilon + math.log1p((base.options - 1) * math.exp(-epsilon))
    log_first = np.array([epsilon - whole, math.log(others) - whole, -whole])
    return log_first, np.array([epsilon, 0.0, -epsilon]), 4 * UNIT * epsilon, 0.0


LENGTH: Final = 1 << 19
"""Points of the grid: a transform takes 10 ms. Epsilon's upper end is off by the square of the step, its lower end by
the step or more: with twice the points a quarter, and a half at most, of that."""

_OUTSIDE: Final = 48.0
"""Minus the logarithm of the mass outside of the window that is aimed at."""

_SCALES: Final = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0)
"""Tilts that are tried in Chernoff's bound, in units of the best one for a normal loss."""

# Laws of tilts that are kept: 4 MiB each. Twice doubles that.
_CACHED: Final = 16
# Nats by which Chernoff's bound at the chosen tilt may exceed the least one; see `_tilt`.
_SPARE: Final = 4.0
# Halvings of a bracket of tilts: 2^-24 of it is left. Every tilt gives bounds, so this decides no correctness.
_HALVINGS: Final = 24
_FARTHEST: Final = 1e9  # the largest tilt, in units of the deviation
_SMALL: Final = 25.0  # minus the logarithm of the tail of T, relative to delta
# Shells around epsilon, in units of sqrt(A): more of them follow exp(-x^2 / 2) more closely,
# and each one is a sum over its part of the grid.
_SHELLS: Final = (1.0, 2.0, 3.0, 4.0, 6.0)
_AROUND: Final = 2.0
"""Distances from epsilon, in units of the standard deviation of T, at which what dividing adds is bounded."""

_STEEPEST: Final = 600.0
"""Largest exponent that is computed: exp(709) is the largest float, and 600 leaves room for a hundred orders of it."""


@dataclass(frozen=True, slots=True)
class GriddedLaw:
    """The tilted law of the loss on the grid.

    Attributes:
        tilt: s.
        step: g.
        first: Place of the first weight: its loss is first * g.
        weights: Mass of each point times exp(s L' - log_scale).
        log_scale: From both sides.
        entry_error: Bound on the error of each weight.
        lost: Bound on the tilted mass left out: outside of the window, or of the lists.
        relative: Bound on the logarithm of a factor by which all masses may be off.
        slip: Bound on the error of the total loss.
        spread: n (g / 2)^2, about, and not below 4 n sinh(g / 4)^2.
        deviation: Standard deviation of the tilted loss, about.
    """

    tilt: float
    step: float
    first: int
    weights: Floats
    log_scale: Bounds
    entry_error: float
    lost: float
    relative: float
    slip: float
    spread: float
    deviation: float


class Gridded:
    """Certified delta of a composition of losses that can be listed.

    The variables: g the step of the grid, a power of two; s >= 0 the tilt; L' the loss on the grid; N the length
    of the transform; T = L' - L.

    The steps:

    1. List the atoms of each kind of loss, tilted by s (`listed`).
    2. Divide each atom between the two grid points beside it, so that its mass under P and under Q stays the
       same. This raises delta (docs/proofs/accounting-rounding.md says why).
    3. Transform each kind of loss, raise it to its multiplicity, multiply, and transform back.
    4. Sum as the tilted FFT does. The sum is an upper bound.
    5. A lower bound is the sum minus what dividing may have added. Given the losses, exp(-T) has mean 1, and T is
       about as large as sqrt(A) with A = n g^2 / 4. So dividing adds at most sqrt(A) / 2 at a loss near epsilon,
       and less than exp(-x^2 / 2) at one that lies x sqrt(A) away (docs/proofs/real-noise.md, section 3).

    Example: a thousand samples with q = 1/100 of normal noise with mu = 1 have a total loss with a standard
    deviation of 0.4. Then g is about 1e-4 and sqrt(A) about 2e-3. Epsilon is known to about 1e-4.

    Args:
        law: The losses, equal ones merged.
        length: Points of the grid, a power of two.
    """

    name = "gridded"

    def __init__(self, law: tuple[Listable, ...], length: int = LENGTH) -> None:
        self.law = law
        self.length = length
        self.greatest = greatest_bounds(law).upper
        self._laws: dict[float, GriddedLaw] = {}
        self._moments: dict[float, tuple[float, float, float]] = {}

    def log_tails(self, epsilon: float | Fraction) -> Tails:
        """Certified tails above `epsilon`; both probabilities follow from delta and are known to a few per cent."""
        return tails_by_chords(self, epsilon, 0.02 * self._at(0.0)[2])

    def log_deltas(self, epsilons: Sequence[float | Fraction]) -> ManyBounds:
        """Certified ln delta at each epsilon."""
        return ManyBounds.of([self._log_delta(within_floats(epsilon)) for epsilon in epsilons])

    def _log_delta(self, epsilon: Fraction) -> Bounds:
        if epsilon >= self.greatest:
            return NOTHING
        law = self._gridded(self._tilt(float(epsilon)))
        slip = Fraction(law.slip)
        # Delta falls with epsilon: a loss that may be off is asked for at the safe side of it.
        total, error = _summed(law, epsilon - slip)
        upper = _logarithm(total + error, law, epsilon - slip, 1)
        total, error = _summed(law, epsilon + slip)
        log_upper = min(0.0, upper)
        lower = _logarithm(total - error - _excess(law, epsilon + slip, log_upper), law, epsilon + slip, -1)
        return Bounds(min(lower, log_upper), log_upper)

    def _gridded(self, tilt: float) -> GriddedLaw:
        if tilt not in self._laws:
            while len(self._laws) >= _CACHED:
                self._laws.pop(next(iter(self._laws)))
            self._laws[tilt] = gridded_law(self.law, tilt, self.length)
        return self._laws[tilt]

    def _at(self, tilt: float) -> tuple[float, float, float]:
        """About the log moment, the mean and the deviation of the tilted loss; infinite if it is too far out."""
        if tilt not in self._moments:
            log_moment = mean = variance = 0.0
            try:
                for loss in self.law:
                    atoms = listed(loss, tilt, coarse=True)
                    middle = float(atoms.weights @ atoms.losses)
                    log_moment += loss.multiplicity * atoms.log_scale
                    mean += loss.multiplicity * middle
                    variance += loss.multiplicity * float(atoms.weights @ (atoms.losses - middle) ** 2)
            except SolverError:
                # An infinite mean ends the doubling of a search, and the tilt is never used.
                log_moment = mean = math.inf
            self._moments[tilt] = log_moment, mean, math.sqrt(max(variance, 1e-300))
        return self._moments[tilt]

    def _tilt(self, epsilon: float) -> float:
        """A tilt of 0 or more, below the one whose mean is epsilon, from a grid that neighbouring epsilons share.

        At the latter, Chernoff's bound is least. The smallest tilt is taken at which it is at most exp(4) times as
        large. There delta keeps its digits, and the law fits into a narrow window.
        """
        most = self._saddle(epsilon)

        def size(tilt: float) -> float:
            return self._at(tilt)[0] - tilt * epsilon

        limit = size(most) + _SPARE
        if not most or limit >= 0:
            return 0.0
        low, high = 0.0, most
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if size(middle) <= limit else (middle, high)
        # Eight tilts for each doubling: neighbouring epsilons find theirs among the laws that are kept.
        grid = 2.0 ** (math.floor(math.log2(high)) - 3)
        return min(math.ceil(high / grid) * grid, most)

    def _saddle(self, epsilon: float) -> float:
        """About the tilt whose mean is epsilon, 0 if that is below 0."""
        _, mean, deviation = self._at(0.0)
        if mean >= epsilon:
            return 0.0
        low, high = 0.0, 1 / deviation
        while self._at(high)[1] < epsilon and high < _FARTHEST / deviation:
            low, high = high, 2 * high
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            _, mean, deviation = self._at(middle)
            if abs(mean - epsilon) <= deviation / 4:
                return middle
            low, high = (middle, high) if mean < epsilon else (low, middle)
        return low


def gridded_law(losses: tuple[Listable, ...], tilt: float, length: int = LENGTH) -> GriddedLaw:
    """The law of the sum of losses, tilted, on the grid."""
    lists = [(listed(loss, tilt), loss.multiplicity) for loss in losses]
    mean = sum(n * float(atoms.weights @ atoms.losses) for atoms, n in lists)
    variance = sum(
        n * float(atoms.weights @ (atoms.losses - float(atoms.weights @ atoms.losses)) ** 2)
        for atoms, n in lists
    )
    most = sum(n * float(np.abs(atoms.losses).max()) for atoms, n in lists)
    # Of a single atom it would be 0, and Chernoff's tilts are divided by its root.
    variance = max(variance, (1e-6 * most) ** 2)
    # At most a law is as wide as its largest loss on either side.
    few = [(listed(loss, tilt, coarse=True), loss.multiplicity) for loss in losses]
    low = max(mean - _reach(few, mean, variance, -1), -1.001 * most)
    high = min(mean + _reach(few, mean, variance, 1), 1.001 * most)
    # A power of two, so that the place of a float atom is exact; 64 points are left at the ends.
    step = 2.0 ** math.ceil(math.log2(max(high - low, 1e-280) / (length - 64)))
    if tilt * step > _STEEPEST:
        # Dividing an atom multiplies its upper part by up to exp(s g). Every tilt gives bounds, so take one that fits.
        return gridded_law(losses, _STEEPEST / step, length)
    spare = (length * step - (high - low)) / 2
    low, high = low - spare, high + spare
    divided = [(_Divided.of(atoms, tilt, step), n) for atoms, n in lists]
    first = math.floor(low / step) + 1
    outside = _beyond(divided, step, high - step, variance, 1) + _beyond(
        divided, step, low + step, variance, -1
    )
    # Whatever wraps around lies outside of the window, and is part of `outside`.
    weights, entry_error = _added_up(divided, first, length)
    answers = sum(n for _, n in lists)
    log_scale = math.fsum(n * atoms.log_scale for atoms, n in lists)
    slack = 4 * UNIT * math.fsum(n * abs(atoms.log_scale) for atoms, n in lists)
    return GriddedLaw(
        tilt=tilt,
        step=step,
        first=first,
        weights=weights,
        log_scale=Bounds(log_scale - slack, log_scale + slack),
        entry_error=entry_error,
        lost=4 * outside + 2 * sum(n * atoms.lost for atoms, n in lists),
        relative=1.01
        * sum(
            n * (atoms.relative + parts.relative)
            for (atoms, n), (parts, _) in zip(lists, divided, strict=True)
        ),
        slip=1.01 * sum(n * atoms.slip for atoms, n in lists),
        spread=1.001 * answers * 4 * math.sinh(step / 4) ** 2 if step < _STEEPEST else math.inf,
        deviation=math.sqrt(variance),
    )


@dataclass(frozen=True, slots=True)
class _Divided:
    """Atoms divided between grid points.

    Attributes:
        cells: Places of the grid points below atoms, ascending.
        down: Weight that goes there.
        up: Weight that goes to the next point.
        relative: Bound on the relative error of these, and of the sum of those that fall on one point.
    """

    cells: Floats
    down: Floats
    up: Floats
    relative: float

    @classmethod
    def of(cls, atoms: AtomList, tilt: float, step: float) -> "_Divided":
        turns = atoms.losses / step  # exact, since the step is a power of two
        cells = np.floor(turns)
        part = turns - cells
        # Shares 1 - t and t of accounting-rounding.md, times exp(s move), as the weights are tilted.
        whole = math.expm1(-step)
        down = atoms.weights * np.exp(-(tilt + 1) * step * part) * (np.expm1(-(1 - part) * step) / whole)
        up = atoms.weights * np.exp(tilt * step * (1 - part)) * (np.expm1(-part * step) / whole)
        # Atoms of one cell are added up at once, as there may be many more atoms than cells.
        cells, places, counts = np.unique(cells, return_inverse=True, return_counts=True)
        relative = UNIT * (120 + 8 * (tilt + 1) * step + 2 * int(counts.max()))
        below, above = (
            np.bincount(places, weights=part).astype(np.float64, copy=False) for part in (down, up)
        )
        return cls(cells, below, above, relative)


def _reach(lists: list[tuple[AtomList, int]], mean: float, variance: float, side: int) -> float:
    """Distance from the mean, on one side, that holds all but little of the law: Chernoff's bound, in floats."""
    # It only aims: what really lies outside is bounded by `_beyond`, on the divided atoms.
    best = math.inf
    shares = [(n, _logarithms(atoms.weights), atoms.losses) for atoms, n in lists]
    for scale in _SCALES:
        t = scale * math.sqrt(2 * _OUTSIDE / variance)
        log_moment = sum(n * _log_mean(logs, side * t * losses) for n, logs, losses in shares)
        best = min(best, (log_moment - side * t * mean + _OUTSIDE + 2) / t)
    return best


def _beyond(
    divided: list[tuple[_Divided, int]], step: float, end: float, variance: float, side: int
) -> float:
    """Bound on the weight of all places on one side of an end: none, or Chernoff's bound."""
    farthest = sum(
        n * int(max(side * atoms.cells.max(), side * atoms.cells.min()) + 1) for atoms, n in divided
    )
    # No sum of so many places reaches beyond the end.
    if math.floor(side * end / step) > farthest:
        return 0.0
    shares = [(n, atoms.cells, _logarithms(atoms.down), _logarithms(atoms.up)) for atoms, n in divided]
    # The logarithm of 1: no tilted mass is larger, whichever tilts are tried.
    best = 0.0
    for scale in _SCALES:
        t = scale * math.sqrt(2 * _OUTSIDE / max(variance, step * step))
        logs = [
            (
                n,
                _log_mean(down, side * t * step * cells),
                _log_mean(up, side * t * step * (cells + 1)),
            )
            for n, cells, down, up in shares
        ]
        parts = [n * float(np.logaddexp(down, up)) for n, down, up in logs]
        size = math.fsum(n * (abs(down) + 2) for n, down, _ in logs) + abs(t * end)
        best = min(best, math.fsum(parts) - side * t * end + 1e-12 * size)
    return math.exp(best)


def _logarithms(weights: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        logs: Floats = np.log(weights)
    return logs


def _log_mean(logs: Floats, exponents: Floats) -> float:
    """ln of the sum of exp(logs + exponents)."""
    summed = logs + exponents
    highest = float(summed.max())
    if highest == -math.inf:
        return -math.inf
    summed -= highest
    return highest + math.log(float(np.exp(summed, out=summed).sum()))


def _added_up(divided: list[tuple[_Divided, int]], first: int, length: int) -> tuple[Floats, float]:
    """Weights of the sum on a cycle of places that begins with `first`, and a bound on the error of each."""
    from scipy import fft  # here, since most compositions need no transform and the import takes long

    if len(divided) == 1 and divided[0][1] == 1:
        weights = np.roll(_on_cycle(divided[0][0], length), -(first % length))
        weights.flags.writeable = False
        return weights, 0.0
    product: Complexes = np.ones(length // 2 + 1, dtype=np.complex128)
    size, off = np.ones(product.size), np.zeros(product.size)
    for atoms, n in divided:
        # Places are whole numbers on a cycle, so that a shift costs no rounding.
        mass = _on_cycle(atoms, length)
        values = fft.rfft(mass, workers=1)
        slip = np.full(values.size, fft_error(length) * float(mass.sum()) * 1.01)
        raised, error = power_with_error(values, np.abs(values), slip, n)
        moduli = np.abs(raised)
        if not np.isfinite(error).all():
            return np.zeros(length), math.inf
        off = size * error + off * (moduli + error) + 8 * UNIT * size * moduli
        size = size * moduli
        product = product * raised
    weights = np.roll(fft.irfft(product, length, workers=1), -(first % length))
    # Read-only, since the law is kept and shared by later epsilons.
    weights.flags.writeable = False
    return weights, 1.01 * (2 * float(off.mean()) + fft_error(length) * 2 * float(size.mean()))


def _on_cycle(atoms: _Divided, length: int) -> Floats:
    """The divided weights of one answer, on a cycle of places that begins with 0."""
    places = np.mod(atoms.cells, length).astype(np.int64)
    mass: Floats = np.bincount(places, weights=atoms.down, minlength=length).astype(np.float64, copy=False)
    return mass + np.roll(np.bincount(places, weights=atoms.up, minlength=length), 1)


def _summed(law: GriddedLaw, epsilon: Fraction) -> tuple[float, float]:
    """The sum of weights above epsilon, in units of exp(log_scale - s epsilon), and a bound on its error."""
    step = Fraction(law.step)
    index = epsilon // step + 1
    gap = float(index * step - epsilon)
    begin = min(max(index - law.first, 0), law.weights.size)
    distance = gap + law.step * np.arange(
        begin - (index - law.first), law.weights.size - (index - law.first), dtype=np.float64
    )
    # Positive terms only, each relative to epsilon, so that no digits cancel.
    values = np.exp(-law.tilt * distance) * -np.expm1(-distance)
    terms = law.weights[begin:] * values
    rounding = UNIT * float((np.abs(terms) * (8 * law.tilt * distance + 80)).sum())
    return float(terms.sum()), 1.01 * (
        law.entry_error * max(float(values.sum()), 1e-300) + law.lost + rounding
    )


def _excess(law: GriddedLaw, epsilon: Fraction, log_delta: float) -> float:
    """Bound on what dividing added to the sum, in the same units; infinite where nothing is known."""
    if log_delta == -math.inf:
        return 0.0
    if law.spread > _STEEPEST:
        return math.inf
    # Relative to delta itself, so that what is neglected stays exp(-25) of it.
    root, tail = math.sqrt(law.spread), _SMALL - log_delta
    far = law.tilt * float(epsilon) - law.log_scale.lower - tail
    farthest = math.sqrt(2 * tail)
    if max((farthest + _AROUND + 1) * root * law.tilt, far) > _STEEPEST:
        return math.inf
    places = [x for x in _SHELLS if x < farthest] + [farthest]
    heights = [math.sqrt(math.expm1(law.spread)) / 2, *(_height(x, law.spread) for x in places)]
    # The proof sums differences of heights that do not rise.
    heights = np.minimum.accumulate(heights).tolist()
    near = 0.0
    for x, inner, outer in zip(places, heights[:-1], heights[1:], strict=True):
        near += (inner - outer) * _mass(law, epsilon, (x + _AROUND + root) * root)
    # Of the losses within x of epsilon, more than this share stay within x + 2 on the grid.
    share = 1 - 2 * math.exp(-(_AROUND**2) / 2)
    return 1.01 * (near / share + 2 * math.exp(far))


def _height(x: float, spread: float) -> float:
    """Bound on what dividing adds at losses that lie x times sqrt(spread), and half of spread, from epsilon."""
    power = x / math.sqrt(spread)
    log_most = -power * math.log1p(1 / power) - math.log1p(power)
    return math.exp(log_most - x * x / 2)


def _mass(law: GriddedLaw, epsilon: Fraction, reach: float) -> float:
    """The mass on the grid within a reach of epsilon, in units of exp(log_scale - s epsilon), rounded up."""
    step, wide = Fraction(law.step), Fraction(reach)
    begin = max((epsilon - wide) // step - law.first, 0)
    end = min((epsilon + wide) // step + 2 - law.first, law.weights.size)
    if end <= begin:
        return law.lost * math.exp(reach * law.tilt)
    nearest = float((law.first + begin) * step - epsilon)
    values = np.exp(-law.tilt * (nearest + law.step * np.arange(end - begin, dtype=np.float64)))
    near = float((np.abs(law.weights[begin:end]) * values).sum())
    return 1.001 * (near + law.entry_error * float(values.sum()) + law.lost * math.exp(reach * law.tilt))


def _logarithm(value: float, law: GriddedLaw, epsilon: Fraction, side: int) -> float:
    """ln of a sum in units of exp(log_scale - s epsilon), rounded to one side."""
    if not value > 0 or value == math.inf:
        return -math.inf if side < 0 else 0.0
    with precision(128):
        # The exact product: in floats its rounding alone could exceed the width of the bounds.
        shift = float_bounds(rational(Fraction(law.tilt) * epsilon))
    scale = law.log_scale.upper - shift.lower if side > 0 else law.log_scale.lower - shift.upper
    part = math.log(value)
    slack = law.relative + 8 * UNIT * (abs(part) + abs(scale) + 1)
    return part + scale + side * slack
