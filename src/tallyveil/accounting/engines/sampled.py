"""The transform of the loss of a random sample, as a sum over few atoms, with bounds on all errors.

The problem: compute M(z) = E exp(z L) for the loss L of a mechanism that sees a Poisson sample, at many complex
z = s + i u that share the tilt s.

The variables: q the probability with which a record is in the sample; f that with which the mechanism reveals all that
is in the sample; b the loss of the mechanism on the sample; R = 1 - q + q exp(b); Q the law without the record.

If the record was removed, L = ln R, with the probabilities R dQ. If it was added, L = -ln R, with those of Q. So all
follows from one function, T(w) = E_Q R^w, at w = 1 + z or w = -z. The real part of w is the *power* here. A failure
while the record is not in the sample is one more outcome with R = 1 - q. If a record of a sample of fixed size changes,
only R > 1 counts, for both losses, and the rest has a loss of 0.

The steps:

1. With integer noise or randomized response b has a list of values.
2. With real Laplace noise two values have a probability, and between them a Gauss-Legendre rule is a list, too. For
   large frequencies the rule is on a path beside the real axis, for the reason of step 3.
3. With normal noise b = mu x - mu^2 / 2 with x ~ N(0, 1) under Q; if the record moves the noise by one of several
   distances (`MixtureLoss`), exp(b) is a sum of such terms. The trapezoid rule for T(w) has an error that falls
   exponentially with one over its step, since R^w is analytic for |Im x| < pi / mu, mu being the largest one. On the
   real axis the step must fall with the largest frequency u that is asked for. On a line beside it, one step does for
   all frequencies, as R^w is damped there. From then on the rule is a list of atoms like any other, with complex losses
   and weights. Where only R > 1 counts, a Gauss-Legendre rule takes the place of the trapezoid rule.
4. All are computed in balls, once for each tilt, and rounded to floats.

Where the transform is negligible follows from a shift of the integral for T into the complex plane
(`fall_of_sample`). Proofs: docs/proofs/off-lattice.md, section 10.

Example: DP-SGD with mu = 1 and q = 1/100 at s = 6 and frequencies up to 30 takes 240 atoms.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, lru_cache, partial
from typing import Any, Final, TypeAlias, cast

import numpy as np
from flint import acb, arb

from tallyveil.accounting.losses import (
    ChoiceLoss,
    ExponentialLoss,
    GaussianLoss,
    LaplaceLoss,
    MixtureLoss,
    NormalLoss,
    ResponseLoss,
    SampledLoss,
)
from tallyveil.accounting.numbers import log_of
from tallyveil.arrays import Complexes, Floats
from tallyveil.errors import SolverError
from tallyveil.noise.balls import between_zero_and, precision, rational

Ball: TypeAlias = arb | acb

_BITS: Final = 128
"""Bits of ball arithmetic. Floats keep 53, and terms below 2^-108 of the whole are left out."""

_LEFT_OUT: Final = 75.0
"""Minus the logarithm, about, of a term relative to the largest one from which terms are left out and bounded."""

_RULE: Final = 50.0
"""Minus the logarithm of the error of the trapezoid rule, relative to the transform at u = 0: exp(-50) is 2e-22."""

USUAL_TERMS: Final = 1 << 14
"""Atoms of one sample from which a contour is not made. A tilt takes about 0.2 s for this many."""

MOST_TERMS: Final = 1 << 18
"""Atoms of one sample that are listed at most, for Chernoff's bound far out: some seconds."""

_FINE: Final = 1 / 64
"""Longest cell, in standard deviations, of the sums that bound the transform far out. Half of it doubles their time,
and would lower a bound of 0.99 by about 0.002."""

_WIDEST_STRIP: Final = 7.0
"""The largest shift y to which the integrand of the rule on the real axis is followed. At most exp(y^2 / 2) is lost."""

_SHIFTED_STRIP: Final = 4.0
"""The same for a rule beside the real axis, whose weights alternate: in the middle of the strip they add up to
exp(2) = 7.4 at most, so that one digit is lost. A strip of 7 would need a quarter fewer atoms and lose three."""

_HIGHEST: Final = 0.75
"""Height of the path for real Laplace noise. The angle of exp(b) in its ellipses is at most four times as much, and
must be below pi."""

_MOST_NATS: Final = 20.0
"""By about how much |R|^power may change over the height of the path."""

_HIGHEST_ANGLE: Final = 1.4
"""The angle of exp(b) at the height of the path for normal noise. In its ellipses it is twice as much, and must be
below pi."""

_HIGHEST_SHIFT: Final = 2.0
"""The largest height of this path: its weights add up to exp(2) at most, so that one digit is lost."""

_PLACES: Final = 1024
"""Cells in which the terms of a sum, or the largest one on a piece of a path, are looked for."""

_LOG_RHO: Final = 1.7
"""Of the ellipses around the upright pieces of a path."""

_LARGEST_EXPONENT: Final = 1e4
"""Of a tilt times the largest loss on the sample: beyond it, floats would lose digits of exponents."""

_TINY: Final = 1e-300
"""In the place of a size that is below every float."""

_LEAST: Final = Fraction(1, 10**12)
"""Of probabilities, of one minus them, and of losses on the sample. With it, balls of 128 bits keep more than 40 bits
beyond a float's; a thousandth of it would leave some for 10^-15, and nobody releases with such a probability."""

_LARGEST_SHIFT: Final = 500.0
"""Of the power times mu up to which the normal masses of cells are right to nine digits. Their logarithms reach half
the square of it."""
_MOST_CELLS: Final = 1 << 16

_ANGLES: Final = tuple(2 ** (-j / 2) for j in range(20))
"""Shifts into the complex plane, as the angle mu y, that are tried, in units of the largest one. Far out that one is
the best, and near the centre one of about u q mu."""

_FARTHEST_SHIFT: Final = 8.0
"""The largest shift y that is tried: exp(y^2 / 2) would be above every gain from there on."""

# Atoms whose pairs are looked at, and pairs that are used: each pair is one more period for the scan of frequencies.
_HEAVY: Final = 24
_PAIRS: Final = 6

_DENSE: Final = 40
"""The variance from which the losses of discrete Gaussian noise are looked at in blocks. Below, few values carry most
of the noise. Its transform nearly returns to its full size at frequencies that pairs of values tell more exactly."""

_UPRIGHT: Final = 256
"""Cells of the way from the real line into the complex plane."""

_NATS_UPWARDS: Final = 25.0
"""Minus the logarithm of the first cell, relative to the whole way: at a frequency of 10^8 it is still short."""

_TURN: Final = 4.0
"""The angle, about, by which the phase turns over a block of neighbouring atoms whose moduli are added up."""

_BETWEEN: Final = 0.02
"""By how much the bound on a transform may change between frequencies at which it is computed. Half of it doubles the
time, and matters only for hundreds of samples or fewer."""

_MOST_PHASES: Final = 1 << 24
"""Atoms times frequencies of a segment that are looked at: about a second."""


@dataclass(frozen=True, slots=True)
class SampleAtoms:
    """The tilted loss of a sample as a list.

    The transform is the sum of weights times exp(i u loss), for frequencies u of 0 or more.

    Attributes:
        losses: Values, each right to two units of itself. If the rule is not on the real axis they are complex, with
            an imaginary part of 0 or more.
        weights: Tilted probabilities, each right to two units and to `error`; or complex weights with the sum 1.
        error: Bound on the probability left out, and on the error of the rule.
    """

    losses: Floats | Complexes
    weights: Floats | Complexes
    error: float


def kinds_of(loss: SampledLoss) -> list[tuple[Fraction, SampledLoss]]:
    """The kinds of samples of which one is drawn, each as one sample, and their probabilities."""
    assert isinstance(loss.base, ChoiceLoss)
    return [
        (share, replace(loss, base=base, probability=q, multiplicity=1)) for share, q, base in loss.base.parts
    ]


def number_of_losses(loss: SampledLoss) -> int:
    """How many values the loss of one sample has, if they are few and listed exactly; otherwise 0."""
    match loss.base:
        case LaplaceLoss(_, sensitivity) if not loss.failure:
            values = sensitivity + 1
        case ResponseLoss() if not loss.failure:
            values = 3
        case _:
            return 0
    # Of a sample of fixed size: both halves of those above 0, and 0.
    return 2 * (values // 2) + 1 if loss.changed else values


def losses_of_sample(loss: SampledLoss) -> list[tuple[arb, arb]]:
    """The losses of one sample and their probabilities, in balls of the working precision, where they are listed."""
    q = rational(loss.probability)
    listed: list[tuple[arb, arb]] = []
    stays = arb(1)
    for part, chance in zip(*_in_balls(loss, Fraction(1), 0.0), strict=True):
        b, mass = _real(part), _real(chance)
        grown = 1 + q * b.expm1()
        if loss.changed:
            if b > 0:
                listed += [(grown.log(), mass * grown), (-grown.log(), mass)]
                stays -= mass * (1 + grown)
        else:
            listed.append((-grown.log(), mass) if loss.added else (grown.log(), mass * grown))
    return [*listed, (arb(0), stays)] if loss.changed else listed


def takes_sample(loss: SampledLoss) -> bool:
    """Whether the transform of a sample is computed here: not for too long lists, or for noise that protects nobody."""
    q, f = loss.probability, loss.failure
    # Of smaller losses, balls would keep too few digits; nor do floats tell such a probability from 0 or 1.
    within = _LEAST <= q <= 1 - _LEAST and f <= 1 - _LEAST and (not f or f >= _TINY)
    match loss.base:
        case None:
            taken = True
        case ResponseLoss(epsilon):
            taken = _LEAST <= epsilon <= 1000
        case NormalLoss(mu_squared):
            # Outside of this the rule would take too many terms, or the noise protects nobody.
            taken = _LEAST <= mu_squared <= 100
        case MixtureLoss(variance, shares):
            least, most = shares[0][0] ** 2, shares[-1][0] ** 2
            taken = _LEAST * variance <= least and most <= 100 * variance
            within = within or q == 1
        case GaussianLoss(variance, sensitivity):
            taken = Fraction(1, 4) <= variance <= 10**5 and sensitivity**2 <= 100 * variance
        case LaplaceLoss(scale, sensitivity):
            taken = sensitivity < USUAL_TERMS // 4 and _LEAST <= 1 / scale <= 1000
        case ExponentialLoss(epsilon):
            taken = _LEAST <= epsilon <= 50
        case ChoiceLoss():
            taken = all(takes_sample(part) for _, part in kinds_of(loss))
    # Of samples of fixed size only these are listed in both halves.
    halves = isinstance(loss.base, NormalLoss | GaussianLoss | LaplaceLoss | ResponseLoss | ChoiceLoss)
    return within and taken and (halves or not loss.changed)


def largest_tilt(loss: SampledLoss) -> float:
    """The largest tilt at which a sample is listed: beyond it a list takes long, or floats lose digits."""
    match loss.base:
        case ChoiceLoss():
            return min(largest_tilt(part) for _, part in kinds_of(loss))
        case NormalLoss() | GaussianLoss() | MixtureLoss():
            rule = _rule(loss, Fraction(0), 0.0)
            # The terms that matter lie between -16 and 16 + power mu.
            return max(0.0, USUAL_TERMS * rule.step - 33) / rule.mu
        case LaplaceLoss():
            return _LARGEST_EXPONENT / float(-loss.base.offset)
        case ExponentialLoss(epsilon) | ResponseLoss(epsilon):
            return _LARGEST_EXPONENT / float(epsilon)
        case None:
            return _LARGEST_EXPONENT


def is_dense(loss: SampledLoss) -> bool:
    """Whether a sample has so many values that `fall_of_sample` says more of its transform than its pairs of values."""
    match loss.base:
        case NormalLoss() | MixtureLoss() | ChoiceLoss():
            return True
        case GaussianLoss(variance):
            return variance >= _DENSE
        case _:
            return False


def terms_of_sample(loss: SampledLoss, tilt: float, frequency: float) -> float:
    """About how many atoms a sample has at a tilt, for frequencies up to one."""
    match loss.base:
        case ChoiceLoss():
            return sum(terms_of_sample(part, tilt, frequency) for _, part in kinds_of(loss))
        case NormalLoss() if loss.changed:
            return 2.0 * _half_line(loss, Fraction(tilt), frequency).count + 1
        case NormalLoss() | GaussianLoss() | MixtureLoss():
            rule = _rule(loss, _power(loss, Fraction(tilt)), frequency)
            return float(rule.last - rule.first + 2)
        case LaplaceLoss(_, sensitivity):
            return sensitivity + 2.0
        case ExponentialLoss():
            return (
                sum(piece.nodes for piece in _path(loss, float(_power(loss, Fraction(tilt))), frequency))
                + 3.0
            )
        case _:
            return 4.0


def log_moment_of_sample(loss: SampledLoss, tilt: Fraction) -> arb:
    """ln E exp(tilt L) of one sample, given that not all is revealed.

    Raises:
        SolverError: The sample has too many terms.
    """
    law = _listed(loss, tilt, 0.0)
    whole = 1 if loss.added else rational(1 - loss.probability * loss.failure)
    return (law.total * (1 + arb(0, law.error)) / whole).log()


def atoms_of_sample(loss: SampledLoss, tilt: Fraction, frequency: float) -> SampleAtoms:
    """The tilted atoms of one sample, for frequencies of at most one.

    Raises:
        SolverError: The sample has too many terms.
    """
    law = _listed(loss, tilt, frequency)
    with precision(_BITS):
        weights = np.array([complex(mass / law.total) for mass in law.masses])
        losses = np.array([complex(value) for value in law.values])
    if not losses.imag.any():
        losses, weights = losses.real, weights.real
    # If the record was added, the power's imaginary part is -u: the transform is the conjugate of the one at u.
    if loss.added:
        losses, weights = -losses.conj(), weights.conj()
    # The total is off by as much as the transform may be, hence twice.
    return SampleAtoms(losses, weights, 2 * law.error)


def moments_of_sample(loss: SampledLoss, tilt: float) -> tuple[float, float, float]:
    """ln E exp(tilt L), and the mean and the variance of the tilted loss, in floats, without a certificate."""
    power = float(_power(loss, Fraction(tilt)))
    if isinstance(loss.base, ChoiceLoss):
        kinds = [(log_of(share), moments_of_sample(part, tilt)) for share, part in kinds_of(loss)]
        log_moment, mean, variance = _moments(
            np.array([mean for _, (_, mean, _) in kinds]),
            np.array([share + log for share, (log, _, _) in kinds]),
        )
        weights = np.exp(np.array([share + log for share, (log, _, _) in kinds]) - log_moment)
        return log_moment, mean, variance + float(weights @ [within for _, (_, _, within) in kinds])
    if loss.changed:
        losses, exponents = _halves_in_floats(loss, tilt)
        return _moments(losses, exponents)
    log_p, b = _in_floats(loss, power)
    grown = log_ratios(loss, b)
    if loss.failure:
        log_p = np.append(log_p + math.log1p(-float(loss.failure)), math.log(loss.failure))
        grown = np.append(grown, _log_rest(loss))
    log_moment, mean, variance = _moments(grown, log_p + power * grown)
    whole = 0.0 if loss.added else math.log1p(-float(loss.probability * loss.failure))
    return log_moment - whole, -mean if loss.added else mean, variance


def _moments(values: Floats, exponents: Floats) -> tuple[float, float, float]:
    """The logarithm of the sum of exp(exponents), and the mean and the variance of values with these weights."""
    highest = float(exponents.max())
    weights = np.exp(exponents - highest)
    total = float(weights.sum())
    mean = float(weights @ values) / total
    return highest + math.log(total), mean, float(weights @ (values - mean) ** 2) / total


def stays_of_sample(loss: SampledLoss, tilt: Fraction) -> arb:
    """The tilted probability that the loss of a sample of fixed size is exactly 0, as a ball; 0 for other samples."""
    law = _listed(loss, tilt, 0.0)
    with precision(_BITS):
        # What both halves lack, all of which this is one minus.
        return (law.stays - between_zero_and(law.total * law.error)) / (law.total * (1 + arb(0, law.error)))


def fall_of_sample(loss: SampledLoss, tilt: Fraction) -> Callable[[float, float], float]:
    """For samples of Gaussian noise: what minus the logarithm of the transform's size is at least between frequencies.

    It is that of one sample relative to the transform at u = 0, and for a sample of fixed size without the part of a
    loss of 0, which never falls.
    """
    if isinstance(loss.base, GaussianLoss):  # of large variance
        return partial(_fall_of_blocks, atoms_of_sample(loss, tilt, 0.0))
    if isinstance(loss.base, ChoiceLoss):
        return _fall_of_kinds(loss, tilt)
    assert isinstance(loss.base, NormalLoss | MixtureLoss)
    mu, powers = moves_of(loss.base)[-1][0], _powers(loss, tilt)
    if max(powers) * mu > _LARGEST_SHIFT:
        return lambda begin, end: 0.0
    law = _listed(loss, tilt, 0.0)
    with precision(_BITS):
        without = float((law.total - law.failed).log().lower())
        failed = float((law.failed / law.total).upper())
    scale = math.log(1 - loss.failure)  # of the exact difference, which floats may not tell from 0
    farthest = min(math.pi / 2, _FARTHEST_SHIFT * mu)
    angles = [part * farthest for part in _ANGLES]
    shifts: list[list[_Shift | _Upright]] = [
        [_Shift.of(loss, float(power), angle, mu) for power in powers] for angle in angles
    ]
    if loss.changed:
        for parts, angle in zip(shifts, angles, strict=True):
            parts.append(_Upright.of(loss, float(tilt), angle, mu))

    def fall(begin: float, end: float) -> float:
        sizes = ([part.log_size(begin, end) for part in parts] for parts in shifts)
        least = min(float(np.logaddexp.reduce(logs)) for logs in sizes)
        # Ten digits fewer than floats have: sums of positive terms, whose exponents are right to 1e-11.
        part = min(0.0, least + scale - without) + 1e-9
        # Far out the size is below every float.
        size = max((1 - failed) * math.exp(part) + failed, _TINY)
        return max(0.0, -math.log(size) * (1 - 1e-9))

    return fall


def _fall_of_kinds(loss: SampledLoss, tilt: Fraction) -> Callable[[float, float], float]:
    """Of several kinds of samples: the transform is at most the sum of theirs."""
    falls = [fall_of_sample(part, tilt) for _, part in kinds_of(loss)]
    with precision(_BITS):
        totals = [rational(share) * _listed(part, tilt, 0.0).total for share, part in kinds_of(loss)]
        whole = sum(totals, arb(0))
        shares = [float((total / whole).upper()) for total in totals]

    def fall(begin: float, end: float) -> float:
        parts = zip(shares, falls, strict=True)
        size = math.fsum(share * math.exp(-of_kind(begin, end)) for share, of_kind in parts)
        # Sums of floats, and the errors of the totals.
        return max(0.0, -math.log(max(size, _TINY)) * (1 - 1e-9) - 1e-9)

    return fall


def _fall_of_blocks(law: SampleAtoms, begin: float, end: float) -> float:
    """The same for a list: sums of the moduli of blocks of atoms, at frequencies so close that none is missed."""
    if math.isinf(end):
        return 0.0
    order = np.argsort(law.losses)
    # A loss of 0 of a sample of fixed size is not counted here.
    order = order[law.losses[order] != 0]
    losses, weights = law.losses[order], law.weights[order]
    apart = float(np.abs(np.diff(losses)) @ weights[1:])
    # Blocks over which the phase turns by about this much: shorter ones cancel less, longer ones change faster.
    length = min(max(2, math.ceil(_TURN / (begin * apart))), losses.size)
    starts = np.arange(0, losses.size, length)
    centres = losses[np.minimum(starts + length // 2, losses.size - 1)]
    away = np.abs(losses - np.repeat(centres, np.diff(np.append(starts, losses.size))))
    count = math.ceil((end - begin) * float(weights @ away) / (2 * _BETWEEN)) + 1
    if count * losses.size > _MOST_PHASES:
        return 0.0
    middles = begin + (np.arange(count) + 0.5) * ((end - begin) / count)
    largest = 0.0
    at_once = max(1, (1 << 20) // losses.size)
    for first in range(0, count, at_once):
        angles = np.multiply.outer(middles[first : first + at_once], losses)
        sums = np.add.reduceat(weights * np.exp(1j * angles), starts, axis=1)
        largest = max(largest, float(np.abs(sums).sum(axis=1).max()))
    # Angles are below 10^10, so that their rounding changes a sum by less than 10^-5.
    size = largest + _BETWEEN + law.error + 1e-5
    return max(0.0, -math.log(size)) if end * float(np.abs(losses).max()) < 1e10 else 0.0


@dataclass(frozen=True, slots=True)
class LaplaceFall:
    """How the transform of a loss of real Laplace noise falls, relative to that at u = 0.

    Attributes:
        apart: Distance of the two atoms of the loss, the largest and the smallest value.
        strength: a pi^2 / (4 apart^2) for one answer, a being the pull of both atoms.
        mass: The tilted probability of the atoms and of a failure, rounded up.
        slope: u times the transform of the density between the atoms is at most this.
    """

    apart: float
    strength: float
    mass: float
    slope: float


def fall_of_laplace(loss: SampledLoss, tilt: Fraction) -> LaplaceFall:
    """How fast the transform of a sample of real Laplace noise falls."""
    assert isinstance(loss.base, ExponentialLoss)
    law = _listed(loss, tilt, 0.0)
    with precision(_BITS):
        # The atoms are real, wherever the rest of the list is.
        low, high = (_real(mass) / law.total for mass in law.masses[:2])
        least, most = (_real(value) for value in law.values[:2])
        atoms, failed = low + high, law.failed / law.total
        tilted = low * high / atoms**2
        share = atoms / (atoms + arb(0.5).exp() * (1 - atoms))
        # The density of ln R, tilted: the mass at an end, divided by the slope of ln R in x there.
        q, epsilon = rational(loss.probability), rational(loss.base.epsilon)
        ends = [
            mass * value.exp() / (2 * q * b.exp())
            for mass, value, b in ((low, least, -epsilon), (high, most, epsilon))
        ]
        return LaplaceFall(
            float(most - least),
            float(tilted * share) * (1 - 1e-9),
            float(atoms + failed) * (1 + 1e-9),
            2 * float(ends[0] + ends[1]) * (1 + 1e-9),
        )


def pairs_of_sample(loss: SampledLoss, tilt: Fraction) -> list[tuple[float, float]]:
    """For other samples: distances of pairs of atoms, and lower bounds of products of their tilted probabilities."""
    law, values = atoms_of_sample(loss, tilt, 0.0), _listed(loss, tilt, 0.0).values
    heavy = np.argsort(-law.weights, kind="stable")[:_HEAVY]
    first, second = np.triu_indices(heavy.size, 1)
    apart = np.abs(law.losses[heavy[first]] - law.losses[heavy[second]])
    products = law.weights[heavy[first]] * law.weights[heavy[second]] * (1 - 1e-9)
    strongest = np.argsort(-products * apart * apart, kind="stable")[:_PAIRS]
    chosen = [i for i in strongest if products[i] > 0 and apart[i] > 0]
    # The difference of two floats would lose the digits of a period.
    with precision(_BITS):
        return [
            (abs(float(_real(values[heavy[first[i]]] - values[heavy[second[i]]]))), float(products[i]))
            for i in chosen
        ]


def _power(loss: SampledLoss, tilt: Fraction) -> Fraction:
    # The halves of a sample of fixed size have both powers. Their terms are at most those of the larger one, as R > 1
    # there; and of 1, with which the mass of the rest is computed.
    return max(1 + tilt, -tilt, Fraction(1)) if loss.changed else _powers(loss, tilt)[0]


def _powers(loss: SampledLoss, tilt: Fraction) -> tuple[Fraction, ...]:
    if loss.changed:
        return 1 + tilt, -tilt
    return (-tilt,) if loss.added else (1 + tilt,)


def _log_rest(loss: SampledLoss) -> float:
    """ln(1 - q)."""
    q = loss.probability
    if q == 1:
        return -math.inf
    # log1p where q is small, the log of the exact 1 - q where it is near 1: each keeps its digits.
    return math.log1p(-float(q)) if 2 * q < 1 else math.log(1 - q)


def log_ratios(loss: SampledLoss, b: Floats) -> Floats:
    """ln R from losses b on the sample."""
    ratios: Floats = np.logaddexp(_log_rest(loss), math.log(loss.probability) + b)
    return ratios


_Gaussian: TypeAlias = NormalLoss | GaussianLoss | MixtureLoss


def moves_of(base: object) -> list[tuple[float, float]]:
    """By how many standard deviations the record moves Gaussian noise, and the logarithms of their probabilities."""
    match base:
        case NormalLoss(mu_squared):
            return [(math.sqrt(mu_squared), 0.0)]
        case GaussianLoss(variance, sensitivity):
            return [(float(sensitivity) / math.sqrt(variance), 0.0)]
        case MixtureLoss(variance, shares):
            # The quotient first: each of both may be beyond floats that are squared.
            return [(math.sqrt(move**2 / variance), log_of(share)) for move, share in shares]
        case _:
            raise AssertionError(base)


def log_odds(base: object, x: Floats) -> Floats:
    """The loss b of Gaussian noise at places x, in standard deviations."""
    terms = [log_share + mu * x - mu * mu / 2 for mu, log_share in moves_of(base)]
    return terms[0] if len(terms) == 1 else np.logaddexp.reduce(terms)


def _slope(loss: SampledLoss, x: float) -> float:
    """The slope of ln R at x, at least; it rises with x."""
    place = np.array([x])
    grown = float(log_ratios(loss, log_odds(loss.base, place))[0])
    log_q = math.log(loss.probability)
    return sum(
        mu * math.exp(min(0.0, log_q + log_share + (mu * x - mu * mu / 2) - grown))
        for mu, log_share in moves_of(loss.base)
    )


@dataclass(frozen=True, slots=True)
class _Rule:
    """A sum over x = j step + i shift with j from first to last, in standard deviations of the noise."""

    mu: float
    step: float
    first: int
    last: int
    shift: float = 0.0


def _rule(loss: SampledLoss, power: Fraction, frequency: float) -> _Rule:
    """The places of the sum for Gaussian noise; those of discrete noise are its whole numbers."""
    base, exponent = loss.base, float(power)
    match base:
        case NormalLoss() | MixtureLoss():
            mu, shift = moves_of(base)[-1][0], 0.0
            y, nats = _strip(exponent, mu, _WIDEST_STRIP)
            step = 2 * math.pi / (frequency * mu + nats / y)
            # In the middle of the strip between the real axis and y the step does not depend on the frequency.
            y, nats = _strip(exponent, mu, _SHIFTED_STRIP)
            if math.pi * y / nats > step:
                step, shift = math.pi * y / nats, _few_digits(y / 2)
            # The error of the rule falls with the step.
            step = _few_digits(step)
        case GaussianLoss(variance):
            mu, step, shift = moves_of(base)[0][0], 1 / math.sqrt(variance), 0.0
        case _:
            raise AssertionError(base)
    low, high = _range(loss, exponent, mu)
    return _Rule(mu, step, math.floor(low / step), math.ceil(high / step), shift)


def _few_digits(value: float) -> float:
    """The value rounded down, so that small multiples of it are exact in floats."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(math.floor(512 * mantissa) / 512, exponent)


def _gauss_bound(loss: SampledLoss, power: float, frequency: float, angle: float) -> tuple[float, float]:
    """For real Laplace noise: ln rho of an ellipse around the interval of the density, and the logarithm of the largest
    integrand there, relative to the transform at u = 0.

    Args:
        loss: The sample.
        power: Real part of w.
        frequency: The largest one.
        angle: Of exp(b) in the ellipse, at most.
    """
    assert isinstance(loss.base, ExponentialLoss)
    epsilon = float(loss.base.epsilon)
    # Half axes of the ellipse are (rho + 1 / rho) / 2 and (rho - 1 / rho) / 2, in units of epsilon / 2.
    log_rho = math.asinh(angle / epsilon)
    long = math.cosh(log_rho)
    least = _log_least(loss, power)
    if power >= 0:
        grown = power * float(log_ratios(loss, np.array([epsilon * long]))[0])
    else:
        grown = power * (
            float(log_ratios(loss, np.array([-epsilon * long]))[0]) + math.log(math.cos(angle / 2))
        )
    largest = -math.log(2) + epsilon / 2 * (long - 1) + grown + frequency * angle
    interval = math.log(64 / 15 * epsilon / 2 / -math.expm1(-2 * log_rho))
    return log_rho, max(0.0, largest + interval - least)


def _gauss_nodes(loss: SampledLoss, power: float, frequency: float) -> int:
    """The number of nodes with which a Gauss-Legendre rule has an error below exp(-50) of the transform at u = 0."""
    bounds = (_gauss_bound(loss, power, frequency, 3.0 / 2**j) for j in range(16))
    # One more for the rounding of these floats.
    return 2 + math.ceil(min((_RULE + 1 + largest) / (2 * log_rho) for log_rho, largest in bounds))


@dataclass(frozen=True, slots=True)
class _Piece:
    """A straight piece of the path of an integral from one real place to another, with its Gauss-Legendre rule.

    Attributes:
        nodes: Of the rule.
        at_end: Whether a piece upwards or downwards is where the path ends, and not where it begins.
        low, high: Imaginary parts of its ends; equal for the level piece, from one place to the other.
    """

    nodes: int
    at_end: bool = False
    low: float = 0.0
    high: float = 0.0

    @property
    def is_level(self) -> bool:
        return self.low == self.high

    def rule(self, begin: arb, end: arb) -> tuple[list[Ball], list[Ball]]:
        """Places x and weights of the rule, on the path from `begin` to `end`."""
        rule = _legendre(_checked(self.nodes))
        if self.is_level:
            half = (end - begin) / 2
            places: list[Ball] = [begin + half * (1 + node) for node, _ in rule]
            if self.high:
                places = [acb(x, self.high) for x in places]
            return places, [half * weight for _, weight in rule]
        middle, half = (arb(self.low) + self.high) / 2, (arb(self.high) - self.low) / 2
        # Upwards where the path begins and downwards where it ends.
        along = acb(0, -half if self.at_end else half)
        place = end if self.at_end else begin
        return [acb(place, middle + half * node) for node, _ in rule], [along * weight for _, weight in rule]


def _path(loss: SampledLoss, power: float, frequency: float) -> list[_Piece]:
    """The path from x = 0 to x = epsilon with fewer nodes: straight, or beside the real axis, where R^w is damped."""
    straight = [_Piece(_gauss_nodes(loss, power, frequency))]
    # For large powers R^w grows fast beside the axis, too.
    high = _few_digits(min(_HIGHEST, _MOST_NATS / (1 + abs(power))))
    halvings = max(1, math.ceil(math.log2(1 + 2 * frequency * high)))
    ends = [0.0, *(high / 2**j for j in range(halvings, -1, -1))]
    count = 2 * (len(ends) - 1) + 1
    least = _log_least(loss, power)
    level = _nodes_for(_level_bound(loss, power, high), count, least)
    pieces = [_Piece(level, low=high, high=high)]
    for low, top in itertools.pairwise(ends):
        for at_end in (False, True):
            bound = _upright_bound(loss, power, frequency, (at_end, low, top))
            pieces.append(_Piece(_nodes_for(bound, count, least), at_end, low, top))
    return min(straight, pieces, key=lambda path: sum(piece.nodes for piece in path))


def _level_bound(loss: SampledLoss, power: float, high: float) -> tuple[float, float]:
    """As `_upright_bound`, for the piece at this height: the ellipse reaches from the real axis to twice the height."""
    assert isinstance(loss.base, ExponentialLoss)
    epsilon = float(loss.base.epsilon)
    log_rho = math.asinh(2 * high / epsilon)
    longer = epsilon / 2 * (math.cosh(log_rho) - 1)
    # b at both ends of the ellipse, whichever has the larger power of R.
    b = (-epsilon - 2 * longer, epsilon + 2 * longer)
    return log_rho, math.log(epsilon / 2) - math.log(2) + longer + _log_largest(loss, power, b, 4 * high)


def _upright_bound(
    loss: SampledLoss, power: float, frequency: float, piece: tuple[bool, float, float]
) -> tuple[float, float]:
    """For a piece upwards: ln rho of an ellipse around it, and the logarithm of half its length times the largest
    integrand in the ellipse."""
    assert isinstance(loss.base, ExponentialLoss)
    epsilon, (at_end, low, top) = float(loss.base.epsilon), piece
    middle, half = (low + top) / 2, (top - low) / 2
    # Of a piece [a, 2a] this ellipse stays above the real axis: 1.5 a - cosh(ln rho) a / 2 >= 0.
    log_rho = _LOG_RHO
    along, across = math.cosh(log_rho) * half, math.sinh(log_rho) * half
    end = epsilon if at_end else -epsilon
    b = (end - 2 * across, end + 2 * across)
    below = max(0.0, along - middle)
    log_size = -math.log(2) - (epsilon if at_end else 0.0) + across + 2 * frequency * below
    return log_rho, math.log(half) + log_size + _log_largest(loss, power, b, 2 * (middle + along))


def _log_largest(loss: SampledLoss, power: float, b: tuple[float, float], angle: float) -> float:
    """Logarithm of the largest |R|^power where the real part of the loss b lies between two and its angle is at most
    this."""
    grown = log_ratios(loss, np.array(b))
    if power >= 0:
        return power * float(grown[1])
    return power * (float(grown[0]) + math.log(math.cos(angle / 2)))


def _nodes_for(bound: tuple[float, float], count: int, least: float) -> int:
    """Nodes with which one of `count` rules has its share of an error of exp(-50), relative to exp(least).

    Args:
        bound: ln rho of an ellipse around the piece, and the logarithm of half its length times the largest integrand.
        count: Rules of the whole path.
        least: A lower bound of the logarithm of the transform at u = 0.
    """
    log_rho, log_size = bound
    nats = log_size + math.log(64 / 15 / -math.expm1(-2 * log_rho)) - least
    # One more for the rounding of these floats.
    return 2 + max(0, math.ceil((_RULE + 1 + math.log(count) + nats) / (2 * log_rho)))


def _log_least(loss: SampledLoss, power: float) -> float:
    """A lower bound of the logarithm of the transform at u = 0: what the two atoms give."""
    assert isinstance(loss.base, ExponentialLoss)
    epsilon = float(loss.base.epsilon)
    ends = log_ratios(loss, epsilon * np.array([-1.0, 1.0]))
    return float(np.logaddexp(power * ends[0], power * ends[1] - epsilon)) - math.log(2)


@dataclass(frozen=True, slots=True)
class _HalfLine:
    """The path of the integral for normal noise where the loss b on the sample is above 0.

    Attributes:
        pieces: Of the path. It begins at mu / 2, where b is 0.
        high: Where it ends, a real part.
        beyond: Bound on both integrals beyond the end.
    """

    pieces: tuple[_Piece, ...]
    high: float
    beyond: arb

    @property
    def count(self) -> int:
        """Nodes of all pieces."""
        return sum(piece.nodes for piece in self.pieces)


def _half_line(loss: SampledLoss, tilt: Fraction, frequency: float) -> _HalfLine:
    return _half_line_once(replace(loss, multiplicity=1), tilt, frequency)


@lru_cache(maxsize=256)
def _half_line_once(loss: SampledLoss, tilt: Fraction, frequency: float) -> _HalfLine:
    """The path with fewer nodes: on the real axis, or beside it, where R^w is damped."""
    powers, most = [float(power) for power in _powers(loss, tilt)], float(_power(loss, tilt))
    mu = moves_of(loss.base)[0][0]
    low, high = mu / 2, _range(loss, most, mu)[1]
    # Each half is at least the sum of its cells' least terms; the integrand's first factor falls, and R rises.
    x = np.linspace(low, high, _PLACES + 1)
    grown = log_ratios(loss, log_odds(loss.base, x))
    widths = math.log(float(x[1] - x[0]) / math.sqrt(2 * math.pi))
    # At a tilt between -1 and 0 both powers are between 0 and 1, and beyond, the larger one is above 1.
    least = float(np.logaddexp.reduce(widths - x[1:] ** 2 / 2 + max(powers) * grown[:-1]))
    half, middle = (high - low) / 2, (high + low) / 2

    def level(height: float, upwards: float, count: int) -> _Piece:
        """The level piece, whose ellipse reaches so far upwards and downwards."""
        log_rho = math.asinh(upwards / half)
        along = half * math.cosh(log_rho)
        ends, heights = (middle - along, middle + along), (height - upwards, height + upwards)
        bound = log_rho, math.log(half) + _largest_within(loss, powers, frequency, ends, heights)
        # Whole thirties of nodes, so that tilts share their places.
        return _Piece(32 * math.ceil(_nodes_for(bound, count, least) / 32), low=height, high=height)

    paths = [
        (level(0.0, angle / mu, 1),) for angle in (min(3.0, _FARTHEST_SHIFT * mu) / 2**j for j in range(16))
    ]
    # A negative power R^-p grows by cos(mu y)^-p at most up to the height 2 y.
    height = _few_digits(
        min(_HIGHEST_ANGLE, math.sqrt(_MOST_NATS / max(-min(powers), 1.0)), _HIGHEST_SHIFT * mu) / mu
    )
    halvings = max(1, math.ceil(math.log2(1 + frequency * mu * height)))
    ends = [0.0, *(height / 2**j for j in range(halvings, -1, -1))]
    pieces = [level(height, height, len(ends))]
    for bottom, top in itertools.pairwise(ends):
        part = (top - bottom) / 2
        along, across = math.cosh(_LOG_RHO) * part, math.sinh(_LOG_RHO) * part
        heights = (bottom + part - along, bottom + part + along)
        size = _largest_within(loss, powers, frequency, (low - across, low + across), heights)
        nodes = _nodes_for((_LOG_RHO, math.log(part) + size), len(ends), least)
        pieces.append(_Piece(8 * math.ceil(nodes / 8), low=bottom, high=top))
    path = min([*paths, tuple(pieces)], key=lambda path: sum(piece.nodes for piece in path))
    # Beyond the end exp(-x^2 / 2) R^power falls by exp(-(high - power mu)) and faster, for the larger power.
    with precision(_BITS):
        last, end_height = rational(Fraction(high)), rational(Fraction(path[0].high))
        ratio = (
            1
            + rational(loss.probability)
            * (rational(Fraction(mu)) * last - rational(Fraction(mu)) ** 2 / 2).expm1()
        ).log()
        fall = Fraction(high) - Fraction(most) * Fraction(mu) * (1 + Fraction(1, 10**9))
        end = (
            (rational(Fraction(most)) * ratio - last * last / 2).exp()
            / (2 * arb.pi()).sqrt()
            / rational(fall)
        )
        # Beside the axis the first factor is larger by exp(y^2 / 2), and a negative power by that of the cosine.
        end *= (end_height**2 / 2).exp()
        end *= (rational(Fraction(mu)) * end_height / 2).cos() ** rational(Fraction(min(0.0, *powers)))
        return _HalfLine(path, high, 2 * end * (1 + arb(0, 1e-9)))


def _largest_within(
    loss: SampledLoss,
    powers: Sequence[float],
    frequency: float,
    ends: tuple[float, float],
    heights: tuple[float, float],
) -> float:
    """Logarithm of the largest normal density times |R^w| where Re x and Im x lie between two numbers each."""
    mu = moves_of(loss.base)[0][0]
    x = np.linspace(*ends, _PLACES + 1)
    inside = (x[:-1] <= 0) & (x[1:] >= 0)
    parabola = np.where(inside, 0.0, -np.minimum(x[:-1] ** 2, x[1:] ** 2) / 2)
    grown = log_ratios(loss, log_odds(loss.base, x))
    farthest = max(map(abs, heights))
    largest = max(
        float((parabola + np.maximum(power * grown[:-1], power * grown[1:])).max())
        + min(power, 0.0) * math.log(math.cos(mu * farthest / 2))
        for power in powers
    )
    # Above the real axis the frequency damps R^w; below it, it grows with the angle.
    below = max(0.0, -heights[0])
    return largest + farthest**2 / 2 - math.log(2 * math.pi) / 2 + frequency * mu * below


@lru_cache(maxsize=64)
def _legendre(count: int) -> list[tuple[arb, arb]]:
    """Nodes and weights of a Gauss-Legendre rule on [-1, 1]."""
    return [arb.legendre_p_root(count, j, weight=True) for j in range(count)]


def _strip(power: float, mu: float, widest: float) -> tuple[float, float]:
    """How far the integral is shifted into the complex plane, and the nats that the rule's step must gain there."""
    # For a negative power |R| at the shift may be as small as R cos(mu y / 2): then less far.
    y = min(widest, 3.0 / mu)
    if power < 0:
        y = min(y, math.sqrt(40 / -power) / mu)
    cost = power * math.log(math.cos(mu * y / 2)) if power < 0 else 0.0
    return y, _RULE + 2 + y * y / 2 + cost


# A tilt asks for the same ends many times.
@lru_cache(maxsize=256)
def _range(loss: SampledLoss, power: float, mu: float) -> tuple[float, float]:
    """Ends of x beyond which terms are negligible, and fall like a geometric series."""
    # A positive power moves the terms by power mu at most. A negative one raises them by (1 - q)^power at most.
    farthest = min(-power * mu, math.sqrt(2 * power * _log_rest(loss))) if power < 0 else power * mu
    ends = (-16 - farthest, 16.0) if power < 0 else (-16.0, 16 + farthest)
    x = np.linspace(*ends, _PLACES + 1)
    logs = -x * x / 2 + power * log_ratios(loss, log_odds(loss.base, x))
    matter = np.flatnonzero(logs >= float(logs.max()) - _LEFT_OUT)
    step = float(x[1] - x[0])
    low, high = float(x[matter[0]]) - step, float(x[matter[-1]]) + step
    # Where the ratio of neighbouring terms is bounded, see `_tails`.
    high = max(high, max(power, 0.0) * mu + 1)
    low = min(low, -1 - max(-power, 0.0) * _largest_slope(loss, mu, low))
    return low, high


def _largest_slope(loss: SampledLoss, mu: float, x: float) -> float:
    """Bound on the derivative of ln |R| at x and left of it, on the real axis and on a line beside it."""
    # Beside the axis it is at most twice what it is there.
    return min(mu, 2 * _slope(loss, x))


@dataclass(frozen=True, slots=True)
class _Listed:
    """A tilted law in balls.

    Attributes:
        values: Of the loss, or of minus the loss if the record was added.
        masses: Their tilted probabilities, not normalised.
        total: The sum of these.
        failed: The mass of a failure.
        stays: The mass of the part that is not in a half of a sample of fixed size.
        error: Bound on the error of the total, relative.
    """

    values: list[Ball]
    masses: list[Ball]
    total: arb
    failed: arb
    stays: arb
    error: float


def _listed(loss: SampledLoss, tilt: Fraction, frequency: float) -> _Listed:
    """The tilted law of one sample, for frequencies of at most one."""
    # Equal samples of other numbers share it.
    return _listed_once(replace(loss, multiplicity=1), tilt, frequency)


# A tilt asks for the same list several times: for the moment, for how the transform falls, and for the contour. A
# sample with replacement has up to some twenty kinds.
@lru_cache(maxsize=64)
def _listed_once(loss: SampledLoss, tilt: Fraction, frequency: float) -> _Listed:
    exponent = _power(loss, tilt)
    if isinstance(loss.base, ChoiceLoss):
        return _listed_kinds(loss, tilt, frequency)
    with precision(_BITS):
        q, rest, power = rational(loss.probability), rational(1 - loss.probability), rational(exponent)
        if loss.changed and isinstance(loss.base, NormalLoss):
            return _both_halves(loss, tilt, frequency, *_half_in_balls(loss, tilt, frequency))
        b, probabilities = _in_balls(loss, exponent, frequency)
        if loss.changed:
            return _both_halves(loss, tilt, frequency, b, probabilities)
        not_failed = rational(1 - loss.failure)
        values = [(rest + q * part.exp()).log() for part in b]
        masses = [
            not_failed * chance * (power * value).exp()
            for chance, value in zip(probabilities, values, strict=True)
        ]
        error = math.exp(-_RULE) if isinstance(loss.base, NormalLoss | MixtureLoss | ExponentialLoss) else 0.0
        if isinstance(loss.base, _Gaussian):
            error += _tails(loss, exponent, frequency, masses)
        failed = arb(0)
        if loss.failure:
            values.append(rest.log())
            failed = rational(loss.failure) * (power * rest.log()).exp()
            masses.append(failed)
        return _Listed(values, masses, _real(sum(masses, arb(0))), failed, arb(0), error)


def _listed_kinds(loss: SampledLoss, tilt: Fraction, frequency: float) -> _Listed:
    kinds = [(share, _listed(part, tilt, frequency)) for share, part in kinds_of(loss)]
    with precision(_BITS):
        masses = [rational(share) * mass for share, law in kinds for mass in law.masses]
        stays = sum((rational(share) * law.stays for share, law in kinds), arb(0))
        values = [value for _, law in kinds for value in law.values]
        _checked(len(values))
        # Relative to its own total each error is at most the largest one.
        total = _real(sum(masses, arb(0)))
        return _Listed(values, masses, total, arb(0), stays, max(law.error for _, law in kinds))


def _both_halves(
    loss: SampledLoss, tilt: Fraction, frequency: float, b: Sequence[Ball], probabilities: Sequence[Ball]
) -> _Listed:
    """The law of a sample of fixed size: ln R and -ln R where the loss b on the sample is above 0, and 0 otherwise."""
    q, s = rational(loss.probability), rational(tilt)
    values: list[Ball] = []
    masses: list[Ball] = []
    both = arb(0)
    for part, chance in zip(b, probabilities, strict=True):
        # Losses of lists are exact fractions or far from 0: a ball never holds it, but for the 0 of three options.
        # Those beside the real axis are nodes of a rule, which all count.
        if isinstance(part, arb) and not part > 0:
            continue
        grown = 1 + q * part.expm1()
        value = grown.log()
        # The power of the second half turns the other way: its transform is the conjugate of that of a mirrored list.
        values += [value, -_conjugate(value)]
        masses += [chance * ((1 + s) * value).exp(), _conjugate(chance * (-s * value).exp())]
        both += _real(chance * (1 + grown))
    if isinstance(loss.base, NormalLoss):
        half = rational(loss.base.mu_squared).sqrt() / 2
        both = (2 - q) * _phi(-half) + q * _phi(half)
    stays = 1 - both
    values.append(arb(0))
    masses.append(stays)
    total, error = _real(sum(masses, arb(0))), 0.0
    match loss.base:
        case NormalLoss():
            error = 2 * math.exp(-_RULE) + float((_half_line(loss, tilt, frequency).beyond / total).upper())
        case GaussianLoss():
            # Beyond the last place both halves lack terms, and the rest holds as much as both at a tilt of 0.
            power = _power(loss, tilt)
            rule = _rule(loss, power, frequency)
            nats = (rule.last * rule.step - float(power) * rule.mu) * rule.step * 0.999
            last = probabilities[-1] * (rational(power) * values[-3]).exp() / math.expm1(nats)
            error = 4 * float(_real(last / total).upper()) * (1 + 1e-9)
    return _Listed(values, masses, total, arb(0), stays, error)


def _phi(x: arb) -> arb:
    """The normal distribution function."""
    return (-x / arb(2).sqrt()).erfc() / 2


def _conjugate(number: Ball) -> Ball:
    return number.conjugate() if isinstance(number, acb) else number


def _real(number: Ball) -> arb:
    return number.real if isinstance(number, acb) else number


def _tails(loss: SampledLoss, power: Fraction, frequency: float, masses: list[Ball]) -> float:
    """Bound on the sum of the terms beyond both ends, relative to all terms."""
    rule, exponent = _rule(loss, power, frequency), float(power)
    low, high = rule.first * rule.step, rule.last * rule.step
    # Beyond an end each term is below the one before by at least this many nats: those of exp(-x^2 / 2), less what R
    # grows by.
    falls = (
        -low - max(-exponent, 0.0) * _largest_slope(loss, rule.mu, low),
        high - max(exponent, 0.0) * rule.mu,
    )
    total, beyond = _real(sum(masses, arb(0))), arb(0)
    for mass, fall in zip((masses[0], masses[-1]), falls, strict=True):
        # One in a thousand for the rounding of these floats.
        nats = fall * rule.step * 0.999
        beyond += abs(mass) / math.expm1(nats)
    return float((beyond / total).upper()) * (1 + 1e-9)


def _half_in_balls(
    loss: SampledLoss, tilt: Fraction, frequency: float
) -> tuple[Sequence[Ball], Sequence[Ball]]:
    """The same as `_in_balls` for normal noise where the loss on the sample is above 0."""
    assert isinstance(loss.base, NormalLoss)
    line = _half_line(loss, tilt, frequency)
    low, high = rational(loss.base.mu_squared).sqrt() / 2, rational(Fraction(line.high))
    unit = 1 / (2 * arb.pi()).sqrt()
    places: list[Ball] = []
    masses: list[Ball] = []
    for piece in line.pieces:
        for x, weight in zip(*piece.rule(low, high), strict=True):
            places.append(x)
            masses.append(unit * weight * (-x * x / 2).exp())
    return _log_odds_balls(loss.base, places), masses


def _in_balls(loss: SampledLoss, power: Fraction, frequency: float) -> tuple[Sequence[Ball], Sequence[Ball]]:
    """The losses b of the mechanism on the sample, and their probabilities under Q."""
    assert not isinstance(loss.base, ChoiceLoss)
    match loss.base:
        case None:
            return [arb(0)], [arb(1)]
        case ResponseLoss(epsilon, options):
            odds = [rational(epsilon).exp(), arb(options - 2), arb(1)]
            whole = odds[0] + (options - 1)
            return [rational(-epsilon), arb(0), rational(epsilon)], [odd / whole for odd in odds]
        case LaplaceLoss(scale, k):
            a = rational(-1 / scale).exp()
            # Under Q the likeliest loss is the smallest one.
            chances = [1 / (1 + a), *((1 - a) * a**j / (1 + a) for j in range(1, k)), a**k / (1 + a)]
            return [rational((2 * j - k) / scale) for j in range(k + 1)], chances
        case ExponentialLoss(epsilon):
            return _laplace_in_balls(rational(epsilon), _path(loss, float(power), frequency))
        case NormalLoss() | MixtureLoss():
            return _normal_in_balls(loss.base, _rule(loss, power, frequency))
        case GaussianLoss(variance, k):
            return _integers_in_balls(variance, k, _rule(loss, power, frequency))


def _laplace_in_balls(epsilon: arb, path: list[_Piece]) -> tuple[list[Ball], list[Ball]]:
    # Under Q: 1/2 exp(-|x|), and b = |x| - |x - epsilon|: two atoms, and a density where 0 < x < epsilon.
    losses: list[Ball] = [-epsilon, epsilon]
    chances: list[Ball] = [arb(0.5), (-epsilon).exp() / 2]
    for piece in path:
        for x, weight in zip(*piece.rule(arb(0), epsilon), strict=True):
            losses.append(2 * x - epsilon)
            chances.append(weight / 2 * (-x).exp())
    return losses, chances


def _normal_in_balls(base: NormalLoss | MixtureLoss, rule: _Rule) -> tuple[list[Ball], list[Ball]]:
    _checked((rule.last - rule.first) * len(moves_of(base)))
    step = Fraction(rule.step)
    places: list[Ball] = [rational(j * step) for j in range(rule.first, rule.last + 1)]
    if rule.shift:
        places = [acb(x, rule.shift) for x in places]
    unit = rational(step) / (2 * arb.pi()).sqrt()
    return _log_odds_balls(base, places), [unit * (-x * x / 2).exp() for x in places]


def _log_odds_balls(base: NormalLoss | MixtureLoss, places: Sequence[Ball]) -> list[Ball]:
    """The loss b of normal noise at places in standard deviations, as balls of the working precision."""
    if isinstance(base, NormalLoss):
        mu = rational(base.mu_squared).sqrt()
        return [mu * x - mu * mu / 2 for x in places]
    unit = rational(base.variance).sqrt()
    parts = [(rational(move) / unit, rational(share)) for move, share in base.shares]
    return [sum((share * (mu * x - mu * mu / 2).exp() for mu, share in parts), arb(0)).log() for x in places]


def _integers_in_balls(variance: Fraction, k: int, rule: _Rule) -> tuple[list[Ball], list[Ball]]:
    _checked(rule.last - rule.first)
    theta, numbers = _theta(variance), range(rule.first, rule.last + 1)
    return (
        [rational(Fraction(2 * k * y - k * k) / (2 * variance)) for y in numbers],
        [rational(Fraction(-y * y) / (2 * variance)).exp() / theta for y in numbers],
    )


def _theta(variance: Fraction) -> arb:
    """The sum of exp(-x^2 / (2 v)) over all whole numbers x."""
    argument = acb(0, 1 / (2 * arb.pi() * rational(variance)))
    # The third of Jacobi's theta functions at 0; the stub of the library has lost the first argument's name.
    return cast(arb, cast(Any, acb(0)).modular_theta(argument)[2].real)


def _checked(count: int) -> int:
    if count > MOST_TERMS:
        raise SolverError(
            f"the loss of a random sample has {count} terms, more than the {MOST_TERMS} that this engine can list. Ask "
            "for another engine."
        )
    return count


def _halves_in_floats(loss: SampledLoss, tilt: float) -> tuple[Floats, Floats]:
    """For a sample of fixed size: losses, and the logarithms of their tilted probabilities, in floats."""
    power = float(_power(loss, Fraction(tilt)))
    if isinstance(loss.base, NormalLoss):
        mu = moves_of(loss.base)[0][0]
        ends = np.linspace(mu / 2, _range(loss, power, mu)[1], 4097)
        x = (ends[1:] + ends[:-1]) / 2
        log_q = math.log(float(ends[1] - ends[0]) / math.sqrt(2 * math.pi)) - x * x / 2
        b = log_odds(loss.base, x)
    else:
        log_q, b = _in_floats(loss, power)
    log_q, grown = log_q[b > 0], log_ratios(loss, b[b > 0])
    stays = max(1 - float(np.exp(log_q).sum() + np.exp(log_q + grown).sum()), _TINY)
    exponents = [log_q + (1 + tilt) * grown, log_q - tilt * grown, np.array([math.log(stays)])]
    return np.concatenate([grown, -grown, [0.0]]), np.concatenate(exponents)


@cache
def _coarse_rule() -> tuple[Floats, Floats]:
    """Places and weights of a Gauss-Legendre rule in floats, which take a hundredth of a second to compute."""
    return np.polynomial.legendre.leggauss(64)


def _in_floats(loss: SampledLoss, power: float) -> tuple[Floats, Floats]:
    """Logarithms of probabilities under Q, and the losses b, in floats and on a coarse rule."""
    match loss.base:
        case None:
            return np.zeros(1), np.zeros(1)
        case ResponseLoss(epsilon, options):
            logs = np.array([float(epsilon), math.log(options - 2), 0.0])
            whole = float(np.logaddexp(float(epsilon), math.log(options - 1)))
            return logs - whole, np.array([-float(epsilon), 0.0, float(epsilon)])
        case LaplaceLoss(scale, k):
            rate, j = 1 / float(scale), np.arange(k + 1, dtype=np.float64)
            logs = -rate * j
            logs[1:-1] += math.log(-math.expm1(-rate))
            return logs - math.log1p(math.exp(-rate)), (2 * j - k) * rate
        case ExponentialLoss(epsilon):
            whole = float(epsilon)
            nodes, weights = _coarse_rule()
            x = whole * (1 + nodes) / 2
            ends = np.array([-math.log(2), -math.log(2) - whole])
            density = np.log(whole / 4 * weights) - x
            return np.concatenate([ends, density]), np.concatenate([[-whole, whole], 2 * x - whole])
        case _:
            rule = _rule(loss, Fraction(power), 0.0)
            # Few places are enough for a guess where there are very many.
            stride = max(1, (rule.last - rule.first) >> 10)
            x = np.arange(rule.first, rule.last + 1, stride, dtype=np.float64) * rule.step
            unit = math.log(stride * rule.step / math.sqrt(2 * math.pi))
            return unit - x * x / 2, log_odds(loss.base, x)


@dataclass(frozen=True, slots=True)
class _Shift:
    """The integral of |exp(-x^2 / 2) R^w| along the line Im x = y, as a sum over cells that is not below it.

    Attributes:
        logs: Logarithms of the cells' largest terms without the frequency.
        angles: The least angle of R in each cell, by which the terms fall with the frequency.
    """

    logs: Floats
    angles: Floats

    @classmethod
    def of(cls, loss: SampledLoss, power: float, angle: float, mu: float) -> "_Shift":
        """The cells for a shift by an angle of at most a right one: then |R| and its angle rise with x."""
        # Here, because it takes longer to load than most compositions, and few of them hold samples.
        from scipy.special import log_ndtr

        low, high = _range(loss, power, mu)
        if loss.changed:
            # From the place with b = 0 the integral goes up to Im x = y first (`_Upright`), and then along the line.
            low, high = mu / 2, max(high, mu / 2 + 1)
        step = min(_FINE, 0.05 / (1 + abs(power) * mu))
        count = min(math.ceil((high - low) / step), _MOST_CELLS)
        x = np.linspace(low, high, count + 1)
        left, log_q = _log_rest(loss), math.log(loss.probability)
        top = np.maximum(left, log_q + log_odds(loss.base, x))
        along, across = np.exp(left - top), np.zeros(x.size)
        for move, log_share in moves_of(loss.base):
            part = np.exp(log_q + log_share + (move * x - move * move / 2) - top)
            along, across = (
                along + part * math.cos(move / mu * angle),
                across + part * math.sin(move / mu * angle),
            )
        sizes = power * (top + np.log(np.hypot(along, across)))
        turns = np.arctan2(across, along)
        # The logarithm of the normal mass of each cell, from the side on which it is small.
        near, far = np.where(x[1:] <= 0, x[1:], -x[:-1]), np.where(x[1:] <= 0, x[:-1], -x[1:])
        masses = log_ndtr(near) + np.log(-np.expm1(log_ndtr(far) - log_ndtr(near)))
        # Beyond the left end |R| lies between 1 - q and its value there. Beyond the right one exp(-x^2 / 2) |R|^power
        # falls faster than exp(-(high - power mu) x).
        leftmost = max(float(sizes[0]), power * left) + float(log_ndtr(low))
        if power <= 0 and left == -math.inf:
            # Without a part that stays, R falls to 0, but |R| >= R(x) cos(angle / 2), and exp(-x^2 / 2) R^power falls.
            grown = float(log_ratios(loss, log_odds(loss.base, x[:1]))[0]) + math.log(math.cos(angle / 2))
            fall = -low + power * _slope(loss, low)
            leftmost = power * grown - low * low / 2 - math.log(math.sqrt(2 * math.pi) * fall)
        beyond = high - max(power, 0.0) * mu
        rightmost = float(sizes[-1]) - high * high / 2 - math.log(math.sqrt(2 * math.pi) * beyond)
        logs = (
            np.concatenate([np.maximum(sizes[:-1], sizes[1:]) + masses, [rightmost]]) + (angle / mu) ** 2 / 2
        )
        if loss.changed:
            # The way up from the place with b = 0 belongs to both halves together.
            return cls(logs, np.concatenate([turns[:-1], [float(turns[-1])]]))
        before = np.array([leftmost + (angle / mu) ** 2 / 2])
        return cls(np.concatenate([before, logs]), np.concatenate([[0.0], turns[:-1], [float(turns[-1])]]))

    def log_size(self, begin: float, end: float) -> float:
        """The logarithm of the sum between two frequencies, at most; it falls with the frequency."""
        return float(np.logaddexp.reduce(self.logs - begin * self.angles))


@dataclass(frozen=True, slots=True)
class _Upright:
    """Both integrals for a sample of fixed size along the way up from b = 0, whose largest parts cancel.

    At b = i theta let R = rho exp(i alpha). The first half has R^(1 + s + i u), the second one the conjugate of R^(-s +
    i u), with opposite signs. So their sum is at most the larger modulus, times 1 - exp(x) with x = (1 + 2 s) ln rho +
    i (alpha - theta + 2 u ln rho) or minus its real part. It is a sum over cells of theta.

    Attributes:
        logs: Logarithms of the cells' largest terms without the frequency and without what cancels.
        angles: The least alpha in each cell.
        fixed: The part of the largest |x| in each cell without the frequency.
        growth: Its growth with the frequency.
    """

    logs: Floats
    angles: Floats
    fixed: Floats
    growth: Floats

    @classmethod
    def of(cls, loss: SampledLoss, tilt: float, angle: float, mu: float) -> "_Upright":
        """The cells up to an angle of at most a right one."""
        q = float(loss.probability)
        # In geometric progression, as ever smaller ones count at ever larger frequencies.
        turns = np.concatenate([[0.0], angle * np.exp(np.linspace(-_NATS_UPWARDS, 0.0, _UPRIGHT))])
        # rho falls with theta, and theta - alpha rises: the far end of a cell is the worst one for both.
        log_rho = np.log1p(-2 * q * (1 - q) * (1 - np.cos(turns))) / 2
        alpha = np.arctan2(q * np.sin(turns), 1 - q + q * np.cos(turns))
        unit = -math.log(mu * math.sqrt(2 * math.pi)) - mu * mu / 8
        sizes = np.maximum.reduce(
            [power * part for power in (1 + tilt, -tilt) for part in (log_rho[1:], log_rho[:-1])]
        )
        return cls(
            unit + np.log(np.diff(turns)) + (turns[1:] / mu) ** 2 / 2 + sizes,
            alpha[:-1],
            abs(1 + 2 * tilt) * -log_rho[1:] + (turns - alpha)[1:] + 1e-15,
            -2 * log_rho[1:],
        )

    def log_size(self, begin: float, end: float) -> float:
        """The logarithm of the sum between two frequencies, at most."""
        damped = -begin * self.angles
        # u exp(-u alpha) is largest at u = 1 / alpha. In the first cell, where alpha is 0, it has no end.
        with np.errstate(divide="ignore"):
            worst = np.clip(1 / np.maximum(self.angles, _TINY), begin, end)
            rising = np.log(self.growth) + np.log(worst) - worst * self.angles
        # |1 - exp(x)| is at most |x| for a real part of at most 0, and at most 2.
        part = np.minimum(np.logaddexp(np.log(self.fixed) + damped, rising), math.log(2) + damped)
        return float(np.logaddexp.reduce(self.logs + part))
