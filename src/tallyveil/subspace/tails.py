"""Bounds on how far the noise reaches: the probability that its norm is t or more.

Problem. Wanted is a bound on Pr[|z| >= t] that holds for every t, for noise on a lattice of dimension m. The norm is
that of the law; for the Gaussian it is l2.

Steps. Let Z(e) be the sum of exp(-e |z|) over the lattice. For 0 < s < 1,

    Pr[|z| >= t] <= exp(-(1 - s) e t) Z(s e) / Z(e) <= exp(-(1 - s) e t) s^-m,

and s = m / (e t) gives the least bound, (exp(1) e t / m)^m exp(-e t). In the same way the Gaussian has
(exp(1) t^2 / (m v))^(m/2) exp(-t^2 / (2 v)). docs/proofs/integer-subspace.md, section 8, proves Z(s e) <= s^-m Z(e).

Stopping rule. Where s would be 1 or more, the bound is 1.

Worked case. Nine dimensions and e = 1/4: at t = 120 the bound is (exp(1) * 30 / 9)^9 exp(-30) = 3.9e-5.

Source: Banaszczyk 1993, Lemma 1.5, for the Gaussian; Dharangutte et al. 2022, Theorems 12 and 15, for `paper_tail`.
"""

import math
from fractions import Fraction

from flint import arb

from tallyveil.accounting.rounding import round_up
from tallyveil.noise.balls import precision, rational
from tallyveil.subspace.lattice import Lattice
from tallyveil.subspace.mechanisms import GeneralisedGaussian, LatticeLaw

_BITS = 128
"""Bits of ball arithmetic, far more than the 53 of the floats that are printed."""


def tail_bound(law: LatticeLaw, dimension: int, t: Fraction) -> float:
    """An upper bound on the probability that the norm of the noise is t or more, rounded up. It holds for every t."""
    gaussian = isinstance(law, GeneralisedGaussian)
    power = Fraction(dimension, 2) if gaussian else Fraction(dimension)
    reach = t * t * law.rate if gaussian else t * law.rate
    # Up to here the least of the bound over its free parameter is at the end of its range, which says 1.
    if reach <= power:
        return 1.0
    with precision(_BITS):
        log = rational(power) * (1 + rational(reach / power).log()) - rational(reach)
        return min(1.0, round_up(log.exp()))


def tail_radius(law: LatticeLaw, dimension: int, probability: Fraction) -> int:
    """The least whole t at which `tail_bound` is at most the probability."""
    low, high = 0, 1
    # The bound never rises with t, so doubling and bisection find the least whole t.
    while tail_bound(law, dimension, Fraction(high)) > probability:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (low, middle) if tail_bound(law, dimension, Fraction(middle)) <= probability else (middle, high)
        )
    return high


def paper_tail(law: LatticeLaw, lattice: Lattice, t: Fraction) -> float:
    """The paper's bound, K t^m exp(-e t) or K t^m exp(-t^2 / (2 v)), which it states for the l2 norm.

    It is no certified bound: the paper proves it for "large enough" t, and does not say how large that is.
    """
    m = lattice.dimension
    factor = 2 if isinstance(law, GeneralisedGaussian) else 4
    with precision(_BITS):
        volume = arb.pi() ** (arb(m) / 2) / (arb(m) / 2 + 1).gamma()
        constant = factor * arb(2) ** m * volume / arb(lattice.determinant_squared()).sqrt()
        reach = t * t * law.rate if isinstance(law, GeneralisedGaussian) else t * law.rate
        bound = constant * rational(t) ** m * (-rational(reach)).exp()
        return math.inf if not bound.is_finite() else float(bound.mid())
