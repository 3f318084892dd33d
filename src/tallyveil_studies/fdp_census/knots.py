"""Appendix A.3: the knots of the trade-off functions of two and more queries, as printed and as they are.

Variables: v, the variance proxy of one query (sigma squared); n, the number of queries, each of which moves by 1; S,
the sum of their noise; k, the remainder of a value of S by n.

Equations A.5 and A.6 give the type I and type II errors of the test that rejects above t: P(S > t) and P(S <= t - n). A
point x whose coordinates add up to y = n m + k is a point with k coordinates m + 1 and n - k coordinates m, and
something u that adds up to 0. So sum x^2 = y^2 / n + k (n - k) / n + sum u^2 + 2 (u_1 + ... + u_k), and

    P(S = y) = c(n, k) exp(-y^2 / (2 n v)),
    c(n, k) = exp(-k (n - k) / (2 n v)) / theta^n
              sum over u_1 ... u_(n-1) of exp(-(sum u^2 + (sum u)^2 + 2 (u_1 + ... + u_k)) / (2 v)),

with theta = sum of exp(-i^2 / (2 v)). Printed are exp(-y^2 / (2 v)), the factor exp(-k (n - 1) / (2 n v)), one square
more in the sum, and no theta. Theorem A.8 is the case n = 2; its constants are exchanged in print.

Worked case: n = 2, k = 0: P(S = 2 i) = exp(-i^2 / v) (sum of exp(-u^2 / v)) / theta^2.
"""

import math
from fractions import Fraction
from typing import Final

import numpy as np
import polars as pl

from tallyveil.arrays import Floats, Integers
from tallyveil_studies.exhibit import Findings, StudyInputs
from tallyveil_studies.fdp_census.allocation import FOLDS, geolevel_guarantee, variances
from tallyveil_studies.fdp_census.appendix import sum_law

QUERIES: Final = (2, 3, FOLDS)
"""Numbers of queries: two, as in Theorem A.8; three, the first with a remainder that is not its own mirror; and
the paper's ten."""

_REACH: Final = 16
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
    reach = math.ceil(_REACH * math.sqrt(variance))
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
    reach = math.ceil(_REACH * math.sqrt(n * float(variance)))
    line = np.arange(-reach, reach + 1, dtype=np.float64)
    return line, np.exp(-(line**2) / (2 * float(variance)))
