"""Quantiles of an ordered attribute, and indices of inequality between groups and areas, from noisy counts.

Problem. The counts of an area by the levels of an attribute have unbiased estimates x with the covariance matrix C.
Wanted is a number that is no quotient of two weighted sums, with an interval that is honest about bias.

Quantiles, by inversion of tests. With D(l) for the count up to level l less the part q of all, the quantile m is the
level with D(m - 1) < 0 <= D(m). A level l is left out only if D(l - 1) is above 0 by z standard errors, or D(l) is
below 0 by as many. Each happens to the true level with a probability of at most half of what is not covered, because
D is a weighted sum of normal estimates with a known variance. So the levels that are kept hold the quantile as often
as the level of the interval says; no derivative is used. The estimate is the level below which as many levels lie as
have a D below 0.

Indices, by the delta method. An index is a function of the counts of all units (areas) and groups, t of a unit, X of
a group and N of all:

    entropy         - sum of P ln P, with the share P = X / N of each group
    theil           1 - sum of t E / (N E'), with the entropy E of each unit and E' of all
    dissimilarity   sum of |x - t P| / (2 N I), with I = sum of P (1 - P)
    gini            sum of |x t' - x' t| / (2 N^2 I), over all pairs of units

Each is a quotient r = A / B, with the gradient g = (g_A - r g_B) / B. Its variance is g'C g, and its bias is, to second
order,

    bias(A) / B - r bias(B) / B - g_A'C g_B / B^2 + r g_B'C g_B / B^2.

For smooth A and B, the bias is half the sum of second derivatives times covariances. That of |y|, whose estimate has
the standard error s, is 2 s phi(y / s) - 2 |y| Phi(-|y| / s).

Refusals. A logarithm of what may be zero has no expansion, and near the kink of |y| the gradient has no sign. So no
index is given if a count of the logarithms, the number of people or the denominator may be zero before noise, or if
the bias may be more than half of the standard error. Whether it may is asked with every count, and every y, one
standard error nearer to zero: where most indices are refused, those whose noise happens to hide their bias would be
left, and miss. Where an index is given, the bias is subtracted.

Worked case. Two units have 60 and 40 of group a, 40 and 60 of group b, with standard errors of 2 that are independent.
Dissimilarity is 4 x 10 / (2 x 200 x 1/2) = 0.2. Each y is 10, with a standard error of about 1, so that the bias is
below 1e-20.

Sources: Reardon and Firebaugh 2002, Sociological Methodology 32, 33-67 (indices of several groups); Casella and Berger
2002, Statistical Inference, section 5.5.4 (delta method) and 9.2.1 (inversion of tests).
"""

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, xlogy

from tallyveil.arrays import Floats, Integers

NEARER: Final = 1.0
"""Standard errors by which counts are taken nearer to zero, to ask how large the bias may be. At 0, intervals of
indices that are mostly refused held in 50 to 87 of 100 cases, at 1 in at least 93 (benchmarks/asking_coverage.py). At
2, ten points more are refused of indices whose intervals hold."""
BIAS_SHARE: Final = 0.5
"""Part of the standard error above which an index with this bias is not given. An interval of 95 % around an estimate
that is off by half a standard error holds 92 %; most of the bias is subtracted besides. With twice as much it would
hold 83 %."""
GRAIN: Final = 1e-6
"""Counts that are nearer than this are equal: estimates are sums of floats, which are far more exact."""
MAY_BE_ZERO: Final = "a count that the index takes the logarithm of, or divides by, may be zero before noise"
BIASED: Final = "the noise may bias the index by more than half of its standard error"


class Quantiles(NamedTuple):
    """Levels by their numbers; shape (rows,) each.

    Attributes:
        estimate: The estimated level.
        low, high: The first and the last level that is not rejected.
    """

    estimate: Integers
    low: Integers
    high: Integers


def quantile_sums(n_levels: int, q: float) -> Floats:
    """Weights of D(0), D(1), ... on the counts of the levels; shape (n_levels, n_levels)."""
    sums: Floats = np.tri(n_levels) - q
    return sums


def quantiles_of(sums: Floats, variances: Floats, quantile: float) -> Quantiles:
    """The quantile of each row, and the levels that are not rejected.

    Args:
        sums: Estimates of D(0), D(1), ...; shape (rows, levels).
        variances: Their variances; of the same shape.
        quantile: z, the normal quantile of the level of the interval, two-sided.
    """
    n_levels = sums.shape[1]
    # What is known exactly and is zero comes out a rounding error beside it.
    sums = np.where((variances == 0) & (np.abs(sums) < GRAIN), 0.0, sums)
    reach = quantile * np.sqrt(variances)
    estimate = np.minimum((sums < 0).sum(axis=1), n_levels - 1)
    # D before the first level is - q N, which is never above 0.
    below = np.concatenate([np.full((len(sums), 1), -np.inf), (sums - reach)[:, :-1]], axis=1)
    # Of D that is known exactly, 0 is not below 0: the quantile is the first level with D >= 0.
    exact = np.concatenate([np.zeros((len(sums), 1), np.bool_), (variances == 0)[:, :-1]], axis=1)
    accepted = np.where(exact, below < 0, below <= 0) & (sums + reach >= 0)
    # Where every level is rejected, the estimate is the least that contradicts the counts.
    accepted[np.arange(len(sums)), estimate] |= ~accepted.any(axis=1)
    low = accepted.argmax(axis=1)
    high = n_levels - 1 - accepted[:, ::-1].argmax(axis=1)
    return Quantiles(estimate, np.minimum(low, estimate), np.maximum(high, estimate))


class Index(NamedTuple):
    """An index from noisy counts.

    Attributes:
        value: The estimate, less its bias.
        standard_error: By the delta method.
        lacking: Why it is not given; None if it is.
    """

    value: float
    standard_error: float
    lacking: str | None


def index_of(kind: str, counts: Floats, covariance: Floats, quantile: float) -> Index:
    """An index with its standard error.

    Args:
        kind: "entropy", "theil", "dissimilarity" or "gini".
        counts: Estimated counts of units by groups; shape (units, groups). Of one unit for "entropy".
        covariance: Their covariances; shape (units x groups, units x groups).
        quantile: z, the normal quantile by which what may be zero is told.
    """
    state = _State.of(counts, covariance)
    if not _is_above_zero(state.counts.sum(), float(covariance.sum()), quantile):
        return Index(math.nan, math.nan, MAY_BE_ZERO)
    if kind in ("entropy", "theil") and not state.logarithms_are_safe(quantile):
        return Index(math.nan, math.nan, MAY_BE_ZERO)
    above, below = _parts(kind, state)
    gradients = np.stack([above.gradient.ravel(), below.gradient.ravel()])
    # Var A, Cov(A, B) and Var B to first order.
    (_, both), (_, second) = gradients @ covariance @ gradients.T
    if not _is_above_zero(below.value, float(second), quantile):
        return Index(math.nan, math.nan, MAY_BE_ZERO)
    ratio = above.value / below.value
    slope = (gradients[0] - ratio * gradients[1]) / below.value
    error = math.sqrt(max(float(slope @ covariance @ slope), 0.0))
    curved = (ratio * second - both) / below.value**2
    bias, greatest = (
        (above.bias - ratio * below.bias) / below.value + curved,
        (above.greatest - ratio * below.greatest) / below.value + curved,
    )
    if max(abs(bias), abs(greatest)) > BIAS_SHARE * error + ROUNDING:
        return Index(math.nan, math.nan, BIASED)
    value = ratio - bias
    return Index(1 - value if kind == "theil" else value, error, None)


ROUNDING: Final = 1e-9
"""A bias below this is a rounding error of zero: indices are of the order of 1."""


def plain_index(kind: str, counts: NDArray[np.int64]) -> float:
    """The index of counts without noise; NaN where nobody is counted, or where all are of one group."""
    # Areas by groups without people take no part, and would be logarithms of zero.
    state = _State(counts.astype(np.float64), np.zeros((0, 0)))
    if state.counts.sum() == 0:
        return math.nan
    above, below = _parts(kind, state)
    if below.value <= 0:
        return math.nan
    return 1 - above.value / below.value if kind == "theil" else above.value / below.value


def _is_above_zero(value: float, variance: float, quantile: float) -> bool:
    return value > quantile * math.sqrt(max(variance, 0.0))


class _Part(NamedTuple):
    """A function of the counts.

    Attributes:
        value: Its value.
        gradient: In the shape of the counts.
        bias: To second order.
        greatest: The same, one standard error nearer to zero.
    """

    value: float
    gradient: Floats
    bias: float
    greatest: float


@dataclass(frozen=True, slots=True, eq=False)
class _State:
    """Counts (units, groups), and their covariances (units, groups, units, groups); empty for counts without noise."""

    counts: Floats
    covariance: Floats

    @classmethod
    def of(cls, counts: Floats, covariance: Floats) -> "_State":
        return cls(counts, covariance.reshape(*counts.shape, *counts.shape))

    @property
    def has_noise(self) -> bool:
        return self.covariance.ndim == 4

    def linear_forms(self) -> list[tuple[Floats, Floats]]:
        """Values and variances of the cells, of the units, of the groups, and of all."""
        x, c = self.counts, self.covariance
        values = [x, x.sum(axis=1), x.sum(axis=0), x.sum()]
        if not self.has_noise:
            return [(np.asarray(value), np.zeros(np.shape(value))) for value in values]
        variances = [
            np.einsum("igig->ig", c),
            np.einsum("igih->i", c),
            np.einsum("igjg->g", c),
            c.sum(),
        ]
        return [
            (np.asarray(value), np.maximum(variance, 0.0))
            for value, variance in zip(values, variances, strict=True)
        ]

    def logarithms_are_safe(self, quantile: float) -> bool:
        """Whether each count is exactly zero, or above zero by more than its noise."""
        return all(
            bool((((value == 0) & (variance == 0)) | (value > quantile * np.sqrt(variance))).all())
            for value, variance in self.linear_forms()
        )


def _parts(kind: str, state: _State) -> tuple[_Part, _Part]:
    """A and B."""
    x = state.counts
    n = float(x.sum())
    if kind in ("entropy", "theil"):
        cells, units, groups, everybody = (_logarithmic(*form) for form in state.linear_forms())
        whole = _Part(
            float(everybody.value - groups.value.sum()),
            everybody.slope - np.broadcast_to(groups.slope, x.shape),
            float(everybody.bias - groups.bias.sum()),
            float(everybody.greatest - groups.greatest.sum()),
        )
        if kind == "entropy":
            return whole, _Part(n, np.ones(x.shape), 0.0, 0.0)
        inside = _Part(
            float(units.value.sum() - cells.value.sum()),
            units.slope[:, None] - cells.slope,
            float(units.bias.sum() - cells.bias.sum()),
            float(units.greatest.sum() - cells.greatest.sum()),
        )
        return inside, whole
    groups_total = x.sum(axis=0)
    squares, shares = float((groups_total**2).sum()), groups_total / n
    spread = _group_variances(state)
    if kind == "dissimilarity":
        bias = -2.0 * float((spread.groups / n - 2 * groups_total * spread.shared / n**2).sum())
        bias -= 2.0 * squares * spread.everybody / n**3
        slope = 2.0 * (1.0 - 2.0 * shares + float((shares**2).sum()))
        return _deviations(state), _Part(
            2.0 * (n - squares / n), np.broadcast_to(slope, x.shape).copy(), bias, bias
        )
    slope = 4.0 * (n - groups_total)
    bias = 2.0 * float(spread.everybody - spread.groups.sum())
    return _pairs(state), _Part(2.0 * (n**2 - squares), np.broadcast_to(slope, x.shape).copy(), bias, bias)


class _Logarithmic(NamedTuple):
    """v ln v of several v, with its derivatives, its biases, and these one standard error nearer to zero."""

    value: Floats
    slope: Floats
    bias: Floats
    greatest: Floats


def _logarithmic(values: Floats, variances: Floats) -> _Logarithmic:
    """The bias is half of the variance times the second derivative, which is 1 / v."""
    there = values > 0
    some = np.where(there, values, 1.0)
    nearer = np.maximum(some - NEARER * np.sqrt(variances), GRAIN)
    return _Logarithmic(
        xlogy(values, some),
        np.where(there, np.log(some) + 1.0, 0.0),
        np.where(there, variances / some / 2, 0.0),
        np.where(there, variances / nearer / 2, 0.0),
    )


class _Spread(NamedTuple):
    """Variances of the groups and of everybody, and covariances of the groups with everybody."""

    groups: Floats
    shared: Floats
    everybody: float


def _group_variances(state: _State) -> _Spread:
    if not state.has_noise:
        zeros = np.zeros(state.counts.shape[1])
        return _Spread(zeros, zeros, 0.0)
    c = state.covariance
    return _Spread(np.einsum("igjg->g", c), np.einsum("igjh->g", c), float(c.sum()))


def _kinked(values: Floats, variances: Floats) -> tuple[float, float]:
    """The bias of the sum of |y|, for normal estimates of y, and the same one standard error nearer to zero."""
    errors = np.sqrt(np.maximum(variances, 0.0))
    noisy = errors > 0
    scores = np.abs(values[noisy]) / errors[noisy]
    sums = []
    for score in (scores, np.maximum(scores - NEARER, 0.0)):
        density = np.exp(-0.5 * score**2) / math.sqrt(2 * math.pi)
        sums.append(float(2.0 * (errors[noisy] * (density - score * ndtr(-score))).sum()))
    return sums[0], sums[1]


def _deviations(state: _State) -> _Part:
    """The sum of |x - t P|, which is linear in the counts at fixed P and t to first order."""
    x = state.counts
    n = x.sum()
    units, shares = x.sum(axis=1) / n, x.sum(axis=0) / n
    deviations = x - n * np.outer(units, shares)
    signs = np.sign(deviations)

    def moved(array: Floats) -> Floats:
        """The change of the deviations, for changes of the counts along the first two axes."""
        shape = (1,) * (array.ndim - 2)
        p, t = shares.reshape(1, -1, *shape), units.reshape(-1, 1, *shape)
        by_unit, by_group = array.sum(axis=1, keepdims=True), array.sum(axis=0, keepdims=True)
        out: Floats = array - p * by_unit - t * by_group + p * t * by_unit.sum(axis=0, keepdims=True)
        return out

    along = (signs * shares).sum(axis=1, keepdims=True)
    across = (signs * units[:, None]).sum(axis=0, keepdims=True)
    gradient = signs - along - across + float((along[:, 0] * units).sum())
    if not state.has_noise:
        return _Part(float(np.abs(deviations).sum()), gradient, 0.0, 0.0)
    # First along the one side of the covariances, then along the other.
    once = moved(state.covariance)
    twice = moved(np.moveaxis(once, (0, 1), (2, 3)))
    variances = np.einsum("igig->ig", twice)
    return _Part(float(np.abs(deviations).sum()), gradient, *_kinked(deviations, variances))


def _pairs(state: _State) -> _Part:
    """The sum of |x t' - x' t| over all groups and all ordered pairs of units."""
    x, c = state.counts, state.covariance
    t = x.sum(axis=1)
    value, biases, gradient = 0.0, np.zeros(2), np.zeros(x.shape)
    both = np.einsum("igjh->ij", c) if state.has_noise else None
    for group in range(x.shape[1]):
        members = x[:, group]
        pairs = np.outer(members, t) - np.outer(t, members)
        signs = np.sign(pairs)
        value += float(np.abs(pairs).sum())
        gradient[:, group] += 2 * signs @ t
        gradient -= 2 * (signs @ members)[:, None]
        if both is not None:
            inside, with_unit = c[:, group, :, group], c[:, group].sum(axis=2)
            biases += _kinked(pairs, _pair_variances(members, t, inside, with_unit, both))
    return _Part(value, gradient, float(biases[0]), float(biases[1]))


def _pair_variances(x: Floats, t: Floats, inside: Floats, with_unit: Floats, both: Floats) -> Floats:
    """Variances of x t' - x' t of all pairs of units, from the covariances of x and x', x and t', and t and t'."""
    first, second = np.diag(inside), np.diag(both)
    same_unit = np.diag(with_unit)
    # Of t' x: x and t' are of different units; of x' t likewise.
    square = np.outer(first, t**2) + np.outer(x**2, second)
    square = square + square.T
    mixed = 2 * np.outer(x, t) * with_unit  # t' x Cov(x, t')
    crossed = -2 * np.outer(t, t) * inside - 2 * np.outer(x, x) * both
    # Of x and t of one unit, in two terms of opposite signs.
    beside = -2 * np.outer(same_unit, t * x)
    out: Floats = square + mixed + mixed.T + crossed + beside + beside.T
    return out
