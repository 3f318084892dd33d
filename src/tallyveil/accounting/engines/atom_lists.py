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

MOST_ATOMS: Final = 1 << 22
_LEFT_OUT: Final = 70.0
_REACH: Final = 12.2  # standard deviations: exp(-reach^2 / 2) < exp(-70)
_CELLS: Final = 4096  # of the look for atoms that matter
_WIDEST: Final = 400.0  # standard deviations that may be looked at
_FEW: Final = 200.0  # atoms for each standard deviation of a coarse list
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
        case LaplaceLoss():
            log_first, b, slip, lost = _laplace(base, coarse)
        case ResponseLoss():
            log_first, b, slip, lost = _response(base)
        case None:
            log_first, b, slip, lost = np.zeros(1), np.zeros(1), 0.0, 0.0
        case _:
            raise SolverError(f"a {type(base).__name__} has no list of atoms")
    size = float(np.abs(log_first).max()) + float(np.abs(b).max())
    log_p, losses = (log_first, b) if sampled is None else _with_sample(sampled, log_first - b, b)
    if sampled is not None:
        slip += 16 * UNIT * (1 + float(np.abs(losses).max()))
    exponents = log_p + tilt * losses
    highest = float(exponents.max())
    log_scale = highest + math.log(float(np.exp(exponents - highest).sum()))
    size += float(np.abs(losses).max()) * (1 + tilt) + abs(log_scale)
    return AtomList(
        losses=losses,
        weights=np.exp(exponents - log_scale),
        log_scale=log_scale,
        relative=UNIT * (100 + 12 * size) + slip,
        slip=slip,
        lost=lost,
    )


def _with_sample(sampled: SampledLoss, log_second: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Log probabilities and losses of a sampled mechanism, given that they are finite; `log_second` is under Q."""
    q, failure = sampled.probability, sampled.failure
    log_keep = math.log1p(-float(q)) if 2 * q < 1 else math.log(1 - q)
    grown = np.logaddexp(log_keep, math.log(q) + b)
    log_p, losses = (log_second, -grown) if sampled.added else (log_second + grown, grown)
    if not failure:
        return log_p, losses
    # One more outcome: everything is revealed, but the record is not in the sample.
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
    centre, low, high = 0.0, tilt * k, tilt * k
    if sampled is not None:  # in terms of the law under Q, whose centre is -k
        centre = -k
        low, high = (-k - tilt * k, -k) if sampled.added else (-k, tilt * k)
    sigma = math.sqrt(v)
    ends = (low - _REACH * sigma - 2, high + _REACH * sigma + 2)
    if ends[1] - ends[0] > _WIDEST * sigma + 1000:
        raise SolverError(
            f"a loss spreads over {(ends[1] - ends[0]) / sigma:.3g} standard deviations at one tilt; at most "
            f"{_WIDEST:g} are supported. Account for noise that protects nobody apart from the rest."
        )
    if sampled is not None and sigma > _FEW:
        ends = _that_matter(base, sampled, tilt, ends, centre)
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
    top = np.where((x[:-1] <= centre) & (x[1:] >= centre), 0.0, np.maximum(parabola[:-1], parabola[1:]))
    most = top + np.maximum(bent[:-1], bent[1:])
    places = np.flatnonzero(most > float((parabola + bent).max()) - _LEFT_OUT - 1)
    return float(x[places[0]]), float(x[places[-1] + 1])


def _log_sum(variance: float) -> float:
    """ln of the sum of exp(-x^2 / (2 v)) over all whole numbers."""
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
    if coarse and k > 4 * _FEW:
        places = np.unique(np.linspace(0, k, int(4 * _FEW)).round().astype(np.int64))
        more = np.where((places == 0) | (places == k), 0.0, math.log(k / places.size))
        return log_first[places] + more, b[places], 0.0, 0.0
    return log_first, b, 4 * UNIT * k * rate, 0.0


def _response(base: ResponseLoss) -> tuple[Floats, Floats, float, float]:
    epsilon, others = float(base.epsilon), base.options - 2
    whole = epsilon + math.log1p((base.options - 1) * math.exp(-epsilon))
    log_first = np.array([epsilon - whole, math.log(others) - whole, -whole])
    return log_first, np.array([epsilon, 0.0, -epsilon]), 4 * UNIT * epsilon, 0.0
