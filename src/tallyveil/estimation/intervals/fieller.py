"""Intervals for the ratio of two counts, from their estimates and covariance (Fieller).

Problem. The estimates a and b of two counts are normal with known covariance. Wanted are all ratios r that the
estimates do not contradict. The counts are not negative, and the second is above zero. So r is at least 0, and a share
is at most 1.

Step. If r is the true ratio, a - r b is normal with mean 0 and variance V(r) = Var a - 2 r Cov(a, b) + r^2 Var b. So r
is kept if (a - r b)^2 <= z^2 V(r). This is a quadratic inequality, A r^2 - 2 B r + C <= 0, with A = b^2 - z^2 Var b,
B = a b - z^2 Cov(a, b) and C = a^2 - z^2 Var a. The true ratio is kept with exactly the level, however small b is.

Three cases. If b is further from zero than z standard errors, A is positive, and the kept ratios are an interval.
Otherwise they are everything outside an interval, or every number. Then b may be zero, and the ratio may be of any
size. No interval of bounded length can have its level for every truth (Gleser and Hwang 1987).

Result. The least and the greatest kept ratio from 0 to `most`. The greatest is infinite where every large ratio is
kept. If none is kept, the result is the possible ratio nearest to a / b, or every ratio if b is not above zero. These
rules add ratios and take away none that is possible.

Worked case. a = 10 and b = 100 are independent with standard errors 2 and 5, and z = 2. A = 9900, B = 1000, C = 84. The
ends are (1000 -+ sqrt(1000^2 - 9900 x 84)) / 9900, that is 0.0596 and 0.1425.
"""

import math

from tallyveil.arrays import Floats


def fieller_ends(values: Floats, covariance: Floats, quantile: float, most: float) -> tuple[float, float]:
    """The least and the greatest ratio of the first count to the second that the estimates do not contradict.

    Args:
        values: The two estimates.
        covariance: Their covariance; shape (2, 2).
        quantile: z, the quantile of the normal law for the level.
        most: Greatest possible ratio: 1 for a share, infinity for any other ratio.
    Returns:
        Two numbers from 0 to `most`. The interval contains the true ratio at least as often as the level says, if the
        estimates are normal.
    Source: Fieller 1954, section 2.
    """
    a, b = (float(value) for value in values)
    square = quantile * quantile
    # Var a, Cov(a, b) and Var b.
    first, both, second = float(covariance[0, 0]), float(covariance[0, 1]), float(covariance[1, 1])
    quadratic = (b * b - square * second, a * b - square * both, a * a - square * first)
    # B^2 - A C, written so that the fourth powers of the estimates cancel before they are computed.
    spread = max(b * b * first - 2 * a * b * both + a * a * second, 0.0)
    discriminant = square * (spread - square * (first * second - both * both))
    ratios = [root for root in _roots(quadratic, discriminant) if 0 <= root <= most]
    # The kept set is cut off at 0 and `most`: an end belongs to it even where no root is there.
    ratios += [end for end in (0.0, most) if _is_kept(quadratic, end)]
    if ratios:
        return min(ratios), max(ratios)
    # Every ratio contradicts the estimates: the rules of the docstring, which only add ratios.
    if b <= 0:
        return 0.0, most
    nearest = min(max(a / b, 0.0), most)
    return nearest, nearest


def _roots(quadratic: tuple[float, float, float], discriminant: float) -> list[float]:
    """Zeros of A r^2 - 2 B r + C. Neither is computed as a difference of nearly equal numbers."""
    square, half, constant = quadratic
    if discriminant < 0:
        if square <= 0:
            return []
        discriminant = 0.0  # a / b is kept, so only rounding can make it negative
    # The root with the sum of equal signs; the other follows from the product of the roots, C / A.
    larger = half + math.copysign(math.sqrt(discriminant), half)
    roots = [larger / square] if square else []
    return [*roots, constant / larger] if larger else roots


def _is_kept(quadratic: tuple[float, float, float], ratio: float) -> bool:
    square, half, constant = quadratic
    if math.isinf(ratio):
        return square < 0 or (square == 0 and (half > 0 or (half == 0 and constant <= 0)))
    return square * ratio * ratio - 2 * half * ratio + constant <= 0
