"""Table 2: how far the law of a sum of discrete Gaussians is from the Gaussian density, certified.

The residual is r = sup over integers k of |P(S = k) - phi(k / B) / B|, with S the sum of n draws of variance
v and B = sqrt(n v). The law of S is the n-th power of a polynomial, computed in ball arithmetic; what is cut
off is bounded and added to the balls.
"""

import math
from fractions import Fraction

import polars as pl
from flint import arb, arb_poly

from tallyveil.accounting.numbers import Bounds
from tallyveil.errors import SolverError
from tallyveil.noise.balls import precision, rational
from tallyveil_studies.exhibit import Findings, StudyInputs
from tallyveil_studies.fdp_census.printed import compared

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
