"""Figure 10, Table 2, appendix A: the paper's closed forms, error budget and knots, beside exact values.

Table 2 says how far the law of a sum of discrete Gaussians is from the Gaussian density, certified. The
residual is r = sup over integers k of |P(S = k) - phi(k / B) / B|, with S the sum of n draws of variance v
and B = sqrt(n v). The law of S is the n-th power of a polynomial, computed in ball arithmetic; what is cut
off is bounded and added to the balls.

Appendix A. Variables: v, the variance proxy of one query; n, the number of queries; B = sqrt(n v); X, S, the
noise of one query and of all; phi, the normal density.

- Theorem A.7 (n = 1): delta = P(X > epsilon v - 1/2) - e^epsilon P(X > epsilon v + 1/2).
- Theorem A.8 (n = 2): delta = 1 + max over t of (-e^epsilon alpha(t) - beta(t)), with alpha(t) = P(S > t) and
  beta(t) = P(S <= t - 2).
- Theorem A.11 (n = 10): P(S = i) replaced by phi(i / B) / B.

Appendix A.3 has the knots of the trade-off functions of two and more queries, as printed and as they are.
Variables: v, the variance proxy of one query (sigma squared); n, the number of queries, each of which moves
by 1; S, the sum of their noise; k, the remainder of a value of S by n.

Equations A.5 and A.6 give the type I and type II errors of the test that rejects above t: P(S > t) and P(S <=
t - n). A point x whose coordinates add up to y = n m + k is a point with k coordinates m + 1 and n - k
coordinates m, and something u that adds up to 0. So sum x^2 = y^2 / n + k (n - k) / n + sum u^2 + 2 (u_1 +
... + u_k), and

    P(S = y) = c(n, k) exp(-y^2 / (2 n v)),
    c(n, k) = exp(-k (n - k) / (2 n v)) / theta^n
              sum over u_1 ... u_(n-1) of exp(-(sum u^2 + (sum u)^2 + 2 (u_1 + ... + u_k)) / (2 v)),

with theta = sum of exp(-i^2 / (2 v)). Printed are exp(-y^2 / (2 v)), the factor exp(-k (n - 1) / (2 n v)),
one square more in the sum, and no theta. Theorem A.8 is the case n = 2; its constants are exchanged in print.

Worked case: n = 2, k = 0: P(S = 2 i) = exp(-i^2 / v) (sum of exp(-u^2 / v)) / theta^2.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Final

import numpy as np
import polars as pl
from flint import arb, arb_poly
from scipy.special import log_ndtr

from tallyveil.accounting import zcdp_to_epsilon_textbook
from tallyveil.accounting.numbers import Bounds
from tallyveil.arrays import Floats, Integers
from tallyveil.errors import SolverError
from tallyveil.noise import DiscreteGaussian
from tallyveil.noise.balls import precision, rational
from tallyveil.report.drawing import Line, LinePanel, LinePlot, Role
from tallyveil_studies.exhibit import Findings, StudyInputs
from tallyveil_studies.fdp_census.allocation import (
    FOLDS,
    OVERALL_DELTA,
    RHO,
    compared,
    geolevel_guarantee,
    overall_guarantee,
    printed,
    shares,
    variances,
)

_SUMMANDS = (5, 9, 10, 18, 20, 27, 50, 100)
"""Rows of Table 2: numbers of summands."""

_VARIANCES = (1, 5, 10, 16)
"""Columns of Table 2: variances; its last column is for 16 and more."""

_BITS = 600  # 180 decimal digits: residuals reach 1e-136
_CUT_LOG = 420.0  # one draw is cut where its tail is below exp(-420), 1e-182


def certified_residuals(_: StudyInputs) -> Findings:
    """Table 2, from both sides."""
    rows, ours = [], {}
    for n in _SUMMANDS:
        for variance in _VARIANCES:
            bounds = residual(n, Fraction(variance))
            ours[f"n={n}, variance {variance}"] = bounds.upper
            rows.append({"n": n, "variance": variance, "lower": bounds.lower, "upper": bounds.upper})
    return Findings(
        tables={"table-2": pl.DataFrame(rows)},
        comparisons=compared("table-2", ours, "residual"),
        notes=(
            "Ours is the residual itself, certified; the paper prints upper bounds of it. Its last column is "
            "for every variance of 16 or more, ours for 16.",
        ),
    )


def residual(n: int, variance: Fraction) -> Bounds:
    """sup over k of |P(S = k) - phi(k / B) / B|, certified.

    Args:
        n: Summands.
        variance: Of each, exact.
    """
    with precision(_BITS):
        return _residual(n, rational(variance))


def _residual(n: int, v: arb) -> Bounds:
    reach = math.ceil(math.sqrt(2 * float(v.mid()) * _CUT_LOG)) + 1
    weights = [(-(arb(x) * x) / (2 * v)).exp() for x in range(-reach, reach + 1)]
    total = sum(weights, arb(0))
    # The sum's law is the n-th power of the generating polynomial.
    law = arb_poly([weight / total for weight in weights]) ** n
    # Cutting one draw's law moves it by at most its tail (total variation), so the sum's by n times that.
    tail = 2 * (-(arb(reach) ** 2) / (2 * v)).exp()
    spill = (2 * n * tail).upper()
    spread = n * v
    height = 1 / (2 * arb.pi() * spread).sqrt()
    low, high = arb(0), arb(0)
    # k >= 0 only: both laws are symmetric.
    for k in range(n * reach + 1):
        density = height * (-(arb(k) ** 2) / (2 * spread)).exp()
        gap = abs(law[n * reach + k] - density)
        # The residual is at least the largest lower end and at most the largest upper end.
        low, high = max(low, (gap - spill).lower()), max(high, (gap + spill).upper())
        # From k on both terms are at most this: P(S >= k) because S is sub-Gaussian, the density because
        # its height is below 1.
        if (-(arb(k) ** 2) / (2 * spread)).exp() < low:
            return Bounds(_nearest(low, 0.0), _nearest(high, math.inf))
    raise SolverError(f"the residual for n = {n} is smaller than {_BITS} bits of precision can certify")


def _nearest(end: arb, towards: float) -> float:
    """An exact ball as the next float in a direction."""
    mantissa, exponent = (int(part) for part in end.man_exp())
    return math.nextafter(float(Fraction(mantissa) * Fraction(2) ** exponent), towards)


_DELTAS = ("1e-3", "1e-5", "1e-8", "1e-11")
_REACH = 16.0
"""Standard deviations of a law that are kept: what is beyond has a probability below 1e-56."""
_SCALE = 1000
"""L of Proposition A.13: the shares times this are whole numbers."""
_WIDE, _OF_WIDE = 16, "n=10, variance 16"
_CUT = 1 / 100
"""Where Fact A.14 cuts the integral off."""


def two_folds(_: StudyInputs) -> Findings:
    """Figure 10: the law of the sum of two draws, and the density it is replaced by, at variance 5 and 25."""
    frames, panels = [], []
    # The two variances of Figure 10.
    for variance in (5, 25):
        law = sum_law(Fraction(variance), 2)
        reach = math.ceil(4 * math.sqrt(2 * variance))
        points = np.arange(-reach, reach + 1, dtype=np.float64)
        middle = len(law) // 2
        exact = law[middle - reach : middle + reach + 1]
        density = _density(points, 2 * variance)
        frames.append(
            pl.DataFrame(
                {
                    "variance": [variance] * points.size,
                    "i": points.astype(np.int64),
                    "probability": exact,
                    "density": density,
                    "difference": exact - density,
                }
            )
        )
        lines = (
            Line("probability", Role.OURS, points, exact),
            Line("normal density", Role.PUBLISHED, points, density),
        )
        panels.append(LinePanel(f"variance {variance}", lines))
    plot = LinePlot(panels=tuple(panels), columns=2, x_label="sum of two draws", y_label="probability")
    table = pl.concat(frames)
    greatest = float(table["difference"].abs().max())  # type: ignore[arg-type]
    return Findings(
        tables={"figure-10": table},
        drawings={"figure-10": plot},
        notes=(
            f"In floats the two differ by {greatest:.1e} at most; Table 2 has the certified differences.",
        ),
    )


def closed_forms(_: StudyInputs) -> Findings:
    """Theorems A.7, A.8 and A.11 at the State's variance, and the error budget of section A.6."""
    variance = variances()["State"]
    forms: dict[str, tuple[int, Callable[[float, float], float]]] = {
        "A.7": (1, one_query),
        "A.8": (2, two_queries),
        "A.11": (FOLDS, normal_sums),
    }
    rows = []
    for theorem, (n, form) in forms.items():
        guarantee = geolevel_guarantee(variance, n)
        for delta in _DELTAS:
            epsilon = guarantee.epsilon(delta).upper
            exact, paper = guarantee.delta(epsilon), form(float(variance), epsilon)
            rows.append(
                {
                    "theorem": theorem,
                    "queries": n,
                    "epsilon": epsilon,
                    "exact_lower": exact.lower,
                    "exact_upper": exact.upper,
                    "papers_form": paper,
                    "relative_difference": paper / exact.upper - 1,
                }
            )
    budget = error_budget()
    ours = {row["error"]: row["ours"] for row in budget.iter_rows(named=True)}
    return Findings(
        tables={"closed-forms": pl.DataFrame(rows), "closed-forms-error-budget": budget},
        comparisons=compared("appendix-errors", ours, "error bound of section A.6"),
        notes=(
            "The closed forms agree with the exact values but for the rounding of floats. The last one replaces "
            "probabilities by a density; Table 2 bounds what this changes.",
            "Error E(1) depends on epsilon. The printed bound is met at 21.985, the Bureau's epsilon by the formula; "
            "at the 21.97 that the text states it is missed, and at smaller epsilons by far.",
            "Neither matters for a delta of 1e-10. Fact A.15's bound of 2.54e-24 on a sum of 10^7 terms cannot be met "
            "by a sum in double precision, whose terms are rounded at 1e-16.",
        ),
    )


@cache
def sum_law(variance: Fraction, n: int) -> Floats:
    """Probabilities of the sum of n draws, around 0, in floats."""
    law = DiscreteGaussian(variance)
    reach = math.ceil(_REACH * math.sqrt(float(variance)))
    draw = np.array([law.probability(x) for x in range(-reach, reach + 1)])
    total = draw
    for _ in range(n - 1):
        total = np.convolve(total, draw)
    return total


def one_query(variance: float, epsilon: float) -> float:
    """Theorem A.7's delta for sensitivity 1."""
    return _two_tails(sum_law(Fraction(variance), 1), variance, 1, epsilon)


def two_queries(variance: float, epsilon: float) -> float:
    """Theorem A.8's delta for sensitivity 1: the largest over all tests that reject above t."""
    law = sum_law(Fraction(variance), 2)
    # P(S > t), summed from the far end so that small terms come first.
    above = np.concatenate(
        [np.cumsum(law[::-1])[::-1][1:], [0.0]]
    )  # P(S > t), from the far end: small terms first
    # 1 - beta(t) = P(S > t - 2), which keeps its digits where beta is near 1.
    power = np.concatenate([[1.0, 1.0], above[:-2]])
    return float(np.max(power - math.exp(epsilon) * above))


def normal_sums(variance: float, epsilon: float) -> float:
    """Theorem A.11's delta for ten queries, without its residuals."""
    reach = math.ceil(40 * math.sqrt(FOLDS * variance))
    points = np.arange(-reach, reach + 1, dtype=np.float64)
    return _two_tails(_density(points, FOLDS * variance), variance, FOLDS, epsilon)


def _two_tails(law: Floats, variance: float, n: int, epsilon: float) -> float:
    """P(S > epsilon v - n / 2) - e^epsilon P(S > epsilon v + n / 2)."""
    # The law is symmetric about its middle entry, S = 0.
    points = np.arange(law.size) - law.size // 2
    # The loss at S is (S + n / 2) / v or its mirror image, so epsilon is passed at epsilon v -+ n / 2.
    first = law[points > epsilon * variance - n / 2].sum()
    second = law[points > epsilon * variance + n / 2].sum()
    return float(first - math.exp(epsilon) * second)


def _density(points: Floats, variance: float) -> Floats:
    density: Floats = np.exp(-(points**2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)
    return density


def error_budget() -> pl.DataFrame:
    """The errors of section A.6, recomputed by the paper's formulas, beside its numbers."""
    rounded = float(printed("figure-7")["Bureau, delta 1e-10"].value)
    published = zcdp_to_epsilon_textbook(RHO, OVERALL_DELTA)
    exact = overall_guarantee().epsilon(OVERALL_DELTA).upper
    groups = _groups()
    errors = {
        # 12 standard deviations: exp(-12**2 / 2).
        "E(0)0": len(groups) * math.exp(-72),
        "E(0)1": len(groups) * math.exp(-72),
        "E(0)2": _replacing(groups),
        "E(1)": _cut_sums(groups, published),
        "E(1), at 21.97": _cut_sums(groups, rounded),
        "E(1), at the exact epsilon": _cut_sums(groups, exact),
        "E(2)": _cut_integral(groups),
    }
    numbers = printed("appendix-errors")
    return pl.DataFrame(
        [
            {"error": name, "printed": numbers[name].text if name in numbers else None, "ours": value}
            for name, value in errors.items()
        ]
    )


def _groups() -> dict[str, tuple[int, Fraction]]:
    """Queries and variance of the paper's seven groups: two geolevels with one share are one group."""
    by_share: dict[Fraction, list[str]] = {}
    for name, share in shares().items():
        by_share.setdefault(share, []).append(name)
    return {names[0]: (FOLDS * len(names), variances()[names[0]]) for names in by_share.values()}


def _replacing(groups: dict[str, tuple[int, Fraction]]) -> float:
    """E(0)2: what replacing every group's law by a density changes, over points within 12 standard deviations."""
    spreads = {name: math.sqrt(n * float(variance)) for name, (n, variance) in groups.items()}
    total = 0.0
    for name, (n, variance) in groups.items():
        heights = [1 / (math.sqrt(2 * math.pi) * spreads[other]) for other in groups if other != name]
        # From variance 16 the paper's table says no more than this, and exact arithmetic cannot tell more.
        apart = residual(n, variance).upper if variance < _WIDE else float(printed("table-2")[_OF_WIDE].value)
        total += apart * math.prod(heights)
    # 24 standard deviations of points in every group.
    return total * math.prod(24 * spread for spread in spreads.values())


def _cut_sums(groups: dict[str, tuple[int, Fraction]], epsilon: float) -> float:
    """E(1): the largest probability that a group's sum is above 6 t / (k a)."""
    t = FOLDS / 2 * (epsilon / float(RHO) - 1)
    tails = []
    for name, (n, variance) in groups.items():
        bound = 6 * t / (len(groups) * float(shares()[name]))
        tails.append(math.exp(float(log_ndtr(-bound / math.sqrt(n * float(variance))))))
    return max(tails)


def _cut_integral(groups: dict[str, tuple[int, Fraction]]) -> float:
    """E(2), looked at on a grid: pi times the largest |F| beyond the cut. A transform is a sum of normal peaks."""
    # 200,001 points from the cut to pi; the peaks are far wider than a step.
    t = np.linspace(_CUT, math.pi, 200_001)
    logarithm = np.zeros_like(t)
    for name, (n, variance) in groups.items():
        angle = float(shares()[name]) * _SCALE * t
        # Distance to the nearest period of the transform.
        distance = angle - 2 * math.pi * np.round(angle / (2 * math.pi))
        logarithm -= distance**2 * n * float(variance) / 2
    factor = (2 + 2 / np.tan(t / 2)) / (2 * math.pi)
    return math.pi * float(np.max(np.exp(logarithm) * np.abs(factor)))


QUERIES: Final = (2, 3, FOLDS)
"""Numbers of queries: two, as in Theorem A.8; three, the first with a remainder that is not its own mirror; and
the paper's ten."""

_KNOT_REACH: Final = 16
"""Standard deviations that a sum is taken over: what is beyond is below 1e-55 of it."""


def knots(_: StudyInputs) -> Findings:
    """Type I and type II errors at the State's variance, and the constants of every remainder."""
    variance = variances()["State"]
    errors, constants = [], []
    for n in QUERIES:
        law, guarantee = sum_law(variance, n), geolevel_guarantee(variance, n)
        points = np.arange(law.size) - law.size // 2
        ours, printed = sum_by_classes(variance, n), printed_sum(variance, n)
        spread = math.sqrt(n * float(variance))
        # From the middle of the two laws outwards, in spreads of the sum.
        for t in sorted({round(n / 2 + step * spread) for step in (0, 1, 2, 4)}):
            alpha = float(law[points > t].sum())
            known = guarantee.beta(Fraction(alpha))
            errors.append(
                {
                    "queries": n,
                    "t": t,
                    "alpha_exact": alpha,
                    "alpha_corrected": float(ours[points > t].sum()),
                    "alpha_printed": float(printed[points > t].sum()),
                    "beta_certified_lower": known.lower,
                    "beta_certified_upper": known.upper,
                    "beta_corrected": float(ours[points <= t - n].sum()),
                    "beta_printed_without_its_second_minus": float(printed[points <= t - n].sum()),
                }
            )
        right, as_printed = class_weights(variance, n), printed_weights(variance, n)
        for k in range(n):
            constants.append(
                {
                    "queries": n,
                    "remainder": k,
                    "constant": right[k],
                    "printed_constant_over_that_of_remainder_0": as_printed[k] / as_printed[0],
                    "constant_over_that_of_remainder_0": right[k] / right[0],
                }
            )
    of_two = printed_total_of_two(float(variance))
    totals = pl.DataFrame(
        [
            {"formula": f"A.5, {n} queries", "total_printed": float(printed_sum(variance, n).sum())}
            for n in QUERIES
        ]
        + [{"formula": "Theorem A.8", "total_printed": of_two}]
    )
    return Findings(
        tables={
            "knots": pl.DataFrame(errors),
            "knots-constants": pl.DataFrame(constants),
            "knots-totals": totals,
        },
        notes=(
            "Equations A.5 and A.6 hold with the exponent y^2 / (2 n v), k (n - k) in the place of k (n - 1), the sum "
            "of n - 1 squares, and division by theta^n. A.6 has one minus too many. As printed they are no "
            "probabilities: their totals are not 1.",
            f"Theorem A.8's constants are exchanged: its probabilities add up to {of_two:.3f}. "
            "`closed-forms` has its delta by the law of the sum.",
        ),
    )


def class_weights(variance: Fraction, n: int) -> Floats:
    """c(n, k) for k = 0 ... n - 1: the sum over u, one coordinate after the other, by the sum of u so far."""
    line, plain = _line(variance, n)
    v = float(variance)
    moved = np.exp(-(line**2 + 2 * line) / (2 * v))
    weights = []
    for k in range(n):
        by_sum = np.zeros(line.size)
        # The sum of no coordinates is 0.
        by_sum[line.size // 2] = 1.0
        # One convolution for each coordinate, O(n reach**2), in the place of a sum over reach**(n - 1)
        # points.
        for coordinate in range(n - 1):
            by_sum = np.convolve(by_sum, moved if coordinate < k else plain, mode="same")
        # The last coordinate is minus the sum of the others: its square is the term (sum u)^2.
        weights.append(math.exp(-k * (n - k) / (2 * n * v)) * float(by_sum @ plain))
    constants: Floats = np.array(weights) / plain.sum() ** n
    return constants


def sum_by_classes(variance: Fraction, n: int) -> Floats:
    """P(S = y), by the corrected A.5, at the points of `sum_law`."""
    points = _points(variance, n)
    probabilities: Floats = class_weights(variance, n)[points % n] * np.exp(
        -(points**2) / (2 * n * float(variance))
    )
    return probabilities


def printed_weights(variance: Fraction, n: int) -> Floats:
    """c(n, k) as printed, for k = 0 ... n - 1. Its u_n, which the text does not define, is a number of its own."""
    _, plain = _line(variance, n)
    k = np.arange(n)
    factor = np.exp(-(k * (n - 1) - k * (n - k)) / (2 * n * float(variance)))
    constants: Floats = class_weights(variance, n) * factor * plain.sum() ** (n + 1)
    return constants


def printed_sum(variance: Fraction, n: int) -> Floats:
    """The terms of A.5 as printed, at the points of `sum_law`."""
    points = _points(variance, n)
    terms: Floats = printed_weights(variance, n)[points % n] * np.exp(-(points**2) / (2 * float(variance)))
    return terms


def printed_total_of_two(variance: float) -> float:
    """What Theorem A.8's probabilities add up to, with c(m, s) = sum over i of exp(-(i - m)^2 / s^2) as it says."""
    reach = math.ceil(_KNOT_REACH * math.sqrt(variance))
    i = np.arange(-reach, reach + 1, dtype=np.float64)

    def c(centre: float, squared: float) -> float:
        return float(np.exp(-((i - centre) ** 2) / squared).sum())

    square = c(0, variance) ** 2
    even = c(0, 2 * variance) / square * float(np.exp(-(i**2) / variance).sum())
    odd = c(-1 / 2, 2 * variance) / square * float(np.exp(-((i + 1 / 2) ** 2) / variance).sum())
    return even + odd


def _points(variance: Fraction, n: int) -> Integers:
    size = sum_law(variance, n).size
    return np.arange(size, dtype=np.int64) - size // 2


def _line(variance: Fraction, n: int) -> tuple[Floats, Floats]:
    """Whole numbers far enough on both sides, and exp(-i^2 / (2 v)) there."""
    reach = math.ceil(_KNOT_REACH * math.sqrt(n * float(variance)))
    line = np.arange(-reach, reach + 1, dtype=np.float64)
    return line, np.exp(-(line**2) / (2 * float(variance)))
