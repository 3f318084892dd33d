"""One loss as a list of atoms: its values and their tilted probabilities, in floats with bounds on their errors.

The variables: l the loss of an outcome; p its probability under P; s the tilt; v variance, k sensitivity; q the
probability with which a record is in a sample.

The weight of an atom is p exp(s l) / M, where M is about the sum of p exp(s l) over the list. The list leaves out atoms
whose weights are below exp(-70) together with a bound on their sum.

A sampled loss follows from the loss b of the mechanism on the sample: P is (1 - q) Q + q P, so that l = ln(1 - q + q
exp(b)), and its probability is that of b under Q, times exp(l). If the record was added, the loss is -l and the
probability that under Q.

Example: randomized response of epsilon 1 on a sample with q = 1/2 has the losses ln((1 + e) / 2) and
ln((1 + 1 / e) / 2).
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias

import numpy as np

from tallyveil.accounting.engines.loss_transform import UNIT
from tallyveil.accounting.further_events import LARGEST_LOSS
from tallyveil.accounting.losses.factors import GaussianLoss, LaplaceLoss
from tallyveil.accounting.losses.further import ResponseLoss, SampledLoss
from tallyveil.arrays import Floats
from tallyveil.errors import SolverError

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
_FLAT: Final = 2.0  # variance from which the sum of exp(-x^2 / (2 v)) is sqrt(2 pi v), but for exp(-2 pi^2 v)

Listable: TypeAlias = GaussianLoss | LaplaceLoss | ResponseLoss | SampledLoss


@dataclass(frozen=True, slots=True)
class AtomList:
    """Atoms of one tilted loss.

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

    Args:
        loss: Its multiplicity is not looked at.
        tilt: s, 0 or more.
        coarse: Take few atoms, to look for a tilt; the bounds do not hold then.

    Raises:
        SolverError: too many atoms matter.
    """
    base, sampled = (loss.base, loss) if isinstance(loss, SampledLoss) else (loss, None)
    match base:
        case GaussianLoss():
            log_first, b, slip, lost = _gaussian(base, sampled, tilt, coarse)
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
    return AtomList(
        losses=losses,
        weights=np.exp(exponents - log_scale),
        log_scale=log_scale,
        # 12 units for each nat of an exponent: exp turns an absolute error of the exponent into a relative one.
        relative=UNIT * (100 + 12 * size) + slip,
        slip=slip,
        lost=lost,
    )


def _with_sample(sampled: SampledLoss, log_second: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Log probabilities and losses of a sampled mechanism, given that they are finite; `log_second` is under Q."""
    q, failure = sampled.probability, sampled.failure
    # log1p where q is small, log of the exact 1 - q where it is near 1: each keeps its digits.
    log_keep = math.log1p(-float(q)) if 2 * q < 1 else math.log(1 - q)
    # ln(1 - q + q exp(b)) from two logarithms, so that no exp of a large b is ever taken.
    grown = np.logaddexp(log_keep, math.log(q) + b)
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
        raise SolverError(
            f"the variance {float(base.variance):.3g} of a loss is too small for this engine, which lists what an "
            "answer may lose. Account for noise that protects nobody apart from the rest."
        )
    v, k = float(base.variance), float(base.sensitivity)
    # Under P and under Q the law is centred at 0 and at -k; tilting moves each by tilt * k.
    centre, low, high = 0.0, tilt * k, tilt * k
    if sampled is not None:  # in terms of the law under Q, whose centre is -k
        centre = -k
        low, high = (-k - tilt * k, -k) if sampled.added else (-k, tilt * k)
    sigma = math.sqrt(v)
    # _REACH deviations hold all but exp(-70), and 2 for the whole numbers beside the ends.
    ends = (low - _REACH * sigma - 2, high + _REACH * sigma + 2)
    if ends[1] - ends[0] > _WIDEST * sigma + 1000:
        raise SolverError(
            f"a loss spreads over {(ends[1] - ends[0]) / sigma:.3g} standard deviations at one tilt; at most "
            f"{_WIDEST:g} are supported. Account for noise that protects nobody apart from the rest."
        )
    if sampled is not None and sigma > _FEW:
        ends = _that_matter(base, sampled, tilt, ends, centre)
    # Only for a coarse list: every sigma / 200 values one, with their weight multiplied by the stride, hence
    # log(stride).
    stride = max(1, int(sigma / _FEW)) if coarse else 1
    first, last = math.floor(ends[0]), math.ceil(ends[1])
    if (last - first) // stride > MOST_ATOMS:
        raise SolverError(
            f"a loss takes {last - first} values that matter, more than the {MOST_ATOMS} that are supported."
        )
    x = np.arange(first, last + 1, stride, dtype=np.float64)
    half = float(1 / (2 * base.variance))
    log_first = -half * x * x - _log_sum(v) + math.log(stride)
    b = float(base.offset) + float(base.step) * x
    # step * x is rounded: the largest place bounds it for all.
    slip = 4 * UNIT * float(base.offset + base.step * max(abs(first), abs(last)))
    # What lies outside falls by exp(-12 / sigma) or more from one place to the next, on either side.
    return log_first, b, slip, math.exp(-_LEFT_OUT) * (x.size + 4 * sigma + 4) * 4


def _that_matter(
    base: GaussianLoss, sampled: SampledLoss, tilt: float, ends: tuple[float, float], centre: float
) -> tuple[float, float]:
    """The stretch of x outside of which every weight is below exp(-70) times the largest one.

    A weight's logarithm is a concave parabola plus a convex function of x. In a cell neither exceeds its value at the
    better end, or, for the parabola, at its top.
    """
    v = float(base.variance)
    x = np.linspace(*ends, _CELLS + 1)
    parabola = -((x - centre) ** 2) / (2 * v)
    b = float(base.offset) + float(base.step) * x
    _, losses = _with_sample(SampledLoss(None, sampled.probability), np.zeros_like(b), b)
    bent = -tilt * losses if sampled.added else (1 + tilt) * losses
    # Inside a cell the parabola is above both ends only where the cell holds its top.
    top = np.where((x[:-1] <= centre) & (x[1:] >= centre), 0.0, np.maximum(parabola[:-1], parabola[1:]))
    most = top + np.maximum(bent[:-1], bent[1:])
    # Every cell whose bound is within 70 nats of the best one, and one more for rounding.
    places = np.flatnonzero(most > float((parabola + bent).max()) - _LEFT_OUT - 1)
    return float(x[places[0]]), float(x[places[-1] + 1])


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
